//! Behind a proxy that passes what is answered at once, and no watches: Jobs end by lists. And in
//! which form lists come.

use kube::ResourceExt as _;
use serde_json::json;
use tokio::time::Instant;

use crate::audit::{assert_swapped_once, swapped_in};
use crate::controller::{Controller, Why};
use crate::pods::{EXITS_143, job, main_has_ended, main_ok, pod, sidecar, spec};
use crate::version::minor;
use crate::witness::{Watches, Witness};
use crate::world::{World, eventually};

/// Creates a Job under each policy, and waits until the work of all pods is done.
async fn work(world: &World, name: &str, pods: usize) {
    for policy in ["Never", "OnFailure"] {
        let containers = vec![main_ok(world), sidecar(world, "log", EXITS_143)];
        let name = format!("{name}-{}", policy.to_lowercase());
        world.create_job(job(&name, spec(policy, containers))).await;
    }
    eventually("all mains to end", || async {
        let all = world.pods().await;
        (all.len() == pods && all.iter().all(main_has_ended)).then_some(())
    })
    .await;
}

async fn complete(world: &World, name: &str, since: Instant) {
    for policy in ["never", "onfailure"] {
        world
            .job_ends(&format!("{name}-{policy}"), "Complete")
            .await;
    }
    println!("{name}: {} s", since.elapsed().as_secs());
}

/// What is there at the start ends by the first lists, and what comes later by those that follow.
async fn end(case: &str, watches: Watches) {
    let mut world = World::new(case).await;
    let witness = Witness::of(&mut world).await;
    witness.serves_no_watch(watches);
    work(&world, "first", 2).await;
    let start = Instant::now();
    let _controller = Controller::process(&world, &[], Why::Witnessed).await;
    complete(&world, "first", start).await;
    work(&world, "later", 4).await;
    let (start, lists) = (Instant::now(), witness.lists_of_pods());
    eventually("the later pods to be swapped", || async {
        (swapped_in(&world.namespace).len() == 4).then_some(())
    })
    .await;
    // One may have been under way before.
    let more = witness.lists_of_pods() - lists;
    assert!(more <= 2, "{more} lists to see what one shows");
    complete(&world, "later", start).await;
    let pods: Vec<_> = world
        .pods()
        .await
        .iter()
        .map(|pod| pod.name_any())
        .collect();
    let names: Vec<_> = pods.iter().map(String::as_str).collect();
    assert_swapped_once(&world.namespace, &names);
    world.done().await;
}

#[tokio::test]
async fn g3_where_a_proxy_answers_504_to_watches_jobs_end() {
    end("unwatched-504", Watches::Refused).await;
}

#[tokio::test]
async fn g3_where_a_proxy_holds_watches_back_jobs_end() {
    end("unwatched-held", Watches::Held).await;
}

/// Pages are compressed from 128 KiB on, streams from Kubernetes 1.37 on.
#[tokio::test]
async fn lists_come_compressed_as_streams_and_in_pages() {
    let mut world = World::new("compressed").await;
    let witness = Witness::of(&mut world).await;
    for number in 0..20 {
        let mut waits = pod(
            &format!("large-{number}"),
            spec("Never", vec![main_ok(&world)]),
        );
        waits["metadata"]["annotations"] = json!({"example.com/notes": "a note ".repeat(2000)});
        waits["spec"]["nodeSelector"] = json!({"example.com/none": "here"});
        world.create_pod(waits).await;
    }
    let containers = vec![main_ok(&world), sidecar(&world, "log", EXITS_143)];
    world
        .create_job(job("small", spec("OnFailure", containers)))
        .await;
    let controller = Controller::process(&world, &[], Why::Witnessed).await;
    world.job_ends("small", "Complete").await;
    let streams = witness.compressed_lists_of_pods(true);
    assert_eq!(streams > 0, minor(&world).await >= 37, "{streams} streams");
    assert_eq!(witness.compressed_lists_of_pods(false), 0);

    witness.serves_no_watch(Watches::Refused);
    controller.kill().await;
    let _controller = Controller::process(&world, &[], Why::Witnessed).await;
    eventually("a compressed page", || async {
        (witness.compressed_lists_of_pods(false) > 0).then_some(())
    })
    .await;
    world.done().await;
}
