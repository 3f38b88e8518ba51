//! The writes of a node for its pods.

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

/// The wait before a failed deletion is retried.
const AGAIN: Duration = Duration::from_secs(1);

/// The identity of a pod.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct PodId {
    pub namespace: String,
    pub name: String,
    pub uid: String,
}

/// Returns the resource of pods with all fields of any version.
pub(super) fn pods_of_any_version() -> ApiResource {
    ApiResource::erase::<Pod>(&())
}

/// A writer of pods.
#[derive(Clone)]
pub(super) struct PodWriter {
    pub client: Client,
}

impl PodWriter {
    fn api(&self, pod: &PodId) -> Api<DynamicObject> {
        Api::namespaced_with(self.client.clone(), &pod.namespace, &pods_of_any_version())
    }

    /// Patches the status; returns true if no retry is needed.
    pub async fn patch_status(&self, pod: &PodId, status: Value) -> bool {
        let patch = Patch::Strategic(json!({"metadata": {"uid": pod.uid}, "status": status}));
        let written = self
            .api(pod)
            .patch_status(&pod.name, &PatchParams::default(), &patch)
            .await;
        // Another pod of this name is not ours.
        matches!(code(&written), None | Some(404 | 409))
    }

    /// Replaces the status; returns true if no retry is needed.
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

    /// Deletes the pod immediately.
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

/// Returns the code of an API error, 0 for any other error, and `None` for success.
fn code<T>(result: &kube::Result<T>) -> Option<u16> {
    match result {
        Ok(_) => None,
        Err(kube::Error::Api(status)) => Some(status.code),
        Err(_) => Some(0),
    }
}

/// A writer of events; repeated ones are counted.
pub(super) struct EventWriter {
    client: Client,
    clock: Clock,
    component: String,
    node: String,
    /// The number of events so far: time alone is not unique while the clock is paused.
    made: i128,
    known: HashMap<(PodId, PodEvent), (String, u32)>,
}

/// The maximum number of events that are remembered for counting.
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

    /// Writes an event. Events are for people: a lost one changes nothing.
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

    /// Returns an event named after the time, like those of kubelets and virtual-kubelets: events
    /// of one second are listed in their order.
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
