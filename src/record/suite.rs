//! The record of a suite: a bench whose commands are cases × binaries.

use crate::record::bench::{BenchRecord, CommandRecord};

/// A suite that was run.
#[derive(Debug, Clone, PartialEq)]
pub struct SuiteRecord {
    /// Its title.
    pub name: String,
    /// By command of the bench: its case and its binary.
    pub arms: Vec<Arm>,
    /// All of it.
    pub bench: BenchRecord,
}

/// Which case and which binary a command is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Arm {
    /// Name of the case.
    pub case: String,
    /// Name of the binary.
    pub binary: String,
}

/// A command's standard output beside the reference's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OutputMark {
    /// It is the reference.
    Reference,
    /// The same, every time.
    Same,
    /// Not the same.
    Differs,
    /// It is not even the same from start to start, here or at the reference: nothing can be said.
    Varies,
}

impl OutputMark {
    /// The word in tables and JSON.
    pub fn word(self) -> &'static str {
        match self {
            OutputMark::Reference => "reference",
            OutputMark::Same => "same",
            OutputMark::Differs => "DIFFERS",
            OutputMark::Varies => "varies",
        }
    }
}

impl SuiteRecord {
    /// Rows of the table: arm and command.
    pub fn rows(&self) -> impl Iterator<Item = (&Arm, &CommandRecord)> {
        self.arms.iter().zip(&self.bench.commands)
    }

    /// How a command's output compares; `None` where either is not known.
    pub fn output_mark(&self, command: &CommandRecord) -> Option<OutputMark> {
        let reference = self.bench.reference_of(command)?;
        let (own, theirs) = (command.output?, reference.output?);
        Some(if !own.constant || !theirs.constant {
            OutputMark::Varies
        } else if std::ptr::eq(reference, command) {
            OutputMark::Reference
        } else if (own.bytes, own.hash) == (theirs.bytes, theirs.hash) {
            OutputMark::Same
        } else {
            OutputMark::Differs
        })
    }
}
