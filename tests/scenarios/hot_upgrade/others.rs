//! What others do with the pods and the sets, and who has not asked for upgrades.

use std::time::Duration;

use http::Method;
use serde_json::json;
use swaplet_core::terminate::openkruise::Coexist;
use swaplet_testbed::apiserver::{Effect, Recorded, Rule, Verb};

use super::{MERGE, SETS, Upgrades, image, pod, set};
use crate::harness::SWAPLET;

#[tokio::test(start_paused = true)]
async fn what_others_change_meanwhile_is_left_to_them() {
    let world = Upgrades::with_pods(2).await;
    let life = world.start();
    world.wait(5).await;
    // A parked container waits for its image.
    world
        .edit(
            "p0",
            &json!({"metadata": {"annotations": {"swaplet.io/parked": "{}"}}}),
        )
        .await;
    // One has no empty container.
    world.set_second("p1", &image(9)).await;
    world.wait(10).await;
    world.upgrade_to(2).await;
    world.wait(60).await;
    assert_eq!(
        (world.works("p0"), world.images("p1")),
        (image(1), [image(1), image(9)])
    );
    let reasons = world.events("p1");
    let refused = reasons
        .iter()
        .filter(|reason| *reason == "HotUpgradeRefused");
    assert_eq!((refused.count(), world.writes().len()), (1, 0));
    assert!(
        world.status()["message"]
            .as_str()
            .unwrap()
            .contains("1 pods have no empty container")
    );
    world
        .edit(
            "p0",
            &json!({"metadata": {"annotations": {"swaplet.io/parked": null}}}),
        )
        .await;
    world.wait(20).await;
    assert_eq!(world.works("p0"), image(2));
    life.kill();
    drop(world.node.clone());
}

/// Its own CRD is of the same name, and its manager does what the sets say.
#[tokio::test(start_paused = true)]
async fn where_openkruise_is_installed_the_sets_are_left_to_it() {
    let world = Upgrades::with_pods(1).await;
    let life = world.start_beside(Coexist::Auto);
    world.upgrade_to(2).await;
    world.wait(60).await;
    assert_eq!((world.works("p0"), world.writes().len()), (image(2), 3));
    world.install_node_images().await;
    world.wait(60).await;
    world.upgrade_to(3).await;
    world.wait(120).await;
    assert_eq!((world.works("p0"), world.writes().len()), (image(2), 3));
    // Nor does a life that begins there, unless it is told that the work is its own.
    life.kill();
    let next = world.start_beside(Coexist::Auto);
    world.wait(120).await;
    assert_eq!((world.works("p0"), world.writes().len()), (image(2), 3));
    next.kill();
    let _own = world.start();
    world.wait(60).await;
    assert_eq!((world.works("p0"), world.writes().len()), (image(3), 6));
}

#[tokio::test(start_paused = true)]
async fn a_set_beyond_the_limit_says_so_and_is_taken_up_when_another_one_is_gone() {
    let world = Upgrades::with_pods(1).await;
    for nth in 0..64 {
        let mut other = set(1, json!({}));
        other["metadata"]["name"] = json!(format!("a{nth}"));
        other["spec"]["selector"] = json!({"matchLabels": {"app": format!("a{nth}")}});
        world
            .request(Method::POST, SETS, "application/json", &other)
            .await;
    }
    let _life = world.start();
    world.upgrade_to(2).await;
    world.wait(60).await;
    assert_eq!((world.works("p0"), world.writes().len()), (image(1), 0));
    let message = world.status()["message"].to_string();
    assert!(message.contains("more than 64 SidecarSets"), "{message}");
    world
        .request(
            Method::DELETE,
            &format!("{SETS}/a7"),
            "application/json",
            &json!({}),
        )
        .await;
    world.wait(60).await;
    assert_eq!(
        (world.works("p0"), world.counts()),
        (image(2), [1, 1, 1, 1])
    );
    assert_eq!(world.status()["message"], "");
}

/// As of another installation, which works in other namespaces and counts their pods.
#[tokio::test(start_paused = true)]
async fn a_status_that_somebody_else_writes_each_time_is_written_once_a_minute() {
    let world = Upgrades::with_pods(1).await;
    let _life = world.start();
    world.wait(60).await;
    let none = json!({"status": {"matchedPods": 0, "updatedPods": 0, "readyPods": 0, "updatedReadyPods": 0}});
    let mut written = 0;
    for _ in 0..600 {
        if world.counts() == [1, 1, 1, 1] {
            written += 1;
            let path = format!("{SETS}/mesh/status");
            world.request(Method::PATCH, &path, MERGE, &none).await;
        }
        world.wait(1).await;
    }
    assert!((5..=11).contains(&written), "{written} in ten minutes");
    // What is new is told at once.
    world.upgrade_to(2).await;
    world.wait(30).await;
    assert_eq!(world.counts(), [1, 1, 1, 1]);
}

/// Each counts the pods of its own namespace, and both begin at once.
#[tokio::test(start_paused = true)]
async fn u170_of_two_installations_one_writes_the_status_of_a_set() {
    let world = Upgrades::with_pods(2).await;
    world.create_namespace("other").await;
    let mut there = pod("o0");
    there["metadata"]["namespace"] = json!("other");
    world.create(&there).await;
    world.wait(10).await;
    let told = || {
        let status = world.status();
        let of = |field: &str| status[field].clone();
        [
            of("installation"),
            of("matchedPods"),
            of("observedGeneration"),
        ]
    };
    let writes = || {
        let is_write = |request: &&Recorded| {
            let is_ours = request.user_agent.starts_with(SWAPLET);
            is_ours && request.verb == Verb::Patch && request.resource == "sidecarsets"
        };
        world.requests().iter().filter(is_write).count()
    };
    let first = world.start_in("a", "default");
    let _second = world.start_in("b", "other");
    world.wait(130).await;
    assert_eq!(told(), [json!("a"), json!(2), json!(1)]);
    let before = writes();
    assert!((1..=4).contains(&before), "{before}");
    world.wait(1200).await;
    assert_eq!(writes(), before);

    // The second one takes over from one that is gone, and gives it back.
    first.kill();
    world.upgrade_to(2).await;
    world.wait(590).await;
    assert_eq!(told(), [json!("a"), json!(2), json!(1)]);
    world.wait(30).await;
    assert_eq!(told(), [json!("b"), json!(1), json!(2)]);
    let _first = world.start_in("a", "default");
    world.wait(130).await;
    assert_eq!(told(), [json!("a"), json!(2), json!(2)]);

    // A set that selects no pod of the first one is the second one's.
    world
        .edit_set(json!({"spec": {"namespace": "other"}}))
        .await;
    world.wait(130).await;
    assert_eq!(told(), [json!("b"), json!(1), json!(3)]);
    let before = writes();
    world.wait(1200).await;
    assert_eq!(writes(), before);
}

/// The watches of its pods go on, and list them no second time.
#[tokio::test(start_paused = true)]
async fn a_set_that_was_made_anew_unseen_goes_on_with_the_pods_that_are_known() {
    let world = Upgrades::with_pods(2).await;
    let _life = world.start();
    world.wait(5).await;
    let fault =
        |effect: Effect, verb| world.fault(effect, |rule| rule.verb(verb).resource("sidecarsets"));
    let faults = [
        fault(Effect::reply(500).into(), Verb::List),
        fault(Effect::ExpireWatch(0), Verb::Watch),
    ];
    world.wait(60).await;
    world
        .request(
            Method::DELETE,
            &format!("{SETS}/mesh"),
            "application/json",
            &json!({}),
        )
        .await;
    let again = set(2, json!({}));
    world
        .request(Method::POST, SETS, "application/json", &again)
        .await;
    world.wait(60).await;
    assert_eq!(world.works("p0"), image(1), "nobody knows of it");
    faults.into_iter().for_each(|fault| world.end_fault(fault));
    world.wait(120).await;
    assert_eq!((world.works("p0"), world.works("p1")), (image(2), image(2)));
    assert_eq!(world.counts(), [2, 2, 2, 2]);
}

/// The selectors of its pods stay as they are.
#[tokio::test(start_paused = true)]
async fn a_set_that_selects_another_namespace_leaves_the_pods_of_the_first_one_alone() {
    let world = Upgrades::with_pods(1).await;
    world.create_namespace("other").await;
    let mut there = pod("o0");
    there["metadata"]["namespace"] = json!("other");
    world.create(&there).await;
    world.wait(10).await;
    let has = |version| {
        let pod = world.find("other", "o0").unwrap();
        let mut containers = pod["spec"]["containers"].as_array().unwrap().iter();
        containers.any(|container| container["image"] == image(version))
    };
    let _life = world.start();
    for (namespace, version, works) in [("default", 2, 2), ("other", 3, 2), ("default", 4, 4)] {
        let containers = set(version, json!({}))["spec"]["containers"].take();
        world
            .edit_set(json!({"spec": {"namespace": namespace, "containers": containers}}))
            .await;
        world.wait(60).await;
        assert_eq!(world.works("p0"), image(works), "{version}");
        assert!(has(if version == 2 { 1 } else { 3 }), "{version}");
        assert_eq!(world.counts(), [1, 1, 1, 1], "{version}");
    }
}

/// As where a webhook does not answer for one namespace.
#[tokio::test(start_paused = true)]
async fn a_pod_waits_for_none_of_the_writes_that_hang_in_another_namespace() {
    let world = Upgrades::with_pods(1).await;
    world.create_namespace("greedy").await;
    for nth in 0..40 {
        let mut pod = pod(&format!("g{nth}"));
        pod["metadata"]["namespace"] = json!("greedy");
        world.create(&pod).await;
    }
    world.wait(10).await;
    let _rule = world.fault(Effect::Hang, |rule| {
        rule.verb(Verb::Patch).resource("pods").namespace("greedy")
    });
    let _life = world.start();
    world
        .edit_set(json!({"spec": {"updateStrategy": {"maxUnavailable": "100%"}}}))
        .await;
    world.wait(5).await;
    // Sooner than a write that hangs is given up.
    world.upgrade_to(2).await;
    world.serve_for(20, &["p0"]).await;
    assert_eq!(world.works("p0"), image(2));
    // Nor does the next one wait, when it is known which namespace does not answer.
    world.wait(60).await;
    world.upgrade_to(3).await;
    world.serve_for(20, &["p0"]).await;
    assert_eq!(world.works("p0"), image(3));
}

/// Who has not asked for it pays nothing, nor does who has no set.
#[tokio::test(start_paused = true)]
async fn without_the_flag_and_without_a_set_no_pods_are_watched_for_it() {
    let world = Upgrades::with_pods(1).await;
    let lists = || {
        let is_list =
            |request: &&Recorded| request.verb == Verb::List && request.resource == "pods";
        world.requests().iter().filter(is_list).count()
    };
    world.upgrade_to(2).await;
    let life = world.start_controller();
    world.wait(60).await;
    let plain = lists();
    assert!(!world.requests().iter().any(
        |request| request.resource == "sidecarsets" && request.user_agent.starts_with(SWAPLET)
    ));
    assert_eq!((world.works("p0"), world.writes().len()), (image(1), 0));
    life.kill();
    world
        .request(
            Method::DELETE,
            &format!("{SETS}/mesh"),
            "application/json",
            &json!({}),
        )
        .await;
    let before = lists();
    let _next = world.start();
    world.wait(60).await;
    assert_eq!(lists() - before, plain);
}

/// Whose pods are not listed yet may have all of those that the other one selects.
#[tokio::test(start_paused = true)]
async fn u88_the_second_of_two_sets_waits_until_the_pods_of_the_first_are_known() {
    let world = Upgrades::with_pods(1).await;
    let (first, mut second) = (set(2, json!({})), set(3, json!({})));
    second["metadata"]["name"] = json!("other");
    let (path, json) = (format!("{SETS}/mesh"), "application/json");
    world.request(Method::DELETE, &path, json, &json!({})).await;
    let _life = world.start();
    world.wait(5).await;
    let slow = Rule::new(Effect::Delay(Duration::from_secs(20))).resource("pods");
    world.server.faults().add(slow.user_agent(SWAPLET).times(1));
    for set in [&first, &second] {
        world.request(Method::POST, SETS, json, set).await;
        world.wait(2).await;
    }
    world.wait(10).await;
    assert_eq!((world.works("p0"), world.writes().len()), (image(1), 0));
    world.wait(120).await;
    assert_eq!((world.works("p0"), world.writes().len()), (image(2), 3));
}

/// `${CANARY}` was not resolved: it would have selected all pods.
#[tokio::test(start_paused = true)]
async fn u85_a_set_with_a_selector_that_no_label_can_match_handles_no_pod_and_says_so() {
    for field in ["selector", "updateStrategy"] {
        let world = Upgrades::with_pods(1).await;
        let _life = world.start();
        let bad = json!({"matchLabels": {"my canary": "true"}});
        let bad = match field {
            "selector" => json!({"selector": bad}),
            _ => json!({"updateStrategy": {"selector": bad}}),
        };
        world.edit_set(json!({"spec": bad})).await;
        world.upgrade_to(2).await;
        world.edit_set(json!({"spec": bad})).await;
        world.wait(120).await;
        assert_eq!((world.works("p0"), world.writes().len()), (image(1), 0));
        let message = world.status()["message"].to_string();
        assert!(message.contains("is not a label key"), "{message}");
    }
}
