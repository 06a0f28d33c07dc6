//! Mach-O through the command line: JSON, the closure inside another root, `--diff`, `--cross-check`, `--arch`; and
//! damaged files through everything that reads them.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may end in a panic")]

mod support;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use premain::crosscheck::cross_check;
use premain::json::Json;
use premain::loader::dyld;
use premain::loader::files::{Errno, FileId, Files, Opened};
use premain::macho;

fn built() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/macho/built")
}

/// All fixtures but the Java class.
fn fixtures() -> Vec<PathBuf> {
    let mut found = Vec::new();
    for directory in std::fs::read_dir(built()).unwrap() {
        for file in std::fs::read_dir(directory.unwrap().path()).unwrap() {
            found.push(file.unwrap().path());
        }
    }
    found.retain(|path| !path.ends_with("Hello.class"));
    found.sort();
    assert!(found.len() >= 39);
    found
}

fn json(args: &[&str]) -> Json {
    let (code, out, err) = support::run(args);
    assert_eq!((code, &err[..]), (0, ""), "{args:?}");
    Json::parse(&out).unwrap()
}

fn files(document: &Json) -> &[Json] {
    document.get("files").and_then(Json::as_array).unwrap()
}

#[test]
fn the_second_parser_agrees_on_every_fixture() {
    let paths: Vec<String> = fixtures().iter().map(|p| p.display().to_string()).collect();
    let args: Vec<&str> = ["inspect", "--json", "--cross-check", "--no-closure"]
        .into_iter()
        .chain(paths.iter().map(|p| &p[..]))
        .collect();
    let document = json(&args);
    assert!(files(&document).len() > 39 + 29);
    for file in files(&document) {
        let check = file.get("cross_check").unwrap();
        assert_eq!(check.get("disagreements"), Some(&Json::Array(Vec::new())), "{file}");
        assert!(check.get("fields").and_then(Json::as_u64) > Some(9), "{file}");
        let block = file.get("macho").unwrap();
        for field in ["cpu", "file_type", "fixups", "segments", "init", "exports", "dylibs", "signature", "slice"] {
            assert!(block.get(field).is_some(), "{field} in {file}");
        }
    }
}

#[test]
fn the_closure_stays_inside_the_root() {
    let root = support::scratch("macho-root");
    std::fs::create_dir_all(root.join("app/bin")).unwrap();
    std::fs::create_dir_all(root.join("app/Frameworks")).unwrap();
    std::fs::copy(built().join("universal/prog"), root.join("app/bin/prog")).unwrap();
    for name in ["libtop", "libbase", "libopt"] {
        let from = |kind: &str| built().join(format!("{kind}/{name}.dylib"));
        std::fs::copy(from("arm64-chained"), root.join(format!("app/Frameworks/{name}.dylib"))).unwrap();
    }
    // An absolute link leads to the root, not to the host.
    std::os::unix::fs::symlink("/app/Frameworks", root.join("app/lib")).unwrap();
    let document = json(&["inspect", "--json", "--root", root.to_str().unwrap(), "/app/bin/prog"]);
    let [x86_64, arm64] = files(&document) else { panic!("two slices") };
    let objects = |file: &Json| -> Vec<String> {
        let objects = file.get("closure").unwrap().get("objects").and_then(Json::as_array).unwrap().to_vec();
        objects.iter().map(|o| o.get("path").and_then(Json::as_str).unwrap().to_string()).collect()
    };
    assert_eq!(
        objects(arm64),
        [
            "/app/bin/prog",
            "/app/bin/../lib/libtop.dylib",
            "/app/bin/../lib/libbase.dylib",
            "/app/bin/../lib/libopt.dylib",
            "/usr/lib/libSystem.B.dylib"
        ]
    );
    // The libraries have no slice for the other machine: two are missing, the weak one is ignored.
    let missing = x86_64.get("closure").unwrap().get("missing").and_then(Json::as_array).unwrap();
    let ignored: Vec<bool> = missing.iter().map(|m| m.get("ignored") == Some(&Json::Bool(true))).collect();
    assert_eq!(ignored, [false, false, true]);
    let totals = arm64.get("closure").unwrap().get("totals").unwrap();
    assert_eq!(totals.get("relative").and_then(Json::as_u64), Some(11 + 3));
    assert_eq!(totals.get("init_functions").and_then(Json::as_u64), Some(3 + 1));
    assert_eq!(totals.get("probes"), Some(&Json::Null));
}

#[test]
fn two_builds_are_compared() {
    let path = |kind: &str| built().join(kind).join("prog").display().to_string();
    let document = json(&["inspect", "--diff", "--json", &path("arm64-opcodes"), &path("arm64-chained")]);
    let changes = document.get("differences").and_then(Json::as_array).unwrap();
    let change = |field: &str| {
        let found = changes.iter().find(|c| c.get("field").and_then(Json::as_str) == Some(field));
        found.map(|c| c.get("difference").cloned().unwrap_or(Json::Null))
    };
    assert_eq!(change("relocations.relative"), Some(Json::Int(11 - 19)));
    assert_eq!(change("relocations.jump_slot"), Some(Json::Int(-5)));
    assert_eq!(change("macho.symbols"), Some(Json::Uint(1)));
    assert_eq!(change("macho.fixups"), Some(Json::Null), "a word has no difference");
    assert_eq!(change("macho.weak_binds"), None, "equal figures are left out");
}

#[test]
fn errors_name_the_file_and_the_slice() {
    let class = built().join("universal/Hello.class").display().to_string();
    let (code, _, err) = support::run(["inspect", &class]);
    assert_eq!(code, 2);
    assert!(err.contains("Hello.class: a Java class file"), "{err}");
    let prog = built().join("universal/prog").display().to_string();
    let (code, out, err) = support::run(["inspect", "--arch", "arm64e", &prog]);
    assert_eq!((code, &out[..]), (2, ""));
    assert!(err.ends_with("prog: holds no slice for arm64e, only x86_64, arm64\n"), "{err}");
    let (code, out, _) = support::run(["inspect", "--arch", "aarch64", &prog]);
    assert_eq!(code, 0);
    assert!(out.contains("slice 2 of 2") && !out.contains("slice 1 of 2"), "{out}");
    assert!(
        out.contains("@rpath/libopt.dylib\n                  (weak)") || out.contains("libopt.dylib (weak)"),
        "{out}"
    );
}

#[test]
fn a_survey_ranks_programs_of_either_machine() {
    let dir = built().display().to_string();
    let document = json(&["survey", "--json", "--sort", "relocations", &dir]);
    let paths = |document: &Json| -> Vec<String> {
        let all = files(document).iter().map(|f| f.get("path").and_then(Json::as_str).unwrap().to_string());
        all.map(|path| path.strip_prefix(&format!("{dir}/")).unwrap().to_string()).collect()
    };
    let ranked = paths(&document);
    assert_eq!(ranked.len(), 14, "libraries and bundles are not ranked: {ranked:?}");
    assert!(ranked[..5].iter().all(|p| p.ends_with("/pages")), "{ranked:?}");
    let with_libraries = json(&["survey", "--json", "--filter", "kind=any", &dir]);
    assert_eq!(files(&with_libraries).len(), fixtures().len());
    // A universal file stands for the slice that is asked for; files without it are passed over.
    let arm64e = paths(&json(&["survey", "--json", "--arch", "arm64e", &dir]));
    assert!(arm64e.len() == 3 && arm64e.iter().all(|p| p.starts_with("arm64e")), "{arm64e:?}");
    let aarch64 = paths(&json(&["survey", "--json", "--arch", "aarch64", &dir]));
    assert!(aarch64.contains(&"universal/hidden".to_string()) && aarch64.len() == 9, "{aarch64:?}");
}

/// Every path is the same file.
struct Everywhere(Arc<Vec<u8>>);

impl Files for Everywhere {
    fn open(&self, path: &Path) -> Result<Opened, Errno> {
        let ino = path.as_os_str().len() as u64 % 7;
        Ok(Opened { id: FileId { dev: 1, ino }, bytes: Ok(self.0.clone()) })
    }

    fn is_dir(&self, _: &Path) -> Result<bool, Errno> {
        Ok(false)
    }

    fn read_link(&self, _: &Path) -> Result<PathBuf, Errno> {
        Err(Errno::EINVAL)
    }
}

#[test]
fn damaged_files_pass_through_every_reader() {
    let mut state = 0x1234_5678_9abc_def1u64;
    let mut next = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        usize::try_from(state % (1 << 31)).unwrap()
    };
    for path in fixtures() {
        let original = std::fs::read(&path).unwrap();
        for _ in 0..60 {
            let mut bytes = original.clone();
            for _ in 0..=next() % 4 {
                // Most of what steers a reader stands in the first 4 KiB.
                let at = if next() % 3 == 0 { next() % bytes.len() } else { next() % bytes.len().min(4096) };
                match next() % 3 {
                    0 => bytes[at] ^= 1 << (next() % 8),
                    1 => bytes[at] = 0xff,
                    _ => bytes.truncate(at.max(64)),
                }
            }
            let Ok(all) = macho::link_facts(&path, &bytes, None) else { continue };
            let bytes = Arc::new(bytes);
            for facts in all {
                // Their answers may differ on damaged files; neither may panic.
                let _ = cross_check(&bytes, &facts);
                let closure = dyld::closure(&path, &facts, Path::new("/"), &Everywhere(bytes.clone()));
                // Seven files, and what is taken for libraries of the system.
                assert!(closure.objects.len() <= 8 + bytes.len() / 24, "{}", path.display());
            }
        }
    }
}
