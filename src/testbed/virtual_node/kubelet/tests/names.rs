//! Names of images, and what kubelets and runtimes keep by them: back-offs, credentials, tags.

use std::time::Duration;

use serde_json::{Value, json};
use swaplet_core::image::ImageReference;

use super::super::{KubeletOptions, KubeletVersion, Runtime};
use super::world::{World, image_options, pod};
use crate::virtual_node::images::{ImageOptions, digest_of};

/// A running pod whose main container stays.
fn running(pod: Value, options: KubeletOptions, images: ImageOptions) -> World {
    let mut start = pod;
    start["spec"]["containers"][0]["args"] = json!(["run=forever"]);
    let mut world = World::with(start, options, images);
    world.run(5.0);
    world
}

fn digest() -> String {
    digest_of(&ImageReference::parse("work:1").unwrap())
}

/// The seconds until the sidecar runs again, up to 70; `None` if it does not.
fn restarts(world: &mut World, image: &str) -> Option<u32> {
    let count = |world: &World| world.state("side").rsplit_once("rc").unwrap().1.to_owned();
    let before = count(world);
    world.swap(1, image);
    (1..=70).find(|_| {
        world.run(1.0);
        world.state("side").starts_with("running") && count(world) != before
    })
}

#[test]
fn l1_the_fourth_restart_by_three_names_in_turn_meets_a_back_off() {
    let names = [format!("work:1@{}", digest()), format!("work@{}", digest())];
    for (policy, fourth) in [("Never", false), ("Always", true)] {
        let mut world = running(
            pod(policy, "term=143"),
            KubeletOptions::default(),
            image_options(),
        );
        for name in [&names[0], &names[1], &names[0]] {
            assert!(
                restarts(&mut world, name).is_some_and(|seconds| seconds <= 3),
                "{policy}"
            );
        }
        let took = restarts(&mut world, &names[1]);
        assert_eq!(took.is_some(), fourth, "{policy}: {}", world.state("side"));
        assert!(
            took.is_none_or(|seconds| seconds >= 7),
            "{policy}: {took:?}"
        );
        if policy == "Never" {
            assert_eq!(world.state("side"), "terminated(143) work:1 rc3");
        }
    }
}

#[test]
fn l1_fresh_names_meet_none() {
    for policy in ["Never", "OnFailure", "Always"] {
        let mut world = running(
            pod(policy, "term=0"),
            KubeletOptions::default(),
            image_options(),
        );
        for number in 1..=50 {
            let name = format!("work:1-restart-{number}@{}", digest());
            let took = restarts(&mut world, &name);
            assert!(
                took.is_some_and(|seconds| seconds <= 3),
                "{policy} {number}: {took:?}"
            );
        }
    }
}

#[test]
fn l1_a_name_is_forgotten_after_ten_minutes() {
    let mut world = running(
        pod("Never", "term=143"),
        KubeletOptions::default(),
        image_options(),
    );
    for name in ["park:1", "work:1", "park:1"] {
        assert!(restarts(&mut world, name).is_some(), "{name}");
    }
    world.run(601.0);
    assert!(restarts(&mut world, "work:1").is_some());
    world.run(1.0);
    assert!(restarts(&mut world, "park:1").is_some());
    assert_eq!(
        restarts(&mut world, "work:1"),
        None,
        "parked and back twice"
    );
}

#[test]
fn t3_the_longest_back_off_can_be_as_short_as_a_second() {
    let restarts_with = |longest_backoff| {
        let options = KubeletOptions {
            longest_backoff,
            ..KubeletOptions::default()
        };
        let mut world = running(pod("Always", "run=100ms exit=1"), options, image_options());
        world.run(150.0);
        let state = world.state("side");
        state.rsplit_once("rc").unwrap().1.parse::<u32>().unwrap()
    };
    let [short, long] = [1, 300].map(|seconds| restarts_with(Duration::from_secs(seconds)));
    assert!(short > long, "{short} {long}");
}

fn private(pod: Value, version: KubeletVersion) -> World {
    let images = ImageOptions {
        private: vec![
            "docker.io/library/work:*".parse().unwrap(),
            "docker.io/library/work:*@*".parse().unwrap(),
            "docker.io/library/work@*".parse().unwrap(),
        ],
        secrets: vec!["key".to_owned()],
        ..image_options()
    };
    let mut start = pod;
    start["spec"]["imagePullSecrets"] = json!([{"name": "key"}]);
    running(start, KubeletOptions::of(version), images)
}

/// `docs/measured.md`, "Private images that the node has".
#[test]
fn l2_kubelets_from_1_35_on_check_the_credentials_of_an_alias() {
    let alias = format!("work:1-restart-2@{}", digest());
    for (version, policy, secret_stays, restarted) in [
        (KubeletVersion::V1_34, "Never", false, true),
        (KubeletVersion::V1_36, "Never", true, true),
        (KubeletVersion::V1_36, "Never", false, false),
        (KubeletVersion::V1_36, "Always", false, false),
    ] {
        let mut world = private(pod(policy, "term=143"), version);
        if !secret_stays {
            world.images.set_secrets(Vec::new());
        }
        assert_eq!(
            restarts(&mut world, &alias).is_some(),
            restarted,
            "{version:?} {policy}"
        );
        let state = world.state("side");
        if !restarted && policy == "Never" {
            assert_eq!(state, "terminated(143) work:1 rc0");
        }
        world.images.set_secrets(vec!["key".to_owned()]);
        world.run(330.0);
        assert_eq!(
            world.state("side").starts_with("running"),
            policy == "Always" || restarted,
            "{version:?} {policy}"
        );
    }
}

#[test]
fn l2_what_was_imported_is_for_everybody_and_another_repository_is_asked_again() {
    let imported = ImageOptions {
        imported: vec![ImageReference::parse("work:1").unwrap()],
        ..image_options()
    };
    let options = KubeletOptions::of(KubeletVersion::V1_36);
    let mut world = running(pod("Never", "term=143"), options, imported);
    assert!(restarts(&mut world, "docker.io/library/work:1").is_some());
    assert!(
        world
            .events
            .iter()
            .all(|event| !event.starts_with("Pulling"))
    );
}

#[test]
fn l5_an_image_with_two_tags_is_reported_by_one_of_them() {
    let images = ImageOptions {
        twins: vec![("work:1".parse().unwrap(), "work:2".parse().unwrap())],
        ..image_options()
    };
    let mut world = running(pod("Always", "term=143"), KubeletOptions::default(), images);
    assert!(restarts(&mut world, "work:2").is_some());
    assert_eq!(world.state("side"), "running work:1 rc1");
    let id = world.pod["status"]["containerStatuses"][1]["imageID"]
        .as_str()
        .unwrap();
    assert!(id.ends_with(&digest()), "{id}");
}

#[test]
fn l9_what_cannot_start_is_no_container_in_cri_o() {
    let options = KubeletOptions {
        runtime: Runtime::Crio,
        ..KubeletOptions::default()
    };
    for (policy, state) in [
        ("Never", "terminated(143) work:1 rc0"),
        ("OnFailure", "waiting(CreateContainerError) work:1 rc0"),
    ] {
        let mut start = pod(policy, "term=143");
        start["spec"]["containers"][1]["command"] = json!(["/no/such"]);
        let mut world = running(start, options, image_options());
        assert_eq!(restarts(&mut world, "exit:1"), None);
        let states = world.trace.states("side");
        assert!(states.contains(&state.to_owned()), "{states:?}");
        assert!(
            world.pod["status"].to_string().contains("cri-o://"),
            "{}",
            world.pod
        );
    }
    let mut start = pod("Always", "term=143");
    start["spec"]["containers"][1]["image"] = json!("exit:1");
    start["spec"]["containers"][1]["command"] = json!(["/no/such"]);
    let world = running(start, options, image_options());
    let status = &world.pod["status"]["containerStatuses"][1];
    assert_eq!(status["state"]["waiting"]["reason"], "CreateContainerError");
    assert_eq!(status["imageID"], "");
}
