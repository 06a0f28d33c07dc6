//! Words for numbers of the format, as Apple's tools write them, and this project's words for machines.

use object::macho;
use object::macho::{CpuSubtype, CpuType, FileType, Platform};

use crate::facts::LinkFacts;

/// Low bits of a subtype: the high byte holds capabilities (`arm64e`'s pointer-authentication version, LIB64).
fn subtype_number(subtype: CpuSubtype) -> u32 {
    subtype.0 & !macho::CPU_SUBTYPE_MASK
}

/// Apple's name of a machine; the numbers where there is none.
pub(super) fn cpu(cpu: CpuType, subtype: CpuSubtype) -> String {
    let sub = subtype_number(subtype);
    let name = match (cpu, sub) {
        (macho::CPU_TYPE_X86_64, 8) => "x86_64h",
        (macho::CPU_TYPE_X86_64, 3) => "x86_64",
        (macho::CPU_TYPE_X86, 3) => "i386",
        (macho::CPU_TYPE_ARM64, 2) => "arm64e",
        (macho::CPU_TYPE_ARM64, 1) => "arm64v8",
        (macho::CPU_TYPE_ARM64, 0) => "arm64",
        (macho::CPU_TYPE_ARM64_32, 0 | 1) => "arm64_32",
        (macho::CPU_TYPE_ARM, 0) => "arm",
        (macho::CPU_TYPE_ARM, 5) => "armv4t",
        (macho::CPU_TYPE_ARM, 6) => "armv6",
        (macho::CPU_TYPE_ARM, 7) => "armv5e",
        (macho::CPU_TYPE_ARM, 8) => "xscale",
        (macho::CPU_TYPE_ARM, 9) => "armv7",
        (macho::CPU_TYPE_ARM, 10) => "armv7f",
        (macho::CPU_TYPE_ARM, 11) => "armv7s",
        (macho::CPU_TYPE_ARM, 12) => "armv7k",
        (macho::CPU_TYPE_ARM, 14) => "armv6m",
        (macho::CPU_TYPE_ARM, 15) => "armv7m",
        (macho::CPU_TYPE_ARM, 16) => "armv7em",
        (macho::CPU_TYPE_POWERPC, 0) => "ppc",
        (macho::CPU_TYPE_POWERPC, 9) => "ppc750",
        (macho::CPU_TYPE_POWERPC, 10) => "ppc7400",
        (macho::CPU_TYPE_POWERPC, 11) => "ppc7450",
        (macho::CPU_TYPE_POWERPC, 100) => "ppc970",
        (macho::CPU_TYPE_POWERPC64, 0) => "ppc64",
        _ => return format!("cpu {} subtype {sub}", cpu.0),
    };
    name.to_string()
}

/// This project's word for a machine, the same as for ELF.
pub(super) fn arch(cpu: CpuType) -> String {
    let name = match cpu {
        macho::CPU_TYPE_X86_64 => "x86-64",
        macho::CPU_TYPE_X86 => "x86",
        macho::CPU_TYPE_ARM64 => "aarch64",
        macho::CPU_TYPE_ARM64_32 => "aarch64 (32-bit pointers)",
        macho::CPU_TYPE_ARM => "arm",
        macho::CPU_TYPE_POWERPC => "powerpc",
        macho::CPU_TYPE_POWERPC64 => "powerpc64",
        _ => return format!("cpu {}", cpu.0),
    };
    name.to_string()
}

/// Page size that the system uses for images of this machine: arm64 systems have 16 KiB pages.
pub(super) fn page_size(cpu: CpuType) -> u64 {
    match cpu {
        macho::CPU_TYPE_ARM64 | macho::CPU_TYPE_ARM64_32 => 16384,
        _ => 4096,
    }
}

/// Apple's name of an image's machine, from its facts.
pub(super) fn cpu_of(facts: &LinkFacts) -> String {
    facts.macho.as_ref().map(|m| m.cpu.clone()).unwrap_or_default()
}

/// True where a machine name, as a user types it, means this image.
pub(super) fn is_called(facts: &LinkFacts, word: &str) -> bool {
    let cpu = cpu_of(facts);
    // The common word stands for every variant of the machine, Apple's for exactly one.
    word.eq_ignore_ascii_case(&cpu) || word.eq_ignore_ascii_case(&facts.arch)
}

/// Word for the header's file type.
pub(super) fn file_type(kind: FileType) -> &'static str {
    match kind {
        macho::MH_OBJECT => "object",
        macho::MH_EXECUTE => "execute",
        macho::MH_FVMLIB => "fvmlib",
        macho::MH_CORE => "core",
        macho::MH_PRELOAD => "preload",
        macho::MH_DYLIB => "dylib",
        macho::MH_DYLINKER => "dylinker",
        macho::MH_BUNDLE => "bundle",
        macho::MH_DYLIB_STUB => "dylib-stub",
        macho::MH_DSYM => "dsym",
        macho::MH_KEXT_BUNDLE => "kext",
        macho::MH_FILESET => "fileset",
        macho::MH_GPU_EXECUTE => "gpu-execute",
        macho::MH_GPU_DYLIB => "gpu-dylib",
        _ => "unknown",
    }
}

/// Word for a platform number.
pub(super) fn platform(platform: Platform) -> String {
    let name = match platform {
        macho::PLATFORM_MACOS => "macos",
        macho::PLATFORM_IOS => "ios",
        macho::PLATFORM_TVOS => "tvos",
        macho::PLATFORM_WATCHOS => "watchos",
        macho::PLATFORM_BRIDGEOS => "bridgeos",
        macho::PLATFORM_MACCATALYST => "mac-catalyst",
        macho::PLATFORM_IOSSIMULATOR => "ios-simulator",
        macho::PLATFORM_TVOSSIMULATOR => "tvos-simulator",
        macho::PLATFORM_WATCHOSSIMULATOR => "watchos-simulator",
        macho::PLATFORM_DRIVERKIT => "driverkit",
        macho::PLATFORM_VISIONOS => "visionos",
        macho::PLATFORM_VISIONOSSIMULATOR => "visionos-simulator",
        macho::PLATFORM_FIRMWARE => "firmware",
        macho::PLATFORM_SEPOS => "sepos",
        _ => return format!("platform {}", platform.0),
    };
    name.to_string()
}

/// A packed version: 16 bits major, 8 minor, 8 patch; the patch is left out where it is 0.
pub(super) fn version(packed: u32) -> String {
    let (major, minor, patch) = (packed >> 16, packed >> 8 & 0xff, packed & 0xff);
    if patch == 0 { format!("{major}.{minor}") } else { format!("{major}.{minor}.{patch}") }
}

/// Word for a chained pointer format, where it is known: the constant's name in small letters.
pub(super) fn pointer_format(format: macho::DyldChainedPtrFormat) -> Option<String> {
    let name = match format {
        macho::DYLD_CHAINED_PTR_ARM64E => "arm64e",
        macho::DYLD_CHAINED_PTR_64 => "64",
        macho::DYLD_CHAINED_PTR_32 => "32",
        macho::DYLD_CHAINED_PTR_32_CACHE => "32_cache",
        macho::DYLD_CHAINED_PTR_32_FIRMWARE => "32_firmware",
        macho::DYLD_CHAINED_PTR_64_OFFSET => "64_offset",
        macho::DYLD_CHAINED_PTR_ARM64E_KERNEL => "arm64e_kernel",
        macho::DYLD_CHAINED_PTR_64_KERNEL_CACHE => "64_kernel_cache",
        macho::DYLD_CHAINED_PTR_ARM64E_USERLAND => "arm64e_userland",
        macho::DYLD_CHAINED_PTR_ARM64E_FIRMWARE => "arm64e_firmware",
        macho::DYLD_CHAINED_PTR_X86_64_KERNEL_CACHE => "x86_64_kernel_cache",
        macho::DYLD_CHAINED_PTR_ARM64E_USERLAND24 => "arm64e_userland24",
        macho::DYLD_CHAINED_PTR_ARM64E_SHARED_CACHE => "arm64e_shared_cache",
        macho::DYLD_CHAINED_PTR_ARM64E_SEGMENTED => "arm64e_segmented",
        _ => return None,
    };
    Some(name.to_string())
}
