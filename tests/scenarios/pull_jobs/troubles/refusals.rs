//! What is refused or cannot be had: no rights, a spec that is none, images that are not there.

use swaplet_testbed::apiserver::Effect;

use super::*;

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
async fn r11_a_job_whose_pods_cannot_be_created_says_why_and_ends() {
    let jobs = Jobs::on(2, &ImageOptions::default()).await;
    let down = "failed calling webhook \"w.example\": connection refused";
    jobs.cluster
        .world
        .fault(Effect::reply(500).message(down), |rule| {
            rule.verb(Verb::Create).resource("pods")
        });
    let _life = jobs.controller();
    let spec = json!({"image": image(0), "parallelism": 2, "pullPolicy": {"timeoutSeconds": 100, "backoffLimit": 1}});
    jobs.create(ONE, "j", spec).await;
    jobs.wait(60).await;
    let status = jobs.status(ONE, "j");
    assert_eq!(counts(&status), vec![2, 0, 0, 0, 0], "no node is pulling");
    let message = status["message"].as_str().unwrap().to_owned();
    assert!(
        message.contains("does not take writes for 2 node(s)") && message.contains(down),
        "{message}"
    );
    let status = jobs.completed(ONE, "j").await;
    assert_eq!(counts(&status), vec![2, 0, 0, 2, 0]);
    let why = status["failures"][0]["message"]
        .as_str()
        .unwrap()
        .to_owned();
    assert!(why.contains(down), "{why}");
    assert_eq!(jobs.writes().len(), 18, "nine for each node, and no pod");
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
        ("key", "is not a label key"),
        ("value", "is not a label value"),
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
            "nothing is pulled, because the spec is invalid: invalid image not an image"
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
