//! What swaplet's own token cannot do.

use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::{Value, json};
use swaplet::controller::writer_warm::{self, Warmers};
use swaplet::objects::parked::PARKED;
use swaplet::objects::warmer_pod::{IMPOSSIBLE_COMMAND, Shape, System};

use super::legal::{brought_back, image, parking, warmers};
use super::pods::{DIGEST, OTHER, main, pod};
use super::{Leashed, dry_post};

const METADATA: &str = "the metadata of a pod is not swaplet's";
const SPEC: &str = "of the spec of a pod";
const FOREIGN: &str = "neither an exit image of the list nor another spelling";
const NO_NOTE: &str = "a container gets a park image only where the same write says";
const ALONE: &str = "swaplet.io/parked change together";
const MADE_UP: &str = "swaplet.io/parked holds the images that containers had";
const UNMARKED: &str = "an exit image is for sidecars that their owner has marked, not for";
const MAINS: &str = "whose main containers are done, and here these are not: main";
const STATUS: &str = "of the status of a pod";
const PHASE: &str = "the phase of a finished pod is Succeeded where";

/// A pod, a strategic merge patch of it, and what the API server has to say to it.
type Write = (&'static str, Value, &'static str);

fn of_images(leashed: &Leashed) -> Vec<Write> {
    let (exit, work) = (leashed.world.images.exit.as_str(), leashed.world.images.work.as_str());
    let (repository, registry) = (work.rsplit_once(':').unwrap().0, work.split('/').next().unwrap());
    vec![
        ("running", image("log", exit), MAINS),
        ("running", image("main", exit), UNMARKED),
        ("crashed", image("log", exit), MAINS),
        ("unreported", image("log", exit), MAINS),
        ("always", image("log", exit), MAINS),
        ("done", image("main", exit), UNMARKED),
        ("sidecars", image("two", exit), "every container is marked as a sidecar"),
        ("unmarked", image("log", exit), UNMARKED),
        ("by-reference", image("log", exit), UNMARKED),
        ("plain", image("main", exit), UNMARKED),
        ("done", image("log", &leashed.world.images.missing), FOREIGN),
        ("done", image("log", &leashed.world.images.park), NO_NOTE),
        ("done", init("native", &leashed.world.images.park), FOREIGN),
        ("done", image("log", &format!("{exit}2")), FOREIGN),
        ("done", image("log", &exit.replace('.', "x")), FOREIGN),
        ("done", image("log", &format!("{exit}@{OTHER}")), FOREIGN),
        ("done", image("log", &format!("evil.example/{exit}")), FOREIGN),
        ("running", image("main", &format!("{work}@{OTHER}")), FOREIGN),
        ("running", image("main", &format!("{repository}@{OTHER}")), FOREIGN),
        ("running", image("main", &format!("{repository}:v2")), FOREIGN),
        ("running", image("main", repository), FOREIGN),
        ("running", image("main", OTHER), FOREIGN),
        ("running", image("main", &format!("docker.io/{work}")), FOREIGN),
        ("running", image("main", &work.replace(registry, "evil.example")), FOREIGN),
        ("done", json!({"spec": {"containers": [{"name": "main", "image": exit}, {"name": "log", "image": exit}]}}), UNMARKED),
        ("done", init("prepare", &format!("{work}@{}", super::pods::DIGEST)), "an init container that is no native sidecar"),
        ("done", init("native", exit), UNMARKED),
        ("done", init("native", &format!("{repository}:v2")), FOREIGN),
    ]
}

/// Of parking, and of a pod in which `main` is parked.
async fn of_parking(leashed: &Leashed) -> Vec<Write> {
    let (work, park) = (leashed.world.images.work.as_str(), leashed.world.images.park.as_str());
    let (running, parked) = (leashed.uid("running").await, leashed.uid("parked").await);
    let main = [("main", work)];
    let evil = [("main", "evil.example/work:v1")];
    let both = [("main", work), ("log", "evil.example/work:v1")];
    let mut with_label = parking(image("main", park), &running, park, &main);
    with_label["metadata"]["labels"]["new"] = json!("label");
    let mut without_label = parking(image("main", park), &running, park, &main);
    without_label["metadata"].as_object_mut().unwrap().remove("labels");
    let mut other_key = image("main", park);
    other_key["metadata"] = json!({"annotations": {"swaplet.io/parked2": "{}"}});
    let mut only_label_goes = image("main", work);
    only_label_goes["metadata"] = json!({"labels": {PARKED: null}});
    let mut json_with_spaces = parking(image("main", park), &running, park, &main);
    let text = json_with_spaces["metadata"]["annotations"][PARKED].as_str().unwrap().replace("\"main\":", "\"main\": ");
    json_with_spaces["metadata"]["annotations"][PARKED] = json!(text);
    vec![
        ("running", parking(image("main", park), &running, park, &evil), NO_NOTE),
        ("running", parking(image("main", park), &parked, park, &main), NO_NOTE),
        ("running", parking(image("main", park), &running, park, &[("log", work)]), NO_NOTE),
        ("running", parking(image("main", park), &running, park, &both), MADE_UP),
        ("running", json_with_spaces, NO_NOTE),
        ("running", without_label, NO_NOTE),
        ("running", with_label, METADATA),
        ("running", other_key, METADATA),
        ("running", parking(json!({}), &running, park, &main), ALONE),
        ("running", json!({"metadata": {"labels": {PARKED: "true"}}}), ALONE),
        ("parked", image("main", "evil.example/work:v1"), FOREIGN),
        ("parked", parking(image("main", "evil.example/work:v1"), &parked, park, &evil), ALONE),
        ("parked", brought_back(json!({})), ALONE),
        ("parked", json!({"metadata": {"labels": {PARKED: null}}}), ALONE),
        ("parked", only_label_goes, ALONE),
        ("parked", parking(image("log", park), &parked, park, &[("log", work)]), MADE_UP),
        ("parked", parking(image("log", park), &parked, park, &[("log", work), ("main", "evil.example/work:v1")]), MADE_UP),
        ("parked", brought_back(image("log", &format!("{work}@{DIGEST}"))), ALONE),
        // What it says was written for another pod.
        ("noted", image("main", work), FOREIGN),
    ]
}

fn of_other_fields(leashed: &Leashed) -> Vec<Write> {
    let owner = json!([{"apiVersion": "v1", "kind": "ConfigMap", "name": "x", "uid": "x"}]);
    let mut with_label = image("log", &leashed.world.images.exit);
    with_label["metadata"] = json!({"labels": {"new": "label"}});
    vec![
        ("done", json!({"metadata": {"labels": {"new": "label"}}}), METADATA),
        ("done", json!({"metadata": {"labels": {"app": null}}}), METADATA),
        ("done", json!({"metadata": {"annotations": {"example.com/b": "1"}}}), METADATA),
        ("done", json!({"metadata": {"annotations": {"example.com/a": null}}}), METADATA),
        ("done", json!({"metadata": {"annotations": {"swaplet.io/finished": "now"}}}), METADATA),
        ("done", json!({"metadata": {"labels": {"swaplet.io/warm": "run"}}}), METADATA),
        ("done", json!({"metadata": {"finalizers": ["example.com/f"]}}), METADATA),
        ("done", json!({"metadata": {"ownerReferences": owner}}), METADATA),
        ("done", with_label, METADATA),
        ("done", json!({"spec": {"activeDeadlineSeconds": 5}}), SPEC),
        ("done", json!({"spec": {"tolerations": [{"key": "k", "operator": "Exists"}]}}), SPEC),
    ]
}

fn of_statuses() -> Vec<Write> {
    let phase = |phase: &str| json!({"status": {"phase": phase}});
    let condition = |kind: &str, status: &str| json!({"status": {"conditions": [{"type": kind, "status": status}]}});
    let ended = json!({"status": {"containerStatuses": [{"name": "main", "ready": true}]}});
    vec![
        ("running", phase("Succeeded"), MAINS),
        ("running", phase("Failed"), MAINS),
        ("crashed", phase("Failed"), MAINS),
        ("unreported", phase("Succeeded"), MAINS),
        ("always", phase("Succeeded"), MAINS),
        ("failed", phase("Succeeded"), PHASE),
        ("done", phase("Failed"), PHASE),
        ("done", phase("Unknown"), PHASE),
        ("ended", phase("Failed"), PHASE),
        ("plain", phase("Failed"), "a phase is written for pods with a container that is marked"),
        ("sidecars", phase("Succeeded"), "every container is marked as a sidecar"),
        ("running", condition("SidecarTerminated", "True"), MAINS),
        ("running", json!({"metadata": {"annotations": {"swaplet.io/finished": "now"}}}), MAINS),
        ("running", condition("Ready", "True"), "the condition Ready becomes False only"),
        ("running", condition("Ready", "Unknown"), "the condition Ready becomes False only"),
        ("gated", condition("Ready", "True"), "the condition Ready becomes False only"),
        ("running", condition("example.com/new", "True"), "of the conditions of a pod"),
        ("running", json!({"status": {"conditions": [{"$patch": "delete", "type": "Ready"}]}}), "of the conditions of a pod"),
        ("running", condition("KruisePodReady", "False"), "pods that have it as a readiness gate"),
        ("running", ended, STATUS),
        ("running", json!({"status": {"podIP": "10.0.0.1", "podIPs": [{"ip": "10.0.0.1"}]}}), STATUS),
        ("running", json!({"status": {"message": "new"}}), STATUS),
        ("running", json!({"status": {"nominatedNodeName": "new"}}), STATUS),
        ("done", json!({"metadata": {"labels": {"new": "label"}}}), METADATA),
        ("done", json!({"metadata": {"finalizers": ["example.com/f"]}}), METADATA),
        ("done", json!({"metadata": {"annotations": {"example.com/b": "1"}}}), "of the annotations of a pod"),
        ("done", json!({"metadata": {"annotations": {"example.com/a": null}}}), "of the annotations of a pod"),
    ]
}

fn init(container: &str, image: &str) -> Value {
    json!({"spec": {"initContainers": [{"name": container, "image": image}]}})
}

impl Leashed {
    fn is_denied_by<T: std::fmt::Debug>(&self, policy: &str, message: &str, answer: Result<T, String>, write: &dyn std::fmt::Debug) {
        let Err(words) = answer else { panic!("{write:?} was let through: {answer:?}") };
        let by = format!("ValidatingAdmissionPolicy '{}{policy}'", self.prefix);
        assert!(words.contains(&by) && words.contains(message), "{write:?}: expected {by} and {message:?}; {words}");
    }
}

#[tokio::test]
async fn what_no_token_of_ours_can_write() {
    let leashed = Leashed::new("leash-forbids").await;
    leashed.pods_are_there().await;
    let mut denied = 0;
    for (policy, subresource, writes) in [
        ("pods", "", of_images(&leashed)),
        ("pods", "", of_parking(&leashed).await),
        ("pods", "", of_other_fields(&leashed)),
        ("pods-status", "status", of_statuses()),
    ] {
        for (pod, patch, message) in writes {
            let answer = leashed.patch(pod, subresource, &patch).await;
            leashed.is_denied_by(policy, message, answer, &(pod, subresource, &patch));
            denied += 1;
        }
    }
    println!("{denied} writes of pods and their statuses were denied");
    assert!(denied >= 80);
    another_way_of_writing(&leashed).await;
    leashed.done().await;
}

/// PUT, server-side apply and JSON patches meet the same policy.
async fn another_way_of_writing(leashed: &Leashed) {
    let pods: Api<Pod> = Api::namespaced(leashed.swaplet.clone(), &leashed.world.namespace);
    let mut running = serde_json::to_value(pods.get("running").await.unwrap()).unwrap();
    running["apiVersion"] = json!("v1");
    running["kind"] = json!("Pod");
    running["spec"]["containers"][1]["image"] = json!(leashed.world.images.exit);
    let path = format!("/api/v1/namespaces/{}/pods/running?dryRun=All", leashed.world.namespace);
    let put = http::Request::put(path).header("content-type", "application/json").body(running.to_string().into_bytes()).unwrap();
    let put = leashed.swaplet.request::<Value>(put).await.map_err(|error| error.to_string());
    leashed.is_denied_by("pods", MAINS, put, &"PUT");
    let applied = json!({
        "apiVersion": "v1", "kind": "Pod", "spec": {"containers": [{"name": "log", "image": leashed.world.images.exit}]},
    });
    let params = PatchParams { dry_run: true, ..PatchParams::apply("swaplet").force() };
    let apply = pods.patch("running", &params, &Patch::Apply(applied)).await.map_err(|error| error.to_string());
    leashed.is_denied_by("pods", MAINS, apply, &"server-side apply");
    let operations = json!([{"op": "replace", "path": "/spec/containers/1/image", "value": leashed.world.images.exit}]);
    let patch = Patch::Json::<()>(serde_json::from_value(operations).unwrap());
    let params = PatchParams { dry_run: true, ..PatchParams::default() };
    let patched = pods.patch("running", &params, &patch).await.map_err(|error| error.to_string());
    leashed.is_denied_by("pods", MAINS, patched, &"JSON patch");
}

/// What is said of the shape of a warmer pod, of its containers and of the rest.
const WARMERS: (&str, &str, &str) =
    ("a warmer pod has the init container park", "the containers of a warmer pod have no", "no part of its node");

/// Pods that pull several images at once, for Linux and Windows, and what would make more of them than that.
fn of_several_images(warmers: &Warmers) -> Vec<(Value, &'static str)> {
    let (shape, rights, node) = WARMERS;
    let images = ["any.example/a:v1".into(), "any.example/b:v1".into()];
    let good = |system| writer_warm::pod(warmers, "node", Shape::ImpossibleCommand(system), &images, 1);
    let with = |system, path: &str, key: &str, value: Value| {
        let mut bad = good(system);
        bad.pointer_mut(path).unwrap()[key] = value;
        bad
    };
    let linux = |path: &str, key: &str, value: Value| with(System::Linux, path, key, value);
    let windows = |path: &str, key: &str, value: Value| with(System::Windows, path, key, value);
    let another = json!({"name": "image-8", "image": "any.example/c:v1", "command": [IMPOSSIBLE_COMMAND]});
    let init = json!([{"name": "image-2", "image": "any.example/c:v1", "command": [IMPOSSIBLE_COMMAND]}]);
    let nine: Vec<_> = (0..9).map(|number| format!("any.example/{number}:v1").into()).collect();
    let options = json!({"runAsNonRoot": true, "windowsOptions": {"runAsUserName": "ContainerAdministrator"}});
    vec![
        (linux("/spec/containers/1", "command", json!(["/bin/sh"])), shape),
        (linux("/spec/containers/1", "command", json!([&IMPOSSIBLE_COMMAND[..256]])), shape),
        (linux("/spec/containers/1", "command", Value::Null), shape),
        (linux("/spec/containers/1", "args", json!(["x"])), shape),
        (linux("/spec/containers/1", "name", json!("evil")), shape),
        (linux("/spec", "containers", json!([good(System::Linux)["spec"]["containers"][0], another])), shape),
        (writer_warm::pod(warmers, "node", Shape::ImpossibleCommand(System::Linux), &nine, 1), shape),
        (linux("/spec", "initContainers", init), shape),
        (linux("/spec", "restartPolicy", json!("Always")), shape),
        (linux("/spec", "volumes", json!([{"name": "host", "hostPath": {"path": "/"}}])), shape),
        (linux("/spec/containers/0", "env", json!([{"name": "LD_PRELOAD", "value": "/x"}])), rights),
        (linux("/spec/containers/0", "securityContext", Value::Null), rights),
        (linux("/spec/containers/0", "lifecycle", json!({"postStart": {"exec": {"command": ["/bin/sh"]}}})), rights),
        (linux("/spec", "hostPID", json!(true)), node),
        (linux("/spec", "securityContext", json!({"runAsNonRoot": true})), node),
        (windows("/spec", "securityContext", options), node),
        (windows("/spec", "securityContext", json!({"runAsNonRoot": true})), node),
        (windows("/spec/containers/0", "securityContext", json!({"windowsOptions": {"runAsUserName": "ContainerAdministrator"}})), rights),
    ]
}

/// Pods whose images are volumes, and what would run a program of such an image or have more of the node.
fn of_image_volumes(warmers: &Warmers) -> Vec<(Value, &'static str)> {
    let (shape, rights, node) = WARMERS;
    let good = writer_warm::pod(warmers, "node", Shape::ImageVolumes, &["any.example/a:v1".into(), "any.example/b:v1".into()], 1);
    let with = |path: &str, key: &str, value: Value| {
        let mut bad = good.clone();
        bad.pointer_mut(path).unwrap()[key] = value;
        bad
    };
    let mount = |fields: Value| {
        let mut mount = good["spec"]["containers"][0]["volumeMounts"][0].clone();
        mount.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        mount
    };
    let mounts = |mounts: &[Value]| with("/spec/containers/0", "volumeMounts", mounts.into());
    let volumes = |volume: Value| {
        let volumes = good["spec"]["volumes"].as_array().unwrap();
        with("/spec", "volumes", [&volumes[..], &[volume]].concat().into())
    };
    let init = json!([{"name": "image-2", "image": warmers.park_image, "command": ["/swaplet/park"]}]);
    vec![
        (with("/spec/containers/1", "image", json!("any.example/a:v1")), shape),
        (with("/spec/containers/1", "command", json!(["/.swaplet-warm/bin/sh"])), shape),
        (with("/spec/containers/1", "command", Value::Null), shape),
        (with("/spec/containers/1", "args", json!(["--copy-self"])), shape),
        // The park program would be one of the image.
        (mounts(&[mount(json!({"mountPath": "/swaplet"}))]), shape),
        (mounts(&[mount(json!({"subPath": "bin"}))]), shape),
        (mounts(&[mount(json!({"name": "image-1"}))]), shape),
        (mounts(&[mount(json!({})), mount(json!({"name": "image-1", "mountPath": "/swaplet"}))]), shape),
        (mounts(&[]), shape),
        (volumes(json!({"name": "host", "hostPath": {"path": "/"}})), shape),
        (volumes(json!({"name": "secret", "secret": {"secretName": "any"}})), shape),
        (with("/spec", "initContainers", init), shape),
        (with("/spec", "restartPolicy", json!("Always")), shape),
        (with("/spec/containers/0", "securityContext", Value::Null), rights),
        (with("/spec/containers/0", "env", json!([{"name": "LD_PRELOAD", "value": "/.swaplet-warm/x"}])), rights),
        (with("/spec", "hostPID", json!(true)), node),
        (with("/spec", "serviceAccountName", json!("swaplet")), node),
    ]
}

#[tokio::test]
async fn what_no_token_of_ours_can_make_or_delete() {
    let leashed = Leashed::new("leash-warmers").await;
    let warmers = warmers(&leashed);
    let good = writer_warm::pod(&warmers, "node", Shape::InPlace, &["any.example/image:v1".into()], 1);
    let set = |path: &str, value: Value| {
        let mut bad = good.clone();
        *bad.pointer_mut(path).unwrap_or_else(|| panic!("{path}")) = value;
        bad
    };
    let add = |path: &str, key: &str, value: Value| {
        let mut bad = good.clone();
        bad.pointer_mut(path).unwrap()[key] = value;
        bad
    };
    let (shape, rights, node) = WARMERS;
    let container = |name: &str| json!({"name": name, "image": "any.example/image:v1"});
    let writes = [
        (pod(&leashed, "new", "Never", json!([main(&leashed)])), "warmer pods only"),
        (set("/metadata/labels", json!({})), "warmer pods only"),
        (set("/spec/containers/0/command", json!(["/bin/sh"])), shape),
        (add("/spec/containers/0", "args", json!(["x"])), shape),
        (set("/spec/initContainers/0/image", json!("any.example/image:v1")), shape),
        (add("/spec", "initContainers", json!([container("evil")])), shape),
        (add("/spec", "containers", json!([good["spec"]["containers"][0], container("evil")])), shape),
        (add("/spec/containers/0", "env", json!([{"name": "LD_PRELOAD", "value": "/x"}])), rights),
        (add("/spec/containers/0", "securityContext", json!({"privileged": true})), rights),
        (add("/spec/containers/0/securityContext", "runAsUser", json!(0)), rights),
        (add("/spec/containers/0/securityContext", "capabilities", json!({"add": ["SYS_ADMIN"], "drop": ["ALL"]})), rights),
        (add("/spec/containers/0", "lifecycle", json!({"postStart": {"exec": {"command": ["/bin/sh"]}}})), rights),
        (add("/spec", "hostNetwork", json!(true)), node),
        (add("/spec", "hostPID", json!(true)), node),
        (set("/spec/automountServiceAccountToken", json!(true)), node),
        (add("/spec", "serviceAccountName", json!("swaplet")), node),
        (set("/spec/volumes/0", json!({"name": "park", "hostPath": {"path": "/"}})), node),
        (set("/spec/securityContext", json!({"runAsNonRoot": false})), node),
    ];
    let pods: Api<Pod> = Api::namespaced(leashed.swaplet.clone(), &leashed.world.namespace);
    for (pod, message) in writes.into_iter().chain(of_several_images(&warmers)).chain(of_image_volumes(&warmers)) {
        let object: Pod = serde_json::from_value(pod.clone()).unwrap();
        let answer = pods.create(&dry_post(), &object).await.map_err(|error| error.to_string());
        leashed.is_denied_by("warmers", message, answer, &pod["spec"]);
    }
    let params = DeleteParams { dry_run: true, ..DeleteParams::default() };
    let answer = pods.delete("plain", &params).await.map_err(|error| error.to_string());
    leashed.is_denied_by("warmers", "warmer pods only", answer, &"delete");
    leashed.done().await;
}
