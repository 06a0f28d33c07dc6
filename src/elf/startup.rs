//! What start-up relocations do to one image: how many of each class, and which pages they write.
//!
//! Decided by reading the loaders. glibc (`elf_machine_rela`, `elf_machine_lazy_rel` of each machine) stores for every
//! record but `NONE`: for RELATIVE and RELR, for symbols (0 where a weak one is missing), for `COPY` (the symbol's size,
//! in the program itself), for `IRELATIVE`, and for the TLS types. A lazily bound `JUMP_SLOT` is stored to as well, since
//! the load address is added to it, also where that is 0 (x86, Arm, s390); RISC-V and LoongArch skip it at address 0, and
//! SPARC's slots are code that needs no change. With lazy binding, `elf_machine_runtime_setup` writes the first words of
//! DT_PLTGOT. musl and bionic bind all slots at start.

#![deny(clippy::indexing_slicing, clippy::arithmetic_side_effects, clippy::unwrap_used)]

use object::elf;

use super::image::Image;
use super::machine::{Class, Classes, TYPES};
use super::pages::PageSet;
use super::relocation::{Relocation, Tables};
use super::relro::Protected;
use super::symbols::Symbols;
use crate::facts::RelocationCounts;

/// What a pass over all relocation tables found.
#[derive(Debug, Clone, Default)]
pub struct Startup {
    /// Records by class.
    pub counts: RelocationCounts,
    /// Records by type number, those that there are; types past the machine's are in the last.
    pub by_type: Vec<(u32, u64)>,
    /// Sorted numbers of the distinct 4 KiB pages written.
    pub pages: Vec<u64>,
    /// One past the largest symbol index that a record names.
    pub symbols_seen: u64,
    /// GLOB_DAT, JUMP_SLOT and IRELATIVE slots that stay writable.
    pub open_slots: u64,
    /// Entries of the MIPS global offset table that are relocated without records.
    pub implicit_got: u64,
    /// RELATIVE records before the first of another class, in DT_RELA or else DT_REL: what DT_RELACOUNT should say.
    pub relative_prefix: u64,
    /// Android's packed table ends before its claimed count.
    pub packed_fault: bool,
}

/// What writes at start, for those who ask page by page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Writer {
    /// A relocation of a class.
    Record(Class),
    /// A packed relative relocation.
    Relr,
    /// The loader's own words at the start of the global offset table, for lazy binding.
    LazyHeader,
    /// An entry of the MIPS global offset table.
    ImplicitGot,
}

/// Where writes are noted.
pub trait Sink {
    /// A write of `len` bytes at `addr`.
    fn write(&mut self, by: Writer, addr: u64, len: u64);
}

impl Sink for PageSet {
    #[inline]
    fn write(&mut self, _by: Writer, addr: u64, len: u64) {
        PageSet::write(self, addr, len);
    }
}

/// Records in a row that name the same type and no symbol: nearly all of a large program. They are counted once, at
/// their end.
#[derive(Clone, Copy)]
struct Run {
    kind: u32,
    class: Class,
    len: u64,
}

/// Gathers a [`Startup`].
struct Pass<'p, 'a, S> {
    image: &'p Image<'a>,
    classes: Classes,
    symbols: Symbols<'a, 'p>,
    protected: Protected,
    skip_slots: bool,
    counts: [u64; Class::COUNT],
    by_type: Box<[u64; TYPES]>,
    run: Run,
    run_type: u32,
    /// No record of another class came yet in the table that DT_RELACOUNT speaks of.
    in_prefix: bool,
    prefix: u64,
    word: u64,
    sink: S,
    symbols_seen: u64,
    open_slots: u64,
}

/// Walks every table once. `lazy` says whether the PLT's slots are bound at their first call.
pub fn startup(image: &Image, tables: &Tables, lazy: bool, protected: Protected) -> Startup {
    let (start, pages) = startup_into(image, tables, lazy, protected, PageSet::default());
    Startup { pages: pages.into_sorted(), ..start }
}

/// The same, with the writes noted by the caller instead of in [`Startup::pages`].
pub fn startup_into<S: Sink>(
    image: &Image,
    tables: &Tables,
    lazy: bool,
    protected: Protected,
    sink: S,
) -> (Startup, S) {
    let mut pass = Pass::new(image, lazy, protected, sink);
    let mut relr = 0u64;
    if let Some(table) = tables.relr {
        table.for_each(|addr| {
            relr = relr.saturating_add(1);
            pass.sink.write(Writer::Relr, addr, image.word_size());
        });
    }
    let first = if tables.rela.is_empty() { &tables.rel } else { &tables.rela };
    for table in [&tables.rel, &tables.rela, &tables.plt_alone] {
        pass.in_prefix = std::ptr::eq(table, first);
        table.for_each(|r| pass.record(r));
        pass.end_run();
    }
    let mut packed_fault = false;
    if let Some((packed, _)) = &tables.packed {
        tables.packed_records(image).for_each(|r| pass.record(r));
        let mut packed = packed.clone();
        packed.by_ref().for_each(drop);
        packed_fault = packed.is_faulty();
    }
    if lazy && !tables.plt.is_empty() {
        pass.lazy_header();
    }
    pass.end_run();
    let implicit_got = pass.mips_got();
    let mut counts = pass.relocation_counts();
    counts.relr = relr;
    counts.table_bytes = tables.table_bytes;
    let start = Startup {
        counts,
        by_type: pass.types(),
        pages: Vec::new(),
        symbols_seen: pass.symbols_seen,
        open_slots: pass.open_slots,
        implicit_got,
        relative_prefix: pass.prefix,
        packed_fault,
    };
    (start, pass.sink)
}

/// The same for records that no DT_* names: those that a static program's start files walk.
pub fn static_startup(image: &Image, records: impl Iterator<Item = Relocation>, protected: Protected) -> Startup {
    let (start, pages) = static_startup_into(image, records, protected, PageSet::default());
    Startup { pages: pages.into_sorted(), ..start }
}

/// The same, with the writes noted by the caller.
pub fn static_startup_into<S: Sink>(
    image: &Image,
    records: impl Iterator<Item = Relocation>,
    protected: Protected,
    sink: S,
) -> (Startup, S) {
    let mut pass = Pass::new(image, false, protected, sink);
    records.for_each(|r| pass.record(r));
    pass.end_run();
    let counts = pass.relocation_counts();
    let by_type = pass.types();
    (Startup { counts, by_type, open_slots: pass.open_slots, ..Startup::default() }, pass.sink)
}

impl<'p, 'a, S: Sink> Pass<'p, 'a, S> {
    fn new(image: &'p Image<'a>, lazy: bool, protected: Protected, sink: S) -> Pass<'p, 'a, S> {
        Pass {
            image,
            classes: Classes::of(image),
            symbols: Symbols::of(image),
            protected,
            skip_slots: lazy && !lazy_slots_are_written(image),
            counts: [0; Class::COUNT],
            by_type: Box::new([0; TYPES]),
            run: Run { kind: 0, class: Class::None, len: 0 },
            run_type: 0,
            in_prefix: false,
            prefix: 0,
            word: image.word_size(),
            sink,
            symbols_seen: 0,
            open_slots: 0,
        }
    }

    #[inline]
    fn record(&mut self, r: Relocation) {
        if r.symbol != 0 || r.kind != self.run.kind {
            self.start_run(r);
        }
        self.run.len = self.run.len.saturating_add(1);
        match self.run.class {
            Class::Relative | Class::Absolute | Class::Other => {
                self.sink.write(Writer::Record(self.run.class), r.offset, self.word);
            }
            Class::None => {}
            class => self.other_record(class, r),
        }
    }

    /// A record with a symbol is a run of its own: its class may depend on it.
    fn start_run(&mut self, r: Relocation) {
        self.end_run();
        // No type of a file has this number, so that a symbol's record never continues.
        let kind = if r.symbol == 0 { r.kind } else { u32::MAX };
        self.run = Run { kind, class: self.classes.class(r.kind, r.symbol), len: 0 };
        self.run_type = self.classes.plain_type(r.kind);
        if r.symbol != 0 {
            self.symbols_seen = self.symbols_seen.max(u64::from(r.symbol).saturating_add(1));
        }
    }

    fn end_run(&mut self) {
        let len = std::mem::take(&mut self.run.len);
        self.in_prefix &= len == 0 || self.run.class == Class::Relative;
        if self.in_prefix {
            self.prefix = self.prefix.saturating_add(len);
        }
        if let Some(count) = self.counts.get_mut(self.run.class as usize) {
            *count = count.saturating_add(len);
        }
        let kind = (self.run_type as usize).min(TYPES.saturating_sub(1));
        if let Some(count) = self.by_type.get_mut(kind) {
            *count = count.saturating_add(len);
        }
    }

    fn other_record(&mut self, class: Class, r: Relocation) {
        let is_slot = matches!(class, Class::GlobDat | Class::JumpSlot | Class::Irelative);
        if is_slot && !self.protected.contains(r.offset) {
            self.open_slots = self.open_slots.saturating_add(1);
        }
        if class == Class::JumpSlot && self.skip_slots {
            return;
        }
        let word = self.image.word_size();
        let len = match class {
            Class::Copy => self.symbols.get(r.symbol).map_or(word, |s| s.size),
            _ if self.classes.writes_two_words(self.image.machine(), r.kind) => word.saturating_mul(2),
            _ => word,
        };
        self.sink.write(Writer::Record(class), r.offset, len);
    }

    /// The first words of the global offset table: who the object is, and where its resolver is.
    fn lazy_header(&mut self) {
        if let Some(got) = self.image.dynamic_value(elf::DT_PLTGOT) {
            let word = self.image.word_size();
            let first = match elf::Machine(self.image.machine()) {
                elf::EM_RISCV | elf::EM_LOONGARCH => got,
                _ => got.saturating_add(word),
            };
            self.sink.write(Writer::LazyHeader, first, word.saturating_mul(2));
        }
    }

    /// MIPS: DT_PLTGOT's local entries get the load address added, its global ones are looked up; no record says so.
    /// The first two entries belong to the loader (MIPS psABI; glibc's `elf_machine_runtime_setup`, musl's `do_mips_relocs`).
    fn mips_got(&mut self) -> u64 {
        let image = self.image;
        if image.machine() != elf::EM_MIPS.0 {
            return 0;
        }
        let value = |tag| image.dynamic_value(tag).unwrap_or(0);
        let local = value(elf::DT_MIPS_LOCAL_GOTNO);
        let global = value(elf::DT_MIPS_SYMTABNO).saturating_sub(value(elf::DT_MIPS_GOTSYM));
        let Some(got) = image.dynamic_value(elf::DT_PLTGOT) else { return 0 };
        let word = image.word_size();
        let there = image.from_vaddr(got).map_or(0, |bytes| bytes.len() as u64).checked_div(word).unwrap_or(0);
        let entries = local.saturating_add(global).min(there);
        for i in 2..entries {
            self.sink.write(Writer::ImplicitGot, got.saturating_add(i.saturating_mul(word)), word);
        }
        entries.saturating_sub(2)
    }

    fn types(&self) -> Vec<(u32, u64)> {
        (0u32..).zip(self.by_type.iter()).filter(|(_, n)| **n > 0).map(|(kind, n)| (kind, *n)).collect()
    }

    fn relocation_counts(&self) -> RelocationCounts {
        let of = |class: Class| self.counts.get(class as usize).copied().unwrap_or(0);
        RelocationCounts {
            relative: of(Class::Relative),
            absolute: of(Class::Absolute),
            glob_dat: of(Class::GlobDat),
            jump_slot: of(Class::JumpSlot),
            copy: of(Class::Copy),
            irelative: of(Class::Irelative),
            tls: of(Class::Tls),
            none: of(Class::None),
            other: of(Class::Other),
            ..RelocationCounts::default()
        }
    }
}

/// Whether binding lazily still writes each slot at start.
fn lazy_slots_are_written(image: &Image) -> bool {
    match elf::Machine(image.machine()) {
        elf::EM_SPARC | elf::EM_SPARC32PLUS | elf::EM_SPARCV9 => false,
        elf::EM_RISCV | elf::EM_LOONGARCH => image.file_type() == elf::ET_DYN.0,
        _ => true,
    }
}
