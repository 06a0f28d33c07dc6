//! Hash tables of dynamic symbols, and the names' hash functions.

#![deny(clippy::indexing_slicing, clippy::arithmetic_side_effects, clippy::unwrap_used)]

use super::Target;
use super::bytes::Bytes;
use crate::order;

/// The hash function of DT_GNU_HASH (djb2 with 33).
pub fn gnu_hash(name: &[u8]) -> u32 {
    name.iter().fold(5381u32, |h, b| h.wrapping_mul(33).wrapping_add(u32::from(*b)))
}

/// The hash function of DT_HASH (System V ABI).
pub fn sysv_hash(name: &[u8]) -> u32 {
    name.iter().fold(0u32, |h, b| {
        let h = h.wrapping_shl(4).wrapping_add(u32::from(*b));
        let top = h & 0xf000_0000;
        (h ^ (top >> 24)) & !top
    })
}

/// Shift of the bloom filter's second bit, as GNU ld writes it for 64-bit files.
const BLOOM_SHIFT: u32 = 6;

/// Buckets for a number of defined symbols: about two symbols a bucket, as linkers choose.
fn buckets(symbols: usize) -> u32 {
    u32::try_from(symbols.div_euclid(2).max(1)).unwrap_or(u32::MAX)
}

/// The order in which DT_GNU_HASH wants defined symbols: by bucket.
pub(super) fn gnu_order(names: &mut [Vec<u8>]) {
    let count = buckets(names.len());
    order::by_key(names, |name| gnu_hash(name).checked_rem(count).unwrap_or(0));
}

/// DT_GNU_HASH over `defined` symbols, in [`gnu_order`], of which the first has index `first`.
pub(super) fn gnu_table(target: Target, first: u32, defined: &[Vec<u8>]) -> Vec<u8> {
    let bits: u32 = if target.is_64 { 64 } else { 32 };
    let count = buckets(defined.len());
    let hashes: Vec<u32> = defined.iter().map(|name| gnu_hash(name)).collect();
    let bucket_of = |hash: u32| hash.checked_rem(count).unwrap_or(0);
    // About eight bits a symbol; a power of two.
    let words = defined.len().saturating_mul(8).div_euclid(bits as usize).max(1).next_power_of_two();
    let mut bloom = vec![0u64; words];
    for hash in &hashes {
        let word = (hash.div_euclid(bits) as usize) & words.saturating_sub(1);
        if let Some(word) = bloom.get_mut(word) {
            *word |= 1u64.wrapping_shl(hash.rem_euclid(bits));
            *word |= 1u64.wrapping_shl((hash >> BLOOM_SHIFT).rem_euclid(bits));
        }
    }
    let mut table = Bytes::new(target);
    table.u32(count);
    table.u32(first);
    table.u32(words as u32);
    table.u32(BLOOM_SHIFT);
    bloom.iter().for_each(|word| table.word(*word));
    let mut heads = vec![0u32; count as usize];
    for (i, hash) in hashes.iter().enumerate().rev() {
        if let Some(head) = heads.get_mut(bucket_of(*hash) as usize) {
            *head = first.saturating_add(i as u32);
        }
    }
    heads.iter().for_each(|head| table.u32(*head));
    for (i, hash) in hashes.iter().enumerate() {
        let next = hashes.get(i.saturating_add(1));
        // The lowest bit ends a bucket's chain.
        let last = next.is_none_or(|next| bucket_of(*next) != bucket_of(*hash));
        table.u32((hash & !1) | u32::from(last));
    }
    table.out
}

/// DT_HASH over all symbols; index 0 has the empty name. The machines whose table has 64-bit words are not written here.
pub(super) fn sysv_table(target: Target, names: &[Vec<u8>]) -> Vec<u8> {
    let count = buckets(names.len());
    let mut heads = vec![0u32; count as usize];
    let mut chains = vec![0u32; names.len()];
    for (i, name) in names.iter().enumerate().skip(1) {
        let bucket = sysv_hash(name).checked_rem(count).unwrap_or(0) as usize;
        if let (Some(head), Some(chain)) = (heads.get_mut(bucket), chains.get_mut(i)) {
            *chain = std::mem::replace(head, i as u32);
        }
    }
    let mut table = Bytes::new(target);
    table.u32(count);
    table.u32(names.len() as u32);
    heads.iter().chain(&chains).for_each(|n| table.u32(*n));
    table.out
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Values of the ABI documents' functions, as other tools print them.
    #[test]
    fn known_hashes() {
        assert_eq!([gnu_hash(b""), gnu_hash(b"printf"), gnu_hash(b"exit")], [0x1505, 0x156b_2bb8, 0x7c96_7e3f]);
        assert_eq!([sysv_hash(b""), sysv_hash(b"printf"), sysv_hash(b"exit")], [0, 0x077_905a6, 0x000_6cf04]);
    }
}
