//! Commands around the timed ones, and what else is done before a start: none of it inside a timed window.
//!
//! Whatever runs between two starts cools caches and lets the processor doze: the next start is slower for it. So
//! where anything ran, one throw-away start of the control goes first, before every arm alike, the control included.

use std::path::PathBuf;

use crate::error::{Error, Exit, Result};
use crate::measure::command::Command;
use crate::measure::sampler::{ProcessSampler, Sampler};
use crate::sys::page_cache::{self, Evicted};
use crate::sys::start::{RawStart, StartFailure, StartOptions, Starter, Stdout};

/// Commands around the timed ones; each list is empty, holds one for all, or one for each command.
#[derive(Debug, Default)]
pub struct Hooks {
    /// Once before a command's first start.
    pub setup: Vec<Command>,
    /// Before each of its starts.
    pub prepare: Vec<Command>,
    /// After each of its starts.
    pub conclude: Vec<Command>,
    /// Once after its last start.
    pub cleanup: Vec<Command>,
}

fn for_arm(list: &[Command], arm: usize) -> Option<&Command> {
    list.get(if list.len() == 1 { 0 } else { arm })
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

/// Runs the clean-up commands, all of them even where one fails: the first failure is told.
///
/// # Errors
/// As [`run_hook`].
pub fn run_each(what: &str, list: &[Command], commands: usize, timeout_ns: Option<u64>) -> Result<()> {
    let hooks = (0..commands).filter_map(|arm| for_arm(list, arm));
    hooks.map(|c| run_hook(what, c, timeout_ns)).fold(Ok(()), Result::and)
}

/// Runs the set-up commands, one for each of `commands` commands.
///
/// # Errors
/// As [`run_hook`].
pub fn run_once_each(what: &str, list: &[Command], commands: usize, timeout_ns: Option<u64>) -> Result<()> {
    (0..commands).filter_map(|arm| for_arm(list, arm)).try_for_each(|c| run_hook(what, c, timeout_ns))
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
        if let Some(c) = for_arm(&self.hooks.prepare, arm).filter(|_| arm < self.commands) {
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
        if let Some(c) = for_arm(&self.hooks.conclude, arm).filter(|_| arm < self.commands) {
            run_hook("conclude", c, self.timeout_ns)?;
        }
        Ok(raw)
    }

    fn now_ns(&self) -> u64 {
        self.inner.now_ns()
    }

    fn stderr(&self) -> &[u8] {
        self.inner.stderr()
    }
}
