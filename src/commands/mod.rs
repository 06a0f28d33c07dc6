//! One file a verb: typed options in, an exit code out. No argv, no print macros.

pub mod bench;
pub mod calibrate;
pub mod common;
pub mod correlate;
pub mod explain;
pub mod files;
pub mod hooks;
pub mod inspect;
pub mod measuring;
pub mod predict;
pub mod probing;
pub mod program;
pub mod stat;
pub mod words;
