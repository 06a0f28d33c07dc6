//! Page by page: what writes it at start.

#![deny(clippy::indexing_slicing, clippy::arithmetic_side_effects, clippy::unwrap_used)]

use std::collections::BTreeMap;

use super::machine::Class;
use super::relro::Protected;
use super::startup::{Sink, Writer};

/// Kinds of writers, in the order of output.
const WRITERS: [(Writer, &str); 12] = [
    (Writer::Record(Class::Relative), "relative"),
    (Writer::Relr, "relr"),
    (Writer::Record(Class::Absolute), "absolute"),
    (Writer::Record(Class::GlobDat), "glob_dat"),
    (Writer::Record(Class::JumpSlot), "jump_slot"),
    (Writer::Record(Class::Copy), "copy"),
    (Writer::Record(Class::Irelative), "irelative"),
    (Writer::Record(Class::Tls), "tls"),
    (Writer::Record(Class::None), "none"),
    (Writer::Record(Class::Other), "other"),
    (Writer::LazyHeader, "got_header"),
    (Writer::ImplicitGot, "implicit_got"),
];

/// Pages that one write may spread over: a copied object of 16 MiB. Sizes are claims of the file.
const MOST_PAGES_A_WRITE: u64 = 4096;

/// A page of 4 KiB that is written at start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PageWrites {
    /// Its address, before the load address is added.
    pub addr: u64,
    /// It becomes read-only afterwards.
    pub in_relro: bool,
    /// Writes by class, those that are there.
    pub writes: Vec<(&'static str, u64)>,
}

/// Counts writes by page and class.
#[derive(Debug, Default)]
pub(super) struct Detail {
    pages: BTreeMap<u64, [u64; WRITERS.len()]>,
}

impl Sink for Detail {
    fn write(&mut self, by: Writer, addr: u64, len: u64) {
        let Some(index) = WRITERS.iter().position(|(writer, _)| *writer == by) else { return };
        let first = addr >> 12;
        let last = addr.saturating_add(len.saturating_sub(1)) >> 12;
        for page in first..=last.min(first.saturating_add(MOST_PAGES_A_WRITE)) {
            if let Some(count) = self.pages.entry(page).or_default().get_mut(index) {
                *count = count.saturating_add(1);
            }
        }
    }
}

impl Detail {
    /// The pages in order.
    pub(super) fn into_pages(self, protected: Protected) -> Vec<PageWrites> {
        let page = |(number, counts): (u64, [u64; WRITERS.len()])| {
            let addr = number.saturating_mul(4096);
            let named = WRITERS.iter().zip(counts).filter(|(_, n)| *n > 0).map(|((_, name), n)| (*name, n));
            PageWrites { addr, in_relro: protected.contains(addr), writes: named.collect() }
        };
        self.pages.into_iter().map(page).collect()
    }
}
