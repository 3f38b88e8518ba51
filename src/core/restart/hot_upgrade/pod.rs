//! A pod that may have a sidecar twice, reduced to what a hot upgrade reads.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1;
use kube_core::{Selector, SelectorExt as _};

use super::record::{RECORD, Record};
use crate::image::alias::is_same_image;
use crate::image::reference::ImageReference;
use crate::objects::item::{FromView, Item};
use crate::objects::pod::evidence::{is_failed_start, is_pull_error};
use crate::objects::pod::view::{ContainerStatusView, PodView};
use crate::objects::pod::{ContainerState, RestartPolicy};
use crate::objects::values::bounds;
use crate::objects::values::fields::strings;
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
    /// `metadata.generation`
    pub generation: Option<i64>,
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
    /// `imageID` of the status.
    pub image_id: Box<str>,
    /// `containerID`, `restartCount` and `startedAt` of the status, which differ for another
    /// container.
    pub run: Box<str>,
    /// True if the container runs and is `ready`.
    pub is_ready: bool,
    /// The node's reason and message, if the container waits after a failed start; else `None`.
    pub trouble: Option<(Box<str>, Box<str>)>,
}

/// A pod of a list or watch, decoded for hot upgrades.
pub type UpgradePodWire = Item<Labelled>;

/// A pod, and its labels, by which `updateStrategy.selector` selects it.
#[derive(Clone, Debug)]
pub struct Labelled {
    pod: UpgradePod,
    labels: BTreeMap<Box<str>, Box<str>>,
}

impl FromView for Labelled {
    type Kind = v1::Pod;
    type View = PodView;

    /// Returns `None` if name, namespace or uid are missing, if no container's name has a suffix of
    /// a pair, and if those of pairs are too large.
    fn of(pod: PodView) -> Option<Self> {
        let (meta, spec, status) = pod.parts();
        let is_over = status.is_over();
        let is_ready = status.is_ready();
        let containers = spec.containers.iter().filter_map(|one| {
            let name = one.name.value.clone().filter(|name| is_of_pair(name))?;
            let mut statuses = status.container_statuses.iter();
            let status = statuses.find(|status| status.name.as_ref() == Some(&name));
            let image = one.image.value.clone().unwrap_or_default();
            Some(UpgradeContainer::of(name, image, status.cloned()))
        });
        let containers: Vec<_> = containers.collect();
        let size: usize = containers.iter().map(UpgradeContainer::size).sum();
        if containers.is_empty() || size > bounds::POD {
            return None;
        }
        let (annotations, labels) = (meta.annotations.all()?, meta.labels.all()?);
        let said = |key: &str| annotations.get(key).map(|text| &**text);
        let pod = UpgradePod {
            is_active: !meta.deletion_timestamp.0
                && !is_over
                && spec.restart_policy == Some(RestartPolicy::Always),
            is_ready,
            is_parked: annotations.contains_key(PARKED) || labels.contains_key(PARKED),
            is_selected: false,
            working: said(WORKING)
                .map(|text| working(text, &containers))
                .unwrap_or_default(),
            versions: versions(&containers, said),
            record: said(RECORD)
                .map(|text| record(text, &containers))
                .unwrap_or_default(),
            containers,
            namespace: meta.namespace.filled()?,
            name: meta.name.filled()?,
            uid: meta.uid.filled()?,
            version: meta.resource_version.value.unwrap_or_default(),
            generation: meta.generation,
        };
        Some(Self { pod, labels })
    }
}

impl Labelled {
    /// Returns the pod; `selected` is `updateStrategy.selector`.
    pub fn for_update(self, selected: &Selector) -> UpgradePod {
        UpgradePod {
            is_selected: selected.matches(&strings(self.labels)),
            ..self.pod
        }
    }
}

impl UpgradePod {
    /// Finds a container of a pair by its full name.
    pub fn find(&self, name: &str) -> Option<&UpgradeContainer> {
        self.containers.iter().find(|one| &*one.name == name)
    }
}

impl UpgradeContainer {
    /// Returns true if the container has an image that was written so, also if a webhook has added
    /// a digest, or under an alias of a restart.
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

    fn of(name: Box<str>, image: Box<str>, status: Option<ContainerStatusView>) -> Self {
        let is_there = status.is_some();
        let status = status.unwrap_or_default();
        let state = status.state.read();
        let started = match &state {
            ContainerState::Running { started_at } => *started_at,
            _ => None,
        };
        let started = started.map(|time| time.to_string()).unwrap_or_default();
        let id = status.container_id.value.unwrap_or_default();
        let count = status.restart_count.unwrap_or_default();
        let run = is_there.then(|| format!("{id} {count} {started}").into());
        let is_running = matches!(state, ContainerState::Running { .. });
        Self {
            name,
            image,
            shown: status.image.value.unwrap_or_default(),
            image_id: status.image_id.value.unwrap_or_default(),
            run: run.unwrap_or_default(),
            is_ready: is_running && status.ready == Some(true),
            trouble: match state {
                ContainerState::Waiting { reason, message }
                    if is_pull_error(&reason) || is_failed_start(&reason) =>
                {
                    Some((reason, message))
                }
                _ => None,
            },
        }
    }

    /// Returns the bytes that it takes.
    fn size(&self) -> usize {
        let trouble = self.trouble.as_ref();
        let trouble = trouble.map_or(0, |(reason, message)| reason.len() + message.len());
        let texts = [
            &self.name,
            &self.image,
            &self.shown,
            &self.image_id,
            &self.run,
        ];
        size_of::<Self>() + trouble + texts.map(|text| text.len()).iter().sum::<usize>()
    }
}

fn is_of_pair(name: &str) -> bool {
    let mut names = SUFFIXES.iter().filter_map(|end| name.strip_suffix(end));
    names.any(|name| !name.is_empty())
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
        let texts = [&entry.image, &entry.run, &entry.bytes];
        is_there && texts.iter().all(|text| text.len() <= bounds::TEXT)
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
