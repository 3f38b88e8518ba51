//! Which provider is played. The words and their meaning are those of the mock provider on the real
//! virtual-kubelet library (`e2e/virtual-kubelet-mock`), so that the two can be compared.

use std::time::Duration;

/// What the provider's `UpdatePod` does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnUpdate {
    /// Running containers whose image has changed are stopped and started again.
    #[default]
    Replaces,
    /// Nothing, and it says that all is well.
    Nothing,
    /// It fails.
    Fails,
}

/// How statuses reach the API server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StatusMode {
    /// The provider tells of changes.
    #[default]
    Notify,
    /// The provider is asked every five seconds.
    Poll,
}

/// What is seen between the end of the old container and the start of the new one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Gap {
    /// Nothing.
    #[default]
    Hidden,
    /// The old one's end.
    Reported,
    /// The old one's end, and a phase made of it, which may be final.
    Judged,
}

/// How a virtual node behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProviderOptions {
    /// What `UpdatePod` does.
    pub on_update: OnUpdate,
    /// How statuses reach the API server.
    pub status: StatusMode,
    /// Whether a container gets a new `containerID` with each start.
    pub new_container_ids: bool,
    /// Whether `restartCount` counts.
    pub counts_restarts: bool,
    /// Whether `imageID` is reported.
    pub reports_image_id: bool,
    /// What is seen in the gap.
    pub gap: Gap,
    /// Whether changed labels and annotations are kept; if not, the next status report reverts
    /// them.
    pub keeps_metadata: bool,
    /// Whether a container that ended with 0 is shown as running.
    pub completed_as_running: bool,
    /// How long an exit image is seen running.
    pub exit_runs: Duration,
    /// How long the start of a container takes, pull included.
    pub start_delay: Duration,
    /// From `UpdatePod` until the old containers get SIGTERM.
    pub update_latency: Duration,
    /// From a change until its report is sent.
    pub status_delay: Duration,
}

impl Default for ProviderOptions {
    fn default() -> Self {
        Self {
            on_update: OnUpdate::default(),
            status: StatusMode::default(),
            new_container_ids: false,
            counts_restarts: false,
            reports_image_id: false,
            gap: Gap::default(),
            keeps_metadata: true,
            completed_as_running: false,
            exit_runs: Duration::from_secs(1),
            start_delay: Duration::from_millis(200),
            update_latency: Duration::ZERO,
            status_delay: Duration::from_millis(20),
        }
    }
}
