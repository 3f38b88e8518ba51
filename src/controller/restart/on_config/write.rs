//! The writes of restarts for changed configuration: creation and deletion of requests.

use kube::Resource as _;
use kube::core::Request;
use serde_json::{Value, json};
use swaplet_core::objects::recreate_request::PLURAL;
use swaplet_core::report::write_error::WriteError;
use swaplet_core::restart::on_config::annotation::RESTART_ON;
use swaplet_core::restart::on_config::pod::ConfiguredPod;
use swaplet_core::restart::on_config::{Contents, as_text};
use swaplet_core::restart::request::{
    RequestedPod, RestartRequest, RestartRequestWire, new_request,
};

use crate::frame::writer::{Writer, created, deleted};

/// How long a container must be ready before the next pod is restarted, in seconds: most programs
/// that cannot use their configuration end sooner.
const MIN_STARTED_SECONDS: u32 = 10;
/// The deadline of a restart in seconds, whoever carries it out.
const DEADLINE_SECONDS: u32 = 900;

impl Writer {
    /// Creates a request for a pod; returns `None` if the answer cannot be decoded.
    ///
    /// # Errors
    /// Returns [`WriteError::Conflict`] if a request of this name exists.
    pub async fn ask_for_restart(
        &self,
        pod: &ConfiguredPod,
        name: &str,
        target: &Contents,
    ) -> Result<Option<RestartRequest>, WriteError> {
        let requests = Request::new(RestartRequestWire::url_path(&(), Some(&pod.namespace)));
        self.in_time(PLURAL, async {
            let body =
                serde_json::to_vec(&request(pod, name, target)).map_err(kube::Error::SerdeError)?;
            let stored = self.send(requests.create(&created(), body)).await?;
            Ok(stored.map(|body| {
                serde_json::from_slice::<RestartRequestWire>(&body)
                    .ok()
                    .and_then(RestartRequestWire::read)
            }))
        })
        .await
    }

    /// Deletes a request, if it still has this uid.
    ///
    /// # Errors
    /// Returns why it was not deleted.
    pub async fn forget_request(
        &self,
        namespace: &str,
        name: &str,
        uid: &str,
    ) -> Result<(), WriteError> {
        let requests = Request::new(RestartRequestWire::url_path(&(), Some(namespace)));
        self.in_time(PLURAL, async {
            let built = requests.delete(name, &deleted(uid, None));
            Ok(self.send(built).await?.map(drop))
        })
        .await
    }
}

fn request(pod: &ConfiguredPod, name: &str, target: &Contents) -> Value {
    let of = RequestedPod {
        namespace: &pod.namespace,
        name: &pod.name,
        uid: &pod.uid,
        node: &pod.node,
    };
    let mut request = new_request(name, of, target.keys().map(|container| &**container));
    request["metadata"]["annotations"] = json!({RESTART_ON: as_text(target)});
    request["spec"]["strategy"] = json!({"minStartedSeconds": MIN_STARTED_SECONDS});
    request["spec"]["activeDeadlineSeconds"] = DEADLINE_SECONDS.into();
    request
}
