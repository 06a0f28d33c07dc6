//! Programs of this machine's compiler, whole and damaged: what we say of each, and what the kernel and the loader really
//! do with it. Names of cases (T01 …) are those of the project's list.
#![allow(clippy::unwrap_used, clippy::print_stderr, reason = "a test may end in a panic, and says what it skips")]

mod support;

use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use object::elf;
use premain::elf::image::Image;
use premain::elf::link_facts;
use premain::facts::{Fact, Kind, LinkFacts, RelroKind};

/// Uses data of the C library (copied into the program), functions, a table of pointers (relative), and a variable.
const SOURCE: &str = r#"
#include <stdio.h>
extern char **environ;
static const char *table[] = {"a", "b", "c", "d", "e", "f", "g", "h"};
int main(int argc, char **argv) {
    fputs(table[argc % 8], stderr);
    return puts(environ && argv ? "ran" : "") < 0;
}
"#;

/// A program of gcc, or `None` where gcc is missing or does not know the flags.
fn built(test: &str, name: &str, flags: &[&str]) -> Option<PathBuf> {
    let gcc = support::tool("gcc")?;
    let dir = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(test);
    std::fs::create_dir_all(&dir).unwrap();
    let source = dir.join("source.c");
    std::fs::write(&source, SOURCE).unwrap();
    let path = dir.join(name);
    let done = Command::new(gcc).arg(&source).arg("-o").arg(&path).args(flags).output().unwrap();
    if !done.status.success() {
        eprintln!("SKIPPED: gcc {flags:?}: {}", String::from_utf8_lossy(&done.stderr).lines().next().unwrap_or(""));
        return None;
    }
    Some(path)
}

fn facts(path: &Path) -> LinkFacts {
    link_facts(path, &std::fs::read(path).unwrap()).unwrap()
}

fn has_warning(facts: &LinkFacts, words: &str) -> bool {
    facts.warnings.iter().any(|w| w.contains(words))
}

/// Writes a changed copy and runs it. Another test's fork may hold it open for a moment.
fn run_changed(original: &Path, name: &str, bytes: &[u8]) -> (PathBuf, std::io::Result<Output>) {
    let path = original.with_file_name(name);
    std::fs::write(&path, bytes).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    loop {
        match Command::new(&path).stdin(Stdio::null()).output() {
            Err(e) if e.kind() == std::io::ErrorKind::ExecutableFileBusy => std::thread::yield_now(),
            done => return (path, done),
        }
    }
}

/// Offset of a dynamic entry in the file.
fn entry_of(bytes: &[u8], tag: elf::DynamicTag) -> Option<usize> {
    let image = Image::parse(bytes).unwrap();
    let table = usize::try_from(image.segment(elf::PT_DYNAMIC)?.offset).unwrap();
    let index = image.dynamic().iter().position(|(t, _)| *t == tag.0 as u64)?;
    Some(table + index * 16)
}

fn with_tag(bytes: &[u8], tag: elf::DynamicTag, value: u64) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    let at = entry_of(&bytes, tag).unwrap();
    bytes[at + 8..at + 16].copy_from_slice(&value.to_le_bytes());
    bytes
}

/// Replaces a word of the first program header of a kind: 0 kind, 8 offset, 32 size in the file, 40 in memory.
fn with_segment(bytes: &[u8], kind: elf::ProgramType, field: usize, value: &[u8]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    let index = Image::parse(&bytes).unwrap().segments().iter().position(|s| s.kind == kind.0).unwrap();
    let at = 64 + index * 56 + field;
    bytes[at..at + value.len()].copy_from_slice(value);
    bytes
}

fn code_and_words(output: &std::io::Result<Output>) -> (Option<i32>, Option<i32>, String) {
    match output {
        Ok(o) => (o.status.code(), o.status.signal(), String::from_utf8_lossy(&o.stderr).into_owned()),
        Err(e) => (e.raw_os_error().map(|n| -n), None, String::new()),
    }
}

#[cfg(all(target_os = "linux", target_env = "gnu", target_arch = "x86_64"))]
mod x86_64 {
    use super::*;

    #[test]
    fn t01_t05_kinds_binding_and_relro() {
        let cases: [(&str, &[&str], Kind, bool, RelroKind); 5] = [
            ("static", &["-static", "-no-pie"], Kind::Static, false, RelroKind::Partial),
            ("static-pie", &["-static-pie"], Kind::StaticPie, false, RelroKind::Partial),
            ("lazy", &["-pie", "-fPIE", "-Wl,-z,lazy"], Kind::Pie, false, RelroKind::Partial),
            ("now", &["-pie", "-fPIE", "-Wl,-z,now"], Kind::Pie, true, RelroKind::Full),
            ("exec", &["-no-pie", "-fno-pic", "-Wl,-z,lazy"], Kind::Exec, false, RelroKind::Partial),
        ];
        for (name, flags, kind, now, relro) in cases {
            let Some(path) = built("elf-kinds", name, flags) else { continue };
            let f = facts(&path);
            let r = f.relocations;
            assert_eq!((f.kind, f.libc.as_deref()), (kind, Some("glibc")), "{name}");
            assert_eq!(f.relro.kind, relro, "{name} {:?}", f.relro);
            assert_eq!(f.bind_now, now, "{name}");
            let is_static = matches!(kind, Kind::Static | Kind::StaticPie);
            assert_eq!(is_static, f.interp == Fact::Absent, "{name}");
            assert_eq!(is_static, f.needed.is_empty(), "{name}");
            // The C library's string functions have resolvers: static programs call them at start.
            assert_eq!(is_static, r.irelative > 0, "{name} {r:?}");
            assert_eq!(is_static, f.tls_bytes > 0, "{name}");
            assert_eq!((kind == Kind::Exec || kind == Kind::Static), r.relative == 0, "{name} {r:?}");
            assert_eq!(f.elf.as_ref().unwrap().relative_tagged, r.relative, "{name}");
            if !is_static {
                assert_eq!((r.copy, r.jump_slot > 0), (2, true), "{name} {r:?}");
            }
            assert_eq!(f.warnings, Vec::<String>::new(), "{name}");
        }
    }

    /// T06 and T07: packed relative relocations, with and without the version that tells old loaders to refuse.
    #[test]
    fn t06_t07_relr() {
        if let Some(path) = built("elf-relr", "marked", &["-pie", "-fPIE", "-Wl,-z,pack-relative-relocs"]) {
            let f = facts(&path);
            if f.relocations.relr == 0 {
                eprintln!("SKIPPED: this linker does not pack relative relocations");
            } else {
                assert_eq!((f.relocations.relative, f.elf.as_ref().unwrap().relative_tagged), (0, 0));
                assert_eq!(f.warnings, Vec::<String>::new());
            }
        }
        if support::tool("ld.lld").is_none() {
            return;
        }
        let flags = ["-pie", "-fPIE", "-fuse-ld=lld", "-Wl,--pack-dyn-relocs=relr"];
        let Some(path) = built("elf-relr", "unmarked", &flags) else { return };
        let f = facts(&path);
        assert!(f.relocations.relr > 0);
        let predicted = has_warning(&f, "DT_RELR without GLIBC_ABI_DT_RELR dependency: glibc 2.36 and later abort");
        let (code, _, words) = code_and_words(&Command::new(&path).output());
        // Newer linkers add the version: then there is nothing to warn of.
        assert_eq!(predicted, words.contains("DT_RELR without GLIBC_ABI_DT_RELR dependency"), "{code:?} {words}");
    }

    #[test]
    fn t08_android_packing_is_not_for_glibc() {
        if support::tool("ld.lld").is_none() {
            return;
        }
        let flags = ["-pie", "-fPIE", "-fuse-ld=lld", "-Wl,--pack-dyn-relocs=android"];
        let Some(path) = built("elf-android", "packed", &flags) else { return };
        let f = facts(&path);
        assert!(f.relocations.relative > 0 && f.relocations.copy > 0, "{:?}", f.relocations);
        assert!(has_warning(&f, "only bionic reads them"));
        let (_, signal, _) = code_and_words(&Command::new(&path).output());
        assert_eq!(signal, Some(11));
    }

    /// T10: section headers say nothing that we need.
    #[test]
    fn t10_without_section_headers() {
        for (name, flags) in
            [("pie", &["-pie", "-fPIE"][..]), ("static", &["-static", "-no-pie"]), ("static-pie", &["-static-pie"])]
        {
            let Some(path) = built("elf-sections", name, flags) else { continue };
            let whole = facts(&path);
            let mut bytes = std::fs::read(&path).unwrap();
            bytes[40..48].fill(0);
            bytes[60..64].fill(0);
            let bare = link_facts(&path, &bytes).unwrap();
            assert_eq!(bare.relocations, LinkFacts { relocations: whole.relocations, ..bare.clone() }.relocations);
            assert_eq!(
                (bare.kind, bare.relocations, bare.pages_written),
                (whole.kind, whole.relocations, whole.pages_written),
                "{name}"
            );
            assert_eq!(
                (bare.relro, bare.tls_bytes, bare.needed),
                (whole.relro, whole.tls_bytes, whole.needed),
                "{name}"
            );
        }
    }

    /// T12, T14, T17, T20: each damage, what we say will happen, and what happens: (exit code, signal, words of ld.so).
    #[test]
    fn damage_ends_as_predicted() {
        let Some(path) = built("elf-damage", "whole", &["-pie", "-fPIE", "-Wl,-z,lazy"]) else { return };
        let bytes = std::fs::read(&path).unwrap();
        let aborts = (Some(127), None);
        let crashes = (None, Some(11));
        let runs = (Some(0), None);
        type Ends = (Option<i32>, Option<i32>);
        let cases: [(&str, Vec<u8>, &str, Ends, &str); 8] = [
            (
                "relacount",
                with_tag(&bytes, elf::DT_RELACOUNT, 100),
                "glibc aborts",
                aborts,
                "elf_machine_rela_relative",
            ),
            ("relaent", with_tag(&bytes, elf::DT_RELAENT, 0), "glibc aborts", aborts, "DT_RELAENT"),
            ("relasz", with_tag(&bytes, elf::DT_RELASZ, 1 << 40), "the loader reads past the mapping", crashes, ""),
            ("strtab", with_tag(&bytes, elf::DT_STRTAB, 0x7fff_ffff_ffff), "the loader crashes", crashes, ""),
            ("interp", with_segment(&bytes, elf::PT_INTERP, 0, &[0; 4]), "names no interpreter", crashes, ""),
            (
                "relro",
                with_segment(&bytes, elf::PT_GNU_RELRO, 40, &(1u64 << 40).to_le_bytes()),
                "cannot apply additional memory protection",
                aborts,
                "cannot apply additional memory protection",
            ),
            // Nothing looks at the size of the string table.
            ("strsz", with_tag(&bytes, elf::DT_STRSZ, 4), "", runs, ""),
            ("relacount-small", with_tag(&bytes, elf::DT_RELACOUNT, 1), "slow path", runs, ""),
        ];
        for (name, changed, predicted, (code, signal), words) in cases {
            let (changed_path, output) = run_changed(&path, name, &changed);
            let f = link_facts(&changed_path, &changed).unwrap();
            assert!(predicted.is_empty() == f.warnings.is_empty(), "{name}: {:?}", f.warnings);
            assert!(predicted.is_empty() || has_warning(&f, predicted), "{name}: {:?}", f.warnings);
            let (real_code, real_signal, said) = code_and_words(&output);
            assert_eq!((real_code, real_signal), (code, signal), "{name}: {said}");
            assert!(said.contains(words), "{name}: {said}");
        }
    }

    /// T15: PT_DYNAMIC without bytes. The kernel starts such a program, the loader cannot relocate it.
    #[test]
    fn t15_no_dynamic_table() {
        let Some(path) = built("elf-dynamic", "whole", &["-pie", "-fPIE"]) else { return };
        let bytes = std::fs::read(&path).unwrap();
        let empty = with_segment(&bytes, elf::PT_DYNAMIC, 32, &[0; 16]);
        let f = link_facts(&path, &empty).unwrap();
        assert!(has_warning(&f, "the dynamic table has no bytes in the file"), "{:?}", f.warnings);
        assert_eq!((f.kind, f.relocations.total()), (Kind::Pie, 0));
        let debug = path.with_file_name("debug");
        if let Some(objcopy) = support::tool("objcopy") {
            let done = Command::new(objcopy).arg("--only-keep-debug").arg(&path).arg(&debug).status().unwrap();
            assert!(done.success());
            let f = facts(&debug);
            assert_eq!((f.kind, f.relocations.total()), (Kind::Other, 0));
            assert!(has_warning(&f, "a separate debug file"));
        }
    }

    /// T18 and T19: headers that the kernel refuses, each with its own reason, and the exit code of `inspect`.
    #[test]
    fn t18_t19_broken_headers() {
        let Some(path) = built("elf-headers", "whole", &["-pie", "-fPIE"]) else { return };
        let bytes = std::fs::read(&path).unwrap();
        let with = |at: usize, value: &[u8]| {
            let mut bytes = bytes.clone();
            bytes[at..at + value.len()].copy_from_slice(value);
            bytes
        };
        let dynamic = Image::parse(&bytes).unwrap().segment(elf::PT_DYNAMIC).unwrap().offset as usize;
        let refused = [
            ("phentsize", with(54, &[55]), "e_phentsize is 55"),
            ("phoff", with(32, &[0xff; 8]), "do not fit the file"),
            ("cut-100", bytes[..100].to_vec(), "do not fit the file (100 bytes)"),
            ("cut-dynamic", bytes[..dynamic + 8].to_vec(), "the dynamic table"),
        ];
        for (name, changed, reason) in refused {
            let (changed_path, output) = run_changed(&path, name, &changed);
            let (code, out, err) = support::run(["inspect".as_ref(), changed_path.as_os_str()]);
            assert_eq!((code, out.as_str()), (2, ""), "{name}");
            assert!(err.contains(reason) && err.lines().count() == 1, "{name}: {err}");
            let (real, signal, _) = code_and_words(&output);
            assert!(real == Some(-8) || signal.is_some(), "{name}: the kernel said {real:?} {signal:?}");
        }
        // More program headers than 65,534: their number is in the first section header, which no loader reads.
        let count = Image::parse(&bytes).unwrap().segments().len();
        let mut many = with(56, &[0xff, 0xff]);
        let shoff = u64::from_le_bytes(bytes[40..48].try_into().unwrap()) as usize;
        many[shoff + 44..shoff + 48].copy_from_slice(&(count as u32).to_le_bytes());
        let (_, output) = run_changed(&path, "xnum", &many);
        let f = link_facts(&path, &many).unwrap();
        assert_eq!(f.elf.as_ref().unwrap().segments.len(), count);
        assert!(has_warning(&f, "e_phnum is 0xffff: Linux refuses the program"));
        assert_eq!(code_and_words(&output).0, Some(-8));
        // The kernel never looks at the byte order, so neither may we believe it.
        let (swapped, output) = run_changed(&path, "order", &with(5, &[2]));
        let f = facts(&swapped);
        assert_eq!((f.kind, f.relocations), (Kind::Pie, facts(&path).relocations));
        assert!(has_warning(&f, "wrong byte order"));
        assert_eq!(code_and_words(&output).0, Some(0));
    }

    #[test]
    fn t36_hash_styles() {
        for (style, expected) in [("both", &["gnu", "sysv"][..]), ("gnu", &["gnu"]), ("sysv", &["sysv"])] {
            let flag = format!("-Wl,--hash-style={style}");
            let Some(path) = built("elf-hash", style, &["-pie", "-fPIE", &flag]) else { continue };
            assert_eq!(facts(&path).hash, expected);
        }
    }

    /// T39: libraries that can be run, loaders, and a library like any other.
    #[test]
    fn t39_files_of_this_machine() {
        for (path, soname) in [
            ("/lib/x86_64-linux-gnu/libc.so.6", Some("libc.so.6")),
            ("/lib64/ld-linux-x86-64.so.2", Some("ld-linux-x86-64.so.2")),
            ("/lib/ld-musl-x86_64.so.1", None),
            ("/lib/x86_64-linux-gnu/libz.so.1", Some("libz.so.1")),
        ] {
            if !Path::new(path).exists() {
                eprintln!("SKIPPED: {path} is not there");
                continue;
            }
            let f = facts(Path::new(path));
            assert_eq!((f.kind, f.soname.as_deref()), (Kind::Shared, soname.map(std::ffi::OsStr::new)), "{path}");
        }
    }
}
