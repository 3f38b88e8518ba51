//! What the watches show about the node and its pod.

use std::collections::BTreeSet;
use std::time::Duration;

use super::{NodeProgress, REPLACE, Seen};
use crate::objects::moment::Moment;
use crate::warm::pod::WarmerPod;
use crate::warm::warming::evidence::{has_started, is_pull_back_off};
use crate::warm::warming::{Limits, Pulled};

/// The most images that are kept of the Events about one pod: more than a job has. Whoever may
/// create Events in the namespace of the pod can name others.
const MOST_ANNOUNCED: usize = 512;

impl NodeProgress {
    pub fn observe_ready(&mut self, ready: bool, now: Moment) {
        self.ready = ready;
        self.unready_since = if ready {
            None
        } else {
            self.unready_since.or(Some(now))
        };
    }

    pub fn node_is_gone(&mut self) {
        self.abandon("the node is deleted, or its labels no longer match the selector");
    }

    /// Records the state of a pod of this node; an older state of it changes nothing.
    pub fn observe_pod(&mut self, pod: WarmerPod, now: Moment) {
        let is_last = self.last.as_ref().is_some_and(|last| last.uid == pod.uid);
        if is_last || self.is_broken || self.left.contains(&pod.uid) {
            return;
        }
        // Of two pods the terminating one was replaced, perhaps by an earlier run of the process.
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
            self.unsure = None;
            self.images
                .iter_mut()
                .for_each(|image| image.is_counted = false);
            // If it was terminating before it was known, that is no loss: an earlier run may have
            // deleted it.
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
        for (image, before) in pod.images.iter().zip(&before.pod.images) {
            let (state, before) = (&image.container.state, &before.container.state);
            if (is_swapped || state != before && !is_pull_back_off(state))
                && let Some(open) = self.position(image)
            {
                self.images[open].is_counted = false;
            }
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

    /// Records what the kubelet reported about a pull of this pod, or of the one before it. Returns
    /// how long the pull took, unless that is known already.
    pub fn handle(&mut self, uid: &str, pulled: &Pulled) -> Option<Duration> {
        let pod = match &mut self.pod {
            Some(seen) if *seen.pod.uid == *uid => {
                if seen.announced.len() < MOST_ANNOUNCED {
                    seen.announced.insert((&*pulled.image).into());
                }
                &seen.pod
            }
            _ => self.last.as_ref().filter(|last| *last.uid == *uid)?,
        };
        let asked_for = pod
            .images
            .iter()
            .find(|image| *image.image == *pulled.image)
            .map_or(&*pulled.image, |image| &*image.wanted);
        let reported = self
            .images
            .iter_mut()
            .find(|image| *image.image == *asked_for);
        // A restarted container finds the image there, which is nothing new.
        let image = reported.filter(|image| {
            image
                .pulled
                .as_ref()
                .is_none_or(|known| known.took.is_none())
        })?;
        image.was_pulled(pulled);
        pulled.took
    }

    pub fn pod_is_gone(&mut self, uid: &str, limits: &Limits, now: Moment) {
        self.left.retain(|left| **left != *uid);
        let Some(seen) = self.pod.take_if(|seen| *seen.pod.uid == *uid) else {
            return;
        };
        self.number += 1;
        if !std::mem::take(&mut self.expected) && !self.is_done() {
            let why = if seen.pod.trouble.is_empty() {
                "it was deleted by somebody else"
            } else {
                &seen.pod.trouble
            };
            self.setback(&format!("the warmer pod was lost: {why}"), limits);
            self.not_before = now + REPLACE;
        }
        self.last = Some(seen.pod);
    }
}
