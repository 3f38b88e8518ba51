//! `swaplet status`, through the real binary, against the embedded API server.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a broken helper is a failed test"
)]

mod policies;
mod rights;

use kube::Client;
use serde_json::{Value, json};
use swaplet_testbed::apiserver::{Effect, Rule, Verb};
use swaplet_testbed::{ApiServer, Clock};
use tokio::net::TcpListener;
use tokio::process::Command;

use crate::images::real::RealRegistry;

const EXIT: &str = "registry.example/swaplet/exit:v1";
const COMMAND: [&str; 3] = [
    "run",
    "--leader-elect",
    "--config=/etc/swaplet/config/config.yaml",
];
const ACCOUNT: &str = "system:serviceaccount:default:swaplet";

struct Cluster {
    server: ApiServer,
    client: Client,
    folder: tempfile::TempDir,
}

impl Cluster {
    async fn start() -> Self {
        let server = ApiServer::new(Clock::default());
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let folder = tempfile::tempdir().unwrap();
        let kubeconfig = ApiServer::kubeconfig(listener.local_addr().unwrap());
        std::fs::write(folder.path().join("kubeconfig"), kubeconfig).unwrap();
        let served = server.clone();
        tokio::spawn(async move { served.serve(listener).await });
        let client = server.client_as("user");
        Self {
            server,
            client,
            folder,
        }
    }

    /// Creates objects at their paths.
    async fn create(&self, path: &str, object: Value) {
        let request = http::Request::post(path)
            .header("content-type", "application/json")
            .body(object.to_string().into_bytes())
            .unwrap();
        self.client.request::<Value>(request).await.unwrap();
    }

    async fn status_of(&self, path: &str, status: Value) {
        let request = http::Request::patch(format!("{path}/status"))
            .header("content-type", "application/merge-patch+json")
            .body(json!({"status": status}).to_string().into_bytes())
            .unwrap();
        self.client.request::<Value>(request).await.unwrap();
    }

    /// As the chart installs it, with everything well.
    async fn install(&self, namespace: &str, args: &[&str]) {
        let field = json!({"fieldRef": {"fieldPath": "metadata.namespace"}});
        let args = [&COMMAND[..], args].concat();
        let container = json!({
            "name": "swaplet", "image": "swaplet:1",
            "args": args,
            "env": [{"name": "SWAPLET_STATE_NAMESPACE", "valueFrom": field}],
            "volumeMounts": [{"name": "config", "mountPath": "/etc/swaplet/config"}],
        });
        let volume = json!({"name": "config", "configMap": {"name": "swaplet-config"}});
        let labels = json!({"app.kubernetes.io/name": "swaplet", "app.kubernetes.io/version": env!("CARGO_PKG_VERSION")});
        let pod = json!({"serviceAccountName": "swaplet", "containers": [container], "volumes": [volume]});
        let place = format!("/apis/apps/v1/namespaces/{namespace}/deployments");
        self.create(&place, json!({"apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {"name": "swaplet", "labels": labels},
            "spec": {"replicas": 2, "selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}, "spec": pod}}}))
            .await;
        let ready = json!({"replicas": 2, "readyReplicas": 2});
        self.status_of(&format!("{place}/swaplet"), ready).await;
        let row =
            "- {name: own, provider: Own, class: VirtualInert, match: [{labels: [team/vk=1]}]}\n";
        let config = json!({"config.yaml": "concurrency: 7\n", "classes.yaml": row});
        self.create(
            &format!("/api/v1/namespaces/{namespace}/configmaps"),
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "swaplet-config"}, "data": config}),
        )
        .await;
        #[expect(clippy::disallowed_methods, reason = "the Lease is held now")]
        let now = jiff::Timestamp::now();
        self.create(
            &format!("/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases"),
            json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "swaplet"},
                "spec": {"holderIdentity": "swaplet-7d_1", "renewTime": format!("{now:.6}")}}),
        )
        .await;
    }

    /// The admission policies for the account, each with its binding.
    async fn leash(&self) {
        let group = "/apis/admissionregistration.k8s.io/v1";
        for part in ["pods", "pods-status", "events", "state"] {
            let name = format!("swaplet-leash-{part}");
            let meta = json!({"name": name});
            let condition = json!({"name": "controller", "expression": format!("request.userInfo.username == \"{ACCOUNT}\"")});
            self.create(&format!("{group}/validatingadmissionpolicies"), json!({
                "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy", "metadata": meta,
                "spec": {"matchConditions": [condition], "validations": [{"expression": "true"}]}}))
                .await;
            self.create(&format!("{group}/validatingadmissionpolicybindings"), json!({
                "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicyBinding", "metadata": meta,
                "spec": {"policyName": name, "validationActions": ["Deny"]}}))
                .await;
        }
    }

    async fn status(&self, arguments: &[&str]) -> (Option<i32>, String, String) {
        self.run("status", arguments).await
    }

    async fn run(&self, command: &str, arguments: &[&str]) -> (Option<i32>, String, String) {
        let ran = Command::new(env!("CARGO_BIN_EXE_swaplet"))
            .arg(command)
            .args(arguments)
            .arg("--kubeconfig")
            .arg(self.folder.path().join("kubeconfig"))
            .output()
            .await
            .unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        (ran.status.code(), text(ran.stdout), text(ran.stderr))
    }

    async fn checks(&self, code: i32) -> Value {
        let (ended, out, err) = self.status(&["-o", "json"]).await;
        assert_eq!(ended, Some(code), "{out}{err}");
        serde_json::from_str(&out).unwrap()
    }

    /// A pod whose main container ended long ago, of a Job on a virtual node.
    async fn stuck(&self) {
        let meta = json!({"name": "eci", "labels": {"type": "virtual-kubelet"}});
        self.create(
            "/api/v1/nodes",
            json!({"apiVersion": "v1", "kind": "Node", "metadata": meta}),
        )
        .await;
        let containers = json!([
            {"name": "main", "image": "main:1"},
            {"name": "log", "image": "log:1", "env": [{"name": "KRUISE_TERMINATE_SIDECAR_WHEN_JOB_EXIT", "value": "true"}]},
        ]);
        let pod = json!({"restartPolicy": "Never", "nodeName": "eci", "containers": containers});
        self.create("/apis/batch/v1/namespaces/default/jobs", json!({"apiVersion": "batch/v1", "kind": "Job",
            "metadata": {"name": "report"}, "spec": {"template": {"spec": {"restartPolicy": "Never", "containers": containers}}}}))
            .await;
        let job = self.server.peek("jobs.batch", "default", "report").unwrap();
        let owner = json!({"apiVersion": "batch/v1", "kind": "Job", "name": "report", "uid": job["metadata"]["uid"], "controller": true});
        self.create(
            "/api/v1/namespaces/default/pods",
            json!({"apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": "report-1", "ownerReferences": [owner]}, "spec": pod}),
        )
        .await;
        let ended = json!({"exitCode": 0, "startedAt": "2026-01-01T00:00:00Z", "finishedAt": "2026-01-01T00:00:00Z"});
        let statuses = json!([
            {"name": "main", "image": "main:1", "imageID": "", "ready": false, "restartCount": 0, "state": {"terminated": ended}},
            {"name": "log", "image": "log:1", "imageID": "", "ready": true, "restartCount": 0, "state": {"running": {}}},
        ]);
        let status = json!({"phase": "Running", "containerStatuses": statuses});
        self.status_of("/api/v1/namespaces/default/pods/report-1", status)
            .await;
    }
}

fn of<'a>(status: &'a Value, subject: &str) -> &'a Value {
    let mut checks = status["checks"].as_array().unwrap().iter();
    let check = checks.find(|check| check["subject"] == subject);
    check.unwrap_or_else(|| panic!("{subject}: {status:#}"))
}

#[tokio::test(flavor = "multi_thread")]
async fn b1_pods_that_wait_for_what_nothing_marks_are_told() {
    let cluster = Cluster::start().await;
    cluster.stuck().await;
    let place = "/api/v1/namespaces/default/pods";
    let mut pod = (*cluster.server.peek("pods", "default", "report-1").unwrap()).clone();
    let status = pod["status"].take();
    pod["metadata"] =
        json!({"name": "unmarked", "ownerReferences": pod["metadata"]["ownerReferences"]});
    pod["spec"]["containers"][1]["env"] = json!([]);
    cluster.create(place, pod).await;
    cluster
        .status_of(&format!("{place}/unmarked"), status)
        .await;
    cluster.install("default", &["--exit-image", EXIT]).await;
    let status = cluster.checks(1).await;
    let told = of(&status, "unmarked sidecars");
    let words = told["words"].as_str().unwrap();
    assert!(
        told["state"] == "note" && words.contains("1 pod waits") && words.contains("--sidecar log"),
        "{told}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn all_is_well_and_the_flags_in_force_are_told() {
    let cluster = Cluster::start().await;
    cluster.leash().await;
    cluster.install("default", &["--exit-image", EXIT]).await;
    let status = cluster.checks(0).await;
    for subject in [
        "version",
        "replicas",
        "leader",
        "rights",
        "admission policies",
        "stuck pods",
    ] {
        assert_eq!(of(&status, subject)["state"], "ok", "{status:#}");
    }
    let flags = status["installations"][0]["flags"].to_string();
    assert!(flags.contains(&format!("--exit-image={EXIT}")), "{flags}");
    assert!(
        flags.contains("--concurrency=7"),
        "of the ConfigMap: {flags}"
    );
    let (code, out, _) = cluster.status(&["-o", "wide"]).await;
    assert!(
        code == Some(0) && out.contains("swaplet-7d_1, renewed"),
        "{out}"
    );
    assert!(out.contains("--concurrency=7"), "{out}");
    let writes = cluster.server.recorded();
    let writes = writes
        .iter()
        .filter(|request| request.user_agent.starts_with("swaplet/"));
    let resources: std::collections::BTreeSet<_> = writes
        .filter(|request| format!("{:?}", request.verb) == "Create")
        .map(|request| request.resource.clone())
        .collect();
    assert_eq!(resources.len(), 1, "it only asks: {resources:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn u235_status_waits_for_a_busy_server() {
    let cluster = Cluster::start().await;
    cluster.leash().await;
    cluster.install("default", &["--exit-image", EXIT]).await;
    let faults = cluster.server.faults();
    let busy = ["deployments", "pods", "nodes"].map(|resource| {
        let busy = Rule::new(Effect::reply(429).retry_after(1)).user_agent("swaplet/");
        faults.add(busy.verb(Verb::List).resource(resource).times(1))
    });
    let status = cluster.checks(0).await;
    assert_eq!(of(&status, "stuck pods")["state"], "ok", "{status:#}");
    for rule in busy {
        assert!(faults.hits(rule) > 1, "it asks again");
    }
}

/// It is asked only when that is wanted, for the flags of an installation name it.
#[tokio::test(flavor = "multi_thread")]
async fn the_registry_says_whether_it_has_the_exit_image_if_it_is_to_be_asked() {
    let Some(registry) = RealRegistry::start() else {
        return;
    };
    let image = registry.reference("swaplet/exit:v1");
    let cluster = Cluster::start().await;
    cluster.leash().await;
    cluster.install("default", &["--exit-image", &image]).await;
    let not_asked = cluster.checks(0).await.to_string();
    assert!(
        !not_asked.contains("\"subject\":\"registry\""),
        "{not_asked}"
    );

    let asked = async |code: i32| {
        let (ended, out, err) = cluster.status(&["--registry", "-o", "json"]).await;
        assert_eq!(ended, Some(code), "{out}{err}");
        let status: Value = serde_json::from_str(&out).unwrap();
        of(&status, "registry").clone()
    };
    let missing = asked(1).await;
    assert_eq!(missing["state"], "attention", "{missing}");
    let pushed = Command::new(env!("CARGO_BIN_EXE_swaplet"))
        .args(["exit-image", "push", &image])
        .output()
        .await
        .unwrap();
    assert!(pushed.status.success());
    assert_eq!(asked(0).await["state"], "ok");
    drop(registry);
    let silent = asked(2).await;
    assert_eq!(silent["state"], "unknown", "{silent}");
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_installed_is_said_with_what_to_do() {
    let cluster = Cluster::start().await;
    let (code, out, _) = cluster.status(&[]).await;
    assert_eq!(code, Some(1), "{out}");
    assert!(
        out.contains("swaplet is not installed in this cluster"),
        "{out}"
    );
    assert!(out.contains("docs/install/README.md"), "{out}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_needs_attention_is_named_and_makes_exit_code_1() {
    let cluster = Cluster::start().await;
    cluster
        .install("default", &["--exit-image", EXIT, "--restart"])
        .await;
    cluster.stuck().await;
    cluster.server.set_webhook(|resource, object| {
        let asked = &object["spec"]["resourceAttributes"];
        if resource == "subjectaccessreviews" && asked["subresource"] == "status" {
            object["status"] = json!({"allowed": false});
        }
    });
    let status = cluster.checks(1).await;
    let words = |subject: &str| of(&status, subject)["words"].as_str().unwrap().to_owned();
    for (subject, part) in [
        ("rights", "patch pods/status"),
        ("admission policies", "nothing is restarted"),
        ("stuck pods", "swaplet rescue"),
        ("Jobs on virtual nodes", "default/report"),
    ] {
        assert_eq!(of(&status, subject)["state"], "attention", "{status:#}");
        assert!(
            words(subject).contains(part),
            "{subject}: {}",
            words(subject)
        );
    }
    assert_eq!(status["stuckPods"][0]["name"], "report-1");
}

#[tokio::test(flavor = "multi_thread")]
async fn pods_of_other_namespaces_are_not_those_of_the_installation() {
    for (flags, state) in [("a,b", "ok"), ("a,default", "attention")] {
        let cluster = Cluster::start().await;
        cluster.leash().await;
        let args = ["--exit-image", EXIT, "--namespace", flags];
        cluster.install("default", &args).await;
        cluster.stuck().await;
        let about = json!({"kind": "Pod", "namespace": "default", "name": "report-1"});
        cluster
            .create("/api/v1/namespaces/default/events", json!({"apiVersion": "v1", "kind": "Event", "metadata": {"name": "told"},
                "involvedObject": about, "type": "Warning", "reason": "NeedsImage", "message": "core", "action": "Terminate",
                "eventTime": "2026-01-01T00:00:00.000000Z", "reportingComponent": "swaplet.io/controller", "reportingInstance": "i"}))
            .await;
        let (_, out, err) = cluster.status(&["-o", "json"]).await;
        let status: Value = serde_json::from_str(&out).unwrap_or_else(|_| panic!("{out}{err}"));
        for subject in ["stuck pods", "Jobs on virtual nodes"] {
            assert_eq!(of(&status, subject)["state"], state, "{flags}: {status:#}");
        }
        let has_warning = of(&status, "Warnings")["state"] == "note";
        assert_eq!(has_warning, flags == "a,default", "{flags}: {status:#}");
    }
}

/// `jiff` reads no time as late as this one, which Kubernetes stores.
#[tokio::test(flavor = "multi_thread")]
async fn d3_an_object_that_cannot_be_read_hides_no_other() {
    let cluster = Cluster::start().await;
    cluster.install("default", &["--exit-image", EXIT]).await;
    cluster.stuck().await;
    cluster.server.set_webhook(|resource, object| {
        let late = json!("9999-12-31T23:59:59Z");
        match (object["metadata"]["name"].as_str(), resource) {
            (Some("late"), "events") => object["eventTime"] = late,
            (Some("late"), "jobs" | "deployments") => {
                object["spec"]["template"]["metadata"]["creationTimestamp"] = late;
            }
            _ => {}
        }
    });
    let labels = json!({"app.kubernetes.io/name": "swaplet"});
    let pod =
        json!({"restartPolicy": "Never", "containers": [{"name": "main", "image": "main:1"}]});
    cluster
        .create(
            "/apis/batch/v1/namespaces/default/jobs",
            json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "late"}, "spec": {"template": {"spec": pod}}}),
        )
        .await;
    let containers = json!({"containers": pod["containers"]});
    cluster
        .create("/apis/apps/v1/namespaces/default/deployments", json!({"apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {"name": "late", "labels": labels},
            "spec": {"selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}, "spec": containers}}}))
        .await;
    for name in ["late", "early"] {
        let about = json!({"kind": "Pod", "namespace": "default", "name": "report-1"});
        cluster
            .create("/api/v1/namespaces/default/events", json!({"apiVersion": "v1", "kind": "Event", "metadata": {"name": name},
                "involvedObject": about, "type": "Warning", "reason": "NeedsImage", "message": name, "action": "Terminate",
                "eventTime": "2026-01-01T00:00:00.000000Z", "reportingComponent": "swaplet.io/controller", "reportingInstance": "i"}))
            .await;
    }
    let (_, out, err) = cluster.status(&["-o", "json"]).await;
    let status: Value = serde_json::from_str(&out).unwrap_or_else(|_| panic!("{out}{err}"));
    assert_eq!(
        status["installations"].as_array().map(Vec::len),
        Some(1),
        "{status:#}"
    );
    assert_eq!(
        status["jobsWithoutTtl"],
        json!(["default/report"]),
        "{status:#}"
    );
    let notes = status["warnings"].as_array().into_iter().flatten();
    let notes: Vec<_> = notes.map(|warning| &warning["note"]).collect();
    assert_eq!(notes, ["early"], "{status:#}");
}

#[tokio::test(flavor = "multi_thread")]
async fn pods_that_a_controller_leaves_alone_are_not_being_ended() {
    for (flag, state, said) in [
        ("--terminate=false", "note", "--terminate=false"),
        ("--of-tomorrow=x", "attention", "have waited"),
    ] {
        let cluster = Cluster::start().await;
        cluster
            .install("default", &["--exit-image", EXIT, flag])
            .await;
        cluster.stuck().await;
        let (_, out, err) = cluster.status(&["-o", "json"]).await;
        let status: Value = serde_json::from_str(&out).unwrap_or_else(|_| panic!("{out}{err}"));
        let pods = of(&status, "stuck pods");
        let words = pods["words"].as_str().unwrap();
        assert!(pods["state"] == state && words.contains(said), "{pods}");
    }
}

/// `status` sends there, and the controller goes by them.
#[tokio::test(flavor = "multi_thread")]
async fn the_classes_of_nodes_are_those_of_the_installation() {
    let cluster = Cluster::start().await;
    let meta = json!({"name": "own", "labels": {"team/vk": "1"}});
    let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": meta});
    cluster.create("/api/v1/nodes", node).await;
    let flag = "--node-classes=/etc/swaplet/config/classes.yaml";
    let args = ["--exit-image", EXIT, flag];
    cluster.install("default", &args).await;
    let (code, out, err) = cluster.run("nodes", &["-o", "wide"]).await;
    assert!(
        code == Some(0) && out.contains("VirtualInert"),
        "{out}{err}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn u184_whoever_asks_about_nodes_goes_by_the_classes_of_the_installation() {
    let cluster = Cluster::start().await;
    let meta = json!({"name": "own", "labels": {"team/vk": "1"}});
    let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": meta});
    cluster.create("/api/v1/nodes", node).await;
    let containers = json!([
        {"name": "main", "image": "main:1"},
        {"name": "log", "image": "log:1", "env": [{"name": "KRUISE_TERMINATE_SIDECAR_WHEN_JOB_EXIT", "value": "true"}]},
    ]);
    let pod = json!({"restartPolicy": "Never", "nodeSelector": {"team/vk": "1"}, "containers": containers});
    let job = json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "report"}, "spec": {"template": {"spec": pod}}});
    let jobs = "/apis/batch/v1/namespaces/default/jobs";
    cluster.create(jobs, job).await;
    let classes = "--node-classes=/etc/swaplet/config/classes.yaml";
    let args = ["--exit-image", EXIT, classes];
    cluster.install("default", &args).await;
    let park = ["--park-image", "registry.example/swaplet/park:v1"];
    let warm = [&["registry.example/app:v1"], &park[..]].concat();
    let keeps_none = "Own keeps no images for later pods";
    for (command, arguments, words) in [
        ("warm", &["status"][..], keeps_none),
        ("warm", &warm, keeps_none),
        ("check", &["--live"], "its pods may run on node own (Own)"),
    ] {
        let (_, out, err) = cluster.run(command, arguments).await;
        assert!(
            out.contains(words) || err.contains(words),
            "{command} {arguments:?}: {out}{err}"
        );
    }

    // Of two it is not known whose classes count, unless a file is given.
    let other = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "other"}});
    cluster.create("/api/v1/namespaces", other).await;
    cluster.install("other", &args).await;
    let file = cluster.folder.path().join("classes.yaml");
    let row = "- {name: own, provider: Own, class: VirtualInert, match: [{labels: [team/vk=1]}]}\n";
    std::fs::write(&file, row).unwrap();
    let given = format!("--node-classes={}", file.display());
    let nowhere = [&warm[..], &["--node", "none"]].concat();
    for (command, arguments) in [
        ("warm", &["status"][..]),
        ("warm", &nowhere),
        ("check", &["--live"]),
    ] {
        for (more, is_told) in [(&[][..], true), (&[&*given], false)] {
            let (_, out, err) = cluster.run(command, &[arguments, more].concat()).await;
            let told = err.split_once("there is more than one installation");
            assert_eq!(
                told.is_some(),
                is_told,
                "{command} {arguments:?} {more:?}: {out}{err}"
            );
            // They have no flag for the namespace of the installation.
            assert!(
                told.is_none_or(|(_, words)| words.contains("--node-classes by hand"))
                    && !err.contains("--state-namespace"),
                "{command} {arguments:?} {more:?}: {err}"
            );
        }
    }
}

/// As the note says that is told without it.
#[tokio::test(flavor = "multi_thread")]
async fn u137_the_installation_of_a_namespace_is_found_by_the_namespace() {
    let cluster = Cluster::start().await;
    let meta = json!({"name": "own", "labels": {"team/vk": "1"}});
    let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": meta});
    cluster.create("/api/v1/nodes", node).await;
    let classes = "--node-classes=/etc/swaplet/config/classes.yaml";
    let args = ["--exit-image", EXIT, "--namespace=default", classes];
    cluster.install("default", &args).await;
    cluster.server.set_webhook(|resource, object| {
        if resource == "subjectaccessreviews" {
            let namespace = &object["spec"]["resourceAttributes"]["namespace"];
            object["status"] = json!({"allowed": namespace == "default"});
        }
    });
    let (code, out, err) = cluster.run("nodes", &["-o", "wide"]).await;
    assert!(
        code == Some(0)
            && !out.contains("VirtualInert")
            && err.contains("-n NAMESPACE takes those of the installation that is for it"),
        "{out}{err}"
    );
    let (code, out, err) = cluster.run("nodes", &["-o", "wide", "-n", "default"]).await;
    assert!(
        code == Some(0) && out.contains("VirtualInert") && !err.contains("do not count"),
        "{out}{err}"
    );
    let (_, help, _) = cluster.run("nodes", &["--help"]).await;
    assert!(help.contains("-n, --namespace <NAMESPACE>"), "{help}");
}

#[tokio::test(flavor = "multi_thread")]
async fn of_several_installations_it_is_said_whose_pods_are_told() {
    let cluster = Cluster::start().await;
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "other"}});
    cluster.create("/api/v1/namespaces", namespace).await;
    for namespace in ["default", "other"] {
        let args = ["--exit-image", EXIT, "--namespace", namespace];
        cluster.install(namespace, &args).await;
    }
    let (_, out, err) = cluster.status(&["-o", "json"]).await;
    let status: Value = serde_json::from_str(&out).unwrap_or_else(|_| panic!("{out}{err}"));
    let told = of(&status, "installation");
    let words = told["words"].as_str().unwrap();
    assert!(
        words.contains("of Deployment default/swaplet alone"),
        "{told}"
    );
}

/// By the command and by the chart alike a Lease is named `swaplet`.
#[tokio::test(flavor = "multi_thread")]
async fn two_installations_that_share_a_lease_are_told() {
    let cluster = Cluster::start().await;
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "other"}});
    cluster.create("/api/v1/namespaces", namespace).await;
    cluster.leash().await;
    cluster.install("default", &["--exit-image", EXIT]).await;
    let alone = cluster.checks(0).await.to_string();
    assert!(!alone.contains("state namespace"), "{alone}");
    let flags = ["--exit-image", EXIT, "--state-namespace=default"];
    cluster.install("other", &flags).await;
    let status = cluster.checks(1).await;
    let checks = status["checks"].as_array().unwrap().iter();
    let told = checks.filter(|check| check["subject"] == "state namespace");
    let told: Vec<_> = told
        .map(|check| (&check["installation"], &check["state"], &check["words"]))
        .collect();
    let words = |other: &str| {
        json!(format!(
            "{other} has the same --state-namespace: they share one Lease, so one of them does nothing"
        ))
    };
    let (ours, theirs) = (json!("default/swaplet"), json!("other/swaplet"));
    let attention = json!("attention");
    assert_eq!(
        told,
        [
            (&ours, &attention, &words("other/swaplet")),
            (&theirs, &attention, &words("default/swaplet")),
        ]
    );
}
