//! Bytes read in order: numbers of seven bits a byte, and names with a NUL behind them.

use super::work;

/// Why something could not be read to its end; a phrase for behind a colon.
pub(super) type Fault = String;

/// The bytes of a stream and how far they are read.
pub(super) struct Stream<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Stream<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Stream<'a> {
        Stream { bytes, at: 0 }
    }

    /// How many bytes are read.
    pub(super) fn position(&self) -> usize {
        self.at
    }

    /// Goes to a position; none where there is no such position.
    pub(super) fn seek(&mut self, position: u64) -> Option<()> {
        let at = usize::try_from(position).ok().filter(|at| *at <= self.bytes.len())?;
        self.at = at;
        Some(())
    }

    /// The next byte, or none at the end.
    pub(super) fn byte(&mut self) -> Option<u8> {
        let byte = *self.bytes.get(self.at)?;
        work::count(1);
        self.at = self.at.saturating_add(1);
        Some(byte)
    }

    /// A number of seven bits a byte, low bits first.
    pub(super) fn uleb(&mut self) -> Result<u64, Fault> {
        let mut value = 0u64;
        let mut shift = 0u32;
        loop {
            let byte = self.byte().ok_or("a number is cut off")?;
            let low = u64::from(byte & 0x7f);
            let part = low.checked_shl(shift).filter(|part| part >> shift == low);
            value |= part.ok_or("a number does not fit 64 bits")?;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
            shift = shift.saturating_add(7);
        }
    }

    /// Skips a signed number: its value does not change any count.
    pub(super) fn skip_sleb(&mut self) -> Result<(), Fault> {
        while self.byte().ok_or("a number is cut off")? & 0x80 != 0 {}
        Ok(())
    }

    /// A name up to its NUL.
    pub(super) fn name(&mut self) -> Result<&'a [u8], Fault> {
        let rest = self.bytes.get(self.at..).unwrap_or(&[]);
        let length = rest.iter().position(|b| *b == 0).ok_or("a symbol name is cut off")?;
        work::count(length);
        self.at = self.at.saturating_add(length).saturating_add(1);
        Ok(rest.get(..length).unwrap_or(&[]))
    }
}

#[cfg(test)]
#[allow(clippy::arithmetic_side_effects)]
mod tests {
    use super::*;
    use crate::macho::testing::uleb;

    #[test]
    fn numbers_end_where_64_bits_end() {
        for value in [0, 1, 127, 128, 0x1_0000_0000, u64::MAX] {
            assert_eq!(Stream::new(&uleb(value)).uleb(), Ok(value));
        }
        for bad in [&[0x80][..], &[0xff; 12], &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x02]] {
            assert!(Stream::new(bad).uleb().is_err(), "{bad:?}");
        }
    }
}
