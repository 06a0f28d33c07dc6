//! Resampling intervals: percentile intervals over whole cases, or over moving blocks where neighbours
//! in time resemble each other. Always seeded.

use super::quantile::quantile;
use super::rng::Rng;

/// Percentile intervals of several figures at once: `figures` gets the indices (below `n`, repeats allowed)
/// of one resample, and gives the same number of figures each time. Resamples for which it gives `None`
/// are left out; `None` where fewer than half remain, or there is nothing to resample.
pub fn case_intervals(
    n: usize,
    resamples: usize,
    confidence: f64,
    seed: u64,
    mut figures: impl FnMut(&[usize]) -> Option<Vec<f64>>,
) -> Option<Vec<[f64; 2]>> {
    let mut rng = Rng::new(seed);
    let mut indices = vec![0; n];
    let mut columns: Vec<Vec<f64>> = Vec::new();
    for _ in 0..if n == 0 { 0 } else { resamples } {
        indices.fill_with(|| rng.index(n));
        let Some(row) = figures(&indices) else { continue };
        columns.resize_with(columns.len().max(row.len()), Vec::new);
        for (column, x) in columns.iter_mut().zip(row) {
            column.push(x);
        }
    }
    let enough = |c: &Vec<f64>| c.len() * 2 >= resamples.max(1);
    if columns.is_empty() || !columns.iter().all(enough) {
        return None;
    }
    columns.into_iter().map(|c| percentiles(c, confidence)).collect()
}

/// Percentile interval of one figure over moving-block resamples of `series`: blocks of `block` neighbours
/// from random places, joined up to the series' length (Künsch 1989). `None` for an empty series.
pub fn block_interval(
    series: &[f64],
    block: usize,
    resamples: usize,
    confidence: f64,
    rng: &mut Rng,
    mut figure: impl FnMut(&mut [f64]) -> Option<f64>,
) -> Option<[f64; 2]> {
    let mut draw = Vec::with_capacity(series.len());
    let mut found = Vec::with_capacity(resamples);
    for _ in 0..resamples {
        block_resample(series, block, rng, &mut draw);
        found.push(figure(&mut draw)?);
    }
    percentiles(found, confidence)
}

/// Fills `out` with one moving-block resample of `series`.
pub fn block_resample(series: &[f64], block: usize, rng: &mut Rng, out: &mut Vec<f64>) {
    out.clear();
    let block = block.clamp(1, series.len().max(1));
    while out.len() < series.len() {
        let start = rng.index(series.len() - block + 1);
        let take = block.min(series.len() - out.len());
        out.extend_from_slice(&series[start..start + take]);
    }
}

/// The block length that suits a series of `n` whose lag-1 autocorrelation is `rho`: the optimum for a
/// first-order autoregression, (√6 |rho| / (1 - rho²))^(2/3) n^(1/3) (Carlstein 1986), at least n^(1/3)
/// since real series remember longer, at most a quarter of the series.
pub fn block_length(n: usize, rho: f64) -> usize {
    let rho = rho.abs().min(0.99);
    let scale = (6f64.sqrt() * rho / (1.0 - rho * rho)).powf(2.0 / 3.0).max(1.0);
    let length = (scale * (n as f64).cbrt()).ceil() as usize;
    length.clamp(1, (n / 4).max(1))
}

/// Resamples that keep n × resamples within a second of work, between 400 and 2,000.
pub fn affordable_resamples(n: usize) -> usize {
    (40_000_000 / n.max(1)).clamp(400, 2_000)
}

pub(super) fn percentiles(mut found: Vec<f64>, confidence: f64) -> Option<[f64; 2]> {
    found.sort_unstable_by(f64::total_cmp);
    let tail = (1.0 - confidence) / 2.0;
    Some([quantile(&found, tail)?, quantile(&found, 1.0 - tail)?])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stat::quantile::median;

    #[test]
    fn the_same_seed_gives_the_same_interval_and_it_holds_the_mean() {
        let x: Vec<f64> = (0..100).map(f64::from).collect();
        let run =
            |seed| case_intervals(100, 500, 0.95, seed, |at| Some(vec![at.iter().map(|&i| x[i]).sum::<f64>() / 100.0]));
        assert_eq!(run(1), run(1));
        let [low, high] = run(2).unwrap()[0];
        // Standard error of this mean: 2.9.
        assert!((40.0..47.0).contains(&low) && (52.0..59.0).contains(&high), "{low} {high}");
        assert_eq!(case_intervals(0, 10, 0.95, 1, |_| Some(vec![0.0])), None);
        assert_eq!(case_intervals(9, 10, 0.95, 1, |_| None), None);
    }

    #[test]
    fn blocks_keep_neighbours_together() {
        let x: Vec<f64> = (0..50).map(f64::from).collect();
        let mut out = Vec::new();
        block_resample(&x, 10, &mut Rng::new(5), &mut out);
        assert_eq!(out.len(), 50);
        assert!(out.chunks(10).all(|c| c.windows(2).all(|w| w[1] == w[0] + 1.0)));
        block_resample(&[], 10, &mut Rng::new(5), &mut out);
        assert!(out.is_empty());
        assert_eq!(block_interval(&[], 1, 10, 0.95, &mut Rng::new(1), median), None);
    }

    #[test]
    fn blocks_grow_with_memory_and_never_beyond_a_quarter() {
        assert!(block_length(1000, 0.1) <= block_length(1000, 0.5));
        assert_eq!(block_length(1000, 0.999), 250.min(block_length(1000, 0.99)));
        assert_eq!((block_length(0, 0.5), block_length(3, 0.5)), (1, 1));
    }
}
