//! The record of a `bench`: setting, commands with their summaries, noise, warnings.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;

use crate::error::Result;
use crate::measure::command::Command;
use crate::measure::log::Log;
use crate::measure::plan::Order;
use crate::measure::sample::Sample;
use crate::record::course::{Course, course};
use crate::record::disturbances;
use crate::record::host::HostRecord;
use crate::record::probes::Probes;
use crate::stat::drift::{Drift, drift};
use crate::stat::paired::{Comparison, compare, holm, median_difference};
use crate::stat::quantile::Summary;
use crate::stat::verdict::{Verdict, decide, default_delta, rounds_to_decide};
use crate::sys::clock;
use crate::sys::page_cache::Evicted;
use crate::sys::start::{Method, Stdout};
use crate::sys::wait::own_peak_rss_bytes;

/// How a run was made.
#[derive(Debug, Clone, PartialEq)]
pub struct Setting {
    /// fork or vfork.
    pub method: Method,
    /// Where standard output went.
    pub stdout: Stdout,
    /// Order within rounds.
    pub order: Order,
    /// Seed.
    pub seed: u64,
    /// Rounds thrown away.
    pub warmup: u64,
    /// Starts thrown away before each start that counts.
    pub prime: u64,
    /// Complete rounds.
    pub rounds: u64,
    /// Time they took.
    pub spent_ns: u64,
    /// Ended by a signal.
    pub interrupted: bool,
    /// Where the control's file was.
    pub control_source: String,
    /// Starts repeated since the file was open for writing.
    pub busy_retries: u64,
    /// Rounds thrown away since the clock went back during them.
    pub clock_rejects: u64,
    /// Starts were ended at their first byte of output.
    pub until_first_byte: bool,
    /// Which command the others are compared with, unless `references` says otherwise.
    pub reference: usize,
    /// For each command which one it is compared with (itself: a reference); empty: all with `reference`.
    pub references: Vec<usize>,
    /// Delta as asked for; else it comes from the noise.
    pub delta: Option<f64>,
    /// Pages dropped before the starts of each arm; empty for warm starts.
    pub evicted: Vec<Evicted>,
    /// Names of processes that still ran when the run was over.
    pub left_behind: Vec<String>,
    /// They were left running, as asked.
    pub kept: bool,
}

impl Setting {
    /// The command that command `arm` is compared with.
    pub fn reference_of(&self, arm: usize) -> usize {
        self.references.get(arm).copied().unwrap_or(self.reference)
    }

    /// The metric that verdicts are about: to the exit, or to the first byte of a program that does not exit.
    pub fn main_metric(&self) -> Metric {
        if self.until_first_byte { FIRST_OUTPUT } else { METRICS[0] }
    }
}

const FIRST_OUTPUT: Metric = ("spawn_to_output_ns", |s| s.spawn_to_output.map(|(t, _)| t));

/// A metric: its field name and how a sample gives it.
pub type Metric = (&'static str, fn(&Sample) -> Option<u64>);

/// All metrics, in the contract's order.
pub const METRICS: [Metric; 15] = [
    ("spawn_to_exit_ns", |s| Some(s.spawn_to_exit_ns)),
    ("spawn_to_byte_ns", |s| s.spawn_to_byte_ns),
    ("exec_to_exit_ns", |s| Some(s.exec_to_exit_ns())),
    ("fork_to_exec_ns", |s| Some(s.fork_to_exec_ns)),
    ("exec_to_byte_ns", |s| s.exec_to_byte_ns()),
    FIRST_OUTPUT,
    ("spawn_to_eof_ns", |s| s.spawn_to_eof_ns),
    ("cpu_ns", |s| Some(s.cpu_ns())),
    ("user_ns", |s| Some(s.usage.user_ns)),
    ("system_ns", |s| Some(s.usage.system_ns)),
    ("max_rss_bytes", |s| Some(s.usage.max_rss_bytes)),
    ("minflt", |s| Some(s.usage.minflt)),
    ("majflt", |s| Some(s.usage.majflt)),
    ("nvcsw", |s| Some(s.usage.nvcsw)),
    ("nivcsw", |s| Some(s.usage.nivcsw)),
];

/// The metric of floor and noise, and of verdicts unless starts end at their first byte.
pub const MAIN_METRIC: &str = "spawn_to_exit_ns";

/// What a command is in a comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// What the others are compared with.
    Reference,
    /// Compared with the reference.
    Candidate,
    /// The smallest program that can exit.
    Control,
}

impl Role {
    /// The word in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Role::Reference => "reference",
            Role::Candidate => "candidate",
            Role::Control => "control",
        }
    }
}

/// A candidate against the reference, within rounds.
#[derive(Debug, Clone, PartialEq)]
pub struct VersusReference {
    /// Median ratio with its interval and tests.
    pub comparison: Comparison,
    /// p-value after Holm's correction over all candidates.
    pub p_adjusted: f64,
    /// Median of within-round differences.
    pub difference_ns: i64,
    /// The word.
    pub verdict: Verdict,
    /// Rounds that would decide, where it is not decided and that can be said.
    pub rounds_needed: Option<u64>,
}

/// What a command wrote, over all its starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OutputFacts {
    /// Bytes on standard output of the first start.
    pub bytes: u64,
    /// Hash of standard output of the first start.
    pub hash: u64,
    /// Every start wrote the same.
    pub constant: bool,
}

/// One command's part of the record.
#[derive(Debug, Clone, PartialEq)]
pub struct CommandRecord {
    /// What output calls it.
    pub name: String,
    /// As given.
    pub argv: Vec<OsString>,
    /// The file that was executed.
    pub path: PathBuf,
    /// Kind of program (`pie`, `static`, …), where the file could be read.
    pub kind: Option<&'static str>,
    /// Its part in comparisons.
    pub role: Role,
    /// Starts in complete rounds.
    pub starts: u64,
    /// Of these, ended by a signal or a code that is neither 0 nor expected.
    pub failures: u64,
    /// Starts by exit code (128 + signal).
    pub exit_codes: BTreeMap<i32, u64>,
    /// Starts whose output something else still held open after their end.
    pub held_open: u64,
    /// Summaries in the order of [`METRICS`]; none where no start gave a value.
    pub metrics: Vec<Option<Summary>>,
    /// Its course, where the run is long.
    pub course: Option<Course>,
    /// What it wrote.
    pub output: Option<OutputFacts>,
    /// Against the reference, for candidates.
    pub vs_reference: Option<VersusReference>,
    /// What was observed in starts apart from the timed ones.
    pub probes: Option<Probes>,
}

impl CommandRecord {
    /// Largest peak memory that `self`, the control, showed: a child inherits its parent's high-water mark, so no other
    /// command's peak can be seen below it.
    pub fn rss_floor_bytes(&self) -> u64 {
        self.metric("max_rss_bytes").map_or(0, |s| s.max)
    }

    /// The summary of a metric.
    pub fn metric(&self, name: &str) -> Option<&Summary> {
        METRICS.iter().zip(&self.metrics).find(|((n, _), _)| *n == name).and_then(|(_, s)| s.as_ref())
    }
}

/// The control compared with itself, and its course over the run.
#[derive(Debug, Clone, PartialEq)]
pub struct Noise {
    /// The control's second start against its first, within rounds.
    pub same_vs_same: Option<Comparison>,
    /// Its course over the run.
    pub drift: Option<Drift>,
}

/// The record of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct BenchRecord {
    /// How it was made.
    pub setting: Setting,
    /// Where, and what happened to that host meanwhile.
    pub host: HostRecord,
    /// The clock's step and what reading it costs.
    pub clock_resolution_ns: u64,
    /// Nanoseconds a reading.
    pub clock_read_ns: f64,
    /// Our own peak memory while we measured, where it can be known.
    pub own_peak_rss_bytes: Option<u64>,
    /// Commands in the order given.
    pub commands: Vec<CommandRecord>,
    /// Both starts of the control in each round together.
    pub control: CommandRecord,
    /// What cannot be told apart here.
    pub noise: Noise,
    /// Smallest relative difference that a verdict may name.
    pub delta: f64,
    /// What a reader should know before trusting the figures.
    pub warnings: Vec<String>,
}

impl BenchRecord {
    /// True where a comparison is not decided.
    pub fn is_undecided(&self) -> bool {
        let verdicts = self.commands.iter().filter_map(|c| c.vs_reference.as_ref());
        verdicts.into_iter().any(|v| v.verdict == Verdict::NotDecided)
    }

    /// What a command of this record is compared with; `None` for the control.
    pub fn reference_of(&self, command: &CommandRecord) -> Option<&CommandRecord> {
        let arm = self.commands.iter().position(|c| std::ptr::eq(c, command))?;
        self.commands.get(self.setting.reference_of(arm))
    }

    /// Summarises the samples of a run whose arms were `commands`, then the control twice. `failed` judges the end of a
    /// start of a command.
    ///
    /// # Errors
    /// Where samples cannot be read back.
    pub fn build(
        setting: Setting,
        host: HostRecord,
        commands: &[Command],
        log: &mut Log,
        failed: &dyn Fn(usize, &Sample) -> bool,
    ) -> Result<BenchRecord> {
        // Before anything is summarised: the memory that children saw is that of the measuring.
        let own_peak_rss_bytes = own_peak_rss_bytes();
        let arms = commands.len();
        let first = log.arm(arms)?;
        let second = log.arm(arms + 1)?;
        let spans = |samples: &[Sample]| samples.iter().map(|s| s.spawn_to_exit_ns).collect::<Vec<_>>();
        let (control_a, control_b) = (spans(&first), spans(&second));
        let noise = Noise {
            same_vs_same: compare(&control_a, &control_b, setting.seed),
            drift: drift(&control_a, setting.seed),
        };
        let both: Vec<Sample> = first.into_iter().chain(second).collect();
        let control = summarise("control", &[], &PathBuf::from(&setting.control_source), Role::Control, &both);
        let delta =
            setting.delta.unwrap_or_else(|| default_delta(noise.same_vs_same.as_ref().and_then(|c| c.ratio_ci95)));
        let (_, metric) = setting.main_metric();
        let mut records = Vec::with_capacity(arms);
        for (arm, command) in commands.iter().enumerate() {
            let samples = log.arm(arm)?;
            let reference = setting.reference_of(arm);
            let role = if arm == reference { Role::Reference } else { Role::Candidate };
            let mut record = summarise(&command.name, &command.argv, &command.path, role, &samples);
            if role == Role::Candidate {
                record.vs_reference = versus_by_metric(log, [reference, arm], metric, setting.seed, delta)?;
            }
            record.course = course(&samples, setting.main_metric());
            record.failures = samples.iter().filter(|s| failed(arm, s)).count() as u64;
            records.push(record);
        }
        adjust_p_values(&mut records);
        let mut record = BenchRecord {
            setting,
            host: host.with_libc(),
            clock_resolution_ns: clock::resolution_ns(),
            clock_read_ns: clock::read_cost_ns(),
            own_peak_rss_bytes,
            commands: records,
            control,
            noise,
            delta,
            warnings: Vec::new(),
        };
        record.warnings = warnings(&record);
        Ok(record)
    }
}

fn summarise(name: &str, argv: &[OsString], path: &std::path::Path, role: Role, samples: &[Sample]) -> CommandRecord {
    let mut exit_codes = BTreeMap::new();
    for s in samples {
        *exit_codes.entry(s.status.code()).or_insert(0) += 1;
    }
    let mut values = Vec::with_capacity(samples.len());
    let metrics = METRICS.iter().map(|(_, get)| {
        values.clear();
        values.extend(samples.iter().filter_map(get));
        Summary::of(&mut values)
    });
    let output = samples.first().map(|f| OutputFacts {
        bytes: f.stdout_bytes,
        hash: f.stdout_hash,
        constant: samples.iter().all(|s| (s.stdout_bytes, s.stdout_hash) == (f.stdout_bytes, f.stdout_hash)),
    });
    CommandRecord {
        name: name.to_string(),
        argv: argv.to_vec(),
        path: path.to_path_buf(),
        kind: None,
        role,
        starts: samples.len() as u64,
        failures: 0,
        exit_codes,
        held_open: samples.iter().filter(|s| s.held_open).count() as u64,
        metrics: metrics.collect(),
        course: None,
        output,
        vs_reference: None,
        probes: None,
    }
}

/// Compares one arm with another by any metric, `arms` being reference and candidate; the p-value is not yet
/// adjusted for others. Rounds in which a side has no value make no pair; `None` where there is no pair.
///
/// # Errors
/// Where samples cannot be read back.
pub fn versus_by_metric(
    log: &mut Log,
    arms: [usize; 2],
    metric: fn(&Sample) -> Option<u64>,
    seed: u64,
    delta: f64,
) -> Result<Option<VersusReference>> {
    let [reference, candidate] = pairs_by_metric(log, arms, metric)?;
    Ok(versus(&reference, &candidate, seed, delta))
}

/// The values of two arms, round by round, where both have one.
///
/// # Errors
/// Where samples cannot be read back.
pub fn pairs_by_metric(log: &mut Log, arms: [usize; 2], metric: fn(&Sample) -> Option<u64>) -> Result<[Vec<u64>; 2]> {
    let mut sides: [Vec<Option<u64>>; 2] = [Vec::new(), Vec::new()];
    log.for_each(|s| {
        for (side, arm) in sides.iter_mut().zip(arms) {
            if usize::from(s.arm) == arm {
                side.push(metric(s));
            }
        }
    })?;
    let [reference, candidate] = sides;
    let pairs = reference.into_iter().zip(candidate).filter_map(|(a, b)| Some((a?, b?)));
    let (reference, candidate): (Vec<u64>, Vec<u64>) = pairs.unzip();
    Ok([reference, candidate])
}

/// Compares one candidate; the p-value is not yet adjusted for others.
pub fn versus(reference: &[u64], candidate: &[u64], seed: u64, delta: f64) -> Option<VersusReference> {
    let comparison = compare(reference, candidate, seed)?;
    let verdict = decide(comparison.ratio, comparison.ratio_ci95, delta);
    let open = verdict == Verdict::NotDecided;
    Some(VersusReference {
        p_adjusted: comparison.p_value,
        difference_ns: median_difference(reference, candidate)?,
        verdict,
        rounds_needed: if open {
            rounds_to_decide(comparison.pairs, comparison.ratio, comparison.ratio_ci95, delta)
        } else {
            None
        },
        comparison,
    })
}

/// Holm's correction over all candidates that were compared.
fn adjust_p_values(records: &mut [CommandRecord]) {
    let p: Vec<f64> = records.iter().filter_map(|r| r.vs_reference.as_ref()).map(|v| v.comparison.p_value).collect();
    let compared = records.iter_mut().filter_map(|r| r.vs_reference.as_mut());
    for (v, p) in compared.zip(holm(&p)) {
        v.p_adjusted = p;
    }
}

/// A delta beyond this is worth a warning: the run can tell little apart.
const NOISY: f64 = 0.1;

fn warnings(r: &BenchRecord) -> Vec<String> {
    let mut out = Vec::new();
    if r.setting.order == Order::Blocked {
        out.push(
            "blocked order: drift of the machine, not the programs, may decide; use it only to see that".to_string(),
        );
    }
    if r.setting.rounds < 6 {
        out.push("fewer than 6 rounds: no interval can be given".to_string());
    }
    if r.delta > NOISY {
        out.push(format!(
            "this machine is noisy just now: the control differs from itself by up to {:.0} %; quiet it, or measure longer (--budget)",
            r.delta * 50.0
        ));
    }
    if let Some(d) = r.noise.drift.as_ref().filter(|d| d.matters(r.delta)) {
        out.push(format!(
            "the floor drifted during the run: its last third took {:.2} times its first; ratios within rounds hold, absolute times less so",
            d.thirds_ratio
        ));
    }
    let names = r.commands.iter().map(|c| c.name.as_str());
    for (name, e) in names.zip(&r.setting.evicted) {
        if e.after * 10 > e.before {
            out.push(format!(
                "{name}: asked for cold starts, but {:.0} % of its files' pages stayed in memory (other programs map them)",
                e.after as f64 * 100.0 / (e.before as f64).max(1.0)
            ));
        }
    }
    out.extend(disturbances::of_run(&r.host, r.setting.spent_ns));
    for c in &r.commands {
        if c.held_open > 0 {
            out.push(format!(
                "{}: a process it left behind held its output open in {} of {} starts{}",
                c.name,
                c.held_open,
                c.starts,
                if r.setting.kept { "" } else { "; it was killed" }
            ));
        }
        if c.failures > 0 {
            out.push(format!("{}: {} of {} starts failed", c.name, c.failures, c.starts));
        }
    }
    out.extend(left_behind(&r.setting));
    if r.setting.busy_retries > 0 {
        out.push(format!(
            "{} starts were repeated since the program's file was open for writing",
            r.setting.busy_retries
        ));
    }
    if r.setting.clock_rejects > 0 {
        out.push(format!("{} rounds were thrown away since the clock went back during them", r.setting.clock_rejects));
    }
    out
}

/// Processes in sessions of their own (daemons): they ran beside all later starts.
fn left_behind(s: &Setting) -> Option<String> {
    const NAMED: usize = 3;
    let mut names = s.left_behind.clone();
    names.sort_unstable();
    names.dedup();
    let more = if names.len() > NAMED { ", ..." } else { "" };
    let done = if s.kept { "still run" } else { "ran until we ended them (--keep leaves them)" };
    let n = s.left_behind.len() as u64;
    (n > 0).then(|| {
        let what = if n == 1 { "process".to_string() } else { "processes".to_string() };
        format!("{n} {what} that the commands left behind {done}: {}{more}", names[..names.len().min(NAMED)].join(", "))
    })
}
