//! The timeline of one start: events in order, phases from events.
//!
//! | file | subject |
//! |---|---|
//! | `event` | the stream of events, as data and as text |
//! | `phases` | events to phases that never overlap and sum to the total |
//! | `space`, `objects`, `gaps`, `analysis` | what else the stream says: page faults by kind, objects, causes |
//! | `clock` | time without the time in which the program was held |
//! | `locate`, `memory` | where in a file, and in a program, the marked places are |
//! | `stops` | the ptrace back end |
//! | `records` | the perf back end |
//! | `recording`, `probe`, `sampled`, `study` | one observed start, several, and what verbs ask of them |
//! | `features`, `observing` | which of all this works on this host, by trial |
//!
//! Everything above the back ends is pure: a recorded stream is a test case.

pub mod analysis;
pub mod clock;
pub mod event;
pub mod features;
pub mod gaps;
pub mod locate;
pub mod objects;
pub mod phases;
pub mod space;
pub mod summary;

#[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]
mod memory;
#[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]
mod observing;
#[cfg(not(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64"))))]
#[path = "unobserved.rs"]
mod observing;
pub mod probe;
pub mod recording;
#[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]
pub mod records;
#[cfg(any(target_os = "macos", target_arch = "x86_64", target_arch = "aarch64"))]
pub mod sampled;
#[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]
pub mod stops;
#[cfg(not(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64"))))]
#[path = "unsupported.rs"]
pub mod stops;
#[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]
pub mod study;
#[cfg(not(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64"))))]
#[path = "unsupported_study.rs"]
pub mod study;
