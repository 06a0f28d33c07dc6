//! `premain survey`: its flags.

use std::ffi::OsString;

use super::Verb;
use super::flag::{Documented, Groups, Row, bind, documented, merged};
use super::inspect::READ;
use super::parse::Order;
use super::shared::{COMMON, read};
use crate::commands::survey::{self, Filter, Options};
use crate::error::{Exit, Result};
use crate::output::Output;
use crate::report::survey_json::KEYS;

pub(super) const VERB: Verb = Verb {
    name: "survey",
    usage: &["premain survey [FLAGS] PATH...", "premain survey --merge [FLAGS] A.jsonl B.jsonl..."],
    summary: "rank every program below some paths by what its start has to do",
    flags,
    notes: "Programs are ranked; libraries, scripts and all else that can be read join them with --filter kind=any.\n\
            Files that cannot be read are listed, and the exit code is then 2. With --jsonl, and neither --sort nor\n\
            --top, lines are written as they come, in the order of their paths.",
    run,
};

static SURVEY: Groups<Options> = &[("what is shown", ROWS)];

static ROWS: &[Row<Options>] = &[
    Row::choice(
        "sort",
        &["pages", "relocations", "lookups", "objects", "size", "predicted"],
        "KEY",
        "rank by pages written (default), relocations, lookups, objects, size, or predicted time (by the model of 'calibrate')",
        |o, v| {
            o.sort = Some(v.one_of(&KEYS)?);
            Ok(())
        },
    ),
    Row::value("top", None, "N", "show the first N (default 20; all with --json and --jsonl)", |o, v| {
        o.top = Some(v.whole(1)?);
        Ok(())
    }),
    Row::value(
        "filter",
        None,
        "FIELD=VALUE",
        "only lines whose field has one of these values: kind=pie,exec, relro.kind=none, needed=libssl.so.3",
        |o, v| {
            o.filters.push(Filter::parse(v.text()?)?);
            Ok(())
        },
    ),
    Row::value("model", None, "FILE", "the host model, instead of the one in the cache", |o: &mut Options, v| {
        o.model = Some(v.owned()?.into());
        Ok(())
    })
    .rare(),
    Row::value("jobs", Some('j'), "N", "threads (default: one a processor)", |o, v| {
        o.jobs = Some(v.whole(1)?.min(1024));
        Ok(())
    }),
    Row::switch("merge", None, "rank lines that earlier surveys wrote with --jsonl", |o, _| {
        o.merge = true;
        Ok(())
    }),
    Row::switch("jsonl", None, "one JSON object a line, one line a file", |o, _| {
        o.jsonl = true;
        Ok(())
    }),
];

fn flags() -> Documented {
    merged([documented(SURVEY), documented(READ), documented(COMMON)].concat())
}

fn run(args: &[OsString], output: &mut Output<'_>) -> Result<Exit> {
    let mut options = Options::default();
    let mut reading = options.read.clone();
    let mut own = (bind(SURVEY, &mut options), bind(READ, &mut reading));
    let Some((rest, common)) = read(&VERB, args, Order::Mixed, &mut [&mut own.0, &mut own.1], output)? else {
        return Ok(Exit::Done);
    };
    options.read = reading;
    options.paths = rest.all().map(Into::into).collect();
    survey::run(&options, &common, output)
}
