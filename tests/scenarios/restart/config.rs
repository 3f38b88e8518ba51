//! Containers are restarted when a ConfigMap or Secret changes that their pods name.

mod metadata;
mod obstacles;
mod tenants;

use http::Method;
use serde_json::{Value, json};
use swaplet_testbed::virtual_node::Profile;

use super::world::Restarts;
use crate::harness::Life;

/// How long a change has to stay, with what a restart of one pod takes, and some more.
const ONE_POD: u64 = 25;

/// Pods `web-0`, `web-1` and so on of one owner, whose container `app` has the ConfigMap
/// `settings`.
pub struct Configured(pub Restarts);

impl std::ops::Deref for Configured {
    type Target = Restarts;

    fn deref(&self) -> &Restarts {
        &self.0
    }
}

/// A pod of the owner; `app` has `settings` in its environment.
pub fn web(number: usize, annotation: &str) -> Value {
    let container = |name: &str| json!({"name": name, "image": format!("registry.example/{name}:1"), "args": ["run=forever"]});
    let mut pod = json!({"apiVersion": "v1", "kind": "Pod",
        "metadata": {"namespace": "default", "name": format!("web-{number}"), "labels": {"app": "web"},
            "annotations": {"swaplet.io/restart-on": annotation},
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "rs", "controller": true}]},
        "spec": {"nodeName": "virtual", "containers": [container("app"), container("log")]}});
    pod["spec"]["containers"][0]["envFrom"] = json!([{"configMapRef": {"name": "settings"}}]);
    pod
}

impl Configured {
    /// So many pods, with `settings`.
    pub async fn pods(count: usize, annotation: &str) -> Self {
        let pods: Vec<_> = (0..count).map(|number| web(number, annotation)).collect();
        Self::with(&pods).await
    }

    pub async fn with(pods: &[Value]) -> Self {
        let world = Self(Restarts::on(Profile::kubelet(), &pods[0]).await);
        world.create_namespace("state").await;
        world
            .put("configmaps", "settings", &json!({"data": {"color": "red"}}))
            .await;
        for pod in &pods[1..] {
            world.create(pod).await;
        }
        world.wait(5).await;
        world
    }

    /// Starts a controller and lets it see everything.
    pub async fn start(&self) -> Life {
        let life = self.start_controller_on_config();
        self.wait(5).await;
        life
    }

    /// An object of the namespace `default`, new or changed.
    pub async fn put(&self, resource: &str, name: &str, fields: &Value) {
        let path = format!("/api/v1/namespaces/default/{resource}");
        if self.server.peek(resource, "default", name).is_some() {
            self.request_patch(&format!("{path}/{name}"), fields).await;
        } else {
            let mut object = fields.clone();
            object["metadata"] = json!({"name": name});
            self.world
                .request(Method::POST, &path, "application/json", &object)
                .await;
        }
    }

    async fn request_patch(&self, path: &str, fields: &Value) {
        self.world
            .request(Method::PATCH, path, "application/merge-patch+json", fields)
            .await;
    }

    pub async fn set_color(&self, color: &str) {
        self.put("configmaps", "settings", &json!({"data": {"color": color}}))
            .await;
    }

    async fn delete_object(&self, path: &str) {
        self.world
            .request(Method::DELETE, path, "application/json", &json!({}))
            .await;
    }

    /// How often the containers `app` and `log` of a pod were restarted.
    pub fn restarts_of(&self, pod: &str) -> (i64, i64) {
        let pod = self.world.get(pod);
        let count = |container: &str| {
            Restarts::status(&pod, container)["restartCount"]
                .as_i64()
                .unwrap()
        };
        (count("app"), count("log"))
    }

    /// The names of the requests that are there.
    pub fn names_of_requests(&self) -> Vec<String> {
        let requests = self
            .server
            .peek_all("containerrecreaterequests.apps.kruise.io");
        requests
            .iter()
            .map(|request| request["metadata"]["name"].as_str().unwrap().to_owned())
            .collect()
    }

    /// How many requests are not completed.
    pub fn open_requests(&self) -> usize {
        let requests = self
            .server
            .peek_all("containerrecreaterequests.apps.kruise.io");
        requests
            .iter()
            .filter(|request| request["status"]["phase"] != "Completed")
            .count()
    }

    /// The reasons and words of the Events about restarts for changed configuration.
    pub fn said(&self, pod: &str) -> Vec<(String, String)> {
        self.notes(pod)
            .into_iter()
            .filter(|(reason, _)| reason.starts_with("RestartOn"))
            .collect()
    }

    /// Each of the pods `web-0` to `web-2` is restarted once, one after another, and this is said to
    /// have changed.
    async fn restarts_three_in_turn(&self, what: &str) {
        let mut most = 0;
        for _ in 0..4 * ONE_POD {
            self.wait(1).await;
            most = most.max(self.open_requests());
        }
        assert_eq!(most, 1, "one at a time");
        for pod in ["web-0", "web-1", "web-2"] {
            assert_eq!(
                (self.restarts_of(pod), self.image_changes(pod)),
                ((1, 0), 1),
                "{pod}"
            );
            let said = self.said(pod);
            let [(reason, words)] = &*said else {
                panic!("{said:?}")
            };
            assert_eq!(reason, "RestartOnChanged");
            assert!(
                words.contains(&format!("{what} has changed: restarting app")),
                "{words}"
            );
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_changed_config_map_restarts_one_container_of_each_pod_one_pod_after_another() {
    let world = Configured::pods(3, "app=configmap/settings").await;
    let _life = world.start().await;
    assert_eq!(
        world.restarts_of("web-0"),
        (0, 0),
        "what is seen first is no change"
    );
    world.set_color("blue").await;
    world.restarts_three_in_turn("configmap/settings").await;
    world.assert_quiet().await;

    world
        .put(
            "configmaps",
            "settings",
            &json!({"metadata": {"annotations": {"a": "b"}, "labels": {"c": "d"}}}),
        )
        .await;
    world.set_color("blue").await;
    world.wait(300).await;
    assert_eq!(world.restarts_of("web-0"), (1, 0), "metadata is no content");
    world.assert_quiet().await;
}

#[tokio::test(start_paused = true)]
async fn many_edits_in_a_row_cost_one_restart_each_pod() {
    let world = Configured::pods(2, "app=configmap/settings").await;
    let _life = world.start().await;
    for edit in 0..20 {
        world.set_color(&format!("color {edit}")).await;
        world.wait(2).await;
    }
    world.wait(3 * ONE_POD).await;
    assert_eq!(
        (world.restarts_of("web-0"), world.restarts_of("web-1")),
        ((1, 0), (1, 0))
    );
    // An edit that is taken back before it has stayed for a while is none.
    world.set_color("other").await;
    world.wait(2).await;
    world.set_color("color 19").await;
    world.wait(3 * ONE_POD).await;
    assert_eq!(
        (world.restarts_of("web-0"), world.restarts_of("web-1")),
        ((1, 0), (1, 0))
    );
    world.assert_quiet().await;
}

/// While the first pod is restarted for one content, another one comes.
#[tokio::test(start_paused = true)]
async fn an_edit_during_a_round_reaches_all_pods() {
    let world = Configured::pods(2, "app=configmap/settings").await;
    let _life = world.start().await;
    world.set_color("blue").await;
    world.wait(8).await;
    assert_eq!(
        world.restarts_of("web-0").0 + world.restarts_of("web-1").0,
        1,
        "the first one is under way"
    );
    world.set_color("green").await;
    world.wait(4 * ONE_POD).await;
    let restarts = (world.restarts_of("web-0").0, world.restarts_of("web-1").0);
    assert!(restarts == (2, 1) || restarts == (1, 2), "{restarts:?}");
    world.set_color("red").await;
    world.wait(3 * ONE_POD).await;
    assert_eq!(
        world.restarts_of("web-0").0 + world.restarts_of("web-1").0,
        5,
        "back to the first content is a change too"
    );
    assert_eq!(
        world.names_of_requests().len(),
        2,
        "the last request of each pod stays"
    );
    world.assert_quiet().await;
}

#[tokio::test(start_paused = true)]
async fn files_of_a_volume_are_waited_for() {
    let mut pod = web(0, "app=configmap/settings");
    pod["spec"]["volumes"] = json!([{"name": "files", "configMap": {"name": "settings"}}]);
    pod["spec"]["containers"][0]["volumeMounts"] =
        json!([{"name": "files", "mountPath": "/etc/settings"}]);
    let world = Configured::with(&[pod]).await;
    let _life = world.start().await;
    world.set_color("blue").await;
    world.wait(119).await;
    assert_eq!(
        (world.restarts_of("web-0"), world.names_of_requests().len()),
        ((0, 0), 0)
    );
    world.wait(5).await;
    assert_eq!(world.restarts_of("web-0"), (1, 0));
    world.wait(ONE_POD).await;
    world.assert_quiet().await;
}

#[tokio::test(start_paused = true)]
async fn pods_that_come_after_the_change_are_left_alone() {
    let world = Configured::pods(1, "app=configmap/settings").await;
    let _life = world.start().await;
    world.set_color("blue").await;
    world.create(&web(1, "app=configmap/settings")).await;
    world.wait(4 * ONE_POD).await;
    assert_eq!(
        (world.restarts_of("web-0"), world.restarts_of("web-1")),
        ((1, 0), (0, 0))
    );
    world.assert_quiet().await;
}

#[tokio::test(start_paused = true)]
async fn an_object_that_is_deleted_restarts_nothing_and_neither_does_its_return() {
    let world = Configured::pods(1, "app=configmap/settings").await;
    let _life = world.start().await;
    world
        .delete_object("/api/v1/namespaces/default/configmaps/settings")
        .await;
    world.wait(300).await;
    assert_eq!(world.restarts_of("web-0"), (0, 0));
    world.set_color("red").await;
    world.wait(300).await;
    assert_eq!(world.restarts_of("web-0"), (0, 0));
    world
        .delete_object("/api/v1/namespaces/default/configmaps/settings")
        .await;
    world.set_color("blue").await;
    world.wait(ONE_POD).await;
    assert_eq!(
        world.restarts_of("web-0"),
        (1, 0),
        "it has come back as another"
    );
    world.assert_quiet().await;
}
