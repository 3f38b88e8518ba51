//! The status of policies, and its write.

use std::collections::BTreeMap;

use jiff::Timestamp;
use kube::Resource as _;
use kube::api::Patch;
use kube::core::Request;
use serde_json::{Value, json};
use swaplet_core::objects::moment::Moment;
use swaplet_core::objects::sidecar_policy::{PolicyKind, SidecarPolicy};
use swaplet_core::objects::values::bounded_object::BoundedObject;
use swaplet_core::policies::set::PolicyKey;
use swaplet_core::report::write_error::WriteError;

use super::{Known, PolicyStore, SAME_STATUS_EVERY, STATUS_EVERY};
use crate::frame::writer::{Writer, params};

/// The maximum number of reasons that are counted.
const MOST_REASONS: usize = 16;

/// The pods that a policy matches, among those that are kept.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// The number of pods that it matches.
    pub matched: u64,
    /// The number of pods whose sidecars are not ended, by reason.
    pub refused: BTreeMap<&'static str, u64>,
}

/// A pending write of a status.
#[derive(Clone, Debug)]
pub struct StatusWrite {
    kind: PolicyKind,
    namespace: Box<str>,
    name: Box<str>,
    uid: Box<str>,
    status: Value,
}

impl PolicyStore {
    /// Returns the statuses to write now; `counts` is called only if a write is due.
    pub fn statuses(
        &mut self,
        now: Moment,
        today: Timestamp,
        counts: impl FnOnce() -> BTreeMap<PolicyKey, Counts>,
    ) -> Vec<StatusWrite> {
        if self.known.is_empty() || self.status_due.is_some_and(|at| at > now) {
            return Vec::new();
        }
        self.status_due = Some(now + STATUS_EVERY);
        let counts = counts();
        let nothing = Counts::default();
        let ended = &self.ended;
        let changed = self.known.iter_mut().filter_map(|(key, known)| {
            let ended = ended.get(key).copied().unwrap_or_default();
            let counts = counts.get(key).unwrap_or(&nothing);
            known.next_status(counts, ended, now, today)
        });
        changed.collect()
    }
}

impl PolicyStore {
    /// Forgets a status that could not be written, because what the API server has is unknown.
    pub fn not_written(&mut self, write: &StatusWrite) {
        let key = (write.kind, write.namespace.clone(), write.name.clone());
        if let Some(known) = self.known.get_mut(&key) {
            (known.status, known.written) = (Value::Null, None);
        }
    }
}

impl Known {
    fn next_status(
        &mut self,
        counts: &Counts,
        ended: u64,
        now: Moment,
        today: Timestamp,
    ) -> Option<StatusWrite> {
        let policy = &self.policy;
        let refused: Vec<_> = counts
            .refused
            .iter()
            .take(MOST_REASONS)
            .map(|(reason, count)| json!({"reason": reason, "count": count}))
            .collect();
        let status = json!({
            "observedGeneration": policy.generation,
            "conditions": [self.accepted(today)],
            "matched": counts.matched,
            "ended": ended,
            "refused": refused,
            "problems": self.problems,
        });
        let again = self.written.as_ref().filter(|(last, _)| *last == status);
        if status == self.status || again.is_some_and(|(_, until)| *until > now) {
            return None;
        }
        self.written = Some((status.clone(), now + SAME_STATUS_EVERY));
        self.status = status.clone();
        Some(StatusWrite {
            kind: policy.kind,
            namespace: policy.namespace.clone(),
            name: policy.name.clone(),
            uid: policy.uid.clone(),
            status,
        })
    }

    /// Returns the condition `Accepted`; its transition time changes only with its status.
    fn accepted(&self, today: Timestamp) -> Value {
        let SidecarPolicy {
            rules, generation, ..
        } = &self.policy;
        let (status, reason) = match (rules.is_empty(), self.problems.is_empty()) {
            (true, _) => ("False", "Invalid"),
            (false, true) => ("True", "Accepted"),
            (false, false) => ("True", "PartlyAccepted"),
        };
        let message = self.problems.first().cloned().unwrap_or_default();
        let before = &self.status["conditions"][0];
        let since = before["lastTransitionTime"]
            .as_str()
            .filter(|_| before["status"] == status)
            .map_or_else(
                || today.strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
                str::to_owned,
            );
        json!({
            "type": "Accepted", "status": status, "reason": reason, "message": message,
            "observedGeneration": generation, "lastTransitionTime": since,
        })
    }
}

impl Writer {
    /// Writes the status of a policy, if its uid is still the same.
    ///
    /// # Errors
    /// Returns why the write was not applied.
    pub async fn report_policy(&self, write: &StatusWrite) -> Result<(), WriteError> {
        let body = json!({"metadata": {"uid": write.uid}, "status": write.status});
        self.in_time(write.kind.plural(), async {
            let namespace = (write.kind == PolicyKind::Namespaced).then_some(&*write.namespace);
            let url = BoundedObject::url_path(&write.kind.resource(), namespace);
            let built = Request::new(url).patch_subresource(
                "status",
                &write.name,
                &params(),
                &Patch::Merge(body),
            );
            Ok(self.send(built).await?.map(drop))
        })
        .await
    }
}
