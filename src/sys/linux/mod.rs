//! The Linux half of `sys`.

#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
pub mod arch;
pub mod cpuid;
pub mod host;
pub mod orphans;
pub mod perf;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
pub mod ptrace;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
pub use ptrace as probe;

use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::raw::{c_int, c_void};
use std::ptr;

use crate::error::{Context, Error, Result};
use crate::sys::child::{ChildPlan, child_main};
use crate::sys::process::{Program, Target};
use crate::sys::ret::{cvt, cvt_long, errno};
use crate::sys::start::{Method, StartFailure};

/// What starting without a copy is called here.
pub(crate) const VFORK_NAME: &str = "vfork";

/// The clock of every timestamp.
pub(crate) const CLOCK: libc::clockid_t = libc::CLOCK_MONOTONIC;

pub(crate) use libc::__errno_location as errno_location;
pub(crate) use orphans::reap_orphans;

/// The system does not examine a file when it is first executed.
pub const SCANS_NEW_FILES: bool = false;

/// A program of the system's to stand for the control: not needed here, we write a smaller one.
pub fn system_control() -> Option<&'static std::path::Path> {
    None
}

/// Bytes of stack for a vforked child: it only makes system calls.
const CHILD_STACK: usize = 32 * 1024;

/// Both ends of a pipe, closed on exec: read, write.
pub(crate) fn pipe_cloexec() -> Result<(OwnedFd, OwnedFd)> {
    let mut fds = [0; 2];
    // SAFETY: pipe2 fills an array of two ints.
    cvt(unsafe { libc::pipe2(fds.as_mut_ptr(), libc::O_CLOEXEC) })?;
    // SAFETY: both descriptors were just made and have no other owner.
    let [read, write] = fds.map(|fd| unsafe { OwnedFd::from_raw_fd(fd) });
    Ok((read, write))
}

/// Both sides of a new pseudo-terminal, closed on exec: ours, the program's.
pub(crate) fn pseudo_terminal() -> Result<(OwnedFd, OwnedFd)> {
    /// ioctl number of TIOCGPTPEER (Linux 4.13): the other side without looking for it in /dev/pts.
    const TIOCGPTPEER: libc::c_ulong = 0x5441;
    let flags = libc::O_RDWR | libc::O_NOCTTY | libc::O_CLOEXEC;
    // SAFETY: the path is NUL-terminated.
    let ours = cvt(unsafe { libc::open(c"/dev/ptmx".as_ptr(), flags) }).context(|| "/dev/ptmx")?;
    // SAFETY: `ours` was just made and has no other owner.
    let ours = unsafe { OwnedFd::from_raw_fd(ours) };
    let unlocked: c_int = 0;
    // SAFETY: TIOCSPTLCK reads an int.
    cvt(unsafe { libc::ioctl(ours.as_raw_fd(), libc::TIOCSPTLCK as _, &raw const unlocked) })?;
    // SAFETY: TIOCGPTPEER takes open flags and returns a new descriptor.
    let theirs = cvt(unsafe { libc::ioctl(ours.as_raw_fd(), TIOCGPTPEER as _, flags) })?;
    // SAFETY: `theirs` was just made and has no other owner.
    Ok((ours, unsafe { OwnedFd::from_raw_fd(theirs) }))
}

/// What is made before the clock is read: nothing here but the choice itself.
pub(crate) struct Ready {
    method: Method,
}

/// Prepares what `spawn` needs, outside of the timed window.
#[allow(clippy::unnecessary_wraps)] // reason: the other systems' half can fail.
pub(crate) fn ready(method: Method, _plan: &ChildPlan<'_>) -> Result<Ready> {
    Ok(Ready { method })
}

/// Makes the child. Returns its pid and, where `plan.watched` and on Linux 5.2 and later, a descriptor that turns
/// readable at its end.
pub(crate) fn spawn(ready: Ready, plan: &ChildPlan<'_>) -> Result<(i32, Option<OwnedFd>), StartFailure> {
    let mut pidfd: RawFd = -1;
    let pid = match ready.method {
        Method::Fork => fork(plan, &mut pidfd),
        Method::Vfork => vfork(plan, &mut pidfd),
    }
    .context(|| "cannot fork")?;
    // SAFETY: the kernel just made `pidfd` for us; it has no other owner.
    let exit = (pidfd >= 0).then(|| unsafe { OwnedFd::from_raw_fd(pidfd) });
    Ok((pid, exit))
}

fn pidfd_flag(plan: &ChildPlan<'_>) -> c_int {
    if plan.watched { libc::CLONE_PIDFD } else { 0 }
}

fn fork(plan: &ChildPlan<'_>, pidfd: &mut RawFd) -> Result<i32> {
    let flags = libc::c_long::from(libc::SIGCHLD | pidfd_flag(plan));
    // The system call rather than libc's fork: that one runs handlers and takes locks, and cannot give a pidfd.
    // With a null stack the child goes on with a copy of ours; the last two arguments are unused under these flags,
    // so their order, which differs between architectures, does not matter.
    // SAFETY: `pidfd` is a live int; without CLONE_VM the child gets a copy of everything.
    let pid = cvt_long(unsafe { libc::syscall(libc::SYS_clone, flags, 0, ptr::from_mut(pidfd), 0, 0) })?;
    if pid == 0 {
        // SAFETY: we are the forked child, with copies of all that `plan` points to.
        unsafe { child_main(plan) }
    }
    i32::try_from(pid).map_err(|_| Error::new("pid out of range"))
}

extern "C" fn vforked(plan: *mut c_void) -> c_int {
    // SAFETY: `plan` is the parent's ChildPlan; the parent sleeps until we exec or exit, so it is alive.
    let plan = unsafe { &*plan.cast::<ChildPlan<'_>>() };
    // SAFETY: we are the vforked child, on the stack that `vfork` made.
    unsafe { child_main(plan) }
}

fn vfork(plan: &ChildPlan<'_>, pidfd: &mut RawFd) -> Result<i32> {
    // One page-aligned array in the parent's frame: with CLONE_VFORK the parent does not return while it is in use.
    #[repr(align(16))]
    struct Stack {
        _bytes: [u8; CHILD_STACK],
    }
    let mut stack = std::mem::MaybeUninit::<Stack>::uninit();
    let flags = libc::SIGCHLD | pidfd_flag(plan) | libc::CLONE_VM | libc::CLONE_VFORK;
    // SAFETY: one past the end of the array is a valid address to compute; the stack grows down into it.
    let top = unsafe { stack.as_mut_ptr().add(1) }.cast::<c_void>();
    let arg = ptr::from_ref(plan).cast_mut().cast::<c_void>();
    // SAFETY: the child runs `vforked` on `stack`, which outlives it: we return only after its exec or exit.
    cvt(unsafe { libc::clone(vforked, top, flags, arg, ptr::from_mut(pidfd)) })
}

/// execve, or execveat for an open file. Returns only on failure, with errno set.
///
/// # Safety
/// As for `child_main`.
pub(crate) unsafe fn exec(program: &Program) {
    let (argv, envp) = (program.argv.as_ptr(), program.envp.as_ptr());
    match &program.target {
        // SAFETY: path and arrays are NUL-terminated and alive.
        Target::Path(path) => unsafe { libc::execve(path.as_ptr(), argv, envp) },
        Target::File(fd) => {
            let (fd, flags) = (fd.as_raw_fd(), libc::AT_EMPTY_PATH);
            // SAFETY: as above; the empty path with AT_EMPTY_PATH names the descriptor itself.
            let done = unsafe { libc::syscall(libc::SYS_execveat, fd, c"".as_ptr(), argv, envp, flags) };
            done as i32
        }
    };
}

/// Bytes of arguments and environment that exec takes: a quarter of the stack's limit within 128 KiB and 6 MiB
/// (fs/exec.c, bprm_stack_limits). musl's sysconf answers with a constant, so the limit itself is asked.
pub(crate) fn argument_limit() -> Option<u64> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the pointer is to a live local of the right type.
    let failed = unsafe { libc::getrlimit(libc::RLIMIT_STACK, &raw mut limit) };
    (failed == 0).then(|| (limit.rlim_cur / 4).clamp(128 << 10, 6 << 20))
}

/// Pins the calling process to one processor. Async-signal-safe.
pub(crate) fn pin_to_cpu(cpu: usize) -> bool {
    if cpu >= libc::CPU_SETSIZE as usize {
        return false;
    }
    // SAFETY: cpu_set_t is plain data for which all zeroes is a value.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: `cpu` is below CPU_SETSIZE.
    unsafe { libc::CPU_SET(cpu, &mut set) };
    // SAFETY: the set is a live local of the size given.
    unsafe { libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &raw const set) == 0 }
}

/// Moves the calling process off processor `cpu`, where it may run on another; that `cpu` may be used is checked.
///
/// # Errors
/// Where this process may not run on `cpu` at all, so that no child of it could.
pub fn stay_off_cpu(cpu: usize) -> Result<()> {
    // SAFETY: cpu_set_t is plain data for which all zeroes is a value.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: the set is a live local of the size given.
    cvt(unsafe { libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &raw mut set) })?;
    // SAFETY: `cpu` is below CPU_SETSIZE where this is asked.
    if cpu >= libc::CPU_SETSIZE as usize || !unsafe { libc::CPU_ISSET(cpu, &set) } {
        return Err(Error::new("no such processor, or not ours to use"));
    }
    // SAFETY: as above.
    unsafe { libc::CPU_CLR(cpu, &mut set) };
    // SAFETY: reads a live local.
    if unsafe { libc::CPU_COUNT(&set) } > 0 {
        // SAFETY: the set is a live local of the size given.
        cvt(unsafe { libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &raw const set) })?;
    }
    Ok(())
}

/// An executable file that needs no file system: a sealed memfd holding `bytes`.
///
/// # Errors
/// Where the kernel has no memfd or forbids executing one.
pub fn program_file(name: &std::ffi::CStr, bytes: &[u8]) -> Result<OwnedFd> {
    const MFD_EXEC: libc::c_uint = 0x10;
    let flags = libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING;
    // Kernels before 6.3 do not know MFD_EXEC and refuse it.
    // SAFETY: the name is NUL-terminated.
    let fd = cvt(unsafe { libc::memfd_create(name.as_ptr(), flags | MFD_EXEC) })
        // SAFETY: as above.
        .or_else(|_| cvt(unsafe { libc::memfd_create(name.as_ptr(), flags) }))
        .context(|| "cannot make a memory file")?;
    // SAFETY: `fd` was just made and has no other owner.
    let fd = unsafe { OwnedFd::from_raw_fd(fd) };
    let mut file = std::fs::File::from(fd);
    std::io::Write::write_all(&mut file, bytes).context(|| "cannot write a memory file")?;
    let seals = libc::F_SEAL_WRITE | libc::F_SEAL_SHRINK | libc::F_SEAL_GROW | libc::F_SEAL_SEAL;
    // SAFETY: the descriptor is open; F_ADD_SEALS takes an int.
    cvt(unsafe { libc::fcntl(file.as_raw_fd(), libc::F_ADD_SEALS, seals) }).context(|| "cannot seal a memory file")?;
    Ok(file.into())
}

/// A growing store outside our address space for what is collected while we measure: a memory file, or where there is
/// none (an old seccomp profile) a temporary file that has no name any more.
///
/// # Errors
/// Where no temporary directory takes a file either.
pub fn memory_file(name: &std::ffi::CStr) -> Result<std::fs::File> {
    // SAFETY: the name is NUL-terminated.
    let fd = unsafe { libc::memfd_create(name.as_ptr(), libc::MFD_CLOEXEC) };
    if fd < 0 {
        let why = Error::from_errno(errno());
        return crate::sys::file::unnamed(name).map_err(|_| why.context("cannot make a memory file"));
    }
    // SAFETY: `fd` was just made and has no other owner.
    Ok(std::fs::File::from(unsafe { OwnedFd::from_raw_fd(fd) }))
}
