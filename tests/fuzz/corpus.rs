//! What is changed: one whole object of each kind, and what has ended the controller before.

use std::sync::LazyLock;

use serde_json::{Value, json};
use swaplet_core::cluster::node_table;

use crate::hot_upgrade;

/// Which decoders read it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Pod,
    Job,
    Node,
    Request,
    PullJob,
    Policy,
    SidecarSet,
    Manifest,
    Config,
    Image,
    Annotation,
    Registry,
    Workload,
    Protected,
    ImageCache,
    NodeClasses,
    Stored,
    DockerConfig,
}

/// A text that is changed.
pub struct Sample {
    pub kind: Kind,
    pub text: String,
}

/// All samples. They are made before anything is measured: to make them takes more memory than to
/// read one.
pub static ALL: LazyLock<Vec<Sample>> = LazyLock::new(all);

fn sample(kind: Kind, value: Value) -> Sample {
    text(kind, &value.to_string())
}

fn text(kind: Kind, text: &str) -> Sample {
    Sample {
        kind,
        text: text.to_owned(),
    }
}

fn all() -> Vec<Sample> {
    let mut all = objects();
    all.extend(settings());
    all.extend(answers_of_registries());
    all
}

/// Objects that are read from the API server or from manifests.
fn objects() -> Vec<Sample> {
    vec![
        sample(Kind::Pod, pod()),
        sample(Kind::Pod, doubling()),
        sample(Kind::Pod, mounts()),
        sample(
            Kind::Job,
            json!({"metadata": metadata(), "spec": {"backoffLimit": 6}}),
        ),
        sample(Kind::Node, node()),
        sample(Kind::Request, request()),
        sample(Kind::PullJob, pull_job()),
        sample(Kind::Policy, policy()),
        sample(Kind::SidecarSet, hot_upgrade::sidecar_set()),
        sample(Kind::Pod, hot_upgrade::upgraded_pod()),
        sample(Kind::Pod, annotated()),
        sample(
            Kind::Manifest,
            json!({"kind": "List", "items": [pod(), {"kind": "Job", "spec": {"template": {"spec": pod()["spec"]}}}]}),
        ),
        text(
            Kind::Manifest,
            "a: &a [x, x, x]\nb: &b [*a, *a, *a]\nc: &c [*b, *b, *b]\nkind: Pod\nspec: {containers: [{name: *c}]}\n",
        ),
    ]
}

/// Settings, images, what stands in annotations, and what comes from other programs.
fn settings() -> Vec<Sample> {
    vec![
        text(
            Kind::Config,
            "exit-image: registry.example/exit:v1\nexit-images: [\"registry.example/exit/*\"]\nterminate: true\nlog-format: json\n",
        ),
        sample(
            Kind::Config,
            json!({"exit-image": "registry.example/exit:v1", "exit-images": ["a", "b"], "restart": true}),
        ),
        text(
            Kind::Image,
            "registry.example:5000/team/app:v1@sha256:7173b809ca12ec5dee4506cd86be934c4596dd234ee82c0662eac04a8c2c71dc",
        ),
        text(Kind::Image, "busybox"),
        sample(Kind::Image, json!("UPPER/case:1")),
        sample(
            Kind::Annotation,
            json!({"main": {"containerID": "c", "restartCount": 0, "startedAt": "2026-01-01T00:00:00Z",
            "intent": {"from": "app:1", "to": "app:1@sha256:0", "generation": 3, "back": "x", "parking": "back"}}}),
        ),
        sample(
            Kind::Annotation,
            json!({"pod": "u", "name": "r", "request": "ru", "park": "park:1", "images": {"main": "app:1"}}),
        ),
        text(
            Kind::Annotation,
            "app=configmap/settings,secret-metadata/tls; log=configmap/a",
        ),
        text(Kind::Annotation, "app in (a, b),!old,tier=web"),
        sample(Kind::Workload, workload()),
        sample(Kind::Workload, volumes()),
        sample(Kind::Protected, protected()),
        sample(Kind::Pod, volumes()["spec"]["template"].clone()),
        sample(Kind::ImageCache, image_cache()),
        text(Kind::NodeClasses, node_table::BUILT_IN),
        sample(Kind::NodeClasses, node_classes()),
        sample(Kind::Stored, verdict()),
        sample(
            Kind::Stored,
            json!({"pod": "n/p", "seen": {"main": {"configmap/a": "u 7 sha256:1", "secret/b": ""}}}),
        ),
        sample(Kind::DockerConfig, docker_config()),
    ]
}

fn answers_of_registries() -> Vec<Sample> {
    vec![
        text(
            Kind::Registry,
            "HTTP/1.1 429 X\nretry-after: 18446744073709551615\ncontent-length: 2\nconnection: close\n\n{}",
        ),
        text(
            Kind::Registry,
            "HTTP/1.1 429 X\ndate: Sun, 06 Nov 1994 08:49:30 GMT\nretry-after: Wed, 29 Dec 9999 00:00:00 GMT\ncontent-length: 0\n\n",
        ),
        text(
            Kind::Registry,
            "HTTP/1.1 401 X\nwww-authenticate: Bearer realm=\"http://127.0.0.1:1/t\",service=\"s\"\ncontent-length: 0\nconnection: close\n\n",
        ),
        text(
            Kind::Registry,
            "HTTP/1.1 400 X\ncontent-length: 68\nconnection: close\n\n{\"errors\": [{\"code\": \"NAME_INVALID\", \"message\": \"x\", \"detail\": {}}]}",
        ),
        text(
            Kind::Registry,
            "HTTP/1.1 200 X\ndocker-content-digest: sha256:7173b809ca12ec5dee4506cd86be934c4596dd234ee82c0662eac04a8c2c71dc\ncontent-length: 2\nconnection: close\n\n{}",
        ),
        text(
            Kind::Registry,
            "HTTP/1.1 202 X\nlocation: http://127.0.0.1:1/upload?a=b\ncontent-length: 0\nconnection: close\n\n",
        ),
    ]
}

fn metadata() -> Value {
    json!({"name": "n", "namespace": "default", "uid": "u", "resourceVersion": "7", "generation": 3,
        "creationTimestamp": "2026-01-01T00:00:00Z", "labels": {"app": "web", "crr.apps.kruise.io/pod-uid": "u"},
        "annotations": {"swaplet.io/parked": "{}", "swaplet.io/restart-on": "main=configmap/a", "swaplet.io/warm-node": "n", "swaplet.io/warm-image": "a:1",
            "swaplet.io/restart-journal": "{\"main\":{\"containerID\":\"c\",\"restartCount\":0,\"intent\":{\"from\":\"a:1\",\"to\":\"a:1\"}}}"},
        "ownerReferences": [{"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "o", "controller": true}]})
}

fn container(name: &str, image: &str) -> Value {
    let env = json!([{"name": "KRUISE_TERMINATE_SIDECAR_WHEN_JOB_EXIT", "value": if name == "side" { "true" } else { "false" }},
        {"name": "A", "value": "$(B)x"}, {"name": "PATH", "value": "/opt/bin:/bin"}, {"name": "C", "valueFrom": {"configMapKeyRef": {"name": "a", "key": "k"}}}]);
    json!({"name": name, "image": image, "command": ["sh", "-c", "true"], "workingDir": "/", "env": env,
        "envFrom": [{"configMapRef": {"name": "a"}}, {"secretRef": {"name": "a"}}], "imagePullPolicy": "Always",
        "volumeMounts": [{"name": "v", "mountPath": "/v", "subPath": "s"}], "startupProbe": {"exec": {}},
        "lifecycle": {"preStop": {"httpGet": {"port": "web"}}, "postStart": {"exec": {}}}, "ports": [{"containerPort": 80, "name": "web"}],
        "securityContext": {"seccompProfile": {"type": "Localhost"}}})
}

fn status(name: &str, image: &str, state: Value) -> Value {
    json!({"name": name, "image": image, "imageID": format!("{image}@sha256:{}", "a".repeat(64)), "containerID": "containerd://1", "ready": true,
        "restartCount": 1, "state": state, "lastState": {"terminated": {"exitCode": 1, "reason": "Error", "finishedAt": "2026-01-01T00:00:00Z"}}})
}

fn pod() -> Value {
    let running = json!({"running": {"startedAt": "2026-01-01T00:00:00Z"}});
    let ended = json!({"terminated": {"exitCode": 0, "reason": "Completed", "startedAt": "2026-01-01T00:00:00Z", "finishedAt": "2026-01-01T00:00:00Z"}});
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata(),
        "spec": {"restartPolicy": "Never", "nodeName": "n", "terminationGracePeriodSeconds": 30, "os": {"name": "linux"},
            "nodeSelector": {"kubernetes.io/arch": "amd64"}, "readinessGates": [{"conditionType": "KruisePodReady"}],
            "containers": [container("main", "r.example/app:1"), container("side", "r.example/side:1")],
            "initContainers": [container("init", "r.example/init:1")],
            "volumes": [{"name": "v", "configMap": {"name": "a"}, "projected": {"sources": [{"secret": {"name": "a"}}]}}]},
        "status": {"phase": "Running", "reason": "r", "message": "m", "observedGeneration": 3,
            "conditions": [{"type": "Ready", "status": "True"}, {"type": "KruisePodReady", "status": "False", "message": "[{\"userAgent\":\"a\",\"key\":\"b\"}]"}],
            "containerStatuses": [status("main", "r.example/app:1", ended), status("side", "r.example/side:1", running)],
            "initContainerStatuses": [status("init", "r.example/init:1", json!({"waiting": {"reason": "ErrImagePull", "message": "m"}}))]}})
}

/// Finding A1: a gigabyte from 1.7 kB.
fn doubling() -> Value {
    let mut pod = pod();
    let side = &mut pod["spec"]["containers"][1];
    let doubled = (1..=32).map(
        |level| json!({"name": format!("A{level}"), "value": format!("$(A{0})$(A{0})", level - 1)}),
    );
    side["env"] = [
        json!({"name": "KRUISE_TERMINATE_SIDECAR_WHEN_JOB_EXIT", "value": "true"}),
        json!({"name": "A0", "value": "aaaaaaaa"}),
    ]
    .into_iter()
    .chain(doubled)
    .collect();
    side["command"] = json!(["$(A32)"]);
    pod
}

/// Finding A7: mounts below a program.
fn mounts() -> Value {
    let mut pod = pod();
    pod["spec"]["containers"][1]["volumeMounts"] = (0..900)
        .map(|number| json!({"name": "v", "mountPath": format!("/bin/sh/{number}")}))
        .collect();
    pod
}

fn node() -> Value {
    json!({"metadata": metadata(), "spec": {"taints": [{"key": "k", "value": "v", "effect": "NoSchedule"}]},
        "status": {"conditions": [{"type": "Ready", "status": "True", "message": "m"}], "nodeInfo": {"kubeletVersion": "v1.34.1"}, "images": [{"names": ["a:1"]}]}})
}

fn request() -> Value {
    json!({"apiVersion": "apps.kruise.io/v1alpha1", "kind": "ContainerRecreateRequest", "metadata": metadata(),
        "spec": {"podName": "n", "containers": [{"name": "main", "statusContext": {"containerID": "c", "restartCount": 1}}, {"name": "side"}],
            "strategy": {"failurePolicy": "Fail", "orderedRecreate": true, "forceRecreate": true, "terminationGracePeriodSeconds": 1, "unreadyGracePeriodSeconds": 1, "minStartedSeconds": 1},
            "activeDeadlineSeconds": 1, "ttlSecondsAfterFinished": 1},
        "status": {"phase": "Recreating", "message": "m", "completionTime": "2026-01-01T00:00:00Z",
            "containerRecreateStates": [{"name": "main", "phase": "Recreating", "message": "m", "isKilled": true}]}})
}

fn pull_job() -> Value {
    json!({"apiVersion": "apps.kruise.io/v1alpha1", "kind": "ImagePullJob", "metadata": metadata(),
        "spec": {"image": "a:1", "images": ["a:1"], "pullSecrets": ["s"], "selector": {"matchLabels": {"a": "b"}}, "parallelism": "10%",
            "imagePullPolicy": "Always", "pullPolicy": {"timeoutSeconds": 1, "backoffLimit": 1}, "sandboxConfig": {"labels": {"a": "b"}, "annotations": {"a": "b"}},
            "completionPolicy": {"type": "Always", "activeDeadlineSeconds": 1, "ttlSecondsAfterFinished": 1}},
        "status": {"observedGeneration": 1, "startTime": "2026-01-01T00:00:00Z", "completionTime": "2026-01-01T00:00:00Z", "pinned": [{"image": "a:1", "digest": "sha256:1"}]}})
}

/// A Deployment, StatefulSet or CloneSet: the three are read alike.
/// A CRD, with the status of a claim.
fn protected() -> Value {
    json!({"metadata": {"name": "widgets.example.com", "uid": "u", "resourceVersion": "1", "deletionTimestamp": "2026-01-01T00:00:00Z",
        "labels": {"policy.kruise.io/delete-protection": "Cascading"}, "annotations": {"swaplet.io/holds": "objects=0,uid=u"}},
        "spec": {"group": "example.com", "names": {"plural": "widgets"}, "versions": [{"name": "v1", "served": true}]},
        "status": {"phase": "Bound"}})
}

fn workload() -> Value {
    let mut metadata = metadata();
    metadata["annotations"] = json!({"swaplet.io/predownload": "true", "apps.kruise.io/image-predownload-parallelism": "20%",
        "apps.kruise.io/image-predownload-timeout-seconds": "60"});
    let mut template = pod()["spec"].clone();
    template["imagePullSecrets"] = json!([{"name": "s"}]);
    json!({"metadata": metadata, "spec": {"replicas": 1, "serviceName": "web", "template": {"metadata": {"labels": {"app": "web"}}, "spec": template},
        "selector": {"matchLabels": {"app": "web"}, "matchExpressions": [{"key": "tier", "operator": "In", "values": ["a", "b"]}]}}})
}

/// 36,000 volumes, which the API server takes: each is a kilobyte and more where it is read whole.
fn volumes() -> Value {
    let mut workload = workload();
    let volumes = (0..36_000).map(|number| json!({"name": format!("v{number}"), "emptyDir": {}}));
    workload["spec"]["template"]["spec"]["volumes"] = volumes.collect();
    workload
}

fn image_cache() -> Value {
    json!({"metadata": metadata(), "spec": {"images": ["a:1", "b:1"], "imageCacheSize": 20, "retentionDays": 7},
        "status": {"phase": "Creating", "progress": "30%", "events": [{"message": "m"}]}})
}

fn node_classes() -> Value {
    json!([{"name": "n", "provider": "p", "class": "VirtualUpdates", "updatesPerSecond": 0.5, "machinePerPod": true, "swapUnderNever": false,
        "match": [{"labels": ["type=virtual-kubelet"], "annotations": ["a"], "taints": ["k=v"], "name": "vk-*"}], "source": "s"}])
}

fn verdict() -> Value {
    json!({"uid": "u", "proved": "Updates", "provedAt": "2026-01-01T00:00:00Z", "until": "2026-01-02T00:00:00Z", "times": 3, "pod": "n/p", "provider": "p"})
}

fn docker_config() -> Value {
    json!({"auths": {"r.example": {"auth": "dTpw"}, "https://index.docker.io/v1/": {"username": "u", "password": "p"}, "r.example/team": {}},
        "credHelpers": {"other.example": "pass"}, "credsStore": "store"})
}

fn policy() -> Value {
    let sidecars = json!([
        {"preset": "istio", "method": "Auto", "order": 1},
        {"name": "log-*", "image": "*/fluent-bit:*", "exitImage": "registry.example/exit:v1", "delaySeconds": 5, "waitForExit": {"deadlineSeconds": 30}, "mainMustSucceed": true},
    ]);
    let spec = json!({
        "namespaceSelector": {"matchLabels": {"team": "a"}},
        "podSelector": {"matchExpressions": [{"key": "app", "operator": "In", "values": ["x", "y"]}]},
        "ownerKinds": ["Job", "None"], "sidecars": sidecars,
    });
    json!({"metadata": metadata(), "spec": spec, "status": {"ended": 3, "observedGeneration": 1}})
}

/// A pod with what its annotations may say.
fn annotated() -> Value {
    let mut pod = pod();
    pod["metadata"]["annotations"] = json!({
        "swaplet.io/sidecars": "side, log", "swaplet.io/delay": "5s,side=2m",
        "swaplet.io/order": "side=-1", "swaplet.io/wait-for-exit": "log=1h",
    });
    pod
}
