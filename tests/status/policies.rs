//! What is told of SidecarPolicies.

use serde_json::{Value, json};

use super::{Cluster, EXIT, of};

/// A kind of policies, without its schema.
pub(super) fn policy_crd(kind: &str, plural: &str, scope: &str) -> Value {
    let version = json!({"name": "v1alpha1", "served": true, "storage": true, "subresources": {"status": {}},
        "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}});
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.swaplet.io")},
        "spec": {"group": "swaplet.io", "scope": scope, "names": {"kind": kind, "plural": plural}, "versions": [version]}})
}

const POLICIES: &str = "/apis/swaplet.io/v1alpha1/sidecarpolicies";

#[tokio::test(flavor = "multi_thread")]
async fn sidecar_policies_are_told_with_what_they_have_come_to() {
    let cluster = Cluster::start().await;
    cluster.leash().await;
    let flags = ["--exit-image", EXIT, "--sidecar-policies"];
    cluster.install("default", &flags).await;
    let missing = cluster.checks(1).await;
    let words = of(&missing, "sidecar policies")["words"].to_string();
    assert!(
        words.contains("are not served: apply deploy/crds"),
        "{words}"
    );
    let namespaced = "NamespacedSidecarPolicy";
    for crd in [
        policy_crd("SidecarPolicy", "sidecarpolicies", "Cluster"),
        policy_crd(namespaced, "namespacedsidecarpolicies", "Namespaced"),
    ] {
        let crds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
        cluster.create(crds, crd).await;
    }
    let policy = json!({"apiVersion": "swaplet.io/v1alpha1", "kind": "SidecarPolicy", "metadata": {"name": "mesh"},
        "spec": {"sidecars": [{"preset": "istio"}]}});
    cluster.create(POLICIES, policy).await;
    let refused = json!([{"reason": "NoHeadroom", "count": 2}]);
    let status = json!({"observedGeneration": 1, "matched": 7, "ended": 5, "refused": refused});
    cluster.status_of(&format!("{POLICIES}/mesh"), status).await;
    let told = cluster.checks(0).await;
    let words = of(&told, "sidecar policies")["words"].as_str().unwrap();
    assert_eq!(
        words,
        "on, 1 policy is there; pods that match: 7, ended: 5, not ended: 2 by NoHeadroom (SidecarPolicy mesh)"
    );
    let seen = &told["installations"][0]["sidecarPolicies"];
    assert_eq!(
        (&seen["on"], &seen["policies"][0]["ended"]),
        (&json!(true), &json!(5))
    );
    let wrong = json!({"apiVersion": "swaplet.io/v1alpha1", "kind": "SidecarPolicy", "metadata": {"name": "wrong"},
        "spec": {"sidecars": [{"preset": "isto"}]}});
    cluster.create(POLICIES, wrong).await;
    let told = cluster.checks(1).await;
    let words = of(&told, "sidecar policies")["words"].to_string();
    assert!(
        words.contains("SidecarPolicy wrong counts only in part: spec.sidecars[0]: preset"),
        "{words}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn u183_policies_of_namespaces_that_are_not_those_of_the_installation_are_not_judged() {
    let cluster = Cluster::start().await;
    cluster.leash().await;
    let own = "--namespace=default,second";
    let flags = ["--exit-image", EXIT, "--sidecar-policies", own];
    cluster.install("default", &flags).await;
    for crd in [
        policy_crd("SidecarPolicy", "sidecarpolicies", "Cluster"),
        policy_crd(
            "NamespacedSidecarPolicy",
            "namespacedsidecarpolicies",
            "Namespaced",
        ),
    ] {
        let crds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
        cluster.create(crds, crd).await;
    }
    let policy = |kind: &str, name: &str, preset: &str| {
        json!({"apiVersion": "swaplet.io/v1alpha1", "kind": kind,
        "metadata": {"name": name}, "spec": {"sidecars": [{"preset": preset}]}})
    };
    let of_all = policy("SidecarPolicy", "mesh", "istio");
    cluster.create(POLICIES, of_all).await;
    for (namespace, preset) in [("second", "istio"), ("third", "isto")] {
        let object =
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}});
        cluster.create("/api/v1/namespaces", object).await;
        let place = POLICIES.replace(
            "/sidecar",
            &format!("/namespaces/{namespace}/namespacedsidecar"),
        );
        let object = policy("NamespacedSidecarPolicy", "own", preset);
        cluster.create(&place, object).await;
    }
    let (_, out, err) = cluster.status(&["-o", "json"]).await;
    let told: Value = serde_json::from_str(&out).unwrap_or_else(|_| panic!("{out}{err}"));
    let words = of(&told, "sidecar policies")["words"].as_str().unwrap();
    assert!(words.starts_with("on, 2 policies are there"), "{words}");
    let seen = told["installations"][0]["sidecarPolicies"].to_string();
    assert!(
        seen.contains("second/own") && !seen.contains("third"),
        "{seen}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn policies_that_nobody_reads_need_attention() {
    let cluster = Cluster::start().await;
    cluster.leash().await;
    cluster.install("default", &["--exit-image", EXIT]).await;
    let off = cluster.checks(0).await;
    assert_eq!(of(&off, "sidecar policies")["state"], "note");
    let crd = policy_crd("SidecarPolicy", "sidecarpolicies", "Cluster");
    let crds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    cluster.create(crds, crd).await;
    let policy = json!({"apiVersion": "swaplet.io/v1alpha1", "kind": "SidecarPolicy", "metadata": {"name": "mesh"},
        "spec": {"sidecars": [{"preset": "istio"}]}});
    cluster.create(POLICIES, policy).await;
    let off = cluster.checks(1).await;
    let words = of(&off, "sidecar policies")["words"].to_string();
    assert!(words.contains("they are not read"), "{words}");
}

/// The policies that have to be there follow from what is switched on.
#[tokio::test(flavor = "multi_thread")]
async fn each_policy_that_is_missing_is_named() {
    let cluster = Cluster::start().await;
    cluster.leash().await;
    cluster
        .install(
            "default",
            &["--exit-image", EXIT, "--restart-without-leash", "--restart"],
        )
        .await;
    let checks = cluster.checks(1).await;
    let words = of(&checks, "admission policies")["words"].to_string();
    for name in ["swaplet-leash-requests", "swaplet-leash-own-requests"] {
        assert!(words.contains(name), "{words}");
    }
    assert!(!words.contains("pull-jobs"), "{words}");
}
