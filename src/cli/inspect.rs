//! `premain inspect`: its flags.

use std::ffi::OsString;

use super::flag::{Documented, bind, documented};
use super::parse::{Order, parse};
use super::shared::COMMON;
use super::{Verb, help};
use crate::commands::common::Common;
use crate::commands::inspect::{self, Options};
use crate::error::{Exit, Result};
use crate::output::Output;

pub(super) const VERB: Verb = Verb {
    name: "inspect",
    usage: &["premain inspect [FLAGS] FILE..."],
    summary: "what kernel and loader must do for a file, without running it",
    flags,
    notes: "",
    run,
};

fn flags() -> Documented {
    documented(COMMON)
}

fn run(args: &[OsString], output: &mut Output<'_>) -> Result<Exit> {
    let mut common = Common::default();
    let rest = parse(args, Order::Mixed, &mut [&mut bind(COMMON, &mut common)])?;
    common.apply(output);
    if rest.help {
        return help::of_verb(&VERB, output);
    }
    let files = rest.words.into_iter().chain(rest.after_dashes.unwrap_or_default()).map(Into::into).collect();
    inspect::run(&Options { files }, &common, output)
}
