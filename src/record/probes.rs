//! What was observed of a command in starts that were not timed.

use std::collections::BTreeMap;

/// Observed in a few starts, apart from the timed ones.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Probes {
    /// Starts observed.
    pub starts: u64,
    /// Most threads alive at once in the process, over the starts.
    pub max_threads: u64,
    /// False where that is a lower bound, from looking every 100 µs.
    pub threads_exact: bool,
    /// System calls, those of threads and children included; `None` where they could not be followed.
    pub syscalls: Option<SyscallCounts>,
    /// Page faults of the process, median of the starts.
    pub page_faults: Option<u64>,
    /// Peak of resident memory by the process's own counter at its end: no floor. The largest of the starts.
    pub peak_rss_bytes: Option<u64>,
    /// Processes it made, at most.
    pub child_processes: Option<u64>,
    /// Median wall time of an observed start, nanoseconds: what being watched cost.
    pub elapsed_ns: u64,
    /// Why something is missing.
    pub reason: Option<String>,
}

/// System calls over some starts.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SyscallCounts {
    /// Fewest of a start.
    pub total_min: u64,
    /// Most of a start.
    pub total_max: u64,
    /// Until the first byte of output, the fewest; `None` where there was no output.
    pub to_first_byte: Option<u64>,
    /// Most calls of each name.
    pub by_name: BTreeMap<String, u64>,
}
