//! Watching a program without stopping it: perf_event_open in safe words.
//!
//! A [`Watch`] is opened on a child that is held before its exec. From exec on the kernel writes a record for each
//! new mapping, each page fault in user mode, each thread, child and exit, and each hit of a uprobe into memory that we
//! read afterwards. Refuses what it cannot know: lost records are counted, never papered over.
//!
//! The layout of all records is that of linux/perf_event.h; offsets are commented where they are read.

use std::ffi::{CString, OsString};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::order;
use crate::sys::ret::errno;

const PERF_TYPE_SOFTWARE: u32 = 1;
const PERF_COUNT_SW_PAGE_FAULTS: u64 = 2;
const PERF_COUNT_SW_PAGE_FAULTS_MAJ: u64 = 6;
/// Counts nothing; carries the records of mappings, execs and tasks.
const PERF_COUNT_SW_DUMMY: u64 = 9;

const PERF_SAMPLE_IP: u64 = 1;
const PERF_SAMPLE_TID: u64 = 1 << 1;
const PERF_SAMPLE_TIME: u64 = 1 << 2;
const PERF_SAMPLE_ADDR: u64 = 1 << 3;
const PERF_SAMPLE_IDENTIFIER: u64 = 1 << 16;
/// The same for every event, so that every record reads alike.
const SAMPLE_TYPE: u64 =
    PERF_SAMPLE_IP | PERF_SAMPLE_TID | PERF_SAMPLE_TIME | PERF_SAMPLE_ADDR | PERF_SAMPLE_IDENTIFIER;
/// What ends every record that is no sample: pid and tid, time, identifier.
const TRAILER_BYTES: usize = 24;

// Bits of perf_event_attr's flags.
const DISABLED: u64 = 1;
const INHERIT: u64 = 1 << 1;
const EXCLUDE_KERNEL: u64 = 1 << 5;
const EXCLUDE_HV: u64 = 1 << 6;
const MMAP: u64 = 1 << 8;
const COMM: u64 = 1 << 9;
const ENABLE_ON_EXEC: u64 = 1 << 12;
const TASK: u64 = 1 << 13;
const MMAP_DATA: u64 = 1 << 17;
const SAMPLE_ID_ALL: u64 = 1 << 18;
const MMAP2: u64 = 1 << 23;
const COMM_EXEC: u64 = 1 << 24;
const USE_CLOCKID: u64 = 1 << 25;

const PERF_FLAG_FD_CLOEXEC: u64 = 1 << 3;
const PERF_EVENT_IOC_SET_OUTPUT: libc::c_ulong = 0x2405;
const PERF_EVENT_IOC_ID: libc::c_ulong = 0x8008_2407;

/// perf_event_attr as of Linux 4.1 (PERF_ATTR_SIZE_VER4 and the clock behind it): every kernel since takes it.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
struct Attr {
    kind: u32,
    size: u32,
    config: u64,
    sample_period: u64,
    sample_type: u64,
    read_format: u64,
    flags: u64,
    wakeup: u32,
    bp_type: u32,
    /// For a uprobe: address of the path.
    config1: u64,
    /// For a uprobe: offset in the file.
    config2: u64,
    branch_sample_type: u64,
    sample_regs_user: u64,
    sample_stack_user: u32,
    clockid: i32,
    sample_regs_intr: u64,
    aux_watermark: u32,
    sample_max_stack: u16,
    reserved: u16,
}

/// One record, with the time at which the kernel wrote it (`CLOCK_MONOTONIC`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// Nanoseconds.
    pub time: u64,
    /// Process.
    pub pid: i32,
    /// Task.
    pub tid: i32,
    /// What.
    pub what: Happening,
}

/// What a record says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Happening {
    /// A mapping was made, or its protection changed.
    Mapped {
        /// First address.
        addr: u64,
        /// Bytes.
        len: u64,
        /// Offset in the file.
        offset: u64,
        /// PROT_* bits.
        prot: u32,
        /// The file's name, or `//anon`, `[heap]` and the like.
        name: OsString,
    },
    /// The process executed a new image.
    Executed,
    /// A task was made: its process and itself. Recorded for the parent.
    Forked {
        /// Its process: another than the parent's where it is no thread.
        pid: i32,
        /// Its id.
        tid: i32,
    },
    /// The task ended.
    Exited,
    /// A page fault.
    Fault {
        /// The address touched.
        addr: u64,
        /// The instruction.
        ip: u64,
    },
    /// The fault at this address, recorded just before, reads a disk.
    MajorFault {
        /// The address touched.
        addr: u64,
    },
    /// The uprobe with this number was hit.
    Probe(usize),
}

/// All records of one start.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Records {
    /// In order of time.
    pub records: Vec<Record>,
    /// Records that the kernel could not write, since we gave it too little memory; at least so many.
    pub lost: u64,
}

/// A place in a file where a uprobe goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// The file.
    pub path: CString,
    /// Offset in it.
    pub offset: u64,
}

/// Why perf cannot be used.
#[derive(Debug)]
pub struct Denied {
    /// What was asked for.
    pub what: &'static str,
    /// The system's reason.
    pub error: io::Error,
}

/// Events of one child, with the memory that their records go to.
#[derive(Debug)]
pub struct Watch {
    rings: Vec<Ring>,
    /// Kept open: closing an event ends it.
    _events: Vec<OwnedFd>,
    majors: Vec<u64>,
    probes: Vec<(u64, usize)>,
}

/// The number under which this kernel knows uprobes; `None` where it has none or `/sys` does not tell.
pub fn uprobe_type() -> Option<u32> {
    std::fs::read_to_string("/sys/bus/event_source/devices/uprobe/type").ok()?.trim().parse().ok()
}

impl Watch {
    /// Opens all events on the task `pid`, which has not executed yet. `ring_bytes` is wanted in total, less is taken
    /// where the system allows no more. Without `faults` there are no records of page faults: each costs more than
    /// half a microsecond, most of what observing costs.
    ///
    /// # Errors
    /// [`Denied`]: perf as a whole, or uprobes (`places` not empty), are not permitted.
    pub fn open(pid: i32, places: &[Place], ring_bytes: usize, faults: bool) -> Result<Watch, Denied> {
        let processors = allowed_processors();
        let each = (ring_bytes / processors.len().max(1)).max(MIN_RING_BYTES);
        let mut watch = Watch { rings: Vec::new(), _events: Vec::new(), majors: Vec::new(), probes: Vec::new() };
        for cpu in processors {
            watch.open_records(pid, cpu, each, faults).map_err(|error| Denied { what: "perf events", error })?;
        }
        if !places.is_empty() {
            watch.open_probes(pid, places).map_err(|error| Denied { what: "uprobes", error })?;
        }
        Ok(watch)
    }

    /// Mappings, execs, tasks and exits, and page faults with them; one event a processor, since the kernel lets
    /// only such be inherited by threads and children and written to memory.
    fn open_records(&mut self, pid: i32, cpu: i32, ring_bytes: usize, faults: bool) -> io::Result<()> {
        let flags = INHERIT | MMAP | MMAP_DATA | MMAP2 | COMM | COMM_EXEC | TASK;
        let config = if faults { PERF_COUNT_SW_PAGE_FAULTS } else { PERF_COUNT_SW_DUMMY };
        let event = open(Attr { kind: PERF_TYPE_SOFTWARE, config, flags, ..Attr::default() }, pid, cpu)?;
        self.rings.push(Ring::new(&event, ring_bytes)?);
        if faults {
            self.open_majors(pid, cpu, &event)?;
        }
        self._events.push(event);
        Ok(())
    }

    /// The page faults that read a disk, recorded once more.
    fn open_majors(&mut self, pid: i32, cpu: i32, beside: &OwnedFd) -> io::Result<()> {
        let majors =
            Attr { kind: PERF_TYPE_SOFTWARE, config: PERF_COUNT_SW_PAGE_FAULTS_MAJ, flags: INHERIT, ..Attr::default() };
        let major = open(majors, pid, cpu)?;
        join(&major, beside)?;
        self.majors.push(id(&major)?);
        self._events.push(major);
        Ok(())
    }

    /// Uprobes of the first thread alone: inherited ones would be made anew in every fork of the child's.
    fn open_probes(&mut self, pid: i32, places: &[Place]) -> io::Result<()> {
        let kind = uprobe_type().ok_or_else(|| io::Error::from_raw_os_error(libc::ENODEV))?;
        let mut first: Option<OwnedFd> = None;
        for (number, place) in places.iter().enumerate() {
            let attr = Attr { kind, config1: place.path.as_ptr() as u64, config2: place.offset, ..Attr::default() };
            let event = open(attr, pid, -1)?;
            self.probes.push((id(&event)?, number));
            match &first {
                None => {
                    self.rings.push(Ring::new(&event, MIN_RING_BYTES)?);
                    first = Some(event);
                }
                Some(first) => {
                    join(&event, first)?;
                    self._events.push(event);
                }
            }
        }
        self._events.extend(first);
        Ok(())
    }

    /// Reads all that was recorded. The child has ended, so nothing is being written.
    pub fn read(&mut self) -> Records {
        // The kernel tells of lost records only in memory that has become free again; a full ring is all we see.
        let full = self.rings.iter().filter(|r| r.is_full()).count();
        let mut all = Records { lost: full as u64, ..Records::default() };
        let raw: Vec<Vec<u8>> = self.rings.iter_mut().flat_map(Ring::take).collect();
        for record in raw.iter().filter_map(|raw| self.decode(raw)) {
            match record {
                Decoded::Record(r) => all.records.push(r),
                Decoded::Lost(n) => all.lost = all.lost.saturating_add(n),
            }
        }
        order::by_key(&mut all.records, |r| r.time);
        all
    }

    fn decode(&self, raw: &[u8]) -> Option<Decoded> {
        // perf_event_header: type u32, misc u16, size u16.
        let (kind, misc) = (u32_at(raw, 0)?, u16_at(raw, 4)?);
        match kind {
            RECORD_SAMPLE => self.decode_sample(raw).map(Decoded::Record),
            RECORD_LOST => Some(Decoded::Lost(u64_at(raw, 16)?)),
            RECORD_LOST_SAMPLES => Some(Decoded::Lost(u64_at(raw, 8)?)),
            _ => decode_other(raw, kind, misc).map(Decoded::Record),
        }
    }

    /// Identifier, ip, pid and tid, time, address: the order is the kernel's, by SAMPLE_TYPE.
    fn decode_sample(&self, raw: &[u8]) -> Option<Record> {
        let (id, ip, addr) = (u64_at(raw, 8)?, u64_at(raw, 16)?, u64_at(raw, 40)?);
        let what = if let Some((_, number)) = self.probes.iter().find(|(probe, _)| *probe == id) {
            Happening::Probe(*number)
        } else if self.majors.contains(&id) {
            Happening::MajorFault { addr }
        } else {
            Happening::Fault { addr, ip }
        };
        Some(Record { time: u64_at(raw, 32)?, pid: u32_at(raw, 24)? as i32, tid: u32_at(raw, 28)? as i32, what })
    }
}

enum Decoded {
    Record(Record),
    Lost(u64),
}

const RECORD_LOST: u32 = 2;
const RECORD_COMM: u32 = 3;
const RECORD_EXIT: u32 = 4;
const RECORD_FORK: u32 = 7;
const RECORD_SAMPLE: u32 = 9;
const RECORD_MMAP2: u32 = 10;
const RECORD_LOST_SAMPLES: u32 = 13;
const MISC_COMM_EXEC: u16 = 1 << 13;

fn decode_other(raw: &[u8], kind: u32, misc: u16) -> Option<Record> {
    let trailer = raw.len().checked_sub(TRAILER_BYTES)?;
    let (pid, tid, time) = (u32_at(raw, trailer)? as i32, u32_at(raw, trailer + 4)? as i32, u64_at(raw, trailer + 8)?);
    let what = match kind {
        RECORD_COMM if misc & MISC_COMM_EXEC != 0 => Happening::Executed,
        // pid, ppid, tid, ptid: of the new task and its parent, whose record this is.
        RECORD_FORK => {
            let (pid, tid) = (u32_at(raw, 8)? as i32, u32_at(raw, 16)? as i32);
            let (parent, parent_tid) = (u32_at(raw, 12)? as i32, u32_at(raw, 20)? as i32);
            return Some(Record { time, pid: parent, tid: parent_tid, what: Happening::Forked { pid, tid } });
        }
        RECORD_EXIT => {
            // The task that ends; the trailer names it too on kernels since 4.13.
            let (pid, tid) = (u32_at(raw, 8)? as i32, u32_at(raw, 16)? as i32);
            return Some(Record { time, pid, tid, what: Happening::Exited });
        }
        // pid, tid, addr, len, pgoff, maj, min, ino, generation, prot, flags, name.
        RECORD_MMAP2 => {
            let name = raw.get(72..trailer)?;
            let end = name.iter().position(|b| *b == 0).unwrap_or(name.len());
            Happening::Mapped {
                addr: u64_at(raw, 16)?,
                len: u64_at(raw, 24)?,
                offset: u64_at(raw, 32)?,
                prot: u32_at(raw, 64)?,
                name: OsString::from_vec(name.get(..end)?.to_vec()),
            }
        }
        _ => return None,
    };
    Some(Record { time, pid, tid, what })
}

fn u16_at(raw: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(*raw.get(at..)?.first_chunk()?))
}

fn u32_at(raw: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(*raw.get(at..)?.first_chunk()?))
}

fn u64_at(raw: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_ne_bytes(*raw.get(at..)?.first_chunk()?))
}

/// Opens one event, disabled until exec, each occurrence a sample.
fn open(mut attr: Attr, pid: i32, cpu: i32) -> io::Result<OwnedFd> {
    attr.size = size_of::<Attr>() as u32;
    attr.sample_period = 1;
    attr.sample_type = SAMPLE_TYPE;
    attr.clockid = libc::CLOCK_MONOTONIC;
    attr.flags |= DISABLED | ENABLE_ON_EXEC | EXCLUDE_KERNEL | EXCLUDE_HV | SAMPLE_ID_ALL | USE_CLOCKID;
    let (group, flags) = (-1, PERF_FLAG_FD_CLOEXEC);
    // SAFETY: `attr` is a live perf_event_attr of the size it names; a uprobe's path outlives the call.
    let fd = unsafe { libc::syscall(libc::SYS_perf_event_open, &raw const attr, pid, cpu, group, flags) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: `fd` was just made and has no other owner.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as i32) })
}

/// Sends an event's records where another's go.
fn join(event: &OwnedFd, to: &OwnedFd) -> io::Result<()> {
    // SAFETY: both descriptors are open; the request takes one as a number.
    let done = unsafe { libc::ioctl(event.as_raw_fd(), PERF_EVENT_IOC_SET_OUTPUT as _, to.as_raw_fd()) };
    if done == -1 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

fn id(event: &OwnedFd) -> io::Result<u64> {
    let mut id = 0u64;
    // SAFETY: the request writes one u64 to a live local.
    let done = unsafe { libc::ioctl(event.as_raw_fd(), PERF_EVENT_IOC_ID as _, &raw mut id) };
    if done == -1 { Err(io::Error::last_os_error()) } else { Ok(id) }
}

/// Processors on which this thread, and so its children, may run.
pub fn allowed_processors() -> Vec<i32> {
    // SAFETY: cpu_set_t is plain data for which all zeroes is a value.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: the set is a live local of the size given.
    unsafe { libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &raw mut set) };
    // SAFETY: the index is below CPU_SETSIZE.
    (0..libc::CPU_SETSIZE).filter(|cpu| unsafe { libc::CPU_ISSET(*cpu as usize, &set) }).collect()
}

/// What every user may lock for perf on any kernel, and enough for a small program.
const MIN_RING_BYTES: usize = 64 * 1024;

/// Offsets of data_head and data_tail in struct perf_event_mmap_page.
const HEAD: usize = 1024;
const TAIL: usize = 1032;

/// Memory that the kernel writes records to: one page of bookkeeping, then a power of two of pages.
#[derive(Debug)]
struct Ring {
    start: NonNull<u8>,
    page: usize,
    data: usize,
}

impl Ring {
    /// Maps a ring of `wanted` bytes, or half as many until the system agrees.
    fn new(event: &OwnedFd, wanted: usize) -> io::Result<Ring> {
        // SAFETY: sysconf takes no pointers.
        let page = usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(4096);
        let mut data = wanted.next_power_of_two().max(page);
        loop {
            let (len, prot) = (page + data, libc::PROT_READ | libc::PROT_WRITE);
            // SAFETY: a new mapping at an address of the kernel's choice touches no memory of ours.
            let at = unsafe { libc::mmap(std::ptr::null_mut(), len, prot, libc::MAP_SHARED, event.as_raw_fd(), 0) };
            if at != libc::MAP_FAILED {
                let start = NonNull::new(at.cast()).ok_or_else(|| io::Error::from_raw_os_error(libc::ENOMEM))?;
                return Ok(Ring { start, page, data });
            }
            // EPERM: more than this user may lock.
            if !matches!(errno(), libc::EPERM | libc::ENOMEM) || data <= page {
                return Err(io::Error::last_os_error());
            }
            data /= 2;
        }
    }

    /// A number of the bookkeeping page.
    fn word(&self, offset: usize) -> &AtomicU64 {
        // SAFETY: the mapping starts page-aligned and `offset` is a multiple of 8 within its first page.
        let at = unsafe { self.start.as_ptr().add(offset) }.cast::<AtomicU64>();
        // SAFETY: aligned, mapped until drop, and shared with the kernel, which writes it as one word.
        unsafe { &*at }
    }

    /// No room for another record, whatever its size: some may have been lost.
    fn is_full(&self) -> bool {
        // A mapping's record holds a path.
        const LARGEST_RECORD: u64 = 4096 + 256;
        let used = self.word(HEAD).load(Ordering::Acquire) - self.word(TAIL).load(Ordering::Relaxed);
        self.data as u64 - used.min(self.data as u64) < LARGEST_RECORD
    }

    /// Copies out what was written since the last time.
    fn take(&mut self) -> Vec<Vec<u8>> {
        let head = self.word(HEAD).load(Ordering::Acquire);
        let mut tail = self.word(TAIL).load(Ordering::Relaxed);
        let mut records = Vec::new();
        while tail < head {
            let header = self.copy(tail, 8);
            let size = usize::from(u16_at(&header, 6).unwrap_or(0));
            if size < 8 || size as u64 > head - tail {
                break; // no kernel writes this; without the check it would be an endless loop
            }
            records.push(self.copy(tail, size));
            tail += size as u64;
        }
        self.word(TAIL).store(head, Ordering::Release);
        records
    }

    /// `len` bytes from a position that may lie behind the end, where the ring begins again.
    fn copy(&self, from: u64, len: usize) -> Vec<u8> {
        // SAFETY: the data follow the bookkeeping page and are `self.data` bytes of the mapping.
        let base = unsafe { self.start.as_ptr().add(self.page) };
        // SAFETY: mapped and readable until drop; the kernel does not write what lies between tail and head.
        let data = unsafe { std::slice::from_raw_parts(base, self.data) };
        let at = (from % self.data as u64) as usize;
        let first = len.min(self.data - at);
        let mut out = data[at..at + first].to_vec();
        out.extend_from_slice(&data[..len - first]);
        out
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: unmaps exactly the mapping made in `new`; no reference into it outlives `self`.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.page + self.data) };
    }
}
