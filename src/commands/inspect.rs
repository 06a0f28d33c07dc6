//! `premain inspect`: link facts, closure and load work of files, without running them.

use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use super::common::Common;
use super::files::{self, Read, View};
use crate::crosscheck::{CrossCheck, cross_check};
use crate::elf::{self, Holder, Holders, PageWrites};
use crate::error::{Error, Exit, Result};
use crate::facts::{Format, Kind, LinkFacts};
use crate::json::Json;
use crate::loader::memo::Memo;
use crate::loader::{self, Closure};
use crate::model::predict::{Prediction, predict};
use crate::model::store::Model;
use crate::output::Output;
use crate::report::{closure_json, closure_text, facts_diff, facts_json, facts_text, model_json, model_text};

/// Options of `inspect`.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Files.
    pub files: Vec<PathBuf>,
    /// Where and how files and libraries are looked for.
    pub read: ReadOptions,
    /// What is shown of them.
    pub show: ShowOptions,
}

/// Where and how files and libraries are looked for.
#[derive(Debug, Clone, Default)]
pub struct ReadOptions {
    /// A directory that stands for `/`.
    pub root: Option<PathBuf>,
    /// LD_LIBRARY_PATH for the search; the environment's where it is not given.
    pub library_path: Option<Vec<u8>>,
    /// LD_PRELOAD for the search; the environment's where it is not given.
    pub preload: Option<Vec<u8>>,
    /// The slice of a universal file.
    pub arch: Option<String>,
    /// Leave the closure out.
    pub no_closure: bool,
}

/// What is shown of each file.
#[derive(Debug, Clone, Default)]
pub struct ShowOptions {
    /// Who needs whom.
    pub tree: bool,
    /// How many of the dearest look-ups.
    pub symbols: Option<u64>,
    /// The pages that relocations write.
    pub pages: bool,
    /// The two files are builds to be compared.
    pub diff: bool,
    /// What a second parser reads differently.
    pub cross_check: bool,
    /// One JSON object a line.
    pub jsonl: bool,
    /// What a start is predicted to cost here.
    pub predict: bool,
    /// The host model for that, instead of the one in the cache.
    pub model: Option<PathBuf>,
}

impl ReadOptions {
    /// The search as the environment would have it; another root has no environment of ours.
    pub fn search(&self) -> loader::Options {
        let env = |name: &str| match self.root {
            None => std::env::var_os(name).map(std::ffi::OsString::into_vec),
            Some(_) => None,
        };
        let cwd = match self.root {
            None => std::env::current_dir().unwrap_or_else(|_| PathBuf::from("/")),
            Some(_) => PathBuf::from("/"),
        };
        loader::Options {
            library_path: self.library_path.clone().or_else(|| env("LD_LIBRARY_PATH")),
            preload: self.preload.clone().or_else(|| env("LD_PRELOAD")),
            bind_now: env("LD_BIND_NOW").is_some_and(|v| !v.is_empty()),
            cwd,
            cpu: loader::cpu::Cpu::host(),
            ..loader::Options::default()
        }
    }
}

/// The pages that relocations write, and what holds them.
struct Written {
    pages: Vec<PageWrites>,
    holders: Holders,
}

/// One file with all that was asked of it.
struct Inspected {
    facts: LinkFacts,
    closure: Option<Closure>,
    pages: Option<Written>,
    cross_check: Option<Result<CrossCheck>>,
    prediction: Option<Result<Prediction>>,
}

impl ShowOptions {
    fn model(&self) -> Result<Option<Model>> {
        if !self.predict {
            return Ok(None);
        }
        Model::named(self.model.as_deref()).map(Some)
    }
}

impl Inspected {
    fn predict(&mut self, model: &Model, view: &View) {
        let no = || Error::new("only an ELF program, with the libraries that it loads, can be predicted");
        let is_program = [Kind::Static, Kind::StaticPie, Kind::Exec, Kind::Pie].contains(&self.facts.kind);
        let closure = self.closure.as_ref().filter(|_| is_program && self.facts.format == Format::Elf);
        self.prediction = Some(closure.ok_or_else(no).and_then(|closure| predict(model, closure, view)));
    }
}

/// Inspects each file. A file that cannot be read is told, the others are shown, and the exit code says so.
///
/// # Errors
/// Usage, or output that cannot be written.
pub fn run(options: &Options, common: &Common, output: &mut Output<'_>) -> Result<Exit> {
    if options.files.is_empty() {
        return Err(Error::new("no file given; try 'premain inspect --help'"));
    }
    if options.show.diff && options.files.len() != 2 {
        return Err(Error::new(format!("--diff compares two files, {} given", options.files.len())));
    }
    let view = View::new(options.read.root.as_deref());
    let search = loader::Options {
        // One file at a time: all threads for it. `survey` has a file for each thread instead.
        threads: std::thread::available_parallelism().map_or(1, usize::from),
        costly: options.show.symbols.map_or(0, |n| usize::try_from(n).unwrap_or(usize::MAX)),
        bindings: options.show.symbols.is_some() && (common.json || options.show.jsonl),
        count_lines: options.show.predict,
        ..options.read.search()
    };
    let memo = Memo::new();
    let model = options.show.model()?;
    let mut exit = Exit::Done;
    let mut entries = Vec::new();
    for path in &options.files {
        let mut entry = inspect(path, &view, &search, &memo, options);
        if let (Some(model), Ok(all)) = (&model, &mut entry) {
            all.iter_mut().for_each(|i| i.predict(model, &view));
        }
        if let Err(e) = &entry {
            exit = Exit::Trouble;
            output.error(&e.clone().context(path.to_string_lossy()).to_string());
        }
        if options.show.jsonl {
            write_lines(path, &entry, output)?;
        } else {
            entries.push((path, entry));
        }
    }
    if options.show.jsonl {
        return Ok(exit);
    }
    if options.show.diff {
        return diff(entries, common, output, exit);
    }
    if common.json {
        write_json(&entries, output)?
    } else {
        write_text(&entries, options, output)?
    }
    Ok(exit)
}

/// One path: several entries for a universal Mach-O file.
fn inspect(
    path: &Path,
    view: &View,
    search: &loader::Options,
    memo: &Memo,
    options: &Options,
) -> Result<Vec<Inspected>> {
    let path = &view.inside(path);
    let mut read = files::read(view, path, options.read.arch.as_deref())?;
    let mut closures = Vec::new();
    for facts in &read.facts {
        closures.push(closure(path, facts, &read, view, search, memo, options)?);
    }
    let pages = match (&read.elf, options.show.pages) {
        (Some(_), true) => {
            let pages = elf::page_writes(path, bytes(&read))?;
            Some(Written { pages, holders: elf::holders(path, bytes(&read))? })
        }
        _ => None,
    };
    let checks: Vec<Option<Result<CrossCheck>>> =
        read.facts.iter().map(|facts| options.show.cross_check.then(|| cross_check(bytes(&read), facts))).collect();
    read.note_change(path);
    let mut all = Vec::new();
    let mut pages = pages;
    for ((facts, closure), cross_check) in read.facts.into_iter().zip(closures).zip(checks) {
        all.push(Inspected { facts, closure, pages: pages.take(), cross_check, prediction: None });
    }
    Ok(all)
}

fn bytes(read: &Read) -> &[u8] {
    (*read.bytes).as_ref()
}

/// What the file's own loader maps; each slice of a universal file has a closure of its own.
fn closure(
    path: &Path,
    facts: &LinkFacts,
    read: &Read,
    view: &View,
    search: &loader::Options,
    memo: &Memo,
    options: &Options,
) -> Result<Option<Closure>> {
    if options.read.no_closure {
        return Ok(None);
    }
    match (&read.elf, &facts.macho) {
        (Some(file), _) => loader::closure_of(path, file.clone(), search, view, memo).map(Some),
        (None, Some(_)) => Ok(Some(loader::dyld::closure(path, facts, &search.cwd, view))),
        (None, None) => Ok(None),
    }
}

fn entry_json(i: &Inspected) -> Json {
    let mut j = facts_json::file(&i.facts);
    if let Some(written) = &i.pages {
        j.push("written_pages", Json::Array(written.pages.iter().map(page_json).collect()));
        j.push("written_sections", Json::array(written.holders.sections.iter().map(holder_json)));
        j.push("written_objects", Json::array(written.holders.objects.iter().map(holder_json)));
    }
    if let Some(check) = &i.cross_check {
        j.push("cross_check", check_json(check));
    }
    match &i.prediction {
        None => {}
        Some(Ok(p)) => j.push("predicted_ns", model_json::predicted(p)),
        Some(Err(e)) => j.push("predicted_ns", Json::unreadable(e.to_string())),
    }
    j.push("closure", i.closure.as_ref().map_or(Json::Null, closure_json::closure));
    j
}

fn page_json(p: &PageWrites) -> Json {
    let writes = p.writes.iter().map(|(by, n)| (*by, Json::from(*n)));
    Json::object([("addr", Json::from(p.addr)), ("in_relro", p.in_relro.into()), ("written_by", Json::object(writes))])
}

fn holder_json(h: &Holder) -> Json {
    Json::object([
        ("name", h.name.as_str().into()),
        ("size_bytes", h.bytes.into()),
        ("writes", h.writes.into()),
        ("pages", h.pages.into()),
    ])
}

fn check_json(check: &Result<CrossCheck>) -> Json {
    match check {
        Err(e) => Json::unreadable(e.to_string()),
        Ok(check) => {
            let one = |d: &crate::crosscheck::Disagreement| {
                Json::object([
                    ("field", Json::from(d.field.as_str())),
                    ("ours", d.ours.as_str().into()),
                    ("theirs", d.theirs.as_str().into()),
                ])
            };
            Json::object([
                ("parser", Json::from("goblin")),
                ("fields", check.fields.into()),
                ("disagreements", Json::Array(check.disagreements.iter().map(one).collect())),
            ])
        }
    }
}

/// A file that could not be read: its path, and why.
fn unreadable_json(path: &Path, why: &Error) -> Json {
    Json::object([("path", Json::os(path.as_os_str())), ("unreadable", why.to_string().into())])
}

type Entry<'p> = (&'p PathBuf, Result<Vec<Inspected>>);

fn entry_values(path: &Path, entry: &Result<Vec<Inspected>>) -> Vec<Json> {
    match entry {
        Ok(all) => all.iter().map(entry_json).collect(),
        Err(e) => vec![unreadable_json(path, e)],
    }
}

fn write_lines(path: &Path, entry: &Result<Vec<Inspected>>, output: &mut Output<'_>) -> Result<()> {
    for line in entry_values(path, entry) {
        output.text(&format!("{line}\n"))?;
    }
    Ok(())
}

fn write_json(entries: &[Entry<'_>], output: &mut Output<'_>) -> Result<()> {
    let files = entries.iter().flat_map(|(path, entry)| entry_values(path, entry)).collect();
    let document = Json::object([("schema", "premain.inspect/1".into()), ("files", Json::Array(files))]);
    output.text(&document.pretty())
}

fn write_text(entries: &[Entry<'_>], options: &Options, output: &mut Output<'_>) -> Result<()> {
    let style = output.style;
    let all = entries.iter().filter_map(|(_, entry)| entry.as_ref().ok()).flatten();
    for (n, i) in all.enumerate() {
        let mut page = facts_text::file(&i.facts, style);
        if let Some(written) = &i.pages {
            let pages = facts_text::pages(&written.pages, style);
            page.raw(&format!("{}\n{pages}", style.bold("pages written by relocations")));
            page.raw(&facts_text::holders(&written.holders, style));
        }
        if let Some(check) = &i.cross_check {
            page.raw(&check_text(check, &i.facts, output));
        }
        if let Some(closure) = i.closure.as_ref().filter(|c| c.loader.is_some() || c.fatal.is_some()) {
            page.raw(&closure_text::closure(closure, style));
            if options.show.tree {
                page.raw(&format!("{}\n{}", style.bold("who needs whom"), closure_text::tree(closure, style)));
            }
            if !closure.costly.is_empty() {
                page.raw(&closure_text::costly(closure, style));
            }
        }
        match &i.prediction {
            None => {}
            Some(Ok(p)) => page.raw(&model_text::predicted("predicted on this host", p, style)),
            Some(Err(e)) => page.raw(&format!("no prediction: {e}\n")),
        }
        let space = if n > 0 { "\n" } else { "" };
        output.text(&format!("{space}{}", page.finish()))?;
    }
    Ok(())
}

fn check_text(check: &Result<CrossCheck>, facts: &LinkFacts, output: &Output<'_>) -> String {
    let title = output.style.bold("second parser (goblin)");
    match check {
        Err(e) => format!("{title}: {e}\n"),
        Ok(_) if facts.format == Format::Script => String::new(),
        Ok(check) if check.disagreements.is_empty() => format!("{title}: agrees on all {} fields\n", check.fields),
        Ok(check) => {
            let mut t = format!("{title}: differs on {} of {} fields\n", check.disagreements.len(), check.fields);
            for d in &check.disagreements {
                t.push_str(&format!("  {}: ours {}, theirs {}\n", d.field, d.ours, d.theirs));
            }
            t
        }
    }
}

fn diff(entries: Vec<Entry<'_>>, common: &Common, output: &mut Output<'_>, exit: Exit) -> Result<Exit> {
    let mut sides: Vec<Inspected> = Vec::new();
    for (_, entry) in entries {
        let Ok(mut all) = entry else { return Ok(exit) };
        if all.len() > 1 {
            return Err(Error::new("--diff compares single images; choose a slice with --arch"));
        }
        sides.append(&mut all);
    }
    let [old, new] = sides.as_slice() else { return Err(Error::new("--diff compares two files")) };
    let figures = facts_diff::differences((&old.facts, old.closure.as_ref()), (&new.facts, new.closure.as_ref()));
    let words = facts_diff::word_changes(&old.facts, &new.facts);
    if common.json {
        let document = Json::object([
            ("schema", "premain.inspect/1".into()),
            ("files", Json::Array(sides.iter().map(entry_json).collect())),
            ("differences", facts_diff::json(&figures, &words)),
        ]);
        output.text(&document.pretty())?;
    } else {
        let heading = format!("{} → {}", old.facts.path.display(), new.facts.path.display());
        let text = facts_diff::text(&figures, &words, output.style);
        output.text(&format!("{}\n{text}", output.style.bold(&heading)))?;
    }
    Ok(exit)
}
