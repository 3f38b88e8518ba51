//! How a listed or watched pod is read into the form that is cached.

use std::collections::BTreeMap;

use super::annotations::Written;
use super::view::spec::Surroundings;
use super::view::{ContainerView, SpecView, StatusList, StatusView};
use super::{ACS, ACS_CLASS, Container, PHASE_WRITTEN, Pod, RestartPolicy};
use crate::objects::command::ContainerFacts;
use crate::objects::item::{FromView, Item, View};
use crate::objects::job::OwnerView;
use crate::objects::pod::{ContainerState, ContainerStatus, RestartRule, SidecarRule, roles};
use crate::objects::runs_on::RunsOn;
use crate::objects::values::bounds;
use crate::objects::values::fields::strings;
use serde::Deserialize;

/// The type of the condition of a pod that somebody ends: by preemption, a taint, the eviction API,
/// the garbage collector or its kubelet. Not all of them set `status.reason`.
pub(crate) const DISRUPTION: &str = "DisruptionTarget";
/// The type of the condition of a pod whose containers are all started again.
pub(crate) const ALL_RESTART: &str = "AllContainersRestarting";

/// A pod of a list or watch, read at once, so that a page of a list holds little more than what is
/// cached: for pods with several containers also the labels, by which policies select them, and the
/// facts about exit images.
#[derive(Clone, Debug, Deserialize)]
#[serde(transparent)]
pub struct PodWire {
    item: Item<ListedPod>,
}

#[derive(Clone, Debug)]
struct ListedPod {
    pod: Pod,
    labels: BTreeMap<String, String>,
}

of_kind!(PodWire, k8s_openapi::api::core::v1::Pod, item);

/// A pod of whose annotations only those are read that name sidecars.
pub(crate) type ListedView<X, M> = View<SpecView<X>, StatusView, Written, M>;

impl FromView for ListedPod {
    type Kind = k8s_openapi::api::core::v1::Pod;
    type View = ListedView<serde::de::IgnoredAny, serde::de::IgnoredAny>;

    fn of(mut view: Self::View) -> Option<Self> {
        let pod = Pod::of(&mut view)?;
        let has_labels = may_have_rules(&pod);
        let labels = has_labels.then(|| strings(view.metadata.labels.read));
        Some(Self {
            labels: labels.unwrap_or_default(),
            pod,
        })
    }
}

impl PodWire {
    /// Returns the pod in the form that is cached. `None` if name, namespace or uid are missing:
    /// such an object cannot be addressed, so nothing can be decided about it. A panic that
    /// occurred while it was read is raised again here, where it affects one object only.
    pub fn read(self) -> Option<Pod> {
        self.read_with(|_, _| ())
    }

    /// Like [`Self::read`], after `rules` has changed the pod: it gets the pod and its labels, if
    /// the pod has more than one container and does not restart always.
    #[must_use]
    pub fn read_with(self, rules: impl FnOnce(&mut Pod, &BTreeMap<String, String>)) -> Option<Pod> {
        let ListedPod { mut pod, labels } = self.item.read()?;
        if may_have_rules(&pod) {
            rules(&mut pod, &labels);
        }
        drop_unused_facts(&mut pod);
        Some(pod)
    }

    /// Returns the pod without containers and labels, enough to report its deletion.
    pub fn without_containers(&self) -> Self {
        let without = |listed: ListedPod| ListedPod {
            labels: BTreeMap::new(),
            pod: Pod {
                containers: Vec::new(),
                ..listed.pod
            },
        };
        Self {
            item: self.item.clone().map(without),
        }
    }
}

/// Returns true if rules may apply: a lone container is no sidecar, and pods that restart always
/// are not ended.
fn may_have_rules(pod: &Pod) -> bool {
    pod.containers.len() > 1 && pod.restart_policy != RestartPolicy::Always
}

impl Pod {
    /// Takes the pod out of a view, of which its names, containers and statuses are gone then.
    /// `None` if name, namespace or uid are missing.
    pub(crate) fn of<X, M>(view: &mut ListedView<X, M>) -> Option<Self> {
        let malformed = malformed(view);
        let clock_behind = clock_behind(view);
        let (meta, spec, status) = (&mut view.metadata, &mut view.spec, &mut view.status);
        let mut inits = StatusList(std::mem::take(&mut status.init_container_statuses.items));
        let init_restarts = inits.restarts().fold(0, i64::saturating_add);
        let native_end = inits.native_end(&spec.init_containers).map(Box::new);
        let (ended, restarter) = inits.restart_all(&spec.init_containers);
        let mut statuses = StatusList(std::mem::take(&mut status.container_statuses.items));
        let containers = std::mem::take(&mut spec.containers.items);
        let conditions = || status.conditions.iter();
        let reason = || {
            let disrupted = conditions().find(|condition| condition.is(DISRUPTION, "True"))?;
            disrupted.reason.value.clone()
        };
        let around = spec.read();
        let policy = spec.restart_policy.clone().unwrap_or_default();
        let several = containers.len() > 1 && policy != RestartPolicy::Always;
        let containers = containers
            .into_iter()
            .map(|c| c.with_status(&around, several, &mut statuses));
        // Collected in place they would keep the room of what was read.
        let mut kept = Vec::with_capacity(containers.len());
        kept.extend(containers);
        let labels = &meta.labels.read;
        let grace = spec.termination_grace_period_seconds;
        let mut pod = Self {
            namespace: std::mem::take(&mut meta.namespace).filled()?,
            name: std::mem::take(&mut meta.name).filled()?,
            uid: std::mem::take(&mut meta.uid).filled()?,
            version: meta.resource_version.value.take().unwrap_or_default(),
            deleting: meta.deletion_timestamp.0,
            job: OwnerView::job(&meta.owner_references),
            owner: OwnerView::other(&meta.owner_references),
            restart_policy: policy,
            grace_seconds: grace.filter(|seconds| *seconds >= 0).map(bounds::seconds),
            node: spec.node_name.value.clone().unwrap_or_default(),
            phase: status.phase,
            phase_was_written: conditions().any(|condition| condition.is_of(PHASE_WRITTEN)),
            phase_was_ours: false,
            reason: status
                .reason
                .value
                .clone()
                .or_else(reason)
                .unwrap_or_default(),
            all_restart: ended || conditions().any(|c| c.is(ALL_RESTART, "True")),
            restarter,
            native_end,
            on_acs: labels.get(ACS).is_some_and(|value| &**value == "true")
                || labels.contains_key(ACS_CLASS),
            platform_ends_sidecars: false,
            node_runs_on: RunsOn::default(),
            containers: kept,
            other_restarts: statuses.restarts().fold(init_restarts, i64::saturating_add),
            clock_behind,
            annotation_problem: None,
            refused_policy: None,
            outranked_policies: Box::default(),
            malformed,
        };
        meta.annotations.apply(&mut pod);
        Some(within_bounds(pod))
    }
}

/// Returns the seconds by which the node's clock is behind. A kubelet notices a pod after the API
/// server has stored it and a scheduler has given it a node: if it reports an earlier time, its
/// clock is behind. The time to notice, and the rounding to whole seconds, are added.
fn clock_behind<X, M>(view: &ListedView<X, M>) -> u32 {
    const NOTICED: i64 = 2;
    let conditions = view.status.conditions.iter();
    let scheduled = conditions
        .filter(|condition| condition.is_of("PodScheduled"))
        .filter_map(|condition| condition.last_transition_time.0);
    let given = scheduled.chain(view.metadata.creation_timestamp.0).max();
    let behind = given
        .zip(view.status.start_time.0)
        .map_or(0, |(given, noticed)| {
            given.as_second() - noticed.as_second()
        });
    if behind > 0 {
        bounds::seconds(behind + NOTICED)
    } else {
        0
    }
}

/// Returns the first field that is too long, or is missing where the API server requires it.
fn malformed<X, M>(view: &ListedView<X, M>) -> Option<&'static str> {
    let (meta, spec, status) = (&view.metadata, &view.spec, &view.status);
    let fields = [
        (meta.owner_references.too_long, "metadata.ownerReferences"),
        (meta.labels.too_many, "metadata.labels"),
        (spec.containers.too_long, "spec.containers"),
        (
            spec.containers.iter().any(ContainerView::is_unreadable),
            "spec.containers[*]",
        ),
        (
            status.container_statuses.too_long,
            "status.containerStatuses",
        ),
        (
            status.init_container_statuses.too_long,
            "status.initContainerStatuses",
        ),
    ];
    let first = fields.iter().find(|(malformed, _)| *malformed);
    first.map(|(_, field)| *field)
}

impl<X> ContainerView<X> {
    fn is_unreadable(&self) -> bool {
        self.name.is_none() || self.image.too_long || self.env.too_long
    }

    /// Returns the container with its status. Sidecars get the facts about exit images, and all
    /// others `with_facts`.
    pub(crate) fn with_status(
        mut self,
        around: &Surroundings<'_>,
        with_facts: bool,
        statuses: &mut StatusList,
    ) -> Container {
        let name = self.name.value.take().unwrap_or_default();
        let mark = self.mark();
        Container {
            status: statuses.take(&name),
            image: self.image.value.clone().unwrap_or_default(),
            restart_policy: self.restart_policy.clone(),
            restart_rules: self.restart_rules(),
            facts: (with_facts || mark.is_sidecar())
                .then(|| Box::new(ContainerFacts::of(&around.pod, &around.container(self)))),
            mark,
            rule: None,
            name,
        }
    }
}

// The memory that a cached pod takes.

impl Pod {
    /// Returns the bytes of its containers, which is nearly all of it.
    pub(crate) fn weight(&self) -> usize {
        self.containers.iter().map(Container::weight).sum()
    }
}

impl Container {
    fn weight(&self) -> usize {
        let texts = self.name.len()
            + self.image.len()
            + self.mark.with_image.as_ref().map_or(0, |image| image.len());
        let policy = self
            .restart_policy
            .as_ref()
            .map_or(0, |policy| policy.as_str().len());
        let facts = self.facts.as_ref().map_or(0, |facts| facts.weight());
        let rules: usize = self
            .restart_rules
            .iter()
            .map(|rule| size_of::<RestartRule>() + size_of_val(&*rule.codes))
            .sum();
        size_of::<Self>()
            + rules
            + texts
            + policy
            + facts
            + self.rule.as_ref().map_or(0, |_| size_of::<SidecarRule>())
            + self.status.as_ref().map_or(0, ContainerStatus::weight)
    }
}

impl ContainerStatus {
    fn weight(&self) -> usize {
        let state = match &self.state {
            ContainerState::Waiting { reason, message } => reason.len() + message.len(),
            ContainerState::Terminated(end) => end.reason.len(),
            ContainerState::Running { .. } | ContainerState::Unreported => 0,
        };
        self.image.len()
            + self.container_id.len()
            + state
            + self.last_end.as_ref().map_or(0, |end| end.reason.len())
    }
}

/// Drops the facts of containers that are no sidecars.
pub(crate) fn drop_unused_facts(pod: &mut Pod) {
    pod.containers
        .iter_mut()
        .filter(|container| !roles::is_called_sidecar(container))
        .for_each(|container| container.facts = None);
}

/// Reduces a pod that is too large, first by the facts of other containers than sidecars.
pub(crate) fn within_bounds(mut pod: Pod) -> Pod {
    if pod.weight() > bounds::POD {
        drop_unused_facts(&mut pod);
    }
    if pod.weight() > bounds::POD {
        without_containers(pod)
    } else {
        pod
    }
}

/// Drops all containers, so that the pod is left alone and reported; its restarts count.
fn without_containers(pod: Pod) -> Pod {
    Pod {
        other_restarts: pod.restarts(),
        containers: Vec::new(),
        malformed: Some("spec.containers"),
        ..pod
    }
}
