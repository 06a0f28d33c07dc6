//! Recorded starts, analysed: phases never overlap and sum to the total, and the figures are those written down.
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stderr, clippy::indexing_slicing, reason = "a test")]

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use premain::stat::rng::Rng;
use premain::trace::analysis::{Start, analyse, syscalls};
use premain::trace::event::{Event, Mapping, Mark, Prot, Syscall, What, parse_stream};
use premain::trace::phases::{PhaseName, Timeline, timeline};
use premain::trace::recording::tasks;

fn fixtures() -> Vec<PathBuf> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/trace");
    let all = std::fs::read_dir(dir).unwrap().map(|e| e.unwrap().path());
    let mut streams: Vec<PathBuf> = all.filter(|p| p.extension().is_some_and(|e| e == "events")).collect();
    streams.sort();
    assert!(streams.len() > 15);
    streams
}

fn read(path: &Path) -> Vec<Event> {
    let text = std::fs::read_to_string(path).unwrap();
    parse_stream(&text).unwrap_or_else(|line| panic!("{}: line {line}", path.display()))
}

/// When the start was over: children may go on after it.
fn total(events: &[Event]) -> u64 {
    events.iter().find(|e| e.what == What::Reaped).map_or(0, |e| e.at)
}

/// Phases follow one another without a hole, from 0 to the total.
fn check(t: &Timeline) {
    let mut at = 0;
    for span in &t.spans {
        assert_eq!(span.from, at, "{t:?}");
        assert!(span.to >= span.from, "{t:?}");
        at = span.to;
    }
    assert_eq!(at, if t.spans.is_empty() { 0 } else { t.total_ns });
    let sum: u64 = PhaseName::ALL.iter().filter_map(|n| t.ns(*n)).sum();
    assert_eq!(sum, at);
}

/// What a person can check by eye against the stream.
fn describe(events: &[Event], start: &Start) -> String {
    let mut s = String::new();
    for span in &start.timeline.spans {
        let _ = writeln!(s, "{} {:<12} {:>9} {:>9}", span.image, span.name.name(), span.from, span.ns());
    }
    for (phase, f) in &start.faults {
        let _ = writeln!(
            s,
            "faults {:<12} read {} cow {} zero {} unsorted {} major {}",
            phase.name(),
            f.read,
            f.cow,
            f.zero,
            f.unsorted,
            f.major
        );
    }
    for o in &start.objects {
        let _ = writeln!(
            s,
            "object {} mapped {} relocating {} constructing {} pages {}",
            o.path.display(),
            o.mapped_at,
            o.relocating_ns,
            o.constructing_ns,
            o.pages_written
        );
    }
    let (threads, children) = tasks(events);
    let _ = writeln!(s, "threads {threads} children {children} first byte {:?}", start.timeline.first_byte);
    // Light traces stop at the loader's calls alone: a table of those would be no census.
    if let Some(calls) = syscalls(events, &start.timeline).filter(|c| c.by_phase.contains_key(&PhaseName::Main)) {
        let _ = writeln!(s, "system calls {} to first byte {:?}", calls.total(), calls.to_first_byte);
        for (name, row) in &calls.by_name {
            let _ = writeln!(s, "call {name} {} errors {} by children {}", row.calls, row.errors, row.by_children);
        }
    }
    s
}

#[test]
fn recorded_starts_are_cut_as_written_down() {
    let bless = std::env::var_os("BLESS").is_some();
    for path in fixtures() {
        let events = read(&path);
        let start = analyse(&events, total(&events));
        check(&start.timeline);
        let text = describe(&events, &start);
        let expected = path.with_extension("expected");
        if bless {
            std::fs::write(&expected, &text).unwrap();
            eprintln!("{}:\n{text}", path.display());
        }
        let written = std::fs::read_to_string(&expected).unwrap_or_default();
        assert_eq!(text, written, "{}", path.display());
    }
}

#[test]
fn both_back_ends_see_the_same_phases() {
    for name in ["static", "static-pie", "pie", "musl", "musl-static", "threads", "crash", "gone", "script"] {
        let [perf, ptrace] = ["perf", "ptrace"].map(|backend| {
            let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/trace");
            let events = read(&dir.join(format!("{name}.{backend}.events")));
            let t = timeline(&events, total(&events));
            t.spans.iter().map(|s| (s.image, s.name)).collect::<Vec<_>>()
        });
        assert_eq!(perf, ptrace, "{name}");
    }
}

#[test]
fn a_stream_that_ends_early_still_sums() {
    for path in fixtures() {
        let events = read(&path);
        for n in 0..events.len() {
            let end = events[..n].last().map_or(0, |e| e.at);
            check(&analyse(&events[..n], end).timeline);
        }
    }
}

/// Whatever the order and times of events: spans follow one another and sum.
#[test]
fn nonsense_sums_too() {
    let mut rng = Rng::new(7);
    for _ in 0..2000 {
        let events: Vec<Event> = (0..rng.below(40)).map(|_| nonsense(&mut rng)).collect();
        check(&analyse(&events, rng.below(2000)).timeline);
    }
}

fn nonsense(rng: &mut Rng) -> Event {
    let path = ["/p", "/l", "/i"][rng.index(3)];
    let mapping = Mapping {
        addr: rng.below(8) * 4096,
        len: rng.below(4) * 4096,
        offset: 0,
        prot: Prot::from_bits(rng.below(8)),
        path: Some(path.into()),
    };
    let what = match rng.below(15) {
        0 => What::ExecCalled(None),
        1 => What::Exec,
        2 => What::FirstInstruction,
        3 => What::Interp("/i".into()),
        4 => What::Map(mapping),
        5 => What::Protect(mapping),
        6 => What::Fault { addr: rng.below(40_000), ip: rng.below(40_000), major: rng.below(2) == 0 },
        7 => What::Faults { minor: rng.below(9), major: 0 },
        8 => What::Mark(Mark::Rendezvous),
        9 => What::Mark(Mark::Entry),
        10 => What::Mark(Mark::Main),
        11 => What::Mark(Mark::ExitFunction),
        12 => What::ExitBegins,
        13 => What::Syscall(Syscall { name: "exit_group".into(), ns: rng.below(50), result: None, path: None }),
        _ => What::Constructors(path.into()),
    };
    let tid = 1 + rng.below(3) as i32;
    Event { at: rng.below(3000), pid: if tid == 3 { 3 } else { 1 }, tid, what }
}
