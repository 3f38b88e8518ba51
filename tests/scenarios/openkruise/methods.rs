//! The daemon is one method of several: when it is asked, and what comes after it.

use std::time::Duration;

use tokio::time::Instant;

use super::daemon::{Daemon, OBEDIENT};
use super::{first, is_swapped_after, last};
use crate::harness::World;
use crate::node::Kubelet;

#[tokio::test(start_paused = true)]
async fn the_daemon_ends_what_cannot_be_swapped() {
    for policy in ["Never", "OnFailure"] {
        let world = World::with_openkruise(policy).await;
        let _life = world.start_beside(last());
        world.start_daemon(OBEDIENT);
        world.wait(1).await;
        world.ends("p", "main", 0).await;
        world.wait(5).await;
        assert_eq!(
            (world.phase("p").as_str(), world.patches("p"), world.asked()),
            ("Succeeded", 0, 1)
        );
        assert_eq!(world.events("p"), ["RecreateRequested", "SidecarEnded"]);
        world.assert_quiet_beside_openkruise().await;
    }
}

#[tokio::test(start_paused = true)]
async fn the_daemon_is_asked_first_where_that_is_preferred() {
    let world = World::with_openkruise("Never").await;
    let _life = world.start_beside(first());
    world.start_daemon(OBEDIENT);
    world.wait(1).await;
    world.ends("p", "main", 0).await;
    world.wait(5).await;
    assert_eq!(
        (world.phase("p").as_str(), world.patches("p"), world.asked()),
        ("Succeeded", 0, 1)
    );
    let (reason, note) = world.notes("p").remove(0);
    assert!(
        reason == "RecreateRequested" && note.contains("--prefer=crr"),
        "{note}"
    );
    world.assert_quiet_beside_openkruise().await;
}

#[tokio::test(start_paused = true)]
async fn a_daemon_that_does_not_answer_costs_less_than_a_minute() {
    for policy in ["Never", "OnFailure"] {
        let world = World::with_openkruise(policy).await;
        let _life = world.start_beside(first());
        world.start_kubelet(Kubelet {
            stop_code: 143,
            ..Kubelet::default()
        });
        world.wait(1).await;
        let start = Instant::now();
        world.ends("p", "main", 0).await;
        while world.phase("p") != "Succeeded" {
            world.wait(1).await;
            assert!(
                start.elapsed() < Duration::from_secs(60),
                "the next method was not reached within a minute"
            );
        }
        assert!(
            start.elapsed() > Duration::from_secs(40),
            "the daemon had no time to answer"
        );
        assert_eq!(
            world.events("p"),
            ["RecreateRequested", "RecreateUnanswered", "SidecarEnded"]
        );
        assert_eq!((world.patches("p"), world.asked()), (1, 1));
        world.assert_quiet_beside_openkruise().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_daemon_that_is_removed_costs_nothing() {
    let world = World::with_openkruise("Never").await;
    let _life = world.start_beside(first());
    world.start_kubelet(Kubelet::default());
    world.wait(1).await;
    world.ends("p", "main", 0).await;
    world.wait(5).await;
    assert_eq!((world.patches("p"), world.asked()), (0, 1));
    world.remove_daemon_pod().await;
    world.wait(5).await;
    assert_eq!(
        (world.phase("p").as_str(), world.patches("p"), world.asked()),
        ("Succeeded", 1, 1)
    );
    assert_eq!(world.events("p"), ["RecreateRequested", "SidecarEnded"]);
    world.assert_quiet_beside_openkruise().await;
}

#[tokio::test(start_paused = true)]
async fn a_daemon_that_cannot_stop_the_container() {
    let daemon = Daemon {
        error: Some("no such container"),
        ..OBEDIENT
    };
    is_swapped_after(daemon, "Never", "no such container").await;
}
