//! PT_GNU_RELRO as loaders apply it.
//!
//! glibc (`_dl_protect_relro`) and musl (`reloc_all`) both round the start and the end **down** to a page: a part of a
//! page at the end stays writable, and a segment that fits into one page protects nothing.

#![deny(clippy::indexing_slicing, clippy::arithmetic_side_effects, clippy::unwrap_used)]

use object::elf;

use super::image::{Image, Segment};
use super::ranges::{covers, mapped};

/// A range of addresses that becomes read-only; empty where nothing does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Protected {
    /// First address.
    pub start: u64,
    /// First address past it.
    pub end: u64,
}

impl Protected {
    /// Bytes protected.
    pub fn bytes(self) -> u64 {
        self.end.saturating_sub(self.start)
    }

    /// True where an address is protected.
    pub fn contains(self, addr: u64) -> bool {
        (self.start..self.end).contains(&addr)
    }
}

/// The segment that counts: both loaders keep the last.
pub fn relro_segment<'i>(image: &'i Image) -> Option<&'i Segment> {
    image.segments().iter().rfind(|s| s.kind == elf::PT_GNU_RELRO.0)
}

/// What is protected with pages of `page_size` bytes, a power of two.
pub fn protected(image: &Image, page_size: u64) -> Protected {
    let Some(segment) = relro_segment(image).filter(|s| is_mapped(image, s)) else { return Protected::default() };
    let down = |addr: u64| addr & page_size.wrapping_neg();
    let (start, end) = (down(segment.vaddr), down(segment.end()));
    if end > start { Protected { start, end } } else { Protected::default() }
}

/// False where a page of the range is not mapped: mprotect fails then, and glibc ends the program.
pub fn is_mapped(image: &Image, relro: &Segment) -> bool {
    relro.memsz == 0 || covers(&mapped(image.loads(), |_| true), relro.vaddr, relro.end())
}
