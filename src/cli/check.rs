//! `premain check`: its flags.

use std::ffi::OsString;

use super::Verb;
use super::flag::{Documented, Groups, Row, Value, bind, documented, export, merged};
use super::parse::Order;
use super::shared::{COMMON, ROUNDS, read};
use crate::commands::check::{self, Export, Options};
use crate::commands::measuring::MeasureOptions;
use crate::error::{Exit, Result};
use crate::output::Output;
use crate::record::check::{GATES, GateMetric};

pub(super) const VERB: Verb = Verb {
    name: "check",
    usage: &["premain check [FLAGS] BASELINE ['CMD ARG...' ...]", "premain check [FLAGS] BASELINE -- CMD [ARG...]"],
    summary: "run a baseline's programs beside what replaced them; exit 1 where a regression is shown",
    flags,
    notes: "A baseline is what 'premain bench --save-baseline FILE --keep-binaries DIR' wrote. Without commands its own are\n\
            run as they are now. The default budget is 10s; where the old program is gone, its stored samples are compared\n\
            over the control, which is weaker and fails no gate.",
    run,
};

static CHECKS: &[Row<Options>] = &[
    Row::value(
        "metric",
        None,
        "NAME[=SHARE]",
        "what is gated: exit (default), byte, cpu, minflt, relocations, pages, lookups, objects, syscalls; may be repeated",
        |o: &mut Options, v| {
            o.gates.extend(metrics(v)?);
            Ok(())
        },
    ),
    Row::value(
        "max-slowdown",
        None,
        "SHARE",
        "increase of times that is allowed (default: what can be told from noise)",
        |o: &mut Options, v| {
            o.max_slowdown = Some(v.share()?);
            Ok(())
        },
    ),
    Row::switch("strict", None, "end with exit code 3 where a gate is not decided", |o: &mut Options, _| {
        o.strict = true;
        Ok(())
    }),
    Row::switch(
        "allow-changed",
        None,
        "compare in spite of other arguments, or stored samples of another host",
        |o: &mut Options, _| {
            o.allow_changed = true;
            Ok(())
        },
    ),
    Row::switch("accept-weak", None, "fail on what stored samples alone suggest, too", |o: &mut Options, _| {
        o.accept_weak = true;
        Ok(())
    })
    .rare(),
];

static OUTPUT: &[Row<Options>] = &[
    Row::value(
        "probes",
        None,
        "N",
        "starts observed afterwards to count system calls (default 3; 0: none)",
        |o: &mut Options, v| {
            o.probes = v.whole(0)?;
            Ok(())
        },
    ),
    Row::switch("github", None, "GitHub's annotations before the text", |o: &mut Options, _| {
        o.annotations = true;
        Ok(())
    }),
    export!("export-json", Export::Json, "write the document of --json; - for stdout"),
    export!("export-junit", Export::Junit, "write JUnit's XML, one test case a gate"),
    export!("export-markdown", Export::Markdown, "write the table for a page").rare(),
    export!("export-benchmark-action", Export::BenchmarkAction, "for github-action-benchmark (smaller is better)"),
    export!("export-bencher", Export::Bencher, "write Bencher's metric format").rare(),
];

static OWN: Groups<Options> = &[("checks", CHECKS), ("output", OUTPUT)];

/// A comma-separated list of metrics, each with a limit of its own or none.
fn metrics(v: Value<'_>) -> Result<Vec<(GateMetric, Option<f64>)>, String> {
    let one = |item: &str| {
        let (name, limit) = item.split_once('=').map_or((item, None), |(n, l)| (n, Some(l)));
        let names: Vec<&str> = GATES.iter().map(|g| g.name).collect();
        let metric = GateMetric::named(name.trim()).ok_or_else(|| format!("expected {}", names.join(", ")))?;
        let limit = limit.map(|l| Value(Some(l.as_ref())).share()).transpose()?;
        Ok((metric, limit))
    };
    v.text()?.split(',').map(one).collect()
}

/// Check measures longer than a look does: it has to find small differences on machines that others load.
const BUDGET_NS: u64 = 10_000_000_000;
const MAX_ROUNDS: u64 = 4000;

fn flags() -> Documented {
    merged([documented(OWN), documented(ROUNDS), documented(COMMON)].concat())
}

fn run(args: &[OsString], output: &mut Output<'_>) -> Result<Exit> {
    let mut options = Options::default();
    let mut measure =
        MeasureOptions { budget_ns: Some(BUDGET_NS), max_runs: Some(MAX_ROUNDS), ..MeasureOptions::default() };
    let mut own = (bind(OWN, &mut options), bind(ROUNDS, &mut measure));
    let Some((rest, common)) = read(&VERB, args, Order::Mixed, &mut [&mut own.0, &mut own.1], output)? else {
        return Ok(Exit::Done);
    };
    options.measure = measure;
    let mut words = rest.words.into_iter();
    options.file = words.next().map(Into::into);
    options.lines = words.collect();
    options.argv = rest.after_dashes;
    check::run(&options, &common, output)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metrics_are_a_list_with_limits() {
        let read = |t: &str| metrics(Value(Some(t.as_ref())));
        let got = read("exit,relocations=1%,minflt=0.5").unwrap();
        let got: Vec<_> = got.iter().map(|(m, l)| (m.name, *l)).collect();
        assert_eq!(got, [("exit", None), ("relocations", Some(0.01)), ("minflt", Some(0.5))]);
        assert!(read("exits").unwrap_err().contains("expected exit"));
        assert!(read("exit=x").unwrap_err().contains("share"));
    }
}
