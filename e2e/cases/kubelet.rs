//! The kubelet of the cluster is killed, and started as a case wants it. It is the only one, so no
//! other case runs meanwhile.

use std::process::{Command, Stdio};

const CLUSTER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/e2e/cluster");

/// The kubelet is dead until this is dropped.
pub struct Killed {
    /// How long the next one makes containers wait that crash, at most.
    back_off: Option<&'static str>,
}

impl Killed {
    pub fn new() -> Self {
        Self::until_one_with(None)
    }

    fn until_one_with(back_off: Option<&'static str>) -> Self {
        run(Command::new(CLUSTER).arg("kubelet-stop"));
        Self { back_off }
    }
}

impl Drop for Killed {
    fn drop(&mut self) {
        run(Command::new(CLUSTER)
            .arg("kubelet-start")
            .args(self.back_off));
    }
}

/// Containers that crash wait no longer than this, until it is dropped
/// (`crashLoopBackOff.maxContainerRestartPeriod`).
pub struct BackOff;

impl BackOff {
    pub fn at_most(period: &'static str) -> Self {
        drop(Killed::until_one_with(Some(period)));
        Self
    }
}

impl Drop for BackOff {
    fn drop(&mut self) {
        drop(Killed::new());
    }
}

pub fn run(command: &mut Command) {
    let status = command.stdout(Stdio::null()).status();
    assert!(
        status.as_ref().is_ok_and(std::process::ExitStatus::success),
        "{command:?}: {status:?}"
    );
}
