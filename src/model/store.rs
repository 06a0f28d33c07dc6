//! The model as it is kept on disk: which host it holds for, and why one is refused.

use std::path::{Path, PathBuf};

use super::calibrate::{Row, loaders};
use super::design::Family;
use super::fit::{self, COUNT, Costs, FamilyModel};
use super::libraries::{Library, init_costs, real_path, stamp};
use super::parts::{PARTS, Split};
use super::work::TERMS;
use crate::elf::image::Image;
use crate::elf::notes::notes;
use crate::error::{Context, Error, Result};
use crate::json::Json;

/// Changes whenever counting or fitting changes: an older model's costs belong to other counts.
const SCHEMA: &str = "premain.model/2";

/// What a model holds for.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct HostKey {
    /// Kernel release.
    pub kernel: String,
    /// Processor.
    pub cpu: String,
    /// Loaders: path and build id (size and time of change, where it has none).
    pub loaders: Vec<(String, String)>,
}

/// This host's costs.
#[derive(Debug, Clone, PartialEq)]
pub struct Model {
    /// Where it holds.
    pub host: HostKey,
    /// Costs by family.
    pub families: Vec<FamilyModel>,
    /// Libraries whose init code was measured.
    pub libraries: Vec<Library>,
    /// Nanoseconds of one CPUID, where the processor has it.
    pub cpuid_ns: Option<f64>,
}

impl HostKey {
    /// This host's.
    pub fn here() -> HostKey {
        let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
        let cpuinfo = read("/proc/cpuinfo");
        let name = |line: &str| line.split_once(':').map(|(_, v)| v.trim().to_string());
        let is_name = |l: &&str| l.starts_with("model name") || l.starts_with("CPU part");
        HostKey {
            kernel: read("/proc/sys/kernel/osrelease").trim().to_string(),
            cpu: cpuinfo.lines().find(is_name).and_then(name).unwrap_or_else(|| std::env::consts::ARCH.to_string()),
            loaders: loaders().iter().map(|(_, path)| (path.display().to_string(), identity(path))).collect(),
        }
    }

    /// Why a model of `self` does not hold on `here`; `None` where it does.
    pub fn differs_from(&self, here: &HostKey) -> Option<String> {
        if self.cpu != here.cpu {
            return Some(format!("it was made on another processor ({}, this is {})", self.cpu, here.cpu));
        }
        if self.kernel != here.kernel {
            return Some(format!("it was made under kernel {}, this is {}", self.kernel, here.kernel));
        }
        if self.loaders != here.loaders {
            return Some("the loaders of this host have changed since".to_string());
        }
        None
    }
}

fn identity(path: &Path) -> String {
    let by_note = std::fs::read(path).ok().and_then(|b| Image::parse(&b).ok().and_then(|i| notes(&i).build_id));
    by_note.unwrap_or_else(|| stamp(path).map_or_else(String::new, |[size, time]| format!("{size}-{time}")))
}

impl Model {
    /// Fits everything that the rows allow.
    ///
    /// # Errors
    /// Where not even static programs could be fitted.
    pub fn fit(rows: &[Row], cpuid_ns: Option<f64>, seed: u64) -> Result<Model> {
        let all = [Family::Static, Family::Glibc, Family::Musl];
        let families: Vec<FamilyModel> = all.into_iter().filter_map(|f| fit::family(rows, f, seed)).collect();
        if families.is_empty() {
            return Err(Error::new("nothing could be fitted: no program was measured often enough"));
        }
        let libraries = init_costs(rows, &families);
        Ok(Model { host: HostKey::here(), families, libraries, cpuid_ns })
    }

    /// Costs of a family.
    pub fn family(&self, family: Family) -> Option<&FamilyModel> {
        self.families.iter().find(|f| f.family == family)
    }

    /// A library whose init code was measured, if it is still the same file.
    pub fn library(&self, path: &Path) -> Option<&Library> {
        let path = real_path(path);
        self.libraries.iter().find(|l| l.path == path).filter(|l| stamp(&path) == Some(l.stamp))
    }

    /// Where it is kept by default: `$XDG_CACHE_HOME/premain/model.json`, or below `~/.cache`.
    ///
    /// # Errors
    /// Where neither variable says where.
    pub fn default_path() -> Result<PathBuf> {
        let absolute = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|p| p.is_absolute());
        let cache = absolute("XDG_CACHE_HOME").or_else(|| absolute("HOME").map(|h| h.join(".cache")));
        let cache = cache.context(|| "neither XDG_CACHE_HOME nor HOME is set: give --model FILE")?;
        Ok(cache.join("premain").join("model.json"))
    }

    /// Writes it, whole or not at all.
    ///
    /// # Errors
    /// The system's reason, with the path.
    pub fn save(&self, path: &Path) -> Result<()> {
        let with_path = || path.to_string_lossy();
        if let Some(dir) = path.parent().filter(|d| !d.as_os_str().is_empty()) {
            std::fs::create_dir_all(dir).context(with_path)?;
        }
        let mut beside = path.as_os_str().to_os_string();
        beside.push(format!(".{}", std::process::id()));
        std::fs::write(&beside, self.to_json().pretty()).context(with_path)?;
        std::fs::rename(&beside, path).context(with_path)
    }

    /// The model that is named, or else the one in the cache.
    ///
    /// # Errors
    /// As [`Model::load`].
    pub fn named(path: Option<&Path>) -> Result<Model> {
        match path {
            Some(path) => Model::load(path),
            None => Model::load(&Model::default_path()?),
        }
    }

    /// Reads it, and checks that it holds here.
    ///
    /// # Errors
    /// Where there is none, it cannot be read, or it was made elsewhere: the message says what to do.
    pub fn load(path: &Path) -> Result<Model> {
        let text = match std::fs::read_to_string(path) {
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => {
                return Err(
                    Error::new("no host model here; 'premain calibrate' makes it").context(path.to_string_lossy())
                );
            }
            read => read.context(|| path.to_string_lossy())?,
        };
        let json = Json::parse(&text).context(|| path.to_string_lossy())?;
        let model =
            Model::from_json(&json).context(|| "not a host model of this version; 'premain calibrate' makes it anew");
        let model = model.context(|| path.to_string_lossy())?;
        match model.host.differs_from(&HostKey::here()) {
            None => Ok(model),
            Some(why) => {
                let why = format!("the host model is refused: {why}; 'premain calibrate' makes a new one");
                Err(Error::new(why).context(path.to_string_lossy()))
            }
        }
    }

    /// As JSON.
    pub fn to_json(&self) -> Json {
        let text = |s: &str| Json::Str(s.to_string());
        let loaders = self.host.loaders.iter();
        let loaders = loaders.map(|(p, id)| Json::object([("path", text(p)), ("build_id", text(id))]));
        let library = |l: &Library| {
            Json::object([
                ("path", Json::os(l.path.as_os_str())),
                ("size_bytes", Json::Int(l.stamp[0])),
                ("mtime_s", Json::Int(l.stamp[1])),
                ("init_ns", Json::Float(l.init_ns)),
                ("stderr_ns", Json::Float(l.stderr_ns)),
                ("end_ns", Json::Float(l.end_ns)),
            ])
        };
        Json::object([
            ("schema", text(SCHEMA)),
            (
                "host",
                Json::object([
                    ("kernel", text(&self.host.kernel)),
                    ("cpu", text(&self.host.cpu)),
                    ("loaders", Json::array(loaders)),
                ]),
            ),
            ("cpuid_ns", self.cpuid_ns.map_or(Json::Null, Json::Float)),
            ("families", Json::array(self.families.iter().map(family_json))),
            ("libraries", Json::array(self.libraries.iter().map(library))),
        ])
    }

    /// From JSON; `None` where it is none of this version.
    pub fn from_json(json: &Json) -> Option<Model> {
        if json.get("schema")?.as_str()? != SCHEMA {
            return None;
        }
        let host = json.get("host")?;
        let string = |j: &Json, key: &str| Some(j.get(key)?.as_str()?.to_string());
        let loader = |j: &Json| Some((string(j, "path")?, string(j, "build_id")?));
        let library = |j: &Json| {
            Some(Library {
                path: PathBuf::from(j.get("path")?.as_str()?),
                stamp: ["size_bytes", "mtime_s"].map(|k| j.get(k).and_then(Json::as_f64).map_or(-1, |x| x as i64)),
                init_ns: j.get("init_ns")?.as_f64()?,
                stderr_ns: j.get("stderr_ns")?.as_f64()?,
                end_ns: j.get("end_ns")?.as_f64()?,
            })
        };
        Some(Model {
            host: HostKey {
                kernel: string(host, "kernel")?,
                cpu: string(host, "cpu")?,
                loaders: host.get("loaders")?.as_array()?.iter().map(loader).collect::<Option<_>>()?,
            },
            families: json.get("families")?.as_array()?.iter().map(family_from).collect::<Option<_>>()?,
            // One whose name is not UTF-8 is measured again.
            libraries: json.get("libraries")?.as_array()?.iter().filter_map(library).collect(),
            cpuid_ns: json.get("cpuid_ns").and_then(Json::as_f64),
        })
    }
}

fn floats(values: &[f64]) -> Json {
    Json::array(values.iter().map(|x| Json::Float(*x)))
}

fn costs_json(costs: &Costs) -> Json {
    Json::object([
        ("unit_ns", floats(&costs.unit_ns)),
        ("ci95", Json::array(costs.ci95.iter().map(|ci| floats(ci)))),
        ("covariance", Json::array(costs.covariance.iter().map(|row| floats(row)))),
        ("residual", Json::Float(costs.residual)),
        ("worst", Json::Float(costs.worst)),
        ("worst_program", Json::Str(costs.worst_row.clone())),
        ("condition", costs.condition.map_or(Json::Null, Json::Float)),
    ])
}

fn family_json(family: &FamilyModel) -> Json {
    let known = (0..COUNT).filter(|j| family.known[*j]).map(|j| Json::Str(TERMS[j].name.to_string()));
    Json::object([
        ("family", Json::Str(family.family.name().to_string())),
        ("programs", Json::Uint(family.programs as u64)),
        ("rounds", Json::Uint(family.rounds as u64)),
        ("terms", Json::array(TERMS.iter().map(|t| Json::Str(t.name.to_string())))),
        ("varied", Json::array(known)),
        ("entry", costs_json(&family.entry)),
        ("end", costs_json(&family.end)),
        ("plain_ns", family.plain_ns.map_or(Json::Null, |ns| floats(&ns))),
        ("phases", family.split.as_ref().map_or(Json::Null, split_json)),
    ])
}

fn split_json(split: &Split) -> Json {
    let names = PARTS.iter().map(|p| Json::Str(p.name().to_string()));
    Json::object([("names", Json::array(names)), ("loader", floats(&split.loader)), ("object", floats(&split.object))])
}

fn split_from(json: &Json) -> Option<Split> {
    Some(Split { loader: numbers(json.get("loader")?)?, object: numbers(json.get("object")?)? })
}

fn numbers<const N: usize>(json: &Json) -> Option<[f64; N]> {
    let items = json.as_array()?.iter().map(Json::as_f64).collect::<Option<Vec<f64>>>()?;
    items.try_into().ok()
}

fn costs_from(json: &Json) -> Option<Costs> {
    let rows = |key: &str| json.get(key)?.as_array();
    Some(Costs {
        unit_ns: numbers(json.get("unit_ns")?)?,
        ci95: rows("ci95")?.iter().map(numbers).collect::<Option<Vec<[f64; 2]>>>()?.try_into().ok()?,
        covariance: rows("covariance")?.iter().map(numbers).collect::<Option<_>>()?,
        residual: json.get("residual")?.as_f64()?,
        worst: json.get("worst")?.as_f64()?,
        worst_row: json.get("worst_program")?.as_str()?.to_string(),
        condition: json.get("condition").and_then(Json::as_f64),
    })
}

fn family_from(json: &Json) -> Option<FamilyModel> {
    let name = json.get("family")?.as_str()?;
    let names = json.get("terms")?.as_array()?;
    if names.len() != COUNT || names.iter().zip(TERMS).any(|(j, t)| j.as_str() != Some(t.name)) {
        return None;
    }
    let varied = json.get("varied")?.as_array()?;
    let all = [Family::Static, Family::Glibc, Family::Musl];
    Some(FamilyModel {
        family: all.into_iter().find(|f| f.name() == name)?,
        programs: usize::try_from(json.get("programs")?.as_u64()?).ok()?,
        rounds: usize::try_from(json.get("rounds")?.as_u64()?).ok()?,
        entry: costs_from(json.get("entry")?)?,
        end: costs_from(json.get("end")?)?,
        known: std::array::from_fn(|j| varied.iter().any(|v| v.as_str() == Some(TERMS[j].name))),
        plain_ns: json.get("plain_ns").and_then(numbers),
        split: json.get("phases").and_then(split_from),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn model() -> Model {
        let costs = Costs {
            unit_ns: std::array::from_fn(|j| j as f64 + 0.5),
            ci95: [[1.0, 2.0]; COUNT],
            covariance: vec![[0.25; COUNT]; COUNT],
            residual: 0.03,
            worst: -0.1,
            worst_row: "glibc plain".into(),
            condition: Some(40.0),
        };
        let family = FamilyModel {
            family: Family::Glibc,
            programs: 30,
            rounds: 100,
            entry: costs.clone(),
            end: costs,
            known: std::array::from_fn(|j| j % 2 == 0),
            plain_ns: Some([300.0, 40.0]),
            split: Some(Split { loader: [0.0, 0.5, 0.25, 0.25, 0.0], object: [0.0, 0.0, 1.0, 0.0, 0.0] }),
        };
        let library = Library { path: "/lib/x.so".into(), stamp: [10, 20], init_ns: 5.5, stderr_ns: 0.5, end_ns: 1.5 };
        let host = HostKey::here();
        Model { host, families: vec![family], libraries: vec![library], cpuid_ns: Some(70.25) }
    }

    #[test]
    fn what_is_stored_comes_back() {
        let model = model();
        let text = model.to_json().pretty();
        assert_eq!(Model::from_json(&Json::parse(&text).unwrap()), Some(model));
        assert_eq!(Model::from_json(&Json::parse(&text.replace(SCHEMA, "premain.model/0")).unwrap()), None);
        assert_eq!(Model::from_json(&Json::parse("{}").unwrap()), None);
    }

    #[test]
    fn models_of_other_hosts_are_refused_with_the_reason() {
        let here = HostKey { kernel: "6.1".into(), cpu: "A".into(), loaders: vec![("/ld".into(), "1".into())] };
        assert_eq!(here.differs_from(&here), None);
        for (other, word) in [
            (HostKey { cpu: "B".into(), ..here.clone() }, "processor"),
            (HostKey { kernel: "6.2".into(), ..here.clone() }, "kernel 6.2"),
            (HostKey { loaders: Vec::new(), ..here.clone() }, "loaders"),
        ] {
            assert!(other.differs_from(&here).unwrap().contains(word));
        }
    }

    #[test]
    fn no_model_says_how_to_make_one() {
        let e = Model::load(Path::new("/no/such/model.json")).unwrap_err();
        assert!(e.to_string().contains("premain calibrate"), "{e}");
    }
}
