//! The only write of deletion protection: the count of its contents, on the protected object.

use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Resource as _;
use kube::api::Patch;
use kube::core::Request;
use serde_json::json;
use swaplet_core::protect::decide::says_nothing;
use swaplet_core::protect::object::{Guarded, GuardedKind, HOLDS};
use swaplet_core::report::write_error::WriteError;

use crate::frame::writer::{Writer, params};

impl Writer {
    /// Writes the count into the annotation of the object with this uid (the API server denies the
    /// write for another uid), or removes it. A count of nothing is written to the observed version
    /// only, so that a late write of an earlier process fails.
    pub(super) async fn hold(
        &self,
        object: &Guarded,
        text: Option<&str>,
    ) -> Result<(), WriteError> {
        self.in_time(object.kind.plural(), async {
            let path = match object.kind {
                GuardedKind::Namespace => Namespace::url_path(&(), None),
                GuardedKind::CustomResourceDefinition => {
                    CustomResourceDefinition::url_path(&(), None)
                }
            };
            let mut metadata = json!({"uid": object.uid, "annotations": {HOLDS: text}});
            if text.is_some_and(|text| says_nothing(object, text)) {
                metadata["resourceVersion"] = (&*object.version).into();
            }
            let patch = json!({"metadata": metadata});
            let built = Request::new(path).patch(&object.name, &params(), &Patch::Merge(patch));
            Ok(self.send(built).await?.map(drop))
        })
        .await
    }
}
