//! Several protected objects: none of them costs the others their count.

use http::Method;
use serde_json::{Value, json};
use swaplet_testbed::apiserver::{Effect, Verb};

use crate::harness::World;

/// As where a webhook does not answer for one of them: its writes do not take the turns of others.
#[tokio::test(start_paused = true)]
async fn an_object_whose_write_hangs_keeps_no_other_from_being_written() {
    let world = World::new();
    let _rule = world.fault(Effect::Hang, |rule| {
        rule.verb(Verb::Patch).resource("namespaces").name("a")
    });
    for name in ["a", "shop"] {
        world.create_namespace(name).await;
        world
            .protect(&format!("/api/v1/namespaces/{name}"), json!("Cascading"))
            .await;
    }
    let _life = world.start_protecting_controller();
    world.wait(30).await;
    assert_eq!(world.shop().as_deref(), Some("pods=0,pvcs=0"));
    world.pod_of_the_shop("late").await;
    world.wait(12).await;
    assert_eq!(world.shop().as_deref(), Some("pods=1,pvcs=0"));
}

#[tokio::test(start_paused = true)]
async fn a_crowd_of_objects_whose_writes_hang_keeps_no_other_from_being_written() {
    let world = World::new();
    let crowd: Vec<String> = (0..20).map(|number| format!("a{number:02}")).collect();
    let hangs = |name: &String| {
        world.fault(Effect::Hang, |rule| {
            rule.verb(Verb::Patch).resource("namespaces").name(name)
        })
    };
    let _rules: Vec<_> = crowd.iter().map(hangs).collect();
    for name in crowd.iter().map(String::as_str).chain(["shop"]) {
        world.create_namespace(name).await;
        world
            .protect(&format!("/api/v1/namespaces/{name}"), json!("Cascading"))
            .await;
    }
    let _life = world.start_protecting_controller();
    world.wait(30).await;
    assert_eq!(world.shop().as_deref(), Some("pods=0,pvcs=0"));
    world.pod_of_the_shop("late").await;
    world.wait(2).await;
    assert_eq!(world.shop().as_deref(), Some("pods=1,pvcs=0"), "at once");
}

/// The place of one that is no longer counted is taken by another.
#[tokio::test(start_paused = true)]
async fn there_is_room_for_another_once_one_is_no_longer_counted() {
    let world = World::new();
    let path = |number: usize| format!("/api/v1/namespaces/n{number:03}");
    for number in 0..258 {
        world.create_namespace(&format!("n{number:03}")).await;
        world.protect(&path(number), json!("Cascading")).await;
    }
    let _life = world.start_protecting_controller();
    world.wait(30).await;
    let without_count = || {
        let names = (0..258).map(|number| format!("n{number:03}"));
        let names = names.filter(|name| world.holds("namespaces", name).is_none());
        names.collect::<Vec<_>>()
    };
    assert_eq!(without_count(), ["n256", "n257"]);
    world.protect(&path(3), Value::Null).await;
    world.wait(10).await;
    assert_eq!(without_count(), ["n003", "n257"]);
    // One that is being deleted needs no count, however long that takes.
    let maps = format!("{}/configmaps", path(4));
    let held = json!({"metadata": {"name": "held", "finalizers": ["example.com/held"]}});
    world
        .request(Method::POST, &maps, "application/json", &held)
        .await;
    world.delete_at(&path(4)).await;
    world.wait(10).await;
    assert_eq!(without_count(), ["n003"]);
}
