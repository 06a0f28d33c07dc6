//! A second opinion: the same header facts by `goblin`, a parser that shares no code with ours, field by field.
//!
//! Only its readers of headers, program headers, dynamic entries, relocation records and load commands are called, with
//! ranges that were checked here: its whole-file readers trust more than a hostile file deserves. RELR, Android's packed
//! relocations and chained fixups it does not know, so they are not compared.

#![deny(clippy::indexing_slicing, clippy::arithmetic_side_effects, clippy::unwrap_used)]

/// A field on which the two parsers disagree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Disagreement {
    /// The field.
    pub field: String,
    /// What we read.
    pub ours: String,
    /// What the other read.
    pub theirs: String,
}

/// What came of a comparison.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CrossCheck {
    /// Fields compared.
    pub fields: u64,
    /// Those that differ.
    pub disagreements: Vec<Disagreement>,
}

impl CrossCheck {
    fn compare<T: PartialEq + std::fmt::Debug>(&mut self, field: &str, ours: T, theirs: T) {
        self.fields = self.fields.saturating_add(1);
        if ours != theirs {
            let (ours, theirs) = (format!("{ours:?}"), format!("{theirs:?}"));
            self.disagreements.push(Disagreement { field: field.to_string(), ours, theirs });
        }
    }
}

#[cfg(not(feature = "cross-check"))]
/// Not built in.
///
/// # Errors
/// Always.
pub fn cross_check(_bytes: &[u8], _facts: &crate::facts::LinkFacts) -> crate::error::Result<CrossCheck> {
    Err(crate::error::Error::new("this build has no second parser (feature cross-check)"))
}

#[cfg(feature = "cross-check")]
pub use second::cross_check;

#[cfg(feature = "cross-check")]
mod second {
    use std::collections::BTreeMap;
    use std::os::unix::ffi::OsStrExt;

    use goblin::container::{Container, Ctx, Endian};
    use goblin::elf::dynamic::{self, Dynamic};
    use goblin::elf::program_header::{self, ProgramHeader};
    use goblin::elf::reloc::RelocSection;
    use goblin::elf::{Elf, header::Header};
    use goblin::mach::load_command::{CommandVariant, LoadCommand};

    use super::CrossCheck;
    use crate::error::{Error, Result};
    use crate::facts::{Fact, Format, LinkFacts};

    /// Compares the facts of one image with what goblin reads from the same bytes.
    ///
    /// # Errors
    /// Where goblin cannot read the headers at all.
    pub fn cross_check(bytes: &[u8], facts: &LinkFacts) -> Result<CrossCheck> {
        let mut check = CrossCheck::default();
        match facts.format {
            Format::Elf => elf(bytes, facts, &mut check)?,
            Format::MachO => macho(bytes, facts, &mut check)?,
            Format::Script => {}
        }
        Ok(check)
    }

    fn theirs(e: &goblin::error::Error) -> Error {
        Error::new(format!("goblin: {e}"))
    }

    fn elf(bytes: &[u8], facts: &LinkFacts, check: &mut CrossCheck) -> Result<()> {
        let header = Elf::parse_header(bytes).map_err(|e| theirs(&e))?;
        let container = header.container().map_err(|e| theirs(&e))?;
        let ctx = Ctx::new(container, header.endianness().map_err(|e| theirs(&e))?);
        check.compare("bits", facts.bits, if container.is_big() { 64 } else { 32 });
        check.compare("endian", facts.endian.name(), if ctx.is_little_endian() { "little" } else { "big" });
        check.compare("size of the file", facts.size_bytes, bytes.len() as u64);
        let Some(extra) = &facts.elf else { return Ok(()) };
        check.compare("entry", extra.entry, header.e_entry);
        let phdrs = program_headers(bytes, &header, ctx)?;
        segments(&phdrs, facts, check);
        let interp = phdrs.iter().find(|p| p.p_type == program_header::PT_INTERP);
        let interp = interp.and_then(|p| string_at(bytes, p.p_offset));
        let ours = match &facts.interp {
            Fact::Value(path) => Some(path.as_os_str().as_bytes()),
            _ => None,
        };
        check.compare("interp", ours, interp);
        if let Some(dynamic) = Dynamic::parse(bytes, &phdrs, ctx).map_err(|e| theirs(&e))? {
            names(bytes, &dynamic, facts, check);
            relocations(bytes, &dynamic, header.e_machine, ctx, facts, check);
        }
        Ok(())
    }

    fn program_headers(bytes: &[u8], header: &Header, ctx: Ctx) -> Result<Vec<ProgramHeader>> {
        let size = usize::from(header.e_phnum).saturating_mul(usize::from(header.e_phentsize));
        let offset = usize::try_from(header.e_phoff).unwrap_or(usize::MAX);
        if offset.checked_add(size).is_none_or(|end| end > bytes.len()) {
            return Err(Error::new("goblin: the program headers lie past the end of the file"));
        }
        ProgramHeader::parse(bytes, offset, usize::from(header.e_phnum), ctx).map_err(|e| theirs(&e))
    }

    fn segments(phdrs: &[ProgramHeader], facts: &LinkFacts, check: &mut CrossCheck) {
        let Some(extra) = &facts.elf else { return };
        check.compare("segments", extra.segments.len(), phdrs.len());
        for (i, (ours, p)) in extra.segments.iter().zip(phdrs).enumerate() {
            let flag = |bit, letter| if p.p_flags & bit != 0 { letter } else { '-' };
            let flags: String = [flag(program_header::PF_R, 'r'), flag(program_header::PF_W, 'w')]
                .into_iter()
                .chain([flag(program_header::PF_X, 'x')])
                .collect();
            let theirs = (flags, p.p_offset, p.p_vaddr, p.p_filesz, p.p_memsz, p.p_align);
            let ours = (ours.flags.clone(), ours.offset, ours.vaddr, ours.file_bytes, ours.memory_bytes, ours.align);
            check.compare(&format!("segment {i}"), ours, theirs);
        }
        let tls = phdrs.iter().find(|p| p.p_type == program_header::PT_TLS).map_or(0, |p| p.p_memsz);
        check.compare("tls_bytes", facts.tls_bytes, tls);
    }

    /// A string up to its NUL.
    fn string_at(bytes: &[u8], offset: u64) -> Option<&[u8]> {
        let tail = bytes.get(usize::try_from(offset).ok()?..)?;
        tail.iter().take(1 << 20).position(|b| *b == 0).and_then(|end| tail.get(..end))
    }

    fn names(bytes: &[u8], dynamic: &Dynamic, facts: &LinkFacts, check: &mut CrossCheck) {
        let strings = dynamic.info.strtab as u64;
        let all = |tag: u64| -> Vec<&[u8]> {
            let values = dynamic.dyns.iter().take_while(|d| d.d_tag != 0).filter(|d| d.d_tag == tag);
            values.filter_map(|d| string_at(bytes, strings.checked_add(d.d_val)?)).collect()
        };
        let ours =
            |list: &[std::ffi::OsString]| -> Vec<Vec<u8>> { list.iter().map(|n| n.as_bytes().to_vec()).collect() };
        let owned = |list: Vec<&[u8]>| -> Vec<Vec<u8>> { list.into_iter().map(<[u8]>::to_vec).collect() };
        check.compare("needed", ours(&facts.needed), owned(all(dynamic::DT_NEEDED)));
        let soname: Option<Vec<u8>> = all(dynamic::DT_SONAME).last().map(|s| s.to_vec());
        check.compare("soname", facts.soname.as_ref().map(|s| s.as_bytes().to_vec()), soname);
        for (field, list, tag) in
            [("runpath", &facts.runpath, dynamic::DT_RUNPATH), ("rpath", &facts.rpath, dynamic::DT_RPATH)]
        {
            let joined = list.iter().map(|n| n.as_bytes()).collect::<Vec<_>>().join(&b':');
            check.compare(field, joined, all(tag).last().map(|s| s.to_vec()).unwrap_or_default());
        }
        let now = dynamic.info.flags & dynamic::DF_BIND_NOW != 0
            || dynamic.info.flags_1 & dynamic::DF_1_NOW != 0
            || dynamic.dyns.iter().any(|d| d.d_tag == dynamic::DT_BIND_NOW);
        check.compare("bind_now", facts.bind_now, now);
        let init = dynamic.info.init_arraysz as u64;
        check.compare("init_array bytes", facts.init.init_array.saturating_mul(u64::from(facts.bits / 8)), init);
        let textrel = dynamic.info.textrel || dynamic.info.flags & dynamic::DF_TEXTREL != 0;
        check.compare("textrel", facts.textrel, textrel);
    }

    /// Records by class, the class taken from goblin's name of the type.
    fn relocations(bytes: &[u8], dynamic: &Dynamic, machine: u16, ctx: Ctx, facts: &LinkFacts, check: &mut CrossCheck) {
        let info = &dynamic.info;
        let word = if ctx.container.is_big() { 8usize } else { 4 };
        let plt_has_addend = info.pltrel == dynamic::DT_RELA;
        let mut tables = vec![(info.rela, info.relasz, true), (info.rel, info.relsz, false)];
        // Where the slots' table lies inside another one, its records are already counted.
        let inside = tables.iter().any(|(at, size, _)| info.jmprel >= *at && info.jmprel < at.saturating_add(*size));
        if !inside {
            tables.push((info.jmprel, info.pltrelsz, plt_has_addend));
        }
        let mut counts: BTreeMap<&'static str, u64> = BTreeMap::new();
        for (offset, size, has_addend) in tables {
            let fits = offset.checked_add(size).is_some_and(|end| end <= bytes.len());
            if size == 0 || !fits {
                continue;
            }
            let record = word.saturating_mul(if has_addend { 3 } else { 2 });
            let whole = size.saturating_sub(size.checked_rem(record).unwrap_or(0));
            let Ok(section) = RelocSection::parse(bytes, offset, whole, has_addend, ctx) else { continue };
            for r in section.iter() {
                let class = class_of(goblin::elf::reloc::r_to_str(r.r_type, machine));
                let count = counts.entry(class).or_insert(0);
                *count = count.saturating_add(1);
            }
        }
        // Types that goblin has no name for can only be compared in number.
        if counts.contains_key("unknown") || machine == goblin::elf::header::EM_MIPS {
            let total = counts.values().fold(0u64, |sum, n| sum.saturating_add(*n));
            let r = &facts.relocations;
            check.compare("relocation records", r.total().saturating_sub(r.relr), total);
            return;
        }
        for (class, ours) in facts.relocations.classes() {
            if class != "relr" {
                check.compare(&format!("relocations.{class}"), ours, counts.get(class).copied().unwrap_or(0));
            }
        }
    }

    fn class_of(name: &str) -> &'static str {
        let words = [
            ("IRELATIV", "irelative"),
            ("RELATIVE", "relative"),
            ("GLOB_DAT", "glob_dat"),
            ("JUMP_SLOT", "jump_slot"),
            ("JMP_SLOT", "jump_slot"),
            ("COPY", "copy"),
            ("TLS", "tls"),
            ("DTPMOD", "tls"),
            ("DTPOFF", "tls"),
            ("DTPREL", "tls"),
            ("TPOFF", "tls"),
            ("TPREL", "tls"),
            ("_NONE", "none"),
            ("R_UNKNOWN", "unknown"),
        ];
        words.iter().find(|(part, _)| name.contains(part)).map_or("absolute", |(_, class)| *class)
    }

    fn macho(bytes: &[u8], facts: &LinkFacts, check: &mut CrossCheck) -> Result<()> {
        let Some(extra) = &facts.macho else { return Ok(()) };
        let bytes = match &extra.slice {
            None => bytes,
            Some(slice) => {
                let start = usize::try_from(slice.offset).unwrap_or(usize::MAX);
                let size = usize::try_from(slice.size_bytes).unwrap_or(usize::MAX);
                let range = bytes.get(start..).map(|rest| rest.get(..size).unwrap_or(rest));
                range.ok_or_else(|| Error::new("goblin: the slice lies past the end of the file"))?
            }
        };
        let (_, ctx) = goblin::mach::parse_magic_and_ctx(bytes, 0).map_err(|e| theirs(&e))?;
        let Some(ctx) = ctx else { return Err(Error::new("goblin: not a Mach-O image")) };
        check.compare("bits", facts.bits, if ctx.container.is_big() { 64 } else { 32 });
        check.compare("endian", facts.endian.name(), if ctx.is_little_endian() { "little" } else { "big" });
        let commands = load_commands(bytes, ctx);
        let name = |command: &LoadCommand, at: u32| {
            string_at(bytes, (command.offset as u64).saturating_add(u64::from(at))).unwrap_or_default().to_vec()
        };
        let mut needed: Vec<Vec<u8>> = Vec::new();
        let mut segments: Vec<(Vec<u8>, u64, u64)> = Vec::new();
        let mut rpaths: Vec<Vec<u8>> = Vec::new();
        let mut soname = None;
        let mut interp = None;
        let mut uuid = None;
        for command in &commands {
            match &command.command {
                CommandVariant::LoadDylib(d)
                | CommandVariant::LoadWeakDylib(d)
                | CommandVariant::ReexportDylib(d)
                | CommandVariant::LazyLoadDylib(d)
                | CommandVariant::LoadUpwardDylib(d) => needed.push(name(command, d.dylib.name)),
                CommandVariant::IdDylib(d) => soname = Some(name(command, d.dylib.name)),
                CommandVariant::LoadDylinker(d) => interp = Some(name(command, d.name)),
                CommandVariant::Segment32(s) => {
                    segments.push((name16(&s.segname), s.vmsize.into(), s.filesize.into()));
                }
                CommandVariant::Segment64(s) => segments.push((name16(&s.segname), s.vmsize, s.filesize)),
                CommandVariant::Rpath(r) => rpaths.push(name(command, r.path)),
                CommandVariant::Uuid(u) => uuid = Some(u.uuid),
                _ => {}
            }
        }
        let ours: Vec<Vec<u8>> = facts.needed.iter().map(|n| n.as_bytes().to_vec()).collect();
        check.compare("needed", ours, needed);
        check.compare("soname", facts.soname.as_ref().map(|s| s.as_bytes().to_vec()), soname);
        check.compare("interp", facts.interp.value().map(|p| p.as_os_str().as_bytes().to_vec()), interp);
        let ours: Vec<Vec<u8>> = facts.rpath.iter().map(|n| n.as_bytes().to_vec()).collect();
        check.compare("rpath", ours, rpaths);
        check.compare("segments", extra.segments.len(), segments.len());
        for (ours, theirs) in extra.segments.iter().zip(segments) {
            let ours = (ours.name.as_bytes().to_vec(), ours.vm_bytes, ours.file_bytes);
            check.compare("segment", ours, theirs);
        }
        let plain = |text: &String| text.chars().filter(char::is_ascii_hexdigit).collect::<String>().to_lowercase();
        let uuid: Option<String> = uuid.map(|u| u.iter().map(|b| format!("{b:02x}")).collect());
        check.compare("uuid", extra.uuid.as_ref().map(plain), uuid);
        Ok(())
    }

    /// A segment's name up to its NUL.
    fn name16(bytes: &[u8; 16]) -> Vec<u8> {
        bytes.iter().copied().take_while(|b| *b != 0).collect()
    }

    /// Load commands as far as they advance inside the bytes.
    fn load_commands(bytes: &[u8], ctx: Ctx) -> Vec<LoadCommand> {
        let word = |at: usize| -> usize {
            let raw: [u8; 4] = bytes.get(at..).and_then(|rest| rest.first_chunk()).copied().unwrap_or_default();
            let n = if ctx.le == Endian::Little { u32::from_le_bytes(raw) } else { u32::from_be_bytes(raw) };
            usize::try_from(n).unwrap_or(0)
        };
        let mut offset = if ctx.container == Container::Big { 32usize } else { 28 };
        let mut all = Vec::new();
        // A command has at least 8 bytes.
        for _ in 0..word(16).min(bytes.len() / 8) {
            let start = offset;
            // goblin adds the command's size unchecked.
            if bytes.len() <= start || word(start.saturating_add(4)) > bytes.len() {
                break;
            }
            match LoadCommand::parse(bytes, &mut offset, ctx.le) {
                Ok(command) => all.push(command),
                Err(_) => break,
            }
            if offset <= start {
                break;
            }
        }
        all
    }

    #[cfg(test)]
    mod tests {
        use super::*;
        use crate::elf::synth::{Import, Machine, Packing, Recipe, Relative, Use};
        use std::path::Path;

        fn check_of(bytes: &[u8]) -> CrossCheck {
            let facts = crate::elf::link_facts(Path::new("x"), bytes).unwrap();
            cross_check(bytes, &facts).unwrap()
        }

        #[test]
        fn both_parsers_agree_on_what_we_write() {
            for machine in [Machine::X86_64, Machine::Aarch64] {
                let recipe = Recipe {
                    interp: Some(b"/lib/ld.so.1".to_vec()),
                    needed: vec![b"liba.so".to_vec(), b"libb.so".to_vec()],
                    runpath: Some(b"/opt/lib:$ORIGIN".to_vec()),
                    relative: Some(Relative { count: 50, stride: 16, packing: Packing::Plain }),
                    imports: vec![Import::new("f", Use::JumpSlot), Import::new("d", Use::GlobDat)],
                    constructors: 2,
                    tls_bytes: 8,
                    ..Recipe::program(machine.into())
                };
                let check = check_of(&recipe.build());
                assert_eq!(check.disagreements, []);
                assert!(check.fields > 25, "{}", check.fields);
            }
        }

        #[test]
        fn a_wrong_fact_is_found() {
            let bytes = Recipe { tls_bytes: 8, ..Recipe::program(Machine::X86_64.into()) }.build();
            let mut facts = crate::elf::link_facts(Path::new("x"), &bytes).unwrap();
            facts.tls_bytes = 9;
            facts.relocations.relative = 1;
            let fields: Vec<String> =
                cross_check(&bytes, &facts).unwrap().disagreements.into_iter().map(|d| d.field).collect();
            assert_eq!(fields, ["tls_bytes", "relocations.relative"]);
        }
    }
}
