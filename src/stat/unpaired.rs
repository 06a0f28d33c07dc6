//! Two sets of samples that were not measured in the same rounds.
//!
//! The arithmetic below is right and the question is still badly put: two blocks of the same binary, made
//! seconds apart, differ "significantly" in 33 to 76 of 100 cases, since the machine itself drifts. Whoever
//! prints these figures prints that too.

use super::quantile::quantile;
use super::rank::{Method, rank_sum, shift};
use super::verdict::{Verdict, decide, default_delta};

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

/// Two runs brought to the same floor: how the candidate's ratio looks once the movement of the control between
/// the runs is taken out of it. Weaker than pairs within rounds, since only that movement is known, not when it came.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Normalised {
    /// The candidate's shift over the control's.
    pub ratio: f64,
    /// Its 95 % interval: both intervals' log half-widths added in quadrature.
    pub ci95: Option<[f64; 2]>,
    /// How the control moved: second run over first.
    pub control_ratio: f64,
    /// What a weak verdict may name: at least the default, and no less than the control's own movement.
    pub delta: f64,
    /// The word, to be called weak.
    pub verdict: Verdict,
}

/// Compares over the control of each run; `None` as for [`compare`].
pub fn normalised(
    reference: &[f64],
    candidate: &[f64],
    control_of_reference: &[f64],
    control_of_candidate: &[f64],
) -> Option<Normalised> {
    let own = compare(reference, candidate)?;
    let control = compare(control_of_reference, control_of_candidate)?;
    let ratio = own.shift_ratio / control.shift_ratio;
    let side = |i: usize| {
        let reach = |u: &Unpaired| u.shift_ci95.map(|ci| (ci[i] / u.shift_ratio).ln());
        reach(&own).zip(reach(&control)).map(|(a, b)| a.hypot(b))
    };
    // The control's upper reach lowers the quotient: both sides use the larger.
    let reach = side(0).zip(side(1)).map(|(a, b)| a.max(b));
    let ci95 = reach.map(|r| [ratio * (-r).exp(), ratio * r.exp()]);
    let moved = control.shift_ratio.ln().abs().exp_m1();
    let delta = default_delta(control.shift_ci95).max(moved);
    Some(Normalised { ratio, ci95, control_ratio: control.shift_ratio, delta, verdict: decide(ratio, ci95, delta) })
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
        let weak = normalised(&a, &b, &a, &a).unwrap();
        assert_eq!((weak.verdict, weak.control_ratio), (Verdict::Slower, 1.0));
        // All of it explained by the control: nothing is left.
        let moved = normalised(&a, &b, &a, &b).unwrap();
        assert!((moved.ratio - 1.0).abs() < 1e-12 && moved.delta > 0.99 && moved.verdict == Verdict::Equivalent);
        assert_eq!(compare(&a, &[]), None);
        assert_eq!(compare(&a, &[0.0]), None);
    }
}
