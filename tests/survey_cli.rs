//! `premain survey`: what is ranked, what is told of bad files, and lines that are put together again.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may end in a panic")]

mod support;

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use object::elf;
use premain::elf::synth::{Packing, Recipe, Relative, Target};
use premain::json::Json;

const X86_64: Target = Target::new(elf::EM_X86_64, true, false);

fn write(dir: &Path, name: &str, pages: u64) {
    let relative = Some(Relative { count: pages, stride: 4096, packing: Packing::Plain });
    let path = dir.join(name);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, Recipe { relative, ..Recipe::program(X86_64) }.build()).unwrap();
}

/// Programs that write 3, 30 and 300 pages, a library, a script, a text, a hard and a symbolic link, a damaged file.
fn tree(name: &str) -> PathBuf {
    let dir = support::scratch(name);
    write(&dir, "bin/three", 3);
    write(&dir, "bin/thirty", 30);
    write(&dir, "sbin/deep/three-hundred", 300);
    std::fs::write(dir.join("bin/lib.so"), Recipe::library(X86_64, "lib.so").build()).unwrap();
    std::fs::write(dir.join("bin/script"), "#!/bin/sh\n").unwrap();
    std::fs::write(dir.join("bin/notes.txt"), "words\n").unwrap();
    std::fs::hard_link(dir.join("bin/three"), dir.join("bin/tres")).unwrap();
    symlink("thirty", dir.join("bin/treinta")).unwrap();
    symlink("nowhere", dir.join("bin/dangling")).unwrap();
    dir
}

fn paths(lines: &str) -> Vec<String> {
    let path = |line: &str| {
        let json = Json::parse(line).unwrap();
        let path = json.get("path").and_then(Json::as_str).unwrap();
        Path::new(path).file_name().unwrap().to_str().unwrap().to_string()
    };
    lines.lines().map(path).collect()
}

fn survey(args: &[&str], dir: &Path) -> (i32, String, String) {
    support::run(["survey"].iter().chain(args).copied().chain([dir.to_str().unwrap()]))
}

#[test]
fn programs_are_ranked_by_pages() {
    let dir = tree("survey-rank");
    let (code, out, err) = survey(&["--jsonl", "--sort", "pages"], &dir);
    assert_eq!((code, err.as_str()), (0, ""));
    assert_eq!(paths(&out), ["three-hundred", "thirty", "three"]);
    let (_, out, _) = survey(&["--jsonl", "--sort", "size", "--top", "1"], &dir);
    assert_eq!(paths(&out), ["three-hundred"]);
    // As the walk meets them, each file once under its first name.
    for jobs in ["1", "7"] {
        let (_, out, _) = survey(&["--jsonl", "--jobs", jobs], &dir);
        assert_eq!(paths(&out), ["thirty", "three", "three-hundred"]);
    }
    let (_, out, _) = survey(&["--jsonl", "--filter", "kind=any"], &dir);
    assert_eq!(paths(&out), ["lib.so", "script", "thirty", "three", "three-hundred"]);
    let (_, out, _) = survey(&["--jsonl", "--filter", "kind=shared,script", "--filter", "format=elf"], &dir);
    assert_eq!(paths(&out), ["lib.so"]);
    let (code, text, _) = survey(&["--top", "2"], &dir);
    assert_eq!(code, 0);
    let rows: Vec<&str> = text.lines().collect();
    assert_eq!(rows.iter().filter(|r| r.contains("static-pie")).count(), 2, "{text}");
    assert!(rows.last().unwrap().contains("the first 2 of 3 programs in 6 files, by pages"), "{text}");
}

#[test]
fn bad_files_are_listed_and_told_by_the_exit_code() {
    let dir = tree("survey-bad");
    let bytes = std::fs::read(dir.join("bin/three")).unwrap();
    std::fs::write(dir.join("bin/cut"), &bytes[..100]).unwrap();
    let (code, out, err) = survey(&["--jsonl"], &dir);
    assert_eq!(code, 2);
    assert_eq!(err.lines().count(), 1, "{err}");
    assert!(err.contains("bin/cut: ") && err.contains("do not fit the file (100 bytes)"), "{err}");
    let lines: Vec<Json> = out.lines().map(|l| Json::parse(l).unwrap()).collect();
    assert_eq!(lines.iter().filter(|l| l.get("unreadable").is_some()).count(), 1);
    assert_eq!(lines.len(), 4);
    let (code, out, _) = survey(&["--json"], &dir);
    let document = Json::parse(&out).unwrap();
    assert_eq!(code, 2);
    assert_eq!(document.get("schema").and_then(Json::as_str), Some("premain.survey/1"));
    assert_eq!(document.get("bad").and_then(Json::as_array).map(<[Json]>::len), Some(1));
    assert_eq!(document.get("files").and_then(Json::as_array).map(<[Json]>::len), Some(3));
    let (code, _, err) = survey(&[], Path::new("/no/such/place"));
    assert_eq!((code, err.as_str()), (2, "premain: /no/such/place: No such file or directory\n"));
}

/// Each line has the figures of its file and the sums of its closure, and nothing that grows with the file.
#[test]
fn a_line_is_flat_enough_for_a_table() {
    let dir = tree("survey-line");
    let (_, out, _) = survey(&["--jsonl", "--sort", "pages", "--top", "1"], &dir);
    let line = Json::parse(out.trim_end()).unwrap();
    let work = |name: &str| line.get("work").unwrap().get(name).and_then(Json::as_u64);
    assert_eq!((work("pages_written"), work("relocations"), work("objects")), (Some(300), Some(300), Some(1)));
    assert!(line.get("closure").unwrap().get("totals").is_some());
    assert!(line.get("elf").unwrap().get("segments").is_none());
    assert!(out.len() < 4096, "{}", out.len());
}

/// Lines of several machines are ranked together; a damaged line is told and the rest counts.
#[test]
fn surveys_are_merged() {
    let dir = tree("survey-merge");
    let lines = |name: &str, sub: &str| {
        let (_, out, _) = survey(&["--jsonl"], &dir.join(sub));
        let path = dir.join(name);
        std::fs::write(&path, out).unwrap();
        path
    };
    let (a, b) = (lines("a.jsonl", "bin"), lines("b.jsonl", "sbin"));
    let (a, b) = (a.to_str().unwrap(), b.to_str().unwrap());
    let (code, out, err) = support::run(["survey", "--merge", "--jsonl", "--sort", "pages", a, b]);
    assert_eq!((code, err.as_str()), (0, ""));
    assert_eq!(paths(&out), ["three-hundred", "thirty", "three"]);
    let (_, text, _) = support::run(["survey", "--merge", a, b]);
    assert!(text.contains("b.jsonl") && text.contains("3 programs in 3 files"), "{text}");
    std::fs::write(b, "{\"path\": \"/x\"\n[]\n").unwrap();
    let (code, out, err) = support::run(["survey", "--merge", "--jsonl", a, b]);
    assert_eq!(code, 2);
    assert_eq!(
        (err.lines().count(), paths(&out)[..2].to_vec()),
        (2, vec!["thirty".to_string(), "three".to_string()]),
        "{err}"
    );
}

/// What a fleet has: GNU parallel starts the one file on each machine (here: each root), the lines are put together.
#[test]
fn gnu_parallel_over_several_roots() {
    let Some(parallel) = support::tool("parallel") else { return };
    let version = Command::new(&parallel).arg("--version").output().unwrap();
    if !String::from_utf8_lossy(&version.stdout).contains("GNU parallel") {
        return;
    }
    let dir = tree("survey-parallel");
    let roots = [dir.join("bin"), dir.join("sbin")].map(|root| root.display().to_string());
    let premain = env!("CARGO_BIN_EXE_premain");
    let done = Command::new(parallel)
        .args(["--will-cite", "-k", premain, "survey", "--jsonl", "--root", "{}", "/", ":::"])
        .args(&roots)
        .output()
        .unwrap();
    assert!(done.status.success(), "{done:?}");
    let all = dir.join("all.jsonl");
    std::fs::write(&all, done.stdout).unwrap();
    let (code, out, _) = support::run(["survey", "--merge", "--jsonl", "--sort", "pages", all.to_str().unwrap()]);
    assert_eq!((code, paths(&out)), (0, ["three-hundred", "thirty", "three"].map(str::to_string).to_vec()));
}
