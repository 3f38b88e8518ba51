//! Derived images: when one is wanted, waited for and swapped to, and what is told if not.

use swaplet_core::cluster::exit_images::derived::Trouble;
use swaplet_core::report::reason::Reason;

use super::{DERIVED, OWN, calls, deriving, own_path, ready};
use crate::builder::{ContainerBuilder, sidecar, sidecar_with_image};
use crate::expect::{EXIT, Life, moment};

// Derived images.

#[test]
fn an_image_that_is_being_derived_is_waited_for_in_silence() {
    let mut life = Life::under(deriving());
    let pod = ready("Never", calls(sidecar("side"), OWN));
    let decision = life.assert_silent(&pod, Reason::ExitImageAwaited);
    assert_eq!(
        (decision.wants, decision.again),
        (vec![own_path()], Some(moment(300)))
    );
    assert!(
        life.rules
            .derived_mut()
            .unwrap()
            .ask("batch", &own_path(), life.now)
    );
    life.assert_silent(&pod, Reason::ExitImageAwaited);
    life.rules
        .derived_mut()
        .unwrap()
        .came(&own_path(), Ok(DERIVED.into()), life.now);
    let decision = life.sees(&pod);
    assert_eq!(
        (&*decision.swaps()[0].to, &decision.wants),
        (DERIVED, &vec![])
    );
}

/// Its turn has not come, or the registry takes it and never answers.
#[test]
fn an_image_that_is_not_pushed_for_long_is_told_and_swapped_to_when_it_is() {
    let mut life = Life::under(deriving());
    let pod = ready("OnFailure", calls(sidecar("side"), OWN));
    let runs = pod.clone().but("main", ContainerBuilder::running);
    life.assert_silent(&runs, Reason::MainsRunning);
    assert!(
        life.rules
            .derived_mut()
            .unwrap()
            .ask("batch", &own_path(), life.now)
    );
    life.later(1000)
        .assert_silent(&pod, Reason::ExitImageAwaited);
    life.later(299)
        .assert_silent(&pod, Reason::ExitImageAwaited);
    let note = life.later(1).tells(&pod, Reason::NeedsImage);
    assert!(
        note.contains("/opt/own/server; it was not pushed within 300 s"),
        "{note}"
    );
    assert_eq!(life.sees(&pod).wants, vec![own_path()]);

    let pod = pod.with(calls(sidecar("shell"), "sh").running());
    let after = life.swaps(&pod);
    assert_eq!(
        (after.image_of("side"), after.image_of("shell")),
        (pod.image_of("side"), EXIT),
        "what can be swapped does not wait either"
    );
    life.rules
        .derived_mut()
        .unwrap()
        .came(&own_path(), Ok(DERIVED.into()), life.now);
    assert_eq!(life.swaps(&after).image_of("side"), DERIVED);
}

/// Then it is there when it is needed.
#[test]
fn an_image_is_wanted_as_soon_as_the_pod_is_seen() {
    let pod = ready("Never", calls(sidecar("side"), OWN)).but("main", ContainerBuilder::running);
    assert_eq!(
        Life::under(deriving())
            .assert_silent(&pod, Reason::MainsRunning)
            .wants,
        vec![own_path()]
    );
    assert_eq!(
        Life::new().assert_silent(&pod, Reason::MainsRunning).wants,
        Vec::<Vec<String>>::new(),
        "nothing is derived"
    );
    let standard = ready("Never", sidecar("side")).but("main", ContainerBuilder::running);
    assert_eq!(
        Life::under(deriving())
            .assert_silent(&standard, Reason::MainsRunning)
            .wants,
        Vec::<Vec<String>>::new()
    );
}

#[test]
fn each_sidecar_gets_the_image_that_fits_it() {
    let mut life = Life::under(deriving());
    let pod = ready("OnFailure", calls(sidecar("own"), OWN))
        .with(calls(sidecar("shell"), "sh").running());
    life.assert_silent(&pod, Reason::ExitImageAwaited);
    assert!(
        life.rules
            .derived_mut()
            .unwrap()
            .ask("batch", &own_path(), life.now)
    );
    life.rules
        .derived_mut()
        .unwrap()
        .came(&own_path(), Ok(DERIVED.into()), life.now);
    let after = life.swaps(&pod);
    assert_eq!(
        (after.image_of("own"), after.image_of("shell")),
        (DERIVED, EXIT)
    );
    life.assert_silent(&after, Reason::SwapPending);
    Life::under(deriving()).assert_silent(&after, Reason::SwapPending);
}

#[test]
fn a_push_that_fails_is_told_and_tried_again() {
    let mut life = Life::under(deriving());
    let pod = ready("Never", calls(sidecar("side"), OWN));
    assert!(
        life.rules
            .derived_mut()
            .unwrap()
            .ask("batch", &own_path(), life.now)
    );
    let trouble = Trouble {
        words: "pushing: 403, these credentials may not do that".to_owned(),
        retry_after: None,
    };
    life.rules
        .derived_mut()
        .unwrap()
        .came(&own_path(), Err(trouble), life.now);
    let note = life.tells(&pod, Reason::NeedsImage);
    assert!(
        note.contains("403")
            && note.contains(
                "exit-image push registry.example/swaplet/derived --path /opt/own/server"
            ),
        "{note}"
    );
    let decision = life.assert_silent(&pod, Reason::NeedsImage);
    assert_eq!(
        (decision.again, decision.wants),
        (Some(moment(10)), vec![own_path()])
    );
    assert!(
        life.later(10)
            .rules
            .derived_mut()
            .unwrap()
            .ask("batch", &own_path(), moment(10))
    );
    life.rules
        .derived_mut()
        .unwrap()
        .came(&own_path(), Ok(DERIVED.into()), life.now);
    life.swaps(&pod);
}

#[test]
fn a_namespace_that_asks_for_too_many_images_is_told() {
    let mut life = Life::under(deriving());
    for number in 0..20 {
        assert!(
            life.rules
                .derived_mut()
                .unwrap()
                .ask("batch", &[format!("/{number}")], life.now)
        );
    }
    let pod = ready("Never", calls(sidecar("side"), OWN));
    assert!(life.tells(&pod, Reason::NeedsImage).contains("too many"));
    assert_eq!(life.sees(&pod).wants, Vec::<Vec<String>>::new());
}

#[test]
fn a_tenant_cannot_ask_for_a_derived_image_by_name() {
    let pod = ready("Never", sidecar_with_image("side", DERIVED));
    let decision = Life::under(deriving()).sees(&pod);
    assert_eq!(&*decision.swaps()[0].to, EXIT);
}
