//! Pages and JSON of files that we write ourselves, which have the same bytes on every host.
//!
//! `PREMAIN_BLESS=1 cargo test --test elf_golden` writes the expected files anew; read the difference before it is kept.
#![allow(clippy::unwrap_used, clippy::print_stderr, reason = "a test may end in a panic, and says what it wrote")]

use std::path::{Path, PathBuf};

use object::elf;
use premain::elf::synth::{Hash, Import, Machine, Packing, Recipe, Relative, Target, Use, control};
use premain::elf::{link_facts, page_writes};
use premain::output::Style;
use premain::report::{facts_json, facts_text};

const X86_64: Target = Target::new(elf::EM_X86_64, true, false);

fn everything() -> Recipe {
    Recipe {
        interp: Some(b"/lib64/ld-linux-x86-64.so.2".to_vec()),
        needed: vec![b"libone.so.1".to_vec(), b"libc.so.6".to_vec()],
        runpath: Some(b"$ORIGIN/../lib:/opt/lib".to_vec()),
        flags: elf::DF_BIND_NOW.0,
        flags_1: elf::DF_1_PIE.0 | elf::DF_1_NOW.0,
        relative: Some(Relative { count: 1500, stride: 16, packing: Packing::Plain }),
        imports: vec![
            Import::new("one", Use::JumpSlot),
            Import { relocations: 4, ..Import::new("table", Use::Absolute) },
            Import::new("two", Use::GlobDat),
            Import::new("environ", Use::Copy(8)),
        ],
        irelative: 2,
        exports: vec![b"visible".to_vec()],
        hash: Hash::Both,
        versions: vec![(b"libc.so.6".to_vec(), b"GLIBC_2.34".to_vec())],
        constructors: 3,
        tls_bytes: 40,
        extra_segments: 1,
        ..Recipe::program(X86_64)
    }
}

fn with_tag(mut file: Vec<u8>, tag: elf::DynamicTag, value: u64) -> Vec<u8> {
    let tag = (tag.0 as u64).to_le_bytes();
    let at = (0..file.len() - 16).step_by(8).find(|at| file[*at..*at + 8] == tag).unwrap();
    file[at + 8..at + 16].copy_from_slice(&value.to_le_bytes());
    file
}

/// Each case shows one thing; the file's name says which.
fn cases() -> Vec<(&'static str, Vec<u8>)> {
    let lazy = Recipe { flags: 0, flags_1: elf::DF_1_PIE.0, ..everything() };
    let big_endian = Target::new(elf::EM_MIPS, false, true);
    let packed = |packing| Recipe {
        relative: Some(Relative { count: 300, stride: 4096, packing }),
        ..Recipe::library(X86_64, "libpacked.so")
    };
    let relr_unmarked = Recipe {
        needed: vec![b"libc.so.6".to_vec()],
        versions: vec![(b"libc.so.6".to_vec(), b"GLIBC_2.34".to_vec())],
        ..packed(Packing::Relr)
    };
    vec![
        ("control", control(Machine::X86_64)),
        ("bound-at-start", everything().build()),
        ("bound-lazily", lazy.build()),
        ("musl", Recipe { interp: Some(b"/lib/ld-musl-x86_64.so.1".to_vec()), ..lazy }.build()),
        ("mips-big-endian", Recipe { imports: everything().imports, ..Recipe::library(big_endian, "libm.so") }.build()),
        ("relr", packed(Packing::Relr).build()),
        ("relr-not-marked", relr_unmarked.build()),
        ("android", packed(Packing::Android).build()),
        ("relacount-too-big", with_tag(everything().build(), elf::DT_RELACOUNT, 9999)),
        ("table-past-the-end", with_tag(everything().build(), elf::DT_RELASZ, 1 << 40)),
        ("no-interpreter", Recipe { interp: None, ..everything() }.build()),
    ]
}

fn shown(name: &str, file: &[u8]) -> String {
    let path = Path::new("/synthetic").join(name);
    let facts = link_facts(&path, file).unwrap();
    let pages = facts_text::pages(&page_writes(&path, file).unwrap(), Style::PLAIN);
    let page = facts_text::file(&facts, Style::PLAIN).finish();
    format!("{page}pages written by relocations\n{pages}\n{}", facts_json::file(&facts).pretty())
}

#[test]
fn pages_and_json_are_as_they_were() {
    let dir = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden/elf");
    let bless = std::env::var_os("PREMAIN_BLESS").is_some();
    let mut wrong = Vec::new();
    for (name, file) in cases() {
        let path = dir.join(format!("{name}.txt"));
        let ours = shown(name, &file);
        let expected = std::fs::read_to_string(&path).unwrap_or_default();
        if ours == expected {
            continue;
        }
        let lines = expected.lines().zip(ours.lines()).find(|(a, b)| a != b);
        eprintln!("{name}: first difference (expected, ours): {lines:?}");
        if bless {
            std::fs::create_dir_all(&dir).unwrap();
            std::fs::write(&path, ours).unwrap();
        } else {
            wrong.push(name);
        }
    }
    assert!(wrong.is_empty(), "{wrong:?} differ");
}
