//! Recipes read back by our own reader; that other readers agree is tested with the tools (`tests/`).

use std::path::Path;

use object::elf;

use super::*;
use crate::elf::link_facts;
use crate::facts::{Kind, LinkFacts, RelroKind};

const X86_64: Target = Target::new(elf::EM_X86_64, true, false);

fn facts(recipe: &Recipe) -> LinkFacts {
    link_facts(Path::new("synth"), &recipe.build()).unwrap()
}

fn dense(count: u64, packing: Packing) -> Option<Relative> {
    Some(Relative { count, stride: 8, packing })
}

#[test]
fn a_bare_program_is_static_pie_without_work() {
    let facts = facts(&Recipe::program(X86_64));
    assert_eq!((facts.kind, facts.relocations.total(), facts.pages_written), (Kind::StaticPie, 0, 0));
    assert_eq!(facts.warnings, Vec::<String>::new());
}

/// T34 of the case list: the same number of relocations, 500 times the pages.
#[test]
fn pages_written_follow_the_stride_whatever_the_packing() {
    for packing in [Packing::Plain, Packing::Relr, Packing::Android] {
        let near = facts(&Recipe { relative: dense(10_000, packing), ..Recipe::program(X86_64) });
        let far = Relative { count: 1_000, stride: 4096, packing };
        let far = facts(&Recipe { relative: Some(far), ..Recipe::program(X86_64) });
        for (facts, count, pages) in [(near, 10_000, 20), (far, 1_000, 1_000)] {
            let r = facts.relocations;
            assert_eq!((r.relative + r.relr, r.total(), facts.pages_written), (count, count, pages), "{packing:?}");
            let elf = facts.elf.unwrap();
            let by_size: Vec<u64> = elf.pages.iter().map(|p| p.pages).collect();
            // The data starts at a small page, so a larger one may be touched at either end.
            let spread = |n: u64| pages.div_ceil(n)..=pages.div_ceil(n) + 1;
            let fits = by_size[0] == pages && spread(4).contains(&by_size[1]) && spread(16).contains(&by_size[2]);
            assert!(fits, "{packing:?} {by_size:?}");
        }
    }
}

#[test]
fn relr_takes_a_bit_a_relocation() {
    let facts = facts(&Recipe { relative: dense(6_300, Packing::Relr), ..Recipe::program(X86_64) });
    // One address, then a bitmap for each further 63.
    assert_eq!((facts.relocations.relr, facts.relocations.table_bytes), (6_300, 8 * 101));
}

/// Every class in every way that machines store records.
#[test]
fn classes_of_all_machines() {
    let machines = [
        (elf::EM_X86_64, true, false),
        (elf::EM_X86_64, false, false),
        (elf::EM_386, false, false),
        (elf::EM_AARCH64, true, false),
        (elf::EM_AARCH64, true, true),
        (elf::EM_ARM, false, false),
        (elf::EM_ARM, false, true),
        (elf::EM_RISCV, true, false),
        (elf::EM_RISCV, false, false),
        (elf::EM_LOONGARCH, true, false),
        (elf::EM_PPC, false, true),
        (elf::EM_PPC64, true, true),
        (elf::EM_PPC64, true, false),
        (elf::EM_S390, true, true),
        (elf::EM_SPARC, false, true),
        (elf::EM_SPARCV9, true, true),
        (elf::EM_MIPS, false, true),
        (elf::EM_MIPS, false, false),
        (elf::EM_MIPS, true, true),
        (elf::EM_MIPS, true, false),
        (elf::EM_68K, false, true),
        (elf::EM_SH, false, false),
    ];
    for (machine, is_64, big_endian) in machines {
        let recipe = Recipe {
            relative: dense(5, Packing::Plain),
            imports: vec![
                Import::new("f", Use::JumpSlot),
                Import { relocations: 3, ..Import::new("g", Use::JumpSlot) },
                Import::new("data", Use::Absolute),
                Import::new("got", Use::GlobDat),
                Import::new("object", Use::Copy(40)),
            ],
            ..Recipe::library(Target::new(machine, is_64, big_endian), "libx.so")
        };
        let facts = facts(&recipe);
        let r = facts.relocations;
        let what = format!("{} {r:?} {:?}", facts.arch, facts.warnings);
        assert_eq!(
            (facts.kind, r.relative, r.jump_slot, r.copy, r.none, r.other),
            (Kind::Shared, 5, 4, 1, 0, 0),
            "{what}"
        );
        assert_eq!(r.absolute + r.glob_dat, 2, "{what}");
        assert_eq!(facts.elf.map(|e| (e.exported, e.imported)), Some((1, 4)), "{what}");
        assert_eq!(facts.warnings, Vec::<String>::new(), "{what}");
    }
}

#[test]
fn relro_is_full_only_when_no_slot_stays_open() {
    let imports = vec![Import::new("f", Use::JumpSlot), Import::new("d", Use::GlobDat)];
    let lazy = Recipe { imports, ..Recipe::library(X86_64, "l") };
    let now = Recipe { flags: elf::DF_BIND_NOW.0, ..lazy.clone() };
    let none = Recipe { relro: false, ..now.clone() };
    let kinds = [&lazy, &now, &none].map(|r| facts(r).relro.kind);
    assert_eq!(kinds, [RelroKind::Partial, RelroKind::Full, RelroKind::None]);
    assert_eq!(facts(&now).elf.unwrap().bind_now_by, ["DT_FLAGS"]);
}

#[test]
fn constructors_tls_and_names() {
    let recipe = Recipe {
        interp: Some(b"/lib64/ld-linux-x86-64.so.2".to_vec()),
        needed: vec![b"liba.so".to_vec(), b"libc.so.6".to_vec()],
        runpath: Some(b"$ORIGIN/../lib:/opt".to_vec()),
        constructors: 7,
        tls_bytes: 24,
        extra_segments: 20,
        versions: vec![(b"libc.so.6".to_vec(), b"GLIBC_2.34".to_vec()), (b"libc.so.6".to_vec(), b"GLIBC_2.4".to_vec())],
        hash: Hash::Both,
        ..Recipe::program(X86_64)
    };
    let facts = facts(&recipe);
    assert_eq!(facts.kind, Kind::Pie);
    assert_eq!(facts.needed, ["liba.so", "libc.so.6"]);
    assert_eq!(facts.runpath, ["$ORIGIN/../lib", "/opt"]);
    assert_eq!((facts.init.init_array, facts.relocations.relative, facts.tls_bytes), (7, 7, 24));
    assert_eq!(facts.hash, ["gnu", "sysv"]);
    let elf = facts.elf.unwrap();
    assert_eq!((elf.libc_version.as_deref(), elf.relative_tagged), (Some("2.34"), 7));
    assert_eq!(elf.segments.iter().filter(|s| s.kind == "load").count(), 23);
    assert_eq!(facts.warnings, Vec::<String>::new());
}

/// The loaders of this machine take what is written: libraries, all hash styles, lookups, constructors, RELR.
#[cfg(all(target_os = "linux", target_env = "gnu", target_arch = "x86_64"))]
#[test]
fn programs_run_under_this_machines_loaders() {
    let dir = std::env::temp_dir().join(format!("premain-synth-{}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    let names = |prefix: &str| (0..50).map(|i| format!("{prefix}_{i}").into_bytes()).collect::<Vec<_>>();
    for (i, hash) in [Hash::Gnu, Hash::Sysv, Hash::Both].into_iter().enumerate() {
        let library = Recipe {
            exports: names(&format!("lib{i}")),
            constructors: 3,
            tls_bytes: 16,
            hash,
            relative: dense(100, Packing::Relr),
            ..Recipe::library(X86_64, format!("lib{i}.so"))
        };
        std::fs::write(dir.join(format!("lib{i}.so")), library.build()).unwrap();
    }
    let imports = |used_as| (0..3).flat_map(move |i| (0..50).map(move |j| Import::new(format!("lib{i}_{j}"), used_as)));
    let mut imports: Vec<Import> = imports(Use::GlobDat).chain(imports(Use::JumpSlot)).collect();
    imports.push(Import { relocations: 9, ..Import::new("lib1_7", Use::Absolute) });
    for (i, flags) in [0, elf::DF_BIND_NOW.0].into_iter().enumerate() {
        let program = Recipe {
            interp: Some(b"/lib64/ld-linux-x86-64.so.2".to_vec()),
            needed: (0..3).map(|i| format!("lib{i}.so").into_bytes()).collect(),
            runpath: Some(b"$ORIGIN".to_vec()),
            flags,
            imports: imports.clone(),
            relative: Some(Relative { count: 50, stride: 4096, packing: Packing::Plain }),
            irelative: 0,
            constructors: 5,
            extra_segments: 10,
            ..Recipe::program(X86_64)
        };
        let path = dir.join(format!("program{i}"));
        std::fs::write(&path, program.build()).unwrap();
        // Started through the loader, so that no other test's fork can make the file "busy".
        for loader in ["/lib64/ld-linux-x86-64.so.2", "/lib/ld-musl-x86_64.so.1"] {
            let output = std::process::Command::new(loader).arg(&path).output();
            let Ok(output) = output else { continue };
            assert!(output.status.success(), "{loader} {}: {output:?}", path.display());
        }
    }
    std::fs::remove_dir_all(&dir).unwrap();
}
