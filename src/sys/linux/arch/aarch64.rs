//! aarch64: registers as ptrace shows them, and the breakpoint.

pub(crate) use super::aarch64_syscalls::SYSCALLS;

/// General registers (NT_PRSTATUS).
pub(crate) type Registers = libc::user_regs_struct;

/// `brk #0`, little-endian.
pub(crate) const BREAKPOINT: &[u8] = &[0x00, 0x00, 0x20, 0xd4];

/// The trap is reported with the program counter at the instruction itself.
pub(crate) const PC_BEHIND_BREAKPOINT: u64 = 0;

/// Program counter.
pub(crate) fn pc(r: &Registers) -> u64 {
    r.pc
}

/// Moves the program counter.
pub(crate) fn set_pc(r: &mut Registers, pc: u64) {
    r.pc = pc;
}

/// Stack pointer.
pub(crate) fn sp(r: &Registers) -> u64 {
    r.sp
}

/// The first integer argument at a function's first instruction (AAPCS64).
pub(crate) fn first_argument(r: &Registers) -> u64 {
    r.regs[0]
}

/// Bytes of one word of this program: PSTATE.nRW says AArch32.
pub(crate) fn word_bytes(r: &Registers) -> usize {
    if r.pstate & 0x10 != 0 { 4 } else { 8 }
}
