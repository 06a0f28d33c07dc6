//! The longest stretches of a start, with what they were spent on where that can be told. Pure.

use std::path::PathBuf;

use crate::order;
use crate::trace::event::{Event, What};
use crate::trace::objects::Object;
use crate::trace::phases::{PhaseName, Timeline};
use crate::trace::space::Space;

/// What a stretch of time was spent on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Cause {
    /// The loader relocated this object and wrote so many pages of it.
    Relocation {
        /// The object.
        path: PathBuf,
        /// Pages written.
        pages: u64,
    },
    /// This object's constructors ran.
    Constructors {
        /// The object.
        path: PathBuf,
    },
    /// The C library asked the processor what it is, and each answer left the virtual machine.
    Cpuid {
        /// How often, counted.
        executed: u64,
        /// What one costs, measured in nanoseconds.
        each_ns: u64,
    },
    /// A page came from a disk.
    DiskRead {
        /// Its file.
        path: Option<PathBuf>,
    },
    /// A system call.
    Syscall {
        /// Its name.
        name: String,
        /// The path that it was given.
        path: Option<PathBuf>,
    },
    /// Code of this object ran without a page fault or a mapping.
    Running {
        /// The object.
        path: PathBuf,
    },
}

/// One stretch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gap {
    /// Begin, nanoseconds since t0. `None` for a sum of several stretches (relocation, constructors).
    pub from: Option<u64>,
    /// Length.
    pub ns: u64,
    /// Where it lies.
    pub phase: PhaseName,
    /// What it was spent on.
    pub cause: Cause,
}

/// A stretch shorter than this share of the start is not worth a line.
const LEAST_SHARE: u64 = 50;
/// Lines at most.
const MOST: usize = 12;

/// The longest stretches, the longest first: relocation and constructors summed by object, all else as it comes.
/// fork, exec and teardown are the kernel's and not looked into.
pub fn gaps(events: &[Event], timeline: &Timeline, objects: &[Object]) -> Vec<Gap> {
    let mut found: Vec<Gap> = Vec::new();
    for object in objects {
        let path = object.path.clone();
        let cause = Cause::Relocation { path: path.clone(), pages: object.pages_written };
        found.push(Gap { from: None, ns: object.relocating_ns, phase: PhaseName::Relocate, cause });
        let cause = Cause::Constructors { path };
        found.push(Gap { from: None, ns: object.constructing_ns, phase: PhaseName::Construct, cause });
    }
    found.extend(raw(events, timeline));
    let least = least_ns(timeline.total_ns);
    found.retain(|g| g.ns >= least);
    order::by_key(&mut found, |g| std::cmp::Reverse(g.ns));
    found.truncate(MOST);
    found
}

/// The shortest stretch that is told of, for a start of this length.
pub(super) fn least_ns(total_ns: u64) -> u64 {
    (total_ns / LEAST_SHARE).max(1)
}

/// Stretches between two events of the first thread, outside of the phases that are summed by object.
fn raw(events: &[Event], timeline: &Timeline) -> Vec<Gap> {
    let Some(pid) = events.first().map(|e| e.pid) else { return Vec::new() };
    let looked_into = |phase: PhaseName| {
        use PhaseName::{LoaderStart, Main, Map, RuntimeInit};
        matches!(phase, LoaderStart | Map | RuntimeInit | Main)
    };
    let mut space = Space::default();
    let mut found = Vec::new();
    let mut before: Option<&Event> = None;
    for event in events.iter().filter(|e| e.pid == pid && (e.tid == pid || e.what == What::Reaped)) {
        if let Some(last) = before
            && let Some(span) = timeline.span_at(last.at)
            && looked_into(span.name)
        {
            // A stretch ends with its phase.
            let to = event.at.min(span.to);
            let called = match &event.what {
                What::Syscall(c) => to.saturating_sub(c.ns).max(last.at),
                _ => to,
            };
            let ns = called.saturating_sub(last.at);
            if let Some(cause) = ran(last, &space) {
                found.push(Gap { from: Some(last.at), ns, phase: span.name, cause });
            }
            if let What::Syscall(c) = &event.what {
                let cause = Cause::Syscall { name: c.name.clone(), path: c.path.clone() };
                found.push(Gap { from: Some(called), ns: to.saturating_sub(called), phase: span.name, cause });
            }
        }
        space.follow(event);
        before = Some(event);
    }
    found
}

/// What ran after this event; `None` where nothing tells.
fn ran(event: &Event, space: &Space) -> Option<Cause> {
    let file = |addr: u64| space.file_at(addr).map(|(path, _)| path.as_path().to_path_buf());
    match event.what {
        What::Fault { addr, major: true, .. } => Some(Cause::DiskRead { path: file(addr) }),
        What::Fault { ip, .. } => file(ip).map(|path| Cause::Running { path }),
        _ => None,
    }
}
