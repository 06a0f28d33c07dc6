//! `premain [explain] PROGRAM`: its flags.

use std::ffi::OsString;

use super::Verb;
use super::flag::{Documented, bind, documented, merged};
use super::parse::Order;
use super::shared::{COMMON, MEASURE, read};
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
    let mut options = Options::default();
    let mut own = bind(MEASURE, &mut options.measure);
    let Some((rest, common)) = read(&VERB, args, Order::CommandFirst, &mut [&mut own], output)? else {
        return Ok(Exit::Done);
    };
    options.argv = rest.command();
    explain::run(&options, &common, output)
}
