//! Carries a plan out and keeps complete rounds.

use super::log::Log;
use super::plan::{Order, Plan};
use super::sample::Sample;
use super::sampler::Sampler;
use crate::error::Error;
use crate::sys::start::{RawStart, StartFailure};

/// Judges a finished start: `Err` with the reason ends the run.
pub type Accept<'a> = dyn Fn(usize, &Sample) -> Result<(), String> + 'a;

/// Why a run ended before its plan was done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stop {
    /// A signal asked for it.
    Interrupted,
    /// execve of this arm failed with this errno.
    Exec(usize, i32),
    /// What this arm needs before execve could not be set up: what, and errno.
    Setup(usize, &'static str, i32),
    /// This arm ran past the time limit; the signal that held it stopped then, if one did.
    TimedOut(usize, Option<i32>),
    /// This arm's start was not accepted: reason, and the beginning of its standard error.
    Refused(usize, String, String),
    /// The system failed us.
    System(Error),
}

/// What was done.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Ran {
    /// Complete rounds in the log.
    pub rounds: u64,
    /// From the first counted round to the last, nanoseconds.
    pub spent_ns: u64,
    /// Rounds thrown away since the clock went back during one of their starts.
    pub clock_rejects: u64,
    /// Why it ended early, if it did.
    pub stop: Option<Stop>,
}

/// More than a clock can be set back by chance: such a clock measures nothing.
const MOST_CLOCK_REJECTS: u64 = 10;

impl Ran {
    /// What a failed round means: the end, or, where the clock went back during it, one round less.
    fn failed(&mut self, failure: RoundFailure) -> Result<(), Stop> {
        match failure {
            RoundFailure::Stop(stop) => Err(stop),
            RoundFailure::ClockWentBack => {
                self.clock_rejects += 1;
                if self.clock_rejects <= MOST_CLOCK_REJECTS {
                    return Ok(());
                }
                let why = format!("the clock went back in {} rounds: no time can be trusted", self.clock_rejects);
                Err(Stop::System(Error::new(why)))
            }
        }
    }
}

/// Why a round leaves no samples.
#[derive(Debug)]
enum RoundFailure {
    Stop(Stop),
    ClockWentBack,
}

impl From<Stop> for RoundFailure {
    fn from(stop: Stop) -> RoundFailure {
        RoundFailure::Stop(stop)
    }
}

/// Told after every round: rounds done, nanoseconds spent.
pub type Progress<'a> = dyn FnMut(u64, u64) + 'a;

/// Runs `plan`: warm-up rounds, then counted rounds into `log`. A round that does not complete leaves no sample.
pub fn run(
    plan: &Plan,
    sampler: &mut dyn Sampler,
    accept: &Accept<'_>,
    log: &mut Log,
    progress: &mut Progress<'_>,
) -> Ran {
    let mut order = Vec::with_capacity(plan.arms);
    let mut samples = Vec::with_capacity(plan.arms);
    let mut ran = Ran::default();
    for round in 0..plan.warmup {
        plan.round(round, &mut order);
        let done = one_round(plan, round, &order, sampler, accept, &mut samples);
        if let Err(stop) = done.or_else(|failure| ran.failed(failure)) {
            ran.stop = Some(stop);
            return ran;
        }
    }
    if plan.order == Order::Blocked {
        return blocked(plan, sampler, accept, log, progress);
    }
    let from = sampler.now_ns();
    while plan.rounds.goes_on(ran.rounds, ran.spent_ns) {
        plan.round(ran.rounds, &mut order);
        let done = one_round(plan, ran.rounds, &order, sampler, accept, &mut samples);
        let kept = match done.map(|()| keep(&samples, log)) {
            Ok(kept) => kept.map(|()| ran.rounds += 1),
            Err(failure) => ran.failed(failure),
        };
        if let Err(stop) = kept {
            ran.stop = Some(stop);
            return ran;
        }
        ran.spent_ns = sampler.now_ns().saturating_sub(from);
        progress(ran.rounds, ran.spent_ns);
    }
    ran
}

fn keep(samples: &[Sample], log: &mut Log) -> Result<(), Stop> {
    samples.iter().try_for_each(|s| log.push(s)).map_err(Stop::System)
}

fn one_round(
    plan: &Plan,
    round: u64,
    order: &[usize],
    sampler: &mut dyn Sampler,
    accept: &Accept<'_>,
    samples: &mut Vec<Sample>,
) -> Result<(), RoundFailure> {
    samples.clear();
    sampler.begin_round().map_err(|failure| stop_of(0, failure))?;
    for (position, &arm) in order.iter().enumerate() {
        for _ in 0..plan.prime {
            one_start(round, position, arm, sampler, accept)?;
        }
        samples.push(one_start(round, position, arm, sampler, accept)?);
    }
    Ok(())
}

fn one_start(
    round: u64,
    position: usize,
    arm: usize,
    sampler: &mut dyn Sampler,
    accept: &Accept<'_>,
) -> Result<Sample, RoundFailure> {
    let raw = sampler.start(arm).map_err(|failure| stop_of(arm, failure))?;
    if !ordered(&raw) {
        return Err(RoundFailure::ClockWentBack);
    }
    let narrow = |n: usize| u16::try_from(n).unwrap_or(u16::MAX);
    let sample = Sample::new(u32::try_from(round).unwrap_or(u32::MAX), narrow(position), narrow(arm), &raw);
    if sample.timed_out {
        return Err(Stop::TimedOut(arm, raw.stopped_by).into());
    }
    accept(arm, &sample)
        .map_err(|why| Stop::Refused(arm, why, String::from_utf8_lossy(sampler.stderr()).into_owned()))?;
    Ok(sample)
}

/// The stamps of a start stand in the order of its events. A span of 0 made of others would pass for a fast start.
fn ordered(raw: &RawStart) -> bool {
    let between = |t: u64| raw.t0 <= t && t <= raw.t_exit;
    between(raw.t_exec) && raw.t_byte.is_none_or(between)
}

fn stop_of(arm: usize, failure: StartFailure) -> Stop {
    match failure {
        StartFailure::Exec(errno) => Stop::Exec(arm, errno),
        StartFailure::Setup(what, errno) => Stop::Setup(arm, what, errno),
        StartFailure::System(e) => Stop::System(e),
        StartFailure::Interrupted => Stop::Interrupted,
    }
}

/// All starts of one arm, then of the next, with the rounds that each arm's share of the budget allows.
fn blocked(
    plan: &Plan,
    sampler: &mut dyn Sampler,
    accept: &Accept<'_>,
    log: &mut Log,
    progress: &mut Progress<'_>,
) -> Ran {
    let mut ran = Ran::default();
    let mut rounds = plan.rounds;
    rounds.budget_ns /= (plan.arms as u64).max(1);
    let first = sampler.now_ns();
    for arm in 0..plan.arms {
        let from = sampler.now_ns();
        let mut done = 0;
        while rounds.goes_on(done, sampler.now_ns().saturating_sub(from)) {
            let sample = one_start(done, arm, arm, sampler, accept);
            let kept = match sample.map(|s| keep(&[s], log)) {
                Ok(kept) => kept.map(|()| done += 1),
                Err(failure) => ran.failed(failure),
            };
            if let Err(stop) = kept {
                ran.stop = Some(stop);
                return ran;
            }
        }
        // Later arms make as many as the first, so that rounds pair.
        rounds = super::plan::Rounds::exactly(done);
        ran.rounds = done;
        ran.spent_ns = sampler.now_ns().saturating_sub(first);
        progress(done, ran.spent_ns);
    }
    ran
}

#[cfg(test)]
mod tests {
    use super::super::plan::Rounds;
    use super::*;
    use crate::sys::wait::{Usage, WaitStatus};

    /// Takes a fixed time per arm; fails where the script says so.
    struct Scripted {
        clock: u64,
        starts: Vec<usize>,
        fail_at: Option<(usize, StartFailure)>,
        status_of: fn(usize) -> i32,
        backwards: bool,
    }

    impl Scripted {
        fn new() -> Scripted {
            Scripted { clock: 0, starts: vec![], fail_at: None, status_of: |_| 0, backwards: false }
        }
    }

    impl Sampler for Scripted {
        fn start(&mut self, arm: usize) -> Result<RawStart, StartFailure> {
            self.starts.push(arm);
            if let Some((at, failure)) = &self.fail_at
                && *at == self.starts.len()
            {
                return Err(failure.clone());
            }
            let t0 = self.clock;
            self.clock = self.clock.wrapping_add(100 * (arm as u64 + 1));
            Ok(RawStart {
                t0: if self.backwards { t0 + 1000 } else { t0 },
                t_exec: t0 + 10,
                t_byte: None,
                t_first_output: None,
                t_eof: None,
                t_exit: self.clock,
                stdout_bytes: 0,
                stderr_bytes: 0,
                stdout_hash: 0,
                status: WaitStatus((self.status_of)(arm)),
                usage: Usage::default(),
                held_open: false,
                timed_out: false,
                stopped_by: None,
                ended_at_first_byte: false,
            })
        }

        fn now_ns(&self) -> u64 {
            self.clock
        }

        fn stderr(&self) -> &[u8] {
            b"it broke\n"
        }
    }

    fn plan(arms: usize, warmup: u64, rounds: Rounds) -> Plan {
        Plan { arms, warmup, prime: 0, rounds, order: Order::Balanced, seed: 0 }
    }

    fn go(plan: &Plan, sampler: &mut Scripted) -> (Ran, Log) {
        let mut log = Log::new().unwrap();
        let accept = |_: usize, s: &Sample| if s.status.is_success() { Ok(()) } else { Err(s.status.to_string()) };
        let ran = run(plan, sampler, &accept, &mut log, &mut |_, _| {});
        (ran, log)
    }

    #[test]
    fn rounds_interleave_and_spans_are_exact() {
        let mut s = Scripted::new();
        let (ran, mut log) = go(&plan(3, 1, Rounds::exactly(4)), &mut s);
        let mut rounds: Vec<Vec<usize>> = s.starts.chunks(3).map(<[usize]>::to_vec).collect();
        assert_eq!(rounds.len(), 5);
        assert_eq!(rounds[0], rounds[1], "the warm-up follows the same plan");
        rounds.iter_mut().for_each(|r| r.sort_unstable());
        assert!(rounds.iter().all(|r| *r == [0, 1, 2]));
        assert_eq!((ran.rounds, ran.spent_ns, ran.stop), (4, 4 * 600, None));
        let second = log.arm(1).unwrap();
        assert_eq!(second.len(), 4);
        assert!(second.iter().all(|x| (x.spawn_to_exit_ns, x.fork_to_exec_ns, x.exec_to_exit_ns()) == (200, 10, 190)));
        let places: Vec<u16> = second.iter().map(|x| x.position).collect();
        assert_eq!(
            (places[0] + places[1], places[2] + places[3]),
            (2, 2),
            "in each pair of rounds the mean place is the middle"
        );
    }

    #[test]
    fn priming_starts_come_right_before_and_leave_no_sample() {
        let mut s = Scripted::new();
        let primed = Plan { prime: 2, ..plan(2, 0, Rounds::exactly(3)) };
        let (ran, log) = go(&primed, &mut s);
        assert_eq!((ran.rounds, log.len(), s.starts.len()), (3, 6, 18));
        assert!(s.starts.chunks(3).all(|c| c.iter().all(|arm| *arm == c[0])), "{:?}", s.starts);
    }

    #[test]
    fn the_budget_ends_a_run_after_a_pair_of_rounds() {
        let (ran, _) = go(&plan(2, 0, Rounds { min: 2, max: 100, budget_ns: 1000 }), &mut Scripted::new());
        assert_eq!((ran.rounds, ran.spent_ns), (4, 1200));
    }

    /// Stamps out of order, and as far apart as a clock can be, throw the round away and count it: no wrapped span, no
    /// span of 0. A clock that does so again and again ends the run.
    #[test]
    fn a_clock_that_goes_back_gives_no_sample() {
        let mut s = Scripted::new();
        let good = s.start(0).unwrap();
        assert!(ordered(&good));
        let after = good.t_exit + 1;
        assert!(!ordered(&RawStart { t0: good.t_exit + 1, ..good }));
        assert!(!ordered(&RawStart { t_exec: after, ..good }));
        assert!(!ordered(&RawStart { t_byte: Some(after), ..good }));
        assert!(!ordered(&RawStart { t0: u64::MAX, ..good }));
        let mut s = Scripted { clock: u64::MAX - 150, ..Scripted::new() };
        let (ran, log) = go(&plan(1, 0, Rounds::exactly(2)), &mut s);
        assert_eq!((ran.rounds, ran.clock_rejects, ran.stop), (2, 1, None));
        assert_eq!(log.len(), 2);
        let mut s = Scripted { backwards: true, ..Scripted::new() };
        let (ran, log) = go(&plan(1, 0, Rounds::exactly(2)), &mut s);
        assert!(matches!(ran.stop, Some(Stop::System(_))), "{ran:?}");
        assert_eq!((ran.clock_rejects, log.len()), (MOST_CLOCK_REJECTS + 1, 0));
    }

    #[test]
    fn an_incomplete_round_leaves_no_sample() {
        let mut s = Scripted { fail_at: Some((6, StartFailure::Interrupted)), ..Scripted::new() };
        let (ran, log) = go(&plan(2, 0, Rounds::exactly(10)), &mut s);
        assert_eq!((ran.rounds, ran.stop, log.len()), (2, Some(Stop::Interrupted), 4));
    }

    #[test]
    fn a_failing_start_ends_the_run_with_its_reason() {
        let mut s = Scripted { status_of: |arm| if arm == 1 { 3 << 8 } else { 0 }, ..Scripted::new() };
        let (ran, log) = go(&plan(2, 1, Rounds::exactly(10)), &mut s);
        assert_eq!(ran.stop, Some(Stop::Refused(1, "exit code 3".into(), "it broke\n".into())));
        assert!(log.is_empty());
        let mut s = Scripted { fail_at: Some((1, StartFailure::Exec(2))), ..Scripted::new() };
        assert_eq!(go(&plan(1, 1, Rounds::exactly(1)), &mut s).0.stop, Some(Stop::Exec(0, 2)));
    }

    #[test]
    fn a_blocked_run_gives_every_arm_as_many_starts() {
        let mut p = plan(2, 0, Rounds { min: 2, max: 100, budget_ns: 2000 });
        p.order = Order::Blocked;
        let mut s = Scripted::new();
        let (ran, mut log) = go(&p, &mut s);
        assert_eq!((ran.rounds, log.arm(0).unwrap().len(), log.arm(1).unwrap().len()), (10, 10, 10));
        assert!(s.starts[..10].iter().all(|&a| a == 0));
    }
}
