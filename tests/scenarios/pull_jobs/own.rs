//! Pre-download where OpenKruise's webhook takes no `ImagePullJob`: the same is done without one.

use serde_json::json;
use swaplet_testbed::apiserver::{Effect, RuleId};

use super::image_waits::registry;
use super::*;
use crate::predownload::{NEW, OLD, install_clone_sets, template};

const CLONE_SETS: &str = "/apis/apps.kruise.io/v1alpha1/namespaces/default/clonesets";
const REFUSAL: &str = "admission webhook \"vimagepulljob.kb.io\" denied the request: feature-gate ImagePullJobGate is not enabled";

fn gate_off(jobs: &Jobs) -> RuleId {
    jobs.cluster
        .world
        .fault(Effect::reply(403).message(REFUSAL), |rule| {
            rule.verb(Verb::Create).resource("imagepulljobs")
        })
}

/// A CloneSet with a new image, and a pod with the old one on the first of two nodes.
async fn clone_set() -> Jobs {
    let jobs = Jobs::on(2, &registry()).await;
    install_clone_sets(&jobs.cluster.world).await;
    let spec = json!({"nodeName": "n0", "restartPolicy": "Always", "containers": [{"name": "main", "image": OLD}]});
    let labels = json!({"app": "web", "controller-revision-hash": "web-1"});
    jobs.cluster.world.create(&json!({"metadata": {"namespace": "default", "name": "a", "labels": labels}, "spec": spec})).await;
    jobs.wait(10).await;
    let set = json!({
        "apiVersion": "apps.kruise.io/v1alpha1", "kind": "CloneSet",
        "metadata": {"name": "web", "annotations": {"swaplet.io/predownload": "true"}},
        "spec": {"replicas": 1, "selector": {"matchLabels": {"app": "web"}}, "template": template(NEW)},
    });
    jobs.cluster
        .world
        .request(Method::POST, CLONE_SETS, JSON, &set)
        .await;
    jobs
}

fn controller(jobs: &Jobs) -> Life {
    jobs.cluster
        .world
        .start_warming(PARK, NAMESPACE, |settings| settings.predownload = true)
}

fn new_pulls(jobs: &Jobs) -> Vec<(String, usize)> {
    let pulls = jobs
        .pulls()
        .into_iter()
        .filter(|((_, image), _)| image == NEW);
    pulls.map(|((node, _), count)| (node, count)).collect()
}

fn warmers(jobs: &Jobs) -> usize {
    jobs.cluster
        .pods()
        .iter()
        .filter(|pod| pod["metadata"]["namespace"] == NAMESPACE)
        .count()
}

fn jobs_made(jobs: &Jobs) -> usize {
    jobs.cluster
        .world
        .server
        .peek_all("imagepulljobs.apps.kruise.io")
        .len()
}

#[tokio::test(start_paused = true)]
async fn i3_where_openkruises_webhook_takes_no_job_the_images_of_a_clone_set_are_pulled_without_one()
 {
    let jobs = clone_set().await;
    let off = gate_off(&jobs);
    let life = controller(&jobs);
    jobs.wait(60).await;
    assert_eq!(
        (new_pulls(&jobs), warmers(&jobs), jobs_made(&jobs)),
        (vec![("n0".to_owned(), 1)], 0, 0),
        "where the old pod is"
    );
    let note = format!(
        "{NEW} is pulled to the nodes of the old pods by swaplet without an ImagePullJob, because {REFUSAL}"
    );
    assert_eq!(
        jobs.cluster.world.notes("web"),
        [("CreatedImagePullJob".to_owned(), note)]
    );
    let written = jobs.writes().len();
    jobs.wait(600).await;
    assert_eq!(
        (jobs.writes().len(), jobs.cluster.world.notes("web").len()),
        (written, 1),
        "once"
    );

    // Another life begins anew, and pulls nothing that is there.
    life.kill();
    let _next = controller(&jobs);
    jobs.wait(120).await;
    assert_eq!(
        (new_pulls(&jobs), warmers(&jobs)),
        (vec![("n0".to_owned(), 1)], 0)
    );

    // A gate that is switched on is noticed, and the job is made.
    jobs.cluster.world.end_fault(off);
    jobs.wait(60).await;
    assert_eq!((jobs_made(&jobs), warmers(&jobs)), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn i3_without_an_object_a_pull_ends_with_the_last_old_pod_and_with_its_workload() {
    for ends_with_workload in [false, true] {
        let jobs = clone_set().await;
        gate_off(&jobs);
        // The pod cannot be made, so the pull goes on for as long as it is wanted.
        let denied = jobs.cluster.world.fault(Effect::reply(500), |rule| {
            rule.verb(Verb::Create).resource("pods")
        });
        let _life = controller(&jobs);
        jobs.wait(60).await;
        let tries = jobs.writes().len();
        assert!(tries > 0);
        if ends_with_workload {
            jobs.cluster
                .world
                .request(
                    Method::DELETE,
                    &format!("{CLONE_SETS}/web"),
                    JSON,
                    &json!({}),
                )
                .await;
        } else {
            jobs.cluster.world.remove("a").await;
        }
        jobs.wait(60).await;
        jobs.cluster.world.end_fault(denied);
        let written = jobs.writes().len();
        jobs.wait(600).await;
        assert_eq!(
            (jobs.writes().len(), warmers(&jobs), new_pulls(&jobs)),
            (written, 0, Vec::new())
        );
    }
}

#[tokio::test(start_paused = true)]
async fn i3_what_another_policy_refuses_is_left_and_told() {
    let jobs = clone_set().await;
    let why = "admission webhook \"policy.example\" denied the request: no ImagePullJobs here";
    jobs.cluster
        .world
        .fault(Effect::reply(403).message(why), |rule| {
            rule.verb(Verb::Create).resource("imagepulljobs")
        });
    let _life = controller(&jobs);
    jobs.wait(600).await;
    assert_eq!((new_pulls(&jobs), jobs.writes().len()), (Vec::new(), 0));
    assert_eq!(
        jobs.cluster.world.notes("web"),
        [("FailedCreateImagePullJob".to_owned(), why.to_owned())]
    );
}

#[tokio::test(start_paused = true)]
async fn i3_a_policy_that_comes_later_ends_what_is_done_without_an_object() {
    let jobs = clone_set().await;
    let off = gate_off(&jobs);
    jobs.cluster.world.fault(Effect::reply(500), |rule| {
        rule.verb(Verb::Create).resource("pods")
    });
    let _life = controller(&jobs);
    jobs.wait(60).await;
    assert!(!jobs.writes().is_empty());
    let why = "admission webhook \"policy.example\" denied the request: no ImagePullJobs here";
    jobs.cluster
        .world
        .fault(Effect::reply(403).message(why), |rule| {
            rule.verb(Verb::Create).resource("imagepulljobs")
        });
    jobs.cluster.world.end_fault(off);
    jobs.wait(60).await;
    let written = jobs.writes().len();
    jobs.wait(600).await;
    assert_eq!(jobs.writes().len(), written);
}

#[tokio::test(start_paused = true)]
async fn i6_serial_a_pull_without_an_object_waits_for_pods_of_users_as_well() {
    let jobs = clone_set().await;
    gate_off(&jobs);
    jobs.start_pod("user", "users/slow:1", "n0").await;
    let _life = controller(&jobs);
    jobs.wait(35).await;
    assert_eq!(
        (jobs.phase("user"), jobs.writes().len()),
        ("Pending".to_owned(), 0)
    );
    jobs.wait(60).await;
    assert_eq!(
        (jobs.phase("user"), new_pulls(&jobs)),
        ("Running".to_owned(), vec![("n0".to_owned(), 1)])
    );
}

#[tokio::test(start_paused = true)]
async fn i3_where_swaplet_does_no_jobs_the_event_says_what_to_do() {
    let jobs = clone_set().await;
    gate_off(&jobs);
    let _life = jobs.cluster.world.start_predownloading_controller();
    jobs.wait(600).await;
    let [(reason, note)] = &jobs.cluster.world.notes("web")[..] else {
        panic!("it is told once")
    };
    assert!(
        reason == "FailedCreateImagePullJob"
            && note.starts_with(REFUSAL)
            && note.contains("run swaplet with --warm"),
        "{note}"
    );
    assert_eq!(new_pulls(&jobs), []);
}
