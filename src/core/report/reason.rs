//! Why something was done, or was not: the one closed list. A reason is the Event reason, the
//! metric label and the word in logs; what stands here about each is its documentation and what
//! `swaplet explain` says.

use std::fmt;

/// Of which type the Event is that is made with a reason.
#[derive(Clone, Copy, PartialEq, Eq)]
enum EventType {
    /// None is made.
    Silent,
    /// None is made by a controller: the log says it, and the Event about the end of the pod.
    Logged,
    Normal,
    Warning,
}

/// What a reason waits for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ends {
    /// It passes by itself, or is the end.
    Itself,
    /// Somebody has to mend the pod, the installation or the cluster, or the pod is left to
    /// somebody else.
    Hand,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum About {
    /// The end of a pod.
    Pod,
    /// The Job of a pod: it is reported of that, once, whatever the number of its pods.
    Job,
    /// A restart that somebody has asked for.
    Restart,
    /// Images that are pulled before pods need them.
    Pull,
}

/// Makes the enum and all that is known of its values from one table.
macro_rules! reasons {
    ($($(#[doc = $words:literal])+ $name:ident: $event:ident, $ends:ident, $about:ident;)+) => {
        /// The reason of a decision or of the outcome of a write.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Reason {
            $($(#[doc = $words])+ $name,)+
        }

        impl Reason {
            /// Every reason, in the order of the enum.
            pub const ALL: [Self; [$(stringify!($name)),+].len()] = [$(Self::$name),+];

            /// The word for it, in the form of an Event reason.
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$name => stringify!($name),)+
                }
            }

            /// The reason in one sentence, for people who ask why.
            pub const fn sentence(self) -> &'static str {
                match self {
                    $(Self::$name => concat!($($words),+).trim_ascii(),)+
                }
            }

            const fn facts(self) -> (EventType, Ends, About) {
                match self {
                    $(Self::$name => (EventType::$event, Ends::$ends, About::$about),)+
                }
            }
        }
    };
}

reasons! {
    // Nothing is to be done, now or ever.
    /// The pod is left alone: it is being deleted.
    PodDeleting: Silent, Itself, Pod;
    /// Nothing is left to do: the pod is finished.
    PodFinished: Silent, Itself, Pod;
    /// The pod is left alone: it restarts its containers always, as no pod of a Job does.
    RestartPolicyAlways: Silent, Itself, Pod;
    /// The pod is left alone: no container is marked as a sidecar.
    NoSidecar: Silent, Itself, Pod;
    /// Nothing is left to do: every sidecar has ended.
    SidecarsEnded: Silent, Itself, Pod;
    /// The sidecars are left to the platform under the node.
    LeftToPlatform: Normal, Hand, Pod;
    /// The pod is left alone: the policy that matches it would leave no main container.
    PolicyRefused: Silent, Itself, Pod;
    /// The pod is left alone: it is not one of the pods that were selected.
    NotSelected: Silent, Itself, Pod;

    // Something has to happen first.
    /// swaplet waits: a main container is not done.
    MainsRunning: Silent, Itself, Pod;
    /// swaplet waits: a write for this pod is under way.
    WriteInFlight: Silent, Itself, Pod;
    /// swaplet waits: a write has failed and is tried again.
    WriteBackoff: Silent, Itself, Pod;
    /// swaplet waits: other pods of the Job have to end first, so that no restart of a sidecar
    /// fails the Job.
    HeadroomWait: Silent, Itself, Pod;
    /// swaplet waits: a sidecar has time left, by a policy or an annotation, after the main
    /// containers have ended, or one that comes before the others is started again by its node.
    SidecarDelayed: Silent, Itself, Pod;
    /// swaplet waits: the image is changed, and the node has not reported the end of the sidecar.
    SwapPending: Normal, Itself, Pod;
    /// swaplet waits: the phase is written once the pod has not changed for a while.
    FinishWaits: Silent, Itself, Pod;
    /// swaplet waits: the phase is written, and the node has not reported the end of all containers
    /// yet.
    FinishPending: Silent, Itself, Pod;
    /// swaplet waits: OpenKruise's daemon has a request, and has not ended the sidecar yet.
    RecreatePending: Silent, Itself, Pod;
    /// swaplet waits: it is not known yet whether OpenKruise ends sidecars here.
    OpenKruiseUnseen: Silent, Itself, Pod;
    /// swaplet waits: sidecar policies have not been listed yet.
    PoliciesUnseen: Silent, Itself, Pod;
    /// swaplet waits: the exit image that the sidecar needs is not pushed yet.
    ExitImageAwaited: Silent, Itself, Pod;
    /// swaplet waits: the pod's node has not been observed yet.
    NodeNotSeen: Silent, Itself, Pod;
    /// swaplet waits: another pod is testing what the node does with a changed image.
    NodeProbed: Silent, Itself, Pod;
    /// swaplet waits: a restart request has not had its turn yet.
    RequestWaits: Silent, Itself, Pod;
    /// swaplet waits: the node has not reported the restarted container ready yet.
    RestartPending: Silent, Itself, Pod;

    // The pod cannot be ended as it stands: a Warning with the fix.
    /// The pod is left alone: a field is longer than swaplet reads.
    PodMalformed: Warning, Hand, Pod;
    /// The pod is left alone: its restart policy is not known.
    RestartPolicyUnknown: Warning, Hand, Pod;
    /// The pod is left alone: every container is marked as a sidecar.
    OnlySidecars: Warning, Hand, Pod;
    /// The pod is left alone: the mark of a sidecar has no effect as written.
    MarkInvalid: Warning, Hand, Pod;
    /// An annotation about sidecars is invalid.
    AnnotationInvalid: Warning, Hand, Pod;
    /// The pod is left alone: a main container has failed, and a sidecar is ended only if all have
    /// succeeded.
    MainFailed: Warning, Hand, Pod;
    /// swaplet waits: a main container has ended and is to be started again, and its node does not do
    /// that.
    MainNotRestarted: Warning, Hand, Pod;
    /// No sidecar is ended: the exit image that one requests is not an image reference.
    ExitImageInvalid: Warning, Hand, Pod;
    /// No sidecar is ended: there is no exit image for one of them.
    ExitImageMissing: Warning, Hand, Pod;
    /// No sidecar is ended: nodes may refuse the exit image to the pod, because it may need
    /// credentials to be pulled.
    ExitImageNotPublic: Warning, Hand, Pod;
    /// No sidecar is ended: one would be restarted with any image.
    SidecarRestartsAlways: Warning, Hand, Pod;
    /// No sidecar is ended: the exit image does not have the program that one of them runs.
    NeedsImage: Warning, Hand, Pod;
    /// No sidecar is ended: no exit image would end one of them.
    NotSwappable: Warning, Hand, Pod;
    /// No sidecar is ended: it is not certain that the exit image would start and end well in one.
    ExitImageDoubtful: Warning, Hand, Pod;
    /// No sidecar is ended: the swaps could fail the Job.
    NoHeadroom: Warning, Hand, Job;
    /// No sidecar is ended: it is not known how many restarts the Job allows.
    JobUnknown: Warning, Itself, Job;
    /// No sidecar is ended: no allowed method ends one on this node.
    NoRung: Warning, Hand, Pod;

    // The swap was applied and does not do what it should: a Warning.
    /// A sidecar has not ended: the node cannot pull the exit image.
    ExitImageNotPulled: Warning, Itself, Pod;
    /// A sidecar has not ended: the node cannot start the exit image.
    ExitImageNotStarted: Warning, Itself, Pod;
    /// A sidecar has not ended: the container with the exit image does not end.
    ExitImageRuns: Warning, Itself, Pod;
    /// A sidecar has not ended: the node has not reacted to the changed image.
    SwapWithoutEffect: Warning, Itself, Pod;
    /// A sidecar has not ended: the provider of the node has failed on the changed image.
    SwapRejected: Warning, Itself, Pod;
    /// A sidecar has not ended: something keeps reverting the exit image.
    SwapUndone: Warning, Hand, Pod;

    // The phase cannot be written, or does not stay: a Warning.
    /// The phase is not written: the pod keeps changing.
    FinishNotQuiet: Warning, Itself, Pod;
    /// The pod has not ended: something keeps reverting the phase.
    FinishUndone: Warning, Hand, Pod;

    // A ContainerRecreateRequest would not, or does not, do what it should: a Warning.
    /// No sidecar is ended: OpenKruise's daemon cannot stop one of them.
    RecreateImpossible: Warning, Hand, Pod;
    /// No sidecar is ended: the exit code of one would fail the pod, or restart the container.
    RecreateExitCode: Warning, Hand, Pod;
    /// A sidecar has not ended: OpenKruise's daemon does not answer the request.
    RecreateUnanswered: Warning, Hand, Pod;
    /// A sidecar has not ended: the request to OpenKruise's daemon has failed.
    RecreateFailed: Warning, Hand, Pod;

    // OpenKruise's SidecarTerminator is, or may be, on.
    /// The sidecars are left to OpenKruise.
    LeftToOpenKruise: Normal, Hand, Pod;
    /// The sidecars are left to OpenKruise, which does not end all of them.
    OpenKruiseIncomplete: Warning, Hand, Pod;
    /// The sidecars are left alone: it cannot be determined whether OpenKruise ends them.
    OpenKruiseUnclear: Warning, Hand, Pod;

    // What was done.
    /// The images of the sidecars were changed.
    SidecarSwapped: Logged, Itself, Pod;
    /// The phase was written.
    PhaseWritten: Normal, Itself, Pod;
    /// OpenKruise's daemon was requested to end sidecars.
    RecreateRequested: Normal, Itself, Pod;
    /// The image of a container was given another spelling, so that the node restarts it.
    ContainerRestarting: Normal, Itself, Restart;
    /// A container was restarted, and is ready.
    ContainerRestarted: Normal, Itself, Restart;
    /// A container was not restarted, or the result is unknown.
    RestartFailed: Warning, Itself, Restart;
    /// The restart request is left to another controller.
    RequestLeft: Silent, Itself, Pod;
    /// Nothing is left to do: the restart request is completed.
    RequestOver: Silent, Itself, Pod;
    /// The configuration of a container has changed, and its restart was requested.
    RestartOnChanged: Normal, Itself, Restart;
    /// A restart for changed configuration has failed; no other pod of the owner is restarted.
    RestartOnStopped: Warning, Itself, Restart;
    /// Nothing is restarted for changed configuration: the annotation is invalid.
    RestartOnInvalid: Warning, Itself, Restart;
    /// Nothing is restarted for changed configuration: swaplet may not watch it.
    RestartOnForbidden: Warning, Itself, Restart;
    /// A sidecar was hot-upgraded: its new image works, and the old container is empty.
    HotUpgraded: Normal, Itself, Restart;
    /// The new image of a sidecar was reverted; the old one has worked all the time.
    HotUpgradeFailed: Warning, Itself, Restart;
    /// A sidecar is not hot-upgraded: it cannot be determined which of its two containers works.
    HotUpgradeRefused: Warning, Itself, Restart;
    /// An image is pulled to the nodes of a workload's old pods.
    CreatedImagePullJob: Normal, Itself, Pull;
    /// No image is pulled to the nodes of a workload's old pods.
    FailedCreateImagePullJob: Warning, Itself, Pull;
    /// An image of a job is not on a node.
    PullImageFailed: Warning, Itself, Pull;
    /// Nothing is left to do: the sidecars were ended, and the pod is finished.
    SidecarEnded: Normal, Itself, Pod;
    /// A sidecar was ended by SIGKILL, because it did not stop in its grace period.
    SidecarKilled: Warning, Itself, Pod;
    /// The pod is Failed although every main container exited with 0.
    PodFailedAfterSwap: Warning, Itself, Pod;
    /// The pod is Failed although every main container exited with 0.
    PodFailedAfterFinish: Warning, Itself, Pod;
    /// The pod is Failed although every main container exited with 0.
    PodFailedAfterRecreate: Warning, Itself, Pod;

    // What became of a write, and a defect of ours.
    /// Nothing was written: the API server forbids it, or has not applied it for a minute.
    WriteDenied: Warning, Hand, Pod;
    /// Nothing is done: a defect in swaplet prevents a decision about this pod.
    DecisionFailed: Warning, Hand, Pod;
}

impl Reason {
    /// Whether an Event is made with this reason.
    pub const fn is_event(self) -> bool {
        matches!(self.facts().0, EventType::Normal | EventType::Warning)
    }

    /// Whether an Event with this reason is a Warning.
    pub const fn is_warning(self) -> bool {
        matches!(self.facts().0, EventType::Warning)
    }

    /// Whether a pod has ended that something was written for.
    pub const fn is_end(self) -> bool {
        matches!(
            self,
            Self::SidecarEnded
                | Self::PodFailedAfterSwap
                | Self::PodFailedAfterFinish
                | Self::PodFailedAfterRecreate
        )
    }

    /// Whether nothing but a hand from outside changes it.
    pub const fn needs_a_hand(self) -> bool {
        matches!(self.facts().1, Ends::Hand)
    }

    /// Whether it is about a restart that somebody has asked for, not about the end of a pod.
    pub const fn regards_restart(self) -> bool {
        matches!(self.facts().2, About::Restart)
    }

    /// Whether it is about images that are pulled before pods need them.
    pub const fn regards_pull(self) -> bool {
        matches!(self.facts().2, About::Pull)
    }

    /// Whether it is true of the pod's Job, and reported of that, once, whatever the number of its
    /// pods.
    pub const fn regards_job(self) -> bool {
        matches!(self.facts().2, About::Job)
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.as_str())
    }
}
