//! How often a program executes CPUID before its `main`: counted by stepping through it.
//!
//! Where each CPUID leaves a virtual machine they can outweigh relocation, and nothing else shows them: no system call,
//! no page fault. Stepping costs a few µs an instruction, so this is done once and bounded.

use std::collections::HashMap;

use super::Tracer;
use crate::error::{Context, Error};
use crate::sys::keeper::Keeper;
use crate::sys::linux::ptrace::{self, Probed, Resume, Stop, Streams, Waited, registers, resume};
use crate::sys::process::Program;
use crate::sys::wait;
use crate::trace::memory;
use crate::trace::recording::NotTraced;
use crate::trace::summary::CpuidCount;

/// Instructions to step through while no CPUID was seen: glibc 2.36 begins within the first 20,000.
const FIRST_STEPS: u64 = 40_000;
/// And after the last one: glibc executes them in one go.
const QUIET_STEPS: u64 = 10_000;
/// The instruction's two bytes.
const CPUID: [u8; 2] = [0x0f, 0xa2];

impl Tracer {
    /// Steps through the start of `program` and counts, then ends it.
    ///
    /// # Errors
    /// [`NotTraced`].
    pub fn count_cpuid(&self, program: &Program) -> Result<CpuidCount, NotTraced> {
        const LIMIT_NS: u64 = 20_000_000_000;
        let keeper = Keeper::new(Some(LIMIT_NS))?;
        let (stdout, stderr) = keeper.write_ends();
        let streams = Streams { null: &self.null, stdout, stderr };
        let mut traced = Probed::fork(program, streams).context(|| "cannot start a traced command")?;
        traced.seize().map_err(|e| NotTraced::Denied(format!("ptrace: {}", Error::from(e))))?;
        traced.release().context(|| "cannot start a traced command")?;
        keeper.watch(traced.pid());
        let counted = step_through(traced.pid());
        wait::kill(traced.pid(), super::KILL);
        loop {
            match ptrace::wait_any() {
                // A killed task still stops once, on its way out.
                Ok(Waited::Stopped(tid, _)) => drop(resume(tid, Resume::Continue, 0)),
                Ok(Waited::Ended(..) | Waited::Interrupted) => {}
                Ok(Waited::NoChild) | Err(_) => break,
            }
        }
        keeper.finish();
        Ok(counted.context(|| "stepping through a command")?)
    }
}

fn step_through(pid: i32) -> std::io::Result<CpuidCount> {
    let mut count = CpuidCount::default();
    let mut pages: HashMap<u64, Vec<u8>> = HashMap::new();
    let (mut stepping, mut entry, mut last_seen) = (false, 0, 0);
    while count.steps - last_seen < if count.executed == 0 { FIRST_STEPS } else { QUIET_STEPS } {
        let mut how = if stepping { Resume::Step } else { Resume::Continue };
        let mut signal = 0;
        let tid = match ptrace::wait_any()? {
            Waited::Stopped(tid, Stop::Exec { .. }) if tid == pid => {
                (stepping, how) = (true, Resume::Step);
                entry = program_entry(tid).unwrap_or(0);
                tid
            }
            Waited::Stopped(tid, Stop::Trap) if tid == pid && stepping => tid,
            Waited::Stopped(tid, Stop::Signal(s)) => {
                signal = s;
                tid
            }
            Waited::Stopped(tid, _) => tid,
            Waited::Ended(tid, ..) if tid == pid => break,
            Waited::Ended(..) | Waited::Interrupted => continue,
            Waited::NoChild => break,
        };
        if tid == pid && stepping {
            count.steps += 1;
            let pc = registers(tid)?.pc();
            if at(tid, pc, &mut pages) == Some(CPUID) {
                count.executed += 1;
                last_seen = count.steps;
            }
            // Past the entry point of a dynamic program only the program's own code is left.
            if pc == entry && count.steps > 1 {
                break;
            }
        }
        resume(tid, how, signal)?;
    }
    Ok(count)
}

fn program_entry(tid: i32) -> Option<u64> {
    let regs = registers(tid).ok()?;
    let mut peek = |addr: u64, into: &mut [u8]| ptrace::read_memory(tid, addr, into);
    memory::auxv(&mut peek, regs.sp(), regs.word_bytes()).map(|a| a.entry)
}

/// The two bytes at `pc`, from pages that are read once: code does not change while it starts.
fn at(tid: i32, pc: u64, pages: &mut HashMap<u64, Vec<u8>>) -> Option<[u8; 2]> {
    const PAGE: u64 = 4096;
    let page = pages.entry(pc / PAGE).or_insert_with(|| {
        // One byte more, for an instruction that straddles.
        let mut bytes = vec![0; PAGE as usize + 1];
        let got = ptrace::read_memory(tid, pc / PAGE * PAGE, &mut bytes);
        bytes.truncate(got);
        bytes
    });
    let into = (pc % PAGE) as usize;
    page.get(into..into + 2)?.try_into().ok()
}
