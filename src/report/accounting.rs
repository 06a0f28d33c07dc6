//! The host model beside one measured start: every term with its count and cost, predicted against measured, and what
//! is left unexplained as a row of its own.

use crate::json::Json;
use crate::model::predict::{Prediction, Share};
use crate::model::savings::{CPUID_TRAPS_NS, Saving};
use crate::model::work::{T, TERMS};
use crate::output::Style;
use crate::report::findings::{Finding, Source};
use crate::report::table::{Cell, Table};
use crate::report::width::wrap;
use crate::trace::phases::PhaseName;
use crate::units::{count, counted, time, time_difference};

/// What the model says of the program that is explained, and what was measured of the same span.
#[derive(Debug, Clone, PartialEq)]
pub struct Accounted {
    /// The prediction.
    pub prediction: Prediction,
    /// The same by phases, where the model has been shown how the loader's own costs are spread over them.
    pub phases: Option<Vec<(PhaseName, f64)>>,
    /// Settings that would save something.
    pub savings: Vec<Saving>,
    /// Median from execve to the entry point of a copy that exits there, nanoseconds, or why there is none.
    pub measured_ns: Result<f64, String>,
    /// How much slower the host is now than when it was calibrated: plain programs, measured over predicted.
    pub drift: Option<f64>,
    /// One CPUID, nanoseconds.
    pub cpuid_ns: Option<f64>,
    /// How many of them a start executes before `main`, where that was counted.
    pub cpuids: Option<u64>,
}

impl Accounted {
    /// Nanoseconds that the model predicts for a phase; nothing for fork, and for what the program does of its own.
    pub fn phase(&self, name: PhaseName) -> Option<f64> {
        self.phases.as_ref()?.iter().find(|(p, _)| *p == name).map(|(_, ns)| *ns)
    }
}

/// Terms below this share of the prediction go into one row.
const SMALL: f64 = 0.01;

/// The loader's own start in two rows where its CPUIDs were counted and each leaves a virtual machine.
fn apart(a: &Accounted, share: &Share) -> Option<[[String; 4]; 2]> {
    let each = a.cpuid_ns.filter(|ns| *ns > CPUID_TRAPS_NS)?;
    let n = a.cpuids.filter(|n| *n > 0 && share.name == TERMS[T::Loader as usize].name)?;
    let cpuid = n as f64 * each;
    let rest = format!("the rest of {}", share.unit);
    (cpuid < share.ns).then(|| {
        [
            ["CPUID, executed by loader and C library".to_string(), count(n), time(each), time(cpuid)],
            [rest, "1".to_string(), time(share.ns - cpuid), time(share.ns - cpuid)],
        ]
    })
}

/// The table.
pub fn text(a: &Accounted, style: Style) -> String {
    let p = &a.prediction;
    let mut table = Table::new(["<from execve to the entry point", ">count", ">each", ">time"]);
    let (shown, small): (Vec<_>, Vec<_>) = p.terms.iter().partition(|s| s.ns.abs() >= SMALL * p.value_ns);
    for share in shown {
        if let Some([cpuid, rest]) = apart(a, share) {
            table.row(cpuid);
            table.row(rest);
            continue;
        }
        let units = count(share.count.round().max(0.0) as u64);
        table.row([share.unit.clone(), units, time(share.unit_ns), time(share.ns)]);
    }
    let rest: f64 = small.iter().map(|s| s.ns).sum();
    if !small.is_empty() {
        table.row([counted(small.len() as u64, "smaller term"), String::new(), String::new(), time(rest)]);
    }
    let [low, high] = p.ci95;
    let interval = format!("{} to {}", time(low), time(high));
    table.row([Cell::bold("predicted"), Cell::dim(interval), Cell::from(""), Cell::bold(time(p.value_ns))]);
    match &a.measured_ns {
        Ok(ns) => {
            table.row([Cell::bold("measured"), Cell::from(""), Cell::from(""), Cell::bold(time(*ns))]);
            let left = time_difference(ns - p.value_ns);
            table.row([Cell::from("unexplained"), Cell::from(""), Cell::from(""), Cell::from(left)]);
        }
        Err(why) => {
            table.row([Cell::from(format!("not measured: {why}")), Cell::from(""), Cell::from(""), Cell::from("")]);
        }
    }
    let mut out = table.render(style);
    for line in notes(a).iter().flat_map(|line| wrap(line, style.width)) {
        out.push_str(&format!("{}\n", style.dim(&line)));
    }
    out
}

fn notes(a: &Accounted) -> Vec<String> {
    let mut lines = vec![format!("the same work costs about {} more as the process ends", time(a.prediction.end_ns))];
    if let Some(ns) = a.cpuid_ns.filter(|ns| *ns > CPUID_TRAPS_NS) {
        lines.push(format!("one CPUID costs {} here: it leaves the virtual machine", time(ns)));
    }
    if let Some(drift) = a.drift.filter(|d| (d - 1.0).abs() > 0.05) {
        let percent = 100.0 * (drift - 1.0);
        let advice = if (drift - 1.0).abs() > TRUSTED_DRIFT {
            "savings are left out; 'premain calibrate' makes the model anew"
        } else {
            "judge the figures so"
        };
        lines.push(format!("plain programs need {percent:+.0} % now against the calibration: {advice}"));
    }
    if a.prediction.unknown_init > 0.0 {
        let n = counted(a.prediction.unknown_init as u64, "init function");
        lines.push(format!("{n} of libraries never measured: 'premain calibrate PROGRAM' does it"));
    }
    lines
}

/// The `predicted` object of `explain --json`, without the file's own fields.
pub fn json(a: &Accounted, mut prediction: Json) -> Json {
    let whole = |ns: f64| Json::Int(ns.round() as i64);
    let measured = match &a.measured_ns {
        Ok(ns) => whole(*ns),
        Err(why) => Json::unreadable(why.as_str()),
    };
    let left = a.measured_ns.as_ref().map_or(Json::Null, |ns| whole(ns - a.prediction.value_ns));
    prediction.push("measured_ns", measured);
    prediction.push("unexplained_ns", left);
    prediction.push("drift", a.drift.map_or(Json::Null, Json::Float));
    prediction
}

/// Plain programs that cost this much more or less than when the model was made: its savings are not worth saying.
const TRUSTED_DRIFT: f64 = 0.2;

/// Findings that the model makes.
pub fn findings(a: &Accounted) -> Vec<Finding> {
    if a.drift.is_some_and(|d| (d - 1.0).abs() > TRUSTED_DRIFT) {
        return Vec::new();
    }
    let one = |s: &Saving| {
        let saving = s.saving_ns.map(|ns| ns.max(0.0).round() as u64);
        Finding { text: s.text.clone(), source: Source::Predicted, saving_ns: saving, weight_ns: saving.unwrap_or(0) }
    };
    a.savings.iter().map(one).collect()
}
