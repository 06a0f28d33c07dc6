//! What has to be done around a start or a round: none of it inside a timed window.
//!
//! Whatever runs between two starts cools caches and lets the processor doze: the next start is slower for it. So
//! where anything ran, one throw-away start of the control goes first, before every arm alike, the control included.

use std::ffi::OsString;
use std::path::PathBuf;

use super::measuring::{MeasureOptions, split_line};
use crate::error::{Context, Error, Exit, Result};
use crate::measure::command::Command;
use crate::measure::sampler::{ProcessSampler, Sampler};
use crate::sys::page_cache::{self, Evicted};
use crate::sys::start::{RawStart, StartFailure, StartOptions, Starter, Stdout};

/// Commands that go with arms: one for all, one for each, or for some.
#[derive(Debug, Default)]
pub struct HookList {
    commands: Vec<Command>,
    /// Index into `commands` by arm.
    of_arm: Vec<Option<usize>>,
}

impl HookList {
    /// One command for all of `arms` arms, or one for each.
    pub fn spread(commands: Vec<Command>, arms: usize) -> HookList {
        let index = |arm: usize| if commands.len() == 1 { Some(0) } else { Some(arm).filter(|a| *a < commands.len()) };
        HookList { of_arm: (0..arms).map(index).collect(), commands }
    }

    /// The next arm's command, or none for it.
    pub fn push(&mut self, command: Option<Command>) {
        self.of_arm.push(command.is_some().then_some(self.commands.len()));
        self.commands.extend(command);
    }

    /// The next arm shares the command of the arm before it.
    pub fn push_same(&mut self) {
        let same = self.of_arm.last().copied().flatten();
        self.of_arm.push(same);
    }

    /// True where no arm has a command.
    pub fn is_empty(&self) -> bool {
        self.commands.is_empty()
    }

    /// Every command once, however many arms share it.
    pub fn all(&self) -> &[Command] {
        &self.commands
    }

    fn for_arm(&self, arm: usize) -> Option<&Command> {
        self.commands.get(self.of_arm.get(arm).copied().flatten()?)
    }
}

/// Commands around the timed ones.
#[derive(Debug, Default)]
pub struct Hooks {
    /// Once before a command's first start.
    pub setup: HookList,
    /// Before each round, once each.
    pub setup_round: HookList,
    /// Before each of its starts.
    pub prepare: HookList,
    /// After each of its starts.
    pub conclude: HookList,
    /// Once after its last start.
    pub cleanup: HookList,
}

/// The names of their flags, in the order of [`Hooks::lists`].
pub const FLAGS: [&str; 5] = ["setup", "setup-round", "prepare", "conclude", "cleanup"];

impl Hooks {
    /// Each list with the name of its flag.
    pub fn lists(&mut self) -> [(&'static str, &mut HookList); 5] {
        let [setup, setup_round, prepare, conclude, cleanup] = FLAGS;
        [
            (setup, &mut self.setup),
            (setup_round, &mut self.setup_round),
            (prepare, &mut self.prepare),
            (conclude, &mut self.conclude),
            (cleanup, &mut self.cleanup),
        ]
    }

    /// The next arm's commands: `line` gives the one of a flag, as it was written, and `o` says how it is run.
    ///
    /// # Errors
    /// A line that cannot be split, or a program that is not there: the message names the flag behind `dashes`.
    pub fn push_arm<'a>(
        &mut self,
        dashes: &str,
        o: &MeasureOptions,
        line: impl Fn(&str) -> Option<&'a OsString>,
    ) -> Result<()> {
        for (flag, list) in self.lists() {
            let make = |line: &OsString| split_line(line).and_then(|argv| o.command(argv));
            list.push(line(flag).map(make).transpose().context(|| format!("{dashes}{flag}"))?);
        }
        Ok(())
    }

    /// The next arm shares the commands of the arm before it.
    pub fn push_same_arm(&mut self) {
        self.lists().into_iter().for_each(|(_, list)| list.push_same());
    }
}

/// Runs one such command; it must end with 0.
///
/// # Errors
/// Where it does not, with what it said.
pub fn run_hook(what: &str, command: &Command, timeout_ns: Option<u64>) -> Result<()> {
    let mut starter = Starter::new()?;
    let options = StartOptions { stdout: Stdout::Pipe, timeout_ns, ..StartOptions::default() };
    let fail = |why: String| {
        Error::new(why).context(command.name.as_str()).context(format!("--{what}")).with_exit(Exit::CommandFailed)
    };
    match starter.start(&command.program, &options) {
        Ok(raw) if raw.timed_out => Err(fail("ran too long".to_string()).with_exit(Exit::TimedOut)),
        Ok(raw) if raw.status.is_success() => Ok(()),
        Ok(raw) => {
            let said = String::from_utf8_lossy(starter.stderr_kept()).into_owned();
            let said = said.lines().next().map_or(String::new(), |l| format!("; it said: {l}"));
            Err(fail(format!("{}{said}", raw.status)))
        }
        Err(StartFailure::Exec(errno)) => Err(fail(Error::from_errno(errno).to_string())),
        Err(StartFailure::Setup(what, errno)) => Err(fail(format!("{what}: {}", Error::from_errno(errno)))),
        Err(StartFailure::System(e)) => Err(e),
        Err(StartFailure::Interrupted) => Err(Error::new("interrupted").with_exit(Exit::Interrupted)),
    }
}

/// Runs every clean-up command, even where one fails: the first failure is told.
///
/// # Errors
/// As [`run_hook`].
pub fn run_each(what: &str, list: &HookList, commands: usize, timeout_ns: Option<u64>) -> Result<()> {
    let hooks = (0..commands).filter_map(|arm| list.for_arm(arm));
    hooks.map(|c| run_hook(what, c, timeout_ns)).fold(Ok(()), Result::and)
}

/// Runs the set-up command of each of `commands` commands.
///
/// # Errors
/// As [`run_hook`].
pub fn run_once_each(what: &str, list: &HookList, commands: usize, timeout_ns: Option<u64>) -> Result<()> {
    (0..commands).filter_map(|arm| list.for_arm(arm)).try_for_each(|c| run_hook(what, c, timeout_ns))
}

/// A sampler that does what has to be done around each start.
pub struct HookedSampler<'a> {
    /// What makes the starts.
    pub inner: ProcessSampler<'a>,
    /// Commands around them.
    pub hooks: &'a Hooks,
    /// How many arms are commands; those behind them are the control.
    pub commands: usize,
    /// Time limit of a hook.
    pub timeout_ns: Option<u64>,
    /// Files whose pages are dropped before each start of an arm.
    pub evict: Vec<Vec<PathBuf>>,
    /// What that achieved, by arm.
    pub evicted: Vec<Evicted>,
}

impl HookedSampler<'_> {
    fn anything_between(&self) -> bool {
        !self.hooks.prepare.is_empty() || !self.hooks.conclude.is_empty() || !self.evict.is_empty()
    }

    fn before(&mut self, arm: usize) -> Result<(), StartFailure> {
        if let Some(c) = self.hooks.prepare.for_arm(arm).filter(|_| arm < self.commands) {
            run_hook("prepare", c, self.timeout_ns)?;
        }
        // The throw-away start goes before pages are dropped: it would read nothing of theirs back, but time passes.
        self.inner.start(self.commands)?;
        for path in self.evict.get(arm).into_iter().flatten() {
            let done = page_cache::evict(path)?;
            if let Some(tally) = self.evicted.get_mut(arm) {
                tally.add(done);
            }
        }
        Ok(())
    }
}

impl Sampler for HookedSampler<'_> {
    fn start(&mut self, arm: usize) -> Result<RawStart, StartFailure> {
        if self.anything_between() {
            self.before(arm)?;
        }
        let raw = self.inner.start(arm)?;
        if let Some(c) = self.hooks.conclude.for_arm(arm).filter(|_| arm < self.commands) {
            run_hook("conclude", c, self.timeout_ns)?;
        }
        Ok(raw)
    }

    fn begin_round(&mut self) -> Result<(), StartFailure> {
        for command in self.hooks.setup_round.all() {
            run_hook("setup-round", command, self.timeout_ns)?;
        }
        if !self.hooks.setup_round.is_empty() {
            self.inner.start(self.commands)?;
        }
        Ok(())
    }

    fn now_ns(&self) -> u64 {
        self.inner.now_ns()
    }

    fn stderr(&self) -> &[u8] {
        self.inner.stderr()
    }
}
