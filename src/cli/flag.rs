//! One row a flag: its documentation and what it sets. Parsing, help, man page and completions read the same rows.
//!
//! Two rules for `set`: it only validates and stores (no file, no environment, no clock), and it never names
//! its flag in an error: the parser adds the flag as it was typed.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

use crate::order;
use crate::units;

/// What help, man page and completions say of a flag.
#[derive(Debug)]
pub struct FlagDoc {
    /// Long name without dashes.
    pub long: &'static str,
    /// One-letter name.
    pub short: Option<char>,
    /// Name of the value in help; `None` for a switch.
    pub value: Option<&'static str>,
    /// The value may be left out (then only `--flag=value` gives one).
    pub optional_value: bool,
    /// The words that the value may be, where they are few.
    pub choices: &'static [&'static str],
    /// One line for help.
    pub help: &'static str,
    /// Left out of help where all flags would not fit a screen.
    pub rare: bool,
}

/// A flag of options `T`.
pub struct Row<T: 'static> {
    /// Its documentation.
    pub doc: FlagDoc,
    /// Validates and stores.
    pub set: fn(&mut T, Value<'_>) -> Result<(), String>,
}

impl<T> Row<T> {
    /// A flag without a value.
    pub const fn switch(
        long: &'static str,
        short: Option<char>,
        help: &'static str,
        set: fn(&mut T, Value<'_>) -> Result<(), String>,
    ) -> Row<T> {
        Row { doc: FlagDoc { long, short, value: None, optional_value: false, choices: &[], help, rare: false }, set }
    }

    /// A flag with a value.
    pub const fn value(
        long: &'static str,
        short: Option<char>,
        value: &'static str,
        help: &'static str,
        set: fn(&mut T, Value<'_>) -> Result<(), String>,
    ) -> Row<T> {
        Row {
            doc: FlagDoc { long, short, value: Some(value), optional_value: false, choices: &[], help, rare: false },
            set,
        }
    }

    /// A flag whose value is one of a few words.
    pub const fn choice(
        long: &'static str,
        choices: &'static [&'static str],
        value: &'static str,
        help: &'static str,
        set: fn(&mut T, Value<'_>) -> Result<(), String>,
    ) -> Row<T> {
        Row {
            doc: FlagDoc { long, short: None, value: Some(value), optional_value: false, choices, help, rare: false },
            set,
        }
    }

    /// The same, with the value left to choice.
    #[must_use]
    pub const fn optional(mut self) -> Row<T> {
        self.doc.optional_value = true;
        self
    }

    /// The same, for those who ask for all flags.
    #[must_use]
    pub const fn rare(mut self) -> Row<T> {
        self.doc.rare = true;
        self
    }
}

/// A row that asks for a file in one of the formats of the verb's `Export`: it fills `Options::exports`.
macro_rules! export {
    ($name:literal, $format:expr, $help:literal) => {
        Row::value($name, None, "FILE", $help, |o: &mut Options, v| {
            o.exports.push($format, v.owned()?.into());
            Ok(())
        })
    };
}
pub(super) use export;

/// A row for a command around the starts: it fills `Options::hooks`.
macro_rules! hook {
    ($name:literal, $short:expr, $help:literal) => {
        Row::value($name, $short, "CMD", $help, |o: &mut Options, v| {
            o.hooks.push(($name, v.owned()?));
            Ok(())
        })
    };
}
pub(super) use hook;

/// A flag's value as given; readers return a sentence without the flag's name.
#[derive(Debug, Clone, Copy)]
pub struct Value<'a>(pub Option<&'a OsStr>);

impl<'a> Value<'a> {
    /// The value, in whatever bytes it came.
    ///
    /// # Errors
    /// Where there is none (a switch).
    pub fn os(self) -> Result<&'a OsStr, String> {
        self.0.ok_or_else(|| "needs a value".to_string())
    }

    /// The value as an owned string of the system.
    ///
    /// # Errors
    /// As [`Value::os`].
    pub fn owned(self) -> Result<OsString, String> {
        self.os().map(OsStr::to_os_string)
    }

    /// The value as text.
    ///
    /// # Errors
    /// Where it is not UTF-8.
    pub fn text(self) -> Result<&'a str, String> {
        self.os()?.to_str().ok_or_else(|| "is not valid UTF-8".to_string())
    }

    /// A whole number of at least `least`.
    ///
    /// # Errors
    /// Where it is none, or smaller.
    pub fn whole(self, least: u64) -> Result<u64, String> {
        let text = self.text()?;
        match text.parse::<u64>() {
            Ok(n) if n >= least => Ok(n),
            Ok(_) => Err(format!("must be at least {least}")),
            Err(e) if *e.kind() == std::num::IntErrorKind::PosOverflow => Err("is too large".to_string()),
            Err(_) => Err("expected a whole number".to_string()),
        }
    }

    /// A time in nanoseconds.
    ///
    /// # Errors
    /// Where it is none.
    pub fn duration(self) -> Result<u64, String> {
        units::parse_duration(self.text()?)
    }

    /// A share: `2%` or `0.02`.
    ///
    /// # Errors
    /// Where it is none, or negative.
    pub fn share(self) -> Result<f64, String> {
        let text = self.text()?;
        let (digits, scale) = text.strip_suffix('%').map_or((text, 1.0), |d| (d, 100.0));
        match digits.parse::<f64>() {
            Ok(x) if x.is_finite() && x >= 0.0 => Ok(x / scale),
            _ => Err("expected a share such as 2% or 0.02".to_string()),
        }
    }

    /// One word of a table.
    ///
    /// # Errors
    /// Names the words that are possible.
    pub fn one_of<T: Copy>(self, words: &[(&str, T)]) -> Result<T, String> {
        let text = self.text()?;
        let names: Vec<&str> = words.iter().map(|(w, _)| *w).collect();
        words.iter().find(|(w, _)| *w == text).map(|(_, v)| *v).ok_or_else(|| format!("expected {}", names.join(", ")))
    }

    /// `NAME=value` as a pair of bytes.
    ///
    /// # Errors
    /// Where there is no `=` or no name.
    pub fn pair(self) -> Result<(OsString, OsString), String> {
        let bytes = self.os()?.as_bytes();
        match bytes.iter().position(|&b| b == b'=') {
            Some(at) if at > 0 => {
                let (name, value) = bytes.split_at(at);
                Ok((
                    OsStr::from_bytes(name).to_os_string(),
                    OsStr::from_bytes(value.get(1..).unwrap_or_default()).to_os_string(),
                ))
            }
            _ => Err("expected NAME=VALUE".to_string()),
        }
    }
}

/// Rows bound to the options that they fill.
pub trait Table {
    /// The rows' documentation.
    fn docs(&self) -> Vec<&'static FlagDoc>;
    /// Sets what row `index` says.
    ///
    /// # Errors
    /// A sentence for the parser to put behind the flag.
    fn set(&mut self, index: usize, value: Value<'_>) -> Result<(), String>;
}

/// Groups of rows, each with its heading in help.
pub type Groups<T> = &'static [(&'static str, &'static [Row<T>])];

/// Rows with their options.
pub struct Bound<'a, T: 'static> {
    /// The rows.
    pub groups: Groups<T>,
    /// What they fill.
    pub options: &'a mut T,
}

impl<T> Table for Bound<'_, T> {
    fn docs(&self) -> Vec<&'static FlagDoc> {
        self.groups.iter().flat_map(|(_, rows)| docs(rows)).collect()
    }

    fn set(&mut self, index: usize, value: Value<'_>) -> Result<(), String> {
        let row = self.groups.iter().flat_map(|(_, rows)| rows.iter()).nth(index);
        row.map_or(Ok(()), |row| (row.set)(self.options, value))
    }
}

/// Binds groups of rows to the options that they fill.
pub fn bind<T>(groups: Groups<T>, options: &mut T) -> Bound<'_, T> {
    Bound { groups, options }
}

/// Headings with the documentation of their rows, for help.
pub type Documented = Vec<(&'static str, Vec<&'static FlagDoc>)>;

/// The documentation of some groups.
pub fn documented<T>(groups: Groups<T>) -> Documented {
    groups.iter().map(|(heading, rows)| (*heading, docs(rows))).collect()
}

/// Headings in the order of help; others follow.
const HEADINGS: [&str; 6] = ["commands", "measuring", "checks", "what is read", "what is shown", "output"];

/// The same with groups of one heading joined.
pub fn merged(groups: Documented) -> Documented {
    let mut out: Documented = Vec::new();
    for (heading, rows) in groups {
        match out.iter_mut().find(|(h, _)| *h == heading) {
            Some((_, there)) => there.extend(rows),
            None => out.push((heading, rows)),
        }
    }
    order::by_key(&mut out, |(heading, _)| HEADINGS.iter().position(|h| h == heading).unwrap_or(HEADINGS.len()));
    out
}

/// The documentation of some rows.
pub fn docs<T>(rows: &'static [Row<T>]) -> Vec<&'static FlagDoc> {
    rows.iter().map(|r| &r.doc).collect()
}
