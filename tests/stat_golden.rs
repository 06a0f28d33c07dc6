//! Our statistics against SciPy's and R's: every case of `tests/golden/stat/*.json`.
//!
//! The figures were made by the scripts that lie beside them; those also re-make and compare them (`--check`).

// Helpers of tests: a broken golden file is a failed test.
#![allow(clippy::unwrap_used, clippy::panic)]

use premain::json::Json;
use premain::stat::linear::Matrix;
use premain::stat::{dist, drift, fit, memory, ministat, paired, quantile, rank, special};

/// One case, and what of it did not agree.
struct Case<'a> {
    what: &'a str,
    given: &'a Json,
    expected: &'a Json,
    wrong: Vec<String>,
}

impl Case<'_> {
    fn number(&self, key: &str) -> f64 {
        self.given.get(key).and_then(Json::as_f64).unwrap_or_else(|| panic!("{}: no {key}", self.what))
    }

    fn whole(&self, key: &str) -> u64 {
        self.given.get(key).and_then(Json::as_u64).unwrap_or_else(|| panic!("{}: no {key}", self.what))
    }

    fn list(&self, key: &str) -> Vec<f64> {
        numbers(self.given.get(key).unwrap_or_else(|| panic!("{}: no {key}", self.what)))
    }

    fn whole_list(&self, key: &str) -> Vec<u64> {
        let items = self.given.get(key).and_then(Json::as_array).unwrap();
        items.iter().map(|x| x.as_u64().unwrap()).collect()
    }

    /// Compares with the field `key` of the expected figures, relative to their size.
    fn same(&mut self, key: &str, ours: f64, tolerance: f64) {
        let theirs = self.expected.get(key).and_then(Json::as_f64).unwrap_or_else(|| panic!("{}: no {key}", self.what));
        // Below 1e-280 both are as good as zero.
        if (ours - theirs).abs() > tolerance * theirs.abs().max(1e-280) {
            self.wrong.push(format!("{} {key}: ours {ours:e}, theirs {theirs:e}", self.what));
        }
    }

    fn same_list(&mut self, key: &str, ours: Option<&[f64]>, tolerance: f64) {
        let theirs = match self.expected.get(key) {
            Some(Json::Null) => None,
            other => Some(numbers(other.unwrap_or_else(|| panic!("{}: no {key}", self.what)))),
        };
        let near = |(a, b): (&f64, &f64)| (a - b).abs() <= tolerance * b.abs().max(1e-9);
        let agree = match (&ours, &theirs) {
            (Some(a), Some(b)) => a.len() == b.len() && a.iter().zip(b).all(near),
            (None, None) => true,
            _ => false,
        };
        if !agree {
            self.wrong.push(format!("{} {key}: ours {ours:?}, theirs {theirs:?}", self.what));
        }
    }
}

fn numbers(list: &Json) -> Vec<f64> {
    list.as_array().unwrap().iter().map(|x| x.as_f64().unwrap()).collect()
}

fn distributions(c: &mut Case) -> bool {
    match c.what {
        "ln_gamma" => {
            // Near its zeros at 1 and 2 the absolute error counts.
            let (x, theirs) = (c.number("x"), c.expected.get("value").and_then(Json::as_f64).unwrap());
            assert!((special::ln_gamma(x) - theirs).abs() <= 2e-14 * theirs.abs().max(1.0), "ln_gamma {x}");
        }
        "beta_inc" => c.same("value", special::beta_inc(c.number("a"), c.number("b"), c.number("x")), 2e-10),
        "gamma_q" => c.same("value", special::gamma_q(c.number("a"), c.number("x")), 1e-12),
        "erfc" => c.same("value", special::erfc(c.number("x")), 1e-12),
        "normal_upper" => c.same("value", dist::normal_upper(c.number("z")), 1e-12),
        "normal_quantile" if c.number("p") == 0.5 => assert!(dist::normal_quantile(0.5).abs() < 1e-16),
        "normal_quantile" => c.same("value", dist::normal_quantile(c.number("p")), 1e-12),
        "student_two_sided" => c.same("value", dist::student_two_sided(c.number("t"), c.number("df")), 1e-10),
        "student_quantile" => {
            c.same("value", dist::student_two_sided_quantile(c.number("confidence"), c.number("df")), 1e-10);
        }
        "f_upper" => c.same("value", dist::f_upper(c.number("f"), c.number("d1"), c.number("d2")), 1e-12),
        "binomial" => {
            let (k, n, p) = (c.whole("k"), c.whole("n"), c.number("p"));
            c.same("cdf", dist::binomial_cdf(k, n, p), 2e-10);
            c.same("pmf", dist::binomial_pmf(k, n, p), 2e-10);
            if p == 0.5 {
                c.same("cdf", dist::fair_coin_cdf(k, n), 2e-10);
            }
        }
        _ => return false,
    }
    true
}

fn summary(c: &mut Case) {
    let s = quantile::Summary::of(&mut c.whole_list("x")).unwrap();
    // Theirs are exact, ours are rounded to whole units.
    let theirs = numbers(c.expected.get("q").unwrap());
    let ours = [s.p5, s.p25, s.p50, s.p75, s.p90, s.p95, s.p99];
    for (ours, theirs) in ours.iter().zip(&theirs) {
        if (*ours as f64 - theirs).abs() > 0.5 {
            c.wrong.push(format!("summary: quantile {ours}, theirs {theirs}"));
        }
    }
    let mut exact = c.list("x");
    exact.sort_by(f64::total_cmp);
    let ours: Vec<f64> = [0.05, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 0.999]
        .iter()
        .map(|&p| quantile::quantile(&exact, p).unwrap())
        .collect();
    c.same_list("q", Some(&ours), 1e-14);
    c.same("mean", s.mean, 1e-14);
    match (s.stddev, c.expected.get("stddev")) {
        (None, Some(Json::Null)) => {}
        (ours, _) => c.same("stddev", ours.unwrap(), 1e-11),
    }
    assert!((s.mad as f64 - c.expected.get("mad").and_then(Json::as_f64).unwrap()).abs() <= 0.5);
    c.same_list("median_ci", s.p50_ci95.map(|c| c.map(|x| x as f64)).as_ref().map(|c| c.as_slice()), 0.0);
}

fn ranks(c: &mut Case) -> bool {
    match c.what {
        "signed_rank" => {
            let t = rank::signed_rank(&c.list("d")).unwrap();
            let exact = c.expected.get("exact") == Some(&Json::Bool(true));
            assert_eq!(t.method == rank::Method::Exact, exact);
            c.same("w", t.w_plus, 0.0);
            c.same("p", t.p_value, 1e-11);
        }
        "sign_test" => c.same("p", rank::sign_test(&c.list("d")), 1e-11),
        "hodges_lehmann" => c.same("value", rank::hodges_lehmann(&c.list("d")).unwrap(), 1e-14),
        "rank_sum" => {
            let t = rank::rank_sum(&c.list("a"), &c.list("b")).unwrap();
            c.same("u", t.u, 0.0);
            c.same("p", t.p_value, 1e-11);
        }
        "shift" => {
            let (centre, ci) = rank::shift(&c.list("a"), &c.list("b"), 0.95).unwrap();
            c.same("value", centre, 1e-14);
            c.same_list("ci", ci.as_ref().map(|c| c.as_slice()), 1e-14);
        }
        "holm" => c.same_list("adjusted", Some(&paired::holm(&c.list("p"))), 1e-14),
        "autocorrelation" => c.same("value", memory::autocorrelation(&c.list("x")).unwrap(), 1e-12),
        _ => return false,
    }
    true
}

fn comparisons(c: &mut Case) -> bool {
    match c.what {
        "summary" => summary(c),
        "paired" => {
            let (a, b) = (c.whole_list("reference"), c.whole_list("candidate"));
            let ours = paired::compare(&a, &b, 1).unwrap();
            c.same("ratio", ours.ratio, 1e-13);
            c.same("hodges_lehmann", ours.hodges_lehmann, 1e-13);
            c.same("p", ours.p_value, 1e-10);
            if ours.interval == paired::IntervalMethod::OrderStatistic {
                c.same_list("ci", ours.ratio_ci95.as_ref().map(|c| c.as_slice()), 1e-13);
            }
            let difference = paired::median_difference(&a, &b).unwrap();
            assert!((difference as f64 - c.expected.get("difference").and_then(Json::as_f64).unwrap()).abs() <= 0.5);
        }
        "theil_sen" => {
            let ours = drift::theil_sen(&c.list("y"), 0.95).unwrap();
            c.same("slope", ours.slope, 1e-13);
            c.same_list("ci", Some(&ours.ci), 1e-13);
            c.same("tau", ours.tau, 1e-13);
            c.same("p", ours.p_value, 1e-11);
        }
        "means" => means(c),
        _ => return false,
    }
    true
}

fn means(c: &mut Case) {
    let (a, b) = (ministat::Column::of(&mut c.list("a")).unwrap(), ministat::Column::of(&mut c.list("b")).unwrap());
    let confidence = c.number("confidence");
    let pooled = ministat::pooled(&a, &b, confidence).unwrap();
    c.same("difference", pooled.difference, 1e-13);
    let whole = c.expected;
    for (key, ours) in [("pooled", pooled), ("welch", ministat::welch(&a, &b, confidence).unwrap())] {
        c.expected = whole.get(key).unwrap();
        c.same("half_width", ours.half_width, 1e-10);
        c.same("df", ours.df, 1e-12);
        c.same("p", ours.p_value, 1e-10);
    }
}

fn fits(c: &mut Case) -> bool {
    match c.what {
        "nnls" => {
            let rows: Vec<Vec<f64>> = c.given.get("a").and_then(Json::as_array).unwrap().iter().map(numbers).collect();
            let a = Matrix::from_rows(&rows).unwrap();
            let ours = fit::non_negative(&a, &c.list("b"), Some(&c.list("w"))).unwrap();
            c.same_list("x", Some(&ours.coefficients), 1e-9);
            c.same_list("residuals", Some(&ours.residuals), 1e-8);
            c.same("condition", ours.condition.unwrap(), 1e-11);
            c.same("r_squared", ours.r_squared.unwrap(), 1e-10);
        }
        "line" => {
            let ours = fit::line(&c.list("x"), &c.list("y")).unwrap();
            c.same("slope", ours.slope, 1e-12);
            c.same("intercept", ours.intercept, 1e-12);
            c.same("slope_half_width", ours.slope_half_width.unwrap(), 1e-10);
            c.same("intercept_half_width", ours.intercept_half_width.unwrap(), 1e-10);
            c.same("r_squared", ours.r_squared.unwrap(), 1e-12);
            let lack = c.expected.get("lack").unwrap();
            assert_eq!(ours.lack_of_fit.is_none(), *lack == Json::Null);
            if let Some(l) = ours.lack_of_fit {
                c.expected = lack;
                c.same("f", l.f, 1e-10);
                c.same("p", l.p_value, 1e-9);
            }
        }
        _ => return false,
    }
    true
}

/// Runs every case of a file; `least` guards against a file that lost its cases.
fn run(file: &str, least: usize) {
    let path = format!("{}/tests/golden/stat/{file}", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{path}: {e}"));
    let document = Json::parse(&text).unwrap();
    let cases = document.get("cases").and_then(Json::as_array).unwrap();
    assert!(cases.len() >= least, "{file} has {} cases", cases.len());
    let mut wrong = Vec::new();
    for case in cases {
        let what = case.get("what").and_then(Json::as_str).unwrap();
        let (given, expected) = (case.get("in").unwrap(), case.get("out").unwrap());
        let mut c = Case { what, given, expected, wrong: Vec::new() };
        let known = distributions(&mut c) || ranks(&mut c) || comparisons(&mut c) || fits(&mut c);
        assert!(known, "no test for {what}");
        wrong.append(&mut c.wrong);
    }
    assert!(wrong.is_empty(), "{} figures differ:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn figures_agree_with_scipy() {
    run("scipy.json", 346);
}

#[test]
fn figures_agree_with_r() {
    run("r.json", 62);
}
