//! The watch events of jobs, pods and image caches.

use std::time::Duration;

use swaplet_core::objects::values::bounded_object::BoundedObject;
use swaplet_core::warm::pod::WarmerPodWire;
use swaplet_core::warm::pull_job::object::{JobKind, PullJob};

use crate::frame::isolated::defects::read;
use crate::frame::watch::Event;
use crate::warm::jobs::PullJobs;
use crate::warm::jobs::caches::CacheNews;
use crate::warm::jobs::entry::Entry;
use crate::warm::jobs::messages::key_of;

impl PullJobs {
    pub(in crate::warm::jobs) fn see_caches(&mut self, news: CacheNews) {
        let Some(caches) = &mut self.caches else {
            return;
        };
        caches.observe(news);
        let may_be_served = caches.may_be_served();
        if self.nodes.uses_image_caches != may_be_served {
            self.nodes.uses_image_caches = may_be_served;
            self.jobs
                .all
                .values_mut()
                .for_each(Entry::nodes_have_changed);
        }
    }

    pub(in crate::warm::jobs) fn see_job(&mut self, kind: JobKind, event: Event<BoundedObject>) {
        match event {
            Event::ListStart => {
                let listed = self
                    .jobs
                    .all
                    .iter()
                    .filter(|(key, entry)| key.0 == kind && entry.has_object());
                let listed = listed
                    .map(|(key, _)| key)
                    .chain(self.finalizers.keys().filter(|key| key.0 == kind));
                self.lists.insert(kind, listed.cloned().collect());
            }
            Event::Listed(job) | Event::Applied(job) => {
                if let Some(job) = read("job", || PullJob::read(kind, job)) {
                    self.apply(job);
                }
            }
            Event::ListEnd => {
                self.jobs_seen.insert(kind);
                for key in self.lists.remove(&kind).unwrap_or_default() {
                    self.finalizers.forget(&key);
                    self.jobs.all.remove(&key);
                }
            }
            Event::Deleted(job) => {
                if let Some(job) = read("job", || PullJob::read(kind, job)) {
                    self.finalizers.forget(&key_of(&job));
                    self.jobs.all.remove(&key_of(&job));
                }
            }
            Event::Current(_) | Event::Trouble(_) | Event::Forbidden(_) | Event::Hidden(_) => {}
        }
    }

    pub(in crate::warm::jobs) fn apply(&mut self, mut job: PullJob) {
        if let Ok(spec) = &mut job.spec {
            self.settings.sandbox_keys.keep_to(&mut spec.pods);
        }
        let key = key_of(&job);
        if let Some(list) = self.lists.get_mut(&job.kind) {
            list.remove(&key);
        }
        self.finalizers.observe(&key, &job);
        if job.deleting {
            self.jobs.all.remove(&key);
            return;
        }
        match self
            .jobs
            .all
            .get_mut(&key)
            .filter(|entry| entry.uid() == &*job.uid)
        {
            Some(entry) => entry.apply(job),
            None => drop(self.jobs.all.insert(key, Entry::new(job))),
        }
    }

    pub(in crate::warm::jobs) fn observe_pod(
        &mut self,
        event: Event<WarmerPodWire>,
        now: Duration,
    ) {
        match event {
            Event::ListStart => self.pod_list = self.pods.keys().cloned().collect(),
            Event::Listed(pod) | Event::Applied(pod) => {
                if let Some(pod) = read("pod", || pod.read()) {
                    self.pod_list.remove(&pod.uid);
                    self.jobs.each(now, |_, entry| entry.observe_pod(&pod, now));
                    self.pods.insert(pod.uid.clone(), pod);
                }
            }
            Event::ListEnd => {
                self.pods_seen = true;
                std::mem::take(&mut self.pod_list)
                    .iter()
                    .for_each(|uid| self.pod_is_gone(uid, now));
            }
            Event::Deleted(pod) => {
                if let Some(pod) = read("pod", || pod.read()) {
                    self.pod_is_gone(&pod.uid, now);
                }
            }
            Event::Current(_) | Event::Trouble(_) | Event::Forbidden(_) | Event::Hidden(_) => {}
        }
    }

    fn pod_is_gone(&mut self, uid: &str, now: Duration) {
        self.pods.remove(uid);
        self.deletions.remove(uid);
        self.jobs.each(now, |_, entry| entry.pod_is_gone(uid, now));
    }
}
