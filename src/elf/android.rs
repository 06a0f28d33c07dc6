//! Android's packed relocations (`DT_ANDROID_REL`, `DT_ANDROID_RELA`, magic `APS2`): groups of signed LEB128 deltas.
//!
//! Source: bionic's `linker_reloc_iterators.h` and LLVM's `--pack-dyn-relocs=android`. A group may take no byte per
//! relocation, so the count that the file claims is bounded by the size of the file: each relocation patches bytes of it.

#![deny(clippy::indexing_slicing, clippy::arithmetic_side_effects, clippy::unwrap_used)]

const GROUPED_BY_INFO: u64 = 1;
const GROUPED_BY_OFFSET_DELTA: u64 = 2;
const GROUPED_BY_ADDEND: u64 = 4;
const GROUP_HAS_ADDEND: u64 = 8;

/// One unpacked record: the fields of `Elf_Rela`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Unpacked {
    /// `r_offset`.
    pub offset: u64,
    /// `r_info`, type and symbol as the class packs them.
    pub info: u64,
    /// `r_addend`; 0 where the group has none.
    pub addend: i64,
}

/// Decodes one packed table.
#[derive(Debug, Clone)]
pub struct Packed<'a> {
    bytes: &'a [u8],
    left: u64,
    group_left: u64,
    group_flags: u64,
    group_delta: u64,
    current: Unpacked,
    fault: bool,
}

impl<'a> Packed<'a> {
    /// Reads the header; `None` where the magic or the header is not there. `limit` bounds the number of records.
    pub fn new(table: &'a [u8], limit: u64) -> Option<Packed<'a>> {
        let mut bytes = table.strip_prefix(b"APS2")?;
        let claimed = sleb128(&mut bytes)?;
        let offset = sleb128(&mut bytes)?;
        let claimed = u64::try_from(claimed).ok()?;
        Some(Packed {
            bytes,
            left: claimed.min(limit),
            group_left: 0,
            group_flags: 0,
            group_delta: 0,
            current: Unpacked { offset: offset as u64, info: 0, addend: 0 },
            fault: claimed > limit,
        })
    }

    /// True where decoding ended before the claimed count: the table is cut or claims too much.
    pub fn is_faulty(&self) -> bool {
        self.fault
    }

    fn start_group(&mut self) -> Option<()> {
        self.group_left = u64::try_from(sleb128(&mut self.bytes)?).ok().filter(|n| *n > 0)?;
        self.group_flags = sleb128(&mut self.bytes)? as u64;
        if self.group_flags & GROUPED_BY_OFFSET_DELTA != 0 {
            self.group_delta = sleb128(&mut self.bytes)? as u64;
        }
        if self.group_flags & GROUPED_BY_INFO != 0 {
            self.current.info = sleb128(&mut self.bytes)? as u64;
        }
        if self.group_flags & GROUP_HAS_ADDEND == 0 {
            self.current.addend = 0;
        } else if self.group_flags & GROUPED_BY_ADDEND != 0 {
            self.current.addend = self.current.addend.wrapping_add(sleb128(&mut self.bytes)?);
        }
        Some(())
    }

    fn step(&mut self) -> Option<Unpacked> {
        if self.group_left == 0 {
            self.start_group()?;
        }
        let delta = match self.group_flags & GROUPED_BY_OFFSET_DELTA {
            0 => sleb128(&mut self.bytes)? as u64,
            _ => self.group_delta,
        };
        self.current.offset = self.current.offset.wrapping_add(delta);
        if self.group_flags & GROUPED_BY_INFO == 0 {
            self.current.info = sleb128(&mut self.bytes)? as u64;
        }
        if self.group_flags & GROUP_HAS_ADDEND != 0 && self.group_flags & GROUPED_BY_ADDEND == 0 {
            self.current.addend = self.current.addend.wrapping_add(sleb128(&mut self.bytes)?);
        }
        self.group_left = self.group_left.saturating_sub(1);
        Some(self.current)
    }
}

impl Iterator for Packed<'_> {
    type Item = Unpacked;

    fn next(&mut self) -> Option<Unpacked> {
        self.left = self.left.checked_sub(1)?;
        let record = self.step();
        if record.is_none() {
            self.fault = true;
            self.left = 0;
        }
        record
    }
}

/// One signed LEB128 number; `None` at the end of the bytes or past 64 bits.
fn sleb128(bytes: &mut &[u8]) -> Option<i64> {
    let mut value = 0i64;
    let mut shift = 0u32;
    loop {
        let (byte, rest) = bytes.split_first()?;
        *bytes = rest;
        value |= i64::from(byte & 0x7f).checked_shl(shift)?;
        shift = shift.checked_add(7)?;
        if byte & 0x80 == 0 {
            // Sign extension of a number that does not fill all 64 bits.
            if byte & 0x40 != 0 && shift < 64 {
                value |= (-1i64).checked_shl(shift)?;
            }
            return Some(value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signed_numbers() {
        for (bytes, value) in [
            (&[0x00][..], 0),
            (&[0x3f], 63),
            (&[0x40], -64),
            (&[0x7f], -1),
            (&[0x80, 0x01], 128),
            (&[0x80, 0x7f], -128),
            (&[0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x7f], i64::MIN),
        ] {
            let mut rest = bytes;
            assert_eq!(sleb128(&mut rest), Some(value), "{bytes:?}");
            assert!(rest.is_empty());
        }
        assert_eq!(sleb128(&mut &[0x80, 0x80][..]), None);
        assert_eq!(sleb128(&mut &[0xff; 11][..]), None);
    }

    /// Three records 8 apart without a byte of their own, then one with everything.
    #[test]
    fn groups() {
        let table = [b'A', b'P', b'S', b'2', 4, 16, 3, 0b0111 | 8, 8, 8, 5, 1, 8, 16, 9, 1];
        let records: Vec<_> = Packed::new(&table, 100).unwrap().map(|r| (r.offset, r.info, r.addend)).collect();
        assert_eq!(records, [(24, 8, 5), (32, 8, 5), (40, 8, 5), (56, 9, 6)]);
    }

    #[test]
    fn claims_are_bounded() {
        // A million million records in one group of no bytes.
        let mut table = b"APS2".to_vec();
        table.extend([0x80, 0x80, 0x80, 0x80, 0x80, 0x20, 0]);
        table.extend([0x80, 0x80, 0x80, 0x80, 0x80, 0x20, 0b0011, 0, 8]);
        let mut packed = Packed::new(&table, 1000).unwrap();
        assert_eq!(packed.by_ref().count(), 1000);
        assert!(packed.is_faulty());
        // Cut in the middle of a record.
        let mut packed = Packed::new(b"APS2\x03\x00\x03\x00\x08\x08\x08", 1000).unwrap();
        assert_eq!(packed.by_ref().count(), 1);
        assert!(packed.is_faulty());
        assert!(Packed::new(b"APS1", 10).is_none());
    }
}
