//! The account of a case, with the rights that the manifests give and no others.

use std::fmt::Debug;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};

use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::ServiceAccount;
use k8s_openapi::api::rbac::v1::{ClusterRoleBinding, RoleBinding};
use kube::api::PostParams;
use kube::{Api, Client};
use serde_json::json;
use tokio::sync::OnceCell;

use super::{World, apply, write_kubeconfig};
use crate::leashes;

static ROLES: OnceCell<String> = OnceCell::const_new();

impl World {
    /// Gives the account one more of the roles in `deploy/restart.yaml`.
    pub async fn grant(&self, role: &str) {
        grant(
            &self.client,
            &self.namespace,
            ROLES.get_or_init(install_roles).await,
            role,
        )
        .await;
    }
}

/// A ServiceAccount with the rights of `deploy/rbac.yaml`, `deploy/restart.yaml`,
/// `deploy/hot-upgrade.yaml`, `deploy/pull-jobs.yaml` and `deploy/sidecar-policies.yaml`, in this namespace only as far as they
/// are of namespaces, and a kubeconfig for it.
pub(super) async fn account(client: &Client, namespace: &str, folder: &Path) -> PathBuf {
    let roles = ROLES.get_or_init(install_roles).await;
    let metadata = json!({"name": "swaplet", "namespace": namespace});
    create(
        client,
        namespace,
        json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata}),
        serde_json::from_value::<ServiceAccount>,
    )
    .await;
    for role in [
        "swaplet",
        "swaplet-state",
        "swaplet-restart",
        "swaplet-pull-jobs",
        "swaplet-namespaced-sidecar-policies",
    ] {
        grant(client, namespace, roles, role).await;
    }
    for (name, role) in [
        (namespace.to_owned(), "swaplet-nodes"),
        (looks_for_leash(namespace), "swaplet-restart-leash"),
        (sees_policies(namespace), "swaplet-sidecar-policies"),
        (sees_sets(namespace), "swaplet-hot-upgrade"),
    ] {
        let binding = binding(
            "ClusterRoleBinding",
            &json!({"name": name}),
            &format!("{roles}{role}"),
            namespace,
        );
        let binding: ClusterRoleBinding = serde_json::from_value(binding).unwrap();
        Api::all(client.clone())
            .create(&PostParams::default(), &binding)
            .await
            .unwrap();
    }
    let request = TokenRequest {
        spec: TokenRequestSpec::default(),
        ..TokenRequest::default()
    };
    let accounts: Api<ServiceAccount> = Api::namespaced(client.clone(), namespace);
    let token = accounts
        .create_token_request("swaplet", &PostParams::default(), &request)
        .await
        .unwrap();
    write_kubeconfig(folder, token.status.unwrap().token)
}

/// The name of the binding by which the account of a namespace may look for the leash.
pub(super) fn looks_for_leash(namespace: &str) -> String {
    format!("{namespace}-leash")
}

/// The name of the binding by which it may see SidecarPolicies.
pub(super) fn sees_policies(namespace: &str) -> String {
    format!("{namespace}-policies")
}

/// The name of the binding by which it may see SidecarSets.
pub(super) fn sees_sets(namespace: &str) -> String {
    format!("{namespace}-sets")
}

async fn grant(client: &Client, namespace: &str, roles: &str, role: &str) {
    let binding = binding(
        "RoleBinding",
        &json!({"name": role, "namespace": namespace}),
        &format!("{roles}{role}"),
        namespace,
    );
    create(
        client,
        namespace,
        binding,
        serde_json::from_value::<RoleBinding>,
    )
    .await;
}

fn binding(
    kind: &str,
    metadata: &serde_json::Value,
    role: &str,
    namespace: &str,
) -> serde_json::Value {
    json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": kind, "metadata": metadata,
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
        "subjects": [{"kind": "ServiceAccount", "name": "swaplet", "namespace": namespace}],
    })
}

/// The rights that the manifests give, no others: what the controller needs and lacks fails a case.
/// Answers what the names of the roles begin with, which is another one for another manifest: two
/// checkouts can use one cluster.
async fn install_roles() -> String {
    let manifest = concat!(
        include_str!("../../../deploy/rbac.yaml"),
        "\n---\n",
        include_str!("../../../deploy/restart.yaml"),
        "\n---\n",
        include_str!("../../../deploy/pull-jobs.yaml"),
        "\n---\n",
        include_str!("../../../deploy/sidecar-policies.yaml"),
        "\n---\n",
        include_str!("../../../deploy/hot-upgrade.yaml")
    );
    let manifest = manifest.replace("swaplet-leash-", &format!("{}-", leashes::name()));
    let mut hasher = DefaultHasher::new();
    manifest.hash(&mut hasher);
    let prefix = format!("e2e-{:x}-", hasher.finish());
    let renamed = manifest.replace("\n  name: swaplet", &format!("\n  name: {prefix}swaplet"));
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("rbac.yaml");
    std::fs::write(&file, renamed).unwrap();
    apply(&file).await;
    prefix
}

async fn create<K, E: Debug>(
    client: &Client,
    namespace: &str,
    object: serde_json::Value,
    read: impl Fn(serde_json::Value) -> Result<K, E>,
) where
    K: kube::Resource<Scope = k8s_openapi::NamespaceResourceScope, DynamicType = ()>
        + Clone
        + Debug
        + serde::Serialize
        + serde::de::DeserializeOwned,
{
    Api::<K>::namespaced(client.clone(), namespace)
        .create(&PostParams::default(), &read(object).unwrap())
        .await
        .unwrap();
}
