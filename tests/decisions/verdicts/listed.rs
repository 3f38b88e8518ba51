//! Images that the administrator lists, and a default with other paths.

use serde_json::json;
use swaplet::image::build::derived_paths;
use swaplet_core::cluster::node_class::NodeClass;
use swaplet_core::report::reason::Reason;

use super::{OWN, calls, on_volume, ready, with_work_volume};
use crate::builder::{sidecar, sidecar_with_image};
use crate::expect::{EXIT, LISTED, Life, rules, rules_with, swaps_in, swaps_to, warns};

// Images that the administrator lists.

/// Nobody can tell whether it has the program: that is tried where the node has no better method.
#[test]
fn what_an_image_of_the_list_can_run_is_in_doubt_but_for_its_own_program() {
    let side = || sidecar_with_image("side", LISTED);
    let mounted = side().spec(
        "volumeMounts",
        json!([{"name": "work", "mountPath": "/swaplet"}]),
    );
    for container in [
        calls(side(), OWN),
        calls(side(), "/bin/sh"),
        calls(side(), "$(TOOL)").env_entry(json!({"name": "TOOL", "valueFrom": {"fieldRef": {}}})),
        mounted,
    ] {
        let pod = with_work_volume(ready("OnFailure", container));
        let note = warns(&pod, Reason::ExitImageDoubtful);
        assert!(note.contains(LISTED), "{note}");
        let on_eci = || Life {
            node: NodeClass::VirtualUpdates,
            ..Life::new()
        };
        swaps_in(on_eci, &pod, &[("side", LISTED)]);
    }
    swaps_to(&ready("Never", side()), &[("side", LISTED)]);
}

#[test]
fn no_image_of_the_list_cures_what_no_image_can_cure() {
    let side = || sidecar_with_image("side", LISTED);
    for container in [
        on_volume(side()),
        side().spec("imagePullPolicy", "Never"),
        calls(side(), ""),
    ] {
        warns(
            &with_work_volume(ready("Never", container)),
            Reason::NotSwappable,
        );
    }
}

#[test]
fn the_default_asked_for_by_name_is_no_other_image() {
    warns(
        &ready("Never", calls(sidecar_with_image("side", EXIT), OWN)),
        Reason::NeedsImage,
    );
}

#[test]
fn a_default_with_other_paths_is_looked_at_with_those() {
    let own = || {
        Life::under(rules().with_default_paths(derived_paths([OWN, "/entrypoint/run"]).unwrap()))
    };
    own().swaps(&ready("Never", calls(sidecar("side"), OWN)));
    own().swaps(&ready("Never", calls(sidecar("side"), "/bin/sh")));
    let note = own().tells(
        &ready("Never", calls(sidecar("side"), "/entrypoint")),
        Reason::NeedsImage,
    );
    assert!(note.contains("--path /entrypoint"), "it gave way: {note}");
}

/// The admission policies compare text: another spelling of the same image is denied.
#[test]
fn u81_an_image_that_is_granted_is_written_as_the_administrator_spells_it() {
    let life = || {
        Life::under(rules_with(
            Some("myorg/exit:v1"),
            &["r.example/exit", "r.example/other/*"],
        ))
    };
    for (asked, written) in [
        ("docker.io/myorg/exit:v1", "myorg/exit:v1"),
        ("r.example/exit:latest", "r.example/exit"),
        ("r.example/other/exit:v2", "r.example/other/exit:v2"),
    ] {
        let pod = ready("Never", sidecar_with_image("side", asked));
        swaps_in(life, &pod, &[("side", written)]);
    }
}

#[test]
fn u97_what_only_another_spelling_of_a_pattern_would_admit_is_not_written() {
    let life = || Life::under(rules_with(Some("r.example/exit:v1"), &["docker.io/org/*"]));
    for (asked, written) in [
        ("docker.io/org/exit:v2", "docker.io/org/exit:v2"),
        ("org/exit:v2", "r.example/exit:v1"),
    ] {
        let pod = ready("Never", sidecar_with_image("side", asked));
        swaps_in(life, &pod, &[("side", written)]);
    }
}
