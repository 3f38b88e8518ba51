//! What keeps containers from being restarted: no CRD, a bad annotation, a failure, a budget.

use std::time::Duration;

use http::Method;
use serde_json::{Value, json};
use swaplet_testbed::apiserver::{Effect, Verb};

use super::{Configured, ONE_POD, web};

/// A loop that has nothing to wait for would never let the time pass.
#[tokio::test(start_paused = true)]
async fn where_the_crd_is_not_there_nothing_is_done_until_it_comes() {
    let world = Configured::pods(1, "app=configmap/settings").await;
    let life = world.start_controller_on_config();
    life.line.hide(Some("/apis/apps.kruise.io"));
    world.wait(600).await;
    world.set_color("blue").await;
    world.wait(60).await;
    assert_eq!(world.restarts_of("web-0"), (0, 0));
    life.line.hide(None);
    world.wait(310).await;
    assert_eq!(
        world.restarts_of("web-0"),
        (0, 0),
        "what is seen first is no change"
    );
    world.set_color("green").await;
    world.wait(ONE_POD).await;
    assert_eq!(world.restarts_of("web-0"), (1, 0));
    world.assert_quiet().await;
}

#[tokio::test(start_paused = true)]
async fn a_bad_annotation_is_told_once_and_nothing_else_is_done() {
    let world = Configured::pods(1, "app=secret/tls").await;
    let _life = world.start().await;
    world.set_color("blue").await;
    world.wait(60).await;
    let [(reason, words)] = &*world.said("web-0") else {
        panic!("{:?}", world.said("web-0"))
    };
    assert_eq!(reason, "RestartOnInvalid");
    assert!(
        words.contains("annotation swaplet.io/restart-on: \"secret/tls\" is neither configmap/NAME nor secret-metadata/NAME"),
        "{words}"
    );
    assert!(world.requests().iter().all(|request| {
        !["configmaps", "secrets"].contains(&&*request.resource) || request.namespace == "state"
    }));
    assert_eq!(world.restarts_of("web-0"), (0, 0));
    world.assert_quiet().await;
}

/// The first pod cannot be restarted: no other one is begun with, until its request is deleted.
#[tokio::test(start_paused = true)]
async fn a_failure_stops_the_round() {
    let mut pods = [
        web(0, "app=configmap/settings"),
        web(1, "app=configmap/settings"),
    ];
    pods.iter_mut()
        .for_each(|pod| pod["spec"]["containers"][0]["imagePullPolicy"] = json!("Always"));
    let world = Configured::with(&pods).await;
    let _life = world.start().await;
    world.node.set_missing_images(
        ["registry.example/*", "registry.example/*@*"]
            .map(|pattern| pattern.parse().unwrap())
            .to_vec(),
    );
    world.set_color("blue").await;
    world.wait(120).await;
    let name = match &*world.names_of_requests() {
        [name] => name.clone(),
        other => panic!("one was asked for: {other:?}"),
    };
    let pod = if name.starts_with("web-0") {
        "web-0"
    } else {
        "web-1"
    };
    let (reason, words) = world.said(pod).pop().unwrap();
    assert_eq!(reason, "RestartOnStopped");
    assert!(
        words.contains(&format!("kubectl delete crr -n default {name}")),
        "{words}"
    );

    world.node.set_missing_images(Vec::new());
    world.wait(600).await;
    assert_eq!(
        world.names_of_requests(),
        [&*name],
        "nothing goes on by itself"
    );
    world
        .delete_object(&format!(
            "/apis/apps.kruise.io/v1alpha1/namespaces/default/containerrecreaterequests/{name}"
        ))
        .await;
    world.wait(600).await;
    assert_eq!(world.names_of_requests().len(), 2);
    assert!(
        ["web-0", "web-1"]
            .iter()
            .all(|pod| world.restarts_of(pod).0 >= 1)
    );
    world.assert_quiet().await;
}

/// A webhook takes away what the request is for.
#[tokio::test(start_paused = true)]
async fn u154_a_request_of_which_a_webhook_stores_less_is_told_and_made_once() {
    let world = Configured::pods(2, "app=configmap/settings").await;
    let life = world.start().await;
    world.server.set_webhook(|resource, object| {
        if resource == "containerrecreaterequests" {
            object["metadata"]["annotations"] = Value::Null;
        }
    });
    world.set_color("blue").await;
    world.wait(60).await;
    let [name] = &*world.names_of_requests() else {
        panic!("{:?}", world.names_of_requests())
    };
    let pod = &name[..5];
    let made = || {
        let requests = world.requests();
        let made = requests.iter().filter(|request| {
            request.verb == Verb::Create && request.resource == "containerrecreaterequests"
        });
        made.count()
    };
    let changes = async |number: usize| {
        let labels = json!({"metadata": {"labels": {"number": number.to_string()}}});
        world.put("pods", pod, &labels).await;
        world.wait(2).await;
    };
    let before = made();
    for number in 0..30 {
        changes(number).await;
    }
    assert_eq!(made(), before, "the pod has changed");
    // The next leader asks once, and is told the same.
    life.kill();
    let _next = world.start().await;
    for number in 30..60 {
        changes(number).await;
    }
    assert_eq!(made(), before + 1);
    assert_eq!(world.names_of_requests(), [&**name]);
    let told = format!("{:?}", world.notes(pod));
    assert!(
        told.contains("WriteDenied")
            && told.contains("does not say for which content of which pod it is"),
        "{told}"
    );

    world.server.set_webhook(|_, _| ());
    let place = "/apis/apps.kruise.io/v1alpha1/namespaces/default/containerrecreaterequests";
    world.delete_object(&format!("{place}/{name}")).await;
    world.wait(600).await;
    for pod in ["web-0", "web-1"] {
        assert!(world.restarts_of(pod).0 >= 1, "{pod}");
    }
    world.assert_quiet().await;
}

#[tokio::test(start_paused = true)]
async fn a_disruption_budget_is_waited_for() {
    let world = Configured::pods(2, "app=configmap/settings").await;
    let path = "/apis/policy/v1/namespaces/default/poddisruptionbudgets";
    let budget = json!({"metadata": {"name": "web"}, "spec": {"minAvailable": 2, "selector": {"matchLabels": {"app": "web"}}}});
    world
        .world
        .request(Method::POST, path, "application/json", &budget)
        .await;
    let status = |allowed: i32| {
        json!({"status": {"observedGeneration": 1, "disruptionsAllowed": allowed, "desiredHealthy": 2 - allowed, "currentHealthy": 2,
            "expectedPods": 2}})
    };
    world
        .request_patch(&format!("{path}/web/status"), &status(0))
        .await;
    let _life = world.start().await;
    world.set_color("blue").await;
    world.wait(120).await;
    assert!(world.names_of_requests().is_empty());
    world
        .request_patch(&format!("{path}/web/status"), &status(1))
        .await;
    world.wait(4 * ONE_POD).await;
    assert_eq!(
        (world.restarts_of("web-0"), world.restarts_of("web-1")),
        ((1, 0), (1, 0))
    );
    world.assert_quiet().await;
}

/// The pods of a namespace are listed once, not once for each budget.
#[tokio::test(start_paused = true)]
async fn each_of_several_budgets_counts_and_too_many_are_told() {
    let world = Configured::pods(2, "app=configmap/settings").await;
    let path = "/apis/policy/v1/namespaces/default/poddisruptionbudgets";
    let budget = async |name: &str, allowed: i32| {
        let budget = json!({"metadata": {"name": name}, "spec": {"selector": {"matchLabels": {"app": "web"}}}});
        world
            .world
            .request(Method::POST, path, "application/json", &budget)
            .await;
        let status = json!({"status": {"observedGeneration": 1, "disruptionsAllowed": allowed, "desiredHealthy": 2 - allowed}});
        world
            .request_patch(&format!("{path}/{name}/status"), &status)
            .await;
    };
    for number in 0..17 {
        budget(&format!("web-{number:02}"), i32::from(number != 9)).await;
    }
    let _life = world.start().await;
    let lists = || {
        let requests = world.requests();
        let lists = requests.iter().filter(|request| {
            request.verb == Verb::List
                && request.resource == "pods"
                && request.namespace == "default"
        });
        lists.count()
    };
    let before = lists();
    world.set_color("blue").await;
    world.wait(60).await;
    let notes = [world.said("web-0"), world.said("web-1")].concat();
    let [(reason, words)] = &*notes else {
        panic!("{notes:?}")
    };
    assert_eq!(reason, "RestartOnForbidden");
    assert!(
        words.ends_with("17 PodDisruptionBudgets cover the pods to be restarted, and at most 16 are counted: delete some, or narrow their selectors"),
        "{words}"
    );
    assert_eq!(lists(), before);

    world.delete_object(&format!("{path}/web-16")).await;
    world.wait(60).await;
    assert!(world.names_of_requests().is_empty(), "one allows nothing");
    let rounds = lists() - before;
    assert!((1..=8).contains(&rounds), "{rounds} lists in a minute");

    world.delete_object(&format!("{path}/web-09")).await;
    world.wait(4 * ONE_POD).await;
    assert_eq!(
        (world.restarts_of("web-0"), world.restarts_of("web-1")),
        ((1, 0), (1, 0))
    );
    world.assert_quiet().await;
}

#[tokio::test(start_paused = true)]
async fn budgets_that_are_not_listed_in_time_are_told() {
    let world = Configured::pods(1, "app=configmap/settings").await;
    let hangs = world.fault(Effect::Hang, |rule| {
        rule.verb(Verb::List).resource("poddisruptionbudgets")
    });
    let _life = world.start().await;
    world.set_color("blue").await;
    world.wait(25).await;
    let (_, words) = world.said("web-0").pop().unwrap();
    assert!(words.ends_with("were not listed within 15 s"), "{words}");
    world.end_fault(hangs);
    world.wait(60).await;
    assert_eq!(world.restarts_of("web-0"), (1, 0));
    world.assert_quiet().await;
}

/// The budgets that were read are those of the labels that the pod had.
#[tokio::test(start_paused = true)]
async fn a_pod_that_gets_other_labels_while_budgets_are_read_waits_for_the_budgets_of_these() {
    let world = Configured::pods(1, "app=configmap/settings").await;
    let path = "/apis/policy/v1/namespaces/default/poddisruptionbudgets";
    let budget = json!({"metadata": {"name": "other"}, "spec": {"selector": {"matchLabels": {"app": "other"}}}});
    world
        .world
        .request(Method::POST, path, "application/json", &budget)
        .await;
    let status =
        json!({"status": {"observedGeneration": 1, "disruptionsAllowed": 0, "desiredHealthy": 1}});
    world
        .request_patch(&format!("{path}/other/status"), &status)
        .await;
    let _life = world.start().await;
    world.fault(Effect::Delay(Duration::from_secs(8)), |rule| {
        rule.verb(Verb::List).resource("poddisruptionbudgets")
    });
    world.set_color("blue").await;
    let is_read = || {
        let requests = world.requests();
        let mut lists = requests.iter().filter(|request| request.verb == Verb::List);
        lists.any(|request| request.resource == "poddisruptionbudgets")
    };
    for _ in 0..ONE_POD {
        if is_read() {
            break;
        }
        world.wait(1).await;
    }
    assert!(is_read());
    let labels = json!({"metadata": {"labels": {"app": "other"}}});
    world
        .request_patch("/api/v1/namespaces/default/pods/web-0", &labels)
        .await;
    world.wait(60).await;
    assert!(world.names_of_requests().is_empty());
}

/// A controller that was not asked to does not even look.
#[tokio::test(start_paused = true)]
async fn without_the_flag_no_config_map_is_looked_at() {
    let world = Configured::pods(1, "app=configmap/settings").await;
    let _life = world.start_controller();
    world.wait(5).await;
    world.set_color("blue").await;
    world.wait(300).await;
    assert_eq!(world.restarts_of("web-0"), (0, 0));
    assert!(
        world
            .requests()
            .iter()
            .all(|request| request.resource != "configmaps")
    );
}

/// Anyone who may create requests in one namespace could write the uid of a pod of another.
#[tokio::test(start_paused = true)]
async fn a_forged_request_of_another_namespace_stops_and_restarts_nothing() {
    let world = Configured::pods(1, "app=configmap/settings").await;
    let _life = world.start().await;
    world.create_namespace("evil").await;
    let uid = world.world.get("web-0")["metadata"]["uid"].clone();
    let forged = json!({"apiVersion": "apps.kruise.io/v1alpha1", "kind": "ContainerRecreateRequest",
        "metadata": {"name": "forged",
            "labels": {"crr.apps.kruise.io/pod-uid": uid, "type": "virtual-kubelet"},
            "annotations": {"swaplet.io/restart-on": "{\"app\":{\"configmap/settings\":\"x\"}}"}},
        "spec": {"podName": "web-0", "containers": [{"name": "app"}]}});
    let place = "/apis/apps.kruise.io/v1alpha1/namespaces/evil/containerrecreaterequests";
    world
        .world
        .request(Method::POST, place, "application/json", &forged)
        .await;
    world.wait(60).await;
    assert_eq!(world.restarts_of("web-0"), (0, 0));

    world.set_color("blue").await;
    world.wait(ONE_POD).await;
    assert_eq!(world.restarts_of("web-0"), (1, 0));

    // Completed by its tenant, it says that the pod has other contents.
    let status = json!({"status": {"phase": "Completed", "containerRecreateStates": [{"name": "app", "phase": "Succeeded"}]}});
    world
        .world
        .request(
            Method::PATCH,
            &format!("{place}/forged/status"),
            "application/merge-patch+json",
            &status,
        )
        .await;
    world.wait(3 * ONE_POD).await;
    assert_eq!(world.restarts_of("web-0"), (1, 0));
}
