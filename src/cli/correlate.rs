//! `premain correlate`: its flags.

use std::ffi::OsString;

use super::Verb;
use super::flag::{Documented, Groups, Row, bind, documented};
use super::parse::Order;
use super::shared::{COMMON, read};
use crate::commands::correlate::{self, Options};
use crate::error::{Exit, Result};
use crate::output::Output;

pub(super) const VERB: Verb = Verb {
    name: "correlate",
    usage: &["premain correlate [FLAGS] RESULTS..."],
    summary: "fit measured starts against what was counted in the files",
    flags,
    notes: "RESULTS are documents of 'bench --json' (or --export-json) and 'inspect --json', or the data.jsonl of\n\
            linker-experiments. Programs that were timed and not inspected are inspected now, where they still are.",
    run,
};

static ROWS: &[Row<Options>] = &[
    Row::value("metric", None, "NAME", "exec (default: execve to exit), exit, cpu, or a field of a bench", |o, v| {
        o.metric = match v.text()? {
            "exec" => "exec_to_exit_ns",
            "exit" => "spawn_to_exit_ns",
            "cpu" => "cpu_ns",
            other => other,
        }
        .to_string();
        Ok(())
    }),
    Row::value("across", None, "COUNT", "draw times against this count instead of the fitted time", |o, v| {
        o.across = Some(v.text()?.to_string());
        Ok(())
    }),
    Row::value("svg", None, "FILE", "write the plot as an image", |o, v| {
        o.svg = Some(v.owned()?.into());
        Ok(())
    }),
    Row::switch("no-inspect", None, "use only facts that the documents have", |o, _| {
        o.inspect = false;
        Ok(())
    }),
];

static GROUPS: Groups<Options> = &[("correlating", ROWS)];

fn flags() -> Documented {
    [documented(GROUPS), documented(COMMON)].concat()
}

fn run(args: &[OsString], output: &mut Output<'_>) -> Result<Exit> {
    let mut options = Options::default();
    let mut own = bind(GROUPS, &mut options);
    let Some((rest, common)) = read(&VERB, args, Order::Mixed, &mut [&mut own], output)? else { return Ok(Exit::Done) };
    options.files = rest.all().map(Into::into).collect();
    correlate::run(&options, &common, output)
}
