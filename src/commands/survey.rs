//! `premain survey`: every program below some paths, ranked by what its start has to do.

use std::num::NonZero;
use std::path::{Path, PathBuf};

use super::common::Common;
use super::files::{self, View};
use super::inspect::ReadOptions;
use super::parallel::ordered;
use super::walk::{Met, Walk};
use crate::error::{Context, Error, Exit, Result};
use crate::facts::LinkFacts;
use crate::json::Json;
use crate::loader::memo::Memo;
use crate::loader::root::real_path;
use crate::loader::{self, Closure};
use crate::macho;
use crate::model::predict::predict;
use crate::model::store::Model;
use crate::order;
use crate::output::Output;
use crate::report::survey_json;
use crate::report::survey_text::{self, Outcome};
use crate::sys::file;

pub use crate::report::survey_json::{Filter, Key, Row};

/// Rows that are shown where `--top` does not say.
const TOP: u64 = 20;

/// Options of `survey`.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Files and directories; with `merge`, files of lines that a survey wrote.
    pub paths: Vec<PathBuf>,
    /// Where and how libraries are looked for.
    pub read: ReadOptions,
    /// Threads; as many as processors where it is not given.
    pub jobs: Option<u64>,
    /// What to rank by.
    pub sort: Option<Key>,
    /// The host model to predict with, instead of the one in the cache.
    pub model: Option<PathBuf>,
    /// How many to show.
    pub top: Option<u64>,
    /// One JSON object a line.
    pub jsonl: bool,
    /// Which files to show: each must hold.
    pub filters: Vec<Filter>,
    /// Rank lines of earlier surveys instead of files.
    pub merge: bool,
}

impl Options {
    /// The model to predict with, where programs are ranked by what they are predicted to cost.
    fn model(&self) -> Result<Option<Model>> {
        if self.sort != Some(Key::Predicted) {
            return Ok(None);
        }
        if self.read.no_closure {
            return Err(Error::new("--sort predicted needs the libraries that --no-closure leaves out"));
        }
        Model::named(self.model.as_deref()).map(Some)
    }
}

/// What came of one file.
enum Found {
    /// Its line.
    Line(Json),
    /// Not a program of any kind.
    Nothing,
    /// Unreadable: its path and why.
    Bad(PathBuf, String),
}

/// Surveys.
///
/// # Errors
/// Usage, or output that cannot be written. Bad files are listed, and the exit code says that there were some.
pub fn run(options: &Options, common: &Common, output: &mut Output<'_>) -> Result<Exit> {
    if options.paths.is_empty() {
        return Err(Error::new("no path given; try 'premain survey --help'"));
    }
    let mut ranking = Ranking::new(options, common);
    if options.merge {
        for path in &options.paths {
            merge(path, &mut ranking, output)?;
        }
    } else {
        walk(options, &mut ranking, output)?;
    }
    output.progress("");
    ranking.finish(output)
}

/// Reads all files by threads and hands each to the ranking in the order of the walk.
fn walk(options: &Options, ranking: &mut Ranking<'_>, output: &mut Output<'_>) -> Result<()> {
    let view = View::new(options.read.root.as_deref());
    let model = options.model()?;
    let (without_lookups, count_lines) = (options.read.no_closure, model.is_some());
    let search = loader::Options { without_lookups, count_lines, ..options.read.search() };
    let memo = Memo::new();
    let jobs = options.jobs.and_then(|n| usize::try_from(n).ok());
    let jobs = jobs.or_else(|| std::thread::available_parallelism().ok().map(NonZero::get)).unwrap_or(1);
    let walk = match &options.read.root {
        None => Walk::new(&options.paths),
        Some(root) => Walk::below(root, options.paths.iter().map(|p| real_path(&view, &view.inside(p)))),
    };
    let work = |met| match met {
        Met::Bad(path, why) => Found::Bad(path, why),
        Met::File(path) => survey_file(&path, &view, &search, &memo, options, model.as_ref()),
    };
    ordered(walk, jobs, work, |found| ranking.add(found, None, output))
}

/// One file's line.
fn survey_file(
    path: &Path,
    view: &View,
    search: &loader::Options,
    memo: &Memo,
    options: &Options,
    model: Option<&Model>,
) -> Found {
    let inside = match &options.read.root {
        None => path.to_path_buf(),
        Some(root) => path.strip_prefix(root).map_or_else(|_| path.to_path_buf(), |p| Path::new("/").join(p)),
    };
    let read = match files::read_program(view, &inside, None) {
        Ok(Some(read)) => read,
        Ok(None) => return Found::Nothing,
        Err(e) => return Found::Bad(inside, e.to_string()),
    };
    let Some(facts) = one_image(&read.facts, options.read.arch.as_deref()) else { return Found::Nothing };
    let closure: Option<Closure> = match (&read.elf, &facts.macho) {
        _ if options.read.no_closure => None,
        (Some(elf), _) => loader::closure_of(&inside, elf.clone(), search, view, memo).ok(),
        (None, Some(_)) => Some(loader::dyld::closure(&inside, facts, &search.cwd, view)),
        (None, None) => None,
    };
    let predict = |(model, closure)| predict(model, closure, view).ok();
    let prediction = model.zip(closure.as_ref()).and_then(predict);
    Found::Line(survey_json::line(facts, closure.as_ref(), prediction.as_ref()))
}

/// The image that stands for a file: of a universal one the first slice that can be read, or with `--arch` the one for
/// that machine; a Mach-O file without such a slice is passed over.
fn one_image<'f>(all: &'f [LinkFacts], arch: Option<&str>) -> Option<&'f LinkFacts> {
    let first = all.first()?;
    match arch {
        Some(arch) if first.macho.is_some() => all.iter().find(|f| macho::is_for(f, arch)),
        _ => all.iter().find(|f| f.bits != 0).or(Some(first)),
    }
}

/// Lines that earlier surveys wrote.
fn merge(path: &Path, ranking: &mut Ranking<'_>, output: &mut Output<'_>) -> Result<()> {
    let name = path.to_string_lossy().into_owned();
    let bytes = match file::open(path) {
        Ok(bytes) => bytes,
        Err(e) => {
            return ranking.add(Found::Bad(path.to_path_buf(), e.to_string()), None, output);
        }
    };
    for (n, line) in bytes.as_ref().split(|b| *b == b'\n').enumerate().filter(|(_, line)| !line.is_empty()) {
        let parsed = std::str::from_utf8(line).map_err(|_| Error::new("not UTF-8")).and_then(Json::parse);
        let found = match parsed.context(|| format!("line {}", n + 1)) {
            Ok(json) => match (json.get("unreadable").and_then(Json::as_str), json.get("path")) {
                (Some(why), Some(path)) => Found::Bad(PathBuf::from(survey_json::path_text(path)), why.to_string()),
                (None, Some(_)) => Found::Line(json),
                _ => Found::Bad(path.to_path_buf(), format!("line {} was not written by survey --jsonl", n + 1)),
            },
            Err(e) => Found::Bad(path.to_path_buf(), e.to_string()),
        };
        ranking.add(found, Some(&name), output)?;
    }
    Ok(())
}

/// What is kept of all files: the best so far, or with `--jsonl` nothing.
struct Ranking<'o> {
    options: &'o Options,
    json: bool,
    /// Lines are written as they come: nothing has to be ranked.
    streams: bool,
    key: Key,
    top: usize,
    kept: Vec<Row>,
    outcome: Outcome,
    bad: Vec<Json>,
}

impl<'o> Ranking<'o> {
    fn new(options: &'o Options, common: &Common) -> Ranking<'o> {
        let all = options.jsonl || common.json;
        let top = options.top.unwrap_or(if all { u64::MAX } else { TOP });
        Ranking {
            options,
            json: common.json,
            streams: options.jsonl && options.top.is_none() && options.sort.is_none(),
            key: options.sort.unwrap_or_default(),
            top: usize::try_from(top).unwrap_or(usize::MAX),
            kept: Vec::new(),
            outcome: Outcome::default(),
            bad: Vec::new(),
        }
    }

    fn add(&mut self, found: Found, source: Option<&str>, output: &mut Output<'_>) -> Result<()> {
        self.outcome.files += 1;
        if self.outcome.files.is_multiple_of(64) {
            let (files, programs) = (self.outcome.files, self.outcome.shown);
            output.progress(&format!("{files} files, {programs} programs"));
        }
        match found {
            Found::Nothing => Ok(()),
            Found::Bad(path, why) => self.bad(&path, &why, output),
            Found::Line(json) => self.line(json, source, output),
        }
    }

    fn bad(&mut self, path: &Path, why: &str, output: &mut Output<'_>) -> Result<()> {
        self.outcome.bad += 1;
        output.progress("");
        output.error(&Error::new(why).context(path.to_string_lossy()).to_string());
        let json = Json::object([("path", Json::os(path.as_os_str())), ("unreadable", why.into())]);
        if self.options.jsonl {
            output.text(&format!("{json}\n"))?;
        } else if self.json {
            self.bad.push(json);
        }
        Ok(())
    }

    fn line(&mut self, json: Json, source: Option<&str>, output: &mut Output<'_>) -> Result<()> {
        if !survey_json::passes(&json, &self.options.filters) {
            return Ok(());
        }
        self.outcome.shown += 1;
        if self.streams {
            return output.text(&format!("{json}\n"));
        }
        self.kept.push(Row::of(json, source, self.json || self.options.jsonl));
        // Sorting now and then keeps memory at a few times what is shown.
        if self.kept.len() >= self.top.saturating_mul(4).max(4096) {
            self.rank();
        }
        Ok(())
    }

    fn rank(&mut self) {
        let key = self.key;
        order::by(&mut self.kept, |a, b| b.figure(key).cmp(&a.figure(key)).then_with(|| a.path.cmp(&b.path)));
        self.kept.truncate(self.top);
    }

    fn finish(mut self, output: &mut Output<'_>) -> Result<Exit> {
        self.rank();
        if self.options.jsonl {
            for row in &self.kept {
                output.text(&format!("{}\n", row.line.as_ref().unwrap_or(&Json::Null)))?;
            }
        } else if self.json {
            let document = survey_json::document(&self.kept, std::mem::take(&mut self.bad), &self.outcome);
            output.text(&document.pretty())?;
        } else {
            output.text(&survey_text::text(&self.kept, self.key, &self.outcome, output.style))?;
        }
        Ok(if self.outcome.bad > 0 { Exit::Trouble } else { Exit::Done })
    }
}
