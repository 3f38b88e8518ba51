//! Pods whose images and phases are written by hand, and what becomes of them.

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::api::core::v1::{ContainerStatus, Pod};
use kube::api::{LogParams, Patch, PatchParams};
use serde_json::{Value, json};
use swaplet::image::Kind;
use swaplet::image::build::build;
use tokio::time::{Instant, sleep};

use crate::commands::send;
use crate::images::digest_of;
use crate::pods::{container, main_has_ended, main_ok, pod, spec};
use crate::world::{World, eventually, phase_of, variable};

/// Pods of each kind.
pub const EACH: usize = 4;
/// What has not ended by then does not end. Nothing else takes a tenth of that.
const LIMIT: Duration = Duration::from_secs(120);
/// Without a change for so long, the kubelet has written what it had to.
const QUIET: Duration = Duration::from_secs(5);
/// A program at this path is in no exit image.
const OWN: &str = "/opt/own/server";

pub struct Lab {
    pub world: World,
    /// An image whose program is not in the exit image.
    pub own: String,
    /// The digest of the image with the shell, as the registry has it.
    pub digest: String,
}

impl Lab {
    pub async fn new() -> Self {
        let world = World::without_leash("measured").await;
        let registry = variable("SWAPLET_E2E_REGISTRY");
        let own = format!("{registry}/e2e/measured-own:v1");
        send(&own, &build(Kind::Park, [OWN]).unwrap()).await;
        let digest = digest_of(&registry, &world.images.work).await;
        Self { world, own, digest }
    }

    pub async fn done(self) {
        self.world.done().await;
    }

    pub fn side(&self, script: &str) -> Value {
        container(&self.world, "side", script)
    }

    pub fn own_side(&self) -> Value {
        json!({"name": "side", "image": self.own, "command": [OWN]})
    }

    /// The image with the shell by another name: by its digest, with its tag or without.
    pub fn alias(&self, with_tag: bool) -> String {
        let tagged = &self.world.images.work;
        let (repository, _) = tagged.rsplit_once(':').unwrap();
        let name = if with_tag { tagged } else { repository };
        format!("{name}@{}", self.digest)
    }

    /// A pod whose main container has ended well while its sidecars run.
    pub async fn ready(&self, name: &str, policy: &str, sides: Vec<Value>) {
        self.make(name, policy, sides, json!({})).await;
        self.is_ready(name).await;
    }

    pub async fn make(&self, name: &str, policy: &str, sides: Vec<Value>, more: Value) {
        let mut spec = of(policy, [vec![main_ok(&self.world)], sides].concat());
        json_patch::merge(&mut spec, &more);
        self.world.create_pod(pod(name, spec)).await;
    }

    pub async fn is_ready(&self, name: &str) {
        self.world
            .pod_is(name, "ready", |pod| {
                main_has_ended(pod) && sides(pod).all(is_running)
            })
            .await;
    }

    /// A pod of one container that runs until it is stopped.
    pub async fn alone(&self, name: &str, policy: &str, script: &str) {
        let spec = of(policy, vec![self.side(script)]);
        self.world.create_pod(pod(name, spec)).await;
        self.restarted(name, 0).await;
    }

    /// Writes these images, in one patch.
    pub async fn write(&self, name: &str, images: &[(&str, &str)]) {
        let patch: Vec<_> = images
            .iter()
            .map(|(path, image)| json!({"op": "replace", "path": format!("/spec/{path}/image"), "value": image}))
            .collect();
        let patch: json_patch::Patch = serde_json::from_value(json!(patch)).unwrap();
        let pods = self.world.api::<Pod>();
        pods.patch(name, &PatchParams::default(), &Patch::<()>::Json(patch))
            .await
            .unwrap();
    }

    /// Writes that the pod has succeeded, and with an annotation what makes the kubelet look.
    pub async fn write_phase(&self, name: &str, with_annotation: bool) {
        self.is_quiet(name).await;
        let mut patch = json!({"status": {"phase": "Succeeded"}});
        if with_annotation {
            patch["metadata"] = json!({"annotations": {"measured": "yes"}});
        }
        let pods = self.world.api::<Pod>();
        pods.patch_status(name, &PatchParams::default(), &Patch::Merge(patch))
            .await
            .unwrap();
    }

    async fn is_quiet(&self, name: &str) {
        let (mut since, mut before) = (Instant::now(), None);
        while since.elapsed() < QUIET {
            let version = self.now(name).await.metadata.resource_version;
            if version != before {
                (since, before) = (Instant::now(), version);
            }
            sleep(Duration::from_millis(100)).await;
        }
    }

    pub async fn now(&self, name: &str) -> Pod {
        self.world.api::<Pod>().get(name).await.unwrap()
    }

    /// S or F once nothing of the pod runs, or that it does not end.
    pub async fn end(&self, name: &str) -> &'static str {
        let over = |pod: &Pod| match phase_of(pod) {
            _ if sides(pod).any(is_running) => None,
            "Succeeded" => Some("S"),
            "Failed" => Some("F"),
            _ => None,
        };
        self.within(name, over).await.unwrap_or("does not end")
    }

    /// Whether the container runs after so many restarts.
    pub async fn restarted(&self, name: &str, times: i32) -> bool {
        let is_back = |pod: &Pod| {
            let mut all = sides(pod);
            let is_it = all.all(|side| is_running(side) && side.restart_count >= times);
            (is_it && sides(pod).next().is_some()).then_some(())
        };
        self.within(name, is_back).await.is_some()
    }

    /// Waits until the sidecar has printed this.
    pub async fn says(&self, name: &str, words: &str) {
        let pods = self.world.api::<Pod>();
        let side = LogParams {
            container: Some("side".to_owned()),
            ..LogParams::default()
        };
        eventually("a sidecar to print", || async {
            let printed = pods.logs(name, &side).await.ok()?;
            printed.contains(words).then_some(())
        })
        .await;
    }

    /// What a condition finds in the pod before it is too late.
    pub async fn within<T>(&self, name: &str, find: impl Fn(&Pod) -> Option<T>) -> Option<T> {
        let begun = Instant::now();
        while begun.elapsed() < LIMIT {
            if let Some(found) = find(&self.now(name).await) {
                return Some(found);
            }
            sleep(Duration::from_millis(200)).await;
        }
        None
    }
}

/// A spec with a short grace period.
pub fn of(policy: &str, containers: Vec<Value>) -> Value {
    let mut spec = spec(policy, containers);
    spec["terminationGracePeriodSeconds"] = json!(4);
    spec["nodeName"] = json!(variable("SWAPLET_E2E_NODE"));
    spec
}

/// The sidecars, native ones too.
pub fn sides(pod: &Pod) -> impl Iterator<Item = &ContainerStatus> {
    let status = pod.status.iter();
    let all = status.flat_map(|status| {
        let init = status.init_container_statuses.iter().flatten();
        init.chain(status.container_statuses.iter().flatten())
    });
    all.filter(|status| status.name.starts_with("side"))
}

pub fn is_running(status: &ContainerStatus) -> bool {
    status
        .state
        .as_ref()
        .is_some_and(|state| state.running.is_some())
}

/// How many had each result, the most frequent first: `S 3/4, F 1/4`.
pub fn tally(results: &[&str]) -> String {
    let mut counts = BTreeMap::<&str, usize>::new();
    for result in results {
        *counts.entry(result).or_default() += 1;
    }
    let mut counts: Vec<_> = counts.into_iter().collect();
    counts.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    let told = counts
        .into_iter()
        .map(|(result, count)| format!("{result} {count}/{}", results.len()));
    told.collect::<Vec<_>>().join(", ")
}
