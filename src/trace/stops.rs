//! The ptrace back end: one start under trace, its stops turned into events.
//!
//! What the program does between two stops runs at full speed; the time in which we hold its first thread is
//! cut out of every time stamp. What cannot be cut out is the way into and out of each stop (a few µs in a virtual
//! machine): traced starts are slower, and by how much is always told.

use std::collections::HashMap;
use std::fs::File;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::error::{Context, Error, Exit, Result};
use crate::sys::clock::now_ns;
use crate::sys::keeper::{Keeper, above_standard};
use crate::sys::linux::arch::syscall_name;
use crate::sys::linux::ptrace::{
    self, Breakpoint, Probed, Resume, Stop, Streams, SyscallStop, Waited, registers, resume,
};
use crate::sys::process::Program;
use crate::sys::wait::{Usage, WaitStatus};
use crate::trace::event::{Event, Mapping, Mark, Prot, Syscall, What};
use crate::trace::locate::Locator;
use crate::trace::memory;
use crate::trace::recording::{NotTraced, Recording};

/// Which system calls stop the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Watch {
    /// Those of the loader, from exec until all objects are relocated: enough for phases.
    Loader,
    /// All, in every thread and child.
    All,
}

/// After the command's end, how long its children may go on before we end them.
const GRACE: Duration = Duration::from_millis(500);

/// Starts commands under ptrace. Belongs to the thread that made it.
#[derive(Debug)]
pub struct Tracer {
    null: OwnedFd,
    /// Files read so far.
    pub locator: Locator,
}

impl Tracer {
    /// Makes it ready.
    ///
    /// # Errors
    /// Where `/dev/null` cannot be opened.
    pub fn new() -> Result<Tracer> {
        let null = File::options().read(true).write(true).open("/dev/null").context(|| "/dev/null")?;
        Ok(Tracer { null: above_standard(null.into())?, locator: Locator::default() })
    }

    /// One start of `program`. `timeout_ns` ends it.
    ///
    /// # Errors
    /// [`NotTraced`].
    pub fn record(&mut self, program: &Program, watch: Watch, timeout_ns: Option<u64>) -> Result<Recording, NotTraced> {
        let keeper = Keeper::new(timeout_ns)?;
        let (stdout, stderr) = keeper.write_ends();
        let streams = Streams { null: &self.null, stdout, stderr };
        let mut traced = Probed::fork(program, streams).context(|| "cannot start a traced command")?;
        traced.seize().map_err(|e| NotTraced::Denied(format!("ptrace: {}", Error::from(e))))?;
        traced.release().context(|| "cannot start a traced command")?;
        keeper.watch(traced.pid());
        let mut session = Session::new(&traced, watch, keeper.inodes(), &mut self.locator);
        let ended = session.run();
        let done = session.finish(&traced, ended, keeper);
        done.map_err(NotTraced::Failed)
    }
}

#[derive(Debug, Default)]
struct Task {
    /// Its process.
    pid: i32,
    /// The system call that it is in: number, name, when, path.
    call: Option<Call>,
    /// Stepping over this breakpoint, which goes back in afterwards.
    stepping: Option<Breakpoint>,
    exiting: bool,
}

#[derive(Debug, Clone)]
struct Call {
    name: Option<&'static str>,
    number: u64,
    args: [u64; 6],
    entered: u64,
    path: Option<PathBuf>,
}

struct Session<'a> {
    traced: &'a Probed,
    watch: Watch,
    pipes: [u64; 2],
    locator: &'a mut Locator,
    events: Vec<Event>,
    tasks: HashMap<i32, Task>,
    breakpoints: Vec<(Breakpoint, Mark)>,
    /// Paths behind the first process's descriptors, as far as it opened them under our eyes.
    files: HashMap<i32, PathBuf>,
    /// The traced program is past its first exec.
    started: bool,
    /// `Watch::Loader`: system calls still stop.
    loading: bool,
    /// Where `__libc_start_main` is to be looked for, once libraries are mapped: main is not known by name.
    wants_main: bool,
    first_byte: bool,
    held: u64,
    /// When the stop being handled was noticed, and whether it is one of the first thread.
    noticed: u64,
    stopped_main: bool,
    stops: u64,
    rendezvous: u32,
    peak_rss_bytes: Option<u64>,
}

/// What the first process's end looked like.
struct Ended {
    at: u64,
    status: WaitStatus,
    usage: Usage,
}

impl<'a> Session<'a> {
    fn new(traced: &'a Probed, watch: Watch, pipes: [u64; 2], locator: &'a mut Locator) -> Session<'a> {
        let main = Task { pid: traced.pid(), ..Task::default() };
        Session {
            traced,
            watch,
            pipes,
            locator,
            events: Vec::with_capacity(256),
            tasks: HashMap::from([(traced.pid(), main)]),
            breakpoints: Vec::new(),
            files: HashMap::new(),
            started: false,
            loading: false,
            wants_main: false,
            first_byte: false,
            held: 0,
            noticed: 0,
            stopped_main: false,
            stops: 0,
            rendezvous: 0,
            peak_rss_bytes: None,
        }
    }

    /// Follows all tasks until the program and its children are gone.
    fn run(&mut self) -> Result<Option<Ended>> {
        let mut ended = None;
        loop {
            let waited = if ended.is_none() { ptrace::wait_any() } else { self.wait_for_rest() };
            match waited.context(|| "waiting for a traced command")? {
                Waited::Stopped(tid, stop) => self.handle(tid, stop),
                Waited::Ended(tid, status, usage) => {
                    let at = now_ns();
                    self.noticed = at;
                    self.stopped_main = false;
                    self.task_gone(tid);
                    if tid == self.traced.pid() {
                        self.push(tid, What::Reaped);
                        ended = Some(Ended { at, status, usage });
                    }
                }
                Waited::NoChild => return Ok(ended),
                Waited::Interrupted => {}
            }
        }
    }

    /// The command is gone: its children get a moment, then they are ended.
    fn wait_for_rest(&self) -> std::io::Result<Waited> {
        if self.tasks.is_empty() {
            return Ok(Waited::NoChild);
        }
        let until = now_ns().saturating_add(GRACE.as_nanos() as u64);
        while now_ns() < until {
            if let Some(waited) = ptrace::try_wait(-1)? {
                return Ok(waited);
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        for tid in self.tasks.keys() {
            crate::sys::wait::kill(*tid, KILL);
        }
        ptrace::wait_any()
    }

    fn finish(self, traced: &Probed, ended: Result<Option<Ended>>, keeper: Keeper) -> Result<Recording> {
        let stamps = traced.stamps();
        let heard = keeper.finish();
        let ended = ended?.context(|| "the traced command vanished")?;
        if stamps.errno != 0 {
            return Err(Error::from_errno(stamps.errno).context("cannot execute").with_exit(Exit::CommandFailed));
        }
        if heard.interrupted {
            return Err(Error::new("interrupted").with_exit(Exit::Interrupted));
        }
        let total = ended.at.saturating_sub(traced.t0()).saturating_sub(self.held);
        let recording = Recording::new(self.events, total, self.held, ended.status, ended.usage, heard);
        Ok(Recording { stops: self.stops, peak_rss_bytes: self.peak_rss_bytes, ..recording })
    }

    /// The moment of the stop being handled, on the program's own clock: without the time held so far.
    fn moment(&self) -> u64 {
        self.noticed.saturating_sub(self.traced.t0()).saturating_sub(self.held)
    }

    fn push(&mut self, tid: i32, what: What) {
        let pid = self.tasks.get(&tid).map_or(tid, |t| t.pid);
        self.events.push(Event { at: self.moment(), pid, tid, what });
    }

    fn is_main(&self, tid: i32) -> bool {
        tid == self.traced.pid()
    }

    fn in_main_process(&self, tid: i32) -> bool {
        self.tasks.get(&tid).is_some_and(|t| t.pid == self.traced.pid())
    }

    fn handle(&mut self, tid: i32, stop: Stop) {
        self.noticed = now_ns();
        self.stopped_main = self.is_main(tid);
        self.stops += u64::from(self.started);
        self.meet(tid);
        let (mut how, mut signal) = (self.usual_resume(), 0);
        match stop {
            Stop::Exec { former } => {
                self.exec(tid, former);
                how = self.usual_resume();
            }
            Stop::NewTask(child) => self.new_task(tid, child),
            Stop::Exiting => self.exiting(tid),
            Stop::Syscall => {
                self.syscall(tid);
                how = self.usual_resume();
            }
            Stop::Trap => match self.trap(tid) {
                Trapped::Go => how = self.usual_resume(),
                Trapped::Step => how = Resume::Step,
                Trapped::Theirs => signal = TRAP,
            },
            Stop::Signal(s) => signal = s,
            Stop::Group => how = Resume::Listen,
            Stop::Attached | Stop::VforkDone => {}
        }
        if self.stopped_main {
            self.held = self.held.saturating_add(now_ns().saturating_sub(self.noticed));
        }
        // It was killed meanwhile where this fails: the next wait says so.
        let _ = resume(tid, how, signal);
    }

    fn usual_resume(&self) -> Resume {
        let all = self.started && self.watch == Watch::All;
        if all || self.loading { Resume::ToSyscall } else { Resume::Continue }
    }

    /// A task may report before its parent tells of it.
    fn meet(&mut self, tid: i32) {
        if !self.tasks.contains_key(&tid) {
            let mut pids: Vec<i32> = self.tasks.values().map(|t| t.pid).collect();
            pids.dedup();
            let pid = pids.into_iter().find(|pid| ptrace::is_thread_of(*pid, tid)).unwrap_or(tid);
            self.tasks.insert(tid, Task { pid, ..Task::default() });
        }
    }

    fn new_task(&mut self, tid: i32, child: i32) {
        if child <= 0 {
            return;
        }
        self.meet(child);
        let parent = self.tasks.get(&tid).map_or(tid, |t| t.pid);
        let thread = self.tasks.get(&child).is_some_and(|c| c.pid == parent);
        self.push(tid, What::NewTask { child, thread });
    }

    fn exiting(&mut self, tid: i32) {
        if self.in_main_process(tid) {
            if self.is_main(tid) {
                self.page_faults(tid);
            }
            let peak = proc_kib(self.traced.pid(), "status", "VmHWM:");
            self.peak_rss_bytes = self.peak_rss_bytes.max(peak);
        }
        if let Some(task) = self.tasks.get_mut(&tid) {
            task.exiting = true;
        }
        self.push(tid, What::ExitBegins);
    }

    fn task_gone(&mut self, tid: i32) {
        self.push(tid, What::TaskGone);
        self.tasks.remove(&tid);
    }

    // -- exec and breakpoints --

    fn exec(&mut self, tid: i32, former: i32) {
        if former != tid {
            self.tasks.remove(&former);
        }
        let first = !self.started && self.is_main(tid);
        if first {
            self.started = true;
            self.first_exec();
        }
        if let Some(task) = self.tasks.get_mut(&tid) {
            task.stepping = None;
        }
        if !self.is_main(tid) {
            return self.push(tid, What::Exec);
        }
        // All memory with breakpoints in it is gone.
        self.breakpoints.clear();
        self.files.clear();
        self.rendezvous = 0;
        self.push(tid, What::Exec);
        self.push(tid, What::FirstInstruction);
        self.page_faults(tid);
        self.loading = self.watch == Watch::Loader;
        if self.place_breakpoints(tid).is_none() {
            self.loading = false;
        }
    }

    /// Times that the child stamped; the wait until we had seized it is cut out. Then exec as a system call.
    fn first_exec(&mut self) {
        let stamps = self.traced.stamps();
        let seized = stamps.released.saturating_sub(stamps.born);
        self.held = self.held.saturating_add(seized);
        let at = stamps.exec.saturating_sub(self.traced.t0()).saturating_sub(seized);
        let pid = self.traced.pid();
        self.events.push(Event { at, pid, tid: pid, what: What::ExecCalled(None) });
        if let Some(task) = self.tasks.get_mut(&pid) {
            let call = Call { name: Some("execve"), number: 0, args: [0; 6], entered: at, path: None };
            task.call = Some(call);
        }
    }

    fn place_breakpoints(&mut self, tid: i32) -> Option<()> {
        let regs = registers(tid).ok()?;
        let mut peek = |addr: u64, into: &mut [u8]| ptrace::read_memory(tid, addr, into);
        let auxv = memory::auxv(&mut peek, regs.sp(), regs.word_bytes())?;
        let path = executable(tid).or_else(|| memory::path(&mut peek, auxv.execfn))?;
        let program = self.locator.file(&path);
        let bias = program.as_ref().map_or(0, |p| auxv.entry.wrapping_sub(p.entry));
        if let Some(program) = &program {
            self.kernel_maps(tid, &path, program, bias);
        }
        self.set(tid, auxv.entry, Mark::Entry);
        let main = program.as_ref().and_then(|p| p.main);
        if let Some(main) = main {
            self.set(tid, bias.wrapping_add(main), Mark::Main);
        }
        self.wants_main = main.is_none() && regs.word_bytes() == 8;
        let interp = program.as_ref().and_then(|p| p.interp.clone()).filter(|_| auxv.base != 0)?;
        let loader = self.locator.file(&interp)?;
        self.push(tid, What::Interp(interp.clone()));
        self.kernel_maps(tid, &interp, &loader, auxv.base);
        if let Some(at) = loader.rendezvous {
            self.set(tid, auxv.base.wrapping_add(at), Mark::Rendezvous);
        }
        Some(())
    }

    /// What the kernel mapped during exec, from the file's own segments.
    fn kernel_maps(&mut self, tid: i32, path: &Path, file: &crate::trace::locate::Located, bias: u64) {
        for s in &file.loads {
            let (page, prot) = (s.vaddr & 0xfff, Prot { read: true, write: s.is_writable(), exec: s.is_executable() });
            let mapping = Mapping {
                addr: bias.wrapping_add(s.vaddr).wrapping_sub(page),
                len: s.filesz.saturating_add(page).saturating_add(0xfff) & !0xfff,
                offset: s.offset.saturating_sub(page),
                prot,
                path: Some(path.to_path_buf()),
            };
            self.push(tid, What::Map(mapping));
        }
    }

    fn set(&mut self, tid: i32, addr: u64, mark: Mark) {
        if let Ok(b) = Breakpoint::set(tid, addr) {
            self.breakpoints.push((b, mark));
        }
    }

    fn trap(&mut self, tid: i32) -> Trapped {
        if let Some(b) = self.tasks.get_mut(&tid).and_then(|t| t.stepping.take()) {
            // Back in, now that the instruction under it has run.
            let _ = Breakpoint::set(tid, b.addr);
            return Trapped::Go;
        }
        let Ok(regs) = registers(tid) else { return Trapped::Go };
        let Some(i) = self.breakpoints.iter().position(|(b, _)| b.addr == regs.breakpoint()) else {
            return Trapped::Theirs;
        };
        let (b, mark) = self.breakpoints[i];
        let cleared = b.clear(tid).and_then(|()| ptrace::set_pc(tid, &regs, b.addr));
        if cleared.is_err() {
            return Trapped::Go;
        }
        if !self.in_main_process(tid) {
            return Trapped::Go; // a forked child's copy of our breakpoint
        }
        self.reached(tid, &regs, mark);
        if mark == Mark::Rendezvous && self.rendezvous < 2 && !self.passed_entry() {
            if let Some(task) = self.tasks.get_mut(&tid) {
                task.stepping = Some(b);
            }
            return Trapped::Step;
        }
        self.breakpoints.retain(|(other, _)| other.addr != b.addr);
        Trapped::Go
    }

    fn passed_entry(&self) -> bool {
        !self.breakpoints.iter().any(|(_, m)| *m == Mark::Entry)
    }

    fn reached(&mut self, tid: i32, regs: &ptrace::TaskRegisters, mark: Mark) {
        // `__libc_start_main` is looked for under main's mark: its first argument is where main is.
        if mark == Mark::Main && std::mem::take(&mut self.wants_main) {
            return self.set(tid, regs.first_argument(), Mark::Main);
        }
        self.page_faults(tid);
        self.push(tid, What::Mark(mark));
        match mark {
            Mark::Rendezvous => {
                self.rendezvous += 1;
                self.loading &= self.rendezvous < 2;
            }
            Mark::Entry => {
                self.loading = false;
                if self.wants_main {
                    self.wants_main = self.find_start_main(tid).is_some();
                }
            }
            Mark::Main | Mark::ExitFunction => {}
        }
    }

    /// Puts a breakpoint at `__libc_start_main` of the C library that was mapped.
    fn find_start_main(&mut self, tid: i32) -> Option<()> {
        let mut first = None;
        for event in &self.events {
            // The first mapping of an object starts at its load address: its first segment has offset 0.
            if let What::Map(m) = &event.what
                && m.offset == 0
                && let Some(path) = &m.path
                && let Some(found) = self.locator.file(path)
                && let Some(at) = found.libc_start_main
            {
                let base = found.loads.first().map_or(0, |s| s.vaddr & !0xfff);
                first = Some(m.addr.wrapping_sub(base).wrapping_add(at));
                break;
            }
        }
        self.set(tid, first?, Mark::Main);
        Some(())
    }

    fn page_faults(&mut self, tid: i32) {
        if let Some((minor, major)) = proc_faults(self.traced.pid()) {
            self.push(tid, What::Faults { minor, major });
        }
    }

    // -- system calls --

    fn syscall(&mut self, tid: i32) {
        match ptrace::syscall_stop(tid) {
            Some(SyscallStop::Entry { number, native, args, .. }) => self.enter(tid, number, native, args),
            Some(SyscallStop::Exit { result, .. }) => self.leave(tid, result),
            None => {}
        }
    }

    fn enter(&mut self, tid: i32, number: u64, native: bool, args: [u64; 6]) {
        let name = if native { syscall_name(number) } else { None };
        let path = name.and_then(path_argument).and_then(|i| {
            let mut peek = |addr: u64, into: &mut [u8]| ptrace::read_memory(tid, addr, into);
            memory::path(&mut peek, *args.get(i)?)
        });
        if !self.first_byte && name.is_some_and(is_write) {
            self.written(tid, args[0]);
        }
        if matches!(name, Some("execve" | "execveat")) && self.is_main(tid) {
            self.push(tid, What::ExecCalled(path.clone()));
        }
        let call = Call { name, number, args, entered: self.moment(), path };
        if matches!(name, Some("exit" | "exit_group")) {
            let text = call_name(&call);
            self.push(tid, What::Syscall(Syscall { name: text, ns: 0, result: None, path: None }));
        } else if let Some(task) = self.tasks.get_mut(&tid) {
            task.call = Some(call);
        }
    }

    fn leave(&mut self, tid: i32, result: i64) {
        let Some(call) = self.tasks.get_mut(&tid).and_then(|t| t.call.take()) else { return };
        let ns = self.moment().saturating_sub(call.entered);
        if self.in_main_process(tid) {
            self.mapped(tid, &call, result);
        }
        let name = call_name(&call);
        self.push(tid, What::Syscall(Syscall { name, ns, result: Some(result), path: call.path }));
    }

    /// Keeps track of descriptors and mappings of the first process.
    fn mapped(&mut self, tid: i32, call: &Call, result: i64) {
        let failed = (-4095..0).contains(&result);
        let [addr, len, prot, _, fd, offset] = call.args;
        match call.name {
            Some("open" | "openat" | "openat2") if !failed => {
                if let Some(path) = &call.path {
                    self.files.insert(result as i32, path.clone());
                }
            }
            Some("close") => {
                self.files.remove(&(addr as i32));
            }
            Some("mmap") if !failed => {
                let path = self.file_behind(fd as i32);
                let prot = Prot::from_bits(prot);
                self.push(tid, What::Map(Mapping { addr: result as u64, len, offset, prot, path }));
            }
            Some("mprotect") if !failed => {
                self.push(tid, What::Protect(Mapping { addr, len, prot: Prot::from_bits(prot), ..Mapping::default() }));
            }
            _ => {}
        }
    }

    fn file_behind(&self, fd: i32) -> Option<PathBuf> {
        if fd < 0 {
            return None;
        }
        let link = || std::fs::read_link(format!("/proc/{}/fd/{fd}", self.traced.pid())).ok();
        self.files.get(&fd).cloned().or_else(link)
    }

    /// Is this descriptor one of our pipes? Without `/proc` its number decides.
    fn written(&mut self, tid: i32, fd: u64) {
        let link = std::fs::read_link(format!("/proc/{tid}/fd/{fd}"));
        let stream = match link {
            Ok(link) => {
                let is = |inode: u64| link.as_os_str() == format!("pipe:[{inode}]").as_str();
                self.pipes.iter().position(|inode| is(*inode)).map(|i| i as u8 + 1)
            }
            Err(_) => u8::try_from(fd).ok().filter(|fd| matches!(fd, 1 | 2)),
        };
        if let Some(stream) = stream {
            self.first_byte = true;
            self.push(tid, What::FirstByte(stream));
        }
    }
}

/// What a trap was.
enum Trapped {
    /// Ours: go on.
    Go,
    /// Ours: one step, then the breakpoint goes back in.
    Step,
    /// The program's own.
    Theirs,
}

/// SIGTRAP and SIGKILL have these numbers on every Linux.
const TRAP: i32 = 5;
const KILL: i32 = 9;

fn call_name(call: &Call) -> String {
    call.name.map_or_else(|| format!("syscall_{}", call.number), str::to_string)
}

/// Which argument is a path, for the calls whose paths are of interest.
fn path_argument(name: &str) -> Option<usize> {
    match name {
        "open" | "stat" | "lstat" | "access" | "execve" | "readlink" | "statfs" | "chdir" => Some(0),
        "openat" | "openat2" | "newfstatat" | "faccessat" | "faccessat2" | "execveat" | "readlinkat" | "statx" => {
            Some(1)
        }
        _ => None,
    }
}

fn is_write(name: &str) -> bool {
    matches!(name, "write" | "writev" | "pwrite64" | "pwritev" | "pwritev2" | "sendfile" | "vmsplice" | "sendto")
}

/// The file of the program that runs now; `None` without `/proc`.
fn executable(pid: i32) -> Option<PathBuf> {
    std::fs::read_link(format!("/proc/{pid}/exe")).ok()
}

/// A line `NAME  1234 kB` of a `/proc` file, in bytes.
fn proc_kib(pid: i32, file: &str, name: &str) -> Option<u64> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/{file}")).ok()?;
    let line = text.lines().find_map(|l| l.strip_prefix(name))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

/// Page faults of a process so far: minor, major.
fn proc_faults(pid: i32) -> Option<(u64, u64)> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name in brackets may hold anything; fields are counted from behind it. proc_pid_stat(5): minflt is field 10.
    let fields: Vec<&str> = text.rsplit_once(')')?.1.split_whitespace().collect();
    Some((fields.get(7)?.parse().ok()?, fields.get(9)?.parse().ok()?))
}
