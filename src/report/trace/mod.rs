//! What `trace` observed, as text, JSON, a trace-event file and a picture.

pub mod chrome;
pub mod json;
pub mod svg;
pub mod text;

use std::collections::HashMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use crate::facts::RelocationCounts;
use crate::loader::Closure;
use crate::trace::gaps::{Cause, Gap};
use crate::trace::summary::{PhaseDifference, Study, Summary};
use crate::units::{count, counted, time};

/// What the files say that the loader must do with one object.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Predicted {
    /// Pages that its relocations write.
    pub pages_written: u64,
    /// Symbol look-ups; `None` where the machine is not modelled.
    pub lookups: Option<u64>,
    /// Relocations by class.
    pub relocations: RelocationCounts,
    /// Functions that run before main.
    pub init_functions: u64,
}

/// One command, observed.
#[derive(Debug)]
pub struct TracedCommand {
    /// What output calls it.
    pub name: String,
    /// As given.
    pub argv: Vec<OsString>,
    /// The file that is executed.
    pub path: PathBuf,
    /// What was observed.
    pub study: Study,
    /// The same, summed up.
    pub summary: Summary,
    /// By real path of the object.
    pub predicted: HashMap<PathBuf, Predicted>,
}

/// One run of the verb.
#[derive(Debug)]
pub struct TraceReport {
    /// One command, or two that were observed in the same rounds.
    pub commands: Vec<TracedCommand>,
    /// The second against the first.
    pub differences: Vec<PhaseDifference>,
}

impl TracedCommand {
    /// What the files say of an object.
    pub fn predicted(&self, path: &Path) -> Option<&Predicted> {
        self.predicted.get(path).or_else(|| self.predicted.get(&std::fs::canonicalize(path).ok()?))
    }

    /// What tracing cost: the traced median over the untraced one, minus 1.
    pub fn distortion(&self) -> Option<f64> {
        let untraced = self.summary.untraced_median_ns.filter(|n| *n > 0)?;
        Some(self.summary.total_median_ns as f64 / untraced as f64 - 1.0)
    }
}

/// The predictions of a closure, by real path.
pub fn predictions(closure: &Closure) -> HashMap<PathBuf, Predicted> {
    let one = |o: &crate::loader::Object| {
        let path = std::fs::canonicalize(&o.path).unwrap_or_else(|_| o.path.clone());
        let predicted = Predicted {
            pages_written: o.pages_written,
            lookups: o.lookups,
            relocations: o.relocations,
            init_functions: o.init_functions,
        };
        (path, predicted)
    };
    closure.objects.iter().map(one).collect()
}

/// A file's last name: enough where the whole path is elsewhere on the page.
pub fn short(path: &Path) -> String {
    path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned()
}

/// What a stretch was spent on, in words.
pub fn cause_text(command: &TracedCommand, gap: &Gap) -> String {
    match &gap.cause {
        Cause::Relocation { path, pages } => {
            let mut text = format!("relocation of {}", short(path));
            if let Some(p) = command.predicted(path) {
                let relative = p.relocations.relative.saturating_add(p.relocations.relr);
                text.push_str(&format!(": {} relative", count(relative)));
                if let Some(lookups) = p.lookups {
                    text.push_str(&format!(", {}", counted(lookups, "symbol look-up")));
                }
                text.push_str(&format!(", {} written ({} predicted)", counted(*pages, "page"), count(p.pages_written)));
            } else {
                text.push_str(&format!(": {} written", counted(*pages, "page")));
            }
            text
        }
        Cause::Constructors { path } => format!("constructors of {}", short(path)),
        Cause::Cpuid { executed, each_ns } => format!(
            "CPUID, executed {} times by the C library, {} each here: a virtual machine traps it",
            count(*executed),
            time(*each_ns as f64)
        ),
        Cause::DiskRead { path: Some(path) } => format!("a page of {} read from disk", short(path)),
        Cause::DiskRead { path: None } => "a page read from disk".to_string(),
        Cause::Syscall { name, path: Some(path) } => format!("system call {name} ({})", path.display()),
        Cause::Syscall { name, path: None } => format!("system call {name}"),
        Cause::Running { path } => format!("code of {}, without a page fault or a mapping", short(path)),
    }
}
