//! All that dyld writes into one image, whichever of three ways says so.

use super::chained::{self, Chained};
use super::classic;
use super::image::{Image, Range};
use super::opcodes::{self, Binds, Symbols};
use super::places::{Counts, Places};
use super::stream::Fault;
use crate::facts::macho::MachoFixups;

/// The facts, and where the fixups lie.
pub(super) struct Found {
    pub facts: MachoFixups,
    pub by_segment: Vec<Counts>,
    /// Of the binds, those in `__got` and its like.
    pub got_binds: u64,
    /// Start-up fixups lie in segments that are not writable.
    pub writes_read_only: bool,
}

/// Counts all fixups of an image. What cannot be read to its end is counted up to there, with a warning.
pub(super) fn count(image: &mut Image<'_>) -> Found {
    let mut places = Places::new(image);
    let mut symbols = Symbols::default();
    let mut lazy = Symbols::default();
    let mut facts = MachoFixups { format: "none", ..MachoFixups::default() };
    let mut faults = Vec::new();
    let mut chains = Chained::default();
    if let Some(range) = image.chained {
        facts.format = "chained";
        facts.page_in_linking = true;
        facts.table_bytes = range.bytes;
        let result = table(image, range)
            .and_then(|tables| chained::fixups(image, tables, &mut places, &mut symbols, &mut chains));
        faults.extend(result.err().map(|fault| ("chained fixups", fault)));
    }
    // With both, dyld takes the chains.
    if let (None, Some(info)) = (image.chained, image.dyld_info) {
        facts.format = "opcodes";
        let rebased = table(image, info.rebase).and_then(|s| opcodes::rebases(image, s, &mut places));
        faults.extend(rebased.err().map(|fault| ("rebase opcodes", fault)));
        for (name, range, kind) in [
            ("bind opcodes", info.bind, Binds::Plain),
            ("weak bind opcodes", info.weak_bind, Binds::Weak),
            ("lazy bind opcodes", info.lazy_bind, Binds::Lazy),
        ] {
            let into = if kind == Binds::Lazy { &mut lazy } else { &mut symbols };
            let bound = table(image, range).and_then(|s| opcodes::binds(image, s, kind, &mut places, into));
            faults.extend(bound.err().map(|fault| (name, fault)));
        }
        for range in [info.rebase, info.bind, info.weak_bind, info.lazy_bind] {
            facts.table_bytes = facts.table_bytes.saturating_add(range.bytes);
        }
    }
    if let (None, None, Some(tables)) = (image.chained, image.dyld_info, image.dysymtab) {
        match classic::relocations(image, tables, &mut places) {
            Ok(found) => facts.table_bytes = found.table_bytes,
            Err(fault) => faults.push(("relocations", fault)),
        }
        if places.total() != Counts::default() {
            facts.format = "relocations";
        }
    }
    for (what, fault) in faults {
        image.warn(format!("{what}: {fault}: counted up to there"));
    }
    sum(facts, places, &symbols, &lazy, chains)
}

fn table<'a>(image: &Image<'a>, range: Range) -> Result<&'a [u8], Fault> {
    range.data(image.data).ok_or_else(|| "the table extends past the end of the image".to_string())
}

fn sum(
    mut facts: MachoFixups,
    mut places: Places,
    symbols: &Symbols<'_>,
    lazy: &Symbols<'_>,
    chains: Chained,
) -> Found {
    let total = places.total();
    facts.pointer_formats = chains.formats;
    facts.rebases = total.rebases;
    facts.binds = total.binds;
    facts.lazy_binds = total.lazy_binds;
    facts.weak_binds = total.weak_binds.saturating_add(chains.weak_binds);
    facts.authenticated = chains.authenticated.saturating_add(symbols.authenticated);
    facts.symbols = symbols.count();
    facts.lazy_symbols = lazy.count();
    facts.weak_imports = symbols.may_be_missing();
    (facts.pages_4k, facts.pages_16k) = places.pages();
    Found {
        facts,
        by_segment: places.counts().to_vec(),
        got_binds: total.got_binds,
        writes_read_only: places.writes_read_only(),
    }
}
