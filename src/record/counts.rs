//! What a start costs in whole numbers: what the loader must do, and what probe starts counted. Where such a figure
//! does not vary from start to start, one run of each side compares exactly.

use std::fmt;

use crate::units;

/// The least and the most that was seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Range {
    /// The least.
    pub min: u64,
    /// The most.
    pub max: u64,
}

impl Range {
    /// A figure that does not vary.
    pub fn exactly(n: u64) -> Range {
        Range { min: n, max: n }
    }
}

impl fmt::Display for Range {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.min == self.max {
            f.pad(&units::count(self.min))
        } else {
            f.pad(&format!("{} to {}", units::count(self.min), units::count(self.max)))
        }
    }
}

/// The counts of one command; `None` where a figure could not be had.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Counts {
    /// Relocations of all objects that its start loads.
    pub relocations: Option<Range>,
    /// Pages that those write.
    pub pages: Option<Range>,
    /// Symbol look-ups at start.
    pub lookups: Option<Range>,
    /// Objects mapped, the loader included.
    pub objects: Option<Range>,
    /// System calls of a start, over the probe starts.
    pub syscalls: Option<Range>,
    /// Page faults served without a disk: the interval of their median over the timed starts, which holds few values
    /// where the program does the same each time (addresses are random, so a start may need a page more).
    pub minflt: Option<Range>,
}

/// Names in the order of output.
pub const COUNTS: [&str; 6] = ["relocations", "pages", "lookups", "objects", "syscalls", "minflt"];

impl Counts {
    /// The figure of that name.
    pub fn get(&self, name: &str) -> Option<Range> {
        match name {
            "relocations" => self.relocations,
            "pages" => self.pages,
            "lookups" => self.lookups,
            "objects" => self.objects,
            "syscalls" => self.syscalls,
            "minflt" => self.minflt,
            _ => None,
        }
    }
}
