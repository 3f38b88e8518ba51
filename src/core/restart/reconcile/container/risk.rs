//! The risk of a restart: what may prevent the start after the stop.

use std::time::Duration;

use super::Target;
use super::refusal::Way;
use crate::cluster::node_class::NodeClass;
use crate::image::alias::{Alias, Form};
use crate::objects::node::KubeletVersion;
use crate::objects::pod::{Container, ContainerState, RestartPolicy, roles};
use crate::objects::runs_on::RunsOn;
use crate::restart::reconcile::age;

/// How long a kubelet may keep a back-off after the last start by a name: twice the longest
/// (`crashLoopBackOff.maxContainerRestartPeriod`, at most 300 s).
const BACK_OFF: Duration = Duration::from_secs(600);
/// Kubelets from this one on check the credentials of an image again for each name of a repository
/// (KEP-2535).
const CHECKS_CREDENTIALS: KubeletVersion = KubeletVersion {
    major: 1,
    minor: 35,
};

impl Target<'_> {
    /// Returns the risk that the restart loses the container; `None` if there is none. Under
    /// `Never` a start that fails after the old container was stopped is final, and no later change
    /// brings the container back (`docs/measured.md`, "Images by other names"). Under `OnFailure`
    /// it is final if the container exits with 0 when it is stopped (`docs/measured.md`, row 13). A
    /// start can fail for many reasons that no status shows before: the node restarts in between
    /// (`docs/measured.md`, row 37), a Secret is gone. For a main container of a Job it would count
    /// as the end of its work, which is done only in part, so that is never risked without
    /// `forceRecreate`.
    pub(super) fn risk(&self, way: &Way) -> Option<String> {
        let (pod, container) = (self.case.pod, self.container);
        if matches!(way, Way::Park(_)) && !self.runs_on().is_known() {
            return Some("neither its node nor the pod says on which operating system and processor it runs, and the park image is not for all of them".to_owned());
        }
        if let Some(back_off) = self.back_off(way) {
            return Some(back_off);
        }
        let policy = container.effective_policy(&pod.pod);
        let (stop, lost) = match policy {
            RestartPolicy::Always => return None,
            RestartPolicy::OnFailure => (
                "a stop with exit code 0",
                "under restartPolicy OnFailure it would be lost for good if it stopped with exit code 0 and did not start again",
            ),
            RestartPolicy::Never => (
                "its stop",
                "under restartPolicy Never it would be lost for good if it did not start again",
            ),
            RestartPolicy::Unknown(_) => return Some("its restart policy is not known".to_owned()),
        };
        if let Some(owner) = pod
            .controller
            .as_ref()
            .filter(|_| roles::mains(&pod.pod).any(|main| main.name == container.name))
        {
            return Some(format!(
                "it is a main container of {owner}, and under restartPolicy {} {stop} would count as the end of its work if it did not start again",
                policy.as_str()
            ));
        }
        let is_never = *policy == RestartPolicy::Never;
        Some(format!("{lost}, and {}", self.danger(way, is_never)?))
    }

    /// Returns why the kubelet may refuse the next start for up to five minutes, which is final if
    /// the container does not come back by itself: it keeps a back-off for each name of an image,
    /// and only fresh names have none. What was started before the present container is forgotten
    /// once that has run for long enough; one that was never restarted has had one name.
    fn back_off(&self, way: &Way) -> Option<String> {
        let (container, status) = (self.container, self.status);
        if matches!(way, Way::Alias(alias) if alias.form == Form::Fresh)
            || status.restart_count == 0
        {
            return None;
        }
        let ran = match &status.state {
            ContainerState::Running { started_at } => {
                started_at.map_or(Duration::ZERO, |at| age(at, self.case.around))
            }
            // It is down anyway, and comes back by itself.
            _ if *container.effective_policy(&self.case.pod.pod) == RestartPolicy::Always => {
                return None;
            }
            _ => Duration::ZERO,
        };
        let left = BACK_OFF.checked_sub(ran).filter(|left| !left.is_zero())?;
        Some(format!(
            "it was restarted before, its image has no name that its node has not seen yet, and a kubelet does not start a name that it has started within {} s before a back-off of up to 300 s is over: wait {} s",
            BACK_OFF.as_secs(),
            left.as_secs() + 1
        ))
    }

    fn runs_on(&self) -> RunsOn {
        let said = self.details.facts.as_deref().map(|facts| facts.runs_on);
        self.case.around.runs_on.or(said.unwrap_or_default())
    }

    /// Returns what may prevent the next start; `None` if nothing is known.
    fn danger(&self, way: &Way, is_never: bool) -> Option<&'static str> {
        if self.details.pulls_always {
            Some("imagePullPolicy Always queries the registry at the start")
        } else if matches!(way, Way::Park(_)) {
            Some("the node may have to pull the park image first")
        } else if matches!(way, Way::Alias(alias) if !alias.is_on_node) {
            Some("the node does not report that it has the image under another name")
        } else if let Some(checked) = self.checks_credentials(way) {
            Some(checked)
        } else if is_never && !self.others_run() {
            Some("no other container of the pod runs in the meantime")
        } else if is_never && self.case.around.node != Some(NodeClass::Kubelet) {
            Some(
                "the node is, or may be, a virtual one, which may judge the pod while the container is stopped",
            )
        } else {
            None
        }
    }

    /// Returns what the kubelet may check again for the alias; `None` for older kubelets, and for
    /// what needs no credentials.
    fn checks_credentials(&self, way: &Way) -> Option<&'static str> {
        let around = self.case.around;
        let may_be_kubelet = |class: NodeClass| class.is_kubelet() || class == NodeClass::Unknown;
        let checks = around.node.is_none_or(may_be_kubelet)
            && around
                .kubelet
                .is_none_or(|version| version >= CHECKS_CREDENTIALS);
        match way {
            Way::Alias(Alias {
                form: Form::Respelled,
                ..
            }) if checks => Some(
                "kubelets from 1.35 on take the long and the short name of an image of Docker Hub for two images, of which they may have to pull the other",
            ),
            Way::Alias(_) if checks && self.case.pod.has_pull_secrets => Some(
                "the pod has imagePullSecrets, which kubelets from 1.35 on check again at the start, and which may be gone",
            ),
            Way::Alias(_) | Way::Park(_) => None,
        }
    }

    fn others_run(&self) -> bool {
        let runs = |other: &Container| {
            other
                .status
                .as_ref()
                .is_some_and(|status| matches!(status.state, ContainerState::Running { .. }))
        };
        self.case
            .pod
            .pod
            .containers
            .iter()
            .any(|other| other.name != self.container.name && runs(other))
    }
}
