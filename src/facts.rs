//! Link facts: what one file says of itself, the same shape for ELF and Mach-O.
//!
//! Plain data without lifetimes and without printing. `elf` and `macho` fill it, `loader` and `model` read it,
//! `report` turns it into text and JSON. Field names are those of the JSON contract.

use std::ffi::OsString;
use std::path::PathBuf;

pub mod macho;

/// Three states: not present, present, present but unreadable. They must never look alike.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Fact<T> {
    /// The file does not have it.
    #[default]
    Absent,
    /// The file has it.
    Value(T),
    /// The file claims it, and it cannot be read: why.
    Unreadable(String),
}

impl<T> Fact<T> {
    /// The value, where there is one.
    pub fn value(&self) -> Option<&T> {
        match self {
            Fact::Value(v) => Some(v),
            _ => None,
        }
    }

    /// The same state with another value.
    pub fn map<U>(self, f: impl FnOnce(T) -> U) -> Fact<U> {
        match self {
            Fact::Absent => Fact::Absent,
            Fact::Value(v) => Fact::Value(f(v)),
            Fact::Unreadable(why) => Fact::Unreadable(why),
        }
    }
}

/// File format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// Executable and Linkable Format.
    Elf,
    /// Mach-O.
    MachO,
    /// A text file that names its interpreter (`#!`).
    Script,
}

impl Format {
    /// The word in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Format::Elf => "elf",
            Format::MachO => "macho",
            Format::Script => "script",
        }
    }
}

/// Byte order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Endian {
    /// Least significant byte first.
    Little,
    /// Most significant byte first.
    Big,
}

impl Endian {
    /// The word in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Endian::Little => "little",
            Endian::Big => "big",
        }
    }
}

/// Kind of program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Fixed address, no loader.
    Static,
    /// Position independent, no loader: relocates itself.
    StaticPie,
    /// Dynamic, fixed address.
    Exec,
    /// Dynamic, position independent.
    Pie,
    /// A shared library (also one with an interpreter, as libc.so.6), or a loader.
    Shared,
    /// Names its interpreter in the first line.
    Script,
    /// Object files, cores, debug files, and what we do not know.
    Other,
}

impl Kind {
    /// The word in JSON and in tables.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Static => "static",
            Kind::StaticPie => "static-pie",
            Kind::Exec => "exec",
            Kind::Pie => "pie",
            Kind::Shared => "shared",
            Kind::Script => "script",
            Kind::Other => "other",
        }
    }
}

/// Counts of relocation records by class. `relr` counts decoded relocations, not words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RelocationCounts {
    /// Base plus addend, one record each (inside DT_RELACOUNT's range or not).
    pub relative: u64,
    /// Relative, packed (DT_RELR), decoded.
    pub relr: u64,
    /// Symbolic data.
    pub absolute: u64,
    /// Address of a symbol in the global offset table.
    pub glob_dat: u64,
    /// Function slots of the procedure linkage table.
    pub jump_slot: u64,
    /// Data copied from a library into the program.
    pub copy: u64,
    /// Address from a resolver function.
    pub irelative: u64,
    /// Thread-local storage.
    pub tls: u64,
    /// R_*_NONE: no work.
    pub none: u64,
    /// Types that this tool has no class for.
    pub other: u64,
    /// Bytes of the tables that hold them.
    pub table_bytes: u64,
}

impl RelocationCounts {
    /// All records, `none` included.
    pub fn total(&self) -> u64 {
        let classes = self.classes();
        classes.iter().fold(0u64, |sum, (_, n)| sum.saturating_add(*n))
    }

    /// Each class's name and count, in the contract's order.
    pub fn classes(&self) -> [(&'static str, u64); 10] {
        [
            ("relative", self.relative),
            ("relr", self.relr),
            ("absolute", self.absolute),
            ("glob_dat", self.glob_dat),
            ("jump_slot", self.jump_slot),
            ("copy", self.copy),
            ("irelative", self.irelative),
            ("tls", self.tls),
            ("none", self.none),
            ("other", self.other),
        ]
    }

    /// Adds another object's counts (closure totals).
    pub fn add(&mut self, other: &RelocationCounts) {
        self.relative = self.relative.saturating_add(other.relative);
        self.relr = self.relr.saturating_add(other.relr);
        self.absolute = self.absolute.saturating_add(other.absolute);
        self.glob_dat = self.glob_dat.saturating_add(other.glob_dat);
        self.jump_slot = self.jump_slot.saturating_add(other.jump_slot);
        self.copy = self.copy.saturating_add(other.copy);
        self.irelative = self.irelative.saturating_add(other.irelative);
        self.tls = self.tls.saturating_add(other.tls);
        self.none = self.none.saturating_add(other.none);
        self.other = self.other.saturating_add(other.other);
        self.table_bytes = self.table_bytes.saturating_add(other.table_bytes);
    }
}

/// How much of the relocated data is made read-only after relocation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum RelroKind {
    /// Nothing is protected.
    #[default]
    None,
    /// Protected, but the PLT's slots stay writable (lazy binding).
    Partial,
    /// Protected, and all binding happens at start.
    Full,
}

impl RelroKind {
    /// The word in JSON.
    pub fn name(self) -> &'static str {
        match self {
            RelroKind::None => "none",
            RelroKind::Partial => "partial",
            RelroKind::Full => "full",
        }
    }
}

/// PT_GNU_RELRO as the loader applies it: `bytes` and `pages` after its page rounding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Relro {
    /// none, partial or full, by what is really protected.
    pub kind: RelroKind,
    /// Bytes that the loader protects.
    pub bytes: u64,
    /// Pages that the loader protects.
    pub pages: u64,
}

/// Functions that run before `main`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct InitFunctions {
    /// Entries of DT_PREINIT_ARRAY.
    pub preinit_array: u64,
    /// Entries of DT_INIT_ARRAY.
    pub init_array: u64,
    /// DT_INIT is present.
    pub has_init: bool,
}

impl InitFunctions {
    /// How many functions run.
    pub fn total(&self) -> u64 {
        self.preinit_array.saturating_add(self.init_array).saturating_add(u64::from(self.has_init))
    }
}

/// What one file says of itself.
#[derive(Debug, Clone, PartialEq)]
pub struct LinkFacts {
    /// Where the file was found.
    pub path: PathBuf,
    /// Its format.
    pub format: Format,
    /// Machine in the field's common word: `x86-64`, `aarch64`, `arm`, …
    pub arch: String,
    /// 32 or 64.
    pub bits: u8,
    /// Byte order.
    pub endian: Endian,
    /// Size of the file.
    pub size_bytes: u64,
    /// Kind of program.
    pub kind: Kind,
    /// PT_INTERP, LC_LOAD_DYLINKER, or a script's interpreter.
    pub interp: Fact<PathBuf>,
    /// DT_NEEDED in order.
    pub needed: Vec<OsString>,
    /// DT_RUNPATH split at colons.
    pub runpath: Vec<OsString>,
    /// DT_RPATH split at colons.
    pub rpath: Vec<OsString>,
    /// DT_SONAME.
    pub soname: Option<OsString>,
    /// All binding at start.
    pub bind_now: bool,
    /// Relocations write into read-only segments.
    pub textrel: bool,
    /// `gnu`, `sysv`.
    pub hash: Vec<&'static str>,
    /// Relocation records by class.
    pub relocations: RelocationCounts,
    /// Relocated data made read-only.
    pub relro: Relro,
    /// Distinct pages of the image that start-up relocations write (4 KiB pages for ELF).
    pub pages_written: u64,
    /// Functions that run before `main`.
    pub init: InitFunctions,
    /// Size of the TLS image in memory.
    pub tls_bytes: u64,
    /// `glibc`, `musl`, or what the interpreter's name tells; absent where nothing does.
    pub libc: Option<String>,
    /// Contradictions in the file, each with what the loader will do.
    pub warnings: Vec<String>,
    /// What only ELF files have; `None` for other formats.
    pub elf: Option<ElfFacts>,
    /// What only Mach-O files have; `None` for other formats.
    pub macho: Option<Box<macho::MachoFacts>>,
}

impl LinkFacts {
    /// Facts of a file of which nothing else is known yet: each reader fills in what its format has.
    pub fn new(path: impl Into<PathBuf>, format: Format, size_bytes: u64) -> LinkFacts {
        LinkFacts {
            path: path.into(),
            format,
            arch: String::new(),
            bits: 0,
            endian: Endian::Little,
            size_bytes,
            kind: Kind::Other,
            interp: Fact::Absent,
            needed: Vec::new(),
            runpath: Vec::new(),
            rpath: Vec::new(),
            soname: None,
            bind_now: false,
            textrel: false,
            hash: Vec::new(),
            relocations: RelocationCounts::default(),
            relro: Relro::default(),
            pages_written: 0,
            init: InitFunctions::default(),
            tls_bytes: 0,
            libc: None,
            warnings: Vec::new(),
            elf: None,
            macho: None,
        }
    }
}

/// Distinct pages that start-up relocations write, for one page size.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PagesWritten {
    /// Size of a page in bytes.
    pub page_size: u64,
    /// Pages written.
    pub pages: u64,
    /// How many of them the loader makes read-only afterwards (PT_GNU_RELRO with this page size).
    pub in_relro: u64,
}

/// One program header, as text-friendly facts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SegmentFacts {
    /// `load`, `dynamic`, `interp`, …, or the number.
    pub kind: String,
    /// `r`, `w` and `x`, a dash where not allowed.
    pub flags: String,
    /// Where it starts in the file.
    pub offset: u64,
    /// Its address before the load address is added.
    pub vaddr: u64,
    /// Bytes in the file.
    pub file_bytes: u64,
    /// Bytes in memory.
    pub memory_bytes: u64,
    /// Alignment.
    pub align: u64,
}

/// What only ELF files have.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ElfFacts {
    /// Entry point, before the load address is added.
    pub entry: u64,
    /// The tags that ask for binding at start: `DT_BIND_NOW`, `DT_FLAGS`, `DT_FLAGS_1`.
    pub bind_now_by: Vec<&'static str>,
    /// Highest version of the C library that the file asks for, as `2.34`.
    pub libc_version: Option<String>,
    /// DT_RELACOUNT and DT_RELCOUNT, as written: what glibc counts as "relative relocations".
    pub relative_tagged: u64,
    /// Relocation records by the machine's type number, without RELR.
    pub relocation_types: Vec<(u32, u64)>,
    /// Entries of the global offset table that the MIPS ABI relocates without records.
    pub implicit_got: u64,
    /// Pages that start-up relocations write, for pages of 4, 16 and 64 KiB.
    pub pages: Vec<PagesWritten>,
    /// Defined IFUNC symbols in the dynamic symbol table.
    pub ifuncs: u64,
    /// Defined global and weak symbols that others can bind to.
    pub exported: u64,
    /// Undefined symbols.
    pub imported: u64,
    /// Largest alignment of the loaded segments.
    pub page_align: u64,
    /// NT_GNU_BUILD_ID in hexadecimal.
    pub build_id: Option<String>,
    /// Notes that loaders or kernels act on, as sentences.
    pub notes: Vec<String>,
    /// Every program header in order.
    pub segments: Vec<SegmentFacts>,
}
