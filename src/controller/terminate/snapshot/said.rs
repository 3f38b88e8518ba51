//! The Events that swaplet has emitted.

use std::collections::HashMap;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::events::v1::Event;
use kube::Api;
use swaplet_core::objects::pod::Pod;
use swaplet_core::objects::values::whole_object::WholeObject;
use swaplet_core::report::reason::Reason;
use swaplet_core::terminate::methods::swap::age_when_told;

use crate::frame::list::list;
use crate::frame::writer::report::REPORTING_CONTROLLER;

/// An Event about a pod or its Job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Said {
    /// The time of the Event.
    pub at: Timestamp,
    /// True if the Event is a Warning.
    pub warning: bool,
    /// The reason, possibly of another version and unknown to this one.
    pub reason: String,
    /// The message for people.
    pub note: String,
}

/// All Events, by the uid of the object.
#[derive(Debug, Default)]
pub(crate) struct AllSaid(HashMap<String, Vec<Said>>);

/// Reads all Events that still exist; by default an API server keeps them for one hour.
pub(crate) async fn read(api: &Api<WholeObject<Event>>) -> kube::Result<AllSaid> {
    let mut all = AllSaid::default();
    for (uid, said) in list(
        api,
        &format!("reportingController={REPORTING_CONTROLLER}"),
        said,
    )
    .await?
    {
        all.0.entry(uid).or_default().push(said);
    }
    Ok(all)
}

fn said(event: WholeObject<Event>) -> Option<(String, Said)> {
    let event = event.read()?;
    let at = event
        .event_time
        .map(|time| time.0)
        .or_else(|| event.metadata.creation_timestamp.map(|time| time.0))?;
    let warning = event.type_.as_deref() == Some("Warning");
    let (reason, note) = (
        event.reason.unwrap_or_default(),
        event.note.unwrap_or_default(),
    );
    Some((
        event.regarding?.uid?,
        Said {
            at,
            warning,
            reason,
            note,
        },
    ))
}

impl Said {
    /// Returns the reason; `None` if only another version of swaplet has it.
    fn reason(&self) -> Option<Reason> {
        Reason::ALL
            .into_iter()
            .find(|reason| reason.as_str() == self.reason)
    }

    /// Returns the latest time at which the pod can have been written for this Event to be emitted;
    /// `None` if the Event implies no write.
    fn written_at(&self, pod: &Pod) -> Option<Timestamp> {
        let age = match self.reason()? {
            Reason::PhaseWritten | Reason::RecreateRequested => Duration::ZERO,
            reason => age_when_told(pod, reason)?,
        };
        self.at.checked_sub(age).ok()
    }

    /// Returns true if the Event reports that `image` was written to the pod.
    fn names(&self, pod: &Pod, image: &str) -> bool {
        let is_of_swap = self.reason().and_then(|reason| age_when_told(pod, reason));
        is_of_swap.is_some() && self.note.contains(&format!(" {image})"))
    }
}

impl AllSaid {
    pub(crate) fn about(&self, pod: &Pod) -> Vec<&Said> {
        let job = pod.job.as_ref().map(|job| &*job.uid);
        let mut said: Vec<_> = [Some(&*pod.uid), job]
            .into_iter()
            .flatten()
            .filter_map(|uid| self.0.get(uid))
            .flatten()
            .collect();
        said.sort_by_key(|said| said.at);
        said
    }

    /// Returns true if an Event reports that `image` was written to the pod.
    pub(crate) fn names(&self, pod: &Pod, image: &str) -> bool {
        let said = self.0.get(&*pod.uid).into_iter().flatten();
        said.into_iter().any(|said| said.names(pod, image))
    }

    /// Returns when the pod was last written; `None` if no Event implies a write.
    pub(crate) fn wrote(&self, pod: &Pod) -> Option<Timestamp> {
        let said = self.0.get(&*pod.uid)?;
        said.iter().filter_map(|said| said.written_at(pod)).max()
    }
}
