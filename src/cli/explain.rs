//! `premain [explain] PROGRAM`: its flags.

use std::ffi::OsString;

use super::flag::{Bound, FlagDoc, docs};
use super::parse::{Order, parse};
use super::shared::{COMMON, MEASURE};
use super::{Verb, help};
use crate::commands::common::Common;
use crate::commands::explain::{self, Options};
use crate::error::{Exit, Result};
use crate::output::Output;

pub(super) const VERB: Verb = Verb {
    name: "explain",
    usage: &["premain [FLAGS] PROGRAM [ARG...]", "premain explain [FLAGS] [--] PROGRAM [ARG...]"],
    summary: "what one program's start costs, where the time goes, and why",
    flags,
    notes: "",
    run,
};

fn flags() -> Vec<(&'static str, Vec<&'static FlagDoc>)> {
    vec![("measuring", docs(MEASURE)), ("output", docs(COMMON))]
}

fn run(args: &[OsString], output: &mut Output<'_>) -> Result<Exit> {
    let mut common = Common::default();
    let mut options = Options::default();
    let rest = parse(
        args,
        Order::CommandFirst,
        &mut [
            &mut Bound { rows: COMMON, options: &mut common },
            &mut Bound { rows: MEASURE, options: &mut options.measure },
        ],
    )?;
    common.apply(output);
    if rest.help {
        return help::of_verb(&VERB, output);
    }
    options.argv = rest.after_dashes.unwrap_or(rest.words);
    explain::run(&options, &common, output)
}
