//! Images that the administrator lists, and a default with other paths.

use serde_json::json;
use swaplet::image::build::derived_paths;
use swaplet_core::report::reason::Reason;

use super::{OWN, calls, on_volume, ready, with_work_volume};
use crate::builder::{sidecar, sidecar_with_image};
use crate::expect::{EXIT, LISTED, Life, rules, swaps_to, warns};

// Images that the administrator lists.

#[test]
fn an_image_of_the_list_is_taken_at_its_word() {
    let side = || sidecar_with_image("side", LISTED);
    let mounted = side().spec(
        "volumeMounts",
        json!([{"name": "work", "mountPath": "/swaplet"}]),
    );
    for container in [
        calls(side(), OWN),
        calls(side(), "$(TOOL)").env_entry(json!({"name": "TOOL", "valueFrom": {"fieldRef": {}}})),
        mounted,
    ] {
        swaps_to(
            &with_work_volume(ready("Never", container)),
            &[("side", LISTED)],
        );
    }
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
