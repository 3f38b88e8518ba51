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

/// What a reason is about.
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
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$name => stringify!($name),)+
                }
            }

            /// The reason in one sentence, for people who ask why.
            #[must_use]
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
    /// The pod is left alone: the policy that is about it would leave no main container.
    PolicyRefused: Silent, Itself, Pod;
    /// The pod is left alone: it is none of those that are to be ended.
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
    /// containers have ended.
    SidecarDelayed: Silent, Itself, Pod;
    /// swaplet waits: the image is changed, and the node has not shown the end of the sidecar yet.
    SwapPending: Normal, Itself, Pod;
    /// swaplet waits: the phase is written once the pod has not changed for a while.
    FinishWaits: Silent, Itself, Pod;
    /// swaplet waits: the phase is written, and the node has not shown the end of all containers
    /// yet.
    FinishPending: Silent, Itself, Pod;
    /// swaplet waits: OpenKruise's daemon is asked, and has not ended the sidecar yet.
    RecreatePending: Silent, Itself, Pod;
    /// swaplet waits: another pod finds out with which exit code a sidecar of this kind ends.
    ExitCodeProbed: Silent, Itself, Pod;
    /// swaplet waits: nobody has looked yet whether OpenKruise ends sidecars here.
    OpenKruiseUnseen: Silent, Itself, Pod;
    /// swaplet waits: policies about sidecars have not been listed yet.
    PoliciesUnseen: Silent, Itself, Pod;
    /// swaplet waits: the exit image that the sidecar needs is pushed first.
    ExitImageAwaited: Silent, Itself, Pod;
    /// swaplet waits: the pod's node has not been seen yet.
    NodeNotSeen: Silent, Itself, Pod;
    /// swaplet waits: another pod finds out what the node does with a changed image.
    NodeProbed: Silent, Itself, Pod;
    /// swaplet waits: a request to restart containers has not had its turn yet.
    RequestWaits: Silent, Itself, Pod;
    /// swaplet waits: the node has not shown the restarted container ready yet.
    RestartPending: Silent, Itself, Pod;

    // The pod cannot be ended as it stands: a Warning with the fix.
    /// The pod is left alone: a field has a type that Kubernetes does not allow.
    PodMalformed: Warning, Hand, Pod;
    /// The pod is left alone: its restart policy is not known.
    RestartPolicyUnknown: Warning, Hand, Pod;
    /// The pod is left alone: every container is marked as a sidecar.
    OnlySidecars: Warning, Hand, Pod;
    /// The pod is left alone: what should mark a sidecar has no effect as it is written.
    MarkInvalid: Warning, Hand, Pod;
    /// An annotation about sidecars cannot be used as it is written.
    AnnotationInvalid: Warning, Hand, Pod;
    /// The pod is left alone: a main container has failed, and a sidecar is ended only where all
    /// have succeeded.
    MainFailed: Warning, Hand, Pod;
    /// No sidecar is ended: the exit image that one asks for is no image reference.
    ExitImageInvalid: Warning, Hand, Pod;
    /// No sidecar is ended: there is no exit image for one of them.
    ExitImageMissing: Warning, Hand, Pod;
    /// No sidecar is ended: one would be started again whatever its image.
    SidecarRestartsAlways: Warning, Hand, Pod;
    /// No sidecar is ended: the exit image does not have what one of them executes.
    NeedsImage: Warning, Hand, Pod;
    /// No sidecar is ended: no exit image would end one of them.
    NotSwappable: Warning, Hand, Pod;
    /// No sidecar is ended: the restart that this costs would fail the Job.
    NoHeadroom: Warning, Hand, Job;
    /// No sidecar is ended: nobody knows how many restarts the Job allows.
    JobUnknown: Warning, Itself, Job;
    /// No sidecar is ended: nothing that is allowed ends one on this node.
    NoRung: Warning, Hand, Pod;

    // The swap was applied and does not do what it should: a Warning.
    /// A sidecar has not ended: the node cannot pull the exit image.
    ExitImageNotPulled: Warning, Itself, Pod;
    /// A sidecar has not ended: the node cannot start the exit image.
    ExitImageNotStarted: Warning, Itself, Pod;
    /// A sidecar has not ended: what was started with the exit image does not end.
    ExitImageRuns: Warning, Itself, Pod;
    /// A sidecar has not ended: the node has not reacted to the changed image.
    SwapWithoutEffect: Warning, Itself, Pod;
    /// A sidecar has not ended: the provider of the node has failed on the changed image.
    SwapRejected: Warning, Itself, Pod;
    /// A sidecar has not ended: somebody keeps changing the exit image back.
    SwapUndone: Warning, Hand, Pod;

    // The phase cannot be written, or does not stay: a Warning.
    /// The phase is not written: the pod keeps changing.
    FinishNotQuiet: Warning, Itself, Pod;
    /// The pod has not ended: somebody keeps taking the phase back.
    FinishUndone: Warning, Hand, Pod;

    // A ContainerRecreateRequest would not, or does not, do what it should: a Warning.
    /// No sidecar is ended: OpenKruise's daemon cannot be asked to stop one of them.
    RecreateImpossible: Warning, Hand, Pod;
    /// No sidecar is ended: the exit code of one of them would fail the pod, or bring it back.
    RecreateExitCode: Warning, Hand, Pod;
    /// A sidecar has not ended: nobody carries out the request to OpenKruise's daemon.
    RecreateUnanswered: Warning, Hand, Pod;
    /// A sidecar has not ended: the request to OpenKruise's daemon has failed.
    RecreateFailed: Warning, Hand, Pod;

    // OpenKruise's SidecarTerminator is, or may be, on.
    /// The sidecars are left to OpenKruise.
    LeftToOpenKruise: Normal, Hand, Pod;
    /// The sidecars are left to OpenKruise, which does not end all of them.
    OpenKruiseIncomplete: Warning, Hand, Pod;
    /// The sidecars are left alone: nobody can tell whether OpenKruise ends them.
    OpenKruiseUnclear: Warning, Hand, Pod;

    // What was done.
    /// The images of the sidecars were changed.
    SidecarSwapped: Logged, Itself, Pod;
    /// The phase was written.
    PhaseWritten: Normal, Itself, Pod;
    /// OpenKruise's daemon was asked.
    RecreateRequested: Normal, Itself, Pod;
    /// The image of a container was given another spelling, so that the node restarts it.
    ContainerRestarting: Normal, Itself, Restart;
    /// A container was restarted, and is ready.
    ContainerRestarted: Normal, Itself, Restart;
    /// A container was not restarted, or nobody knows.
    RestartFailed: Warning, Itself, Restart;
    /// The request to restart containers is left to somebody else.
    RequestLeft: Silent, Itself, Pod;
    /// Nothing is left to do: the request to restart containers is completed.
    RequestOver: Silent, Itself, Pod;
    /// The configuration of a container has changed, and its restart was asked for.
    RestartOnChanged: Normal, Itself, Restart;
    /// A restart for changed configuration has failed; no further pod of the owner is begun with.
    RestartOnStopped: Warning, Itself, Restart;
    /// Nothing is restarted for changed configuration: the annotation cannot be used.
    RestartOnInvalid: Warning, Itself, Restart;
    /// Nothing is restarted for changed configuration: it may not be looked at.
    RestartOnForbidden: Warning, Itself, Restart;
    /// A sidecar was hot-upgraded: its new image works, and the container before is empty.
    HotUpgraded: Normal, Itself, Restart;
    /// The new image of a sidecar was taken back; the one before has worked all the time.
    HotUpgradeFailed: Warning, Itself, Restart;
    /// A sidecar is not hot-upgraded: nobody can know which of its two containers works.
    HotUpgradeRefused: Warning, Itself, Restart;
    /// An image is pulled to the nodes of a workload's old pods.
    CreatedImagePullJob: Normal, Itself, Pull;
    /// No image is pulled to the nodes of a workload's old pods.
    FailedCreateImagePullJob: Warning, Itself, Pull;
    /// An image of a job is not on a node.
    PullImageFailed: Warning, Itself, Pull;
    /// Nothing is left to do: the sidecars were ended, and the pod is finished.
    SidecarEnded: Normal, Itself, Pod;
    /// A sidecar was ended by SIGKILL, because it had not stopped in its grace period.
    SidecarKilled: Warning, Itself, Pod;
    /// The pod is Failed although every main container exited with 0.
    PodFailedAfterSwap: Warning, Itself, Pod;
    /// The pod is Failed although every main container exited with 0.
    PodFailedAfterFinish: Warning, Itself, Pod;
    /// The pod is Failed although every main container exited with 0.
    PodFailedAfterRecreate: Warning, Itself, Pod;

    // What became of a write, and a defect of ours.
    /// Nothing was written: the API server forbids it.
    WriteDenied: Warning, Hand, Pod;
    /// Nothing is done: a defect in swaplet keeps it from deciding about this pod.
    DecisionFailed: Warning, Hand, Pod;
}

impl Reason {
    /// Whether an Event is made with this reason.
    #[must_use]
    pub const fn is_event(self) -> bool {
        matches!(self.facts().0, EventType::Normal | EventType::Warning)
    }

    /// Whether an Event with this reason is a Warning.
    #[must_use]
    pub const fn is_warning(self) -> bool {
        matches!(self.facts().0, EventType::Warning)
    }

    /// Whether a pod has ended that something was written for.
    #[must_use]
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
    #[must_use]
    pub const fn needs_a_hand(self) -> bool {
        matches!(self.facts().1, Ends::Hand)
    }

    /// Whether it is about a restart that somebody has asked for, not about the end of a pod.
    #[must_use]
    pub const fn regards_restart(self) -> bool {
        matches!(self.facts().2, About::Restart)
    }

    /// Whether it is about images that are pulled before pods need them.
    #[must_use]
    pub const fn regards_pull(self) -> bool {
        matches!(self.facts().2, About::Pull)
    }

    /// Whether it is true of the pod's Job, and reported of that, once, whatever the number of its
    /// pods.
    #[must_use]
    pub const fn regards_job(self) -> bool {
        matches!(self.facts().2, About::Job)
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.as_str())
    }
}
