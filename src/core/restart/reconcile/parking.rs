//! Restarts by the park image, of containers without an alias: as soon as it is observed running,
//! the image before is put back. The park image keeps running, so it works under every restart
//! policy (`docs/measured.md`, row 20); an exit image would not (row 21).

pub(super) mod before;
pub(super) mod image;

use std::time::Duration;

use self::before::Before;
use super::Case;
use super::container::{Step, Target};
use super::decision::Decision;
use crate::image::alias::is_same_image;
use crate::objects::pod::evidence::{is_start_error, is_stuck};
use crate::objects::pod::roles::{self, Mains};
use crate::objects::pod::{Container, ContainerState, PROVIDER_FAILED};
use crate::report::decision::Swap;
use crate::restart::parked::Parked;
use crate::restart::pod::RestartPod;
use crate::restart::reconcile::decision::{Change, recorded};
use crate::restart::request::{Intent, Mark, Parking, RestartRequest};

/// How long a parked sidecar is left to be ended once the main containers are done: that takes one
/// restart less than if it were brought back first.
const LEFT_TO_ITS_END: Duration = Duration::from_secs(60);

impl Target<'_> {
    /// Handles a container that is to be parked, until it is observed in the park image.
    pub(crate) fn goes_out(&self, intent: &Intent, restarts: u32) -> Step {
        let image = &self.container.image;
        if !self.is_out(intent) {
            return if *image == intent.from {
                self.not_parked(intent, restarts)
            } else {
                self.is_not_out()
            };
        }
        if self.is_parked_for_another() {
            return Step::Waits;
        }
        // Whatever that image is, it is not the one that keeps a container parked.
        if !self.case.around.parks(image) {
            let why = format!(
                "a webhook of the cluster has changed the park image {} to {image}",
                intent.to
            );
            return self.turns_back(intent, Some(why));
        }
        if let Some(trouble) = self.park_trouble() {
            let why = format!(
                "the park image {} could not be started: {trouble}",
                intent.to
            );
            return self.turns_back(intent, Some(why));
        }
        let until = self.shows_until();
        if self.has_started() {
            return self.parked(intent);
        }
        if self.case.around.now < until {
            return Step::Works(Some(until));
        }
        let shown = self.nothing_shown();
        let why = format!("it was not observed in the park image: {shown}");
        self.turns_back(intent, Some(why))
    }

    fn parked(&self, intent: &Intent) -> Step {
        let left = self.times.restarted.unwrap_or(self.case.around.now) + LEFT_TO_ITS_END;
        let is_to_end = is_to_end(self.case.pod, self.container);
        if is_to_end && self.case.around.now < left {
            Step::Works(Some(left))
        } else {
            self.turns_back(intent, None)
        }
    }

    /// Handles a container with its image as before: it was not parked, or that was undone.
    fn not_parked(&self, intent: &Intent, restarts: u32) -> Step {
        match (
            self.is_untouched(intent),
            self.is_restarted_since() && !self.case.request.strategy.force,
        ) {
            (true, true) => self.becomes_ready(),
            (true, false) if self.has_moved(intent) => self.begin(restarts),
            (true, false) => self.swap(intent, restarts),
            (false, _) => Step::failed(
                "somebody else has changed the pod while it was to be parked, so it is not known whether it was restarted; its image is as it was",
            ),
        }
    }

    fn turns_back(&self, intent: &Intent, why: Option<String>) -> Step {
        let intent = Intent {
            parking: Some(Parking::Back),
            back: why.map(Into::into),
            generation: self.case.pod.generation,
            ..intent.clone()
        };
        Step::Begin(Mark {
            intent: Some(intent),
            ..Mark::of(self.status)
        })
    }

    /// Replaces the park image by the image before, if the pod's record is trusted, or if this
    /// process itself has parked the container and the record was not stored.
    fn taken_out(&self) -> Step {
        let Case {
            request,
            pod,
            around,
            ..
        } = self.case;
        let (image, name) = (&self.container.image, &self.container.name);
        let own = self.mark.intent.as_ref().filter(|_| pod.parked.is_none());
        if let Some(own) = own.and_then(|intent| self.stored_for(&intent.to)) {
            return Step::Swap(self.change(image, &own.from));
        }
        match before::of_request(pod, name, request, |image| around.parks(image)) {
            Before::Image(before) => Step::Swap(self.change(image, before)),
            Before::OfAnother => Step::Waits,
            Before::Unknown(why) => Step::failed(before::stays(pod, name, &why)),
        }
    }

    /// Puts the image before back at the end of the request, which has this reason; `None` if the
    /// container does not have the park image for it.
    fn ends(&self, why: &str) -> Option<Step> {
        let intent = self.mark.intent.as_ref()?;
        let parking = intent.parking?;
        if !self.is_out(intent) {
            return None;
        }
        Some(match self.taken_out() {
            Step::Swap(_) if parking == Parking::Out => {
                self.turns_back(intent, Some(why.to_owned()))
            }
            step => step,
        })
    }

    /// Handles a container that comes back, until another than the parked one is observed.
    pub(crate) fn comes_back(&self, intent: &Intent) -> Step {
        if self.is_out(intent) {
            return self.taken_out();
        }
        if !self.has_what_was_written(&intent.from) {
            return self.is_not_out();
        }
        if let Some(why) = &intent.back {
            return Step::failed(format!("{why}; its image was put back"));
        }
        let is_still_out = is_same_image(&self.status.image, &intent.to);
        if self.is_restarted() && self.is_seen_by_node() && !is_still_out {
            self.becomes_ready()
        } else {
            self.not_restarted()
        }
    }

    /// Fails a container that has neither its image nor the park image of this installation.
    fn is_not_out(&self) -> Step {
        if self.is_recorded_as_parked() {
            Step::failed(before::stays(
                self.case.pod,
                &self.container.name,
                before::FOREIGN,
            ))
        } else {
            self.changed_by_others()
        }
    }

    fn is_parked_for_another(&self) -> bool {
        self.case.pod.parked.as_ref().is_some_and(|parked| {
            parked.request != self.case.request.uid
                && parked.images.contains_key(&self.container.name)
        })
    }

    /// Returns true if parking a container now would overwrite the pod's record of one that is
    /// still parked for another request, or in a park image that this installation had before.
    pub(crate) fn overwrites(&self) -> bool {
        let Case { pod, around, .. } = self.case;
        let Some(parked) = &pod.parked else {
            return false;
        };
        let is_own = parked.request == self.case.request.uid;
        let is_park = |image: &str| around.parks(image);
        parked.images.keys().any(|name| {
            let image = pod.find(name).map(|(_, container, _)| &*container.image);
            if image.is_some_and(is_park) {
                !is_own
            } else if image.is_some_and(|image| parked.is_foreign(name, image, is_park)) {
                true
            } else {
                !is_own && !before::is_released(pod, parked, name, is_park)
            }
        })
    }

    /// Returns true if the container has the image that the pod records as the park image, by any
    /// name that tells it, whether or not this installation still has it: what it had before is
    /// known to the record alone.
    pub(crate) fn is_recorded_as_parked(&self) -> bool {
        self.case.pod.parked.as_ref().is_some_and(|parked| {
            let (name, image) = (&self.container.name, &self.container.image);
            parked.images.contains_key(name)
                && (is_same_image(image, &parked.park) || parked.may_rename(name, image))
        })
    }

    /// Returns why the node cannot run the park image; `None` if it reports no problem.
    fn park_trouble(&self) -> Option<String> {
        if *self.case.pod.pod.reason == *PROVIDER_FAILED {
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

/// Ends a late request for its containers in the park image: those that it parked get their images
/// back, for the others the reason is reported. `None` if there are none.
pub(crate) fn end(case: Case<'_>, why: &str) -> Option<Decision> {
    let (request, pod) = (case.request, case.pod);
    let journal = request
        .journal
        .as_ref()
        .filter(|_| !pod.pod.phase.is_terminal())?;
    let (mut swaps, mut turned, mut left) = (Vec::new(), Vec::new(), Vec::new());
    for name in journal.0.keys() {
        let step = Target::of(case, name).and_then(|target| {
            let step = target.ends(why)?;
            let in_vain = target.in_vain_for_long();
            Some(in_vain.map_or(step, Step::failed))
        });
        match step {
            Some(Step::Begin(mark)) => turned.push((name.clone(), mark)),
            Some(Step::Swap(swap)) => swaps.push(swap),
            Some(Step::Final(_, stays)) => left.push(stays),
            Some(Step::Waits | Step::WaitsFor(_) | Step::Works(_)) | None => {}
        }
    }
    if !turned.is_empty() {
        return Some(Decision::write_down(journal, turned));
    }
    if !swaps.is_empty() {
        return Some(Decision::swap(request, pod, swaps));
    }
    (!left.is_empty()).then(|| Decision::give_up(request, &format!("{why}; {}", left.join("; "))))
}

// Containers that are parked for no request: theirs was deleted, or it ended while the patch that
// parked them was still in flight.

/// How long a container is observed parked for no request before its image is put back: pods and
/// requests are watched separately, and the request may not be observed yet.
pub const ORPHAN_AFTER: Duration = Duration::from_secs(10);

/// The parked containers in a pod's record that no request handles.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Orphan {
    /// The change that gives containers their images back, or removes a record of containers of
    /// which none is parked any more; `None` if there is nothing to change.
    pub change: Option<Change>,
    /// For each container that stays parked, or may be as it has another image than before, the
    /// manual fix and the reason.
    pub stays: Vec<String>,
    /// The request for which they were parked, built from the pod's record.
    pub request: RestartRequest,
}

/// Decides about containers that are parked for none of `requests`, which are all that exist;
/// `None` if there is nothing to do.
pub fn orphan<'a>(
    pod: &RestartPod,
    requests: impl Iterator<Item = &'a RestartRequest> + Clone,
    is_park: impl Fn(&str) -> bool,
) -> Option<Orphan> {
    let parked = pod
        .parked
        .as_ref()
        .filter(|_| !pod.pod.deleting && !pod.pod.phase.is_terminal())?;
    let requests = requests.filter(|request| is_for(request, pod));
    let under_way = requests.clone().find(|request| {
        request.uid == parked.request && !request.is_completed() && !request.deleting
    });
    let (mut swaps, mut stays, mut is_needed) = (Vec::new(), Vec::new(), false);
    for (name, had) in &parked.images {
        let Some((index, container, details)) = pod.find(name) else {
            continue;
        };
        is_needed |= !before::is_released(pod, parked, name, &is_park);
        if under_way.is_some_and(|request| brings_back(request, name)) {
            continue;
        }
        let has = &container.image;
        let before = match is_park(has) || parked.renames(name, has, &is_park) {
            true => before::of_record(pod, parked, name, requests.clone(), &is_park),
            // An image that another writer has set meanwhile stays. But it may be a name that a
            // webhook has given the park image, and nobody else knows what it had.
            false if !parked.is_foreign(name, has, &is_park) => {
                let another = before::is_another(pod, name, had);
                stays.extend(another.filter(|_| !is_to_end(pod, container)));
                continue;
            }
            false => Before::Unknown(before::FOREIGN.to_owned()),
        };
        match before {
            Before::Image(image) => {
                let (container, from, to) = (name.clone(), container.image.clone(), image.into());
                swaps.push(Swap {
                    index,
                    is_native_sidecar: details.is_native_sidecar,
                    container,
                    from,
                    to,
                });
            }
            Before::Unknown(why) => {
                stays.push(before::stays(pod, name, &why));
            }
            Before::OfAnother => {}
        }
    }
    let is_over = !is_needed && under_way.is_none_or(|request| is_undone(request, pod, parked));
    if swaps.is_empty() && stays.is_empty() && !is_over {
        return None;
    }
    let change = (!swaps.is_empty() || is_over).then(|| put_back(pod, parked, swaps));
    Some(Orphan {
        change,
        stays,
        request: request_of(pod, parked),
    })
}

/// Returns true for a sidecar that is ended by its exit image, or was: the main containers are done.
fn is_to_end(pod: &RestartPod, container: &Container) -> bool {
    container.mark.is_sidecar() && roles::mains_state(&pod.pod) == Mains::Done
}

/// Returns true if no container of a record was parked since this request was to park them: a
/// webhook has undone the change and left the record. The next try writes it again. Until then an
/// image that somebody sets must not be taken for another name of the park image.
fn is_undone(request: &RestartRequest, pod: &RestartPod, parked: &Parked) -> bool {
    parked.images.iter().all(|(name, image)| {
        let intent = request.mark(name).and_then(|mark| mark.intent.as_ref());
        let found = intent.zip(pod.find(name));
        found.is_some_and(|(intent, (_, container, _))| {
            intent.parking == Some(Parking::Out)
                && intent.generation == pod.generation
                && container.image == *image
        })
    })
}

/// Builds the change of these images; one without any removes the record, which no container needs.
fn put_back(pod: &RestartPod, parked: &Parked, swaps: Vec<Swap>) -> Change {
    let parked = (!swaps.is_empty()).then(|| parked.clone());
    recorded(pod, swaps, parked)
}

/// Like [`orphan`], for a human, who reviews the change: with or without a request, and out of the
/// image that the pod records as the park image. The record goes with the last image, because no
/// controller may come later that removes it. `None` if no container is parked.
pub fn orphan_as_told(pod: &RestartPod) -> Option<Orphan> {
    let parked = pod.parked.as_ref()?;
    let is_park = |image: &str| is_same_image(image, &parked.park);
    let mut found = orphan(pod, std::iter::empty(), is_park)?;
    found.change = found.change.filter(|change| !change.swaps.is_empty());
    if let Some(change) = &mut found.change {
        let mut names = parked.images.keys();
        if names.all(|name| change.swaps.iter().any(|swap| swap.container == *name)) {
            *change = recorded(pod, std::mem::take(&mut change.swaps), None);
        }
    }
    (found.change.is_some() || !found.stays.is_empty()).then_some(found)
}

fn is_for(request: &RestartRequest, pod: &RestartPod) -> bool {
    request.namespace == pod.pod.namespace && request.pod_name == pod.pod.name
}

/// Returns true if a request in progress will put the image of this container back by itself.
fn brings_back(request: &RestartRequest, name: &str) -> bool {
    request.mark(name).is_some_and(|mark| {
        mark.intent
            .as_ref()
            .is_some_and(|intent| intent.parking.is_some())
    })
}

fn request_of(pod: &RestartPod, parked: &Parked) -> RestartRequest {
    RestartRequest {
        namespace: pod.pod.namespace.clone(),
        name: parked.name.clone(),
        uid: parked.request.clone(),
        pod_name: pod.pod.name.clone(),
        pod_uid: Some(pod.pod.uid.clone()),
        ..RestartRequest::default()
    }
}
