//! A baseline against what replaced it: one row for each command and metric, and what each row says of its gate.
//!
//! Three kinds of evidence, never mixed up. *Paired*: the old program ran in the same rounds, the only sound
//! comparison of times. *Stored*: it is gone, and its stored samples are compared over the control of each run; two
//! such blocks of one and the same program often "differ", so a gate never fails on that alone. *Counted*: whole
//! numbers, compared as they are.

use std::path::{Path, PathBuf};

use crate::record::baseline::Baseline;
use crate::record::bench::{METRICS, VersusReference, versus};
use crate::record::counts::Range;
use crate::stat::paired::{log_ratios, ratio_interval};
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
    /// The confidence that each time needed to fail.
    pub confidence: f64,
    /// What a reader must know before believing them.
    pub warnings: Vec<String>,
}

/// What is known of one metric of one command.
#[derive(Debug, Clone, PartialEq)]
pub enum Evidence {
    /// Old and new in the same rounds, with the interval of their ratio at the confidence that a failure needs; none
    /// where there are too few rounds for it.
    Paired(Box<VersusReference>, Option<[f64; 2]>),
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

/// Of so many checks of programs that did not change, at most one may fail by chance: all gates of a check share that.
pub const CHECKS_PER_FALSE_ALARM: f64 = 1000.0;

/// The confidence that an interval needs to fail one of `gates` gates.
pub fn confidence(gates: usize) -> f64 {
    1.0 - 1.0 / CHECKS_PER_FALSE_ALARM / (gates.max(1)) as f64
}

/// The increase of a time that is allowed unless the user says otherwise.
pub const DEFAULT_LIMIT: f64 = crate::stat::verdict::MINIMUM_DELTA;

/// Old against new from the values of each round: the comparison as `bench` would show it, and the interval at
/// `confidence`. `None` without a pair.
pub fn paired(reference: &[u64], candidate: &[u64], seed: u64, delta: f64, confidence: f64) -> Option<Evidence> {
    let v = versus(reference, candidate, seed, delta)?;
    let ratios = log_ratios(reference, candidate).values;
    let strict = ratio_interval(&ratios, v.comparison.correlation_time, confidence);
    Some(Evidence::Paired(Box::new(v), strict))
}

/// The gate of a time within rounds. A regression is shown where the strict interval excludes "no slower" and the ratio
/// is at least the limit away; the gate is passed where the 95 % interval ends below the limit.
fn gate_of_pairs(v: &VersusReference, strict: Option<[f64; 2]>, limit: f64) -> Outcome {
    let excluded = strict.is_some_and(|[low, _]| low > 1.0);
    if excluded && v.comparison.ratio - 1.0 >= limit {
        Outcome::Regression
    } else if v.comparison.ratio_ci95.is_some_and(|[_, high]| high <= 1.0 + limit) {
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

/// Judges every row. Where the control's two starts differ by as much as a limit, with the same confidence, the place of a
/// start in its round mattered as much as the program did: then no time fails.
pub fn judge(rows: &mut [Row], control: Option<(f64, [f64; 2])>) {
    for row in rows {
        row.outcome = match &row.evidence {
            Evidence::Paired(v, strict) => gate_of_pairs(v, *strict, row.limit),
            Evidence::Stored(n) => gate_of_stored(n, row.limit),
            Evidence::Counted(before, now) => gate_of_counts(*before, *now, row.limit),
            Evidence::Missing(_) => Outcome::NotDecided,
        };
        if row.outcome == Outcome::Regression && row.metric.field.is_some() && is_suspect(control, row.limit) {
            row.outcome = Outcome::NotDecided;
        }
    }
}

/// The control, against itself, shows what would be a regression or its opposite.
pub fn is_suspect(control: Option<(f64, [f64; 2])>, limit: f64) -> bool {
    control.is_some_and(|(ratio, [low, high])| (low > 1.0 || high < 1.0) && ratio.ln().abs() >= limit.ln_1p())
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
        Evidence::Paired(v, _) => Some(v.verdict),
        Evidence::Stored(n) => Some(n.verdict),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stat::rng::Rng;

    fn pairs(scale: f64, rounds: u64, noise: f64) -> Evidence {
        let mut rng = Rng::new(5);
        let mut value = |s: f64| (1e6 * s * (1.0 + noise * (rng.unit() - 0.5))) as u64;
        let (a, b): (Vec<u64>, Vec<u64>) = (0..rounds).map(|_| (value(1.0), value(scale))).unzip();
        paired(&a, &b, 1, 0.02, confidence(1)).unwrap()
    }

    fn row(evidence: Evidence, limit: f64) -> Row {
        let metric = GATES[0];
        let command = "c".to_string();
        Row { command, metric, before: None, now: None, evidence, limit, gated: true, outcome: Outcome::NotDecided }
    }

    fn judged(evidence: Evidence, limit: f64) -> Outcome {
        let mut rows = [row(evidence, limit)];
        judge(&mut rows, None);
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
        judge(&mut rows, None);
        assert_eq!((rows[0].outcome, overall(&rows)), (Outcome::Regression, Outcome::NotDecided));
        assert!(!rows[0].fails() && rows[0].fails_weakly());
        rows.remove(0);
        assert_eq!(overall(&rows), Outcome::Passed);
        rows.push(row(Evidence::Counted(Range::exactly(1), Range::exactly(2)), 0.0));
        judge(&mut rows, None);
        assert_eq!(overall(&rows), Outcome::Regression);
        rows[1].gated = false;
        assert_eq!(overall(&rows), Outcome::Passed);
    }

    #[test]
    fn many_gates_need_more_than_one() {
        // Twelve rounds, all slower: 2 * 2^-12 is below 0.001, but not below a tenth of it.
        let reference = [100_u64; 12];
        let candidate = [110, 121, 111, 120, 112, 119, 113, 118, 114, 117, 115, 116];
        let outcome = |gates| judged(paired(&reference, &candidate, 1, 0.02, confidence(gates)).unwrap(), 0.02);
        assert_eq!((outcome(1), outcome(10)), (Outcome::Regression, Outcome::NotDecided));
    }

    #[test]
    fn a_control_that_differs_from_itself_excuses_times_and_not_counts() {
        let mut rows = vec![row(pairs(1.05, 200, 0.1), 0.02)];
        judge(&mut rows, Some((0.97, [0.96, 0.98])));
        assert_eq!(rows[0].outcome, Outcome::NotDecided);
        judge(&mut rows, Some((0.99, [0.985, 0.995])));
        assert_eq!(rows[0].outcome, Outcome::Regression);
        rows[0].evidence = Evidence::Counted(Range::exactly(1), Range::exactly(2));
        rows[0].metric = GATES[4];
        judge(&mut rows, Some((0.5, [0.4, 0.6])));
        assert_eq!(rows[0].outcome, Outcome::Regression);
    }
}
