//! What an account can do that is bound as `docs/rights.md` says: asked of the API server, and
//! compared with the tables, right by right.

use std::collections::BTreeSet;

use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::authorization::v1::{SelfSubjectRulesReview, SelfSubjectRulesReviewSpec};
use k8s_openapi::api::core::v1::ServiceAccount;
use kube::api::PostParams;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config};
use serde_json::{Value, json};

use crate::world::{World, eventually, kubectl, write_kubeconfig};

#[path = "../../tests/decisions/rights/table.rs"]
#[allow(
    dead_code,
    reason = "shared with tests/decisions, which uses the rest of it"
)]
mod table;

/// Group, resource, verb, name.
type Right = [String; 4];

/// The name of a role of `deploy/` in this world: roles of the cluster have no namespace.
fn renamed(world: &World, role: &str) -> String {
    role.replace("swaplet", &format!("{}-rights", world.namespace))
}

/// An account for a mode, bound as the table says; its kubeconfig is written to a folder of its
/// own.
async fn account(world: &World, name: &str, [pods, cluster, own]: &[Vec<String>; 3]) -> Client {
    let subject = json!([{"kind": "ServiceAccount", "name": name, "namespace": world.namespace}]);
    let binding = |kind: &str, role: &String| {
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": kind,
            "metadata": {"name": format!("{}-{name}", renamed(world, role)), "namespace": world.namespace},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": renamed(world, role)},
            "subjects": subject,
        })
    };
    let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name, "namespace": world.namespace}});
    let mut items = vec![account];
    items.extend(
        pods.iter()
            .chain(own)
            .map(|role| binding("RoleBinding", role)),
    );
    items.extend(cluster.iter().map(|role| {
        let mut binding = binding("ClusterRoleBinding", role);
        binding["metadata"]
            .as_object_mut()
            .unwrap()
            .remove("namespace");
        binding
    }));
    apply(world, name, &items).await;
    let request = TokenRequest {
        spec: TokenRequestSpec::default(),
        ..TokenRequest::default()
    };
    let accounts: Api<ServiceAccount> = world.api();
    let token = accounts
        .create_token_request(name, &PostParams::default(), &request)
        .await
        .unwrap();
    let folder = tempfile::tempdir().unwrap();
    let kubeconfig =
        Kubeconfig::read_from(write_kubeconfig(folder.path(), token.status.unwrap().token))
            .unwrap();
    Client::try_from(
        Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default())
            .await
            .unwrap(),
    )
    .unwrap()
}

async fn apply(world: &World, name: &str, items: &[Value]) {
    let file = world.kubeconfig.with_file_name(format!("{name}.json"));
    std::fs::write(
        &file,
        json!({"apiVersion": "v1", "kind": "List", "items": items}).to_string(),
    )
    .unwrap();
    kubectl(&["apply", "-f", file.to_str().unwrap()]).await;
}

/// Everything that the account may do in a namespace.
async fn may(client: &Client, namespace: &str) -> BTreeSet<Right> {
    let spec = SelfSubjectRulesReviewSpec {
        namespace: Some(namespace.to_owned()),
    };
    let review = SelfSubjectRulesReview {
        spec,
        ..SelfSubjectRulesReview::default()
    };
    let status = Api::all(client.clone())
        .create(&PostParams::default(), &review)
        .await
        .unwrap()
        .status
        .unwrap();
    assert!(!status.incomplete, "{:?}", status.evaluation_error);
    let mut all = BTreeSet::new();
    for rule in status.resource_rules {
        let names = rule
            .resource_names
            .filter(|names| !names.is_empty())
            .unwrap_or_else(|| vec![String::new()]);
        for group in rule.api_groups.iter().flatten() {
            for resource in rule.resources.iter().flatten() {
                for verb in &rule.verbs {
                    all.extend(
                        names.iter().map(|name| {
                            [group.clone(), resource.clone(), verb.clone(), name.clone()]
                        }),
                    );
                }
            }
        }
    }
    all
}

/// What the tables say of these ClusterRoles.
fn said<'a>(roles: impl Iterator<Item = &'a String>) -> BTreeSet<Right> {
    let headings: Vec<_> = roles.map(|role| format!("ClusterRole {role}")).collect();
    let of_them = table::explained()
        .into_iter()
        .filter(|[role, ..]| headings.contains(role));
    of_them
        .map(|[_, group, resource, verb, name]| [group, resource, verb, name])
        .collect()
}

#[tokio::test]
async fn each_mode_of_installation_can_do_what_the_document_says_and_nothing_else() {
    let world = World::new("rights").await;
    let mut roles: Vec<Value> = table::of_manifests()
        .into_iter()
        .map(|(_, role)| role)
        .filter(|role| role["kind"] == "ClusterRole")
        .collect();
    for role in &mut roles {
        role["metadata"]["name"] =
            json!(renamed(&world, role["metadata"]["name"].as_str().unwrap()));
    }
    apply(&world, "roles", &roles).await;
    // Kubernetes itself gives rights to everybody: from 1.37 on, to read ClusterTrustBundles.
    let nobody = account(&world, "nobody", &Default::default()).await;
    let of_nobody = may(&nobody, &world.namespace).await;
    let granted = async |client: &Client, namespace: &str| -> BTreeSet<Right> {
        let all = may(client, namespace).await;
        all.difference(&of_nobody).cloned().collect()
    };
    let modes = table::modes();
    for (number, mode) in modes.iter().enumerate() {
        let client = account(&world, &format!("mode-{number}"), mode).await;
        let (here, elsewhere) = (said(mode.iter().flatten()), said(mode[1].iter()));
        eventually(
            &format!("the rights of mode {number} to be known"),
            || async {
                let known = granted(&client, &world.namespace).await.len() >= here.len()
                    && granted(&client, "default").await.len() >= elsewhere.len();
                known.then_some(())
            },
        )
        .await;
        assert_eq!(granted(&client, &world.namespace).await, here, "{mode:?}");
        assert_eq!(
            granted(&client, "default").await,
            elsewhere,
            "{mode:?}, in another namespace"
        );
    }
    for role in roles {
        kubectl(&[
            "delete",
            "clusterrole",
            role["metadata"]["name"].as_str().unwrap(),
        ])
        .await;
    }
    for (number, [_, cluster, _]) in modes.iter().enumerate() {
        for role in cluster {
            kubectl(&[
                "delete",
                "clusterrolebinding",
                &format!("{}-mode-{number}", renamed(&world, role)),
            ])
            .await;
        }
    }
    world.done().await;
}
