//! A pod as the API server sends it: every field that any loop reads, decoded once. Each loop keeps
//! what it needs of it (see [`crate::objects::item`]).

mod rules;
pub(crate) mod spec;

use std::collections::BTreeMap;

use self::rules::RuleView;
use crate::objects::item::{ConditionView, View, any_malformed, items};
use crate::objects::pod::container_spec::{Backing, EnvValue, EnvVar, MountSpec};
use crate::objects::pod::{
    ContainerState, ContainerStatus, ImageDigest, NativeEnd, Phase, RestartPolicy, Terminated,
};
use crate::objects::runs_on::RunsOn;
use crate::objects::values::bounds;
use crate::objects::values::env::{Entry, Hidden};
use crate::objects::values::lenient::{
    Filled, Flag, Integer, Lenient, Member, Object, Objects, Part, Present, Said, Shape, Text,
    Time, drain_array,
};
use serde::Deserialize;
use serde::de::{IgnoredAny, SeqAccess};

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

// The lists of a container that are not kept as a whole.

/// `command`, of which only the first item is kept.
#[derive(Clone, Debug, Default)]
pub(crate) struct CommandView {
    pub(crate) first: Option<Box<str>>,
    pub(crate) malformed: bool,
}

impl Shape for CommandView {
    fn from_array<'de, A: SeqAccess<'de>>(
        mut array: A,
        _: usize,
    ) -> Result<Option<Self>, A::Error> {
        let Some(first) = array.next_element::<Text<{ bounds::ARGUMENT }>>()? else {
            return Ok(Some(Self::default()));
        };
        let mut command = Self {
            first: Some(first.value.unwrap_or_default()),
            malformed: first.malformed,
        };
        while let Some(item) = array.next_element::<Lenient<Filled>>()? {
            command.malformed |= item.malformed;
        }
        Ok(Some(command))
    }
}

/// `volumeMounts`; empty if there are too many.
#[derive(Clone, Debug, Default)]
pub(crate) struct MountsView {
    pub(crate) list: Vec<Lenient<Object<MountView>>>,
    pub(crate) too_many: bool,
}

impl Shape for MountsView {
    fn from_array<'de, A: SeqAccess<'de>>(
        mut array: A,
        _: usize,
    ) -> Result<Option<Self>, A::Error> {
        let (mut list, mut bytes) = (Vec::new(), 0);
        while let Some(mount) = array.next_element::<Lenient<Object<MountView>>>()? {
            bytes += mount
                .value
                .0
                .mount_path
                .value
                .as_ref()
                .map_or(0, |path| path.len());
            if list.len() >= bounds::MOUNTS || bytes > bounds::MOUNT_PATHS {
                return drain_array(array).map(|()| {
                    Some(Self {
                        list: Vec::new(),
                        too_many: true,
                    })
                });
            }
            list.push(mount);
        }
        Ok(Some(Self {
            list,
            too_many: false,
        }))
    }
}

// The decoder of volumes and their mounts.

/// The backings of the volumes of a pod, by volume name.
type Volumes<'a> = BTreeMap<&'a str, Backing>;

/// The `type` of a seccomp or AppArmor profile, and that of an SELinux label.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct ProfileView {
    #[serde(rename = "type")]
    kind: Text,
}

/// One of `volumeMounts`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct MountView {
    pub name: Text,
    mount_path: Text<{ bounds::PATH }>,
    sub_path: Lenient<Filled>,
    sub_path_expr: Lenient<Filled>,
}

/// One of `volumes`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct VolumeView {
    pub name: Text,
    pub config_map: Member<SourceView>,
    pub secret: Member<SourceView>,
    pub projected: Member<ProjectedView>,
    #[serde(rename = "downwardAPI")]
    downward_api: Lenient<Present>,
    host_path: Member<ProfileView>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct ProjectedView {
    pub sources: Objects<ProjectionView>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct ProjectionView {
    pub config_map: Member<SourceView>,
    pub secret: Member<SourceView>,
}

impl MountView {
    fn read(self, volumes: &Volumes<'_>) -> MountSpec {
        MountSpec {
            has_sub_path: self.sub_path.value.0 || self.sub_path_expr.value.0,
            backing: self
                .name
                .value
                .as_deref()
                .and_then(|name| volumes.get(name))
                .copied()
                .unwrap_or(Backing::Data),
            path: self.mount_path.value.unwrap_or_default(),
        }
    }
}

impl VolumeView {
    fn named(&self) -> Option<(&str, Backing)> {
        Some((self.name.value.as_deref()?, self.backing()))
    }

    fn backing(&self) -> Backing {
        let is_configuration = self.config_map.is_there()
            || self.secret.is_there()
            || self.projected.is_there()
            || self.downward_api.value.0;
        let host_path = self
            .host_path
            .value
            .as_ref()
            .and_then(|host| host.kind.value.as_deref());
        match host_path {
            Some("File" | "FileOrCreate" | "Socket" | "CharDevice" | "BlockDevice") => {
                Backing::HostFile
            }
            _ if is_configuration => Backing::Configuration,
            _ => Backing::Data,
        }
    }
}

// The decoder of environment variables.

/// One of `env`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct VariableView {
    name: Text,
    value: Lenient<Option<Hidden>, { bounds::ARGUMENT }>,
    pub value_from: Member<ValueFromView>,
}

/// `valueFrom`
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct ValueFromView {
    pub config_map_key_ref: Member<SourceView>,
    pub secret_key_ref: Member<SourceView>,
    pub field_ref: Lenient<Object<FieldView>>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct FieldView {
    pub field_path: Text,
}

/// One of `envFrom`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct EnvFromView {
    pub config_map_ref: Member<SourceView>,
    pub secret_ref: Member<SourceView>,
}

impl VariableView {
    fn malformed(entry: &Lenient<Object<Self>>) -> bool {
        let fields = &entry.value.0;
        let is_long = fields
            .value
            .value
            .as_ref()
            .is_some_and(|value| value.is_too_long);
        entry.malformed
            || fields.name.value.is_none()
            || fields.value.malformed
            || is_long
            || fields.value_from.malformed
    }

    fn entry(&self) -> Entry<'_> {
        Entry {
            name: self.name.value.as_deref().unwrap_or_default(),
            value: self
                .value
                .value
                .as_ref()
                .map(Hidden::expose)
                .unwrap_or_default(),
            is_malformed: self.value.malformed,
            is_reference: self.value_from.value.is_some() || self.value_from.malformed,
        }
    }

    /// Reads the variable: as in the kubelet, a value that is not empty outranks the reference.
    fn read(self) -> EnvVar {
        let name = self.name.value.unwrap_or_default();
        let value = match (
            self.value
                .value
                .map(Hidden::open)
                .filter(|value| !value.is_empty()),
            self.value_from.value,
        ) {
            (None, Some(source)) => EnvValue::Reference {
                required: source.is_required(),
            },
            (value, _) => EnvValue::Literal(value.unwrap_or_default()),
        };
        EnvVar { name, value }
    }
}

fn is_required(references: [&Member<SourceView>; 2]) -> bool {
    references
        .iter()
        .filter_map(|member| member.value.as_ref())
        .any(|reference| reference.optional.value != Some(true))
}

impl ValueFromView {
    fn is_required(&self) -> bool {
        is_required([&self.config_map_key_ref, &self.secret_key_ref])
    }
}

impl EnvFromView {
    fn is_required(&self) -> bool {
        is_required([&self.config_map_ref, &self.secret_ref])
    }
}

// The fields of a pod that say on which operating system and processor it runs.

/// The labels of nodes with their operating system and their processor, the old ones last.
const SYSTEM: [&str; 2] = ["kubernetes.io/os", "beta.kubernetes.io/os"];
const PROCESSOR: [&str; 2] = ["kubernetes.io/arch", "beta.kubernetes.io/arch"];

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct OsView {
    name: Text,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct NodeSelectorView {
    #[serde(rename = "kubernetes.io/os")]
    os: Text,
    #[serde(rename = "beta.kubernetes.io/os")]
    old_os: Text,
    #[serde(rename = "kubernetes.io/arch")]
    architecture: Text,
    #[serde(rename = "beta.kubernetes.io/arch")]
    old_architecture: Text,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct AffinityView {
    node_affinity: Member<NodeAffinityView>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct NodeAffinityView {
    #[serde(rename = "requiredDuringSchedulingIgnoredDuringExecution")]
    required: Member<RequiredView>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct RequiredView {
    node_selector_terms: Objects<TermView>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct TermView {
    match_expressions: Objects<ExpressionView>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct ExpressionView {
    key: Text,
    operator: Text,
    values: Lenient<Vec<Text>>,
}

impl OsView {
    fn runs_on(&self) -> RunsOn {
        RunsOn::named(self.name.value.as_deref(), None)
    }
}

impl NodeSelectorView {
    fn runs_on(&self) -> RunsOn {
        let first = |label: &Text, old: &Text| {
            let read = |text: &Text| text.value.clone();
            read(label).or_else(|| read(old))
        };
        RunsOn::named(
            first(&self.os, &self.old_os).as_deref(),
            first(&self.architecture, &self.old_architecture).as_deref(),
        )
    }
}

impl AffinityView {
    /// Returns what is required of every node that the pod may be put on: one term has to match,
    /// and all expressions of it.
    fn runs_on(&self) -> RunsOn {
        let required = self.node_affinity.value.as_ref();
        let required = required.and_then(|affinity| affinity.required.value.as_ref());
        let terms = required.map(|required| &*required.node_selector_terms.value);
        RunsOn::common(
            terms
                .into_iter()
                .flatten()
                .map(|term| term.value.0.runs_on()),
        )
    }
}

impl TermView {
    fn runs_on(&self) -> RunsOn {
        let expressions = self.match_expressions.value.iter();
        expressions
            .map(|expression| expression.value.0.runs_on())
            .fold(RunsOn::default(), RunsOn::or)
    }
}

impl ExpressionView {
    fn runs_on(&self) -> RunsOn {
        if self.operator.value.as_deref() != Some("In") {
            return RunsOn::default();
        }
        let key = self.key.value.as_deref().unwrap_or_default();
        let of = |value: &Text| {
            let named =
                |labels: [&str; 2]| value.value.as_deref().filter(|_| labels.contains(&key));
            RunsOn::named(named(SYSTEM), named(PROCESSOR))
        };
        RunsOn::common(self.values.value.iter().map(of))
    }
}

// The decoder of container statuses.

/// The status of a container.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct ContainerStatusView {
    pub name: Text,
    pub image: Text,
    #[serde(rename = "imageID")]
    pub image_id: Text,
    #[serde(rename = "containerID")]
    pub container_id: Text,
    pub ready: Flag,
    pub started: Flag,
    pub restart_count: Integer,
    pub state: Lenient<Object<StateView>>,
    pub last_state: Lenient<Object<StateView>>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct StateView {
    waiting: Member<WaitingView>,
    running: Member<RunningView>,
    terminated: Member<TerminatedView>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct WaitingView {
    reason: Text,
    message: Lenient<Said>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct RunningView {
    started_at: Time,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct TerminatedView {
    exit_code: Integer,
    signal: Integer,
    reason: Text,
    started_at: Time,
    finished_at: Time,
}

/// The statuses of a pod, taken by name: providers leave some out, order them differently or add
/// those of init containers.
pub(crate) struct StatusList(Vec<ContainerStatusView>);

impl StatusList {
    pub(crate) fn read(statuses: Objects<ContainerStatusView>) -> Self {
        Self(statuses.value.into_iter().map(|s| s.value.0).collect())
    }

    /// Takes the first status of that name; the others keep their order, so it is always the first.
    pub(crate) fn take(&mut self, name: &str) -> Option<ContainerStatus> {
        let at = self
            .0
            .iter()
            .position(|s| s.name.value.as_deref() == Some(name))?;
        Some(self.0.remove(at).read())
    }

    /// Returns the restarts of the statuses that no container took.
    pub(crate) fn restarts(&self) -> impl Iterator<Item = i64> {
        self.0
            .iter()
            .map(|status| status.restart_count.value.unwrap_or_default())
    }

    /// Returns the end of the native sidecar that ended last.
    pub(crate) fn native_end<X>(&self, inits: &Objects<ContainerView<X>>) -> Option<NativeEnd> {
        let natives = items(inits).filter(|init| init.is_native_sidecar());
        let ends = natives.filter_map(|init| {
            let name = init.name.value.as_ref()?;
            let mut statuses = self.0.iter();
            let status = statuses.find(|status| status.name.value.as_ref() == Some(name))?;
            let states = [&status.state, &status.last_state];
            let mut ends = states
                .into_iter()
                .filter_map(|s| s.value.0.terminated.value.as_ref());
            let end = ends.find(|end| end.exit_code.value.is_some())?;
            Some(NativeEnd {
                finished_at: end.finished_at.value,
                name: name.clone(),
            })
        });
        ends.max()
    }

    /// Returns whether an init container has ended so that the node starts all containers of the pod
    /// again (Kubernetes: `ShouldAllContainersRestart`), and the first native sidecar whose end may.
    pub(crate) fn restart_all<X>(
        &mut self,
        init_containers: &Objects<ContainerView<X>>,
    ) -> (bool, Option<Box<str>>) {
        let (mut ended, mut restarter) = (false, None);
        for init in items(init_containers) {
            let mut rules = init.restart_rules();
            rules.retain(|rule| rule.restarts_all);
            let Some(name) = init.name.value.clone().filter(|_| !rules.is_empty()) else {
                continue;
            };
            if let Some(ContainerState::Terminated(end)) = self.take(&name).map(|s| s.state) {
                ended |= rules.iter().any(|rule| rule.may_match(end.exit_code));
            }
            if init.is_native_sidecar() {
                restarter.get_or_insert(name);
            }
        }
        (ended, restarter)
    }
}

impl ContainerStatusView {
    /// Returns true if one of the list, or the list itself, cannot be read.
    pub(crate) fn any_malformed(list: &Objects<Self>) -> bool {
        let is_malformed = |one: &Self| one.state.malformed || one.restart_count.malformed;
        any_malformed(list) || items(list).any(is_malformed)
    }

    pub(crate) fn read(self) -> ContainerStatus {
        ContainerStatus {
            image: self.image.value.unwrap_or_default(),
            image_digest: self.image_id.value.as_deref().and_then(ImageDigest::of),
            container_id: self.container_id.value.unwrap_or_default(),
            restart_count: self.restart_count.value.unwrap_or_default(),
            state: self.state.value.0.read(),
            last_end: self
                .last_state
                .value
                .0
                .terminated
                .value
                .map(|t| Box::new(t.read())),
        }
    }
}

impl StateView {
    /// Reads the state. A provider may set two members at once (the polling wrapper of the
    /// virtual-kubelet library adds `terminated` without clearing `running`): the end outranks the
    /// rest, as in OpenKruise.
    pub(crate) fn read(self) -> ContainerState {
        if let Some(terminated) = self.terminated.value {
            ContainerState::Terminated(Box::new(terminated.read()))
        } else if let Some(running) = self.running.value {
            ContainerState::Running {
                started_at: running.started_at.value,
            }
        } else if let Some(waiting) = self.waiting.value {
            let WaitingView { reason, message } = *waiting;
            ContainerState::Waiting {
                reason: reason.value.unwrap_or_default(),
                message: message.value.0,
            }
        } else {
            ContainerState::Unreported
        }
    }
}

impl TerminatedView {
    fn read(self) -> Terminated {
        Terminated {
            exit_code: self.exit_code.value,
            signal: self.signal.value.filter(|signal| *signal != 0),
            reason: self.reason.value.unwrap_or_default(),
            started_at: self.started_at.value,
            finished_at: self.finished_at.value,
        }
    }
}
