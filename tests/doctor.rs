//! `premain doctor` and the host of each record: against what other tools say, and where hosts say little.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test that cannot prepare has failed")]
#![cfg(target_os = "linux")]

mod support;

use std::process::Command;

use premain::json::Json;
use support::{at, outcome, program, run, scratch, skip, tool};

fn parsed(out: &str) -> Json {
    Json::parse(out).unwrap_or_else(|e| panic!("{e}\n{out}"))
}

fn doctor() -> Json {
    let (code, out, err) = run(["doctor", "--json"]);
    assert_eq!((code, err.as_str()), (0, ""));
    parsed(&out)
}

/// A feature by name: whether it works, and the reason.
fn feature<'a>(j: &'a Json, name: &str) -> (bool, Option<&'a str>) {
    let all = at(j, "features").as_array().unwrap();
    let f = all.iter().find(|f| at(f, "name").as_str() == Some(name)).unwrap_or_else(|| panic!("no feature {name}"));
    (*at(f, "works") == Json::Bool(true), at(f, "reason").as_str())
}

fn said_by(command: &str, args: &[&str]) -> Option<String> {
    let out = Command::new(tool(command)?).args(args).output().unwrap();
    out.status.success().then(|| String::from_utf8_lossy(&out.stdout).trim().to_string())
}

#[test]
fn the_page_fits_80_columns_and_names_everything() {
    let (code, out, err) = run(["doctor"]);
    assert_eq!((code, err.as_str()), (0, ""));
    for line in out.lines() {
        assert!(line.chars().count() <= 80, "{line}");
    }
    for word in
        ["this host", "what disturbs measuring", "what works here", "governor", "clocksource", "ptrace", "uprobes"]
    {
        assert!(out.contains(word), "{word} is missing:\n{out}");
    }
}

#[test]
fn the_document_has_the_contract_s_fields() {
    let j = doctor();
    assert_eq!(at(&j, "schema").as_str(), Some("premain.doctor/1"));
    for d in at(&j, "disturbances").as_array().unwrap() {
        assert!(["fine", "note", "warning", "unknown"].contains(&at(d, "weight").as_str().unwrap()));
        assert!(!at(d, "what").as_str().unwrap().is_empty());
    }
    for f in at(&j, "features").as_array().unwrap() {
        let works = *at(f, "works") == Json::Bool(true);
        assert_eq!(at(f, "seen").as_str().is_some(), works);
        assert_eq!(at(f, "reason").as_str().is_some(), !works);
        assert_eq!(at(f, "advice").as_str().is_some(), !works);
    }
}

/// What other programs say of the same host.
#[test]
fn the_facts_are_those_of_uname_getconf_and_proc() {
    let j = doctor();
    let host = at(&j, "host");
    assert_eq!(at(host, "kernel").as_str(), said_by("uname", &["-r"]).as_deref());
    for (field, name) in
        [("page_size_bytes", "PAGE_SIZE"), ("cpus_online", "_NPROCESSORS_ONLN"), ("user_hz", "CLK_TCK")]
    {
        if let Some(number) = said_by("getconf", &[name]) {
            assert_eq!(at(host, field).as_u64().map(|n| n.to_string()), Some(number), "{field}");
        }
    }
    if let Some(number) = said_by("nproc", &[]) {
        assert_eq!(at(host, "cpus_allowed").as_u64().map(|n| n.to_string()), Some(number));
    }
    for (field, path) in [
        ("aslr", "kernel/randomize_va_space"),
        ("perf_event_paranoid", "kernel/perf_event_paranoid"),
        ("ptrace_scope", "kernel/yama/ptrace_scope"),
        ("memfd_noexec", "vm/memfd_noexec"),
    ] {
        let setting = std::fs::read_to_string(format!("/proc/sys/{path}")).ok();
        let setting = setting.map(|t| t.trim().parse().unwrap());
        assert_eq!(at(host, field).as_f64(), setting, "{field}");
    }
    let clock = std::fs::read_to_string("/sys/devices/system/clocksource/clocksource0/current_clocksource").ok();
    assert_eq!(at(host, "clocksource").as_str(), clock.as_deref().map(str::trim));
}

#[test]
fn setarch_is_noticed() {
    let Some(setarch) = tool("setarch") else { return };
    let out = Command::new(setarch).arg("-R").arg(env!("CARGO_BIN_EXE_premain")).args(["doctor", "--json"]).output();
    let (code, out, err) = outcome(out.unwrap());
    if code != 0 {
        return skip(&format!("setarch -R: {err}"));
    }
    assert_eq!(*at(&parsed(&out), "host.aslr_off_for_us"), Json::Bool(true));
    assert_eq!(*at(&doctor(), "host.aslr_off_for_us"), Json::Bool(false));
}

#[test]
fn words_behind_doctor_are_refused() {
    assert_eq!(run(["doctor", "now"]), (2, String::new(), "premain: now: doctor takes no argument\n".into()));
}

/// Runs a shell script in mount namespaces of its own, where that is allowed.
fn in_namespace(script: &str) -> Option<(i32, String, String)> {
    let unshare = tool("unshare")?;
    let script = script.replace("PREMAIN", env!("CARGO_BIN_EXE_premain"));
    // Root needs no user namespace; others may be allowed one.
    for flags in [&["--mount"][..], &["--user", "--map-root-user", "--mount"]] {
        let made = Command::new(&unshare).args(flags).args(["sh", "-c", &format!("{script} || exit 99")]).output();
        let (code, out, err) = outcome(made.unwrap());
        if code != 99 && !(code == 1 && err.starts_with("unshare:")) {
            return Some((code, out, err));
        }
    }
    skip("no mount namespace may be made here, or nothing unmounted in it");
    None
}

fn unreadable(j: &Json) -> bool {
    j.get("unreadable").and_then(Json::as_str).is_some_and(|why| !why.is_empty())
}

const WITHOUT_BOTH: &str = "umount -l -R /sys && umount -l -R /proc && ! test -e /proc/self && ! test -e /sys/devices";

#[test]
fn without_proc_and_sys_each_fact_says_why() {
    let Some((code, out, err)) = in_namespace(&format!("{WITHOUT_BOTH} && {{ PREMAIN doctor --json; exit $?; }}"))
    else {
        return;
    };
    assert_eq!((code, err.as_str()), (0, ""), "{out}");
    let j = parsed(&out);
    for field in [
        "cpus_online",
        "governor",
        "turbo",
        "smt",
        "clocksource",
        "aslr",
        "cgroup_cpu_max",
        "cgroup_memory_max_bytes",
        "ptrace_scope",
        "perf_event_paranoid",
        "memfd_noexec",
        "power",
    ] {
        assert!(unreadable(at(&j, &format!("host.{field}"))), "{field}: {}", at(&j, &format!("host.{field}")));
    }
    // System calls and instructions need no file.
    for field in ["kernel", "cpus_allowed", "page_size_bytes", "memory_bytes", "load_before", "hz", "user_hz"] {
        let value = at(&j, &format!("host.{field}"));
        assert!(!unreadable(value) && *value != Json::Null, "{field}: {value}");
    }
    assert!(!feature(&j, "/proc").0 && !feature(&j, "uprobes").0);
    assert!(feature(&j, "control program").0, "{:?}", feature(&j, "control program"));
}

#[test]
fn a_run_without_proc_and_sys_has_no_counters_and_says_so() {
    let script = format!("{WITHOUT_BOTH} && {{ PREMAIN bench --json --probes 1 -r 6 -w 0 /bin/true; exit $?; }}");
    let Some((code, out, err)) = in_namespace(&script) else { return };
    assert_eq!((code, err.as_str()), (0, ""), "{out}");
    let j = parsed(&out);
    assert!(unreadable(at(&j, "noise.steal_ns")) && unreadable(at(&j, "noise.throttled")));
    assert_eq!(at(&j, "commands").as_array().unwrap()[0].get("starts").and_then(Json::as_u64), Some(6));
}

#[test]
fn without_devices_the_reason_is_named_and_nothing_panics() {
    let script = format!("{WITHOUT_BOTH} && mount -t tmpfs none /dev && {{ PREMAIN doctor --json; exit $?; }}");
    let Some((code, out, err)) = in_namespace(&script) else { return };
    assert_eq!((code, err.as_str()), (0, ""), "{out}");
    let j = parsed(&out);
    assert_eq!(feature(&j, "control program"), (false, Some("/dev/null: No such file or directory")));
}

#[test]
fn what_is_denied_is_told_with_its_reason() {
    let dir = scratch("doctor-denied");
    let Some(deny) = program(&dir, "deny") else { return };
    let out = Command::new(&deny)
        .args(["ptrace,perf_event_open,memfd_create", env!("CARGO_BIN_EXE_premain"), "doctor", "--json"])
        .output()
        .unwrap();
    let (code, out, err) = outcome(out);
    if code == 3 {
        return skip(&format!("seccomp: {err}"));
    }
    assert_eq!((code, err.as_str()), (0, ""), "{out}");
    let j = parsed(&out);
    for (name, word) in
        [("ptrace", "ptrace"), ("system calls", "ptrace"), ("perf events", "perf events"), ("uprobes", "perf")]
    {
        let (works, reason) = feature(&j, name);
        let reason = reason.unwrap_or("none");
        assert!(!works && reason.contains(word) && reason.contains("not permitted"), "{name}: {reason}");
    }
    // The control goes to a file where there are no memory files.
    assert!(feature(&j, "control program").0);
}

#[test]
fn a_record_has_its_host_and_what_happened_to_it() {
    let (code, out, err) = run(["bench", "--json", "--probes", "0", "-r", "6", "true"]);
    assert_eq!(code, 0, "{err}");
    let j = parsed(&out);
    assert_eq!(at(&j, "host.tool_version").as_str(), Some(env!("CARGO_PKG_VERSION")));
    assert_eq!(at(&j, "host.load_before").as_array().unwrap().len(), 3);
    assert_eq!(at(&j, "host.load_after").as_array().unwrap().len(), 3);
    for field in ["noise.steal_ns", "noise.throttled"] {
        // A number, absent, or a reason: never left out.
        let value = at(&j, field);
        assert!(value.as_u64().is_some() || *value == Json::Null || unreadable(value), "{field}: {value}");
    }
    let export = scratch("doctor-export").join("a.json");
    let (code, _, err) = run(["bench", "--probes", "0", "-r", "6", "true", "--export-json", export.to_str().unwrap()]);
    assert_eq!(code, 0, "{err}");
    let artifact = parsed(&std::fs::read_to_string(export).unwrap());
    assert_eq!(at(&artifact, "host.kernel"), at(&j, "host.kernel"));
    let (code, out, err) = run(["--json", "-r", "6", "true"]);
    assert_eq!(code, 0, "{err}");
    assert_eq!(at(&parsed(&out), "host.kernel"), at(&j, "host.kernel"));
}
