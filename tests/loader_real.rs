//! The loader's search and look-ups against the loaders of this machine, on libraries that a compiler builds here.
//!
//! Each case is built twice where it matters: for glibc (`cc`) and for musl (`musl-gcc`).

#![allow(clippy::unwrap_used, reason = "a test ends in a panic")]

mod support;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::process::Command;

use premain::loader::cpu::Cpu;
use premain::loader::host::Host;
use premain::loader::{Closure, FoundBy, Options, closure};

/// What a program's start depends on besides its file.
#[derive(Default, Clone)]
struct Env<'a> {
    library_path: Option<&'a str>,
    preload: Option<String>,
    bind_now: bool,
}

impl Env<'_> {
    fn options(&self, cwd: &Path) -> Options {
        Options {
            library_path: self.library_path.map(|s| s.as_bytes().to_vec()),
            preload: self.preload.as_ref().map(|s| s.as_bytes().to_vec()),
            bind_now: self.bind_now,
            cwd: cwd.to_path_buf(),
            cpu: Cpu::host(),
            ..Options::default()
        }
    }

    fn apply(&self, command: &mut Command) {
        command.env_clear().env("LC_ALL", "C");
        if let Some(path) = self.library_path {
            command.env("LD_LIBRARY_PATH", path);
        }
        if let Some(preload) = &self.preload {
            command.env("LD_PRELOAD", preload);
        }
        if self.bind_now {
            command.env("LD_BIND_NOW", "1");
        }
    }
}

/// A directory with a compiler.
struct Bench {
    dir: PathBuf,
    cc: &'static str,
}

impl Bench {
    fn new(test: &str, cc: &'static str) -> Option<Bench> {
        support::tool(cc)?;
        Some(Bench { dir: support::scratch(&format!("loader-{test}-{cc}")), cc })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    fn text(&self, name: &str) -> String {
        self.path(name).to_str().unwrap().to_string()
    }

    fn source(&self, name: &str, code: &str) -> String {
        let path = self.path(name);
        std::fs::write(&path, code).unwrap();
        path.to_str().unwrap().to_string()
    }

    /// Runs the compiler in the directory.
    fn build(&self, args: &[&str]) {
        let run = Command::new(self.cc).args(args).current_dir(&self.dir).output().unwrap();
        assert!(run.status.success(), "{} {args:?}: {}", self.cc, String::from_utf8_lossy(&run.stderr));
    }

    /// A library `out` that defines `function`, with more arguments for the linker.
    fn library(&self, out: &str, function: &str, args: &[&str]) {
        let source = self.source(&format!("{function}.c"), &format!("int {function}(void) {{ return 1; }}\n"));
        if let Some(parent) = self.path(out).parent() {
            std::fs::create_dir_all(parent).unwrap();
        }
        let mut all = vec!["-shared", "-fPIC", "-Wl,--no-as-needed", "-o", out, &source];
        all.extend(args);
        self.build(&all);
    }

    fn program(&self, args: &[&str]) {
        let source = self.source("main.c", "int main(void) { return 0; }\n");
        let mut all = vec!["-Wl,--no-as-needed", "-o", "main", &source];
        all.extend(args);
        self.build(&all);
    }

    fn is_musl(&self) -> bool {
        self.cc == "musl-gcc"
    }

    /// Objects in order, and names that are not found, as the loader lists them.
    fn real(&self, program: &Path, env: &Env<'_>) -> (Vec<PathBuf>, Vec<String>) {
        let mut command = if self.is_musl() {
            let mut command = Command::new(musl_loader());
            command.arg("--list").arg(program);
            command
        } else {
            Command::new(program)
        };
        env.apply(&mut command);
        if !self.is_musl() {
            command.env("LD_TRACE_LOADED_OBJECTS", "1");
        }
        let run = command.current_dir(&self.dir).output().unwrap();
        let out = String::from_utf8_lossy(&run.stdout).into_owned();
        let err = String::from_utf8_lossy(&run.stderr).into_owned();
        let mut found = Vec::new();
        let mut lost = Vec::new();
        for line in out.lines().map(str::trim) {
            if let Some((name, _)) = line.split_once(" => not found") {
                lost.push(name.to_string());
            } else if let Some((what, _)) = line.rsplit_once(" (0x") {
                found.push(PathBuf::from(what.rsplit(" => ").next().unwrap()));
            }
        }
        for line in err.lines() {
            if let Some((_, rest)) = line.split_once("Error loading shared library ") {
                lost.push(rest.split(": ").next().unwrap().to_string());
            }
        }
        found.retain(|p| !p.to_string_lossy().contains("linux-vdso"));
        (found, lost)
    }

    /// Closure by premain, checked against the loader's own list.
    fn check(&self, env: &Env<'_>) -> Closure {
        let program = self.path("main");
        let c = closure(&program, &env.options(&self.dir), &Host).unwrap();
        let (mut found, mut lost) = self.real(&program, env);
        let mut mine: Vec<PathBuf> = c.objects.iter().skip(1).map(|o| o.path.clone()).collect();
        if self.is_musl() {
            // musl lists itself first, wherever it stands in the order.
            found.retain(|p| *p != musl_loader());
            mine.retain(|p| *p != musl_loader());
        } else {
            mine.retain(|p| c.objects.iter().any(|o| o.path == *p && o.in_scope));
        }
        let mut missing: Vec<String> = c
            .missing
            .iter()
            .filter(|m| !m.ignored)
            .map(|m| OsString::from_vec(m.name.clone()).into_string().unwrap())
            .collect();
        lost.sort();
        missing.sort();
        assert_eq!(mine, found, "objects in load order");
        assert_eq!(missing, lost, "what is not found");
        c
    }

    /// The counters of a real start.
    fn statistics(&self, env: &Env<'_>) -> BTreeMap<String, u64> {
        let mut command = Command::new(self.path("main"));
        env.apply(&mut command);
        let run = command.env("LD_DEBUG", "statistics").current_dir(&self.dir).output().unwrap();
        let text = String::from_utf8_lossy(&run.stderr).into_owned();
        let first = text.split("final number").next().unwrap();
        let number = |line: &str| {
            let (name, value) = line.split_once("number of ")?.1.split_once(": ")?;
            Some((name.to_string(), value.trim().parse().ok()?))
        };
        first.lines().filter_map(number).collect()
    }

    fn check_counters(&self, env: &Env<'_>) {
        let c = closure(&self.path("main"), &env.options(&self.dir), &Host).unwrap();
        let real = self.statistics(env);
        assert_eq!(real.get("relocations"), c.totals.lookups.as_ref(), "{c:#?}");
        assert_eq!(real.get("relocations from cache"), c.totals.lookups_cached.as_ref());
        assert_eq!(real.get("relative relocations"), Some(&c.totals.relative_tagged));
    }
}

/// Where musl's loader is on this machine.
fn musl_loader() -> PathBuf {
    PathBuf::from(format!("/lib/ld-musl-{}.so.1", std::env::consts::ARCH))
}

fn found_by<'c>(c: &'c Closure, name: &str) -> Option<(&'c Path, FoundBy)> {
    let object = c.objects.iter().find(|o| o.path.file_name().is_some_and(|n| n.as_bytes() == name.as_bytes()))?;
    Some((&object.path, object.found_by))
}

/// T22: a circle of two libraries; RPATH of the program serves both, RUNPATH only its own (glibc) or both (musl).
#[test]
fn a_circle_behind_rpath_and_runpath() {
    for cc in ["cc", "musl-gcc"] {
        let Some(b) = Bench::new("circle", cc) else { continue };
        let dir = b.text("libs");
        b.library("libs/libb.so", "b", &[]);
        b.library("libs/liba.so", "a", &["-Llibs", "-lb"]);
        b.library("libs/libb.so", "b", &["-Llibs", "-la"]);
        let rpath = format!("-Wl,--disable-new-dtags,-rpath,{dir}");
        b.program(&["-Llibs", "-la", &rpath, "-Wl,--allow-shlib-undefined"]);
        let c = b.check(&Env::default());
        assert_eq!(found_by(&c, "libb.so").unwrap().1, FoundBy::Rpath);
        let runpath = format!("-Wl,--enable-new-dtags,-rpath,{dir}");
        b.program(&["-Llibs", "-la", &runpath, "-Wl,--allow-shlib-undefined"]);
        let c = b.check(&Env::default());
        assert_eq!(found_by(&c, "liba.so").unwrap().1, FoundBy::Runpath);
        assert_eq!(found_by(&c, "libb.so").is_some(), b.is_musl());
        if !b.is_musl() {
            let lost = &c.missing[0];
            assert_eq!((lost.name.as_slice(), lost.needed_by.as_path()), (&b"libb.so"[..], &*b.path("libs/liba.so")));
            assert!(lost.tried.iter().any(|t| t.by == FoundBy::Cache && t.why == "does not list it"), "{lost:?}");
            assert!(lost.tried.iter().any(|t| t.by == FoundBy::Default && t.why.contains("No such file")), "{lost:?}");
        }
    }
}

/// T24: two names for one file are one object; a loop of links is not found.
#[test]
fn one_file_under_two_names_and_links_in_a_circle() {
    for cc in ["cc", "musl-gcc"] {
        let Some(b) = Bench::new("names", cc) else { continue };
        b.library("q1.so", "q", &[]);
        std::fs::hard_link(b.path("q1.so"), b.path("q2.so")).unwrap();
        b.library("libloop1.so", "l", &["-Wl,-soname,libloop1.so"]);
        let rpath = format!("-Wl,--disable-new-dtags,-rpath,{}", b.dir.display());
        b.program(&["-L.", "-l:q1.so", "-l:q2.so", "-l:libloop1.so", &rpath]);
        std::fs::remove_file(b.path("libloop1.so")).unwrap();
        std::os::unix::fs::symlink("libloop2.so", b.path("libloop1.so")).unwrap();
        std::os::unix::fs::symlink("libloop1.so", b.path("libloop2.so")).unwrap();
        let c = b.check(&Env::default());
        assert_eq!(c.objects.iter().filter(|o| o.path.to_string_lossy().contains("/q")).count(), 1);
        assert_eq!(c.missing[0].name, b"libloop1.so");
        assert!(c.missing[0].tried.iter().any(|t| t.why.contains(&support::os_error(40))), "{:?}", c.missing[0]);
    }
}

/// T25: RPATH comes before LD_LIBRARY_PATH and RUNPATH after it (glibc); LD_LIBRARY_PATH is always first (musl).
#[test]
fn library_path_against_rpath_and_runpath() {
    for cc in ["cc", "musl-gcc"] {
        let Some(b) = Bench::new("order", cc) else { continue };
        b.library("r1/libr.so", "r", &[]);
        b.library("r2/libr.so", "r", &[]);
        let (one, two) = (b.text("r1"), b.text("r2"));
        for (tags, glibc_takes) in [("--disable-new-dtags", &one), ("--enable-new-dtags", &two)] {
            b.program(&["-Lr1", "-lr", &format!("-Wl,{tags},-rpath,{one}")]);
            for list in [two.clone(), format!("/nonexistent:{two}"), format!("{two}/;:")] {
                // musl knows no semicolon.
                if b.is_musl() && list.contains(';') {
                    continue;
                }
                let c = b.check(&Env { library_path: Some(&list), ..Env::default() });
                let takes = if b.is_musl() { &two } else { glibc_takes };
                assert_eq!(found_by(&c, "libr.so").unwrap().0.parent().unwrap(), Path::new(takes), "{tags} {list}");
            }
        }
    }
}

/// T27: DF_1_NODEFLIB: neither default directories nor what the cache has in them.
#[test]
fn no_default_libraries() {
    let Some(b) = Bench::new("nodeflib", "cc") else { return };
    b.program(&["-Wl,-z,nodefaultlib"]);
    let c = b.check(&Env::default());
    assert_eq!(c.missing[0].name, b"libc.so.6");
    assert!(c.missing[0].tried.iter().any(|t| t.why.contains("DF_1_NODEFLIB")), "{:?}", c.missing);
    let list = format!("/lib/{}-linux-gnu:/usr/lib64:/lib64", std::env::consts::ARCH);
    b.check(&Env { library_path: Some(&list), ..Env::default() });
}

#[test]
fn origin_and_relative_directories() {
    for cc in ["cc", "musl-gcc"] {
        let Some(b) = Bench::new("origin", cc) else { continue };
        b.library("app/lib/libdeep.so", "deep", &[]);
        b.library("app/lib/libo.so", "o", &["-Lapp/lib", "-ldeep", "-Wl,--enable-new-dtags,-rpath,${ORIGIN}/."]);
        b.library("rel/librel.so", "rel", &["-Wl,-soname,librel.so"]);
        b.program(&[
            "-Lapp/lib",
            "-lo",
            "-Lrel",
            "-lrel",
            "-Wl,--enable-new-dtags,-rpath,$ORIGIN/app/lib",
            "-Wl,--allow-shlib-undefined",
        ]);
        b.check(&Env { library_path: Some("rel"), ..Env::default() });
        b.check(&Env { library_path: Some("rel/../rel//:/nonexistent:rel"), ..Env::default() });
        let c = b.check(&Env::default());
        assert_eq!(c.missing.len(), 1);
    }
}

#[test]
fn preloads_come_before_dependencies() {
    for cc in ["cc", "musl-gcc"] {
        let Some(b) = Bench::new("preload", cc) else { continue };
        b.library("libdep.so", "dep", &[]);
        b.library("libpre.so", "pre", &["-L.", "-ldep", &format!("-Wl,-rpath,{}", b.dir.display())]);
        b.library("libown.so", "own", &[]);
        b.program(&["-L.", "-lown", &format!("-Wl,-rpath,{}", b.dir.display())]);
        let c = b.check(&Env { preload: Some(b.text("libpre.so")), ..Env::default() });
        assert_eq!(found_by(&c, "libpre.so").unwrap().1, FoundBy::Preload);
        // One that is not there is ignored.
        let preload = format!("/nonexistent/x.so {} libown.so", b.text("libpre.so"));
        let c =
            closure(&b.path("main"), &Env { preload: Some(preload.clone()), ..Env::default() }.options(&b.dir), &Host);
        assert!(c.unwrap().missing[0].ignored);
        if !b.is_musl() {
            let c = b.check(&Env { preload: Some(preload), ..Env::default() });
            let names: Vec<_> = c.objects.iter().map(|o| o.path.file_name().unwrap().to_string_lossy()).collect();
            assert_eq!(names[1..3], ["libpre.so", "libown.so"]);
        }
    }
}

/// Subdirectories for the processor win over the directory itself, in the loader's order.
#[test]
fn hwcaps_and_platform() {
    let Some(b) = Bench::new("hwcaps", "cc") else { return };
    b.library("libs/libh.so", "h", &[]);
    b.program(&[
        "-Llibs",
        "-lh",
        "-Wl,--disable-new-dtags,-rpath,$ORIGIN/libs:$ORIGIN/$LIB:$ORIGIN/p/${PLATFORM}:/$LIB",
    ]);
    let subdirectories =
        ["x86_64", "tls", "tls/x86_64", "glibc-hwcaps/x86-64-v2", "glibc-hwcaps/x86-64-v3", "glibc-hwcaps/x86-64-v4"];
    for name in subdirectories {
        b.library(&format!("libs/{name}/libh.so"), "h", &[]);
        b.check(&Env::default());
    }
    std::fs::remove_dir_all(b.path("libs")).unwrap();
    let lib = format!("lib/{}-linux-gnu", std::env::consts::ARCH);
    for name in [format!("p/{}", std::env::consts::ARCH), "lib64".to_string(), lib] {
        b.library(&format!("{name}/libh.so"), "h", &[]);
        b.check(&Env::default());
    }
}

/// DT_AUXILIARY and DT_FILTER: the named library goes before the one that names it; an auxiliary one may be absent.
#[test]
fn auxiliary_and_filter_libraries() {
    let Some(b) = Bench::new("auxiliary", "cc") else { return };
    let rpath = format!("-Wl,-rpath,{}", b.dir.display());
    b.library("libdep.so", "dep", &[]);
    b.library("libreal.so", "real", &["-L.", "-ldep"]);
    b.library("libfront.so", "front", &["-Wl,-f,libreal.so", &rpath]);
    b.library("libfilter.so", "filter", &["-Wl,-F,libdep.so", &rpath]);
    for order in [["-lfront", "-lfilter"], ["-lfilter", "-lfront"]] {
        b.program(&["-L.", order[0], order[1], &rpath]);
        b.check(&Env::default());
        b.program(&["-L.", order[0], "-ldep", "-lreal", order[1], &rpath]);
        b.check(&Env::default());
    }
    b.program(&["-L.", "-lfront", "-lfilter", &rpath]);
    std::fs::remove_file(b.path("libreal.so")).unwrap();
    // The loader's list calls it "not found"; a start goes on without it.
    let c = closure(&b.path("main"), &Env::default().options(&b.dir), &Host).unwrap();
    assert!(c.missing.iter().all(|m| m.ignored) && !c.missing.is_empty());
    assert!(Command::new(b.path("main")).status().unwrap().success());
}

/// Wrong class or machine: looked on. No ELF file, or a short one: the start ends there.
#[test]
fn files_that_are_passed_over_and_files_that_are_fatal() {
    let Some(b) = Bench::new("wrong", "cc") else { return };
    b.library("good/libw.so", "w", &[]);
    b.program(&["-Lgood", "-lw"]);
    std::fs::create_dir_all(b.path("bad")).unwrap();
    let good = std::fs::read(b.path("good/libw.so")).unwrap();
    let list = format!("{}:{}", b.text("bad"), b.text("good"));
    let with = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut bytes = good.clone();
        change(&mut bytes);
        std::fs::write(b.path("bad/libw.so"), bytes).unwrap();
        let env = Env { library_path: Some(&list), ..Env::default() };
        let c = closure(&b.path("main"), &env.options(&b.dir), &Host).unwrap();
        let (found, _) = b.real(&b.path("main"), &env);
        let real = found.iter().find(|p| p.ends_with("libw.so")).cloned();
        let mine = c.objects.iter().map(|o| o.path.clone()).find(|p| p.ends_with("libw.so"));
        assert_eq!(c.fatal.is_some(), found.is_empty(), "{:?} {found:?}", c.fatal);
        if c.fatal.is_none() {
            assert_eq!(mine, real);
        }
        c
    };
    assert!(with(&|bytes| bytes[4] = 1).fatal.is_none(), "32 bit");
    let other = if cfg!(target_arch = "x86_64") { 183 } else { 62 };
    assert!(with(&|bytes| bytes[18] = other).fatal.is_none(), "another machine");
    for (name, at, byte) in [
        ("magic", 0, 0u8),
        ("order", 5, 2),
        ("version", 6, 0),
        ("abi", 7, 9),
        ("padding", 10, 1),
        ("type", 16, 1),
        ("phentsize", 54, 1),
    ] {
        assert!(with(&|bytes| bytes[at] = byte).fatal.is_some(), "{name}");
    }
    assert!(with(&|bytes| bytes.truncate(63)).fatal.unwrap().contains("file too short"));
    assert!(with(&|bytes| bytes.clear()).fatal.is_some());
}

/// Failed opens and stats, exactly as the kernel sees them.
#[test]
fn failures_of_the_search_are_counted() {
    let Some(strace) = support::tool("strace") else { return };
    for cc in ["cc", "musl-gcc"] {
        let Some(b) = Bench::new("failures", cc) else { continue };
        let mut link = vec![];
        let mut lists = vec![b.text("gone"), b.text("empty"), b.text("libs")];
        std::fs::create_dir_all(b.path("empty/tls")).unwrap();
        for n in 0..4 {
            b.library(&format!("libs/libf{n}.so"), &format!("f{n}"), &[]);
            link.push(format!("-lf{n}"));
        }
        std::fs::write(b.path("a-file"), "").unwrap();
        lists.push(b.text("a-file"));
        let rpath = format!("-Wl,--disable-new-dtags,-rpath,{}", lists.join(":"));
        let mut args = vec!["-Llibs", &rpath];
        args.extend(link.iter().map(String::as_str));
        b.program(&args);
        for env in [
            Env::default(),
            Env { library_path: Some("/nonexistent:empty:libs"), ..Env::default() },
            Env { library_path: Some("/nonexistent/:a-file:/:"), ..Env::default() },
        ] {
            let mine = b.check(&env).totals;
            let log = b.path("log");
            let mut command = Command::new(&strace);
            command.args(["-qq", "-e", "trace=open,openat,stat,newfstatat", "-o"]).arg(&log);
            if let Some(list) = env.library_path {
                command.args(["-E", &format!("LD_LIBRARY_PATH={list}")]);
            }
            if b.is_musl() {
                command.arg(musl_loader()).arg("--list");
            } else {
                command.args(["-E", "LD_TRACE_LOADED_OBJECTS=1"]);
            }
            command.arg(b.path("main")).current_dir(&b.dir).env_remove("LD_LIBRARY_PATH").output().unwrap();
            let log = std::fs::read_to_string(log).unwrap();
            let failed = log.lines().filter(|l| l.contains("= -1 E")).count() as u64;
            assert_eq!(mine.failed_opens, failed, "{cc} {:?}\n{log}", env.library_path);
        }
    }
}

/// Look-ups, cache hits and tags equal glibc's own counters, whatever the link settings are.
#[test]
fn counters_equal_the_loader_s() {
    let Some(b) = Bench::new("counters", "cc") else { return };
    let code = "#include <stdio.h>\n#include <time.h>\n#include <sys/time.h>\n#include <stdlib.h>\n\
        extern int a(void), b(void); extern char **environ;\n\
        const char *t[] = {\"x\", \"y\"}; int (*f[])(void) = {a, a, b, a};\n\
        time_t (*g[])(time_t *) = {time, time};\n\
        int main(void) { struct timeval v; gettimeofday(&v, 0); fputs(t[0], stderr); return f[0]() + !environ + !g[0] - 1; }\n";
    let source = b.source("counted.c", code);
    for flags in [
        &["-Wl,-z,lazy"][..],
        &["-Wl,-z,now"],
        &["-no-pie", "-fno-pic"],
        &["-Wl,--hash-style=sysv"],
        &["-Wl,--hash-style=both", "-Wl,-Bsymbolic"],
        &["-Wl,-z,pack-relative-relocs"],
        &["-fno-plt"],
    ] {
        b.library("liba.so", "a", flags_for_libraries(flags));
        b.library("libb.so", "b", flags_for_libraries(flags));
        let rpath = format!("-Wl,-rpath,{}", b.dir.display());
        let mut args = vec!["-o", "main", &source, "-L.", "-la", "-lb", &rpath];
        args.extend(flags);
        b.build(&args);
        b.check_counters(&Env::default());
        b.check_counters(&Env { bind_now: true, ..Env::default() });
        b.check_counters(&Env { preload: Some(b.text("libb.so")), ..Env::default() });
    }
}

fn flags_for_libraries<'a>(flags: &'a [&'a str]) -> &'a [&'a str] {
    if flags.contains(&"-no-pie") { &[] } else { flags }
}

/// A reference that nothing defines: the real start fails, with the symbol's name.
#[test]
fn an_unresolved_symbol_is_named() {
    let Some(b) = Bench::new("unresolved", "cc") else { return };
    let source = b.source("u.c", "extern int nowhere; int *p = &nowhere;\n");
    b.build(&["-shared", "-fPIC", "-o", "libu.so", &source]);
    b.program(&["-L.", "-lu", "-Wl,--allow-shlib-undefined", &format!("-Wl,-rpath,{}", b.dir.display())]);
    let c = closure(&b.path("main"), &Env::default().options(&b.dir), &Host).unwrap();
    assert_eq!(c.unresolved.len(), 1);
    assert_eq!(c.unresolved[0].symbol, b"nowhere");
    let run = Command::new(b.path("main")).output().unwrap();
    assert!(String::from_utf8_lossy(&run.stderr).contains("undefined symbol: nowhere"));
}

/// A version that the library does not define, and DT_RELR without the version that allows it.
#[test]
fn missing_versions_end_the_start() {
    let Some(b) = Bench::new("versions", "cc") else { return };
    let rpath = format!("-Wl,-rpath,{}", b.dir.display());
    b.source("old.map", "V_1 { global: v; };\n");
    b.source("new.map", "V_1 { }; V_2 { global: v; } V_1;\n");
    b.library("libv.so", "v", &["-Wl,--version-script,new.map"]);
    let source = b.source("main.c", "extern int v(void); int main(void) { return v(); }\n");
    b.build(&["-o", "main", &source, "-L.", "-lv", &rpath]);
    b.library("libv.so", "v", &["-Wl,--version-script,old.map"]);
    let c = closure(&b.path("main"), &Env::default().options(&b.dir), &Host).unwrap();
    assert_eq!((c.version_errors.len(), c.version_errors[0].version.as_slice()), (1, &b"V_2"[..]));
    let run = Command::new(b.path("main")).output().unwrap();
    assert!(String::from_utf8_lossy(&run.stderr).contains(&c.version_errors[0].why), "{run:?}");

    b.library("libr.so", "r", &[]);
    let table = b.source(
        "relr.c",
        "const char *const t[] = {\"a\", \"b\"}; int puts(const char *); int r(void) { return puts(t[0]); }\n",
    );
    for (flags, fails) in
        [(&["-Wl,-z,pack-relative-relocs"][..], false), (&["-fuse-ld=lld", "-Wl,--pack-dyn-relocs=relr"], true)]
    {
        if fails && support::tool("ld.lld").is_none() {
            continue;
        }
        let mut args = vec!["-shared", "-fPIC", "-o", "libr.so", &table];
        args.extend(flags);
        b.build(&args);
        b.program(&["-L.", "-lr", &rpath]);
        let c = closure(&b.path("main"), &Env::default().options(&b.dir), &Host).unwrap();
        let run = Command::new(b.path("main")).output().unwrap();
        let text = String::from_utf8_lossy(&run.stderr);
        // Newer linkers add the version themselves.
        assert_eq!(!c.version_errors.is_empty(), !run.status.success(), "{:?} {text}", c.version_errors);
        assert!(c.version_errors.iter().all(|e| text.contains(&e.why)), "{text}");
    }
}
