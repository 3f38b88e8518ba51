//! A pod reduced to labels, images and readiness. Pods listed by a user's selector are read as
//! this: the objects of tenants can take a hundred times their size when they are read whole.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Pod;

use super::view::PodView;
use crate::objects::item::{FromView, Item};

/// A pod, reduced to these fields.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodBrief {
    /// `metadata.uid`; empty if there is none.
    pub uid: Box<str>,
    /// `metadata.labels`
    pub labels: BTreeMap<Box<str>, Box<str>>,
    /// True if `metadata.deletionTimestamp` is set.
    pub deleting: bool,
    /// True if `status.phase` is Succeeded or Failed.
    pub is_over: bool,
    /// True if its condition `Ready` is true.
    pub ready: bool,
    /// The image of each container by its name, also of init containers.
    pub images: BTreeMap<Box<str>, Box<str>>,
}

/// A pod of a list or watch.
pub type PodBriefWire = Item<PodBrief>;

impl FromView for PodBrief {
    type Kind = Pod;
    type View = PodView;

    fn of(pod: PodView) -> Option<Self> {
        let (metadata, spec, status) = pod.parts();
        Some(Self {
            uid: metadata.uid.value.unwrap_or_default(),
            labels: metadata.labels.all()?,
            deleting: metadata.deletion_timestamp.0,
            is_over: status.is_over(),
            ready: status.is_ready(),
            images: spec.images(),
        })
    }
}
