//! A realistic pod, a controller's index of pods, and what the one takes in the other: for the
//! benchmark `pod_event`, which takes the time, and for the test that holds what is allocated.

use std::hint::black_box;
use std::time::Duration;

use kube::api::WatchEvent;
use serde_json::{Value, json};
use stats_alloc::Stats;
use swaplet::image::reference::ImageReference;
use swaplet_controller::cluster::rules::Rules;
use swaplet_controller::frame::watch::Event;
use swaplet_controller::terminate::index::Index;
use swaplet_core::cluster::exit_images::{ExitImages, Public};
use swaplet_core::cluster::node_table::NodeTable;
use swaplet_core::objects::job::Job;
use swaplet_core::objects::moment::Moment;
use swaplet_core::objects::node::NodeWire;
use swaplet_core::objects::pod::wire::PodWire;
use swaplet_core::terminate::methods::AllowedMethods;
use swaplet_core::terminate::openkruise::Coexist;

/// A pod of a Job as the API server sends it: two containers, a projected token, 3 KB of
/// managedFields.
const POD: &str = include_str!("pod.json");
/// The uid of its Job.
const JOB: &str = "cbb4fc4d-a65f-47e9-b514-eea737667987";

/// An index without pods that knows their node and their Job.
pub fn index() -> Index {
    let exit_image =
        ImageReference::parse("registry.example.com/swaplet/exit:v1").expect("a reference");
    let mut index = Index::new(Rules {
        exit_images: ExitImages::new(Some(exit_image), Vec::new()).said_public(Public::Yes),
        allowed: AllowedMethods::default(),
        node_table: NodeTable::built_in(),
        coexist: Coexist::Own,
    });
    let node = pod(0, false)["spec"]["nodeName"].clone();
    let node: NodeWire =
        serde_json::from_value(json!({"metadata": {"name": node, "uid": "1", "labels": {"kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64"}}})).expect("a node");
    index.nodes.observe(Event::Applied(node));
    // The Job of all pods is known, and none of them has to wait.
    let job = Job {
        uid: JOB.into(),
        namespace: Box::default(),
        backoff_limit: u32::MAX,
        failures_borne: u32::MAX,
    };
    index.jobs(|headroom| headroom.job(&job), Moment::START);
    index.list_ends(Moment::START);
    index
}

/// Decodes a watch event.
pub fn decode(event: &str) -> PodWire {
    match serde_json::from_str(event) {
        Ok(WatchEvent::Modified(pod)) => pod,
        other => panic!("{other:?}"),
    }
}

/// Decodes a watch event and decides about its pod.
pub fn see(index: &mut Index, event: &str) {
    let pod = decode(event).read().expect("a pod");
    index.apply(pod, Moment::after_start(Duration::from_secs(1)));
    black_box(index.take_effects());
}

/// The watch event of one of many pods; `done`: its main container has ended.
pub fn watch_event(number: usize, done: bool) -> String {
    let pod = pod(number, done);
    format!("{{\"type\":\"MODIFIED\",\"object\":{pod}}}")
}

fn pod(number: usize, done: bool) -> Value {
    let mut pod: Value = serde_json::from_str(POD).expect("bench/pod.json");
    pod["metadata"]["name"] = json!(format!("nightly-report-{number:05}"));
    pod["metadata"]["uid"] = json!(format!("00000000-0000-4000-8000-{number:012}"));
    if !done {
        let statuses = pod["status"]["containerStatuses"]
            .as_array_mut()
            .expect("statuses");
        let main = statuses
            .iter_mut()
            .find(|status| status["name"] == "main")
            .expect("main");
        main["state"] = json!({"running": {"startedAt": "2026-01-01T00:00:00Z"}});
    }
    pod
}

/// Bytes that are still allocated of those that were; what grew is in `bytes_allocated` already.
pub fn kept(change: &Stats) -> usize {
    change
        .bytes_allocated
        .saturating_sub(change.bytes_deallocated)
}
