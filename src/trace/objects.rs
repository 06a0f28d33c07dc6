//! What the loader did with each object of a start: mapped when, relocated how long, which pages it wrote. Pure.
//!
//! Relocation time is cut at what can be seen: the loader protects an object (mprotect of RELRO) when it is done with
//! it, and a write fault in an object's data says that it is being relocated. Time between two such sights goes to the
//! object that the later one shows. An object with neither takes no time of its own here.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};

use crate::trace::event::{Event, What};
use crate::trace::phases::{ImageSpan, PhaseName, Timeline};
use crate::trace::space::{FaultKind, PAGE, Space};

/// One object of the last image.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Object {
    /// Its file.
    pub path: PathBuf,
    /// When its first part was mapped, nanoseconds since t0.
    pub mapped_at: u64,
    /// Time of mapping it: from its first mapping (or from the end of the object before) to its last.
    pub mapping_ns: u64,
    /// Time of relocating it.
    pub relocating_ns: u64,
    /// Time of its constructors, as far as page faults show where the program was.
    pub constructing_ns: u64,
    /// Pages of it that were copied because they were written until all was relocated.
    pub pages_written: u64,
    /// Page faults in it until the entry point.
    pub faults: u64,
}

/// The objects of the last image, in the order in which they were mapped.
pub fn objects(events: &[Event], timeline: &Timeline) -> Vec<Object> {
    let Some(pid) = events.first().map(|e| e.pid) else { return Vec::new() };
    let Some(image) = timeline.images.last() else { return Vec::new() };
    let mut walk = Walk::new(image);
    for event in events.iter().filter(|e| e.pid == pid && e.at >= image.called) {
        walk.see(event, timeline.span_at(event.at).map(|s| s.name));
    }
    walk.into_objects()
}

struct Walk {
    /// When the last object has begun to run: what happens later is the program's doing.
    end: u64,
    /// When all is relocated: a static program relocates itself before main.
    relocated: u64,
    space: Space,
    objects: Vec<Object>,
    by_path: HashMap<PathBuf, usize>,
    written: HashSet<u64>,
    /// The object that is being relocated or constructed, and since when time is unaccounted for.
    current: Option<usize>,
    since: u64,
    phase: Option<PhaseName>,
    /// Exact counts, where a stop read them.
    counted: bool,
    /// Objects with code: other files that are mapped are data (ld.so.cache, locale archives).
    with_code: HashSet<usize>,
    /// Constructors are told by breakpoints, and need not be guessed from where faults come from.
    told: bool,
}

impl Walk {
    fn new(image: &ImageSpan) -> Walk {
        let begun = if image.interp.is_some() { image.entry } else { image.main };
        let end = begun.or(image.exit).unwrap_or(u64::MAX);
        Walk {
            end,
            relocated: image.relocated.unwrap_or(end),
            space: Space::default(),
            objects: Vec::new(),
            by_path: HashMap::new(),
            written: HashSet::new(),
            current: None,
            since: 0,
            phase: None,
            counted: false,
            with_code: HashSet::new(),
            told: false,
        }
    }

    fn see(&mut self, event: &Event, phase: Option<PhaseName>) {
        if phase != self.phase {
            self.enter(event.at, phase);
        }
        match &event.what {
            What::Exec => {
                self.objects.clear();
                self.by_path.clear();
            }
            What::Map(m) => {
                if let Some(path) = &m.path {
                    self.mapped(path, m.prot.exec, event.at);
                }
            }
            What::Protect(m) if phase == Some(PhaseName::Relocate) => {
                let object = self.object_at(m.addr);
                self.spend(object, event.at);
                // Done with it: what comes next is another's until it shows.
                self.current = None;
            }
            What::Constructors(path) => {
                let object = self.by_path.get(path).copied();
                self.spend(self.current, event.at);
                (self.current, self.told) = (object, true);
            }
            What::Fault { addr, ip, .. } => self.fault(*addr, *ip, event.at, phase),
            What::Written { path, pages } if event.at <= self.relocated => {
                self.count(path, *pages);
            }
            _ => {}
        }
        self.space.follow(event);
    }

    /// A phase begins: what is left of the one before belongs to the object it ended with.
    fn enter(&mut self, at: u64, phase: Option<PhaseName>) {
        let left = self.current.take();
        self.spend(left, at);
        self.since = at;
        self.phase = phase;
    }

    fn object_at(&self, addr: u64) -> Option<usize> {
        let (path, _) = self.space.file_at(addr)?;
        self.by_path.get(path.as_path()).copied()
    }

    /// Gives the time since the last sight to `object`.
    fn spend(&mut self, object: Option<usize>, at: u64) {
        let ns = at.saturating_sub(self.since);
        self.since = at.max(self.since);
        let Some(object) = object.and_then(|i| self.objects.get_mut(i)) else { return };
        match self.phase {
            Some(PhaseName::Relocate) => object.relocating_ns += ns,
            // musl calls all constructors between entry point and main.
            Some(PhaseName::Construct | PhaseName::RuntimeInit) => object.constructing_ns += ns,
            Some(PhaseName::Map) => object.mapping_ns += ns,
            _ => {}
        }
    }

    fn mapped(&mut self, path: &Path, code: bool, at: u64) {
        if at > self.end {
            return; // dlopen, or a file that is no object
        }
        let index = match self.by_path.get(path) {
            Some(index) => *index,
            None => {
                self.by_path.insert(path.to_path_buf(), self.objects.len());
                self.objects.push(Object { path: path.to_path_buf(), mapped_at: at, ..Object::default() });
                self.objects.len() - 1
            }
        };
        if code {
            self.with_code.insert(index);
        }
        if self.phase == Some(PhaseName::Map) {
            self.spend(Some(index), at);
        }
    }

    fn fault(&mut self, addr: u64, ip: u64, at: u64, phase: Option<PhaseName>) {
        if at > self.end {
            return;
        }
        let Some(object) = self.object_at(addr) else { return };
        let writes = self.space.kind(addr) == FaultKind::Cow;
        if let Some(o) = self.objects.get_mut(object) {
            o.faults += 1;
            if writes && at <= self.relocated && self.written.insert(addr / PAGE) && !self.counted {
                o.pages_written += 1;
            }
        }
        match phase {
            Some(PhaseName::Relocate) if writes => self.turn_to(object, at),
            // Constructors are where the program's own instructions are.
            Some(PhaseName::Construct) if !self.told => {
                if let Some(running) = self.object_at(ip) {
                    self.turn_to(running, at);
                }
            }
            _ => {}
        }
    }

    /// `object` shows: time so far belongs to the one before it, or to it where there was none.
    fn turn_to(&mut self, object: usize, at: u64) {
        if self.current != Some(object) {
            self.spend(self.current.or(Some(object)), at);
            self.current = Some(object);
        }
    }

    /// A stop counted the pages exactly; the estimates from faults give way.
    fn count(&mut self, path: &Path, pages: u64) {
        if !self.counted {
            self.counted = true;
            self.objects.iter_mut().for_each(|o| o.pages_written = 0);
        }
        if let Some(o) = self.by_path.get(path).and_then(|i| self.objects.get_mut(*i)) {
            o.pages_written = pages;
        }
    }

    fn into_objects(self) -> Vec<Object> {
        let with_code = self.with_code;
        self.objects.into_iter().enumerate().filter(|(i, _)| with_code.contains(i)).map(|(_, o)| o).collect()
    }
}
