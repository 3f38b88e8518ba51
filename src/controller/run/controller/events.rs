//! Events of pods, Jobs and OpenKruise, applied to the index.

use swaplet_core::objects::job::JobWire;
use swaplet_core::objects::moment::Moment;
use swaplet_core::objects::pod::wire::PodWire;

use super::Controller;
use crate::cluster::openkruise::News;
use crate::frame::isolated::read;
use crate::frame::watch::Event;
use crate::terminate::job_events::take_notice;

impl Controller {
    pub(in crate::run) fn observe(&mut self, event: Event<PodWire>) {
        let now = self.clock.now();
        self.metrics.count_trouble("pods", &event);
        self.health.note_pods(&event);
        self.health.note_hidden("pods", &event);
        match event {
            Event::ListStart => self.index.list_starts(),
            Event::Listed(pod) | Event::Applied(pod) => self.apply(pod, now),
            Event::ListEnd => {
                self.reported.reached();
                self.index.list_ends(now);
            }
            Event::Relists(true) => self.index.part_list_starts(),
            Event::Relists(false) => self.index.part_list_ends(now),
            Event::Current(_) => self.reported.reached(),
            Event::Deleted(pod) => {
                if let Some(pod) = read("pod", || pod.read()) {
                    self.index.remove(&pod, now);
                }
            }
            Event::Trouble(error) | Event::Forbidden(error) => {
                self.report_trouble(&error, "cannot watch pods; trying again");
            }
            Event::Hidden(error) => {
                self.report_trouble(
                    &error,
                    "cannot watch pods of a namespace, so nothing is done there; trying again",
                );
            }
        }
    }

    pub(in crate::run) fn see_job(&mut self, event: Event<JobWire>) {
        self.metrics.count_trouble("jobs", &event);
        // A missing right would be logged every 15 s forever.
        let is_new_trouble = self.health.note_jobs(&event);
        self.health.note_hidden("jobs", &event);
        match &event {
            Event::Hidden(error) => {
                self.report_trouble(error, "cannot watch Jobs of a namespace, so pods of Jobs under OnFailure wait there; trying again");
            }
            Event::Trouble(error) | Event::Forbidden(error) if is_new_trouble => {
                self.report_trouble(error, "cannot watch Jobs, so pods of Jobs under OnFailure may have to wait; trying again");
            }
            _ => {}
        }
        self.index
            .jobs(|headroom| take_notice(headroom, event), self.clock.now());
    }

    fn apply(&mut self, pod: PodWire, now: Moment) {
        let index = &mut self.index;
        let Some(pod) = read("pod", || {
            index.read_pod(pod).or_else(|| {
                tracing::warn!(
                    "an object of the watch has no name, namespace or uid; it is left alone"
                );
                None
            })
        }) else {
            return;
        };
        self.index.apply(pod, now);
    }

    pub(in crate::run) fn handle(&mut self, news: News) {
        self.note_rights_beside_openkruise(&news);
        self.index.handle(news, self.clock.now());
    }
}
