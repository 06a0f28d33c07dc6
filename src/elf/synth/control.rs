//! The control: the smallest program that can exit. No libc, no loader, no relocation, one system call; what it
//! costs is what kernel and measurement cost, and nothing can be started faster on this host.

use object::LittleEndian;
use object::elf::{
    ELFCLASS64, ELFDATA2LSB, ELFMAG, ELFOSABI_NONE, ET_EXEC, EV_CURRENT, FileFlags, FileHeader64, Ident, PF_R, PF_W,
    PF_X, PT_GNU_STACK, PT_LOAD, ProgramHeader64, SymbolSection,
};
use object::endian::{U16, U32, U64};
use object::pod::bytes_of;

use super::Machine;

const LE: LittleEndian = LittleEndian;
/// Two program headers: the image, and a stack that is not executable (without it, kernels map more as executable).
const SEGMENTS: u16 = 2;
const HEADERS: u64 = 64 + 2 * 56;
const BASE: u64 = 0x40_0000;

/// Where in the control's file its first instruction lies.
pub const CONTROL_ENTRY: u64 = HEADERS;

/// The bytes of a static executable that calls `exit_group(0)` and nothing else.
pub fn control(machine: Machine) -> Vec<u8> {
    let code = exit_group(machine);
    let size = HEADERS.saturating_add(code.len() as u64);
    let image = ProgramHeader64 {
        p_type: U32::new(LE, PT_LOAD),
        p_flags: U32::new(LE, PF_R | PF_X),
        p_offset: U64::new(LE, 0),
        p_vaddr: U64::new(LE, BASE),
        p_paddr: U64::new(LE, BASE),
        p_filesz: U64::new(LE, size),
        p_memsz: U64::new(LE, size),
        p_align: U64::new(LE, machine.max_page()),
    };
    let stack = ProgramHeader64 {
        p_type: U32::new(LE, PT_GNU_STACK),
        p_flags: U32::new(LE, PF_R | PF_W),
        p_offset: U64::new(LE, 0),
        p_vaddr: U64::new(LE, 0),
        p_paddr: U64::new(LE, 0),
        p_filesz: U64::new(LE, 0),
        p_memsz: U64::new(LE, 0),
        p_align: U64::new(LE, 16),
    };
    let mut bytes = bytes_of(&header(machine)).to_vec();
    bytes.extend_from_slice(bytes_of(&image));
    bytes.extend_from_slice(bytes_of(&stack));
    bytes.extend_from_slice(code);
    bytes
}

fn header(machine: Machine) -> FileHeader64<LittleEndian> {
    FileHeader64 {
        e_ident: Ident {
            magic: ELFMAG,
            class: ELFCLASS64,
            data: ELFDATA2LSB,
            version: EV_CURRENT,
            os_abi: ELFOSABI_NONE,
            abi_version: 0,
            padding: [0; 7],
        },
        e_type: U16::new(LE, ET_EXEC),
        e_machine: U16::new(LE, machine.number()),
        e_version: U32::new(LE, 1),
        e_entry: U64::new(LE, BASE.saturating_add(HEADERS)),
        e_phoff: U64::new(LE, 64),
        e_shoff: U64::new(LE, 0),
        e_flags: U32::new(LE, FileFlags(0)),
        e_ehsize: U16::new(LE, 64),
        e_phentsize: U16::new(LE, 56),
        e_phnum: U16::new(LE, SEGMENTS),
        e_shentsize: U16::new(LE, 0),
        e_shnum: U16::new(LE, 0),
        e_shstrndx: U16::new(LE, SymbolSection(0)),
    }
}

/// Machine code of `exit_group(0)`; the call's numbers are those of the kernel's tables for each machine.
pub(super) fn exit_group(machine: Machine) -> &'static [u8] {
    match machine {
        // mov eax, 231; xor edi, edi; syscall
        Machine::X86_64 => &[0xb8, 0xe7, 0, 0, 0, 0x31, 0xff, 0x0f, 0x05],
        // mov x8, #94; mov x0, #0; svc #0
        Machine::Aarch64 => &[0xc8, 0x0b, 0x80, 0xd2, 0, 0, 0x80, 0xd2, 0x01, 0, 0, 0xd4],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_control_is_a_header_two_segments_and_one_call() {
        let x86 = control(Machine::X86_64);
        assert_eq!(x86.len(), 185);
        assert_eq!(x86.get(..4), Some(&b"\x7fELF"[..]));
        assert!(x86.ends_with(&[0x0f, 0x05]));
        let arm = control(Machine::Aarch64);
        assert_eq!(arm.len(), 188);
        assert!(arm.ends_with(&[0x01, 0, 0, 0xd4]));
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn the_control_runs_here_and_exits_with_zero() {
        use std::os::unix::fs::PermissionsExt;
        let Some(machine) = Machine::host() else { return };
        let path = std::env::temp_dir().join(format!("premain-control-{}", std::process::id()));
        std::fs::write(&path, control(machine)).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        // Another test's fork may still hold the file open for writing.
        let status = loop {
            match std::process::Command::new(&path).status() {
                Err(e) if e.kind() == std::io::ErrorKind::ExecutableFileBusy => std::thread::yield_now(),
                status => break status,
            }
        };
        std::fs::remove_file(&path).unwrap();
        assert_eq!(status.unwrap().code(), Some(0));
    }
}
