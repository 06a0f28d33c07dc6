//! In the place of `observing` on systems and processors where no back end observes a start: the same names, and a
//! reason.

use super::features::Feature;
use crate::measure::control::Control;

/// Programs are not pinned here.
pub(super) fn first_processor() -> Option<usize> {
    None
}

/// Nothing is tried.
pub(super) fn tried(_: &Control) -> Vec<Feature> {
    let feature = |name| Feature {
        name,
        works: Err("starts are observed on Linux (x86-64 and aarch64) only".to_string()),
        without: "no phases, no system calls; threads are sampled: a lower bound",
        advice: "observe the program on Linux",
    };
    ["ptrace", "system calls", "perf events", "uprobes"].map(feature).to_vec()
}
