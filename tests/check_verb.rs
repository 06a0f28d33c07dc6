//! `premain check` and the baselines it reads: what fails, what does not, what is refused; every output format read
//! by a program that really reads it. No test depends on how fast anything is: regressions are in counts, or ten-fold.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stderr, reason = "tests")]

mod support;

use std::path::{Path, PathBuf};
use std::process::Command;

use support::{outcome, premain, python_with, scratch, tool};

/// A directory with a program `app` in it, and premain run there.
struct Place {
    dir: PathBuf,
}

impl Place {
    fn new(test: &str, program: &str) -> Place {
        let place = Place { dir: scratch(test) };
        place.install(program);
        place
    }

    /// Puts a copy of a program of this machine in the place of `app`: a new file, since the old one may run.
    fn install(&self, program: &str) {
        let _ = std::fs::remove_file(self.path("app"));
        std::fs::copy(program, self.path("app")).unwrap();
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    fn run(&self, args: &[&str]) -> (i32, String, String) {
        outcome(premain().args(args).current_dir(&self.dir).output().unwrap())
    }

    fn save(&self, more: &[&str]) {
        let mut args = vec!["bench", "-r", "8", "-w", "1", "--save-baseline", "b.json"];
        args.extend(more);
        args.push("./app");
        let (code, _, err) = self.run(&args);
        assert_eq!(code, 0, "{err}");
    }

    fn text(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).unwrap()
    }
}

#[test]
fn the_same_program_passes_exact_gates() {
    let p = Place::new("check_same", "/bin/true");
    p.save(&["--keep-binaries", "keep"]);
    let (code, out, err) =
        p.run(&["check", "b.json", "-r", "8", "--metric", "relocations,pages,lookups,objects,syscalls"]);
    assert_eq!((code, err.as_str()), (0, ""), "{out}");
    assert!(out.contains("no regression (5 passed"), "{out}");
    assert!(!out.contains("also changed"), "{out}");
}

#[test]
fn more_work_for_the_loader_fails_exact_gates() {
    let p = Place::new("check_more", "/bin/true");
    p.save(&["--keep-binaries", "keep"]);
    p.install("/bin/ls");
    let (code, out, _) = p.run(&["check", "b.json", "-r", "8", "--metric", "lookups,objects"]);
    assert_eq!(code, 1, "{out}");
    assert!(out.contains("REGRESSION") && out.contains("also changed"), "{out}");
    // Twice the look-ups are allowed here, and a hundred times.
    let (code, out, _) = p.run(&["check", "b.json", "-r", "8", "--metric", "lookups=10000%"]);
    assert_eq!(code, 0, "{out}");
    // A kept copy may move together with the baseline.
    std::fs::create_dir(p.path("moved")).unwrap();
    std::fs::rename(p.path("keep"), p.path("moved/keep")).unwrap();
    std::fs::rename(p.path("b.json"), p.path("moved/b.json")).unwrap();
    let (code, out, _) = p.run(&["check", "moved/b.json", "-r", "8", "--metric", "objects"]);
    assert_eq!(code, 1, "{out}");
    assert!(!out.contains("stored samples"), "{out}");
}

/// Text without the places where it was broken into lines.
fn unwrapped(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn a_program_that_is_gone_is_compared_weakly_and_fails_nothing() {
    let p = Place::new("check_gone", "/bin/true");
    p.save(&[]);
    p.install("/bin/ls");
    let (code, out, _) = p.run(&["check", "b.json", "-r", "8"]);
    assert_eq!(code, 0, "{out}");
    assert!(out.contains("(weak)") && unwrapped(&out).contains("has changed"), "{out}");
    let (code, out, _) = p.run(&["check", "b.json", "-r", "8", "--strict"]);
    assert_eq!(code, 3, "{out}");
    // Counts are exact whether the program is there or not.
    let (code, out, _) = p.run(&["check", "b.json", "-r", "8", "--metric", "objects"]);
    assert_eq!(code, 1, "{out}");
}

#[test]
fn a_copy_that_was_tampered_with_is_not_run() {
    let p = Place::new("check_tampered", "/bin/true");
    p.save(&["--keep-binaries", "keep"]);
    let kept = std::fs::read_dir(p.path("keep")).unwrap().next().unwrap().unwrap().path();
    std::fs::remove_file(&kept).unwrap();
    std::fs::copy("/bin/ls", &kept).unwrap();
    p.install("/bin/false");
    let (code, out, err) = p.run(&["check", "b.json", "-r", "6"]);
    assert_eq!(code, 4, "the candidate fails, and nothing is hidden by that: {out}{err}");
    p.install("/bin/ls");
    let (code, out, _) = p.run(&["check", "b.json", "-r", "6"]);
    assert_eq!(code, 0);
    assert!(unwrapped(&out).contains("is not what was measured"), "{out}");
}

#[test]
fn another_host_is_marked_where_both_run_and_refused_where_not() {
    let p = Place::new("check_host", "/bin/true");
    p.save(&["--keep-binaries", "keep"]);
    // The first of two equal keys is read.
    let foreign = p.text("b.json").replace("\"host\": {", "\"host\": {\n    \"system\": \"Plan9\", \"kernel\": \"4\",");
    std::fs::write(p.path("b.json"), foreign).unwrap();
    let (code, out, _) = p.run(&["check", "b.json", "-r", "6", "--metric", "objects"]);
    assert_eq!(code, 0, "{out}");
    assert!(out.contains("made elsewhere (Plan9 4 then") && out.contains("both ran here"), "{out}");
    std::fs::remove_dir_all(p.path("keep")).unwrap();
    p.install("/bin/ls");
    let (code, _, err) = p.run(&["check", "b.json", "-r", "6"]);
    assert_eq!(code, 2);
    assert!(err.contains("another host (Plan9 4 then") && err.contains("--allow-changed"), "{err}");
    assert_eq!(p.run(&["check", "b.json", "-r", "6", "--allow-changed"]).0, 0);
}

#[test]
fn other_arguments_are_refused_and_another_path_is_not() {
    let p = Place::new("check_argv", "/bin/true");
    p.save(&["--keep-binaries", "keep"]);
    let (code, _, err) = p.run(&["check", "b.json", "-r", "6", "--", "./app", "extra"]);
    assert_eq!(code, 2);
    assert!(err.contains("the arguments differ") && err.contains("'./app' then, './app extra' now"), "{err}");
    let (code, _, err) = p.run(&["check", "b.json", "./app", "./app"]);
    assert_eq!((code, err.contains("holds 1 commands, and 2 are given")), (2, true), "{err}");
    std::fs::rename(p.path("app"), p.path("new-app")).unwrap();
    let (code, out, err) = p.run(&["check", "b.json", "-r", "6", "--metric", "objects", "--", "./new-app"]);
    assert_eq!(code, 0, "{out}{err}");
}

#[test]
fn every_kind_of_wrong_baseline_has_its_own_message_and_exit_2() {
    let p = Place::new("check_wrong", "/bin/true");
    p.save(&[]);
    let whole = p.text("b.json");
    let (code, bench, _) = p.run(&["bench", "-r", "6", "--json", "./app"]);
    assert_eq!(code, 0);
    for (name, text, part) in [
        ("cut.json", &whole[..whole.len() / 2], "is cut short"),
        ("cut-late.json", whole.trim_end().strip_suffix('}').unwrap(), "is cut short"),
        ("empty.json", "", "is cut short"),
        ("elf", "\u{7f}ELF", "it is not JSON"),
        ("bench.json", bench.as_str(), "is no baseline but premain.bench/1"),
        ("hyperfine.json", "{\"results\": []}", "hyperfine's results"),
        ("other.json", "{\"a\": 1}", "no baseline of premain"),
        ("old.json", &whole.replacen("premain.baseline/1", "premain.baseline/0", 1), "in schema premain.baseline/0"),
        ("damaged.json", &whole.replacen("\"sha256\"", "\"sha1\"", 1), "sha256 is missing"),
    ] {
        std::fs::write(p.path(name), text).unwrap();
        let (code, out, err) = p.run(&["check", name, "-r", "6"]);
        assert_eq!((code, out.as_str()), (2, ""), "{name}");
        assert!(err.starts_with(&format!("premain: {name}: ")) && err.contains(part), "{name}: {err}");
        assert_eq!(err.lines().count(), 1, "{err}");
    }
    let (code, _, err) = p.run(&["check", "nowhere.json"]);
    assert_eq!((code, err.as_str()), (2, "premain: nowhere.json: No such file or directory\n"));
    let (code, _, err) = p.run(&["check"]);
    assert_eq!((code, err.contains("no baseline given")), (2, true));
}

#[test]
fn a_baseline_runs_its_commands_where_they_ran() {
    let p = Place::new("check_place", "/bin/sh");
    std::fs::create_dir(p.path("deep")).unwrap();
    std::fs::write(p.path("input"), "5").unwrap();
    let script = r#"./app -c 'read x; test "$V$x" = "a b5" && test -e here && exit 7'"#;
    let args = ["bench", "-r", "6", "-w", "1", "--save-baseline", "b.json", "--expect-exit", "7", "--env", "V=a b"];
    let more = ["--cwd", "deep", "--stdin", "input", "--setup-round", "touch here", "--probes", "0", script];
    let (code, _, err) = p.run(&[&args[..], &more[..]].concat());
    assert_eq!(code, 0, "{err}");
    std::fs::remove_file(p.path("deep/here")).unwrap();
    let (code, out, err) = p.run(&["check", "b.json", "-r", "6", "-w", "1", "--metric", "objects"]);
    assert_eq!(code, 0, "{out}{err}");
    assert!(p.path("deep/here").exists());
}

#[test]
fn an_interrupted_check_leaves_valid_files() {
    let p = Place::new("check_interrupted", "/bin/true");
    p.save(&["--keep-binaries", "keep"]);
    let mut child = premain()
        .args(["check", "b.json", "-r", "1000000", "--export-json", "c.json", "--export-junit", "j.xml"])
        .current_dir(&p.dir)
        .stdout(std::process::Stdio::null())
        .spawn()
        .unwrap();
    std::thread::sleep(std::time::Duration::from_millis(1500));
    let pid = child.id().to_string();
    assert!(Command::new("kill").args(["-INT", &pid]).status().unwrap().success());
    assert_eq!(child.wait().unwrap().code(), Some(130));
    let j = premain::json::Json::parse(&p.text("c.json")).unwrap();
    assert_eq!(j.get("setting").and_then(|s| s.get("interrupted")).and_then(premain::json::Json::as_bool), Some(true));
    assert!(p.text("j.xml").ends_with("</testsuites>\n"));
    let leftovers = std::fs::read_dir(&p.dir)
        .unwrap()
        .filter(|e| e.as_ref().unwrap().file_name().to_string_lossy().ends_with(".new"));
    assert_eq!(leftovers.count(), 0);
}

/// Everything that a check can write, for a program that got worse and has an awkward name.
fn all_formats(test: &str) -> Place {
    let p = Place::new(test, "/bin/true");
    let name = "a <b> & \"c\" | %é";
    p.save(&["--keep-binaries", "keep", "--name", name]);
    p.install("/bin/ls");
    let exports = ["json", "junit", "markdown", "benchmark-action", "bencher"];
    let flags: Vec<String> = exports.iter().map(|e| format!("--export-{e}=out.{e}")).collect();
    let mut args = vec!["check", "b.json", "-r", "8", "--metric", "objects,byte,lookups=10000%", "--github"];
    args.extend(flags.iter().map(String::as_str));
    let (code, out, err) = p.run(&args);
    assert_eq!(code, 1, "{err}");
    std::fs::write(p.path("out.text"), out).unwrap();
    p
}

fn accepted(mut command: Command, path: &Path) -> String {
    let (code, out, err) = outcome(command.arg(path).output().unwrap());
    assert_eq!(code, 0, "{}: {out}{err}", path.display());
    out
}

#[test]
fn json_is_read_by_jq() {
    let Some(jq) = tool("jq") else { return };
    let p = all_formats("check_jq");
    let read = |filter: &str, file: &str| {
        let mut c = Command::new(&jq);
        c.args(["-c", "-e", filter]);
        accepted(c, &p.path(file)).trim().to_string()
    };
    assert_eq!(read("[.schema, .outcome]", "out.json"), r#"["premain.check/1","regression"]"#);
    assert_eq!(read("[.gates[]|select(.gated)|.outcome]", "out.json"), r#"["not decided","passed","regression"]"#);
    // The shape that github-action-benchmark requires of each entry.
    let shape = r#"length > 3 and all(.[]; (.name|type) == "string" and (.unit|type) == "string" and (.value|type) == "number")"#;
    assert_eq!(read(shape, "out.benchmark-action"), "true");
    // Bencher's schema: benchmark, measure, value and perhaps bounds, all numbers.
    let shape = r#"length == 1 and all(.[][]; (.value|type) == "number" and all(.[]; type == "number"))"#;
    assert_eq!(read(shape, "out.bencher"), "true");
    assert_eq!(read(".commands[0].file.sha256|length", "b.json"), "64");
}

#[test]
fn xml_is_read_by_xmllint_and_by_a_junit_parser() {
    let p = all_formats("check_junit");
    if let Some(xmllint) = tool("xmllint") {
        let mut c = Command::new(xmllint);
        c.arg("--noout");
        accepted(c, &p.path("out.junit"));
    }
    let Some(python) = python_with("junitparser") else { return };
    let script = p.path("read.py");
    std::fs::write(
        &script,
        "import sys\nfrom junitparser import JUnitXml, Failure, Skipped\n\
         suites = JUnitXml.fromfile(sys.argv[1])\n\
         cases = [c for s in suites for c in s]\n\
         print(suites.tests, suites.failures, suites.skipped)\n\
         print([(c.classname, c.name, [type(r).__name__ for r in c.result]) for c in cases])\n",
    )
    .unwrap();
    let mut c = Command::new(python);
    c.arg(&script);
    let read = accepted(c, &p.path("out.junit"));
    let name = "a <b> & \"c\" | %é";
    assert_eq!(
        read,
        format!(
            "3 1 1\n[('{name}', 'byte', ['Skipped']), ('{name}', 'lookups', []), ('{name}', 'objects', ['Failure'])]\n"
        )
    );
}

#[test]
fn annotations_are_one_line_each_and_come_first() {
    let p = all_formats("check_annotations");
    let text = p.text("out.text");
    let lines: Vec<&str> = text.lines().take(2).collect();
    assert!(lines[0].starts_with("::warning title=premain check%3A a <b> & \"c\" | %25é byte::"), "{text}");
    assert!(lines[1].starts_with("::error title=premain check%3A a <b> & \"c\" | %25é objects::"), "{text}");
    let table = p.text("out.markdown");
    assert!(table.contains("| `a <b> & \"c\" \\| %é` | objects |"), "{table}");
}

#[test]
fn keeping_programs_without_a_baseline_is_refused() {
    let p = Place::new("check_keep_alone", "/bin/true");
    let (code, _, err) = p.run(&["bench", "-r", "6", "--keep-binaries", "keep", "./app"]);
    assert_eq!((code, err.contains("--save-baseline")), (2, true), "{err}");
}
