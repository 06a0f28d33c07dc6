//! `premain PROGRAM`: the main job, as a list of steps.

use std::collections::HashMap;
use std::ffi::OsString;
use std::path::Path;

use super::calibrate::effort;
use super::common::Common;
use super::measuring::{MeasureOptions, measure};
use super::{probing, program};
use crate::elf::{self, Holders};
use crate::error::{Error, Exit, Result};
use crate::facts::{Format, LinkFacts};
use crate::loader::files::Files;
use crate::loader::host::Host;
use crate::loader::{Assume, Closure};
use crate::measure::command::Command;
use crate::model::check::check;
use crate::model::parts::by_phase;
use crate::model::predict::predict;
use crate::model::savings::savings;
use crate::model::store::Model;
use crate::output::Output;
use crate::report::accounting::Accounted;
use crate::report::explain::{Explained, Had};
use crate::report::findings::findings;
use crate::report::trace::{TracedCommand, predictions};
use crate::report::{explain_json, explain_text};
use crate::sys::signal::interrupted;
use crate::trace::study::Observer;
use crate::trace::summary::{Choice, Study, summary};

/// Options of `explain`.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// How to measure.
    pub measure: MeasureOptions,
    /// The program and its arguments.
    pub argv: Vec<OsString>,
}

/// Observed starts that the phases are taken from.
const PROBE_STARTS: usize = 11;
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
        Exit::Done => {
            output.progress("tracing");
            let phases = observe(options, &commands[0], &closure);
            probing::probe_all(&mut bench, &commands, CENSUS_STARTS, options.measure.timeout_ns);
            output.progress("");
            phases
        }
        _ => Err("interrupted".to_string()),
    };
    let exit = if interrupted() { Exit::Interrupted } else { measured.exit };

    // Then the host model's account of the way to the entry point, beside a measurement of just that.
    output.progress("predicting");
    let mut accounted = accounted(options, files.last(), &closure);
    if let (Ok(accounted), Ok(traced)) = (&mut accounted, &phases) {
        accounted.cpuids = traced.study.cpuid.map(|c| c.executed);
    }
    output.progress("");

    // What all that says.
    let mut explained = Explained { files, closure, bench, phases, accounted, findings: Vec::new() };
    explained.findings = findings(&explained);
    if common.json {
        output.text(&explain_json::document(&explained).pretty())?;
    } else {
        let text = explain_text::text(&explained, output.style);
        output.text(&text)?;
    }
    Ok(exit)
}

fn closure(options: &Options, program: Option<&LinkFacts>) -> Had<Closure> {
    let Some(facts) = program.filter(|f| f.format == Format::Elf) else {
        return Err("not an ELF program".to_string());
    };
    let o = &options.measure;
    let assume = Assume::default();
    program::closure_assuming(&facts.path, &o.environment(), o.cwd.as_deref(), assume).map_err(|e| e.to_string())
}

/// Time for measuring a copy that exits at its entry point.
const ACCOUNT_BUDGET_NS: u64 = 500_000_000;

fn accounted(options: &Options, program: Option<&LinkFacts>, closure: &Had<Closure>) -> Had<Accounted> {
    let (Some(program), Ok(closure)) = (program, closure) else { return Err("no ELF program to predict".to_string()) };
    let model = Model::named(None).map_err(|e| e.to_string())?;
    let prediction = predict(&model, closure, &Host).map_err(|e| e.to_string())?;
    let checked = check(&model, std::slice::from_ref(&program.path), effort(ACCOUNT_BUDGET_NS), &mut |_, _| {});
    let (measured_ns, drift) = match checked {
        Ok(c) => {
            let why = || c.skipped.first().map_or_else(|| "unknown".to_string(), |(_, why)| why.clone());
            (c.programs.first().map(|p| p.measured_ns).ok_or_else(why), Some(c.drift))
        }
        Err(e) => (Err(e.to_string()), None),
    };
    let o = &options.measure;
    let recount = |assume| program::closure_assuming(&program.path, &o.environment(), o.cwd.as_deref(), assume).ok();
    let savings = savings(&model, closure, program, &prediction, holders(&program.path).as_ref(), &recount);
    let phases = model.family(prediction.family).and_then(|f| by_phase(f, &prediction));
    Ok(Accounted { prediction, phases, savings, measured_ns, drift, cpuid_ns: model.cpuid_ns, cpuids: None })
}

/// What holds the pages that the program's relocations write; it was read before, so that an error now is a race.
fn holders(path: &Path) -> Option<Holders> {
    let bytes = Host.open(path).ok()?.bytes.ok()?;
    elf::holders(path, bytes.as_ref().as_ref()).ok()
}

/// Observes some starts by the best means that works here.
fn observe(options: &Options, command: &Command, closure: &Had<Closure>) -> Had<TracedCommand> {
    let seen = || -> Result<Study> {
        let limit = options.measure.timeout_ns;
        let mut observer = Observer::new(&command.program, &command.path, Choice::Quick, limit)?;
        for _ in 0..PROBE_STARTS {
            observer.observe()?;
        }
        Ok(observer.finish())
    };
    let study = seen().map_err(|e| e.to_string())?;
    Ok(TracedCommand {
        name: command.name.clone(),
        argv: command.argv.clone(),
        path: command.path.clone(),
        summary: summary(&study),
        study,
        predicted: closure.as_ref().map_or_else(|_| HashMap::new(), predictions),
    })
}
