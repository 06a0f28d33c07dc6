//! x86-64: registers as ptrace shows them, and the breakpoint.

pub(crate) use super::x86_64_syscalls::SYSCALLS;

/// General registers (NT_PRSTATUS).
pub(crate) type Registers = libc::user_regs_struct;

/// `int3`.
pub(crate) const BREAKPOINT: &[u8] = &[0xcc];

/// The trap is reported with the program counter behind the instruction: this far.
pub(crate) const PC_BEHIND_BREAKPOINT: u64 = 1;

/// Program counter.
pub(crate) fn pc(r: &Registers) -> u64 {
    r.rip
}

/// Moves the program counter.
pub(crate) fn set_pc(r: &mut Registers, pc: u64) {
    r.rip = pc;
}

/// Stack pointer.
pub(crate) fn sp(r: &Registers) -> u64 {
    r.rsp
}

/// The first integer argument at a function's first instruction (System V ABI).
pub(crate) fn first_argument(r: &Registers) -> u64 {
    r.rdi
}

/// Bytes of one word of this program: the code segment tells 64-bit code from 32-bit code.
pub(crate) fn word_bytes(r: &Registers) -> usize {
    // __USER32_CS of arch/x86/include/asm/segment.h.
    const USER32_CS: u64 = 0x23;
    if r.cs == USER32_CS { 4 } else { 8 }
}
