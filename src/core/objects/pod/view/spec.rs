//! How [`PodSpec`] and [`ContainerSpec`] are read of a view.

use super::{
    ContainerView, HookView, MountView, ProfileView, SecurityView, SpecView, VariableView, Volumes,
    rules,
};
use crate::objects::item::{any_malformed, items};
use crate::objects::pod::container_spec::{ContainerSpec, Hook, PodSpec};
use crate::objects::pod::{RestartPolicy, RestartRule};
use crate::objects::runs_on::RunsOn;
use crate::objects::values::env::Mark;
use crate::objects::values::lenient::{Lenient, Member, Object};

impl<X> SpecView<X> {
    /// Returns everything but the containers, whose reading depends on it.
    pub(crate) fn read(&self) -> Surroundings<'_> {
        let os = self.os.value.as_ref().map(|os| os.runs_on());
        let affinity = self.affinity.value.as_ref().map(|wish| wish.runs_on());
        let selector = self.node_selector.value.as_ref().map(|wish| wish.runs_on());
        let said = [os, affinity, selector].into_iter().flatten();
        Surroundings {
            pod: PodSpec {
                restart_policy: self.restart_policy.value.clone(),
                runs_on: said.fold(RunsOn::default(), RunsOn::or),
                malformed: self.malformed(),
                ..PodSpec::default()
            },
            // Of several volumes with one name the first counts.
            volumes: items(&self.volumes)
                .collect::<Vec<_>>()
                .into_iter()
                .rev()
                .filter_map(|volume| volume.named())
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
            (any_malformed(&self.volumes), "volumes"),
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
    pub(crate) fn container<X>(&self, view: Lenient<Object<ContainerView<X>>>) -> ContainerSpec {
        let malformed = view.malformed;
        ContainerSpec {
            pod_has_own_profile: self.has_own_profile,
            ..view.value.0.read(malformed, &self.volumes)
        }
    }

    /// Returns the whole spec.
    pub(crate) fn with<X>(
        &self,
        containers: Vec<Lenient<Object<ContainerView<X>>>>,
        init_containers: Vec<Lenient<Object<ContainerView<X>>>>,
    ) -> PodSpec {
        let native =
            |container: &ContainerSpec| container.restart_policy == Some(RestartPolicy::Always);
        let read = |list: Vec<_>| list.into_iter().map(|one| self.container(one));
        PodSpec {
            containers: read(containers).collect(),
            native_sidecars: read(init_containers).filter(native).collect(),
            ..self.pod.clone()
        }
    }
}

fn first(fields: &[(bool, &'static str)]) -> Option<&'static str> {
    fields
        .iter()
        .find(|(malformed, _)| *malformed)
        .map(|(_, field)| *field)
}

impl<X> ContainerView<X> {
    pub(crate) fn is_native_sidecar(&self) -> bool {
        self.restart_policy.value == Some(RestartPolicy::Always)
    }

    /// Returns the exit codes after which the node restarts the container.
    pub(crate) fn restart_rules(&self) -> Vec<RestartRule> {
        rules::read(&self.restart_policy_rules)
    }

    pub(crate) fn mark(&self) -> Mark {
        Mark::read(items(&self.env).map(VariableView::entry))
    }

    fn read(self, malformed: bool, volumes: &Volumes<'_>) -> ContainerSpec {
        let malformed = if malformed {
            Some("containers[*]")
        } else {
            self.malformed()
        };
        ContainerSpec {
            mark: self.mark(),
            has_env_from: !self.env_from.value.is_empty(),
            requires_env_from: items(&self.env_from).any(|from| from.is_required()),
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
            restart_policy: self.restart_policy.value.clone(),
            restart_rules: items(&self.restart_policy_rules)
                .map(rules::RuleView::read)
                .collect(),
            pod_has_own_profile: false,
            malformed,
        }
    }

    fn malformed(&self) -> Option<&'static str> {
        let mounts = &self.volume_mounts;
        let strange_mount = |mount: &Lenient<Object<MountView>>| {
            mount.malformed || mount.value.0.mount_path.value.is_none()
        };
        first(&[
            (
                self.command.malformed || self.command.value.malformed,
                "command",
            ),
            (
                self.env.malformed || self.env.value.iter().any(VariableView::malformed),
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

impl HookView {
    fn read(&self) -> Hook {
        if self.sleep.value.0 {
            Hook::Sleeps
        } else {
            Hook::Acts
        }
    }
}

impl SecurityView {
    /// Returns true for a profile of the cluster's own: those of the runtime let any program start
    /// and exit.
    fn names_own_profile(&self) -> bool {
        let kind = |profile: &Member<ProfileView>| {
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
