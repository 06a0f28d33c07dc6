//! `premain sweep`: a slope that is known exactly, a bend that is there, what is refused, formats that others read.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stderr, reason = "tests")]

mod support;

use premain::json::Json;
use support::{outcome, program, run, scratch, tool};

fn json(args: &[&str]) -> Json {
    let (code, out, err) = run(args);
    assert_eq!(code, 0, "{err}");
    Json::parse(&out).unwrap()
}

fn number(j: &Json, path: &[&str]) -> f64 {
    path.iter().fold(j, |j, key| j.get(key).unwrap_or(&Json::Null)).as_f64().unwrap_or(f64::NAN)
}

/// A page more is a fault more: a slope that needs no clock.
#[test]
fn a_page_more_is_a_fault_more() {
    let dir = scratch("sweep_pages");
    let Some(pages) = program(&dir, "pages") else { return };
    let pages = pages.to_str().unwrap();
    let j = json(&["sweep", "-P", "N=0..800:200", "-r", "12", "--metric", "minflt", "--json", "--", pages, "{N}"]);
    assert_eq!(j.get("schema").and_then(Json::as_str), Some("premain.sweep/1"));
    let slope = number(&j, &["line", "slope"]);
    assert!((slope - 1.0).abs() < 0.03, "{slope}");
    assert_eq!(j.get("commands").and_then(Json::as_array).map(<[Json]>::len), Some(5));
    let x: Vec<f64> = j.get("commands").and_then(Json::as_array).unwrap().iter().map(|c| number(c, &["x"])).collect();
    assert_eq!(x, [0.0, 200.0, 400.0, 600.0, 800.0]);
}

/// The same argument in an environment of variables: 0, 800, 0, 800 is no line.
#[test]
fn a_cost_that_jumps_is_called_no_line_and_the_place_is_named() {
    let dir = scratch("sweep_bend");
    let Some(pages) = program(&dir, "pages") else { return };
    let script = format!("test $N -eq 2 && exec {} 900; exec {} 0", pages.display(), pages.display());
    let args =
        ["sweep", "-L", "N=1,2,3,4", "-r", "40", "--metric", "minflt", "--env", "N={N}", "--", "sh", "-c", &script];
    let (code, out, err) = run(args);
    assert_eq!(code, 0, "{err}");
    assert!(out.contains("not a straight line: at N=2 it lies +") && out.contains('●'), "{out}");
}

#[test]
fn words_have_a_table_and_no_line() {
    let (code, out, err) = run(["sweep", "-L", "P=true,sh", "-r", "6", "--", "{P}", "-c", ":"]);
    assert_eq!(code, 0, "{err}");
    assert!(out.contains("P is no number: no line is drawn") && out.contains("95 % of"), "{out}");
    // A program that writes nothing has no first byte to draw a line through.
    let (_, out, _) = run(["sweep", "-L", "N=1,2", "-r", "6", "--metric", "byte", "--", "true", "{N}"]);
    assert!(out.contains("not every start gave this figure (first byte)"), "{out}");
}

#[test]
fn hooks_know_the_value_too() {
    let dir = scratch("sweep_hooks");
    let log = dir.join("log");
    let hook = |what: &str| format!("sh -c 'echo {what} {{N}} >> {}'", log.display());
    let (code, _, err) = run([
        "sweep",
        "-L",
        "N=7,8",
        "-r",
        "2",
        "-w",
        "0",
        "--setup",
        &hook("setup"),
        "--setup-round",
        &hook("round"),
        "--cleanup",
        &hook("cleanup"),
        "--",
        "true",
    ]);
    assert_eq!(code, 0, "{err}");
    let log = std::fs::read_to_string(log).unwrap();
    let expected = "setup 7\nsetup 8\nround 7\nround 8\nround 7\nround 8\ncleanup 7\ncleanup 8\n";
    assert_eq!(log, expected);
}

#[test]
fn what_makes_no_sense_is_refused() {
    for (args, part) in [
        (&["sweep", "--", "true"][..], "no parameter given"),
        (&["sweep", "-L", "N=1,2"], "no command given"),
        (&["sweep", "-L", "N=1,2", "--", "true"], "'{N}' stands nowhere"),
        (&["sweep", "-L", "N=1,2", "-P", "M=1..2", "--", "true", "{N}"], "one parameter at a time"),
        (&["sweep", "-P", "N=1..1000", "--", "true", "{N}"], "-P N=1..1000: has more than 200 points"),
        (&["sweep", "-L", "N=1,2", "true {N}", "true"], "one command at a time"),
        (&["sweep", "-L", "N=1,2", "--metric", "speed", "--", "true", "{N}"], "expected exit, byte"),
    ] {
        let (code, out, err) = run(args);
        assert_eq!((code, out.as_str()), (2, ""), "{args:?}");
        assert!(err.contains(part), "{args:?}: {err}");
    }
}

#[test]
fn formats_are_read_by_real_readers() {
    let Some(jq) = tool("jq") else { return };
    let dir = scratch("sweep_formats");
    let file = |name: &str| dir.join(name).to_str().unwrap().to_string();
    let flags = ["json", "csv", "markdown"].map(|e| format!("--export-{e}={}", file(e)));
    let mut args = vec!["sweep", "-L", "S=0KiB,4KiB,8KiB", "-r", "8", "--env", "X={S}"];
    args.extend(flags.iter().map(String::as_str));
    args.extend(["--", "true"]);
    let (code, _, err) = run(args);
    assert_eq!(code, 0, "{err}");
    let filter = "[.schema, .parameter.kind, .commands[1].x, .commands[2].parameters.S, (.commands[0].samples.round|length), (.line.departures|length)]";
    let read = std::process::Command::new(jq).args(["-c", filter]).arg(dir.join("json")).output().unwrap();
    assert_eq!(outcome(read).1.trim(), r#"["premain.sweep/1","bytes",4096,"8KiB",8,3]"#);
    assert_eq!(std::fs::read_to_string(dir.join("csv")).unwrap().lines().count(), 1 + 8 * 5);
    let markdown = std::fs::read_to_string(dir.join("markdown")).unwrap();
    assert!(markdown.contains("| 4KiB |") && markdown.contains("slope:"), "{markdown}");
}
