//! The readiness of a container that was restarted.

use std::time::Duration;

use super::{READY_WITHIN, STARTUP_SETTLES, Step, Target, code};
use crate::objects::moment::Moment;
use crate::objects::pod::ContainerState;
use crate::restart::reconcile::circumstances::age;
use crate::restart::request::StatePhase;

impl Target<'_> {
    /// Decides for a restarted container: final once it is ready for long enough.
    pub(crate) fn becomes_ready(&self) -> Step {
        let now = self.case.around.now;
        let name = &self.container.name;
        if let ContainerState::Terminated(end) = &self.status.state
            && self
                .container
                .comes_back_after(&self.case.pod.pod, end.exit_code)
                != Some(true)
        {
            let phase = if end.exit_code == Some(0) {
                StatePhase::Succeeded
            } else {
                StatePhase::Failed
            };
            return Step::Final(
                phase,
                format!(
                    "it was restarted, and has ended with exit code {}",
                    code(end.exit_code)
                ),
            );
        }
        let enough = Duration::from_secs(self.case.request.strategy.min_started_seconds.into());
        let settled = self
            .case
            .memory
            .ready_at(name)
            .map(|at| at + self.settles());
        let stays = settled.map(|at| at.max(self.runs_since() + enough));
        match stays {
            Some(at) if at <= now => Step::Final(StatePhase::Succeeded, String::new()),
            stays => self.awaits_ready(stays, enough),
        }
    }

    fn awaits_ready(&self, stays: Option<Moment>, enough: Duration) -> Step {
        let deadline = Duration::from_secs(
            self.case
                .request
                .active_deadline_seconds
                .unwrap_or_default()
                .into(),
        );
        let within = READY_WITHIN.max(deadline).saturating_add(enough);
        let until = self
            .case
            .memory
            .restarted_at(&self.container.name)
            .unwrap_or(self.case.around.now)
            + within;
        if self.case.around.now < until {
            return Step::Works(Some(stays.map_or(until, |at| at.min(until))));
        }
        Step::Final(
            StatePhase::Failed,
            format!(
                "it was restarted, and has not been ready, {} s after its start, in {} s",
                enough.as_secs(),
                within.as_secs()
            ),
        )
    }

    /// Returns since when the present container runs, as its node reports. The node's clock may be
    /// wrong, so this is not before the change of the image and not after it was first observed.
    fn runs_since(&self) -> Moment {
        let seen = self
            .case
            .memory
            .running_at(&self.container.name)
            .unwrap_or(self.case.around.now);
        let ContainerState::Running {
            started_at: Some(started),
        } = &self.status.state
        else {
            return seen;
        };
        let earliest = self
            .case
            .memory
            .changed_at(&self.container.name)
            .unwrap_or(seen)
            .min(seen);
        let started = self.case.around.now - age(*started, self.case.around);
        started.clamp(earliest, seen)
    }

    const fn settles(&self) -> Duration {
        if self.details.has_startup_probe {
            STARTUP_SETTLES
        } else {
            Duration::ZERO
        }
    }
}
