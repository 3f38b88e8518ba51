//! Builds pods as the API server sends them. They are read through the decoder, so every test tests
//! it along.

use serde_json::{Value, json};
use swaplet_core::objects::pod::Pod;
use swaplet_core::objects::pod::wire::PodWire;
use swaplet_core::objects::runs_on::RunsOn;
use swaplet_core::objects::values::env::{WHEN_JOB_EXIT, WITH_IMAGE};
use swaplet_core::policies::set::Policies;

use crate::expect::EXIT;

/// A pod of namespace `batch` with uid `uid-1`, Running.
#[derive(Clone, Debug)]
pub struct PodBuilder {
    containers: Vec<ContainerBuilder>,
    extra_statuses: Vec<Value>,
    statuses_reversed: bool,
    json: Value,
}

/// A container with its status.
#[derive(Clone, Debug)]
pub struct ContainerBuilder {
    spec: Value,
    status: Option<Value>,
}

pub fn pod(restart_policy: &str) -> PodBuilder {
    let json = json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"namespace": "batch", "name": "job-x7k2p", "uid": "uid-1", "resourceVersion": "7", "labels": {"job-name": "job"}},
        "spec": {"restartPolicy": restart_policy, "nodeName": "node-1"},
        "status": {"phase": "Running"},
    });
    PodBuilder {
        containers: Vec::new(),
        extra_statuses: Vec::new(),
        statuses_reversed: false,
        json,
    }
}

/// A container without a mark.
pub fn main_container(name: &str) -> ContainerBuilder {
    let image = format!("registry.example/app/{name}:v1");
    let spec =
        json!({"name": name, "image": image, "env": [{"name": "PASSWORD", "value": "hunter2"}]});
    let status = json!({"name": name, "image": image, "containerID": format!("containerd://{name}-1"), "restartCount": 0, "state": {}});
    ContainerBuilder {
        spec,
        status: Some(status),
    }
}

/// A container marked by the plain variable.
pub fn sidecar(name: &str) -> ContainerBuilder {
    main_container(name).env(WHEN_JOB_EXIT, "true")
}

/// A container marked by the variable that names an image, and not by the plain one.
pub fn sidecar_with_image(name: &str, image: &str) -> ContainerBuilder {
    main_container(name).env(WITH_IMAGE, image)
}

impl PodBuilder {
    pub fn with(mut self, container: ContainerBuilder) -> Self {
        self.containers.push(container);
        self
    }

    /// Puts any value at a place such as `/status/phase`; the parent has to be there.
    pub fn set(mut self, place: &str, value: impl Into<Value>) -> Self {
        let (parent, key) = place.rsplit_once('/').unwrap();
        self.json.pointer_mut(parent).unwrap()[key] = value.into();
        self
    }

    pub fn phase(self, phase: &str) -> Self {
        self.set("/status/phase", phase)
    }

    /// Puts an annotation to it.
    pub fn annotation(mut self, key: &str, value: impl Into<Value>) -> Self {
        self.json["metadata"]["annotations"][key] = value.into();
        self
    }

    pub fn deleting(self) -> Self {
        self.set("/metadata/deletionTimestamp", "2025-01-01T00:00:00Z")
    }

    pub fn grace(self, seconds: i64) -> Self {
        self.set("/spec/terminationGracePeriodSeconds", seconds)
    }

    /// A status that belongs to no container of `spec.containers`, before all others.
    pub fn extra_status(mut self, status: Value) -> Self {
        self.extra_statuses.push(status);
        self
    }

    pub fn statuses_reversed(mut self) -> Self {
        self.statuses_reversed = true;
        self
    }

    /// The same pod in which a container has changed.
    pub fn but(
        mut self,
        name: &str,
        change: impl FnOnce(ContainerBuilder) -> ContainerBuilder,
    ) -> Self {
        let at = self
            .containers
            .iter()
            .position(|c| c.spec["name"] == name)
            .unwrap();
        let changed = change(self.containers[at].clone());
        self.containers[at] = changed;
        self
    }

    pub fn image_of(&self, name: &str) -> &str {
        self.containers
            .iter()
            .find(|c| c.spec["name"] == name)
            .and_then(|c| c.spec["image"].as_str())
            .unwrap()
    }

    pub fn json(&self) -> Value {
        let mut json = self.json.clone();
        if !self.containers.is_empty() {
            json["spec"]["containers"] = self.containers.iter().map(|c| c.spec.clone()).collect();
        }
        let mut statuses: Vec<_> = self
            .extra_statuses
            .iter()
            .cloned()
            .chain(self.containers.iter().filter_map(|c| c.status.clone()))
            .collect();
        if self.statuses_reversed {
            statuses.reverse();
        }
        if !statuses.is_empty() {
            json["status"]["containerStatuses"] = statuses.into();
        }
        json
    }

    pub fn read(&self) -> Pod {
        read(self.json()).expect("it has a name and a uid")
    }

    /// Reads it where there are these policies.
    pub fn read_under(&self, policies: &mut Policies) -> Pod {
        let mut pod = serde_json::from_value::<PodWire>(self.json())
            .expect("every object decodes")
            .read_with(|pod, labels| policies.mark(pod, labels, |one| *one.image == *EXIT))
            .expect("it has a name and a uid");
        pod.node_runs_on = self.read().node_runs_on;
        pod
    }
}

/// Reads a pod as a list does, on an ordinary node, or on one of the system that it names.
pub fn read(json: Value) -> Option<Pod> {
    let system = json["spec"]["os"]["name"].as_str().unwrap_or("linux");
    let runs_on = RunsOn::named(Some(system), Some("amd64"));
    let mut pod = serde_json::from_value::<PodWire>(json)
        .expect("every object decodes")
        .read()?;
    pod.node_runs_on = runs_on;
    Some(pod)
}

impl ContainerBuilder {
    pub fn env(self, name: &str, value: &str) -> Self {
        self.env_entry(json!({"name": name, "value": value}))
    }

    pub fn env_entry(mut self, entry: Value) -> Self {
        self.spec["env"].as_array_mut().unwrap().push(entry);
        self
    }

    /// Puts any value into the container's spec.
    pub fn spec(mut self, key: &str, value: impl Into<Value>) -> Self {
        self.spec[key] = value.into();
        self
    }

    /// Puts any value into the container's status.
    pub fn status(mut self, key: &str, value: impl Into<Value>) -> Self {
        self.status.as_mut().expect("there is a status")[key] = value.into();
        self
    }

    /// The spec's image.
    pub fn image(self, image: &str) -> Self {
        self.spec("image", image)
    }

    pub fn no_status(mut self) -> Self {
        self.status = None;
        self
    }

    /// None of the three members of `state` is set: what OpenKruise's tests call uncompleted.
    pub fn uncompleted(self) -> Self {
        self.status("state", json!({}))
    }

    pub fn running(self) -> Self {
        self.running_since("2025-01-01T00:00:00Z")
    }

    pub fn running_since(self, time: &str) -> Self {
        self.status("state", json!({"running": {"startedAt": time}}))
    }

    pub fn waiting(self, reason: &str, message: &str) -> Self {
        self.status(
            "state",
            json!({"waiting": {"reason": reason, "message": message}}),
        )
    }

    pub fn ended(self, code: i64) -> Self {
        let reason = if code == 0 { "Completed" } else { "Error" };
        self.ended_as(code, reason)
    }

    pub fn ended_as(self, code: i64, reason: &str) -> Self {
        let state = json!({"terminated": {"exitCode": code, "reason": reason, "startedAt": "2025-01-01T00:00:00Z", "finishedAt": "2025-01-01T00:01:00Z"}});
        self.status("state", state)
    }

    pub fn last_ended(self, code: i64) -> Self {
        self.status(
            "lastState",
            json!({"terminated": {"exitCode": code, "reason": "Error"}}),
        )
    }

    /// What a kubelet shows once another container runs: another containerID, one more restart and
    /// the image that runs.
    pub fn restarted_as(self, image: &str, nth: u32) -> Self {
        let name = self.spec["name"].as_str().unwrap().to_owned();
        self.status("containerID", format!("containerd://{name}-{}", nth + 1))
            .status("restartCount", nth)
            .status("image", image)
    }
}
