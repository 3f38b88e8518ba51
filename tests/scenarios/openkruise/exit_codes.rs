//! Sidecars that the daemon stops, and the code with which they exit.

use super::daemon::{Daemon, OBEDIENT};
use super::{is_swapped_after, last};
use crate::harness::World;
use crate::objects::pod;

#[tokio::test(start_paused = true)]
async fn a_sidecar_that_comes_back_is_told_and_swapped() {
    let daemon = Daemon {
        stop_code: 143,
        ..OBEDIENT
    };
    is_swapped_after(daemon, "OnFailure", "exit code 143").await;
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_fails_by_its_sidecar_is_told() {
    let world = World::with_openkruise("Never").await;
    let _life = world.start_beside(last());
    world.start_daemon(Daemon {
        stop_code: 143,
        ..OBEDIENT
    });
    world.wait(1).await;
    world.ends("p", "main", 0).await;
    world.wait(5).await;
    assert_eq!((world.phase("p").as_str(), world.asked()), ("Failed", 1));
    assert_eq!(
        world.events("p"),
        ["RecreateRequested", "PodFailedAfterRecreate"]
    );
    world.assert_quiet_beside_openkruise().await;
}

#[tokio::test(start_paused = true)]
async fn of_ten_pods_all_end_where_the_sidecar_obeys() {
    let world = World::with_openkruise("Never").await;
    let names: Vec<_> = (0..10).map(|nth| format!("q{nth}")).collect();
    for name in &names {
        world.run_pod(&pod(name, "Never")).await;
    }
    let _life = world.start_beside(last());
    world.start_daemon(OBEDIENT);
    world.wait(1).await;
    for name in &names {
        world.ends(name, "main", 0).await;
    }
    world.wait(15).await;
    assert!(names.iter().all(|name| world.phase(name) == "Succeeded"));
    assert_eq!((world.asked(), world.recreate_requests().len()), (10, 10));
    world.assert_quiet_beside_openkruise().await;
}
