//! The outcome of a decision: what to write, why, and what to report.

pub mod decision;
pub mod denial;
pub mod reason;
pub mod shell_word;
pub mod write_error;
