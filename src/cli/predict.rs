//! `premain predict`: its flags.

use std::ffi::OsString;

use super::Verb;
use super::flag::{Documented, Groups, Row, bind, documented};
use super::parse::Order;
use super::shared::{COMMON, read};
use crate::commands::predict::{self, Options};
use crate::error::{Exit, Result};
use crate::output::Output;

pub(super) const VERB: Verb = Verb {
    name: "predict",
    usage: &["premain predict [FLAGS] FILE..."],
    summary: "what programs will cost from execve to their entry point, without starting them",
    flags,
    notes: "Needs the host model that 'premain calibrate' makes. --check starts copies of the programs that exit at their\n\
            entry point, and shows how far predictions and measurements are apart.",
    run,
};

static ROWS: &[Row<Options>] = &[
    Row::value("model", None, "FILE", "the host model, instead of the one in the cache directory", |o, v| {
        o.model = Some(v.owned()?.into());
        Ok(())
    }),
    Row::switch("check", None, "measure as well, and compare", |o, _| {
        o.check = true;
        Ok(())
    }),
    Row::value("budget", None, "TIME", "with --check: measure for this long (default 10s)", |o, v| {
        o.budget_ns = Some(v.duration()?);
        Ok(())
    }),
];

static GROUPS: Groups<Options> = &[("predicting", ROWS)];

fn flags() -> Documented {
    [documented(GROUPS), documented(COMMON)].concat()
}

fn run(args: &[OsString], output: &mut Output<'_>) -> Result<Exit> {
    let mut options = Options::default();
    let mut own = bind(GROUPS, &mut options);
    let Some((rest, common)) = read(&VERB, args, Order::Mixed, &mut [&mut own], output)? else { return Ok(Exit::Done) };
    let words = rest.all();
    options.files = words.map(Into::into).collect();
    predict::run(&options, &common, output)
}
