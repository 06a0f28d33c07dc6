//! One file a verb: typed options in, an exit code out. No argv, no print macros.

pub mod baseline;
pub mod bench;
pub mod check;
pub mod common;
pub mod counting;
pub mod explain;
pub mod hooks;
pub mod inspect;
pub mod measuring;
pub mod probing;
pub mod program;
pub mod saving;
pub mod stat;
pub mod words;
