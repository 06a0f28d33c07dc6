//! Text inside XML: JUnit reports and SVG pictures.

use std::fmt::Write;

/// Text as content or attribute. What XML 1.0 cannot hold (control characters, U+FFFE, U+FFFF) becomes U+FFFD; tabs and
/// line ends become references, for attributes would turn them into blanks.
pub fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\t' | '\n' | '\r' => {
                let _ = write!(out, "&#{};", u32::from(c));
            }
            c if c.is_control() || matches!(c, '\u{fffe}' | '\u{ffff}') => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    #[test]
    fn nothing_leaves_its_place() {
        assert_eq!(super::escape("a<b>&\"c'\n\u{1b}\u{ffff}é"), "a&lt;b&gt;&amp;&quot;c'&#10;\u{fffd}\u{fffd}é");
    }
}
