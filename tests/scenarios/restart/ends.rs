//! Every request ends, at its time, whatever comes late and whoever was to carry it out.

use std::time::Duration;

use http::Method;
use serde_json::{Value, json};
use swaplet_core::cluster::node_table::NodeTable;
use swaplet_testbed::apiserver::{Effect, Verb};
use swaplet_testbed::virtual_node::Profile;

use super::world::{Restarts, app, pod};

const REQUESTS: &str = "/apis/apps.kruise.io/v1alpha1/namespaces/default/containerrecreaterequests";
const CRR: &str = "containerrecreaterequests";

/// Phase and words of the request and of its container.
fn outcome(world: &Restarts, name: &str) -> (String, String) {
    let request = world.get(name);
    assert_eq!(request["status"]["phase"], "Completed", "{request}");
    let state = &request["status"]["containerRecreateStates"][0];
    (
        state["phase"].as_str().unwrap().to_owned(),
        state["message"].as_str().unwrap_or_default().to_owned(),
    )
}

async fn labelled(world: &Restarts, name: &str, labels: Value, spec: &Value) {
    let object = json!({"apiVersion": "apps.kruise.io/v1alpha1", "kind": "ContainerRecreateRequest",
        "metadata": {"name": name, "labels": labels}, "spec": spec});
    world
        .world
        .request(Method::POST, REQUESTS, "application/json", &object)
        .await;
}

#[tokio::test(start_paused = true)]
async fn b1_d4_a_refused_request_is_deleted_when_its_time_has_come() {
    let world = Restarts::with_pod("Always").await;
    let _life = world.start_controller();
    for (name, pod, container) in [
        ("nobody", "nobody", "app"),
        ("typo", "p", "aap"),
        ("no-name", "a,b", "app"),
    ] {
        let spec = json!({"podName": pod, "containers": [{"name": container}], "ttlSecondsAfterFinished": 30});
        world.request(name, &spec).await;
    }
    world.wait(10).await;
    for name in ["nobody", "typo", "no-name"] {
        assert_eq!(outcome(&world, name).0, "Failed");
    }
    world.wait(30).await;
    assert!(
        ["nobody", "typo", "no-name"]
            .iter()
            .all(|name| world.find(name).is_none())
    );
    assert_eq!(world.restarts("app"), 0);
    world.assert_quiet().await;
}

#[tokio::test(start_paused = true)]
async fn b3_what_a_daemon_has_begun_ends_some_time_after_the_daemon_is_gone() {
    let world = Restarts::with_pod("Always").await;
    world.create_namespace("kruise-system").await;
    let daemon = json!({"apiVersion": "v1", "kind": "Pod",
        "metadata": {"namespace": "kruise-system", "name": "kruise-daemon-x", "labels": {"control-plane": "daemon"}},
        "spec": {"nodeName": "elsewhere", "restartPolicy": "Always", "containers": [{"name": "daemon", "image": "daemon:1"}]}});
    world.create(&daemon).await;
    labelled(
        &world,
        "r",
        json!({"crr.apps.kruise.io/node-name": "elsewhere"}),
        &app(),
    )
    .await;
    let begun = json!({"status": {"phase": "Recreating"}});
    world
        .world
        .request(
            Method::PATCH,
            &format!("{REQUESTS}/r/status"),
            "application/merge-patch+json",
            &begun,
        )
        .await;
    let _life = world.start_controller();
    world.wait(3600).await;
    assert_eq!(
        world.get("r")["status"],
        begun["status"],
        "it is the daemon's"
    );
    let path = "/api/v1/namespaces/kruise-system/pods/kruise-daemon-x";
    world
        .world
        .request(
            Method::DELETE,
            path,
            "application/json",
            &json!({"gracePeriodSeconds": 0}),
        )
        .await;
    world.wait(500).await;
    assert_eq!(
        world.get("r")["status"],
        begun["status"],
        "it may come back"
    );
    world.wait(300).await;
    let (phase, words) = outcome(&world, "r");
    assert!(
        phase == "Failed" && words.contains("no kruise-daemon is on the node"),
        "{words}"
    );
    assert_eq!(world.restarts("app"), 0);
    world.assert_quiet().await;
}

#[tokio::test(start_paused = true)]
async fn b4_a_row_of_the_node_classes_says_whether_a_vendor_carries_requests_out() {
    for (carried_out, row) in [
        (false, "vendorRestarts: true"),
        (true, "vendorRestarts: false"),
    ] {
        let world = Restarts::with_pod("Always").await;
        let rows =
            format!("- {{name: ours, class: VirtualUpdates, match: [{{name: virtual}}], {row}}}");
        let table = NodeTable::read(&rows)
            .unwrap()
            .before(&NodeTable::built_in());
        let _life = world.start_restarting(0, |settings| settings.rules.node_table = table);
        labelled(&world, "r", json!({"type": "virtual-kubelet"}), &app()).await;
        world.wait(60).await;
        if carried_out {
            assert_eq!(
                (outcome(&world, "r").0, world.restarts("app")),
                ("Succeeded".to_owned(), 1)
            );
        } else {
            assert!(world.get("r")["status"].is_null());
            assert_eq!(world.restarts("app"), 0);
        }
        world.assert_quiet().await;
    }
}

/// Whatever the reason is: a proxy before it, or a name that only this API server does not take.
#[tokio::test(start_paused = true)]
async fn d3_a_pod_that_the_api_server_takes_no_question_for_ends_its_request_in_words() {
    let world = Restarts::with_pod("Always").await;
    let _life = world.start_controller();
    world.wait(5).await;
    // Once is an accident.
    let fault = world.fault(Effect::reply(400), |rule| {
        rule.verb(Verb::List).resource("pods").times(1)
    });
    world.request("lucky", &app()).await;
    world.wait(30).await;
    assert!(world.server.faults().hits(fault) > 0);
    assert_eq!(
        (outcome(&world, "lucky").0, world.restarts("app")),
        ("Succeeded".to_owned(), 1)
    );
    let fault = world.fault(Effect::reply(400), |rule| {
        rule.verb(Verb::List).resource("pods")
    });
    world.request("r", &app()).await;
    world.wait(30).await;
    let (phase, words) = outcome(&world, "r");
    assert!(
        phase == "Failed" && words.starts_with("the pod p cannot be read: "),
        "{words}"
    );
    world.end_fault(fault);
    assert_eq!(world.restarts("app"), 1);
    world.assert_quiet().await;
}

/// It was looked for until the deadline of the request, or for an hour.
#[tokio::test(start_paused = true)]
async fn u90_a_pod_whose_hooks_are_too_large_ends_its_request_in_words() {
    let mut large = pod("Always");
    let hook = json!({"preStop": {"exec": {"command": ["x".repeat(200 << 10)]}}});
    large["spec"]["containers"][0]["lifecycle"] = hook;
    let world = Restarts::on(Profile::kubelet(), &large).await;
    let _life = world.start_controller();
    world.request("r", &app()).await;
    world.wait(30).await;
    let (phase, words) = outcome(&world, "r");
    assert!(
        phase == "Failed" && words.contains("its hooks and ports are larger"),
        "{words}"
    );
    assert_eq!(world.restarts("app"), 0);
    world.assert_quiet().await;
}

/// The clock of the controller is ten minutes off.
#[tokio::test(start_paused = true)]
async fn clock_that_is_wrong_by_ten_minutes_ends_nothing_early_or_late() {
    for ahead in [600, -600] {
        let world = Restarts::with_pod("Always").await;
        let _life = world.start_restarting(ahead, |_| ());
        let spec = json!({"podName": "p", "containers": [{"name": "app"}], "activeDeadlineSeconds": 60, "ttlSecondsAfterFinished": 60,
            "strategy": {"minStartedSeconds": 5}});
        world.request("r", &spec).await;
        world.wait(30).await;
        assert_eq!(
            (outcome(&world, "r").0, world.restarts("app")),
            ("Succeeded".to_owned(), 1),
            "{ahead}"
        );
        let request = world.get("r");
        let completed = world.time(&request["status"]["completionTime"]);
        let age = world
            .server
            .clock()
            .now()
            .duration_since(completed)
            .as_secs();
        assert!(
            (15..=30).contains(&age),
            "completed by the clock of the API server: {age}"
        );
        world.wait(25).await;
        assert!(world.find("r").is_some(), "{ahead}: its time is not over");
        world.wait(20).await;
        assert!(world.find("r").is_none(), "{ahead}");

        // One whose deadline does pass, at its time.
        let waits = json!({"podName": "p", "containers": [{"name": "app"}], "activeDeadlineSeconds": 60,
            "strategy": {"minStartedSeconds": 3000}});
        world.request("late", &waits).await;
        world.wait(50).await;
        assert_eq!(
            world.get("late")["status"]["phase"],
            "Recreating",
            "{ahead}"
        );
        world.wait(15).await;
        assert!(
            outcome(&world, "late").1.contains("activeDeadlineSeconds"),
            "{ahead}"
        );
        world.assert_quiet().await;
    }
}

/// The node has restarted the container when the answer to the patch comes.
#[tokio::test(start_paused = true)]
async fn bug8_a_late_answer_of_a_pod_changes_nothing_of_what_was_seen_since() {
    let world = Restarts::with_pod("Always").await;
    let _life = world.start_controller();
    world.next_patch_fault(Effect::ApplyThenDelay(Duration::from_secs(9)));
    world.request("r", &app()).await;
    world.wait(20).await;
    assert_eq!(
        (
            outcome(&world, "r").0,
            world.restarts("app"),
            world.image_changes("p")
        ),
        ("Succeeded".to_owned(), 1, 1)
    );
    assert_eq!(world.told(), ["ContainerRestarting", "ContainerRestarted"]);
    world.assert_quiet().await;
}

/// Somebody labels the request meanwhile.
#[tokio::test(start_paused = true)]
async fn bug8_a_late_answer_of_a_request_does_not_stop_it() {
    let world = Restarts::with_pod("Always").await;
    let _life = world.start_controller();
    let late = Effect::ApplyThenDelay(Duration::from_secs(9));
    let fault = world.fault(late, |rule| rule.verb(Verb::Patch).resource(CRR).times(1));
    world.request("r", &app()).await;
    world.wait(3).await;
    assert_eq!(world.server.faults().hits(fault), 1);
    let label = json!({"metadata": {"labels": {"by": "somebody"}}});
    world
        .world
        .request(
            Method::PATCH,
            &format!("{REQUESTS}/r"),
            "application/merge-patch+json",
            &label,
        )
        .await;
    world.wait(20).await;
    assert_eq!(
        (outcome(&world, "r").0, world.restarts("app")),
        ("Succeeded".to_owned(), 1)
    );
    world.assert_quiet().await;
}

#[tokio::test(start_paused = true)]
async fn bug8_where_every_answer_is_late_every_container_is_restarted_once() {
    for spec in [
        app(),
        json!({"podName": "p", "containers": [{"name": "app"}, {"name": "log"}], "strategy": {"orderedRecreate": true}}),
    ] {
        let world = Restarts::with_pod("OnFailure").await;
        let _life = world.start_controller();
        world.fault(Effect::ApplyThenDelay(Duration::from_secs(6)), |rule| {
            rule.verb(Verb::Patch)
        });
        world.request("r", &spec).await;
        world.wait(200).await;
        let both = spec["containers"].as_array().unwrap().len() == 2;
        assert_eq!(
            (
                outcome(&world, "r").0,
                world.restarts("app"),
                world.restarts("log")
            ),
            ("Succeeded".to_owned(), 1, i64::from(both))
        );
        assert!(
            !world.told().contains(&"RestartFailed".to_owned()),
            "{:?}",
            world.told()
        );
        world.assert_quiet().await;
    }
}

/// A policy of others denies the change: the next request for the pod has its turn.
#[tokio::test(start_paused = true)]
async fn bugs_b_a_restart_that_is_denied_ends_in_words() {
    let world = Restarts::with_pod("Always").await;
    let _life = world.start_controller();
    let denied = world.fault(Effect::reply(403), |rule| {
        rule.verb(Verb::Patch).resource("pods")
    });
    world.request("r", &app()).await;
    world.wait(20).await;
    world.request("next", &app()).await;
    world.wait(500).await;
    assert_eq!(world.get("r")["status"]["phase"], "Recreating");
    // The next one is as old by then, so it would not be tried for another ten minutes.
    for _ in 0..40 {
        if world.get("r")["status"]["phase"] != "Completed" {
            world.wait(5).await;
        }
    }
    let (phase, words) = outcome(&world, "r");
    let why = "not restarted: the API server has not applied the change of the pod for ";
    assert!(phase == "Failed" && words.starts_with(why), "{words}");
    world.end_fault(denied);
    world.wait(120).await;
    assert_eq!(
        (outcome(&world, "next").0, world.restarts("app")),
        ("Succeeded".to_owned(), 1)
    );
    assert_eq!(world.image_changes("p"), 1);
    world.assert_quiet().await;
}

/// The node has restarted the container for one request, and its status comes late: the next one is
/// made in between.
#[tokio::test(start_paused = true)]
async fn v5_a_restart_from_before_the_request_is_none_of_its_own() {
    let world = Restarts::with_pod("Always").await;
    let _life = world.start_controller();
    world.fault(Effect::Delay(Duration::from_secs(6)), |rule| {
        rule.verb(Verb::Patch)
            .resource("pods")
            .subresource("status")
            .user_agent("node")
    });
    world.request("a", &app()).await;
    world.wait(5).await;
    assert_eq!((world.image_changes("p"), world.restarts("app")), (1, 0));
    world.request("b", &app()).await;
    world.wait(60).await;
    for name in ["a", "b"] {
        assert_eq!(outcome(&world, name).0, "Succeeded", "{name}");
    }
    assert_eq!(world.restarts("app"), 2);
    let made = world.time(&world.get("b")["metadata"]["creationTimestamp"]);
    let started = world.started("app", &world.pod());
    assert!(started > made, "{started} {made}");
    world.assert_quiet().await;
}
