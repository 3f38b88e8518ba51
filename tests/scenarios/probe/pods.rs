//! The pods of a probe: what they are like, and that none of them stays.

use std::sync::Mutex;
use std::time::Duration;

use serde_json::json;
use swaplet_controller::terminate::probe::{Stopped, Way};
use swaplet_testbed::apiserver::{Effect, Recorded, Verb};
use swaplet_testbed::virtual_node::{NodeOptions, Profile};
use tokio::sync::watch;
use tokio::time::sleep;

use super::{Bed, WORKS, answers, stopped};
use crate::harness::{SWAPLET, World};

#[tokio::test(start_paused = true)]
async fn the_pods_are_small_restricted_unmarked_and_end_by_themselves() {
    let bed = Bed::with(Profile::kubelet()).await;
    bed.run().await;
    let created = bed.requests(Verb::Create);
    assert_eq!(created.len(), 3);
    for pod in created {
        let spec = &pod["spec"];
        assert_eq!(
            (
                &spec["nodeName"],
                &spec["tolerations"],
                &spec["activeDeadlineSeconds"]
            ),
            (&json!("n"), &json!([{"operator": "Exists"}]), &json!(300))
        );
        assert_eq!(spec["securityContext"]["runAsNonRoot"], true);
        for container in spec["containers"].as_array().unwrap() {
            assert!(
                container["env"].is_null() && container["resources"]["limits"].is_object(),
                "{container}"
            );
            assert_eq!(
                container["securityContext"]["capabilities"]["drop"],
                json!(["ALL"])
            );
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_controller_beside_it_leaves_the_pods_alone() {
    let world = World::new();
    let bed = Bed::at(
        world.server.clone(),
        NodeOptions::new("n", Profile::kubelet()),
    )
    .await;
    let _life = world.start_controller_that_may_finish();
    let (probed, _) = bed.run().await;
    assert_eq!(answers(&probed), [WORKS, WORKS, WORKS]);
    let writes = |request: &Recorded| {
        request.user_agent == SWAPLET && !matches!(request.verb, Verb::List | Verb::Watch)
    };
    assert_eq!(
        world
            .server
            .recorded()
            .iter()
            .filter(|request| writes(request))
            .count(),
        0
    );
}

/// At every moment of its life.
#[tokio::test(start_paused = true)]
async fn an_interrupted_probe_leaves_nothing_behind() {
    for after in (0..50_000).step_by(3700) {
        let bed = Bed::with(Profile::kubelet()).await;
        let (interrupter, interrupt) = watch::channel(false);
        let told = Mutex::new(Vec::new());
        let probe = bed.probe();
        let tell = |line| told.lock().unwrap().push(line);
        let stop = async {
            sleep(Duration::from_millis(after)).await;
            interrupter.send_replace(true);
        };
        let (probed, ()) = tokio::join!(probe.run(interrupt, &tell), stop);
        bed.assert_clean();
        let over = probed.tried.len() == Way::ALL.len();
        assert!(
            over || matches!(probed.stopped, Some(Stopped::Interrupted)),
            "after {after} ms: {probed:?}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_cannot_be_deleted_is_named() {
    let bed = Bed::with(Profile::kubelet()).await;
    bed.fault(Effect::reply(403), |rule| rule.verb(Verb::Delete));
    let (_keep, interrupt) = watch::channel(false);
    let probed = bed.probe().run(interrupt, &|_| {}).await;
    assert_eq!(probed.left.len(), 3, "{probed:?}");
    assert!(
        probed.left[0].contains("pod default/swaplet-probe-id-swap-onfailure is still there"),
        "{:?}",
        probed.left
    );
}

/// An answer that is lost tells nothing: the pod may be there.
#[tokio::test(start_paused = true)]
async fn a_pod_whose_creation_was_not_answered_is_deleted_all_the_same() {
    let bed = Bed::with(Profile::kubelet()).await;
    bed.fault(Effect::ApplyThenDrop, |rule| rule.verb(Verb::Create));
    let (probed, _) = bed.run().await;
    assert!(stopped(probed).contains("swaplet.io/probe=id"));
}
