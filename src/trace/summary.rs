//! What several observed starts of one command say together. Pure.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use crate::order;
use crate::stat::quantile::{median, median_interval};
use crate::sys::wait::WaitStatus;
use crate::trace::analysis::{Faults, Start, Syscalls};
use crate::trace::event::Event;
use crate::trace::gaps::{Cause, Gap, least_ns};
use crate::trace::objects::Object;
use crate::trace::phases::PhaseName;
use crate::trace::phases::Timeline;
use crate::trace::probe::summarise;

/// Which back end is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Choice {
    /// The best that works.
    #[default]
    Auto,
    /// The best that works, without uprobes: to set them up and take them away costs tens of milliseconds a start.
    Quick,
    /// The same for phases alone: CPUIDs, whose count takes a second or two, are not counted.
    Phases,
    /// perf events, or an error.
    Perf,
    /// ptrace, or an error.
    Ptrace,
}

/// What observes the starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Means {
    /// perf events, with uprobes at the marked places: no stop.
    PerfUprobes,
    /// perf events, with a few ptrace breakpoints at the marked places: uprobes are for root.
    PerfBreakpoints,
    /// perf events alone: boundaries are read off page faults.
    Perf,
    /// ptrace: breakpoints, and the loader's system calls.
    Ptrace,
}

impl Means {
    /// The word in JSON.
    pub fn backend(self) -> &'static str {
        match self {
            Means::PerfUprobes | Means::PerfBreakpoints | Means::Perf => "perf",
            Means::Ptrace => "ptrace",
        }
    }

    /// In a few words, for people.
    pub fn words(self) -> &'static str {
        match self {
            Means::PerfUprobes => "perf events and uprobes",
            Means::PerfBreakpoints => "perf events and breakpoints",
            Means::Perf => "perf events",
            Means::Ptrace => "ptrace",
        }
    }

    /// How phase boundaries are known.
    pub fn marks(self) -> &'static str {
        match self {
            Means::PerfUprobes => "uprobes",
            Means::PerfBreakpoints | Means::Ptrace => "breakpoints",
            Means::Perf => "page faults",
        }
    }
}

/// What a fully traced start showed, in addition to the timed ones.
#[derive(Debug, Clone)]
pub struct Traced {
    /// Its system calls.
    pub syscalls: Option<Syscalls>,
    /// Its objects with their constructors, and exact counts of written pages.
    pub start: Start,
    /// Most threads at once.
    pub threads_max: u64,
    /// Child processes.
    pub children: u64,
    /// Peak of resident memory.
    pub peak_rss_bytes: Option<u64>,
    /// Wall time of that start, stops included.
    pub elapsed_ns: u64,
}

/// The start whose total is nearest to the median, whole.
#[derive(Debug, Clone)]
pub struct Typical {
    /// Its analysis.
    pub start: Start,
    /// Its events.
    pub events: Vec<Event>,
}

/// Everything observed about one command.
#[derive(Debug)]
pub struct Study {
    /// What observes the starts.
    pub means: Means,
    /// Why better means, or parts, are not used: one sentence each.
    pub reasons: Vec<String>,
    /// Scripts on the way to the program, the program last.
    pub hops: Vec<PathBuf>,
    /// Every observed start, without its events: these give the times.
    pub starts: Vec<Start>,
    /// Some starts more, with a record of each page fault: these give page faults, objects and stretches. Empty where
    /// [`Study::starts`] tell all that the back end can.
    pub detailed: Vec<Start>,
    /// Untraced starts, one beside each traced one: total time.
    pub untraced_ns: Vec<u64>,
    /// The start nearest to the median, of the detailed ones where there are any.
    pub typical: Option<Typical>,
    /// One fully traced start.
    pub traced: Option<Traced>,
    /// How often CPUID runs before main, where that was counted.
    pub cpuid: Option<CpuidCount>,
    /// Nanoseconds of one CPUID here.
    pub cpuid_ns: Option<f64>,
    /// Records that were lost: counts are lower bounds then.
    pub lost: u64,
    /// How the last start ended.
    pub status: WaitStatus,
}

/// CPUIDs executed by a program's start, and how many instructions were looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CpuidCount {
    /// How many.
    pub executed: u64,
    /// Instructions stepped through.
    pub steps: u64,
}

impl Study {
    /// The starts that tell of page faults and objects.
    pub fn telling(&self) -> &[Start] {
        if self.detailed.is_empty() { &self.starts } else { &self.detailed }
    }

    /// Median total of the detailed starts.
    pub fn detailed_median_ns(&self) -> Option<u64> {
        middle(self.detailed.iter().map(|s| s.timeline.total_ns))
    }
}

/// One phase over all starts.
#[derive(Debug, Clone, PartialEq)]
pub struct PhaseRow {
    /// Which.
    pub name: PhaseName,
    /// Its part of [`Summary::total_ns`]: these sum to it.
    pub ns: u64,
    /// Median over the starts, with its 95 % interval where there are enough (six).
    pub median_ns: u64,
    /// That interval.
    pub median_ci95: Option<[u64; 2]>,
    /// Page faults of the process in it, in the start with the median number of them.
    pub faults: Faults,
    /// System calls of the process in it, from the fully traced start.
    pub syscalls: Option<u64>,
}

/// One object over all starts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObjectRow {
    /// Medians of its times (`mapped_at` and constructors too), and pages written.
    pub object: Object,
    /// Constructors were told apart by breakpoints in the fully traced start (and its times brought to the measure of
    /// the observed ones); else guessed from page faults.
    pub constructors_exact: bool,
}

/// All starts of one command.
#[derive(Debug, Clone, PartialEq)]
pub struct Summary {
    /// Phases in order; absent ones are left out.
    pub phases: Vec<PhaseRow>,
    /// Sum of the phases: the mean over the middle half of the starts by total time, which one outlier cannot move.
    pub total_ns: u64,
    /// Median total.
    pub total_median_ns: u64,
    /// Median of the untraced starts beside them.
    pub untraced_median_ns: Option<u64>,
    /// Objects in the order in which they were mapped.
    pub objects: Vec<ObjectRow>,
    /// The longest stretches of the typical start.
    pub gaps: Vec<Gap>,
    /// First byte of output, median since t0.
    pub first_byte_ns: Option<u64>,
    /// Page faults of child processes, median.
    pub child_faults: u64,
}

/// Sums a study up.
pub fn summary(study: &Study) -> Summary {
    let timelines: Vec<Timeline> = study.starts.iter().map(|s| s.timeline.clone()).collect();
    let phases = summarise(&timelines);
    let calls = study.traced.as_ref().and_then(|t| t.syscalls.as_ref()).map(|s| &s.by_phase);
    let by_faults = median_by_faults(study.telling());
    let rows = phases.phases.iter().map(|p| PhaseRow {
        name: p.name,
        ns: p.ns,
        median_ns: p.median_ns,
        median_ci95: interval(timelines.iter().map(|t| t.ns(p.name).unwrap_or(0))),
        faults: by_faults.and_then(|s| s.faults.get(&p.name)).copied().unwrap_or_default(),
        syscalls: calls.map(|c| c.get(&p.name).copied().unwrap_or(0)),
    });
    Summary {
        phases: rows.collect(),
        total_ns: phases.total_ns,
        total_median_ns: phases.total_median_ns,
        untraced_median_ns: middle(study.untraced_ns.iter().copied()),
        objects: objects(study),
        gaps: gaps(study),
        first_byte_ns: middle(timelines.iter().filter_map(|t| t.first_byte)),
        child_faults: middle(study.telling().iter().map(|s| s.child_faults)).unwrap_or(0),
    }
}

fn middle(values: impl Iterator<Item = u64>) -> Option<u64> {
    let mut values: Vec<f64> = values.map(|v| v as f64).collect();
    median(&mut values).map(|m| m.round() as u64)
}

fn interval(values: impl Iterator<Item = u64>) -> Option<[u64; 2]> {
    let mut values: Vec<f64> = values.map(|v| v as f64).collect();
    values.sort_unstable_by(f64::total_cmp);
    median_interval(&values, 0.95).map(|ends| ends.map(|e| e.round() as u64))
}

/// The start with the median number of page faults: its counts by phase and kind are those of a real start, and sum.
fn median_by_faults(starts: &[Start]) -> Option<&Start> {
    let mut order: Vec<&Start> = starts.iter().collect();
    order::by_key(&mut order, |s| s.all_faults().total());
    order.get(order.len().saturating_sub(1) / 2).copied()
}

/// Objects of the typical start, with medians over all starts; what only stops can tell from the fully traced one.
fn objects(study: &Study) -> Vec<ObjectRow> {
    let Some(typical) = &study.typical else { return Vec::new() };
    let mut by_path: HashMap<&Path, Vec<&Object>> = HashMap::new();
    for object in study.telling().iter().flat_map(|s| &s.objects) {
        by_path.entry(&object.path).or_default().push(object);
    }
    let share = constructor_scale(study, &typical.start);
    let mut rows = Vec::with_capacity(typical.start.objects.len());
    for (i, object) in typical.start.objects.iter().enumerate() {
        let all = by_path.get(object.path.as_path()).map_or(&[][..], |v| v);
        let of = |pick: fn(&Object) -> u64| middle(all.iter().map(|o| pick(o))).unwrap_or(0);
        let mut row = Object {
            path: object.path.clone(),
            mapped_at: of(|o| o.mapped_at),
            mapping_ns: of(|o| o.mapping_ns),
            relocating_ns: of(|o| o.relocating_ns),
            constructing_ns: of(|o| o.constructing_ns),
            pages_written: of(|o| o.pages_written),
            faults: of(|o| o.faults),
        };
        // The same start order, and the same name: paths differ between back ends by symbolic links alone.
        let same = |o: &&Object| o.path.file_name() == object.path.file_name() || o.path == object.path;
        let traced = study.traced.as_ref().map_or(&[][..], |t| &t.start.objects);
        let exact = traced.get(i).filter(|_| traced.len() == typical.start.objects.len()).or(traced.iter().find(same));
        if let Some(exact) = exact {
            row.constructing_ns = scaled(exact.constructing_ns, share);
            row.pages_written = exact.pages_written;
        }
        rows.push(ObjectRow { object: row, constructors_exact: exact.is_some() });
    }
    rows
}

/// The phases in which constructors run: with musl those of libraries run after the entry point.
fn constructing(t: &Timeline) -> u64 {
    [PhaseName::Construct, PhaseName::RuntimeInit].iter().filter_map(|p| t.ns(*p)).sum()
}

/// Traced constructors are slower by their stops: their times are brought to the measure of an observed start.
fn constructor_scale(study: &Study, start: &Start) -> f64 {
    let traced = study.traced.as_ref().map_or(0, |t| constructing(&t.start.timeline));
    if traced == 0 { 1.0 } else { constructing(&start.timeline) as f64 / traced as f64 }
}

fn scaled(ns: u64, by: f64) -> u64 {
    (ns as f64 * by).round() as u64
}

/// Constructors by object as breakpoints told them, in place of guesses from page faults.
fn exact_constructors(study: &Study, typical: &Start, gaps: &mut Vec<Gap>) {
    let Some(traced) = &study.traced else { return };
    gaps.retain(|g| !matches!(g.cause, Cause::Constructors { .. }));
    let scale = constructor_scale(study, typical);
    let least = least_ns(typical.timeline.total_ns);
    for object in &traced.start.objects {
        let ns = scaled(object.constructing_ns, scale);
        if ns >= least {
            let cause = Cause::Constructors { path: object.path.clone() };
            gaps.push(Gap { from: None, ns, phase: PhaseName::Construct, cause });
        }
    }
    order::by_key(gaps, |g| std::cmp::Reverse(g.ns));
}

/// The typical start's longest stretches. One that is as long as all CPUIDs together and lies where the C library runs
/// them is theirs.
fn gaps(study: &Study) -> Vec<Gap> {
    let Some(typical) = &study.typical else { return Vec::new() };
    let mut gaps = typical.start.gaps.clone();
    exact_constructors(study, &typical.start, &mut gaps);
    if let (Some(count), Some(each_ns)) = (study.cpuid, study.cpuid_ns)
        && count.executed > 0
    {
        let all = count.executed as f64 * each_ns;
        let early = |g: &&mut Gap| matches!(g.phase, PhaseName::LoaderStart | PhaseName::RuntimeInit);
        let fits = |g: &&mut Gap| (0.4..3.0).contains(&(g.ns as f64 / all)) && matches!(g.cause, Cause::Running { .. });
        if let Some(gap) = gaps.iter_mut().filter(early).find(fits) {
            gap.cause = Cause::Cpuid { executed: count.executed, each_ns: each_ns.round() as u64 };
        }
    }
    gaps
}

/// The difference of one phase between two commands that were observed in the same rounds.
#[derive(Debug, Clone, PartialEq)]
pub struct PhaseDifference {
    /// Which; `None` for the total.
    pub name: Option<PhaseName>,
    /// Medians of both, 0 where a phase is absent.
    pub medians_ns: [u64; 2],
    /// Median of the differences within rounds: the second minus the first.
    pub difference_ns: i64,
    /// Its 95 % interval; `None` for fewer than six rounds.
    pub ci95: Option<[i64; 2]>,
}

/// Phase by phase, the second study against the first; the total last.
pub fn differences(a: &Study, b: &Study) -> Vec<PhaseDifference> {
    let present = |name: PhaseName| [a, b].iter().any(|s| s.starts.iter().any(|t| t.timeline.ns(name).is_some()));
    let phases = PhaseName::ALL.into_iter().filter(|n| present(*n)).map(Some);
    phases.chain([None]).map(|name| difference(a, b, name)).collect()
}

fn difference(a: &Study, b: &Study, name: Option<PhaseName>) -> PhaseDifference {
    let of = |t: &Timeline| name.map_or(t.total_ns, |n| t.ns(n).unwrap_or(0));
    let [mine, theirs] = [a, b].map(|s| s.starts.iter().map(|t| of(&t.timeline)).collect::<Vec<u64>>());
    let mut differences: Vec<f64> = mine.iter().zip(&theirs).map(|(x, y)| *y as f64 - *x as f64).collect();
    differences.sort_unstable_by(f64::total_cmp);
    let medians_ns = [&mine, &theirs].map(|v| middle(v.iter().copied()).unwrap_or(0));
    let ci95 = median_interval(&differences, 0.95).map(|ends| ends.map(|e| e.round() as i64));
    let difference_ns = median(&mut differences).unwrap_or(0.0).round() as i64;
    PhaseDifference { name, medians_ns, difference_ns, ci95 }
}
