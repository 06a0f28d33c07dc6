//! `premain predict`: what starts will cost, from the files and this host's model, without making them.

use std::path::{Path, PathBuf};

use super::calibrate::{effort, progress};
use super::common::Common;
use super::program;
use crate::error::{Error, Exit, Result};
use crate::facts::Format;
use crate::loader::Assume;
use crate::loader::host::Host;
use crate::model::check::check;
use crate::model::predict::{Prediction, predict};
use crate::model::store::Model;
use crate::output::Output;
use crate::report::{model_json, model_text};
use crate::sys;

/// Options of `predict`.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// The model, instead of the one in the cache.
    pub model: Option<PathBuf>,
    /// Measure as well.
    pub check: bool,
    /// Time to measure for.
    pub budget_ns: Option<u64>,
    /// Programs.
    pub files: Vec<PathBuf>,
}

const BUDGET_NS: u64 = 10_000_000_000;

/// Predicts and prints.
///
/// # Errors
/// Usage, or where there is no model that holds here.
pub fn run(options: &Options, common: &Common, output: &mut Output<'_>) -> Result<Exit> {
    if options.files.is_empty() {
        return Err(Error::new("no file given; try 'premain predict --help'"));
    }
    let model = Model::named(options.model.as_deref())?;
    if options.check {
        return run_check(options, &model, common, output);
    }
    let (mut exit, mut files) = (Exit::Done, Vec::new());
    for path in &options.files {
        match of_file(&model, path) {
            Ok(p) if common.json => files.push(model_json::prediction(path, &p)),
            Ok(p) => {
                let text = model_text::prediction(&path.to_string_lossy(), &p, output.style);
                output.text(&text)?;
            }
            Err(e) => {
                output.error(&e.context(path.to_string_lossy()).to_string());
                exit = Exit::Trouble;
            }
        }
    }
    if common.json {
        output.text(&model_json::predict(files).pretty())?;
    }
    Ok(exit)
}

/// The prediction for the program that a file starts, in our own environment.
pub(super) fn of_file(model: &Model, path: &Path) -> Result<Prediction> {
    let files = program::chain(path)?;
    let Some(facts) = files.last().filter(|f| f.format == Format::Elf) else {
        return Err(Error::new("no ELF program, and only those can be predicted"));
    };
    let env: Vec<_> = std::env::vars_os().collect();
    predict(model, &program::closure_assuming(&facts.path, &env, None, Assume::default())?, &Host)
}

fn run_check(options: &Options, model: &Model, common: &Common, output: &mut Output<'_>) -> Result<Exit> {
    sys::signal::catch_interrupts()?;
    let budget = options.budget_ns.unwrap_or(BUDGET_NS);
    let checked = check(model, &options.files, effort(budget), &mut progress(budget, output))?;
    output.progress("");
    if common.json {
        output.text(&model_json::checked(&checked).pretty())?;
    } else {
        let text = model_text::checked(&checked, output.style);
        output.text(&text)?;
    }
    Ok(if checked.programs.is_empty() { Exit::Trouble } else { Exit::Done })
}
