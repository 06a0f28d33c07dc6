//! The JSON of a closure: `closure { objects[], missing[], totals }` with the fields that other programs read.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use crate::facts::RelocationCounts;
use crate::json::Json;
use crate::loader::{Binding, Closure, Costly, Missing, Object, Totals};

/// The document's `closure` object.
pub fn closure(c: &Closure) -> Json {
    let loader = c.loader.as_ref().map(|l| {
        Json::object([
            ("path", l.path.as_os_str().into()),
            ("flavour", l.flavour.name().into()),
            ("version", l.version.map(|(major, minor)| format!("{major}.{minor}")).into()),
        ])
    });
    let own = c
        .own_lookups
        .iter()
        .map(|t| Json::object([("name", t.name.into()), ("lookups", t.lookups.into()), ("probes", t.probes.into())]));
    let unresolved = c.unresolved.iter().map(|u| {
        Json::object([("object", u.object.into()), ("symbol", name(&u.symbol)), ("version", version(&u.version))])
    });
    let versions = c.version_errors.iter().map(|e| {
        Json::object([
            ("object", e.object.into()),
            ("version", name(&e.version)),
            ("file", name(&e.file)),
            ("why", e.why.as_str().into()),
        ])
    });
    let mut j = Json::object([
        ("loader", loader.unwrap_or(Json::Null)),
        ("objects", Json::array(c.objects.iter().map(object))),
        ("missing", Json::array(c.missing.iter().map(missing))),
        ("fatal", c.fatal.clone().into()),
        ("version_errors", Json::array(versions)),
        ("unresolved", Json::array(unresolved)),
        ("own_lookups", Json::array(own)),
        ("totals", totals(&c.totals)),
        ("warnings", Json::array(c.warnings.iter().map(String::as_str))),
    ]);
    if !c.costly.is_empty() {
        j.push("costly_lookups", Json::array(c.costly.iter().map(costly)));
    }
    if !c.bindings.is_empty() {
        j.push("bindings", Json::array(c.bindings.iter().map(binding)));
    }
    j
}

fn name(bytes: &[u8]) -> Json {
    Json::os(OsStr::from_bytes(bytes))
}

fn version(bytes: &Option<Vec<u8>>) -> Json {
    bytes.as_deref().map_or(Json::Null, name)
}

/// Counts by class, their sum and the bytes of their tables.
fn relocations(r: &RelocationCounts) -> Json {
    let mut j = Json::object(r.classes().map(|(class, n)| (class, Json::from(n))));
    j.push("total", r.total());
    j.push("table_bytes", r.table_bytes);
    j
}

fn object(o: &Object) -> Json {
    Json::object([
        ("path", o.path.as_os_str().into()),
        ("name", name(&o.name)),
        ("found_by", o.found_by.name().into()),
        ("needed_by", o.needed_by.into()),
        ("needs", Json::array(o.needs.iter().copied())),
        ("in_scope", o.in_scope.into()),
        ("relocations", relocations(&o.relocations)),
        ("relative_tagged", o.relative_tagged.into()),
        ("lookups", o.lookups.into()),
        ("lookups_cached", o.lookups_cached.into()),
        ("probes", o.probes.into()),
        ("lookups_own", o.lookups_own.into()),
        ("provided", o.provided.into()),
        ("lazy_slots", o.lazy_slots.into()),
        ("pages_written", o.pages_written.into()),
        ("relro_bytes", o.relro_bytes.into()),
        ("init_functions", o.init_functions.into()),
    ])
}

fn missing(m: &Missing) -> Json {
    let tried = m.tried.iter().map(|t| {
        Json::object([("by", t.by.name().into()), ("path", t.path.as_os_str().into()), ("why", t.why.as_str().into())])
    });
    Json::object([
        ("name", name(&m.name)),
        ("needed_by", m.needed_by.as_os_str().into()),
        ("tried", Json::array(tried)),
        ("ignored", m.ignored.into()),
    ])
}

fn costly(c: &Costly) -> Json {
    Json::object([
        ("symbol", name(&c.symbol)),
        ("version", version(&c.version)),
        ("object", c.object.into()),
        ("bound_to", c.bound_to.into()),
        ("probes", c.probes.into()),
        ("false_hits", c.false_hits.into()),
        ("chain", c.chain.into()),
    ])
}

fn binding(b: &Binding) -> Json {
    Json::object([
        ("symbol", name(&b.symbol)),
        ("version", version(&b.version)),
        ("object", b.object.into()),
        ("bound_to", b.bound_to.into()),
        ("probes", b.probes.into()),
        ("relocations", u64::from(b.relocations).into()),
    ])
}

/// Sums over the closure.
pub fn totals(t: &Totals) -> Json {
    Json::object([
        ("objects", t.objects.into()),
        ("relative", t.relative.into()),
        ("relative_tagged", t.relative_tagged.into()),
        ("relr", t.relr.into()),
        ("lookups", t.lookups.into()),
        ("lookups_cached", t.lookups_cached.into()),
        ("probes", t.probes.into()),
        ("probes_sysv", t.probes_sysv.into()),
        ("table_lines", t.touched.map(|l| l.first).into()),
        ("table_lines_again", t.touched.map(|l| l.again).into()),
        ("lazy_slots", t.lazy_slots.into()),
        ("failed_opens", t.failed_opens.into()),
        ("failed_stats", t.failed_stats.into()),
        ("stats", t.stats.into()),
        ("pages_written", t.pages_written.into()),
        ("relro_bytes", t.relro_bytes.into()),
        ("init_functions", t.init_functions.into()),
    ])
}
