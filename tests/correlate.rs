//! `premain correlate` as a person calls it: on planted costs, on a bench of this machine, on documents that do not fit.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot prepare has failed")]

mod support;

use std::fmt::Write;
use std::path::Path;

use premain::json::Json;
use premain::stat::rng::Rng;
use support::{run, scratch};

/// What the written programs cost: a start, a page, a relative relocation, a look-up.
const START_NS: f64 = 120_000.0;
const PAGE_NS: f64 = 2_100.0;
const RELATIVE_NS: f64 = 4.0;
const LOOKUP_NS: f64 = 90.0;

/// One experiment a line, as `linker-experiments/run` keeps them, with costs known to us.
fn planted(path: &Path, programs: usize) {
    let mut rng = Rng::new(11);
    let mut text = String::new();
    for i in 0..programs {
        // A thousandth in most programs, so that no count dwarfs the others everywhere.
        let size = if i % 3 == 0 { 1000 } else { 1 };
        let (pages, relative, lookups) = (rng.below(3 * size) + 1, rng.below(900 * size) + 1, rng.below(60 * size) + 1);
        let noise = 1.0 + 0.02 * (rng.unit() - 0.5);
        let time = START_NS + PAGE_NS * pages as f64 + RELATIVE_NS * relative as f64 + LOOKUP_NS * lookups as f64;
        let ns = (time * noise) as u64;
        writeln!(
            text,
            r#"{{"schema":"premain.experiment/1","bench":{{"commands":[{{"name":"p{i}","path":"p{i}",
            "exec_to_exit_ns":{{"p50":{ns},"p50_ci95":[{},{}]}}}}]}},"inspect":{{"files":[{{"path":"p{i}",
            "libc":"glibc","interp":"/lib/ld.so","closure":{{"totals":{{"objects":3,"pages_written":{pages},
            "relative":{relative},"lookups":{lookups},"probes":{lookups}}}}}}}]}}}}"#,
            ns - 9,
            ns + 9
        )
        .map(|()| text = text.replace(",\n            ", ","))
        .unwrap();
    }
    std::fs::write(path, text).unwrap();
}

fn term<'a>(document: &'a Json, name: &str) -> &'a Json {
    let terms = document.get("terms").and_then(Json::as_array).unwrap();
    terms.iter().find(|t| t.get("name").and_then(Json::as_str) == Some(name)).expect("the term is there")
}

#[test]
fn planted_costs_come_out_and_the_odd_program_is_named() {
    let dir = scratch("correlate");
    let data = dir.join("data.jsonl");
    planted(&data, 60);
    let (code, out, err) = run(["correlate", "--json", data.to_str().unwrap()]);
    assert_eq!((code, err.as_str()), (0, ""));
    let j = Json::parse(&out).unwrap();
    let planted = [("start", START_NS), ("page written", PAGE_NS), ("relative", RELATIVE_NS), ("look-up", LOOKUP_NS)];
    for (name, truth) in planted {
        let t = term(&j, name);
        let cost = t.get("unit_ns").and_then(Json::as_f64).unwrap();
        let ci = t.get("ci95").and_then(Json::as_array).unwrap();
        let ends = [ci[0].as_f64().unwrap(), ci[1].as_f64().unwrap()];
        assert!((cost / truth - 1.0).abs() < 0.1, "{name}: {cost}");
        // One interval in twenty misses; none misses by its own width.
        assert!((cost - truth).abs() < ends[1] - ends[0], "{name}: {cost} in {ends:?}");
        assert!(ends[0] < cost && cost < ends[1] && ends[1] - ends[0] < 0.2 * truth, "{name}: {ends:?}");
    }
    assert!(j.get("r_squared").and_then(Json::as_f64).unwrap() > 0.99);
    // What does not differ is named, not fitted.
    let constant = j.get("constant_counts").unwrap().to_string();
    assert!(constant.contains("glibc") && constant.contains("irelative"), "{constant}");

    // One program takes three times what its counts say.
    let text = std::fs::read_to_string(&data).unwrap();
    let line = text.lines().nth(20).unwrap();
    let one = Json::parse(line).unwrap();
    let command = &one.get("bench").and_then(|b| b.get("commands")).and_then(Json::as_array).unwrap()[0];
    let ns = command.get("exec_to_exit_ns").and_then(|s| s.get("p50")).and_then(Json::as_u64).unwrap();
    let odd = line.replace(&format!("\"p50\":{ns}"), &format!("\"p50\":{}", 3 * ns));
    std::fs::write(&data, text.replace(line, &odd)).unwrap();
    let svg = dir.join("plot.svg");
    let (code, out, err) = run(["correlate", "--svg", svg.to_str().unwrap(), data.to_str().unwrap()]);
    assert_eq!((code, err.as_str()), (0, ""));
    let worst = out.lines().skip_while(|l| !l.starts_with("programs that fit worst")).nth(2).unwrap();
    assert!(worst.starts_with("p20 "), "{out}");
    assert!(out.contains('✕') && out.contains('╱'), "{out}");
    let image = std::fs::read_to_string(svg).unwrap();
    assert_eq!(image.matches("<circle").count(), 60);
    assert!(image.contains("class=\"m\"><title>p20: measured "), "{image}");
}

#[test]
fn a_bench_alone_is_enough_where_its_programs_are_still_there() {
    let dir = scratch("correlate-bench");
    let me = env!("CARGO_BIN_EXE_premain");
    let bench = dir.join("bench.json");
    let words = ["--runs", "2", "--warmup", "0", "--probes", "0"];
    let command = format!("'{me}' --version");
    let mut args = vec!["bench"];
    args.extend(words);
    args.extend(["--export-json", bench.to_str().unwrap(), &command, &command, &command, &command]);
    let (code, _, err) = run(args);
    assert_eq!(code, 0, "{err}");
    let (code, out, err) = run(["correlate", "--json", bench.to_str().unwrap()]);
    assert_eq!((code, err.as_str()), (0, ""));
    let j = Json::parse(&out).unwrap();
    assert_eq!(j.get("programs").and_then(Json::as_array).unwrap().len(), 4);
    // Four times the same program: all is one constant.
    assert_eq!(j.get("terms").and_then(Json::as_array).unwrap().len(), 1);
    let (code, _, err) = run(["correlate", "--no-inspect", bench.to_str().unwrap()]);
    assert_eq!(code, 2);
    assert!(err.ends_with("premain: no program has both facts and a value of exec_to_exit_ns\n"), "{err}");
}

#[test]
fn each_fault_has_its_own_message() {
    let dir = scratch("correlate-faults");
    let write = |name: &str, text: &str| {
        let path = dir.join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_string()
    };
    let few = dir.join("few");
    planted(&few, 5);
    let trace = write("trace", r#"{"schema":"premain.trace/1"}"#);
    let broken = write("broken", "{\n");
    let other = write("other", r#"{"a":1}"#);
    for (args, part) in [
        (vec![], "no results given"),
        (vec![dir.join("none").to_str().unwrap()], "none: No such file or directory"),
        (vec![&trace], "has schema premain.trace/1"),
        (vec![&broken], "broken: not valid JSON at line 2"),
        (vec![&other], "is JSON of neither bench nor inspect"),
        (vec![few.to_str().unwrap()], "5 programs for 3 counts that differ between them: at least 7 are needed"),
        (vec!["--across", "colour", &trace], "--across colour: no such count; there are fitted, glibc, loader"),
    ] {
        let mut words = vec!["correlate"];
        words.extend(args);
        let (code, out, err) = run(&words);
        assert_eq!((code, out.as_str()), (2, ""), "{words:?}");
        assert!(err.contains(part), "{words:?}: {err}");
    }
}

/// The results that are kept can be read by what reads them, and say nothing of the machine that they come from.
#[test]
fn kept_results_can_be_correlated() {
    let kept = Path::new(env!("CARGO_MANIFEST_DIR")).join("linker-experiments/results/data.jsonl");
    let text = std::fs::read_to_string(&kept).unwrap();
    assert!(!text.contains("\"/tmp") && !text.contains("/home/"), "paths of a machine");
    let (code, out, err) = run(["correlate", "--json", "--no-inspect", kept.to_str().unwrap()]);
    assert_eq!(code, 0, "{err}");
    let programs = Json::parse(&out).unwrap().get("programs").and_then(Json::as_array).map_or(0, <[Json]>::len);
    assert!(programs > 80, "{programs} programs\n{out}");
}
