//! The JSON of a host: `host {}` of every record that has one.

use crate::facts::Fact;
use crate::json::Json;
use crate::record::host::HostRecord;
use crate::sys::host::{HostFacts, Power, Quota};

/// A fact in its three states: a value, `null`, or `{"unreadable": "why"}`.
pub fn fact<T: Clone + Into<Json>>(f: &Fact<T>) -> Json {
    match f {
        Fact::Absent => Json::Null,
        Fact::Value(v) => v.clone().into(),
        Fact::Unreadable(why) => Json::unreadable(why.as_str()),
    }
}

/// The host of a run: its facts, its load before and after.
pub fn record(h: &HostRecord) -> Json {
    let mut j = facts(&h.facts, &h.libc);
    j.push("load_before", load(&h.before.load));
    j.push("load_after", load(&h.after.load));
    j
}

/// The three averages, of 1, 5 and 15 minutes.
pub fn load(l: &Fact<[f64; 3]>) -> Json {
    fact(&l.clone().map(Json::array))
}

/// The facts alone. Absent (`null`) means that the host was asked and has none.
pub fn facts(f: &HostFacts, libc: &Fact<String>) -> Json {
    // On a host of its own there is no hypervisor: that is an answer.
    let virtualised = match &f.hypervisor {
        Fact::Value(_) => Json::Bool(true),
        Fact::Absent => Json::Bool(false),
        Fact::Unreadable(why) => Json::unreadable(why.as_str()),
    };
    Json::object([
        ("tool_version", env!("CARGO_PKG_VERSION").into()),
        ("system", fact(&f.system)),
        ("kernel", fact(&f.kernel)),
        ("arch", std::env::consts::ARCH.into()),
        ("cpu_model", fact(&f.cpu_model)),
        ("cpus_online", fact(&f.cpus_online)),
        ("cpus_allowed", fact(&f.cpus_allowed)),
        ("governor", fact(&f.governor)),
        ("turbo", fact(&f.turbo)),
        ("smt", fact(&f.smt)),
        ("clocksource", fact(&f.clocksource)),
        ("hz", fact(&f.hz)),
        ("hz_source", f.hz_source.into()),
        ("user_hz", f.user_hz.into()),
        ("virtualised", virtualised),
        ("hypervisor", fact(&f.hypervisor)),
        ("page_size_bytes", f.page_bytes.into()),
        ("memory_bytes", fact(&f.memory_bytes)),
        ("aslr", fact(&f.aslr)),
        ("aslr_off_for_us", f.aslr_off_for_us.into()),
        ("cgroup_cpu_max", fact(&f.cpu_quota.clone().map(quota))),
        ("cgroup_memory_max_bytes", fact(&f.memory_limit_bytes)),
        ("ptrace_scope", fact(&f.ptrace_scope)),
        ("perf_event_paranoid", fact(&f.perf_event_paranoid)),
        ("memfd_noexec", fact(&f.memfd_noexec)),
        ("power", fact(&f.power.clone().map(power))),
        ("libc", fact(libc)),
    ])
}

fn quota(q: Quota) -> Json {
    Json::object([
        ("quota_us", Json::from(q.quota_us)),
        ("period_us", q.period_us.into()),
        ("processors", q.processors().into()),
    ])
}

fn power(p: Power) -> Json {
    Json::object([("mains", Json::from(p.mains)), ("battery", p.battery.as_deref().into())])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_states_look_different() {
        assert_eq!(fact(&Fact::Value(3u64)), Json::Uint(3));
        assert_eq!(fact::<u64>(&Fact::Absent), Json::Null);
        assert_eq!(fact::<u64>(&Fact::Unreadable("why".into())), Json::unreadable("why"));
    }
}
