//! This host's cost of each unit of load work: measured on programs that we write, stored, and used to predict.
//!
//! | file | subject |
//! |---|---|
//! | `work` | the units, and how many of each a program needs (counted from files) |
//! | `design`, `files` | the programs that the model is fitted on, and where they live |
//! | `gauge` | measuring programs that stamp their entry point |
//! | `calibrate` | all of it together: rows of work and time |

pub mod calibrate;
pub mod design;
pub mod files;
pub mod gauge;
pub mod work;
