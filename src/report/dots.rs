//! The dot plot that ministat made familiar: every value a mark, bars for mean, median and standard deviation.

use crate::stat::ministat::Column;

/// Marks of the data sets, in order.
pub const MARKS: &[char] = &['x', '+', '*', '%', '#', '@', 'O'];

/// A set of sorted values with its vital figures.
#[derive(Debug, Clone, Copy)]
pub struct Dots<'a> {
    /// Sorted.
    pub values: &'a [f64],
    /// Its figures.
    pub column: &'a Column,
}

/// More lines of marks than this say no more: each mark then stands for several values.
const TALLEST: usize = 30;

/// The plot in a frame, `width` columns inside; bars on lines of their own where `separate`. Where the sets
/// span nothing there is nothing to draw, and a line says so.
pub fn dots(sets: &[Dots<'_>], width: usize, separate: bool) -> String {
    let width = width.max(2);
    let edges = sets.iter().flat_map(|s| {
        let spread = s.column.stddev().unwrap_or(0.0);
        [s.column.min, s.column.max, s.column.mean - spread, s.column.mean + spread]
    });
    let (low, high) = edges.fold((f64::INFINITY, f64::NEG_INFINITY), |(l, h), x| (l.min(x), h.max(x)));
    let step = (high - low) / (width - 1) as f64;
    if !(step.is_finite() && step > 0.0) {
        return "[no plot, span is zero width]\n".to_string();
    }
    // Columns lie around low, low + step, …
    let edge = low - 0.5 * step;
    let at = |x: f64| (((x - edge) / step) as usize).min(width - 1);
    let frame = format!("+{}+\n", "-".repeat(width));
    let mut out = frame.clone();
    let (lines, each) = marks(sets, width, at);
    for line in lines.iter().rev().map(|l| l.iter().collect::<String>()) {
        out.push_str(&format!("|{line}|\n"));
    }
    for line in bars(sets, width, separate, at) {
        out.push_str(&format!("|{line}|\n"));
    }
    out.push_str(&frame);
    if each > 1 {
        out.push_str(&format!("each mark is up to {each} values\n"));
    }
    out
}

/// Lines of marks from the bottom up, and how many values a mark stands for. Equal columns stack.
fn marks(sets: &[Dots<'_>], width: usize, at: impl Fn(f64) -> usize) -> (Vec<Vec<char>>, usize) {
    let mut counts = vec![vec![0usize; width]; sets.len()];
    for (set, counts) in sets.iter().zip(&mut counts) {
        for &x in set.values {
            counts[at(x)] += 1;
        }
    }
    let tallest = counts.iter().flatten().copied().max().unwrap_or(0);
    let each = tallest.div_ceil(TALLEST).max(1);
    // Two sets in one place need a mark of their own; with two sets the third's is free, as in ministat.
    let both = if sets.len() <= 2 { '*' } else { '&' };
    let mut lines = vec![vec![' '; width]; tallest.div_ceil(each)];
    for (i, counts) in counts.iter().enumerate() {
        for (column, &count) in counts.iter().enumerate() {
            for line in lines.iter_mut().take(count.div_ceil(each)) {
                line[column] = if line[column] == ' ' { mark(i) } else { both };
            }
        }
    }
    (lines, each)
}

/// The mark of a set.
pub fn mark(set: usize) -> char {
    MARKS.get(set).copied().unwrap_or('?')
}

/// From mean - stddev to mean + stddev, with M at the median and A at the mean.
fn bars(sets: &[Dots<'_>], width: usize, separate: bool, at: impl Fn(f64) -> usize) -> Vec<String> {
    let mut lines = vec![vec![' '; width]; if separate { sets.len() } else { 1 }];
    for (i, set) in sets.iter().enumerate() {
        let line = &mut lines[if separate { i } else { 0 }];
        let c = set.column;
        if let Some(spread) = c.stddev() {
            let (start, end) = (at(c.mean - spread), at(c.mean + spread));
            for cell in line[start..=end].iter_mut().filter(|c| **c == ' ') {
                *cell = '_';
            }
            line[start] = '|';
            line[end] = '|';
        }
        line[at(c.median)] = 'M';
        line[at(c.mean)] = 'A';
    }
    lines.into_iter().map(|l| l.into_iter().collect()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn draw(sets: &mut [Vec<f64>], width: usize, separate: bool) -> String {
        let columns: Vec<Column> = sets.iter_mut().map(|s| Column::of(s).unwrap()).collect();
        let sets: Vec<Dots> = sets.iter().zip(&columns).map(|(s, c)| Dots { values: s, column: c }).collect();
        dots(&sets, width, separate)
    }

    /// ministat leaves the upper line out: its plot is only as tall as the last set needs.
    #[test]
    fn the_two_lizards() {
        let iguana = vec![50.0, 200.0, 150.0, 400.0, 750.0, 400.0, 150.0];
        let chameleon = vec![150.0, 400.0, 720.0, 500.0, 930.0];
        let text = draw(&mut [iguana, chameleon], 60, true);
        assert_eq!(
            text,
            "+------------------------------------------------------------+\n\
             |       x               x                                    |\n\
             |x      *  x            *      +              + x           +|\n\
             | |________M______A_______________|                          |\n\
             |             |________________M__A___________________|      |\n\
             +------------------------------------------------------------+\n"
        );
    }

    #[test]
    fn flat_tall_and_narrow() {
        assert!(draw(&mut [vec![5.0; 3]], 74, false).starts_with("[no plot"));
        let tall = draw(&mut [(0..400).map(|i| f64::from(i % 4)).collect()], 40, false);
        assert!(tall.contains("each mark is up to 4 values") && tall.lines().count() < 40, "{tall}");
        assert!(draw(&mut [vec![1.0, 2.0, 3.0]], 0, false).lines().all(|l| l.len() == 4));
        assert!(draw(&mut [vec![-1e308, 1e308, 0.0]], 20, false).starts_with("[no plot"));
    }
}
