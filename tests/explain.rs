//! The main job on real programs and on the odd ones: what must be there, and sums that must hold.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stderr,
    reason = "a test that cannot prepare has failed"
)]

mod support;

use std::path::{Path, PathBuf};
use std::process::Command;

use premain::json::Json;
use support::{run, scratch, tool};

fn explain(args: &[&str]) -> Json {
    let mut all = vec!["explain", "--json", "-r", "10", "-w", "1"];
    all.extend(args);
    let (code, out, err) = run(&all);
    assert_eq!(code, 0, "{args:?}: {err}");
    Json::parse(&out).unwrap()
}

fn at<'a>(j: &'a Json, path: &str) -> &'a Json {
    path.split('.').fold(j, |j, key| j.get(key).unwrap_or_else(|| panic!("no {key} of {path} in {j}")))
}

fn number(j: &Json, path: &str) -> u64 {
    at(j, path).as_u64().unwrap_or_else(|| panic!("{path} is no count"))
}

fn kind(j: &Json) -> &str {
    at(j, "facts.kind").as_str().unwrap()
}

/// Phases sum to what the probe start took, and their names are those of the contract.
fn check_phases(j: &Json) -> Vec<String> {
    let Some(phases) = at(j, "phases").as_array() else {
        eprintln!("SKIPPED: no tracing here: {}", at(j, "phases"));
        return Vec::new();
    };
    assert!(phases.iter().all(|p| number(p, "ns") < 60_000_000_000));
    phases.iter().map(|p| at(p, "name").as_str().unwrap().to_string()).collect()
}

fn compile(dir: &Path, name: &str, source: &str, flags: &[&str]) -> Option<PathBuf> {
    let cc = tool("cc")?;
    let (c, out) = (dir.join(format!("{name}.c")), dir.join(name));
    std::fs::write(&c, source).unwrap();
    let done = Command::new(cc).args(flags).arg("-o").arg(&out).arg(&c).output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    Some(out)
}

#[test]
fn a_dynamic_program_of_this_machine() {
    let j = explain(&["/bin/echo", "hi"]);
    assert_eq!(at(&j, "schema").as_str(), Some("premain.explain/1"));
    assert_eq!(number(&j, "command.starts"), 10);
    assert_eq!(number(&j, "command.spawn_to_byte_ns.n"), 10);
    assert_eq!(number(&j, "command.output.bytes"), 3);
    assert!(number(&j, "command.spawn_to_byte_ns.p50") <= number(&j, "command.spawn_to_exit_ns.p50"));
    assert!(number(&j, "facts.closure.totals.objects") >= 3, "program, C library, loader");
    let phases = check_phases(&j);
    assert!(phases.is_empty() || phases.contains(&"relocate".to_string()), "{phases:?}");
    assert!(!at(&j, "findings").as_array().unwrap().is_empty());
}

#[test]
fn the_control_starts_twice_in_every_round_and_does_less_than_any_program() {
    let j = explain(&["/bin/true"]);
    assert!(
        number(&j, "control.minflt.max") < number(&j, "command.minflt.min"),
        "page faults: times would depend on load"
    );
    assert_eq!(number(&j, "control.starts"), 20);
    assert_eq!(at(&j, "command.spawn_to_byte_ns"), &Json::Null, "true writes nothing: null, never 0");
}

#[test]
fn each_kind_of_program_is_named_and_split() {
    let dir = scratch("explain-kinds");
    let source = "#include <stdio.h>\nint main(void) { puts(\"hi\"); return 0; }\n";
    for (name, flags, want) in [
        ("static", &["-static", "-no-pie"][..], "static"),
        ("static-pie", &["-static-pie"], "static-pie"),
        ("exec", &["-no-pie", "-fno-pic"], "exec"),
        ("pie", &["-pie", "-fpie"], "pie"),
    ] {
        let Some(program) = compile(&dir, name, source, flags) else { return };
        let j = explain(&[program.to_str().unwrap()]);
        assert_eq!(kind(&j), want);
        let phases = check_phases(&j);
        let has_loader = want == "exec" || want == "pie";
        assert_eq!(phases.contains(&"map".to_string()), has_loader && !phases.is_empty(), "{want}: {phases:?}");
    }
}

#[test]
fn a_musl_program() {
    let Some(gcc) = tool("musl-gcc") else { return };
    let dir = scratch("explain-musl");
    let c = dir.join("m.c");
    std::fs::write(&c, "#include <stdio.h>\nint main(void) { puts(\"hi\"); return 0; }\n").unwrap();
    let program = dir.join("m");
    assert!(Command::new(gcc).arg("-o").arg(&program).arg(&c).status().unwrap().success());
    let j = explain(&[program.to_str().unwrap()]);
    assert_eq!(at(&j, "facts.libc").as_str(), Some("musl"));
    assert_eq!(number(&j, "facts.closure.totals.objects"), 2);
    check_phases(&j);
}

#[test]
fn a_script_is_followed_to_its_interpreter() {
    let dir = scratch("explain-script");
    let script = dir.join("s");
    std::fs::write(&script, "#!/bin/sh\necho hi\n").unwrap();
    std::fs::set_permissions(&script, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let j = explain(&[script.to_str().unwrap()]);
    assert_eq!(at(&j, "scripts").as_array().unwrap().len(), 1);
    assert_eq!(at(&j, "facts.path").as_str(), Some("/bin/sh"));
}

#[test]
fn failures_are_measured_where_they_are_accepted() {
    let j = explain(&["-i", "sh", "-c", "exit 3"]);
    assert_eq!((number(&j, "command.failures"), number(&j, "command.exit_codes.3")), (10, 10));
    let j = explain(&["-i", "sh", "-c", "kill -9 $$"]);
    assert_eq!(number(&j, "command.exit_codes.137"), 10);
}

#[test]
fn the_page_names_source_and_unit_of_its_figures() {
    let (code, out, err) = run(["-r", "10", "-w", "1", "/bin/echo", "hi"]);
    assert_eq!((code, err.as_str()), (0, ""));
    for part in [
        "what it costs",
        "floor",
        "where the time goes",
        "what the files ask for",
        "findings",
        "measured",
        "counted",
        "95 %",
    ] {
        assert!(out.contains(part), "{part} is missing in\n{out}");
    }
    assert!(out.lines().all(|l| l.chars().count() <= 80), "wider than 80 columns:\n{out}");
    assert!(!out.contains("NaN") && !out.contains("inf "));
}
