//! From the objects of a process to its load work: look-ups, where they end, and sums.

#![deny(clippy::indexing_slicing, clippy::arithmetic_side_effects, clippy::unwrap_used)]

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

use super::binary::Binary;
use super::hash::Hashed;
use super::identity::{Flavour, Identity};
use super::lines::{Lines, Touched};
use super::lookup::{Space, Walk, Wanted};
use super::order::relocation_order;
use super::own::{self, OwnTerm, Process};
use super::search::{Options, Search};
use super::symbols::{Request, Symbols, TypeClass};
use super::{Binding, Costly, Unresolved};

/// Chain entries that may be walked in one closure. The largest real programs need some hundred thousand; a hostile hash
/// table could ask for the square of its size.
const MOST_STEPS: u64 = 1 << 32;

/// Look-ups of one object.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Counted {
    pub(super) lookups: u64,
    pub(super) cached: u64,
    pub(super) probes: u64,
    /// Look-ups that end in the object itself.
    pub(super) own: u64,
    /// Distinct definitions of the object that others find.
    pub(super) provided: u64,
}

/// All look-ups of a process.
#[derive(Default)]
pub(super) struct Lookups {
    /// By index in the search's `loaded`.
    pub(super) by_object: Vec<Counted>,
    pub(super) own: Vec<OwnTerm>,
    pub(super) unresolved: Vec<Unresolved>,
    pub(super) costly: Vec<Costly>,
    pub(super) bindings: Vec<Binding>,
    /// Probes of objects that have no DT_GNU_HASH.
    pub(super) probes_sysv: u64,
    /// Entries of their chains that are looked at.
    pub(super) chain_sysv: u64,
    /// Bytes of the names that are looked up.
    pub(super) name_bytes: u64,
    /// Lines of tables that are read.
    pub(super) touched: Option<Touched>,
    pub(super) gave_up: bool,
}

/// Everything that the walk through the requests carries along.
struct Counter<'a> {
    space: Space<'a>,
    binaries: Vec<Option<&'a Binary>>,
    is_musl: bool,
    got_apart: bool,
    options: &'a Options,
    libc: Option<usize>,
    /// The object whose references to itself are taken for bound.
    own_bound: Option<usize>,
    vdso_ifuncs: u64,
    steps: u64,
    /// Where each STB_GNU_UNIQUE name was bound first.
    unique: HashMap<Vec<u8>, (usize, u32)>,
    heap: BinaryHeap<Reverse<(u64, usize, u32)>>,
    /// Definitions found so far: a bit a symbol, by object.
    found: Vec<Vec<u64>>,
    out: Lookups,
}

/// Looks up everything that the relocations of a process ask for at start.
pub(super) fn count(search: &Search, identity: &Identity, options: &Options) -> Option<Lookups> {
    let binaries: Vec<Option<&Binary>> =
        search.loaded.iter().map(|o| o.file.as_ref().and_then(|f| f.binary(&o.path).ok())).collect();
    let objects: Vec<Option<&Symbols>> = binaries.iter().map(|b| b.map(Binary::symbols)).collect();
    if objects.iter().flatten().any(|s| !s.is_modelled) {
        return None;
    }
    let machine = binaries.iter().flatten().next().map_or(0, |b| b.target.machine);
    let is_libc = |i: &usize| {
        let binary = binaries.get(*i).copied().flatten();
        binary.is_some_and(|b| b.soname.as_deref().is_some_and(|s| s.starts_with(b"libc.so.6")))
    };
    let libc = search.scope.iter().copied().find(is_libc);
    let mut counter = Counter {
        space: Space {
            objects,
            global: search.scope.clone(),
            executable: 0,
            lines: options.count_lines.then(|| Lines::new(search.loaded.len())),
            gnu_hash: options.assume.gnu_hash,
        },
        own_bound: search.loaded.iter().position(|o| options.assume.own_bound.as_ref() == Some(&o.path)),
        binaries,
        is_musl: identity.flavour == Flavour::Musl,
        got_apart: identity.keeps_got_apart(machine),
        options,
        libc,
        vdso_ifuncs: 0,
        steps: 0,
        unique: HashMap::new(),
        heap: BinaryHeap::new(),
        found: vec![Vec::new(); search.loaded.len()],
        out: Lookups { by_object: vec![Counted::default(); search.loaded.len()], ..Lookups::default() },
    };
    let loader = search.interpreter.unwrap_or(usize::MAX);
    for index in in_order(search, identity, libc, loader) {
        counter.object(index, index == loader);
    }
    let mut out = std::mem::take(&mut counter.out);
    out.touched = counter.space.lines.take().map(|l| l.touched());
    let process = Process {
        space: &counter.space,
        identity,
        loader,
        loader_in_scope: search.scope.contains(&loader),
        libc,
        vdso_ifuncs: counter.vdso_ifuncs,
        bind_now: options.bind_now,
        got_apart: counter.got_apart,
    };
    out.own = if counter.is_musl { own::musl(&process) } else { own::glibc(&process) };
    out.costly = counter.costly();
    Some(out)
}

/// The objects of the scope as they are relocated: glibc's own second relocation comes last.
fn in_order(search: &Search, identity: &Identity, libc: Option<usize>, loader: usize) -> Vec<usize> {
    if identity.flavour == Flavour::Musl {
        return search.scope.clone();
    }
    let mut order = relocation_order(search);
    if let Some(libc) = libc.filter(|_| identity.version >= (2, 39)) {
        order.retain(|i| *i != libc);
        order.insert(0, libc);
    }
    if order.contains(&loader) {
        order.retain(|i| *i != loader);
        order.push(loader);
    }
    order
}

impl<'a> Counter<'a> {
    fn symbols(&self, index: usize) -> Option<&'a Symbols> {
        self.space.objects.get(index).copied().flatten()
    }

    /// The look-ups of one object. ld.so relocates itself again with all binding done.
    fn object(&mut self, index: usize, is_loader: bool) {
        let Some(symbols) = self.symbols(index) else { return };
        let is_lazy = self.options.assume.lazy && index == 0;
        let now = self.is_musl || is_loader || (symbols.bind_now && !is_lazy) || self.options.bind_now;
        let requests = symbols.requests(self.got_apart);
        let eager = &requests.eager;
        let plt = requests.plt(symbols, now);
        let first = self.binaries.get(index).copied().flatten().filter(|b| b.symbolic && index != 0 && !self.is_musl);
        let first = first.map(|_| index);
        let mut counted = Counted::default();
        for request in eager.list.iter().chain(&plt.list) {
            if self.is_spared(index, symbols, request, first) {
                continue;
            }
            self.reads_request(index, symbols, request);
            let mut walk = self.walk(symbols, request, first);
            if walk.is_unique {
                walk.found = self.first_binding(index, symbols, request, walk.found);
            }
            let times = if self.is_musl { u64::from(request.uses) } else { 1 };
            counted.lookups = counted.lookups.saturating_add(times);
            counted.probes = counted.probes.saturating_add(walk.probes.saturating_mul(times));
            self.out.probes_sysv = self.out.probes_sysv.saturating_add(walk.sysv.saturating_mul(times));
            let bytes = u64::from(request.name.1).saturating_mul(times);
            self.out.name_bytes = self.out.name_bytes.saturating_add(bytes);
            self.out.chain_sysv = self.out.chain_sysv.saturating_add(walk.sysv_chain.saturating_mul(times));
            if walk.found.is_some_and(|(owner, _)| owner == index) {
                counted.own = counted.own.saturating_add(times);
            }
            self.note_provided(index, &walk);
            self.note(index, symbols, request, &walk);
        }
        if !self.is_musl {
            counted.cached = eager.cached.saturating_add(plt.cached);
        }
        if let Some(slot) = self.out.by_object.get_mut(index) {
            *slot = Counted { provided: slot.provided, ..counted };
        }
    }

    /// Under what is assumed this look-up would not be made.
    fn is_spared(&self, index: usize, symbols: &Symbols, request: &Request, first: Option<usize>) -> bool {
        let (own, without) = (self.own_bound == Some(index), self.options.assume.without.is_some());
        if !own && !without {
            return false;
        }
        let name = Hashed::new(symbols.name_of(request), request.gnu);
        let wanted = Wanted { name, version: symbols.version_of(request), class: request.class };
        match self.space.end_of(wanted, first) {
            Some(end) => own && end == index,
            None => without && !request.weak,
        }
    }

    /// The reference's own symbol, name and version are read first.
    fn reads_request(&self, index: usize, symbols: &Symbols, request: &Request) {
        let reader = self.space.reader(index);
        symbols.reads_symbol(reader, request.symbol);
        symbols.reads_name(reader, request.name.0, request.name.1 as usize);
        symbols.reads_versym(reader, request.symbol);
    }

    fn walk(&mut self, symbols: &Symbols, request: &Request, first: Option<usize>) -> Walk {
        if self.steps > MOST_STEPS {
            self.out.gave_up = true;
            return Walk::default();
        }
        let name = Hashed::new(symbols.name_of(request), request.gnu);
        if self.is_musl {
            return self.space.musl(Wanted { name, version: None, class: request.class });
        }
        let wanted = Wanted { name, version: symbols.version_of(request), class: request.class };
        let mut walk = self.space.glibc(wanted, first);
        // A protected reference to data: once more as for a PLT slot, to see whether another definition comes first.
        if request.protected && request.class != TypeClass::Plt && walk.found.is_some() {
            let again = self.space.glibc(Wanted { class: TypeClass::Plt, ..wanted }, first);
            walk.add_cost(&again);
        }
        self.steps = self.steps.saturating_add(walk.chain);
        walk
    }

    /// `do_lookup_unique`: the first definition of a name serves all later references, whatever their version. A copy
    /// becomes the definition, and is still made from what was found.
    fn first_binding(
        &mut self,
        index: usize,
        symbols: &Symbols,
        request: &Request,
        found: Option<(usize, u32)>,
    ) -> Option<(usize, u32)> {
        let found = found?;
        let is_copy = request.class == TypeClass::Copy;
        let own = if is_copy { (index, request.symbol) } else { found };
        let first = *self.unique.entry(symbols.name_of(request).to_vec()).or_insert(own);
        Some(if is_copy { found } else { first })
    }

    /// Counts a definition the first time that another object finds it. (The symbol is one of its table's, so the bits are
    /// fewer than the file's bytes.)
    fn note_provided(&mut self, index: usize, walk: &Walk) {
        let Some((owner, symbol)) = walk.found.filter(|(owner, _)| *owner != index) else { return };
        let Some(bits) = self.found.get_mut(owner) else { return };
        let word = symbol as usize / 64;
        if bits.len() <= word {
            bits.resize(word.saturating_add(1), 0);
        }
        let mask = 1u64 << (symbol % 64);
        if let Some(word) = bits.get_mut(word).filter(|w| **w & mask == 0) {
            *word |= mask;
            if let Some(counted) = self.out.by_object.get_mut(owner) {
                counted.provided = counted.provided.saturating_add(1);
            }
        }
    }

    /// Keeps what reports want of a look-up.
    fn note(&mut self, index: usize, symbols: &Symbols, request: &Request, walk: &Walk) {
        match walk.found {
            Some((owner, symbol)) if Some(owner) == self.libc => {
                self.note_vdso(owner, symbol, symbols.name_of(request), request.uses);
            }
            Some(_) => {}
            None if !request.weak => self.out.unresolved.push(Unresolved {
                object: index,
                symbol: symbols.name_of(request).to_vec(),
                version: symbols.version_of(request).map(|v| v.name.clone()),
            }),
            None => {}
        }
        if self.options.bindings {
            self.out.bindings.push(Binding {
                object: index,
                symbol: symbols.name_of(request).to_vec(),
                version: symbols.version_of(request).map(|v| v.name.clone()),
                bound_to: walk.found.map(|(owner, _)| owner),
                probes: walk.probes,
                relocations: request.uses,
            });
        }
        if self.options.costly > 0 {
            self.heap.push(Reverse((cost(walk), index, request.symbol)));
            if self.heap.len() > self.options.costly {
                self.heap.pop();
            }
        }
    }

    fn note_vdso(&mut self, libc: usize, symbol: u32, name: &[u8], uses: u32) {
        if self.symbols(libc).is_some_and(|s| own::asks_vdso(s, symbol, name)) {
            self.vdso_ifuncs = self.vdso_ifuncs.saturating_add(u64::from(uses));
        }
    }

    /// The most expensive look-ups, dearest first.
    fn costly(&mut self) -> Vec<Costly> {
        let kept = std::mem::take(&mut self.heap).into_sorted_vec();
        let mut out = Vec::new();
        for Reverse((_, index, symbol)) in kept {
            let Some(symbols) = self.symbols(index) else { continue };
            let set = symbols.requests(self.got_apart);
            let mut requests = set.eager.list.iter().chain(&set.plt(symbols, true).list);
            let Some(request) = requests.find(|r| r.symbol == symbol) else { continue };
            let first = self.binaries.get(index).copied().flatten().filter(|b| b.symbolic && index != 0);
            let walk = self.walk(symbols, request, first.map(|_| index));
            out.push(Costly {
                object: index,
                symbol: symbols.name_of(request).to_vec(),
                version: symbols.version_of(request).map(|v| v.name.clone()),
                bound_to: walk.found.map(|(owner, _)| owner),
                probes: walk.probes,
                false_hits: walk.false_hits,
                chain: walk.chain,
            });
        }
        out
    }
}

/// Cost of a look-up in the units of one probe that the bloom filter ends: an object whose filter passes costs some
/// memory accesses more, each chain entry one.
fn cost(walk: &Walk) -> u64 {
    walk.probes.saturating_add(walk.false_hits.saturating_mul(4)).saturating_add(walk.chain)
}
