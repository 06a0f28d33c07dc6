//! `premain bench`: measure commands, print what was recorded.

use std::ffi::OsString;

use super::common::Common;
use super::measuring::{MeasureOptions, measure, split_line};
use crate::error::{Error, Exit, Result};
use crate::output::Output;
use crate::report::{bench_json, bench_text};

/// Options of `bench`.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// How to measure.
    pub measure: MeasureOptions,
    /// Quoted commands.
    pub lines: Vec<OsString>,
    /// One command, verbatim.
    pub argv: Option<Vec<OsString>>,
}

/// Measures and prints.
///
/// # Errors
/// Usage, a command that fails or cannot be executed, or trouble of ours.
pub fn run(options: &Options, common: &Common, output: &mut Output<'_>) -> Result<Exit> {
    let mut commands = Vec::new();
    for line in &options.lines {
        commands.push(options.measure.command(split_line(line)?)?);
    }
    if let Some(argv) = &options.argv {
        commands.push(options.measure.command(argv.clone())?);
    }
    if commands.is_empty() {
        return Err(Error::new("no command given; try 'premain bench --help'"));
    }
    let measured = measure(&options.measure, &commands, output)?;
    if common.json {
        output.text(&bench_json::document(&measured.record).pretty())?;
    } else {
        let text = bench_text::text(&measured.record, output.style);
        output.text(&text)?;
    }
    Ok(measured.exit)
}
