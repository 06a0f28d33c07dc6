//! ELF files of every machine: bytes in, link facts out; and small ELF files written from a description.

pub mod image;
pub mod synth;
