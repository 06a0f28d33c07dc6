//! `premain trace`: its flags.

use std::ffi::OsString;

use super::Verb;
use super::flag::{Documented, Groups, Row, bind, documented};
use super::parse::Order;
use super::shared::{COMMANDS, COMMON, read};
use crate::commands::measuring::Accepted;
use crate::commands::trace::{self, Options};
use crate::error::{Exit, Result};
use crate::output::Output;
use crate::trace::summary::Choice;

pub(super) const VERB: Verb = Verb {
    name: "trace",
    usage: &[
        "premain trace [FLAGS] [--] PROGRAM [ARG...]",
        "premain trace [FLAGS] --vs 'CMD2 ARG...' [--] PROGRAM [ARG...]",
    ],
    summary: "the timeline of a start, from fork to reaped: phases, page faults, objects, system calls",
    flags,
    notes: "Beside each observed start an untraced one is made, so that what observing costs is known.",
    run,
};

static TRACING: Groups<Options> = &[("tracing", ROWS)];

static ROWS: &[Row<Options>] = &[
    Row::value("runs", Some('r'), "N", "starts to observe (default 11); medians over them", |o, v| {
        o.measure.runs = Some(v.whole(1)?);
        Ok(())
    }),
    Row::choice(
        "backend",
        &["auto", "perf", "ptrace"],
        "WHICH",
        "auto (default: the best that works), perf (no stop of the program) or ptrace",
        |o, v| {
            o.backend = v.one_of(&[("auto", Choice::Auto), ("perf", Choice::Perf), ("ptrace", Choice::Ptrace)])?;
            Ok(())
        },
    ),
    Row::value("vs", None, "CMD", "observe this command (quoted) in the same rounds, and compare", |o, v| {
        o.versus = Some(v.owned()?);
        Ok(())
    }),
    Row::switch("all", Some('a'), "every object and every system call's row, not the dearest ten", |o, _| {
        o.detail.all = true;
        Ok(())
    }),
    Row::switch("syscalls", Some('s'), "list every system call, with the time since the one before it", |o, _| {
        o.detail.list = true;
        Ok(())
    }),
    Row::value("export-trace", None, "FILE", "write the typical start as trace events (Perfetto, Chrome)", |o, v| {
        o.export_trace = Some(v.owned()?.into());
        Ok(())
    }),
    Row::value("export-events", None, "FILE", "write the typical start's events, one a line", |o, v| {
        o.export_events = Some(v.owned()?.into());
        Ok(())
    }),
    Row::value("export-svg", None, "FILE", "write the phases as a picture", |o, v| {
        o.export_svg = Some(v.owned()?.into());
        Ok(())
    }),
    Row::value("timeout", None, "TIME", "kill a start after this long (default 30s; 0: never)", |o, v| {
        o.measure.timeout_ns = Some(v.duration()?).filter(|t| *t > 0);
        Ok(())
    }),
    Row::value(
        "ignore-failure",
        Some('i'),
        "CODES",
        "accept commands that fail: all, or only these exit codes (-i=1,2)",
        |o: &mut Options, v| {
            o.measure.accepted = match v.0 {
                None => Accepted::Any,
                Some(_) => Accepted::parse(v.text()?)?,
            };
            Ok(())
        },
    )
    .optional(),
];

fn flags() -> Documented {
    [documented(TRACING), documented(COMMANDS), documented(COMMON)].concat()
}

fn run(args: &[OsString], output: &mut Output<'_>) -> Result<Exit> {
    let mut options = Options::default();
    let mut setup = options.measure.clone();
    let mut own = (bind(TRACING, &mut options), bind(COMMANDS, &mut setup));
    let Some((rest, common)) = read(&VERB, args, Order::CommandFirst, &mut [&mut own.0, &mut own.1], output)? else {
        return Ok(Exit::Done);
    };
    // Both tables fill the same options, each its own part.
    let said = &options.measure;
    setup.runs = said.runs;
    setup.timeout_ns = said.timeout_ns;
    setup.accepted = said.accepted.clone();
    options.measure = setup;
    options.argv = rest.command();
    trace::run(&options, &common, output)
}
