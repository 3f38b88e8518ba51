//! What holds for every pod, all policies and every time, generated.

use std::collections::BTreeSet;
use std::time::Duration;

use jiff::Timestamp;
use proptest::prelude::*;
use proptest::strategy::ValueTree as _;
use proptest::test_runner::TestRunner;
use serde_json::{Value, json};
use swaplet_core::cluster::node_class::NodeClass;
use swaplet_core::objects::pod::annotations::{DELAY, ORDER, SIDECARS, WAIT_FOR_EXIT};
use swaplet_core::objects::pod::roles::{self, Mains};
use swaplet_core::objects::pod::wire::PodWire;
use swaplet_core::objects::pod::{Container, Pod, RestartPolicy, SidecarRule};
use swaplet_core::objects::runs_on::RunsOn;
use swaplet_core::objects::sidecar_policy::{PolicyKind, SidecarPolicy};
use swaplet_core::objects::values::bounded_object::BoundedObject;
use swaplet_core::objects::values::env::WHEN_JOB_EXIT;
use swaplet_core::policies::set::Policies;
use swaplet_core::report::decision::{Action, Decision};
use swaplet_core::report::reason::Reason;
use swaplet_core::terminate::methods::AllowedMethods;

use crate::expect::{EXIT, Life, moment};
use crate::properties::{any_pod, any_text, anything, config, one_of};

/// When the main containers ended, where the node says it.
const ENDED: &str = "2025-01-01T00:01:00Z";
/// The longest of the times of the rules below, and of the times between two looks.
const LONGEST: u64 = 40;

fn rule() -> impl Strategy<Value = Value> {
    let subject = prop_oneof![
        6 => one_of(&["a", "b", "c", "*", "?", "d*"]).prop_map(|name| json!({"name": name})),
        1 => one_of(&["registry.example/*", "*"]).prop_map(|image| json!({"image": image})),
        1 => one_of(&["istio", "isto"]).prop_map(|preset| json!({"preset": preset})),
    ];
    let method = one_of(&["Auto", "Auto", "Swap", "Finish", "Leave", "Kill"]);
    let times = (0..=LONGEST / 2, 0..=LONGEST / 2);
    (subject, method, times, -1..2_i32, prop::bool::weighted(0.2)).prop_map(
        |(mut rule, method, (delay, wait), order, success)| {
            rule["method"] = method;
            rule["delaySeconds"] = delay.into();
            if wait > 0 {
                rule["waitForExit"] = json!({"deadlineSeconds": wait});
            }
            rule["order"] = order.into();
            rule["mainMustSucceed"] = success.into();
            rule
        },
    )
}

fn spec() -> impl Strategy<Value = Value> {
    let owners = one_of(&["*", "None", "Job"]);
    let whole = (prop::collection::vec(rule(), 1..4), owners)
        .prop_map(|(sidecars, owner)| json!({"sidecars": sidecars, "ownerKinds": [owner]}));
    prop_oneof![9 => whole, 1 => anything()]
}

fn policies() -> impl Strategy<Value = Policies> {
    prop::collection::vec((any::<bool>(), spec()), 0..4).prop_map(|specs| {
        let mut policies = Policies::default();
        for (nth, (is_namespaced, spec)) in specs.into_iter().enumerate() {
            let kind = if is_namespaced {
                PolicyKind::Namespaced
            } else {
                PolicyKind::Cluster
            };
            let metadata = json!({"namespace": "n", "name": format!("p{nth}"), "uid": "u"});
            let object = BoundedObject::from(json!({"metadata": metadata, "spec": spec}));
            let policy = SidecarPolicy::read(kind, object);
            policy.iter().for_each(|policy| {
                policies.apply(policy);
            });
        }
        policies
    })
}

fn annotations() -> impl Strategy<Value = Value> {
    let value =
        || prop_oneof![4 => one_of(&["a", "b,c", "5s", "c=20s,9s", "b=-1", ""]), 1 => any_text()];
    let key = prop::sample::select(vec![SIDECARS, DELAY, ORDER, WAIT_FOR_EXIT]);
    prop::collection::vec((key, value()), 0..3).prop_map(|all| all.into_iter().collect())
}

/// A pod with policies about it, on some node, with what the administrator allows there.
#[derive(Debug)]
struct Situation {
    pod: Pod,
    node: NodeClass,
    allowed: AllowedMethods,
    /// Seconds since the reported end of the main containers at the first look; `None` where the
    /// clock is not known.
    since_end: Option<i64>,
}

impl Situation {
    /// A life that has looked at the pod once, at 1000 s.
    fn life(&self) -> (Life, Decision) {
        let ended: Timestamp = ENDED.parse().unwrap();
        let started = |since| ended + jiff::SignedDuration::from_secs(since - 1000);
        let mut life = Life {
            node: self.node,
            allowed: self.allowed,
            now: moment(1000),
            started_at: self.since_end.map(started),
            ..Life::new()
        };
        let decision = life.sees_pod(&self.pod);
        (life, decision)
    }

    /// What is decided so many seconds after the first look.
    fn after(&self, seconds: u64) -> Decision {
        self.life().0.later(seconds).sees_pod(&self.pod)
    }
}

/// A pod whose main container `a` has ended, beside others that mostly run.
fn ended_pods() -> impl Strategy<Value = Value> {
    let state = prop_oneof![
        4 => Just(json!({"running": {}})),
        1 => (0..2_i64).prop_map(|code| json!({"terminated": {"exitCode": code}})),
    ];
    let container = move |name: &'static str| {
        let mark = prop::bool::weighted(0.3);
        (state.clone(), mark).prop_map(move |(state, is_marked)| {
            let env = json!([{"name": WHEN_JOB_EXIT, "value": is_marked.to_string()}]);
            let image = format!("registry.example/{name}:1");
            (
                json!({"name": name, "image": image, "env": env}),
                json!({"name": name, "image": image, "state": state, "containerID": name}),
            )
        })
    };
    let beside = (1..4_usize).prop_flat_map(move |count| {
        ["b", "c", "d"][..count]
            .iter()
            .map(|name| container(name))
            .collect::<Vec<_>>()
    });
    let policy = one_of(&["Never", "OnFailure"]);
    (policy, prop::bool::weighted(0.2), beside).prop_map(|(policy, has_failed, beside)| {
        let code = i64::from(has_failed && policy == "Never");
        let (mut specs, mut statuses): (Vec<_>, Vec<_>) = beside.into_iter().unzip();
        specs.push(json!({"name": "a", "image": "registry.example/a:1"}));
        statuses.push(json!({"name": "a", "image": "registry.example/a:1", "state": {"terminated": {"exitCode": code}}}));
        json!({
            "metadata": {"namespace": "n", "name": "p", "uid": "u"},
            "spec": {"restartPolicy": policy, "containers": specs, "nodeName": "node"},
            "status": {"phase": "Running", "containerStatuses": statuses},
        })
    })
}

fn situations_of(pods: impl Strategy<Value = Value>) -> impl Strategy<Value = Situation> {
    let node = prop::sample::select(NodeClass::ALL.to_vec());
    let since_end = prop::option::of(-2 * LONGEST.cast_signed()..2 * LONGEST.cast_signed());
    (
        pods,
        annotations(),
        policies(),
        node,
        any::<[bool; 2]>(),
        since_end,
    )
        .prop_map(
            |(json, annotations, policies, node, [finish, swap_under_never], since_end)| {
                Situation {
                    pod: pod(json, annotations, policies, since_end.is_some()),
                    node,
                    allowed: AllowedMethods {
                        prefer: None,
                        finish,
                        recreate: false,
                        swap_under_never,
                    },
                    since_end,
                }
            },
        )
}

fn situations() -> impl Strategy<Value = Situation> {
    situations_of(prop_oneof![2 => ended_pods(), 1 => any_pod()])
}

/// Reads a pod with these annotations, under these policies.
fn pod(mut json: Value, annotations: Value, mut policies: Policies, says_ends: bool) -> Pod {
    json["metadata"]["annotations"] = annotations;
    // By its name a pattern is about it, and it is no container of `spec.containers`.
    if let Some(spec) = json["spec"].as_object_mut() {
        let native = json!({"name": "d-native", "image": "i", "restartPolicy": "Always"});
        spec.insert("initContainers".to_owned(), json!([native]));
    }
    report_ends(&mut json, says_ends);
    let mut pod = serde_json::from_value::<PodWire>(json)
        .unwrap()
        .read_with(|pod, labels| policies.mark(pod, labels, |one| *one.image == *EXIT))
        .unwrap();
    pod.node_runs_on = RunsOn::named(Some("linux"), Some("amd64"));
    pod
}

/// The node says when containers have ended.
fn report_ends(json: &mut Value, says: bool) {
    let statuses = json.pointer_mut("/status/containerStatuses");
    let statuses = statuses.and_then(Value::as_array_mut).into_iter().flatten();
    for status in statuses {
        let end = status.pointer_mut("/state/terminated");
        if let Some(end) = end.filter(|_| says).and_then(Value::as_object_mut) {
            end.insert("finishedAt".to_owned(), json!(ENDED));
        }
    }
}

/// The containers that a decision ends: those of a swap, or all that have not ended.
fn ended<'a>(pod: &'a Pod, decision: &Decision) -> Vec<&'a Container> {
    match &decision.action {
        None => Vec::new(),
        Some(Action::Swap(swaps)) => swaps
            .iter()
            .map(|swap| &pod.containers[swap.index])
            .collect(),
        Some(Action::Finish(_) | Action::Recreate(_)) => roles::sidecars(pod)
            .filter(|sidecar| sidecar.end().is_none())
            .collect(),
    }
}

fn names(containers: &[&Container]) -> BTreeSet<Box<str>> {
    containers
        .iter()
        .map(|container| container.name.clone())
        .collect()
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn decisions_depend_on_nothing_but_their_arguments_and_change_nothing(situation in situations(), seconds in 0..LONGEST) {
        prop_assert_eq!(situation.after(seconds), situation.after(seconds));
        let mut life = situation.life().0;
        let first = life.later(seconds).sees_pod(&situation.pod);
        let again = life.sees_pod(&situation.pod);
        prop_assert_eq!((first.reason, first.action, first.again), (again.reason, again.action, again.again));
    }

    #[test]
    fn only_unended_sidecars_beside_finished_mains_are_ended(situation in situations(), seconds in 0..LONGEST) {
        let pod = &situation.pod;
        let decision = situation.after(seconds);
        if decision.action.is_some() {
            prop_assert!(!pod.deleting && !pod.phase.is_terminal() && pod.restart_policy != RestartPolicy::Always);
            prop_assert_eq!(roles::mains_state(pod), Mains::Done);
            prop_assert!(roles::mains(pod).next().is_some());
        }
        for sidecar in ended(pod, &decision) {
            prop_assert!(roles::is_sidecar(pod, sidecar) && sidecar.end().is_none());
            prop_assert_ne!(&*sidecar.name, "d-native");
        }
    }

    /// Neither by the end that was seen nor by the one that the node reports.
    #[test]
    fn nothing_is_ended_before_its_time(situation in situations(), seconds in 0..2 * LONGEST) {
        let decision = situation.after(seconds);
        let since_seen = Duration::from_secs(seconds);
        let since_end = situation.since_end.map(|since| Duration::from_secs(since.saturating_add_unsigned(seconds).max(0).unsigned_abs()));
        for sidecar in ended(&situation.pod, &decision) {
            let after = sidecar.rule.as_deref().map_or(Duration::ZERO, SidecarRule::after);
            prop_assert!(after <= since_end.unwrap_or_default().max(since_seen), "{} after {:?}", sidecar.name, after);
        }
    }

    /// What has waited long enough does not wait again.
    #[test]
    fn waiting_comes_to_an_end_and_not_back(situation in situations(), one in 0..LONGEST, more in 0..LONGEST) {
        let (before, after) = (situation.after(one), situation.after(one + more));
        if before.reason != Reason::SidecarDelayed {
            prop_assert_ne!(after.reason, Reason::SidecarDelayed);
        }
        prop_assert_ne!(situation.after(2 * LONGEST).reason, Reason::SidecarDelayed);
    }

    /// Where nothing stands against a swap of any sidecar.
    #[test]
    fn what_is_ended_at_a_time_is_ended_later_too(situation in situations_of(ended_pods()), one in 0..LONGEST, more in 0..LONGEST) {
        let pod = &situation.pod;
        let (before, after) = (situation.after(one), situation.after(one + more));
        let (before, after) = (names(&ended(pod, &before)), names(&ended(pod, &after)));
        prop_assert!(before.is_subset(&after), "{:?} {:?}", before, after);
    }

    /// In this life and the next.
    #[test]
    fn what_was_ended_is_not_ended_again(situation in situations(), seconds in 0..LONGEST, more in 0..LONGEST) {
        let (mut life, _) = situation.life();
        let decision = life.later(seconds).sees_pod(&situation.pod);
        let mut after = situation.pod.clone();
        for swap in decision.swaps() {
            life.memory.swapped(&situation.pod.containers[swap.index], swap, &swap.to, life.now);
            after.containers[swap.index].image = swap.to.clone();
        }
        let next = Situation { pod: after.clone(), ..situation };
        for decision in [life.later(more).sees_pod(&after), next.after(more)] {
            prop_assert!(decision.swaps().iter().all(|swap| !swap.from.contains("swaplet/exit")), "{:?}", decision);
        }
    }
}

/// Or the properties, of 400 situations each, would say little.
#[test]
fn a_tenth_of_the_situations_have_something_to_end_and_some_wait() {
    let mut runner = TestRunner::deterministic();
    let (mut ends, mut waits) = (0, 0);
    for _ in 0..300 {
        let situation = situations().new_tree(&mut runner).unwrap().current();
        ends += usize::from(situation.after(3 * LONGEST).action.is_some());
        waits += usize::from(situation.after(1).reason == Reason::SidecarDelayed);
    }
    assert!(ends >= 30 && waits >= 10, "{ends} {waits}");
}
