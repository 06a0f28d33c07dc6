//! Symbol versions of one object: what DT_VERNEED asks for and DT_VERDEF defines, by version index.
//! Source: `_dl_check_map_versions` in `elf/dl-version.c` of glibc 2.36.

#![deny(clippy::indexing_slicing, clippy::arithmetic_side_effects, clippy::unwrap_used)]

use object::elf;

use crate::elf::image::Image;

/// Records that are read at most: an index has 15 bits, so more cannot be used.
const MOST: usize = 1 << 16;

/// A version by its index (`struct r_found_version`).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Version {
    /// System V hash of the name; 0 for an index without a version.
    pub hash: u32,
    /// Name.
    pub name: Vec<u8>,
    /// The reference accepts no default version.
    pub hidden: bool,
    /// The library that should define it; `None` for a version of this object.
    pub file: Option<Vec<u8>>,
}

/// A version that an object asks of a library.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Needed {
    /// The library.
    pub file: Vec<u8>,
    /// System V hash of the name.
    pub hash: u32,
    /// Name.
    pub name: Vec<u8>,
    /// May be absent (VER_FLG_WEAK).
    pub weak: bool,
}

/// All versions of an object.
#[derive(Debug, Clone, Default)]
pub struct Versions {
    by_index: Vec<Version>,
    /// What it asks for, in order.
    pub needed: Vec<Needed>,
    /// Hash and name of what it defines; `None` without DT_VERDEF.
    pub defined: Option<Vec<(u32, Vec<u8>)>>,
}

impl Versions {
    /// Reads both tables.
    pub fn of(image: &Image<'_>) -> Versions {
        let mut versions = Versions::default();
        versions.read_needed(image);
        versions.read_defined(image);
        versions
    }

    /// True where the object has no versions at all.
    pub fn is_empty(&self) -> bool {
        self.by_index.is_empty()
    }

    /// The version of an index.
    pub fn get(&self, index: u16) -> Option<&Version> {
        self.by_index.get(usize::from(index))
    }

    fn slot(&mut self, index: u16) -> Option<&mut Version> {
        let index = usize::from(index);
        if self.by_index.len() <= index {
            self.by_index.resize_with(index.saturating_add(1), Version::default);
        }
        self.by_index.get_mut(index)
    }

    fn read_needed(&mut self, image: &Image<'_>) {
        let Some(table) = table(image, elf::DT_VERNEED) else { return };
        let mut left = MOST;
        let mut at = 0usize;
        loop {
            let (Some(file), Some(first), Some(next)) = (
                image.u32_in(table, at.saturating_add(4)),
                image.u32_in(table, at.saturating_add(8)),
                image.u32_in(table, at.saturating_add(12)),
            ) else {
                return;
            };
            let file = image.string(u64::from(file)).unwrap_or(&[]);
            let mut aux = at.saturating_add(first as usize);
            while let Some((index, version, weak, aux_next)) = needed_entry(image, table, aux, file) {
                let (hash, name) = (version.hash, version.name.clone());
                self.needed.push(Needed { file: file.to_vec(), hash, name, weak });
                if let Some(slot) = self.slot(index) {
                    *slot = version;
                }
                left = left.saturating_sub(1);
                if aux_next == 0 || left == 0 {
                    break;
                }
                aux = aux.saturating_add(aux_next as usize);
            }
            if next == 0 || left == 0 {
                return;
            }
            at = at.saturating_add(next as usize);
        }
    }

    fn read_defined(&mut self, image: &Image<'_>) {
        let Some(table) = table(image, elf::DT_VERDEF) else { return };
        self.defined = Some(Vec::new());
        let mut at = 0usize;
        for _ in 0..MOST {
            let (Some(flags), Some(index), Some(hash), Some(aux), Some(next)) = (
                image.u16_in(table, at.saturating_add(2)),
                image.u16_in(table, at.saturating_add(4)),
                image.u32_in(table, at.saturating_add(8)),
                image.u32_in(table, at.saturating_add(12)),
                image.u32_in(table, at.saturating_add(16)),
            ) else {
                return;
            };
            // The base version is the file's name and takes part in no comparison.
            let is_base = flags & elf::VER_FLG_BASE.0 != 0;
            let name = image.u32_in(table, at.saturating_add(aux as usize));
            let name = name.and_then(|n| image.string(u64::from(n))).unwrap_or(&[]);
            self.defined.get_or_insert_default().push((hash, name.to_vec()));
            if let Some(slot) = self.slot(index & 0x7fff)
                && !is_base
            {
                *slot = Version { hash, name: name.to_vec(), hidden: slot.hidden, file: None };
            }
            if next == 0 {
                return;
            }
            at = at.saturating_add(next as usize);
        }
    }
}

fn table<'a>(image: &Image<'a>, tag: elf::DynamicTag) -> Option<&'a [u8]> {
    image.from_vaddr(image.dynamic_value(tag)?)
}

/// One Vernaux: index, version, whether it may be absent, offset of the next.
fn needed_entry(image: &Image<'_>, table: &[u8], at: usize, file: &[u8]) -> Option<(u16, Version, bool, u32)> {
    let hash = image.u32_in(table, at)?;
    let flags = image.u16_in(table, at.checked_add(4)?)?;
    let other = image.u16_in(table, at.checked_add(6)?)?;
    let name = image.u32_in(table, at.checked_add(8)?)?;
    let next = image.u32_in(table, at.checked_add(12)?)?;
    let name = image.string(u64::from(name)).unwrap_or(&[]).to_vec();
    let version = Version { hash, name, hidden: other & 0x8000 != 0, file: Some(file.to_vec()) };
    Some((other & 0x7fff, version, flags & elf::VER_FLG_WEAK.0 != 0, next))
}
