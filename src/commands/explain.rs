//! `premain PROGRAM`: the main job, as a list of steps.

use std::ffi::OsString;

use super::common::Common;
use super::measuring::{MeasureOptions, measure};
use super::{probing, program};
use crate::error::{Error, Exit, Result};
use crate::facts::{Format, LinkFacts};
use crate::measure::command::Command;
use crate::output::Output;
use crate::report::explain::{Explained, Had};
use crate::report::findings::findings;
use crate::report::{explain_json, explain_text};
use crate::trace::probe::Phases;
use crate::trace::study::Observer;
use crate::trace::summary::{self, Choice};

/// Options of `explain`.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// How to measure.
    pub measure: MeasureOptions,
    /// The program and its arguments.
    pub argv: Vec<OsString>,
}

/// Starts under trace that the phases are taken from.
const PROBE_STARTS: usize = 9;
/// Starts in which threads and system calls are counted.
const CENSUS_STARTS: u64 = 3;

/// Measures, inspects, traces and explains one program.
///
/// # Errors
/// Usage, a command that fails or cannot be executed, or trouble of ours.
pub fn run(options: &Options, common: &Common, output: &mut Output<'_>) -> Result<Exit> {
    if options.argv.is_empty() {
        return Err(Error::new("no program given; try 'premain --help'"));
    }
    // Measure first: what is read later would only add to the memory that fork has to copy.
    let commands = [options.measure.command(options.argv.clone())?];
    let measured = measure(&options.measure, &commands, output)?;

    // Then look at the files, without running anything.
    let files = program::chain(&commands[0].path)?;
    let closure = closure(options, files.last());

    // Then a few starts under trace, apart from the timed ones.
    output.progress("tracing");
    let limit = options.measure.timeout_ns;
    let phases = phases(&commands[0], limit);
    let mut bench = measured.record;
    probing::probe_all(&mut bench, &commands, CENSUS_STARTS, limit);
    output.progress("");

    // What all that says.
    let mut explained = Explained { files, closure, bench, phases, findings: Vec::new() };
    explained.findings = findings(&explained);
    if common.json {
        output.text(&explain_json::document(&explained).pretty())?;
    } else {
        let text = explain_text::text(&explained, output.style);
        output.text(&text)?;
    }
    Ok(measured.exit)
}

fn closure(options: &Options, program: Option<&LinkFacts>) -> Had<crate::loader::Closure> {
    let Some(facts) = program.filter(|f| f.format == Format::Elf) else {
        return Err("not an ELF program".to_string());
    };
    let o = &options.measure;
    program::closure(&facts.path, &o.environment(), o.cwd.as_deref()).map_err(|e| e.to_string())
}

/// The best back end that works observes a few starts.
fn phases(command: &Command, timeout_ns: Option<u64>) -> Had<Phases> {
    let observed = Observer::new(&command.program, &command.path, Choice::Quick, timeout_ns).and_then(|mut o| {
        for _ in 0..PROBE_STARTS {
            o.observe()?;
        }
        Ok(o.finish())
    });
    observed.map(|study| summary::phases(&study)).map_err(|e| e.to_string())
}
