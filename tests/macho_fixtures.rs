//! Every Mach-O fixture against what LLVM's tools say of it (`fixtures/macho/expected.json`, written by
//! `expected.py`), and that file against the tools themselves where they are installed.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may end in a panic")]

mod support;

use std::path::{Path, PathBuf};
use std::process::Command;

use premain::facts::macho::MachoFacts;
use premain::facts::{Fact, Kind, LinkFacts, RelroKind};
use premain::json::Json;
use premain::macho;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/macho")
}

fn read(name: &str, arch: Option<&str>) -> Vec<LinkFacts> {
    let path = root().join("built").join(name);
    let bytes = std::fs::read(&path).unwrap();
    assert!(macho::is_macho(&bytes), "{name}");
    macho::link_facts(&path, &bytes, arch).unwrap_or_else(|e| panic!("{name}: {e}"))
}

fn expected() -> Vec<(String, Json)> {
    let text = std::fs::read_to_string(root().join("expected.json")).unwrap();
    match Json::parse(&text).unwrap() {
        Json::Object(fields) => fields,
        other => panic!("not an object: {other}"),
    }
}

fn number(json: &Json, field: &str) -> u64 {
    json.get(field).and_then(Json::as_u64).unwrap_or_else(|| panic!("{field} in {json}"))
}

fn text<'a>(json: &'a Json, field: &str) -> Option<&'a str> {
    json.get(field).and_then(Json::as_str)
}

/// One slice's figures against LLVM's, each with its name.
fn compare(name: &str, facts: &LinkFacts, expected: &Json) {
    let m: &MachoFacts = facts.macho.as_ref().unwrap();
    let fixups = expected.get("fixups").unwrap();
    let r = &facts.relocations;
    let exports = m.exports.value().copied().unwrap_or_default();
    let counts = [
        ("rebases", m.fixups.rebases),
        ("binds", m.fixups.binds),
        ("got_binds", r.glob_dat),
        ("lazy_binds", m.fixups.lazy_binds),
        ("weak_binds", m.fixups.weak_binds),
        ("symbols", m.fixups.symbols),
        ("lazy_symbols", m.fixups.lazy_symbols),
        ("weak_imports", m.fixups.weak_imports),
        ("pages_4k", m.fixups.pages_4k),
        ("pages_16k", m.fixups.pages_16k),
    ];
    for (field, ours) in counts {
        assert_eq!(ours, number(fixups, field), "{name}: {field}");
    }
    assert_eq!((r.relative, r.jump_slot), (m.fixups.rebases, m.fixups.lazy_binds), "{name}");
    assert_eq!(r.absolute + r.glob_dat, m.fixups.binds, "{name}");
    let format = text(fixups, "format").unwrap();
    assert_eq!(m.fixups.format, format, "{name}");
    if let Some(signed) = fixups.get("authenticated") {
        assert_eq!(Some(m.fixups.authenticated), signed.as_u64(), "{name}: signed pointers");
    }
    for (field, count) in [
        ("rebases_by_segment", (|s| s.rebases) as fn(&premain::facts::macho::MachoSegment) -> u64),
        ("binds_by_segment", |s| s.binds),
    ] {
        let by_segment = fixups.get(field).unwrap();
        for segment in &m.segments {
            let theirs = by_segment.get(&segment.name).and_then(Json::as_u64).unwrap_or(0);
            assert_eq!(count(segment), theirs, "{name}: {field} {}", segment.name);
        }
    }
    assert_eq!(exports.symbols, number(expected, "exports"), "{name}: exports");
    assert_eq!(exports.weak_definitions, number(expected, "weak_exports"), "{name}: weak exports");
    assert_eq!(exports.trie_bytes, number(expected, "export_bytes"), "{name}: trie");
    header(name, facts, m, expected);
}

fn header(name: &str, facts: &LinkFacts, m: &MachoFacts, expected: &Json) {
    assert_eq!(Some(&m.cpu[..]), text(expected, "cpu"), "{name}");
    assert_eq!(Some(m.file_type), text(expected, "file_type"), "{name}");
    assert_eq!(m.entry, text(expected, "entry"), "{name}");
    assert_eq!(m.uuid.as_deref(), text(expected, "uuid"), "{name}");
    assert_eq!(facts.soname.as_ref().and_then(|s| s.to_str()), text(expected, "id"), "{name}");
    assert_eq!(facts.interp.value().and_then(|p| p.to_str()), text(expected, "dylinker"), "{name}");
    assert_eq!(m.init.pointers, number(expected, "init_pointers"), "{name}");
    assert_eq!(m.init.offsets, number(expected, "init_offsets"), "{name}");
    assert_eq!(facts.tls_bytes, number(expected, "tls_bytes"), "{name}");
    assert_eq!(facts.relro.bytes, number(expected, "read_only_bytes"), "{name}");
    let flag = |field: &str| expected.get(field) == Some(&Json::Bool(true));
    assert_eq!((m.weak_defines, m.binds_to_weak), (flag("weak_defines"), flag("binds_to_weak")), "{name}");
    let signature = expected.get("signature_bytes").and_then(Json::as_u64);
    assert_eq!(m.signature.value().map(|s| s.bytes), signature, "{name}");
    let rpaths: Vec<&str> =
        expected.get("rpaths").unwrap().as_array().unwrap().iter().filter_map(Json::as_str).collect();
    assert_eq!(facts.rpath, rpaths, "{name}");
    let dylibs = expected.get("dylibs").and_then(Json::as_array).unwrap();
    assert_eq!(m.dylibs.len(), dylibs.len(), "{name}");
    for (ours, theirs) in m.dylibs.iter().zip(dylibs) {
        let [command, path] = theirs.as_array().unwrap() else { panic!("{theirs}") };
        assert_eq!(ours.name.to_str(), path.as_str(), "{name}");
        let kind = match (ours.weak, ours.reexport, ours.upward, ours.lazy) {
            (true, ..) => "LC_LOAD_WEAK_DYLIB",
            (_, true, ..) => "LC_REEXPORT_DYLIB",
            (_, _, true, _) => "LC_LOAD_UPWARD_DYLIB",
            (.., true) => "LC_LAZY_LOAD_DYLIB",
            _ => "LC_LOAD_DYLIB",
        };
        assert_eq!(Some(kind), command.as_str(), "{name}");
    }
    let platforms = expected.get("platforms").and_then(Json::as_array).unwrap();
    let ours: Vec<Json> = m.platforms.iter().map(platform).collect();
    assert_eq!(ours, platforms, "{name}");
}

fn platform(p: &premain::facts::macho::MachoPlatform) -> Json {
    let number = match &p.name[..] {
        "macos" => 1u64,
        "watchos" => 4,
        other => panic!("{other}"),
    };
    Json::Array(vec![number.into(), (&p.min_version[..]).into(), (&p.sdk[..]).into()])
}

#[test]
fn every_count_is_llvms() {
    let all = expected();
    assert!(all.len() >= 38, "{}", all.len());
    for (name, json) in all {
        let facts = read(&name, None);
        if let Some(slices) = json.get("fixups_by_slice").and_then(Json::as_array) {
            let ours: Vec<u64> = facts.iter().map(|f| f.relocations.total()).collect();
            let theirs: Vec<u64> = slices.iter().filter_map(Json::as_u64).collect();
            assert_eq!(ours, theirs, "{name}");
            continue;
        }
        let slices = json.get("slices").and_then(Json::as_array).unwrap();
        assert_eq!(facts.len(), slices.len(), "{name}");
        for (facts, expected) in facts.iter().zip(slices) {
            compare(&name, facts, expected);
        }
    }
}

#[test]
fn the_expected_figures_are_what_llvm_says_now() {
    for name in ["python3", "llvm-objdump-19", "llvm-otool-19"] {
        if support::tool(name).is_none() {
            return;
        }
    }
    let out = Command::new("python3").arg(root().join("expected.py")).arg("--check").output().unwrap();
    let (code, stdout, stderr) = support::outcome(out);
    assert_eq!((code, &stdout[..], &stderr[..]), (0, "", ""));
}

#[test]
fn the_fixtures_are_those_that_the_recipe_made() {
    let Some(sha256sum) = support::tool("sha256sum") else { return };
    let list = root().join("built.sha256");
    let check = Command::new(sha256sum).arg("--quiet").arg("-c").arg(&list).current_dir(root().join("built")).output();
    let (code, stdout, _) = support::outcome(check.unwrap());
    assert_eq!(code, 0, "{stdout}");
    let listed = std::fs::read_to_string(&list).unwrap().lines().count();
    assert_eq!(listed, expected().len() + 1, "every fixture has expected figures, the Java class has none");
}

#[test]
fn kinds_and_read_only_data() {
    let one = |name: &str| read(name, None).remove(0);
    assert_eq!(one("arm64-chained/prog").kind, Kind::Pie);
    assert_eq!(one("arm64-chained/libbase.dylib").kind, Kind::Shared);
    assert_eq!(one("arm64-chained/plug.bundle").kind, Kind::Shared);
    assert_eq!(one("arm64-chained/prog").relro.kind, RelroKind::Full);
    assert_eq!(one("arm64-opcodes/prog").relro.kind, RelroKind::Partial, "lazy pointers stay writable");
    assert_eq!(one("arm64-chained/tiny.dylib").relro.kind, RelroKind::None);
    let (chained, opcodes) = (one("x86_64-chained/pages"), one("arm64-opcodes/pages"));
    assert_eq!((chained.pages_written, opcodes.pages_written), (13, 6), "pages of the machine's own size");
    assert!(chained.macho.as_ref().unwrap().fixups.page_in_linking);
    assert!(chained.macho.unwrap().notes.iter().any(|n| n.contains("upper bound")));
    let delayed = one("attributes/delayed.dylib").macho.unwrap().dylibs.remove(0);
    assert!(delayed.weak && delayed.delayed_init && !delayed.upward);
    let prog = one("arm64-chained/prog");
    let Fact::Value(signature) = &prog.macho.unwrap().signature else { panic!("no signature") };
    // It stands at the file's end and hashes what is before it in pages of 4 KiB.
    let hashed = (prog.size_bytes - signature.bytes).div_ceil(4096);
    assert_eq!((signature.adhoc, signature.page_hashes), (Some(true), hashed));
}

#[test]
fn slices_are_chosen_by_either_name() {
    for word in ["arm64", "aarch64", "ARM64"] {
        let facts = read("universal/prog", Some(word));
        assert_eq!(facts.len(), 1);
        let slice = facts[0].macho.as_ref().unwrap().slice.as_ref().unwrap();
        assert_eq!((slice.index, slice.of, slice.hidden, slice.align_bytes), (1, 2, false, Some(16384)), "{word}");
    }
    let hidden = read("universal/hidden", Some("arm64"));
    assert!(hidden[0].macho.as_ref().unwrap().slice.as_ref().unwrap().hidden);
    assert!(hidden[0].warnings[0].contains("behind the counted slices"));
    let path = root().join("built/universal/prog");
    let bytes = std::fs::read(&path).unwrap();
    let error = macho::link_facts(&path, &bytes, Some("ppc")).unwrap_err().to_string();
    assert_eq!(error, "holds no slice for ppc, only x86_64, arm64");
    let thin = std::fs::read(root().join("built/arm64e-format12/prog")).unwrap();
    assert!(macho::link_facts(&path, &thin, Some("arm64")).unwrap_err().to_string().contains("only arm64e"));
    assert_eq!(macho::link_facts(&path, &thin, Some("aarch64")).unwrap().len(), 1, "the common name means all");
    let thirty = read("universal/thirty.dylib", None);
    assert_eq!(thirty.len(), 30);
    assert!(thirty[0].warnings.iter().any(|w| w.contains("more than 16 slices")));
}

#[test]
fn a_java_class_is_not_mach_o() {
    let path = root().join("built/universal/Hello.class");
    let bytes = std::fs::read(&path).unwrap();
    assert!(!macho::is_macho(&bytes) && macho::is_java_class(&bytes));
    assert!(macho::link_facts(&path, &bytes, None).unwrap_err().to_string().contains("Java class"));
}

#[test]
fn a_bad_slice_does_not_hide_the_others() {
    let path = root().join("built/universal/prog");
    let mut bytes = std::fs::read(&path).unwrap();
    // The second entry's offset.
    bytes[36..40].copy_from_slice(&0x7fff_0000u32.to_be_bytes());
    let facts = macho::link_facts(&path, &bytes, None).unwrap();
    assert_eq!(facts.iter().map(|f| f.kind).collect::<Vec<_>>(), [Kind::Pie, Kind::Other]);
    assert!(facts[1].warnings[0].contains("past the end"));
    assert!(macho::link_facts(&path, &bytes, Some("x86_64")).is_ok());
    assert!(macho::link_facts(&path, &bytes, Some("arm64")).is_err());
}
