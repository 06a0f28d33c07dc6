//! `make bench`: what premain itself costs, as ratios within one interleaved run.
//!
//! 1. Our spawn loop against the C loop of `spawnloop.c`, on the control, for fork and vfork: medians of
//!    alternating batches, so that both see the same machine.
//! 2. premain's own start against the floor, and its size.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a benchmark that cannot run has to say so and stop")]

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use premain::elf::synth;
use premain::json::Json;

const BATCHES: usize = 30;
const STARTS: usize = 100;

fn c_loop(dir: &Path) -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/bench/spawnloop.c");
    let out = dir.join("spawnloop");
    let cc = std::env::var("CC").unwrap_or_else(|_| "cc".to_string());
    let done = Command::new(cc).args(["-O2", "-static", "-o"]).arg(&out).arg(source).status().unwrap();
    assert!(done.success(), "the C loop does not compile");
    out
}

fn stdout(command: &mut Command) -> String {
    let o = command.output().unwrap();
    assert!(o.status.success(), "{command:?}: {}", String::from_utf8_lossy(&o.stderr));
    String::from_utf8(o.stdout).unwrap()
}

fn median(mut v: Vec<f64>) -> f64 {
    v.sort_by(f64::total_cmp);
    v[v.len() / 2]
}

fn p50(json: &Json, command: usize) -> f64 {
    let c = &json.get("commands").unwrap().as_array().unwrap()[command];
    c.get("spawn_to_exit_ns").unwrap().get("p50").unwrap().as_f64().unwrap()
}

fn bench(premain: &Path, method: &str, to: &str, programs: &[&Path]) -> Json {
    let mut c = Command::new(premain);
    c.args(["bench", "--json", "-w", "5", "-r", &STARTS.to_string(), "--spawn", method, "--stdout", to]).args(programs);
    Json::parse(&stdout(&mut c)).unwrap()
}

fn main() {
    let premain = PathBuf::from(std::env::var_os("PREMAIN").unwrap_or_else(|| "target/premain".into()));
    let dir = std::env::temp_dir().join(format!("premain-bench-{}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    let control = dir.join("control");
    std::fs::write(&control, synth::control(synth::Machine::host().unwrap())).unwrap();
    std::fs::set_permissions(&control, std::fs::Permissions::from_mode(0o755)).unwrap();
    let spawnloop = c_loop(&dir);

    println!(
        "spawn to exit of the control, medians of {BATCHES} interleaved batches of {STARTS} starts; ratio premain / C loop"
    );
    for method in ["fork", "vfork"] {
        let (mut c, mut null, mut pipe) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..BATCHES {
            let times = stdout(Command::new(&spawnloop).args([method, &STARTS.to_string()]).arg(&control));
            c.push(median(times.lines().map(|l| l.parse().unwrap()).collect()));
            null.push(p50(&bench(&premain, method, "null", &[&control]), 0));
            pipe.push(p50(&bench(&premain, method, "pipe", &[&control]), 0));
        }
        let ratio = |ours: &[f64]| median(ours.iter().zip(&c).map(|(a, b)| a / b).collect());
        println!(
            "  {method:5}  C loop {:6.1} µs   premain --stdout null {:6.1} µs, ratio {:.3}   --stdout pipe {:6.1} µs, ratio {:.3}",
            median(c.clone()) / 1e3,
            median(null.clone()) / 1e3,
            ratio(&null),
            median(pipe.clone()) / 1e3,
            ratio(&pipe)
        );
    }
    let version = dir.join("premain");
    std::fs::copy(&premain, &version).unwrap();
    let own = {
        let mut c = Command::new(&premain);
        c.args(["bench", "--json", "-r", "500"]).arg(format!("{} --version", version.display())).arg(&control);
        Json::parse(&stdout(&mut c)).unwrap()
    };
    let (start, floor) = (p50(&own, 0), p50(&own, 1));
    println!("premain --version {:.1} µs, floor {:.1} µs, ratio {:.2}", start / 1e3, floor / 1e3, start / floor);
    println!("size of the binary: {} bytes", std::fs::metadata(&premain).unwrap().len());
    let _ = std::fs::remove_dir_all(&dir);
}
