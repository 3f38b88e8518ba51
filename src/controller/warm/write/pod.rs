//! The manifest of a warmer pod, in each shape.

use std::hash::{BuildHasher as _, Hasher as _, RandomState};

use serde_json::{Value, json};
use swaplet_core::image::Kind;
use swaplet_core::objects::values::short_digest::short_digest;
use swaplet_core::warm::pod::{
    CONTAINER, IMAGE, IMPOSSIBLE_COMMAND, INIT_CONTAINER, JOB, JOB_NAMESPACE, NAME_PREFIX, NODE,
    NUMBERED_CONTAINER, RUN, Shape,
};
use swaplet_core::warm::pull_job::object::JobKind;

use super::Warmers;

/// The mount point in the container of the park image, and the beginning of the one in the other.
const MOUNT: &str = "/.swaplet-warm";
/// The condition that keeps a warmer pod from being Ready.
const NEVER_READY: &str = "swaplet.io/never-ready";
/// The file in the volume to which the park program is copied.
const PROGRAM: &str = "park";
/// The user of all containers: unprivileged, whatever an image declares.
const USER: u32 = 65_532;
/// The user of all containers on Windows.
const WINDOWS_USER: &str = "ContainerUser";

/// Returns the manifest of a warmer pod. The user, entrypoint, volumes and environment that an
/// image declares do not matter: the container runs a static program from a volume, as a user of
/// ours and without any right, or it runs nothing at all.
pub fn pod(warmers: &Warmers, node: &str, shape: Shape, images: &[Box<str>], number: u32) -> Value {
    let mut spec = common(warmers, node);
    match shape {
        Shape::InPlace => in_place(&mut spec, warmers, images.first().map_or("", |image| image)),
        Shape::ImpossibleCommand => impossible_command(&mut spec, warmers, images),
    }
    let mut metadata = json!({
        "name": name(warmers, node, number), "namespace": warmers.namespace,
        "labels": labels(warmers), "annotations": annotations(warmers, node, &images.join(" ")),
    });
    if let (Some((_, uid)), Some((kind, name))) = (&warmers.job, &warmers.owner) {
        metadata["ownerReferences"] = json!([owner(warmers, *kind, name, uid)]);
    }
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
}

/// Returns the owner reference to the job. The job controls a pod with labels that a user has
/// chosen, because a workload that selects them would adopt it otherwise. Other pods it only owns:
/// each `PodDisruptionBudget` with `maxUnavailable` or a percentage that selects a pod, as one for
/// the whole namespace does, needs the scale of its controller. A job has none, and a budget that
/// cannot count allows no eviction (pkg/controller/disruption, getExpectedScale). It skips pods
/// without a controller.
fn owner(warmers: &Warmers, kind: JobKind, name: &str, uid: &str) -> Value {
    let resource = kind.resource();
    let mut owner = json!({"apiVersion": resource.api_version, "kind": resource.kind, "name": name, "uid": uid});
    if !warmers.wishes.labels.is_empty() {
        owner["controller"] = true.into();
    }
    owner
}

fn common(warmers: &Warmers, node: &str) -> Value {
    let secrets: Vec<_> = warmers
        .wishes
        .pull_secrets
        .iter()
        .map(|name| json!({"name": name}))
        .collect();
    let by_name = json!({"key": "metadata.name", "operator": "In", "values": [node]});
    json!({
        "terminationGracePeriodSeconds": 1, "activeDeadlineSeconds": warmers.life_seconds,
        "automountServiceAccountToken": false, "enableServiceLinks": false,
        "imagePullSecrets": secrets,
        // Nothing ever sets this condition, so the pod is never Ready, and no Service that selects
        // its labels sends it traffic.
        "readinessGates": [{"conditionType": NEVER_READY}],
        "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": [{"matchFields": [by_name]}],
        }}},
        "tolerations": [{"operator": "Exists"}],
        "securityContext": {
            "runAsNonRoot": true, "runAsUser": USER, "runAsGroup": USER, "seccompProfile": {"type": "RuntimeDefault"},
        },
    })
}

/// Returns the pull policy of the job's images; ours always have `IfNotPresent`.
fn pull_policy(warmers: &Warmers) -> &'static str {
    if warmers.wishes.always_pulls {
        "Always"
    } else {
        "IfNotPresent"
    }
}

fn container(name: &str, image: &str, policy: &str, command: &[&str]) -> Value {
    json!({
        "name": name, "image": image, "imagePullPolicy": policy, "command": command, "workingDir": "/",
        // The limit is for the runtime that starts the container, which needs more than the
        // program.
        "resources": {"requests": {"cpu": "1m", "memory": "4Mi"}, "limits": {"memory": "64Mi"}},
        "securityContext": {
            "allowPrivilegeEscalation": false, "readOnlyRootFilesystem": true, "capabilities": {"drop": ["ALL"]},
        },
    })
}

/// Adds the containers of the shape in place. The file is mounted at the root, not in a folder: a
/// runtime fills the volumes that an image declares with the image's content, and follows the
/// image's links when it mounts them, over any other mount (measured: so an image had its own
/// program run). Only a file is mounted over a file, and nothing over the root: such a container is
/// not started, which shows that its image has been pulled. The file itself is mounted where a link
/// of its name leads, which could be into such a volume: so each pod has another name.
fn in_place(spec: &mut Value, warmers: &Warmers, image: &str) {
    let copy = [
        Kind::Park.program_path(),
        "--copy-self",
        &format!("{MOUNT}/{PROGRAM}"),
    ];
    let mut init = container(INIT_CONTAINER, &warmers.park_image, "IfNotPresent", &copy);
    init["volumeMounts"] = json!([{"name": PROGRAM, "mountPath": MOUNT}]);
    let path = unguessable_path();
    let mut warmer = container(CONTAINER, image, pull_policy(warmers), &[path.as_str()]);
    warmer["volumeMounts"] =
        json!([{"name": PROGRAM, "mountPath": path, "subPath": PROGRAM, "readOnly": true}]);
    spec["restartPolicy"] = "Always".into();
    spec["volumes"] = json!([{"name": PROGRAM, "emptyDir": {"sizeLimit": "1Mi"}}]);
    spec["initContainers"] = json!([init]);
    spec["containers"] = json!([warmer]);
}

/// Returns the path of the park program in the container of an image: another one each time, so
/// that no image can have anything there.
fn unguessable_path() -> String {
    format!(
        "{MOUNT}-{:016x}",
        RandomState::new().build_hasher().finish()
    )
}

/// Adds containers with an impossible command. The kubelet pulls their images one after another,
/// creates each container and cannot start it. That is not retried; a failed pull is.
fn impossible_command(spec: &mut Value, warmers: &Warmers, images: &[Box<str>]) {
    let images = images.iter().enumerate();
    let containers = images.map(|(number, image)| {
        let name = format!("{NUMBERED_CONTAINER}{number}");
        on_windows(container(
            &name,
            image,
            pull_policy(warmers),
            &[IMPOSSIBLE_COMMAND],
        ))
    });
    spec["containers"] = containers.collect();
    spec["os"] = json!({"name": "windows"});
    spec["securityContext"] =
        json!({"runAsNonRoot": true, "windowsOptions": {"runAsUserName": WINDOWS_USER}});
    spec["restartPolicy"] = "Never".into();
}

/// Removes the Linux-only fields, as the API server rejects those in a pod for Windows, and the
/// memory limit, which a container there exceeds.
fn on_windows(mut container: Value) -> Value {
    if let Some(fields) = container.as_object_mut() {
        fields.retain(|field, _| !["securityContext", "workingDir"].contains(&field.as_str()));
    }
    container["resources"] = json!({"requests": {"cpu": "1m", "memory": "4Mi"}});
    container
}

/// Returns the labels. One of them keeps a service mesh from injecting a container. Labels that
/// identify the pod outrank those of the job.
fn labels(warmers: &Warmers) -> Value {
    let mut labels = json!(warmers.wishes.labels);
    labels[RUN] = Value::from(&*warmers.run);
    labels["app.kubernetes.io/name"] = "swaplet-warmer".into();
    labels["sidecar.istio.io/inject"] = "false".into();
    if let Some((namespace, uid)) = &warmers.job {
        labels[JOB_NAMESPACE] = Value::from(&**namespace);
        labels[JOB] = Value::from(&**uid);
    }
    labels
}

fn annotations(warmers: &Warmers, node: &str, images: &str) -> Value {
    let mut annotations = json!(warmers.wishes.annotations);
    annotations[NODE] = node.into();
    annotations[IMAGE] = images.into();
    annotations["cluster-autoscaler.kubernetes.io/safe-to-evict"] = "true".into();
    annotations
}

/// Returns the pod's name, unique for every node and number, however long the node's name is.
fn name(warmers: &Warmers, node: &str, number: u32) -> String {
    format!(
        "{NAME_PREFIX}{}-{}-{number}",
        warmers.run,
        short_digest(node, 5)
    )
}
