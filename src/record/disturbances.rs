//! What on a host disturbs measuring: each with what it does to figures and what can be done about it.
//!
//! `doctor` shows all of it; a run shows what is marked as a warning, and what really happened while it ran.

use crate::facts::Fact;
use crate::record::host::HostRecord;
use crate::sys::host::{HostFacts, Quota};
use crate::units;

/// How much it matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Weight {
    /// As it should be.
    Fine,
    /// Worth knowing: interleaved rounds take care of it.
    Note,
    /// Likely to spoil figures.
    Warning,
    /// It cannot be told.
    Unknown,
}

impl Weight {
    /// The word in JSON and in tables.
    pub fn name(self) -> &'static str {
        match self {
            Weight::Fine => "fine",
            Weight::Note => "note",
            Weight::Warning => "warning",
            Weight::Unknown => "unknown",
        }
    }
}

/// One thing that may disturb.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Disturbance {
    /// What it is called in tables and JSON.
    pub name: &'static str,
    /// How much it matters here.
    pub weight: Weight,
    /// How it is here, and what that does.
    pub what: String,
    /// What can be done.
    pub advice: Option<&'static str>,
}

fn fine(name: &'static str, what: impl Into<String>) -> Disturbance {
    Disturbance { name, weight: Weight::Fine, what: what.into(), advice: None }
}

fn note(name: &'static str, what: impl Into<String>, advice: &'static str) -> Disturbance {
    Disturbance { name, weight: Weight::Note, what: what.into(), advice: Some(advice) }
}

fn warning(name: &'static str, what: impl Into<String>, advice: &'static str) -> Disturbance {
    Disturbance { name, weight: Weight::Warning, what: what.into(), advice: Some(advice) }
}

fn unknown(name: &'static str, why: &str) -> Disturbance {
    Disturbance { name, weight: Weight::Unknown, what: format!("not known: {why}"), advice: None }
}

/// All that can be judged before a run, in the order of doctor's table.
pub fn of_host(facts: &HostFacts, load: &Fact<[f64; 3]>) -> Vec<Disturbance> {
    vec![
        load_average(facts, load),
        governor(&facts.governor),
        turbo(&facts.turbo),
        smt(&facts.smt),
        virtual_machine(&facts.hypervisor),
        clocksource(&facts.clocksource),
        cpu_quota(&facts.cpu_quota),
        processors(facts),
        randomisation(facts),
        power(facts),
        tick(facts),
    ]
}

/// The warnings of a run that took `spent_ns`: what the host is like, and what happened to it meanwhile.
pub fn of_run(host: &HostRecord, spent_ns: u64) -> Vec<String> {
    let standing = of_host(&host.facts, &host.before.load);
    let mut out: Vec<String> = standing
        .into_iter()
        .filter(|d| d.weight == Weight::Warning)
        .map(|d| format!("{}: {}", d.name, d.what))
        .collect();
    out.extend(stolen(host, spent_ns));
    if let Fact::Value(times @ 1..) = host.throttled() {
        let lost = host.throttled_ns().value().map_or(String::new(), |ns| format!(", {}", units::time(*ns as f64)));
        out.push(format!(
            "the control group's processor quota stopped us {} during the run{lost}: the longest times are the quota's",
            units::counted(times, "time")
        ));
    }
    out
}

/// More than 1 % of the run, and more than one tick: a single one may have been only its last nanosecond.
fn stolen(host: &HostRecord, spent_ns: u64) -> Option<String> {
    let steal = *host.steal_ns().value()?;
    let tick = 1_000_000_000 / host.facts.user_hz.max(1);
    (steal > tick && steal > spent_ns / 100).then(|| {
        format!(
            "the hypervisor took {} of processor time from this machine during the run: long times may be its doing",
            units::time(steal as f64)
        )
    })
}

fn load_average(facts: &HostFacts, load: &Fact<[f64; 3]>) -> Disturbance {
    const NAME: &str = "load";
    const ADVICE: &str = "end or wait for other work before measuring";
    let [now, ..] = match load {
        Fact::Value(load) => *load,
        Fact::Absent => return unknown(NAME, "the system has no load average"),
        Fact::Unreadable(why) => return unknown(NAME, why),
    };
    let processors = facts.cpus_online.value().or(facts.cpus_allowed.value()).copied().unwrap_or(1).max(1);
    let what = format!("{now:.2} over the last minute on {}", units::counted(processors, "processor"));
    if now > processors as f64 {
        return warning(NAME, format!("{what}: other programs compete with what is measured"), ADVICE);
    }
    if now > processors as f64 / 2.0 {
        return note(NAME, what, ADVICE);
    }
    fine(NAME, what)
}

fn governor(governor: &Fact<String>) -> Disturbance {
    const NAME: &str = "governor";
    match governor {
        Fact::Value(g) if g == "performance" => fine(NAME, "performance"),
        Fact::Value(g) => warning(
            NAME,
            format!("{g}: the clock speed follows the load, and starts are short"),
            "cpupower frequency-set -g performance",
        ),
        Fact::Absent => fine(NAME, "none to be seen: the frequency is not set from here"),
        Fact::Unreadable(why) => unknown(NAME, why),
    }
}

fn turbo(turbo: &Fact<bool>) -> Disturbance {
    const NAME: &str = "turbo";
    match turbo {
        Fact::Value(false) => fine(NAME, "off"),
        Fact::Value(true) => note(
            NAME,
            "on: the clock speed depends on heat and on what the neighbours do",
            "write 1 to intel_pstate/no_turbo, or 0 to cpufreq/boost, in /sys/devices/system/cpu",
        ),
        Fact::Absent => fine(NAME, "no switch to be seen"),
        Fact::Unreadable(why) => unknown(NAME, why),
    }
}

fn smt(smt: &Fact<bool>) -> Disturbance {
    const NAME: &str = "smt";
    match smt {
        Fact::Value(true) => note(
            NAME,
            "on: two processors share a core, and each slows the other",
            "write off to /sys/devices/system/cpu/smt/control, or keep the sibling of --cpu N idle",
        ),
        Fact::Value(false) => fine(NAME, "off: no core is shared"),
        Fact::Absent => fine(NAME, "no switch to be seen"),
        Fact::Unreadable(why) => unknown(NAME, why),
    }
}

fn virtual_machine(hypervisor: &Fact<String>) -> Disturbance {
    const NAME: &str = "virtual machine";
    match hypervisor {
        Fact::Value(who) => note(
            NAME,
            format!("yes ({who}): its host may take processor time away, and traps make CPUID and page faults dear"),
            "look at noise.steal_ns of each run; compare only figures of one run",
        ),
        Fact::Absent => fine(NAME, "no"),
        Fact::Unreadable(why) => unknown(NAME, why),
    }
}

/// Those that a program reads without entering the kernel, and that step by nanoseconds.
const GOOD_CLOCKS: [&str; 7] = [
    "tsc",
    "arch_sys_counter",
    "kvm-clock",
    "hyperv_clocksource_tsc_page",
    "timebase",
    "riscv_clocksource",
    "mach_absolute_time",
];

fn clocksource(name: &Fact<String>) -> Disturbance {
    const NAME: &str = "clocksource";
    match name {
        Fact::Value(c) if GOOD_CLOCKS.contains(&c.as_str()) => fine(NAME, c.as_str()),
        Fact::Value(c) => warning(
            NAME,
            format!("{c}: each reading of the clock may take microseconds"),
            "see why the kernel refuses tsc: dmesg, clocksource messages",
        ),
        Fact::Absent => unknown(NAME, "the kernel does not name it"),
        Fact::Unreadable(why) => unknown(NAME, why),
    }
}

fn cpu_quota(quota: &Fact<Quota>) -> Disturbance {
    const NAME: &str = "cpu quota";
    match quota {
        Fact::Value(q) => note(
            NAME,
            format!("{:.2} processors: when it is used up, everything stops for the rest of a period", q.processors()),
            "measure outside of the control group, or look at noise.throttled of each run",
        ),
        Fact::Absent => fine(NAME, "none"),
        Fact::Unreadable(why) => unknown(NAME, why),
    }
}

fn processors(facts: &HostFacts) -> Disturbance {
    const NAME: &str = "processors";
    match (facts.cpus_allowed.value(), facts.cpus_online.value()) {
        (Some(1), online) => note(
            NAME,
            match online {
                Some(1) | None => "1: we and what we measure take turns on it".to_string(),
                Some(n) => format!("1 of {n} allowed: we and what we measure take turns on it"),
            },
            "allow one more processor",
        ),
        (Some(allowed), Some(online)) if allowed < online => fine(NAME, format!("{allowed} of {online} allowed")),
        (Some(allowed), _) => fine(NAME, allowed.to_string()),
        (None, _) => unknown(NAME, "the system does not tell"),
    }
}

fn randomisation(facts: &HostFacts) -> Disturbance {
    const NAME: &str = "aslr";
    const OFF: &str = "off: every start has the same addresses, lucky or unlucky ones";
    if facts.aslr_off_for_us {
        return warning(
            NAME,
            format!("{OFF} (switched off for premain itself)"),
            "do not run premain under setarch -R",
        );
    }
    match facts.aslr {
        Fact::Value(0) => warning(NAME, OFF, "sysctl kernel.randomize_va_space=2"),
        Fact::Value(1) => fine(NAME, "on, but for the heap"),
        Fact::Value(_) => fine(NAME, "on: layout is averaged over starts"),
        Fact::Absent => unknown(NAME, "the kernel has no such setting"),
        Fact::Unreadable(ref why) => unknown(NAME, why),
    }
}

fn power(facts: &HostFacts) -> Disturbance {
    const NAME: &str = "power";
    match &facts.power {
        Fact::Value(p) if p.on_battery() => {
            warning(NAME, "on battery: the clock speed is held down", "connect the mains")
        }
        Fact::Value(_) => fine(NAME, "not on battery"),
        Fact::Absent => fine(NAME, "no battery to be seen"),
        Fact::Unreadable(why) => unknown(NAME, why),
    }
}

fn tick(facts: &HostFacts) -> Disturbance {
    const NAME: &str = "timer tick";
    match &facts.hz {
        Fact::Value(hz) => note(
            NAME,
            format!("{hz} a second: user and system time are split by what a tick meets"),
            "use cpu_ns, their sum",
        ),
        Fact::Absent => unknown(NAME, "there is none"),
        Fact::Unreadable(why) => unknown(NAME, why),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::host::{Counters, Power};

    fn facts() -> HostFacts {
        HostFacts {
            system: Fact::Value("Linux".into()),
            kernel: Fact::Value("6.1".into()),
            cpu_model: Fact::Absent,
            cpus_online: Fact::Value(2),
            cpus_allowed: Fact::Value(2),
            governor: Fact::Value("performance".into()),
            turbo: Fact::Value(false),
            smt: Fact::Value(false),
            clocksource: Fact::Value("tsc".into()),
            hz: Fact::Value(250),
            hz_source: "",
            user_hz: 100,
            hypervisor: Fact::Absent,
            page_bytes: 4096,
            memory_bytes: Fact::Absent,
            aslr: Fact::Value(2),
            aslr_off_for_us: false,
            cpu_quota: Fact::Absent,
            memory_limit_bytes: Fact::Absent,
            ptrace_scope: Fact::Absent,
            perf_event_paranoid: Fact::Value(2),
            memfd_noexec: Fact::Value(0),
            power: Fact::Absent,
        }
    }

    fn counters(steal_ns: u64, throttled: u64) -> Counters {
        Counters {
            load: Fact::Value([0.1, 0.1, 0.1]),
            steal_ns: Fact::Value(steal_ns),
            throttled: Fact::Value(throttled),
            throttled_ns: Fact::Value(throttled * 1_000_000),
        }
    }

    fn record(facts: HostFacts, after: Counters) -> HostRecord {
        HostRecord { facts, libc: Fact::Absent, before: counters(0, 0), after }
    }

    const SECOND: u64 = 1_000_000_000;

    #[test]
    fn a_quiet_host_gives_no_warning() {
        assert_eq!(of_run(&record(facts(), counters(0, 0)), SECOND), [] as [&str; 0]);
    }

    #[test]
    fn steal_counts_beyond_one_tick_and_one_percent() {
        let warned = |steal, spent| !of_run(&record(facts(), counters(steal, 0)), spent).is_empty();
        assert!(!warned(10_000_000, SECOND / 10), "one tick of 10 ms");
        assert!(warned(20_000_000, SECOND / 10));
        assert!(!warned(20_000_000, 3 * SECOND));
        assert!(warned(40_000_000, 3 * SECOND));
    }

    #[test]
    fn being_throttled_once_is_enough() {
        let said = of_run(&record(facts(), counters(0, 1)), SECOND);
        assert_eq!(said.len(), 1);
        assert!(said[0].contains("stopped us 1 time during the run, 1.00 ms"), "{said:?}");
    }

    #[test]
    fn what_spoils_figures_is_warned_of() {
        let bad = HostFacts {
            governor: Fact::Value("powersave".into()),
            clocksource: Fact::Value("hpet".into()),
            aslr: Fact::Value(0),
            power: Fact::Value(Power { mains: None, battery: Some("Discharging".into()) }),
            ..facts()
        };
        let mut host = record(bad, counters(0, 0));
        host.before.load = Fact::Value([2.5, 0.0, 0.0]);
        let said = of_run(&host, SECOND);
        for (warning, about) in
            said.iter().zip(["load: 2.50", "governor: powersave", "clocksource: hpet", "aslr:", "power:"])
        {
            assert!(warning.starts_with(about), "{said:?}");
        }
        assert_eq!(said.len(), 5);
    }

    /// Without `/proc` and `/sys` nothing is claimed, and nothing is warned of.
    #[test]
    fn a_host_that_tells_nothing() {
        let why = || "/proc is not mounted".to_string();
        let dumb = HostFacts {
            cpus_online: Fact::Unreadable(why()),
            governor: Fact::Unreadable(why()),
            turbo: Fact::Unreadable(why()),
            smt: Fact::Unreadable(why()),
            clocksource: Fact::Unreadable(why()),
            hz: Fact::Unreadable(why()),
            hypervisor: Fact::Unreadable(why()),
            aslr: Fact::Unreadable(why()),
            cpu_quota: Fact::Unreadable(why()),
            power: Fact::Unreadable(why()),
            ..facts()
        };
        let unreadable = Counters {
            load: Fact::Unreadable(why()),
            steal_ns: Fact::Unreadable(why()),
            throttled: Fact::Unreadable(why()),
            throttled_ns: Fact::Unreadable(why()),
        };
        let host = HostRecord { facts: dumb, libc: Fact::Absent, before: unreadable.clone(), after: unreadable };
        assert!(of_run(&host, SECOND).is_empty());
        let all = of_host(&host.facts, &host.before.load);
        assert_eq!(all.iter().filter(|d| d.weight == Weight::Unknown).count(), 10);
    }

    #[test]
    fn warnings_say_what_to_do() {
        let all = of_host(&facts(), &Fact::Value([9.0, 0.0, 0.0]));
        for d in all {
            let needs = matches!(d.weight, Weight::Warning | Weight::Note);
            assert_eq!(d.advice.is_some(), needs, "{}", d.name);
        }
    }
}
