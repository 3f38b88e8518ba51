//! Panics, each caught with the object that caused it ([`swaplet_core::objects::isolated`]), and
//! the defects of tests.

pub(crate) mod defects;

use std::panic::AssertUnwindSafe;

use futures::FutureExt as _;
use swaplet_core::objects::isolated::words;

/// The error that a background task has ended, which must never end: restart the process.
#[derive(Debug, thiserror::Error)]
#[error("a background task has died: {0}")]
pub struct TaskDied(pub(crate) String);

impl TaskDied {
    pub(crate) fn of(task: &str) -> Self {
        Self(task.to_owned())
    }
}

/// Runs `work` for an object, and returns the message of the panic if it panics.
///
/// # Errors
/// The message of the panic.
pub(crate) fn isolated<T>(object: &str, work: impl FnOnce() -> T) -> Result<T, String> {
    swaplet_core::objects::isolated::isolated(|| {
        break_if_asked(object);
        work()
    })
}

/// Like [`isolated`], for a future.
///
/// # Errors
/// The message of the panic.
pub(crate) async fn isolated_task<T>(
    object: &str,
    work: impl Future<Output = T>,
) -> Result<T, String> {
    let work = async {
        break_if_asked(object);
        work.await
    };
    AssertUnwindSafe(work)
        .catch_unwind()
        .await
        .map_err(|panic| words(&*panic))
}

/// Does nothing, except in tests of this crate, where it panics if a test wants it. It is called
/// for each object, inside of what isolates the object.
#[cfg(not(test))]
pub(crate) const fn break_if_asked(_: &str) {}

#[cfg(test)]
pub(crate) use broken::{break_for, break_if_asked};

/// The defects that tests want.
#[cfg(test)]
mod broken {
    use std::cell::RefCell;

    thread_local! {
        static BROKEN: RefCell<Option<&'static str>> = const { RefCell::new(None) };
    }

    /// From now on what is done on this thread for the object of this name panics; `None`: the
    /// defect is mended.
    pub(crate) fn break_for(object: Option<&'static str>) {
        BROKEN.set(object);
    }

    /// Panics where that is asked for.
    pub(crate) fn break_if_asked(object: &str) {
        let is_broken = BROKEN.with_borrow(|broken| broken.is_some_and(|broken| broken == object));
        assert!(!is_broken, "index out of bounds");
    }
}
