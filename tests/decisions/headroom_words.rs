//! What decisions make of the answers of the ledger, and what they tell it.

use swaplet_core::cluster::headroom::{Need, Swapped};
use swaplet_core::objects::job::Job;
use swaplet_core::report::reason::Reason;
use swaplet_core::terminate::explain::explain;

use crate::builder::PodBuilder;
use crate::expect::{EXIT, Life, moment};
use crate::headroom::{JOB, done, ledger};

/// What another life has swapped is counted from what the pods show.
#[test]
fn swaps_of_an_earlier_life_are_counted() {
    let restart =
        |image: &str| done("a").but("side", |side| side.image(EXIT).restarted_as(image, 1));
    let table = [
        (
            "the node has not acted",
            done("a").but("side", |side| side.image(EXIT)),
            (1, 1),
        ),
        ("it has", restart(EXIT), (1, 0)),
        (
            "the old container crashed meanwhile",
            restart("registry.example/app/side:v1"),
            (1, 1),
        ),
        (
            "the status does not tell the image",
            restart("sha256:0123"),
            (1, 1),
        ),
        (
            "there is no status",
            done("a").but("side", |side| side.image(EXIT).no_status()),
            (1, 1),
        ),
        ("nothing was swapped", done("a"), (0, 0)),
    ];
    for (what, pod, (containers, coming)) in table {
        let mut life = Life::new();
        let pod = pod.read();
        life.memory.observe(&pod, &life.rules, life.now);
        let swapped = Swapped {
            containers,
            coming,
            left: 1 - containers,
        };
        assert_eq!(life.counts(&pod), swapped, "{what}");
    }
}

/// This life knows what was there before, so a restartCount that grows is enough.
#[test]
fn a_swap_of_this_life_is_counted_until_a_restart_is_seen() {
    let mut life = Life::new();
    life.headroom = ledger(6, &[]);
    let pod = done("a");
    life.headroom.observe(&pod.read(), Swapped::default(), 0);
    let after = life.swaps(&pod);
    let seen = |life: &Life, pod: &PodBuilder| life.counts(&pod.read()).coming;
    assert_eq!(seen(&life, &after), 1);
    assert_eq!(
        seen(
            &life,
            &after.but("side", |side| side.restarted_as("sha256:0123", 1))
        ),
        0
    );
}

/// Some providers copy the image from the spec before they act, so it gives no room back.
#[test]
fn t2_the_image_in_the_status_alone_gives_no_room_back() {
    let mut life = Life::new();
    life.headroom = ledger(6, &[]);
    let pod = done("a");
    life.headroom.observe(&pod.read(), Swapped::default(), 0);
    let after = life.swaps(&pod);
    let coming = |pod: &PodBuilder| life.counts(&pod.read()).coming;
    let copied = after.clone().but("side", |side| side.status("image", EXIT));
    assert_eq!(coming(&copied), 1);
    let ended = copied.but("side", |side| side.ended(0));
    assert_eq!(coming(&ended), 1, "the sidecar itself may have ended");
    assert_eq!(
        coming(&after.but("side", |side| side.restarted_as(EXIT, 1))),
        0
    );
}

/// A life with a Job of this limit.
fn life(limit: u32) -> Life {
    Life {
        headroom: ledger(limit, &[]),
        ..Life::new()
    }
}

#[test]
fn what_never_fits_is_told_with_the_fix() {
    let mut life = life(0);
    let decision = life.sees(&done("a"));
    assert_eq!(
        (decision.reason, &decision.action),
        (Reason::NoHeadroom, &None)
    );
    assert_eq!(
        decision.reports[0].note,
        "the main containers of a pod are done, but swapping its sidecars would fail the Job: 0 restarts count, 1 more would be added, and it \
         fails at 1 (backoffLimit 0). Raise spec.backoffLimit to at least 2, start the controller without --finish=never, or end the sidecars yourself"
    );
    life.headroom.job(&Job {
        uid: JOB.into(),
        namespace: Box::default(),
        backoff_limit: 2,
        failures_borne: 6,
    });
    assert_eq!(life.sees(&done("a")).reason, Reason::SidecarSwapped);
}

#[test]
fn who_waits_is_silent() {
    let mut life = life(2);
    let first = done("a").read();
    life.headroom.observe(&first, Swapped::default(), 0);
    life.headroom.need(&first, Need::Begun(1));
    life.assert_silent(&done("b"), Reason::HeadroomWait);
    life.later(200);
    life.assert_silent(&done("b"), Reason::HeadroomWait);
}

/// Never a swap on a guess: a while in silence, then one Warning.
#[test]
fn a_job_that_is_not_seen_is_told_after_a_while() {
    let mut life = Life::new();
    life.assert_silent(&done("a"), Reason::HeadroomWait);
    life.headroom.job_list_ends();
    let decision = life.assert_silent(&done("a"), Reason::JobUnknown);
    assert_eq!(decision.again, Some(moment(30)));
    let note = life.later(30).sees(&done("a")).reports.remove(0).note;
    assert_eq!(
        note,
        "the main containers of a pod are done, but it is not known what the Job allows, because it was deleted without its pods: \
         delete these too, or end their sidecars yourself"
    );

    let mut life = Life::new();
    life.headroom.jobs_trouble("list: jobs.batch is forbidden");
    life.assert_silent(&done("a"), Reason::JobUnknown);
    let note = life.later(30).sees(&done("a")).reports.remove(0).note;
    assert!(note.ends_with("(list: jobs.batch is forbidden): allow the controller to list and watch jobs of the group batch"), "{note}");
    assert_eq!(
        life.sees(&done("a").set("/spec/restartPolicy", "Never"))
            .reason,
        Reason::SidecarSwapped
    );
}

#[test]
fn an_explanation_says_what_the_job_allows() {
    let mut life = life(0);
    let pod = done("a").read();
    life.headroom.observe(&pod, Swapped::default(), 0);
    let findings = explain(&pod, &life.memory, &life.around(), "").findings;
    let seen = findings
        .iter()
        .find(|finding| finding.subject == "restarts of the Job")
        .map(|finding| &*finding.seen);
    let words = "the swaps would fail the Job: 0 restarts count, 1 more would be added, and it fails at 1 (backoffLimit 0)";
    assert_eq!(seen, Some(words));
}
