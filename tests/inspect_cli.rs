//! `premain inspect` as other programs see it: fields, exit codes, odd files.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may end in a panic")]

mod support;

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use object::elf;
use premain::elf::synth::{Import, Packing, Recipe, Relative, Target, Use};
use premain::json::Json;

const X86_64: Target = Target::new(elf::EM_X86_64, true, false);

fn written(dir: &Path, name: &str, recipe: &Recipe) -> PathBuf {
    let path = dir.join(name);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(&path, recipe.build()).unwrap();
    path
}

fn program() -> Recipe {
    Recipe {
        relative: Some(Relative { count: 40, stride: 4096, packing: Packing::Plain }),
        imports: vec![Import::new("f", Use::JumpSlot)],
        constructors: 1,
        ..Recipe::program(X86_64)
    }
}

fn json(args: &[&str]) -> Json {
    let (code, out, err) = support::run(args);
    assert_eq!((code, err.as_str()), (0, ""), "{args:?}");
    Json::parse(&out).unwrap()
}

fn first(document: &Json) -> &Json {
    &document.get("files").and_then(Json::as_array).unwrap()[0]
}

/// The fields that other programs read (DESIGN.md, section 8), in this order and with nothing between.
#[test]
fn the_contract_of_fields() {
    let path = written(&support::scratch("inspect-fields"), "program", &program());
    let document = json(&["inspect", "--json", path.to_str().unwrap()]);
    assert_eq!(document.get("schema").and_then(Json::as_str), Some("premain.inspect/1"));
    let file = first(&document);
    for field in [
        "path",
        "format",
        "arch",
        "bits",
        "endian",
        "size_bytes",
        "kind",
        "interp",
        "needed",
        "runpath",
        "rpath",
        "soname",
        "bind_now",
        "textrel",
        "hash",
        "relocations",
        "relro",
        "pages_written",
        "init",
        "tls_bytes",
        "closure",
    ] {
        assert!(file.get(field).is_some(), "{field}");
    }
    let inner = |name: &str, fields: &[&str]| {
        for field in fields {
            assert!(file.get(name).unwrap().get(field).is_some(), "{name}.{field}");
        }
    };
    inner(
        "relocations",
        &[
            "relative",
            "relr",
            "absolute",
            "glob_dat",
            "jump_slot",
            "copy",
            "irelative",
            "tls",
            "none",
            "other",
            "total",
            "table_bytes",
        ],
    );
    inner("relro", &["kind", "bytes", "pages"]);
    inner("init", &["preinit_array", "init_array", "has_init"]);
    inner("closure", &["objects", "missing", "totals"]);
    let totals = file.get("closure").unwrap().get("totals").unwrap();
    for field in [
        "objects",
        "relative",
        "relative_tagged",
        "relr",
        "lookups",
        "lookups_cached",
        "probes",
        "failed_opens",
        "pages_written",
        "relro_bytes",
        "init_functions",
    ] {
        assert!(totals.get(field).is_some(), "totals.{field}");
    }
    let count = |name: &str| file.get("relocations").unwrap().get(name).and_then(Json::as_u64);
    assert_eq!((count("relative"), count("jump_slot"), count("total")), (Some(41), Some(1), Some(42)));
    // 40 pages of data, one of the init array, one of the function slots.
    assert_eq!(file.get("pages_written").and_then(Json::as_u64), Some(42));
}

/// One bad file does not end the run: the rest is shown, each reason is one line, and the exit code says so.
#[test]
fn odd_files_have_reasons_and_end_nothing() {
    let dir = support::scratch("inspect-odd");
    let good = written(&dir, "good", &program());
    std::fs::write(dir.join("text"), "hello\n").unwrap();
    std::fs::write(dir.join("empty"), "").unwrap();
    std::fs::write(dir.join("archive"), "!<arch>\nx").unwrap();
    std::fs::write(dir.join("Hello.class"), b"\xca\xfe\xba\xbe\0\0\x00\x37").unwrap();
    std::fs::write(dir.join("script"), "#!/bin/sh -e\n").unwrap();
    std::fs::write(dir.join("no-name"), "#! \n").unwrap();
    std::fs::write(dir.join("cut"), &program().build()[..90]).unwrap();
    symlink("nowhere", dir.join("dangling")).unwrap();
    symlink("loop", dir.join("loop")).unwrap();
    // Each libc has its own words for it.
    let loops = support::os_error(40);
    let cases = [
        ("text", "not ELF, Mach-O or a script"),
        ("empty", "is empty"),
        ("archive", "a static library (archive)"),
        ("Hello.class", "a Java class file"),
        ("no-name", "names no interpreter"),
        ("cut", "program headers at offset 0x40 do not fit the file (90 bytes)"),
        ("dangling", "cannot open: No such file or directory"),
        ("loop", loops.as_str()),
        (".", "is a directory"),
        ("/dev/null", "is a device"),
    ];
    let mut args = vec!["inspect".to_string(), "--jsonl".to_string(), good.display().to_string()];
    args.extend(cases.iter().map(|(name, _)| dir.join(name).display().to_string()));
    args.push(dir.join("script").display().to_string());
    let (code, out, err) = support::run(&args);
    assert_eq!(code, 2);
    let reasons: Vec<&str> = err.lines().collect();
    assert_eq!(reasons.len(), cases.len(), "{err}");
    for ((name, reason), line) in cases.iter().zip(reasons) {
        let path = dir.join(name);
        let said = line.strip_prefix(&format!("premain: {}: ", path.display()));
        assert!(said.is_some_and(|said| said.contains(reason)), "{name}: {line}");
    }
    let lines: Vec<Json> = out.lines().map(|l| Json::parse(l).unwrap()).collect();
    assert_eq!(lines.len(), cases.len() + 2);
    let unreadable = lines.iter().filter(|l| l.get("unreadable").is_some()).count();
    assert_eq!(unreadable, cases.len());
    let script = lines.last().unwrap();
    assert_eq!(script.get("kind").and_then(Json::as_str), Some("script"));
    assert_eq!(script.get("interp").and_then(Json::as_str), Some("/bin/sh"));
}

#[test]
fn a_fifo_does_not_block() {
    let Some(mkfifo) = support::tool("mkfifo") else { return };
    let path = support::scratch("inspect-fifo").join("fifo");
    assert!(std::process::Command::new(mkfifo).arg(&path).status().unwrap().success());
    let (code, _, err) = support::run(["inspect".as_ref(), path.as_os_str()]);
    assert_eq!((code, err.trim_end().ends_with(": is a FIFO")), (2, true), "{err}");
}

/// A file of 8 GiB of which 200 bytes are there, and one with every program header that fits.
#[test]
fn work_follows_the_bytes_that_are_there() {
    let dir = support::scratch("inspect-large");
    let sparse = written(&dir, "sparse", &program());
    let file = std::fs::OpenOptions::new().write(true).open(&sparse).unwrap();
    if file.set_len(8 << 30).is_ok() {
        let document = json(&["inspect", "--json", "--no-closure", sparse.to_str().unwrap()]);
        assert_eq!(first(&document).get("size_bytes").and_then(Json::as_u64), Some(8 << 30));
    }
    std::fs::remove_file(&sparse).unwrap();
    let many = Recipe { extra_segments: 65_520, ..program() };
    let many = written(&dir, "many", &many);
    let document = json(&["inspect", "--json", "--no-closure", many.to_str().unwrap()]);
    let segments = first(&document).get("elf").unwrap().get("segments").and_then(Json::as_array).unwrap();
    assert!(segments.len() > 65_520);
}

/// Another root: its links stay inside, and paths may be written as seen from outside.
#[test]
fn another_root() {
    let root = support::scratch("inspect-root");
    let library = Recipe { exports: vec![b"f".to_vec()], ..Recipe::library(X86_64, "libx.so") };
    written(&root, "opt/real/libx.so", &library);
    symlink("/opt/real", root.join("opt/link")).unwrap();
    let loader = Path::new("/lib64/ld-linux-x86-64.so.2");
    let Ok(bytes) = std::fs::read(loader) else { return };
    std::fs::create_dir_all(root.join("lib64")).unwrap();
    std::fs::write(root.join("lib64/ld-linux-x86-64.so.2"), bytes).unwrap();
    let recipe = Recipe {
        interp: Some(b"/lib64/ld-linux-x86-64.so.2".to_vec()),
        needed: vec![b"libx.so".to_vec()],
        runpath: Some(b"/opt/link".to_vec()),
        ..program()
    };
    let outside = written(&root, "bin/program", &recipe);
    for path in ["/bin/program", outside.to_str().unwrap()] {
        let document = json(&["inspect", "--json", "--root", root.to_str().unwrap(), path]);
        let file = first(&document);
        assert_eq!(file.get("path").and_then(Json::as_str), Some("/bin/program"));
        let closure = file.get("closure").unwrap();
        assert_eq!(closure.get("missing"), Some(&Json::Array(Vec::new())), "{closure}");
        let objects = closure.get("objects").and_then(Json::as_array).unwrap();
        let paths: Vec<&str> = objects.iter().filter_map(|o| o.get("path").and_then(Json::as_str)).collect();
        assert_eq!(paths, ["/bin/program", "/opt/link/libx.so", "/lib64/ld-linux-x86-64.so.2"]);
    }
    // The host's own environment has no say in another root.
    let (code, _, err) = support::run(["inspect", "--root", root.to_str().unwrap(), "/etc/hostname"]);
    assert_eq!((code, err.contains("/etc/hostname: cannot open")), (2, true), "{err}");
}

#[test]
fn two_builds_compared() {
    let dir = support::scratch("inspect-diff");
    let old = written(&dir, "old", &program());
    let fewer = Recipe {
        relative: Some(Relative { count: 40, stride: 8, packing: Packing::Relr }),
        flags: elf::DF_BIND_NOW.0,
        ..program()
    };
    let new = written(&dir, "new", &fewer);
    let (old, new) = (old.to_str().unwrap(), new.to_str().unwrap());
    let document = json(&["inspect", "--diff", "--json", old, new]);
    let differences = document.get("differences").and_then(Json::as_array).unwrap();
    let change = |field: &str| {
        let found = differences.iter().find(|d| d.get("field").and_then(Json::as_str) == Some(field));
        found.and_then(|d| d.get("difference")).and_then(Json::as_f64)
    };
    assert_eq!(change("relocations.relative"), Some(-40.0));
    assert_eq!(change("relocations.relr"), Some(40.0));
    assert_eq!(change("pages_written"), Some(-40.0));
    assert_eq!(change("relocations.jump_slot"), None);
    let (code, text, _) = support::run(["inspect", "--diff", old, new]);
    assert_eq!(code, 0);
    assert!(text.contains("relocations.relr") && text.contains("+40") && text.contains("bind_now"), "{text}");
    let (code, _, err) = support::run(["inspect", "--diff", old]);
    assert_eq!((code, err.as_str()), (2, "premain: --diff compares two files, 1 given\n"));
}

#[test]
fn pages_and_second_parser() {
    let path = written(&support::scratch("inspect-pages"), "program", &program());
    let document = json(&["inspect", "--json", "--pages", "--cross-check", path.to_str().unwrap()]);
    let file = first(&document);
    let pages = file.get("written_pages").and_then(Json::as_array).unwrap();
    assert_eq!(Some(pages.len() as u64), file.get("pages_written").and_then(Json::as_u64));
    assert!(pages.iter().any(|p| p.get("written_by").unwrap().get("relative").and_then(Json::as_u64) == Some(1)));
    let check = file.get("cross_check").unwrap();
    assert_eq!(check.get("disagreements"), Some(&Json::Array(Vec::new())));
    let (code, text, _) = support::run(["inspect", "--pages", "--cross-check", path.to_str().unwrap()]);
    assert_eq!(code, 0);
    assert!(text.contains("1 relative each") && text.contains("second parser (goblin): agrees on all"), "{text}");
}

/// A table of pointers is found by name: its section, and its symbol, with readelf's address and size.
#[test]
fn written_pages_have_holders() {
    let (Some(cc), Some(readelf)) = (support::tool("cc"), support::tool("readelf")) else {
        return support::skip("no cc or no readelf");
    };
    let dir = support::scratch("inspect-holders");
    let (source, program) = (dir.join("a.c"), dir.join("a"));
    let text = "static int x;\nint *const big_table[5000] = {[0 ... 4999] = &x};\nint *other = &x;\nint main(void) { return *other + *big_table[1]; }\n";
    std::fs::write(&source, text).unwrap();
    let built = std::process::Command::new(cc).arg("-pie").arg("-fPIE").arg("-o").args([&program, &source]).status();
    assert!(built.unwrap().success());

    let document = json(&["inspect", "--json", "--pages", "--no-closure", program.to_str().unwrap()]);
    let file = first(&document);
    let holder = |list: &str, name: &str| {
        let all = file.get(list).and_then(Json::as_array).unwrap();
        let of = |h: &&Json| h.get("name").and_then(Json::as_str) == Some(name);
        let found = all.iter().find(of).unwrap_or_else(|| panic!("no {name} in {list}: {all:?}"));
        ["size_bytes", "writes", "pages"].map(|field| support::number(found, field))
    };
    let symbols = std::process::Command::new(readelf).args(["-W", "-s"]).arg(&program).output().unwrap();
    let symbols = String::from_utf8(symbols.stdout).unwrap();
    let line = symbols.lines().find(|l| l.ends_with(" big_table")).unwrap();
    let words: Vec<&str> = line.split_whitespace().collect();
    let (start, size) = (u64::from_str_radix(words[1], 16).unwrap(), words[2].parse::<u64>().unwrap());
    assert_eq!(holder("written_objects", "big_table"), [size, 5_000, (start + size - 1) / 4096 - start / 4096 + 1]);
    assert_eq!(holder("written_sections", ".data.rel.ro")[1], 5_000);
    let (code, text, _) = support::run(["inspect", "--pages", "--no-closure", program.to_str().unwrap()]);
    assert!(code == 0 && text.contains("big_table"), "{text}");
}
