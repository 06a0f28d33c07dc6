//! System calls of traced tasks: names, times, results, and what they tell of files and mappings.

use std::path::PathBuf;

use super::Session;
use crate::sys::linux::arch::syscall_name;
use crate::sys::linux::ptrace::{self, SyscallStop};
use crate::trace::event::{Mapping, Mark, Prot, Syscall, What};
use crate::trace::memory;
use crate::trace::recording::Marked;
use crate::trace::space::Space;

/// A call under way.
#[derive(Debug, Clone)]
pub(super) struct Call {
    name: Option<&'static str>,
    number: u64,
    args: [u64; 6],
    /// When it was entered, on the program's clock.
    entered: u64,
    path: Option<PathBuf>,
}

impl Call {
    /// The first exec, which was called before we looked.
    pub(super) fn execve(entered: u64) -> Call {
        Call { name: Some("execve"), number: 0, args: [0; 6], entered, path: None }
    }

    fn name(&self) -> String {
        self.name.map_or_else(|| format!("syscall_{}", self.number), str::to_string)
    }
}

impl Session<'_> {
    pub(super) fn syscall(&mut self, tid: i32) {
        match ptrace::syscall_stop(tid) {
            Some(SyscallStop::Entry { number, native, args, pc }) => {
                let name = if native { syscall_name(number) } else { None };
                self.enter(tid, Call { name, number, args, entered: 0, path: None }, pc);
            }
            Some(SyscallStop::Exit { result, .. }) => self.leave(tid, result),
            None => {}
        }
    }

    fn enter(&mut self, tid: i32, mut call: Call, pc: u64) {
        call.entered = self.clock.at(self.noticed);
        call.path = call.name.and_then(path_argument).and_then(|i| {
            let mut peek = |addr: u64, into: &mut [u8]| ptrace::read_memory(tid, addr, into);
            memory::path(&mut peek, *call.args.get(i)?)
        });
        if !self.first_byte && call.name.is_some_and(is_write) {
            self.written(tid, call.args[0]);
        }
        match call.name {
            Some("execve" | "execveat") if self.is_main(tid) => {
                self.push(tid, What::ExecCalled(call.path.clone()));
            }
            // Neither returns.
            Some("exit" | "exit_group") => {
                if call.name == Some("exit_group") && self.in_main_process(tid) {
                    self.learn_exit(pc);
                }
                let gone = Syscall { name: call.name(), ns: 0, result: None, path: None };
                return self.push(tid, What::Syscall(gone));
            }
            _ => {}
        }
        if let Some(task) = self.tasks.get_mut(&tid) {
            task.call = Some(call);
        }
    }

    fn leave(&mut self, tid: i32, result: i64) {
        let Some(call) = self.tasks.get_mut(&tid).and_then(|t| t.call.take()) else { return };
        if self.in_main_process(tid) {
            self.follow_files(tid, &call, result);
        }
        let ns = self.clock.at(self.noticed).saturating_sub(call.entered);
        let name = call.name();
        self.push(tid, What::Syscall(Syscall { name, ns, result: Some(result), path: call.path }));
    }

    /// Keeps track of descriptors and mappings of the first process.
    fn follow_files(&mut self, tid: i32, call: &Call, result: i64) {
        if (-4095..0).contains(&result) {
            return;
        }
        let [addr, len, prot, _, fd, offset] = call.args;
        let prot = Prot::from_bits(prot);
        match call.name {
            Some("open" | "openat" | "openat2") => {
                if let Some(path) = &call.path {
                    self.files.insert(result as i32, path.clone());
                }
            }
            Some("close") => {
                self.files.remove(&(addr as i32));
            }
            Some("mmap") => {
                let path = self.file_behind(fd as i32);
                if path.is_some() {
                    self.page_faults(tid);
                }
                self.push(tid, What::Map(Mapping { addr: result as u64, len, offset, prot, path }));
            }
            Some("mprotect") => {
                self.page_faults(tid);
                self.push(tid, What::Protect(Mapping { addr, len, prot, ..Mapping::default() }));
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

    /// Where exit was called from: a program without the C library's symbols can be marked there by perf.
    fn learn_exit(&mut self, pc: u64) {
        let pid = self.traced.pid();
        let mut space = Space::default();
        self.events.iter().filter(|e| e.pid == pid).for_each(|e| space.follow(e));
        if let Some((path, offset)) = space.file_at(pc) {
            let path = path.as_path().to_path_buf();
            self.learned.push(Marked { mark: Mark::ExitFunction, path, offset });
        }
    }
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
