//! What is told and counted of the end of sidecars, whoever has made them sidecars.

use serde_json::json;
use swaplet_testbed::apiserver::Effect;

use super::{annotated, apply, install, plain, pod, status};
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

/// To the admission policies a container that a policy leaves to run is a main container, unless it
/// is opened there.
#[tokio::test(start_paused = true)]
async fn t4_a_denial_beside_a_container_that_is_left_to_run_names_it_and_the_value() {
    let words = "main containers are done, and here these are not: agent";
    let world = World::new();
    install(&world).await;
    let leave = json!([{"name": "agent", "method": "Leave"}]);
    apply(&world, "rules", leave).await;
    let _life = world.start_controller_with_policies(0);
    let containers = vec![main_container(), plain("agent"), sidecar("log")];
    world.run_pod(&pod_of("p", "Never", containers)).await;
    world.patch_fault(Effect::reply(422).message(words));
    world.wait(30).await;
    world.ends("p", "main", 0).await;
    world.wait(60).await;
    let notes = world.notes("p");
    let told = |note: &str| {
        note.contains(words) && note.contains("name agent in the value sidecarPolicies.containers")
    };
    assert!(
        !notes.is_empty() && notes.iter().all(|(_, note)| told(note)),
        "{notes:?}"
    );
}

/// The message of the API server names one of two containers; the other one only waits with it.
#[tokio::test(start_paused = true)]
async fn b5_a_denial_names_the_container_that_is_not_open_and_the_policy_says_so() {
    let words = "pods \"p\" is forbidden: ValidatingAdmissionPolicy 'swaplet-leash-pods' with binding 'swaplet-leash-pods' denied request: \
        an exit image is for sidecars that their owner has marked, not for my-agent";
    let world = World::new();
    install(&world).await;
    let rules = json!([{"name": "fluent-bit"}, {"name": "my-agent"}]);
    apply(&world, "rules", rules).await;
    let _life = world.start_controller_with_policies(0);
    world.run_pod(&pod("p", &["fluent-bit", "my-agent"])).await;
    world.patch_fault(Effect::reply(422).message(words));
    world.wait(5).await;
    world.ends("p", "main", 0).await;
    world.wait(90).await;
    let notes = world.notes("p");
    assert!(
        notes[0].0 == "WriteDenied"
            && notes[0]
                .1
                .contains("name my-agent in the value sidecarPolicies.containers")
            && notes[0]
                .1
                .contains("the other sidecars of the pod are not swapped either"),
        "{notes:?}"
    );
    assert!(!notes[0].1.contains("grant patch"), "{notes:?}");
    let refused = json!([{"reason": "WriteDenied", "count": 1}]);
    assert_eq!(status(&world)["refused"], refused, "{:?}", status(&world));
}

/// Not every policy is swaplet's: what its own would be opened with is no advice then.
#[tokio::test(start_paused = true)]
async fn a_denial_by_another_policy_names_it_and_what_to_change() {
    let words = "pods \"p\" is forbidden: ValidatingAdmissionPolicy 'registries' with binding 'registries' denied request: \
        images of my-agent must come from registry.corp";
    let world = World::new();
    install(&world).await;
    let rules = json!([{"name": "fluent-bit"}, {"name": "my-agent"}]);
    apply(&world, "rules", rules).await;
    let _life = world.start_controller_with_policies(0);
    world.run_pod(&pod("p", &["fluent-bit", "my-agent"])).await;
    world.patch_fault(Effect::reply(422).message(words));
    world.wait(5).await;
    world.ends("p", "main", 0).await;
    world.wait(90).await;
    let advice = "(let ValidatingAdmissionPolicy registries allow registry.example/swaplet/exit:v1 for my-agent, \
        or exempt the account of swaplet from it; until then the other sidecars of the pod are not swapped either)";
    let note = format!("the API server forbids to change the image of my-agent: {words} {advice}");
    assert_eq!(world.notes("p")[0], ("WriteDenied".to_owned(), note));
}

/// The phase ends all of them or none.
#[tokio::test(start_paused = true)]
async fn b5_a_denial_of_the_phase_says_that_nothing_of_the_pod_is_ended() {
    let words = "main containers are done, and here these are not: my-agent";
    let world = World::new();
    install(&world).await;
    let rules = json!([{"name": "fluent-bit", "method": "Finish"}, {"name": "my-agent", "method": "Finish"}]);
    apply(&world, "rules", rules).await;
    let _life = world.start_with_policies(0, true);
    world.run_pod(&pod("p", &["fluent-bit", "my-agent"])).await;
    world.patch_fault(Effect::reply(422).message(words));
    world.wait(5).await;
    world.ends("p", "main", 0).await;
    world.wait(90).await;
    let notes = world.notes("p");
    let told = |note: &str| {
        note.contains("name my-agent in the value")
            && note.contains("until then no sidecar of the pod is ended")
    };
    assert!(notes.iter().any(|(_, note)| told(note)), "{notes:?}");
}

/// What is missing is the right.
#[tokio::test(start_paused = true)]
async fn b5_a_missing_right_is_not_taken_for_an_admission_policy() {
    let words = "pods \"p\" is forbidden: User \"swaplet\" cannot patch resource \"pods\" in API group \"\" in the namespace \"default\"";
    let world = World::new();
    install(&world).await;
    apply(&world, "rules", json!([{"name": "log"}])).await;
    let _life = world.start_controller_with_policies(0);
    world.run_pod(&pod("p", &["log"])).await;
    world.patch_fault(Effect::reply(403).message(words));
    world.wait(5).await;
    world.ends("p", "main", 0).await;
    world.wait(90).await;
    let notes = world.notes("p");
    assert!(
        notes[0].0 == "WriteDenied" && !notes[0].1.contains("sidecarPolicies.containers"),
        "{notes:?}"
    );
}
