//! Sidecars that the daemon stops, and the code with which they exit: one pod finds out.

use super::daemon::{Daemon, OBEDIENT};
use super::{first, is_swapped_after, last};
use crate::harness::World;
use crate::node::Kubelet;
use crate::objects::pod;

/// The trap of the exit code, met once: the next pod knows.
#[tokio::test(start_paused = true)]
async fn a_sidecar_that_comes_back_is_told_and_swapped() {
    let daemon = Daemon {
        stop_code: 143,
        ..OBEDIENT
    };
    is_swapped_after(daemon, "OnFailure", "exit code 143").await;
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_fails_by_its_sidecar_is_told_and_protects_the_next() {
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
    world.run_pod(&pod("q", "Never")).await;
    world.ends("q", "main", 0).await;
    world.wait(5).await;
    assert_eq!((world.phase("q").as_str(), world.asked()), ("Running", 1));
    assert_eq!(
        sorted(world.events("q")),
        ["ExitImageMissing", "RecreateExitCode"]
    );
    world.assert_quiet_beside_openkruise().await;
}

/// Ten pods with the same sidecar are done at once: one of them finds out how it ends.
#[tokio::test(start_paused = true)]
async fn of_ten_pods_one_pays_for_a_sidecar_that_fails_it() {
    for (policy, rules, asked, succeeded) in [
        ("Never", last(), 1, 0),
        ("Never", first(), 1, 9),
        ("OnFailure", first(), 1, 10),
    ] {
        let world = World::with_openkruise(policy).await;
        let names: Vec<_> = (0..10).map(|nth| format!("q{nth}")).collect();
        for name in &names {
            world.run_pod(&pod(name, policy)).await;
        }
        let _life = world.start_beside(rules);
        world.start_kubelet(Kubelet {
            stop_code: 143,
            ..Kubelet::default()
        });
        world.start_daemon(Daemon {
            stop_code: 143,
            ..OBEDIENT
        });
        world.wait(1).await;
        for name in &names {
            world.ends(name, "main", 0).await;
        }
        world.wait(30).await;
        assert_eq!(world.asked(), asked, "{policy}");
        let phases = |phase: &str| {
            names
                .iter()
                .filter(|name| world.phase(name) == phase)
                .count()
        };
        assert_eq!(
            (phases("Succeeded"), phases("Failed")),
            (succeeded, usize::from(policy == "Never")),
            "{policy}"
        );
        world.assert_quiet_beside_openkruise().await;
    }
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

fn sorted(mut events: Vec<String>) -> Vec<String> {
    events.sort();
    events
}
