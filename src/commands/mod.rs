//! One file a verb: typed options in, an exit code out. No argv, no print macros.

pub mod baseline;
pub mod bench;
pub mod calibrate;
pub mod check;
pub mod common;
pub mod correlate;
pub mod counting;
pub mod doctor;
pub mod explain;
pub mod files;
pub mod hooks;
pub mod inspect;
pub mod measuring;
pub mod parallel;
pub mod predict;
pub mod probing;
pub mod program;
pub mod saving;
pub mod stat;
mod stopped;
pub mod suite;
pub mod suite_file;
pub mod survey;
pub mod trace;
pub mod walk;
pub mod whatif;
pub mod words;
