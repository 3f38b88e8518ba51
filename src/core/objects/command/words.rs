//! The obstacles that keep a container from being swapped, notes about it, and the text for both.

use strum::VariantArray;

/// A reason why no exit image could end a container. Closed: a new obstacle is a new variant and
/// the places that the compiler points at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, strum::Display)]
pub enum Obstacle {
    /// The program lies on a volume: the real one would run again in the exit image.
    ProgramOnVolume,
    /// A volume is mounted where the program of the exit image has to be, or below it, or the
    /// working directory is there.
    MountOverProgram,
    /// The program depends on a variable whose value is not in the spec, or is too long.
    CommandUnknown,
    /// The command names nothing that could be executed.
    CommandInvalid,
    /// The exit image would never be pulled.
    PullPolicyNever,
    /// Every end of the container is followed by a restart.
    RestartsAlways,
    /// A rule of the container restarts it also after exit code 0.
    RestartRuleOnSuccess,
    /// A rule of the container restarts all containers of the pod, main containers that are done
    /// too.
    RestartsAllContainers,
    /// This version does not know the restart policy.
    RestartPolicyUnknown,
    /// The exit image is for Linux.
    Windows,
    /// The exit image is for amd64 and arm64.
    Architecture,
    /// More volumes are mounted than are read.
    TooManyMounts,
    /// A field has a type that Kubernetes does not allow for it, or is longer than its use allows.
    Malformed,
}

impl Obstacle {
    /// Returns true if it is an obstacle for our exit image only: another one may be built for
    /// another system, or have its program elsewhere.
    pub const fn is_about_our_image(self) -> bool {
        matches!(
            self,
            Self::MountOverProgram | Self::CommandUnknown | Self::Windows | Self::Architecture
        )
    }

    /// Returns the problem, as the end of a sentence about the container.
    pub const fn problem(self) -> &'static str {
        match self {
            Self::ProgramOnVolume => "its program is on a volume and would run again",
            Self::MountOverProgram => {
                "a volume is mounted, or its workingDir is, where the exit image has its program"
            }
            Self::CommandUnknown => {
                "its command or PATH depends on a variable whose value is not in the spec, or is too long"
            }
            Self::CommandInvalid => "its command names nothing that could be executed",
            Self::PullPolicyNever => {
                "its imagePullPolicy is Never, so nodes would not pull the exit image"
            }
            Self::RestartsAlways => {
                "its restartPolicy is Always, so the exit image would be restarted forever"
            }
            Self::RestartRuleOnSuccess => "its restartPolicyRules restart it after exit code 0",
            Self::RestartsAllContainers => {
                "its restartPolicyRules may restart all containers of the pod when it ends"
            }
            Self::RestartPolicyUnknown => "its restartPolicy is not known",
            Self::Windows => {
                "it runs on Windows, or on another system than Linux, which the exit image is for"
            }
            Self::Architecture => "it runs on an architecture that the exit image is not built for",
            Self::TooManyMounts => {
                "it mounts more than 1000 volumes, their paths have more than 64 KiB, or more than 64 of them are where the exit image has programs"
            }
            Self::Malformed => "one of its fields has a wrong type, or is too long",
        }
    }

    /// Returns the fix for the problem, as an instruction.
    pub const fn fix(self) -> &'static str {
        match self {
            Self::ProgramOnVolume => {
                "put the program into the container's image, or start it through a shell that is on no volume: command [\"/bin/sh\", \"-c\", \"exec PROGRAM\"]"
            }
            Self::MountOverProgram => "mount the volume at another path, or set another workingDir",
            Self::TooManyMounts => "mount fewer volumes, or a directory that holds them",
            Self::CommandUnknown => "write the path of the program into the command",
            Self::CommandInvalid => {
                "write the path of the program as the first item of the command"
            }
            Self::PullPolicyNever => "set imagePullPolicy: IfNotPresent",
            Self::RestartsAlways => {
                "set the container's restartPolicy to Never or OnFailure, or make it a native sidecar"
            }
            Self::RestartRuleOnSuccess => "take exit code 0 out of restartPolicyRules",
            Self::RestartsAllContainers => {
                "let restartPolicyRules of sidecars have no action but Restart, or allow finish"
            }
            Self::RestartPolicyUnknown => "set restartPolicy to Never or OnFailure",
            Self::Windows | Self::Architecture => "use a native sidecar (Kubernetes 1.29 or later)",
            Self::Malformed => "correct the field; `kubectl apply --dry-run=server` names it",
        }
    }
}

/// A note about a container that does not keep it from being swapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, VariantArray)]
pub enum Note {
    /// Pull policy Always: each swap needs the registry.
    RegistryNeeded,
    /// Variables come from ConfigMaps or Secrets, which are read again at the swap.
    EnvByReference,
    /// A volume is mounted by subPath, which is prepared again at the swap.
    SubPath,
    /// A postStart hook runs in the exit image and fails there.
    PostStartFails,
    /// A postStart hook sleeps, and the container does not end before.
    PostStartSleeps,
    /// Probes fail in the exit image.
    ProbesFail,
    /// Rules may start the container again after some exit codes other than 0.
    RestartRules,
    /// A seccomp or AppArmor profile of the cluster's own may not let the exit program start.
    SecurityProfile,
    /// An SELinux type has to let the exit program start.
    SeLinuxType,
}

impl Note {
    /// Returns the text of the note.
    pub const fn text(self) -> &'static str {
        match self {
            Self::RegistryNeeded => {
                "imagePullPolicy Always: the registry has to be reachable at each swap"
            }
            Self::EnvByReference => {
                "env from ConfigMaps or Secrets is read again at the swap: if they are gone by then, the container cannot end, and under Never the pod fails"
            }
            Self::SubPath => {
                "subPath mounts are prepared again at the swap: what they name has to be there still"
            }
            Self::PostStartFails => "the postStart hook fails in the exit image; harmless",
            Self::PostStartSleeps => {
                "the postStart hook sleeps in the exit image too: the pod ends that much later"
            }
            Self::ProbesFail => "probes fail in the exit image; harmless",
            Self::RestartRules => {
                "restartPolicyRules may start the container again if the exit image cannot run"
            }
            Self::SecurityProfile => {
                "the container's own seccomp or AppArmor profile has to allow any program to start and exit"
            }
            Self::SeLinuxType => {
                "the container's SELinux type has to allow any program of its image to start and exit"
            }
        }
    }
}

/// A set of notes, in two bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Notes(u16);

impl Notes {
    /// Returns the set of the notes that apply.
    pub fn of(applying: impl IntoIterator<Item = (Note, bool)>) -> Self {
        let bits = applying
            .into_iter()
            .filter(|(_, applies)| *applies)
            .fold(0, |bits, (note, _)| bits | note.bit());
        Self(bits)
    }

    /// Returns true if the set holds this note.
    pub const fn has(self, note: Note) -> bool {
        self.0 & note.bit() != 0
    }

    /// Returns the notes of the set, in the order of the enum.
    pub fn iter(self) -> impl Iterator<Item = Note> {
        let all = Note::VARIANTS.iter().copied();
        all.filter(move |note| self.has(*note))
    }
}

impl Note {
    const fn bit(self) -> u16 {
        1 << self as u16
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_has_room_for_every_note() {
        let all = || Note::VARIANTS.iter().copied();
        let notes = Notes::of(all().map(|note| (note, true)));
        assert!(notes.iter().eq(all()));
    }
}
