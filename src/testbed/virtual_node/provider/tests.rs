//! What the real virtual-kubelet library did with a provider of ours (`docs/measured.md`, "The
//! virtual-kubelet library"), and what its source says.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::{Gap, OnUpdate, ProviderOptions, StatusMode, VirtualKubelet};
use crate::virtual_node::action::Action;
use crate::virtual_node::images::{ImageOptions, Images};
use crate::virtual_node::times::later;
use crate::virtual_node::trace::Trace;

struct World {
    pod: Value,
    node: VirtualKubelet,
    images: Images,
    trace: Trace,
    events: Vec<String>,
    now: Timestamp,
    deleted: bool,
}

fn pod(policy: &str) -> Value {
    json!({"metadata": {"name": "p", "namespace": "default", "uid": "u", "resourceVersion": "1", "labels": {"a": "1"}},
        "spec": {"restartPolicy": policy, "terminationGracePeriodSeconds": 4, "containers": [
            {"name": "main", "image": "work:1", "args": ["run=1s"]}, {"name": "side", "image": "work:1", "args": ["term=143"]}]},
        "status": {"phase": "Pending"}})
}

impl World {
    fn new(policy: &str, options: ProviderOptions) -> Self {
        let now = Timestamp::from_millisecond(1_000_000_300).unwrap();
        let pod = pod(policy);
        let node = VirtualKubelet::new(options, &pod, now);
        Self {
            pod,
            node,
            images: Images::new(ImageOptions::default()),
            trace: Trace::default(),
            events: Vec::new(),
            now,
            deleted: false,
        }
    }

    /// After the main container's end.
    fn ready(policy: &str, options: ProviderOptions) -> Self {
        let mut world = Self::new(policy, options);
        world.run(11.0);
        assert_eq!(
            (world.phase(), world.state("main").as_str()),
            ("Running", "terminated(0) work:1 rc0")
        );
        world.events.clear();
        world
    }

    fn run(&mut self, seconds: f64) {
        let until = later(self.now, std::time::Duration::from_secs_f64(seconds));
        self.act();
        while let Some(at) = self.node.wake().filter(|at| *at <= until) {
            self.now = self.now.max(at);
            self.act();
        }
        self.now = until;
    }

    fn act(&mut self) {
        for action in self.node.advance(&mut self.images, self.now) {
            match action {
                Action::PutStatus(new) => {
                    for field in ["labels", "annotations"] {
                        self.pod["metadata"][field] = new["metadata"][field].clone();
                    }
                    self.pod["status"] = new["status"].clone();
                    self.shown();
                }
                Action::Event(event) => self.events.push(event.reason.to_owned()),
                Action::Delete => self.deleted = true,
                Action::PatchStatus(_) => panic!("a virtual-kubelet puts"),
            }
        }
    }

    fn shown(&mut self) {
        self.trace.push(&self.pod);
        self.node.see(&self.pod, self.now);
    }

    fn swap(&mut self) {
        self.pod["spec"]["containers"][1]["image"] = json!("exit:1");
        self.shown();
    }

    fn phase(&self) -> &str {
        self.pod["status"]["phase"].as_str().unwrap()
    }

    fn state(&self, name: &str) -> String {
        self.trace
            .last()
            .unwrap()
            .container(name)
            .unwrap()
            .to_string()
    }
}

#[test]
fn section_6_updates() {
    for policy in ["Never", "OnFailure"] {
        let mut world = World::ready(policy, ProviderOptions::default());
        world.swap();
        world.run(2.0);
        assert_eq!(
            (world.phase(), world.state("side").as_str()),
            ("Succeeded", "terminated(0) exit:1 rc0")
        );
        assert_eq!(world.events, ["ProviderUpdateSuccess"]);
        assert_eq!(
            world.trace.states("side")[1..],
            [
                "running work:1 rc0",
                "running exit:1 rc0",
                "terminated(0) exit:1 rc0"
            ]
        );
    }
}

#[test]
fn section_6_inert_says_that_all_is_well_and_a_written_phase_sticks() {
    for policy in ["Never", "OnFailure"] {
        let mut world = World::ready(
            policy,
            ProviderOptions {
                on_update: OnUpdate::Nothing,
                ..ProviderOptions::default()
            },
        );
        world.swap();
        world.run(60.0);
        assert_eq!(
            (
                world.phase(),
                world.state("side").as_str(),
                world.events.as_slice()
            ),
            (
                "Running",
                "running work:1 rc0",
                &["ProviderUpdateSuccess".to_owned()][..]
            )
        );
        world.pod["status"]["phase"] = json!("Succeeded");
        world.shown();
        world.run(60.0);
        assert_eq!(
            (world.phase(), world.state("side").as_str()),
            ("Succeeded", "running work:1 rc0")
        );
    }
}

#[test]
fn section_6_rejects() {
    let options = ProviderOptions {
        on_update: OnUpdate::Fails,
        ..ProviderOptions::default()
    };
    let mut world = World::ready("Never", options);
    world.swap();
    world.run(1.0);
    assert_eq!(
        (world.phase(), world.pod["status"]["reason"].as_str()),
        ("Failed", Some("ProviderFailed"))
    );
    assert_eq!(
        world.events,
        ["ProviderUpdateFailed"],
        "a final phase is not tried again"
    );

    let mut world = World::ready("OnFailure", options);
    world.swap();
    world.run(1.0);
    assert_eq!(
        (world.phase(), world.pod["status"]["reason"].as_str()),
        ("Pending", Some("ProviderFailed"))
    );
    assert!(world.events.len() > 5, "tried again and again");
    world.pod["status"]["phase"] = json!("Succeeded");
    world.shown();
    world.run(60.0);
    assert_eq!(world.phase(), "Succeeded");
    // A label is an update as well.
    let mut world = World::ready("Never", options);
    world.pod["metadata"]["labels"]["b"] = json!("2");
    world.shown();
    world.run(1.0);
    assert_eq!(world.phase(), "Failed");
}

#[test]
fn given_up_after_twenty_errors_until_the_pod_changes() {
    let mut world = World::ready(
        "OnFailure",
        ProviderOptions {
            on_update: OnUpdate::Fails,
            ..ProviderOptions::default()
        },
    );
    world.swap();
    world.run(8000.0);
    assert_eq!(world.events.len(), 21);
    world.run(8000.0);
    assert_eq!(world.events.len(), 21);
    world.pod["metadata"]["annotations"] = json!({"nudge": "1"});
    world.shown();
    world.run(0.0);
    assert_eq!(world.events.len(), 22);
}

#[test]
fn a_judged_gap_fails_a_pod_under_never() {
    let options = ProviderOptions {
        gap: Gap::Judged,
        ..ProviderOptions::default()
    };
    let mut world = World::ready("Never", options);
    world.swap();
    world.run(10.0);
    assert_eq!(
        (world.phase(), world.state("side").as_str()),
        ("Failed", "terminated(143) work:1 rc0")
    );
    let mut world = World::ready("OnFailure", options);
    world.swap();
    world.run(10.0);
    assert_eq!(world.phase(), "Succeeded");
    let mut world = World::ready(
        "Never",
        ProviderOptions {
            gap: Gap::Reported,
            ..options
        },
    );
    world.swap();
    world.run(10.0);
    assert_eq!(world.phase(), "Succeeded");
}

#[test]
fn ids_and_counts() {
    let id = |world: &World| world.pod["status"]["containerStatuses"][1]["containerID"].clone();
    let options = ProviderOptions {
        new_container_ids: true,
        counts_restarts: true,
        reports_image_id: true,
        ..ProviderOptions::default()
    };
    for (options, changes) in [(ProviderOptions::default(), false), (options, true)] {
        let mut world = World::ready("Never", options);
        let before = id(&world);
        world.swap();
        world.run(3.0);
        let image_id = world.pod["status"]["containerStatuses"][1]["imageID"]
            .as_str()
            .unwrap();
        assert_eq!(
            (
                id(&world) != before,
                world.state("side").ends_with("rc1"),
                image_id.starts_with("docker.io/library/exit@sha256:")
            ),
            (changes, changes, changes)
        );
    }
}

#[test]
fn a_stale_copy_takes_labels_back() {
    for (keeps_metadata, kept) in [
        (true, json!({"a": "1", "b": "2"})),
        (false, json!({"a": "1"})),
    ] {
        let mut world = World::new(
            "Never",
            ProviderOptions {
                keeps_metadata,
                ..ProviderOptions::default()
            },
        );
        world.run(0.5);
        world.pod["metadata"]["labels"]["b"] = json!("2");
        world.shown();
        world.run(3.0);
        assert_eq!(world.pod["metadata"]["labels"], kept);
    }
}

#[test]
fn polled_every_five_seconds() {
    let mut world = World::new(
        "Never",
        ProviderOptions {
            status: StatusMode::Poll,
            ..ProviderOptions::default()
        },
    );
    world.run(4.0);
    assert_eq!(world.phase(), "Pending");
    world.run(1.0);
    assert_eq!(world.phase(), "Running");
    world.run(5.0);
    assert_eq!(world.state("main"), "terminated(0) work:1 rc0");
    world.node.lose_instance();
    world.run(5.0);
    assert_eq!(
        (world.phase(), world.state("side").as_str()),
        ("Failed", "terminated(-137) work:1 rc0")
    );
}

#[test]
fn completed_shown_as_running() {
    let mut world = World::new(
        "Never",
        ProviderOptions {
            completed_as_running: true,
            ..ProviderOptions::default()
        },
    );
    world.run(5.0);
    assert_eq!(world.state("main"), "running work:1 rc0");
}

#[test]
fn deleted_when_the_grace_period_is_over_or_at_once_if_nothing_runs() {
    let delete = |world: &mut World| {
        world.pod["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        world.pod["metadata"]["deletionGracePeriodSeconds"] = json!(4);
        world.shown();
    };
    let mut world = World::ready("Never", ProviderOptions::default());
    delete(&mut world);
    world.run(3.9);
    assert!(!world.deleted && world.state("side").starts_with("terminated(143)"));
    world.run(0.2);
    assert!(world.deleted && world.node.is_gone());
    let mut world = World::ready("Never", ProviderOptions::default());
    world.swap();
    world.run(3.0);
    delete(&mut world);
    world.run(0.0);
    assert!(world.deleted);
}

mod properties {
    use proptest::prelude::*;

    use super::*;

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
}
