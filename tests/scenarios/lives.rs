//! Lives that end early, and lives that overlap.

use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use kube::Client;
use prometheus_client::registry::Registry;
use swaplet_controller::frame::metrics::Metrics;
use swaplet_controller::frame::serve::Health;
use swaplet_controller::run::{TimeOfDay, run};
use swaplet_testbed::apiserver::{Effect, Rule, Verb};
use tokio::time::timeout;

use super::harness::{CONCURRENCY, SWAPLET, World, settings};
use super::line::{Line, Patches};
use super::node::Kubelet;
use super::objects::{EXIT, pod};

#[tokio::test(start_paused = true)]
async fn t1_killed_after_the_patch_was_applied() {
    let (world, life) = World::with_pod("OnFailure").await;
    life.line.patches(Patches::ArriveOnly);
    world.ends("p", "main", 0).await;
    world.wait(1).await;
    assert_eq!(world.image("p"), EXIT);
    life.kill();

    let _next = world.start_controller();
    world.start_kubelet(Kubelet::default());
    world.wait(5).await;
    world.assert_ended_by_one_patch("p");
    world.assert_quiet().await;
}

#[tokio::test(start_paused = true)]
async fn t1_killed_between_the_swap_and_its_effect() {
    let (world, life) = World::with_pod("Never").await;
    world.ends("p", "main", 0).await;
    world.wait(1).await;
    life.kill();

    let _next = world.start_controller();
    world.start_kubelet(Kubelet {
        stop_code: 143,
        ..Kubelet::default()
    });
    world.wait(5).await;
    world.assert_ended_by_one_patch("p");
    world.assert_quiet().await;
}

/// Nobody has seen the end: the next life tells it, and no other after that.
#[tokio::test(start_paused = true)]
async fn t1_killed_before_the_end_that_nobody_sees() {
    let (world, life) = World::with_pod("Never").await;
    world.ends("p", "main", 0).await;
    world.wait(1).await;
    life.kill();
    world.wait(10).await;
    world.ends_now("p", "side", 0).await;
    assert_eq!(world.phase("p"), "Succeeded");
    world.wait(5).await;
    assert_eq!(world.events("p"), [""; 0]);

    let clock = world.server.clock();
    let start = || {
        world.start(SWAPLET, CONCURRENCY, |settings| {
            settings.time_of_day = TimeOfDay(Arc::new(move || clock.now()));
        })
    };
    for _ in 0..2 {
        let next = start();
        world.wait(5).await;
        let notes = world.notes("p");
        let told = format!("ended because main containers were done: side (image {EXIT})");
        assert!(
            notes.len() == 1
                && notes[0].0 == "SidecarEnded"
                && notes[0].1.contains("side ended (exit code 0, method swap)")
                && notes[0].1.ends_with(&told),
            "{notes:?}"
        );
        assert_eq!(
            next.sample("swaplet_write_to_end_seconds_count{method=\"swap\",class=\"Kubelet\"}"),
            None
        );
        next.kill();
    }
    world.wait(120).await;
    let events = world.requests().len();
    let _late = start();
    world.wait(5).await;
    assert!(
        world.requests()[events..]
            .iter()
            .all(|request| request.resource != "events"),
        "it was long ago"
    );
    assert_eq!(world.patches("p"), 1);
    world.assert_quiet().await;
}

/// As where the API server is busy while another process takes over.
#[tokio::test(start_paused = true)]
async fn t1_an_end_that_nobody_sees_is_told_where_the_first_list_fails() {
    let (world, life) = World::with_pod("Never").await;
    world.ends("p", "main", 0).await;
    world.wait(1).await;
    life.kill();
    world.wait(10).await;
    world.ends_now("p", "side", 0).await;
    world.fault(Effect::reply(500), |rule| {
        rule.verb(Verb::List).resource("pods").times(1)
    });
    let clock = world.server.clock();
    let _next = world.start(SWAPLET, CONCURRENCY, |settings| {
        settings.time_of_day = TimeOfDay(Arc::new(move || clock.now()));
    });
    world.wait(5).await;
    assert_eq!(world.events("p"), ["SidecarEnded"]);
    world.assert_quiet().await;
}

#[tokio::test(start_paused = true)]
async fn t2_killed_before_the_patch_left() {
    let (world, life) = World::with_pod("OnFailure").await;
    life.line.patches(Patches::Stay);
    world.ends("p", "main", 0).await;
    world.wait(1).await;
    life.kill();
    assert_eq!((world.patches("p"), world.image_changes("p")), (0, 0));

    let _next = world.start_controller();
    world.start_kubelet(Kubelet::default());
    world.wait(5).await;
    world.assert_ended_by_one_patch("p");
    world.assert_quiet().await;
}

#[tokio::test(start_paused = true)]
async fn t2_the_mains_ended_while_no_controller_ran() {
    let world = World::new();
    world.run_pod(&pod("p", "Never")).await;
    world.ends("p", "main", 3).await;
    world.start_kubelet(Kubelet::default());
    world.wait(3600).await;

    let _life = world.start_controller();
    world.wait(5).await;
    assert_eq!(
        (world.phase("p").as_str(), world.patches("p")),
        ("Failed", 1)
    );
    assert_eq!(world.events("p"), ["SidecarEnded"]);
    world.assert_quiet().await;
}

#[tokio::test(start_paused = true)]
async fn t9_two_replicas_act_at_the_same_moment() {
    let (world, _one) = World::with_pod("OnFailure").await;
    let _two = world.start_controller_as("swaplet-two", CONCURRENCY);
    world.wait(1).await;
    world.patch_fault(Effect::Delay(Duration::from_millis(50)));
    world.ends("p", "main", 0).await;
    world.wait(1).await;
    assert_eq!((world.patches("p"), world.image_changes("p")), (2, 1));

    world.start_kubelet(Kubelet::default());
    world.wait(5).await;
    assert_eq!(world.phase("p"), "Succeeded");
    assert_eq!(world.events("p"), ["SidecarEnded"]);
    world.assert_quiet().await;
}

#[tokio::test(start_paused = true)]
async fn t9_a_stopped_process_goes_on_an_hour_later() {
    let (world, zombie) = World::with_pod("OnFailure").await;
    zombie
        .line
        .patches(Patches::ArriveLate(Duration::from_secs(3600)));
    world.ends("p", "main", 0).await;
    world.wait(1).await;
    zombie.kill();

    let _next = world.start_controller();
    world.wait(60).await;
    assert_eq!(world.image("p"), EXIT);
    world.start_kubelet(Kubelet::default());
    world.wait(5).await;
    let changes = world.image_changes("p");
    world.wait(3600).await;
    assert_eq!(world.patches("p"), 2, "the late one has arrived");
    assert_eq!((changes, world.image_changes("p")), (1, 1));
    assert_eq!(world.events("p"), ["SidecarEnded"]);
    world.assert_quiet().await;
}

#[tokio::test(start_paused = true)]
async fn t9_a_late_patch_does_not_meet_the_next_pod_of_that_name() {
    let (world, zombie) = World::with_pod("OnFailure").await;
    zombie
        .line
        .patches(Patches::ArriveLate(Duration::from_secs(30)));
    world.ends("p", "main", 0).await;
    world.wait(1).await;
    zombie.kill();
    world.remove("p").await;
    world.run_pod(&pod("p", "OnFailure")).await;

    let _next = world.start_controller();
    world.wait(60).await;
    assert_eq!((world.patches("p"), world.image_changes("p")), (1, 0));
    assert_eq!(world.events("p"), [""; 0]);
    world.assert_quiet().await;
}

#[tokio::test(start_paused = true)]
async fn t30_a_controller_that_dies_every_five_seconds_makes_progress() {
    let world = World::new();
    let names: Vec<_> = (0..60).map(|nth| format!("p{nth}")).collect();
    for name in &names {
        world.run_pod(&pod(name, "OnFailure")).await;
        world.ends(name, "main", 0).await;
    }
    world.server.faults().add(
        Rule::new(Effect::Delay(Duration::from_millis(2400)))
            .verb(Verb::Patch)
            .user_agent("swaplet"),
    );
    let done = || {
        names
            .iter()
            .filter(|name| world.image(name) == EXIT)
            .count()
    };
    let mut lives = 0;
    while done() < names.len() {
        let before = done();
        let life = world.start_controller();
        world.wait(5).await;
        life.kill();
        lives += 1;
        assert!(done() > before, "life {lives} did nothing");
    }
    assert!(lives > 5, "too fast to show anything: {lives}");
    assert!(names.iter().all(|name| world.image_changes(name) == 1));
    assert!(world.count(Verb::Patch) <= names.len() + lives * CONCURRENCY);

    world.start_kubelet(Kubelet::default());
    let _last = world.start_controller();
    world.wait(10).await;
    assert!(names.iter().all(|name| world.phase(name) == "Succeeded"));
    assert!(
        names
            .iter()
            .all(|name| world.events(name).last().unwrap() == "SidecarEnded")
    );
    world.assert_quiet().await;
}

/// `/healthz` answers by [`Health::alive`]. A process whose loop stands still keeps its Lease, so
/// nobody else does its work until it is ended.
#[tokio::test(start_paused = true)]
async fn a_process_is_not_alive_while_its_loop_stands_still() {
    let world = World::new();
    let client = Client::new(Line::new(world.server.clone(), SWAPLET), "default");
    let (metrics, health) = (
        Metrics::register(&mut Registry::default()),
        Health::default(),
    );
    let settings = settings(SWAPLET, CONCURRENCY);
    let mut controller = Box::pin(run(client, settings, metrics, health.clone(), pending()));

    let ten_minutes = Duration::from_secs(600);
    assert!(timeout(ten_minutes, &mut controller).await.is_err());
    assert_eq!(health.alive(), Ok(()), "nothing to do is no reason");

    world.wait(150).await;
    let still = health.alive().unwrap_err();
    assert!(
        still.starts_with("the loop of pods has been stuck for 1"),
        "{still}"
    );

    let a_second = Duration::from_secs(1);
    assert!(timeout(a_second, &mut controller).await.is_err());
    assert_eq!(health.alive(), Ok(()), "it goes round again");

    drop(controller);
    world.wait(600).await;
    assert_eq!(
        health.alive(),
        Ok(()),
        "what has ended does not stand still"
    );
}
