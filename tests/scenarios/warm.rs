//! Warming on mock nodes: the real loop, scheduler and kubelets, in virtual time.

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
use swaplet_core::warm::warming::shape::ShapeChoice;
use swaplet_core::warm::warming::{End, Limits};
use swaplet_testbed::apiserver::{Effect, Recorded, Rule, RuleId, Verb};
use swaplet_testbed::scheduler;
use swaplet_testbed::virtual_node::{ImageOptions, NodeOptions, Profile, VirtualNode};
use tokio::time::{sleep, timeout};

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
        shape: ShapeChoice::Auto,
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

#[tokio::test(start_paused = true)]
async fn never_more_nodes_pull_than_parallelism_says_and_all_become_warm() {
    let (nodes, count) = CROWD;
    let cluster = Cluster::with_kubelets(nodes, &ImageOptions::default()).await;
    let most = watch_nodes(&cluster);
    let told = cluster.warm(job(images(count), 5)).await;
    told.assert_warm();
    assert_eq!(told.ends().len(), nodes * count);
    assert_eq!(
        *most.lock().unwrap(),
        (5, 5),
        "all slots are used, and no more"
    );
    let writes = cluster.writes().len();
    assert_eq!(
        writes,
        nodes * (count + 1),
        "one write for each image, the first of them a creation, and one deletion per node"
    );
    let pulls = told
        .news
        .iter()
        .filter(|news| matches!(news, News::Ended(ended) if ended.pulled.is_some()))
        .count();
    assert_eq!(
        pulls,
        nodes * count,
        "the kubelet's own words about every pull"
    );
    cluster.assert_quiet().await;
}

#[tokio::test(start_paused = true)]
async fn w4_a_missing_image_fails_with_its_reason_and_keeps_nobody_waiting() {
    let cluster = Cluster::with_kubelets(2, &missing("registry.example/app1:*")).await;
    let told = cluster.warm(job(images(4), 2)).await;
    let failed = told.failed();
    assert_eq!(
        failed.keys().collect::<Vec<_>>(),
        ["n0 registry.example/app1:v1", "n1 registry.example/app1:v1"]
    );
    assert!(
        failed
            .values()
            .all(|why| why.contains("ErrImagePull") && why.contains("not found")),
        "{failed:?}"
    );
    let ended: Vec<_> = told
        .news
        .iter()
        .filter_map(|news| {
            if let News::Ended(ended) = news {
                Some(&*ended.image)
            } else {
                None
            }
        })
        .collect();
    assert_eq!(
        ended[6..],
        ["registry.example/app1:v1"; 2],
        "the others come first"
    );
    cluster.assert_quiet().await;
}

#[tokio::test(start_paused = true)]
async fn a_registry_that_recovers_is_no_failure() {
    let cluster = Cluster::with_kubelets(1, &missing("registry.example/app*:*")).await;
    let node = cluster.nodes["n0"].clone();
    tokio::spawn(async move {
        sleep(Duration::from_secs(15)).await;
        node.set_missing_images(Vec::new());
    });
    let told = cluster.warm(job(images(2), 1)).await;
    told.assert_warm();
    cluster.assert_quiet().await;
}

#[tokio::test(start_paused = true)]
async fn w7_virtual_nodes_are_skipped_and_nothing_is_written_for_them() {
    let mut cluster = Cluster::with_kubelets(1, &ImageOptions::default()).await;
    cluster.start(NodeOptions::new("vk", Profile::updates()));
    let fargate = BTreeMap::from([(
        "eks.amazonaws.com/compute-type".to_owned(),
        "fargate".to_owned(),
    )]);
    cluster.start(NodeOptions {
        labels: fargate,
        ..NodeOptions::new("fargate", Profile::kubelet())
    });
    sleep(Duration::from_secs(5)).await;
    let told = cluster.warm(job(images(2), 5)).await;
    told.assert_warm();
    assert_eq!(told.ends().len(), 2);
    let News::Nodes {
        warmable: 1,
        skipped,
    } = &told.news[0]
    else {
        panic!("{:?}", told.news[0])
    };
    assert_eq!(
        skipped.iter().map(|(node, _)| &**node).collect::<Vec<_>>(),
        ["fargate", "vk"]
    );
    let only_virtual = Job {
        names: BTreeSet::from(["vk".to_owned()]),
        ..job(images(2), 5)
    };
    let before = cluster.writes().len();
    let told = cluster.warm(only_virtual).await;
    assert!(told.ends().is_empty() && told.finished.unwrap().warming.skipped().len() == 1);
    assert_eq!(cluster.writes().len(), before);
    cluster.assert_quiet().await;
}

#[tokio::test(start_paused = true)]
async fn stopped_in_the_middle_it_leaves_no_pod_behind() {
    let slow = ImageOptions {
        pull: Duration::from_secs(60),
        ..ImageOptions::default()
    };
    let cluster = Cluster::with_kubelets(3, &slow).await;
    let told = cluster
        .warm_until(job(images(3), 3), sleep(Duration::from_secs(20)))
        .await;
    assert!(told.finished.as_ref().unwrap().interrupted);
    assert!(
        told.ends().values().all(|end| end == "open"),
        "nothing is claimed: {:?}",
        told.ends()
    );
    cluster.assert_quiet().await;
}

#[tokio::test(start_paused = true)]
async fn stopped_while_a_creation_is_under_way_it_leaves_no_pod_behind() {
    let cluster = Cluster::with_kubelets(1, &ImageOptions::default()).await;
    cluster.fault(Effect::Delay(Duration::from_secs(4)), |rule| {
        rule.verb(Verb::Create).resource("pods")
    });
    cluster.fault(Effect::reply(500), |rule| rule.verb(Verb::Delete).times(2));
    let told = cluster
        .warm_until(job(images(1), 1), sleep(Duration::from_secs(2)))
        .await;
    assert!(told.finished.unwrap().interrupted);
    cluster.assert_quiet().await;
}

#[tokio::test(start_paused = true)]
async fn w3_a_pull_that_does_not_end_is_given_up_and_the_node_goes_on() {
    let slow = vec![(
        "registry.example/app0:*".parse().unwrap(),
        Duration::from_secs(100_000),
    )];
    let cluster = Cluster::with_kubelets(
        1,
        &ImageOptions {
            slow,
            ..ImageOptions::default()
        },
    )
    .await;
    let told = cluster.warm(job(images(2), 1)).await;
    assert_eq!(
        told.failed(),
        BTreeMap::from([(
            "n0 registry.example/app0:v1".to_owned(),
            "not pulled within 120 s".to_owned()
        )])
    );
    cluster.assert_quiet().await;
}

#[tokio::test(start_paused = true)]
async fn w12_a_pod_that_somebody_deletes_is_made_again() {
    let slow = ImageOptions {
        pull: Duration::from_secs(10),
        ..ImageOptions::default()
    };
    let cluster = Cluster::with_kubelets(1, &slow).await;
    let disturbance = async {
        sleep(Duration::from_secs(15)).await;
        let pods = cluster.pods();
        cluster.delete_pod(&pods[0]).await;
    };
    let (told, ()) = futures::join!(cluster.warm(job(images(3), 1)), disturbance);
    told.assert_warm();
    let creations = cluster
        .writes()
        .iter()
        .filter(|write| write.verb == Verb::Create)
        .count();
    assert_eq!(creations, 2);
    cluster.assert_quiet().await;
}

#[tokio::test(start_paused = true)]
async fn w11_a_node_that_goes_away_ends_and_the_others_go_on() {
    let slow = ImageOptions {
        pull: Duration::from_secs(30),
        ..ImageOptions::default()
    };
    let cluster = Cluster::with_kubelets(2, &slow).await;
    let disturbance = async {
        sleep(Duration::from_secs(10)).await;
        cluster
            .world
            .request(Method::DELETE, "/api/v1/nodes/n0", JSON, &json!({}))
            .await;
    };
    let (told, ()) = futures::join!(cluster.warm(job(images(2), 2)), disturbance);
    let failed = told.failed();
    assert!(
        failed.len() == 2
            && failed
                .iter()
                .all(|(what, why)| what.starts_with("n0 ") && why.starts_with("the node is gone")),
        "{failed:?}"
    );
    cluster.assert_quiet().await;
}

/// Every write once: lost on the way, lost on the way back, refused for a moment.
#[tokio::test(start_paused = true)]
async fn w22_no_answer_makes_a_second_pod_or_a_false_success() {
    let effects = [
        Effect::Drop,
        Effect::ApplyThenDrop,
        Effect::ApplyThenReply(Effect::reply(504)),
        Effect::Hang,
        Effect::from(Effect::reply(429).retry_after(3)),
        Effect::from(Effect::reply(500)),
    ];
    for effect in effects {
        let cluster = Cluster::with_kubelets(2, &missing("registry.example/app1:*")).await;
        let most = watch_nodes(&cluster);
        for verb in [Verb::Create, Verb::Patch, Verb::Delete] {
            cluster.fault(effect.clone(), |rule| {
                rule.verb(verb).resource("pods").times(2)
            });
        }
        let told = cluster.warm(job(images(3), 1)).await;
        assert_eq!(told.failed().len(), 2, "{effect:?}: {:?}", told.failed());
        assert_eq!(*most.lock().unwrap(), (1, 1), "{effect:?}");
        cluster.assert_quiet().await;
    }
}

#[tokio::test(start_paused = true)]
async fn w22_watches_that_end_expire_or_start_anew_lose_nothing() {
    for effect in [
        Effect::CloseWatch(2),
        Effect::ExpireWatch(2),
        Effect::Garbage(1),
    ] {
        let cluster = Cluster::with_kubelets(2, &ImageOptions::default()).await;
        cluster.fault(effect.clone(), |rule| rule.verb(Verb::Watch).times(12));
        let told = cluster.warm(job(images(3), 2)).await;
        told.assert_warm();
        cluster.assert_quiet().await;
    }
}

#[tokio::test(start_paused = true)]
async fn without_the_right_to_see_events_only_times_and_sizes_are_missing() {
    let cluster = Cluster::with_kubelets(1, &ImageOptions::default()).await;
    cluster.fault(Effect::reply(403), |rule| rule.resource("events"));
    let told = cluster.warm(job(images(2), 1)).await;
    told.assert_warm();
    assert!(
        told.news
            .iter()
            .all(|news| !matches!(news, News::Ended(ended) if ended.pulled.is_some()))
    );
    cluster.assert_quiet().await;
}

#[tokio::test(start_paused = true)]
async fn without_the_right_to_see_pods_or_nodes_nothing_is_written() {
    for (resource, what) in [
        ("pods", "cannot watch pods"),
        ("nodes", "cannot watch nodes"),
    ] {
        let cluster = Cluster::with_kubelets(1, &ImageOptions::default()).await;
        cluster.fault(Effect::reply(403), |rule| rule.resource(resource));
        let told = timeout(Duration::from_secs(1), cluster.warm(job(images(2), 1)))
            .await
            .unwrap();
        assert!(told.finished.unwrap_err().to_string().starts_with(what));
        assert!(cluster.writes().is_empty() && cluster.pods().is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn nodes_that_are_not_there_are_an_error_that_names_them() {
    let cluster = Cluster::with_kubelets(1, &ImageOptions::default()).await;
    let named = Job {
        names: BTreeSet::from(["n0".to_owned(), "typo".to_owned()]),
        ..job(images(1), 1)
    };
    assert_eq!(
        cluster.warm(named).await.finished.unwrap_err().to_string(),
        "there is no node typo among those selected"
    );
    let selected = Job {
        selector: "pool=none".to_owned(),
        ..job(images(1), 1)
    };
    assert_eq!(
        cluster
            .warm(selected)
            .await
            .finished
            .unwrap_err()
            .to_string(),
        "no node matches the selector \"pool=none\""
    );
    assert!(cluster.writes().is_empty());
}
