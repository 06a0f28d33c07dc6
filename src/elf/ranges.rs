//! Address ranges of loaded segments, sorted and merged: questions about many addresses take one pass.

#![deny(clippy::indexing_slicing, clippy::arithmetic_side_effects, clippy::unwrap_used)]

use super::image::Segment;

/// Page size of the questions asked here. Kernels map whole pages, of 4 KiB or more.
const PAGE: u64 = 4096;

/// The pages of the segments that `keep` chooses, as sorted ranges `[start, end)` that do not touch.
pub fn mapped(loads: &[Segment], keep: impl Fn(&Segment) -> bool) -> Vec<(u64, u64)> {
    let round =
        |s: &Segment| (s.vaddr & PAGE.wrapping_neg(), s.end().checked_next_multiple_of(PAGE).unwrap_or(u64::MAX));
    let mut all: Vec<(u64, u64)> = loads.iter().filter(|s| s.memsz > 0 && keep(s)).map(round).collect();
    all.sort_unstable();
    let mut merged: Vec<(u64, u64)> = Vec::with_capacity(all.len());
    for (start, end) in all {
        match merged.last_mut() {
            Some(last) if start <= last.1 => last.1 = last.1.max(end),
            _ => merged.push((start, end)),
        }
    }
    merged
}

/// True where one range holds all of `[start, end)`.
pub fn covers(ranges: &[(u64, u64)], start: u64, end: u64) -> bool {
    let after = ranges.partition_point(|(from, _)| *from <= start);
    after.checked_sub(1).and_then(|i| ranges.get(i)).is_some_and(|(_, to)| end <= *to)
}

/// How many of these sorted 4 KiB pages no range holds.
pub fn pages_not_covered(ranges: &[(u64, u64)], sorted_pages: &[u64]) -> u64 {
    let outside = sorted_pages.iter().filter(|page| {
        let start = page.saturating_mul(PAGE);
        !covers(ranges, start, start.saturating_add(PAGE))
    });
    outside.count() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(vaddr: u64, memsz: u64, flags: u32) -> Segment {
        Segment { kind: 1, offset: 0, vaddr, filesz: 0, memsz, flags, align: 4096 }
    }

    #[test]
    fn touching_segments_merge() {
        let loads = [load(0x3010, 0x10, 2), load(0x1000, 0x1800, 2), load(0x8000, 0, 2), load(0x9000, 1, 4)];
        let ranges = mapped(&loads, |s| s.flags & 2 != 0);
        assert_eq!(ranges, [(0x1000, 0x4000)]);
        assert!(covers(&ranges, 0x1000, 0x4000) && covers(&ranges, 0x3ff8, 0x4000));
        assert!(!covers(&ranges, 0xfff, 0x1001) && !covers(&ranges, 0x3000, 0x4001) && !covers(&[], 0, 1));
        assert_eq!(pages_not_covered(&ranges, &[0, 1, 3, 4]), 2);
        assert_eq!(mapped(&[load(u64::MAX - 1, 9, 2)], |_| true), [(!0xfff, u64::MAX)]);
    }
}
