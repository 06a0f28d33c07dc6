//! Where a look-up ends: the walk through the objects of a scope, by glibc's rules and by musl's.
//!
//! Sources: `do_lookup_x` and `check_match` in `elf/dl-lookup.c` of glibc 2.36; `find_sym2` in `ldso/dynlink.c` of
//! musl 1.2.3.

#![deny(clippy::indexing_slicing, clippy::arithmetic_side_effects, clippy::unwrap_used)]

use object::elf;

use super::hash::{Hashed, Steps};
use super::lines::{Lines, Reader};
use super::symbols::{Symbol, Symbols, TypeClass};
use super::versions::Version;

/// STT_NOTYPE, OBJECT, FUNC, COMMON, TLS; glibc adds GNU_IFUNC.
const DATA_AND_CODE: u32 = 1 << 0 | 1 << 1 | 1 << 2 | 1 << 5 | 1 << 6;
const IFUNC: u32 = 1 << 10;

/// What is looked for.
#[derive(Clone, Copy)]
pub struct Wanted<'a> {
    /// Its name.
    pub name: Hashed<'a>,
    /// Its version.
    pub version: Option<&'a Version>,
    /// Which definitions count.
    pub class: TypeClass,
}

/// How a look-up went.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Walk {
    /// Objects that were asked.
    pub probes: u64,
    /// Of these, objects that have no DT_GNU_HASH.
    pub sysv: u64,
    /// Entries of those objects' chains: each costs a comparison of names.
    pub sysv_chain: u64,
    /// Objects whose bloom filter let the name through without having it.
    pub false_hits: u64,
    /// Chain entries looked at.
    pub chain: u64,
    /// The object that has it, and the symbol there.
    pub found: Option<(usize, u32)>,
    /// It is STB_GNU_UNIQUE: the first definition of that name that was bound to serves all.
    pub is_unique: bool,
}

impl Walk {
    /// Counts an object that was asked by its older table, where it has no other; `before`: chain entries until then.
    fn add_sysv(&mut self, object: &Symbols, before: u64) {
        if object.has_only_sysv_hash() {
            self.sysv = self.sysv.saturating_add(1);
            self.sysv_chain = self.sysv_chain.saturating_add(self.chain.saturating_sub(before));
        }
    }

    /// Adds another walk's cost.
    pub fn add_cost(&mut self, other: &Walk) {
        self.probes = self.probes.saturating_add(other.probes);
        self.sysv = self.sysv.saturating_add(other.sysv);
        self.sysv_chain = self.sysv_chain.saturating_add(other.sysv_chain);
        self.false_hits = self.false_hits.saturating_add(other.false_hits);
        self.chain = self.chain.saturating_add(other.chain);
    }
}

/// The objects of a process, as look-ups see them.
pub struct Space<'a> {
    /// Every object; `None` for one that is not there.
    pub objects: Vec<Option<&'a Symbols>>,
    /// The global scope, in order.
    pub global: Vec<usize>,
    /// Which of them is the executable, that copies pass over.
    pub executable: usize,
    /// What is read, if that is to be known.
    pub(super) lines: Option<Lines>,
    /// As if every object had DT_GNU_HASH, whose filter lets nothing through that the object does not define.
    pub(super) gnu_hash: bool,
}

impl Space<'_> {
    /// Notes reads of an object.
    pub(super) fn reader(&self, object: usize) -> Reader<'_> {
        Reader::of(self.lines.as_ref(), object)
    }

    /// glibc: through `first` alone (DT_SYMBOLIC), then through the global scope.
    pub fn glibc(&self, mut wanted: Wanted<'_>, first: Option<usize>) -> Walk {
        let mut walk = Walk::default();
        for index in first.into_iter().chain(self.global.iter().copied()) {
            if wanted.class == TypeClass::Copy && index == self.executable {
                continue;
            }
            let Some(Some(object)) = self.objects.get(index) else { continue };
            walk.probes = walk.probes.saturating_add(1);
            if self.is_passed_by(object, &mut wanted) {
                object.reads_filter(self.reader(index));
                continue;
            }
            let chain = walk.chain;
            let found = glibc_in(object, &mut wanted, &mut walk, self.reader(index));
            walk.add_sysv(object, chain);
            if let Some(symbol) = found {
                walk.found = Some((index, symbol));
                break;
            }
        }
        walk
    }

    /// Under `gnu_hash`: it has only the other table, and not the symbol.
    #[inline]
    fn is_passed_by(&self, object: &Symbols, wanted: &mut Wanted<'_>) -> bool {
        let is_asked = self.gnu_hash && object.has_only_sysv_hash();
        is_asked && glibc_in(object, wanted, &mut Walk::default(), Reader::default()).is_none()
    }

    /// The object in which glibc's look-up ends; nothing is counted or noted.
    pub(super) fn end_of(&self, wanted: Wanted<'_>, first: Option<usize>) -> Option<usize> {
        first.into_iter().chain(self.global.iter().copied()).find(|i| {
            let is_passed_over = wanted.class == TypeClass::Copy && *i == self.executable;
            let symbols = self.objects.get(*i).copied().flatten().filter(|_| !is_passed_over);
            let in_one = |s| glibc_in(s, &mut wanted.clone(), &mut Walk::default(), Reader::default());
            symbols.and_then(in_one).is_some()
        })
    }

    /// musl: through all objects in order of loading; copies pass over the executable.
    pub fn musl(&self, mut wanted: Wanted<'_>) -> Walk {
        let mut walk = Walk::default();
        for index in self.global.iter().copied() {
            if wanted.class == TypeClass::Copy && index == self.executable {
                continue;
            }
            let Some(Some(object)) = self.objects.get(index) else { continue };
            walk.probes = walk.probes.saturating_add(1);
            let chain = walk.chain;
            let found = musl_in(object, &mut wanted, &mut walk, self.reader(index));
            walk.add_sysv(object, chain);
            if let Some(symbol) = found {
                walk.found = Some((index, symbol));
                break;
            }
        }
        walk
    }
}

fn glibc_in(object: &Symbols, wanted: &mut Wanted<'_>, walk: &mut Walk, reader: Reader<'_>) -> Option<u32> {
    let (class, version, name) = (wanted.class, wanted.version, wanted.name.name);
    let mut steps = Steps { reader, ..Steps::default() };
    let mut found = None;
    // A look-up without version takes the only versioned symbol there is, where there is one.
    let (mut versioned, mut versioned_count) = (None, 0u32);
    object.candidates(&mut wanted.name, &mut steps, |index| {
        let Some(symbol) = object.symbol(index) else { return false };
        object.reads_symbol(reader, index);
        if !is_definition(symbol, class) {
            return false;
        }
        object.reads_name(reader, symbol.name, name.len());
        if !object.name_is(symbol.name, name) {
            return false;
        }
        object.reads_versym(reader, index);
        match match_version(object, index, version) {
            VersionMatch::Yes => found = Some((index, symbol)),
            VersionMatch::Other if versioned_count == 0 => (versioned, versioned_count) = (Some((index, symbol)), 1),
            VersionMatch::Other => versioned_count = versioned_count.saturating_add(1),
            VersionMatch::No => {}
        }
        found.is_some()
    });
    walk.chain = walk.chain.saturating_add(steps.chain);
    if found.is_none() && versioned_count == 1 {
        found = versioned;
    }
    let binds = [elf::STB_GLOBAL.0, elf::STB_WEAK.0, elf::STB_GNU_UNIQUE.0];
    let found = found.filter(|(_, s)| !s.is_hidden() && binds.contains(&s.binding()));
    walk.is_unique = found.is_some_and(|(_, s)| s.binding() == elf::STB_GNU_UNIQUE.0);
    let found = found.map(|(index, _)| index);
    if found.is_none() && steps.passed_bloom {
        walk.false_hits = walk.false_hits.saturating_add(1);
    }
    found
}

/// The tests of `check_match` before the name.
fn is_definition(symbol: Symbol, class: TypeClass) -> bool {
    let kind = symbol.kind();
    if symbol.value == 0 && symbol.section != elf::SHN_ABS.0 && kind != elf::STT_TLS.0 {
        return false;
    }
    if class == TypeClass::Plt && symbol.section == elf::SHN_UNDEF.0 {
        return false;
    }
    1u32.wrapping_shl(u32::from(kind)) & (DATA_AND_CODE | IFUNC) != 0
}

enum VersionMatch {
    Yes,
    /// No version was asked for, and this is a default version that is not the oldest.
    Other,
    No,
}

fn match_version(object: &Symbols, index: u32, wanted: Option<&Version>) -> VersionMatch {
    let Some(versym) = object.versym(index) else { return VersionMatch::Yes };
    let hidden = versym & 0x8000 != 0;
    let Some(wanted) = wanted else {
        return match (versym & 0x7fff >= 3, hidden) {
            (false, _) => VersionMatch::Yes,
            (true, false) => VersionMatch::Other,
            (true, true) => VersionMatch::No,
        };
    };
    let none = Version::default();
    let has = object.version(versym & 0x7fff).unwrap_or(&none);
    let same = has.hash == wanted.hash && has.name == wanted.name;
    if !same && (wanted.hidden || has.hash != 0 || hidden) { VersionMatch::No } else { VersionMatch::Yes }
}

fn musl_in(object: &Symbols, wanted: &mut Wanted<'_>, walk: &mut Walk, reader: Reader<'_>) -> Option<u32> {
    let (class, name) = (wanted.class, wanted.name.name);
    let mut steps = Steps { reader, ..Steps::default() };
    let mut found = None;
    object.candidates(&mut wanted.name, &mut steps, |index| {
        let Some(symbol) = object.symbol(index) else { return false };
        object.reads_versym(reader, index);
        object.reads_symbol(reader, index);
        object.reads_name(reader, symbol.name, name.len());
        // Versions only hide.
        if object.versym(index).is_some_and(|v| v & 0x8000 != 0) || !object.name_is(symbol.name, name) {
            return false;
        }
        found = Some((index, symbol));
        true
    });
    walk.chain = walk.chain.saturating_add(steps.chain);
    let accepted = found.filter(|(_, s)| is_musl_definition(*s, class)).map(|(index, _)| index);
    if accepted.is_none() && steps.passed_bloom {
        walk.false_hits = walk.false_hits.saturating_add(1);
    }
    accepted
}

/// musl asks these after the name, and goes on to the next object where one fails.
fn is_musl_definition(symbol: Symbol, class: TypeClass) -> bool {
    let kind = symbol.kind();
    let is_tls = kind == elf::STT_TLS.0;
    // `need_def` is set for PLT slots alone; TLS references are refused for an undefined symbol by their kind.
    if symbol.section == elf::SHN_UNDEF.0 && (class == TypeClass::Plt || is_tls) {
        return false;
    }
    if symbol.value == 0 && !is_tls {
        return false;
    }
    let binds = [elf::STB_GLOBAL.0, elf::STB_WEAK.0, elf::STB_GNU_UNIQUE.0];
    1u32.wrapping_shl(u32::from(kind)) & DATA_AND_CODE != 0 && binds.contains(&symbol.binding())
}
