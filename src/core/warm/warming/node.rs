//! One node: which of its images are open, what its warmer pod does, and what is to be done next.

mod edits;
mod kept;
mod look;
mod observe;
mod stands;
mod stuck;
mod writes;

use std::collections::BTreeSet;
use std::time::Duration;

use self::kept::Kept;
pub use self::stuck::SLOW;
use super::action::{Action, End, Limits};
use super::evidence::{has_started, what_keeps};
use super::image::ImageProgress;
use super::shape::Shapes;
use crate::objects::pod::Phase;
use crate::warm::pod::{Shape, WarmerPod};

/// From the creation of a pod until its init container is done: more than a busy scheduler and the
/// pull of a small image take.
const START: Duration = Duration::from_secs(120);
/// The wait before a pod that was lost is made again: once per minute and node (reliability, W12).
const REPLACE: Duration = Duration::from_secs(60);
/// How long a node is kept from others that want it; from then on they have their turn, also in the
/// middle of a pull.
const TURN: Duration = Duration::from_secs(600);
/// As many images one pod pulls at most, where its shape has a container for each.
const TOGETHER: usize = 8;

/// One node.
#[derive(Debug)]
pub(crate) struct NodeProgress {
    pub images: Vec<ImageProgress>,
    pub ready: bool,
    /// What has become final and was not told yet: indices of images.
    pub news: Vec<usize>,
    pod: Option<Seen>,
    /// A write is under way.
    writing: bool,
    /// Nobody knows whether the last creation has made a pod.
    unsure: bool,
    /// Nothing is written before.
    not_before: Duration,
    /// Since when the pod is there, has started, or has its present image.
    since: Duration,
    /// When a pod was made the last time.
    asked: Duration,
    /// An image has become final since.
    had_one: bool,
    unready_since: Option<Duration>,
    shapes: Shapes,
    /// Why another shape is used now, until that was told.
    pub fell_back: Option<Box<str>>,
    /// An image was proved after a swap.
    swaps_work: bool,
    /// Each image gets a pod of its own, because of several together nothing was heard.
    alone: bool,
    /// The image that the next pod begins with.
    first: Option<usize>,
    /// The end of the pod is our own doing.
    expected: bool,
    /// How many pods were lost.
    setbacks: u32,
    /// How many pods there were.
    number: u32,
    /// The last of them that is gone: the watch may still show an old state of it, and Events of
    /// its pulls may come late.
    last: Option<WarmerPod>,
    /// The uids of pods that were deleted, do not go away, and were replaced.
    left: Vec<Box<str>>,
    /// How long it was kept back for pods of others.
    pub kept: Kept,
    /// Nothing can be expected of the node any more.
    abandoned: bool,
    /// A decision about it has panicked.
    pub is_broken: bool,
}

/// A pod, and what was seen of it.
#[derive(Debug)]
struct Seen {
    pod: WarmerPod,
    /// Since when it says the same.
    same_since: Duration,
    /// The images after the last write as the API server stored them.
    stored: Option<Vec<Box<str>>>,
    /// The images that the kubelet has announced.
    announced: BTreeSet<Box<str>>,
}

/// How it stands with the nodes that may pull at a time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Slots {
    /// One more may begin.
    pub free: bool,
    /// A node waits to begin.
    pub wanted: bool,
    /// Others wait for this one.
    pub is_asked_for: bool,
    /// More have begun than may, since less are allowed now.
    pub excess: bool,
    /// Pods of others wait for their images on the node.
    pub others_pull: bool,
}

impl NodeProgress {
    pub fn new(images: &[Box<str>], shapes: Shapes, ready: bool, now: Duration) -> Self {
        Self {
            images: images
                .iter()
                .map(|image| ImageProgress::new(image))
                .collect(),
            ready,
            news: Vec::new(),
            pod: None,
            writing: false,
            unsure: false,
            not_before: Duration::ZERO,
            since: now,
            asked: now,
            had_one: false,
            unready_since: (!ready).then_some(now),
            shapes,
            fell_back: None,
            swaps_work: false,
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

    /// Whether it may be pulling.
    pub const fn is_active(&self) -> bool {
        self.writing || ((self.pod.is_some() || self.unsure) && !self.abandoned)
    }

    /// Whether it would make a pod, if it might.
    pub fn wants_slot(&self, now: Duration) -> bool {
        self.pod.is_none() && self.ready && now >= self.not_before && self.next(now).is_some()
    }

    /// Whether all is known and nothing is left to be done.
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

    /// What is to be written next, if anything.
    /// `slots` says whether it may begin, and whether others wait for it to end.
    pub fn step(&mut self, limits: &Limits, slots: Slots, now: Duration) -> Option<Action> {
        self.kept.look();
        if self
            .unready_since
            .is_some_and(|since| now >= since + limits.timeout)
            && !self.is_done()
        {
            self.abandon("the node is not Ready");
        }
        if self.writing || now < self.not_before {
            return None;
        }
        let action = match &self.pod {
            // A slot that may be taken already is this node's own.
            None => self.create(slots, now),
            Some(seen) if seen.pod.deleting => self.wait_for_deletion(limits, now),
            Some(_) if self.is_done() => self.delete(true),
            Some(seen) if matches!(seen.pod.phase, Phase::Succeeded | Phase::Failed) => {
                self.take_leave(limits, now)
            }
            Some(seen) if !has_started(&seen.pod) => self.wait_for_start(now),
            Some(_) => self.go_on(limits, slots, now),
        };
        self.writing = action.is_some();
        action
    }

    fn create(&mut self, slots: Slots, now: Duration) -> Option<Action> {
        if !(slots.free || self.unsure) || !self.ready {
            return None;
        }
        let first = self.first.filter(|first| self.images[*first].is_due(now));
        let due = (0..self.images.len())
            .filter(|index| self.images[*index].is_due(now) && Some(*index) != first);
        let most = if self.shapes.next == Shape::InPlace || self.alone {
            1
        } else {
            TOGETHER
        };
        let images: Vec<_> = first
            .into_iter()
            .chain(due)
            .take(most)
            .map(|index| self.images[index].image.clone())
            .collect();
        if images.is_empty() || (!self.unsure && self.kept.keeps(slots.others_pull, now)) {
            return None;
        }
        (self.first, self.asked, self.had_one) = (None, now, false);
        Some(Action::Create {
            shape: self.shapes.next,
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

    fn wait_for_start(&mut self, now: Duration) -> Option<Action> {
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

    /// Looks at the images that the pod has, and takes the next one where these are settled or have
    /// to wait.
    fn go_on(&mut self, limits: &Limits, slots: Slots, now: Duration) -> Option<Action> {
        if !self.is_ours() {
            self.setback(
                "the image of the warmer pod was changed by somebody else",
                limits,
            );
            return self.delete(true);
        }
        if let Some(replace) = self.look(limits, now) {
            return Some(replace);
        }
        let is_pulling = self.is_pulling(now);
        if self.is_done() || (slots.excess && !is_pulling) {
            return self.delete(true);
        }
        if slots.is_asked_for && (now >= self.asked + TURN || (self.had_one && !is_pulling)) {
            return self.give_way(now);
        }
        if is_pulling {
            // Also where one that comes before it has its next try: a kubelet that pulls does
            // nothing else for the pod, and after the loss of all memory the first image is open
            // again.
            return None;
        }
        match self.next(now) {
            // An image that is not wanted any more is none of the images.
            Some(next) if !self.kept.keeps(slots.others_pull, now) => self.swap(next),
            // Only images are left that have to wait.
            _ if slots.wanted => self.delete(true),
            _ => None,
        }
    }

    /// Others have their turn. What was spent on a pull that is broken off counts when it goes on;
    /// of several that are pulled one after another nobody knows which one takes so long, so each
    /// gets a pod of its own.
    fn give_way(&mut self, now: Duration) -> Option<Action> {
        match &*self.pod.as_ref()?.pod.images {
            [image] => {
                if let Some(open) = self
                    .images
                    .iter_mut()
                    .find(|open| open.image == image.wanted && open.is_due(now))
                {
                    open.spent += now.saturating_sub(self.since.max(open.not_before));
                }
            }
            _ => self.alone |= self.is_pulling(now),
        }
        self.delete(true)
    }

    /// The next image, by a swap where the pod has that shape, and else by another pod.
    fn swap(&mut self, next: usize) -> Option<Action> {
        let seen = self.pod.as_ref()?;
        let (Shape::InPlace, Shape::InPlace, [present]) =
            (self.shapes.next, seen.pod.shape, &*seen.pod.images)
        else {
            return self.delete(true);
        };
        Some(Action::Swap {
            name: seen.pod.name.clone(),
            uid: seen.pod.uid.clone(),
            index: present.index,
            from: present.image.clone(),
            to: self.images[next].image.clone(),
            before: present.container.container_id.clone(),
        })
    }

    /// From now on pods have the other shape, if there is one.
    fn fall_back(&mut self, why: &str) -> bool {
        let Some(shape) = self.shapes.fallback.take() else {
            return false;
        };
        self.shapes = Shapes::after(shape);
        self.fell_back = Some(why.into());
        true
    }

    fn next(&self, now: Duration) -> Option<usize> {
        self.images.iter().position(|image| image.is_due(now))
    }

    fn end(&mut self, index: usize, end: End) {
        self.images[index].end = Some(end);
        self.news.push(index);
        self.had_one = true;
    }

    fn failed(&mut self, index: usize, why: &str, is_final: bool, limits: &Limits, now: Duration) {
        if is_final || !self.images[index].may_try_again(limits.backoff_limit, now) {
            self.end(index, End::Failed(why.into()));
        }
    }

    pub fn fail_all(&mut self, why: &str) {
        for index in 0..self.images.len() {
            if self.images[index].end.is_none() {
                self.end(index, End::Failed(why.into()));
            }
        }
    }

    fn abandon(&mut self, why: &str) {
        self.fail_all(why);
        self.abandoned = true;
    }

    /// Something that may go better with another pod.
    fn setback(&mut self, why: &str, limits: &Limits) {
        self.setbacks += 1;
        if self.setbacks > limits.backoff_limit {
            self.fail_all(why);
        }
    }
}
