//! LC_DYLD_INFO: small programs whose instructions say where to rebase and what to bind.
//!
//! Decoded here and not by object, because a bind stream of the first arm64e systems chains its places through the
//! data (BIND_OPCODE_THREADED), which object 0.40 refuses; on everything else the two are compared by a test. An
//! instruction can claim 2^64 places in six bytes, so every place is checked against its segment and the sum against
//! the image's size. Source of the instructions: `mach-o/loader.h`; of what is refused: dyld's
//! `mach_o/RebaseOpcodes.cpp` and `mach_o/BindOpcodes.cpp`.

use std::collections::HashMap;

use object::macho;

use super::image::{Image, Segment};
use super::places::{Class, Places};
use super::stream::{Fault, Stream};

/// Where the next fixup goes, and how many there may be.
struct Cursor<'p> {
    places: &'p mut Places,
    segment: Option<u64>,
    offset: u64,
    pointer_size: u64,
    left: u64,
}

impl<'p> Cursor<'p> {
    fn new(image: &Image<'_>, places: &'p mut Places) -> Cursor<'p> {
        Cursor { places, segment: None, offset: 0, pointer_size: image.pointer_size(), left: image.most_fixups() }
    }

    /// Offsets wrap, as in dyld: linkers step back by adding a number close to 2^64.
    fn skip(&mut self, bytes: u64) {
        self.offset = self.offset.wrapping_add(bytes);
    }

    fn skip_pointers(&mut self, count: u64) {
        self.skip(count.wrapping_mul(self.pointer_size));
    }

    /// One fixup here; the place moves on by a pointer.
    fn one(&mut self, class: Class) -> Result<(), Fault> {
        let segment = self.segment.ok_or("a place is used before its segment is set")?;
        self.left = self.left.checked_sub(1).ok_or("more places than the image has room for")?;
        self.places.add(segment, self.offset, class).map_err(|outside| outside.to_string())?;
        self.skip(self.pointer_size);
        Ok(())
    }

    fn many(&mut self, class: Class, count: u64, skip: u64) -> Result<(), Fault> {
        for _ in 0..count {
            self.one(class)?;
            self.skip(skip);
        }
        Ok(())
    }
}

/// Runs a rebase stream.
///
/// # Errors
/// Why it could not be run to its end; what came before is counted.
pub(super) fn rebases(image: &Image<'_>, stream: &[u8], places: &mut Places) -> Result<(), Fault> {
    let mut stream = Stream::new(stream);
    let mut cursor = Cursor::new(image, places);
    let mut has_type = false;
    while let Some(byte) = stream.byte() {
        let immediate = u64::from(byte & macho::REBASE_IMMEDIATE_MASK);
        let (count, skip) = match macho::RebaseOpcode(byte & macho::REBASE_OPCODE_MASK) {
            macho::REBASE_OPCODE_DONE => break,
            macho::REBASE_OPCODE_SET_TYPE_IMM => {
                has_type = (1..=3).contains(&immediate);
                continue;
            }
            macho::REBASE_OPCODE_SET_SEGMENT_AND_OFFSET_ULEB => {
                cursor.segment = Some(immediate);
                cursor.offset = stream.uleb()?;
                continue;
            }
            macho::REBASE_OPCODE_ADD_ADDR_ULEB => {
                cursor.skip(stream.uleb()?);
                continue;
            }
            macho::REBASE_OPCODE_ADD_ADDR_IMM_SCALED => {
                cursor.skip_pointers(immediate);
                continue;
            }
            macho::REBASE_OPCODE_DO_REBASE_IMM_TIMES => (immediate, 0),
            macho::REBASE_OPCODE_DO_REBASE_ULEB_TIMES => (stream.uleb()?, 0),
            macho::REBASE_OPCODE_DO_REBASE_ADD_ADDR_ULEB => (1, stream.uleb()?),
            macho::REBASE_OPCODE_DO_REBASE_ULEB_TIMES_SKIPPING_ULEB => (stream.uleb()?, stream.uleb()?),
            other => return Err(format!("unknown instruction {:#04x}", other.0)),
        };
        if !has_type {
            return Err("a rebase has no type".to_string());
        }
        cursor.many(Class::Rebase, count, skip)?;
    }
    Ok(())
}

/// Which bind stream: they differ in what is implied and in what ends them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Binds {
    /// Bound at start.
    Plain,
    /// Coalesced over all images: the library is implied.
    Weak,
    /// Each entry ends with DONE, and may be used alone.
    Lazy,
}

/// Distinct symbols: library ordinal and name.
#[derive(Debug, Default)]
pub(super) struct Symbols<'a> {
    names: HashMap<&'a [u8], u64>,
    /// Key to "may be missing".
    keys: HashMap<(i64, u64), bool>,
    /// Signed pointers (arm64e).
    pub authenticated: u64,
}

impl<'a> Symbols<'a> {
    /// The number of a name. Each name is hashed once for each time that the stream spells it, so that the work
    /// stays within the stream's length however often it is bound.
    pub(super) fn number(&mut self, name: &'a [u8]) -> u64 {
        let next = self.names.len() as u64;
        *self.names.entry(name).or_insert(next)
    }

    pub(super) fn add(&mut self, library: i64, name: u64, may_be_missing: bool) {
        self.keys.entry((library, name)).and_modify(|all| *all &= may_be_missing).or_insert(may_be_missing);
    }

    /// How many distinct symbols.
    pub(super) fn count(&self) -> u64 {
        self.keys.len() as u64
    }

    /// How many of them may be missing.
    pub(super) fn may_be_missing(&self) -> u64 {
        self.keys.values().filter(|missing| **missing).count() as u64
    }
}

/// The symbol that the next bind is for.
#[derive(Debug, Clone, Copy, Default)]
struct Target {
    library: Option<i64>,
    name: Option<u64>,
    may_be_missing: bool,
}

/// State of a bind stream.
struct BindRun<'a, 'p, 's> {
    cursor: Cursor<'p>,
    symbols: &'s mut Symbols<'a>,
    kind: Binds,
    target: Target,
    has_type: bool,
    /// Symbols that chains through the data name by number, once the stream has announced such a table.
    table: Option<Vec<Target>>,
}

/// Runs a bind stream.
///
/// # Errors
/// Why it could not be run to its end; what came before is counted.
pub(super) fn binds<'a>(
    image: &Image<'a>,
    stream: &'a [u8],
    kind: Binds,
    places: &mut Places,
    symbols: &mut Symbols<'a>,
) -> Result<(), Fault> {
    let mut run = BindRun {
        cursor: Cursor::new(image, places),
        symbols,
        kind,
        target: Target { library: (kind == Binds::Weak).then_some(-3), ..Target::default() },
        has_type: kind != Binds::Plain,
        table: None,
    };
    let mut stream = Stream::new(stream);
    while let Some(byte) = stream.byte() {
        if run.step(image, &mut stream, byte)? {
            break;
        }
    }
    Ok(())
}

impl<'a> BindRun<'a, '_, '_> {
    /// Runs one instruction; true at the stream's end.
    fn step(&mut self, image: &Image<'a>, stream: &mut Stream<'a>, byte: u8) -> Result<bool, Fault> {
        let immediate = byte & macho::BIND_IMMEDIATE_MASK;
        match macho::BindOpcode(byte & macho::BIND_OPCODE_MASK) {
            macho::BIND_OPCODE_DONE => return Ok(self.kind != Binds::Lazy),
            macho::BIND_OPCODE_SET_DYLIB_ORDINAL_IMM => self.target.library = Some(immediate.into()),
            macho::BIND_OPCODE_SET_DYLIB_ORDINAL_ULEB => {
                self.target.library = i64::try_from(stream.uleb()?).ok();
            }
            macho::BIND_OPCODE_SET_DYLIB_SPECIAL_IMM => {
                // Four bits with a sign: 0 self, -1 main program, -2 flat lookup, -3 weak lookup.
                let number = i64::from(immediate);
                self.target.library = Some(if number == 0 { 0 } else { number.saturating_sub(16) });
            }
            macho::BIND_OPCODE_SET_SYMBOL_TRAILING_FLAGS_IMM => {
                let name = stream.name()?;
                self.target.name = Some(self.symbols.number(name));
                self.target.may_be_missing = immediate & macho::BIND_SYMBOL_FLAGS_WEAK_IMPORT.0 != 0;
            }
            macho::BIND_OPCODE_SET_TYPE_IMM => self.has_type = (1..=3).contains(&immediate),
            macho::BIND_OPCODE_SET_ADDEND_SLEB => stream.skip_sleb()?,
            macho::BIND_OPCODE_SET_SEGMENT_AND_OFFSET_ULEB => {
                self.cursor.segment = Some(immediate.into());
                self.cursor.offset = stream.uleb()?;
            }
            macho::BIND_OPCODE_ADD_ADDR_ULEB => self.cursor.skip(stream.uleb()?),
            macho::BIND_OPCODE_DO_BIND => self.bind(1, 0)?,
            macho::BIND_OPCODE_DO_BIND_ADD_ADDR_ULEB => {
                let skip = stream.uleb()?;
                self.bind(1, skip)?;
            }
            macho::BIND_OPCODE_DO_BIND_ADD_ADDR_IMM_SCALED => {
                self.bind(1, 0)?;
                self.cursor.skip_pointers(immediate.into());
            }
            macho::BIND_OPCODE_DO_BIND_ULEB_TIMES_SKIPPING_ULEB => {
                let (count, skip) = (stream.uleb()?, stream.uleb()?);
                self.bind(count, skip)?;
            }
            macho::BIND_OPCODE_THREADED => self.threaded(image, stream, immediate)?,
            other => return Err(format!("unknown instruction {:#04x}", other.0)),
        }
        Ok(false)
    }

    fn bind(&mut self, count: u64, skip: u64) -> Result<(), Fault> {
        if let Some(table) = &mut self.table {
            // The instruction names a symbol for the chains; it binds nothing itself.
            table.push(self.target);
            return Ok(());
        }
        if count == 0 {
            return Ok(());
        }
        if !self.has_type {
            return Err("a bind has no type".to_string());
        }
        self.look_up(self.target)?;
        let class = match self.kind {
            Binds::Plain => Class::Bind,
            Binds::Weak => Class::WeakBind,
            Binds::Lazy => Class::LazyBind,
        };
        self.cursor.many(class, count, skip)
    }

    fn look_up(&mut self, target: Target) -> Result<(), Fault> {
        let library = target.library.ok_or("a bind names no library")?;
        let name = target.name.ok_or("a bind names no symbol")?;
        self.symbols.add(library, name, target.may_be_missing);
        Ok(())
    }

    fn threaded(&mut self, image: &Image<'a>, stream: &mut Stream<'a>, sub: u8) -> Result<(), Fault> {
        match macho::BindSubopcodeThreaded(sub) {
            macho::BIND_SUBOPCODE_THREADED_SET_BIND_ORDINAL_TABLE_SIZE_ULEB => {
                // Announced, not believed: the table grows with the symbols that come.
                stream.uleb()?;
                self.table = Some(Vec::new());
                Ok(())
            }
            macho::BIND_SUBOPCODE_THREADED_APPLY => self.apply_chain(image),
            other => Err(format!("unknown chain instruction {}", other.0)),
        }
    }

    /// Walks the chain that starts at the cursor: 64-bit words with the pointer's target and the distance to the
    /// next one in eights, 0 at the end. Bit 62 tells a bind, bit 63 a signed pointer.
    fn apply_chain(&mut self, image: &Image<'a>) -> Result<(), Fault> {
        let index = self.cursor.segment.and_then(|s| usize::try_from(s).ok());
        let segment: &Segment =
            index.and_then(|i| image.segments.get(i)).ok_or("a chain starts before its segment is set")?;
        let data = segment.data(image.data);
        let start = self.cursor.offset;
        loop {
            let at = usize::try_from(self.cursor.offset).ok();
            let word = at.and_then(|at| data.get(at..)?.first_chunk::<8>());
            let word = u64::from_le_bytes(*word.ok_or("a chain leaves its segment")?);
            if word >> 63 != 0 {
                self.symbols.authenticated = self.symbols.authenticated.saturating_add(1);
            }
            let here = self.cursor.offset;
            if word >> 62 & 1 == 0 {
                self.cursor.one(Class::Rebase)?;
            } else {
                let number = usize::try_from(word & 0xffff).ok();
                let target = number.and_then(|n| self.table.as_ref()?.get(n).copied());
                self.look_up(target.ok_or("a chain names a symbol that is not in the table")?)?;
                self.cursor.one(Class::Bind)?;
            }
            let distance = word >> 51 & 0x7ff;
            if distance == 0 {
                // Left where the chain began, as dyld did.
                self.cursor.offset = start;
                return Ok(());
            }
            self.cursor.offset = here.wrapping_add(distance.wrapping_mul(8));
        }
    }
}

#[cfg(test)]
#[allow(clippy::arithmetic_side_effects)]
mod tests {
    use super::*;
    use crate::macho::testing::{self, uleb};

    fn counts(stream: &[u8], kind: Option<Binds>) -> (u64, u64, Result<(), Fault>) {
        let bytes = testing::image_with_data(&[0; 4096]);
        let image = Image::parse(&bytes).unwrap();
        let mut places = Places::new(&image);
        let mut symbols = Symbols::default();
        let result = match kind {
            None => rebases(&image, stream, &mut places),
            Some(kind) => binds(&image, stream, kind, &mut places, &mut symbols),
        };
        let total = places.total();
        (total.rebases + total.binds + total.weak_binds + total.lazy_binds, symbols.count(), result)
    }

    #[test]
    fn rebases_are_counted_by_run() {
        // Type pointer; segment 1 offset 8; 3 at once; 2 with a gap of 8 after each; one and a skip; done.
        let stream = [0x11, 0x21, 8, 0x53, 0x80, 2, 8, 0x70, 16, 0x00, 0x53];
        assert_eq!(counts(&stream, None), (6, 0, Ok(())));
    }

    #[test]
    fn a_claim_of_2_to_the_64_ends_at_the_segment() {
        let mut stream = vec![0x11, 0x21, 0, 0x60];
        stream.extend(uleb(u64::MAX));
        let (count, _, result) = counts(&stream, None);
        assert_eq!(count, 4096 / 8);
        assert!(result.unwrap_err().contains("outside its segment"));
        // A gap that steps back to the same place: bounded by the size of the image.
        let mut stream = vec![0x11, 0x21, 0, 0x80];
        stream.extend(uleb(u64::MAX));
        stream.extend(uleb(0u64.wrapping_sub(8)));
        let (count, _, result) = counts(&stream, None);
        assert!(count <= testing::image_with_data(&[0; 4096]).len() as u64 / 4);
        assert!(result.unwrap_err().contains("room"));
    }

    #[test]
    fn what_is_missing_is_said() {
        for (stream, reason) in [
            (&[0x51][..], "no type"),
            (&[0x11, 0x51], "segment"),
            (&[0x11, 0x27, 0, 0x51], "no segment 7"),
            (&[0x11, 0x21, 0x80], "cut off"),
            (&[0xf0], "unknown instruction"),
        ] {
            let (_, _, result) = counts(stream, None);
            assert!(result.clone().unwrap_err().contains(reason), "{stream:?}: {result:?}");
        }
        for (stream, reason) in [
            (&[0x90][..], "no type"),
            (&[0x51, 0x90], "no library"),
            (&[0x51, 0x11, 0x90], "no symbol"),
            (&[0x51, 0x11, 0x40, b'a'], "name is cut off"),
            (&[0x51, 0x11, 0x40, b'a', 0, 0x90], "segment"),
            (&[0xd5], "chain instruction"),
            (&[0xd1], "segment"),
        ] {
            let (_, _, result) = counts(stream, Some(Binds::Plain));
            assert!(result.clone().unwrap_err().contains(reason), "{stream:?}: {result:?}");
        }
    }

    #[test]
    fn symbols_are_distinct_by_library_and_name() {
        // _a of library 1 twice, _a of library 2, _b of library 2 three times with a gap.
        let mut stream = vec![0x51, 0x71, 0, 0x11, 0x40, b'a', 0, 0x90, 0x90, 0x12, 0x90, 0x41, b'b', 0, 0xc0, 3, 8];
        stream.extend([0x00, 0x90]);
        assert_eq!(counts(&stream, Some(Binds::Plain)), (6, 3, Ok(())));
        // A lazy stream goes on behind each DONE, and has its type implied.
        let lazy = [0x71, 0, 0x11, 0x40, b'a', 0, 0x90, 0x00, 0x71, 8, 0x12, 0x40, b'b', 0, 0x90, 0x00, 0x00];
        assert_eq!(counts(&lazy, Some(Binds::Lazy)), (2, 2, Ok(())));
        // A weak stream has its library implied.
        let weak = [0x51, 0x40, b'a', 0, 0x71, 0, 0x90, 0xb1, 0x90];
        assert_eq!(counts(&weak, Some(Binds::Weak)), (3, 1, Ok(())));
    }

    #[test]
    fn chains_of_the_first_arm64e_systems_are_walked() {
        let mut data = vec![0u8; 4096];
        let words: [(usize, u64); 4] = [
            (0, 0x1234 | 2 << 51),       // a rebase, 16 bytes to the next
            (16, 1 << 62 | 1 | 1 << 51), // a bind of symbol 1
            (24, 3 << 62 | 64 << 51),    // a signed bind of symbol 0
            (24 + 512, 1 << 63),         // a signed rebase, the last
        ];
        for (at, word) in words {
            data[at..at + 8].copy_from_slice(&word.to_le_bytes());
        }
        let bytes = testing::image_with_data(&data);
        let image = Image::parse(&bytes).unwrap();
        let stream = [0xd0, 2, 0x11, 0x40, b'a', 0, 0x51, 0x90, 0x41, b'b', 0, 0x90, 0x71, 0, 0xd1, 0x00];
        let mut places = Places::new(&image);
        let mut symbols = Symbols::default();
        assert_eq!(binds(&image, &stream, Binds::Plain, &mut places, &mut symbols), Ok(()));
        let total = places.total();
        assert_eq!((total.rebases, total.binds, symbols.count(), symbols.authenticated), (2, 2, 2, 2));
        // A chain that never ends is cut where the segment ends, one into nowhere too.
        let mut places = Places::new(&image);
        let looping = [0x71, 0xff, 0xff, 0x03, 0xd1];
        assert!(binds(&image, &looping, Binds::Plain, &mut places, &mut symbols).is_err());
    }
}
