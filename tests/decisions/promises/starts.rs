//! Exit images of which it is not certain that they start and end well: a kubelet's pod is ended by
//! its phase, not by a trial, and none is run a third time.

use serde_json::json;
use swaplet_core::cluster::node_class::NodeClass;
use swaplet_core::objects::pod::annotations::DELAY;
use swaplet_core::report::decision::{Action, Decision};
use swaplet_core::report::reason::Reason;
use swaplet_core::terminate::memory::Memory;
use swaplet_core::terminate::methods::AllowedMethods;

use super::{FINISH, NEVER_FINISH, QUIET_SECONDS, finishes, swapped_names, under};
use crate::builder::{ContainerBuilder, PodBuilder, sidecar, sidecar_with_image};
use crate::expect::{EXIT, LISTED, Life};
use crate::headroom::{done, ledger};

/// A life with a Job of this limit.
fn on_job(limit: u32, allowed: AllowedMethods) -> Life {
    Life {
        headroom: ledger(limit, &[]),
        ..under(allowed)
    }
}

/// A pod of the Job whose sidecar asks for an image of the list, and has a command.
fn asks(name: &str) -> PodBuilder {
    done(name).but("side", |_| {
        sidecar_with_image("side", LISTED)
            .spec("command", json!(["/bin/sh"]))
            .running()
    })
}

/// One whose sidecar executes a file of a ConfigMap.
fn calls_a_script(name: &str) -> PodBuilder {
    let mounts = json!([{"name": "scripts", "mountPath": "/scripts"}]);
    done(name)
        .but("side", |side| {
            side.spec("command", json!(["/scripts/run.sh"]))
                .spec("volumeMounts", mounts)
        })
        .set(
            "/spec/volumes",
            json!([{"name": "scripts", "configMap": {"name": "scripts"}}]),
        )
}

/// One whose sidecar runs under a profile of the cluster's own, which may let no other program start.
fn is_confined(name: &str, by_pod: bool) -> PodBuilder {
    let context = json!({"seccompProfile": {"type": "Localhost", "localhostProfile": "own.json"}});
    if by_pod {
        done(name).set("/spec/securityContext", context)
    } else {
        done(name).but("side", |side| side.spec("securityContext", context))
    }
}

/// One whose pod and whose sidecar have these security contexts.
fn under_contexts(pod: serde_json::Value, container: serde_json::Value) -> PodBuilder {
    done("a")
        .set("/spec/securityContext", pod)
        .but("side", |side| side.spec("securityContext", container))
}

/// One that has an image volume, which this container mounts.
fn mounts_image(container: &str) -> PodBuilder {
    let mounts = json!([{"name": "models", "mountPath": "/models"}]);
    done("a")
        .but(container, |container| {
            container.spec("volumeMounts", mounts)
        })
        .set(
            "/spec/volumes",
            json!([{"name": "models", "image": {"reference": "registry.example/models:latest"}}]),
        )
}

/// All of which it is not certain that their exit image ends well.
fn doubtful() -> [(&'static str, PodBuilder); 7] {
    let own = json!({"type": "Localhost", "localhostProfile": "own"});
    let runtime = json!({"type": "RuntimeDefault"});
    [
        ("listed", asks("a")),
        ("a script", calls_a_script("a")),
        ("u229: an image volume", mounts_image("side")),
        ("u191: its own profile", is_confined("a", false)),
        ("u191: a profile of the pod", is_confined("a", true)),
        (
            "u191: a profile of the pod beside another kind of the container",
            under_contexts(
                json!({"appArmorProfile": own}),
                json!({"seccompProfile": runtime}),
            ),
        ),
        (
            "u191: a profile of the container, not that of the pod",
            under_contexts(
                json!({"seccompProfile": runtime}),
                json!({"seccompProfile": own}),
            ),
        ),
    ]
}

/// What a kubelet shows of an image that does not start, after so many starts and with this back-off.
fn fails(pod: &PodBuilder, starts: u32, back_off: &str) -> PodBuilder {
    let message = format!("back-off {back_off} restarting failed container=side");
    pod.clone().but("side", |side| {
        side.waiting("CrashLoopBackOff", &message)
            .restarted_as(EXIT, starts)
            .last_ended(128)
    })
}

fn told(decision: &Decision) -> Vec<Reason> {
    decision
        .reports
        .iter()
        .map(|report| report.reason)
        .collect()
}

#[test]
fn t2_a_doubtful_exit_image_is_not_tried_on_a_kubelet_and_the_phase_is_written() {
    for policy in ["OnFailure", "Never"] {
        for (what, pod) in doubtful() {
            let pod = pod.set("/spec/restartPolicy", policy);
            for node in [NodeClass::Kubelet, NodeClass::Daemon] {
                let mut life = on_job(6, FINISH);
                life.node = node;
                let waits = life.assert_silent(&pod, Reason::FinishWaits);
                assert_eq!(waits.swaps_wanted, 0, "{what}: no room is needed");
                let decision = life.later(QUIET_SECONDS).sees(&pod);
                let note = finishes(&decision);
                let words = "; ExitImageDoubtful: container side";
                assert!(note.contains(words), "{what} {policy}: {note}");
                // Nobody has to do anything.
                assert!(note.ends_with("so it is not tried"), "{note}");
            }
        }
    }
}

#[test]
fn t2_without_finish_a_doubtful_exit_image_is_told_once_and_not_tried() {
    for policy in ["OnFailure", "Never"] {
        for (what, pod) in doubtful() {
            let pod = pod.set("/spec/restartPolicy", policy);
            let note = on_job(6, NEVER_FINISH).tells(&pod, Reason::ExitImageDoubtful);
            assert!(
                note.starts_with("container side: ")
                    && note.contains("is not known")
                    && note.contains("--finish=never")
                    && note.contains("RuntimeDefault") == what.contains("profile")
                    && note.contains("in main containers only") == what.contains("volume"),
                "{what}: {note}"
            );
        }
    }
}

/// A node that cannot pull the image of a volume starts no container that mounts it.
#[test]
fn u229_an_image_volume_is_a_doubt_for_the_sidecar_that_mounts_it_alone() {
    let decision = on_job(6, FINISH).sees(&mounts_image("main"));
    assert_eq!(swapped_names(&decision), ["side"], "{decision:?}");
    on_job(6, FINISH).assert_silent(&mounts_image("side"), Reason::FinishWaits);
}

/// The exit image is on the node, and the next pods may be swapped.
#[test]
fn u229_the_image_of_a_volume_that_cannot_be_pulled_says_nothing_of_the_exit_image() {
    for (image, is_known) in [("registry.example/models:latest", false), (EXIT, true)] {
        let mut life = on_job(6, FINISH);
        let message = format!("Back-off pulling image \"{image}\"");
        let swapped = mounts_image("side").but("side", |side| {
            side.image(EXIT).waiting("ImagePullBackOff", &message)
        });
        let decision = life.sees(&swapped);
        let is_told = told(&decision).contains(&Reason::ExitImageNotPulled);
        assert_eq!(is_told, is_known, "{decision:?}");
        life.memory = Memory::default();
        let next = done("b").set("/spec/restartPolicy", "Never");
        let is_tried = life.sees(&next).reason == Reason::SidecarSwapped;
        assert_eq!(is_tried, !is_known, "{image}");
    }
}

/// Its own program runs, and it was listed for that.
#[test]
fn t2_a_listed_image_is_certain_for_a_container_without_a_command() {
    for policy in ["OnFailure", "Never"] {
        let pod = done("a")
            .but("side", |_| sidecar_with_image("side", LISTED).running())
            .set("/spec/restartPolicy", policy);
        let decision = on_job(6, FINISH).sees(&pod);
        assert_eq!(swapped_names(&decision), ["side"], "{decision:?}");
    }
}

/// A container's profile replaces that of its pod, and the files of every image get the labels that an
/// SELinux type goes by.
#[test]
fn u191_a_profile_of_the_pod_that_the_container_replaces_is_no_doubt() {
    let own = json!({"type": "Localhost", "localhostProfile": "own"});
    let runtime = json!({"type": "RuntimeDefault"});
    for (pod, container) in [
        (
            json!({"seccompProfile": own}),
            json!({"seccompProfile": runtime}),
        ),
        (
            json!({"appArmorProfile": own}),
            json!({"appArmorProfile": {"type": "Unconfined"}}),
        ),
        (json!({}), json!({"seLinuxOptions": {"type": "spc_t"}})),
        (json!({"seLinuxOptions": {"type": "spc_t"}}), json!({})),
    ] {
        let decision = on_job(6, FINISH).sees(&under_contexts(pod, container));
        assert_eq!(swapped_names(&decision), ["side"], "{decision:?}");
    }
}

/// There the phase would leave the instance running, and billed.
#[test]
fn t2_on_virtual_nodes_a_doubtful_exit_image_is_swapped_and_counts_three_times() {
    for (what, pod, allowed, restarts) in [
        ("listed", asks("a"), FINISH, 3),
        ("a script", calls_a_script("a"), FINISH, 3),
        ("its own profile", is_confined("a", false), FINISH, 3),
        ("nothing ends it", asks("a"), NEVER_FINISH, 1),
        ("the default", done("a"), FINISH, 1),
    ] {
        let mut life = on_job(6, allowed);
        life.node = NodeClass::VirtualUpdates;
        let decision = life.sees(&pod);
        assert_eq!(
            (swapped_names(&decision), decision.swaps_wanted),
            (vec!["side"], restarts),
            "{what}: {decision:?}"
        );
    }
}

/// The state of `sh` in one ConfigMap says nothing of a script in another.
#[test]
fn t2_an_exit_image_that_has_worked_in_one_pod_is_as_doubtful_in_the_next() {
    let mut life = on_job(6, FINISH);
    life.node = NodeClass::VirtualUpdates;
    let after = life.swaps(&calls_a_script("a"));
    let ended = after.but("side", |side| side.ended(0).restarted_as(EXIT, 1));
    life.assert_silent(&ended, Reason::SidecarsEnded);
    life.headroom.pod_gone(&ended.read());
    (life.memory, life.node) = (Memory::default(), NodeClass::Kubelet);
    life.assert_silent(&calls_a_script("b"), Reason::FinishWaits);
}

#[test]
fn the_sidecars_beside_a_doubtful_one_are_swapped_and_all_at_once() {
    let pod = asks("a")
        .with(sidecar("other").running())
        .with(sidecar("third").running());
    let decision = on_job(6, FINISH).sees(&pod);
    assert_eq!(swapped_names(&decision), ["other", "third"], "{decision:?}");
}

// ---- T3: not a third time

#[track_caller]
fn writes_at_once(life: &mut Life, pod: &PodBuilder) {
    let decision = life.sees(pod);
    assert!(
        finishes(&decision).contains("; ExitImageNotStarted: the exit image of side"),
        "{decision:?}"
    );
    assert!(
        matches!(&decision.action, Some(Action::Finish(finish)) if finish.version.is_none()),
        "the pod changes all the time: {decision:?}"
    );
}

/// `crashLoopBackOff.maxContainerRestartPeriod` may be 1 s.
#[test]
fn t3_an_exit_image_that_fails_twice_is_not_run_a_third_time_quiet_or_not() {
    for (back_off, pause) in [("1s", 0), ("5s", 0), ("10s", 3), ("20s", 3), ("1m20s", 3)] {
        let mut life = on_job(6, FINISH);
        let after = life.swaps(&done("a"));
        let first = life.later(1).sees(&fails(&after, 1, back_off));
        assert_eq!(
            (first.reason, told(&first)),
            (Reason::FinishWaits, vec![Reason::ExitImageNotStarted])
        );
        let second = fails(&after, 2, back_off);
        if pause > 0 {
            assert_eq!(life.later(1).sees(&second).reason, Reason::FinishWaits);
            life.later(pause);
        } else {
            life.later(1);
        }
        writes_at_once(&mut life, &second);
    }
}

/// The node may show only some of the starts, or the end of one and not what follows it.
#[test]
fn t3_failures_count_by_the_restarts_of_the_node() {
    let mut life = on_job(6, FINISH);
    let after = life.swaps(&done("a"));
    writes_at_once(&mut life, &fails(&after, 3, "1s"));

    let ended = |code: i64, starts: u32| {
        move |side: ContainerBuilder| side.ended(code).restarted_as(EXIT, starts)
    };
    let mut life = on_job(6, FINISH);
    let after = life.swaps(&done("a"));
    life.assert_silent(
        &after.clone().but("side", ended(1, 1)),
        Reason::SidecarsEnded,
    );
    let twice = after.clone().but("side", ended(1, 2));
    assert_eq!(life.later(1).sees(&twice).reason, Reason::FinishWaits);
    writes_at_once(life.later(1), &twice);

    // A node with a back-off of a second is never quiet for one, and each start counts for the Job.
    let mut life = on_job(6, FINISH);
    let after = life.swaps(&done("a"));
    assert_eq!(life.later(1).sees(&twice).reason, Reason::FinishWaits);
    writes_at_once(&mut life, &after.clone().but("side", ended(1, 3)));

    // A run of the process that has not made the swap counts what it sees.
    let mut next = on_job(6, FINISH);
    next.sees(&fails(&after, 4, "1s"));
    next.later(1).sees(&fails(&after, 4, "1s"));
    assert!(next.memory.finish.is_some());
    writes_at_once(next.later(1), &fails(&after, 5, "1s"));
}

/// An end of the sidecar itself, or with 0, is none of the exit image's failures.
#[test]
fn t3_an_exit_image_that_ends_well_is_not_taken_for_one_that_fails() {
    let mut life = on_job(6, FINISH);
    let after = life.swaps(&done("a"));
    for (code, starts, image) in [(143, 0, "registry.example/app/side:v1"), (0, 1, EXIT)] {
        let pod = after
            .clone()
            .but("side", |side| side.ended(code).restarted_as(image, starts));
        let decision = life.later(1).sees(&pod);
        assert!(
            decision.action.is_none() && decision.reports.is_empty(),
            "{decision:?}"
        );
    }
}

/// The Job would fail before, and end that sidecar too.
#[test]
fn t3_a_sidecar_with_time_left_does_not_keep_a_failing_exit_image_running() {
    let pod = done("a")
        .with(sidecar("last").running())
        .annotation(DELAY, "last=1h");
    let mut life = on_job(6, FINISH);
    let after = life.swaps(&pod);
    writes_at_once(life.later(2), &fails(&after, 2, "1s"));
}

#[test]
fn t3_without_finish_a_failing_exit_image_is_told() {
    let mut life = on_job(6, NEVER_FINISH);
    let after = life.swaps(&done("a"));
    life.tells(&fails(&after, 2, "1s"), Reason::ExitImageNotStarted);
}

/// What is reserved is given back with each restart that is seen, and when the sidecar has ended.
#[test]
fn restarts_are_expected_until_the_exit_image_has_worked() {
    let mut life = on_job(6, FINISH);
    life.node = NodeClass::VirtualUpdates;
    let after = life.swaps(&calls_a_script("a"));
    let ended = after
        .clone()
        .but("side", |side| side.ended(0).restarted_as(EXIT, 1));
    for (pod, coming) in [
        (after.clone(), 3),
        (fails(&after, 1, "10s"), 2),
        (fails(&after, 4, "10s"), 0),
        (ended, 0),
    ] {
        assert_eq!(life.counts(&pod.read()).coming, coming, "{pod:?}");
    }
}

/// A provider may copy the image from the spec before it acts.
#[test]
fn t9_an_image_in_the_status_alone_gives_no_room_back() {
    let mut life = on_job(6, FINISH);
    let after = life.swaps(&done("a"));
    let copied = after.clone().but("side", |side| side.status("image", EXIT));
    assert_eq!(life.counts(&copied.read()).coming, 1);
    let other = after.but("side", |side| side.running().restarted_as(EXIT, 1));
    assert_eq!(life.counts(&other.read()).coming, 0);
}

/// Each try of the node is a restart, so there is no second chance where the phase ends the pod.
#[test]
fn an_exit_image_that_does_not_start_is_told_and_not_waited_for() {
    let mut life = on_job(6, FINISH);
    let after = life.swaps(&done("a"));
    let once = fails(&after, 1, "10s");
    let decision = life.later(1).sees(&once);
    assert_eq!(
        (decision.reason, told(&decision)),
        (Reason::FinishWaits, vec![Reason::ExitImageNotStarted])
    );
    let decision = life.later(QUIET_SECONDS).sees(&once);
    assert!(
        finishes(&decision).contains("; ExitImageNotStarted: container side"),
        "{decision:?}"
    );

    // Under Never a container is not started again, and no Job counts it.
    let mut life = on_job(6, FINISH);
    let after = life.swaps(&done("a").set("/spec/restartPolicy", "Never"));
    let decision = life.later(1).sees(&fails(&after, 1, "10s"));
    assert_eq!(
        (decision.reason, told(&decision)),
        (
            Reason::ExitImageNotStarted,
            vec![Reason::ExitImageNotStarted]
        )
    );
}
