//! `premain suite FILE`: cases × binaries in the same rounds, one table.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::common::Common;
use super::hooks::Hooks;
use super::measuring::{Extras, MeasureOptions, Measured, StdinChoice, measure_with};
use super::saving::Exports;
use super::suite_file::{Binary, Case, ExpectedOutput, Names, SuiteFile, parse};
use super::{baseline, probing};
use crate::error::{Context, Error, Exit, Result};
use crate::measure::command::Command;
use crate::output::Output;
use crate::record::baseline::Place;
use crate::record::suite::{Arm, OutputMark, SuiteRecord};
use crate::report::{export, suite_json, suite_text, tracking};
use crate::sys::output_hash::OutputHash;
use crate::sys::process::resolve;

/// Options of `suite`.
#[derive(Debug, Clone)]
pub struct Options {
    /// How to measure; where commands run is the suite's.
    pub measure: MeasureOptions,
    /// The suite.
    pub file: Option<PathBuf>,
    /// Only these cases; all where it is empty.
    pub cases: Vec<String>,
    /// Paths that stand for those of the file: name and path.
    pub paths: Vec<(OsString, OsString)>,
    /// Starts observed after the timed ones, for each case and binary.
    pub probes: u64,
    /// "not decided" ends with exit code 3.
    pub strict: bool,
    /// Every sample in the JSON document.
    pub samples: bool,
    /// Where to save what `check` compares with.
    pub save_baseline: Option<PathBuf>,
    /// Where to keep copies of the programs for it.
    pub keep_binaries: Option<PathBuf>,
    /// Files to write.
    pub exports: Exports<Export>,
}

/// What is written to a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Export {
    /// The document with every sample.
    Json,
    /// A row a sample.
    Csv,
    /// A table.
    Markdown,
    /// What github-action-benchmark reads.
    BenchmarkAction,
    /// What Bencher reads.
    Bencher,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            measure: MeasureOptions::default(),
            file: None,
            cases: Vec::new(),
            paths: Vec::new(),
            probes: 3,
            strict: false,
            samples: false,
            save_baseline: None,
            keep_binaries: None,
            exports: Exports::default(),
        }
    }
}

/// Runs a suite.
///
/// # Errors
/// A file that cannot be read or is wrong (with its line), a command that fails or cannot be executed, trouble of ours.
pub fn run(options: &Options, common: &Common, output: &mut Output<'_>) -> Result<Exit> {
    baseline::check_flags(options.save_baseline.as_deref(), options.keep_binaries.as_deref())?;
    let file = options.file.as_deref().context(|| "no suite given; try 'premain suite --help'")?;
    let plan = plan(options, file).context(|| file.to_string_lossy())?;
    let marked = match &options.save_baseline {
        Some(_) => baseline::mark(&plan.commands, options.keep_binaries.as_deref())?,
        None => Vec::new(),
    };
    let mut measured = measure_with(&plan.measure, &plan.extras, &plan.commands, output)?;
    probing::observe(&mut measured, &plan.commands, options.probes, plan.measure.timeout_ns, output);
    if let Some(file) = &options.save_baseline {
        baseline::save(&plan.measure, &mut measured, marked, plan.places, file, output)?;
    }
    let exit = measured.exit;
    let (record, arms) = suite_record(options, plan.name, plan.arms, measured)?;
    print(options, common, &record, &arms, output)?;
    if exit != Exit::Done {
        return Ok(exit);
    }
    same_outputs(&record, &plan.same)?;
    Ok(if options.strict && record.bench.is_undecided() { Exit::NotDecided } else { Exit::Done })
}

/// A suite, made ready.
struct Plan {
    name: String,
    measure: MeasureOptions,
    commands: Vec<Command>,
    extras: Extras,
    arms: Vec<Arm>,
    /// What a baseline keeps of each command's surroundings.
    places: Vec<Place>,
    /// Commands whose output must be the reference's.
    same: Vec<bool>,
}

fn plan(options: &Options, file: &Path) -> Result<Plan> {
    let text = std::fs::read(file)?;
    let text = String::from_utf8(text).map_err(|_| Error::new("is not valid UTF-8"))?;
    let suite = parse(&text)?;
    let dir = std::path::absolute(file)?.parent().unwrap_or(Path::new("/")).to_path_buf();
    if let Some(unknown) = options.cases.iter().find(|n| suite.cases.iter().all(|c| c.name != **n)) {
        return Err(Error::new(format!("has no case '{unknown}'")).context("--case"));
    }
    let mut measure = options.measure.clone();
    measure.runs = measure.runs.or(suite.rounds);
    measure.budget_ns = measure.budget_ns.or(suite.budget_ns);
    let mut plan = Plan {
        name: suite.name.clone().unwrap_or_else(|| file.display().to_string()),
        measure,
        commands: Vec::new(),
        extras: Extras::default(),
        arms: Vec::new(),
        places: Vec::new(),
        same: Vec::new(),
    };
    let paths = paths(options, &suite, &dir)?;
    for case in suite.cases.iter().filter(|c| options.cases.is_empty() || options.cases.contains(&c.name)) {
        add_case(&mut plan, &suite, case, &paths, &dir).context(|| format!("[case {}]", case.name))?;
    }
    Ok(plan)
}

/// The file of each binary, looked up once.
fn paths(options: &Options, suite: &SuiteFile, dir: &Path) -> Result<Vec<PathBuf>> {
    let known = |name: &OsString| suite.binaries.iter().any(|b| name.to_str() == Some(&b.name));
    if let Some((name, _)) = options.paths.iter().find(|(name, _)| !known(name)) {
        return Err(Error::new(format!("has no binary '{}'", name.to_string_lossy())).context("--binary"));
    }
    let path_of = |b: &Binary| {
        let given = options.paths.iter().rev().find(|(name, _)| name.to_str() == Some(&b.name));
        // What is given on the command line is taken from where we are, what the file says from where it is.
        let path = match given {
            Some((_, path)) => PathBuf::from(path),
            None if b.path.contains('/') => dir.join(b.path.replace("{dir}", &dir.to_string_lossy())),
            None => PathBuf::from(&b.path),
        };
        resolve(path.as_os_str(), std::env::var_os("PATH").as_deref()).context(|| format!("[binary {}]", b.name))
    };
    suite.binaries.iter().map(path_of).collect()
}

fn add_case(plan: &mut Plan, suite: &SuiteFile, case: &Case, paths: &[PathBuf], dir: &Path) -> Result<()> {
    let all: Vec<usize> = (0..suite.binaries.len()).collect();
    let binaries = if case.binaries.is_empty() { &all } else { &case.binaries };
    let first = plan.commands.len();
    let reference = binaries.iter().position(|b| *b == suite.reference).unwrap_or(0);
    for &b in binaries {
        let (Some(binary), Some(path)) = (suite.binaries.get(b), paths.get(b)) else { continue };
        let names = Names { bin: path, name: &binary.name, dir };
        let o = surroundings(plan, case, binary, &names);
        let mut command = o.command(names.words(&case.command)?)?;
        command.name = format!("{} / {}", case.name, binary.name);
        plan.commands.push(command);
        plan.arms.push(Arm { case: case.name.clone(), binary: binary.name.clone() });
        plan.extras.accepted.push(case.exit.clone());
        plan.extras.references.push(first + reference);
        plan.extras.expected_output.push(match &case.output {
            ExpectedOutput::File(file) => {
                let path = names.path(file);
                let bytes = std::fs::read(&path).context(|| format!("output {}", path.display()))?;
                Some((bytes.len() as u64, OutputHash::of(&bytes)))
            }
            _ => None,
        });
        plan.same.push(case.output == ExpectedOutput::Same);
        let hooks = hook_lines(case, &names);
        add_hooks(&mut plan.extras.hooks, &hooks, &o, dir)?;
        plan.places.push(Place { hooks_cwd: Some(dir.to_path_buf()), ..baseline::place(&o, &[], hooks)? });
    }
    Ok(())
}

/// The options that put a command where its case wants it.
fn surroundings(plan: &Plan, case: &Case, binary: &Binary, names: &Names<'_>) -> MeasureOptions {
    let filled = |(name, value): &(String, String)| (OsString::from(name), names.fill(value));
    MeasureOptions {
        env: binary.env.iter().chain(&case.env).map(filled).collect(),
        cwd: case.cwd.as_ref().map(|dir| names.path(dir)),
        cwd_made_later: case.hooks.iter().any(|(flag, _)| flag.starts_with("setup")),
        stdin: case.stdin.as_ref().map_or(StdinChoice::Null, |file| StdinChoice::File(names.path(file))),
        accepted: case.exit.clone(),
        ..plan.measure.clone()
    }
}

/// The hooks of a case with all braces filled in, quoted so that they split into the same words again.
fn hook_lines(case: &Case, names: &Names<'_>) -> Vec<(String, OsString)> {
    let line = |(flag, line): &(&'static str, String)| {
        // Filled in word by word, so that a path with blanks stays one word.
        let words = names.words(line).unwrap_or_else(|_| vec![OsString::from(line)]);
        let quoted: Vec<OsString> = words.iter().map(quote).collect();
        (flag.to_string(), quoted.join(std::ffi::OsStr::new(" ")))
    };
    case.hooks.iter().map(line).collect()
}

/// A word in single quotes, its own ones freed.
fn quote(word: &OsString) -> OsString {
    use std::os::unix::ffi::OsStringExt;
    let mut out = vec![b'\''];
    for b in word.as_bytes() {
        match b {
            b'\'' => out.extend(b"'\\''"),
            b => out.push(*b),
        }
    }
    out.push(b'\'');
    OsString::from_vec(out)
}

/// Hooks run in the suite's directory, with the variables of their case: the working directory of the case may be what
/// they make.
fn add_hooks(hooks: &mut Hooks, lines: &[(String, OsString)], o: &MeasureOptions, dir: &Path) -> Result<()> {
    let o =
        MeasureOptions { cwd: Some(dir.to_path_buf()), stdin: StdinChoice::Null, cwd_made_later: false, ..o.clone() };
    hooks.push_arm("", &o, |flag| lines.iter().find(|(f, _)| f == flag).map(|(_, line)| line))
}

fn suite_record(
    options: &Options,
    name: String,
    arms: Vec<Arm>,
    mut measured: Measured,
) -> Result<(SuiteRecord, export::Arms)> {
    let needs = options.samples || options.exports.any(|e| matches!(e, Export::Json | Export::Csv));
    let samples = if needs { export::arms(&measured.record, &mut measured.log)? } else { Vec::new() };
    Ok((SuiteRecord { name, arms, bench: measured.record }, samples))
}

fn print(
    options: &Options,
    common: &Common,
    record: &SuiteRecord,
    samples: &export::Arms,
    output: &mut Output<'_>,
) -> Result<()> {
    let file = |what| match what {
        Export::Json => suite_json::with_samples(suite_json::document(record), samples).pretty(),
        Export::Csv => export::csv(&record.bench, samples),
        Export::Markdown => suite_text::markdown(record),
        Export::BenchmarkAction => tracking::benchmark_action(&tracking::of_bench(&record.bench)).pretty(),
        Export::Bencher => tracking::bencher(&tracking::of_bench(&record.bench)).pretty(),
    };
    let document = || {
        let d = suite_json::document(record);
        if options.samples { suite_json::with_samples(d, samples) } else { d }
    };
    options.exports.write(common, output, file, document, |style| suite_text::text(record, style))
}

/// Where a case says that all must write the same, they must.
fn same_outputs(record: &SuiteRecord, same: &[bool]) -> Result<()> {
    for ((arm, command), same) in record.rows().zip(same) {
        let mark = record.output_mark(command);
        if *same && matches!(mark, Some(OutputMark::Differs | OutputMark::Varies)) {
            let e = Error::new("its standard output is not the reference's, or not the same each time (output = same)");
            return Err(e.context(format!("{} / {}", arm.case, arm.binary)).with_exit(Exit::CommandFailed));
        }
    }
    Ok(())
}
