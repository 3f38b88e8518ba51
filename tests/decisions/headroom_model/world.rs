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
    /// Sidecars that have the exit image; the first ones.
    pub(super) swapped: u8,
    /// Sidecars that were restarted with the exit image.
    pub(super) restarted: u8,
    /// An exit image has ended badly, and is started again when its back-off is over.
    pub(super) fails: bool,
    /// Restarts of exit images that have ended badly.
    pub(super) again: u8,
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
    /// As it is counted: with what was stored, where more swaps are to follow.
    pub(super) counted: State,
    /// The swaps that the watch has to show until older states are over.
    pub(super) awaited: u8,
    /// It has been seen since the controller started.
    pub(super) seen: bool,
    pub(super) ready: bool,
    pub(super) in_flight: bool,
    /// The swaps that the pod showed when the write in flight, or the last one, began.
    pub(super) from: u8,
    pub(super) backs_off: bool,
    /// Writes, one after another, that were undone.
    pub(super) denials: u8,
    /// They were so many that no swap is tried for long.
    pub(super) closed: bool,
    pub(super) unseen: Unseen,
    pub(super) answer: Answer,
}

/// A write that may have been applied, and that the watch has not shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Unseen {
    #[default]
    Nothing,
    /// The answer was lost.
    Doubtful,
    /// The answer says what was stored.
    Stored,
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
    /// Writes of which a webhook undoes all, or all but one swap.
    pub(super) undoings: u8,
    /// Exit images that end badly once.
    pub(super) bad_ends: u8,
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
    /// Whether a webhook never lets the last sidecar of the first pod be swapped.
    pub(super) undoes: bool,
    /// Whether exit images may end badly once by what is known of them: two restarts are reserved
    /// for each.
    pub(super) doubtful: bool,
}

/// One thing that happens.
#[derive(Clone, Copy, Debug)]
pub(super) enum Step {
    MainEnds(usize),
    NodeRestarts(usize),
    /// The same, and the exit image ends badly.
    EndsBadly(usize),
    /// The back-off of an exit image is over.
    StartsAgain(usize),
    PodFinishes(usize),
    RestartsByItself(usize),
    Deleted(usize),
    Delivered,
    Begins(usize),
    Applied(usize),
    /// One swap is stored, and the others are undone.
    Partly(usize),
    /// It is answered with success, and nothing of it is stored.
    Undone(usize),
    Refused(usize),
    /// The answer is lost; whether the write was applied.
    Lost(usize, bool),
    BackoffEnds(usize),
    /// After long, what was undone is tried once more.
    Reopens(usize),
    /// So much time has passed that a lost write was applied and seen, or never will be.
    TooLate(usize),
    Raised,
    Killed,
}

impl State {
    pub(super) fn restarts(&self) -> u8 {
        self.others + self.restarted + self.again
    }

    /// Restarts, done and to come, that no swap causes if its exit image ends well.
    pub(super) fn extra(&self) -> u8 {
        self.others + self.again + u8::from(self.fails)
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
            undoes: false,
            doubtful: false,
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
        for at in 0..self.pods.len() {
            let may = [self.steps_of_pod(at), self.steps_of_write(at)].concat();
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

    fn steps_of_pod(&self, at: usize) -> Vec<(bool, Step)> {
        let (pod, left) = (&self.pods[at], &self.left);
        let alive = pod.counts();
        let starts = alive && pod.restarted < pod.swapped;
        vec![
            (alive && pod.main_ended == 0, Step::MainEnds(at)),
            (starts, Step::NodeRestarts(at)),
            (
                starts && left.bad_ends > 0 && !pod.fails,
                Step::EndsBadly(at),
            ),
            (alive && pod.fails, Step::StartsAgain(at)),
            (
                alive && pod.main_ended > 0 && self.is_ended(at),
                Step::PodFinishes(at),
            ),
            (
                alive && left.restarts > 0 && (pod.main_ended == 0 || !self.only_mains_restart),
                Step::RestartsByItself(at),
            ),
            (alive && left.deletions > 0, Step::Deleted(at)),
        ]
    }

    /// The write of a pod, and what becomes of it.
    fn steps_of_write(&self, at: usize) -> Vec<(bool, Step)> {
        let (pod, known, left) = (&self.pods[at], &self.known[at], &self.left);
        let (sent, can_be) = (self.sidecars - known.from, self.most(at) - known.from);
        let (is_whole, undoes) = (can_be == sent, left.undoings > 0);
        vec![
            (known.ready, Step::Begins(at)),
            (known.in_flight && is_whole, Step::Applied(at)),
            (
                known.in_flight && sent > 1 && (undoes || !is_whole),
                Step::Partly(at),
            ),
            (known.in_flight && (undoes || can_be == 0), Step::Undone(at)),
            (known.in_flight && left.refusals > 0, Step::Refused(at)),
            (known.in_flight && left.losses > 0, Step::Lost(at, true)),
            (known.in_flight && left.losses > 0, Step::Lost(at, false)),
            (known.backs_off, Step::BackoffEnds(at)),
            (known.closed && pod.counts(), Step::Reopens(at)),
            (
                known.unseen == Unseen::Doubtful
                    && !known.in_flight
                    && pod.swapped == known.watched.swapped,
                Step::TooLate(at),
            ),
        ]
    }

    /// The swaps of a pod that are stored if they are written.
    pub(super) fn most(&self, at: usize) -> u8 {
        self.sidecars - u8::from(self.undoes && at == 0)
    }

    /// By its swaps or by its phase.
    fn is_ended(&self, at: usize) -> bool {
        let (pod, known) = (&self.pods[at], &self.known[at]);
        let is_free = !known.in_flight && known.unseen == Unseen::Nothing;
        let is_settled = pod.restarted == pod.swapped && !pod.fails;
        let is_finished = is_free && self.ends_by_phase(at);
        is_settled && (pod.swapped == self.sidecars || is_finished)
    }

    /// What somebody still needs, where that can be swapped.
    fn still_needs(&self, at: usize) -> u32 {
        u32::from(self.sidecars - self.pods[at].swapped) * self.reserved()
    }

    /// The restarts that are reserved for a swap.
    pub(super) fn reserved(&self) -> u32 {
        if self.doubtful { 2 } else { 1 }
    }

    pub(super) fn changes(&mut self, at: usize, change: impl FnOnce(&mut State)) {
        change(&mut self.pods[at]);
        self.events.push_back((at, self.pods[at]));
    }

    /// The guard: only a pod that shows the old images is written. So many swaps are stored.
    pub(super) fn apply(&mut self, at: usize, swaps: u8) -> bool {
        let pod = self.pods[at];
        let from = self.known[at].from;
        let applies = !pod.gone && pod.swapped == from;
        if applies && swaps > 0 {
            self.changes(at, |pod| pod.swapped += swaps);
        }
        applies
    }

    pub(super) fn fails_to_write(&mut self, at: usize, lost: bool) {
        let known = &mut self.known[at];
        known.in_flight = false;
        known.backs_off = true;
        if lost && known.watched.swapped < self.sidecars {
            known.unseen = known.unseen.max(Unseen::Doubtful);
        }
        self.reconcile(at);
    }

    /// Nothing happens any more but what somebody else does to us.
    pub(super) fn is_at_rest(&self, steps: &[Step]) -> bool {
        let ours = |step: &Step| {
            !matches!(
                step,
                Step::RestartsByItself(_)
                    | Step::Deleted(_)
                    | Step::Raised
                    | Step::Killed
                    | Step::Reopens(_)
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
        // Who comes after a pod that is half-way for good leaves a rest, and is told to wait; that
        // its patience with that ends is no matter of the ledger.
        let is_stuck = |at: &usize| self.known[*at].closed && self.pods[*at].swapped > 0;
        let are_behind = waiting.iter().any(is_stuck);
        for at in &waiting {
            let is_excused = self.known[*at].closed || are_behind;
            assert!(
                is_excused || self.fails(sum + self.still_needs(*at)),
                "somebody could go on: {self:#?}"
            );
        }
        let is_told =
            |at: &usize| self.known[*at].answer == Answer::Never || self.known[*at].closed;
        assert!(
            waiting.is_empty() || waiting.iter().any(is_told),
            "nothing is said: {self:#?}"
        );
    }
}
