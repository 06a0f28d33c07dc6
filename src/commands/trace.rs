//! `premain trace`: the timeline of a start, as a list of steps.

use std::collections::HashMap;
use std::ffi::OsString;
use std::path::PathBuf;

use super::common::Common;
use super::measuring::{MeasureOptions, split_line};
use super::program;
use super::saving::write_file;
use crate::error::{Error, Exit, Result};
use crate::measure::command::Command;
use crate::output::Output;
use crate::report::trace::text::Detail;
use crate::report::trace::{TraceReport, TracedCommand, chrome, json, predictions, svg, text};
use crate::sys::signal;
use crate::trace::study::Observer;
use crate::trace::summary::{Choice, Study, differences, summary};

/// Options of `trace`.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// How the commands are set up, how often they start, which ends are accepted.
    pub measure: MeasureOptions,
    /// Which back end.
    pub backend: Choice,
    /// A second command, quoted, to be observed beside the first.
    pub versus: Option<OsString>,
    /// What is printed in full.
    pub detail: Detail,
    /// Where the trace-event file goes.
    pub export_trace: Option<PathBuf>,
    /// Where the picture goes.
    pub export_svg: Option<PathBuf>,
    /// The program and its arguments.
    pub argv: Vec<OsString>,
}

/// Starts that are observed, unless a number is asked for.
const STARTS: u64 = 11;

/// Observes one command, or two side by side, and prints where the time of their starts goes.
///
/// # Errors
/// Usage, a command that cannot be executed or observed, or trouble of ours.
pub fn run(options: &Options, common: &Common, output: &mut Output<'_>) -> Result<Exit> {
    if options.argv.is_empty() {
        return Err(Error::new("no program given; try 'premain trace --help'"));
    }
    let mut commands = vec![options.measure.command(options.argv.clone())?];
    if let Some(line) = &options.versus {
        commands.push(options.measure.command(split_line(line)?)?);
    }

    // Observe first: what is read later would only add to the memory that fork has to copy.
    signal::catch_interrupts()?;
    let studies = observe(options, &commands, output)?;
    output.progress("");

    // Sum up, and read in the files what the loader had to do.
    let report = report(options, commands, studies);
    let failed = report.commands.iter().find(|c| !options.measure.accepted.takes(c.study.status));
    let failure = failed.map(|c| format!("{}: {} (-i accepts failures)", c.name, c.study.status));

    // Say it.
    if let Some(path) = &options.export_trace {
        write_file(path, &chrome::document(&report).to_string(), output)?;
    }
    if let Some(path) = &options.export_svg {
        write_file(path, &svg::document(&report), output)?;
    }
    if common.json {
        output.text(&json::document(&report, options.detail.list).pretty())?;
    } else {
        let page = text::text(&report, options.detail, output.style);
        output.text(&page)?;
    }
    match failure {
        Some(why) => {
            output.warn(&why);
            Ok(Exit::CommandFailed)
        }
        None => Ok(Exit::Done),
    }
}

/// Rounds of one start of each command, in turn forwards and backwards.
fn observe(options: &Options, commands: &[Command], output: &mut Output<'_>) -> Result<Vec<Study>> {
    let in_command = |c: &Command, e: Error| e.context(c.name.clone());
    let mut observers = Vec::with_capacity(commands.len());
    for c in commands {
        output.progress(&format!("tracing {}", c.name));
        let observer = Observer::new(&c.program, &c.path, options.backend, options.measure.timeout_ns);
        observers.push(observer.map_err(|e| in_command(c, e))?);
    }
    let rounds = options.measure.runs.unwrap_or(STARTS);
    for round in 0..rounds {
        output.progress(&format!("tracing: {round} of {rounds} starts"));
        let mut order: Vec<usize> = (0..observers.len()).collect();
        if round % 2 == 1 {
            order.reverse();
        }
        for i in order {
            if let (Some(o), Some(c)) = (observers.get_mut(i), commands.get(i)) {
                o.observe().map_err(|e| in_command(c, e))?;
            }
        }
    }
    Ok(observers.into_iter().map(Observer::finish).collect())
}

fn report(options: &Options, commands: Vec<Command>, studies: Vec<Study>) -> TraceReport {
    let differences = match &studies[..] {
        [a, b] => differences(a, b),
        _ => Vec::new(),
    };
    let commands = commands.into_iter().zip(studies).map(|(c, study)| {
        let o = &options.measure;
        let program = study.hops.last().unwrap_or(&c.path);
        // Without a prediction the page lacks a column, no more.
        let closure = program::closure(program, &o.environment(), o.cwd.as_deref());
        let predicted = closure.map_or_else(|_| HashMap::new(), |closure| predictions(&closure));
        TracedCommand { name: c.name, argv: c.argv, path: c.path, summary: summary(&study), study, predicted }
    });
    TraceReport { commands: commands.collect(), differences }
}
