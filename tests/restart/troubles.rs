//! Restarts that do not go well: every pod and every request ends in a state that is known.

use std::time::Duration;

use kube::api::DeleteParams;
use swaplet_testbed::apiserver::{Effect, Rule, Verb};

use crate::restart::daemon::{Fate, start};
use crate::restart::world::{World, interrupt};

#[tokio::test]
async fn after_a_failure_no_other_pod_is_begun_with_unless_failures_are_ignored() {
    for (flags, code, words) in [
        (&[][..], 1, "1 Failed, 1 NotStarted, 1 Succeeded"),
        (&["--failure-policy", "ignore"], 1, "1 Failed, 2 Succeeded"),
    ] {
        let mut world = World::new().await;
        world.deployment(3, &["web-a", "web-b", "web-c"]).await;
        start(&mut world, &[("web-b", Fate::Fails)]);
        let ran = world
            .restart(&[&["deploy/web", "-c", "app"], flags].concat())
            .await;
        assert_eq!(ran.code, Some(code), "{ran:?}");
        assert!(
            ran.err.contains(words)
                && ran
                    .err
                    .contains("pod/web-b: failed: app: kill container error: no"),
            "{}",
            ran.err
        );
        let row = ran
            .out
            .lines()
            .find(|line| line.starts_with("web-b"))
            .unwrap();
        assert!(
            row.contains("Failed") && row.ends_with("kill container error: no"),
            "{row}"
        );
    }
}

#[tokio::test]
async fn ctrl_c_deletes_what_nobody_has_begun_with_and_names_what_goes_on() {
    let mut world = World::new().await;
    world.deployment(3, &["web-a", "web-b", "web-c"]).await;
    let log = start(
        &mut world,
        &[("web-a", Fate::Hangs), ("web-b", Fate::Ignored)],
    );
    let child = world.start(&["deploy/web", "-c", "app", "--max-unavailable", "2"]);
    world
        .until("both are asked for", |server| {
            server.peek_all(crate::restart::world::REQUESTS).len() == 2
        })
        .await;
    world
        .until("web-a is begun with", |_| log.lines() == ["web-a begins"])
        .await;
    interrupt(&child).await;
    let ran = world.end_of(child).await;
    assert_eq!(ran.code, Some(130), "{ran:?}");
    let left = world.requests();
    assert_eq!(left.len(), 1, "{left:?}");
    let name = left[0]["metadata"]["name"].as_str().unwrap();
    assert!(name.starts_with("web-a-restart-"));
    assert!(
        ran.err.contains(&format!(
            "{name} continues: kubectl get crr -n default {name}"
        )),
        "{}",
        ran.err
    );
    assert!(
        ran.err.contains("web-b") && ran.err.contains("was deleted before it was begun"),
        "{}",
        ran.err
    );
    let row = |pod: &str| {
        ran.out
            .lines()
            .find(|line| line.starts_with(pod))
            .unwrap()
            .to_owned()
    };
    assert!(
        row("web-a").contains("Unknown")
            && row("web-b").contains("NotStarted")
            && row("web-c").contains("NotStarted"),
        "{}",
        ran.out
    );
}

/// The request is made, and the answer is lost: asked for a second time, it is the same one.
#[tokio::test]
async fn a_lost_answer_makes_no_second_request() {
    let mut world = World::new().await;
    world.pod("web-0").await;
    start(&mut world, &[]);
    let lost = Rule::new(Effect::ApplyThenReply(Effect::reply(504)))
        .verb(Verb::Create)
        .resource("containerrecreaterequests")
        .times(1);
    world.server.faults().add(lost);
    let ran = world.restart(&["web-0", "-c", "app"]).await;
    assert_eq!((ran.code, world.requests().len()), (Some(0), 1), "{ran:?}");
    assert!(
        ran.err.contains("trying again") && ran.err.contains("the API server answers again"),
        "{}",
        ran.err
    );
}

#[tokio::test]
async fn a_request_that_somebody_deletes_and_a_pod_that_goes_are_told() {
    let mut world = World::new().await;
    world.deployment(2, &["web-a", "web-b"]).await;
    start(&mut world, &[("web-a", Fate::Hangs)]);
    let child = world.start(&["deploy/web", "-c", "app", "--failure-policy", "ignore"]);
    world
        .until("web-a is asked for", |server| {
            !server.peek_all(crate::restart::world::REQUESTS).is_empty()
        })
        .await;
    let now = DeleteParams {
        grace_period_seconds: Some(0),
        ..DeleteParams::default()
    };
    world.pods().delete("web-b", &now).await.unwrap();
    tokio::time::sleep(Duration::from_secs(2)).await;
    // With the pod goes its request.
    world.pods().delete("web-a", &now).await.unwrap();
    let ran = world.end_of(child).await;
    assert_eq!((ran.code, world.requests().len()), (Some(1), 0), "{ran:?}");
    assert!(
        ran.err.contains("pod/web-a: failed: the pod was deleted"),
        "{}",
        ran.err
    );
    assert!(ran.err.contains("pod/web-b: it was deleted"), "{}", ran.err);
}

/// It has begun with others, and has so many at once.
#[tokio::test]
async fn u167_a_controller_that_has_accepted_one_request_is_there() {
    let mut world = World::new().await;
    world.deployment(3, &["web-a", "web-b", "web-c"]).await;
    let fates = [("web-a", Fate::Hangs), ("web-b", Fate::Ignored)];
    start(&mut world, &fates);
    let child = world.start(&["deploy/web", "-c", "app", "--max-unavailable", "2"]);
    world
        .until("both are asked for", |server| {
            server.peek_all(crate::restart::world::REQUESTS).len() == 2
        })
        .await;
    tokio::time::sleep(Duration::from_secs(13)).await;
    interrupt(&child).await;
    let ran = world.end_of(child).await;
    assert!(!ran.err.contains("no controller"), "{}", ran.err);
}

#[tokio::test]
async fn it_is_told_that_nobody_takes_a_request_up() {
    let world = World::new().await;
    world.pod("web-0").await;
    let mut child = world.start(&["web-0", "-c", "app"]);
    let words = "no controller has accepted its request yet";
    world.says(&mut child, words).await;
    interrupt(&child).await;
    let ran = world.end_of(child).await;
    assert_eq!(
        (ran.code, world.requests().len()),
        (Some(130), 0),
        "{ran:?}"
    );
}
