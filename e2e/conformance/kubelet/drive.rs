//! Creates the pod of a case, does what the case says, and records what is seen.

use std::pin::Pin;
use std::time::Duration;

use futures::{Stream, StreamExt as _};
use kube::api::{
    Api, DeleteParams, DynamicObject, Patch, PatchParams, PostParams, WatchEvent, WatchParams,
};
use kube::core::ApiResource;
use kube::{Client, ResourceExt as _};
use serde_json::{Value, json};
use tokio::time::{Instant, timeout_at};

use super::case::{Action, Case, IMAGES};
use super::pod;
use super::record::{Record, compare};

/// One of the two nodes.
pub struct Place {
    pub client: Client,
    pub namespace: String,
    pub node: String,
    /// The work image, another one like it, the exit image, one that no registry has, the first
    /// again under two other names, and one that needs a login.
    pub images: [String; IMAGES],
    pub is_real: bool,
}

/// On the mock a pod that has not changed for so long is at rest: longer than anything of the
/// workloads, shorter than the first back-off.
const REST: Duration = Duration::from_secs(4);
/// A pod on the mock that does not come to rest is taken as it is.
const UNREST: Duration = Duration::from_secs(20);
/// The real node has so long to get to where the mock was. Two busy cores need it, now and then.
const PATIENCE: Duration = Duration::from_secs(120);
/// And must stay there for so long: a kubelet that does something else does it within a second or
/// two.
const HOLD: Duration = Duration::from_millis(2000);

type Events = Pin<Box<dyn Stream<Item = kube::Result<WatchEvent<DynamicObject>>>>>;

/// Runs a case; gives the record of what was seen, at rest and after every action. With a guide,
/// which is what the mock did, the pod is at rest when it is where the guide was; if it never is,
/// that is the end.
pub async fn drive(place: &Place, case: &Case, name: &str, guide: Option<&[Value]>) -> Vec<Value> {
    let api: Api<DynamicObject> = Api::namespaced_with(
        place.client.clone(),
        &place.namespace,
        &ApiResource::erase::<k8s_openapi::api::core::v1::Pod>(&()),
    );
    let object: DynamicObject = serde_json::from_value(pod(place, case, name)).unwrap();
    let created = api.create(&PostParams::default(), &object).await.unwrap();
    let parameters = WatchParams::default()
        .fields(&format!("metadata.name={name}"))
        .timeout(280);
    let stream = api
        .watch(&parameters, &created.resource_version().unwrap())
        .await
        .unwrap();
    let mut events: Events = Box::pin(stream);
    let mut record = Record::default();
    let mut records = Vec::new();
    let mut actions = case.actions.iter();
    loop {
        let aim = guide.map(|guide| &guide[records.len()]);
        let well = match aim {
            Some(aim) => reach(&mut events, &mut record, case, aim).await,
            None => rest(&mut events, &mut record).await,
        };
        records.push(record.value());
        let Some(action) = actions.next().filter(|_| well) else {
            break;
        };
        record.acted(act(&api, place, name, *action).await);
    }
    let now = DeleteParams {
        grace_period_seconds: Some(0),
        ..DeleteParams::default()
    };
    if !record.is_gone() {
        let _ = api.delete(name, &now).await;
    }
    records
}

/// Follows the pod until it is where the guide was, and stays; false if that does not happen.
async fn reach(events: &mut Events, record: &mut Record, case: &Case, aim: &Value) -> bool {
    let end = Instant::now() + PATIENCE;
    loop {
        let there = compare(case, 0, &record.value(), aim).is_empty();
        if there && record.is_gone() {
            return true;
        }
        let until = if there { Instant::now() + HOLD } else { end };
        if !next(events, record, until).await {
            return there;
        }
    }
}

/// Follows the pod until nothing happens.
async fn rest(events: &mut Events, record: &mut Record) -> bool {
    let end = Instant::now() + UNREST;
    while !record.is_gone() && Instant::now() < end {
        if !next(events, record, Instant::now() + REST).await {
            break;
        }
    }
    true
}

/// Waits for the next change of what is recorded; false if there is none until then.
async fn next(events: &mut Events, record: &mut Record, until: Instant) -> bool {
    loop {
        let changed = match timeout_at(until, events.next()).await {
            Err(_) | Ok(None) => return false,
            Ok(Some(Ok(WatchEvent::Added(pod) | WatchEvent::Modified(pod)))) => {
                record.saw(&serde_json::to_value(&pod).unwrap())
            }
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
            api.patch(name, &PatchParams::default(), &patch)
                .await
                .map(|_| ())
        }
        Action::Delete => api.delete(name, &DeleteParams::default()).await.map(|_| ()),
    };
    match result {
        Ok(()) => 200,
        Err(kube::Error::Api(status)) => status.code,
        Err(error) => panic!("{action:?}: {error}"),
    }
}
