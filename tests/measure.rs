//! Commands that broke other tools, as `bench` meets them: what they write, read, need and are. How they end, and what
//! they leave behind, is in `measure_ends`.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test that cannot prepare has failed")]
#![cfg(target_os = "linux")]

mod support;

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use premain::json::Json;
use support::{at, bench, command, document, number, outcome, premain, program, run, scratch, skip, tool};

fn script(dir: &Path, name: &str, text: &str) -> PathBuf {
    let path = dir.join(name);
    std::fs::write(&path, text).unwrap();
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).unwrap();
    path
}

fn done(args: &[&str]) -> Json {
    let (code, j, err) = bench(args);
    assert_eq!((code, err.as_str()), (0, ""), "{args:?}");
    j
}

// -- output --

#[test]
fn ten_megabytes_arrive_and_are_counted() {
    let j = done(&["-r", "3", "--", "head", "-c", "10000000", "/dev/zero"]);
    assert_eq!(number(command(&j, 0), "output.bytes"), 10_000_000);
    assert_eq!(*at(command(&j, 0), "output.constant"), Json::Bool(true));
    let byte = number(command(&j, 0), "spawn_to_byte_ns.p50");
    assert!(byte < number(command(&j, 0), "spawn_to_exit_ns.p50"), "the first byte comes before the end");
}

#[test]
fn megabytes_on_standard_error_do_not_block() {
    let j = done(&["--samples", "-r", "2", "sh -c 'head -c 5000000 /dev/zero >&2'"]);
    let c = command(&j, 0);
    assert_eq!((number(c, "output.bytes"), at(c, "spawn_to_byte_ns")), (0, &Json::Null));
    let bytes = at(c, "samples.stderr_bytes").as_array().unwrap();
    assert!(bytes.iter().all(|b| b.as_u64() == Some(5_000_000)), "{bytes:?}");
    let streams = at(c, "samples.first_output_stream").as_array().unwrap();
    assert!(streams.iter().all(|s| s.as_str() == Some("stderr")));
}

#[test]
fn no_output_is_null_and_never_zero() {
    let j = done(&["-r", "6", "true"]);
    assert_eq!(*at(command(&j, 0), "spawn_to_byte_ns"), Json::Null);
    assert_eq!(number(command(&j, 0), "output.bytes"), 0);
    let (code, out, _) = run(["bench", "--probes", "0", "-r", "6", "true"]);
    let row = out.lines().find(|l| l.starts_with("true")).unwrap_or_default();
    assert!(code == 0 && row.split_whitespace().any(|cell| cell == "-"), "{out}");
}

#[test]
fn a_command_that_closes_its_output_and_goes_on_is_waited_for() {
    let j = done(&["-r", "4", "--expect-exit", "7", "sh -c 'exec >&- 2>&-; sleep 0.02; exit 7'"]);
    assert_eq!(number(command(&j, 0), "exit_codes.7"), 4);
    assert_eq!(number(command(&j, 0), "stdout_held_open"), 0);
}

#[test]
fn output_that_differs_is_told() {
    let dir = scratch("measure-output");
    let expected = dir.join("expected");
    std::fs::write(&expected, "a b||").unwrap();
    let expected = expected.to_str().unwrap();
    // Words behind the dashes arrive as they are.
    done(&["-r", "3", "--expect-output", expected, "--", "printf", "%s|", "a b", ""]);
    done(&["-r", "3", "--expect-output", expected, "printf '%s|' 'a b' ''"]);
    let (code, _, err) = bench(["-r", "3", "--expect-output", expected, "--", "printf", "%s|", "a b"]);
    assert_eq!(code, 4);
    assert!(err.contains("standard output is not what was expected"), "{err}");
    let (code, _, err) = bench(["-r", "3", "--expect-same-output", "echo a", "echo b"]);
    assert!(code == 4 && err.contains("echo b: its standard output is not the reference's"), "{code} {err}");
    assert_eq!(bench(["-r", "3", "--expect-same-output", "echo a", "printf 'a\\n'"]).0, 0);
}

#[test]
fn a_full_disk_behind_our_own_output_is_an_error() {
    let full = || std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let o = premain().args(["bench", "--json", "--probes", "0", "-r", "2", "true"]).stdout(full()).output().unwrap();
    assert_eq!(outcome(o), (2, String::new(), "premain: No space left on device\n".into()));
    let (code, _, err) = run(["bench", "--probes", "0", "-r", "2", "true", "--export-json", "/dev/full"]);
    assert_eq!((code, err.as_str()), (2, "premain: /dev/full: cannot write: No space left on device\n"));
}

// -- input and surroundings --

#[test]
fn each_start_reads_the_same_from_the_beginning() {
    let dir = scratch("measure-stdin");
    let file = dir.join("input");
    std::fs::write(&file, "line one\nline two\n").unwrap();
    let j = done(&["-r", "5", "--stdin", file.to_str().unwrap(), "cat"]);
    assert_eq!(number(command(&j, 0), "output.bytes"), 18);
    assert_eq!(*at(command(&j, 0), "output.constant"), Json::Bool(true));
    // Nothing to read is an end at once, whatever our own standard input is.
    assert_eq!(number(command(&done(&["-r", "5", "cat"]), 0), "output.bytes"), 0);
}

/// Runs premain by a shell that does something first.
fn by_shell(prelude: &str, args: &[&str]) -> Command {
    let mut c = Command::new("sh");
    let line = format!("{prelude} exec \"$0\" \"$@\"");
    c.args(["-c", &line, env!("CARGO_BIN_EXE_premain")]).args(args).env_remove("NO_COLOR");
    c
}

#[test]
fn our_own_streams_may_be_closed() {
    let out = scratch("measure-closed").join("out.json");
    let args =
        ["bench", "--probes", "0", "-r", "3", "--stdin", "inherit", "--export-json", out.to_str().unwrap(), "cat"];
    let o = by_shell("exec <&- >&- 2>&-;", &args).output().unwrap();
    assert_eq!(o.status.code(), Some(0));
    let j = Json::parse(&std::fs::read_to_string(&out).unwrap()).unwrap();
    assert_eq!(number(command(&j, 0), "exit_codes.0"), 3);
}

/// Signals, environment, limits: a command meets what it would meet without us.
#[test]
fn the_command_inherits_what_it_should() {
    let dir = scratch("measure-inherits");
    for argv in [
        &["grep", "-E", "Sig(Blk|Ign|Cgt)|^Threads|NoNewPrivs", "/proc/self/status"][..],
        // Descriptors: none of ours, and none of the runner's less.
        &["ls", "/proc/self/fd"],
        &["env"],
        &["pwd"],
        &["sh", "-c", "umask; ulimit -a"],
        &["cat", "/proc/self/personality", "/proc/self/oom_score_adj"],
    ] {
        let expected = dir.join("expected");
        let direct = Command::new(argv[0]).args(&argv[1..]).env_remove("NO_COLOR").output().unwrap();
        if !direct.status.success() {
            continue;
        }
        std::fs::write(&expected, direct.stdout).unwrap();
        for method in ["fork", "vfork"] {
            let flags = ["-r", "2", "--spawn", method, "--expect-output", expected.to_str().unwrap(), "--"];
            let (code, _, err) = bench([&flags[..], argv].concat());
            assert_eq!((code, err.as_str()), (0, ""), "{argv:?} by {method}");
        }
    }
}

#[test]
fn children_that_are_not_to_be_waited_for_are_waited_for() {
    let Some(env) = tool("env") else { return };
    let mut c = Command::new(env);
    c.args([
        "--ignore-signal=CHLD",
        env!("CARGO_BIN_EXE_premain"),
        "bench",
        "--json",
        "--probes",
        "1",
        "-r",
        "3",
        "true",
    ]);
    let (code, j, err) = document(&mut c);
    if code == 125 {
        return skip("this env has no --ignore-signal");
    }
    assert_eq!((code, err.as_str()), (0, ""));
    assert_eq!(number(command(&j, 0), "starts"), 3);
}

#[test]
fn few_descriptors_are_an_error_and_no_panic() {
    for limit in 4..14 {
        let (code, _, err) = document(&mut by_shell(
            &format!("ulimit -n {limit};"),
            &["bench", "--json", "--probes", "1", "-r", "2", "true"],
        ));
        assert!(code == 0 || (code == 2 && err.starts_with("premain: ")), "{limit} descriptors: {code} {err}");
        assert!(!err.contains("panicked"), "{err}");
    }
}

#[test]
fn without_memory_files_a_temporary_one_serves_and_is_removed() {
    let dir = scratch("measure-memfd");
    let Some(deny) = program(&dir, "deny") else { return };
    let tmp = dir.join("tmp");
    std::fs::create_dir(&tmp).unwrap();
    let mut c = Command::new(deny);
    c.args(["memfd_create", env!("CARGO_BIN_EXE_premain"), "bench", "--json", "--probes", "0", "-r", "3", "true"]);
    let (code, j, err) = document(c.env("TMPDIR", &tmp));
    if code == 3 {
        return skip(&format!("seccomp: {err}"));
    }
    assert_eq!((code, err.as_str()), (0, ""));
    assert!(at(&j, "setting.control_source").as_str().unwrap().starts_with(tmp.to_str().unwrap()));
    assert_eq!(std::fs::read_dir(&tmp).unwrap().count(), 0, "nothing is left there");
}

#[test]
fn without_ptrace_threads_are_a_lower_bound_and_the_rest_is_measured() {
    let dir = scratch("measure-ptrace");
    let Some(deny) = program(&dir, "deny") else { return };
    let mut c = Command::new(deny);
    c.args(["ptrace,perf_event_open", env!("CARGO_BIN_EXE_premain"), "bench", "--json", "-r", "3", "true"]);
    let (code, j, err) = document(&mut c);
    if code == 3 {
        return skip(&format!("seccomp: {err}"));
    }
    assert_eq!((code, err.as_str()), (0, ""));
    let probes = at(command(&j, 0), "probes");
    assert_eq!((at(probes, "threads_exact"), at(probes, "syscalls")), (&Json::Bool(false), &Json::Null));
    assert!(at(probes, "reason").as_str().unwrap().contains("ptrace"), "{probes}");
    assert_eq!(number(command(&j, 0), "starts"), 3);
}

// -- memory --

#[test]
fn one_command_s_memory_is_not_the_next_one_s() {
    let Some(python) = tool("python3") else { return };
    let big = format!("{} -c 'x=bytearray(100<<20)'", python.display());
    for order in [[big.as_str(), "/bin/true"], ["/bin/true", big.as_str()]] {
        let j = done(&["-r", "3", order[0], order[1]]);
        let (large, small) = if order[0] == big { (0, 1) } else { (1, 0) };
        assert!(number(command(&j, large), "max_rss_bytes.min") >= 100 << 20);
        let small = command(&j, small);
        assert!(number(small, "max_rss_bytes.max") < 20 << 20, "{}", at(small, "max_rss_bytes"));
        assert!(number(small, "max_rss_floor_bytes.p50") > 0);
    }
}

#[test]
fn our_memory_does_not_grow_with_the_samples() {
    let own = |rounds: &str| number(&done(&["-r", rounds, "--stdout", "null", "true"]), "setting.own_max_rss_bytes");
    let (few, many) = (own("5"), own("1500"));
    assert!(many < few + (256 << 10), "{few} bytes for 5 rounds, {many} for 1500");
}

// -- the file that is executed --

#[test]
fn a_bare_name_is_resolved_once_and_recorded_whole() {
    let dir = scratch("measure-path");
    std::fs::copy("/bin/true", dir.join("my-true")).unwrap();
    let mut c = premain();
    c.args(["bench", "--json", "--probes", "0", "-r", "2", "my-true"]);
    // Found by an element that is relative: the record is not.
    c.current_dir(dir.parent().unwrap()).env("PATH", "no-such:measure-path:/usr/bin");
    let (code, j, err) = document(&mut c);
    assert_eq!((code, err.as_str()), (0, ""));
    assert_eq!(at(command(&j, 0), "path").as_str(), dir.join("my-true").to_str());
}

#[test]
fn a_file_that_vanishes_between_rounds_is_an_error_that_names_the_round() {
    let dir = scratch("measure-vanishes");
    let count = dir.join("count");
    let text = format!("#!/bin/sh\necho >>'{0}'\n[ $(wc -l <'{0}') -lt 5 ] || rm \"$0\"\n", count.display());
    let path = script(&dir, "vanishes", &text);
    let (code, j, err) = bench(["-r", "9", path.to_str().unwrap()]);
    assert_eq!((code, &j), (4, &Json::Null));
    assert_eq!(err, format!("premain: {}: cannot execute in round 6: No such file or directory\n", path.display()));
}

#[test]
fn a_missing_interpreter_is_named() {
    let dir = scratch("measure-interpreter");
    let path = script(&dir, "orphan", "#!/no/such/interpreter\n");
    for verb in ["bench", "explain"] {
        let (code, _, err) = run([verb, path.to_str().unwrap()]);
        let expected =
            format!("premain: {}: cannot execute: its interpreter /no/such/interpreter is missing\n", path.display());
        assert_eq!((code, err), (4, expected));
    }
}

#[test]
fn exec_fails_alike_by_every_method() {
    let dir = scratch("measure-enoexec");
    let path = script(&dir, "no-shebang", "echo hi\n");
    for method in ["fork", "vfork"] {
        let (code, _, err) = bench(["-r", "2", "--spawn", method, path.to_str().unwrap()]);
        assert!(code == 4 && err.contains("cannot execute: Exec format error"), "{method}: {err}");
    }
}

#[test]
fn what_cannot_be_set_up_is_not_blamed_on_the_command() {
    let dir = scratch("measure-cwd");
    for method in ["fork", "vfork"] {
        let (code, _, err) = bench(["-r", "2", "--spawn", method, "--cpu", "1023", "true"]);
        assert!(code == 2 && err.starts_with("premain: --cpu 1023: "), "{code} {err}");
        // The first start removes what the next one would enter.
        let gone = dir.join("gone");
        std::fs::create_dir(&gone).unwrap();
        let line = format!("rmdir {}", gone.display());
        let (code, _, err) = bench(["-r", "2", "--spawn", method, "--cwd", gone.to_str().unwrap(), &line]);
        assert_eq!(code, 2, "{err}");
        assert!(err.ends_with("cannot enter the working directory: No such file or directory\n"), "{err}");
    }
}

#[test]
fn a_file_that_is_open_for_writing_is_waited_for_and_counted() {
    let dir = scratch("measure-busy");
    let file = dir.join("busy");
    std::fs::copy("/bin/true", &file).unwrap();
    // A session of its own: what a hook leaves in its group ends with it.
    let (hold, ready) =
        (script(&dir, "hold", "#!/bin/sh\nexec 3>>\"$1\"; touch \"$2\"; exec sleep 0.1\n"), dir.join("ready"));
    let text = "#!/bin/sh\nrm -f \"$3\"; setsid \"$1\" \"$2\" \"$3\" &\nwhile [ ! -e \"$3\" ]; do sleep 0.001; done\n";
    let prepare = [&script(&dir, "prepare", text), &hold, &file, &ready].map(|p| p.display().to_string()).join(" ");
    let (code, j, err) = bench(["-r", "3", "--prepare", &prepare, file.to_str().unwrap()]);
    assert_eq!((code, err.as_str()), (0, ""));
    assert!(number(&j, "setting.busy_retries") > 0);
    assert!(at(&j, "warnings").as_array().unwrap().iter().any(|w| w.as_str().unwrap().contains("open for writing")));
    // For ever is too long.
    let held = std::fs::OpenOptions::new().append(true).open(&file).unwrap();
    let (code, _, err) = bench(["-r", "3", file.to_str().unwrap()]);
    assert_eq!((code, err), (4, format!("premain: {}: cannot execute: Text file busy\n", file.display())));
    drop(held);
}

#[test]
fn too_many_arguments_are_told_with_their_sizes() {
    let Some(prlimit) = tool("prlimit") else { return };
    // A quarter of the stack's limit is what exec takes: lowered under our feet, since we could not be started either.
    let setup = format!("sh -c '{} --pid $PPID --stack=262144:'", prlimit.display());
    let mut c = premain();
    for n in 0..4 {
        c.env(format!("LARGE{n}"), "x".repeat(100_000));
    }
    let (code, out, err) =
        outcome(c.args(["bench", "-w", "0", "-r", "2", "--setup", &setup, "true"]).output().unwrap());
    assert_eq!((code, out.as_str()), (4, ""));
    assert!(err.starts_with("premain: true: cannot execute: Argument list too long: "), "{err}");
    assert!(err.contains(" KiB of environment, the longest string 97.7 KiB; the system takes 128 KiB in all"), "{err}");
}

#[test]
fn a_server_is_ended_at_its_first_byte() {
    for server in ["sh -c 'echo up; exec sleep 3600'", "sh -c 'trap \"\" TERM; echo up; sleep 3600; sleep 3600'"] {
        let j = done(&["-r", "2", "--until", "first-byte", server]);
        assert_eq!(number(command(&j, 0), "output.bytes"), 3);
        assert_eq!(number(command(&j, 0), "failures"), 0);
    }
    let (code, _, err) = bench(["-r", "2", "--until", "first-byte", "true"]);
    assert!(code == 4 && err.contains("ended without a byte of output"), "{err}");
}
