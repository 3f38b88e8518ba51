//! Single values of objects, bounded and tolerant of everything else; and back-off times.

pub mod amount;
pub mod backoff;
pub mod bounded_object;
pub mod bounded_value;
pub mod bounds;
pub mod env;
pub mod fields;
pub mod go_duration;
pub mod label_selector;
pub mod problems;
pub mod short_digest;
pub mod whole_object;
