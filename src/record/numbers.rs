//! Columns of numbers out of plain text: what `premain stat` reads where a file is not JSON.

use crate::error::{Error, Result};

/// One column of a text.
#[derive(Debug, Clone, PartialEq)]
pub struct TextColumn {
    /// The numbers, in order.
    pub values: Vec<f64>,
    /// Lines that have text, yet no such column.
    pub short_lines: usize,
}

/// Reads column `column` (from 1) of `text`. Fields end at any of `delimiters`: blanks and tabs join up, every other
/// delimiter counts, so that an empty field of a CSV file is a field. `#` ends a line; empty lines are skipped.
///
/// # Errors
/// A field that is no finite number, with its line.
pub fn text_column(text: &str, column: usize, delimiters: &str) -> Result<TextColumn> {
    let mut out = TextColumn { values: Vec::new(), short_lines: 0 };
    for (i, line) in text.trim_start_matches('\u{feff}').lines().enumerate() {
        let line = line.split('#').next().unwrap_or("").trim_end();
        if line.trim().is_empty() {
            continue;
        }
        match field(line, column, delimiters) {
            None => out.short_lines += 1,
            Some(word) => match word.trim().parse::<f64>() {
                Ok(x) if x.is_finite() => out.values.push(x),
                _ => return Err(Error::new(format!("line {}: not a number: {word:?}", i + 1))),
            },
        }
    }
    Ok(out)
}

fn field<'a>(line: &'a str, column: usize, delimiters: &str) -> Option<&'a str> {
    let blank = |c: char| c == ' ' || c == '\t';
    let fields = line.split(|c: char| delimiters.contains(c));
    // An empty field between blanks is no field; one between commas is, and is missing.
    let only_blanks = delimiters.chars().all(blank);
    fields.filter(|f| !(only_blanks && f.is_empty())).nth(column.checked_sub(1)?).filter(|f| !f.trim().is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str, column: usize, delimiters: &str) -> Vec<f64> {
        text_column(text, column, delimiters).unwrap().values
    }

    #[test]
    fn what_lines_may_hold() {
        assert_eq!(read("1\n 2.5 \n\n# note\n3e2 # three hundred\r\n+4\t\n", 1, " \t"), [1.0, 2.5, 300.0, 4.0]);
        assert_eq!(read("a 1\nb   2\n", 2, " \t"), [1.0, 2.0]);
        assert_eq!(read("1,,3\n4,5,6\n", 3, ","), [3.0, 6.0]);
        assert_eq!(read("\u{feff}7", 1, " \t"), [7.0]);
        assert_eq!(read("1, 2\n3, 4\n", 2, ", "), [] as [f64; 0]);
        assert_eq!(read("1, 2\n3, 4\n", 2, ","), [2.0, 4.0]);
    }

    #[test]
    fn what_is_missing_is_counted_and_what_is_wrong_is_named() {
        let c = text_column("1 2\n3\n", 2, " \t").unwrap();
        assert_eq!((c.values, c.short_lines), (vec![2.0], 1));
        for bad in ["1\nx\n", "1\nnan\n", "1\ninf\n", "1\n1e999\n", "1\n0x10\n"] {
            let e = text_column(bad, 1, " \t").unwrap_err().to_string();
            assert!(e.starts_with("line 2: not a number"), "{e}");
        }
    }
}
