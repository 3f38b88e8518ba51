//! Hot upgrades: which container of a pair gets which image, and when; and that nothing else
//! happens.

mod node;
mod rollout;
mod webhooks;

use std::collections::BTreeMap;

use proptest::prelude::*;
use serde_json::json;
use swaplet_core::report::reason::Reason;
use swaplet_core::restart::hot_upgrade::rollout::{Counts, Plan, PodMemory};

use self::node::{NEW, Node, OLD, PARK, RECORD, WORKING, alone, planned, set, set_of, spec, write};
use crate::expect::moment;

#[test]
fn the_new_image_starts_in_the_empty_container_and_the_old_one_becomes_empty_when_it_is_ready() {
    let (set, mut node, mut memory) = (set(), Node::new("a"), PodMemory::new());
    let begun = alone(&set, &node, &mut memory, 0);
    node.takes(write(&begun));
    assert_eq!((node.image(1), node.image(2)), (OLD, NEW));
    assert_eq!(node.annotation(WORKING), r#"{"mesh":"mesh-2"}"#);
    assert_eq!(node.annotation("version.sidecarset.kruise.io/mesh-2"), "77");
    assert_eq!(
        node.annotation("versionalt.sidecarset.kruise.io/mesh-2"),
        "0"
    );
    assert_eq!(
        node.annotation("versionalt.sidecarset.kruise.io/mesh-1"),
        "77"
    );
    assert_eq!(
        begun.counts,
        Counts {
            matched: 1,
            ready: 1,
            ..Counts::default()
        }
    );

    // The node still shows the park program.
    let waits = alone(&set, &node, &mut memory, 1);
    assert_eq!((waits.writes.len(), waits.due), (0, Some(moment(601))));
    // It shows the new one, which has to stay ready.
    node.starts(2);
    let waits = alone(&set, &node, &mut memory, 10);
    assert_eq!((waits.writes.len(), waits.due), (0, Some(moment(13))));
    let ends = alone(&set, &node, &mut memory, 13);
    let change = write(&ends);
    assert_eq!(
        change.report.as_ref().map(|report| report.reason),
        Some(Reason::HotUpgraded)
    );
    node.takes(change);
    assert_eq!((node.image(1), node.image(2)), (PARK, NEW));
    assert_eq!(node.annotation(WORKING), r#"{"mesh":"mesh-2"}"#);
    assert_eq!(node.annotation("version.sidecarset.kruise.io/mesh-1"), "0");
    assert_eq!(node.annotation("mine"), "1");

    // The record goes when the image is seen to be stored.
    let goes = write(&alone(&set, &node, &mut memory, 14)).clone();
    assert_eq!(
        (&*goes.before, &*goes.image, &goes.report),
        (PARK, PARK, &None)
    );
    node.takes(&goes);
    assert_eq!(node.annotation(RECORD), "");
    let over = alone(&set, &node, &mut memory, 15);
    let all = Counts {
        matched: 1,
        updated: 1,
        ready: 1,
        updated_ready: 1,
        ..Counts::default()
    };
    assert_eq!(
        over,
        Plan {
            counts: all,
            ..Plan::default()
        }
    );
    // The next one goes the other way.
    node.starts(1);
    let back = set_of(&spec(OLD));
    assert_eq!(
        &*write(&alone(&back, &node, &mut memory, 20)).container,
        "mesh-1"
    );
}

#[test]
fn another_life_goes_on_from_what_the_pod_says() {
    let (set, mut node) = (set(), Node::new("a"));
    node.takes(write(&alone(&set, &node, &mut PodMemory::new(), 0)));
    node.starts(2);
    let mut memory = PodMemory::new();
    assert!(
        alone(&set, &node, &mut memory, 100).writes.is_empty(),
        "it has not seen it ready for long"
    );
    node.takes(write(&alone(&set, &node, &mut memory, 103)));
    assert_eq!((node.image(1), node.image(2)), (PARK, NEW));
    node.takes(write(&alone(&set, &node, &mut PodMemory::new(), 200)));
    assert_eq!(node.annotation(RECORD), "");
    assert!(
        alone(&set, &node, &mut PodMemory::new(), 200)
            .writes
            .is_empty()
    );
}

#[test]
fn a_container_that_is_not_the_new_one_proves_nothing() {
    let (set, mut node, mut memory) = (set(), Node::new("a"), PodMemory::new());
    node.takes(write(&alone(&set, &node, &mut memory, 0)));
    // The park program was started once more.
    node.starts(2);
    node.object["status"]["containerStatuses"][2]["image"] = json!(PARK);
    for now in [1, 10, 100, 500] {
        assert!(alone(&set, &node, &mut memory, now).writes.is_empty());
    }
    // Ready for a moment, and not ready again.
    node.starts(2);
    assert!(alone(&set, &node, &mut memory, 501).writes.is_empty());
    node.object["status"]["containerStatuses"][2]["ready"] = json!(false);
    node.changed();
    assert!(alone(&set, &node, &mut memory, 510).writes.is_empty());
    node.starts(2);
    assert!(alone(&set, &node, &mut memory, 511).writes.is_empty());
    assert_eq!((node.image(1), node.image(2)), (OLD, NEW));
}

/// A kubelet shows an image that it knows by its digest alone as `sha256:` and a hash.
#[test]
fn u116_a_park_program_that_the_node_names_by_no_tag_is_not_the_new_image() {
    let digest = |letter: &str| format!("sha256:{}", letter.repeat(64));
    let park = format!("r.example/park@{}", digest("c"));
    for has_run in [true, false] {
        let (set, mut node, mut memory) = (set(), Node::new("a"), PodMemory::new());
        let shows_park = |node: &mut Node| {
            node.starts(2);
            let status = &mut node.object["status"]["containerStatuses"][2];
            (status["image"], status["imageID"]) = (json!(digest("d")), json!(park));
            node.changed();
        };
        node.object["spec"]["containers"][2]["image"] = json!(park);
        if has_run {
            shows_park(&mut node);
        } else {
            node.object["status"]["containerStatuses"] = json!([]);
            node.changed();
        }
        node.takes(write(&alone(&set, &node, &mut memory, 0)));
        if !has_run {
            node.object["status"]["containerStatuses"] = json!([{}, {}, {}]);
        }
        // The node starts it once more, and pulls the new image meanwhile.
        shows_park(&mut node);
        for now in [1, 10, 300] {
            assert_eq!(alone(&set, &node, &mut memory, now).writes, [], "{has_run}");
        }
        node.starts(2);
        let status = &mut node.object["status"]["containerStatuses"][2];
        status["imageID"] = json!(format!("r.example/mesh@{}", digest("a")));
        node.changed();
        assert_eq!(alone(&set, &node, &mut memory, 301).writes, []);
        node.takes(write(&alone(&set, &node, &mut memory, 304)));
        assert_eq!((node.image(1), node.image(2)), (PARK, NEW), "{has_run}");
    }
}

/// One that was edited again while it was pulled.
#[test]
fn u117_an_image_by_digest_that_was_taken_back_is_no_new_one_that_works() {
    let pinned = |letter: &str| format!("r.example/mesh@sha256:{}", letter.repeat(64));
    let (mut node, mut memory) = (Node::new("a"), PodMemory::new());
    let of = |letter: &str| {
        let mut set = set();
        set.containers[0].image = pinned(letter).into();
        set
    };
    node.object["status"]["containerStatuses"][2]["imageID"] =
        json!(format!("r.example/park@sha256:{}", "c".repeat(64)));
    node.takes(write(&alone(&of("a"), &node, &mut memory, 0)));
    for now in [1, 2] {
        node.takes(write(&alone(&of("b"), &node, &mut memory, now)));
    }
    assert_eq!(node.image(2), pinned("b"));
    node.starts(2);
    let status = &mut node.object["status"]["containerStatuses"][2];
    (status["image"], status["imageID"]) = (
        json!(format!("sha256:{}", "e".repeat(64))),
        json!(pinned("a")),
    );
    node.changed();
    for now in [3, 30] {
        assert_eq!(alone(&of("b"), &node, &mut memory, now).writes, []);
    }
}

#[test]
fn an_image_that_does_not_work_is_taken_back_and_tried_on_no_other_pod() {
    for (reason, after) in [
        ("ImagePullBackOff", 60),
        ("CrashLoopBackOff", 60),
        ("InvalidImageName", 0),
        ("", 600),
    ] {
        let set = set();
        let mut nodes = [Node::new("a"), Node::new("b")];
        let mut memories = [PodMemory::new(), PodMemory::new()];
        let begun = planned(&set, &nodes, &mut memories, 0);
        assert_eq!(begun.writes[0].0, 0);
        nodes[0].takes(write(&begun));
        if !reason.is_empty() {
            nodes[0].fails(2, reason);
        }
        let begins = planned(&set, &nodes, &mut memories, 0);
        if after > 0 {
            assert!(
                begins.writes.is_empty() && begins.due == Some(moment(after)),
                "{reason}"
            );
        }
        let back = planned(&set, &nodes, &mut memories, after);
        let change = write(&back).clone();
        let report = change.report.clone().unwrap();
        assert_eq!(report.reason, Reason::HotUpgradeFailed);
        assert!(
            report.note.contains(NEW) && report.note.contains(reason),
            "{}",
            report.note
        );
        nodes[0].takes(&change);
        assert_eq!((nodes[0].image(1), nodes[0].image(2)), (OLD, PARK));
        assert_eq!(nodes[0].annotation(WORKING), r#"{"mesh":"mesh-1"}"#);
        nodes[0].starts(2);
        // Also by another life.
        let mut others = [PodMemory::new(), PodMemory::new()];
        let stopped = planned(&set, &nodes, &mut others, 1000);
        assert!(stopped.writes.is_empty());
        assert_eq!(
            (
                stopped.counts.failed,
                stopped.counts.updated,
                stopped.counts.ready
            ),
            (1, 0, 2)
        );
        // Another image is tried, and so is this one where somebody has edited the set.
        assert_eq!(
            planned(
                &set_of(&spec("r.example/mesh:3")),
                &nodes,
                &mut others,
                1000
            )
            .writes
            .len(),
            1
        );
        let mut edited = set.clone();
        edited.generation += 1;
        assert_eq!(planned(&edited, &nodes, &mut others, 1000).writes.len(), 1);
    }
}

/// As where a policy engine replaces tags by digests.
#[test]
fn an_image_to_which_a_webhook_has_added_a_digest_is_the_one_that_was_written() {
    let (set, mut node, mut memory) = (set(), Node::new("a"), PodMemory::new());
    let pinned = format!("{NEW}@sha256:{}", "a".repeat(64));
    node.takes(write(&alone(&set, &node, &mut memory, 0)));
    node.object["spec"]["containers"][2]["image"] = json!(pinned);
    let (mut failing, mut seen) = (node.clone(), memory.clone());
    node.starts(2);
    assert!(alone(&set, &node, &mut memory, 1).writes.is_empty());
    node.takes(write(&alone(&set, &node, &mut memory, 4)));
    assert_eq!((node.image(1), node.image(2)), (PARK, &*pinned));
    node.takes(write(&alone(&set, &node, &mut memory, 5)));
    let over = alone(&set, &node, &mut memory, 5);
    assert_eq!((over.writes.len(), over.counts.updated), (0, 1));
    let other = set_of(&spec("r.example/mesh"));
    assert_eq!(alone(&other, &node, &mut memory, 6).counts.updated, 0);
    // One that cannot be had is tried once.
    failing.fails(2, "ImagePullBackOff");
    assert!(alone(&set, &failing, &mut seen, 1).writes.is_empty());
    failing.takes(write(&alone(&set, &failing, &mut seen, 61)));
    assert_eq!((failing.image(1), failing.image(2)), (OLD, PARK));
    failing.starts(2);
    let stopped = alone(&set, &failing, &mut seen, 62);
    assert_eq!((stopped.writes.len(), stopped.counts.failed), (0, 1));
}

/// It had this image not long ago, and the kubelet waits before it starts it again.
#[test]
fn an_image_that_has_not_been_started_yet_is_not_taken_back_for_a_back_off() {
    let (set, mut node, mut memory) = (set(), Node::new("a"), PodMemory::new());
    node.takes(write(&alone(&set, &node, &mut memory, 0)));
    let status = &mut node.object["status"]["containerStatuses"][2];
    status["ready"] = json!(false);
    status["state"] =
        json!({"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 1m20s"}});
    node.changed();
    for now in [1, 70, 300] {
        assert!(alone(&set, &node, &mut memory, now).writes.is_empty());
    }
    node.starts(2);
    assert!(alone(&set, &node, &mut memory, 301).writes.is_empty());
    assert_eq!(&*write(&alone(&set, &node, &mut memory, 304)).image, PARK);
}

/// No image is taken from a container that the administrator has not listed, as the API server asks.
#[test]
fn a_container_whose_image_is_not_listed_is_left_alone() {
    let mut node = Node::new("a");
    node.object["spec"]["containers"][1]["image"] = json!("r.example/other:1");
    let refused = alone(&set(), &node, &mut PodMemory::new(), 0);
    assert!(refused.writes.is_empty());
    assert_eq!(refused.reports[0].1.reason, Reason::HotUpgradeRefused);
}

#[test]
fn what_the_set_names_no_more_is_taken_back_without_a_word() {
    let (mut node, mut memory) = (Node::new("a"), PodMemory::new());
    node.takes(write(&alone(&set(), &node, &mut memory, 0)));
    let other = set_of(&spec("r.example/mesh:3"));
    let back = alone(&other, &node, &mut memory, 1);
    assert_eq!(write(&back).report, None);
    node.takes(write(&back));
    assert_eq!((node.image(1), node.image(2)), (OLD, PARK));
    node.starts(2);
    let again = alone(&other, &node, &mut memory, 2);
    assert_eq!(&*write(&again).image, "r.example/mesh:3");
}

/// A kubelet that has not seen the empty image restarts nothing for the image that it runs.
#[test]
fn u255_the_image_before_waits_until_the_node_shows_the_empty_one() {
    let (mut node, mut memory) = (Node::new("a"), PodMemory::new());
    node.takes(write(&alone(&set(), &node, &mut memory, 0)));
    node.starts(2);
    alone(&set(), &node, &mut memory, 1);
    node.takes(write(&alone(&set(), &node, &mut memory, 4)));
    node.takes(write(&alone(&set(), &node, &mut memory, 5)));
    assert_eq!((node.image(1), node.image(2)), (PARK, NEW));
    let back = set_of(&spec(OLD));
    for now in [6, 1000] {
        let waits = alone(&back, &node, &mut memory, now);
        assert_eq!((waits.writes.len(), waits.reports.len()), (0, 0), "{now}");
    }
    let mut failing = node.clone();
    failing.fails(1, "ImagePullBackOff");
    node.starts(1);
    for node in [node, failing] {
        let begins = alone(&back, &node, &mut memory, 1001);
        assert_eq!(
            (&*write(&begins).container, &*write(&begins).image),
            ("mesh-1", OLD)
        );
    }
}

/// It is no older one, whatever tag was tried before.
#[test]
fn u76_after_a_tag_that_was_taken_back_an_image_by_digest_works() {
    let (mut node, mut memory) = (Node::new("a"), PodMemory::new());
    node.takes(write(&alone(&set(), &node, &mut memory, 0)));
    let pinned = format!("r.example/mesh@sha256:{}", "b".repeat(64));
    let mut by_digest = set_of(&spec(NEW));
    by_digest.containers[0].image = pinned.as_str().into();
    for now in [1, 2] {
        node.takes(write(&alone(&by_digest, &node, &mut memory, now)));
    }
    assert_eq!(node.image(2), pinned);
    // The tag is pulled to its end, and started. Its bytes are not those.
    node.starts(2);
    let status = |node: &mut Node, image: &str, id: &str| {
        let status = &mut node.object["status"]["containerStatuses"][2];
        (status["image"], status["imageID"]) = (json!(image), json!(id));
        node.changed();
    };
    status(
        &mut node,
        NEW,
        &format!("r.example/mesh@sha256:{}", "a".repeat(64)),
    );
    for now in [3, 30] {
        assert_eq!(alone(&by_digest, &node, &mut memory, now).writes, []);
    }
    // Then the image itself, which the node shows by any of its names.
    node.starts(2);
    status(&mut node, NEW, &pinned);
    assert_eq!(alone(&by_digest, &node, &mut memory, 31).writes, []);
    node.takes(write(&alone(&by_digest, &node, &mut memory, 34)));
    assert_eq!((node.image(1), node.image(2)), (PARK, &*pinned));
}

/// A kubelet starts what it pulls, also when the spec has another image by then.
#[test]
fn u76_the_image_of_an_upgrade_that_was_taken_back_is_no_new_one_that_works() {
    for lives in [true, false] {
        let (mut node, mut memory) = (Node::new("a"), PodMemory::new());
        let old_run = node.object["status"]["containerStatuses"][2].clone();
        node.takes(write(&alone(&set(), &node, &mut memory, 0)));
        let pulled = {
            let mut pulled = node.clone();
            pulled.starts(2);
            pulled.object["status"]["containerStatuses"][2].clone()
        };
        let other = set_of(&spec("r.example/mesh:3"));
        for now in [1, 2] {
            node.takes(write(&alone(&other, &node, &mut memory, now)));
        }
        assert_eq!(node.image(2), "r.example/mesh:3");
        assert_eq!(node.object["status"]["containerStatuses"][2], old_run);
        node.object["status"]["containerStatuses"][2] = pulled;
        node.changed();
        for now in [3, 30] {
            if lives {
                memory = PodMemory::new();
            }
            assert_eq!(alone(&other, &node, &mut memory, now).writes, []);
        }
        node.starts(2);
        assert_eq!(alone(&other, &node, &mut memory, 40).writes, []);
        node.takes(write(&alone(&other, &node, &mut memory, 43)));
        assert_eq!((node.image(1), node.image(2)), (PARK, "r.example/mesh:3"));
    }
}

#[test]
fn where_nobody_can_know_which_one_works_nothing_is_written() {
    let both = |first: &str, second: &str| {
        let mut node = Node::new("a");
        node.object["spec"]["containers"][1]["image"] = json!(first);
        node.object["spec"]["containers"][2]["image"] = json!(second);
        node
    };
    for node in [
        both(OLD, OLD),
        both(PARK, PARK),
        both("r.example/exit:1", "r.example/exit:1"),
    ] {
        for working in ["", r#"{"mesh":"mesh-2"}"#, "[", r#"{"mesh":"app"}"#] {
            let mut node = node.clone();
            node.object["metadata"]["annotations"][WORKING] = json!(working);
            let refused = alone(&set(), &node, &mut PodMemory::new(), 0);
            assert!(refused.writes.is_empty(), "{refused:?}");
            assert_eq!(refused.reports[0].1.reason, Reason::HotUpgradeRefused);
            assert_eq!(refused.counts.unknown, 1);
        }
    }
    // Somebody has changed what was being upgraded.
    let (set, mut node, mut memory) = (set(), Node::new("a"), PodMemory::new());
    node.takes(write(&alone(&set, &node, &mut memory, 0)));
    node.object["spec"]["containers"][2]["image"] = json!("r.example/exit:1");
    node.starts(2);
    for now in [1, 1000] {
        assert!(alone(&set, &node, &mut memory, now).writes.is_empty());
    }
}

proptest! {
    /// Whatever happens to a pod and in whatever order: the images are those of the set, the one
    /// before or an empty one, and one container with an image that has been shown ready is never
    /// emptied before the other one was.
    #[test]
    fn never_is_the_last_working_container_emptied(steps in prop::collection::vec((0..7u8, 0..40u64), 1..60)) {
        let mut node = Node::new("a");
        let mut memory = PodMemory::new();
        let mut ready: BTreeMap<usize, bool> = [(1, true), (2, false)].into();
        // What it was given since a container was started from what the spec has.
        let mut given: [Vec<String>; 3] = Default::default();
        let mut now = 0;
        let mut image = 1;
        for (step, wait) in steps {
            now += wait;
            match step {
                0 => image += 1,
                1 => memory.clear(),
                2 | 3 => for nth in [1, 2] {
                    let shown = node.object["status"]["containerStatuses"][nth]["image"].clone();
                    if shown != node.image(nth) {
                        node.starts(nth);
                        given[nth].clear();
                        ready.insert(nth, node.image(nth) != PARK);
                    }
                },
                6 => for nth in [1, 2] {
                    if let Some(image) = given[nth].first().filter(|image| **image != node.image(nth)) {
                        let image = image.clone();
                        node.starts(nth);
                        node.object["status"]["containerStatuses"][nth]["image"] = json!(image);
                    }
                },
                4 => for nth in [1, 2] {
                    if node.object["status"]["containerStatuses"][nth]["image"] != node.image(nth) {
                        node.fails(nth, "ImagePullBackOff");
                    }
                },
                _ => {}
            }
            let set = set_of(&spec(&format!("r.example/mesh:{image}")));
            let plan = alone(&set, &node, &mut memory, now);
            prop_assert!(plan.writes.len() <= 1 && plan.reports.is_empty());
            if let Some((_, change)) = plan.writes.first() {
                let nth = if &*change.container == "mesh-1" { 1 } else { 2 };
                let other = 3 - nth;
                if *change.image == *PARK {
                    prop_assert!(ready[&other] && node.image(other) != PARK, "{change:?}");
                } else {
                    prop_assert_eq!(node.image(nth), PARK);
                    prop_assert_eq!(&*change.image, &*format!("r.example/mesh:{image}"));
                }
                ready.insert(nth, false);
                node.takes(change);
                given[nth].push(change.image.to_string());
            }
        }
    }
}

/// The advice would give the sidecar's image to the container that is to stay empty.
#[test]
fn u31_nothing_is_said_of_two_empty_containers_while_a_restart_has_one_parked() {
    let mut node = Node::new("a");
    node.object["spec"]["containers"][1]["image"] = json!(PARK);
    node.object["metadata"]["labels"]["swaplet.io/parked"] = json!("true");
    let parked = alone(&set(), &node, &mut PodMemory::new(), 0);
    assert_eq!((parked.reports.len(), parked.writes.len()), (0, 0));
    let labels = node.object["metadata"]["labels"].as_object_mut().unwrap();
    labels.remove("swaplet.io/parked");
    let told = alone(&set(), &node, &mut PodMemory::new(), 0);
    assert!(told.reports[0].1.note.contains("both mesh-1 and mesh-2"));
}
