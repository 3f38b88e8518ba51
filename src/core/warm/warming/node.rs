//! One node: its open images, the state of its warmer pod, and the next write.

mod edits;
mod kept;
mod observe;
mod open_images;
mod stands;
mod stuck;
mod untaken;
mod writes;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use self::kept::Kept;
pub use self::stuck::{LEAVE, SLOW};
use self::untaken::Untaken;
use super::action::{Action, End, Limits};
use super::evidence::{has_started, what_keeps};
use super::image::ImageProgress;
use crate::objects::moment::Moment;
use crate::objects::pod::Phase;
use crate::warm::pod::{Shape, WarmerPod};

/// The most time from the creation of a pod until its init container is done: more than a busy
/// scheduler and the pull of a small image take.
const START: Duration = Duration::from_secs(120);
/// The wait before a lost pod is replaced: once per minute and node.
const REPLACE: Duration = Duration::from_secs(60);
/// How long a job may keep a node while others want it; after that they have their turn, even in
/// the middle of a pull.
const TURN: Duration = Duration::from_secs(600);
/// The most images that one pod pulls, if its shape has a container for each.
const TOGETHER: usize = 8;

/// The state of one node.
#[derive(Debug)]
pub(crate) struct NodeProgress {
    pub images: Vec<ImageProgress>,
    pub ready: bool,
    /// Indices of images that have become final and were not reported yet.
    pub news: Vec<usize>,
    pod: Option<Seen>,
    /// True while a write is in flight.
    writing: bool,
    /// Since when it is unknown whether a creation has made a pod; `None` if none is unknown.
    unsure: Option<Moment>,
    /// The writes that were not taken since one was answered.
    pub untaken: Option<Untaken>,
    /// The earliest time of the next write.
    not_before: Moment,
    /// When the pod was first observed, started, got its present image, or began to terminate.
    since: Moment,
    /// When the last pod was created, or the node was added.
    asked: Moment,
    /// Set once an image has become final since then.
    had_one: bool,
    unready_since: Option<Moment>,
    /// The shape of its pods.
    shape: Shape,
    /// Set once each image gets a pod of its own, because a pod with several did not work.
    alone: bool,
    /// The image that the next pod begins with.
    first: Option<usize>,
    /// Set if the end of the pod is our own doing.
    expected: bool,
    /// The number of pods that were lost.
    setbacks: u32,
    /// The number of pods so far, which numbers the next one.
    number: u32,
    /// The last pod that is gone: the watch may still show an old state of it, and Events of its
    /// pulls may arrive late.
    last: Option<WarmerPod>,
    /// The uids of terminating pods that do not go away and were replaced.
    left: Vec<Box<str>>,
    /// How long pulls were held back for pods of others.
    pub kept: Kept,
    /// Set once nothing can be expected of the node any more.
    abandoned: bool,
    /// Set once a decision about the node has panicked.
    pub is_broken: bool,
}

/// A pod, and what was observed of it.
#[derive(Debug)]
struct Seen {
    pod: WarmerPod,
    /// Since when its images and container statuses are unchanged.
    same_since: Moment,
    /// The images as the API server stored them after the last write; `None` if unknown.
    stored: Option<Vec<Box<str>>>,
    /// The images that the kubelet has announced.
    announced: BTreeSet<Box<str>>,
}

/// The slots of all nodes, as they concern one node.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Slots {
    /// True if one more node may begin.
    pub free: bool,
    /// True if a node waits to begin.
    pub wanted: bool,
    /// True if others wait for this node.
    pub is_asked_for: bool,
    /// True if more nodes have begun than are allowed now.
    pub excess: bool,
    /// True if pods of others wait for their images on the node.
    pub others_pull: bool,
}

impl NodeProgress {
    pub fn new(images: &[Arc<str>], shape: Shape, ready: bool, now: Moment) -> Self {
        Self {
            images: images.iter().cloned().map(ImageProgress::new).collect(),
            ready,
            news: Vec::new(),
            pod: None,
            writing: false,
            unsure: None,
            untaken: None,
            not_before: Moment::START,
            since: now,
            asked: now,
            had_one: false,
            unready_since: (!ready).then_some(now),
            shape,
            alone: false,
            first: None,
            expected: false,
            setbacks: 0,
            number: 0,
            last: None,
            left: Vec::new(),
            kept: Kept::default(),
            abandoned: false,
            is_broken: false,
        }
    }

    /// Returns true if the node may be pulling.
    pub const fn is_active(&self) -> bool {
        self.writing || ((self.pod.is_some() || self.unsure.is_some()) && !self.abandoned)
    }

    /// Returns true if it has a pod, which may be pulling.
    pub const fn has_pod(&self) -> bool {
        self.pod.is_some() && !self.abandoned
    }

    /// Returns true if only a slot is missing to create a pod.
    pub fn wants_slot(&self, now: Moment) -> bool {
        self.pod.is_none() && self.ready && now >= self.not_before && self.next(now).is_some()
    }

    /// Returns true if all images are final, and no pod is left unless it is being deleted.
    pub fn is_over(&self) -> bool {
        let is_leaving = self.pod.as_ref().is_none_or(|seen| seen.pod.deleting);
        self.is_done() && !self.writing && is_leaving
    }

    pub fn pod_uid(&self) -> Option<Box<str>> {
        self.pod.as_ref().map(|seen| seen.pod.uid.clone())
    }

    fn is_done(&self) -> bool {
        self.images.iter().all(|image| image.end.is_some())
    }

    /// Returns the next write, if any. `slots` decides whether the node may begin, and whether it
    /// has to make room for others.
    pub fn step(&mut self, limits: &Limits, slots: Slots, now: Moment) -> Option<Action> {
        self.kept.begin();
        if self
            .unready_since
            .is_some_and(|since| now >= since + limits.timeout)
            && !self.is_done()
        {
            self.abandon("the node is not Ready");
        }
        if self.is_done() {
            // A pod that turns up all the same is deleted. Until then it holds the node for nobody.
            self.unsure = None;
            if self.pod.is_none() {
                self.untaken = None;
            }
        }
        if self.writing || now < self.not_before {
            return None;
        }
        let action = match &self.pod {
            // A slot that an unsure creation may have taken is this node's own.
            None => self.create(slots, now),
            Some(seen) if seen.pod.deleting => self.wait_for_deletion(limits, now),
            Some(_) if self.is_done() => self.delete(true),
            Some(seen) if matches!(seen.pod.phase, Phase::Succeeded | Phase::Failed) => {
                self.delete_ended_pod(limits, now)
            }
            Some(seen) if !has_started(&seen.pod) => self.wait_for_start(now),
            Some(_) => self.advance(limits, slots, now),
        };
        self.writing = action.is_some();
        action
    }

    fn create(&mut self, slots: Slots, now: Moment) -> Option<Action> {
        if !(slots.free || self.unsure.is_some()) || !self.ready {
            return None;
        }
        let first = self.first.filter(|first| self.images[*first].is_due(now));
        let due = (0..self.images.len())
            .filter(|index| self.images[*index].is_due(now) && Some(*index) != first);
        let most = if self.shape == Shape::InPlace || self.alone {
            1
        } else {
            TOGETHER
        };
        let images: Vec<_> = first
            .into_iter()
            .chain(due)
            .take(most)
            .map(|index| Box::from(&*self.images[index].image))
            .collect();
        if images.is_empty() || (self.unsure.is_none() && self.kept.keeps(slots.others_pull, now)) {
            return None;
        }
        (self.first, self.asked, self.had_one) = (None, now, false);
        // Images that are new since then have opened the node again.
        self.abandoned = false;
        Some(Action::Create {
            shape: self.shape,
            images,
            number: self.number,
        })
    }

    fn delete(&mut self, expected: bool) -> Option<Action> {
        self.expected |= expected;
        let seen = self.pod.as_ref()?;
        Some(Action::Delete {
            name: seen.pod.name.clone(),
            uid: seen.pod.uid.clone(),
        })
    }

    fn wait_for_start(&mut self, now: Moment) -> Option<Action> {
        if now < self.since + START {
            return None;
        }
        let why = self
            .pod
            .as_ref()
            .map(|seen| what_keeps(&seen.pod))
            .unwrap_or_default();
        self.fail_all(&format!(
            "the warmer pod has not started within {} s: {why}",
            START.as_secs()
        ));
        self.delete(true)
    }

    /// Judges the images of the pod, and takes the next image once these are final or have to wait.
    fn advance(&mut self, limits: &Limits, slots: Slots, now: Moment) -> Option<Action> {
        // A webhook may have undone the swap to that image, and not what the pod says of it.
        let mut images = self.pod.as_ref()?.pod.images.iter();
        if self.first.is_some() && images.any(|image| self.position(image) == self.first) {
            return self.delete(true);
        }
        match self.is_ours() {
            Some(true) => {}
            Some(false) => {
                self.setback(
                    "the image of the warmer pod was changed by somebody else",
                    limits,
                );
                return self.delete(true);
            }
            None => {
                let images = &self.pod.as_ref()?.pod.images;
                self.first = images.iter().find_map(|image| self.position(image));
                return self.delete(true);
            }
        }
        if let Some(replace) = self.observe(limits, now) {
            return Some(replace);
        }
        let is_pulling = self.is_pulling(now);
        if self.is_done() || (slots.excess && !is_pulling) {
            return self.delete(true);
        }
        if slots.is_asked_for && (now >= self.asked + TURN || (self.had_one && !is_pulling)) {
            return self.yield_slot(now);
        }
        if is_pulling {
            // Even if an image before it has its next try: a kubelet that pulls does nothing else
            // for the pod, and after the loss of all memory the first image is open again.
            return None;
        }
        match self.next(now) {
            // An image that is no longer wanted is not in `images`.
            Some(next) if !self.kept.keeps(slots.others_pull, now) => self.swap(next),
            // Only images are left that have to back off.
            _ if slots.wanted => self.delete(true),
            _ => None,
        }
    }

    /// Deletes the pod, because others have their turn. The time spent on an interrupted pull
    /// counts when it continues. Of several images it is unknown which one takes so long, so each
    /// gets a pod of its own.
    fn yield_slot(&mut self, now: Moment) -> Option<Action> {
        match &*self.pod.as_ref()?.pod.images {
            [image] => {
                if let Some(open) = self
                    .images
                    .iter_mut()
                    .find(|open| *open.image == *image.wanted && open.is_due(now))
                {
                    open.spent += now.since(self.since.max(open.not_before));
                }
            }
            _ => self.alone |= self.is_pulling(now),
        }
        self.delete(true)
    }

    /// Takes the next image: by a swap if the pod has that shape, else, or where a swap to it was
    /// refused, by another pod.
    fn swap(&mut self, next: usize) -> Option<Action> {
        let seen = self.pod.as_ref()?;
        let (Shape::InPlace, Shape::InPlace, [present]) =
            (self.shape, seen.pod.shape, &*seen.pod.images)
        else {
            return self.delete(true);
        };
        if self.first == Some(next) {
            return self.delete(true);
        }
        Some(Action::Swap {
            name: seen.pod.name.clone(),
            uid: seen.pod.uid.clone(),
            index: present.index,
            from: present.image.clone(),
            to: (&*self.images[next].image).into(),
            before: present.container.container_id.clone(),
        })
    }

    fn next(&self, now: Moment) -> Option<usize> {
        self.images.iter().position(|image| image.is_due(now))
    }

    fn end(&mut self, index: usize, end: End) {
        self.images[index].end = Some(end);
        self.news.push(index);
        self.had_one = true;
    }

    fn failed(&mut self, index: usize, why: &str, is_final: bool, limits: &Limits, now: Moment) {
        if is_final || !self.images[index].may_try_again(limits.backoff_limit, now) {
            self.end(index, End::Failed(why.into()));
        }
    }

    pub fn fail_all(&mut self, why: &str) {
        let why: Arc<str> = why.into();
        for index in 0..self.images.len() {
            if self.images[index].end.is_none() {
                self.end(index, End::Failed(why.clone()));
            }
        }
    }

    fn abandon(&mut self, why: &str) {
        self.fail_all(why);
        self.abandoned = true;
    }

    /// Records trouble that another pod may avoid; beyond the limit all open images fail.
    fn setback(&mut self, why: &str, limits: &Limits) {
        self.setbacks += 1;
        if self.setbacks > limits.backoff_limit {
            self.fail_all(why);
        }
    }
}
