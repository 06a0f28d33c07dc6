//! Several starts of one command, by the best means that works here.
//!
//! The order of one traced start: fork, the child waits; events or breakpoints are prepared; an untraced start is made
//! and thrown away, a second one is kept (so that both sit equally warm, side by side); the child is released.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::error::{Context, Error, Exit, Result};
use crate::sys::linux::cpuid;
use crate::sys::process::Program;
use crate::sys::start::{StartOptions, Starter};
use crate::sys::wait::WaitStatus;
use crate::trace::analysis::{Start, analyse, syscalls};
use crate::trace::locate::Locator;
use crate::trace::recording::{Marked, NotTraced, Recording};
use crate::trace::records::{self, Watcher};
use crate::trace::stops::{Tracer, Watch};
use crate::trace::summary::{Choice, Means, Study, Traced, Typical};

/// Makes the starts of a study. Belongs to the thread that made it.
pub struct Observer<'a> {
    program: &'a Program,
    timeout_ns: Option<u64>,
    watcher: Watcher,
    tracer: Tracer,
    starter: Starter,
    locator: Locator,
    marked: Vec<Marked>,
    study: Study,
}

/// A CPUID dearer than this leaves a virtual machine: worth counting.
const DEAR_CPUID_NS: f64 = 400.0;

impl<'a> Observer<'a> {
    /// Finds the means, with a start or two for each that is tried, and makes the fully traced start.
    ///
    /// # Errors
    /// Where the command fails to start, is refused (setuid), runs too long, or nothing observes it.
    pub fn new(program: &'a Program, path: &Path, choice: Choice, timeout_ns: Option<u64>) -> Result<Observer<'a>> {
        let mut locator = Locator::default();
        let hops = locator.prepare(path);
        refuse_setuid(hops.last().map_or(path, PathBuf::as_path))?;
        let study = Study {
            means: Means::Ptrace,
            reasons: Vec::new(),
            hops,
            starts: Vec::new(),
            detailed: Vec::new(),
            untraced_ns: Vec::new(),
            typical: None,
            traced: None,
            cpuid: None,
            cpuid_ns: cpuid::cost_ns(),
            lost: 0,
            status: WaitStatus(0),
        };
        let (watcher, tracer, starter) = (Watcher::new()?, Tracer::new()?, Starter::new()?);
        let mut observer =
            Observer { program, timeout_ns, watcher, tracer, starter, locator, marked: Vec::new(), study };
        let learned = observer.trace_fully()?;
        observer.study.means = observer.find_means(choice, &learned)?;
        if choice != Choice::Phases {
            observer.count_cpuid();
        }
        Ok(observer)
    }

    /// One start with every system call stopped; gives the places that it found without symbols.
    fn trace_fully(&mut self) -> Result<Vec<Marked>> {
        let (watch, limit) = (Watch::All, self.timeout_ns);
        match self.tracer.record(self.program, watch, &mut self.locator, limit, &mut || ()) {
            Ok(recording) => {
                in_time(&recording)?;
                let start = analyse(&recording.events, recording.total_ns);
                self.study.status = recording.status;
                self.study.traced = Some(Traced {
                    syscalls: syscalls(&recording.events, &start.timeline),
                    start,
                    threads_max: recording.threads_max,
                    children: recording.children,
                    peak_rss_bytes: recording.peak_rss_bytes,
                    elapsed_ns: recording.total_ns.saturating_add(recording.held_ns),
                });
                Ok(recording.learned)
            }
            Err(NotTraced::Denied(why)) => {
                self.study.reasons.push(format!("system calls and constructors by object are not known: {why}"));
                Ok(Vec::new())
            }
            Err(NotTraced::Failed(e)) => Err(e),
        }
    }

    fn find_means(&mut self, choice: Choice, learned: &[Marked]) -> Result<Means> {
        let may_trace = self.study.traced.is_some();
        let denied = if choice == Choice::Ptrace { None } else { self.try_perf(choice, learned, may_trace)? };
        match (denied, choice) {
            (Some(Ok(means)), _) => Ok(means),
            (Some(Err(why)), Choice::Perf) => Err(Error::new(why).context("--backend perf")),
            (Some(Err(why)), _) if may_trace => {
                self.study.reasons.push(format!("perf is not used: {why}"));
                Ok(Means::Ptrace)
            }
            (None, _) if may_trace => Ok(Means::Ptrace),
            (why, _) => {
                let mut all = self.study.reasons.clone();
                all.extend(why.and_then(Result::err));
                Err(Error::new(all.join("; ")).context("nothing can observe a start here"))
            }
        }
    }

    /// perf with the best marks that are permitted, or why it cannot be used at all.
    fn try_perf(
        &mut self,
        choice: Choice,
        learned: &[Marked],
        may_trace: bool,
    ) -> Result<Option<Result<Means, String>>> {
        let first = match self.without_marks() {
            Ok(recording) => recording,
            Err(NotTraced::Denied(why)) => return Ok(Some(Err(why))),
            Err(NotTraced::Failed(e)) => return Err(e),
        };
        in_time(&first)?;
        self.tracer.ring_bytes = self.watcher.ring_bytes();
        self.study.status = first.status;
        if matches!(choice, Choice::Quick | Choice::Phases) && may_trace {
            return Ok(Some(Ok(Means::PerfBreakpoints)));
        }
        self.marked = records::places(&first.events, learned, &mut self.locator);
        let marked = self.marked.clone();
        match self.watched(&marked, false, &mut |_| ()) {
            Ok(_) => Ok(Some(Ok(Means::PerfUprobes))),
            Err(NotTraced::Denied(why)) if may_trace => {
                self.study.reasons.push(format!("uprobes are not used: {why}"));
                Ok(Some(Ok(Means::PerfBreakpoints)))
            }
            Err(NotTraced::Denied(why)) => {
                self.study.reasons.push(format!("main and exit are not known, other boundaries roughly: {why}"));
                Ok(Some(Ok(Means::Perf)))
            }
            Err(NotTraced::Failed(e)) => Err(e),
        }
    }

    /// A start without marks, repeated with more memory for its records where that was too little.
    fn without_marks(&mut self) -> Result<Recording, NotTraced> {
        const TRIES: usize = 3;
        let mut recording = self.watched(&[], true, &mut |_| ())?;
        for _ in 1..TRIES {
            if recording.lost == 0 {
                break;
            }
            recording = self.watched(&[], true, &mut |_| ())?;
        }
        Ok(recording)
    }

    fn watched(
        &mut self,
        marked: &[Marked],
        faults: bool,
        before: &mut dyn FnMut(&mut Starter),
    ) -> Result<Recording, NotTraced> {
        let starter = &mut self.starter;
        let mut before = || before(starter);
        self.watcher.record(self.program, marked, faults, &mut self.locator, self.timeout_ns, &mut before)
    }

    fn count_cpuid(&mut self) {
        let dear = self.study.cpuid_ns.is_some_and(|ns| ns >= DEAR_CPUID_NS);
        if dear && self.study.traced.is_some() {
            // Where it fails the gap stays without a cause: no reason to fail.
            self.study.cpuid = self.tracer.count_cpuid(self.program).ok();
        }
    }

    /// One observed start with an untraced one beside it; in the first rounds a detailed one after them.
    ///
    /// # Errors
    /// Where it cannot be started, runs too long, or was interrupted.
    pub fn observe(&mut self) -> Result<()> {
        let options = StartOptions { timeout_ns: self.timeout_ns, ..StartOptions::default() };
        let mut untraced = None;
        let program = self.program;
        let recording = self.record(false, &mut |starter: &mut Starter| {
            // The first one after other work is slower, and thrown away.
            let _ = starter.start(program, &options);
            untraced = starter.start(program, &options).ok();
        })?;
        if let Some(raw) = untraced {
            self.study.untraced_ns.push(raw.t_exit.saturating_sub(raw.t0));
        }
        let with_detail = matches!(self.study.means, Means::PerfUprobes | Means::PerfBreakpoints);
        if with_detail && self.study.detailed.len() < DETAILED {
            let detailed = self.record(true, &mut |starter: &mut Starter| {
                let _ = starter.start(program, &options);
            })?;
            keep(&detailed, &mut self.study.detailed, Some(&mut self.study.typical));
            self.study.lost = self.study.lost.saturating_add(detailed.lost);
        }
        let typical = if with_detail { None } else { Some(&mut self.study.typical) };
        keep(&recording, &mut self.study.starts, typical);
        self.study.status = recording.status;
        self.study.lost = self.study.lost.saturating_add(recording.lost);
        Ok(())
    }

    fn record(&mut self, detailed: bool, before: &mut dyn FnMut(&mut Starter)) -> Result<Recording> {
        let recorded = match self.study.means {
            Means::PerfUprobes => {
                let marked = self.marked.clone();
                self.watched(&marked, detailed, before)
            }
            Means::Perf => self.watched(&[], true, before),
            Means::PerfBreakpoints | Means::Ptrace => {
                let watch = match (self.study.means, detailed) {
                    (Means::Ptrace, _) => Watch::Loader,
                    (_, false) => Watch::Marks,
                    (_, true) => Watch::Faults,
                };
                let starter = &mut self.starter;
                let mut before = || before(starter);
                self.tracer.record(self.program, watch, &mut self.locator, self.timeout_ns, &mut before)
            }
        };
        let recording = recorded.map_err(|e| match e {
            NotTraced::Denied(why) => Error::new(why),
            NotTraced::Failed(e) => e,
        })?;
        in_time(&recording)?;
        Ok(recording)
    }

    /// What was observed.
    pub fn finish(self) -> Study {
        self.study
    }
}

/// Detailed starts at most.
const DETAILED: usize = 5;

/// Keeps the analysis, and the events of the start that is nearest to the median so far: all events of all starts
/// would make us large, and forking slow.
fn keep(recording: &Recording, starts: &mut Vec<Start>, typical: Option<&mut Option<Typical>>) {
    let start = analyse(&recording.events, recording.total_ns);
    let mut totals: Vec<u64> = starts.iter().map(|s| s.timeline.total_ns).collect();
    totals.push(recording.total_ns);
    totals.sort_unstable();
    let median = totals.get(totals.len() / 2).copied().unwrap_or(0);
    if let Some(typical) = typical {
        let nearer = |t: &Typical| recording.total_ns.abs_diff(median) < t.start.timeline.total_ns.abs_diff(median);
        if typical.as_ref().is_none_or(nearer) {
            *typical = Some(Typical { start: start.clone(), events: recording.events.clone() });
        }
    }
    starts.push(start);
}

/// A start that was killed for running too long shows nothing.
fn in_time(recording: &Recording) -> Result<()> {
    if recording.heard.timed_out {
        return Err(Error::new("still running when its time was over (--timeout)").with_exit(Exit::TimedOut));
    }
    Ok(())
}

/// Under trace, and with events of an ordinary user, the kernel starts a setuid program without its privileges: what
/// would be seen is another start than the real one.
fn refuse_setuid(path: &Path) -> Result<()> {
    const SETUID: u32 = 0o4000;
    const SETGID: u32 = 0o2000;
    let file = std::fs::metadata(path).context(|| path.display().to_string())?;
    let me = crate::sys::identity::identity();
    let gains = |bit: u32, owner: u32, mine: u32| file.mode() & bit != 0 && owner != mine;
    if gains(SETUID, file.uid(), me.user) || gains(SETGID, file.gid(), me.group) {
        let why = "is setuid or setgid: traced it would start without its privileges, which is another start";
        return Err(Error::new(why).context(path.display().to_string()));
    }
    Ok(())
}
