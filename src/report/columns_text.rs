//! `premain stat` as text, in the form that ministat made familiar: legend, plot, vital figures, differences.

use std::fmt::Write;

use super::dots::{Dots, dots, mark};
use super::number::general;
use super::width::printable;
use crate::stat::ministat::{Column, MeanDifference, pooled, welch};
use crate::stat::rank::{Method, rank_sum};

/// One set of numbers.
#[derive(Debug, Clone, PartialEq)]
pub struct DataSet {
    /// Where it is from.
    pub name: String,
    /// Sorted.
    pub values: Vec<f64>,
    /// Its vital figures.
    pub column: Column,
}

/// What to print.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Layout {
    /// Draw the plot.
    pub plot: bool,
    /// Compare with the first set.
    pub compare: bool,
    /// Legend and table header.
    pub headers: bool,
    /// Bars on lines of their own.
    pub separate_bars: bool,
    /// Columns of the plot inside its frame.
    pub width: usize,
    /// Of the intervals, as a fraction.
    pub confidence: f64,
}

/// The whole text. The first set is the reference.
pub fn text(sets: &[DataSet], layout: &Layout) -> String {
    let mut t = String::new();
    if layout.headers {
        for (i, set) in sets.iter().enumerate() {
            let _ = writeln!(t, "{} {}", mark(i), printable(&set.name));
        }
    }
    if layout.plot {
        let drawn: Vec<Dots> = sets.iter().map(|s| Dots { values: &s.values, column: &s.column }).collect();
        t.push_str(&dots(&drawn, layout.width, layout.separate_bars));
    }
    if layout.headers {
        t.push_str("    N           Min           Max        Median           Avg        Stddev\n");
    }
    for (i, set) in sets.iter().enumerate() {
        t.push_str(&vitals(mark(i), &set.column));
        if let Some(reference) = sets.first().filter(|_| layout.compare && i > 0) {
            t.push_str(&difference(reference, set, layout));
        }
    }
    t
}

fn vitals(mark: char, c: &Column) -> String {
    let figures = [c.min, c.max, c.median, c.mean, c.stddev().unwrap_or(0.0)].map(|x| general(x, 8));
    let cells: String = figures.iter().map(|f| format!(" {f:>13}")).collect();
    format!("{mark} {:>3}{cells}\n", c.n)
}

fn difference(reference: &DataSet, set: &DataSet, layout: &Layout) -> String {
    let percent = general(layout.confidence * 100.0, 6);
    let percent = if percent.contains('.') { percent } else { format!("{percent}.0") };
    let (a, b) = (&reference.column, &set.column);
    let mut t = String::new();
    if let Some(d) = pooled(a, b, layout.confidence) {
        if d.shown() {
            let spread = general(d.pooled_stddev.unwrap_or(0.0), 6);
            let _ = writeln!(t, "Difference at {percent}% confidence");
            let _ = writeln!(t, "\t{}", plus_minus(d.difference, d.half_width, ""));
            t.push_str(&relative(&d));
            let _ = writeln!(t, "\t(Student's t, pooled s = {spread})");
        } else {
            let _ = writeln!(t, "No difference proven at {percent}% confidence");
        }
    }
    // What ministat does not say: the same question without its assumptions.
    if let Some(d) = welch(a, b, layout.confidence).filter(|_| layout.headers) {
        let _ = writeln!(t, "\t(Welch's t, variances of their own: {})", plus_minus(d.difference, d.half_width, ""));
    }
    if let Some(r) = rank_sum(&reference.values, &set.values).filter(|_| layout.headers) {
        let how = if r.method == Method::Exact { "exact" } else { "approximate" };
        let _ = writeln!(t, "\t(rank-sum test, no assumption of normality: p = {}, {how})", p_value(r.p_value));
    }
    t
}

fn plus_minus(x: f64, half_width: f64, unit: &str) -> String {
    format!("{}{unit} +/- {}{unit}", general(x, 6), general(half_width, 6))
}

fn relative(d: &MeanDifference) -> String {
    match (d.percent, d.percent_half_width) {
        (Some(p), Some(w)) => format!("\t{}\n", plus_minus(p, w, "%")),
        _ => "\t(no percentage: the reference's mean is zero)\n".to_string(),
    }
}

/// Three digits, and never "0".
pub fn p_value(p: f64) -> String {
    if p < 1e-6 { "less than 1e-06".to_string() } else { general(p, 3) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LAYOUT: Layout =
        Layout { plot: false, compare: true, headers: true, separate_bars: false, width: 74, confidence: 0.95 };

    fn set(name: &str, values: &[f64]) -> DataSet {
        let mut values = values.to_vec();
        let column = Column::of(&mut values).unwrap();
        DataSet { name: name.to_string(), values, column }
    }

    fn lizards() -> [DataSet; 2] {
        [
            set("iguana", &[50.0, 200.0, 150.0, 400.0, 750.0, 400.0, 150.0]),
            set("chameleon", &[150.0, 400.0, 720.0, 500.0, 930.0]),
        ]
    }

    #[test]
    fn the_two_lizards() {
        assert_eq!(
            text(&lizards(), &LAYOUT),
            "x iguana\n+ chameleon\n\
             \x20   N           Min           Max        Median           Avg        Stddev\n\
             x   7            50           750           200           300     238.04761\n\
             +   5           150           930           500           540     299.08193\n\
             No difference proven at 95.0% confidence\n\
             \t(Welch's t, variances of their own: 240 +/- 376.793)\n\
             \t(rank-sum test, no assumption of normality: p = 0.188, approximate)\n"
        );
        let lower = text(&lizards(), &Layout { confidence: 0.8, headers: false, ..LAYOUT });
        assert_eq!(
            lower,
            "x   7            50           750           200           300     238.04761\n\
             +   5           150           930           500           540     299.08193\n\
             Difference at 80.0% confidence\n\t240 +/- 212.243\n\t80% +/- 102.314%\n\
             \t(Student's t, pooled s = 264.159)\n"
        );
        assert!(text(&lizards(), &Layout { confidence: 0.995, ..LAYOUT }).contains("at 99.5% confidence"));
    }

    #[test]
    fn a_reference_of_zero_has_no_percentage() {
        let t = text(&[set("a", &[0.0, 0.0, 0.0]), set("b", &[5.0, 5.0, 6.0])], &LAYOUT);
        assert!(t.contains("no percentage") && !t.contains("NaN") && !t.contains("inf"), "{t}");
    }
}
