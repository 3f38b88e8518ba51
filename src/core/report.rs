//! What a decision says: what to write, why, and what is told.

pub mod decision;
pub mod log_tail;
pub mod reason;
