//! JSON out and in: a value, its compact and indented printers, and a bounded parser.
//!
//! Integers stay integers (nanoseconds, bytes, counts); a float that is not finite prints as `null`.
//! Names that are not UTF-8 are kept losslessly: a string where they are UTF-8, else
//! `{"bytes_hex": "ff", "lossy": "\u{fffd}"}`.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use crate::error::{Error, Result};

/// A JSON value. Objects keep the order in which fields were added.
#[derive(Debug, Clone, PartialEq)]
pub enum Json {
    /// `null`: a figure that does not exist.
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// A count, bytes or nanoseconds.
    Uint(u64),
    /// A signed difference.
    Int(i64),
    /// A ratio or seconds. Not finite: `null`.
    Float(f64),
    /// Text.
    Str(String),
    /// `[…]`.
    Array(Vec<Json>),
    /// `{…}`.
    Object(Vec<(String, Json)>),
}

impl Json {
    /// An object from fields.
    pub fn object<K: Into<String>>(fields: impl IntoIterator<Item = (K, Json)>) -> Json {
        Json::Object(fields.into_iter().map(|(k, v)| (k.into(), v)).collect())
    }

    /// An array from anything that turns into JSON.
    pub fn array<T: Into<Json>>(items: impl IntoIterator<Item = T>) -> Json {
        Json::Array(items.into_iter().map(Into::into).collect())
    }

    /// A name from the system, lossless.
    pub fn os(name: &OsStr) -> Json {
        match name.to_str() {
            Some(s) => Json::Str(s.to_string()),
            None => Json::object([
                ("bytes_hex", Json::Str(name.as_bytes().iter().map(|b| format!("{b:02x}")).collect())),
                ("lossy", Json::Str(name.to_string_lossy().into_owned())),
            ]),
        }
    }

    /// The three-state form for a value that is there and could not be read.
    pub fn unreadable(why: impl Into<String>) -> Json {
        Json::object([("unreadable", Json::Str(why.into()))])
    }

    /// A name from the system, as [`Json::os`] wrote it.
    pub fn as_os(&self) -> Option<OsString> {
        if let Json::Str(s) = self {
            return Some(OsString::from(s));
        }
        let hex = self.get("bytes_hex")?.as_str()?.as_bytes();
        let digit = |d: u8| char::from(d).to_digit(16);
        let byte = |pair: &[u8; 2]| u8::try_from(digit(pair[0])? * 16 + digit(pair[1])?).ok();
        let (pairs, rest) = hex.as_chunks::<2>();
        let bytes = pairs.iter().map(byte).collect::<Option<Vec<u8>>>()?;
        rest.is_empty().then(|| OsString::from_vec(bytes))
    }

    /// Adds a field to an object; anything else is left as it is.
    pub fn push(&mut self, key: &str, value: impl Into<Json>) {
        if let Json::Object(fields) = self {
            fields.push((key.to_string(), value.into()));
        }
    }

    /// The value of a field, where this is an object that has it.
    pub fn get(&self, key: &str) -> Option<&Json> {
        match self {
            Json::Object(fields) => fields.iter().find(|(k, _)| k == key).map(|(_, v)| v),
            _ => None,
        }
    }

    /// A text value.
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Json::Str(s) => Some(s),
            _ => None,
        }
    }

    /// A whole number that is not negative.
    pub fn as_u64(&self) -> Option<u64> {
        match *self {
            Json::Uint(n) => Some(n),
            Json::Int(n) => u64::try_from(n).ok(),
            _ => None,
        }
    }

    /// Any number.
    pub fn as_f64(&self) -> Option<f64> {
        match *self {
            Json::Uint(n) => Some(n as f64),
            Json::Int(n) => Some(n as f64),
            Json::Float(x) => Some(x),
            _ => None,
        }
    }

    /// The items of an array.
    pub fn as_array(&self) -> Option<&[Json]> {
        match self {
            Json::Array(items) => Some(items),
            _ => None,
        }
    }

    /// Indented by two spaces, with short arrays of plain values on one line, ending in a newline.
    pub fn pretty(&self) -> String {
        let mut out = String::new();
        write_pretty(self, 0, &mut out);
        out.push('\n');
        out
    }

    /// `true` or `false`.
    pub fn as_bool(&self) -> Option<bool> {
        match *self {
            Json::Bool(b) => Some(b),
            _ => None,
        }
    }

    /// Reads one JSON document. Errors name the line and column. Nesting is bounded.
    ///
    /// # Errors
    /// Where the text is no JSON document.
    pub fn parse(text: &str) -> Result<Json> {
        Json::parse_without(text, &[])
    }

    /// The same; the values of fields of these names are read, checked and given up at once (`null` stands for
    /// them), so that a document with long columns costs no memory where they are not wanted.
    ///
    /// # Errors
    /// As [`Json::parse`].
    pub fn parse_without(text: &str, dropped: &[&str]) -> Result<Json> {
        let mut p = Parser { text, at: 0, dropped };
        let value = p.value(0)?;
        p.space();
        if p.at < text.len() {
            return Err(p.error("text after the end of the document"));
        }
        Ok(value)
    }

    /// True where `text` is the beginning of a JSON document, and no more of it: all is in order but the end is missing.
    pub fn is_cut_short(text: &str) -> bool {
        let mut p = Parser { text, at: 0, dropped: &[] };
        p.value(0).is_err() && p.at >= text.len()
    }
}

impl fmt::Display for Json {
    /// Compact, on one line.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Json::Null => f.write_str("null"),
            Json::Bool(b) => write!(f, "{b}"),
            Json::Uint(n) => write!(f, "{n}"),
            Json::Int(n) => write!(f, "{n}"),
            Json::Float(x) if x.is_finite() => write!(f, "{x:?}"),
            Json::Float(_) => f.write_str("null"),
            Json::Str(s) => write_string(s, f),
            Json::Array(items) => {
                f.write_str("[")?;
                for (i, item) in items.iter().enumerate() {
                    if i > 0 {
                        f.write_str(",")?;
                    }
                    write!(f, "{item}")?;
                }
                f.write_str("]")
            }
            Json::Object(fields) => {
                f.write_str("{")?;
                for (i, (k, v)) in fields.iter().enumerate() {
                    if i > 0 {
                        f.write_str(",")?;
                    }
                    write_string(k, f)?;
                    write!(f, ":{v}")?;
                }
                f.write_str("}")
            }
        }
    }
}

fn write_string(s: &str, f: &mut impl fmt::Write) -> fmt::Result {
    f.write_char('"')?;
    for c in s.chars() {
        match c {
            '"' => f.write_str("\\\"")?,
            '\\' => f.write_str("\\\\")?,
            '\n' => f.write_str("\\n")?,
            '\t' => f.write_str("\\t")?,
            '\r' => f.write_str("\\r")?,
            c if u32::from(c) < 0x20 || c == '\u{7f}' => write!(f, "\\u{:04x}", u32::from(c))?,
            c => f.write_char(c)?,
        }
    }
    f.write_char('"')
}

fn is_plain(v: &Json) -> bool {
    !matches!(v, Json::Array(_) | Json::Object(_))
}

fn write_pretty(v: &Json, depth: usize, out: &mut String) {
    let pad = |out: &mut String, n: usize| out.extend(std::iter::repeat_n("  ", n));
    match v {
        Json::Array(items) if !items.is_empty() && !items.iter().all(is_plain) => {
            out.push_str("[\n");
            for (i, item) in items.iter().enumerate() {
                pad(out, depth + 1);
                write_pretty(item, depth + 1, out);
                out.push_str(if i + 1 < items.len() { ",\n" } else { "\n" });
            }
            pad(out, depth);
            out.push(']');
        }
        Json::Object(fields) if !fields.is_empty() => {
            out.push_str("{\n");
            for (i, (k, item)) in fields.iter().enumerate() {
                pad(out, depth + 1);
                // Writing to a String cannot fail.
                let _ = write_string(k, out);
                out.push_str(": ");
                write_pretty(item, depth + 1, out);
                out.push_str(if i + 1 < fields.len() { ",\n" } else { "\n" });
            }
            pad(out, depth);
            out.push('}');
        }
        other => out.push_str(&other.to_string()),
    }
}

macro_rules! json_from {
    ($($from:ty => $value:expr),* $(,)?) => { $(
        impl From<$from> for Json {
            fn from(x: $from) -> Json { #[allow(clippy::redundant_closure_call)] ($value)(x) }
        }
    )* };
}
json_from! {
    bool => Json::Bool,
    u8 => |x| Json::Uint(u64::from(x)),
    u16 => |x| Json::Uint(u64::from(x)),
    u32 => |x| Json::Uint(u64::from(x)),
    u64 => Json::Uint,
    usize => |x| Json::Uint(x as u64),
    i32 => |x| Json::Int(i64::from(x)),
    i64 => Json::Int,
    f64 => Json::Float,
    &str => |x: &str| Json::Str(x.to_string()),
    String => Json::Str,
    &OsStr => |x: &OsStr| Json::os(x),
    Vec<Json> => Json::Array,
}

impl<T: Into<Json>> From<Option<T>> for Json {
    fn from(x: Option<T>) -> Json {
        x.map_or(Json::Null, Into::into)
    }
}

/// Deeper documents than this are refused: recursion must not be driven by a file.
const DEPTH_LIMIT: usize = 64;

struct Parser<'a> {
    text: &'a str,
    at: usize,
    /// Fields whose values are not kept.
    dropped: &'a [&'a str],
}

impl Parser<'_> {
    fn error(&self, what: &str) -> Error {
        let before = self.text.get(..self.at).unwrap_or(self.text);
        let line = before.matches('\n').count() + 1;
        let column = before.rsplit('\n').next().unwrap_or("").chars().count() + 1;
        Error::new(format!("not valid JSON at line {line}, column {column}: {what}"))
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    fn word(&mut self, word: &str, value: Json) -> Result<Json> {
        let rest = self.text.get(self.at..).unwrap_or_default();
        if rest.starts_with(word) {
            self.at += word.len();
            return Ok(value);
        }
        let e = self.error("an unknown word");
        if word.starts_with(rest) {
            self.at = self.text.len();
        }
        Err(e)
    }

    fn value(&mut self, depth: usize) -> Result<Json> {
        if depth > DEPTH_LIMIT {
            return Err(self.error("nested too deep"));
        }
        self.space();
        match self.peek() {
            None => Err(self.error("the text ends too early")),
            Some(b'n') => self.word("null", Json::Null),
            Some(b't') => self.word("true", Json::Bool(true)),
            Some(b'f') => self.word("false", Json::Bool(false)),
            Some(b'"') => self.string().map(Json::Str),
            Some(b'[') => self.list(b']', |p| p.value(depth + 1)).map(Json::Array),
            Some(b'{') => self.list(b'}', |p| p.field(depth + 1)).map(Json::Object),
            Some(_) => self.number(),
        }
    }

    /// Comma-separated items up to `end`; the opening bracket is the next character.
    fn list<T>(&mut self, end: u8, item: impl Fn(&mut Self) -> Result<T>) -> Result<Vec<T>> {
        self.at += 1;
        let mut items = Vec::new();
        self.space();
        if self.peek() == Some(end) {
            self.at += 1;
            return Ok(items);
        }
        loop {
            items.push(item(self)?);
            self.space();
            match self.peek() {
                Some(b',') => self.at += 1,
                Some(c) if c == end => {
                    self.at += 1;
                    return Ok(items);
                }
                None => return Err(self.error("the text ends too early")),
                Some(_) => return Err(self.error("a comma or a closing bracket is missing")),
            }
        }
    }

    fn field(&mut self, depth: usize) -> Result<(String, Json)> {
        self.space();
        if self.peek() != Some(b'"') {
            return Err(self.error("a field name in quotes is missing"));
        }
        let key = self.string()?;
        self.space();
        if self.peek() != Some(b':') {
            return Err(self.error("a colon is missing"));
        }
        self.at += 1;
        let value = self.value(depth)?;
        let drop = self.dropped.contains(&key.as_str());
        Ok((key, if drop { Json::Null } else { value }))
    }

    fn number(&mut self) -> Result<Json> {
        let start = self.at;
        while matches!(self.peek(), Some(b'0'..=b'9' | b'-' | b'+' | b'.' | b'e' | b'E')) {
            self.at += 1;
        }
        let digits = &self.text[start..self.at];
        if let Ok(n) = digits.parse::<u64>() {
            return Ok(Json::Uint(n));
        }
        if let Ok(n) = digits.parse::<i64>() {
            return Ok(Json::Int(n));
        }
        match digits.parse::<f64>() {
            Ok(x) if x.is_finite() => Ok(Json::Float(x)),
            _ => {
                let end = std::mem::replace(&mut self.at, start);
                let e = self.error("a value is missing or is not a number");
                self.at = if end == self.text.len() { end } else { start };
                Err(e)
            }
        }
    }

    fn hex4(&mut self) -> Result<u32> {
        let hex = self.text.get(self.at..self.at + 4).filter(|h| h.bytes().all(|b| b.is_ascii_hexdigit()));
        let code = hex.and_then(|h| u32::from_str_radix(h, 16).ok());
        self.at += 4;
        code.ok_or_else(|| self.error("a bad \\u escape"))
    }

    fn escape(&mut self) -> Result<char> {
        let c = self.peek();
        self.at += 1;
        Ok(match c {
            Some(c @ (b'"' | b'\\' | b'/')) => char::from(c),
            Some(b'n') => '\n',
            Some(b't') => '\t',
            Some(b'r') => '\r',
            Some(b'b') => '\u{8}',
            Some(b'f') => '\u{c}',
            Some(b'u') => {
                let mut code = self.hex4()?;
                if (0xd800..0xdc00).contains(&code) && self.text.get(self.at..self.at + 2) == Some("\\u") {
                    self.at += 2;
                    let low = self.hex4()?;
                    if !(0xdc00..0xe000).contains(&low) {
                        return Err(self.error("a bad surrogate pair"));
                    }
                    code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
                }
                char::from_u32(code).ok_or_else(|| self.error("a bad \\u escape"))?
            }
            _ => return Err(self.error("an unknown escape")),
        })
    }

    fn string(&mut self) -> Result<String> {
        self.at += 1;
        let mut out = String::new();
        loop {
            let rest = self.text.get(self.at..).unwrap_or("");
            let Some(stop) = rest.find(['"', '\\']) else {
                self.at = self.text.len();
                return Err(self.error("a string is not closed"));
            };
            out.push_str(&rest[..stop]);
            self.at += stop + 1;
            if rest.as_bytes().get(stop) == Some(&b'"') {
                return Ok(out);
            }
            out.push(self.escape()?);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_reads_back() {
        let v = Json::object([
            ("n", Json::Uint(u64::MAX)),
            ("i", Json::Int(-5)),
            ("x", Json::Float(1.5)),
            ("s", "a\"\\\n\u{1}é😀".into()),
            ("a", Json::array([1u64, 2])),
            ("o", Json::object([("e", Json::Null), ("t", Json::Bool(true))])),
            ("z", Json::Array(vec![])),
        ]);
        assert_eq!(Json::parse(&v.to_string()).unwrap(), v);
        assert_eq!(Json::parse(&v.pretty()).unwrap(), v);
    }

    #[test]
    fn there_is_never_a_nan() {
        assert_eq!(Json::array([f64::NAN, f64::INFINITY]).to_string(), "[null,null]");
    }

    #[test]
    fn names_that_are_not_utf8_are_kept() {
        let v = Json::os(OsStr::from_bytes(b"a\xff"));
        assert_eq!(v.get("bytes_hex").and_then(Json::as_str), Some("61ff"));
        for name in [&b"a\xff"[..], b"", b"plain", b"\xc3\xa9"] {
            let name = OsStr::from_bytes(name);
            assert_eq!(Json::os(name).as_os().as_deref(), Some(name));
        }
        let odd = Json::object([("bytes_hex", Json::from("616"))]);
        assert_eq!((odd.as_os(), Json::Uint(1).as_os()), (None, None));
    }

    #[test]
    fn bad_documents_say_where() {
        for (text, place) in [
            ("", "line 1, column 1"),
            ("{\"a\": 1,\n  b}", "line 2, column 3"),
            ("[1, 2", "line 1, column 6"),
            ("[1] x", "line 1, column 5"),
            ("\"\\ud800\"", "line 1"),
            ("nul", "line 1, column 1"),
            ("-", "line 1, column 1"),
        ] {
            let e = Json::parse(text).unwrap_err().to_string();
            assert!(e.contains(place), "{text:?}: {e}");
        }
        let deep = "[".repeat(100_000);
        assert!(Json::parse(&deep).unwrap_err().to_string().contains("too deep"));
    }

    #[test]
    fn every_proper_beginning_is_cut_short_and_nothing_else_is() {
        let whole = r#"{"a": [1, 2.5e3, true, null, "x\n"], "b": {"c": -1}}"#;
        for end in 1..whole.len() {
            assert!(Json::is_cut_short(&whole[..end]), "{}", &whole[..end]);
        }
        assert!(!Json::is_cut_short(whole) && !Json::is_cut_short("{a}") && !Json::is_cut_short("[1,]2"));
    }

    #[test]
    fn columns_that_nobody_wants_are_checked_and_dropped() {
        let text = r#"{"keep": 1, "samples": {"x": [1, 2]}, "deep": {"samples": []}}"#;
        let j = Json::parse_without(text, &["samples"]).unwrap();
        assert_eq!(j.to_string(), r#"{"keep":1,"samples":null,"deep":{"samples":null}}"#);
        assert!(Json::parse_without(r#"{"samples": [1, }"#, &["samples"]).is_err());
    }

    #[test]
    fn surrogate_pairs_join() {
        assert_eq!(Json::parse("\"\\ud83d\\ude00\"").unwrap(), Json::Str("😀".into()));
    }
}
