//! The typical start in the trace-event format that Perfetto and Chrome's viewer read: microseconds, one process,
//! phases and objects as spans, page faults and marks as instants.
//!
//! Format: "Trace Event Format", complete events (`ph` X), instants (i), metadata (M).

use super::{TraceReport, TracedCommand, cause_text, short};
use crate::json::Json;
use crate::trace::event::{Event, What};
use crate::trace::gaps::Gap;

/// Rows of the viewer.
const PHASES: u64 = 1;
const STRETCHES: u64 = 2;
const EVENTS: u64 = 3;
const CALLS: u64 = 4;

/// The document: one process for each command.
pub fn document(r: &TraceReport) -> Json {
    let events = r.commands.iter().enumerate().flat_map(|(i, c)| command(i as u64 + 1, c));
    Json::object([("traceEvents", Json::array(events)), ("displayTimeUnit", "ns".into())])
}

fn us(ns: u64) -> Json {
    Json::Float(ns as f64 / 1e3)
}

fn span(pid: u64, tid: u64, name: &str, from: u64, ns: u64) -> Json {
    Json::object([
        ("ph", "X".into()),
        ("pid", pid.into()),
        ("tid", tid.into()),
        ("name", name.into()),
        ("ts", us(from)),
        ("dur", us(ns)),
    ])
}

fn command(pid: u64, c: &TracedCommand) -> Vec<Json> {
    let mut out = vec![named("process_name", pid, 0, &c.name)];
    for (tid, name) in [
        (PHASES, "phases"),
        (STRETCHES, "longest stretches"),
        (EVENTS, "events"),
        (CALLS, "system calls (another start, fully traced)"),
    ] {
        out.push(named("thread_name", pid, tid, name));
    }
    let Some(typical) = &c.study.typical else { return out };
    out.extend(typical.start.timeline.spans.iter().map(|s| span(pid, PHASES, s.name.name(), s.from, s.ns())));
    let placed = |g: &Gap| g.from.map(|from| span(pid, STRETCHES, &cause_text(c, g), from, g.ns));
    out.extend(c.summary.gaps.iter().filter_map(placed));
    out.extend(typical.events.iter().filter_map(|e| instant(pid, e)));
    if let Some(calls) = c.study.traced.as_ref().and_then(|t| t.syscalls.as_ref()) {
        out.extend(calls.list.iter().map(|call| {
            let path = call.path.as_ref().map_or(String::new(), |p| format!(" {}", p.display()));
            span(pid, CALLS, &format!("{}{path}", call.name), call.at, call.ns)
        }));
    }
    out
}

fn named(what: &str, pid: u64, tid: u64, name: &str) -> Json {
    Json::object([
        ("ph", "M".into()),
        ("pid", pid.into()),
        ("tid", tid.into()),
        ("name", what.into()),
        ("args", Json::object([("name", Json::from(name))])),
    ])
}

fn instant(pid: u64, e: &Event) -> Option<Json> {
    let name = match &e.what {
        What::Fault { major: false, .. } => "page fault".to_string(),
        What::Fault { major: true, .. } => "page fault, disk".to_string(),
        What::Map(m) => format!("map {}", m.path.as_deref().map_or("memory".to_string(), short)),
        What::Protect(m) => format!("protect {}", m.path.as_deref().map_or("memory".to_string(), short)),
        What::Mark(mark) => mark.name().to_string(),
        What::Exec => "exec".to_string(),
        What::NewTask { thread, .. } => if *thread { "new thread" } else { "new process" }.to_string(),
        What::FirstByte(_) => "first byte of output".to_string(),
        _ => return None,
    };
    Some(Json::object([
        ("ph", "i".into()),
        ("s", "t".into()),
        ("pid", pid.into()),
        ("tid", EVENTS.into()),
        ("name", name.into()),
        ("ts", us(e.at)),
    ]))
}
