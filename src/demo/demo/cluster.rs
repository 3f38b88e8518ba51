//! The cluster of the demo: an API server, the Job controller, a scheduler, a node, and the real
//! controller, each with a client of its own.

use std::time::Duration;

use anyhow::{Context, anyhow};
use k8s_openapi::api::core::v1::Namespace;
use kube::api::{DynamicObject, PostParams};
use kube::discovery::{Scope, pinned_kind};
use kube::{Api, Client, ResourceExt as _};
use serde_json::{Value, json};
use swaplet_controller::frame::list::words;
use swaplet_edge::manifests::Manifests;
use swaplet_edge::print;
use swaplet_testbed::apiserver::Verb;
use swaplet_testbed::virtual_node::{NodeOptions, OnUpdate, Profile, VirtualNode};
use swaplet_testbed::{ApiServer, Clock, job_controller, scheduler};
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::timeline::placed;
use super::{Results, Story, controller, cron};

const NODE: &str = "demo-node";
/// The user agent by which the controller's writes are counted.
const CONTROLLER: &str = "swaplet";
/// The CRDs of an installation.
const CRDS: [&str; 5] = [
    include_str!("../../../deploy/crds/containerrecreaterequests.yaml"),
    include_str!("../../../deploy/crds/imagepulljobs.yaml"),
    include_str!("../../../deploy/crds/imagelistpulljobs.yaml"),
    include_str!("../../../deploy/crds/sidecarpolicies.yaml"),
    include_str!("../../../deploy/crds/namespacedsidecarpolicies.yaml"),
];

/// The running cluster; everything stops when this is dropped.
pub struct Cluster {
    /// The API server.
    pub server: ApiServer,
    profile: Profile,
    _parts: JoinSet<()>,
}

impl Cluster {
    /// Starts all parts, and waits for the node.
    ///
    /// # Errors
    /// The CRDs are refused.
    pub async fn start(profile: Profile) -> anyhow::Result<Self> {
        let clock = Clock::starting_at(swaplet_controller::frame::clock::time_of_day());
        let server = ApiServer::new(clock);
        server.set_webhook(super::pipeline::inject_proxy);
        for crd in CRDS.iter().flat_map(|text| Manifests::of(text).documents) {
            create(&server.client(), &crd.object).await?;
        }
        let mut parts = JoinSet::new();
        parts.spawn(job_controller::run(server.client(), clock));
        parts.spawn(cron::run(server.client()));
        parts.spawn(scheduler::run(server.client(), clock));
        parts.spawn(VirtualNode::new(server.client(), clock, node(profile)).run_for_ever());
        let client = server.client_as(CONTROLLER);
        parts.spawn(async move { controller(client, CONTROLLER).await });
        let cluster = Self {
            server,
            profile,
            _parts: parts,
        };
        cluster.node_is_ready().await;
        Ok(cluster)
    }

    /// Creates all objects, then waits for all Jobs and pods among them. Returns the results, and
    /// the story to continue.
    ///
    /// # Errors
    /// An object that the API server refuses.
    pub async fn play(
        &self,
        objects: &[Value],
        deadline: Duration,
    ) -> anyhow::Result<(Results, Story)> {
        let client = self.server.client();
        let is_inert = matches!(&self.profile, Profile::Virtual(options) if options.on_update == OnUpdate::Nothing);
        let mut story = Story::begin(client.clone(), is_inert);
        for object in objects {
            let mut object = object.clone();
            super::notes::adapt(&mut object)?;
            create(&client, &object).await?;
        }
        let doubtful = super::notes::tell_unmarked(objects)?;
        let ending = objects
            .iter()
            .filter(|object| matches!(object["kind"].as_str(), Some("Job" | "Pod" | "CronJob")))
            .count();
        story.follow(ending, doubtful, deadline).await?;
        Ok((self.results(&story), story))
    }

    /// Waits until the node is Ready: an earlier pod would start with the Warning that no node
    /// fits.
    async fn node_is_ready(&self) {
        let ready = |node: &Value| {
            let conditions = node["status"]["conditions"].as_array().cloned();
            conditions
                .into_iter()
                .flatten()
                .any(|one| one["type"] == "Ready" && one["status"] == "True")
        };
        while !self
            .server
            .peek("nodes", "", NODE)
            .is_some_and(|node| ready(&node))
        {
            sleep(Duration::from_millis(10)).await;
        }
    }

    fn results(&self, story: &Story) -> Results {
        let mut results = story.timeline.results.clone();
        for write in self.server.recorded() {
            let ours = write.verb == Verb::Patch
                && write.resource == "pods"
                && write.user_agent.contains(CONTROLLER);
            let name = placed(Some(write.namespace), &write.name);
            if let Some(row) = results.pods.get_mut(&name).filter(|_| ours) {
                row.patches += 1;
            }
        }
        results
    }
}

/// Creates an object, and its namespace if that is missing. An object of a kind that this API
/// server does not serve is skipped with a message.
async fn create(client: &Client, object: &Value) -> anyhow::Result<()> {
    let object: DynamicObject =
        serde_json::from_value(object.clone()).context("an object has no metadata")?;
    let types = object
        .types
        .clone()
        .context("an object has no apiVersion or kind")?;
    let name = format!("{} {}", types.kind, object.name_any());
    let kind = kube::core::GroupVersionKind::try_from(&types)?;
    let Ok((resource, capabilities)) = pinned_kind(client, &kind).await else {
        let (name, version) = (name.trim(), &types.api_version);
        return print(&format!(
            "        {name} is left out: the demo's API server has no {version}\n"
        ));
    };
    let refused = |error: kube::Error| anyhow!("{name}: {}", words(&error));
    let api = match (&capabilities.scope, &object.metadata.namespace) {
        (Scope::Cluster, _) => Api::all_with(client.clone(), &resource),
        (Scope::Namespaced, namespace) => {
            let namespace = namespace.as_deref().unwrap_or("default");
            make_namespace(client, namespace).await.map_err(refused)?;
            Api::namespaced_with(client.clone(), namespace, &resource)
        }
    };
    match api.create(&PostParams::default(), &object).await {
        // Created for an earlier object of the files.
        Err(kube::Error::Api(status)) if status.code == 409 && types.kind == "Namespace" => Ok(()),
        created => created.map(|_| ()).map_err(refused),
    }
}

async fn make_namespace(client: &Client, name: &str) -> kube::Result<()> {
    let namespaces: Api<Namespace> = Api::all(client.clone());
    let new = serde_json::from_value(json!({"metadata": {"name": name}}))
        .map_err(kube::Error::SerdeError)?;
    match namespaces.create(&PostParams::default(), &new).await {
        Err(kube::Error::Api(status)) if status.code == 409 => Ok(()),
        other => other.map(|_| ()),
    }
}

/// Returns the options of a node without taints, because all Jobs must run on this only node.
fn node(profile: Profile) -> NodeOptions {
    NodeOptions {
        taints: Vec::new(),
        ..NodeOptions::new(NODE, profile)
    }
}
