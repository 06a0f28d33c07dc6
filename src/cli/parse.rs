//! argv to options: `--x=v`, `--x v`, `-n5`, `-n 5`, `-ij` grouped, `--`, non-UTF-8 values, near misses.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

use super::flag::{FlagDoc, Table, Value};
use crate::error::{Error, Result};

/// What is left when flags are taken out.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Rest {
    /// Words that are no flags, before `--`.
    pub words: Vec<OsString>,
    /// What followed `--`, where it was there.
    pub after_dashes: Option<Vec<OsString>>,
    /// `-h` or `--help` was there: nothing else matters.
    pub help: bool,
}

impl Rest {
    /// All words, before `--` and behind.
    pub fn all(self) -> impl Iterator<Item = OsString> {
        self.words.into_iter().chain(self.after_dashes.unwrap_or_default())
    }

    /// The words of one command: what follows `--`, or else what is there.
    pub fn command(self) -> Vec<OsString> {
        self.after_dashes.unwrap_or(self.words)
    }
}

/// Where flags end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// Flags and words may mix until `--`.
    Mixed,
    /// The first word ends the flags: it and all behind it are a command.
    CommandFirst,
}

/// Takes the flags of `tables` out of `args`.
///
/// # Errors
/// Unknown flag (with the nearest one), missing, unexpected or bad value; each names the flag as typed.
pub fn parse(args: &[OsString], order: Order, tables: &mut [&mut dyn Table]) -> Result<Rest> {
    let mut rest = Rest::default();
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        let bytes = arg.as_bytes();
        if bytes == b"--" {
            rest.after_dashes = Some(args.cloned().collect());
            return Ok(rest);
        }
        if !bytes.starts_with(b"-") || bytes == b"-" {
            rest.words.push(arg.clone());
            if order == Order::CommandFirst {
                rest.words.extend(args.cloned());
                return Ok(rest);
            }
        } else if bytes.starts_with(b"--") {
            rest.help |= long(bytes, &mut args, tables)?;
        } else {
            rest.help |= shorts(arg, &mut args, tables)?;
        }
        if rest.help {
            return Ok(rest);
        }
    }
    Ok(rest)
}

type Args<'a> = std::slice::Iter<'a, OsString>;

/// Table number, row number and documentation of the flag that `is_it` accepts.
fn find(tables: &[&mut dyn Table], is_it: impl Fn(&FlagDoc) -> bool) -> Option<(usize, usize, &'static FlagDoc)> {
    tables
        .iter()
        .enumerate()
        .find_map(|(t, table)| table.docs().iter().enumerate().find(|(_, d)| is_it(d)).map(|(r, d)| (t, r, *d)))
}

fn set(tables: &mut [&mut dyn Table], at: (usize, usize), typed: &str, value: Value<'_>) -> Result<()> {
    let (table, row) = at;
    let done = tables.get_mut(table).map_or(Ok(()), |t| t.set(row, value));
    done.map_err(|why| match value.0 {
        Some(v) => Error::new(why).context(format!("{typed} {}", v.to_string_lossy())),
        None => Error::new(why).context(typed),
    })
}

/// One `--flag`; true for help.
fn long(bytes: &[u8], args: &mut Args<'_>, tables: &mut [&mut dyn Table]) -> Result<bool> {
    let body = bytes.get(2..).unwrap_or_default();
    let (name, given) = match body.iter().position(|&b| b == b'=') {
        Some(at) => (body.get(..at).unwrap_or_default(), body.get(at + 1..)),
        None => (body, None),
    };
    let name = String::from_utf8_lossy(name);
    let typed = format!("--{name}");
    if name == "help" && given.is_none() {
        return Ok(true);
    }
    let Some((table, row, doc)) = find(tables, |d| d.long == name) else {
        return Err(unknown(&typed, tables));
    };
    let value = match (doc.value, given) {
        (None, Some(_)) => return Err(Error::new("takes no value").context(typed)),
        (None, None) => None,
        (Some(_), Some(v)) => Some(OsStr::from_bytes(v)),
        (Some(_), None) if doc.optional_value => None,
        (Some(what), None) => Some(next_value(args, &typed, what)?),
    };
    set(tables, (table, row), &typed, Value(value))?;
    Ok(false)
}

fn next_value<'a>(args: &mut Args<'a>, typed: &str, what: &str) -> Result<&'a OsStr> {
    args.next().map(OsString::as_os_str).ok_or_else(|| Error::new(format!("needs a value ({what})")).context(typed))
}

/// One `-abc` group; true for help.
fn shorts(arg: &OsStr, args: &mut Args<'_>, tables: &mut [&mut dyn Table]) -> Result<bool> {
    let mut bytes = arg.as_bytes().get(1..).unwrap_or_default();
    while let Some((&letter, tail)) = bytes.split_first() {
        let letter = char::from(letter);
        let typed = format!("-{letter}");
        if letter == 'h' {
            return Ok(true);
        }
        let Some((table, row, doc)) = find(tables, |d| d.short == Some(letter)) else {
            return Err(unknown(&arg.to_string_lossy(), tables));
        };
        let Some(what) = doc.value else {
            set(tables, (table, row), &typed, Value(None))?;
            bytes = tail;
            continue;
        };
        let attached = tail.strip_prefix(b"=").unwrap_or(tail);
        let value = match (attached.is_empty(), doc.optional_value) {
            (false, false) => Some(OsStr::from_bytes(attached)),
            // An optional value must be joined by `=`, or `-ij` could not group.
            (false, true) if tail.first() == Some(&b'=') => Some(OsStr::from_bytes(attached)),
            (_, true) => {
                set(tables, (table, row), &typed, Value(None))?;
                bytes = tail;
                continue;
            }
            (true, false) => Some(next_value(args, &typed, what)?),
        };
        set(tables, (table, row), &typed, Value(value))?;
        return Ok(false);
    }
    Ok(false)
}

fn unknown(typed: &str, tables: &[&mut dyn Table]) -> Error {
    let names = tables.iter().flat_map(|t| t.docs()).map(|d| format!("--{}", d.long)).chain(["--help".to_string()]);
    let hint = nearest(typed, names).map_or(String::new(), |n| format!("; did you mean {n}?"));
    Error::new(format!("unknown flag{hint}")).context(typed)
}

/// The candidate nearest to `typed`, if it is near enough to be what was meant.
pub fn nearest(typed: &str, candidates: impl IntoIterator<Item = String>) -> Option<String> {
    let bound = typed.trim_start_matches('-').chars().count().div_ceil(3);
    candidates
        .into_iter()
        .map(|c| (if c.starts_with(typed) && typed.len() > 3 { 0 } else { distance(typed, &c) }, c))
        .min()
        .filter(|(d, _)| *d <= bound)
        .map(|(_, c)| c)
}

/// Optimal string alignment: insertions, deletions, substitutions and swaps of neighbours.
fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let mut rows = vec![vec![0usize; b.len() + 1]; a.len() + 1];
    for (i, row) in rows.iter_mut().enumerate() {
        row[0] = i;
    }
    rows[0] = (0..=b.len()).collect();
    for i in 1..=a.len() {
        for j in 1..=b.len() {
            let same = usize::from(a[i - 1] != b[j - 1]);
            let mut best = (rows[i - 1][j] + 1).min(rows[i][j - 1] + 1).min(rows[i - 1][j - 1] + same);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                best = best.min(rows[i - 2][j - 2] + 1);
            }
            rows[i][j] = best;
        }
    }
    rows[a.len()][b.len()]
}

#[cfg(test)]
mod tests {
    use super::super::flag::{Row, bind};
    use super::*;

    #[derive(Default, Debug, PartialEq)]
    struct Options {
        runs: Option<u64>,
        json: bool,
        ignore: Option<String>,
        name: OsString,
    }

    static ROWS: &[Row<Options>] = &[
        Row::value("runs", Some('r'), "N", "", |o: &mut Options, v| {
            o.runs = Some(v.whole(1)?);
            Ok(())
        }),
        Row::switch("json", Some('j'), "", |o: &mut Options, _| {
            o.json = true;
            Ok(())
        }),
        Row::value("ignore-failure", Some('i'), "CODES", "", |o: &mut Options, v| {
            o.ignore = Some(v.0.map_or(String::new(), |v| v.to_string_lossy().into_owned()));
            Ok(())
        })
        .optional(),
        Row::value("name", Some('n'), "NAME", "", |o: &mut Options, v| {
            o.name = v.owned()?;
            Ok(())
        }),
    ];

    static GROUPS: super::super::flag::Groups<Options> = &[("flags", ROWS)];

    fn check(args: &[&[u8]], order: Order) -> Result<(Options, Rest)> {
        let args: Vec<OsString> = args.iter().map(|a| OsStr::from_bytes(a).to_os_string()).collect();
        let mut options = Options::default();
        let rest = parse(&args, order, &mut [&mut bind(GROUPS, &mut options)])?;
        Ok((options, rest))
    }

    #[test]
    fn every_form_of_a_value() {
        for form in [
            &[&b"-r"[..], b"5"][..],
            &[b"-r5"],
            &[b"-r=5"],
            &[b"--runs", b"5"],
            &[b"--runs=5"],
            &[b"-jr5"],
            &[b"-ijr5"],
        ] {
            let (options, _) = check(form, Order::Mixed).unwrap();
            assert_eq!(options.runs, Some(5), "{form:?}");
        }
        let (options, rest) = check(&[b"-i", b"1"], Order::Mixed).unwrap();
        assert_eq!((options.ignore.as_deref(), rest.words.len()), (Some(""), 1));
        assert_eq!(check(&[b"-i=1,2"], Order::Mixed).unwrap().0.ignore.as_deref(), Some("1,2"));
        assert_eq!(check(&[b"--name=\xff"], Order::Mixed).unwrap().0.name.as_bytes(), b"\xff");
    }

    #[test]
    fn the_command_begins_at_its_first_word() {
        let (options, rest) = check(&[b"-j", b"git", b"--version", b"-r"], Order::CommandFirst).unwrap();
        assert!(options.json);
        assert_eq!(rest.words, ["git", "--version", "-r"]);
        let (_, rest) = check(&[b"a", b"-j", b"--", b"b", b"-z"], Order::Mixed).unwrap();
        assert_eq!((rest.words, rest.after_dashes), (vec!["a".into()], Some(vec!["b".into(), "-z".into()])));
    }

    #[test]
    fn errors_name_the_flag_as_typed() {
        for (args, message) in [
            (&[&b"--run=5"[..]][..], "--run: unknown flag; did you mean --runs?"),
            (&[b"--jsno"], "--jsno: unknown flag; did you mean --json?"),
            (&[b"--zzzzzzz"], "--zzzzzzz: unknown flag"),
            (&[b"-x"], "-x: unknown flag"),
            (&[b"-r"], "-r: needs a value (N)"),
            (&[b"-r", b"0"], "-r 0: must be at least 1"),
            (&[b"--runs=18446744073709551616"], "--runs 18446744073709551616: is too large"),
            (&[b"-r", b"-1"], "-r -1: expected a whole number"),
            (&[b"--json=1"], "--json: takes no value"),
        ] {
            assert_eq!(check(args, Order::Mixed).unwrap_err().to_string(), message);
        }
    }

    #[test]
    fn help_wins_at_once() {
        assert!(check(&[b"-h", b"--zzz"], Order::Mixed).unwrap().1.help);
        assert!(check(&[b"--help"], Order::CommandFirst).unwrap().1.help);
    }
}
