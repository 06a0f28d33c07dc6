//! Which C library a file is built for, and so by whose rules it is loaded.

#![deny(clippy::indexing_slicing, clippy::arithmetic_side_effects, clippy::unwrap_used)]

use super::symbols::NeededVersion;

/// Flavours of C library whose loaders differ in what they do at start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flavour {
    /// GNU.
    Glibc,
    /// musl.
    Musl,
    /// Android.
    Bionic,
    /// uClibc and uClibc-ng.
    Uclibc,
    /// FreeBSD's and its descendants'.
    FreeBsd,
    /// NetBSD's.
    NetBsd,
    /// OpenBSD's.
    OpenBsd,
}

impl Flavour {
    /// The word in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Flavour::Glibc => "glibc",
            Flavour::Musl => "musl",
            Flavour::Bionic => "bionic",
            Flavour::Uclibc => "uclibc",
            Flavour::FreeBsd => "freebsd",
            Flavour::NetBsd => "netbsd",
            Flavour::OpenBsd => "openbsd",
        }
    }

    /// True where the loader binds every function at start whatever the file says.
    pub fn always_binds_now(self) -> bool {
        matches!(self, Flavour::Musl | Flavour::Bionic)
    }

    /// By the interpreter's file name: `ld-linux*`, `ld64.so.*` and `ld.so.1` are glibc's on its many machines.
    pub fn by_interpreter(path: &[u8]) -> Option<Flavour> {
        let name = path.rsplit(|b| *b == b'/').next()?;
        let starts = |prefix: &[u8]| name.starts_with(prefix);
        if starts(b"ld-linux") || starts(b"ld64.so") || name == b"ld.so.1" || starts(b"ld-2.") {
            Some(Flavour::Glibc)
        } else if starts(b"ld-musl") {
            Some(Flavour::Musl)
        } else if starts(b"linker") {
            Some(Flavour::Bionic)
        } else if starts(b"ld-uClibc") || starts(b"ld64-uClibc") {
            Some(Flavour::Uclibc)
        } else if starts(b"ld-elf") {
            Some(Flavour::FreeBsd)
        } else if name == b"ld.elf_so" {
            Some(Flavour::NetBsd)
        } else if path == b"/usr/libexec/ld.so" {
            Some(Flavour::OpenBsd)
        } else {
            None
        }
    }

    /// By the libraries that a file needs. Each C library's own name is unlike the others'.
    pub fn by_needed<'a>(mut needed: impl Iterator<Item = &'a [u8]>) -> Option<Flavour> {
        needed.find_map(|name| match name {
            b"libc.so.6" | b"libc.so.6.1" => Some(Flavour::Glibc),
            b"libc.so.7" => Some(Flavour::FreeBsd),
            b"libc.so.12" => Some(Flavour::NetBsd),
            b"libc.so.0" | b"libc.so.1" => Some(Flavour::Uclibc),
            // musl and bionic share this name; bionic's files come with Android's other libraries.
            name if name.starts_with(b"libc.musl-") => Some(Flavour::Musl),
            _ => None,
        })
    }

    /// By the name that a C library or a loader gives itself.
    pub fn by_soname(soname: &[u8]) -> Option<Flavour> {
        Flavour::by_needed(std::iter::once(soname)).or_else(|| Flavour::by_interpreter(soname))
    }
}

/// The highest `GLIBC_x.y[.z]` that a file asks for, as `x.y[.z]`.
pub fn highest_glibc(versions: &[NeededVersion]) -> Option<String> {
    versions
        .iter()
        .filter_map(|v| std::str::from_utf8(v.version.strip_prefix(b"GLIBC_")?).ok())
        .filter_map(|text| {
            let numbers: Option<Vec<u32>> = text.split('.').map(|part| part.parse().ok()).collect();
            Some((numbers?, text))
        })
        .max()
        .map(|(_, text)| text.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interpreters_name_their_library() {
        for (path, flavour) in [
            ("/lib64/ld-linux-x86-64.so.2", Some(Flavour::Glibc)),
            ("/nix/store/x-glibc-2.38/lib/ld-linux-aarch64.so.1", Some(Flavour::Glibc)),
            ("/lib/ld64.so.2", Some(Flavour::Glibc)),
            ("/lib/ld-musl-armhf.so.1", Some(Flavour::Musl)),
            ("/system/bin/linker64", Some(Flavour::Bionic)),
            ("/libexec/ld-elf.so.1", Some(Flavour::FreeBsd)),
            ("/opt/own/loader", None),
        ] {
            assert_eq!(Flavour::by_interpreter(path.as_bytes()), flavour, "{path}");
        }
    }

    #[test]
    fn versions_compare_by_number() {
        let version =
            |name: &'static str| NeededVersion { library: b"l", version: name.as_bytes(), index: 2, weak: false };
        let all = ["GLIBC_2.9", "GLIBC_2.34", "GLIBC_2.4", "GLIBC_PRIVATE", "GLIBC_ABI_DT_RELR", "GLIBCXX_3.4"];
        assert_eq!(highest_glibc(&all.map(version)), Some("2.34".to_string()));
        assert_eq!(highest_glibc(&[version("GLIBC_PRIVATE")]), None);
    }
}
