//! Every pod of up to three containers, from a small set of states, marks and policies: the
//! invariants hold without exception.

use swaplet_core::report::decision::Decision;
use swaplet_core::report::reason::Reason;

use crate::builder::{
    ContainerBuilder, PodBuilder, main_container, pod, sidecar, sidecar_with_image,
};
use crate::expect::{EXIT, LISTED, Life};

#[derive(Clone, Copy, Debug, PartialEq)]
enum Role {
    Main,
    Plain,
    Listed,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum State {
    Missing,
    Unreported,
    Waiting,
    Running,
    Succeeded,
    Failed,
}

const ROLES: [Role; 3] = [Role::Main, Role::Plain, Role::Listed];
const STATES: [State; 6] = [
    State::Missing,
    State::Unreported,
    State::Waiting,
    State::Running,
    State::Succeeded,
    State::Failed,
];
/// What differs for a decision: unreported and waiting containers are not ended, as running ones.
const FEW_STATES: [State; 4] = [
    State::Missing,
    State::Running,
    State::Succeeded,
    State::Failed,
];
const POLICIES: [&str; 4] = ["Never", "OnFailure", "Always", "Later"];
const PHASES: [&str; 5] = ["Pending", "Running", "Succeeded", "Failed", "Unknown"];

impl State {
    fn of(self, container: ContainerBuilder) -> ContainerBuilder {
        match self {
            Self::Missing => container.no_status(),
            Self::Unreported => container.uncompleted(),
            Self::Waiting => container.waiting("ImagePullBackOff", ""),
            Self::Running => container.running(),
            Self::Succeeded => container.ended(0),
            Self::Failed => container.ended(1),
        }
    }

    const fn ended(self) -> bool {
        matches!(self, Self::Succeeded | Self::Failed)
    }
}

type Case<'a> = (&'a str, &'a str, &'a [(Role, State)]);

fn build((policy, phase, containers): Case) -> PodBuilder {
    containers.iter().zip(["a", "b", "c"]).fold(
        pod(policy).phase(phase),
        |pod, ((role, state), name)| {
            pod.with(state.of(match role {
                Role::Main => main_container(name),
                Role::Plain => sidecar(name),
                Role::Listed => sidecar_with_image(name, LISTED),
            }))
        },
    )
}

/// The rule of the design (4.1) in its shortest form, written independently of the code: which
/// containers are to be swapped.
fn expected((policy, phase, containers): Case) -> Vec<(usize, &'static str)> {
    let mains: Vec<_> = containers
        .iter()
        .filter(|(role, _)| *role == Role::Main)
        .collect();
    let done = mains.iter().all(|(_, state)| {
        if policy == "Never" {
            state.ended()
        } else {
            *state == State::Succeeded
        }
    });
    if mains.is_empty()
        || !done
        || !["Never", "OnFailure"].contains(&policy)
        || ["Succeeded", "Failed"].contains(&phase)
    {
        return Vec::new();
    }
    let image = |role: &Role| if *role == Role::Plain { EXIT } else { LISTED };
    let targets = containers
        .iter()
        .enumerate()
        .filter(|(_, (role, state))| *role != Role::Main && !state.ended());
    targets
        .map(|(index, (role, _))| (index, image(role)))
        .collect()
}

fn written(decision: &Decision) -> Vec<(usize, &str)> {
    decision
        .swaps()
        .iter()
        .map(|swap| (swap.index, &*swap.to))
        .collect()
}

fn check(case: Case) {
    let pod = build(case);
    let expected = expected(case);
    let decision = Life::new().sees(&pod);
    assert_eq!(written(&decision), expected, "{case:?}");
    check_reports(case, &decision);
    if !expected.is_empty() {
        let mut life = Life::new();
        let after = life.swaps(&pod);
        assert_eq!(
            written(&life.sees(&after)),
            [],
            "again in the same life: {case:?}"
        );
        assert_eq!(
            written(&Life::new().sees(&after)),
            [],
            "again in a new life: {case:?}"
        );
    }
}

/// Silence: in a new life, only swaps and the two misuses that can occur here are told.
fn check_reports(case: Case, decision: &Decision) {
    let reason = decision
        .done
        .iter()
        .chain(&decision.reports)
        .map(|report| report.reason)
        .next();
    let (policy, phase, containers) = case;
    let marked = containers.iter().any(|(role, _)| *role != Role::Main);
    let in_scope = marked && policy != "Always" && !["Succeeded", "Failed"].contains(&phase);
    let expected = if !decision.swaps().is_empty() {
        Some(Reason::SidecarSwapped)
    } else if in_scope && policy == "Later" {
        Some(Reason::RestartPolicyUnknown)
    } else if in_scope && containers.iter().all(|(role, _)| *role != Role::Main) {
        Some(Reason::OnlySidecars)
    } else {
        None
    };
    assert_eq!(reason, expected, "{case:?}");
}

fn containers(states: &[State]) -> Vec<(Role, State)> {
    ROLES
        .into_iter()
        .flat_map(|role| states.iter().map(move |state| (role, *state)))
        .collect()
}

#[test]
fn every_pod_of_up_to_two_containers_in_every_phase() {
    let containers = containers(&STATES);
    for (policy, phase) in POLICIES
        .into_iter()
        .flat_map(|policy| PHASES.map(|phase| (policy, phase)))
    {
        check((policy, phase, &[]));
        for &a in &containers {
            check((policy, phase, &[a]));
            containers
                .iter()
                .for_each(|&b| check((policy, phase, &[a, b])));
        }
    }
}

#[test]
fn every_running_pod_of_three_containers() {
    let containers = containers(&FEW_STATES);
    for policy in ["Never", "OnFailure"] {
        for (&a, &b) in containers
            .iter()
            .flat_map(|a| containers.iter().map(move |b| (a, b)))
        {
            containers
                .iter()
                .for_each(|&c| check((policy, "Running", &[a, b, c])));
        }
    }
}
