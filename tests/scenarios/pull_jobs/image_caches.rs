//! Jobs over virtual nodes of Alibaba ECI, whose provider is played by the test: it writes the
//! status of an `ImageCache`.

mod unavailable;

use swaplet_core::warm::image_cache::CacheOptions;
use swaplet_testbed::apiserver::Effect;
use swaplet_testbed::virtual_node::{NodeOptions, Profile};

use super::*;

const CACHES: &str = "/apis/eci.alibabacloud.com/v1/imagecaches";
const EXIT: &str = "registry.example/swaplet/exit:v1";

impl Jobs {
    /// So many ordinary nodes, and two of ECI.
    pub async fn beside_eci(count: usize) -> Self {
        let mut jobs = Self::on(count, &ImageOptions::default()).await;
        for name in ["eci0", "eci1"] {
            let mut options = NodeOptions::new(name, Profile::updates());
            options.taints[0].value = "alibabacloud".to_owned();
            jobs.cluster.start(options);
        }
        jobs.wait(5).await;
        jobs
    }

    pub async fn serve_image_caches(&self) {
        let names = json!({"kind": "ImageCache", "plural": "imagecaches"});
        let version = json!({"name": "v1", "served": true, "storage": true, "subresources": {"status": {}}, "schema": {}});
        let crd = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": "imagecaches.eci.alibabacloud.com"},
            "spec": {"group": "eci.alibabacloud.com", "scope": "Cluster", "names": names, "versions": [version]}});
        self.cluster
            .world
            .request(
                Method::POST,
                "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
                JSON,
                &crd,
            )
            .await;
    }

    async fn delete_cache(&self, name: &str) {
        let path = format!("{CACHES}/{name}");
        self.cluster
            .world
            .request(Method::DELETE, &path, JSON, &json!({}))
            .await;
    }

    pub fn caching_controller(&self) -> Life {
        let image_caches = Some(CacheOptions {
            exit_image: Some(EXIT.into()),
            size: 30,
            retention_days: 7,
        });
        self.cluster
            .world
            .start_warming(PARK, NAMESPACE, |settings| {
                let warm = settings.warm.as_mut().unwrap();
                warm.image_caches = image_caches;
            })
    }

    pub fn caches(&self) -> Vec<Arc<Value>> {
        self.cluster
            .world
            .server
            .peek_all("imagecaches.eci.alibabacloud.com")
    }

    fn cache(&self) -> Arc<Value> {
        let mut caches = self.caches();
        assert_eq!(caches.len(), 1, "{caches:?}");
        caches.remove(0)
    }

    /// What the provider says of all caches.
    async fn provider_says(&self, status: Value) {
        for cache in self.caches() {
            let path = format!(
                "{CACHES}/{}/status",
                cache["metadata"]["name"].as_str().unwrap()
            );
            self.cluster
                .world
                .request(
                    Method::PATCH,
                    &path,
                    "application/merge-patch+json",
                    &json!({"status": status}),
                )
                .await;
        }
    }

    fn asked_for_caches(&self) -> usize {
        let is_creation =
            |request: &&Recorded| request.resource == "imagecaches" && request.verb == Verb::Create;
        self.cluster
            .world
            .requests()
            .iter()
            .filter(is_creation)
            .count()
    }
}

#[tokio::test(start_paused = true)]
async fn nodes_of_eci_have_succeeded_when_the_cache_is_ready_and_not_before() {
    let jobs = Jobs::beside_eci(1).await;
    jobs.serve_image_caches().await;
    let _life = jobs.caching_controller();
    jobs.create(LIST, "l", json!({"images": images(2)})).await;
    jobs.wait(60).await;
    let cache = jobs.cache();
    let spec =
        json!({"images": [image(0), image(1), EXIT], "imageCacheSize": 30, "retentionDays": 7});
    assert_eq!(
        (&cache["spec"], &cache["metadata"]["labels"]),
        (&spec, &json!({"swaplet.io/image-cache": "default"}))
    );
    for phase in ["", "Preparing", "Creating"] {
        jobs.provider_says(json!({"phase": phase, "progress": "40%"}))
            .await;
        jobs.wait(10).await;
        let status = jobs.status(LIST, "l");
        assert_eq!(
            [
                &status["desired"],
                &status["completed"],
                &status["succeeded"],
                &status["skipped"]
            ],
            [2, 0, 0, 0],
            "{phase}: {status}"
        );
        let message = status["message"].as_str().unwrap();
        assert!(
            message.contains("2 node(s) wait for an image cache: ImageCache swaplet-"),
            "{message}"
        );
    }
    jobs.provider_says(json!({"phase": "Ready", "progress": "100%", "imageCacheId": "imc-1"}))
        .await;
    let status = jobs.completed(LIST, "l").await;
    assert_eq!(
        (&status["succeeded"], &status["message"]),
        (&json!(2), &json!("job has completed"))
    );
    assert_eq!(status["imageStatuses"][0]["succeeded"], 3, "{status}");
    jobs.delete(LIST, "l").await;
    jobs.assert_quiet().await;
    assert_eq!(
        (jobs.caches().len(), jobs.asked_for_caches()),
        (1, 1),
        "it stays, as images stay on nodes"
    );
}

#[tokio::test(start_paused = true)]
async fn a_job_over_virtual_nodes_only_is_no_success_before_its_cache_is_ready_and_two_jobs_share_it()
 {
    let jobs = Jobs::beside_eci(0).await;
    jobs.serve_image_caches().await;
    let life = jobs.caching_controller();
    jobs.create(
        LIST,
        "a",
        json!({"images": [image(0), image(1)], "pullSecrets": ["login"]}),
    )
    .await;
    jobs.create(LIST, "b", json!({"images": [image(1), image(0)], "pullSecrets": ["login"], "completionPolicy": {"type": "Never"}})).await;
    jobs.wait(30).await;
    assert_eq!(
        (
            &jobs.cache()["spec"]["imagePullSecrets"],
            jobs.asked_for_caches()
        ),
        (&json!(["default:login"]), 1)
    );
    assert_eq!(
        (
            &jobs.status(LIST, "a")["succeeded"],
            &jobs.status(LIST, "a")["completionTime"]
        ),
        (&json!(0), &json!(null))
    );
    life.kill();
    let _next = jobs.caching_controller();
    jobs.provider_says(json!({"phase": "Ready"})).await;
    assert_eq!(jobs.completed(LIST, "a").await["succeeded"], 2);
    jobs.wait(10).await;
    assert_eq!(
        (
            &jobs.status(LIST, "b")["succeeded"],
            jobs.asked_for_caches(),
            jobs.writes().len()
        ),
        (&json!(2), 1, 0)
    );
    jobs.assert_no_secret_is_read();
    // One that has expired is made again for a job that goes on, and for no other.
    let name = jobs.cache()["metadata"]["name"]
        .as_str()
        .unwrap()
        .to_owned();
    jobs.delete_cache(&name).await;
    jobs.wait(60).await;
    assert_eq!(
        (
            &jobs.status(LIST, "b")["succeeded"],
            jobs.asked_for_caches()
        ),
        (&json!(0), 2)
    );
    jobs.delete(LIST, "b").await;
    jobs.delete_cache(&name).await;
    jobs.assert_quiet().await;
    assert_eq!(jobs.caches().len(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_cache_that_fails_or_does_not_come_has_failed_with_its_reason() {
    let jobs = Jobs::beside_eci(0).await;
    jobs.serve_image_caches().await;
    let _life = jobs.caching_controller();
    jobs.create(ONE, "fails", json!({"image": image(0)})).await;
    jobs.wait(10).await;
    jobs.provider_says(json!({"phase": "Failed", "events": [{"message": "pulling"}, {"message": "the disk is too small"}]})).await;
    let status = jobs.completed(ONE, "fails").await;
    let why = status["failures"][0]["message"].as_str().unwrap();
    assert_eq!(
        (counts(&status), &status["failedNodes"]),
        (vec![2, 0, 0, 2, 0], &json!(["eci0", "eci1"]))
    );
    assert!(
        why.contains("is Failed: the disk is too small; delete it to have it created again"),
        "{why}"
    );

    let started = jobs.asked_for_caches();
    jobs.create(
        ONE,
        "late",
        json!({"image": image(1), "pullPolicy": {"timeoutSeconds": 100, "backoffLimit": 1}}),
    )
    .await;
    let status = jobs.completed(ONE, "late").await;
    let why = status["failures"][0]["message"].as_str().unwrap();
    assert!(
        why.starts_with("not Ready within 200 s: ImageCache swaplet-"),
        "{why}"
    );
    let spec = json!({"image": image(2), "completionPolicy": {"activeDeadlineSeconds": 900}});
    jobs.create(ONE, "deadline", spec).await;
    let status = jobs.completed(ONE, "deadline").await;
    assert_eq!(
        (counts(&status), &status["failures"][0]["message"]),
        (
            vec![2, 0, 0, 2, 0],
            &json!("job exceeds activeDeadlineSeconds")
        )
    );
    assert_eq!(jobs.asked_for_caches(), started + 2);
    jobs.assert_quiet().await;
}

#[tokio::test(start_paused = true)]
async fn one_that_somebody_deletes_again_and_again_is_made_less_and_less_often() {
    let jobs = Jobs::beside_eci(0).await;
    jobs.serve_image_caches().await;
    let _life = jobs.caching_controller();
    jobs.create(
        ONE,
        "never",
        json!({"image": image(0), "completionPolicy": {"type": "Never"}}),
    )
    .await;
    for _ in 0..360 {
        jobs.wait(10).await;
        for cache in jobs.caches() {
            let path = format!("{CACHES}/{}", cache["metadata"]["name"].as_str().unwrap());
            jobs.cluster
                .world
                .request(Method::DELETE, &path, JSON, &json!({}))
                .await;
        }
    }
    // After 1, 1, 2, 4, 8 and 16 min.
    assert_eq!(jobs.asked_for_caches(), 7);
}

#[tokio::test(start_paused = true)]
async fn a_namespace_has_half_of_the_fifty_at_most_also_where_the_watch_tells_of_them_late() {
    let jobs = Jobs::beside_eci(0).await;
    jobs.serve_image_caches().await;
    jobs.cluster.world.fault(Effect::Hang, |rule| {
        rule.verb(Verb::Watch).resource("imagecaches").times(1)
    });
    let _life = jobs.caching_controller();
    for number in 0..60 {
        jobs.create(
            ONE,
            &format!("j{number}"),
            json!({"image": image(number), "completionPolicy": {"type": "Never"}}),
        )
        .await;
    }
    jobs.wait(600).await;
    assert_eq!((jobs.caches().len(), jobs.asked_for_caches()), (25, 25));
    let waiting: Vec<_> = (0..60)
        .map(|number| {
            jobs.status(ONE, &format!("j{number}"))["message"]
                .as_str()
                .unwrap()
                .to_owned()
        })
        .collect();
    assert_eq!(
        waiting
            .iter()
            .filter(|message| message.contains("there are 25 ImageCaches of swaplet already"))
            .count(),
        35,
        "{waiting:#?}"
    );
    let name = jobs.caches()[0]["metadata"]["name"]
        .as_str()
        .unwrap()
        .to_owned();
    jobs.delete_cache(&name).await;
    jobs.wait(60).await;
    assert_eq!(
        (jobs.caches().len(), jobs.asked_for_caches()),
        (25, 26),
        "another one has its turn"
    );
}
