//! Sorting for lists that are shown to people: tens of rows, seldom thousands.
//!
//! The standard sorts are made anew for each type and comparison, 4 kB of machine code each; seventy of them were a
//! tenth of the binary. These share one. Numbers by the thousand are sorted by the standard ones.

use std::cmp::Ordering;

/// Sorts stably by `compare`: O(n log n) comparisons, and memory for `n` indices.
pub fn by<T>(items: &mut [T], compare: impl Fn(&T, &T) -> Ordering) {
    let order = {
        let items = &*items;
        sorted_indices(items.len(), &|a, b| match (items.get(a), items.get(b)) {
            (Some(a), Some(b)) => compare(a, b),
            _ => Ordering::Equal,
        })
    };
    put_in(order, &mut |a, b| items.swap(a, b));
}

/// Sorts stably by a key, which is made anew for each comparison.
pub fn by_key<T, K: Ord>(items: &mut [T], key: impl Fn(&T) -> K) {
    by(items, |a, b| key(a).cmp(&key(b)));
}

/// Which item belongs at each place.
#[inline(never)]
fn sorted_indices(n: usize, compare: &dyn Fn(usize, usize) -> Ordering) -> Vec<usize> {
    let mut order: Vec<usize> = (0..n).collect();
    order.sort_by(|a, b| compare(*a, *b));
    order
}

/// Moves each item to its place, one cycle of the permutation after the other: `order` says which item belongs at each
/// place, `swap` exchanges the items at two places.
#[inline(never)]
fn put_in(mut order: Vec<usize>, swap: &mut dyn FnMut(usize, usize)) {
    for start in 0..order.len() {
        let mut at = start;
        while let Some(from) = order.get(at).copied() {
            if let Some(place) = order.get_mut(at) {
                *place = at;
            }
            if from == start || from == at {
                break;
            }
            swap(at, from);
            at = from;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sorts_like_the_standard_sort_and_keeps_equals_in_order() {
        let mut state = 1u64;
        for n in 0..200usize {
            let mut items: Vec<(u64, usize)> = (0..n)
                .map(|i| {
                    state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                    ((state >> 33) % 17, i)
                })
                .collect();
            let mut expected = items.clone();
            expected.sort_by_key(|(key, _)| *key);
            by_key(&mut items, |(key, _)| *key);
            assert_eq!(items, expected);
        }
    }

    #[test]
    fn sorts_what_cannot_be_copied() {
        let mut words: Vec<String> = ["pear", "fig", "apple", "date"].map(String::from).to_vec();
        by(&mut words, |a, b| b.cmp(a));
        assert_eq!(words, ["pear", "fig", "date", "apple"]);
    }
}
