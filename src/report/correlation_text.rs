//! A correlation for people: what one unit of each count costs over all programs, and which programs do not fit.

use super::scatter::{self, Plot, Point};
use super::table::{Cell, Table};
use super::width::wrap;
use crate::output::Style;
use crate::record::correlation::{Correlation, Fitted, Term};
use crate::record::observations::Observation;
use crate::units;

/// What lies across in plots.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Across {
    /// The fitted time.
    Fitted,
    /// A count, by its place in [`COUNTS`](crate::record::observations::COUNTS).
    Count(usize),
}

/// How many programs that do not fit are listed.
const WORST: usize = 5;
/// A coefficient from fewer programs than this rests on them alone.
const FEW: usize = 3;

/// The whole page.
pub fn text(c: &Correlation, observations: &[Observation], across: Across, style: Style) -> String {
    let mut out = format!(
        "{} of {} against what their files hold\n\n",
        c.metric,
        units::counted(c.programs.len() as u64, "program")
    );
    out.push_str(&terms(c).render(style));
    out.push('\n');
    for note in notes(c) {
        for line in wrap(&note, style.width) {
            out.push_str(&format!("{}\n", style.dim(&line)));
        }
    }
    out.push_str(&format!("\n{}\n", style.bold("programs that fit worst, each by the fit without it")));
    out.push_str(&worst(c).render(style));
    let points = points(c, observations, across);
    out.push('\n');
    out.push_str(&scatter::text(&plot(&points, across), style));
    out
}

fn terms(c: &Correlation) -> Table {
    let mut table = Table::new([
        "count",
        ">a unit\ncosts",
        "<95 %\ninterval",
        ">share of\nthe time",
        ">programs\nwith it",
        ">rank\ncorrelation",
    ]);
    for t in &c.terms {
        let cost = if t.held { Cell::dim("0") } else { Cell::bold(units_of(t.unit_ns)) };
        let interval = t.ci95.map_or("-".to_string(), |[a, b]| format!("{} to {}", units_of(a), units_of(b)));
        table.row([
            Cell::from(t.name),
            cost,
            Cell::from(if t.held { String::new() } else { interval }),
            Cell::from(format!("{:.1} %", 100.0 * t.share)),
            Cell::from(units::count(t.programs as u64)),
            Cell::from(t.rank_correlation.map_or("-".to_string(), |r| format!("{r:.2}"))),
        ]);
    }
    table
}

/// Below a nanosecond digits would be lost.
fn units_of(ns: f64) -> String {
    if ns.abs() < 99.5 { format!("{} ns", units::three_digits(ns)) } else { units::time(ns) }
}

fn notes(c: &Correlation) -> Vec<String> {
    let number = |x: Option<f64>, digits: usize| x.map_or("not defined".to_string(), |x| format!("{x:.digits$}"));
    let mut out = vec![format!(
        "R² {} of relative deviations; condition {}; programs left out deviate by {:.1} % in the median, {:.1} % at the \
         90th percentile",
        number(c.r_squared, 4),
        c.condition.map_or("unbounded: some counts move together".to_string(), units::three_digits),
        100.0 * c.left_out_error[0],
        100.0 * c.left_out_error[1],
    )];
    let named =
        |keep: &dyn Fn(&&Term) -> bool| c.terms.iter().filter(keep).map(|t| t.name).collect::<Vec<_>>().join(", ");
    let held = named(&|t| t.held);
    if !held.is_empty() {
        out.push(format!("held at 0, since a negative cost would fit better or other counts explain it: {held}"));
    }
    let few = named(&|t| !t.held && t.programs < FEW);
    if !few.is_empty() {
        out.push(format!("rests on one or two programs: {few}"));
    }
    if !c.constant.is_empty() {
        out.push(format!("the same in every program, so part of 'start': {}", c.constant.join(", ")));
    }
    out.push(
        "a correlation over these programs: counts that move together share their cost as the fit happens to"
            .to_string(),
    );
    out
}

fn worst(c: &Correlation) -> Table {
    let mut table = Table::new(["program", ">measured", ">fitted", ">deviation"]);
    for f in c.worst_first().into_iter().take(WORST) {
        let deviation = f.left_out_deviation();
        let text = if deviation.is_finite() { format!("{:+.1} %", 100.0 * deviation) } else { "-".to_string() };
        table.row([f.name.clone(), units::time(f.measured_ns), units::time(f.left_out_ns), text]);
    }
    table
}

/// Points of a plot, the worst-fitting program marked.
pub fn points(c: &Correlation, observations: &[Observation], across: Across) -> Vec<Point> {
    let worst = c.worst_first().first().map(|f| f.name.clone());
    let one = |(f, o): (&Fitted, &Observation)| Point {
        x: match across {
            Across::Fitted => f.fitted_ns,
            Across::Count(j) => o.counts.get(j).copied().unwrap_or(0.0),
        },
        y: f.measured_ns,
        label: f.name.clone(),
        marked: Some(&f.name) == worst.as_ref(),
    };
    c.programs.iter().zip(observations).map(one).collect()
}

/// How those points are drawn.
pub fn plot(points: &[Point], across: Across) -> Plot<'_> {
    let (x_name, x_format): (&str, fn(f64) -> String) = match across {
        Across::Fitted => ("fitted (✕: fits worst)", units::time),
        Across::Count(j) => (crate::record::observations::COUNTS.get(j).map_or("", |c| c.name), count),
    };
    Plot { points, x_name, y_name: "measured", x_format, y_format: units::time, diagonal: across == Across::Fitted }
}

fn count(x: f64) -> String {
    units::count(x.max(0.0) as u64)
}
