//! Requests and annotations that somebody else has written: no image is written because of them,
//! and no container is lost without a word.

mod notes;

use serde_json::{Value, json};
use swaplet_core::report::reason::Reason;
use swaplet_core::restart::reconcile::{Action, Orphan, orphan};
use swaplet_core::restart::request::{
    ACTIVE, Intent, JOURNAL, Journal, Mark, POD_UID, Parking, RestartRequest, StatePhase,
};

use super::parking::{parked, starts};
use super::world::{
    DIGEST, PARK, World, images, is_honest, park_image, pod, request, without_digests,
};

const EVIL: &str = "evil.example/backdoor:1";
/// Of an image that the node does not report.
const OTHER: &str = "sha256:bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb";

fn intent(from: &str, to: &str, back: bool, parking: Option<Parking>) -> Intent {
    Intent {
        from: from.into(),
        to: to.into(),
        generation: None,
        back: back.then(|| "cannot be pulled".into()),
        parking,
    }
}

/// A journal of every form, about a container with this image.
fn forgeries(present: &str) -> Vec<Journal> {
    let evil_digest = format!("r.example/app:1@{OTHER}");
    let froms = [
        EVIL,
        &evil_digest,
        "r.example/app:evil",
        "sha256:0",
        PARK,
        present,
        "",
    ];
    let tos = [present, PARK, EVIL, ""];
    let ways = [None, Some(Parking::Out), Some(Parking::Back)];
    let mut all = Vec::new();
    for from in froms {
        for to in tos {
            for parking in ways {
                for back in [false, true] {
                    for container_id in ["x", "containerd://app-0"] {
                        let intent = Some(intent(from, to, back, parking));
                        let mark = Mark {
                            container_id: container_id.into(),
                            intent,
                            ..Mark::default()
                        };
                        all.push(Journal([("app".into(), mark)].into()));
                    }
                }
            }
        }
    }
    all
}

/// Goes on as long as there is something to write, on a node that starts what the spec says; no
/// image but an honest one is written.
#[track_caller]
fn goes_honestly(world: &mut World, what: &str) {
    for _ in 0..40 {
        let decision = world.decide();
        match decision.action {
            Some(action) => {
                world.write(&action);
                world.told.extend(decision.done);
            }
            None if decision.reason == Reason::RestartPending => {
                world.restarts("app", true);
                starts(world);
                world.later(400);
            }
            None => return,
        }
        assert!(
            is_honest(world.image("app")),
            "{} was written: {what}",
            world.image("app")
        );
    }
    panic!("no end: {what}");
}

fn forged_request(journal: &Journal, labels: &Value, phase: &str) -> Value {
    let mut object = request(&["app"], &json!({"forceRecreate": true}));
    object["metadata"]["annotations"] = json!({JOURNAL: journal.as_text()});
    object["metadata"]["labels"] = labels.clone();
    object["status"]["phase"] = json!(phase);
    object
}

#[test]
fn a2_a_journal_that_swaplet_has_not_written_is_overwritten_when_the_request_is_taken_up() {
    for journal in forgeries(&images("app").0) {
        for labels in [
            json!({}),
            json!({POD_UID: "pu"}),
            json!({ACTIVE: "true"}),
            json!({POD_UID: "pu", ACTIVE: "true"}),
        ] {
            for phase in ["", "Pending"] {
                let mut world =
                    World::new(&forged_request(&journal, &labels, phase), &pod("Always"));
                world.park = Some(park_image());
                assert_eq!(world.request.journal, None, "{journal:?} {labels}");
                let Some(Action::Accept(acceptance)) = world.decide().action else {
                    panic!("{:?}", world.decide())
                };
                assert!(
                    acceptance.journal.0["app"].intent.is_none()
                        && &*acceptance.journal.0["app"].container_id == "containerd://app-0"
                );
                goes_honestly(&mut world, &format!("{journal:?}"));
                assert_eq!(
                    (world.image("app"), world.swaps),
                    (&*images("app").1, 1),
                    "it is restarted as any other"
                );
            }
        }
    }
}

/// Somebody may write requests after they were taken up, and their statuses.
#[test]
fn a2_no_form_of_a_journal_has_another_image_written() {
    let mut seen = 0;
    for with_digests in [true, false] {
        for parks in [Some(park_image()), None] {
            for journal in forgeries(&images("app").0) {
                let object = if with_digests {
                    pod("Always")
                } else {
                    without_digests("Always")
                };
                let what = format!(
                    "{journal:?}, digests: {with_digests}, parks: {}",
                    parks.is_some()
                );
                let mut world = World::new(
                    &forged_request(
                        &journal,
                        &json!({POD_UID: "pu", ACTIVE: "true"}),
                        "Recreating",
                    ),
                    &object,
                );
                world.park.clone_from(&parks);
                assert_eq!(world.request.journal, Some(journal));
                goes_honestly(&mut world, &what);
                let (_, container, _) = world.pod.as_ref().unwrap().find("app").unwrap();
                let told = world.reasons().contains(&Reason::RestartFailed);
                assert!(
                    *container.image != *PARK || told,
                    "it is left in the park image without a word: {what}"
                );
                seen += 1;
            }
        }
    }
    assert_eq!(seen, 4 * 7 * 4 * 3 * 2 * 2);
}

/// While the container is parked for an honest request.
#[test]
fn a2_bug1_a_journal_that_is_replaced_while_it_is_parked_brings_nothing_else_back() {
    for journal in forgeries(PARK) {
        let mut world = parked("Always");
        world.request.journal = Some(journal.clone());
        let what = format!("{journal:?}");
        goes_honestly(&mut world, &what);
        if world.image("app") != PARK {
            continue;
        }
        let told = world.reasons().contains(&Reason::RestartFailed);
        let orphan = orphan_of(&world, std::slice::from_ref(&world.request));
        let comes_back = orphan.is_some_and(|orphan| {
            orphan
                .change
                .is_some_and(|change| *change.swaps[0].to == *images("app").0)
        });
        assert!(
            told || comes_back,
            "it is left in the park image without a word: {what}"
        );
    }
}

/// The journal says that an alias could not be pulled.
fn put_back(present: &str, image_id: &str, from: &str) -> (World, (StatePhase, String)) {
    put_back_of(present, image_id, (from, present))
}

/// The same about this image before and its alias, whatever the container has now.
fn put_back_of(
    present: &str,
    image_id: &str,
    (from, to): (&str, &str),
) -> (World, (StatePhase, String)) {
    let mut object = pod("Always");
    object["spec"]["containers"][0]["image"] = json!(present);
    object["status"]["containerStatuses"][0]["imageID"] = json!(image_id);
    let journal = Journal(
        [(
            "app".into(),
            Mark {
                intent: Some(intent(from, to, true, None)),
                ..Mark::default()
            },
        )]
        .into(),
    );
    let labels = json!({POD_UID: "pu", ACTIVE: "true"});
    object["status"]["containerStatuses"][0]["state"] =
        json!({"waiting": {"reason": "ErrImagePull"}});
    let mut world = World::new(&forged_request(&journal, &labels, "Recreating"), &object);
    world.settle();
    let state = world.state("app");
    (world, state)
}

#[test]
fn a2_an_alias_is_taken_back_for_what_has_the_same_digest_only() {
    let pinned = format!("r.example/app:1-restart-2@{DIGEST}");
    let bare = format!("r.example/app@{DIGEST}");
    let reported = format!("r.example/app@{DIGEST}");
    for (present, image_id, from) in [
        (&*pinned, &*reported, "r.example/app:1"),
        ("docker.io/library/app:1", "", "app:1"),
    ] {
        let (world, _) = put_back(present, image_id, from);
        assert_eq!(
            (world.image("app"), world.swaps),
            (from, 1),
            "{present} {image_id}"
        );
    }
    for (present, from) in [(&pinned, &bare), (&bare, &pinned)] {
        let (world, (phase, message)) = put_back(present, "", from);
        assert_eq!(
            (world.image("app"), world.swaps, phase),
            (&**present, 0, StatePhase::Failed),
            "it is the same to a node"
        );
        assert!(message.contains("by digest"), "{message}");
    }
    let other = format!("r.example/app:1@{OTHER}");
    for (present, image_id, from) in [
        (&*pinned, &*reported, "r.example/app:evil"),
        (&pinned, &reported, &other),
        (&pinned, &reported, EVIL),
        (&pinned, "", "r.example/app:1"),
        (&bare, &reported, "r.example/app:evil"),
        ("r.example/app:1", &reported, &other),
        ("r.example/app:1", &reported, &pinned),
        ("r.example/app:1", "", &other),
        ("r.example/app:1", &reported, "r.example/app:evil"),
        ("docker.io/library/app:1", "", "app:2"),
    ] {
        let (world, (phase, message)) = put_back(present, image_id, from);
        assert_eq!((world.image("app"), world.swaps), (present, 0), "{from}");
        assert!(
            phase == StatePhase::Failed
                && message.contains("kubectl set image -n ns pod/p app=IMAGE"),
            "{message}"
        );
        assert!(
            world.reasons().contains(&Reason::RestartFailed),
            "it is told"
        );
    }
}

/// The image is still there, so nothing was reverted; and what is put back would get a digest again.
#[test]
fn an_alias_to_which_a_webhook_has_added_a_digest_is_not_called_reverted() {
    let to = "docker.io/library/app:1";
    let present = format!("{to}@{DIGEST}");
    let reported = format!("docker.io/library/app@{DIGEST}");
    for image_id in ["", &reported] {
        let (world, (phase, message)) = put_back_of(&present, image_id, ("app:1", to));
        assert_eq!(
            (world.image("app"), world.swaps, phase),
            (&*present, 0, StatePhase::Failed)
        );
        assert!(
            message.contains("kubectl set image -n ns pod/p app=IMAGE")
                && !message.contains("reverted"),
            "{message}"
        );
    }
    let (_, (_, message)) = put_back_of("app:1", "", ("app:1", to));
    assert!(message.contains("reverted"), "{message}");
}

fn orphan_of(world: &World, requests: &[RestartRequest]) -> Option<Orphan> {
    orphan(world.pod.as_ref().unwrap(), requests.iter(), |image| {
        park_image().is(image)
    })
}

/// A journal that was emptied says nothing of the container, so what the pod says is followed.
#[test]
fn a2_a_request_whose_journal_was_emptied_does_not_keep_its_container_parked() {
    let mut world = parked("Always");
    for mark in world.request.journal.as_mut().unwrap().0.values_mut() {
        *mark = Mark {
            restart_count: 1,
            container_id: "containerd://app-1".into(),
            ..Mark::default()
        };
    }
    assert_eq!(world.settle().reason, Reason::RequestWaits);
    let orphan = orphan_of(&world, std::slice::from_ref(&world.request)).unwrap();
    assert_eq!(&*orphan.change.unwrap().swaps[0].to, &*images("app").0);
}
