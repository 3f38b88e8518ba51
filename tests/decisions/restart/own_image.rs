//! A container ends with its own image, or was never touched: whatever its image is called, on the
//! node and in the registry, and whatever its policies are.

mod properties;

use serde_json::{Value, json};
use swaplet_core::objects::node::KubeletVersion;
use swaplet_core::objects::pod::{ContainerState, Terminated};
use swaplet_core::report::reason::Reason;
use swaplet_core::restart::reconcile::Action;
use swaplet_core::restart::request::StatePhase;

use super::world::{DIGEST, PARK, World, park_image, pod, request, restarted};

/// The main `app` and `log` of a pod of this policy, with a change.
fn of(policy: &str, force: bool, change: impl FnOnce(&mut Value)) -> World {
    let mut object = pod(policy);
    change(&mut object);
    World::new(
        &request(&["app"], &json!({"forceRecreate": force})),
        &object,
    )
}

#[track_caller]
fn never_touched(mut world: World, words: &[&str]) {
    let (phase, message) = world.assert_over("app");
    assert_eq!(
        (phase, world.swaps, world.reasons()),
        (StatePhase::Failed, 0, vec![Reason::RestartFailed])
    );
    for word in words {
        assert!(message.contains(word), "{word}: {message}");
    }
}

fn kind_loaded(object: &mut Value) {
    object["spec"]["containers"][0]["image"] = json!("my-app2:dev");
    object["status"]["containerStatuses"][0]["image"] = json!("docker.io/library/my-app2:dev");
    object["status"]["containerStatuses"][0]["imageID"] =
        json!(format!("docker.io/library/import-2026-11-22@{DIGEST}"));
}

#[test]
fn d1a_an_image_of_kind_load_is_restarted_by_the_long_form_of_its_name() {
    for policy in ["Always", "OnFailure", "Never"] {
        let mut world = of(policy, false, kind_loaded);
        world.settle();
        assert_eq!(
            (world.image("app"), world.swaps),
            ("docker.io/library/my-app2:dev", 1),
            "{policy}"
        );
        world.restarts("app", true);
        assert_eq!(world.assert_over("app").0, StatePhase::Succeeded);
    }
}

fn retagged(object: &mut Value) {
    object["spec"]["containers"][0]["image"] = json!("local.test/app:1");
    object["spec"]["containers"][0]["imagePullPolicy"] = json!("Never");
    object["status"]["containerStatuses"][0]["imageID"] =
        json!(format!("127.0.0.1:30573/work@{DIGEST}"));
}

#[test]
fn d1b_an_image_that_the_node_has_by_another_repository_is_not_written_by_its_digest() {
    for policy in ["Always", "OnFailure", "Never"] {
        for force in [false, true] {
            never_touched(
                of(policy, force, retagged),
                &[
                    "127.0.0.1:30573/work@sha256",
                    "local.test/app:1",
                    "--park-image",
                ],
            );
        }
        let mut parks = of(policy, false, retagged);
        parks.park = Some(park_image());
        never_touched(
            parks,
            &[
                "127.0.0.1:30573/work@sha256",
                "cannot be parked",
                "imagePullPolicy is Never",
            ],
        );
    }
    let mut parked = of("Always", false, |object| {
        retagged(object);
        object["spec"]["containers"][0]["imagePullPolicy"] = json!("IfNotPresent");
    });
    parked.park = Some(park_image());
    parked.settle();
    assert_eq!(
        (parked.image("app"), parked.swaps),
        (PARK, 1),
        "parked instead"
    );
}

#[test]
fn d1_what_a_status_says_of_a_bare_digest_is_never_written() {
    for force in [false, true] {
        let world = of("Always", force, |object| {
            object["spec"]["containers"][0]["image"] = json!(DIGEST);
            object["status"]["containerStatuses"][0]["image"] = json!("evil.example/backdoor:1");
            object["status"]["containerStatuses"][0]["imageID"] =
                json!(format!("evil.example/backdoor@{DIGEST}"));
        });
        never_touched(world, &["is not a name"]);
    }
}

fn pulls_always(object: &mut Value) {
    object["spec"]["containers"][0]["imagePullPolicy"] = json!("Always");
}

/// The registry has other bytes by that tag, and the manifest before is gone.
fn fails(world: &mut World) {
    let waiting = ContainerState::Waiting {
        reason: "ErrImagePull".into(),
        message: "not found".into(),
    };
    world.node_says("app", |pod, index| {
        pod.pod.containers[index].status.as_mut().unwrap().state = waiting
    });
}

#[test]
fn d1c_a_digest_that_the_registry_has_no_more_is_taken_back_also_after_the_deadline() {
    for (deadline, pulls) in [(None, "Always"), (Some(5), "Always")] {
        let mut world = of("Always", false, pulls_always);
        world.request.active_deadline_seconds = deadline;
        world.settle();
        assert_eq!(world.swaps, 1, "{pulls}");
        let waits = world.later(10).settle();
        assert!(
            waits.again.is_some() && !world.request.is_completed(),
            "until it is seen what became of it: {waits:?}"
        );
        fails(&mut world);
        world.dies().settle();
        assert_eq!((world.image("app"), world.swaps), ("r.example/app:1", 2));
        assert_eq!(world.assert_over("app").0, StatePhase::Failed);
    }
    // Where it is on the node, nothing has to be waited for.
    let mut world = of("Always", false, |_| {});
    world.request.active_deadline_seconds = Some(5);
    world.settle();
    assert_eq!(
        (world.later(10).assert_over("app").0, world.swaps),
        (StatePhase::Failed, 1)
    );
}

/// The answer to the change was lost, and the deadline passes before it is seen.
#[test]
fn u202_an_alias_that_arrives_after_the_deadline_is_taken_back() {
    let sent = |change: fn(&mut Value)| {
        let mut world = of("Always", false, change);
        world.request.active_deadline_seconds = Some(5);
        let sent = world.settle_until(|action| matches!(action, Action::Swap(_)));
        world.memory.note_in_vain("pods", "timed out", world.now);
        world.later(5);
        (world, sent)
    };
    let (mut world, alias) = sent(pulls_always);
    let waits = world.settle();
    assert!(
        waits.again.is_some() && !world.request.is_completed(),
        "{waits:?}"
    );
    let mut never = world.clone();
    world.write(&alias);
    fails(&mut world);
    world.settle();
    assert_eq!((world.image("app"), world.swaps), ("r.example/app:1", 2));
    assert_eq!(world.assert_over("app").0, StatePhase::Failed);

    never.later(54).settle();
    assert!(!never.request.is_completed());
    assert_eq!(never.later(1).assert_over("app").0, StatePhase::Failed);
    assert_eq!(never.swaps, 0);
    // It would be started from what is on the node.
    let (mut there, _) = sent(|_| {});
    assert_eq!(there.assert_over("app").0, StatePhase::Failed);
}

/// Kubelets from 1.35 on may have to pull an image by the other length of its name.
#[test]
fn u201_the_other_length_of_a_name_is_taken_back_also_after_the_deadline_or_a_deletion() {
    for (kubelet, deletes) in [
        ("v1.35.0", false),
        ("v1.35.0", true),
        ("", false),
        ("", true),
    ] {
        let when = format!("{kubelet} {deletes}");
        let mut world = of("Always", false, kind_loaded);
        world.kubelet = KubeletVersion::read(kubelet);
        world.request.active_deadline_seconds = (!deletes).then_some(5);
        world.settle();
        let long = "docker.io/library/my-app2:dev";
        assert_eq!((world.image("app"), world.swaps), (long, 1), "{when}");
        world.request.deleting = deletes;
        let waits = world.later(10).settle();
        assert!(
            waits.again.is_some() && world.request.is_held_back() && !world.request.is_completed(),
            "{when}: {waits:?}"
        );
        fails(&mut world);
        world.dies().settle();
        assert_eq!(
            (world.image("app"), world.swaps),
            ("my-app2:dev", 2),
            "{when}"
        );
        assert!(!world.request.is_held_back(), "{when}");
    }
    // To older ones both are one image, and nothing has to be waited for.
    let mut world = of("Always", false, kind_loaded);
    world.request.active_deadline_seconds = Some(5);
    world.settle();
    assert!(!world.request.is_held_back());
    assert_eq!(
        (world.later(10).assert_over("app").0, world.swaps),
        (StatePhase::Failed, 1)
    );
}

/// It is on no node, whatever the pull policy says. Only the process that has written it knows that
/// it is not somebody else's.
#[test]
fn u225_an_alias_that_a_webhook_has_renamed_is_taken_back_also_after_the_deadline_or_a_deletion() {
    let mirrored = restarted("app", 2).replacen("r.example", "mirror.example", 1);
    for (deletes, dies) in [(false, false), (true, false), (false, true), (true, true)] {
        let when = format!("{deletes} {dies}");
        let mut world = of("Always", false, |_| {});
        world.request.active_deadline_seconds = (!deletes).then_some(5);
        let sent = world.settle_until(|action| matches!(action, Action::Swap(_)));
        let Action::Swap(change) = &sent else {
            unreachable!()
        };
        world.write(&sent);
        world.node_says("app", |pod, index| {
            pod.pod.containers[index].image = mirrored.as_str().into();
        });
        let stored = world.pod.clone().unwrap();
        world.memory.note_stored(change, &stored);
        world.settle();
        assert!(world.request.is_held_back(), "{when}");
        world.request.deleting = deletes;
        let waits = world.later(10).settle();
        assert!(
            waits.again.is_some() && !world.request.is_completed(),
            "{when}: {waits:?}"
        );
        fails(&mut world);
        if dies {
            world.dies();
        }
        let end = world.settle();
        let (image, swaps) = if dies {
            (&*mirrored, 1)
        } else {
            ("r.example/app:1", 2)
        };
        assert_eq!((world.image("app"), world.swaps), (image, swaps), "{when}");
        assert!(!world.request.is_held_back(), "{when}: {end:?}");
        if dies {
            let told = format!("{:?}", world.told);
            assert!(told.contains("kubectl set image"), "{when}: {told}");
        }
        if !deletes {
            assert_eq!(world.assert_over("app").0, StatePhase::Failed, "{when}");
        }
    }
    // One that starts has nothing to wait for, and nothing is held of what somebody else sets.
    for (image, phase) in [
        (&*mirrored, StatePhase::Succeeded),
        ("r.example/other:1", StatePhase::Failed),
    ] {
        let mut world = of("Always", false, |_| {});
        world.settle();
        world.node_says("app", |pod, index| {
            pod.pod.containers[index].image = image.into();
        });
        world.restarts("app", true);
        assert_eq!(world.assert_over("app").0, phase, "{image}");
        assert!(!world.request.is_held_back(), "{image}");
    }
}

#[test]
fn d1c_an_alias_that_runs_after_all_is_not_taken_back() {
    let mut world = of("Always", false, pulls_always);
    world.settle();
    fails(&mut world);
    let down = world.settle_until(|action| matches!(action, Action::WriteDown(_)));
    world.write(&down);
    world.restarts("app", true);
    assert_eq!(
        (world.assert_over("app").0, world.swaps),
        (StatePhase::Succeeded, 1)
    );
}

#[test]
fn d1c_what_asks_the_registry_is_refused_where_its_end_may_be_final() {
    for policy in ["OnFailure", "Never"] {
        never_touched(
            of(policy, false, pulls_always),
            &["imagePullPolicy Always", "forceRecreate"],
        );
        let mut forced = of(policy, true, pulls_always);
        forced.settle();
        assert_eq!(forced.swaps, 1);
    }
}

fn of_job(object: &mut Value) {
    object["metadata"]["ownerReferences"] = json!([{"apiVersion": "batch/v1", "kind": "Job", "name": "nightly", "uid": "j", "controller": true}]);
}

#[test]
fn d1d_a_main_of_a_job_is_not_restarted_unasked() {
    for policy in ["OnFailure", "Never"] {
        never_touched(
            of(policy, false, of_job),
            &[
                "main container of Job nightly",
                policy,
                "end of its work",
                "forceRecreate",
            ],
        );
        let mut forced = of(policy, true, of_job);
        forced.settle();
        assert_eq!(forced.swaps, 1, "{policy}");
        // Neither its sidecars nor what starts again after every end.
        for change in [
            |object: &mut Value| {
                object["spec"]["containers"][0]["env"] =
                    json!([{"name": "KRUISE_TERMINATE_SIDECAR_WHEN_JOB_EXIT", "value": "true"}])
            },
            |object: &mut Value| object["spec"]["containers"][0]["restartPolicy"] = json!("Always"),
        ] {
            let mut other = of(policy, false, |object| {
                of_job(object);
                change(object);
            });
            other.settle();
            assert_eq!(other.swaps, 1, "{policy}");
        }
    }
}

/// Stopped with 0, and not started again: that is not told as a success.
#[test]
fn d1d_what_is_lost_by_force_is_told() {
    let mut world = of("OnFailure", true, of_job);
    world.settle();
    let end = Terminated {
        exit_code: Some(0),
        ..Terminated::default()
    };
    world.node_says("app", |pod, index| {
        pod.pod.containers[index].status.as_mut().unwrap().state =
            ContainerState::Terminated(Box::new(end))
    });
    world.settle();
    let (phase, message) = world.later(330).assert_over("app");
    assert!(
        phase == StatePhase::Failed && message.contains("exit code 0"),
        "{message}"
    );
}
