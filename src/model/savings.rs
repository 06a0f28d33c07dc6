//! What link settings would save, from counts and costs: each with its interval, the flag, and its price.

use super::fit::{FamilyModel, Span};
use super::predict::{Prediction, difference};
use super::store::Model;
use super::work::{NEAR, T, Work};
use crate::facts::LinkFacts;
use crate::loader::Closure;
use crate::loader::host::Host;
use crate::order;
use crate::units::{count, counted, time};

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
/// Relative relocations from which on people think of packing them.
const MANY_RELATIVE: u64 = 500;
/// Bytes of a record of DT_RELA, and of the pages around a fault.
const RECORD: f64 = 24.0;
const RUN: f64 = 65_536.0;

struct Maker<'a> {
    model: &'a Model,
    fitted: &'a FamilyModel,
    closure: &'a Closure,
    prediction: &'a Prediction,
    out: Vec<Saving>,
}

/// Settings worth a word, largest saving first.
pub fn savings(model: &Model, closure: &Closure, program: &LinkFacts, prediction: &Prediction) -> Vec<Saving> {
    let Some(fitted) = model.family(prediction.family).filter(|_| closure.loader.is_some()) else { return Vec::new() };
    let mut maker = Maker { model, fitted, closure, prediction, out: Vec::new() };
    maker.static_link();
    maker.libraries();
    maker.packing(program);
    maker.binding(program);
    maker.searching();
    order::by(&mut maker.out, |a, b| b.saving_ns.unwrap_or(0.0).total_cmp(&a.saving_ns.unwrap_or(0.0)));
    maker.out
}

impl Maker<'_> {
    /// What a change of work saves, until the entry point and at the end together, and the half-width of its interval.
    fn saved(&self, change: impl Fn(&mut Work)) -> (f64, f64) {
        let before = self.prediction.work;
        let mut after = before;
        change(&mut after);
        let (entry, entry_half) = difference(self.fitted, &before, &after, Span::Entry);
        let (end, end_half) = difference(self.fitted, &before, &after, Span::End);
        (-(entry + end), entry_half.hypot(end_half))
    }

    fn is_worth(&self, saving: f64, half: f64) -> bool {
        saving > half && saving > WORTH_NS.max(WORTH_SHARE * self.prediction.value_ns)
    }

    fn say(&mut self, saving: f64, half: f64, text: &str) {
        let text = format!("{text} would save {} (± {})", time(saving), time(half));
        self.out.push(Saving { text, saving_ns: Some(saving) });
    }

    /// All but exec; glibc's own start, CPUID in it, moves behind the entry point and stays.
    fn static_link(&mut self) {
        let (saving, half) = self.saved(|w| {
            let loader = w.get(T::Loader);
            *w = Work { flavour: w.flavour, ..Work::new() };
            w.add(T::Segment, 3.0);
            w.add(T::Loader, loader);
        });
        if self.is_worth(saving, half) {
            let own = self.fitted.entry.unit_ns[T::Loader as usize];
            let text = format!(
                "a static link at a fixed address (-static -no-pie), beside the {} of loader and C library that glibc's \
                 start-up mostly keeps (musl's does not); price: libraries are updated by linking anew, no dlopen;",
                time(own)
            );
            self.say(saving, half, &text);
        }
    }

    /// The dearest libraries, each with what it alone adds.
    fn libraries(&mut self) {
        let own = Work::by_object(self.closure, &Host);
        let mut dear: Vec<(f64, f64, usize)> = Vec::new();
        for (index, work) in own.iter().enumerate().skip(1).filter(|(_, w)| w.get(T::Object) > 0.0) {
            let Some(object) = self.closure.objects.get(index) else { continue };
            if object.name.starts_with(b"libc.so") {
                continue;
            }
            let init = self.model.library(&object.path).map_or(0.0, |l| l.init_ns);
            let (saving, half) = self.saved(|w| {
                for (count, less) in w.counts.iter_mut().zip(&work.counts) {
                    *count -= less;
                }
            });
            dear.push((saving + init, half, index));
        }
        order::by(&mut dear, |a, b| b.0.total_cmp(&a.0));
        for (saving, half, index) in dear.into_iter().take(3) {
            let Some(object) = self.closure.objects.get(index).filter(|_| self.is_worth(saving, half)) else {
                continue;
            };
            let name = String::from_utf8_lossy(&object.name).into_owned();
            let by = object.needed_by.and_then(|i| self.closure.objects.get(i));
            let by = by.map_or_else(String::new, |o| format!(" (needed by {})", o.path.display()));
            self.say(saving, half, &format!("starting without {name}{by}"));
        }
    }

    /// RELR shrinks the table; it writes the same pages.
    fn packing(&mut self, program: &LinkFacts) {
        let relative = program.relocations.relative;
        if relative < MANY_RELATIVE {
            return;
        }
        let n = relative as f64;
        let (saving, half) = self.saved(|w| {
            w.add(T::Relative, -n);
            w.add(T::RelativeFar, -(relative.saturating_sub(NEAR) as f64));
            w.add(T::Relr, n);
            w.add(T::PageRead, -n * RECORD / RUN);
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
        let Some(own) = self.closure.objects.first().filter(|_| program.bind_now && slots > 0 && !is_musl) else {
            return;
        };
        let lookups = own.lookups.unwrap_or(0).max(1) as f64;
        let further = (own.probes.unwrap_or(0) as f64 / lookups - 1.0).max(0.0);
        let n = slots as f64;
        let (saving, half) = self.saved(|w| {
            w.add(T::Lookup, -n);
            w.add(T::Probe, -n * further);
        });
        if self.is_worth(saving, half) {
            let text = format!(
                "binding the program's {} at their first call (-z lazy instead of -z now; price: they stay writable)",
                counted(slots, "function slot")
            );
            self.say(saving, half, &text);
        }
    }

    fn searching(&mut self) {
        let failed = self.closure.totals.failed_opens;
        let (saving, half) = self.saved(|w| w.add(T::FailedOpen, -(failed as f64)));
        if self.is_worth(saving, half) {
            let text =
                format!("finding every library at the first place tried (RUNPATH order; {} fail now)", count(failed));
            self.say(saving, half, &text);
        }
    }
}
