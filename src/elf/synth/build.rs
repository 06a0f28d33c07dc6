//! From a recipe to bytes.
//!
//! The file is its own memory image: offset and address differ by the load address alone. Three segments, each from a
//! page of its own: headers and tables (read), code (execute), data (write). Tables hold addresses of the data behind
//! them and their sizes may depend on these, so the tables are written until the addresses hold still.

#![deny(clippy::indexing_slicing, clippy::arithmetic_side_effects, clippy::unwrap_used)]

use std::collections::{HashMap, HashSet};

use object::elf::{self, DynamicTag, ProgramType};

use super::Target;
use super::bytes::Bytes;
use super::hash::gnu_order;
use super::recipe::{Packing, Recipe, Relative, Use};
use crate::elf::machine::{TypesToWrite, types_to_write};

/// Where programs that are not position independent go.
const FIXED_BASE: u64 = 0x40_0000;
/// Offset of the function that only returns, after the code that exits or stamps.
pub(super) const RETURN_AT: u64 = super::STAMP_BYTES as u64;
/// Words at the start of the global offset table that belong to the loader.
pub(super) const GOT_HEADER: u64 = 3;

/// Addresses of everything that tables speak of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Places {
    pub(super) base: u64,
    pub(super) text: u64,
    /// Start of the writable segment: TLS image, then the rest in this order.
    pub(super) rw: u64,
    pub(super) dynamic: u64,
    pub(super) init_array: u64,
    /// Slots of GLOB_DAT, absolute and IRELATIVE relocations.
    pub(super) got: u64,
    /// Header and slots of the procedure linkage table.
    pub(super) plt_got: u64,
    /// End of what PT_GNU_RELRO covers.
    pub(super) relro_end: u64,
    /// Places of the relative relocations.
    pub(super) data: u64,
    /// End of the bytes in the file.
    pub(super) file_end: u64,
    /// Objects copied from libraries; memory only.
    pub(super) copies: u64,
    pub(super) end: u64,
}

/// Tables of the read-only segment, with the addresses that they got.
pub(super) struct Tables {
    pub(super) bytes: Bytes,
    pub(super) interp: Option<(u64, u64)>,
    pub(super) tags: Vec<(DynamicTag, u64)>,
}

pub(super) struct Builder<'r> {
    pub(super) recipe: &'r Recipe,
    pub(super) target: Target,
    pub(super) types: TypesToWrite,
    /// Undefined symbols first, then defined ones in the order of DT_GNU_HASH.
    pub(super) undefined: Vec<Vec<u8>>,
    pub(super) defined: Vec<Vec<u8>>,
    /// Index of each name in the symbol table.
    pub(super) indexes: HashMap<Vec<u8>, u32>,
}

/// Passes after which addresses are taken as they are. Two suffice: only the length of a packed number can change.
const MOST_PASSES: usize = 8;

/// The bytes of a recipe.
pub(super) fn build(recipe: &Recipe) -> Vec<u8> {
    let builder = Builder::new(recipe);
    let base = if recipe.position_independent { 0 } else { FIXED_BASE };
    let mut places = builder.places(base, base);
    for _ in 0..MOST_PASSES {
        let tables = builder.tables(&places);
        let next = builder.places(base, base.saturating_add(tables.bytes.len()));
        if next == places {
            break;
        }
        places = next;
    }
    builder.file(&places, builder.tables(&places))
}

impl<'r> Builder<'r> {
    fn new(recipe: &'r Recipe) -> Builder<'r> {
        let target = recipe.target;
        let mut undefined: Vec<Vec<u8>> = Vec::new();
        let mut defined = recipe.exports.clone();
        let mut seen = HashSet::new();
        for import in &recipe.imports {
            let list = if matches!(import.used_as, Use::Copy(_)) { &mut defined } else { &mut undefined };
            if seen.insert(&import.name) {
                list.push(import.name.clone());
            }
        }
        gnu_order(&mut defined);
        let indexes = undefined.iter().chain(&defined).cloned().zip(1u32..).collect();
        let types = types_to_write(target.machine, target.is_64);
        Builder { recipe, target, types, undefined, defined, indexes }
    }

    pub(super) fn words(&self, count: u64) -> u64 {
        count.saturating_mul(self.target.word())
    }

    fn slots(&self, plt: bool) -> u64 {
        let imports = self.recipe.imports.iter().filter(|i| match i.used_as {
            Use::JumpSlot => plt,
            Use::Absolute | Use::GlobDat => !plt,
            Use::Copy(_) => false,
        });
        imports.fold(0, |sum, i| sum.saturating_add(i.relocations))
    }

    fn binds_now(&self) -> bool {
        self.recipe.flags & elf::DF_BIND_NOW.0 != 0 || self.recipe.flags_1 & elf::DF_1_NOW.0 != 0
    }

    /// Everything's address, given where the tables end.
    fn places(&self, base: u64, tables_end: u64) -> Places {
        let page = self.target.max_page();
        let text = tables_end.next_multiple_of(page);
        let rw = text.saturating_add(Self::code_size()).next_multiple_of(page);
        let dynamic = rw.saturating_add(self.recipe.tls_bytes).next_multiple_of(16);
        let init_array = dynamic.saturating_add(self.words(self.dynamic_entries().saturating_mul(2)));
        let got = init_array.saturating_add(self.words(self.recipe.constructors));
        let got_end = got.saturating_add(self.words(self.slots(false).saturating_add(self.recipe.irelative)));
        let plt_size = self.words(self.slots(true).saturating_add(GOT_HEADER));
        // Slots that are bound later must stay writable.
        let (plt_got, relro_end) = if self.binds_now() {
            (got_end, got_end.saturating_add(plt_size).next_multiple_of(page))
        } else {
            (got_end.next_multiple_of(page), got_end.next_multiple_of(page))
        };
        let data = plt_got.saturating_add(plt_size).next_multiple_of(page);
        let file_end = data.saturating_add(self.recipe.relative.map_or(0, |r| self.relative_bytes(r)));
        let copies = file_end.next_multiple_of(64).saturating_add(self.recipe.bss_bytes);
        let end = self.recipe.imports.iter().fold(copies, |at, import| match import.used_as {
            Use::Copy(size) => at.saturating_add(size.next_multiple_of(64)),
            _ => at,
        });
        Places { base, text, rw, dynamic, init_array, got, plt_got, relro_end, data, file_end, copies, end }
    }

    /// Bytes of code: what exits or stamps, and the function that only returns.
    fn code_size() -> u64 {
        RETURN_AT.saturating_mul(2)
    }

    pub(super) fn stride(&self, relative: Relative) -> u64 {
        relative.stride.max(self.target.word())
    }

    fn relative_bytes(&self, relative: Relative) -> u64 {
        match relative.count.checked_sub(1) {
            None => 0,
            Some(gaps) => gaps.saturating_mul(self.stride(relative)).saturating_add(self.target.word()),
        }
    }

    /// An upper bound of the dynamic table's entries, so that its size does not depend on its content.
    fn dynamic_entries(&self) -> u64 {
        48u64.saturating_add(self.recipe.needed.len() as u64)
    }

    fn segments(&self, places: &Places, tables: &Tables) -> Vec<(ProgramType, u32, u64, u64, u64, u64)> {
        let (r, w, x) = (elf::PF_R.0, elf::PF_W.0, elf::PF_X.0);
        let page = self.target.max_page();
        let size = |from: u64, to: u64| to.saturating_sub(from);
        let tables_size = tables.bytes.len();
        let mut all = Vec::new();
        if let Some((offset, len)) = tables.interp {
            // glibc learns from PT_PHDR where the kernel put a position independent program.
            let header = if self.target.is_64 { 64 } else { 52 };
            let headers = self.headers_size().saturating_sub(header);
            all.push((elf::PT_PHDR, r, places.base.saturating_add(header), headers, headers, 8));
            all.push((elf::PT_INTERP, r, places.base.saturating_add(offset), len, len, 1));
        }
        all.push((elf::PT_LOAD, r, places.base, tables_size, tables_size, page));
        let code = Self::code_size();
        all.push((elf::PT_LOAD, r | x, places.text, code, code, page));
        let (file, memory) = (size(places.rw, places.file_end), size(places.rw, places.end));
        all.push((elf::PT_LOAD, r | w, places.rw, file, memory.max(file), page));
        for i in 0..self.recipe.extra_segments {
            let after = places.end.max(places.file_end).next_multiple_of(page);
            let at = after.saturating_add(i.saturating_mul(page));
            all.push((elf::PT_LOAD, r, at, tables_size.min(64), tables_size.min(64), page));
        }
        let dynamic = size(places.dynamic, places.init_array);
        all.push((elf::PT_DYNAMIC, r | w, places.dynamic, dynamic, dynamic, 8));
        if self.recipe.tls_bytes > 0 {
            all.push((elf::PT_TLS, r, places.rw, self.recipe.tls_bytes, self.recipe.tls_bytes, 16));
        }
        if self.recipe.relro {
            let relro = size(places.rw, places.relro_end);
            all.push((elf::PT_GNU_RELRO, r, places.rw, relro, relro, 1));
        }
        all.push((elf::PT_GNU_STACK, r | w, 0, 0, 0, 16));
        all
    }

    pub(super) fn headers_size(&self) -> u64 {
        let (header, entry): (u64, u64) = if self.target.is_64 { (64, 56) } else { (52, 32) };
        let recipe = self.recipe;
        let optional = if recipe.interp.is_some() { 2u64 } else { 0 }
            .saturating_add(u64::from(recipe.tls_bytes > 0))
            .saturating_add(u64::from(recipe.relro));
        let count = recipe.extra_segments.saturating_add(optional).saturating_add(5);
        header.saturating_add(count.saturating_mul(entry))
    }

    fn headers(&self, places: &Places, tables: &Tables) -> Vec<u8> {
        let segments = self.segments(places, tables);
        let mut out = Bytes::new(self.target);
        out.raw(&elf::ELFMAG);
        out.raw(&[if self.target.is_64 { 2 } else { 1 }, if self.target.big_endian { 2 } else { 1 }, 1]);
        out.pad_to(16);
        out.u16(if self.recipe.position_independent { elf::ET_DYN.0 } else { elf::ET_EXEC.0 });
        out.u16(self.target.machine);
        out.u32(1);
        out.word(if self.recipe.soname.is_some() { 0 } else { places.text });
        out.word(if self.target.is_64 { 64 } else { 52 });
        out.word(0);
        out.u32(self.target.flags);
        let sizes = if self.target.is_64 { [64, 56] } else { [52, 32] };
        sizes.iter().for_each(|n| out.u16(*n));
        out.u16(u16::try_from(segments.len()).unwrap_or(0xfffe));
        (0..3).for_each(|_| out.u16(0));
        for (kind, flags, vaddr, file, memory, align) in segments {
            // Extra segments map the start of the file; all others lie where their address says.
            let beyond = vaddr >= places.end.max(places.file_end).next_multiple_of(self.target.max_page());
            let offset = if beyond || kind == elf::PT_GNU_STACK { 0 } else { vaddr.saturating_sub(places.base) };
            out.u32(kind.0);
            if self.target.is_64 {
                out.u32(flags);
            }
            [offset, vaddr, vaddr, file, memory].iter().for_each(|n| out.word(*n));
            if !self.target.is_64 {
                out.u32(flags);
            }
            out.word(align);
        }
        out.out
    }

    /// Everything in its place.
    fn file(&self, places: &Places, tables: Tables) -> Vec<u8> {
        let mut file = Bytes::new(self.target);
        file.raw(&self.headers(places, &tables));
        let rest = usize::try_from(file.len()).ok().and_then(|at| tables.bytes.out.get(at..));
        file.raw(rest.unwrap_or(&[]));
        let offset = |addr: u64| addr.saturating_sub(places.base);
        file.pad_to(offset(places.text));
        let (exit, ret) = code(self.target);
        file.raw(exit);
        file.pad_to(offset(places.text).saturating_add(RETURN_AT));
        file.raw(ret);
        file.pad_to(offset(places.dynamic));
        file.raw(&self.dynamic_bytes(places, &tables));
        file.pad_to(offset(places.init_array));
        let function = places.text.saturating_add(RETURN_AT);
        (0..self.recipe.constructors).for_each(|_| file.word(function));
        file.pad_to(offset(places.data));
        if let Some(relative) = self.recipe.relative {
            self.data(&mut file, relative, function);
        }
        file.pad_to(offset(places.file_end));
        file.out
    }

    /// The words that relative relocations change: where records have no addend, the addend is here.
    fn data(&self, file: &mut Bytes, relative: Relative, function: u64) {
        let in_place = self.target.uses_rel() || relative.packing == Packing::Relr;
        let start = file.len();
        for i in 0..relative.count {
            file.pad_to(start.saturating_add(i.saturating_mul(self.stride(relative))));
            file.word(if in_place { function } else { 0 });
        }
    }
}

/// Code that exits with 0, and code that returns. Files for machines without it are to be read, not run.
fn code(target: Target) -> (&'static [u8], &'static [u8]) {
    match elf::Machine(target.machine) {
        elf::EM_X86_64 => (super::control::exit_group(super::Machine::X86_64), &[0xc3]),
        elf::EM_AARCH64 if !target.big_endian => {
            (super::control::exit_group(super::Machine::Aarch64), &[0xc0, 0x03, 0x5f, 0xd6])
        }
        // mov eax, 252; xor ebx, ebx; int 0x80
        elf::EM_386 => (&[0xb8, 0xfc, 0, 0, 0, 0x31, 0xdb, 0xcd, 0x80], &[0xc3]),
        _ => (&[], &[]),
    }
}
