//! A world of one API server, with what tests do in it and ask of it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use http::{Request, header::CONTENT_TYPE};
use kube::Client;
use prometheus_client::registry::Registry;
use serde_json::{Value, json};
use swaplet::image::build::derived_paths;
use swaplet_controller::cluster::rules::Rules;
use swaplet_controller::cluster::verdict_store::AllKept;
use swaplet_controller::frame::connection::namespaces::Namespaces;
use swaplet_controller::frame::lease::Leadership;
use swaplet_controller::frame::metrics::Metrics;
use swaplet_controller::frame::serve::Health;
use swaplet_controller::restart::driver::RestartSettings;
use swaplet_controller::restart::on_config::RestartOnSettings;
use swaplet_controller::run::{Settings, TimeOfDay, run};
use swaplet_controller::terminate::derive::Push;
use swaplet_controller::terminate::selection::{Progress, Selection};
use swaplet_controller::warm::jobs::WarmSettings;
use swaplet_core::cluster::exit_images::ExitImages;
use swaplet_core::cluster::exit_images::derived::DerivedImages;
use swaplet_core::cluster::node_table::NodeTable;
use swaplet_core::report::decision::Method;
use swaplet_core::restart::reconcile::ParkImage;
use swaplet_core::terminate::methods::AllowedMethods;
use swaplet_core::terminate::openkruise::Coexist;
use swaplet_core::warm::warming::shape::ShapeChoice;
use swaplet_testbed::apiserver::{Effect, Recorded, Rule, RuleId, Verb};
use swaplet_testbed::{ApiServer, Clock};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::sleep;

use super::line::Line;
use super::objects::{DERIVED, EXIT, PARK, pod};

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

    pub fn start_controller(&self) -> Life {
        self.start_controller_as(SWAPLET, CONCURRENCY)
    }

    /// Starts a controller that writes the phase of pods rather than their images.
    pub fn start_finishing_controller(&self) -> Life {
        self.start_controller_with(
            SWAPLET,
            CONCURRENCY,
            AllowedMethods {
                prefer: Some(Method::Finish),
                finish: true,
                ..AllowedMethods::default()
            },
        )
    }

    /// Starts another controller; `user_agent` has to start with `swaplet`.
    pub fn start_controller_as(&self, user_agent: &'static str, concurrency: usize) -> Life {
        self.start(user_agent, concurrency, |_| {})
    }

    /// Starts one that keeps what it learns of nodes in this namespace.
    pub fn start_controller_keeping(&self, state_namespace: &str) -> Life {
        self.start(SWAPLET, CONCURRENCY, |settings| {
            settings.state_namespace = Some(state_namespace.to_owned())
        })
    }

    /// Starts a controller under other rules.
    pub fn start_controller_under(
        &self,
        rules: Rules,
        user_agent: &'static str,
        concurrency: usize,
    ) -> Life {
        self.start(user_agent, concurrency, |settings| settings.rules = rules)
    }

    /// Starts a controller that swaps, and writes the phase where that does not do.
    pub fn start_controller_that_may_finish(&self) -> Life {
        self.start_controller_with(
            SWAPLET,
            CONCURRENCY,
            AllowedMethods {
                finish: true,
                ..AllowedMethods::default()
            },
        )
    }

    /// As [`start_controller_that_may_finish`](Self::start_controller_that_may_finish), keeping
    /// what it learns of nodes in this namespace.
    pub fn start_controller_that_may_finish_keeping(&self, state_namespace: &str) -> Life {
        self.start(SWAPLET, CONCURRENCY, |settings| {
            settings.rules.allowed = AllowedMethods {
                finish: true,
                ..AllowedMethods::default()
            };
            settings.state_namespace = Some(state_namespace.to_owned());
        })
    }

    fn start_controller_with(
        &self,
        user_agent: &'static str,
        concurrency: usize,
        allowed: AllowedMethods,
    ) -> Life {
        self.start(user_agent, concurrency, |settings| {
            settings.rules.allowed = allowed
        })
    }

    /// Starts a controller for these pods only; what it tells of them comes out of the channel.
    pub fn start_controller_for(
        &self,
        names: &[&str],
    ) -> (Life, mpsc::UnboundedReceiver<Progress>) {
        let (progress, news) = mpsc::unbounded_channel();
        let pods = names
            .iter()
            .map(|name| self.get(name)["metadata"]["uid"].as_str().unwrap().into())
            .collect();
        let selection = Selection {
            pods,
            kept: AllKept::new(),
            progress,
        };
        (self.start_controller_that_selects(selection), news)
    }

    /// Starts a controller for the pods of this selection.
    pub fn start_controller_that_selects(&self, selection: Selection) -> Life {
        self.start(SWAPLET, CONCURRENCY, |settings| {
            settings.selection = Some(selection)
        })
    }

    /// Starts a controller that works in these namespaces only.
    pub fn start_controller_in(&self, namespaces: &[&str]) -> Life {
        self.start(SWAPLET, CONCURRENCY, |settings| {
            settings.namespaces = namespaces.iter().copied().collect()
        })
    }

    /// Starts a controller that derives exit images; `push` stands for the registry.
    pub fn start_deriving_controller(&self, push: Push) -> Life {
        self.start(SWAPLET, CONCURRENCY, |settings| {
            let derived = DerivedImages::new(DERIVED.parse().unwrap());
            settings.rules.exit_images = settings.rules.exit_images.clone().with_derived(derived);
            settings.push = Some(push);
        })
    }

    /// Starts a controller that goes by SidecarPolicies, with a clock that is so many seconds ahead
    /// of the API server's.
    pub fn start_controller_with_policies(&self, ahead: i64) -> Life {
        let clock = self.server.clock();
        self.start(SWAPLET, CONCURRENCY, |settings| {
            settings.sidecar_policies = true;
            settings.time_of_day = TimeOfDay(Arc::new(move || {
                clock.now() + jiff::SignedDuration::from_secs(ahead)
            }));
        })
    }

    /// Starts a controller that restarts containers for those who ask for it.
    pub fn start_restarting_controller(&self) -> Life {
        self.start_restarting(0, |_| ())
    }

    /// The same with a clock that is so many seconds ahead of the API server's, and with settings
    /// that differ by `change`.
    pub fn start_restarting(&self, ahead: i64, change: impl FnOnce(&mut Settings)) -> Life {
        let clock = self.server.clock();
        self.start(SWAPLET, CONCURRENCY, |settings| {
            settings.restart = Some(RestartSettings {
                time_of_day: Arc::new(move || clock.now() + jiff::SignedDuration::from_secs(ahead)),
                on_config: None,
                readiness_gates: false,
                park: Some(park_image()),
                leash: None,
            });
            change(settings);
        })
    }

    /// Starts one that restarts containers also when their configuration changes, and keeps in the
    /// namespace `state` what they have seen.
    pub fn start_controller_on_config(&self) -> Life {
        let clock = self.server.clock();
        self.start(SWAPLET, CONCURRENCY, |settings| {
            let on_config = RestartOnSettings {
                state_namespace: "state".to_owned(),
                mount_delay: Duration::from_secs(120),
            };
            settings.restart = Some(RestartSettings {
                time_of_day: Arc::new(move || clock.now()),
                on_config: Some(on_config),
                readiness_gates: false,
                park: None,
                leash: None,
            });
        })
    }

    /// Starts a controller that pulls images for those who ask for it by jobs.
    pub fn start_warming_controller(&self, park_image: &str, namespace: &str) -> Life {
        self.start_warming(park_image, namespace, |_| ())
    }

    /// The same with settings that differ by `change`.
    pub fn start_warming(
        &self,
        park_image: &str,
        namespace: &str,
        change: impl FnOnce(&mut Settings),
    ) -> Life {
        let clock = self.server.clock();
        self.start(SWAPLET, CONCURRENCY, |settings| {
            let time_of_day = Arc::new(move || clock.now());
            settings.warm = Some(WarmSettings {
                namespace: namespace.into(),
                park_image: park_image.into(),
                shape: ShapeChoice::Auto,
                exit_image: None,
                startup_taint_timeout: None,
                startup_taint_namespaces: BTreeSet::new(),
                longest_try: Duration::from_secs(1800),
                coexist: swaplet_core::terminate::openkruise::Coexist::default(),
                image_caches: None,
                sandbox_keys: swaplet_core::warm::pull_job::sandbox::SandboxKeys::new(
                    ["team", "note"].map(str::to_owned),
                ),
                resolve: crate::pull_jobs::no_registry(),
                time_of_day,
            });
            change(settings);
        })
    }

    /// Starts a controller that pre-downloads the images of workloads that ask for it.
    pub fn start_predownloading_controller(&self) -> Life {
        self.start(SWAPLET, CONCURRENCY, |settings| settings.predownload = true)
    }

    /// Starts a controller that counts what is in protected objects.
    pub fn start_protecting_controller(&self) -> Life {
        self.start(SWAPLET, CONCURRENCY, |settings| settings.protect = true)
    }

    /// Starts a controller with settings that differ by `change` from [`settings`].
    pub fn start(
        &self,
        user_agent: &'static str,
        concurrency: usize,
        change: impl FnOnce(&mut Settings),
    ) -> Life {
        let line = Line::new(self.server.clone(), user_agent);
        let client = Client::new(line.clone(), "default");
        let mut registry = Registry::default();
        let metrics = Metrics::register(&mut registry);
        // As the command does for a process that is alone.
        metrics.leads.set(1);
        let mut settings = settings(user_agent, concurrency);
        change(&mut settings);
        let health = Health::default();
        let controller = run(
            client,
            settings,
            metrics.clone(),
            health.clone(),
            std::future::pending(),
        );
        let task = tokio::spawn(async move { controller.await.unwrap() });
        Life {
            line,
            health,
            metrics,
            registry: Arc::new(registry),
            task,
        }
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

    /// A request of somebody else than a controller, as it is answered.
    pub async fn try_request(
        &self,
        method: http::Method,
        path: &str,
        content_type: &str,
        body: &Value,
    ) -> kube::Result<Value> {
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header(CONTENT_TYPE, content_type);
        self.client
            .request(request.body(body.to_string().into_bytes()).unwrap())
            .await
    }

    pub async fn request(
        &self,
        method: http::Method,
        path: &str,
        content_type: &str,
        body: &Value,
    ) -> Value {
        self.try_request(method, path, content_type, body)
            .await
            .unwrap_or_else(|error| panic!("{path}: {error}"))
    }

    /// Creates a namespace.
    pub async fn create_namespace(&self, name: &str) {
        self.request(
            http::Method::POST,
            "/api/v1/namespaces",
            "application/json",
            &json!({"metadata": {"name": name}}),
        )
        .await;
    }

    /// Installs the CRD by which OpenKruise is known.
    pub async fn install_node_images(&self) {
        let names = json!({"kind": "NodeImage", "plural": "nodeimages"});
        let version = json!({"name": "v1alpha1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object"}}});
        let crd = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": "nodeimages.apps.kruise.io"},
            "spec": {"group": "apps.kruise.io", "scope": "Cluster", "names": names, "versions": [version]}});
        self.request(
            http::Method::POST,
            "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
            "application/json",
            &crd,
        )
        .await;
    }

    /// Creates a node, or gives it other labels.
    pub async fn label_node(&self, name: &str, labels: &Value) {
        let metadata = json!({"name": name, "labels": labels});
        if self.server.peek("nodes", "", name).is_none() {
            self.request(
                http::Method::POST,
                "/api/v1/nodes",
                "application/json",
                &json!({"metadata": metadata}),
            )
            .await;
        } else {
            let path = format!("/api/v1/nodes/{name}");
            self.request(
                http::Method::PATCH,
                &path,
                "application/merge-patch+json",
                &json!({"metadata": metadata}),
            )
            .await;
        }
    }

    /// Creates a pod whose containers have not been reported, and an ordinary node for it if there
    /// is none of that name.
    pub async fn create(&self, pod: &Value) {
        if let Some(node) = pod["spec"]["nodeName"]
            .as_str()
            .filter(|node| self.server.peek("nodes", "", node).is_none())
        {
            self.label_node(node, &json!({})).await;
        }
        self.create_on_no_node(pod).await;
    }

    /// As [`create`](Self::create), without the node.
    pub async fn create_on_no_node(&self, pod: &Value) {
        let namespace = pod["metadata"]["namespace"].as_str().unwrap();
        self.request(
            http::Method::POST,
            &format!("/api/v1/namespaces/{namespace}/pods"),
            "application/json",
            pod,
        )
        .await;
    }

    /// A merge patch of a pod of the namespace `default`, by its user.
    pub async fn edit(&self, name: &str, patch: &Value) {
        self.request(
            http::Method::PATCH,
            &path(name),
            "application/merge-patch+json",
            patch,
        )
        .await;
    }

    /// Somebody else keeps a verdict on a node.
    pub async fn keep_verdict(&self, namespace: &str, node: &str, kept: &str) {
        let path = format!("/api/v1/namespaces/{namespace}/configmaps/swaplet-node-verdicts");
        self.request(
            http::Method::PATCH,
            &path,
            "application/merge-patch+json",
            &json!({"data": {node: kept}}),
        )
        .await;
    }

    /// The user gives the sidecar of a pod another image.
    pub async fn set_image(&self, name: &str, image: &str) {
        let patch = json!({"spec": {"containers": [{"name": "side", "image": image}]}});
        self.request(
            http::Method::PATCH,
            &path(name),
            "application/strategic-merge-patch+json",
            &patch,
        )
        .await;
    }

    /// A merge patch of a pod's status, by its node.
    pub async fn set_status(&self, name: &str, status: Value) {
        self.set_status_at(&path(name), status).await;
    }

    /// As [`set_status`](Self::set_status), in any namespace.
    pub async fn set_status_at(&self, path: &str, status: Value) {
        self.request(
            http::Method::PATCH,
            &format!("{path}/status"),
            "application/merge-patch+json",
            &json!({"status": status}),
        )
        .await;
    }

    /// The user deletes a pod; the node still has to confirm.
    pub async fn delete(&self, name: &str) {
        self.request(
            http::Method::DELETE,
            &path(name),
            "application/json",
            &json!({}),
        )
        .await;
    }

    /// A pod vanishes.
    pub async fn remove(&self, name: &str) {
        self.request(
            http::Method::DELETE,
            &path(name),
            "application/json",
            &json!({"gracePeriodSeconds": 0}),
        )
        .await;
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

fn park_image() -> ParkImage {
    ParkImage::new(PARK.parse().unwrap(), derived_paths([""; 0]).unwrap())
}

/// What a controller is told that is to swap, all by itself.
pub fn settings(user_agent: &str, concurrency: usize) -> Settings {
    Settings {
        namespaces: Namespaces::default(),
        rules: rules(),
        concurrency,
        write_deadline: Duration::from_secs(10),
        instance: user_agent.to_owned(),
        restart: None,
        warm: None,
        state_namespace: None,
        selection: None,
        push: None,
        predownload: false,
        hot_upgrade: None,
        protect: false,
        sidecar_policies: false,
        sidecar_log_bytes: 0,
        time_of_day: TimeOfDay::default(),
        leadership: Leadership::undisputed(),
    }
}

/// A default exit image, and nothing that is allowed or preferred besides.
pub fn rules() -> Rules {
    Rules {
        exit_images: ExitImages::new(Some(EXIT.parse().unwrap()), Vec::new()),
        allowed: AllowedMethods::default(),
        node_table: NodeTable::built_in(),
        coexist: Coexist::Own,
    }
}

/// The path of a pod of the namespace `default`.
pub fn path(name: &str) -> String {
    format!("/api/v1/namespaces/default/pods/{name}")
}

/// Pods, Jobs and nodes are listed and watched, pods are patched, their status too, Events are
/// created, and what is known of nodes is kept in one ConfigMap; of policies the status is patched,
/// and logs of sidecars are read.
/// Nothing else is ever asked for.
pub fn may_be_sent(request: &Recorded) {
    match (request.verb, &*request.resource, &*request.subresource) {
        (Verb::List | Verb::Watch, "pods" | "jobs" | "nodes", "")
        | (Verb::Create, "events", "")
        | (Verb::Get, "pods", "log") => {}
        (
            Verb::List | Verb::Watch,
            "namespaces" | "sidecarpolicies" | "namespacedsidecarpolicies",
            "",
        )
        | (Verb::Patch, "sidecarpolicies" | "namespacedsidecarpolicies", "status") => {}
        (Verb::Patch, "pods", "") => assert_guarded(request),
        (Verb::Get | Verb::Create | Verb::Patch, "configmaps", "") => {
            assert_eq!(request.namespace, "state")
        }
        (Verb::Patch, "pods", "status") => assert_finish(request),
        _ => panic!("nobody may ask for this: {request:?}"),
    }
}

/// A patch of the status names the uid, and writes phase, condition and nudge and nothing else.
fn assert_finish(request: &Recorded) {
    assert_eq!(
        request.content_type,
        "application/strategic-merge-patch+json"
    );
    let keys = |value: &Value| {
        value
            .as_object()
            .unwrap()
            .keys()
            .cloned()
            .collect::<Vec<_>>()
    };
    let (metadata, status) = (&request.body["metadata"], &request.body["status"]);
    assert_eq!(keys(&request.body), ["metadata", "status"]);
    assert!(metadata["uid"].is_string(), "{}", request.body);
    assert!(
        keys(metadata)
            .iter()
            .all(|key| ["annotations", "resourceVersion", "uid"].contains(&key.as_str())),
        "{}",
        request.body
    );
    // On a virtual node there is none.
    assert!(
        metadata["annotations"].is_null()
            || keys(&metadata["annotations"]) == ["swaplet.io/finished"],
        "{}",
        request.body
    );
    assert_eq!(keys(status), ["conditions", "phase"]);
    assert_eq!(
        (
            status["conditions"].as_array().unwrap().len(),
            &status["conditions"][0]["type"]
        ),
        (1, &json!("SidecarTerminated"))
    );
}

/// A patch tests the uid, then name and image of each container before it replaces the image; and
/// it is small.
fn assert_guarded(request: &Recorded) {
    assert_eq!(request.content_type, "application/json-patch+json");
    assert!(request.body.to_string().len() <= 2048, "{}", request.body);
    let operations = request.body.as_array().unwrap();
    assert_eq!(
        (&operations[0]["op"], &operations[0]["path"]),
        (&json!("test"), &json!("/metadata/uid"))
    );
    assert!(
        operations.len() > 1 && operations[1..].len().is_multiple_of(3),
        "{}",
        request.body
    );
    for swap in operations[1..].chunks(3) {
        let container = swap[1]["path"]
            .as_str()
            .and_then(|path| path.strip_suffix("/image"))
            .unwrap();
        assert!(
            container.starts_with("/spec/containers/"),
            "{}",
            request.body
        );
        assert_eq!(
            (&swap[0]["op"], &swap[0]["path"]),
            (&json!("test"), &json!(format!("{container}/name")))
        );
        assert_eq!(
            (&swap[1]["op"], &swap[2]["op"], &swap[2]["path"]),
            (&json!("test"), &json!("replace"), &swap[1]["path"])
        );
        let to = swap[2]["value"].as_str().unwrap();
        assert!(to == EXIT || to.starts_with(&format!("{DERIVED}@")), "{to}");
    }
}
