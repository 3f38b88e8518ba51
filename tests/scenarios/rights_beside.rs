//! As [`rights`](super::rights), of the features that run beside the loop of pods: each right on
//! its own is taken from a controller that has something to do for the feature, and a sidecar to
//! end.

mod on_config;
mod predownload;

use serde_json::{Value, json};
use swaplet_testbed::apiserver::Verb;
use swaplet_testbed::virtual_node::ImageOptions;

use super::harness::{Life, World};
use super::log::{keep_log, logged};
use super::objects::{pod_of, sidecar};
use super::pull_jobs::{Jobs, LIST, ONE, image};
use super::rights::{ALL, MOST_IN_FIVE_MINUTES, Missing};

/// A controller with this feature, and what it has to do.
trait Feature {
    /// A node with a kubelet.
    const NODE: &str;
    async fn new() -> Self;
    fn world(&self) -> &World;
    async fn start(&self) -> Life;
    /// Whether all of it is done.
    fn is_done(&self) -> bool;
}

/// What a right costs.
struct Costs {
    missing: Missing,
    /// Whether everything is done without it.
    done: bool,
    /// Whether what was not done is done when the right is given.
    caught_up: bool,
}

/// Without the right everything is done all the same, in the end.
const fn nothing(missing: Missing) -> Costs {
    Costs {
        missing,
        done: true,
        caught_up: true,
    }
}

/// Nothing is done without it, and everything with it.
const fn all(missing: Missing) -> Costs {
    Costs {
        missing,
        done: false,
        caught_up: true,
    }
}

/// What was to be done without it is never done.
const fn what_was_asked(missing: Missing) -> Costs {
    Costs {
        missing,
        done: false,
        caught_up: false,
    }
}

const fn to(verb: Verb, resource: &'static str) -> Missing {
    Missing::new(verb, resource, ALL)
}

/// A pod whose main ends by itself, and its sidecar does not.
fn pod_to_end(node: &str) -> Value {
    let main = json!({"name": "main", "image": "main:1", "args": ["run=1s"]});
    let mut side = sidecar("side");
    side["args"] = json!(["run=forever"]);
    let mut pod = pod_of("ended", "OnFailure", vec![main, side]);
    pod["spec"]["nodeName"] = node.into();
    pod
}

async fn costs<F: Feature>(right: Costs) {
    let words = right.missing.words();
    keep_log();
    let feature = F::new().await;
    let world = feature.world();
    world.create(&pod_to_end(F::NODE)).await;
    let fault = right.missing.begins(world);
    let life = feature.start().await;
    world.wait(600).await;
    assert_eq!(feature.is_done(), right.done, "without: {words}");
    assert_eq!(
        world.phase("ended"),
        "Succeeded",
        "{words}: sidecars are ended"
    );
    let said = logged(&words);
    assert_eq!(said.len(), right.missing.times, "{words}: {said:#?}");
    right.missing.readiness_says(&life, &words);
    let before = right.missing.asked(world);
    world.wait(300).await;
    let asked = right.missing.asked(world) - before;
    assert!(
        asked <= MOST_IN_FIVE_MINUTES * right.missing.times,
        "{words}: asked {asked} times in five minutes"
    );

    world.end_fault(fault);
    world.wait(16 * 60).await;
    assert_eq!(
        feature.is_done(),
        right.done || right.caught_up,
        "after: {words}"
    );
    assert!(
        right.missing.lingers || life.health.ready() == Ok("ok".to_owned()),
        "{words}: {:?}",
        life.health.ready()
    );
}

/// Two jobs on a node, which are deleted when they are done.
struct Pulling(Jobs);

impl Feature for Pulling {
    const NODE: &str = "n0";

    async fn new() -> Self {
        let jobs = Jobs::on(1, &ImageOptions::default()).await;
        let ttl = json!({"ttlSecondsAfterFinished": 60});
        jobs.create(
            ONE,
            "j",
            json!({"image": image(0), "completionPolicy": ttl}),
        )
        .await;
        jobs.create(
            LIST,
            "l",
            json!({"images": [image(1), image(2)], "completionPolicy": ttl}),
        )
        .await;
        Self(jobs)
    }

    fn world(&self) -> &World {
        &self.0.cluster.world
    }

    async fn start(&self) -> Life {
        self.0.controller()
    }

    fn is_done(&self) -> bool {
        self.0
            .pulls()
            .keys()
            .filter(|(_, image)| image.starts_with("registry.example/app"))
            .count()
            == 3
    }
}

#[tokio::test(start_paused = true)]
async fn to_see_jobs_that_pull_images() {
    costs::<Pulling>(all(to(Verb::List, "imagepulljobs"))).await;
    costs::<Pulling>(all(to(Verb::List, "imagelistpulljobs"))).await;
    costs::<Pulling>(nothing(to(Verb::Watch, "imagepulljobs"))).await;
    costs::<Pulling>(nothing(to(Verb::Watch, "imagelistpulljobs"))).await;
}

#[tokio::test(start_paused = true)]
async fn to_see_the_nodes_that_images_are_pulled_to() {
    // The classes of nodes are for all that is done.
    costs::<Pulling>(all(to(Verb::List, "nodes").told(2))).await;
    costs::<Pulling>(nothing(to(Verb::Watch, "nodes").told(2))).await;
}

#[tokio::test(start_paused = true)]
async fn to_tell_of_jobs_that_pull_images_and_to_delete_them() {
    costs::<Pulling>(all(to(Verb::Patch, "imagepulljobs").of("status"))).await;
    costs::<Pulling>(all(to(Verb::Patch, "imagelistpulljobs").of("status"))).await;
    costs::<Pulling>(nothing(to(Verb::Delete, "imagepulljobs"))).await;
    costs::<Pulling>(nothing(to(Verb::Delete, "imagelistpulljobs"))).await;
}

#[tokio::test(start_paused = true)]
async fn to_make_warmer_pods_and_to_see_how_long_pulls_took() {
    // The job tells of each image as well.
    costs::<Pulling>(what_was_asked(to(Verb::Create, "pods").told(4).lingers())).await;
    costs::<Pulling>(nothing(to(Verb::Delete, "pods"))).await;
    costs::<Pulling>(nothing(to(Verb::List, "events").lingers())).await;
    costs::<Pulling>(nothing(to(Verb::Watch, "events").lingers())).await;
}

/// A job over a node with a kubelet and two of a provider with image caches.
struct Caching(Jobs);

impl Feature for Caching {
    const NODE: &str = "n0";

    async fn new() -> Self {
        let jobs = Jobs::beside_eci(1).await;
        jobs.serve_image_caches().await;
        jobs.create(ONE, "j", json!({"image": image(0)})).await;
        Self(jobs)
    }

    fn world(&self) -> &World {
        &self.0.cluster.world
    }

    async fn start(&self) -> Life {
        self.0.caching_controller()
    }

    fn is_done(&self) -> bool {
        assert!(
            self.0
                .pulls()
                .contains_key(&(Self::NODE.to_owned(), image(0))),
            "the image is pulled where a kubelet is"
        );
        !self.0.caches().is_empty()
    }
}

#[tokio::test(start_paused = true)]
async fn to_have_image_caches_made() {
    costs::<Caching>(all(to(Verb::List, "imagecaches"))).await;
    costs::<Caching>(nothing(to(Verb::Watch, "imagecaches"))).await;
    costs::<Caching>(all(to(Verb::Create, "imagecaches"))).await;
}
