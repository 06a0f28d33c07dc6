//! Bytes of one class and byte order, appended field by field.

#![deny(clippy::indexing_slicing, clippy::arithmetic_side_effects, clippy::unwrap_used)]

use super::Target;

/// A growing file.
#[derive(Debug, Clone)]
pub(super) struct Bytes {
    pub(super) out: Vec<u8>,
    target: Target,
}

impl Bytes {
    pub(super) fn new(target: Target) -> Bytes {
        Bytes { out: Vec::new(), target }
    }

    pub(super) fn len(&self) -> u64 {
        self.out.len() as u64
    }

    pub(super) fn raw(&mut self, bytes: &[u8]) {
        self.out.extend_from_slice(bytes);
    }

    pub(super) fn u16(&mut self, n: u16) {
        self.raw(&if self.target.big_endian { n.to_be_bytes() } else { n.to_le_bytes() });
    }

    pub(super) fn u32(&mut self, n: u32) {
        self.raw(&if self.target.big_endian { n.to_be_bytes() } else { n.to_le_bytes() });
    }

    pub(super) fn u64(&mut self, n: u64) {
        self.raw(&if self.target.big_endian { n.to_be_bytes() } else { n.to_le_bytes() });
    }

    /// An address, offset or size: 4 or 8 bytes by class.
    pub(super) fn word(&mut self, n: u64) {
        if self.target.is_64 { self.u64(n) } else { self.u32(n as u32) }
    }

    /// Zeros up to a length; nothing where it is reached already.
    pub(super) fn pad_to(&mut self, len: u64) {
        let len = usize::try_from(len).unwrap_or(usize::MAX);
        if self.out.len() < len {
            self.out.resize(len, 0);
        }
    }

    /// Zeros up to a multiple of `align`.
    pub(super) fn align(&mut self, align: u64) {
        self.pad_to(self.len().next_multiple_of(align.max(1)));
    }
}
