//! Damaged ELF files: whatever bytes come, an answer or a reason, no panic, no endless work. The damage is the same in
//! every run; a failure names its number.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may end in a panic")]

mod support;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use object::elf;
use premain::crosscheck::cross_check;
use premain::elf::synth::{Hash, Import, Packing, Recipe, Relative, Target, Use, control};
use premain::elf::{link_facts, page_writes};
use premain::output::Style;
use premain::report::{facts_json, facts_text};

/// A small generator with a fixed start (xorshift64): the same numbers on every host.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, n: usize) -> usize {
        (self.next() % n.max(1) as u64) as usize
    }
}

/// Values that break arithmetic: ends of ranges, sizes of nothing and of everything.
const VALUES: [u64; 12] = [
    0,
    1,
    3,
    0x7fff_ffff,
    0x8000_0000,
    0xffff_ffff,
    1 << 40,
    i64::MAX as u64,
    1 << 63,
    u64::MAX,
    u64::MAX - 7,
    0xffff_ffff_ffff_f000,
];

fn damage(file: &[u8], n: &mut Numbers) -> Vec<u8> {
    let mut file = file.to_vec();
    for _ in 0..=n.below(4) {
        let at = n.below(file.len());
        match n.below(6) {
            0 => file.truncate(at.max(1)),
            1 => file[at] ^= 1 << n.below(8),
            2 => file[at] = n.next() as u8,
            // Headers and tables are words: whole words are replaced at their places, most of them near the start.
            kind => {
                let range = if kind == 3 { 1024 } else { file.len() };
                let at = n.below(range.min(file.len())) & !3;
                let value = VALUES[n.below(VALUES.len())].to_le_bytes();
                let len = if n.below(2) == 0 { 8 } else { 4 };
                for (to, from) in file[at..].iter_mut().zip(&value[..len]) {
                    *to = *from;
                }
            }
        }
    }
    file
}

/// Everything that reads the bytes of one file.
fn read(file: &[u8]) {
    let path = Path::new("damaged");
    let Ok(facts) = link_facts(path, file) else { return };
    let pages = page_writes(path, file).unwrap_or_default();
    let text = facts_text::file(&facts, Style::PLAIN).finish() + &facts_text::pages(&pages, Style::PLAIN);
    assert!(!text.contains('\u{1b}'));
    let json = facts_json::file(&facts).to_string();
    assert!(json.starts_with('{') && !json.contains('\n'));
    let _ = cross_check(file, &facts);
}

fn every_damage_is_borne(name: &str, file: &[u8], times: u64) {
    for i in 0..times {
        let mut n = Numbers(0x9e37_79b9_7f4a_7c15 ^ (i << 20) ^ file.len() as u64);
        n.next();
        let damaged = damage(file, &mut n);
        if catch_unwind(AssertUnwindSafe(|| read(&damaged))).is_err() {
            let path = support::scratch("elf-mutation").join(name);
            std::fs::write(&path, &damaged).unwrap();
            panic!("{name}, damage {i}: kept as {}", path.display());
        }
    }
}

fn recipe(target: Target, packing: Packing) -> Recipe {
    Recipe {
        interp: Some(b"/lib/ld.so.1".to_vec()),
        needed: vec![b"liba.so".to_vec()],
        runpath: Some(b"/opt".to_vec()),
        relative: Some(Relative { count: 70, stride: 24, packing }),
        imports: vec![
            Import::new("f", Use::JumpSlot),
            Import::new("g", Use::GlobDat),
            Import::new("object", Use::Copy(64)),
        ],
        exports: (0..9).map(|i| format!("function_{i}").into_bytes()).collect(),
        hash: Hash::Both,
        versions: vec![(b"liba.so".to_vec(), b"A_1".to_vec()), (b"liba.so".to_vec(), b"A_2".to_vec())],
        constructors: 2,
        tls_bytes: 8,
        ..Recipe::program(target)
    }
}

#[test]
fn damaged_files_of_ours() {
    let targets = [
        ("x86-64", Target::new(elf::EM_X86_64, true, false)),
        ("i386", Target::new(elf::EM_386, false, false)),
        ("mips64el", Target::new(elf::EM_MIPS, true, false)),
        ("ppc", Target::new(elf::EM_PPC, false, true)),
        ("s390x", Target::new(elf::EM_S390, true, true)),
    ];
    for (name, target) in targets {
        for packing in [Packing::Plain, Packing::Relr, Packing::Android] {
            every_damage_is_borne(name, &recipe(target, packing).build(), 500);
        }
    }
    every_damage_is_borne("control", &control(premain::elf::synth::Machine::X86_64), 1000);
}

#[test]
fn damaged_files_of_this_machine() {
    for program in ["/bin/true", "/lib64/ld-linux-x86-64.so.2"] {
        if let Ok(file) = std::fs::read(program) {
            every_damage_is_borne(&program.replace('/', "_"), &file, 300);
        }
    }
}

/// Every length of a file, as it is while it is being copied.
#[test]
fn a_file_cut_anywhere() {
    let file = recipe(Target::new(elf::EM_X86_64, true, false), Packing::Plain).build();
    for len in (0..file.len()).step_by(7) {
        read(&file[..len]);
    }
}
