//! `premain trace` on real programs: every kind of program, every means of observing, everything it writes.
//! No test looks at how long something took.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stderr, reason = "a test")]
#![allow(clippy::indexing_slicing, reason = "a test")]

mod support;

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

use premain::json::Json;
use premain::trace::event::parse_stream;
use premain::trace::phases::timeline;

const PHASES: [&str; 9] =
    ["fork", "exec", "loader start", "map", "relocate", "construct", "runtime init", "main", "teardown"];

/// Runs trace with `--json`; the first command of the document.
fn trace<S: AsRef<OsStr>>(args: impl IntoIterator<Item = S>) -> Json {
    let mut c = support::premain();
    c.args(["trace", "--json", "-i", "-r", "3"]).args(args);
    first(c)
}

fn first(mut c: Command) -> Json {
    let (code, out, err) = support::outcome(c.output().unwrap());
    assert_eq!(code, 0, "{err}");
    let document = Json::parse(&out).unwrap();
    assert_eq!(document.get("schema").and_then(Json::as_str), Some("premain.trace/1"));
    let command = document.get("commands").and_then(Json::as_array).unwrap()[0].clone();
    check(&command);
    command
}

fn number(j: &Json, key: &str) -> u64 {
    j.get(key).and_then(Json::as_u64).unwrap_or_else(|| panic!("{key} in {j}"))
}

fn list<'a>(j: &'a Json, key: &str) -> &'a [Json] {
    j.get(key).and_then(Json::as_array).unwrap_or_else(|| panic!("{key} in {j}"))
}

fn names(command: &Json) -> Vec<&str> {
    list(command, "phases").iter().map(|p| p.get("name").and_then(Json::as_str).unwrap()).collect()
}

/// What holds for every program: phases in order, each once, summing to the total.
fn check(command: &Json) {
    let names = names(command);
    let places: Vec<usize> = names.iter().map(|n| PHASES.iter().position(|p| p == n).unwrap()).collect();
    assert!(places.windows(2).all(|w| w[0] < w[1]), "{names:?}");
    let sum: u64 = list(command, "phases").iter().map(|p| number(p, "ns")).sum();
    assert_eq!(sum, number(command, "total_ns"));
}

/// A machine that lets nothing observe has nothing to test; everything else must work.
fn observable() -> bool {
    let mut c = support::premain();
    c.args(["trace", "--json", "-r", "1", "/bin/true"]);
    let (code, _, err) = support::outcome(c.output().unwrap());
    if code == 2 && err.contains("nothing can observe a start here") {
        support::skip(&err);
        return false;
    }
    true
}

/// Compiles a program of `tests/programs` with these flags; `None` where the compiler cannot.
fn compile(compiler: &str, dir: &Path, source: &str, name: &str, flags: &[&str]) -> Option<PathBuf> {
    let cc = support::tool(compiler)?;
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs").join(format!("{source}.c"));
    let out = dir.join(name);
    let done = Command::new(cc).arg("-O1").arg(source).arg("-o").arg(&out).args(flags).output().unwrap();
    if !done.status.success() {
        support::skip(&format!("{compiler} {flags:?}: {}", String::from_utf8_lossy(&done.stderr).trim()));
        return None;
    }
    Some(out)
}

#[test]
fn every_kind_of_program_has_its_phases() {
    if !observable() {
        return;
    }
    let dir = support::scratch("trace-kinds");
    let static_phases = ["fork", "exec", "runtime init", "main", "teardown"];
    let kinds: [(&str, &str, &[&str], &[&str]); 6] = [
        ("cc", "pie", &["-pie"], &PHASES),
        ("cc", "exec", &["-no-pie"], &PHASES),
        ("cc", "stripped", &["-s"], &PHASES),
        ("cc", "static", &["-static", "-no-pie"], &static_phases),
        ("cc", "static-pie", &["-static-pie"], &static_phases),
        ("musl-gcc", "musl-static", &["-static", "-no-pie"], &static_phases),
    ];
    for (compiler, name, flags, expected) in kinds {
        let Some(program) = compile(compiler, &dir, "hello", name, flags) else { continue };
        for backend in ["auto", "ptrace"] {
            let command = trace([OsStr::new("--backend"), OsStr::new(backend), program.as_os_str()]);
            let found = names(&command);
            // Where nothing marks main (neither uprobes nor ptrace), runtime init goes to main.
            let without_main: Vec<&str> = expected.iter().copied().filter(|p| *p != "runtime init").collect();
            let roughly = command.get("marks").and_then(Json::as_str) == Some("page faults");
            assert!(found == expected || (roughly && found == without_main), "{name} by {backend}: {found:?}");
        }
    }
}

#[test]
fn a_musl_program_without_libraries_has_no_map_phase() {
    if !observable() {
        return;
    }
    let dir = support::scratch("trace-musl");
    let Some(program) = compile("musl-gcc", &dir, "hello", "musl", &[]) else { return };
    let found = trace([&program]);
    assert!(names(&found).contains(&"loader start") && !names(&found).contains(&"map"), "{:?}", names(&found));
}

#[test]
fn threads_children_and_system_calls_are_counted() {
    if !observable() {
        return;
    }
    let dir = support::scratch("trace-threads");
    let Some(program) = support::program(&dir, "threads") else { return };
    let command = trace([&program]);
    if command.get("syscalls") == Some(&Json::Null) {
        return support::skip("ptrace is denied");
    }
    assert_eq!((number(&command, "threads_max"), number(&command, "child_processes")), (5, 0));
    let by_name = command.get("syscalls").and_then(|s| s.get("by_name")).unwrap();
    let made: u64 = ["clone", "clone3"].iter().filter_map(|n| by_name.get(n)).map(|r| number(r, "calls")).sum();
    assert_eq!(made, 4);
    let shell = trace(["/bin/sh", "-c", "/bin/true; exit 3"]);
    assert_eq!(number(&shell, "child_processes"), 1);
    assert_eq!(shell.get("status").and_then(Json::as_str), Some("exit code 3"));
}

#[test]
fn scripts_and_programs_that_execute_others_show_each_image() {
    if !observable() {
        return;
    }
    let dir = support::scratch("trace-images");
    let script = dir.join("script");
    std::fs::write(&script, "#!/usr/bin/env sh\nexit 0\n").unwrap();
    let mode = <std::fs::Permissions as std::os::unix::fs::PermissionsExt>::from_mode(0o755);
    std::fs::set_permissions(&script, mode).unwrap();
    let command = trace([&script]);
    assert_eq!(list(&command, "hops").len(), 2);
    let images = list(&command, "images");
    assert_eq!(images.len(), 2, "env, then sh");
    for image in images {
        assert!(list(image, "phases").iter().any(|p| p.get("name").and_then(Json::as_str) == Some("relocate")));
    }
}

#[test]
fn pages_written_by_relocation_are_those_predicted() {
    if !observable() {
        return;
    }
    let dir = support::scratch("trace-pages");
    let Some(program) = support::program(&dir, "hello") else { return };
    let command = trace([&program]);
    let libc = list(&command, "objects")
        .iter()
        .find(|o| o.get("path").and_then(Json::as_str).is_some_and(|p| p.ends_with("/libc.so.6")));
    let Some(libc) = libc else { return support::skip("not a glibc system") };
    let (written, predicted) = (number(libc, "pages_written"), number(libc, "pages_predicted"));
    assert!(written.abs_diff(predicted) <= 1, "{written} written, {predicted} predicted");
}

#[test]
fn a_slow_constructor_is_the_longest_stretch() {
    if !observable() {
        return;
    }
    let dir = support::scratch("trace-constructor");
    let library = compile("cc", &dir, "constructor", "libslow.so", &["-shared", "-fPIC"]);
    let (Some(library), Some(path)) = (library, dir.to_str()) else { return };
    let link = [library.to_str().unwrap(), &format!("-Wl,-rpath,{path}"), "-DMAIN"];
    let Some(program) = compile("cc", &dir, "constructor", "slow", &link) else { return };
    let command = trace([&program]);
    let slowest = list(&command, "gaps").iter().find(|g| g.get("phase").and_then(Json::as_str) == Some("construct"));
    let text = slowest.and_then(|g| g.get("text")).and_then(Json::as_str).unwrap_or("");
    assert!(text.contains("constructors of libslow.so"), "{command}");
}

#[test]
fn failures_are_told_by_the_exit_code() {
    if !observable() {
        return;
    }
    let dir = support::scratch("trace-failures");
    let Some(crash) = support::program(&dir, "crash") else { return };
    let (code, _, err) = support::run([OsStr::new("trace"), OsStr::new("-r1"), crash.as_os_str()]);
    assert_eq!(code, 4, "{err}");
    assert!(err.contains("killed by signal"), "{err}");
    let (code, _, err) = support::run(["trace", "-r1", "/no/such/program"]);
    assert_eq!(code, 4, "{err}");
    let (code, _, err) = support::run(["trace", "-r1", "--timeout", "200ms", "/bin/sleep", "20"]);
    assert_eq!(code, 124, "{err}");
    let (code, _, err) = support::run(["trace"]);
    assert_eq!((code, err.as_str()), (2, "premain: no program given; try 'premain trace --help'\n"));
    let (code, _, _) = support::run(["trace", "-r1", "-i", crash.to_str().unwrap()]);
    assert_eq!(code, 0);
}

#[test]
fn two_commands_are_compared_phase_by_phase() {
    if !observable() {
        return;
    }
    let mut c = support::premain();
    c.args(["trace", "--json", "-r", "6", "--vs", "/bin/sh -c ':'", "/bin/true"]);
    let (code, out, err) = support::outcome(c.output().unwrap());
    assert_eq!(code, 0, "{err}");
    let document = Json::parse(&out).unwrap();
    assert_eq!(list(&document, "commands").len(), 2);
    let differences = list(&document, "differences");
    assert_eq!(differences.last().and_then(|d| d.get("name")).and_then(Json::as_str), Some("total"));
    assert!(differences.iter().all(|d| list(d, "difference_ci95").len() == 2));
}

#[test]
fn exports_read_back() {
    if !observable() {
        return;
    }
    let dir = support::scratch("trace-exports");
    let [events, chrome, svg] = ["e.events", "t.json", "p.svg"].map(|n| dir.join(n));
    let flag = |name: &str, path: &Path| format!("--{name}={}", path.display());
    let args = [flag("export-events", &events), flag("export-trace", &chrome), flag("export-svg", &svg)];
    let (code, out, err) = support::run(
        ["trace", "-r", "2", "--syscalls", "--all"]
            .map(String::from)
            .into_iter()
            .chain(args)
            .chain(["/bin/true".into()]),
    );
    assert_eq!(code, 0, "{err}");
    assert!(out.lines().all(|l| l.chars().count() <= 80), "fits 80 columns:\n{out}");
    let stream = parse_stream(&std::fs::read_to_string(events).unwrap()).unwrap();
    let total = stream.last().unwrap().at;
    assert_eq!(timeline(&stream, total).spans.iter().map(|s| s.ns()).sum::<u64>(), total);
    let chrome = Json::parse(&std::fs::read_to_string(chrome).unwrap()).unwrap();
    assert!(list(&chrome, "traceEvents").iter().any(|e| e.get("name").and_then(Json::as_str) == Some("exec")));
    let svg = std::fs::read_to_string(svg).unwrap();
    assert!(svg.starts_with("<svg ") && svg.ends_with("</svg>\n"));
}

/// Runs trace where a seccomp filter forbids `calls`.
fn denied(calls: &str, dir: &Path) -> Option<(i32, String, String)> {
    let deny = support::program(dir, "deny")?;
    let mut c = Command::new(deny);
    c.arg(calls).arg(env!("CARGO_BIN_EXE_premain")).args(["trace", "--json", "-r", "3", "/bin/true"]);
    Some(support::outcome(c.output().unwrap()))
}

#[test]
fn what_is_denied_is_named_and_the_rest_goes_on() {
    if !observable() {
        return;
    }
    let dir = support::scratch("trace-denied");
    let Some((code, out, err)) = denied("perf_event_open", &dir) else { return };
    assert_eq!(code, 0, "{err}");
    let command = list(&Json::parse(&out).unwrap(), "commands")[0].clone();
    check(&command);
    assert_eq!(command.get("backend").and_then(Json::as_str), Some("ptrace"));
    assert!(out.contains("perf is not used: perf events: Operation not permitted"), "{out}");

    let Some((code, out, err)) = denied("ptrace", &dir) else { return };
    if code == 0 {
        let command = list(&Json::parse(&out).unwrap(), "commands")[0].clone();
        check(&command);
        assert_eq!(command.get("backend").and_then(Json::as_str), Some("perf"));
        assert_eq!((command.get("syscalls"), command.get("threads_max")), (Some(&Json::Null), Some(&Json::Null)));
        assert!(out.contains("ptrace: Operation not permitted"), "{out}");
    } else {
        assert!(err.contains("perf events"), "a machine without perf: {err}");
    }

    let Some((code, _, err)) = denied("ptrace,perf_event_open", &dir) else { return };
    assert_eq!(code, 2);
    assert!(
        err.contains("ptrace: Operation not permitted") && err.contains("perf events: Operation not permitted"),
        "{err}"
    );
}

/// As nobody: perf without uprobes, or ptrace; and setuid programs are refused. Needs root to become nobody.
#[test]
fn an_ordinary_user_gets_phases_and_setuid_is_refused() {
    let Some(setpriv) = support::tool("setpriv") else { return };
    let dir = std::env::temp_dir().join(format!("premain-trace-{}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    let own = dir.join("premain");
    std::fs::copy(env!("CARGO_BIN_EXE_premain"), &own).unwrap();
    let as_nobody = |args: &[&str]| {
        let mut c = Command::new(&setpriv);
        c.args(["--reuid=65534", "--regid=65534", "--clear-groups"]).arg(&own).args(args);
        c
    };
    let (code, _, err) = support::outcome(as_nobody(&["--version"]).output().unwrap());
    if code != 0 {
        std::fs::remove_dir_all(&dir).unwrap();
        return support::skip(&format!("cannot become nobody: {}", err.trim()));
    }
    let command = first(as_nobody(&["trace", "--json", "-r", "3", "/bin/true"]));
    assert!(names(&command).contains(&"relocate"), "{command}");
    let setuid = ["/usr/bin/su", "/bin/su", "/usr/bin/passwd"]
        .into_iter()
        .find(|p| std::fs::metadata(p).is_ok_and(|m| std::os::unix::fs::MetadataExt::mode(&m) & 0o4000 != 0));
    if let Some(setuid) = setuid {
        let (code, _, err) = support::outcome(as_nobody(&["trace", setuid]).output().unwrap());
        assert_eq!(code, 2);
        assert!(err.contains("is setuid or setgid"), "{err}");
    }
    std::fs::remove_dir_all(&dir).unwrap();
}
