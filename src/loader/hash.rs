//! The two hash tables over dynamic symbols: their hash functions, and where their parts lie in a file.
//!
//! Sources: `elf/dl-setup_hash.c`, `sysdeps/generic/dl-new-hash.h`, `sysdeps/generic/dl-hash.h` of glibc 2.36.

#![deny(clippy::indexing_slicing, clippy::arithmetic_side_effects, clippy::unwrap_used)]

use std::ffi::CStr;

use object::elf;

use super::lines::Reader;
use super::symbols::{Part, Symbols};
use crate::elf::image::Image;

/// Longest name that is read: real ones stay far below, and a file without NULs would be read to its end for each.
const LONGEST_NAME: usize = 1 << 20;

/// GNU hash: times 33, starting at 5381.
pub fn gnu(name: &[u8]) -> u32 {
    // Four bytes a step: one multiplication waits for another, and mangled names are long.
    let step = |h: u32, b: u8| h.wrapping_mul(33).wrapping_add(u32::from(b));
    let (quads, rest) = name.as_chunks::<4>();
    let hash = quads.iter().fold(5381u32, |h, quad| {
        let own = quad.iter().fold(0u32, |h, b| step(h, *b));
        h.wrapping_mul(33 * 33 * 33 * 33).wrapping_add(own)
    });
    rest.iter().fold(hash, |h, b| step(h, *b))
}

/// The same of the C string at the start of `bytes`, with its length; of nothing where no NUL ends it in time.
pub(super) fn gnu_until_nul(bytes: &[u8]) -> (u32, u32) {
    let window = bytes.get(..LONGEST_NAME).unwrap_or(bytes);
    let name = CStr::from_bytes_until_nul(window).map_or(&[][..], CStr::to_bytes);
    (gnu(name), u32::try_from(name.len()).unwrap_or(0))
}

/// The System V ABI's hash, 28 bits.
pub fn sysv(name: &[u8]) -> u32 {
    name.iter().fold(0u32, |h, b| {
        let h = (h << 4).wrapping_add(u32::from(*b));
        (h ^ (h >> 24) & 0xf0) & 0x0fff_ffff
    })
}

/// DT_GNU_HASH.
#[derive(Debug, Clone, Copy)]
pub(super) struct GnuTable {
    buckets_len: u32,
    /// Index of the first symbol that is hashed.
    bias: u32,
    bloom: Part,
    bloom_words: u32,
    shift: u32,
    buckets: Part,
    chains: Part,
}

/// DT_HASH.
#[derive(Debug, Clone, Copy)]
pub(super) struct SysvTable {
    buckets_len: u32,
    buckets: Part,
    chains: Part,
}

/// The tables of one object. glibc and musl use the GNU one where there is one.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Tables {
    pub(super) gnu: Option<GnuTable>,
    pub(super) sysv: Option<SysvTable>,
}

impl Tables {
    pub(super) fn of(image: &Image<'_>) -> Tables {
        let table = |tag| image.from_vaddr(image.dynamic_value(tag)?);
        Tables {
            gnu: table(elf::DT_GNU_HASH).and_then(|t| gnu_table(image, t)),
            sysv: table(elf::DT_HASH).and_then(|t| sysv_table(image, t)),
        }
    }
}

/// From `start` up to `len` bytes, or as many as are there.
fn part(base: Part, start: usize, len: Option<usize>) -> Part {
    let start = base.start.saturating_add(start).min(base.end);
    let end = len.map_or(base.end, |len| start.saturating_add(len).min(base.end));
    Part { start, end }
}

fn gnu_table(image: &Image<'_>, table: &[u8]) -> Option<GnuTable> {
    let word = if image.is_64() { 8usize } else { 4 };
    let base = Part::of(image.bytes(), Some(table));
    let buckets_len = image.u32_in(table, 0)?;
    let bloom_words = image.u32_in(table, 8)?;
    let bloom_len = usize::try_from(bloom_words).ok()?.checked_mul(word)?;
    let bucket_bytes = usize::try_from(buckets_len).ok()?.checked_mul(4)?;
    let buckets_at = bloom_len.checked_add(16)?;
    Some(GnuTable {
        buckets_len,
        bias: image.u32_in(table, 4)?,
        bloom: part(base, 16, Some(bloom_len)),
        bloom_words,
        shift: image.u32_in(table, 12)?,
        buckets: part(base, buckets_at, Some(bucket_bytes)),
        chains: part(base, buckets_at.checked_add(bucket_bytes)?, None),
    })
}

fn sysv_table(image: &Image<'_>, table: &[u8]) -> Option<SysvTable> {
    let base = Part::of(image.bytes(), Some(table));
    let buckets_len = image.u32_in(table, 0)?;
    let bucket_bytes = usize::try_from(buckets_len).ok()?.checked_mul(4)?;
    let buckets = part(base, 8, Some(bucket_bytes));
    Some(SysvTable { buckets_len, buckets, chains: part(base, bucket_bytes.checked_add(8)?, None) })
}

/// A name with its hashes; the second is computed when it is first needed.
#[derive(Debug, Clone, Copy)]
pub struct Hashed<'a> {
    /// The name.
    pub name: &'a [u8],
    /// GNU hash.
    pub gnu: u32,
    sysv: Option<u32>,
}

impl<'a> Hashed<'a> {
    /// A name whose GNU hash is known.
    pub fn new(name: &'a [u8], gnu: u32) -> Self {
        Hashed { name, gnu, sysv: None }
    }

    fn sysv(&mut self) -> u32 {
        *self.sysv.get_or_insert_with(|| sysv(self.name))
    }
}

/// What a walk through one object's table took.
#[derive(Clone, Copy, Default)]
pub(super) struct Steps<'a> {
    /// Entries of a chain that were looked at.
    pub chain: u64,
    /// The bloom filter let the name through (always, for DT_HASH).
    pub passed_bloom: bool,
    /// Notes what is read.
    pub(super) reader: Reader<'a>,
}

impl Symbols {
    /// Its symbols are found by DT_HASH alone.
    pub(super) fn has_only_sysv_hash(&self) -> bool {
        self.hash.gnu.is_none() && self.hash.sysv.is_some()
    }

    /// Calls `visit` with each symbol whose hash agrees, until it returns true.
    ///
    pub(super) fn candidates(&self, name: &mut Hashed<'_>, steps: &mut Steps<'_>, visit: impl FnMut(u32) -> bool) {
        match (&self.hash.gnu, &self.hash.sysv) {
            (Some(table), _) => self.gnu_candidates(table, name.gnu, steps, visit),
            (None, Some(table)) => self.sysv_candidates(table, name.sysv(), steps, visit),
            (None, None) => {}
        }
    }

    fn bloom_word(&self, table: &GnuTable, hash: u32, word_bits: u32, reader: Reader<'_>) -> Option<u64> {
        let index = hash.checked_div(word_bits)? & table.bloom_words.wrapping_sub(1);
        let at = usize::try_from(index).ok()?.checked_mul(usize::try_from(word_bits).ok()? / 8)?;
        reader.read(table.bloom.start, at, 8);
        let bloom = self.part(table.bloom);
        if self.is_64 { self.u64_in(bloom, at) } else { self.u32_in(bloom, at).map(u64::from) }
    }

    fn gnu_candidates(&self, table: &GnuTable, hash: u32, steps: &mut Steps<'_>, mut visit: impl FnMut(u32) -> bool) {
        let word_bits = if self.is_64 { 64 } else { 32 };
        let Some(word) = self.bloom_word(table, hash, word_bits, steps.reader) else { return };
        // The machine's shift takes the count modulo 32.
        let second = hash.wrapping_shr(table.shift) & word_bits.wrapping_sub(1);
        let first = hash & word_bits.wrapping_sub(1);
        if word.wrapping_shr(first) & word.wrapping_shr(second) & 1 == 0 {
            return;
        }
        steps.passed_bloom = true;
        let Some(bucket) = hash.checked_rem(table.buckets_len) else { return };
        let at = (bucket as usize).saturating_mul(4);
        steps.reader.read(table.buckets.start, at, 4);
        let Some(start) = self.u32_in(self.part(table.buckets), at) else { return };
        if start == 0 {
            return;
        }
        let Some(skip) = start.checked_sub(table.bias) else { return };
        let at = (skip as usize).saturating_mul(4);
        let chain = self.part(table.chains).get(at..).unwrap_or(&[]);
        let mut symbol = start;
        for (i, raw) in chain.chunks_exact(4).enumerate() {
            steps.reader.read(table.chains.start, at.saturating_add(i.saturating_mul(4)), 4);
            let entry = self.u32_in(raw, 0).unwrap_or(1);
            steps.chain = steps.chain.saturating_add(1);
            if (entry ^ hash) >> 1 == 0 && visit(symbol) {
                return;
            }
            if entry & 1 == 1 {
                return;
            }
            symbol = symbol.wrapping_add(1);
        }
    }

    fn sysv_candidates(&self, table: &SysvTable, hash: u32, steps: &mut Steps<'_>, mut visit: impl FnMut(u32) -> bool) {
        steps.passed_bloom = true;
        let Some(bucket) = hash.checked_rem(table.buckets_len) else { return };
        let at = (bucket as usize).saturating_mul(4);
        steps.reader.read(table.buckets.start, at, 4);
        let Some(mut symbol) = self.u32_in(self.part(table.buckets), at) else { return };
        let chains = self.part(table.chains);
        // A chain that runs in a circle has no end: as many steps as there are entries are enough.
        let mut left = chains.len() / 4;
        while symbol != 0 && left > 0 {
            steps.chain = steps.chain.saturating_add(1);
            if visit(symbol) {
                return;
            }
            let at = (symbol as usize).saturating_mul(4);
            steps.reader.read(table.chains.start, at, 4);
            let Some(next) = self.u32_in(chains, at) else { return };
            symbol = next;
            left = left.saturating_sub(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_values() {
        // `__libc_early_init` as glibc 2.36 has it precomputed; GLIBC_PRIVATE and GLIBC_ABI_DT_RELR likewise.
        assert_eq!(gnu(b"__libc_early_init"), 0x0696_82ac);
        assert_eq!(sysv(b"GLIBC_PRIVATE"), 0x0963_cf85);
        assert_eq!(sysv(b"GLIBC_ABI_DT_RELR"), 0x00fd_0e42);
        assert_eq!((gnu(b""), sysv(b"")), (5381, 0));
        let name = b"_ZNSt6vectorIiSaIiEE9push_backERKi";
        for len in 0..name.len() {
            let slow = name[..len].iter().fold(5381u32, |h, b| h.wrapping_mul(33).wrapping_add(u32::from(*b)));
            assert_eq!(gnu(&name[..len]), slow);
            assert_eq!(gnu_until_nul(&[&name[..len], b"\0x"].concat()), (slow, len as u32));
        }
        assert_eq!(gnu_until_nul(b"no end"), (5381, 0));
    }
}
