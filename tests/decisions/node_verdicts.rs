//! What is remembered of nodes, for how long, and what outranks what.

use std::time::Duration;

use NodeClass::{Kubelet, Unknown, VirtualInert, VirtualRejects, VirtualUpdates};
use Proved::{FailsUnderNever, Inert, Rejects, Updates, UpdatesUnderNever};
use swaplet_core::cluster::node_class::{NodeClass, Recognised};
use swaplet_core::cluster::node_table::NodeTable;
use swaplet_core::cluster::node_verdicts::{
    COOL_DOWN, FAILURE_LASTS, MOST_VERDICTS, NodeId, NodeVerdicts, Proved, UnderNever,
    VERDICT_LASTS,
};
use swaplet_core::objects::moment::Moment;

use super::node_classes::node;
use crate::expect::moment;

const NODE: NodeId<'_> = NodeId {
    name: "n",
    uid: "u",
};
const MINUTE: Duration = Duration::from_secs(60);

/// A node that is taken for this class by its own label, an ordinary one, or one that cannot be
/// looked at.
fn taken_for(class: &str) -> Recognised {
    let table = NodeTable::built_in();
    match class {
        "NotSeen" => Recognised::by_name("n", &table),
        "Ordinary" => Recognised::of(&node("n", &[], &[], &[]), &table),
        "Unknown" => Recognised::of(&node("n", &["type=virtual-kubelet"], &[], &[]), &table),
        class => Recognised::of(
            &node("n", &[&format!("swaplet.io/node-class={class}")], &[], &[]),
            &table,
        ),
    }
}

struct World {
    verdicts: NodeVerdicts,
    recognised: Recognised,
    now: Moment,
}

impl World {
    fn of(class: &str) -> Self {
        Self {
            verdicts: NodeVerdicts::default(),
            recognised: taken_for(class),
            now: moment(1),
        }
    }

    fn learns(&mut self, proved: Proved) -> bool {
        self.learns_from("batch/pod", proved)
    }

    fn learns_from(&mut self, pod: &str, proved: Proved) -> bool {
        self.verdicts
            .learn(NODE, &self.recognised, proved, pod, self.now)
    }

    fn class(&self) -> NodeClass {
        self.class_in("batch")
    }

    fn class_in(&self, namespace: &str) -> NodeClass {
        self.verdicts
            .class(NODE, &self.recognised, namespace, self.now)
    }

    fn later(&mut self, time: Duration) -> NodeClass {
        self.now += time;
        self.class()
    }

    fn known(&self) -> usize {
        self.verdicts.all().count()
    }
}

#[test]
fn a_proof_on_an_unknown_node_counts_for_a_day() {
    for (proved, class) in [
        (Updates, VirtualUpdates),
        (Inert, VirtualInert),
        (Rejects, VirtualRejects),
    ] {
        let mut world = World::of("Unknown");
        assert_eq!(world.class(), Unknown);
        assert!(world.learns(proved));
        assert!(!world.learns(proved), "the same again is no news");
        assert_eq!(world.class(), class);
        assert_eq!(world.later(VERDICT_LASTS - Duration::from_secs(1)), class);
        assert_eq!(world.later(Duration::from_secs(1)), Unknown);
    }
}

#[test]
fn a_proof_that_contradicts_the_table_outranks_it() {
    for (taken, proved, class) in [
        ("VirtualUpdates", Inert, VirtualInert),
        ("VirtualUpdates", Rejects, VirtualRejects),
        ("VirtualInert", Updates, VirtualUpdates),
        ("VirtualInert", Rejects, VirtualRejects),
        ("VirtualRejects", Updates, VirtualUpdates),
        ("Kubelet", Inert, VirtualInert),
        ("Kubelet", Rejects, VirtualRejects),
        ("Ordinary", Rejects, VirtualRejects),
        ("NotSeen", Inert, VirtualInert),
    ] {
        let mut world = World::of(taken);
        let before = world.class();
        assert!(world.learns(proved));
        assert_eq!(world.class(), class, "{taken} {proved}");
        assert_eq!(world.later(VERDICT_LASTS), before, "{taken} {proved}");
    }
}

/// A kubelet that is busy for minutes is no inert provider; that its swaps work is no news.
#[test]
fn nothing_is_held_against_ordinary_nodes_but_the_word_of_a_virtual_kubelet() {
    for proved in [Updates, Inert] {
        let mut world = World::of("Ordinary");
        assert!(!world.learns(proved));
        assert_eq!((world.class(), world.known()), (Kubelet, 0));
    }
    let mut world = World::of("Kubelet");
    assert!(!world.learns(Updates));
    assert_eq!(world.known(), 0);
}

/// Throttling passes in minutes.
#[test]
fn a_node_that_is_known_to_update_cools_down_for_longer_each_time() {
    for taken in ["VirtualUpdates", "Kubelet"] {
        let mut world = World::of(taken);
        let normal = world.class();
        for times in [1, 2, 4, 8] {
            assert!(world.learns(Rejects));
            assert!(
                !world.learns(Rejects),
                "pods that were swapped before the answer add nothing"
            );
            assert_eq!(
                world.later(COOL_DOWN * times - Duration::from_secs(1)),
                VirtualRejects,
                "{taken} {times}"
            );
            assert_eq!(
                world.later(Duration::from_secs(1)),
                normal,
                "{taken} {times}"
            );
        }
        for _ in 0..40 {
            assert!(world.learns(Rejects));
            world.later(VERDICT_LASTS);
            assert_eq!(world.class(), normal, "never longer than a day");
        }
    }
}

#[test]
fn a_swap_that_works_ends_what_was_held_against_the_node() {
    let mut world = World::of("VirtualUpdates");
    for _ in 0..2 {
        world.learns(Inert);
        assert!(world.learns(Updates), "it was slow, not inert");
        assert_eq!(world.class(), VirtualUpdates);
    }
    world.learns(Rejects);
    assert_eq!(
        world.later(COOL_DOWN),
        VirtualUpdates,
        "counted from one again"
    );
    let mut kubelet = World::of("Kubelet");
    kubelet.learns(Inert);
    assert!(kubelet.learns(Updates));
    assert_eq!((kubelet.class(), kubelet.known()), (Kubelet, 0));
}

/// They were swapped before the provider failed.
#[test]
fn other_pods_do_not_end_a_cool_down() {
    for taken in ["VirtualUpdates", "Unknown", "Kubelet"] {
        let mut world = World::of(taken);
        world.learns(Rejects);
        for proved in [Updates, Inert] {
            assert!(!world.learns(proved), "{taken}");
            assert_eq!(world.class(), VirtualRejects, "{taken}");
        }
    }
}

#[test]
fn a_proved_updater_is_throttled_for_minutes_and_not_for_a_day() {
    let mut world = World::of("Unknown");
    world.learns(Updates);
    world.later(MINUTE);
    assert!(world.learns(Rejects));
    assert_eq!(world.later(COOL_DOWN - MINUTE), VirtualRejects);
    assert_eq!(world.later(MINUTE), Unknown);
}

/// Each of a thousand swaps per day proves it again.
#[test]
fn a_proof_is_renewed_rarely() {
    let mut world = World::of("Unknown");
    let mut news = 0;
    for _ in 0..(48 * 60) {
        news += u32::from(world.learns(Updates));
        assert_eq!(world.later(MINUTE), VirtualUpdates);
    }
    assert_eq!(news, 4);
}

#[test]
fn another_node_of_the_same_name_starts_anew() {
    let mut world = World::of("Unknown");
    world.learns(Rejects);
    for uid in ["other", ""] {
        let node = NodeId { name: "n", uid };
        assert_eq!(
            world
                .verdicts
                .class(node, &world.recognised, "batch", world.now),
            Unknown
        );
    }
}

#[test]
fn u36_what_was_proved_while_a_node_was_taken_for_another_class_does_not_count() {
    let mut world = World::of("Unknown");
    assert!(world.learns(UpdatesUnderNever) && world.learns(Rejects));
    let under_never = |world: &World| {
        let (node, now) = (&world.recognised, world.now);
        world.verdicts.under_never(NODE, node, "batch", false, now)
    };
    assert_eq!(
        (world.class(), under_never(&world)),
        (VirtualRejects, UnderNever::Yes)
    );
    world.recognised = taken_for("VirtualUpdates");
    assert_eq!(
        (world.class(), under_never(&world)),
        (VirtualUpdates, UnderNever::No)
    );
    assert!(world.learns(Inert), "nothing stands against it");
    assert_eq!(world.class(), VirtualInert);
}

#[test]
fn memory_is_bounded() {
    let mut world = World::of("Unknown");
    for number in 0..MOST_VERDICTS + 10 {
        let name = format!("n{number}");
        world.verdicts.learn(
            NodeId {
                name: &name,
                uid: "u",
            },
            &world.recognised,
            Updates,
            "p",
            world.now,
        );
        world.now += Duration::from_secs(1);
    }
    assert_eq!(world.known(), MOST_VERDICTS);
    assert!(
        world
            .verdicts
            .on(
                NodeId {
                    name: "n9",
                    uid: "u"
                },
                &world.recognised,
                "batch",
                world.now
            )
            .is_none(),
        "the oldest goes first"
    );
    world.now += VERDICT_LASTS * 2;
    world.learns(Updates);
    assert_eq!(world.known(), 1, "and what has long expired goes too");
}

/// One tenant's pod may be refused, or be slow, for reasons of its own.
#[test]
fn u136_what_stands_against_a_node_counts_in_its_namespace_and_for_all_when_three_agree() {
    for (proved, class) in [(Inert, VirtualInert), (Rejects, VirtualRejects)] {
        for (taken, otherwise) in [("VirtualUpdates", VirtualUpdates), ("Unknown", Unknown)] {
            let mut world = World::of(taken);
            assert!(world.learns_from("a/p1", proved));
            assert!(
                !world.learns_from("a/p2", proved),
                "no news of that namespace"
            );
            assert_eq!(
                (world.class_in("a"), world.class_in("victim")),
                (class, otherwise)
            );
            assert!(world.learns_from("b/p", proved));
            assert_eq!(
                (world.class_in("b"), world.class_in("victim")),
                (class, otherwise)
            );
            assert!(world.learns_from("c/p", proved));
            assert_eq!(world.class_in("victim"), class);
            assert!(!world.learns_from("d/p", proved), "there are enough");
            let known = world.verdicts.all().next().unwrap().1;
            assert_eq!(&*known.pod, "a/p1, b/p, c/p");
            assert_eq!(
                known.lasts,
                if taken == "Unknown" {
                    VERDICT_LASTS
                } else {
                    COOL_DOWN
                }
            );
            assert_eq!(world.later(VERDICT_LASTS), otherwise);
        }
    }
}

/// Pods of either are not swapped there, and what one has proved is not forgotten for the other.
#[test]
fn u136_one_namespace_is_ignored_and_another_refused() {
    for (first, second) in [(Inert, Rejects), (Rejects, Inert)] {
        let mut world = World::of("VirtualUpdates");
        assert!(world.learns_from("a/p", first) && world.learns_from("b/p", second));
        let classes = ["a", "b", "victim"].map(|namespace| world.class_in(namespace));
        assert_eq!(classes, [VirtualRejects, VirtualRejects, VirtualUpdates]);
    }
    let mut world = World::of("VirtualUpdates");
    assert!(world.learns_from("a/p1", Inert) && world.learns_from("b/p", Inert));
    assert!(world.learns_from("a/p2", Rejects), "it is refused now");
    assert_eq!(world.class_in("b"), VirtualRejects);
    assert_eq!(&*world.verdicts.all().next().unwrap().1.pod, "a/p1, b/p");
}

/// It is proved for whoever has a pod there.
#[test]
fn u136_that_a_node_updates_counts_for_all_and_ends_what_only_slow_pods_have_proved() {
    let mut world = World::of("Unknown");
    assert!(world.learns_from("a/p", Updates));
    assert_eq!(world.class_in("victim"), VirtualUpdates);
    assert!(world.learns_from("b/p", Inert));
    assert_eq!(
        (world.class_in("b"), world.class_in("a")),
        (VirtualInert, Unknown)
    );
    assert!(world.learns_from("c/p", Updates));
    assert_eq!(world.class_in("b"), VirtualUpdates);
    assert!(world.learns_from("b/p", Rejects));
    assert!(
        !world.learns_from("a/p", Updates),
        "by a swap before, maybe"
    );
    assert_eq!(world.class_in("b"), VirtualRejects);
}

/// A node whose row says this as well.
fn under_a_row(says: &str) -> World {
    let rows = format!("[{{name: row, class: Unknown, match: [{{labels: [a=b]}}]{says}}}]");
    let (node, table) = (node("n", &["a=b"], &[], &[]), NodeTable::read(&rows));
    World {
        recognised: Recognised::of(&node, &table.unwrap()),
        ..World::of("Unknown")
    }
}

/// A provider that nobody knows, one whose row allows it, and one whose row forbids it.
#[test]
fn t1_whether_pods_under_never_outlive_swaps_counts_by_what_is_known_of_the_provider() {
    let asked = |world: &World, is_tried| {
        world
            .verdicts
            .under_never(NODE, &world.recognised, "batch", is_tried, world.now)
    };

    let mut unknown = under_a_row("");
    assert_eq!(
        (asked(&unknown, false), asked(&unknown, true)),
        (UnderNever::Try, UnderNever::No)
    );
    assert!(unknown.learns(UpdatesUnderNever));
    assert!(
        !unknown.learns(UpdatesUnderNever),
        "the same again is no news"
    );
    assert_eq!(
        (asked(&unknown, true), unknown.class()),
        (UnderNever::Yes, VirtualUpdates),
        "it has updated as well"
    );
    unknown.later(VERDICT_LASTS);
    assert_eq!(asked(&unknown, false), UnderNever::Try);
    assert!(unknown.learns(FailsUnderNever));
    unknown.learns(UpdatesUnderNever);
    assert_eq!(
        asked(&unknown, false),
        UnderNever::No,
        "by a pod that was swapped before"
    );
    unknown.later(FAILURE_LASTS - MINUTE);
    assert_eq!(asked(&unknown, false), UnderNever::No);
    unknown.later(MINUTE);
    assert_eq!(asked(&unknown, false), UnderNever::Try);

    let mut allowed = under_a_row(", swapUnderNever: true");
    assert_eq!(asked(&allowed, true), UnderNever::Yes);
    for times in [1, 2, 4] {
        assert!(allowed.learns(FailsUnderNever));
        allowed.later(COOL_DOWN * times - MINUTE);
        assert_eq!(asked(&allowed, false), UnderNever::No);
        allowed.later(MINUTE);
        assert_eq!(asked(&allowed, false), UnderNever::Yes);
    }

    let mut forbidden = under_a_row(", swapUnderNever: false");
    forbidden.learns(UpdatesUnderNever);
    assert_eq!(asked(&forbidden, false), UnderNever::No);
    let mut ordinary = World::of("Ordinary");
    assert!(
        !ordinary.learns(FailsUnderNever)
            && !ordinary.learns(UpdatesUnderNever)
            && ordinary.known() == 0
    );
}

/// One tenant's pod may fail for reasons of its own.
#[test]
fn t6_a_failure_counts_in_its_namespace_and_for_all_when_three_agree() {
    let mut world = under_a_row(", swapUnderNever: true");
    let fails = |world: &mut World, pod: &str| {
        world
            .verdicts
            .learn(NODE, &world.recognised, FailsUnderNever, pod, world.now)
    };
    let asked = |world: &World, namespace: &str| {
        world
            .verdicts
            .under_never(NODE, &world.recognised, namespace, false, world.now)
    };
    assert!(fails(&mut world, "a/p1"));
    assert!(!fails(&mut world, "a/p2"), "no news of that namespace");
    assert_eq!(
        (asked(&world, "a"), asked(&world, "victim")),
        (UnderNever::No, UnderNever::Yes)
    );
    assert!(fails(&mut world, "b/p"));
    assert_eq!(
        (asked(&world, "b"), asked(&world, "victim")),
        (UnderNever::No, UnderNever::Yes)
    );
    assert!(fails(&mut world, "c/p"));
    assert_eq!(asked(&world, "victim"), UnderNever::No);
    assert!(!fails(&mut world, "d/p"), "there are enough");
    let known = world.verdicts.all().next().unwrap().1;
    assert_eq!(&*known.pod, "a/p1, b/p, c/p");
    world.later(FAILURE_LASTS);
    assert_eq!(asked(&world, "a"), UnderNever::Yes);
}

/// What one namespace has proved by a failure is no proof that swaps work.
#[test]
fn t6_a_failure_in_another_namespace_leaves_an_unknown_provider_unproved() {
    let mut world = under_a_row("");
    world.learns(FailsUnderNever);
    let asked = |world: &World, is_tried| {
        world
            .verdicts
            .under_never(NODE, &world.recognised, "other", is_tried, world.now)
    };
    assert_eq!(
        (asked(&world, false), asked(&world, true)),
        (UnderNever::Try, UnderNever::No)
    );
}
