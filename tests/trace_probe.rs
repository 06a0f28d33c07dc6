//! Probe starts of real programs: phases that sum, counts that do not vary.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stderr,
    reason = "a test that cannot prepare has failed; skips are told"
)]
#![cfg(target_os = "linux")]

use std::ffi::OsString;
use std::path::Path;

use premain::sys::process::Program;
use premain::trace::locate::Locator;
use premain::trace::phases::PhaseName;
use premain::trace::probe::{census, phases};
use premain::trace::recording::NotTraced;
use premain::trace::stops::{Tracer, Watch};

fn program(argv: &[&str]) -> Program {
    let argv: Vec<OsString> = argv.iter().map(OsString::from).collect();
    let env: Vec<(OsString, OsString)> = vec![("PATH".into(), "/usr/bin:/bin".into())];
    Program::new(Path::new(&argv[0]), &argv, &env).unwrap()
}

/// The tracer, or a reason to skip: where a machine forbids ptrace, these tests have nothing to look at.
fn tracer() -> Option<Tracer> {
    let tracer = Tracer::new().unwrap();
    match tracer.record(&program(&["/bin/true"]), Watch::Loader, &mut Locator::default(), None, &mut || ()) {
        Err(NotTraced::Denied(why)) => {
            assert!(std::env::var_os("CI").is_none(), "{why}");
            eprintln!("SKIPPED: {why}");
            None
        }
        other => {
            other.unwrap();
            Some(tracer)
        }
    }
}

#[test]
fn phases_of_a_dynamic_program_are_complete_and_sum() {
    let Some(tracer) = tracer() else { return };
    let found = phases(&tracer, &program(&["/bin/ls", "/"]), 5, Some(10_000_000_000)).unwrap();
    let names: Vec<PhaseName> = found.phases.iter().map(|p| p.name).collect();
    assert_eq!(names, PhaseName::ALL);
    assert_eq!(found.phases.iter().map(|p| p.ns).sum::<u64>(), found.total_ns);
}

#[test]
fn a_census_counts_calls_threads_and_children() {
    let Some(tracer) = tracer() else { return };
    let program = program(&["/bin/sh", "-c", "/bin/true; echo x; /bin/true"]);
    let a = census(&tracer, &program, None).unwrap();
    let b = census(&tracer, &program, None).unwrap();
    assert_eq!(a.syscalls, b.syscalls, "the same program makes the same calls");
    assert_eq!((a.max_threads, a.child_processes), (1, 2));
    assert_eq!(a.syscalls.get("execve").map(|c| (c.calls, c.by_children)), Some((3, 2)));
}

#[test]
fn sampling_sees_at_least_one_thread() {
    let sampled = premain::trace::sampled::threads(&program(&["/bin/sleep", "0.01"]), None).unwrap();
    assert_eq!(sampled.max_threads_at_least, 1);
    assert!(sampled.looks > 1 && sampled.status.is_success());
}

#[test]
fn a_command_that_cannot_be_executed_is_an_error_and_no_start() {
    let Some(tracer) = tracer() else { return };
    match tracer.record(&program(&["/etc/passwd"]), Watch::All, &mut Locator::default(), None, &mut || ()) {
        Err(NotTraced::Failed(e)) => assert_eq!(e.to_string(), "cannot execute: Permission denied"),
        other => panic!("{other:?}"),
    }
}
