//! Small ELF files written from a description: the control that gives every measurement its floor, programs with
//! chosen load work for the host model, and fixtures with the same bytes on every machine for the tests.
//!
//! They are written with `object`'s raw structures, without a toolchain and without section headers: kernel and
//! loaders read neither names nor sections.

#![deny(clippy::indexing_slicing, clippy::arithmetic_side_effects, clippy::unwrap_used)]

mod control;

pub use control::control;

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
    pub(crate) fn number(self) -> object::elf::Machine {
        match self {
            Machine::X86_64 => object::elf::EM_X86_64,
            Machine::Aarch64 => object::elf::EM_AARCH64,
        }
    }
}
