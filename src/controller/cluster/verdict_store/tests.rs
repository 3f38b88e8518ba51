use swaplet_core::cluster::node_class::Recognised;
use swaplet_core::cluster::node_table::NodeTable;
use swaplet_core::cluster::node_verdicts::{
    FAILURE_LASTS, NodeId, NodeVerdict, UnderNever, VERDICT_LASTS,
};
use swaplet_core::objects::node::Node;

use super::*;

const HOUR: Duration = Duration::from_secs(3600);

const fn after(hours: u64) -> Moment {
    Moment::after_start(Duration::from_secs(3600 * hours))
}

fn verdict(until: Moment) -> NodeVerdict {
    NodeVerdict {
        uid: "u".into(),
        proved: Proved::Rejects,
        until,
        lasts: 10 * HOUR,
        times: 2,
        pod: "batch/p".into(),
        provider: "virtual-kubelet".into(),
        taken_for: Some(NodeClass::Unknown),
    }
}

fn day(hour: i64) -> Timestamp {
    Timestamp::from_second(1_767_225_600 + hour * 3600).unwrap()
}

#[test]
fn a_verdict_goes_on_in_the_next_life_as_if_nothing_had_happened() {
    let kept = Kept::of(&verdict(after(9)), after(2), day(0));
    assert_eq!((kept.proved_at, kept.until), (day(-3), day(7)));
    let text = serde_json::to_string(&kept).unwrap();
    assert!(
        text.contains("\"proved\":\"Rejects\"")
            && text.contains("\"provedAt\":\"2025-12-31T21:00:00Z\""),
        "{text}"
    );
    let read: Kept = serde_json::from_str(&text).unwrap();
    assert_eq!(read.restore(after(1), day(4)), Some(verdict(after(4))));
    let expired = read.restore(after(1), day(8)).unwrap();
    assert_eq!(
        (expired.until, expired.times),
        (after(1), 2),
        "it counts no more, and the next one counts double"
    );
    assert_eq!(read.restore(after(1), day(31)), None);
}

#[test]
fn no_clock_makes_a_verdict_last_for_ever() {
    let mut kept = Kept::of(&verdict(after(9)), Moment::START, day(0));
    kept.until = day(1_000_000);
    assert_eq!(
        kept.restore(after(1), day(0)).unwrap().until,
        after(1) + VERDICT_LASTS
    );
    kept.proved = "Nonsense".into();
    assert_eq!(kept.restore(after(1), day(0)), None);
}

#[test]
fn t1_what_is_known_of_pods_under_never_is_kept_beside_the_rest() {
    let (table, node) = (
        NodeTable::built_in(),
        NodeId {
            name: "vk",
            uid: "u",
        },
    );
    let unknown = Recognised::of(
        &Node {
            labels: [("type".into(), "virtual-kubelet".into())].into(),
            ..Node::default()
        },
        &table,
    );
    let mut verdicts = NodeVerdicts::default();
    for proved in [Proved::Updates, Proved::FailsUnderNever] {
        assert!(verdicts.learn(node, &unknown, proved, "batch/p", after(1)));
    }
    let kept = all_kept(&verdicts, after(1), day(0));
    assert_eq!(
        kept.keys()
            .map(|key| (&**key, node_of(key)))
            .collect::<Vec<_>>(),
        [("under-never_vk", "vk"), ("vk", "vk")]
    );

    let mut next = NodeVerdicts::default();
    for (key, kept) in &kept {
        next.restore(
            node_of(key),
            kept.restore(after(1), day(30)).unwrap(),
            after(1),
        );
    }
    assert_eq!(
        (
            next.class(node, &unknown, "batch", after(1)),
            next.under_never(node, &unknown, "batch", false, after(1))
        ),
        (NodeClass::Unknown, UnderNever::No)
    );
    let other = NodeId {
        name: "other",
        uid: "o",
    };
    assert_eq!(
        next.under_never(other, &unknown, "batch", false, after(1)),
        UnderNever::No,
        "of the same provider"
    );
    assert_eq!(
        next.under_never(other, &unknown, "batch", false, after(1) + FAILURE_LASTS),
        UnderNever::Try
    );
    // By hand, or by an administrator of another mind: it lasts as long as it can, and no name of a
    // provider is too long to be compared.
    let forged = Kept {
        until: day(1_000_000),
        provider: "x".repeat(100_000).into(),
        ..kept["under-never_vk"].clone()
    };
    assert_eq!(
        forged.restore(after(1), day(0)).unwrap().until,
        after(1) + FAILURE_LASTS
    );
    assert_eq!(
        key(&"n".repeat(253), Proved::Updates).map(|key| key.len()),
        Some(253)
    );
    assert_eq!(key(&"n".repeat(253), Proved::FailsUnderNever), None);
}

#[test]
fn an_entry_that_cannot_be_read_costs_no_other() {
    let good = serde_json::to_string(&Kept::of(&verdict(after(1)), Moment::START, day(0))).unwrap();
    let data = [("good", &*good), ("bad", "{"), ("worse", "")]
        .map(|(node, text)| (node.to_owned(), text.to_owned()));
    assert_eq!(read(data.into()).into_keys().collect::<Vec<_>>(), ["good"]);
}

/// As where somebody has written long values by hand.
#[test]
fn what_does_not_fit_into_a_config_map_is_not_written() {
    let long = |hour| Kept {
        proved_at: day(hour),
        pod: "x".repeat(300_000).into(),
        ..Kept::of(&verdict(after(1)), Moment::START, day(0))
    };
    let mut many: AllKept = (1..5)
        .map(|hour| (format!("n{hour}"), long(hour)))
        .collect();
    many.insert(
        "old".to_owned(),
        Kept {
            pod: "batch/p".into(),
            ..long(0)
        },
    );
    assert_eq!(
        data(&many).into_keys().collect::<Vec<_>>(),
        ["n3", "n4", "old"]
    );
}

#[test]
fn the_newer_of_two_counts_and_the_newest_of_many_are_kept() {
    let at = |hour| Kept {
        proved_at: day(hour),
        ..Kept::of(&verdict(after(1)), Moment::START, day(0))
    };
    let mut ours = AllKept::from([("a".to_owned(), at(1)), ("b".to_owned(), at(1))]);
    merge(
        &mut ours,
        AllKept::from([
            ("a".to_owned(), at(2)),
            ("b".to_owned(), at(0)),
            ("c".to_owned(), at(0)),
        ]),
    );
    assert_eq!(
        ours,
        AllKept::from([
            ("a".to_owned(), at(2)),
            ("b".to_owned(), at(1)),
            ("c".to_owned(), at(0))
        ])
    );
    let many: AllKept = (0..600)
        .map(|hour| (format!("n{hour:03}"), at(hour)))
        .collect();
    let data = data(&many);
    assert_eq!(
        (data.len(), data.keys().next().map(String::as_str)),
        (MOST_VERDICTS, Some("n100"))
    );
    assert!(
        data.iter()
            .map(|(node, text)| node.len() + text.len())
            .sum::<usize>()
            < 1 << 20
    );
}
