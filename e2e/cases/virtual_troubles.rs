//! Virtual nodes that ignore updates or fail on them, on the real virtual-kubelet library: no pod
//! whose work is done ends Failed, one update at most reaches a provider that nobody knew, and none
//! once it has answered.

use std::time::Duration;

use tokio::time::sleep;

use crate::audit::{swapped_in, written_in};
use crate::controller::Controller;
use crate::pods::pod;
use crate::virtual_kubelet::VirtualNode;
use crate::virtual_nodes::placed;
use crate::world::{World, eventually};

/// How long a case watches that nothing more is written.
const SILENCE: Duration = Duration::from_secs(20);

/// A provider that cannot use updates, and what it is taken for.
struct Case {
    name: &'static str,
    options: &'static [&'static str],
    /// What the node says of itself; nothing where it is `None`.
    says: Option<&'static str>,
    /// How many of the first pods may be swapped.
    swaps: std::ops::RangeInclusive<usize>,
    /// The class of the node afterwards.
    class: &'static str,
    /// What is proved; nothing where it is empty.
    proved: &'static str,
}

const REJECTS: &[&str] = &["--profile", "rejects"];
const REJECTS_POLLED: &[&str] = &["--profile", "rejects", "--status", "poll"];
const INERT: &[&str] = &["--profile", "inert"];
const INERT_POLLED: &[&str] = &["--profile", "inert", "--status", "poll"];

impl Case {
    async fn run(self) {
        let world = World::new(self.name).await;
        let node = VirtualNode::start(&world, self.options).await;
        if let Some(class) = self.says {
            node.label(&world, class).await;
        }
        let controller = Controller::keeping_verdicts(&world).await;
        self.round(
            &world,
            &node,
            &[
                "never-0",
                "never-1",
                "onfailure-0",
                "onfailure-1",
                "onfailure-2",
            ],
        )
        .await;
        let swapped = swapped_in(&world.namespace);
        assert!(
            self.swaps.contains(&swapped.len())
                && swapped.iter().all(|name| name.starts_with("onfailure")),
            "{swapped:?}"
        );
        assert_eq!(
            node.known(&world, self.proved).await,
            (
                self.class.to_owned(),
                self.says.unwrap_or("Unknown").to_owned()
            )
        );
        // The next pods, and the next life of the controller.
        let _next = controller
            .killed(&world, &["--state-namespace", &world.namespace])
            .await;
        let next = ["never-8", "onfailure-8", "onfailure-9"];
        self.round(&world, &node, &next).await;
        assert_eq!(swapped_in(&world.namespace), swapped, "it had answered");
        for name in next {
            assert_eq!(node.calls("UpdatePod", name), 0, "{name}");
        }
        node.done(world).await;
    }

    /// Pods whose main containers exit with 0: all of them end well.
    async fn round(&self, world: &World, node: &VirtualNode, names: &[&str]) {
        for name in names {
            let policy = if name.starts_with("never") {
                "Never"
            } else {
                "OnFailure"
            };
            // A node that says of itself that it is a kubelet, and fails pods: nobody could protect
            // a pod under Never.
            if !(policy == "Never" && self.says == Some("Kubelet")) {
                world
                    .create_pod(pod(name, placed(world, node, policy, "term=143")))
                    .await;
            }
        }
        for found in world.pods().await {
            world
                .pod_ends(found.metadata.name.as_deref().unwrap(), "Succeeded")
                .await;
        }
    }
}

#[tokio::test]
async fn an_unknown_node_that_rejects() {
    Case {
        name: "vk-rejects",
        options: REJECTS,
        says: None,
        swaps: 1..=1,
        class: "VirtualRejects",
        proved: "Rejects",
    }
    .run()
    .await;
}

#[tokio::test]
async fn an_unknown_node_that_ignores() {
    Case {
        name: "vk-inert",
        options: INERT,
        says: None,
        swaps: 1..=1,
        class: "VirtualInert",
        proved: "Inert",
    }
    .run()
    .await;
}

// Where phases must not be written, the pods stay as they are, and their users are told, once.

async fn without_finish(case: &str, options: &[&str], told: &str) {
    let world = World::new(case).await;
    let node = VirtualNode::start(&world, options).await;
    let _controller = Controller::start_with(&world, &["--finish", "never"]).await;
    for policy in ["Never", "OnFailure"] {
        world
            .create_pod(pod(
                &policy.to_lowercase(),
                placed(&world, &node, policy, "term=143"),
            ))
            .await;
    }
    world.events(2).await;
    // The audit log follows the Events, on a busy machine by seconds.
    eventually("nothing more to be written", || async {
        let written = written_in(&world.namespace).len();
        sleep(SILENCE).await;
        (written_in(&world.namespace).len() == written).then_some(())
    })
    .await;
    assert_eq!(world.events_of("never", 1).await, ["NoRung"]);
    assert_eq!(world.events_of("onfailure", 1).await, [told]);
    assert_eq!(swapped_in(&world.namespace), ["onfailure"]);
    assert_eq!(node.calls("UpdatePod", "never"), 0);
    node.done(world).await;
}

#[tokio::test]
async fn a_node_that_ignores_where_phases_must_not_be_written() {
    without_finish("vk-inert-no", INERT, "SwapWithoutEffect").await;
}

mod long {
    use super::*;

    #[tokio::test]
    async fn an_unknown_node_that_rejects_and_is_polled() {
        Case {
            name: "vk-rejects-poll",
            options: REJECTS_POLLED,
            says: None,
            swaps: 1..=1,
            class: "VirtualRejects",
            proved: "Rejects",
        }
        .run()
        .await;
    }

    #[tokio::test]
    async fn an_unknown_node_that_ignores_and_is_polled() {
        Case {
            name: "vk-inert-poll",
            options: INERT_POLLED,
            says: None,
            swaps: 1..=1,
            class: "VirtualInert",
            proved: "Inert",
        }
        .run()
        .await;
    }

    #[tokio::test]
    async fn a_node_that_says_it_rejects() {
        Case {
            name: "vk-says-rejects",
            options: REJECTS,
            says: Some("VirtualRejects"),
            swaps: 0..=0,
            class: "VirtualRejects",
            proved: "",
        }
        .run()
        .await;
    }

    #[tokio::test]
    async fn a_node_that_says_it_ignores() {
        Case {
            name: "vk-says-inert",
            options: INERT,
            says: Some("VirtualInert"),
            swaps: 0..=0,
            class: "VirtualInert",
            proved: "",
        }
        .run()
        .await;
    }

    // Nodes that say what is not true: the first answer counts. Pods that were swapped before it
    // got one update each.

    #[tokio::test]
    async fn a_node_that_says_it_updates_and_rejects() {
        Case {
            name: "vk-lies-rejects",
            options: REJECTS,
            says: Some("VirtualUpdates"),
            swaps: 1..=3,
            class: "VirtualRejects",
            proved: "Rejects",
        }
        .run()
        .await;
    }

    #[tokio::test]
    async fn a_node_that_says_it_updates_and_ignores() {
        Case {
            name: "vk-lies-inert",
            options: INERT,
            says: Some("VirtualUpdates"),
            swaps: 1..=3,
            class: "VirtualInert",
            proved: "Inert",
        }
        .run()
        .await;
    }

    #[tokio::test]
    async fn a_node_that_says_it_is_a_kubelet_and_rejects() {
        Case {
            name: "vk-lies-kubelet",
            options: REJECTS,
            says: Some("Kubelet"),
            swaps: 1..=3,
            class: "VirtualRejects",
            proved: "Rejects",
        }
        .run()
        .await;
    }

    #[tokio::test]
    async fn a_node_that_rejects_where_phases_must_not_be_written() {
        without_finish("vk-rejects-no", REJECTS_POLLED, "SwapRejected").await;
    }
}
