//! Pods with an impossible command: what proves an image, what is waited for, and what fails.

use serde_json::json;
use swaplet_core::report::write_error::WriteError;
use swaplet_core::warm::warming::{Action, End, Pulled};

use super::{C, creates, creating, ended, ends, impossible, not_started, set, waits, why};
use crate::warm::{A, B, seconds};

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
    node.warming.handle(
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
    let back_off = [waits("ImagePullBackOff"), not_started()];
    node.after(9)
        .sees(set("u", &[A, B], "Pending", &back_off))
        .assert_silent();
    node.after(9).assert_silent();
    assert_eq!(
        ends(&node)[0],
        None,
        "the kubelet has its own back-off, and the same failure is no other try"
    );
    node.sees(set("u", &[A, B], "Pending", &said)).deletes("u");
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
    node.warming.handle(
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

/// Whoever may create Events in the namespace of the pod can name any number of images.
#[test]
fn events_of_other_images_give_a_pod_no_more_time_than_its_own() {
    let mut node = impossible(&[A, B]);
    creates(&mut node, &[A, B], "u");
    node.sees(set("u", &[A, B], "Pending", &[creating(), creating()]))
        .assert_silent();
    for number in 0..600 {
        let pulled = Pulled {
            image: format!("r.example/other{number}:1").into(),
            took: None,
            bytes: None,
        };
        node.warming.handle("u", &pulled);
    }
    node.after(299).assert_silent();
    node.after(1).deletes("u");
}

#[test]
fn a_pod_that_no_node_takes_is_given_up() {
    let mut node = impossible(&[A, B]);
    for uid in ["u", "v"] {
        creates(&mut node, &[A, B], uid);
        node.after(119).assert_silent();
        node.after(1).deletes(uid).after(60);
    }
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
        Err(WriteError::Denied(
            "images of r.example/a are not allowed".to_owned(),
        )),
    );
    let action = node.step().unwrap();
    assert!(
        matches!(&action, Action::Create { images, .. } if images[..] == [A.into()]),
        "{action:?}"
    );
    node.answers(
        &action,
        Err(WriteError::Denied(
            "images of r.example/a are not allowed".to_owned(),
        )),
    );
    assert_eq!(why(&node, 0), "images of r.example/a are not allowed");
    creates(&mut node, &[B], "u");
}
