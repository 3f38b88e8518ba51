//! No Job waits for ever or fails by us, and nothing is told that was not done: over time, and whatever the API server answers.

use swaplet::controller::selection::Selection;
use swaplet_testbed::apiserver::Verb;

use super::harness::World;
use super::objects::{main_container, pod, pod_of};

#[tokio::test(start_paused = true)]
async fn bug12_a_controller_that_ends_nothing_keeps_no_finished_and_no_unmarked_pods() {
    let world = World::new();
    for name in ["a", "b", "c"] {
        world.run_pod(&pod(name, "Never")).await;
        world.ends(name, "main", 0).await;
    }
    world.run_pod(&pod_of("unmarked", "Never", vec![main_container()])).await;
    world.ends("a", "side", 0).await;
    let life = world.start_controller_that_selects(Selection::nothing());
    world.wait(5).await;
    assert_eq!((world.phase("a").as_str(), life.pods_kept()), ("Succeeded", 2), "b and c may be restarted in");
    world.ends("b", "side", 0).await;
    world.remove("c").await;
    world.wait(5).await;
    assert_eq!(life.pods_kept(), 0);
    assert_eq!(world.count(Verb::Patch), 0);
    world.is_quiet().await;
}
