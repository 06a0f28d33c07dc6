//! Section headers, as hints only: they may be absent or lie, and nothing that DT_* tells is taken from them. They
//! serve where DT_* cannot: static programs have no dynamic table, and separate debug files hold no program.

#![deny(clippy::indexing_slicing, clippy::arithmetic_side_effects, clippy::unwrap_used)]

use object::Endianness;
use object::elf;
use object::pod;
use object::read::elf::{FileHeader, SectionHeader};

use super::image::{Image, Segment};
use super::machine::{Class, Classes};
use super::relocation::{Relocation, Table};

/// One section header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Section {
    /// SHT_*.
    pub kind: u32,
    /// SHF_*.
    pub flags: u64,
    /// Address in memory.
    pub addr: u64,
    /// Where it is in the file.
    pub offset: u64,
    /// Bytes.
    pub size: u64,
}

/// All section headers; empty where they cannot be read.
pub fn sections(image: &Image) -> Vec<Section> {
    if image.is_64() {
        read::<elf::FileHeader64<Endianness>>(image)
    } else {
        read::<elf::FileHeader32<Endianness>>(image)
    }
}

fn read<H: FileHeader<Endian = Endianness>>(image: &Image) -> Vec<Section> {
    let endian = image.endianness();
    let bytes = image.bytes();
    let Ok((header, _)) = pod::from_bytes::<H>(bytes) else { return Vec::new() };
    let offset: u64 = header.e_shoff(endian).into();
    let right_size = usize::from(header.e_shentsize(endian)) == size_of::<H::SectionHeader>();
    let (Ok(count), true, true) = (header.shnum(endian, bytes), offset != 0, right_size) else { return Vec::new() };
    let table = usize::try_from(offset).ok().and_then(|at| bytes.get(at..));
    let raw = table.and_then(|table| {
        let count = usize::try_from(count).ok()?;
        pod::slice_from_bytes::<H::SectionHeader>(table, count).ok()
    });
    let Some((raw, _)) = raw else { return Vec::new() };
    raw.iter()
        .map(|s| Section {
            kind: s.sh_type(endian).0,
            flags: s.sh_flags(endian).0,
            addr: s.sh_addr(endian).into(),
            offset: s.sh_offset(endian).into(),
            size: s.sh_size(endian).into(),
        })
        .collect()
}

/// True where every section of code holds no bytes: a separate debug file, of which nothing can be executed.
pub fn code_is_elsewhere(sections: &[Section]) -> bool {
    let code = elf::SHF_ALLOC.0 | elf::SHF_EXECINSTR.0;
    let mut found = sections.iter().filter(|s| s.flags & code == code && s.size > 0).peekable();
    found.peek().is_some() && found.all(|s| s.kind == elf::SHT_NOBITS.0)
}

/// Entries of the init arrays of a static program: (preinit, init).
pub fn init_arrays(image: &Image, sections: &[Section]) -> (u64, u64) {
    let entries = |kind: elf::SectionType| {
        let bytes = sections.iter().filter(|s| s.kind == kind.0).fold(0u64, |sum, s| sum.saturating_add(s.size));
        // What the section claims, but no more than the file has.
        bytes.min(image.bytes().len() as u64).checked_div(image.word_size()).unwrap_or(0)
    };
    (entries(elf::SHT_PREINIT_ARRAY), entries(elf::SHT_INIT_ARRAY))
}

/// The relocations of a static program that is not position independent. No DT_* names them: its start files walk what
/// lies between `__rela_iplt_start` and `__rela_iplt_end`, which is a loaded section. Without section headers they are
/// found by their pattern.
pub fn static_records(image: &Image, sections: &[Section]) -> Vec<Relocation> {
    let tables: Vec<Table> = sections
        .iter()
        .filter(|s| s.flags & elf::SHF_ALLOC.0 != 0)
        .filter(|s| s.kind == elf::SHT_RELA.0 || s.kind == elf::SHT_REL.0)
        .filter_map(|s| Some(Table::new(image, image.at_vaddr(s.addr, s.size)?, s.kind == elf::SHT_RELA.0)))
        .collect();
    if sections.is_empty() {
        return find_irelative(image).map(|table| table.records().collect()).unwrap_or_default();
    }
    tables.iter().flat_map(|table| table.records()).collect()
}

/// The run of `IRELATIVE` records of a stripped static program. Three words agree in each: an address in a writable
/// segment, the type without a symbol, and an address in an executable one. Only 64-bit RELA files have that much to go by.
fn find_irelative<'a>(image: &Image<'a>) -> Option<Table<'a>> {
    // Each candidate is compared with the segments: programs have a handful.
    if !image.is_64() || image.loads().len() > 64 {
        return None;
    }
    let classes = Classes::of(image);
    let inside = |addr: u64, keep: fn(&Segment) -> bool| image.loads().iter().any(|s| keep(s) && s.contains(addr));
    let is_record = |bytes: &[u8]| {
        Table::new(image, bytes, true).records().next().is_some_and(|r| {
            r.symbol == 0
                && classes.class(r.kind, 0) == Class::Irelative
                && inside(r.offset, Segment::is_writable)
                && inside(r.addend as u64, Segment::is_executable)
        })
    };
    // Linkers put the table near the start of the first segment; searching further would find data that looks like it.
    let first = image.loads().first()?;
    let window = image.from_vaddr(first.vaddr)?;
    let window = window.get(..1 << 16).unwrap_or(window);
    let start = (0..window.len()).step_by(8).find(|at| window.get(*at..).is_some_and(is_record))?;
    let records = window.get(start..)?.chunks_exact(24).take_while(|chunk| is_record(chunk)).count();
    let table = window.get(start..)?.get(..records.checked_mul(24)?)?;
    Some(Table::new(image, table, true))
}
