//! Distribution functions and quantiles, computed to about 12 significant digits.
//!
//! Tables are not used: the ones that widespread tools carry have wrong entries. Tails are
//! returned as tails, so that a small p-value keeps its digits.

use super::special::{beta_inc, erfc, ln_choose};

/// P(Z > z) of the standard normal.
pub fn normal_upper(z: f64) -> f64 {
    0.5 * erfc(z / std::f64::consts::SQRT_2)
}

/// The standard normal's quantile: the z with P(Z ≤ z) = p; ±infinity at 1 and 0.
///
/// A rational first guess (Abramowitz and Stegun 26.2.23, within 4.5e-4), then Halley's steps on the
/// upper tail, which triple the digits each.
pub fn normal_quantile(p: f64) -> f64 {
    if p <= 0.0 {
        return f64::NEG_INFINITY;
    }
    if p >= 1.0 {
        return f64::INFINITY;
    }
    let tail = p.min(1.0 - p);
    let t = (-2.0 * tail.ln()).sqrt();
    let top = 2.515_517 + t * (0.802_853 + t * 0.010_328);
    let bottom = 1.0 + t * (1.432_788 + t * (0.189_269 + t * 0.001_308));
    let mut z = t - top / bottom;
    for _ in 0..3 {
        let density = (-0.5 * z * z).exp() / (2.0 * std::f64::consts::PI).sqrt();
        let step = (tail - normal_upper(z)) / density;
        z -= step / (1.0 + 0.5 * z * step);
    }
    if p < 0.5 { -z } else { z }
}

/// P(|T| > |t|) of Student's t with `df` degrees of freedom: the two-sided p-value.
pub fn student_two_sided(t: f64, df: f64) -> f64 {
    if t.is_infinite() {
        return 0.0;
    }
    beta_inc(df / 2.0, 0.5, df / (df + t * t))
}

/// The t that |T| stays below with probability `confidence` (0.95: 2.228 for 10 degrees of freedom).
pub fn student_two_sided_quantile(confidence: f64, df: f64) -> f64 {
    let tail = 1.0 - confidence;
    invert_decreasing(tail, |t| student_two_sided(t, df))
}

/// P(F > f) with `d1` and `d2` degrees of freedom.
pub fn f_upper(f: f64, d1: f64, d2: f64) -> f64 {
    if f <= 0.0 {
        return 1.0;
    }
    if f.is_infinite() {
        return 0.0;
    }
    beta_inc(d2 / 2.0, d1 / 2.0, d2 / (d2 + d1 * f))
}

/// P(X ≤ k) for n fair coins.
pub fn fair_coin_cdf(k: u64, n: u64) -> f64 {
    if k >= n {
        return 1.0;
    }
    if n <= 60 {
        // Whole numbers: exact.
        let mut ways = 1u64;
        let mut sum = 1u64;
        for i in 1..=k {
            // C(60, i) fits; the product before the division may not.
            ways = (u128::from(ways) * u128::from(n - i + 1) / u128::from(i)) as u64;
            sum += ways;
        }
        return sum as f64 / (n as f64).exp2();
    }
    beta_inc((n - k) as f64, k as f64 + 1.0, 0.5)
}

/// P(X = k) for n trials of probability p.
pub fn binomial_pmf(k: u64, n: u64, p: f64) -> f64 {
    if k > n {
        return 0.0;
    }
    if p <= 0.0 || p >= 1.0 {
        return f64::from(u8::from((p <= 0.0 && k == 0) || (p >= 1.0 && k == n)));
    }
    let (n, k) = (n as f64, k as f64);
    (ln_choose(n, k) + k * p.ln() + (n - k) * (-p).ln_1p()).exp()
}

/// P(X ≤ k) for n trials of probability p.
pub fn binomial_cdf(k: u64, n: u64, p: f64) -> f64 {
    if k >= n {
        return 1.0;
    }
    beta_inc((n - k) as f64, k as f64 + 1.0, 1.0 - p)
}

/// The x ≥ 0 with `tail(x)` = p, for a function that falls from 1 to 0: doubling, then bisection to the last bit.
fn invert_decreasing(p: f64, tail: impl Fn(f64) -> f64) -> f64 {
    if p >= 1.0 {
        return 0.0;
    }
    if p <= 0.0 {
        return f64::INFINITY;
    }
    let (mut low, mut high) = (0.0, 1.0);
    while tail(high) > p && high < 1e300 {
        low = high;
        high *= 2.0;
    }
    loop {
        let middle = low + (high - low) / 2.0;
        if middle <= low || middle >= high {
            return middle;
        }
        if tail(middle) > p {
            low = middle;
        } else {
            high = middle;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_invert_their_functions() {
        for p in [1e-12, 0.001, 0.025, 0.3, 0.5, 0.8, 0.999] {
            let back = 1.0 - normal_upper(normal_quantile(p));
            assert!((back - p).abs() < 1e-13, "{p} {back}");
        }
        for df in [1.0, 2.0, 10.5, 1e4] {
            let t = student_two_sided_quantile(0.99, df);
            assert!((student_two_sided(t, df) - 0.01).abs() < 1e-13);
        }
    }

    #[test]
    fn student_quantiles_fall_with_the_degrees_of_freedom() {
        let mut last = f64::INFINITY;
        for df in 1..300 {
            let t = student_two_sided_quantile(0.95, f64::from(df));
            assert!(t < last && t > 1.9599);
            last = t;
        }
    }

    #[test]
    fn coins_agree_with_the_incomplete_beta() {
        for n in [1u64, 5, 6, 59, 60, 61, 400] {
            for k in [0, n / 3, n / 2, n - 1, n] {
                assert!((fair_coin_cdf(k, n) - binomial_cdf(k, n, 0.5)).abs() < 1e-13, "{k} of {n}");
            }
            let sum: f64 = (0..=n).map(|k| binomial_pmf(k, n, 0.3)).sum();
            assert!((sum - 1.0).abs() < 1e-12);
        }
    }
}
