//! `premain whatif`: its flags.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;

use super::Verb;
use super::flag::{Documented, Groups, Row, bind, documented, merged};
use super::parse::Order;
use super::shared::{COMMON, MEASURE, read};
use crate::commands::whatif::{self, Options, Wish};
use crate::elf::rewrite::Change;
use crate::error::{Exit, Result};
use crate::output::Output;

pub(super) const VERB: Verb = Verb {
    name: "whatif",
    usage: &["premain whatif --CHANGE... [FLAGS] PROGRAM [ARG...]"],
    summary: "what another link setting would save, measured on a changed copy",
    flags,
    notes: "The original is never written to. A change that the file does not allow safely is refused with the reason.",
    run,
};

fn wish(o: &mut Options, wish: Wish) -> Result<(), String> {
    o.wishes.push(wish);
    Ok(())
}

static CHANGES: &[Row<Options>] = &[
    Row::switch("bind-now", None, "bind all functions at start", |o, _| wish(o, Wish::Change(Change::BindNow))),
    Row::switch("lazy", None, "bind functions at their first call", |o, _| wish(o, Wish::Change(Change::Lazy))),
    Row::switch("no-relro", None, "protect nothing after relocation", |o, _| wish(o, Wish::Change(Change::NoRelro))),
    Row::switch("absolute-needed", None, "name libraries by their paths: nothing to search", |o, _| {
        wish(o, Wish::AbsoluteNeeded)
    }),
    Row::value("drop-needed", None, "NAME", "do without this library; may be repeated", |o, v| {
        let name = v.owned()?.into_vec();
        wish(o, Wish::Change(Change::DropNeeded(name)))
    }),
    Row::switch("relr", None, "refused: only a linker can (-z pack-relative-relocs)", |o, _| {
        let why = "glibc wants a version that only a linker can add; link with -z pack-relative-relocs";
        wish(o, Wish::Relink("--relr", why))
    }),
    Row::switch("gnu-hash", None, "refused: only a linker can (--hash-style=gnu)", |o, _| {
        let why = "symbols would have to be put into another order; link with --hash-style=gnu";
        wish(o, Wish::Relink("--gnu-hash", why))
    }),
];

static GROUPS: Groups<Options> = &[("changes", CHANGES)];

fn flags() -> Documented {
    merged([documented(GROUPS), documented(MEASURE), documented(COMMON)].concat())
}

fn run(args: &[OsString], output: &mut Output<'_>) -> Result<Exit> {
    let mut options = Options::default();
    let mut measure = std::mem::take(&mut options.measure);
    let mut own = (bind(GROUPS, &mut options), bind(MEASURE, &mut measure));
    let Some((rest, common)) = read(&VERB, args, Order::CommandFirst, &mut [&mut own.0, &mut own.1], output)? else {
        return Ok(Exit::Done);
    };
    options.measure = measure;
    options.argv = rest.command();
    whatif::run(&options, &common, output)
}
