//! `premain sweep`: its flags.

use std::ffi::OsString;

use super::Verb;
use super::flag::{Documented, Groups, Row, Value, bind, documented, export, hook, merged};
use super::parse::Order;
use super::shared::{COMMON, MEASURE, read};
use crate::commands::measuring::MeasureOptions;
use crate::commands::parameter;
use crate::commands::sweep::{self, Export, Options};
use crate::error::{Exit, Result};
use crate::output::Output;

pub(super) const VERB: Verb = Verb {
    name: "sweep",
    usage: &[
        "premain sweep -P VAR=min..max[:step] [FLAGS] -- CMD [ARG {VAR}...]",
        "premain sweep -L VAR=a,b,c [FLAGS] 'CMD ARG {VAR}...'",
    ],
    summary: "the cost of a start as a function of a parameter: slope, interval, is it a line",
    flags,
    notes: "{VAR} is filled in in the command, in --env, --cwd, --stdin and in the commands around the starts;\n\
            {VAR*} becomes as many letters as it says. Values with units (200ms, 4KiB) are times and sizes;\n\
            against a time the slope is a plain number, such as of round trips.",
    run,
};

fn set(o: &mut Options, p: crate::record::sweep::Parameter) -> Result<(), String> {
    if o.parameter.is_some() {
        return Err("one parameter at a time".to_string());
    }
    o.parameter = Some(p);
    Ok(())
}

static COMMANDS: &[Row<Options>] = &[
    Row::value("list", Some('L'), "VAR=a,b,c", "values of the parameter", |o: &mut Options, v| {
        set(o, parameter::list(v.text()?)?)
    }),
    Row::value("range", Some('P'), "VAR=a..b:s", "from a to b in steps of s (default 1)", |o: &mut Options, v| {
        set(o, parameter::range(v.text()?)?)
    }),
    hook!("setup", None, "run once before each value's first start"),
    hook!("setup-round", None, "run before each round, once for each value").rare(),
    hook!("prepare", None, "run before each start, outside the timed window"),
    hook!("conclude", None, "run after each start").rare(),
    hook!("cleanup", None, "run once after each value's last start").rare(),
];

static OUTPUT: &[Row<Options>] = &[
    Row::value("metric", None, "NAME", "exit (default), byte, cpu, minflt or rss", |o: &mut Options, v| {
        let field = metric(v)?;
        o.metric = (v.text()?.to_string(), field);
        Ok(())
    }),
    Row::switch("samples", None, "every sample in the JSON document", |o: &mut Options, _| {
        o.samples = true;
        Ok(())
    })
    .rare(),
    export!("export-json", Export::Json, "write all: host, plan, samples; - for stdout"),
    export!("export-csv", Export::Csv, "write one row a sample"),
    export!("export-markdown", Export::Markdown, "write the table for a page").rare(),
];

fn metric(v: Value<'_>) -> Result<&'static str, String> {
    v.one_of(&[
        ("exit", "spawn_to_exit_ns"),
        ("byte", "spawn_to_byte_ns"),
        ("cpu", "cpu_ns"),
        ("minflt", "minflt"),
        ("rss", "max_rss_bytes"),
    ])
}

static OWN: Groups<Options> = &[("commands", COMMANDS), ("output", OUTPUT)];

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
    sweep::run(&options, &common, output)
}
