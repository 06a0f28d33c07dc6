//! `premain stat` as a person calls it, and beside the real ministat.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stderr)]

mod support;

use std::path::{Path, PathBuf};
use std::process::Command;

use premain::json::Json;
use premain::stat::rng::Rng;
use support::{premain, run, scratch, tool};

const IGUANA: &str = "50\n200\n150\n400\n750\n400\n150\n";
const CHAMELEON: &str = "150\n400\n720\n500\n930\n";

fn write(dir: &Path, name: &str, text: &str) -> PathBuf {
    let path = dir.join(name);
    std::fs::write(&path, text).unwrap();
    path
}

/// Runs `premain stat` in `dir`.
fn stat(dir: &Path, args: &[&str]) -> (i32, String, String) {
    support::outcome(premain().current_dir(dir).arg("stat").args(args).output().unwrap())
}

fn lizards(test: &str) -> PathBuf {
    let dir = scratch(test);
    write(&dir, "iguana", IGUANA);
    write(&dir, "chameleon", CHAMELEON);
    dir
}

#[test]
fn the_two_lizards() {
    let dir = lizards("lizards");
    let (code, out, err) = stat(&dir, &["-c", "80", "-w", "60", "-s", "iguana", "chameleon"]);
    assert_eq!((code, err.as_str()), (0, ""));
    assert_eq!(
        out,
        "x iguana\n+ chameleon\n\
         +------------------------------------------------------------+\n\
         |       x               x                                    |\n\
         |x      *  x            *      +              + x           +|\n\
         | |________M______A_______________|                          |\n\
         |             |________________M__A___________________|      |\n\
         +------------------------------------------------------------+\n\
         \x20   N           Min           Max        Median           Avg        Stddev\n\
         x   7            50           750           200           300     238.04761\n\
         +   5           150           930           500           540     299.08193\n\
         Difference at 80.0% confidence\n\t240 +/- 212.243\n\t80% +/- 102.314%\n\
         \t(Student's t, pooled s = 264.159)\n\
         \t(Welch's t, variances of their own: 240 +/- 226.738)\n\
         \t(rank-sum test, no assumption of normality: p = 0.188, approximate)\n"
    );
    let (_, out, _) = stat(&dir, &["-q", "-A", "iguana", "chameleon"]);
    assert!(out.ends_with("299.08193\nNo difference proven at 95.0% confidence\n"), "{out}");
    // The true 99.5 % quantile for 10 degrees of freedom is 3.581; the value in ministat's table is 4.144.
    let (_, out, _) = stat(&dir, &["--json", "-c", "99.5", "iguana", "chameleon"]);
    let j = Json::parse(&out).unwrap();
    let d = &j.get("comparisons").and_then(Json::as_array).unwrap()[0];
    let width = d.get("pooled").and_then(|p| p.get("half_width")).and_then(Json::as_f64).unwrap();
    assert!((width - 553.9565).abs() < 0.0001, "{width}");
}

#[test]
fn columns_comments_line_ends_and_standard_input() {
    let dir = scratch("columns");
    write(&dir, "csv", "# a header\r\n1, 10\r\n2, 20 # note\r\n\r\n3, 30\r\n4\r\n");
    let (code, out, err) = stat(&dir, &["-n", "-C", "2", "-d", ",", "csv"]);
    assert_eq!(code, 0, "{err}");
    assert!(out.contains("x   3            10            30            20            20            10\n"), "{out}");
    assert!(err.contains("csv: 1 lines have no column 2"), "{err}");
    // `-` as the second file.
    write(&dir, "plain", "1\n2\n3\n");
    let piped = |args: &[&str]| {
        let input = std::fs::File::open(dir.join("csv")).unwrap();
        support::outcome(premain().current_dir(&dir).arg("stat").args(args).stdin(input).output().unwrap())
    };
    let (code, out, err) = piped(&["-A", "-d", ",", "plain", "-"]);
    assert_eq!(code, 0, "{err}");
    assert!(out.starts_with("x plain\n+ <stdin>\n") && out.contains("+   4 "), "{out}");
    assert_eq!(piped(&["-n", "-d", ","]).0, 0);
    assert_eq!(piped(&["-", "-"]).0, 2);
}

#[test]
fn what_it_cannot_do_is_exit_2_with_the_place() {
    let dir = scratch("faults");
    write(&dir, "two", "1\n2\n");
    write(&dir, "word", "1\n2\nthree\n4\n");
    write(&dir, "json", "{\"results\": []}");
    write(&dir, "torn", "{\"results\": [");
    write(&dir, "good", "1\n2\n3\n");
    std::fs::write(dir.join("binary"), [0xff, 0xfe, 0]).unwrap();
    for (args, part) in [
        (&["two"][..], "two: has 2 numbers; at least 3 are needed"),
        (&["word"], "word: line 3: not a number: \"three\""),
        (&["missing"], "missing: No such file"),
        (&["binary"], "binary: is not text"),
        (&["json"], "json: holds no command"),
        (&["torn"], "torn: not valid JSON at line 1"),
        (&["json", "good"], "cannot be compared with each other"),
        (&["-c", "0", "good"], "-c 0: expected a percentage"),
        (&["-c", "nan", "good"], "-c nan: expected a percentage"),
        (&["-C", "0", "good"], "-C 0: must be at least 1"),
        (&["good", "good", "good", "good", "good", "good", "good", "good"], "at most 7 files"),
    ] {
        let (code, out, err) = stat(&dir, args);
        assert_eq!((code, out.as_str()), (2, ""), "{args:?}: {err}");
        assert!(err.starts_with("premain: ") && err.contains(part) && err.lines().count() == 1, "{args:?}: {err}");
    }
}

#[test]
fn hyperfine_files_are_compared_with_the_caution_they_need() {
    let dir = scratch("hyperfine");
    let file = |scale: f64| {
        let mut rng = Rng::new(5);
        let times: Vec<String> = (0..40).map(|_| format!("{:.9}", scale * (1e-3 + 1e-4 * rng.unit()))).collect();
        format!(r#"{{"results":[{{"command":"true","mean":0.001,"times":[{}]}}]}}"#, times.join(","))
    };
    write(&dir, "old.json", &file(1.0));
    write(&dir, "new.json", &file(1.1));
    let (code, out, _) = stat(&dir, &["old.json", "new.json"]);
    assert_eq!(code, 0);
    assert!(out.contains("true of new.json against true of old.json: medians 1.1"), "{out}");
    assert!(out.contains("no verdict") && out.contains("33 to 76 of 100"), "{out}");
    let (_, out, _) = stat(&dir, &["--json", "old.json", "new.json"]);
    let j = Json::parse(&out).unwrap();
    assert_eq!(j.get("schema").and_then(Json::as_str), Some("premain.stat/1"));
    assert_eq!(j.get("warnings").and_then(Json::as_array).map(<[Json]>::len), Some(1));
    let (code, _, err) = stat(&dir, &["--metric", "cpu", "old.json"]);
    assert_eq!((code, err.contains("hyperfine's results have no cpu_ns")), (2, true), "{err}");
}

#[test]
fn an_artifact_of_bench_is_compared_within_its_rounds_and_over_its_control() {
    let dir = scratch("artifact");
    for file in ["one.json", "two.json"] {
        let args = ["bench", "-r", "12", "-w", "1", "--export-json", file, "/bin/true", "/bin/echo x"];
        let (code, _, err) = support::outcome(premain().current_dir(&dir).args(args).output().unwrap());
        assert_eq!(code, 0, "{err}");
    }
    let (code, out, err) = stat(&dir, &["one.json"]);
    assert_eq!(code, 0, "{err}");
    assert!(out.contains("12 pairs") && !out.contains("warning"), "{out}");
    let (_, out, _) = stat(&dir, &["one.json", "two.json"]);
    assert!(out.contains("the control moved") && out.contains("weakly") && out.contains("33 to 76"), "{out}");
    let (_, out, _) = stat(&dir, &["--metric", "byte", "one.json"]);
    assert!(out.contains("/bin/true: has no value of spawn_to_byte_ns"), "{out}");
    let (_, out, _) = stat(&dir, &["--metric", "minflt", "one.json"]);
    assert!(out.contains(", minflt: ") && !out.contains(" ns"), "{out}");
}

/// The parts of an output that both must agree on.
fn lines(out: &str, keep: fn(&str) -> bool) -> Vec<String> {
    out.lines().filter(|l| keep(l)).map(str::to_string).collect()
}

#[test]
fn plots_and_figures_agree_with_ministat_where_it_is_right() {
    let Some(ministat) = tool("ministat") else { return };
    let dir = scratch("ministat");
    let mut rng = Rng::new(77);
    for round in 0..30 {
        // Odd sizes: for even ones the Debian version takes the upper of the two middle values as median.
        let n = 3 + 2 * rng.index(20);
        let scale = [1.0, 1e-3, 1e6][round % 3];
        let numbers = |rng: &mut Rng| -> String {
            (0..n).map(|_| format!("{}\n", scale * (100.0 + rng.below(60) as f64))).collect()
        };
        write(&dir, "a", &numbers(&mut rng));
        write(&dir, "b", &numbers(&mut rng));
        let theirs = |args: &[&str]| {
            let (code, out, err) =
                support::outcome(Command::new(&ministat).current_dir(&dir).args(args).output().unwrap());
            assert_eq!(code, 0, "{err}");
            out
        };
        // One file: plot, bars, figures, every character.
        let args = ["-w", "60", "a"];
        assert_eq!(stat(&dir, &args).1, theirs(&args), "round {round}");
        // Two: bars and figures. Its marks are cut off at the height of the last file's, and its t has three digits.
        let args = ["-s", "-w", "70", "a", "b"];
        let both = [stat(&dir, &args).1, theirs(&args)];
        let figures =
            both.clone().map(|t| lines(&t, |l| l.contains('_') || l.starts_with("x ") || l.starts_with("+ ")));
        assert_eq!(figures[0], figures[1], "round {round}");
        // Legend, bars, figures.
        assert_eq!(figures[0].len(), 6, "{figures:?}");
        let shown = both.map(|t| t.contains("No difference proven"));
        assert_eq!(shown[0], shown[1], "round {round}");
    }
}

#[test]
fn help_names_every_flag_of_ministat() {
    let (code, out, _) = run(["stat", "--help"]);
    assert_eq!(code, 0);
    for flag in ["-A", "-C", "-c", "-d", "-n", "-q", "-s", "-w"] {
        assert!(out.contains(&format!("{flag},")), "{flag} is missing in:\n{out}");
    }
}
