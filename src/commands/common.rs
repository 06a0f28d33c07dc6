//! Options of every verb.

use crate::output::{ColorChoice, Output};

/// How output looks.
#[derive(Debug, Clone, Default)]
pub struct Common {
    /// One JSON document instead of text.
    pub json: bool,
    /// When to use colour.
    pub color: ColorChoice,
}

impl Common {
    /// Makes `output` follow `--color`.
    pub fn apply(&self, output: &mut Output<'_>) {
        match self.color {
            ColorChoice::Auto => {}
            ColorChoice::Always => output.style.color = true,
            ColorChoice::Never => output.style.color = false,
        }
    }
}
