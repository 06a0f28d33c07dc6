//! `--help`: one screen for the tool, one for each verb, from the same rows that the parser reads.

use std::ffi::OsString;
use std::fmt::Write;

use super::flag::FlagDoc;
use super::{VERBS, Verb, parse, verb};
use crate::error::{Error, Exit, Result};
use crate::output::Output;
use crate::report::width::wrap;

/// Help on the whole tool.
///
/// # Errors
/// Where it cannot be written.
pub fn overview(output: &mut Output<'_>) -> Result<Exit> {
    let mut t = String::from(
        "premain: what a program costs before its main runs, where that time goes, and which link settings cause it\n\n",
    );
    t.push_str("  premain PROGRAM [ARG...]      measure, inspect, trace and explain one program\n");
    t.push_str(
        "  premain VERB ...              see below; 'premain -- NAME' explains a program called like a verb\n\n",
    );
    let width = VERBS.iter().map(|v| v.name.len()).max().unwrap_or(0);
    for v in VERBS {
        let _ = writeln!(t, "  {:width$}  {}", v.name, v.summary);
    }
    let _ = writeln!(t, "  {:width$}  help on a verb; 'premain help VERB --all' for its rarer flags too", "help");
    t.push_str("\n  premain VERB --help           flags of a verb\n  premain --version\n");
    t.push_str(
        "\nexit codes: 0 done, 1 the answer is no, 2 usage or trouble, 3 not decided, 4 a measured command failed,\n",
    );
    t.push_str("            124 a command ran past --timeout, 130 interrupted\n");
    output.text(&t)?;
    Ok(Exit::Done)
}

/// `premain help [VERB [--all]]`.
///
/// # Errors
/// Where there is no such verb (the nearest is named), or it cannot be written.
pub fn verb_or_overview(words: &[OsString], output: &mut Output<'_>) -> Result<Exit> {
    let Some(word) = words.first() else { return overview(output) };
    let name = word.to_string_lossy();
    match verb(&name) {
        Some(v) => match words.get(1).map(|w| w.to_string_lossy()) {
            None => of_verb(v, output),
            Some(word) if word == "--all" => output.text(&verb_text(v, output.style.width, true)).map(|()| Exit::Done),
            Some(word) => Err(Error::new("expected --all, or nothing").context(word).context("help")),
        },
        None => {
            let hint = parse::nearest(&name, VERBS.iter().map(|v| v.name.to_string()));
            let hint = hint.map_or(String::new(), |n| format!("; did you mean {n}?"));
            Err(Error::new(format!("no such verb{hint}")).context(name).context("help"))
        }
    }
}

/// Help on one verb.
///
/// # Errors
/// Where it cannot be written.
pub fn of_verb(v: &Verb, output: &mut Output<'_>) -> Result<Exit> {
    let text = verb_text(v, output.style.width, false);
    output.text(&text)?;
    Ok(Exit::Done)
}

/// Lines of a screen that help may fill.
pub const SCREEN: usize = 44;

/// The text of a verb's help, wrapped to `width` columns: with `all` flags, or those that fit a screen.
pub fn verb_text(v: &Verb, width: usize, all: bool) -> String {
    let whole = with_flags(v, width, |_| true);
    if all || whole.lines().count() <= SCREEN {
        return whole;
    }
    let left_out = (v.flags)().iter().flat_map(|(_, docs)| docs).filter(|d| d.rare).count();
    let mut t = with_flags(v, width, |doc| !doc.rare);
    let _ = writeln!(t, "\n{left_out} more flags: premain help {} --all", v.name);
    t
}

fn with_flags(v: &Verb, width: usize, shown: impl Fn(&FlagDoc) -> bool) -> String {
    let title = format!("premain {}: {}", v.name, v.summary);
    let mut t = format!("{}\n\n", wrap(&title, width.clamp(60, 110)).join("\n"));
    for usage in v.usage {
        let _ = writeln!(t, "  {usage}");
    }
    for (group, mut docs) in (v.flags)() {
        docs.retain(|doc| shown(doc));
        if !docs.is_empty() {
            let _ = writeln!(t, "\n{group}:");
        }
        for doc in docs {
            flag_lines(doc, width, &mut t);
        }
    }
    if !v.notes.is_empty() {
        let lines = paragraphs(v.notes).into_iter().flat_map(|p| wrap(&p, width.clamp(60, 110)));
        let _ = writeln!(t, "\n{}", lines.collect::<Vec<_>>().join("\n"));
    }
    t
}

/// Lines that belong together as one each; indented and empty lines stay what they are.
fn paragraphs(text: &str) -> Vec<String> {
    let mut out: Vec<String> = Vec::new();
    for line in text.trim_end().lines() {
        let alone = |l: &str| l.is_empty() || l.starts_with(' ');
        match out.last_mut() {
            Some(last) if !alone(last) && !alone(line) => *last = format!("{last} {line}"),
            _ => out.push(line.to_string()),
        }
    }
    out
}

/// Column in which a flag's description begins.
const HELP_COLUMN: usize = 28;

fn flag_lines(doc: &FlagDoc, width: usize, t: &mut String) {
    let short = doc.short.map_or("    ".to_string(), |c| format!("-{c}, "));
    let value = match doc.value {
        Some(v) if doc.optional_value => format!("[={v}]"),
        Some(v) => format!(" {v}"),
        None => String::new(),
    };
    let mut line = format!("  {short}--{}{value}", doc.long);
    if line.chars().count() + 2 > HELP_COLUMN {
        let _ = writeln!(t, "{line}");
        line.clear();
    }
    for text in wrap(doc.help, width.clamp(60, 110) - HELP_COLUMN) {
        let _ = writeln!(t, "{line:HELP_COLUMN$}{text}");
        line.clear();
    }
}
