//! The decoder of [`PodSpec`], from the API server or from a file.

mod lists;
mod node_wish;
mod rules;
mod variables;
mod volumes;

use self::variables::{EnvFromWire, VariableWire};
use self::volumes::{MountWire, ProfileWire, VolumeWire, Volumes};

use serde::Deserialize;

use self::lists::{CommandWire, MountsWire};
use self::node_wish::{AffinityWire, NodeSelectorWire, OsWire};
use self::rules::RuleWire;
use super::container_spec::{ContainerSpec, Hook, PodSpec};
use super::{RestartPolicy, RestartRule};
use crate::objects::runs_on::RunsOn;
use crate::objects::values::bounds;
use crate::objects::values::env::Mark;
use crate::objects::values::lenient::{Lenient, Member, Object, Objects, Present, Text};

/// `spec` of a pod, with the fields of each container that `C` keeps.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(
    rename_all = "camelCase",
    default,
    bound = "C: Default + for<'a> Deserialize<'a>"
)]
pub(crate) struct PodSpecWire<C> {
    pub node_name: Text,
    pub restart_policy: Text,
    pub termination_grace_period_seconds: Lenient<Option<i64>>,
    os: Member<OsWire>,
    affinity: Member<AffinityWire>,
    node_selector: Member<NodeSelectorWire>,
    security_context: Member<SecurityWire>,
    pub containers: Objects<C>,
    pub init_containers: Objects<InitContainerWire>,
    volumes: Objects<VolumeWire>,
}

/// The fields of an init container that say whether its end may start all containers again.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct InitContainerWire {
    pub name: Text,
    restart_policy: Text,
    restart_policy_rules: Objects<RuleWire>,
}

/// The init containers of the same `spec`, decoded only where they are needed.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct InitContainersWire {
    init_containers: Objects<ContainerSpecWire>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct SecurityWire {
    seccomp_profile: Member<ProfileWire>,
    app_armor_profile: Member<ProfileWire>,
    se_linux_options: Member<ProfileWire>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct ContainerSpecWire {
    pub name: Text,
    pub image: Text,
    command: Lenient<CommandWire>,
    pub env: Objects<VariableWire, { bounds::VARIABLES }>,
    env_from: Objects<EnvFromWire>,
    working_dir: Text<{ bounds::PATH }>,
    volume_mounts: Lenient<MountsWire>,
    image_pull_policy: Text,
    pub restart_policy: Text,
    pub restart_policy_rules: Objects<RuleWire>,
    lifecycle: Member<LifecycleWire>,
    liveness_probe: Lenient<Present>,
    readiness_probe: Lenient<Present>,
    startup_probe: Lenient<Present>,
    security_context: Member<SecurityWire>,
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

impl<C> PodSpecWire<C> {
    /// Returns everything but the containers, whose reading depends on it.
    pub(crate) fn read(&self) -> Surroundings<'_> {
        let os = self.os.value.as_ref().map(|os| os.runs_on());
        let affinity = self.affinity.value.as_ref().map(|wish| wish.runs_on());
        let selector = self.node_selector.value.as_ref().map(|wish| wish.runs_on());
        let said = [os, affinity, selector].into_iter().flatten();
        Surroundings {
            pod: PodSpec {
                restart_policy: policy(&self.restart_policy),
                runs_on: said.fold(RunsOn::default(), RunsOn::or),
                malformed: self.malformed(),
                ..PodSpec::default()
            },
            // Of several volumes with one name the first counts.
            volumes: self
                .volumes
                .value
                .iter()
                .rev()
                .filter_map(|volume| volume.value.0.named())
                .collect(),
            has_own_profile: self
                .security_context
                .value
                .as_ref()
                .is_some_and(|context| context.names_own_profile()),
        }
    }

    fn malformed(&self) -> Option<&'static str> {
        let fields = [
            (self.restart_policy.malformed, "restartPolicy"),
            (self.containers.malformed, "containers"),
            (
                self.volumes.malformed || self.volumes.value.iter().any(|volume| volume.malformed),
                "volumes",
            ),
            (self.node_selector.malformed, "nodeSelector"),
            (self.os.malformed, "os"),
        ];
        first(&fields)
    }
}

/// The fields of a pod on which its containers depend.
pub(crate) struct Surroundings<'a> {
    /// The spec without containers.
    pub pod: PodSpec,
    volumes: Volumes<'a>,
    has_own_profile: bool,
}

impl Surroundings<'_> {
    /// Returns the container, read in this pod.
    pub(crate) fn container(&self, wire: Lenient<Object<ContainerSpecWire>>) -> ContainerSpec {
        let malformed = wire.malformed;
        ContainerSpec {
            pod_has_own_profile: self.has_own_profile,
            ..wire.value.0.read(malformed, &self.volumes)
        }
    }

    /// Returns the whole spec.
    pub(crate) fn with(
        &self,
        containers: Vec<Lenient<Object<ContainerSpecWire>>>,
        init_containers: InitContainersWire,
    ) -> PodSpec {
        let read = |wires: Vec<Lenient<Object<ContainerSpecWire>>>| {
            wires.into_iter().map(|wire| self.container(wire))
        };
        let native =
            |container: &ContainerSpec| container.restart_policy == Some(RestartPolicy::Always);
        PodSpec {
            containers: read(containers).collect(),
            native_sidecars: read(init_containers.init_containers.value)
                .filter(native)
                .collect(),
            ..self.pod.clone()
        }
    }
}

pub(crate) fn policy(written: &Text) -> Option<RestartPolicy> {
    written
        .value
        .as_deref()
        .map(|policy| RestartPolicy::read(Some(policy)))
}

fn first(fields: &[(bool, &'static str)]) -> Option<&'static str> {
    fields
        .iter()
        .find(|(malformed, _)| *malformed)
        .map(|(_, field)| *field)
}

impl InitContainerWire {
    pub(crate) fn is_native_sidecar(&self) -> bool {
        policy(&self.restart_policy) == Some(RestartPolicy::Always)
    }

    /// Returns the rules after which the node starts all containers of the pod again.
    pub(crate) fn rules_that_restart_all(&self) -> Vec<RestartRule> {
        let mut rules = rules::read(&self.restart_policy_rules);
        rules.retain(|rule| rule.restarts_all);
        rules
    }
}

impl ContainerSpecWire {
    pub(crate) fn mark(&self) -> Mark {
        Mark::read(self.env.value.iter().map(|entry| entry.value.0.entry()))
    }

    /// Returns the exit codes after which the node restarts the container.
    pub(crate) fn restart_rules(&self) -> Vec<RestartRule> {
        rules::read(&self.restart_policy_rules)
    }

    fn read(self, malformed: bool, volumes: &Volumes<'_>) -> ContainerSpec {
        let malformed = if malformed {
            Some("containers[*]")
        } else {
            self.malformed()
        };
        let env_from = &self.env_from.value;
        ContainerSpec {
            mark: self.mark(),
            has_env_from: !env_from.is_empty(),
            requires_env_from: env_from.iter().any(|from| from.value.0.is_required()),
            has_probes: [
                &self.liveness_probe,
                &self.readiness_probe,
                &self.startup_probe,
            ]
            .iter()
            .any(|probe| probe.value.0),
            has_own_profile: self
                .security_context
                .value
                .is_some_and(|context| context.names_own_profile()),
            post_start: self
                .lifecycle
                .value
                .and_then(|lifecycle| lifecycle.post_start.value)
                .map(|hook| hook.read()),
            name: self.name.value.unwrap_or_default(),
            image: self.image.value.unwrap_or_default(),
            command: self.command.value.first,
            env: self
                .env
                .value
                .into_iter()
                .map(|entry| entry.value.0.read())
                .collect(),
            working_dir: self.working_dir.value,
            has_too_many_mounts: self.volume_mounts.value.too_many,
            mounts: self
                .volume_mounts
                .value
                .list
                .into_iter()
                .map(|mount| mount.value.0.read(volumes))
                .collect(),
            pull_policy: self
                .image_pull_policy
                .value
                .filter(|policy| !policy.is_empty()),
            restart_policy: policy(&self.restart_policy),
            restart_rules: self
                .restart_policy_rules
                .value
                .iter()
                .map(|rule| rule.value.0.read())
                .collect(),
            pod_has_own_profile: false,
            malformed,
        }
    }

    fn malformed(&self) -> Option<&'static str> {
        let mounts = &self.volume_mounts;
        let strange_mount = |mount: &Lenient<Object<MountWire>>| {
            mount.malformed || mount.value.0.mount_path.value.is_none()
        };
        first(&[
            (
                self.command.malformed || self.command.value.malformed,
                "command",
            ),
            (
                self.env.malformed || self.env.value.iter().any(VariableWire::malformed),
                "env",
            ),
            (self.env_from.malformed, "envFrom"),
            (self.working_dir.malformed, "workingDir"),
            (
                mounts.malformed || mounts.value.list.iter().any(strange_mount),
                "volumeMounts",
            ),
            (self.image_pull_policy.malformed, "imagePullPolicy"),
            (self.restart_policy.malformed, "restartPolicy"),
            (self.restart_policy_rules.malformed, "restartPolicyRules"),
        ])
    }
}

impl HookWire {
    fn read(&self) -> Hook {
        if self.sleep.value.0 {
            Hook::Sleeps
        } else {
            Hook::Acts
        }
    }
}

impl SecurityWire {
    /// Returns true for a profile of the cluster's own: those of the runtime let any program start
    /// and exit.
    fn names_own_profile(&self) -> bool {
        let kind = |profile: &Member<ProfileWire>| {
            profile
                .value
                .as_ref()
                .and_then(|profile| profile.kind.value.clone())
        };
        let local = |profile| kind(profile).as_deref() == Some("Localhost");
        local(&self.seccomp_profile)
            || local(&self.app_armor_profile)
            || kind(&self.se_linux_options).is_some()
    }
}
