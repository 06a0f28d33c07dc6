//! Files that a verb leaves behind.

use std::path::{Path, PathBuf};

use super::common::Common;
use crate::error::{Context, Result};
use crate::json::Json;
use crate::output::{Output, Style};

/// Files that a verb is asked to write, each in one of the formats `F` that it knows.
#[derive(Debug, Clone)]
pub struct Exports<F> {
    files: Vec<(F, PathBuf)>,
}

impl<F> Default for Exports<F> {
    fn default() -> Self {
        Exports { files: Vec::new() }
    }
}

impl<F: Copy> Exports<F> {
    /// One more file.
    pub fn push(&mut self, format: F, path: PathBuf) {
        self.files.push((format, path));
    }

    /// True where a file is asked for in such a format.
    pub fn any(&self, is_such: impl Fn(F) -> bool) -> bool {
        self.files.iter().any(|(format, _)| is_such(*format))
    }

    /// Writes the files, and then to standard output a document or, without `--json`, the text. Files first: what is saved
    /// must not depend on whether somebody reads our output. A file `-` takes the place of both.
    ///
    /// # Errors
    /// Where something cannot be written; the message names the file.
    pub fn write(
        &self,
        common: &Common,
        output: &mut Output<'_>,
        file: impl Fn(F) -> String,
        document: impl FnOnce() -> Json,
        text: impl FnOnce(Style) -> String,
    ) -> Result<()> {
        for (format, path) in &self.files {
            write_file(path, &file(*format), output)?;
        }
        if self.files.iter().any(|(_, path)| path == Path::new("-")) {
            return Ok(());
        }
        let text = if common.json { document().pretty() } else { text(output.style) };
        output.text(&text)
    }
}

/// Writes beside the file and renames, so that an interrupted write leaves no half file; `-` is standard output.
///
/// # Errors
/// Where it cannot be written; the message names the file.
pub fn write_file(path: &Path, text: &str, output: &mut Output<'_>) -> Result<()> {
    if path == Path::new("-") {
        return output.text(text);
    }
    let mut temporary = path.as_os_str().to_os_string();
    temporary.push(format!(".{}.new", std::process::id()));
    let temporary = PathBuf::from(temporary);
    let regular = std::fs::metadata(path).map_or(true, |m| m.is_file());
    let written = if regular {
        std::fs::write(&temporary, text).and_then(|()| std::fs::rename(&temporary, path))
    } else {
        std::fs::write(path, text)
    };
    written.context(|| "cannot write").context(|| path.to_string_lossy()).inspect_err(|_| {
        let _ = std::fs::remove_file(&temporary);
    })
}
