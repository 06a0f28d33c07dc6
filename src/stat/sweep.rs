//! A cost as a function of a parameter, measured in rounds: the line, its interval, and whether it is a line at all.
//!
//! Every round measures every point, so each round has a line of its own (least squares), which what slows a whole
//! round does not tilt. The slope is the median over rounds, and its interval that of a median: exact whatever the
//! noise, where an ordinary fit of all samples is ruined by one start that took ten times as long. In the same way
//! each point has, in each round, a distance from the round's line; a cost that is a straight line leaves the median
//! of these distances at zero at every point.

use super::memory::correlation_time;
use super::paired::median_of_correlated;
use super::quantile::median;

/// The line through points measured in rounds.
#[derive(Debug, Clone, PartialEq)]
pub struct SweepLine {
    /// Rounds used.
    pub rounds: usize,
    /// Change of the cost for one more unit of the parameter.
    pub slope: f64,
    /// Its 95 % interval; `None` where the rounds are too few.
    pub slope_ci95: Option<[f64; 2]>,
    /// The line's value where the parameter is 0 (which may lie far from all points).
    pub intercept: f64,
    /// Its 95 % interval.
    pub intercept_ci95: Option<[f64; 2]>,
    /// By point, how far it lies off the line. Empty with two points, which always lie on one.
    pub departures: Vec<Departure>,
}

/// How far a point lies off the line.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Departure {
    /// Median distance over rounds; above the line is positive.
    pub distance: f64,
    /// Its interval, wide enough for all points together to hold at 95 % (Bonferroni).
    pub ci: Option<[f64; 2]>,
}

impl Departure {
    /// Shown to lie off the line.
    pub fn is_shown(&self) -> bool {
        self.ci.is_some_and(|[low, high]| low > 0.0 || high < 0.0)
    }
}

impl SweepLine {
    /// `Some(false)`: shown not to be a straight line. `Some(true)`: no point is shown off it. `None`: cannot be tested.
    pub fn is_straight(&self) -> Option<bool> {
        let testable = !self.departures.is_empty() && self.departures.iter().all(|d| d.ci.is_some());
        testable.then(|| !self.departures.iter().any(Departure::is_shown))
    }

    /// The largest distance that the intervals leave possible: no point is further off the line than this.
    pub fn within(&self) -> Option<f64> {
        let reach = |d: &Departure| d.ci.map(|[low, high]| low.abs().max(high.abs()));
        let reaches = self.departures.iter().map(reach).collect::<Option<Vec<f64>>>()?;
        reaches.into_iter().max_by(f64::total_cmp)
    }
}

/// Fits rounds, each with one value a point of `x`. `None` where x does not vary, nothing was measured, a number is
/// not finite, or a round has another number of points.
pub fn fit(x: &[f64], rounds: &[Vec<f64>]) -> Option<SweepLine> {
    let n = x.len() as f64;
    let usable = |r: &Vec<f64>| r.len() == x.len() && r.iter().all(|v| v.is_finite());
    if rounds.is_empty() || !rounds.iter().all(usable) || x.iter().any(|v| !v.is_finite()) {
        return None;
    }
    let mean_x = x.iter().sum::<f64>() / n;
    let sxx: f64 = x.iter().map(|v| (v - mean_x).powi(2)).sum();
    if sxx <= 0.0 {
        return None;
    }
    let (mut slopes, mut intercepts) = (Vec::new(), Vec::new());
    let mut distances: Vec<Vec<f64>> = vec![Vec::with_capacity(rounds.len()); x.len()];
    for round in rounds {
        let mean = round.iter().sum::<f64>() / n;
        let slope = x.iter().zip(round).map(|(x, y)| (x - mean_x) * (y - mean)).sum::<f64>() / sxx;
        slopes.push(slope);
        intercepts.push(mean - slope * mean_x);
        for ((x, y), of_point) in x.iter().zip(round).zip(&mut distances) {
            of_point.push(y - mean - slope * (x - mean_x));
        }
    }
    let mut distinct = x.to_vec();
    distinct.sort_unstable_by(f64::total_cmp);
    distinct.dedup();
    let each = 1.0 - 0.05 / n;
    let departures = if distinct.len() < 3 { Vec::new() } else { distances };
    let (slope, slope_ci95) = centre(&slopes, 0.95)?;
    let (intercept, intercept_ci95) = centre(&intercepts, 0.95)?;
    let departure = |d: Vec<f64>| centre(&d, each).map(|(distance, ci)| Departure { distance, ci });
    Some(SweepLine {
        rounds: rounds.len(),
        slope,
        slope_ci95,
        intercept,
        intercept_ci95,
        departures: departures.into_iter().map(departure).collect::<Option<_>>()?,
    })
}

/// The median of a series of rounds with its interval, widened where neighbouring rounds resemble each other.
fn centre(series: &[f64], confidence: f64) -> Option<(f64, Option<[f64; 2]>)> {
    let ci = median_of_correlated(series, correlation_time(series), confidence);
    Some((median(&mut series.to_vec())?, ci))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stat::rng::Rng;

    /// Rounds of a cost with a level of their own and, now and then, a start that takes ten times as long.
    fn rounds(x: &[f64], n: usize, cost: impl Fn(f64) -> f64, seed: u64) -> Vec<Vec<f64>> {
        let mut rng = Rng::new(seed);
        let mut one = || {
            let level = 1.0 + 0.3 * rng.unit();
            let mut start = |x: &f64| {
                let spike = if rng.unit() < 0.02 { 10.0 } else { 1.0 };
                level * 1000.0 - 1000.0 + spike * (cost(*x) + 20.0 * rng.unit())
            };
            x.iter().map(&mut start).collect()
        };
        (0..n).map(|_| one()).collect()
    }

    #[test]
    fn the_slope_comes_out_of_moving_levels_and_spikes() {
        let x = [0.0, 50.0, 100.0, 200.0];
        let mut covered = 0;
        for seed in 0..100 {
            let line = fit(&x, &rounds(&x, 60, |x| 500.0 + 4.0 * x, seed)).unwrap();
            let [low, high] = line.slope_ci95.unwrap();
            covered += u32::from(low <= 4.0 && 4.0 <= high);
            assert!((line.slope - 4.0).abs() < 0.1, "{line:?}");
        }
        assert!(covered >= 90, "{covered} of 100 intervals hold the truth");
    }

    #[test]
    fn a_line_is_rarely_called_bent_and_a_bend_is_found_where_it_is() {
        let x: Vec<f64> = (0..6).map(f64::from).collect();
        let line = |seed| fit(&x, &rounds(&x, 60, |x| 300.0 + 10.0 * x, seed)).unwrap();
        let false_alarms = (0..100).filter(|s| line(*s).is_straight() == Some(false)).count();
        assert!(false_alarms <= 9, "{false_alarms}");
        let step = |x: f64| 300.0 + 10.0 * x + if x >= 3.0 { 40.0 } else { 0.0 };
        let bent = fit(&x, &rounds(&x, 60, step, 1)).unwrap();
        assert_eq!(bent.is_straight(), Some(false));
        assert!(bent.departures[2].distance < 0.0 && bent.departures[3].distance > 0.0, "{bent:?}");
    }

    #[test]
    fn exact_data_give_exact_lines_and_two_points_no_test() {
        let line = fit(&[1.0, 2.0, 3.0], &vec![vec![5.0, 7.0, 9.0]; 8]).unwrap();
        assert_eq!((line.slope, line.intercept, line.slope_ci95), (2.0, 3.0, Some([2.0, 2.0])));
        assert_eq!((line.is_straight(), line.within()), (Some(true), Some(0.0)));
        let two = fit(&[1.0, 2.0], &vec![vec![5.0, 7.0]; 8]).unwrap();
        assert_eq!((two.is_straight(), two.departures.len()), (None, 0));
        let few = fit(&[1.0, 2.0, 3.0], &vec![vec![5.0, 7.0, 9.0]; 3]).unwrap();
        assert_eq!((few.slope_ci95, few.is_straight(), few.within()), (None, None, None));
        assert_eq!(fit(&[1.0, 1.0], &[vec![1.0, 2.0]]), None);
        assert_eq!(fit(&[1.0, 2.0], &[]), None);
        assert_eq!(fit(&[1.0, 2.0], &[vec![1.0]]), None);
        assert_eq!(fit(&[1.0, 2.0], &[vec![1.0, f64::NAN]]), None);
    }
}
