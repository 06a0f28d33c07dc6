//! What differs between processors: registers, the breakpoint instruction, system call numbers.
//!
//! Both files have the same names. A processor without a file has no tracing, and says so.

#[cfg(target_arch = "aarch64")]
mod aarch64;
#[cfg(any(target_arch = "aarch64", test))]
mod aarch64_syscalls;
#[cfg(target_arch = "x86_64")]
mod x86_64;
#[cfg(any(target_arch = "x86_64", test))]
mod x86_64_syscalls;

#[cfg(target_arch = "aarch64")]
pub(crate) use aarch64::*;
#[cfg(target_arch = "x86_64")]
pub(crate) use x86_64::*;

/// A table of (number, name), ascending by number.
type Table = [(u16, &'static str)];

fn find(table: &Table, number: u64) -> Option<&'static str> {
    let number = u16::try_from(number).ok()?;
    let at = table.binary_search_by_key(&number, |(n, _)| *n).ok()?;
    table.get(at).map(|(_, name)| *name)
}

/// The name of a system call of a program built for this processor, 64 bit.
pub fn syscall_name(number: u64) -> Option<&'static str> {
    find(&SYSCALLS, number)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(table: &Table, some: &[(u64, &str)]) {
        assert!(table.windows(2).all(|w| w[0].0 < w[1].0), "ascending, no number twice");
        assert!(table.iter().all(|(_, name)| name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')));
        for (number, name) in some {
            assert_eq!(find(table, *number), Some(*name));
        }
        assert_eq!((find(table, 1000), find(table, u64::MAX)), (None, None));
    }

    #[test]
    fn both_tables_are_sorted_and_hold_known_calls() {
        let x = [(0, "read"), (59, "execve"), (231, "exit_group"), (257, "openat"), (334, "rseq"), (435, "clone3")];
        check(&x86_64_syscalls::SYSCALLS, &x);
        let a = [(63, "read"), (221, "execve"), (94, "exit_group"), (56, "openat"), (222, "mmap"), (435, "clone3")];
        check(&aarch64_syscalls::SYSCALLS, &a);
    }

    #[test]
    fn this_machine_agrees_with_libc() {
        for (number, name) in [
            (libc::SYS_openat, "openat"),
            (libc::SYS_mprotect, "mprotect"),
            (libc::SYS_exit_group, "exit_group"),
            (libc::SYS_futex_waitv, "futex_waitv"),
            (libc::SYS_newfstatat, "newfstatat"),
        ] {
            assert_eq!(syscall_name(number as u64), Some(name));
        }
    }
}
