//! What disturbs a run: a stop, pods and nodes that go away, answers that are lost, missing rights.

use tokio::time::timeout;

use super::*;

#[tokio::test(start_paused = true)]
async fn stopped_in_the_middle_it_leaves_no_pod_behind() {
    let slow = ImageOptions {
        pull: Duration::from_secs(60),
        ..ImageOptions::default()
    };
    let cluster = Cluster::with_kubelets(3, &slow).await;
    let told = cluster
        .warm_until(job(images(3), 3), sleep(Duration::from_secs(20)))
        .await;
    assert!(told.finished.as_ref().unwrap().interrupted);
    assert!(
        told.ends().values().all(|end| end == "open"),
        "nothing is claimed: {:?}",
        told.ends()
    );
    cluster.assert_quiet().await;
}

#[tokio::test(start_paused = true)]
async fn stopped_while_a_creation_is_under_way_it_leaves_no_pod_behind() {
    let cluster = Cluster::with_kubelets(1, &ImageOptions::default()).await;
    cluster.fault(Effect::Delay(Duration::from_secs(4)), |rule| {
        rule.verb(Verb::Create).resource("pods")
    });
    cluster.fault(Effect::reply(500), |rule| rule.verb(Verb::Delete).times(2));
    let told = cluster
        .warm_until(job(images(1), 1), sleep(Duration::from_secs(2)))
        .await;
    assert!(told.finished.unwrap().interrupted);
    cluster.assert_quiet().await;
}

#[tokio::test(start_paused = true)]
async fn w12_a_pod_that_somebody_deletes_is_made_again() {
    let slow = ImageOptions {
        pull: Duration::from_secs(10),
        ..ImageOptions::default()
    };
    let cluster = Cluster::with_kubelets(1, &slow).await;
    let disturbance = async {
        sleep(Duration::from_secs(15)).await;
        let pods = cluster.pods();
        cluster.delete_pod(&pods[0]).await;
    };
    let (told, ()) = futures::join!(cluster.warm(job(images(3), 1)), disturbance);
    told.assert_warm();
    let creations = cluster
        .writes()
        .iter()
        .filter(|write| write.verb == Verb::Create)
        .count();
    assert_eq!(creations, 2);
    cluster.assert_quiet().await;
}

#[tokio::test(start_paused = true)]
async fn w11_a_node_that_goes_away_ends_and_the_others_go_on() {
    let slow = ImageOptions {
        pull: Duration::from_secs(30),
        ..ImageOptions::default()
    };
    let cluster = Cluster::with_kubelets(2, &slow).await;
    let disturbance = async {
        sleep(Duration::from_secs(10)).await;
        cluster
            .world
            .request(Method::DELETE, "/api/v1/nodes/n0", JSON, &json!({}))
            .await;
    };
    let (told, ()) = futures::join!(cluster.warm(job(images(2), 2)), disturbance);
    let failed = told.failed();
    assert!(
        failed.len() == 2
            && failed.iter().all(
                |(what, why)| what.starts_with("n0 ") && why.starts_with("the node is deleted")
            ),
        "{failed:?}"
    );
    cluster.assert_quiet().await;
}

/// Every write once: lost on the way, lost on the way back, refused for a moment.
#[tokio::test(start_paused = true)]
async fn w22_no_answer_makes_a_second_pod_or_a_false_success() {
    let effects = [
        Effect::Drop,
        Effect::ApplyThenDrop,
        Effect::ApplyThenReply(Effect::reply(504)),
        Effect::Hang,
        Effect::from(Effect::reply(429).retry_after(3)),
        Effect::from(Effect::reply(500)),
    ];
    for effect in effects {
        let cluster = Cluster::with_kubelets(2, &missing("registry.example/app1:*")).await;
        let most = watch_nodes(&cluster);
        for verb in [Verb::Create, Verb::Patch, Verb::Delete] {
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
async fn w22_watches_that_end_expire_or_start_anew_lose_nothing() {
    for effect in [
        Effect::CloseWatch(2),
        Effect::ExpireWatch(2),
        Effect::Garbage(1),
    ] {
        let cluster = Cluster::with_kubelets(2, &ImageOptions::default()).await;
        cluster.fault(effect.clone(), |rule| rule.verb(Verb::Watch).times(12));
        let told = cluster.warm(job(images(3), 2)).await;
        told.assert_warm();
        cluster.assert_quiet().await;
    }
}

#[tokio::test(start_paused = true)]
async fn without_the_right_to_see_events_only_times_and_sizes_are_missing() {
    let cluster = Cluster::with_kubelets(1, &ImageOptions::default()).await;
    cluster.fault(Effect::reply(403), |rule| rule.resource("events"));
    let told = cluster.warm(job(images(2), 1)).await;
    told.assert_warm();
    assert!(
        told.news
            .iter()
            .all(|news| !matches!(news, News::Ended(ended) if ended.pulled.is_some()))
    );
    cluster.assert_quiet().await;
}

#[tokio::test(start_paused = true)]
async fn without_the_right_to_see_pods_or_nodes_nothing_is_written() {
    for (resource, what) in [
        ("pods", "cannot watch pods"),
        ("nodes", "cannot watch nodes"),
    ] {
        let cluster = Cluster::with_kubelets(1, &ImageOptions::default()).await;
        cluster.fault(Effect::reply(403), |rule| rule.resource(resource));
        let told = timeout(Duration::from_secs(1), cluster.warm(job(images(2), 1)))
            .await
            .unwrap();
        assert!(told.finished.unwrap_err().to_string().starts_with(what));
        assert!(cluster.writes().is_empty() && cluster.pods().is_empty());
    }
}

/// `jiff` reads no time as late as this one, which Kubernetes stores.
#[tokio::test(start_paused = true)]
async fn d3_an_event_that_cannot_be_read_hides_no_pull() {
    let cluster = Cluster::with_kubelets(1, &ImageOptions::default()).await;
    cluster.world.server.set_webhook(|resource, object| {
        if resource == "events" && object["metadata"]["name"] == "late" {
            object["lastTimestamp"] = "9999-12-31T23:59:59Z".into();
        }
    });
    let about = json!({"kind": "Pod", "namespace": NAMESPACE, "name": "p"});
    let event = json!({"apiVersion": "v1", "kind": "Event", "metadata": {"name": "late"}, "involvedObject": about, "reason": "Pulled"});
    let path = format!("/api/v1/namespaces/{NAMESPACE}/events");
    cluster
        .world
        .request(Method::POST, &path, JSON, &event)
        .await;
    let told = cluster.warm(job(images(2), 1)).await;
    told.assert_warm();
    let is_pull = |news: &&News| matches!(news, News::Ended(ended) if ended.pulled.is_some());
    assert_eq!(told.news.iter().filter(is_pull).count(), 2);
    cluster.assert_quiet().await;
}

/// The annotations of the swap are stored, and its image is not.
#[tokio::test(start_paused = true)]
async fn u30_an_image_whose_swap_a_webhook_undoes_is_pulled_by_another_pod() {
    let cluster = Cluster::with_kubelets(1, &ImageOptions::default()).await;
    crate::webhooks::Webhook::Undoes.install(&cluster.world, "pods");
    let mut job = job(images(3), 1);
    job.limits.backoff_limit = 0;
    cluster.warm(job).await.assert_warm();
    let creations = cluster
        .writes()
        .into_iter()
        .filter(|write| write.verb == Verb::Create);
    assert_eq!(creations.count(), 3);
    cluster.assert_quiet().await;
}
