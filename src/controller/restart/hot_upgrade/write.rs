//! The writes of hot upgrades: an image with the annotations about it, to one version of a pod; and
//! the status of a set.

use kube::api::Patch;
use kube::core::Selector;
use serde_json::{Map, Value, json};
use swaplet_core::objects::values::bounded_object::BoundedObject;
use swaplet_core::report::write_error::WriteError;
use swaplet_core::restart::hot_upgrade::pair::Change;
use swaplet_core::restart::hot_upgrade::pod::UpgradePodWire;
use swaplet_core::restart::hot_upgrade::sidecar_set::{PLURAL, resource};

use crate::frame::writer::{Built, Target, Writer, params, requests_for};

/// A write for a set.
#[derive(Clone, Debug)]
pub(super) enum HotWrite {
    /// A change of a pod.
    Pod {
        /// The name of the set.
        set: Box<str>,
        /// The pod.
        target: Target,
        /// The change to write.
        change: Change,
    },
    /// A new status of a set.
    Status {
        /// The name of the set.
        set: Box<str>,
        /// The uid of the set.
        uid: Box<str>,
        /// The new `status`.
        status: Value,
    },
}

impl HotWrite {
    /// Returns the name of the set.
    pub(super) fn set(&self) -> &str {
        match self {
            Self::Pod { set, .. } | Self::Status { set, .. } => set,
        }
    }
}

/// A write with its outcome.
pub(super) struct Written {
    pub(super) write: HotWrite,
    /// The image that the API server has stored; none of a status.
    pub(super) outcome: Result<Option<Box<str>>, WriteError>,
}

impl Writer {
    /// Makes the write, within the deadline.
    pub(super) async fn hot(&self, write: HotWrite) -> Written {
        let (resource, built, images) = match &write {
            HotWrite::Pod { target, change, .. } => {
                let image = (&*change.container, &*change.before, &*change.image);
                let images = Some(image).filter(|(_, before, image)| before != image);
                ("pods", of_pod(target, change), images.into_iter().collect())
            }
            HotWrite::Status { set, uid, status } => (PLURAL, of_status(set, uid, status), vec![]),
        };
        let sent = self.in_time(resource, async {
            let answer = self.send_images(built, &images).await?;
            Ok(answer.map(|body| stored(&body, images.first()?.0)))
        });
        let outcome = sent.await;
        Written { write, outcome }
    }
}

/// Returns the image of a container in an answer; `None` if it does not have it.
fn stored(body: &[u8], container: &str) -> Option<Box<str>> {
    let wire: UpgradePodWire = serde_json::from_slice(body).ok()?;
    let pod = wire.read()?.for_update(&Selector::default());
    Some(pod.find(container)?.image.clone())
}

/// Returns a patch for this uid and version alone (409): any other change is observed before
/// anything is written. The server merges containers by their names.
fn of_pod(target: &Target, change: &Change) -> Built {
    let annotations: Map<String, Value> = change
        .annotations
        .iter()
        .map(|(key, value)| (key.clone(), value.clone().into()))
        .collect();
    let mut patch = json!({"metadata": {"uid": target.uid, "resourceVersion": change.version, "annotations": annotations}});
    if change.image != change.before {
        patch["spec"] = json!({"containers": [{"name": change.container, "image": change.image}]});
    }
    let pods = requests_for::<UpgradePodWire>(&(), Some(&target.namespace));
    pods.patch(&target.name, &params(), &Patch::Strategic(patch))
}

fn of_status(set: &str, uid: &str, status: &Value) -> Built {
    let patch = Patch::Merge(json!({"metadata": {"uid": uid}, "status": status}));
    let sets = requests_for::<BoundedObject>(&resource(), None);
    sets.patch_subresource("status", set, &params(), &patch)
}
