//! Pods under `Never` while the registry of the exit image is asked whether nodes can pull it
//! without credentials.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::json;
use swaplet_controller::terminate::public::AskPublic;
use swaplet_core::cluster::exit_images::ExitImages;
use swaplet_core::objects::values::env::WITH_IMAGE;
use swaplet_core::terminate::methods::AllowedMethods;
use tokio::time::sleep;

use super::harness::{CONCURRENCY, Life, World};
use super::node::Kubelet;
use super::objects::{EXIT, LISTED, pod};

/// An answer, after so many seconds.
type Answer = (u64, Result<bool, String>);

/// A registry that gives these answers in turn.
#[derive(Clone)]
struct Registry {
    answers: Arc<Mutex<Vec<Answer>>>,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Registry {
    fn answering(answers: &[(u64, Result<bool, &str>)]) -> Self {
        let answers = answers.iter().rev().cloned();
        let owned = answers.map(|(seconds, answer)| (seconds, answer.map_err(str::to_owned)));
        Self {
            answers: Arc::new(Mutex::new(owned.collect())),
            asked: Arc::default(),
        }
    }

    fn ask(&self) -> AskPublic {
        let this = self.clone();
        AskPublic::by(move |image| {
            this.asked.lock().unwrap().push(image.to_string());
            let answer = this.answers.lock().unwrap().pop();
            async move {
                let (seconds, answer) = answer.expect("it is asked too often");
                sleep(Duration::from_secs(seconds)).await;
                answer
            }
        })
    }
}

impl World {
    fn start_asking(&self, registry: &Registry, finish: bool) -> Life {
        self.start("swaplet", CONCURRENCY, |settings| {
            settings.rules.exit_images = ExitImages::new(Some(EXIT.parse().unwrap()), Vec::new());
            settings.rules.allowed = AllowedMethods {
                finish,
                ..AllowedMethods::default()
            };
            settings.ask_public = Some(registry.ask());
        })
    }
}

async fn one_that_is_done() -> World {
    let world = World::new();
    world.start_kubelet(Kubelet::default());
    world.run_pod(&pod("p", "Never")).await;
    world.ends("p", "main", 0).await;
    world
}

#[tokio::test(start_paused = true)]
async fn l3_a_public_exit_image_ends_a_pod_under_never_by_a_swap() {
    let world = one_that_is_done().await;
    let registry = Registry::answering(&[(1, Ok(true))]);
    let _life = world.start_asking(&registry, true);
    world.wait(60).await;
    world.assert_ended_by_one_patch("p");
    assert_eq!(*registry.asked.lock().unwrap(), [EXIT]);
    world.assert_quiet().await;
}

/// An image of the list that pods may ask for is another repository, with an answer of its own.
#[tokio::test(start_paused = true)]
async fn l3_each_image_that_the_administrator_names_is_asked_about() {
    let world = World::new();
    world.start_kubelet(Kubelet::default());
    let mut asks = pod("p", "Never");
    asks["spec"]["containers"][1]["env"]
        .as_array_mut()
        .unwrap()
        .push(json!({"name": WITH_IMAGE, "value": LISTED}));
    world.run_pod(&asks).await;
    world.ends("p", "main", 0).await;
    let registry = Registry::answering(&[(1, Ok(true)), (1, Ok(true))]);
    let _life = world.start("swaplet", CONCURRENCY, |settings| {
        let listed = ["registry.example/open/*", LISTED].map(|image| image.parse().unwrap());
        settings.rules.exit_images = ExitImages::new(Some(EXIT.parse().unwrap()), listed.into());
        settings.ask_public = Some(registry.ask());
    });
    world.wait(60).await;
    assert_eq!(world.get("p")["spec"]["containers"][1]["image"], LISTED);
    assert_eq!(*registry.asked.lock().unwrap(), [EXIT, LISTED]);
    world.assert_quiet().await;
}

#[tokio::test(start_paused = true)]
async fn l3_a_private_exit_image_is_not_tried_on_a_pod_under_never() {
    let world = one_that_is_done().await;
    let registry = Registry::answering(&[(1, Ok(false))]);
    let _life = world.start_asking(&registry, true);
    world.wait(180).await;
    assert_eq!(world.get("p")["status"]["phase"], "Succeeded");
    assert_ne!(world.get("p")["spec"]["containers"][1]["image"], EXIT);
    world.assert_quiet().await;
}

/// It is no time to warn while the registry is still being asked.
#[tokio::test(start_paused = true)]
async fn l3_nothing_is_told_before_the_first_answer() {
    let world = one_that_is_done().await;
    let registry = Registry::answering(&[(2, Ok(true))]);
    let _life = world.start_asking(&registry, false);
    world.wait(60).await;
    world.assert_ended_by_one_patch("p");
    assert!(
        !world.events("p").contains(&"ExitImageNotPublic".to_owned()),
        "{:?}",
        world.events("p")
    );
}

#[tokio::test(start_paused = true)]
async fn l3_where_finish_is_off_one_warning_is_told_until_the_registry_answers() {
    let world = one_that_is_done().await;
    let unreachable = Err("no connection");
    let registry = Registry::answering(&[(0, unreachable), (0, unreachable), (0, Ok(true))]);
    let _life = world.start_asking(&registry, false);
    world.wait(20).await;
    assert_eq!(world.patches("p"), 0);
    assert_eq!(world.events("p"), ["ExitImageNotPublic"]);
    // 10 and 20 s after the first.
    world.wait(30).await;
    assert_eq!(world.patches("p"), 1, "{:?}", world.events("p"));
    assert_eq!(registry.asked.lock().unwrap().len(), 3);
}

#[tokio::test(start_paused = true)]
async fn l3_many_pods_are_one_question() {
    let world = World::new();
    world.start_kubelet(Kubelet::default());
    let registry = Registry::answering(&[(1, Ok(true))]);
    let _life = world.start_asking(&registry, true);
    for nth in 0..10 {
        let name = format!("p{nth}");
        world.run_pod(&pod(&name, "Never")).await;
        world.ends(&name, "main", 0).await;
    }
    world.wait(120).await;
    for nth in 0..10 {
        assert_eq!(world.patches(&format!("p{nth}")), 1);
    }
    assert_eq!(registry.asked.lock().unwrap().len(), 1);
}
