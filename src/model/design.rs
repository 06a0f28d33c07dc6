//! The programs that the model is fitted on: written by ourselves, one factor at a time, and some crossings.
//!
//! Each stamps its entry point and exits. Libraries look like those that compilers make: four segments, an init function,
//! some zeros behind the data, four look-ups that end in the C library.

use std::path::{Path, PathBuf};

use crate::elf::synth::{Hash, Import, Machine, Packing, Recipe, Relative, Target, Use, control, stamped};
use crate::error::{Context, Result};
use crate::loader::identity::Flavour;

/// Which loader the programs of a family use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Family {
    /// None: the kernel alone.
    Static,
    /// glibc's.
    Glibc,
    /// musl's.
    Musl,
}

impl Family {
    /// The family of a loader; `None` for a loader that is not known.
    pub fn of(flavour: Option<Flavour>) -> Option<Family> {
        match flavour {
            None => Some(Family::Static),
            Some(Flavour::Glibc) => Some(Family::Glibc),
            Some(Flavour::Musl) => Some(Family::Musl),
            Some(_) => None,
        }
    }

    /// The word in output and in the stored model.
    pub fn name(self) -> &'static str {
        match self {
            Family::Static => "static",
            Family::Glibc => "glibc",
            Family::Musl => "musl",
        }
    }
}

/// A program that was written, ready to be measured.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Written {
    /// What it varies.
    pub name: String,
    /// Its family.
    pub family: Family,
    /// Its file.
    pub path: PathBuf,
}

/// Writes programs and libraries into a directory.
pub struct Writer<'a> {
    dir: &'a Path,
    machine: Machine,
    family: Family,
    interp: Option<&'a Path>,
    written: Vec<Written>,
}

/// Symbols of the C library that every library of ours refers to.
const OF_LIBC: [&str; 4] = ["__cxa_finalize", "free", "malloc", "strlen"];

impl<'a> Writer<'a> {
    /// For one family; `interp` is its loader.
    pub fn new(dir: &'a Path, machine: Machine, family: Family, interp: Option<&'a Path>) -> Writer<'a> {
        Writer { dir, machine, family, interp, written: Vec::new() }
    }

    /// Writes every program of the family.
    ///
    /// # Errors
    /// Where the directory does not take them.
    pub fn write(mut self) -> Result<Vec<Written>> {
        if self.family == Family::Static {
            self.statics()?;
        } else {
            self.singles()?;
            self.libraries()?;
            self.symbols()?;
            self.crossings()?;
        }
        Ok(self.written)
    }

    /// Writes programs whose tables and pages no cache holds: beside them in the same rounds others would find their
    /// caches empty.
    ///
    /// # Errors
    /// Where the directory does not take them.
    pub fn write_large(mut self) -> Result<Vec<Written>> {
        if self.family != Family::Static {
            let relative = |count, stride| Some(Relative { count, stride, packing: Packing::Plain });
            self.program("relative dense 1000000", &[], |r| r.relative = relative(1_000_000, 8))?;
            self.program("pages 4000", &[], |r| r.relative = relative(4_000, 4096))?;
        }
        Ok(self.written)
    }

    fn target(&self) -> Target {
        self.machine.into()
    }

    fn file(&self, name: &str) -> PathBuf {
        self.dir.join(format!("{}-{name}", self.family.name()))
    }

    fn put(&self, path: &Path, bytes: &[u8]) -> Result<()> {
        super::files::write_executable(path, bytes).context(|| path.to_string_lossy())
    }

    fn add(&mut self, name: &str, bytes: &[u8]) -> Result<()> {
        let path = self.file(name);
        self.put(&path, bytes)?;
        self.written.push(Written { name: name.to_string(), family: self.family, path });
        Ok(())
    }

    /// A program with the C library and these of ours before it.
    fn program(&mut self, name: &str, libraries: &[PathBuf], change: impl FnOnce(&mut Recipe)) -> Result<()> {
        let mut recipe = Recipe::program(self.target());
        recipe.interp = self.interp.map(bytes_of);
        recipe.needed = libraries.iter().map(|p| bytes_of(p)).collect();
        recipe.needed.push(self.libc());
        recipe.bss_bytes = 64;
        change(&mut recipe);
        self.add(name, &stamped(&recipe.build(), self.machine)?)
    }

    fn library(&self, name: &str, change: impl FnOnce(&mut Recipe)) -> Result<PathBuf> {
        let path = self.file(&format!("{name}.so"));
        let mut recipe = Recipe::library(self.target(), bytes_of(Path::new(&format!("{name}.so"))));
        recipe.extra_segments = 1;
        recipe.constructors = 1;
        recipe.bss_bytes = 64;
        recipe.needed = vec![self.libc()];
        recipe.imports = OF_LIBC.iter().map(|n| Import::new(*n, Use::GlobDat)).collect();
        change(&mut recipe);
        self.put(&path, &recipe.build())?;
        Ok(path)
    }

    /// The name that both loaders know their own C library by.
    fn libc(&self) -> Vec<u8> {
        if self.family == Family::Musl { b"libc.so".to_vec() } else { b"libc.so.6".to_vec() }
    }

    fn many(&self, name: &str, count: usize, change: impl Fn(&mut Recipe)) -> Result<Vec<PathBuf>> {
        (0..count).map(|i| self.library(&format!("{name}{i}"), &change)).collect()
    }

    fn statics(&mut self) -> Result<()> {
        let one = stamped(&control(self.machine), self.machine);
        // The control ends right behind its code: room for the stamp is made first.
        let one = one.or_else(|_| {
            let mut recipe = Recipe::program(self.target());
            recipe.position_independent = false;
            stamped(&recipe.build(), self.machine)
        })?;
        self.add("plain", &one)?;
        for segments in [8, 24] {
            let mut recipe = Recipe::program(self.target());
            recipe.position_independent = false;
            recipe.extra_segments = segments;
            self.add(&format!("segments {segments}"), &stamped(&recipe.build(), self.machine)?)?;
        }
        Ok(())
    }

    fn singles(&mut self) -> Result<()> {
        self.program("plain", &[], |_| {})?;
        self.program("plain again", &[], |_| {})?;
        self.program("fixed address", &[], |r| r.position_independent = false)?;
        self.program("segments 16", &[], |r| r.extra_segments = 16)?;
        let relative = |count, stride, packing| Some(Relative { count, stride, packing });
        self.program("relative dense 20000", &[], |r| r.relative = relative(20_000, 8, Packing::Plain))?;
        self.program("relative dense 60000", &[], |r| r.relative = relative(60_000, 8, Packing::Plain))?;
        self.program("relative dense 500000", &[], |r| r.relative = relative(500_000, 8, Packing::Plain))?;
        if self.family == Family::Glibc {
            self.program("relr dense 20000", &[], |r| r.relative = relative(20_000, 8, Packing::Relr))?;
            self.program("relr dense 60000", &[], |r| r.relative = relative(60_000, 8, Packing::Relr))?;
        }
        self.program("pages 60", &[], |r| r.relative = relative(60, 4096, Packing::Plain))?;
        self.program("pages 300", &[], |r| r.relative = relative(300, 4096, Packing::Plain))?;
        if self.family == Family::Glibc {
            self.program("irelative 5000", &[], |r| r.irelative = 5_000)?;
        }
        Ok(())
    }

    fn libraries(&mut self) -> Result<()> {
        let plain = self.many("plain", 40, |_| {})?;
        for count in [1, 4, 12, 40] {
            self.program(&format!("libraries {count}"), plain.get(..count).unwrap_or(&plain), |_| {})?;
        }
        let libs = self.many("segmented", 12, |r| r.extra_segments = 9)?;
        self.program("library segments 12x8", &libs, |_| {})?;
        let libs = self.many("norelro", 12, |r| r.relro = false)?;
        self.program("libraries 12 without relro", &libs, |_| {})?;
        let libs = self.many("tls", 12, |r| r.tls_bytes = 64)?;
        self.program("libraries 12 with tls", &libs, |_| {})?;
        let libs = self.many("pages", 12, |r| {
            r.relative = Some(Relative { count: 12, stride: 4096, packing: Packing::Plain });
        })?;
        self.program("libraries 12 with 12 pages", &libs, |_| {})?;
        let dense = self.library("dense", |r| r.constructors = 50_000)?;
        self.program("constructors 50000", &[dense], |_| {})?;
        self.searches(12)
    }

    /// The same libraries by name, behind directories that do not hold them, and behind some that do not exist.
    fn searches(&mut self, count: usize) -> Result<()> {
        let names: Vec<PathBuf> =
            (0..count).map(|i| PathBuf::from(format!("{}-plain{i}.so", self.family.name()))).collect();
        for (word, directories) in [("empty", 8), ("absent", 30)] {
            let mut path = Vec::new();
            for i in 0..directories {
                let dir = self.file(&format!("{word}{i}"));
                if word == "empty" {
                    std::fs::create_dir_all(&dir).context(|| dir.to_string_lossy())?;
                }
                path.extend_from_slice(&bytes_of(&dir));
                path.push(b':');
            }
            path.extend_from_slice(&bytes_of(self.dir));
            let name = format!("libraries {count} behind {directories} {word} directories");
            self.program(&name, &names, |r| r.runpath = Some(path))?;
        }
        Ok(())
    }

    fn symbols(&mut self) -> Result<()> {
        let name = |i: usize| format!("premain_symbol_{:03}_{i:05}", (i * 7919) % 1000).into_bytes();
        let names: Vec<Vec<u8>> = (0..8_000).map(name).collect();
        let used = |count: usize| {
            // Every third or so, in no order of any table.
            let step = names.len() / count;
            let pick = |i: usize| Import::new(names[(i * step * 3) % names.len()].clone(), Use::GlobDat);
            (0..count).map(pick).collect::<Vec<_>>()
        };
        let provider = self.library("provider", |r| r.exports = names.clone())?;
        let plain: Vec<PathBuf> = (0..40).map(|i| self.file(&format!("plain{i}.so"))).collect();
        // Hardly more than one in each run of pages that the kernel maps at once: what reading them costs.
        self.program("lookups 50", std::slice::from_ref(&provider), |r| r.imports = used(50))?;
        self.program("lookups 1000", std::slice::from_ref(&provider), |r| r.imports = used(1_000))?;
        let long = |i: usize| {
            [&b"a_name_as_long_as_those_of_templates_in_a_language_that_mangles_them_"[..], &name(i), &name(i)].concat()
        };
        let long: Vec<Vec<u8>> = (0..2_000).map(long).collect();
        let long_provider = self.library("long", |r| r.exports = long.clone())?;
        let used_long: Vec<Import> = long.iter().step_by(2).map(|n| Import::new(n.clone(), Use::GlobDat)).collect();
        self.program("lookups 1000 of long names", &[long_provider], |r| r.imports = used_long)?;
        // Where both tables have one order, as compilers often leave them, each cache line serves several names.
        let in_order = names.iter().take(2_500).map(|n| Import::new(n.clone(), Use::GlobDat)).collect::<Vec<_>>();
        self.program("lookups 2500 in order", std::slice::from_ref(&provider), |r| r.imports = in_order)?;
        for before in [12, 40] {
            let mut libs: Vec<PathBuf> = plain.iter().take(before).cloned().collect();
            libs.push(provider.clone());
            self.program(&format!("lookups 1000 behind {before}"), &libs, |r| r.imports = used(1_000))?;
        }
        // A table of undefined names alone would be passed by too cheaply: in a real one, names have to be compared.
        let other = |i: usize| format!("premain_other_{i:05}").into_bytes();
        let sysv = self.many("sysv", 12, |r| (r.hash, r.exports) = (Hash::Sysv, (0..16).map(other).collect()))?;
        let libs: Vec<PathBuf> = sysv.into_iter().chain([provider.clone()]).collect();
        self.program("lookups 1000 behind 12 sysv", &libs, |r| r.imports = used(1_000))?;
        let sysv = self.many("sysv-few", 40, |r| (r.hash, r.exports) = (Hash::Sysv, vec![other(0)]))?;
        let libs: Vec<PathBuf> = sysv.into_iter().chain([provider.clone()]).collect();
        self.program("lookups 1000 behind 40 sysv", &libs, |r| r.imports = used(1_000))?;
        let turns = [0, 1].map(|i: usize| Import { relocations: 2_500, ..Import::new(names[i].clone(), Use::GlobDat) });
        self.program("lookups 5000 of 2 symbols", std::slice::from_ref(&provider), |r| {
            (r.imports, r.in_turns) = (turns.to_vec(), true);
        })?;
        if self.family == Family::Musl {
            // musl has no cache, and looks the same name up at another cost than a new one: real files rarely repeat names.
            return Ok(());
        }
        let again = Import { relocations: 20_000, ..Import::new(names[0].clone(), Use::GlobDat) };
        self.program("cached 20000", &[provider], |r| r.imports = vec![again])
    }

    fn crossings(&mut self) -> Result<()> {
        let names: Vec<Vec<u8>> = (0..1_500).map(|i| format!("premain_crossing_{i:05}").into_bytes()).collect();
        let provider = self.library("crossed", |r| {
            r.exports = names.clone();
            r.relative = Some(Relative { count: 600, stride: 512, packing: Packing::Plain });
        })?;
        let mut libs: Vec<PathBuf> = (0..6).map(|i| self.file(&format!("plain{i}.so"))).collect();
        libs.push(provider);
        self.program("crossing", &libs, |r| {
            r.imports = names.iter().step_by(5).map(|n| Import::new(n.clone(), Use::GlobDat)).collect();
            r.relative = Some(Relative { count: 2_000, stride: 16, packing: Packing::Plain });
        })
    }
}

fn bytes_of(path: &Path) -> Vec<u8> {
    use std::os::unix::ffi::OsStrExt;
    path.as_os_str().as_bytes().to_vec()
}
