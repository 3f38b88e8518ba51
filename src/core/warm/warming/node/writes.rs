//! The results of the writes for a node.

use std::time::Duration;

use super::{NodeProgress, REPLACE, not_taken};
use crate::objects::moment::Moment;
use crate::report::write_error::WriteError;
use crate::warm::pod::WarmerPod;
use crate::warm::warming::{Action, Answer, End, Limits};

/// The wait for the watch to show why a write failed.
const LOOK_AGAIN: Duration = Duration::from_secs(1);
/// How long a created pod may be missing from the watch: a dead watch is noticed by then.
const UNSHOWN: Duration = Duration::from_secs(120);
/// After how many lost pods and taken names one more ends the node, whatever the job allows: under
/// each such name there may be a pod of ours that cannot be read, and so is never deleted.
const MOST_TAKEN: u32 = 3;

impl NodeProgress {
    /// Records the result of a write.
    pub fn written(&mut self, action: &Action, answer: Answer, limits: &Limits, now: Moment) {
        self.writing = false;
        let is_unsure = matches!(
            (action, &answer),
            (
                Action::Create { .. },
                Err(WriteError::Failed { .. } | WriteError::Conflict) | Ok(None)
            )
        ) && self.pod.is_none();
        self.unsure = is_unsure.then(|| self.unsure.unwrap_or(now));
        let is_unsure_for_long = self.unsure.is_some_and(|since| now >= since + UNSHOWN);
        if let Some(untaken) = answer.as_ref().err().and_then(not_taken) {
            self.was_not_taken(action, untaken, limits, now);
            if is_unsure_for_long {
                self.lets_others_begin(now);
            }
            return;
        }
        self.untaken = None;
        if matches!(
            (action, &answer),
            (Action::Create { .. }, Err(WriteError::Conflict))
        ) && !self.left.is_empty()
        {
            // A pod that does not go away has this name.
            self.number += 1;
        }
        match (action, answer) {
            (Action::Delete { uid, .. } | Action::Swap { uid, .. }, Err(WriteError::Gone)) => {
                self.pod_is_gone(uid, limits, now)
            }
            (Action::Delete { .. }, Err(WriteError::Denied(why))) => self.cannot_delete(&why),
            (_, Ok(Some(pod))) => self.stored(*pod, now),
            (Action::Create { .. }, Err(WriteError::Conflict)) if is_unsure_for_long => {
                self.name_is_taken(limits, now)
            }
            (_, Ok(None) | Err(WriteError::Conflict)) => {
                self.not_before = self.not_before.max(now + LOOK_AGAIN);
            }
            // It was not taken, as above.
            (_, Err(WriteError::Failed { .. })) => {}
            (Action::Create { .. }, Err(WriteError::Gone)) => {
                self.fail_all("the namespace for warmer pods does not exist")
            }
            (Action::Create { images, .. }, Err(WriteError::Denied(why))) => {
                self.creation_denied(images, &why)
            }
            // A policy that forbids swaps may allow a pod that begins with the image.
            (Action::Swap { to, .. }, Err(WriteError::Denied(_))) => self.first = self.open(to),
        }
    }

    /// Records the pod as a write has left it. Where the watch has shown that already, it may have
    /// shown more since, and there is no other event of a pod that runs.
    fn stored(&mut self, pod: WarmerPod, now: Moment) {
        let images = pod.images.iter().map(|image| image.image.clone()).collect();
        if !self.pod.as_ref().is_some_and(|seen| seen.pod.shows(&pod)) {
            self.observe_pod(pod, now);
        }
        if let Some(seen) = &mut self.pod {
            seen.stored = Some(images);
        }
    }

    /// Handles a name that a pod has which is not shown, so it is none of the job's: in the namespace
    /// of a job with pull secrets others may create one. The next pod has another name.
    fn name_is_taken(&mut self, limits: &Limits, now: Moment) {
        let why = "a pod that is not known as one of this job has the name of the warmer pod";
        self.number += 1;
        self.lets_others_begin(now);
        self.setback(why, limits);
        if self.setbacks > MOST_TAKEN {
            self.fail_all(why);
        }
    }

    /// Leaves the node to others for a while, because nothing has come of the creation of a pod.
    fn lets_others_begin(&mut self, now: Moment) {
        self.unsure = None;
        self.not_before = self.not_before.max(now + REPLACE);
    }

    /// Handles a refused creation. A missing right and the namespace's rules concern every image,
    /// anything else one.
    fn creation_denied(&mut self, images: &[Box<str>], why: &str) {
        if why.contains("cannot create resource") || why.contains("violates PodSecurity") {
            return self.fail_all(why);
        }
        let [image] = images else {
            self.alone = true;
            return;
        };
        if let Some(index) = self.open(image) {
            self.end(index, End::Failed(why.into()));
        }
    }

    /// Gives up a pod that cannot be deleted.
    pub(super) fn cannot_delete(&mut self, why: &str) {
        self.abandon(&format!("the warmer pod may not be deleted: {why}"));
        self.pod = None;
    }

    /// Returns the index of an image, if it is open.
    pub(super) fn open(&self, image: &str) -> Option<usize> {
        let mut images = self.images.iter();
        images.position(|progress| *progress.image == *image && progress.end.is_none())
    }
}
