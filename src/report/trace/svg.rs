//! The phases as a picture: one bar a command, one colour a phase, nothing fetched from elsewhere.

use std::fmt::Write;

use super::{TraceReport, TracedCommand};
use crate::report::xml::escape;
use crate::trace::phases::PhaseName;
use crate::units::time;

const WIDTH: f64 = 960.0;
const MARGIN: f64 = 16.0;
const BAR_HEIGHT: f64 = 28.0;
const LINE: f64 = 18.0;

/// Distinct also without colour vision (Okabe and Ito's palette, then greys).
fn colour(name: PhaseName) -> &'static str {
    match name {
        PhaseName::Fork => "#999999",
        PhaseName::Exec => "#555555",
        PhaseName::LoaderStart => "#56b4e9",
        PhaseName::Map => "#0072b2",
        PhaseName::Relocate => "#d55e00",
        PhaseName::Construct => "#e69f00",
        PhaseName::RuntimeInit => "#f0e442",
        PhaseName::Main => "#009e73",
        PhaseName::Teardown => "#bbbbbb",
    }
}

/// The picture, a whole SVG document.
pub fn document(r: &TraceReport) -> String {
    let longest = r.commands.iter().map(|c| c.summary.total_ns).max().unwrap_or(1).max(1);
    let mut y = MARGIN;
    let mut body = String::new();
    for c in &r.commands {
        y = command(c, longest, y, &mut body);
    }
    let height = y + MARGIN;
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height:.0}\" width=\"{WIDTH}\" height=\"{height:.0}\" \
         font-family=\"sans-serif\" font-size=\"13\">\n<rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n{body}</svg>\n"
    )
}

/// One command from `y` down; returns where the next one begins.
fn command(c: &TracedCommand, longest: u64, y: f64, out: &mut String) -> f64 {
    let s = &c.summary;
    let scale = (WIDTH - 2.0 * MARGIN) / longest as f64;
    let title = format!("{}: {} from fork to reaped", c.name, time(s.total_ns as f64));
    let _ = writeln!(
        out,
        "<text x=\"{MARGIN}\" y=\"{:.1}\" font-weight=\"bold\">{}</text>",
        y + LINE * 0.8,
        escape(&title)
    );
    let top = y + LINE * 1.3;
    let mut x = MARGIN;
    for p in &s.phases {
        let width = p.ns as f64 * scale;
        let tip = format!(
            "{} {} ({:.1} %)",
            p.name.name(),
            time(p.ns as f64),
            p.ns as f64 * 100.0 / s.total_ns.max(1) as f64
        );
        let _ = writeln!(
            out,
            "<rect x=\"{x:.2}\" y=\"{top:.1}\" width=\"{width:.2}\" height=\"{BAR_HEIGHT}\" fill=\"{}\"><title>{}</title></rect>",
            colour(p.name),
            escape(&tip)
        );
        x += width;
    }
    legend(c, top + BAR_HEIGHT + LINE, out)
}

/// A line of boxes and words below the bar, wrapped at the right margin.
fn legend(c: &TracedCommand, mut y: f64, out: &mut String) -> f64 {
    let mut x = MARGIN;
    for p in &c.summary.phases {
        let label = format!("{} {}", p.name.name(), time(p.ns as f64));
        // About 7.2 units a character at this size.
        let width = 18.0 + label.chars().count() as f64 * 7.2 + 14.0;
        if x + width > WIDTH - MARGIN {
            x = MARGIN;
            y += LINE;
        }
        let _ = writeln!(
            out,
            "<rect x=\"{x:.1}\" y=\"{:.1}\" width=\"11\" height=\"11\" fill=\"{}\"/>",
            y - 10.0,
            colour(p.name)
        );
        let _ = writeln!(out, "<text x=\"{:.1}\" y=\"{y:.1}\">{}</text>", x + 16.0, escape(&label));
        x += width;
    }
    y + LINE
}
