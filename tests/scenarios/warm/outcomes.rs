//! What becomes of each image on each node.

use super::*;

#[tokio::test(start_paused = true)]
async fn never_more_nodes_pull_than_parallelism_says_and_all_become_warm() {
    let (nodes, count) = CROWD;
    let cluster = Cluster::with_kubelets(nodes, &ImageOptions::default()).await;
    let most = watch_nodes(&cluster);
    let told = cluster.warm(job(images(count), 5)).await;
    told.assert_warm();
    assert_eq!(told.ends().len(), nodes * count);
    assert_eq!(
        *most.lock().unwrap(),
        (5, 5),
        "all slots are used, and no more"
    );
    let writes = cluster.writes().len();
    assert_eq!(
        writes,
        nodes * (count + 1),
        "one write for each image, the first of them a creation, and one deletion per node"
    );
    let pulls = told
        .news
        .iter()
        .filter(|news| matches!(news, News::Ended(ended) if ended.pulled.is_some()))
        .count();
    assert_eq!(
        pulls,
        nodes * count,
        "the kubelet's own words about every pull"
    );
    cluster.assert_quiet().await;
}

#[tokio::test(start_paused = true)]
async fn w4_a_missing_image_fails_with_its_reason_and_keeps_nobody_waiting() {
    let cluster = Cluster::with_kubelets(2, &missing("registry.example/app1:*")).await;
    let told = cluster.warm(job(images(4), 2)).await;
    let failed = told.failed();
    assert_eq!(
        failed.keys().collect::<Vec<_>>(),
        ["n0 registry.example/app1:v1", "n1 registry.example/app1:v1"]
    );
    assert!(
        failed
            .values()
            .all(|why| why.contains("ErrImagePull") && why.contains("not found")),
        "{failed:?}"
    );
    let ended: Vec<_> = told
        .news
        .iter()
        .filter_map(|news| {
            if let News::Ended(ended) = news {
                Some(&*ended.image)
            } else {
                None
            }
        })
        .collect();
    assert_eq!(
        ended[6..],
        ["registry.example/app1:v1"; 2],
        "the others come first"
    );
    cluster.assert_quiet().await;
}

#[tokio::test(start_paused = true)]
async fn a_registry_that_recovers_is_no_failure() {
    let cluster = Cluster::with_kubelets(1, &missing("registry.example/app*:*")).await;
    let node = cluster.nodes["n0"].clone();
    tokio::spawn(async move {
        sleep(Duration::from_secs(15)).await;
        node.set_missing_images(Vec::new());
    });
    let told = cluster.warm(job(images(2), 1)).await;
    told.assert_warm();
    cluster.assert_quiet().await;
}

#[tokio::test(start_paused = true)]
async fn w7_virtual_nodes_are_skipped_and_nothing_is_written_for_them() {
    let mut cluster = Cluster::with_kubelets(1, &ImageOptions::default()).await;
    cluster.start(NodeOptions::new("vk", Profile::updates()));
    let fargate = BTreeMap::from([(
        "eks.amazonaws.com/compute-type".to_owned(),
        "fargate".to_owned(),
    )]);
    cluster.start(NodeOptions {
        labels: fargate,
        ..NodeOptions::new("fargate", Profile::kubelet())
    });
    sleep(Duration::from_secs(5)).await;
    let told = cluster.warm(job(images(2), 5)).await;
    told.assert_warm();
    assert_eq!(told.ends().len(), 2);
    let News::Nodes {
        warmable: 1,
        skipped,
    } = &told.news[0]
    else {
        panic!("{:?}", told.news[0])
    };
    assert_eq!(
        skipped.iter().map(|(node, _)| &**node).collect::<Vec<_>>(),
        ["fargate", "vk"]
    );
    let only_virtual = Job {
        names: BTreeSet::from(["vk".to_owned()]),
        ..job(images(2), 5)
    };
    let before = cluster.writes().len();
    let told = cluster.warm(only_virtual).await;
    assert!(told.ends().is_empty() && told.finished.unwrap().warming.skipped().len() == 1);
    assert_eq!(cluster.writes().len(), before);
    cluster.assert_quiet().await;
}

#[tokio::test(start_paused = true)]
async fn w3_a_pull_that_does_not_end_is_given_up_and_the_node_goes_on() {
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
    let told = cluster.warm(job(images(2), 1)).await;
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
async fn nodes_that_are_not_there_are_an_error_that_names_them() {
    let cluster = Cluster::with_kubelets(1, &ImageOptions::default()).await;
    let named = Job {
        names: BTreeSet::from(["n0".to_owned(), "typo".to_owned()]),
        ..job(images(1), 1)
    };
    assert_eq!(
        cluster.warm(named).await.finished.unwrap_err().to_string(),
        "there is no node typo among those selected"
    );
    let selected = Job {
        selector: "pool=none".to_owned(),
        ..job(images(1), 1)
    };
    assert_eq!(
        cluster
            .warm(selected)
            .await
            .finished
            .unwrap_err()
            .to_string(),
        "no node matches the selector \"pool=none\""
    );
    assert!(cluster.writes().is_empty());
}

/// The kubelet shows the first failure until its second pull has ended.
#[tokio::test(start_paused = true)]
async fn u25_a_slow_pull_after_one_that_failed_is_not_counted_as_failed() {
    let slow = vec![(
        "registry.example/app0:*".parse().unwrap(),
        Duration::from_secs(60),
    )];
    let cluster = Cluster::with_kubelets(
        1,
        &ImageOptions {
            slow,
            ..missing("registry.example/app0:*")
        },
    )
    .await;
    let node = cluster.nodes["n0"].clone();
    tokio::spawn(async move {
        sleep(Duration::from_secs(70)).await;
        node.set_missing_images(Vec::new());
    });
    let mut job = job(images(1), 1);
    job.limits.backoff_limit = 1;
    cluster.warm(job).await.assert_warm();
    cluster.assert_quiet().await;
}
