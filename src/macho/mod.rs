//! Mach-O: bytes in, [`LinkFacts`] out, on any host. Pure: nothing here opens a file.
//!
//! | file | subject |
//! |---|---|
//! | `universal` | files that hold several images; Java class files share their magic number |
//! | `names` | words for machines, platforms, file types |
//! | `image` | header, load commands, segments and sections of one image |
//! | `places` | where fixups lie: counts by segment, distinct pages |
//! | `opcodes` | LC_DYLD_INFO: rebase, bind, weak bind and lazy bind streams |
//! | `chained` | LC_DYLD_CHAINED_FIXUPS |
//! | `classic` | relocation entries and indirect symbols, before LC_DYLD_INFO |
//! | `fixups` | which of the three an image uses, and their sums |
//! | `stream` | numbers and names in opcode streams and tries |
//! | `exports` | the trie of exported symbols |
//! | `signature` | what the code signature says |
//! | `slice` | all of it as [`LinkFacts`] of one image |
//!
//! The parsing is object's where it serves. Its weak spots are guarded here: repeat counts in opcode streams are
//! bounded by the file's size, fixup chains must advance, the trie is walked node by node, and a bind stream of the
//! first arm64e systems (BIND_OPCODE_THREADED), which it does not know, is decoded here.

#![deny(clippy::indexing_slicing, clippy::arithmetic_side_effects, clippy::unwrap_used)]

use std::path::Path;

use crate::error::{Error, Result};
use crate::facts::LinkFacts;

#[cfg(test)]
#[allow(clippy::arithmetic_side_effects)]
mod against_object;
mod chained;
mod classic;
mod exports;
mod fixups;
mod image;
#[cfg(test)]
#[allow(clippy::arithmetic_side_effects)]
mod mutation;
mod names;
mod opcodes;
mod places;
mod signature;
mod slice;
mod stream;
#[cfg(test)]
#[allow(clippy::arithmetic_side_effects)]
mod testing;
mod universal;
mod work;

pub use universal::is_java_class;

/// True for a Mach-O image or a universal file of any kind; false for a Java class file, which shares the latter's
/// magic number.
pub fn is_macho(bytes: &[u8]) -> bool {
    image::is_thin(bytes) || universal::is_universal(bytes)
}

/// True where a machine's name, Apple's or the common one, means the image with these facts.
pub fn is_for(facts: &LinkFacts, arch: &str) -> bool {
    facts.macho.is_some() && names::is_called(facts, arch)
}

/// Facts of each image in a file: one for a thin file, one a slice for a universal one, in the file's order. `arch`
/// keeps the slices of one machine, by Apple's name or the common one (`arm64e`, `arm64` or `aarch64`, …).
///
/// A slice that cannot be read is listed all the same, with its reason among the warnings, unless `arch` asks for it.
///
/// # Errors
/// The file is not Mach-O, no slice can be read, or `arch` names none of them.
pub fn link_facts(path: &Path, bytes: &[u8], arch: Option<&str>) -> Result<Vec<LinkFacts>> {
    if image::is_thin(bytes) {
        let facts = slice::link_facts(path, bytes, bytes.len())?;
        return match arch {
            Some(word) if !names::is_called(&facts, word) => {
                Err(Error::new(format!("holds no image for {word}, only {}", names::cpu_of(&facts))))
            }
            _ => Ok(vec![facts]),
        };
    }
    if universal::is_java_class(bytes) {
        return Err(Error::new("a Java class file, not a universal Mach-O file (both start with cafebabe)"));
    }
    universal_facts(path, bytes, arch)
}

fn universal_facts(path: &Path, bytes: &[u8], arch: Option<&str>) -> Result<Vec<LinkFacts>> {
    let table = universal::Table::parse(bytes)?;
    let mut all = Vec::new();
    let mut first_fault = None;
    let mut readable = false;
    for entry in &table.entries {
        let result = entry.image(bytes).and_then(|image| slice::link_facts(path, image, bytes.len()));
        let mut facts = match result {
            Ok(facts) => {
                readable = true;
                facts
            }
            Err(fault) => {
                let facts = slice::unreadable(path, bytes.len(), entry, &fault);
                first_fault.get_or_insert((entry.cpu(), fault));
                facts
            }
        };
        facts.warnings.extend(entry.warnings.iter().cloned());
        if let Some(macho) = &mut facts.macho {
            macho.slice = Some(entry.facts(table.entries.len()));
        }
        all.push(facts);
    }
    if let (false, Some((cpu, fault))) = (readable, first_fault) {
        return Err(fault.context(cpu).context("no slice of this universal file can be read"));
    }
    chosen(all, arch)
}

fn chosen(all: Vec<LinkFacts>, arch: Option<&str>) -> Result<Vec<LinkFacts>> {
    let Some(word) = arch else { return Ok(all) };
    let cpus: Vec<String> = all.iter().map(names::cpu_of).collect();
    let kept: Vec<LinkFacts> = all.into_iter().filter(|facts| names::is_called(facts, word)).collect();
    if kept.is_empty() {
        return Err(Error::new(format!("holds no slice for {word}, only {}", cpus.join(", "))));
    }
    match kept.iter().find(|facts| facts.bits == 0) {
        Some(bad) => Err(Error::new(format!("slice {word} cannot be read: {}", bad.warnings.join("; ")))),
        None => Ok(kept),
    }
}
