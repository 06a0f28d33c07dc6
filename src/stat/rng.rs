//! A small seeded generator: the same seed gives the same order of starts and the same resamples everywhere.
//!
//! xoshiro256++ with its state filled by splitmix64, as its authors advise (Blackman and Vigna,
//! "Scrambled linear pseudorandom number generators", 2021).

/// The generator.
#[derive(Debug, Clone)]
pub struct Rng {
    state: [u64; 4],
}

/// One step of splitmix64.
fn splitmix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

impl Rng {
    /// A generator whose whole sequence follows from `seed`.
    pub fn new(seed: u64) -> Self {
        let mut s = seed;
        Rng { state: std::array::from_fn(|_| splitmix(&mut s)) }
    }

    /// 64 random bits.
    pub fn next_u64(&mut self) -> u64 {
        let s = &mut self.state;
        let out = s[0].wrapping_add(s[3]).rotate_left(23).wrapping_add(s[0]);
        let t = s[1] << 17;
        s[2] ^= s[0];
        s[3] ^= s[1];
        s[1] ^= s[2];
        s[0] ^= s[3];
        s[2] ^= t;
        s[3] = s[3].rotate_left(45);
        out
    }

    /// A whole number below `n`, each equally likely (Lemire 2019: multiply, reject the uneven remainder);
    /// 0 where `n` is 0.
    pub fn below(&mut self, n: u64) -> u64 {
        // 2^64 mod n: products whose low half is below it would favour some results.
        let uneven = n.wrapping_neg().checked_rem(n).unwrap_or(0);
        loop {
            let product = u128::from(self.next_u64()) * u128::from(n);
            if product as u64 >= uneven {
                return (product >> 64) as u64;
            }
        }
    }

    /// An index below `n`; 0 where `n` is 0.
    pub fn index(&mut self, n: usize) -> usize {
        self.below(n as u64) as usize
    }

    /// A fraction from 0 to below 1, in steps of 2^-53.
    pub fn unit(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 * (-53f64).exp2()
    }

    /// Puts the items in random order, each order equally likely (Fisher and Yates).
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for i in (1..items.len()).rev() {
            items.swap(i, self.index(i + 1));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_published_sequences() {
        // Reference outputs of the authors' C code.
        let mut s = 1_234_567;
        assert_eq!(
            [splitmix(&mut s), splitmix(&mut s), splitmix(&mut s)],
            [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423]
        );
        let mut r = Rng { state: [1, 2, 3, 4] };
        let first: [u64; 4] = std::array::from_fn(|_| r.next_u64());
        assert_eq!(first, [41_943_041, 58_720_359, 3_588_806_011_781_223, 3_591_011_842_654_386]);
    }

    #[test]
    fn below_stays_below_and_reaches_everything() {
        let mut r = Rng::new(1);
        let mut seen = [0u32; 7];
        for _ in 0..7_000 {
            seen[r.index(7)] += 1;
        }
        assert!(seen.iter().all(|&n| (850..1150).contains(&n)), "{seen:?}");
        assert_eq!((r.below(0), r.below(1)), (0, 0));
        assert!((0..1000).all(|_| r.below(u64::MAX / 2 + 2) <= u64::MAX / 2 + 1));
        assert!((0..1000).all(|_| (0.0..1.0).contains(&r.unit())));
    }

    #[test]
    fn all_orders_of_three_are_equally_likely() {
        let mut r = Rng::new(7);
        let mut counts = std::collections::BTreeMap::new();
        for _ in 0..6_000 {
            let mut x = [0, 1, 2];
            r.shuffle(&mut x);
            *counts.entry(x).or_insert(0) += 1;
        }
        assert_eq!(counts.len(), 6);
        assert!(counts.values().all(|n| (880..1120).contains(n)), "{counts:?}");
    }
}
