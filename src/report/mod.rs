//! What people read: records as text, tables and plots, and as JSON.

pub mod bench_json;
pub mod bench_text;
pub mod macho_json;
pub mod number;
pub mod plot;
pub mod table;
pub mod width;
