//! The address space of one process as its events build it up: what lies at an address, and of what kind a page
//! fault there is. Pure.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use crate::trace::event::{Event, Mapping, Prot, What};

/// Size of the pages that faults are counted in. Smaller than the real one on machines with larger pages, where each
/// fault still falls into one page of its own.
pub const PAGE: u64 = 4096;

/// Why a page was not there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum FaultKind {
    /// A page of a file was mapped (from the page cache, unless the fault is major).
    Read,
    /// A private page of a file was written and copied.
    Cow,
    /// Memory without a file: stack, heap, .bss.
    Zero,
}

/// What lies at an address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Region {
    /// End of the region.
    end: u64,
    /// Its file.
    pub path: Option<Rc<PathBuf>>,
    /// Address minus offset in the file.
    delta: u64,
    /// Its protection.
    pub prot: Prot,
}

/// Regions by their first address; they do not overlap.
#[derive(Debug, Clone, Default)]
pub struct Space {
    regions: BTreeMap<u64, Region>,
    /// Every path once.
    paths: HashMap<PathBuf, Rc<PathBuf>>,
}

impl Space {
    /// Forgets everything: a new image was executed.
    pub fn clear(&mut self) {
        self.regions.clear();
    }

    /// A mapping was made, or its protection changed.
    pub fn map(&mut self, m: &Mapping, changes_protection: bool) {
        let end = m.addr.saturating_add(m.len.div_ceil(PAGE).saturating_mul(PAGE));
        if changes_protection {
            return self.protect(m.addr, end, m.prot);
        }
        self.cut(m.addr, end);
        let path = m.path.as_ref().map(|p| self.intern(p));
        let delta = m.addr.wrapping_sub(m.offset);
        self.regions.insert(m.addr, Region { end, path, delta, prot: m.prot });
    }

    fn intern(&mut self, path: &Path) -> Rc<PathBuf> {
        if let Some(known) = self.paths.get(path) {
            return Rc::clone(known);
        }
        let path = Rc::new(path.to_path_buf());
        self.paths.insert(path.to_path_buf(), Rc::clone(&path));
        path
    }

    /// Makes room: what was mapped from `addr` to `end` is replaced.
    fn cut(&mut self, addr: u64, end: u64) {
        let overlapping: Vec<u64> =
            self.regions.range(..end).rev().take_while(|(_, r)| r.end > addr).map(|(start, _)| *start).collect();
        for start in overlapping {
            let Some(old) = self.regions.remove(&start) else { continue };
            if start < addr {
                self.regions.insert(start, Region { end: addr, ..old.clone() });
            }
            if old.end > end {
                self.regions.insert(end, old);
            }
        }
    }

    fn protect(&mut self, addr: u64, end: u64, prot: Prot) {
        let parts: Vec<(u64, Region)> = self
            .regions
            .range(..end)
            .rev()
            .take_while(|(_, r)| r.end > addr)
            .map(|(start, r)| ((*start).max(addr), Region { end: r.end.min(end), prot, ..r.clone() }))
            .collect();
        for (start, part) in parts {
            self.cut(start, part.end);
            self.regions.insert(start, part);
        }
    }

    /// What lies at an address.
    pub fn at(&self, addr: u64) -> Option<&Region> {
        self.regions.range(..=addr).next_back().map(|(_, r)| r).filter(|r| addr < r.end)
    }

    /// The file at an address and the offset in it.
    pub fn file_at(&self, addr: u64) -> Option<(&Rc<PathBuf>, u64)> {
        let region = self.at(addr)?;
        region.path.as_ref().map(|p| (p, addr.wrapping_sub(region.delta)))
    }

    /// Of what kind a fault is, from the mapping it hit. No record says whether it was a write: in a writable private
    /// mapping of a file it counts as one. That is right for relocations, which write without reading before; a
    /// program that reads such a page first is counted with one copy too many.
    pub fn kind(&self, addr: u64) -> FaultKind {
        match self.at(addr) {
            Some(Region { path: Some(_), prot, .. }) if prot.write => FaultKind::Cow,
            Some(Region { path: Some(_), .. }) => FaultKind::Read,
            _ => FaultKind::Zero,
        }
    }

    /// Follows one event of the process.
    pub fn follow(&mut self, event: &Event) {
        match &event.what {
            What::Exec => self.clear(),
            What::Map(m) => self.map(m, false),
            What::Protect(m) => self.map(m, true),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mapping(addr: u64, len: u64, offset: u64, prot: u64, path: Option<&str>) -> Mapping {
        Mapping { addr, len, offset, prot: Prot::from_bits(prot), path: path.map(PathBuf::from) }
    }

    /// A library is mapped as loaders do: all of it first, then segments over it, then protection.
    fn library() -> Space {
        let mut s = Space::default();
        s.map(&mapping(0x10000, 0x9000, 0, 1, Some("/lib/a")), false);
        s.map(&mapping(0x12000, 0x3000, 0x2000, 5, Some("/lib/a")), false);
        s.map(&mapping(0x15000, 0x2000, 0x4000, 3, Some("/lib/a")), false);
        s.map(&mapping(0x17000, 0x2000, 0, 3, None), false);
        s
    }

    #[test]
    fn later_mappings_replace_earlier_ones() {
        let s = library();
        let at = |addr| s.file_at(addr).map(|(p, offset)| (p.to_str().unwrap().to_string(), offset));
        assert_eq!(at(0x10010), Some(("/lib/a".into(), 0x10)));
        assert_eq!(at(0x15010), Some(("/lib/a".into(), 0x4010)));
        assert_eq!(at(0x17010), None);
        assert_eq!(s.at(0x19000), None);
        assert_eq!(s.at(0xffff), None);
    }

    #[test]
    fn kinds_follow_from_the_mapping() {
        let mut s = library();
        assert_eq!(s.kind(0x12345), FaultKind::Read);
        assert_eq!(s.kind(0x15000), FaultKind::Cow);
        assert_eq!(s.kind(0x17000), FaultKind::Zero);
        assert_eq!(s.kind(0x7fff_0000), FaultKind::Zero, "the stack grows without a record");
        s.map(&mapping(0x15000, 0x1000, 0, 1, None), true);
        assert_eq!(s.kind(0x15000), FaultKind::Read);
        assert_eq!(s.kind(0x16000), FaultKind::Cow);
        s.clear();
        assert_eq!(s.kind(0x15000), FaultKind::Zero);
    }

    #[test]
    fn protecting_what_is_not_mapped_maps_nothing() {
        let mut s = Space::default();
        s.map(&mapping(0x1000, 0x1000, 0, 1, None), true);
        assert_eq!(s.at(0x1000), None);
        s.map(&mapping(u64::MAX - 0xfff, u64::MAX, 0, 3, None), false);
        assert!(s.at(u64::MAX - 1).is_some());
    }
}
