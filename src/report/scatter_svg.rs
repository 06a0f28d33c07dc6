//! The same points as one SVG image without scripts, fonts or links: each point says what it is when pointed at.

use std::fmt::Write;

use super::scatter::{Axis, Plot, axes};
use super::xml::escape;

/// Size in pixels, and the frame inside it.
const WIDTH: f64 = 760.0;
const HEIGHT: f64 = 560.0;
const LEFT: f64 = 84.0;
const RIGHT: f64 = 20.0;
const TOP: f64 = 44.0;
const BOTTOM: f64 = 60.0;

const STYLE: &str = "text{font:12px sans-serif;fill:#333}.t{font-size:15px;font-weight:bold}line{stroke:#ccc}\
    .d{stroke:#888;stroke-dasharray:5 4}.f{fill:none;stroke:#333}circle{fill:#1f6fb4;fill-opacity:.55}\
    .m{fill:#c8401e;fill-opacity:.9}";

/// Draws; a frame with a title where there are no points.
pub fn svg(plot: &Plot<'_>, title: &str) -> String {
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\">\n\
         <style>{STYLE}</style>\n<rect width=\"{WIDTH}\" height=\"{HEIGHT}\" fill=\"#fff\"/>\n"
    );
    let (right, bottom) = (WIDTH - RIGHT, HEIGHT - BOTTOM);
    label(&mut out, "t", (LEFT, 24.0), "start", title);
    if let Some((x, y)) = axes(plot) {
        grid(&mut out, plot, &x, &y);
        if plot.diagonal {
            line(&mut out, "d", (LEFT, bottom), (right, TOP));
        }
        for p in plot.points {
            let class = if p.marked { " class=\"m\"" } else { "" };
            let said = format!(
                "{}: {} {}, {} {}",
                p.label,
                plot.y_name,
                (plot.y_format)(p.y),
                plot.x_name,
                (plot.x_format)(p.x)
            );
            let (cx, cy) = (across(&x, p.x), up(&y, p.y));
            let _ = writeln!(
                out,
                "<circle cx=\"{cx:.1}\" cy=\"{cy:.1}\" r=\"4\"{class}><title>{}</title></circle>",
                escape(&said)
            );
        }
    }
    let _ = writeln!(
        out,
        "<rect class=\"f\" x=\"{LEFT}\" y=\"{TOP}\" width=\"{}\" height=\"{}\"/>",
        right - LEFT,
        bottom - TOP
    );
    label(&mut out, "", ((LEFT + right) / 2.0, HEIGHT - 16.0), "middle", plot.x_name);
    label(&mut out, "", (LEFT, TOP - 6.0), "end", plot.y_name);
    out.push_str("</svg>\n");
    out
}

fn grid(out: &mut String, plot: &Plot<'_>, x: &Axis, y: &Axis) {
    let (right, bottom) = (WIDTH - RIGHT, HEIGHT - BOTTOM);
    for value in x.ticks() {
        let at = across(x, value);
        line(out, "", (at, TOP), (at, bottom));
        label(out, "", (at, bottom + 18.0), "middle", &(plot.x_format)(value));
    }
    for value in y.ticks() {
        let at = up(y, value);
        line(out, "", (LEFT, at), (right, at));
        label(out, "", (LEFT - 8.0, at + 4.0), "end", &(plot.y_format)(value));
    }
}

fn across(x: &Axis, value: f64) -> f64 {
    LEFT + x.place(value) * (WIDTH - RIGHT - LEFT)
}

fn up(y: &Axis, value: f64) -> f64 {
    HEIGHT - BOTTOM - y.place(value) * (HEIGHT - BOTTOM - TOP)
}

fn class(name: &str) -> String {
    if name.is_empty() { String::new() } else { format!(" class=\"{name}\"") }
}

fn line(out: &mut String, name: &str, from: (f64, f64), to: (f64, f64)) {
    let ((x1, y1), (x2, y2), class) = (from, to, class(name));
    // Writing to a String cannot fail.
    let _ = writeln!(out, "<line{class} x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\"/>");
}

fn label(out: &mut String, name: &str, at: (f64, f64), anchor: &str, text: &str) {
    let ((x, y), class, text) = (at, class(name), escape(text));
    let _ = writeln!(out, "<text{class} x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{text}</text>");
}

#[cfg(test)]
mod tests {
    use super::super::scatter::Point;
    use super::*;
    use crate::units;

    #[test]
    fn names_are_escaped_and_every_point_is_drawn() {
        let point = |x, label: &str| Point { x, y: 2.0 * x, label: label.to_string(), marked: x > 5.0 };
        let points = [point(1.0, "a<b>&\"\u{1}"), point(9.0, "z")];
        let plot = Plot {
            points: &points,
            x_name: "fitted",
            y_name: "measured",
            x_format: units::time,
            y_format: units::time,
            diagonal: true,
        };
        let image = svg(&plot, "x & y");
        assert_eq!(image.matches("<circle").count(), 2);
        assert!(
            image.contains("a&lt;b&gt;&amp;&quot;\u{fffd}: measured 2 ns, fitted 1 ns")
                && image.contains("class=\"m\"")
        );
        assert!(image.contains("x &amp; y") && image.ends_with("</svg>\n"));
    }
}
