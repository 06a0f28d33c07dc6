//! What holds the pages that relocations write: sections, and data objects where symbols are left.
//!
//! Section headers and symbols are hints: they may be stripped, or lie. What they do not cover has no holder.

#![deny(clippy::indexing_slicing, clippy::arithmetic_side_effects, clippy::unwrap_used)]

use object::Endianness;
use object::elf;
use object::pod;
use object::read::StringTable;
use object::read::elf::{FileHeader, SectionHeader, Sym, SymbolTable};

use super::image::Image;
use super::pages::PageSet;
use super::startup::{Sink, Writer};
use crate::order;

/// A section or a data object that relocations write to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Holder {
    /// Its name; of an object the symbol's, as the compiler wrote it.
    pub name: String,
    /// Bytes.
    pub bytes: u64,
    /// Relocations that write into it.
    pub writes: u64,
    /// Distinct pages of 4 KiB that they write. A page that two share counts for both.
    pub pages: u64,
}

/// Holders, those with most pages first.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Holders {
    /// Sections.
    pub sections: Vec<Holder>,
    /// Data objects.
    pub objects: Vec<Holder>,
}

/// Names and holders that are given, at most; a file may claim any number, and names of any length.
const MOST_HOLDERS: usize = 50;
const LONGEST_NAME: usize = 400;

/// A range of addresses; `name` is an offset in its table of strings.
struct Range {
    start: u64,
    end: u64,
    name: u32,
    writes: u64,
    pages: PageSet,
}

/// Ranges by address, and their names.
#[derive(Default)]
struct Tally<'a> {
    ranges: Vec<Range>,
    names: StringTable<'a>,
}

/// Notes writes by holder.
#[derive(Default)]
pub(super) struct Census<'a> {
    sections: Tally<'a>,
    objects: Tally<'a>,
}

impl Sink for Census<'_> {
    fn write(&mut self, _by: Writer, addr: u64, len: u64) {
        self.sections.write(addr, len);
        self.objects.write(addr, len);
    }
}

impl<'a> Tally<'a> {
    /// Of ranges in any order; where some begin at one address (aliases), the longest stands for all.
    fn of(mut ranges: Vec<Range>, names: StringTable<'a>) -> Tally<'a> {
        order::by(&mut ranges, |a, b| a.start.cmp(&b.start).then(b.end.cmp(&a.end)));
        ranges.dedup_by_key(|r| r.start);
        Tally { ranges, names }
    }

    fn write(&mut self, addr: u64, len: u64) {
        let after = self.ranges.partition_point(|r| r.start <= addr);
        let Some(range) = after.checked_sub(1).and_then(|at| self.ranges.get_mut(at)).filter(|r| addr < r.end) else {
            return;
        };
        range.writes = range.writes.saturating_add(1);
        range.pages.write(addr, len);
    }

    fn holders(self) -> Vec<Holder> {
        let names = self.names;
        let name = |at: u32| {
            let name = names.get(at).unwrap_or(b"?");
            String::from_utf8_lossy(name.get(..LONGEST_NAME).unwrap_or(name)).into_owned()
        };
        let written = self.ranges.into_iter().filter(|r| r.writes > 0);
        let counted = |r: Range| (r.pages.into_sorted().len() as u64, r.writes, r.end.saturating_sub(r.start), r.name);
        let mut all: Vec<(u64, u64, u64, u32)> = written.map(counted).collect();
        order::by(&mut all, |a, b| b.0.cmp(&a.0).then(b.1.cmp(&a.1)));
        let holder = |(pages, writes, bytes, at)| Holder { name: name(at), bytes, writes, pages };
        all.into_iter().take(MOST_HOLDERS).map(holder).collect()
    }
}

impl<'a> Census<'a> {
    /// Of a file's section headers and symbols, those that there are.
    pub(super) fn of(image: &Image<'a>) -> Census<'a> {
        let read = if image.is_64() {
            read::<elf::FileHeader64<Endianness>>(image)
        } else {
            read::<elf::FileHeader32<Endianness>>(image)
        };
        read.unwrap_or_default()
    }

    /// What was written.
    pub(super) fn holders(self) -> Holders {
        Holders { sections: self.sections.holders(), objects: self.objects.holders() }
    }
}

fn read<'a, H: FileHeader<Endian = Endianness>>(image: &Image<'a>) -> Option<Census<'a>> {
    let (endian, bytes) = (image.endianness(), image.bytes());
    let (header, _) = pod::from_bytes::<H>(bytes).ok()?;
    let headers = header.section_headers(endian, bytes).ok()?;
    let names = header.section_strings(endian, bytes, headers).unwrap_or_default();
    let sections = header.sections(endian, bytes).ok()?;
    let symbols = |kind| sections.symbols(endian, bytes, kind).ok().filter(|t: &SymbolTable<'a, H>| !t.is_empty());
    let symbols = symbols(elf::SHT_SYMTAB).or_else(|| symbols(elf::SHT_DYNSYM));
    Some(Census {
        sections: Tally::of(headers.iter().filter_map(|s| section::<H>(endian, s)).collect(), names),
        objects: symbols.map_or_else(Tally::default, |table| {
            Tally::of(table.iter().filter_map(|s| data_object::<H>(endian, s)).collect(), table.strings())
        }),
    })
}

fn range(start: u64, bytes: u64, name: u32) -> Range {
    Range { start, end: start.saturating_add(bytes), name, writes: 0, pages: PageSet::default() }
}

fn section<H: FileHeader<Endian = Endianness>>(endian: Endianness, s: &H::SectionHeader) -> Option<Range> {
    let flags = s.sh_flags(endian).0;
    let bytes: u64 = s.sh_size(endian).into();
    let has = |flag: u64| flags & flag != 0;
    // .tbss takes no room at its address.
    let is_tbss = has(elf::SHF_TLS.0) && s.sh_type(endian) == elf::SHT_NOBITS;
    let is_there = has(elf::SHF_ALLOC.0) && !is_tbss && bytes > 0;
    is_there.then(|| range(s.sh_addr(endian).into(), bytes, s.sh_name(endian)))
}

fn data_object<H: FileHeader<Endian = Endianness>>(endian: Endianness, s: &H::Sym) -> Option<Range> {
    let bytes: u64 = s.st_size(endian).into();
    let is_there = s.st_type() == elf::STT_OBJECT && bytes > 0 && !s.is_undefined(endian);
    is_there.then(|| range(s.st_value(endian).into(), bytes, s.st_name(endian)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_go_to_the_range_that_covers_them() {
        let names = StringTable::new(&b"\0one\0two\0"[..], 0, 9);
        let mut tally = Tally::of(vec![range(0x3000, 0x2000, 5), range(0x1000, 8, 1), range(0x1000, 16, 1)], names);
        for addr in [0x1000, 0x1008, 0x1010, 0x3000, 0x3008, 0x4ff8, 0x5000, 0] {
            tally.write(addr, 8);
        }
        let of = |name: &str, bytes, writes, pages| Holder { name: name.to_string(), bytes, writes, pages };
        assert_eq!(tally.holders(), [of("two", 0x2000, 3, 2), of("one", 16, 2, 1)]);
    }
}
