//! premain: what a program costs before its `main` runs, where that time goes, and which link settings cause it.
//!
//! Arrows point down only; a test (`tests/tidy.rs`) checks them, and that `unsafe` and `libc::` stay in `sys`.
//!
//! ```text
//! main → cli → commands → { model, trace, report } → { measure, loader, record } → { elf, macho, stat } → sys → base
//! ```
//!
//! | module | holds |
//! |---|---|
//! | `error`, `units`, `order`, `json`, `digest`, `facts`, `output` | the base: one error chain with exit codes, text of times and sizes, sorting, JSON, SHA-256, link facts as plain data, where output goes |
//! | `sys` | everything that talks to the kernel: spawn, wait, clock, files, ptrace, perf events, host facts |
//! | `stat` | quantiles, intervals, tests; pure, seeded |
//! | `elf`, `macho` | bytes in, [`facts::LinkFacts`] out; pure. `elf::synth` writes small ELF files |
//! | `script` | the first line of a script, as the kernel reads it |
//! | `crosscheck` | the same header facts by a second, independent parser |
//! | `loader` | search rules, closure, symbol lookup: what the loader must do |
//! | `measure` | rounds, sampler, samples |
//! | `record` | host fingerprint, what is stored and read back |
//! | `trace` | events of one start, its phases |
//! | `model` | this host's cost of each unit of load work |
//! | `report` | text, JSON, plots from records |
//! | `commands` | one file a verb: the list of its steps |
//! | `cli` | argv to options; one row a flag |
//!
//! The main job is [`commands::explain`]: read that first.

pub mod cli;
pub mod commands;
pub mod crosscheck;
pub mod digest;
pub mod elf;
pub mod error;
pub mod facts;
pub mod json;
pub mod loader;
pub mod macho;
pub mod measure;
pub mod model;
pub mod order;
pub mod output;
pub mod record;
pub mod report;
pub mod script;
pub mod stat;
pub mod sys;
pub mod trace;
pub mod units;
