//! A count of steps, so that a test can bound the work on a hostile file without a clock. Nothing outside tests.

#[cfg(test)]
thread_local! {
    static STEPS: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
}

/// Counts steps: one for each byte, entry or place that is looked at.
#[inline]
pub(super) fn count(_steps: usize) {
    #[cfg(test)]
    STEPS.with(|s| s.set(s.get().saturating_add(_steps as u64)));
}

/// Steps since the last call, on this thread.
#[cfg(test)]
pub(super) fn taken() -> u64 {
    STEPS.with(|s| s.replace(0))
}
