//! What people read: tables and plots as text, from plain figures.

pub mod number;
pub mod plot;
pub mod table;
pub mod width;
