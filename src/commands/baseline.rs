//! Saving a baseline: which files were measured, where they can be found again, how it was done.

use std::ffi::OsString;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use super::counting;
use super::measuring::{Accepted, MeasureOptions, Measured, StdinChoice};
use super::saving::write_file;
use crate::digest;
use crate::error::{Context, Error, Result};
use crate::measure::command::Command;
use crate::output::Output;
use crate::record::baseline::{Manner, Place, StoredCommand};
use crate::record::bench::BenchRecord;
use crate::report::{baseline_json, export};

/// A program's file as it was before it was measured.
#[derive(Debug)]
pub struct Marked {
    path: PathBuf,
    sha256: String,
    kept: Option<PathBuf>,
    stamp: Stamp,
}

/// Device, inode, size, time of change: another file under the same name has another.
type Stamp = (u64, u64, u64, i64, i64);

fn stamp(path: &Path) -> Result<Stamp> {
    let m = std::fs::metadata(path).context(|| path.to_string_lossy())?;
    Ok((m.dev(), m.ino(), m.size(), m.mtime(), m.mtime_nsec()))
}

/// Programs are kept for a baseline alone.
///
/// # Errors
/// Where they are to be kept and no baseline is to be saved.
pub fn check_flags(save: Option<&Path>, keep: Option<&Path>) -> Result<()> {
    match (save, keep) {
        (None, Some(_)) => {
            let why = "keeps the programs of a baseline: give --save-baseline FILE too";
            Err(Error::new(why).context("--keep-binaries"))
        }
        _ => Ok(()),
    }
}

/// Marks the file of each command, and keeps a copy in `keep` where that is asked for. Before measuring: the copy must be
/// of what is measured.
///
/// # Errors
/// Where a file cannot be read or copied.
pub fn mark(commands: &[Command], keep: Option<&Path>) -> Result<Vec<Marked>> {
    if let Some(dir) = keep {
        std::fs::create_dir_all(dir).context(|| format!("--keep-binaries {}", dir.display()))?;
    }
    commands.iter().map(|c| mark_one(&c.path, keep)).collect()
}

fn mark_one(path: &Path, keep: Option<&Path>) -> Result<Marked> {
    let path = std::path::absolute(path).context(|| path.to_string_lossy())?;
    let stamp = stamp(&path)?;
    let sha256 = digest::of_file(&path)?;
    let kept = keep.map(|dir| keep_copy(&path, dir, &sha256)).transpose()?;
    Ok(Marked { path, sha256, kept, stamp })
}

/// A copy that is named after its content, so that copies of many baselines share a directory.
fn keep_copy(path: &Path, dir: &Path, sha256: &str) -> Result<PathBuf> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let copy = dir.join(format!("{name}-{}", sha256.get(..16).unwrap_or_default()));
    let fail = || format!("--keep-binaries {}", copy.display());
    if digest::of_file(&copy).is_ok_and(|there| there == sha256) {
        return std::path::absolute(&copy).context(fail);
    }
    let partial = dir.join(format!(".{name}-{}.new", std::process::id()));
    let copied = std::fs::copy(path, &partial)
        .and_then(|_| std::fs::set_permissions(&partial, PermissionsExt::from_mode(0o755)))
        .and_then(|()| std::fs::rename(&partial, &copy));
    if copied.is_err() {
        let _ = std::fs::remove_file(&partial);
    }
    copied.context(fail)?;
    std::path::absolute(&copy).context(fail)
}

/// How the run made its starts.
pub fn manner(r: &BenchRecord, cpu: Option<usize>) -> Manner {
    Manner {
        method: r.setting.method.name().to_string(),
        stdout: r.setting.stdout.name().to_string(),
        until_first_byte: r.setting.until_first_byte,
        cold: !r.setting.evicted.is_empty(),
        cpu: cpu.map(|n| n as u64),
        prime: r.setting.prime,
    }
}

/// What is around a command, out of the options that it was made with; its hooks run where it runs.
///
/// # Errors
/// Where there is no working directory to make paths absolute with.
pub fn place(o: &MeasureOptions, own_env: &[(OsString, OsString)], hooks: Vec<(String, OsString)>) -> Result<Place> {
    let absolute = |p: &PathBuf| std::path::absolute(p).context(|| p.to_string_lossy());
    Ok(Place {
        env: o.env.iter().chain(own_env).cloned().collect(),
        clear_env: o.clear_env,
        cwd: o.cwd.as_ref().map(absolute).transpose()?,
        stdin: match &o.stdin {
            StdinChoice::Null => "null".into(),
            StdinChoice::Inherit => "inherit".into(),
            StdinChoice::File(path) => absolute(path)?.into_os_string(),
        },
        exit: o.accepted.words(),
        hooks,
        hooks_cwd: o.cwd.as_ref().map(absolute).transpose()?,
    })
}

/// The options that put a command back into its place; how starts are made is the caller's.
///
/// # Errors
/// Where the stored words make no sense.
pub fn options_for(place: &Place, o: &MeasureOptions) -> Result<MeasureOptions> {
    Ok(MeasureOptions {
        env: place.env.clone(),
        clear_env: place.clear_env,
        cwd: place.cwd.clone(),
        cwd_made_later: place.hooks.iter().any(|(flag, _)| flag.starts_with("setup")),
        stdin: match place.stdin.to_str() {
            Some("null") => StdinChoice::Null,
            Some("inherit") => StdinChoice::Inherit,
            _ => StdinChoice::File(PathBuf::from(&place.stdin)),
        },
        accepted: Accepted::from_words(&place.exit).map_err(Error::new).context(|| "exit")?,
        ..o.clone()
    })
}

/// The stored form of each command, once it was measured.
///
/// # Errors
/// Where a program's file is no longer what it was before measuring.
pub fn stored(
    options: &MeasureOptions,
    record: &BenchRecord,
    marked: Vec<Marked>,
    places: Vec<Place>,
) -> Result<Vec<StoredCommand>> {
    let mut stored = Vec::with_capacity(marked.len());
    for ((m, place), r) in marked.into_iter().zip(places).zip(&record.commands) {
        if stamp(&m.path)? != m.stamp {
            return Err(
                Error::new("changed while it was measured: no baseline is saved").context(m.path.to_string_lossy())
            );
        }
        let o = options_for(&place, options)?;
        stored.push(StoredCommand {
            name: r.name.clone(),
            argv: r.argv.clone(),
            counts: counting::counts(&o, &m.path, r),
            libraries: counting::libraries(&o, &m.path),
            path: m.path,
            kept: m.kept,
            sha256: m.sha256,
            place,
        });
    }
    Ok(stored)
}

/// Writes the baseline of a run to `file`.
///
/// # Errors
/// As [`stored`], and where the file cannot be written.
pub fn save(
    options: &MeasureOptions,
    measured: &mut Measured,
    marked: Vec<Marked>,
    places: Vec<Place>,
    file: &Path,
    output: &mut Output<'_>,
) -> Result<()> {
    let stored = stored(options, &measured.record, marked, places)?;
    let arms = export::arms(&measured.record, &mut measured.log)?;
    let manner = manner(&measured.record, options.cpu);
    let document = baseline_json::document(&measured.record, &arms, &stored, &manner);
    write_file(file, &document.pretty(), output)
}
