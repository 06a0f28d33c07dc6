//! Many starts in a sound order: balanced rounds with the control in each, and what each start showed.
//!
//! `plan` decides who starts when, `sampler` makes one start (the real one, or a scripted one in tests),
//! `runner` carries the plan out and keeps complete rounds, `log` holds the samples outside our memory.

pub mod command;
pub mod control;
pub mod log;
pub mod plan;
pub mod runner;
pub mod sample;
pub mod sampler;
