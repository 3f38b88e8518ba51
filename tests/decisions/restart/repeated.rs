//! Restarts that are repeated, on a kubelet that keeps a back-off for each name of an image: none
//! loses its container.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};
use swaplet_core::restart::request::StatePhase;

use super::world::{DIGEST, PARK, World, park_image, pod, read_request, request, without_digests};

/// What a kubelet keeps for one container, in seconds (`doBackOff`,
/// `pkg/kubelet/kuberuntime/kuberuntime_manager.go`).
#[derive(Default)]
struct Names {
    /// By name, the back-off and the last start.
    entries: BTreeMap<String, (u64, u64)>,
    /// The end of the container before the present one.
    ended: Option<u64>,
}

impl Names {
    /// Stops the present container; whether it then starts another one by this name.
    fn starts(&mut self, image: &str, now: u64) -> bool {
        let Some(since) = self.ended.replace(now) else {
            return true;
        };
        let entry = self.entries.get(image).copied();
        let entry = entry.filter(|(_, updated)| since <= updated + 600);
        if entry.is_some_and(|(wait, _)| now < since + wait) {
            return false;
        }
        let wait = entry.map_or(10, |(wait, _)| (wait * 2).min(300));
        self.entries.insert(image.to_owned(), (wait, now));
        true
    }
}

/// Restarts the container by a request of its own; what became of it.
fn restart(world: &mut World, names: &mut Names, number: usize) -> (StatePhase, String) {
    let mut object = request(&["app"], &json!({}));
    object["metadata"]["uid"] = json!(format!("ru{number}"));
    world.request = read_request(&object);
    world.request.created_at = Some(world.today());
    world.dies();
    for _ in 0..4 {
        let before = world.image("app").to_owned();
        world.settle();
        let image = world.image("app").to_owned();
        if image == before {
            break;
        }
        let now = world.later(1).now.since_start().as_secs();
        assert!(
            names.starts(&image, now),
            "{image} is lost, in restart {number}"
        );
        world.restarts("app", true).node_says("app", |pod, index| {
            pod.observed_generation = pod.generation;
            let status = pod.pod.containers[index].status.as_mut().unwrap();
            if [&*image, &*status.image].contains(&PARK) {
                status.image = image.into();
            }
        });
    }
    world.later(1).assert_over("app")
}

#[test]
fn l1_fifty_restarts_in_a_row_lose_nothing_and_have_names_of_their_own() {
    let long = format!("r.example/app:{}", "v".repeat(128));
    for image in [
        "r.example/app:1",
        "r.example/app",
        &format!("r.example/app@{DIGEST}"),
        &format!("r.example/app:1@{DIGEST}"),
        &long,
    ] {
        for (policy, generation) in [
            ("Always", true),
            ("OnFailure", true),
            ("Never", true),
            ("Never", false),
        ] {
            let mut object = pod(policy);
            object["spec"]["containers"][0]["image"] = json!(image);
            object["status"]["containerStatuses"][0]["image"] = json!(image);
            if !generation {
                object["metadata"]["generation"] = Value::Null;
            }
            let mut world = World::new(&request(&["app"], &json!({})), &object);
            let (mut names, mut seen) = (Names::default(), BTreeSet::new());
            for number in 0..50 {
                let (phase, message) = restart(&mut world, &mut names, number);
                assert_eq!(phase, StatePhase::Succeeded, "{policy} {image}: {message}");
                let written = world.image("app").to_owned();
                let tag = written
                    .split(['@'])
                    .next()
                    .unwrap()
                    .rsplit(':')
                    .next()
                    .unwrap();
                assert!(tag.len() <= 128 && written.ends_with(DIGEST), "{written}");
                assert!(seen.insert(written));
            }
            assert_eq!(world.swaps, 50);
        }
    }
}

/// Pods whose container has no fresh name: an image that was imported, and one that is parked.
fn without_fresh_names(policy: &str) -> Vec<World> {
    let mut imported = pod(policy);
    imported["spec"]["containers"][0]["image"] = json!("app:1");
    imported["status"]["containerStatuses"][0]["image"] = json!("docker.io/library/app:1");
    imported["status"]["containerStatuses"][0]["imageID"] = json!(DIGEST);
    let asked = request(&["app"], &json!({}));
    let mut parked = World::new(&asked, &without_digests(policy));
    parked.park = Some(park_image());
    vec![World::new(&asked, &imported), parked]
}

#[test]
fn l1_without_a_fresh_name_a_restart_that_may_meet_a_back_off_is_refused() {
    for mut world in without_fresh_names("Always") {
        let mut names = Names::default();
        assert_eq!(restart(&mut world, &mut names, 0).0, StatePhase::Succeeded);
        let (image, swaps) = (world.image("app").to_owned(), world.swaps);
        for number in 1..4 {
            let (phase, message) = restart(&mut world, &mut names, number);
            assert!(
                phase == StatePhase::Failed
                    && message.contains("back-off")
                    && message.contains("wait ")
                    && message.contains("forceRecreate"),
                "{message}"
            );
        }
        assert_eq!((world.image("app"), world.swaps), (&*image, swaps));
        for number in 4..9 {
            world.later(601);
            assert_eq!(
                restart(&mut world, &mut names, number).0,
                StatePhase::Succeeded
            );
        }
    }
}

#[test]
fn l1_a_container_that_is_down_anyway_is_not_refused_for_a_back_off() {
    let waiting = json!({"waiting": {"reason": "CrashLoopBackOff"}});
    let mut object = without_digests("Always");
    object["status"]["containerStatuses"][0]["state"] = waiting;
    object["status"]["containerStatuses"][0]["restartCount"] = json!(7);
    let mut world = World::new(&request(&["app"], &json!({})), &object);
    world.park = Some(park_image());
    world.settle();
    assert_eq!((world.image("app"), world.swaps), (PARK, 1));
}
