//! Containers of private images: from 1.35 on a kubelet checks with each name of an image whether the
//! pod may use it, and swaplet does not know whether its Secret is still there.

use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};

use super::{Restarts, restarts, started, succeeded};
use crate::images::push_work;
use crate::pods::{EXITS_143, container, pod, spec};
use crate::registry_proxy::{Manner, RegistryProxy};
use crate::restart_parking::image;
use crate::version::minor;
use crate::warm_registry::create_login;
use crate::world::variable;

/// The pods, each called as its policy.
const POLICIES: [&str; 3] = ["Never", "OnFailure", "Always"];

fn asked(pod: &str, force: bool) -> Value {
    json!({"podName": pod, "containers": [{"name": "app"}], "strategy": {"forceRecreate": force}})
}

impl Restarts {
    /// A running pod whose container `app` has an image that only its Secret lets it pull.
    async fn run_private(&self, policy: &str, image: &str) {
        let mut app = container(&self.world, "app", EXITS_143);
        app["image"] = json!(image);
        let mut spec = spec(policy, vec![app, container(&self.world, "log", EXITS_143)]);
        spec["imagePullSecrets"] = json!([{"name": "login"}]);
        let name = policy.to_lowercase();
        self.world.create_pod(pod(&name, spec)).await;
        let runs = |pod: &Pod| started(pod, "app").is_some() && started(pod, "log").is_some();
        self.world.pod_is(&name, "running", runs).await;
    }

    /// Where it was restarted, by another name of the image that its node has.
    async fn assert_restarted(&self, name: &str, private: &str, times: i32) {
        let pod = self.world.pod_is(name, "there", |_| true).await;
        let alias = format!("{private}-restart-");
        assert_eq!(
            (restarts(&pod, "app"), pod.metadata.generation),
            (times, Some(1 + i64::from(times))),
            "{name}"
        );
        assert_eq!(image(&pod).starts_with(&alias), times > 0, "{name}");
        assert!(started(&pod, "app").is_some(), "{name}");
    }
}

/// A container that would be lost without the Secret is restarted for who says that it is there; under
/// `Always` nothing is lost.
#[tokio::test(flavor = "multi_thread")]
async fn l2_a_container_that_its_kubelet_may_refuse_is_restarted_by_force_only() {
    let restart = Restarts::new("restart-private").await;
    let (password, path) = (
        "correct-horse",
        format!("e2e/private:{}", std::process::id()),
    );
    let public = variable("SWAPLET_E2E_REGISTRY");
    push_work(&public, &format!("{public}/{path}")).await;
    let registry = RegistryProxy::start(Manner::Login("reader", password)).await;
    create_login(&restart.world, &registry, password).await;
    let private = format!("{}/{path}", registry.host());
    let _controller = restart.controller().await;
    for policy in POLICIES {
        restart.run_private(policy, &private).await;
    }
    let pulled = registry.asked();

    let checks = minor(&restart.world).await >= 35;
    let names = POLICIES.map(str::to_lowercase);
    for name in &names {
        restart.request(name, &asked(name, false)).await;
    }
    for name in &names {
        let states = restart.completed(name).await;
        if !checks || name == "always" {
            assert_eq!(states, succeeded(), "{name}");
            restart.assert_restarted(name, &private, 1).await;
            continue;
        }
        let told = states[0]["message"].to_string();
        assert!(
            states[0]["phase"] == "Failed"
                && ["imagePullSecrets", "1.35", "forceRecreate"]
                    .iter()
                    .all(|word| told.contains(word)),
            "{name}: {states}"
        );
        restart.assert_restarted(name, &private, 0).await;

        let forced = format!("{name}-forced");
        restart.request(&forced, &asked(name, true)).await;
        assert_eq!(restart.completed(&forced).await, succeeded(), "{forced}");
        restart.assert_restarted(name, &private, 1).await;
    }
    assert_eq!(registry.asked(), pulled, "from the image that the node has");
    restart.world.done().await;
}
