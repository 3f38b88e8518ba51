//! Beside OpenKruise: requests to its daemon, and who ends the sidecars of a pod.

mod daemon;
mod exit_codes;
mod methods;
mod requests;
mod rivals;

use std::time::Duration;

use serde_json::{Value, json};
use swaplet_controller::cluster::rules::Rules;
use swaplet_core::cluster::exit_images::{ExitImages, Public};
use swaplet_core::cluster::node_table::NodeTable;
use swaplet_core::report::decision::Method;
use swaplet_core::terminate::methods::AllowedMethods;
use swaplet_core::terminate::openkruise::Coexist;
use swaplet_testbed::apiserver::{Recorded, Verb};
use tokio::time::sleep;

use self::daemon::Daemon;
use super::harness::{CONCURRENCY, Life, SWAPLET, World, is_of_watches, may_be_sent};
use super::node::Kubelet;
use super::objects::{EXIT, pod};

const REQUESTS: &str = "containerrecreaterequests";
const JSON: &str = "application/json";
const MERGE: &str = "application/merge-patch+json";

/// No exit image: nothing can be swapped, and the daemon is the last way.
fn last() -> Rules {
    Rules {
        exit_images: ExitImages::default(),
        allowed: AllowedMethods {
            recreate: true,
            ..AllowedMethods::default()
        },
        node_table: NodeTable::built_in(),
        coexist: Coexist::Own,
    }
}

/// The daemon is asked first, and then images are swapped.
fn first() -> Rules {
    let exit_images =
        ExitImages::new(Some(EXIT.parse().unwrap()), Vec::new()).said_public(Public::Yes);
    Rules {
        exit_images,
        allowed: AllowedMethods {
            recreate: true,
            prefer: Some(Method::Recreate),
            ..AllowedMethods::default()
        },
        node_table: NodeTable::built_in(),
        coexist: Coexist::Own,
    }
}

/// The daemon is asked in vain, which is told with these words, and then the image is swapped.
async fn is_swapped_after(daemon: Daemon, restart_policy: &str, words: &str) {
    let world = World::with_openkruise(restart_policy).await;
    let _life = world.start_beside(first());
    world.start_kubelet(Kubelet::default());
    world.start_daemon(daemon);
    world.wait(1).await;
    world.ends("p", "main", 0).await;
    world.wait(10).await;
    assert_eq!(
        (world.phase("p").as_str(), world.patches("p"), world.asked()),
        ("Succeeded", 1, 1)
    );
    assert_eq!(
        world.events("p"),
        ["RecreateRequested", "RecreateFailed", "SidecarEnded"]
    );
    assert!(world.notes("p")[1].1.contains(words));
    world.assert_quiet_beside_openkruise().await;
}

/// Both controllers are there, and nothing is preferred.
fn both() -> Rules {
    let exit_images =
        ExitImages::new(Some(EXIT.parse().unwrap()), Vec::new()).said_public(Public::Yes);
    Rules {
        exit_images,
        allowed: AllowedMethods {
            recreate: true,
            ..AllowedMethods::default()
        },
        node_table: NodeTable::built_in(),
        coexist: Coexist::Auto,
    }
}

impl World {
    /// A world with a running pod `p` and OpenKruise's daemon on its node.
    async fn with_openkruise(restart_policy: &str) -> Self {
        let world = Self::new();
        world.server.set_webhook(complete_request);
        world.create_namespace("kruise-system").await;
        world.run_pod(&pod("p", restart_policy)).await;
        world.start_daemon_pod().await;
        world
    }

    fn start_beside(&self, rules: Rules) -> Life {
        self.start_controller_under(rules, SWAPLET, CONCURRENCY)
    }

    async fn start_daemon_pod(&self) {
        let pod = json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"namespace": "kruise-system", "name": "kruise-daemon-x", "labels": {"control-plane": "daemon"}},
            "spec": {"nodeName": "node-1", "restartPolicy": "Always", "containers": [{"name": "daemon", "image": "daemon:1"}]},
        });
        self.create(&pod).await;
        let ready =
            json!({"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]});
        self.set_status_at(
            "/api/v1/namespaces/kruise-system/pods/kruise-daemon-x",
            ready,
        )
        .await;
    }

    async fn remove_daemon_pod(&self) {
        let now = json!({"gracePeriodSeconds": 0});
        self.request(
            http::Method::DELETE,
            "/api/v1/namespaces/kruise-system/pods/kruise-daemon-x",
            JSON,
            &now,
        )
        .await;
    }

    /// Its manager, with these feature gates.
    pub async fn start_manager(&self, feature_gates: &str) {
        self.request(
            http::Method::POST,
            "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
            JSON,
            &webhook_kind(),
        )
        .await;
        let webhooks = json!({
            "apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingWebhookConfiguration",
            "metadata": {"name": "kruise-mutating-webhook-configuration"},
        });
        self.request(
            http::Method::POST,
            "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations",
            JSON,
            &webhooks,
        )
        .await;
        let labels = json!({"control-plane": "controller-manager"});
        let container = json!({"name": "manager", "image": "manager:1", "args": [format!("--feature-gates={feature_gates}")]});
        let deployment = json!({
            "apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {"namespace": "kruise-system", "name": "kruise-controller-manager", "labels": labels},
            "spec": {"selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}}},
        });
        self.request(
            http::Method::POST,
            "/apis/apps/v1/namespaces/kruise-system/deployments",
            JSON,
            &deployment,
        )
        .await;
    }

    async fn set_feature_gates(&self, feature_gates: &str) {
        let container = json!({"name": "manager", "image": "manager:1", "args": [format!("--feature-gates={feature_gates}")]});
        let patch = json!({"spec": {"template": {"spec": {"containers": [container]}}}});
        let path = "/apis/apps/v1/namespaces/kruise-system/deployments/kruise-controller-manager";
        self.request(http::Method::PATCH, path, MERGE, &patch).await;
    }

    /// The requests to the daemon that are there.
    fn recreate_requests(&self) -> Vec<Value> {
        self.server
            .peek_all(&format!("{REQUESTS}.apps.kruise.io"))
            .iter()
            .map(|request| (**request).clone())
            .collect()
    }

    /// How many the controller has tried to create.
    fn asked(&self) -> usize {
        self.requests()
            .iter()
            .filter(|request| request.verb == Verb::Create && request.resource == REQUESTS)
            .count()
    }

    /// Runs a daemon that answers like OpenKruise's, and a kubelet beside it.
    fn start_daemon(&self, daemon: Daemon) {
        let world = self.clone();
        tokio::spawn(async move {
            loop {
                sleep(Duration::from_secs(1)).await;
                for request in world.recreate_requests() {
                    daemon.look(&world, &request).await;
                }
            }
        });
    }

    async fn set_request_status(&self, request: &Value, status: Value) {
        let name = request["metadata"]["name"].as_str().unwrap();
        let path =
            format!("/apis/apps.kruise.io/v1alpha1/namespaces/default/{REQUESTS}/{name}/status");
        self.request(
            http::Method::PATCH,
            &path,
            MERGE,
            &json!({"status": status}),
        )
        .await;
    }

    /// Ten minutes in which controllers only renew their watches and ask for OpenKruise's manager;
    /// and whatever they wrote until now was what they may write.
    async fn assert_quiet_beside_openkruise(&self) {
        let before = self.requests().len();
        self.wait(600).await;
        let requests = self.requests();
        let since: Vec<_> = requests[before..]
            .iter()
            .filter(|request| !is_of_watches(request) && !is_question(request))
            .collect();
        assert!(since.is_empty(), "not quiet: {since:#?}");
        requests
            .iter()
            .filter(|request| !is_question(request))
            .for_each(may_be_sent_beside_openkruise);
    }
}

/// Whether it asks for OpenKruise's manager.
fn is_question(request: &Recorded) -> bool {
    matches!(
        (
            request.verb,
            &*request.resource,
            &*request.namespace,
            &*request.name
        ),
        (Verb::List, "deployments", "kruise-system", "")
            | (Verb::Get, "leases", "kruise-system", "kruise-manager")
            | (
                Verb::Get,
                "mutatingwebhookconfigurations",
                "",
                "kruise-mutating-webhook-configuration"
            )
    )
}

fn may_be_sent_beside_openkruise(request: &Recorded) {
    match (request.verb, &*request.resource) {
        (Verb::List | Verb::Watch, REQUESTS) => {}
        (Verb::Create, REQUESTS) => assert_of_openkruise(&request.body),
        _ => may_be_sent(request),
    }
}

/// A request is made as OpenKruise's own SidecarTerminator makes it, field by field.
fn assert_of_openkruise(body: &Value) {
    let uid = body["metadata"]["ownerReferences"][0]["uid"]
        .as_str()
        .unwrap();
    let pod = &body["spec"]["podName"];
    let expected = json!({
        "apiVersion": "apps.kruise.io/v1alpha1", "kind": "ContainerRecreateRequest",
        "metadata": {
            "namespace": "default", "name": format!("sidecar-termination-{uid}"),
            "ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": pod, "uid": uid, "controller": true, "blockOwnerDeletion": true}],
        },
        "spec": {
            "podName": pod, "containers": [{"name": "side"}],
            "strategy": {"forceRecreate": true, "failurePolicy": "Ignore"},
        },
    });
    assert_eq!(*body, expected);
}

/// As OpenKruise's webhook does: the containers that are to be stopped are remembered.
fn complete_request(resource: &str, object: &mut Value) {
    if resource != REQUESTS {
        return;
    }
    for container in object["spec"]["containers"]
        .as_array_mut()
        .into_iter()
        .flatten()
    {
        let id = format!("containerd://{}-0", container["name"].as_str().unwrap());
        container["statusContext"] = json!({"containerID": id, "restartCount": 0});
    }
}

/// The testbed does not know webhook configurations by itself.
pub fn webhook_kind() -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "mutatingwebhookconfigurations.admissionregistration.k8s.io"},
        "spec": {
            "group": "admissionregistration.k8s.io", "scope": "Cluster",
            "names": {"kind": "MutatingWebhookConfiguration", "plural": "mutatingwebhookconfigurations"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object"}}}],
        },
    })
}
