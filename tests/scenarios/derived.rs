//! Exit images that are derived while pods run: pushed once, waited for, told where they cannot be.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::json;
use swaplet_controller::terminate::derive::{Push, Pushed};
use swaplet_core::cluster::exit_images::derived::Trouble;
use tokio::time::sleep;

use super::harness::World;
use super::node::{Kubelet, status};
use super::objects::{DERIVED, EXIT, main_container, pod_of, sidecar_that_calls};

const OWN: &str = "/opt/own/server";

/// A registry: what was pushed to it, in order, and how it answers.
#[derive(Clone, Default)]
struct Registry {
    asked: Arc<Mutex<Vec<Vec<String>>>>,
}

impl Registry {
    /// Answers the nth push with this, after so many seconds.
    fn push(&self, answer: fn(usize) -> (u64, Option<Trouble>)) -> Push {
        let asked = Arc::clone(&self.asked);
        Push::by(move |paths| {
            let nth = asked.lock().unwrap().len();
            asked.lock().unwrap().push(paths.clone());
            let (seconds, trouble) = answer(nth);
            async move {
                sleep(Duration::from_secs(seconds)).await;
                trouble.map_or_else(|| Ok(reference(&paths)), Pushed::Err)
            }
        })
    }

    fn asked(&self) -> Vec<Vec<String>> {
        self.asked.lock().unwrap().clone()
    }
}

/// As good as the digest of an image with these paths.
fn reference(paths: &[String]) -> Box<str> {
    let bytes: String = paths
        .concat()
        .bytes()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    format!("{DERIVED}@sha256:{bytes:0<64.64}").into()
}

fn own() -> Vec<String> {
    vec![OWN.to_owned()]
}

fn forbidden() -> Trouble {
    Trouble {
        words: "pushing: 403".to_owned(),
        retry_after: None,
    }
}

async fn run_own(world: &World, name: &str, policy: &str, command: &str) {
    world
        .run_pod(&pod_of(
            name,
            policy,
            vec![main_container(), sidecar_that_calls("side", command)],
        ))
        .await;
}

async fn world_with(names: &[&str], policy: &str) -> World {
    let world = World::new();
    world.start_kubelet(Kubelet::default());
    for name in names {
        run_own(&world, name, policy, OWN).await;
    }
    world
}

#[tokio::test(start_paused = true)]
async fn an_image_is_pushed_once_while_the_mains_run_and_is_there_when_they_end() {
    for policy in ["Never", "OnFailure"] {
        let names = ["p", "q", "r"];
        let world = world_with(&names, policy).await;
        let registry = Registry::default();
        let _life = world.start_deriving_controller(registry.push(|_| (5, None)));
        world.wait(10).await;
        assert_eq!(registry.asked(), [own()]);
        for name in names {
            world.ends(name, "main", 0).await;
        }
        world.wait(5).await;
        for name in names {
            world.assert_ended_by_one_patch(name);
            assert_eq!(world.image(name), *reference(&own()));
        }
        assert_eq!(registry.asked().len(), 1);
        world.assert_quiet().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_is_done_before_the_push_waits_in_silence() {
    let world = world_with(&["p"], "Never").await;
    world.ends("p", "main", 0).await;
    let _life = world.start_deriving_controller(Registry::default().push(|_| (60, None)));
    world.wait(55).await;
    assert_eq!((world.patches("p"), world.events("p")), (0, vec![]));
    world.wait(10).await;
    world.assert_ended_by_one_patch("p");
    world.assert_quiet().await;
}

#[tokio::test(start_paused = true)]
async fn a_push_that_fails_is_told_once_and_tried_until_it_succeeds() {
    let world = world_with(&["p"], "OnFailure").await;
    let registry = Registry::default();
    let _life =
        world.start_deriving_controller(registry.push(|nth| (1, (nth < 3).then(forbidden))));
    world.ends("p", "main", 0).await;
    world.wait(60).await;
    assert_eq!(
        (world.patches("p"), world.events("p")),
        (0, vec!["NeedsImage".to_owned()])
    );
    assert_eq!(registry.asked().len(), 3, "after 10 and 20 s");
    world.wait(30).await;
    assert_eq!(registry.asked().len(), 4);
    assert_eq!(
        (world.phase("p").as_str(), world.patches("p")),
        ("Succeeded", 1)
    );
    assert_eq!(world.events("p"), ["NeedsImage", "SidecarEnded"]);
    world.assert_quiet().await;
}

/// Registries clean up, and whoever runs this one may have deleted it.
#[tokio::test(start_paused = true)]
async fn u194_an_image_that_its_registry_has_lost_is_pushed_again_for_the_next_pod() {
    let world = World::new();
    run_own(&world, "p", "OnFailure", OWN).await;
    let registry = Registry::default();
    let _life = world.start_deriving_controller(registry.push(|_| (1, None)));
    world.ends("p", "main", 0).await;
    world.wait(5).await;
    assert_eq!(world.image("p"), *reference(&own()));
    let words = format!("failed to pull \"{}\": not found", reference(&own()));
    world.waits("p", "side", "ErrImagePull", &words).await;
    for (name, seconds, pushes) in [("q", 5, 1), ("r", 700, 2), ("s", 60, 2)] {
        world.wait(seconds).await;
        run_own(&world, name, "OnFailure", OWN).await;
        world.wait(5).await;
        world.ends(name, "main", 0).await;
        world.wait(5).await;
        assert_eq!(registry.asked(), vec![own(); pushes], "{name}");
        assert_eq!(world.image(name), *reference(&own()), "{name}");
    }
}

/// A defect, or a registry that never answers, costs the image and nothing else.
#[tokio::test(start_paused = true)]
async fn a_push_that_breaks_off_does_not_end_the_controller() {
    let world = world_with(&["p"], "OnFailure").await;
    let _life = world.start_deriving_controller(Push::by(|_| async { panic!("a defect") }));
    world.ends("p", "main", 0).await;
    world.wait(5).await;
    assert!(
        world.notes("p")[0].1.contains("defect of swaplet"),
        "{:?}",
        world.notes("p")
    );
    run_own(&world, "q", "OnFailure", "/bin/sh").await;
    world.ends("q", "main", 0).await;
    world.wait(5).await;
    assert_eq!(world.phase("q"), "Succeeded");
    world.assert_quiet().await;
}

#[tokio::test(start_paused = true)]
async fn another_life_finds_what_was_written_and_writes_nothing() {
    let world = World::new();
    run_own(&world, "p", "Never", OWN).await;
    let life = world.start_deriving_controller(Registry::default().push(|_| (1, None)));
    world.ends("p", "main", 0).await;
    world.wait(5).await;
    assert_eq!(world.patches("p"), 1);
    life.kill();
    let registry = Registry::default();
    let _next = world.start_deriving_controller(registry.push(|_| (1, None)));
    world.wait(5).await;
    world.start_kubelet(Kubelet::default());
    world.wait(5).await;
    world.assert_ended_by_one_patch("p");
    assert!(registry.asked().is_empty());
    world.assert_quiet().await;
}

#[tokio::test(start_paused = true)]
async fn a_namespace_that_asks_for_ever_new_images_gets_twenty() {
    let world = World::new();
    world.start_kubelet(Kubelet::default());
    let names: Vec<_> = (0..25).map(|number| format!("p{number}")).collect();
    for name in &names {
        run_own(&world, name, "OnFailure", &format!("/opt/{name}")).await;
    }
    let registry = Registry::default();
    let _life = world.start_deriving_controller(registry.push(|_| (1, None)));
    for name in &names {
        world.ends(name, "main", 0).await;
    }
    world.wait(60).await;
    assert_eq!(registry.asked().len(), 20);
    let (ended, told): (Vec<_>, Vec<_>) = names
        .iter()
        .partition(|name| world.phase(name) == "Succeeded");
    assert_eq!((ended.len(), told.len()), (20, 5));
    assert!(
        told.iter().all(|name| world.patches(name) == 0
            && world.notes(name)[0].1.contains("too many exit images"))
    );
    world.assert_quiet().await;
}

/// As containerd shows it: the exit image was started and has no such program.
#[tokio::test(start_paused = true)]
async fn a_pod_that_is_stuck_on_the_wrong_exit_image_is_swapped_once() {
    let world = World::new();
    let mut side = sidecar_that_calls("side", OWN);
    side["image"] = EXIT.into();
    world
        .run_pod(&pod_of(
            "p",
            "OnFailure",
            vec![main_container(), side.clone()],
        ))
        .await;
    world.ends("p", "main", 0).await;
    let message = "exec: \"/opt/own/server\": stat /opt/own/server: no such file or directory";
    let main = world.get("p")["status"]["containerStatuses"][0].clone();
    let mut stuck = status(
        &side,
        json!({"waiting": {"reason": "RunContainerError", "message": message}}),
    );
    stuck["lastState"] = json!({"terminated": {"exitCode": 128, "reason": "StartError"}});
    stuck["restartCount"] = 4.into();
    world
        .set_status(
            "p",
            json!({"phase": "Running", "containerStatuses": [main, stuck]}),
        )
        .await;

    let life = world.start_deriving_controller(Registry::default().push(|_| (1, None)));
    world.wait(10).await;
    assert_eq!(
        (world.patches("p"), world.image("p")),
        (1, reference(&own()).to_string())
    );
    life.kill();
    let _next = world.start_deriving_controller(Registry::default().push(|_| (1, None)));
    world.wait(10).await;
    world.start_kubelet(Kubelet::default());
    world.wait(10).await;
    assert_eq!(
        (world.phase("p").as_str(), world.patches("p")),
        ("Succeeded", 1)
    );
    world.assert_quiet().await;
}
