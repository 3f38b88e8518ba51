//! How many nodes of a job pull at once: a number, a percentage, or none for a while.

use super::*;
use crate::warm::CROWD;

#[tokio::test(start_paused = true)]
async fn never_more_nodes_pull_than_parallelism_says_and_writes_are_few() {
    let (nodes, count) = CROWD;
    let jobs = Jobs::on(nodes, &ImageOptions::default()).await;
    let most = watch_nodes(&jobs.cluster);
    let _life = jobs.controller();
    jobs.create(
        LIST,
        "l",
        json!({"images": images(count), "parallelism": 5}),
    )
    .await;
    let status = jobs.completed(LIST, "l").await;
    assert_eq!([&status["completed"], &status["succeeded"]], [count, count]);
    assert_eq!(
        *most.lock().unwrap(),
        (5, 5),
        "all slots are used, and no more"
    );
    let (writes, reports) = (jobs.writes().len(), jobs.reports());
    println!(
        "{nodes} nodes, {count} images, parallelism 5: {writes} writes of pods and {reports} of the status"
    );
    assert!(
        writes == nodes * (count + 1) && writes + reports <= 3 * nodes * count,
        "{writes} {reports}"
    );
    jobs.assert_quiet().await;
}

#[tokio::test(start_paused = true)]
async fn a_percentage_counts_the_nodes_of_the_job_and_0_pauses_it() {
    let slow = ImageOptions {
        pull: Duration::from_secs(20),
        ..ImageOptions::default()
    };
    let jobs = Jobs::on(4, &slow).await;
    let most = watch_nodes(&jobs.cluster);
    let _life = jobs.controller();
    jobs.create(LIST, "l", json!({"images": images(2), "parallelism": 0}))
        .await;
    jobs.wait(60).await;
    let status = jobs.status(LIST, "l");
    assert!(
        status["message"]
            .as_str()
            .unwrap()
            .contains("paused: parallelism is 0")
            && jobs.writes().is_empty(),
        "{status}"
    );
    jobs.edit(LIST, "l", &json!({"parallelism": "50%"})).await;
    jobs.wait(30).await;
    assert_eq!(
        (
            most.lock().unwrap().0,
            &jobs.status(LIST, "l")["observedGeneration"]
        ),
        (2, &json!(2))
    );
    // What is under way ends, and nothing else begins.
    jobs.edit(LIST, "l", &json!({"parallelism": 0})).await;
    jobs.wait(60).await;
    assert_eq!(jobs.cluster.pods().len(), 0);
    assert!(jobs.status(LIST, "l")["completionTime"].is_null());
    jobs.edit(LIST, "l", &json!({"parallelism": 1})).await;
    let status = jobs.completed(LIST, "l").await;
    assert_eq!(
        (&status["succeeded"], most.lock().unwrap().0),
        (&json!(2), 2)
    );
    jobs.assert_quiet().await;
}
