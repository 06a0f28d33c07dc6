//! What the init functions of the host's libraries cost: nothing in a file tells, so each library is loaded once by a
//! program that we write, and what the fit leaves unexplained is its own code.

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::calibrate::Row;
use super::fit::{FamilyModel, Span, median_of};
use crate::stat::fit::non_negative;
use crate::stat::linear::Matrix;

/// A library of this host.
#[derive(Debug, Clone, PartialEq)]
pub struct Library {
    /// Its file, by its real path: loaders come to one by several spellings.
    pub path: PathBuf,
    /// Size and time of last change: another file under that name is another library.
    pub stamp: [i64; 2],
    /// What loading it costs beyond its counts, nanoseconds: its init functions and what they call, most of all.
    pub init_ns: f64,
    /// Standard error of that.
    pub stderr_ns: f64,
    /// What it costs beyond its counts as the process ends: memory that its init functions took, pages that they read.
    pub end_ns: f64,
}

/// The path without links and detours; as it is, where there is no such file.
pub fn real_path(path: &Path) -> PathBuf {
    std::fs::canonicalize(path).unwrap_or_else(|_| path.to_path_buf())
}

/// Size and time of last change.
pub fn stamp(path: &Path) -> Option<[i64; 2]> {
    let meta = std::fs::metadata(path).ok()?;
    Some([i64::try_from(meta.size()).unwrap_or(i64::MAX), meta.mtime()])
}

/// Shares what the fit leaves out among the libraries that were loaded: none can cost less than nothing.
pub fn init_costs(rows: &[Row], models: &[FamilyModel]) -> Vec<Library> {
    let rows: Vec<&Row> = rows.iter().filter(|r| r.about.library.is_some()).collect();
    let paths: Vec<&PathBuf> = rows.iter().filter_map(|r| r.about.library.as_ref()).collect();
    let place: BTreeMap<&PathBuf, usize> = paths.iter().enumerate().map(|(i, p)| (*p, i)).collect();
    let mut columns = vec![vec![0.0; rows.len()]; paths.len()];
    for (i, row) in rows.iter().enumerate() {
        for loaded in &row.about.loads {
            if let Some(column) = place.get(loaded).and_then(|j| columns.get_mut(*j)) {
                column[i] = 1.0;
            }
        }
    }
    let shares = || -> Option<(Vec<f64>, Vec<f64>)> {
        let loaded = Matrix::from_columns(columns)?;
        Some((shared(&rows, models, &loaded, Span::Entry)?, shared(&rows, models, &loaded, Span::End)?))
    };
    let Some((init, end)) = shares() else { return Vec::new() };
    let library = |(i, path): (usize, &PathBuf)| {
        let (stamp, stderr_ns) = (stamp(path)?, median_error(rows.get(i)?));
        Some(Library { path: path.clone(), stamp, init_ns: *init.get(i)?, stderr_ns, end_ns: *end.get(i)? })
    };
    paths.into_iter().enumerate().filter_map(library).collect()
}

/// What the costs leave out of a span, by library. `loaded`: a row a program, a column a library.
fn shared(rows: &[&Row], models: &[FamilyModel], loaded: &Matrix, span: Span) -> Option<Vec<f64>> {
    let (mut left, mut weights) = (Vec::new(), Vec::new());
    for row in rows {
        let model = models.iter().find(|m| m.family == row.about.family)?;
        let measured = median_of(&row.readings, span, None).unwrap_or(0.0);
        left.push(measured - model.costs(span).time(&row.about.work.counts));
        weights.push(1.0 / (measured * measured).max(1.0));
    }
    Some(non_negative(loaded, &left, Some(&weights))?.coefficients)
}

/// Standard error of a median, from the spread of its middle half (normal theory: 1.253 σ / √n, σ = IQR / 1.349).
fn median_error(row: &Row) -> f64 {
    let mut values: Vec<f64> = row.readings.iter().map(|r| r.to_entry_ns).collect();
    values.sort_unstable_by(f64::total_cmp);
    let quantile = |p| crate::stat::quantile::quantile(&values, p).unwrap_or(0.0);
    (quantile(0.75) - quantile(0.25)) / 1.349 * 1.253 / (values.len() as f64).sqrt().max(1.0)
}
