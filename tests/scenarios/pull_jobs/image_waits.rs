//! Pods of users that wait for their images come before jobs.

use serde_json::json;
use swaplet_testbed::apiserver::Effect;

use super::*;

/// What a registry gives slowly, or as good as never.
pub fn registry() -> ImageOptions {
    let slow = |name: &str, seconds: u64| (name.parse().unwrap(), Duration::from_secs(seconds));
    ImageOptions {
        slow: vec![slow("users/slow:*", 40), slow("users/hangs:*", 36_000)],
        ..ImageOptions::default()
    }
}

impl Jobs {
    pub async fn start_pod(&self, name: &str, image: &str, node: &str) {
        let spec = json!({"nodeName": node, "restartPolicy": "Always", "containers": [{"name": "main", "image": image}]});
        let pod =
            json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec});
        self.cluster
            .world
            .request(Method::POST, "/api/v1/namespaces/default/pods", JSON, &pod)
            .await;
    }

    pub fn phase(&self, name: &str) -> String {
        let pod = self
            .cluster
            .world
            .server
            .peek("pods", "default", name)
            .unwrap();
        pod["status"]["phase"]
            .as_str()
            .unwrap_or_default()
            .to_owned()
    }

    /// When the first warmer pod was made on a node, from now on; nothing else is written to pods
    /// before.
    async fn seconds_until_begun(&self, written: usize) -> u64 {
        for second in 0..3600 {
            if self.writes().len() > written {
                return second;
            }
            self.wait(1).await;
        }
        panic!("nothing is begun within an hour")
    }

    fn message(&self, name: &str) -> String {
        self.status(ONE, name)["message"]
            .as_str()
            .unwrap_or_default()
            .to_owned()
    }

    fn watches_of_waiting_pods(&self) -> usize {
        let requests = self.cluster.world.requests().into_iter();
        requests
            .filter(|request| {
                request.resource == "pods" && request.field_selector.contains("Pending")
            })
            .count()
    }
}

#[tokio::test(start_paused = true)]
async fn i6_serial_a_pod_that_waits_for_its_image_goes_first_and_other_nodes_are_done_meanwhile() {
    let jobs = Jobs::on(2, &registry()).await;
    let _life = jobs.controller();
    jobs.wait(10).await;
    assert_eq!(
        jobs.watches_of_waiting_pods(),
        0,
        "nobody looks where there is no job"
    );
    jobs.start_pod("user", "users/slow:1", "n0").await;
    jobs.wait(2).await;
    jobs.create(ONE, "j", json!({"image": image(0)})).await;
    jobs.wait(30).await;
    assert_eq!(jobs.phase("user"), "Pending");
    assert_eq!(
        jobs.pulls()
            .into_keys()
            .map(|(node, _)| node)
            .filter(|node| node == "n0")
            .count(),
        0
    );
    assert_eq!(
        counts(&jobs.status(ONE, "j")),
        [2, 0, 1, 0, 0],
        "one node at a time, and this one is skipped for now"
    );
    assert!(
        jobs.message("j")
            .contains("1 node(s) wait until pods there have pulled their images: n0"),
        "{}",
        jobs.message("j")
    );
    let (writes, reports) = (jobs.writes().len(), jobs.reports());
    jobs.wait(5).await;
    assert_eq!(
        (jobs.writes().len(), jobs.reports()),
        (writes, reports),
        "nothing is written while it waits"
    );
    jobs.wait(10).await;
    assert_eq!(jobs.phase("user"), "Running");
    assert_eq!(counts(&jobs.completed(ONE, "j").await), [2, 0, 2, 0, 0]);
    assert!(jobs.writes().len() > writes);
}

#[tokio::test(start_paused = true)]
async fn i6_serial_a_pod_that_waits_for_ever_holds_a_job_up_for_two_minutes_and_pods_without_end_for_ten()
 {
    let jobs = Jobs::on(1, &registry()).await;
    let _life = jobs.controller();
    jobs.start_pod("stuck", "users/hangs:1", "n0").await;
    jobs.create(ONE, "a", json!({"image": image(0)})).await;
    let waited = jobs.seconds_until_begun(0).await;
    assert!((115..=125).contains(&waited), "{waited}");
    assert_eq!(counts(&jobs.completed(ONE, "a").await), [1, 0, 1, 0, 0]);
    assert_eq!(jobs.phase("stuck"), "Pending");

    let written = jobs.writes().len();
    jobs.create(ONE, "b", json!({"image": image(1)})).await;
    let begun = async { jobs.seconds_until_begun(written).await };
    let attack = async {
        for number in 0.. {
            jobs.start_pod(&format!("stuck{number}"), "users/hangs:1", "n0")
                .await;
            jobs.wait(60).await;
        }
    };
    let waited = tokio::select! {
        waited = begun => waited,
        () = attack => unreachable!(),
    };
    assert!(waited <= 610, "{waited}");
    assert_eq!(counts(&jobs.completed(ONE, "b").await), [1, 0, 1, 0, 0]);
}

#[tokio::test(start_paused = true)]
async fn i6_serial_a_job_with_a_deadline_does_not_fail_by_the_pods_of_others() {
    let jobs = Jobs::on(1, &registry()).await;
    let _life = jobs.controller();
    jobs.start_pod("stuck", "users/hangs:1", "n0").await;
    jobs.create(
        ONE,
        "j",
        json!({"image": image(0), "completionPolicy": {"activeDeadlineSeconds": 60}}),
    )
    .await;
    assert_eq!(counts(&jobs.completed(ONE, "j").await), [1, 0, 1, 0, 0]);
}

#[tokio::test(start_paused = true)]
async fn i6_serial_where_pods_cannot_be_seen_jobs_are_done_as_before() {
    let jobs = Jobs::on(1, &registry()).await;
    let why = "pods is forbidden: User \"swaplet\" cannot list resource \"pods\" in API group \"\" at the cluster scope";
    jobs.cluster
        .world
        .fault(Effect::reply(403).message(why), |rule| {
            rule.resource("pods").field_selector("Pending")
        });
    let life = jobs.controller();
    jobs.start_pod("stuck", "users/hangs:1", "n0").await;
    jobs.create(ONE, "j", json!({"image": image(0)})).await;
    let waited = jobs.seconds_until_begun(0).await;
    assert!(waited < 15, "{waited}");
    assert_eq!(counts(&jobs.completed(ONE, "j").await), [1, 0, 1, 0, 0]);
    drop(life);
}

#[tokio::test(start_paused = true)]
async fn i6_serial_a_new_life_looks_before_it_begins_and_nobody_looks_once_the_job_is_done() {
    let jobs = Jobs::on(1, &registry()).await;
    let life = jobs.controller();
    jobs.start_pod("user", "users/slow:1", "n0").await;
    jobs.create(ONE, "j", json!({"image": image(0)})).await;
    jobs.wait(10).await;
    life.kill();
    let _next = jobs.controller();
    jobs.wait(10).await;
    assert_eq!(
        (jobs.phase("user"), jobs.writes().len()),
        ("Pending".to_owned(), 0)
    );
    jobs.completed(ONE, "j").await;
    jobs.wait(60).await;
    let looks = jobs.watches_of_waiting_pods();
    jobs.wait(300).await;
    assert_eq!(jobs.watches_of_waiting_pods(), looks);
}
