//! What a host says of itself, as plain data: filled by the half of `sys` for its system.
//!
//! Every fact has three states. *Absent* means that the host was asked and does not have it (no frequency governor in
//! a virtual machine); *unreadable* says why it could not be asked (no `/proc`). They must never look alike.

use crate::facts::Fact;

pub use crate::sys::platform::host::Host;

/// Facts that do not change while we measure.
#[derive(Debug, Clone, PartialEq)]
pub struct HostFacts {
    /// `Linux`, `Darwin`.
    pub system: Fact<String>,
    /// Kernel release.
    pub kernel: Fact<String>,
    /// Name of the processor.
    pub cpu_model: Fact<String>,
    /// Processors that are switched on.
    pub cpus_online: Fact<u64>,
    /// Processors that we, and so the measured programs, may run on.
    pub cpus_allowed: Fact<u64>,
    /// Frequency governor; several names where processors differ.
    pub governor: Fact<String>,
    /// The processor may run faster than its nominal frequency.
    pub turbo: Fact<bool>,
    /// Some processors share a core.
    pub smt: Fact<bool>,
    /// What the kernel's clock counts by.
    pub clocksource: Fact<String>,
    /// Timer ticks of the kernel a second.
    pub hz: Fact<u64>,
    /// How `hz` was found.
    pub hz_source: &'static str,
    /// Units a second in which the kernel gives times to programs (in `/proc/stat`): not the timer's ticks.
    pub user_hz: u64,
    /// Who runs this virtual machine; absent on a host of its own.
    pub hypervisor: Fact<String>,
    /// Bytes of a memory page.
    pub page_bytes: u64,
    /// Memory of the host.
    pub memory_bytes: Fact<u64>,
    /// Address space randomisation: 0 off, 1 without the heap, 2 all.
    pub aslr: Fact<i64>,
    /// It is switched off for us and so for what we start, whatever the host's setting.
    pub aslr_off_for_us: bool,
    /// Processor time that the control groups allow us.
    pub cpu_quota: Fact<Quota>,
    /// Memory that the control groups allow us.
    pub memory_limit_bytes: Fact<u64>,
    /// Yama's restriction of ptrace; absent without Yama.
    pub ptrace_scope: Fact<i64>,
    /// Restriction of perf events.
    pub perf_event_paranoid: Fact<i64>,
    /// Restriction of programs that are no files: 0 none, 1 not by default, 2 never.
    pub memfd_noexec: Fact<i64>,
    /// Where the power comes from; absent where nothing tells.
    pub power: Fact<Power>,
}

/// A share of processor time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Quota {
    /// So much of it,
    pub quota_us: u64,
    /// in each such period.
    pub period_us: u64,
}

impl Quota {
    /// As a number of processors.
    pub fn processors(self) -> f64 {
        self.quota_us as f64 / (self.period_us as f64).max(1.0)
    }
}

/// Power supplies.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Power {
    /// Any mains supply is connected; none where there is none to ask.
    pub mains: Option<bool>,
    /// The system battery's state in the kernel's word (`Discharging`, …).
    pub battery: Option<String>,
}

impl Power {
    /// Runs down a battery.
    pub fn on_battery(&self) -> bool {
        self.battery.as_deref() == Some("Discharging") && self.mains != Some(true)
    }
}

/// Counters and gauges that a run is compared by: read before and after.
#[derive(Debug, Clone, PartialEq)]
pub struct Counters {
    /// Load averages over 1, 5 and 15 minutes.
    pub load: Fact<[f64; 3]>,
    /// Time that the hypervisor took from all processors since boot, nanoseconds.
    pub steal_ns: Fact<u64>,
    /// How often a control group of ours, or one above it, had used its quota up.
    pub throttled: Fact<u64>,
    /// Time for which it was stopped then, nanoseconds.
    pub throttled_ns: Fact<u64>,
}
