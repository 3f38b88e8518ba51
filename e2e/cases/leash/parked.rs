//! `deploy/leash-parked.yaml`: nobody but swaplet writes what pods say of parked containers, and
//! everybody else works on as before.

use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::{Patch, PatchParams, PostParams};
use kube::core::Request;
use kube::{Api, Client, Resource as _};
use serde_json::{Value, json};
use swaplet_core::restart::parked::PARKED;

use super::legal::{brought_back, image, parking};
use super::pods::{main, pod};
use super::{Leashed, dry_post};
use crate::controller::{Controller, Why};
use crate::crds::requests_are_served;
use crate::of_cluster::OfCluster;
use crate::pods::{EXITS_143, container, spec};
use crate::restart_forged::tenant;
use crate::restart_parking::{forced, nameless};
use crate::version::has_mutating_policies;
use crate::world::{apply, eventually, kubectl};

/// The other policy, for the namespace of the case only.
async fn install(leashed: &Leashed) {
    let namespace = &leashed.world.namespace;
    let text = include_str!("../../../deploy/leash-parked.yaml")
        .replace(
            "system:serviceaccount:swaplet:swaplet",
            &format!("system:serviceaccount:{namespace}:swaplet"),
        )
        .replace("swaplet-leash-", &leashed.prefix);
    let mut objects: Vec<Value> = serde_saphyr::from_multiple(&text).unwrap();
    for object in objects
        .iter_mut()
        .filter(|object| object["kind"] == "ValidatingAdmissionPolicyBinding")
    {
        object["spec"]["matchResources"] = json!({"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}}});
    }
    let file = leashed.world.kubeconfig.with_file_name("leash-parked.json");
    std::fs::write(
        &file,
        json!({"apiVersion": "v1", "kind": "List", "items": objects}).to_string(),
    )
    .unwrap();
    kubectl(&["apply", "-f", file.to_str().unwrap()]).await;
}

/// Writes as one of those who are not swaplet; nothing is changed by them.
struct Neighbour(Client, String);

impl Neighbour {
    fn pods(&self) -> Api<Pod> {
        Api::namespaced(self.0.clone(), &self.1)
    }

    async fn patch(&self, name: &str, subresource: &str, patch: &Value) -> Result<(), String> {
        let (params, patch) = (
            PatchParams {
                dry_run: true,
                ..PatchParams::default()
            },
            Patch::Strategic(patch),
        );
        let patched = match subresource {
            "" => self.pods().patch(name, &params, &patch).await,
            subresource => {
                self.pods()
                    .patch_subresource(subresource, name, &params, &patch)
                    .await
            }
        };
        patched.map(drop).map_err(|error| error.to_string())
    }

    async fn create(&self, object: Value) -> Result<(), String> {
        self.pods()
            .create(&dry_post(), &serde_json::from_value(object).unwrap())
            .await
            .map(drop)
            .map_err(|error| error.to_string())
    }

    async fn bind(&self, name: &str, metadata: Value, dry_run: bool) -> Result<(), String> {
        let mut binding = json!({"apiVersion": "v1", "kind": "Binding", "target": {"kind": "Node", "name": "nowhere"}});
        binding["metadata"] = metadata;
        let requests = Request::new(Pod::url_path(&(), Some(&self.1)));
        let params = PostParams {
            dry_run,
            ..PostParams::default()
        };
        let request = requests
            .create_subresource("binding", name, &params, binding.to_string().into_bytes())
            .unwrap();
        self.0
            .request::<Value>(request)
            .await
            .map(drop)
            .map_err(|error| error.to_string())
    }
}

fn denied(answer: Result<(), String>, words: &str, what: &str) {
    let said = answer.expect_err(what);
    assert!(
        said.contains(words) && said.contains("parked'"),
        "{what}: {said}"
    );
}

const SWAPLETS: &str = "swaplet's to write, and nobody else's";

async fn uninstall(leashed: &Leashed) {
    for kind in [
        "validatingadmissionpolicybinding",
        "validatingadmissionpolicy",
    ] {
        kubectl(&["delete", kind, &format!("{}parked", leashed.prefix)]).await;
    }
}

/// One that was never parked, one that is, and one that is back.
async fn pods_are_there(leashed: &Leashed) {
    let world = &leashed.world;
    let (work, park) = (world.images.work.as_str(), world.images.park.as_str());
    for name in ["free", "parked", "back"] {
        leashed
            .is_there(
                pod(leashed, name, "Always", json!([main(leashed)])),
                &[("main", None)],
                &[],
            )
            .await;
    }
    for (name, now) in [("parked", park), ("back", work)] {
        let marked = parking(
            image("main", now),
            &leashed.uid(name).await,
            park,
            &[("main", work)],
        );
        world
            .api::<Pod>()
            .patch(name, &PatchParams::default(), &Patch::Strategic(marked))
            .await
            .unwrap();
    }
}

fn mark(text: &str) -> Value {
    json!({"metadata": {"labels": {PARKED: "true"}, "annotations": {PARKED: text}}})
}

fn label(value: Value) -> Value {
    json!({"metadata": {"labels": {PARKED: value}}})
}

fn annotation(value: Value) -> Value {
    json!({"metadata": {"annotations": {PARKED: value}}})
}

/// What this one may not write through the pod or its status, and what it may.
async fn notes_are_not_to_be_written(who: &Neighbour, subresource: &str) {
    for (name, patch) in [
        ("free", mark("x")),
        ("free", label(json!("true"))),
        ("free", label(json!(""))),
        ("free", annotation(json!("x"))),
        ("free", annotation(json!(""))),
        ("parked", annotation(json!("x"))),
        ("parked", label(json!("false"))),
        ("back", annotation(json!("x"))),
    ] {
        denied(
            who.patch(name, subresource, &patch).await,
            SWAPLETS,
            &format!("{name} {subresource} {patch}"),
        );
    }
    for patch in [
        label(json!(null)),
        annotation(json!(null)),
        brought_back(json!({})),
    ] {
        denied(
            who.patch("parked", subresource, &patch).await,
            "main had, which has the park image",
            &patch.to_string(),
        );
        who.patch("back", subresource, &patch).await.unwrap();
    }
    // What has nothing to do with it.
    for name in ["free", "parked", "back"] {
        for patch in [
            json!({"metadata": {"labels": {"team": "x"}, "annotations": {"a": "b"}}}),
            json!({"status": {"message": "x", "conditions": [{"type": "example.com/x", "status": "True"}]}}),
        ] {
            who.patch(name, subresource, &patch)
                .await
                .unwrap_or_else(|error| panic!("{name} {subresource} {patch}: {error}"));
        }
    }
}

/// Another image, new pods and bindings are fine; marks in them are not.
async fn works_on(leashed: &Leashed, who: &Neighbour) {
    who.patch("parked", "", &image("main", "r.example/mine:2"))
        .await
        .unwrap();
    who.patch(
        "parked",
        "",
        &brought_back(image("main", "r.example/mine:2")),
    )
    .await
    .unwrap();
    let new = |name: &str, metadata: Value| {
        let mut object = pod(leashed, name, "Always", json!([main(leashed)]));
        object["metadata"]["labels"] = metadata["labels"].clone();
        object["metadata"]["annotations"] = metadata["annotations"].clone();
        object
    };
    who.create(new(
        "new",
        json!({"labels": {"a": "b"}, "annotations": {"a": "b"}}),
    ))
    .await
    .unwrap();
    for metadata in [mark("x"), label(json!("true")), annotation(json!("x"))] {
        denied(
            who.create(new("new", metadata["metadata"].clone())).await,
            SWAPLETS,
            &metadata.to_string(),
        );
    }
    denied(
        who.bind(
            "free",
            json!({"name": "free", "annotations": {PARKED: "x"}}),
            true,
        )
        .await,
        SWAPLETS,
        "a binding",
    );
    let bound = who
        .bind(
            "free",
            json!({"name": "free", "annotations": {"a": "b"}}),
            true,
        )
        .await;
    assert!(
        !bound.as_ref().is_err_and(|words| words.contains("parked")),
        "{bound:?}"
    );
}

#[tokio::test]
async fn v1_a13_notes_are_swaplets_and_everybody_else_works_on() {
    let leashed = Leashed::new("leash-parked").await;
    let world = &leashed.world;
    let (work, park) = (world.images.work.as_str(), world.images.park.as_str());
    pods_are_there(&leashed).await;
    install(&leashed).await;
    let administrator = Neighbour(world.client.clone(), world.namespace.clone());
    eventually("the policy to hold", || async {
        administrator.patch("free", "", &mark("x")).await.err()
    })
    .await;

    let rules = json!([
        {"apiGroups": [""], "resources": ["pods", "pods/status", "pods/binding"], "verbs": ["get", "patch", "update", "create"]},
    ]);
    let of_tenant = Neighbour(
        tenant(world, "tenant", rules).await,
        world.namespace.clone(),
    );
    eventually("the rights of the tenant", || async {
        of_tenant.patch("free", "", &json!({})).await.ok()
    })
    .await;
    for who in [&administrator, &of_tenant] {
        for subresource in ["", "status"] {
            notes_are_not_to_be_written(who, subresource).await;
        }
        works_on(&leashed, who).await;
    }
    // swaplet itself parks, and brings back.
    let free = leashed.uid("free").await;
    leashed
        .patch(
            "free",
            "",
            &parking(image("main", park), &free, park, &[("main", work)]),
        )
        .await
        .unwrap();
    leashed
        .patch("parked", "", &brought_back(image("main", work)))
        .await
        .unwrap();

    // Parked pods can be deleted, by anybody who may.
    kubectl(&[
        "delete",
        "pod",
        "-n",
        &world.namespace,
        "parked",
        "--grace-period=0",
        "--force",
    ])
    .await;
    uninstall(&leashed).await;
    leashed.done().await;
}

/// Whether the container runs, after so many restarts.
fn runs(pod: &Pod, count: i32) -> bool {
    let statuses = pod
        .status
        .as_ref()
        .and_then(|status| status.container_statuses.as_ref());
    statuses.is_some_and(|all| {
        all[0].restart_count == count
            && all[0]
                .state
                .as_ref()
                .is_some_and(|state| state.running.is_some())
    })
}

/// A node's kubelet goes on with a pod that is parked: it starts the container, and tells so
/// through pods/status.
#[tokio::test]
async fn v1_a_kubelet_tells_of_a_parked_pod() {
    let leashed = Leashed::new("leash-parked-kubelet").await;
    install(&leashed).await;
    let world = &leashed.world;
    let nodes: Api<Node> = Api::all(world.client.clone());
    assert!(
        !nodes
            .list(&Default::default())
            .await
            .unwrap()
            .items
            .is_empty()
    );
    let mut object = pod(&leashed, "p", "Always", json!([main(&leashed)]));
    object["spec"]
        .as_object_mut()
        .unwrap()
        .remove("schedulerName");
    object["spec"]["containers"][0]["command"] = json!(["/bin/sh", "-c", "sleep 1000"]);
    world.create_pod(object).await;
    world.pod_is("p", "running", |pod| runs(pod, 0)).await;
    let (work, park) = (world.images.work.as_str(), world.images.park.as_str());
    let patch = parking(
        image("main", park),
        &leashed.uid("p").await,
        park,
        &[("main", work)],
    );
    let swaplet: Api<Pod> = Api::namespaced(leashed.swaplet.clone(), &world.namespace);
    swaplet
        .patch("p", &PatchParams::default(), &Patch::Strategic(patch))
        .await
        .unwrap();
    world
        .pod_is("p", "parked, as its kubelet tells", |pod| runs(pod, 1))
        .await;
    swaplet
        .patch(
            "p",
            &PatchParams::default(),
            &Patch::Strategic(brought_back(image("main", work))),
        )
        .await
        .unwrap();
    world
        .pod_is("p", "back, as its kubelet tells", |pod| runs(pod, 2))
        .await;
    uninstall(&leashed).await;
    leashed.done().await;
}

/// A policy of the cluster by which swaplet's changes of pods make another image of this one.
async fn renamed(leashed: &Leashed, image: &str) -> OfCluster {
    let (name, group) = (&leashed.world.namespace, "admissionregistration.k8s.io/v1");
    let goes = OfCluster::new(
        &["mutatingadmissionpolicybinding", "mutatingadmissionpolicy"],
        name,
    );
    let expression = format!(
        r#"[0].filter(i, object.spec.containers[i].image == "{image}").map(i,
            JSONPatch{{op: "replace", path: "/spec/containers/0/image", value: "mirror.example/app:1"}})"#
    );
    let user = format!("request.userInfo.username == 'system:serviceaccount:{name}:swaplet'");
    let policy = json!({"apiVersion": group, "kind": "MutatingAdmissionPolicy", "metadata": {"name": name}, "spec": {
        "failurePolicy": "Fail", "reinvocationPolicy": "Never",
        "matchConstraints": {
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": name}},
            "resourceRules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["UPDATE"], "resources": ["pods"]}],
        },
        "matchConditions": [{"name": "swaplet", "expression": user}],
        "mutations": [{"patchType": "JSONPatch", "jsonPatch": {"expression": expression}}],
    }});
    let binding = json!({"apiVersion": group, "kind": "MutatingAdmissionPolicyBinding",
        "metadata": {"name": name}, "spec": {"policyName": name}});
    let file = leashed.world.kubeconfig.with_file_name("renames.json");
    let list = json!({"apiVersion": "v1", "kind": "List", "items": [policy, binding]});
    std::fs::write(&file, list.to_string()).unwrap();
    apply(&file).await;
    eventually("the policy to be in force", || async {
        leashed.patch("p", "", &json!({})).await.err()
    })
    .await;
    goes
}

/// It is older than the policy, which lets the park image through: the leash would deny the way back
/// for ever.
#[tokio::test]
async fn u150_what_could_not_come_back_is_not_parked() {
    requests_are_served().await;
    let leashed = Leashed::new("leash-way-back").await;
    let world = &leashed.world;
    if !has_mutating_policies(world).await {
        println!("skipped: the API server changes no object by a policy before 1.36");
        return leashed.done().await;
    }
    let mut app = container(world, "app", EXITS_143);
    let digest = nameless("leash-way-back").await;
    app["image"] = json!(digest);
    app["imagePullPolicy"] = json!("IfNotPresent");
    let object = crate::pods::pod("p", spec("Always", vec![app]));
    world.create_pod(object).await;
    world.pod_is("p", "running", |pod| runs(pod, 0)).await;
    let _policy = renamed(&leashed, &digest).await;
    let park = &world.images.park;
    let flags = ["--restart", "--restart-without-leash", "--park-image", park];
    let _controller = Controller::process(world, &flags, Why::NotByTheChart).await;
    let request = json!({
        "apiVersion": "apps.kruise.io/v1alpha1", "kind": "ContainerRecreateRequest",
        "metadata": {"name": "r", "namespace": world.namespace}, "spec": forced(),
    });
    let file = world.kubeconfig.with_file_name("request.json");
    std::fs::write(&file, request.to_string()).unwrap();
    kubectl(&["create", "-f", file.to_str().unwrap()]).await;
    let told = eventually("the denial to be told", || async {
        let (kind, path) = ("events.events.k8s.io", "jsonpath={.items[*].note}");
        let told = kubectl(&["get", "-n", &world.namespace, kind, "-o", path]).await;
        told.contains("its image could not be put back")
            .then_some(told)
    })
    .await;
    assert!(
        told.contains("leash-pods") && told.contains("app: mirror.example/app:1"),
        "{told}"
    );
    let pod = world.pod_is("p", "there", |_| true).await;
    let labels = pod.metadata.labels.unwrap_or_default();
    assert!(!labels.contains_key(PARKED), "{labels:?}");
    leashed.done().await;
}
