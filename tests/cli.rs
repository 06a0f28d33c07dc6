//! The binary as its user meets it: help, usage errors, exit codes, quiet ends.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot prepare has failed")]

mod support;

use std::io::Read;
use std::process::Stdio;

use support::{premain, run, scratch};

#[test]
fn help_is_on_stdout_and_fits_a_screen() {
    for args in [&["--help"][..], &["-h"], &["help"]] {
        let (code, out, err) = run(args);
        assert_eq!((code, err.as_str()), (0, ""), "{args:?}");
        assert!(out.lines().count() <= 40, "{} lines", out.lines().count());
        assert!(out.lines().all(|l| l.chars().count() <= 120));
        for verb in premain::cli::VERBS {
            assert!(out.contains(&format!("  {} ", verb.name)), "{} is missing", verb.name);
        }
    }
}

#[test]
fn every_verb_has_help_with_all_its_flags() {
    for verb in premain::cli::VERBS {
        let (code, out, err) = run([verb.name, "--help"]);
        assert_eq!((code, err.as_str()), (0, ""), "{}", verb.name);
        assert_eq!(run(["help", verb.name]).1, out);
        let all = run(["help", verb.name, "--all"]).1;
        for (_, docs) in (verb.flags)() {
            for doc in docs {
                assert!(all.contains(&format!("--{}", doc.long)), "{} --{}", verb.name, doc.long);
            }
        }
        assert!(all.lines().all(|l| l.chars().count() <= 80), "{}: wider than 80 columns", verb.name);
    }
}

#[test]
fn the_version_is_the_package_s() {
    assert_eq!(run(["--version"]).1, format!("premain {}\n", env!("CARGO_PKG_VERSION")));
}

#[test]
fn usage_errors_name_the_flag_and_end_with_2() {
    for (args, message) in [
        (&[][..], "premain: no program given; try 'premain --help'\n"),
        (&["-r", "0", "true"], "premain: -r 0: must be at least 1\n"),
        (&["bench", "--runs=18446744073709551616", "true"], "premain: --runs 18446744073709551616: is too large\n"),
        (&["bench", "-w", "-1", "true"], "premain: -w -1: expected a whole number\n"),
        (&["bench", "--rusn", "5", "true"], "premain: --rusn: unknown flag; did you mean --runs?\n"),
        (&["bench", "--spawn", "posix", "true"], "premain: --spawn posix: expected fork, vfork\n"),
        (&["bench"], "premain: no command given; try 'premain bench --help'\n"),
        (&["bench", ""], "premain: command '': the command is empty\n"),
        (&["bench", " "], "premain: command ' ': the command is empty\n"),
        (&["bench", "--"], "premain: no command given\n"),
        (&["bench", "sh -c 'exit 0"], "premain: command 'sh -c 'exit 0': a ' quote is not closed\n"),
        (&["bench", "-m", "9", "-M", "3", "true"], "premain: --min-runs 9 is more than --max-runs 3\n"),
        (
            &["bench", "--timeout", "soon", "true"],
            "premain: --timeout soon: expected a time such as 200ms, 1.5s or 2m\n",
        ),
        (&["help", "bensh"], "premain: help: bensh: no such verb; did you mean bench?\n"),
        (&["inspect"], "premain: no file given; try 'premain inspect --help'\n"),
    ] {
        let (code, out, err) = run(args);
        assert_eq!((code, out.as_str(), err.as_str()), (2, "", message), "{args:?}");
    }
}

#[test]
fn commands_that_cannot_run_end_with_4_and_their_reason() {
    let dir = scratch("cannot-run");
    let script = dir.join("no-shebang");
    std::fs::write(&script, "echo hi\n").unwrap();
    std::fs::set_permissions(&script, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let script = script.to_str().unwrap();
    for (program, reason) in [
        ("/no/such/program", "cannot execute: No such file or directory"),
        ("no-such-program-at-all", "cannot execute: not found in PATH"),
        ("/", "cannot execute: is a directory"),
        ("/etc/passwd", "cannot execute: Permission denied"),
        (
            script,
            "cannot execute: Exec format error (no program for this machine, or a script without a #! line: no shell is tried)",
        ),
    ] {
        for verb in ["explain", "bench"] {
            let (code, out, err) = run([verb, "--", program]);
            assert_eq!((code, out.as_str()), (4, ""), "{program}: {err}");
            assert_eq!(err, format!("premain: {program}: {reason}\n"), "{verb}");
        }
    }
}

#[test]
fn failing_commands_end_with_4_unless_accepted() {
    let (code, _, err) = run(["bench", "-r", "3", "sh -c 'echo broken >&2; exit 3'"]);
    assert_eq!(code, 4);
    assert!(err.ends_with("exit code 3 in round 1; it said: broken (-i accepts failures)\n"), "{err}");
    let (code, _, err) = run(["bench", "-r", "3", "sh -c 'kill -9 $$'"]);
    assert!(code == 4 && err.contains("killed by signal 9 (SIGKILL)"), "{code} {err}");
    for accept in ["-i", "-i=3", "--ignore-failure=1,3", "--expect-exit=3"] {
        let (code, out, err) = run(["bench", "-r", "3", "--probes", "0", accept, "sh -c 'exit 3'"]);
        assert_eq!(code, 0, "{accept}: {err}");
        assert!(out.contains("exit 3"), "{out}");
    }
    assert_eq!(run(["bench", "-r", "3", "-i=1", "sh -c 'exit 3'"]).0, 4);
}

#[test]
fn a_command_that_runs_too_long_ends_with_124() {
    let (code, out, err) = run(["bench", "-r", "1", "--timeout", "100ms", "sleep 60"]);
    assert_eq!((code, out.as_str()), (124, ""));
    assert_eq!(err, "premain: sleep 60: still running after 100 ms (--timeout sets the limit)\n");
}

#[test]
fn a_closed_pipe_ends_quietly() {
    let mut child = premain()
        .args(["bench", "-r", "3", "--probes", "0", "--json", "true"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let mut err = String::new();
    child.stderr.take().unwrap().read_to_string(&mut err).unwrap();
    assert_eq!((child.wait().unwrap().code(), err.as_str()), (Some(0), ""));
}

#[test]
fn a_program_called_like_a_verb_is_reached_behind_dashes() {
    let dir = scratch("verb-name");
    std::fs::copy("/bin/true", dir.join("bench")).unwrap();
    let out = premain().args(["-r", "3", "-w", "0", "--", "bench"]).env("PATH", &dir).output().unwrap();
    let (code, out, err) = support::outcome(out);
    assert_eq!((code, err.as_str()), (0, ""));
    assert!(out.starts_with("bench\n"), "{out}");
}

#[test]
fn arguments_that_are_not_utf8_arrive_and_are_kept() {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;
    let args = [
        OsStr::new("bench"),
        OsStr::new("--json"),
        OsStr::new("-r"),
        OsStr::new("2"),
        OsStr::new("--"),
        OsStr::new("printf"),
        OsStr::new("%s"),
        OsStr::from_bytes(b"\xff"),
    ];
    let (code, out, err) = run(args);
    assert_eq!((code, err.as_str()), (0, ""));
    let json = premain::json::Json::parse(&out).unwrap();
    let command = &json.get("commands").unwrap().as_array().unwrap()[0];
    let last = command.get("argv").unwrap().as_array().unwrap().last().unwrap();
    assert_eq!(last.get("bytes_hex").and_then(premain::json::Json::as_str), Some("ff"));
    let bytes = command.get("output").unwrap().get("bytes").unwrap().as_u64();
    assert_eq!(bytes, Some(1));
}
