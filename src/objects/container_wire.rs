//! [`PodSpec`] as it comes over the wire or from a file.

use serde::Deserialize;

use super::container_spec::{Backing, ContainerSpec, EnvValue, EnvVar, Hook, MountSpec, PodSpec, Rule};
use super::env::{EnvWire, Mark};
use super::lenient::{Lenient, Object, Present};
use super::pod::RestartPolicy;

type Text = Lenient<Option<Box<str>>>;
type Flag = Lenient<Option<bool>>;
type Member<T> = Lenient<Option<Box<T>>>;
type Objects<T> = Lenient<Vec<Lenient<Object<T>>>>;

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct PodSpecWire {
    restart_policy: Text,
    os: Member<OsWire>,
    node_selector: Member<NodeSelectorWire>,
    security_context: Member<SecurityWire>,
    containers: Objects<ContainerSpecWire>,
    init_containers: Objects<ContainerSpecWire>,
    volumes: Objects<VolumeWire>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct OsWire {
    name: Text,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct NodeSelectorWire {
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
struct SecurityWire {
    seccomp_profile: Member<ProfileWire>,
    app_armor_profile: Member<ProfileWire>,
    se_linux_options: Member<ProfileWire>,
}

/// The `type` of a seccomp or AppArmor profile, and that of an SELinux label.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct ProfileWire {
    #[serde(rename = "type")]
    kind: Text,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ContainerSpecWire {
    name: Text,
    image: Text,
    command: Lenient<Vec<Text>>,
    env: Lenient<Vec<Lenient<Object<VariableWire>>>>,
    env_from: Objects<EnvFromWire>,
    working_dir: Text,
    volume_mounts: Objects<MountWire>,
    image_pull_policy: Text,
    restart_policy: Text,
    restart_policy_rules: Objects<RuleWire>,
    lifecycle: Member<LifecycleWire>,
    liveness_probe: Lenient<Present>,
    readiness_probe: Lenient<Present>,
    startup_probe: Lenient<Present>,
    security_context: Member<SecurityWire>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct VariableWire {
    name: Text,
    value: Text,
    value_from: Member<SourceWire>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct SourceWire {
    config_map_key_ref: Member<ReferenceWire>,
    secret_key_ref: Member<ReferenceWire>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct EnvFromWire {
    config_map_ref: Member<ReferenceWire>,
    secret_ref: Member<ReferenceWire>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct ReferenceWire {
    optional: Flag,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct MountWire {
    name: Text,
    mount_path: Text,
    sub_path: Text,
    sub_path_expr: Text,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct VolumeWire {
    name: Text,
    config_map: Lenient<Present>,
    secret: Lenient<Present>,
    projected: Lenient<Present>,
    #[serde(rename = "downwardAPI")]
    downward_api: Lenient<Present>,
    host_path: Member<ProfileWire>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct RuleWire {
    exit_codes: Member<ExitCodesWire>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct ExitCodesWire {
    operator: Text,
    values: Lenient<Vec<Lenient<Option<i64>>>>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct LifecycleWire {
    post_start: Member<HookWire>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct HookWire {
    sleep: Lenient<Present>,
}

impl PodSpecWire {
    /// `marks` are what the environments of the containers say about their roles, in the order of the containers.
    pub(super) fn read(self, marks: Vec<Mark>) -> PodSpec {
        let malformed = self.malformed();
        let own_profile = self.security_context.value.is_some_and(|context| context.names_own_profile());
        let volumes = self.volumes.value;
        let read = |(container, mark): (Lenient<Object<ContainerSpecWire>>, Mark)| ContainerSpec {
            pod_has_own_profile: own_profile,
            mark,
            ..container.value.0.read(container.malformed, &volumes)
        };
        let marks = marks.into_iter().chain(std::iter::repeat_with(Mark::default));
        let selector = self.node_selector.value.unwrap_or_default();
        PodSpec {
            restart_policy: policy(self.restart_policy),
            os: self.os.value.and_then(|os| os.name.value).or(selector.os.value).or(selector.old_os.value),
            architecture: selector.architecture.value.or(selector.old_architecture.value),
            containers: self.containers.value.into_iter().zip(marks).map(read).collect(),
            native_sidecars: native_sidecars(self.init_containers.value, &volumes),
            malformed,
        }
    }

    fn malformed(&self) -> Option<&'static str> {
        let fields = [
            (self.restart_policy.malformed, "restartPolicy"),
            (self.containers.malformed, "containers"),
            (self.volumes.malformed || self.volumes.value.iter().any(|volume| volume.malformed), "volumes"),
            (self.node_selector.malformed, "nodeSelector"),
            (self.os.malformed, "os"),
        ];
        first(&fields)
    }
}

fn native_sidecars(containers: Vec<Lenient<Object<ContainerSpecWire>>>, volumes: &[Lenient<Object<VolumeWire>>]) -> Vec<ContainerSpec> {
    let read = |container: Lenient<Object<ContainerSpecWire>>| container.value.0.read(container.malformed, volumes);
    containers.into_iter().map(read).filter(|container| container.restart_policy == Some(RestartPolicy::Always)).collect()
}

fn policy(written: Text) -> Option<RestartPolicy> {
    written.value.map(|policy| RestartPolicy::read(Some(policy)))
}

fn first(fields: &[(bool, &'static str)]) -> Option<&'static str> {
    fields.iter().find(|(malformed, _)| *malformed).map(|(_, field)| *field)
}

impl ContainerSpecWire {
    fn read(self, malformed: bool, volumes: &[Lenient<Object<VolumeWire>>]) -> ContainerSpec {
        let malformed = if malformed { Some("containers[*]") } else { self.malformed() };
        let env_from = &self.env_from.value;
        ContainerSpec {
            has_env_from: !env_from.is_empty(),
            requires_env_from: env_from.iter().any(|from| from.value.0.is_required()),
            has_probes: [&self.liveness_probe, &self.readiness_probe, &self.startup_probe].iter().any(|probe| probe.value.0),
            has_own_profile: self.security_context.value.is_some_and(|context| context.names_own_profile()),
            post_start: self.lifecycle.value.and_then(|lifecycle| lifecycle.post_start.value).map(|hook| hook.read()),
            name: self.name.value.unwrap_or_default(),
            image: self.image.value.unwrap_or_default(),
            command: self.command.value.into_iter().map(|item| item.value.unwrap_or_default()).collect(),
            env: self.env.value.into_iter().map(|entry| entry.value.0.read()).collect(),
            working_dir: self.working_dir.value,
            mounts: self.volume_mounts.value.into_iter().map(|mount| mount.value.0.read(volumes)).collect(),
            pull_policy: self.image_pull_policy.value.filter(|policy| !policy.is_empty()),
            restart_policy: policy(self.restart_policy),
            restart_rules: self.restart_policy_rules.value.iter().map(|rule| rule.value.0.read()).collect(),
            pod_has_own_profile: false,
            mark: Mark::default(),
            malformed,
        }
    }

    fn malformed(&self) -> Option<&'static str> {
        let mounts = &self.volume_mounts;
        let strange_mount = |mount: &Lenient<Object<MountWire>>| mount.malformed || mount.value.0.mount_path.value.is_none();
        first(&[
            (self.command.malformed || self.command.value.iter().any(|item| item.malformed), "command"),
            (self.env.malformed || self.env.value.iter().any(VariableWire::malformed), "env"),
            (self.env_from.malformed, "envFrom"),
            (self.working_dir.malformed, "workingDir"),
            (mounts.malformed || mounts.value.iter().any(strange_mount), "volumeMounts"),
            (self.image_pull_policy.malformed, "imagePullPolicy"),
            (self.restart_policy.malformed, "restartPolicy"),
            (self.restart_policy_rules.malformed, "restartPolicyRules"),
        ])
    }
}

impl VariableWire {
    fn malformed(entry: &Lenient<Object<Self>>) -> bool {
        let fields = &entry.value.0;
        entry.malformed || fields.name.value.is_none() || fields.value.malformed || fields.value_from.malformed
    }

    /// As in the kubelet, a value that is not empty comes first, then the reference.
    fn read(self) -> EnvVar {
        let name = self.name.value.unwrap_or_default();
        let value = match (self.value.value.filter(|value| !value.is_empty()), self.value_from.value) {
            (None, Some(source)) => EnvValue::Reference { required: source.is_required() },
            (value, _) => EnvValue::Literal(value.unwrap_or_default()),
        };
        EnvVar { name, value }
    }
}

fn is_required(references: [&Member<ReferenceWire>; 2]) -> bool {
    references.iter().filter_map(|member| member.value.as_ref()).any(|reference| reference.optional.value != Some(true))
}

impl SourceWire {
    fn is_required(&self) -> bool {
        is_required([&self.config_map_key_ref, &self.secret_key_ref])
    }
}

impl EnvFromWire {
    fn is_required(&self) -> bool {
        is_required([&self.config_map_ref, &self.secret_ref])
    }
}

impl MountWire {
    fn read(self, volumes: &[Lenient<Object<VolumeWire>>]) -> MountSpec {
        let name = self.name.value.unwrap_or_default();
        let volume = volumes.iter().map(|volume| &volume.value.0).find(|volume| volume.name.value.as_deref() == Some(&name));
        let set = |text: &Text| text.value.as_deref().is_some_and(|text| !text.is_empty());
        MountSpec {
            has_sub_path: set(&self.sub_path) || set(&self.sub_path_expr),
            backing: volume.map_or(Backing::Data, VolumeWire::backing),
            path: self.mount_path.value.unwrap_or_default(),
        }
    }
}

impl VolumeWire {
    fn backing(&self) -> Backing {
        let configuration = [&self.config_map, &self.secret, &self.projected, &self.downward_api];
        let host_path = self.host_path.value.as_ref().and_then(|host| host.kind.value.as_deref());
        match host_path {
            Some("File" | "FileOrCreate" | "Socket" | "CharDevice" | "BlockDevice") => Backing::HostFile,
            _ if configuration.iter().any(|source| source.value.0) => Backing::Configuration,
            _ => Backing::Data,
        }
    }
}

impl RuleWire {
    /// What cannot be read is taken for the worse.
    fn read(&self) -> Rule {
        let codes = self.exit_codes.value.as_ref();
        let has_zero = |codes: &ExitCodesWire| codes.values.value.iter().any(|code| code.value == Some(0));
        match codes.and_then(|codes| codes.operator.value.as_deref()) {
            Some("In") if !codes.is_some_and(|codes| has_zero(codes)) => Rule::OnFailure,
            Some("NotIn") if codes.is_some_and(|codes| has_zero(codes)) => Rule::OnFailure,
            _ => Rule::OnSuccess,
        }
    }
}

impl HookWire {
    fn read(&self) -> Hook {
        if self.sleep.value.0 { Hook::Sleeps } else { Hook::Acts }
    }
}

impl SecurityWire {
    /// A profile that came with the runtime lets any program start and exit.
    fn names_own_profile(&self) -> bool {
        let kind = |profile: &Member<ProfileWire>| profile.value.as_ref().and_then(|profile| profile.kind.value.clone());
        let local = |profile| kind(profile).as_deref() == Some("Localhost");
        local(&self.seccomp_profile) || local(&self.app_armor_profile) || kind(&self.se_linux_options).is_some()
    }
}

/// The marks of a list of containers.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct MarksWire {
    containers: Objects<MarkedWire>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct MarkedWire {
    env: Lenient<Vec<Lenient<Object<EnvWire>>>>,
}

impl MarksWire {
    pub(super) fn read(&self) -> Vec<Mark> {
        self.containers.value.iter().map(|container| Mark::read(&container.value.0.env.value)).collect()
    }
}
