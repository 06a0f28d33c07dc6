//! What is kept of a run: plain data that reports print and that files store.

pub mod baseline;
pub mod bench;
pub mod check;
pub mod correlation;
pub mod counts;
pub mod course;
pub mod disturbances;
pub mod host;
pub mod numbers;
pub mod observations;
pub mod probes;
pub mod results;
pub mod stored;
pub mod storm;
pub mod suite;
pub mod sweep;
