//! The write of the method `recreate`: a `ContainerRecreateRequest` identical to that of
//! OpenKruise's own SidecarTerminator (`executeKillContainerAction`), so it does not matter which
//! of the two created it.

use kube::Resource as _;
use serde_json::{Value, json};
use swaplet_core::objects::recreate_request::{
    GROUP, RecreateRequest, RecreateRequestWire, VERSION,
};
use swaplet_core::objects::values::bounds::{MESSAGE, cut};
use swaplet_core::report::write_error::WriteError;

use crate::frame::writer::{Outcome, Target, Writer, creation, requests_for};

impl Writer {
    /// Requests the end of these containers from OpenKruise's daemon.
    ///
    /// A conflict means that the request exists already, whoever created it. Every failure that a
    /// retry cannot fix is a denial: a webhook that refuses the containers, a missing right, or a
    /// kind that the API server does not (or no longer) serve.
    pub(crate) async fn recreate(
        &self,
        target: &Target,
        containers: &[Box<str>],
    ) -> kube::Result<Outcome> {
        let requests = requests_for::<RecreateRequestWire>(&(), Some(&target.namespace));
        let built = creation(&requests, &request(target, containers));
        let request = built.map_err(kube::Error::BuildRequest)?;
        Ok(match self.exchange(request).await? {
            Ok(_) => Ok(Vec::new()),
            Err((status, _)) if status.code == 404 => {
                Err(WriteError::Denied(cut(&status.message, MESSAGE)))
            }
            Err((_, refused)) => Err(refused),
        })
    }
}

/// Returns the request for a pod. It is garbage-collected with the pod, its owner.
pub fn request(target: &Target, containers: &[Box<str>]) -> Value {
    let containers: Vec<_> = containers
        .iter()
        .map(|name| json!({"name": name}))
        .collect();
    json!({
        "apiVersion": format!("{GROUP}/{VERSION}"),
        "kind": RecreateRequestWire::kind(&()),
        "metadata": {
            "namespace": target.namespace,
            "name": RecreateRequest::name_for(&target.uid),
            "ownerReferences": [{
                "apiVersion": "v1", "kind": "Pod", "name": target.name, "uid": target.uid,
                "controller": true, "blockOwnerDeletion": true,
            }],
        },
        "spec": {
            "podName": target.name,
            "containers": containers,
            "strategy": {"forceRecreate": true, "failurePolicy": "Ignore"},
        },
    })
}
