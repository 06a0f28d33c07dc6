//! Every file of `linker-experiments/experiments/` is valid, and facts come out as settings say.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot prepare has failed")]

mod support;

use std::path::Path;
use std::process::Command;

use support::{outcome, scratch, tool};

fn experiments(args: &[&str]) -> Option<(i32, String, String)> {
    let python = tool("python3")?;
    let run = Path::new(env!("CARGO_MANIFEST_DIR")).join("linker-experiments/run");
    let mut command = Command::new(python);
    command.arg(run).args(["--premain", env!("CARGO_BIN_EXE_premain")]).args(args);
    Some(outcome(command.env_remove("CI").output().unwrap()))
}

#[test]
fn every_experiment_file_is_valid() {
    let Some((code, out, err)) = experiments(&["--check"]) else { return };
    assert_eq!((code, err.as_str()), (0, ""));
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("linker-experiments/experiments");
    let files = std::fs::read_dir(dir).unwrap().count();
    assert_eq!(out, format!("{files} experiments are valid\n"));
}

#[test]
fn what_is_not_understood_is_refused() {
    let Some((code, out, err)) = experiments(&["nowhere"]) else { return };
    assert_eq!((code, out.as_str()), (2, ""));
    assert!(err.contains("nowhere: no such experiment"), "{err}");
}

/// Nothing is timed here: that is `make experiments-quick`.
#[test]
fn facts_of_the_kinds_are_as_they_should_be() {
    if tool("gcc").is_none() {
        return;
    }
    let dir = scratch("experiments");
    let Some((code, out, err)) = experiments(&["--facts", "--build-dir", dir.to_str().unwrap(), "kind", "traps"])
    else {
        return;
    };
    assert_eq!(code, 0, "{out}\n{err}");
    assert!(out.contains("facts and signs are as they should be"), "{out}");
}
