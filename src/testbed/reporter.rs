//! The events of the testbed's controllers, written like those of the real ones: one per message,
//! in the testbed's time.

use std::sync::atomic::{AtomicU64, Ordering};

use k8s_openapi::api::core::v1::Event;
use kube::api::PostParams;
use kube::{Api, Client, Resource};
use serde_json::json;

use crate::clock::Clock;

/// A writer of events for one component. Equal events are not aggregated.
pub struct Reporter {
    client: Client,
    clock: Clock,
    component: &'static str,
    count: AtomicU64,
}

impl Reporter {
    /// Returns a reporter for a component, such as `job-controller`.
    pub fn new(client: Client, clock: Clock, component: &'static str) -> Self {
        Self {
            client,
            clock,
            component,
            count: AtomicU64::new(0),
        }
    }

    /// Writes an event about an object: type, reason and message. Events are for people; a lost one
    /// changes nothing.
    pub async fn report<K: Resource<DynamicType = ()>>(
        &self,
        object: &K,
        (kind, reason): (&str, &str),
        message: &str,
    ) {
        let about = object.object_ref(&());
        let (namespace, name) = (
            about.namespace.clone().unwrap_or_default(),
            about.name.clone().unwrap_or_default(),
        );
        let now = self.clock.now();
        // The time alone is not unique while the clock is paused.
        let unique = now.as_nanosecond() + i128::from(self.count.fetch_add(1, Ordering::Relaxed));
        let event = json!({"metadata": {"name": format!("{name}.{unique:x}"), "namespace": namespace}, "involvedObject": about,
            "type": kind, "reason": reason, "message": message, "count": 1, "firstTimestamp": now, "lastTimestamp": now,
            "source": {"component": self.component}});
        if let Ok(event) = serde_json::from_value::<Event>(event) {
            let _ = Api::namespaced(self.client.clone(), &namespace)
                .create(&PostParams::default(), &event)
                .await;
        }
    }
}
