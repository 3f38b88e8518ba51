//! A pod of a set, as kept in memory, and the outcome of the writes to it.

use std::time::Duration;

use swaplet_core::objects::moment::Moment;
use swaplet_core::objects::values::backoff::Backoff;
use swaplet_core::report::decision::Report;
use swaplet_core::report::reason::Reason;
use swaplet_core::report::write_error::WriteError;
use swaplet_core::restart::hot_upgrade::pair::Change;
use swaplet_core::restart::hot_upgrade::pod::UpgradePod;
use swaplet_core::restart::hot_upgrade::rollout::PodMemory;

use crate::frame::writer::report::Notice;
use crate::frame::writer::{RETRY, Target, TargetKind};

/// The backoff after a denial: somebody has to change the pod, or the policies.
const DENIED: Backoff = Backoff {
    first: Duration::from_secs(60),
    longest: Duration::from_secs(900),
};
/// The maximum number of reports that are remembered per pod.
const MOST_TOLD: usize = 8;

/// A pod and its state.
pub(super) struct KeptPod {
    pub(super) pod: UpgradePod,
    pub(super) memory: PodMemory,
    pub(super) hold: Option<Hold>,
    /// True if the last write to it was not applied.
    pub(super) is_refused: bool,
    /// True if it has appeared since all pods were listed, and this process has begun no upgrade in
    /// it. To end one that it shows is not to begin it.
    pub(super) is_foreign: bool,
    failures: u32,
    /// The recent reports about it.
    reported: Vec<Report>,
}

/// A pause: no write to the pod until this time, or until it has another version.
pub(super) struct Hold {
    version: Box<str>,
    pub(super) until: Moment,
}

impl KeptPod {
    pub(super) const fn new(pod: UpgradePod, is_foreign: bool) -> Self {
        Self {
            pod,
            memory: PodMemory::new(),
            hold: None,
            is_refused: false,
            is_foreign,
            failures: 0,
            reported: Vec::new(),
        }
    }

    pub(super) fn target(&self) -> Target {
        Target {
            kind: TargetKind::Pod,
            namespace: self.pod.namespace.clone(),
            name: self.pod.name.clone(),
            uid: self.pod.uid.clone(),
        }
    }

    /// Returns true while nothing may be written to the pod.
    pub(super) fn is_held(&self, now: Moment) -> bool {
        let hold = self.hold.as_ref();
        hold.is_some_and(|hold| hold.holds(&self.pod, now))
    }

    /// Holds writes to the current version of the pod until this time.
    pub(super) fn hold(&mut self, until: Moment) {
        let version = self.pod.version.clone();
        self.hold = Some(Hold { version, until });
    }

    /// Handles the outcome of a write. Returns what to report.
    pub(super) fn written(
        &mut self,
        outcome: &Result<Option<Box<str>>, WriteError>,
        target: &Target,
        change: &Change,
        now: Moment,
    ) -> Option<Notice> {
        self.is_refused = outcome.is_err();
        match outcome {
            // The watch shows the new version.
            Ok(stored) => {
                self.failures = 0;
                if let Some(sidecar) = change.sidecar() {
                    let stored = stored.clone().filter(|image| *image != change.image);
                    self.memory.entry(sidecar.into()).or_default().stored = stored;
                }
                self.is_foreign &= !change.begins;
                return change.report.clone().map(|report| Notice {
                    target: target.clone(),
                    report,
                });
            }
            Err(WriteError::Conflict | WriteError::Gone) => self.hold(now + RETRY.after(2)),
            Err(WriteError::Failed { retry_after, error }) => {
                let wait = RETRY
                    .after(self.failures)
                    .max(retry_after.unwrap_or_default());
                self.failures += 1;
                self.hold(now + wait);
                if wait >= RETRY.longest {
                    let note = format!("the API server does not apply a hot upgrade: {error}");
                    let reason = Reason::WriteDenied;
                    return self.news(Report { reason, note });
                }
            }
            Err(WriteError::Denied(words)) => {
                self.hold = Some(Hold {
                    // No version: it holds whatever changes about the pod.
                    version: Box::default(),
                    until: now + DENIED.after(self.failures),
                });
                self.failures += 1;
                let note = format!("the API server forbids a hot upgrade: {words}");
                let reason = Reason::WriteDenied;
                return self.news(Report { reason, note });
            }
        }
        None
    }

    /// Returns the report as a notice, unless it was emitted recently.
    pub(super) fn news(&mut self, report: Report) -> Option<Notice> {
        if self.reported.contains(&report) {
            return None;
        }
        if self.reported.len() >= MOST_TOLD {
            self.reported.clear();
        }
        self.reported.push(report.clone());
        Some(Notice {
            target: self.target(),
            report,
        })
    }
}

impl Hold {
    fn holds(&self, pod: &UpgradePod, now: Moment) -> bool {
        now < self.until && (self.version.is_empty() || self.version == pod.version)
    }
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
        let mut kept = KeptPod::new(wire.read().unwrap().for_update(&Selector::default()), true);
        let target = kept.target();
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
            kept.written(&Ok(None), &target, &change, Moment::START);
            assert_eq!(kept.is_foreign, was_foreign && !begins);
        }
        assert!(!kept.is_foreign);
    }
}
