//! The return to the image before, from an alias that cannot be started.

use super::{Step, Target};
use crate::image::alias::{Alias, is_same_digest};
use crate::image::reference::ImageReference;
use crate::restart::reconcile::parking::before;
use crate::restart::request::{Intent, StatePhase};

impl Target<'_> {
    pub(super) fn put_back(&self, intent: &Intent, why: &str) -> Step {
        if self.container.image == intent.to && intent.from != intent.to {
            // The alias was pulled after all: do not stop the running container again.
            if self.has_started() {
                return self.becomes_ready();
            }
            // The right to write requests must not allow choosing images.
            if !self.is_other_spelling(&intent.from, &intent.to) {
                return Step::Final(StatePhase::Failed, self.not_put_back(intent, why));
            }
            if !is_same_digest(&intent.from, &intent.to) {
                return Step::Swap(self.change(&intent.to, &intent.from));
            }
            return Step::Final(
                StatePhase::Failed,
                format!(
                    "its image cannot be pulled by digest, with a tag before it or without: {why}"
                ),
            );
        }
        Step::Final(
            StatePhase::Failed,
            format!(
                "its image could not be started under its other name, which was reverted: {why}"
            ),
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
            (None, Some(_)) => {
                Alias::of(before, self.reported()).is_some_and(|alias| alias.image == present)
            }
            (Some(_), _) => is_same_digest(before, present),
        }
    }

    fn not_put_back(&self, intent: &Intent, why: &str) -> String {
        let (namespace, pod, name) = (
            &self.case.pod.pod.namespace,
            &self.case.pod.pod.name,
            &self.container.name,
        );
        let (from, to) = (before::shown(&intent.from), &intent.to);
        format!(
            "its previous image is not put back. Give it the image that its workload names: kubectl set image -n {namespace} pod/{pod} {name}=IMAGE. {from} is not another spelling of {to} by what its node reports; {why}"
        )
    }
}
