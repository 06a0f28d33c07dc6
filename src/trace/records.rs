//! The perf back end: one start watched by the kernel's own records, turned into events.
//!
//! The program is held once, before its exec, while the events are opened on it; that time is cut out. From exec on it
//! runs without a stop.

use std::collections::HashMap;
use std::ffi::CString;
use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::error::{Context, Error, Exit, Result};
use crate::order;
use crate::sys::clock::now_ns;
use crate::sys::keeper::{Keeper, above_standard};
use crate::sys::linux::perf::{Denied, Happening, Place, Record, Records, Watch};
use crate::sys::linux::ptrace::{ChildStamps, Probed, Streams};
use crate::sys::process::Program;
use crate::sys::start::Stream;
use crate::sys::wait::{self, Usage, WaitStatus, Waited};
use crate::trace::clock::Clock;
use crate::trace::event::{Event, Mapping, Mark, Prot, What};
use crate::trace::locate::Locator;
use crate::trace::recording::{Marked, NotTraced, Recording};

/// Memory for records, all processors together. One MiB holds 20,000 page faults.
pub const RING_BYTES: usize = 8 << 20;
/// After a start that filled it, so many times as much, up to this much.
const GROWTH: usize = 4;
const MOST_RING_BYTES: usize = 512 << 20;
/// SIGKILL has this number on every system.
const KILL: i32 = 9;

/// Watches starts with perf events.
#[derive(Debug)]
pub struct Watcher {
    null: OwnedFd,
    /// Uprobes were closed since the last fork: the next one waits for the kernel to be done with them (some ms).
    unsettled: bool,
    ring_bytes: usize,
}

impl Watcher {
    /// Makes it ready.
    ///
    /// # Errors
    /// Where `/dev/null` cannot be opened.
    pub fn new() -> Result<Watcher> {
        let null = File::options().read(true).write(true).open("/dev/null").context(|| "/dev/null")?;
        Ok(Watcher { null: above_standard(null.into())?, unsettled: false, ring_bytes: RING_BYTES })
    }

    /// Memory for records, as the starts so far needed it.
    pub fn ring_bytes(&self) -> usize {
        self.ring_bytes
    }

    /// One start of `program`, with a uprobe at each marked place and, with `faults`, a record of each page fault.
    /// `before` runs while the child waits to be released.
    ///
    /// # Errors
    /// [`NotTraced::Denied`] where perf events, or uprobes when `marked` is not empty, are not permitted.
    pub fn record(
        &mut self,
        program: &Program,
        marked: &[Marked],
        faults: bool,
        locator: &mut Locator,
        timeout_ns: Option<u64>,
        before: &mut dyn FnMut(),
    ) -> Result<Recording, NotTraced> {
        let keeper = Keeper::new(timeout_ns)?;
        let (stdout, stderr) = keeper.write_ends();
        let streams = Streams { null: &self.null, stdout, stderr };
        if std::mem::take(&mut self.unsettled) {
            self.settle(program, streams)?;
        }
        let mut probed = Probed::fork(program, streams).context(|| "cannot start a watched command")?;
        let mut watch = open(probed.pid(), marked, faults, self.ring_bytes)?;
        before();
        probed.release().context(|| "cannot start a watched command")?;
        keeper.watch(probed.pid());
        let (status, usage) = reap(probed.pid())?;
        let ended = now_ns();
        let heard = keeper.finish();
        let stamps = probed.stamps();
        let records = watch.read();
        drop(watch);
        // What the command left in its group is not ours to keep.
        wait::kill(-probed.pid(), KILL);
        if records.lost > 0 {
            self.ring_bytes = self.ring_bytes.saturating_mul(GROWTH).min(MOST_RING_BYTES);
        }
        self.unsettled = !marked.is_empty();
        if stamps.errno != 0 {
            let e = Error::from_errno(stamps.errno).context("cannot execute").with_exit(Exit::CommandFailed);
            return Err(e.into());
        }
        if heard.interrupted {
            return Err(Error::new("interrupted").with_exit(Exit::Interrupted).into());
        }
        let mut clock = Clock::new(probed.t0());
        clock.cut(stamps.born, stamps.released);
        let pid = probed.pid();
        let mut events = translate(pid, &clock, marked, locator, &records, stamps);
        if let Some((at, stream)) = heard.first() {
            let what = What::FirstByte(if stream == Stream::Stdout { 1 } else { 2 });
            events.push(Event { at: clock.at(at), pid, tid: pid, what });
        }
        let total = clock.at(ended);
        events.push(Event { at: total, pid, tid: pid, what: What::Reaped });
        order::by_key(&mut events, |e| e.at);
        let recording = Recording::new(events, total, clock.held(), status, usage, heard);
        Ok(Recording { lost: records.lost, ..recording })
    }
}

impl Watcher {
    /// The kernel frees what uprobes held in the background; then children that are thrown away warm up what the pause
    /// let cool, until one is born as fast as on any other day.
    fn settle(&self, program: &Program, streams: Streams<'_>) -> Result<()> {
        const FAST_NS: u64 = 400_000;
        const TRIES: usize = 6;
        const PAUSE: Duration = Duration::from_millis(10);
        std::thread::sleep(PAUSE);
        for _ in 0..TRIES {
            let thrown = Probed::fork(program, streams).context(|| "cannot start a watched command")?;
            if thrown.stamps().born.saturating_sub(thrown.t0()) < FAST_NS {
                break;
            }
        }
        Ok(())
    }
}

/// Opens the events of a held child.
///
/// # Errors
/// [`NotTraced::Denied`], saying whether it is perf events as a whole or uprobes.
pub fn open(pid: i32, marked: &[Marked], faults: bool, ring_bytes: usize) -> Result<Watch, NotTraced> {
    let places = marked.iter().filter_map(place).collect::<Vec<_>>();
    Watch::open(pid, &places, ring_bytes, faults).map_err(denied)
}

fn reap(pid: i32) -> Result<(WaitStatus, Usage)> {
    loop {
        match wait::wait4(pid, true)? {
            Waited::Ended(_, status, usage) => return Ok((status, usage)),
            Waited::NoChild => return Err(Error::new("the watched command vanished")),
            Waited::Running | Waited::Interrupted => {}
        }
    }
}

/// Records to events, in order of time. Pure but for the locator, which tells each program's loader.
pub fn translate(
    pid: i32,
    clock: &Clock,
    marked: &[Marked],
    locator: &mut Locator,
    records: &Records,
    stamps: ChildStamps,
) -> Vec<Event> {
    Translator::new(pid, clock, marked, locator).events(records, stamps)
}

/// Both back ends watched the same start: stops tell marks, exec and exit, records tell all else.
pub fn merge(stops: Vec<Event>, records: Vec<Event>) -> Vec<Event> {
    let from_stops = |e: &Event| {
        let kinds = |what: &What| {
            matches!(
                what,
                What::Mark(_)
                    | What::ExecCalled(_)
                    | What::FirstInstruction
                    | What::ExitBegins
                    | What::FirstByte(_)
                    | What::Written { .. }
                    | What::Reaped
            )
        };
        kinds(&e.what)
    };
    let from_records = |e: &Event| !matches!(e.what, What::ExecCalled(_));
    let mut all: Vec<Event> = stops.into_iter().filter(from_stops).collect();
    all.extend(records.into_iter().filter(from_records));
    order::by_key(&mut all, |e| e.at);
    all
}

fn denied(d: Denied) -> NotTraced {
    NotTraced::Denied(format!("{}: {}", d.what, Error::from(d.error)))
}

fn place(marked: &Marked) -> Option<Place> {
    let path = CString::new(marked.path.as_os_str().as_bytes()).ok()?;
    Some(Place { path, offset: marked.offset })
}

/// The state of [`translate`].
struct Translator<'a> {
    pid: i32,
    clock: &'a Clock,
    marked: &'a [Marked],
    locator: &'a mut Locator,
    /// The first process's mappings since its last exec, to tell a new mapping from a changed one.
    mapped: Vec<Mapping>,
    /// The next file mapping is the program itself.
    fresh: bool,
    events: Vec<Event>,
    /// Where each task's last fault lies in `events`.
    last_fault: HashMap<i32, usize>,
}

impl<'a> Translator<'a> {
    fn new(pid: i32, clock: &'a Clock, marked: &'a [Marked], locator: &'a mut Locator) -> Translator<'a> {
        let (mapped, events, last_fault) = (Vec::new(), Vec::new(), HashMap::new());
        Translator { pid, clock, marked, locator, mapped, fresh: false, events, last_fault }
    }

    fn events(mut self, records: &Records, stamps: ChildStamps) -> Vec<Event> {
        self.events.reserve(records.records.len() + 4);
        self.push(stamps.exec, self.pid, self.pid, What::ExecCalled(None));
        for record in &records.records {
            self.translate(record);
        }
        self.events
    }

    fn push(&mut self, time: u64, pid: i32, tid: i32, what: What) {
        self.events.push(Event { at: self.clock.at(time), pid, tid, what });
    }

    fn translate(&mut self, record: &Record) {
        let Record { time, pid, tid, what } = record;
        let what = match what {
            Happening::Mapped { addr, len, offset, prot, name } => {
                let path = name.as_bytes().starts_with(b"/") && !name.as_bytes().starts_with(b"//");
                let mapping = Mapping {
                    addr: *addr,
                    len: *len,
                    offset: *offset,
                    prot: Prot::from_bits(u64::from(*prot)),
                    path: path.then(|| PathBuf::from(name)),
                };
                return self.map(*time, *pid, *tid, mapping);
            }
            Happening::Executed => {
                if *pid == self.pid {
                    self.mapped.clear();
                    self.fresh = true;
                }
                What::Exec
            }
            Happening::Forked { pid: child_pid, tid: child } => {
                What::NewTask { child: *child, thread: child_pid == pid }
            }
            Happening::Exited => What::TaskGone,
            Happening::Fault { addr, ip } => {
                self.last_fault.insert(*tid, self.events.len());
                What::Fault { addr: *addr, ip: *ip, major: false }
            }
            Happening::MajorFault { addr } => return self.mark_major(*tid, *addr),
            Happening::Probe(number) => match self.marked.get(*number) {
                Some(marked) => What::Mark(marked.mark),
                None => return,
            },
        };
        self.push(*time, *pid, *tid, what);
    }

    fn mark_major(&mut self, tid: i32, address: u64) {
        let last = self.last_fault.get(&tid).and_then(|i| self.events.get_mut(*i));
        if let Some(Event { what: What::Fault { addr, major, .. }, .. }) = last
            && *addr == address
        {
            *major = true;
        }
    }

    /// The kernel writes the same record for mmap and for mprotect. Read-only where the same part of the same file was
    /// writable before is mprotect (of RELRO); nothing that maps a file does that.
    fn map(&mut self, time: u64, pid: i32, tid: i32, mapping: Mapping) {
        if pid != self.pid {
            return;
        }
        let end = |m: &Mapping| m.addr.saturating_add(m.len);
        let inside = |old: &&Mapping| old.addr <= mapping.addr && end(&mapping) <= end(old);
        let before = self.mapped.iter().rev().find(inside);
        let read_only = !mapping.prot.write && !mapping.prot.exec;
        let protects = read_only && before.is_some_and(|old| old.prot.write && old.path == mapping.path);
        let interp = std::mem::take(&mut self.fresh);
        match &mapping.path {
            Some(path) if interp => {
                let loader = self.locator.file(path).and_then(|f| f.interp.clone()).map(|p| self.locator.real(&p));
                self.push(time, pid, tid, What::Map(mapping.clone()));
                if let Some(loader) = loader {
                    self.push(time, pid, tid, What::Interp(loader));
                }
            }
            None if interp => {
                self.fresh = true;
                self.push(time, pid, tid, What::Map(mapping.clone()));
            }
            _ if protects => self.push(time, pid, tid, What::Protect(mapping.clone())),
            _ => self.push(time, pid, tid, What::Map(mapping.clone())),
        }
        self.mapped.push(mapping);
    }
}

/// The places worth a uprobe, from what a first start (without uprobes) mapped: entry point and `main` of each image,
/// its loader's rendezvous function, and the C library's `_exit`. `learned` are places that a traced start found.
pub fn places(events: &[Event], learned: &[Marked], locator: &mut Locator) -> Vec<Marked> {
    let mut found: Vec<Marked> = Vec::new();
    let mut add = |mark, path: &Path, offset: Option<u64>| {
        if let Some(offset) = offset
            && !found.iter().any(|m| m.path == path && m.offset == offset)
        {
            found.push(Marked { mark, path: path.to_path_buf(), offset });
        }
    };
    let Some(pid) = events.first().map(|e| e.pid) else { return found };
    let mut fresh = false;
    for event in events.iter().filter(|e| e.pid == pid) {
        match &event.what {
            What::Exec => fresh = true,
            What::Interp(path) => {
                if let Some(f) = locator.file(path) {
                    add(Mark::LoaderEntry, path, f.offset_of(f.entry));
                    add(Mark::Rendezvous, path, f.rendezvous.and_then(|at| f.offset_of(at)));
                }
            }
            What::Map(Mapping { path: Some(path), .. }) => {
                let Some(f) = locator.file(path) else { continue };
                let at = |vaddr: Option<u64>| vaddr.and_then(|v| f.offset_of(v));
                if std::mem::take(&mut fresh) {
                    add(Mark::Main, path, at(f.main));
                    add(Mark::Entry, path, at(Some(f.entry)));
                }
                // The loader has an `_exit` of its own, for when it fails.
                add(Mark::ExitFunction, path, at(f.exit_function));
            }
            _ => {}
        }
    }
    for place in learned {
        match place.mark {
            Mark::Main => add(Mark::Main, &locator.real(&place.path), Some(place.offset)),
            // Where `_exit` has a name, it has been found.
            Mark::ExitFunction if locator.file(&place.path).is_some_and(|f| f.exit_function.is_none()) => {
                add(Mark::ExitFunction, &locator.real(&place.path), before_exit(&place.path, place.offset));
            }
            _ => {}
        }
    }
    found
}

/// The instruction that loads exit_group's number, before the system call that ends at `offset`. A uprobe cannot lie
/// on the call itself: the kernel runs the probed instruction elsewhere, one step.
fn before_exit(path: &Path, offset: u64) -> Option<u64> {
    use std::os::unix::fs::FileExt;
    const WINDOW: u64 = 64;
    let from = offset.saturating_sub(WINDOW);
    let mut bytes = vec![0; usize::try_from(offset - from).ok()?];
    File::open(path).ok()?.read_exact_at(&mut bytes, from).ok()?;
    let loads: &[&[u8]] = if cfg!(target_arch = "aarch64") {
        // mov x8, #94; mov w8, #94
        &[&[0xc8, 0x0b, 0x80, 0xd2], &[0xc8, 0x0b, 0x80, 0x52]]
    } else {
        // mov eax, 231 and the same to edx and esi, from which it is moved on
        &[&[0xb8, 0xe7, 0, 0, 0], &[0xba, 0xe7, 0, 0, 0], &[0xbe, 0xe7, 0, 0, 0]]
    };
    let last = |load: &&[u8]| bytes.windows(load.len()).rposition(|w| w == *load);
    loads.iter().filter_map(last).max().map(|at| from + at as u64)
}
