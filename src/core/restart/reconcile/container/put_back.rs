//! The return to the image before, from an alias that cannot be started.

use super::{Step, Target};
use crate::image::alias::{is_fresh_name_of, is_same_digest};
use crate::image::reference::ImageReference;
use crate::restart::reconcile::parking::before;
use crate::restart::request::{Intent, StatePhase};

impl Target<'_> {
    pub(super) fn put_back(&self, intent: &Intent, why: &str) -> Step {
        let present = &self.container.image;
        if *present == intent.from || !self.has_what_was_written(&intent.to) {
            return Step::Final(
                StatePhase::Failed,
                format!(
                    "its image could not be started under its other name, which was reverted: {why}"
                ),
            );
        }
        // The alias was pulled after all: do not stop the running container again.
        if self.has_started() {
            return self.becomes_ready();
        }
        // What this process itself has changed is known to be the image before.
        let stored = self.stored_for(&intent.to);
        if stored.is_some_and(|stored| stored.from == intent.from) {
            return Step::Swap(self.change(present, &intent.from));
        }
        if *present != intent.to {
            let changed = format!("somebody has changed {}, which was written", intent.to);
            return self.not_put_back(&changed, why);
        }
        // The right to write requests must not allow choosing images.
        if !self.is_other_spelling(&intent.from, present) {
            let unknown = format!(
                "{} is not another spelling of {present} by what its node reports",
                before::shown(&intent.from)
            );
            return self.not_put_back(&unknown, why);
        }
        if !is_same_digest(&intent.from, present) {
            return Step::Swap(self.change(present, &intent.from));
        }
        Step::Final(
            StatePhase::Failed,
            format!("its image cannot be pulled by digest, with a tag before it or without: {why}"),
        )
    }

    /// Returns true if `before` is another spelling of `present`: the same digest; or the same tag
    /// and no digest; or a tag whose alias `present` is, by the digest that the node reports. A
    /// digest from another source is not trusted: it may name any image of the repository.
    fn is_other_spelling(&self, before: &str, present: &str) -> bool {
        let (Ok(one), Ok(other)) = (
            ImageReference::parse(before),
            ImageReference::parse(present),
        ) else {
            return false;
        };
        match (one.digest(), other.digest()) {
            (None, None) => one.normalized() == other.normalized(),
            (None, Some(_)) => is_fresh_name_of(present, before, self.reported()),
            (Some(_), _) => is_same_digest(before, present),
        }
    }

    fn not_put_back(&self, because: &str, why: &str) -> Step {
        let pod = &self.case.pod.pod;
        let (namespace, pod, name) = (&pod.namespace, &pod.name, &self.container.name);
        let message = format!(
            "its previous image is not put back. Give it the image that its workload names: kubectl set image -n {namespace} pod/{pod} {name}=IMAGE. {because}; {why}"
        );
        Step::Final(StatePhase::Failed, message)
    }
}
