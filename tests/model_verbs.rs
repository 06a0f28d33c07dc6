//! `calibrate`, `predict` and `whatif` as a person calls them: shapes, sums and refusals. No figure is judged here;
//! `make verify-model` does that.
#![cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot prepare has failed")]

mod support;

use premain::json::Json;
use support::{run, scratch};

fn number(j: &Json, key: &str) -> f64 {
    j.get(key).and_then(Json::as_f64).unwrap_or_else(|| panic!("no number {key} in {j}"))
}

#[test]
fn a_model_is_made_used_and_refused_elsewhere() {
    let dir = scratch("model");
    let model = dir.join("model.json");
    let model = model.to_str().unwrap();
    let (code, out, err) = run(["calibrate", "--json", "--budget", "1ms", "--model", model]);
    assert_eq!(code, 0, "{err}");
    let made = Json::parse(&out).unwrap();
    let terms = made.get("model").and_then(|m| m.get("terms")).and_then(Json::as_array).unwrap();
    assert!(terms.iter().all(|t| number(t, "unit_ns") >= 0.0 && t.get("ci95").is_some()));
    assert!(terms.iter().any(|t| t.get("name").and_then(Json::as_str) == Some("exec")));

    let (code, out, err) = run(["predict", "--json", "--model", model, "/bin/true"]);
    assert_eq!(code, 0, "{err}");
    let predicted = Json::parse(&out).unwrap();
    let file = &predicted.get("files").and_then(Json::as_array).unwrap()[0];
    let value = number(file.get("predicted_ns").unwrap(), "value");
    let sum: f64 = file.get("terms").and_then(Json::as_array).unwrap().iter().map(|t| number(t, "ns")).sum();
    assert!((sum - value).abs() <= 20.0, "terms sum to {sum}, the prediction is {value}: only rounding may differ");

    let (code, out, err) = run(["inspect", "--json", "--predict", "--model", model, "/bin/true"]);
    assert_eq!(code, 0, "{err}");
    let inspected = Json::parse(&out).unwrap();
    let of_file = inspected.get("files").and_then(Json::as_array).unwrap()[0].get("predicted_ns").unwrap();
    assert_eq!(number(of_file, "value"), value, "inspect and predict agree");
    let (code, out, err) = run(["survey", "--json", "--sort", "predicted", "--model", model, "/bin/true", "/bin/ls"]);
    assert_eq!(code, 0, "{err}");
    let survey = Json::parse(&out).unwrap();
    let files = survey.get("files").and_then(Json::as_array).unwrap();
    let of = |i: usize| number(files[i].get("predicted_ns").unwrap(), "value");
    assert!(files.len() == 2 && of(0) >= of(1), "{survey}");

    check_explain(model);
    let text = std::fs::read_to_string(model).unwrap();
    let kernel = made.get("model").and_then(|m| m.get("host")).and_then(|h| h.get("kernel"));
    let foreign = text.replace(kernel.and_then(Json::as_str).unwrap(), "0.0.0-elsewhere");
    std::fs::write(model, foreign).unwrap();
    let (code, _, err) = run(["predict", "--model", model, "/bin/true"]);
    assert_eq!(code, 2);
    assert!(err.contains("0.0.0-elsewhere") && err.contains("premain calibrate"), "{err}");
    for verb in [&["survey", "--sort", "predicted"][..], &["inspect", "--predict"]] {
        let (code, _, err) = run(verb.iter().copied().chain(["--model", model, "/bin/true"]));
        assert!(code == 2 && err.contains("premain calibrate"), "{verb:?}: {err}");
    }
}

/// `explain` lays the prediction beside the phases; those that the model knows sum to what it predicts.
fn check_explain(model: &str) {
    let cache = scratch("model-cache");
    std::fs::create_dir_all(cache.join("premain")).unwrap();
    std::fs::copy(model, cache.join("premain/model.json")).unwrap();
    let mut explain = support::premain();
    explain.env("XDG_CACHE_HOME", &cache).args(["--json", "--budget", "50ms", "--", "/bin/true"]);
    let (code, out, err) = support::outcome(explain.output().unwrap());
    assert_eq!(code, 0, "{err}");
    let explained = Json::parse(&out).unwrap();
    let predicted = explained.get("predicted").unwrap();
    assert!(predicted.get("unexplained_ns").is_some_and(|n| *n != Json::Null), "{predicted}");
    let phases = explained.get("phases").and_then(Json::as_array).unwrap();
    let of = |name: &str| {
        let phase = phases.iter().find(|p| p.get("name").and_then(Json::as_str) == Some(name));
        phase.and_then(|p| p.get("predicted_ns")).and_then(Json::as_f64)
    };
    assert_eq!((of("fork"), of("main")), (None, None), "the model has nothing on these");
    let sum: f64 = ["exec", "loader start", "map", "relocate", "construct"].into_iter().filter_map(of).sum();
    let value = number(predicted.get("predicted_ns").unwrap(), "value");
    assert!((sum - value).abs() <= 10.0, "phases sum to {sum}, the prediction is {value}");
    assert_eq!(of("teardown"), Some(number(predicted, "predicted_end_ns")));
}

#[test]
fn without_a_model_the_way_to_one_is_told() {
    let missing = scratch("no-model").join("none.json");
    let (code, _, err) = run(["predict", "--model", missing.to_str().unwrap(), "/bin/true"]);
    assert_eq!(code, 2);
    assert!(err.contains("premain calibrate"), "{err}");
}

#[test]
fn whatif_measures_a_copy_and_refuses_what_needs_a_linker() {
    let (code, out, err) = run(["whatif", "--bind-now", "-r", "4", "-w", "0", "/bin/true"]);
    assert_eq!(code, 0, "{err}");
    assert!(out.contains("changed copy") && out.contains("measured:"), "{out}");
    for (flag, word) in [("--relr", "pack-relative-relocs"), ("--gnu-hash", "hash-style")] {
        let (code, _, err) = run(["whatif", flag, "/bin/true"]);
        assert_eq!(code, 2);
        assert!(err.contains(word), "{err}");
    }
    let (code, _, err) = run(["whatif", "--drop-needed", "libnone.so", "/bin/true"]);
    assert_eq!(code, 2);
    assert!(err.contains("libnone.so"), "{err}");
    assert_eq!(run(["whatif", "/bin/true"]).0, 2);
}
