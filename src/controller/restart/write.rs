//! The writes of a restart: to one version of the request, and to one generation of the pod, or to
//! one version of it where its record of parked containers is written.

#[cfg(test)]
mod tests;

use json_patch::jsonptr::PointerBuf;
use json_patch::{Patch as JsonPatch, PatchOperation, TestOperation};
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};
use swaplet_core::image::alias::is_same_image;
use swaplet_core::objects::pod::{GateCondition, KRUISE_POD_READY};
use swaplet_core::objects::recreate_request::RequestPhase;
use swaplet_core::report::decision::{Report, Swap};
use swaplet_core::report::write_error::WriteError;
use swaplet_core::restart::parked::{PARKED, Parked};
use swaplet_core::restart::pod::{RestartPod, RestartPodWire};
use swaplet_core::restart::reconcile::{
    Acceptance, Action, Change, Filled, Note, Readiness, Status,
};
use swaplet_core::restart::request::{
    ACTIVE, JOURNAL, Journal, NODE_NAME, POD_UID, RestartRequest, RestartRequestWire,
    UNREADY_ACQUIRED,
};

use crate::frame::clock::seconds;
use crate::frame::writer::{Target, Writer, deleted, guarded_patch, params, requests_for};

/// The API server's words for a webhook that may not be called in a dry run (Kubernetes:
/// `NewDryRunUnsupportedErr` in `webhook/errors/statuserror.go`).
const NO_DRY_RUN: &str = "does not support dry run";

/// One write of a restart.
#[derive(Clone, Debug)]
pub struct RestartWrite {
    /// The request at the time of the decision.
    pub request: RestartRequest,
    /// Its pod, if there is one.
    pub pod: Option<Target>,
    /// The resourceVersion of the pod at the time of the decision.
    pub seen: Box<str>,
    /// The change to write.
    pub action: Action,
    /// The reports to emit about the pod once it is applied.
    pub done: Vec<Report>,
    /// The time of day, for a completion.
    pub today: jiff::Timestamp,
    /// True for containers that are parked for no request: then only the names of the request are
    /// known.
    pub is_for_orphan: bool,
}

/// The object that the API server has stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stored {
    /// The request.
    Request(Box<RestartRequest>),
    /// The pod.
    Pod(Box<RestartPod>),
    /// None: it was deleted, or the answer is not what was expected; the watch will show it.
    Nothing,
}

impl RestartWrite {
    /// Returns true for a write to the pod.
    pub const fn is_of_pod(&self) -> bool {
        matches!(self.action, Action::Swap(_) | Action::SetReadiness(_))
    }

    /// Returns what is written, by which denials are counted: a webhook for requests is not called
    /// for their status.
    pub fn part(&self) -> &'static str {
        match self.action {
            Action::Report(_) => "status",
            _ => self.resource(),
        }
    }

    /// Returns the plural of the resource that is written.
    pub fn resource(&self) -> &'static str {
        match self.action {
            Action::Swap(..) => "pods",
            Action::SetReadiness(_) => "pods/status",
            _ => swaplet_core::objects::recreate_request::PLURAL,
        }
    }
}

impl Writer {
    /// Makes the write, within the deadline; returns what is stored afterwards.
    pub async fn restart(&self, write: &RestartWrite) -> Result<Stored, WriteError> {
        if let Action::Swap(change) = &write.action
            && let Some(refused) = self.refusal(write, change).await
        {
            return Err(refused);
        }
        let metadata = |fields: Value| json!({"metadata": fields});
        self.in_time(write.resource(), async {
            let body = match &write.action {
                Action::Accept(acceptance) => accepted(acceptance),
                Action::WriteDown(journal) => written_down(journal),
                Action::Report(status) => json!({"status": status_of(status, write.today)}),
                Action::Release => metadata(json!({"labels": {ACTIVE: null}})),
                Action::Finalize(finalizers) => {
                    let finalizers = Some(finalizers).filter(|finalizers| !finalizers.is_empty());
                    metadata(json!({"finalizers": finalizers}))
                }
                Action::NoteUnready => {
                    metadata(json!({"annotations": {UNREADY_ACQUIRED: seconds(write.today)}}))
                }
                Action::SetReadiness(readiness) => {
                    let pod = write.pod.as_ref();
                    return self.set_readiness(pod, readiness, write.today).await;
                }
                Action::Delete => return self.delete_request(&write.request).await,
                Action::Swap(change) => {
                    return self
                        .swap_to_restart(write.pod.as_ref(), change, &params())
                        .await;
                }
            };
            let subresource = matches!(write.action, Action::Report(_)).then_some("status");
            self.patch_request(&write.request, body, subresource).await
        })
        .await
    }

    /// Returns why a change of images is not made, by dry runs: of itself, where a container could be
    /// lost by it, and of the way back, where it parks containers. What no dry run shows is done by
    /// force only.
    async fn refusal(&self, write: &RestartWrite, change: &Change) -> Option<WriteError> {
        let dry_run = PatchParams {
            dry_run: true,
            ..params()
        };
        let is_forced = write.request.strategy.force;
        if !change.tried.is_empty() {
            let tried = self.swap_to_restart(write.pod.as_ref(), change, &dry_run);
            let tried = self.in_time(write.resource(), tried).await;
            if let Some(refused) = refused(tried, change, is_forced) {
                return Some(refused);
            }
        }
        let (as_it_is, pod) = (change.as_it_is()?, write.pod.as_ref()?);
        let pods = requests_for::<RestartPodWire>(&(), Some(&pod.namespace));
        let patch = Patch::Json::<()>(swapped(&pod.uid, &as_it_is));
        let back = self.sent(write.resource(), pods.patch(&pod.name, &dry_run, &patch));
        // What a webhook would make of the image is seen when it is put back.
        Some(
            match refused(back.await.map(|_| Stored::Nothing), change, is_forced)? {
                WriteError::Denied(words) => {
                    WriteError::Denied(format!("its image could not be put back: {words}"))
                }
                error => error,
            },
        )
    }

    /// Sets the first condition of a pod's readiness gate.
    ///
    /// # Errors
    /// Returns why the write was not applied.
    pub async fn set_first_readiness(
        &self,
        pod: &Target,
        readiness: &Readiness,
        today: jiff::Timestamp,
    ) -> Result<(), WriteError> {
        let write = self.set_readiness(Some(pod), readiness, today);
        self.in_time("pods/status", write).await.map(drop)
    }

    async fn patch_request(
        &self,
        request: &RestartRequest,
        mut body: Value,
        subresource: Option<&str>,
    ) -> kube::Result<Result<Stored, WriteError>> {
        body["metadata"]["uid"] = Value::from(&*request.uid);
        body["metadata"]["resourceVersion"] = Value::from(&*request.version);
        let requests = requests_for::<RestartRequestWire>(&(), Some(&request.namespace));
        let patch = Patch::Merge(body);
        let built = match subresource {
            Some(subresource) => {
                requests.patch_subresource(subresource, &request.name, &params(), &patch)
            }
            None => requests.patch(&request.name, &params(), &patch),
        };
        let stored = self.send(built).await?;
        Ok(stored.map(|body| {
            let read = serde_json::from_slice::<RestartRequestWire>(&body)
                .ok()
                .and_then(RestartRequestWire::read);
            read.map_or(Stored::Nothing, |request| {
                Stored::Request(Box::new(request))
            })
        }))
    }

    async fn delete_request(
        &self,
        request: &RestartRequest,
    ) -> kube::Result<Result<Stored, WriteError>> {
        let as_seen = deleted(&request.uid, Some(&request.version));
        let requests = requests_for::<RestartRequestWire>(&(), Some(&request.namespace));
        let built = requests.delete(&request.name, &as_seen);
        Ok(self.send(built).await?.map(|_| Stored::Nothing))
    }

    async fn swap_to_restart(
        &self,
        pod: Option<&Target>,
        change: &Change,
        params: &PatchParams,
    ) -> kube::Result<Result<Stored, WriteError>> {
        let Some(pod) = pod else {
            return Ok(Err(WriteError::Gone));
        };
        let pods = requests_for::<RestartPodWire>(&(), Some(&pod.namespace));
        let swaps = change.swaps.iter();
        let images: Vec<_> = swaps
            .map(|swap| (&*swap.container, &*swap.from, &*swap.to))
            .collect();
        let built = match &change.note {
            None => pods.patch(
                &pod.name,
                params,
                &Patch::Json::<()>(swapped(&pod.uid, change)),
            ),
            Some(note) => pods.patch(
                &pod.name,
                params,
                &Patch::Strategic(parked(&pod.uid, change, note)),
            ),
        };
        Ok(self
            .send_images(built, &images)
            .await?
            .map(|body| stored_pod(&body)))
    }

    async fn set_readiness(
        &self,
        pod: Option<&Target>,
        readiness: &Readiness,
        today: jiff::Timestamp,
    ) -> kube::Result<Result<Stored, WriteError>> {
        let Some(pod) = pod else {
            return Ok(Err(WriteError::Gone));
        };
        let patch = Patch::Strategic(readiness_patch(&pod.uid, readiness, today));
        let pods = requests_for::<RestartPodWire>(&(), Some(&pod.namespace));
        let built = pods.patch_subresource("status", &pod.name, &params(), &patch);
        Ok(self.send(built).await?.map(|body| stored_pod(&body)))
    }
}

/// Returns why a change is not made, by the answer to its dry run; `None` if nothing is known against
/// it.
fn refused(
    tried: Result<Stored, WriteError>,
    change: &Change,
    is_forced: bool,
) -> Option<WriteError> {
    let pod = match tried {
        Ok(Stored::Pod(pod)) => pod,
        Ok(_) => return None,
        Err(WriteError::Denied(words)) if words.contains(NO_DRY_RUN) => {
            let words = format!(
                "{words}, so it is not known what it would make of the image; set strategy.forceRecreate to restart it all the same"
            );
            return (!is_forced).then_some(WriteError::Denied(words));
        }
        Err(error) => return Some(error),
    };
    let is_tried = |swap: &&Swap| change.tried.contains(&swap.container);
    let mut swaps = change.swaps.iter().filter(is_tried);
    swaps.find_map(|swap| {
        let (image, to) = (&pod.find(&swap.container)?.1.image, &swap.to);
        let words = || {
            format!(
                "a webhook of the cluster would make {image} of {to}, which is not known to be the same"
            )
        };
        (!is_same_image(image, &swap.to)).then(|| WriteError::Denied(words()))
    })
}

fn stored_pod(body: &[u8]) -> Stored {
    let read = serde_json::from_slice::<RestartPodWire>(body)
        .ok()
        .and_then(RestartPodWire::read);
    read.map_or(Stored::Nothing, |pod| Stored::Pod(Box::new(pod)))
}

/// Returns the patch. The uid and resourceVersion are preconditions (409), so that entries written
/// by others meanwhile are not overwritten. A strategic patch leaves the other conditions alone.
/// The messages of `Ready` are those of OpenKruise and of kubelets.
fn readiness_patch(uid: &str, readiness: &Readiness, today: jiff::Timestamp) -> Value {
    let now = seconds(today);
    let GateCondition { is_true, message } = &readiness.gate;
    let status = if *is_true { "True" } else { "False" };
    let mut conditions = vec![
        json!({"type": KRUISE_POD_READY, "status": status, "message": message, "lastTransitionTime": now}),
    ];
    if readiness.unready {
        let message = format!(
            "the status of pod readiness gate \"{KRUISE_POD_READY}\" is not \"True\", but False"
        );
        conditions.push(json!({
            "type": "Ready", "status": "False", "reason": "ReadinessGatesNotReady", "message": message, "lastTransitionTime": now,
        }));
    }
    json!({"metadata": {"uid": uid, "resourceVersion": readiness.version}, "status": {"conditions": conditions}})
}

fn swapped(uid: &str, change: &Change) -> JsonPatch {
    let mut patch = guarded_patch(uid, &change.swaps);
    if let Some(generation) = change.generation {
        let path = PointerBuf::from_tokens(["metadata", "generation"]);
        patch.0.insert(
            1,
            PatchOperation::Test(TestOperation {
                path,
                value: generation.into(),
            }),
        );
    }
    patch
}

/// Returns a patch for one version of the pod, which implies all that the tests of a JSON patch
/// would: a JSON patch cannot add an annotation if there may be none yet. The server merges
/// containers by their names.
fn parked(uid: &str, change: &Change, note: &Note) -> Value {
    let annotation = note.parked.as_ref().map(Parked::as_text);
    let label = annotation.as_ref().map(|_| "true");
    let metadata = json!({"uid": uid, "resourceVersion": note.version, "annotations": {PARKED: annotation}, "labels": {PARKED: label}});
    let mut patch = json!({"metadata": metadata});
    for (list, is_native_sidecar) in [("containers", false), ("initContainers", true)] {
        let swaps = change.swaps.iter();
        let images: Vec<_> = swaps
            .filter(|swap| swap.is_native_sidecar == is_native_sidecar)
            .map(|swap| json!({"name": swap.container, "image": swap.to}))
            .collect();
        if !images.is_empty() {
            patch["spec"][list] = images.into();
        }
    }
    patch
}

/// Returns the labels and fields that OpenKruise's webhook adds to a request, with the journal.
fn accepted(acceptance: &Acceptance) -> Value {
    let Acceptance {
        pod_uid,
        node,
        journal,
        containers,
        grace_seconds,
    } = acceptance;
    let mut body = written_down(journal);
    body["metadata"]["labels"] = json!({POD_UID: pod_uid, NODE_NAME: node, ACTIVE: "true"});
    if !containers.is_empty() {
        body["spec"]["containers"] = containers.iter().map(filled).collect();
    }
    if let Some(seconds) = grace_seconds {
        body["spec"]["strategy"]["terminationGracePeriodSeconds"] = (*seconds).into();
    }
    body
}

fn filled(container: &Filled) -> Value {
    let Filled {
        name,
        context,
        pre_stop,
        ports,
    } = container;
    let context =
        json!({"containerID": context.container_id, "restartCount": context.restart_count});
    let mut body = json!({"name": name, "statusContext": context});
    for (field, value) in [("preStop", pre_stop), ("ports", ports)] {
        if let Some(value) = value {
            body[field] = value.clone();
        }
    }
    body
}

fn written_down(journal: &Journal) -> Value {
    json!({"metadata": {"annotations": {JOURNAL: journal.as_text()}}})
}

fn status_of(status: &Status, today: jiff::Timestamp) -> Value {
    let Status {
        phase,
        message,
        states,
    } = status;
    let mut body = json!({"phase": phase, "message": message, "containerRecreateStates": states});
    if *phase == RequestPhase::Completed {
        body["completionTime"] = seconds(today).into();
    }
    body
}
