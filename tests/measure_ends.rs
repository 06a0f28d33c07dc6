//! How commands end, how we end them, and what they leave behind.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test that cannot prepare has failed")]
#![cfg(target_os = "linux")]

mod support;

use std::path::Path;
use std::process::Command;

use premain::json::Json;
use support::{
    at, bench, command, document, number, outcome, premain, processes_with, scratch, skip, tool, unique_sleep,
};

fn warned(j: &Json, of: &str) -> bool {
    at(j, "warnings").as_array().unwrap().iter().any(|w| w.as_str().unwrap().contains(of))
}

// -- how commands end --

#[test]
fn killed_commands_are_kept_and_labelled_where_accepted() {
    for (signal, code) in [("KILL", "137"), ("SEGV", "139"), ("ALRM", "142"), ("PIPE", "141")] {
        let line = format!("sh -c 'kill -{signal} $$'");
        let (exit, j, err) = bench(["-r", "3", "-i", &line]);
        assert_eq!((exit, err.as_str()), (0, ""), "{signal}");
        assert_eq!(number(command(&j, 0), &format!("exit_codes.{code}")), 3);
        assert_eq!(number(command(&j, 0), "failures"), 3);
        let (exit, _, err) = bench(["-r", "3", &line]);
        assert!(exit == 4 && err.contains(&format!("(SIG{signal})")), "{exit} {err}");
    }
}

#[test]
fn a_command_that_stops_itself_runs_into_its_limit_and_says_why() {
    let (code, j, err) = bench(["-r", "2", "--timeout", "300ms", "sh -c 'kill -STOP $$; exit 0'"]);
    assert_eq!((code, j), (124, Json::Null));
    assert!(
        err.ends_with("still running after 300 ms (--timeout sets the limit); it was stopped by SIGSTOP\n"),
        "{err}"
    );
}

// -- what they leave behind --

#[test]
fn a_grandchild_that_holds_the_pipe_is_not_waited_for() {
    let sleep = unique_sleep(50, 1);
    let line = format!("sh -c 'sleep {sleep} & echo hi'");
    // Waiting for the pipe would be 50 minutes, and the limit would end it.
    let (code, j, err) = bench(["-r", "5", "--timeout", "60s", &line]);
    assert_eq!((code, err.as_str()), (0, ""));
    let c = command(&j, 0);
    assert_eq!((number(c, "stdout_held_open"), number(c, "output.bytes")), (5, 3));
    assert!(warned(&j, "held its output open in 5 of 5 starts"));
    assert_eq!(processes_with(&sleep), [] as [i32; 0]);
}

#[test]
fn nothing_is_left_in_the_group_of_a_command() {
    let sleep = unique_sleep(50, 2);
    for stdout in ["pipe", "null", "pty"] {
        let line = format!("sh -c 'sleep {sleep} </dev/null >/dev/null 2>&1 &'");
        let (code, _, err) = bench(["-r", "5", "--stdout", stdout, &line]);
        assert_eq!((code, err.as_str()), (0, ""));
        assert_eq!(processes_with(&sleep), [] as [i32; 0], "{stdout}");
    }
}

#[test]
fn daemons_are_counted_named_and_ended_after_the_run() {
    let Some(_) = tool("setsid") else { return };
    let (dir, sleep) = (scratch("ends-daemon"), unique_sleep(50, 3));
    // As with a client that starts its server once: the first start leaves it, once it is in its own session.
    let server = format!("setsid sh -c \"touch $0; exec sleep {sleep}\" >/dev/null 2>&1 &");
    let line =
        format!("sh -c '[ -e $0 ] || {{ {server} while [ ! -e $0 ]; do sleep 0.001; done; }}' {}/up", dir.display());
    let (code, j, err) = bench(["-r", "4", &line]);
    assert_eq!((code, err.as_str()), (0, ""));
    let names = at(&j, "setting.left_behind").as_array().unwrap();
    assert!(names.len() == 1 && ["sh", "sleep"].contains(&names[0].as_str().unwrap()), "{names:?}");
    assert!(warned(&j, "1 process that the commands left behind ran until we ended them"));
    assert_eq!(processes_with(&sleep), [] as [i32; 0]);
}

#[test]
fn what_is_to_be_kept_is_left_running() {
    let Some(kill) = tool("kill") else { return };
    let sleep = unique_sleep(1, 4);
    let line = format!("sh -c 'sleep {sleep} </dev/null >/dev/null 2>&1 &'");
    let (code, j, err) = bench(["-r", "2", "--keep", &line]);
    let left = processes_with(&sleep);
    Command::new(kill).args(left.iter().map(ToString::to_string)).status().unwrap();
    assert_eq!((code, err.as_str(), left.len()), (0, "", 2));
    assert!(warned(&j, "2 processes that the commands left behind still run: "));
}

#[test]
fn what_ends_later_does_not_fill_the_table_of_processes() {
    let Some(_) = tool("setsid") else { return };
    // Each start leaves a daemon that ends soon, and fails where we have more than a few children by then.
    let line = "sh -c 'setsid true & set -- $(cat /proc/$PPID/task/$PPID/children) || exit 9; [ $# -lt 20 ]'";
    let (code, _, err) = bench(["-r", "100", line]);
    if err.contains("exit code 9") {
        return skip("the kernel does not list children (CONFIG_PROC_CHILDREN)");
    }
    assert_eq!((code, err.as_str()), (0, ""));
}

// -- how we end them --

#[test]
fn a_limit_ends_all_that_runs() {
    let Some(python) = tool("python3") else { return };
    let sleep = unique_sleep(50, 5);
    let ignores = format!("sh -c 'trap \"\" TERM; sleep {sleep}; sleep {sleep}'");
    // A daemon that ignores TERM too, in a session that no signal to the group reaches.
    let escapes = format!(
        "{} -c 'import os,signal\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\nif os.fork() == 0:\n os.setsid()\n \
         os.execvp(\"sleep\", [\"sleep\", \"{sleep}\"])\nos.wait()'",
        python.display()
    );
    for line in [format!("sleep {sleep}"), ignores, escapes] {
        for stdout in ["pipe", "null"] {
            let (code, j, err) = bench(["-r", "2", "--timeout", "400ms", "--stdout", stdout, &line]);
            assert_eq!((code, &j), (124, &Json::Null), "{err}");
            assert!(err.contains("still running after 400 ms (--timeout sets the limit)"), "{err}");
            assert_eq!(processes_with(&sleep), [] as [i32; 0], "{line}");
        }
    }
}

/// A command that sends these signals to its parent, which is premain, in its `at`-th start.
fn signals(dir: &Path, at: u32, signals: &str, then: &str) -> String {
    let count = dir.join("count");
    let kills: String = signals.split(' ').map(|s| format!("kill -{s} $PPID; ")).collect();
    format!("sh -c 'echo >>\"$0\"; [ $(wc -l <\"$0\") -ne {at} ] || {{ {kills}{then}; }}' {}", count.display())
}

/// Whether we were started to ignore a signal.
fn ignored(signal: u32) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|l| l.strip_prefix("SigIgn:")).map(str::trim).unwrap_or("0");
    u64::from_str_radix(mask, 16).unwrap_or(0) >> (signal - 1) & 1 == 1
}

#[test]
fn an_interrupt_keeps_complete_rounds() {
    for (signal, number_of) in [("INT", 2), ("TERM", 15), ("HUP", 1)] {
        if ignored(number_of) {
            skip(&format!("this test was started to ignore SIG{signal} (nohup?), and so is premain"));
            continue;
        }
        let dir = scratch(&format!("ends-{signal}"));
        let (cleaned, artifact) = (dir.join("cleaned"), dir.join("artifact.json"));
        let line = signals(&dir, 8, signal, "exec sleep 3600");
        let cleanup = format!("touch {}", cleaned.display());
        let export = artifact.to_str().unwrap();
        let (code, _, err) =
            bench(["-r", "1000000", "--cleanup", &cleanup, "--export-json", export, "--timeout", "0", &line, "true"]);
        assert_eq!((code, err.as_str()), (130, ""), "{signal}");
        let j = Json::parse(&std::fs::read_to_string(&artifact).unwrap()).unwrap();
        assert_eq!(*at(&j, "setting.interrupted"), Json::Bool(true));
        assert_eq!(number(&j, "setting.rounds"), 7);
        assert_eq!(number(command(&j, 0), "starts"), 7);
        assert_eq!(at(command(&j, 1), "samples.spawn_to_exit_ns").as_array().unwrap().len(), 7);
        assert!(cleaned.exists(), "cleaning up is owed after an interrupt too");
    }
}

#[test]
fn an_interrupt_before_a_round_is_complete_leaves_nothing() {
    let dir = scratch("ends-early");
    let (code, j, err) = bench(["-r", "9", &signals(&dir, 1, "INT", "exec sleep 3600")]);
    assert_eq!((code, j, err.as_str()), (130, Json::Null, "premain: interrupted before a round was complete\n"));
    let dir = scratch("ends-setup");
    let cleaned = dir.join("cleaned");
    let cleanup = format!("touch {}", cleaned.display());
    let setup = signals(&dir, 1, "INT", "exec sleep 3600");
    let (code, j, err) = bench(["-r", "9", "--setup", &setup, "--cleanup", &cleanup, "true"]);
    assert_eq!((code, j, err.as_str()), (130, Json::Null, "premain: interrupted\n"));
    assert!(cleaned.exists());
    let dir = scratch("ends-prepare");
    let prepare = signals(&dir, 4, "INT", "exec sleep 3600");
    let (code, j, _) = bench(["-r", "9", "--prepare", &prepare, "true"]);
    assert_eq!((code, number(&j, "setting.rounds")), (130, 3), "complete rounds are kept when a hook is interrupted");
}

#[test]
fn an_interrupt_while_observing_prints_what_was_measured() {
    let dir = scratch("ends-observing");
    // Without a warm-up the fourth start is the first observed one.
    let line = signals(&dir, 4, "INT", "exec sleep 3600");
    for verb in [&["bench", "--json"][..], &["explain", "--json"]] {
        let _ = std::fs::remove_file(dir.join("count"));
        let mut c = premain();
        c.args(verb).args(["-w", "0", "-r", "3", "--timeout", "0"]);
        match verb[0] {
            "bench" => c.arg(&line),
            _ => c.args(["sh", "-c"]).arg(line.split('\'').nth(1).unwrap()).arg(dir.join("count")),
        };
        let (code, j, err) = document(&mut c);
        assert_eq!((code, err.as_str()), (130, ""), "{verb:?}");
        assert_eq!(number(&j, "setting.rounds"), 3);
    }
}

/// Two signals of different kinds cannot merge into one; stopped meanwhile, we get both before we do anything else.
#[test]
fn a_second_interrupt_ends_us_at_once() {
    let Some(_) = tool("setsid") else { return };
    let dir = scratch("ends-second");
    let (cleaned, send) = (dir.join("cleaned"), dir.join("send"));
    let cleanup = format!("touch {}", cleaned.display());
    // In a session of its own, the sender outlives the first signal.
    let signals = ["STOP", "INT", "TERM", "CONT"].map(|s| format!("kill -{s} $1")).join("; ");
    let text = format!("#!/bin/sh\nsetsid sh -c '{signals}' sh $PPID </dev/null >/dev/null 2>&1 &\nexec sleep 3600\n");
    std::fs::write(&send, text).unwrap();
    std::fs::set_permissions(&send, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let (code, j, err) = bench(["-r", "9", "--cleanup", &cleanup, send.to_str().unwrap()]);
    assert_eq!((code, j, err.as_str()), (130, Json::Null, ""));
    assert!(!cleaned.exists());
}

#[test]
fn what_we_were_started_to_ignore_stays_ignored() {
    let Some(env) = tool("env") else { return };
    let dir = scratch("ends-nohup");
    let mut c = Command::new(env);
    c.args(["--ignore-signal=HUP", env!("CARGO_BIN_EXE_premain"), "bench", "--json", "--probes", "0", "-w", "0"]);
    let o = c.args(["-r", "5", &signals(&dir, 2, "HUP", "exit 0")]).output().unwrap();
    let (code, out, err) = outcome(o);
    if code == 125 {
        return skip("this env has no --ignore-signal");
    }
    assert_eq!((code, err.as_str()), (0, ""));
    assert_eq!(number(&Json::parse(&out).unwrap(), "setting.rounds"), 5);
}
