//! Where in a file the marked places are: entry point, `main`, the loader's rendezvous function, `_exit`.
//!
//! From .symtab where it was not stripped, and from the dynamic symbol table. Refuses nothing: a place that is not
//! found is absent. The hard part is that both tables may lie; all reads are checked.

#![deny(clippy::indexing_slicing, clippy::arithmetic_side_effects, clippy::unwrap_used)]

use std::collections::HashMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use object::Endianness;
use object::elf;
use object::read::elf::{FileHeader, Sym};

use crate::elf::image::{Image, Segment, until_nul};

/// What tracing needs to know of one file. Addresses are those of the file, before the load address is added.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Located {
    /// Entry point.
    pub entry: u64,
    /// Position independent (ET_DYN).
    pub movable: bool,
    /// 64 bit.
    pub is_64: bool,
    /// The loader that the kernel maps with it.
    pub interp: Option<PathBuf>,
    /// PT_DYNAMIC is present.
    pub has_dynamic: bool,
    /// PT_LOAD segments.
    pub loads: Vec<Segment>,
    /// `main`.
    pub main: Option<u64>,
    /// `_dl_debug_state`, which both glibc's and musl's loader call.
    pub rendezvous: Option<u64>,
    /// `__libc_start_main`, which is handed `main`.
    pub libc_start_main: Option<u64>,
    /// `_exit`, which calls exit_group.
    pub exit_function: Option<u64>,
    /// DT_INIT.
    pub init: Option<u64>,
    /// DT_INIT_ARRAY, where it holds at least one entry.
    pub init_array: Option<u64>,
}

impl Located {
    /// Reads a file's bytes; `None` where they are no ELF file.
    pub fn read(bytes: &[u8]) -> Option<Located> {
        let image = Image::parse(bytes).ok()?;
        let interp = image.interp().and_then(Result::ok).map(|p| PathBuf::from(OsStr::from_bytes(p)));
        let mut found = Located {
            entry: image.entry(),
            movable: image.file_type() == elf::ET_DYN.0,
            is_64: image.is_64(),
            interp,
            has_dynamic: image.segment(elf::PT_DYNAMIC).is_some(),
            loads: image.loads().to_vec(),
            init: image.dynamic_value(elf::DT_INIT).filter(|at| *at != 0),
            init_array: init_array(&image),
            ..Located::default()
        };
        if image.is_64() {
            full_table(bytes, image.endianness(), &mut found);
        }
        let dynamic = |name: &str| dynamic_symbol(&image, name);
        found.rendezvous = found.rendezvous.or_else(|| dynamic("_dl_debug_state"));
        found.libc_start_main = found.libc_start_main.or_else(|| dynamic("__libc_start_main"));
        found.exit_function = found.exit_function.or_else(|| dynamic("_exit"));
        found.main = found.main.or_else(|| dynamic("main"));
        Some(found)
    }

    /// The file offset of an address.
    pub fn offset_of(&self, vaddr: u64) -> Option<u64> {
        let s = self.loads.iter().rfind(|s| s.contains(vaddr))?;
        let into = vaddr.checked_sub(s.vaddr).filter(|into| *into < s.filesz)?;
        s.offset.checked_add(into)
    }

    /// The address of a file offset.
    pub fn vaddr_of(&self, offset: u64) -> Option<u64> {
        let inside = |s: &&Segment| offset.checked_sub(s.offset).is_some_and(|into| into < s.filesz);
        let s = self.loads.iter().find(|s| s.is_executable() && inside(s)).or(self.loads.iter().find(inside))?;
        s.vaddr.checked_add(offset.checked_sub(s.offset)?)
    }
}

fn init_array(image: &Image<'_>) -> Option<u64> {
    let size = image.dynamic_value(elf::DT_INIT_ARRAYSZ)?;
    image.dynamic_value(elf::DT_INIT_ARRAY).filter(|_| size >= image.word_size())
}

/// .symtab, where there is one. One pass, since a large program has hundreds of thousands of symbols.
fn full_table(bytes: &[u8], endian: Endianness, found: &mut Located) -> Option<()> {
    let header = elf::FileHeader64::<Endianness>::parse(bytes).ok()?;
    let sections = header.sections(endian, bytes).ok()?;
    let table = sections.symbols(endian, bytes, elf::SHT_SYMTAB).ok()?;
    let strings = table.strings();
    for symbol in table.iter() {
        if symbol.st_type() != elf::STT_FUNC || symbol.is_undefined(endian) {
            continue;
        }
        let slot = match symbol.name(endian, strings) {
            Ok(b"main") => &mut found.main,
            Ok(b"_dl_debug_state") => &mut found.rendezvous,
            Ok(b"__libc_start_main") => &mut found.libc_start_main,
            Ok(b"_exit") => &mut found.exit_function,
            _ => continue,
        };
        *slot = Some(symbol.st_value(endian));
    }
    Some(())
}

/// A defined symbol of the dynamic table, found as a loader finds it: by DT_GNU_HASH, else DT_HASH.
fn dynamic_symbol(image: &Image<'_>, name: &str) -> Option<u64> {
    let by_gnu = || gnu_chain(image, name).and_then(|mut chain| chain.find_map(|i| defined(image, i, name)));
    let by_sysv = || sysv_chain(image, name).and_then(|mut chain| chain.find_map(|i| defined(image, i, name)));
    by_gnu().or_else(by_sysv)
}

/// The value of symbol `index`, where it is defined and has this name.
fn defined(image: &Image<'_>, index: u32, name: &str) -> Option<u64> {
    let table = image.from_vaddr(image.dynamic_value(elf::DT_SYMTAB)?)?;
    let index = usize::try_from(index).ok()?;
    // Elf64_Sym: name u32, info u8, other u8, shndx u16, value u64, size u64. Elf32_Sym: name, value, size, info, …
    let (size, shndx_at, value_at) = if image.is_64() { (24, 6, 8) } else { (16, 14, 4) };
    let symbol = table.get(index.checked_mul(size)?..)?.get(..size)?;
    let string = image.string(u64::from(image.u32_in(symbol, 0)?))?;
    let is_defined = image.u16_in(symbol, shndx_at)? != 0;
    if string == name.as_bytes() && is_defined { image.word_in(symbol, value_at) } else { None }
}

/// Indexes of the symbols in this name's bucket. Bounded by the bytes of the table.
fn gnu_chain<'a>(image: &'a Image<'a>, name: &str) -> Option<impl Iterator<Item = u32> + use<'a>> {
    let table = image.from_vaddr(image.dynamic_value(elf::DT_GNU_HASH)?)?;
    let word = move |at: u64| image.u32_in(table, usize::try_from(at.checked_mul(4)?).ok()?);
    let (buckets, first) = (u64::from(word(0)?), u64::from(word(1)?));
    let bloom_words = u64::from(word(2)?).checked_mul(image.word_size().checked_div(4)?)?;
    let buckets_at = bloom_words.checked_add(4)?;
    let hash = name.bytes().fold(5381u32, |h, b| h.wrapping_mul(33).wrapping_add(u32::from(b)));
    let start = word(buckets_at.checked_add(u64::from(hash).checked_rem(buckets)?)?)?;
    let chains_at = buckets_at.checked_add(buckets)?;
    let mut next = Some(u64::from(start)).filter(|s| *s >= first);
    Some(std::iter::from_fn(move || {
        let index = next?;
        let link = word(chains_at.checked_add(index.checked_sub(first)?)?)?;
        // The last of a chain has its lowest bit set.
        next = if link & 1 == 1 { None } else { index.checked_add(1) };
        u32::try_from(index).ok()
    }))
}

/// The same by the older table. A chain that runs in a circle ends after as many steps as there are symbols.
fn sysv_chain<'a>(image: &'a Image<'a>, name: &str) -> Option<impl Iterator<Item = u32> + use<'a>> {
    let table = image.from_vaddr(image.dynamic_value(elf::DT_HASH)?)?;
    let word = move |at: u64| image.u32_in(table, usize::try_from(at.checked_mul(4)?).ok()?);
    let (buckets, symbols) = (u64::from(word(0)?), u64::from(word(1)?));
    let hash = name.bytes().fold(0u32, |h, b| {
        let h = (h << 4).wrapping_add(u32::from(b));
        (h ^ ((h >> 24) & 0xf0)) & 0x0fff_ffff
    });
    let start = word(u64::from(hash).checked_rem(buckets)?.checked_add(2)?)?;
    let chains_at = buckets.checked_add(2)?;
    let steps = usize::try_from(symbols).ok()?.min(table.len());
    let mut next = start;
    let chain = std::iter::from_fn(move || {
        let index = next;
        next = word(chains_at.checked_add(u64::from(index))?).unwrap_or(0);
        (index != 0).then_some(index)
    });
    Some(chain.take(steps))
}

/// Files read once and remembered: a start must not wait while we read a large program again.
#[derive(Debug, Default)]
pub struct Locator {
    known: HashMap<PathBuf, Option<Rc<Located>>>,
    real: HashMap<PathBuf, PathBuf>,
}

impl Locator {
    /// What is known of the file at `path`; `None` where it cannot be read or is no ELF file.
    pub fn file(&mut self, path: &Path) -> Option<Rc<Located>> {
        if let Some(known) = self.known.get(path) {
            return known.clone();
        }
        let bytes = crate::sys::file::open(path).ok();
        let read = bytes.and_then(|bytes| Located::read(bytes.as_ref())).map(Rc::new);
        self.known.insert(path.to_path_buf(), read.clone());
        read
    }

    /// The path without symbolic links, which is how the kernel names files; the path itself where there is none.
    pub fn real(&mut self, path: &Path) -> PathBuf {
        if let Some(real) = self.real.get(path) {
            return real.clone();
        }
        let real = std::fs::canonicalize(path).unwrap_or_else(|_| path.to_path_buf());
        self.real.insert(path.to_path_buf(), real.clone());
        real
    }

    /// Reads a program and its loader ahead of the first start, through up to five `#!` lines (the kernel's limit).
    /// Returns the files on the way: scripts first, the ELF program last.
    pub fn prepare(&mut self, program: &Path) -> Vec<PathBuf> {
        let mut hops = vec![program.to_path_buf()];
        while hops.len() <= 6 {
            let Some(last) = hops.last() else { break };
            match script_interpreter(last) {
                Some(next) => hops.push(next),
                None => break,
            }
        }
        if let Some(found) = hops.last().and_then(|p| self.file(p))
            && let Some(interp) = &found.interp
        {
            self.file(interp);
        }
        hops
    }
}

/// The interpreter that the first line of a script names. Only the first 256 bytes count, as in the kernel.
pub fn script_interpreter(path: &Path) -> Option<PathBuf> {
    use std::io::Read as _;
    // A FIFO or a device would make us wait for bytes that never come.
    if !std::fs::metadata(path).ok()?.is_file() {
        return None;
    }
    let mut head = Vec::with_capacity(256);
    std::fs::File::open(path).ok()?.take(256).read_to_end(&mut head).ok()?;
    let line = head.strip_prefix(b"#!")?.split(|b| *b == b'\n').next()?;
    let line = until_nul(line).unwrap_or(line);
    let name = line.split(|b| matches!(b, b' ' | b'\t' | b'\r')).find(|w| !w.is_empty())?;
    Some(PathBuf::from(OsStr::from_bytes(name)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::elf::synth::{Machine, control};

    #[test]
    fn the_loader_of_this_machine_has_its_rendezvous_function() {
        let mut locator = Locator::default();
        let hops = locator.prepare(Path::new("/bin/true"));
        assert_eq!(hops, [PathBuf::from("/bin/true")]);
        let Some(program) = locator.file(Path::new("/bin/true")) else { return };
        assert!(program.offset_of(program.entry).is_some());
        let Some(interp) = &program.interp else { return };
        let loader = locator.file(interp).unwrap();
        let at = loader.rendezvous.unwrap();
        assert_eq!(loader.vaddr_of(loader.offset_of(at).unwrap()), Some(at));
    }

    #[test]
    fn a_file_without_symbols_has_no_places_but_its_entry() {
        let found = Located::read(&control(Machine::X86_64)).unwrap();
        assert!(found.entry != 0 && !found.movable && found.interp.is_none());
        assert_eq!((found.main, found.rendezvous, found.exit_function), (None, None, None));
        assert_eq!(Located::read(b"#!/bin/sh"), None);
    }

    #[test]
    fn a_script_names_its_interpreter() {
        let dir = std::env::temp_dir().join(format!("premain-locate-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let script = dir.join("s");
        std::fs::write(&script, "#! \t/bin/sh -e\nexit 0\n").unwrap();
        let mut locator = Locator::default();
        assert_eq!(locator.prepare(&script), [script.clone(), PathBuf::from("/bin/sh")]);
        std::fs::write(&script, format!("#!{}\n", script.display())).unwrap();
        assert_eq!(Locator::default().prepare(&script).len(), 7, "a script that names itself ends");
        std::fs::remove_dir_all(&dir).unwrap();
    }
}
