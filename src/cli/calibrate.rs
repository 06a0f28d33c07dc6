//! `premain calibrate`: its flags.

use std::ffi::OsString;

use super::flag::{Bound, FlagDoc, Row, docs};
use super::parse::{Order, parse};
use super::shared::COMMON;
use super::{Verb, help};
use crate::commands::calibrate::{self, Options};
use crate::commands::common::Common;
use crate::error::{Exit, Result};
use crate::output::Output;

pub(super) const VERB: Verb = Verb {
    name: "calibrate",
    usage: &["premain calibrate [FLAGS]"],
    summary: "what each unit of load work costs on this host, for predictions",
    flags,
    notes: "The programs that are measured are written by premain itself; nothing else is run.",
    run,
};

static ROWS: &[Row<Options>] = &[Row::switch("quick", None, "under 10 s instead of under 60 s, with wider intervals", |o, _| {
    o.quick = true;
    Ok(())
})];

fn flags() -> Vec<(&'static str, Vec<&'static FlagDoc>)> {
    vec![("calibrating", docs(ROWS)), ("output", docs(COMMON))]
}

fn run(args: &[OsString], output: &mut Output<'_>) -> Result<Exit> {
    let mut common = Common::default();
    let mut options = Options::default();
    let rest = parse(
        args,
        Order::Mixed,
        &mut [&mut Bound { rows: COMMON, options: &mut common }, &mut Bound { rows: ROWS, options: &mut options }],
    )?;
    common.apply(output);
    if rest.help {
        return help::of_verb(&VERB, output);
    }
    options.files = rest.words.iter().map(std::path::PathBuf::from).collect();
    calibrate::run(&options, &common, output)
}
