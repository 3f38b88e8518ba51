//! Single containers of running pods are restarted, by requests, on a real kubelet.

use std::time::Duration;

use futures::stream::BoxStream;
use futures::{StreamExt, TryStreamExt};
use k8s_openapi::api::core::v1::{ContainerStateTerminated, Pod};
use k8s_openapi::jiff::Timestamp;
use kube::api::{ApiResource, DynamicObject, PostParams, WatchEvent, WatchParams};
use kube::{Api, ResourceExt};
use serde_json::{Value, json};
use swaplet_controller::frame::clock::time_of_day;
use tokio::sync::OnceCell;
use tokio::time::{sleep, timeout};

use crate::audit::{Written, written_in};
use crate::controller::Controller;
use crate::pods::{EXITS_143, container, job, main_ok, pod, sidecar, spec};
use crate::witness::Witness;
use crate::world::{PATIENCE, World, create_crd, eventually, kubectl};

static CRD: OnceCell<()> = OnceCell::const_new();

/// The API server knows requests.
pub async fn install_crd() {
    CRD.get_or_init(|| create_crd("containerrecreaterequests"))
        .await;
}

/// A namespace, and the requests in it.
pub struct Restarts {
    pub world: World,
    pub requests: Api<DynamicObject>,
}

impl Restarts {
    pub async fn new(case: &str) -> Self {
        Self::of(World::new(case).await).await
    }

    /// Where the leash does not hold.
    pub async fn unleashed(case: &str) -> Self {
        Self::of(World::without_leash(case).await).await
    }

    async fn of(world: World) -> Self {
        install_crd().await;
        let resource = ApiResource {
            group: "apps.kruise.io".to_owned(),
            version: "v1alpha1".to_owned(),
            api_version: "apps.kruise.io/v1alpha1".to_owned(),
            kind: "ContainerRecreateRequest".to_owned(),
            plural: "containerrecreaterequests".to_owned(),
        };
        let requests = Api::namespaced_with(world.client.clone(), &world.namespace, &resource);
        Self { world, requests }
    }

    pub async fn controller(&self) -> Controller {
        Controller::start_with(&self.world, &["--restart"]).await
    }

    /// A running pod `p` whose containers `app` and `log` share a volume.
    async fn run_pod(&self, policy: &str, app: &str) -> Pod {
        self.run_pod_with(policy, container(&self.world, "app", app))
            .await
    }

    /// The same with this container `app`.
    pub async fn run_pod_with(&self, policy: &str, app: Value) -> Pod {
        let mount = json!([{"name": "shared", "mountPath": "/shared"}]);
        let mut containers = vec![app, container(&self.world, "log", EXITS_143)];
        containers
            .iter_mut()
            .for_each(|container| container["volumeMounts"] = mount.clone());
        let mut spec = spec(policy, containers);
        spec["volumes"] = json!([{"name": "shared", "emptyDir": {}}]);
        self.world.create_pod(pod("p", spec)).await;
        self.world
            .pod_is("p", "running", |pod| {
                started(pod, "app").is_some() && started(pod, "log").is_some()
            })
            .await
    }

    async fn try_request(&self, name: &str, spec: &Value) -> kube::Result<DynamicObject> {
        let object = json!({"apiVersion": "apps.kruise.io/v1alpha1", "kind": "ContainerRecreateRequest", "metadata": {"name": name}, "spec": spec});
        self.requests
            .create(
                &PostParams::default(),
                &serde_json::from_value(object).unwrap(),
            )
            .await
    }

    pub async fn request(&self, name: &str, spec: &Value) {
        self.try_request(name, spec).await.unwrap();
    }

    /// What containers with the script [`COUNTS`] have left.
    pub async fn starts(&self) -> String {
        kubectl(&[
            "exec",
            "-n",
            &self.world.namespace,
            "p",
            "-c",
            "log",
            "--",
            "cat",
            "/shared/starts",
        ])
        .await
    }

    /// The states of the containers of a request, once it is completed.
    pub async fn completed(&self, name: &str) -> Value {
        eventually(&format!("request {name} to be completed"), || {
            self.states(name)
        })
        .await
    }

    async fn states(&self, name: &str) -> Option<Value> {
        let status = self.requests.get(name).await.unwrap().data["status"].clone();
        (status["phase"] == "Completed").then(|| status["containerRecreateStates"].clone())
    }

    /// What becomes of a request from now on: a version that lasts for a moment only is not missed.
    pub async fn versions(&self, name: &str) -> Versions {
        let one = WatchParams::default().fields(&format!("metadata.name={name}"));
        Versions(self.requests.watch(&one, "0").await.unwrap().boxed())
    }

    /// A controller that is killed at its first write, when the API server has carried it out and
    /// it does not know yet. The resource written.
    pub async fn life_of_one_write(&self, witness: &Witness, arguments: &[&str]) -> String {
        let written = witness.life_of_one_write(&self.world, arguments).await;
        let in_namespace = format!("/namespaces/{}/", self.world.namespace);
        written
            .split(&in_namespace)
            .last()
            .unwrap_or_default()
            .to_owned()
    }

    /// One such life after another, until the request `r` is completed.
    pub async fn lives_of_one_write(&mut self, arguments: &[&str]) -> Vec<String> {
        let witness = Witness::of(&mut self.world).await;
        let mut written = Vec::new();
        while self.states("r").await.is_none() {
            written.push(self.life_of_one_write(&witness, arguments).await);
        }
        written
    }
}

/// The versions of a request that are still to come.
pub struct Versions(BoxStream<'static, kube::Result<WatchEvent<DynamicObject>>>);

impl Versions {
    async fn next<T>(
        &mut self,
        what: &str,
        is_it: impl Fn(WatchEvent<DynamicObject>) -> Option<T>,
    ) -> T {
        let found = async {
            loop {
                let event = self
                    .0
                    .try_next()
                    .await
                    .unwrap()
                    .unwrap_or_else(|| panic!("the watch has ended before {what}"));
                if let Some(found) = is_it(event) {
                    return found;
                }
            }
        };
        timeout(PATIENCE, found)
            .await
            .unwrap_or_else(|_| panic!("waited in vain for {what}"))
    }

    /// The next one of which this is true.
    pub async fn next_that_is(
        &mut self,
        what: &str,
        is_it: impl Fn(&DynamicObject) -> bool,
    ) -> DynamicObject {
        let changed = |event| match event {
            WatchEvent::Added(request) | WatchEvent::Modified(request) => {
                Some(request).filter(&is_it)
            }
            _ => None,
        };
        self.next(&format!("the request to be {what}"), changed)
            .await
    }

    /// Waits until it is deleted.
    pub async fn deleted(&mut self) {
        self.next("the request to be deleted", |event| {
            matches!(event, WatchEvent::Deleted(_)).then_some(())
        })
        .await;
    }
}

pub fn status<'a>(
    pod: &'a Pod,
    name: &str,
) -> Option<&'a k8s_openapi::api::core::v1::ContainerStatus> {
    pod.status
        .as_ref()?
        .container_statuses
        .as_ref()?
        .iter()
        .find(|status| status.name == name)
}

pub fn started(pod: &Pod, name: &str) -> Option<Timestamp> {
    Some(
        status(pod, name)?
            .state
            .as_ref()?
            .running
            .as_ref()?
            .started_at
            .as_ref()?
            .0,
    )
}

pub fn restarts(pod: &Pod, name: &str) -> i32 {
    status(pod, name).map_or(0, |status| status.restart_count)
}

/// Whether its first container has another spelling of its image.
fn is_changed(pod: &Pod) -> bool {
    pod.spec.as_ref().unwrap().containers[0]
        .image
        .as_deref()
        .is_some_and(|image| image.contains('@'))
}

fn app() -> Value {
    json!({"podName": "p", "containers": [{"name": "app"}]})
}

pub fn succeeded() -> Value {
    json!([{"name": "app", "phase": "Succeeded", "isKilled": true}])
}

/// Each start of this container leaves a line on the volume.
pub const COUNTS: &str = "echo started >> /shared/starts; trap 'exit 143' TERM; sleep 3600 & wait";

async fn one_of_two(case: &str, policy: &str) {
    let restart = Restarts::new(case).await;
    let _controller = restart.controller().await;
    let before = restart.run_pod(policy, COUNTS).await;
    restart.request("r", &app()).await;
    assert_eq!(restart.completed("r").await, succeeded());
    let after = restart.world.pod_is("p", "there", |_| true).await;
    assert_eq!((restarts(&after, "app"), restarts(&after, "log")), (1, 0));
    assert_eq!(
        (before.uid(), started(&before, "log")),
        (after.uid(), started(&after, "log"))
    );
    let ip = |pod: &Pod| pod.status.as_ref().unwrap().pod_ip.clone();
    assert_eq!(ip(&before), ip(&after));
    assert_eq!(restart.starts().await, "started\nstarted\n");

    // Again, by the next spelling.
    restart.request("again", &app()).await;
    assert_eq!(restart.completed("again").await, succeeded());
    let after = restart.world.pod_is("p", "there", |_| true).await;
    assert_eq!((restarts(&after, "app"), restarts(&after, "log")), (2, 0));
    restart.world.done().await;
}

#[tokio::test]
async fn one_of_two_containers_under_always() {
    one_of_two("restart-always", "Always").await;
}

#[tokio::test]
async fn one_of_two_containers_under_never() {
    one_of_two("restart-never", "Never").await;
}

/// How long a kubelet makes a container wait that has crashed for the third time.
const BACK_OFF: &str = "back-off 20s";

/// From the change of the image, by the API server's clock, to the new container, by the kubelet's,
/// which tells whole seconds; both run on this machine. `None` where the kubelet's own back-off may
/// have been over.
async fn leaves_the_crash_loop(restart: &Restarts, request: &str) -> Option<i64> {
    let waits = |pod: &Pod| {
        let waiting = status(pod, "app").and_then(|status| status.state.as_ref()?.waiting.clone());
        waiting
            .and_then(|waiting| waiting.message)
            .is_some_and(|message| message.starts_with(BACK_OFF))
    };
    let before = restart.world.pod_is("p", "in a crash loop", waits).await;
    restart.request(request, &json!({"podName": "p", "containers": [{"name": "app"}], "strategy": {"forceRecreate": true}})).await;
    let next = restarts(&before, "app") + 1;
    let after = restart
        .world
        .pod_is("p", "restarted", |pod| {
            restarts(pod, "app") >= next && began(pod).is_some()
        })
        .await;
    let crashed = ended(&before).unwrap();
    let changed = written_in(&restart.world.namespace)
        .into_iter()
        .rfind(|write| write.is_applied_swap())
        .unwrap()
        .at;
    let began = began(&after).unwrap();
    println!("crashed {crashed}, changed {changed}, began {began}");
    (began.duration_since(crashed).as_secs() < 20).then(|| began.as_second() - changed.as_second())
}

/// When the container that is there, or the one before it where none is, was started, and when that
/// one ended.
fn began(pod: &Pod) -> Option<Timestamp> {
    let ended = || terminated(pod)?.started_at.as_ref().map(|at| at.0);
    started(pod, "app").or_else(ended)
}

fn ended(pod: &Pod) -> Option<Timestamp> {
    terminated(pod)?.finished_at.as_ref().map(|at| at.0)
}

fn terminated(pod: &Pod) -> Option<&ContainerStateTerminated> {
    let status = status(pod, "app")?;
    let now = status
        .state
        .as_ref()
        .and_then(|state| state.terminated.as_ref());
    now.or_else(|| status.last_state.as_ref()?.terminated.as_ref())
}

/// A busy machine may be late once or twice.
#[tokio::test]
async fn a_crash_loop_is_left_within_three_seconds() {
    let restart = Restarts::new("restart-crash").await;
    let _controller = restart.controller().await;
    restart
        .world
        .create_pod(pod(
            "p",
            spec("Always", vec![container(&restart.world, "app", "exit 1")]),
        ))
        .await;
    let mut took = Vec::new();
    for nth in 0..4 {
        took.push(leaves_the_crash_loop(&restart, &format!("r{nth}")).await);
        if took.last().unwrap().is_some_and(|seconds| seconds <= 3) {
            return restart.world.done().await;
        }
    }
    panic!("it took {took:?} s");
}

/// A container that is ready when it is started for the first time, and later only when there is a
/// file `go`.
fn ready_once(world: &World) -> Value {
    let mut app = container(world, "app", COUNTS);
    let probe = "[ $(wc -l < /shared/starts) -le 1 ] || test -e /shared/go";
    app["readinessProbe"] = json!({"exec": {"command": ["sh", "-c", probe]}, "periodSeconds": 1});
    app
}

#[tokio::test]
async fn the_second_of_two_in_order_waits_until_the_first_is_ready() {
    let restart = Restarts::new("restart-ordered").await;
    let _controller = restart.controller().await;
    restart
        .run_pod_with("Always", ready_once(&restart.world))
        .await;
    let both = json!({"podName": "p", "containers": [{"name": "app"}, {"name": "log"}], "strategy": {"orderedRecreate": true}});
    restart.request("r", &both).await;
    restart
        .world
        .pod_is("p", "restarted", |pod| {
            restarts(pod, "app") == 1 && started(pod, "app").is_some()
        })
        .await;
    let not_ready_before = time_of_day();
    kubectl(&[
        "exec",
        "-n",
        &restart.world.namespace,
        "p",
        "-c",
        "log",
        "--",
        "touch",
        "/shared/go",
    ])
    .await;
    let done = |name: &str| json!({"name": name, "phase": "Succeeded", "isKilled": true});
    assert_eq!(
        restart.completed("r").await,
        json!([done("app"), done("log")])
    );
    let after = restart.world.pod_is("p", "there", |_| true).await;
    assert_eq!((restarts(&after, "app"), restarts(&after, "log")), (1, 1));
    let swaps: Vec<_> = written_in(&restart.world.namespace)
        .into_iter()
        .filter(Written::is_applied_swap)
        .collect();
    assert!(
        swaps.len() == 2 && swaps[1].at > not_ready_before,
        "{not_ready_before}: {swaps:#?}"
    );
    restart.world.done().await;
}

async fn killed_at_every_write(case: &str, policy: &str) {
    let mut restart = Restarts::new(case).await;
    restart.run_pod(policy, COUNTS).await;
    restart.request("r", &app()).await;
    let written = restart.lives_of_one_write(&["--restart"]).await;
    assert_eq!(restart.completed("r").await, succeeded());
    assert_eq!(
        restarts(&restart.world.pod_is("p", "there", |_| true).await, "app"),
        1
    );
    assert_eq!(restart.starts().await, "started\nstarted\n");
    assert_eq!(
        written
            .iter()
            .filter(|resource| *resource == "pods/p")
            .count(),
        1,
        "{written:?}"
    );
    assert!(written.len() >= 5, "{written:?}");
    restart.world.done().await;
}

#[tokio::test]
async fn controllers_that_die_at_every_write_restart_it_once_under_never() {
    killed_at_every_write("restart-dies-never", "Never").await;
}

impl Restarts {
    async fn assert_change_refused(&self, name: &str, change: &Value, word: &str) {
        let refused = self
            .requests
            .patch(name, &Default::default(), &kube::api::Patch::Merge(change))
            .await;
        assert!(
            refused
                .expect_err("it is refused")
                .to_string()
                .contains(word),
            "{change}"
        );
    }
}

/// Requests that are refused, and a word of the reason.
fn refused() -> Vec<(Value, &'static str)> {
    let containers = json!([{"name": "app"}]);
    vec![
        (
            json!({"podName": "", "containers": containers}),
            "spec.podName",
        ),
        (json!({"podName": "p", "containers": []}), "spec.containers"),
        (
            json!({"podName": "p", "containers": [{"name": "app"}, {"name": "app"}]}),
            "Duplicate value",
        ),
        (
            json!({"podName": "p", "containers": [{"name": "app", "statusContext": {"containerID": "x", "restartCount": 0}}]}),
            "read-only",
        ),
        (
            json!({"podName": "p", "containers": containers, "activeDeadlineSeconds": 2}),
            "activeDeadlineSeconds",
        ),
        (
            json!({"podName": "p", "containers": containers, "strategy": {"failurePolicy": "Maybe"}}),
            "failurePolicy",
        ),
        (
            json!({"podName": "p", "containers": containers, "strategy": {"terminationGracePeriodSeconds": -1}}),
            "terminationGracePeriodSeconds",
        ),
        (
            json!({"podName": "p", "containers": containers, "strategy": {"unreadyGracePeriodSeconds": -1}}),
            "unreadyGracePeriodSeconds",
        ),
        // D3, D5: what would be a selector of its own making, and what no client can read that has
        // int32 there.
        (
            json!({"podName": "a,b", "containers": containers}),
            "spec.podName",
        ),
        (
            json!({"podName": "p", "containers": containers, "ttlSecondsAfterFinished": 99_999_999_999_i64}),
            "ttlSecondsAfterFinished",
        ),
        (
            json!({"podName": "p", "containers": containers, "strategy": {"minStartedSeconds": 2_147_483_648_i64}}),
            "minStartedSeconds",
        ),
    ]
}

/// What OpenKruise's webhook refuses is refused by the schema.
#[tokio::test]
async fn the_crd_refuses_what_openkruises_webhook_refuses() {
    let restart = Restarts::new("restart-crd").await;
    for (spec, word) in refused() {
        let refused = restart
            .try_request("bad", &spec)
            .await
            .expect_err("it is refused")
            .to_string();
        assert!(refused.contains(word), "{refused}");
    }
    let both = |names: [&str; 2]| json!({"podName": "p", "containers": names.map(|name| json!({"name": name}))});
    restart.request("good", &app()).await;
    restart.request("ordered", &both(["app", "log"])).await;
    // B5, B6: the order in which they are restarted stays, and a hook is filled in with its context
    // only.
    let hook = json!({"spec": {"containers": [{"name": "app", "preStop": {"exec": {"command": ["x"]}}}, {"name": "log"}]}});
    for (change, word) in [
        (json!({"spec": both(["log", "app"])}), "immutable"),
        (hook, "read-only"),
    ] {
        restart
            .assert_change_refused("ordered", &change, word)
            .await;
    }
    let stored = restart.requests.get("good").await.unwrap();
    assert_eq!(
        stored.data["spec"]["strategy"],
        json!({"failurePolicy": "Fail"})
    );
    for change in [
        json!({"spec": {"podName": "other"}}),
        json!({"spec": {"containers": [{"name": "log"}]}}),
        json!({"spec": {"ttlSecondsAfterFinished": 3}}),
        json!({"spec": {"strategy": {"forceRecreate": true}}}),
        json!({"spec": {"strategy": {"failurePolicy": "Ignore"}}}),
    ] {
        restart
            .assert_change_refused("good", &change, "immutable")
            .await;
    }
    restart.world.done().await;
}

/// The CRD of requests is there, OpenKruise is not, and the account may not look for it.
#[tokio::test]
async fn the_crd_alone_keeps_nobody_from_ending_sidecars() {
    let world = Restarts::new("restart-crd-alone").await.world;
    let _controller = Controller::start_beside_openkruise(&world, &["--restart"]).await;
    world
        .create_job(job(
            "job",
            spec(
                "OnFailure",
                vec![main_ok(&world), sidecar(&world, "log", EXITS_143)],
            ),
        ))
        .await;
    world.job_ends("job", "Complete").await;
    world.done().await;
}

#[tokio::test]
async fn a_native_sidecar_is_restarted_in_place() {
    let restart = Restarts::new("restart-native").await;
    let mut mesh = container(&restart.world, "mesh", EXITS_143);
    mesh["restartPolicy"] = json!("Always");
    let mut spec = spec("Never", vec![container(&restart.world, "app", EXITS_143)]);
    spec["initContainers"] = json!([mesh]);
    restart.world.create_pod(pod("p", spec)).await;
    let native = |pod: &Pod| {
        pod.status
            .as_ref()?
            .init_container_statuses
            .as_ref()?
            .first()
            .map(|status| (status.ready, status.restart_count))
    };
    let runs = |pod: &Pod| started(pod, "app").is_some() && native(pod) == Some((true, 0));
    let before = restart.world.pod_is("p", "running", runs).await;
    let _controller = restart.controller().await;
    restart
        .request(
            "r",
            &json!({"podName": "p", "containers": [{"name": "mesh"}]}),
        )
        .await;
    assert_eq!(
        restart.completed("r").await,
        json!([{"name": "mesh", "phase": "Succeeded", "isKilled": true}])
    );
    let after = restart.world.pod_is("p", "there", |_| true).await;
    assert_eq!(
        (native(&after), restarts(&after, "app")),
        (Some((true, 1)), 0)
    );
    assert_eq!(
        (before.uid(), started(&before, "app")),
        (after.uid(), started(&after, "app"))
    );
    restart.world.done().await;
}

mod long {
    use super::*;

    #[tokio::test]
    async fn controllers_that_die_at_every_write_restart_it_once_under_always() {
        killed_at_every_write("restart-dies-always", "Always").await;
    }

    #[tokio::test]
    async fn controllers_that_die_at_every_write_restart_it_once_under_on_failure() {
        killed_at_every_write("restart-dies-onfailure", "OnFailure").await;
    }

    #[tokio::test]
    async fn one_of_two_containers_under_on_failure() {
        one_of_two("restart-onfailure", "OnFailure").await;
    }

    /// OpenKruise leaves the second one waiting for ever (its issue 2474).
    #[tokio::test]
    async fn two_requests_at_once_both_end() {
        let restart = Restarts::new("restart-two").await;
        let _controller = restart.controller().await;
        restart.run_pod("Always", COUNTS).await;
        let forced = json!({"podName": "p", "containers": [{"name": "app"}], "strategy": {"forceRecreate": true}});
        tokio::join!(restart.request("a", &forced), restart.request("b", &forced));
        assert_eq!(
            (restart.completed("a").await, restart.completed("b").await),
            (succeeded(), succeeded())
        );
        assert_eq!(
            restarts(&restart.world.pod_is("p", "there", |_| true).await, "app"),
            2
        );
        restart.world.done().await;
    }

    /// The second one is made when the kubelet has restarted the container, or is about to, and may
    /// not have told it.
    #[tokio::test]
    async fn v5_a_restart_from_before_the_request_is_none_of_its_own() {
        let restart = Restarts::new("restart-late-status").await;
        let _controller = restart.controller().await;
        restart.run_pod("Always", COUNTS).await;
        let pods = restart.world.api::<Pod>();
        for nth in 0..6 {
            let generation = pods.get("p").await.unwrap().metadata.generation;
            restart.request(&format!("a{nth}"), &app()).await;
            restart
                .world
                .pod_is("p", "changed", |pod| pod.metadata.generation != generation)
                .await;
            sleep(Duration::from_millis(300 * nth)).await;
            let name = format!("b{nth}");
            restart.request(&name, &app()).await;
            assert_eq!(restart.completed(&name).await[0]["phase"], "Succeeded");
            let made = restart.requests.get(&name).await.unwrap();
            let made = made.metadata.creation_timestamp.unwrap().0;
            let started = started(&pods.get("p").await.unwrap(), "app").unwrap();
            assert!(started > made, "{name}: {started} {made}");
        }
        restart.world.done().await;
    }

    #[tokio::test]
    async fn a_pod_that_is_deleted_halfway_ends_the_request() {
        let restart = Restarts::new("restart-deleted").await;
        let _controller = restart.controller().await;
        // It is not ready any more, so the request goes on for as long as the pod is there.
        restart
            .run_pod_with("Always", ready_once(&restart.world))
            .await;
        restart.request("r", &app()).await;
        restart.world.pod_is("p", "changed", is_changed).await;
        restart
            .world
            .api::<Pod>()
            .delete("p", &Default::default())
            .await
            .unwrap();
        let over = restart.completed("r").await;
        assert_eq!(
            (&over[0]["phase"], &over[0]["message"]),
            (&json!("Failed"), &json!("pod has gone"))
        );
        restart.world.done().await;
    }
}
