//! Edits, deletions, deadlines, lives that end, and what is refused.

use serde_json::json;
use swaplet_testbed::apiserver::Effect;

use super::*;
use crate::line::Patches;

fn slow() -> ImageOptions {
    ImageOptions {
        pull: Duration::from_secs(20),
        ..ImageOptions::default()
    }
}

#[tokio::test(start_paused = true)]
async fn a_job_that_is_deleted_in_the_middle_of_a_pull_leaves_nothing_behind() {
    let jobs = Jobs::on(2, &slow()).await;
    let _life = jobs.controller();
    jobs.create(LIST, "l", json!({"images": images(3), "parallelism": 2}))
        .await;
    jobs.wait(15).await;
    assert_eq!(jobs.cluster.pods().len(), 2);
    jobs.delete(LIST, "l").await;
    jobs.wait(10).await;
    assert_eq!(jobs.cluster.pods().len(), 0);
    jobs.assert_quiet().await;
}

#[tokio::test(start_paused = true)]
async fn a_job_that_is_deleted_while_nobody_looks_is_cleaned_up_by_the_next_life() {
    let jobs = Jobs::on(1, &slow()).await;
    let life = jobs.controller();
    jobs.create(ONE, "j", json!({"image": image(0)})).await;
    jobs.wait(15).await;
    life.kill();
    jobs.delete(ONE, "j").await;
    jobs.wait(60).await;
    assert_eq!(jobs.cluster.pods().len(), 1);
    let _next = jobs.controller();
    jobs.assert_quiet().await;
}

#[tokio::test(start_paused = true)]
async fn an_edit_takes_effect_in_the_middle_and_after_the_end() {
    let jobs = Jobs::on(2, &slow()).await;
    let _life = jobs.controller();
    jobs.create(LIST, "l", json!({"images": images(2), "parallelism": 2}))
        .await;
    jobs.wait(30).await;
    jobs.edit(LIST, "l", &json!({"images": [image(1), image(2)]}))
        .await;
    let status = jobs.completed(LIST, "l").await;
    assert_eq!(
        (
            &status["desired"],
            &status["succeeded"],
            &status["observedGeneration"]
        ),
        (&json!(2), &json!(2), &json!(2))
    );
    assert_eq!(status["imageStatuses"][1]["name"], image(2));
    jobs.assert_quiet().await;

    jobs.edit(LIST, "l", &json!({"images": [image(3)]})).await;
    jobs.wait(5).await;
    let status = jobs.status(LIST, "l");
    assert!(
        status["completionTime"].is_null() && status["observedGeneration"] == 3,
        "it begins anew: {status}"
    );
    assert_eq!(jobs.completed(LIST, "l").await["succeeded"], 1);
    jobs.assert_quiet().await;
}

#[tokio::test(start_paused = true)]
async fn an_edit_of_what_pods_are_like_makes_new_pods() {
    let jobs = Jobs::on(1, &slow()).await;
    let most = watch_nodes(&jobs.cluster);
    let _life = jobs.controller();
    jobs.create(ONE, "j", json!({"image": image(0), "sandboxConfig": {"labels": {"team": "a"}, "annotations": {"note": "x"}}})).await;
    jobs.wait(15).await;
    let pods = jobs.cluster.pods();
    assert_eq!(
        (
            &pods[0]["metadata"]["labels"]["team"],
            &pods[0]["metadata"]["annotations"]["note"]
        ),
        (&json!("a"), &json!("x"))
    );
    let hostile =
        json!({"team": "b", "swaplet.io/pull-job": "spoofed", "linkerd.io/inject": "enabled"});
    jobs.edit(ONE, "j", &json!({"sandboxConfig": {"labels": hostile, "annotations": {"k8s.v1.cni.cncf.io/networks": "other"}}})).await;
    jobs.wait(15).await;
    let pods = jobs.cluster.pods();
    let uid = &jobs.find(ONE, "j").unwrap()["metadata"]["uid"];
    assert_eq!(
        (
            &pods[0]["metadata"]["labels"]["team"],
            &pods[0]["metadata"]["labels"]["swaplet.io/pull-job"]
        ),
        (&json!("b"), uid)
    );
    let taken_over = [
        &pods[0]["metadata"]["labels"]["linkerd.io/inject"],
        &pods[0]["metadata"]["annotations"]["k8s.v1.cni.cncf.io/networks"],
    ];
    assert_eq!(
        taken_over,
        [&json!(null); 2],
        "what the administrator has not listed goes to no pod"
    );
    let completed = jobs.completed(ONE, "j").await;
    assert_eq!(counts(&completed), [1, 0, 1, 0, 0]);
    let told = "not taken over from sandboxConfig: linkerd.io/inject, swaplet.io/pull-job, k8s.v1.cni.cncf.io/networks";
    assert!(
        completed["message"].as_str().unwrap().contains(told),
        "{completed}"
    );
    assert_eq!(
        *most.lock().unwrap(),
        (1, 1),
        "the old pod has gone before the new one came"
    );
    jobs.assert_quiet().await;
}

#[tokio::test(start_paused = true)]
async fn a_job_that_exceeds_its_deadline_fails_what_is_open() {
    let jobs = Jobs::on(3, &slow()).await;
    let _life = jobs.controller();
    let spec = json!({"image": image(0), "pullPolicy": {"timeoutSeconds": 50}, "completionPolicy": {"activeDeadlineSeconds": 50}});
    jobs.create(ONE, "j", spec).await;
    let status = jobs.completed(ONE, "j").await;
    assert_eq!(
        (counts(&status), &status["message"]),
        (
            vec![3, 0, 1, 2, 0],
            &json!("job exceeds activeDeadlineSeconds")
        )
    );
    assert_eq!(
        status["failures"][0],
        json!({"node": "n1", "message": "job exceeds activeDeadlineSeconds"})
    );
    jobs.assert_quiet().await;
}

#[tokio::test(start_paused = true)]
async fn jobs_with_pull_secrets_have_their_pods_in_their_own_namespace() {
    let jobs = Jobs::on(1, &ImageOptions::default()).await;
    let _life = jobs.controller();
    jobs.create(
        ONE,
        "j",
        json!({"image": image(0), "pullSecrets": ["login"]}),
    )
    .await;
    let status = jobs.completed(ONE, "j").await;
    assert!(
        status["message"]
            .as_str()
            .unwrap()
            .contains("newer kubelets check the pull secrets of each pod again"),
        "{status}"
    );
    assert_eq!(
        status["pulls"]["nodes"], 1,
        "Events are read where the pods are: {status}"
    );
    let created = &jobs.writes()[0];
    assert_eq!(
        (
            &*created.namespace,
            &created.body["spec"]["imagePullSecrets"]
        ),
        ("default", &json!([{"name": "login"}]))
    );
    jobs.assert_no_secret_is_read();

    let why = "pods is forbidden: User \"swaplet\" cannot create resource \"pods\" in API group \"\" in the namespace \"default\"";
    jobs.cluster
        .world
        .fault(Effect::reply(403).message(why), |rule| {
            rule.verb(Verb::Create).resource("pods")
        });
    jobs.create(
        ONE,
        "denied",
        json!({"image": image(1), "pullSecrets": ["login"]}),
    )
    .await;
    let status = jobs.completed(ONE, "denied").await;
    assert_eq!(
        (counts(&status), &status["failures"][0]["message"]),
        (
            vec![1, 0, 0, 1, 0],
            &json!(format!(
                "{why}; jobs with pullSecrets take a RoleBinding to the ClusterRole swaplet-warm in their namespace (chart: warm.jobs.secretNamespaces)"
            ))
        )
    );
    jobs.assert_quiet().await;
}

#[tokio::test(start_paused = true)]
async fn without_the_right_to_see_events_a_job_ends_all_the_same() {
    let jobs = Jobs::on(2, &ImageOptions::default()).await;
    jobs.cluster
        .world
        .fault(Effect::reply(403), |rule| rule.resource("events"));
    let _life = jobs.controller();
    jobs.create(ONE, "j", json!({"image": image(0), "parallelism": 2}))
        .await;
    let status = jobs.completed(ONE, "j").await;
    assert_eq!(
        (counts(&status), &status["pulls"]),
        (vec![2, 0, 2, 0, 0], &json!(null))
    );
    jobs.assert_quiet().await;
}

/// The API server answers such a selector with 400, however often it is asked.
#[tokio::test(start_paused = true)]
async fn d3_a_selector_that_is_none_ends_the_job_and_no_pods_are_watched_for_it() {
    let jobs = Jobs::on(1, &ImageOptions::default()).await;
    let _life = jobs.controller();
    jobs.create(
        ONE,
        "key",
        json!({"image": image(0), "podSelector": {"matchLabels": {"a b!!": "x"}}}),
    )
    .await;
    jobs.create(
        ONE,
        "value",
        json!({"image": image(0), "podSelector": {"matchLabels": {"a": "a,b) "}}}),
    )
    .await;
    for (name, word) in [
        ("key", "is no key of a label"),
        ("value", "is no value of a label"),
    ] {
        let status = jobs.completed(ONE, name).await;
        assert!(
            status["message"].as_str().unwrap().contains(word),
            "{status}"
        );
    }
    jobs.assert_quiet().await;
    let requests = jobs.cluster.world.requests();
    let watches = requests
        .iter()
        .filter(|request| request.resource == "pods" && request.namespace == "default");
    assert_eq!(watches.count(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_spec_that_cannot_be_used_ends_the_job_and_nothing_else() {
    let jobs = Jobs::on(1, &ImageOptions::default()).await;
    let _life = jobs.controller();
    jobs.create(ONE, "bad", json!({"image": "not an image"}))
        .await;
    jobs.create(
        LIST,
        "bad",
        json!({"images": ["a"], "selector": {"matchLabels": 3}}),
    )
    .await;
    jobs.create(ONE, "good", json!({"image": image(0)})).await;
    let status = jobs.completed(ONE, "bad").await;
    let message = status["message"].as_str().unwrap();
    assert!(
        message.starts_with(
            "nothing is pulled, for the spec cannot be used: invalid image not an image"
        ),
        "{message}"
    );
    assert_eq!(jobs.completed(LIST, "bad").await["succeeded"], 0);
    assert_eq!(counts(&jobs.completed(ONE, "good").await), [1, 0, 1, 0, 0]);
    jobs.edit(ONE, "bad", &json!({"image": image(1)})).await;
    jobs.wait(30).await;
    assert_eq!(counts(&jobs.status(ONE, "bad")), [1, 0, 1, 0, 0]);
    jobs.assert_quiet().await;
}

/// `kubectl describe` of the job shows them.
#[tokio::test(start_paused = true)]
async fn i11_what_is_not_on_a_node_is_told_by_events_on_the_job_ten_at_most() {
    let jobs = Jobs::on(12, &missing("registry.example/app0:*")).await;
    let _life = jobs.controller();
    let policy = json!({"timeoutSeconds": 60, "backoffLimit": 0});
    jobs.create(
        LIST,
        "l",
        json!({"images": [image(0), image(1)], "parallelism": 12, "pullPolicy": policy}),
    )
    .await;
    jobs.create(ONE, "good", json!({"image": image(1)})).await;
    assert_eq!(
        jobs.completed(LIST, "l").await["failedImageStatuses"][0]["name"],
        image(0)
    );
    jobs.completed(ONE, "good").await;
    let notes = jobs.cluster.world.notes("l");
    assert_eq!(notes.len(), 10, "{notes:?}");
    for (reason, note) in &notes {
        let words = "the image registry.example/app0:v1 is not on node n";
        assert!(
            reason == "PullImageFailed" && note.starts_with(words),
            "{reason}: {note}"
        );
    }
    assert!(
        jobs.cluster.world.notes("good").is_empty(),
        "what goes well is in the status"
    );
    jobs.assert_quiet().await;
}

#[tokio::test(start_paused = true)]
async fn i1_where_openkruise_has_left_its_crds_the_jobs_are_done() {
    let jobs = Jobs::on(1, &ImageOptions::default()).await;
    jobs.cluster.world.install_node_images().await;
    let _life = jobs.controller();
    jobs.create(ONE, "j", json!({"image": image(0)})).await;
    assert_eq!(counts(&jobs.completed(ONE, "j").await), [1, 0, 1, 0, 0]);
    jobs.assert_quiet().await;
}

/// Nobody is left who takes it away.
#[tokio::test(start_paused = true)]
async fn i2_openkruises_finalizer_is_taken_from_jobs_that_are_deleted_and_from_no_others() {
    let jobs = Jobs::on(1, &ImageOptions::default()).await;
    let life = jobs.controller();
    let finalizers = json!(["apps.kruise.io/deletion-protection", "example.com/theirs"]);
    jobs.create_with(
        ONE,
        &json!({"name": "j", "finalizers": finalizers}),
        json!({"image": image(0)}),
    )
    .await;
    jobs.create_with(
        ONE,
        &json!({"name": "k", "finalizers": [finalizers[0]]}),
        json!({"image": image(0)}),
    )
    .await;
    jobs.completed(ONE, "j").await;
    jobs.completed(ONE, "k").await;
    assert_eq!(
        jobs.find(ONE, "j").unwrap()["metadata"]["finalizers"],
        finalizers
    );
    life.kill();
    jobs.delete(ONE, "j").await;
    jobs.delete(ONE, "k").await;
    jobs.wait(60).await;
    assert!(jobs.find(ONE, "k").is_some(), "nobody has taken it away");
    let _next = jobs.controller();
    jobs.wait(5).await;
    assert!(jobs.find(ONE, "k").is_none());
    assert_eq!(
        jobs.find(ONE, "j").unwrap()["metadata"]["finalizers"],
        json!(["example.com/theirs"])
    );
    jobs.assert_quiet().await;
}

#[tokio::test(start_paused = true)]
async fn where_openkruise_is_installed_the_jobs_are_left_to_it() {
    let jobs = Jobs::on(1, &slow()).await;
    let _life = jobs.controller();
    jobs.create(ONE, "j", json!({"image": image(0)})).await;
    jobs.wait(15).await;
    assert_eq!(jobs.cluster.pods().len(), 1);
    jobs.cluster.world.create_namespace("kruise-system").await;
    jobs.cluster
        .world
        .start_manager("ImagePullJobGate=true")
        .await;
    jobs.cluster.world.install_node_images().await;
    jobs.wait(60).await;
    assert_eq!(jobs.cluster.pods().len(), 0, "what was begun is taken back");
    jobs.assert_quiet().await;
}

/// The first report, a creation, two swaps, a deletion and the last report; more are reports
/// between.
const WRITES: usize = 8;

async fn ends_well(jobs: &Jobs, when: &str) {
    let status = jobs.completed(LIST, "l").await;
    assert_eq!(
        [
            &status["desired"],
            &status["completed"],
            &status["succeeded"]
        ],
        [3, 3, 2],
        "{when}: {status}"
    );
    let failed = &status["failedImageStatuses"];
    assert_eq!(
        (failed.as_array().unwrap().len(), &failed[0]["name"]),
        (1, &json!(image(1))),
        "{when}"
    );
    assert!(
        failed[0]["message"]
            .as_str()
            .unwrap()
            .starts_with("1 of 1 node(s) failed: n0: "),
        "{when}"
    );
    jobs.wait(30).await;
    assert_eq!(jobs.cluster.pods().len(), 0, "{when}");
}

#[tokio::test(start_paused = true)]
async fn killed_after_each_write_before_its_answer_came_and_before_it_was_made() {
    for passing in 0..WRITES {
        for patches in [
            Patches::PassBeforeOneArrives(passing),
            Patches::PassBeforeAllStay(passing),
        ] {
            let jobs = Jobs::on(1, &missing("registry.example/app1:*")).await;
            let most = watch_nodes(&jobs.cluster);
            let life = jobs.controller();
            life.line.patches(patches);
            jobs.create(
                LIST,
                "l",
                json!({"images": images(3), "pullPolicy": {"backoffLimit": 0}}),
            )
            .await;
            jobs.wait(60).await;
            assert!(
                life.line.patched_at().len() > passing,
                "{patches:?}: there are not so many writes"
            );
            life.kill();
            let _next = jobs.controller();
            ends_well(&jobs, &format!("{patches:?}")).await;
            assert_eq!(*most.lock().unwrap(), (1, 1), "{patches:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn no_answer_of_the_api_server_changes_the_end() {
    let effects = [
        Effect::Drop,
        Effect::ApplyThenDrop,
        Effect::from(Effect::reply(429).retry_after(3)),
        Effect::from(Effect::reply(500)),
    ];
    for effect in effects {
        let jobs = Jobs::on(1, &missing("registry.example/app1:*")).await;
        for verb in [Verb::Create, Verb::Patch, Verb::Delete] {
            jobs.cluster
                .world
                .fault(effect.clone(), |rule| rule.verb(verb).times(2));
        }
        let _life = jobs.controller();
        jobs.create(
            LIST,
            "l",
            json!({"images": images(3), "pullPolicy": {"backoffLimit": 0}}),
        )
        .await;
        ends_well(&jobs, &format!("{effect:?}")).await;
    }
}

/// The clock of the next leader is ten minutes off.
#[tokio::test(start_paused = true)]
async fn clock_a_job_neither_fails_nor_goes_early_by_a_clock_that_is_wrong_by_ten_minutes() {
    for ahead in [600, -600] {
        let jobs = Jobs::on(1, &slow()).await;
        let life = jobs.controller();
        let policy = json!({"activeDeadlineSeconds": 120, "ttlSecondsAfterFinished": 60});
        jobs.create(
            ONE,
            "j",
            json!({"image": image(0), "completionPolicy": policy}),
        )
        .await;
        jobs.wait(15).await;
        assert!(jobs.status(ONE, "j")["startTime"].is_string());
        life.kill();
        let world = &jobs.cluster.world;
        let clock = world.server.clock();
        let _next = world.start_warming(PARK, NAMESPACE, |settings| {
            settings.warm.as_mut().unwrap().time_of_day =
                Arc::new(move || clock.now() + jiff::SignedDuration::from_secs(ahead));
        });
        let status = jobs.completed(ONE, "j").await;
        assert_eq!(counts(&status), [1, 0, 1, 0, 0], "{ahead}: {status}");
        let completed: jiff::Timestamp =
            status["completionTime"].as_str().unwrap().parse().unwrap();
        let age = world.server.clock().now().duration_since(completed);
        assert!((0..=5).contains(&age.as_secs()), "{ahead}: {age}");
        jobs.wait(50).await;
        assert!(
            jobs.find(ONE, "j").is_some(),
            "{ahead}: its time is not over"
        );
        jobs.wait(20).await;
        assert!(jobs.find(ONE, "j").is_none(), "{ahead}");
    }
}
