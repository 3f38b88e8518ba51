//! Creates the pod of a case, does what the case says, and records what is seen.

use std::pin::Pin;
use std::time::Duration;

use futures::{Stream, StreamExt as _};
use kube::api::{Api, DeleteParams, DynamicObject, Patch, PatchParams, PostParams, WatchEvent, WatchParams};
use kube::core::ApiResource;
use kube::{Client, ResourceExt as _};
use serde_json::{Value, json};
use tokio::time::{Instant, timeout_at};

use super::case::{Action, Case};
use super::pod;
use super::record::Record;

/// One of the two nodes.
pub struct Place {
    pub client: Client,
    pub namespace: String,
    pub node: String,
    /// The work image, another one like it, the exit image, and one that no registry has.
    pub images: [String; 4],
    pub is_real: bool,
}

/// A pod that has not changed for so long is at rest: longer than anything of the workloads takes on a busy node, shorter than the first
/// back-off.
const REST: Duration = Duration::from_secs(4);
/// A pod that does not come to rest is taken as it is.
const PATIENCE: Duration = Duration::from_secs(20);

type Events = Pin<Box<dyn Stream<Item = kube::Result<WatchEvent<DynamicObject>>>>>;

/// Runs a case; gives the record of what was seen.
pub async fn drive(place: &Place, case: &Case, name: &str) -> Value {
    let api: Api<DynamicObject> =
        Api::namespaced_with(place.client.clone(), &place.namespace, &ApiResource::erase::<k8s_openapi::api::core::v1::Pod>(&()));
    let object: DynamicObject = serde_json::from_value(pod(place, case, name)).unwrap();
    let created = api.create(&PostParams::default(), &object).await.unwrap();
    let parameters = WatchParams::default().fields(&format!("metadata.name={name}")).timeout(280);
    let stream = api.watch(&parameters, &created.resource_version().unwrap()).await.unwrap();
    let mut events: Events = Box::pin(stream);
    let mut record = Record::default();
    rest(&mut events, &mut record).await;
    for action in &case.actions {
        let code = act(&api, place, name, *action).await;
        record.acted(code);
        rest(&mut events, &mut record).await;
    }
    let now = DeleteParams { grace_period_seconds: Some(0), ..DeleteParams::default() };
    if !record.is_gone() {
        let _ = api.delete(name, &now).await;
    }
    record.value()
}

/// Follows the pod until it is at rest or over.
async fn rest(events: &mut Events, record: &mut Record) {
    let end = Instant::now() + PATIENCE;
    while !record.is_over() {
        let Ok(event) = timeout_at(end, next(events, record)).await else { return };
        if !event {
            return;
        }
    }
}

/// Waits for the next change of what is recorded; false if the pod is at rest.
async fn next(events: &mut Events, record: &mut Record) -> bool {
    let rest = Instant::now() + REST;
    loop {
        let changed = match timeout_at(rest, events.next()).await {
            Err(_) | Ok(None) => return false,
            Ok(Some(Ok(WatchEvent::Added(pod) | WatchEvent::Modified(pod)))) => record.saw(&serde_json::to_value(&pod).unwrap()),
            Ok(Some(Ok(WatchEvent::Deleted(pod)))) => {
                record.saw(&serde_json::to_value(&pod).unwrap());
                record.went()
            }
            Ok(Some(Ok(_))) => false,
            Ok(Some(Err(error))) => panic!("the watch: {error}"),
        };
        if changed {
            return true;
        }
    }
}

async fn act(api: &Api<DynamicObject>, place: &Place, name: &str, action: Action) -> u16 {
    let result = match action {
        Action::Swap { container, image } => {
            let path = format!("/spec/containers/{container}/image");
            let patch = json!([{"op": "replace", "path": path, "value": place.images[image]}]);
            let patch = Patch::Json::<()>(serde_json::from_value(patch).unwrap());
            api.patch(name, &PatchParams::default(), &patch).await.map(|_| ())
        }
        Action::Delete => api.delete(name, &DeleteParams::default()).await.map(|_| ()),
    };
    match result {
        Ok(()) => 200,
        Err(kube::Error::Api(status)) => status.code,
        Err(error) => panic!("{action:?}: {error}"),
    }
}
