//! Which of several installations writes the status of an object that belongs to no namespace: each
//! works in namespaces of its own and counts the pods there, so one of them writes, and the status
//! names it. Only accounts that may write such statuses can name another one; no tenant may.

use std::cmp::Ordering;
use std::time::Duration;

use serde_json::Value;
use swaplet_core::objects::moment::Moment;

/// How long a change of an object has to be unobserved before another installation than the one
/// that wrote its status writes it.
const TAKE_OVER: Duration = Duration::from_secs(600);
/// The field of the status with the state namespace of the installation that writes it.
const INSTALLATION: &str = "installation";

/// This installation, as one that writes the statuses of a kind.
#[derive(Debug, Default)]
pub(crate) struct StatusOwner {
    kind: &'static str,
    /// The state namespace of this installation; empty if it has none.
    own: Box<str>,
    /// True once it was logged that another installation writes statuses.
    is_told: bool,
}

/// Since when the status of an object is not about its generation.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Unread(Option<Moment>);

impl StatusOwner {
    pub(crate) fn new(kind: &'static str, state_namespace: Option<&str>) -> Self {
        Self {
            kind,
            own: state_namespace.unwrap_or_default().into(),
            is_told: false,
        }
    }

    /// Returns true if no other installation has written this status.
    pub(crate) fn is_own(&self, status: &Value) -> bool {
        let owner = owner(status);
        owner.is_empty() || *owner == *self.own
    }

    /// Returns until when the status is left to another installation; `None` if it is for this one
    /// to write. Of several the first by name writes, and others only where it observes no change
    /// for a while. `theirs` is greater if the one that is named has more to say, whatever its name.
    pub(crate) fn leaves(
        &mut self,
        (status, generation): (&Value, i64),
        unread: &mut Unread,
        theirs: Ordering,
        now: Moment,
    ) -> Option<Moment> {
        let is_read = status["observedGeneration"] == generation;
        let since = unread.0.take().unwrap_or(now);
        unread.0 = (!is_read).then_some(since);
        let until = unread.0.unwrap_or(now) + TAKE_OVER;
        let installation = owner(status);
        let is_first = || theirs.then_with(|| (*self.own).cmp(installation)).is_le();
        if self.is_own(status) || until <= now || (!self.own.is_empty() && is_first()) {
            return None;
        }
        if !std::mem::replace(&mut self.is_told, true) {
            let kind = self.kind;
            tracing::info!(
                kind,
                installation,
                "the installation with this state namespace writes statuses of this kind, and counts its own pods"
            );
        }
        Some(until)
    }

    /// Names this installation in the status that it writes. One that lacks nothing else is left as
    /// it is shown: a CRD of before, or OpenKruise's own, has no such field.
    pub(crate) fn sign(&self, status: &mut Value, shown: &Value) {
        if !self.own.is_empty() && *status != *shown {
            status[INSTALLATION] = Value::from(&*self.own);
        }
    }
}

/// Returns the installation that wrote a status; empty if it does not say.
fn owner(status: &Value) -> &str {
    status[INSTALLATION].as_str().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn of(own: &str) -> StatusOwner {
        StatusOwner::new("SidecarSet", Some(own).filter(|own| !own.is_empty()))
    }

    fn at(second: u64) -> Moment {
        Moment::after_start(Duration::from_secs(second))
    }

    #[test]
    fn a_status_is_left_to_who_says_more_and_then_to_the_first_by_name() {
        use Ordering::{Equal, Greater, Less};
        let status = json!({"observedGeneration": 1, "installation": "b"});
        for (own, theirs, is_left) in [
            ("a", Equal, false),
            ("a", Greater, true),
            ("b", Equal, false),
            ("b", Greater, false),
            ("c", Equal, true),
            ("c", Less, false),
            ("", Equal, true),
            ("", Less, true),
        ] {
            let left = of(own).leaves((&status, 1), &mut Unread::default(), theirs, at(5));
            assert_eq!(left.is_some(), is_left, "{own:?} {theirs:?}");
        }
        // Nobody is named, or what nobody writes so.
        for status in [json!(null), json!({}), json!({"installation": ["b"]})] {
            let left = of("c").leaves((&status, 1), &mut Unread::default(), Greater, at(5));
            assert_eq!(left, None);
        }
    }

    #[test]
    fn a_status_is_taken_over_where_its_owner_observes_nothing_for_ten_minutes() {
        let (mut owner, mut unread) = (of("c"), Unread::default());
        let status = json!({"observedGeneration": 1, "installation": "b"});
        let mut leaves = |generation, second| {
            let shown = (&status, generation);
            owner.leaves(shown, &mut unread, Ordering::Equal, at(second))
        };
        assert_eq!(leaves(1, 5), Some(at(605)), "no change, so no end");
        assert_eq!(leaves(2, 1000), Some(at(1600)));
        assert_eq!(leaves(3, 1599), Some(at(1600)));
        assert_eq!(leaves(1, 1599), Some(at(2199)), "it was observed after all");
        assert_eq!(leaves(2, 1700), Some(at(2300)));
        assert_eq!(leaves(2, 2300), None);
    }

    #[test]
    fn a_status_is_signed_unless_it_lacks_nothing_else() {
        let mut status = json!({"matchedPods": 1});
        of("a").sign(&mut status, &json!({"matchedPods": 1}));
        of("").sign(&mut status, &json!({}));
        assert_eq!(status, json!({"matchedPods": 1}));
        of("a").sign(&mut status, &json!({"matchedPods": 2}));
        assert_eq!(status, json!({"matchedPods": 1, "installation": "a"}));
    }
}
