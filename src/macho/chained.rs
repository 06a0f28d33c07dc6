//! LC_DYLD_CHAINED_FIXUPS: each pointer to fix holds the distance to the next, and a table says where the chain of
//! each page starts.
//!
//! The structures are object's. Its iterator does not confine a chain to its page, so chains of a hostile file could
//! run over the same bytes again and again: here every fixup must lie behind the one before it, as linkers write
//! them, which bounds the walk by the segment's size. Source: `mach-o/fixup-chains.h` and dyld's
//! `mach_o/ChainedFixups.cpp`.

use object::Endianness;
use object::macho::{self, DyldChainedPtrFormat};
use object::read::macho::{DyldChainedFixups, DyldChainedSegment, Fixup};

use super::image::Image;
use super::names;
use super::opcodes::Symbols;
use super::places::{Class, Places};
use super::stream::Fault;
use super::work;

/// BIND_SPECIAL_DYLIB_WEAK_LOOKUP.
const WEAK_LOOKUP: i32 = -3;

/// Imports may share bytes of the names' pool, so that a short table could make the names long without end. Names
/// are read until their lengths sum to this many times the size of the tables (linkers write each name once).
const NAME_BYTES_FACTOR: u64 = 16;

/// What the tables say beyond the places.
#[derive(Debug, Default)]
pub(super) struct Chained {
    /// Pointer formats in use, each once.
    pub formats: Vec<String>,
    /// Signed pointers.
    pub authenticated: u64,
    /// Of the binds, those coalesced over all images.
    pub weak_binds: u64,
}

/// Walks all chains of an image.
///
/// # Errors
/// Why they could not be walked to their end; what came before is counted.
pub(super) fn fixups<'a>(
    image: &Image<'a>,
    tables: &'a [u8],
    places: &mut Places,
    symbols: &mut Symbols<'a>,
    found: &mut Chained,
) -> Result<(), Fault> {
    let chained = DyldChainedFixups::parse(image.endian, tables).map_err(|e| e.to_string())?;
    let imports = imports(&chained, image.endian, tables.len() as u64, symbols)?;
    let segments = chained.segments(image.endian).map_err(|e| e.to_string())?;
    let most = image.most_fixups();
    let mut walk = Walk { image, imports: &imports, places, found, left: most, pages_left: most };
    for segment in segments {
        walk.segment(&segment.map_err(|e| e.to_string())?)?;
    }
    Ok(())
}

/// Reads the table of imported symbols; for each, whether it is coalesced over all images.
fn imports<'a>(
    chained: &DyldChainedFixups<'a, Endianness>,
    endian: Endianness,
    table_bytes: u64,
    symbols: &mut Symbols<'a>,
) -> Result<Vec<bool>, Fault> {
    let mut weak = Vec::new();
    let mut name_bytes = 0u64;
    for import in chained.imports(endian).map_err(|e| e.to_string())? {
        let import = import.map_err(|e| e.to_string())?;
        work::count(import.name.len().saturating_add(1));
        name_bytes = name_bytes.saturating_add(import.name.len() as u64);
        if name_bytes > table_bytes.saturating_mul(NAME_BYTES_FACTOR) {
            return Err("the names of imports overlap".to_string());
        }
        let name = symbols.number(import.name);
        symbols.add(import.dylib.0.into(), name, import.weak_import);
        weak.push(import.dylib.0 == WEAK_LOOKUP);
    }
    Ok(weak)
}

struct Walk<'w, 'a> {
    image: &'w Image<'a>,
    imports: &'w [bool],
    places: &'w mut Places,
    found: &'w mut Chained,
    left: u64,
    pages_left: u64,
}

/// Bytes of one pointer.
fn width(format: DyldChainedPtrFormat) -> u64 {
    match format {
        macho::DYLD_CHAINED_PTR_32 | macho::DYLD_CHAINED_PTR_32_CACHE | macho::DYLD_CHAINED_PTR_32_FIRMWARE => 4,
        _ => 8,
    }
}

impl<'a> Walk<'_, 'a> {
    fn segment(&mut self, chain: &DyldChainedSegment<'a, Endianness>) -> Result<(), Fault> {
        let endian = self.image.endian;
        let header = chain.header();
        let format = header.pointer_format.get(endian);
        let name = names::pointer_format(format).ok_or_else(|| format!("unknown pointer format {}", format.0))?;
        if !self.found.formats.contains(&name) {
            self.found.formats.push(name);
        }
        let index = u64::from(chain.index());
        let segment = usize::try_from(index).ok().and_then(|i| self.image.segments.get(i));
        let segment = segment.ok_or_else(|| format!("there is no segment {index}"))?;
        let pages = u64::from(header.page_count.get(endian));
        if !matches!(header.page_size.get(endian), 0x1000 | 0x4000) {
            return Err("pages are neither 4 KiB nor 16 KiB".to_string());
        }
        work::count(header.page_count.get(endian).into());
        self.pages_left = self.pages_left.checked_sub(pages).ok_or("more pages than the image has")?;
        let highest = u64::from(header.max_valid_pointer.get(endian));
        let mut next_free = 0u64;
        // A preferred load address of 0 leaves targets as they are stored: only their size matters here.
        for fixup in chain.fixups(endian, 0, segment.data(self.image.data)) {
            let (offset, fixup) = fixup.map_err(|e| e.to_string())?;
            if offset < next_free {
                return Err("a fixup chain runs back over itself".to_string());
            }
            next_free = offset.saturating_add(width(format));
            self.left = self.left.checked_sub(1).ok_or("more fixups than the image has room for")?;
            let class = self.class(format, highest, &fixup)?;
            self.places.add(index, offset, class).map_err(|outside| outside.to_string())?;
        }
        Ok(())
    }

    fn class(&mut self, format: DyldChainedPtrFormat, highest: u64, fixup: &Fixup) -> Result<Class, Fault> {
        let (class, auth) = match fixup {
            Fixup::Bind(bind) => {
                let weak = usize::try_from(bind.ordinal).ok().and_then(|i| self.imports.get(i));
                let weak = *weak.ok_or_else(|| format!("there is no import {}", bind.ordinal))?;
                self.found.weak_binds = self.found.weak_binds.saturating_add(weak.into());
                (Class::Bind, bind.auth.is_some())
            }
            // 32-bit chains also link values beyond the last valid pointer, which are no pointers.
            Fixup::Rebase(rebase)
                if format == macho::DYLD_CHAINED_PTR_32 && highest != 0 && rebase.target_offset > highest =>
            {
                (Class::Value, false)
            }
            Fixup::Rebase(rebase) => (Class::Rebase, rebase.auth.is_some()),
            Fixup::KernelCacheRebase(rebase) => (Class::Rebase, rebase.auth.is_some()),
            Fixup::SegmentedRebase(rebase) => (Class::Rebase, rebase.auth.is_some()),
        };
        self.found.authenticated = self.found.authenticated.saturating_add(auth.into());
        Ok(class)
    }
}

#[cfg(test)]
#[allow(clippy::arithmetic_side_effects)]
mod tests {
    use super::*;
    use crate::macho::testing::Builder;

    /// Tables for `__DATA` alone: its page starts, and imports `_a` (library 1) and `_b` (weak lookup).
    fn tables(format: u16, page_size: u16, starts: &[u16], pages: u16, highest: u32) -> Vec<u8> {
        let mut segment = Vec::new();
        segment.extend(u32::try_from(22 + 2 * starts.len()).unwrap().to_le_bytes());
        segment.extend(page_size.to_le_bytes());
        segment.extend(format.to_le_bytes());
        segment.extend(4096u64.to_le_bytes());
        segment.extend(highest.to_le_bytes());
        segment.extend(pages.to_le_bytes());
        starts.iter().for_each(|s| segment.extend(s.to_le_bytes()));
        // Three segments, of which the second has chains, at 16 behind the start of this table.
        let mut starts = Vec::new();
        [3u32, 0, 16, 0].iter().for_each(|n| starts.extend(n.to_le_bytes()));
        starts.extend(segment);
        let imports = 28 + starts.len() as u32;
        let mut out = Vec::new();
        [0u32, 28, imports, imports + 8, 2, 1, 0].iter().for_each(|n| out.extend(n.to_le_bytes()));
        out.extend(starts);
        let import = |library: u32, name: u32| (library & 0xff | name << 9).to_le_bytes();
        out.extend(import(1, 0));
        out.extend(import(0xfd, 3));
        out.extend(b"_a\0_b\0");
        out
    }

    struct Found {
        rebases: u64,
        binds: u64,
        weak: u64,
        signed: u64,
        symbols: u64,
        pages: (u64, u64),
        formats: Vec<String>,
        result: Result<(), Fault>,
    }

    fn walk(data: &[u8], tables: &[u8]) -> Found {
        let bytes = Builder::new(data).build();
        let image = Image::parse(&bytes).unwrap();
        let mut places = Places::new(&image);
        let mut symbols = Symbols::default();
        let mut found = Chained::default();
        let result = fixups(&image, tables, &mut places, &mut symbols, &mut found);
        let total = places.total();
        Found {
            rebases: total.rebases,
            binds: total.binds,
            weak: found.weak_binds,
            signed: found.authenticated,
            symbols: symbols.count(),
            pages: places.pages(),
            formats: found.formats,
            result,
        }
    }

    fn data(words: &[(usize, u64)]) -> Vec<u8> {
        let mut data = vec![0u8; 0x8000];
        words.iter().for_each(|(at, word)| data[*at..*at + 8].copy_from_slice(&word.to_le_bytes()));
        data
    }

    /// Bit position of the distance to the next pointer, its unit, the bind bit and the bit of a signed pointer
    /// (`fixup-chains.h`), for every format.
    #[allow(clippy::type_complexity)]
    const FORMATS: [(u16, &str, u32, u64, Option<u32>, Option<u32>); 12] = [
        (1, "arm64e", 51, 8, Some(62), Some(63)),
        (2, "64", 51, 4, Some(63), None),
        (6, "64_offset", 51, 4, Some(63), None),
        (7, "arm64e_kernel", 51, 4, Some(62), Some(63)),
        (8, "64_kernel_cache", 51, 4, None, Some(63)),
        (9, "arm64e_userland", 51, 8, Some(62), Some(63)),
        (10, "arm64e_firmware", 51, 4, Some(62), Some(63)),
        (11, "x86_64_kernel_cache", 51, 1, None, Some(63)),
        (12, "arm64e_userland24", 51, 8, Some(62), Some(63)),
        (13, "arm64e_shared_cache", 52, 8, None, Some(63)),
        (14, "arm64e_segmented", 51, 4, None, Some(63)),
        (99, "format 99", 51, 4, None, None),
    ];

    #[test]
    fn every_64_bit_format_is_walked() {
        for (number, name, next, unit, bind, auth) in FORMATS {
            let step = |bytes: u64| (bytes / unit) << next;
            let bind_bit = bind.map_or(0, |b| 1u64 << b);
            let auth_bit = auth.map_or(0, |b| 1u64 << b);
            // Page 0: a rebase, a bind of import 1, a signed rebase. Page 1: none. Page 2: a bind of import 0.
            let words = [(0x10, 0x40 | step(8)), (0x18, bind_bit | 1 | step(24)), (0x30, auth_bit), (0x2008, bind_bit)];
            let tables = tables(number, 0x1000, &[0x10, 0xffff, 8], 3, 0);
            let found = walk(&data(&words), &tables);
            if number == 99 {
                assert!(found.result.unwrap_err().contains("unknown pointer format"));
                continue;
            }
            assert_eq!(found.formats, [name]);
            assert_eq!(found.result, Ok(()), "{name}");
            // Without a signed kind, bit 63 of format 64 is the bind bit, and the word above has neither.
            let binds = if bind.is_some() { 2 } else { 0 };
            assert_eq!((found.rebases, found.binds), (4 - binds, binds), "{name}");
            assert_eq!(found.weak, u64::from(bind.is_some()), "{name}");
            assert_eq!(found.signed, u64::from(auth.is_some()), "{name}");
            assert_eq!((found.symbols, found.pages), (2, (2, 1)), "{name}");
        }
    }

    #[test]
    fn formats_of_32_bits_are_walked() {
        // Format, bits of the distance; format 3 has a bind bit, more starts in one page, and values that are no
        // pointers.
        let word = |at: usize, low: u32, high: u32| (at, u64::from(low) | u64::from(high) << 32);
        let words = [word(0, 0x40 | 1 << 26, 0x03ff_0000), word(0x100, 1 << 31 | 1, 0)];
        let starts = [0x8002, 0xffff, 0, 0x8100];
        let found = walk(&data(&words), &tables(3, 0x1000, &starts, 2, 0x10_0000));
        assert_eq!(found.result, Ok(()));
        assert_eq!((found.rebases, found.binds, found.weak), (1, 1, 1));
        assert_eq!(found.formats, ["32"]);
        for (number, name, next) in [(4u16, "32_cache", 30), (5, "32_firmware", 26)] {
            let words = [word(0, 0x40 | 1 << next, 0x80)];
            let found = walk(&data(&words), &tables(number, 0x1000, &[0], 1, 0));
            assert_eq!((found.result, found.rebases, found.binds), (Ok(()), 2, 0), "{name}");
            assert_eq!(found.formats, [name]);
        }
    }

    #[test]
    fn chains_that_run_back_or_out_are_refused() {
        // Both pages start at the same fixups: the second walk would count them again.
        let step = 2u64 << 51;
        let words: Vec<(usize, u64)> = (0..0x7ff).map(|i| (i * 8, step)).collect();
        let found = walk(&data(&words), &tables(2, 0x1000, &[0, 0], 2, 0));
        assert!(found.result.unwrap_err().contains("runs back"));
        assert!(found.rebases <= 0x8000 / 8);
        // A distance of one unit: pointers would overlap.
        let found = walk(&data(&[(0, 1 << 51)]), &tables(2, 0x1000, &[0], 1, 0));
        assert!(found.result.unwrap_err().contains("runs back"));
        // Out of the segment; an import that is not there; a count of pages that the table does not hold.
        assert!(walk(&data(&[]), &tables(2, 0x1000, &[0xfff8 & 0x7fff], 1, 0)).result.is_ok());
        assert!(walk(&data(&[]), &tables(2, 0x4000, &[0xffff, 0xffff, 8], 3, 0)).result.is_err());
        assert!(walk(&data(&[]), &tables(2, 0x7fff, &[0], 1, 0)).result.unwrap_err().contains("neither"));
        assert!(
            walk(&data(&[(0, 1 << 63 | 2)]), &tables(2, 0x1000, &[0], 1, 0)).result.unwrap_err().contains("import 2")
        );
        assert!(walk(&data(&[]), &tables(2, 0x1000, &[0], 0xfff0, 0)).result.is_err());
    }

    #[test]
    fn imports_that_share_one_long_name_are_refused() {
        let count = 4000u32;
        let mut tables = Vec::new();
        let symbols = 28 + 16 + count * 4;
        [0u32, 28, 44, symbols, count, 1, 0].iter().for_each(|n| tables.extend(n.to_le_bytes()));
        [3u32, 0, 0, 0].iter().for_each(|n| tables.extend(n.to_le_bytes()));
        (0..count).for_each(|i| tables.extend((1 | i << 9).to_le_bytes()));
        tables.extend(vec![b'a'; 40_000]);
        tables.push(0);
        assert!(walk(&data(&[]), &tables).result.unwrap_err().contains("overlap"));
    }
}
