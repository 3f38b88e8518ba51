//! What a warmer pod is, in each shape.

use serde_json::{Value, json};
use swaplet_core::image::Kind;
use swaplet_core::objects::values::short_digest::short_digest;
use swaplet_core::warm::pod::{
    CONTAINER, IMAGE, IMPOSSIBLE_COMMAND, INIT_CONTAINER, JOB, JOB_NAMESPACE, NAME_PREFIX, NODE,
    NUMBERED_CONTAINER, RUN, Shape, System,
};
use swaplet_core::warm::pull_job::object::JobKind;

use super::Warmers;

/// What the container runs: the park program, or where an image is mounted. A name that no image
/// has: what an image has there is hidden.
const MOUNT: &str = "/.swaplet-warm";
/// The condition that keeps a warmer pod from being Ready.
const NEVER_READY: &str = "swaplet.io/never-ready";
/// The file of the volume that the park program is copied to.
const PROGRAM: &str = "park";
/// The user of all containers: nobody's, and never root, whatever an image says.
const USER: u32 = 65_532;
/// The same on Windows.
const WINDOWS_USER: &str = "ContainerUser";

/// A warmer pod. What an image says of its user, its entrypoint, its volumes and its environment
/// does not matter: the container runs a static program from a volume, as a user of ours, without
/// any right; or nothing at all.
#[must_use]
pub fn pod(warmers: &Warmers, node: &str, shape: Shape, images: &[Box<str>], number: u32) -> Value {
    let mut spec = common(warmers, node);
    match shape {
        Shape::InPlace => in_place(&mut spec, warmers, images.first().map_or("", |image| image)),
        Shape::ImageVolumes => image_volumes(&mut spec, warmers, images),
        Shape::ImpossibleCommand(system) => impossible_command(&mut spec, warmers, system, images),
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

/// The job controls a pod with labels that a user has chosen: else a workload that selects them
/// would adopt it. Others it only owns, for what controls a pod is asked for its scale by each
/// `PodDisruptionBudget` with `maxUnavailable` or a percentage that selects the pod, as one for all
/// pods of the namespace does. A job has none, and a budget that cannot count allows no eviction
/// (pkg/controller/disruption, getExpectedScale); a pod that nothing controls is left out.
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
        // Nobody ever says that it is met, so the pod is never Ready: no Service that selects its
        // labels sends it anything.
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

/// The images of the job are pulled as it says; ours need to be there only.
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

/// The container mounts the one file, and at the root. A folder would not do: a runtime fills the
/// volumes that an image declares with what the image has there, and mounts them where links of the
/// image lead, over whatever is mounted there (measured: so an image had its own program run).
/// Nothing is mounted over a file but another file, and over the root nothing at all: such a
/// container is not started, by which its image has been pulled.
fn in_place(spec: &mut Value, warmers: &Warmers, image: &str) {
    let copy = [
        Kind::Park.program_path(),
        "--copy-self",
        &format!("{MOUNT}/{PROGRAM}"),
    ];
    let mut init = container(INIT_CONTAINER, &warmers.park_image, "IfNotPresent", &copy);
    init["volumeMounts"] = json!([{"name": PROGRAM, "mountPath": MOUNT}]);
    let mut warmer = container(CONTAINER, image, pull_policy(warmers), &[MOUNT]);
    warmer["volumeMounts"] =
        json!([{"name": PROGRAM, "mountPath": MOUNT, "subPath": PROGRAM, "readOnly": true}]);
    spec["restartPolicy"] = "Always".into();
    spec["volumes"] = json!([{"name": PROGRAM, "emptyDir": {"sizeLimit": "1Mi"}}]);
    spec["initContainers"] = json!([init]);
    spec["containers"] = json!([warmer]);
}

/// Each image is mounted by a container of its own, so one that is missing keeps no other waiting.
/// A volume that no container mounts would keep none waiting either, and the status does not tell
/// of volumes (measured on 1.34).
fn image_volumes(spec: &mut Value, warmers: &Warmers, images: &[Box<str>]) {
    let (mut volumes, mut containers) = (Vec::new(), Vec::new());
    for (number, image) in images.iter().enumerate() {
        let name = format!("{NUMBERED_CONTAINER}{number}");
        let mut container = container(
            &name,
            &warmers.park_image,
            "IfNotPresent",
            &[Kind::Park.program_path()],
        );
        container["volumeMounts"] = json!([{"name": name, "mountPath": MOUNT, "readOnly": true}]);
        containers.push(container);
        volumes.push(json!({"name": name, "image": {"reference": image, "pullPolicy": pull_policy(warmers)}}));
    }
    spec["restartPolicy"] = "Never".into();
    spec["volumes"] = volumes.into();
    spec["containers"] = containers.into();
}

/// The kubelet pulls the images one after another, makes a container of each and cannot start it.
/// What has failed so is not tried again; what cannot be pulled is.
fn impossible_command(spec: &mut Value, warmers: &Warmers, system: System, images: &[Box<str>]) {
    let numbered = |number: usize| format!("{NUMBERED_CONTAINER}{number}");
    let images = images.iter().enumerate();
    let containers = images.map(|(number, image)| {
        container(
            &numbered(number),
            image,
            pull_policy(warmers),
            &[IMPOSSIBLE_COMMAND],
        )
    });
    let mut containers: Vec<_> = containers.collect();
    if system == System::Windows {
        containers.iter_mut().for_each(on_windows);
        spec["os"] = json!({"name": "windows"});
        spec["securityContext"] =
            json!({"runAsNonRoot": true, "windowsOptions": {"runAsUserName": WINDOWS_USER}});
    }
    spec["restartPolicy"] = "Never".into();
    spec["containers"] = containers.into();
}

/// The API server takes no rights of Linux in a pod for Windows, where a container takes more
/// memory than the limit.
fn on_windows(container: &mut Value) {
    if let Some(container) = container.as_object_mut() {
        container.retain(|field, _| !["securityContext", "workingDir"].contains(&field.as_str()));
        container.insert(
            "resources".to_owned(),
            json!({"requests": {"cpu": "1m", "memory": "4Mi"}}),
        );
    }
}

/// A mesh would put a container of its own beside ours. What the pod is known by outranks what a
/// job asks for.
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

/// Another one for every node and every number, however long the name of the node is.
fn name(warmers: &Warmers, node: &str, number: u32) -> String {
    format!(
        "{NAME_PREFIX}{}-{}-{number}",
        warmers.run,
        short_digest(node, 5)
    )
}
