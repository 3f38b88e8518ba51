//! Jobs under OnFailure with the real Job controller, which counts the restarts that swaps cause.

mod long;

use std::fs::{File, Permissions};
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;

use futures::future::join_all;
use jiff::Timestamp;
use k8s_openapi::api::batch::v1::{Job, JobCondition, JobStatus};
use k8s_openapi::api::core::v1::{ContainerStatus, Pod};
use k8s_openapi::api::events::v1::Event;
use kube::api::{ListParams, Patch, PatchParams};
use serde_json::{Value, json};
use tokio::process::Command;

use crate::audit::assert_swapped_once;
use crate::controller::Controller;
use crate::pods::{EXITS_143, container, job, sidecar, spec};
use crate::world::{World, eventually, phase_of};

/// Of so many main containers the ends count as at once where none of the pods is over yet: twice
/// the restarts that the default limit of a Job allows.
const AT_ONCE: usize = 12;
/// The Jobs of which one has to show it: how many restarts the Job controller sees at the same
/// moment, and how close together main containers end, is a race with the node.
const TRIES: usize = 6;

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
    end_of(pod, "main")
}

fn end_of(pod: &Pod, container: &str) -> Option<Timestamp> {
    let status = statuses(pod).find(|status| status.name == container)?;
    status
        .state
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

/// How many main containers had ended when the first pod was over: who does not wait changes the
/// images of all of these before the Job counts any of them as done. Other than seconds, this says
/// the same on a node that takes ten times as long for everything.
fn ended_at_once(pods: &[Pod]) -> usize {
    let first_over = pods.iter().filter_map(|pod| end_of(pod, "log")).min();
    let mains = pods.iter().filter_map(main_end);
    mains.filter(|end| Some(*end) <= first_over).count()
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

/// All Jobs have to succeed, and of one the main containers have to end at once: a loaded node may
/// stretch them.
#[tokio::test]
async fn twenty_pods_that_end_at_once_complete_under_the_default_limit() {
    let mut at_once = Vec::new();
    for nth in 0..TRIES {
        let world = World::new(&format!("headroom-20-{nth}")).await;
        let _controller = Controller::start(&world).await;
        ending(&world, 20, 6).await;
        all_succeed(&world, 20).await;
        let pods = world.pods().await;
        assert_swapped_once(&world.namespace, &names(&pods));
        assert_eq!(told_of_job(&world).await, []);
        world.done().await;
        at_once.push(ended_at_once(&pods));
        if ended_at_once(&pods) > AT_ONCE {
            return;
        }
    }
    panic!("of the main containers only {at_once:?} ended at once");
}

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
