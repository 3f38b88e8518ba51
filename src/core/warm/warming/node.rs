//! One node: its open images, the state of its warmer pod, and the next write.

mod observe;
mod open_images;
mod writes;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use super::evidence::{has_started, what_keeps};
use super::{Action, End, ImageProgress, Limits};
use crate::objects::moment::Moment;
use crate::objects::pod::Phase;
use crate::objects::values::backoff::Backoff;
use crate::report::denial::is_no_verdict;
use crate::report::write_error::WriteError;
use crate::warm::pod::{Shape, WarmerPod};
use crate::warm::warming::Elsewhere;

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
#[derive(Debug, Default)]
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
#[derive(Clone, Copy, Debug, Default)]
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

impl Slots {
    /// Returns the slots for a node on which others do this.
    pub const fn beside(self, elsewhere: Elsewhere) -> Self {
        Self {
            free: self.free && !elsewhere.taken,
            wanted: self.wanted || elsewhere.wanted,
            is_asked_for: elsewhere.wanted,
            others_pull: elsewhere.others_pull,
            ..self
        }
    }
}

impl NodeProgress {
    pub fn new(images: &[Arc<str>], shape: Shape, ready: bool, now: Moment) -> Self {
        Self {
            images: images.iter().cloned().map(ImageProgress::new).collect(),
            ready,
            since: now,
            asked: now,
            unready_since: (!ready).then_some(now),
            shape,
            ..Self::default()
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
            Some(seen) if !has_started(&seen.pod) => self.wait_for_start(limits, now),
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

    /// Gives up a pod that does not start. Where nothing says why, its image may wait behind other
    /// pulls of the node, so another pod is tried, like after any other loss.
    fn wait_for_start(&mut self, limits: &Limits, now: Moment) -> Option<Action> {
        if now < self.since + START {
            return None;
        }
        let known = self.pod.as_ref().and_then(|seen| what_keeps(&seen.pod));
        let why = known.as_deref().unwrap_or("its node has not reported why");
        let seconds = START.as_secs();
        let why = format!("the warmer pod has not started within {seconds} s: {why}");
        if known.is_some() {
            self.fail_all(&why);
        } else if !self.expected {
            // Another try to delete the same pod is no other pod.
            self.setback(&why, limits);
            self.not_before = now + REPLACE;
        }
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

// Predicates on a node that decide whether a step has to visit it.

impl NodeProgress {
    /// Returns true if every step has to visit it: it is under way, or a deadline is running.
    pub fn is_busy(&self) -> bool {
        !self.is_idle()
            || !self.left.is_empty()
            || self.kept.is_under_way()
            || self.untaken.is_some()
            || !self.is_in_order()
    }

    /// Returns from when on a pod can be created, given a slot; `None` if no image is open, a pod
    /// is there or on its way, or a defect has ended the work.
    pub fn begins_at(&self) -> Option<Moment> {
        if !self.is_idle() || self.is_broken {
            return None;
        }
        let open = self.images.iter().filter(|image| image.end.is_none());
        let first = open.map(|image| image.not_before).min()?;
        Some(first.max(self.not_before))
    }

    /// Returns true if all images are final, and the node may be checked again some day.
    pub fn is_settled(&self) -> bool {
        self.is_idle() && self.ready && self.is_done()
    }

    /// Returns true if there is something to report about the node.
    pub const fn has_news(&self) -> bool {
        !self.news.is_empty()
    }

    /// Returns true if nothing can be written now, and no deadline of its own is running.
    pub fn rests(&self, may_begin: bool) -> bool {
        !may_begin && self.is_idle() && self.is_in_order()
    }

    /// Returns when its last pod was created, or the node was added.
    pub const fn asked(&self) -> Moment {
        self.asked
    }

    /// Returns true if it has no pod, and none is on its way.
    const fn is_idle(&self) -> bool {
        self.pod.is_none() && !self.writing && self.unsure.is_none()
    }

    /// Returns true if it does not matter how long the node is not Ready.
    fn is_in_order(&self) -> bool {
        self.unready_since.is_none() || self.is_done()
    }
}

// Pulls that are held back because pods of others wait for their images on the node.

/// The most time for which one node is held back, in all.
const MOST: Duration = Duration::from_secs(600);
/// The time after which a wait is reported; a shorter one is not worth it.
const TOLD: Duration = Duration::from_secs(10);

/// The time for which a node was held back.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Kept {
    spent: Duration,
    /// When it was held back in the step before this one, if it was.
    before: Option<Moment>,
    /// When it was held back in this step, if it was.
    last: Option<Moment>,
    /// Since when it is held back without a break.
    since: Option<Moment>,
}

impl Kept {
    /// Begins a step. Only the time between two steps that both held it back counts.
    pub const fn begin(&mut self) {
        self.before = self.last.take();
    }

    /// Returns true if a pull that could begin now is held back for others, and records that.
    pub fn keeps(&mut self, others_wait: bool, now: Moment) -> bool {
        let before = self.before.take();
        self.spent += before.map_or(Duration::ZERO, |before| now.since(before));
        let keeps = self.would_keep(others_wait);
        self.last = keeps.then_some(now);
        self.since = self.last.and(before.and(self.since).or(self.last));
        keeps
    }

    /// Returns the same without recording it.
    fn would_keep(&self, others_wait: bool) -> bool {
        others_wait && self.spent < MOST
    }

    /// Returns true if it was held back in the last step.
    pub const fn is_on(&self) -> bool {
        self.last.is_some()
    }

    /// Returns true if the next step needs this state.
    pub const fn is_under_way(&self) -> bool {
        self.last.is_some() || self.before.is_some()
    }

    /// Returns true if it has been held back long enough to be reported.
    pub fn is_long(&self, now: Moment) -> bool {
        self.is_on() && self.since.is_some_and(|since| now >= since + TOLD)
    }
}

impl NodeProgress {
    /// Returns true if nothing that others do prevents it from beginning.
    pub fn is_free(&self, elsewhere: Elsewhere) -> bool {
        !elsewhere.taken && !self.kept.would_keep(elsewhere.others_pull)
    }
}

// Slow pulls, and deleted pods that do not go away: a kubelet that pulls does not end the pod.

/// How long a pull may keep others from its node.
pub const SLOW: Duration = Duration::from_secs(60);
/// How long a pod may terminate until others need not wait for it, and another pod is created.
pub const LEAVE: Duration = Duration::from_secs(120);
/// The most deleted pods of a node that may be left at a time: each may hold a pull of its kubelet.
const MOST_LEFT: usize = 4;

impl NodeProgress {
    /// Returns the image that has been pulled for so long that others need not wait for it, if any.
    pub fn slow(&self, now: Moment) -> Option<&str> {
        let pod = self
            .pod
            .as_ref()
            .map(|seen| &seen.pod)
            .filter(|pod| !pod.deleting && has_started(pod))?;
        let mut open = pod
            .images
            .iter()
            .filter_map(|image| self.position(image))
            .map(|index| &self.images[index]);
        let image = open.find(|image| image.is_due(now))?;
        (now >= self.since.max(image.not_before) + SLOW).then_some(&*image.image)
    }

    /// Returns true if the deletion of its pod takes too long.
    pub fn hangs(&self, now: Moment) -> bool {
        !self.writing
            && self.pod.as_ref().is_some_and(|seen| seen.pod.deleting)
            && now >= self.since + LEAVE
    }

    /// Returns true if it has a deleted pod that does not go away.
    pub fn is_stuck(&self, now: Moment) -> bool {
        !self.left.is_empty() || self.hangs(now)
    }

    /// Returns the uids of its pods: the current one, the one before it, and those that do not go
    /// away.
    pub fn uids(&self) -> impl Iterator<Item = &Box<str>> {
        let pods = self.pod.iter().map(|seen| &seen.pod).chain(&self.last);
        pods.map(|pod| &pod.uid).chain(&self.left)
    }

    /// Waits for a terminating pod, or leaves it behind so that another one is created, unless too
    /// many are left.
    pub(crate) fn wait_for_deletion(&mut self, limits: &Limits, now: Moment) -> Option<Action> {
        if self.hangs(now) && self.left.len() < MOST_LEFT && !self.is_done() {
            self.number += 1;
            self.expected = false;
            self.left.extend(self.pod.take().map(|seen| seen.pod.uid));
        } else if now >= self.since + limits.timeout
            && self.left.len() >= MOST_LEFT
            && !self.is_done()
        {
            self.abandon("the warmer pods are stuck in deletion");
        }
        None
    }
}

// Writes that the API server did not take: no answer came, it is in trouble, it cannot judge them
// yet, or a webhook cannot be reached. They are repeated, more and more rarely, and not for ever.

/// The wait before the next try, unless the server requests a longer one.
const WRITE_AGAIN: Backoff = Backoff::seconds(2, 60);
/// The longest time for which writes are repeated. A job whose tries take less gives up earlier,
/// and one of type `Never` does not give up.
const PATIENCE: Duration = Duration::from_secs(600);

/// The writes for a node that were not taken, one after the other.
#[derive(Clone, Debug)]
pub(crate) struct Untaken {
    since: Moment,
    count: u32,
    /// Why the last one was not taken.
    pub why: Box<str>,
}

/// What the API server says where a ResourceQuota is full (Kubernetes: `CheckRequest` of
/// `admission/plugin/resourcequota/controller.go`).
const QUOTA: &str = "exceeded quota";

/// Returns why a write was not taken, and the wait that the server requests; `None` for an answer
/// to it. A denial that is no verdict is one of all writes, not of this one, and a quota may have room
/// later.
fn not_taken(error: &WriteError) -> Option<(&str, Option<Duration>)> {
    match error {
        WriteError::Failed { error, retry_after } => Some((error.as_str(), *retry_after)),
        WriteError::Denied(why) if is_no_verdict(why) || why.contains(QUOTA) => {
            Some((why.as_str(), None))
        }
        _ => None,
    }
}

impl NodeProgress {
    /// Records a write that was not taken. When patience is over the node fails, or, if the write
    /// was a swap, another pod is tried.
    fn was_not_taken(
        &mut self,
        action: &Action,
        (why, retry_after): (&str, Option<Duration>),
        limits: &Limits,
        now: Moment,
    ) {
        let untaken = self.untaken.get_or_insert(Untaken {
            since: now,
            count: 0,
            why: Box::default(),
        });
        let wait = WRITE_AGAIN.after(untaken.count);
        (untaken.count, untaken.why) = (untaken.count + 1, why.into());
        self.not_before = now + retry_after.unwrap_or_default().max(wait);
        let tries = limits.backoff_limit.saturating_add(1);
        let is_late = limits.ask_again.is_none()
            && now >= untaken.since + limits.timeout.saturating_mul(tries).min(PATIENCE);
        match action {
            Action::Swap { to, .. } => {
                // It may have been applied all the same.
                self.pod.iter_mut().for_each(|seen| seen.stored = None);
                if is_late {
                    self.first = self.open(to);
                }
            }
            Action::Create { .. } if is_late => self.fail_all(why),
            Action::Delete { .. } if is_late => self.cannot_delete(why),
            Action::Create { .. } | Action::Delete { .. } => return,
        }
        if is_late {
            self.untaken = None;
        }
    }

    /// Begins the patience with a full quota anew, because pods of the same job are in it: it limits
    /// how many nodes pull at a time, like `parallelism`.
    pub fn shares_quota(&mut self, now: Moment) {
        let untaken = self.untaken.as_mut();
        if let Some(untaken) = untaken.filter(|untaken| untaken.why.contains(QUOTA)) {
            untaken.since = now;
        }
    }
}

// Changes to the state of a node that come from its job.

impl NodeProgress {
    /// Sets the images; the progress of those that stay is kept.
    pub fn set_images(&mut self, images: &[Arc<str>]) {
        let known = std::mem::take(&mut self.images);
        let stays = |image: &str| known.iter().find(|known| *known.image == *image).cloned();
        self.images = images
            .iter()
            .map(|image| stays(image).unwrap_or_else(|| ImageProgress::new(image.clone())))
            .collect();
        (self.news, self.first) = (Vec::new(), None);
    }

    /// Starts again like a new node, but keeps proved images and the numbering of pods. If the node
    /// has a pod or a write in flight, it does nothing, or opens what has failed if the node was
    /// given up: nothing else would try it again when the pod is gone.
    pub fn try_again(&mut self, images: &[Arc<str>], ready: bool, now: Moment) {
        if self.pod.is_some() || self.writing || self.unsure.is_some() {
            if self.abandoned && !self.is_broken {
                self.observe_ready(ready, now);
                self.open_failed();
            }
            return;
        }
        let known = self.begin_anew(images, ready, now);
        for progress in &mut self.images {
            let proved = known
                .iter()
                .find(|known| known.image == progress.image && known.end == Some(End::Succeeded));
            if let Some(proved) = proved {
                *progress = proved.clone();
            }
        }
    }

    fn open_failed(&mut self) {
        self.abandoned = false;
        for progress in &mut self.images {
            if matches!(progress.end, Some(End::Failed(_))) {
                *progress = ImageProgress::new(progress.image.clone());
            }
        }
    }

    /// Fails what is open after a defect, and does nothing more for the node. Deleting its pod is
    /// left to the caller.
    pub fn break_off(&mut self, defect: &str) {
        self.abandon(&format!("a defect in swaplet, please report it: {defect}"));
        self.is_broken = true;
        if let Some(seen) = self.pod.take() {
            self.number += 1;
            self.last = Some(seen.pod);
        }
    }

    /// Resets all but the numbering and shape of pods, and returns the progress of images.
    fn begin_anew(&mut self, images: &[Arc<str>], ready: bool, now: Moment) -> Vec<ImageProgress> {
        let (number, last, left) = (
            self.number,
            self.last.take(),
            std::mem::take(&mut self.left),
        );
        let new = Self {
            number,
            last,
            left,
            ..Self::new(images, self.shape, ready, now)
        };
        std::mem::replace(self, new).images
    }

    /// Opens all images again, and returns the creation of a pod. What was reported about pulls is
    /// kept, because a kubelet that has an image reports nothing new.
    pub fn ask_again(
        &mut self,
        images: &[Arc<str>],
        limits: &Limits,
        now: Moment,
    ) -> Option<Action> {
        let known = self.begin_anew(images, true, now);
        for (progress, known) in self.images.iter_mut().zip(known) {
            progress.pulled = known.pulled;
        }
        let slots = Slots {
            free: true,
            ..Slots::default()
        };
        self.step(limits, slots, now)
    }
}
