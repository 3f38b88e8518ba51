//! A container without an alias is restarted by the park image: it gets that, and as soon as it is
//! seen to run the image before is put back. The park image stays, so it works under every restart
//! policy (`docs/measured.md`, row 20); an exit image would not (row 21).

use std::time::Duration;

use super::before::{self, Before};
use super::container::{Step, Target, is_same_image};
use super::{Action, Around, Change, Decision, Note, give_up, run};
use crate::objects::pod::evidence::{is_start_error, is_stuck};
use crate::objects::pod::roles::{self, Mains};
use crate::objects::pod::{ContainerState, PROVIDER_FAILED};
use crate::report::decision::Swap;
use crate::report::reason::Reason;
use crate::restart::parked::Parked;
use crate::restart::pod::RestartPod;
use crate::restart::request::{Intent, Mark, Parking, RestartRequest, StatePhase};

/// How long a parked sidecar is left to whoever ends it once the main containers are done: that
/// needs one more restart less than if it were brought back first.
const LEFT_TO_ITS_END: Duration = Duration::from_secs(60);

impl Target<'_> {
    /// Until the container is seen parked.
    pub(crate) fn goes_out(&self, intent: &Intent, restarts: u32) -> Step {
        let image = &self.container.image;
        if !self.around.parks(image) {
            return if *image == intent.from {
                self.not_parked(intent, restarts)
            } else {
                self.changed_by_others()
            };
        }
        if self.is_parked_for_another() {
            return Step::Waits;
        }
        if let Some(trouble) = self.park_trouble() {
            return self.turns_back(
                intent,
                Some(format!(
                    "the park image {} could not be started: {trouble}",
                    intent.to
                )),
            );
        }
        let until = self.shows_until();
        if self.has_started() {
            return self.parked(intent);
        }
        if self.around.now < until {
            return Step::Works(Some(until));
        }
        self.turns_back(
            intent,
            Some(format!(
                "it has not been seen in the park image: {}",
                self.nothing_shown()
            )),
        )
    }

    fn parked(&self, intent: &Intent) -> Step {
        let left = self
            .memory
            .restarted_at(&self.container.name)
            .unwrap_or(self.around.now)
            + LEFT_TO_ITS_END;
        let is_ended =
            self.container.mark.is_sidecar() && roles::mains_state(&self.pod.pod) == Mains::Done;
        if is_ended && self.around.now < left {
            Step::Works(Some(left))
        } else {
            self.turns_back(intent, None)
        }
    }

    /// The image is as before: it has not been parked, or somebody has put the image back.
    fn not_parked(&self, intent: &Intent, restarts: u32) -> Step {
        match (
            self.is_untouched(intent),
            self.is_restarted_since() && !self.request.strategy.force,
        ) {
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
    pub(crate) fn comes_back(&self, intent: &Intent) -> Step {
        let (image, name) = (&self.container.image, &self.container.name);
        if self.around.parks(image) {
            return match before::of_request(self.pod, name, self.request, |image| {
                self.around.parks(image)
            }) {
                Before::Image(before) => Step::Swap(self.change(image, before)),
                Before::OfAnother => Step::Waits,
                Before::Unknown(why) => {
                    Step::Final(StatePhase::Failed, before::stays(self.pod, name, &why))
                }
            };
        }
        if *image != intent.from {
            return self.changed_by_others();
        }
        if let Some(why) = &intent.back {
            return Step::Final(StatePhase::Failed, format!("{why}; its image was put back"));
        }
        let is_still_out = is_same_image(&self.status.image, &intent.to);
        if self.is_restarted() && self.is_seen_by_node() && !is_still_out {
            self.becomes_ready()
        } else {
            self.not_restarted()
        }
    }

    fn is_parked_for_another(&self) -> bool {
        self.pod.parked.as_ref().is_some_and(|parked| {
            parked.request != self.request.uid && parked.images.contains_key(&self.container.name)
        })
    }

    /// Whether to park a container now would overwrite what the pod says of one that is still
    /// parked for another request.
    pub(crate) fn overwrites(&self) -> bool {
        let is_parked = |name: &str| {
            self.pod
                .find(name)
                .is_some_and(|(_, container, _)| self.around.parks(&container.image))
        };
        let others = self
            .pod
            .parked
            .as_ref()
            .filter(|parked| parked.request != self.request.uid);
        others.is_some_and(|parked| parked.images.keys().any(|name| is_parked(name)))
    }

    /// The node's words for a park image that it cannot run.
    fn park_trouble(&self) -> Option<String> {
        if *self.pod.pod.reason == *PROVIDER_FAILED {
            return Some(
                "the provider of its virtual node has failed on the changed image".to_owned(),
            );
        }
        if let Some(trouble) = self.pull_trouble() {
            return Some(trouble.into());
        }
        match &self.status.state {
            ContainerState::Waiting { reason, message }
                if self.is_restarted() && is_stuck(self.container) =>
            {
                Some(format!("{reason}: {message}"))
            }
            ContainerState::Terminated(end) if self.is_restarted() && is_start_error(end) => {
                Some(end.reason.to_string())
            }
            _ => None,
        }
    }
}

fn turned_back(intent: &Intent, why: Option<String>, parked: Mark, pod: &RestartPod) -> Mark {
    let back = why.map(Into::into);
    let intent = Intent {
        parking: Some(Parking::Back),
        back,
        generation: pod.generation,
        ..intent.clone()
    };
    Mark {
        intent: Some(intent),
        ..parked
    }
}

/// Ends a request whose time is over, as far as containers are in the park image: each gets its
/// image back that is parked for it, and of the others is said why not. `None` where none is.
pub(crate) fn end(
    request: &RestartRequest,
    pod: &RestartPod,
    why: &str,
    around: &Around<'_>,
) -> Option<Decision> {
    let mut journal = request
        .journal
        .clone()
        .filter(|_| !pod.pod.phase.is_terminal())?;
    let (mut swaps, mut turned, mut left) = (Vec::new(), false, Vec::new());
    for (name, mark) in &mut journal.0 {
        let Some(intent) = mark
            .intent
            .clone()
            .filter(|intent| intent.parking.is_some())
        else {
            continue;
        };
        let Some((index, container, details)) = pod
            .find(name)
            .filter(|(_, container, _)| around.parks(&container.image))
        else {
            continue;
        };
        let Some(status) = &container.status else {
            continue;
        };
        let to = match before::of_request(pod, name, request, |image| around.parks(image)) {
            Before::Image(before) => before.into(),
            Before::OfAnother => continue,
            Before::Unknown(why) => {
                left.push(before::stays(pod, name, &why));
                continue;
            }
        };
        if intent.parking == Some(Parking::Out) {
            *mark = turned_back(&intent, Some(why.to_owned()), Mark::of(status), pod);
            turned = true;
        } else {
            let (container, from) = (name.clone(), container.image.clone());
            swaps.push(Swap {
                index,
                is_native_sidecar: details.is_native_sidecar,
                container,
                from,
                to,
            });
        }
    }
    if turned {
        return Some(Decision::act(
            Reason::RestartPending,
            Action::WriteDown(journal),
        ));
    }
    if !swaps.is_empty() {
        return Some(run::swap(request, pod, swaps));
    }
    (!left.is_empty()).then(|| give_up(request, &format!("{why}; {}", left.join("; "))))
}

/// The change of these images, with what the pod is to say of it.
pub(crate) fn change(request: &RestartRequest, pod: &RestartPod, swaps: Vec<Swap>) -> Change {
    let parking = |swap: &Swap| request.mark(&swap.container)?.intent.as_ref()?.parking;
    let park = swaps
        .iter()
        .find(|swap| parking(swap) == Some(Parking::Out))
        .map(|swap| swap.to.clone());
    if swaps.iter().all(|swap| parking(swap).is_none()) {
        return Change {
            swaps,
            generation: pod.generation,
            note: None,
        };
    }
    let before = pod
        .parked
        .clone()
        .filter(|parked| parked.request == request.uid)
        .unwrap_or_default();
    let mut images = before.images;
    for swap in &swaps {
        match parking(swap) {
            Some(Parking::Out) => drop(images.insert(swap.container.clone(), swap.from.clone())),
            Some(Parking::Back) => drop(images.remove(&swap.container)),
            None => {}
        }
    }
    let park = park.unwrap_or(before.park);
    let parked = Parked {
        pod: pod.pod.uid.clone(),
        name: request.name.clone(),
        request: request.uid.clone(),
        park,
        images,
    };
    let parked = (!parked.images.is_empty()).then_some(parked);
    Change {
        swaps,
        generation: pod.generation,
        note: Some(Note {
            version: pod.pod.version.clone(),
            parked,
        }),
    }
}
