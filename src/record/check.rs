//! A baseline against what replaced it: one row for each command and metric, and what each row says of its gate.
//!
//! Three kinds of evidence, never mixed up. *Paired*: the old program ran in the same rounds, the only sound
//! comparison of times. *Stored*: it is gone, and its stored samples are compared over the control of each run; two
//! such blocks of one and the same program often "differ", so a gate never fails on that alone. *Counted*: whole
//! numbers, compared as they are.

use std::path::{Path, PathBuf};

use crate::record::baseline::Baseline;
use crate::record::bench::{METRICS, VersusReference};
use crate::record::counts::Range;
use crate::stat::paired::holm;
use crate::stat::unpaired::Normalised;
use crate::stat::verdict::Verdict;

/// What may be gated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GateMetric {
    /// As typed and printed.
    pub name: &'static str,
    /// The field of the samples, for a time; `None` for a count.
    pub field: Option<&'static str>,
}

/// Every metric that may be gated, in the order of output.
pub const GATES: [GateMetric; 9] = [
    GateMetric { name: "exit", field: Some("spawn_to_exit_ns") },
    GateMetric { name: "byte", field: Some("spawn_to_byte_ns") },
    GateMetric { name: "cpu", field: Some("cpu_ns") },
    GateMetric { name: "minflt", field: None },
    GateMetric { name: "relocations", field: None },
    GateMetric { name: "pages", field: None },
    GateMetric { name: "lookups", field: None },
    GateMetric { name: "objects", field: None },
    GateMetric { name: "syscalls", field: None },
];

impl GateMetric {
    /// The metric of that name.
    pub fn named(name: &str) -> Option<GateMetric> {
        GATES.into_iter().find(|g| g.name == name)
    }

    /// How a sample gives it, for a time.
    pub fn of_sample(self) -> Option<crate::record::bench::Metric> {
        METRICS.into_iter().find(|(name, _)| Some(*name) == self.field)
    }
}

/// Where the program that a baseline measured is now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OldProgram {
    /// In the copy that was kept.
    Kept(PathBuf),
    /// Where it was, unchanged.
    Unchanged(PathBuf),
    /// Nowhere, and why.
    Gone(String),
}

impl OldProgram {
    /// The file to run.
    pub fn path(&self) -> Option<&Path> {
        match self {
            OldProgram::Kept(p) | OldProgram::Unchanged(p) => Some(p),
            OldProgram::Gone(_) => None,
        }
    }

    /// In a word, for JSON.
    pub fn word(&self) -> &'static str {
        match self {
            OldProgram::Kept(_) => "kept copy",
            OldProgram::Unchanged(_) => "unchanged",
            OldProgram::Gone(_) => "gone",
        }
    }
}

/// A whole check.
#[derive(Debug, Clone, PartialEq)]
pub struct Checked {
    /// The baseline's file.
    pub file: PathBuf,
    /// What it holds.
    pub baseline: Baseline,
    /// By command of it, where its program is now.
    pub old: Vec<OldProgram>,
    /// Gates, and counts that changed.
    pub rows: Vec<Row>,
    /// What a reader must know before believing them.
    pub warnings: Vec<String>,
}

/// What is known of one metric of one command.
#[derive(Debug, Clone, PartialEq)]
pub enum Evidence {
    /// Old and new in the same rounds.
    Paired(Box<VersusReference>),
    /// The old one's stored samples, over the control of each run.
    Stored(Normalised),
    /// Whole numbers: the baseline's and the candidate's.
    Counted(Range, Range),
    /// Nothing, and why.
    Missing(String),
}

/// What a gate says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// Shown not to be worse than the limit.
    Passed,
    /// Shown to be worse.
    Regression,
    /// Neither is shown.
    NotDecided,
}

impl Outcome {
    /// The word in tables and JSON.
    pub fn word(self) -> &'static str {
        match self {
            Outcome::Passed => "passed",
            Outcome::Regression => "regression",
            Outcome::NotDecided => "not decided",
        }
    }
}

/// One metric of one command.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    /// The command.
    pub command: String,
    /// The metric.
    pub metric: GateMetric,
    /// Median of the baseline (times) or its count; `None` where there is none.
    pub before: Option<Range>,
    /// The same of the candidate.
    pub now: Option<Range>,
    /// What is known.
    pub evidence: Evidence,
    /// The increase that is allowed, as a share.
    pub limit: f64,
    /// Asked for as a gate; else shown since it changed.
    pub gated: bool,
    /// What that says.
    pub outcome: Outcome,
}

impl Row {
    /// True where a sound comparison shows a regression of a gated metric.
    pub fn fails(&self) -> bool {
        self.gated && self.outcome == Outcome::Regression && !matches!(self.evidence, Evidence::Stored(_))
    }

    /// True where stored samples alone suggest one.
    pub fn fails_weakly(&self) -> bool {
        self.gated && self.outcome == Outcome::Regression && matches!(self.evidence, Evidence::Stored(_))
    }
}

/// Level of the test that several gates share.
const LEVEL: f64 = 0.05;

/// The gate of a time within rounds. A regression is shown where the interval excludes "no slower", the ratio is at least
/// the limit away and the p-value, corrected for the number of gates, says so too; it is passed where the interval
/// ends below the limit.
fn gate_of_pairs(v: &VersusReference, limit: f64) -> Outcome {
    let Some([low, high]) = v.comparison.ratio_ci95 else { return Outcome::NotDecided };
    if low > 1.0 && v.comparison.ratio - 1.0 >= limit && v.p_adjusted < LEVEL {
        Outcome::Regression
    } else if high <= 1.0 + limit {
        Outcome::Passed
    } else {
        Outcome::NotDecided
    }
}

fn gate_of_stored(n: &Normalised, limit: f64) -> Outcome {
    let limit = limit.max(n.delta);
    match n.ci95 {
        Some([low, _]) if low > 1.0 && n.ratio - 1.0 >= limit => Outcome::Regression,
        Some([_, high]) if high <= 1.0 + limit => Outcome::Passed,
        _ => Outcome::NotDecided,
    }
}

/// The gate of a count: every value that was seen now lies above every value of the baseline (and the limit), or none
/// does.
fn gate_of_counts(before: Range, now: Range, limit: f64) -> Outcome {
    let allowed = before.max as f64 * (1.0 + limit);
    if now.min as f64 > allowed {
        Outcome::Regression
    } else if now.max as f64 <= allowed {
        Outcome::Passed
    } else {
        Outcome::NotDecided
    }
}

/// Corrects the p-values of all gated pairs for their number (Holm) and judges every row.
pub fn judge(rows: &mut [Row]) {
    let mut pairs: Vec<&mut VersusReference> = rows
        .iter_mut()
        .filter(|r| r.gated)
        .filter_map(|r| match &mut r.evidence {
            Evidence::Paired(v) => Some(&mut **v),
            _ => None,
        })
        .collect();
    let p: Vec<f64> = pairs.iter().map(|v| v.comparison.p_value).collect();
    for (v, p) in pairs.iter_mut().zip(holm(&p)) {
        v.p_adjusted = p;
    }
    for row in rows {
        row.outcome = match &row.evidence {
            Evidence::Paired(v) => gate_of_pairs(v, row.limit),
            Evidence::Stored(n) => gate_of_stored(n, row.limit),
            Evidence::Counted(before, now) => gate_of_counts(*before, *now, row.limit),
            Evidence::Missing(_) => Outcome::NotDecided,
        };
    }
}

/// What all gates say together.
pub fn overall(rows: &[Row]) -> Outcome {
    let mut gated = rows.iter().filter(|r| r.gated);
    if gated.clone().any(Row::fails) {
        Outcome::Regression
    } else if gated.any(|r| r.outcome != Outcome::Passed || matches!(r.evidence, Evidence::Stored(_))) {
        Outcome::NotDecided
    } else {
        Outcome::Passed
    }
}

/// The word on a paired row, were it no gate: the same that `bench` would print.
pub fn verdict(row: &Row) -> Option<Verdict> {
    match &row.evidence {
        Evidence::Paired(v) => Some(v.verdict),
        Evidence::Stored(n) => Some(n.verdict),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::bench::versus;
    use crate::stat::rng::Rng;

    fn pairs(scale: f64, rounds: u64, noise: f64) -> Evidence {
        let mut rng = Rng::new(5);
        let mut value = |s: f64| (1e6 * s * (1.0 + noise * (rng.unit() - 0.5))) as u64;
        let (a, b): (Vec<u64>, Vec<u64>) = (0..rounds).map(|_| (value(1.0), value(scale))).unzip();
        Evidence::Paired(Box::new(versus(&a, &b, 1, 0.02).unwrap()))
    }

    fn row(evidence: Evidence, limit: f64) -> Row {
        let metric = GATES[0];
        let command = "c".to_string();
        Row { command, metric, before: None, now: None, evidence, limit, gated: true, outcome: Outcome::NotDecided }
    }

    fn judged(evidence: Evidence, limit: f64) -> Outcome {
        let mut rows = [row(evidence, limit)];
        judge(&mut rows);
        rows[0].outcome
    }

    #[test]
    fn pairs_fail_only_on_what_is_shown() {
        assert_eq!(judged(pairs(1.05, 200, 0.1), 0.02), Outcome::Regression);
        assert_eq!(judged(pairs(1.05, 200, 0.1), 0.10), Outcome::Passed);
        assert_eq!(judged(pairs(1.0, 200, 0.1), 0.02), Outcome::Passed);
        assert_eq!(judged(pairs(0.8, 200, 0.1), 0.02), Outcome::Passed);
        assert_eq!(judged(pairs(1.05, 5, 0.1), 0.02), Outcome::NotDecided);
        assert_eq!(judged(pairs(1.0, 20, 1.0), 0.02), Outcome::NotDecided);
        assert_eq!(judged(Evidence::Missing("x".into()), 0.0), Outcome::NotDecided);
    }

    #[test]
    fn counts_are_exact_and_ranges_that_overlap_decide_nothing() {
        let range = |min, max| Range { min, max };
        for (before, now, limit, outcome) in [
            (range(100, 100), range(100, 100), 0.0, Outcome::Passed),
            (range(100, 100), range(101, 101), 0.0, Outcome::Regression),
            (range(100, 100), range(101, 101), 0.01, Outcome::Passed),
            (range(100, 100), range(90, 90), 0.0, Outcome::Passed),
            (range(541, 550), range(545, 560), 0.0, Outcome::NotDecided),
            (range(541, 550), range(551, 560), 0.0, Outcome::Regression),
            (range(541, 550), range(530, 549), 0.0, Outcome::Passed),
            (range(0, 0), range(1, 1), 0.5, Outcome::Regression),
        ] {
            assert_eq!(judged(Evidence::Counted(before, now), limit), outcome, "{before} {now} {limit}");
        }
    }

    #[test]
    fn stored_samples_never_fail_a_gate() {
        let n = Normalised {
            ratio: 2.0,
            ci95: Some([1.9, 2.1]),
            control_ratio: 1.0,
            delta: 0.02,
            verdict: Verdict::Slower,
        };
        let mut rows = vec![row(Evidence::Stored(n), 0.02), row(pairs(1.0, 200, 0.1), 0.02)];
        judge(&mut rows);
        assert_eq!((rows[0].outcome, overall(&rows)), (Outcome::Regression, Outcome::NotDecided));
        assert!(!rows[0].fails() && rows[0].fails_weakly());
        rows.remove(0);
        assert_eq!(overall(&rows), Outcome::Passed);
        rows.push(row(Evidence::Counted(Range::exactly(1), Range::exactly(2)), 0.0));
        judge(&mut rows);
        assert_eq!(overall(&rows), Outcome::Regression);
        rows[1].gated = false;
        assert_eq!(overall(&rows), Outcome::Passed);
    }

    #[test]
    fn many_gates_need_more_than_one() {
        // p = 0.03 for one pair of commands shows a regression alone, and none among twenty.
        let weak = || {
            let Evidence::Paired(mut v) = pairs(1.05, 200, 0.1) else { unreachable!() };
            v.comparison.p_value = 0.03;
            Evidence::Paired(v)
        };
        assert_eq!(judged(weak(), 0.02), Outcome::Regression);
        let mut rows: Vec<Row> = (0..20).map(|_| row(weak(), 0.02)).collect();
        judge(&mut rows);
        assert!(rows.iter().all(|r| r.outcome == Outcome::NotDecided));
    }
}
