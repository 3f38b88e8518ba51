//! Webhooks that make another image of the park image, or of the one that is put back.

use serde_json::json;
use swaplet::image::build::derived_paths;
use swaplet_core::report::denial::UNDONE;
use swaplet_core::report::reason::Reason;
use swaplet_core::restart::reconcile::{Action, Change, ParkImage, orphan};
use swaplet_core::restart::request::StatePhase;

use super::{note, of, orphaned, parked, starts};
use crate::restart::world::{
    DIGEST, PARK, World, images, park_image, read_request, request, without_digests,
};

const MIRRORED: &str = "mirror.example/r.example/park:1";
const REPLACED: &str = "mirror.example/cache/0a1b:v1";

/// Makes the write, of which a webhook stores another image; the answer is read unless the life ends.
fn stores(world: &mut World, action: &Action, image: &str, answers: bool) {
    world.write(action);
    world.node_says("app", |pod, index| {
        pod.pod.containers[index].image = image.into();
    });
    let Action::Swap(change) = action else {
        unreachable!()
    };
    if answers {
        world
            .memory
            .note_stored(change, world.pod.as_ref().unwrap());
    } else {
        world.dies();
    }
}

/// What is written for containers that are parked for no request.
fn change_of(world: &World) -> Option<Change> {
    orphaned(world)?.change
}

fn swap(world: &mut World) -> Action {
    world.settle_until(|action| matches!(action, Action::Swap(..)))
}

/// By the name alone, in another life, where it is that of a mirror; by the answer, whatever it is.
#[test]
fn r1_a_park_image_that_a_webhook_has_renamed_is_replaced_at_once_and_its_record_stays() {
    for (image, answers) in [(MIRRORED, true), (MIRRORED, false), (REPLACED, true)] {
        let mut world = of(&without_digests("Always"));
        let out = swap(&mut world);
        stores(&mut world, &out, image, answers);
        assert!(orphaned(&world).is_none(), "{image}: its request does it");
        let Action::Swap(back) = swap(&mut world) else {
            unreachable!()
        };
        let change = &back.swaps[0];
        assert_eq!((&*change.from, &*change.to), (image, &*images("app").0));
        assert!(back.note.is_none(), "the record stays");
        world.write(&Action::Swap(back));
        let (phase, words) = world.assert_over("app");
        assert!(
            phase == StatePhase::Failed
                && words.contains("a webhook of the cluster has changed the park image")
                && words.contains(image),
            "{words}"
        );
        assert!(note(&world).is_some(), "the write that ends it keeps it");
        starts(&mut world);
        assert!(orphaned(&world).unwrap().change.unwrap().swaps.is_empty());
    }
}

/// The name says nothing, and nobody has read the answer: that the pod records this request, and one
/// change since then, says it.
#[test]
fn u27_an_image_that_is_stored_for_the_park_image_under_any_name_is_replaced_without_memory() {
    let mut world = of(&without_digests("Always"));
    let out = swap(&mut world);
    stores(&mut world, &out, REPLACED, false);
    starts(&mut world);
    assert!(orphaned(&world).is_none(), "its request does it");
    let Action::Swap(back) = swap(&mut world) else {
        unreachable!()
    };
    let change = &back.swaps[0];
    assert_eq!((&*change.from, &*change.to), (REPLACED, &*images("app").0));
    assert!(back.note.is_none(), "the record stays");
    world.write(&Action::Swap(back));
    let (phase, words) = world.dies().assert_over("app");
    assert!(
        phase == StatePhase::Failed
            && words.contains("a webhook of the cluster has changed the park image")
            && words.contains(REPLACED),
        "{words}"
    );
    starts(&mut world);
    assert!(orphaned(&world).unwrap().change.unwrap().swaps.is_empty());
}

/// One more change of the pod is somebody else's: a user's edit outranks a restart.
#[test]
fn u27_an_image_that_somebody_sets_while_the_container_is_parked_stays() {
    for turns in [false, true] {
        let mut world = of(&without_digests("Always"));
        world.settle();
        if turns {
            starts(&mut world);
            swap(&mut world);
        }
        world.node_says("app", |pod, index| {
            pod.pod.containers[index].image = REPLACED.into();
            pod.generation = pod.generation.map(|generation| generation + 1);
        });
        let (phase, words) = world.dies().assert_over("app");
        assert!(
            phase == StatePhase::Failed && words.contains("somebody else"),
            "{words}"
        );
        assert_eq!((world.image("app"), world.swaps), (REPLACED, 1));
    }
}

/// The record alone is stored: what has changed since then is somebody else's.
#[test]
fn u141_what_somebody_sets_after_a_webhook_has_undone_the_parking_stays() {
    let mut world = of(&without_digests("Always"));
    let out = swap(&mut world);
    let Action::Swap(change) = &out else {
        unreachable!()
    };
    let record = change.note.as_ref().unwrap().parked.clone();
    world.memory.note_in_vain("pods", UNDONE, world.now);
    world.node_says("app", |pod, index| {
        pod.parked = record;
        pod.pod.containers[index].image = REPLACED.into();
        pod.generation = pod.generation.map(|generation| generation + 1);
    });
    starts(&mut world);
    let (phase, words) = world.assert_over("app");
    assert!(
        phase == StatePhase::Failed && words.contains("somebody else"),
        "{words}"
    );
    assert_eq!((world.image("app"), world.swaps), (REPLACED, 0));
}

/// The record goes, so that the next process does not take what somebody sets then for another name
/// of the park image.
#[test]
fn u207_the_record_of_a_parking_that_a_webhook_has_undone_goes_before_the_next_try() {
    let mut world = of(&without_digests("Always"));
    let out = swap(&mut world);
    let Action::Swap(change) = &out else {
        unreachable!()
    };
    let record = change.note.as_ref().unwrap().parked.clone();
    world.pod.as_mut().unwrap().parked = record;
    let over = orphaned(&world).unwrap().change.unwrap();
    assert!(over.swaps.is_empty(), "{over:?}");
    world.pod.as_mut().unwrap().parked = over.note.unwrap().parked;
    world.dies();
    world.node_says("app", |pod, index| {
        pod.pod.containers[index].image = REPLACED.into();
        pod.generation = pod.generation.map(|generation| generation + 1);
    });
    starts(&mut world);
    let (phase, words) = world.assert_over("app");
    assert!(
        phase == StatePhase::Failed && words.contains("somebody else"),
        "{words}"
    );
    assert_eq!((world.image("app"), world.swaps), (REPLACED, 0));
}

/// The park image is stored, and the record is not.
#[test]
fn u32_a_container_whose_record_a_webhook_takes_away_is_brought_back_by_who_parked_it() {
    let mut world = of(&without_digests("Always"));
    let out = swap(&mut world);
    world.write(&out);
    world.pod.as_mut().unwrap().parked = None;
    let Action::Swap(change) = &out else {
        unreachable!()
    };
    let stored = world.pod.clone().unwrap();
    world.memory.note_stored(change, &stored);
    let mut lost = world.clone();
    for world in [&mut world, &mut lost] {
        starts(world);
    }
    world.settle();
    assert_eq!((world.image("app"), world.swaps), (&*images("app").0, 2));
    starts(&mut world);
    assert_eq!(world.assert_over("app").0, StatePhase::Succeeded);
    // Another process does not know what it was.
    lost.dies().settle();
    let (phase, words) = lost.state("app");
    assert!(
        phase == StatePhase::Failed && words.contains("stays in the park image"),
        "{words}"
    );
}

/// A dry run comes first, also of what is forced. What brings back waits for none.
#[test]
fn u223_what_a_webhook_would_make_of_the_park_image_is_tried_before() {
    let mut world = of(&without_digests("Always"));
    let Action::Swap(out) = swap(&mut world) else {
        unreachable!()
    };
    assert_eq!(out.tried, ["app".into()]);
    let mut world = parked("Always");
    let Action::Swap(back) = swap(&mut world) else {
        unreachable!()
    };
    assert!(back.tried.is_empty(), "{back:?}");
}

/// One of two containers begins when the other one comes back: what begins may be denied.
#[test]
fn u223_what_brings_a_container_back_is_written_alone() {
    let strategy = json!({"forceRecreate": true});
    let mut world = World::new(
        &request(&["app", "log"], &strategy),
        &without_digests("OnFailure"),
    );
    (world.park, world.most) = (Some(park_image()), 3);
    world.settle();
    starts(&mut world);
    world.most = 9;
    let mut swaps = Vec::new();
    while swaps.len() < 2 {
        let Action::Swap(change) = swap(&mut world) else {
            unreachable!()
        };
        let names = change.swaps.iter().map(|swap| &*swap.container);
        swaps.push(names.collect::<Vec<_>>().join(" "));
        world.write(&Action::Swap(change));
    }
    assert_eq!(swaps, ["app", "log"]);
}

/// The name says nothing, and the request is gone: nobody else knows what it had.
#[test]
fn u223_a_record_that_goes_while_its_container_has_another_image_is_told() {
    let mut world = of(&without_digests("Always"));
    let out = swap(&mut world);
    stores(&mut world, &out, REPLACED, true);
    let found = |world: &World| {
        let is_park = |image: &str| park_image().is(image);
        orphan(world.pod.as_ref().unwrap(), std::iter::empty(), is_park).unwrap()
    };
    let before = found(&world);
    assert_eq!(before.change, None, "it has not run");
    starts(&mut world);
    let goes = found(&world);
    assert_eq!(goes.stays, before.stays);
    for word in [
        REPLACED,
        &images("app").0,
        "kubectl set image -n ns pod/p app=IMAGE",
    ] {
        assert!(goes.stays[0].contains(word), "{word}: {:?}", goes.stays);
    }
    assert!(goes.change.unwrap().swaps.is_empty());
    // It holds up no other request.
    let mut second = request(&["log"], &json!({"forceRecreate": true}));
    second["metadata"]["uid"] = json!("second");
    world.request = read_request(&second);
    world.dies();
    swap(&mut world);
}

/// The controller was started with another park image since, or with none.
#[test]
fn u223_an_earlier_park_image_is_known_by_the_name_of_a_mirror_too() {
    let other = ParkImage::new(
        "r.example/park:2".parse().unwrap(),
        derived_paths([""; 0]).unwrap(),
    );
    for park in [Some(other), None] {
        let mut world = of(&without_digests("Always"));
        let out = swap(&mut world);
        stores(&mut world, &out, MIRRORED, false);
        starts(&mut world);
        world.park.clone_from(&park);
        let is_park = |image: &str| park.as_ref().is_some_and(|park| park.is(image));
        let record = note(&world).cloned();
        world.settle();
        let (phase, words) = world.state("app");
        assert!(
            phase == StatePhase::Failed && words.contains("stays in the park image"),
            "{words}"
        );
        let found = orphan(world.pod.as_ref().unwrap(), std::iter::empty(), is_park).unwrap();
        assert_eq!(found.change, None);
        assert!(found.stays[0].contains("(--park-image)"), "{found:?}");
        for name in ["app", "log"] {
            let mut second = request(&[name], &json!({"forceRecreate": true}));
            second["metadata"]["uid"] = json!("second");
            world.request = read_request(&second);
            world.dies();
            if name == "app" || park.is_some() {
                assert_eq!(world.settle().reason, Reason::RequestWaits, "{name}");
            }
        }
        assert_eq!((world.swaps, note(&world)), (1, record.as_ref()));
    }
}

/// Its request is gone.
#[test]
fn r1_an_orphan_under_the_name_of_a_mirror_is_brought_back() {
    let mut world = parked("Always");
    world.node_says("app", |pod, index| {
        pod.pod.containers[index].image = MIRRORED.into();
    });
    starts(&mut world);
    world.request.completed_at = Some("2026-01-01T00:00:00Z".parse().unwrap());
    let change = orphaned(&world).unwrap().change.unwrap();
    assert_eq!(
        (&*change.swaps[0].from, &*change.swaps[0].to),
        (MIRRORED, &*images("app").0)
    );
}

#[test]
fn r1_an_image_that_a_webhook_has_renamed_on_the_way_back_is_the_one_that_was_put_back() {
    for answers in [true, false] {
        let mut world = parked("Always");
        let back = swap(&mut world);
        stores(&mut world, &back, "mirror.example/app:1", answers);
        assert_eq!(world.settle().action, None);
        assert!(orphaned(&world).is_none());
        starts(&mut world);
        assert_eq!(
            world.assert_over("app"),
            (StatePhase::Succeeded, String::new())
        );
        assert!(orphaned(&world).unwrap().change.unwrap().swaps.is_empty());
    }
}

/// The image in the spec is another one, and the park program still runs.
#[test]
fn r1_a_record_goes_only_when_another_image_than_a_park_program_is_seen_to_have_run() {
    let mut world = parked("Always");
    world.request.completed_at = Some("2026-01-01T00:00:00Z".parse().unwrap());
    world.node_says("app", |pod, index| {
        pod.pod.containers[index].image = "r.example/app:2".into();
        pod.generation = pod.generation.map(|generation| generation + 1);
    });
    assert!(change_of(&world).is_none());
    world.node_says("app", |pod, index| {
        pod.observed_generation = pod.generation;
        assert_eq!(
            *pod.pod.containers[index].status.as_ref().unwrap().image,
            *PARK
        );
    });
    assert!(change_of(&world).is_none());
    starts(&mut world);
    assert!(orphaned(&world).unwrap().change.unwrap().swaps.is_empty());
}

/// A runtime shows an image that was pulled by its digest by no name.
#[test]
fn u151_a_record_goes_when_a_digest_that_somebody_has_set_is_seen_to_run() {
    const CONFIG: &str = "sha256:cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc";
    let mut world = parked("Always");
    world.request.completed_at = Some("2026-01-01T00:00:00Z".parse().unwrap());
    let shows = |world: &mut World, id: &str| {
        world.restarts("app", true).node_says("app", |pod, index| {
            pod.pod.containers[index].image = format!("r.example/app:2@{DIGEST}").into();
            pod.pod.containers[index].status.as_mut().unwrap().image = CONFIG.into();
            pod.details[index].image_id = id.into();
        });
        change_of(world)
    };
    // Still the park program, an image that says nothing, and that of somebody else.
    let park = format!("r.example/park@{DIGEST}");
    let other = format!("r.example/other@{DIGEST}");
    for id in [&*park, "", CONFIG, &*other] {
        assert!(shows(&mut world, id).is_none(), "{id}");
    }
    let over = shows(&mut world, &format!("r.example/app@{DIGEST}"));
    assert!(over.unwrap().swaps.is_empty());
    // The park image is of the same repository.
    world.node_says("app", |pod, _| {
        pod.parked.as_mut().unwrap().park = "r.example/app:park".into();
    });
    assert!(shows(&mut world, &format!("r.example/app@{DIGEST}")).is_none());
}

/// An alias that is renamed is restarted all the same, and taken back where it cannot be had.
#[test]
fn an_alias_that_a_webhook_has_renamed_counts_as_the_one_that_was_written() {
    for renamed in ["mirror.example/app:1", REPLACED] {
        let mut world = World::of("Always");
        let alias = swap(&mut world);
        stores(&mut world, &alias, renamed, true);
        world.settle();
        starts(&mut world);
        assert_eq!(
            world.assert_over("app"),
            (StatePhase::Succeeded, String::new())
        );

        let mut missing = World::of("Always");
        let alias = swap(&mut missing);
        stores(&mut missing, &alias, renamed, true);
        missing.node_says("app", |pod, index| {
            let status = pod.pod.containers[index].status.as_mut().unwrap();
            status.state = swaplet_core::objects::pod::ContainerState::Waiting {
                reason: "ImagePullBackOff".into(),
                message: "no".into(),
            };
        });
        let Action::Swap(back) = swap(&mut missing) else {
            unreachable!()
        };
        assert_eq!(
            (&*back.swaps[0].from, &*back.swaps[0].to),
            (renamed, &*images("app").0)
        );
    }
}
