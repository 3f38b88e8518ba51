//! Panics: a defect that one object meets must not cost the others their work.
//!
//! Only for what leaves behind nothing that others build on when it breaks off: a decision about
//! one object, or reading it. The panic hook has printed the words of the panic with the place by
//! the time they come back from here.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Does this, and gives the words of the panic if it panics.
///
/// # Errors
/// What the panic says.
pub fn isolated<T>(work: impl FnOnce() -> T) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(work)).map_err(|panic| words(&*panic))
}

/// Reads what a panic says.
#[must_use]
pub fn words(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "it gives no reason".to_owned())
}
