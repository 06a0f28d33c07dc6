//! Fits: costs that cannot be negative to counts and times, and straight lines.

use super::dist::{f_upper, student_two_sided_quantile};
use super::linear::{Matrix, condition, dot, least_squares};
use crate::order;

/// A least-squares fit.
#[derive(Debug, Clone, PartialEq)]
pub struct Fit {
    /// One a column, none negative.
    pub coefficients: Vec<f64>,
    /// Per column: held at zero, since a negative value would fit better or other columns explain it.
    pub held: Vec<bool>,
    /// Measured minus fitted, per row, unweighted.
    pub residuals: Vec<f64>,
    /// Share of the (weighted) variation around the (weighted) mean that is explained; `None` without variation.
    pub r_squared: Option<f64>,
    /// Condition number of the weighted columns brought to unit length; `None` where they depend on each other.
    pub condition: Option<f64>,
}

/// Minimises Σ w (b - A x)² with x ≥ 0 by the active-set method (Lawson and Hanson, "Solving Least Squares
/// Problems", 1974, chapter 23). Columns are scaled to unit length inside, so that nanoseconds beside millions of
/// relocations do no harm. `weights` are those of the squares (1 / variance); `None` means all alike.
///
/// `None` where lengths disagree, or a number is not finite or a weight negative.
pub fn non_negative(a: &Matrix, b: &[f64], weights: Option<&[f64]>) -> Option<Fit> {
    let ones = vec![1.0; a.rows()];
    let weights = weights.unwrap_or(&ones);
    let usable = |x: &f64| x.is_finite() && *x >= 0.0;
    if b.len() != a.rows()
        || weights.len() != a.rows()
        || !weights.iter().all(usable)
        || !b.iter().all(|x| x.is_finite())
    {
        return None;
    }
    let roots: Vec<f64> = weights.iter().map(|w| w.sqrt()).collect();
    let weighted = a.scale_rows(&roots);
    let (unit, lengths) = weighted.unit_columns();
    let target: Vec<f64> = b.iter().zip(&roots).map(|(b, r)| b * r).collect();
    let (scaled, free) = active_set(&unit, &target);
    let coefficients: Vec<f64> = scaled.iter().zip(&lengths).map(|(x, l)| x / l).collect();
    let residuals: Vec<f64> = b.iter().zip(a.times(&coefficients)).map(|(b, f)| b - f).collect();
    Some(Fit {
        held: free.iter().map(|f| !f).collect(),
        r_squared: r_squared(b, &residuals, weights),
        condition: condition(&weighted),
        coefficients,
        residuals,
    })
}

/// Coefficients and which of them are free, for unit columns.
fn active_set(a: &Matrix, b: &[f64]) -> (Vec<f64>, Vec<bool>) {
    let width = a.columns().len();
    let mut x = vec![0.0; width];
    let mut free = vec![false; width];
    // A column that turned out useless where it entered may try again once another has changed the point.
    let mut refused = vec![false; width];
    let tolerance = 1e-12 * dot(b, b).sqrt();
    // The method ends by itself; the bound is against rounding that would make it cycle.
    for _ in 0..10 * width + 10 {
        let residual: Vec<f64> = b.iter().zip(a.times(&x)).map(|(b, f)| b - f).collect();
        let gain = |j: usize| dot(&a.columns()[j], &residual);
        let candidates = (0..width).filter(|&j| !free[j] && !refused[j] && gain(j) > tolerance);
        let Some(enter) = candidates.max_by(|&i, &j| gain(i).total_cmp(&gain(j))) else { break };
        free[enter] = true;
        match solve_free(a, b, &free) {
            Some(s) if s[enter] > 0.0 => {
                descend(a, b, &mut x, &mut free, s);
                refused.fill(false);
            }
            _ => {
                free[enter] = false;
                refused[enter] = true;
            }
        }
    }
    (x, free)
}

/// Least squares over the free columns, zero elsewhere.
fn solve_free(a: &Matrix, b: &[f64], free: &[bool]) -> Option<Vec<f64>> {
    let which: Vec<usize> = (0..free.len()).filter(|&j| free[j]).collect();
    let mut full = vec![0.0; free.len()];
    if !which.is_empty() {
        for (j, v) in which.iter().zip(least_squares(&a.select(&which), b)?) {
            full[*j] = v;
        }
    }
    Some(full)
}

/// Moves x towards `goal` as far as no coefficient turns negative, frees it of those that reached zero,
/// and repeats with the goal of the rest. Each turn holds one more column, so it ends.
fn descend(a: &Matrix, b: &[f64], x: &mut [f64], free: &mut [bool], mut goal: Vec<f64>) {
    loop {
        let negative = (0..x.len()).filter(|&j| free[j] && goal[j] <= 0.0);
        let stop = negative.map(|j| (x[j] / (x[j] - goal[j]), j)).min_by(|p, q| p.0.total_cmp(&q.0));
        let Some((step, first)) = stop else {
            x.copy_from_slice(&goal);
            return;
        };
        for j in 0..x.len() {
            x[j] += step * (goal[j] - x[j]);
            if free[j] && (j == first || x[j] <= 0.0) {
                free[j] = false;
            }
            if !free[j] {
                x[j] = 0.0;
            }
        }
        // A subset of independent columns stays independent.
        let Some(next) = solve_free(a, b, free) else { return };
        goal = next;
    }
}

fn r_squared(b: &[f64], residuals: &[f64], weights: &[f64]) -> Option<f64> {
    let total: f64 = weights.iter().sum();
    let mean = dot(b, weights) / total;
    let spread: f64 = b.iter().zip(weights).map(|(b, w)| w * (b - mean).powi(2)).sum();
    let left: f64 = residuals.iter().zip(weights).map(|(r, w)| w * r * r).sum();
    (spread > 0.0).then(|| 1.0 - left / spread)
}

/// A straight line through points.
#[derive(Debug, Clone, PartialEq)]
pub struct Line {
    /// Value at x = 0.
    pub intercept: f64,
    /// Change per unit of x.
    pub slope: f64,
    /// Half-width of the slope's 95 % interval (Student's t); `None` with two points.
    pub slope_half_width: Option<f64>,
    /// Half-width of the intercept's 95 % interval.
    pub intercept_half_width: Option<f64>,
    /// Standard deviation of the residuals, n - 2 degrees of freedom.
    pub residual_stddev: Option<f64>,
    /// Share of variation explained; `None` where y does not vary.
    pub r_squared: Option<f64>,
    /// Is it a line at all? `None` without repeated x, or with fewer than three distinct x.
    pub lack_of_fit: Option<LackOfFit>,
}

/// The F test of a straight line against free means per x.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LackOfFit {
    /// Mean square of the means around the line, over mean square within repeats.
    pub f: f64,
    /// Degrees of freedom of the means around the line, and within repeats.
    pub df: [usize; 2],
    /// A small value says: not a straight line.
    pub p_value: f64,
}

/// Least squares through (x, y). `None` where x does not vary, lengths differ, or a number is not finite.
pub fn line(x: &[f64], y: &[f64]) -> Option<Line> {
    let n = x.len() as f64;
    if x.len() != y.len() || x.iter().chain(y).any(|v| !v.is_finite()) {
        return None;
    }
    let (mean_x, mean_y) = (x.iter().sum::<f64>() / n, y.iter().sum::<f64>() / n);
    let sxx: f64 = x.iter().map(|x| (x - mean_x).powi(2)).sum();
    let sxy: f64 = x.iter().zip(y).map(|(x, y)| (x - mean_x) * (y - mean_y)).sum();
    let syy: f64 = y.iter().map(|y| (y - mean_y).powi(2)).sum();
    if sxx <= 0.0 {
        return None;
    }
    let slope = sxy / sxx;
    let intercept = mean_y - slope * mean_x;
    let left: f64 = x.iter().zip(y).map(|(x, y)| (y - mean_y - slope * (x - mean_x)).powi(2)).sum();
    let df = n - 2.0;
    let residual_stddev = (df > 0.0).then(|| (left / df).sqrt());
    let t = student_two_sided_quantile(0.95, df.max(1.0));
    Some(Line {
        intercept,
        slope,
        slope_half_width: residual_stddev.map(|s| t * s / sxx.sqrt()),
        intercept_half_width: residual_stddev.map(|s| t * s * (1.0 / n + mean_x * mean_x / sxx).sqrt()),
        residual_stddev,
        r_squared: (syy > 0.0).then(|| 1.0 - left / syy),
        lack_of_fit: lack_of_fit(x, y, left),
    })
}

fn lack_of_fit(x: &[f64], y: &[f64], left: f64) -> Option<LackOfFit> {
    let mut points: Vec<(f64, f64)> = x.iter().copied().zip(y.iter().copied()).collect();
    order::by(&mut points, |a, b| a.0.total_cmp(&b.0));
    let (mut groups, mut pure) = (0, 0.0);
    for group in points.chunk_by(|a, b| a.0 == b.0) {
        groups += 1;
        let mean = group.iter().map(|p| p.1).sum::<f64>() / group.len() as f64;
        pure += group.iter().map(|p| (p.1 - mean).powi(2)).sum::<f64>();
    }
    if groups < 3 || points.len() <= groups || pure <= 0.0 {
        return None;
    }
    let df = [groups - 2, points.len() - groups];
    let f = ((left - pure).max(0.0) / df[0] as f64) / (pure / df[1] as f64);
    Some(LackOfFit { f, df, p_value: f_upper(f, df[0] as f64, df[1] as f64) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stat::rng::Rng;

    /// The conditions under which a point is the minimum (Kuhn and Tucker): no free column has a gradient left,
    /// no held column would help.
    fn is_minimum(a: &Matrix, b: &[f64], fit: &Fit) -> bool {
        let size = dot(b, b).sqrt();
        a.columns().iter().zip(&fit.coefficients).zip(&fit.held).all(|((column, &x), &held)| {
            let gradient = dot(column, &fit.residuals) / dot(column, column).sqrt();
            x >= 0.0 && if held { x == 0.0 && gradient <= 1e-9 * size } else { gradient.abs() <= 1e-9 * size }
        })
    }

    #[test]
    fn random_problems_end_at_the_minimum() {
        let mut rng = Rng::new(21);
        for round in 0..200 {
            let (rows, width) = (6 + rng.index(30), 1 + rng.index(6));
            let scale: Vec<f64> = (0..width).map(|_| 10f64.powi(rng.index(7) as i32)).collect();
            let column = |rng: &mut Rng, s: f64| (0..rows).map(|_| s * (rng.unit() - 0.3)).collect::<Vec<_>>();
            let a = Matrix::from_columns(scale.iter().map(|&s| column(&mut rng, s)).collect()).unwrap();
            let b = column(&mut rng, 1000.0);
            let fit = non_negative(&a, &b, None).unwrap();
            assert!(is_minimum(&a, &b, &fit), "round {round}: {fit:?}");
        }
    }

    #[test]
    fn repeated_columns_end_too() {
        let c = vec![1.0, 2.0, 3.0, 4.0];
        let a = Matrix::from_columns(vec![c.clone(), c.clone(), vec![1.0; 4], vec![0.0; 4]]).unwrap();
        let fit = non_negative(&a, &[3.0, 5.0, 7.0, 9.0], None).unwrap();
        assert!((fit.coefficients[0] + fit.coefficients[1] - 2.0).abs() < 1e-12, "{fit:?}");
        assert!((fit.coefficients[2] - 1.0).abs() < 1e-12 && fit.condition.is_none());
        assert!((fit.r_squared.unwrap() - 1.0).abs() < 1e-12);
    }

    #[test]
    fn a_weight_of_zero_leaves_a_row_out() {
        let a = Matrix::from_columns(vec![vec![1.0; 3]]).unwrap();
        let fit = non_negative(&a, &[5.0, 5.0, 500.0], Some(&[1.0, 1.0, 0.0])).unwrap();
        assert!((fit.coefficients[0] - 5.0).abs() < 1e-12);
        assert_eq!(non_negative(&a, &[1.0, 2.0], None), None);
        assert_eq!(non_negative(&a, &[1.0, 2.0, 3.0], Some(&[-1.0, 1.0, 1.0])), None);
    }

    #[test]
    fn lines_and_what_is_none() {
        let l = line(&[0.0, 1.0, 2.0], &[1.0, 3.0, 5.0]).unwrap();
        assert_eq!((l.intercept, l.slope, l.lack_of_fit), (1.0, 2.0, None));
        assert!(line(&[1.0, 1.0], &[1.0, 2.0]).is_none());
        assert!(line(&[], &[]).is_none());
        assert_eq!(line(&[0.0, 1.0], &[0.0, 1.0]).unwrap().slope_half_width, None);
        // A parabola with repeats is not a line.
        let x: Vec<f64> = (0..30).map(|i| f64::from(i / 3)).collect();
        let y: Vec<f64> = x.iter().enumerate().map(|(i, x)| x * x + (i % 3) as f64).collect();
        assert!(line(&x, &y).unwrap().lack_of_fit.unwrap().p_value < 1e-6);
    }
}
