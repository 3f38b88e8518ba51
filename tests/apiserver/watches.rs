//! Watches and virtual time.

use std::time::Duration;

use futures::{Stream, StreamExt as _, pin_mut};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;
use kube::api::{WatchEvent, WatchParams};
use kube::runtime::{WatchStreamExt as _, watcher};
use serde_json::json;

use super::common::{create, pods, server, set_status, swap};

fn line(event: kube::Result<WatchEvent<Pod>>) -> String {
    match event.unwrap() {
        WatchEvent::Added(pod) => format!("added {}", pod.name_any()),
        WatchEvent::Modified(pod) => format!("modified {}", pod.name_any()),
        WatchEvent::Deleted(pod) => format!("deleted {}", pod.name_any()),
        WatchEvent::Bookmark(mark) => format!("bookmark {}", mark.metadata.resource_version),
        WatchEvent::Error(status) => format!("error {} {}", status.code, status.reason),
    }
}

async fn take(
    stream: impl Stream<Item = kube::Result<WatchEvent<Pod>>>,
    count: usize,
) -> Vec<String> {
    stream.take(count).map(line).collect().await
}

#[tokio::test(start_paused = true)]
async fn sees_objects_come_and_go_through_a_selector() {
    let (_server, client) = server();
    create(&client, "a").await;
    let params = WatchParams::default().fields("status.phase=Running");
    let stream = pods(&client).watch(&params, "0").await.unwrap();
    pin_mut!(stream);
    set_status(&client, "a", json!({"phase": "Running"}))
        .await
        .unwrap();
    swap(&client, "a", "side:1", "exit:1").await.unwrap();
    set_status(&client, "a", json!({"phase": "Succeeded"}))
        .await
        .unwrap();
    assert_eq!(
        take(&mut stream, 3).await,
        ["added a", "modified a", "deleted a"]
    );
}

#[tokio::test(start_paused = true)]
async fn goes_on_from_a_version_and_ends_in_time() {
    let (server, client) = server();
    create(&client, "a").await;
    let from = server.revision().to_string();
    create(&client, "b").await;
    let clock = server.clock();
    let start = clock.now();
    let stream = pods(&client)
        .watch(&WatchParams::default().timeout(290), &from)
        .await
        .unwrap();
    // One bookmark a minute, one shortly before the end: all of it without waiting.
    let lines: Vec<_> = stream.map(line).collect().await;
    assert_eq!(
        lines
            .iter()
            .filter(|line| line.starts_with("bookmark"))
            .count(),
        5
    );
    assert_eq!(lines[0], "added b");
    assert_eq!(clock.since(start), Duration::from_secs(290));
}

#[tokio::test(start_paused = true)]
async fn a_last_bookmark_comes_where_the_version_has_moved() {
    let (server, client) = server();
    create(&client, "a").await;
    let lines = async |from: u64| {
        let stream = pods(&client)
            .watch(&WatchParams::default().timeout(45), &from.to_string())
            .await
            .unwrap();
        stream.map(line).collect::<Vec<_>>().await
    };
    assert_eq!(lines(server.revision()).await, [""; 0]);
    let now = server.revision();
    assert_eq!(
        lines(now - 1).await,
        ["added a".to_owned(), format!("bookmark {now}")]
    );
}

/// Measured on 1.34: neither an error nor a bookmark, and no event before its version.
#[tokio::test(start_paused = true)]
async fn f5_a_watch_from_the_future_is_silent_until_its_version_is_passed() {
    let (server, client) = server();
    create(&client, "a").await;
    let from = (server.revision() + 1).to_string();
    let watch = async |timeout| {
        pods(&client)
            .watch(&WatchParams::default().timeout(timeout), &from)
            .await
            .unwrap()
    };
    assert_eq!(watch(290).await.count().await, 0);
    let stream = watch(290).await;
    pin_mut!(stream);
    create(&client, "b").await;
    create(&client, "c").await;
    assert_eq!(take(&mut stream, 1).await, ["added c"]);
}

/// As etcd from a backup: what came after it is gone, and its versions are given anew.
#[tokio::test(start_paused = true)]
async fn f5_a_server_can_be_restored() {
    let (server, client) = server();
    create(&client, "a").await;
    let before = server.revision();
    swap(&client, "a", "side:1", "exit:1").await.unwrap();
    create(&client, "b").await;
    let uid = server.peek("pods", "default", "b").unwrap()["metadata"]["uid"].clone();
    server.restore(before);
    assert_eq!(
        (server.revision(), server.peek_all("pods").len()),
        (before, 1)
    );
    assert_eq!(
        server.peek("pods", "default", "a").unwrap()["spec"]["containers"][1]["image"],
        "side:1"
    );
    create(&client, "b").await;
    assert_eq!(server.revision(), before + 1);
    assert_ne!(
        server.peek("pods", "default", "b").unwrap()["metadata"]["uid"],
        uid
    );
}

#[tokio::test(start_paused = true)]
async fn compaction_ends_old_watches_with_410() {
    let (server, client) = server();
    create(&client, "a").await;
    let from = server.revision().to_string();
    create(&client, "b").await;
    server.compact();
    let stream = pods(&client)
        .watch(&WatchParams::default(), &from)
        .await
        .unwrap();
    let lines: Vec<_> = stream.map(line).collect().await;
    assert_eq!(lines, ["error 410 Expired"]);
}

#[tokio::test(start_paused = true)]
async fn streams_the_initial_list() {
    let (_server, client) = server();
    create(&client, "a").await;
    let stream = pods(&client)
        .watch(&WatchParams::default().initial_events(), "0")
        .await
        .unwrap();
    let lines = take(stream, 2).await;
    assert_eq!(lines[0], "added a");
    assert!(lines[1].starts_with("bookmark"));
}

#[tokio::test(start_paused = true)]
async fn the_runtime_watcher_relists_after_410() {
    let (server, client) = server();
    create(&client, "a").await;
    let stream = watcher(pods(&client), watcher::Config::default())
        .default_backoff()
        .touched_objects();
    pin_mut!(stream);
    assert_eq!(stream.next().await.unwrap().unwrap().name_any(), "a");
    let rule =
        swaplet_testbed::apiserver::Rule::new(swaplet_testbed::apiserver::Effect::ExpireWatch(0))
            .times(1);
    server.faults().add(rule);
    let mut names = Vec::new();
    while names.len() < 2 {
        // The error comes first, then the new list.
        match stream.next().await.unwrap() {
            Ok(pod) => names.push(pod.name_any()),
            Err(error) => names.push(
                format!("{error}")
                    .split(':')
                    .next()
                    .unwrap_or_default()
                    .to_owned(),
            ),
        }
    }
    assert_eq!(names[1], "a");
    let lists = server
        .recorded()
        .iter()
        .filter(|request| request.verb == swaplet_testbed::apiserver::Verb::List)
        .count();
    assert_eq!(lists, 2);
}
