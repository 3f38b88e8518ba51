//! A container is restarted when its configuration changes, on a real kubelet, and finds the new
//! one.

use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Pod, Secret};
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use kube::{Api, ResourceExt};
use serde_json::{Value, json};
use swaplet_controller::frame::clock::time_of_day;
use tokio::time::Instant;

use crate::audit::written_in;
use crate::controller::{Controller, Why};
use crate::pods::{EXITS_143, container, pod, spec};
use crate::restart::{Restarts, restarts, started};
use crate::witness::Witness;
use crate::world::{eventually, kubectl};

/// Each start leaves a line on the volume: what the environment and the file say.
const TELLS: &str = "echo \"$TIER $COLOR $(cat /etc/files/text)\" >> /shared/starts; trap 'exit 143' TERM; sleep 3600 & wait";

/// Instead of the default of two minutes; more than the 5 seconds after which containers are
/// restarted that mount nothing of a change.
const DELAY: Duration = Duration::from_secs(20);

struct Configured(Restarts);

impl Configured {
    async fn set(&self, name: &str, data: Value) {
        let maps: Api<ConfigMap> = self.0.world.api();
        maps.patch(
            name,
            &PatchParams::default(),
            &Patch::Merge(json!({"data": data})),
        )
        .await
        .unwrap();
    }

    async fn create<K>(&self, object: Value)
    where
        K: kube::Resource<Scope = k8s_openapi::NamespaceResourceScope, DynamicType = ()>
            + Clone
            + std::fmt::Debug
            + serde::Serialize
            + serde::de::DeserializeOwned,
    {
        self.0
            .world
            .api::<K>()
            .create(
                &PostParams::default(),
                &serde_json::from_value(object).unwrap(),
            )
            .await
            .unwrap();
    }

    async fn pod(&self) -> Pod {
        let mut app = container(&self.0.world, "app", TELLS);
        app["env"] = json!([{"name": "TIER", "valueFrom": {"fieldRef": {"fieldPath": "metadata.annotations['tier']"}}}]);
        app["envFrom"] = json!([{"configMapRef": {"name": "settings"}}]);
        app["volumeMounts"] = json!([{"name": "shared", "mountPath": "/shared"}, {"name": "files", "mountPath": "/etc/files"}]);
        let mut log = container(&self.0.world, "log", EXITS_143);
        log["volumeMounts"] = json!([{"name": "shared", "mountPath": "/shared"}]);
        let mut spec = spec("Always", vec![app, log]);
        spec["volumes"] = json!([{"name": "shared", "emptyDir": {}}, {"name": "files", "configMap": {"name": "files"}}]);
        let mut pod = pod("p", spec);
        pod["metadata"]["annotations"] = json!({"tier": "a", "swaplet.io/restart-on": "app=configmap/settings,configmap/files,secret-metadata/tls,pod-metadata"});
        self.0.world.create_pod(pod).await;
        self.0
            .world
            .pod_is("p", "running", |pod| {
                started(pod, "app").is_some() && started(pod, "log").is_some()
            })
            .await
    }

    async fn annotate(&self, key: &str, value: &str) {
        let annotated = Patch::Merge(json!({"metadata": {"annotations": {key: value}}}));
        self.0
            .world
            .api::<Pod>()
            .patch("p", &PatchParams::default(), &annotated)
            .await
            .unwrap();
    }

    /// A kubelet brings new files when it looks at the pod, which is once a minute, or when the pod
    /// changes.
    async fn file_is(&self, text: &str) {
        eventually("the new file to be there", || async {
            self.annotate("looked-at", &time_of_day().to_string()).await;
            let found = kubectl(&[
                "exec",
                "-n",
                &self.0.world.namespace,
                "p",
                "-c",
                "app",
                "--",
                "cat",
                "/etc/files/text",
            ])
            .await;
            (found == text).then_some(())
        })
        .await;
    }

    /// Waits until this is recorded of the container.
    async fn assert_recorded(&self, object: &str) {
        let maps: Api<ConfigMap> = self.0.world.api();
        eventually(&format!("{object} to be recorded"), || async {
            let records = maps.get_opt("swaplet-restart-on").await.unwrap()?.data?;
            records
                .values()
                .any(|record| record.contains(&format!("\"{object}\":")))
                .then_some(())
        })
        .await;
    }

    /// Waits until the newest request is completed and there are so many restarts.
    async fn is_restarted(&self, times: i32) -> Pod {
        eventually(&format!("{times} restarts"), || async {
            let requests = self.0.requests.list(&ListParams::default()).await.unwrap();
            let completed = requests
                .iter()
                .all(|request| request.data["status"]["phase"] == "Completed");
            let pod = self.0.world.api::<Pod>().get("p").await.unwrap();
            (completed && restarts(&pod, "app") == times).then_some(pod)
        })
        .await
    }

    /// The names of the requests that are there.
    async fn requests(&self) -> Vec<String> {
        let requests = self.0.requests.list(&ListParams::default()).await.unwrap();
        requests
            .into_iter()
            .map(|request| request.name_any())
            .collect()
    }
}

async fn objects_are_there(case: &Configured) {
    case.create::<ConfigMap>(json!({"metadata": {"name": "settings"}, "data": {"COLOR": "red"}}))
        .await;
    case.create::<ConfigMap>(json!({"metadata": {"name": "files"}, "data": {"text": "one"}}))
        .await;
    case.create::<Secret>(json!({"metadata": {"name": "tls"}, "stringData": {"key": "one"}}))
        .await;
}

/// An edit of metadata is no change.
async fn edit_metadata(case: &Configured) {
    let annotated = Patch::Merge(json!({"metadata": {"annotations": {"a": "b"}}}));
    case.0
        .world
        .api::<ConfigMap>()
        .patch("settings", &PatchParams::default(), &annotated)
        .await
        .unwrap();
}

/// The request before is deleted once its pod has another, so two of them are seen for a moment
/// only.
async fn there_is_another_request(case: &Configured, first: &[String]) {
    eventually("a second request", || async {
        case.requests()
            .await
            .iter()
            .any(|name| !first.contains(name))
            .then_some(())
    })
    .await;
}

async fn change_recorded_secret(case: &Configured) {
    case.assert_recorded("secret-metadata/tls").await;
    let secret = Patch::Merge(json!({"stringData": {"key": "two"}}));
    case.0
        .world
        .api::<Secret>()
        .patch("tls", &PatchParams::default(), &secret)
        .await
        .unwrap();
}

fn arguments<'a>(delay: &'a str, namespace: &'a str) -> [&'a str; 6] {
    [
        "--restart",
        "--restart-on-config",
        "--restart-on-config-delay",
        delay,
        "--state-namespace",
        namespace,
    ]
}

#[tokio::test]
async fn environment_files_secret_and_metadata_of_a_container() {
    let mut restart = Restarts::new("restart-config").await;
    restart.world.grant("swaplet-restart-on").await;
    let witness = Witness::of(&mut restart.world).await;
    let case = Configured(restart);
    let namespace = case.0.world.namespace.clone();
    objects_are_there(&case).await;
    let before = case.pod().await;
    let delay = DELAY.as_secs().to_string();
    let arguments = arguments(&delay, &namespace);
    let controller = Controller::process(&case.0.world, &arguments, Why::Witnessed).await;

    // Without the right to Secrets this is said, and the rest goes on.
    assert_eq!(case.0.world.events_of("p", 1).await, ["RestartOnForbidden"]);
    case.assert_recorded("configmap/files").await;
    case.set("settings", json!({"COLOR": "blue"})).await;
    case.is_restarted(1).await;
    case.0.assert_starts("a red one\na blue one\n").await;
    let first = case.requests().await;

    // What is done meanwhile takes longer than a restart would.
    edit_metadata(&case).await;

    // The next life knows what this one has seen. Files are waited for, so that the new ones are
    // found.
    controller.kill().await;
    case.set("files", json!({"text": "two"})).await;
    let changed = Instant::now();
    case.file_is("two").await;
    let _next = Controller::process(&case.0.world, &arguments, Why::Witnessed).await;
    there_is_another_request(&case, &first).await;
    assert!(
        changed.elapsed() >= DELAY - Duration::from_secs(1),
        "{:?}",
        changed.elapsed()
    );
    case.is_restarted(2).await;
    case.0
        .assert_starts("a red one\na blue one\na blue two\n")
        .await;

    case.0.world.grant("swaplet-restart-on-secrets").await;
    change_recorded_secret(&case).await;
    case.is_restarted(3).await;
    case.annotate("tier", "b").await;
    let after = case.is_restarted(4).await;
    let expected = "a red one\na blue one\na blue two\na blue two\nb blue two\n";
    case.0.assert_starts(expected).await;
    assert_eq!(
        (
            restarts(&after, "log"),
            before.uid(),
            started(&before, "log")
        ),
        (0, after.uid(), started(&after, "log"))
    );
    no_values_of_secrets_were_asked_for(&witness);
    assert_written_four_times(&namespace);
    case.0.world.done().await;
}

fn assert_written_four_times(namespace: &str) {
    let written = written_in(namespace);
    assert_eq!(
        written
            .iter()
            .filter(|write| write.resource == "pods" && write.code == 200)
            .count(),
        4,
        "{written:#?}"
    );
}

fn no_values_of_secrets_were_asked_for(witness: &Witness) {
    let forms = witness.forms("secrets");
    assert!(
        !forms.is_empty()
            && forms.iter().all(|form| form
                .split(',')
                .all(|form| form.contains("as=PartialObjectMetadata"))),
        "{forms:?}"
    );
    assert!(
        witness
            .forms("configmaps")
            .iter()
            .any(|form| !form.contains("as=PartialObjectMetadata")),
        "the witness sees the difference"
    );
}
