//! SHA-256 (FIPS 180-4): tells whether a file is the one that was measured. The same figure as `sha256sum` prints.

use std::fmt::Write;
use std::io::Read;
use std::path::Path;

use crate::error::{Context, Result};

/// Fractional parts of the cube roots of the first 64 primes (FIPS 180-4, 4.2.2).
const ROUND: [u32; 64] = [
    0x428a_2f98,
    0x7137_4491,
    0xb5c0_fbcf,
    0xe9b5_dba5,
    0x3956_c25b,
    0x59f1_11f1,
    0x923f_82a4,
    0xab1c_5ed5,
    0xd807_aa98,
    0x1283_5b01,
    0x2431_85be,
    0x550c_7dc3,
    0x72be_5d74,
    0x80de_b1fe,
    0x9bdc_06a7,
    0xc19b_f174,
    0xe49b_69c1,
    0xefbe_4786,
    0x0fc1_9dc6,
    0x240c_a1cc,
    0x2de9_2c6f,
    0x4a74_84aa,
    0x5cb0_a9dc,
    0x76f9_88da,
    0x983e_5152,
    0xa831_c66d,
    0xb003_27c8,
    0xbf59_7fc7,
    0xc6e0_0bf3,
    0xd5a7_9147,
    0x06ca_6351,
    0x1429_2967,
    0x27b7_0a85,
    0x2e1b_2138,
    0x4d2c_6dfc,
    0x5338_0d13,
    0x650a_7354,
    0x766a_0abb,
    0x81c2_c92e,
    0x9272_2c85,
    0xa2bf_e8a1,
    0xa81a_664b,
    0xc24b_8b70,
    0xc76c_51a3,
    0xd192_e819,
    0xd699_0624,
    0xf40e_3585,
    0x106a_a070,
    0x19a4_c116,
    0x1e37_6c08,
    0x2748_774c,
    0x34b0_bcb5,
    0x391c_0cb3,
    0x4ed8_aa4a,
    0x5b9c_ca4f,
    0x682e_6ff3,
    0x748f_82ee,
    0x78a5_636f,
    0x84c8_7814,
    0x8cc7_0208,
    0x90be_fffa,
    0xa450_6ceb,
    0xbef9_a3f7,
    0xc671_78f2,
];

/// Fractional parts of the square roots of the first 8 primes (FIPS 180-4, 5.3.3).
const START: [u32; 8] =
    [0x6a09_e667, 0xbb67_ae85, 0x3c6e_f372, 0xa54f_f53a, 0x510e_527f, 0x9b05_688c, 0x1f83_d9ab, 0x5be0_cd19];

const BLOCK: usize = 64;

/// A digest in the making.
#[derive(Debug, Clone)]
pub struct Sha256 {
    state: [u32; 8],
    pending: [u8; BLOCK],
    filled: usize,
    bytes: u64,
}

impl Default for Sha256 {
    fn default() -> Sha256 {
        Sha256 { state: START, pending: [0; BLOCK], filled: 0, bytes: 0 }
    }
}

impl Sha256 {
    /// Takes more bytes.
    pub fn update(&mut self, mut bytes: &[u8]) {
        self.bytes = self.bytes.wrapping_add(bytes.len() as u64);
        while !bytes.is_empty() {
            let n = bytes.len().min(BLOCK - self.filled);
            let (now, later) = bytes.split_at(n);
            self.pending[self.filled..self.filled + n].copy_from_slice(now);
            self.filled += n;
            bytes = later;
            if self.filled == BLOCK {
                compress(&mut self.state, &self.pending);
                self.filled = 0;
            }
        }
    }

    /// The digest as 64 hexadecimal digits.
    pub fn finish(mut self) -> String {
        let bits = self.bytes.wrapping_mul(8);
        self.update(&[0x80]);
        while self.filled != BLOCK - 8 {
            self.update(&[0]);
        }
        self.update(&bits.to_be_bytes());
        self.state.iter().fold(String::new(), |mut hex, word| {
            // Writing to a String cannot fail.
            let _ = write!(hex, "{word:08x}");
            hex
        })
    }
}

/// One block of 64 bytes (FIPS 180-4, 6.2.2).
fn compress(state: &mut [u32; 8], block: &[u8; BLOCK]) {
    let mut w = [0u32; 64];
    for (word, bytes) in w.iter_mut().zip(block.as_chunks::<4>().0) {
        *word = u32::from_be_bytes(*bytes);
    }
    for t in 16..64 {
        let s0 = w[t - 15].rotate_right(7) ^ w[t - 15].rotate_right(18) ^ (w[t - 15] >> 3);
        let s1 = w[t - 2].rotate_right(17) ^ w[t - 2].rotate_right(19) ^ (w[t - 2] >> 10);
        w[t] = w[t - 16].wrapping_add(s0).wrapping_add(w[t - 7]).wrapping_add(s1);
    }
    let [mut a, mut b, mut c, mut d, mut e, mut f, mut g, mut h] = *state;
    for (k, w) in ROUND.iter().zip(w) {
        let s1 = e.rotate_right(6) ^ e.rotate_right(11) ^ e.rotate_right(25);
        let choice = (e & f) ^ (!e & g);
        let t1 = h.wrapping_add(s1).wrapping_add(choice).wrapping_add(*k).wrapping_add(w);
        let s0 = a.rotate_right(2) ^ a.rotate_right(13) ^ a.rotate_right(22);
        let t2 = s0.wrapping_add((a & b) ^ (a & c) ^ (b & c));
        (h, g, f, e) = (g, f, e, d.wrapping_add(t1));
        (d, c, b, a) = (c, b, a, t1.wrapping_add(t2));
    }
    for (s, v) in state.iter_mut().zip([a, b, c, d, e, f, g, h]) {
        *s = s.wrapping_add(v);
    }
}

/// The digest of a file, read in pieces: our memory stays small whatever its size.
///
/// # Errors
/// Where it cannot be read.
pub fn of_file(path: &Path) -> Result<String> {
    let mut file = std::fs::File::open(path).context(|| path.to_string_lossy())?;
    let mut digest = Sha256::default();
    let mut piece = [0u8; 16 * 1024];
    loop {
        match file.read(&mut piece) {
            Ok(0) => return Ok(digest.finish()),
            Ok(n) => digest.update(piece.get(..n).unwrap_or_default()),
            Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e).context(|| path.to_string_lossy()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hex(bytes: &[u8]) -> String {
        let mut d = Sha256::default();
        d.update(bytes);
        d.finish()
    }

    #[test]
    fn the_examples_of_the_standard() {
        assert_eq!(hex(b""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
        assert_eq!(hex(b"abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
        assert_eq!(
            hex(b"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"
        );
        assert_eq!(hex(&vec![b'a'; 1_000_000]), "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
    }

    #[test]
    fn pieces_make_the_same_as_the_whole() {
        let bytes: Vec<u8> = (0..1000u32).map(|i| i as u8).collect();
        for size in [1, 7, 63, 64, 65, 500] {
            let mut d = Sha256::default();
            bytes.chunks(size).for_each(|c| d.update(c));
            assert_eq!(d.finish(), hex(&bytes), "{size}");
        }
    }
}
