//! The counts of a command: what its loader must do, what was counted in probe starts, and which libraries that holds for.

use std::path::PathBuf;

use super::measuring::MeasureOptions;
use super::program;
use crate::digest;
use crate::loader::Closure;
use crate::record::bench::CommandRecord;
use crate::record::counts::{Counts, Range};

/// Counts of a command that was measured as `record`, started from the file at `path`. `options` say in which environment.
pub fn counts(options: &MeasureOptions, path: &std::path::Path, record: &CommandRecord) -> Counts {
    let mut counts = static_counts(options, path);
    let syscalls = record.probes.as_ref().and_then(|p| p.syscalls.as_ref());
    counts.syscalls = syscalls.map(|s| Range { min: s.total_min, max: s.total_max });
    counts.minflt = record.metric("minflt").map(|s| match s.p50_ci95 {
        Some([min, max]) => Range { min, max },
        None => Range { min: s.min, max: s.max },
    });
    counts
}

fn closure(options: &MeasureOptions, path: &std::path::Path) -> Option<Closure> {
    let chain = program::chain(path).ok()?;
    let last = chain.last()?;
    program::closure(&last.path, &options.environment(), options.cwd.as_deref()).ok()
}

fn static_counts(options: &MeasureOptions, path: &std::path::Path) -> Counts {
    let Some(c) = closure(options, path).filter(|c| c.missing.is_empty() && c.fatal.is_none()) else {
        return Counts::default();
    };
    Counts {
        relocations: Some(Range::exactly(c.objects.iter().map(|o| o.relocations.total()).sum())),
        pages: Some(Range::exactly(c.totals.pages_written)),
        lookups: c.totals.lookups.map(Range::exactly),
        objects: Some(Range::exactly(c.totals.objects)),
        ..Counts::default()
    }
}

/// Every other file that the program's loader maps, with its digest; a file that cannot be read is left out.
pub fn libraries(options: &MeasureOptions, path: &std::path::Path) -> Vec<(PathBuf, String)> {
    let objects = closure(options, path).map(|c| c.objects).unwrap_or_default();
    let others = objects.into_iter().map(|o| o.path).filter(|p| p != path);
    others.filter_map(|p| digest::of_file(&p).ok().map(|hash| (p, hash))).collect()
}
