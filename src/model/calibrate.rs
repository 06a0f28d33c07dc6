//! Writes or copies programs, counts their work, measures them: rows of work and time.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use super::design::{Family, Writer, Written};
use super::files::{Scratch, write_executable};
use super::gauge::{self, Arm, Effort, Reading};
use super::libraries::real_path;
use super::work::Work;
use crate::elf::synth::{Machine, Recipe, stamped};
use crate::error::{Context, Error, Result};
use crate::loader::cpu::Cpu;
use crate::loader::host::Host;
use crate::loader::identity::Flavour;
use crate::loader::{self, Closure, FoundBy, Options};
use crate::sys::process::Program;

/// What is known of a program before it is measured.
#[derive(Debug, Clone, PartialEq)]
pub struct About {
    /// What it varies, or the path that it is a copy of.
    pub name: String,
    /// Whose rules load it.
    pub family: Family,
    /// Its work.
    pub work: Work,
    /// The file of a library whose init code it is there to measure.
    pub library: Option<PathBuf>,
    /// Libraries that it loads, by file.
    pub loads: Vec<PathBuf>,
}

/// A program that is ready to be measured.
pub struct Subject {
    /// What is known of it.
    pub about: About,
    path: PathBuf,
    arm: Arm,
}

/// A program that cannot be measured here: what, and why.
pub type Skipped = (String, String);

/// A program and what each round showed.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    /// The program.
    pub about: About,
    /// One a round.
    pub readings: Vec<Reading>,
}

/// Makes subjects in a directory of its own, and measures them.
pub struct Ground {
    scratch: Scratch,
    machine: Machine,
    effort: Effort,
    env: Vec<(OsString, OsString)>,
    copies: usize,
    /// Ready to be measured.
    pub subjects: Vec<Subject>,
    /// What cannot be measured here.
    pub skipped: Vec<Skipped>,
}

/// Loaders at the paths that their ABIs give them.
pub fn loaders() -> Vec<(Family, PathBuf)> {
    let all = match Machine::host() {
        Some(Machine::X86_64) => ["/lib64/ld-linux-x86-64.so.2", "/lib/ld-musl-x86_64.so.1"],
        Some(Machine::Aarch64) => ["/lib/ld-linux-aarch64.so.1", "/lib/ld-musl-aarch64.so.1"],
        None => return Vec::new(),
    };
    let pairs = [Family::Glibc, Family::Musl].into_iter().zip(all);
    pairs.map(|(f, p)| (f, PathBuf::from(p))).filter(|(_, p)| p.is_file()).collect()
}

impl Ground {
    /// Nothing made yet.
    ///
    /// # Errors
    /// Where no directory takes programs, or none can be written for this processor.
    pub fn new(effort: Effort) -> Result<Ground> {
        let machine = Machine::host().context(|| "no programs can be written for this processor")?;
        // What would change the loader's work is not handed on.
        let env = std::env::vars_os().filter(|(k, _)| !is_loader_variable(k)).collect();
        let scratch = Scratch::new()?;
        Ok(Ground { scratch, machine, effort, env, copies: 0, subjects: Vec::new(), skipped: Vec::new() })
    }

    /// Adds the programs of the design, for every loader of this host and for none.
    ///
    /// # Errors
    /// Where they cannot be written.
    pub fn add_design(&mut self) -> Result<()> {
        let mut written = Writer::new(self.scratch.path(), self.machine, Family::Static, None).write()?;
        for (family, interp) in loaders() {
            written.extend(Writer::new(self.scratch.path(), self.machine, family, Some(&interp)).write()?);
        }
        self.add_written(written);
        Ok(())
    }

    /// Adds the large programs of the design.
    ///
    /// # Errors
    /// Where they cannot be written.
    pub fn add_large(&mut self) -> Result<()> {
        for (family, interp) in loaders() {
            let written = Writer::new(self.scratch.path(), self.machine, family, Some(&interp)).write_large()?;
            self.add_written(written);
        }
        Ok(())
    }

    fn add_written(&mut self, written: Vec<Written>) {
        for w in written {
            let name = format!("{} {}", w.family.name(), w.name);
            let made = self.subject(&name, &w.path, &w.path, None);
            self.keep(name, made);
        }
    }

    /// Adds a stamped copy of a program of the host.
    pub fn add_copy(&mut self, path: &Path) {
        let name = path.display().to_string();
        let made = self.copy(path).and_then(|copy| self.subject(&name, path, &copy, None));
        self.keep(name, made);
    }

    fn copy(&mut self, path: &Path) -> Result<PathBuf> {
        let bytes = std::fs::read(path)?;
        let copy = self.scratch.path().join(format!("copy{}", self.copies));
        self.copies += 1;
        write_executable(&copy, &stamped(&bytes, self.machine)?)?;
        Ok(copy)
    }

    /// Adds, for every library of these closures that has init functions, a program that needs it and nothing else.
    ///
    /// # Errors
    /// Where they cannot be written.
    pub fn add_libraries(&mut self, closures: &[Closure]) -> Result<()> {
        let mut seen = std::collections::BTreeSet::new();
        for closure in closures {
            let Some(loader) = &closure.loader else { continue };
            let own = |o: &&loader::Object| o.found_by != FoundBy::Program && o.found_by != FoundBy::Interpreter;
            for object in closure.objects.iter().filter(own).filter(|o| o.init_functions > 0) {
                let is_libc = object.name.starts_with(b"libc.so") || object.name.starts_with(b"ld-");
                if !is_libc && seen.insert(real_path(&object.path)) {
                    let needs_libc = loader.flavour == Flavour::Glibc;
                    let name = object.path.display().to_string();
                    let made = self.library(&object.path, &loader.path, needs_libc);
                    self.keep(name, made);
                }
            }
        }
        Ok(())
    }

    fn library(&mut self, library: &Path, interp: &Path, needs_libc: bool) -> Result<Subject> {
        use std::os::unix::ffi::OsStrExt;
        let mut recipe = Recipe::program(self.machine.into());
        recipe.interp = Some(interp.as_os_str().as_bytes().to_vec());
        recipe.needed = vec![library.as_os_str().as_bytes().to_vec()];
        if needs_libc {
            recipe.needed.push(b"libc.so.6".to_vec());
        }
        let path = self.scratch.path().join(format!("needs{}", self.copies));
        self.copies += 1;
        write_executable(&path, &stamped(&recipe.build(), self.machine)?)?;
        self.subject(&library.display().to_string(), &path, &path, Some(real_path(library)))
    }

    /// `counted` is the file whose work is counted, `started` the one that is started.
    fn subject(&self, name: &str, counted: &Path, started: &Path, library: Option<PathBuf>) -> Result<Subject> {
        let closure = closure_of(counted)?;
        if let Some(fatal) = &closure.fatal {
            return Err(Error::new(fatal.clone()));
        }
        let mut arm = Arm::new(started, &[OsString::from("program")], &self.env)?;
        gauge::try_once(&mut arm, self.effort.method)?;
        let work = Work::of(&closure, &Host);
        let family = Family::of(work.flavour).context(|| "its loader is not known")?;
        let loads = closure.objects.iter().skip(1).map(|o| real_path(&o.path)).collect();
        let about = About { name: name.to_string(), family, work, library, loads };
        Ok(Subject { about, path: started.to_path_buf(), arm })
    }

    /// A subject by its name: its work, its file, and how it is started.
    pub fn subject_named(&self, name: &str) -> Option<(Work, &Path, Program)> {
        let subject = self.subjects.iter().find(|s| s.about.name == name)?;
        let program = Program::new(&subject.path, &[OsString::from("program")], &self.env).ok()?;
        Some((subject.about.work, &subject.path, program))
    }

    /// Reads everything that was written from the disk, as it will be when it is measured.
    pub fn settle(&self) {
        self.scratch.settle();
    }

    fn keep(&mut self, name: String, made: Result<Subject>) {
        match made {
            Ok(subject) => self.subjects.push(subject),
            Err(e) => self.skipped.push((name, e.to_string())),
        }
    }

    /// Measures all subjects in the same rounds.
    ///
    /// # Errors
    /// Where one does not reach its entry point any more, or a signal asks us to stop.
    pub fn measure(mut self, progress: &mut dyn FnMut(u64, u64)) -> Result<(Vec<Row>, Vec<Skipped>)> {
        self.settle();
        let mut arms: Vec<&mut Arm> = self.subjects.iter_mut().map(|s| &mut s.arm).collect();
        let readings = gauge::measure(&mut arms, self.effort, progress)?;
        let rows = self.subjects.into_iter().zip(readings);
        Ok((rows.map(|(subject, readings)| Row { about: subject.about, readings }).collect(), self.skipped))
    }
}

/// Variables that would change what the loader does.
fn is_loader_variable(name: &std::ffi::OsStr) -> bool {
    name.to_str().is_some_and(|n| n.starts_with("LD_") || n == "GLIBC_TUNABLES")
}

/// The closure of a program in a plain environment.
///
/// # Errors
/// Where it cannot be read.
pub fn closure_of(path: &Path) -> Result<Closure> {
    let options = Options { cwd: PathBuf::from("/"), cpu: Cpu::host(), count_lines: true, ..Options::default() };
    loader::closure(path, &options, &Host)
}
