//! The way of somebody who has only the README: its own commands and its own Job, in its order. What
//! they print is recorded in `newcomer/output.txt`, which the README shows; run with
//! `SWAPLET_UPDATE_DOCS=1` the case writes it. Its Job in the demo is in `tests/demo/manifests.rs`.

use std::fmt::Write as _;
use std::path::Path;

use kube::ResourceExt as _;
use tokio::process::Command;

use crate::audit::system_namespace;
use crate::install::helm;
use crate::world::{World, eventually, variable};

const README: &str = include_str!("../../README.md");
const RECORDED: &str = include_str!("newcomer/output.txt");

/// What follows a line of a document's code, up to the end of its block.
pub fn block<'a>(document: &'a str, begins: &str) -> &'a str {
    let start = document.find(begins).unwrap_or_else(|| panic!("{begins}"));
    document[start..].split_once("\n```").unwrap().0
}

pub struct Newcomer<'a> {
    world: &'a World,
    pub folder: tempfile::TempDir,
    pub system: String,
    /// What was called and what it printed, with names and times that are always the same.
    record: String,
}

impl<'a> Newcomer<'a> {
    pub fn new(world: &'a World) -> Self {
        let folder = tempfile::tempdir().unwrap();
        // The node has no way to Docker Hub.
        let job = block(README, "apiVersion: batch/v1\nkind: Job")
            .replace("image: busybox", &format!("image: {}", world.images.work));
        std::fs::write(folder.path().join("job.yaml"), job).unwrap();
        let link = folder.path().join("deploy");
        std::os::unix::fs::symlink(concat!(env!("CARGO_MANIFEST_DIR"), "/deploy"), link).unwrap();
        Self {
            world,
            folder,
            system: system_namespace(&world.namespace),
            record: String::new(),
        }
    }

    /// The kubeconfig of the cluster, with the namespace of the case.
    pub async fn takes_its_namespace(&self) {
        let namespace = &self.world.namespace;
        self.run(&format!(
            "cp {} config; kubectl --kubeconfig config config set-context --current --namespace {namespace}",
            variable("KUBECONFIG")
        ))
        .await;
    }

    /// What a shell prints that has the programs of the newcomer.
    pub async fn run(&self, script: &str) -> String {
        let programs = format!(
            "swaplet() {{ {} \"$@\"; }}; helm() {{ {} \"$@\"; }}",
            env!("CARGO_BIN_EXE_swaplet"),
            helm()
        );
        let folder = self.folder.path();
        let kubeconfig = folder.join("config");
        let mut command = Command::new("bash");
        if kubeconfig.exists() {
            command.env("KUBECONFIG", kubeconfig);
        }
        let output = command
            .args([
                "-e",
                "-o",
                "pipefail",
                "-c",
                &format!("{programs}\n{script}"),
            ])
            .current_dir(folder)
            // A newcomer sits at a terminal, where `swaplet check` says more.
            .env_remove("CI")
            .output()
            .await
            .unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        let printed = text(output.stdout) + &text(output.stderr);
        println!("{script}\n{printed}");
        assert!(output.status.success(), "{script}: {printed}");
        printed
    }

    /// Runs a command, and records it with what it prints.
    async fn records(&mut self, command: &str) {
        let mut printed = self.run(command).await;
        if let Some(pod) = self.world.pods().await.first() {
            printed = printed.replace(&pod.name_any(), "report-m4x7k");
        }
        let printed = settled(&printed)
            .replace(&self.world.images.work, "busybox")
            .replace(&variable("SWAPLET_E2E_REGISTRY"), "registry.example")
            .replace(&self.world.namespace, "default");
        writeln!(self.record, "$ {command}\n{printed}").unwrap();
    }

    /// The block of the README, but for the compiler; where it installs for everybody, this is for
    /// the namespace of the case alone, for others run beside it.
    async fn installs(&self) {
        let commands = block(README, "swaplet exit-image push")
            .replace("registry.example", &variable("SWAPLET_E2E_REGISTRY"))
            .replace(
                "--namespace swaplet ",
                &format!("--namespace {} ", self.system),
            );
        let values = format!(
            "--set 'namespaces={{{}}}' --set openkruise.coexist=own --wait --timeout 600s",
            self.world.namespace
        );
        self.run(&format!("{commands} {values}")).await;
    }

    /// Of the installation; what else is in the cluster belongs to other cases.
    async fn says_that_all_is_well(&self) {
        let system = &self.system;
        eventually("all to be well", || async {
            let status = self
                .run(&format!("swaplet status -n {system} || true"))
                .await;
            let (_, own) = status.split_once(&format!("Deployment {system}/swaplet:\n"))?;
            let own = own.split_once("\n\n").map_or(own, |(own, _)| own);
            (own.contains("  ok ") && !own.contains("  TODO ")).then_some(())
        })
        .await;
    }

    /// As the README's page on operations says; nothing of the whole cluster stays.
    pub async fn uninstalls(&self) {
        let system = &self.system;
        self.run(&format!(
            "helm uninstall swaplet --namespace {system} --wait --timeout 600s
             kubectl delete namespace {system} --wait=false"
        ))
        .await;
        let left = self
            .run(
                "kubectl get -o name -l app.kubernetes.io/managed-by=Helm \
                 clusterroles,clusterrolebindings,flowschemas,validatingadmissionpolicies,validatingadmissionpolicybindings",
            )
            .await;
        assert!(!left.contains(&**system), "{left}");
    }
}

/// Columns with two spaces between them, and each number of seconds or minutes the same.
pub fn settled(printed: &str) -> String {
    let line = |line: &str| {
        let columns = line.trim().split("  ").map(str::trim);
        let columns = columns.filter(|column| !column.is_empty());
        columns.map(same_times).collect::<Vec<_>>().join("  ")
    };
    printed
        .lines()
        .fold(String::new(), |text, next| text + &line(next) + "\n")
}

fn same_times(column: &str) -> String {
    let words: Vec<_> = column.split(' ').collect();
    let is_unit = |word: Option<&&str>| word.is_some_and(|word| word.trim_end_matches(';') == "s");
    let words = words.iter().enumerate().map(|(nth, word)| {
        let is_number = word.parse::<u32>().is_ok();
        let (age, mark) = word.split_at(word.trim_end_matches([':', ',', '.']).len());
        match is_number && is_unit(words.get(nth + 1)) {
            true => "3".to_owned(),
            false if is_age(age) => format!("3s{mark}"),
            false => (*word).to_owned(),
        }
    });
    words.collect::<Vec<_>>().join(" ")
}

/// Such as 12s or 2m5s.
fn is_age(word: &str) -> bool {
    let number = word.trim_end_matches(['s', 'm']);
    number != word
        && !number.is_empty()
        && number
            .chars()
            .all(|letter| letter.is_ascii_digit() || letter == 'm')
}

#[tokio::test]
async fn the_way_of_the_readme_ends_a_sidecar_and_leaves_nothing() {
    let world = World::without_leash("newcomer").await;
    let mut newcomer = Newcomer::new(&world);
    newcomer.takes_its_namespace().await;
    newcomer.installs().await;

    newcomer.records("swaplet check -f job.yaml").await;
    newcomer.records("kubectl apply -f job.yaml").await;
    // On a busy machine it takes longer than newcomers wait.
    world.job_ends("report", "Complete").await;
    newcomer
        .records("kubectl wait --for=condition=Complete job/report --timeout=2m")
        .await;
    // An Event comes after what it reports.
    eventually("the Event of the end", || async {
        let events = newcomer
            .run(&format!("kubectl get events -n {}", world.namespace))
            .await;
        events.contains("SidecarEnded").then_some(())
    })
    .await;
    newcomer.records("kubectl events | grep Sidecar").await;
    // Where users look: it is the last of all Events, those of the kubelet among them.
    newcomer
        .records("kubectl describe pod -l job-name=report | tail -n 1")
        .await;
    newcomer.says_that_all_is_well().await;
    newcomer.records("swaplet rescue --dry-run").await;
    newcomer.uninstalls().await;

    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("e2e/cases/newcomer/output.txt");
    if std::env::var_os("SWAPLET_UPDATE_DOCS").is_some() {
        std::fs::write(file, &newcomer.record).unwrap();
    } else {
        assert_eq!(
            newcomer.record, RECORDED,
            "SWAPLET_UPDATE_DOCS=1 records it"
        );
    }
    world.done().await;
}
