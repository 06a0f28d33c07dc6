//! Small dense linear algebra for the fits: least squares by Householder's QR, singular values by Jacobi's
//! one-sided rotations. For tens of columns and thousands of rows.

use crate::order;

/// A matrix kept by columns.
#[derive(Debug, Clone, PartialEq)]
pub struct Matrix {
    rows: usize,
    columns: Vec<Vec<f64>>,
}

impl Matrix {
    /// From columns; `None` where they differ in length, are empty, or hold a number that is not finite.
    pub fn from_columns(columns: Vec<Vec<f64>>) -> Option<Matrix> {
        let rows = columns.first()?.len();
        let fits = |c: &Vec<f64>| c.len() == rows && c.iter().all(|x| x.is_finite());
        (rows > 0 && columns.iter().all(fits)).then_some(Matrix { rows, columns })
    }

    /// From rows, under the same conditions.
    pub fn from_rows(rows: &[Vec<f64>]) -> Option<Matrix> {
        let width = rows.first()?.len();
        if rows.iter().any(|r| r.len() != width) {
            return None;
        }
        Matrix::from_columns((0..width).map(|j| rows.iter().map(|r| r[j]).collect()).collect())
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// The columns.
    pub fn columns(&self) -> &[Vec<f64>] {
        &self.columns
    }

    /// The product with a vector of one number a column.
    pub fn times(&self, x: &[f64]) -> Vec<f64> {
        let mut out = vec![0.0; self.rows];
        for (column, &c) in self.columns.iter().zip(x) {
            for (sum, a) in out.iter_mut().zip(column) {
                *sum += a * c;
            }
        }
        out
    }

    /// The same with every row multiplied by a factor.
    #[must_use]
    pub fn scale_rows(&self, factors: &[f64]) -> Matrix {
        let scale = |c: &Vec<f64>| c.iter().zip(factors).map(|(a, f)| a * f).collect();
        Matrix { rows: self.rows, columns: self.columns.iter().map(scale).collect() }
    }

    /// Columns brought to length 1, and the lengths they had (1 for a column of zeros, which stays).
    #[must_use]
    pub fn unit_columns(&self) -> (Matrix, Vec<f64>) {
        let lengths: Vec<f64> = self.columns.iter().map(|c| norm(c)).map(|l| if l > 0.0 { l } else { 1.0 }).collect();
        let columns = self.columns.iter().zip(&lengths).map(|(c, l)| c.iter().map(|x| x / l).collect()).collect();
        (Matrix { rows: self.rows, columns }, lengths)
    }

    /// Those columns alone.
    #[must_use]
    pub fn select(&self, which: &[usize]) -> Matrix {
        Matrix { rows: self.rows, columns: which.iter().map(|&j| self.columns[j].clone()).collect() }
    }
}

/// Euclidean length.
pub fn norm(x: &[f64]) -> f64 {
    dot(x, x).sqrt()
}

/// Scalar product.
pub fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(x, y)| x * y).sum()
}

/// A column whose part that earlier columns do not explain is below this share of it is taken as dependent.
const DEPENDENT: f64 = 1e-11;

/// The x that minimises |A x - b|; `None` where columns depend on each other or outnumber the rows.
pub fn least_squares(a: &Matrix, b: &[f64]) -> Option<Vec<f64>> {
    let (rows, width) = (a.rows, a.columns.len());
    if width > rows || b.len() != rows {
        return None;
    }
    let mut r = a.columns.clone();
    let mut y = b.to_vec();
    for j in 0..width {
        let whole = norm(&a.columns[j]);
        let rest = norm(&r[j][j..]);
        if rest <= whole * DEPENDENT {
            return None;
        }
        // Reflects column j onto its first entry, with the sign that does not cancel.
        let head = if r[j][j] > 0.0 { -rest } else { rest };
        let mut v = r[j][j..].to_vec();
        v[0] -= head;
        let square = dot(&v, &v);
        for target in r[j..].iter_mut().chain(std::iter::once(&mut y)) {
            let factor = 2.0 * dot(&v, &target[j..]) / square;
            for (t, v) in target[j..].iter_mut().zip(&v) {
                *t -= factor * v;
            }
        }
    }
    let mut x = vec![0.0; width];
    for j in (0..width).rev() {
        let known: f64 = (j + 1..width).map(|k| r[k][j] * x[k]).sum();
        x[j] = (y[j] - known) / r[j][j];
    }
    Some(x)
}

/// The singular values, largest first: columns are rotated in pairs until all are orthogonal (Hestenes 1958);
/// their lengths are the values.
pub fn singular_values(a: &Matrix) -> Vec<f64> {
    let mut u = a.columns.clone();
    // Convergence is quadratic; ten sweeps do for any sensible width.
    for _ in 0..60 {
        let mut largest = 0.0_f64;
        for p in 0..u.len() {
            for q in p + 1..u.len() {
                largest = largest.max(rotate(&mut u, p, q));
            }
        }
        if largest < 1e-15 {
            break;
        }
    }
    let mut values: Vec<f64> = u.iter().map(|c| norm(c)).collect();
    order::by(&mut values, |a, b| b.total_cmp(a));
    values
}

/// Makes columns p and q orthogonal; gives the cosine of their angle before.
fn rotate(u: &mut [Vec<f64>], p: usize, q: usize) -> f64 {
    let (left, right) = u.split_at_mut(q);
    let (x, y) = (&mut left[p], &mut right[0]);
    let (a, b, c) = (dot(x, x), dot(y, y), dot(x, y));
    let cosine = c.abs() / (a * b).sqrt();
    if cosine.is_nan() || cosine <= 1e-16 {
        return 0.0;
    }
    let zeta = (b - a) / (2.0 * c);
    let t = zeta.signum() / (zeta.abs() + zeta.hypot(1.0));
    let cos = 1.0 / t.hypot(1.0);
    let sin = cos * t;
    for (x, y) in x.iter_mut().zip(y.iter_mut()) {
        (*x, *y) = (cos * *x - sin * *y, sin * *x + cos * *y);
    }
    cosine
}

/// Condition number of the columns brought to unit length: how much an error in the data may grow in the
/// coefficients. `None` where the columns depend on each other.
pub fn condition(a: &Matrix) -> Option<f64> {
    let values = singular_values(&a.unit_columns().0);
    let (largest, smallest) = (values.first()?, values.last()?);
    (*smallest > largest * 1e-14).then(|| largest / smallest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_exact_system_is_solved_exactly() {
        let a = Matrix::from_rows(&[vec![2.0, 1.0], vec![1.0, 3.0], vec![0.0, 1.0]]).unwrap();
        let x = least_squares(&a, &a.times(&[3.0, -2.0])).unwrap();
        assert!((x[0] - 3.0).abs() < 1e-14 && (x[1] + 2.0).abs() < 1e-14, "{x:?}");
    }

    #[test]
    fn dependent_columns_are_refused() {
        let a = Matrix::from_columns(vec![vec![1.0, 2.0, 3.0], vec![2.0, 4.0, 6.0]]).unwrap();
        assert_eq!(least_squares(&a, &[1.0, 2.0, 3.0]), None);
        assert_eq!(condition(&a), None);
        let zero = Matrix::from_columns(vec![vec![0.0, 0.0]]).unwrap();
        assert_eq!((least_squares(&zero, &[1.0, 2.0]), condition(&zero)), (None, None));
        assert_eq!(Matrix::from_columns(vec![vec![1.0], vec![1.0, 2.0]]), None);
        assert_eq!(Matrix::from_columns(vec![vec![f64::NAN]]), None);
    }

    #[test]
    fn orthogonal_columns_are_perfectly_conditioned() {
        let a = Matrix::from_columns(vec![vec![5.0, 0.0], vec![0.0, 0.01]]).unwrap();
        assert_eq!(singular_values(&a), [5.0, 0.01]);
        assert_eq!(condition(&a), Some(1.0));
    }
}
