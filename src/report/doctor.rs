//! What `doctor` found, as text and as JSON.

use std::fmt::Write;

use crate::facts::Fact;
use crate::json::Json;
use crate::output::Style;
use crate::record::disturbances::{Disturbance, Weight};
use crate::record::host::HostRecord;
use crate::report::host_json;
use crate::report::width::{columns, printable, wrap};
use crate::sys::host::HostFacts;
use crate::trace::features::Feature;
use crate::units::{self, bytes, counted};

/// All that was looked at.
#[derive(Debug, Clone, PartialEq)]
pub struct Examined {
    /// The host.
    pub host: HostRecord,
    /// The clock's step.
    pub clock_resolution_ns: u64,
    /// Nanoseconds a reading.
    pub clock_read_ns: f64,
    /// What disturbs measuring.
    pub disturbances: Vec<Disturbance>,
    /// What works.
    pub features: Vec<Feature>,
}

/// The document of `doctor --json`, schema `premain.doctor/1`.
pub fn json(e: &Examined) -> Json {
    let disturbance = |d: &Disturbance| {
        Json::object([
            ("name", d.name.into()),
            ("weight", d.weight.name().into()),
            ("what", d.what.as_str().into()),
            ("advice", d.advice.into()),
        ])
    };
    let feature = |f: &Feature| {
        Json::object([
            ("name", f.name.into()),
            ("works", f.works.is_ok().into()),
            ("seen", f.works.as_deref().ok().into()),
            ("reason", f.works.as_ref().err().map(String::as_str).into()),
            ("without", f.without.into()),
            ("advice", f.works.as_ref().err().map(|_| f.advice).into()),
        ])
    };
    Json::object([
        ("schema", "premain.doctor/1".into()),
        ("tool_version", env!("CARGO_PKG_VERSION").into()),
        ("host", host_json::record(&e.host)),
        (
            "clock",
            Json::object([
                ("name", "CLOCK_MONOTONIC".into()),
                ("resolution_ns", Json::from(e.clock_resolution_ns)),
                ("read_ns", e.clock_read_ns.into()),
            ]),
        ),
        ("disturbances", Json::array(e.disturbances.iter().map(disturbance))),
        ("features", Json::array(e.features.iter().map(feature))),
    ])
}

/// The page.
pub fn text(e: &Examined, style: Style) -> String {
    let mut page = Page { text: String::new(), style };
    page.heading("this host");
    for (name, value) in host_lines(e) {
        page.entry("", name, &value, &[]);
    }
    page.heading("what disturbs measuring");
    for d in &e.disturbances {
        let advice = d.advice.map(|a| format!("do: {a}"));
        // A note needs no action: its advice is for who wants the last percent.
        let shown = advice.filter(|_| d.weight == Weight::Warning);
        page.entry(d.weight.name(), d.name, &d.what, &shown.into_iter().collect::<Vec<_>>());
    }
    page.heading("what works here");
    for f in &e.features {
        match &f.works {
            Ok(seen) => page.entry("yes", f.name, seen, &[]),
            Err(why) => {
                page.entry("no", f.name, why, &[format!("without: {}", f.without), format!("do: {}", f.advice)]);
            }
        }
    }
    let _ = write!(page.text, "\n{}", summary(e));
    page.text
}

fn summary(e: &Examined) -> String {
    let warnings = e.disturbances.iter().filter(|d| d.weight == Weight::Warning).count() as u64;
    let missing = e.features.iter().filter(|f| f.works.is_err()).count();
    let works = if missing == 0 {
        "every feature works".to_string()
    } else {
        format!("{missing} of {} do not work", counted(e.features.len() as u64, "feature"))
    };
    let warned = if warnings == 0 { "no warning".to_string() } else { counted(warnings, "warning") };
    format!("{warned}; {works}; --json has every fact and all advice\n")
}

/// Widths of the columns for the state and for the name.
const STATE: usize = 7;
const NAME: usize = 15;

struct Page {
    text: String,
    style: Style,
}

impl Page {
    fn heading(&mut self, heading: &str) {
        let gap = if self.text.is_empty() { "" } else { "\n" };
        let _ = writeln!(self.text, "{gap}{}", self.style.bold(heading));
    }

    fn entry(&mut self, state: &str, name: &str, what: &str, more: &[String]) {
        let indent = 2 + STATE + 2 + NAME + 2;
        let room = self.style.width.saturating_sub(indent).max(20);
        let state_column = format!("{state}{}", " ".repeat(STATE.saturating_sub(columns(state))));
        let painted = match state {
            "warning" | "no" => self.style.warn(&state_column),
            _ => state_column,
        };
        let name_column = format!("{name}{}", " ".repeat(NAME.saturating_sub(columns(name))));
        let lines = std::iter::once(what).chain(more.iter().map(String::as_str));
        let lines = lines.flat_map(|l| wrap(&printable(l), room)).collect::<Vec<_>>();
        for (i, line) in lines.iter().enumerate() {
            let front = if i == 0 { format!("  {painted}  {name_column}  ") } else { " ".repeat(indent) };
            let _ = writeln!(self.text, "{front}{line}");
        }
    }
}

fn fact<T>(f: &Fact<T>, absent: &str, show: impl FnOnce(&T) -> String) -> String {
    match f {
        Fact::Value(v) => show(v),
        Fact::Absent => absent.to_string(),
        Fact::Unreadable(why) => format!("not known: {why}"),
    }
}

fn host_lines(e: &Examined) -> Vec<(&'static str, String)> {
    let f: &HostFacts = &e.host.facts;
    let plain = String::clone;
    let number = |n: &i64| n.to_string();
    let load = |l: &[f64; 3]| l.map(|x| format!("{x:.2}")).join(", ");
    vec![
        ("kernel", format!("{} {}", fact(&f.system, "", plain), fact(&f.kernel, "not known", plain))),
        (
            "processor",
            format!(
                "{} ({}), {} online, {} allowed",
                fact(&f.cpu_model, "unnamed", plain),
                std::env::consts::ARCH,
                fact(&f.cpus_online, "?", u64::to_string),
                fact(&f.cpus_allowed, "?", u64::to_string)
            ),
        ),
        (
            "memory",
            format!(
                "{}, pages of {}, control groups allow {}",
                fact(&f.memory_bytes, "?", |n| bytes(*n)),
                bytes(f.page_bytes),
                fact(&f.memory_limit_bytes, "all", |n| bytes(*n))
            ),
        ),
        (
            "clock",
            format!(
                "CLOCK_MONOTONIC, steps of {}, {} a reading",
                units::time(e.clock_resolution_ns as f64),
                units::time(e.clock_read_ns)
            ),
        ),
        ("timer tick", fact(&f.hz, "none", |hz| format!("{hz} Hz, from {}", f.hz_source))),
        ("C library", fact(&e.host.libc, "none: /bin/sh is static", plain)),
        ("load", fact(&e.host.before.load, "none", load)),
        ("stolen so far", fact(&e.host.before.steal_ns, "none", |ns| units::time(*ns as f64))),
        ("throttled", fact(&e.host.before.throttled, "not counted", |n| counted(*n, "time"))),
        ("ptrace_scope", fact(&f.ptrace_scope, "none (no Yama)", number)),
        ("perf_paranoid", fact(&f.perf_event_paranoid, "none", number)),
        ("memfd_noexec", fact(&f.memfd_noexec, "none", number)),
    ]
}
