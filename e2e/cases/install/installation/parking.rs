//! Lets others than the installation park a container, for a while.

use k8s_openapi::api::admissionregistration::v1::ValidatingAdmissionPolicyBinding;
use k8s_openapi::api::core::v1::Pod;
use kube::api::PostParams;
use kube::{Api, ResourceExt as _};
use serde_json::json;
use swaplet_core::restart::parked::{PARKED, Parked};
use tokio::process::Command;

use super::Installation;
use crate::world::eventually;

impl Installation {
    /// Takes away the part of its leash that is about everybody else, and returns it; comes back
    /// when the account of the case may park the container of this pod.
    pub async fn lets_others_park(
        &self,
        pod: &Pod,
        park: &str,
    ) -> ValidatingAdmissionPolicyBinding {
        let bindings: Api<ValidatingAdmissionPolicyBinding> = Api::all(self.client.clone());
        let name = format!("{}-swaplet-leash-parked", self.namespace);
        let mut binding = bindings.get(&name).await.unwrap();
        bindings.delete(&name, &Default::default()).await.unwrap();
        (binding.metadata.uid, binding.metadata.resource_version) = (None, None);
        let (name, namespace, container) = (
            pod.name_any(),
            pod.namespace().unwrap(),
            &pod.spec.as_ref().unwrap().containers[0],
        );
        let images = [(
            container.name.as_str().into(),
            container.image.clone().unwrap().into(),
        )]
        .into();
        let uid = pod.uid().unwrap().into();
        let note = Parked {
            pod: uid,
            name: "r".into(),
            request: "r".into(),
            park: park.into(),
            images,
        }
        .as_text();
        let marks = json!({"labels": {PARKED: "true"}, "annotations": {PARKED: note}});
        let patch = json!({"metadata": marks, "spec": {"containers": [{"name": container.name, "image": park}]}}).to_string();
        let account = format!("--as=system:serviceaccount:{namespace}:swaplet");
        eventually("others to be let park", || async {
            let patch = [
                "patch",
                "pod",
                &name,
                "-n",
                &namespace,
                "--type=strategic",
                "-p",
                &patch,
                "--dry-run=server",
                &account,
            ];
            // kubectl reads the pod before, for which the account has no right.
            let output = Command::new("kubectl")
                .args(patch)
                .arg("--as-group=system:masters")
                .output()
                .await
                .expect("kubectl");
            output.status.success().then_some(())
        })
        .await;
        binding
    }

    /// Gives a part of its leash back, without which its Job would restore nothing.
    pub async fn binds_again(&self, binding: &ValidatingAdmissionPolicyBinding) {
        Api::all(self.client.clone())
            .create(&PostParams::default(), binding)
            .await
            .unwrap();
    }
}
