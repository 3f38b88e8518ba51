//! What webhooks make of the new image, and images that restarts have given other names.

use serde_json::json;
use swaplet_core::image::ImagePattern;
use swaplet_core::image::alias::{Alias, Reported};
use swaplet_core::report::reason::Reason;
use swaplet_core::restart::hot_upgrade::rollout::PodMemory;

use super::node::{
    NEW, Node, OLD, PARK, RECORD, WORKING, alone, images, planned, set, set_of, spec, write,
};

/// A pair that works, a second pod, and what a webhook has stored of the first upgrade.
fn stored(image: &str, answers: bool) -> ([Node; 2], [PodMemory; 2]) {
    let mut nodes = [Node::new("a"), Node::new("b")];
    let mut memories = [PodMemory::new(), PodMemory::new()];
    let begun = planned(&set(), &nodes, &mut memories, 0);
    nodes[0].takes(write(&begun));
    nodes[0].object["spec"]["containers"][2]["image"] = json!(image);
    if answers {
        memories[0].entry("mesh".into()).or_default().stored = Some(image.into());
    }
    nodes[0].starts(2);
    (nodes, memories)
}

#[test]
fn r2_a_new_image_that_a_webhook_has_renamed_is_taken_back_at_once_and_tried_on_no_other_pod() {
    let digest = format!("r.example/mesh@sha256:{}", "a".repeat(64));
    for (image, answers) in [
        ("mirror.example/r.example/mesh:2", false),
        ("mirror.example/cache/0a1b:v1", true),
        (&digest, false),
    ] {
        let (mut nodes, mut memories) = stored(image, answers);
        let back = planned(&set(), &nodes, &mut memories, 1);
        let change = write(&back);
        let report = change.report.as_ref().unwrap();
        assert_eq!(report.reason, Reason::HotUpgradeFailed);
        assert!(
            report.note.contains("a webhook of the cluster") && report.note.contains(image),
            "{}",
            report.note
        );
        nodes[0].takes(change);
        assert_eq!((nodes[0].image(1), nodes[0].image(2)), (OLD, PARK));
        nodes[0].starts(2);
        let over = planned(&set(), &nodes, &mut memories, 1000);
        assert_eq!((over.writes.len(), over.counts.failed), (0, 1), "{image}");
    }
}

/// In another life the record says that nothing else has changed the pod.
#[test]
fn u227_a_new_image_that_is_stored_under_any_name_is_taken_back_without_memory() {
    const REPLACED: &str = "mirror.example/cache/0a1b:v1";
    for (changes, is_back) in [(0, false), (1, true), (2, false)] {
        let mut nodes = [Node::new("a"), Node::new("b")];
        nodes[0].object["metadata"]["generation"] = json!(5);
        let begun = planned(&set(), &nodes, &mut [PodMemory::new(), PodMemory::new()], 0);
        nodes[0].takes(write(&begun));
        nodes[0].object["spec"]["containers"][2]["image"] = json!(REPLACED);
        nodes[0].object["metadata"]["generation"] = json!(5 + changes);
        nodes[0].starts(2);
        let mut memories = [PodMemory::new(), PodMemory::new()];
        let next = planned(&set(), &nodes, &mut memories, 1);
        if is_back {
            let change = write(&next);
            let note = &change.report.as_ref().unwrap().note;
            assert!(
                note.contains("a webhook of the cluster has made") && note.contains(REPLACED),
                "{note}"
            );
            nodes[0].takes(change);
            assert_eq!((nodes[0].image(1), nodes[0].image(2)), (OLD, PARK));
            assert!(!nodes[0].annotation(RECORD).contains("generation"));
        } else {
            assert!(next.writes.is_empty(), "{changes}: {next:?}");
            let note = &next.reports[0].1.note;
            assert!(note.contains("or a webhook of the cluster"), "{note}");
        }
    }
}

/// In another life nobody knows whose image that is, where the API server counts no generations.
#[test]
fn r2_a_pod_whose_upgrade_has_begun_counts_although_its_image_is_strange() {
    let (nodes, _) = stored("mirror.example/cache/0a1b:v1", false);
    for now in [1, 1000] {
        let mut memories = [PodMemory::new(), PodMemory::new()];
        let waits = planned(&set(), &nodes, &mut memories, now);
        assert!(waits.writes.is_empty(), "not in the second one: {waits:?}");
        assert_eq!((waits.counts.unknown, waits.counts.updated), (1, 0));
        assert_eq!(waits.reports[0].1.reason, Reason::HotUpgradeRefused);
    }
}

/// The webhook sets the image back, and the annotations are stored.
#[test]
fn r3_an_upgrade_whose_image_was_set_back_ends_in_words_and_says_which_container_works() {
    let (mut nodes, mut memories) = stored(PARK, false);
    assert_eq!(nodes[0].annotation(WORKING), r#"{"mesh":"mesh-2"}"#);
    let ends = planned(&set(), &nodes, &mut memories, 1);
    let change = write(&ends);
    let note = &change.report.as_ref().unwrap().note;
    assert!(note.contains("undone"), "{note}");
    nodes[0].takes(change);
    assert_eq!(nodes[0].annotation(WORKING), r#"{"mesh":"mesh-1"}"#);
    assert!(nodes[0].annotation(RECORD).contains("failed"));
    let over = planned(&set(), &nodes, &mut memories, 1000);
    assert_eq!((over.writes.len(), over.counts.failed), (0, 1));
}

/// Once by an alias with the tag, and once by the digest alone, of which the node shows the tag.
#[test]
fn r9_a_container_that_was_restarted_by_an_alias_is_upgraded_and_counted_like_any_other() {
    let digest = format!("sha256:{}", "a".repeat(64));
    let named = |tagged: &str| {
        [
            format!("{tagged}@{digest}"),
            format!("r.example/mesh@{digest}"),
        ]
    };
    for image in named(OLD) {
        let mut node = Node::new("a");
        node.object["spec"]["containers"][1]["image"] = json!(image);
        node.starts(1);
        node.object["status"]["containerStatuses"][1]["image"] = json!(OLD);
        let begins = alone(&set(), &node, &mut PodMemory::new(), 0);
        assert_eq!(&*write(&begins).image, NEW, "{image}");
        let old = alone(&set_of(&spec(OLD)), &node, &mut PodMemory::new(), 0);
        assert_eq!((old.writes.len(), old.counts.updated), (0, 1), "{image}");
    }
    // A digest of which no tag is known may be any image: it is refused, in words.
    let mut node = Node::new("a");
    node.object["spec"]["containers"][1]["image"] = json!(format!("r.example/mesh@{digest}"));
    node.starts(1);
    let refused = alone(&set(), &node, &mut PodMemory::new(), 0);
    assert_eq!((refused.writes.len(), refused.counts.updated), (0, 0));
    assert_eq!(refused.reports[0].1.reason, Reason::HotUpgradeRefused);
}

/// The webhook keeps the image of the old container, and the annotations are stored.
#[test]
fn u24_an_end_that_was_undone_is_under_way_and_made_again_and_no_other_pod_begins() {
    let (mut nodes, mut memories) = stored(NEW, false);
    planned(&set(), &nodes, &mut memories, 1);
    let ends = planned(&set(), &nodes, &mut memories, 4);
    nodes[0].takes(write(&ends));
    nodes[0].object["spec"]["containers"][1]["image"] = json!(OLD);
    for now in [5, 8, 2000] {
        let again = planned(&set(), &nodes, &mut memories, now);
        let change = write(&again);
        assert_eq!((&*change.container, &*change.image), ("mesh-1", PARK));
        assert_eq!((again.counts.unknown, again.reports.len()), (0, 0));
    }
    nodes[0].takes(write(&planned(&set(), &nodes, &mut memories, 2001)));
    nodes[0].starts(1);
    let over = planned(&set(), &nodes, &mut memories, 2002);
    assert_eq!(over.counts.updated, 1);
    for (nth, change) in &over.writes {
        if *nth == 0 {
            nodes[0].takes(change);
        }
    }
    assert_eq!(
        (
            nodes[0].image(1),
            nodes[0].image(2),
            nodes[0].annotation(RECORD)
        ),
        (PARK, NEW, "")
    );
}

/// However the administrator spells the image.
#[test]
fn u130_a_container_that_was_restarted_is_admitted_as_before() {
    let digest = format!("sha256:{}", "a".repeat(64));
    let by_digest = format!("r.example/mesh@{digest}");
    let pinned = format!("r.example/mesh:v1@{digest}");
    for (listed, written) in [
        (&*by_digest, &*by_digest),
        ("r.example/mesh@*", &by_digest),
        ("r.example/mesh@sha256:*", &by_digest),
        (&pinned, &pinned),
        ("r.example/mesh:*@sha256:*", &pinned),
        ("r.example/mesh", "r.example/mesh"),
        ("r.example/mesh:v1", "r.example/mesh:v1"),
        ("r.example/mesh:*-slim", "r.example/mesh:v1-slim"),
    ] {
        let mut images = images();
        images.listed = vec![ImagePattern::parse(listed).unwrap()];
        let reported = Reported {
            image: written,
            image_id: &by_digest,
        };
        let alias = Alias::of(written, reported, 1).unwrap().image;
        let admits = |image: &str| {
            let mut node = Node::new("a");
            node.object["spec"]["containers"][1]["image"] = json!(image);
            node.starts(1);
            images.admits(node.pod().find("mesh-1").unwrap())
        };
        assert!(admits(written) && admits(&alias), "{listed}: {alias}");
        let other = alias.replace("r.example/mesh", "r.example/other");
        assert!(!admits(&other), "{listed}: {other}");
    }
}
