//! The loops that write images and statuses of pods of users, and statuses of requests: sidecars of
//! Jobs, requests, and hot upgrades.

use k8s_openapi::api::core::v1::Pod;
use kube::api::PostParams;
use serde_json::{Value, json};

use super::{Hook, Hooked, hooked, image_of, warnings};
use crate::controller::{Controller, Why};
use crate::hot_upgrade::Upgrades;
pub use crate::hot_upgrade::mesh;
use crate::pods::{EXITS_143, container, job, pod, sidecar, spec, status_of};
use crate::restart::{Restarts, restarts, started};
use crate::restart_parking::without_a_name;
use crate::world::{World, eventually, lets_go_on};

/// Until it is told.
const UNTIL_TOLD: &str = "until test -e /shared/go; do sleep 1; done";
/// A request is over by then.
const DEADLINE: u32 = 45;
const IGNORED: &str = "KRUISE_TERMINATE_SIDECAR_IGNORE_EXIT_CODE";

struct Loops<'a> {
    restart: &'a Restarts,
    hook: Hook,
    /// The image of the container that is parked, a digest and nothing else.
    imported: String,
}

pub async fn of_pods(hook: Hook) {
    let case = format!("hooked-{hook:?}").to_lowercase();
    let hot_case = case.replace("hooked", "hooked-hot");
    tokio::join!(jobs_and_requests(hook, &case), hot(hook, &hot_case));
}

async fn jobs_and_requests(hook: Hook, case: &str) {
    let restart = Restarts::unleashed(case).await;
    let parked = without_a_name(&restart, case).await;
    let loops = Loops {
        restart: &restart,
        hook,
        imported: parked["image"].as_str().unwrap().to_owned(),
    };
    loops.are_begun(parked).await;
    let hooked = Hooked::new(&restart.world, hook).await;
    let park = &restart.world.images.park;
    let flags = ["--restart", "--restart-without-leash", "--park-image", park];
    let _controller = Controller::process(&restart.world, &flags, Why::NotByTheChart).await;
    loops.are_told().await;
    tokio::join!(
        loops.a_swap(),
        loops.a_phase(),
        loops.an_alias(),
        loops.parked_and_back(),
        loops.a_status()
    );
    hooked.is_quiet().await;
    loops.nothing_is_lost().await;
    drop(hooked);
    // What could not be told before is told, without another restart.
    restart.completed("told").await;
    let told = restart.world.pod_is("told", "there", |_| true).await;
    assert!(restarts(&told, "app") <= 1, "{hook:?}");
    restart.world.done().await;
}

/// A pair is upgraded while its client asks; that the other one has stopped before the next is there
/// would be a missed answer.
async fn hot(hook: Hook, case: &str) {
    let upgrades = Upgrades::in_world(World::without_leash(case).await, None).await;
    upgrades.run("p", |_| {}).await;
    let hooked = Hooked::new(&upgrades.world, hook).await;
    upgrades.set_image(&mesh("b")).await;
    hooked.is_quiet().await;
    upgrades.nobody_missed_an_answer("p", 60).await;
    let pod = upgrades.world.pod_is("p", "there", |_| true).await;
    let working = ["mesh-1", "mesh-2"]
        .into_iter()
        .filter(|name| image_of(&pod, name).contains("hot-mesh-"));
    assert_eq!(working.count(), 1, "{hook:?}: {:?}", pod.spec);
    drop(hooked);
    upgrades.done().await;
}

impl Loops<'_> {
    fn world(&self) -> &World {
        &self.restart.world
    }

    /// A Job whose main container waits to be told, with this sidecar.
    fn job(&self, name: &str, sidecar: Value) -> Value {
        let mut main = container(self.world(), "main", UNTIL_TOLD);
        main["volumeMounts"] = json!([{"name": "shared", "mountPath": "/shared"}]);
        let mut spec = spec("OnFailure", vec![main, sidecar]);
        spec["volumes"] = json!([{"name": "shared", "emptyDir": {}}]);
        job(name, spec)
    }

    /// All pods run before the webhook is there.
    async fn are_begun(&self, mut parked: Value) {
        let world = self.world();
        let log = || sidecar(world, "log", EXITS_143);
        world.create_job(self.job("swapped", log())).await;
        let mut ignored = log();
        ignored["env"]
            .as_array_mut()
            .unwrap()
            .push(json!({"name": IGNORED, "value": "true"}));
        let mut phase = self.job("phase", ignored);
        phase["spec"]["template"] = hooked(phase["spec"]["template"].take());
        world.create_job(phase).await;
        let app = || container(world, "app", EXITS_143);
        parked["args"] = json!([EXITS_143]);
        for (name, app) in [("alias", app()), ("told", app()), ("parked", parked)] {
            let containers = vec![app, container(world, "other", EXITS_143)];
            world
                .create_pod(pod(name, spec("Always", containers)))
                .await;
        }
        for name in ["alias", "told", "parked"] {
            let runs = |pod: &Pod| started(pod, "app").is_some();
            world.pod_is(name, "running", runs).await;
        }
        for name in ["swapped", "phase"] {
            self.pod_of(name).await;
        }
    }

    /// The pod of a Job, whose main container runs, or has run.
    async fn pod_of(&self, job: &str) -> Pod {
        eventually(&format!("the pod of {job} to run"), || async {
            let pods = self.world().pods().await;
            let mut of_job = pods.into_iter().filter(|pod| {
                let labels = pod.metadata.labels.as_ref();
                labels.is_some_and(|labels| {
                    labels
                        .get("batch.kubernetes.io/job-name")
                        .map(|name| &**name)
                        == Some(job)
                })
            });
            let first = of_job.next()?;
            assert!(of_job.next().is_none(), "{job} has a second pod");
            let status = status_of(&first, "main")?;
            let state = status.state.as_ref()?;
            (state.running.is_some() || state.terminated.is_some()).then_some(first)
        })
        .await
    }

    /// The main containers end, and the requests are there.
    async fn are_told(&self) {
        for name in ["swapped", "phase"] {
            let pod = self.pod_of(name).await.metadata.name.unwrap();
            lets_go_on(self.world(), &pod, "main").await;
        }
        for name in ["alias", "told", "parked"] {
            let mut spec = json!({"podName": name, "containers": [{"name": "app"}], "strategy": {"forceRecreate": name == "parked"}});
            let mut metadata = json!({"name": name});
            if name == "told" {
                metadata["labels"] = json!({super::HOOKED: "true"});
            } else {
                spec["activeDeadlineSeconds"] = json!(DEADLINE);
            }
            let object = json!({"apiVersion": "apps.kruise.io/v1alpha1", "kind": "ContainerRecreateRequest", "metadata": metadata, "spec": spec});
            let object = serde_json::from_value(object).unwrap();
            let params = PostParams::default();
            self.restart
                .requests
                .create(&params, &object)
                .await
                .unwrap();
        }
    }

    async fn is_told_of(&self, pod: &str) {
        let words = self.hook.words();
        if words.is_empty() {
            return;
        }
        eventually(&format!("a Warning about {pod}: {words}"), || async {
            let all = warnings(self.world(), pod).await;
            all.iter().any(|note| note.contains(words)).then_some(())
        })
        .await;
    }

    /// The webhook does not look at statuses of this pod, so its phase is written if need be.
    async fn a_swap(&self) {
        self.world().job_ends("swapped", "Complete").await;
        let pod = self.pod_of("swapped").await;
        assert_eq!(restarts(&pod, "main"), 0, "{:?}", self.hook);
        self.is_told_of(pod.metadata.name.as_deref().unwrap()).await;
    }

    /// Of this pod it looks at the status too.
    async fn a_phase(&self) {
        if self.hook.lets_through() {
            self.world().job_ends("phase", "Complete").await;
        }
        let pod = self.pod_of("phase").await;
        assert_eq!(restarts(&pod, "main"), 0, "{:?}", self.hook);
        self.is_told_of(pod.metadata.name.as_deref().unwrap()).await;
    }

    /// How a request has ended: whether it has succeeded, and what it says.
    async fn request(&self, name: &str) -> (bool, String) {
        let states = self.restart.completed(name).await;
        let state = &states[0];
        let message = state["message"].as_str().unwrap_or_default().to_owned();
        let succeeded = state["phase"] == "Succeeded";
        if !succeeded {
            let words = self.hook.words();
            assert!(
                !message.is_empty() && message.contains(words),
                "{:?}: {name} says {message:?}",
                self.hook
            );
        }
        (succeeded, message)
    }

    async fn an_alias(&self) {
        let (succeeded, message) = self.request("alias").await;
        let pod = self.runs("alias").await;
        let most = if self.hook.lets_through() { 2 } else { 0 };
        assert!(
            restarts(&pod, "app") <= most && (succeeded || self.hook != Hook::Pins),
            "{:?}: {message}",
            self.hook
        );
        assert!(image_of(&pod, "app").contains("e2e/work"), "{pod:?}");
    }

    async fn parked_and_back(&self) {
        self.request("parked").await;
        let pod = self.runs("parked").await;
        let most = if self.hook.lets_through() { 2 } else { 0 };
        assert!(restarts(&pod, "app") <= most, "{:?}: {pod:?}", self.hook);
    }

    /// The status of the request cannot be written, or is written as it was.
    async fn a_status(&self) {
        if self.hook.lets_through() {
            self.restart.completed("told").await;
        }
        let pod = self.runs("told").await;
        assert!(restarts(&pod, "app") <= 1, "{:?}: {pod:?}", self.hook);
    }

    async fn runs(&self, name: &str) -> Pod {
        let runs = |pod: &Pod| started(pod, "app").is_some();
        self.world().pod_is(name, "running", runs).await
    }

    /// Each container runs, with its own image; nothing is noted of a container that is back.
    async fn nothing_is_lost(&self) {
        for name in ["alias", "told", "parked"] {
            let pod = self.runs(name).await;
            let (image, is_parked) = (image_of(&pod, "app"), name == "parked");
            assert!(
                if is_parked {
                    image == self.imported
                } else {
                    image.contains("e2e/work")
                },
                "{:?}: {name} has {image}",
                self.hook
            );
            let noted = [&pod.metadata.labels, &pod.metadata.annotations]
                .into_iter()
                .flatten()
                .any(|all| all.contains_key("swaplet.io/parked"));
            assert!(!noted, "{:?}: {:?}", self.hook, pod.metadata);
            // The pod is older than the webhook, which names all its images anew in the first write
            // that it sees, whoever sends it.
            let most = i32::from(self.hook.lets_through());
            assert!(restarts(&pod, "other") <= most, "{:?}", self.hook);
        }
    }
}
