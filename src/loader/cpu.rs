//! What of the processor decides where a loader looks: glibc-hwcaps levels, and the legacy hwcap directories of
//! glibc 2.36 and older.

#![deny(clippy::indexing_slicing, clippy::arithmetic_side_effects, clippy::unwrap_used)]

use object::elf;

/// The processor that a program would run on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Cpu {
    /// x86-64 ISA level, 1 to 4; 0 where it is not such a processor or not known (then the baseline is assumed).
    pub x86_level: u8,
    /// Vendor is Intel: glibc 2.36 and older names a platform for no other.
    pub is_intel: bool,
    /// Has all of AVX2, FMA, BMI1, BMI2, LZCNT, MOVBE, POPCNT (`haswell`).
    pub is_haswell: bool,
    /// Has AVX512CD, ER and PF (`xeon_phi`).
    pub is_xeon_phi: bool,
    /// Has AVX512CD, BW, DQ and VL, and not ER (`avx512_1`).
    pub has_avx512_1: bool,
    /// aarch64 large system extensions (`atomics`).
    pub has_atomics: bool,
}

impl Cpu {
    /// The processor that premain runs on. The foreign root of another machine is searched for the baseline.
    pub fn host() -> Cpu {
        let found = crate::sys::cpu::features();
        Cpu {
            x86_level: found.x86_level,
            is_intel: found.is_intel,
            is_haswell: found.is_haswell,
            is_xeon_phi: found.is_xeon_phi,
            has_avx512_1: found.has_avx512_1,
            has_atomics: found.has_atomics,
        }
    }
}

/// Subdirectories that are tried in every directory, and what of the cache is usable.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Hwcaps {
    /// `glibc-hwcaps` names, best first.
    pub named: Vec<&'static str>,
    /// glibc's `isa_1`: one bit for each level that the processor has.
    pub isa: u32,
    /// `$PLATFORM`.
    pub platform: Option<&'static str>,
    /// Legacy names with their bits; glibc 2.36 and older.
    pub legacy: Vec<(u8, &'static str)>,
}

/// x86-64 levels above the baseline, best first (`_dl_hwcaps_subdirs`).
const X86_LEVELS: [(u8, &str); 3] = [(4, "x86-64-v4"), (3, "x86-64-v3"), (2, "x86-64-v2")];

/// What glibc of this machine makes of the processor.
/// Sources: `sysdeps/x86/cpu-features.c` (init_cpu_features), `sysdeps/x86/dl-hwcap.h`,
/// `sysdeps/unix/sysv/linux/aarch64/dl-procinfo.h` of glibc 2.36.
pub fn hwcaps(cpu: Cpu, machine: u16, is_64: bool) -> Hwcaps {
    match elf::Machine(machine) {
        elf::EM_X86_64 => {
            let level = cpu.x86_level.max(1);
            let named = X86_LEVELS.iter().filter(|(l, _)| *l <= level).map(|(_, name)| *name).collect();
            let mut legacy = vec![(1, "x86_64")];
            if cpu.is_intel && cpu.has_avx512_1 {
                legacy.push((2, "avx512_1"));
            }
            let platform = match (cpu.is_intel, cpu.is_xeon_phi, cpu.is_haswell) {
                (true, true, _) => "xeon_phi",
                (true, false, true) => "haswell",
                // AT_PLATFORM, as the kernel gives it.
                _ => "x86_64",
            };
            let isa = 1u32.checked_shl(u32::from(level)).map_or(0xf, |b| b.saturating_sub(1));
            Hwcaps { named, isa, platform: Some(platform), legacy }
        }
        elf::EM_386 => Hwcaps { isa: u32::MAX, platform: Some("i686"), legacy: vec![(0, "sse2")], ..Hwcaps::default() },
        elf::EM_AARCH64 if is_64 => {
            let legacy = if cpu.has_atomics { vec![(8, "atomics")] } else { Vec::new() };
            Hwcaps { isa: u32::MAX, platform: Some("aarch64"), legacy, ..Hwcaps::default() }
        }
        _ => Hwcaps { isa: u32::MAX, ..Hwcaps::default() },
    }
}

impl Hwcaps {
    /// Every subdirectory that a glibc of this version tries in each directory, in order, each with its slash;
    /// the last is the directory itself.
    ///
    /// Up to 2.36 the legacy names come in every combination: the order counts down in binary with `tls` as the
    /// highest bit, then the platform, then the hwcap names from the last to the first (`_dl_important_hwcaps`).
    pub fn subdirectories(&self, version: (u32, u32)) -> Vec<String> {
        let mut out: Vec<String> = Vec::new();
        if version >= (2, 33) {
            out.extend(self.named.iter().map(|n| format!("glibc-hwcaps/{n}/")));
        }
        if version >= (2, 37) {
            out.push(String::new());
            return out;
        }
        let mut names: Vec<&str> = self.legacy.iter().map(|(_, n)| *n).collect();
        names.extend(self.platform);
        names.push("tls");
        for mask in (0..1u32.checked_shl(u32::try_from(names.len()).unwrap_or(0)).unwrap_or(1)).rev() {
            let chosen = names.iter().enumerate().rev().filter(|(bit, _)| {
                let bit = u32::try_from(*bit).ok().and_then(|b| 1u32.checked_shl(b)).unwrap_or(0);
                mask & bit != 0
            });
            out.push(chosen.map(|(_, n)| format!("{n}/")).collect());
        }
        out
    }

    /// Legacy hwcap bits of cache entries that are usable; `None` for versions that skip all of them.
    pub fn legacy_bits(&self, version: (u32, u32)) -> Option<u64> {
        if version >= (2, 37) {
            return None;
        }
        let bits = self.legacy.iter().filter_map(|(bit, _)| 1u64.checked_shl(u32::from(*bit)));
        let platform = match self.platform {
            // `_dl_string_platform`: bit 48 on, in the order of `_dl_x86_platforms`.
            Some("haswell") => 1u64 << 50,
            Some("xeon_phi") => 1u64 << 51,
            _ => 0,
        };
        Some(bits.fold(platform, |all, b| all | b))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn legacy_names_combine_in_the_loader_s_order() {
        let amd = Cpu { x86_level: 4, ..Cpu::default() };
        let caps = hwcaps(amd, elf::EM_X86_64.0, true);
        let old = caps.subdirectories((2, 36));
        assert_eq!(
            old,
            [
                "glibc-hwcaps/x86-64-v4/",
                "glibc-hwcaps/x86-64-v3/",
                "glibc-hwcaps/x86-64-v2/",
                "tls/x86_64/x86_64/",
                "tls/x86_64/",
                "tls/x86_64/",
                "tls/",
                "x86_64/x86_64/",
                "x86_64/",
                "x86_64/",
                ""
            ]
        );
        assert_eq!(caps.subdirectories((2, 37)).len(), 4);
        assert_eq!(caps.subdirectories((2, 31)).len(), 8);
        assert_eq!(caps.isa, 0xf);
        let intel = Cpu { x86_level: 3, is_intel: true, is_haswell: true, ..Cpu::default() };
        let caps = hwcaps(intel, elf::EM_X86_64.0, true);
        assert_eq!(caps.subdirectories((2, 36)).first().map(String::as_str), Some("glibc-hwcaps/x86-64-v3/"));
        assert_eq!(caps.subdirectories((2, 36)).get(2).map(String::as_str), Some("tls/haswell/x86_64/"));
        assert_eq!((caps.legacy_bits((2, 36)), caps.legacy_bits((2, 37))), (Some(1 << 50 | 2), None));
    }

    #[test]
    fn an_unknown_processor_is_the_baseline() {
        assert_eq!(hwcaps(Cpu::default(), elf::EM_X86_64.0, true).isa, 1);
        assert_eq!(hwcaps(Cpu::default(), elf::EM_RISCV.0, true).subdirectories((2, 38)), [""]);
    }
}
