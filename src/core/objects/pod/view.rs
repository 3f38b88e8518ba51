//! A pod as the API server sends it: every field that any loop reads, decoded once. Each loop keeps
//! what it needs of it (see [`crate::objects::item`]).

mod lists;
mod node_wish;
mod rules;
pub(crate) mod spec;
pub(crate) mod statuses;
mod variables;
mod volumes;

use std::collections::BTreeMap;

use serde::Deserialize;
use serde::de::IgnoredAny;

use self::lists::{CommandView, MountsView};
use self::node_wish::{AffinityView, NodeSelectorView, OsView};
use self::rules::RuleView;
pub(crate) use self::statuses::ContainerStatusView;
pub(crate) use self::variables::{EnvFromView, VariableView};
pub(crate) use self::volumes::{ProfileView, VolumeView};
use crate::objects::item::{ConditionView, View, items};
use crate::objects::pod::{Phase, RestartPolicy};
use crate::objects::values::bounds;
use crate::objects::values::lenient::{
    Flag, Integer, Lenient, Member, Objects, Part, Present, Said, Text, Time,
};

/// A pod.
pub(crate) type PodView = View<SpecView, StatusView>;

/// `spec`; `X` is what is read of a hook and of the ports that it may name.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(
    rename_all = "camelCase",
    default,
    bound(deserialize = "X: Part + Clone")
)]
pub struct SpecView<X = IgnoredAny> {
    pub(crate) node_name: Text,
    pub(crate) restart_policy: Lenient<Option<RestartPolicy>>,
    pub(crate) termination_grace_period_seconds: Integer,
    pub(crate) init_containers: Objects<ContainerView<X>>,
    pub(crate) containers: Objects<ContainerView<X>>,
    pub(crate) volumes: Objects<VolumeView>,
    pub(crate) readiness_gates: Objects<GateView>,
    pub(crate) image_pull_secrets: Objects<SourceView>,
    os: Member<OsView>,
    affinity: Member<AffinityView>,
    node_selector: Member<NodeSelectorView>,
    security_context: Member<SecurityView>,
}

/// A container of a pod or of a template.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(
    rename_all = "camelCase",
    default,
    bound(deserialize = "X: Part + Clone")
)]
pub(crate) struct ContainerView<X = IgnoredAny> {
    pub name: Text,
    pub image: Text,
    command: Lenient<CommandView>,
    pub env: Objects<VariableView, { bounds::VARIABLES }>,
    pub env_from: Objects<EnvFromView>,
    working_dir: Text<{ bounds::PATH }>,
    pub volume_mounts: Lenient<MountsView>,
    pub image_pull_policy: Text,
    pub restart_policy: Lenient<Option<RestartPolicy>>,
    restart_policy_rules: Objects<RuleView>,
    pub lifecycle: Member<LifecycleView<X>>,
    pub ports: X,
    liveness_probe: Lenient<Present>,
    readiness_probe: Lenient<Present>,
    pub startup_probe: Lenient<Present>,
    security_context: Member<SecurityView>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(
    rename_all = "camelCase",
    default,
    bound(deserialize = "X: Part + Clone")
)]
pub(crate) struct LifecycleView<X> {
    post_start: Member<HookView>,
    pub pre_stop: X,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct HookView {
    sleep: Lenient<Present>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct SecurityView {
    seccomp_profile: Member<ProfileView>,
    app_armor_profile: Member<ProfileView>,
    se_linux_options: Member<ProfileView>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct GateView {
    pub condition_type: Text,
}

/// A mention of a `ConfigMap` or `Secret`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct SourceView {
    pub name: Text,
    pub secret_name: Text,
    pub optional: Flag,
}

/// `status`
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct StatusView {
    pub(crate) phase: Lenient<Phase>,
    pub(crate) reason: Text,
    pub(crate) message: Lenient<Said>,
    pub(crate) start_time: Time,
    pub(crate) observed_generation: Integer,
    pub(crate) conditions: Objects<ConditionView>,
    pub(crate) init_container_statuses: Objects<ContainerStatusView>,
    pub(crate) container_statuses: Objects<ContainerStatusView>,
}

impl StatusView {
    /// Returns true if the phase is Succeeded or Failed.
    pub(crate) fn is_over(&self) -> bool {
        self.phase.value.is_terminal()
    }

    /// Returns the condition of this kind, if it has this status.
    pub(crate) fn condition(&self, kind: &str, status: &str) -> Option<&ConditionView> {
        let mut conditions = items(&self.conditions);
        conditions.find(|condition| condition.is(kind, status))
    }

    /// Returns true if the condition `Ready` is true.
    pub(crate) fn is_ready(&self) -> bool {
        self.condition("Ready", "True").is_some()
    }
}

impl<X> SpecView<X> {
    /// Returns the image of each container by its name, init containers included, without those
    /// whose name or image is unreadable.
    pub(crate) fn images(&self) -> BTreeMap<Box<str>, Box<str>> {
        let all = items(&self.init_containers).chain(items(&self.containers));
        all.filter_map(|one| Some((one.name.value.clone()?, one.image.value.clone()?)))
            .collect()
    }
}
