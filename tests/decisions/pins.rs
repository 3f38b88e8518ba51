//! Tags of a job that are pinned to digests: what is asked, what is written down, and what is
//! pulled then.

use serde_json::{Value, json};
use swaplet_core::objects::moment::Moment;
use swaplet_core::warm::pull_job::object::{JobKind, Pinned, PullJob, PullSpec};
use swaplet_core::warm::pull_job::pins::{Pins, Pull, Resolved, Unresolved};

use super::warm::{A, B, seconds};
use crate::expect::moment;

const DIGEST: &str = "sha256:1111111111111111111111111111111111111111111111111111111111111111";

fn spec(images: &[&str], completion: &Value) -> PullSpec {
    let metadata = json!({"name": "j", "namespace": "n", "uid": "u", "annotations": {"swaplet.io/pin-tags": "true"}});
    let job =
        json!({"metadata": metadata, "spec": {"images": images, "completionPolicy": completion}});
    PullJob::read(
        JobKind::ImageListPullJob,
        serde_json::from_value(job).unwrap(),
    )
    .unwrap()
    .spec
    .unwrap()
}

fn always(images: &[&str]) -> PullSpec {
    spec(images, &json!({}))
}

fn pin(image: &str) -> Pinned {
    Pinned {
        image: image.into(),
        digest: DIGEST.into(),
    }
}

fn found(image: &str) -> (Box<str>, Resolved) {
    (image.into(), Ok(DIGEST.into()))
}

fn silent(image: &str, retry_after: Option<u64>) -> (Box<str>, Resolved) {
    (
        image.into(),
        Err(Unresolved {
            words: "away".into(),
            is_answer: false,
            retry_after: retry_after.map(seconds),
        }),
    )
}

fn refused(image: &str) -> (Box<str>, Resolved) {
    (
        image.into(),
        Err(Unresolved {
            words: "not there".into(),
            is_answer: true,
            retry_after: None,
        }),
    )
}

/// What is pulled for each image: itself, or nothing for one of these reasons.
fn pulls(pins: &Pins, spec: &PullSpec, pinned: &[Pinned]) -> Vec<String> {
    let pull = |pull: Pull| match pull {
        Pull::Image(image) => image.into(),
        Pull::Waits => "waits".to_owned(),
        Pull::Fails(why) => format!("fails: {why}"),
    };
    pins.targets(spec, pinned)
        .into_iter()
        .map(|target| pull(target.pull))
        .collect()
}

/// When it is asked for something again, at the earliest.
fn next_question(pins: &mut Pins, spec: &PullSpec, from: Moment) -> u64 {
    (0..)
        .find(|after| !pins.question(spec, &[], from + seconds(*after)).is_empty())
        .unwrap()
}

#[test]
fn a_digest_counts_when_it_is_written_down_and_not_before() {
    let (spec, mut pins) = (always(&[A, B]), Pins::default());
    assert!(pins.holds_up(&spec, &[]));
    assert_eq!(
        pins.question(&spec, &[], Moment::START),
        [A.into(), B.into()]
    );
    assert!(
        pins.question(&spec, &[], Moment::START).is_empty(),
        "while it is asked"
    );
    pins.answered(vec![found(A), found(B)], &spec, Moment::START);
    assert_eq!(
        (pins.holds_up(&spec, &[]), pulls(&pins, &spec, &[])),
        (false, vec!["waits".to_owned(); 2])
    );
    assert_eq!(pins.to_keep(&spec, &[]), [pin(A), pin(B)]);
    assert_eq!(
        pulls(&pins, &spec, &[pin(A)]),
        [format!("{A}@{DIGEST}"), "waits".to_owned()]
    );
    assert!(pins.question(&spec, &[], moment(1000)).is_empty());
    assert_eq!(
        pulls(&Pins::default(), &spec, &[pin(A), pin(B)]),
        [format!("{A}@{DIGEST}"), format!("{B}@{DIGEST}")],
        "another life"
    );
}

#[test]
fn what_stands_in_the_status_outranks_what_a_registry_says_now_unless_it_is_no_digest() {
    let (spec, mut pins) = (always(&[A, B]), Pins::default());
    let other = DIGEST.replace('1', "2");
    let stored = [
        pin(A),
        Pinned {
            image: B.into(),
            digest: "latest".into(),
        },
        pin("r.example/gone:1"),
    ];
    assert_eq!(pins.question(&spec, &stored, Moment::START), [B.into()]);
    pins.answered(
        vec![
            (A.into(), Ok(other.clone().into())),
            (B.into(), Ok(other.clone().into())),
        ],
        &spec,
        Moment::START,
    );
    assert_eq!(
        pins.to_keep(&spec, &stored),
        [
            pin(A),
            Pinned {
                image: B.into(),
                digest: other.into()
            }
        ]
    );
    pins.answered(vec![(A.into(), Ok("v1".into()))], &spec, Moment::START);
    assert!(pulls(&pins, &spec, &[])[0].contains("an invalid digest"));
}

#[test]
fn a_registry_that_does_not_answer_is_asked_again_later_and_later() {
    let (spec, mut pins) = (spec(&[A], &json!({"type": "Never"})), Pins::default());
    let mut waits = Vec::new();
    for _ in 0..9 {
        let now = moment(waits.iter().sum());
        pins.question(&spec, &[], now);
        pins.answered(vec![silent(A, None)], &spec, now);
        waits.push(next_question(&mut pins, &spec, now));
    }
    assert_eq!(waits, [5, 10, 20, 40, 80, 160, 300, 300, 300]);
    pins.answered(vec![silent(A, Some(900))], &spec, moment(9000));
    assert_eq!(
        next_question(&mut pins, &spec, moment(9000)),
        900,
        "it asks to wait"
    );
    assert_eq!(
        (pins.trouble(), pulls(&pins, &spec, &[])),
        (Some("away"), vec!["waits".to_owned()])
    );
    pins.settle(&spec, &[], false, moment(1_000_000));
    assert_eq!(
        pulls(&pins, &spec, &[]),
        ["waits"],
        "a job that never ends waits for ever"
    );
}

#[test]
fn who_has_waited_long_enough_has_failed_and_an_edit_is_another_chance() {
    let mut pins = Pins::default();
    let late = spec(&[A, B], &json!({"activeDeadlineSeconds": 9000}));
    for (spec, limit, is_late) in [(always(&[A, B]), 600, false), (late, 9000, true)] {
        pins.follow(&spec);
        pins.question(&spec, &[pin(A)], Moment::START);
        pins.answered(vec![silent(B, None)], &spec, Moment::START);
        pins.settle(&spec, &[pin(A)], false, moment(limit - 1));
        assert_eq!(pulls(&pins, &spec, &[pin(A)])[1], "waits");
        pins.settle(&spec, &[pin(A)], is_late, moment(limit));
        let pulled = pulls(&pins, &spec, &[pin(A)]);
        assert!(
            pulled[0].starts_with(A)
                && pulled[1].starts_with("fails: ")
                && pulled[1].contains("away; write the digest"),
            "{pulled:?}"
        );
        assert!(pins.question(&spec, &[pin(A)], moment(limit)).is_empty());
        // Too late is too late: what is failed once is not pulled after all.
        assert!(pulls(&pins, &spec, &[pin(A), pin(B)])[1].starts_with("fails"));
        pins.follow(&spec);
        assert_eq!(pulls(&pins, &spec, &[pin(A)])[1], "waits");
        assert_eq!(pins.question(&spec, &[pin(A)], moment(limit)), [B.into()]);
        pins.answered(vec![], &spec, moment(limit));
    }
}

#[test]
fn an_answer_that_names_no_digest_is_final_unless_the_job_goes_on_for_ever() {
    for (completion, asks_again) in [(json!({}), false), (json!({"type": "Never"}), true)] {
        let (spec, mut pins) = (spec(&[A], &completion), Pins::default());
        pins.question(&spec, &[], Moment::START);
        pins.answered(vec![refused(A)], &spec, Moment::START);
        let why = pulls(&pins, &spec, &[]).remove(0);
        assert!(
            why.contains("its tag cannot be pinned: not there; write the digest"),
            "{why}"
        );
        assert_eq!(
            !pins.question(&spec, &[], moment(400)).is_empty(),
            asks_again
        );
        assert!(pins.question(&spec, &[], Moment::START).is_empty());
    }
}

#[test]
fn what_the_api_server_does_not_keep_is_not_pulled() {
    let (spec, mut pins) = (always(&[A, &format!("{B}@{DIGEST}")]), Pins::default());
    pins.question(&spec, &[], Moment::START);
    pins.answered(vec![found(A)], &spec, Moment::START);
    pins.are_not_kept(&spec);
    let pulled = pulls(&pins, &spec, &[]);
    assert!(
        pulled[0].contains("has no status.pinned") && pulled[1] == format!("{B}@{DIGEST}"),
        "{pulled:?}"
    );
}
