//! Rules over the source tree: the layers' arrows point down, `unsafe` and `libc::` stay in `sys`, output goes
//! through `Output`.

#![allow(clippy::unwrap_used, reason = "a test that cannot read its own sources has failed")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Layers from the bottom up. A module may use modules of lower layers, and those of its own listed as siblings.
const LAYERS: &[&[&str]] = &[
    &["error", "units", "order", "json", "digest", "facts", "output"],
    &["sys"],
    &["stat"],
    &["elf", "macho", "script"],
    &["crosscheck", "loader"],
    &["measure"],
    &["record"],
    &["trace", "model"],
    &["report"],
    &["commands"],
    &["cli"],
];

/// Uses within a layer that are meant: (user, used).
const SIBLINGS: &[(&str, &str)] = &[
    ("json", "error"),
    ("output", "error"),
    ("digest", "error"),
    ("crosscheck", "loader"),
    ("trace", "model"),
    ("model", "trace"),
];

fn rust_files(dir: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files.extend(rust_files(&path));
        } else if path.extension().is_some_and(|e| e == "rs") {
            files.push(path);
        }
    }
    files.sort();
    files
}

fn sources() -> Vec<(String, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let read = |p: &PathBuf| std::fs::read_to_string(p).unwrap();
    rust_files(&root).iter().map(|p| (p.strip_prefix(&root).unwrap().display().to_string(), read(p))).collect()
}

/// The code of a file without comments and without its test module.
fn code(text: &str) -> String {
    let end = text.find("\n#[cfg(test)]\nmod tests").unwrap_or(text.len());
    text[..end].lines().map(|l| l.split("//").next().unwrap_or("")).collect::<Vec<_>>().join("\n")
}

fn module_of(file: &str) -> String {
    file.split(['/', '.']).next().unwrap_or("").to_string()
}

/// Names that follow `crate::` in `code`, groups included.
fn uses(code: &str) -> Vec<String> {
    let mut out = Vec::new();
    for (at, _) in code.match_indices("crate::") {
        let rest = &code[at + "crate::".len()..];
        let name =
            |s: &str| s.trim_start().chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect::<String>();
        match rest.strip_prefix('{') {
            Some(group) => {
                let mut depth = 0;
                let mut start = 0;
                for (i, c) in group.char_indices() {
                    match c {
                        '{' => depth += 1,
                        '}' if depth == 0 => {
                            out.push(name(&group[start..i]));
                            break;
                        }
                        '}' => depth -= 1,
                        ',' if depth == 0 => {
                            out.push(name(&group[start..i]));
                            start = i + 1;
                        }
                        _ => {}
                    }
                }
            }
            None => out.push(name(rest)),
        }
    }
    out.retain(|n| !n.is_empty());
    out
}

#[test]
fn arrows_point_down() {
    let layer: BTreeMap<&str, usize> =
        LAYERS.iter().enumerate().flat_map(|(i, ms)| ms.iter().map(move |m| (*m, i))).collect();
    let mut wrong = Vec::new();
    for (file, text) in sources() {
        let from = module_of(&file);
        if from == "lib" || from == "main" {
            continue;
        }
        let Some(&here) = layer.get(from.as_str()) else {
            wrong.push(format!("{file}: module {from} has no layer in tests/tidy.rs"));
            continue;
        };
        for used in uses(&code(&text)) {
            let Some(&there) = layer.get(used.as_str()) else { continue };
            let sibling = SIBLINGS.contains(&(from.as_str(), used.as_str()));
            if used != from && (there > here || (there == here && !sibling)) {
                wrong.push(format!("{file} uses crate::{used}, which is not below it"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_module_is_in_the_map_of_lib_rs() {
    let lib = sources().into_iter().find(|(f, _)| f == "lib.rs").unwrap().1;
    let map: String = lib.lines().filter(|l| l.starts_with("//! |")).collect();
    for module in lib.lines().filter_map(|l| l.strip_prefix("pub mod ")?.strip_suffix(';')) {
        assert!(map.contains(&format!("`{module}`")), "{module} is missing in the map of src/lib.rs");
    }
}

#[test]
fn unsafe_and_libc_stay_in_sys() {
    for (file, text) in sources() {
        if module_of(&file) == "sys" {
            continue;
        }
        for (n, line) in code(&text).lines().enumerate() {
            // A word of its own: `glibc::` is a module of the loader.
            let libc = line.match_indices("libc::").any(|(at, _)| !line[..at].ends_with(char::is_alphanumeric));
            assert!(!libc, "{file}:{}: libc outside sys", n + 1);
            let bare = line.replace("unsafe_code", "");
            assert!(
                !bare.split(|c: char| !c.is_alphanumeric() && c != '_').any(|w| w == "unsafe"),
                "{file}:{}: unsafe outside sys",
                n + 1
            );
        }
    }
}

#[test]
fn the_clock_and_the_exit_belong_to_two_places() {
    for (file, text) in sources() {
        let code = code(&text);
        assert!(!code.contains("process::exit"), "{file}: leaving the process is main's job");
        assert!(!code.contains("SystemTime::now") || module_of(&file) == "sys", "{file}: wall-clock time outside sys");
    }
}

#[test]
fn the_version_is_in_the_change_log() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let log = std::fs::read_to_string(root.join("CHANGELOG.md")).unwrap();
    assert!(log.contains(env!("CARGO_PKG_VERSION")));
}
