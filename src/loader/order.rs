//! The order in which glibc relocates the objects of a process: dependencies before what needs them, the program last.
//!
//! Sources: `_dl_sort_maps_dfs` in `elf/dl-sort-maps.c` (the default since 2.35), the loop over `l_initfini` in
//! `dl_main` in `elf/rtld.c`; from 2.39 on libc.so.6 goes first. Constructors run in the same order.

#![deny(clippy::indexing_slicing, clippy::arithmetic_side_effects, clippy::unwrap_used)]

use super::search::Search;

/// Indices into the search's `loaded`, first relocated first.
pub(super) fn relocation_order(search: &Search) -> Vec<usize> {
    let mut visited = vec![false; search.loaded.len()];
    let mut order = Vec::with_capacity(search.scope.len());
    // The traversal starts from the end of the breadth-first list and never enters the program, which is last.
    for index in search.scope.iter().rev().copied().filter(|i| *i != 0) {
        visit(search, index, &mut visited, &mut order);
    }
    order.push(0);
    order
}

/// Depth first, in the order of DT_NEEDED; an object follows all that it needs. Without recursion: a chain of
/// libraries may be as long as there are files.
fn visit(search: &Search, start: usize, visited: &mut [bool], order: &mut Vec<usize>) {
    let mut stack: Vec<(usize, usize)> = vec![(start, 0)];
    if visited.get(start).copied().unwrap_or(true) {
        return;
    }
    mark(visited, start);
    while let Some((index, next)) = stack.last_mut() {
        let need = search.loaded.get(*index).and_then(|o| o.needs.get(*next)).copied();
        *next = next.saturating_add(1);
        match need {
            Some(need) if need != 0 && !visited.get(need).copied().unwrap_or(true) => {
                mark(visited, need);
                stack.push((need, 0));
            }
            Some(_) => {}
            None => {
                let is_there = search.loaded.get(*index).is_some_and(|o| o.file.is_some());
                let index = *index;
                if is_there && search.scope.contains(&index) {
                    order.push(index);
                }
                stack.pop();
            }
        }
    }
}

fn mark(visited: &mut [bool], index: usize) {
    if let Some(slot) = visited.get_mut(index) {
        *slot = true;
    }
}
