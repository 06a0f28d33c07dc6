//! The dynamic symbol table, sized by the hash tables (DT_SYMTAB has no size of its own), and the versions that a
//! file asks for.

#![deny(clippy::indexing_slicing, clippy::arithmetic_side_effects, clippy::unwrap_used)]

use object::elf;

use super::image::Image;

/// One dynamic symbol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Symbol {
    /// Offset of its name in DT_STRTAB.
    pub name: u32,
    /// Value: an address before the load address is added, in most cases.
    pub value: u64,
    /// Size of the object or function in bytes.
    pub size: u64,
    /// STT_*.
    pub kind: u8,
    /// STB_*.
    pub bind: u8,
    /// STV_*.
    pub visibility: u8,
    /// Section index: 0 is undefined, 0xfff1 absolute. Nothing else may be concluded from it.
    pub section: u16,
}

impl Symbol {
    /// True where the symbol is not defined in this file.
    pub fn is_undefined(&self) -> bool {
        self.section == elf::SHN_UNDEF.0
    }

    /// True where other files can bind to it: defined, not local, not hidden.
    pub fn is_exported(&self) -> bool {
        !self.is_undefined()
            && self.bind != elf::STB_LOCAL.0
            && self.visibility != elf::STV_HIDDEN.0
            && self.visibility != elf::STV_INTERNAL.0
    }

    /// True for a function whose address comes from a resolver at load time.
    pub fn is_ifunc(&self) -> bool {
        self.kind == elf::STT_GNU_IFUNC.0
    }
}

/// The dynamic symbol table.
#[derive(Debug, Clone, Copy)]
pub struct Symbols<'a, 'i> {
    image: &'i Image<'a>,
    bytes: &'a [u8],
}

impl<'a, 'i> Symbols<'a, 'i> {
    /// All bytes from DT_SYMTAB on: more than the table, since nothing gives its size. Empty without DT_SYMTAB.
    pub fn of(image: &'i Image<'a>) -> Symbols<'a, 'i> {
        let bytes = image.dynamic_value(elf::DT_SYMTAB).and_then(|addr| image.from_vaddr(addr)).unwrap_or(&[]);
        Symbols { image, bytes }
    }

    /// The symbol with an index; `None` past the bytes of the file.
    pub fn get(&self, index: u32) -> Option<Symbol> {
        let image = self.image;
        let size: usize = if image.is_64() { 24 } else { 16 };
        let start = size.checked_mul(usize::try_from(index).ok()?)?;
        let raw = self.bytes.get(start..start.checked_add(size)?)?;
        let name = image.u32_in(raw, 0)?;
        // The two classes order the same fields differently.
        let (value, size, info, other, section) = if image.is_64() {
            (image.u64_in(raw, 8)?, image.u64_in(raw, 16)?, *raw.get(4)?, *raw.get(5)?, image.u16_in(raw, 6)?)
        } else {
            let (value, size) = (image.u32_in(raw, 4)?, image.u32_in(raw, 8)?);
            (u64::from(value), u64::from(size), *raw.get(12)?, *raw.get(13)?, image.u16_in(raw, 14)?)
        };
        Some(Symbol { name, value, size, kind: info & 0xf, bind: info >> 4, visibility: other & 3, section })
    }

    /// Symbols for which there are bytes: an upper bound of any count.
    fn capacity(&self) -> u64 {
        let size: usize = if self.image.is_64() { 24 } else { 16 };
        self.bytes.len().checked_div(size).unwrap_or(0) as u64
    }

    /// How many symbols there are, by DT_HASH, DT_MIPS_SYMTABNO or the end of the last chain of DT_GNU_HASH; at least
    /// `seen` (one past the largest index that a relocation names). Includes the null symbol.
    pub fn count(&self, seen: u64) -> u64 {
        let image = self.image;
        let exact = sysv_count(image).or_else(|| {
            let is_mips = image.machine() == elf::EM_MIPS.0;
            image.dynamic_value(elf::DT_MIPS_SYMTABNO).filter(|_| is_mips)
        });
        let count = exact.or_else(|| gnu_count(image)).unwrap_or(0);
        count.max(seen).min(self.capacity())
    }
}

/// `nchain` of DT_HASH. Alpha and s390x have words of 8 bytes in it (their ABI supplements).
fn sysv_count(image: &Image) -> Option<u64> {
    let addr = image.dynamic_value(elf::DT_HASH)?;
    let wide = image.is_64() && (image.machine() == elf::EM_S390.0 || image.machine() == elf::EM_ALPHA.0);
    if wide { image.u64_at(addr.checked_add(8)?) } else { image.u32_at(addr.checked_add(4)?).map(u64::from) }
}

/// One past the last symbol that DT_GNU_HASH reaches: the end of the chain that starts last.
fn gnu_count(image: &Image) -> Option<u64> {
    let table = image.from_vaddr(image.dynamic_value(elf::DT_GNU_HASH)?)?;
    let buckets = usize::try_from(image.u32_in(table, 0)?).ok()?;
    let first = image.u32_in(table, 4)?;
    let bloom_words = usize::try_from(image.u32_in(table, 8)?).ok()?;
    let word: usize = if image.is_64() { 8 } else { 4 };
    let bucket_start = bloom_words.checked_mul(word)?.checked_add(16)?;
    let chain_start = bucket_start.checked_add(buckets.checked_mul(4)?)?;
    let mut last = 0u32;
    for bucket in table.get(bucket_start..chain_start)?.chunks_exact(4) {
        last = last.max(image.u32_in(bucket, 0)?);
    }
    if last < first {
        return Some(u64::from(first));
    }
    let mut at = chain_start.checked_add(usize::try_from(last.checked_sub(first)?).ok()?.checked_mul(4)?)?;
    // Each step reads four more bytes of the table, so the walk ends with the file.
    while image.u32_in(table, at)? & 1 == 0 {
        last = last.checked_add(1)?;
        at = at.checked_add(4)?;
    }
    Some(u64::from(last).saturating_add(1))
}

/// What the counts of a symbol table say.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SymbolCounts {
    /// Others can bind to them.
    pub exported: u64,
    /// Undefined, with a name.
    pub imported: u64,
    /// Defined functions with a resolver.
    pub ifuncs: u64,
}

/// Counts a file's dynamic symbols; `seen` as in [`Symbols::count`].
pub fn count_symbols(image: &Image, seen: u64) -> SymbolCounts {
    let symbols = Symbols::of(image);
    let mut counts = SymbolCounts::default();
    for index in 1..symbols.count(seen) {
        let Some(symbol) = u32::try_from(index).ok().and_then(|i| symbols.get(i)) else { break };
        counts.exported = counts.exported.saturating_add(u64::from(symbol.is_exported()));
        let imported = symbol.is_undefined() && symbol.bind != elf::STB_LOCAL.0 && symbol.name != 0;
        counts.imported = counts.imported.saturating_add(u64::from(imported));
        counts.ifuncs = counts.ifuncs.saturating_add(u64::from(symbol.is_ifunc() && !symbol.is_undefined()));
    }
    counts
}

/// A version that the file asks a library for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NeededVersion<'a> {
    /// The library's name as in DT_NEEDED.
    pub library: &'a [u8],
    /// The version's name.
    pub version: &'a [u8],
    /// Its index in DT_VERSYM.
    pub index: u16,
    /// VER_FLG_WEAK: its absence is no error.
    pub weak: bool,
}

/// Every version in DT_VERNEED. Both chains go by relative offsets; each step must go forward, so the walk ends.
pub fn needed_versions<'a>(image: &Image<'a>) -> Vec<NeededVersion<'a>> {
    let mut all = Vec::new();
    let Some(table) = image.dynamic_value(elf::DT_VERNEED).and_then(|addr| image.from_vaddr(addr)) else { return all };
    let mut at = 0usize;
    while let Some(entry) = table.get(at..) {
        let Some(step) = one_library(image, entry, &mut all) else { break };
        // A file whose chains overlap could name one auxiliary entry again and again.
        if step == 0 || all.len() > table.len() {
            break;
        }
        at = at.saturating_add(step);
    }
    all
}

/// Reads one `Verneed` with its `Vernaux` chain; the step to the next, 0 at the end.
fn one_library<'a>(image: &Image<'a>, entry: &'a [u8], all: &mut Vec<NeededVersion<'a>>) -> Option<usize> {
    let library = image.string(u64::from(image.u32_in(entry, 4)?))?;
    let mut at = usize::try_from(image.u32_in(entry, 8)?).ok()?;
    for _ in 0..image.u16_in(entry, 2)? {
        let aux = entry.get(at..)?;
        let flags = image.u16_in(aux, 4)?;
        let index = image.u16_in(aux, 6)?;
        let version = image.string(u64::from(image.u32_in(aux, 8)?))?;
        all.push(NeededVersion { library, version, index, weak: flags & elf::VER_FLG_WEAK.0 != 0 });
        match usize::try_from(image.u32_in(aux, 12)?).ok()? {
            0 => break,
            step => at = at.checked_add(step)?,
        }
    }
    usize::try_from(image.u32_in(entry, 12)?).ok()
}
