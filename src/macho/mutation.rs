//! Every fixture, damaged in many ways: no panic, and work that stays in proportion to the file's size. The same
//! damage in every run; the bound counts steps, not time.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::testing::Random;
use super::{is_macho, link_facts, work};
use crate::facts::LinkFacts;

/// Steps a byte that a file may cost: an opcode stream may claim a place for each four bytes, in each of four
/// streams, names may be read sixteen times over, and everything else is read a few times.
const STEPS_A_BYTE: u64 = 24;
/// Steps that an empty file may cost.
const STEPS_AT_LEAST: u64 = 4096;

fn fixtures() -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/macho/built");
    let mut open = vec![root];
    while let Some(dir) = open.pop() {
        for entry in std::fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                open.push(path);
            } else {
                let bytes = std::fs::read(&path).unwrap();
                found.insert(path, bytes);
            }
        }
    }
    assert!(found.len() >= 40);
    found
}

/// Reads, and checks what holds for any bytes at all.
fn read(path: &Path, bytes: &[u8], what: &str) {
    work::taken();
    let result = link_facts(path, bytes, None);
    let steps = work::taken();
    let most = bytes.len() as u64 * STEPS_A_BYTE + STEPS_AT_LEAST;
    assert!(steps <= most, "{}: {what}: {steps} steps for {} bytes", path.display(), bytes.len());
    assert!(result.is_err() || is_macho(bytes));
    for facts in result.unwrap_or_default() {
        bounded(&facts, bytes.len() as u64, what);
    }
}

fn bounded(facts: &LinkFacts, size: u64, what: &str) {
    let macho = facts.macho.as_ref().unwrap();
    let fixups = &macho.fixups;
    for count in [fixups.rebases, fixups.binds, fixups.lazy_binds, fixups.weak_binds, fixups.symbols] {
        // One bind stream of chains adds rebases to those of the rebase stream.
        assert!(count <= size / 4 * 2, "{what}: {count} of {size} bytes");
    }
    assert!(fixups.pages_16k <= fixups.pages_4k && fixups.pages_4k <= size * 2, "{what}");
    assert!(facts.init.total() <= size / 4 * 2 + 1 && macho.segments.len() as u64 <= size / 56, "{what}");
}

/// Load commands, tables and headers are what steers the reader: places in the first 4 KiB and in the last
/// sixteenth of a file are chosen more often than its code and data.
fn spot(random: &mut Random, size: usize) -> usize {
    match random.below(4) {
        0 => random.below(size),
        1 => size - 1 - random.below(size / 16 + 1),
        _ => random.below(size.min(4096)),
    }
}

const WORDS: [u32; 10] = [0, 1, 7, 0x7f, 0xff, 0xffff, 0x7fff_ffff, 0x8000_0000, 0xffff_fff8, 0xffff_ffff];

/// Streams that claim more than they are: rebase and bind runs with counts near 2^64 and steps of 0 and -8, chains,
/// trie nodes that lead to the root.
const HOSTILE: [&[u8]; 6] = [
    &[0x11, 0x21, 0x00, 0x60, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01],
    &[0x11, 0x22, 0x00, 0x80, 0xff, 0xff, 0xff, 0x7f, 0xf8, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01],
    &[0x51, 0x72, 0x00, 0x11, 0x40, b'_', 0x00, 0xc0, 0xff, 0xff, 0xff, 0xff, 0x7f, 0x00],
    &[0x11, 0x40, b'a', 0x00, 0x51, 0xd0, 0x7f, 0x90, 0x72, 0x00, 0xd1, 0xd1, 0xd1],
    &[0x00, 0xff, b'a', 0x00, 0x00, b'b', 0x00, 0x00],
    &[0xff, 0xff, 0xff, 0x7f, 0x00, 0x80, 0x02, 0x80],
];

fn damage(random: &mut Random, bytes: &mut Vec<u8>) {
    let at = spot(random, bytes.len());
    match random.below(6) {
        0 => bytes[at] ^= 1 << random.below(8),
        1 => bytes[at] = random.next() as u8,
        2 => bytes.truncate(at.max(1)),
        3 => {
            let at = at & !3;
            let word = WORDS[random.below(WORDS.len())].to_le_bytes();
            bytes.iter_mut().skip(at).zip(word).for_each(|(b, w)| *b = w);
        }
        4 => {
            let hostile = HOSTILE[random.below(HOSTILE.len())];
            bytes.iter_mut().skip(at).zip(hostile).for_each(|(b, h)| *b = *h);
        }
        _ => {
            // A run of one value: a table of equal entries.
            let (value, length) = (random.next() as u8, random.below(64));
            bytes.iter_mut().skip(at).take(length).for_each(|b| *b = value);
        }
    }
}

#[test]
fn damaged_fixtures_cost_bounded_work() {
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    for (path, original) in fixtures() {
        read(&path, &original, "as built");
        // Large files are damaged less often: they add time and no structure.
        let rounds = (60_000_000 / (original.len() + 20_000)).clamp(100, 1000);
        for round in 0..rounds {
            let mut bytes = original.clone();
            for _ in 0..=random.below(4) {
                damage(&mut random, &mut bytes);
            }
            read(&path, &bytes, &format!("round {round}"));
        }
    }
}

#[test]
fn every_truncation_of_a_small_fixture_is_read() {
    for (path, original) in fixtures() {
        if original.len() > 20_000 {
            continue;
        }
        // Every length through header and load commands, then every 61st.
        for length in (0..original.len().min(1500)).chain((1500..original.len()).step_by(61)) {
            read(&path, &original[..length], &format!("cut to {length}"));
        }
    }
}

#[test]
fn hostile_streams_are_read_in_every_table() {
    let mut random = Random(7);
    for (path, original) in fixtures() {
        let Some(tables) = tables(&original) else { continue };
        for (at, length) in tables {
            for hostile in HOSTILE {
                let mut bytes = original.clone();
                let area = bytes.iter_mut().skip(at).take(length);
                area.zip(hostile.iter().cycle()).for_each(|(b, h)| *b = *h);
                read(&path, &bytes, "a hostile table");
                let offset = random.below(length);
                bytes.iter_mut().skip(at + offset).zip(&original[at..]).for_each(|(b, o)| *b = *o);
                read(&path, &bytes, "a table that starts hostile");
            }
        }
    }
}

/// Ranges that the load commands of a thin 64-bit fixture point at.
fn tables(bytes: &[u8]) -> Option<Vec<(usize, usize)>> {
    if !bytes.starts_with(b"\xcf\xfa\xed\xfe") {
        return None;
    }
    let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap()) as usize;
    let mut found = Vec::new();
    let mut at = 32;
    for _ in 0..word(16) {
        let pairs = match word(at) as u32 {
            0x8000_0022 => 5,
            0x8000_0033 | 0x8000_0034 | 0x1d => 1,
            _ => 0,
        };
        found.extend((0..pairs).map(|i| (word(at + 8 + 8 * i), word(at + 12 + 8 * i))));
        at += word(at + 4);
    }
    Some(found.into_iter().filter(|(_, length)| *length != 0).collect())
}

#[test]
fn a_universal_file_that_names_one_slice_many_times_is_read_once() {
    let image = fixtures().into_iter().find(|(path, _)| path.ends_with("x86_64-opcodes/prog")).unwrap().1;
    let count = 1000u32;
    let mut bytes = 0xcafe_babe_u32.to_be_bytes().to_vec();
    bytes.extend(count.to_be_bytes());
    let start = 8 + 20 * count;
    for _ in 0..count {
        for word in [0x0100_0007, 3, start, image.len() as u32, 0] {
            bytes.extend(u32::to_be_bytes(word));
        }
    }
    bytes.extend(&image);
    read(Path::new("many"), &bytes, "one slice 1000 times");
    let facts = link_facts(Path::new("many"), &bytes, None).unwrap();
    assert_eq!(facts.iter().filter(|f| f.bits == 64).count(), 1);
    assert_eq!(facts.len(), 1000);
}
