//! The watch events of jobs, pods and image caches.

use swaplet_core::objects::moment::Moment;
use swaplet_core::objects::values::bounded_object::BoundedObject;
use swaplet_core::warm::pod::WarmerPodWire;
use swaplet_core::warm::pull_job::object::{JobKind, PullJob};
use swaplet_core::warm::warming::LEAVE;

use crate::frame::isolated::read;
use crate::frame::watch::Event;
use crate::frame::watch::mirror::Change;
use crate::warm::jobs::PullJobs;
use crate::warm::jobs::caches::CacheNews;
use crate::warm::jobs::entry::Entry;
use crate::warm::jobs::step::orphans::Deletion;
use crate::warm::jobs::{Key, key_of};

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
        let of_kind = |key: &&Key| key.0 == kind;
        let jobs = self.jobs.all.iter();
        let with_object = jobs.filter(|(_, entry)| entry.has_object());
        let known = with_object
            .map(|(key, _)| key)
            .chain(self.finalizers.keys())
            .filter(of_kind)
            .cloned();
        let read = |job| {
            let job = read("job", || PullJob::read(kind, job))?;
            Some((key_of(&job), job))
        };
        let mirror = self.job_mirrors.entry(kind).or_default();
        match mirror.change(event, known, read) {
            Some(Change::Put(job)) => self.apply(job),
            Some(Change::Gone(keys)) => {
                for key in keys {
                    self.finalizers.forget(&key);
                    self.jobs.all.remove(&key);
                }
            }
            None => {}
        }
    }

    pub(in crate::warm::jobs) fn apply(&mut self, mut job: PullJob) {
        if let Ok(spec) = &mut job.spec {
            self.settings.sandbox_keys.keep_to(&mut spec.pods);
        }
        let key = key_of(&job);
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

    pub(in crate::warm::jobs) fn observe_pod(&mut self, event: Event<WarmerPodWire>, now: Moment) {
        let read = |pod: WarmerPodWire| {
            let pod = read("pod", || pod.read())?;
            Some((pod.uid.clone(), pod))
        };
        // A pod may have lost the annotations by which it is read before it was deleted.
        let deleted: Option<Box<str>> = match &event {
            Event::Deleted(pod) => pod.uid().map(Into::into),
            _ => None,
        };
        let known = self.pods.keys().cloned();
        match self.pod_mirror.change(event, known, read) {
            Some(Change::Put(pod)) => {
                self.jobs.each(now, |_, entry| entry.observe_pod(&pod, now));
                let uid = pod.uid.clone();
                if pod.deleting && self.pods.get(&uid).is_none_or(|known| !known.deleting) {
                    self.deletions.insert(
                        uid.clone(),
                        Deletion {
                            since: now,
                            again: now + LEAVE,
                        },
                    );
                }
                self.pods.insert(uid, pod);
            }
            Some(Change::Gone(uids)) => uids.iter().for_each(|uid| self.pod_is_gone(uid, now)),
            None => deleted.iter().for_each(|uid| self.pod_is_gone(uid, now)),
        }
    }

    fn pod_is_gone(&mut self, uid: &str, now: Moment) {
        self.pods.remove(uid);
        self.deletions.remove(uid);
        self.jobs.each(now, |_, entry| entry.pod_is_gone(uid, now));
    }
}
