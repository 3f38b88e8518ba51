//! Writes the phase of a pod.
//!
//! Phase, condition and nudge are one patch of `pods/status`, which may also change annotations. A
//! kubelet receives them in one event, so there is no time between phase and nudge in which it
//! could take the phase back, and none in which the process could die.

use kube::api::Patch;
use serde_json::{Value, json};
use swaplet_core::objects::pod::PHASE_WRITTEN;
use swaplet_core::objects::pod::annotations::FINISHED;
use swaplet_core::objects::pod::wire::PodWire;
use swaplet_core::objects::values::bounded_object::BoundedObject;
use swaplet_core::objects::values::bounds::{TEXT, cut};
use swaplet_core::report::decision::Finish;
use swaplet_core::report::denial::UNDONE;
use swaplet_core::report::write_error::WriteError;

use crate::frame::clock::{seconds, time_of_day};
use crate::frame::writer::{Outcome, Target, Writer, params, requests_for};

impl Writer {
    /// Writes the phase, the condition and the nudge. Where a webhook has set the phase back, the
    /// write is denied, whatever else was stored: the rest ends no pod.
    pub(crate) async fn finish(&self, target: &Target, finish: &Finish) -> kube::Result<Outcome> {
        let patch = Patch::Strategic(finish_patch(&target.uid, finish, time_of_day()));
        let pods = requests_for::<PodWire>(&(), Some(&target.namespace));
        let built = pods.patch_subresource("status", &target.name, &params(), &patch);
        let stored = self.send(built).await?;
        Ok(
            stored.and_then(|stored| match other_phase(&stored, finish) {
                Some(undone) => Err(WriteError::Denied(undone)),
                None => Ok(Vec::new()),
            }),
        )
    }
}

/// Returns the message for an answer with another phase than was written.
fn other_phase(stored: &[u8], finish: &Finish) -> Option<String> {
    let pod: BoundedObject = serde_json::from_slice(stored).ok()?;
    let (phase, sent) = (pod.data["status"]["phase"].as_str()?, finish.phase.as_str());
    (phase != sent).then(|| {
        let phase = cut(phase, TEXT);
        format!("{UNDONE}: status.phase is {phase}, where {sent} was written")
    })
}

/// Returns the patch. The uid, and the resourceVersion if there is one, are preconditions (409).
/// The condition is literally OpenKruise's (`markJobPodTerminated`). A strategic patch leaves the
/// other conditions alone, and creates the list if there is none.
pub fn finish_patch(uid: &str, finish: &Finish, now: jiff::Timestamp) -> Value {
    let condition = json!({
        "type": PHASE_WRITTEN, "status": "True", "lastTransitionTime": seconds(now), "message": "Terminated by Sidecar Terminator",
    });
    let mut metadata = json!({"uid": uid});
    if let Some(version) = &finish.version {
        metadata["resourceVersion"] = json!(version);
    }
    if finish.nudge {
        metadata["annotations"] =
            json!({FINISHED: now.strftime("%Y-%m-%dT%H:%M:%S%.6fZ").to_string()});
    }
    json!({"metadata": metadata, "status": {"phase": finish.phase.as_str(), "conditions": [condition]}})
}

#[cfg(test)]
mod tests {
    use swaplet_core::objects::pod::Phase;

    use super::*;

    fn patch(nudge: bool) -> Value {
        let finish = Finish {
            phase: Phase::Succeeded,
            version: Some("17".into()),
            nudge,
        };
        finish_patch(
            "uid-1",
            &finish,
            "2026-01-02T03:04:05.678901Z".parse().unwrap(),
        )
    }

    #[test]
    fn the_condition_is_that_of_openkruise_and_nothing_else_is_written() {
        let condition = json!({"type": "SidecarTerminated", "status": "True", "lastTransitionTime": "2026-01-02T03:04:05Z",
            "message": "Terminated by Sidecar Terminator"});
        assert_eq!(
            patch(false),
            json!({"metadata": {"uid": "uid-1", "resourceVersion": "17"}, "status": {"phase": "Succeeded", "conditions": [condition]}})
        );
    }

    #[test]
    fn the_nudge_is_one_annotation_that_differs_with_each_write() {
        assert_eq!(
            patch(true)["metadata"]["annotations"],
            json!({"swaplet.io/finished": "2026-01-02T03:04:05.678901Z"})
        );
    }
}
