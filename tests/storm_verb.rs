//! `premain storm`: everything that was started is accounted for, nothing is left behind, a typo is capped.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stderr, reason = "tests")]

mod support;

use std::process::{Command, Stdio};

use premain::json::Json;
use support::{outcome, premain, run, scratch, tool};

fn json(args: &[&str]) -> Json {
    let (code, out, err) = run(args);
    assert_eq!(code, 0, "{err}");
    Json::parse(&out).unwrap()
}

fn count(j: &Json, path: &[&str]) -> u64 {
    path.iter().fold(j, |j, key| j.get(key).unwrap_or(&Json::Null)).as_u64().unwrap_or(u64::MAX)
}

#[test]
fn every_start_of_every_level_is_accounted_for() {
    let j = json(&["storm", "-c", "5,1,3", "-r", "7", "--json", "--", "true"]);
    assert_eq!(j.get("schema").and_then(Json::as_str), Some("premain.storm/1"));
    let levels = j.get("levels").and_then(Json::as_array).unwrap();
    let seen: Vec<[u64; 4]> = levels
        .iter()
        .map(|l| {
            let side = |s: &str| count(l, &[s, "starts"]);
            [count(l, &["concurrency"]), side("command"), side("control"), count(l, &["command", "all_exited_ns", "n"])]
        })
        .collect();
    assert_eq!(seen, [[1, 7, 7, 7], [3, 21, 21, 7], [5, 35, 35, 7]]);
    for l in levels {
        // None ends before the last one does, and the common start is before all.
        let last = count(l, &["command", "all_exited_ns", "max"]);
        assert!(count(l, &["command", "start_to_exit_ns", "max"]) <= last);
        assert!(count(l, &["command", "failures"]) == 0 && count(l, &["vs_control", "pairs"]) == 7);
    }
}

#[test]
fn the_text_has_a_row_a_level_and_says_how_it_was_done() {
    let (code, out, err) = run(["storm", "-c", "1,8", "-r", "6", "--", "true"]);
    assert_eq!(code, 0, "{err}");
    assert!(out.contains("starts") && out.contains("wait at a gate"), "{out}");
    assert!(out.contains("scales up to") || out.contains("more at once brought more"), "{out}");
}

#[test]
fn failures_end_it_with_their_reason() {
    for (args, code, part) in [
        (&["storm", "-c", "300", "--", "true"][..], 2, "--concurrency: 300 at once are more than 256"),
        (&["storm", "-c", "200", "-r", "1000", "--", "true"], 2, "--runs: 1000 rounds are 400,000 starts"),
        (&["storm", "-c", "0", "--", "true"], 2, "expected numbers of at least 1"),
        (&["storm", "-c", "1,x", "--", "true"], 2, "expected numbers"),
        (&["storm"], 2, "no command given"),
        (&["storm", "true", "true"], 2, "one command at a time"),
        (&["storm", "--stdout", "pty", "--", "true"], 2, "/dev/null"),
        (&["storm", "-c", "3", "--", "/no/such/program"], 4, "No such file"),
        (&["storm", "-c", "3", "--", "false"], 4, "false: exit code 1 with 1 at once"),
        (&["storm", "-c", "3", "--cwd", "/no/such", "--", "true"], 2, "--cwd /no/such"),
        (&["storm", "-c", "3", "--timeout", "80ms", "--", "sleep", "60"], 124, "still ran after 80.0 ms"),
    ] {
        let (got, out, err) = run(args);
        assert_eq!((got, out.as_str()), (code, ""), "{args:?}: {err}");
        assert!(err.contains(part) && err.lines().count() == 1, "{args:?}: {err}");
    }
    // An expected end is none of these.
    let j = json(&["storm", "-c", "2", "-r", "2", "--expect-exit", "1", "--json", "--", "false"]);
    assert_eq!(count(j.get("levels").and_then(Json::as_array).unwrap().first().unwrap(), &["command", "failures"]), 0);
}

#[test]
fn every_start_reads_its_own_input() {
    let dir = scratch("storm_stdin");
    let file = dir.join("in");
    std::fs::write(&file, "first\nsecond\n").unwrap();
    let script = "read x && test \"$x\" = first";
    let (code, _, err) =
        run(["storm", "-c", "16", "-r", "3", "--stdin", file.to_str().unwrap(), "--", "sh", "-c", script]);
    assert_eq!(code, 0, "{err}");
    let (code, _, err) = run(["storm", "--stdin", "/no/such/file", "--", "true"]);
    assert_eq!((code, err.contains("--stdin /no/such/file")), (2, true), "{err}");
}

#[test]
fn an_interrupt_keeps_what_is_complete_and_leaves_no_process() {
    let dir = scratch("storm_interrupt");
    // A program of a name that nothing else has: those that are left can be told from all others.
    let mark = format!("storm-{}", std::process::id());
    let program = dir.join(&mark);
    std::fs::copy("/bin/sleep", &program).unwrap();
    let child = premain()
        .args(["storm", "-c", "1,12", "-r", "3000", "--json", "--"])
        .arg(&program)
        .arg("0.02")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    std::thread::sleep(std::time::Duration::from_secs(3));
    assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
    let (code, out, err) = outcome(child.wait_with_output().unwrap());
    assert_eq!(code, 130, "{err}");
    let j = Json::parse(&out).unwrap();
    assert_eq!(j.get("setting").and_then(|s| s.get("interrupted")).and_then(Json::as_bool), Some(true));
    let rounds = count(&j, &["setting", "rounds"]);
    let levels = j.get("levels").and_then(Json::as_array).unwrap();
    assert!(rounds > 0 && count(&levels[1], &["command", "starts"]) == 12 * rounds);
    let left = std::fs::read_dir("/proc").unwrap().filter_map(Result::ok).filter(|e| {
        std::fs::read_to_string(e.path().join("comm")).is_ok_and(|c| mark.starts_with(c.trim()) && c.trim().len() > 6)
    });
    assert_eq!(left.count(), 0);
}

#[test]
fn formats_are_read_by_real_readers() {
    let Some(jq) = tool("jq") else { return };
    let dir = scratch("storm_formats");
    let file = |name: &str| dir.join(name).to_str().unwrap().to_string();
    let flags = ["json", "markdown"].map(|e| format!("--export-{e}={}", file(e)));
    let (code, _, err) = run(["storm", "-c", "1,4", "-r", "6", &flags[0], &flags[1], "--", "true"]);
    assert_eq!(code, 0, "{err}");
    let filter = "[.schema, (.levels|length), (.levels[1].command.starts_per_second|type), .setting.rounds]";
    let read = Command::new(jq).args(["-c", filter]).arg(dir.join("json")).output().unwrap();
    assert_eq!(outcome(read).1.trim(), r#"["premain.storm/1",2,"number",6]"#);
    let table = std::fs::read_to_string(dir.join("markdown")).unwrap();
    let columns: Vec<usize> = table.lines().filter(|l| l.starts_with('|')).map(|l| l.matches('|').count()).collect();
    assert!(columns.len() == 4 && columns.iter().all(|n| *n == columns[0]), "{table}");
}
