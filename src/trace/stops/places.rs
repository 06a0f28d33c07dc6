//! Breakpoints at marked places: set when an image is new, heard of when they are hit.

use std::path::{Path, PathBuf};
use std::rc::Rc;

use super::calls::Call;
use super::{Session, Watch, proc};
use crate::sys::linux::ptrace::{self, Breakpoint, TaskRegisters, registers};
use crate::trace::event::{Event, Mapping, Mark, Prot, What};
use crate::trace::locate::Located;
use crate::trace::memory;
use crate::trace::recording::Marked;

/// What a breakpoint is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Place {
    /// A mark of its own.
    Mark(Mark),
    /// `__libc_start_main`, whose first argument is where `main` is.
    StartMain,
    /// An object's first constructor.
    Constructors(PathBuf),
}

/// What a trap was.
pub(super) enum Trapped {
    /// Ours: go on.
    Go,
    /// Ours: one step, then the breakpoint goes back in.
    Step,
    /// The program's own.
    Theirs,
}

impl Session<'_> {
    pub(super) fn exec(&mut self, tid: i32, former: i32) {
        if former != tid {
            self.tasks.remove(&former);
        }
        if !self.started && self.is_main(tid) {
            self.started = true;
            self.first_exec();
        }
        if let Some(task) = self.tasks.get_mut(&tid) {
            task.stepping = None;
        }
        self.push(tid, What::Exec);
        if !self.is_main(tid) {
            return;
        }
        // All memory with breakpoints in it is gone.
        self.breakpoints.clear();
        self.files.clear();
        self.rendezvous = 0;
        self.push(tid, What::FirstInstruction);
        self.page_faults(tid);
        let has_loader = self.place_breakpoints(tid).is_some();
        self.loading = has_loader && self.watch == Watch::Loader;
    }

    /// Times that the child stamped; the wait until we had seized it is cut out. Then exec as a system call.
    fn first_exec(&mut self) {
        let stamps = self.traced.stamps();
        self.clock.cut(stamps.born, stamps.released);
        let (at, pid) = (self.clock.at(stamps.exec), self.traced.pid());
        self.events.push(Event { at, pid, tid: pid, what: What::ExecCalled(None) });
        if let Some(task) = self.tasks.get_mut(&pid) {
            task.call = Some(Call::execve(at));
        }
    }

    /// `None` where the image has no loader, or cannot be understood.
    fn place_breakpoints(&mut self, tid: i32) -> Option<()> {
        let regs = registers(tid).ok()?;
        let mut peek = |addr: u64, into: &mut [u8]| ptrace::read_memory(tid, addr, into);
        let auxv = memory::auxv(&mut peek, regs.sp(), regs.word_bytes())?;
        let path = proc::executable(tid).or_else(|| memory::path(&mut peek, auxv.execfn))?;
        let program = self.locator.file(&path);
        let bias = program.as_ref().map_or(0, |p| auxv.entry.wrapping_sub(p.entry));
        if let Some(program) = &program {
            self.kernel_maps(tid, &path, program, bias);
        }
        self.set(tid, auxv.entry, Place::Mark(Mark::Entry));
        match program.as_ref().and_then(|p| p.main) {
            Some(main) => self.set(tid, bias.wrapping_add(main), Place::Mark(Mark::Main)),
            None => self.find_main_later(tid, program.as_ref(), bias, regs.word_bytes()),
        }
        let interp = program.as_ref().and_then(|p| p.interp.clone()).filter(|_| auxv.base != 0)?;
        let loader = self.locator.file(&interp)?;
        self.push(tid, What::Interp(interp.clone()));
        self.kernel_maps(tid, &interp, &loader, auxv.base);
        if let Some(at) = loader.rendezvous {
            self.set(tid, auxv.base.wrapping_add(at), Place::Mark(Mark::Rendezvous));
        }
        Some(())
    }

    /// A static program may have `__libc_start_main` itself; a dynamic one is looked into at its entry point.
    fn find_main_later(&mut self, tid: i32, program: Option<&Rc<Located>>, bias: u64, word_bytes: usize) {
        if let Some(at) = program.filter(|_| word_bytes == 8).and_then(|p| p.libc_start_main) {
            self.set(tid, bias.wrapping_add(at), Place::StartMain);
        }
    }

    /// What the kernel mapped during exec, from the file's own segments.
    fn kernel_maps(&mut self, tid: i32, path: &Path, file: &Located, bias: u64) {
        if self.with_perf() {
            return; // perf records them
        }
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

    fn set(&mut self, tid: i32, addr: u64, place: Place) {
        if self.breakpoints.iter().any(|(b, _)| b.addr == addr) {
            return; // one place, one name: a second breakpoint would keep the first one's bytes
        }
        if let Ok(b) = Breakpoint::set(tid, addr) {
            self.breakpoints.push((b, place));
        }
    }

    pub(super) fn trap(&mut self, tid: i32) -> Trapped {
        if let Some(b) = self.tasks.get_mut(&tid).and_then(|t| t.stepping.take()) {
            // Back in, now that the instruction under it has run.
            let _ = Breakpoint::set(tid, b.addr);
            return Trapped::Go;
        }
        let Ok(regs) = registers(tid) else { return Trapped::Go };
        let Some(i) = self.breakpoints.iter().position(|(b, _)| b.addr == regs.breakpoint()) else {
            return Trapped::Theirs;
        };
        let (b, place) = self.breakpoints[i].clone();
        let cleared = b.clear(tid).and_then(|()| ptrace::set_pc(tid, &regs, b.addr));
        if cleared.is_err() || !self.in_main_process(tid) {
            return Trapped::Go; // killed meanwhile, or a forked child's copy of our breakpoint
        }
        self.reached(tid, &regs, &place);
        // glibc calls it twice before the entry point.
        if place == Place::Mark(Mark::Rendezvous) && self.rendezvous < 2 {
            if let Some(task) = self.tasks.get_mut(&tid) {
                task.stepping = Some(b);
            }
            return Trapped::Step;
        }
        self.breakpoints.retain(|(other, _)| other.addr != b.addr);
        Trapped::Go
    }

    fn reached(&mut self, tid: i32, regs: &TaskRegisters, place: &Place) {
        let mark = match place {
            Place::StartMain => return self.set(tid, regs.first_argument(), Place::Mark(Mark::Main)),
            Place::Constructors(path) => return self.push(tid, What::Constructors(path.clone())),
            Place::Mark(mark) => *mark,
        };
        self.page_faults(tid);
        // At the loader's last call, and at main for programs that relocate themselves.
        if (mark == Mark::Rendezvous && self.rendezvous == 1) || mark == Mark::Main {
            self.pages_written(tid);
        }
        self.push(tid, What::Mark(mark));
        match mark {
            Mark::Rendezvous => {
                self.rendezvous += 1;
                self.loading &= self.rendezvous < 2;
                self.all_mapped(tid);
            }
            Mark::Entry => {
                self.loading = false;
                self.breakpoints.retain(|(b, p)| {
                    let over = *p == Place::Mark(Mark::Rendezvous);
                    if over {
                        let _ = b.clear(tid);
                    }
                    !over
                });
                let main_known = self.breakpoints.iter().any(|(_, p)| *p == Place::Mark(Mark::Main));
                if !main_known && regs.word_bytes() == 8 {
                    self.find_start_main(tid);
                }
            }
            Mark::Main => self.learn_main(tid, regs.breakpoint()),
            Mark::LoaderEntry | Mark::ExitFunction => {}
        }
    }

    /// Objects that are mapped now, each with its load address.
    fn objects(&mut self) -> Vec<(PathBuf, Rc<Located>, u64)> {
        let mut found: Vec<(PathBuf, Rc<Located>, u64)> = Vec::new();
        let exec = self.events.iter().rposition(|e| e.what == What::Exec && e.pid == self.traced.pid()).unwrap_or(0);
        let seen: Vec<(PathBuf, u64)> = if self.with_perf() {
            proc::mapped_files(self.traced.pid())
        } else {
            let first = |e: &Event| match &e.what {
                What::Map(m) if m.offset == 0 => m.path.clone().map(|p| (p, m.addr)),
                _ => None,
            };
            self.events[exec..].iter().filter_map(first).collect()
        };
        for (path, addr) in seen {
            if found.iter().any(|(p, _, _)| *p == path) {
                continue;
            }
            if let Some(file) = self.locator.file(&path) {
                // The first mapping of an object is that of its first segment, which has offset 0.
                let base = addr.wrapping_sub(file.loads.first().map_or(0, |s| s.vaddr & !0xfff));
                found.push((path, file, base));
            }
        }
        found
    }

    /// All objects are mapped and relocated: constructors can be marked. (At glibc's first call nothing is mapped yet.)
    fn all_mapped(&mut self, tid: i32) {
        if self.watch != Watch::All {
            return;
        }
        for (path, file, base) in self.objects() {
            let in_memory = |at: u64| {
                let mut word = [0u8; 8];
                let got = ptrace::read_memory(tid, base.wrapping_add(at), &mut word);
                (got == 8).then(|| u64::from_ne_bytes(word)).filter(|f| *f != 0 && *f != u64::MAX)
            };
            // glibc and musl call DT_INIT first, then the array, whose entries are relocated by now.
            let first = file.init.map(|at| base.wrapping_add(at)).or_else(|| file.init_array.and_then(in_memory));
            let is_loader = file.rendezvous.is_some();
            if let Some(first) = first.filter(|_| !is_loader) {
                self.set(tid, first, Place::Constructors(path));
            }
        }
    }

    /// Puts a breakpoint at `__libc_start_main` of the C library that was mapped.
    fn find_start_main(&mut self, tid: i32) {
        let found =
            self.objects().into_iter().find_map(|(_, f, base)| f.libc_start_main.map(|at| base.wrapping_add(at)));
        if let Some(at) = found {
            self.set(tid, at, Place::StartMain);
        }
    }

    /// Where `main` of a stripped program is: perf can mark it there in other starts.
    fn learn_main(&mut self, tid: i32, addr: u64) {
        let image = proc::executable(tid);
        let found = self.objects().into_iter().find_map(|(path, file, base)| {
            let offset = file.offset_of(addr.wrapping_sub(base))?;
            (file.main.is_none() && image.as_ref() == Some(&path)).then_some((path, offset))
        });
        if let Some((path, offset)) = found {
            self.learned.push(Marked { mark: Mark::Main, path, offset });
        }
    }
}
