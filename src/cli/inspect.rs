//! `premain inspect`: its flags.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

use super::Verb;
use super::flag::{Documented, Groups, Row, bind, documented, merged};
use super::parse::Order;
use super::shared::{COMMON, read};
use crate::commands::inspect::{self, Options, ReadOptions, ShowOptions};
use crate::error::{Exit, Result};
use crate::output::Output;

pub(super) const VERB: Verb = Verb {
    name: "inspect",
    usage: &["premain inspect [FLAGS] FILE...", "premain inspect --diff OLD NEW"],
    summary: "what kernel and loader must do for a file, without running it",
    flags,
    notes: "Figures of the closure are those of a start with the environment of this call: LD_LIBRARY_PATH,\n\
            LD_PRELOAD and LD_BIND_NOW count, unless --root is given.",
    run,
};

/// Look-ups that `--symbols` lists where no number is given.
const SYMBOLS: u64 = 20;

/// Also of `survey`: where files and libraries are looked for.
pub(super) static READ: Groups<ReadOptions> = &[("what is read", READ_ROWS)];

static READ_ROWS: &[Row<ReadOptions>] = &[
    Row::value("root", None, "DIR", "a directory that stands for /: a container image, a foreign tree", |o, v| {
        o.root = Some(PathBuf::from(v.os()?));
        Ok(())
    }),
    Row::value("ld-library-path", None, "DIRS", "search these as LD_LIBRARY_PATH", |o, v| {
        o.library_path = Some(v.owned()?.into_vec());
        Ok(())
    }),
    Row::value("preload", None, "FILES", "load these first, as LD_PRELOAD", |o, v| {
        o.preload = Some(v.owned()?.into_vec());
        Ok(())
    }),
    Row::switch("no-closure", None, "only the file itself, not the libraries that it needs", |o, _| {
        o.no_closure = true;
        Ok(())
    }),
    Row::value("arch", None, "NAME", "only this slice of a universal Mach-O file", |o, v| {
        o.arch = Some(v.text()?.to_string());
        Ok(())
    }),
];

static SHOW: Groups<ShowOptions> = &[("what is shown", SHOW_ROWS)];

static SHOW_ROWS: &[Row<ShowOptions>] = &[
    Row::switch("tree", None, "show which object needs which", |o, _| {
        o.tree = true;
        Ok(())
    }),
    Row::value("symbols", None, "N", "list the N look-ups that cost most (default 20)", |o: &mut ShowOptions, v| {
        o.symbols = Some(if v.0.is_some() { v.whole(1)? } else { SYMBOLS });
        Ok(())
    })
    .optional(),
    Row::switch(
        "pages",
        None,
        "list the pages that relocations write, by what, and in which sections and objects",
        |o, _| {
            o.pages = true;
            Ok(())
        },
    ),
    Row::switch("diff", None, "compare two builds in relocations, pages, look-ups and bytes", |o, _| {
        o.diff = true;
        Ok(())
    }),
    Row::switch("cross-check", None, "parse a second time with goblin and list what differs", |o, _| {
        o.cross_check = true;
        Ok(())
    }),
    Row::switch("predict", None, "what a start will cost here, by the model that 'calibrate' made", |o, _| {
        o.predict = true;
        Ok(())
    }),
    Row::value("model", None, "FILE", "that model, instead of the one in the cache", |o: &mut ShowOptions, v| {
        o.model = Some(v.owned()?.into());
        Ok(())
    })
    .rare(),
    Row::switch("jsonl", None, "one JSON object a line, one line a file", |o, _| {
        o.jsonl = true;
        Ok(())
    }),
];

fn flags() -> Documented {
    merged([documented(READ), documented(SHOW), documented(COMMON)].concat())
}

fn run(args: &[OsString], output: &mut Output<'_>) -> Result<Exit> {
    let mut options = Options::default();
    let mut own = (bind(READ, &mut options.read), bind(SHOW, &mut options.show));
    let Some((rest, common)) = read(&VERB, args, Order::Mixed, &mut [&mut own.0, &mut own.1], output)? else {
        return Ok(Exit::Done);
    };
    options.files = rest.all().map(Into::into).collect();
    inspect::run(&options, &common, output)
}
