use k8s_openapi::api::core::v1::Pod;
use swaplet_testbed::{ApiServer, Clock};

use super::*;

#[tokio::test(start_paused = true)]
async fn bug3_a_watch_ends_as_soon_as_nobody_listens() {
    let server = ApiServer::new(Clock::default());
    let ages = WatchAges::default();
    let mut events = watch_noted(
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
