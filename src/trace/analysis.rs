//! All that one recorded start says: phases with their page faults and system calls, objects, gaps. Pure.

use std::collections::BTreeMap;
use std::path::PathBuf;

use crate::trace::event::{Event, What};
use crate::trace::gaps::{Gap, gaps};
use crate::trace::objects::{Object, objects};
use crate::trace::phases::{PhaseName, Timeline, timeline};
use crate::trace::space::{FaultKind, Space};

/// Page faults of one phase.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Faults {
    /// A page of a file was mapped.
    pub read: u64,
    /// A private page of a file was written.
    pub cow: u64,
    /// Memory without a file.
    pub zero: u64,
    /// Of unknown kind: the back end saw only how many there were (kernel mode included).
    pub unsorted: u64,
    /// Of all these, how many read a disk.
    pub major: u64,
}

impl Faults {
    /// All of them.
    pub fn total(&self) -> u64 {
        self.read + self.cow + self.zero + self.unsorted
    }

    /// Adds another count.
    pub fn add(&mut self, other: &Faults) {
        self.read += other.read;
        self.cow += other.cow;
        self.zero += other.zero;
        self.unsorted += other.unsorted;
        self.major += other.major;
    }
}

/// One analysed start.
#[derive(Debug, Clone, Default)]
pub struct Start {
    /// Its phases.
    pub timeline: Timeline,
    /// Page faults of the process in each phase.
    pub faults: BTreeMap<PhaseName, Faults>,
    /// Page faults of child processes.
    pub child_faults: u64,
    /// Objects of the last image.
    pub objects: Vec<Object>,
    /// The longest stretches.
    pub gaps: Vec<Gap>,
}

impl Start {
    /// Page faults of the process.
    pub fn all_faults(&self) -> Faults {
        let mut sum = Faults::default();
        self.faults.values().for_each(|f| sum.add(f));
        sum
    }
}

/// Analyses one recorded start.
pub fn analyse(events: &[Event], total_ns: u64) -> Start {
    let timeline = timeline(events, total_ns);
    let (faults, child_faults) = count_faults(events, &timeline);
    let objects = objects(events, &timeline);
    let gaps = gaps(events, &timeline, &objects);
    Start { timeline, faults, child_faults, objects, gaps }
}

/// Page faults by phase, and those of children.
fn count_faults(events: &[Event], timeline: &Timeline) -> (BTreeMap<PhaseName, Faults>, u64) {
    let mut by_phase: BTreeMap<PhaseName, Faults> = BTreeMap::new();
    let Some(pid) = events.first().map(|e| e.pid) else { return (by_phase, 0) };
    let mut space = Space::default();
    let mut children = 0;
    // Running totals that the ptrace back end reads: (when, minor, major).
    let mut before = None;
    for event in events {
        if event.pid != pid {
            children += u64::from(matches!(event.what, What::Fault { .. }));
            continue;
        }
        match event.what {
            What::Fault { addr, major, .. } => {
                let Some(span) = timeline.span_at(event.at) else { continue };
                let count = by_phase.entry(span.name).or_default();
                match space.kind(addr) {
                    FaultKind::Read => count.read += 1,
                    FaultKind::Cow => count.cow += 1,
                    FaultKind::Zero => count.zero += 1,
                }
                count.major += u64::from(major);
            }
            What::Faults { minor, major } => {
                if let Some((at, old_minor, old_major)) = before.replace((event.at, minor, major)) {
                    // Between two readings: they belong to the phase in their middle.
                    let Some(span) = timeline.span_at(event.at.midpoint(at)) else { continue };
                    let count = by_phase.entry(span.name).or_default();
                    let majors = major.saturating_sub(old_major);
                    count.unsorted += minor.saturating_sub(old_minor) + majors;
                    count.major += majors;
                }
            }
            _ => {}
        }
        space.follow(event);
    }
    (by_phase, children)
}

/// One name in the table of system calls.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CallRow {
    /// Calls that returned, those of threads and children included.
    pub calls: u64,
    /// How many failed.
    pub errors: u64,
    /// Time in them, nanoseconds, stops excluded. Traced calls are slower than others.
    pub ns: u64,
    /// How many were made by child processes.
    pub by_children: u64,
}

/// One system call of the list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedCall {
    /// When it was entered, nanoseconds since t0.
    pub at: u64,
    /// Process, and task.
    pub task: (i32, i32),
    /// The phase it lies in; `None` for those of children.
    pub phase: Option<PhaseName>,
    /// Its name.
    pub name: String,
    /// The path that it was given.
    pub path: Option<PathBuf>,
    /// What it returned; `None` where it did not return.
    pub result: Option<i64>,
    /// How long it took.
    pub ns: u64,
}

/// The system calls of one start.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Syscalls {
    /// By name.
    pub by_name: BTreeMap<String, CallRow>,
    /// Calls of the process in each phase.
    pub by_phase: BTreeMap<PhaseName, u64>,
    /// Calls until the first byte of output; `None` where nothing was written.
    pub to_first_byte: Option<u64>,
    /// Failed opens and look-ups of files until the entry point, by directory.
    pub failed_by_directory: BTreeMap<PathBuf, u64>,
    /// Every call, in order of return.
    pub list: Vec<ListedCall>,
}

impl Syscalls {
    /// All calls that returned.
    pub fn total(&self) -> u64 {
        self.by_name.values().map(|r| r.calls).sum()
    }
}

/// Counts the system calls of a recorded start; `None` where the back end did not see them.
pub fn syscalls(events: &[Event], timeline: &Timeline) -> Option<Syscalls> {
    let pid = events.first()?.pid;
    let entry = timeline.images.last().and_then(|i| i.entry).unwrap_or(u64::MAX);
    let mut found = Syscalls::default();
    let mut returned = 0;
    for event in events {
        let call = match &event.what {
            What::Syscall(call) => call,
            What::FirstByte(_) => {
                // The write itself is still under way, and counts.
                found.to_first_byte = found.to_first_byte.or(Some(returned + 1));
                continue;
            }
            _ => continue,
        };
        let at = event.at.saturating_sub(call.ns);
        let phase = timeline.span_at(at).filter(|_| event.pid == pid).map(|s| s.name);
        found.list.push(ListedCall {
            at,
            task: (event.pid, event.tid),
            phase,
            name: call.name.clone(),
            path: call.path.clone(),
            result: call.result,
            ns: call.ns,
        });
        // exit_group does not return, and is not counted: as with strace -c.
        if call.result.is_none() {
            continue;
        }
        returned += 1;
        let row = found.by_name.entry(call.name.clone()).or_default();
        row.calls += 1;
        row.errors += u64::from(call.failed());
        row.ns = row.ns.saturating_add(call.ns);
        row.by_children += u64::from(event.pid != pid);
        if let Some(phase) = phase {
            *found.by_phase.entry(phase).or_default() += 1;
        }
        let missed = event.pid == pid && at <= entry && call.failed() && looks_up(&call.name);
        if let Some(dir) = call.path.as_ref().filter(|_| missed).and_then(|p| p.parent()) {
            *found.failed_by_directory.entry(dir.to_path_buf()).or_default() += 1;
        }
    }
    (!found.list.is_empty()).then_some(found)
}

fn looks_up(name: &str) -> bool {
    name.starts_with("open") || name.contains("stat") || name.starts_with("access") || name.starts_with("faccess")
}
