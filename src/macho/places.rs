//! Where fixups lie: how many each segment holds, and how many distinct pages they touch.

use crate::order;
use std::ops::Range;

use object::macho;

use super::image::Image;
use super::work;

/// What a fixup does, for the counts by segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Class {
    Rebase,
    Bind,
    WeakBind,
    LazyBind,
    /// The loader writes the place, but it is no pointer (32-bit chains link such values too).
    Value,
}

/// Counts of one segment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Counts {
    pub rebases: u64,
    pub binds: u64,
    pub weak_binds: u64,
    pub lazy_binds: u64,
    /// Of the binds, those in tables of symbol pointers (`__got`).
    pub got_binds: u64,
}

/// One segment's range in memory.
#[derive(Debug, Clone, Copy)]
struct Span {
    address: u64,
    bytes: u64,
    writable: bool,
}

/// Collects places of fixups in one image.
#[derive(Debug)]
pub(super) struct Places {
    spans: Vec<Span>,
    counts: Vec<Counts>,
    /// Address ranges of S_NON_LAZY_SYMBOL_POINTERS sections, sorted, without overlaps.
    tables: Vec<Range<u64>>,
    pages: Pages,
    pointer_size: u64,
    outside_writable: bool,
    /// Where each segment starts in memory, sorted, with its index.
    starts: Vec<(u64, usize)>,
}

/// Why a place cannot be one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Outside {
    Segment(u64),
    Bytes(u64),
}

impl std::fmt::Display for Outside {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Outside::Segment(index) => write!(f, "there is no segment {index}"),
            Outside::Bytes(offset) => write!(f, "offset {offset:#x} lies outside its segment"),
        }
    }
}

impl Places {
    pub(super) fn new(image: &Image<'_>) -> Places {
        let spans: Vec<Span> = image
            .segments
            .iter()
            .map(|s| Span { address: s.vm_address, bytes: s.vm_bytes, writable: s.is_writable() })
            .collect();
        let tables = image
            .sections_of(macho::S_NON_LAZY_SYMBOL_POINTERS)
            .map(|s| s.address..s.address.saturating_add(s.bytes))
            .collect();
        let mut starts: Vec<(u64, usize)> = spans.iter().enumerate().map(|(i, s)| (s.address, i)).collect();
        starts.sort_unstable();
        Places {
            starts,
            counts: vec![Counts::default(); spans.len()],
            spans,
            tables: joined(tables),
            pages: Pages::default(),
            pointer_size: image.pointer_size(),
            outside_writable: false,
        }
    }

    /// Notes one fixup at `offset` of segment `index`.
    ///
    /// # Errors
    /// There is no such place.
    pub(super) fn add(&mut self, index: u64, offset: u64, class: Class) -> Result<(), Outside> {
        work::count(1);
        let missing = Outside::Segment(index);
        let at = usize::try_from(index).map_err(|_| missing)?;
        let span = self.spans.get(at).ok_or(missing)?;
        let counts = self.counts.get_mut(at).ok_or(missing)?;
        let inside = offset.checked_add(self.pointer_size).is_some_and(|end| end <= span.bytes);
        let address = span.address.checked_add(offset).filter(|_| inside).ok_or(Outside::Bytes(offset))?;
        let count = match class {
            Class::Rebase => &mut counts.rebases,
            Class::Bind => &mut counts.binds,
            Class::WeakBind => &mut counts.weak_binds,
            Class::LazyBind => &mut counts.lazy_binds,
            Class::Value => &mut 0,
        };
        *count = count.saturating_add(1);
        if class == Class::Bind && contains(&self.tables, address) {
            counts.got_binds = counts.got_binds.saturating_add(1);
        }
        if class != Class::LazyBind {
            self.outside_writable |= !span.writable;
            self.pages.add(address);
            // A pointer that crosses a page writes both (packed structures).
            self.pages.add(address.saturating_add(self.pointer_size).saturating_sub(1));
        }
        Ok(())
    }

    /// Notes one fixup at an address of the image.
    ///
    /// # Errors
    /// There is no such place.
    pub(super) fn add_at(&mut self, address: u64, class: Class) -> Result<(), Outside> {
        let after = self.starts.partition_point(|(start, _)| *start <= address);
        let found = after.checked_sub(1).and_then(|i| self.starts.get(i)).copied();
        let (start, index) = found.ok_or(Outside::Bytes(address))?;
        self.add(index as u64, address.saturating_sub(start), class)
    }

    /// The counts by segment.
    pub(super) fn counts(&self) -> &[Counts] {
        &self.counts
    }

    /// Sums over all segments.
    pub(super) fn total(&self) -> Counts {
        self.counts.iter().fold(Counts::default(), |sum, c| Counts {
            rebases: sum.rebases.saturating_add(c.rebases),
            binds: sum.binds.saturating_add(c.binds),
            weak_binds: sum.weak_binds.saturating_add(c.weak_binds),
            lazy_binds: sum.lazy_binds.saturating_add(c.lazy_binds),
            got_binds: sum.got_binds.saturating_add(c.got_binds),
        })
    }

    /// Start-up fixups lie in segments that are not writable.
    pub(super) fn writes_read_only(&self) -> bool {
        self.outside_writable
    }

    /// Distinct pages of 4 KiB and of 16 KiB that start-up fixups write.
    pub(super) fn pages(&mut self) -> (u64, u64) {
        self.pages.distinct()
    }
}

/// Sorts ranges and joins those that touch.
fn joined(mut ranges: Vec<Range<u64>>) -> Vec<Range<u64>> {
    order::by_key(&mut ranges, |r| (r.start, r.end));
    let mut out: Vec<Range<u64>> = Vec::new();
    for range in ranges {
        match out.last_mut() {
            Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
            _ => out.push(range),
        }
    }
    out
}

fn contains(ranges: &[Range<u64>], address: u64) -> bool {
    let after = ranges.partition_point(|r| r.start <= address);
    after.checked_sub(1).and_then(|i| ranges.get(i)).is_some_and(|r| address < r.end)
}

/// A set of 4 KiB pages, small for places that come in order, as they do.
#[derive(Debug, Default)]
struct Pages {
    numbers: Vec<u64>,
    sorted: usize,
}

impl Pages {
    fn add(&mut self, address: u64) {
        let page = address >> 12;
        if self.numbers.last() == Some(&page) {
            return;
        }
        self.numbers.push(page);
        // Repeats in another order are dropped whenever the list has doubled: memory follows the distinct pages.
        if self.numbers.len() > self.sorted.saturating_mul(2).saturating_add(4096) {
            self.sort();
        }
    }

    fn sort(&mut self) {
        self.numbers.sort_unstable();
        self.numbers.dedup();
        self.sorted = self.numbers.len();
    }

    fn distinct(&mut self) -> (u64, u64) {
        self.sort();
        let mut wide: Vec<u64> = self.numbers.iter().map(|page| page >> 2).collect();
        wide.dedup();
        (self.numbers.len() as u64, wide.len() as u64)
    }
}

#[cfg(test)]
#[allow(clippy::arithmetic_side_effects)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_counted_once_in_any_order() {
        let mut pages = Pages::default();
        for round in 0..3 {
            for i in 0..10_000u64 {
                pages.add((i * 7919 % 10_000) * 4096 + round);
            }
        }
        assert_eq!(pages.distinct(), (10_000, 2_500));
        assert!(pages.numbers.len() == 10_000);
        pages.add(u64::MAX);
        assert_eq!(pages.distinct(), (10_001, 2_501));
    }

    #[test]
    fn ranges_join_and_are_found() {
        let ranges = joined(vec![8..16, 0..4, 12..20, 20..24, u64::MAX - 1..u64::MAX]);
        assert_eq!(ranges, [0..4, 8..24, u64::MAX - 1..u64::MAX]);
        let inside: Vec<bool> = [0, 3, 4, 7, 8, 23, 24, u64::MAX].iter().map(|a| contains(&ranges, *a)).collect();
        assert_eq!(inside, [true, true, false, false, true, true, false, false]);
    }
}
