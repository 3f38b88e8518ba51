//! What users with few rights see: the roles `edit` and `view` of Kubernetes in one namespace, and an
//! account without a right. What the commands print is recorded in `tenants/output.txt`, and beside an
//! installation in a file for each role; run with `SWAPLET_UPDATE_DOCS=1` the cases write them.

mod beside;

use std::fmt::Write as _;
use std::path::Path;

use kube::ResourceExt as _;
use tokio::process::Command;

use crate::controller::{Controller, SWAPS_ONLY, Why};
use crate::pods::{
    EXITS_143, container, is_ready, job, main_has_ended, main_ok, pod, sidecar, spec,
};
use crate::sidecar_policies::crds_are_there;
use crate::world::{World, eventually, kubectl, variable, write_kubeconfig};

const ROLES: [&str; 3] = ["edit", "view", "nobody"];
const COMMANDS: [&[&str]; 6] = [
    &[
        "explain",
        "job/ended",
        "--exit-image",
        "registry.example/swaplet/exit:v1",
    ],
    &[
        "explain",
        "job/marked",
        "--exit-image",
        "registry.example/swaplet/exit:v1",
    ],
    &[
        "rescue",
        "--dry-run",
        "--exit-image",
        "registry.example/swaplet/exit:v1",
    ],
    &["status"],
    // Without --direct it goes by whether the cluster serves requests, which other cases install.
    &["restart", "app", "--direct", "--dry-run"],
    &["warm", "status"],
];

/// An account with a role of Kubernetes in the namespace, or without one; its kubeconfig.
async fn account(world: &World, name: &str, folder: &Path) -> std::path::PathBuf {
    let namespace = &world.namespace;
    kubectl(&["create", "serviceaccount", name, "-n", namespace]).await;
    if name != "nobody" {
        let (role, subject) = (
            format!("--clusterrole={name}"),
            format!("--serviceaccount={namespace}:{name}"),
        );
        kubectl(&[
            "create",
            "rolebinding",
            name,
            "-n",
            namespace,
            &role,
            &subject,
        ])
        .await;
    }
    let token = kubectl(&["create", "token", name, "-n", namespace]).await;
    let path = write_kubeconfig(folder, token.trim().to_owned());
    let file = path.to_str().unwrap();
    let context = [
        "config",
        "set-context",
        "--current",
        "--namespace",
        namespace,
    ];
    kubectl(&[&["--kubeconfig", file][..], &context].concat()).await;
    path
}

/// What a command prints, with names and times that are always the same.
async fn printed(world: &World, kubeconfig: &Path, words: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_swaplet"))
        .args(words)
        // Not by a flag, which would be in each command that is advised.
        .env("KUBECONFIG", kubeconfig)
        .env("SWAPLET_EXIT_IMAGE_IS_PUBLIC", "true")
        .output()
        .await
        .unwrap();
    let code = output.status.code().unwrap();
    let mut text = String::from_utf8(output.stdout).unwrap();
    text.push_str(&String::from_utf8(output.stderr).unwrap());
    text = text.replace(&variable("SWAPLET_E2E_REGISTRY"), "registry.example");
    for pod in world.pods().await {
        let name = pod.name_any();
        if let Some((job, _)) = name.rsplit_once('-') {
            text = text.replace(&name, &format!("{job}-m4x7k"));
        }
        let node = pod.spec.and_then(|spec| spec.node_name).unwrap_or_default();
        text = text.replace(&node, "worker-1");
    }
    let text = text.replace(&world.namespace, "batch");
    format!("{}exit code {code}\n", crate::newcomer::settled(&text))
}

/// Adds what each of these commands prints for an account to the record.
async fn records(
    record: &mut String,
    world: &World,
    (name, kubeconfig): (&str, &Path),
    commands: &[&[&str]],
) {
    for words in commands {
        let text = printed(world, kubeconfig, words).await;
        let called = format!("{name} $ swaplet {}\n{text}", words.join(" "));
        println!("{called}");
        writeln!(record, "{called}").unwrap();
    }
}

/// Compares what was printed with the record in this file, or writes that.
fn is_as_in(file: &str, record: &str) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("e2e/cases/tenants");
    let file = folder.join(file);
    if std::env::var_os("SWAPLET_UPDATE_DOCS").is_some() {
        std::fs::write(file, record).unwrap();
    } else {
        let recorded = std::fs::read_to_string(file).unwrap();
        assert_eq!(record, recorded, "SWAPLET_UPDATE_DOCS=1 records it");
    }
}

#[tokio::test]
async fn tenants_see_what_they_may_and_what_they_may_not_is_said_in_a_line() {
    // Of kinds that are not served it is not said that they may not be read.
    crds_are_there().await;
    let world = World::new("tenants").await;
    let marked = vec![main_ok(&world), sidecar(&world, "log", EXITS_143)];
    let controller = Controller::process(&world, &SWAPS_ONLY, Why::KilledInAMoment).await;
    world
        .create_job(job("ended", spec("Never", marked.clone())))
        .await;
    world.job_ends("ended", "Complete").await;
    world.events(1).await;
    controller.kill().await;
    let unmarked = vec![main_ok(&world), container(&world, "fluent-bit", EXITS_143)];
    world.create_job(job("marked", spec("Never", marked))).await;
    world
        .create_job(job("unmarked", spec("Never", unmarked)))
        .await;
    let app = spec("Always", vec![container(&world, "app", EXITS_143)]);
    world.create_pod(pod("app", app)).await;
    eventually("the main containers to end", || async {
        let pods = world.pods().await;
        let ended = pods.iter().filter(|pod| main_has_ended(pod));
        let is_there = pods
            .iter()
            .any(|pod| pod.name_any() == "app" && is_ready(pod));
        (ended.count() == 3 && is_there).then_some(())
    })
    .await;
    let mut record = String::new();
    for name in ROLES {
        let folder = tempfile::tempdir().unwrap();
        let kubeconfig = account(&world, name, folder.path()).await;
        if name == "edit" {
            // Before, what is decided depends on how long the pod has not changed.
            eventually("the decision to last", || async {
                let said = printed(&world, &kubeconfig, COMMANDS[1]).await;
                said.contains("PhaseWritten").then_some(())
            })
            .await;
        }
        records(&mut record, &world, (name, kubeconfig.as_path()), &COMMANDS).await;
    }
    is_as_in("output.txt", &record);
    world.done().await;
}
