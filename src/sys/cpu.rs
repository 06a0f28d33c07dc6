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

#[cfg(test)]
mod tests {
    #[test]
    fn an_x86_64_processor_has_a_level() {
        let level = super::features().x86_level;
        assert_eq!(level != 0, cfg!(target_arch = "x86_64"));
        assert!(level <= 4);
    }
}
