//! The JSON of `trace`, schema `premain.trace/1`.

use std::path::Path;

use super::{TraceReport, TracedCommand, cause_text};
use crate::json::Json;
use crate::report::bench_json::argv;
use crate::trace::analysis::{Faults, ListedCall, Syscalls};
use crate::trace::gaps::{Cause, Gap};
use crate::trace::phases::{ImageSpan, Timeline};
use crate::trace::summary::{ObjectRow, PhaseDifference, PhaseRow};

/// The whole document. `with_list` adds every system call.
pub fn document(r: &TraceReport, with_list: bool) -> Json {
    Json::object([
        ("schema", "premain.trace/1".into()),
        ("tool_version", env!("CARGO_PKG_VERSION").into()),
        ("commands", Json::array(r.commands.iter().map(|c| command(c, with_list)))),
        ("differences", Json::array(r.differences.iter().map(difference))),
    ])
}

fn path(p: &Path) -> Json {
    Json::os(p.as_os_str())
}

fn command(c: &TracedCommand, with_list: bool) -> Json {
    let (study, s) = (&c.study, &c.summary);
    let traced = study.traced.as_ref();
    let calls = traced.and_then(|t| t.syscalls.as_ref());
    Json::object([
        ("name", c.name.as_str().into()),
        ("argv", argv(&c.argv)),
        ("path", path(&c.path)),
        ("hops", Json::array(study.hops.iter().map(|p| path(p)))),
        ("backend", study.means.backend().into()),
        ("marks", study.means.marks().into()),
        ("reasons", Json::array(study.reasons.iter().map(String::as_str))),
        ("starts", study.starts.len().into()),
        ("status", study.status.to_string().into()),
        ("total_ns", s.total_ns.into()),
        ("total_median_ns", s.total_median_ns.into()),
        ("untraced_total_ns", s.untraced_median_ns.into()),
        ("detailed_starts", study.detailed.len().into()),
        ("detailed_total_median_ns", study.detailed_median_ns().into()),
        ("distortion", c.distortion().map(Json::Float).into()),
        ("lost_records", study.lost.into()),
        ("phases", Json::array(s.phases.iter().map(phase))),
        ("images", images(study.typical.as_ref().map(|t| &t.start.timeline))),
        ("objects", Json::array(s.objects.iter().map(|o| object(c, o)))),
        ("gaps", Json::array(s.gaps.iter().map(|g| gap(c, g)))),
        ("syscalls", calls.map_or(Json::Null, |calls| syscalls(calls, with_list))),
        ("threads_max", traced.map(|t| t.threads_max).into()),
        ("child_processes", traced.map(|t| t.children).into()),
        ("child_page_faults", s.child_faults.into()),
        ("peak_rss_bytes", traced.and_then(|t| t.peak_rss_bytes).into()),
        ("first_byte_ns", s.first_byte_ns.into()),
        ("cpuid", cpuid(c)),
        ("fully_traced_elapsed_ns", traced.map(|t| t.elapsed_ns).into()),
    ])
}

fn cpuid(c: &TracedCommand) -> Json {
    Json::object([
        ("executed", c.study.cpuid.map(|n| n.executed).into()),
        ("each_ns", c.study.cpuid_ns.map(Json::Float).into()),
    ])
}

/// Kinds that the back end cannot tell are `null`, the total is always there.
fn faults(f: &Faults) -> Json {
    let known = f.unsorted == 0;
    let kind = |n: u64| Json::from(known.then_some(n));
    Json::object([
        ("read", kind(f.read)),
        ("cow", kind(f.cow)),
        ("zero", kind(f.zero)),
        ("total", f.total().into()),
        ("major", f.major.into()),
    ])
}

/// One of a command's `phases[]`.
pub fn phase(p: &PhaseRow) -> Json {
    Json::object([
        ("name", p.name.name().into()),
        ("ns", p.ns.into()),
        ("median_ns", p.median_ns.into()),
        ("median_ci95", p.median_ci95.map(Json::array).into()),
        ("page_faults", faults(&p.faults)),
        ("syscalls", p.syscalls.into()),
    ])
}

/// The programs that the process was, in the typical start, each with its own phases.
fn images(timeline: Option<&Timeline>) -> Json {
    let Some(timeline) = timeline else { return Json::Null };
    let one = |(i, image): (usize, &ImageSpan)| {
        let spans = timeline.spans.iter().filter(|s| s.image == i);
        let phases = spans
            .map(|s| Json::object([("name", s.name.name().into()), ("from_ns", s.from.into()), ("ns", s.ns().into())]));
        Json::object([
            ("path", image.path.as_deref().map(path).into()),
            ("interp", image.interp.as_deref().map(path).into()),
            ("phases", Json::array(phases)),
        ])
    };
    Json::array(timeline.images.iter().enumerate().map(one))
}

fn object(c: &TracedCommand, row: &ObjectRow) -> Json {
    let o = &row.object;
    let predicted = c.predicted(&o.path);
    Json::object([
        ("path", path(&o.path)),
        ("mapped_ns", o.mapped_at.into()),
        ("mapping_ns", o.mapping_ns.into()),
        ("relocating_ns", o.relocating_ns.into()),
        ("constructing_ns", o.constructing_ns.into()),
        ("constructors_exact", row.constructors_exact.into()),
        ("pages_written", o.pages_written.into()),
        ("pages_predicted", predicted.map(|p| p.pages_written).into()),
        ("lookups_predicted", predicted.and_then(|p| p.lookups).into()),
        ("init_functions", predicted.map(|p| p.init_functions).into()),
        ("page_faults", o.faults.into()),
    ])
}

fn gap(c: &TracedCommand, g: &Gap) -> Json {
    let (kind, object) = match &g.cause {
        Cause::Relocation { path, .. } => ("relocation", Some(path)),
        Cause::Constructors { path } => ("constructors", Some(path)),
        Cause::Cpuid { .. } => ("cpuid", None),
        Cause::DiskRead { path } => ("disk read", path.as_ref()),
        Cause::Syscall { path, .. } => ("syscall", path.as_ref()),
        Cause::Running { path } => ("running", Some(path)),
    };
    Json::object([
        ("ns", g.ns.into()),
        ("from_ns", g.from.into()),
        ("phase", g.phase.name().into()),
        ("cause", kind.into()),
        ("path", object.map(|p| path(p)).into()),
        ("text", cause_text(c, g).into()),
    ])
}

fn syscalls(s: &Syscalls, with_list: bool) -> Json {
    let by_name = s.by_name.iter().map(|(name, row)| {
        let row = Json::object([
            ("calls", Json::from(row.calls)),
            ("errors", row.errors.into()),
            ("ns", row.ns.into()),
            ("by_children", row.by_children.into()),
        ]);
        (name.clone(), row)
    });
    let by_phase = s.by_phase.iter().map(|(phase, n)| (phase.name(), Json::from(*n)));
    let failed =
        s.failed_by_directory.iter().map(|(dir, n)| Json::object([("directory", path(dir)), ("failed", (*n).into())]));
    let mut j = Json::object([
        ("total", Json::from(s.total())),
        ("to_first_byte", s.to_first_byte.into()),
        ("by_name", Json::object(by_name)),
        ("by_phase", Json::object(by_phase)),
        ("failed_by_directory", Json::array(failed)),
    ]);
    if with_list {
        j.push("list", Json::array(s.list.iter().map(listed)));
    }
    j
}

fn listed(call: &ListedCall) -> Json {
    Json::object([
        ("at_ns", call.at.into()),
        ("pid", i64::from(call.task.0).into()),
        ("tid", i64::from(call.task.1).into()),
        ("phase", call.phase.map(|p| p.name()).into()),
        ("name", call.name.as_str().into()),
        ("path", call.path.as_deref().map(path).into()),
        ("result", call.result.into()),
        ("ns", call.ns.into()),
    ])
}

fn difference(d: &PhaseDifference) -> Json {
    Json::object([
        ("name", d.name.map_or("total", |n| n.name()).into()),
        ("medians_ns", Json::array(d.medians_ns)),
        ("difference_ns", d.difference_ns.into()),
        ("difference_ci95", d.ci95.map(Json::array).into()),
    ])
}
