//! One word on a candidate, and how many rounds would give one.

use std::fmt;

/// The smallest difference taken to matter unless the user says otherwise, as a fraction.
pub const MINIMUM_DELTA: f64 = 0.02;
/// More rounds than this are not worth recommending.
const ROUNDS_LIMIT: f64 = 1e6;
/// What an interval's half-width must shrink to, beside the gap it has to fit: 1 + z(80 %) / z(97.5 %), so
/// that four runs in five decide.
const POWER: f64 = 1.0 + 0.841_621_233_572_914_3 / 1.959_963_984_540_054;

/// The answer on one candidate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Shown to be faster, by at least delta.
    Faster,
    /// Shown to be slower, by at least delta.
    Slower,
    /// Shown to differ by less than delta.
    Equivalent,
    /// Neither is shown.
    NotDecided,
}

impl Verdict {
    /// The word in tables and JSON.
    pub fn word(self) -> &'static str {
        match self {
            Verdict::Faster => "faster",
            Verdict::Slower => "slower",
            Verdict::Equivalent => "equivalent",
            Verdict::NotDecided => "not decided",
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.word())
    }
}

/// Decides from the ratio candidate / reference, its 95 % interval and `delta` (0.02 = 2 %). Slower or faster:
/// the interval excludes 1 and the ratio is at least delta away from 1. Equivalent: the interval lies
/// within 1 ± delta. Without an interval nothing is decided.
pub fn decide(ratio: f64, ci95: Option<[f64; 2]>, delta: f64) -> Verdict {
    let Some([low, high]) = ci95 else { return Verdict::NotDecided };
    if low > 1.0 && ratio - 1.0 >= delta {
        Verdict::Slower
    } else if high < 1.0 && 1.0 - ratio >= delta {
        Verdict::Faster
    } else if low >= 1.0 - delta && high <= 1.0 + delta {
        Verdict::Equivalent
    } else {
        Verdict::NotDecided
    }
}

/// The default delta: the larger of 2 % and twice the half-width of the interval that the control showed
/// against itself, since below its own noise a run can claim nothing.
pub fn default_delta(control_ci95: Option<[f64; 2]>) -> f64 {
    control_ci95.map_or(MINIMUM_DELTA, |[low, high]| (high - low).max(MINIMUM_DELTA))
}

/// About how many rounds would decide, were `ratio` the truth: an interval's half-width falls with the square
/// root of the rounds. `None` where a million would not do, or there is no interval to go by.
pub fn rounds_to_decide(rounds: usize, ratio: f64, ci95: Option<[f64; 2]>, delta: f64) -> Option<u64> {
    let [low, high] = ci95?;
    // Needed of each side: (its present half-width, the room that it must fit).
    let needs = if (ratio - 1.0).abs() >= delta && ratio != 1.0 {
        let side = if ratio > 1.0 { ratio - low } else { high - ratio };
        [(side, (ratio - 1.0).abs()), (0.0, 1.0)]
    } else {
        [(ratio - low, ratio - (1.0 - delta)), (high - ratio, 1.0 + delta - ratio)]
    };
    let mut factor = 0.0_f64;
    for (half_width, room) in needs {
        if half_width > 0.0 {
            factor = factor.max((half_width * POWER / room.max(f64::MIN_POSITIVE)).powi(2));
        }
    }
    let needed = (rounds as f64 * factor).ceil().max(6.0);
    (needed <= ROUNDS_LIMIT).then_some(needed as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rule_word_by_word() {
        for (ratio, ci, delta, word) in [
            (1.05, Some([1.01, 1.09]), 0.02, "slower"),
            (0.95, Some([0.91, 0.99]), 0.02, "faster"),
            (1.00, Some([0.99, 1.01]), 0.02, "equivalent"),
            // Excludes 1, yet too small to matter.
            (1.01, Some([1.005, 1.015]), 0.02, "equivalent"),
            (1.01, Some([1.001, 1.03]), 0.02, "not decided"),
            // Large, yet 1 is not excluded.
            (1.05, Some([0.99, 1.12]), 0.02, "not decided"),
            (1.05, None, 0.02, "not decided"),
            // With no delta any shown difference counts, and only identity is equivalent.
            (1.0001, Some([1.00001, 1.01]), 0.0, "slower"),
            (1.0, Some([1.0, 1.0]), 0.0, "equivalent"),
            (1.0, Some([0.9999, 1.0]), 0.0, "not decided"),
        ] {
            assert_eq!(decide(ratio, ci, delta).word(), word, "{ratio} {ci:?} {delta}");
        }
    }

    #[test]
    fn noise_raises_delta_and_quiet_leaves_it() {
        assert_eq!(default_delta(None), 0.02);
        assert_eq!(default_delta(Some([0.995, 1.005])), 0.02);
        assert!((default_delta(Some([0.97, 1.03])) - 0.06).abs() < 1e-15);
    }

    #[test]
    fn four_times_the_rounds_halve_the_interval() {
        let wide = rounds_to_decide(100, 1.05, Some([0.95, 1.15]), 0.02).unwrap();
        let narrow = rounds_to_decide(100, 1.05, Some([1.0, 1.10]), 0.02).unwrap();
        assert_eq!((wide, narrow), (818, 205));
        // At the very edge of delta no number decides.
        assert_eq!(rounds_to_decide(100, 1.0199999, Some([0.98, 1.06]), 0.02), None);
        assert_eq!(rounds_to_decide(100, 1.0, Some([0.9, 1.1]), 0.0), None);
        assert_eq!(rounds_to_decide(4, 1.1, None, 0.02), None);
    }
}
