//! How [`PodSpec`] and [`ContainerSpec`] are read of a view.

use super::{
    ContainerView, ProfileView, SecurityView, SpecView, VariableView, Volumes, is_required,
    read_rules,
};
use crate::objects::pod::container_spec::{ContainerSpec, Hook, PodSpec, Profiles};
use crate::objects::pod::{RestartPolicy, RestartRule};
use crate::objects::runs_on::RunsOn;
use crate::objects::values::bounds;
use crate::objects::values::env::Mark;

impl<X> SpecView<X> {
    /// Returns everything but the containers, whose reading depends on it.
    pub(crate) fn read(&self) -> Surroundings<'_> {
        let os = self.os.as_ref().map(|os| os.runs_on());
        let affinity = self.affinity.as_ref().map(|wish| wish.runs_on());
        let selector = self.node_selector.as_ref().map(|wish| wish.runs_on());
        let said = [os, affinity, selector].into_iter().flatten();
        let security = self.security_context.as_ref();
        let too_long = [
            (self.containers.too_long, "containers"),
            (self.volumes.too_long, "volumes"),
        ];
        Surroundings {
            pod: PodSpec {
                restart_policy: self.restart_policy.clone(),
                runs_on: said.fold(RunsOn::default(), RunsOn::or),
                malformed: first(&too_long),
                ..PodSpec::default()
            },
            // Of several volumes with one name the first counts.
            volumes: self
                .volumes
                .iter()
                .rev()
                .filter_map(|volume| volume.named())
                .collect(),
            profiles: security.map_or_else(Profiles::default, |context| context.profiles()),
        }
    }
}

/// The fields of a pod on which its containers depend.
pub(crate) struct Surroundings<'a> {
    /// The spec without containers.
    pub pod: PodSpec,
    volumes: Volumes<'a>,
    profiles: Profiles,
}

impl Surroundings<'_> {
    /// Returns the container, read in this pod.
    pub(crate) fn container<X>(&self, view: ContainerView<X>) -> ContainerSpec {
        let container = view.read(&self.volumes);
        ContainerSpec {
            profiles: container.profiles.or(self.profiles),
            ..container
        }
    }

    /// Returns the whole spec.
    pub(crate) fn with<X>(
        &self,
        containers: Vec<ContainerView<X>>,
        init_containers: Vec<ContainerView<X>>,
    ) -> PodSpec {
        let native = init_containers
            .into_iter()
            .filter(ContainerView::is_native_sidecar);
        PodSpec {
            containers: containers
                .into_iter()
                .map(|one| self.container(one))
                .collect(),
            native_sidecars: native.map(|one| self.container(one)).collect(),
            ..self.pod.clone()
        }
    }
}

fn first(fields: &[(bool, &str)]) -> Option<Box<str>> {
    let mut fields = fields.iter().filter(|(is_malformed, _)| *is_malformed);
    fields.next().map(|(_, field)| (*field).into())
}

impl<X> ContainerView<X> {
    pub(crate) fn is_native_sidecar(&self) -> bool {
        self.restart_policy == Some(RestartPolicy::Always)
    }

    /// Returns the exit codes after which the node restarts the container.
    pub(crate) fn restart_rules(&self) -> Vec<RestartRule> {
        read_rules(&self.restart_policy_rules)
    }

    pub(crate) fn mark(&self) -> Mark {
        Mark::read(self.env.iter().map(VariableView::entry))
    }

    fn read(self, volumes: &Volumes<'_>) -> ContainerSpec {
        let probes = [
            self.liveness_probe,
            self.readiness_probe,
            self.startup_probe,
        ];
        let security = self.security_context.as_ref();
        let paths = self
            .volume_mounts
            .iter()
            .filter_map(|mount| mount.mount_path.as_deref());
        let has_too_many_mounts =
            self.volume_mounts.too_long || paths.map(str::len).sum::<usize>() > bounds::MOUNT_PATHS;
        ContainerSpec {
            malformed: self.malformed(),
            mark: self.mark(),
            has_env_from: !self.env_from.is_empty(),
            requires_env_from: self
                .env_from
                .iter()
                .any(|from| is_required([&from.config_map_ref, &from.secret_ref])),
            has_probes: probes.iter().any(|probe| probe.0),
            profiles: security.map_or_else(Profiles::default, |context| context.profiles()),
            restart_rules: self.restart_rules(),
            post_start: self
                .lifecycle
                .and_then(|lifecycle| lifecycle.post_start)
                .map(|hook| match hook.sleep.0 {
                    true => Hook::Sleeps,
                    false => Hook::Acts,
                }),
            name: self.name.value.unwrap_or_default(),
            image: self.image.value.unwrap_or_default(),
            command: self.command.0.value,
            env: self.env.items.into_iter().map(VariableView::read).collect(),
            working_dir: self.working_dir.value,
            termination_message_path: self.termination_message_path.0,
            has_too_many_mounts,
            mounts: self
                .volume_mounts
                .items
                .into_iter()
                .filter(|_| !has_too_many_mounts)
                .map(|mount| mount.read(volumes))
                .collect(),
            pull_policy: self.image_pull_policy.filled(),
            restart_policy: self.restart_policy,
        }
    }

    /// Returns the first field that is too long, or is missing where the API server requires it.
    fn malformed(&self) -> Option<Box<str>> {
        let (env, mounts) = (&self.env, &self.volume_mounts);
        first(&[
            (self.command.0.too_long, "command"),
            (
                env.too_long || env.iter().any(VariableView::is_malformed),
                "env",
            ),
            (self.env_from.too_long, "envFrom"),
            (self.working_dir.too_long, "workingDir"),
            (
                mounts.iter().any(|mount| mount.mount_path.is_none()),
                "volumeMounts",
            ),
            (self.image_pull_policy.too_long, "imagePullPolicy"),
            (self.restart_policy_rules.too_long, "restartPolicyRules"),
        ])
    }
}

impl SecurityView {
    fn profiles(&self) -> Profiles {
        fn kind(profile: &ProfileView) -> Option<&str> {
            profile.kind.as_deref()
        }
        let is_own = |profile: &Option<Box<ProfileView>>| {
            let profile = profile.as_deref();
            profile.map(|profile| kind(profile) == Some("Localhost"))
        };
        let options = self.se_linux_options.as_deref();
        Profiles {
            seccomp: is_own(&self.seccomp_profile),
            app_armor: is_own(&self.app_armor_profile),
            se_linux: options.map(|options| kind(options).is_some()),
        }
    }
}
