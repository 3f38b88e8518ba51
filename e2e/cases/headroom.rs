//! Jobs under OnFailure with the real Job controller, which counts the restarts that swaps cause.

use std::fs::{File, Permissions};
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::time::Duration;

use futures::future::join_all;
use jiff::Timestamp;
use k8s_openapi::api::batch::v1::{Job, JobCondition, JobStatus};
use k8s_openapi::api::core::v1::{ContainerStatus, Pod};
use k8s_openapi::api::events::v1::Event;
use kube::ResourceExt;
use kube::api::{ListParams, Patch, PatchParams};
use serde_json::{Value, json};
use tokio::process::Command;
use tokio::time::sleep;

use crate::audit::{assert_swapped_once, swapped_in, written_in};
use crate::controller::Controller;
use crate::pods::{EXITS_0, EXITS_143, container, job, sidecar, spec};
use crate::world::{World, eventually, phase_of};

/// What may lie between the first and the last end: statuses show whole seconds.
const AT_ONCE: i64 = 2;

/// What the main containers of a Job wait for: a pipe on their node, which is this machine, from
/// which each takes one line.
struct Gate {
    folder: tempfile::TempDir,
    pipe: File,
}

impl Gate {
    async fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("gate");
        assert!(
            Command::new("mkfifo")
                .args(["-m", "666"])
                .arg(&path)
                .status()
                .await
                .unwrap()
                .success()
        );
        std::fs::set_permissions(folder.path(), Permissions::from_mode(0o755)).unwrap();
        // Both ends, so that it stays open whoever comes and goes.
        let pipe = File::options().read(true).write(true).open(path).unwrap();
        Self { folder, pipe }
    }

    /// So many main containers end at once.
    fn open(&mut self, mains: usize) {
        self.pipe.write_all("\n".repeat(mains).as_bytes()).unwrap();
    }

    /// A main that waits, or fails when it is told to stop before, and a sidecar.
    fn spec(&self, world: &World, sidecar: Value) -> Value {
        let mut main = container(
            world,
            "main",
            "trap 'exit 1' TERM; read line < /gate/gate & wait",
        );
        main["volumeMounts"] = json!([{"name": "gate", "mountPath": "/gate"}]);
        let mut spec = spec("OnFailure", vec![main, sidecar]);
        spec["volumes"] = json!([{"name": "gate", "hostPath": {"path": self.folder.path(), "type": "Directory"}}]);
        spec
    }
}

/// The pods of a Job whose main containers end at once when the gate opens, once all containers
/// run.
async fn running(world: &World, gate: &Gate, pods: usize, limit: u64, script: &str) -> Vec<Pod> {
    let mut job = job("job", gate.spec(world, sidecar(world, "log", script)));
    for (field, value) in [
        ("parallelism", json!(pods)),
        ("completions", json!(pods)),
        ("backoffLimit", json!(limit)),
    ] {
        job["spec"][field] = value;
    }
    world.create_job(job).await;
    eventually("all pods to run", || async {
        let all = world.pods().await;
        (all.iter()
            .filter(|pod| running_containers(pod) == 2)
            .count()
            == pods)
            .then_some(all)
    })
    .await
}

/// As [`running`]; the main containers end.
async fn ending(world: &World, pods: usize, limit: u64) -> Vec<Pod> {
    let mut gate = Gate::new().await;
    let all = running(world, &gate, pods, limit, EXITS_143).await;
    gate.open(pods);
    // It stays open until the last one has taken its line.
    let ended = |pods: Vec<Pod>| pods.iter().all(|pod| main_end(pod).is_some()).then_some(());
    eventually("all main containers to end", || async {
        ended(world.pods().await)
    })
    .await;
    all
}

fn statuses(pod: &Pod) -> impl Iterator<Item = &ContainerStatus> {
    pod.status
        .iter()
        .flat_map(|status| status.container_statuses.iter().flatten())
}

fn running_containers(pod: &Pod) -> usize {
    statuses(pod).filter(|status| is_running(status)).count()
}

fn is_running(status: &ContainerStatus) -> bool {
    status
        .state
        .as_ref()
        .is_some_and(|state| state.running.is_some())
}

/// When the main has ended.
fn main_end(pod: &Pod) -> Option<Timestamp> {
    let main = statuses(pod).find(|status| status.name == "main")?;
    main.state
        .as_ref()?
        .terminated
        .as_ref()?
        .finished_at
        .as_ref()
        .map(|time| time.0)
}

fn names(pods: &[Pod]) -> Vec<&str> {
    pods.iter()
        .filter_map(|pod| pod.metadata.name.as_deref())
        .collect()
}

async fn status(world: &World) -> JobStatus {
    world
        .api::<Job>()
        .get("job")
        .await
        .unwrap()
        .status
        .unwrap_or_default()
}

/// The Job is Complete, and no pod has ever failed.
async fn all_succeed(world: &World, pods: i32) {
    world.job_ends("job", "Complete").await;
    let status = status(world).await;
    assert_eq!(
        (status.succeeded, status.failed.unwrap_or_default()),
        (Some(pods), 0),
        "{status:?}"
    );
    let phases: Vec<_> = world
        .pods()
        .await
        .iter()
        .map(|pod| phase_of(pod).to_owned())
        .collect();
    assert_eq!(phases, vec!["Succeeded"; usize::try_from(pods).unwrap()]);
}

/// Between the first and the last end of a main.
fn spread(pods: &[Pod]) -> i64 {
    let ends: Vec<_> = pods.iter().filter_map(main_end).collect();
    let (first, last) = (ends.iter().min().unwrap(), ends.iter().max().unwrap());
    last.duration_since(*first).as_secs()
}

/// Our Events about the Job, as reason and note.
async fn told_of_job(world: &World) -> Vec<(String, String)> {
    let events = world
        .api::<Event>()
        .list(&ListParams::default())
        .await
        .unwrap()
        .items;
    let ours = events
        .into_iter()
        .filter(|event| event.reporting_controller.as_deref() == Some("swaplet.io/controller"));
    let of_job = ours.filter(|event| {
        event
            .regarding
            .as_ref()
            .is_some_and(|about| about.kind.as_deref() == Some("Job"))
    });
    of_job
        .map(|event| {
            (
                event.reason.unwrap_or_default(),
                event.note.unwrap_or_default(),
            )
        })
        .collect()
}

/// Somebody in the container sends SIGTERM to its first process.
async fn stop(world: &World, pod: &str, container: &str) {
    let arguments = [
        "exec",
        "-n",
        &world.namespace,
        pod,
        "-c",
        container,
        "--",
        "sh",
        "-c",
        "kill -TERM 1",
    ];
    let output = Command::new("kubectl")
        .args(arguments)
        .output()
        .await
        .expect("kubectl");
    // The container may be gone before the command in it has ended, which then ends with it.
    let ended_with_it = output.status.code() == Some(137);
    assert!(
        output.status.success() || ended_with_it,
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

#[tokio::test]
async fn twenty_pods_that_end_at_once_complete_under_the_default_limit() {
    let world = World::new("headroom-20").await;
    let _controller = Controller::start(&world).await;
    ending(&world, 20, 6).await;
    all_succeed(&world, 20).await;
    let pods = world.pods().await;
    assert!(
        spread(&pods) <= AT_ONCE,
        "the main containers ended over {} s",
        spread(&pods)
    );
    assert_swapped_once(&world.namespace, &names(&pods));
    assert_eq!(told_of_job(&world).await, []);
    world.done().await;
}

/// The Jobs of which one has to fail: how many restarts the Job controller sees at the same moment is
/// a race with the node.
const TRIES: usize = 6;

/// The case above can tell: who swaps all twenty at once fails the same Job.
#[tokio::test]
async fn a_naive_swap_fails_the_same_job() {
    for nth in 0..TRIES {
        let world = World::new(&format!("headroom-naive-{nth}")).await;
        swap_all_at_once(&world).await;
        let conditions = eventually("the Job to end", || async {
            let conditions = status(&world).await.conditions.unwrap_or_default();
            let is_over = |condition: &JobCondition| {
                ["Complete", "Failed"].contains(&&*condition.type_) && condition.status == "True"
            };
            conditions.iter().any(is_over).then_some(conditions)
        })
        .await;
        let failed = |condition: &JobCondition| {
            condition.type_ == "Failed"
                && condition.reason.as_deref() == Some("BackoffLimitExceeded")
        };
        let has_failed = conditions.iter().any(failed);
        world.done().await;
        if has_failed {
            return;
        }
    }
    panic!("{TRIES} Jobs got through");
}

async fn swap_all_at_once(world: &World) {
    let pods = ending(world, 20, 6).await;
    let (api, params) = (world.api::<Pod>(), PatchParams::default());
    let patch = Patch::Strategic(
        json!({"spec": {"containers": [{"name": "log", "image": world.images.exit}]}}),
    );
    let patches = names(&pods)
        .into_iter()
        .map(|name| api.patch(name, &params, &patch));
    join_all(patches).await;
}

/// All main containers have ended, and one Event about the Job is all that was written.
async fn assert_told_once(world: &World) {
    let done = |pods: &Vec<Pod>| !pods.is_empty() && pods.iter().all(|pod| main_end(pod).is_some());
    eventually("all main containers to end", || async {
        Some(world.pods().await).filter(done)
    })
    .await;
    let told = eventually("an Event", || async {
        Some(told_of_job(world).await).filter(|told| !told.is_empty())
    })
    .await;
    sleep(Duration::from_secs(5)).await;
    assert_eq!(told_of_job(world).await, told);
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(
        told[0].0 == "NoHeadroom" && told[0].1.contains("Raise spec.backoffLimit to at least 2"),
        "{told:?}"
    );
    let written = written_in(&world.namespace);
    assert!(
        written.iter().all(|write| write.resource == "events") && written.len() == 1,
        "{written:#?}"
    );
    assert_eq!(status(world).await.failed.unwrap_or_default(), 0);
}

mod long {
    use super::*;

    /// Two main containers are restarted by the user before they end, and the sidecar of a pod that
    /// waits while others are swapped.
    #[tokio::test]
    async fn restarts_by_the_user_are_counted() {
        let world = World::new("headroom-restarts").await;
        let _controller = Controller::start(&world).await;
        let mut gate = Gate::new().await;
        let pods = running(&world, &gate, 12, 6, EXITS_143).await;
        for name in &names(&pods)[..2] {
            stop(&world, name, "main").await;
            world
                .pod_is(name, "restarted by the user", |pod| {
                    statuses(pod).any(|status| status.restart_count == 1 && is_running(status))
                })
                .await;
        }
        gate.open(12);
        let waits = eventually("a pod to wait while another one is swapped", || async {
            let pods = world.pods().await;
            let swapped = |pod: &&Pod| {
                pod.spec.as_ref().is_some_and(|spec| {
                    spec.containers[1].image.as_ref() == Some(&world.images.exit)
                })
            };
            pods.iter().find(swapped)?;
            pods.iter()
                .rev()
                .find(|pod| !swapped(pod))
                .map(ResourceExt::name_any)
        })
        .await;
        stop(&world, &waits, "log").await;
        all_succeed(&world, 12).await;
        let restarts: i32 = world
            .pods()
            .await
            .iter()
            .flat_map(|pod| {
                statuses(pod)
                    .map(|status| status.restart_count)
                    .collect::<Vec<_>>()
            })
            .sum();
        assert!(
            restarts >= 14,
            "the restarts of the user are not there: {restarts}"
        );
        assert_eq!(told_of_job(&world).await, []);
        world.done().await;
    }

    /// Not one swap fits, so the phase of the pods is written.
    #[tokio::test]
    async fn twenty_pods_complete_where_no_restart_is_allowed() {
        let world = World::new("headroom-finish").await;
        let _controller = Controller::start(&world).await;
        ending(&world, 20, 0).await;
        all_succeed(&world, 20).await;
        assert_eq!(
            (swapped_in(&world.namespace), told_of_job(&world).await),
            (vec![], vec![])
        );
        world.done().await;
    }

    /// Not one swap fits: nothing is touched, one Event says why, and the Job completes as soon as
    /// the limit is raised.
    #[tokio::test]
    async fn the_job_completes_when_the_user_raises_the_limit() {
        let world = World::new("headroom-raise").await;
        let _controller = Controller::start_with(&world, &["--finish", "never"]).await;
        ending(&world, 6, 0).await;
        assert_told_once(&world).await;
        let raise = Patch::Merge(json!({"spec": {"backoffLimit": 2}}));
        world
            .api::<Job>()
            .patch("job", &PatchParams::default(), &raise)
            .await
            .expect("a live Job takes another backoffLimit");
        all_succeed(&world, 6).await;
        assert_swapped_once(&world.namespace, &names(&world.pods().await));
        world.done().await;
    }

    /// The same, and the user ends the sidecars instead.
    #[tokio::test]
    async fn the_job_completes_when_the_user_ends_the_sidecars() {
        let world = World::new("headroom-by-hand").await;
        let _controller = Controller::start_with(&world, &["--finish", "never"]).await;
        let mut gate = Gate::new().await;
        running(&world, &gate, 3, 0, EXITS_0).await;
        gate.open(3);
        assert_told_once(&world).await;
        for pod in world.pods().await {
            stop(&world, &pod.name_any(), "log").await;
        }
        all_succeed(&world, 3).await;
        assert_swapped_once(&world.namespace, &[]);
        world.done().await;
    }
}
