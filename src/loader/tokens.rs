//! Dynamic string tokens and path lists: `$ORIGIN`, `$LIB`, `$PLATFORM`, colons.
//! Source: `_dl_dst_substitute`, `is_dst` and `fillin_rpath` in `elf/dl-load.c` of glibc 2.36.

#![deny(clippy::indexing_slicing, clippy::arithmetic_side_effects, clippy::unwrap_used)]

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// What tokens stand for, for one object.
#[derive(Debug, Clone, Copy, Default)]
pub struct Tokens<'a> {
    /// Directory of the object as it was found; `None` where it is not known.
    pub origin: Option<&'a [u8]>,
    /// `$LIB`.
    pub lib: &'a [u8],
    /// `$PLATFORM`; `None` drops the element.
    pub platform: Option<&'a [u8]>,
    /// The program is privileged: `$ORIGIN` only as the first element, and only below a trusted directory.
    pub secure: Option<&'a [Vec<u8>]>,
}

/// Length of token `name` at the start of `text` (which is behind its `$`), braces included.
fn token_len(text: &[u8], name: &[u8]) -> Option<usize> {
    let (inner, braces) = match text.strip_prefix(b"{") {
        Some(inner) => (inner, 2usize),
        None => (text, 0),
    };
    let rest = inner.strip_prefix(name)?;
    match rest.first() {
        Some(b'}') if braces != 0 => name.len().checked_add(braces),
        _ if braces != 0 => None,
        Some(c) if c.is_ascii_alphanumeric() || *c == b'_' => None,
        _ => Some(name.len()),
    }
}

/// Replaces every token in one path. `None`: a token has no value here, and the loader drops the whole path.
/// A `$` that starts no token stays.
pub fn expand(text: &[u8], tokens: Tokens<'_>) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text;
    let mut used_origin = false;
    while let Some(dollar) = rest.iter().position(|b| *b == b'$') {
        let (before, behind) = rest.split_at_checked(dollar)?;
        let is_first = out.is_empty() && before.is_empty();
        out.extend_from_slice(before);
        let behind = behind.get(1..)?;
        let (value, len) = if let Some(len) = token_len(behind, b"ORIGIN") {
            let ends_element = matches!(behind.get(len), None | Some(b'/'));
            if tokens.secure.is_some() && !(is_first && ends_element) {
                return None;
            }
            used_origin = true;
            (tokens.origin?, len)
        } else if let Some(len) = token_len(behind, b"PLATFORM") {
            (tokens.platform?, len)
        } else if let Some(len) = token_len(behind, b"LIB") {
            (tokens.lib, len)
        } else {
            (&b"$"[..], 0)
        };
        out.extend_from_slice(value);
        rest = behind.get(len..)?;
    }
    out.extend_from_slice(rest);
    match tokens.secure {
        Some(trusted) if used_origin && !is_trusted(&out, trusted) => None,
        _ => Some(out),
    }
}

/// True where the path, without `.` and `..`, starts with a trusted directory (each ends with a slash).
fn is_trusted(path: &[u8], trusted: &[Vec<u8>]) -> bool {
    let mut parts: Vec<&[u8]> = Vec::new();
    for part in path.split(|b| *b == b'/') {
        match part {
            b"" | b"." => {}
            b".." => {
                parts.pop();
            }
            _ => parts.push(part),
        }
    }
    let mut normal = Vec::with_capacity(path.len());
    for part in parts {
        normal.push(b'/');
        normal.extend_from_slice(part);
    }
    normal.push(b'/');
    trusted.iter().any(|t| normal.starts_with(t))
}

/// The directories of a path list in glibc's spelling: tokens replaced, one slash at the end, `""` for an empty
/// element (the working directory); dropped and repeated ones left out.
pub fn directories(list: &[u8], is_separator: fn(u8) -> bool, tokens: Tokens<'_>) -> Vec<Vec<u8>> {
    let mut out: Vec<Vec<u8>> = Vec::new();
    for element in list.split(|b| is_separator(*b)) {
        let mut dir = match element {
            b"" => Vec::new(),
            _ => match expand(element, tokens) {
                Some(dir) if !dir.is_empty() => dir,
                _ => continue,
            },
        };
        if !dir.is_empty() {
            while dir.len() > 1 && dir.ends_with(b"/") {
                dir.pop();
            }
            if !dir.ends_with(b"/") {
                dir.push(b'/');
            }
        }
        if !out.contains(&dir) {
            out.push(dir);
        }
    }
    out
}

/// The directory of a file's path: what `$ORIGIN` becomes.
pub fn origin_of(path: &Path, cwd: &Path) -> Vec<u8> {
    let path = if path.is_absolute() { path.to_path_buf() } else { cwd.join(path) };
    match path.as_os_str().as_bytes().iter().rposition(|b| *b == b'/') {
        Some(0) | None => b"/".to_vec(),
        Some(slash) => path.as_os_str().as_bytes().get(..slash).unwrap_or(b"/").to_vec(),
    }
}

/// Bytes as a path.
pub fn as_path(bytes: &[u8]) -> &Path {
    Path::new(OsStr::from_bytes(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOKENS: Tokens<'static> =
        Tokens { origin: Some(b"/opt/app/bin"), lib: b"lib64", platform: None, secure: None };

    fn expanded(text: &str, tokens: Tokens<'_>) -> Option<String> {
        expand(text.as_bytes(), tokens).map(|v| String::from_utf8(v).unwrap())
    }

    #[test]
    fn tokens_are_replaced_by_their_longest_name() {
        for (text, out) in [
            ("$ORIGIN/../lib", Some("/opt/app/bin/../lib")),
            ("${ORIGIN}x", Some("/opt/app/binx")),
            ("$ORIGINx", Some("$ORIGINx")),
            ("$ORIGIN_", Some("$ORIGIN_")),
            ("${ORIGIN", Some("${ORIGIN")),
            ("/usr/$LIB/x", Some("/usr/lib64/x")),
            ("/usr/${LIB}/$ORIGIN", Some("/usr/lib64//opt/app/bin")),
            ("/a/$PLATFORM", None),
            ("$", Some("$")),
            ("a$$b", Some("a$$b")),
            ("", Some("")),
        ] {
            assert_eq!(expanded(text, TOKENS).as_deref(), out, "{text}");
        }
        let with = Tokens { platform: Some(b"x86_64"), origin: None, ..TOKENS };
        assert_eq!(expanded("/a/$PLATFORM", with).as_deref(), Some("/a/x86_64"));
        assert_eq!(expanded("$ORIGIN", with), None);
    }

    #[test]
    fn privileged_programs_trust_origin_only_below_system_directories() {
        let trusted = [b"/usr/lib/".to_vec()];
        let t = Tokens { origin: Some(b"/usr/bin"), secure: Some(&trusted), ..TOKENS };
        assert_eq!(expanded("$ORIGIN/../lib/app", t).as_deref(), Some("/usr/bin/../lib/app"));
        assert_eq!(expanded("$ORIGIN/../share", t), None);
        assert_eq!(expanded("/x/$ORIGIN", t), None);
        assert_eq!(expanded("$ORIGIN-x/../../lib", t), None);
        assert_eq!(expanded("/any/where", t).as_deref(), Some("/any/where"));
    }

    #[test]
    fn lists_become_directories_with_one_slash() {
        let list = directories(b"/a:/b//:$PLATFORM/x:::/a/:rel:/", |b| b == b':', TOKENS);
        let text: Vec<_> = list.iter().map(|d| String::from_utf8_lossy(d).into_owned()).collect();
        assert_eq!(text, ["/a/", "/b/", "", "rel/", "/"]);
    }

    #[test]
    fn origins() {
        for (path, origin) in [("/a/b/c", "/a/b"), ("/c", "/"), ("x/c", "/cwd/x"), ("c", "/cwd")] {
            assert_eq!(origin_of(Path::new(path), Path::new("/cwd")), origin.as_bytes(), "{path}");
        }
    }
}
