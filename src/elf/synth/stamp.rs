//! A program that tells when the loader handed over to it, and does nothing else.
//!
//! Its entry point reads `CLOCK_MONOTONIC`, writes the `struct timespec` to descriptor 0 at offset 0 (a memory file that
//! the measuring side gave it as standard input) and exits. So the span from execve to the entry point is known without
//! a tracer and without what ends a process in it.

#![deny(clippy::indexing_slicing, clippy::arithmetic_side_effects, clippy::unwrap_used)]

use super::Machine;
use crate::elf::image::Image;
use crate::error::{Context, Error, Result};

/// Bytes that the stamping code needs at the entry point.
pub const STAMP_BYTES: usize = 64;

/// Machine code of `clock_gettime(CLOCK_MONOTONIC, sp); pwrite64(0, sp, 16, 0); exit_group(0)`.
fn code(machine: Machine) -> &'static [u8] {
    match machine {
        // sub rsp,32; mov edi,1; mov rsi,rsp; mov eax,228; syscall; xor edi,edi; mov rsi,rsp; mov edx,16; xor r10d,r10d;
        // mov eax,18; syscall; xor edi,edi; mov eax,231; syscall
        Machine::X86_64 => &[
            0x48, 0x83, 0xec, 0x20, 0xbf, 1, 0, 0, 0, 0x48, 0x89, 0xe6, 0xb8, 0xe4, 0, 0, 0, 0x0f, 0x05, 0x31, 0xff,
            0x48, 0x89, 0xe6, 0xba, 16, 0, 0, 0, 0x45, 0x31, 0xd2, 0xb8, 18, 0, 0, 0, 0x0f, 0x05, 0x31, 0xff, 0xb8,
            0xe7, 0, 0, 0, 0x0f, 0x05,
        ],
        // sub sp,sp,#32; mov x0,#1; mov x1,sp; mov x8,#113; svc; mov x0,#0; mov x1,sp; mov x2,#16; mov x3,#0;
        // mov x8,#68; svc; mov x0,#0; mov x8,#94; svc
        Machine::Aarch64 => &[
            0xff, 0x83, 0x00, 0xd1, 0x20, 0x00, 0x80, 0xd2, 0xe1, 0x03, 0x00, 0x91, 0x28, 0x0e, 0x80, 0xd2, 0x01, 0, 0,
            0xd4, 0x00, 0x00, 0x80, 0xd2, 0xe1, 0x03, 0x00, 0x91, 0x02, 0x02, 0x80, 0xd2, 0x03, 0x00, 0x80, 0xd2, 0x88,
            0x08, 0x80, 0xd2, 0x01, 0, 0, 0xd4, 0x00, 0x00, 0x80, 0xd2, 0xc8, 0x0b, 0x80, 0xd2, 0x01, 0, 0, 0xd4,
        ],
    }
}

/// A copy of a program whose entry point stamps and exits. What comes after the entry point never runs.
///
/// # Errors
/// Where the file is not a program of this machine, or its entry point does not lie in the file.
pub fn stamped(bytes: &[u8], machine: Machine) -> Result<Vec<u8>> {
    let image = Image::parse(bytes)?;
    if image.machine() != machine.number().0 || !image.is_64() {
        return Err(Error::new("a program for another machine"));
    }
    let entry = image.entry();
    let inside = |s: &&crate::elf::image::Segment| s.is_executable() && s.contains(entry);
    let segment = image.loads().iter().find(inside).context(|| "the entry point lies in no executable segment")?;
    let at = entry.saturating_sub(segment.vaddr).saturating_add(segment.offset);
    let code = code(machine);
    let at = usize::try_from(at).map_err(|_| Error::new("the entry point lies past the file's end"))?;
    let mut copy = bytes.to_vec();
    copy.get_mut(at..at.saturating_add(code.len()))
        .context(|| "the entry point lies past the file's end")?
        .copy_from_slice(code);
    Ok(copy)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::elf::synth::Recipe;

    #[test]
    fn the_code_fits_between_entry_and_the_next_function() {
        for machine in [Machine::X86_64, Machine::Aarch64] {
            assert!(code(machine).len() <= STAMP_BYTES);
            let plain = Recipe::program(machine.into()).build();
            let copy = stamped(&plain, machine).unwrap();
            let changed: Vec<usize> = (0..plain.len()).filter(|i| plain[*i] != copy[*i]).collect();
            assert!(changed.last().unwrap() - changed[0] < STAMP_BYTES);
        }
    }

    #[test]
    fn what_has_no_entry_is_refused() {
        assert!(stamped(b"#!/bin/sh\n", Machine::X86_64).is_err());
        let library = Recipe::library(Machine::X86_64.into(), "x.so").build();
        assert!(stamped(&library, Machine::X86_64).is_err());
        let arm = Recipe::program(Machine::Aarch64.into()).build();
        assert!(stamped(&arm, Machine::X86_64).is_err());
    }
}
