//! Distributions drawn in the terminal: one density and one box per command over a shared axis.
//!
//! ```text
//! true, 400 starts
//!  ▂█▆▃▁ ·    ·
//!  ╶━┃━──╴
//! ```
//!
//! Every value counts: one too rare for the lowest bar is a dot, and values beyond the axis are counted in words.
//! The axis ends 1.5 times the p5-p95 range above p95 (of the command for which that is farthest), since a few
//! spikes would otherwise squeeze everything else into one column.

use super::width::{columns, cut, printable};
use crate::output::Style;
use crate::stat::quantile::whole_quantile;

/// How values become columns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Scale {
    /// Logarithmic where the values span more than a factor of 4, else linear.
    #[default]
    Auto,
    /// Equal differences are equally wide.
    Linear,
    /// Equal ratios are equally wide. Zeros turn it into linear.
    Log,
}

/// What to draw with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Glyphs {
    /// Block and box characters.
    #[default]
    Unicode,
    /// Nothing beyond ASCII.
    Ascii,
}

/// How to draw.
#[derive(Debug, Clone, Copy)]
pub struct Options {
    /// Values to columns.
    pub scale: Scale,
    /// Characters.
    pub glyphs: Glyphs,
    /// Lines of each density, at least 1.
    pub height: usize,
    /// A value with its unit, for the axis ([`crate::units::time`], say).
    pub format: fn(f64) -> String,
}

/// One command's values, in any order.
#[derive(Debug, Clone, Copy)]
pub struct Series<'a> {
    /// Its name.
    pub name: &'a str,
    /// Nanoseconds, bytes or counts.
    pub values: &'a [u64],
}

/// Below this many columns nothing can be seen.
const NARROWEST: usize = 20;
/// Wider than this nothing is gained.
const WIDEST: usize = 120;
/// The axis goes on beyond p95 by this many times the range from p5 to p95.
const AXIS_BEYOND: f64 = 1.5;

/// Draws the distributions; empty text where no series has a value.
pub fn distributions(series: &[Series<'_>], options: &Options, style: Style) -> String {
    let sorted: Vec<(String, Vec<u64>)> = series
        .iter()
        .filter(|s| !s.values.is_empty())
        .map(|s| {
            let mut values = s.values.to_vec();
            values.sort_unstable();
            (printable(s.name), values)
        })
        .collect();
    let Some(axis) = Axis::over(&sorted, options, style.width) else { return String::new() };
    let pen = Pen::of(options.glyphs);
    let mut out = String::new();
    for (name, values) in &sorted {
        let starts = format!(", {} values", values.len());
        let name = cut(name, style.width.max(NARROWEST).saturating_sub(columns(&starts)));
        out.push_str(&format!("{}{}\n", style.bold(&name), style.dim(&starts)));
        for line in axis.density(values, options.height.max(1), &pen) {
            push_line(&mut out, &line);
        }
        push_line(&mut out, &axis.box_line(values, &pen));
        if let Some(beyond) = axis.beyond(values, options.format) {
            out.push_str(&format!("{}\n", style.dim(&beyond)));
        }
    }
    for line in axis.ticks(options.format, &pen) {
        out.push_str(&format!("{}\n", style.dim(line.trim_end())));
    }
    // The one character beyond ASCII that our own figures have.
    if options.glyphs == Glyphs::Ascii { out.replace('µ', "u") } else { out }
}

fn push_line(out: &mut String, line: &str) {
    out.push_str(line.trim_end());
    out.push('\n');
}

/// The characters of one kind.
struct Pen {
    /// Filling of one cell in equal steps, the last one full.
    levels: &'static [char],
    /// Something is there, yet less than the lowest step.
    trace: char,
    whisker: char,
    body: char,
    median: char,
    line: char,
    tick: char,
}

impl Pen {
    fn of(glyphs: Glyphs) -> Pen {
        match glyphs {
            Glyphs::Unicode => Pen {
                levels: &['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'],
                trace: '·',
                whisker: '─',
                body: '━',
                median: '┃',
                line: '─',
                tick: '┬',
            },
            Glyphs::Ascii => {
                Pen { levels: &['.', ':', '#'], trace: '.', whisker: '-', body: '=', median: '|', line: '-', tick: '+' }
            }
        }
    }
}

/// The shared axis: `width` columns from `low` to `high`.
struct Axis {
    low: f64,
    high: f64,
    log: bool,
    width: usize,
}

impl Axis {
    fn over(sorted: &[(String, Vec<u64>)], options: &Options, width: usize) -> Option<Axis> {
        let low = sorted.iter().filter_map(|(_, v)| v.first()).min().copied()?;
        let end = |v: &Vec<u64>| {
            let (p5, p95) = (whole_quantile(v, 0.05), whole_quantile(v, 0.95));
            let beyond = ((p95 - p5) as f64 * AXIS_BEYOND) as u64;
            p95.saturating_add(beyond).min(v.last().copied().unwrap_or(p95))
        };
        let high = sorted.iter().map(|(_, v)| end(v)).max()?;
        let wide = high / 4 >= low;
        let log = low > 0 && (options.scale == Scale::Log || (options.scale == Scale::Auto && wide));
        Some(Axis { low: low as f64, high: high as f64, log, width: width.clamp(NARROWEST, WIDEST) })
    }

    fn warp(&self, value: f64) -> f64 {
        if self.log { value.max(f64::MIN_POSITIVE).ln() } else { value }
    }

    /// The column of a value; `None` beyond the axis.
    fn column(&self, value: f64) -> Option<usize> {
        if value < self.low || value > self.high {
            return None;
        }
        let (low, high) = (self.warp(self.low), self.warp(self.high));
        if high <= low {
            return Some(self.width / 2);
        }
        let share = (self.warp(value) - low) / (high - low);
        Some(((share * self.width as f64) as usize).min(self.width - 1))
    }

    /// Lines of the density, the top one first.
    fn density(&self, values: &[u64], height: usize, pen: &Pen) -> Vec<String> {
        let mut counts = vec![0usize; self.width];
        for column in values.iter().filter_map(|&v| self.column(v as f64)) {
            counts[column] += 1;
        }
        let tallest = counts.iter().copied().max().unwrap_or(0).max(1);
        let steps = pen.levels.len() * height;
        let cell = |count: usize, line: usize| {
            let filled = (count * steps + tallest / 2) / tallest;
            let here = filled.saturating_sub(line * pen.levels.len()).min(pen.levels.len());
            match here.checked_sub(1) {
                Some(level) => pen.levels[level],
                None if line == 0 && count > 0 => pen.trace,
                None => ' ',
            }
        };
        (0..height).rev().map(|line| counts.iter().map(|&c| cell(c, line)).collect()).collect()
    }

    /// p5 to p95 as a line, p25 to p75 as a body, the median as a mark.
    fn box_line(&self, values: &[u64], pen: &Pen) -> String {
        // A quantile beyond the axis ends at its edge.
        let at = |p: f64| self.column(whole_quantile(values, p) as f64).unwrap_or(self.width - 1);
        let mut line = vec![' '; self.width];
        line[at(0.05)..=at(0.95)].fill(pen.whisker);
        line[at(0.25)..=at(0.75)].fill(pen.body);
        line[at(0.5)] = pen.median;
        line.into_iter().collect()
    }

    fn beyond(&self, values: &[u64], format: fn(f64) -> String) -> Option<String> {
        let inside = values.partition_point(|&v| v as f64 <= self.high);
        let largest = *values.last()? as f64;
        match values.len() - inside {
            0 => None,
            1 => Some(format!("1 more beyond, at {}", format(largest))),
            n => Some(format!("{n} more beyond, up to {}", format(largest))),
        }
    }

    /// The axis line, its labels, and the word for a logarithmic one.
    fn ticks(&self, format: fn(f64) -> String, pen: &Pen) -> Vec<String> {
        let mut line = vec![pen.line; self.width];
        let mut labels = String::new();
        for value in self.tick_values() {
            let Some(column) = self.column(value) else { continue };
            let text = format(value);
            let size = columns(&text);
            let start = column.saturating_sub(size / 2).min(self.width.saturating_sub(size));
            let used = columns(&labels);
            if used > 0 && start < used + 2 {
                continue;
            }
            line[column] = pen.tick;
            labels.extend(std::iter::repeat_n(' ', start.saturating_sub(used)));
            labels.push_str(&text);
        }
        let mut lines = vec![line.into_iter().collect(), labels];
        if self.log {
            lines.push("(logarithmic)".to_string());
        }
        lines
    }

    /// Round values (1, 2, 5 times a power of ten) that are about 12 columns apart or more; where fewer than two
    /// lie on the axis, its ends.
    fn tick_values(&self) -> Vec<f64> {
        let wanted = (self.width / 14).max(2) as f64;
        let mut out = Vec::new();
        // Within one decade even steps give more labels than 1, 2, 5.
        if self.log && self.high / 8.0 > self.low {
            let decade = self.low.log10().floor() as i32;
            for power in decade..=self.high.log10().ceil() as i32 {
                out.extend([1.0, 2.0, 5.0].map(|m| m * 10f64.powi(power)));
            }
        } else {
            let step = round_up((self.high - self.low) / wanted);
            if step > 0.0 {
                let first = (self.low / step).ceil() as u64;
                out.extend((0..=wanted as u64 + 1).map(|i| (first + i) as f64 * step));
            }
        }
        out.retain(|v| (self.low..=self.high).contains(v));
        if out.len() < 2 {
            out = vec![self.low];
            if self.high > self.low {
                out.push(self.high);
            }
        }
        out
    }
}

/// The next of 1, 2, 5 times a power of ten; 0 for 0.
fn round_up(x: f64) -> f64 {
    if x <= 0.0 {
        return 0.0;
    }
    let power = 10f64.powf(x.log10().floor());
    [1.0, 2.0, 5.0, 10.0].iter().map(|m| m * power).find(|s| *s >= x).unwrap_or(10.0 * power)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stat::rng::Rng;
    use crate::units;

    fn options(scale: Scale, glyphs: Glyphs, height: usize) -> Options {
        Options { scale, glyphs, height, format: units::time }
    }

    fn draw(values: &[&[u64]], o: &Options, width: usize) -> String {
        let names = ["one", "two", "three"];
        let series: Vec<Series> = values.iter().zip(names).map(|(v, name)| Series { name, values: v }).collect();
        distributions(&series, o, Style { color: false, width })
    }

    #[test]
    fn a_small_plot_by_eye() {
        let a = [500_000, 510_000, 510_000, 520_000, 520_000, 520_000, 530_000, 560_000];
        let b = [600_000, 610_000, 610_000, 620_000, 690_000, 700_000];
        let text = draw(&[&a, &b], &options(Scale::Linear, Glyphs::Ascii, 2), 40);
        // 5 µs a column: 500 µs in the first, 510 in the third.
        let expected = "one, 8 values\n  . #\n: # # :     :\n--==|-----\n\
                        two, 6 values\n                      #\n                    # # #             ##\n\
                        \x20                   --=|===========-----\n\
                        +-------------------+------------------+\n500 us           600 us           700 us\n";
        assert_eq!(text, expected);
    }

    #[test]
    fn no_line_is_wider_than_the_terminal_and_every_value_is_accounted_for() {
        let mut rng = Rng::new(8);
        for width in [0, 20, 21, 40, 79, 80, 120, 500] {
            for scale in [Scale::Auto, Scale::Linear, Scale::Log] {
                for glyphs in [Glyphs::Unicode, Glyphs::Ascii] {
                    let n = 1 + rng.index(300);
                    let spread = 1 + rng.below(1 << 40);
                    let a: Vec<u64> = (0..n).map(|_| rng.below(spread)).collect();
                    let text = draw(&[&a, &[7]], &options(scale, glyphs, 1 + rng.index(4)), width);
                    let limit = width.clamp(NARROWEST, WIDEST);
                    assert!(text.lines().all(|l| columns(l) <= limit.max(24)), "{width}:\n{text}");
                }
            }
        }
    }

    #[test]
    fn odd_series_do_no_harm() {
        let o = options(Scale::Auto, Glyphs::Unicode, 1);
        assert_eq!(draw(&[], &o, 80), "");
        assert_eq!(draw(&[&[]], &o, 80), "");
        for values in [&[0][..], &[0, 0, 5], &[u64::MAX], &[0, u64::MAX], &[5; 100]] {
            let text = draw(&[values], &o, 80);
            assert!(text.lines().count() >= 4, "{text}");
        }
    }

    #[test]
    fn rare_values_are_dots_and_spikes_are_counted() {
        let mut values = vec![500_000; 2000];
        values.extend([500_500; 30]);
        values.extend([510_000, 30_000_000]);
        let text = draw(&[&values], &options(Scale::Auto, Glyphs::Unicode, 1), 60);
        assert!(text.contains("2 more beyond, up to 30.0 ms"), "{text}");
        let (one, two) = ([100; 200], [100; 200].map(|v| v * 20));
        assert!(draw(&[&one, &two], &options(Scale::Auto, Glyphs::Unicode, 1), 60).contains("(logarithmic)"));
    }
}
