//! Why a run ended before it was done, as the error that its user reads.

use super::files;
use super::measuring::{Accepted, MeasureOptions};
use crate::error::{Error, Exit};
use crate::facts::Fact;
use crate::measure::command::Command;
use crate::measure::runner::Stop;
use crate::sys;
use crate::sys::process::ArgumentSizes;
use crate::sys::wait::signal_name;
use crate::units;

/// The error of a run that `stop` ended after so many complete rounds.
pub(super) fn error(stop: Stop, rounds: u64, options: &MeasureOptions, commands: &[Command]) -> Error {
    let name = |arm: usize| commands.get(arm).map_or("control", |c| c.name.as_str());
    match stop {
        Stop::Interrupted => Error::new("interrupted before a round was complete").with_exit(Exit::Interrupted),
        Stop::System(e) => e,
        Stop::Exec(arm, errno) => exec(errno, rounds, commands.get(arm)).context(name(arm)),
        Stop::Setup(arm, what, errno) => Error::from_errno(errno).context(what).context(name(arm)),
        Stop::TimedOut(arm, stopped_by) => {
            let limit = units::time(options.timeout_ns.unwrap_or(0) as f64);
            let stopped = stopped_by.map_or(String::new(), stopped);
            let e = Error::new(format!("still running after {limit} (--timeout sets the limit){stopped}"));
            e.context(name(arm)).with_exit(Exit::TimedOut)
        }
        Stop::Refused(arm, why, stderr) => {
            let said = stderr.lines().find(|l| !l.trim().is_empty());
            let said = said.map_or(String::new(), |l| format!("; it said: {}", l.trim()));
            let hint = if options.accepted == Accepted::Success { " (-i accepts failures)" } else { "" };
            let e = Error::new(format!("{why} in round {}{said}{hint}", rounds + 1));
            e.context(name(arm)).with_exit(Exit::CommandFailed)
        }
    }
}

fn stopped(signal: i32) -> String {
    let name = signal_name(signal);
    // It is in a process group of its own, so that a time limit reaches all of it: to the terminal, the background.
    let terminal = if name.starts_with("SIGTT") { ", since it wants our terminal, which it is not given" } else { "" };
    format!("; it was stopped by {name}{terminal}")
}

/// An exec that the kernel refused: our error, never a fast start.
fn exec(errno: i32, rounds: u64, command: Option<&Command>) -> Error {
    let why = match (errno, command) {
        (sys::ENOEXEC, _) => {
            "Exec format error (no program for this machine, or a script without a #! line: no shell is tried)"
                .to_string()
        }
        (sys::E2BIG, Some(c)) => format!("{}: {}", Error::from_errno(errno), sizes(&c.program.argument_sizes())),
        (sys::ENOENT, Some(c)) => missing(c).unwrap_or_else(|| Error::from_errno(errno).to_string()),
        _ => Error::from_errno(errno).to_string(),
    };
    let what =
        if rounds > 0 { format!("cannot execute in round {}", rounds + 1) } else { "cannot execute".to_string() };
    Error::new(why).context(what).with_exit(Exit::CommandFailed)
}

fn sizes(s: &ArgumentSizes) -> String {
    let limit = s.limit_bytes.map_or(String::new(), |n| format!("; the system takes {} in all", units::bytes(n)));
    format!(
        "{} of arguments and {} of environment, the longest string {}{limit}",
        units::bytes(s.arguments_bytes),
        units::bytes(s.environment_bytes),
        units::bytes(s.longest_bytes)
    )
}

/// "No such file" of a file that is there is said of its interpreter or loader.
fn missing(command: &Command) -> Option<String> {
    let interp = match files::facts(&command.path).ok()?.interp {
        Fact::Value(path) => path,
        _ => return None,
    };
    (!interp.exists()).then(|| format!("its interpreter {} is missing", interp.display()))
}
