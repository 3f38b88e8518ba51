//! Changed configuration of several tenants at once.

use http::Method;
use serde_json::json;
use swaplet_testbed::apiserver::{Effect, Verb};

use super::{Configured, web};

/// More than have their turn at once.
const GREEDY: usize = 12;

/// As behind webhooks that do not answer: each request hangs for ten seconds.
#[tokio::test(start_paused = true)]
async fn a9_a_restart_waits_for_none_of_the_requests_that_hang_in_other_namespaces() {
    let world = Configured::pods(1, "app=configmap/settings").await;
    let tenants: Vec<_> = (0..GREEDY)
        .map(|number| format!("a-greedy-{number}"))
        .collect();
    let settings = |tenant: &str| format!("/api/v1/namespaces/{tenant}/configmaps");
    let mut hangs = Vec::new();
    for tenant in &tenants {
        world.create_namespace(tenant).await;
        let object = json!({"metadata": {"name": "settings"}, "data": {"color": "red"}});
        world
            .world
            .request(Method::POST, &settings(tenant), "application/json", &object)
            .await;
        let mut pod = web(0, "app=configmap/settings");
        pod["metadata"]["namespace"] = json!(tenant);
        pod["metadata"]["ownerReferences"][0]["uid"] = json!(tenant);
        world.create(&pod).await;
        hangs.push(world.fault(Effect::Hang, |rule| {
            rule.verb(Verb::Create)
                .resource("containerrecreaterequests")
                .namespace(tenant)
        }));
    }
    world.wait(5).await;
    let _life = world.start().await;
    for tenant in &tenants {
        let path = format!("{}/settings", settings(tenant));
        let change = json!({"data": {"color": "blue"}});
        world
            .world
            .request(
                Method::PATCH,
                &path,
                "application/merge-patch+json",
                &change,
            )
            .await;
    }
    world.set_color("blue").await;
    world.wait(60).await;
    assert_eq!(world.restarts_of("web-0"), (1, 0));
    assert_eq!(world.names_of_requests().len(), 1);

    for hang in hangs {
        world.end_fault(hang);
    }
    world.wait(60).await;
    assert_eq!(world.names_of_requests().len(), 1 + GREEDY);
}
