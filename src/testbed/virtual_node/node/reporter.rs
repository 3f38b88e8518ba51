//! What a node does at the API server for its pods.

use std::collections::HashMap;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Event, Pod};
use kube::api::{DeleteParams, DynamicObject, Patch, PatchParams, PostParams, Preconditions};
use kube::core::ApiResource;
use kube::{Api, Client};
use serde_json::{Value, json};

use super::object::object;
use super::options::NodeOptions;
use crate::clock::Clock;
use crate::virtual_node::action::PodEvent;
use crate::virtual_node::times::time;

/// A deletion that failed is tried again after so long.
const AGAIN: Duration = Duration::from_secs(1);

/// Which pod.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct PodId {
    pub namespace: String,
    pub name: String,
    pub uid: String,
}

/// A pod of any version of the API: all its fields are kept.
pub(super) fn pods_of_any_version() -> ApiResource {
    ApiResource::erase::<Pod>(&())
}

/// Writes to pods.
#[derive(Clone)]
pub(super) struct PodWriter {
    pub client: Client,
}

impl PodWriter {
    fn api(&self, pod: &PodId) -> Api<DynamicObject> {
        Api::namespaced_with(self.client.clone(), &pod.namespace, &pods_of_any_version())
    }

    /// Whether the status needs no other try.
    pub async fn patch_status(&self, pod: &PodId, status: Value) -> bool {
        let patch = Patch::Strategic(json!({"metadata": {"uid": pod.uid}, "status": status}));
        let written = self
            .api(pod)
            .patch_status(&pod.name, &PatchParams::default(), &patch)
            .await;
        // Another pod of this name is none of ours.
        matches!(code(&written), None | Some(404 | 409))
    }

    /// Whether the status needs no other try.
    pub async fn put_status(&self, pod: &PodId, whole: &Value) -> bool {
        let Ok(whole) = object::<DynamicObject>(whole) else {
            return true;
        };
        let written = self
            .api(pod)
            .replace_status(&pod.name, &PostParams::default(), &whole)
            .await;
        matches!(code(&written), None | Some(404))
    }

    /// Deletes the pod for good.
    pub async fn delete(&self, pod: &PodId) {
        let preconditions = Some(Preconditions {
            uid: Some(pod.uid.clone()),
            ..Preconditions::default()
        });
        let now = DeleteParams {
            grace_period_seconds: Some(0),
            preconditions,
            ..DeleteParams::default()
        };
        while !matches!(
            code(&self.api(pod).delete(&pod.name, &now).await),
            None | Some(404 | 409)
        ) {
            tokio::time::sleep(AGAIN).await;
        }
    }
}

/// The code of a refusal; 0 for any other failure.
fn code<T>(result: &kube::Result<T>) -> Option<u16> {
    match result {
        Ok(_) => None,
        Err(kube::Error::Api(status)) => Some(status.code),
        Err(_) => Some(0),
    }
}

/// Writes events; one that repeats is counted.
pub(super) struct EventWriter {
    client: Client,
    clock: Clock,
    component: String,
    node: String,
    /// Events so far: the time alone tells none apart where it stands still.
    made: i128,
    known: HashMap<(PodId, PodEvent), (String, u32)>,
}

/// So many events are remembered for counting.
const REMEMBERED: usize = 10_000;

impl EventWriter {
    pub fn new(client: Client, clock: Clock, options: &NodeOptions) -> Self {
        let component = if options.profile.is_virtual() {
            format!("{}/pod-controller", options.name)
        } else {
            "kubelet".to_owned()
        };
        Self {
            client,
            clock,
            component,
            node: options.name.clone(),
            made: 0,
            known: HashMap::new(),
        }
    }

    /// Events are for people: a lost one changes nothing.
    pub async fn write(&mut self, pod: PodId, event: PodEvent) {
        let events: Api<Event> = Api::namespaced(self.client.clone(), &pod.namespace);
        let key = (pod, event);
        if let Some((name, count)) = self.known.get_mut(&key) {
            *count += 1;
            let patch =
                Patch::Merge(json!({"count": count, "lastTimestamp": time(self.clock.now())}));
            if events
                .patch(name, &PatchParams::default(), &patch)
                .await
                .is_ok()
            {
                return;
            }
        }
        let (name, made) = self.object(&key.0, &key.1);
        if let Ok(made) = object(&made) {
            let _ = events.create(&PostParams::default(), &made).await;
        }
        if self.known.len() >= REMEMBERED {
            self.known.clear();
        }
        self.known.insert(key, (name, 1));
    }

    /// Named after the time, as kubelets and virtual-kubelets do: those of one second are listed in
    /// their order.
    fn object(&mut self, pod: &PodId, event: &PodEvent) -> (String, Value) {
        let now = self.clock.now();
        self.made += 1;
        let name = format!("{}.{:x}", pod.name, now.as_nanosecond() + self.made);
        let kind = if event.warning { "Warning" } else { "Normal" };
        let made = json!({"metadata": {"name": name, "namespace": pod.namespace}, "type": kind, "reason": event.reason, "message": event.message,
            "involvedObject": {"apiVersion": "v1", "kind": "Pod", "namespace": pod.namespace, "name": pod.name, "uid": pod.uid, "fieldPath": event.field},
            "source": {"component": self.component, "host": self.node}, "reportingComponent": self.component, "reportingInstance": self.node,
            "firstTimestamp": time(now), "lastTimestamp": time(now), "count": 1});
        (name, made)
    }
}
