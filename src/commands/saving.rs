//! Files that a verb leaves behind.

use std::path::{Path, PathBuf};

use crate::error::{Context, Result};
use crate::output::Output;

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
