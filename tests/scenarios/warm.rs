//! Warming on mock nodes: the real loop, scheduler and kubelets, in virtual time.

mod disturbances;
mod outcomes;
mod shapes;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::future::pending;
use http::Method;
use serde_json::{Value, json};
use swaplet_controller::warm::direct::{Finished, Job, News, WarmError, warm};
use swaplet_controller::warm::write::Warmers;
use swaplet_core::cluster::node_table::NodeTable;
use swaplet_core::warm::pull_job::object::PodWishes;
use swaplet_core::warm::warming::{End, Limits};
use swaplet_testbed::apiserver::{Effect, Recorded, Rule, RuleId, Verb};
use swaplet_testbed::scheduler;
use swaplet_testbed::virtual_node::{ImageOptions, NodeOptions, Profile, VirtualNode};
use tokio::time::sleep;

use super::harness::World;

pub const PARK: &str = "registry.example/swaplet/park:v1";
pub const NAMESPACE: &str = "warm";
pub const JSON: &str = "application/json";
/// The user agent of the one who warms.
const WARMER: &str = "warmer";

/// A cluster of mock nodes with a scheduler.
pub struct Cluster {
    pub world: World,
    pub nodes: BTreeMap<String, VirtualNode>,
}

/// What a run has told and what has become of it.
struct Told {
    finished: Result<Finished, WarmError>,
    news: Vec<News>,
}

impl Cluster {
    async fn new() -> Self {
        let world = World::new();
        world.create_namespace(NAMESPACE).await;
        tokio::spawn(scheduler::run(
            world.server.client_as("scheduler"),
            world.server.clock(),
        ));
        Self {
            world,
            nodes: BTreeMap::new(),
        }
    }

    pub async fn with_kubelets(count: usize, images: &ImageOptions) -> Self {
        let mut cluster = Self::new().await;
        for number in 0..count {
            cluster.start(NodeOptions {
                images: images.clone(),
                ..NodeOptions::new(&format!("n{number}"), Profile::kubelet())
            });
        }
        sleep(Duration::from_secs(5)).await;
        cluster
    }

    pub fn start(&mut self, options: NodeOptions) {
        let (name, clock) = (options.name.clone(), self.world.server.clock());
        let node = VirtualNode::new(self.world.server.client_as("node"), clock, options);
        tokio::spawn(node.clone().run());
        self.nodes.insert(name, node);
    }

    async fn warm(&self, job: Job) -> Told {
        self.warm_until(job, pending()).await
    }

    async fn warm_until(&self, job: Job, stop: impl Future<Output = ()>) -> Told {
        let mut news = Vec::new();
        let finished = warm(
            self.world.server.client_as(WARMER),
            job,
            |told| news.push(told),
            stop,
        )
        .await;
        Told { finished, news }
    }

    fn fault(&self, effect: impl Into<Effect>, narrow: impl Fn(Rule) -> Rule) -> RuleId {
        self.world
            .server
            .faults()
            .add(narrow(Rule::new(effect).user_agent(WARMER)))
    }

    pub fn pods(&self) -> Vec<Arc<Value>> {
        self.world.server.peek_all("pods")
    }

    /// Every write of the one who warms.
    fn writes(&self) -> Vec<Recorded> {
        let is_write = |verb| {
            matches!(
                verb,
                Verb::Create | Verb::Patch | Verb::Update | Verb::Delete
            )
        };
        self.world
            .server
            .recorded()
            .into_iter()
            .filter(|request| request.user_agent == WARMER && is_write(request.verb))
            .collect()
    }

    /// No pod is left, and nothing more is written.
    async fn assert_quiet(&self) {
        sleep(Duration::from_secs(60)).await;
        let writes = self.writes().len();
        sleep(Duration::from_secs(600)).await;
        assert_eq!((self.pods().len(), self.writes().len()), (0, writes));
        self.writes().iter().for_each(may_be_written);
    }

    async fn delete_pod(&self, pod: &Value) {
        let path = format!(
            "/api/v1/namespaces/{NAMESPACE}/pods/{}",
            pod["metadata"]["name"].as_str().unwrap()
        );
        self.world
            .request(Method::DELETE, &path, JSON, &json!({}))
            .await;
    }
}

/// Pods of our own in one namespace are made, swapped under guards, and deleted by uid; nothing
/// else is ever written.
fn may_be_written(request: &Recorded) {
    assert_eq!(
        (
            &*request.namespace,
            &*request.resource,
            &*request.subresource
        ),
        (NAMESPACE, "pods", ""),
        "{request:?}"
    );
    match request.verb {
        Verb::Create => assert!(
            request.body["metadata"]["labels"]["swaplet.io/warm"] == "run1",
            "{request:?}"
        ),
        Verb::Delete => assert!(
            request.body["preconditions"]["uid"].is_string(),
            "{request:?}"
        ),
        _ => {
            let operations: Vec<_> = request
                .body
                .as_array()
                .unwrap()
                .iter()
                .map(|one| (&one["op"], &one["path"]))
                .collect();
            let expected = [
                ("test", "/metadata/uid"),
                ("test", "/spec/containers/0/name"),
                ("test", "/spec/containers/0/image"),
                ("replace", "/spec/containers/0/image"),
                ("add", "/metadata/annotations/swaplet.io~1warm-image"),
                ("add", "/metadata/annotations/swaplet.io~1warm-before"),
            ];
            let as_text: Vec<_> = operations
                .iter()
                .map(|(op, path)| (op.as_str().unwrap(), path.as_str().unwrap()))
                .collect();
            assert_eq!(as_text, expected);
        }
    }
}

impl Told {
    /// What became of every image on every node, as `node image`: an empty text where it is warm.
    fn ends(&self) -> BTreeMap<String, String> {
        let mut ends = BTreeMap::new();
        for (node, images) in self.finished.as_ref().unwrap().warming.progress() {
            for progress in images {
                let end = match progress.end.as_ref() {
                    Some(End::Succeeded) => String::new(),
                    Some(End::Failed(why)) => why.to_string(),
                    None => "open".to_owned(),
                };
                ends.insert(format!("{node} {}", progress.image), end);
            }
        }
        ends
    }

    fn failed(&self) -> BTreeMap<String, String> {
        self.ends()
            .into_iter()
            .filter(|(_, end)| !end.is_empty())
            .collect()
    }

    fn assert_warm(&self) {
        assert!(
            self.failed().is_empty() && !self.ends().is_empty(),
            "{:#?}",
            self.failed()
        );
    }
}

fn images(count: usize) -> Vec<Box<str>> {
    (0..count)
        .map(|number| format!("registry.example/app{number}:v1").into())
        .collect()
}

fn job(images: Vec<Box<str>>, parallelism: usize) -> Job {
    let warmers = Warmers {
        namespace: NAMESPACE.into(),
        run: "run1".into(),
        park_image: PARK.into(),
        job: None,
        owner: None,
        wishes: PodWishes::default(),
        life_seconds: 86_400,
    };
    let limits = Limits {
        parallelism,
        timeout: Duration::from_secs(120),
        backoff_limit: 2,
        ask_again: None,
    };
    Job {
        images,
        selector: String::new(),
        names: BTreeSet::new(),
        limits,
        warmers,
        table: NodeTable::built_in(),
    }
}

pub fn missing(pattern: &str) -> ImageOptions {
    ImageOptions {
        missing: vec![pattern.parse().unwrap()],
        ..ImageOptions::default()
    }
}

/// Watches which nodes have a warmer pod; the most at a time, and of pods.
pub fn watch_nodes(cluster: &Cluster) -> Arc<Mutex<(usize, usize)>> {
    let most = Arc::new(Mutex::new((0, 0)));
    let (server, noted) = (cluster.world.server.clone(), most.clone());
    tokio::spawn(async move {
        loop {
            sleep(Duration::from_millis(100)).await;
            let pods = server.peek_all("pods");
            let nodes: BTreeSet<_> = pods
                .iter()
                .map(|pod| pod["metadata"]["annotations"]["swaplet.io/warm-node"].to_string())
                .collect();
            let mut most = noted.lock().unwrap();
            *most = (most.0.max(nodes.len()), most.1.max(pods.len()));
        }
    });
    most
}

/// The full size takes minutes without optimisation.
pub const CROWD: (usize, usize) = if cfg!(debug_assertions) {
    (12, 6)
} else {
    (200, 30)
};
