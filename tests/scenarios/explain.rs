//! What `swaplet explain` says before is what the controller does afterwards, under the same rules.

use serde_json::{Value, json};
use swaplet_controller::cluster::rules::Rules;
use swaplet_controller::frame::clock::time_of_day;
use swaplet_controller::terminate::snapshot::policies::PodPolicies;
use swaplet_controller::terminate::snapshot::{Scope, Snapshot};
use swaplet_core::objects::pod::Pod;
use swaplet_core::objects::pod::wire::PodWire;
use swaplet_core::report::decision::Method;
use swaplet_core::terminate::explain::Explanation;
use swaplet_core::terminate::methods::AllowedMethods;
use swaplet_testbed::apiserver::Verb;

use super::harness::{CONCURRENCY, SWAPLET, World, rules};
use super::objects::{main_container, pod, pod_of, sidecar, sidecar_that_calls};

/// A pod whose main containers have just ended, on a node with these labels.
async fn stuck(labels: &Value, pod: &Value) -> World {
    let world = World::new();
    world.label_node("node-1", labels).await;
    world.run_pod(pod).await;
    world.ends("p", "main", 0).await;
    world
}

impl World {
    fn read(&self, name: &str) -> Pod {
        serde_json::from_value::<PodWire>((*self.get(name)).clone())
            .unwrap()
            .read()
            .unwrap()
    }

    async fn explain(&self, rules: &Rules) -> Explanation {
        let before = self.server.recorded().len();
        let pod = self.read("p");
        let snapshot = Snapshot::of_pod(
            &self.server.client_as("user"),
            rules.clone(),
            &Scope::default(),
            &mut PodPolicies::none(),
            &pod,
        )
        .await;
        assert_eq!(snapshot.remarks().lines(), [""; 0]);
        assert!(
            self.server.recorded()[before..]
                .iter()
                .all(|request| matches!(request.verb, Verb::Get | Verb::List | Verb::Watch))
        );
        snapshot.explain(&pod)
    }
}

fn under(allowed: AllowedMethods) -> Rules {
    Rules { allowed, ..rules() }
}

/// What is explained of a pod on a node with these labels is what a controller does then.
async fn does_what_was_explained(labels: &Value, pod: &Value, rules: &Rules, reason: &str) {
    let world = stuck(labels, pod).await;
    let explained = world.explain(rules).await.decision;
    assert_eq!(explained.reason.as_str(), reason, "{labels} {pod}");
    let life = world.start_controller_under(rules.clone(), SWAPLET, CONCURRENCY);
    world.wait(5).await;
    let told = explained
        .done
        .iter()
        .chain(&explained.reports)
        .next()
        .unwrap();
    let notes = world.notes("p");
    if told.reason.is_event() {
        assert!(
            notes.contains(&(told.reason.to_string(), told.note.clone())),
            "{told:?}: {notes:?}"
        );
        return;
    }
    assert_eq!(notes, []);
    let decided = format!("swaplet_decisions_total{{reason=\"{reason}\"}}");
    assert_eq!(life.sample(&decided), Some(1.0));
    for swap in explained.swaps() {
        assert_eq!(world.image_of("p", &swap.container), *swap.to);
    }
}

#[tokio::test(start_paused = true)]
async fn the_controller_does_what_was_explained() {
    let (plain, swap) = (json!({}), AllowedMethods::default());
    let virtual_node = json!({"type": "virtual-kubelet"});
    let class = |class: &str| json!({"type": "virtual-kubelet", "swaplet.io/node-class": class});
    let (inert, updates) = (class("VirtualInert"), class("VirtualUpdates"));
    let calls_own = pod_of(
        "p",
        "Never",
        vec![
            main_container(),
            sidecar_that_calls("side", "/opt/own/server"),
        ],
    );
    let all_marked = pod_of("p", "Never", vec![sidecar("main"), sidecar("side")]);
    let (never, on_failure) = (pod("p", "Never"), pod("p", "OnFailure"));
    let finish_first = AllowedMethods {
        prefer: Some(Method::Finish),
        finish: true,
        ..swap
    };
    let under_never = AllowedMethods {
        swap_under_never: true,
        ..swap
    };
    for (labels, pod, allowed, reason) in [
        (&plain, &never, swap, "SidecarSwapped"),
        (&plain, &on_failure, swap, "SidecarSwapped"),
        (&plain, &calls_own, swap, "NeedsImage"),
        (&plain, &all_marked, swap, "OnlySidecars"),
        (&inert, &on_failure, swap, "NoRung"),
        (&inert, &on_failure, finish_first, "PhaseWritten"),
        (&updates, &on_failure, swap, "SidecarSwapped"),
        (&updates, &never, under_never, "SidecarSwapped"),
        (&virtual_node, &never, swap, "NoRung"),
        (&virtual_node, &on_failure, swap, "SidecarSwapped"),
    ] {
        does_what_was_explained(labels, pod, &under(allowed), reason).await;
    }
}

#[tokio::test(start_paused = true)]
async fn what_takes_time_counts_from_the_end_of_the_mains() {
    let world = stuck(&json!({}), &pod("p", "Never")).await;
    let finish_first = under(AllowedMethods {
        prefer: Some(Method::Finish),
        finish: true,
        ..AllowedMethods::default()
    });
    assert_eq!(
        world.explain(&finish_first).await.decision.reason.as_str(),
        "PhaseWritten"
    );
    let ended =
        json!({"exitCode": 0, "reason": "Completed", "finishedAt": time_of_day().to_string()});
    let mut statuses = world.get("p")["status"]["containerStatuses"].clone();
    statuses[0]["state"] = json!({"terminated": ended});
    world
        .set_status("p", json!({"containerStatuses": statuses}))
        .await;
    assert_eq!(
        world.explain(&finish_first).await.decision.reason.as_str(),
        "FinishWaits"
    );
}
