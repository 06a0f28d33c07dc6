//! The host model and its predictions, for people.

use super::table::{Cell, Table};
use crate::model::check::Checked;
use crate::model::fit::{COUNT, FamilyModel};
use crate::model::predict::Prediction;
use crate::model::store::Model;
use crate::model::work::TERMS;
use crate::order;
use crate::output::Style;
use crate::units::{self, count, three_digits, time};

/// The model: one table a family.
pub fn model(model: &Model, skipped: &[(String, String)], style: Style) -> String {
    let mut out = format!("{}, Linux {}\n", model.host.cpu, model.host.kernel);
    if let Some(ns) = model.cpuid_ns {
        out.push_str(&format!("one CPUID: {} (glibc executes dozens in each start)\n", time(ns)));
    }
    for family in &model.families {
        out.push_str(&family_text(family, style));
    }
    if !model.libraries.is_empty() {
        out.push_str(&libraries_text(model, style));
    }
    for (what, why) in skipped {
        out.push_str(&format!("left out: {what}: {why}\n"));
    }
    out
}

fn family_text(family: &FamilyModel, style: Style) -> String {
    let condition = family.entry.condition.map_or_else(String::new, |c| format!(", condition {}", three_digits(c)));
    let mut out = format!(
        "\n{} {} programs, {} rounds, residual {:.1} %{condition}, worst {:+.1} % ({})\n",
        style.bold(&format!("{}:", family.family.name())),
        family.programs,
        family.rounds,
        100.0 * family.entry.residual,
        100.0 * family.entry.worst,
        family.entry.worst_row
    );
    let mut table = Table::new(["<", ">to entry", ">95 % interval", ">at the end"]);
    for j in (0..COUNT).filter(|j| family.known[*j]) {
        let [low, high] = family.entry.ci95[j];
        table.row([
            Cell::from(TERMS[j].unit),
            Cell::from(time(family.entry.unit_ns[j])),
            Cell::dim(format!("{} to {}", time(low), time(high))),
            Cell::from(time(family.end.unit_ns[j])),
        ]);
    }
    out.push_str(&table.render(style));
    out
}

/// Libraries whose init code costs less than this are not listed, nanoseconds.
const WORTH_A_LINE_NS: f64 = 20_000.0;

fn libraries_text(model: &Model, style: Style) -> String {
    let mut dear: Vec<_> = model.libraries.iter().filter(|l| l.init_ns >= WORTH_A_LINE_NS).collect();
    order::by(&mut dear, |a, b| b.init_ns.total_cmp(&a.init_ns));
    let known = units::counted(model.libraries.len() as u64, "library");
    let mut out = format!(
        "\n{} {known} measured; those above 20 µs:\n",
        style.bold("beyond their counts (init functions, colder caches):")
    );
    let mut table = Table::new(["<", ">init"]);
    for library in dear {
        table.row([library.path.display().to_string(), time(library.init_ns)]);
    }
    out.push_str(&table.render(style));
    out
}

/// The sum alone: `what` costs so much.
pub fn predicted(what: &str, p: &Prediction, style: Style) -> String {
    let [low, high] = p.ci95;
    format!(
        "{} {} from execve to its entry point (95 %: {} to {}), and {} more as it ends\n",
        style.bold(&format!("{what}:")),
        time(p.value_ns),
        time(low),
        time(high),
        time(p.end_ns)
    )
}

/// One program's prediction.
pub fn prediction(path: &str, p: &Prediction, style: Style) -> String {
    let mut out = predicted(path, p, style);
    let mut table = Table::new(["<", ">count", ">each", ">total", ">share"]);
    for share in p.terms.iter().filter(|s| s.ns.abs() >= 0.001 * p.value_ns) {
        table.row([
            share.unit.clone(),
            count(share.count.round().max(0.0) as u64),
            time(share.unit_ns),
            time(share.ns),
            format!("{:.0} %", 100.0 * share.ns / p.value_ns),
        ]);
    }
    out.push_str(&table.render(style));
    if p.unknown_init > 0.0 {
        let n = units::counted(p.unknown_init as u64, "init function");
        out.push_str(&format!("{n} of libraries never measured: 'premain calibrate {path}' measures them\n"));
    }
    out
}

/// Predictions beside measurements.
pub fn checked(checked: &Checked, style: Style) -> String {
    let mut table = Table::new(["<program", ">predicted", ">95 % interval", ">measured", ">error"]);
    for row in &checked.programs {
        let error = format!("{:+.1} %", 100.0 * row.error());
        let inside = row.is_inside();
        table.row([
            Cell::from(row.name.clone()),
            Cell::from(time(row.prediction.value_ns)),
            Cell::dim(format!("{} to {}", time(row.prediction.ci95[0]), time(row.prediction.ci95[1]))),
            Cell::from(time(row.measured_ns)),
            if inside { Cell::from(error) } else { Cell::warn(error) },
        ]);
    }
    let mut out = table.render(style);
    if let Some(s) = checked.summary() {
        out.push_str(&format!(
            "{} programs: median absolute error {:.1} %, 90th percentile {:.1} %, bias {:+.1} %, in their interval {:.1} %\n",
            checked.programs.len(),
            100.0 * s.median,
            100.0 * s.p90,
            100.0 * s.bias,
            100.0 * s.coverage
        ));
    }
    out.push_str(&format!("drift since calibration: {:+.1} %\n", 100.0 * (checked.drift - 1.0)));
    for (what, why) in &checked.skipped {
        out.push_str(&format!("left out: {what}: {why}\n"));
    }
    out
}
