//! Pods that no scheduler looks at: what their containers have come to is written, so that every
//! state can be had at once.

mod of_tables;

use k8s_openapi::api::core::v1::Pod;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

use super::Leashed;
use super::legal::{image as image_of, parking};
use crate::pods::MARK;

/// The digest that nodes report of the image of every container.
pub const DIGEST: &str = "sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";
/// Of an image that no node has.
pub const OTHER: &str = "sha256:bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb";

pub fn pod(leashed: &Leashed, name: &str, restart_policy: &str, containers: Value) -> Value {
    let metadata = json!({
        "name": name, "namespace": leashed.world.namespace, "labels": {"app": name}, "annotations": {"example.com/a": "1"},
    });
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": metadata,
        "spec": {
            "restartPolicy": restart_policy, "schedulerName": "nobody", "automountServiceAccountToken": false,
            "containers": containers, "terminationGracePeriodSeconds": 0,
        },
    })
}

pub fn main(leashed: &Leashed) -> Value {
    json!({"name": "main", "image": leashed.world.images.work})
}

pub fn side(leashed: &Leashed, name: &str, value: &str) -> Value {
    json!({"name": name, "image": leashed.world.images.work, "env": [{"name": MARK, "value": value}]})
}

/// A pod without a sidecar, about which nothing is reported.
pub fn plain(leashed: &Leashed) -> Value {
    pod(leashed, "plain", "OnFailure", json!([main(leashed)]))
}

/// `code` is what the container exited with; `None` where it runs.
fn status(leashed: &Leashed, name: &str, code: Option<i32>) -> Value {
    let image = &leashed.world.images.work;
    let repository = image.rsplit_once(':').unwrap().0;
    let state = code.map_or_else(
        || json!({"running": {"startedAt": "2026-01-01T00:00:00Z"}}),
        |code| json!({"terminated": {"exitCode": code, "containerID": "containerd://1"}}),
    );
    json!({
        "name": name, "image": image, "imageID": format!("{repository}@{DIGEST}"), "ready": code.is_none(), "restartCount": 0,
        "containerID": "containerd://1", "state": state,
    })
}

impl Leashed {
    /// A pod with containers that have come to this.
    pub async fn is_there(
        &self,
        pod: Value,
        containers: &[(&str, Option<i32>)],
        init: &[(&str, Option<i32>)],
    ) {
        let name = pod["metadata"]["name"].as_str().unwrap().to_owned();
        self.world.create_pod(pod).await;
        let all = |of: &[(&str, Option<i32>)]| {
            of.iter()
                .map(|(name, code)| status(self, name, *code))
                .collect::<Vec<_>>()
        };
        let status = json!({
            "phase": "Running", "containerStatuses": all(containers), "initContainerStatuses": all(init),
            "conditions": [{"type": "Ready", "status": "False"}],
        });
        let patch = Patch::Merge(json!({"status": status}));
        self.world
            .api::<Pod>()
            .patch_status(&name, &PatchParams::default(), &patch)
            .await
            .unwrap();
    }

    pub async fn uid(&self, pod: &str) -> String {
        self.world
            .api::<Pod>()
            .get(pod)
            .await
            .unwrap()
            .metadata
            .uid
            .unwrap()
    }

    /// Every pod that the forbidden and the legal writes are about.
    pub async fn pods_are_there(&self) {
        self.pods_of_both_are_there().await;
        self.pods_of_other_sidecars_are_there().await;
        for name in ["parked", "noted"] {
            self.parked_is_there(name).await;
        }
        self.ended_is_there().await;
    }

    fn both(&self) -> Value {
        json!([main(self), side(self, "log", "true")])
    }

    /// Pods of a main container and a sidecar.
    async fn pods_of_both_are_there(&self) {
        self.is_there(
            pod(self, "running", "OnFailure", self.both()),
            &[("main", None), ("log", None)],
            &[],
        )
        .await;
        let mut done = pod(self, "done", "OnFailure", self.both());
        let image = &self.world.images.work;
        done["spec"]["initContainers"] = json!([{"name": "prepare", "image": image}, {"name": "native", "image": image, "restartPolicy": "Always"}]);
        self.is_there(
            done,
            &[("main", Some(0)), ("log", None)],
            &[("prepare", Some(0)), ("native", None)],
        )
        .await;
        self.is_there(
            pod(self, "crashed", "OnFailure", self.both()),
            &[("main", Some(1)), ("log", None)],
            &[],
        )
        .await;
        // On this node nobody ends it, so it is a main container to the controller.
        let mut agent = main(self);
        agent["name"] = json!("agent");
        agent["env"] = json!([{"name": "ECI_CONTAINER_TYPE", "value": "sidecar"}]);
        let mut with_agent = self.both();
        with_agent.as_array_mut().unwrap().push(agent);
        for (name, policy) in [("agent-failed", "Never"), ("agent-crashed", "OnFailure")] {
            self.is_there(
                pod(self, name, policy, with_agent.clone()),
                &[("main", Some(0)), ("log", None), ("agent", Some(1))],
                &[],
            )
            .await;
        }
        self.is_there(
            pod(self, "failed", "Never", self.both()),
            &[("main", Some(1)), ("log", None)],
            &[],
        )
        .await;
        self.is_there(
            pod(self, "always", "Always", self.both()),
            &[("main", Some(0)), ("log", None)],
            &[],
        )
        .await;
        self.is_there(
            pod(self, "unreported", "Never", self.both()),
            &[("log", None)],
            &[],
        )
        .await;
        self.is_there(
            pod(self, "unknown", "Never", self.both()),
            &[("main", Some(137)), ("log", None)],
            &[],
        )
        .await;
        let mut unknown = status(self, "main", Some(137));
        unknown["state"]["terminated"]["reason"] = json!("ContainerStatusUnknown");
        self.is_reported("unknown", unknown).await;
    }

    /// Pods whose sidecars are marked otherwise, or not at all.
    async fn pods_of_other_sidecars_are_there(&self) {
        let all = json!([side(self, "one", "true"), side(self, "two", "TRUE")]);
        self.is_there(
            pod(self, "sidecars", "Never", all),
            &[("one", Some(0)), ("two", None)],
            &[],
        )
        .await;
        let not = json!([
            main(self),
            side(self, "log", "false"),
            side(self, "other", "true")
        ]);
        let states = [("main", Some(0)), ("log", Some(0)), ("other", None)];
        self.is_there(pod(self, "unmarked", "Never", not), &states, &[])
            .await;
        let mut from = side(self, "log", "");
        from["env"][0] =
            json!({"name": MARK, "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}});
        let states = [("main", Some(0)), ("log", None)];
        self.is_there(
            pod(self, "by-reference", "Never", json!([main(self), from])),
            &states,
            &[],
        )
        .await;
        let mut gated = pod(self, "gated", "Always", json!([main(self)]));
        gated["spec"]["readinessGates"] = json!([{"conditionType": "KruisePodReady"}]);
        self.is_there(gated, &[("main", None)], &[]).await;
    }

    /// Its note names it, or another pod.
    async fn parked_is_there(&self, name: &str) {
        let image = &self.world.images.work;
        self.is_there(
            pod(self, name, "OnFailure", self.both()),
            &[("main", None), ("log", None)],
            &[],
        )
        .await;
        let of = if name == "parked" {
            self.uid(name).await
        } else {
            "another".to_owned()
        };
        let patch = parking(
            image_of("main", &self.world.images.park),
            &of,
            &self.world.images.park,
            &[("main", image)],
        );
        self.world
            .api::<Pod>()
            .patch(name, &PatchParams::default(), &Patch::Strategic(patch))
            .await
            .unwrap();
    }

    async fn ended_is_there(&self) {
        self.is_there(
            pod(self, "ended", "Never", self.both()),
            &[("main", Some(0)), ("log", Some(0))],
            &[],
        )
        .await;
        let patch = Patch::Merge(json!({"status": {"phase": "Succeeded"}}));
        self.world
            .api::<Pod>()
            .patch_status("ended", &PatchParams::default(), &patch)
            .await
            .unwrap();
    }
}
