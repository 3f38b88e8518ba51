//! No Job waits for ever or fails by us, and nothing is told that was not done: over time, and
//! whatever the API server answers.

mod crashes;
mod failures;
mod on_a_node;
mod part_lists;
mod part_writes;
mod starts;

use std::time::Duration;

use serde_json::{Value, json};
use swaplet_controller::cluster::rules::Rules;
use swaplet_controller::frame::watch::Event;
use swaplet_controller::terminate::index::{Effect as Told, Index};
use swaplet_controller::terminate::selection::Selection;
use swaplet_core::objects::moment::Moment;
use swaplet_core::objects::pod::Pod;
use swaplet_core::objects::pod::wire::PodWire;
use swaplet_core::report::decision::{Action, Method};
use swaplet_core::report::reason::Reason;
use swaplet_core::report::write_error::WriteError;
use swaplet_core::terminate::memory::QUICK_DENIED_RETRIES;
use swaplet_core::terminate::methods::AllowedMethods;
use swaplet_testbed::apiserver::{Effect, Verb};

use super::harness::{World, rules};
use super::node::{Kubelet, running, status, terminated};
use super::objects::{EXIT, main_container, pod, pod_of, sidecar};

const LATER: Moment = Moment::after_start(Duration::from_secs(20));

// ---- bug 8: answers that come after what the watch has shown

/// The pod `p` in a version, with its main done and in this phase.
fn seen(version: u32, phase: &str, image: &str) -> Pod {
    let mut pod = pod("p", "Never");
    pod["metadata"]["uid"] = "p".into();
    pod["metadata"]["resourceVersion"] = version.to_string().into();
    pod["spec"]["containers"][1]["image"] = image.into();
    let statuses = [
        status(&main_container(), terminated(0, 0)),
        status(&sidecar("side"), running()),
    ];
    let conditions = if version > 1 {
        json!([{"type": "SidecarTerminated", "status": "True"}])
    } else {
        json!([])
    };
    pod["status"] =
        json!({"phase": phase, "containerStatuses": statuses, "conditions": conditions});
    serde_json::from_value::<PodWire>(pod)
        .unwrap()
        .read()
        .unwrap()
}

/// It knows the node of the pod.
fn index(allowed: AllowedMethods) -> Index {
    index_under(Rules { allowed, ..rules() })
}

fn index_under(rules: Rules) -> Index {
    let mut index = Index::new(rules);
    let node = json!({"metadata": {"name": "node-1", "uid": "node-1", "labels": {"kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64"}}});
    for event in Event::list_of([serde_json::from_value(node).unwrap()]) {
        index.nodes.observe(event);
    }
    index
}

/// What is told because of a call.
fn told(index: &mut Index, call: impl FnOnce(&mut Index)) -> Vec<Reason> {
    index.take_effects();
    call(index);
    let effects = index.take_effects();
    let notices = effects.iter().filter_map(|effect| {
        if let Told::Notice(notice) = effect {
            Some(notice.report.reason)
        } else {
            None
        }
    });
    notices.collect()
}

/// The kubelet takes the phase back, and the answer to the write comes after that.
#[test]
fn bug8_a_late_answer_to_a_phase_does_not_override_that_it_was_taken_back() {
    let mut index = index(AllowedMethods {
        prefer: Some(Method::Finish),
        finish: true,
        ..AllowedMethods::default()
    });
    index.apply(seen(1, "Running", "side:1"), Moment::START);
    index.wake(LATER);
    let write = index.next_write(LATER).unwrap();
    assert!(matches!(write.action, Action::Finish(_)));
    index.apply(seen(2, "Succeeded", "side:1"), LATER);
    index.apply(seen(3, "Running", "side:1"), LATER);
    let written = |index: &mut Index| index.written(write, &Ok(Vec::new()), LATER);
    assert_eq!(told(&mut index, written), [Reason::PhaseWritten]);
    let again = index.next_write(LATER);
    assert!(
        matches!(again.map(|write| write.action), Some(Action::Finish(_))),
        "it is written again at once"
    );
    for minute in 1..10 {
        assert_eq!(
            told(&mut index, |index| index
                .wake(LATER + Duration::from_secs(60 * minute))),
            [],
            "no end is told of a pod that runs"
        );
    }
    assert_eq!(index.len(), 1);
}

/// An older state that is delivered late is no reason to write twice.
#[test]
fn bug8_an_older_state_before_the_answer_does_not_make_a_second_write() {
    let mut index = index(AllowedMethods {
        prefer: Some(Method::Finish),
        finish: true,
        ..AllowedMethods::default()
    });
    index.apply(seen(1, "Running", "side:1"), Moment::START);
    index.wake(LATER);
    let write = index.next_write(LATER).unwrap();
    let mut older = seen(1, "Running", "side:1");
    older.version = "1.5".into();
    index.apply(older, LATER);
    index.written(write, &Ok(Vec::new()), LATER);
    assert_eq!(index.next_write(LATER), None);
    index.apply(seen(2, "Succeeded", "side:1"), LATER);
    assert_eq!(index.next_write(LATER), None);
}

#[test]
fn bug8_a_late_answer_to_a_swap_does_not_override_the_users_own_image() {
    let mut index = index(AllowedMethods::default());
    index.apply(seen(1, "Running", "side:1"), Moment::START);
    let write = index.next_write(Moment::START).unwrap();
    index.apply(seen(2, "Running", EXIT), Moment::START);
    index.apply(seen(3, "Running", "side:2"), Moment::START);
    index.written(write, &Ok(vec![EXIT.into()]), Moment::START);
    let again = index.next_write(Moment::START).unwrap();
    assert!(
        matches!(&again.action, Action::Swap(swaps) if *swaps[0].from == *"side:2"),
        "{again:?}"
    );
}

// ---- V2: what is told was written

/// `repro/promises/rep_phase.py`: an exit image that cannot be pulled, and an API server that takes
/// no phase.
#[tokio::test(start_paused = true)]
async fn v2_a_phase_that_was_never_written_is_not_told_after_a_swap() {
    for fault in [Effect::reply(503).into(), Effect::Drop] {
        let world = World::new();
        world.run_pod(&pod("p", "OnFailure")).await;
        world.start_kubelet(Kubelet {
            pulls: false,
            stop_code: 143,
            ..Kubelet::default()
        });
        let refused = world.fault(fault, |rule| rule.verb(Verb::Patch).subresource("status"));
        let _life = world.start_controller_that_may_finish();
        world.wait(1).await;
        world.ends("p", "main", 0).await;
        world.wait(600).await;
        let told = world.events("p");
        assert!(
            told.contains(&"ExitImageNotPulled".to_owned())
                && !told.contains(&"PhaseWritten".to_owned()),
            "{told:?}"
        );
        assert!(
            world
                .requests()
                .iter()
                .any(|request| request.subresource == "status"),
            "it was not tried"
        );
        world.end_fault(refused);
        world.wait(300).await;
        assert_eq!(
            (
                world.phase("p").as_str(),
                world
                    .events("p")
                    .iter()
                    .filter(|told| *told == "PhaseWritten")
                    .count()
            ),
            ("Succeeded", 1)
        );
    }
}

/// The same, and the pod ends by itself at last: the phase is the node's, not ours.
#[test]
fn v2_a_phase_of_the_node_is_not_told_as_ours() {
    let mut index = index(AllowedMethods {
        prefer: Some(Method::Finish),
        finish: true,
        ..AllowedMethods::default()
    });
    index.apply(seen(1, "Running", "side:1"), Moment::START);
    index.wake(LATER);
    let write = index.next_write(LATER).unwrap();
    let lost = Err(WriteError::Failed {
        error: "no answer".to_owned(),
        retry_after: None,
    });
    let written = |index: &mut Index| index.written(write, &lost, LATER);
    assert_eq!(told(&mut index, written), []);
    let mut by_itself = seen(1, "Succeeded", "side:1");
    by_itself.version = "9".into();
    let seen = |index: &mut Index| index.apply(by_itself, LATER);
    assert_eq!(told(&mut index, seen), []);
}

#[test]
fn v2_a_swap_whose_answer_is_lost_is_told_when_it_is_seen_and_not_before() {
    let mut index = index(AllowedMethods::default());
    index.apply(seen(1, "Running", "side:1"), Moment::START);
    let write = index.next_write(Moment::START).unwrap();
    let lost = Err(WriteError::Failed {
        error: "no answer".to_owned(),
        retry_after: None,
    });
    let written = |index: &mut Index| index.written(write, &lost, Moment::START);
    assert_eq!(told(&mut index, written), []);
    let mut shows = |version, image| {
        let pod = seen(version, "Running", image);
        told(&mut index, |index| index.apply(pod, Moment::START))
    };
    assert_eq!(shows(2, "side:2"), [], "somebody else's image");
    assert_eq!(shows(3, EXIT), [Reason::SidecarSwapped]);
}

// ---- An exit image that cannot be started, under `Never`

/// It says nothing of the provider, where pods of other namespaces can start it.
#[test]
fn an_exit_image_that_cannot_be_started_on_a_virtual_node_holds_back_its_namespace_alone() {
    let object = |namespace: &str, name: &str| {
        let mut pod = pod(name, "Never");
        pod["metadata"]["namespace"] = namespace.into();
        pod["metadata"]["uid"] = format!("{namespace}-{name}").into();
        let statuses = [
            status(&main_container(), terminated(0, 0)),
            status(&sidecar("side"), running()),
        ];
        pod["status"] = json!({"phase": "Running", "containerStatuses": statuses});
        pod
    };
    let read = |pod: Value| {
        serde_json::from_value::<PodWire>(pod)
            .unwrap()
            .read()
            .unwrap()
    };
    let mut index = index(AllowedMethods::default());
    let node = json!({"metadata": {"name": "node-1", "uid": "eci", "labels": {"k8s.aliyun.com/vnode": "true"}}});
    let node = serde_json::from_value(node).unwrap();
    index.nodes.observe(Event::Applied(node));
    index.apply(read(object("evil", "first")), Moment::START);
    let write = index.next_write(Moment::START).unwrap();
    index.written(write, &Ok(vec![EXIT.into()]), Moment::START);
    let mut failed = object("evil", "first");
    failed["spec"]["containers"][1]["image"] = EXIT.into();
    failed["status"]["phase"] = "Failed".into();
    failed["status"]["containerStatuses"][1] =
        status(&failed["spec"]["containers"][1], terminated(128, 10));
    let told = told(&mut index, |index| index.apply(read(failed), LATER));
    assert_eq!(told, [Reason::PodFailedAfterSwap]);

    let mut is_swapped = |namespace: &str| {
        index.apply(read(object(namespace, "next")), LATER);
        let write = index.next_write(LATER);
        write.is_some_and(|write| matches!(write.action, Action::Swap(_)))
    };
    assert_eq!((is_swapped("evil"), is_swapped("shop")), (false, true));
}

// ---- bug 11: a policy that does not know the exit image

#[tokio::test(start_paused = true)]
async fn bug11_a_pod_whose_swap_is_denied_ends_by_its_phase_and_says_why() {
    let words = "admission webhook \"images.example\" denied the request: image is not signed";
    for code in [403, 422] {
        let world = World::new();
        world.run_pod(&pod("p", "Never")).await;
        world.fault(Effect::reply(code).message(words), |rule| {
            rule.verb(Verb::Patch).resource("pods").subresource("")
        });
        let _life = world.start_controller_that_may_finish();
        world.wait(1).await;
        world.ends("p", "main", 0).await;
        world.wait(30).await;
        assert_eq!(
            (world.phase("p").as_str(), world.image("p").as_str()),
            ("Succeeded", "side:1")
        );
        let notes = world.notes("p");
        assert_eq!(
            notes
                .iter()
                .map(|(reason, _)| reason.as_str())
                .collect::<Vec<_>>(),
            ["WriteDenied", "PhaseWritten"],
            "{notes:?}"
        );
        assert!(
            notes.iter().all(|(_, note)| note.contains(words)),
            "{notes:?}"
        );
        assert_eq!(
            world.patches("p"),
            QUICK_DENIED_RETRIES as usize + 2,
            "swaps, for the first denials may be of the moment, and the phase"
        );
    }
}

/// What failed is the guard of our own patch: the pod was another by then.
#[tokio::test(start_paused = true)]
async fn bug11_a_guard_that_fails_is_no_denial() {
    let (world, _life) = World::with_pod("OnFailure").await;
    world.next_patch_fault(Effect::Delay(Duration::from_secs(2)));
    world.ends("p", "main", 0).await;
    world.wait(1).await;
    world.set_image("p", "side:2").await;
    world.wait(3).await;
    assert_eq!((world.image("p").as_str(), world.patches("p")), (EXIT, 2));
    world.start_kubelet(Kubelet::default());
    world.wait(10).await;
    assert_eq!(world.events("p"), ["SidecarEnded"]);
    world.assert_quiet().await;
}

// ---- bug 12: finished pods are not kept

#[tokio::test(start_paused = true)]
async fn bug12_a_controller_that_ends_nothing_keeps_no_finished_and_no_unmarked_pods() {
    let world = World::new();
    for name in ["a", "b", "c"] {
        world.run_pod(&pod(name, "Never")).await;
        world.ends(name, "main", 0).await;
    }
    world
        .run_pod(&pod_of("unmarked", "Never", vec![main_container()]))
        .await;
    world.ends("a", "side", 0).await;
    let life = world.start_controller_that_selects(Selection::nothing());
    world.wait(5).await;
    assert_eq!(
        (world.phase("a").as_str(), life.pods_kept()),
        ("Succeeded", 2),
        "b and c may be restarted in"
    );
    world.ends("b", "side", 0).await;
    world.remove("c").await;
    world.wait(5).await;
    assert_eq!(life.pods_kept(), 0);
    assert_eq!(world.count(Verb::Patch), 0);
    world.assert_quiet().await;
}
