//! Probe starts: what is observed rather than timed. Phases of a start, its system calls, threads and children.
//!
//! A probed start is slower than an untraced one; every result says how long it took, so that the two can be
//! printed side by side.

use std::collections::BTreeMap;

use crate::order;
use crate::sys::process::Program;
use crate::sys::wait::WaitStatus;
use crate::trace::event::What;
use crate::trace::locate::Locator;
use crate::trace::phases::{PhaseName, Timeline, timeline};
use crate::trace::recording::{NotTraced, Recording};
use crate::trace::stops::{Tracer, Watch};

/// One phase over several starts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Phase {
    /// Which.
    pub name: PhaseName,
    /// Its time in the representative start, see [`Phases`]; these sum to the total.
    pub ns: u64,
    /// Median over all starts, 0 counting where a start lacks the phase.
    pub median_ns: u64,
}

/// Phases over several starts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Phases {
    /// In order; absent phases are left out. `ns` is the mean over the middle half of the starts by total time
    /// (boundaries are averaged, so that phases still sum to the total), which one outlier cannot move.
    pub phases: Vec<Phase>,
    /// Sum of the phases.
    pub total_ns: u64,
    /// Median of all totals.
    pub total_median_ns: u64,
    /// Starts observed.
    pub starts: usize,
}

/// Observes `starts` starts of a command (after one that is thrown away) and gives its phases.
///
/// # Errors
/// [`NotTraced`]: tracing is denied, with the reason, or the command failed to start.
pub fn phases(tracer: &Tracer, program: &Program, starts: usize, timeout_ns: Option<u64>) -> Result<Phases, NotTraced> {
    let mut locator = Locator::default();
    let mut record = || tracer.record(program, Watch::Loader, &mut locator, timeout_ns, &mut || ());
    // The first start reads files that later ones find remembered.
    record()?;
    let mut timelines = Vec::with_capacity(starts);
    for _ in 0..starts.max(1) {
        let recording = record()?;
        timelines.push(timeline(&recording.events, recording.total_ns));
    }
    Ok(summarise(&timelines))
}

/// Phases of several starts of one command.
pub fn summarise(timelines: &[Timeline]) -> Phases {
    let mut by_total: Vec<&Timeline> = timelines.iter().collect();
    order::by_key(&mut by_total, |t| t.total_ns);
    // A quarter off each end, rounded, but never all.
    let trim = (by_total.len().saturating_sub(1) + 2) / 4;
    let middle = &by_total[trim..by_total.len() - trim];
    let n = middle.len().max(1) as u64;
    let mut phases = Vec::new();
    // Sums are cut at running totals, so that rounding to whole nanoseconds keeps the sum.
    let (mut sum, mut begun) = (0u64, 0u64);
    for name in PhaseName::ALL {
        if !timelines.iter().any(|t| t.ns(name).is_some()) {
            continue;
        }
        sum = middle.iter().fold(sum, |sum, t| sum.saturating_add(t.ns(name).unwrap_or(0)));
        let end = sum / n;
        let all = timelines.iter().map(|t| t.ns(name).unwrap_or(0)).collect();
        phases.push(Phase { name, ns: end - begun, median_ns: median(all) });
        begun = end;
    }
    let totals = timelines.iter().map(|t| t.total_ns).collect();
    Phases { phases, total_ns: begun, total_median_ns: median(totals), starts: timelines.len() }
}

/// The middle value; of an even number the mean of the middle two; 0 of nothing.
fn median(mut values: Vec<u64>) -> u64 {
    values.sort_unstable();
    let n = values.len();
    match (values.get(n.wrapping_sub(1) / 2), values.get(n / 2)) {
        (Some(a), Some(b)) => a.midpoint(*b),
        _ => 0,
    }
}

/// Calls of one name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Calls {
    /// How many.
    pub calls: u64,
    /// Of those, how many failed.
    pub errors: u64,
    /// Of those, how many were made by child processes.
    pub by_children: u64,
}

/// What one start did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Census {
    /// Most threads alive at once in the process.
    pub max_threads: u64,
    /// False where the figure is a lower bound from sampling.
    pub threads_exact: bool,
    /// System calls that returned, by name, those of threads and children included.
    pub syscalls: BTreeMap<String, Calls>,
    /// System calls of the whole tree until the first byte of output was written; `None` where nothing was.
    pub syscalls_to_first_byte: Option<u64>,
    /// Peak of resident memory, from the process's own counter at its end (no floor); `None` where `/proc` is absent.
    pub peak_rss_bytes: Option<u64>,
    /// Processes that it made, and those made.
    pub child_processes: u64,
    /// Page faults of the process.
    pub page_faults: u64,
    /// How it ended.
    pub status: WaitStatus,
    /// Wall time of this start, stops included: what being watched cost.
    pub elapsed_ns: u64,
}

impl Census {
    /// All system calls.
    pub fn syscalls_total(&self) -> u64 {
        self.syscalls.values().map(|c| c.calls).sum()
    }
}

/// Watches all system calls of one start, in all threads and children.
///
/// # Errors
/// [`NotTraced`]. Where tracing is denied, [`crate::trace::sampled::threads`] still gives a lower bound for threads.
pub fn census(tracer: &Tracer, program: &Program, timeout_ns: Option<u64>) -> Result<Census, NotTraced> {
    let recording = tracer.record(program, Watch::Calls, &mut Locator::default(), timeout_ns, &mut || ())?;
    Ok(count(&recording))
}

/// The census of a recorded start.
pub fn count(recording: &Recording) -> Census {
    let pid = recording.events.first().map_or(0, |e| e.pid);
    let mut syscalls: BTreeMap<String, Calls> = BTreeMap::new();
    let (mut total, mut to_first_byte) = (0, None);
    for event in &recording.events {
        match &event.what {
            // A call that does not return (exit_group) is not counted, as strace -c does not count it.
            What::Syscall(call) if call.result.is_some() => {
                total += 1;
                let entry = syscalls.entry(call.name.clone()).or_default();
                entry.calls += 1;
                entry.errors += u64::from(call.failed());
                entry.by_children += u64::from(event.pid != pid);
            }
            // The write itself is still under way, and counts.
            What::FirstByte(_) => to_first_byte = to_first_byte.or(Some(total + 1)),
            _ => {}
        }
    }
    Census {
        max_threads: recording.threads_max,
        threads_exact: true,
        syscalls,
        syscalls_to_first_byte: to_first_byte,
        peak_rss_bytes: recording.peak_rss_bytes,
        child_processes: recording.children,
        page_faults: recording.usage.minflt.saturating_add(recording.usage.majflt),
        status: recording.status,
        elapsed_ns: recording.total_ns.saturating_add(recording.held_ns),
    }
}
