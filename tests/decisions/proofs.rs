//! What a pod proves about its node, by what providers really show: constant ids, restartCount 0,
//! no image id, statuses that come late, completed containers shown as running, states that are
//! none.

use serde_json::json;
use swaplet_core::cluster::node_verdicts::Proved::{
    self, FailsUnderNever, Inert, Rejects, Updates, UpdatesUnderNever,
};
use swaplet_core::terminate::memory::proof::{image_failed, proved};

use crate::builder::{ContainerBuilder, PodBuilder, main_container, pod, sidecar};
use crate::expect::{EXIT, Life};

const LATER: &str = "2025-01-01T00:05:00Z";

fn ready() -> PodBuilder {
    pod("OnFailure")
        .with(main_container("main").ended(0))
        .with(sidecar("side").running())
}

/// A life that has just swapped the sidecar, and the pod after it.
fn swapped() -> (Life, PodBuilder) {
    let mut life = Life::new();
    let after = life.swaps(&ready());
    (life, after)
}

impl Life {
    /// What the pod proves now; whatever is to be told is told.
    fn proves(&mut self, pod: &PodBuilder) -> Option<Proved> {
        self.sees(pod);
        proved(&pod.read(), &self.memory, self.now)
    }
}

/// What the swapped sidecar proves at once and when all patience is over.
fn proves(
    change: impl Fn(ContainerBuilder) -> ContainerBuilder,
) -> (Option<Proved>, Option<Proved>) {
    let (mut life, after) = swapped();
    let after = after.but("side", change);
    (life.proves(&after), life.later(90).proves(&after))
}

fn ended_since(container: ContainerBuilder, started: &str) -> ContainerBuilder {
    container.status(
        "state",
        json!({"terminated": {"exitCode": 0, "startedAt": started, "finishedAt": LATER}}),
    )
}

#[test]
fn an_end_of_another_container_proves_updates() {
    // Constant id, restartCount 0, no image: only the start tells (`docs/measured.md`, "The
    // virtual-kubelet library").
    assert_eq!(
        proves(|c| ended_since(c, LATER).status("image", "")),
        (Some(Updates), Some(Updates))
    );
    assert_eq!(
        proves(|c| ended_since(c, LATER).status("image", EXIT)),
        (Some(Updates), Some(Updates))
    );
    assert_eq!(
        proves(|c| c.ended(0).restarted_as(EXIT, 1)),
        (Some(Updates), Some(Updates))
    );
    assert_eq!(
        proves(|c| c.ended(0).status("restartCount", 1).status("image", "")),
        (Some(Updates), Some(Updates))
    );
    assert_eq!(
        proves(|c| c
            .ended(0)
            .status("containerID", "eci://2")
            .status("image", "")),
        (Some(Updates), Some(Updates))
    );
}

#[test]
fn an_end_that_may_be_the_sidecars_own_proves_nothing() {
    for image in ["", EXIT, "registry.example/app/side:v1"] {
        assert_eq!(
            proves(|c| c.ended(0).status("image", image)),
            (None, None),
            "{image}"
        );
    }
    // It crashed, was started again, and ended: the old image.
    assert_eq!(
        proves(|c| c.ended(0).restarted_as("registry.example/app/side:v1", 1)),
        (None, None)
    );
    // A provider that knows no times.
    assert_eq!(
        proves(|c| c.status("state", json!({"terminated": {"exitCode": 0}}))),
        (None, None)
    );
}

#[test]
fn trouble_that_names_the_exit_image_proves_updates() {
    let message = format!("Back-off pulling image \"{EXIT}\"");
    assert_eq!(
        proves(|c| c.waiting("ImagePullBackOff", &message)),
        (Some(Updates), Some(Updates))
    );
    assert_eq!(
        proves(|c| c.waiting(
            "CrashLoopBackOff",
            "back-off 10s restarting failed container"
        )),
        (None, None)
    );
    assert_eq!(proves(|c| c.waiting("ContainerCreating", "")), (None, None));
}

#[test]
fn a_container_that_runs_on_for_all_of_the_patience_proves_inaction() {
    assert_eq!(proves(|c| c), (None, Some(Inert)));
    // Providers that copy the image from the spec, or show none.
    assert_eq!(proves(|c| c.status("image", EXIT)), (None, Some(Inert)));
    assert_eq!(
        proves(|c| c.status("image", "").status("imageID", "")),
        (None, Some(Inert))
    );
}

#[test]
fn what_may_be_an_update_under_way_is_no_inaction() {
    // None of the three states, for as long as the provider updates.
    assert_eq!(proves(ContainerBuilder::uncompleted), (None, None));
    assert_eq!(proves(ContainerBuilder::no_status), (None, None));
    // The exit image has completed, and is shown as running.
    assert_eq!(
        proves(|c| c.running_since(LATER).status("image", EXIT)),
        (None, None)
    );
    assert_eq!(
        proves(|c| c.running().status("restartCount", 1)),
        (None, None)
    );
}

/// A provider that is polled shows the past for some seconds.
#[test]
fn statuses_that_come_late_prove_in_the_end() {
    let (mut life, after) = swapped();
    for _ in 0..10 {
        assert_eq!(life.later(5).proves(&after), None);
    }
    assert_eq!(
        life.later(5)
            .proves(&after.clone().but("side", ContainerBuilder::uncompleted)),
        None
    );
    assert_eq!(
        life.later(5)
            .proves(&after.but("side", |c| ended_since(c, LATER).status("image", EXIT))),
        Some(Updates)
    );
}

#[test]
fn one_of_several_sidecars_is_enough_to_prove_updates() {
    let mut life = Life::new();
    let after = life.swaps(&ready().with(sidecar("other").running()));
    let half = after.but("side", |c| ended_since(c, LATER).status("image", ""));
    assert_eq!(life.later(500).proves(&half), Some(Updates));
}

/// The next status takes the reason back, the next try of the library brings it again.
#[test]
fn provider_failed_counts_from_the_swap_on_and_stays() {
    let failed = |pod: &PodBuilder| {
        pod.clone()
            .phase("Pending")
            .set("/status/reason", "ProviderFailed")
    };
    let mut life = Life::new();
    assert_eq!(
        life.proves(&failed(&ready())),
        None,
        "it has failed to create the pod, or somebody else has changed it"
    );
    let (mut life, after) = swapped();
    assert_eq!(life.proves(&after), None);
    assert_eq!(life.proves(&failed(&after)), Some(Rejects));
    assert_eq!(life.later(600).proves(&after), Some(Rejects));
    let (mut life, after) = swapped();
    assert_eq!(life.proves(&failed(&after).phase("Failed")), Some(Rejects));
    assert_eq!(
        swapped().0.proves(&after.set("/status/reason", "Evicted")),
        None
    );
}

#[test]
fn a_new_life_proves_what_it_can_see() {
    let (_, after) = swapped();
    let proves = |change: fn(ContainerBuilder) -> ContainerBuilder| {
        let mut life = Life::new();
        let pod = after.clone().but("side", change);
        (life.proves(&pod), life.later(90).proves(&pod))
    };
    assert_eq!(
        proves(|c| c),
        (None, Some(Inert)),
        "the image in the status is the old one"
    );
    assert_eq!(
        proves(|c| c.status("image", "")),
        (None, None),
        "it may be the exit image that runs"
    );
    assert_eq!(proves(|c| ended_since(c, LATER)), (None, None));
    let mut life = Life::new();
    assert_eq!(
        life.proves(
            &after
                .clone()
                .phase("Pending")
                .set("/status/reason", "ProviderFailed")
        ),
        Some(Rejects)
    );
    let mut life = Life::new();
    assert_eq!(
        life.proves(
            &after
                .phase("Failed")
                .set("/status/reason", "ProviderFailed")
        ),
        None,
        "another life saw it end, maybe long ago"
    );
}

#[test]
fn a_swap_that_was_undone_or_cut_short_proves_nothing() {
    let (mut life, after) = swapped();
    life.now += std::time::Duration::from_secs(90);
    let undone = after
        .clone()
        .but("side", |c| c.image("registry.example/app/other:v1"));
    assert_eq!(proved(&undone.read(), &life.memory, life.now), None);
    assert_eq!(life.proves(&after.clone().deleting()), None);
    assert_eq!(life.proves(&after.phase("Succeeded")), None);
}

/// The provider judges the pod when the stopped sidecar has ended, or waits for the exit image.
#[test]
fn t1_a_pod_under_never_proves_by_its_own_end() {
    let judged = |main: i64, end: &dyn Fn(ContainerBuilder) -> ContainerBuilder, phase: &str| {
        let pod = pod("Never")
            .with(main_container("main").ended(main))
            .with(sidecar("side").running());
        let mut life = Life::new();
        let after = life.swaps(&pod).but("side", end).phase(phase);
        (life, after)
    };
    let proves = |main, end: &dyn Fn(ContainerBuilder) -> ContainerBuilder, phase| {
        let (mut life, after) = judged(main, end, phase);
        life.later(5).proves(&after)
    };
    let exit_image = |c: ContainerBuilder| ended_since(c, LATER).status("image", EXIT);
    assert_eq!(proves(0, &exit_image, "Running"), Some(Updates));
    assert_eq!(proves(0, &exit_image, "Succeeded"), Some(UpdatesUnderNever));
    assert_eq!(
        proves(0, &|c| c.ended(143), "Failed"),
        Some(FailsUnderNever)
    );
    assert_eq!(
        proves(0, &ContainerBuilder::no_status, "Failed"),
        Some(FailsUnderNever)
    );
    // Its deadline, or its node, has ended it.
    for reason in ["DeadlineExceeded", "Evicted"] {
        let (mut life, after) = judged(0, &|c| c.ended(143), "Failed");
        assert_eq!(life.proves(&after.set("/status/reason", reason)), None);
    }
    // The end may be the sidecar's own, or the main's failure; or somebody has deleted the pod.
    assert_eq!(proves(0, &|c| c.ended(0), "Succeeded"), None);
    assert_eq!(proves(1, &|c| c.ended(143), "Failed"), None);
    let (mut life, after) = judged(0, &|c| c.ended(143), "Failed");
    assert_eq!(life.proves(&after.deleting()), None);
}

/// Whenever it failed: an uploader may do so when the main container has ended, and a provider may
/// stop all containers for a swap.
#[test]
fn t6_a_pod_that_failed_by_a_container_that_no_swap_touched_proves_nothing() {
    let ended = |code: i64, second: u32| {
        let finished = format!("2025-01-01T00:00:{second:02}Z");
        json!({"terminated": {"exitCode": code, "finishedAt": finished}})
    };
    let proves = |code: i64, second: u32| {
        let pod = pod("Never")
            .with(main_container("main").status("state", ended(0, 30)))
            .with(sidecar("side").running())
            .with(sidecar("other").status("state", ended(code, second)));
        let mut life = Life::new();
        let after = life.swaps(&pod).but("side", |side| side.ended(143));
        life.later(5).proves(&after.phase("Failed"))
    };
    assert_eq!(proves(1, 29), None);
    assert_eq!(proves(1, 31), None);
    assert_eq!(proves(0, 29), Some(FailsUnderNever));
}

/// The swap came too late to be the cause.
#[test]
fn u125_a_pod_that_failed_by_a_sidecar_that_ended_before_its_swap_proves_nothing() {
    let ended = |code: i64, second: u32| {
        let finished = format!("2025-01-01T00:00:{second:02}Z");
        json!({"terminated": {"exitCode": code, "finishedAt": finished}})
    };
    let proves = |second: u32| {
        let pod = pod("Never")
            .with(main_container("main").status("state", ended(0, 30)))
            .with(sidecar("side").running());
        let mut life = Life::new();
        let after = life.swaps(&pod);
        let after = after.but("side", |side| side.status("state", ended(1, second)));
        life.later(5).proves(&after.phase("Failed"))
    };
    assert_eq!(proves(20), None);
    assert_eq!(proves(31), Some(FailsUnderNever));
}

#[test]
fn t6_a_pod_whose_swapped_containers_all_ended_well_is_no_failure_of_its_swaps() {
    let (mut life, after) = failed(|side| ended_since(side, LATER).status("image", EXIT));
    assert_eq!(life.later(5).proves(&after), Some(Updates));
    assert!(!image_failed(&after.read(), &life.memory));
}

/// A pod under `Never` that was swapped, and has failed with this end of its sidecar.
fn failed(end: impl FnOnce(ContainerBuilder) -> ContainerBuilder) -> (Life, PodBuilder) {
    let pod = pod("Never")
        .with(main_container("main").ended(0))
        .with(sidecar("side").running());
    let mut life = Life::new();
    let after = life.swaps(&pod).but("side", end).phase("Failed");
    (life, after)
}

/// One pod would speak for all nodes of the provider.
#[test]
fn an_exit_image_that_fails_itself_proves_no_failure_of_the_node() {
    let proves = |end: &dyn Fn(ContainerBuilder) -> ContainerBuilder| {
        let (mut life, after) = failed(end);
        let proves = life.later(5).proves(&after);
        (proves, image_failed(&after.read(), &life.memory))
    };
    assert_eq!(
        proves(&|c| c.ended_as(128, "StartError")),
        (None, true),
        "it could not be started"
    );
    assert_eq!(
        proves(&|c| c.ended_as(128, "StartError").restarted_as(EXIT, 1)),
        (Some(Updates), true)
    );
    assert_eq!(
        proves(&|c| c.ended(1).restarted_as(EXIT, 1)),
        (Some(Updates), true),
        "its program may come from a volume"
    );
    assert_eq!(
        proves(&|c| c.ended(143)),
        (Some(FailsUnderNever), false),
        "the end is that of the sidecar"
    );
}

/// Anyone who may change a pod can give it an exit image.
#[test]
fn a_pod_that_this_process_has_not_swapped_proves_nothing_of_pods_under_never() {
    let (_, after) = failed(|c| c.ended(143));
    let mut life = Life::new();
    let running = after.clone().but("side", ContainerBuilder::running);
    assert_eq!(life.proves(&running.phase("Running")), None);
    assert_eq!(life.later(5).proves(&after), None);
    assert!(!image_failed(&after.read(), &life.memory));
}

/// Anyone can create a pod whose sidecar has an exit image, and which its node cannot run.
#[test]
fn a_pod_that_was_created_with_the_exit_image_proves_nothing() {
    let created = |policy: &str| {
        pod(policy)
            .with(main_container("main").ended(0))
            .with(sidecar("side").image(EXIT).running().status("image", EXIT))
    };
    let rejected = created("OnFailure")
        .phase("Pending")
        .set("/status/reason", "ProviderFailed");
    assert_eq!(Life::new().proves(&rejected), None);
    let failed = created("Never")
        .but("side", |side| side.ended(143))
        .phase("Failed");
    assert_eq!(Life::new().proves(&failed), None);
}
