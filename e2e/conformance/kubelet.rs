//! The mock node's *kubelet* profile against a real kubelet.
//!
//! A case is a pod, made at random, and what is done to it while it lives: images are changed, it
//! is deleted. The same goes to the mock, in virtual time at the embedded API server, and to the
//! real node. Nothing on the real node is timed: it gets as long as it needs to get to where the
//! mock was, must stay there for a moment, and then comes the next action. Compared is what must be
//! the same however slow a node is: the lives of each container, one per restart count, with image
//! and exit; what it waits for in the end; the phase.

mod case;
mod drive;
mod record;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use k8s_openapi::api::core::v1::Secret;
use kube::api::PostParams;
use kube::{Api, Client};
use serde_json::json;
use swaplet::image::{ImagePattern, ImageReference};
use swaplet_testbed::virtual_node::images::digest_of as digest_on_mock;
use swaplet_testbed::virtual_node::{
    KubeletOptions, KubeletVersion, NodeOptions, Profile, VirtualNode,
};
use swaplet_testbed::{ApiServer, Clock};

use crate::api_server::side;
use crate::differences::KUBELET;
use crate::images::{Images, digest_of, push_work};
use crate::registry_proxy::{Manner, RegistryProxy};
use crate::shared::compare::Difference;
use crate::shared::known::KnownList;
use crate::shared::random::{Random, numbers, only, seed};
use crate::shared::runner::{Pair, run};
use crate::world::variable;
use case::{ALIASES, Case, IMAGES, MISSING, PRIVATE, RIGHT, WRONG};
use drive::{Place, drive};
use record::compare;

/// Pods at once on the real node.
const PLACES: usize = 14;

#[tokio::test]
async fn kubelet() {
    let nodes = Nodes::new().await;
    let numbers = numbers();
    let known = KnownList::new(KUBELET);
    let report = run(&nodes, &numbers, PLACES.min(numbers.len()), &known).await;
    side::clean(&nodes.real.client, &nodes.real.namespace).await;
    report.print("kubelet", seed(), &known);
    assert!(
        report.is_clean(),
        "the mock node differs from a real kubelet"
    );
}

struct Nodes {
    seed: u64,
    real: Place,
    runs: AtomicUsize,
    /// Gives images to those who log in.
    _private: RegistryProxy,
}

impl Nodes {
    async fn new() -> Self {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let registry = variable("SWAPLET_E2E_REGISTRY");
        let images = Images::push(&registry).await;
        let other = format!("{registry}/e2e/work:v2");
        push_work(&registry, &other).await;
        let client = Client::try_default().await.expect("KUBECONFIG");
        let namespace = format!("conformance-kubelet-{}", std::process::id());
        side::prepare(&client, &namespace).await;
        let digest = digest_of(&registry, &images.work).await;
        let alias = |number| format!("{registry}/e2e/work:alias-{number}@{digest}");
        let (first, second) = (alias(1), alias(2));
        let private = RegistryProxy::before(&registry, Manner::Login("reader", "right")).await;
        let behind = "e2e/work-private:v1";
        push_work(&registry, &format!("{registry}/{behind}")).await;
        for (name, password) in [(RIGHT, "right"), (WRONG, "wrong")] {
            create_login(&client, &namespace, (name, password), &private.host()).await;
        }
        let images = [
            images.work,
            other,
            images.exit,
            images.missing,
            first,
            second,
            format!("{}/{behind}", private.host()),
        ];
        let real = Place {
            client,
            namespace,
            node: variable("SWAPLET_E2E_NODE"),
            images,
            is_real: true,
        };
        Self {
            seed: seed(),
            real,
            runs: AtomicUsize::new(0),
            _private: private,
        }
    }

    /// The mock in a runtime of its own, whose time jumps.
    async fn mock(&self, case: &Case, name: &str) -> Vec<serde_json::Value> {
        let (case, name) = (case.clone(), name.to_owned());
        // The digest of an image of the mock is derived from its name.
        let mut images = self.real.images.clone();
        let digest = digest_on_mock(&ImageReference::parse(&images[0]).unwrap());
        for alias in ALIASES {
            let (name, _) = images[alias].split_once('@').unwrap();
            images[alias] = format!("{name}@{digest}");
        }
        let work = move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .start_paused(true)
                .build()
                .unwrap();
            runtime.block_on(on_mock(&case, &name, images))
        };
        tokio::task::spawn_blocking(work).await.expect("the mock")
    }
}

async fn on_mock(case: &Case, name: &str, images: [String; IMAGES]) -> Vec<serde_json::Value> {
    let server = ApiServer::new(Clock::default());
    let mut options = NodeOptions::new(
        "mock",
        Profile::Kubelet(KubeletOptions::of(KubeletVersion::V1_37)),
    );
    options.images.missing = vec![ImagePattern::parse(&images[MISSING]).unwrap()];
    options.images.private = vec![ImagePattern::parse(&images[PRIVATE]).unwrap()];
    options.images.secrets = vec![RIGHT.to_owned()];
    tokio::spawn(VirtualNode::new(server.client(), server.clock(), options).run());
    tokio::time::sleep(Duration::from_secs(1)).await;
    let place = Place {
        client: server.client(),
        namespace: "default".to_owned(),
        node: "mock".to_owned(),
        images,
        is_real: false,
    };
    drive(&place, case, name, None).await
}

/// Makes a Secret with the password of the user `reader` for a registry.
async fn create_login(client: &Client, namespace: &str, login: (&str, &str), host: &str) {
    let (name, password) = login;
    let auth = STANDARD.encode(format!("reader:{password}"));
    let config = json!({"auths": {host: {"auth": auth}}}).to_string();
    let secret = json!({"metadata": {"name": name}, "type": "kubernetes.io/dockerconfigjson",
        "stringData": {".dockerconfigjson": config}});
    let secrets: Api<Secret> = Api::namespaced(client.clone(), namespace);
    secrets
        .create(
            &PostParams::default(),
            &serde_json::from_value(secret).unwrap(),
        )
        .await
        .unwrap();
}

impl Pair for Nodes {
    type Case = Case;

    /// A case takes the real kubelet a quarter of a minute.
    const ATTEMPTS: usize = 6;

    fn case(&self, number: usize) -> Case {
        Case::new(&mut Random::of_sequence(self.seed, number))
    }

    fn size(case: &Case) -> usize {
        case.actions.len() + 1
    }

    fn smaller(case: &Case) -> Vec<Case> {
        case.smaller()
    }

    async fn run(&self, case: &Case, _: usize) -> Vec<Difference> {
        let name = format!("p{}", self.runs.fetch_add(1, Ordering::Relaxed));
        let mock = self.mock(case, &name).await;
        let real = drive(&self.real, case, &name, Some(&mock)).await;
        if only().is_some() {
            println!("{case}\n real {real:#?}\n mock {mock:#?}");
        }
        let steps = real.iter().zip(&mock).enumerate();
        steps
            .flat_map(|(step, (real, mock))| compare(case, step, real, mock))
            .collect()
    }
}

/// The pod of a case.
pub fn pod(place: &Place, case: &Case, name: &str) -> serde_json::Value {
    let container = |(index, one): (usize, &case::Container)| {
        let args = if place.is_real {
            json!([one.script()])
        } else {
            json!(one.words())
        };
        json!({"name": format!("c{index}"), "image": place.images[0], "imagePullPolicy": one.pulled, "args": args})
    };
    let containers: Vec<_> = case.containers.iter().enumerate().map(container).collect();
    let secrets: Vec<_> = case
        .secret
        .iter()
        .map(|name| json!({"name": name}))
        .collect();
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": {
        "nodeName": place.node, "restartPolicy": case.policy, "terminationGracePeriodSeconds": 2, "containers": containers,
        "imagePullSecrets": secrets, "automountServiceAccountToken": false, "enableServiceLinks": false,
    }})
}
