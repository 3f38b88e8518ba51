//! The checks before a restart: one that cannot work, or could lose the container, is refused with
//! the reason before anything is written.

use std::time::Duration;

use super::{Step, Target, Wait};
use crate::cluster::headroom::Headroom;
use crate::cluster::node_class::NodeClass;
use crate::image::alias::{Alias, Reported, is_bare_digest};
use crate::objects::node::KubeletVersion;
use crate::objects::pod::evidence::is_pull_error;
use crate::objects::pod::roles::{self, Mains};
use crate::objects::pod::{ContainerState, RestartPolicy};
use crate::restart::pod::RestartPod;
use crate::restart::reconcile::parking::image::{self, ParkImage};
use crate::restart::reconcile::{Around, coming};
use crate::restart::request::{Intent, Mark, Parking};

/// The answer to whether a container may be restarted now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// Yes, in this way.
    Yes(Way),
    /// Not before this condition is met.
    Wait(Wait),
    /// Never, for this reason.
    No(String),
}

/// The way in which a container is restarted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// With this other spelling of its image.
    Alias(Alias),
    /// With the park image, by this reference, and then the image before.
    Park(String),
}

impl Way {
    /// Returns the image to write.
    pub fn image(&self) -> &str {
        match self {
            Self::Alias(alias) => &alias.image,
            Self::Park(image) => image,
        }
    }

    /// Returns how many restarts it takes beyond the first.
    const fn more_restarts(&self) -> u32 {
        match self {
            Self::Alias(_) => 0,
            Self::Park(_) => 1,
        }
    }
}

/// How long a node is waited for that does not report the image which the spec has: longer than a
/// container takes to stop by default (30 s).
const NODE_REPORTS: Duration = Duration::from_secs(60);
/// The hint for a refusal that `forceRecreate` overrides.
const UNLESS_FORCED: &str = "set strategy.forceRecreate to restart it all the same";

impl Target<'_> {
    /// Returns the mark to record first, or why the container may not be restarted now.
    pub(crate) fn begin(&self, restarts: u32) -> Step {
        match self.ask(restarts) {
            Answer::Yes(Way::Park(_)) if self.overwrites() => Step::WaitsFor(Wait::Parked),
            Answer::Yes(way) => Step::Begin(self.mark_now(&way)),
            Answer::Wait(wait) => Step::WaitsFor(wait),
            Answer::No(why) => Step::failed(format!("not restarted: {why}")),
        }
    }

    fn mark_now(&self, way: &Way) -> Mark {
        let parking = matches!(way, Way::Park(_)).then_some(Parking::Out);
        let (from, to) = (self.container.image.clone(), way.image().into());
        let intent = Intent {
            from,
            to,
            generation: self.case.pod.generation,
            back: None,
            parking,
        };
        Mark {
            intent: Some(intent),
            ..self.mark.or_later(self.status)
        }
    }

    /// Returns the recorded change, if it may still be made.
    pub(crate) fn swap(&self, intent: &Intent, restarts: u32) -> Step {
        let as_recorded = |now: &Intent| (&now.to, now.parking) == (&intent.to, intent.parking);
        match self.begin(restarts) {
            Step::Begin(mark) if mark.intent.as_ref().is_some_and(as_recorded) => {
                Step::Swap(self.change(&intent.from, &intent.to))
            }
            // With a mark to record, the node reports another digest than before, or another writer
            // has recorded another intent.
            step => step,
        }
    }

    /// Decides if the container may be restarted now, as the last of `restarts` begun at once.
    fn ask(&self, restarts: u32) -> Answer {
        let around = self.case.around;
        if let Some(no) = self
            .ended()
            .or_else(|| self.restarts_all())
            .or_else(|| by_node(around))
            .or_else(|| by_kubelet(around).filter(|_| self.details.is_native_sidecar))
        {
            return Answer::No(no);
        }
        if let Some(park) = around.park.filter(|park| park.is(&self.container.image)) {
            return already_parked(self.case.pod, &self.container.name, park);
        }
        if self.is_recorded_as_parked() {
            return Answer::Wait(Wait::Parked);
        }
        let way = match self.way() {
            Ok(way) => way,
            Err(no) => return Answer::No(no),
        };
        if matches!(way, Way::Alias(_)) && !self.is_reported() {
            return Answer::Wait(Wait::Node);
        }
        let force = self.case.request.strategy.force;
        match self.risk(&way).filter(|_| !force) {
            Some(risk) => Answer::No(format!("{risk}; {UNLESS_FORCED}")),
            None => {
                let own = |name: &str| *name == *self.container.name;
                let coming = coming(self.case.request, self.case.pod, own);
                fits(way, restarts, coming, around)
            }
        }
    }

    fn way(&self) -> Result<Way, String> {
        // No registry has an image by its bare digest.
        let can_be_had =
            |alias: &Alias| !(self.details.pulls_always && is_bare_digest(&alias.image));
        let count = self
            .case
            .pod
            .generation
            .unwrap_or(self.status.restart_count);
        let count = count.try_into().unwrap_or_default();
        let alias = Alias::of(&self.container.image, self.reported(), count).filter(can_be_had);
        let Around { park, runs_on, .. } = *self.case.around;
        let park = || image::park(self.container, self.details, park, runs_on).map(Way::Park);
        match alias.map(Way::Alias) {
            Some(alias) if self.is_reported() || !self.has_waited_for_node() => Ok(alias),
            Some(alias) => Ok(park().unwrap_or(alias)),
            None => park(),
        }
    }

    /// Returns true if the node has had the time in which it stops a container, or a way that does
    /// not need its word was begun: it may report another name of the same bytes for good.
    fn has_waited_for_node(&self) -> bool {
        let (waits, now) = (self.times.waits, self.case.around.now);
        let intent = self.mark.intent.as_ref();
        waits.is_some_and(|since| since + NODE_REPORTS <= now)
            || intent.is_some_and(|intent| intent.parking.is_some())
    }

    /// Returns the image and digest that the node reports for the container.
    pub(super) fn reported(&self) -> Reported<'_> {
        Reported {
            image: &self.status.image,
            image_id: &self.details.image_id,
        }
    }

    /// Returns true if what the node reports is about the image that the spec has: it may be of the
    /// container before while that stops, and a new image would be started with the old bytes.
    pub(super) fn is_reported(&self) -> bool {
        let is_about = || {
            self.case.pod.generation == Some(1) || self.reported().is_about(&self.container.image)
        };
        self.is_seen_by_node() && is_about()
    }

    /// Returns why the container has ended for good, or is about to; `None` if it has not.
    fn ended(&self) -> Option<String> {
        let (pod, container) = (&self.case.pod.pod, self.container);
        if self.case.around.exit_images.contains(&container.image) {
            return Some(format!(
                "it was ended, by the exit image {}",
                container.image
            ));
        }
        if pod.restart_policy != RestartPolicy::Always
            && roles::sidecars(pod).next().is_some()
            && roles::mains_state(pod) == Mains::Done
        {
            return Some("the main containers of the pod are done".to_owned());
        }
        if let ContainerState::Waiting { reason, .. } = &self.status.state
            && is_pull_error(reason)
        {
            return Some(format!(
                "its image cannot be pulled under any name ({reason})"
            ));
        }
        let end = container.end()?;
        (container.comes_back_after(pod, end.exit_code) != Some(true)).then(|| {
            format!(
                "it has ended, and its restart policy {} does not start it again",
                container.effective_policy(pod).as_str()
            )
        })
    }

    /// Returns why the container must not be stopped; `None` if that stops no other one. Its exit
    /// code is not known before. Main containers would repeat their work, and the restarts of all
    /// count against the `backoffLimit` of the pod's Job, so no request can force it.
    fn restarts_all(&self) -> Option<String> {
        self.container.may_restart_all().then(|| {
            "its restartPolicyRules may restart all containers of the pod when it is stopped"
                .to_owned()
        })
    }
}

/// Checks that the restart fits into what the pod's Job allows, beside those that are still coming
/// for the same request.
fn fits(way: Way, restarts: u32, coming: u32, around: &Around<'_>) -> Answer {
    match (around.room)(restarts + way.more_restarts() + coming) {
        // The last is about swaps alone.
        Headroom::Free | Headroom::Fits | Headroom::Unborne { .. } => Answer::Yes(way),
        Headroom::Wait(_) | Headroom::TooEarly => Answer::Wait(Wait::Room),
        // Those that are coming may not come.
        Headroom::NeverFits(_) if coming > 0 => Answer::Wait(Wait::Room),
        Headroom::NeverFits(shortage) => Answer::No(format!(
            "a restart counts against the backoffLimit {} of the pod's Job, which has {} restarts, and would fail it: raise the limit",
            shortage.limit, shortage.restarts
        )),
        Headroom::JobUnknown { .. } => Answer::No(
            "the Job of the pod has not been observed, so its allowed restarts are not known"
                .to_owned(),
        ),
    }
}

/// Waits for the image before to be put back; refuses if the pod does not record it.
fn already_parked(pod: &RestartPod, name: &str, park: &ParkImage) -> Answer {
    match &pod.parked {
        Some(parked) if parked.images.contains_key(name) => Answer::Wait(Wait::Parked),
        _ => Answer::No(format!(
            "it has the park image {park}, and its previous image is not recorded"
        )),
    }
}

fn by_node(around: &Around<'_>) -> Option<String> {
    match around.node? {
        NodeClass::VirtualInert => Some("the node ignores a changed image".to_owned()),
        NodeClass::VirtualRejects => Some("the node fails on a changed image".to_owned()),
        NodeClass::Kubelet | NodeClass::VirtualUpdates | NodeClass::Daemon | NodeClass::Unknown => {
            None
        }
    }
}

/// Kubelets before this one ignore a changed image of a native sidecar (`docs/measured.md`, row 23:
/// 1.30 does, 1.32 does not).
const NATIVE_SIDECARS: KubeletVersion = KubeletVersion {
    major: 1,
    minor: 32,
};

fn by_kubelet(around: &Around<'_>) -> Option<String> {
    if around.node != Some(NodeClass::Kubelet) {
        return Some(
            "it is a native sidecar, and these are restarted on ordinary nodes only".to_owned(),
        );
    }
    match around.kubelet {
        Some(version) if version >= NATIVE_SIDECARS => None,
        Some(version) => Some(format!(
            "it is a native sidecar, and the kubelet {version} of its node ignores a changed image of these; {NATIVE_SIDECARS} does not"
        )),
        None => Some(format!(
            "it is a native sidecar, which needs a kubelet of {NATIVE_SIDECARS} or later, and its node does not report its version"
        )),
    }
}
