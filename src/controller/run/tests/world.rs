//! A controller, an API server, and what the one has made of the other.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use http::header::CONTENT_TYPE;
use http::{Method, Request};
use prometheus_client::registry::Registry;
use serde_json::{Value, json};
use swaplet_core::cluster::exit_images::ExitImages;
use swaplet_core::cluster::node_table::NodeTable;
use swaplet_core::terminate::methods::AllowedMethods;
use swaplet_core::terminate::openkruise::Coexist;
use swaplet_core::warm::image_cache::CacheOptions;
use swaplet_testbed::{ApiServer, Clock};

use crate::cluster::rules::Rules;
use crate::frame::metrics::Metrics;
use crate::frame::serve::Health;
use crate::restart::driver::RestartSettings;
use crate::restart::on_config::RestartOnSettings;
use crate::run::{Settings, TimeOfDay, run};
use crate::warm::jobs::WarmSettings;

pub(super) struct World {
    pub server: ApiServer,
    registry: Registry,
    metrics: Metrics,
    pub health: Health,
}

impl World {
    pub fn new() -> Self {
        let mut registry = Registry::default();
        let metrics = Metrics::register(&mut registry);
        Self {
            server: ApiServer::new(Clock::default()),
            registry,
            metrics,
            health: Health::default(),
        }
    }

    pub fn start(&self, change: impl FnOnce(&mut Settings)) {
        let rules = Rules {
            exit_images: ExitImages::new(None, Vec::new()),
            allowed: AllowedMethods::default(),
            node_table: NodeTable::built_in(),
            coexist: Coexist::Own,
        };
        let mut settings = Settings {
            concurrency: 4,
            ..Settings::new(rules, "swaplet".to_owned())
        };
        change(&mut settings);
        let client = self.server.client_as("swaplet");
        let controller = run(
            client,
            settings,
            self.metrics.clone(),
            self.health.clone(),
            std::future::pending(),
        );
        tokio::spawn(async move { controller.await.unwrap() });
    }

    pub fn start_restarting(&self, on_config: Option<RestartOnSettings>) {
        let clock = self.server.clock();
        self.start(|settings| {
            settings.restart = Some(RestartSettings {
                time_of_day: TimeOfDay(Arc::new(move || clock.now())),
                on_config,
                readiness_gates: false,
                park: None,
                leash: None,
            })
        });
    }

    pub fn start_warming(&self) {
        self.start(|settings| settings.warm = Some(self.warm()));
    }

    pub fn warm(&self) -> WarmSettings {
        let clock = self.server.clock();
        WarmSettings {
            namespace: "default".into(),
            park_image: "registry.example/park:1".into(),
            exit_image: None,
            startup_taint_timeout: None,
            startup_taint_namespaces: BTreeSet::new(),
            longest_try: Duration::from_secs(1800),
            coexist: swaplet_core::terminate::openkruise::Coexist::default(),
            image_caches: Some(CacheOptions {
                exit_image: None,
                size: 20,
                retention_days: 7,
            }),
            sandbox_keys: swaplet_core::warm::pull_job::sandbox::SandboxKeys::default(),
            time_of_day: TimeOfDay(Arc::new(move || clock.now())),
        }
    }

    pub async fn send(&self, method: Method, path: &str, body: &Value) {
        let kind = if method == Method::PATCH {
            "application/merge-patch+json"
        } else {
            "application/json"
        };
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header(CONTENT_TYPE, kind);
        let request = request.body(body.to_string().into_bytes()).unwrap();
        self.server
            .client()
            .request::<Value>(request)
            .await
            .unwrap_or_else(|error| panic!("{path}: {error}"));
    }

    pub async fn create(&self, path: &str, body: &Value) {
        self.send(Method::POST, path, body).await;
    }

    pub async fn create_node(&self, name: &str) {
        let status = json!({"conditions": [{"type": "Ready", "status": "True"}]});
        self.create("/api/v1/nodes", &json!({"metadata": {"name": name, "labels": {"kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64"}}}))
            .await;
        self.send(
            Method::PATCH,
            &format!("/api/v1/nodes/{name}/status"),
            &json!({"status": status}),
        )
        .await;
    }

    pub fn all(&self, resource: &str) -> Vec<Arc<Value>> {
        self.server.peek_all(resource)
    }

    /// How often a decision has panicked.
    pub fn defects(&self) -> u64 {
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &self.registry).unwrap();
        let count = text.lines().find_map(|line| {
            line.strip_prefix("swaplet_decisions_total{reason=\"DecisionFailed\"} ")
        });
        count.unwrap().parse().unwrap()
    }

    /// The notes of the Events that tell of a defect, each after the name of its object.
    pub fn reported(&self) -> Vec<(String, String)> {
        let events = self
            .all("events.events.k8s.io")
            .into_iter()
            .chain(self.all("events"));
        let ours = events.filter(|event| event["reason"] == "DecisionFailed");
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let reported = ours.map(|event| {
            let object = if event["regarding"].is_object() {
                &event["regarding"]
            } else {
                &event["involvedObject"]
            };
            let note = if event["note"].is_string() {
                &event["note"]
            } else {
                &event["message"]
            };
            (text(&object["name"]), text(note))
        });
        reported.collect()
    }
}
