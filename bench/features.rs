//! What features cost whom, in requests and memory: `cargo bench --bench features`.
//!
//! For each feature that is off unless asked for: a controller on the testbed's API server, with
//! 2,000 pods that have nothing to do with it and no object of it, in an hour of virtual time. The
//! first row is a controller without any of them: it watches pods, Jobs and nodes, and nothing
//! else. The others are that controller with one feature: what it watches besides, how many
//! requests more an hour takes, and how much more heap is kept, with what the testbed notes of
//! these requests. Nothing is judged.

#![expect(
    clippy::expect_used,
    reason = "a benchmark stops where its fixture is broken"
)]

use std::alloc::System;
use std::collections::BTreeSet;
use std::time::Duration;

use http::header::CONTENT_TYPE;
use http::{Method, Request};
use prometheus_client::registry::Registry;
use serde_json::{Value, json};
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};
use swaplet_controller::cluster::rules::Rules;
use swaplet_controller::frame::metrics::Metrics;
use swaplet_controller::frame::serve::Health;
use swaplet_controller::restart::driver::RestartSettings;
use swaplet_controller::run::{Settings, TimeOfDay, run};
use swaplet_core::cluster::exit_images::{ExitImages, Public};
use swaplet_core::cluster::node_table::NodeTable;
use swaplet_core::restart::hot_upgrade::sidecar_set::UpgradeImages;
use swaplet_core::terminate::methods::AllowedMethods;
use swaplet_core::terminate::openkruise::Coexist;
use swaplet_testbed::apiserver::Verb;
use swaplet_testbed::{ApiServer, Clock};
use tokio::time::{pause, sleep};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

const PODS: usize = 2_000;
const HOUR: Duration = Duration::from_secs(3600);
const SWAPLET: &str = "swaplet";

/// Switches a feature on.
type Feature = fn(&mut Settings);

/// What an hour takes.
struct Cost {
    /// What is watched, in the plural.
    watched: BTreeSet<String>,
    requests: usize,
    bytes: i128,
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    pause();
    let features: [(&str, Feature); 5] = [
        ("--protect", |settings| settings.protect = true),
        ("--restart", |settings| {
            settings.restart = Some(restart(false))
        }),
        ("--restart --restart-readiness-gates", |settings| {
            settings.restart = Some(restart(true));
        }),
        ("--hot-upgrade", |settings| {
            settings.hot_upgrade = Some(hot_upgrade())
        }),
        ("--sidecar-policies", |settings| {
            settings.sidecar_policies = true
        }),
    ];
    let none = measure(|_| {}).await;
    println!(
        "none of them: watches {:?}, {} requests in an hour",
        none.watched, none.requests
    );
    for (name, feature) in features {
        let cost = measure(feature).await;
        let more: Vec<_> = cost.watched.difference(&none.watched).collect();
        println!(
            "{name}: watches {more:?} besides, {} requests more in an hour, {} KiB more are kept",
            cost.requests.saturating_sub(none.requests),
            (cost.bytes - none.bytes) / 1024
        );
    }
}

async fn measure(feature: Feature) -> Cost {
    let server = ApiServer::new(Clock::default());
    for nth in 0..PODS {
        run_pod(&server, nth).await;
    }
    let region = Region::new(ALLOCATOR);
    let mut settings = settings();
    feature(&mut settings);
    let controller = run(
        server.client_as(SWAPLET),
        settings,
        Metrics::register(&mut Registry::default()),
        Health::default(),
        std::future::pending(),
    );
    let controller = tokio::spawn(controller);
    sleep(HOUR).await;
    let stats = region.change();
    let kept = |bytes: usize| i128::try_from(bytes).unwrap_or_default();
    let requests = server.recorded();
    let ours = requests
        .iter()
        .filter(|request| request.user_agent.starts_with(SWAPLET));
    let ours: Vec<_> = ours.collect();
    let watches = ours.iter().filter(|request| request.verb == Verb::Watch);
    let cost = Cost {
        watched: watches.map(|request| request.resource.clone()).collect(),
        requests: ours.len(),
        bytes: kept(stats.bytes_allocated) - kept(stats.bytes_deallocated),
    };
    controller.abort();
    // What ends with it is not to end in the next measurement.
    drop(requests);
    drop(server);
    sleep(HOUR).await;
    cost
}

async fn run_pod(server: &ApiServer, nth: usize) {
    let container = json!({"name": "main", "image": "registry.example/main:1"});
    let policy = if nth.is_multiple_of(2) {
        "Always"
    } else {
        "OnFailure"
    };
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"namespace": "default", "name": format!("p{nth}")},
        "spec": {"nodeName": "n", "restartPolicy": policy, "containers": [container]}});
    let request = Request::builder()
        .method(Method::POST)
        .uri("/api/v1/namespaces/default/pods")
        .header(CONTENT_TYPE, "application/json")
        .body(pod.to_string().into_bytes());
    let client = server.client_as("bench");
    let made = client.request::<Value>(request.expect("a request")).await;
    made.expect("a pod");
}

fn settings() -> Settings {
    let rules = Rules {
        exit_images: ExitImages::new(Some(reference("exit")), Vec::new()).said_public(Public::Yes),
        allowed: AllowedMethods::default(),
        node_table: NodeTable::built_in(),
        coexist: Coexist::Own,
    };
    Settings {
        concurrency: 16,
        ..Settings::new(rules, "bench".to_owned())
    }
}

fn restart(readiness_gates: bool) -> RestartSettings {
    RestartSettings {
        time_of_day: TimeOfDay::default(),
        on_config: None,
        readiness_gates,
        park: None,
        leash: None,
    }
}

fn hot_upgrade() -> UpgradeImages {
    UpgradeImages {
        listed: vec!["registry.example/mesh:*".parse().expect("a pattern")],
        park: Some(reference("park")),
        empty: Vec::new(),
    }
}

fn reference(name: &str) -> swaplet_core::image::ImageReference {
    let image = format!("registry.example/swaplet/{name}:v1");
    image.parse().expect("a reference")
}
