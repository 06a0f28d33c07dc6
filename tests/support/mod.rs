//! What integration tests share: the binary under test, and the rule for tools that a machine may lack.
#![allow(dead_code, unreachable_pub, reason = "each test binary uses its own part")]
#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::print_stderr,
    reason = "tests end in panics and say what they skip"
)]

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use premain::json::Json;

/// The built binary.
pub fn premain() -> Command {
    let mut c = Command::new(env!("CARGO_BIN_EXE_premain"));
    c.env_remove("NO_COLOR");
    c
}

/// Runs the binary and returns (exit code, stdout, stderr).
pub fn run<S: AsRef<OsStr>>(args: impl IntoIterator<Item = S>) -> (i32, String, String) {
    outcome(premain().args(args).output().expect("the binary starts"))
}

/// Exit code, stdout and stderr as text.
pub fn outcome(o: Output) -> (i32, String, String) {
    let text = |b: Vec<u8>| String::from_utf8_lossy(&b).into_owned();
    (o.status.code().unwrap_or(-1), text(o.stdout), text(o.stderr))
}

/// The system's words for an error number, which each libc chooses.
pub fn os_error(errno: i32) -> String {
    let text = std::io::Error::from_raw_os_error(errno).to_string();
    text.split(" (os error").next().unwrap_or_default().to_string()
}

/// The path of a tool that a test needs. Without it the test is skipped aloud, and under `CI=true` it fails.
pub fn tool(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path).map(|d| d.join(name)).find(|p| p.is_file());
    if found.is_none() {
        assert!(std::env::var("CI").as_deref() != Ok("true"), "{name} is not installed, and CI must not skip");
        eprintln!("SKIPPED: {name} is not installed");
    }
    found
}

/// An empty directory of this test, made anew.
pub fn scratch(test: &str) -> PathBuf {
    let dir = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(test);
    let _ = std::fs::remove_dir_all(&dir);
    std::fs::create_dir_all(&dir).expect("a scratch directory");
    dir
}

/// A Python that can import `module`, out of all that PATH offers; skipped aloud like [`tool`].
pub fn python_with(module: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let can = |p: &PathBuf| {
        Command::new(p).args(["-c", &format!("import {module}")]).output().is_ok_and(|o| o.status.success())
    };
    let found = std::env::split_paths(&path).map(|d| d.join("python3")).find(|p| p.is_file() && can(p));
    if found.is_none() {
        assert!(std::env::var("CI").as_deref() != Ok("true"), "no python3 has {module}, and CI must not skip");
        eprintln!("SKIPPED: python3 with {module} is not installed");
    }
    found
}

/// A program of `tests/programs`, compiled into `dir`; skipped aloud where there is no C compiler.
pub fn program(dir: &Path, name: &str) -> Option<PathBuf> {
    let cc = tool("cc")?;
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs").join(format!("{name}.c"));
    let out = dir.join(name);
    let done = Command::new(cc).args(["-O1", "-Wall", "-o"]).arg(&out).arg(source).arg("-lpthread").output();
    let done = done.expect("the compiler starts");
    assert!(done.status.success(), "{name}: {}", String::from_utf8_lossy(&done.stderr));
    Some(out)
}

/// Says that a test skips, and why; under `CI=true` it fails instead.
pub fn skip(why: &str) {
    assert!(std::env::var("CI").as_deref() != Ok("true"), "{why}, and CI must not skip");
    eprintln!("SKIPPED: {why}");
}

/// A field of nested objects, by names joined with dots.
pub fn at<'a>(j: &'a Json, path: &str) -> &'a Json {
    path.split('.').fold(j, |j, key| j.get(key).unwrap_or_else(|| panic!("no field {key} of {path}")))
}

/// A number there.
pub fn number(j: &Json, path: &str) -> u64 {
    at(j, path).as_u64().unwrap_or_else(|| panic!("{path} is no whole number: {}", at(j, path)))
}

/// `premain bench --json` without probes and warm-up, then `args`: exit code, document (`Null` where there is none),
/// stderr.
pub fn bench<S: AsRef<OsStr>>(args: impl IntoIterator<Item = S>) -> (i32, Json, String) {
    let mut c = premain();
    c.args(["bench", "--json", "--probes", "0", "-w", "0"]).args(args);
    document(&mut c)
}

/// Runs a command that prints one JSON document: exit code, document (`Null` where there is none), stderr.
pub fn document(c: &mut Command) -> (i32, Json, String) {
    let (code, out, err) = outcome(c.output().expect("the command starts"));
    let json = if out.is_empty() { Json::Null } else { Json::parse(&out).unwrap_or_else(|e| panic!("{e}\n{out}")) };
    (code, json, err)
}

/// One entry of `commands[]`.
pub fn command(j: &Json, n: usize) -> &Json {
    at(j, "commands").as_array().and_then(|all| all.get(n)).unwrap_or_else(|| panic!("no command {n}"))
}

/// Processes with this word among their arguments, zombies left out: their ids.
pub fn processes_with(word: &str) -> Vec<i32> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let numbers = entries.filter_map(|e| e.file_name().to_str()?.parse::<i32>().ok());
    let has = |pid: &i32| {
        let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        line.split(|b| *b == 0).any(|arg| arg == word.as_bytes())
    };
    numbers.filter(has).collect()
}

/// A number of seconds to sleep that no other process sleeps: how a test knows its own.
pub fn unique_sleep(minutes: u32, test: u32) -> String {
    format!("{}.{:04}{:06}", minutes * 60, test, std::process::id() % 1_000_000)
}
