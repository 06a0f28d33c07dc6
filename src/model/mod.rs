//! This host's cost of each unit of load work: measured on programs that we write, stored, and used to predict.
//!
//! | file | subject |
//! |---|---|
//! | `work` | the units, and how many of each a program needs (counted from files) |
//! | `design`, `files` | the programs that the model is fitted on, and where they live |
//! | `gauge` | measuring programs that stamp their entry point |
//! | `calibrate` | all of it together: rows of work and time |
//! | `fit` | from rows to costs with intervals |
//! | `libraries` | what init functions of the host's libraries cost |
//! | `store` | the model on disk, and the host that it holds for |
//! | `predict` | a program's start from its closure |
//! | `parts` | the same by phases |
//! | `savings` | what link settings would save |
//! | `check` | predictions beside measurements |

pub mod calibrate;
pub mod check;
pub mod design;
pub mod files;
pub mod fit;
pub mod gauge;
pub mod libraries;
pub mod parts;
pub mod predict;
pub mod savings;
pub mod store;
pub mod work;
