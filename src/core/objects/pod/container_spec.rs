//! The parts of a pod's spec that decide what a container executes. Large beside [`super::Pod`]: it
//! is read, used and dropped.

use std::fmt;

use super::restart_policy::RestartPolicy;
use crate::objects::values::env::Mark;

/// `spec` of a pod or of a pod template.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodSpec {
    /// `restartPolicy`; `None` where it is absent.
    pub restart_policy: Option<RestartPolicy>,
    /// `os.name`, or the operating system that `nodeSelector` asks for.
    pub os: Option<Box<str>>,
    /// The architecture that `nodeSelector` asks for.
    pub architecture: Option<Box<str>>,
    /// `containers`, in their order.
    pub containers: Vec<ContainerSpec>,
    /// Those of `initContainers` that are native sidecars (their `restartPolicy` is `Always`).
    pub native_sidecars: Vec<ContainerSpec>,
    /// The first field that had a type which Kubernetes does not allow for it, or was too long.
    pub malformed: Option<&'static str>,
}

/// One of `spec.containers`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ContainerSpec {
    /// `name`
    pub name: Box<str>,
    /// `image`
    pub image: Box<str>,
    /// The first item of `command`; what follows it, and `args`, have no say in what is executed.
    pub command: Option<Box<str>>,
    /// `env`, in its order.
    pub env: Vec<EnvVar>,
    /// Whether there is an `envFrom`.
    pub has_env_from: bool,
    /// Whether one of `envFrom` has to be there for the container to start.
    pub requires_env_from: bool,
    /// `workingDir`
    pub working_dir: Option<Box<str>>,
    /// `volumeMounts`, each with what is behind it.
    pub mounts: Vec<MountSpec>,
    /// Whether there are more of them than are looked at: then none of them is here.
    pub has_too_many_mounts: bool,
    /// `imagePullPolicy`
    pub pull_policy: Option<Box<str>>,
    /// The container's own `restartPolicy`.
    pub restart_policy: Option<RestartPolicy>,
    /// `restartPolicyRules`
    pub restart_rules: Vec<Rule>,
    /// `lifecycle.postStart`
    pub post_start: Option<Hook>,
    /// Whether there is a probe.
    pub has_probes: bool,
    /// Whether the container's security context names a profile of the cluster's own.
    pub has_own_profile: bool,
    /// Whether the pod's does.
    pub pod_has_own_profile: bool,
    /// What its environment says about its role.
    pub mark: Mark,
    /// The first field that had a type which Kubernetes does not allow for it, or was too long.
    pub malformed: Option<&'static str>,
}

/// One of `env`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EnvVar {
    /// `name`
    pub name: Box<str>,
    /// Where its value comes from.
    pub value: EnvValue,
}

/// The value of a variable.
#[derive(Clone, PartialEq, Eq)]
pub enum EnvValue {
    /// `value`; may hold references to variables before it.
    Literal(Box<str>),
    /// `valueFrom`
    Reference {
        /// Whether the container cannot start without what it names (a ConfigMap or Secret that is
        /// not optional).
        required: bool,
    },
}

/// A value may be a secret: it is never printed.
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
    /// Whether there is a `subPath` or `subPathExpr`.
    pub has_sub_path: bool,
    /// What is behind it.
    pub backing: Backing,
}

/// What is behind a volume mount, as far as it matters to a program on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Backing {
    /// A ConfigMap, Secret, projected or downward API volume: small files, so its programs are
    /// taken for scripts.
    Configuration,
    /// A `hostPath` that is one file.
    HostFile,
    /// Anything else, an unknown volume too: whatever it holds, real programs or none.
    Data,
}

/// One of `restartPolicyRules`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// It applies to exit code 0, or it cannot be told.
    OnSuccess,
    /// It applies to other exit codes only.
    OnFailure,
}

/// What a hook does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hook {
    /// Runs a program in the container or speaks to it.
    Acts,
    /// Waits.
    Sleeps,
}

impl ContainerSpec {
    /// Whether each start of the container asks the registry: the policy says so, or it is absent
    /// and the API server sets it because of the tag.
    #[must_use]
    pub fn pulls_always(&self) -> bool {
        match self.pull_policy.as_deref() {
            Some(policy) => policy == "Always",
            None => {
                !self.image.contains('@')
                    && self.tag().is_none_or(|tag| tag == "latest")
                    && !self.image.is_empty()
            }
        }
    }

    /// Whether ConfigMaps or Secrets that are not optional are read for the environment.
    #[must_use]
    pub fn needs_env_references(&self) -> bool {
        self.requires_env_from
            || self
                .env
                .iter()
                .any(|entry| entry.value == EnvValue::Reference { required: true })
    }

    fn tag(&self) -> Option<&str> {
        let last = self.image.rsplit('/').next()?;
        last.split_once(':').map(|(_, tag)| tag)
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
