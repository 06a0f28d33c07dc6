//! `premain sweep`: the cost of a start as a function of a parameter.

use std::ffi::OsString;

use super::common::Common;
use super::hooks::Hooks;
use super::measuring::{Extras, MeasureOptions, StdinChoice, measure_with, split_line};
use super::parameter::fill;
use super::saving::Exports;
use crate::error::{Context, Error, Exit, Result};
use crate::measure::command::{Command, show_argv};
use crate::output::Output;
use crate::record::bench::METRICS;
use crate::record::sweep::{Parameter, SweepRecord, line};
use crate::report::{export, sweep_json, sweep_text};

/// Options of `sweep`.
#[derive(Debug, Clone)]
pub struct Options {
    /// How to measure.
    pub measure: MeasureOptions,
    /// The parameter.
    pub parameter: Option<Parameter>,
    /// The command, quoted.
    pub lines: Vec<OsString>,
    /// The command, verbatim.
    pub argv: Option<Vec<OsString>>,
    /// What the line goes through: as typed, and the field of the samples.
    pub metric: (String, &'static str),
    /// Commands around each point's starts, by the name of bench's flag, with `{VAR}` in them.
    pub hooks: Vec<(&'static str, OsString)>,
    /// Every sample in the JSON document.
    pub samples: bool,
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
}

impl Default for Options {
    fn default() -> Self {
        Options {
            measure: MeasureOptions::default(),
            parameter: None,
            lines: Vec::new(),
            argv: None,
            metric: ("exit".to_string(), "spawn_to_exit_ns"),
            hooks: Vec::new(),
            samples: false,
            exports: Exports::default(),
        }
    }
}

/// Sweeps.
///
/// # Errors
/// Usage, a command that fails or cannot be executed, trouble of ours.
pub fn run(options: &Options, common: &Common, output: &mut Output<'_>) -> Result<Exit> {
    let parameter = options.parameter.clone().context(|| "no parameter given: -L VAR=a,b,c or -P VAR=min..max:step")?;
    let argv = argv(options)?;
    let (commands, extras) = points(options, &parameter, &argv)?;
    let mut measured = measure_with(&options.measure, &extras, &commands, output)?;
    let metric = METRICS.into_iter().find(|(name, _)| *name == options.metric.1).context(|| "no such metric")?;
    let line = match &parameter.x {
        Some(x) => line(&mut measured.log, x, metric)?,
        None => None,
    };
    let needs = options.samples || options.exports.any(|e| e != Export::Markdown);
    let samples = if needs { export::arms(&measured.record, &mut measured.log)? } else { Vec::new() };
    let record = SweepRecord {
        command: show_argv(&argv),
        parameter,
        metric: options.metric.0.clone(),
        field: metric.0,
        line,
        bench: measured.record,
    };
    print(options, common, &record, &samples, output)?;
    Ok(measured.exit)
}

fn argv(options: &Options) -> Result<Vec<OsString>> {
    match (&options.lines[..], &options.argv) {
        ([], Some(argv)) if !argv.is_empty() => Ok(argv.clone()),
        ([one], None) => split_line(one),
        ([], _) => Err(Error::new("no command given; try 'premain sweep --help'")),
        _ => Err(Error::new("one command at a time: it is started with every value of the parameter")),
    }
}

/// One command for each value, with everything around it filled in.
fn points(options: &Options, p: &Parameter, argv: &[OsString]) -> Result<(Vec<Command>, Extras)> {
    let mut commands = Vec::with_capacity(p.values.len());
    let mut hooks = Hooks::default();
    let mut used = false;
    for value in &p.values {
        let mut put = |text: &OsString| {
            let (text, found) = fill(text, &p.name, value);
            used |= found;
            text
        };
        let words: Vec<OsString> = argv.iter().map(&mut put).collect();
        let o = MeasureOptions {
            env: options.measure.env.iter().map(|(n, v)| (n.clone(), put(v))).collect(),
            cwd: options.measure.cwd.as_ref().map(|d| put(&d.clone().into_os_string()).into()),
            stdin: match &options.measure.stdin {
                StdinChoice::File(f) => StdinChoice::File(put(&f.clone().into_os_string()).into()),
                other => other.clone(),
            },
            ..options.measure.clone()
        };
        let lines: Vec<(&str, OsString)> = options.hooks.iter().map(|(flag, line)| (*flag, put(line))).collect();
        hooks.push_arm("--", &o, |flag| lines.iter().rev().find(|(f, _)| *f == flag).map(|(_, line)| line))?;
        let mut command = o.command(words)?;
        command.name = format!("{}={value}", p.name);
        commands.push(command);
    }
    if !used {
        let why =
            format!("'{{{}}}' stands nowhere: not in the command, nor in --env, --cwd, --stdin or a hook", p.name);
        return Err(Error::new(why));
    }
    Ok((commands, Extras { hooks, ..Extras::default() }))
}

fn print(
    options: &Options,
    common: &Common,
    record: &SweepRecord,
    samples: &export::Arms,
    output: &mut Output<'_>,
) -> Result<()> {
    let file = |what| match what {
        Export::Json => export::with_samples(sweep_json::document(record), samples).pretty(),
        Export::Csv => export::csv(&record.bench, samples),
        Export::Markdown => sweep_text::markdown(record),
    };
    let document = || {
        let d = sweep_json::document(record);
        if options.samples { export::with_samples(d, samples) } else { d }
    };
    options.exports.write(common, output, file, document, |style| sweep_text::text(record, style))
}
