//! The bytes of a file that somebody else may change, in whatever shape it is.
//!
//! Only regular files are opened: opening a FIFO would block, a device may act, a directory has no bytes. Small files are
//! read, larger ones mapped, since tables lie scattered over files of hundreds of megabytes and only a few pages are
//! looked at. (Reading ranges would need to know them beforehand, and each table says where the next one is.)
//!
//! A mapped file that is cut while it is read raises SIGBUS at the first page past its new end. A handler puts a page of
//! zeros there and marks the mapping as changed: the reader sees a table that ends early and goes on, and whoever
//! asked can say that the file changed.

use std::fs::{File, Metadata, OpenOptions};
use std::io::Read;
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::sync::Once;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use memmap2::Mmap;

/// Files up to this size are read: that costs less than mapping and unmapping.
const READ_UP_TO: u64 = 32 << 10;

/// Mappings that the handler can know at once; with more, files are read. A survey keeps each shared library mapped.
const SLOTS: usize = 4096;

/// Why a file gives no bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    /// An error number of the system.
    Errno(i32),
    /// It is a directory, a FIFO, …: not a regular file.
    Kind(&'static str),
}

impl Refusal {
    /// The number that the system would give for it.
    pub fn errno(&self) -> i32 {
        match self {
            Refusal::Errno(n) => *n,
            Refusal::Kind("is a directory") => libc::EISDIR,
            Refusal::Kind(_) => libc::EINVAL,
        }
    }
}

impl std::fmt::Display for Refusal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Refusal::Errno(n) => write!(f, "{}", crate::error::Error::from_errno(*n)),
            Refusal::Kind(what) => f.write_str(what),
        }
    }
}

impl From<std::io::Error> for Refusal {
    fn from(e: std::io::Error) -> Refusal {
        Refusal::Errno(e.raw_os_error().unwrap_or(libc::EIO))
    }
}

/// Which file it is, and which version of its content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stamp {
    /// `st_dev`.
    pub dev: u64,
    /// `st_ino`.
    pub ino: u64,
    /// `st_size`.
    pub size: u64,
    /// `st_mtime` in nanoseconds.
    pub mtime_ns: i128,
}

impl Stamp {
    fn of(meta: &Metadata) -> Stamp {
        let mtime_ns = i128::from(meta.mtime()) * 1_000_000_000 + i128::from(meta.mtime_nsec());
        Stamp { dev: meta.dev(), ino: meta.ino(), size: meta.size(), mtime_ns }
    }
}

/// Bytes of one regular file.
#[derive(Debug)]
pub struct FileBytes {
    held: Held,
    stamp: Stamp,
}

#[derive(Debug)]
enum Held {
    Read(Vec<u8>),
    /// The guard goes first: the handler must forget the range before it is unmapped.
    Mapped(Guard, Mmap),
}

impl AsRef<[u8]> for FileBytes {
    fn as_ref(&self) -> &[u8] {
        match &self.held {
            Held::Read(bytes) => bytes,
            Held::Mapped(_, map) => map,
        }
    }
}

impl FileBytes {
    /// Which file it was when it was opened.
    pub fn stamp(&self) -> Stamp {
        self.stamp
    }

    /// True where the file was cut under our eyes: some of the bytes read were zeros of ours.
    pub fn was_cut(&self) -> bool {
        match &self.held {
            Held::Read(_) => false,
            Held::Mapped(guard, _) => guard.slot().changed.load(Ordering::Relaxed),
        }
    }

    /// True where the file behind the path is not as it was when it was opened, or was cut meanwhile.
    pub fn changed(&self, path: &Path) -> bool {
        self.was_cut() || !std::fs::metadata(path).is_ok_and(|meta| Stamp::of(&meta) == self.stamp)
    }
}

/// Opens a regular file.
///
/// # Errors
/// The system's reason, or what the path names instead of a regular file.
pub fn open(path: &Path) -> Result<FileBytes, Refusal> {
    open_if(path, |_| true)?.ok_or(Refusal::Errno(libc::ENOENT))
}

/// Opens a regular file whose first bytes (up to 16) are `wanted`; `None` for others, of which nothing else is read.
///
/// # Errors
/// As [`open`].
pub fn open_if(path: &Path, wanted: impl Fn(&[u8]) -> bool) -> Result<Option<FileBytes>, Refusal> {
    // Before opening: merely opening some devices acts (a tape rewinds, a watchdog starts to count).
    regular(&std::fs::metadata(path)?)?;
    // Should it have become a FIFO or terminal since, opening must neither block nor take it over.
    let file = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY).open(path)?;
    let meta = file.metadata()?;
    regular(&meta)?;
    let mut head = [0u8; 16];
    let len = file.read_at(&mut head, 0)?;
    if !wanted(&head[..len]) {
        return Ok(None);
    }
    let stamp = Stamp::of(&meta);
    let held = if stamp.size <= READ_UP_TO { read(&file, stamp.size)? } else { map(&file, stamp.size)? };
    Ok(Some(FileBytes { held, stamp }))
}

fn regular(meta: &Metadata) -> Result<(), Refusal> {
    let kind = meta.file_type();
    let what = if kind.is_file() {
        return Ok(());
    } else if kind.is_dir() {
        "is a directory"
    } else if kind.is_fifo() {
        "is a FIFO"
    } else if kind.is_socket() {
        "is a socket"
    } else if kind.is_char_device() || kind.is_block_device() {
        "is a device"
    } else {
        "is not a regular file"
    };
    Err(Refusal::Kind(what))
}

/// A temporary file that has no name: its bytes live as long as it is open.
///
/// # Errors
/// Where no directory takes a file.
pub fn unnamed(name: &std::ffi::CStr) -> crate::error::Result<File> {
    use crate::error::{Context, Error};
    let leaf = format!("{}-{}", name.to_string_lossy(), std::process::id());
    let mut reason = Error::new("no directory to try");
    for dir in [std::env::temp_dir(), "/dev/shm".into(), "/var/tmp".into()] {
        let path = dir.join(&leaf);
        let made = OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(&path);
        match made.and_then(|file| std::fs::remove_file(&path).map(|()| file)).context(|| path.to_string_lossy()) {
            Ok(file) => return Ok(file),
            Err(e) => reason = e,
        }
    }
    Err(reason.context("cannot make a temporary file"))
}

/// Reads as many bytes as the file had when it was opened; files of `/proc` say 0 and give more.
fn read(mut file: &File, size: u64) -> Result<Held, Refusal> {
    let mut bytes = Vec::with_capacity(usize::try_from(size).unwrap_or(0));
    let limit = if size == 0 { READ_UP_TO } else { size };
    file.by_ref().take(limit).read_to_end(&mut bytes)?;
    Ok(Held::Read(bytes))
}

fn map(file: &File, size: u64) -> Result<Held, Refusal> {
    // SAFETY: the mapping is private and read-only. Somebody else may still change or cut the file: bytes may then
    // differ from one read to the next, which our readers bear (each value is checked where it is used, nothing is
    // trusted twice), and a page past the new end is replaced by the handler, which `Guard` tells of this range.
    let map = unsafe { Mmap::map(file) }?;
    match Guard::new(map.as_ptr() as usize, map.len()) {
        Some(guard) => Ok(Held::Mapped(guard, map)),
        None => read(file, size),
    }
}

/// A range that the handler may fill with zeros; `start` 0 is free.
struct Slot {
    start: AtomicUsize,
    end: AtomicUsize,
    changed: AtomicBool,
}

static TABLE: [Slot; SLOTS] =
    [const { Slot { start: AtomicUsize::new(0), end: AtomicUsize::new(0), changed: AtomicBool::new(false) } }; SLOTS];
/// Where the search for a free slot starts.
static NEXT: AtomicUsize = AtomicUsize::new(0);
static PAGE: AtomicUsize = AtomicUsize::new(4096);
static INSTALL: Once = Once::new();

/// Holds a slot of the table.
#[derive(Debug)]
struct Guard(usize);

impl Guard {
    fn new(start: usize, len: usize) -> Option<Guard> {
        INSTALL.call_once(install);
        let first = NEXT.fetch_add(1, Ordering::Relaxed);
        for i in 0..SLOTS {
            let index = (first + i) % SLOTS;
            let slot = &TABLE[index];
            // Reserved with an empty range first, so that the handler never sees half of one.
            if slot.start.compare_exchange(0, usize::MAX, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
                slot.changed.store(false, Ordering::Relaxed);
                slot.end.store(start + len, Ordering::Release);
                slot.start.store(start, Ordering::Release);
                return Some(Guard(index));
            }
        }
        None
    }

    fn slot(&self) -> &'static Slot {
        &TABLE[self.0]
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.slot().end.store(0, Ordering::Release);
        self.slot().start.store(0, Ordering::Release);
    }
}

fn install() {
    // SAFETY: sysconf takes no pointer.
    let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    PAGE.store(usize::try_from(page).unwrap_or(4096), Ordering::Relaxed);
    // SAFETY: sigaction is plain data for which all zeroes is a value (empty mask).
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    let handler: extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut libc::c_void) = fill_with_zeros;
    action.sa_sigaction = handler as libc::sighandler_t;
    action.sa_flags = libc::SA_SIGINFO;
    // SAFETY: the handler is async-signal-safe; the pointer is to a live local. exec resets it in programs we start.
    unsafe { libc::sigaction(libc::SIGBUS, &raw const action, std::ptr::null_mut()) };
}

/// Puts a page of zeros where a mapped file ended too early. Any other SIGBUS gets its default action: it repeats when
/// the handler returns, and ends the process as it would have.
extern "C" fn fill_with_zeros(signal: libc::c_int, info: *mut libc::siginfo_t, _context: *mut libc::c_void) {
    // SAFETY: the kernel passes a valid siginfo to a handler installed with SA_SIGINFO, which lives as long as it runs.
    let info = unsafe { &*info };
    // SAFETY: the siginfo of a SIGBUS has an address.
    let addr = unsafe { info.si_addr() } as usize;
    let inside = |slot: &&Slot| slot.start.load(Ordering::Acquire) <= addr && addr < slot.end.load(Ordering::Acquire);
    let filled = TABLE.iter().find(inside).is_some_and(|slot| {
        slot.changed.store(true, Ordering::Relaxed);
        let page = PAGE.load(Ordering::Relaxed);
        let flags = libc::MAP_PRIVATE | libc::MAP_ANON | libc::MAP_FIXED;
        // SAFETY: the page lies in a range that a live `Guard` holds, so it is a mapping of ours that only readers of
        // bytes look at; replacing it by zeros moves nothing. mmap is a plain system call, safe in a handler.
        let at = unsafe { libc::mmap((addr & !(page - 1)) as *mut libc::c_void, page, libc::PROT_READ, flags, -1, 0) };
        at != libc::MAP_FAILED
    });
    if !filled {
        // SAFETY: signal is async-signal-safe.
        unsafe { libc::signal(signal, libc::SIG_DFL) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;

    fn scratch(name: &str) -> PathBuf {
        std::env::temp_dir().join(format!("premain-file-{}-{name}", std::process::id()))
    }

    #[test]
    fn small_and_large_files_give_their_bytes() {
        for size in [0usize, 1, 4096, 200_000] {
            let path = scratch(&size.to_string());
            let content: Vec<u8> = (0..size).map(|i| (i % 251) as u8).collect();
            std::fs::write(&path, &content).unwrap();
            let file = open(&path).unwrap();
            assert_eq!(file.as_ref(), content);
            assert!(!file.was_cut() && !file.changed(&path));
            std::fs::write(&path, b"x").unwrap();
            assert!(file.changed(&path));
            std::fs::remove_file(&path).unwrap();
        }
    }

    #[test]
    fn only_files_that_start_as_wanted() {
        let path = scratch("head");
        std::fs::write(&path, b"#!").unwrap();
        assert!(open_if(&path, |head| head == b"#!").unwrap().is_some());
        assert!(open_if(&path, |head| head.len() > 2).unwrap().is_none());
        std::fs::remove_file(&path).unwrap();
    }

    /// The rest of a file that is cut reads as zeros, and the mapping says so.
    #[test]
    fn a_file_that_shrinks_while_it_is_read() {
        let path = scratch("shrinks");
        std::fs::write(&path, vec![7u8; 1 << 20]).unwrap();
        let file = open(&path).unwrap();
        assert_eq!(file.as_ref()[5], 7);
        OpenOptions::new().write(true).open(&path).unwrap().set_len(100).unwrap();
        let sum: u64 = file.as_ref().iter().map(|b| u64::from(*b)).sum();
        assert!(sum <= 7 * 4096, "{sum}");
        assert!(file.was_cut() && file.changed(&path));
        std::fs::remove_file(&path).unwrap();
    }

    #[test]
    fn what_is_no_regular_file_is_named_and_never_blocks() {
        assert_eq!(open(Path::new("/")).unwrap_err().to_string(), "is a directory");
        assert_eq!(open(Path::new("/dev/null")).unwrap_err().to_string(), "is a device");
        assert_eq!(open(Path::new("/no/such/file")).unwrap_err().errno(), libc::ENOENT);
        let fifo = scratch("fifo");
        let name = std::ffi::CString::new(fifo.to_str().unwrap()).unwrap();
        // SAFETY: the name is a C string that lives across the call.
        assert_eq!(unsafe { libc::mkfifo(name.as_ptr(), 0o600) }, 0);
        assert_eq!(open(&fifo).unwrap_err().to_string(), "is a FIFO");
        std::fs::remove_file(&fifo).unwrap();
        let (a, b) = (scratch("loop-a"), scratch("loop-b"));
        std::os::unix::fs::symlink(&a, &b).unwrap();
        std::os::unix::fs::symlink(&b, &a).unwrap();
        assert_eq!(open(&a).unwrap_err().errno(), libc::ELOOP);
        std::fs::remove_file(&a).unwrap();
        std::fs::remove_file(&b).unwrap();
    }

    /// A hole of gigabytes costs nothing as long as nobody looks at it.
    #[test]
    fn a_sparse_file_is_mapped_whole() {
        let path = scratch("sparse");
        let file = File::create(&path).unwrap();
        if file.set_len(8 << 30).is_ok() {
            let bytes = open(&path).unwrap();
            assert_eq!(bytes.as_ref().len(), 8 << 30);
            assert_eq!(bytes.as_ref()[7 << 30], 0);
            assert!(!bytes.was_cut());
        }
        std::fs::remove_file(&path).unwrap();
    }
}
