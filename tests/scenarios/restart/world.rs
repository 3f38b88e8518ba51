//! A world with a node, a pod of two containers on it, and requests to restart them.

use std::sync::Arc;

use http::Method;
use jiff::Timestamp;
use serde_json::{Value, json};
use swaplet_core::image::alias::original;
use swaplet_testbed::apiserver::{Recorded, Verb};
use swaplet_testbed::virtual_node::{NodeOptions, Profile, VirtualNode};

use crate::harness::{Life, World};
use crate::line::Patches;

/// The image of the container that is restarted.
pub const APP: &str = "registry.example/app:1";
/// Where requests are.
const REQUESTS: &str = "/apis/apps.kruise.io/v1alpha1/namespaces/default/containerrecreaterequests";

/// The world; `World` is what it has of all others.
pub struct Restarts {
    pub world: World,
    pub node: VirtualNode,
}

impl std::ops::Deref for Restarts {
    type Target = World;

    fn deref(&self) -> &World {
        &self.world
    }
}

/// A pod `p` of the containers `app` and `log`.
pub fn pod(policy: &str) -> Value {
    let container = |name: &str| json!({"name": name, "image": format!("registry.example/{name}:1"), "args": ["run=forever"]});
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"namespace": "default", "name": "p"},
        "spec": {"nodeName": "virtual", "restartPolicy": policy, "terminationGracePeriodSeconds": 30,
            "containers": [container("app"), container("log")]}})
}

/// The plainest request: to restart `app` of the pod.
pub fn app() -> Value {
    json!({"podName": "p", "containers": [{"name": "app"}]})
}

impl Restarts {
    /// A kubelet with the pod.
    pub async fn with_pod(policy: &str) -> Self {
        Self::on(Profile::kubelet(), &pod(policy)).await
    }

    /// A node with this pod, which runs.
    pub async fn on(profile: Profile, pod: &Value) -> Self {
        Self::with(NodeOptions::new("virtual", profile), pod).await
    }

    pub async fn with(options: NodeOptions, pod: &Value) -> Self {
        let world = World::new();
        let node = VirtualNode::new(
            world.server.client_as("node"),
            world.server.clock(),
            options,
        );
        tokio::spawn(node.clone().run());
        world.wait(1).await;
        world.create(pod).await;
        world.wait(5).await;
        Self { world, node }
    }

    pub fn start_controller(&self) -> Life {
        self.world.start_restarting_controller()
    }

    /// A life that sends only so much for a request and is killed after so many seconds, and the
    /// one after it for as many more. How many patches the first one sent, and the second one,
    /// which ends when it is dropped.
    pub async fn two_lives(
        &self,
        patches: Patches,
        spec: &Value,
        [first, second]: [u64; 2],
    ) -> (usize, Life) {
        let life = self.start_controller();
        life.line.patches(patches);
        self.request("r", spec).await;
        self.wait(first).await;
        let sent = life.line.patched_at().len();
        life.kill();
        let next = self.start_controller();
        self.wait(second).await;
        (sent, next)
    }

    pub async fn request(&self, name: &str, spec: &Value) {
        let object = json!({"apiVersion": "apps.kruise.io/v1alpha1", "kind": "ContainerRecreateRequest", "metadata": {"name": name}, "spec": spec});
        self.world
            .request(Method::POST, REQUESTS, "application/json", &object)
            .await;
    }

    pub fn find(&self, name: &str) -> Option<Arc<Value>> {
        self.server
            .peek("containerrecreaterequests.apps.kruise.io", "default", name)
    }

    pub fn get(&self, name: &str) -> Arc<Value> {
        self.find(name)
            .unwrap_or_else(|| panic!("there is no request {name}"))
    }

    /// The user deletes a request.
    pub async fn delete_request(&self, name: &str) {
        self.world
            .request(
                Method::DELETE,
                &format!("{REQUESTS}/{name}"),
                "application/json",
                &json!({}),
            )
            .await;
    }

    pub fn pod(&self) -> Arc<Value> {
        self.world.get("p")
    }

    pub fn image(&self, container: &str) -> String {
        self.image_of("p", container)
    }

    /// The image that the present one was made of.
    pub fn original(&self, container: &str) -> String {
        original(&self.image(container)).into_owned()
    }

    /// The user gives a container of the pod another image.
    pub async fn set_image(&self, container: &str, image: &str) {
        let body = json!({"spec": {"containers": [{"name": container, "image": image}]}});
        let path = "/api/v1/namespaces/default/pods/p";
        self.world
            .request(
                Method::PATCH,
                path,
                "application/strategic-merge-patch+json",
                &body,
            )
            .await;
    }

    /// The reasons of our own Events about the pod, in the order in which they came.
    pub fn told(&self) -> Vec<String> {
        self.told_with_notes()
            .into_iter()
            .map(|(reason, _)| reason)
            .collect()
    }

    /// The same, with their words.
    pub fn told_with_notes(&self) -> Vec<(String, String)> {
        let ours = [
            "ContainerRestarting",
            "ContainerRestarted",
            "RestartFailed",
            "WriteDenied",
            "SidecarEnded",
        ];
        self.notes("p")
            .into_iter()
            .filter(|(reason, _)| ours.contains(&reason.as_str()))
            .collect()
    }

    pub fn status<'a>(pod: &'a Value, container: &str) -> &'a Value {
        pod["status"]["containerStatuses"]
            .as_array()
            .unwrap()
            .iter()
            .find(|status| status["name"] == container)
            .unwrap()
    }

    pub fn restarts(&self, container: &str) -> i64 {
        Self::status(&self.pod(), container)["restartCount"]
            .as_i64()
            .unwrap()
    }

    /// When a container was started.
    pub fn started(&self, container: &str, pod: &Value) -> Timestamp {
        self.time(&Self::status(pod, container)["state"]["running"]["startedAt"])
    }

    #[allow(clippy::unused_self, reason = "reads as the others")]
    pub fn time(&self, value: &Value) -> Timestamp {
        value
            .as_str()
            .unwrap_or_else(|| panic!("no time: {value}"))
            .parse()
            .unwrap()
    }

    /// Ten minutes in which nothing but watches is asked for; and what was asked for before may be.
    pub async fn assert_quiet(&self) {
        let before = self.requests().len();
        self.wait(600).await;
        let requests = self.requests();
        let since: Vec<_> = requests[before..]
            .iter()
            .filter(|request| request.verb != Verb::Watch && !is_discovery(request))
            .collect();
        assert!(since.is_empty(), "not quiet: {since:#?}");
        requests
            .iter()
            .filter(|request| request.verb == Verb::Patch && request.resource == "pods")
            .for_each(assert_guarded);
    }
}

fn is_discovery(request: &Recorded) -> bool {
    request.resource.is_empty()
}

/// A patch of a pod changes images and nothing else, of this pod in this generation only; or two
/// conditions, of this version only.
fn assert_guarded(request: &Recorded) {
    if &*request.subresource == "status" {
        assert_eq!(
            &*request.content_type,
            "application/strategic-merge-patch+json"
        );
        assert!(
            request.body["metadata"]["uid"].is_string()
                && request.body["metadata"]["resourceVersion"].is_string()
        );
        assert_eq!(
            request.body["status"]
                .as_object()
                .unwrap()
                .keys()
                .collect::<Vec<_>>(),
            ["conditions"]
        );
        let kinds = request.body["status"]["conditions"]
            .as_array()
            .unwrap()
            .iter()
            .map(|condition| condition["type"].as_str().unwrap());
        assert!(
            matches!(
                kinds.collect::<Vec<_>>()[..],
                ["KruisePodReady"] | ["KruisePodReady", "Ready"]
            ),
            "{}",
            request.body
        );
        return;
    }
    assert_eq!(request.subresource, "");
    if request.content_type == "application/strategic-merge-patch+json" {
        return parks(&request.body);
    }
    assert_eq!(request.content_type, "application/json-patch+json");
    let operations = request.body.as_array().unwrap();
    let paths: Vec<_> = operations
        .iter()
        .map(|operation| {
            (
                operation["op"].as_str().unwrap(),
                operation["path"].as_str().unwrap(),
            )
        })
        .collect();
    assert_eq!(
        paths[..2],
        [("test", "/metadata/uid"), ("test", "/metadata/generation")]
    );
    for swap in paths[2..].chunks(3) {
        assert!(
            matches!(swap, [("test", name), ("test", image), ("replace", replaced)] if name.ends_with("/name") && image == replaced),
            "{swap:?}"
        );
    }
}

/// A patch that parks containers, or brings them back, is for one version of this pod, and says
/// what was before.
fn parks(patch: &Value) {
    let keys = |value: &Value| {
        value
            .as_object()
            .unwrap()
            .keys()
            .cloned()
            .collect::<Vec<_>>()
    };
    assert_eq!(
        keys(&patch["metadata"]),
        ["annotations", "labels", "resourceVersion", "uid"]
    );
    let takes_away = patch["metadata"]["labels"]["swaplet.io/parked"].is_null();
    if takes_away && patch["spec"].is_null() {
        // Nothing is parked any more, by somebody else.
        return assert_eq!(
            (
                keys(patch),
                &patch["metadata"]["annotations"]["swaplet.io/parked"]
            ),
            (vec!["metadata".to_owned()], &Value::Null)
        );
    }
    assert_eq!(
        (keys(patch), keys(&patch["spec"])),
        (
            vec!["metadata".to_owned(), "spec".into()],
            vec!["containers".to_owned()]
        )
    );
    assert!(
        patch["metadata"]["uid"].is_string() && patch["metadata"]["resourceVersion"].is_string()
    );
    for map in ["annotations", "labels"] {
        assert_eq!(keys(&patch["metadata"][map]), ["swaplet.io/parked"]);
    }
    for container in patch["spec"]["containers"].as_array().unwrap() {
        assert_eq!(keys(container), ["image", "name"]);
    }
}

/// The image with the digest that the node reports for it.
pub fn pinned(image: &str) -> String {
    let digest = swaplet_testbed::virtual_node::images::digest_of(&image.parse().unwrap());
    format!("{image}@{digest}")
}
