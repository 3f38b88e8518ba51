//! The parts of a pod's spec that decide what a container executes. Large compared with
//! [`super::Pod`]: it is read, used and dropped.

use std::fmt;

use super::{RestartPolicy, RestartRule};
use crate::image::parsed::parts;
use crate::objects::runs_on::RunsOn;
use crate::objects::values::env::Mark;

/// `spec` of a pod or of a pod template.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodSpec {
    /// `restartPolicy`; `None` where it is absent.
    pub restart_policy: Option<RestartPolicy>,
    /// The operating system and the processor that `os`, the required node affinity or
    /// `nodeSelector` name.
    pub runs_on: RunsOn,
    /// `containers`, in their order.
    pub containers: Vec<ContainerSpec>,
    /// The `initContainers` that are native sidecars (their `restartPolicy` is `Always`).
    pub native_sidecars: Vec<ContainerSpec>,
    /// The first field that is too long, or what has a type that Kubernetes does not allow.
    pub malformed: Option<Box<str>>,
}

/// One of `spec.containers`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ContainerSpec {
    /// `name`
    pub name: Box<str>,
    /// `image`
    pub image: Box<str>,
    /// The first item of `command`; the other items, and `args`, do not affect what is executed.
    pub command: Option<Box<str>>,
    /// `env`, in its order.
    pub env: Vec<EnvVar>,
    /// True if there is an `envFrom`.
    pub has_env_from: bool,
    /// True if an object in `envFrom` has to exist for the container to start.
    pub requires_env_from: bool,
    /// `workingDir`
    pub working_dir: Option<Box<str>>,
    /// `terminationMessagePath`; `None` also below `/dev`.
    pub termination_message_path: Option<Box<str>>,
    /// `volumeMounts`, each with the backing of its volume.
    pub mounts: Vec<MountSpec>,
    /// True if there are more mounts than are read: then `mounts` is empty.
    pub has_too_many_mounts: bool,
    /// `imagePullPolicy`
    pub pull_policy: Option<Box<str>>,
    /// The container's own `restartPolicy`.
    pub restart_policy: Option<RestartPolicy>,
    /// `restartPolicyRules`
    pub restart_rules: Vec<RestartRule>,
    /// `lifecycle.postStart`
    pub post_start: Option<Hook>,
    /// True if there is a probe.
    pub has_probes: bool,
    /// The security profiles that it runs under, its own or the pod's.
    pub profiles: Profiles,
    /// The mark that its environment sets.
    pub mark: Mark,
    /// The first field that is too long, or what has a type that Kubernetes does not allow.
    pub malformed: Option<Box<str>>,
}

/// The profiles of a security context, each `None` where it is not named, and else true if it is one
/// of the cluster's own: those of the runtime let any program start and exit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Profiles {
    /// `seccompProfile`
    pub seccomp: Option<bool>,
    /// `appArmorProfile`
    pub app_armor: Option<bool>,
    /// `seLinuxOptions`; true with a `type`.
    pub se_linux: Option<bool>,
}

impl Profiles {
    /// Returns the profiles of a container in a pod with these: what it names replaces what the pod
    /// names.
    pub fn or(self, of_the_pod: Self) -> Self {
        Self {
            seccomp: self.seccomp.or(of_the_pod.seccomp),
            app_armor: self.app_armor.or(of_the_pod.app_armor),
            se_linux: self.se_linux.or(of_the_pod.se_linux),
        }
    }
}

/// One of `env`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EnvVar {
    /// `name`
    pub name: Box<str>,
    /// The value or its source.
    pub value: EnvValue,
}

/// The value of a variable.
#[derive(Clone, PartialEq, Eq)]
pub enum EnvValue {
    /// `value`; may contain references to variables before it.
    Literal(Box<str>),
    /// `valueFrom`: the value of another object or field.
    Reference {
        /// True if the container cannot start without the object that it names (a ConfigMap or
        /// Secret that is not optional).
        required: bool,
    },
}

/// Hides values, which may be secrets.
impl fmt::Debug for EnvValue {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Literal(_) => out.write_str("Literal(..)"),
            Self::Reference { required } => write!(out, "Reference {{ required: {required} }}"),
        }
    }
}

/// One of `volumeMounts`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MountSpec {
    /// `mountPath`
    pub path: Box<str>,
    /// True if there is a `subPath` or `subPathExpr`.
    pub has_sub_path: bool,
    /// The kind of its volume.
    pub backing: Backing,
}

/// The kind of a volume, as far as it matters to a program on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Backing {
    /// A ConfigMap, Secret, projected or downward API volume: small files, so its programs are
    /// taken for scripts.
    Configuration {
        /// True if a `subPath` of it may be a folder.
        has_folders: bool,
    },
    /// A `hostPath` that is one file.
    HostFile,
    /// A `hostPath` that does not say what it is.
    HostPath,
    /// An image volume: like `Data`, but its image is pulled before each start of the container.
    Image,
    /// Anything else, including unknown volumes: they may hold real programs or none.
    Data,
}

/// The effect of a hook.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hook {
    /// Runs a program in the container or sends it a request.
    Acts,
    /// Waits only (`sleep`).
    Sleeps,
}

impl ContainerSpec {
    /// Returns true if it mounts an image volume: it starts only where the node has the image of that,
    /// too.
    pub fn mounts_image(&self) -> bool {
        self.mounts
            .iter()
            .any(|mount| mount.backing == Backing::Image)
    }

    /// Returns true if each start of the container queries the registry: the policy is Always, or
    /// it is absent and the API server sets it because of the tag.
    pub fn pulls_always(&self) -> bool {
        match self.pull_policy.as_deref() {
            Some(policy) => policy == "Always",
            None => match parts(&self.image).1 {
                Some(tag) => tag == "latest",
                None => !self.image.is_empty() && !self.image.contains('@'),
            },
        }
    }

    /// Returns true if it runs under a seccomp or AppArmor profile of the cluster's own, which may not
    /// let another program start. An SELinux type restricts by labels, and the files of an exit image
    /// get those of the container's own.
    pub fn is_confined(&self) -> bool {
        let profiles = [self.profiles.seccomp, self.profiles.app_armor];
        profiles.contains(&Some(true))
    }

    /// Returns true if it runs under an SELinux type that its spec names.
    pub fn has_se_linux_type(&self) -> bool {
        self.profiles.se_linux == Some(true)
    }

    /// Returns true if the environment needs ConfigMaps or Secrets that are not optional.
    pub fn needs_env_references(&self) -> bool {
        self.requires_env_from
            || self
                .env
                .iter()
                .any(|entry| entry.value == EnvValue::Reference { required: true })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_absent_pull_policy_is_set_by_the_tag() {
        for (image, always) in [
            ("nginx", true),
            ("nginx:latest", true),
            ("host:5000/nginx", true),
            ("nginx:1", false),
            ("host:5000/nginx:1", false),
            ("nginx@sha256:1", false),
            ("nginx:latest@sha256:1", true),
            ("nginx:1@sha256:1", false),
        ] {
            let container = ContainerSpec {
                image: image.into(),
                ..ContainerSpec::default()
            };
            assert_eq!(container.pulls_always(), always, "{image}");
        }
    }

    #[test]
    fn values_are_not_printed() {
        let entry = EnvVar {
            name: "TOKEN".into(),
            value: EnvValue::Literal("hunter2".into()),
        };
        assert!(!format!("{entry:?}").contains("hunter2"));
    }
}
