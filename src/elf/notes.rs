//! PT_NOTE: what names the build, and what kernels and loaders act on.

#![deny(clippy::indexing_slicing, clippy::arithmetic_side_effects, clippy::unwrap_used)]

use object::elf;

use super::image::Image;

/// What the notes of a file say.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Notes {
    /// NT_GNU_BUILD_ID in hexadecimal.
    pub build_id: Option<String>,
    /// NT_GNU_ABI_TAG is there: glibc's start files put it into every program.
    pub has_abi_tag: bool,
    /// Notes that loaders or kernels act on, as sentences.
    pub sentences: Vec<String>,
}

/// Reads every PT_NOTE.
pub fn notes(image: &Image) -> Notes {
    let mut found = Notes::default();
    for segment in image.segments().iter().filter(|s| s.kind == elf::PT_NOTE.0) {
        let Some(bytes) = image.file_range(segment.offset, segment.filesz) else { continue };
        // Entries are padded to 4 bytes, or to 8 where the segment is aligned so (gABI; glibc tests for 8).
        let padding = if segment.align == 8 { 8 } else { 4 };
        read_notes(image, bytes, padding, &mut found);
    }
    found.sentences.dedup();
    found
}

fn read_notes(image: &Image, mut bytes: &[u8], padding: usize, found: &mut Notes) {
    while let Some((name, kind, desc, rest)) = split_note(image, bytes, padding) {
        if name == b"GNU\0" {
            gnu_note(image, kind, desc, found);
        } else if name == b"Android\0" && kind == 1 {
            let level = image.u32_in(desc, 0).unwrap_or(0);
            found.sentences.push(format!("built for Android API level {level}"));
        }
        bytes = rest;
    }
}

type NoteParts<'a> = (&'a [u8], u32, &'a [u8], &'a [u8]);

/// One note and what follows it; every step takes at least the 12 bytes of a header.
fn split_note<'a>(image: &Image, bytes: &'a [u8], padding: usize) -> Option<NoteParts<'a>> {
    let size = |at| image.u32_in(bytes, at).and_then(|n| usize::try_from(n).ok());
    let (name_size, desc_size, kind) = (size(0)?, size(4)?, image.u32_in(bytes, 8)?);
    let name = bytes.get(12..)?.get(..name_size)?;
    let desc_start = name_size.checked_add(12)?.checked_next_multiple_of(padding)?;
    let desc_end = desc_start.checked_add(desc_size)?;
    let desc = bytes.get(desc_start..desc_end)?;
    let rest = bytes.get(desc_end.checked_next_multiple_of(padding)?..).unwrap_or(&[]);
    Some((name, kind, desc, rest))
}

fn gnu_note(image: &Image, kind: u32, desc: &[u8], found: &mut Notes) {
    match elf::NoteType(kind) {
        elf::NT_GNU_BUILD_ID => {
            // 20 bytes usually; --build-id=0x… may give any number.
            let id = desc.get(..64).unwrap_or(desc);
            found.build_id = Some(id.iter().map(|b| format!("{b:02x}")).collect());
        }
        elf::NT_GNU_ABI_TAG => {
            found.has_abi_tag = true;
            let word = |at| image.u32_in(desc, at).unwrap_or(0);
            let system = match word(0) {
                0 => "Linux",
                1 => "Hurd",
                2 => "Solaris",
                3 => "FreeBSD",
                _ => "an unknown system",
            };
            found.sentences.push(format!("built for {system} {}.{}.{} or later", word(4), word(8), word(12)));
        }
        elf::NT_GNU_PROPERTY_TYPE_0 => properties(image, desc, found),
        _ => {}
    }
}

/// The array of properties: type, size, data, padded to the word.
fn properties(image: &Image, mut desc: &[u8], found: &mut Notes) {
    let padding = if image.is_64() { 8 } else { 4 };
    while let (Some(kind), Some(size)) = (image.u32_in(desc, 0), image.u32_in(desc, 4)) {
        let bits = image.u32_in(desc, 8).unwrap_or(0);
        if let Some(sentence) = property(image, kind, bits) {
            found.sentences.push(sentence);
        }
        let next = usize::try_from(size).ok().and_then(|n| n.checked_add(8)?.checked_next_multiple_of(padding));
        match next.and_then(|at| desc.get(at..)) {
            Some(rest) => desc = rest,
            None => break,
        }
    }
}

/// Properties that the loader enforces or that switch the machine's state.
fn property(image: &Image, kind: u32, bits: u32) -> Option<String> {
    let machine = elf::Machine(image.machine());
    let x86 = machine == elf::EM_X86_64 || machine == elf::EM_386;
    let names = |table: &[(u32, &str)]| {
        let set: Vec<&str> = table.iter().filter(|(bit, _)| bits & bit != 0).map(|(_, name)| *name).collect();
        (!set.is_empty()).then(|| set.join(", "))
    };
    if x86 && kind == elf::GNU_PROPERTY_X86_ISA_1_NEEDED.0 {
        let levels = names(&[(2, "x86-64-v2"), (4, "x86-64-v3"), (8, "x86-64-v4")])?;
        return Some(format!("needs a processor of level {levels}: glibc refuses it on a lesser one"));
    }
    if x86 && kind == elf::GNU_PROPERTY_X86_FEATURE_1_AND.0 {
        let features = names(&[(1, "IBT"), (2, "SHSTK")])?;
        return Some(format!("marked for control-flow protection: {features}"));
    }
    if machine == elf::EM_AARCH64 && kind == elf::GNU_PROPERTY_AARCH64_FEATURE_1_AND.0 {
        let features = names(&[(1, "BTI"), (2, "PAC"), (4, "GCS")])?;
        return Some(format!("marked for control-flow protection: {features}"));
    }
    None
}
