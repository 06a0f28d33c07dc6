//! What kind of program a file is, from program headers and DT_* (and, for separate debug files, sections as a hint).

#![deny(clippy::indexing_slicing, clippy::arithmetic_side_effects, clippy::unwrap_used)]

use object::elf;

use super::image::Image;
use super::sections::{Section, code_is_elsewhere};
use crate::facts::Kind;

/// The kind of a file.
pub fn kind(image: &Image, sections: &[Section]) -> Kind {
    if is_debug_file(image, sections) {
        return Kind::Other;
    }
    match elf::FileType(image.file_type()) {
        elf::ET_EXEC => exec_kind(image),
        elf::ET_DYN => dyn_kind(image),
        _ => Kind::Other,
    }
}

/// True for a separate debug file: it has the program's headers and none of its code.
pub fn is_debug_file(image: &Image, sections: &[Section]) -> bool {
    let mut code = image.loads().iter().filter(|s| s.is_executable() && s.memsz > 0).peekable();
    let no_code = code.peek().is_some() && code.all(|s| s.filesz == 0);
    no_code || code_is_elsewhere(sections)
}

/// A file that names libraries needs a loader, also where it forgot to name that (the program crashes then).
fn exec_kind(image: &Image) -> Kind {
    let has_loader = image.segment(elf::PT_INTERP).is_some();
    if has_loader || needs_libraries(image) { Kind::Exec } else { Kind::Static }
}

/// ET_DYN is used for position independent programs, libraries and loaders alike.
fn dyn_kind(image: &Image) -> Kind {
    let has_loader = image.segment(elf::PT_INTERP).is_some();
    let says_pie = image.dynamic_value(elf::DT_FLAGS_1).is_some_and(|flags| flags & elf::DF_1_PIE.0 != 0);
    let has_soname = image.dynamic_value(elf::DT_SONAME).is_some();
    // Linkers put DT_DEBUG (MIPS: an address of a word instead) into programs and never into libraries.
    let is_program = says_pie || (!has_soname && has_debug_tag(image));
    match (is_program, has_loader) {
        (true, true) => Kind::Pie,
        (true, false) if needs_libraries(image) => Kind::Pie,
        (true, false) => Kind::StaticPie,
        // Nothing to relocate and nothing to name: what the kernel can start is a program.
        (false, false) if image.dynamic().is_empty() && image.dynamic_fault().is_none() => bare_kind(image),
        // Without a dynamic table the interpreter alone speaks: the kernel starts such a program, unrelocated.
        (false, true) if image.dynamic().is_empty() => Kind::Pie,
        (false, _) => Kind::Shared,
    }
}

fn bare_kind(image: &Image) -> Kind {
    let starts = image.loads().iter().any(|s| s.is_executable() && s.contains(image.entry()));
    if starts && image.entry() != 0 { Kind::StaticPie } else { Kind::Other }
}

fn has_debug_tag(image: &Image) -> bool {
    let mips = image.machine() == elf::EM_MIPS.0;
    image.dynamic_value(elf::DT_DEBUG).is_some()
        || (mips && image.dynamic_value(elf::DT_MIPS_RLD_MAP).is_some())
        || (mips && image.dynamic_value(elf::DT_MIPS_RLD_MAP_REL).is_some())
}

fn needs_libraries(image: &Image) -> bool {
    image.dynamic_value(elf::DT_NEEDED).is_some()
}
