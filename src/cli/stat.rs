//! `premain stat`: its flags.

use std::ffi::OsString;

use super::Verb;
use super::flag::{Documented, Groups, Row, bind, documented};
use super::parse::Order;
use super::shared::{COMMON, read};
use crate::commands::stat::{self, Options};
use crate::error::{Exit, Result};
use crate::output::Output;

pub(super) const VERB: Verb = Verb {
    name: "stat",
    usage: &["premain stat [FLAGS] [FILE...]"],
    summary: "compare columns of numbers as ministat does, or stored samples",
    flags,
    notes: "Files are columns of numbers (the first file is the reference; '#' ends a line), or JSON with samples as\n\
            premain and hyperfine write it. No file, or '-', is standard input.",
    run,
};

static COLUMNS: &[Row<Options>] = &[
    Row::value("column", Some('C'), "N", "take the numbers from this column, counted from 1 (default 1)", |o, v| {
        o.column = usize::try_from(v.whole(1)?).map_err(|_| "is too large".to_string())?;
        Ok(())
    }),
    Row::value("delimiters", Some('d'), "CHARS", "characters that end a column (default: blank and tab)", |o, v| {
        o.delimiters = v.text()?.to_string();
        if o.delimiters.is_empty() { Err("needs at least one character".to_string()) } else { Ok(()) }
    }),
    Row::value("confidence", Some('c'), "PERCENT", "of the intervals, between 0 and 100 (default 95)", |o, v| {
        let text = v.text()?;
        match text.strip_suffix('%').unwrap_or(text).parse::<f64>() {
            Ok(x) if x > 0.0 && x < 100.0 => {
                o.confidence = x / 100.0;
                Ok(())
            }
            _ => Err("expected a percentage between 0 and 100, such as 95".to_string()),
        }
    }),
    Row::switch("no-plot", Some('A'), "no plot", |o, _| {
        o.no_plot = true;
        Ok(())
    }),
    Row::switch("vitals", Some('n'), "only the figures of each file: no plot, no comparison", |o, _| {
        o.vitals = true;
        Ok(())
    }),
    Row::switch("quiet", Some('q'), "no legend, no headers, only Student's test", |o, _| {
        o.quiet = true;
        Ok(())
    }),
    Row::switch("separate", Some('s'), "bars of the plot on lines of their own", |o, _| {
        o.separate_bars = true;
        Ok(())
    }),
    Row::value("width", Some('w'), "N", "columns of the plot (default: those of the terminal, less 6)", |o, v| {
        o.width = Some(usize::try_from(v.whole(2)?).unwrap_or(usize::MAX).min(WIDEST));
        Ok(())
    }),
];

/// A plot is drawn in memory: its width must not be anything that can be typed.
const WIDEST: usize = 10_000;

static SAMPLES: &[Row<Options>] = &[Row::value(
    "metric",
    None,
    "NAME",
    "exit (default), byte, cpu, or a field of the samples, such as minflt",
    |o, v| {
        o.metric = match v.text()? {
            "exit" => "spawn_to_exit_ns",
            "byte" => "spawn_to_byte_ns",
            "cpu" => "cpu_ns",
            other => other,
        }
        .to_string();
        Ok(())
    },
)];

static OWN: Groups<Options> = &[("columns of numbers", COLUMNS), ("stored samples", SAMPLES)];

fn flags() -> Documented {
    [documented(OWN), documented(COMMON)].concat()
}

fn run(args: &[OsString], output: &mut Output<'_>) -> Result<Exit> {
    let mut options = Options::default();
    let mut own = bind(OWN, &mut options);
    let Some((rest, common)) = read(&VERB, args, Order::Mixed, &mut [&mut own], output)? else { return Ok(Exit::Done) };
    options.files = rest.all().collect();
    stat::run(&options, &common, output)
}
