//! Work on many items by several threads, results in the order of the items, memory bounded.

use std::collections::BTreeMap;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use crate::error::Result;

/// Results that may wait for an earlier one, for each thread.
const WINDOW: usize = 64;

struct State<I, R> {
    items: I,
    /// Number of the next item.
    next: usize,
    /// Number of the next result that is handed on.
    wanted: usize,
    /// Results that wait for earlier ones.
    waiting: BTreeMap<usize, R>,
    exhausted: bool,
    /// Items that somebody works on.
    busy: usize,
}

/// Applies `work` to every item in `jobs` threads and hands the results to `sink` in the order of the items, in the
/// calling thread. Items are taken one by one, and never further ahead of the sink than a window.
///
/// # Errors
/// The sink's first error ends the work.
pub fn ordered<T, R: Send>(
    items: impl Iterator<Item = T> + Send,
    jobs: usize,
    work: impl Fn(T) -> R + Sync,
    mut sink: impl FnMut(R) -> Result<()>,
) -> Result<()> {
    let jobs = jobs.max(1);
    let state = Mutex::new(State { items, next: 0, wanted: 0, waiting: BTreeMap::new(), exhausted: false, busy: 0 });
    let changed = Condvar::new();
    std::thread::scope(|scope| {
        for _ in 0..jobs {
            scope.spawn(|| worker(&state, &changed, jobs.saturating_mul(WINDOW), &work));
        }
        let result = loop {
            let Some(next) = take(&state, &changed) else { break Ok(()) };
            if let Err(e) = sink(next) {
                break Err(e);
            }
        };
        // On an error the threads must not wait for a sink that is gone.
        lock(&state).exhausted = true;
        changed.notify_all();
        result
    })
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Poison only says that another thread panicked; the state is whole after each step.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn wait<'a, T>(changed: &Condvar, guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
    changed.wait(guard).unwrap_or_else(PoisonError::into_inner)
}

fn worker<T, R>(
    state: &Mutex<State<impl Iterator<Item = T>, R>>,
    changed: &Condvar,
    window: usize,
    work: &(impl Fn(T) -> R + Sync),
) {
    loop {
        let mut guard = lock(state);
        while !guard.exhausted && guard.next >= guard.wanted.saturating_add(window) {
            guard = wait(changed, guard);
        }
        if guard.exhausted {
            return;
        }
        let Some(item) = guard.items.next() else {
            guard.exhausted = true;
            changed.notify_all();
            return;
        };
        let index = guard.next;
        guard.next = guard.next.saturating_add(1);
        guard.busy = guard.busy.saturating_add(1);
        drop(guard);
        let result = work(item);
        let mut guard = lock(state);
        guard.waiting.insert(index, result);
        guard.busy = guard.busy.saturating_sub(1);
        changed.notify_all();
    }
}

/// The next result in order; `None` after the last.
fn take<T, R>(state: &Mutex<State<impl Iterator<Item = T>, R>>, changed: &Condvar) -> Option<R> {
    let mut guard = lock(state);
    loop {
        let wanted = guard.wanted;
        if let Some(result) = guard.waiting.remove(&wanted) {
            guard.wanted = wanted.saturating_add(1);
            changed.notify_all();
            return Some(result);
        }
        if guard.exhausted && guard.busy == 0 && guard.waiting.is_empty() {
            return None;
        }
        guard = wait(changed, guard);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Error;

    #[test]
    fn results_come_in_order_whatever_each_takes() {
        for jobs in [1, 2, 7] {
            let mut seen = Vec::new();
            let slow_first = |n: u64| {
                std::thread::sleep(std::time::Duration::from_micros((n % 5) * 200));
                n * 2
            };
            ordered(0..500u64, jobs, slow_first, |n| {
                seen.push(n);
                Ok(())
            })
            .unwrap();
            assert_eq!(seen, (0..500).map(|n| n * 2).collect::<Vec<_>>());
        }
    }

    #[test]
    fn an_error_of_the_sink_ends_the_work() {
        let mut taken = 0;
        let result = ordered(
            0..1_000_000u64,
            3,
            |n| n,
            |_| {
                taken += 1;
                if taken == 10 { Err(Error::new("full")) } else { Ok(()) }
            },
        );
        assert_eq!(result.unwrap_err().to_string(), "full");
        assert_eq!(taken, 10);
        ordered(0..0u64, 3, |n| n, |_| Ok(())).unwrap();
    }
}
