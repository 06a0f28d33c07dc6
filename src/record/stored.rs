//! Stored samples compared: paired where one file holds the rounds, and with the right caution where the samples
//! come from runs made apart.

use super::bench::{VersusReference, versus};
use super::results::{StoredRun, StoredRuns, Writer, paired_values};
use crate::error::{Error, Result};
use crate::stat::paired::holm;
use crate::stat::quantile::Summary;
use crate::stat::unpaired::{Normalised, Unpaired, compare as unpaired, normalised};
use crate::stat::verdict::MINIMUM_DELTA;

/// What files of samples say, and of each other.
#[derive(Debug, Clone, PartialEq)]
pub struct StoredComparison {
    /// The metric compared.
    pub metric: String,
    /// Every command of every file.
    pub entries: Vec<Entry>,
    /// Candidates against references.
    pub compared: Vec<Compared>,
    /// What a reader must know before believing them.
    pub warnings: Vec<String>,
}

/// One command of one file.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    /// The file.
    pub file: String,
    /// The command's name there.
    pub name: String,
    /// Its values, rounded to whole units.
    pub summary: Summary,
}

/// One comparison.
#[derive(Debug, Clone, PartialEq)]
pub struct Compared {
    /// What is compared.
    pub candidate: String,
    /// With what.
    pub reference: String,
    /// What came of it.
    pub outcome: Outcome,
}

/// Figures by the way in which the samples were made.
#[derive(Debug, Clone, PartialEq)]
pub enum Outcome {
    /// Rounds of one run: the sound comparison, with the delta that it was judged by.
    Paired(Box<VersusReference>, f64),
    /// Runs made apart.
    Unpaired(Unpaired, Option<Normalised>),
    /// A value of zero: no ratio exists.
    NoRatio,
}

/// Compares the commands of one file with its first, or those of later files with their namesakes in the first.
///
/// # Errors
/// Where nothing in the files corresponds.
pub fn compare(files: &[(String, StoredRuns)]) -> Result<StoredComparison> {
    let Some(((_, first), later)) = files.split_first() else { return Err(Error::new("no file given")) };
    let mut compared = Vec::new();
    if later.is_empty() {
        compared = within(first);
    }
    for (file, runs) in later {
        compared.extend(across(&files[0], (file, runs))?);
    }
    Ok(StoredComparison {
        metric: first.metric.clone(),
        entries: files.iter().flat_map(|(file, runs)| entries(file, runs)).collect(),
        warnings: warnings(first, later, &compared),
        compared,
    })
}

fn entries(file: &str, runs: &StoredRuns) -> Vec<Entry> {
    let entry = |run: &StoredRun| {
        // Seconds times 1e9 are not whole to the last bit.
        let mut whole: Vec<u64> = run.values.iter().map(|v| v.round().max(0.0) as u64).collect();
        let summary = Summary::of(&mut whole)?;
        Some(Entry { file: file.to_string(), name: run.name.clone(), summary })
    };
    runs.runs.iter().chain(&runs.control).filter_map(entry).collect()
}

/// Every further command of one file against its first.
fn within(file: &StoredRuns) -> Vec<Compared> {
    let Some((reference, candidates)) = file.runs.split_first() else { return Vec::new() };
    // The run's delta comes from its timing noise, which counts do not have.
    let delta = file.delta.filter(|_| file.metric.ends_with("_ns")).unwrap_or(MINIMUM_DELTA);
    let one = |c: &StoredRun| {
        let paired = paired_values(reference, c).and_then(|(a, b)| versus(&a, &b, 1, delta));
        let outcome = match paired {
            Some(v) => Outcome::Paired(Box::new(v), delta),
            // Made in one run, yet one command after the other: no control can help.
            None => unpaired(&reference.values, &c.values).map_or(Outcome::NoRatio, |u| Outcome::Unpaired(u, None)),
        };
        Compared { candidate: c.name.clone(), reference: reference.name.clone(), outcome }
    };
    let mut compared: Vec<Compared> = candidates.iter().map(one).collect();
    adjust(&mut compared);
    compared
}

/// Holm's correction over the paired comparisons.
fn adjust(compared: &mut [Compared]) {
    let mut paired: Vec<&mut VersusReference> = compared
        .iter_mut()
        .filter_map(|c| match &mut c.outcome {
            Outcome::Paired(v, _) => Some(&mut **v),
            _ => None,
        })
        .collect();
    let p: Vec<f64> = paired.iter().map(|v| v.comparison.p_value).collect();
    for (v, p) in paired.iter_mut().zip(holm(&p)) {
        v.p_adjusted = p;
    }
}

/// Each command of `later` against the one of that name in `first`; two files of one command each need no name.
fn across(first: &(String, StoredRuns), later: (&str, &StoredRuns)) -> Result<Vec<Compared>> {
    let single = first.1.runs.len() == 1 && later.1.runs.len() == 1;
    let mut out = Vec::new();
    for candidate in &later.1.runs {
        let Some(reference) = first.1.runs.iter().find(|r| single || r.name == candidate.name) else { continue };
        let figures = unpaired(&reference.values, &candidate.values);
        let controls = first.1.control.as_ref().zip(later.1.control.as_ref());
        let over_control =
            controls.and_then(|(a, b)| normalised(&reference.values, &candidate.values, &a.values, &b.values));
        out.push(Compared {
            candidate: format!("{} of {}", candidate.name, later.0),
            reference: format!("{} of {}", reference.name, first.0),
            outcome: figures.map_or(Outcome::NoRatio, |u| Outcome::Unpaired(u, over_control)),
        });
    }
    if out.is_empty() {
        return Err(Error::new(format!("no command in it is called as one in {}", first.0)).context(later.0));
    }
    Ok(out)
}

fn warnings(first: &StoredRuns, later: &[(String, StoredRuns)], compared: &[Compared]) -> Vec<String> {
    let mut out = Vec::new();
    for name in later.iter().map(|(_, r)| r).chain([first]).flat_map(|r| &r.without) {
        out.push(format!("{name}: has no value of {}, so it is left out", first.metric));
    }
    if compared.iter().any(|c| matches!(c.outcome, Outcome::Unpaired(..))) {
        let how = if later.is_empty() { "one command after the other" } else { "in separate runs" };
        out.push(format!(
            "these samples were made {how}: two such blocks of one and the same program differ \"significantly\" in 33 to \
             76 of 100 cases, whatever the p-value; to know, measure both in the same rounds: premain bench A B"
        ));
    }
    let writers = later.iter().map(|(_, r)| r.writer).chain([first.writer]);
    if writers.clone().any(|w| w == Writer::Premain) && writers.clone().any(|w| w == Writer::Hyperfine) {
        out.push("the files come from two tools, which do not time the same window".to_string());
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stat::rng::Rng;
    use crate::stat::verdict::Verdict;

    fn run(name: &str, scale: f64, seed: u64, rounds: bool) -> StoredRun {
        let mut rng = Rng::new(seed);
        let values: Vec<f64> = (0..80).map(|_| (scale * (1e6 + 1e4 * rng.unit())).round()).collect();
        StoredRun { name: name.to_string(), values, rounds: rounds.then(|| (0..80).collect()) }
    }

    fn file(writer: Writer, runs: Vec<StoredRun>, control: Option<StoredRun>) -> StoredRuns {
        StoredRuns { writer, runs, control, metric: "spawn_to_exit_ns".to_string(), without: Vec::new(), delta: None }
    }

    #[test]
    fn one_premain_file_is_paired_and_needs_no_warning() {
        let f = file(Writer::Premain, vec![run("a", 1.0, 1, true), run("b", 1.1, 2, true)], None);
        let c = compare(&[("x.json".to_string(), f)]).unwrap();
        assert!(c.warnings.is_empty());
        assert!(matches!(&c.compared[0].outcome, Outcome::Paired(v, _) if v.verdict == Verdict::Slower));
    }

    #[test]
    fn blocks_are_warned_about_in_one_file_and_in_two() {
        let one = || file(Writer::Hyperfine, vec![run("a", 1.0, 1, false), run("b", 1.1, 2, false)], None);
        let c = compare(&[("h.json".to_string(), one())]).unwrap();
        assert!(matches!(c.compared[0].outcome, Outcome::Unpaired(_, None)));
        assert!(c.warnings[0].contains("one command after the other"));
        let c = compare(&[("h.json".to_string(), one()), ("i.json".to_string(), one())]).unwrap();
        assert_eq!(c.compared.len(), 2);
        assert!(c.warnings[0].contains("separate runs"));
    }

    #[test]
    fn the_control_of_both_runs_takes_their_movement_out() {
        let at = |scale: f64, seed| {
            let control = Some(run("control", scale, seed, true));
            file(Writer::Premain, vec![run("a", scale, seed + 50, true)], control)
        };
        let c = compare(&[("old".to_string(), at(1.0, 1)), ("new".to_string(), at(1.2, 7))]).unwrap();
        let Outcome::Unpaired(u, Some(n)) = c.compared[0].outcome else { panic!("{c:?}") };
        assert!(u.median_ratio > 1.19 && (n.ratio - 1.0).abs() < 0.01 && n.verdict == Verdict::Equivalent, "{n:?}");
    }

    #[test]
    fn files_without_a_common_command_are_refused() {
        let many = |a, b| file(Writer::Hyperfine, vec![run(a, 1.0, 1, false), run(b, 1.0, 2, false)], None);
        let e = compare(&[("h".to_string(), many("a", "b")), ("i".to_string(), many("c", "d"))]).unwrap_err();
        assert_eq!(e.to_string(), "i: no command in it is called as one in h");
    }
}
