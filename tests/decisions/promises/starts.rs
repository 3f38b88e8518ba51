//! Exit images of which nobody can tell whether they start: a Job outlives one that does not.

use serde_json::json;
use swaplet_core::cluster::exit_images::derived::DerivedImages;
use swaplet_core::objects::pod::annotations::{DELAY, ORDER};
use swaplet_core::report::decision::Decision;
use swaplet_core::report::reason::Reason;
use swaplet_core::terminate::memory::Memory;
use swaplet_core::terminate::methods::AllowedMethods;

use super::{FINISH, NEVER_FINISH, QUIET_SECONDS, finishes, swapped_names, under};
use crate::builder::{PodBuilder, sidecar, sidecar_with_image};
use crate::expect::{EXIT, LISTED, Life, moment, rules};
use crate::headroom::{done, ledger};

/// A life with a Job of this limit.
fn on_job(limit: u32, allowed: AllowedMethods) -> Life {
    Life {
        headroom: ledger(limit, &[]),
        ..under(allowed)
    }
}

/// A pod of the Job whose sidecar asks for an image of the list.
fn asks(name: &str) -> PodBuilder {
    done(name).but("side", |_| sidecar_with_image("side", LISTED).running())
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

/// What containerd shows of an image that lacks the program, after so many starts.
fn fails(pod: &PodBuilder, starts: u32) -> PodBuilder {
    pod.clone().but("side", |side| {
        side.waiting("RunContainerError", "exec: no such file")
            .restarted_as(LISTED, starts)
            .last_ended(128)
    })
}

fn ends(pod: &PodBuilder) -> PodBuilder {
    is_ended(pod, "side")
}

fn is_ended(pod: &PodBuilder, name: &str) -> PodBuilder {
    pod.clone()
        .but(name, |side| side.ended(0).restarted_as(LISTED, 1))
}

/// The same with a second sidecar that asks for an image of the list.
fn beside_another(pod: &PodBuilder) -> PodBuilder {
    pod.clone()
        .with(sidecar_with_image("other", LISTED).running())
}

fn told(decision: &Decision) -> Vec<Reason> {
    decision
        .reports
        .iter()
        .map(|report| report.reason)
        .collect()
}

/// A kubelet starts it three times within 12 s. Without finish nothing would end that, whatever is
/// reserved.
#[test]
fn a_swap_to_an_image_that_may_not_start_counts_as_several_restarts() {
    let table = [
        ("listed", asks("a"), FINISH, 4),
        ("a script", calls_a_script("a"), FINISH, 4),
        ("nothing ends it", asks("a"), NEVER_FINISH, 1),
        ("the default", done("a"), FINISH, 1),
    ];
    for (what, pod, allowed, restarts) in table {
        let decision = on_job(6, allowed).sees(&pod);
        assert_eq!(
            (decision.reason, decision.swaps_wanted),
            (Reason::SidecarSwapped, restarts),
            "{what}: {decision:?}"
        );
    }
    let mut life = on_job(4, FINISH);
    life.assert_silent(&asks("a"), Reason::FinishWaits);
    finishes(&life.later(QUIET_SECONDS).sees(&asks("a")));
}

/// What is reserved is given back with each restart that is seen, and when the sidecar has ended.
#[test]
fn restarts_are_expected_until_the_exit_image_has_worked() {
    let mut life = on_job(6, FINISH);
    let after = life.swaps(&asks("a"));
    let table = [
        (after.clone(), 4),
        (fails(&after, 1), 3),
        (fails(&after, 3), 1),
        (fails(&after, 5), 0),
        (ends(&after), 0),
    ];
    for (pod, coming) in table {
        assert_eq!(life.counts(&pod.read()).coming, coming, "{pod:?}");
    }
    // Another life does not know how many there were.
    let mut next = on_job(6, FINISH);
    for (pod, coming) in [(after.clone(), 4), (fails(&after, 3), 3), (ends(&after), 0)] {
        let pod = pod.read();
        next.memory.observe(&pod, &next.rules, next.now);
        assert_eq!(next.counts(&pod).coming, coming, "{pod:?}");
    }
}

#[test]
fn an_image_that_has_worked_counts_as_one_restart_in_sidecars_like_that() {
    let mut life = on_job(6, FINISH);
    let after = life.swaps(&asks("a"));
    life.sees(&fails(&after, 1));
    life.headroom.pod_gone(&after.read());
    let wanted = |life: &mut Life, pod: &PodBuilder| {
        life.memory = Memory::default();
        let wanted = life.sees(pod).swaps_wanted;
        life.headroom.pod_gone(&pod.read());
        wanted
    };
    assert_eq!(wanted(&mut life, &asks("b")), 4, "it has not worked");

    life.memory = Memory::default();
    let after = life.swaps(&asks("c"));
    life.sees(&ends(&after));
    life.headroom.pod_gone(&after.read());
    assert_eq!(wanted(&mut life, &asks("d")), 1);
    let other = asks("e").but("side", |side| side.spec("command", json!(["/opt/other"])));
    assert_eq!(wanted(&mut life, &other), 4);
    let elsewhere = asks("f").set("/metadata/namespace", "other");
    assert_eq!(wanted(&mut life, &elsewhere), 4);
}

/// The restarts of one that does not start are reserved once, and not for each of them.
#[test]
fn exit_images_that_may_not_start_are_tried_one_at_a_time() {
    let pod = beside_another(&asks("a"));
    let mut life = on_job(6, FINISH);
    let decision = life.sees(&pod);
    assert_eq!(
        (swapped_names(&decision), decision.swaps_wanted),
        (vec!["other"], 5),
        "{decision:?}"
    );
    let first = life.swaps(&pod);
    let waits = life.assert_silent(&first, Reason::SwapPending);
    assert_eq!(waits.swaps_later, 1);
    on_job(6, FINISH).assert_silent(&first, Reason::SwapPending);
    // The sidecar has stopped, and its node has started nothing yet.
    for code in [0, 143] {
        let stopped = first.clone().but("other", |other| other.ended(code));
        let waits = life.assert_silent(&stopped, Reason::SwapPending);
        assert!(waits.again.is_some(), "{waits:?}");
    }
    let first = is_ended(&first, "other");
    let decision = life.sees(&first);
    assert_eq!(
        (swapped_names(&decision), decision.swaps_wanted),
        (vec!["side"], 4),
        "{decision:?}"
    );
    let both = ends(&life.swaps(&first));
    life.assert_silent(&both, Reason::SidecarsEnded);
    life.headroom.pod_gone(&both.read());

    life.memory = Memory::default();
    let next = beside_another(&asks("b"));
    let decision = life.sees(&next);
    assert_eq!(
        (swapped_names(&decision), decision.swaps_wanted),
        (vec!["side", "other"], 2),
        "both have worked: {decision:?}"
    );
    on_job(5, FINISH).assert_silent(&pod, Reason::FinishWaits);
}

/// Nothing is begun beside it that would have to be waited for, or that would count as well.
#[test]
fn while_an_exit_image_is_tried_no_other_swap_is_made() {
    let pod = beside_another(&done("a"));
    let mut life = on_job(6, FINISH);
    let decision = life.sees(&pod);
    assert_eq!(
        (swapped_names(&decision), decision.swaps_wanted),
        (vec!["other"], 4),
        "{decision:?}"
    );
    let first = life.swaps(&pod);
    life.assert_silent(&first, Reason::SwapPending);
    let broken = first.clone().but("other", |other| {
        other
            .waiting("RunContainerError", "exec: no such file")
            .restarted_as(LISTED, 1)
            .last_ended(128)
    });
    let mut other_life = on_job(6, FINISH);
    other_life.sees(&first);
    for life in [&mut life, &mut other_life] {
        assert_eq!(life.later(1).sees(&broken).reason, Reason::FinishWaits);
        finishes(&life.later(QUIET_SECONDS).sees(&broken));
    }

    let mut life = on_job(6, FINISH);
    let first = is_ended(&life.swaps(&pod), "other");
    let decision = life.sees(&first);
    assert_eq!(
        (swapped_names(&decision), decision.swaps_wanted),
        (vec!["side"], 1),
        "{decision:?}"
    );
    // Where nobody counts the restarts, or nothing ends them, there is nothing to wait for.
    let never = pod.clone().set("/spec/restartPolicy", "Never");
    for (mut life, pod) in [(on_job(6, NEVER_FINISH), pod), (under(FINISH), never)] {
        assert_eq!(swapped_names(&life.sees(&pod)), ["side", "other"]);
    }
}

/// Until all sidecars are due the phase would not end the restarts of one that does not start.
#[test]
fn an_exit_image_that_may_not_start_is_not_tried_while_the_phase_could_not_end_the_pod() {
    let delayed = |pod: PodBuilder| pod.annotation(DELAY, "last=1h");
    let last = sidecar("last").running();
    let pod = delayed(asks("a").with(last.clone()));
    let mut life = on_job(6, FINISH);
    let waits = life.assert_silent(&pod, Reason::SidecarDelayed);
    assert_eq!((waits.again, waits.swaps_later), (Some(moment(3600)), 0));
    let decision = life.later(3600).sees(&pod);
    assert_eq!(swapped_names(&decision), ["side"], "{decision:?}");

    // What is certain is not held up.
    let three = delayed(beside_another(&done("b")).with(last.clone()));
    let mut life = on_job(6, FINISH);
    assert_eq!(swapped_names(&life.sees(&three)), ["side"]);
    let first = life.swaps(&three);
    let waits = life.assert_silent(&first, Reason::SwapPending);
    assert_eq!(waits.swaps_later, 1, "for the last, and no more");
    let first = first.but("side", |side| side.ended(0).restarted_as(EXIT, 1));
    life.assert_silent(&first, Reason::SidecarDelayed);
    assert_eq!(swapped_names(&life.later(3600).sees(&first)), ["other"]);

    let certain = delayed(done("c").with(last));
    assert_eq!(swapped_names(&on_job(6, FINISH).sees(&certain)), ["side"]);
}

/// Its node starts it again, and then the phase has to wait for the rest of its time.
#[test]
fn an_exit_image_that_may_not_start_is_not_tried_while_a_sidecar_with_time_left_has_crashed() {
    let pod = asks("a")
        .with(sidecar("last").running())
        .annotation(DELAY, "last=1h");
    let crashed = pod.clone().but("last", |last| last.ended(1));
    let mut life = on_job(6, FINISH);
    life.assert_silent(&pod, Reason::SidecarDelayed);
    for _ in 0..2 {
        let waits = life
            .later(60)
            .assert_silent(&crashed, Reason::SidecarDelayed);
        assert_eq!(waits.again, Some(moment(3600)));
    }
    let ended = pod.but("last", |last| last.ended(0));
    assert_eq!(swapped_names(&life.sees(&ended)), ["side"]);
}

/// The image that a later sidecar needs may take minutes, and the Job has four restarts.
#[test]
fn an_exit_image_that_does_not_start_does_not_wait_for_one_that_is_pushed() {
    let derived = DerivedImages::new("registry.example/derived".parse().unwrap());
    let mut life = Life {
        rules: rules().with_derived(derived),
        ..on_job(6, FINISH)
    };
    let last = sidecar("last")
        .spec("command", json!(["/opt/odd"]))
        .running();
    let pod = asks("a").with(last).annotation(ORDER, "side=0,last=1");
    let after = life.swaps(&pod);
    let works = ends(&after);
    let fails = fails(&after, 1);
    assert_eq!(
        life.later(1).sees(&fails).reason,
        Reason::ExitImageNotStarted
    );
    finishes(&life.later(30).sees(&fails));
    assert_eq!(life.sees(&works).reason, Reason::ExitImageAwaited);
}

/// A node may never start what was written, and not say so.
#[test]
fn the_outcome_of_a_trial_is_not_waited_for_without_end() {
    let pod = beside_another(&asks("a"));
    for code in [0, 143] {
        let mut life = on_job(6, FINISH);
        let stopped = life.swaps(&pod).but("other", |other| other.ended(code));
        life.now = life.sees(&stopped).again.unwrap();
        finishes(&life.sees(&stopped));
    }
}

/// Each try of the node is a restart, so there is no second chance where the phase ends the pod.
#[test]
fn an_exit_image_that_does_not_start_is_told_and_not_waited_for() {
    let mut life = on_job(6, FINISH);
    let after = life.swaps(&asks("a"));
    let decision = life.later(1).sees(&fails(&after, 1));
    assert_eq!(
        (decision.reason, told(&decision)),
        (Reason::FinishWaits, vec![Reason::ExitImageNotStarted])
    );
    let decision = life.later(QUIET_SECONDS).sees(&fails(&after, 1));
    assert!(
        finishes(&decision).contains("; ExitImageNotStarted: container side"),
        "{decision:?}"
    );

    // Under Never a container is not started again, and no Job counts it.
    let mut life = under(FINISH);
    let after = life.swaps(&asks("a").set("/spec/restartPolicy", "Never"));
    let decision = life.later(1).sees(&fails(&after, 1));
    assert_eq!(
        (decision.reason, told(&decision)),
        (
            Reason::ExitImageNotStarted,
            vec![Reason::ExitImageNotStarted]
        )
    );
}
