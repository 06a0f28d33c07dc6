//! The heap of a binary linked with musl, whose own malloc maps and unmaps single pages again and again where many
//! short lists are made and dropped: inspecting a large program took 1.4 times as long.
//!
//! Blocks have the sizes 16, 24, 32, 48, 64, … bytes. A freed block waits in the list of its size for the next of that
//! size, and nothing is given back to the system: a start of premain is short, and what it holds at most is what it
//! needed at once, rounded up. Above [`LARGEST`] the libc serves.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::UnsafeCell;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, Ordering};

/// Two sizes for each power of two from 16 bytes to 32 MiB.
const CLASSES: usize = 43;
/// The size of the last class, in bytes.
const LARGEST: usize = 16 << (CLASSES / 2);
/// Blocks up to this size are cut from chunks; a larger one is asked for by itself.
const CUT_UP_TO: usize = CHUNK / 8;
const CHUNK: usize = 256 << 10;
const PAGE: usize = 4096;

/// The free blocks, each of which holds the address of the next, and the chunk that is being cut.
#[derive(Debug)]
struct State {
    free: [*mut u8; CLASSES],
    at: *mut u8,
    left: usize,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Heap {
    taken: AtomicBool,
    state: UnsafeCell<State>,
}

// SAFETY: `state` is only reached through `with`, which one thread at a time is in.
unsafe impl Sync for Heap {}

impl Heap {
    /// An empty one.
    #[allow(clippy::new_without_default, reason = "made once, in a static")]
    pub(super) const fn new() -> Heap {
        let state = State { free: [null_mut(); CLASSES], at: null_mut(), left: 0 };
        Heap { taken: AtomicBool::new(false), state: UnsafeCell::new(state) }
    }

    /// Runs `work` while no other thread does. It neither allocates nor panics.
    fn with<T>(&self, work: impl FnOnce(&mut State) -> T) -> T {
        while self.taken.compare_exchange_weak(false, true, Ordering::Acquire, Ordering::Relaxed).is_err() {
            // What is done inside takes some ten instructions: whoever waits long waits for a thread without a CPU.
            if self.taken.load(Ordering::Relaxed) {
                std::thread::yield_now();
            }
        }
        // SAFETY: `taken` was false and is ours: no other reference exists.
        let done = work(unsafe { &mut *self.state.get() });
        self.taken.store(false, Ordering::Release);
        done
    }
}

/// Which class holds a block of this layout; None: the libc.
fn class(layout: Layout) -> Option<usize> {
    // A class of 3·2ⁿ bytes is aligned to 8 only: where more is asked for, the next power of two.
    let size = layout.size().max(16);
    let size = if layout.align() > 8 { size.max(layout.align()).next_power_of_two() } else { size };
    if size > LARGEST || layout.align() > PAGE {
        return None;
    }
    let whole = size.next_power_of_two();
    let class = 2 * (whole.trailing_zeros() as usize - 4);
    // 24 lies below 32: the class before it.
    Some(if class > 0 && size <= whole / 4 * 3 { class - 1 } else { class })
}

fn size_of_class(class: usize) -> usize {
    if class.is_multiple_of(2) { 16 << (class / 2) } else { 24 << (class / 2) }
}

impl State {
    fn pop(&mut self, class: usize) -> Option<*mut u8> {
        let first = self.free.get_mut(class)?;
        let block = *first;
        if block.is_null() {
            return None;
        }
        // SAFETY: a block in a list is ours, at least 16 bytes, aligned to 8, and `push` wrote the next one's address.
        *first = unsafe { block.cast::<*mut u8>().read() };
        Some(block)
    }

    fn push(&mut self, class: usize, block: *mut u8) {
        let Some(first) = self.free.get_mut(class) else { return };
        // SAFETY: the block was given out by us, is at least 16 bytes and aligned to 8, and its owner gave it back.
        unsafe { block.cast::<*mut u8>().write(*first) };
        *first = block;
    }

    /// A block cut from the chunk, aligned to its power of two up to a page; None where too little is left.
    fn cut(&mut self, size: usize) -> Option<*mut u8> {
        let align = if size.is_power_of_two() { size.min(PAGE) } else { 8 };
        let skip = self.at.align_offset(align);
        if self.at.is_null() || skip.checked_add(size)? > self.left {
            return None;
        }
        let block = self.at.wrapping_add(skip);
        self.at = block.wrapping_add(size);
        self.left -= skip + size;
        Some(block)
    }
}

// SAFETY: blocks come from the libc, at least as large and as aligned as the layout asks (see `class`), and each is given
// to one owner at a time: out of its list, or cut, under the lock. The class of a block follows from its layout, which
// its owner repeats when giving it back.
unsafe impl GlobalAlloc for Heap {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let Some(class) = class(layout) else {
            // SAFETY: passed on as it came.
            return unsafe { System.alloc(layout) };
        };
        let size = size_of_class(class);
        let cut = size <= CUT_UP_TO;
        let found = self.with(|s| s.pop(class).or_else(|| if cut { s.cut(size) } else { None }));
        if let Some(block) = found {
            return block;
        }
        let Ok(fresh) = Layout::from_size_align(if cut { CHUNK } else { size }, PAGE) else { return null_mut() };
        // SAFETY: its size is not zero.
        let memory = unsafe { System.alloc(fresh) };
        if memory.is_null() || !cut {
            return memory;
        }
        self.with(|s| {
            // What is left of the old chunk is too small for this block, or another thread was quicker: it is lost.
            (s.at, s.left) = (memory, CHUNK);
            s.cut(size).unwrap_or(null_mut())
        })
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        match class(layout) {
            Some(class) => self.with(|s| s.push(class, block)),
            // SAFETY: such a block came from the libc with this layout.
            None => unsafe { System.dealloc(block, layout) },
        }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        let Ok(wanted) = Layout::from_size_align(size, layout.align()) else { return null_mut() };
        match (class(layout), class(wanted)) {
            // SAFETY: such a block came from the libc, and goes on there.
            (None, None) => unsafe { System.realloc(block, layout, size) },
            (old, new) if old == new => block,
            _ => {
                // SAFETY: the caller's size is not zero.
                let moved = unsafe { self.alloc(wanted) };
                if !moved.is_null() {
                    // SAFETY: both are at least this long, and apart.
                    unsafe { moved.copy_from_nonoverlapping(block, layout.size().min(size)) };
                    // SAFETY: the block is the caller's, with this layout.
                    unsafe { self.dealloc(block, layout) };
                }
                moved
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_class_holds_what_it_is_asked_for_and_little_more() {
        for align in [1, 2, 4, 8, 16, 64, 4096] {
            for size in (1..5000).chain([LARGEST - 1, LARGEST]) {
                let layout = Layout::from_size_align(size, align).unwrap();
                let held = size_of_class(class(layout).unwrap());
                assert!(held >= size && held.is_multiple_of(align.min(held)), "{layout:?}: {held}");
                if align <= 8 && size >= 16 {
                    assert!(held * 2 < size * 3 + 48, "{layout:?}: {held}");
                }
            }
        }
        assert_eq!(class(Layout::from_size_align(LARGEST + 1, 1).unwrap()), None);
        assert_eq!(size_of_class(CLASSES - 1), LARGEST);
    }

    #[test]
    fn blocks_do_not_overlap_are_aligned_and_come_again() {
        let heap = Heap::new();
        let mut blocks: Vec<(*mut u8, Layout)> = Vec::new();
        let mut state = 7u64;
        for step in 0..20_000u64 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let roll = (state >> 33) as usize;
            if roll.is_multiple_of(3) && !blocks.is_empty() {
                let (block, layout) = blocks.swap_remove(roll % blocks.len());
                check(block, layout);
                // SAFETY: given out below with this layout, and once.
                unsafe { heap.dealloc(block, layout) };
                continue;
            }
            let layout = Layout::from_size_align(1 + (roll >> 4) % (40 << (step % 12)), 1 << (roll % 13)).unwrap();
            // SAFETY: the size is not zero.
            let block = unsafe { heap.alloc(layout) };
            assert!(!block.is_null() && (block as usize).is_multiple_of(layout.align()));
            // SAFETY: the block is as long as the layout.
            unsafe { block.write_bytes(mark(block), layout.size()) };
            blocks.push((block, layout));
        }
        blocks.iter().for_each(|(block, layout)| check(*block, *layout));
    }

    fn mark(block: *mut u8) -> u8 {
        (block as usize / 16 % 251) as u8
    }

    /// Each byte is still what was written when the block was given out.
    fn check(block: *mut u8, layout: Layout) {
        // SAFETY: the block is as long as the layout and was filled.
        let bytes = unsafe { std::slice::from_raw_parts(block, layout.size()) };
        assert!(bytes.iter().all(|b| *b == mark(block)), "{layout:?}");
    }

    #[test]
    fn what_grows_keeps_its_bytes() {
        let heap = Heap::new();
        let mut layout = Layout::from_size_align(10, 1).unwrap();
        // SAFETY: the size is not zero.
        let mut block = unsafe { heap.alloc(layout) };
        // SAFETY: ten bytes long.
        unsafe { block.write_bytes(7, 10) };
        for size in [12, 100, 70_000, LARGEST + 1, LARGEST * 2, 300_000, 11] {
            // SAFETY: the block has this layout.
            block = unsafe { heap.realloc(block, layout, size) };
            layout = Layout::from_size_align(size, 1).unwrap();
            // SAFETY: at least ten bytes long, of which ten are written.
            assert_eq!(unsafe { std::slice::from_raw_parts(block, 10) }, [7; 10]);
        }
    }
}
