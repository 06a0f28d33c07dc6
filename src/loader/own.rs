//! What a loader looks up for itself: named terms beside the look-ups of relocations, each computed from the files.
//!
//! | term | rule | source |
//! |---|---|---|
//! | vDSO names | one for each `__vdso_…` or `__kernel_…` string in ld.so | `setup_vdso_pointers`, `dl-vdso-setup.h` |
//! | malloc family | calloc, free, malloc, realloc in the global scope, from glibc 2.32 on, where ld.so is in the global scope | `__rtld_malloc_init_real` |
//! | early libc init | the slots that `__libc_early_init` calls through before lazy binding is over: `__tunable_get_val` | `csu/libc-start.c`, `nptl/pthread_mutex_conf.c` |
//! | vDSO functions behind libc's IFUNCs | one for each relocation bound to libc's `time` or `gettimeofday` where these are IFUNCs that ask the vDSO | `sysdeps/unix/sysv/linux/time.c`, `gettimeofday.c` |
//! | _r_debug | one for each `_r_debug` string in ld.so beside its own export (glibc 2.42, and older ones that distributions patch), where ld.so is in the global scope | `_dl_debug_post_relocate` in `elf/dl-debug.c` |
//! | musl's own | its relocations against itself, `__dls2b`, `__dls3`, malloc and aligned_alloc | `__dls2`, `__dls3` in `ldso/dynlink.c` |
//!
//! ld.so's second relocation of itself (where a library needs it) stands with the object, not here.

#![deny(clippy::indexing_slicing, clippy::arithmetic_side_effects, clippy::unwrap_used)]

use object::elf;

use super::hash::{Hashed, gnu};
use super::identity::Identity;
use super::lookup::{Space, Walk, Wanted};
use super::symbols::{Symbols, TypeClass};
use crate::elf::image::Image;

/// Look-ups that no relocation of the closure asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OwnTerm {
    /// Short name.
    pub name: &'static str,
    /// How many.
    pub lookups: u64,
    /// Objects asked.
    pub probes: u64,
}

/// What the terms are computed from.
pub(super) struct Process<'a> {
    pub(super) space: &'a Space<'a>,
    pub(super) identity: &'a Identity,
    /// ld.so, and whether it is in the global scope.
    pub(super) loader: usize,
    pub(super) loader_in_scope: bool,
    /// libc.so.6.
    pub(super) libc: Option<usize>,
    /// Relocations bound to an IFUNC of libc that asks the vDSO.
    pub(super) vdso_ifuncs: u64,
    /// LD_BIND_NOW.
    pub(super) bind_now: bool,
    /// How the loader classes GLOB_DAT.
    pub(super) got_apart: bool,
}

/// glibc's terms, without those that are zero.
pub(super) fn glibc(process: &Process<'_>) -> Vec<OwnTerm> {
    let names = process.identity.vdso_names;
    let terms = [
        OwnTerm { name: "vDSO names", lookups: names, probes: names },
        malloc_family(process),
        early_init(process),
        OwnTerm {
            name: "vDSO functions behind libc's IFUNCs",
            lookups: process.vdso_ifuncs,
            probes: process.vdso_ifuncs,
        },
        r_debug(process),
    ];
    terms.into_iter().filter(|t| t.lookups != 0).collect()
}

impl<'a> Process<'a> {
    fn symbols(&self, index: usize) -> Option<&'a Symbols> {
        self.space.objects.get(index).copied().flatten()
    }
}

fn malloc_family(process: &Process<'_>) -> OwnTerm {
    let mut term = OwnTerm { name: "malloc family", lookups: 0, probes: 0 };
    let without_libc = process.libc.is_none() && process.identity.version >= (2, 41);
    if !process.identity.has_early_init || !process.loader_in_scope || without_libc {
        return term;
    }
    // The oldest version of libc on this machine, which is the first that it defines.
    let version = process.libc.and_then(|l| process.symbols(l)).and_then(|s| s.version(2)).filter(|v| v.hash != 0);
    for name in [&b"calloc"[..], b"free", b"malloc", b"realloc"] {
        let wanted = Wanted { name: Hashed::new(name, gnu(name)), version, class: TypeClass::Any };
        term.lookups = term.lookups.saturating_add(1);
        term.probes = term.probes.saturating_add(process.space.glibc(wanted, None).probes);
    }
    term
}

fn r_debug(process: &Process<'_>) -> OwnTerm {
    let lookups = if process.loader_in_scope { process.identity.r_debug_strings } else { 0 };
    let name = b"_r_debug";
    let wanted = Wanted { name: Hashed::new(name, gnu(name)), version: None, class: TypeClass::Any };
    let probes = if lookups == 0 { 0 } else { process.space.glibc(wanted, None).probes.saturating_mul(lookups) };
    OwnTerm { name: "_r_debug", lookups, probes }
}

fn early_init(process: &Process<'_>) -> OwnTerm {
    let mut term = OwnTerm { name: "early libc init", lookups: 0, probes: 0 };
    let Some(libc) = process.libc.and_then(|l| process.symbols(l)) else { return term };
    if !process.identity.has_early_init || process.bind_now || libc.bind_now {
        return term;
    }
    let plt = libc.requests(process.got_apart).plt(libc, true);
    let calls = plt.list.iter().filter(|r| libc.name_of(r) == b"__tunable_get_val");
    for request in calls {
        let name = Hashed::new(libc.name_of(request), request.gnu);
        let wanted = Wanted { name, version: libc.version_of(request), class: TypeClass::Plt };
        term.lookups = term.lookups.saturating_add(1);
        term.probes = term.probes.saturating_add(process.space.glibc(wanted, None).probes);
    }
    term
}

/// True where a definition is an IFUNC of libc whose resolver looks a name up in the vDSO.
pub(super) fn asks_vdso(libc: &Symbols, symbol: u32, name: &[u8]) -> bool {
    let is_ifunc = || libc.symbol(symbol).is_some_and(|s| s.kind() == elf::STT_GNU_IFUNC.0);
    match name {
        b"time" => is_ifunc() && libc.vdso_strings().time,
        b"gettimeofday" | b"__gettimeofday" => is_ifunc() && libc.vdso_strings().gettimeofday,
        _ => false,
    }
}

/// Which names of vDSO functions stand in libc.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct VdsoStrings {
    time: bool,
    gettimeofday: bool,
}

impl VdsoStrings {
    /// Reads libc's constants, which stand apart from its code or, in older files, with it.
    pub(super) fn of(libc: &Image<'_>) -> VdsoStrings {
        let mut found = VdsoStrings::default();
        for executable in [false, true] {
            let constants = libc.loads().iter().filter(|s| !s.is_writable() && s.is_executable() == executable);
            for segment in constants.filter_map(|s| libc.file_range(s.offset, s.filesz)) {
                for text in segment.split(|b| *b == 0) {
                    let is_name = text.starts_with(b"__vdso_") || text.starts_with(b"__kernel_");
                    found.time |= is_name && text.ends_with(b"_time");
                    found.gettimeofday |= is_name && text.ends_with(b"_gettimeofday");
                }
            }
            if found.time || found.gettimeofday {
                break;
            }
        }
        found
    }
}

/// musl's terms: what it looks up in itself before, and in the whole scope after the relocations.
pub(super) fn musl(process: &Process<'_>) -> Vec<OwnTerm> {
    let Some(itself) = process.symbols(process.loader) else { return Vec::new() };
    let set = itself.requests(process.got_apart);
    let alone =
        set.plt(itself, true).list.iter().chain(&set.eager.list).fold(0u64, |n, r| n.saturating_add(u64::from(r.uses)));
    let alone = alone.saturating_add(2);
    let mut last = OwnTerm { name: "malloc and aligned_alloc", lookups: 0, probes: 0 };
    for name in [&b"malloc"[..], b"aligned_alloc"] {
        let wanted = Wanted { name: Hashed::new(name, gnu(name)), version: None, class: TypeClass::Plt };
        let walk: Walk = process.space.musl(wanted);
        last.lookups = last.lookups.saturating_add(1);
        last.probes = last.probes.saturating_add(walk.probes);
    }
    vec![OwnTerm { name: "musl relocating itself", lookups: alone, probes: alone }, last]
}
