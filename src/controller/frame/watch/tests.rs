use k8s_openapi::api::core::v1::Pod;
use kube::api::{ApiResource, DynamicObject, PostParams};
use serde_json::json;
use swaplet_core::objects::pod::wire::PodWire;
use swaplet_testbed::apiserver::{Effect, Rule, Verb};
use swaplet_testbed::{ApiServer, Clock};

use super::*;

#[tokio::test(start_paused = true)]
async fn bug3_a_watch_ends_as_soon_as_nobody_listens() {
    let server = ApiServer::new(Clock::default());
    let ages = WatchAges::default();
    let mut events = watch(
        Api::<Pod>::all(server.client_as("test")),
        ListParams::default(),
        &ages,
    );
    while !matches!(events.recv().await, Some(Event::Current(_))) {}
    assert_eq!(ages.all().len(), 1);
    drop(events);
    sleep(Duration::from_millis(1)).await;
    assert_eq!(ages.all().len(), 0, "not only when the server ends it");
}

/// Nothing else would show what it was about.
#[tokio::test(start_paused = true)]
async fn d3_after_an_object_that_cannot_be_decoded_all_are_listed_and_the_others_read() {
    let server = ApiServer::new(Clock::default());
    server.set_webhook(|_, object| {
        if object["metadata"]["name"] == "odd" {
            object["spec"]["terminationGracePeriodSeconds"] = "many".into();
        }
    });
    let pods = Api::<DynamicObject>::default_namespaced_with(
        server.client_as("user"),
        &ApiResource::erase::<Pod>(&()),
    );
    let mut events = watch(
        Api::<PodWire>::all(server.client_as("test")),
        ListParams::default(),
        &WatchAges::default(),
    );
    while !matches!(events.recv().await, Some(Event::Current(_))) {}
    for name in ["even", "odd"] {
        let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
            "spec": {"containers": [{"name": "c", "image": "i"}]}});
        let pod = serde_json::from_value(pod).unwrap();
        pods.create(&PostParams::default(), &pod).await.unwrap();
    }
    let began = Instant::now();
    let mut listed = BTreeMap::new();
    while listed.len() < 2 {
        if let Event::Listed(pod) = events.recv().await.unwrap() {
            listed.insert(pod.meta().name.clone().unwrap(), pod.read().is_some());
        }
    }
    assert_eq!(
        listed,
        BTreeMap::from([("even".to_owned(), true), ("odd".to_owned(), false)])
    );
    assert!(began.elapsed() < SILENT, "{:?}", began.elapsed());
}

/// As a busy server does with whoever it cannot serve in time: what came is no failure.
#[tokio::test(start_paused = true)]
async fn watches_that_end_after_events_follow_each_other_without_longer_pauses() {
    let server = ApiServer::new(Clock::default());
    let pods = Api::<Pod>::default_namespaced(server.client_as("user"));
    let mut events = watch(
        Api::<Pod>::all(server.client_as("test")),
        ListParams::default(),
        &WatchAges::default(),
    );
    while !matches!(events.recv().await, Some(Event::Current(_))) {}
    let _rule = server
        .faults()
        .add(Rule::new(Effect::CloseWatch(1)).verb(Verb::Watch));
    let began = Instant::now();
    for number in 0..50 {
        let pod = serde_json::from_value(json!({"metadata": {"name": format!("p{number}")},
            "spec": {"containers": [{"name": "c", "image": "i"}]}}));
        pods.create(&PostParams::default(), &pod.unwrap())
            .await
            .unwrap();
    }
    let mut seen = 0;
    while seen < 50 {
        seen += usize::from(matches!(events.recv().await, Some(Event::Applied(_))));
    }
    assert!(began.elapsed() < 60 * PAUSE.first, "{:?}", began.elapsed());
}
