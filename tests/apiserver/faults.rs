//! Faults by rule.

use std::time::Duration;

use futures::{StreamExt as _, pin_mut};
use kube::api::{ListParams, WatchParams};
use serde_json::json;
use swaplet_testbed::apiserver::{Effect, Rule, Verb};
use tokio::time::timeout;

use super::common::{create, pods, refusal, server, set_status, swap};

#[tokio::test(start_paused = true)]
async fn replies_meet_only_what_they_match() {
    let (server, client) = server();
    create(&client, "p").await;
    let rule = server.faults().add(
        Rule::new(Effect::reply(429).retry_after(3))
            .verb(Verb::Patch)
            .resource("pods")
            .after(1)
            .times(2),
    );
    assert!(swap(&client, "p", "side:1", "side:2").await.is_ok());
    assert_eq!(refusal(swap(&client, "p", "side:2", "side:3").await).0, 429);
    assert_eq!(refusal(swap(&client, "p", "side:2", "side:3").await).0, 429);
    assert!(pods(&client).get("p").await.is_ok());
    assert!(swap(&client, "p", "side:2", "side:3").await.is_ok());
    assert_eq!(server.faults().hits(rule), 4);
}

#[tokio::test(start_paused = true)]
async fn a_lost_answer_has_taken_effect() {
    let (server, client) = server();
    create(&client, "p").await;
    server
        .faults()
        .add(Rule::new(Effect::ApplyThenDrop).verb(Verb::Patch).times(1));
    server.faults().add(
        Rule::new(Effect::ApplyThenReply(Effect::reply(504)))
            .verb(Verb::Patch)
            .times(1),
    );
    assert!(matches!(
        swap(&client, "p", "side:1", "a").await,
        Err(kube::Error::Service(_))
    ));
    assert_eq!(refusal(swap(&client, "p", "a", "b").await).0, 504);
    assert_eq!(
        server.peek("pods", "default", "p").unwrap()["spec"]["containers"][1]["image"],
        "b"
    );
    assert_eq!(
        server
            .recorded()
            .iter()
            .filter(|request| request.is_write())
            .count(),
        3
    );
}

#[tokio::test(start_paused = true)]
async fn hangs_delays_and_drops() {
    let (server, client) = server();
    create(&client, "p").await;
    let hang = server.faults().add(Rule::new(Effect::Hang).verb(Verb::Get));
    assert!(
        timeout(Duration::from_secs(3600), pods(&client).get("p"))
            .await
            .is_err()
    );
    server.faults().remove(hang);
    server.faults().add(
        Rule::new(Effect::Delay(Duration::from_secs(7)))
            .verb(Verb::Get)
            .times(1),
    );
    let start = server.clock().now();
    pods(&client).get("p").await.unwrap();
    assert_eq!(server.clock().since(start), Duration::from_secs(7));
    server
        .faults()
        .add(Rule::new(Effect::Drop).verb(Verb::Patch));
    assert!(swap(&client, "p", "side:1", "x").await.is_err());
    assert_eq!(
        server.peek("pods", "default", "p").unwrap()["spec"]["containers"][1]["image"],
        "side:1"
    );
}

#[tokio::test(start_paused = true)]
async fn a_held_watch_catches_up() {
    let (server, client) = server();
    let stream = pods(&client)
        .watch(&WatchParams::default().disable_bookmarks(), "0")
        .await
        .unwrap();
    pin_mut!(stream);
    create(&client, "a").await;
    assert!(stream.next().await.is_some());
    let hold = server
        .faults()
        .add(Rule::new(Effect::HoldWatch).verb(Verb::Watch));
    set_status(&client, "a", json!({"phase": "Running"}))
        .await
        .unwrap();
    assert!(
        timeout(Duration::from_secs(100), stream.next())
            .await
            .is_err()
    );
    server.faults().remove(hold);
    assert!(
        timeout(Duration::from_secs(1), stream.next())
            .await
            .unwrap()
            .is_some()
    );
}

#[tokio::test(start_paused = true)]
async fn events_are_skipped_and_watches_closed_or_garbled() {
    let (server, client) = server();
    server.faults().add(
        Rule::new(Effect::SkipEvents(0, 1))
            .verb(Verb::Watch)
            .times(1),
    );
    create(&client, "a").await;
    create(&client, "b").await;
    let watch = async || {
        pods(&client)
            .watch(&WatchParams::default().timeout(5), "0")
            .await
            .unwrap()
            .collect::<Vec<_>>()
            .await
    };
    assert_eq!(watch().await.len(), 1);
    server.faults().clear();
    server
        .faults()
        .add(Rule::new(Effect::CloseWatch(1)).verb(Verb::Watch).times(1));
    assert_eq!(watch().await.len(), 1);
    server
        .faults()
        .add(Rule::new(Effect::Garbage(0)).verb(Verb::Watch).times(1));
    assert!(watch().await[0].is_err());
    assert_eq!(watch().await.len(), 2);
}

#[tokio::test(start_paused = true)]
async fn lists_go_back_in_time() {
    let (server, client) = server();
    create(&client, "a").await;
    let before = server.revision();
    create(&client, "b").await;
    server.faults().add(
        Rule::new(Effect::ReplayList(before))
            .verb(Verb::List)
            .times(1),
    );
    let count = async || {
        pods(&client)
            .list(&ListParams::default())
            .await
            .unwrap()
            .items
            .len()
    };
    assert_eq!((count().await, count().await), (1, 2));
}

#[tokio::test(start_paused = true)]
async fn tells_clients_apart() {
    let (server, _) = server();
    let (good, bad) = (server.client_as("good"), server.client_as("bad"));
    server
        .faults()
        .add(Rule::new(Effect::reply(403)).user_agent("bad"));
    assert!(pods(&good).list(&ListParams::default()).await.is_ok());
    assert_eq!(
        refusal(pods(&bad).list(&ListParams::default()).await).0,
        403
    );
    assert_eq!(server.recorded()[0].user_agent, "good");
}
