//! The phase of pods is written on a real kubelet, under load: no pod whose main containers
//! succeeded may end Failed. The kubelet writes the status too, so there are two sides to show:
//! that the naive write loses that race, and that ours does not.

mod back_off;
mod doubtful;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use futures::StreamExt as _;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{DeleteParams, Patch, PatchParams};
use kube::runtime::WatchStreamExt as _;
use kube::runtime::watcher::{Config, watcher};
use kube::{Api, ResourceExt as _};
use serde_json::{Value, json};
use swaplet_core::objects::values::env::IGNORE_EXIT_CODE;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::audit::written_in;
use crate::controller::Controller;
use crate::pods::{
    EXITS_143, container, job, main_has_ended, main_ok, pod, sidecar, spec, status_of,
};
use crate::world::{World, eventually, phase_of};

/// Half of a batch: the pods of one Job.
const HALF: usize = 8;
/// Batches of 16 pods: 64 of them.
const BATCHES: usize = 4;
/// The naive write shows the race in the first batch, as a rule; a node without any load may need
/// more.
const NAIVE_BATCHES: usize = 8;

/// The phases that each pod of a namespace has gone through.
#[derive(Clone, Default)]
struct Phases(Arc<Mutex<BTreeMap<String, Vec<String>>>>);

impl Phases {
    fn record(world: &World) -> (Self, JoinHandle<()>) {
        let phases = Self::default();
        let (record, api) = (phases.clone(), world.api::<Pod>());
        let task = tokio::spawn(async move {
            let mut pods = watcher(api, Config::default())
                .default_backoff()
                .applied_objects()
                .boxed();
            while let Some(pod) = pods.next().await {
                if let Ok(pod) = pod {
                    record.see(&pod);
                }
            }
        });
        (phases, task)
    }

    /// What a node makes of a pod that somebody deletes before the phase is written is not seen: under
    /// load the Job controller has deleted pods whose sidecars ran, which ended Failed by that.
    fn see(&self, pod: &Pod) {
        if pod.metadata.deletion_timestamp.is_some() && !phase_was_written(pod) {
            return;
        }
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let seen = all.entry(pod.name_any()).or_default();
        if seen.last().map(String::as_str) != Some(phase_of(pod)) {
            seen.push(phase_of(pod).to_owned());
        }
    }

    /// How many pods had a final phase taken back, and how many have been Failed.
    fn tally(&self) -> (usize, usize) {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let taken_back = |seen: &&Vec<String>| {
            seen.windows(2)
                .any(|two| two[0] == "Succeeded" && two[1] != "Succeeded")
        };
        let failed = |seen: &&Vec<String>| seen.iter().any(|phase| phase == "Failed");
        (
            all.values().filter(taken_back).count(),
            all.values().filter(failed).count(),
        )
    }
}

/// By its condition, which stays where the kubelet takes the phase back.
fn phase_was_written(pod: &Pod) -> bool {
    let status = pod.status.iter();
    let mut conditions = status.flat_map(|status| status.conditions.iter().flatten());
    conditions.any(|condition| condition.type_ == "SidecarTerminated")
}

/// A Job of pods that all run at once; one failure fails it.
fn batch_job(world: &World, name: &str, policy: &str) -> Value {
    let mut spec = spec(
        policy,
        vec![
            container(world, "main", "sleep 1"),
            sidecar(world, "log", EXITS_143),
        ],
    );
    spec["nodeName"] = crate::world::variable("SWAPLET_E2E_NODE").into();
    let mut job = job(name, spec);
    job["spec"]["backoffLimit"] = 0.into();
    for count in ["parallelism", "completions"] {
        job["spec"][count] = HALF.into();
    }
    job
}

async fn mains_are_done(world: &World, job: &str) {
    let pods: Api<Pod> = world.api();
    let of_job = kube::api::ListParams::default().labels(&format!("job-name={job}"));
    eventually(&format!("the main containers of {job} to end"), || async {
        let listed = pods.list(&of_job).await.unwrap();
        (listed.items.len() == HALF && listed.iter().all(main_has_ended)).then_some(())
    })
    .await;
}

/// Two Jobs at a time, and the next two start while the pods of the last two are finished.
async fn no_pod_ends_failed(case: &str, batches: usize) {
    let world = World::new(case).await;
    let _controller = Controller::start_with(&world, &["--prefer", "finish"]).await;
    let (phases, recorder) = Phases::record(&world);
    let start = Instant::now();
    let jobs: Vec<_> = (0..batches)
        .map(|batch| {
            [
                ("Never", format!("never-{batch}")),
                ("OnFailure", format!("onfailure-{batch}")),
            ]
        })
        .collect();
    for batch in &jobs {
        for (policy, name) in batch {
            world.create_job(batch_job(&world, name, policy)).await;
        }
        for (_, name) in batch {
            mains_are_done(&world, name).await;
        }
    }
    for (_, name) in jobs.iter().flatten() {
        world.job_ends(name, "Complete").await;
        let status = world.api::<Job>().get(name).await.unwrap().status.unwrap();
        assert_eq!(
            (status.succeeded, status.failed.unwrap_or_default()),
            (Some(i32::try_from(HALF).unwrap()), 0),
            "{name}"
        );
    }
    let (taken_back, failed) = phases.tally();
    let written = written_in(&world.namespace)
        .iter()
        .filter(|write| write.is_applied_finish())
        .count();
    let pods = batches * HALF * 2;
    println!(
        "finish: {pods} pods, {written} writes, {taken_back} taken back, {failed} Failed, {} s",
        start.elapsed().as_secs()
    );
    assert_eq!(
        failed, 0,
        "pods whose main containers succeeded ended Failed"
    );
    assert!(
        world
            .pods()
            .await
            .iter()
            .all(|pod| phase_of(pod) == "Succeeded")
    );
    recorder.abort();
    world.done().await;
}

#[tokio::test]
async fn no_pod_whose_mains_succeeded_ends_failed_by_the_phase() {
    no_pod_ends_failed("finish", BATCHES).await;
}

/// Under `Never` the kubelet would judge the pod by it when the last other container has ended: so the
/// phase ends all of them.
#[tokio::test]
async fn a_sidecar_whose_exit_code_is_ignored_under_never_has_the_pod_ended_by_the_phase() {
    let world = World::new("finish-ignore").await;
    let _controller = Controller::start(&world).await;
    let mut proxy = sidecar(&world, "proxy", EXITS_143);
    proxy["env"]
        .as_array_mut()
        .unwrap()
        .push(json!({"name": IGNORE_EXIT_CODE, "value": "True"}));
    world
        .create_pod(pod(
            "both",
            spec(
                "Never",
                vec![main_ok(&world), sidecar(&world, "log", EXITS_143), proxy],
            ),
        ))
        .await;
    let ended = |pod: &Pod| {
        phase_of(pod) == "Succeeded"
            && status_of(pod, "proxy")
                .unwrap()
                .state
                .as_ref()
                .is_some_and(|s| s.terminated.is_some())
    };
    let pod = world.pod_is("both", "ended", ended).await;
    let proxy = status_of(&pod, "proxy").unwrap();
    assert_eq!(
        proxy
            .state
            .as_ref()
            .unwrap()
            .terminated
            .as_ref()
            .unwrap()
            .exit_code,
        143
    );
    assert_eq!(
        (proxy.restart_count, proxy.image.contains("/e2e/work")),
        (0, true),
        "{proxy:?}"
    );
    assert_eq!(status_of(&pod, "log").unwrap().restart_count, 0);
    assert_eq!(
        world.events_of("both", 2).await,
        ["PhaseWritten", "SidecarEnded"]
    );
    world.done().await;
}

/// It has never run; the phase releases the pod from Pending.
#[tokio::test]
async fn a_sidecar_whose_image_cannot_be_pulled_is_ended_by_the_phase() {
    let world = World::new("finish-pull").await;
    let _controller = Controller::start_with(&world, &["--prefer", "finish"]).await;
    for policy in ["Never", "OnFailure"] {
        let mut log = sidecar(&world, "log", EXITS_143);
        log["image"] = json!(world.images.missing);
        world
            .create_pod(pod(
                &policy.to_lowercase(),
                spec(policy, vec![main_ok(&world), log]),
            ))
            .await;
    }
    for name in ["never", "onfailure"] {
        world.pod_ends(name, "Succeeded").await;
    }
    // Long enough for two comparisons of the kubelet.
    tokio::time::sleep(std::time::Duration::from_secs(25)).await;
    assert_eq!(
        world.pods().await.iter().map(phase_of).collect::<Vec<_>>(),
        ["Succeeded", "Succeeded"]
    );
    world.done().await;
}

/// The main containers end one after another, so that some end just before the kubelet compares
/// statuses, which it does every 10 s.
async fn naive_batch(world: &World, batch: usize) {
    let mut names = Vec::new();
    for nth in 0..2 * HALF {
        let name = format!("naive-{batch}-{nth}");
        let policy = if nth % 2 == 0 { "Never" } else { "OnFailure" };
        let main = container(world, "main", &format!("sleep {}", 2 + nth * 5 / 8));
        let mut spec = spec(policy, vec![main, sidecar(world, "log", EXITS_143)]);
        spec["nodeName"] = crate::world::variable("SWAPLET_E2E_NODE").into();
        world.create_pod(pod(&name, spec)).await;
        names.push(name);
    }
    futures::future::join_all(names.iter().map(|name| finish_naively(world, name))).await;
    let ended = |pod: &Pod| {
        let mut statuses = pod
            .status
            .iter()
            .flat_map(|status| status.container_statuses.iter().flatten());
        matches!(phase_of(pod), "Succeeded" | "Failed")
            && statuses.all(|s| s.state.as_ref().is_some_and(|s| s.terminated.is_some()))
    };
    for name in &names {
        world.pod_is(name, "ended for good", ended).await;
        let _ = world
            .api::<Pod>()
            .delete(name, &DeleteParams::default().grace_period(0))
            .await;
    }
}

/// As in `docs/measured.md`, "The phase against the kubelet's own writes": the status, and at once
/// the nudge as a write of its own.
async fn finish_naively(world: &World, name: &str) {
    world
        .pod_is(name, "done but for its sidecar", main_has_ended)
        .await;
    let (pods, params) = (world.api::<Pod>(), PatchParams::default());
    pods.patch_status(
        name,
        &params,
        &Patch::Merge(json!({"status": {"phase": "Succeeded"}})),
    )
    .await
    .unwrap();
    pods.patch(
        name,
        &params,
        &Patch::Merge(json!({"metadata": {"annotations": {"nudge": "1"}}})),
    )
    .await
    .unwrap();
}

mod long {
    use super::*;

    /// 304 pods.
    #[tokio::test]
    async fn no_pod_of_hundreds_whose_mains_succeeded_ends_failed_by_the_phase() {
        no_pod_ends_failed("finish-many", 19).await;
    }

    /// The first test can tell: written at once and not again, a kubelet takes the phase back.
    #[tokio::test]
    async fn the_naive_write_of_the_phase_is_taken_back() {
        let world = World::new("finish-naive").await;
        let (phases, recorder) = Phases::record(&world);
        let mut tally = (0, 0);
        let mut batches = 0;
        while tally == (0, 0) && batches < NAIVE_BATCHES {
            naive_batch(&world, batches).await;
            batches += 1;
            tally = phases.tally();
        }
        println!(
            "naive: {} pods, {} taken back, {} Failed",
            batches * HALF * 2,
            tally.0,
            tally.1
        );
        assert_ne!(
            tally,
            (0, 0),
            "{batches} batches without a sign of the race: the other case proves nothing"
        );
        recorder.abort();
        world.done().await;
    }
}
