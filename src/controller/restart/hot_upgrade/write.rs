//! The writes of hot upgrades: an image with what is written down about it, to one version of a
//! pod; and the status of a set.

use kube::Resource as _;
use kube::api::Patch;
use kube::core::Request;
use serde_json::{Map, Value, json};
use swaplet_core::objects::values::bounded_object::BoundedObject;
use swaplet_core::restart::hot_upgrade::pair::Change;
use swaplet_core::restart::hot_upgrade::pod::UpgradePodWire;
use swaplet_core::restart::hot_upgrade::sidecar_set::{PLURAL, resource};

use crate::frame::writer::{Outcome, Target, Writer, params};

/// One write.
#[derive(Clone, Debug)]
pub(super) enum HotWrite {
    /// To a pod.
    Pod {
        /// The set for which it is.
        set: Box<str>,
        /// The pod.
        target: Target,
        /// What.
        change: Change,
    },
    /// To the status of a set.
    Status {
        /// Its name.
        set: Box<str>,
        /// Its uid.
        uid: Box<str>,
        /// `status`
        status: Value,
    },
}

impl HotWrite {
    /// The set for which it is.
    pub(super) fn set(&self) -> &str {
        match self {
            Self::Pod { set, .. } | Self::Status { set, .. } => set,
        }
    }
}

/// What became of a write.
pub(super) struct Written {
    pub(super) write: HotWrite,
    pub(super) outcome: Outcome,
}

impl Writer {
    /// Writes it, within the deadline.
    pub(super) async fn hot(&self, write: HotWrite) -> Written {
        let (resource, built) = match &write {
            HotWrite::Pod { target, change, .. } => ("pods", of_pod(target, change)),
            HotWrite::Status { set, uid, status } => (PLURAL, of_status(set, uid, status)),
        };
        let sent = self.in_time(resource, async {
            let request = built.map_err(kube::Error::BuildRequest)?;
            let answer = self.send(request).await?;
            Ok(answer.map(|_| Outcome::Applied(Vec::new())))
        });
        let outcome = sent.await.unwrap_or_else(|failed| failed);
        Written { write, outcome }
    }
}

type Built = Result<http::Request<Vec<u8>>, kube::core::request::Error>;

/// To this uid and version alone (409): so whatever else was changed meanwhile is seen before
/// anything is written. The server merges containers by their names.
fn of_pod(target: &Target, change: &Change) -> Built {
    let annotations: Map<String, Value> = change
        .annotations
        .iter()
        .map(|(key, value)| (key.clone(), value.clone().into()))
        .collect();
    let patch = json!({
        "metadata": {"uid": target.uid, "resourceVersion": change.version, "annotations": annotations},
        "spec": {"containers": [{"name": change.container, "image": change.image}]},
    });
    let pods = Request::new(UpgradePodWire::url_path(&(), Some(&target.namespace)));
    pods.patch(&target.name, &params(), &Patch::Strategic(patch))
}

fn of_status(set: &str, uid: &str, status: &Value) -> Built {
    let patch = Patch::Merge(json!({"metadata": {"uid": uid}, "status": status}));
    let sets = Request::new(BoundedObject::url_path(&resource(), None));
    sets.patch_subresource("status", set, &params(), &patch)
}
