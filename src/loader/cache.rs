//! Reader of `ld.so.cache`: the old format (`ld.so-1.7.0`), the new one (`glibc-ld.so.cache1.1`), the new inside of
//! the old, both byte orders, with the extension that names glibc-hwcaps subdirectories.
//!
//! The look-up repeats ld.so's own: the same binary search over the same order (which is not byte order), the same
//! scan over equal names, so that a cache that is sorted wrongly misleads both alike.
//! Sources: `elf/dl-cache.c`, `sysdeps/generic/dl-cache.h` and the `dl-cache.h` of each machine in glibc 2.36.

#![deny(clippy::indexing_slicing, clippy::arithmetic_side_effects, clippy::unwrap_used)]

use std::cmp::Ordering;

use super::files::Bytes;
use crate::elf::image::until_nul;
use crate::facts::Endian;

const OLD_MAGIC: &[u8] = b"ld.so-1.7.0";
const NEW_MAGIC: &[u8] = b"glibc-ld.so.cache1.1";
/// `-358342284` as `uint32_t`.
const EXTENSION_MAGIC: u32 = 0xeaa4_2174;
/// Section that lists the glibc-hwcaps names.
const TAG_HWCAPS: u32 = 1;
/// Bytes of the new header, of its entries, of the old header and of its entries.
const NEW_HEADER: usize = 48;
const NEW_ENTRY: usize = 24;
const OLD_HEADER: usize = 16;
const OLD_ENTRY: usize = 12;
/// Bit of `hwcap` that says: the low half is an index into the glibc-hwcaps names.
const NAMED: u64 = 1 << 62;
/// ISA level, bits 32 to 41 of `hwcap`.
const ISA_BITS: u64 = 0x3ff;
/// Bit of `hwcap` for the legacy `tls` directory, which every loader may use.
const LEGACY_TLS: u64 = 1 << 63;

/// What the loader that reads the cache accepts.
#[derive(Debug, Clone, Default)]
pub struct Wanted {
    /// `_DL_CACHE_DEFAULT_ID` of its machine.
    pub flags: u32,
    /// Other flags that it accepts as second best.
    pub other_flags: Option<u32>,
    /// glibc-hwcaps subdirectories that it searches, best first.
    pub hwcaps: Vec<&'static str>,
    /// Highest x86-64 ISA level as glibc's bit mask (`isa_1`): bit 0 is the baseline, bit 3 is x86-64-v4.
    pub isa: u32,
    /// Legacy hwcap bits that are usable; `None` for glibc 2.37 and later, which skips every such entry.
    pub legacy: Option<u64>,
}

/// A cache that was read.
pub struct Cache {
    bytes: Bytes,
    endian: Endian,
    entries_at: usize,
    count: usize,
    entry_size: usize,
    strings_at: usize,
    /// The glibc-hwcaps names, by index.
    hwcaps: Vec<Vec<u8>>,
}

/// One entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Entry {
    flags: u32,
    key: u32,
    value: u32,
    hwcap: u64,
}

impl Cache {
    /// Reads the headers of a cache that a loader of this byte order would use.
    ///
    /// # Errors
    /// Why ld.so would behave as if there were no cache.
    pub fn parse(bytes: Bytes, endian: Endian) -> Result<Cache, String> {
        let data = bytes.as_ref().as_ref();
        if data.starts_with(NEW_MAGIC) {
            return Cache::parse_new(bytes, endian, 0);
        }
        if !data.starts_with(OLD_MAGIC) {
            return Err("neither cache format's magic number".to_string());
        }
        let count = u32_at(data, 12, endian).ok_or("cut in its header")?;
        let count = usize::try_from(count).map_err(|_| "too many entries")?;
        let end = count.checked_mul(OLD_ENTRY).and_then(|n| n.checked_add(OLD_HEADER)).filter(|end| *end <= data.len());
        let end = end.ok_or_else(|| format!("{count} entries do not fit the file"))?;
        // The new header follows, aligned for its 64-bit fields.
        let new_at = end.checked_next_multiple_of(8).unwrap_or(end);
        let has_new = data.get(new_at..).is_some_and(|rest| rest.starts_with(NEW_MAGIC) && rest.len() >= NEW_HEADER);
        if has_new {
            return Cache::parse_new(bytes, endian, new_at);
        }
        let old = Cache {
            bytes,
            endian,
            entries_at: OLD_HEADER,
            count,
            entry_size: OLD_ENTRY,
            strings_at: end,
            hwcaps: Vec::new(),
        };
        Ok(old)
    }

    fn parse_new(bytes: Bytes, endian: Endian, at: usize) -> Result<Cache, String> {
        let data = bytes.as_ref().as_ref();
        let header = data.get(at..).unwrap_or(&[]);
        let order = header.get(28).copied().ok_or("cut in its header")?;
        let wanted = if endian == Endian::Little { 2 } else { 3 };
        if order != 0 && order & 3 != wanted {
            return Err("written in the other byte order".to_string());
        }
        let count = u32_at(header, 20, endian).ok_or("cut in its header")?;
        let extension = u32_at(header, 32, endian).unwrap_or(0);
        let count = usize::try_from(count).map_err(|_| "too many entries")?;
        let fits =
            count.checked_mul(NEW_ENTRY).and_then(|n| n.checked_add(NEW_HEADER)).is_some_and(|n| n <= header.len());
        if !fits {
            return Err(format!("{count} entries do not fit the file"));
        }
        let entries_at = at.checked_add(NEW_HEADER).unwrap_or(at);
        let hwcaps = hwcaps_names(data, extension, endian);
        Ok(Cache { bytes, endian, entries_at, count, entry_size: NEW_ENTRY, strings_at: at, hwcaps })
    }

    fn data(&self) -> &[u8] {
        self.bytes.as_ref().as_ref()
    }

    /// How many entries it has.
    pub fn len(&self) -> usize {
        self.count
    }

    /// True where it has no entry.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    fn entry(&self, index: usize) -> Option<Entry> {
        let at = index.checked_mul(self.entry_size)?.checked_add(self.entries_at)?;
        let raw = self.data().get(at..at.checked_add(self.entry_size)?)?;
        let hwcap = if self.entry_size == NEW_ENTRY { u64_at(raw, 16, self.endian)? } else { 0 };
        Some(Entry {
            flags: u32_at(raw, 0, self.endian)?,
            key: u32_at(raw, 4, self.endian)?,
            value: u32_at(raw, 8, self.endian)?,
            hwcap,
        })
    }

    fn string(&self, offset: u32) -> Option<&[u8]> {
        let at = self.strings_at.checked_add(usize::try_from(offset).ok()?)?;
        until_nul(self.data().get(at..)?)
    }

    fn compare(&self, name: &[u8], index: usize) -> Option<Ordering> {
        let key = self.entry(index)?.key;
        Some(compare_names(name, self.string(key)?))
    }

    /// The path that ld.so takes from the cache for a library's name.
    pub fn lookup(&self, name: &[u8], wanted: &Wanted) -> Option<&[u8]> {
        let (mut left, mut right) = (0usize, self.count);
        while left < right {
            // ld.so halves (left + right) with an inclusive right end.
            let middle = left.checked_add(right.checked_sub(1)?)?.checked_div(2)?;
            match self.compare(name, middle)? {
                Ordering::Equal => return self.best_of_equals(name, middle, right, wanted),
                Ordering::Less => left = middle.checked_add(1)?,
                Ordering::Greater => right = middle,
            }
        }
        None
    }

    /// Among the entries of one name the best that the loader can use. Entries with named hwcaps come first.
    fn best_of_equals(&self, name: &[u8], hit: usize, right: usize, wanted: &Wanted) -> Option<&[u8]> {
        let mut first = hit;
        while let Some(before) = first.checked_sub(1) {
            if self.compare(name, before) != Some(Ordering::Equal) {
                break;
            }
            first = before;
        }
        let mut best: Option<(&[u8], usize)> = None;
        for index in first..right {
            if index > hit && self.compare(name, index) != Some(Ordering::Equal) {
                break;
            }
            let Some(entry) = self.entry(index) else { break };
            let accepted = entry.flags == wanted.flags || Some(entry.flags) == wanted.other_flags;
            let Some(path) = self.string(entry.value).filter(|_| accepted) else { continue };
            if is_named(entry.hwcap) {
                let rank = self.rank(entry.hwcap, wanted);
                if let Some(rank) = rank.filter(|r| best.is_none_or(|(_, old)| *r < old)) {
                    best = Some((path, rank));
                }
                continue;
            }
            // The new format's first usable entry without a name ends the search; the old one looks on for its own flags.
            if best.is_some() && self.entry_size == NEW_ENTRY {
                break;
            }
            if !legacy_is_usable(entry.hwcap, wanted.legacy) {
                continue;
            }
            best = Some((path, 0));
            if entry.flags == wanted.flags {
                break;
            }
        }
        best.map(|(path, _)| path)
    }

    /// Rank of a named hwcap among those that are searched, 0 for the best.
    fn rank(&self, hwcap: u64, wanted: &Wanted) -> Option<usize> {
        let level = (hwcap >> 32) & ISA_BITS;
        let bit = 1u32.checked_shl(u32::try_from(level).ok()?)?;
        if bit & wanted.isa != bit {
            return None;
        }
        let index = usize::try_from(hwcap & 0xffff_ffff).ok()?;
        let name = self.hwcaps.get(index)?;
        wanted.hwcaps.iter().position(|h| h.as_bytes() == name.as_slice())
    }
}

fn is_named(hwcap: u64) -> bool {
    (hwcap >> 32) & !ISA_BITS == NAMED >> 32
}

fn legacy_is_usable(hwcap: u64, usable: Option<u64>) -> bool {
    match usable {
        None => hwcap == 0,
        Some(bits) => hwcap & !(bits | LEGACY_TLS) == 0,
    }
}

/// The glibc-hwcaps names of the extension section, in index order. A section that is wrong in any way is none.
fn hwcaps_names(data: &[u8], extension: u32, endian: Endian) -> Vec<Vec<u8>> {
    let names = || -> Option<Vec<Vec<u8>>> {
        let extension = usize::try_from(extension).ok().filter(|e| *e != 0 && e.is_multiple_of(4))?;
        let directory = data.get(extension..)?;
        if u32_at(directory, 0, endian)? != EXTENSION_MAGIC {
            return None;
        }
        let count = usize::try_from(u32_at(directory, 4, endian)?).ok()?;
        let sections = directory.get(8..)?.chunks_exact(16).take(count);
        let section = sections.rev().find(|s| u32_at(s, 0, endian) == Some(TAG_HWCAPS))?;
        let offset = usize::try_from(u32_at(section, 8, endian)?).ok()?;
        let size = usize::try_from(u32_at(section, 12, endian)?).ok()?;
        let table = data.get(offset..offset.checked_add(size)?)?;
        let name = |raw: &[u8]| {
            let at = usize::try_from(u32_at(raw, 0, endian)?).ok()?;
            Some(until_nul(data.get(at..)?)?.to_vec())
        };
        Some(table.chunks_exact(4).map(|raw| name(raw).unwrap_or_default()).collect())
    };
    names().unwrap_or_default()
}

/// The cache's order: as bytes, except that runs of digits compare as numbers and come after other characters.
/// `_dl_cache_libcmp`; its numbers are C `int`s that wrap.
fn compare_names(a: &[u8], b: &[u8]) -> Ordering {
    let (mut a, mut b) = (a, b);
    loop {
        match (a.first().copied(), b.first().copied()) {
            (None, None) => return Ordering::Equal,
            (None, Some(_)) => return Ordering::Less,
            (Some(x), Some(y)) if x.is_ascii_digit() && y.is_ascii_digit() => {
                let (m, n) = (take_number(&mut a), take_number(&mut b));
                if m != n {
                    return m.wrapping_sub(n).cmp(&0);
                }
            }
            (Some(x), _) if x.is_ascii_digit() => return Ordering::Greater,
            (_, Some(y)) if y.is_ascii_digit() => return Ordering::Less,
            (Some(_), None) => return Ordering::Greater,
            (Some(x), Some(y)) if x != y => return x.cast_signed().cmp(&y.cast_signed()),
            _ => {
                a = a.get(1..).unwrap_or(&[]);
                b = b.get(1..).unwrap_or(&[]);
            }
        }
    }
}

fn take_number(text: &mut &[u8]) -> i32 {
    let mut value = 0i32;
    while let Some((digit, rest)) = text.split_first().filter(|(d, _)| d.is_ascii_digit()) {
        value = value.wrapping_mul(10).wrapping_add(i32::from(digit.wrapping_sub(b'0')));
        *text = rest;
    }
    value
}

fn u32_at(data: &[u8], at: usize, endian: Endian) -> Option<u32> {
    let raw = *data.get(at..)?.first_chunk::<4>()?;
    Some(if endian == Endian::Little { u32::from_le_bytes(raw) } else { u32::from_be_bytes(raw) })
}

fn u64_at(data: &[u8], at: usize, endian: Endian) -> Option<u64> {
    let raw = *data.get(at..)?.first_chunk::<8>()?;
    Some(if endian == Endian::Little { u64::from_le_bytes(raw) } else { u64::from_be_bytes(raw) })
}

/// Flags of a machine's own entries (`_DL_CACHE_DEFAULT_ID`) and those accepted beside them, from each machine's
/// `dl-cache.h` and `sysdeps/generic/ldconfig.h`. `e_flags` decide where one machine has several ABIs.
pub fn cache_flags(machine: u16, is_64: bool, e_flags: u32) -> (u32, Option<u32>) {
    use object::elf;
    const LIBC6: u32 = 3;
    match elf::Machine(machine) {
        elf::EM_X86_64 if is_64 => (0x0300 | LIBC6, None),
        elf::EM_X86_64 => (0x0800 | LIBC6, None),
        elf::EM_AARCH64 if is_64 => (0x0a00 | LIBC6, None),
        elf::EM_ARM if e_flags & 0x400 != 0 => (0x0900 | LIBC6, Some(LIBC6)),
        elf::EM_ARM => (LIBC6, Some(0x0b00 | LIBC6)),
        elf::EM_IA_64 => (0x0200 | LIBC6, None),
        elf::EM_S390 if is_64 => (0x0400 | LIBC6, None),
        elf::EM_PPC64 => (0x0500 | LIBC6, None),
        elf::EM_SPARCV9 => (0x0100 | LIBC6, None),
        elf::EM_MIPS if is_64 => (0x0700 | LIBC6, None),
        // n32 says so in EF_MIPS_ABI2.
        elf::EM_MIPS if e_flags & 0x20 != 0 => (0x0600 | LIBC6, None),
        // The float ABI of RISC-V: bits 1 and 2, 4 is double.
        elf::EM_RISCV if e_flags & 0x6 == 4 => (0x1000 | LIBC6, None),
        elf::EM_RISCV => (0x0f00 | LIBC6, None),
        elf::EM_LOONGARCH if e_flags & 0x7 == 3 => (0x1200 | LIBC6, None),
        elf::EM_LOONGARCH => (0x1100 | LIBC6, None),
        _ => (LIBC6, Some(1)),
    }
}

#[cfg(test)]
#[allow(clippy::arithmetic_side_effects)] // reason: the fixtures' sizes are their own.
mod tests {
    use std::sync::Arc;

    use super::*;

    struct Item(&'static str, u32, u64, &'static str);

    fn put(out: &mut Vec<u8>, value: u32, endian: Endian) {
        let raw = if endian == Endian::Little { value.to_le_bytes() } else { value.to_be_bytes() };
        out.extend(raw);
    }

    /// A cache in the new format behind `front`, with the items in the order given.
    fn build(items: &[Item], hwcaps: &[&str], endian: Endian, front: Vec<u8>) -> Bytes {
        let base = front.len();
        let strings_at = NEW_HEADER + NEW_ENTRY * items.len();
        let mut strings = Vec::new();
        let mut offset_of = |text: &str| {
            let at = strings_at + strings.len();
            strings.extend(text.as_bytes());
            strings.push(0);
            at as u32
        };
        let places: Vec<(u32, u32)> = items.iter().map(|i| (offset_of(i.0), offset_of(i.3))).collect();
        let caps: Vec<u32> = hwcaps.iter().map(|h| offset_of(h) + base as u32).collect();
        while !strings.len().is_multiple_of(4) {
            strings.push(0);
        }
        let mut out = front;
        out.extend(NEW_MAGIC);
        put(&mut out, items.len() as u32, endian);
        put(&mut out, strings.len() as u32, endian);
        out.extend([if endian == Endian::Little { 2 } else { 3 }, 0, 0, 0]);
        let extension = base + strings_at + strings.len();
        put(&mut out, extension as u32, endian);
        out.extend([0; 12]);
        for (item, (key, value)) in items.iter().zip(places) {
            for n in [item.1, key, value, 0] {
                put(&mut out, n, endian);
            }
            let raw = if endian == Endian::Little { item.2.to_le_bytes() } else { item.2.to_be_bytes() };
            out.extend(raw);
        }
        out.extend(strings);
        for n in [EXTENSION_MAGIC, 1, TAG_HWCAPS, 0, extension as u32 + 24, 4 * caps.len() as u32] {
            put(&mut out, n, endian);
        }
        caps.iter().for_each(|c| put(&mut out, *c, endian));
        Arc::new(out)
    }

    fn v(level: u64, index: u64) -> u64 {
        NAMED | level << 32 | index
    }

    fn items() -> Vec<Item> {
        vec![
            Item("libz.so.1", 0x303, 0, "/lib/libz.so.1"),
            Item("libx.so.10", 0x303, 0, "/lib/libx.so.10"),
            Item("libx.so.9", 0x303, v(2, 1), "/lib/v3/libx.so.9"),
            Item("libx.so.9", 0x303, v(1, 0), "/lib/v2/libx.so.9"),
            Item("libx.so.9", 0x303, 0, "/lib/libx.so.9"),
            Item("libx.so.9", 3, 0, "/lib32/libx.so.9"),
            Item("liba.so", 3, 0, "/lib32/liba.so"),
            Item("liba.so", 0x303, 1 << 63, "/lib/tls/liba.so"),
            Item("liba.so", 0x303, 0, "/lib/liba.so"),
        ]
    }

    fn wanted(hwcaps: &[&'static str], isa: u32) -> Wanted {
        Wanted { flags: 0x303, hwcaps: hwcaps.to_vec(), isa, legacy: Some(0), ..Wanted::default() }
    }

    fn find(cache: &Cache, name: &str, w: &Wanted) -> Option<String> {
        cache.lookup(name.as_bytes(), w).map(|p| String::from_utf8(p.to_vec()).unwrap())
    }

    #[test]
    fn both_orders_and_the_embedded_form_are_read() {
        let mut old = OLD_MAGIC.to_vec();
        old.extend([0; 5]); // one byte of padding before the count, which is 0
        for (endian, front) in
            [(Endian::Little, vec![]), (Endian::Big, vec![]), (Endian::Little, old.clone()), (Endian::Big, old)]
        {
            let names = ["x86-64-v2", "x86-64-v3"];
            let cache = Cache::parse(build(&items(), &names, endian, front), endian).unwrap();
            assert_eq!(cache.len(), 9);
            let w = wanted(&[], 1);
            assert_eq!(find(&cache, "libz.so.1", &w).as_deref(), Some("/lib/libz.so.1"));
            assert_eq!(find(&cache, "libx.so.10", &w).as_deref(), Some("/lib/libx.so.10"));
            assert_eq!(find(&cache, "libx.so.9", &w).as_deref(), Some("/lib/libx.so.9"));
            let w = wanted(&["x86-64-v3", "x86-64-v2"], 7);
            assert_eq!(find(&cache, "libx.so.9", &w).as_deref(), Some("/lib/v3/libx.so.9"));
            let w = wanted(&["x86-64-v2"], 3);
            assert_eq!(find(&cache, "libx.so.9", &w).as_deref(), Some("/lib/v2/libx.so.9"));
            for gone in ["libz.so.2", "", "a", "zzz", "libx.so"] {
                assert_eq!(find(&cache, gone, &w), None, "{gone}");
            }
        }
    }

    #[test]
    fn legacy_entries_are_for_glibc_2_36_and_older() {
        let cache = Cache::parse(build(&items(), &[], Endian::Little, vec![]), Endian::Little).unwrap();
        let mut w = wanted(&[], 1);
        assert_eq!(find(&cache, "liba.so", &w).as_deref(), Some("/lib/tls/liba.so"));
        w.legacy = None;
        assert_eq!(find(&cache, "liba.so", &w).as_deref(), Some("/lib/liba.so"));
        w.flags = 3;
        assert_eq!(find(&cache, "liba.so", &w).as_deref(), Some("/lib32/liba.so"));
    }

    #[test]
    fn the_old_format_alone_is_read() {
        let mut out = OLD_MAGIC.to_vec();
        out.push(0);
        put(&mut out, 1, Endian::Little);
        for n in [3, 0, 8] {
            put(&mut out, n, Endian::Little);
        }
        out.extend(b"libq.so\0/lib/libq.so\0");
        let cache = Cache::parse(Arc::new(out), Endian::Little).unwrap();
        let w = Wanted { flags: 3, ..Wanted::default() };
        assert_eq!(find(&cache, "libq.so", &w).as_deref(), Some("/lib/libq.so"));
    }

    #[test]
    fn order_is_numeric_in_digit_runs() {
        for (a, b, order) in [
            ("libx.so.9", "libx.so.10", Ordering::Less),
            ("libx.so.10", "libx.so.9", Ordering::Greater),
            ("liba", "lib1", Ordering::Less),
            ("lib", "lib1", Ordering::Less),
            ("lib1", "lib", Ordering::Greater),
            ("lib01", "lib1", Ordering::Equal),
            ("lib-x", "libx", Ordering::Less),
            ("", "", Ordering::Equal),
        ] {
            assert_eq!(compare_names(a.as_bytes(), b.as_bytes()), order, "{a} {b}");
        }
    }

    #[test]
    fn cut_and_wrong_caches_never_panic() {
        let whole = build(&items(), &["x86-64-v2"], Endian::Little, vec![]);
        let whole = whole.as_ref().as_ref();
        let w = wanted(&["x86-64-v2"], 3);
        for len in 0..whole.len() {
            if let Ok(cache) = Cache::parse(Arc::new(whole[..len].to_vec()), Endian::Little) {
                for name in ["libz.so.1", "libx.so.9", "liba.so"] {
                    let _ = cache.lookup(name.as_bytes(), &w);
                }
            }
        }
        for at in 0..whole.len() {
            let mut bad = whole.to_vec();
            bad[at] ^= 0xff;
            if let Ok(cache) = Cache::parse(Arc::new(bad), Endian::Little) {
                let _ = cache.lookup(b"libx.so.9", &w);
            }
        }
        assert!(Cache::parse(Arc::new(whole.to_vec()), Endian::Big).is_err());
        assert!(Cache::parse(Arc::new(b"hello".to_vec()), Endian::Big).is_err());
    }
}
