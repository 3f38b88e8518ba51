//! A Lease that cannot be written: nothing is done, that is said once, and few requests are sent.

use swaplet_testbed::apiserver::{Effect, Verb};

use super::{A, NAMESPACE, Process};
use crate::harness::{World, exposition};
use crate::log::{keep_log, logged};
use crate::objects::pod;
use crate::prometheus::{EVERY, Prometheus};

#[tokio::test(start_paused = true)]
async fn without_the_right_to_lead_nothing_is_done_and_that_is_said() {
    let world = World::new();
    world.create_namespace(NAMESPACE).await;
    world.run_pod(&pod("p", "Never")).await;
    world.lease_fault(Effect::reply(403).message("leases is forbidden"), A);
    let a = Process::start(&world, A);
    world.ends("p", "main", 0).await;
    world.wait(60).await;
    assert_eq!(
        a.health.ready().unwrap_err(),
        "cannot read or write the Lease: leases is forbidden"
    );
    assert_eq!((world.patches("p"), world.lists()), (0, 0));
    assert!(
        world.requests().len() <= 61,
        "{} requests in a minute",
        world.requests().len()
    );

    let mut prometheus = Prometheus::default();
    for _ in 0..=2 * 60 / EVERY {
        prometheus.scrape(&exposition(&a.registry));
        world.wait(EVERY.into()).await;
    }
    assert_eq!(prometheus.firing(), ["SwapletNoLeader"]);
}

#[tokio::test(start_paused = true)]
async fn without_the_namespace_of_the_lease_that_is_said_and_few_requests_are_sent() {
    keep_log();
    let world = World::new();
    world.run_pod(&pod("p", "Never")).await;
    let before = world.requests().len();
    let a = Process::start(&world, A);
    world.wait(60).await;
    assert_eq!(
        a.health.ready().unwrap_err(),
        "cannot read or write the Lease: namespaces \"swaplet\" not found"
    );
    let sent = world.requests().len() - before;
    assert!(sent <= 122, "{sent} requests in a minute");
    assert_eq!(logged("cannot read or write the Lease").len(), 1);

    world.create_namespace(NAMESPACE).await;
    assert!(world.until_leads(&a).await <= 2);
}

#[tokio::test(start_paused = true)]
async fn u38_a_lease_that_is_refused_with_a_conflict_again_and_again_is_told_and_written_seldom() {
    let webhook = "admission webhook \"w.example\" denied the request: frozen";
    for (code, words) in [(409, webhook), (409, "frozen"), (404, "not found")] {
        let (world, a, _b) = World::with_two().await;
        world.fault(Effect::reply(code).message(words), |rule| {
            rule.verb(Verb::Patch).resource("leases")
        });
        world.wait(10).await;
        let before = world.requests().len();
        world.wait(60).await;
        assert_eq!(
            a.health.ready().unwrap_err(),
            format!("cannot read or write the Lease: {words}")
        );
        let sent = world.requests().len() - before;
        assert!(sent <= 250, "{code}: {sent} requests of two in a minute");
    }
}
