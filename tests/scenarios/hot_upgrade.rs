//! Hot upgrades on a kubelet: the sidecar works all the time, whatever becomes of the controller,
//! of its writes and of the new image.

mod failures;
mod others;

use std::sync::Arc;

use http::Method;
use serde_json::{Value, json};
use swaplet_controller::run::Settings;
use swaplet_core::image::ImagePattern;
use swaplet_core::restart::hot_upgrade::sidecar_set::UpgradeImages;
use swaplet_core::terminate::openkruise::Coexist;
use swaplet_testbed::apiserver::{Recorded, Verb};
use swaplet_testbed::virtual_node::{ImageOptions, NodeOptions, Profile, VirtualNode};

use super::harness::{CONCURRENCY, Life, SWAPLET, World, path};
use super::objects::PARK;

const SETS: &str = "/apis/apps.kruise.io/v1alpha1/sidecarsets";
const MERGE: &str = "application/merge-patch+json";
pub const RECORD: &str = "swaplet.io/hot-upgrade";
const WORKING: &str = "kruise.io/sidecarset-working-hotupgrade-container";

/// A kubelet on which images of this pattern cannot be had, and a `SidecarSet`.
pub struct Upgrades {
    pub world: World,
    node: VirtualNode,
}

impl std::ops::Deref for Upgrades {
    type Target = World;

    fn deref(&self) -> &World {
        &self.world
    }
}

pub fn image(version: u32) -> String {
    format!("registry.example/mesh:{version}")
}

fn pod(name: &str) -> Value {
    let container =
        |name: &str, image: &str| json!({"name": name, "image": image, "args": ["run=forever"]});
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"namespace": "default", "name": name, "labels": {"app": "web"}},
        "spec": {"nodeName": "virtual", "restartPolicy": "Always", "terminationGracePeriodSeconds": 3,
            "containers": [container("app", "registry.example/app:1"), container("mesh-1", &image(1)), container("mesh-2", PARK)]}})
}

fn set(version: u32, update: Value) -> Value {
    let container = json!({"name": "mesh", "image": image(version),
        "upgradeStrategy": {"upgradeType": "HotUpgrade", "hotUpgradeEmptyImage": PARK}});
    json!({"apiVersion": "apps.kruise.io/v1alpha1", "kind": "SidecarSet", "metadata": {"name": "mesh"},
        "spec": {"selector": {"matchLabels": {"app": "web"}}, "containers": [container], "updateStrategy": update}})
}

impl Upgrades {
    pub async fn with_pods(pods: usize) -> Self {
        let world = World::new();
        let images = ImageOptions {
            missing: vec![ImagePattern::parse("registry.example/mesh:404").unwrap()],
            ..ImageOptions::default()
        };
        let options = NodeOptions {
            images,
            ..NodeOptions::new("virtual", Profile::kubelet())
        };
        let clock = world.server.clock();
        let node = VirtualNode::new(world.server.client_as("node"), clock, options);
        tokio::spawn(node.clone().run());
        world.wait(1).await;
        for nth in 0..pods {
            world.create(&pod(&format!("p{nth}"))).await;
        }
        world.wait(5).await;
        let upgrades = Self { world, node };
        let set = set(1, json!({}));
        upgrades
            .request(Method::POST, SETS, "application/json", &set)
            .await;
        upgrades
    }

    fn start(&self) -> Life {
        self.start_beside(Coexist::Own)
    }

    fn start_beside(&self, coexist: Coexist) -> Life {
        self.start_with(|settings| settings.rules.coexist = coexist)
    }

    fn start_with(&self, adapt: impl FnOnce(&mut Settings)) -> Life {
        self.world.start(SWAPLET, CONCURRENCY, |settings| {
            settings.rules.coexist = Coexist::Own;
            settings.hot_upgrade = Some(UpgradeImages {
                listed: vec![ImagePattern::parse("registry.example/mesh:*").unwrap()],
                park: Some(PARK.parse().unwrap()),
                empty: Vec::new(),
            });
            adapt(settings);
        })
    }

    /// Starts an installation with this state namespace, for the pods of one namespace.
    fn start_in(&self, state_namespace: &str, namespace: &str) -> Life {
        self.start_with(|settings| {
            settings.state_namespace = Some(state_namespace.to_owned());
            settings.namespaces = [namespace].into_iter().collect();
        })
    }

    async fn edit_set(&self, patch: Value) {
        self.request(Method::PATCH, &format!("{SETS}/mesh"), MERGE, &patch)
            .await;
    }

    pub async fn upgrade_to(&self, version: u32) {
        let Value::Object(mut spec) = set(version, Value::Null)["spec"].take() else {
            unreachable!()
        };
        spec.retain(|field, _| field == "containers");
        self.edit_set(json!({"spec": spec})).await;
    }

    fn status(&self) -> Value {
        self.server
            .peek("sidecarsets.apps.kruise.io", "", "mesh")
            .unwrap()["status"]
            .clone()
    }

    /// `matched updated ready updatedReady`.
    fn counts(&self) -> [i64; 4] {
        let status = self.status();
        [
            "matchedPods",
            "updatedPods",
            "readyPods",
            "updatedReadyPods",
        ]
        .map(|count| status[count].as_i64().unwrap_or(-1))
    }

    pub fn images(&self, pod: &str) -> [String; 2] {
        ["mesh-1", "mesh-2"].map(|container| self.image_of(pod, container))
    }

    /// The version that works and the one beside it; fails where that is not an empty container.
    fn works(&self, pod: &str) -> String {
        let images = self.images(pod);
        let works: Vec<_> = images.iter().filter(|image| *image != PARK).collect();
        assert_eq!(works.len(), 1, "{images:?}");
        works[0].clone()
    }

    /// How many of the four pods work with this image.
    pub fn works_with(&self, image: &str) -> usize {
        let pods = ["p0", "p1", "p2", "p3"].iter();
        let works = |pod: &&&str| self.images(pod).iter().any(|one| one == image);
        pods.filter(works).count()
    }

    pub fn annotation(&self, pod: &str, key: &str) -> String {
        let pod: Arc<Value> = self.get(pod);
        let annotation = pod["metadata"]["annotations"][key].as_str();
        annotation.unwrap_or_default().to_owned()
    }

    /// Whether a container of the pair runs with an image of the mesh, as the node shows it.
    pub fn serves(&self, pod: &str) -> bool {
        let pod = self.get(pod);
        let statuses = pod["status"]["containerStatuses"].as_array().cloned();
        statuses.unwrap_or_default().iter().any(|status| {
            status["name"] != "app"
                && status["ready"] == true
                && status["image"]
                    .as_str()
                    .is_some_and(|image| image.contains("/mesh:"))
        })
    }

    /// Looks every second whether all of these pods serve.
    pub async fn serve_for(&self, seconds: u64, pods: &[&str]) {
        for _ in 0..seconds {
            self.wait(1).await;
            for pod in pods {
                assert!(self.serves(pod), "{:#}", self.get(pod)["status"]);
            }
        }
    }

    fn writes(&self) -> Vec<Recorded> {
        let mut requests = self.requests();
        requests.retain(|request| request.verb == Verb::Patch && request.resource == "pods");
        requests
    }

    /// The user gives the second container another image.
    async fn set_second(&self, pod: &str, image: &str) {
        let body = json!({"spec": {"containers": [{"name": "mesh-2", "image": image}]}});
        let kind = "application/strategic-merge-patch+json";
        self.request(Method::PATCH, &path(pod), kind, &body).await;
    }

    /// Ten minutes in which nothing is written.
    async fn assert_no_writes(&self) {
        let count = || {
            let is_write = |request: &&Recorded| {
                matches!(
                    request.verb,
                    Verb::Patch | Verb::Create | Verb::Update | Verb::Delete
                )
            };
            self.requests().iter().filter(is_write).count()
        };
        let before = count();
        self.wait(600).await;
        assert_eq!(count(), before);
    }
}

#[tokio::test(start_paused = true)]
async fn a_sidecar_is_upgraded_twenty_times_and_never_stops() {
    let world = Upgrades::with_pods(1).await;
    let _life = world.start();
    world.wait(5).await;
    assert_eq!(world.counts(), [1, 1, 1, 1]);
    assert_eq!(world.writes().len(), 0, "it has the image already");
    for version in 2..22 {
        world.upgrade_to(version).await;
        world.serve_for(20, &["p0"]).await;
        assert_eq!(world.works("p0"), image(version));
        // The empty image comes back to a name that its node has started: a kubelet may hold it
        // back, and forgets that after ten minutes.
        world.wait(660).await;
        assert_eq!(world.counts(), [1, 1, 1, 1]);
    }
    // The even ones are in the second container.
    assert_eq!(world.image_of("p0", "mesh-1"), image(21));
    assert_eq!(world.annotation("p0", WORKING), r#"{"mesh":"mesh-1"}"#);
    assert_eq!(world.annotation("p0", RECORD), "");
    // The new image, the empty one, and the record of it that goes.
    assert_eq!(world.writes().len(), 60);
    let events = world.events("p0");
    let ours = events.iter().filter(|reason| *reason == "HotUpgraded");
    assert_eq!(ours.count(), 20, "{events:?}");
    world.assert_no_writes().await;
}

#[tokio::test(start_paused = true)]
async fn one_pod_at_a_time_and_the_partition_stays() {
    let world = Upgrades::with_pods(4).await;
    let _life = world.start();
    world.wait(5).await;
    world
        .edit_set(json!({"spec": {"updateStrategy": {"partition": 2}}}))
        .await;
    world.upgrade_to(2).await;
    let pods = ["p0", "p1", "p2", "p3"];
    for _ in 0..60 {
        world.serve_for(1, &pods).await;
        let under_way = pods
            .iter()
            .filter(|pod| !world.annotation(pod, RECORD).is_empty());
        assert!(under_way.count() <= 1);
    }
    let new = || {
        pods.iter()
            .filter(|pod| world.works(pod) == image(2))
            .count()
    };
    assert_eq!((new(), world.counts()), (2, [4, 2, 4, 2]));
    world
        .edit_set(json!({"spec": {"updateStrategy": {"partition": 0, "maxUnavailable": "100%"}}}))
        .await;
    world.serve_for(15, &pods).await;
    assert_eq!((new(), world.counts()), (4, [4, 4, 4, 4]));
    world
        .edit_set(json!({"spec": {"updateStrategy": {"paused": true}}}))
        .await;
    world.upgrade_to(3).await;
    world.wait(30).await;
    assert_eq!((new(), world.counts()), (4, [4, 0, 4, 0]));
    world.assert_no_writes().await;
}
