//! One ELF file as a loader needs it, read once and shared by every program that maps it.

#![deny(clippy::indexing_slicing, clippy::arithmetic_side_effects, clippy::unwrap_used)]

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use object::elf;

use super::files::{Bytes, Errno, FileId};
use super::identity::{Identity, identify_file};
use super::symbols::Symbols;
use crate::elf::image::Image;
use crate::facts::LinkFacts;

/// How an object names another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NeedKind {
    /// DT_NEEDED.
    Needed,
    /// DT_AUXILIARY: goes before this object, may be absent.
    Auxiliary,
    /// DT_FILTER: goes before this object.
    Filter,
}

/// One entry of the dynamic table that names another object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Need {
    /// How.
    pub kind: NeedKind,
    /// The name as written.
    pub name: Vec<u8>,
}

/// What of a header decides whether two objects fit into one process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Target {
    /// EI_CLASS: 1 or 2.
    pub class: u8,
    /// EI_DATA: 1 or 2.
    pub data: u8,
    /// EM_*.
    pub machine: u16,
    /// `e_flags`.
    pub e_flags: u32,
}

/// A file that was opened: which it is, and its ELF reading, made when it is first asked for.
pub struct File {
    /// Which file it is.
    pub id: FileId,
    /// Its bytes, or why they cannot be read.
    pub bytes: Result<Bytes, Errno>,
    binary: OnceLock<Result<Binary, String>>,
}

impl File {
    /// Around an opened file.
    pub fn new(id: FileId, bytes: Result<Bytes, Errno>) -> File {
        File { id, bytes, binary: OnceLock::new() }
    }

    /// Its bytes; empty where they cannot be read.
    pub fn data(&self) -> &[u8] {
        self.bytes.as_ref().map_or(&[], |b| b.as_ref().as_ref())
    }

    /// Its ELF reading. `path` is for the facts of the first reader.
    ///
    /// # Errors
    /// Why it cannot be read as ELF.
    pub fn binary(&self, path: &Path) -> Result<&Binary, &str> {
        let read = || match &self.bytes {
            Ok(bytes) => Binary::read(path, bytes),
            Err(e) => Err(format!("cannot read file data: {}", e.text())),
        };
        self.binary.get_or_init(read).as_ref().map_err(String::as_str)
    }
}

/// One ELF file as a loader needs it.
pub struct Binary {
    /// Class, byte order, machine.
    pub target: Target,
    /// ET_*.
    pub file_type: u16,
    /// PT_INTERP.
    pub interp: Option<Vec<u8>>,
    /// What it needs, in order.
    pub needs: Vec<Need>,
    /// DT_SONAME.
    pub soname: Option<Vec<u8>>,
    /// DT_RPATH, which DT_RUNPATH makes void for glibc.
    pub rpath: Option<Vec<u8>>,
    /// DT_RUNPATH.
    pub runpath: Option<Vec<u8>>,
    /// DT_FLAGS_1.
    pub flags_1: u64,
    /// DT_SYMBOLIC or DF_SYMBOLIC: looks into itself first.
    pub symbolic: bool,
    /// DT_RELCOUNT and DT_RELACOUNT as written, where the loader counts them.
    pub relcount: u64,
    /// DT_RELACOUNT as written.
    pub relacount: u64,
    /// It has a dynamic table that can be read.
    pub has_dynamic: bool,
    /// DT_RELR is present.
    pub has_relr: bool,
    /// Why glibc would not map it as a library.
    pub not_a_library: Option<&'static str>,
    path: PathBuf,
    bytes: Bytes,
    facts: OnceLock<Result<LinkFacts, String>>,
    symbols: OnceLock<Symbols>,
    identity: OnceLock<Identity>,
}

impl Binary {
    fn read(path: &Path, bytes: &Bytes) -> Result<Binary, String> {
        let image = Image::parse(bytes.as_ref().as_ref()).map_err(|e| e.to_string())?;
        let string = |tag| image.dynamic_value(tag).and_then(|at| image.string(at)).map(<[u8]>::to_vec);
        let flags = image.dynamic_value(elf::DT_FLAGS).unwrap_or(0);
        let symbolic = image.dynamic_value(elf::DT_SYMBOLIC).is_some() || flags & elf::DF_SYMBOLIC.0 != 0;
        Ok(Binary {
            target: target_of(&image),
            file_type: image.file_type(),
            interp: image.interp().and_then(|i| i.ok().map(<[u8]>::to_vec)),
            needs: needs_of(&image),
            soname: string(elf::DT_SONAME),
            rpath: string(elf::DT_RPATH),
            runpath: string(elf::DT_RUNPATH),
            flags_1: image.dynamic_value(elf::DT_FLAGS_1).unwrap_or(0),
            symbolic,
            relcount: image.dynamic_value(elf::DT_RELCOUNT).unwrap_or(0),
            relacount: image.dynamic_value(elf::DT_RELACOUNT).unwrap_or(0),
            has_dynamic: image.segment(elf::PT_DYNAMIC).is_some() && image.dynamic_fault().is_none(),
            has_relr: image.dynamic_value(elf::DT_RELR).is_some(),
            not_a_library: not_a_library(&image),
            path: path.to_path_buf(),
            bytes: bytes.clone(),
            facts: OnceLock::new(),
            symbols: OnceLock::new(),
            identity: OnceLock::new(),
        })
    }

    /// All bytes of the file.
    pub fn data(&self) -> &[u8] {
        self.bytes.as_ref().as_ref()
    }

    /// What the file says of itself, read when it is first asked for: a pass over all relocations.
    ///
    /// # Errors
    /// Why nothing can be said.
    pub fn facts(&self) -> Result<&LinkFacts, &str> {
        let read = || crate::elf::link_facts(&self.path, self.data()).map_err(|e| e.to_string());
        self.facts.get_or_init(read).as_ref().map_err(String::as_str)
    }

    /// Its symbol tables and the look-ups that its relocations make.
    pub fn symbols(&self) -> &Symbols {
        self.symbols.get_or_init(|| Symbols::read(&self.bytes))
    }

    /// What its strings say, if it is a loader.
    pub fn identity(&self) -> &Identity {
        self.identity.get_or_init(|| identify_file(self.data()))
    }
}

fn target_of(image: &Image<'_>) -> Target {
    Target {
        class: if image.is_64() { 2 } else { 1 },
        data: if image.endian() == crate::facts::Endian::Little { 1 } else { 2 },
        machine: image.machine(),
        e_flags: image.flags(),
    }
}

fn needs_of(image: &Image<'_>) -> Vec<Need> {
    let kinds = [
        (elf::DT_NEEDED, NeedKind::Needed),
        (elf::DT_AUXILIARY, NeedKind::Auxiliary),
        (elf::DT_FILTER, NeedKind::Filter),
    ];
    let need = |(tag, at): &(u64, u64)| {
        let (_, kind) = kinds.iter().find(|(t, _)| t.0 as u64 == *tag)?;
        Some(Need { kind: *kind, name: image.string(*at)?.to_vec() })
    };
    image.dynamic().iter().filter_map(need).collect()
}

/// The checks of `_dl_map_object_from_fd` in `elf/dl-load.c`, in its order. Each of them ends the start.
fn not_a_library(image: &Image<'_>) -> Option<&'static str> {
    // The page size that the check uses is the running machine's; 4096 divides all of them.
    const PAGE: u64 = 4096;
    if image.loads().iter().any(|l| l.vaddr.wrapping_sub(l.offset) & PAGE.wrapping_sub(1) != 0) {
        return Some("ELF load command address/offset not page-aligned");
    }
    if image.loads().is_empty() {
        return Some("object file has no loadable segments");
    }
    if image.file_type() != elf::ET_DYN.0 {
        return Some("cannot dynamically load executable");
    }
    if image.dynamic_fault().is_some() || image.segment(elf::PT_DYNAMIC).is_none() {
        return Some("object file has no dynamic section");
    }
    let flags_1 = image.dynamic_value(elf::DT_FLAGS_1).unwrap_or(0);
    if flags_1 & elf::DF_1_PIE.0 != 0 {
        return Some("cannot dynamically load position-independent executable");
    }
    None
}

/// What a loader makes of the first bytes of a file that it opened for a library.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// Maps it.
    Use,
    /// Looks on.
    Skip(String),
    /// Ends the start.
    Fatal(String),
}

/// `open_verify` in `elf/dl-load.c`: which files glibc passes over, and which end the start.
pub fn glibc_verdict(data: &[u8], target: Target) -> Verdict {
    let little = target.data == 1;
    let u16_at = |at: usize| {
        let raw = data.get(at..).and_then(|d| d.first_chunk::<2>()).copied().unwrap_or([0; 2]);
        if little { u16::from_le_bytes(raw) } else { u16::from_be_bytes(raw) }
    };
    let u32_at = |at: usize| {
        let raw = data.get(at..).and_then(|d| d.first_chunk::<4>()).copied().unwrap_or([0; 4]);
        if little { u32::from_le_bytes(raw) } else { u32::from_be_bytes(raw) }
    };
    let byte = |at: usize| data.get(at).copied().unwrap_or(0);
    let fatal = |text: &str| Verdict::Fatal(text.to_string());
    let (header, phentsize_at, phentsize) = if target.class == 2 { (64, 54, 56) } else { (52, 42, 32) };
    if data.len() < header {
        return fatal("file too short");
    }
    if !data.starts_with(&elf::ELFMAG) {
        return fatal("invalid ELF header");
    }
    if byte(4) != target.class {
        return Verdict::Skip(format!("wrong ELF class: {} bit", if byte(4) == 1 { "32" } else { "64" }));
    }
    // Debian's loader asks for the machine before the byte order; where they differ, both differ.
    if u16_at(18) != target.machine {
        return Verdict::Skip("for another machine".to_string());
    }
    if byte(5) != target.data {
        return fatal("ELF file data encoding is the other one");
    }
    if byte(6) != 1 {
        return fatal("ELF file version ident does not match current one");
    }
    let (abi, abi_version) = (byte(7), byte(8));
    if abi != elf::ELFOSABI_SYSV.0 && abi != elf::ELFOSABI_GNU.0 {
        return fatal("ELF file OS ABI invalid");
    }
    if abi_version != 0 && abi != elf::ELFOSABI_GNU.0 {
        return fatal("ELF file ABI version invalid");
    }
    if data.get(9..16).is_some_and(|pad| pad.iter().any(|b| *b != 0)) {
        return fatal("nonzero padding in e_ident");
    }
    if u32_at(20) != 1 {
        return fatal("ELF file version does not match current one");
    }
    if !matches!(u16_at(16), 2 | 3) {
        return fatal("only ET_DYN and ET_EXEC can be loaded");
    }
    if u16_at(phentsize_at) != phentsize {
        return fatal("ELF file's phentsize not the expected size");
    }
    Verdict::Use
}

#[cfg(test)]
mod tests {
    use super::*;

    const X86: Target = Target { class: 2, data: 1, machine: 62, e_flags: 0 };

    fn header() -> Vec<u8> {
        let mut h = vec![0u8; 64];
        h[..7].copy_from_slice(b"\x7fELF\x02\x01\x01");
        h[16] = 3;
        h[18] = 62;
        h[20] = 1;
        h[54] = 56;
        h
    }

    #[test]
    fn what_is_passed_over_and_what_is_fatal() {
        assert_eq!(glibc_verdict(&header(), X86), Verdict::Use);
        assert_eq!(glibc_verdict(&header()[..63], X86), Verdict::Fatal("file too short".into()));
        let with = |at: usize, byte: u8| {
            let mut h = header();
            h[at] = byte;
            glibc_verdict(&h, X86)
        };
        assert!(matches!(with(4, 1), Verdict::Skip(_)));
        assert!(matches!(with(18, 3), Verdict::Skip(_)));
        assert_eq!(with(7, 3), Verdict::Use);
        for (at, byte) in [(0, 0), (5, 2), (6, 0), (7, 9), (9, 1), (16, 1), (20, 2), (54, 55)] {
            assert!(matches!(with(at, byte), Verdict::Fatal(_)), "byte {at}");
        }
    }
}
