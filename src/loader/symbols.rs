//! One object's dynamic symbols: its hash tables as a place where others look, and the look-ups that its own
//! relocations make.
//!
//! The look-ups of an object do not depend on the program that maps it: ld.so's one-entry cache lives in the object
//! (`l_lookup_cache`), and a look-up that fails counts as one that succeeds. So they are listed once, here. Only where each
//! of them ends depends on the program: see [`super::lookup`].
//!
//! Sources: `elf/dl-lookup.c`, `elf/dl-reloc.c` (`resolve_map`), `elf/do-rel.h`, `elf/dl-version.c` of glibc 2.36.

#![deny(clippy::indexing_slicing, clippy::arithmetic_side_effects, clippy::unwrap_used)]

use std::sync::OnceLock;

use object::elf;

use super::files::Bytes;
use super::hash::Tables as HashTables;
use super::lines::Reader;
use super::own::VdsoStrings;
use super::versions::{Version, Versions};
use crate::elf::image::Image;
use crate::elf::machine::{Class, Classes};
use crate::elf::relocation::{Relocation, Tables};
use crate::facts::Endian;

/// ld.so's class of a relocation type (`elf_machine_type_class`): which definitions it accepts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TypeClass {
    /// Any definition.
    Any,
    /// The same for a GLOB_DAT, which glibc 2.22 to 2.35 kept apart on x86 and Arm (`EXTERN_PROTECTED_DATA`): the one-entry
    /// cache does not serve one for the other.
    AnyByGot,
    /// PLT slots and TLS: an undefined symbol with a value does not count.
    Plt,
    /// Copies: the executable itself is passed over.
    Copy,
}

/// One look-up: a call of `_dl_lookup_symbol_x` in glibc, of `find_sym` in musl (`uses` times there).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request {
    /// Index of the reference in the dynamic symbol table.
    pub symbol: u32,
    /// Offset and length of its name in the string table.
    pub name: (u32, u32),
    /// GNU hash of the name.
    pub gnu: u32,
    /// Version index of the reference, 0 for none.
    pub version: u16,
    /// What it accepts.
    pub class: TypeClass,
    /// May stay undefined.
    pub weak: bool,
    /// A protected reference: the second half of its look-up is made again.
    pub protected: bool,
    /// Relocations that this look-up serves: itself and those answered by the one-entry cache.
    pub uses: u32,
}

/// Look-ups in the order that the loader makes them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Requests {
    /// Those that miss the one-entry cache.
    pub list: Vec<Request>,
    /// How many relocations the cache answers.
    pub cached: u64,
}

/// All look-ups of one object's relocations.
#[derive(Debug, Default)]
pub struct RequestSet {
    /// Made for DT_REL and DT_RELA, always at start.
    pub eager: Requests,
    got_apart: bool,
    /// What the one-entry cache holds after those.
    last: Option<(u32, TypeClass)>,
    plt: OnceLock<Requests>,
    plt_lazy: OnceLock<Requests>,
}

impl RequestSet {
    /// Made for DT_JMPREL: all of it where binding happens at start, else the TLS descriptors alone.
    pub fn plt(&self, symbols: &Symbols, now: bool) -> &Requests {
        let slot = if now { &self.plt } else { &self.plt_lazy };
        slot.get_or_init(|| symbols.list_plt(self, now))
    }
}

/// A definition or reference in the symbol table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Symbol {
    /// Offset of its name in the string table.
    pub name: u32,
    /// Type and binding.
    pub info: u8,
    /// Visibility in the low two bits.
    pub other: u8,
    /// Section, 0 for undefined.
    pub section: u16,
    /// Value.
    pub value: u64,
}

impl Symbol {
    /// STB_*.
    pub fn binding(self) -> u8 {
        self.info >> 4
    }

    /// STT_*.
    pub fn kind(self) -> u8 {
        self.info & 0xf
    }

    /// STV_HIDDEN or STV_INTERNAL: stays inside its object.
    pub fn is_hidden(self) -> bool {
        matches!(self.other & 3, 1 | 2)
    }

    /// STV_PROTECTED.
    pub fn is_protected(self) -> bool {
        self.other & 3 == 3
    }
}

/// A part of the file, from its start on.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Part {
    pub(super) start: usize,
    pub(super) end: usize,
}

impl Part {
    /// Where `inner`, a slice of `outer`, lies in it.
    pub(super) fn of(outer: &[u8], inner: Option<&[u8]>) -> Part {
        let Some(inner) = inner else { return Part::default() };
        let start = (inner.as_ptr().addr()).saturating_sub(outer.as_ptr().addr());
        Part { start, end: start.saturating_add(inner.len()) }
    }

    pub(super) fn is_empty(self) -> bool {
        self.start >= self.end
    }
}

/// One object's dynamic symbols.
pub struct Symbols {
    bytes: Bytes,
    pub(super) is_64: bool,
    pub(super) little: bool,
    symbols: Part,
    strings: Part,
    versym: Part,
    pub(super) hash: HashTables,
    /// Versions asked for and defined.
    pub versions: Versions,
    /// Look-ups of its relocations, in both spellings of GLOB_DAT's class.
    requests: [OnceLock<RequestSet>; 2],
    /// Slots that a lazy start leaves for their first call.
    pub lazy_slots: u64,
    /// DT_BIND_NOW, DF_BIND_NOW or DF_1_NOW.
    pub bind_now: bool,
    /// The machine's relocations are looked up in the way that is modelled here.
    pub is_modelled: bool,
    /// DT_AARCH64_VARIANT_PCS.
    has_variants: bool,
    vdso_strings: OnceLock<VdsoStrings>,
}

impl Symbols {
    /// Reads tables and look-ups. What is not there is empty.
    pub fn read(bytes: &Bytes) -> Symbols {
        let data = bytes.as_ref().as_ref();
        let image = Image::parse(data).ok();
        let at = |tag| {
            let image = image.as_ref()?;
            image.from_vaddr(image.dynamic_value(tag)?)
        };
        let mut symbols = Symbols {
            bytes: bytes.clone(),
            is_64: image.as_ref().is_some_and(Image::is_64),
            little: image.as_ref().is_none_or(|i| i.endian() == Endian::Little),
            symbols: Part::of(data, at(elf::DT_SYMTAB)),
            strings: Part::of(data, at(elf::DT_STRTAB)),
            versym: Part::default(),
            hash: HashTables::default(),
            versions: Versions::default(),
            requests: [OnceLock::new(), OnceLock::new()],
            lazy_slots: 0,
            bind_now: false,
            is_modelled: true,
            has_variants: false,
            vdso_strings: OnceLock::new(),
        };
        if let Some(image) = &image {
            symbols.hash = HashTables::of(image);
            symbols.versions = Versions::of(image);
            // Without verneed and verdef ld.so never looks at DT_VERSYM (`_dl_check_map_versions`).
            if !symbols.versions.is_empty() {
                symbols.versym = Part::of(data, at(elf::DT_VERSYM));
            }
            symbols.bind_now = binds_now(image);
            let is_aarch64 = image.machine() == elf::EM_AARCH64.0;
            symbols.has_variants = is_aarch64 && image.dynamic_value(elf::DT_AARCH64_VARIANT_PCS).is_some();
            symbols.is_modelled = image.machine() != elf::EM_MIPS.0;
            let classes = Classes::of(image);
            let is_slot = |r: &Relocation| classes.class(r.kind, r.symbol) == Class::JumpSlot;
            symbols.lazy_slots = Tables::of(image).plt.records().filter(is_slot).count() as u64;
        }
        symbols
    }

    pub(super) fn data(&self) -> &[u8] {
        self.bytes.as_ref().as_ref()
    }

    pub(super) fn part(&self, part: Part) -> &[u8] {
        self.data().get(part.start..part.end).unwrap_or(&[])
    }

    /// Which vDSO functions it names.
    pub(super) fn vdso_strings(&self) -> &VdsoStrings {
        self.vdso_strings.get_or_init(|| Image::parse(self.data()).map(|i| VdsoStrings::of(&i)).unwrap_or_default())
    }

    /// The symbol of an index.
    pub fn symbol(&self, index: u32) -> Option<Symbol> {
        let size: usize = if self.is_64 { 24 } else { 16 };
        let at = usize::try_from(index).ok()?.checked_mul(size)?;
        let raw = self.part(self.symbols).get(at..at.checked_add(size)?)?;
        let name = self.u32_in(raw, 0)?;
        let (at_info, at_value) = if self.is_64 { (4, 8) } else { (12, 4) };
        let value = if self.is_64 { self.u64_in(raw, at_value)? } else { u64::from(self.u32_in(raw, at_value)?) };
        let info = *raw.get(at_info)?;
        let other = *raw.get(at_info.checked_add(1)?)?;
        let section = *raw.get(at_info.checked_add(2)?..)?.first_chunk::<2>()?;
        let section = if self.little { u16::from_le_bytes(section) } else { u16::from_be_bytes(section) };
        Some(Symbol { name, info, other, section, value })
    }

    /// True where the string at `offset` is `name`.
    pub fn name_is(&self, offset: u32, name: &[u8]) -> bool {
        let strings = self.part(self.strings);
        let Some(text) = usize::try_from(offset).ok().and_then(|at| strings.get(at..)) else { return false };
        text.get(..name.len()) == Some(name) && text.get(name.len()) == Some(&0)
    }

    /// The name of a request.
    pub fn name_of(&self, request: &Request) -> &[u8] {
        let (start, len) = (request.name.0 as usize, request.name.1 as usize);
        self.part(self.strings).get(start..start.saturating_add(len)).unwrap_or(&[])
    }

    /// The version that a request asks for.
    pub fn version_of(&self, request: &Request) -> Option<&Version> {
        self.versions.get(request.version).filter(|v| v.hash != 0)
    }

    /// The version entry of an index of DT_VERSYM.
    pub fn version(&self, index: u16) -> Option<&Version> {
        self.versions.get(index)
    }

    /// DT_VERSYM of a symbol; `None` where the object has no versions.
    pub fn versym(&self, symbol: u32) -> Option<u16> {
        if self.versym.is_empty() {
            return None;
        }
        let at = usize::try_from(symbol).ok()?.checked_mul(2)?;
        let raw = self.part(self.versym).get(at..).and_then(|r| r.first_chunk::<2>()).copied().unwrap_or([0; 2]);
        Some(if self.little { u16::from_le_bytes(raw) } else { u16::from_be_bytes(raw) })
    }

    /// Notes the reading of one word of a filter, where the table stands that has none.
    #[inline]
    pub(super) fn reads_filter(&self, reader: Reader<'_>) {
        reader.read(self.symbols.start, 0, 8);
    }

    /// Notes the reading of a symbol.
    #[inline]
    pub(super) fn reads_symbol(&self, reader: Reader<'_>, index: u32) {
        let size: usize = if self.is_64 { 24 } else { 16 };
        reader.read(self.symbols.start, (index as usize).saturating_mul(size), size);
    }

    /// Notes the reading of a name, up to its NUL.
    #[inline]
    pub(super) fn reads_name(&self, reader: Reader<'_>, offset: u32, len: usize) {
        reader.read(self.strings.start, offset as usize, len.saturating_add(1));
    }

    /// Notes the reading of an entry of DT_VERSYM.
    #[inline]
    pub(super) fn reads_versym(&self, reader: Reader<'_>, index: u32) {
        if !self.versym.is_empty() {
            reader.read(self.versym.start, (index as usize).saturating_mul(2), 2);
        }
    }

    #[inline]
    pub(super) fn u32_in(&self, bytes: &[u8], at: usize) -> Option<u32> {
        let raw = *bytes.get(at..)?.first_chunk::<4>()?;
        Some(if self.little { u32::from_le_bytes(raw) } else { u32::from_be_bytes(raw) })
    }

    #[inline]
    pub(super) fn u64_in(&self, bytes: &[u8], at: usize) -> Option<u64> {
        let raw = *bytes.get(at..)?.first_chunk::<8>()?;
        Some(if self.little { u64::from_le_bytes(raw) } else { u64::from_be_bytes(raw) })
    }

    /// The look-ups of its relocations. `got_apart`: the loader is a glibc that keeps GLOB_DAT's class apart.
    pub fn requests(&self, got_apart: bool) -> &RequestSet {
        let [together, apart] = &self.requests;
        let slot = if got_apart { apart } else { together };
        slot.get_or_init(|| match Image::parse(self.data()) {
            Ok(image) => self.list_eager(&image, got_apart),
            Err(_) => RequestSet::default(),
        })
    }

    fn list_eager(&self, image: &Image<'_>, got_apart: bool) -> RequestSet {
        let classes = Classes::of(image);
        let tables = Tables::of(image);
        // What the tags count is taken for relative without a look.
        let rel = tables.rel.records_after(image.dynamic_value(elf::DT_RELCOUNT).unwrap_or(0));
        let rela = tables.rela.records_after(image.dynamic_value(elf::DT_RELACOUNT).unwrap_or(0));
        let mut lister = Lister { symbols: self, classes: &classes, got_apart, last: None, out: Requests::default() };
        rel.chain(rela).for_each(|r| lister.add(r));
        RequestSet { eager: lister.out, got_apart, last: lister.last, ..RequestSet::default() }
    }

    /// aarch64 functions whose registers the lazy trampoline would not save are bound at start (STO_AARCH64_VARIANT_PCS in
    /// `elf_machine_lazy_rel`).
    fn has_variant_call(&self, record: &Relocation) -> bool {
        self.has_variants && self.symbol(record.symbol).is_some_and(|s| s.other & 0x80 != 0)
    }

    fn list_plt(&self, set: &RequestSet, now: bool) -> Requests {
        let Ok(image) = Image::parse(self.data()) else { return Requests::default() };
        let classes = Classes::of(&image);
        let is_bound =
            |r: &Relocation| now || classes.class(r.kind, r.symbol) == Class::Tls || self.has_variant_call(r);
        let out = Requests::default();
        let mut lister = Lister { symbols: self, classes: &classes, got_apart: set.got_apart, last: set.last, out };
        Tables::of(&image).plt.records().filter(is_bound).for_each(|r| lister.add(r));
        lister.out
    }
}

/// Turns relocations into look-ups.
struct Lister<'a> {
    symbols: &'a Symbols,
    classes: &'a Classes,
    got_apart: bool,
    last: Option<(u32, TypeClass)>,
    out: Requests,
}

impl Lister<'_> {
    fn add(&mut self, record: Relocation) {
        let class = match self.classes.class(record.kind, record.symbol) {
            Class::None | Class::Relative => return,
            Class::JumpSlot | Class::Tls => TypeClass::Plt,
            Class::Copy => TypeClass::Copy,
            Class::GlobDat if self.got_apart => TypeClass::AnyByGot,
            _ => TypeClass::Any,
        };
        // Symbol 0 is local: no look-up.
        if record.symbol == 0 {
            return;
        }
        if self.last == Some((record.symbol, class)) {
            self.out.cached = self.out.cached.saturating_add(1);
            if let Some(request) = self.out.list.last_mut() {
                request.uses = request.uses.saturating_add(1);
            }
            return;
        }
        let Some(symbol) = self.symbols.symbol(record.symbol) else { return };
        if symbol.binding() == elf::STB_LOCAL.0 || symbol.is_hidden() {
            return;
        }
        self.last = Some((record.symbol, class));
        let strings = self.symbols.part(self.symbols.strings);
        let name = usize::try_from(symbol.name).ok().and_then(|at| strings.get(at..)).unwrap_or(&[]);
        let (gnu, len) = super::hash::gnu_until_nul(name);
        self.out.list.push(Request {
            symbol: record.symbol,
            name: (symbol.name, len),
            gnu,
            version: self.symbols.versym(record.symbol).unwrap_or(0) & 0x7fff,
            class,
            weak: symbol.binding() == elf::STB_WEAK.0,
            protected: symbol.is_protected(),
            uses: 1,
        });
    }
}

/// DT_BIND_NOW, DF_BIND_NOW or DF_1_NOW (`elf_get_dynamic_info`).
fn binds_now(image: &Image<'_>) -> bool {
    image.dynamic_value(elf::DT_BIND_NOW).is_some()
        || image.dynamic_value(elf::DT_FLAGS).unwrap_or(0) & elf::DF_BIND_NOW.0 != 0
        || image.dynamic_value(elf::DT_FLAGS_1).unwrap_or(0) & elf::DF_1_NOW.0 != 0
}
