//! `premain correlate`: do the counts of link facts explain the times of starts, over all results given?

use std::path::{Path, PathBuf};

use super::common::Common;
use super::program;
use crate::error::{Context, Error, Exit, Result};
use crate::facts::Format;
use crate::json::Json;
use crate::output::Output;
use crate::record::correlation::correlate;
use crate::record::observations::{COUNTS, Collected, Timed, collect, documents};
use crate::report::correlation_text::{self, Across};
use crate::report::{closure_json, correlation_json, facts_json, scatter_svg};

/// Options of `correlate`.
#[derive(Debug, Clone)]
pub struct Options {
    /// Result documents.
    pub files: Vec<PathBuf>,
    /// The field of a bench's commands that is fitted.
    pub metric: String,
    /// What lies across in plots: the name of a count, or the fitted time.
    pub across: Option<String>,
    /// An image to write.
    pub svg: Option<PathBuf>,
    /// Read the facts of programs that no document has from the programs themselves.
    pub inspect: bool,
}

impl Default for Options {
    fn default() -> Self {
        Options { files: Vec::new(), metric: "exec_to_exit_ns".to_string(), across: None, svg: None, inspect: true }
    }
}

/// Reads, joins, fits, prints.
///
/// # Errors
/// A document that cannot be read, or too few programs.
pub fn run(options: &Options, common: &Common, output: &mut Output<'_>) -> Result<Exit> {
    if options.files.is_empty() {
        return Err(Error::new("no results given; try 'premain correlate --help'"));
    }
    let across = across(options.across.as_deref())?;
    let mut collected = collect(&read(&options.files)?, &options.metric)?;
    if options.inspect {
        inspect_the_rest(&mut collected, output);
    }
    if collected.observations.is_empty() {
        return Err(Error::new(format!("no program has both facts and a value of {}", options.metric)));
    }
    for timed in &collected.without_facts {
        output.warn(&format!("{}: left out: no document has its facts", timed.name));
    }
    for name in &collected.without_time {
        output.warn(&format!("{name}: left out: has no value of {}", options.metric));
    }
    let fitted = correlate(&collected.observations, &options.metric)?;
    let points = correlation_text::points(&fitted, &collected.observations, across);
    if let Some(path) = &options.svg {
        let title = format!("Starts of {} programs: {}", fitted.programs.len(), fitted.metric);
        let image = scatter_svg::svg(&correlation_text::plot(&points, across), &title);
        std::fs::write(path, image).context(|| path.to_string_lossy())?;
    }
    if common.json {
        output.text(&correlation_json::document(&fitted, &collected).pretty())?;
    } else {
        let text = correlation_text::text(&fitted, &collected.observations, across, output.style);
        output.text(&text)?;
    }
    Ok(Exit::Done)
}

/// A count by name, spelled as in the table.
fn across(name: Option<&str>) -> Result<Across> {
    let Some(name) = name.filter(|n| *n != "fitted") else { return Ok(Across::Fitted) };
    let names = || COUNTS.iter().skip(1).map(|c| c.name).collect::<Vec<_>>().join(", ");
    let place = COUNTS.iter().skip(1).position(|c| c.name == name);
    place.map(|j| Across::Count(j + 1)).ok_or_else(|| {
        Error::new(format!("no such count; there are fitted, {}", names())).context(format!("--across {name}"))
    })
}

fn read(files: &[PathBuf]) -> Result<Vec<(String, Json)>> {
    let mut all = Vec::new();
    for path in files {
        let name = path.to_string_lossy().into_owned();
        let bytes = std::fs::read(path).context(|| name.as_str())?;
        let text = String::from_utf8(bytes).map_err(|_| Error::new("is not text").context(name.as_str()))?;
        let found = documents(&text).context(|| name.as_str())?;
        all.extend(found.into_iter().map(|d| (name.clone(), d)));
    }
    Ok(all)
}

/// Facts of programs that were timed and not inspected, from the files as they are now.
fn inspect_the_rest(collected: &mut Collected, output: &mut Output<'_>) {
    let mut left = Vec::new();
    for timed in std::mem::take(&mut collected.without_facts) {
        match observed_now(&timed).and_then(|file| timed.with_facts(&file)) {
            Some(observation) => collected.observations.push(observation),
            None => left.push(timed),
        }
    }
    collected.without_facts = left;
    output.progress("");
}

/// An entry of an inspection's `files`; `None` where the program is gone, or is no ELF program.
fn observed_now(timed: &Timed) -> Option<Json> {
    let chain = program::chain(Path::new(&timed.path)).ok()?;
    let facts = chain.last().filter(|f| f.format == Format::Elf)?;
    let env: Vec<_> = std::env::vars_os().collect();
    let closure = program::closure(&facts.path, &env, None).ok()?;
    let mut file = facts_json::file(facts);
    file.push("closure", closure_json::closure(&closure));
    Some(file)
}
