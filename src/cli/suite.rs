//! `premain suite`: its flags.

use std::ffi::OsString;

use super::Verb;
use super::flag::{Documented, Groups, Row, bind, documented, export, merged};
use super::parse::Order;
use super::shared::{COMMON, ROUNDS, read};
use crate::commands::measuring::MeasureOptions;
use crate::commands::suite::{self, Export, Options};
use crate::error::{Error, Exit, Result};
use crate::output::Output;

pub(super) const VERB: Verb = Verb {
    name: "suite",
    usage: &["premain suite [FLAGS] FILE"],
    summary: "measure cases × binaries from a file, interleaved, into one table",
    flags,
    notes: "FILE holds [suite], [binary NAME] and [case NAME] sections of KEY = VALUE lines:\n\
            \n\
            \x20 [binary old]\n\
            \x20 path = ./old/helper\n\
            \x20 [binary new]\n\
            \x20 path = ./new/helper\n\
            \x20 [case usage error]\n\
            \x20 args = --nonsense\n\
            \x20 exit = 2\n\
            \n\
            suite: name, reference, rounds, budget. binary: path, env. case: args or command ({bin}, {name}, {dir} are\n\
            filled in), env, stdin, cwd, exit (a code, a list, any), output (any, same, or a file), binaries, setup,\n\
            setup-round, prepare, conclude, cleanup. Paths are taken from FILE's directory.",
    run,
};

static COMMANDS: &[Row<Options>] = &[
    Row::value("case", None, "NAME", "only this case; may be repeated", |o: &mut Options, v| {
        o.cases.push(v.text()?.to_string());
        Ok(())
    }),
    Row::value("binary", None, "NAME=PATH", "another path for a binary of the file", |o: &mut Options, v| {
        o.paths.push(v.pair()?);
        Ok(())
    }),
];

static CHECKS: &[Row<Options>] =
    &[Row::switch("strict", None, "end with exit code 3 where a comparison is not decided", |o: &mut Options, _| {
        o.strict = true;
        Ok(())
    })];

static OUTPUT: &[Row<Options>] = &[
    Row::value("probes", None, "N", "starts observed afterwards (default 3; 0: none)", |o: &mut Options, v| {
        o.probes = v.whole(0)?;
        Ok(())
    }),
    Row::switch("samples", None, "every sample in the JSON document", |o: &mut Options, _| {
        o.samples = true;
        Ok(())
    })
    .rare(),
    Row::value("save-baseline", None, "FILE", "write what 'premain check FILE' compares with", |o: &mut Options, v| {
        o.save_baseline = Some(v.owned()?.into());
        Ok(())
    }),
    Row::value("keep-binaries", None, "DIR", "keep copies of the programs for that baseline", |o: &mut Options, v| {
        o.keep_binaries = Some(v.owned()?.into());
        Ok(())
    })
    .rare(),
    export!("export-json", Export::Json, "write all: host, plan, samples; - for stdout"),
    export!("export-csv", Export::Csv, "write one row a sample"),
    export!("export-markdown", Export::Markdown, "write the table for a page").rare(),
    export!("export-benchmark-action", Export::BenchmarkAction, "write what github-action-benchmark reads").rare(),
    export!("export-bencher", Export::Bencher, "write Bencher's metric format").rare(),
];

static OWN: Groups<Options> = &[("commands", COMMANDS), ("checks", CHECKS), ("output", OUTPUT)];

fn flags() -> Documented {
    merged([documented(OWN), documented(ROUNDS), documented(COMMON)].concat())
}

fn run(args: &[OsString], output: &mut Output<'_>) -> Result<Exit> {
    let (mut options, mut measure) = (Options::default(), MeasureOptions::default());
    let mut own = (bind(OWN, &mut options), bind(ROUNDS, &mut measure));
    let Some((rest, common)) = read(&VERB, args, Order::Mixed, &mut [&mut own.0, &mut own.1], output)? else {
        return Ok(Exit::Done);
    };
    options.measure = measure;
    let mut words = rest.all();
    options.file = words.next().map(Into::into);
    if let Some(word) = words.next() {
        return Err(Error::new("one suite at a time").context(word.to_string_lossy()));
    }
    suite::run(&options, &common, output)
}
