//! The ptrace back end: one start under trace, its stops turned into events.
//!
//! What the program does between two stops runs at full speed; the time in which we hold its first thread is
//! cut out of every time stamp. What cannot be cut out is the way into and out of each stop (a few µs in a virtual
//! machine): traced starts are slower, and by how much is always told.
//!
//! `places` puts breakpoints and hears of them, `calls` follows system calls, `proc` reads what the kernel accounts.

mod calls;
pub mod cpuid;
mod places;
mod proc;

use std::collections::HashMap;
use std::fs::File;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::time::Duration;

use crate::error::{Context, Error, Exit, Result};
use crate::order;
use crate::sys::clock::now_ns;
use crate::sys::keeper::{Heard, Keeper, above_standard};
use crate::sys::linux::perf;
use crate::sys::linux::ptrace::{self, Breakpoint, Probed, Resume, Stop, Streams, Waited, resume};
use crate::sys::process::Program;
use crate::sys::start::Stream;
use crate::sys::wait::{Usage, WaitStatus};
use crate::trace::clock::Clock;
use crate::trace::event::{Event, Mapping, What};
use crate::trace::locate::Locator;
use crate::trace::recording::{Marked, NotTraced, Recording};
use crate::trace::records;

use places::Place;

/// What stops the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Watch {
    /// Breakpoints at the marked places alone; perf's records tell of mappings and tasks.
    Marks,
    /// The same, and a record of each page fault.
    Faults,
    /// Those, and the loader's system calls from exec until all objects are relocated: enough for phases.
    Loader,
    /// All system calls, in every thread and child.
    Calls,
    /// Those, and each object's constructors.
    All,
}

/// After the command's end, how long its children may go on before we end them.
const GRACE: Duration = Duration::from_millis(500);
/// SIGTRAP and SIGKILL have these numbers on every Linux.
const TRAP: i32 = 5;
const KILL: i32 = 9;

/// Starts commands under ptrace. Belongs to the thread that made it.
#[derive(Debug)]
pub struct Tracer {
    null: OwnedFd,
    /// Memory for perf's records, where they are asked for.
    pub ring_bytes: usize,
}

impl Tracer {
    /// Makes it ready.
    ///
    /// # Errors
    /// Where `/dev/null` cannot be opened.
    pub fn new() -> Result<Tracer> {
        let null = File::options().read(true).write(true).open("/dev/null").context(|| "/dev/null")?;
        Ok(Tracer { null: above_standard(null.into())?, ring_bytes: records::RING_BYTES })
    }

    /// One start of `program`. `timeout_ns` ends it; `before` runs while the child waits to be released.
    ///
    /// # Errors
    /// [`NotTraced`].
    pub fn record(
        &self,
        program: &Program,
        watch: Watch,
        locator: &mut Locator,
        timeout_ns: Option<u64>,
        before: &mut dyn FnMut(),
    ) -> Result<Recording, NotTraced> {
        let keeper = Keeper::new(timeout_ns)?;
        let (stdout, stderr) = keeper.write_ends();
        let streams = Streams { null: &self.null, stdout, stderr };
        let mut traced = Probed::fork(program, streams).context(|| "cannot start a traced command")?;
        traced.seize().map_err(|e| NotTraced::Denied(format!("ptrace: {}", Error::from(e))))?;
        let perf = match watch {
            Watch::Marks | Watch::Faults => {
                Some(records::open(traced.pid(), &[], watch == Watch::Faults, self.ring_bytes)?)
            }
            Watch::Loader | Watch::Calls | Watch::All => None,
        };
        before();
        traced.release().context(|| "cannot start a traced command")?;
        keeper.watch(traced.pid());
        let mut session = Session::new(&traced, watch, keeper.inodes(), locator);
        let ended = session.run();
        Ok(session.finish(&traced, ended, keeper.finish(), perf)?)
    }
}

#[derive(Debug, Default)]
struct Task {
    /// Its process.
    pid: i32,
    /// The system call that it is in.
    call: Option<calls::Call>,
    /// Stepping over this breakpoint, which goes back in afterwards.
    stepping: Option<Breakpoint>,
}

struct Session<'a> {
    traced: &'a Probed,
    watch: Watch,
    pipes: [u64; 2],
    locator: &'a mut Locator,
    events: Vec<Event>,
    learned: Vec<Marked>,
    tasks: HashMap<i32, Task>,
    breakpoints: Vec<(Breakpoint, Place)>,
    /// Paths behind the first process's descriptors, as far as it opened them under our eyes.
    files: HashMap<i32, PathBuf>,
    /// The traced program is past its first exec.
    started: bool,
    /// `Watch::Loader`: system calls still stop.
    loading: bool,
    first_byte: bool,
    clock: Clock,
    /// When the stop being handled was noticed.
    noticed: u64,
    stops: u64,
    /// Calls of the loader's rendezvous function in this image.
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
            learned: Vec::new(),
            tasks: HashMap::from([(traced.pid(), main)]),
            breakpoints: Vec::new(),
            files: HashMap::new(),
            started: false,
            loading: false,
            first_byte: false,
            clock: Clock::new(traced.t0()),
            noticed: 0,
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
                    self.noticed = now_ns();
                    self.push(tid, What::TaskGone);
                    self.tasks.remove(&tid);
                    if tid == self.traced.pid() {
                        self.push(tid, What::Reaped);
                        ended = Some(Ended { at: self.noticed, status, usage });
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

    fn finish(
        self,
        traced: &Probed,
        ended: Result<Option<Ended>>,
        heard: Heard,
        perf: Option<perf::Watch>,
    ) -> Result<Recording> {
        let stamps = traced.stamps();
        let ended = ended?.context(|| "the traced command vanished")?;
        if stamps.errno != 0 {
            return Err(Error::from_errno(stamps.errno).context("cannot execute").with_exit(Exit::CommandFailed));
        }
        if heard.interrupted {
            return Err(Error::new("interrupted").with_exit(Exit::Interrupted));
        }
        let (total, held) = (self.clock.at(ended.at), self.clock.held());
        let (mut events, mut lost) = (self.events, 0);
        if !self.first_byte
            && let Some((at, stream)) = heard.first()
        {
            let what = What::FirstByte(if stream == Stream::Stdout { 1 } else { 2 });
            events.push(Event { at: self.clock.at(at), pid: traced.pid(), tid: traced.pid(), what });
            order::by_key(&mut events, |e| e.at);
        }
        if let Some(mut perf) = perf {
            let records = perf.read();
            lost = records.lost;
            let seen = records::translate(traced.pid(), &self.clock, &[], self.locator, &records, stamps);
            events = records::merge(events, seen);
        }
        let recording = Recording::new(events, total, held, ended.status, ended.usage, heard);
        Ok(Recording {
            stops: self.stops,
            peak_rss_bytes: self.peak_rss_bytes,
            learned: self.learned,
            lost,
            ..recording
        })
    }

    fn push(&mut self, tid: i32, what: What) {
        let pid = self.tasks.get(&tid).map_or(tid, |t| t.pid);
        self.events.push(Event { at: self.clock.at(self.noticed), pid, tid, what });
    }

    fn is_main(&self, tid: i32) -> bool {
        tid == self.traced.pid()
    }

    fn in_main_process(&self, tid: i32) -> bool {
        self.tasks.get(&tid).is_some_and(|t| t.pid == self.traced.pid())
    }

    fn handle(&mut self, tid: i32, stop: Stop) {
        self.noticed = now_ns();
        self.stops += u64::from(self.started);
        self.meet(tid);
        let (mut how, mut signal) = (None, 0);
        match stop {
            Stop::Exec { former } => self.exec(tid, former),
            Stop::NewTask(child) => self.new_task(tid, child),
            Stop::Exiting => self.exiting(tid),
            Stop::Syscall => self.syscall(tid),
            Stop::Trap => match self.trap(tid) {
                places::Trapped::Go => {}
                places::Trapped::Step => how = Some(Resume::Step),
                places::Trapped::Theirs => signal = TRAP,
            },
            Stop::Signal(s) => signal = s,
            Stop::Group => how = Some(Resume::Listen),
            Stop::Attached | Stop::VforkDone => {}
        }
        let how = how.unwrap_or_else(|| self.usual_resume());
        if self.is_main(tid) {
            self.clock.cut(self.noticed, now_ns());
        }
        // It was killed meanwhile where this fails: the next wait says so.
        let _ = resume(tid, how, signal);
    }

    fn usual_resume(&self) -> Resume {
        let all = self.started && matches!(self.watch, Watch::Calls | Watch::All);
        if all || self.loading { Resume::ToSyscall } else { Resume::Continue }
    }

    /// A task may report before its parent tells of it.
    fn meet(&mut self, tid: i32) {
        if !self.tasks.contains_key(&tid) {
            let pid = self.tasks.values().map(|t| t.pid).find(|pid| ptrace::is_thread_of(*pid, tid)).unwrap_or(tid);
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
            self.peak_rss_bytes = self.peak_rss_bytes.max(proc::peak_rss_bytes(self.traced.pid()));
        }
        self.push(tid, What::ExitBegins);
    }

    /// perf records what happens between stops.
    fn with_perf(&self) -> bool {
        matches!(self.watch, Watch::Marks | Watch::Faults)
    }

    fn page_faults(&mut self, tid: i32) {
        // perf tells each one, with its address.
        if !self.with_perf()
            && let Some((minor, major)) = proc::faults(self.traced.pid())
        {
            self.push(tid, What::Faults { minor, major });
        }
    }

    /// The kernel names files by their real path, our events as the program opened them.
    fn pages_written(&mut self, tid: i32) {
        let mut names: HashMap<PathBuf, PathBuf> = HashMap::new();
        for event in &self.events {
            if let What::Map(Mapping { path: Some(path), .. }) = &event.what {
                names.entry(self.locator.real(path)).or_insert_with(|| path.clone());
            }
        }
        for (path, pages) in proc::written_pages(self.traced.pid()) {
            let path = names.remove(&path).unwrap_or(path);
            self.push(tid, What::Written { path, pages });
        }
    }
}
