//! One generated table of pods, and both are asked: the controller which containers are main
//! containers and whether these are done, and the API server, which lets a sidecar be ended and the
//! phase be written there, and nowhere else.

use futures::{StreamExt as _, stream};
use serde_json::{Value, json};
use swaplet_core::objects::pod::wire::PodWire;
use swaplet_core::objects::pod::{Pod, roles};
use swaplet_core::objects::sidecar_policy::{PolicyKind, SidecarPolicy};
use swaplet_core::objects::values::bounded_object::BoundedObject;
use swaplet_core::policies::set::Policies;

use super::Leashed;
use super::pods::{main, pod};
use crate::pods::MARK;

const WITH_IMAGE: &str = "KRUISE_TERMINATE_SIDECAR_WHEN_JOB_EXIT_WITH_IMAGE";
/// So many pods are made and asked about at once.
const AT_ONCE: usize = 8;

/// What stands beside the main container of a pod, and what the pod says of it.
struct Beside {
    says: Option<String>,
    /// Each runs; with its variable, if it has one.
    containers: Vec<(&'static str, Option<(&'static str, &'static str)>)>,
    /// Whether the main container is there.
    has_main: bool,
}

fn beside(
    says: Option<&str>,
    containers: &[(&'static str, Option<(&'static str, &'static str)>)],
) -> Beside {
    Beside {
        says: says.map(str::to_owned),
        containers: containers.to_vec(),
        has_main: true,
    }
}

fn alone(containers: &[(&'static str, Option<(&'static str, &'static str)>)]) -> Beside {
    Beside {
        has_main: false,
        ..beside(None, containers)
    }
}

/// Marks, annotations, the four methods of policies, and these beside each other. The list of the
/// administrator has the containers of policies.
fn all_beside() -> Vec<Beside> {
    let log = ("log", Some((MARK, "true")));
    let mut all: Vec<_> = ["true", "TRUE", "True", "false", "", "yes"]
        .into_iter()
        .map(|value| beside(None, &[("log", Some((MARK, value)))]))
        .collect();
    all.extend(["x:1", ""].map(|value| beside(None, &[("log", Some((WITH_IMAGE, value)))])));
    let names = |count: usize| {
        let others = (1..count).map(|number| format!(",c{number}"));
        format!("agent{}", others.collect::<String>())
    };
    for says in [
        "agent",
        " other , agent ,",
        "",
        "age*",
        "agent=1",
        "agent,main",
        "main",
        &names(32),
        &names(33),
        &format!("agent{}", " ".repeat(4096 - "agent".len())),
        &format!("agent{}", " ".repeat(4097 - "agent".len())),
        &format!("agent,{}", "é".repeat(2046)),
    ] {
        all.push(beside(Some(says), &[("agent", None)]));
        // One that is marked beside one that is named, or not.
        all.push(beside(Some(says), &[log, ("agent", None)]));
    }
    for by_policy in [
        "injected-auto",
        "injected-swap",
        "injected-finish",
        "injected-leave",
    ] {
        all.push(beside(None, &[(by_policy, None)]));
        all.push(beside(None, &[log, (by_policy, None)]));
        all.push(beside(Some("agent"), &[("agent", None), (by_policy, None)]));
        all.push(beside(Some(by_policy), &[log, (by_policy, None)]));
        all.push(beside(None, &[(by_policy, Some((MARK, "true")))]));
        // Policies do not count where they leave no main container, nor do annotations.
        all.push(alone(&[log, (by_policy, None)]));
        all.push(alone(&[(by_policy, None)]));
    }
    all.push(alone(&[log]));
    all.push(beside(None, &[("log", None)]));
    all
}

/// The end of the main container: none, or a code; `None` is nothing reported at all.
const ENDS: [Option<Option<i32>>; 4] = [None, Some(None), Some(Some(0)), Some(Some(1))];

/// What the container says of itself, from Kubernetes 1.34 on.
fn rules_of_main() -> [Value; 5] {
    let rule = |operator: &str, code: i32| json!([{"action": "Restart", "exitCodes": {"operator": operator, "values": [code]}}]);
    [
        json!({}),
        json!({"restartPolicy": "Always"}),
        json!({"restartPolicy": "Never"}),
        json!({"restartPolicy": "Never", "restartPolicyRules": rule("In", 1)}),
        json!({"restartPolicy": "OnFailure", "restartPolicyRules": rule("NotIn", 1)}),
    ]
}

/// The policies: every field is said somewhere.
fn policies(leashed: &Leashed) -> Policies {
    let spec = json!({"ownerKinds": ["*"], "sidecars": [
        {"name": "injected-auto", "delaySeconds": 5, "mainMustSucceed": true},
        {"name": "injected-swap", "method": "Swap", "exitImage": leashed.world.images.exit},
        {"name": "injected-finish", "method": "Finish", "order": 3, "waitForExit": {"deadlineSeconds": 5}},
        {"name": "injected-leave", "method": "Leave"},
    ]});
    let metadata = json!({"name": "generated", "uid": "u", "generation": 1});
    let object = BoundedObject::from(json!({"metadata": metadata, "spec": spec}));
    let mut policies = Policies::default();
    policies.apply(&SidecarPolicy::read(PolicyKind::Cluster, object).unwrap());
    policies
}

/// A pod of the table, with what is reported of it.
struct Row {
    pod: Value,
    reported: Vec<(&'static str, Option<i32>)>,
}

fn row(
    leashed: &Leashed,
    number: usize,
    policy: &str,
    of: &Beside,
    own: &Value,
    end: Option<Option<i32>>,
) -> Row {
    let mut reported = Vec::new();
    let mut containers = Vec::new();
    if of.has_main {
        let mut main = main(leashed);
        let own = own.as_object().unwrap().clone();
        main.as_object_mut().unwrap().extend(own);
        containers.push(main);
        reported.extend(end.map(|code| ("main", code)));
    }
    for (nth, (name, variable)) in of.containers.iter().enumerate() {
        let mut container = json!({"name": name, "image": leashed.world.images.work});
        container["env"] = variable
            .iter()
            .map(|(name, value)| json!({"name": name, "value": value}))
            .collect();
        containers.push(container);
        // Without a main container the last one stands for it.
        let stands_for_main = !of.has_main && nth + 1 == of.containers.len();
        reported.push((*name, end.flatten().filter(|_| stands_for_main)));
    }
    let mut pod = pod(
        leashed,
        &format!("generated-{number}"),
        policy,
        json!(containers),
    );
    if let Some(says) = &of.says {
        pod["metadata"]["annotations"]["swaplet.io/sidecars"] = json!(says);
    }
    Row { pod, reported }
}

fn rows(leashed: &Leashed) -> Vec<Row> {
    let mut rows = Vec::new();
    let mut add = |policy: &str, of: &Beside, own: &Value, end| {
        let row = row(leashed, rows.len(), policy, of, own, end);
        rows.push(row);
    };
    for policy in ["OnFailure", "Never"] {
        for of in &all_beside() {
            for end in [Some(None), Some(Some(0))] {
                add(policy, of, &json!({}), end);
            }
        }
        let log = beside(None, &[("log", Some((MARK, "true")))]);
        for own in &rules_of_main() {
            for end in ENDS {
                add(policy, &log, own, end);
            }
        }
    }
    rows
}

/// What both have to say of a pod: by container whether it may be ended, and whether the phase may be
/// written. What a policy leaves to run is no main container, and the API server, which reads no
/// policies, knows no more of it.
#[derive(Debug, PartialEq)]
struct Answer {
    ended: Vec<(String, bool)>,
    finished: bool,
}

fn of_controller(pod: &Pod) -> Answer {
    let has_sidecar = |pod: &Pod| pod.containers.iter().any(roles::is_called_sidecar);
    let is_due =
        roles::mains(pod).next().is_some() && roles::mains_state(pod) == roles::Mains::Done;
    Answer {
        ended: pod
            .containers
            .iter()
            .map(|container| {
                let may = is_due && roles::is_called_sidecar(container);
                (container.name.to_string(), may)
            })
            .collect(),
        finished: is_due && has_sidecar(pod),
    }
}

async fn of_api_server(leashed: &Leashed, pod: &Pod) -> Answer {
    let mut ended = Vec::new();
    for container in &pod.containers {
        let exit = &leashed.world.images.exit;
        let swap = json!({"spec": {"containers": [{"name": container.name, "image": exit}]}});
        let answer = leashed.patch(&pod.name, "", &swap).await;
        ended.push((container.name.to_string(), is_let(answer)));
    }
    let phase = if roles::mains_succeeded(pod) {
        "Succeeded"
    } else {
        "Failed"
    };
    let finish = json!({"status": {"phase": phase, "conditions": [{"type": "SidecarTerminated", "status": "True"}]}});
    let answer = leashed.patch(&pod.name, "status", &finish).await;
    Answer {
        ended,
        finished: is_let(answer),
    }
}

/// Nothing but the leash denies.
fn is_let<T>(answer: Result<T, String>) -> bool {
    if let Err(words) = &answer {
        assert!(words.contains("ValidatingAdmissionPolicy"), "{words}");
    }
    answer.is_ok()
}

#[tokio::test]
async fn t4_the_controller_and_the_api_server_say_the_same_of_every_generated_pod() {
    let leashed = Leashed::new("leash-generated").await;
    let rows = rows(&leashed);
    println!("{} pods", rows.len());
    let different: Vec<String> = stream::iter(rows)
        .map(|row| async {
            let name = row.pod["metadata"]["name"].as_str().unwrap().to_owned();
            let made = row.pod.clone();
            leashed.is_there(row.pod, &row.reported, &[]).await;
            let stored = leashed.world.pod_is(&name, "there", |_| true).await;
            let wire: PodWire = serde_json::from_value(json!(stored)).unwrap();
            let mut policies = policies(&leashed);
            let pod = wire
                .read_with(|pod, labels| policies.mark(pod, labels, |_| false))
                .unwrap();
            let [expected, found] = [of_controller(&pod), of_api_server(&leashed, &pod).await];
            let reported = row.reported;
            (expected != found).then(|| format!("{made} {reported:?}\n  the controller: {expected:?}\n  the API server: {found:?}"))
        })
        .buffer_unordered(AT_ONCE)
        .filter_map(|different| async { different })
        .collect()
        .await;
    assert!(
        different.is_empty(),
        "{} pods:\n{}",
        different.len(),
        different.join("\n")
    );
    leashed.done().await;
}
