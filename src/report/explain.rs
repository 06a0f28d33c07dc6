//! What `explain` found about one program, before it becomes text or JSON.

use crate::facts::LinkFacts;
use crate::loader::Closure;
use crate::record::bench::BenchRecord;
use crate::report::accounting::Accounted;
use crate::report::findings::Finding;
use crate::report::trace::TracedCommand;
use crate::trace::phases::PhaseName;

/// Something that could not be had, with the reason.
pub type Had<T> = Result<T, String>;

/// One program, explained.
#[derive(Debug)]
pub struct Explained {
    /// Files that the kernel goes through: the script and its interpreters, the program's own file last.
    pub files: Vec<LinkFacts>,
    /// What the loader maps and does.
    pub closure: Had<Closure>,
    /// What was measured.
    pub bench: BenchRecord,
    /// How a start divides, from starts that were observed.
    pub phases: Had<TracedCommand>,
    /// The host model's account of the way to the entry point.
    pub accounted: Had<Accounted>,
    /// What weighs, heaviest first.
    pub findings: Vec<Finding>,
}

impl Explained {
    /// The file that is loaded in the end: the program, or a script's last interpreter.
    pub fn program(&self) -> Option<&LinkFacts> {
        self.files.last()
    }

    /// What the host model predicts for a phase, nanoseconds; nothing where interpreters start before the program, for
    /// their phases are in the same sums.
    pub fn predicted(&self, phase: PhaseName) -> Option<f64> {
        self.accounted.as_ref().ok().filter(|_| self.files.len() == 1)?.phase(phase)
    }
}
