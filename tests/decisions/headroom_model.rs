//! The ledger against a small model of the Job controller, of nodes and of a watch that lags: every order of events.
//!
//! What is explored: mains end, nodes restart what was swapped, containers restart by themselves, pods are deleted, writes are
//! applied, refused or lost, the limit is raised, the controller is killed and started, and each event of a pod is seen any time
//! later, in order. What must hold: no Job fails by swaps that the ledger granted, and at the end nobody waits who could go on.

use std::collections::{HashSet, VecDeque};
use std::hash::{DefaultHasher, Hash, Hasher};

use proptest::prelude::*;
use swaplet::decide::headroom::{Headroom, Ledger, Need, Swapped};
use swaplet::objects::env::Mark;
use swaplet::objects::job::{Job, JobRef};
use swaplet::objects::pod::{Container, ContainerState, ContainerStatus, Phase, Pod, RestartPolicy, Terminated};

const JOB: &str = "job-uid";

/// A pod as the API server has it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct State {
    /// The order in which its main ended; 0 while it runs.
    main_ended: u8,
    swapped: bool,
    /// Sidecars that were restarted with the exit image.
    restarted: u8,
    /// Restarts that nobody asked for.
    others: u8,
    finished: bool,
    gone: bool,
}

/// What the controller knows and does about one pod.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct Known {
    /// With what our own write says.
    view: State,
    /// As the watch has shown it.
    watched: State,
    /// It has been seen since the controller started.
    seen: bool,
    ready: bool,
    in_flight: bool,
    backs_off: bool,
    /// A write may have been applied that the watch has not shown.
    unseen: bool,
    answer: Answer,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
enum Answer {
    #[default]
    None,
    Go,
    Wait,
    Never,
}

/// Disturbances that are left.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct Left {
    restarts: u8,
    deletions: u8,
    refusals: u8,
    losses: u8,
    kills: u8,
    raises: u8,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct World {
    limit: u32,
    sidecars: u8,
    pods: Vec<State>,
    /// Changes that the watch has not delivered.
    events: VecDeque<(usize, State)>,
    known: Vec<Known>,
    ledger: Ledger,
    list: u64,
    left: Left,
    ends: u8,
    /// Restarts by others of each pod that the last write could not know of.
    excused: Vec<u8>,
    /// Whether every pod writes as soon as it wants to.
    naive: bool,
}

/// One thing that happens.
#[derive(Clone, Copy, Debug)]
enum Step {
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
    fn restarts(&self) -> u8 {
        self.others + self.restarted
    }

    fn counts(&self) -> bool {
        !self.finished && !self.gone
    }

    fn pod(&self, name: usize) -> Pod {
        let state = match self.main_ended {
            0 => ContainerState::Running { started_at: None },
            order => {
                let finished_at = Some(jiff::Timestamp::from_second(order.into()).unwrap());
                ContainerState::Terminated(Terminated { exit_code: Some(0), finished_at, ..Terminated::default() })
            }
        };
        let status = ContainerStatus { image: "m".into(), container_id: "m".into(), restart_count: 0, state, last_end: None };
        let main = Container {
            name: "main".into(),
            image: "m".into(),
            restart_policy: None,
            has_restart_rules: false,
            mark: Mark::default(),
            facts: None,
            status: Some(status),
        };
        Pod {
            namespace: "ns".into(),
            name: format!("p{name}").into(),
            uid: format!("u{name}").into(),
            deleting: false,
            job: Some(Box::new(JobRef { uid: JOB.into(), name: "job".into() })),
            restart_policy: RestartPolicy::OnFailure,
            grace_seconds: None,
            phase: if self.finished { Phase::Succeeded } else { Phase::Running },
            containers: vec![main],
            other_restarts: self.restarts().into(),
            malformed: None,
            node: "node".into(),
            reason: Box::default(),
            platform_ends_eci_sidecars: false,
            version: Box::default(),
        }
    }
}

impl World {
    fn new(limit: u32, pods: usize, sidecars: u8, left: Left) -> Self {
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
        };
        world.controller_starts();
        world
    }

    /// The sum that the Job controller compares with the limit; without restarts that no write could know of.
    fn sum(&self, with_excused: bool) -> u32 {
        let counted = self.pods.iter().zip(&self.excused).filter(|(pod, _)| pod.counts());
        counted.map(|(pod, excused)| u32::from(pod.restarts() - if with_excused { 0 } else { *excused })).sum()
    }

    /// The Job controller's own rule.
    fn fails(&self, sum: u32) -> bool {
        if self.limit == 0 { sum > 0 } else { sum >= self.limit }
    }

    fn steps(&self) -> Vec<Step> {
        let mut steps = Vec::new();
        for (at, (pod, known)) in self.pods.iter().zip(&self.known).enumerate() {
            let left = &self.left;
            let alive = pod.counts();
            let may = [
                (alive && pod.main_ended == 0, Step::MainEnds(at)),
                (alive && pod.swapped && pod.restarted < self.sidecars, Step::NodeRestarts(at)),
                (alive && pod.main_ended > 0 && pod.restarted == self.sidecars, Step::PodFinishes(at)),
                (alive && left.restarts > 0, Step::RestartsByItself(at)),
                (alive && left.deletions > 0, Step::Deleted(at)),
                (known.ready, Step::Begins(at)),
                (known.in_flight, Step::Applied(at)),
                (known.in_flight && left.refusals > 0, Step::Refused(at)),
                (known.in_flight && left.losses > 0, Step::Lost(at, true)),
                (known.in_flight && left.losses > 0, Step::Lost(at, false)),
                (known.backs_off, Step::BackoffEnds(at)),
                (known.unseen && !known.in_flight && !pod.swapped, Step::TooLate(at)),
            ];
            steps.extend(may.into_iter().filter(|(may, _)| *may).map(|(_, step)| step));
        }
        let may = [
            (!self.events.is_empty(), Step::Delivered),
            (self.left.raises > 0, Step::Raised),
            // A write of an earlier life that comes after the list of the next one is beyond what anybody can know.
            (self.left.kills > 0 && !self.known.iter().any(|known| known.in_flight), Step::Killed),
        ];
        steps.extend(may.into_iter().filter(|(may, _)| *may).map(|(_, step)| step));
        steps
    }

    fn takes(&mut self, step: Step) {
        match step {
            Step::MainEnds(at) => {
                self.ends += 1;
                let order = self.ends;
                self.changes(at, |pod| pod.main_ended = order);
            }
            Step::NodeRestarts(at) => self.changes(at, |pod| pod.restarted += 1),
            Step::PodFinishes(at) => self.changes(at, |pod| pod.finished = true),
            Step::RestartsByItself(at) => {
                self.left.restarts -= 1;
                self.excused[at] += 1;
                self.changes(at, |pod| pod.others += 1);
            }
            Step::Deleted(at) => {
                self.left.deletions -= 1;
                self.changes(at, |pod| pod.gone = true);
            }
            Step::Delivered => self.delivered(),
            Step::Begins(at) => self.begins(at),
            Step::Applied(at) => {
                let applied = self.apply(at);
                let known = &mut self.known[at];
                known.in_flight = false;
                known.backs_off = !applied;
                known.unseen |= applied && !known.watched.swapped;
                // As the index does: what was written is known before the watch shows it.
                known.view.swapped |= applied;
                self.look(at);
            }
            Step::Refused(at) => {
                self.left.refusals -= 1;
                self.fails_to_write(at, false);
            }
            Step::Lost(at, applied) => {
                self.left.losses -= 1;
                if applied {
                    self.apply(at);
                }
                self.fails_to_write(at, true);
            }
            Step::BackoffEnds(at) => {
                self.known[at].backs_off = false;
                self.look(at);
            }
            Step::TooLate(at) => {
                self.known[at].unseen = false;
                self.look(at);
            }
            Step::Raised => {
                self.left.raises -= 1;
                self.limit += 2;
                self.job_is_seen();
                self.look_at_woken();
            }
            Step::Killed => {
                self.left.kills -= 1;
                self.controller_starts();
            }
        }
    }

    fn changes(&mut self, at: usize, change: impl FnOnce(&mut State)) {
        change(&mut self.pods[at]);
        self.events.push_back((at, self.pods[at]));
    }

    /// The guard: only a pod that shows the old images is written.
    fn apply(&mut self, at: usize) -> bool {
        let pod = self.pods[at];
        let applies = !pod.gone && !pod.swapped;
        if applies {
            self.changes(at, |pod| pod.swapped = true);
        }
        applies
    }

    fn fails_to_write(&mut self, at: usize, lost: bool) {
        let known = &mut self.known[at];
        known.in_flight = false;
        known.backs_off = true;
        known.unseen |= lost && !known.watched.swapped;
        self.look(at);
    }

    fn job_is_seen(&mut self) {
        self.ledger.job(&Job { uid: JOB.into(), backoff_limit: self.limit });
    }

    /// A new life lists pods and Jobs, in either order.
    fn controller_starts(&mut self) {
        self.events.clear();
        self.ledger = Ledger::default();
        self.known = vec![Known::default(); self.pods.len()];
        self.list += 1;
        self.ledger.pod_list_starts();
        if self.list.is_multiple_of(2) {
            self.job_is_seen();
        }
        for at in 0..self.pods.len() {
            if !self.pods[at].gone {
                self.known[at].view = self.pods[at];
                self.known[at].watched = self.pods[at];
                self.known[at].seen = true;
                self.look(at);
            }
        }
        self.ledger.pod_list_ends(self.list);
        self.job_is_seen();
        self.look_at_woken();
    }

    fn delivered(&mut self) {
        let Some((at, state)) = self.events.pop_front() else { return };
        let known = &mut self.known[at];
        // A view that is ahead of the watch, after our own write, goes back with it, as in the index.
        known.view = state;
        known.watched = state;
        let wants = state.main_ended > 0 && !state.swapped && !state.finished;
        known.unseen &= wants || known.in_flight;
        if state.gone {
            known.seen = false;
            known.ready = false;
            let pod = state.pod(at);
            self.ledger.pod_gone(&pod);
            self.look_at_woken();
        } else {
            self.look(at);
        }
    }

    fn begins(&mut self, at: usize) {
        self.known[at].ready = false;
        self.look(at);
        if self.known[at].ready {
            self.known[at].ready = false;
            self.known[at].in_flight = true;
            self.ledger.need(&self.known[at].view.pod(at), Need::Held);
            for (pod, known) in self.known.iter().enumerate() {
                self.excused[pod] = self.pods[pod].others - known.view.others.min(self.pods[pod].others);
            }
        }
    }

    fn look(&mut self, at: usize) {
        self.look_once(at);
        self.look_at_woken();
    }

    fn look_at_woken(&mut self) {
        for round in 0.. {
            let woken = self.ledger.take_wakes();
            if woken.is_empty() {
                return;
            }
            assert!(round < 100, "pods wake each other without end");
            for uid in woken {
                self.look_once(uid[1..].parse().unwrap());
            }
        }
    }

    /// As the index looks at a pod.
    fn look_once(&mut self, at: usize) {
        let known = self.known[at];
        if !known.seen {
            return;
        }
        let view = known.view;
        let pod = view.pod(at);
        let containers = if known.watched.swapped { self.sidecars } else { 0 };
        let coming = containers.saturating_sub(known.watched.restarted);
        self.ledger.observe(&pod, Swapped { containers: containers.into(), coming: coming.into() }, self.list);
        let wants = view.main_ended > 0 && !view.swapped && !view.finished;
        let answer = if wants && !self.naive { self.ledger.answer(&pod, self.sidecars.into()) } else { Headroom::Free };
        let known = &mut self.known[at];
        known.answer = match answer {
            Headroom::Free if !wants => Answer::None,
            Headroom::Free | Headroom::Fits => Answer::Go,
            Headroom::NeverFits(_) => Answer::Never,
            Headroom::Wait(_) | Headroom::JobUnknown { .. } | Headroom::TooEarly => Answer::Wait,
        };
        let acts = known.answer == Answer::Go;
        known.ready = acts && !known.in_flight && !known.backs_off;
        let need = if known.in_flight || known.unseen {
            Need::Held
        } else if wants && !(acts && known.backs_off) {
            Need::Swaps(self.sidecars.into())
        } else {
            Need::Nothing
        };
        self.ledger.need(&pod, need);
    }

    /// Nothing happens any more but what somebody else does to us.
    fn is_at_rest(&self, steps: &[Step]) -> bool {
        let ours = |step: &Step| !matches!(step, Step::RestartsByItself(_) | Step::Deleted(_) | Step::Raised | Step::Killed);
        !steps.iter().any(ours)
    }

    fn all_ended(&self) -> bool {
        !self.pods.iter().any(State::counts)
    }

    fn after(&self, step: Step) -> Self {
        let mut next = self.clone();
        next.takes(step);
        next
    }

    /// Whoever has not ended could not, and it is said.
    fn check_rest(&self) {
        let waiting: Vec<_> = (0..self.pods.len()).filter(|at| self.pods[*at].counts()).collect();
        let sum = self.sum(true);
        assert!(waiting.is_empty() || self.fails(sum + u32::from(self.sidecars)), "somebody could go on: {self:#?}");
        assert!(waiting.is_empty() || waiting.iter().any(|at| self.known[*at].answer == Answer::Never), "nothing is said: {self:#?}");
    }
}

/// What was explored.
#[derive(Debug, Default)]
struct Explored {
    states: usize,
    /// Ends at which all pods had ended.
    complete: usize,
    /// Ends at which a pod had to be given up, and was.
    given_up: usize,
    /// Jobs that failed by restarts that no write could know of.
    failed_by_others: usize,
    /// Jobs that the swaps failed.
    failed_by_swaps: usize,
}

/// Goes through every state that can be reached.
fn explore(start: World) -> Explored {
    let mut explored = Explored::default();
    let mut met = HashSet::new();
    let mut open = vec![start];
    while let Some(world) = open.pop() {
        if met.insert(fingerprint(&world)) {
            explored.states += 1;
            open.extend(visit(&world, &mut explored));
        }
    }
    explored
}

fn fingerprint(world: &World) -> u64 {
    let mut hasher = DefaultHasher::new();
    world.hash(&mut hasher);
    hasher.finish()
}

/// Judges a state, and gives those that come after it.
fn visit(world: &World, explored: &mut Explored) -> Vec<World> {
    let failed = world.fails(world.sum(true));
    if failed {
        let by_swaps = world.fails(world.sum(false));
        *if by_swaps { &mut explored.failed_by_swaps } else { &mut explored.failed_by_others } += 1;
        return Vec::new();
    }
    let steps = world.steps();
    if world.is_at_rest(&steps) {
        world.check_rest();
        *if world.all_ended() { &mut explored.complete } else { &mut explored.given_up } += 1;
    }
    steps.into_iter().map(|step| world.after(step)).collect()
}

const UNDISTURBED: Left = Left { restarts: 0, deletions: 0, refusals: 0, losses: 0, kills: 0, raises: 0 };

/// Explores with each of the limits; no Job may fail by the swaps.
fn explore_all(limits: std::ops::RangeInclusive<u32>, pods: usize, sidecars: u8, left: Left) -> Vec<Explored> {
    let explore = |limit| {
        let explored = explore(World::new(limit, pods, sidecars, left));
        assert_eq!(explored.failed_by_swaps, 0, "limit {limit}, {pods} pods with {sidecars} sidecars, {left:?}: {explored:?}");
        explored
    };
    limits.map(explore).collect()
}

#[test]
fn pods_end_wherever_the_limit_allows_one_swap() {
    for pods in [2, 3] {
        for (limit, explored) in explore_all(0..=3, pods, 1, UNDISTURBED).iter().enumerate() {
            let all_end = explored.complete > 0 && explored.given_up == 0;
            let none_ends = explored.complete == 0 && explored.given_up > 0;
            assert!(if limit < 2 { none_ends } else { all_end }, "{pods} pods, limit {limit}: {explored:?}");
        }
    }
}

#[test]
fn restarts_by_themselves_are_counted() {
    let explored = explore_all(0..=5, 2, 2, Left { restarts: 1, ..UNDISTURBED });
    assert!(explored[2].complete == 0 && explored[2].given_up > 0, "{explored:?}");
    assert!(explored[4].complete > 0 && explored[4].given_up == 0, "{explored:?}");
}

/// While mains run, half of the room is left to them.
#[test]
fn a_restart_that_nobody_could_know_of_fails_no_job_that_has_room() {
    for explored in explore_all(4..=6, 2, 1, Left { restarts: 1, ..UNDISTURBED }) {
        assert_eq!(explored.failed_by_others, 0, "{explored:?}");
    }
}

#[test]
fn refused_and_lost_writes_neither_leak_nor_block() {
    for explored in explore_all(2..=3, 2, 1, Left { losses: 1, refusals: 1, ..UNDISTURBED }) {
        assert!(explored.complete > 0 && explored.given_up == 0, "{explored:?}");
    }
    explore_all(2..=2, 2, 1, Left { restarts: 1, losses: 2, ..UNDISTURBED });
}

#[test]
fn a_killed_controller_takes_up_where_it_was() {
    for explored in explore_all(2..=3, 2, 1, Left { kills: 1, losses: 1, ..UNDISTURBED }) {
        assert!(explored.complete > 0 && explored.given_up == 0, "{explored:?}");
    }
    explore_all(2..=2, 2, 1, Left { kills: 1, restarts: 1, deletions: 1, ..UNDISTURBED });
}

#[test]
fn a_raised_limit_lets_those_go_on_that_were_given_up() {
    for explored in explore_all(0..=1, 2, 1, Left { raises: 1, ..UNDISTURBED }) {
        assert!(explored.complete > 0, "{explored:?}");
    }
}

/// The model can tell: without the ledger the Job fails.
#[test]
fn without_the_ledger_the_swaps_fail_the_job() {
    for limit in 1..=2 {
        let explored = explore(World { naive: true, ..World::new(limit, 2, 1, UNDISTURBED) });
        assert!(explored.failed_by_swaps > 0, "{explored:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(debug_assertions) { 300 } else { 5000 }))]

    /// The same with more pods and every disturbance, along random paths to their end.
    #[test]
    fn random_paths(limit in 0..9_u32, pods in 1..6_usize, sidecars in 1..4_u8, choices in prop::collection::vec(any::<u16>(), 400)) {
        let left = Left { restarts: 2, deletions: 1, refusals: 2, losses: 2, kills: 1, raises: 1 };
        let mut world = World::new(limit, pods, sidecars, left);
        let mut explored = Explored::default();
        for choice in choices {
            let mut next = visit(&world, &mut explored);
            if next.is_empty() {
                break;
            }
            world = next.swap_remove(usize::from(choice) % next.len());
        }
        prop_assert_eq!(explored.failed_by_swaps, 0, "{:#?}", world);
    }
}
