//! `premain calibrate`: its flags.

use std::ffi::OsString;

use super::Verb;
use super::flag::{Documented, Groups, Row, bind, documented};
use super::parse::Order;
use super::shared::{COMMON, read};
use crate::commands::calibrate::{self, Options};
use crate::error::{Exit, Result};
use crate::output::Output;

pub(super) const VERB: Verb = Verb {
    name: "calibrate",
    usage: &["premain calibrate [FLAGS] [PROGRAM...]"],
    summary: "what each unit of load work costs on this host, for predictions",
    flags,
    notes: "premain writes the programs that it measures; it runs no other. With PROGRAMs, what the libraries that they need\n\
            cost beyond their counts (init functions, most of all) is measured too, each library loaded by a program of premain's own.",
    run,
};

static ROWS: &[Row<Options>] = &[
    Row::switch("quick", None, "under 10 s instead of under 60 s, with wider intervals", |o, _| {
        o.quick = true;
        Ok(())
    }),
    Row::value("model", None, "FILE", "store the model there instead of in the cache directory", |o, v| {
        o.model = Some(v.owned()?.into());
        Ok(())
    }),
    Row::value("budget", None, "TIME", "measure for this long (default 45s; 4s with --quick)", |o, v| {
        o.budget_ns = Some(v.duration()?);
        Ok(())
    }),
];

static GROUPS: Groups<Options> = &[("calibrating", ROWS)];

fn flags() -> Documented {
    [documented(GROUPS), documented(COMMON)].concat()
}

fn run(args: &[OsString], output: &mut Output<'_>) -> Result<Exit> {
    let mut options = Options::default();
    let mut own = bind(GROUPS, &mut options);
    let Some((rest, common)) = read(&VERB, args, Order::Mixed, &mut [&mut own], output)? else { return Ok(Exit::Done) };
    let words = rest.all();
    options.programs = words.map(Into::into).collect();
    calibrate::run(&options, &common, output)
}
