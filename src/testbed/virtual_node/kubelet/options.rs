//! The version of a kubelet, and its timing.

use std::time::Duration;

/// The longest back-off of pulls, and by default of restarts.
pub(super) const LONGEST_BACKOFF: Duration = Duration::from_secs(300);

/// A kubelet version of `docs/measured.md`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum KubeletVersion {
    /// 1.30: ignores new images of native sidecars.
    V1_30,
    /// 1.32: like 1.34 without `observedGeneration`.
    V1_32,
    /// 1.34: reports `observedGeneration`.
    V1_34,
    /// 1.36: keeps `lastState`.
    V1_36,
    /// 1.37: like 1.36.
    #[default]
    V1_37,
}

impl KubeletVersion {
    /// Returns the version as a node reports it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::V1_30 => "v1.30.14",
            Self::V1_32 => "v1.32.13",
            Self::V1_34 => "v1.34.4",
            Self::V1_36 => "v1.36.3",
            Self::V1_37 => "v1.37.2",
        }
    }
}

/// The runtime that a kubelet calls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Runtime {
    /// containerd: what cannot be started is a container that has ended (`StartError`).
    #[default]
    Containerd,
    /// CRI-O: what cannot be started is no container (`CreateContainerError`).
    Crio,
}

/// The behaviour of a kubelet. The times are those of a quiet node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KubeletOptions {
    /// The version that its node reports.
    pub version: KubeletVersion,
    /// The time from a change of a pod at the API server until the kubelet acts on it.
    pub notice: Duration,
    /// The interval at which containers are listed: no change of them is noticed sooner.
    pub relist: Duration,
    /// How long a pod's sandbox takes.
    pub sandbox: Duration,
    /// How long it takes to create and start a container.
    pub start: Duration,
    /// How long an exit image runs.
    pub exit_runs: Duration,
    /// The time from a new status until it is sent.
    pub status_delay: Duration,
    /// The interval at which statuses are compared with the API server.
    pub reconcile: Duration,
    /// The wait after a failed start.
    pub retry: Duration,
    /// The longest back-off of restarts, at least 1 s
    /// (`crashLoopBackOff.maxContainerRestartPeriod`).
    pub longest_backoff: Duration,
    /// The runtime.
    pub runtime: Runtime,
    /// True if an image that was pulled is for those only who could pull it (KEP-2535).
    pub checks_credentials: bool,
    /// True if `lastState` outlives the end of the next container.
    pub keeps_last_state: bool,
    /// True if `status.observedGeneration` is set.
    pub observed_generation: bool,
    /// True if a native sidecar restarts when its image changes.
    pub restarts_native_sidecars: bool,
}

impl KubeletOptions {
    /// Returns the options of a version.
    pub fn of(version: KubeletVersion) -> Self {
        Self {
            version,
            notice: Duration::from_millis(100),
            relist: Duration::from_secs(1),
            sandbox: Duration::from_millis(200),
            start: Duration::from_millis(50),
            exit_runs: Duration::from_millis(10),
            status_delay: Duration::from_millis(20),
            reconcile: Duration::from_secs(10),
            retry: Duration::from_secs(10),
            longest_backoff: LONGEST_BACKOFF,
            runtime: Runtime::default(),
            // From 1.35 on.
            checks_credentials: version >= KubeletVersion::V1_36,
            keeps_last_state: version >= KubeletVersion::V1_36,
            observed_generation: version >= KubeletVersion::V1_34,
            restarts_native_sidecars: version > KubeletVersion::V1_30,
        }
    }
}

impl Default for KubeletOptions {
    fn default() -> Self {
        Self::of(KubeletVersion::default())
    }
}
