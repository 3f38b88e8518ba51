//! Which nodes are compared: the same options in the words of both.

use std::time::Duration;

use swaplet_testbed::virtual_node::{Gap, OnUpdate, ProviderOptions};

/// A node that is started on the real library and played by ours.
pub struct Profile {
    pub name: &'static str,
    /// For the program on the real library.
    pub flags: &'static [&'static str],
    /// The same for ours.
    pub options: fn(ProviderOptions) -> ProviderOptions,
}

pub const PROFILES: &[Profile] = &[
    Profile {
        name: "updates",
        flags: &[],
        options: |usual| usual,
    },
    Profile {
        name: "updates-counted",
        flags: &[
            "--container-ids",
            "new",
            "--restart-count",
            "counted",
            "--image-id",
            "digest",
        ],
        options: |usual| ProviderOptions {
            new_container_ids: true,
            counts_restarts: true,
            reports_image_id: true,
            ..usual
        },
    },
    Profile {
        name: "updates-late",
        flags: &[
            "--update-latency",
            "300ms",
            "--restart-count",
            "counted",
            "--exit-runs",
            "400ms",
        ],
        options: |usual| ProviderOptions {
            update_latency: Duration::from_millis(300),
            counts_restarts: true,
            exit_runs: Duration::from_millis(400),
            ..usual
        },
    },
    Profile {
        name: "updates-reported",
        flags: &["--gap", "reported", "--restart-count", "counted"],
        options: |usual| ProviderOptions {
            gap: Gap::Reported,
            counts_restarts: true,
            ..usual
        },
    },
    Profile {
        name: "updates-judged",
        flags: &["--gap", "judged", "--container-ids", "new"],
        options: |usual| ProviderOptions {
            gap: Gap::Judged,
            new_container_ids: true,
            ..usual
        },
    },
    Profile {
        name: "updates-reverting",
        flags: &["--metadata", "reverting", "--image-id", "digest"],
        options: |usual| ProviderOptions {
            keeps_metadata: false,
            reports_image_id: true,
            ..usual
        },
    },
    Profile {
        name: "inert",
        flags: &["--profile", "inert"],
        options: |usual| ProviderOptions {
            on_update: OnUpdate::Nothing,
            ..usual
        },
    },
    Profile {
        name: "rejects",
        flags: &["--profile", "rejects"],
        options: |usual| ProviderOptions {
            on_update: OnUpdate::Fails,
            ..usual
        },
    },
];
