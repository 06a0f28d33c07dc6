//! What every measuring verb does: options to commands, plan, run, record.

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

use super::hooks::{self, HookedSampler, Hooks};
use super::stopped;
use crate::error::{Context, Error, Exit, Result};
use crate::measure::command::{Command, show_argv};
use crate::measure::control::{Control, control};
use crate::measure::log::Log;
use crate::measure::plan::{Order, Plan, Rounds};
use crate::measure::runner::{self, Ran, Stop};
use crate::measure::sample::Sample;
use crate::measure::sampler::ProcessSampler;
use crate::output::Output;
use crate::record::bench::{BenchRecord, Setting};
use crate::record::host::{HostRecord, HostWatch};
use crate::sys;
use crate::sys::process::{Program, Stdin, resolve};
use crate::sys::start::{Method, StartOptions, Stdout};
use crate::sys::wait::WaitStatus;
use crate::units;

/// Which ends of a command are accepted.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Accepted {
    /// Exit code 0 alone.
    #[default]
    Success,
    /// Any end, signals too.
    Any,
    /// Exit code 0 and these.
    Codes(Vec<i32>),
    /// These exit codes and no others: they are what is expected, so none of them is a failure.
    Exactly(Vec<i32>),
}

impl Accepted {
    /// Reads `1,2,5`.
    ///
    /// # Errors
    /// Where it is no list of exit codes.
    pub fn parse(text: &str) -> Result<Accepted, String> {
        let code = |t: &str| t.trim().parse::<u8>().map(i32::from);
        let codes = text.split(',').map(code).collect::<Result<Vec<_>, _>>();
        codes.map(Accepted::Codes).map_err(|_| "expected exit codes such as 1,2".to_string())
    }

    /// Reads codes of which one is expected: `2`, `0,1`.
    ///
    /// # Errors
    /// As [`Accepted::parse`].
    pub fn exactly(text: &str) -> Result<Accepted, String> {
        match Accepted::parse(text)? {
            Accepted::Codes(codes) => Ok(Accepted::Exactly(codes)),
            other => Ok(other),
        }
    }

    /// True where such an end is worth a warning even if it was accepted.
    pub(super) fn is_failure(&self, status: WaitStatus) -> bool {
        match self {
            Accepted::Exactly(_) => !self.takes(status),
            _ => !status.is_success(),
        }
    }

    /// The same in words that [`Accepted::from_words`] reads: `0`, `any`, `0,1`, `=2`.
    pub fn words(&self) -> String {
        match self {
            Accepted::Success => "0".to_string(),
            Accepted::Any => "any".to_string(),
            Accepted::Exactly(codes) => {
                let codes: Vec<String> = codes.iter().map(i32::to_string).collect();
                format!("={}", codes.join(","))
            }
            Accepted::Codes(codes) => codes.iter().fold("0".to_string(), |t, c| format!("{t},{c}")),
        }
    }

    /// Reads what [`Accepted::words`] wrote.
    ///
    /// # Errors
    /// Where it is nothing of the kind.
    pub fn from_words(text: &str) -> Result<Accepted, String> {
        match text.strip_prefix('=') {
            Some(only) => Accepted::exactly(only),
            None if text == "any" => Ok(Accepted::Any),
            None if text == "0" => Ok(Accepted::Success),
            None => Accepted::parse(text),
        }
    }

    /// True where such an end counts as a start that went well.
    pub fn takes(&self, status: WaitStatus) -> bool {
        match self {
            Accepted::Success => status.is_success(),
            Accepted::Any => true,
            Accepted::Exactly(codes) => status.exit_code().is_some_and(|c| codes.contains(&c)),
            Accepted::Codes(codes) => status.exit_code().is_some_and(|c| c == 0 || codes.contains(&c)),
        }
    }
}

/// Where commands read from.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum StdinChoice {
    /// `/dev/null`.
    #[default]
    Null,
    /// Our own.
    Inherit,
    /// A file, from its beginning each time.
    File(PathBuf),
}

/// Options of every verb that starts programs: as said, not yet looked up.
#[derive(Debug, Clone)]
pub struct MeasureOptions {
    /// Rounds thrown away first.
    pub warmup: u64,
    /// Starts thrown away before each start of a command.
    pub prime: u64,
    /// Exactly so many rounds.
    pub runs: Option<u64>,
    /// At least so many.
    pub min_runs: Option<u64>,
    /// At most so many.
    pub max_runs: Option<u64>,
    /// Time to measure for.
    pub budget_ns: Option<u64>,
    /// Which ends are accepted.
    pub accepted: Accepted,
    /// fork or vfork.
    pub method: Method,
    /// Time limit of one start.
    pub timeout_ns: Option<u64>,
    /// Variables set for the commands.
    pub env: Vec<(OsString, OsString)>,
    /// Without ours.
    pub clear_env: bool,
    /// Working directory.
    pub cwd: Option<PathBuf>,
    /// A set-up command may make that directory, so it need not be there yet.
    pub cwd_made_later: bool,
    /// Standard input.
    pub stdin: StdinChoice,
    /// Standard output.
    pub stdout: Stdout,
    /// Stamp the end of standard output.
    pub stamp_eof: bool,
    /// Processor.
    pub cpu: Option<usize>,
    /// Leave running what the commands left behind.
    pub keep: bool,
    /// Order within rounds.
    pub order: Order,
    /// Seed.
    pub seed: u64,
    /// Smallest relative difference that a verdict may name, where it is not left to the noise.
    pub delta: Option<f64>,
}

impl Default for MeasureOptions {
    fn default() -> Self {
        MeasureOptions {
            warmup: 3,
            prime: 0,
            runs: None,
            min_runs: None,
            max_runs: None,
            budget_ns: None,
            accepted: Accepted::default(),
            method: Method::default(),
            timeout_ns: Some(30_000_000_000),
            env: Vec::new(),
            clear_env: false,
            cwd: None,
            cwd_made_later: false,
            stdin: StdinChoice::default(),
            stdout: Stdout::default(),
            stamp_eof: false,
            cpu: None,
            keep: false,
            order: Order::default(),
            seed: 1,
            delta: None,
        }
    }
}

/// Rounds by default.
const MIN_ROUNDS: u64 = 20;
const MAX_ROUNDS: u64 = 1000;
const BUDGET_NS: u64 = 3_000_000_000;

impl MeasureOptions {
    fn rounds(&self) -> Result<Rounds> {
        if let Some(n) = self.runs {
            return Ok(Rounds::exactly(n));
        }
        let max = self.max_runs.unwrap_or(MAX_ROUNDS.max(self.min_runs.unwrap_or(0)));
        let min = self.min_runs.unwrap_or(MIN_ROUNDS.min(max));
        if min > max {
            return Err(Error::new(format!("--min-runs {min} is more than --max-runs {max}")));
        }
        Ok(Rounds { min, max, budget_ns: self.budget_ns.unwrap_or(BUDGET_NS) })
    }

    /// The environment of the commands: ours unless cleared, then `--env`, later settings winning.
    pub fn environment(&self) -> Vec<(OsString, OsString)> {
        let mut env: Vec<_> = if self.clear_env { Vec::new() } else { std::env::vars_os().collect() };
        set_variables(&mut env, &self.env);
        env
    }

    /// Looks a command up and makes it ready.
    ///
    /// # Errors
    /// Where it cannot be found or executed, or a file of its set-up cannot be opened.
    pub fn command(&self, argv: Vec<OsString>) -> Result<Command> {
        self.command_with(argv, &[])
    }

    /// The same with variables of its own.
    ///
    /// # Errors
    /// As [`MeasureOptions::command`].
    pub fn command_with(&self, argv: Vec<OsString>, own_env: &[(OsString, OsString)]) -> Result<Command> {
        let name = argv.first().context(|| "no command given")?;
        let path = resolve(name, std::env::var_os("PATH").as_deref())?;
        self.command_at(path, argv, own_env)
    }

    /// The same for the file at `path`, whatever the command calls itself.
    ///
    /// # Errors
    /// As [`MeasureOptions::command`], but that the file is not tried.
    pub fn command_at(&self, path: PathBuf, argv: Vec<OsString>, own_env: &[(OsString, OsString)]) -> Result<Command> {
        let mut env = self.environment();
        set_variables(&mut env, own_env);
        // Recorded whole. Executed as it was found, as a shell does ($0 of a script shows it), but for another working
        // directory, from which it would not be found.
        let whole = std::path::absolute(&path).context(|| path.display().to_string())?;
        let mut program = Program::new(if self.cwd.is_some() { &whole } else { &path }, &argv, &env)?;
        program.stdin = match &self.stdin {
            StdinChoice::Null => Stdin::Null,
            StdinChoice::Inherit => Stdin::Inherit,
            StdinChoice::File(file) => {
                Stdin::File(std::fs::File::open(file).context(|| format!("--stdin {}", file.display()))?.into())
            }
        };
        if let Some(dir) = &self.cwd {
            if !self.cwd_made_later {
                std::fs::read_dir(dir).context(|| format!("--cwd {}", dir.display()))?;
            }
            program.cwd = Some(sys::process::c_string(dir.as_os_str())?);
        }
        program.cpu = self.cpu;
        Ok(Command { name: show_argv(&argv), argv, path: whole, program })
    }
}

fn set_variables(env: &mut Vec<(OsString, OsString)>, set: &[(OsString, OsString)]) {
    for (name, value) in set {
        env.retain(|(n, _)| n != name);
        env.push((name.clone(), value.clone()));
    }
}

/// Splits a quoted command as a shell would.
///
/// # Errors
/// Usage, naming the command.
pub fn split_line(line: &OsStr) -> Result<Vec<OsString>> {
    super::words::split(line).map_err(|why| Error::new(why).context(format!("command '{}'", line.to_string_lossy())))
}

/// A finished run: what was recorded, its samples, and how it ended.
#[derive(Debug)]
pub struct Measured {
    /// Summaries of complete rounds.
    pub record: BenchRecord,
    /// Every sample of complete rounds.
    pub log: Log,
    /// Why it ended early: `Interrupted` keeps what is complete.
    pub exit: Exit,
}

/// What some verbs ask for beyond [`MeasureOptions`].
#[derive(Debug, Default)]
pub struct Extras {
    /// Commands around the timed ones.
    pub hooks: Hooks,
    /// Files whose pages are dropped before each start, by command; empty: warm starts.
    pub evict: Vec<Vec<PathBuf>>,
    /// End each start at its first byte of output.
    pub until_first_byte: bool,
    /// Which ends are accepted, by command; empty: as [`MeasureOptions::accepted`] says.
    pub accepted: Vec<Accepted>,
    /// Bytes and hash that every start's standard output must have, by command; empty: whatever it writes.
    pub expected_output: Vec<Option<(u64, u64)>>,
    /// Which command the others are compared with.
    pub reference: usize,
    /// For each command which one it is compared with; empty: all with `reference`.
    pub references: Vec<usize>,
}

/// Measures `commands` interleaved with the control.
///
/// # Errors
/// Where a command fails (and that was not accepted), cannot be executed or runs too long; and where the system
/// fails us. An interrupted run is no error: what is complete comes back with [`Exit::Interrupted`].
pub fn measure(options: &MeasureOptions, commands: &[Command], output: &mut Output<'_>) -> Result<Measured> {
    measure_with(options, &Extras::default(), commands, output)
}

/// The same with more asked for.
///
/// # Errors
/// As [`measure`].
pub fn measure_with(
    options: &MeasureOptions,
    extras: &Extras,
    commands: &[Command],
    output: &mut Output<'_>,
) -> Result<Measured> {
    sys::signal::catch_interrupts()?;
    // Dropped last, whichever way we leave: what the commands left behind ends with it.
    let mut adopted = sys::orphans::adopt();
    let mut control = control(&options.environment())?;
    control.command.program.cpu = options.cpu;
    if let Some(cpu) = options.cpu {
        // Where the commands run we do not: waking us up would take their processor.
        sys::stay_off_cpu(cpu).context(|| format!("--cpu {cpu}"))?;
    }
    // Arms: the commands, then the control twice.
    let arms: Vec<&Command> = commands.iter().chain([&control.command, &control.command]).collect();
    let plan = Plan {
        arms: arms.len(),
        warmup: options.warmup,
        prime: options.prime,
        rounds: options.rounds()?,
        order: options.order,
        seed: options.seed,
    };
    let start = StartOptions {
        method: options.method,
        stdout: options.stdout,
        timeout_ns: options.timeout_ns,
        until_first_byte: extras.until_first_byte,
        stamp_eof: options.stamp_eof,
        keep: options.keep,
    };
    let mut sampler = HookedSampler {
        evicted: vec![Default::default(); arms.len()],
        inner: ProcessSampler::new(arms, start)?,
        hooks: &extras.hooks,
        commands: commands.len(),
        timeout_ns: options.timeout_ns,
        evict: extras.evict.clone(),
    };
    let mut log = Log::new()?;
    let accept = |arm: usize, s: &Sample| accept(options, extras, (arm < commands.len()).then_some(arm), s);
    let watch = HostWatch::begin();
    let ready = hooks::run_once_each("setup", &extras.hooks.setup, commands.len(), options.timeout_ns);
    let mut ran = match ready {
        Ok(()) => {
            let mut progress = progress_line(plan.rounds, output);
            runner::run(&plan, &mut sampler, &accept, &mut log, &mut progress)
        }
        Err(e) => Ran { stop: Some(Stop::System(e)), ..Ran::default() },
    };
    let host = watch.end();
    output.progress("");
    // Cleaning up is owed whatever happened, an interrupt too; the first trouble is the one that is told.
    if sys::signal::forget_interrupt() && ran.stop.is_none() {
        ran.stop = Some(Stop::Interrupted);
    }
    let cleaned = hooks::run_each("cleanup", &extras.hooks.cleanup, commands.len(), options.timeout_ns);
    let left_behind = if options.keep { adopted.keep() } else { adopted.end() };
    let made = Made { sampler: &sampler, control: &control, plan: &plan, extras, accept: &accept, left_behind };
    let measured = finish(options, commands, made, ran, host, log)?;
    if measured.exit == Exit::Done {
        cleaned?;
    }
    Ok(measured)
}

/// Is this end of a start as it should be? `command` is none for the control, which always has to do its one thing.
fn accept(options: &MeasureOptions, extras: &Extras, command: Option<usize>, s: &Sample) -> Result<(), String> {
    let Some(command) = command else {
        return if s.status.is_success() { Ok(()) } else { Err(s.status.to_string()) };
    };
    // A start that we ended ourselves ended well.
    let accepted = extras.accepted.get(command).unwrap_or(&options.accepted);
    if !accepted.takes(s.status) && !s.ended_at_first_byte {
        return Err(s.status.to_string());
    }
    if extras.until_first_byte && !s.ended_at_first_byte && s.spawn_to_output.is_none() {
        return Err("ended without a byte of output (--until first-byte)".to_string());
    }
    match extras.expected_output.get(command) {
        Some(Some(expected)) if *expected != (s.stdout_bytes, s.stdout_hash) => {
            Err("standard output is not what was expected".to_string())
        }
        _ => Ok(()),
    }
}

/// What a run was made with.
struct Made<'a> {
    sampler: &'a HookedSampler<'a>,
    control: &'a Control,
    plan: &'a Plan,
    extras: &'a Extras,
    accept: &'a runner::Accept<'a>,
    left_behind: Vec<String>,
}

/// Shows rounds done, at most ten times a second: a terminal that is written to between starts is work of ours there.
fn progress_line<'a>(rounds: Rounds, output: &'a mut Output<'_>) -> impl FnMut(u64, u64) + 'a {
    const EVERY_NS: u64 = 100_000_000;
    let mut shown = 0;
    move |done, spent_ns| {
        if output.err_is_terminal && spent_ns.saturating_sub(shown) >= EVERY_NS {
            shown = spent_ns;
            let by_count = (rounds.max.saturating_sub(done)) as f64 * spent_ns as f64 / done as f64;
            let left = by_count.min(rounds.budget_ns.saturating_sub(spent_ns) as f64);
            output.progress(&format!("measuring: {done} rounds, about {} left", units::time(left)));
        }
    }
}

fn finish(
    options: &MeasureOptions,
    commands: &[Command],
    made: Made<'_>,
    ran: Ran,
    host: HostRecord,
    mut log: Log,
) -> Result<Measured> {
    let exit = match ran.stop {
        None => Exit::Done,
        Some(Stop::Interrupted) if ran.rounds > 0 => Exit::Interrupted,
        Some(stop) => return Err(stopped::error(stop, ran.rounds, options, commands)),
    };
    let cold = !made.extras.evict.is_empty();
    let setting = Setting {
        method: options.method,
        stdout: options.stdout,
        order: options.order,
        seed: options.seed,
        warmup: made.plan.warmup,
        prime: made.plan.prime,
        rounds: ran.rounds,
        spent_ns: ran.spent_ns,
        interrupted: exit == Exit::Interrupted,
        control_source: made.control.source.clone(),
        busy_retries: made.sampler.inner.busy_retries,
        clock_rejects: ran.clock_rejects,
        until_first_byte: made.extras.until_first_byte,
        reference: made.extras.reference,
        references: made.extras.references.clone(),
        delta: options.delta,
        evicted: if cold { made.sampler.evicted.clone() } else { Vec::new() },
        left_behind: made.left_behind,
        kept: options.keep,
    };
    let failed = |arm: usize, s: &Sample| {
        let accepted = made.extras.accepted.get(arm).unwrap_or(&options.accepted);
        (made.accept)(arm, s).is_err() || (accepted.is_failure(s.status) && !s.ended_at_first_byte)
    };
    let record = BenchRecord::build(setting, host, commands, &mut log, &failed)?;
    Ok(Measured { record, log, exit })
}
