//! `swaplet check --live`, against the embedded API server.

use kube::Api;
use kube::api::{DynamicObject, Patch, PatchParams, PostParams};
use kube::core::ApiResource;
use serde_json::{Value, json};
use swaplet_testbed::apiserver::{Effect, Rule};
use swaplet_testbed::{ApiServer, Clock};
use tokio::net::TcpListener;
use tokio::process::Command;

use super::Ran;

fn job() -> Value {
    let env = json!([{"name": "KRUISE_TERMINATE_SIDECAR_WHEN_JOB_EXIT", "value": "true"}]);
    json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j"}, "spec": {"template": {"spec": {
        "restartPolicy": "Never",
        "tolerations": [{"key": "virtual-kubelet.io/provider", "operator": "Exists"}],
        "volumes": [{"name": "v", "configMap": {"name": "scripts", "defaultMode": 493}}],
        "containers": [
            {"name": "main", "image": "app:1"},
            {"name": "side", "image": "side:1", "env": env, "command": ["/v/run.sh"], "volumeMounts": [{"name": "v", "mountPath": "/v"}]},
        ],
    }}}})
}

async fn checked(objects: &[Value]) -> Ran {
    checked_without(objects, &[], &[]).await
}

/// In one namespace, where these resources may not be listed, with more arguments.
async fn checked_without(objects: &[Value], forbidden: &[&str], more: &[&str]) -> Ran {
    let more = [&["-n", "default"], more].concat();
    checked_with(objects, forbidden, &more).await
}

async fn checked_with(objects: &[Value], forbidden: &[&str], more: &[&str]) -> Ran {
    let server = ApiServer::new(Clock::default());
    let client = server.client_as("user");
    for object in objects {
        let object: DynamicObject = serde_json::from_value(object.clone()).unwrap();
        let kind = object.types.clone().unwrap();
        let (group, version) = kind.api_version.split_once('/').unwrap_or(("", "v1"));
        let plural = format!("{}s", kind.kind.to_lowercase()).replace("ys", "ies");
        let resource = ApiResource::from_gvk_with_plural(
            &kube::core::GroupVersionKind::gvk(group, version, &kind.kind),
            &plural,
        );
        let api: Api<DynamicObject> = match kind.kind.as_str() {
            "Namespace" | "Node" | "CustomResourceDefinition" | "SidecarPolicy" => {
                Api::all_with(client.clone(), &resource)
            }
            _ => {
                let namespace = object.metadata.namespace.as_deref().unwrap_or("default");
                Api::namespaced_with(client.clone(), namespace, &resource)
            }
        };
        api.create(&PostParams::default(), &object).await.unwrap();
        if let status @ Value::Object(_) = &object.data["status"] {
            let status = Patch::Merge(json!({"status": status}));
            let name = object.metadata.name.as_deref().unwrap();
            api.patch_status(name, &PatchParams::default(), &status)
                .await
                .unwrap();
        }
    }
    for resource in forbidden {
        let rule = Rule::new(Effect::reply(403).message("not for jane"));
        let rule = rule.user_agent("swaplet/").resource(resource);
        server.faults().add(rule);
    }
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    let kubeconfig = folder.path().join("kubeconfig");
    std::fs::write(
        &kubeconfig,
        ApiServer::kubeconfig(listener.local_addr().unwrap()),
    )
    .unwrap();
    tokio::spawn(async move { server.serve(listener).await });
    Command::new(env!("CARGO_BIN_EXE_swaplet"))
        .args(["check", "--live", "--kubeconfig"])
        .arg(&kubeconfig)
        .args(more)
        .env_remove("CI")
        .output()
        .await
        .unwrap()
        .into()
}

#[tokio::test]
async fn a10_and_money_scripts_and_nodes_of_the_cluster_are_read() {
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "scripts"}, "data": {"run.sh": "#!/bin/sh\nexec x\n"}});
    let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "vk-1", "labels": {"type": "virtual-kubelet"}},
        "spec": {"taints": [{"key": "virtual-kubelet.io/provider", "value": "azure", "effect": "NoSchedule"}]}});
    let ran = checked(&[map, node, job()]).await;
    assert!(
        ran.code == 0 && ran.out.contains("/v/run.sh (script of /bin/sh)"),
        "{} {}",
        ran.out,
        ran.err
    );
    assert!(
        ran.err
            .contains("its pods may run on node vk-1 (Azure ACI (classic virtual node))")
            && ran.err.contains("set spec.ttlSecondsAfterFinished"),
        "{}",
        ran.err
    );
    // The toleration alone says that the pods may run on one.
    let without = checked(&[job()]).await;
    assert!(
        without.out.contains("(assumed script)"),
        "{} {}",
        without.out,
        without.err
    );
    assert!(
        without.err.contains("on nodes of unknown virtual-kubelet"),
        "{}",
        without.err
    );
}

/// The kinds of policies, and one that names the sidecar of a Job which nobody marks.
fn with_policy() -> Vec<Value> {
    let crd = |kind: &str, plural: &str, scope: &str| {
        let version = json!({"name": "v1alpha1", "served": true, "storage": true,
            "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}});
        json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": format!("{plural}.swaplet.io")},
            "spec": {"group": "swaplet.io", "scope": scope, "names": {"kind": kind, "plural": plural}, "versions": [version]}})
    };
    let policy = json!({"apiVersion": "swaplet.io/v1alpha1", "kind": "SidecarPolicy", "metadata": {"name": "sides"},
        "spec": {"sidecars": [{"name": "side", "order": 2}, {"preset": "isto"}]}});
    let mut job = job();
    job["spec"]["template"]["spec"]["containers"][1]["env"] = json!([]);
    vec![
        crd("SidecarPolicy", "sidecarpolicies", "Cluster"),
        crd(
            "NamespacedSidecarPolicy",
            "namespacedsidecarpolicies",
            "Namespaced",
        ),
        policy,
        job,
    ]
}

#[tokio::test]
async fn policies_of_the_cluster_count_and_those_that_may_not_be_read_are_said() {
    let ran = checked(&with_policy()).await;
    assert!(
        ran.code == 0
            && ran
                .out
                .contains("by SidecarPolicy sides, sidecars[0], order 2"),
        "{} {}",
        ran.out,
        ran.err
    );
    assert!(
        ran.err.contains("preset \"isto\" is not known"),
        "{}",
        ran.err
    );
    let ran = checked_without(&with_policy(), &["sidecarpolicies"], &[]).await;
    assert!(
        ran.err
            .contains("note: your rights do not allow to read sidecarpolicies: ")
            && ran.err.contains("No sidecar in 1 pod template"),
        "{} {}",
        ran.out,
        ran.err
    );
}

/// Somebody who may not look for an installation, as most tenants.
#[tokio::test]
async fn u182_policies_of_which_it_is_not_known_whether_they_are_read_count_with_a_note() {
    let words = "whether an installation reads SidecarPolicies is not known: they count here";
    let ran = checked_without(&with_policy(), &["deployments"], &[]).await;
    assert!(
        ran.out.contains("by SidecarPolicy sides, sidecars[0]")
            && ran.err.contains(words)
            && ran.err.contains("do not allow to read Deployments"),
        "{} {}",
        ran.out,
        ran.err
    );
    // Where there is none, or no policy, nothing is doubtful.
    let none = checked(&with_policy()).await;
    assert!(!none.err.contains(words), "{}", none.err);
    let plain = checked_without(&[job()], &["deployments"], &[]).await;
    assert!(!plain.err.contains("SidecarPolicies"), "{}", plain.err);
}

#[tokio::test]
async fn what_may_not_be_read_of_the_cluster_is_noted_like_all_else() {
    let mut job = job();
    let spec = &mut job["spec"]["template"]["spec"];
    spec["tolerations"] = json!([]);
    spec["containers"][1]["command"] = json!(["/usr/local/bin/envoy"]);
    let job = [job];
    let strict = checked_without(&job, &[], &["--strict"]).await;
    assert_eq!(strict.code, 0, "{} {}", strict.out, strict.err);
    let strict = checked_without(&job, &["nodes"], &["--strict"]).await;
    assert!(
        strict.code == 1
            && strict.err.contains("note: nodes cannot be listed")
            && strict.err.contains("--strict allows no notes"),
        "{} {}",
        strict.out,
        strict.err
    );
    let ran = checked_without(&job, &["nodes"], &["-o", "json"]).await;
    let report: Value = serde_json::from_str(&ran.out).unwrap();
    let hint = &report["hints"][0];
    let text = hint["text"].as_str().unwrap();
    assert!(
        text.contains("not for jane") && hint["kind"].is_null(),
        "{hint}"
    );
}

/// The cluster has no policy yet: this one is to be created.
#[tokio::test]
async fn a_policy_of_a_file_selects_namespaces_of_the_cluster_by_their_labels() {
    let namespace = |team: &str| json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "batch", "labels": {"team": team}}});
    let mut job = job();
    job["metadata"]["namespace"] = "batch".into();
    job["spec"]["template"]["spec"]["containers"][1]["env"] = json!([]);
    let policy = json!({"apiVersion": "swaplet.io/v1alpha1", "kind": "SidecarPolicy", "metadata": {"name": "sides"},
        "spec": {"namespaceSelector": {"matchLabels": {"team": "a"}}, "sidecars": [{"name": "side"}]}});
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("policy.json");
    std::fs::write(&file, policy.to_string()).unwrap();
    let file = file.to_str().unwrap();
    for scope in [&["-A"][..], &["-n", "batch"]] {
        let more = [scope, &["--policy", file]].concat();
        let ran = checked_with(&[namespace("a"), job.clone()], &[], &more).await;
        assert!(
            ran.code == 0 && ran.out.contains("by SidecarPolicy sides, sidecars[0]"),
            "{scope:?}: {} {}",
            ran.out,
            ran.err
        );
        let other = checked_with(&[namespace("b"), job.clone()], &[], &more).await;
        assert_eq!(other.code, 2, "{scope:?}: {} {}", other.out, other.err);
    }
}

#[tokio::test]
async fn u67_config_maps_beyond_the_bound_are_told() {
    let with = |count: usize| {
        let named = |nth: usize| {
            let mut job = job();
            job["metadata"]["name"] = format!("j-{nth}").into();
            let volume = &mut job["spec"]["template"]["spec"]["volumes"][0];
            volume["configMap"]["name"] = format!("scripts-{nth}").into();
            job
        };
        (0..count).map(named).collect::<Vec<_>>()
    };
    let words = "scripts are in 201 ConfigMaps, of which 200 are read";
    let ran = checked(&with(201)).await;
    assert!(ran.err.contains(words), "{}", ran.err);
    assert!(!checked(&with(2)).await.err.contains("ConfigMaps, of which"));
}

/// Most Jobs of a cluster have ended, and what was wrong with them cannot be corrected.
#[tokio::test]
async fn u236_a_job_that_has_ended_is_not_judged() {
    let mut wrong = job();
    let containers = &mut wrong["spec"]["template"]["spec"]["containers"];
    containers[1]["env"][0]["value"] = "yes".into();
    containers
        .as_array_mut()
        .unwrap()
        .push(json!({"name": "istio-proxy", "image": "istio/proxyv2:1"}));
    let ran = checked(std::slice::from_ref(&wrong)).await;
    assert!(
        ran.code == 1 && ran.out.contains("MarkInvalid") && ran.err.contains("it looks like"),
        "{}{}",
        ran.out,
        ran.err
    );
    for (kind, status, code) in [
        ("Complete", "True", 0),
        ("Failed", "True", 0),
        ("Failed", "False", 1),
        ("Suspended", "True", 1),
    ] {
        let mut ended = wrong.clone();
        ended["status"] = json!({"conditions": [{"type": kind, "status": status}]});
        let ran = checked(&[ended]).await;
        assert_eq!(ran.code, code, "{kind}: {}{}", ran.out, ran.err);
        let is_judged = ran.err.contains("it looks like");
        assert_eq!(is_judged, code == 1, "{kind}: {}", ran.err);
    }
    // What is right in it counts.
    let mut ended = job();
    ended["spec"]["template"]["spec"]["containers"][1]["command"] = json!(["sleep", "9"]);
    ended["status"] = json!({"conditions": [{"type": "Complete", "status": "True"}]});
    let ran = checked_without(&[ended], &[], &["--require", "1"]).await;
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    // Its finished pods cost all the same, and those that run on are judged.
    let mut ended = job();
    ended["status"] = json!({"conditions": [{"type": "Complete", "status": "True"}]});
    let words = "set spec.ttlSecondsAfterFinished";
    let mut pod = json!({"apiVersion": "v1", "kind": "Pod", "spec": wrong["spec"]["template"]["spec"], "metadata": {"name": "p",
        "ownerReferences": [{"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "u", "controller": true}]}});
    let ran = checked(&[ended, pod.take()]).await;
    assert!(
        ran.code == 1 && ran.err.contains(words) && ran.out.contains("Pod/p"),
        "{}{}",
        ran.out,
        ran.err
    );
}
