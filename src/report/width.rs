//! How many terminal columns a text takes, and text made safe to print.

/// Columns of `text` on a terminal: combining marks take none, East Asian wide characters and most emoji
/// two (the ranges of Unicode's East Asian Width property that matter for names of files and commands).
pub fn columns(text: &str) -> usize {
    text.chars().map(char_columns).sum()
}

fn char_columns(c: char) -> usize {
    match u32::from(c) {
        0x20..=0x7e => 1,
        0x300..=0x36f | 0x483..=0x489 | 0x591..=0x5bd | 0x610..=0x61a | 0x64b..=0x65f => 0,
        0x200b..=0x200f | 0x2028..=0x202e | 0x2060..=0x2064 | 0x20d0..=0x20f0 => 0,
        0xfe00..=0xfe0f | 0xfe20..=0xfe2f | 0xfeff | 0xe0100..=0xe01ef => 0,
        0x1100..=0x115f | 0x2e80..=0x303e | 0x3041..=0x4dbf | 0x4e00..=0xa4cf | 0xac00..=0xd7a3 => 2,
        0xf900..=0xfaff | 0xfe30..=0xfe6f | 0xff00..=0xff60 | 0xffe0..=0xffe6 => 2,
        0x1f300..=0x1f64f | 0x1f680..=0x1f6ff | 0x1f900..=0x1f9ff | 0x20000..=0x3fffd => 2,
        _ => 1,
    }
}

/// `text` with control characters written out (`\n`, `\u{1b}`): a file or command name must not be able to
/// move the reader's cursor, nor to reverse the direction of what follows.
pub fn printable(text: &str) -> String {
    let unsafe_char = |c: char| c.is_control() || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    if !text.contains(unsafe_char) {
        return text.to_string();
    }
    text.chars().map(|c| if unsafe_char(c) { c.escape_default().to_string() } else { c.to_string() }).collect()
}

/// `text` cut to at most `width` columns, with `…` in place of what is missing.
pub fn cut(text: &str, width: usize) -> String {
    if columns(text) <= width {
        return text.to_string();
    }
    let mut out = String::new();
    let mut used = 0;
    for c in text.chars() {
        let next = used + char_columns(c);
        if next + 1 > width {
            break;
        }
        out.push(c);
        used = next;
    }
    if width > 0 {
        out.push('…');
    }
    out
}

/// Lines of `text`, each wrapped to `width` and ended.
pub fn paragraph(text: &str, width: usize) -> String {
    text.lines().flat_map(|line| wrap(line, width)).fold(String::new(), |t, line| t + &line + "\n")
}

/// `text` in lines of at most `width` columns, broken at spaces where there are any, else in the middle.
pub fn wrap(text: &str, width: usize) -> Vec<String> {
    let width = width.max(2);
    if columns(text) <= width {
        return vec![text.to_string()];
    }
    let mut lines: Vec<String> = Vec::new();
    let mut line = String::new();
    for word in text.split(' ') {
        let gap = usize::from(!line.is_empty());
        if columns(&line) + gap + columns(word) <= width {
            if gap == 1 {
                line.push(' ');
            }
            line.push_str(word);
            continue;
        }
        if !line.is_empty() {
            lines.push(std::mem::take(&mut line));
        }
        for c in word.chars() {
            if columns(&line) + char_columns(c) > width {
                lines.push(std::mem::take(&mut line));
            }
            line.push(c);
        }
    }
    lines.push(line);
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn widths_of_what_names_hold() {
        for (text, width) in [("abc", 3), ("µs", 2), ("é", 1), ("e\u{301}", 1), ("日本", 4), ("🚀x", 3), ("", 0)]
        {
            assert_eq!(columns(text), width, "{text}");
        }
    }

    #[test]
    fn control_characters_are_written_out() {
        assert_eq!(printable("a\x1b[31mb\n"), "a\\u{1b}[31mb\\n");
        assert_eq!(printable("\u{202e}gpj"), "\\u{202e}gpj");
        assert_eq!(printable("plain é"), "plain é");
    }

    #[test]
    fn cutting_and_wrapping_count_columns() {
        assert_eq!(cut("日本語", 5), "日本…");
        assert_eq!(cut("日本語", 4), "日…");
        assert_eq!((cut("abc", 3).as_str(), cut("abcd", 3).as_str(), cut("abc", 0).as_str()), ("abc", "ab…", ""));
        assert_eq!(wrap("git status --short", 10), ["git status", "--short"]);
        assert_eq!(wrap("/usr/bin/abcdef x", 6), ["/usr/b", "in/abc", "def x"]);
        assert_eq!(wrap("", 6), [""]);
    }
}
