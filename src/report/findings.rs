//! Findings: one sentence with a figure, where the figure comes from, in order of weight.
//!
//! Here only what was measured or counted is said. The weight of a finding is the measured time of the phase that
//! holds what was counted; it orders the list and is not a promise of what a change would save.

use crate::facts::{Kind, LinkFacts};
use crate::loader::Closure;
use crate::order;
use crate::record::bench::{BenchRecord, MAIN_METRIC};
use crate::report::accounting;
use crate::report::explain::Explained;
use crate::report::trace::{TracedCommand, cause_text};
use crate::trace::gaps::Cause;
use crate::trace::phases::PhaseName;
use crate::trace::summary::Summary;
use crate::units::{count, counted, time};

/// Where the figure of a finding comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// Timed or observed in starts.
    Measured,
    /// Counted in files.
    Counted,
    /// From the host model.
    Predicted,
}

impl Source {
    /// The word in output.
    pub fn name(self) -> &'static str {
        match self {
            Source::Measured => "measured",
            Source::Counted => "counted",
            Source::Predicted => "predicted",
        }
    }
}

/// One finding.
#[derive(Debug, Clone, PartialEq)]
pub struct Finding {
    /// The sentence.
    pub text: String,
    /// Where its figure comes from.
    pub source: Source,
    /// What a change would save, where that is known.
    pub saving_ns: Option<u64>,
    /// Measured time of the part of a start that it is about.
    pub weight_ns: u64,
}

impl Finding {
    fn new(source: Source, weight_ns: u64, text: String) -> Finding {
        Finding { text, source, saving_ns: None, weight_ns }
    }
}

/// All findings on a program, heaviest first.
pub fn findings(e: &Explained) -> Vec<Finding> {
    let observed = e.phases.as_ref().ok();
    let phases = observed.map(|o| &o.summary);
    let closure = e.closure.as_ref().ok();
    let mut found = vec![floor(&e.bench)];
    found.extend(missing(closure));
    if let Some(p) = phases {
        found.extend(loader_share(p));
        found.extend(own_share(p));
    }
    found.extend(observed.and_then(longest));
    if let Some(program) = e.program() {
        found.extend(relocation(program, closure, phases));
        found.extend(lookups(closure, phases));
        found.extend(objects(closure, phases));
        found.extend(constructors(program, closure, phases));
    }
    if let Ok(accounted) = &e.accounted {
        found.extend(accounting::findings(accounted));
    }
    found.extend(scripts(e));
    found.extend(threads(&e.bench));
    order::by_key(&mut found, |f| std::cmp::Reverse(f.weight_ns));
    found
}

fn ns(phases: Option<&Summary>, names: &[PhaseName]) -> u64 {
    let all = phases.map_or(&[][..], |p| &p.phases);
    all.iter().filter(|p| names.contains(&p.name)).map(|p| p.ns).sum()
}

fn percent(part: u64, whole: u64) -> String {
    let share = part as f64 * 100.0 / (whole as f64).max(1.0);
    if share < 9.95 { format!("{share:.1} %") } else { format!("{share:.0} %") }
}

fn floor(bench: &BenchRecord) -> Finding {
    let p50 =
        |c: Option<&crate::record::bench::CommandRecord>| c.and_then(|c| c.metric(MAIN_METRIC)).map_or(0, |s| s.p50);
    let (floor, own) = (p50(Some(&bench.control)), p50(bench.commands.first()));
    let text = format!(
        "fork, exec, exit and wait alone cost {} here ({} of this start): no change to the program goes below that",
        time(floor as f64),
        percent(floor, own)
    );
    Finding::new(Source::Measured, floor, text)
}

fn missing(closure: Option<&Closure>) -> Option<Finding> {
    let c = closure?;
    let first = c.missing.first()?;
    let name = String::from_utf8_lossy(&first.name).into_owned();
    let text = format!(
        "{} not found, {name} first: 'premain inspect' shows every place tried",
        counted(c.missing.len() as u64, "library")
    );
    Some(Finding::new(Source::Counted, u64::MAX, text))
}

const LOADER: [PhaseName; 4] = [PhaseName::LoaderStart, PhaseName::Map, PhaseName::Relocate, PhaseName::Construct];

fn loader_share(p: &Summary) -> Option<Finding> {
    let loader = ns(Some(p), &LOADER);
    let part = |name| ns(Some(p), &[name]);
    (loader > 0).then(|| {
        let text = format!(
            "the loader takes {} of an observed start ({}): {} to map, {} to relocate, {} in constructors of libraries",
            time(loader as f64),
            percent(loader, p.total_ns),
            time((part(PhaseName::LoaderStart) + part(PhaseName::Map)) as f64),
            time(part(PhaseName::Relocate) as f64),
            time(part(PhaseName::Construct) as f64)
        );
        Finding::new(Source::Measured, loader, text)
    })
}

fn own_share(p: &Summary) -> Option<Finding> {
    let (init, main) = (ns(Some(p), &[PhaseName::RuntimeInit]), ns(Some(p), &[PhaseName::Main]));
    let own = init + main;
    (own > 0).then(|| {
        let text = format!(
            "from its entry point to exit the program runs for {} ({}), {} of it before main",
            time(own as f64),
            percent(own, p.total_ns),
            time(init as f64)
        );
        Finding::new(Source::Measured, own, text)
    })
}

/// The longest single stretch, with its cause.
fn longest(observed: &TracedCommand) -> Option<Finding> {
    let gap = observed.summary.gaps.first()?;
    let shown = match gap.cause {
        // What the program does of its own is not a matter of its start; it has its line already.
        Cause::Running { .. } | Cause::Syscall { .. } => gap.phase < PhaseName::Main,
        _ => true,
    };
    let share = percent(gap.ns, observed.summary.total_ns);
    let text = format!(
        "the longest stretch is {}, {} ({share} of an observed start)",
        cause_text(observed, gap),
        time(gap.ns as f64)
    );
    shown.then(|| Finding::new(Source::Measured, gap.ns, text))
}

fn relocation(program: &LinkFacts, closure: Option<&Closure>, phases: Option<&Summary>) -> Option<Finding> {
    let (mut r, mut pages, mut objects) = (program.relocations, program.pages_written, 1);
    if let Some(c) = closure {
        r = crate::facts::RelocationCounts::default();
        c.objects.iter().for_each(|o| r.add(&o.relocations));
        pages = c.totals.pages_written;
        objects = c.objects.len() as u64;
    }
    let relative = r.relative + r.relr;
    if pages == 0 {
        return None;
    }
    let weight =
        ns(phases, &[if program.kind == Kind::StaticPie { PhaseName::RuntimeInit } else { PhaseName::Relocate }]);
    let biggest = closure.and_then(|c| c.objects.iter().max_by_key(|o| o.pages_written));
    let mut text = format!(
        "{} and {} others write {} of 4 KiB in {}",
        counted(relative, "relative relocation"),
        count(r.total() - relative - r.none),
        counted(pages, "page"),
        counted(objects, "object")
    );
    if let Some(o) = biggest.filter(|o| objects > 1 && o.pages_written * 2 > pages) {
        text.push_str(&format!(", {} of them in {}", count(o.pages_written), o.path.display()));
    }
    Some(Finding::new(Source::Counted, weight, text))
}

fn lookups(closure: Option<&Closure>, phases: Option<&Summary>) -> Option<Finding> {
    let t = &closure?.totals;
    let (lookups, probes) = (t.lookups?, t.probes?);
    let text = format!(
        "{} at start, {} more answered from the last one's result; {} of objects searched ({:.1} a look-up)",
        counted(lookups, "symbol look-up"),
        count(t.lookups_cached.unwrap_or(0)),
        counted(probes, "table"),
        probes as f64 / (lookups as f64).max(1.0)
    );
    // Lookups are part of relocating; they rank just behind it.
    (lookups > 0).then(|| Finding::new(Source::Counted, ns(phases, &[PhaseName::Relocate]).saturating_sub(1), text))
}

fn objects(closure: Option<&Closure>, phases: Option<&Summary>) -> Option<Finding> {
    let c = closure?;
    let libraries = c.totals.objects.saturating_sub(1);
    let text = match c.totals.failed_opens {
        0 => format!("{} to map, loader included, each found at the first place tried", counted(libraries, "object")),
        n => format!("{} to map, loader included, after {}", counted(libraries, "object"), counted(n, "failed open")),
    };
    (libraries > 0).then(|| Finding::new(Source::Counted, ns(phases, &[PhaseName::LoaderStart, PhaseName::Map]), text))
}

fn constructors(program: &LinkFacts, closure: Option<&Closure>, phases: Option<&Summary>) -> Option<Finding> {
    let n = closure.map_or(program.init.total(), |c| c.totals.init_functions);
    let text = format!("{} before main, in the program and its libraries", counted(n, "init function"));
    let weight = ns(phases, &[PhaseName::Construct]);
    // Every C program has a handful that do nothing: worth a line only where they are many or take time.
    (n > 16 || weight > 50_000).then(|| Finding::new(Source::Counted, weight, text))
}

fn scripts(e: &Explained) -> Option<Finding> {
    let hops = e.files.len().saturating_sub(1) as u64;
    let program = e.program()?;
    let text = format!("a script: {} to {}, whose start is what is paid", counted(hops, "hop"), program.path.display());
    (hops > 0).then(|| Finding::new(Source::Counted, 0, text))
}

fn threads(bench: &BenchRecord) -> Option<Finding> {
    let c = bench.commands.first()?;
    let (probes, cpu) = (c.probes.as_ref()?, c.metric("cpu_ns")?.p50);
    let least = if probes.threads_exact { "" } else { "at least " };
    let text = format!(
        "{least}{} at once; {} of processor time a start",
        counted(probes.max_threads, "thread"),
        time(cpu as f64)
    );
    (probes.max_threads > 1).then(|| Finding::new(Source::Measured, 0, text))
}
