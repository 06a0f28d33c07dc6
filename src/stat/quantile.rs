//! Quantiles, the summary of one metric, and the exact interval of a median.
//!
//! Quantiles are type 7 of Hyndman and Fan (1996), the default of R and NumPy: position (n - 1) p counted
//! from 0, linear between neighbours.

use super::dist::fair_coin_cdf;

/// What is said of one metric over all starts of one command. Values are whole (nanoseconds, bytes, counts);
/// a quantile between two values is rounded to the nearest whole unit, halves up.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Summary {
    /// Values seen.
    pub n: usize,
    /// Smallest value.
    pub min: u64,
    /// 5th percentile.
    pub p5: u64,
    /// 25th percentile.
    pub p25: u64,
    /// Median.
    pub p50: u64,
    /// 75th percentile.
    pub p75: u64,
    /// 90th percentile.
    pub p90: u64,
    /// 95th percentile.
    pub p95: u64,
    /// 99th percentile. With fewer than 100 values it leans on the largest one.
    pub p99: u64,
    /// Largest value.
    pub max: u64,
    /// Arithmetic mean.
    pub mean: f64,
    /// Sample standard deviation (n - 1), in two passes; `None` for one value.
    pub stddev: Option<f64>,
    /// Median of |x - median|, not scaled to a normal's standard deviation (that would be 1.4826 times it).
    pub mad: u64,
    /// Exact interval of the median, at least 95 %, from order statistics; `None` below 6 values.
    pub p50_ci95: Option<[u64; 2]>,
}

impl Summary {
    /// Sorts `values` and summarises them without allocating; `None` where there are none.
    pub fn of(values: &mut [u64]) -> Option<Summary> {
        values.sort_unstable();
        let sorted: &[u64] = values;
        let (&min, &max) = (sorted.first()?, sorted.last()?);
        let n = sorted.len();
        let mean = sorted.iter().map(|&x| u128::from(x)).sum::<u128>() as f64 / n as f64;
        // The second term takes back what the rounding of the mean put in.
        let (mut squares, mut rest) = (0.0, 0.0);
        for d in sorted.iter().map(|&x| x as f64 - mean) {
            squares += d * d;
            rest += d;
        }
        squares -= rest * rest / n as f64;
        let at = |p| whole_quantile(sorted, p);
        Some(Summary {
            n,
            min,
            p5: at(0.05),
            p25: at(0.25),
            p50: at(0.5),
            p75: at(0.75),
            p90: at(0.9),
            p95: at(0.95),
            p99: at(0.99),
            max,
            mean,
            stddev: (n > 1).then(|| (squares.max(0.0) / (n - 1) as f64).sqrt()),
            mad: whole_mad(sorted),
            p50_ci95: median_ranks(n, 0.95).map(|[low, high]| [sorted[low], sorted[high]]),
        })
    }
}

/// The neighbours of a quantile among `n` > 0 sorted values, and how far it lies from the first to the second.
fn position(n: usize, p: f64) -> (usize, usize, f64) {
    let h = (n - 1) as f64 * p.clamp(0.0, 1.0);
    let low = (h.floor() as usize).min(n - 1);
    (low, (low + 1).min(n - 1), h - low as f64)
}

/// The quantile of sorted whole values, rounded to the nearest whole unit; 0 where there are none.
pub fn whole_quantile(sorted: &[u64], p: f64) -> u64 {
    if sorted.is_empty() {
        return 0;
    }
    let (low, high, part) = position(sorted.len(), p);
    // The step alone passes through f64: the values may need all 64 bits.
    let step = (sorted[high] - sorted[low]) as f64 * part;
    sorted[low].saturating_add(step.round() as u64)
}

/// The quantile of sorted values; `None` where there are none.
pub fn quantile(sorted: &[f64], p: f64) -> Option<f64> {
    if sorted.is_empty() {
        return None;
    }
    let (low, high, part) = position(sorted.len(), p);
    let (a, b) = (sorted[low], sorted[high]);
    Some(if part == 0.0 || a == b { a } else { a + (b - a) * part })
}

/// The median; reorders `values`. `None` where there are none.
pub fn median(values: &mut [f64]) -> Option<f64> {
    let n = values.len();
    if n == 0 {
        return None;
    }
    let (below, &mut middle, _) = values.select_nth_unstable_by(n / 2, f64::total_cmp);
    if n % 2 == 1 {
        return Some(middle);
    }
    let lower = below.iter().copied().max_by(f64::total_cmp)?;
    Some(lower + (middle - lower) * 0.5)
}

/// Ranks (from 0) of the order statistics that enclose the median with at least `confidence`, whatever
/// the distribution: the number of values below the median is that of heads of n fair coins, so the
/// k smallest and k largest are left out while P(heads ≤ k - 1) stays within half of 1 - confidence.
/// `None` where even the extremes do not reach it (n < 6 at 95 %).
pub fn median_ranks(n: usize, confidence: f64) -> Option<[usize; 2]> {
    let tail = (1.0 - confidence) / 2.0;
    let fits = |rank: usize| fair_coin_cdf(rank as u64, n as u64) <= tail;
    if n == 0 || !fits(0) {
        return None;
    }
    // The largest rank that fits lies in low..high.
    let (mut low, mut high) = (0, n / 2 + 1);
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        if fits(middle) {
            low = middle;
        } else {
            high = middle;
        }
    }
    Some([low, n - 1 - low])
}

/// The interval of [`median_ranks`] on sorted values.
pub fn median_interval(sorted: &[f64], confidence: f64) -> Option<[f64; 2]> {
    median_ranks(sorted.len(), confidence).map(|[low, high]| [sorted[low], sorted[high]])
}

/// Median absolute deviation of sorted values, by walking outwards from the median: no second array.
fn whole_mad(sorted: &[u64]) -> u64 {
    let n = sorted.len();
    let double = |i: usize| u128::from(sorted[i]) * 2;
    let twice_median = u128::from(sorted[(n - 1) / 2]) + u128::from(sorted[n / 2]);
    let mut high = sorted.partition_point(|&x| u128::from(x) * 2 < twice_median);
    let mut low = high;
    let mut last_two = [0u128; 2];
    for _ in 0..=n / 2 {
        let below = (low > 0).then(|| twice_median - double(low - 1));
        let above = (high < n).then(|| double(high) - twice_median);
        let next = match (below, above) {
            (Some(b), Some(a)) if b < a => {
                low -= 1;
                b
            }
            (Some(b), None) => {
                low -= 1;
                b
            }
            (_, Some(a)) => {
                high += 1;
                a
            }
            (None, None) => break,
        };
        last_two = [last_two[1], next];
    }
    // Each is a doubled deviation. Odd n: the last is the middle one; even n: the last two are averaged.
    let four_times = if n % 2 == 1 { last_two[1] * 2 } else { last_two[0] + last_two[1] };
    u64::try_from((four_times + 2) / 4).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_value_has_no_spread_and_no_interval() {
        let s = Summary::of(&mut [7]).unwrap();
        assert_eq!((s.min, s.p50, s.p99, s.max, s.mad), (7, 7, 7, 7, 0));
        assert_eq!((s.stddev, s.p50_ci95), (None, None));
        assert!(Summary::of(&mut []).is_none());
    }

    #[test]
    fn the_largest_values_do_not_overflow() {
        let s = Summary::of(&mut [u64::MAX, u64::MAX - 1, 0, u64::MAX]).unwrap();
        assert_eq!((s.min, s.p50, s.max), (0, u64::MAX, u64::MAX));
        assert!(s.stddev.unwrap().is_finite());
        assert_eq!(Summary::of(&mut [0, u64::MAX]).unwrap().mad, u64::MAX / 2 + 1);
    }

    #[test]
    fn the_interval_of_a_median_starts_at_six_values() {
        assert_eq!(median_ranks(5, 0.95), None);
        assert_eq!(median_ranks(6, 0.95), Some([0, 5]));
        assert_eq!(median_ranks(8, 0.95), Some([0, 7]));
        assert_eq!(median_ranks(9, 0.95), Some([1, 7]));
        // The interval is the narrowest that holds at least its confidence.
        for n in 6..500 {
            let [low, high] = median_ranks(n, 0.95).unwrap();
            assert_eq!(low + high, n - 1);
            assert!(1.0 - 2.0 * fair_coin_cdf(low as u64, n as u64) >= 0.95);
            assert!(low + 1 > high || 1.0 - 2.0 * fair_coin_cdf(low as u64 + 1, n as u64) < 0.95);
        }
    }

    #[test]
    fn deviations_match_the_plain_way() {
        let mut rng = crate::stat::rng::Rng::new(3);
        for n in 1..60 {
            let mut v: Vec<u64> = (0..n).map(|_| rng.below(40)).collect();
            let s = Summary::of(&mut v).unwrap();
            let mut x: Vec<f64> = v.iter().map(|&x| x as f64).collect();
            let m = median(&mut x).unwrap();
            let mut d: Vec<f64> = x.iter().map(|x| (x - m).abs()).collect();
            // Halves and quarters round up.
            assert_eq!(s.mad as f64, (median(&mut d).unwrap() + 0.5).floor(), "{v:?}");
        }
    }
}
