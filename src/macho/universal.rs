//! Universal files: a table of images for several machines, big-endian whatever they hold.
//!
//! Source of the rules: dyld's `mach_o/Universal.cpp` (one more arm64 slice may stand behind the counted ones of a
//! 32-bit table, so that systems which would refuse it do not see it; duplicates, overlaps, unaligned slices and
//! more than 16 of them are refused), and for Java class files their format, whose version field lies where the
//! count of slices would be: at least 45, while no universal file has that many in practice.

use object::macho::{self, CpuSubtype, CpuType};
use object::read::macho::{FatArch, MachOFatFile32, MachOFatFile64};

use super::{image, names};
use crate::error::{Error, Result};
use crate::facts::macho::MachoSlice;

/// First major version of Java class files.
const JAVA_FIRST_MAJOR: u32 = 45;

/// Most slices that dyld reads.
const DYLD_MOST_SLICES: usize = 16;

/// Most slices that are read here: more than any linker or loader takes.
const MOST_SLICES: u32 = 1024;

const HEADER_BYTES: u64 = 8;
const ARCH32_BYTES: u64 = 20;

/// One entry of the table.
#[derive(Debug, Clone)]
pub(super) struct Entry {
    /// Machine that the table names.
    pub cpu_type: CpuType,
    /// Its variant.
    pub cpu_subtype: CpuSubtype,
    /// Where the image begins.
    pub offset: u64,
    /// Its size.
    pub size: u64,
    /// Power of two of its alignment.
    pub align: u32,
    /// Behind the counted entries.
    pub hidden: bool,
    /// Place in the table.
    pub index: usize,
    /// It begins inside another slice.
    pub overlaps: bool,
    /// Contradictions, each with what the loader will do.
    pub warnings: Vec<String>,
}

/// The table of a universal file.
#[derive(Debug, Clone)]
pub(super) struct Table {
    /// Entries in the file's order, a hidden one last.
    pub entries: Vec<Entry>,
}

fn word(bytes: &[u8], offset: u64) -> Option<u32> {
    let start = usize::try_from(offset).ok()?;
    let four = bytes.get(start..start.checked_add(4)?)?;
    Some(u32::from_be_bytes(four.try_into().ok()?))
}

/// True where the bytes at the first entry's offset can be a slice: a Mach-O image, an archive or LLVM bitcode.
fn first_slice_is_code(bytes: &[u8]) -> bool {
    let Some(offset) = word(bytes, HEADER_BYTES.saturating_add(8)) else { return false };
    let rest = usize::try_from(offset).ok().and_then(|start| bytes.get(start..)).unwrap_or(&[]);
    offset != 0
        && (image::is_thin(rest)
            || rest.starts_with(b"!<arch>\n")
            || rest.starts_with(&[0xde, 0xc0, 0x17, 0x0b])
            || rest.starts_with(b"BC\xc0\xde"))
}

/// True for a compiled Java class, which starts like a universal file.
pub fn is_java_class(bytes: &[u8]) -> bool {
    let minor_and_major = word(bytes, 4);
    word(bytes, 0) == Some(macho::FAT_MAGIC)
        && minor_and_major.is_some_and(|v| v & 0xffff >= JAVA_FIRST_MAJOR)
        && !first_slice_is_code(bytes)
}

/// True for a universal file with a 32-bit or a 64-bit table.
pub(super) fn is_universal(bytes: &[u8]) -> bool {
    match word(bytes, 0) {
        Some(macho::FAT_MAGIC) => !is_java_class(bytes),
        Some(macho::FAT_MAGIC_64) => true,
        _ => false,
    }
}

impl Entry {
    fn new<A: FatArch>(arch: &A, index: usize, hidden: bool) -> Entry {
        let (offset, size) = arch.file_range();
        Entry {
            cpu_type: arch.cputype(),
            cpu_subtype: arch.cpusubtype(),
            offset,
            size,
            align: arch.align(),
            hidden,
            index,
            overlaps: false,
            warnings: Vec::new(),
        }
    }

    /// Apple's name of the machine.
    pub(super) fn cpu(&self) -> String {
        names::cpu(self.cpu_type, self.cpu_subtype)
    }

    fn end(&self) -> u64 {
        self.offset.saturating_add(self.size)
    }

    /// The bytes of its image.
    ///
    /// # Errors
    /// They lie past the end of the file, inside another slice (each byte is read once, however many slices claim
    /// it), or are not an image.
    pub(super) fn image<'a>(&self, bytes: &'a [u8]) -> Result<&'a [u8]> {
        if self.overlaps {
            return Err(Error::new("the slice overlaps another"));
        }
        let range = usize::try_from(self.offset).ok().zip(usize::try_from(self.end()).ok());
        let slice = range
            .and_then(|(start, end)| bytes.get(start..end))
            .ok_or_else(|| Error::new("the slice extends past the end of the file"))?;
        if slice.starts_with(b"!<arch>\n") {
            return Err(Error::new("the slice is an archive of object files"));
        }
        if !image::is_thin(slice) {
            return Err(Error::new("the slice does not start like a Mach-O image"));
        }
        Ok(slice)
    }

    /// The facts of its place.
    pub(super) fn facts(&self, of: usize) -> MachoSlice {
        MachoSlice {
            index: self.index as u64,
            of: of as u64,
            offset: self.offset,
            size_bytes: self.size,
            align_bytes: 1u64.checked_shl(self.align),
            hidden: self.hidden,
        }
    }
}

impl Table {
    /// Reads the table.
    ///
    /// # Errors
    /// It is not a universal file, it has no slices, or the table extends past its end.
    pub(super) fn parse(bytes: &[u8]) -> Result<Table> {
        let claimed = word(bytes, 4).unwrap_or(0);
        if claimed > MOST_SLICES {
            return Err(Error::new(format!("a table of {claimed} slices: no linker or loader takes so many")));
        }
        let too_long = |_| Error::new("the table of slices extends past the end of the file");
        let mut entries: Vec<Entry> = match word(bytes, 0) {
            Some(macho::FAT_MAGIC) => {
                let file = MachOFatFile32::parse(bytes).map_err(too_long)?;
                let counted = file.arches().iter().enumerate().map(|(i, a)| Entry::new(a, i, false));
                counted.chain(hidden_arm64(bytes, file.arches().len())).collect()
            }
            Some(macho::FAT_MAGIC_64) => {
                let file = MachOFatFile64::parse(bytes).map_err(too_long)?;
                file.arches().iter().enumerate().map(|(i, a)| Entry::new(a, i, false)).collect()
            }
            _ => return Err(Error::new("not a Mach-O file")),
        };
        if entries.is_empty() {
            return Err(Error::new("a universal file without slices"));
        }
        warn(&mut entries, bytes);
        Ok(Table { entries })
    }
}

/// The entry behind the counted ones, where it is for arm64 and its image is there.
fn hidden_arm64(bytes: &[u8], counted: usize) -> Option<Entry> {
    let at = (counted as u64).checked_mul(ARCH32_BYTES)?.checked_add(HEADER_BYTES)?;
    let raw = bytes.get(usize::try_from(at).ok()?..)?;
    let (arch, _) = object::pod::from_bytes::<macho::FatArch32>(raw).ok()?;
    let mut entry = Entry::new(arch, counted, true);
    if entry.cpu_type != macho::CPU_TYPE_ARM64 || entry.size == 0 || entry.image(bytes).is_err() {
        return None;
    }
    entry.warnings.push("stands behind the counted slices: only systems that look for it there see it".to_string());
    Some(entry)
}

/// Notes what dyld refuses: too many slices, duplicates, overlaps, wrong alignment, another machine than promised.
fn warn(entries: &mut [Entry], bytes: &[u8]) {
    let too_many = entries.len() > DYLD_MOST_SLICES;
    let mut order: Vec<(u64, u64, usize)> = entries.iter().enumerate().map(|(i, e)| (e.offset, e.end(), i)).collect();
    order.sort_unstable();
    let mut reached = 0u64;
    for (offset, end, index) in order {
        if let (true, Some(entry)) = (offset < reached, entries.get_mut(index)) {
            entry.overlaps = true;
        }
        reached = reached.max(end);
    }
    let mut seen = std::collections::HashSet::new();
    for entry in entries.iter_mut() {
        let mut say = |text: &str| entry.warnings.push(format!("{text}: dyld refuses the file"));
        if too_many && entry.index == 0 {
            say("more than 16 slices");
        }
        if entry.overlaps {
            say("this slice overlaps another");
        }
        if !seen.insert((entry.cpu_type.0, entry.cpu_subtype.0)) {
            say("a second slice for the same machine");
        }
        let start = usize::try_from(entry.offset).ok().and_then(|start| bytes.get(start..));
        let Some((cpu, subtype, file_type)) = start.and_then(image::head) else { continue };
        // Object files and debugging companions are not mapped by dyld, and need no alignment.
        let is_mapped = !matches!(file_type, macho::MH_OBJECT | macho::MH_DSYM);
        if is_mapped && entry.offset & names::page_size(entry.cpu_type).saturating_sub(1) != 0 {
            say("this slice is not page aligned");
        }
        if (cpu, subtype.0) != (entry.cpu_type, entry.cpu_subtype.0) {
            let text = format!("the table says {}, the image {}", entry.cpu(), names::cpu(cpu, subtype));
            entry.warnings.push(format!("{text}: dyld refuses the file"));
        }
    }
}

#[cfg(test)]
#[allow(clippy::arithmetic_side_effects)]
mod tests {
    use super::*;

    fn fat(entries: &[[u32; 5]], counted: u32, size: usize) -> Vec<u8> {
        let mut bytes = macho::FAT_MAGIC.to_be_bytes().to_vec();
        bytes.extend(counted.to_be_bytes());
        entries.iter().flatten().for_each(|n| bytes.extend(n.to_be_bytes()));
        bytes.resize(size, 0);
        for entry in entries {
            let at = entry[2] as usize;
            if at + 12 <= size {
                bytes[at..at + 4].copy_from_slice(&0xfeed_facf_u32.to_le_bytes());
                bytes[at + 4..at + 8].copy_from_slice(&entry[0].to_le_bytes());
                bytes[at + 8..at + 12].copy_from_slice(&entry[1].to_le_bytes());
            }
        }
        bytes
    }

    const X86_64: u32 = 0x0100_0007;
    const ARM64: u32 = 0x0100_000c;

    #[test]
    fn java_classes_are_told_apart() {
        for (version, size) in [(0x0000_0034, 600), (0xffff_0044, 600), (45, 8)] {
            let mut class = macho::FAT_MAGIC.to_be_bytes().to_vec();
            class.extend(u32::to_be_bytes(version));
            class.resize(size, 7);
            assert!(is_java_class(&class) && !is_universal(&class), "version {version:#x}");
        }
        let many: Vec<[u32; 5]> = (0..60).map(|i| [X86_64, 3 + i, 0x4000, 0x1000, 12]).collect();
        let universal = fat(&many, 60, 0x6000);
        assert!(is_universal(&universal) && !is_java_class(&universal), "60 slices that are there");
    }

    #[test]
    fn an_arm64_slice_behind_the_count_is_found() {
        let entries = [[X86_64, 3, 0x1000, 0x1000, 12], [ARM64, 0, 0x4000, 0x1000, 14]];
        let table = Table::parse(&fat(&entries, 1, 0x5000)).unwrap();
        assert_eq!(table.entries.iter().map(|e| e.hidden).collect::<Vec<_>>(), [false, true]);
        assert_eq!(table.entries[1].warnings.len(), 1);
        // The same bytes behind the table that name no image are no slice.
        let entries = [[X86_64, 3, 0x1000, 0x1000, 12], [ARM64, 0, 0x9000, 0x1000, 14]];
        assert_eq!(Table::parse(&fat(&entries, 1, 0x5000)).unwrap().entries.len(), 1);
    }

    #[test]
    fn what_dyld_refuses_is_said() {
        let entries = [
            [X86_64, 3, 0x1000, 0x3800, 12],
            [X86_64, 3, 0x4000, 0x1000, 12],
            [ARM64, 0, 0x5000, 0x1000, 12],
            [ARM64, 2, 0xffff_0000, 0xffff_ffff, 99],
        ];
        let table = Table::parse(&fat(&entries, 4, 0x6000)).unwrap();
        let texts: Vec<String> = table.entries.iter().map(|e| e.warnings.join(";")).collect();
        assert_eq!(texts[0], "");
        assert!(texts[1].contains("overlaps") && texts[1].contains("second slice"), "{}", texts[1]);
        assert!(texts[2].contains("page aligned"), "{}", texts[2]);
        // A debugging companion is not mapped.
        let mut bytes = fat(&entries, 4, 0x6000);
        bytes[0x500c] = 10;
        assert_eq!(Table::parse(&bytes).unwrap().entries[2].warnings.len(), 0);
        assert!(table.entries[3].image(&[0; 64]).is_err());
        assert_eq!(table.entries[3].facts(4).align_bytes, None);
    }

    #[test]
    fn tables_that_are_not_there_are_errors() {
        for bytes in [
            &b"\xca\xfe\xba\xbe"[..],
            b"\xca\xfe\xba\xbe\0\0\0\0",
            b"\xca\xfe\xba\xbe\0\0\0\x05",
            b"\xca\xfe\xba\xbf\xff\xff\xff\xff\0",
        ] {
            assert!(Table::parse(bytes).is_err(), "{bytes:?}");
        }
    }
}
