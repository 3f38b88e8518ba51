//! Sidecars on a real kubelet that a policy of the API server has injected, or that policies let
//! flush, wait and hang.

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::events::v1::Event;
use kube::Api;
use kube::api::{ListParams, PostParams};
use serde_json::{Value, json};

use super::{COLLECTOR, PROXY, crds_are_there, labelled};
use crate::audit::swapped_in;
use crate::controller::Controller;
use crate::of_cluster::OfCluster;
use crate::pods::{EXITS_0, EXITS_143, container, job, main_has_ended, main_ok, pod, spec};
use crate::version::has_mutating_policies;
use crate::world::{World, eventually, kubectl};

/// What stops only when it has uploaded the rest, and says so.
const UPLOADS: &str = "trap 'sleep 2; echo rest \\\"uploaded\\\"; exit 0' TERM; sleep 3600 & wait";
/// What hangs until it is told to stop.
const HANGS: &str = "trap 'echo stopped; exit 143' TERM; sleep 3600 & wait";
/// What ends by itself 5 s after the main container has, which says so.
const FLUSHES: &str = "until test -e /shared/done; do sleep 1; done; sleep 5";

/// A policy by which the API server changes objects, behind its binding.
pub const MUTATING: [&str; 2] = ["mutatingadmissionpolicybinding", "mutatingadmissionpolicy"];
/// The label of pods that get a proxy.
const INJECT: &str = "sidecar.istio.io/inject";

/// Has the API server put a proxy into pods with this label, as meshes do by their
/// webhooks, and waits until it does. `None` where it does not change objects by policies.
pub async fn inject(world: &World) -> Option<OfCluster> {
    if !has_mutating_policies(world).await {
        return None;
    }
    let namespace = &world.namespace;
    let goes = OfCluster::new(&MUTATING, namespace);
    let expression = format!(
        r#"[JSONPatch{{op: "add", path: "/spec/containers/-", value: Object.spec.containers{{name: "{PROXY}", image: "{}", args: ["{EXITS_0}"]}}}}]"#,
        world.images.work
    );
    let version = "admissionregistration.k8s.io/v1";
    let policy = json!({"apiVersion": version, "kind": "MutatingAdmissionPolicy", "metadata": {"name": namespace}, "spec": {
        "failurePolicy": "Fail", "reinvocationPolicy": "Never",
        "matchConstraints": {
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
            "objectSelector": {"matchLabels": {INJECT: "true"}},
            "resourceRules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}],
        },
        "mutations": [{"patchType": "JSONPatch", "jsonPatch": {"expression": expression}}],
    }});
    let binding = json!({"apiVersion": version, "kind": "MutatingAdmissionPolicyBinding",
        "metadata": {"name": namespace}, "spec": {"policyName": namespace}});
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("inject.json");
    let list = json!({"apiVersion": "v1", "kind": "List", "items": [policy, binding]});
    std::fs::write(&file, list.to_string()).unwrap();
    kubectl(&["create", "-f", file.to_str().unwrap()]).await;
    let tried = pod("tried", spec("Never", vec![main_ok(world)]));
    let tried: Pod = serde_json::from_value(to_be_injected(tried)).unwrap();
    let params = PostParams {
        dry_run: true,
        ..PostParams::default()
    };
    let pods: Api<Pod> = world.api();
    eventually("pods to be injected", || async {
        let made = pods.create(&params, &tried).await.unwrap();
        (made.spec.unwrap().containers.len() == 2).then_some(())
    })
    .await;
    Some(goes)
}

fn to_be_injected(mut object: Value) -> Value {
    let labels = json!({INJECT: "true"});
    if object["kind"] == "Job" {
        object["spec"]["template"]["metadata"]["labels"] = labels;
    } else {
        object["metadata"]["labels"] = labels;
    }
    object
}

impl World {
    /// What a webhook makes of a Job.
    fn injected(&self, mut job: Value) -> Value {
        let containers = &mut job["spec"]["template"]["spec"]["containers"];
        let proxy = container(self, PROXY, EXITS_0);
        containers.as_array_mut().unwrap().push(proxy);
        job
    }

    async fn policies_are_there(&self) -> OfCluster {
        let of_cluster = self
            .cluster_policy(json!([{"preset": "fluent-bit"}, {"preset": "istio", "order": 1}]))
            .await;
        let waits = |seconds: u32| json!([{"name": COLLECTOR, "waitForExit": {"deadlineSeconds": seconds}}]);
        // Far more than it takes on a busy node.
        self.policy("flushes", waits(600)).await;
        self.policy("hangs", waits(15)).await;
        self.policy("delayed", json!([{"name": COLLECTOR, "delaySeconds": 50}]))
            .await;
        self.policy("finished", json!([{"name": COLLECTOR, "method": "Finish"}]))
            .await;
        self.policy("unlisted", json!([{"name": "collector"}]))
            .await;
        of_cluster
    }

    /// A main container that takes 2 s, and one that nobody has marked.
    fn beside_main(&self, name: &str, script: &str) -> Value {
        spec("Never", vec![main_ok(self), container(self, name, script)])
    }

    /// The same of a sidecar that flushes.
    fn beside_main_that_says_so(&self) -> Value {
        let mount = json!([{"name": "shared", "mountPath": "/shared"}]);
        let mut containers = vec![
            container(self, "main", "sleep 2; touch /shared/done"),
            container(self, COLLECTOR, FLUSHES),
        ];
        for container in &mut containers {
            container["volumeMounts"] = mount.clone();
        }
        let mut spec = spec("Never", containers);
        spec["volumes"] = json!([{"name": "shared", "emptyDir": {}}]);
        spec
    }

    /// The words of our Event about a pod.
    async fn note_of(&self, pod: &str, reason: &str) -> String {
        let events: Api<Event> = self.api();
        eventually(&format!("{reason} of {pod}"), || async {
            let all = events.list(&ListParams::default()).await.unwrap();
            let is_it = |event: &Event| {
                event.reason.as_deref() == Some(reason)
                    && event.regarding.as_ref().and_then(|of| of.name.as_deref()) == Some(pod)
            };
            all.items.into_iter().find(is_it)?.note
        })
        .await
    }

    /// A pod for the policy of its name whose sidecar hangs.
    async fn hangs(&self, name: &str, sidecar: &str) {
        let made = pod(name, self.beside_main(sidecar, HANGS));
        self.create_pod(labelled(made, name)).await;
    }

    async fn pod_of_job(&self, name: &str) -> Pod {
        let mut pods = self.pods().await;
        let label = Some(name.to_owned());
        pods.retain(|pod| {
            let labels = pod.metadata.labels.as_ref();
            labels.and_then(|labels| labels.get("batch.kubernetes.io/job-name").cloned()) == label
        });
        assert_eq!(pods.len(), 1, "{name}");
        pods.remove(0)
    }
}

/// A flush that ends in time ends by itself, and one that hangs is ended at its deadline.
async fn assert_waits_for_exit(world: &World) {
    world.job_ends("flushes", "Complete").await;
    world.assert_ended_by_itself(&world.pod_of_job("flushes").await);
    let pod = world.pod_ends("hangs", "Succeeded").await;
    world.assert_ended_after(&pod, 15);
}

#[tokio::test]
async fn policies_end_what_is_injected_in_order_and_in_time_whoever_leads() {
    const FLAGS: &[&str] = &["--sidecar-policies"];
    crds_are_there().await;
    let world = World::new("policies").await;
    let injects = inject(&world).await;
    let _of_cluster = world.policies_are_there().await;
    let controller = Controller::start_with(&world, FLAGS).await;
    let mut injected = job("injected", world.beside_main(COLLECTOR, UPLOADS));
    if injects.is_none() {
        injected = world.injected(injected);
    }
    world.create_job(to_be_injected(injected)).await;
    let flushes = job("flushes", world.beside_main_that_says_so());
    world.create_job(labelled(flushes, "flushes")).await;
    for (name, sidecar) in [("hangs", COLLECTOR), ("unlisted", "collector")] {
        world.hangs(name, sidecar).await;
    }
    world.job_ends("injected", "Complete").await;
    world.assert_in_order(&world.pod_of_job("injected").await);
    assert_waits_for_exit(&world).await;
    // A leader that is killed between the end of a pod and its Event does not tell it, and no other
    // does.
    for pod in [
        &world.pod_of_job("injected").await.metadata.name.unwrap(),
        "hangs",
    ] {
        world.note_of(pod, "SidecarEnded").await;
    }

    // The leader is killed in its delay.
    world.hangs("delayed", COLLECTOR).await;
    world
        .pod_is("delayed", "without its main", main_has_ended)
        .await;
    let _controller = controller.killed(&world, FLAGS).await;
    let delayed = world.pod_ends("delayed", "Succeeded").await;
    world.assert_ended_after(&delayed, 50);

    // What nobody has listed or opted in the API server does not let end, whatever policies say.
    let told = world.events_of("unlisted", 1).await;
    assert!(
        told.iter().all(|reason| reason == "WriteDenied"),
        "{told:?}"
    );
    let unlisted = world.pod_is("unlisted", "there", |_| true).await;
    assert_eq!(
        unlisted.spec.unwrap().containers[1].image.as_deref(),
        Some(&*world.images.work)
    );
    let mut expected = vec![world.pod_of_job("injected").await.metadata.name.unwrap()];
    expected.extend([
        "hangs".to_owned(),
        "delayed".to_owned(),
        expected[0].clone(),
    ]);
    expected.sort();
    assert_eq!(swapped_in(&world.namespace), expected);
    // What the first leader counted in its last seconds died with it.
    eventually("the policy to count what it has ended", || async {
        let policy = world.namespaced_policies().get("delayed").await.unwrap();
        (policy.data["status"]["ended"] == 1 && policy.data["status"]["matched"] == 0).then_some(())
    })
    .await;
    world.done().await;
}

/// By its size; policies end single pods of Jobs every day.
mod long {
    use std::time::Duration;

    use k8s_openapi::api::batch::v1::{CronJob, Job};
    use kube::api::{Patch, PatchParams};
    use tokio::time::sleep;

    use super::*;

    const MINUTES: usize = 10;

    #[tokio::test]
    async fn a_cron_job_each_minute_leaves_no_active_job() {
        crds_are_there().await;
        let world = World::new("policies-cron").await;
        world
            .policy("cron", json!([{"preset": "fluent-bit"}]))
            .await;
        let _controller = Controller::start_with(&world, &["--sidecar-policies"]).await;
        let template = labelled(job("", world.beside_main(COLLECTOR, EXITS_143)), "cron");
        let cron = json!({"apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": "cron"}, "spec": {
            "schedule": "* * * * *", "concurrencyPolicy": "Forbid", "successfulJobsHistoryLimit": 20,
            "jobTemplate": {"spec": template["spec"]}}});
        let crons: Api<CronJob> = world.api();
        let cron: CronJob = serde_json::from_value(cron).unwrap();
        crons.create(&PostParams::default(), &cron).await.unwrap();
        sleep(Duration::from_secs(60) * u32::try_from(MINUTES).unwrap()).await;
        let pause = Patch::Merge(json!({"spec": {"suspend": true}}));
        crons
            .patch("cron", &PatchParams::default(), &pause)
            .await
            .unwrap();
        let ended = eventually("no Job to be active", || async {
            let jobs = world
                .api::<Job>()
                .list(&ListParams::default())
                .await
                .unwrap()
                .items;
            let succeeded = |job: &Job| {
                job.status
                    .as_ref()
                    .is_some_and(|status| status.succeeded == Some(1))
            };
            jobs.iter().all(succeeded).then_some(jobs.len())
        })
        .await;
        assert!(ended >= MINUTES - 1, "{ended} Jobs");
        assert_eq!(
            swapped_in(&world.namespace).len(),
            ended,
            "each by one patch"
        );
        world.done().await;
    }
}
