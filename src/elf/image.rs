//! The checked reader beneath everything else here: an ELF file of any machine, 32 or 64 bit, either byte order,
//! as the loader sees it, from program headers and DT_* alone. Section headers may be absent or lie.
//!
//! All numbers come out as `u64`. No count of the file is believed: each table is a slice of bytes that are really
//! there, so work and memory are bounded by the size of the file.

#![deny(clippy::indexing_slicing, clippy::arithmetic_side_effects, clippy::unwrap_used)]

use object::elf;
use object::pod;
use object::read::elf::{Dyn, FileHeader, ProgramHeader, SectionHeader};
use object::{Endian as _, Endianness};

use crate::error::{Error, Result};
use crate::facts::Endian;

/// Longest string that is looked for in a string table. Real symbol names stay far below; without a bound, a file
/// without NUL bytes would be read to its end for each name.
const LONGEST_STRING: usize = 1 << 20;

/// One program header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Segment {
    /// PT_*.
    pub kind: u32,
    /// Where it starts in the file.
    pub offset: u64,
    /// Where it goes in memory, before the load address is added.
    pub vaddr: u64,
    /// Bytes that the file claims to hold.
    pub filesz: u64,
    /// Bytes in memory; those past `filesz` are zero.
    pub memsz: u64,
    /// PF_*.
    pub flags: u32,
    /// Alignment.
    pub align: u64,
}

impl Segment {
    /// True where the segment may be written.
    pub fn is_writable(&self) -> bool {
        self.flags & elf::PF_W.0 != 0
    }

    /// True where the segment may be executed.
    pub fn is_executable(&self) -> bool {
        self.flags & elf::PF_X.0 != 0
    }

    /// True where `addr` lies inside the segment's memory.
    pub fn contains(&self, addr: u64) -> bool {
        addr.checked_sub(self.vaddr).is_some_and(|into| into < self.memsz)
    }

    /// First address past the segment's memory; saturates.
    pub fn end(&self) -> u64 {
        self.vaddr.saturating_add(self.memsz)
    }
}

/// An ELF file as the loader sees it.
#[derive(Debug, Clone)]
pub struct Image<'a> {
    bytes: &'a [u8],
    is_64: bool,
    endian: Endianness,
    machine: u16,
    file_type: u16,
    entry: u64,
    flags: u32,
    os_abi: u8,
    abi_version: u8,
    ident_version: u8,
    byte_order_lies: bool,
    declared_phnum: u16,
    segments: Vec<Segment>,
    loads: Vec<Segment>,
    dynamic: Vec<(u64, u64)>,
    dynamic_fault: Option<String>,
    dynamic_terminated: bool,
    strings: Option<&'a [u8]>,
}

impl<'a> Image<'a> {
    /// Reads header, program headers and the dynamic table.
    ///
    /// # Errors
    /// One line that says what is wrong, where no program header can be read. A dynamic table that cannot be read
    /// is no error here: see [`Image::dynamic_fault`].
    pub fn parse(bytes: &'a [u8]) -> Result<Image<'a>> {
        let ident = bytes.get(..16).ok_or_else(|| short(bytes))?;
        if !ident.starts_with(&elf::ELFMAG) {
            return Err(Error::new("not an ELF file (the first four bytes are not its magic number)"));
        }
        match ident.get(4) {
            Some(1) => Image::parse_class::<elf::FileHeader32<Endianness>>(bytes),
            Some(2) => Image::parse_class::<elf::FileHeader64<Endianness>>(bytes),
            class => {
                let class = class.copied().unwrap_or(0);
                Err(Error::new(format!("the ELF header's class is {class}, neither 1 (32 bit) nor 2 (64 bit)")))
            }
        }
    }

    fn parse_class<H: FileHeader<Endian = Endianness>>(bytes: &'a [u8]) -> Result<Image<'a>> {
        let (header, _) = pod::from_bytes::<H>(bytes).map_err(|()| short(bytes))?;
        let (endian, byte_order_lies) = byte_order(header)?;
        let segments = program_headers(header, endian, bytes)?;
        let loads = segments.iter().copied().filter(|s| s.kind == elf::PT_LOAD.0).collect();
        let mut image = Image {
            bytes,
            is_64: header.is_type_64(),
            endian,
            machine: header.e_machine(endian).0,
            file_type: header.e_type(endian).0,
            entry: header.e_entry(endian).into(),
            flags: header.e_flags(endian).0,
            os_abi: header.e_ident().os_abi.0,
            abi_version: header.e_ident().abi_version,
            ident_version: header.e_ident().version.0,
            byte_order_lies,
            declared_phnum: header.e_phnum(endian),
            segments,
            loads,
            dynamic: Vec::new(),
            dynamic_fault: None,
            dynamic_terminated: false,
            strings: None,
        };
        match image.read_dynamic::<H>() {
            Ok((entries, terminated)) => {
                image.dynamic = entries;
                image.dynamic_terminated = terminated;
            }
            Err(why) => image.dynamic_fault = Some(why),
        }
        image.strings = image.dynamic_value(elf::DT_STRTAB).and_then(|addr| image.from_vaddr(addr));
        Ok(image)
    }

    /// The entries before DT_NULL, and whether there was one. glibc and musl take the last PT_DYNAMIC.
    fn read_dynamic<H: FileHeader<Endian = Endianness>>(&self) -> Result<(Vec<(u64, u64)>, bool), String> {
        let Some(segment) = self.segments.iter().rfind(|s| s.kind == elf::PT_DYNAMIC.0) else {
            return Ok((Vec::new(), true));
        };
        if segment.filesz == 0 {
            return Err("the dynamic table has no bytes in the file".to_string());
        }
        let Some(table) = self.file_range(segment.offset, segment.filesz) else {
            return Err(format!(
                "the dynamic table ({} bytes at offset {:#x}) lies past the end of the file ({} bytes)",
                segment.filesz,
                segment.offset,
                self.bytes.len()
            ));
        };
        let count = table.len().checked_div(size_of::<H::Dyn>()).unwrap_or(0);
        let (raw, _) = pod::slice_from_bytes::<H::Dyn>(table, count).map_err(|()| "the dynamic table is cut")?;
        let mask = if self.is_64 { u64::MAX } else { u64::from(u32::MAX) };
        let entries: Vec<(u64, u64)> = raw
            .iter()
            .map(|d| ((d.d_tag(self.endian).0 as u64) & mask, d.d_val(self.endian).into()))
            .take_while(|(tag, _)| *tag != 0)
            .collect();
        let terminated = entries.len() < count;
        Ok((entries, terminated))
    }

    /// All bytes of the file.
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// True for ELFCLASS64.
    pub fn is_64(&self) -> bool {
        self.is_64
    }

    /// Size of an address in bytes: 4 or 8.
    pub fn word_size(&self) -> u64 {
        if self.is_64 { 8 } else { 4 }
    }

    /// Byte order.
    pub fn endian(&self) -> Endian {
        match self.endian {
            Endianness::Little => Endian::Little,
            Endianness::Big => Endian::Big,
        }
    }

    /// Byte order, for `object`'s raw structures.
    pub fn endianness(&self) -> Endianness {
        self.endian
    }

    /// EM_*.
    pub fn machine(&self) -> u16 {
        self.machine
    }

    /// ET_*.
    pub fn file_type(&self) -> u16 {
        self.file_type
    }

    /// Entry point, before the load address is added.
    pub fn entry(&self) -> u64 {
        self.entry
    }

    /// `e_flags`, machine specific.
    pub fn flags(&self) -> u32 {
        self.flags
    }

    /// EI_OSABI.
    pub fn os_abi(&self) -> u8 {
        self.os_abi
    }

    /// EI_ABIVERSION.
    pub fn abi_version(&self) -> u8 {
        self.abi_version
    }

    /// EI_VERSION: 1 in every valid file. Linux ignores it, glibc refuses a library with another.
    pub fn ident_version(&self) -> u8 {
        self.ident_version
    }

    /// True where EI_DATA names the other byte order than the rest of the header is written in.
    pub fn byte_order_lies(&self) -> bool {
        self.byte_order_lies
    }

    /// `e_phnum` as written: 0xffff where the real count is in section header 0, which no loader reads.
    pub fn declared_phnum(&self) -> u16 {
        self.declared_phnum
    }

    /// Every program header in order.
    pub fn segments(&self) -> &[Segment] {
        &self.segments
    }

    /// The PT_LOAD segments in order.
    pub fn loads(&self) -> &[Segment] {
        &self.loads
    }

    /// The first segment of a kind.
    pub fn segment(&self, kind: elf::ProgramType) -> Option<&Segment> {
        self.segments.iter().find(|s| s.kind == kind.0)
    }

    /// Every (tag, value) of the dynamic table before DT_NULL, or up to the segment's end where that is missing.
    pub fn dynamic(&self) -> &[(u64, u64)] {
        &self.dynamic
    }

    /// Why the dynamic table cannot be read, where PT_DYNAMIC is present.
    pub fn dynamic_fault(&self) -> Option<&str> {
        self.dynamic_fault.as_deref()
    }

    /// False where no DT_NULL ends the dynamic table.
    pub fn dynamic_is_terminated(&self) -> bool {
        self.dynamic_terminated
    }

    /// Value of a tag that stands once. Where it is repeated the last wins, as in glibc (`info[tag] = dyn` in a loop).
    pub fn dynamic_value(&self, tag: elf::DynamicTag) -> Option<u64> {
        let tag = tag.0 as u64;
        self.dynamic.iter().rfind(|(t, _)| *t == tag).map(|(_, value)| *value)
    }

    /// Every value of a tag that may be repeated, in order.
    pub fn dynamic_values(&self, tag: elf::DynamicTag) -> impl Iterator<Item = u64> + '_ {
        let tag = tag.0 as u64;
        self.dynamic.iter().filter(move |(t, _)| *t == tag).map(|(_, value)| *value)
    }

    /// Bytes of the file, where all of them are there.
    pub fn file_range(&self, offset: u64, len: u64) -> Option<&'a [u8]> {
        let start = usize::try_from(offset).ok()?;
        let end = usize::try_from(offset.checked_add(len)?).ok()?;
        self.bytes.get(start..end)
    }

    /// The file's bytes from an address to the end of its segment's part of the file (or of the file, where that is
    /// cut). Where segments overlap the later one wins, as with mmap.
    pub fn from_vaddr(&self, addr: u64) -> Option<&'a [u8]> {
        let segment = self.loads.iter().rfind(|s| s.contains(addr))?;
        let into = addr.checked_sub(segment.vaddr)?;
        let left = segment.filesz.checked_sub(into)?;
        let start = usize::try_from(segment.offset.checked_add(into)?).ok()?;
        let rest = self.bytes.get(start..)?;
        let left = usize::try_from(left).unwrap_or(usize::MAX);
        Some(rest.get(..left).unwrap_or(rest))
    }

    /// `len` bytes at an address, where all of them are backed by the file.
    pub fn at_vaddr(&self, addr: u64, len: u64) -> Option<&'a [u8]> {
        self.from_vaddr(addr)?.get(..usize::try_from(len).ok()?)
    }

    /// A 16-bit number at an address.
    pub fn u16_at(&self, addr: u64) -> Option<u16> {
        Some(self.endian.read_u16(*self.from_vaddr(addr)?.first_chunk()?))
    }

    /// A 32-bit number at an address.
    pub fn u32_at(&self, addr: u64) -> Option<u32> {
        Some(self.endian.read_u32(*self.from_vaddr(addr)?.first_chunk()?))
    }

    /// A 64-bit number at an address.
    pub fn u64_at(&self, addr: u64) -> Option<u64> {
        Some(self.endian.read_u64(*self.from_vaddr(addr)?.first_chunk()?))
    }

    /// A number of the file's word size at an address.
    pub fn word_at(&self, addr: u64) -> Option<u64> {
        if self.is_64 { self.u64_at(addr) } else { self.u32_at(addr).map(u64::from) }
    }

    /// A 16-bit number at a place in a slice of the file.
    pub fn u16_in(&self, bytes: &[u8], at: usize) -> Option<u16> {
        Some(self.endian.read_u16(*bytes.get(at..)?.first_chunk()?))
    }

    /// A 32-bit number at a place in a slice of the file.
    pub fn u32_in(&self, bytes: &[u8], at: usize) -> Option<u32> {
        Some(self.endian.read_u32(*bytes.get(at..)?.first_chunk()?))
    }

    /// A 64-bit number at a place in a slice of the file.
    pub fn u64_in(&self, bytes: &[u8], at: usize) -> Option<u64> {
        Some(self.endian.read_u64(*bytes.get(at..)?.first_chunk()?))
    }

    /// A number of the file's word size at a place in a slice of the file.
    pub fn word_in(&self, bytes: &[u8], at: usize) -> Option<u64> {
        if self.is_64 { self.u64_in(bytes, at) } else { self.u32_in(bytes, at).map(u64::from) }
    }

    /// The string at an offset of DT_STRTAB, without its NUL. DT_STRSZ is not asked: loaders do not either.
    pub fn string(&self, offset: u64) -> Option<&'a [u8]> {
        let tail = self.strings?.get(usize::try_from(offset).ok()?..)?;
        until_nul(tail)
    }

    /// The file's bytes from DT_STRTAB on, for readers that look at many strings.
    pub fn strings(&self) -> Option<&'a [u8]> {
        self.strings
    }

    /// PT_INTERP: the interpreter's path up to its first NUL, `None` where there is no such segment.
    ///
    /// # Errors
    /// Why the kernel refuses the file: bytes outside of the file, or no NUL at the segment's end (ENOEXEC).
    pub fn interp(&self) -> Option<Result<&'a [u8]>> {
        // Linux takes the first PT_INTERP (load_elf_binary breaks out of its loop there).
        let segment = self.segment(elf::PT_INTERP)?;
        Some(self.read_interp(segment))
    }

    fn read_interp(&self, segment: &Segment) -> Result<&'a [u8]> {
        // Linux: filesz must be 2..=PATH_MAX (load_elf_binary).
        if !(2..=4096).contains(&segment.filesz) {
            return Err(Error::new(format!("PT_INTERP has {} bytes, Linux wants 2 to 4096", segment.filesz)));
        }
        let path = self
            .file_range(segment.offset, segment.filesz)
            .ok_or_else(|| Error::new("PT_INTERP lies past the end of the file"))?;
        match path.split_last() {
            Some((0, _)) => Ok(path.split(|b| *b == 0).next().unwrap_or(path)),
            _ => Err(Error::new("PT_INTERP does not end with NUL")),
        }
    }
}

/// The string at the start of `bytes`, without its NUL; none where no NUL comes within [`LONGEST_STRING`].
pub fn until_nul(bytes: &[u8]) -> Option<&[u8]> {
    let window = bytes.get(..LONGEST_STRING).unwrap_or(bytes);
    // Reads a word at a time, which a search by bytes does not.
    std::ffi::CStr::from_bytes_until_nul(window).ok().map(std::ffi::CStr::to_bytes)
}

/// The byte order that the header is written in, and whether EI_DATA names the other one. Linux never looks at EI_DATA,
/// so such a program runs: the size of a program header, which kernel and loader do check, decides.
fn byte_order<H: FileHeader<Endian = Endianness>>(header: &H) -> Result<(Endianness, bool)> {
    let data = header.e_ident().data.0;
    let (named, other) = match data {
        1 => (Endianness::Little, Endianness::Big),
        2 => (Endianness::Big, Endianness::Little),
        _ => return Err(Error::new(format!("the ELF header's byte order is {data}, neither 1 (little) nor 2 (big)"))),
    };
    let fits = |endian| usize::from(header.e_phentsize(endian)) == size_of::<H::ProgramHeader>();
    let lies = !fits(named) && fits(other);
    Ok(if lies { (other, true) } else { (named, false) })
}

fn short(bytes: &[u8]) -> Error {
    Error::new(format!("too short for an ELF header ({} bytes)", bytes.len()))
}

/// All program headers. The count is believed only as far as there are bytes.
fn program_headers<H: FileHeader<Endian = Endianness>>(
    header: &H,
    endian: Endianness,
    bytes: &[u8],
) -> Result<Vec<Segment>> {
    let offset: u64 = header.e_phoff(endian).into();
    let count = match header.e_phnum(endian) {
        elf::PN_XNUM => extended_phnum(header, endian, bytes)?,
        n => u64::from(n),
    };
    if offset == 0 || count == 0 {
        return Ok(Vec::new());
    }
    let entry = size_of::<H::ProgramHeader>();
    let declared = usize::from(header.e_phentsize(endian));
    if declared != entry {
        return Err(Error::new(format!("e_phentsize is {declared}, a program header has {entry} bytes")));
    }
    let cut = || {
        let have = bytes.len();
        Error::new(format!("{count} program headers at offset {offset:#x} do not fit the file ({have} bytes)"))
    };
    let table = usize::try_from(offset).ok().and_then(|o| bytes.get(o..)).ok_or_else(cut)?;
    let count = usize::try_from(count).map_err(|_| cut())?;
    let (raw, _) = pod::slice_from_bytes::<H::ProgramHeader>(table, count).map_err(|()| cut())?;
    Ok(raw.iter().map(|p| segment(p, endian)).collect())
}

fn segment<P: ProgramHeader<Endian = Endianness>>(p: &P, endian: Endianness) -> Segment {
    Segment {
        kind: p.p_type(endian).0,
        offset: p.p_offset(endian).into(),
        vaddr: p.p_vaddr(endian).into(),
        filesz: p.p_filesz(endian).into(),
        memsz: p.p_memsz(endian).into(),
        flags: p.p_flags(endian).0,
        align: p.p_align(endian).into(),
    }
}

/// More than 65,534 program headers: their number is in `sh_info` of section header 0.
fn extended_phnum<H: FileHeader<Endian = Endianness>>(header: &H, endian: Endianness, bytes: &[u8]) -> Result<u64> {
    match header.section_0(endian, bytes) {
        Ok(Some(section)) => Ok(u64::from(section.sh_info(endian))),
        _ => Err(Error::new("e_phnum is 0xffff, and there is no section header 0 to hold the real number")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::elf::synth::{Machine, control};

    /// Each malformed header has a reason of its own: a person who sees it knows which bytes to look at.
    #[test]
    fn malformed_headers_have_distinct_reasons() {
        let good = control(Machine::X86_64);
        let with = |at: usize, bytes: &[u8]| {
            let mut file = good.clone();
            file[at..at + bytes.len()].copy_from_slice(bytes);
            file
        };
        let cases = [
            (vec![], "too short for an ELF header (0 bytes)"),
            (good[..40].to_vec(), "too short for an ELF header (40 bytes)"),
            (with(0, b"#!/b"), "not an ELF file (the first four bytes are not its magic number)"),
            (with(4, &[3]), "the ELF header's class is 3, neither 1 (32 bit) nor 2 (64 bit)"),
            (with(5, &[0]), "the ELF header's byte order is 0, neither 1 (little) nor 2 (big)"),
            (with(54, &[55]), "e_phentsize is 55, a program header has 56 bytes"),
            (with(32, &[0xff; 8]), "2 program headers at offset 0xffffffffffffffff do not fit the file (185 bytes)"),
            (good[..100].to_vec(), "2 program headers at offset 0x40 do not fit the file (100 bytes)"),
            (with(56, &[0xff, 0xff]), "e_phnum is 0xffff, and there is no section header 0 to hold the real number"),
        ];
        for (file, reason) in cases {
            assert_eq!(Image::parse(&file).unwrap_err().to_string(), reason);
        }
    }

    #[test]
    fn the_control_reads_back() {
        let file = control(Machine::Aarch64);
        let image = Image::parse(&file).unwrap();
        assert!(image.is_64());
        assert_eq!((image.machine(), image.file_type()), (elf::EM_AARCH64.0, elf::ET_EXEC.0));
        assert_eq!(image.loads().len(), 1);
        assert!(image.dynamic().is_empty() && image.dynamic_fault().is_none() && image.interp().is_none());
        assert_eq!(image.at_vaddr(image.entry(), 4), Some(&[0xc8, 0x0b, 0x80, 0xd2][..]));
        assert_eq!(image.u32_at(image.entry()), Some(0xd280_0bc8));
        assert_eq!(image.at_vaddr(image.entry(), 1000), None);
        assert_eq!(image.from_vaddr(0x1000), None);
    }

    #[test]
    fn a_program_of_this_machine_reads() {
        let Ok(bytes) = std::fs::read("/bin/true") else { return };
        let image = Image::parse(&bytes).unwrap();
        assert!(image.dynamic_is_terminated());
        if let Some(interp) = image.interp() {
            assert!(interp.unwrap().starts_with(b"/"));
            let needed: Vec<_> = image.dynamic_values(elf::DT_NEEDED).map(|at| image.string(at)).collect();
            assert!(needed.iter().all(|n| n.is_some_and(|n| n.starts_with(b"lib"))), "{needed:?}");
        }
    }
}
