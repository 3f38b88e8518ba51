//! What happens to pods, and what the Job controller makes of it.

mod steps;

use std::collections::VecDeque;

use swaplet_core::cluster::headroom::Ledger;
use swaplet_core::objects::job::JobRef;
use swaplet_core::objects::pod::{
    Container, ContainerState, ContainerStatus, Phase, Pod, RestartPolicy, Terminated,
};
use swaplet_core::objects::values::env::Mark;

pub(super) const JOB: &str = "job-uid";

/// A pod as the API server has it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct State {
    /// The order in which its main ended; 0 while it runs.
    pub(super) main_ended: u8,
    pub(super) swapped: bool,
    /// Sidecars that were restarted with the exit image.
    pub(super) restarted: u8,
    /// Restarts that nobody asked for.
    pub(super) others: u8,
    pub(super) finished: bool,
    pub(super) gone: bool,
}

/// What the controller knows and does about one pod.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Known {
    /// With what our own write says.
    pub(super) view: State,
    /// As the watch has shown it.
    pub(super) watched: State,
    /// It has been seen since the controller started.
    pub(super) seen: bool,
    pub(super) ready: bool,
    pub(super) in_flight: bool,
    pub(super) backs_off: bool,
    /// A write may have been applied that the watch has not shown.
    pub(super) unseen: bool,
    pub(super) answer: Answer,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) enum Answer {
    #[default]
    None,
    Go,
    Wait,
    Never,
}

/// Disturbances that are left.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Left {
    pub(super) restarts: u8,
    pub(super) deletions: u8,
    pub(super) refusals: u8,
    pub(super) losses: u8,
    pub(super) kills: u8,
    pub(super) raises: u8,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct World {
    pub(super) limit: u32,
    pub(super) sidecars: u8,
    pub(super) pods: Vec<State>,
    /// Changes that the watch has not delivered.
    pub(super) events: VecDeque<(usize, State)>,
    pub(super) known: Vec<Known>,
    pub(super) ledger: Ledger,
    pub(super) list: u64,
    pub(super) left: Left,
    pub(super) ends: u8,
    /// Restarts by others of each pod that the last write could not know of.
    pub(super) excused: Vec<u8>,
    /// Whether every pod writes as soon as it wants to.
    pub(super) naive: bool,
    /// Whether only main containers restart by themselves.
    pub(super) only_mains_restart: bool,
    /// Whether the phase is written of pods whose swaps never fit.
    pub(super) finishes: bool,
}

/// One thing that happens.
#[derive(Clone, Copy, Debug)]
pub(super) enum Step {
    MainEnds(usize),
    NodeRestarts(usize),
    PodFinishes(usize),
    RestartsByItself(usize),
    Deleted(usize),
    Delivered,
    Begins(usize),
    Applied(usize),
    Refused(usize),
    /// The answer is lost; whether the write was applied.
    Lost(usize, bool),
    BackoffEnds(usize),
    /// So much time has passed that a lost write was applied and seen, or never will be.
    TooLate(usize),
    Raised,
    Killed,
}

impl State {
    pub(super) fn restarts(&self) -> u8 {
        self.others + self.restarted
    }

    pub(super) fn counts(&self) -> bool {
        !self.finished && !self.gone
    }

    pub(super) fn pod(&self, name: usize) -> Pod {
        let state = match self.main_ended {
            0 => ContainerState::Running { started_at: None },
            order => {
                let finished_at = Some(jiff::Timestamp::from_second(order.into()).unwrap());
                ContainerState::Terminated(Box::new(Terminated {
                    exit_code: Some(0),
                    finished_at,
                    ..Terminated::default()
                }))
            }
        };
        let status = ContainerStatus {
            image: "m".into(),
            image_digest: None,
            container_id: "m".into(),
            restart_count: 0,
            state,
            last_end: None,
        };
        let main = Container {
            name: "main".into(),
            image: "m".into(),
            restart_policy: None,
            restart_rules: Vec::new(),
            mark: Mark::default(),
            rule: None,
            facts: None,
            status: Some(status),
        };
        Pod {
            namespace: "ns".into(),
            name: format!("p{name}").into(),
            uid: format!("u{name}").into(),
            deleting: false,
            job: Some(Box::new(JobRef {
                uid: JOB.into(),
                name: "job".into(),
            })),
            owner: None,
            restart_policy: RestartPolicy::OnFailure,
            grace_seconds: None,
            phase: if self.finished {
                Phase::Succeeded
            } else {
                Phase::Running
            },
            containers: vec![main],
            other_restarts: self.restarts().into(),
            clock_behind: 0,
            annotation_problem: None,
            refused_policy: None,
            all_restart: false,
            restarter: None,
            native_end: None,
            outranked_policies: Box::default(),
            malformed: None,
            node: "node".into(),
            reason: Box::default(),
            phase_was_written: false,
            phase_was_ours: false,
            on_acs: false,
            platform_ends_sidecars: false,
            node_runs_on: swaplet_core::objects::runs_on::RunsOn::named(
                Some("linux"),
                Some("amd64"),
            ),
            version: Box::default(),
        }
    }
}

impl World {
    pub(super) fn new(limit: u32, pods: usize, sidecars: u8, left: Left) -> Self {
        let mut world = Self {
            limit,
            sidecars,
            pods: vec![State::default(); pods],
            events: VecDeque::new(),
            known: vec![Known::default(); pods],
            ledger: Ledger::default(),
            list: 0,
            left,
            ends: 0,
            excused: vec![0; pods],
            naive: false,
            only_mains_restart: false,
            finishes: false,
        };
        world.controller_starts();
        world
    }

    /// The sum that the Job controller compares with the limit; without restarts that no write
    /// could know of.
    pub(super) fn sum(&self, with_excused: bool) -> u32 {
        let counted = self
            .pods
            .iter()
            .zip(&self.excused)
            .filter(|(pod, _)| pod.counts());
        counted
            .map(|(pod, excused)| {
                u32::from(pod.restarts() - if with_excused { 0 } else { *excused })
            })
            .sum()
    }

    /// The Job controller's own rule.
    pub(super) fn fails(&self, sum: u32) -> bool {
        if self.limit == 0 {
            sum > 0
        } else {
            sum >= self.limit
        }
    }

    pub(super) fn steps(&self) -> Vec<Step> {
        let mut steps = Vec::new();
        for (at, (pod, known)) in self.pods.iter().zip(&self.known).enumerate() {
            let left = &self.left;
            let alive = pod.counts();
            let may = [
                (alive && pod.main_ended == 0, Step::MainEnds(at)),
                (
                    alive && pod.swapped && pod.restarted < self.sidecars,
                    Step::NodeRestarts(at),
                ),
                (
                    alive && pod.main_ended > 0 && self.is_ended(at),
                    Step::PodFinishes(at),
                ),
                (
                    alive && left.restarts > 0 && (pod.main_ended == 0 || !self.only_mains_restart),
                    Step::RestartsByItself(at),
                ),
                (alive && left.deletions > 0, Step::Deleted(at)),
                (known.ready, Step::Begins(at)),
                (known.in_flight, Step::Applied(at)),
                (known.in_flight && left.refusals > 0, Step::Refused(at)),
                (known.in_flight && left.losses > 0, Step::Lost(at, true)),
                (known.in_flight && left.losses > 0, Step::Lost(at, false)),
                (known.backs_off, Step::BackoffEnds(at)),
                (
                    known.unseen && !known.in_flight && !pod.swapped,
                    Step::TooLate(at),
                ),
            ];
            steps.extend(
                may.into_iter()
                    .filter(|(may, _)| *may)
                    .map(|(_, step)| step),
            );
        }
        let may = [
            (!self.events.is_empty(), Step::Delivered),
            (self.left.raises > 0, Step::Raised),
            // A write of an earlier life that comes after the list of the next one is beyond what
            // anybody can know.
            (
                self.left.kills > 0 && !self.known.iter().any(|known| known.in_flight),
                Step::Killed,
            ),
        ];
        steps.extend(
            may.into_iter()
                .filter(|(may, _)| *may)
                .map(|(_, step)| step),
        );
        steps
    }

    /// By its swaps or by its phase.
    fn is_ended(&self, at: usize) -> bool {
        let (pod, known) = (&self.pods[at], &self.known[at]);
        let is_free = !known.in_flight && !known.unseen && !pod.swapped;
        pod.restarted == self.sidecars
            || (self.finishes && is_free && known.answer == Answer::Never)
    }

    pub(super) fn changes(&mut self, at: usize, change: impl FnOnce(&mut State)) {
        change(&mut self.pods[at]);
        self.events.push_back((at, self.pods[at]));
    }

    /// The guard: only a pod that shows the old images is written.
    pub(super) fn apply(&mut self, at: usize) -> bool {
        let pod = self.pods[at];
        let applies = !pod.gone && !pod.swapped;
        if applies {
            self.changes(at, |pod| pod.swapped = true);
        }
        applies
    }

    pub(super) fn fails_to_write(&mut self, at: usize, lost: bool) {
        let known = &mut self.known[at];
        known.in_flight = false;
        known.backs_off = true;
        known.unseen |= lost && !known.watched.swapped;
        self.reconcile(at);
    }

    /// Nothing happens any more but what somebody else does to us.
    pub(super) fn is_at_rest(&self, steps: &[Step]) -> bool {
        let ours = |step: &Step| {
            !matches!(
                step,
                Step::RestartsByItself(_) | Step::Deleted(_) | Step::Raised | Step::Killed
            )
        };
        !steps.iter().any(ours)
    }

    pub(super) fn all_ended(&self) -> bool {
        !self.pods.iter().any(State::counts)
    }

    pub(super) fn after(&self, step: Step) -> Self {
        let mut next = self.clone();
        next.takes(step);
        next
    }

    /// Whoever has not ended could not, and it is said.
    pub(super) fn check_rest(&self) {
        let waiting: Vec<_> = (0..self.pods.len())
            .filter(|at| self.pods[*at].counts())
            .collect();
        let sum = self.sum(true);
        assert!(
            waiting.is_empty() || self.fails(sum + u32::from(self.sidecars)),
            "somebody could go on: {self:#?}"
        );
        assert!(
            waiting.is_empty()
                || waiting
                    .iter()
                    .any(|at| self.known[*at].answer == Answer::Never),
            "nothing is said: {self:#?}"
        );
    }
}
