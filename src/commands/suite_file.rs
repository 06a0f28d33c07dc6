//! The file of a suite: cases × binaries, one declaration a line.
//!
//! ```text
//! # comment                          a line of its own; so is ';'
//! [suite]
//! name = helpers of a git server     title
//! reference = old                    binary that others are compared with; else the first
//! rounds = 300                       as --runs
//! budget = 30s                       as --budget
//!
//! [binary old]
//! path = ./old/helper                from the suite's directory; without a slash looked up in PATH
//! env = LD_BIND_NOW=1                may be repeated
//!
//! [case cgi]
//! args = http-backend                split as a shell splits words; none is run
//! command = {bin} http-backend       the whole command instead of path and args
//! env = REQUEST_METHOD=GET           may be repeated
//! stdin = request.bin                a file that every start reads from its beginning; null (default)
//! cwd = repository.git
//! exit = 0                           expected code; a list such as 0,1; any
//! output = same                      any (default: a difference is marked), same (it fails), or a file that it must equal
//! binaries = old new                 only these
//! setup = …                          commands: once before the first start, before each round, before and after
//! setup-round = …                    each start, once after the last
//! prepare = …
//! conclude = …
//! cleanup = …
//! ```
//!
//! `{bin}`, `{name}` and `{dir}` stand for a binary's path, its name and the suite's directory; other braces are
//! themselves. Paths are taken from the suite's directory.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use super::measuring::Accepted;
use crate::error::{Context, Error, Result};
use crate::units;

/// A suite as its file says.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct SuiteFile {
    /// Title.
    pub name: Option<String>,
    /// Index of the binary that others are compared with.
    pub reference: usize,
    /// Rounds.
    pub rounds: Option<u64>,
    /// Time to measure for.
    pub budget_ns: Option<u64>,
    /// Binaries, in order.
    pub binaries: Vec<Binary>,
    /// Cases, in order.
    pub cases: Vec<Case>,
}

/// One binary.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Binary {
    /// Its name.
    pub name: String,
    /// Path, or a name to look up in PATH.
    pub path: String,
    /// Variables.
    pub env: Vec<(String, String)>,
    line: usize,
}

/// One case.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Case {
    /// Its name.
    pub name: String,
    /// Its command: `{bin}` and arguments, unsplit.
    pub command: String,
    /// Variables.
    pub env: Vec<(String, String)>,
    /// File to read from.
    pub stdin: Option<String>,
    /// Working directory.
    pub cwd: Option<String>,
    /// Ends that are expected.
    pub exit: Accepted,
    /// Output that is expected.
    pub output: ExpectedOutput,
    /// Indices of the binaries that take part; all where it is empty.
    pub binaries: Vec<usize>,
    /// Commands around it, by the name of bench's flag.
    pub hooks: Vec<(&'static str, String)>,
    line: usize,
}

/// What a case expects on standard output.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum ExpectedOutput {
    /// Anything; a difference between binaries is marked.
    #[default]
    Any,
    /// What the reference writes.
    Same,
    /// What this file holds.
    File(String),
}

const SUITE_KEYS: &[&str] = &["name", "reference", "rounds", "budget"];
const BINARY_KEYS: &[&str] = &["path", "env"];
const CASE_KEYS: &[&str] = &[
    "args",
    "command",
    "env",
    "stdin",
    "cwd",
    "exit",
    "output",
    "binaries",
    "setup",
    "setup-round",
    "prepare",
    "conclude",
    "cleanup",
];
const HOOKS: &[&str] = &["setup", "setup-round", "prepare", "conclude", "cleanup"];

/// Where the parser is.
#[derive(Clone, Copy, PartialEq)]
enum Section {
    Before,
    Suite,
    Binary,
    Case,
}

/// What can be judged only when all is read: a name that stands further down.
#[derive(Default)]
struct Later {
    reference: Option<(usize, String)>,
    /// Of each case: line and names.
    binaries: Vec<Option<(usize, String)>>,
}

/// Reads a suite.
///
/// # Errors
/// `line N: what is wrong`, with the section and the key; the caller puts the file in front.
pub fn parse(text: &str) -> Result<SuiteFile> {
    let mut suite = SuiteFile::default();
    let mut later = Later::default();
    let mut section = Section::Before;
    for (i, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with(['#', ';']) {
            continue;
        }
        let at = |e: String| Error::new(e).context(format!("line {}", i + 1));
        if let Some(head) = line.strip_prefix('[') {
            section = head
                .strip_suffix(']')
                .ok_or_else(|| "a ']' is missing".to_string())
                .and_then(|h| open(&mut suite, &mut later, h.trim(), i + 1))
                .map_err(at)?;
            continue;
        }
        let (key, value) = line.split_once('=').ok_or_else(|| at("expected [SECTION] or KEY = VALUE".to_string()))?;
        let (key, value) = (key.trim(), value.trim());
        set(&mut suite, &mut later, section, (i + 1, key, value)).map_err(|why| at(format!("{key}: {why}")))?;
    }
    finish(suite, later)
}

/// Begins a section.
fn open(suite: &mut SuiteFile, later: &mut Later, head: &str, line: usize) -> Result<Section, String> {
    let (kind, name) = head.split_once(char::is_whitespace).map_or((head, ""), |(k, n)| (k, n.trim()));
    let named = |taken: bool| match name {
        "" => Err(format!("[{kind} NAME] needs a name")),
        _ if taken => Err(format!("[{kind} {name}] is there twice")),
        _ => Ok(name.to_string()),
    };
    match kind {
        "suite" if name.is_empty() => Ok(Section::Suite),
        "binary" => {
            let name = named(suite.binaries.iter().any(|b| b.name == name))?;
            suite.binaries.push(Binary { name, line, ..Binary::default() });
            Ok(Section::Binary)
        }
        "case" => {
            let name = named(suite.cases.iter().any(|c| c.name == name))?;
            suite.cases.push(Case { name, line, command: "{bin}".to_string(), ..Case::default() });
            later.binaries.push(None);
            Ok(Section::Case)
        }
        _ => Err(format!("no section [{head}]: expected [suite], [binary NAME] or [case NAME]")),
    }
}

fn set(
    suite: &mut SuiteFile,
    later: &mut Later,
    section: Section,
    (line, key, value): (usize, &str, &str),
) -> Result<(), String> {
    let keys = match section {
        Section::Before => return Err("stands before any section".to_string()),
        Section::Suite => SUITE_KEYS,
        Section::Binary => BINARY_KEYS,
        Section::Case => CASE_KEYS,
    };
    if !keys.contains(&key) {
        return Err(format!("no such key here: expected {}", keys.join(", ")));
    }
    if value.is_empty() && key != "args" {
        return Err("needs a value".to_string());
    }
    match (section, suite.binaries.last_mut(), suite.cases.last_mut()) {
        (Section::Suite, ..) => set_suite(suite, later, (line, key, value)),
        (Section::Binary, Some(binary), _) => match key {
            "env" => pair(value).map(|p| binary.env.push(p)),
            _ => once(&mut binary.path, value),
        },
        (Section::Case, _, Some(case)) => {
            if key == "binaries" {
                if let Some(slot) = later.binaries.last_mut() {
                    *slot = Some((line, value.to_string()));
                }
                return Ok(());
            }
            set_case(case, key, value)
        }
        _ => Ok(()),
    }
}

fn set_suite(suite: &mut SuiteFile, later: &mut Later, (line, key, value): (usize, &str, &str)) -> Result<(), String> {
    match key {
        "name" => suite.name = Some(value.to_string()),
        "reference" => later.reference = Some((line, value.to_string())),
        "budget" => suite.budget_ns = Some(units::parse_duration(value)?),
        _ => match value.parse::<u64>() {
            Ok(n) if n > 0 => suite.rounds = Some(n),
            _ => return Err("expected a whole number of at least 1".to_string()),
        },
    }
    Ok(())
}

fn set_case(case: &mut Case, key: &str, value: &str) -> Result<(), String> {
    match key {
        "args" if case.command == "{bin}" => case.command = format!("{{bin}} {value}"),
        "command" if case.command == "{bin}" => case.command = value.to_string(),
        "args" | "command" => return Err("args and command are given once, and one of them".to_string()),
        "env" => case.env.push(pair(value)?),
        "stdin" => case.stdin = Some(value.to_string()).filter(|v| v != "null"),
        "cwd" => case.cwd = Some(value.to_string()),
        "exit" => {
            case.exit = match value {
                "any" => Accepted::Any,
                _ => Accepted::exactly(value)?,
            }
        }
        "output" => {
            case.output = match value {
                "any" => ExpectedOutput::Any,
                "same" => ExpectedOutput::Same,
                file => ExpectedOutput::File(file.to_string()),
            }
        }
        _ => {
            let hook = HOOKS.iter().find(|h| **h == key).ok_or("no such key")?;
            if case.hooks.iter().any(|(h, _)| h == hook) {
                return Err("is there twice: one command of each kind".to_string());
            }
            case.hooks.push((hook, value.to_string()));
        }
    }
    Ok(())
}

fn once(slot: &mut String, value: &str) -> Result<(), String> {
    if slot.is_empty() {
        *slot = value.to_string();
        Ok(())
    } else {
        Err("is there twice".to_string())
    }
}

fn pair(value: &str) -> Result<(String, String), String> {
    match value.split_once('=') {
        Some((name, value)) if !name.trim().is_empty() => Ok((name.trim().to_string(), value.to_string())),
        _ => Err("expected NAME=VALUE".to_string()),
    }
}

fn finish(mut suite: SuiteFile, later: Later) -> Result<SuiteFile> {
    let at = |line: usize, why: String| Err(Error::new(why).context(format!("line {line}")));
    if let Some(b) = suite.binaries.iter().find(|b| b.path.is_empty()) {
        return at(b.line, format!("[binary {}] has no path", b.name));
    }
    for (what, empty) in [("[binary NAME]", suite.binaries.is_empty()), ("[case NAME]", suite.cases.is_empty())] {
        if empty {
            return Err(Error::new(format!("has no {what}")));
        }
    }
    let index = |name: &str| suite.binaries.iter().position(|b| b.name == name);
    let unknown = |name: &str| format!("no binary is called '{name}'");
    if let Some((line, name)) = later.reference {
        match index(&name) {
            Some(i) => suite.reference = i,
            None => return at(line, unknown(&name)),
        }
    }
    let mut of_cases = Vec::new();
    for entry in later.binaries {
        let mut own = Vec::new();
        if let Some((line, names)) = entry {
            for name in names.split([' ', ',', '\t']).filter(|n| !n.is_empty()) {
                match index(name) {
                    Some(i) if !own.contains(&i) => own.push(i),
                    Some(_) => {}
                    None => return at(line, unknown(name)),
                }
            }
        }
        of_cases.push(own);
    }
    for (case, own) in suite.cases.iter_mut().zip(of_cases) {
        case.binaries = own;
    }
    Ok(suite)
}

/// What braces stand for.
#[derive(Debug, Clone)]
pub struct Names<'a> {
    /// The binary's path, as it is executed.
    pub bin: &'a Path,
    /// Its name.
    pub name: &'a str,
    /// The suite's directory.
    pub dir: &'a Path,
}

impl Names<'_> {
    /// Fills in what stands for something; words are split before, so that a path with blanks stays one word.
    pub fn fill(&self, text: &str) -> OsString {
        let mut out = OsString::new();
        let mut rest = text;
        while let Some(at) = rest.find('{') {
            let (before, braced) = rest.split_at(at);
            out.push(before);
            let known: [(&str, &std::ffi::OsStr); 3] =
                [("{bin}", self.bin.as_os_str()), ("{name}", self.name.as_ref()), ("{dir}", self.dir.as_os_str())];
            match known.iter().find(|(k, _)| braced.starts_with(k)) {
                Some((k, value)) => {
                    out.push(value);
                    rest = braced.get(k.len()..).unwrap_or_default();
                }
                None => {
                    out.push("{");
                    rest = braced.get(1..).unwrap_or_default();
                }
            }
        }
        out.push(rest);
        out
    }

    /// The words of a command, each filled in.
    ///
    /// # Errors
    /// Where it cannot be split.
    pub fn words(&self, command: &str) -> Result<Vec<OsString>> {
        // Braces are no blanks and need no shell, so that splitting goes first.
        let words =
            super::words::split(command.as_ref()).map_err(|why| Error::new(why).context(format!("'{command}'")))?;
        let fill = |w: OsString| w.to_str().map(|w| self.fill(w)).context(|| "not valid UTF-8");
        words.into_iter().map(fill).collect()
    }

    /// A path from the suite's directory.
    pub fn path(&self, text: &str) -> PathBuf {
        self.dir.join(self.fill(text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WHOLE: &str = "# two builds\n[suite]\nname = helpers\nreference = new\nrounds = 30\nbudget = 2s\n\n\
        [binary old]\npath = ./old dir/helper\n[binary new]\npath=./new/helper\nenv = A=b = c\n\n\
        [case usage]\nargs = --nonsense 'a b'\nexit = 2\n\
        ; a comment\n[case cgi run]\ncommand = {bin} -x {name}\nenv = M=GET\nenv=N=\nstdin = in.txt\ncwd = {dir}/w\n\
        exit = 0,1\noutput = want.txt\nbinaries = new\nsetup-round = sh make {dir}\n";

    #[test]
    fn a_whole_suite_reads() {
        let s = parse(WHOLE).unwrap();
        assert_eq!(
            (s.name.as_deref(), s.reference, s.rounds, s.budget_ns),
            (Some("helpers"), 1, Some(30), Some(2_000_000_000))
        );
        assert_eq!(s.binaries[1].env, [("A".to_string(), "b = c".to_string())]);
        let (usage, cgi) = (&s.cases[0], &s.cases[1]);
        assert_eq!((usage.command.as_str(), &usage.exit), ("{bin} --nonsense 'a b'", &Accepted::Exactly(vec![2])));
        assert_eq!(
            (cgi.name.as_str(), &cgi.exit, &cgi.output),
            ("cgi run", &Accepted::Exactly(vec![0, 1]), &ExpectedOutput::File("want.txt".into()))
        );
        assert_eq!(
            (cgi.env.len(), &cgi.binaries[..], &cgi.hooks[..]),
            (2, &[1][..], &[("setup-round", "sh make {dir}".to_string())][..])
        );
    }

    #[test]
    fn braces_are_filled_after_splitting() {
        let names = Names { bin: Path::new("/a b/{name}"), name: "new", dir: Path::new("/s") };
        assert_eq!(names.words("{bin} '{dir}/x' {other} {").unwrap(), ["/a b/{name}", "/s/x", "{other}", "{"]);
        assert_eq!(names.path("w/{name}"), Path::new("/s/w/new"));
        assert_eq!(names.path("/abs"), Path::new("/abs"));
    }

    #[test]
    fn errors_name_the_line_and_what_is_possible() {
        for (text, message) in [
            ("", "has no [binary NAME]"),
            ("[binary a]\npath = x\n", "has no [case NAME]"),
            ("path = x", "line 1: path: stands before any section"),
            ("[suite]\nnonsense", "line 2: expected [SECTION] or KEY = VALUE"),
            ("[suite\n", "line 1: a ']' is missing"),
            ("[sweet]\n", "line 1: no section [sweet]: expected [suite], [binary NAME] or [case NAME]"),
            ("[suite]\nnames = x\n", "line 2: names: no such key here: expected name, reference, rounds, budget"),
            ("[suite]\nrounds = 0\n", "line 2: rounds: expected a whole number of at least 1"),
            ("[suite]\nbudget = 5 parsec\n", "line 2: budget: expected a time such as 200ms, 1.5s or 2m"),
            ("[binary]\n", "line 1: [binary NAME] needs a name"),
            ("[binary a]\npath = x\n[binary a]\n", "line 3: [binary a] is there twice"),
            ("\n[binary a]\n[case c]\n", "line 2: [binary a] has no path"),
            ("[binary a]\npath = x\npath = y\n", "line 3: path: is there twice"),
            ("[binary a]\npath =\n", "line 2: path: needs a value"),
            ("[case c]\nenv = X\n", "line 2: env: expected NAME=VALUE"),
            ("[case c]\nargs = a\ncommand = b\n", "line 3: command: args and command are given once, and one of them"),
            ("[case c]\nexit = x\n", "line 2: exit: expected exit codes such as 1,2"),
            ("[case c]\nprepare = a\nprepare = b\n", "line 3: prepare: is there twice: one command of each kind"),
            ("[suite]\nreference = z\n[binary a]\npath = x\n[case c]\n", "line 2: no binary is called 'z'"),
            ("[binary a]\npath = x\n[case c]\nbinaries = a, q\n", "line 4: no binary is called 'q'"),
        ] {
            assert_eq!(parse(text).unwrap_err().to_string(), message, "{text:?}");
        }
    }
}
