//! What is told and counted of the end of sidecars, whoever has made them sidecars.

use serde_json::json;

use super::{annotated, apply, install, plain, pod};
use crate::harness::World;
use crate::node::Kubelet;
use crate::objects::{main_container, pod_of, sidecar};

/// Its containers are killed, 7 s after the main containers by its own clock.
const KILLS: Kubelet = Kubelet {
    stop_code: 137,
    pulls: true,
    shows_stop: false,
    clock_ahead: 7,
};

#[tokio::test(start_paused = true)]
async fn the_end_is_told_and_counted_with_method_code_and_seconds_whoever_marks_the_sidecar() {
    for log in [sidecar("log"), plain("log")] {
        let world = World::new();
        install(&world).await;
        apply(&world, "rules", json!([{"name": "log"}])).await;
        world.start_kubelet(KILLS);
        let life = world.start_controller_with_policies(0);
        world
            .run_pod(&pod_of("p", "Never", vec![main_container(), log]))
            .await;
        world.wait(5).await;
        world.ends("p", "main", 0).await;
        world.wait(10).await;
        let told = world.notes("p");
        let reasons: Vec<_> = told.iter().map(|(reason, _)| &**reason).collect();
        assert_eq!(reasons, ["SidecarEnded", "SidecarKilled"]);
        assert_eq!(
            told[0].1,
            "the pod is Succeeded: log ended (exit code 137, method swap), exit image exit code 0; \
             log ended 7 s after the main containers; the pod ended 7 s after them; \
             ended because main containers were done: log (image log:1 -> registry.example/swaplet/exit:v1)"
        );
        assert!(told[1].1.contains("trap 'exit 0' TERM"), "{}", told[1].1);
        let counted = "swaplet_sidecar_ends_total{method=\"swap\",exit_code=\"137\"}";
        assert_eq!(life.sample(counted), Some(1.0));
        for histogram in ["sidecar", "pod"] {
            let name = format!("swaplet_mains_end_to_{histogram}_end_seconds");
            let by = "method=\"swap\",class=\"Kubelet\"";
            let of = |suffix: &str| life.sample(&format!("{name}_{suffix}"));
            assert_eq!(of(&format!("count{{{by}}}")), Some(1.0), "{name}");
            assert_eq!(of(&format!("sum{{{by}}}")), Some(7.0), "{name}");
            let bucket = |le: &str| of(&format!("bucket{{le=\"{le}\",{by}}}"));
            assert_eq!((bucket("5.0"), bucket("10.0")), (Some(0.0), Some(1.0)));
        }
    }
}

/// Nobody claims the end of what ended in its own time.
#[tokio::test(start_paused = true)]
async fn one_that_ended_by_itself_is_counted_without_a_method() {
    let world = World::new();
    world.start_kubelet(Kubelet::default());
    let life = world.start_controller_with_policies(0);
    let annotations =
        json!({"swaplet.io/sidecars": "log,proxy", "swaplet.io/wait-for-exit": "log=60s"});
    world
        .run_pod(&annotated(pod("p", &["log", "proxy"]), annotations))
        .await;
    world.wait(5).await;
    world.ends_now("p", "main", 0).await;
    world.wait(10).await;
    world.ends("p", "log", 0).await;
    world.wait(10).await;
    assert_eq!(world.phase("p"), "Succeeded");
    let ends = |method: &str| {
        let name = "swaplet_sidecar_ends_total";
        life.sample(&format!("{name}{{method=\"{method}\",exit_code=\"0\"}}"))
    };
    assert_eq!(["none", "swap"].map(ends), [Some(1.0), Some(1.0)]);
}
