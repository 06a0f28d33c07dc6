//! Small ELF files written from a description: the control that gives every measurement its floor, programs with
//! chosen load work for the host model, and fixtures with the same bytes on every machine for the tests.
//!
//! They are written with `object`'s raw structures, without a toolchain and without section headers: kernel and
//! loaders read neither names nor sections.

#![deny(clippy::indexing_slicing, clippy::arithmetic_side_effects, clippy::unwrap_used)]

mod build;
mod bytes;
mod control;
mod hash;
mod recipe;
mod stamp;
mod tables;
#[cfg(test)]
mod tests;

pub use control::{CONTROL_ENTRY, control};
pub use hash::{gnu_hash, sysv_hash};
pub use recipe::{Hash, Import, Packing, Recipe, Relative, Use};
pub use stamp::{STAMP_BYTES, stamped};

use object::elf;

/// Machines that a file can be written for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Machine {
    /// AMD64.
    X86_64,
    /// 64-bit Arm, little endian.
    Aarch64,
}

impl Machine {
    /// The machine that this program runs on, where files can be written for it.
    pub fn host() -> Option<Machine> {
        match std::env::consts::ARCH {
            "x86_64" => Some(Machine::X86_64),
            "aarch64" => Some(Machine::Aarch64),
            _ => None,
        }
    }

    /// The largest page that a Linux kernel for this machine may use: segments are laid out for it.
    pub(crate) fn max_page(self) -> u64 {
        match self {
            Machine::X86_64 => 0x1000,
            Machine::Aarch64 => 0x1_0000,
        }
    }

    /// The number in `e_machine`.
    pub(crate) fn number(self) -> elf::Machine {
        match self {
            Machine::X86_64 => elf::EM_X86_64,
            Machine::Aarch64 => elf::EM_AARCH64,
        }
    }
}

/// What a recipe is written for: any machine, class and byte order. Code that runs is there for [`Machine`]s and i386;
/// files for others are to be read, not run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Target {
    /// EM_*.
    pub machine: u16,
    /// ELFCLASS64.
    pub is_64: bool,
    /// ELFDATA2MSB.
    pub big_endian: bool,
    /// `e_flags`.
    pub flags: u32,
}

impl Target {
    /// A machine with the class, byte order and no flags.
    pub const fn new(machine: elf::Machine, is_64: bool, big_endian: bool) -> Target {
        Target { machine: machine.0, is_64, big_endian, flags: 0 }
    }

    /// True where the machine's ABI stores addends in the places that are relocated.
    pub(crate) fn uses_rel(self) -> bool {
        [elf::EM_386, elf::EM_ARM, elf::EM_MIPS].iter().any(|m| m.0 == self.machine)
    }

    /// Alignment of segments: the largest page that kernels for the machine use.
    pub(crate) fn max_page(self) -> u64 {
        let small = [elf::EM_X86_64, elf::EM_386, elf::EM_RISCV, elf::EM_S390];
        if small.iter().any(|m| m.0 == self.machine) { 0x1000 } else { 0x1_0000 }
    }

    /// Size of an address.
    pub(crate) fn word(self) -> u64 {
        if self.is_64 { 8 } else { 4 }
    }
}

impl From<Machine> for Target {
    fn from(machine: Machine) -> Target {
        Target::new(machine.number(), true, false)
    }
}
