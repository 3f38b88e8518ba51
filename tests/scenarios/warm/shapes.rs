//! Warming where images cannot be swapped in place: by containers that nothing can start, and by
//! image volumes.

use swaplet_testbed::virtual_node::{KubeletOptions, KubeletVersion};

use super::*;

const IMPOSSIBLE: ShapeChoice = ShapeChoice::ImpossibleCommand;

fn impossible(count: usize, parallelism: usize) -> Job {
    Job {
        shape: IMPOSSIBLE,
        ..job(images(count), parallelism)
    }
}

impl Cluster {
    async fn with_labels(labels: &[(&str, &str)]) -> Self {
        let mut cluster = Self::new().await;
        let labels = labels
            .iter()
            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
            .collect();
        cluster.start(NodeOptions {
            labels,
            ..NodeOptions::new("n0", Profile::kubelet())
        });
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

fn other_shapes(told: &Told) -> usize {
    told.news
        .iter()
        .filter(|news| matches!(news, News::OtherShape { .. }))
        .count()
}

#[tokio::test(start_paused = true)]
async fn a_dozen_images_take_two_pods_per_node_and_nothing_is_ever_started() {
    let cluster = Cluster::with_kubelets(3, &ImageOptions::default()).await;
    let most = watch_nodes(&cluster);
    let told = cluster.warm(impossible(12, 2)).await;
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
    for shape in [IMPOSSIBLE, ShapeChoice::ImageVolumes] {
        let cluster = Cluster::with_kubelets(1, &missing("registry.example/app1:*")).await;
        let told = cluster
            .warm(Job {
                shape,
                ..job(images(12), 1)
            })
            .await;
        let failed = told.failed();
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
}

#[tokio::test(start_paused = true)]
async fn with_image_volumes_only_the_park_program_is_started() {
    let cluster = Cluster::with_kubelets(2, &ImageOptions::default()).await;
    let told = cluster
        .warm(Job {
            shape: ShapeChoice::ImageVolumes,
            ..job(images(12), 2)
        })
        .await;
    told.assert_warm();
    for pod in cluster.creations() {
        let containers = pod["spec"]["containers"].as_array().unwrap();
        assert!(
            containers
                .iter()
                .all(|container| container["image"] == PARK),
            "{pod}"
        );
    }
    assert_eq!(cluster.writes().len(), 8, "two pods for each node");
    let pulls = told
        .news
        .iter()
        .filter(|news| matches!(news, News::Ended(ended) if ended.pulled.is_some()))
        .count();
    assert_eq!(pulls, 24, "the kubelet's own words about every pull");
    cluster.assert_quiet().await;
    assert_eq!(
        (cluster.said("Started"), cluster.said("Killing")),
        (24, 24),
        "none has ended by itself"
    );
}

#[tokio::test(start_paused = true)]
async fn a_pull_that_does_not_end_costs_its_own_tries_and_no_other_image() {
    let slow = vec![(
        "registry.example/app0:*".parse().unwrap(),
        Duration::from_secs(100_000),
    )];
    let cluster = Cluster::with_kubelets(
        1,
        &ImageOptions {
            slow,
            ..ImageOptions::default()
        },
    )
    .await;
    let told = cluster.warm(impossible(3, 1)).await;
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
async fn nodes_without_a_park_program_get_pods_that_need_none() {
    for (key, value) in [
        ("kubernetes.io/os", "windows"),
        ("kubernetes.io/arch", "s390x"),
    ] {
        let cluster = Cluster::with_labels(&[(key, value)]).await;
        let told = cluster.warm(job(images(2), 1)).await;
        told.assert_warm();
        let made = cluster.creations();
        let [pod] = &made[..] else { panic!("{made:?}") };
        let is_windows = value == "windows";
        assert_eq!(pod["spec"]["os"]["name"] == "windows", is_windows);
        assert_eq!(
            pod["spec"]["securityContext"]["seccompProfile"].is_null(),
            is_windows
        );
        assert_eq!(
            pod["spec"]["containers"][1]["securityContext"].is_null(),
            is_windows
        );
        assert_eq!((cluster.said("Started"), other_shapes(&told)), (0, 0));
        cluster.assert_quiet().await;
    }
}

#[tokio::test(start_paused = true)]
async fn where_a_policy_forbids_swaps_the_others_are_pulled_all_the_same_and_it_is_told() {
    for code in [403, 422] {
        let cluster = Cluster::with_kubelets(2, &ImageOptions::default()).await;
        cluster.fault(Effect::reply(code), |rule| {
            rule.verb(Verb::Patch).resource("pods")
        });
        let told = cluster.warm(job(images(5), 2)).await;
        told.assert_warm();
        assert_eq!(
            (other_shapes(&told), cluster.creations().len()),
            (2, 4),
            "one pod in place, and one for the others"
        );
        cluster.assert_quiet().await;
        let only = Job {
            shape: ShapeChoice::InPlace,
            ..job(images(5), 2)
        };
        assert_eq!(
            cluster.warm(only).await.failed().len(),
            8,
            "but not where the operator wants swaps only"
        );
        cluster.assert_quiet().await;
    }
}

#[tokio::test(start_paused = true)]
async fn where_a_policy_forbids_swaps_kubelets_from_1_36_on_get_image_volumes() {
    let mut cluster = Cluster::new().await;
    cluster.start(NodeOptions::new(
        "n0",
        Profile::Kubelet(KubeletOptions::of(KubeletVersion::V1_36)),
    ));
    sleep(Duration::from_secs(5)).await;
    cluster.fault(Effect::reply(403), |rule| {
        rule.verb(Verb::Patch).resource("pods")
    });
    let told = cluster.warm(job(images(5), 1)).await;
    told.assert_warm();
    let made = cluster.creations();
    let volumes = made[1]["spec"]["volumes"].as_array().unwrap();
    let references: Vec<Box<str>> = volumes
        .iter()
        .map(|volume| volume["image"]["reference"].as_str().unwrap().into())
        .collect();
    assert_eq!(
        references,
        images(5)[1..],
        "what the pod in place has proved is not pulled again"
    );
    assert_eq!((other_shapes(&told), made.len()), (1, 2));
    cluster.assert_quiet().await;
}

#[tokio::test(start_paused = true)]
async fn no_answer_makes_a_second_pod_or_a_false_success() {
    for effect in [
        Effect::Drop,
        Effect::ApplyThenDrop,
        Effect::Hang,
        Effect::from(Effect::reply(500)),
    ] {
        let cluster = Cluster::with_kubelets(2, &missing("registry.example/app1:*")).await;
        let most = watch_nodes(&cluster);
        for verb in [Verb::Create, Verb::Delete] {
            cluster.fault(effect.clone(), |rule| {
                rule.verb(verb).resource("pods").times(2)
            });
        }
        let told = cluster.warm(impossible(3, 1)).await;
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
    let cluster = Cluster::with_kubelets(2, &slow).await;
    let told = cluster
        .warm_until(impossible(3, 2), sleep(Duration::from_secs(20)))
        .await;
    assert!(told.finished.as_ref().unwrap().interrupted);
    assert!(
        told.ends().values().all(|end| end == "open"),
        "nothing is claimed: {:?}",
        told.ends()
    );
    cluster.assert_quiet().await;
}
