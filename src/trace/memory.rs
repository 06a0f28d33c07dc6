//! What a stopped program's own memory tells: the auxiliary vector that the kernel left on its stack, and strings.
//!
//! Needs no `/proc`. All numbers come from the program, so each loop is bounded by the stack's size.

#![deny(clippy::indexing_slicing, clippy::arithmetic_side_effects, clippy::unwrap_used)]

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

/// Arguments and environment may fill 6 MiB (three quarters of the default stack limit) and more with a raised one.
const MOST_STACK_BYTES: usize = 64 << 20;
/// Longest path that is read.
const PATH_MAX: usize = 4096;
const CHUNK: usize = 4096;

/// Reads bytes at an address of the program; returns how many were there.
pub(super) type Peek<'a> = dyn FnMut(u64, &mut [u8]) -> usize + 'a;

/// What the kernel told the program at its start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Auxv {
    /// AT_ENTRY: the program's entry point.
    pub(super) entry: u64,
    /// AT_BASE: where its loader is; 0 without one.
    pub(super) base: u64,
    /// AT_EXECFN: address of the path that was executed.
    pub(super) execfn: u64,
    /// AT_SECURE: privileges were gained.
    pub(super) secure: bool,
}

/// Words of the stack from one address up, read a page at a time.
struct Stack<'a, 'b> {
    peek: &'a mut Peek<'b>,
    next: u64,
    word: usize,
    chunk: Vec<u8>,
    used: usize,
    read: usize,
}

impl Stack<'_, '_> {
    fn pop(&mut self) -> Option<u64> {
        if self.used >= self.chunk.len() {
            self.refill()?;
        }
        let bytes = self.chunk.get(self.used..self.used.checked_add(self.word)?)?;
        self.used = self.used.checked_add(self.word)?;
        match self.word {
            4 => Some(u64::from(u32::from_ne_bytes(bytes.try_into().ok()?))),
            _ => Some(u64::from_ne_bytes(bytes.try_into().ok()?)),
        }
    }

    fn refill(&mut self) -> Option<()> {
        if self.read >= MOST_STACK_BYTES {
            return None;
        }
        // Up to the next page: the one behind the stack's last is not there.
        let into = usize::try_from(self.next).ok()?.checked_rem(CHUNK)?;
        self.chunk.resize(CHUNK.checked_sub(into)?, 0);
        let got = (self.peek)(self.next, &mut self.chunk);
        self.chunk.truncate(got);
        self.next = self.next.checked_add(got as u64)?;
        self.read = self.read.checked_add(got)?;
        self.used = 0;
        (got > 0).then_some(())
    }
}

/// Reads the vector behind arguments and environment; `sp` is the stack pointer at the first instruction.
pub(super) fn auxv(peek: &mut Peek<'_>, sp: u64, word_bytes: usize) -> Option<Auxv> {
    const AT_BASE: u64 = 7;
    const AT_ENTRY: u64 = 9;
    const AT_SECURE: u64 = 23;
    const AT_EXECFN: u64 = 31;
    let mut stack = Stack { peek, next: sp, word: word_bytes, chunk: Vec::new(), used: 0, read: 0 };
    stack.pop()?; // argc
    for _ in 0..2 {
        while stack.pop()? != 0 {} // argv, then the environment
    }
    let mut found = Auxv::default();
    loop {
        let (tag, value) = (stack.pop()?, stack.pop()?);
        match tag {
            0 => return (found.entry != 0).then_some(found),
            AT_BASE => found.base = value,
            AT_ENTRY => found.entry = value,
            AT_SECURE => found.secure = value != 0,
            AT_EXECFN => found.execfn = value,
            _ => {}
        }
    }
}

/// A path at an address; `None` where there is none or it is longer than any path may be.
pub(super) fn path(peek: &mut Peek<'_>, addr: u64) -> Option<PathBuf> {
    let mut bytes = Vec::new();
    let mut buffer = [0u8; 256];
    while bytes.len() < PATH_MAX {
        let at = addr.checked_add(bytes.len() as u64)?;
        // To the end of its page at most: the next one may not be there.
        let room = CHUNK.checked_sub(usize::try_from(at).ok()?.checked_rem(CHUNK)?)?.min(buffer.len());
        let got = peek(at, buffer.get_mut(..room)?);
        let part = buffer.get(..got)?;
        match part.iter().position(|b| *b == 0) {
            Some(end) => {
                bytes.extend_from_slice(part.get(..end)?);
                return Some(PathBuf::from(OsStr::from_bytes(&bytes)));
            }
            None if got == 0 => return None,
            None => bytes.extend_from_slice(part),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Memory at 0x1000 - `from` with nothing behind it.
    fn at(from: u64, bytes: &[u8]) -> impl FnMut(u64, &mut [u8]) -> usize {
        let bytes = bytes.to_vec();
        move |addr, into| {
            let Some(rest) = addr.checked_sub(from).and_then(|i| bytes.get(i as usize..)) else { return 0 };
            let n = rest.len().min(into.len());
            into[..n].copy_from_slice(&rest[..n]);
            n
        }
    }

    fn words(values: &[u64]) -> Vec<u8> {
        values.iter().flat_map(|v| v.to_ne_bytes()).collect()
    }

    #[test]
    fn the_vector_lies_behind_arguments_and_environment() {
        let image = words(&[1, 0x77, 0, 0x88, 0x99, 0, 7, 0x7f00, 9, 0x4010, 31, 0x5000, 0, 0]);
        let mut peek = at(0x1008, &image);
        let found = auxv(&mut peek, 0x1008, 8).unwrap();
        assert_eq!(found, Auxv { entry: 0x4010, base: 0x7f00, execfn: 0x5000, secure: false });
    }

    #[test]
    fn a_vector_without_end_or_entry_is_none() {
        assert_eq!(auxv(&mut at(0, &words(&[0, 0, 0, 9, 5])), 0, 8), None);
        assert_eq!(auxv(&mut at(0, &words(&[0, 0, 0, 7, 5, 0, 0])), 0, 8), None);
        assert_eq!(auxv(&mut at(0, &[]), 0, 8), None);
    }

    #[test]
    fn a_path_ends_at_its_nul() {
        let mut text = vec![b'a'; 5000];
        assert_eq!(path(&mut at(0xff0, &text), 0xff0), None, "longer than a path may be");
        text[300] = 0;
        assert_eq!(path(&mut at(0xff0, &text), 0xff0).unwrap().as_os_str().len(), 300);
        assert_eq!(path(&mut at(0, b"no end"), 0), None);
    }
}
