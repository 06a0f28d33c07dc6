//! `premain storm`: its flags.

use std::ffi::OsString;

use super::Verb;
use super::flag::{Documented, Groups, Row, Value, bind, documented, export, merged};
use super::parse::Order;
use super::shared::{COMMON, MEASURE, read};
use crate::commands::measuring::MeasureOptions;
use crate::commands::storm::{self, Export, Options};
use crate::error::{Exit, Result};
use crate::output::Output;

pub(super) const VERB: Verb = Verb {
    name: "storm",
    usage: &["premain storm [FLAGS] -- CMD [ARG...]", "premain storm [FLAGS] 'CMD ARG...'"],
    summary: "many starts at once: how long until all are done, where it stops scaling",
    flags,
    notes: "All of a batch are forked first and wait at a gate; times count from its opening. Standard output goes to\n\
            /dev/null, and every start reads --stdin FILE from its beginning. At most 256 at once and 100,000 starts in all,\n\
            within the free memory, unless --no-cap is given. Defaults: --warmup 1, --min-runs 6, --budget 5s.",
    run,
};

static COMMANDS: &[Row<Options>] = &[
    Row::value("concurrency", Some('c'), "N,N...", "how many at once (default 1,4,16,64)", |o: &mut Options, v| {
        o.concurrency = numbers(v)?;
        Ok(())
    }),
    Row::switch("no-cap", None, "as many as asked for, whatever that does", |o: &mut Options, _| {
        o.no_cap = true;
        Ok(())
    }),
];

static OUTPUT: &[Row<Options>] = &[
    export!("export-json", Export::Json, "write the document of --json; - for stdout"),
    export!("export-markdown", Export::Markdown, "write the table for a page"),
];

fn numbers(v: Value<'_>) -> Result<Vec<u64>, String> {
    let one = |t: &str| t.trim().parse::<u64>().ok().filter(|n| *n > 0);
    let all: Option<Vec<u64>> = v.text()?.split(',').map(one).collect();
    all.ok_or_else(|| "expected numbers of at least 1, such as 1,4,16".to_string())
}

static OWN: Groups<Options> = &[("commands", COMMANDS), ("output", OUTPUT)];

fn flags() -> Documented {
    merged([documented(OWN), documented(MEASURE), documented(COMMON)].concat())
}

fn run(args: &[OsString], output: &mut Output<'_>) -> Result<Exit> {
    let mut options = Options::default();
    let mut measure = MeasureOptions { warmup: 1, ..MeasureOptions::default() };
    let mut own = (bind(OWN, &mut options), bind(MEASURE, &mut measure));
    let Some((rest, common)) = read(&VERB, args, Order::Mixed, &mut [&mut own.0, &mut own.1], output)? else {
        return Ok(Exit::Done);
    };
    options.measure = measure;
    options.lines = rest.words;
    options.argv = rest.after_dashes;
    storm::run(&options, &common, output)
}
