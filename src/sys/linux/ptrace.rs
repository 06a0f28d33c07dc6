//! Stopping and looking at a program while it runs: ptrace in safe words.
//!
//! Everything here belongs to the thread that started the tracee: the kernel refuses any other. Tracees are
//! seized rather than made to ask for it, since only then can a program that stops itself stay stopped, and
//! they die with us (EXITKILL).

use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;

use crate::sys::child::{ChildPlan, ChildReport, child_main};
use crate::sys::clock::now_ns;
use crate::sys::linux::arch::{self, Registers};
use crate::sys::process::{Program, Stdin};
use crate::sys::ret::errno;
use crate::sys::shared::SharedMemory;
use crate::sys::wait::{Usage, WaitStatus};

/// Not in every libc: asm-generic/ptrace-abi and linux/ptrace.h.
const PTRACE_GET_SYSCALL_INFO: Request = 0x420e;

/// The type of ptrace's first argument, which each libc declares as it likes.
#[cfg(target_env = "musl")]
type Request = libc::c_int;
#[cfg(not(target_env = "musl"))]
type Request = libc::c_uint;
const PTRACE_EVENT_STOP: i32 = 128;
const NT_PRSTATUS: usize = 1;
/// audit's word for this processor's 64-bit calls (linux/audit.h).
const NATIVE_ARCH: u32 = if cfg!(target_arch = "aarch64") { 0xc000_00b7 } else { 0xc000_003e };

/// One stop of one task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stop {
    /// A new image is in place and has run no instruction; the task had the id `former` before.
    Exec {
        /// Its id before exec: another where a thread that is not the first one called it.
        former: i32,
    },
    /// A new task was made: by fork, vfork, or clone (a thread, mostly).
    NewTask(i32),
    /// A vfork ended, as far as the parent is concerned.
    VforkDone,
    /// The task is about to end; its memory is still there.
    Exiting,
    /// Entry or exit of a system call.
    Syscall,
    /// SIGTRAP: a breakpoint or a step, or the program's own.
    Trap,
    /// Any other signal about to be delivered: hand it on when resuming.
    Signal(i32),
    /// The whole process is stopped: let it stay so.
    Group,
    /// First stop of a task that is traced because its parent is.
    Attached,
}

/// What waiting found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Waited {
    /// A task stopped.
    Stopped(i32, Stop),
    /// A task ended.
    Ended(i32, WaitStatus, Usage),
    /// Nothing is left to wait for.
    NoChild,
    /// A signal to us came first.
    Interrupted,
}

/// How a stopped task goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Resume {
    /// Until the next event.
    Continue,
    /// Until the next event, or entry or exit of a system call.
    ToSyscall,
    /// One instruction.
    Step,
    /// Stay stopped with the group, until SIGCONT.
    Listen,
}

/// A system call stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SyscallStop {
    /// About to run.
    Entry {
        /// Its number, and whether it is of this processor's 64-bit kind.
        number: u64,
        /// False for 32-bit programs: other numbers.
        native: bool,
        /// Arguments.
        args: [u64; 6],
        /// Program counter, behind the instruction.
        pc: u64,
    },
    /// Done.
    Exit {
        /// What it returned: negative errno where it failed.
        result: i64,
        /// It failed.
        failed: bool,
    },
}

/// Times that the child stamped itself, before exec.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChildStamps {
    /// Its first instruction.
    pub born: u64,
    /// Let go on, after we seized it: what lies between is our doing.
    pub released: u64,
    /// Just before execve; 0 where it did not come to it.
    pub exec: u64,
    /// errno of a failed exec; 0 where it succeeded.
    pub errno: i32,
}

/// What the child writes, in memory shared with us.
#[repr(C)]
struct ProbedReport {
    child: ChildReport,
    born: u64,
    released: u64,
}

/// A probed command: forked, and held before its exec until it is released.
#[derive(Debug)]
pub struct Probed {
    pid: i32,
    t0: u64,
    memory: SharedMemory,
    /// Our end of the gate: one byte opens it, closing it sends the child away.
    key: Option<UnixStream>,
}

/// Where a probed command's standard streams go.
#[derive(Debug, Clone, Copy)]
pub struct Streams<'a> {
    /// `/dev/null`, open for reading and writing.
    pub null: &'a OwnedFd,
    /// Standard output.
    pub stdout: &'a OwnedFd,
    /// Standard error.
    pub stderr: &'a OwnedFd,
}

impl Probed {
    /// Forks; returns once the child waits at its gate. (We sleep meanwhile: what we did instead would delay its
    /// first instruction on a busy machine, as it is not delayed in a timed start.)
    ///
    /// # Errors
    /// Where no child can be made.
    pub fn fork(program: &Program, streams: Streams<'_>) -> io::Result<Probed> {
        let system = |e: crate::error::Error| io::Error::other(e.to_string());
        let memory = SharedMemory::new(size_of::<ProbedReport>()).map_err(system)?;
        let (mut key, gate) = UnixStream::pair()?;
        let plan = ChildPlan {
            program,
            stdin: match &program.stdin {
                Stdin::Null => streams.null.as_raw_fd(),
                Stdin::Inherit => 0,
                Stdin::File(fd) => rewound(fd),
            },
            stdout: streams.stdout.as_raw_fd(),
            stderr: streams.stderr.as_raw_fd(),
            report: memory.start().cast::<ChildReport>(),
            terminal: false,
            watched: false,
            gate: None,
        };
        let t0 = now_ns();
        let pid = fork_held(&plan, gate.as_raw_fd(), key.as_raw_fd(), &memory)?;
        drop(gate);
        let arrived = key.read_exact(&mut [0]);
        let probed = Probed { pid, t0, memory, key: Some(key) };
        arrived.map(|()| probed)
    }

    /// Traces the child, and with it all its later threads and children.
    ///
    /// # Errors
    /// The system does not let us: seccomp, a security module, or another tracer.
    pub fn seize(&self) -> io::Result<()> {
        seize_task(self.pid)
    }

    /// Lets the child go on to its exec.
    ///
    /// # Errors
    /// Where the gate cannot be opened.
    pub fn release(&mut self) -> io::Result<()> {
        match self.key.take() {
            Some(mut key) => key.write_all(&[1]),
            None => Ok(()),
        }
    }

    /// Its process id, which is also that of its first thread.
    pub fn pid(&self) -> i32 {
        self.pid
    }

    /// Our clock just before the fork.
    pub fn t0(&self) -> u64 {
        self.t0
    }

    /// What the child stamped so far.
    pub fn stamps(&self) -> ChildStamps {
        // SAFETY: the mapping starts page-aligned, is long enough and was zeroed: a valid ProbedReport, whose numbers
        // are valid whatever the child writes; volatile, since it may be writing now.
        let report = unsafe { self.memory.start().cast::<ProbedReport>().read_volatile() };
        let ProbedReport { child, born, released } = report;
        ChildStamps { born, released, exec: child.t_exec, errno: child.errno }
    }
}

impl Drop for Probed {
    fn drop(&mut self) {
        // Never released: the gate closes, the child leaves, and is no zombie.
        if self.key.take().is_some() {
            let _ = wait_for(self.pid);
        }
    }
}

fn rewound(fd: &OwnedFd) -> RawFd {
    // SAFETY: lseek takes no pointers; a stream that cannot seek is fed as it comes.
    unsafe { libc::lseek(fd.as_raw_fd(), 0, libc::SEEK_SET) };
    fd.as_raw_fd()
}

/// Forks a child that waits for one byte on `gate` before it goes on to exec.
fn fork_held(plan: &ChildPlan<'_>, gate: RawFd, key: RawFd, memory: &SharedMemory) -> io::Result<i32> {
    let report = memory.start().cast::<ProbedReport>();
    // The system call rather than libc's fork, as in `sys::start`.
    // SAFETY: without CLONE_VM the child gets a copy of everything; no pointer is passed.
    let pid = unsafe { libc::syscall(libc::SYS_clone, libc::c_long::from(libc::SIGCHLD), 0, 0, 0, 0) };
    if pid == 0 {
        #[allow(clippy::multiple_unsafe_ops_per_block)] // reason: one reviewed unit, each line a plain system call
        // SAFETY: we are the forked child; the report is shared memory that outlives us; only system calls follow.
        unsafe {
            (*report).born = now_ns();
            // Else our own copy of the other end would keep the gate from ever closing.
            libc::close(key);
            let mut byte = 0u8;
            libc::write(gate, (&raw const byte).cast(), 1);
            if libc::read(gate, (&raw mut byte).cast(), 1) != 1 {
                libc::_exit(127);
            }
            (*report).released = now_ns();
            child_main(plan)
        }
    }
    if pid < 0 { Err(io::Error::last_os_error()) } else { Ok(pid as i32) }
}

fn seize_task(pid: i32) -> io::Result<()> {
    let options = libc::PTRACE_O_TRACESYSGOOD
        | libc::PTRACE_O_TRACECLONE
        | libc::PTRACE_O_TRACEFORK
        | libc::PTRACE_O_TRACEVFORK
        | libc::PTRACE_O_TRACEVFORKDONE
        | libc::PTRACE_O_TRACEEXEC
        | libc::PTRACE_O_TRACEEXIT
        | libc::PTRACE_O_EXITKILL;
    request(libc::PTRACE_SEIZE, pid, 0, options as usize)
}

/// A ptrace request whose answer is only success or errno.
fn request(what: Request, tid: i32, addr: usize, data: usize) -> io::Result<()> {
    // SAFETY: the requests made here take numbers, or (GETREGSET and its like) a pointer that their caller vouches for.
    match unsafe { libc::ptrace(what, tid, addr, data) } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

/// Waits for any child or tracee of this thread.
///
/// # Errors
/// The system's reason, outside of the ordinary outcomes.
pub fn wait_any() -> io::Result<Waited> {
    wait_for(-1)
}

fn wait_for(pid: i32) -> io::Result<Waited> {
    wait_flags(pid, 0)
}

/// The same for one child, without sleeping: `None` while it runs.
///
/// # Errors
/// As [`wait_any`].
pub fn try_wait(pid: i32) -> io::Result<Option<Waited>> {
    match wait_flags(pid, libc::WNOHANG)? {
        Waited::NoChild => Ok(None),
        other => Ok(Some(other)),
    }
}

fn wait_flags(pid: i32, flags: i32) -> io::Result<Waited> {
    let mut status = 0;
    // SAFETY: rusage is plain data for which all zeroes is a value.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // __WNOTHREAD: other threads of this process may have children of their own, which are not ours to reap.
    let flags = flags | libc::__WALL | libc::__WNOTHREAD;
    // SAFETY: both pointers are to live locals of the right type.
    let tid = unsafe { libc::wait4(pid, &raw mut status, flags, &raw mut usage) };
    if tid == 0 {
        return Ok(Waited::NoChild);
    }
    if tid < 0 {
        return match errno() {
            libc::EINTR => Ok(Waited::Interrupted),
            libc::ECHILD => Ok(Waited::NoChild),
            _ => Err(io::Error::last_os_error()),
        };
    }
    let status = WaitStatus(status);
    let Some(signal) = status.stop_signal() else {
        return Ok(Waited::Ended(tid, status, Usage::from(&usage)));
    };
    Ok(Waited::Stopped(tid, decode_stop(tid, status.0 >> 16, signal)))
}

fn decode_stop(tid: i32, event: i32, signal: i32) -> Stop {
    match event {
        libc::PTRACE_EVENT_FORK | libc::PTRACE_EVENT_VFORK | libc::PTRACE_EVENT_CLONE => {
            Stop::NewTask(event_message(tid) as i32)
        }
        libc::PTRACE_EVENT_EXEC => Stop::Exec { former: event_message(tid) as i32 },
        libc::PTRACE_EVENT_VFORK_DONE => Stop::VforkDone,
        libc::PTRACE_EVENT_EXIT => Stop::Exiting,
        PTRACE_EVENT_STOP if signal == libc::SIGTRAP => Stop::Attached,
        PTRACE_EVENT_STOP => Stop::Group,
        _ if signal == libc::SIGTRAP | 0x80 => Stop::Syscall,
        _ if signal == libc::SIGTRAP => Stop::Trap,
        _ => Stop::Signal(signal),
    }
}

fn event_message(tid: i32) -> u64 {
    let mut message: libc::c_ulong = 0;
    // A task killed meanwhile answers ESRCH; 0 is no task's id.
    let _ = request(libc::PTRACE_GETEVENTMSG, tid, 0, (&raw mut message) as usize);
    message
}

/// Lets a stopped task go on, delivering `signal` (0: none).
///
/// # Errors
/// ESRCH where it was killed meanwhile: its end will be reported by the next wait.
pub fn resume(tid: i32, how: Resume, signal: i32) -> io::Result<()> {
    let what = match how {
        Resume::Continue => libc::PTRACE_CONT,
        Resume::ToSyscall => libc::PTRACE_SYSCALL,
        Resume::Step => libc::PTRACE_SINGLESTEP,
        Resume::Listen => libc::PTRACE_LISTEN,
    };
    request(what, tid, 0, signal as usize)
}

/// The registers of a stopped task, opaque but for what tracing needs.
#[derive(Debug, Clone, Copy)]
pub struct TaskRegisters(Registers);

impl TaskRegisters {
    /// Program counter.
    pub fn pc(&self) -> u64 {
        arch::pc(&self.0)
    }

    /// Stack pointer.
    pub fn sp(&self) -> u64 {
        arch::sp(&self.0)
    }

    /// First argument, at a function's first instruction.
    pub fn first_argument(&self) -> u64 {
        arch::first_argument(&self.0)
    }

    /// Bytes of an address in this program.
    pub fn word_bytes(&self) -> usize {
        arch::word_bytes(&self.0)
    }

    /// Where the breakpoint lies that this trap came from.
    pub fn breakpoint(&self) -> u64 {
        self.pc().wrapping_sub(arch::PC_BEHIND_BREAKPOINT)
    }
}

/// Reads a stopped task's registers.
///
/// # Errors
/// ESRCH where it was killed meanwhile.
pub fn registers(tid: i32) -> io::Result<TaskRegisters> {
    // SAFETY: the register set is plain data for which all zeroes is a value.
    let mut r: Registers = unsafe { std::mem::zeroed() };
    let mut io = libc::iovec { iov_base: (&raw mut r).cast(), iov_len: size_of::<Registers>() };
    request(libc::PTRACE_GETREGSET, tid, NT_PRSTATUS, (&raw mut io) as usize)?;
    Ok(TaskRegisters(r))
}

/// Moves a stopped task's program counter.
///
/// # Errors
/// As [`registers`].
pub fn set_pc(tid: i32, registers: &TaskRegisters, pc: u64) -> io::Result<()> {
    let mut r = registers.0;
    arch::set_pc(&mut r, pc);
    let mut io = libc::iovec { iov_base: (&raw mut r).cast(), iov_len: size_of::<Registers>() };
    request(libc::PTRACE_SETREGSET, tid, NT_PRSTATUS, (&raw mut io) as usize)
}

/// What kind of system call stop this is; `None` where it is none, or the kernel (before 5.3) cannot tell.
pub fn syscall_stop(tid: i32) -> Option<SyscallStop> {
    // struct ptrace_syscall_info, linux/ptrace.h: op u8, pad, arch u32, ip u64, sp u64, then by kind.
    let mut info = [0u64; 11];
    let size = size_of_val(&info);
    request(PTRACE_GET_SYSCALL_INFO, tid, size, info.as_mut_ptr() as usize).ok()?;
    let [head, pc, _sp, first, a, b, c, d, e, f, _] = info;
    match head.to_ne_bytes()[0] {
        1 => {
            let native = (head >> 32) as u32 == NATIVE_ARCH;
            Some(SyscallStop::Entry { number: first, native, args: [a, b, c, d, e, f], pc })
        }
        2 => Some(SyscallStop::Exit { result: first as i64, failed: a.to_ne_bytes()[0] != 0 }),
        _ => None,
    }
}

/// Reads the tracee's memory from `addr` on; returns how many bytes were there.
pub fn read_memory(tid: i32, addr: u64, into: &mut [u8]) -> usize {
    let local = libc::iovec { iov_base: into.as_mut_ptr().cast(), iov_len: into.len() };
    let remote = libc::iovec { iov_base: addr as *mut libc::c_void, iov_len: into.len() };
    // SAFETY: the local vector is `into`, writable for its length; the remote one is checked by the kernel.
    let n = unsafe { libc::process_vm_readv(tid, &raw const local, 1, &raw const remote, 1, 0) };
    usize::try_from(n).unwrap_or_else(|_| peek(tid, addr, into))
}

/// Word by word, where process_vm_readv is refused.
fn peek(tid: i32, addr: u64, into: &mut [u8]) -> usize {
    let mut done = 0;
    for chunk in into.chunks_mut(size_of::<libc::c_long>()) {
        let mut word: libc::c_long = 0;
        // The raw call stores the word at `data`, where libc's wrapper would return it, errors and all.
        let (what, at, to) = (libc::PTRACE_PEEKDATA, addr.wrapping_add(done as u64), &raw mut word);
        // SAFETY: `to` is a live long; the address is checked by the kernel.
        if unsafe { libc::syscall(libc::SYS_ptrace, what, tid, at, to) } == -1 {
            return done;
        }
        let bytes = word.to_ne_bytes();
        chunk.copy_from_slice(&bytes[..chunk.len()]);
        done += chunk.len();
    }
    done
}

/// Writes at most one word into the tracee's memory, also where it may only be executed.
///
/// # Errors
/// The system's reason: no such address, or the task is gone.
pub fn write_memory(tid: i32, addr: u64, bytes: &[u8]) -> io::Result<()> {
    let mut word = [0u8; size_of::<libc::c_long>()];
    if bytes.len() > word.len() || read_memory(tid, addr, &mut word) != word.len() {
        return Err(io::Error::from_raw_os_error(libc::EFAULT));
    }
    word[..bytes.len()].copy_from_slice(bytes);
    request(libc::PTRACE_POKEDATA, tid, addr as usize, usize::from_ne_bytes(word))
}

/// A breakpoint in a tracee: the bytes that it replaced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Breakpoint {
    /// Its address.
    pub addr: u64,
    replaced: [u8; arch::BREAKPOINT.len()],
}

impl Breakpoint {
    /// Puts a breakpoint at `addr`.
    ///
    /// # Errors
    /// Where the address cannot be read or written.
    pub fn set(tid: i32, addr: u64) -> io::Result<Breakpoint> {
        let mut replaced = [0; arch::BREAKPOINT.len()];
        if read_memory(tid, addr, &mut replaced) != replaced.len() {
            return Err(io::Error::from_raw_os_error(libc::EFAULT));
        }
        write_memory(tid, addr, arch::BREAKPOINT)?;
        Ok(Breakpoint { addr, replaced })
    }

    /// Takes it away.
    ///
    /// # Errors
    /// As [`Breakpoint::set`].
    pub fn clear(&self, tid: i32) -> io::Result<()> {
        write_memory(tid, self.addr, &self.replaced)
    }
}

/// True where `tid` is a thread of the process `pid`. Needs no `/proc`.
pub fn is_thread_of(pid: i32, tid: i32) -> bool {
    // SAFETY: tgkill takes no pointers; signal 0 only asks whether that thread of that process exists.
    unsafe { libc::syscall(libc::SYS_tgkill, pid, tid, 0) == 0 }
}

/// How many threads a process has now, from the link count of its task directory; `None` where that is gone.
pub fn thread_count(pid: i32) -> Option<u64> {
    use std::os::linux::fs::MetadataExt;
    // proc_task_getattr adds the number of threads to the two links that any directory has.
    std::fs::metadata(format!("/proc/{pid}/task")).ok()?.st_nlink().checked_sub(2)
}
