//! What happens to the object of the pod, and what it looks like then.

use jiff::Timestamp;
use swaplet::image::alias::original;
use swaplet_core::objects::pod::{ContainerState, Terminated};
use swaplet_core::restart::pod::RestartPod;
use swaplet_core::restart::reconcile::Action;

use super::{Mutant, ORIGINAL, Stores};
use crate::restart_model::forger::forged_note;
use crate::restart_model::state::{Id, ImageId, Real, Run};
use crate::restart_model::store::key;
use crate::restart_model::webhooks::{Webhook, renamed};

/// What happens to the object of a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PodChange {
    /// By anybody but the controller.
    Image(ImageId),
    /// By this write.
    Swap(Id),
    /// By this write, of which a webhook changes what is stored.
    Changed(Id),
    /// The container is like this, and the spec was seen up to this generation.
    Status(Real, u8),
    /// What it says of parked containers, by somebody else.
    Note(u8),
    Deleting,
    Replaced,
}

impl PodChange {
    /// It and the pod as one number.
    fn key(self, pod: Id) -> u64 {
        match self {
            Self::Image(image) => key([pod, 1, image.into(), 0]),
            Self::Swap(write) => key([pod, 2, write, 0]),
            Self::Status(
                Real {
                    image,
                    count,
                    run,
                    since,
                },
                seen,
            ) => key([
                pod,
                8 + run as Id,
                Id::from(image) << 8 | Id::from(count),
                Id::from(since) << 8 | Id::from(seen),
            ]),
            Self::Changed(write) => key([pod, 6, write, 0]),
            Self::Deleting => key([pod, 3, 0, 0]),
            Self::Replaced => key([pod, 4, 0, 0]),
            Self::Note(form) => key([pod, 5, form.into(), 0]),
        }
    }
}

impl Stores {
    /// A pod after a change of it.
    pub fn change(&mut self, pod: Id, change: PodChange) -> Id {
        let key = change.key(pod);
        if let Some(known) = self.changes.get(&key) {
            return *known;
        }
        let mut object = (*self.pods.get(pod).0).clone();
        match change {
            PodChange::Swap(write) => self.swap(&mut object, write, Webhook::None),
            PodChange::Changed(write) => self.swap(&mut object, write, self.webhook),
            PodChange::Image(image) => set_image(&mut object, &self.images[usize::from(image)]),
            PodChange::Status(real, seen) => show(
                &mut object,
                &self.images[usize::from(real.image)],
                real,
                seen,
            ),
            PodChange::Note(form) => object.parked = forged_note(form),
            PodChange::Deleting => object.pod.deleting = true,
            PodChange::Replaced => {
                object.pod.uid = "another".into();
                object.pod.deleting = false;
                object.parked = None;
                object.generation = Some(0);
                set_image(&mut object, &self.images[usize::from(ORIGINAL)]);
                show(
                    &mut object,
                    &self.images[usize::from(ORIGINAL)],
                    Real::FIRST,
                    1,
                );
            }
        }
        let id = self.pod(object);
        self.changes.insert(key, id);
        id
    }

    /// What a write of the controller makes of a pod.
    fn swap(&self, object: &mut RestartPod, write: Id, webhook: Webhook) {
        let Action::Swap(change) = self.actions.get(write) else {
            unreachable!("this write is not of the pod")
        };
        let to = change.swaps.first().map(|swap| webhook.stores(&swap.to));
        if let Some(Some(image)) = &to {
            set_image(object, image);
        }
        let is_noted = to.is_none_or(|image| image.is_some() || webhook == Webhook::UndoesImages)
            && self.mutant != Mutant::ParksWithoutNote;
        if let Some(note) = change.note.as_ref().filter(|_| is_noted) {
            object.parked.clone_from(&note.parked);
        }
    }
}

fn set_image(object: &mut RestartPod, image: &str) {
    object.pod.containers[0].image = image.into();
    object.generation = object.generation.map(|generation| generation + 1);
}

/// The status that a kubelet of 1.34 writes.
fn show(object: &mut RestartPod, image: &str, real: Real, generation: u8) {
    object.observed_generation = object.observed_generation.map(|_| generation.into());
    object.details[0].ready = real.run == Run::Running;
    let status = object.pod.containers[0].status.as_mut().unwrap();
    // A runtime names the tag that it has.
    let named = original(image);
    status.image = named.split('@').next().unwrap_or_default().into();
    // By which registry, where a webhook gives images that of a mirror.
    let id = &mut object.details[0].image_id;
    if let Some(mirrored) = renamed(id, image) {
        *id = mirrored.into();
    }
    status.restart_count = real.count.into();
    status.container_id = format!("containerd://app-{}", real.count).into();
    status.state = match real.run {
        Run::Running => ContainerState::Running {
            started_at: Some(started_at(real.since)),
        },
        Run::Ended => ContainerState::Terminated(Box::new(Terminated {
            exit_code: Some(0),
            ..Terminated::default()
        })),
        Run::Stopped => ContainerState::Terminated(Box::new(Terminated {
            exit_code: Some(143),
            ..Terminated::default()
        })),
        Run::NotPulled => ContainerState::Waiting {
            reason: "ErrImagePull".into(),
            message: image.into(),
        },
        Run::BacksOff => ContainerState::Waiting {
            reason: "CrashLoopBackOff".into(),
            message: image.into(),
        },
    };
}

/// A second after the last of so many requests, which are made one each minute.
pub fn started_at(since: u8) -> Timestamp {
    let time = match since.checked_sub(1) {
        Some(minute) => format!("2026-01-01T00:0{minute}:01Z"),
        None => "2025-12-31T00:00:00Z".into(),
    };
    time.parse().unwrap()
}
