//! The trials of what observes a start on Linux: ptrace, its system call stops, perf events, uprobes.

use std::os::fd::AsRawFd;
use std::path::PathBuf;

use super::event::{Mark, What};
use super::features::{Feature, LIMIT_NS};
use super::locate::Locator;
use super::recording::{Marked, NotTraced, Recording};
use super::records::Watcher;
use super::stops::{Tracer, Watch};
use crate::elf::synth;
use crate::measure::control::Control;
use crate::sys::process::Target;

/// A processor that we may run on.
pub(super) fn first_processor() -> Option<usize> {
    crate::sys::linux::perf::allowed_processors().first().and_then(|cpu| usize::try_from(*cpu).ok())
}

/// Tries each on the control.
pub(super) fn tried(control: &Control) -> Vec<Feature> {
    let traced = why(Tracer::new().map_err(NotTraced::from).and_then(|tracer| {
        tracer.record(&control.command.program, Watch::Calls, &mut Locator::default(), Some(LIMIT_NS), &mut || {})
    }));
    vec![of_ptrace(&traced), of_calls(&traced), of_perf(control), of_uprobes(control)]
}

type Tried = Result<Recording, String>;

fn why(tried: Result<Recording, NotTraced>) -> Tried {
    match tried {
        Ok(r) if r.status.is_success() => Ok(r),
        Ok(r) => Err(format!("the observed control ended with {}", r.status)),
        Err(NotTraced::Denied(why)) => Err(why),
        Err(NotTraced::Failed(e)) => Err(e.to_string()),
    }
}

fn seen(tried: &Tried, what: impl Fn(&What) -> bool, found: &str, missing: &str) -> Result<String, String> {
    let recording = tried.as_ref().map_err(String::clone)?;
    if recording.events.iter().any(|e| what(&e.what)) { Ok(found.to_string()) } else { Err(missing.to_string()) }
}

fn of_ptrace(traced: &Tried) -> Feature {
    Feature {
        name: "ptrace",
        works: seen(traced, |w| matches!(w, What::Exec), "the control was traced", "its exec was not seen"),
        without: "no phases by ptrace, no system calls; threads are sampled: a lower bound",
        advice: "sysctl kernel.yama.ptrace_scope=1 (not 3); in a container --cap-add SYS_PTRACE, or a seccomp profile \
                 that allows ptrace",
    }
}

fn of_calls(traced: &Tried) -> Feature {
    Feature {
        name: "system calls",
        works: seen(
            traced,
            |w| matches!(w, What::Syscall(_)),
            "each call of the control was seen",
            "the kernel does not describe them (PTRACE_GET_SYSCALL_INFO, Linux 5.3)",
        ),
        without: "no counts of system calls",
        advice: "a kernel from 5.3 on, and ptrace allowed",
    }
}

fn watched(control: &Control, marked: &[Marked]) -> Tried {
    why(Watcher::new().map_err(NotTraced::from).and_then(|mut watcher| {
        watcher.record(&control.command.program, marked, true, &mut Locator::default(), Some(LIMIT_NS), &mut || {})
    }))
}

fn of_perf(control: &Control) -> Feature {
    let missing = "its exec left no record";
    Feature {
        name: "perf events",
        works: seen(
            &watched(control, &[]),
            |w| matches!(w, What::Exec),
            "the kernel recorded the control's start",
            missing,
        ),
        without: "page faults and mappings are not timed one by one; phases come from ptrace",
        advice: "sysctl kernel.perf_event_paranoid=2; in a container --cap-add PERFMON and a seccomp profile that allows \
                 perf_event_open",
    }
}

fn of_uprobes(control: &Control) -> Feature {
    let path = match &control.command.program.target {
        Target::File(fd) => PathBuf::from(format!("/proc/self/fd/{}", fd.as_raw_fd())),
        Target::Path(_) => control.command.path.clone(),
    };
    let entry = Marked { mark: Mark::Entry, path, offset: synth::CONTROL_ENTRY };
    Feature {
        name: "uprobes",
        works: seen(
            &watched(control, &[entry]),
            |w| matches!(w, What::Mark(Mark::Entry)),
            "one at the control's entry point was hit",
            "one at the control's entry point was not hit",
        ),
        without: "entry, main and the loader's rendezvous are marked by breakpoints, which stop the program",
        advice: "run as root, or with CAP_PERFMON; a kernel with CONFIG_UPROBE_EVENTS, and /proc and /sys mounted",
    }
}
