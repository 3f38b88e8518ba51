//! Namespaces and CRDs, with which everything in them would go: they stay while a controller has
//! counted something in them, or nobody counts.

use std::path::Path;

use k8s_openapi::api::core::v1::ServiceAccount;
use kube::Api;
use kube::api::{ApiResource, DeleteParams, Patch, PatchParams};
use serde_json::{Value, json};
use tokio::sync::Mutex;

use super::{ALWAYS, CASCADING, CASE, HOLDS, Kind, LABEL, Protected, crd, namespaces, resource};
use crate::controller::{Controller, Why};
use crate::install::{VALUES, rendered};
use crate::process::Process;
use crate::world::{World, eventually, kubectl};

/// One counts at a time: of CRDs each takes back what another has counted.
static COUNTING: Mutex<()> = Mutex::const_new(());
const UNCOUNTED: &str = " and contents that nobody counts";

impl Protected {
    /// Applies the policies of an installation for one namespace that counts nothing.
    async fn apply_uncounted(&self, namespace: &str, is_counted_elsewhere: bool) {
        let values = format!(
            "{VALUES},leash.enabled=false,protection.enabled=true,namespaces={{{namespace}}},protection.countedElsewhere={is_counted_elsewhere}"
        );
        self.apply(&rendered(&values).await.unwrap()).await;
    }

    /// A controller that counts, also in this namespace, with the rights as they are shipped.
    async fn counting(&self, namespace: &str) -> Process {
        let arguments = ["--terminate=false", "--protect", "--namespace", namespace];
        // The policies of the case are not those of the chart.
        Controller::process(&self.world, &arguments, Why::NotByTheChart).await
    }

    /// Binds a ClusterRole, made by this manifest, to the controller.
    async fn bind(&self, role: &str, manifest: &str) {
        let (world, role) = (&self.world, self.renamed(role));
        let file = world.kubeconfig.with_file_name("role.yaml");
        std::fs::write(&file, manifest).unwrap();
        kubectl(&["apply", "-f", path(&file)]).await;
        let account = format!("--serviceaccount={}:swaplet", world.namespace);
        let bind = [
            "create",
            "clusterrolebinding",
            &role,
            "--clusterrole",
            &role,
        ];
        kubectl(&[&bind[..], &[&account]].concat()).await;
    }

    fn renamed(&self, role: &str) -> String {
        format!("{}-{role}", self.world.namespace)
    }

    async fn may_count(&self) {
        let manifest = include_str!("../../../deploy/protect.yaml")
            .replace("swaplet-protect", &self.renamed("protect"));
        self.bind("protect", &manifest).await;
    }

    async fn unbind(&self, role: &str) {
        let role = self.renamed(role);
        kubectl(&["delete", "clusterrole,clusterrolebinding", &role]).await;
    }
}

fn path(file: &Path) -> &str {
    file.to_str().unwrap()
}

fn crds() -> ApiResource {
    resource(
        "apiextensions.k8s.io",
        "v1",
        "CustomResourceDefinition",
        "customresourcedefinitions",
    )
}

impl Kind {
    async fn try_patch(&self, name: &str, subresource: &str, patch: Value) -> Result<(), String> {
        let (params, patch) = (PatchParams::default(), Patch::Merge(patch));
        let patched = match subresource {
            "" => self.api.patch(name, &params, &patch).await,
            subresource => {
                self.api
                    .patch_subresource(subresource, name, &params, &patch)
                    .await
            }
        };
        patched.map(drop).map_err(|error| error.to_string())
    }

    /// Waits until this was counted.
    async fn is_counted(&self, name: &str, counts: &str) {
        eventually(&format!("{name} to hold {counts:?}"), || async {
            let object = self.api.get(name).await.unwrap();
            let said = object.metadata.annotations.unwrap_or_default();
            let uid = object.metadata.uid.unwrap();
            let wanted = (!counts.is_empty()).then(|| format!("{counts},uid={uid}"));
            (said.get(HOLDS) == wanted.as_ref()).then_some(())
        })
        .await;
    }
}

/// A claim that is bound: nothing has to provide its volume.
async fn claim(world: &World, namespace: &str) {
    let volume = json!({
        "apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": namespace},
        "spec": {
            "capacity": {"storage": "1Mi"}, "accessModes": ["ReadWriteOnce"], "storageClassName": "",
            "hostPath": {"path": "/tmp"}, "claimRef": {"namespace": namespace, "name": "data"},
        },
    });
    let claim = json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "data", "namespace": namespace},
        "spec": {
            "accessModes": ["ReadWriteOnce"], "storageClassName": "", "volumeName": namespace,
            "resources": {"requests": {"storage": "1Mi"}},
        },
    });
    let file = world.kubeconfig.with_file_name("claim.json");
    let items = json!({"apiVersion": "v1", "kind": "List", "items": [volume, claim]});
    std::fs::write(&file, items.to_string()).unwrap();
    kubectl(&["create", "-f", path(&file)]).await;
}

/// As OpenKruise's own test goes; its CloneSet and its StorageClass are a pod and a volume here.
async fn pods_and_claims_keep_it(protected: &Protected, kind: &Kind, kept: &str) {
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web", "namespace": kept},
        "spec": {"containers": [{"name": "main", "image": "none.example/none:1"}], "nodeSelector": {"e2e": "nowhere"}},
    });
    let accounts: Api<ServiceAccount> = Api::namespaced(protected.world.client.clone(), kept);
    eventually("the default ServiceAccount", || async {
        accounts.get_opt("default").await.unwrap()
    })
    .await;
    let file = protected.world.kubeconfig.with_file_name("pod.json");
    std::fs::write(&file, pod.to_string()).unwrap();
    kubectl(&["create", "-f", path(&file)]).await;
    kind.is_counted(kept, "pods=1,pvcs=0").await;
    kind.stays_as_counted(kept, &format!("{CASCADING} and active pods 1>0"))
        .await;
    claim(&protected.world, kept).await;
    kubectl(&[
        "delete",
        "pod",
        "web",
        "-n",
        kept,
        "--grace-period=0",
        "--force",
    ])
    .await;
    kind.is_counted(kept, "pods=0,pvcs=1").await;
    kind.stays_as_counted(kept, &format!("{CASCADING} and \"Bound\" status pvc 1>0"))
        .await;
    kubectl(&["delete", "pvc", "data", "-n", kept]).await;
    kubectl(&["delete", "pv", kept]).await;
    kind.is_counted(kept, "pods=0,pvcs=0").await;
}

#[tokio::test]
async fn dp_e1_namespaces_are_protected() {
    let _alone = COUNTING.lock().await;
    let protected = Protected::new("protection-namespaces").await;
    protected.may_count().await;
    let kind = protected.kind(namespaces());
    let name = |suffix: &str| format!("{}-{suffix}", protected.world.namespace);
    let (free, kept) = (name("free"), name("kept"));
    kind.create(&free, "", json!({})).await;
    kind.create(&kept, "Always", json!({})).await;
    kind.stays(&kept, ALWAYS).await;
    kind.goes(&free).await;
    kind.label(&kept, json!("Cascading")).await;
    kind.stays(&kept, &format!("{CASCADING}{UNCOUNTED}")).await;

    let controller = protected.counting(&kept).await;
    pods_and_claims_keep_it(&protected, &kind, &kept).await;
    // Who stops counting takes the count along.
    controller.stop().await;
    kind.is_counted(&kept, "").await;
    kind.stays(&kept, &format!("{CASCADING}{UNCOUNTED}")).await;
    let _controller = protected.counting(&kept).await;
    kind.is_counted(&kept, "pods=0,pvcs=0").await;
    kind.goes(&kept).await;
    kind.is_gone(&kept).await;
    protected.unbind("protect").await;
    protected.done().await;
}

/// Whoever could write that there is nothing could have the object deleted.
#[tokio::test]
async fn nobody_but_swaplet_says_what_is_in_a_namespace() {
    let _alone = COUNTING.lock().await;
    let protected = Protected::new("protection-counts").await;
    protected.may_count().await;
    let kind = protected.kind(namespaces());
    let kept = format!("{}-kept", protected.world.namespace);
    let uid = kind
        .create(&kept, "Cascading", json!({}))
        .await
        .metadata
        .uid
        .unwrap();
    let words = "swaplet's to write, and nobody else's";
    let forged = json!({"metadata": {"annotations": {HOLDS: format!("pods=0,pvcs=0,uid={uid}")}}});
    for subresource in ["", "status"] {
        let answer = kind.try_patch(&kept, subresource, forged.clone()).await;
        assert!(answer.unwrap_err().contains(words), "{subresource}");
    }
    // Everything else that its owners write goes on.
    let honest = json!({"metadata": {"annotations": {"mine": "1"}, "labels": {"mine": "1"}}});
    kind.patch(&kept, honest.clone()).await;

    let controller = protected.counting(&kept).await;
    kind.is_counted(&kept, "pods=0,pvcs=0").await;
    kind.patch(&kept, honest).await;
    // What was dumped earlier may be applied, and it may be taken away: it is counted again.
    for harmless in [json!("pods=3,pvcs=1,uid=1"), json!("pods=0")] {
        kind.patch(
            &kept,
            json!({"metadata": {"annotations": {HOLDS: harmless}}}),
        )
        .await;
        kind.is_counted(&kept, "pods=0,pvcs=0").await;
    }
    kind.patch(&kept, json!({"metadata": {"annotations": {HOLDS: null}}}))
        .await;
    kind.is_counted(&kept, "pods=0,pvcs=0").await;

    // What is left of a controller that was killed does not count for a label that is set later.
    controller.kill().await;
    kind.label(&kept, Value::Null).await;
    let label = json!({LABEL: "Cascading"});
    let again = json!({"metadata": {"labels": label}});
    let answer = kind.try_patch(&kept, "", again).await.unwrap_err();
    assert!(answer.contains("is from before"), "{answer}");
    kind.patch(
        &kept,
        json!({"metadata": {"labels": label, "annotations": {HOLDS: null}}}),
    )
    .await;
    kind.stays(&kept, &format!("{CASCADING}{UNCOUNTED}")).await;
    kind.label(&kept, Value::Null).await;
    kind.goes(&kept).await;

    // One that is restored from a dump has what was counted before; that is for another uid.
    let restored = format!("{}-restored", protected.world.namespace);
    kind.create_with(
        &restored,
        "Cascading",
        json!({HOLDS: format!("pods=0,pvcs=0,uid={uid}")}),
    )
    .await;
    kind.stays(&restored, &format!("{CASCADING}{UNCOUNTED}"))
        .await;
    kind.label(&restored, Value::Null).await;
    kind.goes(&restored).await;
    protected.unbind("protect").await;
    protected.done().await;
}

#[tokio::test]
async fn dp_e2_crds_are_protected() {
    let _alone = COUNTING.lock().await;
    let protected = Protected::new("protection-crds").await;
    protected.may_count().await;
    let (kind, world) = (protected.kind(crds()), &protected.world);
    let group = format!("{}.example.com", world.namespace);
    for plural in ["frees", "kepts"] {
        let names = json!({"kind": plural, "plural": plural, "singular": plural, "listKind": format!("{plural}List")});
        let metadata =
            json!({"name": format!("{plural}.{group}"), "labels": {CASE: world.namespace}});
        assert!(crd(world, metadata, names, &group, &["v1"]).await);
    }
    let (free, kept) = (format!("frees.{group}"), format!("kepts.{group}"));
    kind.label(&kept, json!("Always")).await;
    kind.stays(&kept, ALWAYS).await;
    kind.goes(&free).await;
    kind.label(&kept, json!("Cascading")).await;
    kind.stays(&kept, &format!("{CASCADING}{UNCOUNTED}")).await;

    let objects = protected.kind(resource(&group, "v1", "kepts", "kepts"));
    objects.create("one", "", Value::Null).await;
    let _controller = protected.counting(&world.namespace).await;
    // The right to list them is for the administrator to give.
    kind.stays(&kept, &format!("{CASCADING}{UNCOUNTED}")).await;
    let role = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": protected.renamed("objects")},
        "rules": [{"apiGroups": [group], "resources": ["kepts"], "verbs": ["list", "watch"]}],
    });
    protected.bind("objects", &role.to_string()).await;
    kind.is_counted(&kept, "objects=1").await;
    kind.stays_as_counted(&kept, &format!("{CASCADING} and active CRs 1>0"))
        .await;
    let now = DeleteParams::default();
    objects.delete_with("one", &now).await.unwrap();
    kind.is_counted(&kept, "objects=0").await;
    kind.goes(&kept).await;
    kind.is_gone(&kept).await;
    for role in ["protect", "objects"] {
        protected.unbind(role).await;
    }
    protected.done().await;
}

/// The one that counts is not there, nor are its policies: here is what it has counted. Who counted
/// it cannot be seen, so it is left to that one only where the values say that there is one.
#[tokio::test]
async fn u171_what_is_in_a_crd_is_judged_by_the_installation_that_counts_it() {
    let _alone = COUNTING.lock().await;
    let protected = Protected {
        world: World::without_leash("protection-second").await,
    };
    let (world, spaces) = (&protected.world, protected.kind(namespaces()));
    let kept = format!("{}-kept", world.namespace);
    protected.apply_uncounted(&kept, false).await;
    let uncounted = format!("{CASCADING}{UNCOUNTED}");
    let counted = |counts: &str, uid: &str| json!({"metadata": {"annotations": {HOLDS: format!("{counts},uid={uid}")}}});
    let space = spaces.create(&kept, "Cascading", json!({})).await;
    eventually("the policies to be on", || async {
        spaces.dry_delete(&kept).await.err()
    })
    .await;
    let uid = space.metadata.uid.unwrap();
    spaces.patch(&kept, counted("pods=0,pvcs=0", &uid)).await;
    spaces.stays(&kept, &uncounted).await;
    spaces.label(&kept, Value::Null).await;
    spaces.goes(&kept).await;

    let (kind, group) = (
        protected.kind(crds()),
        format!("{}.example.com", world.namespace),
    );
    let names =
        json!({"kind": "Kept", "plural": "kepts", "singular": "kept", "listKind": "KeptList"});
    let (name, labels) = (
        format!("kepts.{group}"),
        json!({CASE: world.namespace, LABEL: "Cascading"}),
    );
    let metadata = json!({"name": name, "labels": labels});
    assert!(crd(world, metadata, names, &group, &["v1"]).await);
    kind.stays(&name, &uncounted).await;
    let its_uid = kind.api.get(&name).await.unwrap().metadata.uid.unwrap();
    kind.patch(&name, counted("objects=1", &its_uid)).await;
    kind.stays(&name, &uncounted).await;

    protected.apply_uncounted(&kept, true).await;
    eventually("the policies to leave it to others", || async {
        kind.dry_delete(&name).await.ok()
    })
    .await;
    kind.patch(&name, counted("objects=1", &uid)).await;
    kind.stays(&name, &uncounted).await;
    kind.patch(&name, counted("objects=1", &its_uid)).await;
    kind.label(&name, json!("Always")).await;
    kind.stays(&name, ALWAYS).await;
    kind.label(&name, json!("Cascading")).await;
    kind.goes(&name).await;
    kind.is_gone(&name).await;
    protected.done().await;
}
