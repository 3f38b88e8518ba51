//! Jobs under `OnFailure` with a sidecar that crashes again and again: its own starts count as the
//! swaps do, so the phase ends such a pod.

use http::Method;
use serde_json::{Value, json};
use swaplet_core::objects::values::env::IGNORE_EXIT_CODE;
use swaplet_testbed::apiserver::{Effect, Rule, Verb};
use swaplet_testbed::virtual_node::{NodeOptions, Profile, VirtualNode};
use swaplet_testbed::{job_controller, scheduler};

use crate::harness::World;
use crate::objects::{main_container, sidecar};

const JOBS: &str = "/apis/batch/v1/namespaces/default/jobs";

/// The main container runs for four seconds, and so many sidecars until they are ended.
fn job(limit: u32, plain: usize, ignores: bool, lives: &str) -> Value {
    let mut main = main_container();
    main["args"] = json!(["run=4s"]);
    let mut metrics = sidecar("metrics");
    metrics["args"] = json!([format!("run={lives}"), "exit=3"]);
    if ignores {
        let ignored = json!({"name": IGNORE_EXIT_CODE, "value": "true"});
        metrics["env"].as_array_mut().unwrap().push(ignored);
    }
    let others = (0..plain).map(|nth| {
        let mut other = sidecar(&format!("side{nth}"));
        other["args"] = json!(["run=forever", "term=143"]);
        other
    });
    let containers: Vec<_> = [main].into_iter().chain(others).chain([metrics]).collect();
    let spec = json!({"restartPolicy": "OnFailure", "terminationGracePeriodSeconds": 4, "containers": containers});
    json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "job"},
        "spec": {"backoffLimit": limit, "template": {"spec": spec}}})
}

/// How the Job ends, and its conditions; the webhook of phases does not answer so many times.
async fn outcome(job: &Value, unanswered: usize) -> String {
    let world = World::new();
    let down = Effect::reply(500).message(
        "Internal error occurred: failed calling webhook \"w.example\": connection refused",
    );
    let of_phases = |rule: Rule| {
        rule.verb(Verb::Patch)
            .resource("pods")
            .subresource("status")
    };
    let of_ours = |rule: Rule| of_phases(rule).times(unanswered);
    if unanswered > 0 {
        world.fault(down, of_ours);
    }
    let (server, clock) = (&world.server, world.server.clock());
    let node = NodeOptions::new("node-1", Profile::kubelet());
    tokio::spawn(job_controller::run(server.client_as("jobs"), clock));
    tokio::spawn(scheduler::run(server.client_as("scheduler"), clock));
    tokio::spawn(VirtualNode::new(server.client_as("node"), clock, node).run());
    let _life = world.start_controller_that_may_finish();
    world.wait(2).await;
    world
        .request(Method::POST, JOBS, "application/json", job)
        .await;
    for _ in 0..180 {
        world.wait(5).await;
        let job = world.server.peek("jobs.batch", "default", "job").unwrap();
        let conditions = job["status"]["conditions"].as_array().cloned();
        let is_true = |condition: &&Value| condition["status"] == "True";
        if let Some(last) = conditions.unwrap_or_default().iter().rev().find(is_true) {
            return format!("{} {}", last["type"], last["reason"]);
        }
    }
    "does not end".to_owned()
}

#[tokio::test(start_paused = true)]
async fn a_sidecar_that_crashes_again_and_again_fails_no_job_by_the_swaps_beside_it() {
    for lives in ["1s", "3s"] {
        for ignores in [true, false] {
            for (limit, plain) in [(3, 0), (3, 1), (4, 2), (5, 3), (6, 1), (6, 4)] {
                let outcome = outcome(&job(limit, plain, ignores, lives), 0).await;
                assert!(
                    outcome.contains("Complete"),
                    "limit {limit}, {plain} more, lives {lives}, ignored {ignores}: {outcome}"
                );
            }
        }
    }
}

/// One that does not answer for seconds has denied nothing: no swap takes the last restart instead.
#[tokio::test(start_paused = true)]
async fn u96_a_webhook_that_is_away_for_seconds_makes_no_swap_of_a_phase() {
    for (limit, plain) in [(3, 0), (3, 1), (4, 2), (5, 3), (6, 4)] {
        let outcome = outcome(&job(limit, plain, false, "3s"), 5).await;
        assert!(
            outcome.contains("Complete"),
            "limit {limit}, {plain} more: {outcome}"
        );
    }
}
