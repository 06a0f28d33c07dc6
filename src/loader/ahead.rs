//! Reads large objects by several threads before they are asked for: a pass over half a million relocations and the
//! listing of look-ups do not depend on each other.

#![deny(clippy::indexing_slicing, clippy::arithmetic_side_effects, clippy::unwrap_used)]

use crate::order;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::binary::Binary;
use super::identity::Identity;
use super::search::{Options, Search};

/// Below this many bytes of objects together a thread costs more than it saves.
const WORTH_IT: usize = 8 << 20;

/// Makes what the sums will ask for. Does nothing where one thread is as fast.
pub(super) fn read(search: &Search, identity: &Identity, options: &Options) {
    let binary = |object: &super::search::Loaded| {
        let file = object.file.as_ref()?;
        file.binary(&object.path).is_ok().then(|| (file.clone(), object.path.clone()))
    };
    let mut files: Vec<_> = search.loaded.iter().filter_map(binary).collect();
    let bytes = files.iter().fold(0usize, |n, (f, _)| n.saturating_add(f.data().len()));
    if options.threads < 2 || bytes < WORTH_IT {
        return;
    }
    // The largest first, or a thread that ends with it works alone.
    order::by_key(&mut files, |(f, _)| std::cmp::Reverse(f.data().len()));
    let jobs: Vec<(&Binary, bool)> = files
        .iter()
        .filter_map(|(file, path)| file.binary(path).ok())
        .flat_map(|binary| [(binary, false), (binary, true)])
        .filter(|(_, requests)| !requests || !options.without_lookups)
        .collect();
    let next = AtomicUsize::new(0);
    let work = || {
        while let Some((binary, requests)) = jobs.get(next.fetch_add(1, Ordering::Relaxed)) {
            if !requests {
                let _ = binary.facts();
                continue;
            }
            let symbols = binary.symbols();
            let set = symbols.requests(identity.keeps_got_apart(binary.target.machine));
            set.plt(symbols, symbols.bind_now || options.bind_now);
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..options.threads.min(jobs.len()) {
            scope.spawn(work);
        }
        work();
    });
}
