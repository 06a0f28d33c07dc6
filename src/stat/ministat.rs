//! The classic comparison of two columns of numbers: Student's t with pooled variance, and Welch's t.
//!
//! Both suppose independent samples around a mean; process start times are neither. They are here for
//! `premain stat`, which does ministat's job, with quantiles computed where ministat reads a table whose
//! 99.5 % column holds 99.8 % values, and with any number of degrees of freedom.

use super::dist::{student_two_sided, student_two_sided_quantile};
use super::quantile::quantile;

/// The vital figures of one column.
#[derive(Debug, Clone, PartialEq)]
pub struct Column {
    /// Number of values.
    pub n: usize,
    /// Smallest.
    pub min: f64,
    /// Largest.
    pub max: f64,
    /// Median: the mean of the two middle ones where n is even.
    pub median: f64,
    /// Arithmetic mean.
    pub mean: f64,
    /// Sample variance (n - 1), in two passes; `None` for one value.
    pub variance: Option<f64>,
}

impl Column {
    /// Sorts the values and takes their vital figures; `None` where there are none.
    pub fn of(values: &mut [f64]) -> Option<Column> {
        values.sort_unstable_by(f64::total_cmp);
        let (&min, &max) = (values.first()?, values.last()?);
        let n = values.len() as f64;
        let mean = values.iter().sum::<f64>() / n;
        let squares: f64 = values.iter().map(|x| (x - mean).powi(2)).sum();
        Some(Column {
            n: values.len(),
            min,
            max,
            median: quantile(values, 0.5)?,
            mean,
            variance: (values.len() > 1).then(|| squares / (n - 1.0)),
        })
    }

    /// Sample standard deviation.
    pub fn stddev(&self) -> Option<f64> {
        self.variance.map(f64::sqrt)
    }
}

/// The difference of two means.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MeanDifference {
    /// Candidate minus reference.
    pub difference: f64,
    /// Half-width of its interval.
    pub half_width: f64,
    /// Difference in percent of the reference's mean; `None` where that is zero.
    pub percent: Option<f64>,
    /// Half-width of the percentage, the reference's own error included (delta method).
    pub percent_half_width: Option<f64>,
    /// Degrees of freedom.
    pub df: f64,
    /// Two-sided p-value of "the means are equal".
    pub p_value: f64,
    /// Pooled standard deviation; `None` for Welch's test.
    pub pooled_stddev: Option<f64>,
}

impl MeanDifference {
    /// True where the interval excludes zero.
    pub fn shown(&self) -> bool {
        self.difference.abs() > self.half_width
    }
}

/// Student's t with pooled variance: both columns are taken to spread alike. The percentage takes them to
/// spread alike in proportion to their means. `None` below two values a side.
pub fn pooled(reference: &Column, candidate: &Column, confidence: f64) -> Option<MeanDifference> {
    let (v_r, v_c) = (reference.variance?, candidate.variance?);
    let (n_r, n_c) = (reference.n as f64, candidate.n as f64);
    let df = n_r + n_c - 2.0;
    let variance = ((n_r - 1.0) * v_r + (n_c - 1.0) * v_c) / df;
    let size = 1.0 / n_r + 1.0 / n_c;
    let ratio = candidate.mean / reference.mean;
    let scaled = ((n_c - 1.0) * v_c + (n_r - 1.0) * v_r * ratio * ratio) / df;
    let errors = (variance * size, scaled * size);
    Some(MeanDifference {
        pooled_stddev: Some(variance.sqrt()),
        ..finish(reference, candidate, confidence, df, errors)
    })
}

/// Welch's t: each column has its own variance; degrees of freedom by Welch and Satterthwaite. `None` below
/// two values a side.
pub fn welch(reference: &Column, candidate: &Column, confidence: f64) -> Option<MeanDifference> {
    let (n_r, n_c) = (reference.n as f64, candidate.n as f64);
    let (e_r, e_c) = (reference.variance? / n_r, candidate.variance? / n_c);
    let sum = e_r + e_c;
    let below = e_r * e_r / (n_r - 1.0) + e_c * e_c / (n_c - 1.0);
    // Without any spread the degrees of freedom do not matter: the interval has no width.
    let df = if below > 0.0 { sum * sum / below } else { n_r + n_c - 2.0 };
    let ratio = candidate.mean / reference.mean;
    Some(finish(reference, candidate, confidence, df, (sum, e_c + e_r * ratio * ratio)))
}

/// From the squared standard errors of the difference, and of candidate - ratio × reference.
fn finish(reference: &Column, candidate: &Column, confidence: f64, df: f64, errors: (f64, f64)) -> MeanDifference {
    let difference = candidate.mean - reference.mean;
    let t = student_two_sided_quantile(confidence, df);
    let p_value = match (difference == 0.0, errors.0 > 0.0) {
        (true, _) => 1.0,
        (false, true) => student_two_sided(difference / errors.0.sqrt(), df),
        (false, false) => 0.0,
    };
    let of_mean = |x: f64| Some(x * 100.0 / reference.mean).filter(|p| p.is_finite());
    MeanDifference {
        difference,
        half_width: t * errors.0.sqrt(),
        percent: of_mean(difference),
        percent_half_width: of_mean(t * errors.1.sqrt()).map(f64::abs),
        df,
        p_value,
        pooled_stddev: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn columns() -> (Column, Column) {
        let iguana = Column::of(&mut [50.0, 200.0, 150.0, 400.0, 750.0, 400.0, 150.0]).unwrap();
        let chameleon = Column::of(&mut [150.0, 400.0, 720.0, 500.0, 930.0]).unwrap();
        (iguana, chameleon)
    }

    #[test]
    fn the_two_lizards() {
        let (iguana, chameleon) = columns();
        assert_eq!((iguana.n, iguana.min, iguana.median, iguana.mean, iguana.max), (7, 50.0, 200.0, 300.0, 750.0));
        let d = pooled(&iguana, &chameleon, 0.95).unwrap();
        // ministat prints 344.62, 212.215 and 102.300 from t rounded to three digits after the point.
        assert!(!d.shown() && (d.half_width - 344.639).abs() < 0.0005, "{d:?}");
        let d = pooled(&iguana, &chameleon, 0.80).unwrap();
        assert!(d.shown() && (d.half_width - 212.243).abs() < 0.0005, "{d:?}");
        assert!((d.pooled_stddev.unwrap() - 264.159).abs() < 0.0005);
        assert!((d.percent.unwrap() - 80.0).abs() < 1e-9 && (d.percent_half_width.unwrap() - 102.300).abs() < 0.02);
        // ministat's table has 4.144 for 10 degrees of freedom at "99.5 %": that is 99.8 %. Right is 3.581.
        let d = pooled(&iguana, &chameleon, 0.995).unwrap();
        assert!((d.half_width / d.pooled_stddev.unwrap() / (12.0f64 / 35.0).sqrt() - 3.5814).abs() < 0.0001);
    }

    #[test]
    fn degenerate_columns_give_no_nan() {
        let flat = Column::of(&mut [5.0, 5.0, 5.0]).unwrap();
        let zero = Column::of(&mut [0.0, 0.0]).unwrap();
        for (a, b) in [(&flat, &flat), (&flat, &zero), (&zero, &flat), (&zero, &zero)] {
            for d in [pooled(a, b, 0.95).unwrap(), welch(a, b, 0.95).unwrap()] {
                assert!(d.half_width == 0.0 && !d.p_value.is_nan(), "{d:?}");
                assert!(d.percent.is_none_or(f64::is_finite) && d.percent_half_width.is_none_or(f64::is_finite));
            }
        }
        assert_eq!(pooled(&flat, &Column::of(&mut [1.0]).unwrap(), 0.95), None);
    }
}
