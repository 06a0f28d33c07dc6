//! A prediction by phases of a start, beside which the observed phases can be laid.
//!
//! Most terms are work of one phase. What the loader costs of itself, and each library, is spread over several; how, is
//! observed when the host is calibrated: on a program with the C library alone and on one with many libraries.

use super::fit::{Costs, FamilyModel};
use super::predict::Prediction;
use super::work::{ALL, T, Work};
use crate::trace::phases::PhaseName;

/// The phases from execve to the entry point.
pub const PARTS: [PhaseName; 5] =
    [PhaseName::Exec, PhaseName::LoaderStart, PhaseName::Map, PhaseName::Relocate, PhaseName::Construct];

/// One figure for each of [`PARTS`].
pub type PerPart = [f64; PARTS.len()];

/// How two costs are spread over the phases: shares that sum to 1.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Split {
    /// Of [`T::Loader`].
    pub loader: PerPart,
    /// Of [`T::Object`].
    pub object: PerPart,
}

/// A program of the design whose phases were observed.
#[derive(Debug, Clone, Copy)]
pub struct Observed {
    /// Its work.
    pub work: Work,
    /// Nanoseconds by phase.
    pub ns: PerPart,
}

/// The phase whose work a term is, as a place in [`PARTS`]; `None` where it is spread.
fn part_of(term: T) -> Option<usize> {
    let phase = match term {
        T::Loader | T::Object => return None,
        T::Exec | T::Segment => PhaseName::Exec,
        T::LibrarySegment | T::FailedOpen | T::FailedStat => PhaseName::Map,
        T::Constructor => PhaseName::Construct,
        _ => PhaseName::Relocate,
    };
    PARTS.iter().position(|p| *p == phase)
}

/// What terms of one phase alone cost, by phase.
fn fixed(costs: &Costs, work: &Work) -> PerPart {
    let mut ns = PerPart::default();
    for &term in ALL {
        if let Some(slot) = part_of(term).and_then(|p| ns.get_mut(p)) {
            *slot += work.get(term) * costs.unit_ns[term as usize];
        }
    }
    ns
}

fn shares(ns: PerPart) -> Option<PerPart> {
    let ns = ns.map(|x| x.max(0.0));
    let sum: f64 = ns.iter().sum();
    (sum > 0.0).then(|| ns.map(|x| x / sum))
}

/// What is left of the loader's own phases once terms of one phase alone are taken away. The observation is brought to
/// what the costs say of those phases together, since observing slows a start down. Exec has no part in this: there the
/// observer's own preparations take longer than the kernel's work, and what the kernel does has terms of its own.
fn left(costs: &Costs, observed: &Observed) -> PerPart {
    let fixed = fixed(costs, &observed.work);
    let [exec, ..] = fixed;
    let [_, loader @ ..] = observed.ns;
    let scale = (costs.time(&observed.work.counts) - exec) / loader.iter().sum::<f64>().max(1.0);
    std::array::from_fn(|p| if p == 0 { 0.0 } else { observed.ns[p] * scale - fixed[p] })
}

/// From a program with the C library alone and one with many libraries beside it.
pub fn split(model: &FamilyModel, few: &Observed, many: &Observed) -> Option<Split> {
    let costs = &model.entry;
    let objects = many.work.get(T::Object) - few.work.get(T::Object);
    let (few_ns, many_ns) = (left(costs, few), left(costs, many));
    let an_object: PerPart = std::array::from_fn(|p| (many_ns[p] - few_ns[p]).max(0.0) / objects.max(1.0));
    let loader = std::array::from_fn(|p| few_ns[p] - few.work.get(T::Object) * an_object[p]);
    Some(Split { loader: shares(loader)?, object: shares(an_object)? })
}

/// A prediction by phases: those of [`PARTS`], which sum to its value, and the end. `None` where the model's loader was
/// not observed.
pub fn by_phase(model: &FamilyModel, prediction: &Prediction) -> Option<Vec<(PhaseName, f64)>> {
    let (costs, work) = (&model.entry, &prediction.work);
    let mut ns = fixed(costs, work);
    let spread = |term: T| work.get(term) * costs.unit_ns[term as usize];
    if work.get(T::Loader) > 0.0 {
        let split = model.split?;
        for (p, slot) in ns.iter_mut().enumerate() {
            *slot += split.loader[p] * spread(T::Loader) + split.object[p] * spread(T::Object);
        }
    }
    // Library by library, beyond its counts: init functions, most of all.
    let beyond = prediction.value_ns - ns.iter().sum::<f64>();
    if let Some(last) = ns.last_mut() {
        *last += beyond;
    }
    let parts = PARTS.into_iter().zip(ns).filter(|(_, ns)| *ns != 0.0);
    Some(parts.chain([(PhaseName::Teardown, prediction.end_ns)]).collect())
}

#[cfg(test)]
mod tests {
    use super::super::design::Family;
    use super::super::fit::COUNT;
    use super::super::predict::of_work;
    use super::*;

    fn model(split: Option<Split>) -> FamilyModel {
        let mut unit_ns = [0.0; COUNT];
        for (term, ns) in [(T::Exec, 30.0), (T::Loader, 100.0), (T::Object, 20.0), (T::PageWritten, 2.0)] {
            unit_ns[term as usize] = ns;
        }
        let costs = Costs { unit_ns, ..Costs::nothing() };
        let end = Costs::nothing();
        FamilyModel {
            family: Family::Glibc,
            programs: 2,
            rounds: 1,
            entry: costs,
            end,
            known: [true; COUNT],
            plain_ns: None,
            split,
        }
    }

    fn work(objects: f64, pages: f64) -> Work {
        let mut work = Work::new();
        work.add(T::Loader, 1.0);
        work.add(T::Object, objects);
        work.add(T::PageWritten, pages);
        work
    }

    /// The loader: half before the search, half relocating. A library: three quarters mapping, a quarter relocating.
    fn observed(objects: f64, pages: f64, slower: f64) -> Observed {
        let ns = [900.0, 50.0, 15.0 * objects, 50.0 + 5.0 * objects + 2.0 * pages, 0.0];
        Observed { work: work(objects, pages), ns: ns.map(|x| x * slower) }
    }

    #[test]
    fn a_split_comes_back_and_phases_sum_to_the_prediction() {
        let split = split(&model(None), &observed(1.0, 10.0, 1.2), &observed(41.0, 50.0, 1.1)).unwrap();
        let near = |have: PerPart, want: PerPart| {
            assert!(have.iter().zip(want).all(|(a, b)| (a - b).abs() < 1e-9), "{have:?} {want:?}");
        };
        near(split.loader, [0.0, 0.5, 0.0, 0.5, 0.0]);
        near(split.object, [0.0, 0.0, 0.75, 0.25, 0.0]);
        let model = model(Some(split));
        let mut prediction = of_work(&model, work(5.0, 7.0));
        prediction.value_ns += 40.0;
        let phases = by_phase(&model, &prediction).unwrap();
        let of = |name| phases.iter().find(|(p, _)| *p == name).unwrap().1;
        assert!((of(PhaseName::Map) - 75.0).abs() < 1e-9 && (of(PhaseName::Construct) - 40.0).abs() < 1e-9);
        assert!((phases.iter().map(|(_, ns)| ns).sum::<f64>() - prediction.value_ns).abs() < 1e-9);
    }

    #[test]
    fn without_an_observation_there_are_no_phases() {
        let model = model(None);
        assert_eq!(by_phase(&model, &of_work(&model, work(1.0, 1.0))), None);
    }
}
