//! What nodes do, by hand or by a small kubelet.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::sleep;

use super::harness::World;

/// When containers end here, whenever that is, in seconds since 1970.
const ENDED: i64 = 1_767_225_660;

/// A kubelet of few words: it sees a changed image within a second, stops the old container and
/// runs the exit image.
#[derive(Clone, Debug)]
pub struct Kubelet {
    /// The exit code of containers that it stops.
    pub stop_code: i64,
    /// Whether images can be pulled.
    pub pulls: bool,
    /// Whether it shows the stop before it starts anything, and judges a pod under `Never` by it,
    /// as virtual nodes may.
    pub shows_stop: bool,
    /// How far its clock is ahead, in seconds.
    pub clock_ahead: i64,
}

impl Default for Kubelet {
    fn default() -> Self {
        Self {
            stop_code: 0,
            pulls: true,
            shows_stop: false,
            clock_ahead: 0,
        }
    }
}

impl World {
    /// Creates a pod and runs all its containers.
    pub async fn run_pod(&self, pod: &Value) {
        self.create(pod).await;
        let name = pod["metadata"]["name"].as_str().unwrap();
        self.run_containers(name).await;
    }

    /// The node reports all containers of a pod as running.
    pub async fn run_containers(&self, name: &str) {
        let statuses: Vec<_> = self.get(name)["spec"]["containers"]
            .as_array()
            .unwrap()
            .iter()
            .map(|container| status(container, running()))
            .collect();
        self.set_status(
            name,
            json!({"phase": "Running", "containerStatuses": statuses}),
        )
        .await;
    }

    /// A container ends by itself.
    pub async fn ends(&self, name: &str, container: &str, code: i64) {
        self.becomes(name, container, terminated(code, 0)).await;
    }

    /// The same, reported with the time of day.
    pub async fn ends_now(&self, name: &str, container: &str, code: i64) {
        let ahead = self.server.clock().now().as_second() - ENDED;
        self.becomes(name, container, terminated(code, ahead)).await;
    }

    /// A container waits for its next start.
    pub async fn waits(&self, name: &str, container: &str, reason: &str, message: &str) {
        self.becomes(
            name,
            container,
            json!({"waiting": {"reason": reason, "message": message}}),
        )
        .await;
    }

    /// A container runs, again.
    pub async fn runs(&self, name: &str, container: &str) {
        self.becomes(name, container, running()).await;
    }

    async fn becomes(&self, name: &str, container: &str, state: Value) {
        let pod = self.get(name);
        let mut statuses = statuses(&pod);
        let status = statuses
            .iter_mut()
            .find(|status| status["name"] == container)
            .unwrap();
        status["lastState"] = json!({"terminated": status["state"]["terminated"]});
        status["state"] = state;
        self.report(&pod, statuses).await;
    }

    /// Writes statuses and the phase that a kubelet derives from them.
    async fn report(&self, pod: &Value, statuses: Vec<Value>) {
        let name = pod["metadata"]["name"].as_str().unwrap();
        let phase = phase(pod, &statuses);
        self.set_status(name, json!({"phase": phase, "containerStatuses": statuses}))
            .await;
    }

    /// Runs a kubelet for all pods of the namespace `default`.
    pub fn start_kubelet(&self, kubelet: Kubelet) {
        let world = self.clone();
        tokio::spawn(async move {
            let mut seen = 0;
            loop {
                sleep(Duration::from_secs(1)).await;
                if world.server.revision() != seen {
                    seen = world.server.revision();
                    kubelet.look(&world).await;
                }
            }
        });
    }
}

impl Kubelet {
    async fn look(&self, world: &World) {
        for pod in world
            .server
            .peek_all("pods")
            .iter()
            .filter(|pod| pod["metadata"]["namespace"] == "default" && !is_over(pod))
        {
            let mut changed = false;
            let mut now = statuses(pod);
            for container in pod["spec"]["containers"].as_array().unwrap() {
                let Some(status) = now
                    .iter_mut()
                    .find(|status| status["name"] == container["name"])
                else {
                    continue;
                };
                if container["image"] != status["image"] && status["state"]["terminated"].is_null()
                {
                    changed |= self.replace(container, status);
                }
            }
            if changed {
                world.report(pod, now).await;
            }
        }
    }

    /// Stops the old container and runs the new image to its end; whether that changed anything.
    fn replace(&self, container: &Value, status: &mut Value) -> bool {
        let before = status.clone();
        let name = container["name"].as_str().unwrap();
        if !before["state"]["running"].is_null() {
            status["state"] = terminated(self.stop_code, self.clock_ahead);
            if self.shows_stop || (!self.pulls && self.stop_code == 0) {
                return true;
            }
            status["lastState"] = status["state"].clone();
        }
        if self.pulls {
            let restarts = before["restartCount"].as_i64().unwrap() + 1;
            status["restartCount"] = restarts.into();
            status["containerID"] = format!("containerd://{name}-{restarts}").into();
            status["image"] = container["image"].clone();
            status["state"] = terminated(0, self.clock_ahead);
        } else {
            let image = container["image"].as_str().unwrap();
            let message = format!("failed to pull and unpack image \"{image}\": not found");
            status["state"] = json!({"waiting": {"reason": "ErrImagePull", "message": message}});
        }
        *status != before
    }
}

fn is_over(pod: &Value) -> bool {
    pod["status"]["phase"] == "Succeeded" || pod["status"]["phase"] == "Failed"
}

fn statuses(pod: &Value) -> Vec<Value> {
    pod["status"]["containerStatuses"]
        .as_array()
        .cloned()
        .unwrap_or_default()
}

/// The status of a container that was started once.
pub fn status(container: &Value, state: Value) -> Value {
    let (name, image) = (&container["name"], &container["image"]);
    let id = format!("containerd://{}-0", name.as_str().unwrap());
    json!({"name": name, "image": image, "imageID": "", "containerID": id, "ready": false, "restartCount": 0, "state": state})
}

pub fn running() -> Value {
    json!({"running": {"startedAt": "2026-01-01T00:00:00Z"}})
}

/// An end, by a clock that is so many seconds ahead.
pub fn terminated(code: i64, clock_ahead: i64) -> Value {
    let time = jiff::Timestamp::from_second(ENDED + clock_ahead)
        .unwrap()
        .to_string();
    let reason = if code == 0 { "Completed" } else { "Error" };
    json!({"terminated": {"exitCode": code, "reason": reason, "startedAt": time, "finishedAt": time}})
}

/// The kubelet's rules for the phase of a pod.
fn phase(pod: &Value, statuses: &[Value]) -> &'static str {
    let codes: Vec<_> = statuses
        .iter()
        .map(|status| status["state"]["terminated"]["exitCode"].as_i64())
        .collect();
    let never_ran = |status: &Value| {
        !status["state"]["waiting"].is_null() && status["lastState"]["terminated"].is_null()
    };
    if codes.iter().all(|code| *code == Some(0)) {
        "Succeeded"
    } else if codes.iter().all(Option::is_some) && pod["spec"]["restartPolicy"] == "Never" {
        "Failed"
    } else if statuses.iter().any(never_ran) {
        "Pending"
    } else {
        "Running"
    }
}
