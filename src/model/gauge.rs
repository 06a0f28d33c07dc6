//! Measures programs that stamp their entry point: from execve to it, and from it to the return of wait4.
//!
//! The arms are started interleaved, in the balanced order of `measure::plan`, each some times in a row. Nothing runs beside them, and nothing is
//! traced: the stamp is the program's own (see `elf::synth::stamped`).

use std::ffi::OsString;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

use crate::error::{Context, Error, Exit, Result};
use crate::measure::plan::{Order, Plan, Rounds};
use crate::stat::quantile::median;
use crate::sys;
use crate::sys::process::{Program, Stdin};
use crate::sys::start::{Method, RawStart, StartFailure, StartOptions, Starter, Stdout};

/// One program to measure. It holds no descriptor: a child inherits all of ours, and exec closes them one by one, which
/// with a thousand programs made each start a third dearer.
pub struct Arm {
    program: Program,
}

/// A stamp that no clock gives: the program did not come to its entry point.
const NOT_STAMPED: [u8; 16] = [0xff; 16];

impl Arm {
    /// The program at `path`, which must be stamped.
    ///
    /// # Errors
    /// Where a string holds a NUL byte.
    pub fn new(path: &Path, argv: &[OsString], env: &[(OsString, OsString)]) -> Result<Arm> {
        Ok(Arm { program: Program::new(path, argv, env)? })
    }
}

/// Starts in a row of which nothing is kept, and of which the median is.
const WARMING: usize = 3;
const TIMED: usize = 3;

/// Starts arms, and reads their stamps from one memory file.
struct Gauge {
    starter: Starter,
    options: StartOptions,
    clock: File,
}

impl Gauge {
    fn new(method: Method) -> Result<Gauge> {
        let options = StartOptions { method, stdout: Stdout::Null, ..StartOptions::default() };
        Ok(Gauge { starter: Starter::new()?, options, clock: sys::memory_file(c"premain-entry")? })
    }

    fn start(&mut self, arm: &mut Arm) -> Result<Reading> {
        self.clock.write_all_at(&NOT_STAMPED, 0)?;
        arm.program.stdin = Stdin::File(self.clock.try_clone().context(|| "cannot copy a descriptor")?.into());
        let started = self.starter.start(&arm.program, &self.options);
        arm.program.stdin = Stdin::Null;
        let raw = match started {
            Ok(raw) => raw,
            Err(StartFailure::Interrupted) => return Err(Error::new("interrupted").with_exit(Exit::Interrupted)),
            Err(StartFailure::Exec(e)) => return Err(Error::from_errno(e).context("cannot execute")),
            Err(StartFailure::Setup(what, e)) => return Err(Error::from_errno(e).context(what)),
            Err(StartFailure::System(e)) => return Err(e),
        };
        self.reading(&raw)
    }

    /// The median of some starts in a row, after some that fill the caches, and the kernel's lists of free pages, with
    /// what this program needs. After a single one, plain programs still took a tenth longer in the company of heavy ones
    /// than among themselves; after three, no longer.
    fn warm(&mut self, arm: &mut Arm) -> Result<Reading> {
        for _ in 0..WARMING {
            self.start(arm)?;
        }
        let mut readings = [NO_READING; TIMED];
        for reading in &mut readings {
            *reading = self.start(arm)?;
        }
        let middle = |of: fn(&Reading) -> f64| median(&mut readings.map(|r| of(&r))).unwrap_or(0.0);
        Ok(Reading {
            to_entry_ns: middle(|r| r.to_entry_ns),
            to_end_ns: middle(|r| r.to_end_ns),
            minflt: middle(|r| r.minflt),
        })
    }

    fn reading(&self, raw: &RawStart) -> Result<Reading> {
        let mut stamp = [0u8; 16];
        self.clock.read_exact_at(&mut stamp, 0)?;
        if stamp == NOT_STAMPED {
            return Err(Error::new(format!("did not reach its entry point: {}", raw.status)));
        }
        let [seconds, nanos] = [0, 8].map(|at| {
            let bytes = stamp.get(at..).and_then(|s| s.first_chunk::<8>()).copied().unwrap_or_default();
            u64::from_ne_bytes(bytes)
        });
        let entry = seconds.saturating_mul(1_000_000_000).saturating_add(nanos);
        Ok(Reading {
            to_entry_ns: entry.saturating_sub(raw.t_exec) as f64,
            to_end_ns: raw.t_exit.saturating_sub(entry) as f64,
            minflt: raw.usage.minflt as f64,
        })
    }
}

/// One start.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Reading {
    /// From just before execve to the entry point.
    pub to_entry_ns: f64,
    /// From the entry point, where it exits at once, to the return of wait4.
    pub to_end_ns: f64,
    /// Page faults without input or output, those before execve included.
    pub minflt: f64,
}

const NO_READING: Reading = Reading { to_entry_ns: 0.0, to_end_ns: 0.0, minflt: 0.0 };

/// How to measure.
#[derive(Debug, Clone, Copy)]
pub struct Effort {
    /// Rounds that are made and thrown away.
    pub warmup: u64,
    /// Rounds that count.
    pub rounds: Rounds,
    /// Seed of the order.
    pub seed: u64,
    /// How children are made.
    pub method: Method,
}

/// Starts a program once.
///
/// # Errors
/// Where it does not reach its entry point.
pub fn try_once(arm: &mut Arm, method: Method) -> Result<Reading> {
    Gauge::new(method)?.start(arm)
}

/// Readings by arm, one a round.
///
/// # Errors
/// Where a program does not reach its entry point (its place in `arms` is named), the system fails us, or a signal asks
/// us to stop.
pub fn measure(arms: &mut [&mut Arm], effort: Effort, progress: &mut dyn FnMut(u64, u64)) -> Result<Vec<Vec<Reading>>> {
    let plan = Plan {
        arms: arms.len(),
        warmup: effort.warmup,
        prime: 0,
        rounds: effort.rounds,
        order: Order::Balanced,
        seed: effort.seed,
    };
    let mut gauge = Gauge::new(effort.method)?;
    // Room for all readings before the first start: our memory is the same in every round.
    let room = usize::try_from(effort.rounds.max.min(MOST_ROUNDS)).unwrap_or(0);
    let mut readings: Vec<Vec<Reading>> = arms.iter().map(|_| Vec::with_capacity(room)).collect();
    let mut order = Vec::with_capacity(arms.len());
    let mut from = sys::clock::now_ns();
    let (mut done, mut spent) = (0u64, 0u64);
    for round in 0.. {
        let counts = round >= plan.warmup;
        if round == plan.warmup {
            from = sys::clock::now_ns();
        }
        if counts && !(plan.rounds.goes_on(done, spent) && done < MOST_ROUNDS) {
            break;
        }
        plan.round(round, &mut order);
        for &arm in &order {
            let Some(program) = arms.get_mut(arm) else { continue };
            let reading = gauge.warm(program).context(|| format!("program {arm}"))?;
            if counts && let Some(list) = readings.get_mut(arm) {
                list.push(reading);
            }
        }
        if counts {
            done += 1;
            spent = sys::clock::now_ns().saturating_sub(from);
            progress(done, spent);
        }
    }
    Ok(readings)
}

/// More rounds than this tell no more.
const MOST_ROUNDS: u64 = 5_000;
