//! What the host says of itself: sysctl, the clock's time base, and processes through libproc.

use std::ffi::CStr;
use std::os::raw::c_void;
use std::ptr;

use crate::error::{Context, Error, Result};
use crate::facts::Fact;
use crate::sys::host::{Counters, HostFacts};
use crate::sys::page_size;
use crate::sys::ret::{cvt, errno};

/// Longest text that is asked for.
const TEXT_BYTES: usize = 4096;

/// Nothing has to be looked for here.
#[derive(Debug)]
pub struct Host;

impl Host {
    /// Finds what is asked again and again.
    pub fn find() -> Host {
        Host
    }

    /// What does not change while we measure. What this system does not tell says so.
    pub fn facts(&self) -> HostFacts {
        HostFacts {
            system: text(c"kern.ostype"),
            kernel: text(c"kern.osrelease"),
            cpu_model: text(c"machdep.cpu.brand_string"),
            cpus_online: number(c"hw.activecpu"),
            // Programs cannot be kept off processors here.
            cpus_allowed: number(c"hw.activecpu"),
            governor: untold("macOS shows no frequency governor"),
            turbo: untold("macOS does not tell"),
            smt: match (number(c"hw.logicalcpu"), number(c"hw.physicalcpu")) {
                (Fact::Value(logical), Fact::Value(physical)) => Fact::Value(logical > physical),
                (unknown, _) => unknown.map(|_| false),
            },
            clocksource: Fact::Value("mach_absolute_time".to_string()),
            hz: untold("macOS has no fixed tick"),
            hz_source: "none",
            user_hz: 100,
            hypervisor: match number(c"kern.hv_vmm_present") {
                Fact::Value(0) => Fact::Absent,
                other => other.map(|_| "unnamed".to_string()),
            },
            page_bytes: page_size() as u64,
            memory_bytes: number(c"hw.memsize"),
            aslr: untold("macOS always randomises"),
            aslr_off_for_us: false,
            cpu_quota: Fact::Absent,
            memory_limit_bytes: Fact::Absent,
            ptrace_scope: Fact::Absent,
            perf_event_paranoid: Fact::Absent,
            memfd_noexec: Fact::Absent,
            power: untold("not asked on macOS: it takes a framework (IOKit)"),
        }
    }

    /// What a run is compared by.
    pub fn counters(&self) -> Counters {
        let mut load = [0f64; 3];
        // SAFETY: the array has room for the three numbers asked for.
        let got = unsafe { libc::getloadavg(load.as_mut_ptr(), 3) };
        Counters {
            load: if got == 3 { Fact::Value(load) } else { untold("getloadavg fails") },
            steal_ns: untold("macOS does not count it"),
            throttled: Fact::Absent,
            throttled_ns: Fact::Absent,
        }
    }
}

fn untold<T>(why: &str) -> Fact<T> {
    Fact::Unreadable(why.to_string())
}

fn text(name: &CStr) -> Fact<String> {
    sysctl_text(name).map_or_else(|e| Fact::Unreadable(e.to_string()), Fact::Value)
}

fn number(name: &CStr) -> Fact<u64> {
    sysctl_number(name).map_or_else(|e| Fact::Unreadable(e.to_string()), Fact::Value)
}

/// A text of sysctl: `kern.osproductversion`, `hw.model`, `machdep.cpu.brand_string`, …
///
/// # Errors
/// The name is not known to this system, or its value is no text.
pub fn sysctl_text(name: &CStr) -> Result<String> {
    let mut bytes = vec![0u8; TEXT_BYTES];
    let length = sysctl(name, &mut bytes)?;
    bytes.truncate(length);
    while bytes.last() == Some(&0) {
        bytes.pop();
    }
    String::from_utf8(bytes).map_err(|_| Error::new("not a text").context(name.to_string_lossy()))
}

/// A number of sysctl: `hw.ncpu`, `hw.memsize`, `hw.pagesize`, `hw.cpufrequency`, …
///
/// # Errors
/// The name is not known to this system, or its value is neither 4 nor 8 bytes long.
pub fn sysctl_number(name: &CStr) -> Result<u64> {
    let mut bytes = [0u8; 8];
    match sysctl(name, &mut bytes)? {
        4 => {
            let [a, b, c, d, ..] = bytes;
            Ok(u32::from_ne_bytes([a, b, c, d]).into())
        }
        8 => Ok(u64::from_ne_bytes(bytes)),
        _ => Err(Error::new("not a number").context(name.to_string_lossy())),
    }
}

fn sysctl(name: &CStr, into: &mut [u8]) -> Result<usize> {
    let mut length = into.len();
    let at = into.as_mut_ptr().cast::<c_void>();
    // SAFETY: the name is NUL-terminated; the buffer is writable for `length`, which the call replaces by what it used.
    let got = unsafe { libc::sysctlbyname(name.as_ptr(), at, &raw mut length, ptr::null_mut(), 0) };
    cvt(got).context(|| name.to_string_lossy().into_owned())?;
    Ok(length.min(into.len()))
}

/// Numerator and denominator that turn ticks of `mach_absolute_time` into nanoseconds: 125 and 3 on Apple silicon,
/// so that the clock steps by 42 ns there; 1 and 1 on Intel.
///
/// # Errors
/// The kernel does not say.
#[allow(deprecated)] // reason: the crate that libc points to would be one more dependency for this one call.
pub fn timebase() -> Result<(u32, u32)> {
    let mut base = libc::mach_timebase_info { numer: 0, denom: 0 };
    // SAFETY: the pointer is to a live local that the call fills.
    let failed = unsafe { libc::mach_timebase_info(&raw mut base) };
    if failed != 0 || base.denom == 0 {
        return Err(Error::new("the kernel does not tell the clock's time base"));
    }
    Ok((base.numer, base.denom))
}

/// Threads of a process of ours (`proc_pidinfo`).
///
/// # Errors
/// The process is gone, or is not ours to look at.
pub fn thread_count(pid: i32) -> Result<u64> {
    // SAFETY: proc_taskinfo is plain data for which all zeroes is a value.
    let mut info: libc::proc_taskinfo = unsafe { std::mem::zeroed() };
    let size = i32::try_from(size_of::<libc::proc_taskinfo>()).unwrap_or(i32::MAX);
    let at = ptr::from_mut(&mut info).cast::<c_void>();
    // SAFETY: the buffer is a live local of the size given.
    let got = unsafe { libc::proc_pidinfo(pid, libc::PROC_PIDTASKINFO, 0, at, size) };
    if got < size {
        return Err(Error::from_errno(errno()).context("proc_pidinfo"));
    }
    u64::try_from(info.pti_threadnum).map_err(|_| Error::new("proc_pidinfo: a negative count of threads"))
}
