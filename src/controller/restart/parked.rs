//! Finds parked containers without a controller, and brings them back by the write that a
//! controller would make.

use kube::api::ListParams;
use kube::{Api, Client};
use swaplet_core::report::decision::Swap;
use swaplet_core::report::write_error::WriteError;
use swaplet_core::restart::parked::PARKED;
use swaplet_core::restart::pod::{RestartPod, RestartPodWire};
use swaplet_core::restart::reconcile::{Action, Change, orphan_as_told};
use swaplet_core::restart::request::RestartRequest;

use super::write::RestartWrite;
use crate::frame::clock::time_of_day;
use crate::frame::list::{api_in, list_with};
use crate::frame::writer::{Target, Writer};

/// A pod in which containers are parked, whether or not a request still wants them back.
#[derive(Clone, Debug)]
pub struct ParkedPod {
    pod: RestartPod,
    change: Option<Change>,
    stays: Vec<String>,
    request: RestartRequest,
}

impl ParkedPod {
    fn of(pod: RestartPod) -> Option<Self> {
        let found = orphan_as_told(&pod)?;
        Some(Self {
            pod,
            change: found.change,
            stays: found.stays,
            request: found.request,
        })
    }

    /// Returns its namespace and name.
    pub fn key(&self) -> (&str, &str) {
        (&self.pod.pod.namespace, &self.pod.pod.name)
    }

    /// Returns the name of the ContainerRecreateRequest for which its containers are parked.
    pub fn request(&self) -> &str {
        &self.request.name
    }

    /// Returns its parked containers that can come back, each with the swap from the park image to
    /// the image before.
    pub fn swaps(&self) -> &[Swap] {
        let change = self.change.as_ref();
        change.map(|change| &*change.swaps).unwrap_or_default()
    }

    /// Returns the others, by the words that begin with their names: the manual fix and the reason.
    pub fn stays(&self) -> &[String] {
        &self.stays
    }
}

/// Lists the pods in which containers are parked, sorted by namespace and name, without those that
/// are being deleted or finished.
///
/// # Errors
/// The pods cannot be listed.
pub async fn parked(client: &Client, namespace: Option<&str>) -> kube::Result<Vec<ParkedPod>> {
    let pods: Api<RestartPodWire> = api_in(client, namespace);
    let selected = ListParams::default().labels(PARKED);
    let mut found = list_with(&pods, selected, |pod| pod.read().and_then(ParkedPod::of)).await?;
    found.sort_by(|a, b| a.key().cmp(&b.key()));
    Ok(found)
}

/// Gives the parked containers of a pod their images back, of those that can come back, if the pod
/// has not changed since it was read.
///
/// # Errors
/// Returns why the write was not applied.
pub async fn bring_back(
    writer: &Writer,
    ParkedPod {
        pod,
        change,
        request,
        ..
    }: ParkedPod,
) -> Result<(), WriteError> {
    let Some(change) = change else {
        return Ok(());
    };
    let pod = Some(Target::of(&pod.pod));
    let (seen, action) = (Box::default(), Action::Swap(change));
    let write = RestartWrite {
        request,
        pod,
        seen,
        action,
        done: Vec::new(),
        today: time_of_day(),
        is_for_orphan: true,
    };
    writer.restart(&write).await.map(drop)
}
