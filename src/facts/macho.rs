//! What only Mach-O has, for the `macho {}` block beside the fields that it shares with ELF.

use std::ffi::OsString;

use super::Fact;

/// Facts of one Mach-O image that have no place in the common fields.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct MachoFacts {
    /// Apple's word for the machine: `x86_64`, `x86_64h`, `arm64`, `arm64e`, `arm64_32`, `i386`, `armv7`, …
    pub cpu: String,
    /// `execute`, `dylib`, `bundle`, `dylinker`, `object`, `dsym`, `kext`, `core`, … from the header.
    pub file_type: &'static str,
    /// Place of this image in a universal file; absent for a thin one.
    pub slice: Option<MachoSlice>,
    /// Platforms that it was built for, each with its minimum version (a zippered library names two).
    pub platforms: Vec<MachoPlatform>,
    /// Linked libraries in the order of their load commands, which is the order of their ordinals.
    pub dylibs: Vec<MachoDylib>,
    /// How it is entered: `main` (LC_MAIN), `thread` (LC_UNIXTHREAD); absent in libraries.
    pub entry: Option<&'static str>,
    /// What the dynamic linker has to write.
    pub fixups: MachoFixups,
    /// Segments in order, with the fixups that each holds.
    pub segments: Vec<MachoSegment>,
    /// What runs before `main`.
    pub init: MachoInit,
    /// The trie of exported symbols.
    pub exports: Fact<MachoExports>,
    /// MH_WEAK_DEFINES: it defines symbols that are coalesced over all images.
    pub weak_defines: bool,
    /// MH_BINDS_TO_WEAK: it uses such symbols. Every one is looked up in every image that takes part.
    pub binds_to_weak: bool,
    /// MH_FORCE_FLAT or no MH_TWOLEVEL: symbols are searched in all images, not in the named one.
    pub flat_namespace: bool,
    /// LC_CODE_SIGNATURE.
    pub signature: Fact<MachoSignature>,
    /// LC_ENCRYPTION_INFO.
    pub encryption: Option<MachoEncryption>,
    /// LC_UUID in the usual hexadecimal form.
    pub uuid: Option<String>,
    /// What a reader of the figures should know about how far they hold.
    pub notes: Vec<String>,
}

/// One entry of a universal file's table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MachoSlice {
    /// Position in the table, from 0.
    pub index: u64,
    /// Slices in the file, hidden ones too.
    pub of: u64,
    /// Where it begins in the file, in bytes.
    pub offset: u64,
    /// Its size in bytes.
    pub size_bytes: u64,
    /// Its alignment in bytes; absent where the table's power of two does not fit 64 bits.
    pub align_bytes: Option<u64>,
    /// It stands behind the counted entries, where older systems do not look (an arm64 slice may).
    pub hidden: bool,
}

/// LC_BUILD_VERSION or LC_VERSION_MIN_*.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MachoPlatform {
    /// `macos`, `ios`, `ios-simulator`, `mac-catalyst`, … or `platform 99` where the number is not known.
    pub name: String,
    /// Oldest system that it runs on: `12.0`, `10.15.4`.
    pub min_version: String,
    /// SDK that it was built with.
    pub sdk: String,
}

/// One linked library with its attributes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MachoDylib {
    /// Install name.
    pub name: OsString,
    /// It may be absent.
    pub weak: bool,
    /// Its symbols are handed on as this image's own.
    pub reexport: bool,
    /// It depends on this image (a cycle that the linker was told of).
    pub upward: bool,
    /// Loaded when first used (LC_LAZY_LOAD_DYLIB).
    pub lazy: bool,
    /// Its initialisers wait until it is needed (dylib_use_command).
    pub delayed_init: bool,
    /// Version at link time.
    pub current_version: String,
    /// Oldest version that serves.
    pub compatibility_version: String,
}

/// How fixups are stored and how many there are.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct MachoFixups {
    /// `chained`, `opcodes`, `relocations` (before LC_DYLD_INFO), or `none`.
    pub format: &'static str,
    /// Chained pointer formats in use: `64`, `64_offset`, `arm64e_userland24`, …
    pub pointer_formats: Vec<String>,
    /// Pointers into the image itself: the load address is added.
    pub rebases: u64,
    /// Pointers to symbols that are written at start. With chained fixups this includes `weak_binds`.
    pub binds: u64,
    /// Pointers to functions that may be written at first use (only with opcodes).
    pub lazy_binds: u64,
    /// Pointers to symbols that are coalesced over all images. With opcodes they have a stream of their own,
    /// and their places are also among the rebases or binds.
    pub weak_binds: u64,
    /// Of rebases and binds, those that are signed (arm64e).
    pub authenticated: u64,
    /// Distinct symbols (library and name) that start-up binds look up.
    pub symbols: u64,
    /// Distinct symbols of the lazy binds.
    pub lazy_symbols: u64,
    /// Of `symbols`, those that may be missing.
    pub weak_imports: u64,
    /// Distinct 4 KiB pages that rebases, binds and weak binds write.
    pub pages_4k: u64,
    /// Distinct 16 KiB pages.
    pub pages_16k: u64,
    /// The kernel may apply them page by page when a page is first touched, so that `pages_*` are upper bounds.
    pub page_in_linking: bool,
    /// Bytes of the tables that hold them.
    pub table_bytes: u64,
}

/// One segment.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct MachoSegment {
    /// `__TEXT`, `__DATA_CONST`, …
    pub name: String,
    /// Size in memory.
    pub vm_bytes: u64,
    /// Size in the file.
    pub file_bytes: u64,
    /// Initial protection: `r-x`.
    pub protection: String,
    /// SG_READ_ONLY: made read-only after fixups.
    pub read_only: bool,
    /// Rebases in it.
    pub rebases: u64,
    /// Binds in it (without lazy and weak streams).
    pub binds: u64,
    /// Lazy binds in it.
    pub lazy_binds: u64,
    /// Weak binds in it.
    pub weak_binds: u64,
}

/// Functions that run before `main`, by how they are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct MachoInit {
    /// Entries of S_MOD_INIT_FUNC_POINTERS sections: each is also a fixup.
    pub pointers: u64,
    /// Entries of S_INIT_FUNC_OFFSETS sections: no fixup.
    pub offsets: u64,
    /// LC_ROUTINES names one function.
    pub routines: bool,
    /// Objective-C classes and categories with a `+load` method.
    pub objc_load: u64,
}

/// The exports trie.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct MachoExports {
    /// Its size in bytes.
    pub trie_bytes: u64,
    /// Exported symbols.
    pub symbols: u64,
    /// Of these, coalesced over all images.
    pub weak_definitions: u64,
    /// Of these, handed on from another library.
    pub reexports: u64,
    /// Of these, chosen by a resolver function at start.
    pub resolvers: u64,
}

/// What the code signature says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct MachoSignature {
    /// Bytes of the signature.
    pub bytes: u64,
    /// Signed without an identity; absent where no code directory can be read.
    pub adhoc: Option<bool>,
    /// Code pages that are hashed when they are first touched.
    pub page_hashes: u64,
}

/// An encrypted range.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MachoEncryption {
    /// Bytes of the range.
    pub bytes: u64,
    /// Encryption system; 0 means that the range is not encrypted (yet).
    pub system: u32,
}
