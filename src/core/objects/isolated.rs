//! Isolation of panics: a defect that one object triggers must not affect the others.
//!
//! Only for work whose interruption leaves no state that others depend on: a decision about one
//! object, or reading it. By the time an error is returned, the panic hook has printed the message
//! of the panic and its place.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Runs `work`, and turns a panic into an error.
///
/// # Errors
/// The message of the panic.
pub fn isolated<T>(work: impl FnOnce() -> T) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(work)).map_err(|panic| words(&*panic))
}

/// Returns the message of a panic.
pub fn words(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "it gives no reason".to_owned())
}
