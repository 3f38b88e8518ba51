//! Rights that are missing: of whoever asks, and of what looks like an installation.

use std::time::Duration;

use serde_json::json;
use swaplet_testbed::apiserver::{Effect, Rule};
use tokio::net::TcpListener;
use tokio::time::timeout;

use super::policies::policy_crd;
use super::{Cluster, EXIT, of};

#[tokio::test(flavor = "multi_thread")]
async fn what_may_not_be_asked_is_said_and_makes_exit_code_2() {
    let cluster = Cluster::start().await;
    cluster.leash().await;
    cluster.install("default", &["--exit-image", EXIT]).await;
    for resource in [
        "subjectaccessreviews",
        "validatingadmissionpolicies",
        "nodes",
    ] {
        let rule = Rule::new(Effect::reply(403).message("not for jane"));
        cluster
            .server
            .faults()
            .add(rule.user_agent("swaplet/").resource(resource));
    }
    let status = cluster.checks(2).await;
    for subject in ["rights", "admission policies", "nodes"] {
        assert_eq!(of(&status, subject)["state"], "unknown", "{status:#}");
    }
    let rule = Rule::new(Effect::reply(403).message("not for jane"));
    cluster
        .server
        .faults()
        .add(rule.user_agent("swaplet/").resource("deployments"));
    for (flags, place) in [
        (&[][..], "list Deployments of all namespaces"),
        (&["-n", "system"], "list Deployments of namespace system"),
    ] {
        let (code, out, err) = cluster.status(flags).await;
        // No advice leads to the other call.
        assert!(
            code == Some(2) && out.contains(place) && !out.contains("-n names"),
            "{out}{err}"
        );
    }
}

/// As the role `edit` of Kubernetes: no Deployment of other namespaces, no node, and Events in the
/// core group only.
#[tokio::test(flavor = "multi_thread")]
async fn c6_a_tenant_sees_the_pods_and_events_of_its_namespace() {
    let cluster = Cluster::start().await;
    cluster.stuck().await;
    let forbid = |narrow: &dyn Fn(Rule) -> Rule| {
        let rule = Rule::new(Effect::reply(403).message("forbidden for dev: a long sentence"));
        let rule = narrow(rule.user_agent("swaplet/"));
        cluster.server.faults().add(rule);
    };
    for resource in ["deployments", "nodes", "configmaps"] {
        forbid(&|rule| rule.resource(resource));
    }
    forbid(&|rule| {
        rule.resource("events")
            .field_selector("reportingController")
    });
    let about = json!({"kind": "Pod", "namespace": "default", "name": "report-1"});
    cluster
        .create("/api/v1/namespaces/default/events", json!({"apiVersion": "v1", "kind": "Event", "metadata": {"name": "told"},
            "involvedObject": about, "type": "Warning", "reason": "NeedsImage", "message": "core", "action": "Terminate",
            "eventTime": "2026-01-01T00:00:00.000000Z", "reportingComponent": "swaplet.io/controller", "reportingInstance": "i"}))
        .await;
    let status = cluster.checks(1).await;
    let words = |subject: &str| of(&status, subject)["words"].as_str().unwrap().to_owned();
    for subject in ["installation", "nodes", "Jobs on virtual nodes"] {
        assert_eq!(of(&status, subject)["state"], "unknown", "{status:#}");
    }
    assert!(
        words("installation").contains("namespace default"),
        "{status:#}"
    );
    assert_eq!(
        of(&status, "stuck pods")["state"],
        "attention",
        "{status:#}"
    );
    assert_eq!(status["warnings"][0]["note"], "core", "{status:#}");
    assert_eq!(
        words("nodes"),
        "cannot be read: your rights do not allow it"
    );
    let (_, out, err) = cluster.status(&[]).await;
    assert!(
        !format!("{out}{err}").contains("a long sentence"),
        "{out}{err}"
    );
    // One with no right at all.
    forbid(&|rule| rule);
    let (code, out, err) = cluster.status(&[]).await;
    assert!(
        code == Some(2) && out.contains("stuck pods") && !out.contains("none"),
        "{out}{err}"
    );
}

/// They may name what runs on in pods that seem to wait for nothing.
#[tokio::test(flavor = "multi_thread")]
async fn u175_where_policies_cannot_be_read_it_is_not_said_that_no_pod_is_stuck() {
    let cluster = Cluster::start().await;
    for (kind, plural, scope) in [
        ("SidecarPolicy", "sidecarpolicies", "Cluster"),
        (
            "NamespacedSidecarPolicy",
            "namespacedsidecarpolicies",
            "Namespaced",
        ),
    ] {
        let crds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
        cluster.create(crds, policy_crd(kind, plural, scope)).await;
    }
    for resource in ["deployments", "namespacedsidecarpolicies"] {
        let rule = Rule::new(Effect::reply(403).message("not for jane"));
        let rule = rule.user_agent("swaplet/").resource(resource);
        cluster.server.faults().add(rule);
    }
    let status = cluster.checks(2).await;
    let stuck = of(&status, "stuck pods");
    assert_eq!(stuck["state"], "unknown", "{stuck}");
    let words = stuck["words"].as_str().unwrap();
    assert!(words.contains("may name sidecars too"), "{words}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_api_server_without_admission_policies_has_none() {
    let cluster = Cluster::start().await;
    cluster.install("default", &["--exit-image", EXIT]).await;
    let rule = Rule::new(Effect::reply(404).message("404 page not found"));
    let rule = rule.resource("validatingadmissionpolicies");
    cluster.server.faults().add(rule.user_agent("swaplet/"));
    let status = cluster.checks(0).await;
    let check = of(&status, "admission policies");
    assert_eq!(check["state"], "note", "{check}");
    let words = check["words"].as_str().unwrap();
    assert!(words.contains("1.30 or later"), "{words}");
}

/// A cluster with an installation, and beside it a Deployment of a tenant with these arguments.
async fn beside_a_tenant(ours: &[&str], theirs: &[&str]) -> Cluster {
    let cluster = Cluster::start().await;
    cluster.leash().await;
    cluster.install("default", ours).await;
    let meta = json!({"name": "tenant"});
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": meta});
    cluster.create("/api/v1/namespaces", namespace).await;
    cluster.install("tenant", theirs).await;
    cluster.server.set_webhook(|resource, object| {
        let user = object["spec"]["user"].as_str().unwrap_or_default();
        if resource == "subjectaccessreviews" && user.contains(":tenant:") {
            object["status"] = json!({"allowed": false});
        }
    });
    cluster
}

/// Whoever may make Deployments can give one the label: that must not make the status of the
/// installation a bad one, also if the flags make no sense.
#[tokio::test(flavor = "multi_thread")]
async fn a_deployment_without_any_right_is_taken_for_none() {
    for theirs in ["--exit-image=evil.example/exit:v1", "--of-tomorrow=x"] {
        let cluster = beside_a_tenant(&["--exit-image", EXIT], &[theirs]).await;
        let status = cluster.checks(0).await;
        let checks = status["checks"].as_array().unwrap();
        let of_tenant: Vec<_> = checks
            .iter()
            .filter(|check| check["installation"] == "tenant/swaplet")
            .collect();
        assert!(
            of_tenant.len() == 1 && of_tenant[0]["state"] == "note",
            "{theirs}: {status:#}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_registry_that_only_a_tenant_names_is_not_asked() {
    let registry = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let image = format!("{}/exit:v1", registry.local_addr().unwrap());
    let cluster = beside_a_tenant(&["--prefer=finish"], &["--exit-image", &image]).await;
    let (code, out, err) = cluster.status(&["--registry"]).await;
    assert_eq!(code, Some(0), "{out}{err}");
    let asked = timeout(Duration::from_millis(200), registry.accept()).await;
    assert!(asked.is_err(), "{out}");
}
