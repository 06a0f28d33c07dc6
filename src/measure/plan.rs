//! Who starts when.
//!
//! Within a round every arm starts once; the control starts twice, as two arms of its own, so that each round
//! also compares the control with itself. Arms are the controls and the commands in one list.

/// How the arms of a round follow each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Order {
    /// Rounds come in pairs: a random order, then its reverse (ABBA). Within a pair every arm has the same mean
    /// place, and stands before every other as often as after it, so steady drift cancels. That the order is drawn
    /// anew for each pair matters too: a start that follows a heavy program is slower than one that follows a light
    /// one, and a fixed cycle gives two equal arms different neighbours (the control then differed from itself by 4 %).
    #[default]
    Balanced,
    /// A new random order each round.
    Random,
    /// All starts of one arm, then all of the next: what this tool exists to avoid; kept to show the harm.
    Blocked,
}

impl Order {
    /// The word in output and on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Order::Balanced => "balanced",
            Order::Random => "random",
            Order::Blocked => "blocked",
        }
    }
}

/// How many rounds to make.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rounds {
    /// At least this many, whatever the budget.
    pub min: u64,
    /// At most this many.
    pub max: u64,
    /// Stop after the round that passes this much time.
    pub budget_ns: u64,
}

impl Rounds {
    /// Exactly this many.
    pub fn exactly(n: u64) -> Rounds {
        Rounds { min: n, max: n, budget_ns: u64::MAX }
    }

    /// True where another round is due after `done` rounds in `spent_ns`. Balanced orders end in pairs.
    pub fn goes_on(&self, done: u64, spent_ns: u64) -> bool {
        done < self.max && (done < self.min || spent_ns < self.budget_ns || (done % 2 == 1 && self.min != self.max))
    }
}

/// The plan of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Plan {
    /// Arms: commands and controls.
    pub arms: usize,
    /// Rounds that are made and thrown away before.
    pub warmup: u64,
    /// Starts of an arm right before each start that counts, of which nothing is kept: they fill the caches with what it
    /// needs, whatever other arms left there.
    pub prime: u64,
    /// Rounds that count.
    pub rounds: Rounds,
    /// Order within rounds.
    pub order: Order,
    /// Seed of random orders.
    pub seed: u64,
}

impl Plan {
    /// Fills `into` with the arms of round `round` in the order of their starts.
    pub fn round(&self, round: u64, into: &mut Vec<usize>) {
        into.clear();
        into.extend(0..self.arms);
        match self.order {
            Order::Balanced => {
                self.shuffle(round / 2, into);
                if round % 2 == 1 {
                    into.reverse();
                }
            }
            Order::Random => self.shuffle(round, into),
            // Each "round" of a blocked run is one start; the runner asks for arms by turn.
            Order::Blocked => {}
        }
    }

    /// Fisher and Yates's shuffle, driven by the seed and `draw` alone.
    fn shuffle(&self, draw: u64, into: &mut [usize]) {
        let mut state = splitmix(self.seed ^ splitmix(draw));
        for i in (1..into.len()).rev() {
            state = splitmix(state);
            // The bias of a remainder is below arms / 2^64.
            into.swap(i, usize::try_from(state % (i as u64 + 1)).unwrap_or(0));
        }
    }
}

/// One step of splitmix64 (Steele, Lea, Flood 2014): a full-period mixer, enough to shuffle orders.
fn splitmix(x: u64) -> u64 {
    let mut z = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(arms: usize, order: Order) -> Plan {
        Plan { arms, warmup: 0, prime: 0, rounds: Rounds::exactly(1), order, seed: 7 }
    }

    #[test]
    fn a_pair_of_balanced_rounds_favours_no_arm() {
        for arms in 1..7 {
            for pair in 0..50 {
                let (mut there, mut back) = (Vec::new(), Vec::new());
                plan(arms, Order::Balanced).round(2 * pair, &mut there);
                plan(arms, Order::Balanced).round(2 * pair + 1, &mut back);
                there.reverse();
                assert_eq!(there, back);
            }
        }
    }

    #[test]
    fn every_arm_follows_every_other_about_equally_often() {
        const ROUNDS: u64 = 4000;
        let (mut order, mut follows, mut last) = (Vec::new(), [[0u64; 3]; 3], 0);
        for round in 0..ROUNDS {
            plan(3, Order::Balanced).round(round, &mut order);
            for &arm in &order {
                follows[last][arm] += 1;
                last = arm;
            }
        }
        // Each of 12,000 starts follows another arm with probability 1/3 + 1/18: 4.5 standard deviations are 240.
        for (a, b) in [(0, 1), (1, 2), (2, 0)] {
            assert!(follows[a][b].abs_diff(follows[b][a]) < 240, "{follows:?}");
            assert!(follows[a][b].abs_diff(follows[0][1]) < 240, "{follows:?}");
        }
    }

    #[test]
    fn random_rounds_are_permutations_and_repeat_with_the_seed() {
        let (mut a, mut b) = (Vec::new(), Vec::new());
        let p = plan(5, Order::Random);
        let mut distinct = std::collections::HashSet::new();
        for round in 0..200 {
            p.round(round, &mut a);
            p.round(round, &mut b);
            assert_eq!(a, b);
            b.sort_unstable();
            assert_eq!(b, [0, 1, 2, 3, 4]);
            distinct.insert(a.clone());
        }
        assert!(distinct.len() > 60, "{}", distinct.len());
    }

    #[test]
    fn rounds_stop_by_count_and_by_time_in_pairs() {
        let r = Rounds { min: 4, max: 10, budget_ns: 100 };
        let stops = |spent: u64| (0..20).find(|&n| !r.goes_on(n, spent)).unwrap();
        assert_eq!((stops(0), stops(100)), (10, 4));
        assert!(r.goes_on(5, 1000) && !r.goes_on(6, 1000));
        assert!(!Rounds::exactly(3).goes_on(3, 0));
    }
}
