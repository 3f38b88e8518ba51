//! Exit images that end badly, on kubelets with any crash back-off: the phase is written after the
//! second time, and no pod ends Failed.

mod long {
    use k8s_openapi::api::batch::v1::Job;
    use k8s_openapi::api::core::v1::Pod;
    use kube::{Api, ResourceExt as _};
    use serde_json::{Value, json};
    use swaplet_core::objects::values::env::WITH_IMAGE;

    use crate::audit::written_in;
    use crate::controller::{Controller, Why};
    use crate::finish::Phases;
    use crate::images::{push_image, work_config, work_layer};
    use crate::kubelet::BackOff;
    use crate::pods::{EXITS_143, container, job, main_ok, pod, sidecar, spec, status_of};
    use crate::world::{World, phase_of, variable};

    /// Pods of each kind of exit image at once.
    const PODS: usize = 8;
    /// Exit images whose program ends badly, or is not there.
    const KINDS: [(&str, &[&str]); 2] = [
        ("fails", &["/bin/sh", "-c", "exit 3"]),
        ("absent", &["/absent"]),
    ];

    /// The phase is written when the status has not changed for a second, and a kubelet may start it
    /// once more by then where that is its longest back-off, and again where it takes the phase back.
    const MOST_STARTS: i32 = 4;

    /// What is known of one exit image counts for all pods of a namespace, so each has its own.
    async fn push(name: &str, entrypoint: &[&str]) -> String {
        let registry = variable("SWAPLET_E2E_REGISTRY");
        let reference = format!("{registry}/e2e/broken-{name}:v1");
        let layer = work_layer();
        let mut config: Value = serde_json::from_str(&work_config(&layer, &reference)).unwrap();
        config["config"]["Entrypoint"] = json!(entrypoint);
        push_image(&registry, &reference, layer, config.to_string()).await;
        reference
    }

    /// A Job of one pod whose sidecar asks for that exit image.
    async fn begin(world: &World, name: &str, entrypoint: &[&str]) {
        let mut log = sidecar(world, "log", EXITS_143);
        let asks = json!({"name": WITH_IMAGE, "value": push(name, entrypoint).await});
        log["env"].as_array_mut().unwrap().push(asks);
        let spec = spec("OnFailure", vec![main_ok(world), log]);
        world.create_job(job(name, spec)).await;
    }

    /// The kubelet does as it was told: this one has crashed often enough for any longer back-off.
    async fn is_in_force(world: &World, period: &str) {
        let crashing = vec![container(world, "app", "exit 1")];
        world
            .create_pod(pod("crashes", spec("OnFailure", crashing)))
            .await;
        let wait = format!("back-off {period} ");
        let waits = |pod: &Pod| {
            let Some(status) = status_of(pod, "app") else {
                return false;
            };
            let state = status.state.as_ref();
            let waiting = state.and_then(|state| state.waiting.as_ref());
            let message = waiting.and_then(|waiting| waiting.message.as_deref());
            status.restart_count >= 4 && message.is_some_and(|message| message.starts_with(&wait))
        };
        world.pod_is("crashes", &wait, waits).await;
    }

    /// The starts of the exit image in each pod, when all Jobs have succeeded.
    async fn starts(world: &World) -> Vec<i32> {
        let jobs: Api<Job> = world.api();
        let mut starts = Vec::new();
        for (kind, _) in KINDS {
            for nth in 0..PODS {
                let name = format!("{kind}-{nth}");
                world.job_ends(&name, "Complete").await;
                let status = jobs.get(&name).await.unwrap().status.unwrap();
                assert_eq!(status.failed.unwrap_or_default(), 0, "{name}");
            }
        }
        let pods = world.pods().await.into_iter();
        for pod in pods.filter(|pod| pod.name_any() != "crashes") {
            assert_eq!(phase_of(&pod), "Succeeded");
            let restarts = |name| status_of(&pod, name).unwrap().restart_count;
            assert_eq!(restarts("main"), 0);
            starts.push(restarts("log"));
        }
        assert_eq!(starts.len(), KINDS.len() * PODS, "no main has run twice");
        starts
    }

    async fn gives_way(period: &'static str) {
        let world = World::without_leash(&format!("back-off-{period}")).await;
        let _back_off = BackOff::at_most(period);
        let listed = format!("{}/e2e/broken-*:v1", variable("SWAPLET_E2E_REGISTRY"));
        let flags = ["--exit-images", &listed];
        let _controller = Controller::process(&world, &flags, Why::NotByTheChart).await;
        let (phases, recorder) = Phases::record(&world);
        is_in_force(&world, period).await;
        for (kind, entrypoint) in KINDS {
            for nth in 0..PODS {
                begin(&world, &format!("{kind}-{nth}"), entrypoint).await;
            }
        }
        let starts = starts(&world).await;
        let (taken_back, failed) = phases.tally();
        let writes = written_in(&world.namespace);
        let writes = writes.iter().filter(|write| write.is_applied_finish());
        println!(
            "back-off of {period}: starts {starts:?}, {} writes, {taken_back} taken back, {failed} Failed",
            writes.count()
        );
        assert_eq!(failed, 0);
        assert!(
            starts.iter().all(|starts| *starts <= MOST_STARTS),
            "{starts:?}"
        );
        recorder.abort();
        world.done().await;
    }

    /// A kubelet may be told so since 1.35.
    #[tokio::test(flavor = "multi_thread")]
    async fn t3_an_exit_image_that_ends_badly_twice_gives_way_to_the_phase() {
        for period in ["1s", "5s", "10s"] {
            gives_way(period).await;
        }
    }
}
