//! Statistics of process starts: pure functions over slices, no clock, no I/O; what is random takes a seed.
//!
//! | file | holds |
//! |---|---|
//! | `special` | the functions behind every distribution: ln Γ, incomplete beta and gamma, erfc |
//! | `dist` | normal, Student's t, F and binomial: distribution functions and quantiles, computed, no tables |
//! | `rng` | the seeded generator, shuffles |
//! | `quantile` | quantiles, [`quantile::Summary`], the exact interval of a median |
//! | `bootstrap` | resampling intervals, by case and by moving block |
//! | `rank` | signed-rank, sign and rank-sum tests, Hodges-Lehmann, Holm |
//! | `memory` | autocorrelation, and how many rounds an independent one is worth |
//! | `paired` | candidate against reference within rounds: ratio, interval, p-value |
//! | `unpaired` | two runs made apart: what can still be said |
//! | `verdict` | the one word, and how many rounds would decide |
//! | `drift` | did the control change while we measured? |
//! | `ministat` | pooled t and Welch on columns of numbers |
//! | `sweep` | a cost as a function of a parameter, measured in rounds |
//! | `linear` | QR least squares, singular values |
//! | `fit` | non-negative least squares and straight lines, with intervals |
//!
//! Every figure is compared with SciPy's or R's in `tests/stat_golden.rs`; the script that made those
//! figures lies beside them in `tests/golden/stat/`. Where a sample is too small for an interval, or data
//! leave a figure undefined, the answer is `None`: never a NaN.

pub mod bootstrap;
pub mod dist;
pub mod drift;
pub mod fit;
pub mod linear;
pub mod memory;
pub mod ministat;
pub mod paired;
pub mod quantile;
pub mod rank;
pub mod rng;
pub mod special;
pub mod sweep;
pub mod unpaired;
pub mod verdict;
