//! `premain calibrate`: what each unit of load work costs on this host.

use std::path::{Path, PathBuf};

use super::common::Common;
use crate::error::{Context, Exit, Result};
use crate::loader::Closure;
use crate::measure::plan::Rounds;
use crate::model::calibrate::{Ground, Skipped, closure_of};
use crate::model::design::Family;
use crate::model::gauge::Effort;
use crate::model::parts::{self, Observed};
use crate::model::store::Model;
use crate::model::work::Work;
use crate::output::Output;
use crate::report::{model_json, model_text};
use crate::sys;
use crate::sys::process::Program;
use crate::sys::start::Method;
use crate::trace::phases::PhaseName;
use crate::trace::study::Observer;
use crate::trace::summary::{Choice, summary};
use crate::units;

/// Options of `calibrate`.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Under ten seconds, with wider intervals.
    pub quick: bool,
    /// Where the model goes, instead of the cache.
    pub model: Option<PathBuf>,
    /// Time to measure for.
    pub budget_ns: Option<u64>,
    /// Programs whose libraries' init code is measured too.
    pub programs: Vec<PathBuf>,
}

const BUDGET_NS: u64 = 45_000_000_000;
const QUICK_BUDGET_NS: u64 = 4_000_000_000;

/// How to measure with some time to spend.
pub(super) fn effort(budget_ns: u64) -> Effort {
    Effort { warmup: 2, rounds: Rounds { min: 10, max: 2_000, budget_ns }, seed: 1, method: Method::Vfork }
}

/// Calibrates, stores and prints.
///
/// # Errors
/// Where programs cannot be written or started here, or the model cannot be stored.
pub fn run(options: &Options, common: &Common, output: &mut Output<'_>) -> Result<Exit> {
    sys::signal::catch_interrupts()?;
    let path = options.model.clone().map_or_else(Model::default_path, Ok)?;
    let budget = options.budget_ns.unwrap_or(if options.quick { QUICK_BUDGET_NS } else { BUDGET_NS });

    let closures = options.programs.iter().map(|p| closure_of(p).context(|| p.to_string_lossy()));
    let closures = closures.collect::<Result<Vec<Closure>>>()?;
    let share = if closures.is_empty() { budget / 5 * 4 } else { budget / 2 };
    let mut ground = Ground::new(effort(share))?;
    ground.add_design()?;
    let (phases, unobserved) = observed(&ground, output);
    let (mut rows, mut skipped) = ground.measure(&mut progress(share, output))?;
    skipped.extend(unobserved);
    // Rounds of their own: beside libraries of a hundred megabytes, all other programs find their caches empty.
    let mut ground = Ground::new(effort(budget - share))?;
    ground.add_large()?;
    ground.add_libraries(&closures)?;
    let (more, others) = ground.measure(&mut progress(budget - share, output))?;
    rows.extend(more);
    skipped.extend(others);
    output.progress("");

    let mut model = Model::fit(&rows, cpuid_ns(), 1)?;
    for (family, few, many) in &phases {
        if let Some(fitted) = model.families.iter_mut().find(|f| f.family == *family) {
            fitted.split = parts::split(fitted, few, many);
        }
    }
    model.save(&path)?;
    if common.json {
        output.text(&model_json::calibrate(&model, &rows, &skipped).pretty())?;
    } else {
        let text = model_text::model(&model, &skipped, output.style);
        output.text(&text)?;
        output.text(&format!("stored in {}\n", path.display()))?;
    }
    Ok(Exit::Done)
}

/// Starts in which the phases of a program of the design are observed.
const OBSERVED_STARTS: usize = 9;

/// A program with the C library alone, and one with forty libraries, by family: where their loader spends its time.
///
/// Families whose phases cannot be observed here are in the second list, with the reason; those without a loader on this
/// host in neither.
fn observed(ground: &Ground, output: &mut Output<'_>) -> (Vec<(Family, Observed, Observed)>, Vec<Skipped>) {
    output.progress("observing");
    ground.settle();
    let (mut phases, mut unobserved) = (Vec::new(), Vec::new());
    for family in [Family::Glibc, Family::Musl] {
        let subject = |what: &str| ground.subject_named(&format!("{} {what}", family.name()));
        let Some((few, many)) = subject("plain").zip(subject("libraries 40")) else { continue };
        match observe(few).and_then(|few| Ok((few, observe(many)?))) {
            Ok((few, many)) => phases.push((family, few, many)),
            Err(e) => unobserved.push((format!("phases of {}'s loader", family.name()), e.to_string())),
        }
    }
    (phases, unobserved)
}

fn observe((work, path, program): (Work, &Path, Program)) -> Result<Observed> {
    let mut observer = Observer::new(&program, path, Choice::Phases, None)?;
    for _ in 0..OBSERVED_STARTS {
        observer.observe()?;
    }
    let phases = summary(&observer.finish()).phases;
    let ns = |part: &PhaseName| phases.iter().find(|p| p.name == *part).map_or(0.0, |p| p.ns as f64);
    Ok(Observed { work, ns: parts::PARTS.each_ref().map(ns) })
}

/// Shows what is left, at most five times a second.
pub(super) fn progress<'a>(budget: u64, output: &'a mut Output<'_>) -> impl FnMut(u64, u64) + 'a {
    let mut shown = 0;
    move |rounds, spent| {
        if output.err_is_terminal && spent.saturating_sub(shown) >= 200_000_000 {
            shown = spent;
            let left = units::time(budget.saturating_sub(spent) as f64);
            output.progress(&format!("measuring: {rounds} rounds, about {left} left"));
        }
    }
}

#[cfg(target_os = "linux")]
fn cpuid_ns() -> Option<f64> {
    sys::linux::cpuid::cost_ns()
}

#[cfg(not(target_os = "linux"))]
fn cpuid_ns() -> Option<f64> {
    None
}
