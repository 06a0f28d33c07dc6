//! What a Linux host says of itself: system calls where there is one, else small fixed reads of `/proc` and `/sys`.
//!
//! Works without either file system: each fact that then cannot be had says why. Nothing here grows with the host:
//! the facts are read before measuring, and memory that we had touched would be copied by each fork.

mod cgroup;
mod text;

use std::collections::BTreeSet;
use std::path::Path;

use self::cgroup::Groups;
use crate::facts::Fact;
use crate::sys::cpu;
use crate::sys::host::{Counters, HostFacts, Power};
use crate::sys::page_size;

/// Where this host keeps what is asked of it again and again.
#[derive(Debug)]
pub struct Host {
    groups: Groups,
}

impl Host {
    /// Finds the control groups that bound us.
    pub fn find() -> Host {
        Host { groups: Groups::find() }
    }

    /// What does not change while we measure.
    pub fn facts(&self) -> HostFacts {
        let online = text::text("/sys/devices/system/cpu/online");
        HostFacts {
            system: uname(|u| &u.sysname),
            kernel: uname(|u| &u.release),
            cpu_model: cpu_model(),
            cpus_online: text::parsed("/sys/devices/system/cpu/online", text::count_of_list),
            cpus_allowed: Fact::Value(super::perf::allowed_processors().len() as u64),
            governor: governor(&online),
            turbo: turbo(),
            smt: text::parsed("/sys/devices/system/cpu/smt/active", |t| t.parse::<u8>().ok().map(|n| n != 0)),
            clocksource: text::text("/sys/devices/system/clocksource/clocksource0/current_clocksource"),
            hz: hz(),
            hz_source: "the step of CLOCK_MONOTONIC_COARSE, which is one timer tick",
            user_hz: user_hz(),
            hypervisor: hypervisor(),
            page_bytes: page_size() as u64,
            memory_bytes: sysinfo().map(|s| s.totalram.saturating_mul(s.mem_unit.into())),
            aslr: text::number("/proc/sys/kernel/randomize_va_space"),
            aslr_off_for_us: aslr_off_for_us(),
            cpu_quota: self.groups.cpu_quota(),
            memory_limit_bytes: self.groups.memory_limit(),
            ptrace_scope: text::number("/proc/sys/kernel/yama/ptrace_scope"),
            perf_event_paranoid: text::number("/proc/sys/kernel/perf_event_paranoid"),
            memfd_noexec: text::number("/proc/sys/vm/memfd_noexec"),
            power: power(Path::new("/sys/class/power_supply")),
        }
    }

    /// What a run is compared by.
    pub fn counters(&self) -> Counters {
        let (throttled, throttled_ns) = self.groups.throttled();
        let tick_ns = 1_000_000_000 / user_hz();
        Counters {
            // sysinfo(2) gives fixed-point numbers with 16 bits behind the point.
            load: sysinfo().map(|s| s.loads.map(|l| l as f64 / 65536.0)),
            steal_ns: text::parsed("/proc/stat", text::steal_ticks).map(|ticks| ticks.saturating_mul(tick_ns)),
            throttled,
            throttled_ns,
        }
    }
}

fn uname(field: impl Fn(&libc::utsname) -> &[libc::c_char]) -> Fact<String> {
    // SAFETY: utsname is plain data for which all zeroes is a value.
    let mut names: libc::utsname = unsafe { std::mem::zeroed() };
    // SAFETY: the pointer is to a live local of the right type.
    if unsafe { libc::uname(&raw mut names) } != 0 {
        return Fact::Unreadable("uname fails".to_string());
    }
    let bytes: Vec<u8> = field(&names).iter().map(|c| c.to_ne_bytes()[0]).take_while(|b| *b != 0).collect();
    Fact::Value(String::from_utf8_lossy(&bytes).into_owned())
}

fn sysinfo() -> Fact<libc::sysinfo> {
    // SAFETY: the struct is plain data for which all zeroes is a value.
    let mut info: libc::sysinfo = unsafe { std::mem::zeroed() };
    // SAFETY: the pointer is to a live local of the right type.
    match unsafe { libc::sysinfo(&raw mut info) } {
        0 => Fact::Value(info),
        _ => Fact::Unreadable("sysinfo fails".to_string()),
    }
}

/// The processor says its name itself on x86-64; elsewhere the kernel is asked.
fn cpu_model() -> Fact<String> {
    match cpu::brand() {
        Some(name) => Fact::Value(name),
        None => text::parsed("/proc/cpuinfo", text::cpu_model),
    }
}

fn hypervisor() -> Fact<String> {
    if let Some(answer) = cpu::hypervisor() {
        return answer.map_or(Fact::Absent, Fact::Value);
    }
    // No instruction asks for it here: the device tree or Xen's directory name it, and nothing else tells.
    for path in ["/sys/hypervisor/type", "/proc/device-tree/hypervisor/compatible"] {
        if let Fact::Value(name) = text::text(path) {
            return Fact::Value(name.trim_end_matches('\0').to_string());
        }
    }
    Fact::Unreadable("this processor has no way to ask".to_string())
}

/// The kernel's tick from the step of its coarse clock, which moves once a tick. `sysconf(_SC_CLK_TCK)` (AT_CLKTCK) is
/// no answer: it is the unit of times that programs are given, 100 on nearly every system.
fn hz() -> Fact<u64> {
    let mut step = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer is to a live local of the right type.
    let failed = unsafe { libc::clock_getres(libc::CLOCK_MONOTONIC_COARSE, &raw mut step) } != 0;
    match u64::try_from(step.tv_nsec) {
        // From 20 to 100,000 ticks a second: anything else is no tick.
        Ok(ns @ 10_000..=50_000_000) if !failed && step.tv_sec == 0 => Fact::Value((1_000_000_000 + ns / 2) / ns),
        _ => Fact::Unreadable("the coarse clock does not step by ticks".to_string()),
    }
}

fn user_hz() -> u64 {
    // SAFETY: sysconf takes a number.
    let n = unsafe { libc::sysconf(libc::_SC_CLK_TCK) };
    u64::try_from(n).unwrap_or(100).max(1)
}

/// personality(2) is inherited by what we start: `setarch -R` before us switches randomisation off for it.
fn aslr_off_for_us() -> bool {
    const ASK: libc::c_ulong = 0xffff_ffff;
    // SAFETY: personality takes a number; this one changes nothing.
    let now = unsafe { libc::personality(ASK) };
    now != -1 && now & libc::ADDR_NO_RANDOMIZE != 0
}

/// The governors of all processors that are online: one name where they agree.
fn governor(online: &Fact<String>) -> Fact<String> {
    let of = |cpu: u64| text::text(format!("/sys/devices/system/cpu/cpu{cpu}/cpufreq/scaling_governor"));
    let first = of(0);
    let (Fact::Value(_), Fact::Value(list)) = (&first, online) else { return first };
    let mut names = BTreeSet::new();
    text::each_of_list(list, |cpu| {
        if let Fact::Value(name) = of(cpu) {
            names.insert(name);
        }
    });
    Fact::Value(names.into_iter().collect::<Vec<_>>().join(", "))
}

/// Intel's driver has a switch that turns it off, the others one that turns it on.
fn turbo() -> Fact<bool> {
    let switch = |path: &str, on: &str| text::text(path).map(|t| t == on);
    for (path, on) in [
        ("/sys/devices/system/cpu/intel_pstate/no_turbo", "0"),
        ("/sys/devices/system/cpu/cpufreq/boost", "1"),
        ("/sys/devices/system/cpu/cpu0/cpufreq/boost", "1"),
    ] {
        let found = switch(path, on);
        if found != Fact::Absent {
            return found;
        }
    }
    Fact::Absent
}

/// Power supplies; those of devices (a mouse's battery) say nothing of the host.
fn power(class: &Path) -> Fact<Power> {
    let supplies = match std::fs::read_dir(class) {
        Ok(entries) => entries.flatten().map(|e| e.path()).collect::<Vec<_>>(),
        Err(_) => return text::text(class).map(|_| Power::default()),
    };
    let mut power = Power::default();
    for dir in supplies {
        let is = |file: &str, word: &str| text::text(dir.join(file)).value().is_some_and(|t| t == word);
        if is("scope", "Device") {
            continue;
        }
        if is("type", "Battery") {
            let status = text::text(dir.join("status"));
            // One that discharges decides, where there are two.
            if power.battery.as_deref() != Some("Discharging") {
                power.battery = status.value().cloned().or(power.battery);
            }
        } else if let Fact::Value(online) = text::number(dir.join("online")) {
            power.mains = Some(power.mains == Some(true) || online != 0);
        }
    }
    if power == Power::default() { Fact::Absent } else { Fact::Value(power) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn facts_that_need_no_file() {
        let facts = Host::find().facts();
        assert_eq!(facts.system, Fact::Value("Linux".to_string()));
        assert!(facts.kernel.value().is_some_and(|k| k.contains('.')));
        assert!(facts.page_bytes >= 4096 && facts.page_bytes.is_power_of_two());
        assert!(facts.cpus_allowed.value().is_some_and(|n| *n >= 1));
        assert!(facts.memory_bytes.value().is_some_and(|n| *n > 1 << 20));
        assert!(facts.user_hz >= 1);
    }

    /// The kernel's own configuration, where it is there to be compared with.
    #[test]
    fn the_tick_is_the_configured_one() {
        let boot = uname(|u| &u.release).value().map(|r| format!("/boot/config-{r}"));
        let packed = std::process::Command::new("zcat").arg("/proc/config.gz").output().map(|o| o.stdout);
        let texts = [packed.ok(), boot.and_then(|b| std::fs::read(b).ok())].into_iter().flatten();
        let configured = texts
            .filter_map(|t| String::from_utf8(t).ok())
            .find_map(|t| t.lines().find_map(|l| l.strip_prefix("CONFIG_HZ=")?.parse::<u64>().ok()));
        if let (Some(configured), Fact::Value(hz)) = (configured, hz()) {
            assert_eq!(hz, configured);
        }
    }

    #[test]
    fn counters_never_go_back() {
        let host = Host::find();
        let (a, b) = (host.counters(), host.counters());
        assert!(a.steal_ns.value() <= b.steal_ns.value() || b.steal_ns.value().is_none());
        assert!(a.load.value().is_some_and(|l| l.iter().all(|x| x.is_finite() && *x >= 0.0)));
    }

    #[test]
    fn power_supplies_of_a_laptop_and_of_a_mouse() {
        let class = std::env::temp_dir().join(format!("premain-power-{}", std::process::id()));
        let supply = |name: &str, files: &[(&str, &str)]| {
            let dir = class.join(name);
            std::fs::create_dir_all(&dir).unwrap();
            files.iter().for_each(|(f, t)| std::fs::write(dir.join(f), t).unwrap());
        };
        supply("mouse", &[("type", "Battery\n"), ("scope", "Device\n"), ("status", "Discharging\n")]);
        assert_eq!(power(&class), Fact::Absent);
        supply("AC", &[("type", "Mains\n"), ("online", "0\n")]);
        supply("BAT0", &[("type", "Battery\n"), ("status", "Discharging\n")]);
        let found = power(&class);
        assert!(found.value().is_some_and(Power::on_battery), "{found:?}");
        supply("AC", &[("online", "1\n")]);
        assert!(power(&class).value().is_some_and(|p| !p.on_battery()));
        std::fs::remove_dir_all(&class).unwrap();
        assert_eq!(power(&class), Fact::Absent);
    }
}
