//! A model's answer for one program: the sum of its terms, each with count and cost, and an interval.

use super::design::Family;
use super::fit::{COUNT, FamilyModel, PerTerm, Span};
use super::libraries::Library;
use super::store::Model;
use super::work::{RUN, T, TERMS, Work};
use crate::error::{Context, Error, Result};
use crate::loader::files::Files;
use crate::loader::{Closure, Object};
use crate::order;

/// One term of a prediction.
#[derive(Debug, Clone, PartialEq)]
pub struct Share {
    /// Its name.
    pub name: String,
    /// What one unit is.
    pub unit: String,
    /// How many units.
    pub count: f64,
    /// Nanoseconds a unit.
    pub unit_ns: f64,
    /// Nanoseconds.
    pub ns: f64,
}

/// What a start is predicted to cost.
#[derive(Debug, Clone, PartialEq)]
pub struct Prediction {
    /// execve to entry point, nanoseconds.
    pub value_ns: f64,
    /// Its 95 % interval.
    pub ci95: [f64; 2],
    /// What the same work costs when the process ends, nanoseconds.
    pub end_ns: f64,
    /// What calling the program's own init functions costs, behind its entry point, nanoseconds; what they do is unknown.
    pub own_init_ns: f64,
    /// Terms of `value_ns`, largest first.
    pub terms: Vec<Share>,
    /// Init functions whose own code is in no term: the interval grows with them.
    pub unknown_init: f64,
    /// Whose rules.
    pub family: Family,
    /// The work.
    pub work: Work,
}

/// What real programs deviate from the fit on written ones, relative, one standard deviation: their tables are less
/// regular and caches colder. From the training half of the programs in `tests/verify`; the other half checks it.
pub(super) const DEVIATION: f64 = 0.05;
/// The same for one init function of a library whose code was never measured, nanoseconds.
const UNKNOWN_INIT_NS: f64 = 4_000.0;

/// Predicts a program from its closure, whose objects are read anew through `files`.
///
/// # Errors
/// Where the model knows nothing of its loader.
pub fn predict(model: &Model, closure: &Closure, files: &dyn Files) -> Result<Prediction> {
    if closure.totals.lookups.is_some() && closure.loader.is_some() && closure.totals.touched.is_none() {
        return Err(Error::new("what its look-ups read was not counted"));
    }
    let work = Work::of(closure, files);
    let family = Family::of(work.flavour).context(|| "its loader is not known")?;
    let fitted = model.family(family).context(|| format!("the model has no costs for {}", family.name()))?;
    let mut prediction = of_work(fitted, work);
    prediction.own_init_ns = closure.objects.first().map_or(0.0, |program| own_init_ns(fitted, program));
    let libraries = closure.objects.iter().skip(1).filter(|o| o.init_functions > 0);
    for object in libraries {
        match model.library(&object.path) {
            Some(library) => prediction.add_library(library),
            None if is_libc(&object.name) => {}
            None => prediction.unknown_init += object.init_functions as f64,
        }
    }
    prediction.finish();
    Ok(prediction)
}

/// Calling the program's own init functions; where nothing relocates their addresses, those are read here first.
fn own_init_ns(fitted: &FamilyModel, program: &Object) -> f64 {
    let cost = |term: T| fitted.entry.unit_ns[term as usize];
    let functions = program.init_functions as f64;
    let is_relocated = program.relocations.relative.saturating_add(program.relocations.relr) >= program.init_functions;
    let runs = if is_relocated { 0.0 } else { functions * ADDRESS / RUN };
    functions * cost(T::Constructor) + runs * cost(T::PageRead)
}

/// Bytes of an address.
const ADDRESS: f64 = 8.0;

fn is_libc(name: &[u8]) -> bool {
    name.starts_with(b"libc.so")
        || name.starts_with(b"ld-")
        || name.starts_with(b"/lib/ld-")
        || name.starts_with(b"/lib64/ld-")
}

/// A prediction before what is known of libraries.
pub fn of_work(fitted: &FamilyModel, work: Work) -> Prediction {
    let value_ns = fitted.entry.time(&work.counts);
    let noise = fitted.entry.variance(&work.counts).sqrt();
    let terms = shares(fitted, &work.counts);
    // The half-width stands in the interval until `finish` adds the rest.
    Prediction {
        value_ns,
        ci95: [noise, 0.0],
        end_ns: fitted.end.time(&work.counts),
        own_init_ns: 0.0,
        terms,
        unknown_init: 0.0,
        family: fitted.family,
        work,
    }
}

/// Difference in time that a change of work makes, `after` minus `before`, with the half-width of its interval.
pub fn difference(fitted: &FamilyModel, before: &Work, after: &Work, span: Span) -> (f64, f64) {
    let change: PerTerm = std::array::from_fn(|j| after.counts[j] - before.counts[j]);
    let costs = fitted.costs(span);
    let value = costs.time(&change);
    let deviation = 2.0 * DEVIATION * value.abs();
    (value, 1.96 * (costs.variance(&change) + deviation * deviation).sqrt())
}

fn shares(fitted: &FamilyModel, counts: &PerTerm) -> Vec<Share> {
    let share = |j: usize| Share {
        name: TERMS[j].name.to_string(),
        unit: TERMS[j].unit.to_string(),
        count: counts[j],
        unit_ns: fitted.entry.unit_ns[j],
        ns: counts[j] * fitted.entry.unit_ns[j],
    };
    (0..COUNT).map(share).filter(|s| s.count != 0.0).collect()
}

impl Prediction {
    fn add_library(&mut self, library: &Library) {
        let ns = library.init_ns;
        let name = library.path.file_name().map_or_else(String::new, |n| n.to_string_lossy().into_owned());
        self.value_ns += ns;
        self.end_ns += library.end_ns;
        self.ci95[0] = self.ci95[0].hypot(library.stderr_ns);
        if ns > 0.0 {
            let unit = format!("{name} beyond its counts (init functions, most of all), measured on this host");
            self.terms.push(Share { name: format!("{name} beyond its counts"), unit, count: 1.0, unit_ns: ns, ns });
        }
    }

    fn finish(&mut self) {
        let noise = self.ci95[0];
        let deviation = DEVIATION * self.value_ns;
        let init = UNKNOWN_INIT_NS * self.unknown_init.sqrt();
        let half = 1.96 * (noise * noise + deviation * deviation + init * init).sqrt();
        // Code that nobody measured only adds.
        self.ci95 = [(self.value_ns - half).max(0.0), self.value_ns + half + self.unknown_init * UNKNOWN_INIT_NS];
        order::by(&mut self.terms, |a, b| b.ns.total_cmp(&a.ns));
    }

    /// Time of one term.
    pub fn term(&self, term: T) -> f64 {
        self.terms.iter().filter(|s| s.name == TERMS[term as usize].name).map(|s| s.ns).sum()
    }
}
