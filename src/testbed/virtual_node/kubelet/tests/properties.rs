//! Whatever is done to a pod, its kubelet keeps to the rules of the API and never spins.

use proptest::prelude::*;
use serde_json::json;

use super::super::{KubeletOptions, KubeletVersion};
use super::world::{World, image_options, pod};
use crate::virtual_node::trace::{Seen, SeenContainer};

#[derive(Clone, Debug)]
enum Deed {
    Wait(u16),
    Swap(usize, &'static str),
    Nudge,
    Phase(&'static str),
    Restart(u8),
    Delete,
}

fn deed() -> impl Strategy<Value = Deed> {
    let image = prop::sample::select(vec![
        "exit:1",
        "park:1",
        "work:1",
        "docker.io/library/work:1",
        "work:2",
        "nowhere/x:1",
        "Bad Image",
    ]);
    prop_oneof![
        6 => (0_u16..8000).prop_map(Deed::Wait),
        4 => (0_usize..2, image).prop_map(|(index, image)| Deed::Swap(index, image)),
        1 => Just(Deed::Nudge),
        1 => prop::sample::select(vec!["Succeeded", "Failed", "Running"]).prop_map(Deed::Phase),
        1 => (0_u8..5).prop_map(Deed::Restart),
        1 => Just(Deed::Delete),
    ]
}

fn start() -> impl Strategy<Value = (String, String, &'static str, KubeletVersion)> {
    let words = "run=[1-9]s exit=[01],0|run=forever|run=[1-5]s exit=1";
    let side = "term=(0|143|ignore) term-after=[0-5]s";
    let version = prop::sample::select(vec![
        KubeletVersion::V1_30,
        KubeletVersion::V1_34,
        KubeletVersion::V1_36,
    ]);
    (
        words,
        side,
        prop::sample::select(vec!["Never", "OnFailure", "Always"]),
        version,
    )
}

fn act(world: &mut World, deed: &Deed) {
    match deed {
        Deed::Wait(millis) => world.run(f64::from(*millis) / 1000.0),
        Deed::Swap(index, image) => world.swap(*index, image),
        Deed::Nudge => world.nudge(),
        Deed::Phase(phase) => world.write_phase(phase),
        Deed::Restart(seconds) => world
            .kubelet
            .restart(world.now, std::time::Duration::from_secs((*seconds).into())),
        Deed::Delete => world.delete(),
    }
}

/// Ended containers stay so where the policy does not start them again; restarts only count up.
fn is_legal(policy: &str, before: &SeenContainer, after: &SeenContainer) -> bool {
    let final_end = before
        .exit_code
        .is_some_and(|code| policy == "Never" || (policy == "OnFailure" && code == 0));
    (!final_end || after.exit_code.is_some()) && before.restarts <= after.restarts
}

fn check(policy: &str, seen: &[Seen]) {
    for pair in seen.windows(2) {
        for (before, after) in pair[0].containers.iter().zip(&pair[1].containers) {
            assert!(is_legal(policy, before, after), "{before} then {after}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn statuses_are_legal_and_time_moves_on((main, side, policy, version) in start(), deeds in prop::collection::vec(deed(), 0..12)) {
        let mut first = pod(policy, &side);
        first["spec"]["containers"][0]["args"] = json!(main.split(' ').collect::<Vec<_>>());
        let mut world = World::with(first, KubeletOptions::of(version), image_options());
        for deed in &deeds {
            act(&mut world, deed);
            // What is due now is over at once.
            world.run(0.0);
            prop_assert!(world.kubelet.wake().is_none_or(|at| at > world.now), "{:?} at {}", world.kubelet.wake(), world.now);
        }
        world.run(700.0);
        check(policy, world.trace.all());
        if world.pod["metadata"]["deletionTimestamp"].is_string() {
            prop_assert!(world.deleted, "a deleted pod goes");
        }
    }
}
