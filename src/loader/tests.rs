//! Searches and look-ups over files in memory, written from descriptions: the same bytes everywhere, any machine.

use std::path::Path;

use object::elf;

use super::cpu::Cpu;
use super::files::Files;
use super::root::Rooted;
use super::testing::Table;
use super::*;
use crate::elf::synth::{Hash, Import, Packing, Recipe, Relative, Target, Use};

const LDSO: &str = "/lib64/ld-linux-x86-64.so.2";
const X86_64: Target = Target::new(elf::EM_X86_64, true, false);
const I386: Target = Target::new(elf::EM_386, false, false);
const AARCH64: Target = Target::new(elf::EM_AARCH64, true, false);
/// Both classes, both byte orders.
const ALL: [Target; 6] = [
    X86_64,
    I386,
    AARCH64,
    Target::new(elf::EM_S390, true, true),
    Target::new(elf::EM_PPC64, true, true),
    Target::new(elf::EM_ARM, false, true),
];
const MUSL: &str = "/lib/ld-musl-x86_64.so.1";

/// What a glibc loader has in its read-only data.
fn ldso_strings(version: &str) -> Vec<u8> {
    let mut out = b"\0GLIBC_PRIVATE\0_r_debug\0/lib64/\0/usr/lib64/\0\0lib64\0/etc/ld.so.cache\0/etc/ld.so.preload\0\
        __vdso_time\0__vdso_getcpu\0__libc_early_init\0"
        .to_vec();
    out.extend(format!("ld.so (GNU libc) stable release version {version}.\n\0").bytes());
    out
}

/// A root with a glibc loader and a libc for one machine.
fn glibc_root(target: Target, version: &str) -> Table {
    let mut t = Table::default();
    let mut loader = Recipe::library(target, "ld-linux-x86-64.so.2").build();
    loader.extend(ldso_strings(version));
    t.file(LDSO, &loader);
    t.file("/lib64/libc.so.6", &Recipe::library(target, "libc.so.6").build());
    t
}

fn program(target: Target, needed: &[&str]) -> Recipe {
    let mut r = Recipe::program(target);
    r.interp = Some(LDSO.into());
    r.needed = needed.iter().map(|n| n.as_bytes().to_vec()).collect();
    r
}

fn library(target: Target, soname: &str, needed: &[&str]) -> Recipe {
    let mut r = Recipe::library(target, soname);
    r.needed = needed.iter().map(|n| n.as_bytes().to_vec()).collect();
    r
}

fn options() -> Options {
    Options { cwd: "/work".into(), cpu: Cpu { x86_level: 3, ..Cpu::default() }, ..Options::default() }
}

fn paths(c: &Closure) -> Vec<String> {
    c.objects.iter().map(|o| o.path.display().to_string()).collect()
}

fn run(files: &dyn Files, options: &Options) -> Closure {
    closure(Path::new("/bin/p"), options, files).unwrap()
}

#[test]
fn breadth_first_for_every_machine() {
    for target in ALL {
        let mut t = glibc_root(target, "2.38");
        t.file("/bin/p", &program(target, &["liba.so", "libb.so"]).build());
        t.file("/lib64/liba.so", &library(target, "liba.so", &["libc.so.6", "libd.so"]).build());
        t.file("/usr/lib64/libb.so", &library(target, "libb.so", &["libd.so", "libc.so.6"]).build());
        t.file("/usr/lib64/libd.so", &library(target, "libd.so", &["liba.so"]).build());
        let c = run(&t, &options());
        let want = ["/bin/p", "/lib64/liba.so", "/usr/lib64/libb.so", "/lib64/libc.so.6", "/usr/lib64/libd.so", LDSO];
        assert_eq!(paths(&c), want, "{target:?}");
        assert!(c.missing.is_empty() && c.fatal.is_none());
        assert_eq!(c.objects.iter().map(|o| o.in_scope).collect::<Vec<_>>(), [true, true, true, true, true, false]);
        assert_eq!(c.objects[4].needed_by, Some(1));
        assert_eq!(c.objects[2].needs, [4, 3]);
        assert_eq!(c.loader.as_ref().unwrap().version, Some((2, 38)));
    }
}

#[test]
fn what_fails_on_the_way_is_counted_as_the_loader_does_it() {
    let target = X86_64;
    let mut t = glibc_root(target, "2.38");
    t.file("/bin/p", &program(target, &["libb.so", "libc.so.6"]).build());
    t.file("/usr/lib64/libb.so", &library(target, "libb.so", &[]).build());
    let c = run(&t, &options());
    // The cache is missing: 1. In /lib64: v3 and v2 are not there (open and stat each), and libb.so is not. In
    // /usr/lib64: v3 and v2. For libc the subdirectories are known not to exist.
    assert_eq!((c.totals.failed_opens, c.totals.failed_stats, c.totals.stats), (1 + 5 + 4, 4, 1));
    let old = {
        let mut t = glibc_root(target, "2.36");
        t.file("/bin/p", &program(target, &["libb.so"]).build());
        t.file("/usr/lib64/libb.so", &library(target, "libb.so", &[]).build());
        run(&t, &options())
    };
    // Up to 2.36 nine subdirectories a directory.
    assert_eq!(old.totals.failed_opens, 1 + (2 * 9 + 1) + 2 * 9);
}

#[test]
fn rpath_runpath_and_the_environment() {
    let target = X86_64;
    let build = |rpath: Option<&str>, runpath: Option<&str>| {
        let mut t = glibc_root(target, "2.38");
        let mut p = program(target, &["libq.so"]);
        p.rpath = rpath.map(|s| s.as_bytes().to_vec());
        p.runpath = runpath.map(|s| s.as_bytes().to_vec());
        t.file("/bin/p", &p.build());
        for dir in ["r", "e", "work/rel", "bin/own"] {
            t.file(&format!("/{dir}/libq.so"), &library(target, "libq.so", &[]).build());
        }
        t
    };
    let with = |list: &str| Options { library_path: Some(list.as_bytes().to_vec()), ..options() };
    let found = |t: &Table, o: &Options| {
        let c = run(t, o);
        c.objects.get(1).filter(|o| o.name == b"libq.so").map(|o| (o.path.display().to_string(), o.found_by.name()))
    };
    let is = |path: &str, by: &'static str| Some((path.to_string(), by));
    assert_eq!(found(&build(Some("/r"), None), &with("/e")), is("/r/libq.so", "rpath"));
    assert_eq!(found(&build(None, Some("/r")), &with("/e")), is("/e/libq.so", "ld_library_path"));
    assert_eq!(found(&build(None, Some("/r")), &options()), is("/r/libq.so", "runpath"));
    // RUNPATH makes the object's own RPATH void.
    assert_eq!(found(&build(Some("/r"), Some("/none")), &with("/e")), is("/e/libq.so", "ld_library_path"));
    assert_eq!(found(&build(None, Some("$ORIGIN/own")), &options()), is("/bin/own/libq.so", "runpath"));
    assert_eq!(found(&build(None, None), &with("rel")), is("rel/libq.so", "ld_library_path"));
    // A privileged program ignores the environment.
    let secure = Options { secure: true, ..with("/e") };
    assert_eq!(found(&build(None, None), &secure), None);
    assert_eq!(found(&build(None, Some("$ORIGIN/own")), &secure), None);
}

#[test]
fn a_missing_library_shows_every_place_and_why() {
    let target = X86_64;
    let mut t = glibc_root(target, "2.38");
    let mut p = program(target, &["libq.so", "libc.so.6"]);
    p.runpath = Some(b"/gone:/other:$ORIGIN/../x".to_vec());
    t.file("/bin/p", &p.build());
    t.file("/other/libq.so", &library(I386, "libq.so", &[]).build());
    t.file("/usr/lib64/libq.so", &library(AARCH64, "libq.so", &[]).build());
    let c = run(&t, &options());
    let missing = &c.missing[0];
    assert_eq!((missing.name.as_slice(), missing.needed_by.as_path()), (&b"libq.so"[..], Path::new("/bin/p")));
    let why = |path: &str| missing.tried.iter().find(|t| t.path == Path::new(path)).map(|t| t.why.as_str());
    assert_eq!(why("/gone/libq.so"), Some("No such file or directory"));
    assert_eq!(why("/other/libq.so"), Some("wrong ELF class: 32 bit"));
    assert_eq!(why("/bin/../x/libq.so"), Some("No such file or directory"));
    assert_eq!(why("/etc/ld.so.cache"), Some("No such file or directory"));
    assert_eq!(why("/usr/lib64/libq.so"), Some("for another machine"));
    assert_eq!(paths(&c), ["/bin/p", "/lib64/libc.so.6", LDSO]);
}

#[test]
fn a_short_file_ends_the_start() {
    let target = X86_64;
    let mut t = glibc_root(target, "2.38");
    t.file("/bin/p", &program(target, &["libq.so", "libc.so.6"]).build());
    t.file("/lib64/libq.so", b"\x7fELF");
    t.file("/usr/lib64/libq.so", &library(target, "libq.so", &[]).build());
    let c = run(&t, &options());
    assert_eq!(c.fatal.as_deref(), Some("/lib64/libq.so: file too short"));
    assert_eq!(c.missing[0].name, b"libq.so");
}

#[test]
fn another_root_is_never_left() {
    let target = X86_64;
    let inner = glibc_root(target, "2.38");
    let mut t = Table::default();
    for path in [LDSO, "/lib64/libc.so.6"] {
        let bytes = inner.open(Path::new(path)).unwrap().bytes.unwrap();
        t.file(&format!("/image{path}"), bytes.as_ref().as_ref());
    }
    let mut p = program(target, &["libq.so", "libc.so.6"]);
    p.runpath = Some(b"$ORIGIN/../../../../opt".to_vec());
    t.file("/image/real/p", &p.build());
    t.link("/image/bin", "/real");
    t.file("/opt/libq.so", &library(target, "libq.so", &[]).build());
    t.file("/image/srv/libq.so", &library(target, "libq.so", &[]).build());
    t.link("/image/opt", "../../srv");
    let rooted = Rooted::new(&t, Path::new("/image"));
    let c = run(&rooted, &Options { cwd: "/".into(), ..options() });
    // $ORIGIN is the program's real directory, inside.
    assert_eq!(paths(&c), ["/bin/p", "/real/../../../../opt/libq.so", "/lib64/libc.so.6", LDSO]);
    t.link("/image/opt", "/gone");
    let rooted = Rooted::new(&t, Path::new("/image"));
    let c = run(&rooted, &Options { cwd: "/".into(), ..options() });
    assert_eq!(c.missing[0].name, b"libq.so", "the host's /opt is not the image's");
}

#[test]
fn musl_inherits_runpath_and_is_its_own_libc() {
    let target = X86_64;
    let mut t = Table::default();
    let mut loader = Recipe::library(target, "x").build();
    loader.extend(b"\0musl libc (x86_64)\nVersion %s\n\0/lib:/usr/lib\0\x31.2.4\0%.*s/etc/ld-musl-x86_64.path\0");
    t.file(MUSL, &loader);
    let mut p = program(target, &["liba.so", "libm.so"]);
    p.interp = Some(MUSL.into());
    p.runpath = Some(b"/r".to_vec());
    t.file("/bin/p", &p.build());
    t.file("/r/liba.so", &library(target, "other-name", &["libb.so", "libc.musl-x86_64.so.1"]).build());
    t.file("/r/libb.so", &library(target, "liba.so", &["liba.so"]).build());
    let c = run(&t, &options());
    assert_eq!(paths(&c), ["/bin/p", "/r/liba.so", MUSL, "/r/libb.so"]);
    assert_eq!(c.totals.failed_opens, 0);
    // The path file replaces the default path; its own failure is counted.
    t.file("/bin/p", &{
        p.runpath = None;
        p.build()
    });
    let c = run(&t, &options());
    assert_eq!((c.missing.len(), c.totals.failed_opens), (1, 1 + 2));
    t.file("/etc/ld-musl-x86_64.path", b"/nowhere\n/r");
    let c = run(&t, &options());
    assert_eq!(paths(&c), ["/bin/p", "/r/liba.so", MUSL, "/r/libb.so"]);
    assert_eq!(c.totals.failed_opens, 2);
}

#[test]
fn look_ups_stop_at_the_first_definition() {
    for hash in [Hash::Gnu, Hash::Sysv, Hash::Both] {
        let target = X86_64;
        let mut t = glibc_root(target, "2.38");
        let mut p = program(target, &["liba.so", "libb.so", "libc.so.6"]);
        p.imports = vec![
            Import { relocations: 3, ..Import::new("in_b", Use::Absolute) },
            Import::new("in_a", Use::GlobDat),
            Import::new("in_b", Use::JumpSlot),
            Import::new("nowhere", Use::GlobDat),
        ];
        p.hash = hash;
        p.relative = Some(Relative { count: 5, stride: 8, packing: Packing::Plain });
        t.file("/bin/p", &p.build());
        let export = |soname: &str, names: &[&str]| {
            let mut r = library(target, soname, &[]);
            r.exports = names.iter().map(|n| n.as_bytes().to_vec()).collect();
            r.hash = hash;
            r.build()
        };
        t.file("/lib64/liba.so", &export("liba.so", &["in_a", "both"]));
        t.file("/lib64/libb.so", &export("libb.so", &["in_b", "both", "in_a"]));
        let c = run(&t, &Options { bindings: true, costly: 2, ..options() });
        // in_b (3 objects), in_a (2), nowhere (4); the slot of in_b is lazy.
        let p = &c.objects[0];
        assert_eq!((p.lookups, p.lookups_cached, p.probes, p.lazy_slots), (Some(3), Some(2), Some(9), Some(1)));
        assert_eq!(c.totals.lookups, Some(3 + 2), "two names for the vDSO; ld.so is not in the scope");
        let bound: Vec<_> = c.bindings.iter().map(|b| (b.symbol.as_slice(), b.bound_to)).collect();
        assert_eq!(bound, [(&b"in_b"[..], Some(2)), (b"in_a", Some(1)), (b"nowhere", None)]);
        assert_eq!(c.unresolved.iter().map(|u| u.symbol.as_slice()).collect::<Vec<_>>(), [b"nowhere"]);
        assert_eq!(c.costly.len(), 2);
        assert!(c.costly[0].probes >= c.costly[1].probes);
        let now = run(&t, &Options { bind_now: true, ..options() });
        assert_eq!((now.objects[0].lookups, now.objects[0].lazy_slots), (Some(4), Some(0)));
    }
}

#[test]
fn programs_without_a_loader_stand_alone() {
    let target = X86_64;
    let mut t = Table::default();
    let mut p = Recipe::program(target);
    p.relative = Some(Relative { count: 7, stride: 8, packing: Packing::Plain });
    t.file("/bin/p", &p.build());
    let c = run(&t, &options());
    assert!(c.loader.is_none() && c.objects.len() == 1);
    assert_eq!((c.totals.relative, c.totals.lookups), (7, Some(0)));
    // The interpreter that is named does not exist: the kernel refuses.
    t.file("/bin/p", &program(target, &[]).build());
    let c = run(&t, &options());
    assert!(c.fatal.unwrap().contains(LDSO));
    assert_eq!(c.missing[0].tried[0].why, "No such file or directory");
}

/// Any byte of any file may be wrong: no panic, and an end.
#[test]
fn damaged_files_never_panic() {
    let target = X86_64;
    let mut p = program(target, &["liba.so", "libc.so.6"]);
    p.imports = vec![Import::new("in_a", Use::GlobDat), Import::new("gone", Use::JumpSlot)];
    p.versions = vec![(b"liba.so".to_vec(), b"V_1".to_vec())];
    p.runpath = Some(b"$ORIGIN:/lib64".to_vec());
    let mut a = library(target, "liba.so", &["libc.so.6"]);
    a.exports = vec![b"in_a".to_vec(), b"more".to_vec()];
    a.hash = Hash::Both;
    let (p, a) = (p.build(), a.build());
    let mut random = 0x9e37_79b9_7f4a_7c15u64;
    let mut next = |below: usize| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        (random % below as u64) as usize
    };
    for round in 0..1500 {
        let mut t = glibc_root(target, "2.38");
        let (mut p, mut a) = (p.clone(), a.clone());
        let bytes = if round % 2 == 0 { &mut p } else { &mut a };
        for _ in 0..1 + next(4) {
            let at = next(bytes.len());
            bytes[at] = [0, 1, 0x7f, 0x80, 0xff, next(256) as u8][next(6)];
        }
        if round % 16 == 0 {
            bytes.truncate(next(bytes.len()));
        }
        t.file("/bin/p", &p);
        t.file("/lib64/liba.so", &a);
        let _ = closure(Path::new("/bin/p"), &Options { bindings: true, costly: 3, ..options() }, &t);
    }
}
