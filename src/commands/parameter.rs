//! The parameter of a sweep: `-L VAR=a,b,c` and `-P VAR=min..max[:step]`, and `{VAR}` filled in.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use crate::record::sweep::{Kind, Parameter};
use crate::units;

/// More points than this are a mistake rather than a wish: each is started in every round.
const MOST_POINTS: usize = 200;

/// Reads `VAR=a,b,c`.
///
/// # Errors
/// A sentence for the parser.
pub fn list(text: &str) -> Result<Parameter, String> {
    let (name, values) = named(text, "VAR=a,b,c")?;
    of(name, values.split(',').map(|v| v.trim().to_string()).collect())
}

/// Reads `VAR=min..max` or `VAR=min..max:step`; the step is 1 unless given. Units stand at all numbers or at none.
///
/// # Errors
/// A sentence for the parser.
pub fn range(text: &str) -> Result<Parameter, String> {
    let (name, rest) = named(text, "VAR=min..max or VAR=min..max:step")?;
    let (ends, step) = rest.split_once(':').map_or((rest, None), |(e, s)| (e, Some(s)));
    let (min, max) = ends.split_once("..").ok_or("expected VAR=min..max or VAR=min..max:step")?;
    let (mut min, max) = (Scaled::parse(min)?, Scaled::parse(max)?);
    if min.units == 0 && min.suffix.is_empty() {
        min.suffix.clone_from(&max.suffix);
    }
    let step = match step {
        Some(s) => Scaled::parse(s)?,
        None => Scaled { units: 1, decimals: 0, suffix: max.suffix.clone() },
    };
    if min.suffix != max.suffix || step.suffix != max.suffix {
        return Err("the unit must be the same at all numbers".to_string());
    }
    let decimals = min.decimals.max(max.decimals).max(step.decimals);
    let at = |s: &Scaled| s.at(decimals).ok_or("is out of range");
    let (mut value, last, step) = (at(&min)?, at(&max)?, at(&step)?);
    if step <= 0 || last < value {
        return Err("needs a step above 0, and a maximum that is not below the minimum".to_string());
    }
    let mut values = Vec::new();
    while value <= last {
        if values.len() == MOST_POINTS {
            return Err(format!("has more than {MOST_POINTS} points: give a larger step"));
        }
        values.push(format!("{}{}", decimal(value, decimals), max.suffix));
        value = value.checked_add(step).ok_or("is out of range")?;
    }
    of(name, values)
}

fn named<'a>(text: &'a str, form: &str) -> Result<(&'a str, &'a str), String> {
    match text.split_once('=') {
        Some((name, rest)) if !name.is_empty() && !name.contains(['{', '}']) && !rest.is_empty() => Ok((name, rest)),
        _ => Err(format!("expected {form}")),
    }
}

fn of(name: &str, values: Vec<String>) -> Result<Parameter, String> {
    if values.len() < 2 || values.len() > MOST_POINTS {
        return Err(format!("needs 2 to {MOST_POINTS} values"));
    }
    if let Some(twice) = values.iter().enumerate().find(|(i, v)| values[..*i].contains(v)) {
        return Err(format!("has the value '{}' twice", twice.1));
    }
    let x = |read: fn(&str) -> Option<f64>| values.iter().map(|v| read(v)).collect::<Option<Vec<f64>>>();
    let (kind, x) = if let Some(x) = x(number) {
        (Kind::Number, Some(x))
    } else if let Some(x) = x(time) {
        (Kind::Time, Some(x))
    } else if let Some(x) = x(bytes) {
        (Kind::Bytes, Some(x))
    } else {
        (Kind::Word, None)
    };
    Ok(Parameter { name: name.to_string(), values, kind, x })
}

fn number(text: &str) -> Option<f64> {
    text.parse::<f64>().ok().filter(|x| x.is_finite())
}

fn time(text: &str) -> Option<f64> {
    units::parse_duration(text).ok().map(|ns| ns as f64)
}

/// `4k`, `4K`, `4KiB`, `2M`, `1GiB`, `512B`: powers of 1024.
fn bytes(text: &str) -> Option<f64> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let scale = match text.get(digits.len()..)? {
        "" | "B" => 1.0,
        "k" | "K" | "KiB" => 1024.0,
        "M" | "MiB" => 1_048_576.0,
        "G" | "GiB" => 1_073_741_824.0,
        _ => return None,
    };
    number(digits).map(|x| x * scale)
}

/// A decimal number as whole units of its last digit, so that steps of 0.1 add up exactly.
struct Scaled {
    units: i64,
    decimals: u32,
    suffix: String,
}

impl Scaled {
    fn parse(text: &str) -> Result<Scaled, String> {
        let text = text.trim();
        let bad = || format!("'{text}' is no number");
        let digits = text.trim_end_matches(|c: char| c.is_alphabetic());
        let suffix = text.get(digits.len()..).unwrap_or_default().to_string();
        let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
        let decimals = u32::try_from(fraction.len()).ok().filter(|d| *d <= 9).ok_or_else(bad)?;
        if fraction.chars().any(|c| !c.is_ascii_digit()) {
            return Err(bad());
        }
        let units = format!("{whole}{fraction}").parse::<i64>().map_err(|_| bad())?;
        Ok(Scaled { units, decimals, suffix })
    }

    fn at(&self, decimals: u32) -> Option<i64> {
        self.units.checked_mul(10i64.checked_pow(decimals.checked_sub(self.decimals)?)?)
    }
}

fn decimal(units: i64, decimals: u32) -> String {
    if decimals == 0 {
        return units.to_string();
    }
    let scale = 10u64.pow(decimals);
    let (size, sign) = (units.unsigned_abs(), if units < 0 { "-" } else { "" });
    format!("{sign}{}.{:0width$}", size / scale, size % scale, width = decimals as usize)
}

/// More than any system takes as one argument or variable.
const MOST_BYTES: f64 = 4_194_304.0;

/// `text` with every `{NAME}` replaced by the value and every `{NAME*}` by as many letters `x` as it says, and whether
/// there was one.
pub fn fill(text: &OsStr, name: &str, value: &str) -> (OsString, bool) {
    let (plain, found) = replace(text.as_bytes(), &format!("{{{name}}}"), value);
    let letters = bytes(value).map(|n| "x".repeat(n.clamp(0.0, MOST_BYTES) as usize));
    let (out, more) = match letters {
        Some(letters) => replace(&plain, &format!("{{{name}*}}"), &letters),
        None => (plain, false),
    };
    (OsString::from_vec(out), found || more)
}

fn replace(text: &[u8], hole: &str, value: &str) -> (Vec<u8>, bool) {
    let mut out = Vec::with_capacity(text.len());
    let (mut rest, mut found) = (text, false);
    while let Some(at) = rest.windows(hole.len()).position(|w| w == hole.as_bytes()) {
        out.extend(rest.get(..at).unwrap_or_default());
        out.extend(value.as_bytes());
        rest = rest.get(at + hole.len()..).unwrap_or_default();
        found = true;
    }
    out.extend(rest);
    (out, found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_step_exactly_and_keep_their_unit() {
        assert_eq!(range("N=0..8k:4k").unwrap().values, range("N=0k..8k:4k").unwrap().values);
        for (text, values, kind) in [
            ("N=0..4", &["0", "1", "2", "3", "4"][..], Kind::Number),
            ("N=0..1:0.25", &["0.00", "0.25", "0.50", "0.75", "1.00"], Kind::Number),
            ("N=-1..1:1", &["-1", "0", "1"], Kind::Number),
            ("N=-0.5..0.5:0.5", &["-0.5", "0.0", "0.5"], Kind::Number),
            ("N=1..10:4", &["1", "5", "9"], Kind::Number),
            ("RTT=0ms..100ms:50ms", &["0ms", "50ms", "100ms"], Kind::Time),
            ("S=1K..3K", &["1K", "2K", "3K"], Kind::Bytes),
        ] {
            let p = range(text).unwrap();
            assert_eq!(
                (p.values.iter().map(String::as_str).collect::<Vec<_>>(), p.kind),
                (values.to_vec(), kind),
                "{text}"
            );
        }
        assert_eq!(range("RTT=0ms..100ms:50ms").unwrap().x, Some(vec![0.0, 5e7, 1e8]));
        assert_eq!(range("S=1K..3K").unwrap().x, Some(vec![1024.0, 2048.0, 3072.0]));
    }

    #[test]
    fn lists_are_what_all_their_values_are() {
        let p = list("N=1, 16,256").unwrap();
        assert_eq!((p.kind, p.x), (Kind::Number, Some(vec![1.0, 16.0, 256.0])));
        assert_eq!(list("R=0s,200ms").unwrap().kind, Kind::Time);
        assert_eq!((list("C=none,lto").unwrap().kind, list("C=1,x").unwrap().x), (Kind::Word, None));
    }

    #[test]
    fn nonsense_is_refused_in_words() {
        for (text, part) in [
            ("N", "expected VAR"),
            ("=1..2", "expected VAR"),
            ("N=5", "expected VAR"),
            ("N=a..b", "no number"),
            ("N=1..1.2345678901", "no number"),
            ("N=3..1", "not below the minimum"),
            ("N=1..3:0", "above 0"),
            ("N=1..3:-1", "above 0"),
            ("N=1..1", "needs 2"),
            ("N=0..100000", "more than 200"),
            ("N=1ms..2s", "unit must be the same"),
            ("N=0..9223372036854775807:9223372036854775807", "out of range"),
        ] {
            let e = range(text).unwrap_err();
            assert!(e.contains(part), "{text}: {e}");
        }
        assert!(list("N=1,2,1").unwrap_err().contains("'1' twice"));
        assert!(list("N=1").unwrap_err().contains("needs 2"));
    }

    #[test]
    fn every_hole_is_filled_and_bytes_are_kept() {
        let text = OsStr::from_bytes(b"\xff{N}x{N}{M}{");
        assert_eq!(fill(text, "N", "7"), (OsStr::from_bytes(b"\xff7x7{M}{").to_os_string(), true));
        assert_eq!(fill(OsStr::new("plain"), "N", "7"), ("plain".into(), false));
        assert_eq!(fill(OsStr::new("A={N*},{N}"), "N", "3"), ("A=xxx,3".into(), true));
        assert_eq!(fill(OsStr::new("{N*}"), "N", "1KiB").0.len(), 1024);
        assert_eq!(fill(OsStr::new("{N*}"), "N", "1e300").0.len(), 4 << 20);
        assert_eq!(fill(OsStr::new("{N*}"), "N", "words"), ("{N*}".into(), false));
    }
}
