//! Warnings as every text shows them.

use std::fmt::Write;

use crate::output::Style;
use crate::report::width::wrap;

/// Warnings, wrapped.
pub fn warnings(warnings: &[String], style: Style) -> String {
    let mut t = String::new();
    for w in warnings {
        for (i, line) in wrap(w, style.width.saturating_sub(9)).iter().enumerate() {
            let head = if i == 0 { style.warn("warning:") } else { "        ".to_string() };
            let _ = writeln!(t, "{head} {line}");
        }
    }
    t
}
