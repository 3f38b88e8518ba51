//! Single containers of running pods are restarted, by requests, on a real kubelet.

mod containers;
mod crash_loop;
mod crd;
mod long;
mod private;
mod repeated;

use std::time::Duration;

use futures::StreamExt;
use futures::stream::{self, BoxStream};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::jiff::Timestamp;
use kube::api::{ApiResource, DynamicObject, PostParams, WatchEvent, WatchParams};
use kube::{Api, ResourceExt as _};
use serde_json::{Value, json};
use tokio::time::{sleep, timeout};

use crate::controller::Controller;
use crate::crds::requests_are_served;
use crate::pods::{EXITS_143, container, pod, spec, status_of};
use crate::witness::Witness;
use crate::world::{PATIENCE, World, eventually, kubectl};

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
        requests_are_served().await;
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

    /// Asserts what containers that leave a line at each start, as those with the script [`COUNTS`],
    /// have left. A container counts as started a moment before its script begins.
    pub async fn assert_starts(&self, expected: &str) {
        let starts = [
            "exec",
            "-n",
            &self.world.namespace,
            "p",
            "-c",
            "log",
            "--",
            "cat",
            "/shared/starts",
        ];
        let starts = eventually(&format!("the starts {expected:?}"), || async {
            Some(kubectl(&starts).await).filter(|starts| starts.len() >= expected.len())
        })
        .await;
        assert_eq!(starts, expected);
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
        let mut versions = Versions {
            requests: self.requests.clone(),
            one,
            seen: "0".to_owned(),
            events: stream::empty().boxed(),
        };
        versions.go_on().await;
        versions
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
    pub async fn lives_of_one_write(&self, witness: &Witness, arguments: &[&str]) -> Vec<String> {
        let mut written = Vec::new();
        while self.states("r").await.is_none() {
            written.push(self.life_of_one_write(witness, arguments).await);
        }
        written
    }
}

/// The versions of a request that are still to come. A busy API server may end a watch.
pub struct Versions {
    requests: Api<DynamicObject>,
    one: WatchParams,
    /// The last version that was told.
    seen: String,
    events: BoxStream<'static, kube::Result<WatchEvent<DynamicObject>>>,
}

impl Versions {
    /// Watches from the last version on.
    async fn go_on(&mut self) {
        let events = self.requests.watch(&self.one, &self.seen).await;
        self.events = events.unwrap().boxed();
    }

    async fn next_event(&mut self) -> WatchEvent<DynamicObject> {
        loop {
            match self.events.next().await {
                Some(Ok(event)) => {
                    let seen = match &event {
                        WatchEvent::Added(request)
                        | WatchEvent::Modified(request)
                        | WatchEvent::Deleted(request) => request.resource_version(),
                        WatchEvent::Bookmark(_) | WatchEvent::Error(_) => None,
                    };
                    if let Some(seen) = seen {
                        self.seen = seen;
                    }
                    return event;
                }
                Some(Err(error)) => println!("a watch was broken off: {error}"),
                None => println!("a watch has ended"),
            }
            sleep(Duration::from_secs(1)).await;
            self.go_on().await;
        }
    }

    async fn next<T>(
        &mut self,
        what: &str,
        is_it: impl Fn(WatchEvent<DynamicObject>) -> Option<T>,
    ) -> T {
        let found = async {
            loop {
                if let Some(found) = is_it(self.next_event().await) {
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

pub fn started(pod: &Pod, name: &str) -> Option<Timestamp> {
    Some(
        status_of(pod, name)?
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
    status_of(pod, name).map_or(0, |status| status.restart_count)
}

fn app() -> Value {
    json!({"podName": "p", "containers": [{"name": "app"}]})
}

pub fn succeeded() -> Value {
    json!([{"name": "app", "phase": "Succeeded", "isKilled": true}])
}

/// Each start of this container leaves a line on the volume.
pub const COUNTS: &str = "echo started >> /shared/starts; trap 'exit 143' TERM; sleep 3600 & wait";

/// A container that is ready when it is started for the first time, and later only when there is a
/// file `go`.
fn ready_once(world: &World) -> Value {
    let mut app = container(world, "app", COUNTS);
    let probe = "[ $(wc -l < /shared/starts) -le 1 ] || test -e /shared/go";
    app["readinessProbe"] =
        json!({"exec": {"command": ["sh", "-c", probe]}, "periodSeconds": 1, "timeoutSeconds": 30});
    app
}
