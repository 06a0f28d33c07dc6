//! What happened during one start, in order: the stream that both back ends produce and all else is computed from.
//!
//! Times are nanoseconds since just before the fork. A stream can be written as text and read back, one event a
//! line, so that recorded starts are test cases (`fixtures/trace/*.events`).

use std::fmt::Write as _;
use std::path::PathBuf;

/// One event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// Nanoseconds since t0.
    pub at: u64,
    /// Process.
    pub pid: i32,
    /// Task: the process's first thread has its number.
    pub tid: i32,
    /// What happened.
    pub what: What,
}

/// A named place in a program's start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Mark {
    /// The loader's entry point: the first instruction of a dynamic program.
    LoaderEntry,
    /// The loader's rendezvous function was called: once before it searches and once when all is relocated
    /// (glibc), or only then (musl). Later calls belong to dlopen.
    Rendezvous,
    /// The program's entry point.
    Entry,
    /// `main`.
    Main,
    /// The C library's last function, `_exit`.
    ExitFunction,
}

impl Mark {
    const ALL: [(Mark, &'static str); 5] = [
        (Mark::LoaderEntry, "loader-entry"),
        (Mark::Rendezvous, "rendezvous"),
        (Mark::Entry, "entry"),
        (Mark::Main, "main"),
        (Mark::ExitFunction, "exit-function"),
    ];

    /// The word in a recorded stream.
    pub fn name(self) -> &'static str {
        Mark::ALL.iter().find(|(m, _)| *m == self).map_or("", |(_, name)| name)
    }
}

/// A piece of the address space that was mapped, or whose protection changed.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Mapping {
    /// First address.
    pub addr: u64,
    /// Bytes.
    pub len: u64,
    /// Offset in the file.
    pub offset: u64,
    /// May be read, written, executed.
    pub prot: Prot,
    /// The file; `None` for memory without one.
    pub path: Option<PathBuf>,
}

/// Protection of a mapping.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Prot {
    /// Readable.
    pub read: bool,
    /// Writable.
    pub write: bool,
    /// Executable.
    pub exec: bool,
}

impl Prot {
    /// From PROT_READ 1, PROT_WRITE 2, PROT_EXEC 4.
    pub fn from_bits(bits: u64) -> Prot {
        Prot { read: bits & 1 != 0, write: bits & 2 != 0, exec: bits & 4 != 0 }
    }

    fn letters(self) -> String {
        [(self.read, 'r'), (self.write, 'w'), (self.exec, 'x')].map(|(on, c)| if on { c } else { '-' }).iter().collect()
    }

    fn parse(text: &str) -> Option<Prot> {
        let b = text.as_bytes();
        (b.len() == 3).then(|| Prot {
            read: b.first() == Some(&b'r'),
            write: b.get(1) == Some(&b'w'),
            exec: b.get(2) == Some(&b'x'),
        })
    }
}

/// One system call, when it is over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Syscall {
    /// Its name, or `syscall_N`.
    pub name: String,
    /// Nanoseconds it took, the time in which we held the program not counted.
    pub ns: u64,
    /// What it returned; negative errno where it failed. `None`: it did not return.
    pub result: Option<i64>,
    /// The path that it was given, where it is one that takes a path.
    pub path: Option<PathBuf>,
}

impl Syscall {
    /// It failed (the kernel returns -1 … -4095 for errors).
    pub fn failed(&self) -> bool {
        self.result.is_some_and(|r| (-4095..0).contains(&r))
    }
}

/// What happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum What {
    /// execve was called; the file, where it is known.
    ExecCalled(Option<PathBuf>),
    /// The new image is in place.
    Exec,
    /// The first instruction of the new image ran, or was about to.
    FirstInstruction,
    /// The loader of the image, mapped by the kernel with it.
    Interp(PathBuf),
    /// Memory was mapped.
    Map(Mapping),
    /// Protection of mapped memory changed.
    Protect(Mapping),
    /// A page fault in user mode: address, instruction, and whether a disk was read.
    Fault {
        /// The address that was touched.
        addr: u64,
        /// The instruction that touched it.
        ip: u64,
        /// A disk was read.
        major: bool,
    },
    /// Page faults so far in the process, user and kernel mode (the ptrace back end sees no single one).
    Faults {
        /// Without reading a disk.
        minor: u64,
        /// With.
        major: u64,
    },
    /// So many pages of a file were written (and copied) so far, counted by the kernel.
    Written {
        /// The file.
        path: PathBuf,
        /// Its private pages.
        pages: u64,
    },
    /// This object's first constructor was called.
    Constructors(PathBuf),
    /// A marked place was reached.
    Mark(Mark),
    /// A system call is over.
    Syscall(Syscall),
    /// A thread or a process was made.
    NewTask {
        /// Its id.
        child: i32,
        /// It is a thread of the same process.
        thread: bool,
    },
    /// The first byte of output was written: stream 1 or 2.
    FirstByte(u8),
    /// The task is about to end: exit was called, or a signal killed it.
    ExitBegins,
    /// The task is gone.
    TaskGone,
    /// wait4 returned: the start is over.
    Reaped,
}

impl Event {
    /// One line without its end.
    pub fn to_line(&self) -> String {
        let mut s = format!("{} {} {} ", self.at, self.pid, self.tid);
        match &self.what {
            What::ExecCalled(None) => s.push_str("exec-called"),
            What::ExecCalled(Some(p)) => push(&mut s, format_args!("exec-called {}", p.display())),
            What::Exec => s.push_str("exec"),
            What::FirstInstruction => s.push_str("first-instruction"),
            What::Interp(p) => push(&mut s, format_args!("interp {}", p.display())),
            What::Map(m) => write_mapping(&mut s, "map", m),
            What::Protect(m) => write_mapping(&mut s, "protect", m),
            What::Fault { addr, ip, major } => {
                push(&mut s, format_args!("fault {addr:x} {ip:x} {}", if *major { "major" } else { "minor" }));
            }
            What::Faults { minor, major } => push(&mut s, format_args!("faults {minor} {major}")),
            What::Written { path, pages } => {
                push(&mut s, format_args!("written {pages}"));
                write_path(&mut s, Some(path));
            }
            What::Constructors(path) => {
                s.push_str("constructors");
                write_path(&mut s, Some(path));
            }
            What::Mark(m) => push(&mut s, format_args!("mark {}", m.name())),
            What::Syscall(c) => write_syscall(&mut s, c),
            What::NewTask { child, thread } => {
                push(&mut s, format_args!("new {child} {}", if *thread { "thread" } else { "process" }));
            }
            What::FirstByte(stream) => push(&mut s, format_args!("first-byte {stream}")),
            What::ExitBegins => s.push_str("exit-begins"),
            What::TaskGone => s.push_str("gone"),
            What::Reaped => s.push_str("reaped"),
        }
        s
    }

    /// Reads one line; `None` where it is no event.
    pub fn parse(line: &str) -> Option<Event> {
        let mut words = Words(line);
        let at = words.next()?.parse().ok()?;
        let pid = words.next()?.parse().ok()?;
        let tid = words.next()?.parse().ok()?;
        let what = match words.next()? {
            "exec-called" => What::ExecCalled(words.rest()),
            "exec" => What::Exec,
            "first-instruction" => What::FirstInstruction,
            "interp" => What::Interp(words.rest()?),
            "map" => What::Map(parse_mapping(&mut words)?),
            "protect" => What::Protect(parse_mapping(&mut words)?),
            "fault" => What::Fault { addr: words.hex()?, ip: words.hex()?, major: words.next()? == "major" },
            "faults" => What::Faults { minor: words.number()?, major: words.number()? },
            "written" => What::Written { pages: words.number()?, path: words.rest()? },
            "constructors" => What::Constructors(words.rest()?),
            "mark" => {
                let word = words.next()?;
                What::Mark(Mark::ALL.iter().find(|(_, name)| *name == word)?.0)
            }
            "syscall" => What::Syscall(parse_syscall(&mut words)?),
            "new" => What::NewTask { child: words.next()?.parse().ok()?, thread: words.next()? == "thread" },
            "first-byte" => What::FirstByte(words.next()?.parse().ok()?),
            "exit-begins" => What::ExitBegins,
            "gone" => What::TaskGone,
            "reaped" => What::Reaped,
            _ => return None,
        };
        Some(Event { at, pid, tid, what })
    }
}

/// Reads a recorded stream: one event a line; `#` starts a comment, empty lines are skipped.
///
/// # Errors
/// The number of the first line that is no event.
pub fn parse_stream(text: &str) -> Result<Vec<Event>, usize> {
    let lines = text.lines().enumerate().filter(|(_, l)| !l.is_empty() && !l.starts_with('#'));
    lines.map(|(i, line)| Event::parse(line).ok_or(i + 1)).collect()
}

fn push(s: &mut String, args: std::fmt::Arguments<'_>) {
    // Writing to a String cannot fail.
    let _ = s.write_fmt(args);
}

fn write_path(s: &mut String, path: Option<&PathBuf>) {
    if let Some(p) = path {
        push(s, format_args!(" {}", p.to_string_lossy().replace('\n', "\\n")));
    }
}

fn write_mapping(s: &mut String, word: &str, m: &Mapping) {
    push(s, format_args!("{word} {:x} {:x} {:x} {}", m.addr, m.len, m.offset, m.prot.letters()));
    write_path(s, m.path.as_ref());
}

fn write_syscall(s: &mut String, c: &Syscall) {
    let result = c.result.map_or("?".to_string(), |r| r.to_string());
    push(s, format_args!("syscall {} {} {result}", c.name, c.ns));
    write_path(s, c.path.as_ref());
}

fn parse_mapping(words: &mut Words<'_>) -> Option<Mapping> {
    Some(Mapping {
        addr: words.hex()?,
        len: words.hex()?,
        offset: words.hex()?,
        prot: Prot::parse(words.next()?)?,
        path: words.rest(),
    })
}

fn parse_syscall(words: &mut Words<'_>) -> Option<Syscall> {
    let name = words.next()?.to_string();
    let ns = words.number()?;
    let result = match words.next()? {
        "?" => None,
        r => Some(r.parse().ok()?),
    };
    Some(Syscall { name, ns, result, path: words.rest() })
}

/// Words of a line, separated by one space; a path is the rest of the line.
struct Words<'a>(&'a str);

impl<'a> Words<'a> {
    fn next(&mut self) -> Option<&'a str> {
        let (word, rest) = self.0.split_once(' ').unwrap_or((self.0, ""));
        self.0 = rest;
        (!word.is_empty()).then_some(word)
    }

    fn hex(&mut self) -> Option<u64> {
        u64::from_str_radix(self.next()?, 16).ok()
    }

    fn number(&mut self) -> Option<u64> {
        self.next()?.parse().ok()
    }

    fn rest(&mut self) -> Option<PathBuf> {
        let rest = std::mem::take(&mut self.0);
        (!rest.is_empty()).then(|| PathBuf::from(rest))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_reads_back_as_it_was_written() {
        let lib = Mapping {
            addr: 0x7f00_0000_1000,
            len: 0x2000,
            offset: 0x1000,
            prot: Prot { read: true, write: false, exec: true },
            path: Some("/lib/a lib.so".into()),
        };
        let call = |result, path: Option<&str>| {
            What::Syscall(Syscall { name: "openat".into(), ns: 12, result, path: path.map(PathBuf::from) })
        };
        let whats = [
            What::ExecCalled(Some("/bin/true".into())),
            What::ExecCalled(None),
            What::Exec,
            What::FirstInstruction,
            What::Interp("/lib/ld.so".into()),
            What::Map(lib.clone()),
            What::Protect(Mapping { path: None, ..lib }),
            What::Fault { addr: 0xdead, ip: 0xbeef, major: true },
            What::Faults { minor: 3, major: 0 },
            What::Written { path: "/lib/x".into(), pages: 7 },
            What::Constructors("/lib/x".into()),
            What::Mark(Mark::Rendezvous),
            What::Mark(Mark::ExitFunction),
            call(Some(-2), Some("/no such/file")),
            call(None, None),
            What::NewTask { child: 12, thread: true },
            What::FirstByte(1),
            What::ExitBegins,
            What::TaskGone,
            What::Reaped,
        ];
        let events: Vec<Event> =
            whats.into_iter().enumerate().map(|(i, what)| Event { at: i as u64, pid: 10, tid: 11, what }).collect();
        let text: String = events.iter().map(|e| e.to_line() + "\n").collect();
        assert_eq!(parse_stream(&format!("# a comment\n\n{text}")), Ok(events));
        assert_eq!(parse_stream("# x\n1 2 3 nonsense"), Err(2));
    }

    #[test]
    fn only_the_kernels_error_range_is_a_failure() {
        let call = |result| Syscall { name: "mmap".into(), ns: 0, result, path: None };
        assert!(call(Some(-2)).failed());
        assert!(!call(Some(-4096)).failed() && !call(Some(3)).failed() && !call(None).failed());
    }
}
