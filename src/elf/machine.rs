//! What each machine's ABI calls its relocation types, sorted into the classes that cost alike, and the machine's name.
//!
//! Numbers are those of each machine's ABI supplement as collected in `elf.h`; one row a machine. Types that only
//! appear in object files are absent: in a loaded file they are "other", and no loader can process them.

#![deny(clippy::indexing_slicing, clippy::arithmetic_side_effects, clippy::unwrap_used)]

use object::elf::*;

use super::image::Image;
use crate::facts::Endian;

/// Classes of relocations: what the loader does, whatever the machine calls it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    /// Base plus addend.
    Relative,
    /// Address of a symbol in data.
    Absolute,
    /// Address of a symbol in the global offset table.
    GlobDat,
    /// Function slot of the procedure linkage table.
    JumpSlot,
    /// Data copied from a library into the program.
    Copy,
    /// Address from a resolver function.
    Irelative,
    /// Thread-local storage.
    Tls,
    /// No work.
    None,
    /// Unknown here.
    Other,
}

impl Class {
    /// How many classes there are.
    pub const COUNT: usize = Class::Other as usize + 1;

    /// The word in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Class::Relative => "relative",
            Class::Absolute => "absolute",
            Class::GlobDat => "glob_dat",
            Class::JumpSlot => "jump_slot",
            Class::Copy => "copy",
            Class::Irelative => "irelative",
            Class::Tls => "tls",
            Class::None => "none",
            Class::Other => "other",
        }
    }
}

/// The types of one machine.
struct Row {
    machine: Machine,
    relative: &'static [RelocationType],
    absolute: &'static [RelocationType],
    glob_dat: RelocationType,
    jump_slot: RelocationType,
    copy: RelocationType,
    irelative: RelocationType,
    tls: &'static [RelocationType],
}

/// A type that no file uses, where a machine lacks a class.
const NEVER: RelocationType = RelocationType(u32::MAX);

const fn t(n: u32) -> RelocationType {
    RelocationType(n)
}

#[rustfmt::skip]
const ROWS: &[Row] = &[
    Row { machine: EM_X86_64, relative: &[R_X86_64_RELATIVE, R_X86_64_RELATIVE64],
          absolute: &[R_X86_64_64, R_X86_64_PC32, R_X86_64_32, R_X86_64_32S, R_X86_64_16, R_X86_64_PC16, R_X86_64_8, R_X86_64_PC8, R_X86_64_PC64, R_X86_64_SIZE32, R_X86_64_SIZE64],
          glob_dat: R_X86_64_GLOB_DAT, jump_slot: R_X86_64_JUMP_SLOT, copy: R_X86_64_COPY, irelative: R_X86_64_IRELATIVE,
          tls: &[R_X86_64_DTPMOD64, R_X86_64_DTPOFF64, R_X86_64_TPOFF64, R_X86_64_DTPOFF32, R_X86_64_TPOFF32, R_X86_64_TLSDESC] },
    Row { machine: EM_386, relative: &[R_386_RELATIVE],
          absolute: &[R_386_32, R_386_PC32, R_386_16, R_386_PC16, R_386_8, R_386_PC8, R_386_SIZE32],
          glob_dat: R_386_GLOB_DAT, jump_slot: R_386_JMP_SLOT, copy: R_386_COPY, irelative: R_386_IRELATIVE,
          tls: &[R_386_TLS_TPOFF, R_386_TLS_DTPMOD32, R_386_TLS_DTPOFF32, R_386_TLS_TPOFF32, R_386_TLS_DESC] },
    Row { machine: EM_AARCH64, relative: &[R_AARCH64_RELATIVE, R_AARCH64_P32_RELATIVE],
          absolute: &[R_AARCH64_ABS64, R_AARCH64_ABS32, R_AARCH64_ABS16, R_AARCH64_PREL64, R_AARCH64_PREL32, R_AARCH64_PREL16, R_AARCH64_P32_ABS32],
          glob_dat: R_AARCH64_GLOB_DAT, jump_slot: R_AARCH64_JUMP_SLOT, copy: R_AARCH64_COPY, irelative: R_AARCH64_IRELATIVE,
          tls: &[R_AARCH64_TLS_DTPMOD, R_AARCH64_TLS_DTPREL, R_AARCH64_TLS_TPREL, R_AARCH64_TLSDESC,
                 R_AARCH64_P32_TLS_DTPMOD, R_AARCH64_P32_TLS_DTPREL, R_AARCH64_P32_TLS_TPREL, R_AARCH64_P32_TLSDESC] },
    Row { machine: EM_ARM, relative: &[R_ARM_RELATIVE],
          absolute: &[R_ARM_ABS32, R_ARM_REL32, R_ARM_PC24, R_ARM_ABS16, R_ARM_ABS8],
          glob_dat: R_ARM_GLOB_DAT, jump_slot: R_ARM_JUMP_SLOT, copy: R_ARM_COPY, irelative: R_ARM_IRELATIVE,
          tls: &[R_ARM_TLS_DESC, R_ARM_TLS_DTPMOD32, R_ARM_TLS_DTPOFF32, R_ARM_TLS_TPOFF32] },
    Row { machine: EM_RISCV, relative: &[R_RISCV_RELATIVE], absolute: &[R_RISCV_32, R_RISCV_64],
          glob_dat: NEVER, jump_slot: R_RISCV_JUMP_SLOT, copy: R_RISCV_COPY, irelative: R_RISCV_IRELATIVE,
          tls: &[R_RISCV_TLS_DTPMOD32, R_RISCV_TLS_DTPMOD64, R_RISCV_TLS_DTPREL32, R_RISCV_TLS_DTPREL64, R_RISCV_TLS_TPREL32, R_RISCV_TLS_TPREL64, R_RISCV_TLSDESC] },
    Row { machine: EM_LOONGARCH, relative: &[R_LARCH_RELATIVE], absolute: &[R_LARCH_32, R_LARCH_64],
          glob_dat: NEVER, jump_slot: R_LARCH_JUMP_SLOT, copy: R_LARCH_COPY, irelative: R_LARCH_IRELATIVE,
          tls: &[R_LARCH_TLS_DTPMOD32, R_LARCH_TLS_DTPMOD64, R_LARCH_TLS_DTPREL32, R_LARCH_TLS_DTPREL64, R_LARCH_TLS_TPREL32, R_LARCH_TLS_TPREL64, R_LARCH_TLS_DESC32, R_LARCH_TLS_DESC64] },
    Row { machine: EM_PPC, relative: &[R_PPC_RELATIVE],
          absolute: &[R_PPC_ADDR32, R_PPC_ADDR24, R_PPC_ADDR16, R_PPC_ADDR16_LO, R_PPC_ADDR16_HI, R_PPC_ADDR16_HA, R_PPC_REL24, R_PPC_UADDR32, R_PPC_UADDR16, R_PPC_REL32],
          glob_dat: R_PPC_GLOB_DAT, jump_slot: R_PPC_JMP_SLOT, copy: R_PPC_COPY, irelative: R_PPC_IRELATIVE,
          tls: &[R_PPC_DTPMOD32, R_PPC_TPREL32, R_PPC_DTPREL32] },
    Row { machine: EM_PPC64, relative: &[R_PPC64_RELATIVE],
          absolute: &[R_PPC64_ADDR64, R_PPC64_ADDR32, R_PPC64_UADDR64, R_PPC64_UADDR32, R_PPC64_REL64, R_PPC64_REL32, R_PPC64_TOC, R_PPC64_ADDR24, R_PPC64_ADDR16, R_PPC64_ADDR14],
          glob_dat: R_PPC64_GLOB_DAT, jump_slot: R_PPC64_JMP_SLOT, copy: R_PPC64_COPY, irelative: R_PPC64_IRELATIVE,
          tls: &[R_PPC64_DTPMOD64, R_PPC64_TPREL64, R_PPC64_DTPREL64] },
    Row { machine: EM_S390, relative: &[R_390_RELATIVE],
          absolute: &[R_390_64, R_390_32, R_390_16, R_390_8, R_390_PC64, R_390_PC32, R_390_PC32DBL, R_390_PC16, R_390_PC16DBL],
          glob_dat: R_390_GLOB_DAT, jump_slot: R_390_JMP_SLOT, copy: R_390_COPY, irelative: R_390_IRELATIVE,
          tls: &[R_390_TLS_DTPMOD, R_390_TLS_DTPOFF, R_390_TLS_TPOFF] },
    Row { machine: EM_SPARC, relative: &[R_SPARC_RELATIVE], absolute: SPARC_ABSOLUTE,
          glob_dat: R_SPARC_GLOB_DAT, jump_slot: R_SPARC_JMP_SLOT, copy: R_SPARC_COPY, irelative: R_SPARC_IRELATIVE, tls: SPARC_TLS },
    Row { machine: EM_SPARC32PLUS, relative: &[R_SPARC_RELATIVE], absolute: SPARC_ABSOLUTE,
          glob_dat: R_SPARC_GLOB_DAT, jump_slot: R_SPARC_JMP_SLOT, copy: R_SPARC_COPY, irelative: R_SPARC_IRELATIVE, tls: SPARC_TLS },
    Row { machine: EM_SPARCV9, relative: &[R_SPARC_RELATIVE], absolute: SPARC_ABSOLUTE,
          glob_dat: R_SPARC_GLOB_DAT, jump_slot: R_SPARC_JMP_SLOT, copy: R_SPARC_COPY, irelative: R_SPARC_IRELATIVE, tls: SPARC_TLS },
    // REL32 without a symbol is relative, with one it is absolute: decided record by record.
    Row { machine: EM_MIPS, relative: &[], absolute: &[R_MIPS_REL32, R_MIPS_32, R_MIPS_64],
          glob_dat: R_MIPS_GLOB_DAT, jump_slot: R_MIPS_JUMP_SLOT, copy: R_MIPS_COPY, irelative: NEVER,
          tls: &[R_MIPS_TLS_DTPMOD32, R_MIPS_TLS_DTPREL32, R_MIPS_TLS_DTPMOD64, R_MIPS_TLS_DTPREL64, R_MIPS_TLS_TPREL32, R_MIPS_TLS_TPREL64] },
    Row { machine: EM_68K, relative: &[R_68K_RELATIVE], absolute: &[R_68K_32, R_68K_16, R_68K_8, R_68K_PC32, R_68K_PC16, R_68K_PC8],
          glob_dat: R_68K_GLOB_DAT, jump_slot: R_68K_JMP_SLOT, copy: R_68K_COPY, irelative: NEVER,
          tls: &[R_68K_TLS_DTPMOD32, R_68K_TLS_DTPREL32, R_68K_TLS_TPREL32] },
    Row { machine: EM_ALPHA, relative: &[R_ALPHA_RELATIVE], absolute: &[R_ALPHA_REFQUAD, R_ALPHA_REFLONG],
          glob_dat: R_ALPHA_GLOB_DAT, jump_slot: R_ALPHA_JMP_SLOT, copy: R_ALPHA_COPY, irelative: NEVER,
          tls: &[R_ALPHA_DTPMOD64, R_ALPHA_DTPREL64, R_ALPHA_TPREL64] },
    Row { machine: EM_SH, relative: &[R_SH_RELATIVE], absolute: &[R_SH_DIR32, R_SH_REL32],
          glob_dat: R_SH_GLOB_DAT, jump_slot: R_SH_JMP_SLOT, copy: R_SH_COPY, irelative: NEVER,
          tls: &[R_SH_TLS_DTPMOD32, R_SH_TLS_DTPOFF32, R_SH_TLS_TPOFF32] },
    // No relative type of its own: DIR32 and DIR64 without a symbol, decided record by record.
    Row { machine: EM_PARISC, relative: &[], absolute: &[R_PARISC_DIR32, R_PARISC_DIR64, R_PARISC_PLABEL32, R_PARISC_FPTR64],
          glob_dat: NEVER, jump_slot: R_PARISC_IPLT, copy: R_PARISC_COPY, irelative: NEVER,
          tls: &[R_PARISC_TLS_DTPMOD32, R_PARISC_TLS_DTPMOD64, R_PARISC_TLS_DTPOFF32, R_PARISC_TLS_DTPOFF64, R_PARISC_TPREL32, R_PARISC_TPREL64] },
    Row { machine: EM_IA_64, relative: &[R_IA64_REL32MSB, R_IA64_REL32LSB, R_IA64_REL64MSB, R_IA64_REL64LSB],
          absolute: &[R_IA64_DIR32MSB, R_IA64_DIR32LSB, R_IA64_DIR64MSB, R_IA64_DIR64LSB, R_IA64_FPTR32MSB, R_IA64_FPTR32LSB, R_IA64_FPTR64MSB, R_IA64_FPTR64LSB, R_IA64_PCREL64LSB, R_IA64_PCREL32LSB],
          glob_dat: NEVER, jump_slot: R_IA64_IPLTLSB, copy: R_IA64_COPY, irelative: NEVER,
          tls: &[R_IA64_DTPMOD64MSB, R_IA64_DTPMOD64LSB, R_IA64_DTPREL64MSB, R_IA64_DTPREL64LSB, R_IA64_TPREL64MSB, R_IA64_TPREL64LSB] },
    Row { machine: EM_MICROBLAZE, relative: &[R_MICROBLAZE_REL], absolute: &[R_MICROBLAZE_32, R_MICROBLAZE_64],
          glob_dat: R_MICROBLAZE_GLOB_DAT, jump_slot: R_MICROBLAZE_JUMP_SLOT, copy: R_MICROBLAZE_COPY, irelative: NEVER,
          tls: &[R_MICROBLAZE_TLSDTPMOD32, R_MICROBLAZE_TLSDTPREL32, R_MICROBLAZE_TLSTPREL32] },
    Row { machine: EM_ALTERA_NIOS2, relative: &[R_NIOS2_RELATIVE], absolute: &[R_NIOS2_BFD_RELOC_32],
          glob_dat: R_NIOS2_GLOB_DAT, jump_slot: R_NIOS2_JUMP_SLOT, copy: R_NIOS2_COPY, irelative: NEVER,
          tls: &[R_NIOS2_TLS_DTPMOD, R_NIOS2_TLS_DTPREL, R_NIOS2_TLS_TPREL] },
    Row { machine: EM_CSKY, relative: &[R_CKCORE_RELATIVE], absolute: &[R_CKCORE_ADDR32, R_CKCORE_PCREL32],
          glob_dat: R_CKCORE_GLOB_DAT, jump_slot: R_CKCORE_JUMP_SLOT, copy: R_CKCORE_COPY, irelative: NEVER,
          tls: &[R_CKCORE_TLS_DTPMOD32, R_CKCORE_TLS_DTPOFF32, R_CKCORE_TLS_TPOFF32] },
    Row { machine: EM_XTENSA, relative: &[R_XTENSA_RELATIVE], absolute: &[R_XTENSA_32],
          glob_dat: R_XTENSA_GLOB_DAT, jump_slot: R_XTENSA_JMP_SLOT, copy: NEVER, irelative: NEVER,
          tls: &[R_XTENSA_TLSDESC_FN, R_XTENSA_TLSDESC_ARG, R_XTENSA_TLS_DTPOFF, R_XTENSA_TLS_TPOFF] },
    Row { machine: EM_OPENRISC, relative: &[t(21)], absolute: &[t(1), t(2), t(3)],
          glob_dat: t(19), jump_slot: t(20), copy: t(18), irelative: NEVER, tls: &[t(32), t(33), t(34)] },
    Row { machine: EM_ARC_COMPACT2, relative: &[t(0x38)], absolute: &[t(4)],
          glob_dat: t(0x36), jump_slot: t(0x37), copy: t(0x35), irelative: NEVER, tls: &[t(0x42), t(0x43), t(0x44)] },
    Row { machine: EM_HEXAGON, relative: &[t(35)], absolute: &[t(6)],
          glob_dat: t(33), jump_slot: t(34), copy: t(32), irelative: NEVER, tls: &[t(44), t(47), t(63)] },
];

const SPARC_ABSOLUTE: &[RelocationType] = &[
    R_SPARC_8,
    R_SPARC_16,
    R_SPARC_32,
    R_SPARC_DISP8,
    R_SPARC_DISP16,
    R_SPARC_DISP32,
    R_SPARC_WDISP30,
    R_SPARC_HI22,
    R_SPARC_LO10,
    R_SPARC_UA16,
    R_SPARC_UA32,
    R_SPARC_64,
    R_SPARC_UA64,
    R_SPARC_DISP64,
];
const SPARC_TLS: &[RelocationType] = &[
    R_SPARC_TLS_DTPMOD32,
    R_SPARC_TLS_DTPMOD64,
    R_SPARC_TLS_DTPOFF32,
    R_SPARC_TLS_DTPOFF64,
    R_SPARC_TLS_TPOFF32,
    R_SPARC_TLS_TPOFF64,
];

/// One past the largest type in a row: aarch64's dynamic types end at 1032.
pub(super) const TYPES: usize = 1040;

/// Type to class, for one file.
#[derive(Clone)]
pub struct Classes {
    by_type: Box<[Class; TYPES]>,
    /// Bits of the type that name it: SPARC 64 and MIPS 64 keep more in the upper ones.
    mask: u32,
    /// Types that are relative where they name no symbol.
    relative_without_symbol: &'static [RelocationType],
}

impl Classes {
    /// The classes of a file's machine. A machine that is not known here has only "other".
    pub fn of(image: &Image) -> Classes {
        let mut by_type = Box::new([Class::Other; TYPES]);
        let mut set = |types: &[RelocationType], class| {
            for t in types {
                if let Some(slot) = by_type.get_mut(t.0 as usize) {
                    *slot = class;
                }
            }
        };
        set(&[t(0)], Class::None);
        let machine = image.machine();
        if let Some(row) = ROWS.iter().find(|row| row.machine.0 == machine) {
            set(row.relative, Class::Relative);
            set(row.absolute, Class::Absolute);
            set(&[row.glob_dat], Class::GlobDat);
            set(&[row.jump_slot], Class::JumpSlot);
            set(&[row.copy], Class::Copy);
            set(&[row.irelative], Class::Irelative);
            set(row.tls, Class::Tls);
        }
        if machine == EM_AARCH64.0 {
            // ILP32 has numbers of its own for the same things.
            set(&[R_AARCH64_P32_GLOB_DAT], Class::GlobDat);
            set(&[R_AARCH64_P32_JUMP_SLOT], Class::JumpSlot);
            set(&[R_AARCH64_P32_COPY], Class::Copy);
            set(&[R_AARCH64_P32_IRELATIVE], Class::Irelative);
        }
        let packs_more = image.is_64() && (machine == EM_MIPS.0 || machine == EM_SPARCV9.0);
        let relative_without_symbol: &[RelocationType] = match Machine(machine) {
            EM_MIPS => &[R_MIPS_REL32],
            EM_PARISC => &[R_PARISC_DIR32, R_PARISC_DIR64],
            _ => &[],
        };
        Classes { by_type, mask: if packs_more { 0xff } else { u32::MAX }, relative_without_symbol }
    }

    /// The type alone, without what SPARC 64 and MIPS 64 keep in the upper bits.
    pub fn plain_type(&self, kind: u32) -> u32 {
        kind & self.mask
    }

    /// The class of a type; `symbol` is the index that the record names, 0 for none.
    #[inline]
    pub fn class(&self, kind: u32, symbol: u32) -> Class {
        let kind = kind & self.mask;
        // Asked for each of a million records: most machines have no such type.
        let may_be = symbol == 0 && !self.relative_without_symbol.is_empty();
        if may_be && self.relative_without_symbol.contains(&RelocationType(kind)) {
            return Class::Relative;
        }
        self.by_type.get(kind as usize).copied().unwrap_or(Class::Other)
    }

    /// True for types whose loader writes two words (a descriptor of code and argument).
    pub fn writes_two_words(&self, machine: u16, kind: u32) -> bool {
        let kind = RelocationType(kind & self.mask);
        matches!(
            (Machine(machine), kind),
            (EM_X86_64, R_X86_64_TLSDESC)
                | (EM_386, R_386_TLS_DESC)
                | (EM_ARM, R_ARM_TLS_DESC)
                | (EM_AARCH64, R_AARCH64_TLSDESC | R_AARCH64_P32_TLSDESC)
                | (EM_RISCV, R_RISCV_TLSDESC)
                | (EM_LOONGARCH, R_LARCH_TLS_DESC32 | R_LARCH_TLS_DESC64)
                | (EM_PARISC, R_PARISC_IPLT)
                | (EM_IA_64, R_IA64_IPLTLSB)
        )
    }
}

/// One type of each class that a file for a machine is written with.
#[derive(Debug, Clone, Copy)]
pub(super) struct TypesToWrite {
    pub(super) relative: u32,
    pub(super) absolute: u32,
    pub(super) glob_dat: u32,
    pub(super) jump_slot: u32,
    pub(super) copy: u32,
    pub(super) irelative: u32,
}

/// The types to write for a machine and class; type 0 (none) where the machine has no such class or is not known.
pub(super) fn types_to_write(machine: u16, is_64: bool) -> TypesToWrite {
    let row = ROWS.iter().find(|row| row.machine.0 == machine);
    let one = |pick: fn(&Row) -> Option<RelocationType>| row.and_then(pick).filter(|t| *t != NEVER).map_or(0, |t| t.0);
    let mut types = TypesToWrite {
        relative: one(|row| row.relative.first().copied()),
        absolute: one(|row| row.absolute.first().copied()),
        glob_dat: one(|row| if row.glob_dat == NEVER { row.absolute.first().copied() } else { Some(row.glob_dat) }),
        jump_slot: one(|row| Some(row.jump_slot)),
        copy: one(|row| Some(row.copy)),
        irelative: one(|row| Some(row.irelative)),
    };
    match Machine(machine) {
        EM_MIPS if is_64 => types.absolute = R_MIPS_REL32.0 | (R_MIPS_64.0 << 8),
        EM_RISCV if is_64 => types.absolute = R_RISCV_64.0,
        EM_LOONGARCH if is_64 => types.absolute = R_LARCH_64.0,
        EM_SPARCV9 if is_64 => types.absolute = R_SPARC_64.0,
        EM_X86_64 if !is_64 => types.absolute = R_X86_64_32.0,
        _ => {}
    }
    if Machine(machine) == EM_MIPS {
        types.relative = types.absolute;
        types.glob_dat = types.absolute;
    }
    if matches!(Machine(machine), EM_RISCV | EM_LOONGARCH) {
        types.glob_dat = types.absolute;
    }
    types
}

/// The machine in the field's common word; the byte order is part of the word where it is for compilers.
pub fn arch_name(image: &Image) -> String {
    let big = image.endian() == Endian::Big;
    let wide = image.is_64();
    let name = match (Machine(image.machine()), wide, big) {
        (EM_X86_64, true, _) => "x86-64",
        (EM_X86_64, false, _) => "x32",
        (EM_386, ..) => "i386",
        (EM_AARCH64, true, false) => "aarch64",
        (EM_AARCH64, true, true) => "aarch64_be",
        (EM_AARCH64, false, false) => "aarch64_ilp32",
        (EM_AARCH64, false, true) => "aarch64_be_ilp32",
        (EM_ARM, _, false) => "arm",
        (EM_ARM, _, true) => "armeb",
        (EM_RISCV, true, _) => "riscv64",
        (EM_RISCV, false, _) => "riscv32",
        (EM_LOONGARCH, true, _) => "loongarch64",
        (EM_LOONGARCH, false, _) => "loongarch32",
        (EM_PPC, _, false) => "ppcle",
        (EM_PPC, _, true) => "ppc",
        (EM_PPC64, _, false) => "ppc64le",
        (EM_PPC64, _, true) => "ppc64",
        (EM_S390, true, _) => "s390x",
        (EM_S390, false, _) => "s390",
        (EM_SPARC | EM_SPARC32PLUS, ..) => "sparc",
        (EM_SPARCV9, ..) => "sparc64",
        (EM_MIPS, ..) => return mips_name(image),
        (machine, ..) => return other_name(machine),
    };
    name.to_string()
}

/// MIPS: three ABIs in two classes, in both byte orders.
fn mips_name(image: &Image) -> String {
    // EF_MIPS_ABI2: the n32 ABI, 64-bit registers in 32-bit files.
    let abi = match (image.is_64(), image.flags() & 0x20 != 0) {
        (true, _) => "mips64",
        (false, true) => "mipsn32",
        (false, false) => "mips",
    };
    let order = if image.endian() == Endian::Little { "el" } else { "" };
    format!("{abi}{order}")
}

fn other_name(machine: Machine) -> String {
    let name = match machine {
        EM_68K => "m68k",
        EM_ALPHA => "alpha",
        EM_SH => "sh",
        EM_PARISC => "hppa",
        EM_IA_64 => "ia64",
        EM_MICROBLAZE => "microblaze",
        EM_ALTERA_NIOS2 => "nios2",
        EM_CSKY => "csky",
        EM_XTENSA => "xtensa",
        EM_OPENRISC => "or1k",
        EM_ARC_COMPACT2 => "arc",
        EM_HEXAGON => "hexagon",
        EM_BPF => "bpf",
        EM_AMDGPU => "amdgpu",
        EM_AVR => "avr",
        EM_MSP430 => "msp430",
        EM_NONE => "none",
        Machine(n) => return format!("machine-{n}"),
    };
    name.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A type that stood in two classes would be counted by whichever was set last.
    #[test]
    fn no_type_has_two_classes() {
        for row in ROWS {
            let mut all: Vec<u32> = [row.relative, row.absolute, row.tls].concat().iter().map(|t| t.0).collect();
            let single = [row.glob_dat, row.jump_slot, row.copy, row.irelative];
            all.extend(single.iter().filter(|t| **t != NEVER).map(|t| t.0));
            let before = all.len();
            all.sort_unstable();
            all.dedup();
            assert_eq!(all.len(), before, "machine {}", row.machine.0);
            assert!(all.iter().all(|t| *t != 0 && (*t as usize) < TYPES), "machine {}", row.machine.0);
        }
    }
}
