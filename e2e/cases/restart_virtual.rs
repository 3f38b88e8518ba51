//! Requests to restart containers of pods on virtual nodes, on the real virtual-kubelet library:
//! proven, or refused with the reason.

use std::time::Duration;

use futures::future::join_all;
use k8s_openapi::api::core::v1::Pod;
use serde_json::json;
use swaplet_controller::frame::clock::time_of_day;
use tokio::time::Instant;

use crate::audit::written_in;
use crate::controller::Controller;
use crate::pods::{container, pod, spec};
use crate::restart::{Restarts, started};
use crate::virtual_kubelet::VirtualNode;
use crate::world::eventually;

/// A virtual node with running pods of one container `app`, and a controller that keeps what it
/// learns.
struct Case {
    restarts: Restarts,
    node: VirtualNode,
    controller: Controller,
}

impl Case {
    async fn new(name: &str, options: &[&str], says: Option<&str>, pods: &[&str]) -> Self {
        Self::under("Always", name, options, says, pods).await
    }

    async fn under(
        policy: &str,
        name: &str,
        options: &[&str],
        says: Option<&str>,
        pods: &[&str],
    ) -> Self {
        let restarts = Restarts::new(name).await;
        let node = VirtualNode::start(&restarts.world, options).await;
        if let Some(class) = says {
            node.label(&restarts.world, class).await;
        }
        for name in pods {
            let mut spec = node.place(spec(
                policy,
                vec![container(&restarts.world, "app", "run=forever")],
            ));
            spec["terminationGracePeriodSeconds"] = 1.into();
            restarts.world.create_pod(pod(name, spec)).await;
        }
        for name in pods {
            restarts
                .world
                .pod_is(name, "running", |pod| started(pod, "app").is_some())
                .await;
        }
        let controller = Controller::start_with(&restarts.world, &arguments(&restarts)).await;
        Self {
            restarts,
            node,
            controller,
        }
    }

    /// The phase and the message of `app`, once its restart is over.
    async fn restart(&self, pod: &str, deadline: Option<u32>) -> (String, String) {
        let request = json!({"podName": pod, "containers": [{"name": "app"}], "activeDeadlineSeconds": deadline});
        self.restarts.request(pod, &request).await;
        let state = &self.restarts.completed(pod).await[0];
        let text = |field: &str| state[field].as_str().unwrap_or_default().to_owned();
        (text("phase"), text("message"))
    }

    async fn see(&self, pod: &str) -> Pod {
        self.restarts.world.pod_is(pod, "there", |_| true).await
    }

    /// So many changes of the pod were asked for, and reached the provider.
    fn updates(&self, pod: &str) -> (usize, usize) {
        let asked = written_in(&self.restarts.world.namespace)
            .into_iter()
            .filter(|write| write.resource == "pods" && write.pod == pod && write.code < 400);
        (asked.count(), self.node.calls("UpdatePod", pod))
    }

    async fn done(self) {
        self.node.done(self.restarts.world).await;
    }
}

fn arguments(restarts: &Restarts) -> [&str; 3] {
    ["--restart", "--state-namespace", &restarts.world.namespace]
}

fn image(pod: &Pod) -> &str {
    pod.spec.as_ref().unwrap().containers[0]
        .image
        .as_deref()
        .unwrap()
}

/// Its digest makes the alias; the start of another container is the proof, and all there is.
#[tokio::test]
async fn a_node_that_updates_and_reports_a_digest() {
    for (name, options) in [
        ("crr-vk-little", &["--image-id", "digest"][..]),
        (
            "crr-vk-all",
            &[
                "--image-id",
                "digest",
                "--container-ids",
                "new",
                "--restart-count",
                "counted",
                "--gap",
                "reported",
            ],
        ),
    ] {
        let case = Case::new(name, options, None, &["p"]).await;
        let before = case.see("p").await;
        // Statuses tell seconds: a start in the second of the one before would prove nothing.
        let next = started(&before, "app").unwrap() + Duration::from_secs(1);
        eventually("the second of its start to be over", || async {
            (time_of_day() > next).then_some(())
        })
        .await;
        assert_eq!(
            case.restart("p", None).await,
            ("Succeeded".to_owned(), String::new())
        );
        let after = case.see("p").await;
        assert!(
            started(&after, "app") > started(&before, "app"),
            "{after:#?}"
        );
        assert_eq!(
            image(&after)
                .strip_prefix(image(&before))
                .map(|added| &added[..9]),
            Some("-restart-")
        );
        assert_eq!(case.updates("p"), (1, 1));
        case.done().await;
    }
}

/// As often as somebody asks, under each policy. Under `Never` swaplet does not do it unasked on a
/// virtual node.
async fn repeated(name: &str, times: usize) {
    let policies = ["Always", "OnFailure", "Never"];
    join_all(policies.map(|policy| repeated_under(policy, name, times))).await;
}

async fn repeated_under(policy: &str, name: &str, times: usize) {
    let name = format!("{name}-{}", policy.to_lowercase());
    let case = Case::under(policy, &name, &["--image-id", "digest"], None, &["p"]).await;
    let begun = Instant::now();
    for nth in 1..=times {
        // Statuses tell seconds: a start in the second of the one before would prove nothing.
        tokio::time::sleep(Duration::from_millis(1100)).await;
        let request = format!("r{nth}");
        let strategy = json!({"forceRecreate": policy == "Never"});
        let asked = json!({"podName": "p", "containers": [{"name": "app"}], "strategy": strategy});
        case.restarts.request(&request, &asked).await;
        let state = case.restarts.completed(&request).await;
        assert_eq!(state[0]["phase"], "Succeeded", "{policy} {nth}: {state}");
    }
    let seconds = begun.elapsed().as_secs();
    println!("{policy}: {times} restarts in {seconds} s");
    assert_eq!(case.updates("p"), (times, times));
    case.done().await;
}

#[tokio::test]
async fn l1_six_restarts_in_a_row_lose_nothing_there() {
    repeated("crr-vk-six", 6).await;
}

/// One pod finds out. What it shows stands in the request, and its node is left alone from then on,
/// also by the next life.
#[tokio::test]
async fn a_node_that_rejects_is_tried_once() {
    let case = Case::new(
        "crr-vk-rejects",
        &["--profile", "rejects", "--image-id", "digest"],
        None,
        &["p", "q", "r"],
    )
    .await;
    let (phase, message) = case.restart("p", None).await;
    assert!(
        phase == "Failed" && message.contains("ProviderFailed"),
        "{message}"
    );
    assert_eq!(
        case.node.known(&case.restarts.world, "Rejects").await.0,
        "VirtualRejects"
    );
    let (phase, message) = case.restart("q", None).await;
    assert!(
        phase == "Failed" && message.contains("the node fails on a changed image"),
        "{message}"
    );
    let Case {
        restarts,
        node,
        controller,
    } = case;
    let controller = controller
        .killed(&restarts.world, &arguments(&restarts))
        .await;
    let case = Case {
        restarts,
        node,
        controller,
    };
    let (phase, message) = case.restart("r", None).await;
    assert!(
        phase == "Failed" && message.contains("the node fails on a changed image"),
        "{message}"
    );
    assert_eq!((case.updates("q"), case.updates("r")), ((0, 0), (0, 0)));
    case.done().await;
}

mod long {
    use super::*;

    #[tokio::test]
    async fn l1_fifty_restarts_in_a_row_lose_nothing_there() {
        repeated("crr-vk-fifty", 50).await;
    }

    /// A guess would make the provider pull what may not be there.
    #[tokio::test]
    async fn a_node_that_updates_and_reports_no_digest() {
        let case = Case::new("crr-vk-nodigest", &["--image-id", "empty"], None, &["p"]).await;
        let (phase, message) = case.restart("p", None).await;
        assert!(
            phase == "Failed" && message.contains("the node reports no digest of its image"),
            "{message}"
        );
        assert_eq!(case.updates("p"), (0, 0));
        case.done().await;
    }

    #[tokio::test]
    async fn an_inert_node_ends_the_request_within_its_deadline() {
        let case = Case::new(
            "crr-vk-inert",
            &["--profile", "inert", "--image-id", "digest"],
            None,
            &["p", "q"],
        )
        .await;
        let before = case.see("p").await;
        let (long, short) = tokio::join!(case.restart("p", Some(150)), case.restart("q", Some(10)));
        assert!(
            long.0 == "Failed" && long.1.contains("the node has not restarted it in 61 s"),
            "{long:?}"
        );
        assert_eq!(
            short,
            (
                "Failed".to_owned(),
                "recreating has exceeded the activeDeadlineSeconds".to_owned()
            )
        );
        assert_eq!(
            (started(&case.see("p").await, "app"), case.updates("p")),
            (started(&before, "app"), (1, 1))
        );
        case.done().await;
    }

    #[tokio::test]
    async fn a_node_that_says_what_it_cannot_is_not_tried() {
        for (class, word) in [
            ("VirtualRejects", "the node fails on a changed image"),
            ("VirtualInert", "the node ignores a changed image"),
        ] {
            let name = format!("crr-vk-{}", class.to_lowercase());
            let case = Case::new(
                &name,
                &["--profile", "rejects", "--image-id", "digest"],
                Some(class),
                &["p"],
            )
            .await;
            let (phase, message) = case.restart("p", None).await;
            assert!(phase == "Failed" && message.contains(word), "{message}");
            assert_eq!(case.updates("p"), (0, 0));
            case.done().await;
        }
    }
}
