//! Beside OpenKruise: requests to its daemon, and who ends the sidecars of a pod.

use std::time::Duration;

use serde_json::{Value, json};
use swaplet_controller::cluster::rules::Rules;
use swaplet_core::cluster::exit_images::ExitImages;
use swaplet_core::cluster::node_table::NodeTable;
use swaplet_core::report::decision::Method;
use swaplet_core::terminate::methods::AllowedMethods;
use swaplet_core::terminate::openkruise::Coexist;
use swaplet_testbed::apiserver::{Effect, Recorded, Verb};
use tokio::time::{Instant, sleep};

use super::harness::{CONCURRENCY, Life, SWAPLET, World, is_of_watches, may_be_sent};
use super::node::{Kubelet, running, terminated};
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
    let exit_images = ExitImages::new(Some(EXIT.parse().unwrap()), Vec::new());
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

/// Both controllers are there, and nothing is preferred.
fn both() -> Rules {
    let exit_images = ExitImages::new(Some(EXIT.parse().unwrap()), Vec::new());
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

/// OpenKruise's daemon on the node, with the kubelet.
#[derive(Clone, Copy)]
struct Daemon {
    /// The exit code of containers that it stops.
    stop_code: i64,
    /// What it cannot do, if anything.
    error: Option<&'static str>,
}

impl Daemon {
    async fn look(self, world: &World, request: &Value) {
        match request["status"]["phase"].as_str() {
            None => {
                world
                    .set_request_status(request, json!({"phase": "Recreating"}))
                    .await
            }
            Some("Recreating") if request["status"]["containerRecreateStates"].is_null() => {
                self.stop(world, request).await
            }
            _ => {}
        }
    }

    async fn stop(self, world: &World, request: &Value) {
        let state = match self.error {
            Some(error) => {
                json!({"name": "side", "phase": "Failed", "message": format!("kill container error: {error}")})
            }
            None => json!({"name": "side", "phase": "Recreating", "isKilled": true}),
        };
        world
            .set_request_status(request, json!({"containerRecreateStates": [state]}))
            .await;
        if self.error.is_some() {
            return world
                .set_request_status(request, json!({"phase": "Completed"}))
                .await;
        }
        let pod = request["spec"]["podName"].as_str().unwrap();
        world.ends(pod, "side", self.stop_code).await;
        if self.stop_code != 0 && world.get(pod)["spec"]["restartPolicy"] == "OnFailure" {
            self.start_again(world, request).await;
        }
    }

    async fn start_again(self, world: &World, request: &Value) {
        let pod = request["spec"]["podName"].as_str().unwrap();
        let mut statuses = world.get(pod)["status"]["containerStatuses"].clone();
        statuses[1]["lastState"] = terminated(self.stop_code, 0);
        statuses[1]["state"] = running();
        statuses[1]["restartCount"] = 1.into();
        statuses[1]["containerID"] = "containerd://side-1".into();
        world
            .set_status(
                pod,
                json!({"phase": "Running", "containerStatuses": statuses}),
            )
            .await;
        let state = json!({"name": "side", "phase": "Succeeded", "isKilled": true});
        world
            .set_request_status(
                request,
                json!({"phase": "Completed", "containerRecreateStates": [state]}),
            )
            .await;
    }
}

const OBEDIENT: Daemon = Daemon {
    stop_code: 0,
    error: None,
};

#[tokio::test(start_paused = true)]
async fn the_daemon_ends_what_cannot_be_swapped() {
    for policy in ["Never", "OnFailure"] {
        let world = World::with_openkruise(policy).await;
        let _life = world.start_beside(last());
        world.start_daemon(OBEDIENT);
        world.wait(1).await;
        world.ends("p", "main", 0).await;
        world.wait(5).await;
        assert_eq!(
            (world.phase("p").as_str(), world.patches("p"), world.asked()),
            ("Succeeded", 0, 1)
        );
        assert_eq!(world.events("p"), ["RecreateRequested", "SidecarEnded"]);
        world.assert_quiet_beside_openkruise().await;
    }
}

#[tokio::test(start_paused = true)]
async fn the_daemon_is_asked_first_where_that_is_preferred() {
    let world = World::with_openkruise("Never").await;
    let _life = world.start_beside(first());
    world.start_daemon(OBEDIENT);
    world.wait(1).await;
    world.ends("p", "main", 0).await;
    world.wait(5).await;
    assert_eq!(
        (world.phase("p").as_str(), world.patches("p"), world.asked()),
        ("Succeeded", 0, 1)
    );
    let (reason, note) = world.notes("p").remove(0);
    assert!(
        reason == "RecreateRequested" && note.contains("--prefer=crr"),
        "{note}"
    );
    world.assert_quiet_beside_openkruise().await;
}

#[tokio::test(start_paused = true)]
async fn a_daemon_that_does_not_answer_costs_less_than_a_minute() {
    for policy in ["Never", "OnFailure"] {
        let world = World::with_openkruise(policy).await;
        let _life = world.start_beside(first());
        world.start_kubelet(Kubelet {
            stop_code: 143,
            ..Kubelet::default()
        });
        world.wait(1).await;
        let start = Instant::now();
        world.ends("p", "main", 0).await;
        while world.phase("p") != "Succeeded" {
            world.wait(1).await;
            assert!(
                start.elapsed() < Duration::from_secs(60),
                "the next method was not reached within a minute"
            );
        }
        assert!(
            start.elapsed() > Duration::from_secs(40),
            "the daemon had no time to answer"
        );
        assert_eq!(
            world.events("p"),
            ["RecreateRequested", "RecreateUnanswered", "SidecarEnded"]
        );
        assert_eq!((world.patches("p"), world.asked()), (1, 1));
        world.assert_quiet_beside_openkruise().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_daemon_that_is_removed_costs_nothing() {
    let world = World::with_openkruise("Never").await;
    let _life = world.start_beside(first());
    world.start_kubelet(Kubelet::default());
    world.wait(1).await;
    world.ends("p", "main", 0).await;
    world.wait(5).await;
    assert_eq!((world.patches("p"), world.asked()), (0, 1));
    world.remove_daemon_pod().await;
    world.wait(5).await;
    assert_eq!(
        (world.phase("p").as_str(), world.patches("p"), world.asked()),
        ("Succeeded", 1, 1)
    );
    assert_eq!(world.events("p"), ["RecreateRequested", "SidecarEnded"]);
    world.assert_quiet_beside_openkruise().await;
}

#[tokio::test(start_paused = true)]
async fn a_daemon_that_cannot_stop_the_container() {
    let world = World::with_openkruise("Never").await;
    let _life = world.start_beside(first());
    world.start_kubelet(Kubelet::default());
    world.start_daemon(Daemon {
        error: Some("no such container"),
        ..OBEDIENT
    });
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
    assert!(world.notes("p")[1].1.contains("no such container"));
    world.assert_quiet_beside_openkruise().await;
}

/// The trap of the exit code, met once: the next pod knows.
#[tokio::test(start_paused = true)]
async fn a_sidecar_that_comes_back_is_told_and_swapped() {
    let world = World::with_openkruise("OnFailure").await;
    let _life = world.start_beside(first());
    world.start_kubelet(Kubelet::default());
    world.start_daemon(Daemon {
        stop_code: 143,
        ..OBEDIENT
    });
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
    assert!(world.notes("p")[1].1.contains("exit code 143"));
    world.assert_quiet_beside_openkruise().await;
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_fails_by_its_sidecar_is_told_and_protects_the_next() {
    let world = World::with_openkruise("Never").await;
    let _life = world.start_beside(last());
    world.start_daemon(Daemon {
        stop_code: 143,
        ..OBEDIENT
    });
    world.wait(1).await;
    world.ends("p", "main", 0).await;
    world.wait(5).await;
    assert_eq!((world.phase("p").as_str(), world.asked()), ("Failed", 1));
    assert_eq!(
        world.events("p"),
        ["RecreateRequested", "PodFailedAfterRecreate"]
    );
    world.run_pod(&pod("q", "Never")).await;
    world.ends("q", "main", 0).await;
    world.wait(5).await;
    assert_eq!((world.phase("q").as_str(), world.asked()), ("Running", 1));
    assert_eq!(
        sorted(world.events("q")),
        ["ExitImageMissing", "RecreateExitCode"]
    );
    world.assert_quiet_beside_openkruise().await;
}

/// Ten pods with the same sidecar are done at once: one of them finds out how it ends.
#[tokio::test(start_paused = true)]
async fn of_ten_pods_one_pays_for_a_sidecar_that_fails_it() {
    for (policy, rules, asked, succeeded) in [
        ("Never", last(), 1, 0),
        ("Never", first(), 1, 9),
        ("OnFailure", first(), 1, 10),
    ] {
        let world = World::with_openkruise(policy).await;
        let names: Vec<_> = (0..10).map(|nth| format!("q{nth}")).collect();
        for name in &names {
            world.run_pod(&pod(name, policy)).await;
        }
        let _life = world.start_beside(rules);
        world.start_kubelet(Kubelet {
            stop_code: 143,
            ..Kubelet::default()
        });
        world.start_daemon(Daemon {
            stop_code: 143,
            ..OBEDIENT
        });
        world.wait(1).await;
        for name in &names {
            world.ends(name, "main", 0).await;
        }
        world.wait(30).await;
        assert_eq!(world.asked(), asked, "{policy}");
        let phases = |phase: &str| {
            names
                .iter()
                .filter(|name| world.phase(name) == phase)
                .count()
        };
        assert_eq!(
            (phases("Succeeded"), phases("Failed")),
            (succeeded, usize::from(policy == "Never")),
            "{policy}"
        );
        world.assert_quiet_beside_openkruise().await;
    }
}

#[tokio::test(start_paused = true)]
async fn of_ten_pods_all_end_where_the_sidecar_obeys() {
    let world = World::with_openkruise("Never").await;
    let names: Vec<_> = (0..10).map(|nth| format!("q{nth}")).collect();
    for name in &names {
        world.run_pod(&pod(name, "Never")).await;
    }
    let _life = world.start_beside(last());
    world.start_daemon(OBEDIENT);
    world.wait(1).await;
    for name in &names {
        world.ends(name, "main", 0).await;
    }
    world.wait(15).await;
    assert!(names.iter().all(|name| world.phase(name) == "Succeeded"));
    assert_eq!((world.asked(), world.recreate_requests().len()), (10, 10));
    world.assert_quiet_beside_openkruise().await;
}

fn sorted(mut events: Vec<String>) -> Vec<String> {
    events.sort();
    events
}

#[tokio::test(start_paused = true)]
async fn a_request_that_is_refused_leads_to_the_next_method_at_once() {
    let world = World::with_openkruise("Never").await;
    let _life = world.start_beside(first());
    world.start_kubelet(Kubelet::default());
    world.fault(
        Effect::reply(403).message("feature-gate KruiseDaemon is not enabled"),
        |rule| rule.verb(Verb::Create).resource(REQUESTS),
    );
    world.wait(1).await;
    world.ends("p", "main", 0).await;
    world.wait(5).await;
    assert_eq!(
        (world.phase("p").as_str(), world.patches("p"), world.asked()),
        ("Succeeded", 1, 1)
    );
    assert_eq!(world.events("p"), ["RecreateFailed", "SidecarEnded"]);
    assert!(
        world.notes("p")[0]
            .1
            .contains("KruiseDaemon is not enabled")
    );
    world.assert_quiet_beside_openkruise().await;
}

#[tokio::test(start_paused = true)]
async fn a_request_that_cannot_be_sent_is_tried_again_for_a_while() {
    let world = World::with_openkruise("Never").await;
    let _life = world.start_beside(first());
    world.start_kubelet(Kubelet::default());
    let down = world.fault(
        Effect::reply(500).message("failed calling webhook"),
        |rule| rule.verb(Verb::Create).resource(REQUESTS),
    );
    world.wait(1).await;
    world.ends("p", "main", 0).await;
    world.wait(20).await;
    assert_eq!(world.patches("p"), 0);
    world.end_fault(down);
    world.start_daemon(OBEDIENT);
    world.wait(20).await;
    assert_eq!(
        (world.phase("p").as_str(), world.patches("p")),
        ("Succeeded", 0)
    );
    assert_eq!(world.events("p"), ["RecreateRequested", "SidecarEnded"]);
    assert!(world.asked() < 10, "{} tries", world.asked());
    world.assert_quiet_beside_openkruise().await;

    let world = World::with_openkruise("Never").await;
    let _life = world.start_beside(first());
    world.start_kubelet(Kubelet::default());
    world.fault(
        Effect::reply(500).message("failed calling webhook"),
        |rule| rule.verb(Verb::Create).resource(REQUESTS),
    );
    world.wait(1).await;
    world.ends("p", "main", 0).await;
    world.wait(60).await;
    assert_eq!(
        (world.phase("p").as_str(), world.patches("p")),
        ("Succeeded", 1)
    );
    assert_eq!(world.events("p"), ["RecreateFailed", "SidecarEnded"]);
    world.assert_quiet_beside_openkruise().await;
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_is_lost_is_no_second_request() {
    let world = World::with_openkruise("Never").await;
    let _life = world.start_beside(last());
    world.start_daemon(OBEDIENT);
    world.fault(Effect::ApplyThenDrop, |rule| {
        rule.verb(Verb::Create).resource(REQUESTS).times(1)
    });
    world.wait(1).await;
    world.ends("p", "main", 0).await;
    world.wait(5).await;
    assert_eq!(
        (
            world.phase("p").as_str(),
            world.asked(),
            world.recreate_requests().len()
        ),
        ("Succeeded", 1, 1)
    );
    assert_eq!(world.events("p"), ["RecreateRequested", "SidecarEnded"]);
    world.assert_quiet_beside_openkruise().await;
}

#[tokio::test(start_paused = true)]
async fn the_next_life_follows_the_request_that_is_there() {
    let world = World::with_openkruise("Never").await;
    let life = world.start_beside(last());
    world.wait(1).await;
    world.ends("p", "main", 0).await;
    world.wait(2).await;
    life.kill();
    assert_eq!(world.asked(), 1);
    let _next = world.start_beside(last());
    world.wait(2).await;
    world.start_daemon(OBEDIENT);
    world.wait(5).await;
    assert_eq!((world.phase("p").as_str(), world.asked()), ("Succeeded", 1));
    assert_eq!(world.events("p"), ["RecreateRequested", "SidecarEnded"]);
    world.assert_quiet_beside_openkruise().await;
}

#[tokio::test(start_paused = true)]
async fn openkruise_comes_and_goes() {
    let world = World::with_openkruise("Never").await;
    let life = world.start_beside(first());
    life.line.hide(Some("/apis/apps.kruise.io"));
    world.start_kubelet(Kubelet::default());
    world.start_daemon(OBEDIENT);
    world.run_pod(&pod("q", "Never")).await;
    world.wait(1).await;
    world.ends("q", "main", 0).await;
    world.wait(5).await;
    assert_eq!(
        (world.phase("q").as_str(), world.patches("q"), world.asked()),
        ("Succeeded", 1, 0)
    );

    life.line.hide(None);
    world.wait(310).await;
    world.ends("p", "main", 0).await;
    world.wait(5).await;
    assert_eq!(
        (world.phase("p").as_str(), world.patches("p"), world.asked()),
        ("Succeeded", 0, 1)
    );

    life.line.hide(Some("/apis/apps.kruise.io"));
    world.wait(70).await;
    world.run_pod(&pod("r", "Never")).await;
    world.ends("r", "main", 0).await;
    world.wait(5).await;
    assert_eq!(
        (world.phase("r").as_str(), world.patches("r"), world.asked()),
        ("Succeeded", 1, 1)
    );
    world.assert_quiet_beside_openkruise().await;
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_openkruise_acts_on_is_left_to_it() {
    let world = World::with_openkruise("OnFailure").await;
    world.start_manager("SidecarTerminator=true").await;
    let _life = world.start_beside(both());
    world.wait(1).await;
    world.ends("p", "main", 0).await;
    world.wait(5).await;
    let uid = world.get("p")["metadata"]["uid"]
        .as_str()
        .unwrap()
        .to_owned();
    let theirs = json!({
        "apiVersion": "apps.kruise.io/v1alpha1", "kind": "ContainerRecreateRequest",
        "metadata": {"name": format!("sidecar-termination-{uid}")}, "spec": {"podName": "p", "containers": [{"name": "side"}]},
    });
    world
        .request(
            http::Method::POST,
            &format!("/apis/apps.kruise.io/v1alpha1/namespaces/default/{REQUESTS}"),
            JSON,
            &theirs,
        )
        .await;
    world.start_daemon(OBEDIENT);
    world.wait(5).await;
    assert_eq!(
        (world.phase("p").as_str(), world.patches("p"), world.asked()),
        ("Succeeded", 0, 0)
    );
    assert_eq!(world.events("p"), ["LeftToOpenKruise"]);
    world.assert_quiet_beside_openkruise().await;
}

#[tokio::test(start_paused = true)]
async fn switching_openkruise_off_is_noticed() {
    let world = World::with_openkruise("OnFailure").await;
    world.start_manager("SidecarTerminator=true").await;
    let _life = world.start_beside(both());
    world.start_kubelet(Kubelet::default());
    world.wait(1).await;
    world.ends("p", "main", 0).await;
    world.wait(100).await;
    assert_eq!(
        (world.patches("p"), world.events("p")),
        (0, vec!["LeftToOpenKruise".to_owned()])
    );
    world.set_feature_gates("SidecarTerminator=false").await;
    world.wait(65).await;
    assert_eq!(
        (world.phase("p").as_str(), world.patches("p"), world.asked()),
        ("Succeeded", 1, 0)
    );
    assert_eq!(world.events("p"), ["LeftToOpenKruise", "SidecarEnded"]);
    world.assert_quiet_beside_openkruise().await;
}

#[tokio::test(start_paused = true)]
async fn rights_that_are_missing_are_told() {
    let world = World::with_openkruise("OnFailure").await;
    world.start_manager("SidecarTerminator=true").await;
    world.fault(Effect::reply(403), |rule| {
        rule.verb(Verb::List).resource("deployments")
    });
    let _life = world.start_beside(both());
    world.wait(1).await;
    world.ends("p", "main", 0).await;
    world.wait(5).await;
    assert_eq!(
        (world.patches("p"), world.events("p")),
        (0, vec!["OpenKruiseUnclear".to_owned()])
    );
    world.assert_quiet_beside_openkruise().await;
}

/// Somebody has applied swaplet's CRD of requests, and given it no rights to look for OpenKruise,
/// for there is none.
#[tokio::test(start_paused = true)]
async fn swaplets_crd_alone_is_no_openkruise() {
    let world = World::new();
    world.run_pod(&pod("p", "OnFailure")).await;
    world.start_kubelet(Kubelet::default());
    for resource in [
        "deployments",
        "leases",
        "mutatingwebhookconfigurations",
        REQUESTS,
    ] {
        world.fault(Effect::reply(403), |rule| rule.resource(resource));
    }
    let _life = world.start_beside(both());
    world.wait(1).await;
    world.ends("p", "main", 0).await;
    world.wait(10).await;
    assert_eq!(
        (world.phase("p").as_str(), world.patches("p")),
        ("Succeeded", 1)
    );
    assert_eq!(world.events("p"), ["SidecarEnded"]);
}

/// A manager that cannot be asked for is no manager that is gone.
#[tokio::test(start_paused = true)]
async fn an_api_server_that_does_not_answer_changes_nothing() {
    let world = World::with_openkruise("OnFailure").await;
    world.start_manager("SidecarTerminator=true").await;
    let _life = world.start_beside(both());
    world.wait(1).await;
    world.fault(Effect::reply(500), |rule| {
        rule.verb(Verb::List).resource("deployments")
    });
    world.wait(100).await;
    world.ends("p", "main", 0).await;
    world.wait(5).await;
    assert_eq!(
        (world.patches("p"), world.events("p")),
        (0, vec!["LeftToOpenKruise".to_owned()])
    );
    world.assert_quiet_beside_openkruise().await;
}

#[tokio::test(start_paused = true)]
async fn a_manager_without_the_sidecar_terminator_is_no_rival() {
    let world = World::with_openkruise("OnFailure").await;
    world.start_manager("ImagePullJobGate=true").await;
    let _life = world.start_beside(both());
    world.start_kubelet(Kubelet::default());
    world.wait(1).await;
    world.ends("p", "main", 0).await;
    world.wait(5).await;
    assert_eq!(
        (world.phase("p").as_str(), world.patches("p"), world.asked()),
        ("Succeeded", 1, 0)
    );
    assert_eq!(world.events("p"), ["SidecarEnded"]);
    world.assert_quiet_beside_openkruise().await;
}
