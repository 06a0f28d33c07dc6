//! Our decoder of opcode streams against object's: a test only.

use super::image::Image;
use super::opcodes::{Binds, Symbols, binds, rebases};
use super::places::Places;
use super::testing::{self, uleb};
use object::macho;

/// Streams of random instructions: whatever we read to its end, object reads to the same counts.
#[test]
fn random_streams_count_the_same_with_object() {
    use object::{Endianness, U32};
    let bytes = testing::image_with_data(&[0; 1 << 16]);
    let image = Image::parse(&bytes).unwrap();
    let mut random = testing::Random(42);
    let mut compared = [0u64; 4];
    for round in 0..40_000usize {
        let which = round % 4;
        let stream = random_stream(&mut random, which == 0);
        let le = |n: usize| U32::new(Endianness::Little, n as u32);
        let (start, size) = (le(0), le(stream.len()));
        let command = macho::DyldInfoCommand::<Endianness> {
            cmd: U32::new(Endianness::Little, macho::LC_DYLD_INFO),
            cmdsize: le(48),
            rebase_off: start,
            rebase_size: size,
            bind_off: start,
            bind_size: size,
            weak_bind_off: start,
            weak_bind_size: size,
            lazy_bind_off: start,
            lazy_bind_size: size,
            export_off: start,
            export_size: le(0),
        };
        let data = &stream[..];
        let theirs = match which {
            0 => command.rebases(Endianness::Little, data, 8).unwrap().take(9000).map(|r| r.is_ok()).collect(),
            1 => binds_of(command.binds(Endianness::Little, data, 8).unwrap()),
            2 => binds_of(command.weak_binds(Endianness::Little, data, 8).unwrap()),
            _ => binds_of(command.lazy_binds(Endianness::Little, data, 8).unwrap()),
        };
        let mut places = Places::new(&image);
        let mut symbols = Symbols::default();
        let ours = match which {
            0 => rebases(&image, data, &mut places),
            1 => binds(&image, data, Binds::Plain, &mut places, &mut symbols),
            2 => binds(&image, data, Binds::Weak, &mut places, &mut symbols),
            _ => binds(&image, data, Binds::Lazy, &mut places, &mut symbols),
        };
        // object checks no places, and it forgets a lazy entry's state where dyld keeps it.
        if ours.is_err() || (which == 3 && theirs.contains(&false)) {
            continue;
        }
        assert!(!theirs.contains(&false), "round {round}: {stream:02x?}");
        let total = places.total();
        let count = total.rebases + total.binds + total.weak_binds + total.lazy_binds;
        assert_eq!(count, theirs.len() as u64, "round {round}: {stream:02x?}");
        compared[which] += u64::from(count > 0);
    }
    assert!(compared.iter().all(|n| *n > 500), "{compared:?}");
}

fn binds_of(binds: object::read::macho::BindIterator<'_>) -> Vec<bool> {
    binds.take(9000).map(|b| b.is_ok()).collect()
}

/// A start that sets what places need, then instructions with small numbers.
fn random_stream(random: &mut testing::Random, rebase: bool) -> Vec<u8> {
    let mut stream = if rebase { vec![0x11, 0x21, 0x40] } else { vec![0x11, 0x40, b'a', 0, 0x51, 0x71, 0x40] };
    for _ in 0..random.below(12) {
        let immediate = random.below(16) as u8;
        let small = |random: &mut testing::Random| uleb(random.below(200) as u64);
        if rebase {
            match random.below(8) {
                0 => stream.push(0x10 | (1 + immediate % 3)),
                1 => stream.extend([&[0x21][..], &small(random)].concat()),
                2 => stream.extend([&[0x30][..], &small(random)].concat()),
                3 => stream.push(0x40 | immediate),
                4 => stream.push(0x50 | immediate),
                5 => stream.extend([&[0x60][..], &small(random)].concat()),
                6 => stream.extend([&[0x70][..], &small(random)].concat()),
                _ => stream.extend([&[0x80][..], &small(random), &small(random)].concat()),
            }
            continue;
        }
        match random.below(11) {
            0 => stream.push(0x10 | immediate),
            1 => stream.extend([&[0x20][..], &small(random)].concat()),
            2 => stream.push(0x30 | [0, 0xf, 0xe, 0xd][usize::from(immediate % 4)]),
            3 => stream.extend([0x40 | immediate & 9, b'a' + immediate, 0]),
            4 => stream.extend([0x60, 0x7f]),
            5 => stream.extend([&[0x71][..], &small(random)].concat()),
            6 => stream.extend([&[0x80][..], &small(random)].concat()),
            7 => stream.push(0x90),
            8 => stream.extend([&[0xa0][..], &small(random)].concat()),
            9 => stream.push(0xb0 | immediate),
            _ => stream.extend([&[0xc0][..], &small(random), &small(random)].concat()),
        }
    }
    stream
}
