//! Times of many programs fitted against what was counted in their files.
//!
//! Least squares with coefficients that cannot be negative, weighted so that equal relative deviations count alike:
//! programs here span from 0.1 to 100 ms. What deviates is mostly what the counts do not say, not noise, so intervals
//! come from leaving programs out (the jackknife: Tukey 1958; Efron, "The Jackknife, the Bootstrap and Other Resampling
//! Plans", 1982, chapter 3), and the error that is named is that of programs which took no part in the fit.

use super::observations::{COUNTS, Observation};
use crate::error::{Error, Result};
use crate::order;
use crate::stat::dist::student_two_sided_quantile;
use crate::stat::fit::{Fit, non_negative};
use crate::stat::linear::Matrix;
use crate::stat::quantile::quantile;

/// What the counts explain, and what they do not.
#[derive(Debug, Clone, PartialEq)]
pub struct Correlation {
    /// What was fitted.
    pub metric: String,
    /// Counts that vary, in the order of [`COUNTS`].
    pub terms: Vec<Term>,
    /// Counts that are zero everywhere or the same everywhere: what they cost is part of `start`.
    pub constant: Vec<&'static str>,
    /// One a program, in the order given.
    pub programs: Vec<Fitted>,
    /// Share of the weighted variation that is explained.
    pub r_squared: Option<f64>,
    /// Of the weighted columns at unit length.
    pub condition: Option<f64>,
    /// Absolute relative deviation of programs from the fit made without them: median and 90th percentile.
    pub left_out_error: [f64; 2],
}

/// One count in the fit.
#[derive(Debug, Clone, PartialEq)]
pub struct Term {
    /// Its name.
    pub name: &'static str,
    /// What one unit is.
    pub unit: &'static str,
    /// Nanoseconds a unit.
    pub unit_ns: f64,
    /// Its 95 % interval; `None` where leaving programs out cannot tell.
    pub ci95: Option<[f64; 2]>,
    /// Held at zero: a negative cost would fit better, or other counts explain it.
    pub held: bool,
    /// Programs that have any of it.
    pub programs: usize,
    /// Mean share of the fitted time.
    pub share: f64,
    /// Rank correlation with the time (Spearman's), by itself.
    pub rank_correlation: Option<f64>,
}

/// One program in the fit.
#[derive(Debug, Clone, PartialEq)]
pub struct Fitted {
    /// Its name.
    pub name: String,
    /// Nanoseconds.
    pub measured_ns: f64,
    /// 95 % interval of the measured median.
    pub measured_ci95: Option<[f64; 2]>,
    /// By the fit over all programs, nanoseconds.
    pub fitted_ns: f64,
    /// By the fit without this program (and those left out with it), nanoseconds.
    pub left_out_ns: f64,
}

impl Fitted {
    /// Measured over fitted, less one.
    pub fn deviation(&self) -> f64 {
        self.measured_ns / self.fitted_ns - 1.0
    }

    /// The same against the fit without it.
    pub fn left_out_deviation(&self) -> f64 {
        self.measured_ns / self.left_out_ns - 1.0
    }
}

impl Correlation {
    /// Programs by absolute deviation from the fit without them, the worst first.
    pub fn worst_first(&self) -> Vec<&Fitted> {
        let size = |f: &Fitted| f.left_out_deviation().abs();
        let mut all: Vec<&Fitted> = self.programs.iter().collect();
        order::by(&mut all, |a, b| size(b).total_cmp(&size(a)));
        all
    }
}

/// Fewer programs than counts and these more say nothing.
const SPARE_PROGRAMS: usize = 3;
/// Programs are left out in at most this many groups: beyond it intervals gain nothing and time is lost.
const MOST_GROUPS: usize = 200;

/// Fits. `metric` is only named.
///
/// # Errors
/// Where there are too few programs for the counts that vary.
pub fn correlate(observations: &[Observation], metric: &str) -> Result<Correlation> {
    let (varying, constant) = varying(observations);
    let needed = varying.len() + SPARE_PROGRAMS;
    if observations.len() < needed {
        let counts = varying.len() - 1;
        return Err(Error::new(format!(
            "{} programs for {counts} counts that differ between them: at least {needed} are needed",
            observations.len()
        )));
    }
    let design = Design::new(observations, &varying);
    let all = design.fit(|_| true).ok_or_else(|| Error::new("the counts cannot be fitted"))?;
    let groups = observations.len().min(MOST_GROUPS);
    let left_out: Vec<Fit> = (0..groups).filter_map(|g| design.fit(|row| row % groups != g)).collect();
    if left_out.len() < groups {
        return Err(Error::new("the counts cannot be fitted with programs left out"));
    }
    let programs: Vec<Fitted> = (0..observations.len())
        .map(|row| {
            let o = &observations[row];
            let by = |fit: &Fit| design.value(row, &fit.coefficients);
            Fitted {
                name: o.name.clone(),
                measured_ns: o.time_ns,
                measured_ci95: o.time_ci95,
                fitted_ns: by(&all),
                left_out_ns: by(&left_out[row % groups]),
            }
        })
        .collect();
    let mut errors: Vec<f64> = programs.iter().map(|f| f.left_out_deviation().abs()).collect();
    errors.sort_unstable_by(f64::total_cmp);
    let error_at = |p: f64| quantile(&errors, p).unwrap_or(f64::NAN);
    Ok(Correlation {
        metric: metric.to_string(),
        terms: terms(observations, &varying, &all, &left_out),
        constant,
        r_squared: all.r_squared,
        condition: all.condition,
        left_out_error: [error_at(0.5), error_at(0.9)],
        programs,
    })
}

/// Columns that differ between programs, with the constant one first; names of those that do not.
fn varying(observations: &[Observation]) -> (Vec<usize>, Vec<&'static str>) {
    let (mut varying, mut constant) = (vec![0], Vec::new());
    for (j, count) in COUNTS.iter().enumerate().skip(1) {
        let mut values = observations.iter().map(|o| o.counts[j]);
        let first = values.next();
        if values.all(|v| Some(v) == first) {
            constant.push(count.name);
        } else {
            varying.push(j);
        }
    }
    (varying, constant)
}

/// Rows of counts with times; weights make squares relative.
struct Design {
    rows: Vec<Vec<f64>>,
    times: Vec<f64>,
}

impl Design {
    fn new(observations: &[Observation], columns: &[usize]) -> Design {
        let row = |o: &Observation| columns.iter().map(|&j| o.counts[j]).collect();
        Design { rows: observations.iter().map(row).collect(), times: observations.iter().map(|o| o.time_ns).collect() }
    }

    fn fit(&self, keep: impl Fn(usize) -> bool) -> Option<Fit> {
        let kept: Vec<usize> = (0..self.rows.len()).filter(|&r| keep(r)).collect();
        let rows: Vec<Vec<f64>> = kept.iter().map(|&r| self.rows[r].clone()).collect();
        let times: Vec<f64> = kept.iter().map(|&r| self.times[r]).collect();
        let weights: Vec<f64> = times.iter().map(|t| 1.0 / (t * t)).collect();
        non_negative(&Matrix::from_rows(&rows)?, &times, Some(&weights))
    }

    fn value(&self, row: usize, coefficients: &[f64]) -> f64 {
        self.rows[row].iter().zip(coefficients).map(|(x, c)| x * c).sum()
    }
}

fn terms(observations: &[Observation], columns: &[usize], all: &Fit, left_out: &[Fit]) -> Vec<Term> {
    let fitted = |o: &Observation| columns.iter().zip(&all.coefficients).map(|(&j, c)| o.counts[j] * c).sum::<f64>();
    let times: Vec<f64> = observations.iter().map(|o| o.time_ns).collect();
    let df = (observations.len() - columns.len()).max(1) as f64;
    let one = |(k, &j): (usize, &usize)| {
        let counts: Vec<f64> = observations.iter().map(|o| o.counts[j]).collect();
        let shares: f64 = observations.iter().map(|o| o.counts[j] * all.coefficients[k] / fitted(o)).sum();
        Term {
            name: COUNTS[j].name,
            unit: COUNTS[j].unit,
            unit_ns: all.coefficients[k],
            ci95: jackknife(all.coefficients[k], left_out.iter().map(|f| f.coefficients[k]), df),
            held: all.held[k],
            programs: counts.iter().filter(|c| **c > 0.0).count(),
            share: shares / observations.len() as f64,
            rank_correlation: spearman(&counts, &times),
        }
    };
    columns.iter().enumerate().map(one).collect()
}

/// The interval of an estimate from those with one group left out each. A cost that cannot be negative has none
/// below zero.
fn jackknife(estimate: f64, left_out: impl Iterator<Item = f64>, df: f64) -> Option<[f64; 2]> {
    let values: Vec<f64> = left_out.collect();
    let n = values.len() as f64;
    if values.len() < 2 {
        return None;
    }
    let mean = values.iter().sum::<f64>() / n;
    let spread: f64 = values.iter().map(|v| (v - mean).powi(2)).sum();
    let half = student_two_sided_quantile(0.95, df) * ((n - 1.0) / n * spread).sqrt();
    half.is_finite().then(|| [(estimate - half).max(0.0), estimate + half])
}

/// Pearson's correlation of mid-ranks; `None` where a side does not vary.
fn spearman(x: &[f64], y: &[f64]) -> Option<f64> {
    let (a, b) = (mid_ranks(x), mid_ranks(y));
    let middle = (x.len() as f64 + 1.0) / 2.0;
    let product = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(p, q)| (p - middle) * (q - middle)).sum::<f64>();
    let size = (product(&a, &a) * product(&b, &b)).sqrt();
    (size > 0.0).then(|| product(&a, &b) / size)
}

fn mid_ranks(values: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order::by(&mut order, |&i, &j| values[i].total_cmp(&values[j]));
    let mut ranks = vec![0.0; values.len()];
    let mut start = 0;
    for group in order.chunk_by(|&i, &j| values[i] == values[j]) {
        // Ranks count from 1.
        let rank = start as f64 + (group.len() as f64 + 1.0) / 2.0;
        for &i in group {
            ranks[i] = rank;
        }
        start += group.len();
    }
    ranks
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stat::rng::Rng;

    /// Programs that cost 100 µs, 2 µs a page and 4 ns a relative relocation, with relative noise.
    fn programs(n: usize, noise: f64) -> Vec<Observation> {
        seeded(n, noise, 3)
    }

    fn seeded(n: usize, noise: f64, seed: u64) -> Vec<Observation> {
        let mut rng = Rng::new(seed);
        (0..n)
            .map(|i| {
                let mut counts = vec![0.0; COUNTS.len()];
                counts[0] = 1.0;
                counts[4] = rng.index(2000) as f64;
                counts[5] = rng.index(1_000_000) as f64;
                let time = 1e5 + 2_000.0 * counts[4] + 4.0 * counts[5];
                let time_ns = time * (1.0 + noise * (rng.unit() - 0.5));
                Observation { name: format!("p{i}"), time_ns, time_ci95: None, counts }
            })
            .collect()
    }

    #[test]
    fn planted_costs_are_found_within_their_intervals() {
        let c = correlate(&programs(60, 0.1), "exec_to_exit_ns").unwrap();
        for (name, truth) in [("start", 1e5), ("page written", 2_000.0), ("relative", 4.0)] {
            let t = c.terms.iter().find(|t| t.name == name).unwrap();
            let [low, high] = t.ci95.unwrap();
            assert!(low <= truth && truth <= high && high - low < truth, "{t:?}");
        }
        assert_eq!((c.terms.len(), c.constant.len()), (3, COUNTS.len() - 3));
        assert!(c.r_squared.unwrap() > 0.9 && c.left_out_error[1] < 0.06, "{c:?}");
    }

    #[test]
    fn intervals_hold_the_truth_about_as_often_as_they_say() {
        let truths = [("start", 1e5), ("page written", 2_000.0), ("relative", 4.0)];
        let (mut inside, mut all) = (0, 0);
        for seed in 0..100 {
            let c = correlate(&seeded(40, 0.2, seed), "m").unwrap();
            for (name, truth) in truths {
                let [low, high] = c.terms.iter().find(|t| t.name == name).unwrap().ci95.unwrap();
                all += 1;
                inside += usize::from(low <= truth && truth <= high);
            }
        }
        let share = f64::from(u32::try_from(inside).unwrap()) / f64::from(all);
        assert!((0.9..0.99).contains(&share), "{share}");
    }

    #[test]
    fn the_worst_fitting_program_is_named() {
        let mut all = programs(40, 0.02);
        all[17].time_ns *= 3.0;
        let c = correlate(&all, "m").unwrap();
        assert_eq!(c.worst_first()[0].name, "p17");
        assert!(c.worst_first()[0].left_out_deviation() > 1.5);
    }

    #[test]
    fn too_few_programs_are_refused() {
        let e = correlate(&programs(5, 0.0), "m").unwrap_err().to_string();
        assert_eq!(e, "5 programs for 2 counts that differ between them: at least 6 are needed");
        assert!(correlate(&[], "m").is_err());
    }

    #[test]
    fn ranks_share_ties_and_correlate() {
        assert_eq!(mid_ranks(&[5.0, 1.0, 5.0, 9.0]), [2.5, 1.0, 2.5, 4.0]);
        assert_eq!(spearman(&[1.0, 2.0, 3.0], &[10.0, 200.0, 3000.0]), Some(1.0));
        assert_eq!(spearman(&[1.0, 1.0], &[1.0, 2.0]), None);
    }
}
