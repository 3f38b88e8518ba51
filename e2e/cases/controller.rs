//! The controller of a case: a process of its own, or swaplet as an operator has it, which is two
//! replicas that Helm has installed.
//!
//! Where `SWAPLET_E2E_INSTALLED` names a file, it is installed, with the flags of the case as
//! values of the chart: by a release of its own, or by one that cases with the same flags share
//! (`shared.rs`). The few cases that need a process all the same say [`Why`], and are written into
//! that file.

use std::fmt;
use std::fs::OpenOptions;
use std::io::Write as _;

use crate::install::installed::Installed;
use crate::process::Process;
use crate::world::{World, installed};

pub enum Controller {
    Process(Process),
    Installed(Installed),
}

/// Why a case is not run against an installation. There are no other reasons.
#[derive(Clone, Copy)]
pub enum Why {
    /// A proxy between it and the API server lets its case see and stop each request.
    Witnessed,
    /// It is killed in a moment that its case chooses, and the next one starts at once.
    KilledInAMoment,
    /// It is stopped and continued beside others, by signals.
    Signalled,
    /// It speaks to the registry of this cluster, which cannot be reached from pods.
    Registry,
    /// It lacks a right that the chart gives, or has a flag that the leash of the chart would
    /// follow.
    NotByTheChart,
}

impl fmt::Display for Why {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::Witnessed => "a proxy between the controller and the API server stops single requests",
            Self::KilledInAMoment => "the controller is killed in a chosen moment, and the next one starts at once",
            Self::Signalled => "the controller is stopped and continued by signals",
            Self::Registry => "the controller speaks to the registry of this cluster, which pods do not reach",
            Self::NotByTheChart => {
                "the controller lacks a right that the chart gives, or differs from the leash, which the chart's does not"
            }
        })
    }
}

/// It writes no phase of pods.
pub const SWAPS_ONLY: [&str; 2] = ["--finish", "never"];

impl Controller {
    /// Starts one that writes no phase: what it ends is ended by swaps, also where a busy node shows
    /// that so late that the phase would be written.
    pub async fn of_swaps(world: &World) -> Self {
        Self::start_with(world, &SWAPS_ONLY).await
    }

    /// Starts it and waits until it watches.
    pub async fn start(world: &World) -> Self {
        Self::start_with(world, &[]).await
    }

    /// Starts it so that what it learns of nodes outlives it.
    pub async fn keeping_verdicts(world: &World) -> Self {
        Self::start_with(world, &["--state-namespace", &world.namespace]).await
    }

    /// OpenKruise may be on the cluster for cases about it; to all others it is as if it were not.
    pub async fn start_with(world: &World, arguments: &[&str]) -> Self {
        Self::start_beside_openkruise(world, &[arguments, &["--coexist=own"]].concat()).await
    }

    /// As it is started without a word about OpenKruise.
    pub async fn start_beside_openkruise(world: &World, arguments: &[&str]) -> Self {
        if installed().is_some() {
            return Self::Installed(Installed::start(world, arguments).await);
        }
        Self::Process(Process::start_beside_openkruise(world, arguments).await)
    }

    /// A process in any case.
    pub async fn process(world: &World, arguments: &[&str], why: Why) -> Process {
        assert_no_installation(why);
        Process::start_with(world, arguments).await
    }

    /// It is killed by SIGKILL, and another one takes over: the next process, or the replica that
    /// stood by.
    pub async fn killed(self, world: &World, arguments: &[&str]) -> Self {
        match self {
            Self::Process(process) => {
                process.kill().await;
                Self::start_with(world, arguments).await
            }
            Self::Installed(installed) => {
                installed.kill_leader().await;
                Self::Installed(installed)
            }
        }
    }
}

/// To be said where processes are started.
pub fn assert_no_installation(why: Why) {
    let Some(file) = installed() else { return };
    let case = std::thread::current().name().unwrap_or_default().to_owned();
    // One write per line: other cases write at the same time.
    let mut file = OpenOptions::new()
        .append(true)
        .create(true)
        .open(file)
        .unwrap();
    file.write_all(format!("{case}: {why}\n").as_bytes())
        .unwrap();
}
