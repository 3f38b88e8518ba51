//! A pod, its provider and just enough of an API server.

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::virtual_node::action::Action;
use crate::virtual_node::images::{ImageOptions, Images};
use crate::virtual_node::provider::{ProviderOptions, VirtualKubelet};
use crate::virtual_node::times::later;
use crate::virtual_node::trace::Trace;

pub struct World {
    pub pod: Value,
    pub node: VirtualKubelet,
    pub images: Images,
    pub trace: Trace,
    pub events: Vec<String>,
    pub now: Timestamp,
    pub deleted: bool,
}

pub fn pod(policy: &str) -> Value {
    json!({"metadata": {"name": "p", "namespace": "default", "uid": "u", "resourceVersion": "1", "labels": {"a": "1"}},
        "spec": {"restartPolicy": policy, "terminationGracePeriodSeconds": 4, "containers": [
            {"name": "main", "image": "work:1", "args": ["run=1s"]}, {"name": "side", "image": "work:1", "args": ["term=143"]}]},
        "status": {"phase": "Pending"}})
}

impl World {
    pub fn new(policy: &str, options: ProviderOptions) -> Self {
        let now = Timestamp::from_millisecond(1_000_000_300).unwrap();
        let pod = pod(policy);
        let node = VirtualKubelet::new(options, &pod, now);
        Self {
            pod,
            node,
            images: Images::new(ImageOptions::default()),
            trace: Trace::default(),
            events: Vec::new(),
            now,
            deleted: false,
        }
    }

    /// After the main container's end.
    pub fn ready(policy: &str, options: ProviderOptions) -> Self {
        let mut world = Self::new(policy, options);
        world.run(11.0);
        assert_eq!(
            (world.phase(), world.state("main").as_str()),
            ("Running", "terminated(0) work:1 rc0")
        );
        world.events.clear();
        world
    }

    pub fn run(&mut self, seconds: f64) {
        let until = later(self.now, std::time::Duration::from_secs_f64(seconds));
        self.act();
        while let Some(at) = self.node.wake().filter(|at| *at <= until) {
            self.now = self.now.max(at);
            self.act();
        }
        self.now = until;
    }

    pub fn act(&mut self) {
        for action in self.node.advance(&mut self.images, self.now) {
            match action {
                Action::PutStatus(new) => {
                    for field in ["labels", "annotations"] {
                        self.pod["metadata"][field] = new["metadata"][field].clone();
                    }
                    self.pod["status"] = new["status"].clone();
                    self.shown();
                }
                Action::Event(event) => self.events.push(event.reason.to_owned()),
                Action::Delete => self.deleted = true,
                Action::PatchStatus(_) => panic!("a virtual-kubelet puts"),
            }
        }
    }

    pub fn shown(&mut self) {
        self.trace.push(&self.pod);
        self.node.see(&self.pod, self.now);
    }

    pub fn swap(&mut self) {
        self.pod["spec"]["containers"][1]["image"] = json!("exit:1");
        self.shown();
    }

    pub fn phase(&self) -> &str {
        self.pod["status"]["phase"].as_str().unwrap()
    }

    pub fn state(&self, name: &str) -> String {
        self.trace
            .last()
            .unwrap()
            .container(name)
            .unwrap()
            .to_string()
    }
}
