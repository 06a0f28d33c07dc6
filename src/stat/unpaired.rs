//! Two sets of samples that were not measured in the same rounds.
//!
//! The arithmetic below is right and the question is still badly put: two blocks of the same binary, made
//! seconds apart, differ "significantly" in 33 to 76 of 100 cases, since the machine itself drifts. Whoever
//! prints these figures prints that too.

use super::quantile::quantile;
use super::rank::{Method, rank_sum, shift};

/// What two separate sets of samples say.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Unpaired {
    /// Median of the candidate over median of the reference.
    pub median_ratio: f64,
    /// Typical ratio: e to the median of all differences of logarithms (Hodges and Lehmann).
    pub shift_ratio: f64,
    /// The shift's 95 % interval, were all samples independent; `None` for small samples.
    pub shift_ci95: Option<[f64; 2]>,
    /// Two-sided p-value of the rank-sum test, under the same condition.
    pub p_value: f64,
    /// How that p-value was obtained.
    pub method: Method,
}

/// Compares two sets of positive values; `None` where one is empty or holds a value that is not above zero.
pub fn compare(reference: &[f64], candidate: &[f64]) -> Option<Unpaired> {
    let sorted_logs = |values: &[f64]| -> Option<Vec<f64>> {
        let mut logs: Vec<f64> = values.iter().map(|v| v.ln()).collect();
        logs.sort_unstable_by(f64::total_cmp);
        logs.iter().all(|x| x.is_finite()).then_some(logs)
    };
    let (a, b) = (sorted_logs(reference)?, sorted_logs(candidate)?);
    let test = rank_sum(&a, &b)?;
    let (centre, ci) = shift(&a, &b, 0.95)?;
    Some(Unpaired {
        median_ratio: plain_median(candidate)? / plain_median(reference)?,
        shift_ratio: centre.exp(),
        shift_ci95: ci.map(|c| c.map(f64::exp)),
        p_value: test.p_value,
        method: test.method,
    })
}

fn plain_median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    quantile(&sorted, 0.5)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn twice_as_slow_is_a_ratio_of_two() {
        let a: Vec<f64> = (100..160).map(f64::from).collect();
        let b: Vec<f64> = a.iter().map(|x| 2.0 * x).collect();
        let c = compare(&a, &b).unwrap();
        assert!((c.median_ratio - 2.0).abs() < 1e-12 && (c.shift_ratio - 2.0).abs() < 1e-12);
        let [low, high] = c.shift_ci95.unwrap();
        assert!(low > 1.8 && high < 2.2 && c.p_value < 1e-10);
        assert_eq!(compare(&a, &[]), None);
        assert_eq!(compare(&a, &[0.0]), None);
    }
}
