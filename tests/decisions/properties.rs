//! What holds for every pod, generated: the invariants I1, I2, I6, I9 and I10 of `terminate`.

use proptest::prelude::*;
use serde_json::{Value, json};
use swaplet_core::objects::command::{StandardPaths, Verdict, resolve};
use swaplet_core::objects::pod::evidence::exit_image_shown;
use swaplet_core::objects::pod::roles::{self, Mains};
use swaplet_core::objects::pod::wire::PodWire;
use swaplet_core::objects::pod::{Pod, RestartPolicy};
use swaplet_core::objects::values::env::{IGNORE_EXIT_CODE, WHEN_JOB_EXIT, WITH_IMAGE};
use swaplet_core::report::decision::Decision;
use swaplet_core::report::reason::Reason;

use crate::builder::read;
use crate::expect::{DIGEST, EXIT, LISTED, Life, UNLISTED, rules};

pub fn one_of(values: &'static [&'static str]) -> impl Strategy<Value = Value> {
    prop::sample::select(values).prop_map(Value::from)
}

fn image() -> impl Strategy<Value = Value> {
    let with_digest = [EXIT, LISTED].map(|image| format!("{image}@{DIGEST}"));
    prop_oneof![
        4 => one_of(&["registry.example/app/a:v1", "docker.io/library/b", "c", UNLISTED]),
        2 => one_of(&[EXIT, LISTED, "", "Not An Image", DIGEST]),
        1 => prop::sample::select(with_digest.to_vec()).prop_map(Value::from),
        1 => any::<String>().prop_map(Value::from),
    ]
}

/// Any JSON, three deep.
pub fn anything() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        ".{0,12}".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec((key(), inner), 0..5)
                .prop_map(|entries| entries.into_iter().collect()),
        ]
    })
}

/// A text of any kind.
pub fn any_text() -> impl Strategy<Value = Value> {
    anything().prop_map(|value| value.to_string().into())
}

/// Names of fields that are read, so that arbitrary JSON comes upon them.
fn key() -> impl Strategy<Value = String> {
    let known: &[&str] = &[
        "metadata",
        "name",
        "namespace",
        "uid",
        "deletionTimestamp",
        "spec",
        "restartPolicy",
        "containers",
        "image",
        "env",
        "value",
        "valueFrom",
        "status",
        "phase",
        "containerStatuses",
        "initContainerStatuses",
        "ownerReferences",
        "state",
        "lastState",
        "terminated",
        "running",
        "waiting",
        "exitCode",
        "startedAt",
        "reason",
        "restartCount",
        "containerID",
        "terminationGracePeriodSeconds",
    ];
    prop_oneof![8 => prop::sample::select(known).prop_map(str::to_owned), 1 => "[a-z]{0,6}"]
}

fn env() -> impl Strategy<Value = Value> {
    let name = one_of(&[
        WHEN_JOB_EXIT,
        WHEN_JOB_EXIT,
        WITH_IMAGE,
        IGNORE_EXIT_CODE,
        "OTHER",
    ]);
    let value = prop_oneof![5 => one_of(&["true", "TRUE", "false", "", "yes"]), 4 => image(), 1 => any_text()];
    let entry = prop_oneof![
        9 => (name, value).prop_map(|(name, value)| json!({"name": name, "value": value})),
        1 => Just(json!({"name": WHEN_JOB_EXIT, "valueFrom": {"fieldRef": {}}})),
    ];
    prop::collection::vec(entry, 0..3).prop_map(Value::from)
}

fn state() -> impl Strategy<Value = Value> {
    let time = || one_of(&["2025-01-01T00:00:00Z", "2025-01-01T00:05:00Z", "soon"]);
    let reason = one_of(&[
        "ImagePullBackOff",
        "ErrImagePull",
        "CrashLoopBackOff",
        "ContainerCreating",
        "",
    ]);
    prop_oneof![
        4 => (-1..3_i64).prop_map(|code| json!({"terminated": {"exitCode": code}})),
        2 => time().prop_map(|time| json!({"running": {"startedAt": time}})),
        2 => (reason, image()).prop_map(|(reason, message)| json!({"waiting": {"reason": reason, "message": message}})),
        1 => Just(json!({"running": {}, "terminated": {"exitCode": 0}})),
        1 => Just(json!({})),
        1 => anything().prop_map(|_| Value::Null),
    ]
}

fn container(name: &'static str) -> impl Strategy<Value = (Value, Option<Value>)> {
    let policy = prop::option::weighted(0.1, one_of(&["Always", "OnFailure", "Never", "Later"]));
    let command = prop::option::weighted(
        0.3,
        one_of(&[
            "/bin/sh",
            "sleep",
            "/opt/own/server",
            "/work/tool",
            "$(OTHER)",
            "",
        ]),
    );
    let mount = prop::option::weighted(0.2, one_of(&["/work", "/", "/swaplet", "/bin/sh"]));
    let spec = (image(), env(), policy, command, mount).prop_map(
        move |(image, env, policy, command, mount)| {
            let mut spec = json!({"name": name, "image": image, "env": env});
            command
                .into_iter()
                .for_each(|command| spec["command"] = json!([command]));
            mount.into_iter().for_each(|mount| {
                spec["volumeMounts"] = json!([{"name": "work", "mountPath": mount}])
            });
            policy
                .into_iter()
                .for_each(|policy| spec["restartPolicy"] = policy);
            spec
        },
    );
    let status = (image(), state(), prop::option::of(state()), 0..3_i64).prop_map(move |(image, state, last, restarts)| {
        json!({"name": name, "image": image, "state": state, "lastState": last, "restartCount": restarts, "containerID": "constant"})
    });
    (spec, prop::option::weighted(0.9, status))
}

/// Pods that are mostly well-formed, with up to four containers and their statuses in any order.
fn pods() -> impl Strategy<Value = Value> {
    let containers = (0..5_usize).prop_flat_map(|count| {
        ["a", "b", "c", "d"][..count.min(4)]
            .iter()
            .map(|name| container(name))
            .collect::<Vec<_>>()
    });
    let policy =
        prop_oneof![8 => one_of(&["Never", "OnFailure"]), 1 => one_of(&["Always", "Later", ""])];
    let phase = prop_oneof![8 => one_of(&["Running", "Pending"]), 2 => one_of(&["Succeeded", "Failed", "Unknown", ""])];
    let grace = prop_oneof![
        Just(Value::Null),
        any::<i64>().prop_map(Value::from),
        Just(json!(0))
    ];
    (containers, policy, phase, grace, prop::bool::weighted(0.05), any::<bool>()).prop_map(
        |(containers, policy, phase, grace, deleting, reversed)| {
            let (specs, statuses): (Vec<_>, Vec<_>) = containers.into_iter().unzip();
            let mut statuses: Vec<_> = statuses.into_iter().flatten().collect();
            if reversed {
                statuses.reverse();
            }
            json!({
                "metadata": {"namespace": "n", "name": "p", "uid": "u", "deletionTimestamp": deleting.then_some("2025-01-01T00:00:00Z")},
                "spec": {"restartPolicy": policy, "containers": specs, "terminationGracePeriodSeconds": grace},
                "status": {"phase": phase, "containerStatuses": statuses},
            })
        },
    )
}

/// What can be said instead in one place, by the type of the value there.
#[derive(Clone, Debug)]
pub struct Odd {
    text: String,
    number: i64,
    flag: bool,
}

pub fn odd() -> impl Strategy<Value = Odd> {
    anything().prop_map(|value| Odd {
        text: value.to_string(),
        number: value.as_i64().unwrap_or(-1),
        flag: value.is_null(),
    })
}

impl Odd {
    /// Replaces a value by another that the API server accepts there as far as its type goes: it
    /// stores no null in a list.
    pub fn replace(&self, object: &mut Value, place: &str) {
        let is_item = place.ends_with(|last: char| last.is_ascii_digit());
        let Some(value) = object.pointer_mut(place) else {
            return;
        };
        *value = match value {
            _ if self.flag && !is_item => Value::Null,
            Value::String(_) => self.text.clone().into(),
            Value::Number(_) => self.number.into(),
            Value::Bool(old) => (!*old).into(),
            Value::Array(_) => json!([]),
            Value::Object(_) => json!({}),
            Value::Null => Value::Null,
        };
    }
}

/// A pod in which one field has been replaced.
fn damaged_pods() -> impl Strategy<Value = Value> {
    let places: &[&str] = &[
        "/metadata/deletionTimestamp",
        "/spec",
        "/spec/containers",
        "/spec/containers/0",
        "/spec/containers/0/env",
        "/spec/containers/1",
        "/spec/containers/0/env/0",
        "/spec/containers/1/name",
        "/status",
        "/status/containerStatuses",
        "/status/containerStatuses/0",
        "/status/containerStatuses/0/name",
        "/status/containerStatuses/1/state",
        "/spec/restartPolicy",
        "/status/phase",
    ];
    (pods(), prop::sample::select(places), odd()).prop_map(|(mut pod, place, odd)| {
        odd.replace(&mut pod, place);
        pod
    })
}

pub fn any_pod() -> impl Strategy<Value = Value> {
    prop_oneof![3 => pods(), 1 => damaged_pods()]
}

fn look(pod: &Pod) -> Decision {
    Life::new().sees_pod(pod)
}

fn with_swaps_applied(pod: &Pod, decision: &Decision) -> Pod {
    let mut after = pod.clone();
    decision
        .swaps()
        .iter()
        .for_each(|swap| after.containers[swap.index].image = swap.to.clone());
    after
}

pub fn config() -> ProptestConfig {
    ProptestConfig {
        cases: 400,
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn text_decodes_as_the_value_does_whatever_it_is(fields in prop::collection::vec((key(), anything()), 0..6)) {
        let object: Value = fields.into_iter().collect();
        let from_value = serde_json::from_value::<PodWire>(object.clone());
        let from_text = serde_json::from_str::<PodWire>(&object.to_string());
        prop_assert_eq!(from_value.is_ok(), from_text.is_ok());
        let Ok(from_text) = from_text else {
            return Ok(());
        };
        let pod = read(object);
        let mut from_text = from_text.read();
        if let (Some(from_text), Some(pod)) = (&mut from_text, &pod) {
            from_text.node_runs_on = pod.node_runs_on;
        }
        prop_assert_eq!(from_text, pod.clone());
        pod.iter().for_each(|pod| drop(look(pod)));
    }

    #[test]
    fn a_decision_depends_on_nothing_but_its_arguments(json in any_pod()) {
        let pod = read(json).unwrap();
        prop_assert_eq!(look(&pod), look(&pod));
    }

    /// I1, I2: what is written, is written to marked containers that have not ended, beside main
    /// containers that are all done.
    #[test]
    fn only_marked_containers_beside_finished_mains_are_swapped(json in any_pod()) {
        let pod = read(json).unwrap();
        let decision = look(&pod);
        for swap in decision.swaps() {
            let container = &pod.containers[swap.index];
            prop_assert!(container.mark.is_sidecar());
            prop_assert!(container.end().is_none());
            prop_assert_eq!(roles::mains_state(&pod), Mains::Done);
            prop_assert!(roles::mains(&pod).next().is_some());
        }
        for main in roles::mains(&pod).filter(|_| !decision.swaps().is_empty()) {
            let end = main.end().expect("it has ended");
            prop_assert!(*main.effective_policy(&pod) == RestartPolicy::Never || end.exit_code == Some(0));
        }
    }

    /// What is written can run: the default where it has what would be executed, one of the list
    /// where an image can help.
    #[test]
    fn no_swap_is_written_that_cannot_work(json in any_pod()) {
        let pod = read(json).unwrap();
        for swap in look(&pod).swaps() {
            let facts = pod.containers[swap.index].facts.as_deref().expect("it is marked");
            match resolve(facts, &StandardPaths) {
                Verdict::Runnable { .. } => {}
                Verdict::NeedsImage { .. } => prop_assert_ne!(&*swap.to, EXIT),
                Verdict::NotSwappable { reason, .. } => prop_assert!(*swap.to != *EXIT && reason.is_about_our_image(), "{}", reason),
            }
        }
    }

    /// I4, I6, I9: each swap starts from the image that was read, and ends at one that the
    /// administrator allows.
    #[test]
    fn swaps_start_from_what_was_read_and_end_at_what_is_listed(json in any_pod()) {
        let pod = read(json).unwrap();
        let decision = look(&pod);
        let swaps = decision.swaps();
        prop_assert!(swaps.windows(2).all(|pair| pair[0].index < pair[1].index), "in order, and each container once");
        for swap in swaps {
            prop_assert_eq!((&swap.container, &swap.from), (&pod.containers[swap.index].name, &pod.containers[swap.index].image));
            prop_assert!(rules().contains(&swap.to));
            let asked = pod.containers[swap.index].mark.with_image.as_deref();
            prop_assert!(*swap.to == *EXIT || asked == Some(&*swap.to));
            prop_assert_ne!(&swap.from, &swap.to);
            prop_assert_ne!(exit_image_shown(&swap.from, &swap.to), Some(true));
        }
    }

    /// I6, I11.
    #[test]
    fn after_the_swap_nothing_is_written_in_this_life_or_the_next(json in any_pod(), seconds in 0..400_u64) {
        let pod = read(json).unwrap();
        let mut life = Life::new();
        let decision = life.sees_pod(&pod);
        for swap in decision.swaps() {
            life.memory.swapped(&pod.containers[swap.index], swap, &swap.to, life.now);
        }
        let after = with_swaps_applied(&pod, &decision);
        prop_assert_eq!(life.later(seconds).sees_pod(&after).action, None);
        let again = life.sees_pod(&after);
        prop_assert_eq!(again.action, None);
        prop_assert_eq!(look(&after).action, None);
    }

    /// Each thing is told once: without a change of the pod, reports come to an end, however time
    /// goes on.
    #[test]
    fn reports_come_to_an_end(json in any_pod()) {
        let pod = read(json).unwrap();
        let mut life = Life::new();
        let decision = life.sees_pod(&pod);
        for swap in decision.swaps() {
            life.memory.swapped(&pod.containers[swap.index], swap, &swap.to, life.now);
        }
        let after = with_swaps_applied(&pod, &decision);
        life.later(1 << 40);
        let told = (0..8).map(|_| life.sees_pod(&after).reports.len()).sum::<usize>();
        prop_assert!(told <= after.containers.len() + 1, "{}", told);
        prop_assert_eq!(life.later(1000).sees_pod(&after).reports, vec![]);
    }

    /// I10.
    #[test]
    fn finished_deleting_and_always_pods_are_silent(json in any_pod(), which in 0..4_usize) {
        let mut json = json;
        let (place, value): (&str, &str) = [
            ("/metadata/deletionTimestamp", "2025-01-01T00:00:00Z"),
            ("/status/phase", "Succeeded"),
            ("/status/phase", "Failed"),
            ("/spec/restartPolicy", "Always"),
        ][which];
        let intact = json.pointer_mut(place).map(|field| *field = value.into()).is_some();
        let decision = look(&read(json).unwrap());
        prop_assume!(intact);
        prop_assert_eq!((decision.action, decision.reports, decision.again), (None, vec![], None));
    }

    #[test]
    fn unmarked_pods_are_silent(json in pods()) {
        let mut json = json;
        for container in json["spec"]["containers"].as_array_mut().unwrap() {
            container["env"] = json!([{"name": "OTHER", "value": "true"}]);
        }
        let decision = look(&read(json).unwrap());
        prop_assert_eq!((decision.action, decision.reports, decision.again), (None, vec![], None));
        let quiet = [Reason::NoSidecar, Reason::PodDeleting, Reason::PodFinished, Reason::RestartPolicyAlways];
        prop_assert!(quiet.contains(&decision.reason), "{:?}", decision.reason);
    }

    /// A time to look again lies ahead; otherwise the caller would spin.
    #[test]
    fn the_time_to_look_again_lies_ahead(json in any_pod(), seconds in 0..400_u64) {
        let pod = read(json).unwrap();
        let mut life = Life::new();
        life.sees_pod(&pod);
        let again = life.later(seconds).sees_pod(&pod).again;
        prop_assert!(again.is_none_or(|again| again > life.now), "{:?}", again);
    }
}
