//! An installation by Helm, in a namespace of its own that takes restricted pods only.

mod asked;
mod parking;

use std::path::Path;

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Namespace, Pod};
use kube::Api;
use kube::api::{DeleteParams, PostParams};
use serde_json::json;
use tokio::process::Command;
use tokio::sync::OnceCell;

pub use self::asked::pull;
use super::chart::{CHART, run_helm};
use crate::audit::system_namespace;
use crate::crds::{pull_jobs_are_served, requests_are_served};
use crate::shared::{LABEL, Shared};
use crate::world::{World, eventually, kubectl, variable};

static CONTROLLER: OnceCell<String> = OnceCell::const_new();

/// A namespace with a release `swaplet`, which works in the namespace of a case, or everywhere.
pub struct Installation {
    client: kube::Client,
    pub namespace: String,
    values: String,
    is_shared: bool,
}

impl Installation {
    pub async fn new(world: &World) -> Self {
        // As on a cluster with OpenKruise: the CRDs are there, and of somebody else.
        requests_are_served().await;
        pull_jobs_are_served().await;
        let installation = Self::of(world).await;
        let mut labels = json!({"pod-security.kubernetes.io/enforce": "restricted"});
        if installation.is_shared {
            labels[LABEL] = json!(std::process::id().to_string());
        }
        let object = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": installation.namespace, "labels": labels}});
        let object: Namespace = serde_json::from_value(object).unwrap();
        Api::<Namespace>::all(world.client.clone())
            .create(&PostParams::default(), &object)
            .await
            .unwrap();
        installation
    }

    /// The one that works in the namespace of this world, or will.
    pub async fn of(world: &World) -> Self {
        let image = CONTROLLER.get_or_init(push_controller).await;
        let namespace = system_namespace(&world.namespace);
        // OpenKruise may be on the cluster for cases about it.
        let values = format!(
            "image={image},terminate.exitImage={},namespaces={{{}}},openkruise.coexist=own,terminate.exitImageIsPublic=true,log.format=json",
            world.images.exit, world.namespace
        );
        Self {
            client: world.client.clone(),
            namespace,
            values,
            is_shared: Shared::of(&world.namespace).is_some(),
        }
    }

    /// It works in all namespaces of the cluster: for cases that are alone there.
    pub fn everywhere(mut self) -> Self {
        self.values.push_str(",namespaces=null");
        self
    }

    /// Who writes.
    pub fn account(&self) -> String {
        format!("system:serviceaccount:{}:swaplet", self.namespace)
    }

    /// `helm install` or `helm upgrade`; comes back when both replicas are ready.
    pub async fn helm(&self, command: &str, more: &[&str]) {
        let release = [
            command,
            "swaplet",
            CHART,
            "--namespace",
            &self.namespace,
            "--set",
            &self.values,
            "--wait",
            "--timeout",
            "600s",
        ];
        run_helm(&[&release[..], more].concat()).await.unwrap();
    }

    /// `helm test`: a Job that completes only if its sidecar is ended.
    pub async fn test(&self) {
        let test = ["test", "swaplet", "--namespace", &self.namespace];
        run_helm(&[&test[..], &["--timeout", "600s"]].concat())
            .await
            .unwrap();
    }

    pub async fn uninstall(&self) {
        run_helm(&[
            "uninstall",
            "swaplet",
            "--namespace",
            &self.namespace,
            "--wait",
            "--timeout",
            "600s",
        ])
        .await
        .unwrap();
        let label = "app.kubernetes.io/managed-by=Helm,app.kubernetes.io/name=swaplet";
        let kinds = "clusterroles,clusterrolebindings,flowschemas,validatingadmissionpolicies,validatingadmissionpolicybindings";
        let left = kubectl(&["get", kinds, "-l", label, "-o", "name"]).await;
        assert!(!left.contains(&self.namespace), "{left}");
    }

    /// The name of the pod that leads.
    pub async fn leader(&self) -> String {
        self.leader_after("").await
    }

    /// The name of the pod that leads when this one does not any more.
    pub async fn leader_after(&self, before: &str) -> String {
        let leases: Api<Lease> = Api::namespaced(self.client.clone(), &self.namespace);
        eventually("a leader", || async {
            let holder = leases
                .get_opt("swaplet")
                .await
                .unwrap()?
                .spec?
                .holder_identity?;
            holder
                .rsplit_once('_')
                .map(|(pod, _)| pod.to_owned())
                .filter(|pod| pod != before)
        })
        .await
    }

    async fn send_sigkill(&self, pod: &str) {
        // It may be about to be started again.
        let process = eventually("the process of the leader", || async {
            process_of(&self.namespace, pod)
        })
        .await;
        assert!(
            Command::new("kill")
                .args(["-s", "KILL", &process])
                .status()
                .await
                .unwrap()
                .success()
        );
    }

    /// SIGKILL, and another pod takes its place: one that has died several times is started again
    /// later and later. Its kubelet may start it once more before it knows that the pod is to go,
    /// but not for so long that it could lead again.
    pub async fn kill_for_good(&self, pod: &str) {
        self.send_sigkill(pod).await;
        kubectl(&[
            "delete",
            "pod",
            pod,
            "--grace-period=1",
            "--wait=false",
            "-n",
            &self.namespace,
        ])
        .await;
    }

    /// SIGKILL, from outside: its kubelet starts it again.
    pub async fn kill(&self, pod: &str) {
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), &self.namespace);
        let status = async || {
            let mut statuses = pods.get(pod).await.unwrap().status?.container_statuses?;
            Some(statuses.remove(0))
        };
        let before = status().await.map_or(0, |status| status.restart_count);
        self.send_sigkill(pod).await;
        eventually("the leader to be started again", || async {
            let status = status().await?;
            (status.restart_count > before && status.ready).then_some(())
        })
        .await;
    }

    /// Ends all its replicas.
    pub async fn stop(&self) {
        kubectl(&[
            "scale",
            "deployment/swaplet",
            "--replicas=0",
            "-n",
            &self.namespace,
        ])
        .await;
        kubectl(&[
            "wait",
            "--for=delete",
            "pods",
            "-l",
            "app.kubernetes.io/name=swaplet",
            "--timeout=600s",
            "-n",
            &self.namespace,
        ])
        .await;
    }

    pub async fn done(self) {
        let _ = Api::<Namespace>::all(self.client.clone())
            .delete(&self.namespace, &DeleteParams::default())
            .await;
    }
}

/// One that works everywhere would act on the cases after one that failed. One that others share
/// goes on for them.
impl Drop for Installation {
    fn drop(&mut self) {
        if std::thread::panicking() && !self.is_shared {
            let deletion = [
                "delete",
                "deployments",
                "--all",
                "--wait=false",
                "-n",
                &self.namespace,
            ];
            let _ = std::process::Command::new("kubectl")
                .args(deletion)
                .status();
        }
    }
}

/// The id of the running container of a pod that has one container.
pub fn container_id(pod: &Pod) -> Option<&str> {
    let status = pod.status.as_ref()?.container_statuses.as_ref()?.first()?;
    status.state.as_ref()?.running.as_ref()?;
    status.container_id.as_deref()
}

/// The program pushes itself.
async fn push_controller() -> String {
    let image = format!(
        "{}/swaplet/controller:e2e-{}",
        variable("SWAPLET_E2E_REGISTRY"),
        std::process::id()
    );
    let output = Command::new(env!("CARGO_BIN_EXE_swaplet"))
        .args(["image", "push", &image])
        .output()
        .await
        .unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    image
}

/// The process of a pod, by its environment.
fn process_of(namespace: &str, pod: &str) -> Option<String> {
    let is_it = |process: &Path| {
        let environment = std::fs::read_to_string(process.join("environ")).unwrap_or_default();
        let has = |variable: String| environment.split('\0').any(|found| found == variable);
        has(format!("SWAPLET_STATE_NAMESPACE={namespace}")) && has(format!("POD_NAME={pod}"))
    };
    let mut processes = std::fs::read_dir("/proc")
        .unwrap()
        .filter_map(|entry| Some(entry.ok()?.path()));
    let process = processes.find(|process| is_it(process))?;
    Some(process.file_name()?.to_str()?.to_owned())
}
