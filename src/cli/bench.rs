//! `premain bench`: its flags.

use std::ffi::OsString;

use super::Verb;
use super::flag::{Documented, Groups, Row, bind, documented, export, hook, merged};
use super::parse::Order;
use super::shared::{COMMON, MEASURE, read};
use crate::commands::bench::{self, Export, Options};
use crate::commands::measuring::MeasureOptions;
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

static COMMANDS: &[Row<Options>] = &[
    Row::value("name", Some('n'), "NAME", "name of a command, in their order; repeatable", |o: &mut Options, v| {
        o.names.push(v.text()?.to_string());
        Ok(())
    }),
    Row::value("reference", None, "N", "compare with command N (default 1)", |o: &mut Options, v| {
        o.reference = usize::try_from(v.whole(1)?).map_err(|_| "is too large".to_string())?;
        Ok(())
    }),
    Row::value("env-for", None, "N:K=V", "set a variable for command N only", |o: &mut Options, v| {
        o.env_for.push(bench::parse_env_for(v.os()?)?);
        Ok(())
    })
    .rare(),
    hook!("setup", None, "run once before a command's first start").rare(),
    hook!("setup-round", None, "run before each round: a fresh directory for it, say").rare(),
    hook!("prepare", Some('p'), "run before each start, outside the timed window"),
    hook!("conclude", None, "run after each start").rare(),
    hook!("cleanup", None, "run once after a command's last start").rare(),
    Row::choice(
        "state",
        &["warm", "cold"],
        "STATE",
        "warm (default), or cold: drop the files' pages first",
        |o: &mut Options, v| {
            o.cold = v.one_of(&[("warm", false), ("cold", true)])?;
            Ok(())
        },
    ),
    Row::choice(
        "until",
        &["exit", "first-byte"],
        "EVENT",
        "exit (default), or first-byte: for servers",
        |o: &mut Options, v| {
            o.until_first_byte = v.one_of(&[("exit", false), ("first-byte", true)])?;
            Ok(())
        },
    )
    .rare(),
];

static CHECKS: &[Row<Options>] = &[
    Row::switch("strict", None, "exit code 3 where a comparison is not decided", |o: &mut Options, _| {
        o.strict = true;
        Ok(())
    }),
    Row::switch("expect-same-output", None, "every start must write the same to stdout", |o: &mut Options, _| {
        o.expect_same_output = true;
        Ok(())
    }),
    Row::value("expect-output", None, "FILE", "every start must write what FILE holds", |o: &mut Options, v| {
        o.expect_output = Some(v.owned()?.into());
        Ok(())
    })
    .rare(),
];

static OUTPUT: &[Row<Options>] = &[
    Row::value("probes", None, "N", "starts observed afterwards (default 3; 0: none)", |o: &mut Options, v| {
        o.probes = v.whole(0)?;
        Ok(())
    }),
    Row::switch("plot", None, "show the distribution of each command", |o: &mut Options, _| {
        o.plot = true;
        Ok(())
    }),
    Row::switch("samples", None, "every sample in the JSON document", |o: &mut Options, _| {
        o.samples = true;
        Ok(())
    })
    .rare(),
    Row::value("note", None, "K=V", "add a fact to the record (a commit, say)", |o: &mut Options, v| {
        o.notes.push(v.pair()?);
        Ok(())
    })
    .rare(),
    export!("export-json", Export::Json, "write all: host, plan, samples; - for stdout"),
    Row::value("save-baseline", None, "FILE", "write what 'premain check FILE' compares with", |o: &mut Options, v| {
        o.save_baseline = Some(v.owned()?.into());
        Ok(())
    }),
    Row::value(
        "keep-binaries",
        None,
        "DIR",
        "keep copies of the programs for that baseline in DIR",
        |o: &mut Options, v| {
            o.keep_binaries = Some(v.owned()?.into());
            Ok(())
        },
    )
    .rare(),
    export!("export-csv", Export::Csv, "write one row a sample"),
    export!("export-markdown", Export::Markdown, "write the table for a page").rare(),
];

static OWN: Groups<Options> = &[("commands", COMMANDS), ("checks", CHECKS), ("output", OUTPUT)];

fn flags() -> Documented {
    merged([documented(OWN), documented(MEASURE), documented(COMMON)].concat())
}

fn run(args: &[OsString], output: &mut Output<'_>) -> Result<Exit> {
    let (mut options, mut measure) = (Options::default(), MeasureOptions::default());
    let mut own = (bind(OWN, &mut options), bind(MEASURE, &mut measure));
    let Some((rest, common)) = read(&VERB, args, Order::Mixed, &mut [&mut own.0, &mut own.1], output)? else {
        return Ok(Exit::Done);
    };
    options.measure = measure;
    options.lines = rest.words;
    options.argv = rest.after_dashes;
    bench::run(&options, &common, output)
}
