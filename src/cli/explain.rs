//! `premain [explain] PROGRAM`: its flags.

use std::ffi::OsString;

use super::flag::{Documented, bind, documented, merged};
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

fn flags() -> Documented {
    merged([documented(MEASURE), documented(COMMON)].concat())
}

fn run(args: &[OsString], output: &mut Output<'_>) -> Result<Exit> {
    let mut common = Common::default();
    let mut options = Options::default();
    let rest = parse(
        args,
        Order::CommandFirst,
        &mut [&mut bind(COMMON, &mut common), &mut bind(MEASURE, &mut options.measure)],
    )?;
    common.apply(output);
    if rest.help {
        return help::of_verb(&VERB, output);
    }
    options.argv = rest.after_dashes.unwrap_or(rest.words);
    explain::run(&options, &common, output)
}
