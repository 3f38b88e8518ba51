//! Registries that do not answer, or have no such tag.

use super::*;

#[tokio::test(start_paused = true)]
async fn a_registry_that_does_not_answer_is_asked_again_and_the_message_says_so() {
    let jobs = Jobs::on(1, &ImageOptions::default()).await;
    let tags = Tags::with(1);
    let _life = tags.controller(&jobs);
    jobs.create_pinned(
        LIST,
        "l",
        json!({"images": images(3), "completionPolicy": {"activeDeadlineSeconds": 3600}}),
    )
    .await;
    jobs.wait(1200).await;
    let status = jobs.status(LIST, "l");
    assert!(
        status["startTime"].is_string() && status["completionTime"].is_null(),
        "{status}"
    );
    assert_eq!(
        (
            &status["pinned"],
            &status["completed"],
            &status["succeeded"]
        ),
        (&json!([pin(0, 'a')]), &json!(1), &json!(1))
    );
    let message = status["message"].as_str().unwrap();
    let words = "2 image(s) are not pulled yet, because their tags are not pinned: the registry is away; trying again";
    assert!(message.contains(words), "{message}");
    assert!((5..14).contains(&tags.asked()), "backoff: {}", tags.asked());
    assert_eq!(
        jobs.given(),
        [pinned(0, 'a')],
        "what is known is pulled, and nothing else"
    );
    tags.point(1, 'c');
    tags.point(2, 'c');
    let status = jobs.completed(LIST, "l").await;
    assert_eq!(
        (
            &status["succeeded"],
            &status["pinned"][2],
            &status["message"]
        ),
        (&json!(3), &pin(2, 'c'), &json!("job has completed"))
    );
    jobs.assert_quiet().await;
}

#[tokio::test(start_paused = true)]
async fn a_job_ends_also_when_no_registry_ever_answers() {
    let jobs = Jobs::on(2, &ImageOptions::default()).await;
    let _life = Tags::default().controller(&jobs);
    jobs.create_pinned(ONE, "plain", json!({"image": image(0)}))
        .await;
    let status = jobs.completed(ONE, "plain").await;
    let why = status["failures"][0]["message"].as_str().unwrap();
    assert!(
        why.contains("no answer within 600 s: the registry is away")
            && why.contains("write the digest into the image"),
        "{why}"
    );
    assert_eq!(counts(&status), [2, 0, 0, 2, 0]);
    jobs.create_pinned(
        ONE,
        "late",
        json!({"image": image(0), "completionPolicy": {"activeDeadlineSeconds": 900}}),
    )
    .await;
    let status = jobs.completed(ONE, "late").await;
    assert_eq!(
        (counts(&status), &status["message"]),
        (
            vec![2, 0, 0, 2, 0],
            &json!("job exceeds activeDeadlineSeconds")
        )
    );
    jobs.create_pinned(
        ONE,
        "never",
        json!({"image": image(0), "completionPolicy": {"type": "Never"}}),
    )
    .await;
    jobs.wait(7200).await;
    assert_eq!(
        counts(&jobs.status(ONE, "never")),
        [2, 0, 0, 0, 0],
        "it waits"
    );
    assert!(
        jobs.given().is_empty(),
        "nothing is pulled by a tag that is not pinned"
    );
}

#[tokio::test(start_paused = true)]
async fn a_tag_that_is_not_there_and_an_image_that_may_not_be_read_have_failed_on_all_nodes() {
    let jobs = Jobs::on(2, &ImageOptions::default()).await;
    let tags = Tags::with(1);
    tags.answer(1, "registry.example has no app1:v1");
    let _life = tags.controller(&jobs);
    jobs.create_pinned(LIST, "l", json!({"images": images(2), "parallelism": 2}))
        .await;
    let status = jobs.completed(LIST, "l").await;
    assert_eq!(
        [
            &status["desired"],
            &status["completed"],
            &status["succeeded"]
        ],
        [2, 2, 1],
        "{status}"
    );
    let failed = status["failedImageStatuses"][0]["message"]
        .as_str()
        .unwrap();
    assert!(failed.starts_with("2 of 2 node(s) failed: n0: not pulled, because its tag cannot be pinned: registry.example has no"), "{failed}");
    assert_eq!((jobs.given(), tags.asked()), (vec![pinned(0, 'a')], 2));

    tags.answer(2, "401, the registry does not accept the credentials");
    jobs.create_pinned(
        ONE,
        "private",
        json!({"image": image(2), "pullSecrets": ["login"]}),
    )
    .await;
    let why = jobs.completed(ONE, "private").await["failures"][0]["message"]
        .as_str()
        .unwrap()
        .to_owned();
    for words in [
        "401",
        "with the credentials of swaplet itself, not with pullSecrets",
        "write the digest into the image yourself",
    ] {
        assert!(why.contains(words), "{why}");
    }
    jobs.assert_quiet().await;
}

#[tokio::test(start_paused = true)]
async fn a_never_job_finds_a_tag_that_is_pushed_later() {
    let jobs = Jobs::on(1, &ImageOptions::default()).await;
    let tags = Tags::default();
    tags.answer(0, "no such tag");
    let _life = tags.controller(&jobs);
    jobs.create_pinned(
        ONE,
        "j",
        json!({"image": image(0), "completionPolicy": {"type": "Never"}}),
    )
    .await;
    jobs.wait(60).await;
    assert_eq!(counts(&jobs.status(ONE, "j")), [1, 0, 0, 1, 0]);
    tags.point(0, 'd');
    jobs.wait(600).await;
    assert_eq!(counts(&jobs.status(ONE, "j")), [1, 0, 1, 0, 0]);
    assert_eq!(jobs.given(), [pinned(0, 'd')]);
}
