//! The trie of exported symbols: its size, and how many symbols of which kind it holds.
//!
//! Walked here and not by object, whose iterator follows a shared node once for each path that leads to it: twenty
//! nodes that each name the next one 255 times would keep it busy for ever. A symbol's figures do not depend on its
//! name, so each node is read once. Source: `EXPORT_SYMBOL_FLAGS_*` in `mach-o/loader.h`; dyld's
//! `mach_o/ExportsTrie.cpp`.

use object::macho;

use super::stream::{Fault, Stream};
use crate::facts::macho::MachoExports;

/// A trie written by a linker is read exactly once, node by node. Where nodes overlap, reading stops at this many
/// times its size.
const MOST_READS: u64 = 4;

/// Walks a trie.
///
/// # Errors
/// It is not one: a node lies outside, two nodes lead to the same one, or nodes overlap.
pub(super) fn walk(trie: &[u8]) -> Result<MachoExports, Fault> {
    let mut found = MachoExports { trie_bytes: trie.len() as u64, ..MachoExports::default() };
    if trie.is_empty() {
        return Ok(found);
    }
    let mut seen = vec![false; trie.len()];
    let mut open = vec![0u64];
    let mut left = (trie.len() as u64).saturating_mul(MOST_READS);
    while let Some(offset) = open.pop() {
        let at = usize::try_from(offset).ok();
        let (at, mark) = at.and_then(|at| seen.get_mut(at).map(|mark| (at, mark))).ok_or("a node lies outside")?;
        if std::mem::replace(mark, true) {
            return Err("two nodes lead to the same one".to_string());
        }
        let mut node = Stream::new(trie.get(at..).unwrap_or(&[]));
        let size = node.uleb()?;
        if size != 0 {
            let end = (node.position() as u64).checked_add(size).ok_or("a symbol is cut off")?;
            symbol(&mut node, &mut found)?;
            // What follows the fields that are known is for later versions.
            node.seek(end).ok_or("a symbol is cut off")?;
        }
        let children = node.byte().ok_or("a node is cut off")?;
        for _ in 0..children {
            node.name()?;
            open.push(node.uleb()?);
        }
        left = left.checked_sub(node.position() as u64).ok_or("nodes overlap")?;
    }
    Ok(found)
}

fn symbol(node: &mut Stream<'_>, found: &mut MachoExports) -> Result<(), Fault> {
    let flags = node.uleb()?;
    let has = |flag: macho::ExportSymbolFlags| u64::from(flags & flag.0 != 0);
    found.symbols = found.symbols.saturating_add(1);
    found.reexports = found.reexports.saturating_add(has(macho::EXPORT_SYMBOL_FLAGS_REEXPORT));
    found.weak_definitions = found.weak_definitions.saturating_add(has(macho::EXPORT_SYMBOL_FLAGS_WEAK_DEFINITION));
    found.resolvers = found.resolvers.saturating_add(has(macho::EXPORT_SYMBOL_FLAGS_STUB_AND_RESOLVER));
    Ok(())
}

#[cfg(test)]
#[allow(clippy::arithmetic_side_effects)]
mod tests {
    use super::*;

    /// Root with children `a` at 8 and `b` at 12: a plain symbol and a weak one.
    const TWO: &[u8] = &[0, 2, b'a', 0, 8, b'b', 0, 12, 2, 0, 5, 0, 2, 4, 6, 0];

    #[test]
    fn symbols_are_counted_by_kind() {
        let expected = MachoExports { trie_bytes: 16, symbols: 2, weak_definitions: 1, ..Default::default() };
        assert_eq!(walk(TWO), Ok(expected));
        assert_eq!(walk(&[]), Ok(MachoExports::default()));
        // A re-export with its name, and a resolver with two addresses.
        let trie = [0, 2, b'a', 0, 8, b'b', 0, 14, 4, 8, 1, b'x', 0, 0, 3, 16, 1, 2, 0];
        let found = walk(&trie).unwrap();
        assert_eq!((found.symbols, found.reexports, found.resolvers), (2, 1, 1));
    }

    #[test]
    fn tries_that_would_not_end_are_refused() {
        // A cycle; two ways to one node; a node outside; a name without end.
        for (trie, reason) in [
            (&[0, 1, b'a', 0, 0][..], "same one"),
            (&[0, 2, b'a', 0, 8, b'b', 0, 8, 0, 0], "same one"),
            (&[0, 1, b'a', 0, 99], "outside"),
            (&[0, 1, b'a', b'b'], "cut off"),
            (&[9, 0], "cut off"),
            (&[0x80], "cut off"),
        ] {
            assert!(walk(trie).unwrap_err().contains(reason), "{trie:?}");
        }
        // Nodes at every byte of one long run of names: each reads on to its end.
        let mut trie = vec![0u8, 255];
        for i in 0..255u64 {
            trie.push(0);
            trie.extend([0x80 | (1000 + i * 2) as u8 & 0x7f, ((1000 + i * 2) >> 7) as u8]);
        }
        trie.resize(1000, 0);
        for _ in 0..255 {
            trie.extend([0, 1]);
        }
        trie.extend(vec![b'n'; 100_000]);
        trie.extend([0, 0]);
        assert!(walk(&trie).unwrap_err().contains("same one"));
    }
}
