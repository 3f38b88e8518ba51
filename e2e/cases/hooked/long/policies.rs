//! The six webhooks, as objects of the API server.

use serde_json::{Value, json};

use super::{HOOKED, Hook};
use crate::audit::system_namespace;
use crate::images::{push_work_as, swaplet};
use crate::of_cluster::OfCluster;
use crate::world::{World, apply, variable};

const GROUP: &str = "admissionregistration.k8s.io/v1";
/// The seconds after which a webhook that does not answer has failed.
const TIMEOUT: u32 = 2;

/// The mirror has every image under its own name.
fn mirrored(image: &str) -> String {
    let (registry, path) = image.split_once('/').unwrap();
    format!("{registry}/mirror/{path}")
}

async fn mirror_has(world: &World, work: &[&str]) {
    let registry = variable("SWAPLET_E2E_REGISTRY");
    let images = world.images;
    swaplet(&["exit-image", "push", &mirrored(&images.exit)]).await;
    swaplet(&["park-image", "push", &mirrored(&images.park)]).await;
    for image in work {
        push_work_as(&registry, &mirrored(image), image).await;
    }
}

/// What swaplet writes; of other objects than pods, and of statuses, those with the label.
fn of_swaplet(world: &World) -> Value {
    // As a process, and as an installation.
    let accounts = [&world.namespace, &system_namespace(&world.namespace)]
        .map(|namespace| format!("system:serviceaccount:{namespace}:swaplet"));
    json!([
        {"name": "swaplet", "expression": format!("request.userInfo.username in {}", json!(accounts))},
        {"name": "hooked", "expression": format!("request.resource.resource == 'pods' && !has(request.subResource) || has(object.metadata.labels) && '{HOOKED}' in object.metadata.labels")},
    ])
}

fn rules() -> Value {
    json!([
        {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE", "UPDATE"], "resources": ["pods", "pods/status"]},
        {"apiGroups": ["apps.kruise.io"], "apiVersions": ["*"], "operations": ["UPDATE"],
            "resources": ["containerrecreaterequests", "containerrecreaterequests/status"]},
    ])
}

/// Every image of the registry gets the name that it has in the mirror.
fn renames(registry: &str) -> String {
    let image = "object.spec.containers[i].image";
    let from = registry.len();
    format!(
        r#"[0, 1, 2, 3].filter(i, i < object.spec.containers.size() && {image}.startsWith("{registry}/") && !{image}.startsWith("{registry}/mirror/")).map(i,
            JSONPatch{{op: "replace", path: "/spec/containers/" + string(i) + "/image", value: "{registry}/mirror" + {image}.substring({from})}})"#
    )
}

/// For each container the image of a list of rows, from and to, instead of its own.
fn replaces(rows: &[[String; 2]]) -> String {
    let rows: serde_json::Map<String, Value> = rows
        .iter()
        .map(|[from, to]| (from.clone(), json!(to)))
        .collect();
    let (rows, image) = (json!(rows), "object.spec.containers[i].image");
    format!(
        r#"[0, 1, 2, 3].filter(i, i < object.spec.containers.size() && {image} in {rows}).map(i,
            JSONPatch{{op: "replace", path: "/spec/containers/" + string(i) + "/image", value: {rows}[{image}]}})"#
    )
}

/// Each image with what it is by its digest. They are in the registry then, and where they are
/// renamed in the mirror.
async fn rows(world: &World, hook: Hook) -> Vec<[String; 2]> {
    let registry = variable("SWAPLET_E2E_REGISTRY");
    let images = world.images;
    let work = [
        images.work.clone(),
        super::loops::mesh("a"),
        super::loops::mesh("b"),
        super::warms::image("a"),
        super::warms::image("b"),
    ];
    for image in &work[1..] {
        push_work_as(&registry, image, image).await;
    }
    let work: Vec<_> = work.iter().map(String::as_str).collect();
    if hook == Hook::Renames {
        mirror_has(world, &work).await;
    }
    let mut rows = Vec::new();
    for image in [&images.exit[..], &images.park].into_iter().chain(work) {
        rows.push([
            image.to_owned(),
            format!("{image}@{}", digest_of(image).await),
        ]);
    }
    rows
}

async fn digest_of(image: &str) -> String {
    let (registry, rest) = image.split_once('/').unwrap();
    let (repository, tag) = rest.rsplit_once(':').unwrap();
    let answer = reqwest::Client::new()
        .head(format!("http://{registry}/v2/{repository}/manifests/{tag}"))
        .header(
            "accept",
            "application/vnd.oci.image.manifest.v1+json, application/vnd.oci.image.index.v1+json",
        )
        .send()
        .await
        .unwrap()
        .error_for_status()
        .unwrap();
    let digest = answer.headers().get("docker-content-digest").unwrap();
    digest.to_str().unwrap().to_owned()
}

/// What is changed stays as it was: images, phases, and statuses of requests.
const UNDO: &str = r#"request.operation == "CREATE" ? []
    : request.resource.resource == "pods" && !has(request.subResource)
    ? [0, 1, 2, 3].filter(i, i < object.spec.containers.size() && object.spec.containers[i].image != oldObject.spec.containers[i].image)
        .map(i, JSONPatch{op: "replace", path: "/spec/containers/" + string(i) + "/image", value: oldObject.spec.containers[i].image})
    : has(object.status) && has(object.status.phase) && has(oldObject.status) && has(oldObject.status.phase)
    ? [JSONPatch{op: "replace", path: "/status/phase", value: oldObject.status.phase}] : []"#;

fn mutating(world: &World, rules: &Value, expression: &str) -> Vec<Value> {
    let name = &world.namespace;
    let policy = json!({"apiVersion": GROUP, "kind": "MutatingAdmissionPolicy", "metadata": {"name": name}, "spec": {
        "failurePolicy": "Fail", "reinvocationPolicy": "Never",
        "matchConstraints": {"namespaceSelector": here(world), "resourceRules": rules},
        "matchConditions": of_swaplet(world),
        "mutations": [{"patchType": "JSONPatch", "jsonPatch": {"expression": expression}}],
    }});
    let binding = json!({"apiVersion": GROUP, "kind": "MutatingAdmissionPolicyBinding",
        "metadata": {"name": name}, "spec": {"policyName": name}});
    vec![policy, binding]
}

fn here(world: &World) -> Value {
    json!({"matchLabels": {"kubernetes.io/metadata.name": world.namespace}})
}

fn denying(world: &World) -> Vec<Value> {
    let name = &world.namespace;
    let policy = json!({"apiVersion": GROUP, "kind": "ValidatingAdmissionPolicy", "metadata": {"name": name}, "spec": {
        "failurePolicy": "Fail",
        "matchConstraints": {"namespaceSelector": here(world), "resourceRules": rules()},
        "matchConditions": of_swaplet(world),
        "validations": [{"expression": "false", "message": Hook::Denies.words()}],
    }});
    let binding = json!({"apiVersion": GROUP, "kind": "ValidatingAdmissionPolicyBinding", "metadata": {"name": name},
        "spec": {"policyName": name, "validationActions": ["Deny"]}});
    vec![policy, binding]
}

fn webhook(world: &World, port: u16) -> Vec<Value> {
    let name = &world.namespace;
    vec![
        json!({"apiVersion": GROUP, "kind": "ValidatingWebhookConfiguration", "metadata": {"name": name}, "webhooks": [{
            "name": "down.example.com", "clientConfig": {"url": format!("https://127.0.0.1:{port}/validate")},
            "failurePolicy": "Fail", "timeoutSeconds": TIMEOUT, "sideEffects": "None", "admissionReviewVersions": ["v1"],
            "namespaceSelector": here(world), "rules": rules(), "matchConditions": of_swaplet(world),
        }]}),
    ]
}

/// All of them may be there.
const KINDS: [&str; 5] = [
    "mutatingadmissionpolicybinding",
    "mutatingadmissionpolicy",
    "validatingadmissionpolicybinding",
    "validatingadmissionpolicy",
    "validatingwebhookconfiguration",
];

pub async fn install(world: &World, hook: Hook, port: u16) -> OfCluster {
    let name = &world.namespace;
    let goes = OfCluster::new(&KINDS, name);
    let rows = rows(world, hook).await;
    let of_pods = json!([{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE", "UPDATE"], "resources": ["pods"]}]);
    let registry = variable("SWAPLET_E2E_REGISTRY");
    let objects = match hook {
        Hook::Renames => mutating(world, &of_pods, &renames(&registry)),
        Hook::Pins => mutating(world, &of_pods, &replaces(&rows)),
        Hook::Undoes => mutating(world, &rules(), UNDO),
        Hook::Denies => denying(world),
        Hook::Gone | Hook::Hangs => webhook(world, port),
    };
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("hook.json");
    let list = json!({"apiVersion": "v1", "kind": "List", "items": objects});
    std::fs::write(&file, list.to_string()).unwrap();
    apply(&file).await;
    goes
}
