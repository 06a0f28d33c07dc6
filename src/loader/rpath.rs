//! Where dyld looks for a library: `@rpath`, `@loader_path`, `@executable_path`, and the directories of last resort.
//!
//! Source of the rules: dyld's `Loader::forEachResolvedAtPathVar`, `expandAtLoaderPath`, `expandAtExecutablePath`
//! (`dyld/Loader.cpp`) and `PathOverrides::forEachPathVariant` (`dyld/DyldProcessConfig.cpp`), for a program that
//! may use such paths and has no DYLD_ variables set. Paths are not normalised: dyld opens them as they are.

#![deny(clippy::indexing_slicing, clippy::arithmetic_side_effects, clippy::unwrap_used)]

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use super::search::FoundBy;

/// One image of the chain that led to a library: dyld tries the LC_RPATHs of the image that asks first, then those of
/// the image that loaded that one, and so on to the program.
#[derive(Debug, Clone, Copy)]
pub struct Link<'a> {
    /// Where the image was found.
    pub path: &'a Path,
    /// Its LC_RPATHs.
    pub rpaths: &'a [OsString],
}

/// `dir(path)` with `tail` behind it. The last slash of the path stays where the tail has none of its own.
fn beside(path: &Path, tail: &[u8]) -> Option<PathBuf> {
    let bytes = path.as_os_str().as_bytes();
    let slash = bytes.iter().rposition(|b| *b == b'/')?;
    let mut out = bytes.get(..slash)?.to_vec();
    if !tail.starts_with(b"/") {
        out.push(b'/');
    }
    out.extend(tail);
    Some(PathBuf::from(OsString::from_vec(out)))
}

/// What follows a variable, where the name starts with it as a whole component.
fn after<'a>(name: &'a [u8], variable: &[u8]) -> Option<&'a [u8]> {
    name.strip_prefix(variable).filter(|rest| rest.is_empty() || rest.starts_with(b"/"))
}

/// `@loader_path` or `@executable_path` at the start of `name`, replaced.
fn expand(name: &[u8], loader: &Path, executable: &Path) -> Option<PathBuf> {
    if let Some(tail) = after(name, b"@loader_path") {
        return beside(loader, tail);
    }
    after(name, b"@executable_path").and_then(|tail| beside(executable, tail))
}

/// `dir` and `tail`, which starts with a slash, without a double one.
fn joined(dir: &[u8], tail: &[u8]) -> PathBuf {
    let tail = if dir.ends_with(b"/") { tail.get(1..).unwrap_or(b"") } else { tail };
    PathBuf::from(OsString::from_vec([dir, tail].concat()))
}

/// Paths at which dyld looks for `name`, in order. `chain` starts with the image that asks and ends with the program,
/// `executable` is the program's path. With `fallbacks`, the directories of last resort are tried too (images that
/// were linked against an SDK before macOS 13).
pub fn candidates(name: &OsStr, chain: &[Link<'_>], executable: &Path, fallbacks: bool) -> Vec<(FoundBy, PathBuf)> {
    let bytes = name.as_bytes();
    let mut out = Vec::new();
    let asks = chain.first().map_or(executable, |link| link.path);
    if let Some(path) = expand(bytes, asks, executable) {
        out.push((FoundBy::Path, path));
    } else if let Some(tail) = bytes.strip_prefix(b"@rpath").filter(|tail| tail.starts_with(b"/")) {
        for link in chain {
            for rpath in link.rpaths {
                let rpath = rpath.as_bytes();
                match expand(rpath, link.path, executable) {
                    Some(dir) => out.push((FoundBy::Rpath, joined(dir.as_os_str().as_bytes(), tail))),
                    // An unknown variable in an LC_RPATH is no path.
                    None if rpath.starts_with(b"@") => {}
                    None => out.push((FoundBy::Rpath, joined(rpath, tail))),
                }
            }
        }
    } else if !bytes.starts_with(b"@") {
        out.push((FoundBy::Path, PathBuf::from(name)));
    }
    if fallbacks {
        out.extend(last_resort(bytes).map(|path| (FoundBy::Default, path)));
    }
    out
}

/// The standard fallback directories with the library's last component, or the framework's part of its path.
fn last_resort(name: &[u8]) -> impl Iterator<Item = PathBuf> + use<> {
    let (dirs, leaf) = match framework_part(name) {
        Some(part) => (["/Library/Frameworks", "/System/Library/Frameworks"], part),
        None => {
            let leaf = name.rsplit(|b| *b == b'/').next().unwrap_or(name);
            (["/usr/local/lib", "/usr/lib"], leaf)
        }
    };
    let (leaf, name) = (OsStr::from_bytes(leaf).to_os_string(), OsStr::from_bytes(name).to_os_string());
    dirs.into_iter().map(move |dir| Path::new(dir).join(&leaf)).filter(move |path| path.as_os_str() != name)
}

/// `Foo.framework/…/Foo` of a path that ends so.
fn framework_part(name: &[u8]) -> Option<&[u8]> {
    const SUFFIX: &[u8] = b".framework/";
    let dot = name.windows(SUFFIX.len()).rposition(|w| w == SUFFIX)?;
    let before = name.get(..dot)?;
    let start = before.iter().rposition(|b| *b == b'/').map_or(0, |slash| slash.saturating_add(1));
    let leaf = name.rsplit(|b| *b == b'/').next()?;
    (before.get(start..)? == leaf).then(|| name.get(start..)).flatten()
}

/// Install names of libraries that live in dyld's shared cache and, since macOS 11, in no file (`mightBeInSharedCache`).
pub fn may_be_in_shared_cache(name: &OsStr) -> bool {
    const PREFIXES: [&[u8]; 5] = [
        b"/usr/lib/",
        b"/System/Library/",
        b"/System/iOSSupport/usr/lib/",
        b"/System/iOSSupport/System/Library/",
        b"/System/DriverKit/",
    ];
    PREFIXES.iter().any(|prefix| name.as_bytes().starts_with(prefix))
}

#[cfg(test)]
#[allow(clippy::arithmetic_side_effects)]
mod tests {
    use super::*;

    fn paths(name: &str, chain: &[(&str, &[&str])], fallbacks: bool) -> Vec<String> {
        let rpaths: Vec<Vec<OsString>> = chain.iter().map(|(_, r)| r.iter().map(OsString::from).collect()).collect();
        let links: Vec<Link<'_>> =
            chain.iter().zip(&rpaths).map(|((path, _), rpaths)| Link { path: Path::new(*path), rpaths }).collect();
        let found = candidates(OsStr::new(name), &links, Path::new("/app/bin/prog"), fallbacks);
        found.iter().map(|(by, path)| format!("{} {}", by.name(), path.display())).collect()
    }

    #[test]
    fn run_paths_accumulate_from_the_image_that_asks() {
        let chain: [(&str, &[&str]); 2] = [
            ("/app/lib/liba.dylib", &["@loader_path", "@executable_path/../Frameworks/"]),
            ("/app/bin/prog", &["@loader_path/../lib", "/opt/lib", "@unknown/x"]),
        ];
        assert_eq!(
            paths("@rpath/libb.dylib", &chain, false),
            [
                "rpath /app/lib/libb.dylib",
                "rpath /app/bin/../Frameworks/libb.dylib",
                "rpath /app/bin/../lib/libb.dylib",
                "rpath /opt/lib/libb.dylib",
            ]
        );
    }

    #[test]
    fn the_other_variables_name_one_place() {
        let chain: [(&str, &[&str]); 1] = [("/app/lib/liba.dylib", &["/nowhere"])];
        assert_eq!(paths("@loader_path/../x/libb.dylib", &chain, false), ["path /app/lib/../x/libb.dylib"]);
        assert_eq!(paths("@executable_path/libb.dylib", &chain, false), ["path /app/bin/libb.dylib"]);
        assert_eq!(paths("/usr/local/lib/libb.dylib", &chain, false), ["path /usr/local/lib/libb.dylib"]);
        assert_eq!(paths("lib/b.dylib", &chain, false), ["path lib/b.dylib"]);
        assert!(paths("@loader_pathological/b", &chain, false).is_empty());
        assert!(paths("@rpath", &chain, false).is_empty());
    }

    #[test]
    fn last_resorts_are_by_leaf_or_framework() {
        assert_eq!(
            paths("/opt/libb.dylib", &[], true),
            ["path /opt/libb.dylib", "default /usr/local/lib/libb.dylib", "default /usr/lib/libb.dylib"]
        );
        assert_eq!(paths("/usr/lib/libz.dylib", &[], true).len(), 2, "the same path is not tried again");
        assert_eq!(
            paths("@rpath/Foo.framework/Versions/A/Foo", &[], true),
            [
                "default /Library/Frameworks/Foo.framework/Versions/A/Foo",
                "default /System/Library/Frameworks/Foo.framework/Versions/A/Foo"
            ]
        );
        assert_eq!(paths("/x/Foo.framework/Bar", &[], true).last().unwrap(), "default /usr/lib/Bar");
    }

    #[test]
    fn system_libraries_have_no_files() {
        let cached: Vec<bool> = ["/usr/lib/libSystem.B.dylib", "/System/Library/x", "/usr/local/lib/x", "@rpath/x"]
            .iter()
            .map(|n| may_be_in_shared_cache(OsStr::new(n)))
            .collect();
        assert_eq!(cached, [true, true, false, false]);
    }
}
