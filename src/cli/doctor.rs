//! `premain doctor`: its flags.

use std::ffi::OsString;

use super::Verb;
use super::flag::{Documented, documented};
use super::parse::Order;
use super::shared::{COMMON, read};
use crate::commands::doctor;
use crate::error::{Error, Exit, Result};
use crate::output::Output;

pub(super) const VERB: Verb = Verb {
    name: "doctor",
    usage: &["premain doctor [FLAGS]"],
    summary: "what on this host disturbs measuring, and which features work here",
    flags,
    notes: "Nothing of the host is changed. Each feature is tried on a program of ours that only exits; for eviction, on\n\
            a file that is written and removed again.",
    run,
};

fn flags() -> Documented {
    documented(COMMON)
}

fn run(args: &[OsString], output: &mut Output<'_>) -> Result<Exit> {
    let Some((rest, common)) = read(&VERB, args, Order::Mixed, &mut [], output)? else { return Ok(Exit::Done) };
    if let Some(word) = rest.words.iter().chain(rest.after_dashes.iter().flatten()).next() {
        return Err(Error::new("doctor takes no argument").context(word.to_string_lossy()));
    }
    doctor::run(&common, output)
}
