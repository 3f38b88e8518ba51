//! What is told of a swap, and when: nothing before the end, and then what was done and why.

use swaplet_core::objects::values::env::WITH_IMAGE;
use swaplet_core::report::reason::Reason;

use crate::builder::{PodBuilder, main_container, pod, sidecar};
use crate::expect::{EXIT, Life, UNLISTED, moment};

const OWN: &str = "registry.example/app/log:v1";

fn ready() -> PodBuilder {
    pod("Never")
        .with(main_container("main").ended(0))
        .with(sidecar("log").running())
}

/// A life that has just swapped the sidecar, and the pod after it.
fn swapped(pod: &PodBuilder) -> (Life, PodBuilder) {
    let mut life = Life::new();
    let after = life.swaps(pod);
    (life, after)
}

/// The exit image has ended, and the pod with it.
fn ended(after: &PodBuilder) -> PodBuilder {
    after
        .clone()
        .but("log", |log| {
            log.ended(0).restarted_as(EXIT, 1).last_ended(143)
        })
        .phase("Succeeded")
}

#[test]
fn a_swap_itself_is_no_event_of_a_controller_and_its_end_is() {
    assert!(!Reason::SidecarSwapped.is_event());
    let ends = [
        Reason::SidecarEnded,
        Reason::PodFailedAfterSwap,
        Reason::PodFailedAfterFinish,
        Reason::PodFailedAfterRecreate,
    ];
    for reason in Reason::ALL {
        assert_eq!(reason.is_end(), ends.contains(&reason), "{reason}");
        assert!(
            reason.is_event() || !reason.is_warning() && !reason.is_end(),
            "{reason}"
        );
    }
}

#[test]
fn the_end_says_what_was_done_and_why() {
    let (mut life, after) = swapped(&ready().with(sidecar("proxy").running()));
    life.later(1).assert_silent(&after, Reason::SwapPending);
    let both = ended(&after.but("proxy", |proxy| proxy.ended(0)));
    let note = life.later(1).tells(&both, Reason::SidecarEnded);
    let changes = format!(
        "; ended because main containers were done: log (image {OWN} -> {EXIT}), \
         proxy (image registry.example/app/proxy:v1 -> {EXIT})"
    );
    assert!(
        note.starts_with("the pod is Succeeded: log ended (exit code 143, method swap)")
            && note.ends_with(&changes),
        "{note}"
    );
}

#[test]
fn the_end_says_why_a_sidecar_did_not_get_the_image_that_it_asks_for() {
    let asks = ready().but("log", |log| log.env(WITH_IMAGE, UNLISTED));
    let (mut life, after) = swapped(&asks);
    let note = life.tells(&ended(&after), Reason::SidecarEnded);
    let refused = format!(
        "; container log requests {UNLISTED}, which is not on the list of --exit-images: the default exit image is used"
    );
    assert!(note.ends_with(&refused), "{note}");
}

#[test]
fn a_sidecar_that_was_swapped_again_is_told_with_how_often() {
    let mut life = Life::new();
    life.swaps(&ready());
    let other = ready().but("log", |log| log.image("registry.example/app/log:v2"));
    let after = life.swaps(&other);
    let note = life.tells(&ended(&after), Reason::SidecarEnded);
    let times = format!("log 2 times (image registry.example/app/log:v2 -> {EXIT})");
    assert!(note.ends_with(&times), "{note}");
}

/// It did not see what was there before: the spec says what was written, and the status how the
/// sidecar ended.
#[test]
fn the_next_life_tells_the_end_from_what_the_pod_shows() {
    let (_, after) = swapped(&ready());
    let mut next = Life::new();
    next.assert_silent(&after, Reason::SwapPending);
    let note = next.tells(&ended(&after), Reason::SidecarEnded);
    assert_eq!(
        note,
        format!(
            "the pod is Succeeded: log ended (exit code 143, method swap), exit image exit code 0; \
             ended because main containers were done: log (image {EXIT})"
        )
    );
}

#[test]
fn a_pod_that_had_ended_when_it_is_first_seen_is_told_of_only_where_that_is_just_now() {
    let (_, after) = swapped(&ready());
    let over = ended(&after);
    Life::new().assert_silent(&over, Reason::PodFinished);
    let mut next = Life::new();
    next.memory.find_ended(&over.read(), &next.rules, next.now);
    let note = next.tells(&over, Reason::SidecarEnded);
    assert!(
        note.contains("log ended (exit code 143, method swap)"),
        "{note}"
    );

    let by_itself = ready().but("log", |log| log.ended(0)).phase("Succeeded");
    let mut other = Life::new();
    let read = by_itself.read();
    other.memory.find_ended(&read, &other.rules, other.now);
    other.assert_silent(&by_itself, Reason::PodFinished);
}

/// A sidecar may take long to stop; whoever looks at the pod then has to see why its image changed.
#[test]
fn a_swap_whose_effect_takes_long_is_told_once_before_the_end() {
    let (mut life, after) = swapped(&ready().grace(600));
    life.later(89).assert_silent(&after, Reason::SwapPending);
    let note = life.later(1).tells(&after, Reason::SwapPending);
    assert!(
        note.starts_with(&format!(
            "main containers are done; ending log (image {OWN} -> {EXIT}); the node has not reported the end yet"
        )),
        "{note}"
    );
    life.later(300).assert_silent(&after, Reason::SwapPending);
    life.later(100).tells(&ended(&after), Reason::SidecarEnded);
}

/// It looks again when it looks at all pods: nothing is woken for what is only told.
#[test]
fn nobody_is_woken_to_tell_of_a_swap_that_takes_long() {
    let (mut life, after) = swapped(&ready().grace(600));
    let decision = life.assert_silent(&after, Reason::SwapPending);
    assert_eq!(decision.again, Some(moment(660)));
}

#[test]
fn a_trouble_with_a_swap_is_told_with_what_was_changed() {
    let changed = format!("container log (image {OWN} -> {EXIT}): ");
    let (mut life, after) = swapped(&ready());
    let pulls = after
        .clone()
        .but("log", |log| log.waiting("ErrImagePull", "not found"));
    let note = life.tells(&pulls, Reason::ExitImageNotPulled);
    assert!(note.starts_with(&changed), "{note}");
    let (mut life, after) = swapped(&ready());
    let note = life.later(90).tells(&after, Reason::SwapWithoutEffect);
    assert!(note.starts_with(&changed), "{note}");
}
