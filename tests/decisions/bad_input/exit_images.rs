//! Exit images that are malformed, not listed or missing.

use swaplet_core::objects::values::env::WITH_IMAGE;
use swaplet_core::report::reason::Reason;

use super::{beside_done_main, ready};
use crate::builder::{sidecar, sidecar_with_image};
use crate::expect::{EXIT, LISTED, Life, UNLISTED, ask, rules_with, swaps, swaps_to, warns};

#[test]
fn a_malformed_image_is_told_and_nothing_is_written() {
    for image in [
        "Not An Image",
        "registry.example/UPPER:v1",
        "http://registry.example/exit",
        " registry.example/exit/a ",
        "a@sha256:12",
    ] {
        for container in [
            sidecar_with_image("sidecar", image),
            sidecar("sidecar").env(WITH_IMAGE, image),
        ] {
            let note = warns(
                &beside_done_main(container.running()),
                Reason::ExitImageInvalid,
            );
            assert!(
                note.contains("container sidecar") && note.contains(WITH_IMAGE),
                "{note}"
            );
        }
    }
}

#[test]
fn a_very_long_image_is_told_in_a_short_note() {
    let pod = beside_done_main(sidecar_with_image("sidecar", &"a".repeat(1 << 20)).running());
    assert!(warns(&pod, Reason::ExitImageInvalid).len() < 1024);
}

#[test]
fn e1_19_one_bad_image_keeps_no_other_sidecar_and_is_told_after_them() {
    let pod = ready().with(sidecar_with_image("broken", "Not An Image").running());
    swaps(&pod, &["sidecar"]);
    warns(
        &pod.but("sidecar", |sidecar| sidecar.ended(0)),
        Reason::ExitImageInvalid,
    );
}

#[test]
fn a_bad_image_of_a_sidecar_that_has_ended_does_not_matter() {
    swaps(
        &ready().with(sidecar_with_image("broken", "Not An Image").ended(0)),
        &["sidecar"],
    );
}

#[test]
fn an_unlisted_image_is_replaced_by_the_default_and_the_event_says_so() {
    let pod = beside_done_main(sidecar_with_image("sidecar", UNLISTED).running());
    swaps_to(&pod, &[("sidecar", EXIT)]);
    let note = ask(&pod).done.unwrap().note;
    assert!(
        note.contains(UNLISTED) && note.contains("not on the list"),
        "{note}"
    );
}

#[test]
fn an_unlisted_image_without_a_default_is_told() {
    let pod = beside_done_main(sidecar_with_image("sidecar", UNLISTED).running());
    let note = Life::under(rules_with(None, &["registry.example/exit/*"]))
        .tells(&pod, Reason::ExitImageMissing);
    assert!(
        note.contains(UNLISTED) && note.contains("--exit-images"),
        "{note}"
    );
}

#[test]
fn the_plain_mark_without_a_default_is_told() {
    let note = Life::under(rules_with(None, &[])).tells(&ready(), Reason::ExitImageMissing);
    assert!(
        note.contains("container sidecar") && note.contains("--exit-image"),
        "{note}"
    );
}

#[test]
fn a_listed_image_needs_no_default() {
    let pod = beside_done_main(sidecar_with_image("sidecar", LISTED).running());
    let after = Life::under(rules_with(None, &["registry.example/exit/*"])).swaps(&pod);
    assert_eq!(after.image_of("sidecar"), LISTED);
}

#[test]
fn a_digest_that_a_tenant_adds_to_an_exactly_listed_image_is_not_listed() {
    let evil = format!("{EXIT}@{}", crate::expect::DIGEST);
    swaps_to(
        &beside_done_main(sidecar_with_image("sidecar", &evil).running()),
        &[("sidecar", EXIT)],
    );
}
