//! Points and a line over an axis, in characters.
//!
//! ```text
//! 4.0 ms ┤         ·●
//!        │     ··●
//! 1.0 ms ┤ ●·
//!        └┬─────────┬
//!         0         8
//! ```

use super::width::columns;

/// What is drawn.
pub struct Plot<'a> {
    /// Points: x, y.
    pub points: &'a [(f64, f64)],
    /// Slope and value at 0 of a line through them, if there is one.
    pub line: Option<(f64, f64)>,
    /// A y with its unit.
    pub y_text: fn(f64) -> String,
    /// A label for the least and the largest x.
    pub x_text: [String; 2],
}

/// Draws into `width` columns and `height` lines above the axis. Empty where the points do not spread or there is no room.
pub fn draw(p: &Plot<'_>, width: usize, height: usize) -> String {
    let xs = bounds(p.points.iter().map(|p| p.0));
    let ys = bounds(p.points.iter().map(|p| p.1));
    let (Some([x0, x1]), Some([y0, y1])) = (xs, ys) else { return String::new() };
    let labels = [(p.y_text)(y1), (p.y_text)(y0)];
    let margin = labels.iter().map(|l| columns(l)).max().unwrap_or(0) + 1;
    let Some(room) = width.checked_sub(margin + 3).filter(|r| *r >= 20) else { return String::new() };
    if x1 <= x0 || height < 2 {
        return String::new();
    }
    let mut cells = vec![vec![' '; room]; height];
    let place = |x: f64, y: f64| {
        let column = ((x - x0) / (x1 - x0) * (room - 1) as f64).round();
        let row = if y1 > y0 { ((y1 - y) / (y1 - y0) * (height - 1) as f64).round() } else { 0.0 };
        let inside = |v: f64, end: usize| (v >= 0.0 && v < end as f64).then_some(v as usize);
        Some((inside(row, height)?, inside(column, room)?))
    };
    if let Some((slope, intercept)) = p.line {
        for column in 0..room {
            let x = x0 + (x1 - x0) * column as f64 / (room - 1) as f64;
            if let Some((r, c)) = place(x, intercept + slope * x) {
                cells[r][c] = '·';
            }
        }
    }
    for (x, y) in p.points {
        if let Some((r, c)) = place(*x, *y) {
            cells[r][c] = '●';
        }
    }
    let mut out = String::new();
    for (r, row) in cells.iter().enumerate() {
        let label = if r == 0 {
            labels[0].as_str()
        } else if r + 1 == height {
            labels[1].as_str()
        } else {
            ""
        };
        let edge = if label.is_empty() { '│' } else { '┤' };
        let text: String = row.iter().collect();
        let pad = " ".repeat(margin - 1 - columns(label));
        out.push_str(&format!("{pad}{label} {edge} {}\n", text.trim_end()).replace(" \n", "\n"));
    }
    let between = "─".repeat(room - 2);
    out.push_str(&format!("{}└─┬{between}┬\n", " ".repeat(margin)));
    let [first, last] = &p.x_text;
    let gap = (room).saturating_sub(columns(first) + columns(last));
    out.push_str(&format!("{}{first}{}{last}\n", " ".repeat(margin + 2), " ".repeat(gap.max(1))));
    out
}

fn bounds(values: impl Iterator<Item = f64>) -> Option<[f64; 2]> {
    values
        .filter(|v| v.is_finite())
        .fold(None, |b: Option<[f64; 2]>, v| Some(b.map_or([v, v], |[low, high]| [low.min(v), high.max(v)])))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plot(points: &[(f64, f64)], line: Option<(f64, f64)>) -> String {
        let p = Plot { points, line, y_text: |y| format!("{y:.0} ms"), x_text: ["0".into(), "30".into()] };
        draw(&p, 40, 4)
    }

    #[test]
    fn points_lie_where_they_belong() {
        let t = plot(&[(0.0, 1.0), (10.0, 2.0), (20.0, 3.0), (30.0, 4.0)], Some((0.1, 1.0)));
        let lines: Vec<&str> = t.lines().collect();
        assert_eq!(lines.len(), 6, "{t}");
        assert!(lines[0].starts_with("4 ms ┤ ") && lines[0].ends_with('●'), "{t}");
        assert!(lines[3].starts_with("1 ms ┤ ●·"), "{t}");
        assert!(lines.iter().all(|l| columns(l) <= 40), "{t}");
        assert_eq!(t.matches('●').count(), 4);
        assert!(lines[5].trim_start().starts_with('0') && lines[5].ends_with("30"), "{t}");
    }

    #[test]
    fn what_cannot_be_drawn_is_empty_and_nothing_panics() {
        assert_eq!(plot(&[], None), "");
        assert_eq!(plot(&[(1.0, 1.0)], None), "");
        assert!(!plot(&[(0.0, 5.0), (1.0, 5.0)], None).is_empty());
        let line = Some((1e300, f64::NAN));
        assert!(!plot(&[(0.0, 5.0), (1.0, 6.0), (f64::NAN, 1.0)], line).is_empty());
        let p = Plot {
            points: &[(0.0, 1.0), (1.0, 2.0)],
            line: None,
            y_text: |y| y.to_string(),
            x_text: ["a".into(), "b".into()],
        };
        assert_eq!(draw(&p, 10, 4), "");
    }
}
