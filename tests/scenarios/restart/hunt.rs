//! Whatever befalls requests, in any order: every one ends, each container has its own image, and
//! what was told is true.

use std::time::Duration;

use serde_json::{Value, json};
use swaplet_core::image::alias::original;
use swaplet_testbed::apiserver::{Effect, Verb};
use tokio::runtime::Builder;

use super::parking::{is_unmarked, world as without_digests};
use super::world::{Restarts, pinned};
use crate::harness::Life;
use crate::random::Random;
use crate::seeds::{each, number};

/// So many are tried each day, always the same ones; `SWAPLET_SEEDS` says another number, and
/// `SWAPLET_SEED` the first of them.
const SEEDS: u64 = 100;
/// All that a request may wait for: its deadline, its pod and the node.
const PATIENCE: u64 = 2400;
/// It is looked after so many seconds whether all is over.
const STEP: u64 = 120;
const NAMES: [&str; 3] = ["r0", "r1", "r2"];

/// Each has a runtime of its own: what is left of the world before would go on in it.
#[test]
fn hunt_whatever_befalls_requests_they_end_and_containers_have_their_own_images() {
    let (first, seeds) = (number("SWAPLET_SEED", 0), number("SWAPLET_SEEDS", SEEDS));
    let problems = each(first..first + seeds, |seed| {
        // What is asserted tells it as well, but what is unwrapped does not.
        println!("SWAPLET_SEED={seed}");
        let runtime = Builder::new_current_thread()
            .enable_all()
            .start_paused(true)
            .build();
        runtime.unwrap().block_on(one(seed));
        None
    });
    assert_eq!(problems, [""; 0]);
}

async fn one(seed: u64) {
    let mut random = Random::new(seed);
    let policy = *random.one_of(&["Always", "OnFailure", "Never"]);
    let parks = random.once_in(2);
    let world = if parks {
        without_digests(policy).await
    } else {
        Restarts::with_pod(policy).await
    };
    let mut lives: Vec<Life> = (0..=random.below(2))
        .map(|_| world.start_controller())
        .collect();
    let (mut asked, mut history) = (
        0,
        vec![format!("{policy} parks={parks} lives={}", lives.len())],
    );
    for _ in 0..12 {
        let what = befalls(&world, &mut random, &mut lives, &mut asked).await;
        history.push(what);
        let seconds = *random.one_of(&[0, 1, 2, 6]);
        world.wait(seconds).await;
    }
    world.server.faults().clear();
    let mut waited = 0;
    while waited < PATIENCE && !is_over(&world) {
        world.wait(STEP).await;
        waited += STEP;
    }
    // What ends must stay so.
    world.wait(STEP).await;
    let what = format!("seed {seed}: {history:#?}");
    NAMES
        .iter()
        .filter_map(|name| world.find(name))
        .for_each(|request| has_ended(&world, &request, &what));
    for name in ["app", "log"] {
        let (image, restarts) = (world.image(name), world.restarts(name));
        let own = format!("registry.example/{name}:1");
        let images = [own.clone(), pinned(&own)];
        assert!(
            images.contains(&original(&image).into_owned()),
            "{what}: {image}"
        );
        assert!(
            restarts <= 2 * i64::try_from(asked).unwrap(),
            "{what}: {restarts}"
        );
    }
    assert!(is_unmarked(&world), "{what}: {}", world.pod());
    world.assert_quiet().await;
}

fn is_over(world: &Restarts) -> bool {
    let mut requests = NAMES.iter().filter_map(|name| world.find(name));
    requests.all(|request| request["status"]["phase"] == "Completed") && is_unmarked(world)
}

fn has_ended(world: &Restarts, request: &Value, what: &str) {
    assert_eq!(request["status"]["phase"], "Completed", "{what}: {request}");
    let states = request["status"]["containerRecreateStates"]
        .as_array()
        .unwrap();
    assert!(
        states.len() == request["spec"]["containers"].as_array().unwrap().len(),
        "{what}: {request}"
    );
    for state in states {
        let has_restarted = world.restarts(state["name"].as_str().unwrap()) > 0;
        let is_told = state["phase"] == "Failed" && state["message"].is_string();
        assert!(
            is_told || state["phase"] == "Succeeded" && has_restarted,
            "{what}: {request}"
        );
    }
}

/// One thing; what it was.
async fn befalls(
    world: &Restarts,
    random: &mut Random,
    lives: &mut [Life],
    asked: &mut usize,
) -> String {
    match random.below(8) {
        0 | 1 if *asked < NAMES.len() => {
            let spec = spec(random);
            world.request(NAMES[*asked], &spec).await;
            *asked += 1;
            format!("requests {spec}")
        }
        2 if *asked > 0 && random.once_in(2) => {
            let name = NAMES[random.below(*asked)];
            if world.find(name).is_some() {
                world.delete_request(name).await;
            }
            format!("deletes {name}")
        }
        3 => {
            let nth = random.below(lives.len());
            lives[nth].kill();
            lives[nth] = world.start_controller();
            format!("kills {nth}")
        }
        4 => {
            world.server.faults().clear();
            "clears".to_owned()
        }
        _ => fault(world, random),
    }
}

fn spec(random: &mut Random) -> Value {
    let containers = random
        .one_of(&[
            json!([{"name": "app"}]),
            json!([{"name": "app"}, {"name": "log"}]),
        ])
        .clone();
    let strategy =
        json!({"forceRecreate": random.once_in(2), "orderedRecreate": random.once_in(2)});
    let mut spec = json!({"podName": "p", "containers": containers, "strategy": strategy});
    if random.once_in(2) {
        spec["activeDeadlineSeconds"] = json!(random.one_of(&[1, 10, 60]));
    }
    spec
}

fn fault(world: &Restarts, random: &mut Random) -> String {
    let late = Duration::from_secs(*random.one_of(&[2, 9, 40]));
    let writes = [
        Effect::ApplyThenDelay(late),
        Effect::Delay(late),
        Effect::ApplyThenDrop,
        Effect::Drop,
        Effect::reply(500).into(),
        Effect::reply(403).into(),
        Effect::reply(409).into(),
    ];
    let reads = [
        Effect::HoldWatch,
        Effect::CloseWatch(1),
        Effect::ExpireWatch(1),
        Effect::Garbage(1),
    ];
    let lists = [
        Effect::reply(500).into(),
        Effect::reply(400).into(),
        Effect::Hang,
    ];
    let resource = *random.one_of(&["pods", "containerrecreaterequests"]);
    let times = 1 + random.below(4);
    let (verb, effect) = match random.below(4) {
        0 => (Verb::Watch, random.one_of(&reads).clone()),
        1 => (Verb::List, random.one_of(&lists).clone()),
        _ => (Verb::Patch, random.one_of(&writes).clone()),
    };
    let what = format!("{effect:?} of {verb:?} of {resource}, {times} times");
    world.fault(effect, |rule| {
        rule.verb(verb).resource(resource).times(times)
    });
    what
}
