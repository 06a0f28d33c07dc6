//! A stored baseline: the programs that were measured, how, and what came of it, so that they can be measured again
//! beside what replaced them. Written by `report::baseline_json`, read here.
//!
//! It is read before anything is measured, so the samples it holds are passed over: they would only make us larger,
//! and every fork with us. Who needs them reads the file again when measuring is over.

use std::ffi::OsString;
use std::path::PathBuf;

use crate::error::{Context, Error, Result};
use crate::json::Json;
use crate::record::counts::{Counts, Range};
use crate::sys::host::HostFacts;
use crate::units;

/// What the document calls itself.
pub const SCHEMA: &str = "premain.baseline/1";
/// All versions of that schema begin so.
const FAMILY: &str = "premain.baseline/";

/// A baseline without its samples.
#[derive(Debug, Clone, PartialEq)]
pub struct Baseline {
    /// Version of the premain that wrote it.
    pub tool_version: String,
    /// Where it was made.
    pub host: HostMark,
    /// How its starts were made.
    pub manner: Manner,
    /// Its commands.
    pub commands: Vec<StoredCommand>,
    /// It was interrupted: fewer rounds than planned.
    pub interrupted: bool,
}

/// What tells one host from another, as far as it matters for times; `None` where it could not be read.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct HostMark {
    /// System and kernel release.
    pub kernel: Option<String>,
    /// Processor.
    pub cpu_model: Option<String>,
    /// Processors that are switched on.
    pub cpus: Option<u64>,
}

impl HostMark {
    /// The marks of a host whose facts were read.
    pub fn of(f: &HostFacts) -> HostMark {
        HostMark {
            kernel: f.kernel.value().map(|k| format!("{} {k}", f.system.value().map_or("", String::as_str))),
            cpu_model: f.cpu_model.value().cloned(),
            cpus: f.cpus_online.value().copied(),
        }
    }

    /// The marks that a document's `host` holds.
    fn read(j: &Json) -> HostMark {
        let text = |key: &str| j.get(key).and_then(Json::as_str);
        HostMark {
            kernel: text("kernel").map(|k| format!("{} {k}", text("system").unwrap_or(""))),
            cpu_model: text("cpu_model").map(str::to_string),
            cpus: j.get("cpus_online").and_then(Json::as_u64),
        }
    }

    /// In words, what differs between `self` (then) and `now`.
    pub fn differences(&self, now: &HostMark) -> Vec<String> {
        let cpus = |m: &HostMark| m.cpus.map(|n| units::counted(n, "processor"));
        let known = |text: Option<String>| text.unwrap_or_else(|| "unknown".to_string());
        [
            (self.kernel.clone(), now.kernel.clone()),
            (self.cpu_model.clone(), now.cpu_model.clone()),
            (cpus(self), cpus(now)),
        ]
        .into_iter()
        .filter(|(then, now)| then != now)
        .map(|(then, now)| format!("{} then, {} now", known(then), known(now)))
        .collect()
    }
}

/// How the starts of a run were made, as far as it must be the same again.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Manner {
    /// `fork` or `vfork`.
    pub method: String,
    /// `pipe`, `null` or `pty`.
    pub stdout: String,
    /// Starts were ended at their first byte of output.
    pub until_first_byte: bool,
    /// Pages were dropped before each start.
    pub cold: bool,
    /// The processor that commands were pinned to.
    pub cpu: Option<u64>,
    /// Starts thrown away before each start.
    pub prime: u64,
}

/// One command of a baseline.
#[derive(Debug, Clone, PartialEq)]
pub struct StoredCommand {
    /// What output calls it.
    pub name: String,
    /// As given.
    pub argv: Vec<OsString>,
    /// The file that was executed, absolute.
    pub path: PathBuf,
    /// A copy of that file, where one was kept.
    pub kept: Option<PathBuf>,
    /// SHA-256 of that file.
    pub sha256: String,
    /// Where it ran.
    pub place: Place,
    /// What its start costs in whole numbers.
    pub counts: Counts,
    /// Libraries that it loaded: path and SHA-256.
    pub libraries: Vec<(PathBuf, String)>,
}

/// Everything around a command that its start may depend on, as given.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Place {
    /// Variables set for it.
    pub env: Vec<(OsString, OsString)>,
    /// Without ours.
    pub clear_env: bool,
    /// Working directory, absolute.
    pub cwd: Option<PathBuf>,
    /// Standard input: a file, absolute; or `null`, `inherit`.
    pub stdin: OsString,
    /// Ends that are accepted, in words: `0`, `any`, `0,1`, `=2`.
    pub exit: String,
    /// Commands around it, by the name of their flag.
    pub hooks: Vec<(String, OsString)>,
    /// Working directory of those.
    pub hooks_cwd: Option<PathBuf>,
}

/// Reads a baseline, without its samples.
///
/// # Errors
/// Each its own sentence: a text that is cut short, JSON of another kind (with what it is), another version of the
/// schema, a field that is missing.
pub fn read(text: &str) -> Result<Baseline> {
    let document = Json::parse_without(text, &["samples", "control_samples"]).map_err(|e| {
        if Json::is_cut_short(text) {
            Error::new("is cut short: the end of the file is missing")
        } else if text.trim_start().starts_with('{') {
            e
        } else {
            Error::new("is no baseline: it is not JSON")
        }
    })?;
    check_schema(&document)?;
    let commands = document.get("commands").and_then(Json::as_array).unwrap_or_default();
    if commands.is_empty() {
        return Err(Error::new("is a damaged baseline: it holds no command"));
    }
    let commands = commands.iter().enumerate().map(|(i, c)| command(c).context(|| format!("command {}", i + 1)));
    let setting = document.get("setting");
    Ok(Baseline {
        tool_version: text_of(&document, "tool_version")?,
        host: HostMark::read(document.get("host").unwrap_or(&Json::Null)),
        manner: manner(document.get("manner").unwrap_or(&Json::Null)).context(|| "manner")?,
        commands: commands.collect::<Result<_>>()?,
        interrupted: setting.and_then(|s| s.get("interrupted")).and_then(Json::as_bool).unwrap_or(false),
    })
}

fn check_schema(document: &Json) -> Result<()> {
    let schema = document.get("schema").and_then(Json::as_str);
    Err(Error::new(match schema {
        Some(SCHEMA) => return Ok(()),
        Some(s) if s.starts_with(FAMILY) => {
            let writer = document.get("tool_version").and_then(Json::as_str).unwrap_or("of unknown version");
            format!("was written by premain {writer} in schema {s}, and this one reads {SCHEMA}: save it anew")
        }
        Some(s) if s.starts_with("premain.") => {
            format!("is no baseline but {s}: 'premain bench --save-baseline FILE' writes one")
        }
        _ if document.get("results").is_some() => {
            "is no baseline but hyperfine's results, which do not say which files were measured".to_string()
        }
        _ => "is JSON, but no baseline of premain".to_string(),
    }))
}

fn missing(key: &str) -> Error {
    Error::new(format!("is a damaged baseline: {key} is missing or not as it should be"))
}

fn text_of(j: &Json, key: &str) -> Result<String> {
    j.get(key).and_then(Json::as_str).map(str::to_string).ok_or_else(|| missing(key))
}

fn os_of(j: &Json, key: &str) -> Result<OsString> {
    j.get(key).and_then(Json::as_os).ok_or_else(|| missing(key))
}

fn flag_of(j: &Json, key: &str) -> Result<bool> {
    j.get(key).and_then(Json::as_bool).ok_or_else(|| missing(key))
}

/// `None` where the field is `null` or not there.
fn path_of(j: &Json, key: &str) -> Option<PathBuf> {
    j.get(key).and_then(Json::as_os).map(PathBuf::from)
}

fn manner(j: &Json) -> Result<Manner> {
    Ok(Manner {
        method: text_of(j, "method")?,
        stdout: text_of(j, "stdout")?,
        until_first_byte: flag_of(j, "until_first_byte")?,
        cold: flag_of(j, "cold")?,
        cpu: j.get("cpu").and_then(Json::as_u64),
        prime: j.get("prime").and_then(Json::as_u64).unwrap_or(0),
    })
}

fn command(j: &Json) -> Result<StoredCommand> {
    let argv = j.get("argv").and_then(Json::as_array).unwrap_or_default();
    let argv: Vec<OsString> = argv.iter().filter_map(Json::as_os).collect();
    if argv.is_empty() {
        return Err(missing("argv"));
    }
    let file = j.get("file").ok_or_else(|| missing("file"))?;
    let libraries = j.get("libraries").and_then(Json::as_array).unwrap_or_default();
    let library = |l: &Json| Some((path_of(l, "path")?, text_of(l, "sha256").ok()?));
    Ok(StoredCommand {
        name: text_of(j, "name")?,
        argv,
        path: path_of(file, "path").ok_or_else(|| missing("file.path"))?,
        kept: path_of(file, "kept"),
        sha256: text_of(file, "sha256")?,
        place: place(j.get("place").ok_or_else(|| missing("place"))?)?,
        counts: counts(j.get("counts").unwrap_or(&Json::Null)),
        libraries: libraries.iter().filter_map(library).collect(),
    })
}

fn place(j: &Json) -> Result<Place> {
    let pairs = |key: &str| j.get(key).and_then(Json::as_array).unwrap_or_default();
    let pair = |p: &Json| Some((p.get("name")?.as_os()?, p.get("value")?.as_os()?));
    let hook = |h: &Json| Some((h.get("flag")?.as_str()?.to_string(), h.get("command")?.as_os()?));
    Ok(Place {
        env: pairs("env").iter().map(|p| pair(p).ok_or_else(|| missing("env"))).collect::<Result<_>>()?,
        clear_env: flag_of(j, "clear_env")?,
        cwd: path_of(j, "cwd"),
        stdin: os_of(j, "stdin")?,
        exit: text_of(j, "exit")?,
        hooks: pairs("hooks").iter().map(|h| hook(h).ok_or_else(|| missing("hooks"))).collect::<Result<_>>()?,
        hooks_cwd: path_of(j, "hooks_cwd"),
    })
}

fn counts(j: &Json) -> Counts {
    let range = |key: &str| {
        let both = j.get(key)?.as_array()?;
        Some(Range { min: both.first()?.as_u64()?, max: both.get(1)?.as_u64()? })
    };
    Counts {
        relocations: range("relocations"),
        pages: range("pages"),
        lookups: range("lookups"),
        objects: range("objects"),
        syscalls: range("syscalls"),
        minflt: range("minflt"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn document() -> String {
        r#"{"schema": "premain.baseline/1", "tool_version": "0.1.0",
            "host": {"system": "Linux", "kernel": "6.1", "cpu_model": null, "cpus_online": 2},
            "manner": {"method": "fork", "stdout": "pipe", "until_first_byte": false, "cold": false, "cpu": null},
            "setting": {"interrupted": false},
            "commands": [{"name": "a b", "argv": ["a", {"bytes_hex": "ff", "lossy": "?"}],
              "file": {"path": "/x/a", "sha256": "00", "size_bytes": 5, "kept": null},
              "place": {"env": [{"name": "K", "value": "V"}], "clear_env": false, "cwd": null, "stdin": "null",
                        "exit": "0", "hooks": [{"flag": "prepare", "command": "sync"}]},
              "counts": {"relocations": [7, 7], "syscalls": [30, 31], "lookups": null},
              "libraries": [{"path": "/lib/c", "sha256": "11"}],
              "samples": {"round": [0, 1, 2]}}]}"#
            .to_string()
    }

    #[test]
    fn a_baseline_reads_back_without_its_samples() {
        let b = read(&document()).unwrap();
        let c = &b.commands[0];
        assert_eq!((c.argv.len(), c.path.to_str(), c.kept.as_ref()), (2, Some("/x/a"), None));
        assert_eq!(c.place.env, [("K".into(), "V".into())]);
        assert_eq!(c.place.hooks, [("prepare".to_string(), "sync".into())]);
        assert_eq!(
            (c.counts.relocations, c.counts.syscalls),
            (Some(Range::exactly(7)), Some(Range { min: 30, max: 31 }))
        );
        assert_eq!((c.counts.lookups, c.libraries.len()), (None, 1));
        assert_eq!((b.host.kernel.as_deref(), b.host.cpus), (Some("Linux 6.1"), Some(2)));
    }

    #[test]
    fn every_kind_of_wrong_file_has_its_own_message() {
        let whole = document();
        for end in [1, 40, whole.len() / 2, whole.len() - 1] {
            assert_eq!(read(&whole[..end]).unwrap_err().to_string(), "is cut short: the end of the file is missing");
        }
        for (text, message) in [
            ("", "is cut short: the end of the file is missing"),
            ("ELF\u{1}", "is no baseline: it is not JSON"),
            ("[1, 2]", "is JSON, but no baseline of premain"),
            (
                r#"{"results": []}"#,
                "is no baseline but hyperfine's results, which do not say which files were measured",
            ),
            (
                r#"{"schema": "premain.bench/1"}"#,
                "is no baseline but premain.bench/1: 'premain bench --save-baseline FILE' writes one",
            ),
            (
                r#"{"schema": "premain.baseline/0", "tool_version": "0.0.9"}"#,
                "was written by premain 0.0.9 in schema premain.baseline/0, and this one reads premain.baseline/1: save it anew",
            ),
            (r#"{"schema": "premain.baseline/1", "commands": []}"#, "is a damaged baseline: it holds no command"),
        ] {
            assert_eq!(read(text).unwrap_err().to_string(), message);
        }
        let broken = whole.replace("\"sha256\": \"00\"", "\"sha256\": 5");
        let e = read(&broken).unwrap_err().to_string();
        assert_eq!(e, "command 1: is a damaged baseline: sha256 is missing or not as it should be");
        let e = read(&whole.replace("[0, 1, 2]", "[0, , 2]")).unwrap_err().to_string();
        assert!(e.starts_with("not valid JSON at line"), "{e}");
    }

    #[test]
    fn hosts_differ_in_words() {
        let a = HostMark { kernel: Some("Linux 6.1".into()), cpu_model: None, cpus: Some(2) };
        let b = HostMark { kernel: Some("Linux 6.2".into()), cpus: Some(4), ..a.clone() };
        assert_eq!(a.differences(&a), Vec::<String>::new());
        assert_eq!(a.differences(&b), ["Linux 6.1 then, Linux 6.2 now", "2 processors then, 4 processors now"]);
    }
}
