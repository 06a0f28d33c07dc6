//! The samples of a run, kept outside our address space.
//!
//! A child's page faults, its peak RSS and fork's own cost all grow with the memory of the parent. So samples
//! go to an unnamed memory file, one fixed-size record each, written between starts, and are read back when
//! measuring is over. Our memory is then the same at the first start and at the millionth.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};

use super::sample::Sample;
use crate::error::{Context, Result};
use crate::sys;
use crate::sys::start::Stream;
use crate::sys::wait::{Usage, WaitStatus};

/// Words of 8 bytes in one record.
const WORDS: usize = 20;
const RECORD: usize = WORDS * 8;
/// Records per read or write.
const BATCH: usize = 64;
/// Stands for "none" in a record; no span or count comes near it.
const NONE: u64 = u64::MAX;

/// Append-only store of samples.
#[derive(Debug)]
pub struct Log {
    file: File,
    pending: Vec<u8>,
    len: u64,
}

impl Log {
    /// An empty log.
    ///
    /// # Errors
    /// Where the system offers no memory file.
    pub fn new() -> Result<Log> {
        let file = sys::memory_file(c"premain-samples")?;
        Ok(Log { file, pending: Vec::with_capacity(BATCH * RECORD), len: 0 })
    }

    /// How many samples it holds.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// True where it holds none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Adds a sample.
    ///
    /// # Errors
    /// Where memory for the store has run out.
    pub fn push(&mut self, sample: &Sample) -> Result<()> {
        for word in encode(sample) {
            self.pending.extend_from_slice(&word.to_le_bytes());
        }
        self.len += 1;
        if self.pending.len() >= BATCH * RECORD { self.write_out() } else { Ok(()) }
    }

    fn write_out(&mut self) -> Result<()> {
        self.file.write_all(&self.pending).context(|| "cannot store samples")?;
        self.pending.clear();
        Ok(())
    }

    /// Hands every sample to `see`, in the order of the starts.
    ///
    /// # Errors
    /// Where the store cannot be read.
    pub fn for_each(&mut self, mut see: impl FnMut(&Sample)) -> Result<()> {
        self.write_out()?;
        self.file.seek(SeekFrom::Start(0)).context(|| "cannot read samples")?;
        let mut record = [0u8; RECORD];
        let mut reader = std::io::BufReader::with_capacity(BATCH * RECORD, &self.file);
        for _ in 0..self.len {
            reader.read_exact(&mut record).context(|| "cannot read samples")?;
            let mut words = [0u64; WORDS];
            for (word, bytes) in words.iter_mut().zip(record.as_chunks::<8>().0) {
                *word = u64::from_le_bytes(*bytes);
            }
            see(&decode(&words));
        }
        self.file.seek(SeekFrom::End(0)).context(|| "cannot read samples")?;
        Ok(())
    }

    /// The samples of one arm.
    ///
    /// # Errors
    /// Where the store cannot be read.
    pub fn arm(&mut self, arm: usize) -> Result<Vec<Sample>> {
        let mut out = Vec::new();
        self.for_each(|s| {
            if usize::from(s.arm) == arm {
                out.push(*s);
            }
        })?;
        Ok(out)
    }
}

// The casts below undo each other between `encode` and `decode`; the test proves it.
#[allow(clippy::cast_sign_loss, clippy::cast_possible_truncation)]
fn encode(s: &Sample) -> [u64; WORDS] {
    let stream = match s.spawn_to_output {
        Some((_, Stream::Stderr)) => 8,
        _ => 0,
    };
    let flags = u64::from(s.held_open) | u64::from(s.timed_out) << 1 | u64::from(s.ended_at_first_byte) << 2 | stream;
    [
        u64::from(s.round),
        u64::from(s.position),
        u64::from(s.arm),
        s.fork_to_exec_ns,
        s.spawn_to_exit_ns,
        s.spawn_to_byte_ns.unwrap_or(NONE),
        s.spawn_to_output.map_or(NONE, |(t, _)| t),
        s.spawn_to_eof_ns.unwrap_or(NONE),
        s.stdout_bytes,
        s.stderr_bytes,
        s.stdout_hash,
        u64::from(s.status.0 as u32),
        flags,
        s.usage.user_ns,
        s.usage.system_ns,
        s.usage.max_rss_bytes,
        s.usage.minflt,
        s.usage.majflt,
        s.usage.nvcsw,
        s.usage.nivcsw,
    ]
}

#[allow(clippy::cast_possible_wrap, clippy::cast_possible_truncation)]
fn decode(w: &[u64; WORDS]) -> Sample {
    let some = |x: u64| (x != NONE).then_some(x);
    let stream = if w[12] & 8 == 0 { Stream::Stdout } else { Stream::Stderr };
    Sample {
        round: w[0] as u32,
        position: w[1] as u16,
        arm: w[2] as u16,
        fork_to_exec_ns: w[3],
        spawn_to_exit_ns: w[4],
        spawn_to_byte_ns: some(w[5]),
        spawn_to_output: some(w[6]).map(|t| (t, stream)),
        spawn_to_eof_ns: some(w[7]),
        stdout_bytes: w[8],
        stderr_bytes: w[9],
        stdout_hash: w[10],
        status: WaitStatus(w[11] as u32 as i32),
        held_open: w[12] & 1 != 0,
        timed_out: w[12] & 2 != 0,
        ended_at_first_byte: w[12] & 4 != 0,
        usage: Usage {
            user_ns: w[13],
            system_ns: w[14],
            max_rss_bytes: w[15],
            minflt: w[16],
            majflt: w[17],
            nvcsw: w[18],
            nivcsw: w[19],
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(n: u64) -> Sample {
        Sample {
            round: n as u32,
            position: 3,
            arm: (n % 2) as u16,
            fork_to_exec_ns: 1 + n,
            spawn_to_exit_ns: 5 + n,
            spawn_to_byte_ns: n.is_multiple_of(3).then_some(n),
            spawn_to_output: n
                .is_multiple_of(2)
                .then_some((n, if n.is_multiple_of(4) { Stream::Stderr } else { Stream::Stdout })),
            spawn_to_eof_ns: None,
            stdout_bytes: 7,
            stderr_bytes: 8,
            stdout_hash: u64::MAX - 1,
            status: WaitStatus(if n.is_multiple_of(5) { -1 } else { 9 }),
            usage: Usage { user_ns: 1, system_ns: 2, max_rss_bytes: 3, minflt: 4, majflt: 5, nvcsw: 6, nivcsw: 7 },
            held_open: n.is_multiple_of(2),
            timed_out: n.is_multiple_of(3),
            ended_at_first_byte: n.is_multiple_of(7),
        }
    }

    #[test]
    fn every_sample_comes_back_as_it_went_in() {
        let mut log = Log::new().unwrap();
        let want: Vec<Sample> = (0..1000).map(sample).collect();
        want.iter().for_each(|s| log.push(s).unwrap());
        let mut got = Vec::new();
        log.for_each(|s| got.push(*s)).unwrap();
        assert_eq!(got, want);
        log.push(&sample(1000)).unwrap();
        assert_eq!((log.len(), log.arm(0).unwrap().len()), (1001, 501));
    }
}
