//! Panics, each caught with the object that caused it ([`swaplet_core::objects::isolated`]), and
//! the defects of tests.

use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;

use futures::FutureExt as _;
use swaplet_core::objects::isolated::words;
use swaplet_core::objects::moment::Moment;
use swaplet_core::objects::values::backoff::Backoff;
use swaplet_core::report::reason::Reason;

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

// The objects for which a decision has panicked: each is left alone for a while, longer with every
// further panic, and the others continue.

/// The backoff between tries. An object without a panic for the longest pause counts as mended.
const PAUSE: Backoff = Backoff::seconds(60, 900);

/// The objects that have panicked, by their key in the loop.
#[derive(Debug)]
pub(crate) struct Defects<K> {
    met: BTreeMap<K, Met>,
    uncounted: u64,
}

#[derive(Debug, Default)]
struct Met {
    times: u32,
    /// The time of the next try.
    again: Moment,
}

impl<K> Default for Defects<K> {
    fn default() -> Self {
        Self {
            met: BTreeMap::new(),
            uncounted: 0,
        }
    }
}

impl<K: Ord> Defects<K> {
    /// Returns true if nothing is to be done for the object now.
    pub fn is_left_alone(&self, key: &K, now: Moment) -> bool {
        self.left_alone_until(key, now).is_some()
    }

    /// Returns until when nothing is to be done for the object; `None` if it may be tried now.
    pub fn left_alone_until(&self, key: &K, now: Moment) -> Option<Moment> {
        self.met
            .get(key)
            .map(|met| met.again)
            .filter(|again| now < *again)
    }

    /// Records a panic, and returns when the object is to be tried again.
    pub fn meet(&mut self, key: K, now: Moment) -> Moment {
        self.met.retain(|_, met| now < met.again + PAUSE.longest);
        let met = self.met.entry(key).or_default();
        met.again = now + PAUSE.after(met.times);
        met.times += 1;
        self.uncounted += 1;
        met.again
    }

    /// Returns the number of panics since the last call.
    pub fn take_count(&mut self) -> u64 {
        std::mem::take(&mut self.uncounted)
    }
}

/// Returns the message about an object for which a decision has panicked.
pub(crate) fn note(object: &str, defect: &str) -> String {
    format!(
        "nothing is done for this {object} because of a defect in swaplet; please report it, with the {object}: {defect}"
    )
}

/// Logs a panic, for an object that has no Events of ours.
pub(crate) fn log(object: &str, namespace: &str, name: &str, defect: &str) {
    tracing::error!(
        reason = Reason::DecisionFailed.as_str(),
        namespace,
        name,
        "{}",
        note(object, defect)
    );
}

/// Returns what `read` makes of an object; `None` if it panics, as for an object without a name.
pub(crate) fn read<T>(object: &'static str, read: impl FnOnce() -> Option<T>) -> Option<T> {
    isolated(object, read).unwrap_or_else(|defect| {
        tracing::error!(object, defect, "a defect in swaplet prevents it from reading an object; the object is left alone; please report it");
        None
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pause_doubles_up_to_a_limit_and_only_for_the_object_that_met_the_defect() {
        let mut defects = Defects::default();
        let mut now = Moment::START;
        let mut pauses = Vec::new();
        for _ in 0..6 {
            let again = defects.meet("bad", now);
            assert!(defects.is_left_alone(&"bad", now) && !defects.is_left_alone(&"good", now));
            assert_eq!(defects.left_alone_until(&"bad", now), Some(again));
            pauses.push(again.since(now).as_secs());
            now = again;
            assert!(!defects.is_left_alone(&"bad", now));
        }
        assert_eq!(pauses, [60, 120, 240, 480, 900, 900]);
        assert_eq!((defects.take_count(), defects.take_count()), (6, 0));
        now += PAUSE.longest;
        assert_eq!(
            defects.meet("bad", now).since(now),
            PAUSE.first,
            "it has gone well for so long that it counts as mended"
        );
    }

    #[test]
    fn an_object_over_which_reading_panics_is_left_alone() {
        assert_eq!(read("pod", || Some(1)), Some(1));
        assert_eq!(read::<u8>("pod", || panic!("index out of bounds")), None);
    }
}
