//! The baseline as a document: a bench with every sample, and what it takes to do it again.

use crate::json::Json;
use crate::record::baseline::{Manner, Place, SCHEMA, StoredCommand};
use crate::record::bench::BenchRecord;
use crate::record::counts::{COUNTS, Counts};
use crate::report::bench_json;
use crate::report::export::{Arms, with_samples};

/// The document, schema `premain.baseline/1`: the fields of `premain.bench/1`, and per command `file`, `place`,
/// `counts` and `libraries`.
pub fn document(r: &BenchRecord, arms: &Arms, stored: &[StoredCommand], manner: &Manner) -> Json {
    let mut d = with_samples(bench_json::document(r), arms);
    if let Json::Object(fields) = &mut d {
        for (key, value) in fields.iter_mut() {
            match (key.as_str(), value) {
                ("schema", value) => *value = SCHEMA.into(),
                ("commands", Json::Array(list)) => list.iter_mut().zip(stored).for_each(|(j, c)| command(j, c)),
                _ => {}
            }
        }
    }
    d.push("manner", manner_json(manner));
    d
}

fn manner_json(m: &Manner) -> Json {
    Json::object([
        ("method", Json::from(m.method.as_str())),
        ("stdout", m.stdout.as_str().into()),
        ("until_first_byte", m.until_first_byte.into()),
        ("cold", m.cold.into()),
        ("cpu", m.cpu.into()),
        ("prime", m.prime.into()),
    ])
}

fn command(j: &mut Json, c: &StoredCommand) {
    j.push(
        "file",
        Json::object([
            ("path", Json::from(c.path.as_os_str())),
            ("kept", c.kept.as_ref().map(|p| p.as_os_str()).into()),
            ("sha256", c.sha256.as_str().into()),
        ]),
    );
    j.push("place", place(&c.place));
    j.push("counts", counts(&c.counts));
    let library = |(path, hash): &(std::path::PathBuf, String)| {
        Json::object([("path", Json::from(path.as_os_str())), ("sha256", hash.as_str().into())])
    };
    j.push("libraries", Json::array(c.libraries.iter().map(library)));
}

fn place(p: &Place) -> Json {
    let variable = |(name, value): &(std::ffi::OsString, std::ffi::OsString)| {
        Json::object([("name", Json::os(name)), ("value", Json::os(value))])
    };
    let hook = |(flag, command): &(String, std::ffi::OsString)| {
        Json::object([("flag", Json::from(flag.as_str())), ("command", Json::os(command))])
    };
    Json::object([
        ("env", Json::array(p.env.iter().map(variable))),
        ("clear_env", p.clear_env.into()),
        ("cwd", p.cwd.as_ref().map(|p| p.as_os_str()).into()),
        ("stdin", Json::os(&p.stdin)),
        ("exit", p.exit.as_str().into()),
        ("hooks", Json::array(p.hooks.iter().map(hook))),
        ("hooks_cwd", p.hooks_cwd.as_ref().map(|p| p.as_os_str()).into()),
    ])
}

/// Counts: `[least, most]`, or `null` where there is no such figure.
pub fn counts(c: &Counts) -> Json {
    Json::object(COUNTS.iter().map(|name| (*name, c.get(name).map(|r| Json::array([r.min, r.max])).into())))
}
