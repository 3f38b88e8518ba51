//! The progress of one container of a request, from its journal entry and what its pod shows.

mod refusal;

use std::time::Duration;

use self::refusal::Way;
use super::{Around, Case};
use crate::cluster::node_class::NodeClass;
use crate::image::alias::{Alias, Form, is_fresh_name_of, is_same_digest, is_same_image};
use crate::image::reference::ImageReference;
use crate::image::renamed::may_be_renamed;
use crate::objects::moment::Moment;
use crate::objects::node::KubeletVersion;
use crate::objects::pod::evidence::is_pull_error;
use crate::objects::pod::{
    Container, ContainerState, ContainerStatus, PROVIDER_FAILED, RestartPolicy, roles,
};
use crate::objects::runs_on::RunsOn;
use crate::report::decision::Swap;
use crate::restart::pod::Details;
use crate::restart::reconcile::parking::before;
use crate::restart::reconcile::{Stored, Times, age, deadline};
use crate::restart::request::{Intent, Mark, Parking, StatePhase};

/// How long a kubelet may take beyond the grace period to show another container: seconds, and
/// minutes under load.
const KUBELET_SHOWS: Duration = Duration::from_secs(300);
/// How long a virtual node may take beyond the grace period to show another container.
const VIRTUAL_SHOWS: Duration = Duration::from_secs(60);
/// The grace period of a pod that names none, in seconds: the API server's default.
const DEFAULT_GRACE: u32 = 30;
/// How long a restarted container may take to become ready: as long as a rollout waits for progress
/// (`progressDeadlineSeconds` of a Deployment), or as long as the request itself allows, if that is
/// longer. A request never waits for ever.
const READY_WITHIN: Duration = Duration::from_secs(600);
/// Kubernetes 1.36 shows a restarted container ready for up to 0.9 s before its startup probe has
/// run (`docs/measured.md`, "Readiness in a restart").
const STARTUP_SETTLES: Duration = Duration::from_secs(2);
/// The progress of a container: what is to be done for it next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Nothing: its state is final, or becomes final now, with this message.
    Final(StatePhase, String),
    /// Record this mark in the journal, before the image is changed.
    Begin(Mark),
    /// Make this change, which is recorded in the journal.
    Swap(Swap),
    /// Nothing: it waits for its turn in the request, or is parked for another request.
    Waits,
    /// Nothing: it waits for a condition that may never come true.
    WaitsFor(Wait),
    /// Nothing until this time, if any: the node is working on it.
    Works(Option<Moment>),
}

impl Step {
    /// Returns the step of a container that has failed, for this reason.
    pub(crate) fn failed(why: impl Into<String>) -> Self {
        Self::Final(StatePhase::Failed, why.into())
    }
}

/// A condition that a container waits for before it is changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wait {
    /// The pod's Job allows the restarts.
    Room,
    /// The status reflects the current spec.
    Node,
    /// Another request has ended, for which containers of the pod are parked.
    Parked,
}

/// One container of a request, with everything that its next step depends on.
pub(crate) struct Target<'a> {
    pub case: Case<'a>,
    pub index: usize,
    pub container: &'a Container,
    pub details: &'a Details,
    pub mark: &'a Mark,
    pub status: &'a ContainerStatus,
    pub times: Times,
}

impl<'a> Target<'a> {
    /// Finds the container of this name; `None` if the pod or its status does not show it, or the
    /// journal has no entry for it.
    pub fn of(case: Case<'a>, name: &str) -> Option<Self> {
        let (index, container, details) = case.pod.find(name)?;
        Some(Self {
            case,
            index,
            container,
            details,
            mark: case.request.mark(name)?,
            status: container.status.as_ref()?,
            times: case.memory.times(name),
        })
    }
}

impl Target<'_> {
    /// Decides the next step; `turn` is how many restarts begin at once, `None` if not its turn.
    pub fn step(&self, turn: Option<u32>) -> Step {
        match &self.mark.intent {
            None if self.is_restarted_since() && !self.case.request.strategy.force => {
                self.becomes_ready()
            }
            None => turn.map_or(Step::Waits, |restarts| self.begin(restarts)),
            Some(intent) => self.carried_out(intent, turn.unwrap_or(1)),
        }
    }

    /// Returns true if the status shows another container than the one in the journal.
    pub(crate) fn is_restarted(&self) -> bool {
        self.mark.shows_another(self.status)
    }

    /// Returns true if the container was replaced after the request was created; used where swaplet
    /// did not cause it. A status may arrive late, and a user who changes a file and then requests
    /// a restart wants the file to be read. A time of the node and one of the API server are
    /// compared, in seconds. If that leaves a doubt, or a time is missing, the container is
    /// restarted once more.
    pub(crate) fn is_restarted_since(&self) -> bool {
        let last = || self.status.last_end.as_ref().and_then(|end| end.started_at);
        let started = Mark::of(self.status).started_at.or_else(last);
        self.is_restarted()
            && started
                .zip(self.case.request.created_at)
                .is_some_and(|(started, asked)| started > asked)
    }

    pub(crate) fn carried_out(&self, intent: &Intent, restarts: u32) -> Step {
        match (intent.parking, &intent.back) {
            (Some(Parking::Out), _) => return self.goes_out(intent, restarts),
            (Some(Parking::Back), _) => return self.comes_back(intent),
            (None, Some(why)) => return self.put_back(intent, why),
            (None, None) => {}
        }
        let image = &self.container.image;
        if *image == intent.from {
            return self.not_changed(intent, restarts);
        }
        if !self.has_what_was_written(&intent.to) {
            return self.changed_by_others();
        }
        if *self.case.pod.pod.reason == *PROVIDER_FAILED {
            return Step::failed(format!(
                "the provider of its virtual node has failed on the changed image: the pod shows {PROVIDER_FAILED}"
            ));
        }
        if let Some(trouble) = self.pull_trouble() {
            let back = Intent {
                back: Some(trouble),
                ..intent.clone()
            };
            return Step::Begin(Mark {
                intent: Some(back),
                ..self.mark.clone()
            });
        }
        if self.is_restarted() && self.is_seen_by_node() {
            self.becomes_ready()
        } else {
            self.not_restarted()
        }
    }

    /// Fails the container, because another writer has changed its image: a user's edit outranks a
    /// restart.
    pub(crate) fn changed_by_others(&self) -> Step {
        Step::failed(format!(
            "somebody else has set its image to {} in the meantime",
            self.container.image
        ))
    }

    /// Returns true if the status reflects the current spec, or if either generation is not
    /// reported.
    pub(crate) fn is_seen_by_node(&self) -> bool {
        self.case
            .pod
            .observed_generation
            .is_none_or(|seen| self.case.pod.generation.is_none_or(|spec| seen >= spec))
    }

    /// Decides for a container that has its image as before: the change was not made, or was
    /// undone.
    fn not_changed(&self, intent: &Intent, restarts: u32) -> Step {
        let is_enough = self.is_restarted_since() && !self.case.request.strategy.force;
        match (self.is_untouched(intent), self.is_restarted()) {
            (false, false) => self.not_restarted(),
            (_, true) if is_enough => self.becomes_ready(),
            (false, true) => Step::failed(
                "its image was put back in the meantime, so it is not known whether it was restarted for this request",
            ),
            // The present container is to be replaced, by a change of the current spec.
            (true, true) => self.begin(restarts),
            (true, false) if self.has_moved(intent) => self.begin(restarts),
            (true, false) => self.swap(intent, restarts),
        }
    }

    /// Returns true if the intent was never carried out and never will be, for a container that has
    /// the image before. To carry it out and to undo it are two changes of the spec, and there was
    /// at most one. That one was not swaplet's either, and no patch for the spec before it is
    /// accepted any more.
    pub(crate) fn is_untouched(&self, intent: &Intent) -> bool {
        let next = intent.generation.map(|generation| generation + 1);
        !self.has_moved(intent) || self.case.pod.generation == next
    }

    /// Returns true if the spec has changed since the intent was recorded, by it or by others.
    pub(crate) fn has_moved(&self, intent: &Intent) -> bool {
        intent.generation.is_some() && intent.generation != self.case.pod.generation
    }

    pub(crate) fn change(&self, from: &str, to: &str) -> Swap {
        let is_native_sidecar = self.details.is_native_sidecar;
        Swap {
            index: self.index,
            is_native_sidecar,
            container: self.container.name.clone(),
            from: from.into(),
            to: to.into(),
        }
    }

    /// Returns true if another container is observed running with the current spec.
    pub(crate) fn has_started(&self) -> bool {
        self.is_running() && self.is_restarted() && self.is_seen_by_node()
    }

    const fn is_running(&self) -> bool {
        matches!(self.status.state, ContainerState::Running { .. })
    }

    /// Returns the node's reason and message if it cannot pull the image; else `None`.
    pub(crate) fn pull_trouble(&self) -> Option<Box<str>> {
        match &self.status.state {
            ContainerState::Waiting { reason, message } if is_pull_error(reason) => {
                Some(format!("{reason}: {message}").into())
            }
            _ => None,
        }
    }

    pub(crate) fn not_restarted(&self) -> Step {
        let until = self.shows_until();
        if self.case.around.now < until {
            return Step::Works(Some(until));
        }
        Step::failed(self.nothing_shown())
    }

    /// Returns the time until which to wait for the node to show another container.
    pub(crate) fn shows_until(&self) -> Moment {
        self.times.changed.unwrap_or(self.case.around.now) + self.shows_within()
    }

    fn shows_within(&self) -> Duration {
        let grace = Duration::from_secs(
            self.case
                .pod
                .pod
                .grace_seconds
                .unwrap_or(DEFAULT_GRACE)
                .into(),
        );
        let shows = if self.case.around.node.is_some_and(|node| node.is_kubelet()) {
            KUBELET_SHOWS
        } else {
            VIRTUAL_SHOWS
        };
        grace.saturating_add(shows)
    }

    /// Returns the message for a node that did not restart the container in time.
    pub(crate) fn nothing_shown(&self) -> String {
        match (self.container.end(), self.pull_trouble()) {
            (Some(end), _) => format!(
                "it was stopped (exit code {}) and has not come back",
                code(end.exit_code)
            ),
            (None, Some(trouble)) => format!("it cannot be started ({trouble})"),
            (None, None) => format!(
                "the node has not restarted it in {} s",
                self.shows_within().as_secs()
            ),
        }
    }
}

fn code(exit_code: Option<i64>) -> String {
    exit_code.map_or_else(|| "unknown".to_owned(), |code| code.to_string())
}

// What a webhook has made of an image that was written: the name of a mirror, for example. It counts
// as the image that was written, or the container would be lost under that name.

impl Target<'_> {
    /// Returns true if the container has the image that was written, or what a webhook has made of
    /// it. After the loss of the memory its name alone shows that.
    pub(crate) fn has_what_was_written(&self, written: &str) -> bool {
        let image = &self.container.image;
        is_same_image(image, written)
            || self.stored_for(written).is_some()
            || may_be_renamed(image, written)
    }

    /// Returns the change by this process that left the container with its image, if a webhook has
    /// made that of what was written.
    pub(crate) fn stored_for(&self, written: &str) -> Option<&Stored> {
        let stored = self.case.memory.stored(&self.container.name)?;
        (*stored.to == *written && stored.image == self.container.image).then_some(stored)
    }

    /// Returns true if the container has the park image, by any name. After the loss of the memory
    /// that is the image with which its pod records this request, and has not changed since; but not
    /// where a webhook has undone the change and left the record.
    pub(crate) fn is_out(&self, intent: &Intent) -> bool {
        let image = &self.container.image;
        let around = self.case.around;
        let is_recorded = || {
            let parked = self.case.pod.parked.as_ref();
            let is_park = |image: &str| around.parks(image);
            parked.is_some_and(|parked| parked.renames(&self.container.name, image, is_park))
        };
        let changes = i64::from(intent.parking == Some(Parking::Out));
        let is_written = || {
            let pod = self.case.pod;
            *image != intent.from
                && !self.case.memory.was_undone()
                && around.parks(&intent.to)
                && pod.generation.is_some()
                && pod.generation == intent.generation.map(|before| before + changes)
                && (pod.parked.as_ref()).is_some_and(|parked| {
                    parked.request == self.case.request.uid
                        && parked.images.contains_key(&self.container.name)
                })
        };
        around.parks(image)
            || self.stored_for(&intent.to).is_some()
            || is_recorded()
            || is_written()
    }
}

// The return to the image before, from an alias that cannot be started.

impl Target<'_> {
    fn put_back(&self, intent: &Intent, why: &str) -> Step {
        let present = &self.container.image;
        if *present == intent.from || !self.has_what_was_written(&intent.to) {
            return Step::failed(format!(
                "its image could not be started under its other name, which was reverted: {why}"
            ));
        }
        // The alias was pulled after all: do not stop the running container again.
        if self.has_started() {
            return self.becomes_ready();
        }
        // What this process itself has changed is known to be the image before.
        let stored = self.stored_for(&intent.to);
        if stored.is_some_and(|stored| stored.from == intent.from) {
            return Step::Swap(self.change(present, &intent.from));
        }
        if *present != intent.to {
            let changed = format!("somebody has changed {}, which was written", intent.to);
            return self.not_put_back(&changed, why);
        }
        // The right to write requests must not allow choosing images.
        if !self.is_other_spelling(&intent.from, present) {
            let unknown = format!(
                "{} is not another spelling of {present} by what its node reports",
                before::shown(&intent.from)
            );
            return self.not_put_back(&unknown, why);
        }
        if !is_same_digest(&intent.from, present) {
            return Step::Swap(self.change(present, &intent.from));
        }
        Step::failed(format!(
            "its image cannot be pulled by digest, with a tag before it or without: {why}"
        ))
    }

    /// Returns true if `before` is another spelling of `present`: the same digest; or the same tag
    /// and no digest; or a tag whose alias `present` is, by the digest that the node reports. A
    /// digest from another source is not trusted: it may name any image of the repository.
    fn is_other_spelling(&self, before: &str, present: &str) -> bool {
        let Some((one, other)) = ImageReference::both(before, present) else {
            return false;
        };
        match (one.digest(), other.digest()) {
            (None, None) => one.normalized() == other.normalized(),
            (None, Some(_)) => is_fresh_name_of(present, before, self.reported()),
            (Some(_), _) => is_same_digest(before, present),
        }
    }

    fn not_put_back(&self, because: &str, why: &str) -> Step {
        let pod = &self.case.pod.pod;
        let (namespace, pod, name) = (&pod.namespace, &pod.name, &self.container.name);
        Step::failed(format!(
            "its previous image is not put back. Give it the image that its workload names: kubectl set image -n {namespace} pod/{pod} {name}=IMAGE. {because}; {why}"
        ))
    }
}

// The readiness of a container that was restarted.

impl Target<'_> {
    /// Decides for a restarted container: final once it is ready for long enough.
    pub(crate) fn becomes_ready(&self) -> Step {
        let now = self.case.around.now;
        if let ContainerState::Terminated(end) = &self.status.state
            && self
                .container
                .comes_back_after(&self.case.pod.pod, end.exit_code)
                != Some(true)
        {
            let phase = if end.exit_code == Some(0) {
                StatePhase::Succeeded
            } else {
                StatePhase::Failed
            };
            return Step::Final(
                phase,
                format!(
                    "it was restarted, and has ended with exit code {}",
                    code(end.exit_code)
                ),
            );
        }
        let enough = Duration::from_secs(self.case.request.strategy.min_started_seconds.into());
        let settled = self.times.ready.map(|at| at + self.settles());
        let stays = settled.map(|at| at.max(self.runs_since() + enough));
        match stays {
            Some(at) if at <= now => Step::Final(StatePhase::Succeeded, String::new()),
            stays => self.awaits_ready(stays, enough),
        }
    }

    fn awaits_ready(&self, stays: Option<Moment>, enough: Duration) -> Step {
        let deadline = Duration::from_secs(
            self.case
                .request
                .active_deadline_seconds
                .unwrap_or_default()
                .into(),
        );
        let within = READY_WITHIN.max(deadline).saturating_add(enough);
        let until = self.times.restarted.unwrap_or(self.case.around.now) + within;
        if self.case.around.now < until {
            return Step::Works(Some(stays.map_or(until, |at| at.min(until))));
        }
        Step::failed(format!(
            "it was restarted, and has not been ready, {} s after its start, in {} s",
            enough.as_secs(),
            within.as_secs()
        ))
    }

    /// Returns since when the present container runs, as its node reports. The node's clock may be
    /// wrong, so this is not before the change of the image and not after it was first observed.
    fn runs_since(&self) -> Moment {
        let seen = self.times.running.unwrap_or(self.case.around.now);
        let ContainerState::Running {
            started_at: Some(started),
        } = &self.status.state
        else {
            return seen;
        };
        let earliest = self.times.changed.unwrap_or(seen).min(seen);
        let started = self.case.around.now - age(*started, self.case.around);
        started.clamp(earliest, seen)
    }

    const fn settles(&self) -> Duration {
        if self.details.has_startup_probe {
            STARTUP_SETTLES
        } else {
            Duration::ZERO
        }
    }
}

// Timeouts for a container that waits before it is changed, and for changes that the API server
// denies or does not answer: a request blocks all later ones for its pod. The timeout is the
// request's own deadline, or ten minutes without one.

/// How long a request without a deadline waits, and retries what is not applied.
const PATIENCE: Duration = Duration::from_secs(600);
/// How long a process that is younger than that retries what is not applied for a request that is
/// older: the one before may have tried all the time, and its memory is lost.
const OF_NEW_LEADER: Duration = Duration::from_secs(60);
/// The interval at which a wait is checked again.
const AGAIN: Duration = Duration::from_secs(2);
/// The same for a wait whose end is reported by a pod event.
const SELDOM: Duration = Duration::from_secs(60);

impl Wait {
    /// Returns when to check again.
    pub(crate) fn again(self, now: Moment) -> Moment {
        now + match self {
            Self::Room | Self::Node => AGAIN,
            Self::Parked => SELDOM,
        }
    }
}

impl Target<'_> {
    /// Returns the step, or fails the container if it has waited or been tried for too long. One
    /// that is parked then is left to the search for orphans, which never gives up.
    pub(crate) fn in_patience(&self, step: Step) -> Step {
        if deadline(self.case.request, self.case.around).is_some() {
            return step;
        }
        let why = match &step {
            Step::WaitsFor(wait) => self.waited_in_vain(*wait),
            Step::Begin(_) | Step::Swap(_) => self.in_vain_for_long(),
            _ => None,
        };
        why.map_or(step, Step::failed)
    }

    /// Describes that the node does not report the image that the spec has.
    fn not_reported(&self) -> String {
        format!(
            "node {} has not reported that it has started {}, only {}, which may be the image before, or another tag of the same bytes: restart it by the park image (--park-image of the controller)",
            self.case.pod.pod.node, self.container.image, self.status.image
        )
    }

    /// Returns why the container waits, if that is for its node.
    pub(crate) fn waits_for_node(&self) -> Option<String> {
        self.times.waits?;
        (!self.is_reported()).then(|| self.not_reported())
    }

    fn waited_in_vain(&self, wait: Wait) -> Option<String> {
        let since = self.times.waits?;
        let seconds = PATIENCE.as_secs();
        (since + PATIENCE <= self.case.around.now).then(|| match wait {
            Wait::Room => format!(
                "not restarted: no room in the pod's Job in {seconds} s: restarts of its pods that have not ended, as far as they are observed, count against its backoffLimit"
            ),
            Wait::Node => format!("not restarted in {seconds} s: {}", self.not_reported()),
            Wait::Parked => format!(
                "containers of the pod are parked for another request, and have been for {seconds} s"
            ),
        })
    }

    /// Returns the reason to give up a change that is not applied; `None` while it is retried.
    pub(crate) fn in_vain_for_long(&self) -> Option<String> {
        // An image that no pod records is put back by nobody else.
        let is_lost = !self.is_as_before()
            && (self.mark.intent.as_ref()).is_some_and(|intent| intent.parking.is_none());
        let why = in_vain_for_long(self.case, is_lost)?;
        let intent = self.mark.intent.as_ref();
        Some(match intent {
            Some(intent) if intent.parking.is_some() && self.is_out(intent) => {
                before::stays(self.case.pod, &self.container.name, &why)
            }
            _ if self.is_as_before() => format!("not restarted: {why}"),
            _ => format!("its image is not put back: {why}"),
        })
    }

    /// Returns true if the spec shows no change by this request.
    fn is_as_before(&self) -> bool {
        self.mark.intent.as_ref().is_none_or(|intent| {
            self.container.image == intent.from && intent.parking != Some(Parking::Back)
        })
    }
}

/// Returns the reason to give up what is not applied; `None` while it is retried. `is_lost` is true
/// if nobody else would do it later, as the request alone records it: then it is retried for as long
/// as no webhook undoes it, which would do so for ever.
pub(crate) fn in_vain_for_long(case: Case<'_>, is_lost: bool) -> Option<String> {
    let (lasted, why) = case.memory.in_vain()?;
    if is_lost && !case.memory.is_undone() {
        return None;
    }
    let made = case.request.created_at;
    let is_old = made.is_some_and(|made| age(made, case.around) >= PATIENCE);
    let is_new_leader = case.around.now.since_start() < PATIENCE;
    let longest = if is_old && is_new_leader && !is_lost {
        OF_NEW_LEADER
    } else {
        PATIENCE
    };
    (lasted >= longest).then_some(why)
}

// The risk of a restart: what may prevent the start after the stop.

/// How long a kubelet may keep a back-off after the last start by a name: twice the longest
/// (`crashLoopBackOff.maxContainerRestartPeriod`, at most 300 s).
const BACK_OFF: Duration = Duration::from_secs(600);
/// Kubelets from this one on check the credentials of an image again for each name of a repository
/// (KEP-2535).
const CHECKS_CREDENTIALS: KubeletVersion = KubeletVersion {
    major: 1,
    minor: 35,
};

/// Returns true if the node is, or may be, such a kubelet.
pub(crate) fn checks_each_name(around: &Around<'_>) -> bool {
    let may_be_kubelet = |class: NodeClass| class.is_kubelet() || class == NodeClass::Unknown;
    around.node.is_none_or(may_be_kubelet)
        && (around.kubelet).is_none_or(|version| version >= CHECKS_CREDENTIALS)
}

impl Target<'_> {
    /// Returns the risk that the restart loses the container; `None` if there is none. Under
    /// `Never` a start that fails after the old container was stopped is final, and no later change
    /// brings the container back (`docs/measured.md`, "Images by other names"). Under `OnFailure`
    /// it is final if the container exits with 0 when it is stopped (`docs/measured.md`, row 13). A
    /// start can fail for many reasons that no status shows before: the node restarts in between
    /// (`docs/measured.md`, row 37), a Secret is gone. For a main container of a Job it would count
    /// as the end of its work, which is done only in part, so that is never risked without
    /// `forceRecreate`.
    fn risk(&self, way: &Way) -> Option<String> {
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
        let checks = checks_each_name(self.case.around);
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
