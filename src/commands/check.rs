//! `premain check`: a baseline's programs against what replaced them, in the same rounds.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use super::common::Common;
use super::hooks::Hooks;
use super::measuring::{Extras, MeasureOptions, Measured, measure_with, split_line};
use super::saving::Exports;
use super::{baseline, bench, counting, probing, program};
use crate::digest;
use crate::error::{Context, Error, Exit, Result};
use crate::json::Json;
use crate::measure::command::{Command, show_argv};
use crate::output::Output;
use crate::record::baseline::{Baseline, HostMark, StoredCommand};
use crate::record::bench::{METRICS, pairs_by_metric};
use crate::record::check::{
    Checked, DEFAULT_LIMIT, Evidence, GATES, GateMetric, OldProgram, Outcome, Row, confidence, is_suspect, judge,
    overall, paired,
};
use crate::record::counts::{Counts, Range};
use crate::record::results::{stored_runs, values_of_command};
use crate::report::{check_json, check_text, ci, tracking};
use crate::stat::paired::{log_ratios, ratio_interval};
use crate::stat::unpaired::normalised;
use crate::sys::host::Host;
use crate::sys::start::{Method, Stdout};

/// Options of `check`.
#[derive(Debug, Clone)]
pub struct Options {
    /// How to measure; where commands run is the baseline's.
    pub measure: MeasureOptions,
    /// The baseline.
    pub file: Option<PathBuf>,
    /// Candidates, quoted, in the baseline's order; none: the baseline's commands as they are now.
    pub lines: Vec<OsString>,
    /// One candidate, verbatim.
    pub argv: Option<Vec<OsString>>,
    /// What is gated, each with a limit of its own or none; empty: the time to the exit.
    pub gates: Vec<(GateMetric, Option<f64>)>,
    /// The increase of times that is allowed; none: what can be told from noise.
    pub max_slowdown: Option<f64>,
    /// "not decided" ends with exit code 3.
    pub strict: bool,
    /// Compare commands whose arguments differ, and stored samples of another host.
    pub allow_changed: bool,
    /// A regression that stored samples suggest fails too.
    pub accept_weak: bool,
    /// Starts observed after the timed ones, for each command.
    pub probes: u64,
    /// GitHub's annotations before the text.
    pub annotations: bool,
    /// Files to write.
    pub exports: Exports<Export>,
}

/// What is written to a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Export {
    /// The document of `--json`.
    Json,
    /// JUnit's XML.
    Junit,
    /// A table for a page.
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
            lines: Vec::new(),
            argv: None,
            gates: Vec::new(),
            max_slowdown: None,
            strict: false,
            allow_changed: false,
            accept_weak: false,
            probes: 3,
            annotations: false,
            exports: Exports::default(),
        }
    }
}

/// Checks.
///
/// # Errors
/// A baseline that cannot be read or used, a command that fails or cannot be executed, trouble of ours.
pub fn run(options: &Options, common: &Common, output: &mut Output<'_>) -> Result<Exit> {
    let file = options.file.as_deref().context(|| "no baseline given; try 'premain check --help'")?;
    let stored = read(file)?;
    let argvs = candidates(options, &stored).context(|| file.to_string_lossy())?;
    let arms = arms(options, file, &stored, argvs)?;
    let measure = manner(options, &stored).context(|| file.to_string_lossy())?;
    let mut measured = measure_with(&measure, &arms.extras, &arms.commands, output)?;
    probing::observe(&mut measured, &arms.commands, options.probes, measure.timeout_ns, output);
    let checked = checked(options, file, stored, &arms, &mut measured)?;
    print(options, common, &checked, &measured, output)?;
    Ok(if measured.exit == Exit::Done { exit(options, &checked) } else { measured.exit })
}

fn exit(options: &Options, checked: &Checked) -> Exit {
    let weakly = options.accept_weak && checked.rows.iter().any(Row::fails_weakly);
    match overall(&checked.rows) {
        Outcome::Regression => Exit::No,
        _ if weakly => Exit::No,
        Outcome::NotDecided if options.strict => Exit::NotDecided,
        _ => Exit::Done,
    }
}

fn read(file: &Path) -> Result<Baseline> {
    let bytes = std::fs::read(file).context(|| file.to_string_lossy())?;
    crate::record::baseline::read(&String::from_utf8_lossy(&bytes)).context(|| file.to_string_lossy())
}

/// The command line of each candidate: as given, or the baseline's own.
fn candidates(options: &Options, stored: &Baseline) -> Result<Vec<Vec<OsString>>> {
    let mut given = options.lines.iter().map(|l| split_line(l)).collect::<Result<Vec<_>>>()?;
    given.extend(options.argv.clone());
    if given.is_empty() {
        return Ok(stored.commands.iter().map(|c| c.argv.clone()).collect());
    }
    if given.len() != stored.commands.len() {
        let (n, m) = (given.len(), stored.commands.len());
        return Err(Error::new(format!("holds {m} commands, and {n} are given: give one for each, or none")));
    }
    for (argv, c) in given.iter().zip(&stored.commands) {
        if argv.get(1..) != c.argv.get(1..) && !options.allow_changed {
            let (then, now) = (show_argv(&c.argv), show_argv(argv));
            let why = "the arguments differ, so that a difference would say nothing of the program (--allow-changed)";
            return Err(Error::new(format!("{why}: '{then}' then, '{now}' now")));
        }
    }
    Ok(given)
}

/// How starts are made: as they were for the baseline.
fn manner(options: &Options, stored: &Baseline) -> Result<MeasureOptions> {
    let m = &stored.manner;
    let method = [Method::Fork, Method::Vfork].into_iter().find(|x| x.name() == m.method);
    let stdout = [Stdout::Pipe, Stdout::Null, Stdout::Pty].into_iter().find(|x| x.name() == m.stdout);
    Ok(MeasureOptions {
        method: method.context(|| format!("no start method {}", m.method))?,
        stdout: stdout.context(|| format!("no such stdout: {}", m.stdout))?,
        cpu: m.cpu.and_then(|n| usize::try_from(n).ok()),
        prime: m.prime,
        ..options.measure.clone()
    })
}

/// What is started: each command's old program where there is one, then the new one.
struct Arms {
    commands: Vec<Command>,
    extras: Extras,
    /// By stored command: where its options, its old and its new arm are.
    places: Vec<Placed>,
}

struct Placed {
    options: MeasureOptions,
    old: OldProgram,
    old_arm: Option<usize>,
    new_arm: usize,
}

fn arms(options: &Options, file: &Path, stored: &Baseline, argvs: Vec<Vec<OsString>>) -> Result<Arms> {
    let here = HostMark::of(&Host::find().facts());
    let mut arms = Arms { commands: Vec::new(), extras: Extras::default(), places: Vec::new() };
    arms.extras.until_first_byte = stored.manner.until_first_byte;
    let measure = manner(options, stored)?;
    for (c, argv) in stored.commands.iter().zip(argvs) {
        let o =
            baseline::options_for(&c.place, &measure).context(|| c.name.clone()).context(|| file.to_string_lossy())?;
        let old = find_old(c, file);
        let differs = stored.host.differences(&here);
        if let (OldProgram::Gone(why), Some(first), false) = (&old, differs.first(), options.allow_changed) {
            let why = format!(
                "{why}, and the stored samples are of another host ({first}): nothing can be compared (--allow-changed)"
            );
            return Err(Error::new(why).context(c.name.as_str()).context(file.to_string_lossy()));
        }
        let old_arm = old.path().map(|path| {
            let mut command = o.command_at(path.to_path_buf(), c.argv.clone(), &[])?;
            command.name = format!("{} (baseline)", c.name);
            push(&mut arms, command, &o, stored.manner.cold)
        });
        let old_arm = old_arm.transpose()?;
        let mut command = o.command(argv)?;
        command.name.clone_from(&c.name);
        let new_arm = push(&mut arms, command, &o, stored.manner.cold)?;
        hooks(&mut arms.extras.hooks, c, &o, old_arm.is_some())?;
        arms.extras.references.extend(old_arm.into_iter().chain([old_arm.unwrap_or(new_arm)]));
        arms.places.push(Placed { options: o, old, old_arm, new_arm });
    }
    Ok(arms)
}

fn push(arms: &mut Arms, command: Command, o: &MeasureOptions, cold: bool) -> Result<usize> {
    if cold {
        arms.extras.evict.push(bench::files_of(o, &command));
    }
    arms.extras.accepted.push(o.accepted.clone());
    arms.commands.push(command);
    Ok(arms.commands.len() - 1)
}

/// The hooks of a command, for its new program and, where it runs too, for the old one.
fn hooks(hooks: &mut Hooks, c: &StoredCommand, o: &MeasureOptions, has_old: bool) -> Result<()> {
    let o = MeasureOptions { cwd: c.place.hooks_cwd.clone(), cwd_made_later: false, ..o.clone() };
    hooks.push_arm("--", &o, |flag| c.place.hooks.iter().find(|(f, _)| f == flag).map(|(_, line)| line))?;
    if has_old {
        hooks.push_same_arm();
    }
    Ok(())
}

/// The file that the baseline measured, by its digest: the copy that was kept, one beside the baseline (it may have
/// been moved with its copies), or the program itself where it is still the same.
fn find_old(c: &StoredCommand, file: &Path) -> OldProgram {
    let is_it = |p: &Path| digest::of_file(p).is_ok_and(|hash| hash == c.sha256);
    if let Some(kept) = &c.kept {
        let beside = file.parent().unwrap_or(Path::new("."));
        let name = kept.file_name().unwrap_or_default();
        let dir = kept.parent().and_then(Path::file_name).unwrap_or_default();
        let candidates = [kept.clone(), beside.join(dir).join(name), beside.join(name)];
        if let Some(found) = candidates.into_iter().find(|p| is_it(p)) {
            return OldProgram::Kept(found);
        }
    }
    if is_it(&c.path) {
        return OldProgram::Unchanged(c.path.clone());
    }
    OldProgram::Gone(match &c.kept {
        Some(kept) if kept.exists() => format!("the copy {} is not what was measured", kept.display()),
        Some(kept) => format!("the copy {} is gone", kept.display()),
        None => format!("no copy of the program was kept (--keep-binaries), and {} has changed", c.path.display()),
    })
}

fn checked(options: &Options, file: &Path, stored: Baseline, arms: &Arms, measured: &mut Measured) -> Result<Checked> {
    let mut rows = Vec::new();
    let mut warnings = Vec::new();
    // The samples are read only now: before measuring they would have made us larger.
    let gates = arms.places.len() * options.gates.iter().filter(|(m, _)| m.field.is_some()).count().max(1);
    let needs_samples = arms.places.iter().any(|p| p.old_arm.is_none());
    let samples = if needs_samples { Some(Samples::read(file)?) } else { None };
    for (i, (placed, c)) in arms.places.iter().zip(&stored.commands).enumerate() {
        let now = counts_of(placed, Some(placed.new_arm), arms, measured);
        let before = counts_of(placed, placed.old_arm, arms, measured).unwrap_or_else(|| c.counts.clone());
        let now = now.unwrap_or_default();
        for metric in GATES {
            let asked = options.gates.iter().rev().find(|(m, _)| *m == metric);
            let by_default = options.gates.is_empty() && metric == GATES[0];
            let gated = asked.is_some() || by_default;
            let own_limit = asked.and_then(|(_, limit)| *limit);
            let row = match metric.field {
                Some(_) if gated => {
                    Some(time_row(metric, placed, c, samples.as_ref().map(|s| (s, i)), (measured, gates))?)
                }
                Some(_) => None,
                None => Some(count_row(metric, c, &before, &now)).filter(|r| gated || is_change(r)),
            };
            let Some(mut row) = row else { continue };
            row.gated = gated;
            row.limit = limit(options, metric, own_limit);
            rows.push(row);
        }
        warnings.extend(marks(placed, c));
    }
    let control = control_against_itself(measured, gates)?;
    judge(&mut rows, control);
    if rows.iter().any(|r| r.gated && r.metric.field.is_some() && is_suspect(control, r.limit)) {
        warnings.push(
            "the control's two starts of a round differ, by their place in it alone, as much as a regression would: no \
             time fails in this run"
                .to_string(),
        );
    }
    warnings.extend(run_marks(&stored, arms, &HostMark::of(&measured.record.host.facts)));
    warnings.dedup();
    let file = file.to_path_buf();
    let old = arms.places.iter().map(|p| p.old.clone()).collect();
    Ok(Checked { file, baseline: stored, old, rows, warnings, confidence: confidence(gates) })
}

/// The control's second start over its first, with the interval at the confidence of a failure.
fn control_against_itself(measured: &mut Measured, gates: usize) -> Result<Option<(f64, [f64; 2])>> {
    let first = measured.record.commands.len();
    let [a, b] = pairs_by_metric(&mut measured.log, [first, first + 1], METRICS[0].1)?;
    let ratios = log_ratios(&a, &b).values;
    let time = measured.record.noise.same_vs_same.as_ref().map_or(1.0, |c| c.correlation_time);
    let interval = ratio_interval(&ratios, time, confidence(gates));
    Ok(measured.record.noise.same_vs_same.as_ref().map(|c| c.ratio).zip(interval))
}

fn counts_of(placed: &Placed, arm: Option<usize>, arms: &Arms, measured: &Measured) -> Option<Counts> {
    let arm = arm?;
    let (command, record) = (arms.commands.get(arm)?, measured.record.commands.get(arm)?);
    Some(counting::counts(&placed.options, &command.path, record))
}

/// The increase that a row allows.
fn limit(options: &Options, metric: GateMetric, own: Option<f64>) -> f64 {
    match metric.field {
        Some(_) => own.or(options.max_slowdown).unwrap_or(DEFAULT_LIMIT),
        None => own.unwrap_or(0.0),
    }
}

fn empty_row(metric: GateMetric, c: &StoredCommand, evidence: Evidence) -> Row {
    Row {
        command: c.name.clone(),
        metric,
        before: None,
        now: None,
        evidence,
        limit: 0.0,
        gated: false,
        outcome: Outcome::NotDecided,
    }
}

fn count_row(metric: GateMetric, c: &StoredCommand, before: &Counts, now: &Counts) -> Row {
    let (before, now) = (before.get(metric.name), now.get(metric.name));
    let evidence = match (before, now) {
        (Some(before), Some(now)) => Evidence::Counted(before, now),
        (None, _) => Evidence::Missing("the baseline has no such figure".to_string()),
        (_, None) => Evidence::Missing("it could not be counted here".to_string()),
    };
    Row { before, now, ..empty_row(metric, c, evidence) }
}

/// Worth a word where nobody asked: no value that was seen now was seen before.
fn is_change(row: &Row) -> bool {
    matches!((row.before, row.now), (Some(a), Some(b)) if a.max < b.min || b.max < a.min)
}

/// A time: within rounds where the old program ran, else over the controls of both runs.
fn time_row(
    metric: GateMetric,
    placed: &Placed,
    c: &StoredCommand,
    samples: Option<(&Samples, usize)>,
    (measured, gates): (&mut Measured, usize),
) -> Result<Row> {
    let Some((field, get)) = metric.of_sample() else {
        return Ok(empty_row(metric, c, Evidence::Missing("no such metric".to_string())));
    };
    // A program that is ended at its first byte has no exit of its own: that byte is what its times are about.
    let ends_early = measured.record.setting.until_first_byte && metric == GATES[0];
    let (field, get) = if ends_early { measured.record.setting.main_metric() } else { (field, get) };
    let median = |arm: usize| measured.record.commands.get(arm)?.metric(field).map(|s| Range::exactly(s.p50));
    let (before, now) = (placed.old_arm.and_then(median), median(placed.new_arm));
    let (seed, delta) = (measured.record.setting.seed, measured.record.delta);
    let mut row = Row { before, now, ..empty_row(metric, c, Evidence::Missing("no start gave it".to_string())) };
    if let Some(old) = placed.old_arm {
        let [reference, candidate] = pairs_by_metric(&mut measured.log, [old, placed.new_arm], get)?;
        if let Some(evidence) = paired(&reference, &candidate, seed, delta, confidence(gates)) {
            row.evidence = evidence;
        }
    } else if let Some((samples, i)) = samples {
        let now: Vec<f64> = measured.log.arm(placed.new_arm)?.iter().filter_map(get).map(|x| x as f64).collect();
        let arms = measured.record.commands.len();
        let mut control = measured.log.arm(arms)?;
        control.extend(measured.log.arm(arms + 1)?);
        let control: Vec<f64> = control.iter().map(|s| s.spawn_to_exit_ns as f64).collect();
        let stored = samples.of(field, i);
        row.before = stored.as_ref().map(|v| Range::exactly(median_of(v)));
        row.evidence = match stored.and_then(|then| normalised(&then, &now, &samples.control, &control)) {
            Some(n) => Evidence::Stored(n),
            None => row.evidence,
        };
    }
    Ok(row)
}

fn median_of(values: &[f64]) -> u64 {
    let mut sorted: Vec<u64> = values.iter().map(|v| *v as u64).collect();
    sorted.sort_unstable();
    crate::stat::quantile::whole_quantile(&sorted, 0.5)
}

/// The samples of a baseline, once nothing is measured any more.
struct Samples {
    document: Json,
    control: Vec<f64>,
}

impl Samples {
    fn read(file: &Path) -> Result<Samples> {
        let text = std::fs::read_to_string(file).context(|| file.to_string_lossy())?;
        let document = Json::parse(&text).context(|| file.to_string_lossy())?;
        let runs = stored_runs(&document, "spawn_to_exit_ns").context(|| file.to_string_lossy())?;
        let control = runs.control.map(|c| c.values).unwrap_or_default();
        Ok(Samples { document, control })
    }

    /// Values of command `i`; `None` where it has none of them.
    fn of(&self, field: &str, i: usize) -> Option<Vec<f64>> {
        values_of_command(&self.document, i, field)
    }
}

/// What a reader must know of one command's comparison.
fn marks(placed: &Placed, c: &StoredCommand) -> Vec<String> {
    let mut out = Vec::new();
    let name = &c.name;
    match &placed.old {
        OldProgram::Gone(why) => out.push(format!(
            "{name}: {why}: its stored samples are compared over the control of each run, which is weaker; such blocks \
             of one and the same program often differ, so that no gate fails on them (--accept-weak)"
        )),
        OldProgram::Kept(path) if looks_beside_itself(path) => out.push(format!(
            "{name}: its libraries are looked for beside the program ($ORIGIN): the copy {} may load others",
            path.display()
        )),
        OldProgram::Kept(_) | OldProgram::Unchanged(_) => {}
    }
    let now = counting::libraries(&placed.options, placed.old.path().unwrap_or(&c.path));
    let changed = |(path, hash): &&(PathBuf, String)| now.iter().any(|(p, h)| p == path && h != hash);
    let changed: Vec<String> = c.libraries.iter().filter(changed).map(|(p, _)| p.display().to_string()).collect();
    if !changed.is_empty() {
        let both = if placed.old_arm.is_some() { "; old and new program both run with the new ones" } else { "" };
        out.push(format!("{name}: libraries changed since the baseline: {}{both}", changed.join(", ")));
    }
    out
}

fn looks_beside_itself(path: &Path) -> bool {
    let facts = program::chain(path).ok().and_then(|files| files.into_iter().next());
    facts.is_some_and(|f| f.runpath.iter().chain(&f.rpath).any(|p| p.to_string_lossy().contains("ORIGIN")))
}

/// What a reader must know of the whole comparison.
fn run_marks(stored: &Baseline, arms: &Arms, here: &HostMark) -> Vec<String> {
    let mut out = Vec::new();
    let differs = stored.host.differences(here);
    if !differs.is_empty() {
        let all_here = arms.places.iter().all(|p| p.old_arm.is_some());
        let so = if all_here {
            "old and new program both ran here, so the comparison holds"
        } else {
            "the stored samples are of another host"
        };
        out.push(format!("the baseline was made elsewhere ({}): {so}", differs.join("; ")));
    }
    if stored.interrupted {
        out.push("the baseline's run was interrupted".to_string());
    }
    for (placed, c) in arms.places.iter().zip(&stored.commands) {
        let now = arms.commands.get(placed.new_arm);
        if let Some(now) = now.filter(|n| n.argv.get(1..) != c.argv.get(1..)) {
            out.push(format!("{}: the arguments differ: '{}' now", c.name, show_argv(&now.argv)));
        }
    }
    out
}

fn print(
    options: &Options,
    common: &Common,
    checked: &Checked,
    measured: &Measured,
    output: &mut Output<'_>,
) -> Result<()> {
    let r = &measured.record;
    let file = |what| match what {
        Export::Json => check_json::document(checked, r).pretty(),
        Export::Junit => ci::junit(checked, r, options.strict),
        Export::Markdown => check_text::markdown(checked, r),
        Export::BenchmarkAction => tracking::benchmark_action(&tracking::of_check(checked, r)).pretty(),
        Export::Bencher => tracking::bencher(&tracking::of_check(checked, r)).pretty(),
    };
    let text = |style| {
        let annotations = if options.annotations { ci::annotations(checked, options.strict) } else { String::new() };
        annotations + &check_text::text(checked, r, style)
    };
    options.exports.write(common, output, file, || check_json::document(checked, r), text)
}
