//! How a child ended and what it used: the decoded wait status and rusage of one `wait4`.

use std::fmt;

use crate::error::{Error, Result};
use crate::sys::ret::errno;

/// The raw status of `wait4`, decoded by accessors that return `None` where they do not apply.
/// A child killed by a signal can so never be taken for one that returned 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WaitStatus(pub i32);

impl WaitStatus {
    /// The exit code, where the child exited.
    pub fn exit_code(self) -> Option<i32> {
        libc::WIFEXITED(self.0).then(|| libc::WEXITSTATUS(self.0))
    }

    /// The signal, where one killed the child.
    pub fn signal(self) -> Option<i32> {
        libc::WIFSIGNALED(self.0).then(|| libc::WTERMSIG(self.0))
    }

    /// The stop signal, where a traced child stopped (`PTRACE_EVENT_*` in the high byte is cut off).
    pub fn stop_signal(self) -> Option<i32> {
        libc::WIFSTOPPED(self.0).then(|| libc::WSTOPSIG(self.0))
    }

    /// The shell's convention for tables of codes: the exit code, or 128 + signal.
    pub fn code(self) -> i32 {
        self.exit_code().or(self.signal().map(|s| 128 + s)).unwrap_or(self.0)
    }

    /// Exit code 0.
    pub fn is_success(self) -> bool {
        self.exit_code() == Some(0)
    }
}

impl fmt::Display for WaitStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.exit_code(), self.signal()) {
            (Some(code), _) => write!(f, "exit code {code}"),
            (_, Some(signal)) => write!(f, "killed by signal {signal} ({})", signal_name(signal)),
            _ => write!(f, "wait status {:#x}", self.0),
        }
    }
}

/// `SIGKILL` for 9 and so on; the number where it has no name of its own.
pub fn signal_name(signal: i32) -> String {
    let name = match signal {
        libc::SIGHUP => "SIGHUP",
        libc::SIGINT => "SIGINT",
        libc::SIGQUIT => "SIGQUIT",
        libc::SIGILL => "SIGILL",
        libc::SIGTRAP => "SIGTRAP",
        libc::SIGABRT => "SIGABRT",
        libc::SIGBUS => "SIGBUS",
        libc::SIGFPE => "SIGFPE",
        libc::SIGKILL => "SIGKILL",
        libc::SIGUSR1 => "SIGUSR1",
        libc::SIGSEGV => "SIGSEGV",
        libc::SIGUSR2 => "SIGUSR2",
        libc::SIGPIPE => "SIGPIPE",
        libc::SIGALRM => "SIGALRM",
        libc::SIGTERM => "SIGTERM",
        libc::SIGSTOP => "SIGSTOP",
        libc::SIGTSTP => "SIGTSTP",
        libc::SIGTTIN => "SIGTTIN",
        libc::SIGTTOU => "SIGTTOU",
        libc::SIGXCPU => "SIGXCPU",
        libc::SIGXFSZ => "SIGXFSZ",
        libc::SIGSYS => "SIGSYS",
        other => return format!("signal {other}"),
    };
    name.to_string()
}

/// Resources one child used, from `wait4`'s rusage. Times in microseconds are the kernel's own unit here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Usage {
    /// User time, nanoseconds. Tick-sampled on most kernels: only the sum with `system_ns` is sound.
    pub user_ns: u64,
    /// System time, nanoseconds.
    pub system_ns: u64,
    /// High-water mark of resident memory; at least what the parent had when it forked.
    pub max_rss_bytes: u64,
    /// Page faults served without reading a disk.
    pub minflt: u64,
    /// Page faults that read a disk.
    pub majflt: u64,
    /// Voluntary context switches.
    pub nvcsw: u64,
    /// Involuntary context switches.
    pub nivcsw: u64,
}

/// ru_maxrss is in bytes on macOS and in KiB elsewhere.
const MAX_RSS_UNIT: u64 = if cfg!(target_os = "macos") { 1 } else { 1024 };

fn timeval_ns(t: libc::timeval) -> u64 {
    (t.tv_sec as u64).saturating_mul(1_000_000_000).saturating_add((t.tv_usec as u64).saturating_mul(1_000))
}

impl From<&libc::rusage> for Usage {
    // The kernel's counters are never negative.
    #[allow(clippy::cast_sign_loss)]
    fn from(r: &libc::rusage) -> Usage {
        Usage {
            user_ns: timeval_ns(r.ru_utime),
            system_ns: timeval_ns(r.ru_stime),
            max_rss_bytes: (r.ru_maxrss as u64).saturating_mul(MAX_RSS_UNIT),
            minflt: r.ru_minflt as u64,
            majflt: r.ru_majflt as u64,
            nvcsw: r.ru_nvcsw as u64,
            nivcsw: r.ru_nivcsw as u64,
        }
    }
}

/// What a wait call found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Waited {
    /// A child ended.
    Ended(i32, WaitStatus, Usage),
    /// Children exist, none has ended (only with `hang: false`).
    Running,
    /// There is no child.
    NoChild,
    /// A signal arrived first.
    Interrupted,
}

/// `wait4` on `pid` (-1: any child). With `hang` it sleeps until the child ends or a signal arrives.
///
/// # Errors
/// Never for the ordinary outcomes, which are [`Waited`]; else the system's reason.
pub fn wait4(pid: i32, hang: bool) -> Result<Waited> {
    let mut status = 0;
    // SAFETY: rusage is plain data for which all zeroes is a value.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: both pointers are to live locals of the right type.
    let got = unsafe { libc::wait4(pid, &raw mut status, if hang { 0 } else { libc::WNOHANG }, &raw mut usage) };
    match got {
        0 => Ok(Waited::Running),
        -1 if errno() == libc::EINTR => Ok(Waited::Interrupted),
        -1 if errno() == libc::ECHILD => Ok(Waited::NoChild),
        -1 => Err(Error::from_errno(errno()).context("wait4")),
        pid => Ok(Waited::Ended(pid, WaitStatus(status), Usage::from(&usage))),
    }
}

/// Peak of our own resident memory, from `/proc`: rusage would not do, since it keeps what our parent had before it
/// executed us. `None` where there is no `/proc`.
pub fn own_peak_rss_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|l| l.strip_prefix("VmHWM:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok().map(|kib| kib.saturating_mul(1024))
}

/// The signal that holds this child stopped, if one does. Leaves its end to be waited for.
pub fn stopped_by(pid: i32) -> Option<i32> {
    // SAFETY: siginfo is plain data for which all zeroes is a value.
    let mut info: libc::siginfo_t = unsafe { std::mem::zeroed() };
    let flags = libc::WSTOPPED | libc::WNOHANG | libc::WNOWAIT;
    // SAFETY: the pointer is to a live local of the right type.
    let done = unsafe { libc::waitid(libc::P_PID, pid.cast_unsigned(), &raw mut info, flags) };
    // SAFETY: waitid filled the siginfo, or left its zeroes, which name no process.
    let found = done == 0 && unsafe { info.si_pid() } == pid;
    // SAFETY: as above; the status of a stopped child is the signal.
    found.then(|| unsafe { info.si_status() })
}

/// Signals a process, or with a negative number its process group. A target that is gone is no error.
pub fn kill(pid: i32, signal: i32) {
    // SAFETY: kill takes no pointers.
    unsafe { libc::kill(pid, signal) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_killed_child_is_no_success() {
        let killed = WaitStatus(9);
        assert_eq!((killed.exit_code(), killed.signal(), killed.code()), (None, Some(9), 137));
        assert!(!killed.is_success());
        assert_eq!(killed.to_string(), "killed by signal 9 (SIGKILL)");
    }

    #[test]
    fn an_exit_code_is_in_the_second_byte() {
        let failed = WaitStatus(3 << 8);
        assert_eq!((failed.exit_code(), failed.signal()), (Some(3), None));
        assert!(WaitStatus(0).is_success());
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn our_own_peak_is_known_where_proc_is() {
        assert_eq!(own_peak_rss_bytes().is_some(), std::path::Path::new("/proc/self/status").exists());
    }
}
