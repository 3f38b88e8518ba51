//! Lives that end around each write, answers that are lost, and clocks that are wrong.

use swaplet_testbed::apiserver::Effect;

use super::*;
use crate::line::Patches;

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
            settings.warm.as_mut().unwrap().time_of_day = TimeOfDay(Arc::new(move || {
                clock.now() + jiff::SignedDuration::from_secs(ahead)
            }));
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
