//! What measured commands leave running: daemons in sessions of their own. The kernel hands them to us when their
//! parents end (PR_SET_CHILD_SUBREAPER), so that none outlives a run unseen.
//!
//! While we measure they are left alone: a command that starts its server once and then talks to it is measured as
//! its user meets it. The dead are collected after each start, or they would fill the table of processes.

use std::time::{Duration, Instant};

use crate::sys::ret::errno;
use crate::sys::wait;

/// Descendants adopted; ends what is left of them when dropped, unless they were kept.
#[derive(Debug)]
pub struct Adopted {
    kept: bool,
}

/// Adopts orphaned descendants from now on.
pub fn adopt() -> Adopted {
    // SAFETY: prctl with these arguments takes no pointers.
    unsafe { libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) };
    Adopted { kept: false }
}

/// After TERM, this long until KILL.
const GRACE: Duration = Duration::from_millis(500);
/// Between two looks whether they are gone.
const LOOK: Duration = Duration::from_millis(5);

impl Adopted {
    /// Ends every one that still runs: TERM, a grace, KILL. Returns their names.
    pub fn end(&mut self) -> Vec<String> {
        if !reap_orphans() {
            return Vec::new();
        }
        let names = children().into_iter().map(|(_, name)| name).collect();
        let from = Instant::now();
        // One that ends may leave children of its own to us: look again each time.
        while reap_orphans() && from.elapsed() < 2 * GRACE {
            let signal = if from.elapsed() < GRACE { libc::SIGTERM } else { libc::SIGKILL };
            for (pid, _) in children() {
                wait::kill(pid, signal);
            }
            std::thread::sleep(LOOK);
        }
        names
    }

    /// Leaves them running, and returns their names.
    pub fn keep(&mut self) -> Vec<String> {
        self.kept = true;
        if reap_orphans() { children().into_iter().map(|(_, name)| name).collect() } else { Vec::new() }
    }
}

impl Drop for Adopted {
    fn drop(&mut self) {
        if !self.kept {
            self.end();
        }
    }
}

/// Collects children that have ended, of the calling thread alone: other threads wait for theirs themselves. True
/// where some still run.
pub(crate) fn reap_orphans() -> bool {
    loop {
        let mut status = 0;
        let flags = libc::WNOHANG | libc::__WALL | libc::__WNOTHREAD;
        // SAFETY: the status is a live local; a null rusage is allowed.
        match unsafe { libc::wait4(-1, &raw mut status, flags, std::ptr::null_mut()) } {
            0 => return true,
            -1 if errno() == libc::EINTR => {}
            -1 => return false,
            _ => {}
        }
    }
}

/// Our children by `/proc`: pid and name. None where it is not mounted: they cannot be told then.
fn children() -> Vec<(i32, String)> {
    let Ok(entries) = std::fs::read_dir("/proc") else { return Vec::new() };
    let own = std::process::id().cast_signed();
    let numbers = entries.flatten().filter_map(|e| e.file_name().to_str()?.parse::<i32>().ok());
    let child = |pid: i32| {
        let stat = std::fs::read(format!("/proc/{pid}/stat")).ok()?;
        let (name, parent) = name_and_parent(&String::from_utf8_lossy(&stat))?;
        (parent == own).then_some((pid, name))
    };
    numbers.filter_map(child).collect()
}

/// Second and fourth field of `/proc/PID/stat` (proc_pid_stat(5)); the name may hold blanks and parentheses.
fn name_and_parent(stat: &str) -> Option<(String, i32)> {
    let (front, back) = stat.rsplit_once(')')?;
    let (_, name) = front.split_once('(')?;
    let parent = back.split_ascii_whitespace().nth(1)?.parse().ok()?;
    Some((name.to_string(), parent))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_processes_may_hold_anything() {
        assert_eq!(name_and_parent("12 (sleep) S 7 12 12 0"), Some(("sleep".into(), 7)));
        assert_eq!(name_and_parent("12 (a) (b c) R 1 2"), Some(("a) (b c".into(), 1)));
        for odd in ["", "12", "12 (", ")", "12 (x)", "12 (x) S", "12 (x) S y"] {
            assert_eq!(name_and_parent(odd), None, "{odd}");
        }
    }

    #[test]
    fn nothing_is_left_where_nothing_was_started() {
        assert!(!reap_orphans());
    }
}
