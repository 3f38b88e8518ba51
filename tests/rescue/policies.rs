//! Sidecars that nobody marked: what rescue, explain and `policy suggest` make of SidecarPolicies.

use std::time::Duration;

use kube::api::{DeleteParams, DynamicObject, PostParams};
use kube::core::{ApiResource, GroupVersionKind};
use kube::{Api, Client};
use serde_json::{Value, json};

use super::{Cluster, EXIT, Ran, job};

/// The CRDs, without their schema.
async fn install_crds(client: &Client) {
    for (kind, plural, scope) in [
        ("SidecarPolicy", "sidecarpolicies", "Cluster"),
        (
            "NamespacedSidecarPolicy",
            "namespacedsidecarpolicies",
            "Namespaced",
        ),
    ] {
        let version = json!({"name": "v1alpha1", "served": true, "storage": true, "subresources": {"status": {}},
            "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}});
        let crd = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": format!("{plural}.swaplet.io")},
            "spec": {"group": "swaplet.io", "scope": scope, "names": {"kind": kind, "plural": plural}, "versions": [version]}});
        let request =
            http::Request::post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions")
                .header("content-type", "application/json")
                .body(crd.to_string().into_bytes())
                .unwrap();
        client.request::<Value>(request).await.unwrap();
    }
}

/// Creates a policy as `kubectl apply` would.
async fn apply(client: &Client, policy: &Value) {
    let policy: DynamicObject = serde_json::from_value(policy.clone()).unwrap();
    let kind = policy.types.clone().unwrap().kind;
    let plural = match &*kind {
        "SidecarPolicy" => "sidecarpolicies",
        _ => "namespacedsidecarpolicies",
    };
    let gvk = GroupVersionKind::gvk("swaplet.io", "v1alpha1", &kind);
    let resource = ApiResource::from_gvk_with_plural(&gvk, plural);
    let api: Api<DynamicObject> = match &policy.metadata.namespace {
        Some(namespace) => Api::namespaced_with(client.clone(), namespace, &resource),
        None => Api::all_with(client.clone(), &resource),
    };
    api.create(&PostParams::default(), &policy).await.unwrap();
}

fn policy(name: &str, sidecars: &Value) -> Value {
    json!({"apiVersion": "swaplet.io/v1alpha1", "kind": "SidecarPolicy",
        "metadata": {"name": name}, "spec": {"sidecars": sidecars}})
}

/// A Job whose sidecars nobody marks.
pub(super) fn unmarked(name: &str, sidecars: &[&str]) -> Value {
    let mut job = job(name, "Never");
    let containers = &mut job["spec"]["template"]["spec"]["containers"];
    let marked = containers.as_array_mut().unwrap().pop().unwrap();
    for name in sidecars {
        let mut sidecar = marked.clone();
        sidecar["name"] = (*name).into();
        sidecar["env"] = json!([]);
        containers.as_array_mut().unwrap().push(sidecar);
    }
    job
}

impl Cluster {
    async fn suggest(&self, arguments: &[&str]) -> Ran {
        let arguments = [&["suggest"], arguments].concat();
        Ran::of(self.command("policy", &arguments).output().await.unwrap())
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_policy_names_is_ended_where_policies_are_read_and_no_status_is_written() {
    let cluster = Cluster::with_stuck(&[unmarked("report", &["log"])]).await;
    install_crds(&cluster.client).await;
    let rule = json!([{"name": "lo*", "delaySeconds": 1}]);
    apply(&cluster.client, &policy("logs", &rule)).await;
    let exit_image = format!("--exit-image={EXIT}");
    cluster.install(&[&exit_image]).await;
    let without = cluster.rescue(&[]).await.exits(0);
    assert!(without.err.contains("No pod of"), "{}", without.err);
    let explained = cluster.explain(&["job/report"]).await.exits(0);
    assert!(
        explained
            .out
            .contains("Deployment default/swaplet runs without --sidecar-policies"),
        "{}",
        explained.out
    );
    let listed = cluster
        .rescue(&["--dry-run", "--sidecar-policies"])
        .await
        .exits(0);
    assert!(
        listed.line("report").contains("SidecarSwapped"),
        "{}",
        listed.out
    );
    let explained = cluster
        .explain(&["job/report", "--sidecar-policies"])
        .await
        .exits(0);
    assert!(
        explained
            .out
            .contains("sidecar, by SidecarPolicy logs, sidecars[0], delay 1 s"),
        "{}",
        explained.out
    );
    let ended = cluster.rescue(&["--sidecar-policies"]).await.exits(0);
    assert!(ended.line("report").contains("Succeeded"), "{}", ended.out);
    cluster.job_completes("report").await;
    let stored = cluster
        .server
        .peek("sidecarpolicies.swaplet.io", "", "logs");
    assert_eq!(
        stored.unwrap()["status"],
        Value::Null,
        "some pods say nothing of a policy"
    );
}

/// A pod that the controller only forgets has not ended.
#[tokio::test(flavor = "multi_thread")]
async fn u101_a_pod_whose_policy_is_deleted_meanwhile_is_not_called_ended() {
    let cluster = Cluster::with_stuck(&[unmarked("report", &["log"])]).await;
    install_crds(&cluster.client).await;
    let rule = json!([{"name": "log", "delaySeconds": 60}]);
    apply(&cluster.client, &policy("logs", &rule)).await;
    let exit_image = format!("--exit-image={EXIT}");
    cluster.install(&[&exit_image]).await;
    let deletes = async {
        tokio::time::sleep(Duration::from_secs(3)).await;
        let gvk = GroupVersionKind::gvk("swaplet.io", "v1alpha1", "SidecarPolicy");
        let resource = ApiResource::from_gvk_with_plural(&gvk, "sidecarpolicies");
        let api: Api<DynamicObject> = Api::all_with(cluster.client.clone(), &resource);
        api.delete("logs", &DeleteParams::default()).await.unwrap();
    };
    let (ended, ()) = tokio::join!(cluster.rescue(&["--sidecar-policies"]), deletes);
    let ended = ended.exits(1);
    assert!(ended.line("report").contains("NoSidecar"), "{}", ended.out);
}

#[tokio::test(flavor = "multi_thread")]
async fn explain_and_rescue_read_policies_where_the_installation_does() {
    let cluster = Cluster::with_stuck(&[unmarked("report", &["log"])]).await;
    install_crds(&cluster.client).await;
    apply(&cluster.client, &policy("logs", &json!([{"name": "log"}]))).await;
    let exit_image = format!("--exit-image={EXIT}");
    cluster.install(&[&exit_image, "--sidecar-policies"]).await;
    let explained = cluster
        .explain(&["job/report", "-o", "json"])
        .await
        .exits(0);
    let explained: Value = serde_json::from_str(&explained.out).unwrap();
    let sidecar = &explained["pods"][0]["sidecars"][0];
    assert_eq!(
        (&sidecar["container"], &sidecar["policy"]),
        (
            &json!("log"),
            &json!({"kind": "SidecarPolicy", "namespace": null, "name": "logs", "index": 0})
        )
    );
    cluster.rescue(&[]).await.exits(0);
    cluster.job_completes("report").await;
}

/// An installation that is for some namespaces only may read policies there.
#[tokio::test(flavor = "multi_thread")]
async fn b6_policies_count_where_it_is_not_known_that_nobody_reads_them() {
    let cluster = Cluster::with_stuck(&[unmarked("report", &["log"])]).await;
    install_crds(&cluster.client).await;
    apply(&cluster.client, &policy("logs", &json!([{"name": "log"}]))).await;
    let exit_image = format!("--exit-image={EXIT}");
    let own = ["--namespace=default", "--sidecar-policies", &exit_image];
    cluster.install(&own).await;
    cluster.server.set_webhook(|resource, object| {
        if resource == "subjectaccessreviews" {
            let namespace = &object["spec"]["resourceAttributes"]["namespace"];
            object["status"] = json!({"allowed": namespace == "default"});
        }
    });
    for (place, words) in [
        (
            &["-n", "default"][..],
            "flags of Deployment default/swaplet",
        ),
        (
            &["-A"],
            "-n NAMESPACE takes those of the installation that is for it",
        ),
    ] {
        let ran = cluster
            .rescue(&[&["--dry-run"], place].concat())
            .await
            .exits(0);
        assert!(!ran.line("report").is_empty(), "{}{}", ran.out, ran.err);
        assert!(
            ran.err.contains(words) && !ran.out.contains("Nothing marks"),
            "{}{}",
            ran.out,
            ran.err
        );
    }
}

/// A dry run says what could not be written.
#[tokio::test(flavor = "multi_thread")]
async fn b6_a_right_that_is_missing_is_told_before_it_is_needed() {
    let cluster = Cluster::with_stuck(&[super::job("report", "Never")]).await;
    cluster.server.set_webhook(|resource, object| {
        if resource == "selfsubjectaccessreviews" {
            object["status"] = json!({"allowed": false});
        }
    });
    let ran = cluster
        .rescue(&["--dry-run", "--exit-image", EXIT])
        .await
        .exits(0);
    let words =
        "your rights do not allow to patch pods in namespace default, which would end 1 pod";
    assert!(ran.err.contains(words), "{}", ran.err);
}

/// The same beside each advice to call `swaplet rescue`.
#[tokio::test(flavor = "multi_thread")]
async fn u176_who_may_not_follow_an_advice_is_told() {
    let jobs = [unmarked("report", &["log"]), job("marked", "Never")];
    let cluster = Cluster::with_stuck(&jobs).await;
    cluster.server.set_webhook(|resource, object| {
        if resource == "selfsubjectaccessreviews" {
            object["status"] = json!({"allowed": false});
        }
    });
    let patches = |resource: &str, does: &str| {
        format!("allow to patch {resource} in namespace default, which {does}: ask for")
    };
    let would = "would end 1 pod";
    // What ends the other one is decided when it is marked: it may be the phase.
    let may = "may be needed to end 1 pod with unmarked sidecars";
    let both = format!("{would} and {may}");
    let ran = cluster.rescue(&["--dry-run"]).await.exits(0);
    assert!(
        ran.err.contains(&patches("pods", &both)) && ran.err.contains(&patches("pods/status", may)),
        "{}",
        ran.err
    );
    let never = ["--dry-run", "--finish=never"];
    let ran = cluster.rescue(&never).await.exits(0);
    assert!(
        ran.err.contains(&patches("pods", &both)) && !ran.err.contains("pods/status"),
        "{}",
        ran.err
    );
    for (job, expected) in [
        ("job/report", &[("pods", may), ("pods/status", may)][..]),
        ("job/marked", &[("pods", would)]),
    ] {
        let ran = cluster.explain(&[job]).await.exits(0);
        let lacks = ran.out.matches("allow to patch").count();
        assert!(
            ran.out.contains("swaplet rescue") && lacks == expected.len(),
            "{}",
            ran.out
        );
        for (resource, does) in expected {
            assert!(ran.out.contains(&patches(resource, does)), "{}", ran.out);
        }
    }
}

/// As for the role `view` of Kubernetes, which sees the pods.
#[tokio::test(flavor = "multi_thread")]
async fn u175_what_a_policy_that_cannot_be_read_may_name_is_not_said_to_be_unmarked() {
    let cluster = Cluster::with_stuck(&[unmarked("report", &["log"])]).await;
    for resource in [
        "deployments",
        "sidecarpolicies",
        "namespacedsidecarpolicies",
    ] {
        cluster.forbid(|rule| rule.resource(resource));
    }
    let unless = "as sidecars, unless a policy that could not be read does:";
    let remark = "whether a policy names a container of this pod is not known";
    let rescue = async || cluster.rescue(&["--dry-run"]).await.exits(0);
    let explain = async || cluster.explain(&["job/report"]).await.exits(0);

    // Who asks for a kind that is not there is told the same as who may not.
    let (rescued, explained) = (rescue().await, explain().await);
    assert!(
        rescued.out.contains("Nothing marks these as sidecars:\n")
            && !rescued.err.contains("sidecarpolicies")
            && !explained.out.contains(remark),
        "{}{}{}",
        rescued.out,
        rescued.err,
        explained.out
    );

    install_crds(&cluster.client).await;
    let (rescued, explained) = (rescue().await, explain().await);
    assert!(
        rescued.out.contains(unless) && rescued.err.contains(unless),
        "{}{}",
        rescued.out,
        rescued.err
    );
    assert!(
        explained.out.contains(unless) && explained.out.contains(remark),
        "{}",
        explained.out
    );
}

fn assert_nothing_is_written(cluster: &Cluster) {
    assert_eq!(
        cluster
            .server
            .recorded()
            .iter()
            .filter(|request| request.user_agent.starts_with("swaplet/")
                && !request.resource.ends_with("subjectaccessreviews"))
            .filter(|request| format!("{:?}", request.verb) != "List"
                && format!("{:?}", request.verb) != "Get")
            .count(),
        0,
        "nothing is written"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn stuck_jobs_are_suggested_the_policies_that_end_them() {
    let cluster = Cluster::with_stuck(&[
        unmarked("a", &["istio-proxy", "shipper"]),
        unmarked("b", &["istio-proxy"]),
        job("marked", "Never"),
    ])
    .await;
    let suggested = cluster.suggest(&["-A"]).await.exits(0);
    assert!(
        suggested
            .err
            .contains("the API server does not know sidecarpolicies"),
        "{}",
        suggested.err
    );
    let text = &suggested.out;
    for part in [
        "# 2 pods wait for containers that nothing marks as sidecars",
        "NOT KNOWN",
        "kubectl annotate",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(text.lines().all(|line| line.len() <= 200), "{text}");
    let documents: Vec<Value> = serde_saphyr::from_multiple(text).unwrap();
    let policies: Vec<_> = documents.iter().filter(|each| each.is_object()).collect();
    assert_eq!(policies.len(), 2, "one for each sidecar: {text}");
    assert_eq!(
        policies[0]["spec"],
        json!({"sidecars": [{"preset": "istio", "order": 1}]})
    );
    let here = json!({"matchExpressions": [{"key": "kubernetes.io/metadata.name", "operator": "In", "values": ["default"]}]});
    assert_eq!(
        policies[1]["spec"],
        json!({"namespaceSelector": here, "sidecars": [{"name": "shipper"}]})
    );
    let names = cluster.suggest(&["-n", "default", "-o", "name"]).await;
    assert_eq!(
        names.exits(0).out,
        "namespacedsidecarpolicy.swaplet.io/istio\nnamespacedsidecarpolicy.swaplet.io/shipper\n"
    );
    let table = cluster.suggest(&["-A", "-o", "wide"]).await.exits(0).out;
    assert!(
        table.contains("Istio's proxy") && table.lines().count() == 4,
        "{table}"
    );
    let recent = cluster
        .suggest(&["-A", "--stuck-for", "100000h"])
        .await
        .exits(0);
    assert_eq!(recent.out, "");
    let why = "has waited for 31536000 s or longer (--stuck-for) for containers";
    assert!(recent.err.contains(why), "{}", recent.err);
    assert_nothing_is_written(&cluster);
}

/// Applied, they end what they were suggested for, and are not suggested again.
#[tokio::test(flavor = "multi_thread")]
async fn suggested_policies_end_what_is_stuck() {
    let cluster = Cluster::with_stuck(&[unmarked("a", &["istio-proxy", "shipper"])]).await;
    install_crds(&cluster.client).await;
    let suggested = cluster
        .suggest(&["-n", "default", "-o", "json"])
        .await
        .exits(0);
    let suggested: Value = serde_json::from_str(&suggested.out).unwrap();
    assert_eq!(suggested["stuckPods"].as_array().unwrap().len(), 2);
    for policy in suggested["policies"].as_array().unwrap() {
        apply(&cluster.client, policy).await;
    }
    let again = cluster.suggest(&["-n", "default"]).await.exits(0);
    assert_eq!(again.out, "");
    assert!(
        again
            .err
            .contains("1 pod waits for sidecars that a policy names already"),
        "{}",
        again.err
    );
    let with = ["--sidecar-policies", "--exit-image", EXIT];
    let file = cluster.folder.path().join("policies.json");
    std::fs::write(&file, suggested["policies"][0].to_string()).unwrap();
    let same = ["--policy", file.to_str().unwrap()];
    let same = cluster.rescue(&[&with[..], &same].concat()).await.exits(2);
    assert!(
        same.err
            .contains("is in the cluster too: give that of the file another name"),
        "one of the two would count, and it is not said which: {}",
        same.err
    );
    cluster.rescue(&with).await.exits(0);
    cluster.job_completes("a").await;
}
