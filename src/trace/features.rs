//! Which features of this tool work on this host: each is tried on the control program, not guessed from settings.

use std::path::{Path, PathBuf};

use super::observing;
use crate::error::{Context, Result};
use crate::measure::command::Command;
use crate::measure::control::{self, Control};
use crate::sys::page_cache;
use crate::sys::process::Target;
use crate::sys::start::{Method, StartFailure, StartOptions, Starter, Stdout};

/// One feature, tried.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Feature {
    /// What it is called in tables and JSON.
    pub name: &'static str,
    /// What was seen where it works; else the reason.
    pub works: Result<String, String>,
    /// What goes on without it.
    pub without: &'static str,
    /// What can be done where it does not work.
    pub advice: &'static str,
}

/// A trial's limit: the control needs less than a millisecond.
pub(super) const LIMIT_NS: u64 = 5_000_000_000;

/// Tries them all.
pub fn tried() -> Vec<Feature> {
    let mut control = match control::control(&[]) {
        Ok(control) => control,
        Err(e) => return vec![of_control(Err(e.to_string())), of_proc(), of_eviction()],
    };
    let works = start(&control.command, Method::Fork, Stdout::Pipe).map(|()| source(&control));
    if works.is_err() {
        // Every other trial would fail for the same reason.
        return vec![of_control(works), of_proc(), of_eviction()];
    }
    let mut features = vec![of_control(works), of_vfork(&control)];
    features.push(of_terminal(&control));
    features.push(of_pinning(&mut control));
    features.extend(observing::tried(&control));
    features.push(of_proc());
    features.push(of_eviction());
    features
}

fn start(command: &Command, method: Method, stdout: Stdout) -> Result<(), String> {
    let options = StartOptions { method, stdout, timeout_ns: Some(LIMIT_NS), ..StartOptions::default() };
    let mut starter = Starter::new().map_err(|e| e.to_string())?;
    match starter.start(&command.program, &options) {
        Ok(raw) if raw.status.is_success() => Ok(()),
        Ok(raw) => Err(raw.status.to_string()),
        Err(StartFailure::Exec(errno)) => Err(format!("cannot execute: {}", crate::error::Error::from_errno(errno))),
        Err(StartFailure::Setup(what, errno)) => Err(format!("{what}: {}", crate::error::Error::from_errno(errno))),
        Err(StartFailure::System(e)) => Err(e.to_string()),
        Err(StartFailure::Interrupted) => Err("interrupted".to_string()),
    }
}

fn source(control: &Control) -> String {
    match &control.command.program.target {
        Target::File(_) => "runs from memory, without a file system (memfd)".to_string(),
        Target::Path(path) => format!("runs from {}", path.to_string_lossy()),
    }
}

fn of_control(works: Result<String, String>) -> Feature {
    Feature {
        name: "control program",
        works,
        without: "nothing can be measured: there is no floor",
        advice: "allow a memory file to be executed (sysctl vm.memfd_noexec=0), or set TMPDIR to a directory \
                 that is not mounted noexec; have /dev/null; nothing else is tried before",
    }
}

fn of_vfork(control: &Control) -> Feature {
    let done = start(&control.command, Method::Vfork, Stdout::Pipe);
    Feature {
        name: "vfork",
        works: done.map(|()| "a child that borrows our memory starts".to_string()),
        without: "--spawn vfork fails; the default, fork, does not need it",
        advice: "allow clone with CLONE_VM and CLONE_VFORK",
    }
}

fn of_terminal(control: &Control) -> Feature {
    let done = start(&control.command, Method::Fork, Stdout::Pty);
    Feature {
        name: "terminal",
        works: done.map(|()| "a child gets a pseudo-terminal".to_string()),
        without: "--stdout pty fails",
        advice: "mount devpts on /dev/pts, and make /dev/ptmx",
    }
}

fn of_pinning(control: &mut Control) -> Feature {
    control.command.program.cpu = observing::first_processor();
    let done = match control.command.program.cpu {
        Some(cpu) => start(&control.command, Method::Fork, Stdout::Pipe).map(|()| format!("tried on processor {cpu}")),
        None => Err("this system places programs by itself".to_string()),
    };
    control.command.program.cpu = None;
    Feature { name: "pinning", works: done, without: "--cpu fails", advice: "allow sched_setaffinity" }
}

fn of_proc() -> Feature {
    let seen = std::fs::read("/proc/self/status").map(|_| "/proc is mounted".to_string());
    Feature {
        name: "/proc",
        works: seen.context(|| "/proc/self/status").map_err(|e| e.to_string()),
        without: "no peak memory of probed starts, no count of threads where ptrace is denied, and half of the host's \
                  facts are unreadable",
        advice: "mount -t proc proc /proc",
    }
}

/// Bytes of the file whose pages are dropped for a trial.
const EVICTED_BYTES: usize = 64 * 1024;

fn of_eviction() -> Feature {
    let mut reasons = Vec::new();
    let mut works = None;
    for dir in [std::env::temp_dir(), PathBuf::from("/var/tmp"), PathBuf::from(".")] {
        match evict_in(&dir) {
            Ok(seen) => {
                works = Some(seen);
                break;
            }
            Err(why) => reasons.push(why),
        }
    }
    Feature {
        name: "eviction",
        works: works.ok_or_else(|| reasons.join("; ")),
        without: "--state cold measures warm starts, and says so",
        advice: "put the program on a disk's file system that is not memory (tmpfs) or an overlay",
    }
}

/// Drops the pages of a file that nobody else knows of, and counts those that are gone.
fn evict_in(dir: &Path) -> Result<String, String> {
    let path = dir.join(format!("premain-doctor-{}", std::process::id()));
    let tried = write_to_disk(&path).and_then(|()| page_cache::evict(&path));
    let _ = std::fs::remove_file(&path);
    match tried {
        Ok(e) if e.before > e.after => {
            Ok(format!("{} of {} pages of a new file in {} dropped", e.before - e.after, e.before, dir.display()))
        }
        Ok(_) => Err(format!("{}: its file system keeps all pages", dir.display())),
        Err(e) => Err(format!("{}: {e}", dir.display())),
    }
}

/// Pages that are not on the disk yet cannot be dropped.
fn write_to_disk(path: &Path) -> Result<()> {
    use std::io::Write;
    let mut file = std::fs::OpenOptions::new().write(true).create_new(true).open(path)?;
    file.write_all(&vec![1; EVICTED_BYTES])?;
    file.sync_all()?;
    Ok(())
}
