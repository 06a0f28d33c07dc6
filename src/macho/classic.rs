//! Images from before LC_DYLD_INFO (Mac OS X 10.5 and older, PowerPC, some kernel extensions): relocation entries of
//! LC_DYSYMTAB, and sections of pointers whose symbols stand in the indirect symbol table.
//!
//! Source: `mach-o/reloc.h`, and `INDIRECT_SYMBOL_LOCAL` and the section types in `mach-o/loader.h`.

use object::Endianness;
use object::macho;
use object::pod;

use super::image::{Dysymtab, Image, Range, Section};
use super::places::{Class, Places};
use super::stream::Fault;
use super::work;

const ENTRY_BYTES: u64 = 8;

/// What the tables hold.
#[derive(Debug, Default)]
pub(super) struct Classic {
    /// Bytes of relocation entries and of indirect symbols in use.
    pub table_bytes: u64,
}

/// Counts the entries.
///
/// # Errors
/// A table extends past the end of the image, or an entry names no place; what came before is counted.
pub(super) fn relocations(image: &Image<'_>, table: Dysymtab, places: &mut Places) -> Result<Classic, Fault> {
    let mut found = Classic::default();
    let base = base(image);
    for ((offset, count), class) in
        [(table.local_relocations, Class::Rebase), (table.external_relocations, Class::Bind)]
    {
        let bytes = u64::from(count).saturating_mul(ENTRY_BYTES);
        let data =
            Range { offset: offset.into(), bytes }.data(image.data).ok_or("a table of relocations is cut off")?;
        let entries = pod::slice_from_all_bytes::<macho::Relocation<Endianness>>(data)
            .map_err(|()| "a table of relocations is cut off")?;
        for entry in entries {
            let address = entry.r_word0.get(image.endian);
            // The top bit marks a scattered entry, whose address has 24 bits; 64-bit images have none.
            let scattered = !image.is_64 && address & macho::R_SCATTERED != 0;
            let offset = if scattered { address & 0x00ff_ffff } else { address };
            place(places, base.wrapping_add(offset.into()), class)?;
        }
        found.table_bytes = found.table_bytes.saturating_add(bytes);
    }
    // Sections that share entries would make the work the product of both.
    let mut left = image.most_fixups();
    for (kind, bound) in
        [(macho::S_NON_LAZY_SYMBOL_POINTERS, Class::Bind), (macho::S_LAZY_SYMBOL_POINTERS, Class::LazyBind)]
    {
        for section in image.sections_of(kind) {
            let count = section.bytes.checked_div(image.pointer_size()).unwrap_or(0);
            left = left.checked_sub(count).ok_or("more symbol pointers than the image has room for")?;
            let used = pointers(image, table, section, bound, places)?;
            found.table_bytes = found.table_bytes.saturating_add(used);
        }
    }
    Ok(found)
}

/// What addresses of entries are counted from: the first segment, or the first writable one where 32 bits from the
/// first would not reach (x86-64).
fn base(image: &Image<'_>) -> u64 {
    let wide = image.is_64 && image.cpu_type == macho::CPU_TYPE_X86_64;
    image.segments.iter().find(|s| !wide || s.is_writable()).map_or(0, |s| s.vm_address)
}

fn place(places: &mut Places, address: u64, class: Class) -> Result<(), Fault> {
    places.add_at(address, class).map_err(|_| format!("address {address:#x} lies in no segment"))
}

/// Pointers of one section by its entries in the indirect symbol table; the bytes of those entries.
fn pointers(
    image: &Image<'_>,
    table: Dysymtab,
    section: &Section,
    bound: Class,
    places: &mut Places,
) -> Result<u64, Fault> {
    let width = image.pointer_size();
    let count = section.bytes.checked_div(width).unwrap_or(0);
    let (offset, total) = table.indirect;
    let first = u64::from(section.indirect_index);
    if first.saturating_add(count) > total.into() {
        return Err(format!("section {} has more pointers than indirect symbols", section.name));
    }
    let range =
        Range { offset: u64::from(offset).saturating_add(first.saturating_mul(4)), bytes: count.saturating_mul(4) };
    let data = range.data(image.data).ok_or("the indirect symbol table is cut off")?;
    let mut at = section.address;
    for word in data.chunks_exact(4) {
        work::count(1);
        let word = word.first_chunk::<4>().copied().unwrap_or_default();
        let value = match image.endian {
            Endianness::Little => u32::from_le_bytes(word),
            Endianness::Big => u32::from_be_bytes(word),
        };
        // A local symbol's pointer is only moved with the image, an absolute one not even that.
        let class = if value & macho::INDIRECT_SYMBOL_ABS.0 != 0 {
            None
        } else if value & macho::INDIRECT_SYMBOL_LOCAL.0 != 0 {
            Some(Class::Rebase)
        } else {
            Some(bound)
        };
        if let Some(class) = class {
            place(places, at, class)?;
        }
        at = at.wrapping_add(width);
    }
    Ok(range.bytes)
}
