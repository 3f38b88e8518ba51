//! The fields of a container's spec that decide which program a new image would be started with.
//! They are extracted once; a controller keeps only these.

use std::fmt;

use super::expand::{Environment, Variable};
use super::path;
use super::words::{Note, Notes, Obstacle};
use crate::objects::pod::container_spec::{Backing, ContainerSpec, Hook, PodSpec};
use crate::objects::pod::{RestartPolicy, RestartRule};
use crate::objects::runs_on::RunsOn;

/// The directory in which an image without a working directory of its own starts, as ours do.
const IMAGE_WORKING_DIR: &str = "/";

/// The longest path that Linux takes, and the longest name in it: nothing longer is executed.
const MOST_PATH: usize = 4095;
const MOST_NAME: usize = 255;
/// The longest PATH that is read, and the most directories in it: each is looked up among the
/// mounts.
const MOST_SEARCH_PATH: usize = 32 << 10;
const MOST_DIRECTORIES: usize = 100;

/// The facts that decide whether a container can be swapped, whatever the exit image: a few hundred
/// bytes at most, kept for sidecars only.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContainerFacts {
    pub(crate) program: Result<Program, Obstacle>,
    /// Sorted by their paths; with the working directory, if the container sets one.
    pub(crate) mounts: Box<[Mount]>,
    /// What the pod says.
    pub(crate) runs_on: RunsOn,
    notes: Notes,
}

/// The program that is executed, before it is looked up.
#[derive(Clone, PartialEq, Eq)]
pub(crate) enum Program {
    /// No command is set: the image's own entrypoint.
    Entrypoint,
    /// An absolute, normalised path.
    At(Box<str>),
    /// A name without a slash, and the container's own PATH if it sets one.
    Named {
        /// The name of the program.
        name: Box<str>,
        /// The PATH; `None` if the image's counts.
        search_path: Option<Box<str>>,
    },
}

/// Hides PATH, which may contain secret values.
impl fmt::Debug for Program {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Entrypoint => out.write_str("Entrypoint"),
            Self::At(path) => write!(out, "At({path:?})"),
            Self::Named { name, .. } => write!(out, "Named({name:?})"),
        }
    }
}

/// A mount of the container, or its working directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Mount {
    /// Absolute and normalised.
    pub path: Box<str>,
    pub backing: Backing,
    pub shape: Shape,
}

/// The kind of file that is mounted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    Directory,
    File,
    /// A subPath of a volume with unknown content, or a path of the node that may be any of them.
    Either,
    /// Nothing is mounted: a runtime makes a directory here unless there is one.
    WorkingDirectory,
}

impl ContainerFacts {
    /// Extracts the facts from the spec of a container and of its pod.
    pub fn of(pod: &PodSpec, container: &ContainerSpec) -> Self {
        let program = match obstacle(pod, container) {
            Some(obstacle) => Err(obstacle),
            None => program(container),
        };
        Self {
            program,
            mounts: mounts(container),
            runs_on: pod.runs_on,
            notes: notes(container),
        }
    }

    /// Returns true if the container runs the program that its image names.
    pub fn is_without_command(&self) -> bool {
        self.program == Ok(Program::Entrypoint)
    }

    /// Returns true if a seccomp or AppArmor profile of the cluster's own may not let another program
    /// start.
    pub fn is_confined(&self) -> bool {
        self.notes.has(Note::SecurityProfile)
    }

    /// Returns true if the container mounts an image volume.
    pub fn mounts_image(&self) -> bool {
        self.mounts
            .iter()
            .any(|mount| mount.backing == Backing::Image)
    }

    /// Returns the notes about the container.
    pub fn notes(&self) -> Notes {
        self.notes
    }

    /// Returns the bytes of memory that the facts take.
    pub fn weight(&self) -> usize {
        let program = match &self.program {
            Ok(Program::At(path)) => path.len(),
            Ok(Program::Named { name, search_path }) => {
                name.len() + search_path.as_ref().map_or(0, |path| path.len())
            }
            Ok(Program::Entrypoint) | Err(_) => 0,
        };
        let mounts: usize = self
            .mounts
            .iter()
            .map(|mount| size_of::<Mount>() + mount.path.len())
            .sum();
        size_of::<Self>() + program + mounts
    }
}

/// Returns the first obstacle that has nothing to do with the command.
fn obstacle(pod: &PodSpec, container: &ContainerSpec) -> Option<Obstacle> {
    let rules = |is: fn(&RestartRule) -> bool| container.restart_rules.iter().any(is);
    let checks = [
        (
            pod.malformed.is_some() || container.malformed.is_some(),
            Obstacle::Malformed,
        ),
        (
            rules(|rule| !rule.restarts_all && rule.may_match(Some(0))),
            Obstacle::RestartRuleOnSuccess,
        ),
        (
            rules(|rule| rule.restarts_all),
            Obstacle::RestartsAllContainers,
        ),
        (
            container.pull_policy.as_deref() == Some("Never"),
            Obstacle::PullPolicyNever,
        ),
        (container.has_too_many_mounts, Obstacle::TooManyMounts),
    ];
    policy_obstacle(pod, container).or_else(|| {
        checks
            .into_iter()
            .find(|(applies, _)| *applies)
            .map(|(_, obstacle)| obstacle)
    })
}

/// Returns the obstacle of the restart policy. A pod that sets none belongs to one of the kinds
/// whose controllers set the policy later.
fn policy_obstacle(pod: &PodSpec, container: &ContainerSpec) -> Option<Obstacle> {
    match container
        .restart_policy
        .as_ref()
        .or(pod.restart_policy.as_ref())?
    {
        RestartPolicy::Always => Some(Obstacle::RestartsAlways),
        RestartPolicy::Unknown(_) => Some(Obstacle::RestartPolicyUnknown),
        RestartPolicy::Never | RestartPolicy::OnFailure => None,
    }
}

fn program(container: &ContainerSpec) -> Result<Program, Obstacle> {
    let Some(written) = &container.command else {
        return Ok(Program::Entrypoint);
    };
    let environment = Environment::of(container);
    let written = environment
        .expand(written)
        .ok_or(Obstacle::CommandUnknown)?;
    if written.contains('/') {
        let working_dir = working_dir(container).unwrap_or(IMAGE_WORKING_DIR);
        let path = path::locate(&written, working_dir).filter(|path| path.len() <= MOST_PATH);
        return Ok(Program::At(path.ok_or(Obstacle::CommandInvalid)?.into()));
    }
    named(&written, &environment)
}

fn working_dir(container: &ContainerSpec) -> Option<&str> {
    let written = container.working_dir.as_deref();
    written.filter(|dir| !dir.is_empty())
}

fn named(name: &str, environment: &Environment<'_>) -> Result<Program, Obstacle> {
    if matches!(name, "" | "." | "..") || name.contains('\0') || name.len() > MOST_NAME {
        return Err(Obstacle::CommandInvalid);
    }
    let is_long = |path: &str| {
        path.len() > MOST_SEARCH_PATH || path.split(':').nth(MOST_DIRECTORIES).is_some()
    };
    let search_path = match environment.search_path() {
        Variable::Known(search_path) if is_long(&search_path) => {
            return Err(Obstacle::CommandUnknown);
        }
        Variable::Known(search_path) => Some(search_path.into()),
        Variable::Unset => None,
        Variable::Unknown => return Err(Obstacle::CommandUnknown),
    };
    Ok(Program::Named {
        name: name.into(),
        search_path,
    })
}

fn mounts(container: &ContainerSpec) -> Box<[Mount]> {
    let mount = |mount: &crate::objects::pod::container_spec::MountSpec| {
        // Runtimes take a relative mount path as one below the root.
        let path = path::normal(&format!("/{}", mount.path))?.into();
        let shape = match (mount.has_sub_path, mount.backing) {
            (false, Backing::HostFile) => Shape::File,
            (false, Backing::HostPath) => Shape::Either,
            (false, _) => Shape::Directory,
            (true, Backing::Configuration { has_folders: false }) => Shape::File,
            (true, _) => Shape::Either,
        };
        Some(Mount {
            path,
            backing: mount.backing,
            shape,
        })
    };
    let all = container.mounts.iter().filter_map(mount);
    let kept = [message_file(container), made_directory(container)];
    let mut mounts: Vec<_> = all.chain(kept.into_iter().flatten()).collect();
    // The sort is stable: of two mounts at one path the later one stays the later one.
    mounts.sort_by(|one, other| one.path.cmp(&other.path));
    mounts.into()
}

/// Returns the file that a kubelet mounts so that the container can write there why it ends.
fn message_file(container: &ContainerSpec) -> Option<Mount> {
    let written = container.termination_message_path.as_deref()?;
    let path = path::normal(&format!("/{written}")).filter(|path| path != "/")?;
    Some(Mount {
        path: path.into(),
        backing: Backing::HostFile,
        shape: Shape::File,
    })
}

fn made_directory(container: &ContainerSpec) -> Option<Mount> {
    Some(Mount {
        path: path::normal(working_dir(container)?)?.into(),
        backing: Backing::Data,
        shape: Shape::WorkingDirectory,
    })
}

fn notes(container: &ContainerSpec) -> Notes {
    Notes::of([
        (Note::RegistryNeeded, container.pulls_always()),
        (Note::EnvByReference, container.needs_env_references()),
        (
            Note::SubPath,
            container.mounts.iter().any(|mount| mount.has_sub_path),
        ),
        (
            Note::PostStartFails,
            container.post_start == Some(Hook::Acts),
        ),
        (
            Note::PostStartSleeps,
            container.post_start == Some(Hook::Sleeps),
        ),
        (Note::ProbesFail, container.has_probes),
        (Note::RestartRules, !container.restart_rules.is_empty()),
        (Note::SecurityProfile, container.is_confined()),
        (Note::SeLinuxType, container.has_se_linux_type()),
    ])
}
