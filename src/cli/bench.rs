//! `premain bench`: its flags.

use std::ffi::OsString;

use super::flag::{Bound, FlagDoc, docs};
use super::parse::{Order, parse};
use super::shared::{COMMON, MEASURE};
use super::{Verb, help};
use crate::commands::bench::{self, Options};
use crate::commands::common::Common;
use crate::error::{Exit, Result};
use crate::output::Output;

pub(super) const VERB: Verb = Verb {
    name: "bench",
    usage: &["premain bench [FLAGS] 'CMD1 ARG...' ['CMD2 ARG...' ...]", "premain bench [FLAGS] -- CMD [ARG...]"],
    summary: "measure the starts of one or more commands, interleaved with the floor",
    flags,
    notes: "A quoted command is split into words as a shell splits them; no shell is run. The first is the reference.",
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
        Order::Mixed,
        &mut [
            &mut Bound { rows: COMMON, options: &mut common },
            &mut Bound { rows: MEASURE, options: &mut options.measure },
        ],
    )?;
    common.apply(output);
    if rest.help {
        return help::of_verb(&VERB, output);
    }
    options.lines = rest.words;
    options.argv = rest.after_dashes;
    bench::run(&options, &common, output)
}
