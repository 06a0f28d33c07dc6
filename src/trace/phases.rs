//! Events to phases: where each span of one start begins and ends. Pure.
//!
//! A start is cut at boundaries that only move forward, so phases cannot overlap and sum to the total by
//! construction. A boundary that was not seen leaves its phase out; its time goes to the phase before.

use std::path::{Path, PathBuf};

use crate::trace::event::{Event, Mark, What};

/// Phases in the order in which they happen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PhaseName {
    /// Just before fork → execve called (the child's redirections are in it).
    Fork,
    /// execve called → first instruction of the new image.
    Exec,
    /// First instruction of the loader → it looks for the first library.
    LoaderStart,
    /// → all objects are mapped.
    Map,
    /// → all objects are relocated.
    Relocate,
    /// Constructors of libraries → the program's entry point.
    Construct,
    /// Entry point → `main`: the C library's own start, IRELATIVE and self-relocation of static programs, constructors
    /// of the program (and with musl those of libraries).
    RuntimeInit,
    /// `main` → exit is called.
    Main,
    /// Exit is called → wait4 returns.
    Teardown,
}

impl PhaseName {
    /// All, in order.
    pub const ALL: [PhaseName; 9] = [
        PhaseName::Fork,
        PhaseName::Exec,
        PhaseName::LoaderStart,
        PhaseName::Map,
        PhaseName::Relocate,
        PhaseName::Construct,
        PhaseName::RuntimeInit,
        PhaseName::Main,
        PhaseName::Teardown,
    ];

    /// The word in JSON and in tables.
    pub fn name(self) -> &'static str {
        match self {
            PhaseName::Fork => "fork",
            PhaseName::Exec => "exec",
            PhaseName::LoaderStart => "loader start",
            PhaseName::Map => "map",
            PhaseName::Relocate => "relocate",
            PhaseName::Construct => "construct",
            PhaseName::RuntimeInit => "runtime init",
            PhaseName::Main => "main",
            PhaseName::Teardown => "teardown",
        }
    }
}

/// One phase of one image, from and to in nanoseconds since t0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    /// Which.
    pub name: PhaseName,
    /// Which image of the process: 0 for the first exec.
    pub image: usize,
    /// Begin.
    pub from: u64,
    /// End.
    pub to: u64,
}

impl Span {
    /// Length in nanoseconds.
    pub fn ns(&self) -> u64 {
        self.to.saturating_sub(self.from)
    }
}

/// One program that the process was: more than one where it executed again.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ImageSpan {
    /// Its file, where it is known.
    pub path: Option<PathBuf>,
    /// Its loader; `None` for static programs.
    pub interp: Option<PathBuf>,
    /// Its execve was called.
    pub called: u64,
    /// Its first instruction.
    pub first_instruction: u64,
    /// The loader began to look for libraries.
    pub search: Option<u64>,
    /// All objects were mapped.
    pub mapped: Option<u64>,
    /// All objects were relocated.
    pub relocated: Option<u64>,
    /// Its entry point was reached.
    pub entry: Option<u64>,
    /// `main` was reached.
    pub main: Option<u64>,
    /// Exit was called; `None` where it was not seen, or the image executed another.
    pub exit: Option<u64>,
}

/// One start, cut into phases.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Timeline {
    /// Phases in order of time: each begins where the one before ends, the first at 0, the last ends at `total_ns`.
    pub spans: Vec<Span>,
    /// The images.
    pub images: Vec<ImageSpan>,
    /// Just before fork → wait4 returned.
    pub total_ns: u64,
    /// First byte of output.
    pub first_byte: Option<u64>,
}

impl Timeline {
    /// The phase that holds a moment.
    pub fn span_at(&self, at: u64) -> Option<&Span> {
        let i = self.spans.partition_point(|s| s.to <= at);
        self.spans.get(i).or(self.spans.last())
    }

    /// Sum of a phase over all images; `None` where it is absent.
    pub fn ns(&self, name: PhaseName) -> Option<u64> {
        let mut found = self.spans.iter().filter(|s| s.name == name).map(Span::ns).peekable();
        found.peek()?;
        Some(found.fold(0, u64::saturating_add))
    }
}

/// Cuts a recorded start. `events` are those of one start in order of time; the first is the started process's.
pub fn timeline(events: &[Event], total_ns: u64) -> Timeline {
    let Some(pid) = events.first().map(|e| e.pid) else {
        return Timeline { total_ns, ..Timeline::default() };
    };
    let own: Vec<&Event> = events.iter().filter(|e| e.pid == pid).collect();
    let images = images(&own, pid);
    let mut cuts = vec![Cut { at: 0, name: PhaseName::Fork, image: 0 }];
    for (i, image) in images.iter().enumerate() {
        cuts_of(image, i, &mut cuts);
    }
    let first_byte = events.iter().find_map(|e| matches!(e.what, What::FirstByte(_)).then_some(e.at));
    Timeline { spans: spans(&cuts, total_ns), images, total_ns, first_byte }
}

/// Where a phase begins.
struct Cut {
    at: u64,
    name: PhaseName,
    image: usize,
}

/// Each cut ends the phase before it. Boundaries are made to move forward and to stay below the total.
fn spans(cuts: &[Cut], total_ns: u64) -> Vec<Span> {
    let mut spans: Vec<Span> = Vec::with_capacity(cuts.len());
    let mut from = 0;
    for (i, cut) in cuts.iter().enumerate() {
        let to = cuts.get(i + 1).map_or(total_ns, |next| next.at.clamp(from, total_ns));
        spans.push(Span { name: cut.name, image: cut.image, from, to });
        from = to;
    }
    spans
}

/// The images of the process, each from the events between its exec and the next one's.
fn images(own: &[&Event], pid: i32) -> Vec<ImageSpan> {
    let execs: Vec<usize> = own.iter().enumerate().filter(|(_, e)| e.what == What::Exec).map(|(i, _)| i).collect();
    let mut images = Vec::with_capacity(execs.len());
    let mut before = 0;
    for (k, &at) in execs.iter().enumerate() {
        // Of several calls only the last one succeeded.
        let call = own[before..at].iter().rfind(|e| matches!(e.what, What::ExecCalled(_)));
        let last = execs.get(k + 1).copied();
        let mut image = image(&own[at..last.unwrap_or(own.len())], pid);
        image.called = call.map_or(own[at].at, |e| e.at);
        if let Some(What::ExecCalled(path @ Some(_))) = call.map(|e| &e.what) {
            image.path = image.path.or(path.clone());
        }
        if last.is_some() {
            image.exit = None;
        }
        images.push(image);
        before = at;
    }
    images
}

/// Boundaries of one image.
fn image(events: &[&Event], pid: i32) -> ImageSpan {
    let mark = |mark: Mark| events.iter().find(|e| e.what == What::Mark(mark)).map(|e| e.at);
    let exec = events.first().map_or(0, |e| e.at);
    let ran = |e: &&&Event| matches!(e.what, What::FirstInstruction | What::Fault { .. } | What::Mark(_));
    let mut image = ImageSpan {
        interp: events.iter().find_map(|e| if let What::Interp(p) = &e.what { Some(p.clone()) } else { None }),
        first_instruction: events.iter().find(ran).map_or(exec, |e| e.at),
        entry: mark(Mark::Entry),
        main: mark(Mark::Main),
        exit: exit(events, pid),
        ..ImageSpan::default()
    };
    image.path = events.iter().find_map(|e| match &e.what {
        What::Map(m) if m.path != image.interp => m.path.clone(),
        _ => None,
    });
    if image.interp.is_some() {
        if image.entry.is_none() {
            image.entry = entry_by_faults(events, image.path.as_deref());
        }
        loader(events, &mut image);
    }
    image
}

/// Where nothing marks the entry point: the first page fault by an instruction of the program's own file. Its first
/// page of code is not there before it runs (unless the loader called a resolver or pre-initialiser in it).
fn entry_by_faults(events: &[&Event], program: Option<&Path>) -> Option<u64> {
    let code: Vec<(u64, u64)> = events
        .iter()
        .filter_map(|e| match &e.what {
            What::Map(m) if m.prot.exec && m.path.as_deref() == program && program.is_some() => {
                Some((m.addr, m.addr.saturating_add(m.len)))
            }
            _ => None,
        })
        .collect();
    let own = |ip: u64| code.iter().any(|(from, to)| (*from..*to).contains(&ip));
    events.iter().find(|e| matches!(e.what, What::Fault { ip, .. } if own(ip))).map(|e| e.at)
}

/// Exit is called by any thread, or a signal ends the first one.
fn exit(events: &[&Event], pid: i32) -> Option<u64> {
    let called = events.iter().find(|e| match &e.what {
        What::Syscall(c) => c.name == "exit_group",
        What::Mark(Mark::ExitFunction) => true,
        // perf tells only when the task is gone, in the middle of teardown: better than nothing.
        What::ExitBegins | What::TaskGone => e.tid == pid,
        _ => false,
    });
    called.map(|e| e.at)
}

/// The loader's boundaries. Its rendezvous function is called when it begins to search and when all is relocated
/// (glibc), or only then (musl); calls behind those, or behind the entry point, belong to dlopen.
fn loader(events: &[&Event], image: &mut ImageSpan) {
    let end = image.entry.or(image.exit).unwrap_or(u64::MAX);
    let calls: Vec<u64> =
        events.iter().filter(|e| e.what == What::Mark(Mark::Rendezvous) && e.at <= end).map(|e| e.at).take(2).collect();
    let (added, relocated) = match calls[..] {
        [] => (None, None),
        // One call: musl, or a glibc that failed while it searched; only the former comes to the entry point.
        [one] if image.entry.is_some() => (None, Some(one)),
        [one] => (Some(one), None),
        [added, consistent, ..] => (Some(added), Some(consistent)),
    };
    // Where nothing marks it: the loader protects what it has relocated, the last object at the end.
    let protected = |e: &&&Event| matches!(e.what, What::Protect(_)) && e.at <= end;
    let relocated = match relocated {
        None if image.entry.is_some() => events.iter().rfind(protected).map(|e| e.at),
        marked => marked,
    };
    let until = relocated.unwrap_or(end);
    let objects: Vec<u64> = events
        .iter()
        .filter(|e| match &e.what {
            What::Map(m) => m.path.is_some() && m.path != image.interp && m.path != image.path,
            _ => false,
        })
        .map(|e| e.at)
        .filter(|at| *at > image.first_instruction && *at <= until)
        .collect();
    image.search = added.or(objects.first().copied());
    image.mapped = objects.last().copied();
    image.relocated = relocated;
}

/// Pushes where each phase of this image begins.
fn cuts_of(image: &ImageSpan, index: usize, cuts: &mut Vec<Cut>) {
    let stop = image.exit.unwrap_or(u64::MAX);
    let mut cut = |at: Option<u64>, name| {
        // What would begin after exit was called did not happen.
        if let Some(at) = at.filter(|at| *at <= stop) {
            cuts.push(Cut { at, name, image: index });
        }
    };
    cut(Some(image.called), PhaseName::Exec);
    if image.interp.is_some() {
        cut(Some(image.first_instruction), PhaseName::LoaderStart);
        cut(image.search, PhaseName::Map);
        // Without an object to map, relocation begins where the search would have. A loader that failed before did not
        // come to it.
        if image.relocated.is_some() || image.entry.is_some() {
            cut(image.mapped.or(image.search), PhaseName::Relocate);
        }
        cut(image.relocated, PhaseName::Construct);
    }
    // A static program begins at its entry point.
    let begin = image.entry.or(image.interp.is_none().then_some(image.first_instruction));
    match image.main {
        Some(main) => {
            cut(begin, PhaseName::RuntimeInit);
            cut(Some(main), PhaseName::Main);
        }
        None => cut(begin, PhaseName::Main),
    }
    if let Some(exit) = image.exit {
        cuts.push(Cut { at: exit, name: PhaseName::Teardown, image: index });
    }
}
