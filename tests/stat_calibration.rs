//! Do the intervals hold what they promise? Simulated runs whose truth is known; seeded, so the counts are fixed.

#![allow(clippy::expect_used)]

use premain::stat::drift::drift;
use premain::stat::paired::compare;
use premain::stat::rng::Rng;
use premain::stat::verdict::{Verdict, decide, default_delta};

/// Round times of one command: a level that wanders (shared within a round), own noise, spikes in 3 of 100.
struct Machine {
    rng: Rng,
    level: f64,
    memory: f64,
}

impl Machine {
    fn new(seed: u64, memory: f64) -> Machine {
        Machine { rng: Rng::new(seed), level: 0.0, memory }
    }

    fn normal(&mut self) -> f64 {
        (0..12).map(|_| self.rng.unit()).sum::<f64>() - 6.0
    }

    fn round(&mut self) {
        self.level = self.memory * self.level + 0.02 * self.normal();
    }

    /// `own`: how much of the wandering level this start feels.
    fn start(&mut self, ns: f64, own: f64) -> u64 {
        let spike = if self.rng.unit() < 0.03 { 1.0 + 9.0 * self.rng.unit() } else { 1.0 };
        let noise = 0.03 * self.normal();
        (ns * (own * self.level + noise).exp() * spike) as u64
    }

    fn run(&mut self, rounds: usize, ratio: f64, unequal: f64) -> (Vec<u64>, Vec<u64>) {
        (0..rounds)
            .map(|_| {
                self.round();
                (self.start(800e3, 1.0), self.start(800e3 * ratio, 1.0 + unequal))
            })
            .unzip()
    }
}

/// Of `runs` runs: how many intervals held the truth, how many p-values were below 0.05 without a difference.
fn held(runs: u64, rounds: usize, unequal: f64) -> (usize, usize) {
    let mut machine = Machine::new(rounds as u64, 0.9);
    let (mut inside, mut called) = (0, 0);
    for seed in 0..runs {
        let (a, b) = machine.run(rounds, 1.05, unequal);
        let c = compare(&a, &b, seed).expect("no zeros");
        let [low, high] = c.ratio_ci95.expect("enough rounds");
        inside += usize::from((low..=high).contains(&1.05));
        let (a, b) = machine.run(rounds, 1.0, unequal);
        called += usize::from(compare(&a, &b, seed).expect("no zeros").p_value < 0.05);
    }
    (inside, called)
}

#[test]
fn intervals_hold_the_truth_in_95_of_100_runs_though_the_machine_wanders() {
    for rounds in [6, 20, 50, 150] {
        let (inside, called) = held(400, rounds, 0.0);
        // Binomial: 95 % of 400 is 380 ± 4.4, and 5 % is 20 ± 4.4.
        assert!(inside >= 370 && called <= 31, "{rounds} rounds: {inside} intervals hold, {called} false alarms");
    }
}

/// Here one command feels the machine's state twice as much as the other, so their ratio wanders too, with a memory
/// of 19 rounds. Taken as independent, 60 % of the intervals hold, and half of all p-values are false alarms.
#[test]
fn a_wandering_ratio_widens_the_interval() {
    let (inside, called) = held(100, 400, 1.0);
    assert!(inside >= 84 && called <= 28, "{inside} intervals hold, {called} false alarms");
}

#[test]
fn the_same_program_twice_gets_no_verdict_and_two_percent_do() {
    let mut machine = Machine::new(3, 0.9);
    let (mut wrong, mut found) = (0, 0);
    for seed in 0..100 {
        let mut verdict = |ratio: f64, delta: f64| {
            let (a, b) = machine.run(400, ratio, 0.0);
            let c = compare(&a, &b, seed).expect("no zeros");
            decide(c.ratio, c.ratio_ci95, delta)
        };
        wrong += usize::from(!matches!(verdict(1.0, default_delta(None)), Verdict::Equivalent | Verdict::NotDecided));
        found += usize::from(verdict(1.02, 0.0) == Verdict::Slower);
    }
    assert!(wrong == 0 && found >= 95, "{wrong} wrong, {found} found");
}

#[test]
fn drift_is_seen_where_it_is_and_rarely_where_it_is_not() {
    let mut machine = Machine::new(9, 0.5);
    let (mut seen, mut imagined) = (0, 0);
    for seed in 0..100 {
        let (mut a, _) = machine.run(300, 1.0, 0.0);
        imagined += usize::from(drift(&a, seed).expect("enough rounds").matters(0.02));
        for (i, ns) in a.iter_mut().enumerate() {
            *ns += *ns * i as u64 / 300 / 10;
        }
        seen += usize::from(drift(&a, seed).expect("enough rounds").matters(0.02));
    }
    assert!(seen >= 95 && imagined <= 10, "{seen} of 100 seen, {imagined} of 100 imagined");
}
