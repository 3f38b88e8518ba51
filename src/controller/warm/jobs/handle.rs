//! The handling of events: of jobs, pods and image caches, and of the results of writes.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::frame::clock::Now;
use crate::frame::isolated::read;
use crate::frame::store::{Changes, Store};
use crate::frame::watch::Event;
use crate::warm::jobs::entry::Entry;
use crate::warm::jobs::step::{Deletion, Release, object_key};
use crate::warm::jobs::{PullAnswer, PullJobs, PullWrite, WarmSettings, key_of};
use swaplet_core::objects::moment::Moment;
use swaplet_core::objects::values::bounded_object::BoundedObject;
use swaplet_core::warm::image_waits::{ImageWaitWire, ImageWaits};
use swaplet_core::warm::pod::WarmerPodWire;
use swaplet_core::warm::pull_job::object::{Completion, JobKind, PullJob};
use swaplet_core::warm::warming::LEAVE;

// Pre-downloads that are done without an object, because none can be created.

impl PullJobs {
    /// Replaces the pre-downloads without an object by these.
    pub(crate) fn see_own(&mut self, jobs: &[PullJob]) {
        let keys: BTreeSet<_> = jobs.iter().map(key_of).collect();
        self.jobs.all.retain(|key, entry| {
            entry.has_object() || key.0 != JobKind::ImagePullJob || keys.contains(key)
        });
        for job in jobs {
            self.jobs
                .all
                .entry(key_of(job))
                .or_insert_with(|| Entry::without_object(job.clone()));
        }
    }

    /// Returns true if there is an uncompleted job besides the one for the installation's own
    /// images.
    pub fn is_asked_for(&self) -> bool {
        self.jobs
            .all
            .values()
            .any(|entry| !entry.is_of_installation() && !entry.is_completed())
    }
}

impl Entry {
    /// Returns true for the job of the installation's own images: it is the only job without an
    /// object that is of type `Never`.
    pub fn is_of_installation(&self) -> bool {
        !self.has_object()
            && self
                .spec()
                .is_ok_and(|spec| spec.completion == Completion::Never)
    }
}

// The events of pods that wait for their images.

impl PullJobs {
    /// Records that the watch of pods that wait for their images has started or ended.
    pub fn watches_image_waits(&mut self, is_watched: bool, now: Moment) {
        self.image_wait_pods = Store::default();
        self.image_waits = if is_watched {
            ImageWaits::begun(now)
        } else {
            ImageWaits::default()
        };
    }

    /// Records an event. Returns true if a job may have waited for it.
    pub(crate) fn see_image_wait(&mut self, event: Event<ImageWaitWire>, now: Moment) -> bool {
        let is_known = matches!(event, Event::ListEnd) || event.trouble().is_some();
        if is_known {
            self.image_waits.wait_for_no_list();
        }
        let read = |pod: ImageWaitWire| read("pod", || pod.read());
        let changes = self.image_wait_pods.observe(event, now, read);
        let mut node = None;
        for (_, pod, ()) in changes.gone {
            self.image_waits.is_gone(&pod.node, &pod.uid);
            node = Some(pod.node);
        }
        if let Some((key, _)) = changes.put
            && let Some((pod, ())) = self.image_wait_pods.get(&key)
        {
            node = Some(pod.node.clone());
            if !self.image_waits.observe(pod.clone(), now) {
                self.image_wait_pods.forget(&key);
            }
        }
        let is_waited_for = |node: &str| {
            let mut warmings = self.jobs.all.values().filter_map(Entry::warming);
            warmings.any(|warming| warming.is_kept_back(node))
        };
        let is_free = |node: &str| !self.image_waits.are_on(node, now) && is_waited_for(node);
        is_known || node.is_some_and(|node| is_free(&node))
    }
}

// The results of writes.

impl PullJobs {
    pub(in crate::warm::jobs) fn written(
        &mut self,
        (write, answer): (PullWrite, PullAnswer),
        now: Now,
    ) {
        let moment = now.moment;
        match write {
            PullWrite::Warm {
                key,
                warmers,
                node,
                action,
            } => {
                let answer = answer.map(|stored| stored.pod);
                self.jobs.with(&key, moment, |entry| {
                    entry.warmed(&warmers, &node, &action, answer, moment)
                });
            }
            PullWrite::Report { job, report } => {
                let mut stored = None;
                let result = answer.map(|answer| stored = answer.job);
                self.with_job(&job, moment, |entry| {
                    entry.reported(&job, &report, result, moment)
                });
                stored
                    .into_iter()
                    .for_each(|stored| self.answered(&job, *stored, moment));
            }
            PullWrite::DeleteJob(job) => {
                let answer = answer.map(drop);
                self.with_job(&job, moment, |entry| entry.was_deleted(&answer, moment));
            }
            PullWrite::Release(job) => self.released(&job, &answer.map(drop), moment),
            PullWrite::Untaint(untaint) => self.untainted(&untaint, &answer.map(drop), moment),
            PullWrite::CreateCache(cache) => {
                let answer = answer.map(drop);
                self.caches
                    .iter_mut()
                    .for_each(|caches| caches.was_written(&cache, &answer, moment));
            }
            PullWrite::DeletePod(pod) => {
                self.deletion_was_answered(&pod, &answer.map(drop), moment)
            }
        }
    }

    /// Runs `work` on the job that a write was for; not on another one that has its name by now.
    fn with_job(&mut self, job: &PullJob, now: Moment, work: impl FnOnce(&mut Entry)) {
        self.jobs.with(&key_of(job), now, |entry| {
            if *entry.uid() == *job.uid {
                work(entry);
            }
        });
    }
}

// The watch events of jobs, pods and image caches.

impl PullJobs {
    pub(in crate::warm::jobs) fn see_caches(
        &mut self,
        are_served: bool,
        event: Event<BoundedObject>,
        now: Moment,
    ) {
        let Some(caches) = &mut self.caches else {
            return;
        };
        caches.observe(are_served, event, now);
        let may_be_served = caches.may_be_served();
        if self.nodes.uses_image_caches != may_be_served {
            self.nodes.uses_image_caches = may_be_served;
            self.jobs
                .all
                .values_mut()
                .for_each(Entry::nodes_have_changed);
        }
    }

    pub(super) fn see_job(&mut self, kind: JobKind, event: Event<BoundedObject>, now: Moment) {
        let read = |job| {
            let job = read("job", || PullJob::read(kind, job))?;
            Some(allowed(job, &self.settings))
        };
        let jobs = self.objects.entry(kind).or_default();
        let changes = jobs.observe(event, now, read);
        self.follow(kind, changes);
    }

    /// Handles the answer to a write of the status of `job`.
    fn answered(&mut self, job: &PullJob, stored: PullJob, now: Moment) {
        let state = (stored.uid.clone(), stored.version.clone());
        let stored = allowed(stored, &self.settings);
        let jobs = self.objects.entry(job.kind).or_default();
        let changes = jobs.answered(object_key(job), state, &job.version, stored, now);
        self.follow(job.kind, changes);
    }

    /// Handles changes of jobs, by the watch or by an answer.
    fn follow(&mut self, kind: JobKind, changes: Changes<Arc<PullJob>, Release>) {
        for (_, job, _) in changes.gone {
            self.jobs.all.remove(&key_of(&job));
        }
        let jobs = self.objects.get_mut(&kind);
        if let Some((key, before)) = changes.put
            && let Some((job, release)) = jobs.and_then(|jobs| jobs.get_mut(&key))
        {
            // One removal at a time.
            let is_new = before.is_some_and(|before| before.version != job.version);
            if is_new && release.not_before < Moment::NEVER {
                *release = Release::default();
            }
            let job = job.clone();
            self.apply(job);
        }
    }

    pub(super) fn apply(&mut self, job: Arc<PullJob>) {
        let key = key_of(&job);
        if job.deleting {
            self.jobs.all.remove(&key);
            return;
        }
        match self.jobs.all.get_mut(&key) {
            Some(entry) => entry.apply(job),
            None => drop(self.jobs.all.insert(key, Entry::new(job))),
        }
    }

    pub(in crate::warm::jobs) fn observe_pod(&mut self, event: Event<WarmerPodWire>, now: Moment) {
        let read = |pod: WarmerPodWire| read("pod", || pod.read());
        let changes = self.pods.observe(event, now, read);
        for (_, pod, _) in changes.gone {
            self.jobs.each(now, |_, entry| {
                if let Some(warming) = entry.warming_mut() {
                    warming.pod_is_gone(&pod.uid, now);
                }
            });
        }
        if let Some((key, before)) = changes.put
            && let Some((pod, deletion)) = self.pods.get_mut(&key)
        {
            self.jobs.each(now, |_, entry| entry.observe_pod(pod, now));
            if pod.deleting && before.is_none_or(|before| !before.deleting) {
                let again = now + LEAVE;
                *deletion = Some(Deletion { since: now, again });
            }
        }
    }
}

/// Returns a job whose pods have only the labels and annotations that jobs may give them.
fn allowed(mut job: PullJob, settings: &WarmSettings) -> Arc<PullJob> {
    if let Ok(spec) = &mut job.spec {
        settings.sandbox_keys.keep_to(&mut spec.pods);
    }
    job.into()
}
