//! Which objects glibc loads, in which order: preloads, then what is needed, breadth first.
//!
//! Sources: `_dl_map_object_deps` in `elf/dl-deps.c`, `handle_preload_list` in `elf/rtld.c` of glibc 2.36.

#![deny(clippy::indexing_slicing, clippy::arithmetic_side_effects, clippy::unwrap_used)]

use std::path::PathBuf;

use super::super::binary::NeedKind;
use super::super::search::FoundBy;
use super::super::tokens::{as_path, expand};
use super::{Fatal, Glibc};

impl Glibc<'_> {
    /// Preloads, then everything that is needed, breadth first.
    pub(super) fn load_all(&mut self) -> (Vec<usize>, Option<String>) {
        let preloads = self.preloads();
        let mut list: Vec<usize> = vec![0];
        list.extend(preloads);
        let fatal = self.load_needed(&mut list).err().map(|Fatal(why)| why);
        list.retain(|i| self.loaded.get(*i).is_some_and(|o| o.file.is_some()));
        (list, fatal)
    }

    /// What LD_PRELOAD and the system's preload file name. One that cannot be loaded is ignored with a message.
    fn preloads(&mut self) -> Vec<usize> {
        let mut names: Vec<(Vec<u8>, PathBuf)> = Vec::new();
        if let Some(text) = self.options.preload.as_ref().filter(|_| !self.options.secure) {
            let parts = text.split(|b| *b == b' ' || *b == b':').filter(|p| !p.is_empty());
            names.extend(parts.map(|p| (p.to_vec(), PathBuf::from("LD_PRELOAD"))));
        }
        if let Some(path) = self.identity.preload.as_deref() {
            let memo = self.opener.memo;
            // ld.so asks access(2) first, which is no open.
            if let Ok(file) = memo.open(self.opener.files(), path) {
                let named = preload_names(file.data());
                names.extend(named.into_iter().map(|p| (p, path.to_path_buf())));
            }
        }
        let mut out = Vec::new();
        for (name, source) in names {
            let before = self.loaded.len();
            match self.map_object(0, &name, true) {
                Ok(Some(index)) if index >= before => out.push(index),
                Ok(Some(_)) => {}
                Ok(None) => self.note_missing(&name, source, true),
                Err(Fatal(why)) => {
                    self.opener.note(FoundBy::Preload, as_path(&name), why);
                    self.note_missing(&name, source, true);
                }
            }
        }
        out
    }

    /// `_dl_map_object_deps`. What is not found stands in the list as an object without file.
    fn load_needed(&mut self, list: &mut Vec<usize>) -> Result<(), Fatal> {
        let mut done: Vec<usize> = Vec::new();
        let mut at = 0usize;
        while let Some(index) = list.get(at).copied() {
            if done.contains(&index) {
                at = at.saturating_add(1);
                continue;
            }
            done.push(index);
            let needs = self.binary(index).map(|b| b.needs.clone()).unwrap_or_default();
            // Auxiliary objects are put before this one, which then moves back in the list.
            let mut own = at;
            for need in needs.into_iter().filter(|n| !self.options.assume.is_without(&n.name)) {
                let Some(dependency) = self.load_need(index, &need.name, need.kind)? else { continue };
                if let Some(object) = self.loaded.get_mut(index) {
                    object.needs.push(dependency);
                }
                if need.kind == NeedKind::Needed {
                    if !list.contains(&dependency) {
                        list.push(dependency);
                    }
                    continue;
                }
                match list.iter().position(|i| *i == dependency) {
                    Some(place) if place < own => continue,
                    Some(place) => {
                        list.remove(place);
                    }
                    None => {}
                }
                list.insert(own.min(list.len()), dependency);
                own = own.saturating_add(1);
            }
        }
        Ok(())
    }

    /// One dependency: its index, or nothing where it may be absent and is.
    fn load_need(&mut self, loader: usize, name: &[u8], kind: NeedKind) -> Result<Option<usize>, Fatal> {
        let origin = self.origin(loader);
        let who = self.loaded.get(loader).map(|o| o.path.clone()).unwrap_or_default();
        let Some(name) = expand(name, self.tokens(&origin)).filter(|n| !n.is_empty()) else {
            return Err(Fatal(format!("{}: empty dynamic string token substitution", who.display())));
        };
        let ignored = kind == NeedKind::Auxiliary;
        match self.map_object(loader, &name, false) {
            Ok(Some(index)) => Ok(Some(index)),
            Ok(None) => {
                self.note_missing(&name, who, ignored);
                if ignored {
                    return Ok(None);
                }
                // As under `ldd`: the name keeps its place.
                let index = self.add(None, as_path(&name), FoundBy::Default, Some(loader));
                Ok(Some(index))
            }
            Err(Fatal(why)) if ignored => {
                self.opener.note(FoundBy::Path, as_path(&name), why);
                self.note_missing(&name, who, true);
                Ok(None)
            }
            Err(Fatal(why)) => {
                self.opener.note(FoundBy::Path, as_path(&name), format!("{why} (ends the start)"));
                self.note_missing(&name, who, false);
                Err(Fatal(why))
            }
        }
    }
}

/// Names in the system's preload file: between spaces, tabs, newlines and colons, without comments.
fn preload_names(text: &[u8]) -> Vec<Vec<u8>> {
    let lines = text.split(|b| *b == b'\n').map(|line| line.split(|b| *b == b'#').next().unwrap_or(line));
    let names = lines.flat_map(|line| line.split(|b| matches!(b, b' ' | b'\t' | b':')));
    names.filter(|n| !n.is_empty()).map(<[u8]>::to_vec).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn preload_files_have_comments() {
        let names = preload_names(b"# all of this\n/a/x.so b.so:c.so # rest\n\n\td.so");
        let names: Vec<_> = names.iter().map(|n| String::from_utf8_lossy(n).into_owned()).collect();
        assert_eq!(names, ["/a/x.so", "b.so", "c.so", "d.so"]);
    }
}
