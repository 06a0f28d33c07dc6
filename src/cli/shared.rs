//! Flags that several verbs share: how output looks, and how starts are measured.

use std::ffi::OsString;

use super::flag::{Groups, Row, Table, bind};
use super::parse::{self, Rest};
use super::{Verb, help};
use crate::commands::common::Common;
use crate::commands::measuring::{Accepted, MeasureOptions, StdinChoice};
use crate::error::Result;
use crate::measure::plan::Order;
use crate::output::{ColorChoice, Output};
use crate::sys::start::{Method, Stdout};

/// Takes a verb's own flags and those of every verb out of `args`, and sets the output up. `None` where help was asked for,
/// and given.
///
/// # Errors
/// As [`parse`].
pub fn read(
    verb: &Verb,
    args: &[OsString],
    order: parse::Order,
    own: &mut [&mut dyn Table],
    output: &mut Output<'_>,
) -> Result<Option<(Rest, Common)>> {
    let mut common = Common::default();
    let mut of_all = bind(COMMON, &mut common);
    let mut tables: Vec<&mut dyn Table> = vec![&mut of_all];
    for table in own {
        tables.push(&mut **table);
    }
    let rest = parse::parse(args, order, &mut tables)?;
    common.apply(output);
    if rest.help {
        help::of_verb(verb, output)?;
        return Ok(None);
    }
    Ok(Some((rest, common)))
}

/// Flags of every verb.
pub static COMMON: Groups<Common> = &[("output", COMMON_ROWS)];

static COMMON_ROWS: &[Row<Common>] = &[
    Row::switch("json", None, "print one JSON document instead of text", |o, _| {
        o.json = true;
        Ok(())
    }),
    Row::choice(
        "color",
        &["auto", "always", "never"],
        "WHEN",
        "auto (default; NO_COLOR counts), always or never",
        |o, v| {
            o.color = v.one_of(&[
                ("auto", ColorChoice::Auto),
                ("always", ColorChoice::Always),
                ("never", ColorChoice::Never),
            ])?;
            Ok(())
        },
    ),
];

/// How commands are set up: environment, directory, streams, processor.
pub static COMMANDS: Groups<MeasureOptions> = &[("commands", COMMAND_ROWS)];

/// Flags of every verb that starts programs.
pub static MEASURE: Groups<MeasureOptions> =
    &[("measuring", ROUND_ROWS), ("measuring", START_ROWS), ("commands", COMMAND_ROWS)];

/// Those that say how many rounds are made and how they are judged, for verbs whose commands come from a file.
pub static ROUNDS: Groups<MeasureOptions> = &[("measuring", ROUND_ROWS)];

static ROUND_ROWS: &[Row<MeasureOptions>] = &[
    Row::value("warmup", Some('w'), "N", "rounds thrown away first (default 3)", |o, v| {
        o.warmup = v.whole(0)?;
        Ok(())
    }),
    Row::value("runs", Some('r'), "N", "exactly N rounds (one start of each command)", |o, v| {
        o.runs = Some(v.whole(1)?);
        Ok(())
    }),
    Row::value("min-runs", Some('m'), "N", "at least N rounds (default 20)", |o: &mut MeasureOptions, v| {
        o.min_runs = Some(v.whole(1)?);
        Ok(())
    })
    .rare(),
    Row::value("max-runs", Some('M'), "N", "at most N rounds (default 1000)", |o: &mut MeasureOptions, v| {
        o.max_runs = Some(v.whole(1)?);
        Ok(())
    })
    .rare(),
    Row::value("budget", None, "TIME", "time to measure for (default 3s)", |o, v| {
        o.budget_ns = Some(v.duration()?);
        Ok(())
    }),
    Row::value("timeout", None, "TIME", "kill a start after this long (default 30s, 0: never)", |o, v| {
        o.timeout_ns = Some(v.duration()?).filter(|t| *t > 0);
        Ok(())
    }),
    Row::choice(
        "order",
        &["balanced", "random", "blocked"],
        "ORDER",
        "balanced (default), random or blocked (warns)",
        |o: &mut MeasureOptions, v| {
            o.order =
                v.one_of(&[("balanced", Order::Balanced), ("random", Order::Random), ("blocked", Order::Blocked)])?;
            Ok(())
        },
    )
    .rare(),
    Row::value("seed", None, "N", "seed of orders and resampling (default 1)", |o: &mut MeasureOptions, v| {
        o.seed = v.whole(0)?;
        Ok(())
    })
    .rare(),
    Row::value("delta", None, "SHARE", "smallest difference to call (default: by the noise)", |o, v| {
        o.delta = Some(v.share()?);
        Ok(())
    }),
];

static START_ROWS: &[Row<MeasureOptions>] = &[
    Row::value(
        "prime",
        None,
        "N",
        "starts of a command before each of its starts that counts",
        |o: &mut MeasureOptions, v| {
            o.prime = v.whole(0)?;
            Ok(())
        },
    )
    .rare(),
    Row::value(
        "ignore-failure",
        Some('i'),
        "CODES",
        "accept failures: all, or these codes (-i=1,2)",
        |o: &mut MeasureOptions, v| {
            o.accepted = match v.0 {
                None => Accepted::Any,
                Some(_) => Accepted::parse(v.text()?)?,
            };
            Ok(())
        },
    )
    .optional(),
    Row::choice(
        "spawn",
        &["fork", "vfork"],
        "METHOD",
        "fork (default) or vfork (CLONE_VM|CLONE_VFORK)",
        |o: &mut MeasureOptions, v| {
            o.method = v.one_of(&[("fork", Method::Fork), ("vfork", Method::Vfork)])?;
            Ok(())
        },
    )
    .rare(),
    Row::value("expect-exit", None, "N", "every start must end with exit code N", |o, v| {
        o.accepted = expect_exit(v.whole(0)?)?;
        Ok(())
    }),
];

static COMMAND_ROWS: &[Row<MeasureOptions>] = &[
    Row::value("env", None, "K=V", "set a variable for all commands; repeatable", |o, v| {
        o.env.push(v.pair()?);
        Ok(())
    }),
    Row::switch("clear-env", None, "only the variables given by --env", |o: &mut MeasureOptions, _| {
        o.clear_env = true;
        Ok(())
    })
    .rare(),
    Row::value("cwd", None, "DIR", "working directory of the commands", |o, v| {
        o.cwd = Some(v.owned()?.into());
        Ok(())
    }),
    Row::value("stdin", None, "FILE", "a file that each start reads, null (default) or inherit", |o, v| {
        o.stdin = match v.os()?.to_str() {
            Some("null") => StdinChoice::Null,
            Some("inherit") => StdinChoice::Inherit,
            _ => StdinChoice::File(v.owned()?.into()),
        };
        Ok(())
    }),
    Row::choice("stdout", &["pipe", "null", "pty"], "WHERE", "pipe (default: drained), null or pty", |o, v| {
        o.stdout = v.one_of(&[("pipe", Stdout::Pipe), ("null", Stdout::Null), ("pty", Stdout::Pty)])?;
        Ok(())
    }),
    Row::switch("eof", None, "stamp stdout's end too (adds some 10 µs a start)", |o: &mut MeasureOptions, _| {
        o.stamp_eof = true;
        Ok(())
    })
    .rare(),
    Row::switch("keep", None, "leave running what the commands left behind", |o: &mut MeasureOptions, _| {
        o.keep = true;
        Ok(())
    })
    .rare(),
    Row::value("cpu", None, "N", "run the commands on processor N", |o: &mut MeasureOptions, v| {
        o.cpu = Some(usize::try_from(v.whole(0)?).map_err(|_| "is too large".to_string())?);
        Ok(())
    })
    .rare(),
];

fn expect_exit(code: u64) -> Result<Accepted, String> {
    u8::try_from(code).map(|c| Accepted::Exactly(vec![i32::from(c)])).map_err(|_| "must be at most 255".to_string())
}
