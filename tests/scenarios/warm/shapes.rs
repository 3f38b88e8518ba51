//! Warming on Windows, by containers that nothing can start, and where swaps are forbidden.

use super::*;

impl Cluster {
    /// A cluster whose nodes run Windows, where no park program runs.
    pub async fn of_windows(count: usize, images: &ImageOptions) -> Self {
        let mut cluster = Self::new().await;
        for number in 0..count {
            let labels = [("kubernetes.io/os".to_owned(), "windows".to_owned())];
            cluster.start(NodeOptions {
                labels: labels.into(),
                images: images.clone(),
                ..NodeOptions::new(&format!("n{number}"), Profile::kubelet())
            });
        }
        sleep(Duration::from_secs(5)).await;
        cluster
    }

    /// What the kubelets have said of containers, by reason.
    fn said(&self, reason: &str) -> usize {
        self.world
            .server
            .peek_all("events")
            .iter()
            .filter(|event| event["reason"] == reason)
            .count()
    }

    fn creations(&self) -> Vec<Value> {
        self.writes()
            .into_iter()
            .filter(|write| write.verb == Verb::Create)
            .map(|write| write.body)
            .collect()
    }
}

#[tokio::test(start_paused = true)]
async fn a_dozen_images_take_two_pods_per_node_and_nothing_is_ever_started() {
    let cluster = Cluster::of_windows(3, &ImageOptions::default()).await;
    let most = watch_nodes(&cluster);
    let told = cluster.warm(job(images(12), 2)).await;
    told.assert_warm();
    assert_eq!(told.ends().len(), 36);
    assert_eq!(
        *most.lock().unwrap(),
        (2, 2),
        "a pod of several images is one"
    );
    let counts: BTreeSet<_> = cluster
        .creations()
        .iter()
        .map(|pod| pod["spec"]["containers"].as_array().unwrap().len())
        .collect();
    assert_eq!(
        (cluster.creations().len(), counts),
        (6, BTreeSet::from([4, 8]))
    );
    assert_eq!(
        cluster.writes().len(),
        12,
        "a creation and a deletion for each pod"
    );
    assert_eq!((cluster.said("Created"), cluster.said("Started")), (36, 0));
    let pulls = told
        .news
        .iter()
        .filter(|news| matches!(news, News::Ended(ended) if ended.pulled.is_some()))
        .count();
    assert_eq!(pulls, 36, "the kubelet's own words about every pull");
    cluster.assert_quiet().await;
}

#[tokio::test(start_paused = true)]
async fn a_missing_image_keeps_nobody_waiting_and_fails_with_its_reason() {
    let cluster = Cluster::of_windows(1, &missing("registry.example/app1:*")).await;
    let failed = cluster.warm(job(images(12), 1)).await.failed();
    assert_eq!(
        failed.keys().collect::<Vec<_>>(),
        ["n0 registry.example/app1:v1"]
    );
    assert!(
        failed
            .values()
            .all(|why| why.contains("ErrImagePull") && why.contains("not found")),
        "{failed:?}"
    );
    cluster.assert_quiet().await;
}

#[tokio::test(start_paused = true)]
async fn a_pull_that_does_not_end_costs_its_own_tries_and_no_other_image() {
    let slow = vec![(
        "registry.example/app0:*".parse().unwrap(),
        Duration::from_secs(100_000),
    )];
    let cluster = Cluster::of_windows(
        1,
        &ImageOptions {
            slow,
            ..ImageOptions::default()
        },
    )
    .await;
    let told = cluster.warm(job(images(3), 1)).await;
    assert_eq!(
        told.failed(),
        BTreeMap::from([(
            "n0 registry.example/app0:v1".to_owned(),
            "not pulled within 120 s".to_owned()
        )])
    );
    cluster.assert_quiet().await;
}

#[tokio::test(start_paused = true)]
async fn a_windows_node_gets_a_pod_for_windows() {
    let cluster = Cluster::of_windows(1, &ImageOptions::default()).await;
    cluster.warm(job(images(2), 1)).await.assert_warm();
    let made = cluster.creations();
    let [pod] = &made[..] else { panic!("{made:?}") };
    assert_eq!(pod["spec"]["os"]["name"], "windows");
    assert!(pod["spec"]["securityContext"]["seccompProfile"].is_null());
    assert!(pod["spec"]["containers"][1]["securityContext"].is_null());
    assert_eq!(cluster.said("Started"), 0);
    cluster.assert_quiet().await;
}

#[tokio::test(start_paused = true)]
async fn where_a_policy_forbids_swaps_each_image_is_pulled_by_a_pod_of_its_own() {
    for code in [403, 422] {
        let cluster = Cluster::with_kubelets(2, &ImageOptions::default()).await;
        cluster.fault(Effect::reply(code), |rule| {
            rule.verb(Verb::Patch).resource("pods")
        });
        cluster.warm(job(images(5), 2)).await.assert_warm();
        let denied = |write: &Recorded| write.verb == Verb::Patch;
        assert_eq!(
            (
                cluster.creations().len(),
                cluster
                    .writes()
                    .iter()
                    .filter(|write| denied(write))
                    .count()
            ),
            (10, 8),
            "one try of a swap for each image but the first"
        );
        cluster.assert_quiet().await;
    }
}

#[tokio::test(start_paused = true)]
async fn no_answer_makes_a_second_pod_or_a_false_success() {
    for effect in [
        Effect::Drop,
        Effect::ApplyThenDrop,
        Effect::Hang,
        Effect::from(Effect::reply(500)),
    ] {
        let cluster = Cluster::of_windows(2, &missing("registry.example/app1:*")).await;
        let most = watch_nodes(&cluster);
        for verb in [Verb::Create, Verb::Delete] {
            cluster.fault(effect.clone(), |rule| {
                rule.verb(verb).resource("pods").times(2)
            });
        }
        let told = cluster.warm(job(images(3), 1)).await;
        assert_eq!(told.failed().len(), 2, "{effect:?}: {:?}", told.failed());
        assert_eq!(*most.lock().unwrap(), (1, 1), "{effect:?}");
        cluster.assert_quiet().await;
    }
}

#[tokio::test(start_paused = true)]
async fn stopped_in_the_middle_it_leaves_no_pod_behind() {
    let slow = ImageOptions {
        pull: Duration::from_secs(60),
        ..ImageOptions::default()
    };
    let cluster = Cluster::of_windows(2, &slow).await;
    let told = cluster
        .warm_until(job(images(3), 2), sleep(Duration::from_secs(20)))
        .await;
    assert!(told.finished.as_ref().unwrap().interrupted);
    assert!(
        told.ends().values().all(|end| end == "open"),
        "nothing is claimed: {:?}",
        told.ends()
    );
    cluster.assert_quiet().await;
}
