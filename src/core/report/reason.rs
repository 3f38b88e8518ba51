//! Why something was done, or was not: the one closed list. A reason is the Event reason, the metric label and the word in logs.

use std::fmt;

/// The reason of a decision or of the outcome of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Reason {
    // Nothing is to be done, now or ever.
    /// The pod is being deleted.
    PodDeleting,
    /// The pod is Succeeded or Failed, and no swap of ours is left to report.
    PodFinished,
    /// The pod restarts its containers always: not the pod of a Job.
    RestartPolicyAlways,
    /// No container is marked as a sidecar.
    NoSidecar,
    /// Every sidecar has ended.
    SidecarsEnded,
    /// The platform under the node ends the sidecars by itself.
    LeftToPlatform,
    /// The pod is none of those that are to be ended.
    NotSelected,

    // Something has to happen first.
    /// A main container is not done.
    MainsRunning,
    /// A write for this pod is under way.
    WriteInFlight,
    /// A failed write is tried again later.
    WriteBackoff,
    /// Pods of the same Job have to end first, so that the restart of a swap does not fail the Job.
    HeadroomWait,
    /// The swap is applied; the node has not shown its effect yet.
    SwapPending,
    /// The phase is written once the pod has not changed for a while.
    FinishWaits,
    /// The phase is written; the node has not shown the end of all containers yet.
    FinishPending,
    /// A `ContainerRecreateRequest` is made; the daemon has not ended the sidecars yet.
    RecreatePending,
    /// Another pod finds out how a sidecar of this kind ends when it is stopped.
    ExitCodeProbed,
    /// Nobody has looked yet whether OpenKruise ends sidecars here.
    OpenKruiseUnseen,
    /// An exit image that a sidecar needs is being pushed.
    ExitImageAwaited,
    /// The pod's node has not been seen yet, so its class is not known.
    NodeNotSeen,
    /// Another pod finds out what the node does with a swap.
    NodeProbed,
    /// A request to restart containers waits for its pod to be seen, for one before it, or for room in the pod's Job.
    RequestWaits,
    /// A container is being restarted; the node has not shown another one ready yet.
    RestartPending,

    // The pod cannot be ended as it stands: a Warning with the fix.
    /// A field has a type that Kubernetes does not allow for it.
    PodMalformed,
    /// The restart policy is none that this version knows.
    RestartPolicyUnknown,
    /// All containers are marked as sidecars.
    OnlySidecars,
    /// A marking variable has no effect as it is written.
    MarkInvalid,
    /// The image named by a marking variable is not an image reference.
    ExitImageInvalid,
    /// No exit image is configured, and the pod names none that is allowed.
    ExitImageMissing,
    /// The container's own restart policy would start an exit image for ever.
    SidecarRestartsAlways,
    /// The exit image does not have what the container would execute.
    NeedsImage,
    /// No exit image would end the container.
    NotSwappable,
    /// The restart of a swap would fail the Job, and nothing that is under way changes that.
    NoHeadroom,
    /// The pod's Job has not been seen, so nobody knows how many restarts it allows.
    JobUnknown,
    /// The pod's node has no way to end a sidecar that is allowed.
    NoRung,

    // The swap was applied and does not do what it should: a Warning.
    /// The node cannot pull the exit image.
    ExitImageNotPulled,
    /// The node cannot start the exit image.
    ExitImageNotStarted,
    /// What was started with the exit image does not end.
    ExitImageRuns,
    /// The node has not reacted to the swap.
    SwapWithoutEffect,
    /// The provider of the node has failed on the swap.
    SwapRejected,
    /// Somebody keeps undoing the swap.
    SwapUndone,

    // The phase cannot be written, or does not stay: a Warning.
    /// The pod keeps changing.
    FinishNotQuiet,
    /// Somebody keeps taking the phase back.
    FinishUndone,
    // A ContainerRecreateRequest would not, or does not, do what it should: a Warning.
    /// The container is not one that OpenKruise's daemon can be asked to stop.
    RecreateImpossible,
    /// The exit code of the sidecar would fail the pod, or bring the sidecar back.
    RecreateExitCode,
    /// Nobody carries the request out.
    RecreateUnanswered,
    /// The request was taken, or refused, and the sidecar has not ended.
    RecreateFailed,

    // OpenKruise's SidecarTerminator is, or may be, on.
    /// OpenKruise ends the sidecars of this pod.
    LeftToOpenKruise,
    /// It acts on this pod, and does not end all of its sidecars.
    OpenKruiseIncomplete,
    /// Nobody can tell whether it is on.
    OpenKruiseUnclear,

    // What was done.
    /// The images of sidecars were swapped.
    SidecarSwapped,
    /// The phase was written.
    PhaseWritten,
    /// OpenKruise's daemon was asked to end sidecars.
    RecreateRequested,
    /// The image of containers was given another spelling, so that the node restarts them.
    ContainerRestarting,
    /// A container was restarted, and is ready.
    ContainerRestarted,
    /// A container was not restarted, or it is not known.
    RestartFailed,
    /// A request to restart containers is carried out by somebody else.
    RequestLeft,
    /// A request to restart containers is completed.
    RequestOver,
    /// An object that a container is configured with has changed, and the restart of the container was asked for.
    RestartOnChanged,
    /// Such a restart has failed, and no further pod of the same owner is begun with.
    RestartOnStopped,
    /// The annotation that asks for such restarts cannot be used.
    RestartOnInvalid,
    /// What is needed for such restarts may not be looked at.
    RestartOnForbidden,
    /// An image of a workload is pulled to the nodes of its old pods; OpenKruise's word for it.
    CreatedImagePullJob,
    /// It is not; OpenKruise's word for it.
    FailedCreateImagePullJob,
    /// An image of a job is not on a node; OpenKruise's word for it.
    PullImageFailed,
    /// The sidecars have ended and the pod is finished.
    SidecarEnded,
    /// The pod is Failed although every main container exited with 0.
    PodFailedAfterSwap,
    /// The same, where the phase was written.
    PodFailedAfterFinish,
    /// The pod is Failed although every main container exited with 0, after a `ContainerRecreateRequest`.
    PodFailedAfterRecreate,

    // What became of a write, and a defect of ours.
    /// The API server forbids the write.
    WriteDenied,
    /// The decision about the pod broke off.
    DecisionFailed,
}

impl Reason {
    /// Every reason, in the order of the enum.
    pub const ALL: [Self; 70] = [
        Self::PodDeleting,
        Self::PodFinished,
        Self::RestartPolicyAlways,
        Self::NoSidecar,
        Self::SidecarsEnded,
        Self::LeftToPlatform,
        Self::NotSelected,
        Self::MainsRunning,
        Self::WriteInFlight,
        Self::WriteBackoff,
        Self::HeadroomWait,
        Self::SwapPending,
        Self::FinishWaits,
        Self::FinishPending,
        Self::RecreatePending,
        Self::ExitCodeProbed,
        Self::OpenKruiseUnseen,
        Self::ExitImageAwaited,
        Self::NodeNotSeen,
        Self::NodeProbed,
        Self::RequestWaits,
        Self::RestartPending,
        Self::PodMalformed,
        Self::RestartPolicyUnknown,
        Self::OnlySidecars,
        Self::MarkInvalid,
        Self::ExitImageInvalid,
        Self::ExitImageMissing,
        Self::SidecarRestartsAlways,
        Self::NeedsImage,
        Self::NotSwappable,
        Self::NoHeadroom,
        Self::JobUnknown,
        Self::NoRung,
        Self::ExitImageNotPulled,
        Self::ExitImageNotStarted,
        Self::ExitImageRuns,
        Self::SwapWithoutEffect,
        Self::SwapRejected,
        Self::SwapUndone,
        Self::FinishNotQuiet,
        Self::FinishUndone,
        Self::RecreateImpossible,
        Self::RecreateExitCode,
        Self::RecreateUnanswered,
        Self::RecreateFailed,
        Self::LeftToOpenKruise,
        Self::OpenKruiseIncomplete,
        Self::OpenKruiseUnclear,
        Self::SidecarSwapped,
        Self::PhaseWritten,
        Self::RecreateRequested,
        Self::ContainerRestarting,
        Self::ContainerRestarted,
        Self::RestartFailed,
        Self::RequestLeft,
        Self::RequestOver,
        Self::RestartOnChanged,
        Self::RestartOnStopped,
        Self::RestartOnInvalid,
        Self::RestartOnForbidden,
        Self::CreatedImagePullJob,
        Self::FailedCreateImagePullJob,
        Self::PullImageFailed,
        Self::SidecarEnded,
        Self::PodFailedAfterSwap,
        Self::PodFailedAfterFinish,
        Self::PodFailedAfterRecreate,
        Self::WriteDenied,
        Self::DecisionFailed,
    ];

    /// The word for it, in the form of an Event reason.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::PodDeleting => "PodDeleting",
            Self::PodFinished => "PodFinished",
            Self::RestartPolicyAlways => "RestartPolicyAlways",
            Self::NoSidecar => "NoSidecar",
            Self::SidecarsEnded => "SidecarsEnded",
            Self::LeftToPlatform => "LeftToPlatform",
            Self::NotSelected => "NotSelected",
            Self::MainsRunning => "MainsRunning",
            Self::WriteInFlight => "WriteInFlight",
            Self::WriteBackoff => "WriteBackoff",
            Self::HeadroomWait => "HeadroomWait",
            Self::SwapPending => "SwapPending",
            Self::FinishWaits => "FinishWaits",
            Self::FinishPending => "FinishPending",
            Self::RecreatePending => "RecreatePending",
            Self::ExitCodeProbed => "ExitCodeProbed",
            Self::OpenKruiseUnseen => "OpenKruiseUnseen",
            Self::ExitImageAwaited => "ExitImageAwaited",
            Self::NodeNotSeen => "NodeNotSeen",
            Self::NodeProbed => "NodeProbed",
            Self::RequestWaits => "RequestWaits",
            Self::RestartPending => "RestartPending",
            Self::PodMalformed => "PodMalformed",
            Self::RestartPolicyUnknown => "RestartPolicyUnknown",
            Self::OnlySidecars => "OnlySidecars",
            Self::MarkInvalid => "MarkInvalid",
            Self::ExitImageInvalid => "ExitImageInvalid",
            Self::ExitImageMissing => "ExitImageMissing",
            Self::SidecarRestartsAlways => "SidecarRestartsAlways",
            Self::NeedsImage => "NeedsImage",
            Self::NotSwappable => "NotSwappable",
            Self::NoHeadroom => "NoHeadroom",
            Self::JobUnknown => "JobUnknown",
            Self::NoRung => "NoRung",
            Self::ExitImageNotPulled => "ExitImageNotPulled",
            Self::ExitImageNotStarted => "ExitImageNotStarted",
            Self::ExitImageRuns => "ExitImageRuns",
            Self::SwapWithoutEffect => "SwapWithoutEffect",
            Self::SwapRejected => "SwapRejected",
            Self::SwapUndone => "SwapUndone",
            Self::FinishNotQuiet => "FinishNotQuiet",
            Self::FinishUndone => "FinishUndone",
            Self::RecreateImpossible => "RecreateImpossible",
            Self::RecreateExitCode => "RecreateExitCode",
            Self::RecreateUnanswered => "RecreateUnanswered",
            Self::RecreateFailed => "RecreateFailed",
            Self::LeftToOpenKruise => "LeftToOpenKruise",
            Self::OpenKruiseIncomplete => "OpenKruiseIncomplete",
            Self::OpenKruiseUnclear => "OpenKruiseUnclear",
            Self::SidecarSwapped => "SidecarSwapped",
            Self::PhaseWritten => "PhaseWritten",
            Self::RecreateRequested => "RecreateRequested",
            Self::ContainerRestarting => "ContainerRestarting",
            Self::ContainerRestarted => "ContainerRestarted",
            Self::RestartFailed => "RestartFailed",
            Self::RequestLeft => "RequestLeft",
            Self::RequestOver => "RequestOver",
            Self::RestartOnChanged => "RestartOnChanged",
            Self::RestartOnStopped => "RestartOnStopped",
            Self::RestartOnInvalid => "RestartOnInvalid",
            Self::RestartOnForbidden => "RestartOnForbidden",
            Self::CreatedImagePullJob => "CreatedImagePullJob",
            Self::FailedCreateImagePullJob => "FailedCreateImagePullJob",
            Self::PullImageFailed => "PullImageFailed",
            Self::SidecarEnded => "SidecarEnded",
            Self::PodFailedAfterSwap => "PodFailedAfterSwap",
            Self::PodFailedAfterFinish => "PodFailedAfterFinish",
            Self::PodFailedAfterRecreate => "PodFailedAfterRecreate",
            Self::WriteDenied => "WriteDenied",
            Self::DecisionFailed => "DecisionFailed",
        }
    }

    /// Whether an Event with this reason is a Warning.
    #[must_use]
    pub const fn is_warning(self) -> bool {
        !matches!(
            self,
            Self::LeftToPlatform
                | Self::LeftToOpenKruise
                | Self::SidecarSwapped
                | Self::PhaseWritten
                | Self::RecreateRequested
                | Self::ContainerRestarting
                | Self::ContainerRestarted
                | Self::RestartOnChanged
                | Self::CreatedImagePullJob
                | Self::SidecarEnded
        )
    }

    /// Whether nothing but a hand from outside changes it: somebody has to mend the pod, the installation or the cluster, or the pod is
    /// left to somebody else.
    #[must_use]
    pub const fn needs_a_hand(self) -> bool {
        matches!(
            self,
            Self::LeftToPlatform
                | Self::PodMalformed
                | Self::RestartPolicyUnknown
                | Self::OnlySidecars
                | Self::MarkInvalid
                | Self::ExitImageInvalid
                | Self::ExitImageMissing
                | Self::SidecarRestartsAlways
                | Self::NotSwappable
                | Self::NeedsImage
                | Self::NoHeadroom
                | Self::NoRung
                | Self::SwapUndone
                | Self::FinishUndone
                | Self::RecreateImpossible
                | Self::RecreateExitCode
                | Self::RecreateUnanswered
                | Self::RecreateFailed
                | Self::LeftToOpenKruise
                | Self::OpenKruiseIncomplete
                | Self::OpenKruiseUnclear
                | Self::WriteDenied
                | Self::DecisionFailed
        )
    }

    /// Whether it is about a restart that somebody has asked for, not about the end of a pod.
    #[must_use]
    pub const fn regards_restart(self) -> bool {
        matches!(
            self,
            Self::ContainerRestarting
                | Self::ContainerRestarted
                | Self::RestartFailed
                | Self::RestartOnChanged
                | Self::RestartOnStopped
                | Self::RestartOnInvalid
                | Self::RestartOnForbidden
        )
    }

    /// Whether it is about images that are pulled before pods need them.
    #[must_use]
    pub const fn regards_pull(self) -> bool {
        matches!(self, Self::CreatedImagePullJob | Self::FailedCreateImagePullJob | Self::PullImageFailed)
    }

    /// Whether it is true of the pod's Job, and told of that, once, whatever the number of its pods.
    #[must_use]
    pub const fn regards_job(self) -> bool {
        matches!(self, Self::NoHeadroom | Self::JobUnknown)
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.as_str())
    }
}
