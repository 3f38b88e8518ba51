//! A container without an alias is restarted by the park image: it gets that, and as soon as it is seen to run the image before is put
//! back. The park image stays, so it works under every restart policy (truth table, row 20); an exit image would not (row 21).

use std::time::Duration;

use super::container::{Step, Target, is_same_image};
use super::{Action, Change, Decision, Note, run};
use crate::decide::decision::Swap;
use crate::decide::evidence::{is_start_error, is_stuck};
use crate::decide::reason::Reason;
use crate::decide::roles::{self, Mains};
use crate::objects::parked::Parked;
use crate::objects::pod::{ContainerState, PROVIDER_FAILED};
use crate::objects::restart_pod::RestartPod;
use crate::objects::restart_request::{Intent, Mark, Parking, RestartRequest, StatePhase};

/// How long a parked sidecar is left to whoever ends it once the main containers are done: that needs one more restart less than if it
/// were brought back first.
const LEFT_TO_ITS_END: Duration = Duration::from_secs(60);

impl Target<'_> {
    /// Until the container is seen parked.
    pub(super) fn goes_out(&self, intent: &Intent, restarts: u32) -> Step {
        let image = &self.container.image;
        if *image == intent.from {
            return self.is_not_out(intent, restarts);
        }
        if !is_same_image(image, &intent.to) {
            return self.changed_by_others();
        }
        if let Some(trouble) = self.park_trouble() {
            return self.turns_back(intent, Some(format!("the park image {} could not be started: {trouble}", intent.to)));
        }
        let until = self.shows_until();
        let runs = matches!(self.status.state, ContainerState::Running { .. });
        if runs && self.is_restarted() && self.is_seen_by_node() {
            return self.is_out(intent);
        }
        if self.around.now < until {
            return Step::Works(Some(until));
        }
        self.turns_back(intent, Some(format!("it has not been seen in the park image: {}", self.nothing_shown())))
    }

    fn is_out(&self, intent: &Intent) -> Step {
        let left = self.memory.restarted_at(&self.container.name).unwrap_or(self.around.now) + LEFT_TO_ITS_END;
        let is_ended = self.container.mark.is_sidecar() && roles::mains_state(&self.pod.pod) == Mains::Done;
        if is_ended && self.around.now < left { Step::Works(Some(left)) } else { self.turns_back(intent, None) }
    }

    /// The image is as before: it has not been parked, or somebody has put the image back.
    fn is_not_out(&self, intent: &Intent, restarts: u32) -> Step {
        match (self.is_untouched(intent), self.is_restarted() && !self.request.strategy.force) {
            (true, true) => self.becomes_ready(),
            (true, false) if self.has_moved(intent) => self.begin(restarts),
            (true, false) => self.swap(intent, restarts),
            (false, _) => {
                let why = "somebody else has changed the pod while it was to be parked, so nobody can tell whether it was restarted";
                Step::Final(StatePhase::Failed, format!("{why}; its image is as it was"))
            }
        }
    }

    fn turns_back(&self, intent: &Intent, why: Option<String>) -> Step {
        Step::Begin(turned_back(intent, why, Mark::of(self.status), self.pod))
    }

    /// Until another container than the parked one is seen.
    pub(super) fn comes_back(&self, intent: &Intent) -> Step {
        let image = &self.container.image;
        if *image != intent.from && is_same_image(image, &intent.to) {
            return Step::Swap(self.change(image, image_before(self.pod, &self.container.name, intent)));
        }
        if *image != intent.from {
            return self.changed_by_others();
        }
        if let Some(why) = &intent.back {
            return Step::Final(StatePhase::Failed, format!("{why}; its image was put back"));
        }
        let is_still_out = is_same_image(&self.status.image, &intent.to);
        if self.is_restarted() && self.is_seen_by_node() && !is_still_out { self.becomes_ready() } else { self.not_restarted() }
    }

    /// The node's words for a park image that it cannot run.
    fn park_trouble(&self) -> Option<String> {
        if *self.pod.pod.reason == *PROVIDER_FAILED {
            return Some("the provider of its virtual node has failed on the changed image".to_owned());
        }
        if let Some(trouble) = self.pull_trouble() {
            return Some(trouble.into());
        }
        match &self.status.state {
            ContainerState::Waiting { reason, message } if self.is_restarted() && is_stuck(self.container) => {
                Some(format!("{reason}: {message}"))
            }
            ContainerState::Terminated(end) if self.is_restarted() && is_start_error(end) => Some(end.reason.to_string()),
            _ => None,
        }
    }
}

fn turned_back(intent: &Intent, why: Option<String>, parked: Mark, pod: &RestartPod) -> Mark {
    let back = why.map(Into::into);
    let intent = Intent { parking: Some(Parking::Back), back, generation: pod.generation, ..intent.clone() };
    Mark { intent: Some(intent), ..parked }
}

/// What the pod itself says comes first: to write it takes the right to change pods, not only requests.
fn image_before<'a>(pod: &'a RestartPod, container: &str, intent: &'a Intent) -> &'a str {
    pod.parked.as_ref().and_then(|parked| parked.images.get(container)).unwrap_or(&intent.from)
}

/// Ends a request whose time is over, as far as containers are parked for it: each gets its image back. `None` where none is parked.
pub(super) fn bring_back(request: &RestartRequest, pod: &RestartPod, why: &str) -> Option<Decision> {
    let mut journal = request.journal.clone()?;
    let (mut swaps, mut turned) = (Vec::new(), false);
    for (name, mark) in &mut journal.0 {
        let Some(intent) = mark.intent.clone() else { continue };
        let Some((index, container, details)) = pod.find(name).filter(|_| intent.parking.is_some()) else { continue };
        let Some(status) = container.status.as_ref().filter(|_| is_out(&container.image, &intent)) else { continue };
        if intent.parking == Some(Parking::Out) {
            *mark = turned_back(&intent, Some(why.to_owned()), Mark::of(status), pod);
            turned = true;
        } else {
            let to = image_before(pod, name, &intent).into();
            let (container, from) = (name.clone(), container.image.clone());
            swaps.push(Swap { index, is_native_sidecar: details.is_native_sidecar, container, from, to });
        }
    }
    if turned {
        return Some(Decision::act(Reason::RestartPending, Action::WriteDown(journal)));
    }
    (!swaps.is_empty()).then(|| run::swap(request, pod, swaps))
}

fn is_out(image: &str, intent: &Intent) -> bool {
    *image != *intent.from && is_same_image(image, &intent.to)
}

/// The change of these images, with what the pod is to say of it.
pub(super) fn change(request: &RestartRequest, pod: &RestartPod, swaps: Vec<Swap>) -> Change {
    let parking = |swap: &Swap| request.mark(&swap.container)?.intent.as_ref()?.parking;
    let park = swaps.iter().find(|swap| parking(swap) == Some(Parking::Out)).map(|swap| swap.to.clone());
    if swaps.iter().all(|swap| parking(swap).is_none()) {
        return Change { swaps, generation: pod.generation, note: None };
    }
    let before = pod.parked.clone().filter(|parked| parked.request == request.uid).unwrap_or_default();
    let mut images = before.images;
    for swap in &swaps {
        match parking(swap) {
            Some(Parking::Out) => drop(images.insert(swap.container.clone(), swap.from.clone())),
            Some(Parking::Back) => drop(images.remove(&swap.container)),
            None => {}
        }
    }
    let park = park.unwrap_or(before.park);
    let parked = Parked { pod: pod.pod.uid.clone(), name: request.name.clone(), request: request.uid.clone(), park, images };
    let parked = (!parked.images.is_empty()).then_some(parked);
    Change { swaps, generation: pod.generation, note: Some(Note { version: pod.pod.version.clone(), parked }) }
}
