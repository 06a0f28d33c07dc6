//! Points of two quantities in the terminal: one cell a point or several, a diagonal where both are the same quantity.
//!
//! ```text
//! measured
//!  10.0 ms │                    ·╱
//!          │                 ╱·
//!  1.00 ms │          ·  ╱
//!          │       ○╱
//!   100 µs │   ╱·
//!          └────────────────────────
//!           100 µs    1.00 ms  10.0 ms
//! ```

use super::width::columns;
use crate::output::Style;

/// A point, both values above zero on logarithmic axes.
#[derive(Debug, Clone, PartialEq)]
pub struct Point {
    /// Across.
    pub x: f64,
    /// Up.
    pub y: f64,
    /// What it is.
    pub label: String,
    /// Drawn so that it stands out.
    pub marked: bool,
}

/// What is drawn.
#[derive(Debug, Clone, Copy)]
pub struct Plot<'a> {
    /// The points.
    pub points: &'a [Point],
    /// What lies across.
    pub x_name: &'a str,
    /// What lies up.
    pub y_name: &'a str,
    /// A value across, as text.
    pub x_format: fn(f64) -> String,
    /// A value up, as text.
    pub y_format: fn(f64) -> String,
    /// Both are the same quantity: the line of equal values is drawn.
    pub diagonal: bool,
}

/// From where to where, and how values become places.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Axis {
    /// At the start.
    pub low: f64,
    /// At the end.
    pub high: f64,
    /// Equal ratios are equally wide. A zero (many a count) has its place at the start.
    pub log: bool,
}

/// Wider spans than this are drawn logarithmically.
const LINEAR_SPAN: f64 = 8.0;

impl Axis {
    /// Over finite values; `None` without any.
    pub fn over(values: impl Iterator<Item = f64> + Clone) -> Option<Axis> {
        let finite = values.filter(|v| v.is_finite());
        let high = finite.clone().max_by(f64::total_cmp)?;
        let low = finite.clone().min_by(f64::total_cmp)?;
        let least = finite.filter(|v| *v > 0.0).min_by(f64::total_cmp).unwrap_or(1.0);
        if high <= least * LINEAR_SPAN {
            let margin = ((high - low) * 0.05).max(high.abs() * 0.01);
            return Some(Axis { low: low - margin, high: high + margin, log: false });
        }
        // Room for zeros below the least value that a logarithm has.
        let below = if low > 0.0 { 1.15 } else { 2.5 };
        Some(Axis { low: least / below, high: high * 1.15, log: true })
    }

    /// Where a value lies: 0 at the start, 1 at the end.
    pub fn place(&self, value: f64) -> f64 {
        let share = if self.log {
            (value.max(self.low) / self.low).ln() / (self.high / self.low).ln()
        } else {
            (value - self.low) / (self.high - self.low)
        };
        if share.is_finite() { share.clamp(0.0, 1.0) } else { 0.0 }
    }

    /// Round values on the axis: powers of ten, with 2 and 5 between where there are few; else five even steps.
    pub fn ticks(&self) -> Vec<f64> {
        if !self.log {
            return even_ticks(self.low, self.high);
        }
        let decades = self.low.log10().floor() as i32..=self.high.log10().ceil() as i32;
        let inside = |v: &f64| (self.low..=self.high).contains(v);
        let powers: Vec<f64> = decades.clone().map(|d| 10f64.powi(d)).filter(inside).collect();
        if powers.len() >= 3 {
            return powers;
        }
        decades.flat_map(|d| [1.0, 2.0, 5.0].map(|m| m * 10f64.powi(d))).filter(inside).collect()
    }
}

/// About five steps of 1, 2 or 5 times a power of ten.
fn even_ticks(low: f64, high: f64) -> Vec<f64> {
    let rough = (high - low) / 5.0;
    if rough <= 0.0 || !rough.is_finite() {
        return vec![low];
    }
    let power = 10f64.powf(rough.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0].map(|m| m * power).into_iter().find(|s| *s >= rough).unwrap_or(rough);
    let first = (low / step).ceil();
    (0..12).map(|i| (first + f64::from(i)) * step).take_while(|v| *v <= high).collect()
}

const HEIGHT: usize = 18;
const NARROWEST: usize = 30;
const WIDEST: usize = 100;

/// Draws; empty text without points.
pub fn text(plot: &Plot<'_>, style: Style) -> String {
    let Some((x, y)) = axes(plot) else { return String::new() };
    let labels: Vec<(usize, String)> = y.ticks().into_iter().map(|v| (row_of(&y, v), (plot.y_format)(v))).collect();
    let margin = labels.iter().map(|(_, l)| columns(l)).max().unwrap_or(0) + 2;
    let width = style.width.clamp(NARROWEST, WIDEST).saturating_sub(margin + 1).max(10);
    let grid = grid(plot, &x, &y, width);
    let mut out = format!("{}\n", style.dim(plot.y_name));
    for (row, line) in grid.iter().enumerate() {
        let label = labels.iter().find(|(r, _)| *r == row).map_or("", |(_, l)| l);
        let pad = " ".repeat(margin - 1 - columns(label));
        let line: String = line.iter().collect();
        out.push_str(&format!("{pad}{} │{}\n", style.dim(label), line.trim_end()));
    }
    out.push_str(&format!("{}└{}\n", " ".repeat(margin), "─".repeat(width)));
    out.push_str(&format!("{}{}\n", " ".repeat(margin + 1), style.dim(&x_labels(plot, &x, width))));
    out.push_str(&format!("{}{}\n", " ".repeat(margin + 1), style.dim(plot.x_name)));
    out
}

/// Both axes; the same one where a diagonal compares them.
pub fn axes(plot: &Plot<'_>) -> Option<(Axis, Axis)> {
    let xs = plot.points.iter().map(|p| p.x);
    let ys = plot.points.iter().map(|p| p.y);
    if plot.diagonal {
        let both = Axis::over(xs.chain(ys))?;
        return Some((both, both));
    }
    Some((Axis::over(xs)?, Axis::over(ys)?))
}

fn row_of(y: &Axis, value: f64) -> usize {
    HEIGHT - 1 - ((y.place(value) * HEIGHT as f64) as usize).min(HEIGHT - 1)
}

fn column_of(x: &Axis, value: f64, width: usize) -> usize {
    ((x.place(value) * width as f64) as usize).min(width - 1)
}

/// Characters by row, the top one first.
fn grid(plot: &Plot<'_>, x: &Axis, y: &Axis, width: usize) -> Vec<Vec<char>> {
    let mut grid = vec![vec![' '; width]; HEIGHT];
    if plot.diagonal {
        let row = |column: usize| {
            let share = (column as f64 + 0.5) / width as f64;
            HEIGHT - 1 - ((share * HEIGHT as f64) as usize).min(HEIGHT - 1)
        };
        (0..width).for_each(|column| grid[row(column)][column] = '╱');
    }
    for p in plot.points {
        let cell = &mut grid[row_of(y, p.y)][column_of(x, p.x, width)];
        *cell = match (p.marked, *cell) {
            (true, _) | (_, '✕') => '✕',
            (_, '·') => '○',
            (_, '○' | '●') => '●',
            _ => '·',
        };
    }
    grid
}

fn x_labels(plot: &Plot<'_>, x: &Axis, width: usize) -> String {
    let mut line = String::new();
    for value in x.ticks() {
        let label = (plot.x_format)(value);
        let size = columns(&label);
        let start = column_of(x, value, width).saturating_sub(size / 2).min(width.saturating_sub(size));
        let used = columns(&line);
        if used > 0 && start < used + 2 {
            continue;
        }
        line.extend(std::iter::repeat_n(' ', start.saturating_sub(used)));
        line.push_str(&label);
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units;

    fn points(xy: &[(f64, f64)]) -> Vec<Point> {
        xy.iter().map(|&(x, y)| Point { x, y, label: "p".to_string(), marked: false }).collect()
    }

    fn draw(points: &[Point], diagonal: bool, width: usize) -> String {
        let plot = Plot {
            points,
            x_name: "fitted",
            y_name: "measured",
            x_format: units::time,
            y_format: units::time,
            diagonal,
        };
        text(&plot, Style { color: false, width })
    }

    #[test]
    fn every_line_fits_and_every_point_is_there() {
        let p = points(&[(1e5, 1.1e5), (1e6, 0.9e6), (2e7, 2.1e7)]);
        for width in [0, 30, 60, 80, 300] {
            let text = draw(&p, true, width);
            assert!(text.lines().all(|l| columns(l) <= width.clamp(NARROWEST, WIDEST)), "{width}:\n{text}");
            assert_eq!(text.matches('·').count(), 3, "{text}");
        }
    }

    #[test]
    fn odd_points_do_no_harm() {
        assert_eq!(draw(&[], true, 80), "");
        for xy in
            [&[(0.0, 0.0)][..], &[(5.0, 5.0); 3], &[(0.0, 1e5), (1e6, 1e9)], &[(f64::NAN, 1.0), (1.0, f64::INFINITY)]]
        {
            let text = draw(&points(xy), false, 80);
            assert!(text.lines().count() >= HEIGHT, "{text}");
        }
    }

    #[test]
    fn ticks_are_round() {
        assert_eq!(Axis { low: 90.0, high: 12_000.0, log: true }.ticks(), [100.0, 1_000.0, 10_000.0]);
        assert_eq!(Axis { low: 90.0, high: 600.0, log: true }.ticks(), [100.0, 200.0, 500.0]);
        assert_eq!(Axis { low: 0.0, high: 100.0, log: false }.ticks(), [0.0, 20.0, 40.0, 60.0, 80.0, 100.0]);
        assert_eq!(Axis::over([0.0, 10.0, 1e6].into_iter()).unwrap().place(0.0), 0.0);
    }
}
