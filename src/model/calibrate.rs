//! Writes the programs, counts their work, measures them.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use super::design::{Family, Writer, Written};
use super::files::Scratch;
use super::gauge::{self, Arm, Effort, Reading};
use super::work::Work;
use crate::elf::synth::Machine;
use crate::error::{Context, Result};
use crate::loader::host::Host;
use crate::loader::{self, Options};

/// One program of the design: its work, and what each round showed.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    /// What it varies.
    pub name: String,
    /// Its family.
    pub family: Family,
    /// Its work.
    pub work: Work,
    /// One a round.
    pub readings: Vec<Reading>,
}

/// Loaders at the paths that their ABIs give them.
pub fn loaders(machine: Machine) -> Vec<(Family, PathBuf)> {
    let all = match machine {
        Machine::X86_64 => [(Family::Glibc, "/lib64/ld-linux-x86-64.so.2"), (Family::Musl, "/lib/ld-musl-x86_64.so.1")],
        Machine::Aarch64 => {
            [(Family::Glibc, "/lib/ld-linux-aarch64.so.1"), (Family::Musl, "/lib/ld-musl-aarch64.so.1")]
        }
    };
    all.into_iter().map(|(f, p)| (f, PathBuf::from(p))).filter(|(_, p)| p.is_file()).collect()
}

/// Makes the rows of the model.
///
/// # Errors
/// Where programs cannot be written or started here.
pub fn rows(effort: Effort, progress: &mut dyn FnMut(u64, u64)) -> Result<(Vec<Row>, Vec<(String, String)>)> {
    let machine = Machine::host().context(|| "no programs can be written for this processor")?;
    let scratch = Scratch::new()?;
    let mut written = Writer::new(scratch.path(), machine, Family::Static, None).write()?;
    for (family, interp) in loaders(machine) {
        written.extend(Writer::new(scratch.path(), machine, family, Some(&interp)).write()?);
    }
    let env: Vec<(OsString, OsString)> = std::env::vars_os().filter(|(k, _)| !is_loader_variable(k)).collect();
    let mut ready: Vec<(Written, Work)> = Vec::new();
    let mut arms = Vec::new();
    let mut skipped = Vec::new();
    for w in written {
        let arm = Arm::new(&w.path, &[OsString::from("program")], &env)?;
        match gauge::try_once(&arm, effort.method).and_then(|_| work_of(&w.path)) {
            Ok(work) => {
                arms.push(arm);
                ready.push((w, work));
            }
            Err(e) => skipped.push((format!("{} {}", w.family.name(), w.name), e.to_string())),
        }
    }
    let readings = gauge::measure(&arms, effort, progress)?;
    let rows = ready.into_iter().zip(readings);
    let rows = rows.map(|((w, work), readings)| Row { name: w.name, family: w.family, work, readings });
    Ok((rows.collect(), skipped))
}

/// Programs of the host, measured as stamped copies.
pub fn check(paths: &[PathBuf], effort: Effort, progress: &mut dyn FnMut(u64, u64)) -> Result<(Vec<Row>, Vec<(String, String)>)> {
    let machine = Machine::host().context(|| "no programs can be written for this processor")?;
    let scratch = Scratch::new()?;
    let env: Vec<(OsString, OsString)> = std::env::vars_os().filter(|(k, _)| !is_loader_variable(k)).collect();
    let (mut arms, mut ready, mut skipped) = (Vec::new(), Vec::new(), Vec::new());
    let mut written = Writer::new(scratch.path(), machine, Family::Static, None).write()?;
    for (family, interp) in loaders(machine) {
        written.extend(Writer::new(scratch.path(), machine, family, Some(&interp)).write()?);
    }
    for w in written {
        arms.push(Arm::new(&w.path, &[OsString::from("program")], &env)?);
        ready.push((w.name.clone(), work_of(&w.path)?, w.family));
    }
    for (i, path) in paths.iter().enumerate() {
        let copy = scratch.path().join(format!("copy{i}"));
        let arm = std::fs::read(path).map_err(crate::error::Error::from).and_then(|b| crate::elf::synth::stamped(&b, machine)).and_then(|b| {
            super::files::write_executable(&copy, &b)?;
            let arm = Arm::new(&copy, &[OsString::from("program")], &env)?;
            gauge::try_once(&arm, effort.method)?;
            Ok((arm, work_of(path)?))
        });
        match arm {
            Ok((arm, work)) => {
                arms.push(arm);
                ready.push((path.display().to_string(), work, Family::Glibc));
            }
            Err(e) => skipped.push((path.display().to_string(), e.to_string())),
        }
    }
    let readings = gauge::measure(&arms, effort, progress)?;
    let rows = ready.into_iter().zip(readings);
    let rows = rows.map(|((name, work, family), readings)| Row { name, family, work, readings });
    Ok((rows.collect(), skipped))
}

/// Variables that would change what the loader does.
fn is_loader_variable(name: &std::ffi::OsStr) -> bool {
    name.to_str().is_some_and(|n| n.starts_with("LD_") || n == "GLIBC_TUNABLES")
}

/// The work of a program in a plain environment.
///
/// # Errors
/// Where it cannot be read.
pub fn work_of(path: &Path) -> Result<Work> {
    let options = Options { cwd: PathBuf::from("/"), ..Options::default() };
    let closure = loader::closure(path, &options, &Host)?;
    Ok(Work::of(&closure, &Host))
}
