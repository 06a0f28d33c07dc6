//! The command line: which verb, its flags, its help. One table of verbs, one row a flag.

pub mod flag;
pub mod help;
pub mod parse;
pub mod shared;

mod bench;
mod calibrate;
mod check;
mod correlate;
mod doctor;
mod explain;
mod inspect;
mod predict;
mod stat;
mod storm;
mod suite;
mod survey;
mod sweep;
mod trace;
mod whatif;

use std::ffi::OsString;

use crate::error::{Error, Exit, Result};
use crate::output::Output;
use flag::Documented;

/// A verb: what help says of it, and what runs it.
pub struct Verb {
    /// Its name.
    pub name: &'static str,
    /// How it is called, one line a form.
    pub usage: &'static [&'static str],
    /// What it does, one line.
    pub summary: &'static str,
    /// Flags by group heading.
    pub flags: fn() -> Documented,
    /// Lines below the flags in its help.
    pub notes: &'static str,
    /// Parses the words behind the verb and does the job.
    pub run: fn(&[OsString], &mut Output<'_>) -> Result<Exit>,
}

/// Every verb, in the order of help.
pub static VERBS: &[Verb] = &[
    explain::VERB,
    bench::VERB,
    check::VERB,
    suite::VERB,
    sweep::VERB,
    storm::VERB,
    trace::VERB,
    calibrate::VERB,
    correlate::VERB,
    doctor::VERB,
    inspect::VERB,
    survey::VERB,
    predict::VERB,
    stat::VERB,
    whatif::VERB,
];

/// Runs one invocation: `args` without the program's own name.
///
/// # Errors
/// Whatever ends it before its job is done; the exit code is the error's.
pub fn run(args: &[OsString], output: &mut Output<'_>) -> Result<Exit> {
    let Some(first) = args.first() else {
        return Err(Error::new("no program given; try 'premain --help'"));
    };
    let rest = args.get(1..).unwrap_or_default();
    match first.to_str() {
        Some("-V" | "--version") => {
            output.text(&format!("premain {}\n", env!("CARGO_PKG_VERSION")))?;
            Ok(Exit::Done)
        }
        Some("-h" | "--help") => help::overview(output),
        Some("help") => help::verb_or_overview(rest, output),
        Some(word) => match verb(word) {
            Some(verb) => (verb.run)(rest, output),
            None => (explain::VERB.run)(args, output),
        },
        None => (explain::VERB.run)(args, output),
    }
}

/// The verb of that name.
pub fn verb(name: &str) -> Option<&'static Verb> {
    VERBS.iter().find(|v| v.name == name)
}

#[cfg(test)]
mod tests {
    use super::flag::FlagDoc;
    use super::*;
    use std::collections::HashSet;

    fn each_flag() -> impl Iterator<Item = (&'static str, &'static FlagDoc)> {
        VERBS
            .iter()
            .flat_map(|v| (v.flags)().into_iter().flat_map(move |(_, docs)| docs.into_iter().map(move |d| (v.name, d))))
    }

    #[test]
    fn no_verb_has_two_flags_of_one_name() {
        let mut names = HashSet::new();
        for (verb, doc) in each_flag() {
            assert!(names.insert((verb, doc.long.to_string())), "{verb} --{}", doc.long);
            assert!(doc.short.is_none_or(|c| names.insert((verb, c.to_string()))), "{verb} -{:?}", doc.short);
        }
    }

    #[test]
    fn every_flag_is_documented_in_plain_words() {
        for (verb, doc) in each_flag() {
            assert!(!doc.help.is_empty() && !doc.help.ends_with('.'), "{verb} --{}", doc.long);
            assert!(
                doc.long.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-'),
                "{}",
                doc.long
            );
            assert!(doc.choices.is_empty() || doc.value.is_some(), "{verb} --{}", doc.long);
            assert!(doc.long != "help" && doc.short != Some('h'), "{verb}: help belongs to the parser");
        }
    }

    #[test]
    fn help_fits_a_screen_and_all_of_it_can_be_had() {
        for v in VERBS {
            let (short, whole) = (help::verb_text(v, 80, false), help::verb_text(v, 80, true));
            let lines = short.lines().count();
            assert!(lines <= help::SCREEN, "{}: {lines} lines", v.name);
            for (_, docs) in (v.flags)() {
                for doc in docs {
                    assert!(whole.contains(&format!("--{}", doc.long)), "{} --{}", v.name, doc.long);
                }
            }
            assert_eq!(short != whole, short.contains("more flags: premain help"), "{}", v.name);
        }
    }

    #[test]
    fn help_is_never_a_verb_of_the_table() {
        assert!(verb("help").is_none() && verb("explain").is_some());
    }
}
