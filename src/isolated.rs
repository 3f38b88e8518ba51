//! Panics: a defect that one object meets must not cost the others their work.
//!
//! Only for what leaves behind nothing that others build on when it breaks off: a decision about one object, or reading it. The panic hook
//! has printed the words of the panic with the place by the time they come back from here.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

use futures::FutureExt as _;

/// Does this for an object, and gives the words of the panic if it panics.
///
/// # Errors
/// What the panic says.
pub(crate) fn isolated<T>(object: &str, work: impl FnOnce() -> T) -> Result<T, String> {
    let work = || {
        break_if_asked(object);
        work()
    };
    catch_unwind(AssertUnwindSafe(work)).map_err(|panic| words(&*panic))
}

/// As [`isolated`], of what takes time.
///
/// # Errors
/// What the panic says.
pub(crate) async fn isolated_task<T>(object: &str, work: impl Future<Output = T>) -> Result<T, String> {
    let work = async {
        break_if_asked(object);
        work.await
    };
    AssertUnwindSafe(work).catch_unwind().await.map_err(|panic| words(&*panic))
}

fn words(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "it gives no reason".to_owned())
}

#[cfg(not(test))]
const fn break_if_asked(_: &str) {}

#[cfg(test)]
pub(crate) use broken::{break_for, break_if_asked};

/// How tests have a defect.
#[cfg(test)]
mod broken {
    use std::cell::RefCell;

    thread_local! {
        static BROKEN: RefCell<Option<&'static str>> = const { RefCell::new(None) };
    }

    /// From now on what is done on this thread for the object of this name panics; `None`: the defect is mended.
    pub(crate) fn break_for(object: Option<&'static str>) {
        BROKEN.set(object);
    }

    pub(crate) fn break_if_asked(object: &str) {
        let is_broken = BROKEN.with_borrow(|broken| broken.is_some_and(|broken| broken == object));
        assert!(!is_broken, "index out of bounds");
    }
}
