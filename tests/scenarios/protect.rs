//! Protected Namespaces and CRDs: what is in them is written on them, and that there is nothing
//! only while it is known.

mod many;

use std::sync::Arc;
use std::time::Duration;

use http::Method;
use serde_json::{Value, json};
use swaplet_controller::frame::serve::Health;
use swaplet_controller::run::run;
use swaplet_testbed::apiserver::{Effect, Recorded, Verb};
use tokio::sync::Notify;
use tokio::task::JoinHandle;

use super::harness::{CONCURRENCY, Life, SWAPLET, World, settings};
use super::line::{Line, Patches};

const MERGE: &str = "application/merge-patch+json";
const CRDS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const WIDGETS: &str = "/apis/example.com/v1/namespaces/default/widgets";
const SHOP: &str = "/api/v1/namespaces/shop";
const LABEL: &str = "policy.kruise.io/delete-protection";
const HOLDS: &str = "swaplet.io/holds";

impl World {
    async fn protect(&self, path: &str, mode: Value) {
        let patch = json!({"metadata": {"labels": {LABEL: mode}}});
        self.request(Method::PATCH, path, MERGE, &patch).await;
    }

    /// What is said of an object, without its uid, which is checked.
    fn holds(&self, resource: &str, name: &str) -> Option<String> {
        let object = self.server.peek(resource, "", name).unwrap();
        let said = object["metadata"]["annotations"][HOLDS].as_str()?;
        let (counts, uid) = said.split_once(",uid=").unwrap();
        assert_eq!(object["metadata"]["uid"], uid);
        Some(counts.to_owned())
    }

    pub async fn protect_the_shop(&self) {
        self.protect(SHOP, json!("Cascading")).await;
    }

    pub fn shop(&self) -> Option<String> {
        self.holds("namespaces", "shop")
    }

    pub async fn pod_of_the_shop(&self, name: &str) {
        let spec = json!({"containers": [{"name": "main", "image": "main:1"}]});
        let pod =
            json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec});
        let pods = format!("{SHOP}/pods");
        self.request(Method::POST, &pods, "application/json", &pod)
            .await;
    }

    async fn status_of_the_shop(&self, object: &str, phase: &str) {
        let (path, status) = (
            format!("{SHOP}/{object}/status"),
            json!({"status": {"phase": phase}}),
        );
        self.request(Method::PATCH, &path, MERGE, &status).await;
    }

    /// A protected namespace with one pod, and a controller that has counted it.
    async fn with_a_busy_shop() -> (Self, Life) {
        let world = Self::new();
        world.create_namespace("shop").await;
        world.pod_of_the_shop("web").await;
        world.protect(SHOP, json!("Cascading")).await;
        let life = world.start_protecting_controller();
        world.wait(2).await;
        assert_eq!(world.shop().as_deref(), Some("pods=1,pvcs=0"));
        (world, life)
    }

    async fn delete_at(&self, path: &str) {
        let now = json!({"gracePeriodSeconds": 0});
        self.request(Method::DELETE, path, "application/json", &now)
            .await;
    }

    fn writes_of_namespaces(&self) -> usize {
        let is_write =
            |request: &&Recorded| request.verb == Verb::Patch && request.resource == "namespaces";
        self.requests().iter().filter(is_write).count()
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_in_a_namespace_is_counted_as_it_comes_and_goes() {
    let (world, _life) = World::with_a_busy_shop().await;
    // One that has ended, or is being deleted, is nothing to keep a namespace for.
    world.status_of_the_shop("pods/web", "Succeeded").await;
    world.wait(3).await;
    assert_eq!(world.shop().as_deref(), Some("pods=0,pvcs=0"));
    world.pod_of_the_shop("late").await;
    world.wait(1).await;
    assert_eq!(world.shop().as_deref(), Some("pods=1,pvcs=0"), "at once");
    world.delete_at(&format!("{SHOP}/pods/late")).await;
    let claim = json!({"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"]}});
    let claims = format!("{SHOP}/persistentvolumeclaims");
    world
        .request(Method::POST, &claims, "application/json", &claim)
        .await;
    world.wait(3).await;
    assert_eq!(world.shop().as_deref(), Some("pods=0,pvcs=0"), "not bound");
    world
        .status_of_the_shop("persistentvolumeclaims/data", "Bound")
        .await;
    world.wait(1).await;
    assert_eq!(world.shop().as_deref(), Some("pods=0,pvcs=1"));
    world.delete_at(&format!("{claims}/data")).await;
    world.wait(3).await;
    assert_eq!(world.shop().as_deref(), Some("pods=0,pvcs=0"));
}

#[tokio::test(start_paused = true)]
async fn what_does_not_change_is_not_written_again_and_a_crowd_seldom() {
    let (world, _life) = World::with_a_busy_shop().await;
    let before = world.writes_of_namespaces();
    world.wait(600).await;
    assert_eq!(world.writes_of_namespaces(), before);
    for number in 0..100 {
        world.pod_of_the_shop(&format!("p{number}")).await;
        world.wait(1).await;
    }
    world.wait(60).await;
    assert_eq!(world.shop().as_deref(), Some("pods=101,pvcs=0"));
    let wrote = world.writes_of_namespaces() - before;
    assert!((1..=6).contains(&wrote), "{wrote} writes");
}

/// As a load balancer does with connections that are silent.
#[tokio::test(start_paused = true)]
async fn u211_where_silent_watches_are_cut_an_empty_namespace_is_not_written_again_and_again() {
    let world = World::new();
    world.create_namespace("shop").await;
    world.protect(SHOP, json!("Cascading")).await;
    world.fault(Effect::CutWatch(Duration::from_secs(35)), |rule| {
        rule.verb(Verb::Watch).namespace("shop")
    });
    let _life = world.start_protecting_controller();
    world.wait(120).await;
    let before = world.writes_of_namespaces();
    world.wait(600).await;
    let wrote = world.writes_of_namespaces() - before;
    assert!(wrote <= 10, "{wrote} writes");
    assert_eq!(world.shop().as_deref(), Some("pods=0,pvcs=0"));
    // What is held back is listed.
    world.pod_of_the_shop("late").await;
    world.wait(60).await;
    assert_eq!(world.shop().as_deref(), Some("pods=1,pvcs=0"));
}

/// Anybody may, with whatever does not let the object go: a manifest that was dumped has it.
#[tokio::test(start_paused = true)]
async fn what_somebody_else_wrote_is_counted_again() {
    let (world, _life) = World::with_a_busy_shop().await;
    let dumped = json!({"metadata": {"annotations": {HOLDS: "pods=9,pvcs=9,uid=before"}}});
    world.request(Method::PATCH, SHOP, MERGE, &dumped).await;
    world.wait(31).await;
    assert_eq!(world.shop().as_deref(), Some("pods=1,pvcs=0"));
    world.delete_at(&format!("{SHOP}/pods/web")).await;
    world.wait(3).await;
    assert_eq!(world.shop().as_deref(), Some("pods=0,pvcs=0"));
    world.request(Method::PATCH, SHOP, MERGE, &dumped).await;
    world.wait(3).await;
    assert_eq!(world.shop().as_deref(), Some("pods=0,pvcs=0"));
}

#[tokio::test(start_paused = true)]
async fn the_count_goes_with_the_label_and_comes_with_it() {
    let (world, _life) = World::with_a_busy_shop().await;
    world.protect(SHOP, json!("Always")).await;
    world.wait(2).await;
    assert_eq!(world.shop(), None);
    world.protect(SHOP, json!("Cascading")).await;
    world.wait(2).await;
    assert_eq!(world.shop().as_deref(), Some("pods=1,pvcs=0"));
    world.protect(SHOP, Value::Null).await;
    world.wait(2).await;
    assert_eq!(world.shop(), None);
    world.protect(SHOP, json!("Cascading")).await;
    world.wait(2).await;
    assert_eq!(world.shop().as_deref(), Some("pods=1,pvcs=0"));
}

/// What a life that was killed has said is counted anew, and until then it is nothing to go by.
#[tokio::test(start_paused = true)]
async fn what_an_earlier_life_has_said_is_taken_back_until_it_is_counted_again() {
    let (world, life) = World::with_a_busy_shop().await;
    world.status_of_the_shop("pods/web", "Succeeded").await;
    world.wait(3).await;
    assert_eq!(world.shop().as_deref(), Some("pods=0,pvcs=0"));
    life.kill();
    world.pod_of_the_shop("late").await;
    world.wait(60).await;
    assert_eq!(
        world.shop().as_deref(),
        Some("pods=0,pvcs=0"),
        "nobody is there"
    );
    let rule = world.fault(Effect::reply(403), |rule| {
        rule.verb(Verb::List).resource("pods").namespace("shop")
    });
    let _life = world.start_protecting_controller();
    world.wait(5).await;
    assert_eq!(world.shop(), None, "what cannot be counted is not free");
    world.end_fault(rule);
    world.wait(60).await;
    assert_eq!(world.shop().as_deref(), Some("pods=1,pvcs=0"));
}

#[tokio::test(start_paused = true)]
async fn while_pods_are_not_told_nothing_is_said_of_them() {
    let (world, _life) = World::with_a_busy_shop().await;
    world.status_of_the_shop("pods/web", "Succeeded").await;
    world.wait(3).await;
    assert_eq!(world.shop().as_deref(), Some("pods=0,pvcs=0"));
    let rule = world.fault(Effect::reply(500), |rule| {
        rule.verb(Verb::Watch).resource("pods").namespace("shop")
    });
    world.wait(120).await;
    assert_eq!(world.shop(), None);
    world.end_fault(rule);
    world.wait(60).await;
    assert_eq!(world.shop().as_deref(), Some("pods=0,pvcs=0"));
}

/// Changes may have been missed, and the list that would show them does not come.
#[tokio::test(start_paused = true)]
async fn while_pods_are_listed_again_nothing_is_said_of_them() {
    let (world, _life) = World::with_a_busy_shop().await;
    world.status_of_the_shop("pods/web", "Succeeded").await;
    world.wait(6).await;
    assert_eq!(world.shop().as_deref(), Some("pods=0,pvcs=0"));
    let hangs = world.fault(Effect::Hang, |rule| {
        rule.verb(Verb::List).resource("pods").namespace("shop")
    });
    world.fault(Effect::ExpireWatch(0), |rule| {
        rule.verb(Verb::Watch)
            .resource("pods")
            .namespace("shop")
            .times(1)
    });
    world.wait(5).await;
    assert_eq!(world.shop(), None);
    world.end_fault(hangs);
    world.wait(120).await;
    assert_eq!(world.shop().as_deref(), Some("pods=0,pvcs=0"));
}

/// A write that fails is made again.
#[tokio::test(start_paused = true)]
async fn a_count_that_could_not_be_written_is_written_later() {
    let (world, _life) = World::with_a_busy_shop().await;
    world.status_of_the_shop("pods/web", "Succeeded").await;
    world.wait(3).await;
    let rule = world.fault(Effect::reply(503), |rule| {
        rule.verb(Verb::Patch).resource("namespaces")
    });
    world.pod_of_the_shop("late").await;
    world.wait(20).await;
    assert_eq!(world.shop().as_deref(), Some("pods=0,pvcs=0"));
    world.end_fault(rule);
    // The wait doubles with each failure, up to a minute.
    world.wait(16).await;
    assert_eq!(world.shop().as_deref(), Some("pods=1,pvcs=0"));
}

/// A life that ends as SIGTERM ends it.
fn stoppable(world: &World) -> (Arc<Notify>, JoinHandle<()>) {
    let stop = Arc::new(Notify::new());
    let asked = Arc::clone(&stop);
    let client = kube::Client::new(Line::new(world.server.clone(), SWAPLET), "default");
    let mut settings = settings(SWAPLET, CONCURRENCY);
    settings.protect = true;
    let metrics = swaplet_controller::frame::metrics::Metrics::register(
        &mut prometheus_client::registry::Registry::default(),
    );
    let task = tokio::spawn(async move {
        let shutdown = async move { asked.notified().await };
        run(client, settings, metrics, Health::default(), shutdown)
            .await
            .unwrap();
    });
    (stop, task)
}

#[tokio::test(start_paused = true)]
async fn who_stops_counting_takes_back_that_there_is_nothing() {
    let world = World::new();
    for name in ["shop", "busy"] {
        world.create_namespace(name).await;
        world
            .protect(&format!("/api/v1/namespaces/{name}"), json!("Cascading"))
            .await;
    }
    let pod = json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "main", "image": "main:1"}]}});
    let pods = "/api/v1/namespaces/busy/pods";
    world
        .request(Method::POST, pods, "application/json", &pod)
        .await;
    let (stop, task) = stoppable(&world);
    world.wait(3).await;
    assert_eq!(world.shop().as_deref(), Some("pods=0,pvcs=0"));
    stop.notify_one();
    task.await.unwrap();
    assert_eq!(world.shop(), None);
    assert_eq!(
        world.holds("namespaces", "busy").as_deref(),
        Some("pods=1,pvcs=0"),
        "which lets nothing go"
    );
}

async fn widgets(world: &World) {
    let version = json!({"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object"}}});
    let crd = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com", "labels": {LABEL: "Cascading"}},
        "spec": {"group": "example.com", "scope": "Namespaced", "names": {"kind": "Widget", "plural": "widgets"}, "versions": [version]}});
    world
        .request(Method::POST, CRDS, "application/json", &crd)
        .await;
}

#[tokio::test(start_paused = true)]
async fn the_objects_of_a_crd_are_counted() {
    let world = World::new();
    let _life = world.start_protecting_controller();
    widgets(&world).await;
    world.wait(20).await;
    let said = || {
        world.holds(
            "customresourcedefinitions.apiextensions.k8s.io",
            "widgets.example.com",
        )
    };
    assert_eq!(said().as_deref(), Some("objects=0"));
    let widget =
        json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}});
    world
        .request(Method::POST, WIDGETS, "application/json", &widget)
        .await;
    world.wait(1).await;
    assert_eq!(said().as_deref(), Some("objects=1"));
    world.delete_at(&format!("{WIDGETS}/w")).await;
    world.wait(3).await;
    assert_eq!(said().as_deref(), Some("objects=0"));
}

/// Without the flag nobody asks for Namespaces, CRDs or claims; with it, for nothing in what is not
/// protected.
#[tokio::test(start_paused = true)]
async fn only_what_is_protected_is_watched() {
    let asked = |world: &World, resource: &str| {
        let requests = world.requests();
        let of = requests
            .iter()
            .filter(|request| request.resource == resource);
        of.count()
    };
    let world = World::new();
    world.create_namespace("shop").await;
    world.protect(SHOP, json!("Cascading")).await;
    let life = world.start_controller();
    world.wait(120).await;
    for resource in [
        "namespaces",
        "customresourcedefinitions",
        "persistentvolumeclaims",
    ] {
        assert_eq!(asked(&world, resource), 0, "{resource}");
    }
    life.kill();
    world.protect(SHOP, json!("Always")).await;
    let _life = world.start_protecting_controller();
    world.wait(120).await;
    assert!(asked(&world, "namespaces") > 0);
    assert_eq!(asked(&world, "persistentvolumeclaims"), 0);
}

/// Whichever write is the last of a life, and whether it arrived: the next one says what is so.
#[tokio::test(start_paused = true)]
async fn killed_at_each_write_the_next_life_says_what_is_so() {
    let modes: [fn(usize) -> Patches; 2] =
        [Patches::PassBeforeOneArrives, Patches::PassBeforeAllStay];
    for (mode, passing) in modes
        .into_iter()
        .flat_map(|mode| [0, 1, 2].map(|n| (mode, n)))
    {
        let world = World::new();
        world.create_namespace("shop").await;
        world.pod_of_the_shop("web").await;
        world.protect(SHOP, json!("Cascading")).await;
        let life = world.start_protecting_controller();
        life.line.patches(mode(passing));
        world.wait(3).await;
        world.status_of_the_shop("pods/web", "Succeeded").await;
        world.wait(3).await;
        world.pod_of_the_shop("late").await;
        world.wait(3).await;
        life.kill();
        let _next = world.start_protecting_controller();
        world.wait(5).await;
        assert_eq!(world.shop().as_deref(), Some("pods=1,pvcs=0"), "{passing}");
        world.status_of_the_shop("pods/late", "Succeeded").await;
        world.wait(3).await;
        assert_eq!(world.shop().as_deref(), Some("pods=0,pvcs=0"), "{passing}");
    }
}

/// That there was nothing arrives long after the death of the life that said it, when it is so no
/// more: it finds another version, or is taken back.
#[tokio::test(start_paused = true)]
async fn a_write_that_arrives_late_does_not_stand() {
    for pods_more in [1, 2] {
        let (world, life) = World::with_a_busy_shop().await;
        let late = Duration::from_secs(60);
        life.line.patches(Patches::PassBeforeOneIsLate(1, late));
        world.status_of_the_shop("pods/web", "Succeeded").await;
        world.wait(3).await;
        life.kill();
        for number in 0..pods_more {
            world.pod_of_the_shop(&format!("p{number}")).await;
        }
        let _next = world.start_protecting_controller();
        world.wait(90).await;
        let expected = format!("pods={pods_more},pvcs=0");
        assert_eq!(world.shop(), Some(expected));
    }
}
