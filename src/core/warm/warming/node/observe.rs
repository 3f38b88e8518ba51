//! What is seen of the node and of its pod.

use std::collections::BTreeSet;
use std::time::Duration;

use super::{NodeProgress, REPLACE, Seen};
use crate::warm::pod::WarmerPod;
use crate::warm::warming::action::Limits;
use crate::warm::warming::evidence::has_started;
use crate::warm::warming::pulled::Pulled;

impl NodeProgress {
    pub fn see_ready(&mut self, ready: bool, now: Duration) {
        self.ready = ready;
        self.unready_since = if ready {
            None
        } else {
            self.unready_since.or(Some(now))
        };
    }

    pub fn node_is_gone(&mut self) {
        self.abandon("the node is gone, or its labels are not those selected any more");
    }

    /// A pod of this node was seen; an older state of it changes nothing.
    pub fn see_pod(&mut self, pod: WarmerPod, now: Duration) {
        let is_last = self.last.as_ref().is_some_and(|last| last.uid == pod.uid);
        if is_last || self.is_broken || self.left.contains(&pod.uid) {
            return;
        }
        // Of two pods the one that is going was replaced, perhaps in an earlier life.
        match &self.pod {
            Some(seen) if seen.pod.uid != pod.uid && pod.deleting && !seen.pod.deleting => {
                return self.left.push(pod.uid);
            }
            Some(seen) if seen.pod.uid != pod.uid && !pod.deleting && seen.pod.deleting => {
                self.left.push(seen.pod.uid.clone())
            }
            _ => {}
        }
        let Some(before) = self.pod.take().filter(|seen| seen.pod.uid == pod.uid) else {
            self.since = now;
            self.unsure = false;
            // One that was being deleted before it was known is no loss: an earlier life may have
            // done it.
            self.expected = pod.deleting;
            self.pod = Some(Seen {
                pod,
                same_since: now,
                stored: None,
                announced: BTreeSet::new(),
            });
            return;
        };
        if pod.generation < before.pod.generation {
            self.pod = Some(before);
            return;
        }
        let has_news = |of: fn(&WarmerPod) -> bool| of(&pod) && !of(&before.pod);
        let wanted = |pod: &WarmerPod| {
            pod.images
                .iter()
                .map(|image| image.wanted.clone())
                .collect::<Vec<_>>()
        };
        let is_swapped = wanted(&pod) != wanted(&before.pod);
        if !before.pod.deleting && (is_swapped || has_news(has_started) || pod.deleting) {
            self.since = now;
        }
        let containers = |pod: &WarmerPod| {
            pod.images
                .iter()
                .map(|image| image.container.clone())
                .collect::<Vec<_>>()
        };
        let is_same = !is_swapped && containers(&pod) == containers(&before.pod);
        let same_since = if is_same { before.same_since } else { now };
        self.pod = Some(Seen {
            pod,
            same_since,
            ..before
        });
    }

    /// The kubelet has said something of a pull of this pod, or of the one before it; how long it
    /// took, where that is news.
    pub fn hear(&mut self, uid: &str, pulled: &Pulled) -> Option<Duration> {
        let pod = match &mut self.pod {
            Some(seen) if *seen.pod.uid == *uid => {
                seen.announced.insert(pulled.image.clone());
                &seen.pod
            }
            _ => self.last.as_ref().filter(|last| *last.uid == *uid)?,
        };
        let asked_for = pod
            .images
            .iter()
            .find(|image| image.image == pulled.image)
            .map_or(&pulled.image, |image| &image.wanted);
        let told = self
            .images
            .iter_mut()
            .find(|image| image.image == *asked_for);
        // A container that is started once more finds the image there, which is no news.
        let image = told.filter(|image| {
            image
                .pulled
                .as_ref()
                .is_none_or(|known| known.took.is_none())
        })?;
        image.pulled = Some(pulled.clone());
        pulled.took
    }

    pub fn pod_is_gone(&mut self, uid: &str, limits: &Limits, now: Duration) {
        self.left.retain(|left| **left != *uid);
        let Some(seen) = self.pod.take_if(|seen| *seen.pod.uid == *uid) else {
            return;
        };
        self.number += 1;
        if !std::mem::take(&mut self.expected) && !self.is_done() {
            let why = if seen.pod.trouble.is_empty() {
                "somebody deleted it"
            } else {
                &seen.pod.trouble
            };
            self.setback(&format!("the warmer pod was lost: {why}"), limits);
            self.not_before = now + REPLACE;
        }
        self.last = Some(seen.pod);
    }
}
