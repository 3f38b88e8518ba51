//! What the real virtual-kubelet library did with a provider of ours (`docs/measured.md`, "The
//! virtual-kubelet library"), and what its source says.

mod properties;
mod world;

use serde_json::json;

use super::{Gap, OnUpdate, ProviderOptions, StatusMode};
use world::World;

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
