//! What CI systems show of a check: JUnit's XML, and GitHub's annotations.

use std::fmt::Write;

use crate::record::bench::BenchRecord;
use crate::record::check::{Checked, Evidence, Outcome, Row, overall};
use crate::report::check_text::{headline, sentence};
use crate::report::xml::escape;

/// JUnit's XML: one test case a gate. What is not decided is skipped, under `strict` a failure; stored samples alone
/// never fail. The form is the one that Jenkins's and GitLab's readers take; text goes into elements, since not
/// every reader knows a `message` of `skipped`.
pub fn junit(c: &Checked, r: &BenchRecord, strict: bool) -> String {
    let gated: Vec<&Row> = c.rows.iter().filter(|r| r.gated).collect();
    let count = |what: Case| gated.iter().filter(|r| case(r, strict) == what).count();
    let (failures, skipped) = (count(Case::Failure), count(Case::Skipped));
    let seconds = r.setting.spent_ns as f64 / 1e9;
    let mut t = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
    let _ = writeln!(
        t,
        "<testsuites name=\"premain check\" tests=\"{}\" failures=\"{failures}\" errors=\"0\" time=\"{seconds:.3}\">",
        gated.len()
    );
    let _ = writeln!(
        t,
        "  <testsuite name=\"{}\" tests=\"{}\" failures=\"{failures}\" errors=\"0\" skipped=\"{skipped}\" time=\"{seconds:.3}\">",
        escape(&c.file.to_string_lossy()),
        gated.len()
    );
    for row in gated {
        let _ = write!(t, "    <testcase classname=\"{}\" name=\"{}\"", escape(&row.command), row.metric.name);
        let said = escape(&sentence(row));
        let _ = match case(row, strict) {
            Case::Passed => writeln!(t, "><system-out>{said}</system-out></testcase>"),
            Case::Skipped => writeln!(t, "><skipped>{said}</skipped></testcase>"),
            Case::Failure => {
                writeln!(t, "><failure type=\"{}\" message=\"{said}\">{said}</failure></testcase>", row.outcome.word())
            }
        };
    }
    t.push_str("  </testsuite>\n</testsuites>\n");
    t
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Case {
    Passed,
    Skipped,
    Failure,
}

fn case(row: &Row, strict: bool) -> Case {
    match row.outcome {
        _ if row.fails() => Case::Failure,
        Outcome::Passed if !matches!(row.evidence, Evidence::Stored(_)) => Case::Passed,
        _ if strict => Case::Failure,
        _ => Case::Skipped,
    }
}

/// GitHub's workflow commands: an error for each regression, a warning (under `strict` an error) for what is not
/// decided, and a notice with the sum of it.
pub fn annotations(c: &Checked, strict: bool) -> String {
    let mut t = String::new();
    for row in c.rows.iter().filter(|r| r.gated) {
        let level = match case(row, strict) {
            Case::Failure => "error",
            Case::Skipped => "warning",
            Case::Passed => continue,
        };
        let title = format!("premain check: {} {}", row.command, row.metric.name);
        let _ = writeln!(t, "::{level} title={}::{}", property(&title), data(&sentence(row)));
    }
    if overall(&c.rows) == Outcome::Passed {
        let _ = writeln!(t, "::notice title=premain check::{}", data(&headline(c)));
    }
    t
}

/// The text of a workflow command: it ends at the line's end, so that must be written out.
fn data(text: &str) -> String {
    text.replace('%', "%25").replace('\r', "%0D").replace('\n', "%0A")
}

/// A property of a workflow command ends at a colon or a comma too.
fn property(text: &str) -> String {
    data(text).replace(':', "%3A").replace(',', "%2C")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_cannot_break_out() {
        assert_eq!(property("a: b, 5 %\n::error::x"), "a%3A b%2C 5 %25%0A%3A%3Aerror%3A%3Ax");
        assert_eq!(data("5 %\r\nx: y"), "5 %25%0D%0Ax: y");
    }
}
