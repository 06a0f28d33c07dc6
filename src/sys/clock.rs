//! The monotonic clock in nanoseconds, its resolution and what reading it costs.

use crate::sys::platform::CLOCK;

/// Nanoseconds of the monotonic clock (`CLOCK_MONOTONIC`; on macOS `CLOCK_UPTIME_RAW`). Async-signal-safe: reads the vDSO, allocates nothing.
pub fn now_ns() -> u64 {
    let mut t = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `t` is a valid timespec that outlives the call; the clock exists on every system we build for.
    unsafe { libc::clock_gettime(CLOCK, &raw mut t) };
    (t.tv_sec as u64).wrapping_mul(1_000_000_000).wrapping_add(t.tv_nsec as u64)
}

/// What the system says of the clock's step, in nanoseconds.
pub fn resolution_ns() -> u64 {
    let mut t = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: as in `now_ns`.
    unsafe { libc::clock_getres(CLOCK, &raw mut t) };
    (t.tv_sec as u64).wrapping_mul(1_000_000_000).wrapping_add(t.tv_nsec as u64)
}

/// Median-free cost of one reading in nanoseconds: the shortest of several batches, each divided by its length.
pub fn read_cost_ns() -> f64 {
    const READS: u32 = 200;
    let batch = || {
        let from = now_ns();
        for _ in 1..READS {
            now_ns();
        }
        now_ns().saturating_sub(from) as f64 / f64::from(READS)
    };
    (0..5).map(|_| batch()).fold(f64::INFINITY, f64::min)
}

/// Processor time of the calling process so far, in nanoseconds.
pub fn own_cpu_ns() -> u64 {
    let mut t = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: as in `now_ns`.
    unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &raw mut t) };
    (t.tv_sec as u64).wrapping_mul(1_000_000_000).wrapping_add(t.tv_nsec as u64)
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_clock_never_goes_back_and_has_a_resolution() {
        let times: Vec<u64> = (0..1000).map(|_| super::now_ns()).collect();
        assert!(times.windows(2).all(|w| w[0] <= w[1]));
        assert!(super::resolution_ns() > 0);
        assert!(super::read_cost_ns().is_finite());
    }
}
