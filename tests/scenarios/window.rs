//! How many writes are under way at once.

use std::time::Duration;

use swaplet_testbed::apiserver::{Effect, RuleId};

use super::harness::{Life, SWAPLET, World};
use super::node::Kubelet;
use super::objects::pod;

/// A controller that may have 32 writes under way, on an API server that answers each after 50 ms.
async fn far_away(pods: usize) -> (World, Life, Vec<String>) {
    let world = World::new();
    let names: Vec<_> = (0..pods).map(|nth| format!("p{nth}")).collect();
    for name in &names {
        world.run_pod(&pod(name, "OnFailure")).await;
    }
    let life = world.start_controller_as(SWAPLET, 32);
    world.wait(1).await;
    (world, life, names)
}

fn delay(world: &World) -> RuleId {
    world.patch_fault(Effect::Delay(Duration::from_millis(50)))
}

async fn end_all(world: &World, names: &[String]) {
    for name in names {
        world.ends(name, "main", 0).await;
    }
}

fn all_ended(world: &World, names: &[String]) -> bool {
    names
        .iter()
        .all(|name| world.phase(name) == "Succeeded" && world.image_changes(name) == 1)
}

#[tokio::test(start_paused = true)]
async fn as_many_writes_are_under_way_as_may_be() {
    let (world, life, names) = far_away(200).await;
    delay(&world);
    world.start_kubelet(Kubelet::default());
    end_all(&world, &names).await;
    world.wait(30).await;
    assert!(all_ended(&world, &names));
    // The last place is left to other namespaces.
    assert_eq!(life.line.most_under_way(), 31);
    world.assert_quiet().await;
}

#[tokio::test(start_paused = true)]
async fn an_api_server_that_refuses_gets_half_as_many_for_a_while_and_no_pod_is_lost() {
    let (world, life, names) = far_away(100).await;
    let busy = world.patch_fault(Effect::reply(429).retry_after(1));
    end_all(&world, &names).await;
    world.wait(10).await;
    assert!(life.line.most_under_way() <= 32);
    life.line.forget_most_under_way();
    world.end_fault(busy);
    delay(&world);
    world.start_kubelet(Kubelet::default());
    world.wait(60).await;
    assert!(all_ended(&world, &names));
    assert_eq!(life.line.most_under_way(), 15);
    assert_eq!(
        life.sample("swaplet_writes_in_flight"),
        Some(0.0),
        "none is under way"
    );
    world.assert_quiet().await;
}
