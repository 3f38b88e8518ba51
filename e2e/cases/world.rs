//! What a case lives in: a client, a namespace of its own, and waiting with an end.

// By their paths, for the cases beside OpenKruise have this file by its path.
#[path = "world/accounts.rs"]
mod accounts;
#[path = "world/took.rs"]
mod took;

use std::path::{Path, PathBuf};
use std::time::Duration;

use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{Namespace, Pod, ServiceAccount};
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::api::rbac::v1::ClusterRoleBinding;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::config::{AuthInfo, Kubeconfig};
use kube::{Api, Client};
use serde_json::json;
use tokio::process::Command;
use tokio::sync::OnceCell;
use tokio::time::{Instant, sleep};

use self::accounts::{account, looks_for_leash, sees_policies, sees_sets};
use self::took::Took;
use crate::audit::system_namespace;
use crate::images::Images;
use crate::leashes;
use crate::shared::{Shared, namespace_of};

/// Everything that a case waits for happens within this time, on a machine with two busy cores on
/// which each step takes twenty times as long as on an idle one.
pub const PATIENCE: Duration = Duration::from_secs(600);

/// What is told of a pod whose node takes long to show its end, after 20 s and 90 s: no case is
/// about it, and each case may meet it.
pub const OF_SLOW_NODES: [&str; 2] = ["ExitImageRuns", "SwapPending"];

static IMAGES: OnceCell<Images> = OnceCell::const_new();

/// A namespace with what the controller needs in it. Deleted by [`World::done`]; left for
/// inspection where a case fails.
pub struct World {
    pub client: Client,
    pub namespace: String,
    pub images: &'static Images,
    pub kubeconfig: PathBuf,
    _folder: tempfile::TempDir,
    _took: Took,
}

pub fn variable(name: &str) -> String {
    std::env::var(name)
        .unwrap_or_else(|_| panic!("{name} is not set: run `eval \"$(e2e/cluster env)\"` first"))
}

/// The file that says what was not run against an installation, if cases are run against
/// installations.
pub fn installed() -> Option<PathBuf> {
    std::env::var_os("SWAPLET_E2E_INSTALLED").map(PathBuf::from)
}

/// The installation that the case of this namespace has in common with others.
fn shared(namespace: &str) -> Option<Shared> {
    installed().and_then(|_| Shared::of(namespace))
}

impl World {
    pub async fn new(case: &str) -> Self {
        Self::with_labels(case, &[]).await
    }

    /// With these labels besides that of the leash.
    pub async fn with_labels(case: &str, more: &[(&str, &str)]) -> Self {
        let mut labels = leashes::labels().await;
        more.iter()
            .for_each(|(label, value)| labels[label] = json!(value));
        Self::create(case, labels).await
    }

    /// For what people do, who are not on the leash, and for leashes of the case itself.
    pub async fn without_leash(case: &str) -> Self {
        Self::create(case, json!({})).await
    }

    async fn create(case: &str, labels: serde_json::Value) -> Self {
        let took = Took::new(case);
        let _ = rustls::crypto::ring::default_provider().install_default();
        let images = IMAGES
            .get_or_init(|| async { Images::push(&variable("SWAPLET_E2E_REGISTRY")).await })
            .await;
        let client = Client::try_default().await.expect("KUBECONFIG");
        let namespace = namespace_of(case);
        let object = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace, "labels": labels}});
        let namespaces: Api<Namespace> = Api::all(client.clone());
        if let Some(shared) = shared(&namespace) {
            shared
                .make_namespaces(&client, &leashes::labels().await)
                .await;
            namespaces
                .patch(&namespace, &PatchParams::default(), &Patch::Merge(object))
                .await
                .unwrap();
        } else {
            namespaces
                .create(
                    &PostParams::default(),
                    &serde_json::from_value(object).unwrap(),
                )
                .await
                .unwrap();
        }
        let folder = tempfile::tempdir().unwrap();
        let kubeconfig = account(&client, &namespace, folder.path()).await;
        let world = Self {
            client,
            namespace,
            images,
            kubeconfig,
            _folder: folder,
            _took: took,
        };
        let accounts: Api<ServiceAccount> = world.api();
        eventually("the default ServiceAccount", || async {
            accounts.get_opt("default").await.unwrap()
        })
        .await;
        world
    }

    pub fn api<K>(&self) -> Api<K>
    where
        K: kube::Resource<Scope = k8s_openapi::NamespaceResourceScope, DynamicType = ()>,
    {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    pub async fn create_pod(&self, pod: serde_json::Value) -> Pod {
        let pod: Pod = serde_json::from_value(pod).unwrap();
        self.api()
            .create(&PostParams::default(), &pod)
            .await
            .unwrap()
    }

    pub async fn create_job(&self, job: serde_json::Value) {
        let job: Job = serde_json::from_value(job).unwrap();
        self.api()
            .create(&PostParams::default(), &job)
            .await
            .unwrap();
    }

    pub async fn pods(&self) -> Vec<Pod> {
        self.api::<Pod>()
            .list(&ListParams::default())
            .await
            .unwrap()
            .items
    }

    /// Waits until the Job has this condition.
    pub async fn job_ends(&self, name: &str, condition: &str) {
        let jobs: Api<Job> = self.api();
        eventually(&format!("Job {name} to be {condition}"), || async {
            let conditions = jobs
                .get(name)
                .await
                .unwrap()
                .status
                .and_then(|status| status.conditions)
                .unwrap_or_default();
            conditions
                .iter()
                .any(|found| found.type_ == condition && found.status == "True")
                .then_some(())
        })
        .await;
    }

    /// Waits until the pod satisfies a condition; gives it as it is then.
    pub async fn pod_is(&self, name: &str, what: &str, condition: impl Fn(&Pod) -> bool) -> Pod {
        let pods: Api<Pod> = self.api();
        eventually(&format!("pod {name} to be {what}"), || async {
            pods.get_opt(name)
                .await
                .unwrap()
                .filter(|pod| condition(pod))
        })
        .await
    }

    pub async fn pod_ends(&self, name: &str, phase: &str) -> Pod {
        self.pod_is(name, phase, |pod| phase_of(pod) == phase).await
    }

    /// Our Events in this namespace as `(pod, reason)`, sorted, but for those about slow nodes;
    /// waits until there are at least so many.
    pub async fn events(&self, count: usize) -> Vec<(String, String)> {
        let events: Api<Event> = self.api();
        eventually(&format!("{count} events"), || async {
            let mut ours = Vec::new();
            for event in events.list(&ListParams::default()).await.unwrap() {
                let reason = event.reason.unwrap_or_default();
                if event.reporting_controller.as_deref() == Some("swaplet.io/controller")
                    && !OF_SLOW_NODES.contains(&&*reason)
                {
                    let about = event.regarding.and_then(|pod| pod.name);
                    ours.push((about.unwrap_or_default(), reason));
                }
            }
            ours.sort();
            (ours.len() >= count).then_some(ours)
        })
        .await
    }

    /// The reasons of our Events about a pod, sorted; waits until there are at least so many.
    pub async fn events_of(&self, pod: &str, count: usize) -> Vec<String> {
        eventually(&format!("{count} events of {pod}"), || async {
            let all = self.events(0).await;
            let reasons: Vec<_> = all
                .into_iter()
                .filter(|(about, _)| about == pod)
                .map(|(_, reason)| reason)
                .collect();
            (reasons.len() >= count).then_some(reasons)
        })
        .await
    }

    /// Where its controller keeps what it has learned, and its Lease.
    pub fn state_namespace(&self) -> String {
        if installed().is_some() {
            system_namespace(&self.namespace)
        } else {
            self.namespace.clone()
        }
    }

    /// The end of a case that went well. A namespace of a shared installation stays, for that
    /// watches it.
    pub async fn done(self) {
        let now = DeleteParams {
            grace_period_seconds: Some(0),
            ..DeleteParams::default()
        };
        let _ = self
            .api::<Job>()
            .delete_collection(&DeleteParams::background(), &ListParams::default())
            .await;
        let _ = self
            .api::<Pod>()
            .delete_collection(&now, &ListParams::default())
            .await;
        for name in [
            self.namespace.clone(),
            looks_for_leash(&self.namespace),
            sees_policies(&self.namespace),
            sees_sets(&self.namespace),
        ] {
            let _ = Api::<ClusterRoleBinding>::all(self.client.clone())
                .delete(&name, &DeleteParams::default())
                .await;
        }
        if shared(&self.namespace).is_some() {
            return;
        }
        let _ = Api::<Namespace>::all(self.client.clone())
            .delete(&self.namespace, &DeleteParams::default())
            .await;
    }
}

pub fn phase_of(pod: &Pod) -> &str {
    pod.status
        .as_ref()
        .and_then(|status| status.phase.as_deref())
        .unwrap_or_default()
}

/// Asks again until there is an answer; panics with what was waited for.
pub async fn eventually<T, F: Future<Output = Option<T>>>(what: &str, ask: impl Fn() -> F) -> T {
    let start = Instant::now();
    loop {
        if let Some(answer) = ask().await {
            return answer;
        }
        assert!(
            start.elapsed() < PATIENCE,
            "waited {} s for {what}",
            PATIENCE.as_secs()
        );
        sleep(Duration::from_millis(200)).await;
    }
}

/// Applies what all cases share. Where another process does so at the same moment, one of the two
/// is told that it is there already.
pub async fn apply(file: &Path) {
    eventually("a manifest to be applied", || async {
        let output = Command::new("kubectl")
            .args(["apply", "-f"])
            .arg(file)
            .output()
            .await
            .expect("kubectl");
        let words = String::from_utf8_lossy(&output.stderr);
        assert!(
            output.status.success()
                || words.contains("AlreadyExists")
                || words.contains("the object has been modified"),
            "{words}"
        );
        output.status.success().then_some(())
    })
    .await;
}

/// One of our CRDs of OpenKruise's objects, by its plural; never over one that is there.
pub async fn create_crd(plural: &str) {
    let file = format!("{}/deploy/crds/{plural}.yaml", env!("CARGO_MANIFEST_DIR"));
    let output = Command::new("kubectl")
        .args(["create", "-f", &file])
        .output()
        .await
        .expect("kubectl");
    let words = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success() || words.contains("AlreadyExists"),
        "{words}"
    );
    established(&["-f", &file]).await;
}

/// Waits until the CRD that kubectl finds by these arguments is served. `kubectl wait` fails where the
/// CRD is so new that its status says nothing at all.
pub async fn established(crd: &[&str]) {
    let get = [&["get", "-o", "json"], crd].concat();
    eventually(&format!("{crd:?} to be served"), || async {
        let found: serde_json::Value = serde_json::from_str(&kubectl(&get).await).unwrap();
        let is_it =
            |one: &serde_json::Value| one["type"] == "Established" && one["status"] == "True";
        let conditions = found["status"]["conditions"].as_array()?;
        conditions.iter().any(is_it).then_some(())
    })
    .await;
}

/// Lets a container go on that waits for this file.
pub async fn lets_go_on(world: &World, pod: &str, container: &str) {
    ends_by(world, pod, container, &["touch", "/shared/go"]).await;
}

/// Runs a command in a container that ends because of it. The container may be gone before the command
/// has ended, which then ends with it: `kubectl exec` tells that as the exit code 137.
pub async fn ends_by(world: &World, pod: &str, container: &str, command: &[&str]) {
    let output = Command::new("kubectl")
        .args(["exec", "-n", &world.namespace, pod, "-c", container, "--"])
        .args(command)
        .output()
        .await
        .expect("kubectl");
    assert!(
        output.status.success() || output.status.code() == Some(137),
        "{pod}, {container}, {command:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
}

/// As the administrator; what it prints.
pub async fn kubectl(arguments: &[&str]) -> String {
    let output = Command::new("kubectl")
        .args(arguments)
        .output()
        .await
        .expect("kubectl");
    assert!(
        output.status.success(),
        "kubectl {arguments:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout).unwrap()
}

pub fn write_kubeconfig(folder: &Path, token: String) -> PathBuf {
    let mut kubeconfig = Kubeconfig::read().unwrap();
    for user in &mut kubeconfig.auth_infos {
        user.auth_info = Some(AuthInfo {
            token: Some(token.clone().into()),
            ..AuthInfo::default()
        });
    }
    let path = folder.join("kubeconfig");
    std::fs::write(&path, serde_json::to_string(&kubeconfig).unwrap()).unwrap();
    path
}
