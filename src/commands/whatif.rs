//! `premain whatif`: a copy of a program with another link setting, measured beside the original.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use super::common::Common;
use super::measuring::{MeasureOptions, measure};
use super::program;
use crate::elf;
use crate::elf::rewrite::{Change, rewritten};
use crate::error::{Context, Error, Exit, Result};
use crate::json::Json;
use crate::measure::command::Command;
use crate::model::files::{Scratch, write_executable};
use crate::output::Output;
use crate::record::bench::{BenchRecord, CommandRecord, MAIN_METRIC};
use crate::report::{bench_json, bench_text};
use crate::units::{time, time_difference};

/// One setting as asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Wish {
    /// A change that needs nothing else.
    Change(Change),
    /// DT_NEEDED by the paths that this host gives.
    AbsoluteNeeded,
    /// What only a linker can do: the setting, and why.
    Relink(&'static str, &'static str),
}

/// Options of `whatif`.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// How to measure.
    pub measure: MeasureOptions,
    /// What to change, in order.
    pub wishes: Vec<Wish>,
    /// The program and its arguments.
    pub argv: Vec<OsString>,
}

/// Rewrites a copy, checks that it does the same, measures both.
///
/// # Errors
/// Usage, a change that this file does not allow (with the reason), or a copy that does not behave as the original.
pub fn run(options: &Options, common: &Common, output: &mut Output<'_>) -> Result<Exit> {
    if options.argv.is_empty() {
        return Err(Error::new("no program given; try 'premain whatif --help'"));
    }
    if options.wishes.is_empty() {
        return Err(Error::new("no change given: such as --bind-now, and before PROGRAM; try 'premain whatif --help'"));
    }
    let original = options.measure.command(options.argv.clone())?;
    let bytes = changed(options, &original.path).context(|| original.path.to_string_lossy())?;

    let scratch = Scratch::new()?;
    // The same name, so that a program that looks at argv[0] or its own path finds what it expects.
    let name = original.path.file_name().map_or_else(|| OsString::from("program"), OsString::from);
    let place = |arm: &str, bytes: &[u8]| -> Result<Command> {
        let dir = scratch.path().join(arm);
        std::fs::create_dir(&dir).context(|| dir.to_string_lossy())?;
        let path = dir.join(&name);
        write_executable(&path, bytes)?;
        let mut command = options.measure.command(options.argv.clone())?;
        command.program.target = sys_target(&path)?;
        (command.name, command.path) = (format!("{arm} copy"), path);
        Ok(command)
    };
    // Against a copy, not the original itself, and both from the disk: how a file came into the page cache alone makes up
    // to a tenth of a start.
    let unchanged = place("unchanged", &std::fs::read(&original.path)?)?;
    let commands = [unchanged, place("changed", &bytes)?];
    scratch.settle();
    let measured = measure(&options.measure, &commands, output)?;
    let same = same_output(&measured.record);
    if common.json {
        let mut document = bench_json::document(&measured.record);
        document.push("whatif", Json::object([("same_output", Json::Bool(same))]));
        output.text(&document.pretty())?;
    } else {
        let text = bench_text::text(&measured.record, output.style);
        output.text(&text)?;
        output.text(&sentence(&measured.record))?;
    }
    if !same {
        return Err(Error::new("the changed copy wrote something else than the original: its time says nothing"));
    }
    Ok(measured.exit)
}

fn sys_target(path: &Path) -> Result<crate::sys::process::Target> {
    Ok(crate::sys::process::Target::Path(crate::sys::process::c_string(path.as_os_str())?))
}

fn changed(options: &Options, path: &Path) -> Result<Vec<u8>> {
    let mut bytes = std::fs::read(path)?;
    let facts = elf::link_facts(path, &bytes)?;
    let origin = |dirs: &[OsString]| dirs.iter().any(|d| d.as_bytes().windows(6).any(|w| w == b"ORIGIN"));
    if origin(&facts.runpath) || origin(&facts.rpath) {
        return Err(Error::new("it finds libraries beside itself ($ORIGIN): a copy elsewhere would not"));
    }
    for wish in &options.wishes {
        let change = match wish {
            Wish::Change(change) => change.clone(),
            Wish::AbsoluteNeeded => Change::AbsoluteNeeded(paths(options, path)?),
            Wish::Relink(flag, why) => return Err(Error::new(format!("{flag} is refused: {why}"))),
        };
        bytes = rewritten(&bytes, &change)?;
    }
    Ok(bytes)
}

fn paths(options: &Options, path: &Path) -> Result<Vec<(Vec<u8>, Vec<u8>)>> {
    let o = &options.measure;
    let closure = program::closure(path, &o.environment(), o.cwd.as_deref())?;
    let pair = |object: &crate::loader::Object| (object.name.clone(), object.path.as_os_str().as_bytes().to_vec());
    Ok(closure.objects.iter().skip(1).map(pair).collect())
}

fn copies(record: &BenchRecord) -> Option<(&CommandRecord, &CommandRecord)> {
    match record.commands.as_slice() {
        [original, copy] => Some((original, copy)),
        _ => None,
    }
}

/// Same bytes in every start, same ends. An output that differs from start to start in the original tells nothing.
fn same_output(record: &BenchRecord) -> bool {
    let Some((original, copy)) = copies(record) else { return false };
    let same = match (original.output, copy.output) {
        (Some(a), Some(b)) => !a.constant || (a.bytes == b.bytes && a.hash == b.hash && b.constant),
        _ => true,
    };
    same && original.exit_codes.keys().eq(copy.exit_codes.keys())
}

fn sentence(record: &BenchRecord) -> String {
    let Some(versus) = copies(record).and_then(|(_, copy)| copy.vs_reference.as_ref()) else { return String::new() };
    let p50 = |c: &CommandRecord| c.metric(MAIN_METRIC).map_or(0, |s| s.p50);
    let (before, after) = copies(record).map_or((0, 0), |(a, b)| (p50(a), p50(b)));
    format!(
        "measured: {} against {}, {} a start ({})\n",
        time(after as f64),
        time(before as f64),
        time_difference(versus.difference_ns as f64),
        versus.verdict.word()
    )
}
