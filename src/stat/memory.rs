//! How long a series of rounds remembers: neighbouring rounds share the machine's state, and an interval that
//! takes them as independent is too narrow.
//!
//! Everything here looks at ranks or at the side of the median: one start that took ten times as long would
//! hide the memory of all others from an ordinary autocorrelation.

use super::dist::normal_quantile;
use super::quantile::quantile;
use crate::order;

/// Lag-1 autocorrelation: Σ (x_t - m)(x_t+1 - m) / Σ (x_t - m)². `None` below 3 values or without spread.
pub fn autocorrelation(series: &[f64]) -> Option<f64> {
    if series.len() < 3 {
        return None;
    }
    let centred = Centred::of(series.iter().copied())?;
    Some(centred.at(1))
}

/// The same of the ranks of the values (equal values share their mean rank).
pub fn rank_autocorrelation(series: &[f64]) -> Option<f64> {
    let mut order: Vec<usize> = (0..series.len()).collect();
    order::by(&mut order, |&a, &b| series[a].total_cmp(&series[b]));
    let mut ranks = vec![0.0; series.len()];
    let mut before = 0;
    for group in order.chunk_by(|&a, &b| series[a] == series[b]) {
        let mean = before as f64 + (group.len() as f64 + 1.0) / 2.0;
        group.iter().for_each(|&i| ranks[i] = mean);
        before += group.len();
    }
    autocorrelation(&ranks)
}

/// Longer memories are taken as this long: a series that only rises would otherwise cost the square of its length.
const LONGEST: usize = 2_000;

/// How many rounds one independent round is worth, for a median: 1 + 2 Σ ρ(k) of the series "above the median or
/// not", at least 1. The sum runs over pairs of lags while a pair stays positive and does not grow (Geyer 1992, the
/// initial monotone sequence): beyond that there is only noise.
pub fn correlation_time(series: &[f64]) -> f64 {
    let mut sorted = series.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let Some(median) = quantile(&sorted, 0.5) else { return 1.0 };
    let side = |x: &f64| f64::from(i8::from(*x > median) - i8::from(*x < median));
    let Some(centred) = Centred::of(series.iter().map(side)) else { return 1.0 };
    let (mut sum, mut last) = (0.0, f64::INFINITY);
    for lag in (0..(series.len() / 2).min(LONGEST)).step_by(2) {
        let pair = (centred.at(lag) + centred.at(lag + 1)).min(last);
        if pair <= 0.0 {
            break;
        }
        sum += pair;
        last = pair;
    }
    (2.0 * sum - 1.0).max(1.0)
}

/// Ranks (from 0) around the median of `n` values with correlation time `time`: the count of values below the
/// median then varies as that of n / time fair coins. `None` where that leaves fewer than 6 of them.
pub fn median_ranks(n: usize, time: f64, confidence: f64) -> Option<[usize; 2]> {
    if (n as f64) < 6.0 * time {
        return None;
    }
    let half = normal_quantile(0.5 + confidence / 2.0) * (n as f64 * time).sqrt() / 2.0;
    let low = (n as f64 / 2.0 - half).floor().max(0.0) as usize;
    let low = low.min(n - 1 - n / 2);
    Some([low, n - 1 - low])
}

/// A series without its mean, and the sum of its squares.
struct Centred {
    values: Vec<f64>,
    squares: f64,
}

impl Centred {
    fn of(series: impl Iterator<Item = f64>) -> Option<Centred> {
        let mut values: Vec<f64> = series.collect();
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        values.iter_mut().for_each(|x| *x -= mean);
        let squares: f64 = values.iter().map(|x| x * x).sum();
        (squares > 0.0 && squares.is_finite()).then_some(Centred { values, squares })
    }

    /// Autocorrelation at a lag.
    fn at(&self, lag: usize) -> f64 {
        let later = self.values.get(lag..).unwrap_or_default();
        self.values.iter().zip(later).map(|(a, b)| a * b).sum::<f64>() / self.squares
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stat::rng::Rng;

    fn wandering(n: usize, memory: f64, spikes: bool) -> Vec<f64> {
        let mut rng = Rng::new(17);
        let mut level = 0.0;
        (0..n)
            .map(|_| {
                level = memory * level + rng.unit() - 0.5;
                level + if spikes && rng.below(20) == 0 { 100.0 * rng.unit() } else { 0.0 }
            })
            .collect()
    }

    #[test]
    fn spikes_do_not_hide_memory_from_ranks() {
        let series = wandering(2000, 0.8, true);
        assert!(autocorrelation(&series).unwrap() < 0.1);
        assert!(rank_autocorrelation(&series).unwrap() > 0.5);
        assert!(correlation_time(&series) > 3.0);
    }

    #[test]
    fn independent_values_count_fully() {
        let series = wandering(2000, 0.0, false);
        assert!(rank_autocorrelation(&series).unwrap().abs() < 0.05);
        assert!(correlation_time(&series) < 1.2);
        // (1 + ρ) / (1 - ρ) = 9 for the series itself; its sides of the median remember a little less.
        let time = correlation_time(&wandering(5000, 0.8, false));
        assert!((4.0..9.5).contains(&time), "{time}");
    }

    #[test]
    fn odd_series_are_harmless() {
        for series in [&[][..], &[1.0], &[1.0, 2.0], &[5.0; 40]] {
            assert_eq!((rank_autocorrelation(series), correlation_time(series)), (None, 1.0));
        }
        assert_eq!(median_ranks(10, 2.0, 0.95), None);
        for n in 6..300 {
            let [low, high] = median_ranks(n, 1.0, 0.95).unwrap();
            assert!(low <= high && high < n);
            let [wide, _] = median_ranks(n, n as f64 / 6.0, 0.95).unwrap();
            assert!(wide <= low);
        }
    }
}
