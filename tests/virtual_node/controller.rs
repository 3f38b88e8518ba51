//! The real controller on every node that can be played.

use std::collections::BTreeSet;
use std::time::Duration;

use k8s_openapi::api::batch::v1::Job;
use kube::Api;
use kube::api::PostParams;
use prometheus_client::registry::Registry;
use serde_json::json;
use swaplet::image::ImageReference;
use swaplet_controller as controller;
use swaplet_controller::cluster::rules::Rules;
use swaplet_controller::frame::metrics::Metrics;
use swaplet_controller::frame::serve::Health;
use swaplet_controller::run::Settings;
use swaplet_core::cluster::exit_images::{ExitImages, Public};
use swaplet_core::cluster::node_table::NodeTable;
use swaplet_core::terminate::methods::AllowedMethods;
use swaplet_core::terminate::openkruise::Coexist;
use swaplet_testbed::apiserver::{Recorded, Verb};
use swaplet_testbed::virtual_node::{Gap, OnUpdate, Profile, ProviderOptions, StatusMode};

use super::{Cluster, node};

impl Cluster {
    /// Starts the real controller.
    fn start_controller(&self) {
        let rules = Rules {
            exit_images: ExitImages::new(
                Some(ImageReference::parse("exit:1").unwrap()),
                Vec::new(),
            )
            .said_public(Public::Yes),
            allowed: AllowedMethods {
                finish: true,
                ..AllowedMethods::default()
            },
            node_table: NodeTable::built_in(),
            coexist: Coexist::Own,
        };
        let settings = Settings {
            concurrency: 4,
            ..Settings::new(rules, "test".to_owned())
        };
        let client = self.server.client_as("swaplet");
        let metrics = Metrics::register(&mut Registry::default());
        tokio::spawn(controller::run::run(
            client,
            settings,
            metrics,
            Health::default(),
            std::future::pending(),
        ));
    }

    /// A Job of so many pods with a marked sidecar, called after its policy.
    async fn create_marked_job(&self, policy: &str, pods: i32) {
        let mark = json!([{"name": "KRUISE_TERMINATE_SIDECAR_WHEN_JOB_EXIT", "value": "true"}]);
        let template = json!({"spec": {"restartPolicy": policy, "tolerations": [{"operator": "Exists"}], "containers": [
            {"name": "main", "image": "work:1", "args": ["run=2s"]},
            {"name": "side", "image": "work:1", "args": ["term=143"], "env": mark}]}});
        let spec = json!({"parallelism": pods, "completions": pods, "template": template});
        let job: Job = serde_json::from_value(
            json!({"metadata": {"name": policy.to_lowercase()}, "spec": spec}),
        )
        .unwrap();
        Api::default_namespaced(self.client.clone())
            .create(&PostParams::default(), &job)
            .await
            .unwrap();
    }

    /// How many pods of a Job have succeeded, and how many have failed.
    fn counts(&self, job: &str) -> (i64, i64) {
        let job = self.server.peek("jobs.batch", "default", job).unwrap();
        let count = |field: &str| job["status"][field].as_i64().unwrap_or_default();
        (count("succeeded"), count("failed"))
    }

    /// How many pods had their images changed by the controller, each by one patch.
    fn swaps(&self) -> usize {
        let ours = |write: &Recorded| {
            write.verb == Verb::Patch
                && write.resource == "pods"
                && write.user_agent.starts_with("swaplet")
        };
        let swapped: Vec<_> = self
            .server
            .recorded()
            .into_iter()
            .filter(|write| ours(write) && write.body.is_array())
            .collect();
        let pods: BTreeSet<_> = swapped.iter().map(|write| &write.name).collect();
        assert_eq!(pods.len(), swapped.len(), "one swap per pod");
        pods.len()
    }
}

/// Every provider that can be played, and a kubelet: whatever little a status tells, no pod whose
/// main exited with 0 fails, a provider that can use swaps gets them, and one that cannot gets one.
#[tokio::test(start_paused = true)]
async fn the_controller_ends_jobs_on_every_node() {
    let mut profiles = vec![(Profile::kubelet(), 5)];
    for (on_update, swaps) in [
        (OnUpdate::Replaces, 3),
        (OnUpdate::Nothing, 1),
        (OnUpdate::Fails, 1),
    ] {
        for status in [StatusMode::Notify, StatusMode::Poll] {
            // Where nothing is replaced, these change nothing.
            let gaps: &[Gap] = if swaps == 3 {
                &[Gap::Hidden, Gap::Reported, Gap::Judged]
            } else {
                &[Gap::Hidden]
            };
            for &gap in gaps {
                for tells in [false, true] {
                    let options = ProviderOptions {
                        on_update,
                        status,
                        gap,
                        ..ProviderOptions::default()
                    };
                    let told = ProviderOptions {
                        new_container_ids: tells,
                        counts_restarts: tells,
                        reports_image_id: tells,
                        ..options
                    };
                    profiles.push((Profile::Virtual(told), swaps));
                }
            }
        }
    }
    for (profile, swaps) in profiles {
        let cluster = node(profile);
        cluster.start_controller();
        cluster.create_marked_job("Never", 2).await;
        cluster.create_marked_job("OnFailure", 3).await;
        tokio::time::sleep(Duration::from_secs(200)).await;
        assert_eq!(
            (
                cluster.counts("never"),
                cluster.counts("onfailure"),
                cluster.swaps()
            ),
            ((2, 0), (3, 0), swaps),
            "{profile:?}"
        );
    }
}
