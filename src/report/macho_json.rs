//! The `macho {}` block of `inspect --json`: what only Mach-O files have.

use crate::facts::Fact;
use crate::facts::macho::{MachoDylib, MachoFacts, MachoFixups, MachoSegment, MachoSlice};
use crate::json::Json;

/// The block of one image.
pub fn block(facts: &MachoFacts) -> Json {
    Json::object([
        ("cpu", Json::from(&facts.cpu[..])),
        ("file_type", facts.file_type.into()),
        ("slice", facts.slice.as_ref().map_or(Json::Null, slice)),
        ("platforms", platforms(facts)),
        ("dylibs", Json::Array(facts.dylibs.iter().map(dylib).collect())),
        ("entry", facts.entry.map_or(Json::Null, Json::from)),
        ("fixups", fixups(&facts.fixups)),
        ("segments", Json::Array(facts.segments.iter().map(segment).collect())),
        (
            "init",
            Json::object([
                ("pointers", Json::from(facts.init.pointers)),
                ("offsets", facts.init.offsets.into()),
                ("routines", Json::Bool(facts.init.routines)),
                ("objc_load", facts.init.objc_load.into()),
            ]),
        ),
        ("exports", exports(facts)),
        ("weak_defines", Json::Bool(facts.weak_defines)),
        ("binds_to_weak", Json::Bool(facts.binds_to_weak)),
        ("flat_namespace", Json::Bool(facts.flat_namespace)),
        ("signature", signature(facts)),
        ("encryption", encryption(facts)),
        ("uuid", facts.uuid.as_deref().map_or(Json::Null, Json::from)),
        ("notes", Json::array(facts.notes.iter().map(|n| &n[..]))),
    ])
}

fn slice(slice: &MachoSlice) -> Json {
    Json::object([
        ("index", Json::from(slice.index)),
        ("of", slice.of.into()),
        ("offset", slice.offset.into()),
        ("size_bytes", slice.size_bytes.into()),
        ("align_bytes", slice.align_bytes.map_or(Json::Null, Json::from)),
        ("hidden", Json::Bool(slice.hidden)),
    ])
}

fn platforms(facts: &MachoFacts) -> Json {
    let one = |p: &crate::facts::macho::MachoPlatform| {
        Json::object([
            ("name", Json::from(&p.name[..])),
            ("min_version", p.min_version[..].into()),
            ("sdk", p.sdk[..].into()),
        ])
    };
    Json::Array(facts.platforms.iter().map(one).collect())
}

fn dylib(dylib: &MachoDylib) -> Json {
    Json::object([
        ("name", Json::os(&dylib.name)),
        ("weak", Json::Bool(dylib.weak)),
        ("reexport", Json::Bool(dylib.reexport)),
        ("upward", Json::Bool(dylib.upward)),
        ("lazy", Json::Bool(dylib.lazy)),
        ("delayed_init", Json::Bool(dylib.delayed_init)),
        ("current_version", dylib.current_version[..].into()),
        ("compatibility_version", dylib.compatibility_version[..].into()),
    ])
}

fn fixups(fixups: &MachoFixups) -> Json {
    Json::object([
        ("format", Json::from(fixups.format)),
        ("pointer_formats", Json::array(fixups.pointer_formats.iter().map(|f| &f[..]))),
        ("rebases", fixups.rebases.into()),
        ("binds", fixups.binds.into()),
        ("lazy_binds", fixups.lazy_binds.into()),
        ("weak_binds", fixups.weak_binds.into()),
        ("authenticated", fixups.authenticated.into()),
        ("symbols", fixups.symbols.into()),
        ("lazy_symbols", fixups.lazy_symbols.into()),
        ("weak_imports", fixups.weak_imports.into()),
        ("pages_4k", fixups.pages_4k.into()),
        ("pages_16k", fixups.pages_16k.into()),
        ("page_in_linking", Json::Bool(fixups.page_in_linking)),
        ("table_bytes", fixups.table_bytes.into()),
    ])
}

fn segment(segment: &MachoSegment) -> Json {
    Json::object([
        ("name", Json::from(&segment.name[..])),
        ("vm_bytes", segment.vm_bytes.into()),
        ("file_bytes", segment.file_bytes.into()),
        ("protection", segment.protection[..].into()),
        ("read_only", Json::Bool(segment.read_only)),
        ("rebases", segment.rebases.into()),
        ("binds", segment.binds.into()),
        ("lazy_binds", segment.lazy_binds.into()),
        ("weak_binds", segment.weak_binds.into()),
    ])
}

/// A fact in its three states.
fn fact<T>(fact: &Fact<T>, value: impl Fn(&T) -> Json) -> Json {
    match fact {
        Fact::Absent => Json::Null,
        Fact::Value(v) => value(v),
        Fact::Unreadable(why) => Json::unreadable(&why[..]),
    }
}

fn exports(facts: &MachoFacts) -> Json {
    fact(&facts.exports, |e| {
        Json::object([
            ("trie_bytes", Json::from(e.trie_bytes)),
            ("symbols", e.symbols.into()),
            ("weak_definitions", e.weak_definitions.into()),
            ("reexports", e.reexports.into()),
            ("resolvers", e.resolvers.into()),
        ])
    })
}

fn signature(facts: &MachoFacts) -> Json {
    fact(&facts.signature, |s| {
        Json::object([
            ("bytes", Json::from(s.bytes)),
            ("adhoc", s.adhoc.map_or(Json::Null, Json::Bool)),
            ("page_hashes", s.page_hashes.into()),
        ])
    })
}

fn encryption(facts: &MachoFacts) -> Json {
    facts
        .encryption
        .map_or(Json::Null, |e| Json::object([("bytes", Json::from(e.bytes)), ("system", u64::from(e.system).into())]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::macho::{MachoEncryption, MachoExports};

    #[test]
    fn three_states_stay_apart() {
        let mut facts = MachoFacts::default();
        assert_eq!(block(&facts).get("exports"), Some(&Json::Null));
        assert_eq!(block(&facts).get("slice"), Some(&Json::Null));
        facts.exports = Fact::Value(MachoExports { symbols: 3, ..MachoExports::default() });
        facts.signature = Fact::Unreadable("cut off".to_string());
        facts.encryption = Some(MachoEncryption { bytes: 9, system: 1 });
        let json = block(&facts);
        assert_eq!(json.get("exports").and_then(|e| e.get("symbols")), Some(&Json::Uint(3)));
        assert_eq!(json.get("signature"), Some(&Json::unreadable("cut off")));
        assert_eq!(json.get("encryption").and_then(|e| e.get("system")), Some(&Json::Uint(1)));
    }
}
