//! Warming where images cannot be swapped in place: which shape pods have, and what a pod of each
//! shape proves.

use std::time::Duration;

use serde_json::{Value, json};
use swaplet_core::cluster::node_class::Recognised;
use swaplet_core::cluster::node_table::NodeTable;
use swaplet_core::objects::node::KubeletVersion;
use swaplet_core::warm::pod::{Shape, System, WarmerPod};
use swaplet_core::warm::warming::nodes::shapes;
use swaplet_core::warm::warming::pulled::Pulled;
use swaplet_core::warm::warming::shape::{ShapeChoice, Shapes};
use swaplet_core::warm::warming::{Action, Answer, End, Limits, Warming};

use crate::node_classes::node as node_object;
use crate::warm::{A, B, Node, nothing, pod, read, running, seconds};

const C: &str = "r.example/c:1";
const IMPOSSIBLE: Shape = Shape::ImpossibleCommand(System::Linux);
const AUTO: Shapes = Shapes {
    next: Shape::InPlace,
    fallback: Some(IMPOSSIBLE),
};

/// One node whose pods have these shapes.
fn node(images: &[&str], shapes: Shapes) -> Node {
    let limits = Limits {
        parallelism: 1,
        timeout: seconds(100),
        backoff_limit: 1,
        ask_again: None,
    };
    let mut warming = Warming::new(images.iter().map(|image| (*image).into()).collect(), limits);
    warming.add("n", shapes, true, Duration::ZERO);
    Node {
        warming,
        now: Duration::ZERO,
    }
}

fn impossible(images: &[&str]) -> Node {
    node(
        images,
        Shapes {
            next: IMPOSSIBLE,
            fallback: None,
        },
    )
}

/// What a node says of one container.
fn not_started() -> Value {
    json!({"imageID": "r.example/x@sha256:1", "containerID": "containerd://1",
        "state": {"terminated": {"exitCode": 128, "reason": "StartError"}}})
}

fn waits(reason: &str) -> Value {
    json!({"imageID": "", "state": {"waiting": {"reason": reason, "message": "not found"}}})
}

fn ended(exit_code: i32, reason: &str) -> Value {
    json!({"imageID": "r.example/x@sha256:1", "containerID": "containerd://1",
        "state": {"terminated": {"exitCode": exit_code, "reason": reason}}})
}

fn creating() -> Value {
    waits("ContainerCreating")
}

/// A pod with a container for each image, as the API server sends it.
fn set(uid: &str, images: &[&str], phase: &str, said: &[Value]) -> WarmerPod {
    let name = |number: usize| format!("image-{number}");
    let containers: Vec<_> = images
        .iter()
        .enumerate()
        .map(|(number, image)| json!({"name": name(number), "image": image}))
        .collect();
    let statuses: Vec<_> = said
        .iter()
        .enumerate()
        .map(|(number, said)| {
            let mut status = said.clone();
            status["name"] = name(number).into();
            status
        })
        .collect();
    read(json!({
        "metadata": {"name": format!("pod-{uid}"), "uid": uid,
            "annotations": {"swaplet.io/warm-node": "n", "swaplet.io/warm-image": images.join(" ")}},
        "spec": {"containers": containers},
        "status": {"phase": phase, "containerStatuses": statuses},
    }))
}

/// A pod is made that pulls all of these; while that is under way nothing else is written.
fn creates(node: &mut Node, images: &[&str], uid: &str) {
    let action = node.step().expect("a creation");
    let Action::Create {
        shape: IMPOSSIBLE,
        images: made,
        ..
    } = &action
    else {
        panic!("{action:?}")
    };
    assert_eq!(
        made.iter().map(|image| &**image).collect::<Vec<_>>(),
        images
    );
    node.assert_silent();
    node.answers(
        &action,
        Answer::Pod(Box::new(set(uid, images, "Pending", &[]))),
    );
}

fn ends(node: &Node) -> Vec<Option<End>> {
    node.warming
        .progress_on("n")
        .unwrap()
        .iter()
        .map(|image| image.end.clone())
        .collect()
}

fn why(node: &Node, index: usize) -> String {
    match &ends(node)[index] {
        Some(End::Failed(why)) => why.to_string(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_shape_is_what_the_node_can_do_unless_the_operator_has_chosen() {
    let of = |labels: &[&str], choice| {
        let node = node_object("x", labels, &[], &[]);
        shapes(
            &node,
            &Recognised::of(&node, &NodeTable::built_in()),
            choice,
        )
    };
    let (linux, windows, strange) = (
        &["kubernetes.io/arch=arm64"][..],
        &["kubernetes.io/os=windows"][..],
        &["kubernetes.io/arch=s390x"][..],
    );
    let only = |next| {
        Ok(Shapes {
            next,
            fallback: None,
        })
    };
    assert_eq!(of(&[], ShapeChoice::Auto), Ok(AUTO));
    assert_eq!(of(linux, ShapeChoice::Auto), Ok(AUTO));
    assert_eq!(
        of(windows, ShapeChoice::Auto),
        only(Shape::ImpossibleCommand(System::Windows))
    );
    assert_eq!(of(strange, ShapeChoice::Auto), only(IMPOSSIBLE));
    assert_eq!(of(linux, ShapeChoice::InPlace), only(Shape::InPlace));
    assert!(
        of(windows, ShapeChoice::InPlace)
            .unwrap_err()
            .contains("runs windows")
    );
    assert!(
        of(strange, ShapeChoice::InPlace)
            .unwrap_err()
            .contains("no park program for s390x")
    );
    assert_eq!(of(linux, ShapeChoice::ImpossibleCommand), only(IMPOSSIBLE));
    for choice in [ShapeChoice::Auto, ShapeChoice::ImpossibleCommand] {
        assert!(
            of(&["kubernetes.io/os=plan9"], choice)
                .unwrap_err()
                .contains("plan9")
        );
        assert!(
            of(&["eks.amazonaws.com/compute-type=fargate"], choice)
                .unwrap_err()
                .contains("a machine of its own")
        );
    }
}

#[test]
fn image_volumes_come_after_swaps_where_the_kubelet_surely_has_them_and_else_if_told() {
    let of = |minor: u32, choice| {
        let mut node = node_object("x", &[], &[], &[]);
        node.kubelet = Some(KubeletVersion { major: 1, minor });
        shapes(
            &node,
            &Recognised::of(&node, &NodeTable::built_in()),
            choice,
        )
    };
    assert_eq!(of(35, ShapeChoice::Auto), Ok(AUTO));
    assert_eq!(
        of(36, ShapeChoice::Auto),
        Ok(Shapes {
            next: Shape::InPlace,
            fallback: Some(Shape::ImageVolumes)
        })
    );
    assert_eq!(
        of(34, ShapeChoice::ImageVolumes),
        Ok(Shapes {
            next: Shape::ImageVolumes,
            fallback: None
        })
    );
    for labels in [
        &["kubernetes.io/os=windows"][..],
        &["kubernetes.io/arch=s390x"],
    ] {
        let node = node_object("x", labels, &[], &[]);
        let shapes = shapes(
            &node,
            &Recognised::of(&node, &NodeTable::built_in()),
            ShapeChoice::ImageVolumes,
        );
        assert!(shapes.is_err_and(|why| why.contains("park")), "{labels:?}");
    }
}

/// The same pod with volumes for the images.
fn volumes(uid: &str, images: &[&str], phase: &str, said: &[Value]) -> WarmerPod {
    WarmerPod {
        shape: Shape::ImageVolumes,
        ..set(uid, images, phase, said)
    }
}

#[test]
fn a_container_that_runs_has_its_volume_and_one_that_ends_proves_nothing() {
    let runs = json!({"imageID": "park", "containerID": "c", "state": {"running": {}}});
    for (said, words) in [
        (waits("ErrImagePull"), "ErrImagePull"),
        (waits("CreateContainerError"), "CreateContainerError"),
        (not_started(), "as a volume has ended with 128"),
        (ended(0, "Completed"), "as a volume has ended with 0"),
    ] {
        let mut node = node(
            &[A, B, C],
            Shapes {
                next: Shape::ImageVolumes,
                fallback: None,
            },
        );
        let action = node.step().unwrap();
        assert!(
            matches!(&action, Action::Create { shape: Shape::ImageVolumes, images, .. } if images.len() == 3),
            "{action:?}"
        );
        node.answers(
            &action,
            Answer::Pod(Box::new(volumes("u", &[A, B, C], "Pending", &[]))),
        );
        let said = || {
            volumes(
                "u",
                &[A, B, C],
                "Running",
                &[runs.clone(), said.clone(), runs.clone()],
            )
        };
        node.sees(said()).assert_silent();
        assert_eq!(
            ends(&node),
            [Some(End::Succeeded), None, Some(End::Succeeded)]
        );
        node.after(12).sees(said()).deletes("u");
        assert!(why(&node, 1).contains(words), "{}", why(&node, 1));
    }
}

/// Where swaps do not work on a node with image volumes.
fn with_volumes(images: &[&str]) -> Node {
    node(images, Shapes::after(Shape::ImageVolumes))
}

/// What is told of the node's shapes since the last time.
fn told(node: &mut Node) -> String {
    let told = node.warming.fallbacks();
    let [(name, why)] = &told[..] else {
        panic!("{told:?}")
    };
    assert_eq!(&**name, "n");
    why.to_string()
}

#[test]
fn where_a_runtime_has_no_image_volumes_pods_with_an_impossible_command_go_on() {
    let mut node = with_volumes(&[A, B]);
    let action = node.step().unwrap();
    node.answers(
        &action,
        Answer::Pod(Box::new(volumes("u", &[A, B], "Pending", &[]))),
    );
    let runs = json!({"imageID": "park", "containerID": "c", "state": {"running": {}}});
    node.sees(volumes(
        "u",
        &[A, B],
        "Running",
        &[runs, waits("CreateContainerError")],
    ))
    .deletes("u");
    assert_eq!(
        told(&mut node),
        "an image cannot be mounted as a volume: CreateContainerError: not found"
    );
    assert_eq!(
        ends(&node),
        [Some(End::Succeeded), None],
        "what was proved stays proved"
    );
    creates(&mut node, &[B], "v");
}

#[test]
fn a_missing_image_is_no_reason_for_another_shape() {
    let mut node = with_volumes(&[A]);
    let action = node.step().unwrap();
    node.answers(
        &action,
        Answer::Pod(Box::new(volumes("u", &[A], "Pending", &[]))),
    );
    node.sees(volumes("u", &[A], "Pending", &[waits("ErrImagePull")]))
        .assert_silent();
    node.after(12).deletes("u");
    assert!(why(&node, 0).contains("ErrImagePull"));
    assert!(node.warming.fallbacks().is_empty());
}

#[test]
fn where_a_policy_forbids_image_volumes_pods_with_an_impossible_command_go_on() {
    for denial in [
        "violates PodSecurity \"restricted:v1.30\": restricted volume types",
        "volumes of this type are not allowed",
    ] {
        let mut node = with_volumes(&[A, B]);
        let action = node.step().unwrap();
        node.answers(&action, Answer::Denied(denial.to_owned()));
        assert_eq!(
            told(&mut node),
            format!("a pod with image volumes may not be made: {denial}")
        );
        creates(&mut node, &[A, B], "u");
    }
    let mut node = with_volumes(&[A, B]);
    let action = node.step().unwrap();
    node.answers(&action, Answer::Denied("exceeded quota: pods".to_owned()))
        .assert_silent();
    assert!(
        node.warming.fallbacks().is_empty(),
        "a quota holds for every shape"
    );
}

#[test]
fn containers_that_could_not_be_started_prove_their_images_and_the_pod_goes() {
    let mut node = impossible(&[A, B, C]);
    creates(&mut node, &[A, B, C], "u");
    node.sees(set(
        "u",
        &[A, B, C],
        "Pending",
        &[creating(), creating(), creating()],
    ))
    .assert_silent();
    node.warming.hear(
        "u",
        &Pulled {
            image: B.into(),
            took: Some(seconds(2)),
            bytes: Some(7),
        },
    );
    node.sees(set(
        "u",
        &[A, B, C],
        "Pending",
        &[not_started(), not_started(), creating()],
    ))
    .assert_silent();
    assert_eq!(
        ends(&node),
        [Some(End::Succeeded), Some(End::Succeeded), None]
    );
    node.sees(set(
        "u",
        &[A, B, C],
        "Failed",
        &[
            not_started(),
            not_started(),
            ended(128, "ContainerCannotRun"),
        ],
    ))
    .deletes("u");
    assert_eq!(ends(&node), [const { Some(End::Succeeded) }; 3]);
    assert_eq!(
        node.warming.progress_on("n").unwrap()[1]
            .pulled
            .as_ref()
            .unwrap()
            .bytes,
        Some(7)
    );
    assert!(node.warming.is_over());
    node.assert_silent();
}

#[test]
fn a_runtime_that_makes_no_such_container_has_pulled_all_the_same() {
    let mut node = impossible(&[A]);
    creates(&mut node, &[A], "u");
    node.sees(set("u", &[A], "Pending", &[waits("CreateContainerError")]))
        .deletes("u");
    assert_eq!(ends(&node), [Some(End::Succeeded)]);
}

#[test]
fn a_container_that_has_run_is_no_proof_but_a_defect_and_its_pod_goes_at_once() {
    for said in [
        ended(0, "Completed"),
        ended(128, "Error"),
        ended(1, "Error"),
        json!({"imageID": "i", "containerID": "c", "state": {"running": {}}}),
    ] {
        let mut node = impossible(&[A, B]);
        creates(&mut node, &[A, B], "u");
        node.sees(set("u", &[A, B], "Pending", &[said.clone(), creating()]))
            .deletes("u");
        assert!(
            why(&node, 0).contains("was started, though no image has its command"),
            "{said}: {}",
            why(&node, 0)
        );
        creates(&mut node, &[B], "v");
    }
}

#[test]
fn what_proves_nothing_is_waited_for_and_a_pod_that_is_lost_is_made_again() {
    let made_up = json!({"imageID": "", "state": {"terminated": {"exitCode": 137, "reason": "ContainerStatusUnknown"}}});
    let no_image = json!({"imageID": "", "containerID": "c", "state": {"terminated": {"exitCode": 128, "reason": "StartError"}}});
    for said in [made_up, no_image] {
        let mut node = impossible(&[A]);
        creates(&mut node, &[A], "u");
        node.sees(set("u", &[A], "Running", std::slice::from_ref(&said)))
            .assert_silent();
        node.sees(set("u", &[A], "Failed", std::slice::from_ref(&said)))
            .deletes("u")
            .after(59)
            .assert_silent();
        creates(node.after(1), &[A], "v");
        node.sees(set("v", &[A], "Failed", std::slice::from_ref(&said)))
            .deletes("v");
        assert!(why(&node, 0).contains("was lost"), "{}", why(&node, 0));
        node.assert_silent();
    }
}

#[test]
fn what_cannot_be_pulled_keeps_nobody_waiting_and_fails_after_its_tries() {
    let mut node = impossible(&[A, B]);
    creates(&mut node, &[A, B], "u");
    let said = [waits("ErrImagePull"), not_started()];
    node.sees(set("u", &[A, B], "Pending", &said))
        .assert_silent();
    assert_eq!(ends(&node), [None, Some(End::Succeeded)]);
    node.after(11).assert_silent();
    assert_eq!(
        ends(&node)[0],
        None,
        "the kubelet has its own back-off, and the same status is no other try"
    );
    node.after(1).deletes("u");
    assert!(why(&node, 0).contains("ErrImagePull: not found"));
}

#[test]
fn more_images_than_a_pod_takes_are_pulled_by_one_pod_after_the_other() {
    let names: Vec<String> = (0..10)
        .map(|number| format!("r.example/app{number}:1"))
        .collect();
    let all: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut node = impossible(&all);
    creates(&mut node, &all[..8], "u");
    let mut said = vec![not_started(); 8];
    said[3] = waits("ImagePullBackOff");
    // The one that failed has to wait for its next try, and two others have had none.
    node.sees(set("u", &all[..8], "Pending", &said))
        .deletes("u");
    creates(&mut node, &all[8..], "v");
    node.sees(set(
        "v",
        &all[8..],
        "Failed",
        &[not_started(), not_started()],
    ))
    .deletes("v")
    .assert_silent();
    creates(node.after(12), &all[3..4], "w");
    node.sees(set("w", &all[3..4], "Failed", &[not_started()]))
        .deletes("w");
    assert!(ends(&node).iter().all(|end| *end == Some(End::Succeeded)));
}

#[test]
fn of_images_that_keep_each_other_waiting_each_gets_a_pod_and_the_time_that_is_its_own() {
    let mut node = impossible(&[A, B]);
    creates(&mut node, &[A, B], "u");
    let waiting = || set("u", &[A, B], "Pending", &[creating(), creating()]);
    node.sees(waiting()).after(99).assert_silent();
    node.warming.hear(
        "u",
        &Pulled {
            image: A.into(),
            took: Some(seconds(90)),
            bytes: None,
        },
    );
    node.after(100).assert_silent();
    node.after(1).deletes("u");
    assert_eq!(
        ends(&node),
        [None, None],
        "nobody knows which of them it was"
    );
    creates(&mut node, &[A], "v");
    node.sees(set("v", &[A], "Failed", &[not_started()]))
        .deletes("v");
    for uid in ["w", "x"] {
        creates(&mut node, &[B], uid);
        node.sees(set(uid, &[B], "Pending", &[creating()]))
            .after(99)
            .assert_silent();
        node.after(1).deletes(uid).after(12);
    }
    assert_eq!(why(&node, 1), "not pulled within 100 s");
    node.assert_silent();
}

#[test]
fn a_pod_that_no_node_takes_is_given_up() {
    let mut node = impossible(&[A, B]);
    creates(&mut node, &[A, B], "u");
    node.after(119).assert_silent();
    node.after(1).deletes("u");
    assert!(
        why(&node, 1).contains("has not started within 120 s"),
        "{}",
        why(&node, 1)
    );
    node.assert_silent();
}

#[test]
fn an_image_that_somebody_has_changed_proves_nothing() {
    let mut node = impossible(&[A, B]);
    creates(&mut node, &[A, B], "u");
    let mut changed = set("u", &[A, B], "Failed", &[not_started(), not_started()]);
    changed.images[1].image = C.into();
    node.sees(changed).deletes("u");
    assert_eq!(ends(&node), [None, None]);
}

#[test]
fn a_set_that_is_forbidden_is_taken_apart_and_the_forbidden_image_alone_fails() {
    let mut node = impossible(&[A, B]);
    let action = node.step().unwrap();
    node.answers(
        &action,
        Answer::Denied("images of r.example/a are not allowed".to_owned()),
    );
    let action = node.step().unwrap();
    assert!(
        matches!(&action, Action::Create { images, .. } if images[..] == [A.into()]),
        "{action:?}"
    );
    node.answers(
        &action,
        Answer::Denied("images of r.example/a are not allowed".to_owned()),
    );
    assert_eq!(why(&node, 0), "images of r.example/a are not allowed");
    creates(&mut node, &[B], "u");
}

#[test]
fn where_a_swap_is_forbidden_pods_with_an_impossible_command_go_on() {
    for denial in [
        "admission webhook \"policy.example\" denied the request: no updates",
        "cannot patch resource \"pods\"",
    ] {
        let mut node = node(&[A, B, C], AUTO);
        node.creates(A, "u")
            .sees(pod("u", A, None, &running("c0", A)));
        let swap = node.step().unwrap();
        assert!(matches!(&swap, Action::Swap { .. }), "{swap:?}");
        node.answers(&swap, Answer::Denied(denial.to_owned()))
            .deletes("u");
        creates(&mut node, &[B, C], "v");
        let told = node.warming.fallbacks();
        assert!(
            matches!(&told[..], [(name, why)] if &**name == "n" && why.contains(denial)),
            "{told:?}"
        );
        assert!(node.warming.fallbacks().is_empty(), "it is told once");
        node.sees(set("v", &[B, C], "Failed", &[not_started(), not_started()]))
            .deletes("v");
        assert_eq!(ends(&node), [const { Some(End::Succeeded) }; 3]);
    }
}

#[test]
fn a_swap_that_lost_a_race_is_no_reason_for_another_shape() {
    let mut node = node(&[A, B], AUTO);
    node.creates(A, "u")
        .sees(pod("u", A, None, &running("c0", A)));
    let swap = node.step().unwrap();
    node.answers(&swap, Answer::Conflict).assert_silent();
    node.after(1).swaps("u", A, B, "c0");
    assert!(node.warming.fallbacks().is_empty());
}

#[test]
fn where_the_operator_wants_swaps_only_a_forbidden_one_is_a_failure() {
    let mut node = node(&[A, B], Shapes::in_place());
    node.creates(A, "u")
        .sees(pod("u", A, None, &running("c0", A)));
    let swap = node.step().unwrap();
    node.answers(&swap, Answer::Denied("no updates".to_owned()))
        .deletes("u");
    assert_eq!(why(&node, 1), "no updates");
    node.assert_silent();
}

#[test]
fn a_node_that_ignores_its_first_swap_gets_pods_of_the_other_shape() {
    let mut node = node(&[A, B], AUTO);
    node.creates(A, "u")
        .sees(pod("u", A, None, &running("c0", A)))
        .swaps("u", A, B, "c0");
    node.sees(pod("u", B, Some("c0"), &running("c0", A)))
        .after(99)
        .assert_silent();
    node.after(1).deletes("u");
    creates(&mut node, &[B], "v");
    let told = node.warming.fallbacks();
    assert!(
        told[0]
            .1
            .contains("after a change of the image of its pod it was not pulled within 100 s"),
        "{told:?}"
    );
}

#[test]
fn where_a_swap_has_worked_a_slow_pull_is_a_slow_pull() {
    let mut node = node(&[A, B, C], AUTO);
    node.creates(A, "u")
        .sees(pod("u", A, None, &running("c0", A)))
        .swaps("u", A, B, "c0");
    node.sees(pod("u", B, Some("c0"), &running("c1", B)))
        .swaps("u", B, C, "c1");
    node.after(100).deletes("u");
    assert!(node.warming.fallbacks().is_empty());
    node.after(12).creates(C, "v");
}

#[test]
fn a_pod_of_an_earlier_life_is_taken_over_whatever_its_shape_is() {
    let mut node = node(&[A, B], AUTO);
    node.sees(set("u", &[A, B], "Failed", &[not_started(), not_started()]))
        .deletes("u");
    assert_eq!(ends(&node), [Some(End::Succeeded), Some(End::Succeeded)]);
    let mut node = impossible(&[A, B]);
    node.sees(pod("u", A, None, &nothing())).assert_silent();
    node.sees(pod("u", A, None, &running("c0", A))).deletes("u");
    creates(&mut node, &[B], "v");
}
