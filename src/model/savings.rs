//! What link settings would save, from counts and costs: each with its interval, the flag, and its price.

use super::design::Family;
use super::fit::{FamilyModel, Span};
use super::predict::{DEVIATION, Prediction, difference};
use super::store::Model;
use super::work::{T, Work};
use crate::elf::{Holder, Holders};
use crate::facts::LinkFacts;
use crate::loader::host::Host;
use crate::loader::{Assume, Closure, Object};
use crate::order;
use crate::units::{bytes, count, counted, time};

/// One setting and what it would change.
#[derive(Debug, Clone, PartialEq)]
pub struct Saving {
    /// The sentence.
    pub text: String,
    /// Nanoseconds saved, end of the process included; `None` for what people try and what would not help.
    pub saving_ns: Option<f64>,
}

/// Savings below this share of the predicted start, or below 5 µs, are noise: nothing is said.
const WORTH_SHARE: f64 = 0.01;
const WORTH_NS: f64 = 5_000.0;
/// The smallest page.
const PAGE: u64 = 4096;
/// Libraries that are worth a sentence, at most.
const DEAREST: usize = 3;
/// Below so many look-ups or objects asked, another way to make them saves nothing to speak of.
const FEW: u64 = 100;
/// Relative relocations from which on people think of packing them.
const MANY_RELATIVE: u64 = 500;

/// From here on CPUID leaves the virtual machine: on bare metal it takes some tens of nanoseconds.
pub const CPUID_TRAPS_NS: f64 = 500.0;

/// The closure counted anew under other settings; `None` where it cannot be.
pub type Recount<'a> = &'a dyn Fn(Assume) -> Option<Closure>;

struct Maker<'a> {
    recount: Recount<'a>,
    model: &'a Model,
    fitted: &'a FamilyModel,
    closure: &'a Closure,
    prediction: &'a Prediction,
    out: Vec<Saving>,
}

/// Settings worth a word, largest saving first.
pub fn savings(
    model: &Model,
    closure: &Closure,
    program: &LinkFacts,
    prediction: &Prediction,
    holders: Option<&Holders>,
    recount: Recount<'_>,
) -> Vec<Saving> {
    let Some(fitted) = model.family(prediction.family).filter(|_| closure.loader.is_some()) else { return Vec::new() };
    let mut maker = Maker { recount, model, fitted, closure, prediction, out: Vec::new() };
    maker.static_link(program);
    maker.libraries();
    maker.packing(program);
    maker.binding(program);
    maker.searching();
    maker.own_symbols();
    maker.hashing();
    maker.pointers(program, holders);
    maker.musl();
    maker.out.extend(program.elf.as_ref().and_then(|e| alignment(e.page_align)));
    order::by(&mut maker.out, |a, b| b.saving_ns.unwrap_or(0.0).total_cmp(&a.saving_ns.unwrap_or(0.0)));
    maker.out
}

impl Maker<'_> {
    /// What a change of work saves, until the entry point and at the end together, and the half-width of its interval.
    fn saved(&self, change: impl Fn(&mut Work)) -> (f64, f64) {
        let mut after = self.prediction.work;
        change(&mut after);
        self.saved_by(&after)
    }

    fn saved_by(&self, after: &Work) -> (f64, f64) {
        let before = &self.prediction.work;
        let (entry, entry_half) = difference(self.fitted, before, after, Span::Entry);
        let (end, end_half) = difference(self.fitted, before, after, Span::End);
        (-(entry + end), entry_half.hypot(end_half))
    }

    fn is_worth(&self, saving: f64, half: f64) -> bool {
        saving > half && saving > WORTH_NS.max(WORTH_SHARE * self.prediction.value_ns)
    }

    fn say(&mut self, saving: f64, half: f64, text: &str) {
        self.say_so(saving, half, text, "would save");
    }

    fn say_so(&mut self, saving: f64, half: f64, text: &str, verb: &str) {
        let text = format!("{text} {verb} {} (± {})", time(saving), time(half));
        self.out.push(Saving { text, saving_ns: Some(saving) });
    }

    /// All but exec; glibc's own start, CPUID in it, moves behind the entry point and stays. With -static-pie, so does the
    /// program's own relocation.
    fn static_link(&mut self, program: &LinkFacts) {
        let libraries = self.closure.objects.iter().filter_map(|o| self.model.library(&o.path));
        let beyond: f64 = libraries.map(|l| l.init_ns + l.end_ns).sum();
        let (saving, half) = self.saved(|w| {
            let loader = w.get(T::Loader);
            *w = Work { flavour: w.flavour, ..Work::new() };
            w.add(T::Segment, 3.0);
            w.add(T::Loader, loader);
        });
        let saving = saving + beyond;
        if self.is_worth(saving, half) {
            let own = self.fitted.entry.unit_ns[T::Loader as usize];
            let (kept, _) = self.saved(|w| take_pointers(w, program));
            let kept = match kept > WORTH_NS {
                true => format!(" -static-pie keeps {} of it, its own relocation;", time(kept)),
                false => String::new(),
            };
            let text = format!(
                "a static link at a fixed address (-static -no-pie), beside the {} of loader and C library that glibc's \
                 start-up mostly keeps (musl's does not);{kept} price: libraries are updated by linking anew, no dlopen;",
                time(own)
            );
            // Some of what the loader does of itself goes too; how much, only a static program of that C library shows.
            self.say_so(saving, half, &text, "would save at least");
        }
    }

    /// The dearest libraries, each with what would go if nobody asked for it: what only it needs too.
    fn libraries(&mut self) {
        let own = Work::by_object(self.closure, &Host);
        let mut dear: Vec<(f64, usize)> = Vec::new();
        for (index, work) in own.iter().enumerate().skip(1).filter(|(_, w)| w.get(T::Object) > 0.0) {
            let Some(object) = self.closure.objects.get(index).filter(|o| !o.name.starts_with(b"libc.so")) else {
                continue;
            };
            let beyond = self.model.library(&object.path).map_or(0.0, |l| l.init_ns + l.end_ns);
            dear.push((self.fitted.entry.time(&work.counts) + beyond, index));
        }
        order::by(&mut dear, |a, b| b.0.total_cmp(&a.0));
        for (_, index) in dear.into_iter().take(DEAREST) {
            self.library(index);
        }
    }

    fn library(&mut self, index: usize) {
        let Some(object) = self.closure.objects.get(index) else { return };
        let assume = Assume { without: Some(object.name.clone()), ..Assume::default() };
        let Some(left) = (self.recount)(assume) else { return };
        let is_gone = |o: &&Object| !left.objects.iter().any(|l| l.path == o.path);
        let gone: Vec<&Object> = self.closure.objects.iter().filter(is_gone).collect();
        let beyond: f64 = gone.iter().filter_map(|o| self.model.library(&o.path)).map(|l| l.init_ns + l.end_ns).sum();
        let (saving, half) = self.saved_by(&Work::of(&left, &Host));
        // Asked for under another name as well: it stays.
        if gone.is_empty() || !self.is_worth(saving + beyond, half) {
            return;
        }
        let name = String::from_utf8_lossy(&object.name).into_owned();
        let by = object.needed_by.and_then(|i| self.closure.objects.get(i));
        let by = by.map_or_else(String::new, |o| format!("needed by {}", o.path.display()));
        let symbols = object.provided.filter(|n| *n > 0);
        let used = symbols.map_or_else(String::new, |n| format!(" for {} at start", counted(n, "symbol")));
        let others = gone.len().saturating_sub(1) as u64;
        let others = if others == 0 { String::new() } else { format!(", with {} that only it needs", count(others)) };
        self.say(saving + beyond, half, &format!("starting without {name} ({by}{used}{others})"));
    }

    /// RELR shrinks the table; it writes the same pages.
    fn packing(&mut self, program: &LinkFacts) {
        let relative = program.relocations.relative;
        if relative < MANY_RELATIVE {
            return;
        }
        let n = relative as f64;
        let (saving, half) = self.saved(|w| {
            w.take_relative(relative);
            w.add(T::Relr, n);
        });
        let records = counted(relative, "relative relocation");
        let pages = counted(program.pages_written, "page");
        if self.is_worth(saving, half) {
            let text = format!(
                "packing the program's {records} (-z pack-relative-relocs; needs glibc 2.36 or musl 1.2.4; the {pages} \
                 written stay)"
            );
            self.say(saving, half, &text);
        } else {
            let text = format!(
                "packing the program's {records} (RELR) would not reduce the {pages} written, and save {} at most",
                time(saving.max(0.0) + half)
            );
            self.out.push(Saving { text, saving_ns: None });
        }
    }

    /// Slots of the program that are bound at start could be bound when first called.
    fn binding(&mut self, program: &LinkFacts) {
        let slots = program.relocations.jump_slot;
        let is_musl = self.closure.loader.as_ref().is_some_and(|l| l.flavour == crate::loader::identity::Flavour::Musl);
        if !program.bind_now || slots == 0 || is_musl {
            return;
        }
        let Some(lazy) = (self.recount)(Assume { lazy: true, ..Assume::default() }) else { return };
        let (saving, half) = self.saved_by(&self.prediction.work.with_lookups_of(&lazy));
        if self.is_worth(saving, half) {
            let text = format!(
                "binding the program's {} at their first call (-z lazy instead of -z now; price: they stay writable)",
                counted(slots, "function slot")
            );
            self.say(saving, half, &text);
        }
    }

    /// A library's look-ups that end in itself need not be made: its references become relative, or need nothing.
    fn own_symbols(&mut self) {
        let libraries = self.closure.objects.iter().enumerate().skip(1);
        let Some((_, object)) = libraries.max_by_key(|(_, o)| o.lookups_own) else { return };
        let own = object.lookups_own.unwrap_or(0);
        // The cheapest look-up takes some nanoseconds: fewer are not worth counting anew.
        let assume = Assume { own_bound: Some(object.path.clone()), ..Assume::default() };
        let Some(bound) = (own >= FEW).then(|| (self.recount)(assume)).flatten() else { return };
        let mut after = self.prediction.work.with_lookups_of(&bound);
        after.add(T::Relative, own as f64);
        let (saving, half) = self.saved_by(&after);
        if self.is_worth(saving, half) {
            let text = format!(
                "linking {} with -Bsymbolic-functions, or hiding what is its own (-fvisibility=hidden): {} of its \
                 look-ups end in itself; price: no other object can replace its functions;",
                object.path.display(),
                count(own)
            );
            self.say(saving, half, &text);
        }
    }

    /// Objects whose only hash table is the old one.
    fn hashing(&mut self) {
        let asked = self.closure.totals.probes_sysv.unwrap_or(0);
        let assume = Assume { gnu_hash: true, ..Assume::default() };
        let Some(hashed) = (asked >= FEW).then(|| (self.recount)(assume)).flatten() else { return };
        let (saving, half) = self.saved_by(&self.prediction.work.with_lookups_of(&hashed));
        if self.is_worth(saving, half) {
            let text = format!(
                "linking with --hash-style=gnu (or both): {} times an object is asked that has DT_HASH alone;",
                count(asked)
            );
            self.say(saving, half, &text);
        }
    }

    /// Pages that are written only since there are pointers on them.
    fn pointers(&mut self, program: &LinkFacts, holders: Option<&Holders>) {
        let pages = program.pages_written.saturating_sub(1);
        let named = program.relocations.relative.saturating_add(program.relocations.relr);
        let (saving, half) = self.saved(|w| take_pointers(w, program));
        if self.is_worth(saving, half) {
            let text = format!(
                "tables without pointers (offsets or indices; or -no-pie, which needs no relative relocation): {} are \
                 written for {}{}; price: a change of the source, or a fixed address;",
                counted(pages, "page"),
                counted(named, "pointer"),
                holders.map_or_else(String::new, |h| most_written(h, pages))
            );
            self.say(saving, half, &text);
        }
    }

    /// The loader with its C library: glibc's executes CPUID dozens of times, which costs dear in a virtual machine. Two
    /// programs that do nothing were measured for this: all else that a program needs costs about the same in both.
    fn musl(&mut self) {
        let musl = self.model.family(Family::Musl).filter(|_| self.prediction.family == Family::Glibc);
        let Some((musl, own)) = musl.and_then(|m| m.plain_ns).zip(self.fitted.plain_ns) else { return };
        let [musl, own] = [musl, own].map(|[entry, end]| entry + end);
        let (saving, half) = (own - musl, 1.96 * self.fitted.entry.residual.max(DEVIATION) * own.hypot(musl));
        if self.is_worth(saving, half) {
            let traps = self.model.cpuid_ns.filter(|ns| *ns > CPUID_TRAPS_NS);
            let traps = traps.map_or_else(String::new, |ns| {
                format!(" (one CPUID costs {} here, and glibc executes dozens)", time(ns))
            });
            let text = format!(
                "building against musl, with which a program that does nothing takes {}, not {}{traps}; price: another C \
                 library;",
                time(musl),
                time(own)
            );
            self.say(saving, half, &text);
        }
    }

    fn searching(&mut self) {
        let failed = self.closure.totals.failed_opens;
        let (saving, half) = self.saved(|w| {
            w.add(T::FailedOpen, -w.get(T::FailedOpen));
            w.add(T::FailedStat, -w.get(T::FailedStat));
        });
        if self.is_worth(saving, half) {
            let text =
                format!("finding every library at the first place tried (RUNPATH order; {} fail now)", count(failed));
            self.say(saving, half, &text);
        }
    }
}

/// Segments' alignment is often blamed: it moves them apart, and changes no page that is read or written.
fn alignment(align: u64) -> Option<Saving> {
    let text = format!(
        "aligning segments to 4 KiB, not {} (-z max-page-size), would save file size at most: the same pages are read \
         and written",
        bytes(align)
    );
    (align > PAGE).then_some(Saving { text, saving_ns: None })
}

/// The program's pointers, their records, and the pages that are written for them. One page with the global offset table
/// stays.
fn take_pointers(work: &mut Work, program: &LinkFacts) {
    work.take_pages(program.pages_written.saturating_sub(1));
    work.take_relative(program.relocations.relative);
    work.add(T::Relr, -(program.relocations.relr as f64));
}

/// Where most of `pages` are, if one section, or one data object, has more than half of them.
fn most_written(holders: &Holders, pages: u64) -> String {
    let first = |all: &[Holder], what: &str| {
        let most = all.first().filter(|h| h.pages > pages / 2);
        most.map(|h| format!("{what}{} ({})", h.name, counted(h.pages, "page"))).unwrap_or_default()
    };
    format!("{}{}", first(&holders.sections, ", most of them in "), first(&holders.objects, ", of the object "))
}

#[cfg(test)]
mod tests {
    use super::super::fit::{COUNT, Costs};
    use super::super::predict::of_work;
    use super::super::store::HostKey;
    use super::*;
    use crate::loader::{FoundBy, Object, Totals};

    const LOADER_NS: f64 = 250_000.0;

    fn family(family: Family, loader_ns: f64) -> FamilyModel {
        let mut unit_ns = [1.0; COUNT];
        for (term, ns) in [(T::Loader, loader_ns), (T::Lookup, 20.0), (T::Probe, 3.0), (T::NameSysv, 18.0)] {
            unit_ns[term as usize] = ns;
        }
        let entry = Costs { unit_ns, ..Costs::nothing() };
        let (end, known) = (Costs::nothing(), [true; COUNT]);
        let plain_ns = Some([loader_ns + 10.0, 0.0]);
        FamilyModel { family, programs: 9, rounds: 9, entry, end, known, plain_ns, split: None }
    }

    fn object(path: &str) -> Object {
        Object {
            path: path.into(),
            name: path.as_bytes().to_vec(),
            found_by: FoundBy::Program,
            needed_by: None,
            needs: Vec::new(),
            in_scope: true,
            relocations: Default::default(),
            relative_tagged: 0,
            lookups: Some(0),
            lookups_cached: Some(0),
            probes: Some(0),
            lookups_own: Some(0),
            provided: Some(0),
            lazy_slots: Some(0),
            pages_written: 0,
            relro_bytes: 0,
            init_functions: 0,
        }
    }

    /// Look-ups of 20 ns, further objects asked at 3, names compared in old tables at 18; nothing else.
    fn totals(lookups: u64, probes: u64, chain_sysv: u64) -> Totals {
        let some = |n| Some(n);
        Totals { lookups: some(lookups), probes: some(probes), chain_sysv: some(chain_sysv), ..Totals::default() }
    }

    /// The sentences on a closure of a program and one library, with what they save; `after`: look-ups as they would be
    /// under another setting.
    fn said(change: impl Fn(&mut Object, &mut Closure), after: Totals, cpuid_ns: f64) -> Vec<(String, f64)> {
        let families = vec![family(Family::Glibc, LOADER_NS), family(Family::Musl, 50_000.0)];
        let model = Model { host: HostKey::here(), families, libraries: Vec::new(), cpuid_ns: Some(cpuid_ns) };
        let mut closure = Closure { totals: totals(20_000, 40_000, 9_000), ..Closure::default() };
        let mut library = object("/no/lib.so");
        change(&mut library, &mut closure);
        closure.objects = vec![object("/no/program"), library];
        let mut work = Work::new();
        work.add(T::Loader, 1.0);
        let fitted = model.family(Family::Glibc).unwrap();
        let prediction = of_work(fitted, work.with_lookups_of(&closure));
        let recount = |_| Some(Closure { totals: after, ..Closure::default() });
        let (closure, prediction) = (&closure, &prediction);
        let mut maker = Maker { recount: &recount, model: &model, fitted, closure, prediction, out: Vec::new() };
        maker.own_symbols();
        maker.hashing();
        maker.musl();
        maker.out.iter().map(|s| (s.text.clone(), s.saving_ns.unwrap())).collect()
    }

    #[test]
    fn a_library_that_looks_itself_up_is_named_with_the_flag_and_the_price() {
        let all = said(|o, _| o.lookups_own = Some(5_000), totals(15_000, 30_000, 9_000), 30.0);
        let (text, saving) = &all[0];
        assert!(
            text.contains("/no/lib.so") && text.contains("-Bsymbolic-functions") && text.contains("price:"),
            "{text}"
        );
        // 5,000 look-ups at 20, 5,000 more objects asked at 3; 5,000 relative relocations at 1 come instead.
        assert_eq!(*saving, 110_000.0);
    }

    #[test]
    fn old_hash_tables_and_another_c_library() {
        let all = said(|_, c| c.totals.probes_sysv = Some(10_000), totals(20_000, 50_000, 0), 3_500.0);
        let text = |word: &str| all.iter().find(|(t, _)| t.contains(word)).unwrap_or_else(|| panic!("{word}: {all:?}"));
        // 9,000 names less at 18; the 10,000 objects are asked all the same, 3 each.
        assert_eq!(text("--hash-style=gnu").1, 102_000.0);
        assert_eq!(text("musl").1, 200_000.0);
        assert!(text("musl").0.contains("CPUID"));
        let cheap = said(|_, _| (), totals(20_000, 40_000, 9_000), 30.0);
        assert!(!cheap.iter().any(|(t, _)| t.contains("CPUID")), "a cheap CPUID explains nothing");
    }

    #[test]
    fn what_holds_few_of_the_pages_is_not_named() {
        let holder = |name: &str, pages| Holder { name: name.to_string(), bytes: 8, writes: 1, pages };
        let holders = |object| Holders { sections: vec![holder(".data", 20)], objects: vec![object] };
        assert_eq!(most_written(&holders(holder("stdout", 1)), 23), ", most of them in .data (20 pages)");
        let table = most_written(&holders(holder("table", 19)), 23);
        assert_eq!(table, ", most of them in .data (20 pages), of the object table (19 pages)");
    }

    #[test]
    fn alignment_is_said_to_be_in_vain_where_it_is_large() {
        assert_eq!(alignment(4096), None);
        let said = alignment(2 << 20).unwrap();
        assert!(said.saving_ns.is_none() && said.text.contains("2.00 MiB") && said.text.contains("max-page-size"));
    }

    #[test]
    fn below_the_noise_nothing_is_said() {
        let few = |o: &mut Object, c: &mut Closure| (o.lookups_own, c.totals.probes_sysv) = (Some(120), Some(110));
        let all = said(few, totals(19_900, 39_900, 8_990), 30.0);
        assert!(all.iter().all(|(t, _)| t.contains("musl")), "{all:?}");
    }
}
