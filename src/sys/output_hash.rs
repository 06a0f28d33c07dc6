//! A hash that tells equal outputs from unequal ones, no more. It runs while the command writes, so it takes eight bytes
//! a step: byte by byte, 10 MB of output cost the command more time to be read than to write.

/// FNV-1a's offset and prime (64 bit), over words of eight bytes instead of single ones, with the high half folded back
/// in, since a multiplication carries upwards only. The same however the bytes come in pieces.
#[derive(Debug, Clone, Copy)]
pub struct OutputHash {
    state: u64,
    /// Bytes that do not make a word yet.
    rest: [u8; 8],
    /// All bytes so far.
    len: u64,
}

impl Default for OutputHash {
    fn default() -> OutputHash {
        OutputHash { state: 0xcbf2_9ce4_8422_2325, rest: [0; 8], len: 0 }
    }
}

fn step(state: u64, word: [u8; 8]) -> u64 {
    let x = (state ^ u64::from_le_bytes(word)).wrapping_mul(0x0100_0000_01b3);
    x ^ (x >> 32)
}

impl OutputHash {
    /// The hash of these bytes alone.
    pub fn of(bytes: &[u8]) -> u64 {
        let mut hash = OutputHash::default();
        hash.update(bytes);
        hash.finish()
    }

    /// Adds bytes.
    pub fn update(&mut self, mut bytes: &[u8]) {
        let held = (self.len % 8) as usize;
        self.len = self.len.wrapping_add(bytes.len() as u64);
        if held > 0 {
            let (first, behind) = bytes.split_at(bytes.len().min(8 - held));
            self.rest[held..held + first.len()].copy_from_slice(first);
            if held + first.len() < 8 {
                return;
            }
            self.state = step(self.state, self.rest);
            bytes = behind;
        }
        let (words, rest) = bytes.as_chunks::<8>();
        self.state = words.iter().fold(self.state, |state, word| step(state, *word));
        self.rest = [0; 8];
        self.rest[..rest.len()].copy_from_slice(rest);
    }

    /// The hash of all bytes so far; their number is part of it.
    pub fn finish(self) -> u64 {
        step(step(self.state, self.rest), self.len.to_le_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_do_not_matter() {
        let bytes: Vec<u8> = (0..1000u32).map(|i| (i * 7 % 251) as u8).collect();
        let whole = OutputHash::of(&bytes);
        for size in [1, 2, 3, 7, 8, 9, 64, 999] {
            let mut hash = OutputHash::default();
            bytes.chunks(size).for_each(|piece| hash.update(piece));
            assert_eq!(hash.finish(), whole, "pieces of {size}");
        }
    }

    #[test]
    fn different_outputs_differ() {
        let mut seen = std::collections::HashSet::new();
        for len in 0..100usize {
            assert!(seen.insert(OutputHash::of(&vec![0; len])), "{len} zeros");
            for at in 0..len {
                let mut bytes = vec![0u8; len];
                bytes[at] = 1 << (at % 8);
                assert!(seen.insert(OutputHash::of(&bytes)), "{len} {at}");
            }
        }
        // The top bit of a word is where a plain multiplication loses differences.
        assert_ne!(OutputHash::of(b"\0\0\0\0\0\0\0\x80\0\0\0\0\0\0\0\x80"), OutputHash::of(&[0; 16]));
    }
}
