//! Probe starts: what is observed, not timed, once the timed starts are over.

use super::measuring::Measured;
use crate::error::Exit;
use crate::measure::command::Command;
use crate::output::Output;
use crate::record::bench::BenchRecord;
use crate::record::probes::{Probes, SyscallCounts};
use crate::sys::signal::interrupted;
use crate::trace::probe::{Census, census};
use crate::trace::recording::NotTraced;
use crate::trace::sampled;
use crate::trace::stops::Tracer;

/// Observes every command of a run that was made whole, unless `starts` is 0 or the commands do not end by themselves.
pub(super) fn observe(
    measured: &mut Measured,
    commands: &[Command],
    starts: u64,
    timeout_ns: Option<u64>,
    output: &mut Output<'_>,
) {
    if starts == 0 || measured.exit != Exit::Done || measured.record.setting.until_first_byte {
        return;
    }
    output.progress("observing");
    probe_all(&mut measured.record, commands, starts, timeout_ns);
    output.progress("");
    if interrupted() {
        measured.exit = Exit::Interrupted;
    }
}

/// Observes every command and puts what was seen into the record.
pub fn probe_all(record: &mut BenchRecord, commands: &[Command], starts: u64, timeout_ns: Option<u64>) {
    for (r, c) in record.commands.iter_mut().zip(commands) {
        r.probes = Some(probe(c, starts, timeout_ns));
    }
}

/// Observes `starts` starts of a command.
pub fn probe(command: &Command, starts: u64, timeout_ns: Option<u64>) -> Probes {
    let mut seen = Vec::new();
    let mut reason = None;
    match Tracer::new() {
        Ok(tracer) => {
            for _ in 0..starts {
                match census(&tracer, &command.program, timeout_ns) {
                    Ok(c) => seen.push(c),
                    Err(NotTraced::Denied(why)) => {
                        reason = Some(why);
                        break;
                    }
                    Err(NotTraced::Failed(e)) => {
                        reason = Some(e.to_string());
                        break;
                    }
                }
            }
        }
        Err(e) => reason = Some(e.to_string()),
    }
    if seen.is_empty() { sampled_threads(command, timeout_ns, reason) } else { summarise(&seen, reason) }
}

/// Where tracing is denied: a lower bound for threads, and nothing else.
fn sampled_threads(command: &Command, timeout_ns: Option<u64>, reason: Option<String>) -> Probes {
    let mut p = Probes {
        starts: 0,
        max_threads: 0,
        threads_exact: false,
        syscalls: None,
        page_faults: None,
        peak_rss_bytes: None,
        child_processes: None,
        elapsed_ns: 0,
        reason,
    };
    match sampled::threads(&command.program, timeout_ns) {
        Ok(s) => {
            p.starts = 1;
            p.max_threads = s.max_threads_at_least;
            p.elapsed_ns = s.elapsed_ns;
        }
        Err(e) => p.reason = Some(format!("{}; {e}", p.reason.unwrap_or_default())),
    }
    p
}

fn summarise(seen: &[Census], reason: Option<String>) -> Probes {
    let mut by_name = std::collections::BTreeMap::new();
    for (name, calls) in seen.iter().flat_map(|c| &c.syscalls) {
        let most = by_name.entry(name.clone()).or_insert(0);
        *most = calls.calls.max(*most);
    }
    let totals = || seen.iter().map(Census::syscalls_total);
    Probes {
        starts: seen.len() as u64,
        max_threads: seen.iter().map(|c| c.max_threads).max().unwrap_or(0),
        threads_exact: seen.iter().all(|c| c.threads_exact),
        syscalls: Some(SyscallCounts {
            total_min: totals().min().unwrap_or(0),
            total_max: totals().max().unwrap_or(0),
            to_first_byte: seen.iter().filter_map(|c| c.syscalls_to_first_byte).min(),
            by_name,
        }),
        page_faults: median(seen.iter().map(|c| c.page_faults)),
        peak_rss_bytes: seen.iter().filter_map(|c| c.peak_rss_bytes).max(),
        child_processes: seen.iter().map(|c| c.child_processes).max(),
        elapsed_ns: median(seen.iter().map(|c| c.elapsed_ns)).unwrap_or(0),
        reason,
    }
}

fn median(values: impl Iterator<Item = u64>) -> Option<u64> {
    let mut v: Vec<u64> = values.collect();
    v.sort_unstable();
    v.get(v.len() / 2).copied()
}
