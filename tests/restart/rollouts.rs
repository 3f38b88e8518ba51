//! Restarts that go well, and in which order.

use serde_json::{Value, json};

use crate::restart::daemon::{AFTER, Fate, start};
use crate::restart::world::{BEFORE, World};

#[tokio::test]
async fn containers_of_a_pod_are_restarted_and_the_story_is_told() {
    let mut world = World::new().await;
    world.pod("web-0").await;
    start(&mut world, &[]);
    let flags = "--ordered --force --grace-period 5 --unready-grace-period 0 --min-started-seconds 2 --failure-policy Ignore --timeout 60";
    let arguments: Vec<&str> = ["web-0", "-c", "log,app"]
        .into_iter()
        .chain(flags.split(' '))
        .collect();
    let ran = world.restart(&arguments).await;
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let row = format!("web-0   log         Succeeded   yes     {BEFORE}   {AFTER}   -");
    assert!(
        ran.out.lines().any(|line| line == row),
        "{row}\n{}",
        ran.out
    );
    for line in [
        "ContainerRecreateRequest web-0-restart-",
        "pod/web-0 log: Recreating",
        &format!("pod/web-0 app: started {AFTER} (before: {BEFORE})"),
        "pod/web-0 app: ready",
        "pod/web-0 app: Succeeded",
        "pod/web-0: restarted in ",
        "pods: 1 Succeeded",
    ] {
        assert!(ran.err.contains(line), "{line}: {}", ran.err);
    }
    let requests = world.requests();
    let request = &requests[0];
    assert_eq!(requests.len(), 1);
    assert_eq!(
        request["spec"],
        json!({
            "podName": "web-0", "containers": [{"name": "log"}, {"name": "app"}],
            "strategy": {"failurePolicy": "Ignore", "orderedRecreate": true, "forceRecreate": true, "minStartedSeconds": 2,
                "terminationGracePeriodSeconds": 5, "unreadyGracePeriodSeconds": 0},
            "activeDeadlineSeconds": 60, "ttlSecondsAfterFinished": 3600,
        })
    );
    let pod = world.server.peek("pods", "default", "web-0").unwrap();
    let labels = json!({"crr.apps.kruise.io/pod-uid": pod["metadata"]["uid"], "crr.apps.kruise.io/node-name": "node-1",
        "crr.apps.kruise.io/active": "true"});
    assert_eq!(request["metadata"]["labels"], labels);
    assert_eq!(
        request["metadata"]["ownerReferences"][0]["uid"],
        pod["metadata"]["uid"]
    );
}

#[tokio::test]
async fn the_pods_of_a_deployment_are_restarted_one_after_another() {
    let mut world = World::new().await;
    world.deployment(3, &["web-b", "web-a", "web-c"]).await;
    world.pod("stranger-with-the-same-labels").await;
    let log = start(&mut world, &[]);
    let ran = world.restart(&["deploy/web", "-c", "app"]).await;
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let one_by_one = ["web-a", "web-b", "web-c"]
        .iter()
        .flat_map(|pod| [format!("{pod} begins"), format!("{pod} ends")]);
    assert_eq!(log.lines(), one_by_one.collect::<Vec<_>>());
    assert!(ran.err.contains("pods: 3 Succeeded"), "{}", ran.err);
}

#[tokio::test]
async fn several_at_a_time_where_that_is_allowed_and_programs_can_read_the_result() {
    let mut world = World::new().await;
    world.deployment(3, &["web-a", "web-b", "web-c"]).await;
    let log = start(&mut world, &[]);
    let ran = world
        .restart(&[
            "deployment/web",
            "-c",
            "app",
            "--max-unavailable",
            "67%",
            "-o",
            "json",
        ])
        .await;
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let lines = log.lines();
    assert_eq!(lines[4..], ["web-c begins", "web-c ends"], "{lines:?}");
    let results: Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!(results["containers"][2]["pod"], "web-c");
    assert_eq!(
        (
            &results["containers"][0]["result"],
            &results["containers"][0]["started"]
        ),
        (&json!("Succeeded"), &json!(AFTER))
    );
}

#[tokio::test]
async fn pods_of_a_stateful_set_go_from_the_highest_ordinal_down() {
    let mut world = World::new().await;
    let spec = json!({"replicas": 2, "serviceName": "db", "selector": {"matchLabels": {"app": "web"}},
        "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "app", "image": "app:1"}]}}});
    let uid = world.create(json!({"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "db"}, "spec": spec})).await;
    for pod in ["db-2", "db-10"] {
        world
            .owned_pod(
                pod,
                json!([crate::restart::world::owner("StatefulSet", "db", &uid)]),
            )
            .await;
    }
    let log = start(&mut world, &[]);
    assert_eq!(world.restart(&["sts/db", "-c", "app"]).await.code, Some(0));
    assert_eq!(
        log.lines(),
        ["db-10 begins", "db-10 ends", "db-2 begins", "db-2 ends"]
    );
}

#[tokio::test]
async fn a_pod_that_comes_back_not_ready_holds_the_others() {
    let mut world = World::new().await;
    world.deployment(2, &["web-a", "web-b"]).await;
    let log = start(&mut world, &[("web-a", Fate::StaysUnready)]);
    let mut child = world.start(&["deploy/web", "-c", "app"]);
    world
        .until("web-a is over", |_| {
            log.lines().contains(&"web-a ends".to_owned())
        })
        .await;
    tokio::time::sleep(std::time::Duration::from_secs(3)).await;
    let waits = "1 pod waits: 1 unavailable, --max-unavailable is 1";
    world.says(&mut child, waits).await;
    assert_eq!(world.requests().len(), 1, "web-b is not touched");
    let statuses = ["app", "log"].map(|name| crate::restart::world::running(name, AFTER, 1, true));
    world.show("web-a", true, &statuses).await;
    let ran = world.end_of(child).await;
    assert_eq!(ran.code, Some(0), "{ran:?}");
}

#[tokio::test]
async fn a_budget_that_allows_no_disruption_is_waited_for() {
    let mut world = World::new().await;
    world.pod("web-0").await;
    world.budget(1, 0).await;
    start(&mut world, &[]);
    let mut child = world.start(&["web-0", "-c", "app"]);
    let waits = "PodDisruptionBudget web allows no disruption";
    world.says(&mut child, waits).await;
    tokio::time::sleep(std::time::Duration::from_secs(3)).await;
    assert_eq!(world.requests().len(), 0);
    world.pod("web-1").await;
    let left = kube::api::Patch::Merge(json!({"status": {"disruptionsAllowed": 1}}));
    let budgets: kube::Api<k8s_openapi::api::policy::v1::PodDisruptionBudget> =
        kube::Api::default_namespaced(world.client.clone());
    budgets
        .patch_status("web", &Default::default(), &left)
        .await
        .unwrap();
    let ran = world.end_of(child).await;
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let again = World::new().await;
    again.pod("web-0").await;
    again.budget(1, 0).await;
    let ran = again
        .restart(&[
            "web-0",
            "-c",
            "app",
            "--ignore-disruption-budgets",
            "--wait=false",
        ])
        .await;
    assert_eq!((ran.code, again.requests().len()), (Some(0), 1), "{ran:?}");
}

#[tokio::test]
async fn a_dry_run_shows_the_turns_and_makes_nothing() {
    let world = World::new().await;
    world.deployment(2, &["web-a", "web-b"]).await;
    world.budget(1, 1).await;
    let ran = world
        .restart(&[
            "deploy/web",
            "-c",
            "app",
            "--dry-run",
            "--max-unavailable",
            "2",
        ])
        .await;
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let expected = "POD     CONTAINERS   NODE     TURN\n\
                    web-a   app          node-1   now\n\
                    web-b   app          node-1   later: PodDisruptionBudget web allows no disruption\n";
    assert_eq!(ran.out, expected);
    assert_eq!(world.requests().len(), 0);
}
