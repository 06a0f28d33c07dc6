//! `premain PROGRAM`: the main job.

use std::ffi::OsString;

use super::common::Common;
use super::measuring::{MeasureOptions, measure};
use crate::error::{Error, Exit, Result};
use crate::output::Output;
use crate::report::bench_text;

/// Options of `explain`.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// How to measure.
    pub measure: MeasureOptions,
    /// The program and its arguments.
    pub argv: Vec<OsString>,
}

/// Measures, inspects, traces and explains one program.
///
/// # Errors
/// Usage, a command that fails or cannot be executed, or trouble of ours.
pub fn run(options: &Options, _common: &Common, output: &mut Output<'_>) -> Result<Exit> {
    if options.argv.is_empty() {
        return Err(Error::new("no program given; try 'premain --help'"));
    }
    let commands = [options.measure.command(options.argv.clone())?];
    let measured = measure(&options.measure, &commands, output)?;
    let text = bench_text::text(&measured.record, output.style);
    output.text(&text)?;
    Ok(measured.exit)
}
