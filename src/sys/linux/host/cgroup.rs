//! Which control groups bound us, versions 1 and 2: where their files are, what they allow, how often they stopped us.
//!
//! A limit holds for a group and all below it, so the groups from ours up to the root of what we see are asked, and
//! the tightest answer counts. In a container that has a mount of its own but no namespace of its own, our group's
//! path is longer than what is mounted: the mount's root is taken off it.

use std::path::{Component, Path, PathBuf};

use super::text;
use crate::facts::Fact;
use crate::sys::host::Quota;

/// A controller's directory for us, and those above it up to its mount.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Levels {
    /// The unified hierarchy: other file names.
    unified: bool,
    /// Ours first.
    dirs: Vec<PathBuf>,
}

/// Where the groups are; the reason where that cannot be told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Groups {
    pub(super) cpu: Fact<Levels>,
    pub(super) memory: Fact<Levels>,
}

/// One line of `/proc/self/cgroup`: `4:memory:/a/b`, `0::/`.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Membership {
    /// Empty for the unified hierarchy.
    controllers: String,
    path: String,
}

/// A mount of a control group file system.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Mount {
    unified: bool,
    /// Which group stands at its root.
    root: String,
    at: String,
    /// Super block options, the controllers of version 1 among them.
    options: String,
}

/// A group is no deeper than this in any system seen; bounds the files that are opened.
const DEEPEST: usize = 32;

impl Groups {
    /// Asks `/proc`.
    pub(super) fn find() -> Groups {
        let (mut member, mut mounts) = (Vec::new(), Vec::new());
        let read = text::each_line("/proc/self/cgroup", |l| member.extend(membership(l)))
            .and_then(|()| text::each_line("/proc/self/mountinfo", |l| mounts.extend(mount(l))));
        match read {
            Ok(()) => Groups { cpu: levels("cpu", &member, &mounts), memory: levels("memory", &member, &mounts) },
            Err(why) => Groups { cpu: Fact::Unreadable(why.clone()), memory: Fact::Unreadable(why) },
        }
    }

    /// The tightest share of processor time; absent where nothing limits it.
    pub(super) fn cpu_quota(&self) -> Fact<Quota> {
        tightest(&self.cpu, quota_of, |q| (q.processors() * 1e6) as u64)
    }

    /// The tightest memory limit; absent where there is none.
    pub(super) fn memory_limit(&self) -> Fact<u64> {
        let limit = |dir: &Path, unified: bool| {
            let file = if unified { "memory.max" } else { "memory.limit_in_bytes" };
            text::parsed(dir.join(file), text::memory_max)
        };
        tightest(&self.memory, limit, |bytes| *bytes)
    }

    /// How often and for how many nanoseconds the groups were stopped; absent where no controller counts it.
    pub(super) fn throttled(&self) -> (Fact<u64>, Fact<u64>) {
        let levels = match &self.cpu {
            Fact::Value(levels) => levels,
            Fact::Absent => return (Fact::Absent, Fact::Absent),
            Fact::Unreadable(why) => return (Fact::Unreadable(why.clone()), Fact::Unreadable(why.clone())),
        };
        let (mut times, mut ns) = (Fact::Absent, Fact::Absent);
        for dir in &levels.dirs {
            let Fact::Value(stat) = text::text(dir.join("cpu.stat")) else { continue };
            let (field, unit) = if levels.unified { ("throttled_usec", 1000) } else { ("throttled_time", 1) };
            add(&mut times, text::flat_field(&stat, "nr_throttled"));
            add(&mut ns, text::flat_field(&stat, field).map(|n| n.saturating_mul(unit)));
        }
        (times, ns)
    }
}

fn add(sum: &mut Fact<u64>, more: Option<u64>) {
    if let Some(more) = more {
        *sum = Fact::Value(sum.value().map_or(more, |n| n.saturating_add(more)));
    }
}

fn quota_of(dir: &Path, unified: bool) -> Fact<Option<Quota>> {
    if unified {
        return text::parsed(dir.join("cpu.max"), text::cpu_max);
    }
    let period = text::number(dir.join("cpu.cfs_period_us"));
    text::number(dir.join("cpu.cfs_quota_us")).map(|quota| {
        // Version 1 has -1 for "no limit".
        let quota_us = u64::try_from(quota).ok()?;
        let period_us = u64::try_from(*period.value()?).ok()?;
        Some(Quota { quota_us, period_us })
    })
}

/// The smallest limit of all levels. Levels without the file (the root of the unified hierarchy) do not limit.
fn tightest<T: Copy>(
    levels: &Fact<Levels>,
    limit: impl Fn(&Path, bool) -> Fact<Option<T>>,
    size: impl Fn(&T) -> u64,
) -> Fact<T> {
    let levels = match levels {
        Fact::Value(levels) => levels,
        Fact::Absent => return Fact::Absent,
        Fact::Unreadable(why) => return Fact::Unreadable(why.clone()),
    };
    let mut best: Option<T> = None;
    for dir in &levels.dirs {
        match limit(dir, levels.unified) {
            Fact::Value(Some(found)) if best.is_none_or(|b| size(&found) < size(&b)) => best = Some(found),
            Fact::Unreadable(why) => return Fact::Unreadable(why),
            _ => {}
        }
    }
    best.map_or(Fact::Absent, Fact::Value)
}

fn membership(line: &str) -> Option<Membership> {
    let mut parts = line.splitn(3, ':');
    let (_, controllers, path) = (parts.next()?, parts.next()?, parts.next()?);
    Some(Membership { controllers: controllers.to_string(), path: path.to_string() })
}

/// Reads a line of `/proc/self/mountinfo` (proc_pid_mountinfo(5)): id, parent, device, root, mount point, options,
/// optional fields, a dash, type, source, super block options.
fn mount(line: &str) -> Option<Mount> {
    let (front, back) = line.split_once(" - ")?;
    let mut back = back.split(' ');
    let unified = match back.next()? {
        "cgroup" => false,
        "cgroup2" => true,
        _ => return None,
    };
    let mut front = front.split(' ').skip(3);
    let (root, at) = (text::unescaped(front.next()?), text::unescaped(front.next()?));
    Some(Mount { unified, root, at, options: back.nth(1).unwrap_or("").to_string() })
}

fn has_word(list: &str, word: &str) -> bool {
    list.split(',').any(|w| w == word)
}

/// The directories of one controller: of version 1 where it is mounted so, else of the unified hierarchy.
fn levels(controller: &str, member: &[Membership], mounts: &[Mount]) -> Fact<Levels> {
    if member.is_empty() {
        return Fact::Absent;
    }
    let old = member.iter().find(|m| has_word(&m.controllers, controller));
    let new = member.iter().find(|m| m.controllers.is_empty());
    let mount_of =
        |unified: bool| mounts.iter().find(|m| m.unified == unified && (unified || has_word(&m.options, controller)));
    let (member, mount, unified) = match (old, mount_of(false), new, mount_of(true)) {
        (Some(member), Some(mount), ..) => (member, mount, false),
        (None, _, Some(member), Some(mount)) => (member, mount, true),
        _ => return Fact::Unreadable("no control group file system is mounted".to_string()),
    };
    Fact::Value(Levels { unified, dirs: upwards(&mount.at, &below(&member.path, &mount.root)) })
}

/// The part of a group's path below a mount's root. A path from outside of our namespace (`/../x`) is not visible:
/// there the mount's own root is all that can be asked.
fn below(path: &str, root: &str) -> PathBuf {
    let inside = Path::new(path).strip_prefix(root).unwrap_or(Path::new(""));
    let plain = inside.components().all(|c| matches!(c, Component::Normal(_)));
    if plain { inside.to_path_buf() } else { PathBuf::new() }
}

fn upwards(mount: &str, below: &Path) -> Vec<PathBuf> {
    let from = Path::new(mount).join(below);
    let levels = below.components().count() + 1;
    from.ancestors()
        .take(levels.min(DEEPEST))
        .map(|d| PathBuf::from(d.to_string_lossy().trim_end_matches('/')))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines<T>(text: &str, parse: impl Fn(&str) -> Option<T>) -> Vec<T> {
        text.lines().filter_map(parse).collect()
    }

    fn dirs(controller: &str, cgroup: &str, mountinfo: &str) -> (bool, Vec<String>) {
        match levels(controller, &lines(cgroup, membership), &lines(mountinfo, mount)) {
            Fact::Value(l) => (l.unified, l.dirs.iter().map(|d| d.display().to_string()).collect()),
            other => panic!("{other:?}"),
        }
    }

    const HYBRID: &str = "31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755\n\
        32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw,relatime shared:9 - cgroup cgroup rw,cpu,cpuacct\n\
        35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory\n\
        41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw\n";

    #[test]
    fn version_1_beside_version_2() {
        let cgroup = "4:memory:/job/7\n2:cpuacct,cpu:/\n0::/user.slice\n";
        assert_eq!(dirs("cpu", cgroup, HYBRID), (false, vec!["/sys/fs/cgroup/cpu,cpuacct".into()]));
        let memory = ["/sys/fs/cgroup/memory/job/7", "/sys/fs/cgroup/memory/job", "/sys/fs/cgroup/memory"];
        assert_eq!(dirs("memory", cgroup, HYBRID), (false, memory.map(String::from).to_vec()));
    }

    #[test]
    fn the_unified_hierarchy() {
        let mountinfo = "30 23 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n";
        let cgroup = "0::/user.slice/user-1000.slice/session-2.scope\n";
        let (unified, dirs) = dirs("cpu", cgroup, mountinfo);
        assert!(unified);
        assert_eq!(dirs.len(), 4);
        assert_eq!(dirs[0], "/sys/fs/cgroup/user.slice/user-1000.slice/session-2.scope");
        assert_eq!(dirs[3], "/sys/fs/cgroup");
    }

    #[test]
    fn a_container_with_and_without_a_namespace() {
        // Without: the mount shows the container's group alone, and its name is in our path too.
        let mountinfo = "40 30 0:29 /docker/abc /sys/fs/cgroup/cpu ro - cgroup cgroup rw,cpu\n";
        assert_eq!(dirs("cpu", "2:cpu:/docker/abc/x\n", mountinfo).1, ["/sys/fs/cgroup/cpu/x", "/sys/fs/cgroup/cpu"]);
        // With: both begin at the namespace's root.
        let own = "40 30 0:29 / /sys/fs/cgroup ro - cgroup2 cgroup rw\n";
        assert_eq!(dirs("cpu", "0::/\n", own).1, ["/sys/fs/cgroup"]);
        // Moved out of its namespace's root after it was made.
        assert_eq!(dirs("cpu", "0::/../other\n", own).1, ["/sys/fs/cgroup"]);
    }

    #[test]
    fn what_cannot_be_told() {
        assert_eq!(levels("cpu", &[], &[]), Fact::Absent);
        assert!(matches!(levels("cpu", &lines("0::/\n", membership), &[]), Fact::Unreadable(_)));
        for odd in ["", ":", "a:b", " - ", "1 2 3 - cgroup", "1 2 3 4 - cgroup2 x", " - cgroup2 a b c"] {
            let _ = (membership(odd), mount(odd));
        }
    }

    #[test]
    fn deep_paths_are_bounded() {
        let deep = "/x".repeat(5000);
        assert_eq!(upwards("/sys/fs/cgroup", &below(&deep, "/")).len(), DEEPEST);
    }

    /// Limits over directories made to look like groups, both versions.
    #[test]
    fn the_tightest_level_counts() {
        let top = std::env::temp_dir().join(format!("premain-cgroup-{}", std::process::id()));
        let inner = top.join("inner");
        std::fs::create_dir_all(&inner).unwrap();
        let write = |file: &str, outer: &str, own: &str| {
            std::fs::write(top.join(file), outer).unwrap();
            std::fs::write(inner.join(file), own).unwrap();
        };
        write("cpu.max", "50000 100000\n", "max 100000\n");
        write("memory.max", "max\n", "1048576\n");
        write("cpu.stat", "nr_throttled 2\nthrottled_usec 5\nthrottled_time 7\n", "nr_throttled 1\n");
        write("cpu.cfs_quota_us", "-1\n", "25000\n");
        write("cpu.cfs_period_us", "100000\n", "100000\n");
        let groups = |unified| {
            let levels = Fact::Value(Levels { unified, dirs: vec![inner.clone(), top.clone()] });
            Groups { cpu: levels.clone(), memory: levels }
        };
        let new = groups(true);
        assert_eq!(new.cpu_quota(), Fact::Value(Quota { quota_us: 50_000, period_us: 100_000 }));
        assert_eq!(new.memory_limit(), Fact::Value(1 << 20));
        assert_eq!(new.throttled(), (Fact::Value(3), Fact::Value(5000)));
        let old = groups(false);
        assert_eq!(old.cpu_quota(), Fact::Value(Quota { quota_us: 25_000, period_us: 100_000 }));
        assert_eq!(old.memory_limit(), Fact::Absent);
        assert_eq!(old.throttled(), (Fact::Value(3), Fact::Value(7)));
        std::fs::remove_dir_all(&top).unwrap();
    }
}
