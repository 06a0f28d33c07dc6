//! `premain bench`: measure commands, print what was recorded, write what was asked for.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use super::common::Common;
use super::hooks::{self, HookList, Hooks};
use super::measuring::{Extras, MeasureOptions, Measured, measure_with, split_line};
use super::saving::Exports;
use super::{baseline, probing, program};
use crate::error::{Context, Error, Exit, Result};
use crate::json::Json;
use crate::measure::command::Command;
use crate::output::Output;
use crate::record::bench::BenchRecord;
use crate::report::{bench_json, bench_text, export};
use crate::sys::output_hash::OutputHash;

/// Options of `bench`.
#[derive(Debug, Clone)]
pub struct Options {
    /// How to measure.
    pub measure: MeasureOptions,
    /// Quoted commands.
    pub lines: Vec<OsString>,
    /// One command, verbatim.
    pub argv: Option<Vec<OsString>>,
    /// Names, in the order of the commands.
    pub names: Vec<String>,
    /// Which command is the reference, from 1.
    pub reference: usize,
    /// Variables of single commands: number from 1, name, value.
    pub env_for: Vec<(usize, OsString, OsString)>,
    /// Commands around the starts, by the name of their flag: one for all commands, or one for each.
    pub hooks: Vec<(&'static str, OsString)>,
    /// Drop the pages of a command's files before each start.
    pub cold: bool,
    /// End each start at its first byte.
    pub until_first_byte: bool,
    /// All commands must write the same as the reference.
    pub expect_same_output: bool,
    /// Every start must write what this file holds.
    pub expect_output: Option<PathBuf>,
    /// Starts observed after the timed ones, for each command.
    pub probes: u64,
    /// "not decided" ends with exit code 3.
    pub strict: bool,
    /// Every sample in the JSON document.
    pub samples: bool,
    /// Show the distribution of each command.
    pub plot: bool,
    /// Facts that the user adds to the record.
    pub notes: Vec<(OsString, OsString)>,
    /// Where to save what `check` compares with.
    pub save_baseline: Option<PathBuf>,
    /// Where to keep copies of the programs for it.
    pub keep_binaries: Option<PathBuf>,
    /// Files to write: the artifact, a row a sample, a table.
    pub exports: Exports<Export>,
}

/// What is written to a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Export {
    /// The artifact: host, plan, every sample.
    Json,
    /// A row a sample.
    Csv,
    /// A table.
    Markdown,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            measure: MeasureOptions::default(),
            lines: Vec::new(),
            argv: None,
            names: Vec::new(),
            reference: 1,
            env_for: Vec::new(),
            hooks: Vec::new(),
            cold: false,
            until_first_byte: false,
            expect_same_output: false,
            expect_output: None,
            probes: 3,
            strict: false,
            samples: false,
            plot: false,
            notes: Vec::new(),
            save_baseline: None,
            keep_binaries: None,
            exports: Exports::default(),
        }
    }
}

/// Measures and prints.
///
/// # Errors
/// Usage, a command that fails or cannot be executed, or trouble of ours.
pub fn run(options: &Options, common: &Common, output: &mut Output<'_>) -> Result<Exit> {
    baseline::check_flags(options.save_baseline.as_deref(), options.keep_binaries.as_deref())?;
    let commands = commands(options)?;
    let extras = extras(options, &commands)?;
    let marked = match &options.save_baseline {
        Some(_) => baseline::mark(&commands, options.keep_binaries.as_deref())?,
        None => Vec::new(),
    };
    let mut measured = measure_with(&options.measure, &extras, &commands, output)?;
    probing::observe(&mut measured, &commands, options.probes, options.measure.timeout_ns, output);
    if let Some(file) = &options.save_baseline {
        save_baseline(options, &mut measured, marked, file, output)?;
    }
    print(options, common, &mut measured, output)?;
    verdict(options, &measured)
}

fn save_baseline(
    options: &Options,
    measured: &mut Measured,
    marked: Vec<baseline::Marked>,
    file: &Path,
    output: &mut Output<'_>,
) -> Result<()> {
    let place = |i: usize| {
        let own = options.env_for.iter().filter(|(n, ..)| *n == i + 1);
        let own: Vec<_> = own.map(|(_, name, value)| (name.clone(), value.clone())).collect();
        baseline::place(&options.measure, &own, hook_lines(options, i))
    };
    let places = (0..marked.len()).map(place).collect::<Result<Vec<_>>>()?;
    baseline::save(&options.measure, measured, marked, places, file, output)
}

fn commands(options: &Options) -> Result<Vec<Command>> {
    let mut argvs = options.lines.iter().map(|l| split_line(l)).collect::<Result<Vec<_>>>()?;
    argvs.extend(options.argv.clone());
    if argvs.is_empty() {
        return Err(Error::new("no command given; try 'premain bench --help'"));
    }
    let count = argvs.len();
    let too_many = |flag: &str, n: usize| Error::new(format!("{n} is more than the {count} commands")).context(flag);
    if options.names.len() > count {
        return Err(too_many("--name", options.names.len()));
    }
    if options.reference > count {
        return Err(too_many("--reference", options.reference));
    }
    if let Some((n, ..)) = options.env_for.iter().find(|(n, ..)| *n > count) {
        return Err(too_many("--env-for", *n));
    }
    let mut commands = Vec::with_capacity(count);
    for (i, argv) in argvs.into_iter().enumerate() {
        let own = options.env_for.iter().filter(|(n, ..)| *n == i + 1);
        let own: Vec<_> = own.map(|(_, name, value)| (name.clone(), value.clone())).collect();
        let mut command = options.measure.command_with(argv, &own)?;
        if let Some(name) = options.names.get(i) {
            command.name.clone_from(name);
        }
        commands.push(command);
    }
    Ok(commands)
}

/// The lines that were given for one flag.
fn lines_of<'a>(options: &'a Options, flag: &str) -> Vec<&'a OsString> {
    options.hooks.iter().filter(|(f, _)| *f == flag).map(|(_, line)| line).collect()
}

/// The hooks of command `i` as they were given, by the name of their flag.
fn hook_lines(options: &Options, i: usize) -> Vec<(String, OsString)> {
    let of = |flag: &str| {
        let lines = lines_of(options, flag);
        lines.get(if lines.len() == 1 { 0 } else { i }).map(|line| (*line).clone())
    };
    hooks::FLAGS.iter().filter_map(|flag| Some((flag.to_string(), of(flag)?))).collect()
}

fn hooks(options: &Options, commands: usize) -> Result<Hooks> {
    let mut hooks = Hooks::default();
    for (flag, list) in hooks.lists() {
        let (flag, lines) = (format!("--{flag}"), lines_of(options, flag));
        if lines.len() > 1 && lines.len() != commands {
            let n = lines.len();
            let why = format!("give it once for all commands or once for each: {n} times for {commands} commands");
            return Err(Error::new(why).context(flag));
        }
        let make = |line: &OsString| split_line(line).and_then(|argv| options.measure.command(argv)).context(|| &flag);
        *list = HookList::spread(lines.into_iter().map(make).collect::<Result<Vec<_>>>()?, commands);
    }
    Ok(hooks)
}

fn extras(options: &Options, commands: &[Command]) -> Result<Extras> {
    let n = commands.len();
    let hooks = hooks(options, n)?;
    let expected_output = match &options.expect_output {
        Some(path) => {
            let bytes = std::fs::read(path).context(|| format!("--expect-output {}", path.display()))?;
            vec![Some((bytes.len() as u64, OutputHash::of(&bytes))); n]
        }
        None => Vec::new(),
    };
    let evict =
        if options.cold { commands.iter().map(|c| files_of(&options.measure, c)).collect() } else { Vec::new() };
    Ok(Extras {
        hooks,
        evict,
        until_first_byte: options.until_first_byte,
        expected_output,
        reference: options.reference - 1,
        ..Extras::default()
    })
}

/// Every file that a start of the command maps, as far as that can be told from the files.
pub(super) fn files_of(options: &MeasureOptions, command: &Command) -> Vec<PathBuf> {
    let Ok(chain) = program::chain(&command.path) else { return vec![command.path.clone()] };
    let mut files: Vec<PathBuf> = chain.iter().map(|f| f.path.clone()).collect();
    let last = files.last().cloned().unwrap_or_default();
    if let Ok(closure) = program::closure(&last, &options.environment(), options.cwd.as_deref()) {
        files.extend(closure.objects.into_iter().map(|o| o.path).filter(|p| *p != last));
    }
    files
}

fn document(options: &Options, r: &BenchRecord) -> Json {
    let mut d = bench_json::document(r);
    let notes = options.notes.iter().map(|(k, v)| (k.to_string_lossy().into_owned(), Json::os(v)));
    d.push("notes", Json::object(notes));
    d
}

fn print(options: &Options, common: &Common, measured: &mut Measured, output: &mut Output<'_>) -> Result<()> {
    let needs_samples = options.samples || options.plot || options.exports.any(|e| e != Export::Markdown);
    let arms = if needs_samples { export::arms(&measured.record, &mut measured.log)? } else { Vec::new() };
    let r = &measured.record;
    let file = |what| match what {
        Export::Json => {
            let d = export::with_samples(document(options, r), &arms);
            export::with_hyperfine(d, r, &arms).pretty()
        }
        Export::Csv => export::csv(r, &arms),
        Export::Markdown => export::markdown(r),
    };
    let document = || {
        let d = document(options, r);
        if options.samples { export::with_samples(d, &arms) } else { d }
    };
    let text = |style| {
        let plots = if options.plot { bench_text::plots(r, &arms, style) } else { String::new() };
        bench_text::text(r, style) + &plots
    };
    options.exports.write(common, output, file, document, text)
}

/// The exit code: interrupted, output that differs, not decided under `--strict`.
fn verdict(options: &Options, measured: &Measured) -> Result<Exit> {
    let r = &measured.record;
    if measured.exit != Exit::Done {
        return Ok(measured.exit);
    }
    let reference = r.commands.get(r.setting.reference);
    if let (true, Some(expected)) = (options.expect_same_output, reference.and_then(|c| c.output)) {
        for c in &r.commands {
            let same = c.output.is_some_and(|o| {
                o.constant && expected.constant && (o.bytes, o.hash) == (expected.bytes, expected.hash)
            });
            if !same {
                let e = Error::new(
                    "its standard output is not the reference's, or not the same each time (--expect-same-output)",
                );
                return Err(e.context(c.name.as_str()).with_exit(Exit::CommandFailed));
            }
        }
    }
    Ok(if options.strict && r.is_undecided() { Exit::NotDecided } else { Exit::Done })
}

/// Reads `N:K=V`.
///
/// # Errors
/// A sentence for the parser.
pub fn parse_env_for(value: &OsStr) -> Result<(usize, OsString, OsString), String> {
    use std::os::unix::ffi::OsStrExt;
    let bad = || "expected N:NAME=VALUE".to_string();
    let bytes = value.as_bytes();
    let colon = bytes.iter().position(|b| *b == b':').ok_or_else(bad)?;
    let (number, rest) = bytes.split_at(colon);
    let number = std::str::from_utf8(number).ok().and_then(|n| n.parse().ok()).filter(|n| *n > 0).ok_or_else(bad)?;
    let rest = rest.get(1..).unwrap_or_default();
    let equals = rest.iter().position(|b| *b == b'=').filter(|at| *at > 0).ok_or_else(bad)?;
    let (name, value) = rest.split_at(equals);
    let os = |b: &[u8]| OsStr::from_bytes(b).to_os_string();
    Ok((number, os(name), os(value.get(1..).unwrap_or_default())))
}
