//! What one CPUID instruction costs here.
//!
//! In a virtual machine it leaves the guest, which costs microseconds; glibc executes dozens at start (on x86
//! only), so without this figure the time would be blamed on relocation.

/// Nanoseconds of one CPUID, the shortest of several batches divided by its length; `None` off x86-64.
///
/// Leaf 4 is what glibc asks most often (cache geometry). About 200 executions: 1 ms where each traps.
#[cfg(target_arch = "x86_64")]
pub fn cost_ns() -> Option<f64> {
    use std::arch::x86_64::__cpuid_count;

    use crate::sys::clock::now_ns;

    const PER_BATCH: u32 = 25;
    let batch = || {
        let from = now_ns();
        for _ in 0..PER_BATCH {
            #[allow(unused_unsafe)] // reason: safe since Rust 1.94, unsafe in the oldest release that we build with
            // SAFETY: every x86-64 processor has CPUID.
            std::hint::black_box(unsafe { __cpuid_count(4, 0) });
        }
        now_ns().saturating_sub(from) as f64 / f64::from(PER_BATCH)
    };
    Some((0..8).map(|_| batch()).fold(f64::INFINITY, f64::min))
}

/// Nanoseconds of one CPUID, the shortest of several batches divided by its length; `None` off x86-64.
#[cfg(not(target_arch = "x86_64"))]
pub fn cost_ns() -> Option<f64> {
    None
}

#[cfg(test)]
mod tests {
    #[test]
    fn cpuid_has_a_cost_where_it_exists() {
        let cost = super::cost_ns();
        assert_eq!(cost.is_some(), cfg!(target_arch = "x86_64"));
        assert!(cost.is_none_or(|ns| ns > 0.0 && ns.is_finite()));
    }
}
