//! `premain doctor`: what on this host disturbs measuring, and which of our features work here. Changes nothing.

use super::common::Common;
use crate::error::{Exit, Result};
use crate::output::Output;
use crate::record::disturbances;
use crate::record::host::HostWatch;
use crate::report::doctor::{self, Examined};
use crate::sys::clock;
use crate::trace::features;

/// Looks, tries, prints.
///
/// # Errors
/// Where the result cannot be written.
pub fn run(common: &Common, output: &mut Output<'_>) -> Result<Exit> {
    crate::sys::signal::catch_interrupts()?;
    let watch = HostWatch::begin();
    output.progress("trying");
    let features = features::tried();
    output.progress("");
    let host = watch.end().with_libc();
    let examined = Examined {
        disturbances: disturbances::of_host(&host.facts, &host.before.load),
        clock_resolution_ns: clock::resolution_ns(),
        clock_read_ns: clock::read_cost_ns(),
        host,
        features,
    };
    if common.json {
        output.text(&doctor::json(&examined).pretty())?;
    } else {
        let text = doctor::text(&examined, output.style);
        output.text(&text)?;
    }
    Ok(Exit::Done)
}
