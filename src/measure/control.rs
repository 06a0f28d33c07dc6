//! The control: the smallest program that can exit, written by ourselves, started twice in every round.
//!
//! It gives the floor (what fork, exec, exit and wait cost with no program to speak of), shows drift, and its
//! own two starts bound what can be claimed of anything else.

use std::ffi::OsString;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use super::command::Command;
use crate::elf::synth;
use crate::error::{Context, Error, Result};
use crate::sys;
use crate::sys::process::{Program, StringArray, Target};

/// The control's file while it exists; a temporary one is removed on drop.
#[derive(Debug)]
pub struct Control {
    /// Ready to start.
    pub command: Command,
    /// `memfd`, or the path of the temporary file.
    pub source: String,
    temporary: Option<PathBuf>,
}

impl Drop for Control {
    fn drop(&mut self) {
        if let Some(path) = &self.temporary {
            let _ = std::fs::remove_file(path);
        }
    }
}

/// Makes the control with the environment that the commands get, so that exec copies the same.
///
/// # Errors
/// Where neither a memory file nor any temporary directory can hold an executable.
pub fn control(env: &[(OsString, OsString)]) -> Result<Control> {
    if let Some(path) = sys::system_control() {
        return system(path, env);
    }
    let machine = synth::Machine::host().context(|| "no control program for this processor")?;
    let bytes = synth::control(machine);
    let (target, path, source, temporary) = match sys::program_file(c"premain-control", &bytes) {
        Ok(fd) => (Target::File(fd), PathBuf::from("memfd:premain-control"), "memfd".to_string(), None),
        Err(_) => {
            let path = temporary_file(&bytes)?;
            (
                Target::Path(sys::process::c_string(path.as_os_str())?),
                path.clone(),
                path.display().to_string(),
                Some(path),
            )
        }
    };
    Ok(Control { command: command(target, path, env)?, source, temporary })
}

/// A program of the system's in its place.
fn system(path: &Path, env: &[(OsString, OsString)]) -> Result<Control> {
    let target = Target::Path(sys::process::c_string(path.as_os_str())?);
    let source = path.display().to_string();
    Ok(Control { command: command(target, path.to_path_buf(), env)?, source, temporary: None })
}

fn command(target: Target, path: PathBuf, env: &[(OsString, OsString)]) -> Result<Command> {
    let argv = vec![OsString::from("control")];
    let program = Program {
        target,
        argv: StringArray::new(&argv)?,
        envp: sys::process::environment(env)?,
        cwd: None,
        stdin: sys::process::Stdin::Null,
        cpu: None,
    };
    Ok(Command { name: "control".to_string(), argv, path, program })
}

/// An executable file in the first directory that takes one.
fn temporary_file(bytes: &[u8]) -> Result<PathBuf> {
    let mut reason = Error::new("no directory to try");
    let from_env = std::env::var_os("TMPDIR").map(PathBuf::from);
    let fixed = ["/tmp", "/dev/shm", "/var/tmp", "."].map(PathBuf::from);
    for dir in from_env.into_iter().chain(fixed) {
        match write_executable(&dir, bytes) {
            Ok(path) => return Ok(path),
            Err(e) => reason = e.context(dir.to_string_lossy()),
        }
    }
    Err(reason.context("cannot place the control program"))
}

fn write_executable(dir: &Path, bytes: &[u8]) -> Result<PathBuf> {
    let path = dir.join(format!("premain-control-{}", std::process::id()));
    let mut file = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o700).open(&path)?;
    let written = file.write_all(bytes);
    drop(file);
    // A mount with noexec takes the file and refuses to run it: known only by asking.
    match written.map_err(Error::from).and_then(|()| sys::process::check_executable(&path)) {
        Ok(()) => Ok(path),
        Err(e) => {
            let _ = std::fs::remove_file(&path);
            Err(e).context(|| "cannot write an executable")
        }
    }
}
