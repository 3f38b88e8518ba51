//! Deletion protection (`deploy/protection.yaml`) on a real API server: what the label keeps, and
//! that everything beside it is deleted as ever.

mod contents;
mod workloads;

use kube::api::{ApiResource, DeleteParams, DynamicObject, Patch, PatchParams, PostParams};
use kube::core::GroupVersionKind;
use kube::{Api, Client};
use serde_json::{Value, json};
use tokio::process::Command;

use crate::world::{World, established, eventually, kubectl};

pub const LABEL: &str = "policy.kruise.io/delete-protection";
const HOLDS: &str = "swaplet.io/holds";
/// Has the policies of one case leave everything else on the cluster alone.
const CASE: &str = "swaplet-e2e-protection";
const ALWAYS: &str = "denied request: forbidden by ResourcesProtectionDeletion for policy.kruise.io/delete-protection=Always";
const CASCADING: &str = "denied request: forbidden by ResourcesProtectionDeletion for policy.kruise.io/delete-protection=Cascading";

const POLICIES: [&str; 4] = ["workloads", "network", "contents", "counts"];

/// A world in which the policies are on, for objects of its own.
pub struct Protected {
    pub world: World,
}

impl Protected {
    pub async fn new(case: &str) -> Self {
        let protected = Self {
            world: World::without_leash(case).await,
        };
        let policies = include_str!("../../deploy/protection.yaml");
        protected.apply(policies).await;
        protected.is_on().await;
        protected
    }

    /// Applies the policies of these manifests.
    async fn apply(&self, manifests: &str) {
        let file = self.world.kubeconfig.with_file_name("protection.json");
        std::fs::write(&file, self.policies(manifests).to_string()).unwrap();
        kubectl(&["apply", "-f", file.to_str().unwrap()]).await;
    }

    fn policies(&self, manifests: &str) -> Value {
        let namespace = &self.world.namespace;
        let account = format!("system:serviceaccount:{namespace}:swaplet");
        let text = manifests
            .replace("swaplet-protection-", &format!("{namespace}-protection-"))
            .replace("system:serviceaccount:swaplet:swaplet", &account);
        let mut objects: Vec<Value> = serde_saphyr::from_multiple(&text).unwrap();
        objects.retain(|object| {
            let kind = object["kind"].as_str().unwrap_or_default();
            kind.starts_with("ValidatingAdmissionPolicy")
        });
        for object in objects
            .iter_mut()
            .filter(|object| object["kind"] == "ValidatingAdmissionPolicyBinding")
        {
            object["spec"]["matchResources"] =
                json!({"objectSelector": {"matchLabels": {CASE: self.world.namespace}}});
        }
        json!({"apiVersion": "v1", "kind": "List", "items": objects})
    }

    /// The API server learns of each policy and binding for itself, some time after it is stored.
    async fn is_on(&self) {
        let namespace = format!("{}-on", self.world.namespace);
        for kind in [service(), deployment(), namespaces()] {
            let kind = self.kind(kind);
            let object = kind.create(&namespace, "Always", kind.spec(0)).await;
            eventually("the policies to be on", || async {
                kind.dry_delete(&namespace).await.err()
            })
            .await;
            if kind.resource.kind == "Namespace" {
                let nothing = format!("pods=0,pvcs=0,uid={}", object.metadata.uid.unwrap());
                let forged = json!({"metadata": {"annotations": {HOLDS: nothing}}});
                let (params, forged) = (PatchParams::default().dry_run(), Patch::Merge(forged));
                eventually("the policy of counts to be on", || async {
                    kind.api.patch(&namespace, &params, &forged).await.err()
                })
                .await;
            }
            kind.label(&namespace, Value::Null).await;
            kind.delete(&namespace).await.unwrap();
        }
    }

    fn kind(&self, resource: ApiResource) -> Kind {
        let client = self.world.client.clone();
        Kind::of(client, resource, &self.world.namespace)
    }

    /// The policies belong to no namespace.
    pub async fn done(self) {
        for policy in POLICIES {
            let name = format!("{}-protection-{policy}", self.world.namespace);
            for kind in [
                "validatingadmissionpolicybinding",
                "validatingadmissionpolicy",
            ] {
                kubectl(&["delete", kind, &name, "--ignore-not-found"]).await;
            }
        }
        self.world.done().await;
    }
}

/// The objects of one kind, in the namespace of the case where they are of a namespace.
pub struct Kind {
    api: Api<DynamicObject>,
    resource: ApiResource,
    case: String,
}

impl Kind {
    fn of(client: Client, resource: ApiResource, case: &str) -> Self {
        let api = match resource.kind.as_str() {
            "Namespace" | "CustomResourceDefinition" => Api::all_with(client, &resource),
            _ => Api::namespaced_with(client, case, &resource),
        };
        Self {
            api,
            resource,
            case: case.to_owned(),
        }
    }

    /// What a valid object has besides its metadata, with so many replicas where it has any. Its
    /// pods fit on no node.
    fn spec(&self, replicas: i32) -> Value {
        let nowhere = json!({"containers": [{"name": "main", "image": "none.example/none:1"}], "nodeSelector": {"e2e": "nowhere"}});
        let mut spec = match self.resource.kind.as_str() {
            "Namespace" => json!({}),
            "Service" => json!({"ports": [{"port": 80}]}),
            "Ingress" => {
                json!({"defaultBackend": {"service": {"name": "web", "port": {"number": 80}}}})
            }
            _ => json!({
                "replicas": replicas, "selector": {"matchLabels": {"app": "web"}},
                "template": {"metadata": {"labels": {"app": "web"}}, "spec": nowhere},
            }),
        };
        if self.resource.kind == "StatefulSet" {
            spec["serviceName"] = json!("web");
        }
        spec
    }

    /// With this value of the label; without it where that is empty.
    pub async fn create(&self, name: &str, protection: &str, spec: Value) -> DynamicObject {
        self.create_of(name, protection, json!({"spec": spec}))
            .await
    }

    /// The same with annotations.
    pub async fn create_with(&self, name: &str, protection: &str, annotations: Value) {
        let object = json!({"metadata": {"annotations": annotations}});
        self.create_of(name, protection, object).await;
    }

    async fn create_of(&self, name: &str, protection: &str, mut object: Value) -> DynamicObject {
        object["apiVersion"] = json!(self.resource.api_version);
        object["kind"] = json!(self.resource.kind);
        object["metadata"]["name"] = json!(name);
        object["metadata"]["labels"] = json!({CASE: self.case});
        if !protection.is_empty() {
            object["metadata"]["labels"][LABEL] = json!(protection);
        }
        let object = serde_json::from_value(object).unwrap();
        self.api
            .create(&PostParams::default(), &object)
            .await
            .unwrap_or_else(|error| panic!("{} {name}: {error}", self.resource.kind))
    }

    pub async fn patch(&self, name: &str, patch: Value) {
        self.api
            .patch(name, &PatchParams::default(), &Patch::Merge(patch))
            .await
            .unwrap();
    }

    pub async fn label(&self, name: &str, value: Value) {
        self.patch(name, json!({"metadata": {"labels": {LABEL: value}}}))
            .await;
    }

    async fn delete_with(&self, name: &str, params: &DeleteParams) -> Result<(), kube::Error> {
        self.api.delete(name, params).await.map(drop)
    }

    pub async fn delete(&self, name: &str) -> Result<(), kube::Error> {
        self.delete_with(name, &DeleteParams::background()).await
    }

    pub async fn dry_delete(&self, name: &str) -> Result<(), kube::Error> {
        self.delete_with(name, &DeleteParams::default().dry_run())
            .await
    }

    /// It is denied, with just these words behind the name of the policy.
    pub async fn stays(&self, name: &str, words: &str) {
        for answer in [self.dry_delete(name).await, self.delete(name).await] {
            let Err(kube::Error::Api(status)) = answer else {
                panic!("{} {name} is deleted: {words}", self.resource.kind);
            };
            assert_eq!((status.code, status.reason.as_str()), (403, "Forbidden"));
            assert!(status.message.ends_with(words), "{}", status.message);
        }
        let there = self.api.get(name).await.unwrap();
        assert_eq!(there.metadata.deletion_timestamp, None);
    }

    /// As [`stays`](Self::stays), once the policies are told what was counted: a controller takes back
    /// for a moment what it does not know while a busy API server keeps it from watching.
    pub async fn stays_as_counted(&self, name: &str, words: &str) {
        eventually(&format!("{name} to be kept: {words}"), || async {
            let answer = self.dry_delete(name).await;
            let Err(kube::Error::Api(status)) = answer else {
                panic!("{} {name} could be deleted: {words}", self.resource.kind);
            };
            status.message.ends_with(words).then_some(())
        })
        .await;
        self.delete(name).await.unwrap_err();
        let there = self.api.get(name).await.unwrap();
        assert_eq!(there.metadata.deletion_timestamp, None);
    }

    pub async fn goes(&self, name: &str) {
        self.dry_delete(name).await.unwrap();
        self.delete(name)
            .await
            .unwrap_or_else(|error| panic!("{} {name}: {error}", self.resource.kind));
    }

    pub async fn is_gone(&self, name: &str) {
        eventually(
            &format!("{} {name} to be gone", self.resource.kind),
            || async {
                self.api
                    .get_opt(name)
                    .await
                    .unwrap()
                    .is_none()
                    .then_some(())
            },
        )
        .await;
    }
}

pub fn resource(group: &str, version: &str, kind: &str, plural: &str) -> ApiResource {
    ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(group, version, kind), plural)
}

pub fn service() -> ApiResource {
    resource("", "v1", "Service", "services")
}

pub fn deployment() -> ApiResource {
    resource("apps", "v1", "Deployment", "deployments")
}

pub fn namespaces() -> ApiResource {
    resource("", "v1", "Namespace", "namespaces")
}

/// Creates a CRD with a schema that takes everything; whether it was not there.
pub async fn crd(
    world: &World,
    metadata: Value,
    names: Value,
    group: &str,
    versions: &[&str],
) -> bool {
    let version = |name: &&str| {
        json!({
            "name": name, "served": true, "storage": *name == versions[0],
            "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
        })
    };
    let versions: Vec<_> = versions.iter().map(version).collect();
    let object = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": metadata,
        "spec": {"group": group, "scope": "Namespaced", "names": names, "versions": versions},
    });
    let name = object["metadata"]["name"].as_str().unwrap().to_owned();
    let file = world.kubeconfig.with_file_name("crd.json");
    std::fs::write(&file, object.to_string()).unwrap();
    let output = Command::new("kubectl")
        .args(["create", "-f", file.to_str().unwrap()])
        .output()
        .await
        .expect("kubectl");
    let words = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success() || words.contains("AlreadyExists"),
        "{words}"
    );
    established(&["crd", &name]).await;
    output.status.success()
}
