//! What a loader's own file says of it: whose it is, which version, where it looks. Nothing of this is assumed from
//! the distribution: a loader's directories are compiled into it, and are read from there.
//!
//! The facts are strings in read-only data, found as runs between NUL bytes.

#![deny(clippy::indexing_slicing, clippy::arithmetic_side_effects, clippy::unwrap_used)]

use std::path::PathBuf;

use object::elf;

use super::tokens::as_path;
use crate::elf::image::Image;

/// Whose rules the loader follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flavour {
    /// GNU C library.
    Glibc,
    /// musl.
    Musl,
    /// macOS's dyld, known by the program's format.
    Dyld,
    /// None that this tool knows.
    Unknown,
}

impl Flavour {
    /// The word in output.
    pub fn name(self) -> &'static str {
        match self {
            Flavour::Glibc => "glibc",
            Flavour::Musl => "musl",
            Flavour::Dyld => "dyld",
            Flavour::Unknown => "unknown",
        }
    }
}

/// A loader, by its file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// Whose rules.
    pub flavour: Flavour,
    /// Major and minor version. glibc before 2.33 does not say: 2.32 stands for all of them.
    pub version: (u32, u32),
    /// Default directories, each with a slash at its end (glibc), or the elements of the default path (musl).
    pub system_dirs: Vec<Vec<u8>>,
    /// What `$LIB` stands for (glibc).
    pub lib: Vec<u8>,
    /// The cache (glibc).
    pub cache: Option<PathBuf>,
    /// The file with system-wide preloads (glibc).
    pub preload: Option<PathBuf>,
    /// Name of the file that replaces the default path, behind a prefix that comes from the loader's own path (musl).
    pub path_file: Option<Vec<u8>>,
    /// Names that the loader looks up in the vDSO (glibc).
    pub vdso_names: u64,
    /// It calls `__libc_early_init` and takes its malloc from the global scope at the end (glibc 2.32).
    pub has_early_init: bool,
    /// `_r_debug` stands in its data beside its string table, once for each look-up of it.
    pub r_debug_strings: u64,
}

impl Identity {
    /// True for a glibc that gives GLOB_DAT a type class of its own (`ELF_RTYPE_CLASS_EXTERN_PROTECTED_DATA`): 2.22 to
    /// 2.35 on x86 and Arm.
    pub fn keeps_got_apart(&self, machine: u16) -> bool {
        let machines = [elf::EM_386, elf::EM_X86_64, elf::EM_ARM, elf::EM_AARCH64];
        let is_version = (2, 22) <= self.version && self.version <= (2, 35);
        self.flavour == Flavour::Glibc && is_version && machines.contains(&elf::Machine(machine))
    }
}

/// Reads a loader's identity from the constants of its file: what is mapped neither writable nor executable, or all of
/// the file, where those say nothing.
pub fn identify_file(bytes: &[u8]) -> Identity {
    let Ok(image) = Image::parse(bytes) else { return identify(bytes) };
    let constants = image.loads().iter().filter(|s| !s.is_writable() && !s.is_executable());
    let mut data = Vec::new();
    for segment in constants.filter_map(|s| image.file_range(s.offset, s.filesz)) {
        data.extend_from_slice(segment);
        data.push(0);
    }
    let found = identify(&data);
    if found.flavour == Flavour::Unknown || found.system_dirs.is_empty() { identify(bytes) } else { found }
}

/// Reads a loader's identity from strings between NUL bytes.
pub fn identify(bytes: &[u8]) -> Identity {
    let mut id = Identity {
        flavour: Flavour::Unknown,
        version: (0, 0),
        system_dirs: Vec::new(),
        lib: Vec::new(),
        cache: None,
        preload: None,
        path_file: None,
        vdso_names: 0,
        has_early_init: false,
        r_debug_strings: 0,
    };
    let strings: Vec<&[u8]> = bytes.split(|b| *b == 0).collect();
    if strings.iter().any(|s| s.starts_with(b"musl libc (")) {
        musl(&strings, &mut id);
    } else if strings.contains(&&b"GLIBC_PRIVATE"[..]) {
        glibc(&strings, &mut id);
    }
    id
}

fn glibc(strings: &[&[u8]], id: &mut Identity) {
    id.flavour = Flavour::Glibc;
    id.version = strings.iter().find_map(|s| glibc_version(s)).unwrap_or((2, 32));
    id.system_dirs = system_dirs(strings);
    id.lib = lib_token(strings, &id.system_dirs);
    for text in strings {
        if text.starts_with(b"/") && text.ends_with(b"/ld.so.cache") {
            id.cache = Some(as_path(text).to_path_buf());
        } else if text.starts_with(b"/") && text.ends_with(b"/ld.so.preload") {
            id.preload = Some(as_path(text).to_path_buf());
        } else if (text.starts_with(b"__vdso_") || text.starts_with(b"__kernel_")) && is_symbol(text) {
            id.vdso_names = id.vdso_names.saturating_add(1);
        } else if *text == b"__libc_early_init" {
            id.has_early_init = true;
        } else if *text == b"_r_debug" {
            id.r_debug_strings = id.r_debug_strings.saturating_add(1);
        }
    }
    // One of them is in its own string table, where it exports the symbol.
    id.r_debug_strings = id.r_debug_strings.saturating_sub(1);
}

fn is_symbol(text: &[u8]) -> bool {
    text.iter().all(|b| b.is_ascii_alphanumeric() || *b == b'_')
}

/// `ld.so (… ) stable release version 2.36.`
fn glibc_version(text: &[u8]) -> Option<(u32, u32)> {
    // Of all the strings these two alone can hold it.
    let text = Some(text).filter(|t| t.starts_with(b"ld.so (") || t.starts_with(b"GNU C Library"))?;
    let text = std::str::from_utf8(text).ok()?;
    let (_, version) = text.split_once(" release version ")?;
    let mut numbers = version.split(|c: char| !c.is_ascii_digit());
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

/// glibc keeps them as one array of strings, each `/…/`: the longest such run.
fn system_dirs(strings: &[&[u8]]) -> Vec<Vec<u8>> {
    let is_dir = |s: &[u8]| {
        let printable = s.iter().all(|b| b.is_ascii_graphic());
        s.len() > 1 && s.starts_with(b"/") && s.ends_with(b"/") && printable && !s.contains(&b'%')
    };
    let mut best: &[&[u8]] = &[];
    let mut rest = strings;
    while !rest.is_empty() {
        let len = rest.iter().take_while(|s| is_dir(s)).count();
        let (run, behind) = rest.split_at_checked(len).unwrap_or((&[], &[]));
        if run.len() > best.len() {
            best = run;
        }
        rest = behind.get(1..).unwrap_or(&[]);
    }
    best.iter().map(|s| s.to_vec()).collect()
}

/// `$LIB` comes from the directory that libc is installed in, the first of the system directories: its last name,
/// or all of it without its first slash (Debian). The one that is a string of the loader is right.
fn lib_token(strings: &[&[u8]], system_dirs: &[Vec<u8>]) -> Vec<u8> {
    let Some(first) = system_dirs.first() else { return b"lib".to_vec() };
    let trimmed = first.strip_suffix(b"/").unwrap_or(first);
    let whole = trimmed.strip_prefix(b"/").unwrap_or(trimmed);
    let name = trimmed.rsplit(|b| *b == b'/').next().unwrap_or(whole);
    if whole != name && strings.contains(&whole) { whole.to_vec() } else { name.to_vec() }
}

fn musl(strings: &[&[u8]], id: &mut Identity) {
    id.flavour = Flavour::Musl;
    id.version = strings.iter().find_map(|s| musl_version(s)).unwrap_or((1, 0));
    let path = strings.iter().find(|s| is_path_list(s));
    id.system_dirs = path.map(|p| p.split(|b| *b == b':').map(<[u8]>::to_vec).collect()).unwrap_or_default();
    let marker = b"%.*s/etc/ld-musl-";
    let file = strings.iter().find(|s| s.starts_with(marker) && s.ends_with(b".path"));
    id.path_file = file.and_then(|f| f.strip_prefix(b"%.*s")).map(<[u8]>::to_vec);
}

/// `/lib:/usr/local/lib:/usr/lib`
fn is_path_list(text: &[u8]) -> bool {
    text.contains(&b':')
        && text.split(|b| *b == b':').all(|e| e.len() > 1 && e.starts_with(b"/") && e.iter().all(u8::is_ascii_graphic))
        && text.windows(3).any(|w| w == b"lib")
}

/// `1.2.3`, alone in a string.
fn musl_version(text: &[u8]) -> Option<(u32, u32)> {
    let text = std::str::from_utf8(text).ok()?;
    let numbers: Vec<&str> = text.split('.').collect();
    let [major, minor, patch] = numbers[..] else { return None };
    let patch_is_number = !patch.is_empty() && patch.chars().next().is_some_and(|c| c.is_ascii_digit());
    let version = (major.parse().ok()?, minor.parse().ok()?);
    (patch_is_number && version.0 < 10).then_some(version)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn glibc_is_read_from_its_strings() {
        let file = b"\x7fELF\0GLIBC_PRIVATE\0_r_debug\0x\0/lib/x86_64-linux-gnu/\0/usr/lib/x86_64-linux-gnu/\0/lib/\0\
            /usr/lib/\0\0/var/tmp/\0lib/x86_64-linux-gnu\0/etc/ld.so.cache\0__vdso_time\0__vdso_getcpu\0\
            ld.so (X 2.36-9) stable release version 2.36.\n\0/etc/ld.so.preload\0__libc_early_init\0";
        let id = identify(file);
        assert_eq!((id.flavour, id.version), (Flavour::Glibc, (2, 36)));
        assert_eq!(id.system_dirs.len(), 4);
        assert_eq!(id.lib, b"lib/x86_64-linux-gnu");
        assert_eq!(id.cache, Some("/etc/ld.so.cache".into()));
        assert_eq!((id.vdso_names, id.has_early_init, id.r_debug_strings), (2, true, 0));
    }

    #[test]
    fn other_layouts_of_glibc() {
        let id = identify(b"GLIBC_PRIVATE\0/lib64/\0/usr/lib64/\0lib64\0");
        assert_eq!((id.version, id.lib.as_slice()), ((2, 32), &b"lib64"[..]));
        let id = identify(b"GLIBC_PRIVATE\0/nix/store/x-glibc/lib/\0/nix/store/x-glibc/etc/ld.so.cache\0");
        assert_eq!((id.system_dirs.len(), id.lib.as_slice()), (1, &b"lib"[..]));
        assert_eq!(id.cache, Some("/nix/store/x-glibc/etc/ld.so.cache".into()));
    }

    #[test]
    fn musl_is_read_from_its_strings() {
        let file = b"x\0musl libc (x86_64)\nVersion %s\n\0/lib:/usr/local/lib:/usr/lib\0\x31.2.3\0\
            %.*s/etc/ld-musl-x86_64.path\0";
        let id = identify(file);
        assert_eq!((id.flavour, id.version), (Flavour::Musl, (1, 2)));
        assert_eq!(id.system_dirs, [b"/lib".to_vec(), b"/usr/local/lib".to_vec(), b"/usr/lib".to_vec()]);
        assert_eq!(id.path_file, Some(b"/etc/ld-musl-x86_64.path".to_vec()));
    }

    #[test]
    fn anything_else_is_unknown() {
        assert_eq!(identify(b"").flavour, Flavour::Unknown);
        assert_eq!(identify(b"/system/bin/linker64\0").flavour, Flavour::Unknown);
    }
}
