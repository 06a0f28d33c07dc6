//! The tables that a recipe asks for: symbols, hashes, versions, relocations, DT_*.

#![deny(clippy::indexing_slicing, clippy::arithmetic_side_effects, clippy::unwrap_used)]

use object::elf::{self, DynamicTag};

use super::build::{Builder, GOT_HEADER, Places, RETURN_AT, Tables};
use super::bytes::Bytes;
use super::hash::{gnu_table, sysv_hash, sysv_table};
use super::recipe::{Hash, Packing, Relative, Use};

/// A symbol of the dynamic table.
struct Symbol {
    name: Vec<u8>,
    /// 0 for undefined ones.
    value: u64,
    size: u64,
    kind: u8,
}

/// A relocation record.
#[derive(Clone, Copy)]
struct Record {
    offset: u64,
    kind: u32,
    symbol: u32,
    addend: u64,
}

impl Builder<'_> {
    fn symbols(&self, places: &Places) -> Vec<Symbol> {
        let mut all = vec![Symbol { name: Vec::new(), value: 0, size: 0, kind: 0 }];
        let undefined = |name: &Vec<u8>| Symbol { name: name.clone(), value: 0, size: 0, kind: 0 };
        all.extend(self.undefined.iter().map(undefined));
        let function = places.text.saturating_add(RETURN_AT);
        let copies = self.copies(places);
        for name in &self.defined {
            all.push(match copies.iter().find(|(copied, ..)| copied == name) {
                Some((_, value, size)) => {
                    Symbol { name: name.clone(), value: *value, size: *size, kind: elf::STT_OBJECT.0 }
                }
                None => Symbol { name: name.clone(), value: function, size: 4, kind: elf::STT_FUNC.0 },
            });
        }
        all
    }

    /// Name, address and size of each copied object.
    fn copies(&self, places: &Places) -> Vec<(Vec<u8>, u64, u64)> {
        let mut at = places.copies;
        let mut all = Vec::new();
        for import in &self.recipe.imports {
            if let Use::Copy(size) = import.used_as {
                all.push((import.name.clone(), at, size));
                at = at.saturating_add(size.next_multiple_of(64));
            }
        }
        all
    }

    fn symbol_index(&self, name: &[u8]) -> u32 {
        self.indexes.get(name).copied().unwrap_or(0)
    }

    fn relative_addresses(&self, places: &Places) -> Vec<u64> {
        let Some(relative) = self.recipe.relative else { return Vec::new() };
        let stride = self.stride(relative);
        (0..relative.count).map(|i| places.data.saturating_add(i.saturating_mul(stride))).collect()
    }

    /// Records of DT_REL(A), relative ones first, and how many those are.
    fn main_records(&self, places: &Places) -> (Vec<Record>, u64) {
        let function = places.text.saturating_add(RETURN_AT);
        let relative = |offset| Record { offset, kind: self.types.relative, symbol: 0, addend: function };
        let mut records: Vec<Record> = Vec::new();
        if self.recipe.relative.is_some_and(|r| r.packing == Packing::Plain) {
            records.extend(self.relative_addresses(places).into_iter().map(relative));
        }
        if self.recipe.position_independent {
            let entry = |i| places.init_array.saturating_add(self.words(i));
            records.extend((0..self.recipe.constructors).map(|i| relative(entry(i))));
        }
        let relative_count = records.len() as u64;
        let mut slot = places.got;
        for (kind, symbol) in self.named() {
            records.push(Record { offset: slot, kind, symbol, addend: 0 });
            slot = slot.saturating_add(self.target.word());
        }
        for (name, offset, _) in self.copies(places) {
            records.push(Record { offset, kind: self.types.copy, symbol: self.symbol_index(&name), addend: 0 });
        }
        for _ in 0..self.recipe.irelative {
            records.push(Record { offset: slot, kind: self.types.irelative, symbol: 0, addend: function });
            slot = slot.saturating_add(self.target.word());
        }
        (records, relative_count)
    }

    /// Type and symbol of each relocation outside the PLT that names one, in order.
    fn named(&self) -> Vec<(u32, u32)> {
        let mut named: Vec<(u64, u32, u32)> = Vec::new();
        for import in &self.recipe.imports {
            let kind = match import.used_as {
                Use::Absolute => self.types.absolute,
                Use::GlobDat => self.types.glob_dat,
                Use::JumpSlot | Use::Copy(_) => continue,
            };
            let symbol = self.symbol_index(&import.name);
            named.extend((0..import.relocations).map(|turn| (turn, kind, symbol)));
        }
        if self.recipe.in_turns {
            named.sort_by_key(|(turn, ..)| *turn);
        }
        named.into_iter().map(|(_, kind, symbol)| (kind, symbol)).collect()
    }

    fn plt_records(&self, places: &Places) -> Vec<Record> {
        let mut slot = places.plt_got.saturating_add(self.words(GOT_HEADER));
        let mut records = Vec::new();
        for import in self.recipe.imports.iter().filter(|i| i.used_as == Use::JumpSlot) {
            let symbol = self.symbol_index(&import.name);
            for _ in 0..import.relocations {
                records.push(Record { offset: slot, kind: self.types.jump_slot, symbol, addend: 0 });
                slot = slot.saturating_add(self.target.word());
            }
        }
        records
    }

    fn record_bytes(&self, records: &[Record]) -> Vec<u8> {
        let mut out = Bytes::new(self.target);
        for r in records {
            out.word(r.offset);
            out.word(self.info(r));
            if !self.target.uses_rel() {
                out.word(r.addend);
            }
        }
        out.out
    }

    fn info(&self, r: &Record) -> u64 {
        let (symbol, kind) = (u64::from(r.symbol), u64::from(r.kind));
        let mips64el = self.target.is_64 && !self.target.big_endian && self.target.machine == elf::EM_MIPS.0;
        match self.target.is_64 {
            // A 32-bit symbol, then the types byte by byte with the first one last.
            true if mips64el => symbol | (u64::from(r.kind.swap_bytes()) << 32),
            true => (symbol << 32) | kind,
            false => (symbol << 8) | kind,
        }
    }

    /// DT_RELR of evenly spaced addresses: each address that the last bitmap does not reach starts anew.
    fn relr_bytes(&self, addresses: &[u64]) -> Vec<u8> {
        let word = self.target.word();
        let bits = word.saturating_mul(8).saturating_sub(1);
        let mut out = Bytes::new(self.target);
        let mut left = addresses.iter().copied().peekable();
        while let Some(first) = left.next() {
            out.word(first);
            let mut base = first.saturating_add(word);
            loop {
                let mut bitmap = 0u64;
                while let Some(next) = left.peek() {
                    let bit = next.saturating_sub(base).checked_div(word).unwrap_or(0);
                    if bit >= bits || !next.saturating_sub(base).is_multiple_of(word) {
                        break;
                    }
                    bitmap |= 2u64.wrapping_shl(bit as u32);
                    left.next();
                }
                if bitmap == 0 {
                    break;
                }
                out.word(bitmap | 1);
                base = base.saturating_add(bits.saturating_mul(word));
            }
        }
        out.out
    }

    /// Android's APS2 of evenly spaced addresses: one group that shares type, distance and addend.
    fn android_bytes(&self, places: &Places, relative: Relative) -> Vec<u8> {
        let stride = self.stride(relative);
        let record = Record { offset: 0, kind: self.types.relative, symbol: 0, addend: 0 };
        let has_addend = !self.target.uses_rel();
        let mut out = b"APS2".to_vec();
        // The first delta is added before the first record.
        let before = places.data.wrapping_sub(stride);
        let flags = if has_addend { 0b1111 } else { 0b0011 };
        for n in [relative.count, before, relative.count, flags, stride, self.info(&record)] {
            sleb128(&mut out, n as i64);
        }
        if has_addend {
            sleb128(&mut out, places.text.saturating_add(RETURN_AT) as i64);
        }
        out
    }

    /// The read-only segment after the headers.
    pub(super) fn tables(&self, places: &Places) -> Tables {
        let mut t = Tables { bytes: Bytes::new(self.target), interp: None, tags: Vec::new() };
        t.bytes.pad_to(self.headers_size());
        if let Some(path) = &self.recipe.interp {
            let mut path = path.clone();
            path.push(0);
            t.interp = Some((t.bytes.len(), path.len() as u64));
            t.bytes.raw(&path);
        }
        self.symbol_tables(places, &mut t);
        self.relocation_tables(places, &mut t);
        t
    }

    /// Appends a table at an aligned address and names it with a tag.
    fn table(&self, places: &Places, t: &mut Tables, tag: DynamicTag, bytes: &[u8]) {
        t.bytes.align(8);
        t.tags.push((tag, places.base.saturating_add(t.bytes.len())));
        t.bytes.raw(bytes);
    }

    fn symbol_tables(&self, places: &Places, t: &mut Tables) {
        let symbols = self.symbols(places);
        let mut strings = Strings::default();
        let mut raw = Bytes::new(self.target);
        for symbol in &symbols {
            self.symbol(&mut raw, symbol, strings.add(&symbol.name));
        }
        let recipe = self.recipe;
        let names =
            [(elf::DT_SONAME, &recipe.soname), (elf::DT_RPATH, &recipe.rpath), (elf::DT_RUNPATH, &recipe.runpath)];
        t.tags.extend(recipe.needed.iter().map(|name| (elf::DT_NEEDED, strings.add(name))));
        t.tags.extend(names.iter().filter_map(|(tag, name)| name.as_ref().map(|name| (*tag, strings.add(name)))));
        if recipe.hash != Hash::Sysv {
            let first = (self.undefined.len() as u32).saturating_add(1);
            let table = gnu_table(self.target, first, &self.defined);
            self.table(places, t, elf::DT_GNU_HASH, &table);
        }
        if recipe.hash != Hash::Gnu {
            let names: Vec<Vec<u8>> = symbols.iter().map(|s| s.name.clone()).collect();
            self.table(places, t, elf::DT_HASH, &sysv_table(self.target, &names));
        }
        self.table(places, t, elf::DT_SYMTAB, &raw.out);
        t.tags.push((elf::DT_SYMENT, if self.target.is_64 { 24 } else { 16 }));
        self.version_tables(places, t, symbols.len(), &mut strings);
        self.table(places, t, elf::DT_STRTAB, &strings.bytes);
        t.tags.push((elf::DT_STRSZ, strings.bytes.len() as u64));
    }

    fn symbol(&self, out: &mut Bytes, symbol: &Symbol, name: u64) {
        let info = if name == 0 { 0 } else { (elf::STB_GLOBAL.0 << 4) | symbol.kind };
        // Loaders only ask whether the section is 0.
        let section = u16::from(symbol.value != 0);
        out.u32(name as u32);
        if self.target.is_64 {
            out.raw(&[info, 0]);
            out.u16(section);
            out.word(symbol.value);
            out.word(symbol.size);
        } else {
            out.word(symbol.value);
            out.word(symbol.size);
            out.raw(&[info, 0]);
            out.u16(section);
        }
    }

    /// DT_VERNEED with one entry a library, and DT_VERSYM in which every symbol is unversioned.
    fn version_tables(&self, places: &Places, t: &mut Tables, symbols: usize, strings: &mut Strings) {
        let versions = &self.recipe.versions;
        let mut libraries: Vec<&Vec<u8>> = versions.iter().map(|(library, _)| library).collect();
        libraries.dedup();
        if libraries.is_empty() {
            return;
        }
        let mut versym = Bytes::new(self.target);
        versym.u16(0);
        (1..symbols).for_each(|_| versym.u16(1));
        self.table(places, t, elf::DT_VERSYM, &versym.out);
        let mut verneed = Bytes::new(self.target);
        let mut index = 2u16;
        for (i, library) in libraries.iter().enumerate() {
            let own: Vec<&Vec<u8>> = versions.iter().filter(|(l, _)| l == *library).map(|(_, v)| v).collect();
            let last = i.saturating_add(1) == libraries.len();
            verneed.u16(1);
            verneed.u16(own.len() as u16);
            verneed.u32(strings.add(library) as u32);
            verneed.u32(16);
            verneed.u32(if last { 0 } else { (own.len() as u32).saturating_mul(16).saturating_add(16) });
            for (j, version) in own.iter().enumerate() {
                verneed.u32(sysv_hash(version));
                verneed.u16(0);
                verneed.u16(index);
                verneed.u32(strings.add(version) as u32);
                verneed.u32(if j.saturating_add(1) == own.len() { 0 } else { 16 });
                index = index.saturating_add(1);
            }
        }
        self.table(places, t, elf::DT_VERNEED, &verneed.out);
        t.tags.push((elf::DT_VERNEEDNUM, libraries.len() as u64));
    }

    fn relocation_tables(&self, places: &Places, t: &mut Tables) {
        let rel = self.target.uses_rel();
        let record = self.words(if rel { 2 } else { 3 });
        let (main, relative_count) = self.main_records(places);
        let (tag, size, entry, count) = match rel {
            true => (elf::DT_REL, elf::DT_RELSZ, elf::DT_RELENT, elf::DT_RELCOUNT),
            false => (elf::DT_RELA, elf::DT_RELASZ, elf::DT_RELAENT, elf::DT_RELACOUNT),
        };
        if !main.is_empty() {
            let bytes = self.record_bytes(&main);
            self.table(places, t, tag, &bytes);
            t.tags.extend([(size, bytes.len() as u64), (entry, record)]);
        }
        if relative_count > 0 && self.target.machine != elf::EM_MIPS.0 {
            t.tags.push((count, relative_count));
        }
        let plt = self.plt_records(places);
        if !plt.is_empty() {
            let bytes = self.record_bytes(&plt);
            self.table(places, t, elf::DT_JMPREL, &bytes);
            t.tags.extend([(elf::DT_PLTRELSZ, bytes.len() as u64), (elf::DT_PLTREL, tag.0 as u64)]);
            t.tags.push((elf::DT_PLTGOT, places.plt_got));
        }
        match self.recipe.relative {
            Some(r) if r.packing == Packing::Relr => {
                let bytes = self.relr_bytes(&self.relative_addresses(places));
                self.table(places, t, elf::DT_RELR, &bytes);
                t.tags.extend([(elf::DT_RELRSZ, bytes.len() as u64), (elf::DT_RELRENT, self.target.word())]);
            }
            Some(r) if r.packing == Packing::Android => {
                let bytes = self.android_bytes(places, r);
                let (tag, size) = match rel {
                    true => (elf::DT_ANDROID_REL, elf::DT_ANDROID_RELSZ),
                    false => (elf::DT_ANDROID_RELA, elf::DT_ANDROID_RELASZ),
                };
                self.table(places, t, tag, &bytes);
                t.tags.push((size, bytes.len() as u64));
            }
            _ => {}
        }
    }

    pub(super) fn dynamic_bytes(&self, places: &Places, tables: &Tables) -> Vec<u8> {
        let mut tags = tables.tags.clone();
        let recipe = self.recipe;
        if recipe.constructors > 0 {
            tags.push((elf::DT_INIT_ARRAY, places.init_array));
            tags.push((elf::DT_INIT_ARRAYSZ, self.words(recipe.constructors)));
        }
        let flags = [(elf::DT_FLAGS, recipe.flags), (elf::DT_FLAGS_1, recipe.flags_1)];
        tags.extend(flags.into_iter().filter(|(_, value)| *value != 0));
        if recipe.soname.is_none() {
            tags.push((elf::DT_DEBUG, 0));
        }
        let mut out = Bytes::new(self.target);
        for (tag, value) in tags {
            out.word(tag.0 as u64);
            out.word(value);
        }
        out.out
    }
}

/// A string table in which each name stands once.
struct Strings {
    bytes: Vec<u8>,
    known: std::collections::HashMap<Vec<u8>, u64>,
}

impl Default for Strings {
    fn default() -> Strings {
        Strings { bytes: vec![0], known: std::collections::HashMap::from([(Vec::new(), 0)]) }
    }
}

impl Strings {
    fn add(&mut self, name: &[u8]) -> u64 {
        if let Some(at) = self.known.get(name) {
            return *at;
        }
        let at = self.bytes.len() as u64;
        self.bytes.extend_from_slice(name);
        self.bytes.push(0);
        self.known.insert(name.to_vec(), at);
        at
    }
}

fn sleb128(out: &mut Vec<u8>, mut n: i64) {
    loop {
        let byte = (n & 0x7f) as u8;
        n >>= 7;
        let done = (n == 0 && byte & 0x40 == 0) || (n == -1 && byte & 0x40 != 0);
        out.push(if done { byte } else { byte | 0x80 });
        if done {
            return;
        }
    }
}
