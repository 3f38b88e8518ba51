//! The options of a provider. The words and their meaning are those of the mock provider on the
//! real virtual-kubelet library (`e2e/virtual-kubelet-mock`), so that the two can be compared.

use std::time::Duration;

/// The behaviour of the provider's `UpdatePod`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnUpdate {
    /// Stops and restarts running containers whose image has changed.
    #[default]
    Replaces,
    /// Does nothing, and reports success.
    Nothing,
    /// Fails with an error.
    Fails,
}

/// The way of statuses to the API server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StatusMode {
    /// The provider notifies the library of changes.
    #[default]
    Notify,
    /// The library polls the provider every five seconds.
    Poll,
}

/// The status shown between the end of the old container and the start of the new one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Gap {
    /// The gap is not shown.
    #[default]
    Hidden,
    /// The end of the old container.
    Reported,
    /// The end of the old container, and a phase derived from it, which may be final.
    Judged,
}

/// The options of a virtual node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProviderOptions {
    /// The behaviour of `UpdatePod`.
    pub on_update: OnUpdate,
    /// The way of statuses to the API server.
    pub status: StatusMode,
    /// True if a container gets a new `containerID` with each start.
    pub new_container_ids: bool,
    /// True if `restartCount` counts.
    pub counts_restarts: bool,
    /// True if `imageID` is reported.
    pub reports_image_id: bool,
    /// The status shown in the gap.
    pub gap: Gap,
    /// True if changed labels and annotations are kept; if not, the next status report reverts
    /// them.
    pub keeps_metadata: bool,
    /// True if a container that ended with 0 is shown as running.
    pub completed_as_running: bool,
    /// How long an exit image is shown as running.
    pub exit_runs: Duration,
    /// How long the start of a container takes, pull included.
    pub start_delay: Duration,
    /// The time from `UpdatePod` until the old containers get SIGTERM.
    pub update_latency: Duration,
    /// The time from a change until its report is sent.
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
