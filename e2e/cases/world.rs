//! What a case lives in: a client, a namespace of its own, and waiting with an end.

use std::fmt::Debug;
use std::fs::OpenOptions;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{Namespace, Pod, ServiceAccount};
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::api::rbac::v1::{ClusterRoleBinding, RoleBinding};
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::config::{AuthInfo, Kubeconfig};
use kube::{Api, Client};
use serde_json::json;
use tokio::process::Command;
use tokio::sync::OnceCell;
use tokio::time::{Instant, sleep};

use crate::audit::system_namespace;
use crate::images::Images;
use crate::leashes;
use crate::shared::{Shared, namespace_of};

/// Everything that a case waits for happens within this time, on a machine with two busy cores.
pub const PATIENCE: Duration = Duration::from_secs(180);

static IMAGES: OnceCell<Images> = OnceCell::const_new();
static ROLES: OnceCell<String> = OnceCell::const_new();

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

/// Writes how long a case took into the file that `SWAPLET_E2E_TIMES` names, however it ends.
struct Took {
    case: String,
    start: Instant,
}

impl Took {
    fn new(case: &str) -> Self {
        // Tests have threads of their own, but for those that run one after the other.
        let thread = std::thread::current()
            .name()
            .filter(|name| name.contains("::"))
            .map(str::to_owned);
        Self {
            case: thread.unwrap_or_else(|| case.to_owned()),
            start: Instant::now(),
        }
    }
}

impl Drop for Took {
    fn drop(&mut self) {
        let Some(file) = std::env::var_os("SWAPLET_E2E_TIMES") else {
            return;
        };
        let failed = if std::thread::panicking() {
            " FAILED"
        } else {
            ""
        };
        let line = format!("{} {}{failed}\n", self.start.elapsed().as_secs(), self.case);
        // One write per line: other cases write at the same time.
        let written = OpenOptions::new()
            .append(true)
            .create(true)
            .open(&file)
            .and_then(|mut file| file.write_all(line.as_bytes()));
        if let Err(error) = written {
            println!("{}: {error}", file.display());
        }
    }
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

    /// Gives the account one more of the roles in `deploy/restart.yaml` and `deploy/sidecar-logs.yaml`.
    pub async fn grant(&self, role: &str) {
        grant(
            &self.client,
            &self.namespace,
            ROLES.get_or_init(install_roles).await,
            role,
        )
        .await;
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

    /// Our Events in this namespace as `(pod, reason)`, sorted; waits until there are at least so
    /// many.
    pub async fn events(&self, count: usize) -> Vec<(String, String)> {
        let events: Api<Event> = self.api();
        eventually(&format!("{count} events"), || async {
            let mut ours = Vec::new();
            for event in events.list(&ListParams::default()).await.unwrap() {
                if event.reporting_controller.as_deref() == Some("swaplet.io/controller") {
                    ours.push((
                        event.regarding.and_then(|pod| pod.name).unwrap_or_default(),
                        event.reason.unwrap_or_default(),
                    ));
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

/// A ServiceAccount with the rights of `deploy/rbac.yaml`, `deploy/restart.yaml`,
/// `deploy/hot-upgrade.yaml`, `deploy/pull-jobs.yaml` and `deploy/sidecar-policies.yaml`, in this namespace only as far as they
/// are of namespaces, and a kubeconfig for it.
async fn account(client: &Client, namespace: &str, folder: &Path) -> PathBuf {
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
fn looks_for_leash(namespace: &str) -> String {
    format!("{namespace}-leash")
}

/// The name of the binding by which it may see SidecarPolicies.
fn sees_policies(namespace: &str) -> String {
    format!("{namespace}-policies")
}

/// The name of the binding by which it may see SidecarSets.
fn sees_sets(namespace: &str) -> String {
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
        include_str!("../../deploy/rbac.yaml"),
        "\n---\n",
        include_str!("../../deploy/restart.yaml"),
        "\n---\n",
        include_str!("../../deploy/pull-jobs.yaml"),
        "\n---\n",
        include_str!("../../deploy/sidecar-policies.yaml"),
        "\n---\n",
        include_str!("../../deploy/sidecar-logs.yaml"),
        "\n---\n",
        include_str!("../../deploy/hot-upgrade.yaml")
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
