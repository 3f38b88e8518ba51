//! A pod, its kubelet and just enough of an API server.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::super::{Kubelet, KubeletOptions, KubeletVersion};
use crate::virtual_node::action::Action;
use crate::virtual_node::images::{ImageOptions, Images};
use crate::virtual_node::times::later;
use crate::virtual_node::trace::Trace;

/// A pod and its kubelet.
pub struct World {
    pub pod: Value,
    pub kubelet: Kubelet,
    pub images: Images,
    pub trace: Trace,
    /// `reason message` of every event.
    pub events: Vec<String>,
    pub now: Timestamp,
    pub deleted: bool,
}

const START: i64 = 1_000_000;

pub fn image_options() -> ImageOptions {
    let pattern = |text: &str| text.parse().unwrap();
    ImageOptions {
        exit_paths: vec!["/work".into()],
        missing: vec![pattern("nowhere/*")],
        ..ImageOptions::default()
    }
}

/// A pod with a main container that ends after a second and a sidecar.
pub fn pod(policy: &str, side: &str) -> Value {
    let words = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
    json!({"metadata": {"name": "p", "namespace": "default", "uid": "u-1", "generation": 1},
        "spec": {"restartPolicy": policy, "terminationGracePeriodSeconds": 4, "containers": [
            {"name": "main", "image": "work:1", "command": ["/work"], "args": ["run=1s"]},
            {"name": "side", "image": "work:1", "command": ["/work"], "args": words(side)}]},
        "status": {"phase": "Pending"}})
}

impl World {
    pub fn new(pod: Value) -> Self {
        Self::with(pod, KubeletOptions::default(), image_options())
    }

    pub fn of(version: KubeletVersion, pod: Value) -> Self {
        Self::with(pod, KubeletOptions::of(version), image_options())
    }

    pub fn with(pod: Value, options: KubeletOptions, images: ImageOptions) -> Self {
        let now = Timestamp::from_millisecond(START * 1000 + 300).unwrap();
        let kubelet = Kubelet::new(options, &pod, now);
        Self {
            pod,
            kubelet,
            images: Images::new(images),
            trace: Trace::default(),
            events: Vec::new(),
            now,
            deleted: false,
        }
    }

    /// A world in which the main container has ended.
    pub fn after_main(policy: &str, side: &str) -> Self {
        let mut world = Self::new(pod(policy, side));
        world.run(5.0);
        world
    }

    /// Lets time pass.
    pub fn run(&mut self, seconds: f64) {
        let until = later(self.now, std::time::Duration::from_secs_f64(seconds));
        self.act();
        while let Some(at) = self.kubelet.wake().filter(|at| *at <= until) {
            self.now = self.now.max(at);
            self.act();
        }
        self.now = until;
    }

    fn act(&mut self) {
        for action in self.kubelet.advance(&mut self.images, self.now) {
            match action {
                Action::PatchStatus(status) => self.write_status(status),
                Action::Event(event) => self
                    .events
                    .push(format!("{} {}", event.reason, event.message)),
                Action::Delete => self.deleted = true,
                Action::PutStatus(_) => panic!("a kubelet patches"),
            }
        }
    }

    fn write_status(&mut self, status: Value) {
        for (field, value) in status.as_object().unwrap() {
            self.pod["status"][field] = value.clone();
        }
        self.shown();
    }

    fn shown(&mut self) {
        self.trace.push(&self.pod);
        self.kubelet.see(&self.pod, self.now);
    }

    /// A patch of the pod by somebody.
    pub fn patch(&mut self, pointer: &str, value: Value) {
        *self.pod.pointer_mut(pointer).unwrap() = value;
        self.pod["metadata"]["generation"] =
            json!(self.pod["metadata"]["generation"].as_i64().unwrap() + 1);
        self.shown();
    }

    /// A new image for the container at this place.
    pub fn swap(&mut self, index: usize, image: &str) {
        self.patch(&format!("/spec/containers/{index}/image"), json!(image));
    }

    /// An annotation: a change that is none of the spec.
    pub fn nudge(&mut self) {
        self.pod["metadata"]["annotations"] = json!({"nudged": self.now.to_string()});
        self.shown();
    }

    /// Somebody writes the phase.
    pub fn write_phase(&mut self, phase: &str) {
        self.pod["status"]["phase"] = json!(phase);
        self.shown();
    }

    pub fn delete(&mut self) {
        self.pod["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        self.pod["metadata"]["deletionGracePeriodSeconds"] = json!(4);
        self.shown();
    }

    pub fn phase(&self) -> &str {
        self.pod["status"]["phase"].as_str().unwrap()
    }

    /// The container in words.
    pub fn state(&self, name: &str) -> String {
        self.trace
            .last()
            .unwrap()
            .container(name)
            .unwrap()
            .to_string()
    }

    /// The seconds until this phase.
    pub fn seconds_until(&mut self, phase: &str) -> f64 {
        let start = self.now;
        while self.phase() != phase {
            let at = self
                .kubelet
                .wake()
                .unwrap_or_else(|| panic!("stays {} : {}", self.phase(), self.pod["status"]));
            self.now = self.now.max(at);
            self.act();
            assert!(
                self.now < later(start, std::time::Duration::from_secs(600)),
                "stays {}",
                self.phase()
            );
        }
        self.now.duration_since(start).as_secs_f64()
    }
}
