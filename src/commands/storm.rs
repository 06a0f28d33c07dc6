//! `premain storm`: many starts at once, at several concurrencies, beside the control's.

use std::ffi::OsString;
use std::path::Path;

use super::common::Common;
use super::measuring::{MeasureOptions, StdinChoice, split_line};
use super::saving::Exports;
use crate::error::{Context, Error, Exit, Result};
use crate::measure::command::{Command, show_argv};
use crate::measure::control::control;
use crate::measure::log::Log;
use crate::measure::plan::{Plan, Rounds};
use crate::measure::sample::Sample;
use crate::output::Output;
use crate::record::disturbances;
use crate::record::host::{HostRecord, HostWatch};
use crate::record::storm::{Batch, Level, Observed, StormRecord, against_control, side};
use crate::report::{storm_json, storm_text};
use crate::stat::verdict::MINIMUM_DELTA;
use crate::sys;
use crate::sys::many::{Crowd, ManyOptions, OneOfMany, Together};
use crate::sys::start::{RawStart, StartFailure, Stdout};
use crate::units;

/// Options of `storm`.
#[derive(Debug, Clone)]
pub struct Options {
    /// How to measure.
    pub measure: MeasureOptions,
    /// How many at once, each level.
    pub concurrency: Vec<u64>,
    /// The command, quoted.
    pub lines: Vec<OsString>,
    /// The command, verbatim.
    pub argv: Option<Vec<OsString>>,
    /// As many as is asked for, whatever that does to the machine.
    pub no_cap: bool,
    /// Files to write.
    pub exports: Exports<Export>,
}

/// What is written to a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Export {
    /// The document of `--json`.
    Json,
    /// A table.
    Markdown,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            measure: MeasureOptions::default(),
            concurrency: vec![1, 4, 16, 64],
            lines: Vec::new(),
            argv: None,
            no_cap: false,
            exports: Exports::default(),
        }
    }
}

/// More at once than this need `--no-cap`: a typo must not take a machine down.
const MOST_AT_ONCE: u64 = 256;
/// More starts than this in one run need it too.
const MOST_STARTS: u64 = 100_000;
/// Rounds and time by default.
const MIN_ROUNDS: u64 = 6;
const MAX_ROUNDS: u64 = 1000;
const BUDGET_NS: u64 = 5_000_000_000;
/// Batches at each level in which the scheduler is asked.
const OBSERVED_BATCHES: usize = 3;

/// Makes the storm.
///
/// # Errors
/// Usage, more than the cap, a command that fails or cannot be executed, trouble of ours.
pub fn run(options: &Options, common: &Common, output: &mut Output<'_>) -> Result<Exit> {
    let levels = levels(options)?;
    let argv = argv(options)?;
    let mut plain = options.measure.clone();
    let stdin = match std::mem::take(&mut plain.stdin) {
        // Opened for each start anew: one open file has one position, and they would read each other's lines.
        StdinChoice::File(path) => Some(path),
        other => {
            plain.stdin = other;
            None
        }
    };
    if let Some(path) = &stdin {
        std::fs::File::open(path).context(|| format!("--stdin {}", path.display()))?;
    }
    let command = plain.command(argv)?;
    sys::signal::catch_interrupts()?;
    let mut adopted = sys::orphans::adopt();
    let mut control = control(&plain.environment())?;
    control.command.program.cpu = plain.cpu;
    let rounds = rounds(options, &levels)?;
    let most = levels.iter().copied().max().unwrap_or(1);
    let mut storm = Storm {
        crowd: Crowd::new(usize::try_from(most).ok().context(|| "too many at once")?)?,
        programs: [&command, &control.command],
        levels: &levels,
        options: &plain,
        stdin: stdin.as_deref(),
        log: Log::new()?,
        batches: Vec::new(),
        out: Vec::new(),
    };
    storm.check_memory(most, options.no_cap)?;
    let watch = HostWatch::begin();
    let plan =
        Plan { arms: levels.len() * 2, warmup: plain.warmup, prime: 0, rounds, order: plain.order, seed: plain.seed };
    let ran = storm.rounds(&plan, output)?;
    let host = watch.end();
    let observed = if ran.interrupted { vec![None; plan.arms] } else { storm.observe(plan.arms, output)? };
    let interrupted = ran.interrupted || sys::signal::interrupted();
    adopted.end();
    let record = storm.record(&ran, host, observed, interrupted)?;
    print(options, common, &record, output)?;
    Ok(if interrupted { Exit::Interrupted } else { Exit::Done })
}

fn levels(options: &Options) -> Result<Vec<u64>> {
    let mut levels = options.concurrency.clone();
    levels.sort_unstable();
    levels.dedup();
    match levels.last() {
        Some(most) if *most > MOST_AT_ONCE && !options.no_cap => {
            let why =
                format!("{most} at once are more than {MOST_AT_ONCE}, which may take this machine down (--no-cap)");
            Err(Error::new(why).context("--concurrency"))
        }
        _ => Ok(levels),
    }
}

fn argv(options: &Options) -> Result<Vec<OsString>> {
    if options.measure.stdout == Stdout::Pty || options.measure.stamp_eof {
        return Err(Error::new("in a storm standard output goes to /dev/null: no pty, no --eof"));
    }
    if options.measure.prime > 0 {
        return Err(Error::new("a storm keeps its caches warm by itself: no --prime"));
    }
    match (&options.lines[..], &options.argv) {
        ([], Some(argv)) if !argv.is_empty() => Ok(argv.clone()),
        ([one], None) => split_line(one),
        ([], _) => Err(Error::new("no command given; try 'premain storm --help'")),
        _ => Err(Error::new("one command at a time")),
    }
}

/// How many rounds, with the cap on all starts together.
fn rounds(options: &Options, levels: &[u64]) -> Result<Rounds> {
    let o = &options.measure;
    // A round starts the command and the control, so many times at each level.
    let each: u64 = levels.iter().sum::<u64>().saturating_mul(2);
    let fit = if options.no_cap { u64::MAX } else { (MOST_STARTS / each.max(1)).max(1) };
    if let Some(n) = o.runs {
        if n > fit {
            let all = units::count(n.saturating_mul(each));
            let why = format!("{n} rounds are {all} starts, more than {} (--no-cap)", units::count(MOST_STARTS));
            return Err(Error::new(why).context("--runs"));
        }
        return Ok(Rounds::exactly(n));
    }
    let max = o.max_runs.unwrap_or(MAX_ROUNDS).min(fit);
    let min = o.min_runs.unwrap_or(MIN_ROUNDS).min(max);
    Ok(Rounds { min, max, budget_ns: o.budget_ns.unwrap_or(BUDGET_NS) })
}

/// A storm under way. Arms: each level's command, then its control.
struct Storm<'a> {
    crowd: Crowd,
    programs: [&'a Command; 2],
    levels: &'a [u64],
    options: &'a MeasureOptions,
    stdin: Option<&'a Path>,
    log: Log,
    batches: Vec<Batch>,
    out: Vec<OneOfMany>,
}

/// What was done.
struct Ran {
    rounds: u64,
    spent_ns: u64,
    interrupted: bool,
}

impl Storm<'_> {
    fn at_once(&self, arm: usize) -> u64 {
        self.levels.get(arm / 2).copied().unwrap_or(1)
    }

    /// One batch into `self.out`; `None` where we were interrupted.
    fn batch(&mut self, arm: usize, n: u64, observe: bool) -> Result<Option<Together>> {
        let command = self.programs[arm % 2];
        // What the control reads it never looks at.
        let stdin = self.stdin.filter(|_| arm.is_multiple_of(2));
        let options = ManyOptions { timeout_ns: self.options.timeout_ns, observe, stdin };
        let n = usize::try_from(n).unwrap_or(usize::MAX);
        let fail = |e: Error| e.context(command.name.as_str()).with_exit(Exit::CommandFailed);
        let together = match self.crowd.start(&command.program, n, &options, &mut self.out) {
            Ok(t) => t,
            Err(StartFailure::Interrupted) => return Ok(None),
            Err(StartFailure::Exec(errno)) => return Err(fail(Error::from_errno(errno).context("cannot execute"))),
            Err(StartFailure::Setup(what, errno)) => return Err(fail(Error::from_errno(errno).context(what))),
            Err(StartFailure::System(e)) => return Err(e.context(command.name.as_str())),
        };
        if together.timed_out {
            let limit = units::time(self.options.timeout_ns.unwrap_or(0) as f64);
            let why = format!("with {n} at once some still ran after {limit} (--timeout sets the limit)");
            return Err(Error::new(why).context(command.name.as_str()).with_exit(Exit::TimedOut));
        }
        let accepts = |o: &&OneOfMany| {
            if arm.is_multiple_of(2) { self.options.accepted.takes(o.status) } else { o.status.is_success() }
        };
        match self.out.iter().find(|o| !accepts(o)) {
            Some(o) => Err(fail(Error::new(format!("{} with {n} at once", o.status)))),
            None => Ok(Some(together)),
        }
    }

    /// Would so many at once fit into memory? One start alone tells its size; pages that they share are counted each time.
    fn check_memory(&mut self, most: u64, no_cap: bool) -> Result<()> {
        if self.batch(0, 1, false)?.is_none() {
            return Err(Error::new("interrupted before a round was complete").with_exit(Exit::Interrupted));
        }
        let each = self.out.first().map_or(0, |o| o.usage.max_rss_bytes);
        match free_memory() {
            Some(free) if each.saturating_mul(most) > free && !no_cap => {
                let (each, free) = (units::bytes(each), units::bytes(free));
                let why = format!("{most} at once of {each} each may not fit into {free} of free memory (--no-cap)");
                Err(Error::new(why).context("--concurrency"))
            }
            _ => Ok(()),
        }
    }

    /// Warm-up rounds, then counted ones. Only complete rounds are kept.
    fn rounds(&mut self, plan: &Plan, output: &mut Output<'_>) -> Result<Ran> {
        let mut order = Vec::new();
        let mut ran = Ran { rounds: 0, spent_ns: 0, interrupted: false };
        let mut fresh: Vec<(Batch, Vec<Sample>)> = Vec::new();
        for round in 0..plan.warmup {
            plan.round(round, &mut order);
            if !self.round(round, &order, &mut fresh)? {
                return Err(Error::new("interrupted before a round was complete").with_exit(Exit::Interrupted));
            }
        }
        let from = sys::clock::now_ns();
        while plan.rounds.goes_on(ran.rounds, ran.spent_ns) {
            output.progress(&format!("storm: round {}", ran.rounds + 1));
            plan.round(ran.rounds, &mut order);
            if !self.round(ran.rounds, &order, &mut fresh)? {
                ran.interrupted = true;
                break;
            }
            for (batch, samples) in &fresh {
                self.batches.push(*batch);
                samples.iter().try_for_each(|s| self.log.push(s))?;
            }
            ran.rounds += 1;
            ran.spent_ns = sys::clock::now_ns().saturating_sub(from);
        }
        output.progress("");
        if ran.rounds == 0 {
            return Err(Error::new("interrupted before a round was complete").with_exit(Exit::Interrupted));
        }
        Ok(ran)
    }

    /// One batch of every arm; false where we were interrupted.
    fn round(&mut self, round: u64, order: &[usize], fresh: &mut Vec<(Batch, Vec<Sample>)>) -> Result<bool> {
        fresh.clear();
        for (position, &arm) in order.iter().enumerate() {
            let n = self.at_once(arm);
            let Some(together) = self.batch(arm, n, false)? else { return Ok(false) };
            let all_exited_ns = together.t_last.saturating_sub(together.t_open);
            let batch = Batch { arm, fork_ns: together.fork_ns, all_exited_ns };
            let sample = |o: &OneOfMany| sample(round, position, arm, together.t_open, o);
            fresh.push((batch, self.out.iter().map(sample).collect()));
        }
        Ok(true)
    }

    /// Asks the scheduler in batches of their own: that takes time of ours while others run.
    fn observe(&mut self, arms: usize, output: &mut Output<'_>) -> Result<Vec<Option<(Observed, u64)>>> {
        output.progress("observing");
        let mut all = Vec::with_capacity(arms);
        for arm in 0..arms {
            let mut parts: Vec<[u64; 3]> = Vec::new();
            let (mut used, mut passed, mut late) = (0u64, 0u64, 0u64);
            for _ in 0..OBSERVED_BATCHES {
                let Some(together) = self.batch(arm, self.at_once(arm), true)? else { break };
                passed = passed.saturating_add(together.t_last.saturating_sub(together.t_open));
                late = late.max(together.ours.map_or(0, |s| s.waiting_ns));
                for o in &self.out {
                    let Some(s) = o.scheduled else { continue };
                    parts.push([o.t_exit.saturating_sub(together.t_open), s.running_ns, s.waiting_ns]);
                    let cpu = o.usage.user_ns.saturating_add(o.usage.system_ns);
                    used = used.saturating_add(cpu.saturating_sub(o.parked_ns));
                }
            }
            let busy_permille = used.saturating_mul(1000).checked_div(passed).unwrap_or(0);
            all.push(observed(&parts, late).map(|o| (o, busy_permille)));
        }
        output.progress("");
        Ok(all)
    }

    fn record(
        mut self,
        ran: &Ran,
        host: HostRecord,
        observed: Vec<Option<(Observed, u64)>>,
        interrupted: bool,
    ) -> Result<StormRecord> {
        let allowed = host.facts.cpus_allowed.value().copied();
        let processors = if self.options.cpu.is_some() { Some(1) } else { allowed };
        let accepted = self.options.accepted.clone();
        let command_failed = |s: &Sample| accepted.is_failure(s.status);
        let control_failed = |s: &Sample| !s.status.is_success();
        let (options, argv) = (self.options, self.programs[0].argv.clone());
        let delta = options.delta.unwrap_or(MINIMUM_DELTA);
        let mut levels = Vec::with_capacity(self.levels.len());
        for (i, &concurrency) in self.levels.iter().enumerate() {
            let mut command = side(&mut self.log, &self.batches, 2 * i, &command_failed)?;
            let mut control = side(&mut self.log, &self.batches, 2 * i + 1, &control_failed)?;
            for (side, arm) in [(&mut command, 2 * i), (&mut control, 2 * i + 1)] {
                if let Some(Some((o, permille))) = observed.get(arm) {
                    side.observed = Some(*o);
                    side.busy = processors.map(|n| *permille as f64 / 1000.0 / (n.max(1)) as f64);
                }
            }
            let vs_control = against_control(&self.batches, i, options.seed, delta);
            levels.push(Level { concurrency, command, control, vs_control });
        }
        let mut warnings = disturbances::of_run(&host, ran.spent_ns);
        let failures: u64 = levels.iter().map(|l| l.command.failures).sum();
        if failures > 0 {
            warnings.push(format!("{} failed", units::counted(failures, "start")));
        }
        let late = |l: &&Level| l.command.observed.is_some_and(|o| o.late_ns * 10 > o.elapsed_ns);
        if let Some(l) = levels.iter().rev().find(late) {
            let ns = l.command.observed.map_or(0, |o| o.late_ns);
            warnings.push(format!(
                "with {} at once we waited for a processor ourselves, up to {} in a batch: ends were noticed that much late",
                l.concurrency,
                units::time(ns as f64)
            ));
        }
        if ran.rounds < MIN_ROUNDS {
            warnings.push(format!("fewer than {MIN_ROUNDS} rounds: no interval can be given"));
        }
        Ok(StormRecord {
            command: show_argv(&argv),
            argv,
            levels,
            rounds: ran.rounds,
            spent_ns: ran.spent_ns,
            seed: options.seed,
            interrupted,
            processors,
            noticing: self.crowd.noticing(),
            host: host.with_libc(),
            warnings,
        })
    }
}

/// As every other start is recorded, the common start standing for the moment before fork.
fn sample(round: u64, position: usize, arm: usize, t_open: u64, o: &OneOfMany) -> Sample {
    let narrow = |n: usize| u16::try_from(n).unwrap_or(u16::MAX);
    let raw = RawStart {
        t0: t_open,
        t_exec: o.t_exec,
        t_byte: None,
        t_first_output: None,
        t_eof: None,
        t_exit: o.t_exit,
        stdout_bytes: 0,
        stderr_bytes: 0,
        stdout_hash: 0,
        status: o.status,
        usage: o.usage,
        held_open: false,
        timed_out: false,
        stopped_by: None,
        ended_at_first_byte: false,
    };
    Sample::new(u32::try_from(round).unwrap_or(u32::MAX), narrow(position), narrow(arm), &raw)
}

/// Medians of elapsed, running and waiting, and of what is left of each start; `None` where nothing could be asked.
fn observed(parts: &[[u64; 3]], late_ns: u64) -> Option<Observed> {
    let median = |get: &dyn Fn(&[u64; 3]) -> u64| {
        let mut values: Vec<u64> = parts.iter().map(get).collect();
        values.sort_unstable();
        crate::stat::quantile::whole_quantile(&values, 0.5)
    };
    (!parts.is_empty()).then(|| Observed {
        starts: parts.len() as u64,
        elapsed_ns: median(&|p| p[0]),
        running_ns: median(&|p| p[1]),
        waiting_ns: median(&|p| p[2]),
        blocked_ns: median(&|p| p[0].saturating_sub(p[1]).saturating_sub(p[2])),
        late_ns,
    })
}

/// What the kernel says could be had without swapping.
fn free_memory() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|l| l.strip_prefix("MemAvailable:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

fn print(options: &Options, common: &Common, record: &StormRecord, output: &mut Output<'_>) -> Result<()> {
    let file = |what| match what {
        Export::Json => storm_json::document(record).pretty(),
        Export::Markdown => storm_text::markdown(record),
    };
    let document = || storm_json::document(record);
    options.exports.write(common, output, file, document, |style| storm_text::text(record, style))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_typo_is_capped_and_the_cap_can_be_lifted() {
        let mut o = Options { concurrency: vec![64, 1, 6400, 64], ..Options::default() };
        assert!(levels(&o).unwrap_err().to_string().contains("6400 at once are more than 256"));
        o.no_cap = true;
        assert_eq!(levels(&o).unwrap(), [1, 64, 6400]);
        o.no_cap = false;
        o.measure.runs = Some(1000);
        assert!(rounds(&o, &[64]).unwrap_err().to_string().contains("1000 rounds are 128,000 starts"));
        assert_eq!(rounds(&o, &[1]).unwrap(), Rounds::exactly(1000));
        o.measure.runs = None;
        let r = rounds(&o, &[256]).unwrap();
        assert_eq!((r.min, r.max), (6, 195));
        o.no_cap = true;
        assert_eq!(rounds(&o, &[256]).unwrap().max, 1000);
    }

    #[test]
    fn what_is_neither_running_nor_waiting_is_blocked() {
        let o = observed(&[[10, 2, 3], [20, 4, 6], [30, 6, 9]], 7).unwrap();
        assert_eq!((o.elapsed_ns, o.running_ns, o.waiting_ns, o.blocked_ns), (20, 4, 6, 10));
        assert_eq!(observed(&[[5, 4, 3]], 0).unwrap().blocked_ns, 0);
        assert_eq!(observed(&[], 0), None);
    }
}
