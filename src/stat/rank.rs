//! Rank tests and their estimates: signed-rank, sign, rank-sum, Hodges-Lehmann.
//!
//! Exact null distributions are counted, not looked up. Medians of all pairwise averages or differences are
//! selected by counting, so that n² of them are never stored.

use super::dist::{fair_coin_cdf, normal_quantile, normal_upper};
use crate::order;

/// Up to this many values (pairs, or values on each side) the null distribution is counted exactly.
pub const EXACT_LIMIT: usize = 25;

/// How a p-value was obtained.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Method {
    /// From the exact null distribution, given the ties.
    Exact,
    /// From the normal approximation with tie and continuity correction.
    Normal,
}

/// Wilcoxon's signed-rank test of "the differences are symmetric about zero".
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SignedRank {
    /// Differences that are not zero. Zeros are left out before ranking, as Wilcoxon did.
    pub n: usize,
    /// Differences that are zero.
    pub zeros: usize,
    /// Share of all differences that are zero or share their size with another.
    pub tied_share: f64,
    /// Sum of the ranks of the positive differences.
    pub w_plus: f64,
    /// Two-sided.
    pub p_value: f64,
    /// How.
    pub method: Method,
}

/// Runs the signed-rank test; `None` where there are no differences. All zero: p = 1.
pub fn signed_rank(differences: &[f64]) -> Option<SignedRank> {
    if differences.is_empty() {
        return None;
    }
    let mut nonzero: Vec<f64> = differences.iter().copied().filter(|d| *d != 0.0).collect();
    order::by(&mut nonzero, |a, b| a.abs().total_cmp(&b.abs()));
    let n = nonzero.len();
    let zeros = differences.len() - n;
    let groups = tie_groups(n, |i| nonzero[i].abs());
    let ranks = doubled_ranks(&groups);
    let twice_w: u64 = ranks.iter().zip(&nonzero).filter(|(_, d)| **d > 0.0).map(|(r, _)| r).sum();
    let tied: usize = groups.iter().filter(|&&g| g > 1).sum();
    let (p_value, method) = if n <= EXACT_LIMIT {
        (two_sided(&subset_sums(&ranks), twice_w), Method::Exact)
    } else {
        let size = n as f64;
        let variance = size * (size + 1.0) * (2.0 * size + 1.0) / 24.0 - tie_term(&groups) / 48.0;
        (normal_p(twice_w as f64 / 2.0 - size * (size + 1.0) / 4.0, variance), Method::Normal)
    };
    let tied_share = (tied + zeros) as f64 / differences.len() as f64;
    Some(SignedRank { n, zeros, tied_share, w_plus: twice_w as f64 / 2.0, p_value, method })
}

/// The two-sided sign test: P of a split at least as uneven as this one among fair coins. Zeros are left out.
pub fn sign_test(differences: &[f64]) -> f64 {
    let plus = differences.iter().filter(|d| **d > 0.0).count() as u64;
    let minus = differences.iter().filter(|d| **d < 0.0).count() as u64;
    (2.0 * fair_coin_cdf(plus.min(minus), plus + minus)).min(1.0)
}

/// The Wilcoxon-Mann-Whitney test of two samples that are not paired.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RankSum {
    /// Pairs (one of each sample) in which the second sample's value is larger, ties counted half.
    pub u: f64,
    /// Two-sided.
    pub p_value: f64,
    /// How.
    pub method: Method,
}

/// Runs the rank-sum test of `b` against `a`; `None` where one is empty. Exact for small samples without ties.
pub fn rank_sum(a: &[f64], b: &[f64]) -> Option<RankSum> {
    if a.is_empty() || b.is_empty() {
        return None;
    }
    let mut all: Vec<(f64, bool)> = a.iter().map(|&x| (x, false)).chain(b.iter().map(|&x| (x, true))).collect();
    order::by(&mut all, |x, y| x.0.total_cmp(&y.0));
    let groups = tie_groups(all.len(), |i| all[i].0);
    let ranks = doubled_ranks(&groups);
    let twice_sum: u64 = ranks.iter().zip(&all).filter(|(_, x)| x.1).map(|(r, _)| r).sum();
    let (m, n) = (a.len(), b.len());
    let twice_u = twice_sum - (n * (n + 1)) as u64;
    let u = twice_u as f64 / 2.0;
    if m.max(n) <= EXACT_LIMIT && groups.iter().all(|&g| g == 1) {
        let p_value = two_sided(&rank_sum_counts(m, n), twice_u / 2);
        return Some(RankSum { u, p_value, method: Method::Exact });
    }
    let (m, n, total) = (m as f64, n as f64, all.len() as f64);
    let variance = m * n / 12.0 * (total + 1.0 - tie_term(&groups) / (total * (total - 1.0)));
    Some(RankSum { u, p_value: normal_p(u - m * n / 2.0, variance), method: Method::Normal })
}

/// Sizes of the groups of equal values among `n` sorted ones.
fn tie_groups(n: usize, value: impl Fn(usize) -> f64) -> Vec<usize> {
    let mut groups: Vec<usize> = Vec::new();
    for i in 0..n {
        match groups.last_mut() {
            Some(size) if value(i) == value(i - 1) => *size += 1,
            _ => groups.push(1),
        }
    }
    groups
}

/// Twice the mean rank (from 1) of each value: whole numbers even where values tie.
fn doubled_ranks(groups: &[usize]) -> Vec<u64> {
    let mut ranks = Vec::new();
    for &size in groups {
        let first = ranks.len() as u64 + 1;
        ranks.extend(std::iter::repeat_n(2 * first + size as u64 - 1, size));
    }
    ranks
}

/// Σ (t³ - t) over tied groups.
fn tie_term(groups: &[usize]) -> f64 {
    groups.iter().map(|&t| t as f64).map(|t| t * t * t - t).sum()
}

/// Two-sided p of a statistic that lies `distance` from its mean, moving half a unit towards it.
fn normal_p(distance: f64, variance: f64) -> f64 {
    if variance <= 0.0 {
        return 1.0;
    }
    let z = (distance.abs() - 0.5).max(0.0) / variance.sqrt();
    (2.0 * normal_upper(z)).min(1.0)
}

/// For every sum, how many subsets of `weights` have it.
fn subset_sums(weights: &[u64]) -> Vec<f64> {
    let mut ways = vec![1.0];
    for &w in weights {
        let (w, old) = (w as usize, ways.len());
        ways.resize(old + w, 0.0);
        for sum in (w..old + w).rev() {
            ways[sum] += ways[sum - w];
        }
    }
    ways
}

/// For every U, how many orders of m and n values give it: the coefficients of the Gaussian binomial,
/// multiplied up as Π (1 - q^(n+i)) / (1 - q^i). Whole numbers below 2^53 throughout at [`EXACT_LIMIT`].
fn rank_sum_counts(m: usize, n: usize) -> Vec<f64> {
    let mut ways = vec![0.0; m * n + 1];
    ways[0] = 1.0;
    for i in 1..=m {
        for u in (n + i..ways.len()).rev() {
            ways[u] -= ways[u - n - i];
        }
        for u in i..ways.len() {
            ways[u] += ways[u - i];
        }
    }
    ways
}

/// Twice the smaller tail at `at`, that value included, at most 1.
fn two_sided(ways: &[f64], at: u64) -> f64 {
    let at = at as usize;
    let total: f64 = ways.iter().sum();
    let below: f64 = ways.iter().take(at + 1).sum();
    let above: f64 = ways.iter().skip(at).sum();
    (2.0 * below.min(above) / total).min(1.0)
}

/// Hodges and Lehmann's estimate of the centre: the median of all averages of two values (each with itself
/// too). `None` for an empty or not finite sample.
pub fn hodges_lehmann(values: &[f64]) -> Option<f64> {
    let x = sorted(values)?;
    let pairs = (x.len() as u64) * (x.len() as u64 + 1) / 2;
    let count = |v: f64| {
        let mut total = 0u64;
        // As the first partner grows, the last one that still fits moves down.
        let mut end = x.len();
        for (i, &first) in x.iter().enumerate() {
            while end > i && (first + x[end - 1]) * 0.5 > v {
                end -= 1;
            }
            total += (end - i.min(end)) as u64;
        }
        total
    };
    middle(pairs, |k| select(k, x[0], x[x.len() - 1], count))
}

/// How far `b` lies above `a`: the median of all differences b - a, and its interval by rank-sum
/// inversion (normal approximation of the rank; `None` where the samples are too small for it).
/// `None` where a sample is empty or not finite.
pub fn shift(a: &[f64], b: &[f64], confidence: f64) -> Option<(f64, Option<[f64; 2]>)> {
    let (a, b) = (sorted(a)?, sorted(b)?);
    let pairs = a.len() as u64 * b.len() as u64;
    let count = |v: f64| {
        let (mut total, mut fit) = (0u64, 0);
        for &x in &a {
            while fit < b.len() && b[fit] - x <= v {
                fit += 1;
            }
            total += fit as u64;
        }
        total
    };
    let (low, high) = (b[0] - a[a.len() - 1], b[b.len() - 1] - a[0]);
    let at = |k| select(k, low, high, count);
    let (m, n) = (a.len() as f64, b.len() as f64);
    let z = normal_quantile(0.5 + confidence / 2.0);
    let rank = (m * n / 2.0 - z * (m * n * (m + n + 1.0) / 12.0).sqrt()).floor();
    let interval = (rank >= 1.0).then(|| [at(rank as u64), at(pairs + 1 - rank as u64)]);
    middle(pairs, at).map(|centre| (centre, interval))
}

fn sorted(values: &[f64]) -> Option<Vec<f64>> {
    let mut x = values.to_vec();
    x.sort_unstable_by(f64::total_cmp);
    (!x.is_empty() && x.iter().all(|v| v.is_finite())).then_some(x)
}

/// The median of `n` ranked values, from the value at a rank (from 1).
fn middle(n: u64, at: impl Fn(u64) -> f64) -> Option<f64> {
    match n {
        0 => None,
        n if n % 2 == 1 => Some(at(n / 2 + 1)),
        n => {
            let lower = at(n / 2);
            Some(lower + (at(n / 2 + 1) - lower) * 0.5)
        }
    }
}

/// The smallest number v with `count(v)` ≥ k, between `low` and `high`: bisection over the floats themselves,
/// at most 64 steps, exact.
fn select(k: u64, low: f64, high: f64, count: impl Fn(f64) -> u64) -> f64 {
    let (mut low, mut high) = (order_key(low), order_key(high));
    while low < high {
        // Towards the lower: `middle` stays below `high`.
        let middle = (low & high) + ((low ^ high) >> 1);
        if count(from_order_key(middle)) >= k {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    // A negative zero becomes zero.
    from_order_key(low) + 0.0
}

/// An integer that orders as the floats do.
fn order_key(x: f64) -> i64 {
    let bits = x.to_bits() as i64;
    bits ^ (((bits >> 63) as u64) >> 1) as i64
}

fn from_order_key(key: i64) -> f64 {
    f64::from_bits((key ^ (((key >> 63) as u64) >> 1) as i64) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stat::quantile::median;
    use crate::stat::rng::Rng;

    #[test]
    fn selection_agrees_with_sorting_everything() {
        let mut rng = Rng::new(11);
        for n in 1..40 {
            let x: Vec<f64> = (0..n).map(|_| (rng.unit() - 0.5) * 8.0).collect();
            let y: Vec<f64> = (0..n / 2 + 1).map(|_| (rng.below(9) as f64) / 4.0 - 1.0).collect();
            let mut averages = Vec::new();
            for i in 0..n {
                averages.extend(x[i..].iter().map(|b| (x[i] + b) * 0.5));
            }
            assert_eq!(hodges_lehmann(&x), median(&mut averages));
            let mut differences: Vec<f64> = x.iter().flat_map(|a| y.iter().map(move |b| b - a)).collect();
            assert_eq!(shift(&x, &y, 0.95).unwrap().0, median(&mut differences).unwrap());
        }
        assert_eq!(hodges_lehmann(&[]), None);
        assert_eq!(hodges_lehmann(&[f64::NAN]), None);
    }

    #[test]
    fn nothing_but_zeros_is_no_difference() {
        let t = signed_rank(&[0.0, 0.0]).unwrap();
        assert_eq!((t.n, t.zeros, t.p_value, t.tied_share), (0, 2, 1.0, 1.0));
        assert_eq!(sign_test(&[0.0, -0.0]), 1.0);
        assert_eq!(signed_rank(&[]), None);
    }

    #[test]
    fn exact_counts_add_up_to_all_outcomes() {
        assert_eq!(subset_sums(&[2, 4, 6]).iter().sum::<f64>(), 8.0);
        assert_eq!(rank_sum_counts(2, 2), [1.0, 1.0, 2.0, 1.0, 1.0]);
        assert_eq!(rank_sum_counts(25, 25).iter().sum::<f64>(), 126_410_606_437_752.0);
        // Six differences of one sign: 2 of 64 outcomes.
        assert_eq!(signed_rank(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]).unwrap().p_value, 2.0 / 64.0);
    }

    #[test]
    fn swapping_the_sides_changes_nothing_but_the_sign() {
        let (a, b) = ([1.0, 5.0, 2.0, 2.0], [3.0, 2.0, 9.0]);
        assert_eq!(rank_sum(&a, &b).unwrap().p_value, rank_sum(&b, &a).unwrap().p_value);
        let d = [0.5, -1.0, 2.0, 2.0, 0.0];
        let minus = d.map(|x| -x);
        assert_eq!(signed_rank(&d).unwrap().p_value, signed_rank(&minus).unwrap().p_value);
    }
}
