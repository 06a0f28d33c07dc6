//! Distinct pages written, in little memory whatever the order and number of writes.

#![deny(clippy::indexing_slicing, clippy::arithmetic_side_effects, clippy::unwrap_used)]

/// Log2 of the page that writes are gathered by; larger pages are derived from it.
const SHIFT: u32 = 12;

/// Gathers addresses that are written.
#[derive(Debug, Clone)]
pub struct PageSet {
    /// The page that was noted last; no page has the number that stands here at first.
    last: u64,
    /// Numbers of 4 KiB pages, in order of writing, without direct repetition until [`PageSet::settle`].
    numbers: Vec<u64>,
    /// Length at which repetitions are removed, so that memory follows the distinct pages and not the writes.
    settle_at: usize,
    /// Pages already spent on writes over several pages.
    spent: u64,
}

/// Pages that all writes over several pages together may note: 256 MiB, more than any program's copied objects.
/// A file merely claims such sizes, and a claim must not become a loop.
const RANGE_BUDGET: u64 = 1 << 16;

impl Default for PageSet {
    fn default() -> PageSet {
        PageSet { last: u64::MAX, numbers: Vec::new(), settle_at: 0, spent: 0 }
    }
}

impl PageSet {
    /// Notes a write of `len` bytes.
    #[inline]
    pub fn write(&mut self, addr: u64, len: u64) {
        let first = addr >> SHIFT;
        let last = addr.saturating_add(len.saturating_sub(1)) >> SHIFT;
        if first == last {
            self.push(first);
        } else {
            self.write_range(first, last);
        }
    }

    #[inline]
    fn push(&mut self, page: u64) {
        if self.last != page {
            self.last = page;
            self.numbers.push(page);
            if self.numbers.len() > self.settle_at.max(1 << 16) {
                self.settle();
                self.settle_at = self.numbers.len().saturating_mul(2);
            }
        }
    }

    /// A write over several pages: a copied object, or a word across a page's end.
    fn write_range(&mut self, first: u64, last: u64) {
        let left = RANGE_BUDGET.saturating_sub(self.spent).max(1);
        let last = last.min(first.saturating_add(left));
        self.spent = self.spent.saturating_add(last.saturating_sub(first));
        for page in first..=last {
            self.push(page);
        }
    }

    fn settle(&mut self) {
        self.numbers.sort_unstable();
        self.numbers.dedup();
    }

    /// Sorted numbers of the distinct 4 KiB pages.
    pub fn into_sorted(mut self) -> Vec<u64> {
        self.settle();
        self.numbers
    }
}

/// How many distinct pages of `page_size` bytes (a power of two, 4 KiB or more) hold these sorted 4 KiB pages.
pub fn pages_of(sorted: &[u64], page_size: u64) -> u64 {
    let shift = page_size.trailing_zeros().saturating_sub(SHIFT);
    let mut count = 0u64;
    let mut previous = None;
    for page in sorted {
        let page = page.checked_shr(shift).unwrap_or(0);
        if previous != Some(page) {
            count = count.saturating_add(1);
            previous = Some(page);
        }
    }
    count
}

/// How many of them lie wholly inside `[start, end)`, which is aligned to `page_size`.
pub fn pages_inside(sorted: &[u64], page_size: u64, start: u64, end: u64) -> u64 {
    let from = sorted.partition_point(|p| (p << SHIFT) < start);
    let to = sorted.partition_point(|p| (p << SHIFT) < end);
    pages_of(sorted.get(from..to).unwrap_or(&[]), page_size)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distinct_pages_of_three_sizes() {
        let mut set = PageSet::default();
        for addr in [0x1000u64, 0x1ff8, 0x1ffc, 0x5000, 0x1_0000, 0x1008] {
            set.write(addr, 8);
        }
        let sorted = set.into_sorted();
        assert_eq!(sorted, [1, 2, 5, 16]);
        assert_eq!([4096, 16384, 65536].map(|size| pages_of(&sorted, size)), [4, 3, 2]);
        assert_eq!(pages_inside(&sorted, 4096, 0x2000, 0x1_0000), 2);
        assert_eq!(pages_inside(&sorted, 4096, 0x3000, 0x3000), 0);
    }

    #[test]
    fn memory_follows_distinct_pages() {
        let mut set = PageSet::default();
        for i in 0..1_000_000u64 {
            set.write((i % 3) << 12, 8);
        }
        assert!(set.numbers.len() <= (1 << 16) + 1);
        assert_eq!(set.into_sorted(), [0, 1, 2]);
    }

    #[test]
    fn a_claimed_size_does_not_become_a_loop() {
        let mut set = PageSet::default();
        set.write(u64::MAX - 4, 8);
        set.write(0, u64::MAX);
        set.write(1 << 50, u64::MAX);
        assert!(set.into_sorted().len() as u64 <= RANGE_BUDGET + 4);
    }
}
