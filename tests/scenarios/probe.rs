//! `swaplet probe` on the mock node, in virtual time: what is concluded, what is written, and that
//! nothing stays.

mod pods;
mod stops;

use std::time::Duration;

use serde_json::{Value, json};
use swaplet_controller::terminate::probe::{Answer, Images, Probe, Probed, Way};
use swaplet_core::cluster::node_class::{NodeClass, Recognised};
use swaplet_core::cluster::node_table::NodeTable;
use swaplet_core::cluster::node_verdicts::Proved;
use swaplet_core::objects::node::NodeWire;
use swaplet_core::report::reason::Reason;
use swaplet_testbed::apiserver::{Effect, Rule, Verb};
use swaplet_testbed::virtual_node::{
    Gap, NodeOptions, OnUpdate, Profile, ProviderOptions, StatusMode, VirtualNode,
};
use swaplet_testbed::{ApiServer, Clock};
use tokio::sync::watch;
use tokio::time::sleep;

/// Not that of a controller.
const AGENT: &str = "probe";
const EXIT: &str = "registry.example/swaplet/exit:v1";
const PARK: &str = "registry.example/swaplet/park:v1";

/// A cluster of one node, which may also run a pod of somebody else.
struct Bed {
    server: ApiServer,
}

impl Bed {
    async fn with(profile: Profile) -> Self {
        Self::of(NodeOptions::new("n", profile)).await
    }

    async fn of(options: NodeOptions) -> Self {
        Self::at(ApiServer::new(Clock::default()), options).await
    }

    async fn at(server: ApiServer, options: NodeOptions) -> Self {
        tokio::spawn(VirtualNode::new(server.client_as("node"), server.clock(), options).run());
        while server.peek("nodes", "", "n").is_none() {
            sleep(Duration::from_millis(100)).await;
        }
        Self { server }
    }

    fn probe(&self) -> Probe {
        let node = self.server.peek("nodes", "", "n").unwrap();
        let node = serde_json::from_value::<NodeWire>((*node).clone())
            .unwrap()
            .read()
            .unwrap();
        Probe {
            client: self.server.client_as(AGENT),
            recognised: Recognised::of(&node, &NodeTable::built_in()),
            node,
            images: Images {
                exit: EXIT.parse().unwrap(),
                park: PARK.parse().unwrap(),
            },
            namespace: "default".to_owned(),
            timeout: Duration::from_secs(120),
            id: "id".to_owned(),
        }
    }

    /// Runs a probe to its end, and looks at what it leaves and has written.
    async fn run(&self) -> (Probed, NodeClass) {
        let (_keep, interrupt) = watch::channel(false);
        let probe = self.probe();
        let probed = probe.run(interrupt, &|_| {}).await;
        self.assert_clean();
        let class = probe.class(&probed);
        (probed, class)
    }

    /// No pod is left, nothing but pods of the probe was asked for, and no image was written but
    /// the exit image.
    fn assert_clean(&self) {
        assert_eq!(
            self.server
                .peek_all("pods")
                .iter()
                .filter(|pod| pod["metadata"]["labels"]["swaplet.io/probe"] == "id")
                .count(),
            0
        );
        for request in self
            .server
            .recorded()
            .iter()
            .filter(|request| request.user_agent.starts_with(AGENT))
        {
            assert_eq!(request.resource, "pods", "{request:?}");
            let name = if request.name.is_empty() {
                request.body["metadata"]["name"].as_str().unwrap()
            } else {
                &request.name
            };
            assert!(name.starts_with("swaplet-probe-id-"), "{request:?}");
        }
    }

    fn requests(&self, verb: Verb) -> Vec<Value> {
        let requests = self.server.recorded();
        let ours = requests
            .into_iter()
            .filter(|request| request.user_agent.starts_with(AGENT) && request.verb == verb);
        ours.map(|request| request.body).collect()
    }

    fn fault(&self, effect: impl Into<Effect>, narrow: impl Fn(Rule) -> Rule) {
        self.server
            .faults()
            .add(narrow(Rule::new(effect).user_agent(AGENT)));
    }
}

fn answers(probed: &Probed) -> Vec<Answer> {
    assert!(
        probed.stopped.is_none() && probed.left.is_empty(),
        "{probed:?}"
    );
    assert_eq!(
        probed
            .tried
            .iter()
            .map(|tried| tried.way)
            .collect::<Vec<_>>(),
        Way::ALL
    );
    probed.tried.iter().map(|tried| tried.answer).collect()
}

fn stopped(probed: Probed) -> String {
    assert!(probed.left.is_empty(), "{probed:?}");
    probed.stopped.unwrap().to_string()
}

const WORKS: Answer = Answer::Works;

#[tokio::test(start_paused = true)]
async fn on_a_kubelet_every_way_works_and_the_phase_holds() {
    let bed = Bed::with(Profile::kubelet()).await;
    let (probed, class) = bed.run().await;
    assert_eq!(answers(&probed), [WORKS, WORKS, WORKS], "{probed:#?}");
    assert_eq!(class, NodeClass::Kubelet);
    let swap = &probed.tried[0];
    assert!(swap.took.unwrap() < Duration::from_secs(10), "{swap:?}");
    assert_eq!(
        swap.evidence,
        [
            "new containerID",
            "restartCount 0 -> 1",
            "new imageID",
            "exit code 0",
            "pod Succeeded"
        ]
    );
    let finish = &probed.tried[2];
    // Quiet before it, and watched after it.
    assert!(finish.took.unwrap() > Duration::from_secs(30), "{finish:?}");
    assert_eq!(
        finish.evidence,
        [
            "same containerID",
            "restartCount 0",
            "same imageID",
            "exit code 143",
            "pod Succeeded"
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn on_a_node_that_updates_every_way_works() {
    for status in [StatusMode::default(), StatusMode::Poll] {
        let profile = Profile::Virtual(ProviderOptions {
            status,
            ..ProviderOptions::default()
        });
        let (probed, class) = Bed::with(profile).await.run().await;
        assert_eq!(answers(&probed), [WORKS, WORKS, WORKS], "{probed:#?}");
        assert_eq!(class, NodeClass::VirtualUpdates);
    }
}

#[tokio::test(start_paused = true)]
async fn on_a_node_that_ignores_images_only_finish_works() {
    let bed = Bed::with(Profile::inert()).await;
    let (probed, class) = bed.run().await;
    assert_eq!(
        answers(&probed),
        [
            Answer::Fails(Reason::SwapWithoutEffect),
            Answer::NotTried,
            WORKS
        ],
        "{probed:#?}"
    );
    assert_eq!(class, NodeClass::VirtualInert);
    assert_eq!(probed.tried[0].proved, Some(Proved::Inert));
    let finish = &probed.tried[2];
    assert!(
        finish.took.unwrap() >= Duration::from_secs(10)
            && finish.evidence.contains(&"pod Succeeded".to_owned()),
        "{finish:?}"
    );
    assert!(
        probed.tried[0]
            .evidence
            .contains(&"still running".to_owned())
    );
}

#[tokio::test(start_paused = true)]
async fn on_a_node_that_fails_on_images_only_finish_works() {
    let bed = Bed::with(Profile::rejects()).await;
    let (probed, class) = bed.run().await;
    let expected = [
        Answer::Fails(Reason::SwapRejected),
        Answer::Fails(Reason::PodFailedAfterSwap),
        WORKS,
    ];
    assert_eq!(answers(&probed), expected, "{probed:#?}");
    assert_eq!(class, NodeClass::VirtualRejects);
    assert!(
        probed.tried[1]
            .evidence
            .contains(&"pod Failed (ProviderFailed)".to_owned()),
        "{:?}",
        probed.tried[1]
    );
}

/// What was written is no evidence: it is looked whether it stays.
#[tokio::test(start_paused = true)]
async fn a_phase_that_somebody_takes_back_on_a_virtual_node_is_no_way() {
    let bed = Bed::with(Profile::inert()).await;
    let server = bed.server.clone();
    tokio::spawn(async move {
        let pods: kube::Api<k8s_openapi::api::core::v1::Pod> =
            kube::Api::default_namespaced(server.client_as("somebody"));
        let running = kube::api::Patch::Merge(json!({"status": {"phase": "Running"}}));
        loop {
            sleep(Duration::from_secs(8)).await;
            let _ = pods
                .patch_status(
                    "swaplet-probe-id-finish",
                    &kube::api::PatchParams::default(),
                    &running,
                )
                .await;
        }
    });
    let (probed, _) = bed.run().await;
    assert_eq!(
        answers(&probed)[2],
        Answer::Fails(Reason::FinishUndone),
        "{probed:#?}"
    );
    assert!(
        probed.tried[2].note.contains("reverted each time"),
        "{:?}",
        probed.tried[2]
    );
}

/// That the pod ended proves nothing of the way.
#[tokio::test(start_paused = true)]
async fn u92_a_pod_that_is_evicted_is_no_way_that_works() {
    let bed = Bed::with(Profile::inert()).await;
    let server = bed.server.clone();
    tokio::spawn(async move {
        let pods: kube::Api<k8s_openapi::api::core::v1::Pod> =
            kube::Api::default_namespaced(server.client_as("somebody"));
        let evicted = json!({"status": {"phase": "Failed", "reason": "Evicted", "message": "the node was low on memory"}});
        loop {
            sleep(Duration::from_secs(1)).await;
            for pod in server.peek_all("pods") {
                let mut containers = pod["spec"]["containers"].as_array().unwrap().iter();
                if containers.any(|one| one["image"] == EXIT) {
                    let name = pod["metadata"]["name"].as_str().unwrap();
                    let patch = kube::api::Patch::Merge(&evicted);
                    let _ = pods
                        .patch_status(name, &kube::api::PatchParams::default(), &patch)
                        .await;
                }
            }
        }
    });
    let (probed, _) = bed.run().await;
    let words = probed.stopped.as_ref().unwrap().to_string();
    assert!(words.contains("Evicted"), "{probed:#?}");
    assert!(probed.tried.is_empty(), "{probed:#?}");
}

/// The park image exits with 143, as most sidecars do, so such a provider fails the pod of a user
/// as it fails this one.
#[tokio::test(start_paused = true)]
async fn a_gap_in_which_the_pod_is_judged_is_found_under_never() {
    let profile = Profile::Virtual(ProviderOptions {
        gap: Gap::Judged,
        ..ProviderOptions::default()
    });
    let (probed, _) = Bed::with(profile).await.run().await;
    let swap = &probed.tried[1];
    assert_eq!(
        (swap.answer, swap.proved),
        (
            Answer::Fails(Reason::PodFailedAfterSwap),
            Some(Proved::FailsUnderNever)
        ),
        "{probed:#?}"
    );
}

/// One pod does not prove that a kubelet ignores images: it may be busy. So the class stays.
#[tokio::test(start_paused = true)]
async fn an_ordinary_node_is_not_judged_by_one_pod() {
    let inert = Profile::Virtual(ProviderOptions {
        on_update: OnUpdate::Nothing,
        ..ProviderOptions::default()
    });
    let mut options = NodeOptions {
        taints: Vec::new(),
        ..NodeOptions::new("n", inert)
    };
    options.labels.insert("type".to_owned(), String::new());
    let bed = Bed::of(options).await;
    assert_eq!(
        bed.probe().recognised.class,
        NodeClass::Kubelet,
        "{:?}",
        bed.probe().node
    );
    let (probed, class) = bed.run().await;
    assert_eq!(
        probed.tried[0].answer,
        Answer::Fails(Reason::SwapWithoutEffect)
    );
    assert_eq!(class, NodeClass::Kubelet);
}
