//! From rows of work and time to costs: least squares with costs that cannot be negative, on medians, weighted so that
//! each row counts by its relative error; intervals by resampling whole rounds, and what the fit leaves of each row with
//! a sign drawn anew (the wild bootstrap of Wu 1986): rounds alone do not show what the model does not know.

use super::calibrate::Row;
use super::design::Family;
use super::gauge::Reading;
use super::parts::Split;
use super::work::{TERMS, Work};
use crate::stat::bootstrap::case_intervals;
use crate::stat::fit::{Fit, non_negative};
use crate::stat::linear::Matrix;
use crate::stat::quantile::median;
use crate::stat::rng::Rng;

/// Number of terms.
pub const COUNT: usize = TERMS.len();

/// One figure per term.
pub type PerTerm = [f64; COUNT];

/// Which part of a start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Span {
    /// execve to the entry point.
    Entry,
    /// Entry point, with an exit at once, to the return of wait4.
    End,
}

impl Span {
    fn of(self, reading: &Reading) -> f64 {
        match self {
            Span::Entry => reading.to_entry_ns,
            Span::End => reading.to_end_ns,
        }
    }
}

/// Costs of one span.
#[derive(Debug, Clone, PartialEq)]
pub struct Costs {
    /// Nanoseconds a unit; 0 where the term did not vary or costs nothing.
    pub unit_ns: PerTerm,
    /// 95 % intervals.
    pub ci95: [[f64; 2]; COUNT],
    /// Covariances of the costs over resamples, row by row.
    pub covariance: Vec<PerTerm>,
    /// Root mean square of the relative residuals over the rows.
    pub residual: f64,
    /// The largest relative residual, signed (measured minus fitted over measured).
    pub worst: f64,
    /// The row that has it.
    pub worst_row: String,
    /// Condition number of the scaled columns.
    pub condition: Option<f64>,
}

/// Everything fitted for one family.
#[derive(Debug, Clone, PartialEq)]
pub struct FamilyModel {
    /// Which.
    pub family: Family,
    /// Programs that it was fitted on.
    pub programs: usize,
    /// Rounds.
    pub rounds: usize,
    /// execve to entry point.
    pub entry: Costs,
    /// Entry point to the end.
    pub end: Costs,
    /// Terms that varied over the rows, in the order of [`TERMS`].
    pub known: [bool; COUNT],
    /// What a program with the C library alone takes, that does nothing: to the entry point, and behind it.
    pub plain_ns: Option<[f64; 2]>,
    /// How the loader's costs are spread over the phases, where that was observed.
    pub split: Option<Split>,
}

/// Resamples of the rounds.
const RESAMPLES: usize = 200;

/// Fits a family on its own rows and those of static programs. `None` where it has no rows.
pub fn family(rows: &[Row], family: Family, seed: u64) -> Option<FamilyModel> {
    let of_family = |r: &&Row| r.about.family == family || r.about.family == Family::Static;
    let rows: Vec<&Row> = rows.iter().filter(of_family).filter(|r| r.about.library.is_none()).collect();
    if !rows.iter().any(|r| r.about.family == family) {
        return None;
    }
    let work: Vec<&Work> = rows.iter().map(|r| &r.about.work).collect();
    let plain = format!("{} plain", family.name());
    let known = std::array::from_fn(|j| work.iter().any(|w| w.counts[j] != 0.0));
    Some(FamilyModel {
        family,
        programs: rows.len(),
        rounds: rows.first().map_or(0, |r| r.readings.len()),
        entry: costs(&rows, &work, &known, Span::Entry, seed)?,
        end: costs(&rows, &work, &known, Span::End, seed)?,
        known,
        plain_ns: rows
            .iter()
            .find(|r| r.about.name == plain)
            .and_then(|r| Some([median_of(&r.readings, Span::Entry, None)?, median_of(&r.readings, Span::End, None)?])),
        split: None,
    })
}

/// Median of a span over rounds, all or those of a resample.
pub fn median_of(readings: &[Reading], span: Span, which: Option<&[usize]>) -> Option<f64> {
    let mut values: Vec<f64> = match which {
        None => readings.iter().map(|r| span.of(r)).collect(),
        Some(which) => which.iter().filter_map(|i| readings.get(*i)).map(|r| span.of(r)).collect(),
    };
    median(&mut values)
}

fn costs(rows: &[&Row], work: &[&Work], known: &[bool; COUNT], span: Span, seed: u64) -> Option<Costs> {
    let columns: Vec<usize> = (0..COUNT).filter(|j| known[*j]).collect();
    let matrix = Matrix::from_columns(columns.iter().map(|j| work.iter().map(|w| w.counts[*j]).collect()).collect())?;
    let solve = |which: Option<&[usize]>, left: &dyn Fn(usize) -> f64| -> Option<(Fit, Vec<f64>)> {
        let time = |(i, r): (usize, &&Row)| Some(median_of(&r.readings, span, which)? + left(i));
        let times = rows.iter().enumerate().map(time).collect::<Option<Vec<f64>>>()?;
        let weights: Vec<f64> = times.iter().map(|t| 1.0 / (t * t).max(1.0)).collect();
        Some((non_negative(&matrix, &times, Some(&weights))?, times))
    };
    let (fit, times) = solve(None, &|_| 0.0)?;
    // Not the sequence that draws the rounds.
    let mut rng = Rng::new(seed.wrapping_add(1));
    let mut draws: Vec<Vec<f64>> = Vec::with_capacity(RESAMPLES);
    let rounds = rows.first().map_or(0, |r| r.readings.len());
    let intervals = case_intervals(rounds, RESAMPLES, 0.95, seed, |which| {
        let signs: Vec<bool> = fit.residuals.iter().map(|_| rng.next_u64() >> 63 == 1).collect();
        let (drawn, _) = solve(Some(which), &|i| if signs[i] { fit.residuals[i] } else { -fit.residuals[i] })?;
        draws.push(drawn.coefficients.clone());
        Some(drawn.coefficients)
    })?;
    let relative: Vec<f64> = fit.residuals.iter().zip(&times).map(|(r, t)| r / t).collect();
    let worst = (0..relative.len()).max_by(|a, b| relative[*a].abs().total_cmp(&relative[*b].abs()))?;
    let mut costs = Costs {
        residual: (relative.iter().map(|r| r * r).sum::<f64>() / relative.len() as f64).sqrt(),
        worst: relative[worst],
        worst_row: rows[worst].about.name.clone(),
        condition: fit.condition,
        ..Costs::nothing()
    };
    for (place, j) in columns.iter().enumerate() {
        costs.unit_ns[*j] = fit.coefficients[place];
        costs.ci95[*j] = intervals[place];
        for (other, k) in columns.iter().enumerate() {
            costs.covariance[*j][*k] = covariance(&draws, place, other);
        }
    }
    Some(costs)
}

fn covariance(draws: &[Vec<f64>], a: usize, b: usize) -> f64 {
    let n = draws.len() as f64;
    let mean = |j: usize| draws.iter().map(|d| d[j]).sum::<f64>() / n;
    let (mean_a, mean_b) = (mean(a), mean(b));
    draws.iter().map(|d| (d[a] - mean_a) * (d[b] - mean_b)).sum::<f64>() / n
}

impl FamilyModel {
    /// The costs of a span.
    pub fn costs(&self, span: Span) -> &Costs {
        match span {
            Span::Entry => &self.entry,
            Span::End => &self.end,
        }
    }
}

impl Costs {
    /// Nothing costs anything.
    pub fn nothing() -> Costs {
        Costs {
            unit_ns: [0.0; COUNT],
            ci95: [[0.0; 2]; COUNT],
            covariance: vec![[0.0; COUNT]; COUNT],
            residual: 0.0,
            worst: 0.0,
            worst_row: String::new(),
            condition: None,
        }
    }

    /// Time of some work, nanoseconds.
    pub fn time(&self, counts: &PerTerm) -> f64 {
        counts.iter().zip(&self.unit_ns).map(|(n, c)| n * c).sum()
    }

    /// Variance of that time that the calibration's noise leaves.
    pub fn variance(&self, counts: &PerTerm) -> f64 {
        let row = |(n, row): (&f64, &PerTerm)| n * row.iter().zip(counts).map(|(c, m)| c * m).sum::<f64>();
        counts.iter().zip(&self.covariance).map(row).sum::<f64>().max(0.0)
    }
}

#[cfg(test)]
mod tests {
    use super::super::calibrate::About;
    use super::super::work::T;
    use super::*;

    /// Rows of a host whose costs are known, with a little noise.
    pub(super) fn rows() -> Vec<Row> {
        let mut rng = crate::stat::rng::Rng::new(5);
        let mut rows = Vec::new();
        for (pages, lookups) in [(0.0, 0.0), (100.0, 0.0), (0.0, 1000.0), (300.0, 2000.0)] {
            let mut work = Work::new();
            work.add(T::PageWritten, pages);
            work.add(T::Lookup, lookups);
            let family = if pages + lookups == 0.0 { Family::Static } else { Family::Glibc };
            let time = 60_000.0 + 2_000.0 * pages + 150.0 * lookups;
            let reading =
                |noise: f64| Reading { to_entry_ns: time * noise, to_end_ns: 0.1 * time * noise, minflt: 3.0 };
            let readings = (0..40).map(|_| reading(1.0 + 0.02 * (rng.unit() - 0.5))).collect();
            let about = About { name: format!("{pages} {lookups}"), family, work, library: None, loads: Vec::new() };
            rows.push(Row { about, readings });
        }
        rows
    }

    /// Where a program does not follow from its counts, all that hangs on it is less certain, however quiet the rounds.
    #[test]
    fn what_does_not_fit_widens_the_intervals() {
        let width = |rows: &[Row]| {
            let [low, high] = family(rows, Family::Glibc, 1).unwrap().entry.ci95[T::Lookup as usize];
            high - low
        };
        let mut odd = rows();
        odd[3].readings.iter_mut().for_each(|r| r.to_entry_ns *= 1.1);
        assert!(width(&odd) > 3.0 * width(&rows()), "{} {}", width(&odd), width(&rows()));
    }

    #[test]
    fn known_costs_come_back() {
        let model = family(&rows(), Family::Glibc, 1).unwrap();
        let near = |term: T, want: f64| {
            let [low, high] = model.entry.ci95[term as usize];
            let got = model.entry.unit_ns[term as usize];
            assert!((got / want - 1.0).abs() < 0.01 && low < high, "{term:?}: {got} in {low}..{high}");
        };
        near(T::Exec, 60_000.0);
        near(T::PageWritten, 2_000.0);
        near(T::Lookup, 150.0);
        assert!((model.end.unit_ns[T::PageWritten as usize] / 200.0 - 1.0).abs() < 0.01);
        assert!(!model.known[T::Tls as usize] && model.known[T::Lookup as usize]);
        let counts = rows()[3].about.work.counts;
        assert!((model.entry.time(&counts) / 960_000.0 - 1.0).abs() < 0.01);
        assert!(model.entry.variance(&counts).sqrt() < 5_000.0);
        assert!(family(&rows(), Family::Musl, 1).is_none());
    }
}
