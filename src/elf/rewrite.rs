//! Changes of link settings in a finished file, as far as the format allows them without linking anew. The result is a
//! new array of bytes; what cannot be done safely is refused with the reason.
//!
//! For 64-bit little-endian files, the only ones that this tool can also run.

#![deny(clippy::indexing_slicing, clippy::arithmetic_side_effects, clippy::unwrap_used)]

use object::elf;

use super::image::{Image, Segment};
use super::machine::{Class, Classes};
use super::relocation::Tables;
use super::relro::protected;
use crate::error::{Context, Error, Result};
use crate::facts::Endian;

/// One change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// Bind everything at start.
    BindNow,
    /// Bind functions at their first call.
    Lazy,
    /// Protect nothing after relocation.
    NoRelro,
    /// Remove a DT_NEEDED.
    DropNeeded(Vec<u8>),
    /// Give each needed library (in order, by name) the path that it has on this host.
    AbsoluteNeeded(Vec<(Vec<u8>, Vec<u8>)>),
}

const DYN_BYTES: usize = 16;
const PAGE: u64 = 4096;

/// Applies one change to a copy.
///
/// # Errors
/// Why this file cannot be changed so.
pub fn rewritten(bytes: &[u8], change: &Change) -> Result<Vec<u8>> {
    let image = Image::parse(bytes)?;
    if !image.is_64() || image.endian() != Endian::Little {
        return Err(Error::new("only 64-bit little-endian files are rewritten"));
    }
    let dynamic = image.segment(elf::PT_DYNAMIC).context(|| "a static program: nothing to change without linking")?;
    let mut file = File { bytes: bytes.to_vec(), dynamic: *dynamic };
    match change {
        Change::BindNow => file.bind_now()?,
        Change::Lazy => {
            refuse_lazy(&image)?;
            file.lazy()?;
        }
        Change::NoRelro => file.no_relro(&image)?,
        Change::DropNeeded(name) => file.drop_needed(&image, name)?,
        Change::AbsoluteNeeded(paths) => file.absolute_needed(&image, paths)?,
    }
    Ok(file.bytes)
}

struct File {
    bytes: Vec<u8>,
    dynamic: Segment,
}

impl File {
    fn u64(&self, at: usize) -> Result<u64> {
        let raw = self.bytes.get(at..).and_then(|b| b.first_chunk::<8>()).context(|| "the file ends too early")?;
        Ok(u64::from_le_bytes(*raw))
    }

    fn put(&mut self, at: usize, bytes: &[u8]) -> Result<()> {
        let room = self.bytes.get_mut(at..at.saturating_add(bytes.len()));
        room.context(|| "the file ends too early")?.copy_from_slice(bytes);
        Ok(())
    }

    /// Entries of the dynamic table, the terminators included.
    fn entries(&self) -> Result<Vec<(u64, u64)>> {
        let start = as_usize(self.dynamic.offset)?;
        let count = as_usize(self.dynamic.filesz)? / DYN_BYTES;
        (0..count)
            .map(|i| {
                let at = start.saturating_add(i.saturating_mul(DYN_BYTES));
                Ok((self.u64(at)?, self.u64(at.saturating_add(8))?))
            })
            .collect()
    }

    fn put_entries(&mut self, entries: &[(u64, u64)]) -> Result<()> {
        let start = as_usize(self.dynamic.offset)?;
        for (i, (tag, value)) in entries.iter().enumerate() {
            let at = start.saturating_add(i.saturating_mul(DYN_BYTES));
            self.put(at, &tag.to_le_bytes())?;
            self.put(at.saturating_add(8), &value.to_le_bytes())?;
        }
        Ok(())
    }

    /// Changes the first entry of a tag, or takes a spare terminator for it.
    fn set(&mut self, tag: elf::DynamicTag, value: impl Fn(u64) -> u64) -> Result<()> {
        let mut entries = self.entries()?;
        let tag = tag.0 as u64;
        let end = entries.iter().position(|(t, _)| *t == 0).unwrap_or(entries.len());
        let place = entries.iter().take(end).position(|(t, _)| *t == tag);
        // The last terminator has to stay.
        let place = place.or_else(|| (end.saturating_add(1) < entries.len()).then_some(end));
        let entry = place.and_then(|p| entries.get_mut(p));
        let entry = entry.context(|| "the dynamic table has no room for another entry")?;
        *entry = if entry.0 == tag { (tag, value(entry.1)) } else { (tag, value(0)) };
        self.put_entries(&entries)
    }

    fn bind_now(&mut self) -> Result<()> {
        self.set(elf::DT_FLAGS, |v| v | elf::DF_BIND_NOW.0)
    }

    fn lazy(&mut self) -> Result<()> {
        let mut entries = self.entries()?;
        let (flags, flags_1, bind_now) = (elf::DT_FLAGS.0 as u64, elf::DT_FLAGS_1.0 as u64, elf::DT_BIND_NOW.0 as u64);
        let len = entries.len();
        entries.retain(|(tag, _)| *tag != bind_now);
        entries.resize(len, (0, 0));
        for (tag, value) in &mut entries {
            if *tag == flags {
                *value &= !elf::DF_BIND_NOW.0;
            } else if *tag == flags_1 {
                *value &= !elf::DF_1_NOW.0;
            }
        }
        self.put_entries(&entries)
    }

    /// Where the program header of a kind lies in the file.
    fn header_of(&self, image: &Image<'_>, kind: elf::ProgramType) -> Result<Option<usize>> {
        let start = as_usize(self.u64(32)?)?;
        let index = image.segments().iter().position(|s| s.kind == kind.0);
        Ok(index.map(|i| start.saturating_add(i.saturating_mul(56))))
    }

    fn no_relro(&mut self, image: &Image<'_>) -> Result<()> {
        let at = self.header_of(image, elf::PT_GNU_RELRO)?.context(|| "it has no RELRO segment")?;
        self.put(at, &elf::PT_NULL.0.to_le_bytes())
    }

    fn drop_needed(&mut self, image: &Image<'_>, name: &[u8]) -> Result<()> {
        let shown = String::from_utf8_lossy(name).into_owned();
        if super::symbols::needed_versions(image).iter().any(|v| v.library == name) {
            let why = "it needs versions of that library's symbols: ld.so would end the start";
            return Err(Error::new(why).context(shown));
        }
        let mut entries = self.entries()?;
        let needed = elf::DT_NEEDED.0 as u64;
        let is_it = |(tag, value): &(u64, u64)| *tag == needed && image.string(*value) == Some(name);
        let place = entries.iter().position(is_it).context(|| format!("{shown} is not among its DT_NEEDED"))?;
        entries.remove(place);
        entries.push((0, 0));
        self.put_entries(&entries)
    }

    /// A copy of the string table with the paths behind it, in a new segment at the file's end, whose header takes the
    /// place of a note's.
    fn absolute_needed(&mut self, image: &Image<'_>, paths: &[(Vec<u8>, Vec<u8>)]) -> Result<()> {
        let note = self.header_of(image, elf::PT_NOTE)?.context(|| "it has no note whose header could be reused")?;
        let mut entries = self.entries()?;
        let find = |tag: elf::DynamicTag| entries.iter().find(|(t, _)| *t == tag.0 as u64).map(|(_, v)| *v);
        let (old, len) = find(elf::DT_STRTAB).zip(find(elf::DT_STRSZ)).context(|| "it has no string table")?;
        let strings = image.at_vaddr(old, len).context(|| "its string table does not lie in the file")?;
        let end = image.loads().iter().map(Segment::end).max().unwrap_or(0);
        let offset = (self.bytes.len() as u64).next_multiple_of(PAGE);
        let vaddr = end.next_multiple_of(PAGE.saturating_mul(16)).saturating_add(offset % PAGE);
        let mut table = strings.to_vec();
        let mut moved: Vec<(Vec<u8>, u64)> = Vec::new();
        for (tag, value) in &mut entries {
            if *tag == elf::DT_NEEDED.0 as u64 {
                let name = image.string(*value).unwrap_or_default();
                if let Some((_, path)) = paths.iter().find(|(n, _)| n == name) {
                    *value = table.len() as u64;
                    moved.push((name.to_vec(), *value));
                    table.extend_from_slice(path);
                    table.push(0);
                }
            } else if *tag == elf::DT_STRTAB.0 as u64 {
                *value = vaddr;
            }
        }
        let size = table.len() as u64;
        entries.iter_mut().filter(|(t, _)| *t == elf::DT_STRSZ.0 as u64).for_each(|(_, v)| *v = size);
        self.put_entries(&entries)?;
        self.rename_versions(image, &moved)?;
        self.bytes.resize(as_usize(offset)?, 0);
        self.bytes.extend_from_slice(&table);
        self.put(note, &elf::PT_LOAD.0.to_le_bytes())?;
        self.put(note.saturating_add(4), &elf::PF_R.0.to_le_bytes())?;
        for (i, value) in [offset, vaddr, vaddr, size, size, PAGE].into_iter().enumerate() {
            self.put(note.saturating_add(8).saturating_add(i.saturating_mul(8)), &value.to_le_bytes())?;
        }
        Ok(())
    }

    /// ld.so finds the library of needed versions by the name that DT_NEEDED has.
    fn rename_versions(&mut self, image: &Image<'_>, moved: &[(Vec<u8>, u64)]) -> Result<()> {
        let Some(addr) = image.dynamic_value(elf::DT_VERNEED) else { return Ok(()) };
        let segment =
            image.loads().iter().find(|s| s.contains(addr)).context(|| "its versions lie outside the file")?;
        let mut at = as_usize(addr.saturating_sub(segment.vaddr).saturating_add(segment.offset))?;
        // One entry takes 16 bytes: a chain that does not end is no longer than the file.
        for _ in 0..self.bytes.len() / 16 {
            let name = (self.u64(at)? >> 32) & 0xffff_ffff;
            if let Some((_, to)) = moved.iter().find(|(n, _)| image.string(name) == Some(n)) {
                let to = u32::try_from(*to).map_err(|_| Error::new("its string table is too long"))?;
                self.put(at.saturating_add(4), &to.to_le_bytes())?;
            }
            let next = as_usize(self.u64(at.saturating_add(8))? >> 32)?;
            if next == 0 {
                return Ok(());
            }
            at = at.saturating_add(next);
        }
        Err(Error::new("its list of needed versions has no end"))
    }
}

fn as_usize(n: u64) -> Result<usize> {
    usize::try_from(n).map_err(|_| Error::new("the file claims more than memory can hold"))
}

/// Slots that are bound at their first call must stay writable, and must lead to the code that binds them.
fn refuse_lazy(image: &Image<'_>) -> Result<()> {
    let classes = Classes::of(image);
    let relro = protected(image, PAGE);
    let tables = Tables::of(image);
    let mut any = false;
    for record in tables.plt.records().filter(|r| classes.class(r.kind, r.symbol) == Class::JumpSlot) {
        any = true;
        if relro.contains(record.offset) {
            return Err(Error::new(
                "its function slots lie in RELRO: binding them later would crash; try --no-relro too",
            ));
        }
        let target = image.u64_at(record.offset).unwrap_or(0);
        if !image.loads().iter().any(|s| s.is_executable() && s.contains(target)) {
            return Err(Error::new(
                "its function slots do not lead to code that binds them: it was linked without any",
            ));
        }
    }
    if any { Ok(()) } else { Err(Error::new("it has no function slots (DT_JMPREL) that could be bound later")) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::elf::synth::{Import, Machine, Recipe, Use};

    fn program() -> Vec<u8> {
        let mut recipe = Recipe::program(Machine::X86_64.into());
        recipe.interp = Some(b"/lib64/ld-linux-x86-64.so.2".to_vec());
        recipe.needed = vec![b"liba.so".to_vec(), b"libc.so.6".to_vec()];
        recipe.imports = vec![Import::new("puts", Use::JumpSlot)];
        recipe.build()
    }

    fn needed(bytes: &[u8]) -> Vec<Vec<u8>> {
        let image = Image::parse(bytes).unwrap();
        image.dynamic_values(elf::DT_NEEDED).map(|at| image.string(at).unwrap().to_vec()).collect()
    }

    fn flags(bytes: &[u8]) -> u64 {
        Image::parse(bytes).unwrap().dynamic_value(elf::DT_FLAGS).unwrap_or(0)
    }

    #[test]
    fn flags_needed_and_relro_change_alone() {
        let plain = program();
        let now = rewritten(&plain, &Change::BindNow).unwrap();
        assert_eq!((flags(&plain), flags(&now)), (0, elf::DF_BIND_NOW.0));
        assert_eq!(needed(&now), needed(&plain));
        let dropped = rewritten(&plain, &Change::DropNeeded(b"liba.so".to_vec())).unwrap();
        assert_eq!(needed(&dropped), [b"libc.so.6".to_vec()]);
        assert!(rewritten(&plain, &Change::DropNeeded(b"libz.so".to_vec())).is_err());
        let open = rewritten(&plain, &Change::NoRelro).unwrap();
        assert!(Image::parse(&open).unwrap().segment(elf::PT_GNU_RELRO).is_none());
        assert!(rewritten(&open, &Change::NoRelro).is_err());
    }

    #[test]
    fn what_would_crash_is_refused() {
        let error = rewritten(&program(), &Change::Lazy).unwrap_err().to_string();
        assert!(error.contains("slots"), "{error}");
        let why = rewritten(&program(), &Change::AbsoluteNeeded(Vec::new())).unwrap_err().to_string();
        assert!(why.contains("note"), "{why}");
        assert!(rewritten(b"#!/bin/sh", &Change::BindNow).is_err());
    }
}
