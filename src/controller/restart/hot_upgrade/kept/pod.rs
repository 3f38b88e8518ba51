//! A pod of a set, as kept in memory, and the outcome of the writes to it.

use crate::frame::writer::report::Notice;
use crate::frame::writer::{RETRY, Target, TargetKind};
use swaplet_core::objects::moment::Moment;
use swaplet_core::objects::values::backoff::Backoff;
use swaplet_core::report::decision::Report;
use swaplet_core::report::reason::Reason;
use swaplet_core::report::write_error::WriteError;
use swaplet_core::restart::hot_upgrade::pair::Change;
use swaplet_core::restart::hot_upgrade::pod::UpgradePod;
use swaplet_core::restart::hot_upgrade::rollout::PodMemory;

/// The backoff after a denial: somebody has to change the pod, or the policies.
const DENIED: Backoff = Backoff::seconds(60, 900);
/// The maximum number of reports that are remembered per pod.
const MOST_TOLD: usize = 8;

/// What is kept beside a pod.
#[derive(Default)]
pub(super) struct KeptPod {
    pub(super) memory: PodMemory,
    pub(super) in_flight: bool,
    /// No write is made before this time, unless the pod changes first; after a denial, whatever
    /// changes about it.
    pub(super) not_before: Moment,
    pub(super) is_denied: bool,
    /// True if the last write to it was not applied.
    pub(super) is_refused: bool,
    /// True if it has appeared since all pods were listed, and this process has begun no upgrade in
    /// it. To end one that it shows is not to begin it.
    pub(super) is_foreign: bool,
    failures: u32,
    /// The recent reports about it.
    reported: Vec<Report>,
}

impl KeptPod {
    /// Handles the outcome of a write. Returns what to report.
    pub(super) fn written(
        &mut self,
        outcome: Result<&Option<UpgradePod>, &WriteError>,
        target: &Target,
        change: &Change,
        now: Moment,
    ) -> Option<Notice> {
        self.in_flight = false;
        self.is_refused = outcome.is_err();
        self.is_denied = matches!(outcome, Err(WriteError::Denied(_)));
        match outcome {
            Ok(stored) => {
                self.failures = 0;
                if let Some(sidecar) = change.sidecar() {
                    let stored = stored.as_ref().and_then(|pod| pod.find(&change.container));
                    let image = stored.map(|container| container.image.clone());
                    let other = image.filter(|image| *image != change.image);
                    self.memory.entry(sidecar.into()).or_default().stored = other;
                }
                self.is_foreign &= !change.begins;
                return change.report.clone().map(|report| Notice {
                    target: target.clone(),
                    report,
                });
            }
            Err(WriteError::Conflict | WriteError::Gone) => self.not_before = now + RETRY.after(2),
            Err(WriteError::Failed { retry_after, error }) => {
                let wait = RETRY
                    .after(self.failures)
                    .max(retry_after.unwrap_or_default());
                self.failures += 1;
                self.not_before = now + wait;
                if wait >= RETRY.longest {
                    let note = format!("the API server does not apply a hot upgrade: {error}");
                    let reason = Reason::WriteDenied;
                    return self.news(target.clone(), Report::new(reason, note));
                }
            }
            Err(WriteError::Denied(words)) => {
                self.not_before = now + DENIED.after(self.failures);
                self.failures += 1;
                let note = format!("the API server forbids a hot upgrade: {words}");
                let reason = Reason::WriteDenied;
                return self.news(target.clone(), Report::new(reason, note));
            }
        }
        None
    }

    /// Returns the report as a notice, unless it was emitted recently.
    pub(super) fn news(&mut self, target: Target, report: Report) -> Option<Notice> {
        if self.reported.contains(&report) {
            return None;
        }
        if self.reported.len() >= MOST_TOLD {
            self.reported.clear();
        }
        self.reported.push(report.clone());
        Some(Notice { target, report })
    }
}

pub(super) fn target(pod: &UpgradePod) -> Target {
    Target::new(TargetKind::Pod, &pod.namespace, &pod.name, &pod.uid)
}

#[cfg(test)]
mod tests {
    use kube::core::Selector;
    use serde_json::json;
    use swaplet_core::restart::hot_upgrade::pod::UpgradePodWire;

    use super::*;

    /// Anyone can create a pod that seems to be upgraded, and have its upgrade ended.
    #[test]
    fn a_pod_is_none_of_ours_until_an_upgrade_was_begun_in_it() {
        let containers = [
            json!({"name": "mesh-1", "image": "mesh:1"}),
            json!({"name": "mesh-2", "image": "mesh:2"}),
        ];
        let pod = json!({"metadata": {"name": "p", "namespace": "evil", "uid": "p"}, "spec": {"containers": containers}});
        let wire: UpgradePodWire = serde_json::from_value(pod).unwrap();
        let target = target(&wire.read().unwrap().for_update(&Selector::default()));
        let mut kept = KeptPod {
            is_foreign: true,
            ..KeptPod::default()
        };
        for begins in [false, true, false] {
            let change = Change {
                version: "1".into(),
                container: "mesh-2".into(),
                before: "park:1".into(),
                image: "mesh:2".into(),
                annotations: Vec::new(),
                report: None,
                begins,
            };
            let was_foreign = kept.is_foreign;
            kept.written(Ok(&None), &target, &change, Moment::START);
            assert_eq!(kept.is_foreign, was_foreign && !begins);
        }
        assert!(!kept.is_foreign);
    }
}
