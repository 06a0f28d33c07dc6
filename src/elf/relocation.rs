//! The relocation tables that DT_* names, as one kind of record: REL and RELA of both classes and byte orders, RELR
//! decoded, Android's packed form, JMPREL apart from or inside the others.
//!
//! What is read is what the loader reads: up to the size that DT_* gives, record by record until that end is passed (so a
//! size that is no multiple of a record's reads one record more), but never past the bytes that the file has.

#![deny(clippy::indexing_slicing, clippy::arithmetic_side_effects, clippy::unwrap_used)]

use object::elf::{self, DynamicTag};

use super::android::Packed;
use super::image::Image;

/// Packed records that are unpacked at most. They may take no bytes of the table each, and files may be sparse.
const MOST_PACKED: u64 = 1 << 26;

/// One relocation record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Relocation {
    /// Address that is written, before the load address is added.
    pub offset: u64,
    /// Type; on MIPS 64 and SPARC 64 the upper bits hold more than the type (see [`super::machine::Classes`]).
    pub kind: u32,
    /// Index in the dynamic symbol table; 0 for none.
    pub symbol: u32,
    /// Addend; 0 for REL, whose addend is in the place that is written.
    pub addend: i64,
}

/// A REL or RELA table, or a part of one.
#[derive(Debug, Clone, Copy)]
pub struct Table<'a> {
    bytes: &'a [u8],
    shape: Shape,
}

/// How a record is laid out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Shape {
    is_64: bool,
    has_addend: bool,
    big_endian: bool,
    /// MIPS 64 little endian keeps `r_info` as a 32-bit symbol and four bytes, not as a 64-bit number.
    mips64el: bool,
}

impl Shape {
    fn of(image: &Image, has_addend: bool) -> Shape {
        let big_endian = image.endian() == crate::facts::Endian::Big;
        let is_64 = image.is_64();
        let mips64el = is_64 && !big_endian && image.machine() == elf::EM_MIPS.0;
        Shape { is_64, has_addend, big_endian, mips64el }
    }

    fn record_size(self) -> usize {
        match (self.is_64, self.has_addend) {
            (true, true) => 24,
            (true, false) => 16,
            (false, true) => 12,
            (false, false) => 8,
        }
    }

    fn split_info(self, info: u64) -> (u32, u32) {
        if !self.is_64 {
            return ((info & 0xff) as u32, (info >> 8) as u32);
        }
        if self.mips64el {
            // Symbol in the low half; the types stand byte by byte in the high half, first type last.
            return (((info >> 32) as u32).swap_bytes(), info as u32);
        }
        (info as u32, (info >> 32) as u32)
    }
}

impl<'a> Table<'a> {
    /// A table over bytes that are known by other means than DT_*.
    pub fn new(image: &Image<'a>, bytes: &'a [u8], has_addend: bool) -> Table<'a> {
        Table { bytes, shape: Shape::of(image, has_addend) }
    }

    /// A table without records.
    fn empty(shape: Shape) -> Table<'a> {
        Table { bytes: &[], shape }
    }

    /// Its records in order.
    pub fn records(&self) -> Records<'a> {
        Records { bytes: self.bytes, shape: self.shape }
    }

    /// Its records after the first `n`, which are not read.
    pub fn records_after(&self, n: u64) -> Records<'a> {
        let skip = usize::try_from(n).ok().and_then(|n| n.checked_mul(self.shape.record_size()));
        let bytes = skip.and_then(|skip| self.bytes.get(skip..)).unwrap_or(&[]);
        Records { bytes, shape: self.shape }
    }

    /// Calls `visit` with each record in order: as [`Table::records`], with the usual layout decoded in a loop of its
    /// own, since large programs have a million of them.
    #[inline]
    pub fn for_each(&self, mut visit: impl FnMut(Relocation)) {
        let usual = Shape { is_64: true, has_addend: true, big_endian: false, mips64el: false };
        if self.shape != usual {
            return self.records().for_each(visit);
        }
        let word = |bytes: &[u8; 24], at: usize| {
            let word = bytes.get(at..).and_then(|rest| rest.first_chunk());
            u64::from_le_bytes(word.copied().unwrap_or_default())
        };
        let mut rest = self.bytes;
        while let Some((record, after)) = rest.split_first_chunk::<24>() {
            let (offset, info, addend) = (word(record, 0), word(record, 8), word(record, 16) as i64);
            visit(Relocation { offset, kind: info as u32, symbol: (info >> 32) as u32, addend });
            rest = after;
        }
    }

    /// Number of records.
    pub fn len(&self) -> usize {
        self.bytes.len().checked_div(self.shape.record_size()).unwrap_or(0)
    }

    /// True where there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// True for RELA.
    pub fn has_addend(&self) -> bool {
        self.shape.has_addend
    }
}

/// Iterates over a table.
#[derive(Debug, Clone)]
pub struct Records<'a> {
    bytes: &'a [u8],
    shape: Shape,
}

impl Records<'_> {
    #[inline]
    fn word(&mut self) -> Option<u64> {
        if self.shape.is_64 {
            let (word, rest) = self.bytes.split_first_chunk::<8>()?;
            self.bytes = rest;
            Some(if self.shape.big_endian { u64::from_be_bytes(*word) } else { u64::from_le_bytes(*word) })
        } else {
            let (word, rest) = self.bytes.split_first_chunk::<4>()?;
            self.bytes = rest;
            let word = if self.shape.big_endian { u32::from_be_bytes(*word) } else { u32::from_le_bytes(*word) };
            Some(u64::from(word))
        }
    }
}

impl Iterator for Records<'_> {
    type Item = Relocation;

    #[inline]
    fn next(&mut self) -> Option<Relocation> {
        let offset = self.word()?;
        let info = self.word()?;
        let addend = match (self.shape.has_addend, self.shape.is_64) {
            (false, _) => 0,
            (true, true) => self.word()? as i64,
            (true, false) => i64::from(self.word()? as u32 as i32),
        };
        let (kind, symbol) = self.shape.split_info(info);
        Some(Relocation { offset, kind, symbol, addend })
    }
}

/// A RELR table: relative relocations as addresses and bitmaps.
#[derive(Debug, Clone, Copy)]
pub struct RelrTable<'a> {
    bytes: &'a [u8],
    is_64: bool,
    big_endian: bool,
}

impl RelrTable<'_> {
    /// The words of the table.
    fn words(&self) -> impl Iterator<Item = u64> + '_ {
        let size = if self.is_64 { 8 } else { 4 };
        self.bytes.chunks_exact(size).map(|chunk| match (chunk.first_chunk::<8>(), chunk.first_chunk::<4>()) {
            (Some(word), _) if self.big_endian => u64::from_be_bytes(*word),
            (Some(word), _) => u64::from_le_bytes(*word),
            (None, Some(word)) if self.big_endian => u64::from(u32::from_be_bytes(*word)),
            (None, Some(word)) => u64::from(u32::from_le_bytes(*word)),
            (None, None) => 0,
        })
    }

    /// Number of words.
    pub fn words_len(&self) -> u64 {
        let size: usize = if self.is_64 { 8 } else { 4 };
        self.bytes.len().checked_div(size).unwrap_or(0) as u64
    }

    /// True where a bitmap comes before any address: glibc and musl write through a null pointer then.
    pub fn starts_with_bitmap(&self) -> bool {
        self.words().next().is_some_and(|word| word & 1 == 1)
    }

    /// Calls `visit` with each address that is relocated, in order. An even word is an address; an odd one holds 63
    /// (31) bits for the words after the last address covered (generic ABI, SHT_RELR).
    pub fn for_each(&self, mut visit: impl FnMut(u64)) {
        let (word_size, span) = if self.is_64 { (8u64, 63 * 8) } else { (4u64, 31 * 4) };
        let mask = if self.is_64 { u64::MAX } else { u64::from(u32::MAX) };
        let mut next = 0u64;
        for word in self.words() {
            if word & 1 == 0 {
                visit(word);
                next = word.wrapping_add(word_size) & mask;
                continue;
            }
            let mut bits = word >> 1;
            let mut addr = next;
            while bits != 0 {
                let skip = u64::from(bits.trailing_zeros());
                addr = addr.wrapping_add(skip.wrapping_mul(word_size));
                visit(addr & mask);
                // `skip` is below 63, since a word has at most 63 bits left.
                bits = bits.wrapping_shr(skip as u32) >> 1;
                addr = addr.wrapping_add(word_size);
            }
            next = next.wrapping_add(span) & mask;
        }
    }
}

/// Something in the tables that the loader will trip over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// What is wrong and what the loader will do.
    pub text: String,
}

/// All relocation tables of a file that DT_* names.
#[derive(Debug, Clone)]
pub struct Tables<'a> {
    /// DT_REL, without what DT_JMPREL holds at its very end (glibc subtracts it).
    pub rel: Table<'a>,
    /// DT_RELA, likewise.
    pub rela: Table<'a>,
    /// DT_JMPREL: what may be bound lazily.
    pub plt: Table<'a>,
    /// The records of DT_JMPREL that stand in no other table: what it adds to a count of records.
    pub plt_alone: Table<'a>,
    /// DT_RELR, or Android's tag for it.
    pub relr: Option<RelrTable<'a>>,
    /// Android's packed table; the flag says whether its records have addends.
    pub packed: Option<(Packed<'a>, bool)>,
    /// True where the tables came from Android's tags, which only bionic reads.
    pub android_only: bool,
    /// Bytes of all these tables, overlap counted once.
    pub table_bytes: u64,
    /// What is wrong with them.
    pub faults: Vec<Fault>,
}

/// Where a table is claimed to be.
#[derive(Clone, Copy)]
struct Claim {
    addr: u64,
    size: u64,
}

impl<'a> Tables<'a> {
    /// Finds the tables.
    pub fn of(image: &Image<'a>) -> Tables<'a> {
        let mut faults = Vec::new();
        let rel = claim(image, elf::DT_REL, elf::DT_RELSZ, "DT_REL", &mut faults);
        let rela = claim(image, elf::DT_RELA, elf::DT_RELASZ, "DT_RELA", &mut faults);
        let (plt, plt_has_addend) = plt_claim(image, &mut faults);
        let beside = if plt_has_addend { rela } else { rel };
        let trimmed = beside.map(|main| trim(main, plt));
        let (rel, rela) = if plt_has_addend { (rel, trimmed) } else { (trimmed, rela) };
        let mut tables = Tables {
            rel: read_table(image, rel, false, "DT_REL", &mut faults),
            rela: read_table(image, rela, true, "DT_RELA", &mut faults),
            plt: read_table(image, plt, plt_has_addend, "DT_JMPREL", &mut faults),
            plt_alone: Table::empty(Shape::of(image, plt_has_addend)),
            relr: None,
            packed: None,
            android_only: false,
            table_bytes: 0,
            faults,
        };
        tables.plt_alone = without_overlap(tables.plt, plt, trimmed);
        if tables.plt_alone.bytes.len() < tables.plt.bytes.len() {
            let text = "DT_JMPREL lies inside DT_REL(A) but not at its end: glibc relocates these entries twice";
            tables.faults.push(Fault { text: text.to_string() });
        }
        tables.add_relr(image);
        tables.add_android(image);
        tables.check_entry_sizes(image);
        let plain = [tables.rel.bytes, tables.rela.bytes, tables.plt_alone.bytes];
        let plain: usize = plain.iter().fold(0, |sum, bytes| sum.saturating_add(bytes.len()));
        let relr = tables.relr.map_or(0, |t| t.bytes.len());
        tables.table_bytes = tables.table_bytes.saturating_add(plain.saturating_add(relr) as u64);
        tables
    }

    fn add_relr(&mut self, image: &Image<'a>) {
        let android = image.dynamic_value(elf::DT_RELR).is_none();
        let (addr, size) = match android {
            false => (elf::DT_RELR, elf::DT_RELRSZ),
            true => (elf::DT_ANDROID_RELR, elf::DT_ANDROID_RELRSZ),
        };
        let Some(found) = claim(image, addr, size, "DT_RELR", &mut self.faults) else { return };
        let bytes = read_bytes(image, found, image.word_size(), "DT_RELR", &mut self.faults);
        let big_endian = image.endian() == crate::facts::Endian::Big;
        let table = RelrTable { bytes, is_64: image.is_64(), big_endian };
        if table.starts_with_bitmap() {
            self.fault("DT_RELR starts with a bitmap: there is no address before it, the loader crashes");
        }
        self.android_only |= android;
        self.relr = Some(table);
    }

    fn add_android(&mut self, image: &Image<'a>) {
        for (addr, size, has_addend) in
            [(elf::DT_ANDROID_RELA, elf::DT_ANDROID_RELASZ, true), (elf::DT_ANDROID_REL, elf::DT_ANDROID_RELSZ, false)]
        {
            let Some(found) = claim(image, addr, size, "DT_ANDROID_RELA", &mut self.faults) else { continue };
            let bytes = read_bytes(image, found, 1, "DT_ANDROID_RELA", &mut self.faults);
            self.android_only = true;
            self.table_bytes = self.table_bytes.saturating_add(bytes.len() as u64);
            // A record changes at least four bytes of the file.
            let limit = (image.bytes().len() as u64 >> 2).min(MOST_PACKED);
            match Packed::new(bytes, limit) {
                Some(packed) => self.packed = Some((packed, has_addend)),
                None => self.fault("DT_ANDROID_RELA has no APS2 header: bionic refuses the file"),
            }
        }
    }

    /// glibc asserts the size of a record in `elf_get_dynamic_info`; without DT_RELRENT it reads through null.
    fn check_entry_sizes(&mut self, image: &Image) {
        let word = image.word_size();
        let wanted = [
            (elf::DT_RELA, elf::DT_RELAENT, "DT_RELAENT", word.saturating_mul(3)),
            (elf::DT_REL, elf::DT_RELENT, "DT_RELENT", word.saturating_mul(2)),
            (elf::DT_RELR, elf::DT_RELRENT, "DT_RELRENT", word),
        ];
        for (table, entry, name, size) in wanted {
            if image.dynamic_value(table).is_none() {
                continue;
            }
            match image.dynamic_value(entry) {
                Some(given) if given == size => {}
                Some(given) => self.fault(&format!("{name} is {given}, a record has {size} bytes: glibc aborts")),
                None => self.fault(&format!("{name} is missing: glibc crashes")),
            }
        }
    }

    fn fault(&mut self, text: &str) {
        self.faults.push(Fault { text: text.to_string() });
    }

    /// The records of Android's packed table, as plain relocations.
    pub fn packed_records(&self, image: &Image) -> impl Iterator<Item = Relocation> + use<'a> {
        let packed = self.packed.clone();
        let shape = Shape::of(image, packed.as_ref().is_some_and(|(_, has_addend)| *has_addend));
        packed.into_iter().flat_map(|(records, _)| records).map(move |record| {
            let (kind, symbol) = shape.split_info(record.info);
            Relocation { offset: record.offset, kind, symbol, addend: record.addend }
        })
    }
}

/// An address with its size tag. An address without a size is a null pointer read in glibc.
fn claim(image: &Image, addr: DynamicTag, size: DynamicTag, name: &str, faults: &mut Vec<Fault>) -> Option<Claim> {
    let addr = image.dynamic_value(addr)?;
    match image.dynamic_value(size) {
        Some(size) => Some(Claim { addr, size }),
        None => {
            faults.push(Fault { text: format!("{name} has no size: glibc crashes, musl ignores it") });
            None
        }
    }
}

/// DT_JMPREL and whether its records have addends. Without DT_PLTREL both loaders ignore it.
fn plt_claim(image: &Image, faults: &mut Vec<Fault>) -> (Option<Claim>, bool) {
    let kind = image.dynamic_value(elf::DT_PLTREL);
    let has_addend = match kind {
        Some(kind) => kind == elf::DT_RELA.0 as u64,
        None => image.dynamic_value(elf::DT_RELA).is_some(),
    };
    let found = claim(image, elf::DT_JMPREL, elf::DT_PLTRELSZ, "DT_JMPREL", faults);
    if let Some(kind) = kind
        && kind != elf::DT_RELA.0 as u64
        && kind != elf::DT_REL.0 as u64
    {
        faults.push(Fault { text: format!("DT_PLTREL is {kind}, neither DT_REL nor DT_RELA: glibc aborts") });
    }
    if found.is_some() && kind.is_none() {
        faults.push(Fault { text: "DT_JMPREL without DT_PLTREL: glibc ignores the table".to_string() });
        return (None, has_addend);
    }
    (found, has_addend)
}

/// The main table without JMPREL where that makes up its very end; glibc tests the ends for equality.
fn trim(main: Claim, plt: Option<Claim>) -> Claim {
    match plt {
        Some(plt) if plt.addr.wrapping_add(plt.size) == main.addr.wrapping_add(main.size) && plt.size <= main.size => {
            Claim { addr: main.addr, size: main.size.saturating_sub(plt.size) }
        }
        _ => main,
    }
}

/// The part of the PLT's table that does not also stand in the main table.
fn without_overlap<'a>(table: Table<'a>, plt: Option<Claim>, main: Option<Claim>) -> Table<'a> {
    let (Some(plt), Some(main)) = (plt, main) else { return table };
    let plt_end = plt.addr.saturating_add(table.bytes.len() as u64);
    let main_end = main.addr.saturating_add(main.size);
    if plt.addr >= main_end || plt_end <= main.addr {
        return table;
    }
    let before = usize::try_from(main.addr.saturating_sub(plt.addr)).unwrap_or(0);
    let after = usize::try_from(plt_end.saturating_sub(main_end)).unwrap_or(0);
    // An overlap in the middle leaves a part on both sides; the larger is kept, files like that do not exist.
    let bytes = if before >= after {
        table.bytes.get(..before).unwrap_or(&[])
    } else {
        table.bytes.get(table.bytes.len().saturating_sub(after)..).unwrap_or(&[])
    };
    Table { bytes, shape: table.shape }
}

fn read_table<'a>(
    image: &Image<'a>,
    found: Option<Claim>,
    has_addend: bool,
    name: &str,
    faults: &mut Vec<Fault>,
) -> Table<'a> {
    let shape = Shape::of(image, has_addend);
    match found {
        Some(found) => Table { bytes: read_bytes(image, found, shape.record_size() as u64, name, faults), shape },
        None => Table::empty(shape),
    }
}

/// The bytes of a claimed table, up to whole records past its claimed end, and never more than the file has.
fn read_bytes<'a>(image: &Image<'a>, found: Claim, record: u64, name: &str, faults: &mut Vec<Fault>) -> &'a [u8] {
    if found.size == 0 {
        return &[];
    }
    let Some(bytes) = image.from_vaddr(found.addr) else {
        let text = format!("{name} points to {:#x}, where the file loads nothing: the loader crashes", found.addr);
        faults.push(Fault { text });
        return &[];
    };
    if !found.size.is_multiple_of(record) {
        let text = format!("the size of {name} ({} bytes) is no multiple of its record ({record} bytes)", found.size);
        faults.push(Fault { text });
    }
    let wanted = found.size.checked_next_multiple_of(record).and_then(|size| usize::try_from(size).ok());
    if let Some(bytes) = wanted.and_then(|size| bytes.get(..size)) {
        return bytes;
    }
    let text = format!(
        "{name} claims {} bytes, {} are there: the loader reads past the mapping and crashes",
        found.size,
        bytes.len()
    );
    faults.push(Fault { text });
    bytes
}
