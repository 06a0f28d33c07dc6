//! Files as they come: from the host or from another root, ELF, Mach-O or script, or nothing that a kernel starts.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::facts::LinkFacts;
use crate::loader::binary::{Binary, File};
use crate::loader::files::{Bytes, Errno, FileId, Files, Opened};
use crate::loader::host::Host;
use crate::loader::root::Rooted;
use crate::sys::file::{self, FileBytes};
use crate::{macho, script};

/// Where paths lead: the host's file system, or a directory of it that stands for `/`.
pub enum View {
    /// The host.
    Host,
    /// Another root.
    Root(PathBuf, Rooted<'static>),
}

impl View {
    /// The host, or `root` in its place.
    pub fn new(root: Option<&Path>) -> View {
        match root {
            None => View::Host,
            Some(root) => View::Root(root.to_path_buf(), Rooted::new(&Host, root)),
        }
    }

    /// A path as given, seen from inside: people also write paths below the root as the host sees them.
    pub fn inside(&self, path: &Path) -> PathBuf {
        match self {
            View::Root(root, rooted) if rooted.open(path).is_err() => {
                path.strip_prefix(root).map_or_else(|_| path.to_path_buf(), |rest| Path::new("/").join(rest))
            }
            _ => path.to_path_buf(),
        }
    }
}

impl Files for View {
    fn open(&self, path: &Path) -> Result<Opened, Errno> {
        match self {
            View::Host => Host.open(path),
            View::Root(_, rooted) => rooted.open(path),
        }
    }

    fn is_dir(&self, path: &Path) -> Result<bool, Errno> {
        match self {
            View::Host => Host.is_dir(path),
            View::Root(_, rooted) => rooted.is_dir(path),
        }
    }

    fn read_link(&self, path: &Path) -> Result<PathBuf, Errno> {
        match self {
            View::Host => Host.read_link(path),
            View::Root(_, rooted) => rooted.read_link(path),
        }
    }
}

/// One file that was read.
pub struct Read {
    /// Its facts: one entry, or one a slice of a universal Mach-O file.
    pub facts: Vec<LinkFacts>,
    /// The open file, where it is ELF.
    pub elf: Option<Arc<File>>,
    /// Its bytes.
    pub bytes: Bytes,
    /// The host's file, to ask whether it changed meanwhile.
    held: Option<Arc<FileBytes>>,
}

impl Read {
    /// Notes a file that changed while it was read: the figures may be of neither version.
    pub fn note_change(&mut self, path: &Path) {
        if self.held.as_ref().is_some_and(|held| held.changed(path)) {
            for facts in &mut self.facts {
                facts.warnings.push("changed while it was read: figures may be wrong".to_string());
            }
        }
    }
}

/// Reads one file. `arch` chooses among the slices of a universal file.
///
/// # Errors
/// Why it cannot be read, or what it is instead of a program. The path is not part of the error.
pub fn read(view: &View, path: &Path, arch: Option<&str>) -> Result<Read> {
    let opened = open(view, path, |_| true)?.ok_or_else(|| Error::new("is empty"))?;
    let other = what_else((*opened.1).as_ref());
    parse(path, arch, opened)?.ok_or_else(|| Error::new(other))
}

/// The same, with `None` for a file that is no program of any kind.
///
/// # Errors
/// As [`read`].
pub fn read_program(view: &View, path: &Path, arch: Option<&str>) -> Result<Option<Read>> {
    match open(view, path, may_be_program)? {
        Some(opened) => parse(path, arch, opened),
        None => Ok(None),
    }
}

/// Magic numbers of what can be read here. Universal files and Java classes share one, so more is looked at later.
fn may_be_program(head: &[u8]) -> bool {
    let magics: [&[u8]; 8] = [
        b"#!",
        b"\x7fELF",
        b"\xfe\xed\xfa\xce",
        b"\xfe\xed\xfa\xcf",
        b"\xce\xfa\xed\xfe",
        b"\xcf\xfa\xed\xfe",
        b"\xca\xfe\xba\xbe",
        b"\xca\xfe\xba\xbf",
    ];
    magics.iter().any(|magic| head.starts_with(magic))
}

fn parse(path: &Path, arch: Option<&str>, (id, bytes, held): Held) -> Result<Option<Read>> {
    let file = File::new(id, Ok(bytes.clone()));
    let data = file.data();
    let (facts, elf) = if script::is_script(data) {
        (vec![script::link_facts(path, data)?], None)
    } else if data.starts_with(b"\x7fELF") {
        let file = Arc::new(file);
        let facts = file.binary(path).and_then(Binary::facts).map_err(Error::new)?.clone();
        (vec![facts], Some(file))
    } else if macho::is_macho(data) {
        (macho::link_facts(path, data, arch)?, None)
    } else {
        return Ok(None);
    };
    let mut read = Read { facts, elf, bytes, held };
    read.note_change(path);
    Ok(Some(read))
}

/// Facts of one host file without its closure: of a universal one, the slice that this host would start.
///
/// # Errors
/// As [`read`].
pub fn facts(path: &Path) -> Result<LinkFacts> {
    let mut all = read(&View::Host, path, None)?.facts;
    let ours = all.iter().position(|f| macho::is_for(f, std::env::consts::ARCH)).unwrap_or(0);
    if all.is_empty() { Err(Error::new("holds no image")) } else { Ok(all.swap_remove(ours)) }
}

type Held = (FileId, Bytes, Option<Arc<FileBytes>>);

fn open(view: &View, path: &Path, wanted: impl Fn(&[u8]) -> bool) -> Result<Option<Held>> {
    match view {
        View::Host => {
            let opened = file::open_if(path, wanted).map_err(|refusal| match refusal {
                file::Refusal::Errno(_) => Error::new(refusal.to_string()).context("cannot open"),
                file::Refusal::Kind(what) => Error::new(what),
            })?;
            let Some(bytes) = opened.map(Arc::new) else { return Ok(None) };
            let stamp = bytes.stamp();
            let id = FileId { dev: stamp.dev, ino: stamp.ino };
            Ok(Some((id, Arc::new(Shared(bytes.clone())), Some(bytes))))
        }
        View::Root(..) => {
            let opened = view.open(path).map_err(|e| Error::from_errno(e.0).context("cannot open"))?;
            let bytes = opened.bytes.map_err(|e| Error::from_errno(e.0).context("cannot read"))?;
            Ok(Some((opened.id, bytes, None)))
        }
    }
}

/// A shared file's bytes.
struct Shared(Arc<FileBytes>);

impl AsRef<[u8]> for Shared {
    fn as_ref(&self) -> &[u8] {
        (*self.0).as_ref()
    }
}

/// What a file is that no kernel here starts.
fn what_else(bytes: &[u8]) -> String {
    let known: [(&[u8], &str); 8] = [
        (b"!<arch>\n", "a static library (archive)"),
        (b"!<thin>\n", "a static library (thin archive)"),
        (b"MZ", "a Windows or DOS program"),
        (b"\0asm", "a WebAssembly module"),
        (b"/* GNU ld script", "a linker script, not a library"),
        (b"BC\xc0\xde", "LLVM bitcode"),
        (b"\x1f\x8b", "compressed (gzip)"),
        (b"\xfd7zXZ\0", "compressed (xz)"),
    ];
    let what = known.iter().find(|(magic, _)| bytes.starts_with(magic)).map(|(_, what)| *what);
    match what {
        _ if macho::is_java_class(bytes) => "a Java class file: not ELF, Mach-O or a script".to_string(),
        Some(what) => format!("{what}: not ELF, Mach-O or a script"),
        None if bytes.is_empty() => "is empty".to_string(),
        None if bytes.iter().take(256).all(|b| *b == 0) => "only zeros: not ELF, Mach-O or a script".to_string(),
        None => "not ELF, Mach-O or a script".to_string(),
    }
}
