//! What holds whatever is done to a pod.

use proptest::prelude::*;
use serde_json::json;

use super::world::World;
use crate::virtual_node::provider::{Gap, OnUpdate, ProviderOptions, StatusMode};

#[derive(Clone, Debug)]
enum Deed {
    Wait(u16),
    Swap(&'static str),
    Label(u8),
    Phase(&'static str),
    Lose,
}

fn deed() -> impl Strategy<Value = Deed> {
    prop_oneof![
        4 => (0_u16..8000).prop_map(Deed::Wait),
        3 => prop::sample::select(vec!["exit:1", "park:1", "work:1", "work:2"]).prop_map(Deed::Swap),
        1 => any::<u8>().prop_map(Deed::Label),
        1 => prop::sample::select(vec!["Succeeded", "Running", "Pending"]).prop_map(Deed::Phase),
        1 => Just(Deed::Lose),
    ]
}

fn options() -> impl Strategy<Value = ProviderOptions> {
    let on_update =
        prop::sample::select(vec![OnUpdate::Replaces, OnUpdate::Nothing, OnUpdate::Fails]);
    let status = prop::sample::select(vec![StatusMode::Notify, StatusMode::Poll]);
    let gap = prop::sample::select(vec![Gap::Hidden, Gap::Reported, Gap::Judged]);
    let made = |(on_update, status, gap, keeps_metadata)| ProviderOptions {
        on_update,
        status,
        gap,
        keeps_metadata,
        ..ProviderOptions::default()
    };
    (on_update, status, gap, any::<bool>()).prop_map(made)
}

fn act(world: &mut World, deed: &Deed) {
    match deed {
        Deed::Wait(millis) => world.run(f64::from(*millis) / 1000.0),
        Deed::Swap(image) => world.pod["spec"]["containers"][1]["image"] = json!(image),
        Deed::Label(value) => world.pod["metadata"]["labels"]["l"] = json!(value.to_string()),
        Deed::Phase(phase) => world.pod["status"]["phase"] = json!(phase),
        Deed::Lose => world.node.lose_instance(),
    }
    world.shown();
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn time_moves_on_and_a_final_phase_stays(policy in prop::sample::select(vec!["Never", "OnFailure"]), options in options(),
        deeds in prop::collection::vec(deed(), 0..12))
    {
        let mut world = World::new(policy, options);
        for deed in &deeds {
            act(&mut world, deed);
            world.run(0.0);
            prop_assert!(world.node.wake().is_none_or(|at| at > world.now), "{:?} at {}", world.node.wake(), world.now);
        }
        let before = world.phase().to_owned();
        world.run(100.0);
        prop_assert!(!matches!(before.as_str(), "Succeeded" | "Failed") || world.phase() == before);
    }
}
