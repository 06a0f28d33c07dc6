//! What was recorded about one start.

use crate::sys::start::{RawStart, Stream};
use crate::sys::wait::{Usage, WaitStatus};

/// One start of one arm. Times are spans in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sample {
    /// Round, from 0.
    pub round: u32,
    /// Place within the round, from 0.
    pub position: u16,
    /// Which arm was started.
    pub arm: u16,
    /// From just before fork to just before execve in the child.
    pub fork_to_exec_ns: u64,
    /// From just before fork to the return of wait4.
    pub spawn_to_exit_ns: u64,
    /// From just before fork to the first byte of standard output read; none where nothing was written.
    pub spawn_to_byte_ns: Option<u64>,
    /// From just before fork to the first byte of either stream, and which.
    pub spawn_to_output: Option<(u64, Stream)>,
    /// From just before fork to the end of standard output.
    pub spawn_to_eof_ns: Option<u64>,
    /// Bytes on standard output.
    pub stdout_bytes: u64,
    /// Bytes on standard error.
    pub stderr_bytes: u64,
    /// Hash of standard output.
    pub stdout_hash: u64,
    /// How it ended.
    pub status: WaitStatus,
    /// What it used.
    pub usage: Usage,
    /// Something still held its output open after it ended.
    pub held_open: bool,
    /// Killed for running past the time limit.
    pub timed_out: bool,
    /// Ended by us at its first byte, as asked.
    pub ended_at_first_byte: bool,
}

impl Sample {
    /// Spans from time stamps. A clock that went back gives spans of 0 there, never a wrapped number.
    pub fn new(round: u32, position: u16, arm: u16, raw: &RawStart) -> Sample {
        let since = |t: u64| t.saturating_sub(raw.t0);
        Sample {
            round,
            position,
            arm,
            fork_to_exec_ns: since(raw.t_exec),
            spawn_to_exit_ns: since(raw.t_exit),
            spawn_to_byte_ns: raw.t_byte.map(since),
            spawn_to_output: raw.t_first_output.map(|(t, s)| (since(t), s)),
            spawn_to_eof_ns: raw.t_eof.map(since),
            stdout_bytes: raw.stdout_bytes,
            stderr_bytes: raw.stderr_bytes,
            stdout_hash: raw.stdout_hash,
            status: raw.status,
            usage: raw.usage,
            held_open: raw.held_open,
            timed_out: raw.timed_out,
            ended_at_first_byte: raw.ended_at_first_byte,
        }
    }

    /// From just before execve in the child to the return of wait4.
    pub fn exec_to_exit_ns(&self) -> u64 {
        self.spawn_to_exit_ns.saturating_sub(self.fork_to_exec_ns)
    }

    /// From just before execve in the child to the first byte of standard output.
    pub fn exec_to_byte_ns(&self) -> Option<u64> {
        self.spawn_to_byte_ns.map(|t| t.saturating_sub(self.fork_to_exec_ns))
    }

    /// User and system time together: the sum is sound where the split is tick-sampled.
    pub fn cpu_ns(&self) -> u64 {
        self.usage.user_ns.saturating_add(self.usage.system_ns)
    }
}
