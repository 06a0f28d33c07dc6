//! A table for people: aligned where it fits, one block a row where the terminal is too narrow.
//!
//! ```
//! use premain::output::Style;
//! use premain::report::table::Table;
//!
//! let mut table = Table::new(["<command", ">exit\np50"]);
//! table.row(["true", "0.51 ms"]);
//! assert_eq!(table.render(Style::PLAIN), "            exit\ncommand      p50\ntrue     0.51 ms\n");
//! ```

use super::width::{columns, printable, wrap};
use crate::output::Style;

/// Columns between two columns.
const GAP: usize = 2;
/// A column of text may be wrapped down to this width before the table gives up being one.
const NARROWEST_TEXT: usize = 16;

/// Emphasis of one cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Paint {
    Plain,
    Bold,
    Dim,
    Warn,
}

/// One cell: text (control characters are written out) and emphasis.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cell {
    text: String,
    paint: Paint,
}

impl Cell {
    /// What stands out.
    pub fn bold(text: impl AsRef<str>) -> Cell {
        Cell { text: printable(text.as_ref()), paint: Paint::Bold }
    }

    /// What matters less.
    pub fn dim(text: impl AsRef<str>) -> Cell {
        Cell { text: printable(text.as_ref()), paint: Paint::Dim }
    }

    /// What needs attention.
    pub fn warn(text: impl AsRef<str>) -> Cell {
        Cell { text: printable(text.as_ref()), paint: Paint::Warn }
    }

    fn paint(&self, style: Style, text: &str) -> String {
        match self.paint {
            Paint::Plain => text.to_string(),
            Paint::Bold => style.bold(text),
            Paint::Dim => style.dim(text),
            Paint::Warn => style.warn(text),
        }
    }
}

impl<T: AsRef<str>> From<T> for Cell {
    fn from(text: T) -> Cell {
        Cell { text: printable(text.as_ref()), paint: Paint::Plain }
    }
}

#[derive(Debug, Clone)]
struct Column {
    /// Lines of the header, the last one next to the rows.
    header: Vec<String>,
    right: bool,
}

/// Rows under headers. The first column names the row.
#[derive(Debug, Clone)]
pub struct Table {
    columns: Vec<Column>,
    rows: Vec<Vec<Cell>>,
}

impl Table {
    /// A table with these headers. A leading `>` aligns the column to the right (figures), `<` or nothing to the
    /// left (names); a line break in a header makes it take several lines.
    pub fn new<S: AsRef<str>>(headers: impl IntoIterator<Item = S>) -> Table {
        let column = |h: S| {
            let (right, text) = match h.as_ref().split_at_checked(1) {
                Some((">", rest)) => (true, rest),
                Some(("<", rest)) => (false, rest),
                _ => (false, h.as_ref()),
            };
            Column { header: text.split('\n').map(printable).collect(), right }
        };
        Table { columns: headers.into_iter().map(column).collect(), rows: Vec::new() }
    }

    /// Adds a row. Missing cells are empty, cells beyond the headers are dropped.
    pub fn row<C: Into<Cell>>(&mut self, cells: impl IntoIterator<Item = C>) -> &mut Table {
        let mut row: Vec<Cell> = cells.into_iter().map(Into::into).take(self.columns.len()).collect();
        row.resize(self.columns.len(), Cell::from(""));
        self.rows.push(row);
        self
    }

    /// The same without the columns in which no row has anything: what was not measured takes no room.
    #[must_use]
    pub fn without_empty_columns(mut self) -> Table {
        let kept: Vec<bool> =
            (0..self.columns.len()).map(|i| i == 0 || self.rows.iter().any(|r| !r[i].text.is_empty())).collect();
        let keep = |i: &mut usize| {
            *i += 1;
            kept[*i - 1]
        };
        for row in &mut self.rows {
            let mut i = 0;
            row.retain(|_| keep(&mut i));
        }
        let mut i = 0;
        self.columns.retain(|_| keep(&mut i));
        self
    }

    /// The table as lines, none wider than `style.width` where that is possible at all.
    pub fn render(&self, style: Style) -> String {
        match self.fitting_widths(style.width) {
            Some(widths) => self.aligned(&widths, style),
            None => self.blocks(style),
        }
    }

    /// Column widths with which the table fits, the widest text columns wrapped as far as needed.
    fn fitting_widths(&self, width: usize) -> Option<Vec<usize>> {
        let natural = |(i, c): (usize, &Column)| {
            let cells = self.rows.iter().map(|r| columns(&r[i].text));
            c.header.iter().map(|h| columns(h)).chain(cells).max().unwrap_or(0)
        };
        let mut widths: Vec<usize> = self.columns.iter().enumerate().map(natural).collect();
        loop {
            let total = widths.iter().sum::<usize>() + GAP * widths.len().saturating_sub(1);
            if total <= width {
                return Some(widths);
            }
            let text = (0..widths.len()).filter(|&i| !self.columns[i].right && widths[i] > NARROWEST_TEXT);
            let widest = text.max_by_key(|&i| widths[i])?;
            widths[widest] -= (total - width).min(widths[widest] - NARROWEST_TEXT);
        }
    }

    fn aligned(&self, widths: &[usize], style: Style) -> String {
        let mut out = String::new();
        let header_lines = self.columns.iter().map(|c| c.header.len()).max().unwrap_or(0);
        for line in 0..header_lines {
            // Short headers sink to the row of rows.
            let text = |c: &Column| (line + c.header.len()).checked_sub(header_lines).map(|i| Cell::bold(&c.header[i]));
            let cells: Vec<Cell> = self.columns.iter().map(|c| text(c).unwrap_or(Cell::from(""))).collect();
            self.line(&cells, widths, style, &mut out);
        }
        for row in &self.rows {
            let lines: Vec<Vec<String>> = row.iter().zip(widths).map(|(c, &w)| wrap(&c.text, w)).collect();
            for i in 0..lines.iter().map(Vec::len).max().unwrap_or(0) {
                let part = |(cell, l): (&Cell, &Vec<String>)| Cell {
                    text: l.get(i).cloned().unwrap_or_default(),
                    paint: cell.paint,
                };
                let cells: Vec<Cell> = row.iter().zip(&lines).map(part).collect();
                self.line(&cells, widths, style, &mut out);
            }
        }
        out
    }

    /// One line of cells that fit their widths, without blanks at its end.
    fn line(&self, cells: &[Cell], widths: &[usize], style: Style, out: &mut String) {
        let mut pending = 0;
        for (i, ((cell, &width), column)) in cells.iter().zip(widths).zip(&self.columns).enumerate() {
            let space = width.saturating_sub(columns(&cell.text));
            let (before, after) = if column.right { (space, 0) } else { (0, space) };
            pending += before + if i > 0 { GAP } else { 0 };
            if !cell.text.is_empty() {
                out.extend(std::iter::repeat_n(' ', pending));
                out.push_str(&cell.paint(style, &cell.text));
                pending = 0;
            }
            pending += after;
        }
        out.push('\n');
    }

    /// One block a row: its name, then a line for every other cell that is not empty.
    fn blocks(&self, style: Style) -> String {
        let headers: Vec<String> = self.columns.iter().map(|c| c.header.join(" ").trim().to_string()).collect();
        let widest = headers.iter().skip(1).map(|h| columns(h)).max().unwrap_or(0);
        let mut out = String::new();
        for (n, row) in self.rows.iter().enumerate() {
            if n > 0 {
                out.push('\n');
            }
            if let Some(name) = row.first() {
                out.push_str(&style.bold(&name.text));
                out.push('\n');
            }
            for (cell, header) in row.iter().zip(&headers).skip(1).filter(|(c, _)| !c.text.is_empty()) {
                let space = widest - columns(header) + GAP;
                out.push_str(&format!("  {header}{}{}\n", " ".repeat(space), cell.paint(style, &cell.text)));
            }
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table {
        let mut t = Table::new(["command", ">first byte\np50", ">exit\np50", "verdict"]);
        t.row(["/bin/true", "-", "512 µs", "equivalent"]);
        t.row(["日本 --version", "9.81 ms", "10.2 ms", "slower"]);
        t
    }

    fn at(width: usize) -> String {
        table().render(Style { color: false, width })
    }

    #[test]
    fn columns_line_up() {
        let expected = "                first byte     exit\n\
                        command                p50      p50  verdict\n\
                        /bin/true                -   512 µs  equivalent\n\
                        日本 --version     9.81 ms  10.2 ms  slower\n";
        assert_eq!(at(80), expected);
        assert_eq!(at(47), expected);
    }

    #[test]
    fn a_narrow_terminal_gets_blocks() {
        let expected = "/bin/true\n  first byte p50  -\n  exit p50        512 µs\n  verdict         equivalent\n\n\
                        日本 --version\n  first byte p50  9.81 ms\n  exit p50        10.2 ms\n  verdict         slower\n";
        assert_eq!(at(40), expected);
        assert_eq!(at(0), expected);
    }

    #[test]
    fn long_names_wrap_before_the_table_gives_up() {
        let mut t = Table::new(["<command", ">p50"]);
        t.row(["/opt/some/where/bin/program --with --flags", "1.00 ms"]);
        let text = t.render(Style { color: false, width: 30 });
        assert_eq!(text, "command                    p50\n/opt/some/where/bin/p  1.00 ms\nrogram --with --flags\n");
    }

    #[test]
    fn colour_does_not_move_anything_and_names_cannot_colour() {
        let mut t = Table::new(["a", ">b"]);
        t.row([Cell::warn("x"), Cell::from("\x1b[31m1")]);
        let plain = t.render(Style::PLAIN);
        let painted = t.render(Style { color: true, width: 80 });
        assert!(painted.contains("\x1b[33mx\x1b[0m"));
        let mut stripped = painted;
        for code in ["\x1b[1m", "\x1b[33m", "\x1b[0m"] {
            stripped = stripped.replace(code, "");
        }
        assert_eq!(stripped, plain);
        assert!(plain.contains("\\u{1b}[31m1"));
    }

    #[test]
    fn rows_of_any_length_and_empty_columns() {
        let mut t = Table::new(["a", "b", ">c"]);
        t.row(["1"]).row(["2", "", "3", "4"]);
        assert_eq!(t.without_empty_columns().render(Style::PLAIN), "a  c\n1\n2  3\n");
        assert_eq!(Table::new([] as [&str; 0]).render(Style::PLAIN), "");
    }
}
