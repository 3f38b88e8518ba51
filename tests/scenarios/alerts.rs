//! The rules of `deploy/alerts.yaml`, evaluated on what a controller exposes while what they are
//! about happens.

use std::time::Duration;

use prometheus_client::registry::Registry;
use serde_json::json;
use swaplet_controller::frame::metrics::Metrics;
use swaplet_controller::run::Settings;
use swaplet_core::report::reason::Reason;
use swaplet_testbed::apiserver::{Effect, Verb};

use super::harness::{CONCURRENCY, Life, SWAPLET, World, exposition};
use super::node::Kubelet;
use super::objects::{pod, pod_of, sidecar};
use super::prometheus::{EVERY, Prometheus};

/// A controller that is watched.
struct Watched {
    world: World,
    life: Life,
    prometheus: Prometheus,
}

impl Watched {
    /// A controller and a running pod `p`, after some minutes without any alert.
    async fn with_pod(policy: &str) -> Self {
        Self::with_pod_under(policy, |_| {}).await
    }

    async fn with_pod_under(policy: &str, change: impl FnOnce(&mut Settings)) -> Self {
        let world = World::new();
        world.run_pod(&pod("p", policy)).await;
        let life = world.start(SWAPLET, CONCURRENCY, change);
        let mut watched = Self {
            world,
            life,
            prometheus: Prometheus::default(),
        };
        watched.minutes(6).await;
        assert_eq!(watched.prometheus.firing(), [""; 0]);
        watched
    }

    async fn minutes(&mut self, minutes: u32) {
        for _ in 0..minutes * 60 / EVERY {
            self.scrape().await;
        }
    }

    async fn scrape(&mut self) {
        self.world.wait(EVERY.into()).await;
        self.prometheus.scrape(&self.life.exposition());
    }
}

#[tokio::test(start_paused = true)]
async fn none_while_all_is_well() {
    let mut watched = Watched::with_pod("OnFailure").await;
    watched.world.start_kubelet(Kubelet::default());
    watched.world.ends("p", "main", 0).await;
    watched.minutes(30).await;
    assert_eq!(
        (
            watched.world.phase("p").as_str(),
            watched.prometheus.firing().len()
        ),
        ("Succeeded", 0)
    );
}

#[test]
fn where_nothing_is_scraped() {
    let mut prometheus = Prometheus::default();
    (0..=5 * 60 / EVERY).for_each(|_| prometheus.scrape(""));
    assert_eq!(prometheus.firing(), ["SwapletAbsent"]);
}

#[tokio::test(start_paused = true)]
async fn where_the_api_server_does_not_answer_a_watch() {
    let mut watched = Watched::with_pod("OnFailure").await;
    for verb in [Verb::Watch, Verb::List] {
        watched
            .world
            .fault(Effect::Hang, |rule| rule.verb(verb).resource("jobs"));
    }
    watched.minutes(5).await;
    assert_eq!(watched.prometheus.firing(), ["SwapletWatchStale"]);
    watched.minutes(10).await;
    assert_eq!(
        watched.prometheus.firing(),
        ["SwapletWatchStale", "SwapletWatchFailing"]
    );
}

#[tokio::test(start_paused = true)]
async fn where_writes_are_denied_and_so_a_pod_is_stuck() {
    let mut watched = Watched::with_pod("OnFailure").await;
    watched
        .world
        .patch_fault(Effect::reply(403).message("pods \"p\" is forbidden: no"));
    watched.world.ends("p", "main", 0).await;
    watched.minutes(2).await;
    assert_eq!(watched.prometheus.firing(), ["SwapletWritesDenied"]);
    watched.minutes(16).await;
    assert_eq!(
        watched.prometheus.firing(),
        ["SwapletWritesDenied", "SwapletPodStuck"]
    );
}

#[tokio::test(start_paused = true)]
async fn where_writes_fail() {
    let mut watched = Watched::with_pod("OnFailure").await;
    watched.world.patch_fault(Effect::reply(500));
    watched.world.ends("p", "main", 0).await;
    watched.minutes(14).await;
    assert_eq!(watched.prometheus.firing(), ["SwapletWritesFailing"]);
}

#[tokio::test(start_paused = true)]
async fn where_more_pods_come_than_are_written() {
    let mut watched = Watched::with_pod_under("OnFailure", |settings| {
        settings.write_deadline = Duration::from_secs(3600)
    })
    .await;
    watched.world.patch_fault(Effect::Hang);
    for number in 0..120 {
        let name = format!("q{number}");
        watched.world.run_pod(&pod(&name, "OnFailure")).await;
        watched.world.ends(&name, "main", 0).await;
        if number >= 60 {
            watched.scrape().await;
        }
    }
    assert_eq!(watched.prometheus.firing(), ["SwapletQueueGrowing"]);
}

#[tokio::test(start_paused = true)]
async fn where_a_pod_was_lost() {
    let mut watched = Watched::with_pod("Never").await;
    watched.world.start_kubelet(Kubelet {
        stop_code: 143,
        shows_stop: true,
        ..Kubelet::default()
    });
    watched.world.ends("p", "main", 0).await;
    watched.minutes(1).await;
    assert_eq!(
        (
            watched.world.phase("p").as_str(),
            watched.prometheus.firing()
        ),
        ("Failed", vec!["SwapletPodLost".to_owned()])
    );
}

/// That a panic comes to this reason is shown where decisions are isolated.
#[test]
fn where_a_decision_broke_off() {
    let mut registry = Registry::default();
    let metrics = Metrics::register(&mut registry);
    metrics.leads.set(1);
    let mut prometheus = Prometheus::default();
    prometheus.scrape(&exposition(&registry));
    metrics.decided(Reason::DecisionFailed);
    prometheus.scrape(&exposition(&registry));
    assert_eq!(prometheus.firing(), ["SwapletDefect"]);
}

#[tokio::test(start_paused = true)]
async fn where_somebody_has_to_mend_a_pod() {
    let mut watched = Watched::with_pod("Never").await;
    watched
        .world
        .run_pod(&pod_of("all", "OnFailure", vec![sidecar("side")]))
        .await;
    watched.minutes(16).await;
    assert_eq!(watched.prometheus.firing(), ["SwapletNeedsAHand"]);
}

#[tokio::test(start_paused = true)]
async fn where_a_node_has_rejected_a_swap() {
    let mut watched = Watched::with_pod("OnFailure").await;
    watched.world.ends("p", "main", 0).await;
    watched.scrape().await;
    watched
        .world
        .set_status(
            "p",
            json!({"phase": "Pending", "reason": "ProviderFailed", "message": "not supported"}),
        )
        .await;
    watched.minutes(1).await;
    assert_eq!(watched.prometheus.firing(), ["SwapletNodeRejects"]);
}
