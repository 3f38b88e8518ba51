//! Verdicts are kept in a ConfigMap: the next life knows what the last one has learned.

use std::time::Duration;

use http::Method;
use serde_json::{Value, json};
use swaplet_testbed::apiserver::{Effect, Verb};

use super::{unknown, world};
use crate::harness::World;
use crate::objects::pod;

/// The next life knows what the last one has learned, from a ConfigMap, and asks no provider again.
#[tokio::test(start_paused = true)]
async fn a_verdict_outlives_the_controller() {
    let world = world(&unknown(), "OnFailure", 1).await;
    world.create_namespace("state").await;
    let first = world.start_controller_keeping("state");
    world.wait(1).await;
    world.provider_fails("p0", "Pending").await;
    world.wait(1).await;
    first.kill();
    world.remove("p0").await;

    let _next = world.start_controller_keeping("state");
    for name in ["p1", "p2"] {
        world.run_pod(&pod(name, "OnFailure")).await;
        world.ends(name, "main", 0).await;
    }
    world.wait(60).await;
    assert_eq!(
        (world.patches("p1"), world.events("p1"), world.events("p2")),
        (0, vec!["NoRung".to_owned()], vec!["NoRung".to_owned()])
    );
    let map = world
        .server
        .peek("configmaps", "state", "swaplet-node-verdicts")
        .unwrap();
    let kept: Value = serde_json::from_str(map["data"]["node-1"].as_str().unwrap()).unwrap();
    assert_eq!(
        (&kept["proved"], &kept["pod"]),
        (&json!("Rejects"), &json!("default/p0"))
    );
    assert_eq!(
        world
            .requests()
            .iter()
            .filter(|request| request.resource == "configmaps" && request.verb != Verb::Get)
            .count(),
        1
    );
    world.assert_quiet().await;
}

/// A node that has not been listed has no uid yet: what a pod proves meanwhile must not take the
/// place of what is kept of it.
#[tokio::test(start_paused = true)]
async fn a_verdict_outlives_the_controller_also_where_pods_are_seen_before_nodes() {
    let world = world(&unknown(), "OnFailure", 1).await;
    world.create_namespace("state").await;
    let first = world.start_controller_keeping("state");
    world.wait(1).await;
    world.provider_fails("p0", "Pending").await;
    world.wait(1).await;
    first.kill();

    world.fault(Effect::Delay(Duration::from_secs(2)), |rule| {
        rule.resource("nodes").verb(Verb::List).times(1)
    });
    let _next = world.start_controller_keeping("state");
    world.wait(5).await;
    world.run_pod(&pod("p1", "OnFailure")).await;
    world.ends("p1", "main", 0).await;
    world.wait(60).await;
    assert_eq!(
        (world.patches("p0"), world.patches("p1"), world.events("p1")),
        (1, 0, vec!["NoRung".to_owned()])
    );
}

/// A world with so many unknown nodes, each with a pod.
async fn nodes(count: usize) -> World {
    let world = World::new();
    world.create_namespace("state").await;
    for number in 0..count {
        world.label_node(&format!("n{number}"), &unknown()).await;
        let mut pod = pod(&format!("p{number}"), "OnFailure");
        pod["spec"]["nodeName"] = format!("n{number}").into();
        world.run_pod(&pod).await;
    }
    world
}

/// What is proved within half a minute goes into two writes, and what another replica has written
/// is kept; what is no verdict is not.
#[tokio::test(start_paused = true)]
async fn verdicts_are_written_rarely_and_beside_those_of_others() {
    let world = nodes(10).await;
    let _life = world.start_controller_keeping("state");
    for number in 0..10 {
        let name = format!("p{number}");
        world.ends(&name, "main", 0).await;
        world.wait(1).await;
        world.provider_fails(&name, "Pending").await;
        if number == 5 {
            let theirs =
                json!({"uid": "x", "proved": "Inert", "provedAt": "2026-01-01T00:00:00Z", "until": "2099-01-01T00:00:00Z"}).to_string();
            world.keep_verdict("state", "theirs", &theirs).await;
            world.keep_verdict("state", "nonsense", "{").await;
        }
    }
    world.wait(60).await;
    let writes = world
        .requests()
        .iter()
        .filter(|request| request.resource == "configmaps" && request.verb != Verb::Get)
        .count();
    assert_eq!(
        writes, 3,
        "one at once, one after the pause that somebody else had overtaken, and that one again"
    );
    let map = world
        .server
        .peek("configmaps", "state", "swaplet-node-verdicts")
        .unwrap();
    assert_eq!(map["data"].as_object().unwrap().len(), 11);
    world.assert_quiet().await;
}

/// Who deletes the ConfigMap loses nothing that this life knows.
#[tokio::test(start_paused = true)]
async fn verdicts_are_written_again_after_their_config_map_was_deleted() {
    const MAP: &str = "/api/v1/namespaces/state/configmaps/swaplet-node-verdicts";
    let world = nodes(2).await;
    let _life = world.start_controller_keeping("state");
    for name in ["p0", "p1"] {
        world.ends(name, "main", 0).await;
        world.wait(1).await;
        world.provider_fails(name, "Pending").await;
        world.wait(60).await;
        if name == "p0" {
            world
                .request(Method::DELETE, MAP, "application/json", &json!({}))
                .await;
        }
    }
    let map = world
        .server
        .peek("configmaps", "state", "swaplet-node-verdicts")
        .unwrap();
    let nodes: Vec<_> = map["data"].as_object().unwrap().keys().collect();
    assert_eq!(nodes, ["n0", "n1"]);
    world.assert_quiet().await;
}

/// An admission policy denies with the code of a failed `test`. It is no conflict: nothing is tried
/// again at once, and readiness says it.
#[tokio::test(start_paused = true)]
async fn a_policy_that_denies_the_config_map_of_verdicts_is_told() {
    let world = world(&unknown(), "OnFailure", 1).await;
    world.create_namespace("state").await;
    let denial = Effect::reply(422).message("denied by a policy");
    world.fault(denial, |rule| {
        rule.verb(Verb::Create).resource("configmaps")
    });
    let life = world.start_controller_keeping("state");
    world.wait(1).await;
    world.provider_fails("p0", "Pending").await;
    world.wait(60).await;
    let ready = life.health.ready().unwrap();
    assert!(ready.contains("denied by a policy"), "{ready}");
    let tries = world
        .requests()
        .iter()
        .filter(|request| request.resource == "configmaps" && request.verb == Verb::Create)
        .count();
    assert_eq!(tries, 1);
}

#[tokio::test(start_paused = true)]
async fn without_the_right_to_keep_verdicts_everything_else_goes_on() {
    for effect in [Effect::from(Effect::reply(403)), Effect::Hang] {
        let world = world(&unknown(), "OnFailure", 1).await;
        world.create_namespace("state").await;
        world.fault(effect, |rule| rule.resource("configmaps"));
        let _life = world.start_controller_keeping("state");
        world.wait(15).await;
        world.provider_fails("p0", "Pending").await;
        world.wait(1).await;
        world.run_pod(&pod("p1", "OnFailure")).await;
        world.ends("p1", "main", 0).await;
        world.wait(60).await;
        assert_eq!(
            (world.patches("p0"), world.patches("p1"), world.events("p1")),
            (1, 0, vec!["NoRung".to_owned()])
        );
    }
}

/// The keys of the ConfigMap.
fn kept(world: &World) -> Vec<String> {
    let map = world
        .server
        .peek("configmaps", "state", "swaplet-node-verdicts")
        .unwrap();
    let data = map["data"].as_object().into_iter().flatten();
    data.map(|(key, _)| key.clone()).collect()
}

/// A pod shows that its provider fails; so long after that.
async fn fails(world: &World, name: &str, later: u64) {
    world.ends(name, "main", 0).await;
    world.wait(1).await;
    world.provider_fails(name, "Pending").await;
    world.wait(later).await;
}

#[tokio::test(start_paused = true)]
async fn u34_verdicts_that_could_not_be_read_at_the_start_are_neither_lost_nor_unknown() {
    let world = nodes(4).await;
    let first = world.start_controller_keeping("state");
    fails(&world, "p0", 10).await;
    first.kill();
    for number in 0..4 {
        world.remove(&format!("p{number}")).await;
    }
    let unreadable = world.fault(Effect::reply(503), |rule| {
        rule.verb(Verb::Get).resource("configmaps")
    });
    let life = world.start_controller_keeping("state");
    world.wait(10).await;
    world.end_fault(unreadable);
    world.wait(65).await;
    assert_eq!(life.health.ready(), Ok("ok".to_owned()));
    for number in 0..4 {
        let mut pod = pod(&format!("q{number}"), "OnFailure");
        pod["spec"]["nodeName"] = format!("n{number}").into();
        world.run_pod(&pod).await;
    }
    world.ends("q0", "main", 0).await;
    for name in ["q1", "q2", "q3"] {
        fails(&world, name, 60).await;
    }
    assert_eq!(
        (world.patches("q0"), world.patches("q1")),
        (0, 1),
        "of that node it is known"
    );
    assert_eq!(kept(&world), ["n0", "n1", "n2", "n3"]);
}

#[tokio::test(start_paused = true)]
async fn u34_what_another_replica_has_written_stays() {
    let world = nodes(3).await;
    let _life = world.start_controller_keeping("state");
    fails(&world, "p0", 60).await;
    let theirs = json!({"uid": "x", "proved": "Inert", "provedAt": "2026-01-01T00:00:00Z", "until": "2099-01-01T00:00:00Z"});
    world
        .keep_verdict("state", "theirs", &theirs.to_string())
        .await;
    fails(&world, "p1", 60).await;
    fails(&world, "p2", 60).await;
    assert_eq!(kept(&world), ["n0", "n1", "n2", "theirs"]);
}

#[tokio::test(start_paused = true)]
async fn u34_a_write_of_verdicts_that_has_failed_is_repeated() {
    let world = nodes(1).await;
    let life = world.start_controller_keeping("state");
    world.wait(1).await;
    world.fault(Effect::reply(503), |rule| {
        rule.verb(Verb::Create).resource("configmaps").times(1)
    });
    fails(&world, "p0", 10).await;
    assert!(life.health.ready().unwrap().contains("cannot be kept"));
    world.wait(100).await;
    assert_eq!(life.health.ready(), Ok("ok".to_owned()));
    assert_eq!(kept(&world), ["n0"]);
}

#[tokio::test(start_paused = true)]
async fn u36_a_verdict_that_the_class_of_its_node_has_discarded_does_not_come_back() {
    let world = nodes(1).await;
    let first = world.start_controller_keeping("state");
    fails(&world, "p0", 60).await;
    world.remove("p0").await;
    let class = json!({"metadata": {"labels": {"swaplet.io/node-class": "VirtualUpdates"}}});
    world
        .request(
            Method::PATCH,
            "/api/v1/nodes/n0",
            "application/merge-patch+json",
            &class,
        )
        .await;
    world.wait(60).await;
    first.kill();
    let _next = world.start_controller_keeping("state");
    let mut pod = pod("later", "OnFailure");
    pod["spec"]["nodeName"] = "n0".into();
    world.run_pod(&pod).await;
    world.ends("later", "main", 0).await;
    world.wait(5).await;
    assert_eq!(world.patches("later"), 1);
}
