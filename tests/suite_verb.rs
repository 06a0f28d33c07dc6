//! `premain suite`: the table of cases and binaries, marks of outputs, messages that name the line, formats that other
//! programs read.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stderr, reason = "tests")]

mod support;

use std::path::{Path, PathBuf};

use premain::json::Json;
use support::{outcome, premain, scratch, tool};

fn suite(dir: &Path, text: &str) -> PathBuf {
    let file = dir.join("s.ini");
    std::fs::write(&file, text).unwrap();
    file
}

fn run(dir: &Path, args: &[&str]) -> (i32, String, String) {
    outcome(premain().args(args).current_dir(dir).output().unwrap())
}

const SHELLS: &str = "[suite]\nname = one shell, twice\nrounds = 6\nreference = b\n\
    [binary a]\npath = sh\n[binary b]\npath = /bin/sh\nenv = WHO=b\n\
    [case quiet]\nargs = -c true\n\
    [case says who]\nargs = -c 'echo ${WHO-nobody}'\n\
    [case error]\ncommand = {bin} -c 'exit 3'\nexit = 3\n";

#[test]
fn cases_and_binaries_make_one_table_and_differing_output_is_marked() {
    let dir = scratch("suite_table");
    let file = suite(&dir, SHELLS);
    let (code, out, err) = run(Path::new("/"), &["suite", file.to_str().unwrap(), "--json"]);
    assert_eq!((code, err.as_str()), (0, ""));
    let j = Json::parse(&out).unwrap();
    assert_eq!(j.get("schema").and_then(Json::as_str), Some("premain.suite/1"));
    let text = |c: &Json, key: &str| c.get(key).and_then(Json::as_str).unwrap_or("-").to_string();
    let commands = j.get("commands").and_then(Json::as_array).unwrap();
    let rows: Vec<[String; 4]> =
        commands.iter().map(|c| ["case", "bin", "role", "output_mark"].map(|k| text(c, k))).collect();
    let row = |case: &str, bin: &str, role: &str, mark: &str| [case, bin, role, mark].map(str::to_string);
    assert_eq!(
        rows,
        [
            row("quiet", "a", "candidate", "same"),
            row("quiet", "b", "reference", "reference"),
            row("says who", "a", "candidate", "differs"),
            row("says who", "b", "reference", "reference"),
            row("error", "a", "candidate", "same"),
            row("error", "b", "reference", "reference"),
        ]
    );
    let starts = |c: &Json| c.get("starts").and_then(Json::as_u64);
    assert!(commands.iter().all(|c| starts(c) == Some(6) && c.get("failures").and_then(Json::as_u64) == Some(0)));
    let (code, out, _) = run(&dir, &["suite", "s.ini", "--case", "says who"]);
    assert_eq!(code, 0);
    assert!(out.starts_with("one shell, twice\n") && out.contains("floor"), "{out}");
    assert!(out.contains("output differs: says who: a writes 7 bytes, b 2 bytes") && !out.contains("error "), "{out}");
}

#[test]
fn what_a_case_expects_is_checked() {
    let dir = scratch("suite_expects");
    std::fs::write(dir.join("want.txt"), "nobody\n").unwrap();
    let same = SHELLS.replace("[case error]", "output = same\n[case error]");
    suite(&dir, &same);
    let (code, _, err) = run(&dir, &["suite", "s.ini", "-r", "2", "--probes", "0"]);
    assert_eq!(code, 4);
    assert!(err.contains("says who / a: its standard output is not the reference's"), "{err}");
    suite(&dir, &SHELLS.replace("[case error]", "output = want.txt\nbinaries = a\n[case error]"));
    let (code, out, err) = run(&dir, &["suite", "s.ini", "-r", "2", "--probes", "0"]);
    assert_eq!(code, 0, "{err}");
    assert!(!out.contains("says who / b"), "{out}");
    suite(&dir, &SHELLS.replace("exit = 3", "exit = 4"));
    let (code, _, err) = run(&dir, &["suite", "s.ini", "-r", "2"]);
    assert_eq!(code, 4);
    assert!(err.contains("error / ") && err.contains("exit code 3 in round 1"), "{err}");
}

#[test]
fn each_round_gets_its_own_directory() {
    let dir = scratch("suite_round");
    suite(
        &dir,
        "[binary sh]\npath = sh\n[case fresh]\ncwd = work\nsetup-round = sh -c 'rm -rf work && mkdir work && touch work/fresh && echo x >> rounds'\n\
         args = -c 'test -e fresh && pwd'\nstdin = s.ini\n",
    );
    let args = ["suite", "s.ini", "-r", "5", "-w", "2", "--probes", "0", "--json", "--save-baseline", "b.json"];
    let (code, out, err) = run(&dir, &args);
    assert_eq!(code, 0, "{err}");
    assert_eq!(std::fs::read_to_string(dir.join("rounds")).unwrap().lines().count(), 7, "warm-up rounds too");
    assert!(out.contains("\"constant\": true"));
    // The baseline knows all that: check makes the directory again, in the right place.
    std::fs::remove_dir_all(dir.join("work")).unwrap();
    let args =
        ["check", dir.join("b.json").to_str().unwrap(), "-r", "2", "-w", "0", "--probes", "0", "--metric", "objects"]
            .map(str::to_string);
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let (code, _, err) = run(Path::new("/"), &args);
    assert_eq!(code, 0, "{err}");
    assert!(dir.join("work/fresh").exists());
}

#[test]
fn a_binary_can_be_another_one_for_a_run() {
    let dir = scratch("suite_binary");
    let file = suite(&dir, "[binary x]\npath = ./nowhere\n[case c]\n");
    let (code, _, err) = run(&dir, &["suite", "s.ini", "-r", "2"]);
    assert_eq!(code, 4);
    assert!(err.starts_with("premain: s.ini: [binary x]: ") && err.contains("nowhere"), "{err}");
    let (code, _, err) = run(&dir, &["suite", "s.ini", "-r", "2", "--binary", "x=/bin/true", "--probes", "0"]);
    assert_eq!(code, 0, "{err}");
    let (code, _, err) = run(&dir, &["suite", "s.ini", "--binary", "y=/bin/true"]);
    assert_eq!((code, err.as_str()), (2, "premain: s.ini: --binary: has no binary 'y'\n"));
    let (code, _, err) = run(&dir, &["suite", "s.ini", "--case", "d"]);
    assert_eq!((code, err.as_str()), (2, "premain: s.ini: --case: has no case 'd'\n"));
    std::fs::write(&file, "[binary x]\npaths = a\n").unwrap();
    let (code, _, err) = run(&dir, &["suite", "s.ini"]);
    assert_eq!((code, err.as_str()), (2, "premain: s.ini: line 2: paths: no such key here: expected path, env\n"));
    let (code, _, err) = run(&dir, &["suite", "nowhere.ini"]);
    assert_eq!((code, err.as_str()), (2, "premain: nowhere.ini: No such file or directory\n"));
    assert_eq!(run(&dir, &["suite"]).0, 2);
    assert_eq!(run(&dir, &["suite", "a", "b"]).0, 2);
}

#[test]
fn formats_are_read_by_real_readers() {
    let Some(jq) = tool("jq") else { return };
    let dir = scratch("suite_formats");
    suite(&dir, SHELLS);
    let exports = ["json", "csv", "markdown", "benchmark-action", "bencher"];
    let flags: Vec<String> = exports.iter().map(|e| format!("--export-{e}=out.{e}")).collect();
    let args: Vec<&str> = ["suite", "s.ini"].into_iter().chain(flags.iter().map(String::as_str)).collect();
    let (code, _, err) = run(&dir, &args);
    assert_eq!(code, 0, "{err}");
    let jq = |filter: &str, file: &str| {
        let done = std::process::Command::new(&jq).args(["-c", filter]).arg(dir.join(file)).output().unwrap();
        outcome(done)
    };
    let (code, out, _) = jq(r#"[.schema, (.commands|length), (.commands[2].samples.round|length)]"#, "out.json");
    assert_eq!((code, out.trim()), (0, r#"["premain.suite/1",6,6]"#));
    assert_eq!(jq("map(select(.unit == \"ns\"))|length > 5", "out.benchmark-action").1.trim(), "true");
    assert_eq!(jq("keys|length", "out.bencher").1.trim(), "6");
    let csv = std::fs::read_to_string(dir.join("out.csv")).unwrap();
    assert_eq!(csv.lines().count(), 1 + 8 * 6);
    let markdown = std::fs::read_to_string(dir.join("out.markdown")).unwrap();
    let columns: Vec<usize> = markdown.lines().filter(|l| l.starts_with('|')).map(|l| l.matches('|').count()).collect();
    assert!(columns.len() == 9 && columns.iter().all(|n| *n == columns[0]), "{markdown}");
}
