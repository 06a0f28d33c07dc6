//! What people read: records as text, tables and plots, and as JSON.

pub mod accounting;
pub mod bench_json;
pub mod bench_text;
pub mod closure_json;
pub mod closure_text;
pub mod columns_json;
pub mod columns_text;
pub mod dots;
pub mod explain;
pub mod explain_json;
pub mod explain_text;
pub mod export;
pub mod facts_diff;
pub mod facts_json;
pub mod facts_text;
pub mod findings;
pub mod host_json;
pub mod macho_json;
pub mod model_json;
pub mod model_text;
pub mod number;
pub mod plot;
pub mod stored_text;
pub mod table;
pub mod width;
