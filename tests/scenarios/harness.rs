//! A world of one API server, with what tests do in it and ask of it.

mod hands;
mod sent;
mod start;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Event;
use kube::api::{DeleteParams, ListParams};
use kube::{Api, Client};
use prometheus_client::registry::Registry;
use serde_json::Value;
use swaplet_controller::frame::metrics::Metrics;
use swaplet_controller::frame::serve::Health;
use swaplet_testbed::apiserver::{Effect, Recorded, Rule, RuleId, Verb};
use swaplet_testbed::{ApiServer, Clock};
use tokio::task::JoinHandle;
use tokio::time::sleep;

pub use self::sent::may_be_sent;
pub use self::start::{rules, settings};
use super::line::Line;
use super::objects::pod;

/// How many writes of pods the controllers of the tests make at once.
pub const CONCURRENCY: usize = 4;
/// The user agent of every life starts with this.
pub const SWAPLET: &str = "swaplet";

/// An API server and the hands of everybody but the controller.
#[derive(Clone)]
pub struct World {
    pub server: ApiServer,
    client: Client,
}

/// One life of the controller.
pub struct Life {
    pub line: Line,
    pub health: Health,
    metrics: Metrics,
    registry: Arc<Registry>,
    task: JoinHandle<()>,
}

impl Life {
    /// Ends it as SIGKILL does.
    pub fn kill(&self) {
        self.line.cut();
        self.task.abort();
    }

    /// How many pods it keeps in memory.
    pub fn pods_kept(&self) -> i64 {
        self.metrics.pods()
    }

    /// The value of a sample of `/metrics`, by its name and labels as they stand there.
    pub fn sample(&self, sample: &str) -> Option<f64> {
        let text = self.exposition();
        let line = text
            .lines()
            .find_map(|line| line.strip_prefix(sample)?.strip_prefix(' '))?;
        Some(line.parse().unwrap())
    }

    /// What `/metrics` says now.
    pub fn exposition(&self) -> String {
        exposition(&self.registry)
    }

    /// How many jobs that pull images it says are not completed.
    pub fn pull_jobs(&self) -> i64 {
        self.metrics.pull_jobs.get()
    }
}

impl World {
    /// The API server lists in pages only, so that tests about lists are about pages; `streams.rs`
    /// has what streams do.
    pub fn new() -> Self {
        let world = Self::that_streams_lists();
        world.server.stream_no_lists();
        world
    }

    pub fn that_streams_lists() -> Self {
        let server = ApiServer::new(Clock::default());
        let client = server.client_as("test");
        Self { server, client }
    }

    /// A world with a running controller and a running pod `p`.
    pub async fn with_pod(restart_policy: &str) -> (Self, Life) {
        let world = Self::new();
        world.run_pod(&pod("p", restart_policy)).await;
        let life = world.start_controller();
        world.wait(1).await;
        (world, life)
    }

    pub async fn wait(&self, seconds: u64) {
        sleep(Duration::from_secs(seconds)).await;
    }

    /// A rule for requests of controllers only.
    pub fn fault(&self, effect: impl Into<Effect>, narrow: impl Fn(Rule) -> Rule) -> RuleId {
        self.server
            .faults()
            .add(narrow(Rule::new(effect).user_agent(SWAPLET)))
    }

    /// A rule for the controllers' writes of pods.
    pub fn patch_fault(&self, effect: impl Into<Effect>) -> RuleId {
        self.fault(effect, |rule| rule.verb(Verb::Patch).resource("pods"))
    }

    /// As [`patch_fault`](Self::patch_fault), for the next one only.
    pub fn next_patch_fault(&self, effect: impl Into<Effect>) -> RuleId {
        self.fault(effect, |rule| {
            rule.verb(Verb::Patch).resource("pods").times(1)
        })
    }

    /// A rule for the next watch of pods of a controller, or for the one that runs.
    pub fn next_watch_fault(&self, effect: impl Into<Effect>) -> RuleId {
        self.fault(effect, |rule| {
            rule.verb(Verb::Watch).resource("pods").times(1)
        })
    }

    pub fn end_fault(&self, rule: RuleId) {
        self.server.faults().remove(rule);
    }

    pub fn get(&self, name: &str) -> Arc<Value> {
        self.find("default", name)
            .unwrap_or_else(|| panic!("there is no pod {name}"))
    }

    pub fn find(&self, namespace: &str, name: &str) -> Option<Arc<Value>> {
        self.server.peek("pods", namespace, name)
    }

    pub fn phase(&self, name: &str) -> String {
        self.get(name)["status"]["phase"]
            .as_str()
            .unwrap_or_default()
            .to_owned()
    }

    /// The image of the container `side`.
    pub fn image(&self, name: &str) -> String {
        self.image_of(name, "side")
    }

    pub fn image_of(&self, name: &str, container: &str) -> String {
        let pod = self.get(name);
        let found = pod["spec"]["containers"]
            .as_array()
            .unwrap()
            .iter()
            .find(|c| c["name"] == container)
            .unwrap();
        found["image"].as_str().unwrap().to_owned()
    }

    /// How often the images of a pod were really changed, by whomever.
    pub fn image_changes(&self, name: &str) -> i64 {
        self.get(name)["metadata"]["generation"].as_i64().unwrap() - 1
    }

    /// Every request of a controller.
    pub fn requests(&self) -> Vec<Recorded> {
        self.server
            .recorded()
            .into_iter()
            .filter(|request| request.user_agent.starts_with(SWAPLET))
            .collect()
    }

    /// How many requests of controllers had this verb, but for those about nodes.
    pub fn count(&self, verb: Verb) -> usize {
        self.requests()
            .iter()
            .filter(|request| request.verb == verb && request.resource != "nodes")
            .count()
    }

    /// How often controllers listed pods; the question at which version the API server is aside.
    pub fn lists(&self) -> usize {
        let is_list =
            |request: &&Recorded| request.verb == Verb::List && request.resource == "pods";
        self.requests()
            .iter()
            .filter(is_list)
            .filter(|request| !asks_for_version(request))
            .count()
    }

    /// How many patches of a pod arrived from controllers, refused ones included.
    pub fn patches(&self, name: &str) -> usize {
        self.requests()
            .iter()
            .filter(|request| request.verb == Verb::Patch && request.name == name)
            .count()
    }

    /// The reasons of the Events about a pod, in the order in which they came.
    pub fn events(&self, name: &str) -> Vec<String> {
        self.notes(name)
            .into_iter()
            .map(|(reason, _)| reason)
            .collect()
    }

    /// Deletes all Events, as the API server does after an hour.
    pub async fn delete_events(&self) {
        let all: Api<Event> = Api::namespaced(self.client.clone(), "default");
        let (delete, list) = (DeleteParams::default(), ListParams::default());
        all.delete_collection(&delete, &list).await.unwrap();
    }

    /// The reasons and words of the Events about a pod.
    pub fn notes(&self, name: &str) -> Vec<(String, String)> {
        let events = self.server.peek_all("events");
        let about = events
            .iter()
            .filter(|event| event["involvedObject"]["name"] == name);
        let revision = |event: &Value| {
            event["metadata"]["resourceVersion"]
                .as_str()
                .unwrap()
                .parse::<u64>()
                .unwrap()
        };
        let text = |event: &Value, field: &str| event[field].as_str().unwrap().to_owned();
        let ordered: BTreeMap<_, _> = about
            .map(|event| {
                (
                    revision(event),
                    (text(event, "reason"), text(event, "message")),
                )
            })
            .collect();
        ordered.into_values().collect()
    }

    /// It has succeeded by one patch of a controller, refused ones included, and its end is all that
    /// was told of it.
    #[track_caller]
    pub fn assert_ended_by_one_patch(&self, name: &str) {
        assert_eq!(
            (self.phase(name).as_str(), self.patches(name)),
            ("Succeeded", 1),
            "{name}"
        );
        assert_eq!(self.events(name), ["SidecarEnded"], "{name}");
    }

    /// Ten minutes in which controllers only renew their watches, and ask where the server is after
    /// those that told nothing; and whatever they wrote until now was what they may write.
    pub async fn assert_quiet(&self) {
        let before = self.requests().len();
        self.wait(600).await;
        let requests = self.requests();
        let since: Vec<_> = requests[before..]
            .iter()
            .filter(|request| !is_of_watches(request))
            .collect();
        assert!(since.is_empty(), "not quiet: {since:#?}");
        requests.iter().for_each(may_be_sent);
    }
}

/// Whether it only asks at which version the API server is, after a watch that told nothing.
fn asks_for_version(request: &Recorded) -> bool {
    request.verb == Verb::List
        && request.limit == "1"
        && request.accept.contains("PartialObjectMetadata")
}

/// Whether it renews a watch, or asks where the server is after one that told nothing.
pub fn is_of_watches(request: &Recorded) -> bool {
    request.verb == Verb::Watch || asks_for_version(request)
}

/// What `/metrics` says of these metrics.
pub fn exposition(registry: &Registry) -> String {
    let mut text = String::new();
    prometheus_client::encoding::text::encode(&mut text, registry).unwrap();
    text
}

/// The path of a pod of the namespace `default`.
pub fn path(name: &str) -> String {
    format!("/api/v1/namespaces/default/pods/{name}")
}
