//! What OpenKruise's tests need on the cluster: swaplet, images by the names of theirs, and
//! OpenKruise's controller of `BroadcastJob`s.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};

use crate::images::{Images, push_image, work_config, work_layer};

/// Reports and logs of the last run.
pub const FOLDER: &str = concat!(env!("CARGO_TARGET_TMPDIR"), "/openkruise-suite");
const CHART: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/deploy/chart");
const NAMESPACE: &str = "openkruise-suite";
/// So many of the tests of `ImagePullJob`s have a namespace in which jobs may have pull secrets.
const NAMESPACES: usize = 13;
/// As the registry of Kubernetes' tests and Docker Hub have them.
const IMAGES: [&str; 8] = [
    "e2e/agnhost:2.53",
    "e2e/busybox:1.36.1-1",
    "e2e/httpd:2.4.38-4",
    "e2e/httpd:2.4.39-4",
    "e2e/nginx:1.14-4",
    "e2e/nginx:1.15-4",
    "library/busybox:latest",
    "library/nginx:latest",
];
/// What they do of themselves: nothing, until they are stopped.
const SERVES: &str = "trap 'exit 0' TERM QUIT; sleep 1000000 & wait";

pub struct Installation {
    /// Where the programs of the suite are.
    programs: PathBuf,
    /// By it containerd knows that images of Docker Hub are in our registry.
    mirror: PathBuf,
    broadcastjobs: Child,
}

impl Installation {
    pub async fn new() -> Self {
        let _ = fs::remove_dir_all(FOLDER);
        fs::create_dir_all(FOLDER).unwrap();
        let programs = PathBuf::from(variable("SWAPLET_E2E_SUITE"));
        assert!(
            programs.join("suite").exists(),
            "{} has no tests: run e2e/cluster build openkruise-suite",
            programs.display()
        );
        let registry = variable("SWAPLET_E2E_REGISTRY");
        let images = push_images(&registry).await;
        fs::write(
            repositories(),
            format!("promoterE2eRegistry: {registry}/e2e\n"),
        )
        .unwrap();
        let mirror = PathBuf::from(variable("KUBECONFIG"))
            .with_file_name("certs.d")
            .join("docker.io");
        fs::create_dir_all(&mirror).unwrap();
        fs::write(
            mirror.join("hosts.toml"),
            format!("server = \"http://{registry}\"\n"),
        )
        .unwrap();
        install(&registry, &images);
        let broadcastjobs = start_broadcastjobs(&programs);
        Self {
            programs,
            mirror,
            broadcastjobs,
        }
    }

    /// Runs tests of the suite; what they print is in a log. That tests fail is no error.
    pub fn run(&self, mode: &str, tests: &[String], report: &Path) {
        let log = File::create(Path::new(FOLDER).join(format!("{mode}.log"))).unwrap();
        let mut suite = Command::new(self.programs.join("suite"));
        suite.args([
            "-ginkgo.v",
            "-ginkgo.no-color",
            "-ginkgo.seed=1",
            "-ginkgo.timeout=2h",
        ]);
        suite.arg(format!("-ginkgo.json-report={}", report.display()));
        suite.args(
            tests
                .iter()
                .map(|test| format!("-ginkgo.focus-file=/apps/{test}")),
        );
        suite
            .env("KUBE_TEST_REPO_LIST", repositories())
            .env("KRUISE_E2E_NAMESPACES", namespace(mode));
        if mode == "lenient" {
            suite.env("KRUISE_E2E_LENIENT", "1");
        }
        suite
            .current_dir(FOLDER)
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log);
        suite.status().unwrap();
        let log = File::create(Path::new(FOLDER).join(format!("{mode}-swaplet.log"))).unwrap();
        let logs = [
            "logs",
            "-n",
            NAMESPACE,
            "-l",
            "app.kubernetes.io/name=swaplet",
            "--tail=-1",
            "--prefix",
        ];
        let _ = Command::new("kubectl").args(logs).stdout(log).status();
    }
}

impl Drop for Installation {
    fn drop(&mut self) {
        let _ = self.broadcastjobs.kill();
        let _ = self.broadcastjobs.wait();
        let _ = fs::remove_dir_all(&self.mirror);
        let helm = [
            "uninstall",
            "swaplet",
            "--namespace",
            NAMESPACE,
            "--wait",
            "--timeout",
            "300s",
        ];
        let _ = Command::new(variable("SWAPLET_E2E_HELM"))
            .args(helm)
            .status();
        let namespaces = ["strict", "lenient"].into_iter().flat_map(namespaces_of);
        let delete = ["delete", "--ignore-not-found", "--wait=false"];
        let _ = Command::new("kubectl")
            .args(delete)
            .arg("namespaces")
            .arg(NAMESPACE)
            .args(namespaces)
            .status();
        let _ = Command::new("kubectl")
            .args(delete)
            .args(["nodes", "fake-node-image"])
            .status();
        let _ = Command::new("kubectl")
            .args(delete)
            .args(["--filename", &definition(&self.programs)])
            .status();
    }
}

fn repositories() -> String {
    format!("{FOLDER}/repositories.yaml")
}

fn namespace(mode: &str) -> String {
    format!("{NAMESPACE}-{mode}")
}

fn namespaces_of(mode: &str) -> impl Iterator<Item = String> {
    (1..=NAMESPACES).map(move |number| format!("{}-{number}", namespace(mode)))
}

/// Pushes swaplet's images and those of the tests.
async fn push_images(registry: &str) -> Images {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let images = Images::push(registry).await;
    for image in IMAGES {
        let reference = format!("{registry}/{image}");
        let layer = work_layer();
        let mut config: Value = serde_json::from_str(&work_config(&layer, &reference)).unwrap();
        config["config"]["Cmd"] = json!([SERVES]);
        push_image(registry, &reference, layer, config.to_string()).await;
    }
    images
}

/// As an operator would who wants all of it.
fn install(registry: &str, images: &Images) {
    let controller = format!("{registry}/swaplet/controller:openkruise-suite");
    succeeds(Command::new(env!("CARGO_BIN_EXE_swaplet")).args(["image", "push", &controller]));
    let namespaces: Vec<_> = ["strict", "lenient"]
        .into_iter()
        .flat_map(namespaces_of)
        .collect();
    for namespace in namespaces.iter().map(String::as_str).chain([NAMESPACE]) {
        succeeds(Command::new("kubectl").args(["create", "namespace", namespace]));
    }
    let values = format!(
        "image={controller},terminate.exitImage={},parkImage={},restart.enabled=true,warm.enabled=true,warm.jobs.enabled=true,\
         warm.jobs.secretNamespaces={{{}}},terminate.exitImageIsPublic=true,openkruise.coexist=own,log.format=json",
        images.exit,
        images.park,
        namespaces.join(",")
    );
    let release = [
        "install",
        "swaplet",
        CHART,
        "--namespace",
        NAMESPACE,
        "--set",
        &values,
        "--wait",
        "--timeout",
        "600s",
    ];
    succeeds(Command::new(variable("SWAPLET_E2E_HELM")).args(release));
}

/// Where their CRD is.
fn definition(programs: &Path) -> String {
    programs
        .join("broadcastjobs.yaml")
        .to_str()
        .unwrap()
        .to_owned()
}

/// OpenKruise's webhook fills in what the API server fills in here.
fn start_broadcastjobs(programs: &Path) -> Child {
    const CRD: &str = "customresourcedefinitions/broadcastjobs.apps.kruise.io";
    succeeds(Command::new("kubectl").args([
        "apply",
        "--server-side",
        "--filename",
        &definition(programs),
    ]));
    let path = "/spec/versions/1/schema/openAPIV3Schema/properties/spec/properties/failurePolicy/properties/type/default";
    let policy = json!([{"op": "add", "path": path, "value": "FailFast"}]);
    succeeds(Command::new("kubectl").args([
        "patch",
        CRD,
        "--type=json",
        "--patch",
        &policy.to_string(),
    ]));
    succeeds(Command::new("kubectl").args([
        "wait",
        "--for=condition=Established",
        "--timeout=60s",
        CRD,
    ]));
    let log = File::create(Path::new(FOLDER).join("broadcastjobs.log")).unwrap();
    Command::new(programs.join("broadcastjob"))
        .stdin(Stdio::null())
        .stdout(log.try_clone().unwrap())
        .stderr(log)
        .spawn()
        .unwrap()
}

fn variable(name: &str) -> String {
    std::env::var(name)
        .unwrap_or_else(|_| panic!("{name} is not set: run `eval \"$(e2e/cluster env)\"` first"))
}

fn succeeds(command: &mut Command) {
    let status = command
        .stdout(Stdio::null())
        .status()
        .unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(status.success(), "{command:?}: {status}");
}
