//! A pod as the API server sends it: every field that any loop reads, decoded once. Each loop keeps
//! what it needs of it (see [`crate::objects::item`]).

pub(crate) mod spec;

use std::collections::BTreeMap;

use serde::de::{IgnoredAny, SeqAccess};
use serde::{Deserialize, Deserializer};

use crate::objects::item::{ConditionView, Part, View};
use crate::objects::pod::container_spec::{Backing, EnvValue, EnvVar, MountSpec};
use crate::objects::pod::{
    ContainerState, ContainerStatus, ImageDigest, NativeEnd, Phase, RestartPolicy, RestartRule,
    Terminated,
};
use crate::objects::runs_on::RunsOn;
use crate::objects::values::bounds;
use crate::objects::values::env::{Entry, Hidden};
use crate::objects::values::fields::{
    Filled, FromList, FromText, List, Present, Said, Text, Time, list, or_default, text,
};

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
    pub(crate) restart_policy: Option<RestartPolicy>,
    pub(crate) termination_grace_period_seconds: Option<i64>,
    pub(crate) init_containers: List<ContainerView<X>>,
    pub(crate) containers: List<ContainerView<X>>,
    pub(crate) volumes: List<VolumeView>,
    pub(crate) readiness_gates: List<GateView>,
    pub(crate) image_pull_secrets: List<SourceView>,
    os: Option<Box<OsView>>,
    affinity: Option<Box<AffinityView>>,
    node_selector: Option<Box<NodeSelectorView>>,
    security_context: Option<Box<SecurityView>>,
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
    command: First,
    pub env: List<VariableView, { bounds::VARIABLES }>,
    pub env_from: List<EnvFromView>,
    working_dir: Text<{ bounds::PATH }>,
    #[serde(deserialize_with = "text")]
    termination_message_path: MessagePath,
    pub volume_mounts: List<MountView, { bounds::MOUNTS }>,
    pub image_pull_policy: Text,
    pub restart_policy: Option<RestartPolicy>,
    restart_policy_rules: List<RuleView>,
    pub lifecycle: Option<Box<LifecycleView<X>>>,
    pub ports: X,
    liveness_probe: Present,
    readiness_probe: Present,
    pub startup_probe: Present,
    security_context: Option<Box<SecurityView>>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(
    rename_all = "camelCase",
    default,
    bound(deserialize = "X: Part + Clone")
)]
pub(crate) struct LifecycleView<X> {
    post_start: Option<Box<HookView>>,
    pub pre_stop: X,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct HookView {
    sleep: Present,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct SecurityView {
    seccomp_profile: Option<Box<ProfileView>>,
    app_armor_profile: Option<Box<ProfileView>>,
    se_linux_options: Option<Box<ProfileView>>,
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
    pub optional: Option<bool>,
    #[serde(deserialize_with = "list")]
    items: Folders,
}

/// `items` of a volume: set if one of its files is in a folder.
#[derive(Clone, Copy, Debug, Default)]
struct Folders(bool);

impl<'de> FromList<'de> for Folders {
    fn from_list<A: SeqAccess<'de>>(mut array: A) -> Result<Self, A::Error> {
        let mut folders = false;
        while let Some(item) = array.next_element::<ItemView>()? {
            folders |= item.path.0;
        }
        Ok(Self(folders))
    }
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ItemView {
    #[serde(deserialize_with = "text")]
    path: InFolder,
}

#[derive(Default)]
struct InFolder(bool);

impl FromText for InFolder {
    fn from_text(text: &str) -> Self {
        Self(text.contains('/'))
    }
}

/// `status`
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct StatusView {
    #[serde(deserialize_with = "text")]
    pub(crate) phase: Phase,
    pub(crate) reason: Text,
    pub(crate) message: Said,
    pub(crate) start_time: Time,
    pub(crate) observed_generation: Option<i64>,
    pub(crate) conditions: List<ConditionView>,
    pub(crate) init_container_statuses: List<ContainerStatusView>,
    pub(crate) container_statuses: List<ContainerStatusView>,
}

impl StatusView {
    /// Returns true if the phase is Succeeded or Failed.
    pub(crate) fn is_over(&self) -> bool {
        self.phase.is_terminal()
    }

    /// Returns the condition of this kind, if it has this status.
    pub(crate) fn condition(&self, kind: &str, status: &str) -> Option<&ConditionView> {
        let mut conditions = self.conditions.iter();
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
        let all = self.init_containers.iter().chain(self.containers.iter());
        all.filter_map(|one| Some((one.name.value.clone()?, one.image.value.clone()?)))
            .collect()
    }
}

/// The first item of `command`, the only one that is kept.
#[derive(Clone, Debug, Default)]
pub(crate) struct First(Text<{ bounds::ARGUMENT }>);

impl<'de> FromList<'de> for First {
    fn from_list<A: SeqAccess<'de>>(mut array: A) -> Result<Self, A::Error> {
        let first = array.next_element()?.unwrap_or_default();
        while array.next_element::<Filled>()?.is_some() {}
        Ok(Self(first))
    }
}

impl<'de> Deserialize<'de> for First {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        list(from)
    }
}

/// `terminationMessagePath`; `None` below `/dev`, where nearly all have it and no image has files, and
/// for one that is longer than any path.
#[derive(Clone, Debug, Default)]
struct MessagePath(Option<Box<str>>);

impl FromText for MessagePath {
    fn from_text(text: &str) -> Self {
        let matters = text.len() <= bounds::PATH && !text.starts_with("/dev/");
        Self(matters.then(|| text.into()))
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
    sub_path: Filled,
    sub_path_expr: Filled,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct VolumeView {
    pub name: Text,
    pub config_map: Option<Box<SourceView>>,
    pub secret: Option<Box<SourceView>>,
    pub projected: Option<Box<ProjectedView>>,
    #[serde(rename = "downwardAPI")]
    downward_api: Present,
    host_path: Option<Box<ProfileView>>,
    image: Present,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct ProjectedView {
    pub sources: List<ProjectionView>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct ProjectionView {
    pub config_map: Option<Box<SourceView>>,
    pub secret: Option<Box<SourceView>>,
}

impl MountView {
    fn read(self, volumes: &Volumes<'_>) -> MountSpec {
        let volume = self.name.as_deref().and_then(|name| volumes.get(name));
        MountSpec {
            has_sub_path: self.sub_path.0 || self.sub_path_expr.0,
            backing: volume.copied().unwrap_or(Backing::Data),
            path: self.mount_path.value.unwrap_or_default(),
        }
    }
}

impl ProjectedView {
    /// Returns true if a file may be in a folder; of sources without `items` that is not read.
    fn has_folders(&self) -> bool {
        let mut sources = self.sources.iter().map(|source| {
            let source = source.config_map.as_ref().or(source.secret.as_ref());
            source.is_none_or(|source| source.items.0)
        });
        self.sources.too_long || sources.any(|has_folders| has_folders)
    }
}

impl VolumeView {
    fn named(&self) -> Option<(&str, Backing)> {
        Some((self.name.as_deref()?, self.backing()))
    }

    fn backing(&self) -> Backing {
        if let Some(host) = &self.host_path {
            return match host.kind.as_deref() {
                Some("File" | "FileOrCreate" | "Socket" | "CharDevice" | "BlockDevice") => {
                    Backing::HostFile
                }
                Some("Directory" | "DirectoryOrCreate") => Backing::Data,
                _ => Backing::HostPath,
            };
        }
        if self.image.0 {
            return Backing::Image;
        }
        let source = self.config_map.as_ref().or(self.secret.as_ref());
        let projected = || Some(self.projected.as_ref()?.has_folders());
        let has_folders = source.map(|source| source.items.0).or_else(projected);
        match has_folders.or(self.downward_api.0.then_some(true)) {
            Some(has_folders) => Backing::Configuration { has_folders },
            None => Backing::Data,
        }
    }
}

// The decoder of environment variables.

/// One of `env`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct VariableView {
    name: Text,
    #[serde(deserialize_with = "text")]
    value: Hidden,
    pub value_from: Option<Box<ValueFromView>>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct ValueFromView {
    pub config_map_key_ref: Option<Box<SourceView>>,
    pub secret_key_ref: Option<Box<SourceView>>,
    #[serde(deserialize_with = "or_default")]
    pub field_ref: FieldView,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct FieldView {
    pub field_path: Text,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct EnvFromView {
    pub config_map_ref: Option<Box<SourceView>>,
    pub secret_ref: Option<Box<SourceView>>,
}

impl VariableView {
    fn is_malformed(&self) -> bool {
        self.name.is_none() || self.value.is_too_long
    }

    fn entry(&self) -> Entry<'_> {
        Entry {
            name: self.name.as_deref().unwrap_or_default(),
            value: self.value.expose(),
            is_reference: self.value_from.is_some(),
        }
    }

    /// Reads the variable: as in the kubelet, a value that is not empty outranks the reference.
    fn read(self) -> EnvVar {
        let value = self.value.open();
        EnvVar {
            name: self.name.value.unwrap_or_default(),
            value: match self.value_from {
                Some(source) if value.is_empty() => EnvValue::Reference {
                    required: is_required([&source.config_map_key_ref, &source.secret_key_ref]),
                },
                _ => EnvValue::Literal(value),
            },
        }
    }
}

fn is_required(references: [&Option<Box<SourceView>>; 2]) -> bool {
    let mut references = references.into_iter().flatten();
    references.any(|reference| reference.optional != Some(true))
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
    node_affinity: Option<Box<NodeAffinityView>>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct NodeAffinityView {
    #[serde(rename = "requiredDuringSchedulingIgnoredDuringExecution")]
    required: Option<Box<RequiredView>>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct RequiredView {
    node_selector_terms: List<TermView>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct TermView {
    match_expressions: List<ExpressionView>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct ExpressionView {
    key: Text,
    operator: Text,
    values: List<Text>,
}

impl OsView {
    fn runs_on(&self) -> RunsOn {
        RunsOn::named(self.name.as_deref(), None)
    }
}

impl NodeSelectorView {
    fn runs_on(&self) -> RunsOn {
        RunsOn::named(
            self.os.as_deref().or(self.old_os.as_deref()),
            self.architecture
                .as_deref()
                .or(self.old_architecture.as_deref()),
        )
    }
}

impl AffinityView {
    /// Returns what is required of every node that the pod may be put on: one term has to match,
    /// and all expressions of it.
    fn runs_on(&self) -> RunsOn {
        let required = self.node_affinity.as_ref();
        let required = required.and_then(|affinity| affinity.required.as_ref());
        let terms = required.map(|required| &*required.node_selector_terms);
        RunsOn::common(terms.into_iter().flatten().map(TermView::runs_on))
    }
}

impl TermView {
    fn runs_on(&self) -> RunsOn {
        let expressions = self.match_expressions.iter();
        expressions
            .map(ExpressionView::runs_on)
            .fold(RunsOn::default(), RunsOn::or)
    }
}

impl ExpressionView {
    fn runs_on(&self) -> RunsOn {
        if self.operator.as_deref() != Some("In") {
            return RunsOn::default();
        }
        let key = self.key.as_deref().unwrap_or_default();
        let of = |value: &Text| {
            let named = |labels: [&str; 2]| value.as_deref().filter(|_| labels.contains(&key));
            RunsOn::named(named(SYSTEM), named(PROCESSOR))
        };
        RunsOn::common(self.values.iter().map(of))
    }
}

// The decoder of container statuses.

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct ContainerStatusView {
    pub name: Text,
    pub image: Text,
    #[serde(rename = "imageID")]
    pub image_id: Text,
    #[serde(rename = "containerID")]
    pub container_id: Text,
    pub ready: Option<bool>,
    pub started: Option<bool>,
    pub restart_count: Option<i64>,
    #[serde(deserialize_with = "or_default")]
    pub state: StateView,
    #[serde(deserialize_with = "or_default")]
    pub last_state: StateView,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct StateView {
    waiting: Option<Box<WaitingView>>,
    running: Option<Box<RunningView>>,
    terminated: Option<Box<TerminatedView>>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct WaitingView {
    reason: Text,
    message: Said,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct RunningView {
    started_at: Time,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct TerminatedView {
    exit_code: Option<i64>,
    signal: Option<i64>,
    reason: Text,
    started_at: Time,
    finished_at: Time,
}

/// The statuses of a pod, taken by name: providers leave some out, order them differently or add
/// those of init containers.
pub(crate) struct StatusList(pub Vec<ContainerStatusView>);

impl StatusList {
    /// Takes the first status of that name; the others keep their order, so it is always the first.
    pub(crate) fn take(&mut self, name: &str) -> Option<ContainerStatus> {
        let mut statuses = self.0.iter();
        let at = statuses.position(|status| status.name.as_deref() == Some(name))?;
        Some(self.0.remove(at).read())
    }

    /// Returns the restarts of the statuses that no container took.
    pub(crate) fn restarts(&self) -> impl Iterator<Item = i64> {
        let statuses = self.0.iter();
        statuses.map(|status| status.restart_count.unwrap_or_default())
    }

    /// Returns the end of the native sidecar that ended last.
    pub(crate) fn native_end<X>(&self, inits: &[ContainerView<X>]) -> Option<NativeEnd> {
        let natives = inits.iter().filter(|init| init.is_native_sidecar());
        let ends = natives.filter_map(|init| {
            let name = init.name.as_ref()?;
            let mut statuses = self.0.iter();
            let status = statuses.find(|status| status.name.as_ref() == Some(name))?;
            let states = [&status.state, &status.last_state];
            let mut ends = states.into_iter().filter_map(|s| s.terminated.as_ref());
            let end = ends.find(|end| end.exit_code.is_some())?;
            Some(NativeEnd {
                finished_at: end.finished_at.0,
                name: name.clone(),
            })
        });
        // One without a time counts as recent.
        ends.max_by(|a, b| {
            let is_recent = |end: &NativeEnd| end.finished_at.is_none();
            is_recent(a).cmp(&is_recent(b)).then_with(|| a.cmp(b))
        })
    }

    /// Returns whether an init container has ended so that the node starts all containers of the pod
    /// again (Kubernetes: `ShouldAllContainersRestart`), and the first native sidecar whose end may.
    pub(crate) fn restart_all<X>(
        &mut self,
        init_containers: &[ContainerView<X>],
    ) -> (bool, Option<Box<str>>) {
        let (mut ended, mut restarter) = (false, None);
        for init in init_containers {
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
    pub(crate) fn read(self) -> ContainerStatus {
        ContainerStatus {
            image: self.image.value.unwrap_or_default(),
            image_digest: self.image_id.as_deref().and_then(ImageDigest::of),
            container_id: self.container_id.value.unwrap_or_default(),
            restart_count: self.restart_count.unwrap_or_default(),
            state: self.state.read(),
            last_end: self.last_state.terminated.map(|end| Box::new(end.read())),
        }
    }
}

impl StateView {
    /// Reads the state. A provider may set two members at once (the polling wrapper of the
    /// virtual-kubelet library adds `terminated` without clearing `running`): the end outranks the
    /// rest, as in OpenKruise.
    pub(crate) fn read(self) -> ContainerState {
        if let Some(terminated) = self.terminated {
            ContainerState::Terminated(Box::new(terminated.read()))
        } else if let Some(running) = self.running {
            ContainerState::Running {
                started_at: running.started_at.0,
            }
        } else if let Some(waiting) = self.waiting {
            ContainerState::Waiting {
                reason: waiting.reason.value.unwrap_or_default(),
                message: waiting.message.0,
            }
        } else {
            ContainerState::Unreported
        }
    }
}

impl TerminatedView {
    fn read(self) -> Terminated {
        Terminated {
            exit_code: self.exit_code,
            signal: self.signal.filter(|signal| *signal != 0),
            reason: self.reason.value.unwrap_or_default(),
            started_at: self.started_at.0,
            finished_at: self.finished_at.0,
        }
    }
}

// The decoder of a container's `restartPolicyRules`.

/// The action that starts the container again, and no other.
const RESTART: &str = "Restart";

/// One rule. Each known action starts the container again, alone or with all others
/// (`RestartAllContainers`); an unknown one counts as the second.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct RuleView {
    action: Text,
    exit_codes: Option<Box<ExitCodesView>>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct ExitCodesView {
    operator: Text,
    values: List<i64>,
}

/// Returns the rules that restart the container; an unreadable one counts as one that always does.
fn read_rules(rules: &List<RuleView>) -> Vec<RestartRule> {
    let unreadable = rules.too_long.then(|| RestartRule::after_any_code(true));
    unreadable
        .into_iter()
        .chain(rules.iter().filter_map(read_rule))
        .collect()
}

/// Reads one rule; `None` for a rule without exit codes, which matches nothing.
fn read_rule(rule: &RuleView) -> Option<RestartRule> {
    let codes = rule.exit_codes.as_ref()?;
    let restarts_all = rule.action.as_deref() != Some(RESTART);
    let not_in = match codes.operator.as_deref() {
        Some("In") => Some(false),
        Some("NotIn") => Some(true),
        _ => None,
    };
    let not_in = not_in.filter(|_| !codes.values.too_long);
    Some(not_in.map_or_else(
        || RestartRule::after_any_code(restarts_all),
        |not_in| RestartRule {
            not_in,
            codes: codes.values.to_vec(),
            restarts_all,
        },
    ))
}
