//! `premain stat`: columns of numbers compared as ministat does, and stored samples compared with the right caution.

use std::ffi::OsString;
use std::io::Read;

use super::common::Common;
use crate::error::{Context, Error, Exit, Result};
use crate::json::Json;
use crate::output::Output;
use crate::record::numbers::text_column;
use crate::record::results::{StoredRuns, stored_runs};
use crate::record::stored::compare;
use crate::report::columns_text::{self, DataSet, Layout};
use crate::report::dots::MARKS;
use crate::report::{columns_json, stored_text};
use crate::stat::ministat::Column;

/// Options of `stat`.
#[derive(Debug, Clone)]
pub struct Options {
    /// Files; none means standard input, and so does `-`.
    pub files: Vec<OsString>,
    /// Figures without the plot.
    pub no_plot: bool,
    /// Figures alone: neither plot nor comparison.
    pub vitals: bool,
    /// Neither legend nor headers.
    pub quiet: bool,
    /// Bars on lines of their own.
    pub separate_bars: bool,
    /// Column of the numbers, from 1.
    pub column: usize,
    /// Characters that end a column.
    pub delimiters: String,
    /// Of the intervals, as a fraction.
    pub confidence: f64,
    /// Columns of the plot; `None`: what the terminal has.
    pub width: Option<usize>,
    /// Metric of stored samples.
    pub metric: String,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            files: Vec::new(),
            no_plot: false,
            vitals: false,
            quiet: false,
            separate_bars: false,
            column: 1,
            delimiters: " \t".to_string(),
            confidence: 0.95,
            width: None,
            metric: "spawn_to_exit_ns".to_string(),
        }
    }
}

/// Fewer numbers than this have no spread worth the name.
const LEAST_VALUES: usize = 3;

/// Reads all files, then compares.
///
/// # Errors
/// A file that cannot be read or holds something else.
pub fn run(options: &Options, common: &Common, output: &mut Output<'_>) -> Result<Exit> {
    let inputs = read_all(options)?;
    let documents = inputs.iter().filter(|i| i.is_json()).count();
    if documents == inputs.len() {
        return compare_stored(options, common, &inputs, output);
    }
    if documents > 0 {
        return Err(Error::new("columns of numbers and JSON cannot be compared with each other"));
    }
    let sets = inputs.iter().map(|i| i.column(options, output)).collect::<Result<Vec<DataSet>>>()?;
    if common.json {
        output.text(&columns_json::document(&sets, options.confidence).pretty())?;
        return Ok(Exit::Done);
    }
    let layout = Layout {
        plot: !(options.no_plot || options.vitals),
        compare: !options.vitals,
        headers: !options.quiet,
        separate_bars: options.separate_bars,
        // The frame takes one column on each side, and the cursor one.
        width: options.width.unwrap_or(output.style.width.saturating_sub(6)).max(2),
        confidence: options.confidence,
    };
    output.text(&columns_text::text(&sets, &layout))?;
    Ok(Exit::Done)
}

/// One file's content.
struct Input {
    name: String,
    text: String,
}

fn read_all(options: &Options) -> Result<Vec<Input>> {
    let stdin = [OsString::from("-")];
    let files = if options.files.is_empty() { &stdin[..] } else { &options.files };
    if files.len() > MARKS.len() {
        return Err(Error::new(format!("at most {} files can be told apart", MARKS.len())));
    }
    if files.iter().filter(|f| *f == "-").count() > 1 {
        return Err(Error::new("-: standard input can be read only once"));
    }
    files.iter().map(Input::read).collect()
}

impl Input {
    fn read(file: &OsString) -> Result<Input> {
        let mut bytes = Vec::new();
        let name = if file == "-" {
            std::io::stdin().read_to_end(&mut bytes).context(|| "standard input")?;
            "<stdin>".to_string()
        } else {
            bytes = std::fs::read(file).context(|| file.to_string_lossy())?;
            file.to_string_lossy().into_owned()
        };
        let text = String::from_utf8(bytes).map_err(|_| Error::new("is not text").context(name.as_str()))?;
        Ok(Input { name, text })
    }

    fn is_json(&self) -> bool {
        self.text.trim_start_matches('\u{feff}').trim_start().starts_with('{')
    }

    fn column(&self, options: &Options, output: &mut Output<'_>) -> Result<DataSet> {
        let read = text_column(&self.text, options.column, &options.delimiters).context(|| self.name.as_str())?;
        if read.short_lines > 0 {
            output.warn(&format!("{}: {} lines have no column {}", self.name, read.short_lines, options.column));
        }
        let mut values = read.values;
        if values.len() < LEAST_VALUES {
            let what = format!("has {} numbers; at least {LEAST_VALUES} are needed", values.len());
            return Err(Error::new(what).context(self.name.as_str()));
        }
        let column = Column::of(&mut values).context(|| "holds no number")?;
        Ok(DataSet { name: self.name.clone(), values, column })
    }

    fn runs(&self, metric: &str) -> Result<StoredRuns> {
        let text = self.text.trim_start_matches('\u{feff}');
        Json::parse(text).and_then(|j| stored_runs(&j, metric)).context(|| self.name.as_str())
    }
}

fn compare_stored(options: &Options, common: &Common, inputs: &[Input], output: &mut Output<'_>) -> Result<Exit> {
    let files = inputs
        .iter()
        .map(|i| i.runs(&options.metric).map(|runs| (i.name.clone(), runs)))
        .collect::<Result<Vec<(String, StoredRuns)>>>()?;
    let compared = compare(&files)?;
    if common.json {
        output.text(&columns_json::stored(&compared).pretty())?;
    } else {
        let text = stored_text::text(&compared, output.style);
        output.text(&text)?;
    }
    Ok(Exit::Done)
}
