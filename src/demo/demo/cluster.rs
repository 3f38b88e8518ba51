//! The cluster of the demo: an API server, the Job controller, a scheduler, a node, and the real
//! controller, each with a client of its own.

use std::time::Duration;

use anyhow::Context;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::events::v1::Event as PodEvent;
use kube::api::DynamicObject;
use kube::discovery::ApiResource;
use kube::{Api, Client};
use prometheus_client::registry::Registry;
use serde_json::Value;
use swaplet_controller::cluster::rules::Rules;
use swaplet_controller::frame::connection::namespaces::Namespaces;
use swaplet_controller::frame::lease::Leadership;
use swaplet_controller::frame::metrics::Metrics;
use swaplet_controller::frame::serve::Health;
use swaplet_controller::frame::watch::{Event, watch};
use swaplet_controller::run::{CONCURRENCY, Settings, TimeOfDay, WRITE_SECONDS, run};
use swaplet_core::cluster::exit_images::ExitImages;
use swaplet_core::cluster::node_table::NodeTable;
use swaplet_core::image::reference::ImageReference;
use swaplet_core::terminate::methods::AllowedMethods;
use swaplet_core::terminate::openkruise::Coexist;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};

use super::results::Results;
use super::timeline::{Line, Timeline};
use crate::testbed::apiserver::Verb;
use crate::testbed::virtual_node::{NodeOptions, Profile, VirtualNode};
use crate::testbed::{ApiServer, Clock, job_controller, scheduler};

const EXIT_IMAGE: &str = "registry.example/swaplet/exit:v1";
const NODE: &str = "demo-node";
/// The user agent by which the controller's writes are counted.
const CONTROLLER: &str = "swaplet";

/// Everything runs until this is dropped.
pub struct Cluster {
    /// The API server.
    pub server: ApiServer,
    _parts: JoinSet<()>,
}

impl Cluster {
    /// Starts all parts.
    #[must_use]
    pub fn start(profile: Profile) -> Self {
        let clock = Clock::starting_at(swaplet_controller::frame::clock::time_of_day());
        let server = ApiServer::new(clock);
        server.set_webhook(super::pipeline::inject_proxy);
        let mut parts = JoinSet::new();
        parts.spawn(job_controller::run(server.client(), clock));
        parts.spawn(scheduler::run(server.client(), clock));
        parts.spawn(VirtualNode::new(server.client(), clock, node(profile)).run());
        parts.spawn(controller(server.client_as(CONTROLLER)));
        Self {
            server,
            _parts: parts,
        }
    }

    /// Creates all objects, then waits for all Jobs and pods among them.
    ///
    /// # Errors
    /// An object that the API server refuses.
    pub async fn play(&self, objects: &[Value], deadline: Duration) -> anyhow::Result<Results> {
        self.node_is_there().await;
        let mut story = Story::begin(self.server.client(), Instant::now());
        for object in objects {
            self.create(object).await?;
        }
        let ending = objects
            .iter()
            .filter(|object| matches!(object["kind"].as_str(), Some("Job" | "Pod")))
            .count();
        story.follow(ending, deadline).await?;
        Ok(self.results(story))
    }

    /// A Job that comes before the node would wait for the scheduler's next try.
    async fn node_is_there(&self) {
        while self.server.peek("nodes", "", NODE).is_none() {
            sleep(Duration::from_millis(10)).await;
        }
    }

    async fn create(&self, object: &Value) -> anyhow::Result<()> {
        let object: DynamicObject = serde_json::from_value(object.clone())
            .context("an object has no apiVersion, kind or metadata")?;
        let types = object
            .types
            .clone()
            .context("an object has no apiVersion or kind")?;
        let kind = kube::core::GroupVersionKind::try_from(&types)?;
        let namespace = object
            .metadata
            .namespace
            .clone()
            .unwrap_or_else(|| "default".to_owned());
        let api: Api<DynamicObject> = Api::namespaced_with(
            self.server.client(),
            &namespace,
            &ApiResource::from_gvk(&kind),
        );
        let name = object.metadata.name.clone().unwrap_or_default();
        api.create(&kube::api::PostParams::default(), &object)
            .await
            .with_context(|| format!("{} {name}", types.kind))?;
        Ok(())
    }

    fn results(&self, story: Story) -> Results {
        let mut results = story.timeline.results();
        for write in self.server.recorded() {
            let ours = write.verb == Verb::Patch
                && write.resource == "pods"
                && write.user_agent.contains(CONTROLLER);
            if let Some(row) = results.pods.get_mut(&write.name).filter(|_| ours) {
                row.patches += 1;
            }
        }
        results
    }
}

/// Without a taint: everybody's Jobs may run on the only node there is.
fn node(profile: Profile) -> NodeOptions {
    NodeOptions {
        taints: Vec::new(),
        ..NodeOptions::new(NODE, profile)
    }
}

/// The controller of `swaplet run`, with the settings that it has by default.
async fn controller(client: Client) {
    let Ok(exit_image) = ImageReference::parse(EXIT_IMAGE) else {
        return;
    };
    let settings = Settings {
        namespaces: Namespaces::default(),
        rules: Rules {
            exit_images: ExitImages::new(Some(exit_image), Vec::new()),
            allowed: AllowedMethods {
                finish: true,
                ..AllowedMethods::default()
            },
            node_table: NodeTable::built_in(),
            coexist: Coexist::Own,
        },
        concurrency: CONCURRENCY.into(),
        write_deadline: Duration::from_secs(WRITE_SECONDS.into()),
        instance: CONTROLLER.to_owned(),
        push: None,
        restart: None,
        warm: None,
        state_namespace: None,
        predownload: false,
        sidecar_policies: false,
        time_of_day: TimeOfDay::default(),
        leadership: Leadership::undisputed(),
        selection: None,
    };
    let metrics = Metrics::register(&mut Registry::default());
    let _ = run(
        client,
        settings,
        metrics,
        Health::default(),
        std::future::pending(),
    )
    .await;
}

/// Follows what happens and prints it.
struct Story {
    start: Instant,
    timeline: Timeline,
    pods: tokio::sync::mpsc::Receiver<Event<Pod>>,
    jobs: tokio::sync::mpsc::Receiver<Event<Job>>,
    events: tokio::sync::mpsc::Receiver<Event<PodEvent>>,
}

impl Story {
    fn begin(client: Client, start: Instant) -> Self {
        Self {
            start,
            timeline: Timeline::default(),
            pods: watch(Api::all(client.clone()), ""),
            jobs: watch(Api::all(client.clone()), ""),
            events: watch(Api::all(client), ""),
        }
    }

    /// Prints what happens until so many Jobs and pods without a Job have ended, or the time is
    /// over.
    async fn follow(&mut self, ending: usize, deadline: Duration) -> anyhow::Result<()> {
        let reached = timeout(deadline, async {
            while self.timeline.ended() < ending {
                self.next().await?;
            }
            // What is told last, the end of the sidecar, comes just after the end of the Job.
            while timeout(LAST_WORDS, self.next()).await.is_ok() {}
            anyhow::Ok(())
        });
        match reached.await {
            Ok(result) => result,
            Err(_) => crate::print(&format!(
                "        nothing more in {} s; giving up\n",
                deadline.as_secs()
            )),
        }
    }

    async fn next(&mut self) -> anyhow::Result<()> {
        let lines = tokio::select! {
            Some(Event::Listed(pod) | Event::Applied(pod)) = self.pods.recv() => self.timeline.pod(self.start.elapsed(), pod),
            Some(Event::Listed(job) | Event::Applied(job)) = self.jobs.recv() => self.timeline.job(self.start.elapsed(), &job),
            Some(Event::Listed(event) | Event::Applied(event)) = self.events.recv() => {
                self.timeline.event(self.start.elapsed(), &event).into_iter().collect()
            }
            else => Vec::new(),
        };
        lines
            .iter()
            .map(Line::text)
            .try_for_each(|line| crate::print(&format!("{line}\n")))
    }
}

/// How long the last Event of a pod may take to arrive.
const LAST_WORDS: Duration = Duration::from_millis(400);
