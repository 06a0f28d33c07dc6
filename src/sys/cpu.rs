//! Which features of the processor the system lets programs use, as far as loaders search by them.

/// What was found; all false on a processor that is not x86-64 or aarch64.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Features {
    /// x86-64 ISA level, 1 to 4; 0 on other processors.
    pub x86_level: u8,
    /// Vendor "GenuineIntel".
    pub is_intel: bool,
    /// AVX2, FMA, BMI1, BMI2, LZCNT, MOVBE and POPCNT.
    pub is_haswell: bool,
    /// AVX512CD, ER and PF.
    pub is_xeon_phi: bool,
    /// AVX512CD, BW, DQ and VL without ER.
    pub has_avx512_1: bool,
    /// aarch64 large system extensions.
    pub has_atomics: bool,
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::is_x86_feature_detected as has;
    use std::arch::x86_64::{__cpuid, __cpuid_count, CpuidResult};

    use super::Features;

    fn leaf(leaf: u32) -> CpuidResult {
        #[allow(unused_unsafe)] // reason: safe since Rust 1.94, unsafe in the oldest release that we build with
        // SAFETY: every x86-64 processor has CPUID.
        unsafe {
            __cpuid(leaf)
        }
    }

    /// EBX of leaf 7: bits 26 and 27 are AVX512PF and AVX512ER, which std does not name.
    fn leaf_7() -> u32 {
        if leaf(0).eax < 7 {
            return 0;
        }
        #[allow(unused_unsafe)] // reason: as above
        // SAFETY: every x86-64 processor has CPUID, and this one has leaf 7.
        unsafe { __cpuid_count(7, 0) }.ebx
    }

    fn is_intel() -> bool {
        let CpuidResult { ebx, ecx, edx, .. } = leaf(0);
        [ebx, edx, ecx].map(u32::to_le_bytes).concat() == b"GenuineIntel"
    }

    /// The levels of the x86-64 psABI, asked as glibc does in `get_isa_level`; std asks whether the system saves the
    /// registers too. LAHF in 64-bit mode is not asked: what has the others has it.
    fn level() -> u8 {
        let v2 =
            has!("cmpxchg16b") && has!("popcnt") && has!("sse3") && has!("ssse3") && has!("sse4.1") && has!("sse4.2");
        let v3 = has!("avx") && has!("avx2") && has!("bmi1") && has!("bmi2") && has!("f16c") && has!("fma");
        let v3 = v3 && has!("lzcnt") && has!("movbe");
        let v4 = has!("avx512f") && has!("avx512bw") && has!("avx512cd") && has!("avx512dq") && has!("avx512vl");
        match (v2, v3, v4) {
            (false, _, _) => 1,
            (true, false, _) => 2,
            (true, true, false) => 3,
            (true, true, true) => 4,
        }
    }

    /// The name in leaves 0x80000002 to 4 (AMD and Intel manuals, CPUID): 48 bytes, padded.
    pub(super) fn brand() -> Option<String> {
        const FIRST: u32 = 0x8000_0002;
        const LAST: u32 = 0x8000_0004;
        if leaf(0x8000_0000).eax < LAST {
            return None;
        }
        let words = (FIRST..=LAST).flat_map(|n| {
            let CpuidResult { eax, ebx, ecx, edx } = leaf(n);
            [eax, ebx, ecx, edx]
        });
        let bytes: Vec<u8> = words.flat_map(u32::to_le_bytes).take_while(|b| *b != 0).collect();
        let name = String::from_utf8_lossy(&bytes).split_whitespace().collect::<Vec<_>>().join(" ");
        (!name.is_empty()).then_some(name)
    }

    /// Bit 31 of leaf 1's ECX is 0 on every real processor; where it is set, leaf 0x40000000 names the hypervisor.
    pub(super) fn hypervisor() -> Option<String> {
        if leaf(1).ecx & 1 << 31 == 0 {
            return None;
        }
        let CpuidResult { ebx, ecx, edx, .. } = leaf(0x4000_0000);
        let bytes = [ebx, ecx, edx].map(u32::to_le_bytes).concat();
        let text = String::from_utf8_lossy(&bytes).replace(|c: char| !c.is_ascii_graphic(), " ");
        let name = text.trim().to_string();
        Some(if name.is_empty() { "unnamed".to_string() } else { name })
    }

    pub(super) fn features() -> Features {
        let ebx = leaf_7();
        let (prefetch, exponential) = (ebx & 1 << 26 != 0, ebx & 1 << 27 != 0);
        let haswell = has!("avx2") && has!("fma") && has!("bmi1") && has!("bmi2") && has!("lzcnt");
        Features {
            x86_level: level(),
            is_intel: is_intel(),
            is_haswell: haswell && has!("movbe") && has!("popcnt"),
            is_xeon_phi: has!("avx512cd") && exponential && prefetch,
            has_avx512_1: has!("avx512cd") && !exponential && has!("avx512bw") && has!("avx512dq") && has!("avx512vl"),
            has_atomics: false,
        }
    }
}

/// This processor's features. Asks CPUID, which takes microseconds in a virtual machine: ask once.
#[cfg(target_arch = "x86_64")]
pub fn features() -> Features {
    x86::features()
}

/// This processor's features.
#[cfg(target_arch = "aarch64")]
pub fn features() -> Features {
    Features { has_atomics: std::arch::is_aarch64_feature_detected!("lse"), ..Features::default() }
}

/// This processor's features.
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
pub fn features() -> Features {
    Features::default()
}

/// The processor's own name for itself; `None` where there is no instruction to ask for it.
pub fn brand() -> Option<String> {
    #[cfg(target_arch = "x86_64")]
    return x86::brand();
    #[cfg(not(target_arch = "x86_64"))]
    None
}

/// Who runs this virtual machine, `Some(None)` on a processor of its own; `None` where there is no instruction to ask.
pub fn hypervisor() -> Option<Option<String>> {
    #[cfg(target_arch = "x86_64")]
    return Some(x86::hypervisor());
    #[cfg(not(target_arch = "x86_64"))]
    None
}

#[cfg(test)]
mod tests {
    #[test]
    fn an_x86_64_processor_says_its_name_and_whether_it_is_real() {
        assert_eq!(super::hypervisor().is_some(), cfg!(target_arch = "x86_64"));
        assert!(super::brand().is_none_or(|name| !name.is_empty() && name.is_ascii()));
        // The kernel shows the same bit, where it shows any.
        let Ok(info) = std::fs::read_to_string("/proc/cpuinfo") else { return };
        if let (Some(answer), Some(flags)) = (super::hypervisor(), info.lines().find(|l| l.starts_with("flags"))) {
            assert_eq!(answer.is_some(), flags.split_whitespace().any(|f| f == "hypervisor"));
        }
    }

    #[test]
    fn an_x86_64_processor_has_a_level() {
        let level = super::features().x86_level;
        assert_eq!(level != 0, cfg!(target_arch = "x86_64"));
        assert!(level <= 4);
    }
}
