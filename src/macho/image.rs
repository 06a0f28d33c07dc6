//! One image: header, load commands, segments, sections. Numbers come out wide, counts are those of bytes that
//! are really there, and what cannot be read is a warning, not an end, once the header is good.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;

use object::Endianness;
use object::macho::{self, CpuSubtype, CpuType, FileFlags, FileType, SectionType};
use object::read::macho::{
    LoadCommandData, LoadCommandIterator, LoadCommandVariant, MachHeader, Section as _, Segment as _,
};

use super::{names, work};
use crate::error::{Error, Result};
use crate::facts::macho::{MachoDylib, MachoEncryption, MachoPlatform};

/// Contradictions that are listed; a damaged file can have one for each of its load commands.
const MOST_WARNINGS: usize = 32;

/// Load commands that are read. Real images have dozens; what is kept of each is larger than the command.
const MOST_COMMANDS: u64 = 1 << 16;

/// One segment of the image.
#[derive(Debug, Clone, Default)]
pub(super) struct Segment {
    pub name: String,
    pub vm_address: u64,
    pub vm_bytes: u64,
    pub file_offset: u64,
    pub file_bytes: u64,
    /// Initial protection: 1 read, 2 write, 4 execute.
    pub protection: u32,
    /// SG_READ_ONLY.
    pub read_only: bool,
}

impl Segment {
    /// The bytes of the file that it maps; empty where they are not all there.
    pub(super) fn data<'a>(&self, image: &'a [u8]) -> &'a [u8] {
        let end = self.file_offset.checked_add(self.file_bytes);
        let range = usize::try_from(self.file_offset).ok().zip(end.and_then(|e| usize::try_from(e).ok()));
        range.and_then(|(start, end)| image.get(start..end)).unwrap_or(&[])
    }

    pub(super) fn is_writable(&self) -> bool {
        self.protection & 2 != 0
    }
}

/// One section, as far as start-up cares.
#[derive(Debug, Clone)]
pub(super) struct Section {
    pub name: String,
    pub kind: SectionType,
    pub address: u64,
    pub bytes: u64,
    /// Index of its first entry in the indirect symbol table, where it has entries there.
    pub indirect_index: u32,
}

/// A range of the image: offset and size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Range {
    pub offset: u64,
    pub bytes: u64,
}

impl Range {
    /// The bytes, where they are all there.
    pub(super) fn data<'a>(&self, image: &'a [u8]) -> Option<&'a [u8]> {
        let end = self.offset.checked_add(self.bytes)?;
        image.get(usize::try_from(self.offset).ok()?..usize::try_from(end).ok()?)
    }
}

/// Tables of LC_DYLD_INFO.
#[derive(Debug, Clone, Copy)]
pub(super) struct DyldInfo {
    pub rebase: Range,
    pub bind: Range,
    pub weak_bind: Range,
    pub lazy_bind: Range,
    pub exports: Range,
}

/// Tables of LC_DYSYMTAB that matter before LC_DYLD_INFO: entries and their counts.
#[derive(Debug, Clone, Copy)]
pub(super) struct Dysymtab {
    pub indirect: (u32, u32),
    pub external_relocations: (u32, u32),
    pub local_relocations: (u32, u32),
}

/// One Mach-O image as its header and load commands describe it.
#[derive(Debug, Clone)]
pub(super) struct Image<'a> {
    pub data: &'a [u8],
    pub endian: Endianness,
    pub is_64: bool,
    pub cpu_type: CpuType,
    pub cpu_subtype: CpuSubtype,
    pub file_type: FileType,
    pub flags: FileFlags,
    pub segments: Vec<Segment>,
    pub sections: Vec<Section>,
    pub dylibs: Vec<MachoDylib>,
    pub rpaths: Vec<OsString>,
    pub id: Option<OsString>,
    pub dylinker: Option<OsString>,
    pub platforms: Vec<MachoPlatform>,
    pub entry: Option<&'static str>,
    pub dyld_info: Option<DyldInfo>,
    pub chained: Option<Range>,
    pub exports_trie: Option<Range>,
    pub signature: Option<Range>,
    pub dysymtab: Option<Dysymtab>,
    pub routines: bool,
    pub encryption: Option<MachoEncryption>,
    pub uuid: Option<String>,
    pub warnings: Vec<String>,
}

/// True where the bytes start like an image of either word size and byte order.
pub(super) fn is_thin(bytes: &[u8]) -> bool {
    matches!(
        bytes.get(..4),
        Some(b"\xfe\xed\xfa\xce" | b"\xce\xfa\xed\xfe" | b"\xfe\xed\xfa\xcf" | b"\xcf\xfa\xed\xfe")
    )
}

/// What the first words of an image say: machine, its variant, file type.
pub(super) fn head(bytes: &[u8]) -> Option<(CpuType, CpuSubtype, FileType)> {
    if !is_thin(bytes) {
        return None;
    }
    // These fields stand at the same place for both word sizes, but each header knows only its own magic number.
    if let Ok(header) = macho::MachHeader32::<Endianness>::parse(bytes, 0) {
        let e = header.endian().ok()?;
        return Some((header.cputype(e), header.cpusubtype(e), header.filetype(e)));
    }
    let header = macho::MachHeader64::<Endianness>::parse(bytes, 0).ok()?;
    let e = header.endian().ok()?;
    Some((header.cputype(e), header.cpusubtype(e), header.filetype(e)))
}

impl<'a> Image<'a> {
    /// Reads header and load commands.
    ///
    /// # Errors
    /// The header is cut off, or the load commands extend past the end.
    pub(super) fn parse(data: &'a [u8]) -> Result<Image<'a>> {
        match data.get(..4) {
            Some(b"\xfe\xed\xfa\xcf" | b"\xcf\xfa\xed\xfe") => read::<macho::MachHeader64<Endianness>>(data),
            Some(b"\xfe\xed\xfa\xce" | b"\xce\xfa\xed\xfe") => read::<macho::MachHeader32<Endianness>>(data),
            _ => Err(Error::new("not a Mach-O image")),
        }
    }

    /// Bytes of a pointer.
    pub(super) fn pointer_size(&self) -> u64 {
        if self.is_64 { 8 } else { 4 }
    }

    /// Most fixups that the image can hold: each takes at least four of its bytes.
    pub(super) fn most_fixups(&self) -> u64 {
        self.data.len() as u64 / 4
    }

    /// Sections of one type.
    pub(super) fn sections_of(&self, kind: SectionType) -> impl Iterator<Item = &Section> {
        self.sections.iter().filter(move |s| s.kind == kind)
    }

    /// Notes a contradiction.
    pub(super) fn warn(&mut self, text: impl Into<String>) {
        match self.warnings.len() {
            n if n < MOST_WARNINGS => self.warnings.push(text.into()),
            MOST_WARNINGS => self.warnings.push("more contradictions are not listed".to_string()),
            _ => {}
        }
    }
}

fn read<'a, M: MachHeader<Endian = Endianness>>(data: &'a [u8]) -> Result<Image<'a>> {
    let header = M::parse(data, 0).map_err(|_| Error::new("the Mach-O header is cut off"))?;
    let endian = header.endian().map_err(|_| Error::new("the Mach-O header has no byte order"))?;
    let mut commands = header
        .load_commands(endian, data, 0)
        .map_err(|_| Error::new("the load commands extend past the end of the image"))?;
    let mut image = Image {
        data,
        endian,
        is_64: header.is_type_64(),
        cpu_type: header.cputype(endian),
        cpu_subtype: header.cpusubtype(endian),
        file_type: header.filetype(endian),
        flags: header.flags(endian),
        segments: Vec::new(),
        sections: Vec::new(),
        dylibs: Vec::new(),
        rpaths: Vec::new(),
        id: None,
        dylinker: None,
        platforms: Vec::new(),
        entry: None,
        dyld_info: None,
        chained: None,
        exports_trie: None,
        signature: None,
        dysymtab: None,
        routines: false,
        encryption: None,
        uuid: None,
        warnings: Vec::new(),
    };
    take_all::<M>(&mut image, &mut commands);
    Ok(image)
}

/// Takes all load commands; one that is cut off is passed over, one that runs out of the table ends it.
fn take_all<'a, M: MachHeader<Endian = Endianness>>(
    image: &mut Image<'a>,
    commands: &mut LoadCommandIterator<'a, Endianness>,
) {
    for number in 0..MOST_COMMANDS {
        work::count(1);
        match commands.next() {
            Ok(Some(command)) => {
                if take::<M>(image, command).is_err() {
                    let kind = command.cmd().0;
                    image.warn(format!("load command {number} ({kind:#x}) is cut off: dyld refuses the image"));
                }
            }
            Ok(None) => return,
            Err(_) => {
                image.warn(format!("load command {number} extends past the end of the table: the rest is not read"));
                return;
            }
        }
    }
    image.warn(format!("more than {MOST_COMMANDS} load commands: the rest is not read"));
}

/// Takes what one load command says.
fn take<'a, M: MachHeader<Endian = Endianness>>(
    image: &mut Image<'a>,
    command: LoadCommandData<'a, Endianness>,
) -> object::Result<()> {
    let e = image.endian;
    if let Some((segment, sections)) = M::Segment::from_command(command)? {
        return take_segment::<M>(image, segment, sections);
    }
    match command.variant()? {
        LoadCommandVariant::Dylib(dylib) => take_dylib(image, command, dylib)?,
        LoadCommandVariant::IdDylib(dylib) => image.id = Some(text(command.string(e, dylib.dylib.name)?)),
        LoadCommandVariant::LoadDylinker(linker) => image.dylinker = Some(text(command.string(e, linker.name)?)),
        LoadCommandVariant::Rpath(rpath) => image.rpaths.push(text(command.string(e, rpath.path)?)),
        LoadCommandVariant::LinkeditData(data) => {
            let range = Some(range(data.dataoff.get(e), data.datasize.get(e)));
            match command.cmd() {
                macho::LC_DYLD_CHAINED_FIXUPS => image.chained = range,
                macho::LC_DYLD_EXPORTS_TRIE => image.exports_trie = range,
                macho::LC_CODE_SIGNATURE => image.signature = range,
                _ => {}
            }
        }
        LoadCommandVariant::DyldInfo(info) => image.dyld_info = Some(dyld_info(info, e)),
        LoadCommandVariant::Dysymtab(table) => image.dysymtab = Some(dysymtab(table, e)),
        LoadCommandVariant::BuildVersion(build, _) => image.platforms.push(MachoPlatform {
            name: names::platform(build.platform.get(e)),
            min_version: names::version(build.minos.get(e).0),
            sdk: names::version(build.sdk.get(e).0),
        }),
        LoadCommandVariant::VersionMin(min) => image.platforms.push(MachoPlatform {
            name: oldest_platform(command.cmd()).to_string(),
            min_version: names::version(min.version.get(e).0),
            sdk: names::version(min.sdk.get(e).0),
        }),
        LoadCommandVariant::EntryPoint(_) => image.entry = Some("main"),
        // LC_THREAD is for core files.
        LoadCommandVariant::Thread(..) if command.cmd() == macho::LC_UNIXTHREAD => image.entry = Some("thread"),
        LoadCommandVariant::Routines32(_) | LoadCommandVariant::Routines64(_) => image.routines = true,
        LoadCommandVariant::EncryptionInfo32(info) => {
            image.encryption =
                Some(MachoEncryption { bytes: info.cryptsize.get(e).into(), system: info.cryptid.get(e) });
        }
        LoadCommandVariant::EncryptionInfo64(info) => {
            image.encryption =
                Some(MachoEncryption { bytes: info.cryptsize.get(e).into(), system: info.cryptid.get(e) });
        }
        LoadCommandVariant::Uuid(uuid) => image.uuid = Some(uuid_text(&uuid.uuid)),
        _ => {}
    }
    Ok(())
}

fn dyld_info(info: &macho::DyldInfoCommand<Endianness>, e: Endianness) -> DyldInfo {
    DyldInfo {
        rebase: range(info.rebase_off.get(e), info.rebase_size.get(e)),
        bind: range(info.bind_off.get(e), info.bind_size.get(e)),
        weak_bind: range(info.weak_bind_off.get(e), info.weak_bind_size.get(e)),
        lazy_bind: range(info.lazy_bind_off.get(e), info.lazy_bind_size.get(e)),
        exports: range(info.export_off.get(e), info.export_size.get(e)),
    }
}

fn dysymtab(table: &macho::DysymtabCommand<Endianness>, e: Endianness) -> Dysymtab {
    Dysymtab {
        indirect: (table.indirectsymoff.get(e), table.nindirectsyms.get(e)),
        external_relocations: (table.extreloff.get(e), table.nextrel.get(e)),
        local_relocations: (table.locreloff.get(e), table.nlocrel.get(e)),
    }
}

fn range(offset: u32, bytes: u32) -> Range {
    Range { offset: offset.into(), bytes: bytes.into() }
}

fn text(bytes: &[u8]) -> OsString {
    OsString::from_vec(bytes.to_vec())
}

fn name16(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Platform of the load commands before LC_BUILD_VERSION.
fn oldest_platform(command: macho::LoadCommandType) -> &'static str {
    match command {
        macho::LC_VERSION_MIN_IPHONEOS => "ios",
        macho::LC_VERSION_MIN_TVOS => "tvos",
        macho::LC_VERSION_MIN_WATCHOS => "watchos",
        _ => "macos",
    }
}

/// 8-4-4-4-12 capital hexadecimal digits.
fn uuid_text(uuid: &[u8; 16]) -> String {
    let mut out = String::with_capacity(36);
    for (i, byte) in uuid.iter().enumerate() {
        if matches!(i, 4 | 6 | 8 | 10) {
            out.push('-');
        }
        out.push_str(&format!("{byte:02X}"));
    }
    out
}

fn take_segment<M: MachHeader<Endian = Endianness>>(
    image: &mut Image<'_>,
    segment: &M::Segment,
    section_data: &[u8],
) -> object::Result<()> {
    let e = image.endian;
    let (file_offset, file_bytes) = segment.file_range(e);
    let taken = Segment {
        name: name16(segment.name()),
        vm_address: segment.vmaddr(e).into(),
        vm_bytes: segment.vmsize(e).into(),
        file_offset,
        file_bytes,
        protection: segment.initprot(e).0,
        read_only: segment.flags(e).contains(macho::SG_READ_ONLY),
    };
    let past_end = file_offset.checked_add(file_bytes).is_none_or(|end| end > image.data.len() as u64);
    // A dSYM keeps the addresses of segments whose bytes are elsewhere.
    if past_end && image.file_type != macho::MH_DSYM {
        image.warn(format!("segment {} extends past the end of the image: dyld refuses it", taken.name));
    }
    image.segments.push(taken);
    for section in segment.sections(e, section_data)? {
        work::count(1);
        image.sections.push(Section {
            name: name16(section.name()),
            kind: section.section_type(e),
            address: section.addr(e).into(),
            bytes: section.size(e).into(),
            indirect_index: section.reserved1(e),
        });
    }
    Ok(())
}

fn take_dylib<'a>(
    image: &mut Image<'a>,
    command: LoadCommandData<'a, Endianness>,
    dylib: &macho::DylibCommand<Endianness>,
) -> object::Result<()> {
    let e = image.endian;
    let name = text(command.string(e, dylib.dylib.name)?);
    // With the newer form the flags decide; the command's type is then only what older systems are to do.
    let flags = command.dylib_use_flags(e, dylib)?;
    let has = |old: macho::LoadCommandType, new: macho::DylibUseFlags| {
        flags.map_or(command.cmd() == old, |f| f.contains(new))
    };
    image.dylibs.push(MachoDylib {
        weak: has(macho::LC_LOAD_WEAK_DYLIB, macho::DYLIB_USE_WEAK_LINK),
        reexport: has(macho::LC_REEXPORT_DYLIB, macho::DYLIB_USE_REEXPORT),
        upward: has(macho::LC_LOAD_UPWARD_DYLIB, macho::DYLIB_USE_UPWARD),
        lazy: command.cmd() == macho::LC_LAZY_LOAD_DYLIB,
        delayed_init: flags.is_some_and(|f| f.contains(macho::DYLIB_USE_DELAYED_INIT)),
        current_version: names::version(dylib.dylib.current_version.get(e).0),
        compatibility_version: names::version(dylib.dylib.compatibility_version.get(e).0),
        name,
    });
    Ok(())
}
