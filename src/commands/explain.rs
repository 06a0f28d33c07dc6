//! `premain PROGRAM`: the main job, as a list of steps.

use std::ffi::OsString;

use super::common::Common;
use super::measuring::{MeasureOptions, measure};
use super::{probing, program};
use crate::error::{Error, Exit, Result};
use crate::facts::{Format, LinkFacts};
use crate::measure::command::Command;
use crate::output::Output;
use crate::record::bench::BenchRecord;
use crate::report::explain::{Explained, Had};
use crate::report::findings::findings;
use crate::report::{explain_json, explain_text};
use crate::sys::signal::interrupted;
use crate::trace::probe::{self, Phases};
use crate::trace::recording::NotTraced;
use crate::trace::stops::Tracer;

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
    let mut bench = measured.record;
    let phases = match measured.exit {
        Exit::Done => observe(&mut bench, &commands, options.measure.timeout_ns, output),
        _ => Err("interrupted".to_string()),
    };
    let exit = if interrupted() { Exit::Interrupted } else { measured.exit };

    // What all that says.
    let mut explained = Explained { files, closure, bench, phases, findings: Vec::new() };
    explained.findings = findings(&explained);
    if common.json {
        output.text(&explain_json::document(&explained).pretty())?;
    } else {
        let text = explain_text::text(&explained, output.style);
        output.text(&text)?;
    }
    Ok(exit)
}

fn observe(
    bench: &mut BenchRecord,
    commands: &[Command],
    timeout_ns: Option<u64>,
    output: &mut Output<'_>,
) -> Had<Phases> {
    output.progress("tracing");
    let phases = phases(&commands[0], timeout_ns);
    probing::probe_all(bench, commands, CENSUS_STARTS, timeout_ns);
    output.progress("");
    phases
}

fn closure(options: &Options, program: Option<&LinkFacts>) -> Had<crate::loader::Closure> {
    let Some(facts) = program.filter(|f| f.format == Format::Elf) else {
        return Err("not an ELF program".to_string());
    };
    let o = &options.measure;
    program::closure(&facts.path, &o.environment(), o.cwd.as_deref()).map_err(|e| e.to_string())
}

fn phases(command: &Command, timeout_ns: Option<u64>) -> Had<Phases> {
    let tracer = Tracer::new().map_err(|e| e.to_string())?;
    probe::phases(&tracer, &command.program, PROBE_STARTS, timeout_ns).map_err(|e| match e {
        NotTraced::Denied(why) => why,
        NotTraced::Failed(e) => e.to_string(),
    })
}
