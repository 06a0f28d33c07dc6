//! What to write: the description of one ELF file with chosen load work.

#![deny(clippy::indexing_slicing, clippy::arithmetic_side_effects, clippy::unwrap_used)]

use super::Target;

/// How relative relocations are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Packing {
    /// Records with addends, or without them where the machine's ABI has none (i386, Arm, MIPS).
    Plain,
    /// DT_RELR.
    Relr,
    /// Android's APS2.
    Android,
}

/// Relative relocations at a regular distance: 8 is dense, 4096 dirties one page each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Relative {
    /// How many.
    pub count: u64,
    /// Bytes from one to the next, at least a word.
    pub stride: u64,
    /// How they are stored.
    pub packing: Packing,
}

/// What a reference to a symbol is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Use {
    /// Its address in data.
    Absolute,
    /// Its address in the global offset table.
    GlobDat,
    /// A function's slot, in DT_JMPREL.
    JumpSlot,
    /// A copy of a library's object of that many bytes.
    Copy(u64),
}

/// A symbol that another file defines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Import {
    /// Its name.
    pub name: Vec<u8>,
    /// What for.
    pub used_as: Use,
    /// Relocations in a row that name it: all but the first are hits of glibc's cache of one entry.
    pub relocations: u64,
}

impl Import {
    /// One reference.
    pub fn new(name: impl Into<Vec<u8>>, used_as: Use) -> Import {
        Import { name: name.into(), used_as, relocations: 1 }
    }
}

/// Hash tables to write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hash {
    /// DT_GNU_HASH.
    Gnu,
    /// DT_HASH.
    Sysv,
    /// Both.
    Both,
}

/// The description of one file. Start from [`Recipe::program`] or [`Recipe::library`] and change what matters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recipe {
    /// Machine, class and byte order.
    pub target: Target,
    /// ET_DYN, or else ET_EXEC at a fixed address.
    pub position_independent: bool,
    /// PT_INTERP.
    pub interp: Option<Vec<u8>>,
    /// DT_SONAME.
    pub soname: Option<Vec<u8>>,
    /// DT_NEEDED.
    pub needed: Vec<Vec<u8>>,
    /// DT_RUNPATH.
    pub runpath: Option<Vec<u8>>,
    /// DT_RPATH.
    pub rpath: Option<Vec<u8>>,
    /// DT_FLAGS; 0 for no tag.
    pub flags: u64,
    /// DT_FLAGS_1; 0 for no tag.
    pub flags_1: u64,
    /// Relative relocations.
    pub relative: Option<Relative>,
    /// Symbols of others.
    pub imports: Vec<Import>,
    /// Their relocations take turns, so that glibc's cache of one entry never helps.
    pub in_turns: bool,
    /// Relocations whose address comes from a resolver function.
    pub irelative: u64,
    /// Names of functions that this file defines; each only returns.
    pub exports: Vec<Vec<u8>>,
    /// Hash tables.
    pub hash: Hash,
    /// (library, version) pairs of DT_VERNEED.
    pub versions: Vec<(Vec<u8>, Vec<u8>)>,
    /// Entries of DT_INIT_ARRAY, each a function that only returns. In a position independent file each takes a
    /// relative relocation of its own, in plain records.
    pub constructors: u64,
    /// Zeros behind the data that take no room in the file.
    pub bss_bytes: u64,
    /// Size of PT_TLS.
    pub tls_bytes: u64,
    /// PT_LOAD segments beyond the three that the file needs, of one page each.
    pub extra_segments: u64,
    /// Whether PT_GNU_RELRO covers dynamic table, init array and global offset table.
    pub relro: bool,
}

impl Recipe {
    /// A position independent program with nothing to relocate, that calls `exit_group(0)`.
    pub fn program(target: Target) -> Recipe {
        Recipe {
            target,
            position_independent: true,
            interp: None,
            soname: None,
            needed: Vec::new(),
            runpath: None,
            rpath: None,
            flags: 0,
            flags_1: object::elf::DF_1_PIE.0,
            relative: None,
            imports: Vec::new(),
            in_turns: false,
            irelative: 0,
            exports: Vec::new(),
            hash: Hash::Gnu,
            versions: Vec::new(),
            constructors: 0,
            bss_bytes: 0,
            tls_bytes: 0,
            extra_segments: 0,
            relro: true,
        }
    }

    /// A shared library.
    pub fn library(target: Target, soname: impl Into<Vec<u8>>) -> Recipe {
        Recipe { soname: Some(soname.into()), flags_1: 0, ..Recipe::program(target) }
    }

    /// The file's bytes. The same recipe gives the same bytes on every host.
    pub fn build(&self) -> Vec<u8> {
        super::build::build(self)
    }
}
