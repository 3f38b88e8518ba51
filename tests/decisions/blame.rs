//! Who has failed a pod whose main containers have succeeded.

use serde_json::{Value, json};
use swaplet_core::cluster::node_class::NodeClass;
use swaplet_core::objects::values::env::IGNORE_EXIT_CODE;
use swaplet_core::report::decision::Report;
use swaplet_core::report::reason::Reason;
use swaplet_core::terminate::memory::image_troubles::ImageTroubles;

use crate::builder::{ContainerBuilder, PodBuilder, main_container, pod, sidecar};
use crate::expect::{EXIT, Life};

fn end(code: i64, at: &str) -> Value {
    json!({"terminated": {"exitCode": code, "finishedAt": format!("2025-01-01T00:{at}Z")}})
}

/// The main container ends with 0 at 00:01:00; `other` as given.
fn beside(other: ContainerBuilder) -> PodBuilder {
    pod("Never")
        .with(main_container("main").status("state", end(0, "01:00")))
        .with(sidecar("proxy").running())
        .with(other)
}

fn crashed(at: &str) -> ContainerBuilder {
    sidecar("metrics").status("state", end(1, at))
}

/// Swaps the proxy, which the exit image ends well; the pod is Failed.
fn failed(life: &mut Life, pod: &PodBuilder) -> PodBuilder {
    life.swaps(pod).phase("Failed").but("proxy", |proxy| {
        proxy
            .restarted_as(EXIT, 1)
            .status("state", end(0, "01:09"))
            .last_ended(143)
    })
}

/// The case of `crashed-sidecar-under-never`, and t5b.
#[test]
fn a_sidecar_that_failed_by_itself_is_named_with_its_code_and_the_fix() {
    for (at, time) in [
        ("00:54", "6 s before the main containers"),
        ("01:03", "3 s after the main containers"),
    ] {
        let mut life = Life::new();
        let pod = beside(crashed(at));
        let after = failed(&mut life, &pod);
        let note = life.tells(&after, Reason::SidecarEnded);
        let words = format!(
            "the pod is Failed although every main container exited with 0, because metrics ended by itself (exit code 1, {time}): set {IGNORE_EXIT_CODE} to \"true\" in metrics"
        );
        assert!(note.starts_with(&words), "{note}");
        assert!(
            note.contains("proxy ended (exit code 143, method swap)"),
            "{note}"
        );
    }
}

/// It stops the other containers too, for the swap of one.
#[test]
fn on_a_virtual_node_only_what_failed_before_the_main_containers_ended_counts_as_its_own() {
    for (at, reason) in [
        ("00:54", Reason::SidecarEnded),
        ("01:03", Reason::PodFailedAfterSwap),
    ] {
        let mut life = Life::new();
        let after = failed(&mut life, &beside(crashed(at)));
        life.node = NodeClass::VirtualUpdates;
        life.tells(&after, reason);
    }
}

/// t5: by its deadline, an eviction, a preemption or a shutdown, in its status or as a condition.
#[test]
fn a_pod_that_somebody_else_has_ended_is_not_blamed_on_the_swap() {
    let well = || sidecar("metrics").status("state", end(0, "00:54"));
    let shown = |by: &dyn Fn(PodBuilder) -> PodBuilder| {
        let mut life = Life::new();
        let after = life
            .swaps(&beside(well()))
            .phase("Failed")
            .but("proxy", |proxy| proxy.status("state", end(143, "01:09")));
        life.tells(&by(after), Reason::SidecarEnded)
    };
    for reason in [
        "DeadlineExceeded",
        "Evicted",
        "Preempting",
        "NodeShutdown",
        "Terminated",
    ] {
        let note = shown(&|pod| pod.set("/status/reason", reason));
        let words = format!("the pod is Failed by {reason}, although");
        assert!(note.starts_with(&words), "{note}");
        let raises = note.contains("raise spec.activeDeadlineSeconds");
        assert_eq!(raises, reason == "DeadlineExceeded", "{note}");
        // Who ends a pod at once leaves no grace period to run out of.
        let mut life = Life::new();
        let killed = life
            .swaps(&beside(well()))
            .phase("Failed")
            .set("/status/reason", reason)
            .but("proxy", |proxy| proxy.status("state", end(137, "01:09")));
        let told: Vec<_> = life
            .sees(&killed)
            .reports
            .iter()
            .map(|told| told.reason)
            .collect();
        let blamed = told.contains(&Reason::SidecarKilled);
        assert_eq!(blamed, reason == "DeadlineExceeded", "{reason}: {told:?}");
    }
    let disrupted = |status: &str| json!([{"type": "DisruptionTarget", "status": status, "reason": "DeletionByPodGC"}]);
    let note = shown(&|pod| pod.set("/status/conditions", disrupted("True")));
    assert!(note.contains("DeletionByPodGC"), "{note}");

    // What nobody else has ended is.
    for by in [json!([]), disrupted("False")] {
        let mut life = Life::new();
        let after = life
            .swaps(&beside(well()))
            .phase("Failed")
            .set("/status/conditions", by)
            .but("proxy", |proxy| proxy.status("state", end(143, "01:09")));
        life.tells(&after, Reason::PodFailedAfterSwap);
    }
}

/// The node may have judged it by the sidecar that was stopped.
#[test]
fn an_exit_image_that_fails_is_blamed_whatever_else_has_ended_well() {
    let mut life = Life::new();
    let pod = beside(sidecar("metrics").status("state", end(0, "00:54")));
    let after = failed(&mut life, &pod).but("proxy", |proxy| {
        proxy.status("state", end(128, "01:09")).last_ended(143)
    });
    life.tells(&after, Reason::PodFailedAfterSwap);
}

/// The advice would be what the user has done.
#[test]
fn an_ignored_exit_code_that_could_not_be_kept_is_told_with_what_it_needs() {
    let mut life = Life::new();
    life.allowed.finish = false;
    let ignored = sidecar("metrics").env(IGNORE_EXIT_CODE, "true");
    let after = failed(&mut life, &beside(ignored.running()));
    let after = after.but("metrics", |metrics| {
        metrics.status("state", end(1, "01:01"))
    });
    let note = life.tells(&after, Reason::SidecarEnded);
    assert!(
        note.contains("in metrics needs the phase to be written: allow finish")
            && !note.contains("set KRUISE"),
        "{note}"
    );
}

/// Nothing was stopped, so no grace period was too short.
#[test]
fn an_oom_kill_and_an_end_that_nobody_saw_are_no_kill_after_a_grace_period() {
    for reason in ["OOMKilled", "ContainerStatusUnknown"] {
        let mut life = Life::new();
        let mut state = end(137, "00:30");
        state["terminated"]["reason"] = json!(reason);
        let pod = beside(sidecar("metrics").status("state", state));
        let after = failed(&mut life, &pod);
        let decision = life.sees(&after);
        let told = |reason| decision.reports.iter().any(|one| one.reason == reason);
        assert!(!told(Reason::SidecarKilled), "{:?}", decision.reports);
    }
}

/// Before the main container ended, so before anything was written; whatever the clock of its node.
#[test]
fn a_sidecar_that_ended_before_its_swap_is_not_blamed_on_it() {
    for (seconds, by_itself) in [("00:57", true), ("01:01", false), ("01:20", false)] {
        let mut life = Life::new();
        let one = pod("Never")
            .with(main_container("main").status("state", end(0, "01:00")))
            .with(sidecar("proxy").running());
        let after = life
            .swaps(&one)
            .phase("Failed")
            .but("proxy", |proxy| proxy.status("state", end(1, seconds)));
        let decision = life.sees(&after);
        let is_blamed = |report: &Report| report.reason == Reason::PodFailedAfterSwap;
        assert_ne!(
            decision.reports.iter().any(is_blamed),
            by_itself,
            "{:?}",
            decision.reports
        );
    }
}

/// Both were to be stopped by one write, and the image has run in the one: it would have in the other
/// too, had the kubelet stopped that. Alone, nobody can tell.
#[test]
fn a_sidecar_beside_one_that_the_exit_image_has_ended_has_failed_by_itself() {
    for (code, image, by_itself) in [(0, EXIT, true), (128, EXIT, false), (143, "own", false)] {
        let mut life = Life::new();
        let pod = beside(sidecar("metrics").running());
        let after = life
            .swaps(&pod)
            .phase("Failed")
            .but("metrics", |metrics| {
                metrics.status("state", end(1, "01:01"))
            })
            .but("proxy", |proxy| {
                let proxy = match image {
                    EXIT => proxy.restarted_as(EXIT, 1).last_ended(143),
                    _ => proxy,
                };
                proxy.status("state", end(code, "01:09"))
            });
        if by_itself {
            let note = life.tells(&after, Reason::SidecarEnded);
            assert!(
                note.contains("because metrics ended by itself (exit code 1, 1 s after"),
                "{note}"
            );
        } else {
            life.tells(&after, Reason::PodFailedAfterSwap);
        }
        let mut troubles = ImageTroubles::default();
        let failed = after.read();
        troubles.failed(&failed, &life.memory, life.now);
        let next = pod.read();
        let held = troubles.holds(&next, &next.containers[1], EXIT, life.now, "");
        assert_eq!(held.is_none(), by_itself, "{code} {image}");
    }
}
