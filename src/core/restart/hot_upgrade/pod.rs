//! A pod that may have a sidecar twice, reduced to what a hot upgrade reads.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube_core::{Resource as _, Selector, SelectorExt as _};
use serde::{Deserialize, Deserializer};

use super::record::{RECORD, Record};
use crate::image::alias::is_same_image;
use crate::image::reference::ImageReference;
use crate::objects::node::ConditionWire;
use crate::objects::pod::evidence::is_pull_error;
use crate::objects::pod::wire::PodWire;
use crate::objects::pod::{Container, ContainerState, Pod, RestartPolicy};
use crate::objects::values::bounded_value::BoundedValue;
use crate::objects::values::bounds;
use crate::objects::values::lenient::{Lenient, Object, Objects, Text, Texts};
use crate::restart::parked::PARKED;

/// The annotation that names the working container of each pair: `{"mesh":"mesh-2"}`. Name and form
/// are OpenKruise's (`pkg/control/sidecarcontrol/util_hotupgrade.go`).
pub const WORKING: &str = "kruise.io/sidecarset-working-hotupgrade-container";
/// The prefix of the annotations with the version of a container of a pair: the `resourceVersion`
/// of the `SidecarSet`; `0` for the empty one.
pub const VERSION: &str = "version.sidecarset.kruise.io/";
/// The prefix of the annotations with the version of the other container of the pair.
pub const VERSION_ALT: &str = "versionalt.sidecarset.kruise.io/";

/// The suffixes of the names of a pair's containers.
const SUFFIXES: [&str; 2] = ["-1", "-2"];

/// A pod, reduced to what a hot upgrade reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UpgradePod {
    /// `metadata.namespace`
    pub namespace: Box<str>,
    /// `metadata.name`
    pub name: Box<str>,
    /// `metadata.uid`
    pub uid: Box<str>,
    /// `metadata.resourceVersion`
    pub version: Box<str>,
    /// True if the pod is neither finished nor being deleted, and its restart policy is `Always`.
    /// Pods of other policies are also ended by their images.
    pub is_active: bool,
    /// True if the condition `Ready` is `True`.
    pub is_ready: bool,
    /// True if a restart has parked one of its containers, or may have: nothing is changed
    /// meanwhile.
    pub is_parked: bool,
    /// True if `updateStrategy.selector` matches the pod.
    pub is_selected: bool,
    /// The containers of `spec.containers` whose names have a suffix of a pair.
    pub containers: Vec<UpgradeContainer>,
    /// The working container, by name of the sidecar, from [`WORKING`].
    pub working: BTreeMap<Box<str>, Box<str>>,
    /// The version by container, from [`VERSION`]; no entry if it is not a number.
    pub versions: BTreeMap<Box<str>, Box<str>>,
    /// The record of upgrades.
    pub record: Record,
}

/// One container of a pair.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UpgradeContainer {
    /// `name`
    pub name: Box<str>,
    /// `image`, of the spec.
    pub image: Box<str>,
    /// `image`, as the status reports it.
    pub shown: Box<str>,
    /// `containerID`, `restartCount` and `startedAt` of the status, which differ for another
    /// container.
    pub run: Box<str>,
    /// True if the container runs and is `ready`.
    pub is_ready: bool,
    /// The node's reason and message, if the container waits after a failed start; else `None`.
    pub trouble: Option<(Box<str>, Box<str>)>,
}

/// A pod of a list or watch, decoded for hot upgrades.
#[derive(Clone, Debug)]
pub struct UpgradePodWire {
    metadata: ObjectMeta,
    pod: PodWire,
    more: TopWire,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct TopWire {
    metadata: Lenient<Object<MetaWire>>,
    status: Lenient<Object<StatusWire>>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct MetaWire {
    labels: Lenient<Texts>,
    annotations: Lenient<Texts>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct StatusWire {
    conditions: Objects<ConditionWire>,
    container_statuses: Objects<ContainerStatusWire>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct ContainerStatusWire {
    name: Text,
    ready: Lenient<Option<bool>>,
}

impl<'de> Deserialize<'de> for UpgradePodWire {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let object = BoundedValue::deserialize(deserializer)?.0;
        let more = TopWire::deserialize(&object).map_err(serde::de::Error::custom)?;
        let pod = PodWire::deserialize(object).map_err(serde::de::Error::custom)?;
        Ok(Self {
            metadata: pod.meta().clone(),
            pod,
            more,
        })
    }
}

of_kind!(UpgradePodWire, k8s_openapi::api::core::v1::Pod);

impl UpgradePodWire {
    /// Reads the pod; `selected` is `updateStrategy.selector`. Returns `None` in the same cases as
    /// [`PodWire::read`], and if no container's name has a suffix of a pair.
    #[must_use]
    pub fn read(self, selected: &Selector) -> Option<UpgradePod> {
        let pod = self.pod.read()?;
        let (metadata, status) = (self.more.metadata.value.0, self.more.status.value.0);
        let ready = |name: &str| {
            let statuses = status.container_statuses.value.iter();
            let mut statuses = statuses.map(|status| &status.value.0);
            let status = statuses.find(|status| status.name.value.as_deref() == Some(name));
            status.is_some_and(|status| status.ready.value == Some(true))
        };
        let of_pairs = pod.containers.iter().filter(|one| is_of_pair(&one.name));
        let containers: Vec<_> = of_pairs
            .map(|one| UpgradeContainer::of(one, ready(&one.name)))
            .collect();
        if containers.is_empty() {
            return None;
        }
        let annotations = metadata.annotations.value.0;
        let labels = metadata.labels.value.0;
        let said = |key: &str| annotations.get(key).map(|text| &**text);
        let mut conditions = status.conditions.value.iter().map(|one| &one.value.0);
        Some(UpgradePod {
            is_active: is_active(&pod),
            is_ready: conditions.any(|one| one.is("Ready", "True")),
            is_parked: annotations.contains_key(PARKED) || labels.contains_key(PARKED),
            is_selected: is_selected(labels, selected),
            working: said(WORKING)
                .map(|text| working(text, &containers))
                .unwrap_or_default(),
            versions: versions(&containers, said),
            record: said(RECORD)
                .map(|text| record(text, &containers))
                .unwrap_or_default(),
            containers,
            namespace: pod.namespace,
            name: pod.name,
            uid: pod.uid,
            version: pod.version,
        })
    }
}

impl UpgradePod {
    /// Finds a container of a pair by its full name.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<&UpgradeContainer> {
        self.containers.iter().find(|one| &*one.name == name)
    }
}

impl UpgradeContainer {
    /// Returns true if the container has an image that was written so, also if a webhook has added
    /// a digest, or under an alias of a restart.
    #[must_use]
    pub fn has(&self, written: &str) -> bool {
        let is_pinned = written.contains('@');
        let tagged = || {
            self.tagged()
                .filter(|image| !is_pinned || image.contains('@'))
        };
        *self.image == *written || tagged().is_some_and(|image| is_same_image(image, written))
    }

    /// Returns the image with its tag. One that is named by its digest alone is the one that the
    /// node shows by a tag; `None` if it does not.
    pub(super) fn tagged(&self) -> Option<&str> {
        let parse = |image: &str| ImageReference::parse(image).ok();
        let (image, shown) = (parse(&self.image)?, parse(&self.shown));
        if image.tag().is_some() {
            return Some(&self.image);
        }
        let is_shown = shown.is_some_and(|it| it.tag().is_some() && it.same_repository(&image));
        is_shown.then_some(&*self.shown)
    }

    fn of(container: &Container, ready: bool) -> Self {
        let status = container.status.as_ref();
        let state = status.map(|status| &status.state);
        let started = match state {
            Some(ContainerState::Running { started_at }) => *started_at,
            _ => None,
        };
        let started = started.map(|time| time.to_string()).unwrap_or_default();
        let run = status.map(|status| {
            let (id, count) = (&status.container_id, status.restart_count);
            format!("{id} {count} {started}").into()
        });
        let trouble = match state {
            Some(ContainerState::Waiting { reason, message }) if is_trouble(reason) => {
                Some((reason.clone(), message.clone()))
            }
            _ => None,
        };
        Self {
            name: container.name.clone(),
            image: container.image.clone(),
            shown: status
                .map(|status| status.image.clone())
                .unwrap_or_default(),
            run: run.unwrap_or_default(),
            is_ready: ready && matches!(state, Some(ContainerState::Running { .. })),
            trouble,
        }
    }
}

/// Returns true for a kubelet's reason of a failed start (`pkg/kubelet/container/sync_result.go`,
/// `pkg/kubelet/images/types.go`).
fn is_trouble(reason: &str) -> bool {
    is_pull_error(reason)
        || matches!(
            reason,
            "CrashLoopBackOff"
                | "RunContainerError"
                | "CreateContainerError"
                | "CreateContainerConfigError"
                | "PostStartHookError"
        )
}

fn is_of_pair(name: &str) -> bool {
    let mut names = SUFFIXES.iter().filter_map(|end| name.strip_suffix(end));
    names.any(|name| !name.is_empty())
}

fn is_active(pod: &Pod) -> bool {
    !pod.deleting && !pod.phase.is_terminal() && pod.restart_policy == RestartPolicy::Always
}

fn is_selected(labels: BTreeMap<Box<str>, Box<str>>, selected: &Selector) -> bool {
    let labels = labels.into_iter();
    let labels: BTreeMap<String, String> = labels
        .map(|(key, value)| (key.into(), value.into()))
        .collect();
    selected.matches(&labels)
}

/// Returns true if the pod has this container of the sidecar: nothing is kept of others.
fn has(containers: &[UpgradeContainer], sidecar: &str, name: &str) -> bool {
    let is_of_sidecar = SUFFIXES.contains(&name.strip_prefix(sidecar).unwrap_or_default());
    is_of_sidecar && containers.iter().any(|one| &*one.name == name)
}

fn working(text: &str, containers: &[UpgradeContainer]) -> BTreeMap<Box<str>, Box<str>> {
    let mut working: BTreeMap<Box<str>, Box<str>> = serde_json::from_str(text).unwrap_or_default();
    working.retain(|sidecar, name| has(containers, sidecar, name));
    working
}

fn record(text: &str, containers: &[UpgradeContainer]) -> Record {
    let mut record = Record::read(text);
    record.0.retain(|sidecar, entry| {
        let is_there = has(containers, sidecar, &format!("{sidecar}{}", SUFFIXES[0]));
        is_there && entry.image.len() <= bounds::TEXT && entry.run.len() <= bounds::TEXT
    });
    record
}

fn versions<'a>(
    containers: &[UpgradeContainer],
    said: impl Fn(&str) -> Option<&'a str>,
) -> BTreeMap<Box<str>, Box<str>> {
    // The version is written again, for the other container.
    let is_version = |text: &&str| {
        (1..=20).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit())
    };
    let version = |one: &UpgradeContainer| {
        let version = said(&format!("{VERSION}{}", one.name)).filter(is_version)?;
        Some((one.name.clone(), version.into()))
    };
    containers.iter().filter_map(version).collect()
}
