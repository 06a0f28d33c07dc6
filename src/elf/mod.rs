//! ELF files of every machine: bytes in, link facts out; and small ELF files written from a description.
//!
//! Everything comes from program headers and DT_*, which is what kernel and loader read. Section headers serve as hints
//! where those say nothing (static programs, separate debug files). One file a subject:
//!
//! | file | subject |
//! |---|---|
//! | `image` | the checked reader: header, segments, DT_*, bytes by address |
//! | `machine` | relocation types of each machine, sorted into classes; the machine's name |
//! | `relocation`, `android` | the tables: REL, RELA, RELR, JMPREL, packed |
//! | `startup` | one pass over them: counts, and what they write |
//! | `pages`, `ranges` | distinct pages, mapped addresses |
//! | `detail`, `holders` | pages written: by what, and in which sections and objects |
//! | `relro` | what is made read-only |
//! | `symbols` | the dynamic symbol table, versions asked for |
//! | `kind`, `flavour`, `notes`, `sections` | what the file is, whose loader it wants, notes, hints |
//! | `warnings` | contradictions, with what the loader will do |
//! | `synth` | writes small ELF files |

#![deny(clippy::indexing_slicing, clippy::arithmetic_side_effects, clippy::unwrap_used)]

pub mod android;
mod describe;
mod detail;
pub mod flavour;
mod holders;
pub mod image;
pub mod kind;
pub mod machine;
pub mod notes;
pub mod pages;
pub mod ranges;
pub mod relocation;
pub mod relro;
pub mod rewrite;
pub mod sections;
pub mod startup;
pub mod symbols;
pub mod synth;
mod warnings;

use std::path::Path;

pub use detail::PageWrites;
pub use holders::{Holder, Holders};

use crate::error::Result;
use crate::facts::LinkFacts;
use image::Image;

/// Link facts of one ELF file.
///
/// # Errors
/// One line that says why nothing can be said: no header, program headers or a dynamic table past the file's end.
/// Lesser faults are in [`LinkFacts::warnings`].
pub fn link_facts(path: &Path, bytes: &[u8]) -> Result<LinkFacts> {
    let image = Image::parse(bytes)?;
    describe::describe(path, &image)
}

/// The pages that start-up relocations write, in order, each with what writes it.
///
/// # Errors
/// As [`link_facts`].
pub fn page_writes(path: &Path, bytes: &[u8]) -> Result<Vec<PageWrites>> {
    describe::page_writes(path, &Image::parse(bytes)?)
}

/// The sections and data objects that start-up relocations write to.
///
/// # Errors
/// As [`link_facts`].
pub fn holders(path: &Path, bytes: &[u8]) -> Result<Holders> {
    describe::holders(path, &Image::parse(bytes)?)
}
