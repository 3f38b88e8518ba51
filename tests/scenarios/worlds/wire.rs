//! Pods as the API server shows them.

use serde_json::{Map, Value, json};

use super::objects::{Container, EPOCH, Kind, LISTED, Pod, State};
use super::world::World;

fn stamp(ms: u64) -> String {
    let second = EPOCH + i64::try_from(ms / 1000).unwrap();
    jiff::Timestamp::from_second(second).unwrap().to_string()
}

impl World {
    /// The pod as its object is now.
    pub fn json(&self, at: usize) -> Value {
        let pod = &self.pods[at];
        let mut metadata = json!({
            "namespace": self.namespaces[pod.namespace].name,
            "name": pod.name,
            "uid": pod.uid,
            "resourceVersion": pod.version.to_string(),
            "creationTimestamp": stamp(0),
            "annotations": pod.annotations,
            "ownerReferences": [{
                "apiVersion": "batch/v1", "kind": "Job", "name": format!("job-{}", pod.job),
                "uid": self.jobs[pod.job].uid, "controller": true
            }],
        });
        if pod.deleting {
            metadata["deletionTimestamp"] = stamp(self.now).into();
        }
        let conditions = if pod.written {
            json!([{"type": "SidecarTerminated", "status": "True"}])
        } else {
            json!([])
        };
        json!({
            "metadata": metadata,
            "spec": {
                "restartPolicy": if pod.never { "Never" } else { "OnFailure" },
                "nodeName": pod.place.node(),
                "terminationGracePeriodSeconds": pod.grace,
                "containers": pod.containers.iter().map(spec).collect::<Vec<_>>(),
                "volumes": [
                    {"name": "data", "emptyDir": {}},
                    {"name": "scripts", "configMap": {"name": "scripts"}}
                ],
            },
            "status": {
                "phase": pod.phase,
                "startTime": stamp(0),
                "conditions": conditions,
                "containerStatuses": pod.shown.iter().map(status).collect::<Vec<_>>(),
            },
        })
    }
}

fn spec(container: &Container) -> Value {
    let variable = |name: &str, value: &str| json!({"name": name, "value": value});
    let mut env = Vec::new();
    if container.is_sidecar() {
        env.push(variable("KRUISE_TERMINATE_SIDECAR_WHEN_JOB_EXIT", "true"));
    }
    if container.kind == Kind::Listed {
        let name = "KRUISE_TERMINATE_SIDECAR_WHEN_JOB_EXIT_WITH_IMAGE";
        env.push(variable(name, LISTED));
    }
    if container.ignored {
        env.push(variable(
            "KRUISE_TERMINATE_SIDECAR_IGNORE_EXIT_CODE",
            "true",
        ));
    }
    let (command, mounts) = match container.kind {
        Kind::NeedsImage => ("/nowhere/program", json!([])),
        Kind::Volume => (
            "/data/program",
            json!([{"name": "data", "mountPath": "/data"}]),
        ),
        Kind::Script => (
            "/scripts/run.sh",
            json!([{"name": "scripts", "mountPath": "/scripts"}]),
        ),
        Kind::Main | Kind::Plain | Kind::Listed => ("/bin/sh", json!([])),
    };
    json!({
        "name": container.name, "image": container.image, "command": [command], "env": env,
        "volumeMounts": mounts
    })
}

fn status(container: &Container) -> Value {
    let state = match &container.state {
        State::Waiting(reason, message) => {
            json!({"waiting": {"reason": reason, "message": message}})
        }
        State::Running(since) => json!({"running": {"startedAt": stamp(*since)}}),
        State::Ended {
            code,
            reason,
            started,
            finished,
        } => json!({"terminated": {
            "exitCode": code, "reason": reason, "startedAt": stamp(*started), "finishedAt": stamp(*finished)
        }}),
    };
    let last = container.last_code.map_or_else(
        || json!({}),
        |code| {
            let reason = if code == 128 { "StartError" } else { "Error" };
            json!({"terminated": {"exitCode": code, "reason": reason}})
        },
    );
    json!({
        "name": container.name, "image": container.run_image,
        "containerID": format!("containerd://{}-{}", container.name, container.id),
        "restartCount": container.restarts, "state": state, "lastState": last
    })
}

/// The values of an annotation for the sidecars that have one.
pub fn marks(pod: &Pod, value: impl Fn(&Container) -> Option<String>) -> String {
    let of = |sidecar: &Container| Some(format!("{}={}", sidecar.name, value(sidecar)?));
    pod.sidecars().filter_map(of).collect::<Vec<_>>().join(",")
}

/// Sets the annotations for the order, the delays and the waits of the sidecars.
pub fn annotate(pod: &mut Pod) {
    let seconds = |value: Option<u64>| value.map(|value| format!("{value}s"));
    let mut annotations = Map::new();
    for (name, text) in [
        (
            "order",
            marks(pod, |one| one.order.map(|order| order.to_string())),
        ),
        ("delay", marks(pod, |one| seconds(one.delay))),
        ("wait-for-exit", marks(pod, |one| seconds(one.wait))),
    ] {
        if !text.is_empty() {
            annotations.insert(format!("swaplet.io/{name}"), text.into());
        }
    }
    pod.annotations = annotations.into();
}

/// A pod in few words, for the trace.
pub fn brief(pod: &Value) -> String {
    let status = |status: &Value| {
        let state = &status["state"];
        let word = if let Some(ended) = state.get("terminated") {
            format!("T{}", ended["exitCode"])
        } else if let Some(waiting) = state.get("waiting") {
            format!("W:{}", waiting["reason"].as_str().unwrap())
        } else {
            "R".to_owned()
        };
        let image = status["image"].as_str().unwrap();
        format!(
            " {}={word}[{} r{}]",
            status["name"].as_str().unwrap(),
            image.rsplit('/').next().unwrap(),
            status["restartCount"]
        )
    };
    let statuses = pod["status"]["containerStatuses"].as_array().unwrap();
    let phase = pod["status"]["phase"].as_str().unwrap();
    format!("{phase}{}", statuses.iter().map(status).collect::<String>())
}
