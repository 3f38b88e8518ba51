//! The Events that swaplet has emitted.

use std::collections::HashMap;
use std::time::Duration;

use jiff::Timestamp;
use kube::api::DynamicObject;
use kube::core::{ApiResource, GroupVersionKind};
use kube::{Api, Client};
use serde_json::Value;
use swaplet_core::objects::pod::Pod;
use swaplet_core::objects::values::whole_object::WholeObject;
use swaplet_core::report::reason::Reason;
use swaplet_core::terminate::methods::swap::age_when_told;

use crate::frame::list::list;
use crate::frame::remarks::is_forbidden;
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

/// An Event of swaplet, and the object that it is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Told {
    /// The uid of the object.
    pub uid: String,
    /// The object as NAMESPACE/NAME.
    pub about: String,
    /// What it says.
    pub said: Said,
}

/// Reads all Events of swaplet that still exist, of a namespace or of all; by default an API server
/// keeps them for one hour. They are the same objects in both groups, and Kubernetes' own roles
/// `view` and `edit` allow the core group only.
///
/// # Errors
/// They can be read in neither group.
pub async fn read(client: &Client, namespace: Option<&str>) -> kube::Result<Vec<Told>> {
    let of = async |group, reporter| {
        let kind = GroupVersionKind::gvk(group, "v1", "Event");
        let kind = ApiResource::from_gvk_with_plural(&kind, "events");
        let api: Api<WholeObject<DynamicObject>> = match namespace {
            Some(namespace) => Api::namespaced_with(client.clone(), namespace, &kind),
            None => Api::all_with(client.clone(), &kind),
        };
        list(&api, &format!("{reporter}={REPORTING_CONTROLLER}"), told).await
    };
    match of("events.k8s.io", "reportingController").await {
        Err(error) if is_forbidden(&error) => of("", "reportingComponent").await,
        answer => answer,
    }
}

fn told(event: WholeObject<DynamicObject>) -> Option<Told> {
    let event = event.read()?;
    let either = |one: &str, other: &str| match &event.data[one] {
        Value::Null => event.data[other].clone(),
        value => value.clone(),
    };
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let at = match event.data["eventTime"].as_str() {
        Some(at) => at.parse().ok()?,
        None => event.metadata.creation_timestamp.as_ref()?.0,
    };
    let regarding = either("regarding", "involvedObject");
    let part = |field: &str| text(&regarding[field]);
    Some(Told {
        uid: part("uid"),
        about: format!("{}/{}", part("namespace"), part("name")),
        said: Said {
            at,
            warning: event.data["type"] == "Warning",
            reason: text(&event.data["reason"]),
            note: text(&either("note", "message")),
        },
    })
}

impl Said {
    /// Returns the reason; `None` if only another version of swaplet has it.
    pub(crate) fn reason(&self) -> Option<Reason> {
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
    pub(crate) fn of(told: Vec<Told>) -> Self {
        let mut all = Self::default();
        for told in told.into_iter().filter(|told| !told.uid.is_empty()) {
            all.0.entry(told.uid).or_default().push(told.said);
        }
        all
    }

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
