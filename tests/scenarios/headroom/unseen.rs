//! Jobs and pods that cannot be seen: no right to Jobs, and a list that keeps failing.

use serde_json::json;
use swaplet_testbed::apiserver::{Effect, Verb};

use super::{cluster, job};
use crate::objects::{main_container, pod_of, sidecar};

/// Who may not see Jobs swaps nothing on a guess, says once what is missing, and goes on with all
/// other pods.
#[tokio::test(start_paused = true)]
async fn without_the_right_to_see_jobs_their_pods_wait() {
    let world = cluster();
    let message = "jobs.batch is forbidden: User \"swaplet\" cannot list resource \"jobs\" in API group \"batch\" at the cluster scope";
    let forbidden = world.fault(Effect::reply(403).message(message), |rule| {
        rule.resource("jobs")
    });
    let _life = world.start_controller();
    world.create_job(job(3, 6, "OnFailure")).await;
    let (mut main, side) = (main_container(), sidecar("side"));
    main["args"] = json!(["run=1s"]);
    for policy in ["Never", "OnFailure"] {
        let mut pod = pod_of(
            &policy.to_lowercase(),
            policy,
            vec![main.clone(), side.clone()],
        );
        pod["spec"]["nodeName"] = "node-1".into();
        world.create(&pod).await;
    }
    world.wait(60).await;
    assert_eq!(
        (world.phase("never"), world.phase("onfailure")),
        ("Succeeded".to_owned(), "Succeeded".to_owned())
    );
    assert_eq!(
        (
            world.job_status()["active"].clone(),
            world.count(Verb::Patch)
        ),
        (json!(3), 2)
    );
    let notes = world.notes_of_job();
    assert_eq!(notes.len(), 1, "{notes:?}");
    assert_eq!(notes[0].0, "JobUnknown");
    assert!(
        notes[0].1.contains(message)
            && notes[0]
                .1
                .contains("allow the controller to list and watch jobs"),
        "{notes:?}"
    );

    world.end_fault(forbidden);
    world.job_completes(3).await;
    world.assert_quiet().await;
}

/// A swap is granted only where all pods of a Job are known, and its limit: as soon as those of its
/// own namespace are.
#[tokio::test(start_paused = true)]
async fn watch_a_namespace_whose_list_keeps_failing_holds_up_no_job_of_another_and_is_told() {
    for resource in ["pods", "jobs"] {
        let world = cluster();
        world.create_namespace("other").await;
        let sick = Effect::reply(500).message("etcd is sick");
        let failing = world.fault(sick, |rule| {
            rule.verb(Verb::List).resource(resource).namespace("other")
        });
        let life = world.start_controller_in(&["default", "other"]);
        world.create_job(job(3, 6, "OnFailure")).await;
        world.job_completes(3).await;
        world.each_pod_took_one_patch();
        let ready = life.health.ready().unwrap_or_else(|not_ready| not_ready);
        assert!(ready.contains("etcd is sick"), "{ready}");
        world.end_fault(failing);
        world.wait(120).await;
        assert_eq!(life.health.ready().unwrap(), "ok");
        world.assert_quiet().await;
    }
}
