//! Jobs under OnFailure with the real Job controller, which counts the restarts that swaps cause.

use std::time::Duration;

use futures::future::join_all;
use jiff::Timestamp;
use k8s_openapi::api::batch::v1::{Job, JobStatus};
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

/// Seconds until all mains end: by then twenty pods run on two busy cores.
const ALL_RUN: u64 = 60;
/// What may lie between the first and the last end: containers look every tenth of a second, statuses show whole seconds.
const AT_ONCE: i64 = 2;

/// The seconds since the machine was started, which containers see too.
fn uptime() -> u64 {
    let text = std::fs::read_to_string("/proc/uptime").unwrap();
    text.split('.').next().unwrap().parse().unwrap()
}

/// A main that ends at this second of the machine's uptime, or fails when it is told to stop before.
fn main_until(world: &World, second: u64) -> Value {
    let script = format!("trap 'exit 1' TERM; until read up idle < /proc/uptime; test ${{up%.*}} -ge {second}; do sleep 0.1; done");
    container(world, "main", &script)
}

/// A Job whose mains all end at once, when `ends` comes.
async fn create(world: &World, pods: u64, limit: u64, ends: u64) {
    let mut job = job("job", spec("OnFailure", vec![main_until(world, ends), sidecar(world, "log", EXITS_143)]));
    let spec = job["spec"].as_object_mut().unwrap();
    spec.extend(
        [("parallelism", pods), ("completions", pods), ("backoffLimit", limit)].map(|(field, value)| (field.to_owned(), json!(value))),
    );
    world.create_job(job).await;
}

/// As [`create`]; waits until all containers run, which is before the mains end.
async fn running(world: &World, pods: u64, limit: u64) -> Vec<Pod> {
    let ends = uptime() + ALL_RUN;
    create(world, pods, limit, ends).await;
    let all = eventually("all pods to run", || async {
        let all = world.pods().await;
        (all.iter().filter(|pod| running_containers(pod) == 2).count() as u64 == pods).then_some(all)
    })
    .await;
    assert!(uptime() < ends, "the machine is too slow: the mains end one by one");
    all
}

fn statuses(pod: &Pod) -> impl Iterator<Item = &ContainerStatus> {
    pod.status.iter().flat_map(|status| status.container_statuses.iter().flatten())
}

fn running_containers(pod: &Pod) -> usize {
    statuses(pod).filter(|status| status.state.as_ref().is_some_and(|state| state.running.is_some())).count()
}

/// When the main has ended.
fn main_end(pod: &Pod) -> Option<Timestamp> {
    let main = statuses(pod).find(|status| status.name == "main")?;
    main.state.as_ref()?.terminated.as_ref()?.finished_at.as_ref().map(|time| time.0)
}

fn names(pods: &[Pod]) -> Vec<&str> {
    pods.iter().filter_map(|pod| pod.metadata.name.as_deref()).collect()
}

async fn status(world: &World) -> JobStatus {
    world.api::<Job>().get("job").await.unwrap().status.unwrap_or_default()
}

/// The Job is Complete, and no pod has ever failed.
async fn all_succeed(world: &World, pods: i32) {
    world.job_ends("job", "Complete").await;
    let status = status(world).await;
    assert_eq!((status.succeeded, status.failed.unwrap_or_default()), (Some(pods), 0), "{status:?}");
    let phases: Vec<_> = world.pods().await.iter().map(|pod| phase_of(pod).to_owned()).collect();
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
    let events = world.api::<Event>().list(&ListParams::default()).await.unwrap().items;
    let ours = events.into_iter().filter(|event| event.reporting_controller.as_deref() == Some("swaplet.io/controller"));
    let of_job = ours.filter(|event| event.regarding.as_ref().is_some_and(|about| about.kind.as_deref() == Some("Job")));
    of_job.map(|event| (event.reason.unwrap_or_default(), event.note.unwrap_or_default())).collect()
}

/// Somebody in the container sends SIGTERM to its first process.
async fn stop(world: &World, pod: &str, container: &str) {
    let arguments = ["exec", "-n", &world.namespace, pod, "-c", container, "--", "sh", "-c", "kill -TERM 1"];
    let output = Command::new("kubectl").args(arguments).output().await.expect("kubectl");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[tokio::test]
async fn twenty_pods_that_end_at_once_complete_under_the_default_limit() {
    let world = World::new("headroom-20").await;
    let _controller = Controller::start(&world).await;
    running(&world, 20, 6).await;
    all_succeed(&world, 20).await;
    let pods = world.pods().await;
    assert!(spread(&pods) <= AT_ONCE, "the mains ended over {} s", spread(&pods));
    assert_swapped_once(&world.namespace, &names(&pods));
    assert_eq!(told_of_job(&world).await, []);
    world.done().await;
}

/// The case above can tell: who swaps all twenty at once fails the same Job.
#[tokio::test]
async fn a_naive_swap_fails_the_same_job() {
    let world = World::new("headroom-naive").await;
    let pods = running(&world, 20, 6).await;
    join_all(names(&pods).into_iter().map(|name| world.pod_is(name, "done", |pod| main_end(pod).is_some()))).await;
    let (api, params) = (world.api::<Pod>(), PatchParams::default());
    let patch = Patch::Strategic(json!({"spec": {"containers": [{"name": "log", "image": world.images.exit}]}}));
    join_all(names(&pods).into_iter().map(|name| api.patch(name, &params, &patch))).await;
    world.job_ends("job", "Failed").await;
    let reasons = status(&world).await.conditions.unwrap_or_default().into_iter().filter_map(|condition| condition.reason);
    assert!(reasons.collect::<Vec<_>>().contains(&"BackoffLimitExceeded".to_owned()));
    world.done().await;
}

/// Two mains are restarted by the user before they end, and the sidecar of a pod that waits while others are swapped.
#[tokio::test]
async fn restarts_by_the_user_are_counted() {
    let world = World::new("headroom-restarts").await;
    let _controller = Controller::start(&world).await;
    let pods = running(&world, 12, 6).await;
    for name in &names(&pods)[..2] {
        stop(&world, name, "main").await;
    }
    let waits = eventually("a pod to wait while another one is swapped", || async {
        let pods = world.pods().await;
        let swapped = |pod: &&Pod| pod.spec.as_ref().is_some_and(|spec| spec.containers[1].image.as_ref() == Some(&world.images.exit));
        pods.iter().find(swapped)?;
        pods.iter().rev().find(|pod| !swapped(pod)).map(ResourceExt::name_any)
    })
    .await;
    stop(&world, &waits, "log").await;
    all_succeed(&world, 12).await;
    let restarts: i32 =
        world.pods().await.iter().flat_map(|pod| statuses(pod).map(|status| status.restart_count).collect::<Vec<_>>()).sum();
    assert!(restarts >= 14, "the restarts of the user are not there: {restarts}");
    assert_eq!(told_of_job(&world).await, []);
    world.done().await;
}

/// Not one swap fits, so the phase of the pods is written.
#[tokio::test]
async fn twenty_pods_complete_where_no_restart_is_allowed() {
    let world = World::new("headroom-finish").await;
    let _controller = Controller::start(&world).await;
    running(&world, 20, 0).await;
    all_succeed(&world, 20).await;
    assert_eq!((swapped_in(&world.namespace), told_of_job(&world).await), (vec![], vec![]));
    world.done().await;
}

/// Not one swap fits: nothing is touched, one Event says why, and the Job completes as soon as the limit is raised.
#[tokio::test]
async fn the_job_completes_when_the_user_raises_the_limit() {
    let world = World::new("headroom-raise").await;
    let _controller = Controller::start_with(&world, &["--finish", "never"]).await;
    create(&world, 6, 0, uptime() + 10).await;
    is_told_once(&world).await;
    let raise = Patch::Merge(json!({"spec": {"backoffLimit": 2}}));
    world.api::<Job>().patch("job", &PatchParams::default(), &raise).await.expect("a live Job takes another backoffLimit");
    all_succeed(&world, 6).await;
    assert_swapped_once(&world.namespace, &names(&world.pods().await));
    world.done().await;
}

/// The same, and the user ends the sidecars instead.
#[tokio::test]
async fn the_job_completes_when_the_user_ends_the_sidecars() {
    let world = World::new("headroom-by-hand").await;
    let _controller = Controller::start_with(&world, &["--finish", "never"]).await;
    let ends = uptime() + 10;
    let mut job = job("job", spec("OnFailure", vec![main_until(&world, ends), sidecar(&world, "log", EXITS_0)]));
    job["spec"]["parallelism"] = json!(3);
    job["spec"]["completions"] = json!(3);
    job["spec"]["backoffLimit"] = json!(0);
    world.create_job(job).await;
    is_told_once(&world).await;
    for pod in world.pods().await {
        stop(&world, &pod.name_any(), "log").await;
    }
    all_succeed(&world, 3).await;
    assert_swapped_once(&world.namespace, &[]);
    world.done().await;
}

/// All mains have ended, and one Event about the Job is all that was written.
async fn is_told_once(world: &World) {
    let done = |pods: &Vec<Pod>| !pods.is_empty() && pods.iter().all(|pod| main_end(pod).is_some());
    eventually("all mains to end", || async { Some(world.pods().await).filter(done) }).await;
    let told = eventually("an Event", || async { Some(told_of_job(world).await).filter(|told| !told.is_empty()) }).await;
    sleep(Duration::from_secs(5)).await;
    assert_eq!(told_of_job(world).await, told);
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(told[0].0 == "NoHeadroom" && told[0].1.contains("Raise spec.backoffLimit to at least 2"), "{told:?}");
    let written = written_in(&world.namespace);
    assert!(written.iter().all(|write| write.resource == "events") && written.len() == 1, "{written:#?}");
    assert_eq!(status(world).await.failed.unwrap_or_default(), 0);
}
