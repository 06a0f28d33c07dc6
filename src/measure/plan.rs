//! Who starts when.
//!
//! Within a round every arm starts once; the control starts twice, as two arms of its own, so that each round
//! also compares the control with itself. Arms are the controls and the commands in one list.

/// How the arms of a round follow each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Order {
    /// Each order is followed by its reverse (ABBA), and the list turns by one place every two rounds: over
    /// 2 × arms rounds every arm has been at every place equally often, and before every other as often as after.
    #[default]
    Balanced,
    /// A new random order each round.
    Random,
    /// All starts of one arm, then all of the next: what this tool exists to avoid; kept to show the harm.
    Blocked,
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
        if self.arms == 0 {
            return;
        }
        match self.order {
            Order::Balanced => {
                into.rotate_left(usize::try_from(round / 2 % self.arms as u64).unwrap_or(0));
                if round % 2 == 1 {
                    into.reverse();
                }
            }
            Order::Random => {
                let mut state = splitmix(self.seed ^ splitmix(round));
                for i in (1..self.arms).rev() {
                    state = splitmix(state);
                    // The bias of a remainder is below arms / 2^64.
                    into.swap(i, usize::try_from(state % (i as u64 + 1)).unwrap_or(0));
                }
            }
            // Each "round" of a blocked run is one start; the runner asks for arms by turn.
            Order::Blocked => {}
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
        Plan { arms, warmup: 0, rounds: Rounds::exactly(1), order, seed: 7 }
    }

    #[test]
    fn balanced_rounds_put_every_arm_at_every_place_equally_often() {
        for arms in 1..7 {
            let mut seen = vec![vec![0; arms]; arms];
            let mut before = vec![vec![0; arms]; arms];
            let mut order = Vec::new();
            for round in 0..2 * arms as u64 {
                plan(arms, Order::Balanced).round(round, &mut order);
                for (place, &arm) in order.iter().enumerate() {
                    seen[arm][place] += 1;
                    order[place + 1..].iter().for_each(|&later| before[arm][later] += 1);
                }
            }
            assert!(seen.iter().flatten().all(|&n| n == 2), "{arms}: {seen:?}");
            for a in 0..arms {
                for b in 0..a {
                    assert_eq!(before[a][b], before[b][a]);
                }
            }
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
