//! Whether every version that an object asks for is defined: glibc asks before it relocates anything.
//! Source: `match_symbol` and `_dl_check_map_versions` in `elf/dl-version.c` of glibc 2.36.

#![deny(clippy::indexing_slicing, clippy::arithmetic_side_effects, clippy::unwrap_used)]

use super::VersionError;
use super::binary::Binary;
use super::identity::Identity;
use super::search::{Loaded, Search};

/// The version that says that a file with DT_RELR was linked for a libc that reads it.
const RELR: &[u8] = b"GLIBC_ABI_DT_RELR";

/// Versions that are missing; `object` is an index into the search's `loaded`.
pub(super) fn check(search: &Search, identity: &Identity) -> Vec<VersionError> {
    let mut out = Vec::new();
    let binary = |index: usize| {
        let object: &Loaded = search.loaded.get(index)?;
        object.file.as_ref()?.binary(&object.path).ok()
    };
    for index in search.scope.iter().copied() {
        let Some(asker) = binary(index) else { continue };
        for needed in asker.symbols().versions.needed.iter().filter(|n| !n.weak) {
            let defines = |i: &usize| is_called(search, *i, &needed.file);
            let Some(library) = (0..search.loaded.len()).find(defines).and_then(binary) else { continue };
            let Some(defined) = &library.symbols().versions.defined else { continue };
            if !defined.iter().any(|(hash, name)| *hash == needed.hash && *name == needed.name) {
                let (version, file) = (needed.name.clone(), needed.file.clone());
                let why = format!("version `{}' not found", String::from_utf8_lossy(&version));
                out.push(VersionError { object: index, version, file, why });
            }
        }
        out.extend(relr_without_version(index, asker, identity));
    }
    out
}

/// True where a loaded object is known by this name.
fn is_called(search: &Search, index: usize, name: &[u8]) -> bool {
    use std::os::unix::ffi::OsStrExt;
    search.loaded.get(index).is_some_and(|o| {
        let soname = o.file.as_ref().and_then(|f| f.binary(&o.path).ok()).and_then(|b| b.soname.as_deref());
        o.names.iter().any(|n| n == name) || soname == Some(name) || o.path.as_os_str().as_bytes() == name
    })
}

/// glibc 2.36 and later refuse DT_RELR in a file that asks versions of libc and not this one; earlier ones do not read
/// the table at all.
fn relr_without_version(index: usize, asker: &Binary, identity: &Identity) -> Option<VersionError> {
    let versions = &asker.symbols().versions;
    let libc = asker.needs.iter().find(|n| n.name.starts_with(b"libc.so."))?;
    let has_reference = versions.needed.iter().any(|n| n.name == RELR);
    if !asker.has_relr || versions.needed.is_empty() || has_reference || identity.version < (2, 36) {
        return None;
    }
    let why = "DT_RELR without GLIBC_ABI_DT_RELR dependency".to_string();
    Some(VersionError { object: index, version: RELR.to_vec(), file: libc.name.clone(), why })
}
