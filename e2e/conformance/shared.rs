//! What all pairs share: random cases, running many at once, masks, comparison and the report.

pub mod compare;
pub mod known;
pub mod mask;
pub mod random;
pub mod report;
pub mod runner;
