//! What counts by its metadata: labels and annotations of the pod, and Secrets.

use serde_json::{Value, json};
use swaplet_testbed::apiserver::{Effect, Verb};

use super::{Configured, ONE_POD, web};

/// A pod whose container `app` has the label `tier` in its environment.
fn tiered(number: usize, annotation: &str) -> Value {
    let mut pod = web(number, annotation);
    pod["metadata"]["labels"]["tier"] = json!("a");
    pod["spec"]["containers"][0]["env"] = json!([{"name": "TIER", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['tier']"}}}]);
    pod
}

/// `OpenKruise`'s daemon does so for its gate `InPlaceUpdateEnvFromMetadata`.
#[tokio::test(start_paused = true)]
async fn changed_labels_that_an_environment_takes_restart_it_one_pod_after_another() {
    let pods: Vec<_> = (0..3)
        .map(|number| tiered(number, "app=pod-metadata,configmap/settings"))
        .collect();
    let world = Configured::with(&pods).await;
    let life = world.start().await;
    let label = async |labels: Value| {
        for pod in ["web-0", "web-1", "web-2"] {
            let path = format!("/api/v1/namespaces/default/pods/{pod}");
            world
                .request_patch(&path, &json!({"metadata": {"labels": labels.clone()}}))
                .await;
        }
    };
    label(json!({"other": "x"})).await;
    world.wait(ONE_POD).await;
    assert_eq!(world.names_of_requests().len(), 0, "nothing takes this");
    for tier in ["b", "c", "d"] {
        label(json!({"tier": tier})).await;
        world.wait(2).await;
    }
    world.restarts_three_in_turn("pod-metadata").await;
    world.assert_quiet().await;

    // A change is found also if no controller ran when it happened, and one of both is one restart.
    life.kill();
    label(json!({"tier": "e"})).await;
    world.set_color("blue").await;
    let _next = world.start().await;
    world.wait(4 * ONE_POD).await;
    for pod in ["web-0", "web-1", "web-2"] {
        assert_eq!(world.restarts_of(pod), (2, 0), "{pod}");
    }
    world.assert_quiet().await;
}

/// The restart itself writes annotations of swaplet: a container that takes one would never be left
/// alone.
#[tokio::test(start_paused = true)]
async fn metadata_that_is_not_taken_is_told_and_restarts_nothing() {
    let mut own = web(0, "app=pod-metadata");
    own["spec"]["containers"][0]["env"] = json!([{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "metadata.annotations['swaplet.io/parked']"}}}]);
    let world = Configured::with(&[own]).await;
    let _life = world.start().await;
    let path = "/api/v1/namespaces/default/pods/web-0";
    for edit in ["x", "y"] {
        world
            .request_patch(
                path,
                &json!({"metadata": {"annotations": {"swaplet.io/other": edit}}}),
            )
            .await;
        world.wait(ONE_POD).await;
    }
    assert_eq!(world.restarts_of("web-0"), (0, 0));
    let said = world.said("web-0");
    assert!(
        matches!(&*said, [(reason, words)] if reason == "RestartOnInvalid" && words.contains("uses no label or annotation")),
        "{said:?}"
    );
    world.assert_quiet().await;
}

/// Of a Secret the metadata is asked for, and nothing else ever.
#[tokio::test(start_paused = true)]
async fn a_secret_counts_by_its_metadata() {
    let world = Configured::pods(1, "app=secret-metadata/tls").await;
    world
        .put("secrets", "tls", &json!({"data": {"key": "b25l"}}))
        .await;
    let _life = world.start().await;
    world
        .put("secrets", "tls", &json!({"data": {"key": "dHdv"}}))
        .await;
    world.wait(ONE_POD).await;
    assert_eq!(world.restarts_of("web-0"), (1, 0));
    world.assert_quiet().await;
    let asked: Vec<_> = world
        .requests()
        .into_iter()
        .filter(|request| request.resource == "secrets")
        .collect();
    assert!(
        asked.iter().any(|request| request.verb == Verb::List)
            && asked.iter().any(|request| request.verb == Verb::Watch)
    );
    for request in asked {
        assert!(
            request
                .accept
                .split(',')
                .all(|form| form.contains("as=PartialObjectMetadata")),
            "{}",
            request.accept
        );
    }
}

#[tokio::test(start_paused = true)]
async fn without_the_right_to_secrets_the_rest_goes_on() {
    let world = Configured::pods(1, "app=configmap/settings,secret-metadata/tls").await;
    let forbidden = world.fault(Effect::reply(403), |rule| rule.resource("secrets"));
    let _life = world.start().await;
    let [(reason, words)] = &*world.said("web-0") else {
        panic!("{:?}", world.said("web-0"))
    };
    assert_eq!(reason, "RestartOnForbidden");
    assert!(
        words.contains("secret-metadata/tls may not be watched")
            && words.contains("swaplet-restart-on-secrets"),
        "{words}"
    );
    world.set_color("blue").await;
    world.wait(ONE_POD).await;
    assert_eq!(world.restarts_of("web-0"), (1, 0));
    // The right is given: what is seen first is no change, what comes then is one.
    world.end_fault(forbidden);
    world
        .put("secrets", "tls", &json!({"data": {"key": "b25l"}}))
        .await;
    world.wait(60).await;
    let before = world.restarts_of("web-0").0;
    world
        .put("secrets", "tls", &json!({"data": {"key": "dHdv"}}))
        .await;
    world.wait(ONE_POD).await;
    assert_eq!(
        (world.restarts_of("web-0").0, world.said("web-0").len()),
        (before + 1, 3)
    );
    world.assert_quiet().await;
}
