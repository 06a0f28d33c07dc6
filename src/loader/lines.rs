//! What look-ups read of the objects' tables, in lines of a processor's cache: a look-up that finds its lines where the
//! one before left them takes a third of the time of one that has to fetch them.
//!
//! A small cache is simulated (32 KiB in lines of 64 bytes, 8 ways, replaced by a tree of bits that point away from what
//! was used last: the first-level data cache of most x86-64 processors). What is read in order needs no fetch: processors
//! see it coming.

#![deny(clippy::indexing_slicing, clippy::arithmetic_side_effects, clippy::unwrap_used)]

use std::cell::RefCell;

const LINE: usize = 64;
const SETS: usize = 64;
const WAYS: usize = 8;

/// Lines that look-ups touch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Touched {
    /// Lines touched for the first time.
    pub first: u64,
    /// Times that a line is fetched again after others took its place.
    pub again: u64,
}

/// The simulated cache.
pub(super) struct Lines {
    inner: RefCell<Inner>,
}

struct Inner {
    sets: Vec<Set>,
    /// A bit a line, by object: no more than the file has.
    seen: Vec<Vec<u64>>,
    touched: Touched,
}

/// No line: objects are fewer.
const NONE: u64 = u64::MAX;

/// One set of the cache.
#[derive(Clone, Copy)]
struct Set {
    /// An object's index and a line of it, together.
    tags: [u64; WAYS],
    /// A tree of seven bits, root first: each says in which half the next victim is.
    tree: u8,
}

impl Set {
    fn place(&self, tag: u64) -> Option<usize> {
        self.tags.iter().position(|t| *t == tag)
    }

    /// Points every bit on the way to `place` to the other half.
    fn used(&mut self, place: usize) {
        let mut node = 0u32;
        for level in [4, 2, 1] {
            let in_upper = place & level != 0;
            let bit = 1u8.wrapping_shl(node);
            if in_upper {
                self.tree &= !bit
            } else {
                self.tree |= bit
            }
            node = node.saturating_mul(2).saturating_add(1).saturating_add(u32::from(in_upper));
        }
    }

    fn put(&mut self, tag: u64) {
        let (mut node, mut place) = (0u32, 0usize);
        for level in [4, 2, 1] {
            let upper = self.tree.wrapping_shr(node) & 1 == 1;
            place |= if upper { level } else { 0 };
            node = node.saturating_mul(2).saturating_add(1).saturating_add(u32::from(upper));
        }
        if let Some(slot) = self.tags.get_mut(place) {
            *slot = tag;
        }
        self.used(place);
    }
}

/// Notes reads of one object, if anybody wants to know.
#[derive(Clone, Copy, Default)]
pub(super) struct Reader<'a> {
    lines: Option<&'a Lines>,
    object: usize,
}

impl<'a> Reader<'a> {
    /// Of an object.
    pub(super) fn of(lines: Option<&'a Lines>, object: usize) -> Reader<'a> {
        Reader { lines, object }
    }

    /// A read of `len` bytes, `at` bytes behind an offset of the file.
    #[inline(always)] // reason: most callers do not count, and the test for that is all that they should pay
    pub(super) fn read(self, start: usize, at: usize, len: usize) {
        if let Some(lines) = self.lines {
            lines.touch(self.object, start.saturating_add(at), len);
        }
    }
}

impl Lines {
    /// For so many objects; nothing touched yet.
    pub(super) fn new(objects: usize) -> Lines {
        let inner = Inner {
            sets: vec![Set { tags: [NONE; WAYS], tree: 0 }; SETS],
            seen: vec![Vec::new(); objects],
            touched: Touched::default(),
        };
        Lines { inner: RefCell::new(inner) }
    }

    /// A read of `len` bytes at an offset of an object's file.
    #[inline(never)]
    fn touch(&self, object: usize, at: usize, len: usize) {
        let mut inner = self.inner.borrow_mut();
        let last = at.saturating_add(len.saturating_sub(1)) / LINE;
        for line in at / LINE..=last {
            inner.touch(object, line);
        }
    }

    /// The sums.
    pub(super) fn touched(&self) -> Touched {
        self.inner.borrow().touched
    }
}

impl Inner {
    fn touch(&mut self, object: usize, line: usize) {
        let tag = (object as u64).wrapping_shl(40) | line as u64;
        if self.hits(tag, line) {
            return;
        }
        let is_stream = line > 0 && self.holds(tag.wrapping_sub(1), line.wrapping_sub(1));
        self.put(tag, line);
        if self.is_new(object, line) {
            self.touched.first = self.touched.first.saturating_add(u64::from(!is_stream));
        } else {
            self.touched.again = self.touched.again.saturating_add(u64::from(!is_stream));
        }
    }

    fn hits(&mut self, tag: u64, line: usize) -> bool {
        let Some(set) = self.sets.get_mut(line % SETS) else { return false };
        let place = set.place(tag);
        place.into_iter().for_each(|p| set.used(p));
        place.is_some()
    }

    fn holds(&self, tag: u64, line: usize) -> bool {
        self.sets.get(line % SETS).is_some_and(|set| set.place(tag).is_some())
    }

    fn put(&mut self, tag: u64, line: usize) {
        if let Some(set) = self.sets.get_mut(line % SETS) {
            set.put(tag);
        }
    }

    fn is_new(&mut self, object: usize, line: usize) -> bool {
        let Some(bits) = self.seen.get_mut(object) else { return false };
        let word = line / 64;
        if bits.len() <= word {
            bits.resize(word.saturating_add(1), 0);
        }
        let mask = 1u64.wrapping_shl(u32::try_from(line % 64).unwrap_or(0));
        let Some(word) = bits.get_mut(word) else { return false };
        let is_new = *word & mask == 0;
        *word |= mask;
        is_new
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(touches: impl IntoIterator<Item = (usize, usize)>) -> Touched {
        let lines = Lines::new(2);
        touches.into_iter().for_each(|(object, at)| lines.touch(object, at, 4));
        lines.touched()
    }

    #[test]
    fn a_line_counts_once_while_it_is_held() {
        assert_eq!(after([(0, 0), (0, 60), (0, 0), (1, 0)]), Touched { first: 2, again: 0 });
        assert_eq!(after([(0, 62)]), Touched { first: 1, again: 0 }, "the second line comes with the first");
    }

    #[test]
    fn what_is_read_in_order_comes_by_itself() {
        assert_eq!(after((0..100).map(|i| (0, i * 64))), Touched { first: 1, again: 0 });
        assert_eq!(after((0..100).map(|i| (0, i * 192))), Touched { first: 100, again: 0 });
    }

    #[test]
    fn a_line_that_others_took_the_place_of_is_fetched_again() {
        // Nine lines of one set, three times: some are always missing.
        let round = || (0..9).map(|i| (0, i * LINE * SETS));
        let touched = after(round().chain(round()).chain(round()));
        assert!(touched.first == 9 && (2..=18).contains(&touched.again), "{touched:?}");
        let round = || (0..8).map(|i| (0, i * LINE * SETS));
        assert_eq!(after(round().chain(round())), Touched { first: 8, again: 0 });
    }
}
