//! The host of a run: its facts, and what happened to it between the first start and the last.

use std::path::Path;

use crate::elf;
use crate::facts::Fact;
use crate::loader::identity::{Flavour, identify};
use crate::sys::file;
use crate::sys::host::{Counters, Host, HostFacts};

/// A host as it was before a run, being watched.
#[derive(Debug)]
pub struct HostWatch {
    host: Host,
    facts: HostFacts,
    before: Counters,
}

impl HostWatch {
    /// Reads the facts, with small fixed reads: what we touch before measuring, each fork has to copy.
    pub fn begin() -> HostWatch {
        let host = Host::find();
        let facts = host.facts();
        HostWatch { before: host.counters(), facts, host }
    }

    /// Reads the counters again, as soon as the last start is over.
    pub fn end(self) -> HostRecord {
        let after = self.host.counters();
        HostRecord { facts: self.facts, libc: Fact::Absent, before: self.before, after }
    }
}

/// The host of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct HostRecord {
    /// What did not change.
    pub facts: HostFacts,
    /// C library that the host's own programs load, with its version: `glibc 2.41`; absent where they load none.
    pub libc: Fact<String>,
    /// Before the first start.
    pub before: Counters,
    /// After the last.
    pub after: Counters,
}

impl HostRecord {
    /// Looks up which C library the host's programs load. It reads files, so it belongs behind the measuring.
    #[must_use]
    pub fn with_libc(mut self) -> HostRecord {
        self.libc = libc_of(Path::new("/bin/sh"));
        self
    }

    /// Time that the hypervisor took from all processors during the run, in ticks of 1 / `user_hz` s.
    pub fn steal_ns(&self) -> Fact<u64> {
        grown(&self.before.steal_ns, &self.after.steal_ns)
    }

    /// How often a control group of ours was stopped during the run for having used its quota up.
    pub fn throttled(&self) -> Fact<u64> {
        grown(&self.before.throttled, &self.after.throttled)
    }

    /// Time for which it was stopped.
    pub fn throttled_ns(&self) -> Fact<u64> {
        grown(&self.before.throttled_ns, &self.after.throttled_ns)
    }
}

/// What a counter grew by. One that went back (a hypervisor that migrates us does that) counts as not grown.
fn grown(before: &Fact<u64>, after: &Fact<u64>) -> Fact<u64> {
    match (before, after) {
        (Fact::Value(b), Fact::Value(a)) => Fact::Value(a.saturating_sub(*b)),
        (Fact::Value(_), other) | (other, _) => other.clone(),
    }
}

/// The C library of a program of the host, from the file of the loader that it names.
fn libc_of(program: &Path) -> Fact<String> {
    let read = |path: &Path| file::open(path).map_err(|e| format!("{}: {e}", path.display()));
    let found = read(program).and_then(|bytes| {
        let facts = elf::link_facts(program, bytes.as_ref()).map_err(|e| format!("{}: {e}", program.display()))?;
        let Fact::Value(loader) = facts.interp else { return Ok(None) };
        let identity = identify(read(&loader)?.as_ref());
        let (major, minor) = identity.version;
        match identity.flavour {
            Flavour::Glibc | Flavour::Musl => Ok(Some(format!("{} {major}.{minor}", identity.flavour.name()))),
            // A part of the system, with the system's version.
            Flavour::Dyld => Ok(Some("libSystem".to_string())),
            Flavour::Unknown => Err(format!("{}: a loader that is not known", loader.display())),
        }
    });
    match found {
        Ok(Some(name)) => Fact::Value(name),
        Ok(None) => Fact::Absent,
        Err(why) => Fact::Unreadable(why),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_grow_or_stand_still() {
        let v = Fact::Value::<u64>;
        let unreadable = || Fact::Unreadable("why".to_string());
        assert_eq!(grown(&v(3), &v(10)), v(7));
        assert_eq!(grown(&v(10), &v(3)), v(0));
        assert_eq!(grown(&Fact::Absent, &Fact::Absent), Fact::Absent);
        assert_eq!(grown(&v(3), &unreadable()), unreadable());
        assert_eq!(grown(&unreadable(), &v(3)), unreadable());
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn the_hosts_library_has_a_name_and_a_version() {
        match libc_of(Path::new("/bin/sh")) {
            Fact::Value(name) => assert!(name.starts_with("glibc 2.") || name.starts_with("musl 1."), "{name}"),
            Fact::Absent => {}
            Fact::Unreadable(why) => panic!("{why}"),
        }
        assert!(matches!(libc_of(Path::new("/no/such")), Fact::Unreadable(_)));
    }
}
