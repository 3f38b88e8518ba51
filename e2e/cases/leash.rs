//! The leash (`deploy/leash.yaml`) on a real API server: what it forbids, what it lets through, and
//! how the controller lives with it.

mod asked;
mod digests;
mod forbidden;
mod generated;
mod hot_upgrade;
mod image_caches;
mod legal;
mod lives;
mod nodes;
mod opted_in;
mod parked;
mod pods;
mod protected;
mod table;

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::rbac::v1::{Role, RoleBinding};
use kube::api::{Patch, PatchParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config};
use serde_json::{Value, json};
use tokio::process::Command;

use crate::crds::requests_are_served;
use crate::world::{World, eventually, kubectl};

/// The pods by which it is seen that the leash is on.
pub const PROBES: [&str; 2] = ["plain", "other"];

const POLICIES: [&str; 12] = [
    "pods",
    "pods-status",
    "warmers",
    "nodes",
    "protected",
    "image-caches",
    "events",
    "state",
    "own-requests",
    "own-jobs",
    "requests",
    "pull-jobs",
];

/// The namespace in which nothing is written to pods.
pub fn closed(world: &World) -> String {
    format!("{}-closed", world.namespace)
}

/// A world with a leash for its own ServiceAccount, which has more rights than it should: what is
/// denied, the leash denies.
pub struct Leashed {
    pub world: World,
    /// With the token of the controller.
    pub swaplet: Client,
    /// The name that the policies begin with.
    pub prefix: String,
}

impl Leashed {
    pub async fn new(case: &str) -> Self {
        Self::with(case, str::to_owned).await
    }

    /// With a leash that is changed so.
    async fn with(case: &str, change: impl Fn(&str) -> String) -> Self {
        let world = World::without_leash(case).await;
        give_every_right_on_pods(&world).await;
        kubectl(&["create", "namespace", &closed(&world)]).await;
        let manifest = manifest(&world, change);
        let file = world.kubeconfig.with_file_name("leash.json");
        std::fs::write(&file, manifest.to_string()).unwrap();
        kubectl(&["apply", "-f", file.to_str().unwrap()]).await;
        let kubeconfig = Kubeconfig::read_from(&world.kubeconfig).unwrap();
        let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default())
            .await
            .unwrap();
        let leashed = Self {
            prefix: format!("{}-leash-", world.namespace),
            swaplet: Client::try_from(config).unwrap(),
            world,
        };
        leashed.is_on().await;
        leashed
    }

    /// The API server learns of policies some time after they are stored.
    async fn is_on(&self) {
        self.world.create_pod(pods::plain(self)).await;
        for (subresource, patch) in [
            ("", json!({"metadata": {"labels": {"a": "b"}}})),
            ("status", json!({"status": {"message": "x"}})),
        ] {
            eventually("the leash to be on", || async {
                self.patch("plain", subresource, &patch).await.err()
            })
            .await;
        }
        let pods: Api<Pod> = Api::namespaced(self.swaplet.clone(), &self.world.namespace);
        let pod =
            serde_json::from_value(pods::pod(self, "other", "Never", json!([pods::main(self)])))
                .unwrap();
        eventually("the leash of warmer pods to be on", || async {
            pods.create(&dry_post(), &pod).await.err()
        })
        .await;
    }

    /// A strategic merge patch by the controller; nothing is changed by it. Its error is what the
    /// API server says.
    pub async fn patch(&self, pod: &str, subresource: &str, patch: &Value) -> Result<Pod, String> {
        let pods: Api<Pod> = Api::namespaced(self.swaplet.clone(), &self.world.namespace);
        let (params, patch) = (
            PatchParams {
                dry_run: true,
                ..PatchParams::default()
            },
            Patch::Strategic(patch),
        );
        let patched = if subresource.is_empty() {
            pods.patch(pod, &params, &patch).await
        } else {
            pods.patch_subresource(subresource, pod, &params, &patch)
                .await
        };
        patched.map_err(|error| error.to_string())
    }

    /// The policies belong to no namespace.
    pub async fn done(self) {
        for kind in [
            "validatingadmissionpolicybinding",
            "validatingadmissionpolicy",
        ] {
            for policy in POLICIES {
                kubectl(&["delete", kind, &format!("{}{policy}", self.prefix)]).await;
            }
        }
        kubectl(&["delete", "namespace", &closed(&self.world), "--wait=false"]).await;
        self.world.done().await;
    }
}

pub fn dry_post() -> PostParams {
    PostParams {
        dry_run: true,
        ..PostParams::default()
    }
}

/// `deploy/leash.yaml` with the parameters of this world, for its namespace only: other cases run
/// at the same time.
fn manifest(world: &World, change: impl Fn(&str) -> String) -> Value {
    let text = change(include_str!("../../deploy/leash.yaml"))
        .replace(
            "system:serviceaccount:swaplet:swaplet",
            &format!("system:serviceaccount:{}:swaplet", world.namespace),
        )
        .replace("swaplet-leash-", &format!("{}-leash-", world.namespace))
        .replace("registry.example/swaplet/exit:v1", &world.images.exit)
        .replace("registry.example/swaplet/park:v1", &world.images.park)
        .replace("registry.example/none:none", hot_upgrade::LISTED)
        .replace(
            "system:serviceaccount:swaplet-warm:swaplet-warm",
            &format!("system:serviceaccount:{}:swaplet-warm", world.namespace),
        )
        .replace("[\"kube-system\"]", &format!("[\"{}\"]", closed(world)))
        .replace("'[\"\"]'", "'[\"sandbox.example/*\"]'")
        .replace("[\"swaplet-warm\"]", &format!("[\"{}\"]", world.namespace))
        .replace("'[\"-\"]'", &format!("'[\"{}\"]'", opted_in::LISTED));
    let mut objects: Vec<Value> = serde_saphyr::from_multiple(&text).unwrap();
    for object in objects
        .iter_mut()
        .filter(|object| object["kind"] == "ValidatingAdmissionPolicyBinding")
    {
        object["spec"]["matchResources"] = json!({"namespaceSelector": {"matchExpressions": [
            {"key": "kubernetes.io/metadata.name", "operator": "In", "values": [world.namespace, closed(world)]},
        ]}});
    }
    json!({"apiVersion": "v1", "kind": "List", "items": objects})
}

async fn give_every_right_on_pods(world: &World) {
    let role = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {"name": "too-much"},
        "rules": [{"apiGroups": [""], "resources": ["pods", "pods/status"], "verbs": ["*"]}],
    });
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": {"name": "too-much"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "too-much"},
        "subjects": [{"kind": "ServiceAccount", "name": "swaplet", "namespace": world.namespace}],
    });
    let params = PostParams::default();
    world
        .api::<Role>()
        .create(&params, &serde_json::from_value(role).unwrap())
        .await
        .unwrap();
    world
        .api::<RoleBinding>()
        .create(&params, &serde_json::from_value(binding).unwrap())
        .await
        .unwrap();
}

/// The type checker of the API server, which looks at policies in the background, has nothing to
/// say about them.
#[tokio::test]
async fn the_expressions_fit_the_types_of_the_objects() {
    requests_are_served().await;
    let leashed = Leashed::new("leash-types").await;
    for policy in POLICIES {
        let name = format!("{}{policy}", leashed.prefix);
        let warnings = eventually("the policy to be checked", || async {
            let arguments = ["get", "validatingadmissionpolicy", &name, "-o", "json"];
            let output = Command::new("kubectl")
                .args(arguments)
                .output()
                .await
                .unwrap();
            let policy: Value = serde_json::from_slice(&output.stdout).unwrap();
            policy["status"]["observedGeneration"]
                .is_number()
                .then(|| policy["status"]["typeChecking"].clone())
        })
        .await;
        assert_eq!(warnings["expressionWarnings"], Value::Null, "{name}");
    }
    leashed.done().await;
}
