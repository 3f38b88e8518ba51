//! `swaplet check`: what a swap would do to each sidecar, before it matters.

mod live;
mod rows;
mod table;

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use swaplet_core::objects::command::{StandardPaths, Verdict};
use swaplet_core::objects::pod::template::PodTemplate;

use super::client::{ClusterArgs, plain};
use super::manifests::Manifests;
use super::print;
use super::table::Output;
use rows::{Answer, Row};

/// A sidecar is not runnable, or something else would keep its pod from ending.
const NOT_RUNNABLE: u8 = 1;

/// Something could not be read.
const UNREADABLE: u8 = 2;

const EXAMPLES: &str = "\
Examples:
  # The sidecars of a manifest, of a folder of manifests, of a chart
  swaplet check -f job.yaml
  swaplet check -f manifests/
  helm template my-release ./chart | swaplet check -f -

  # A container that gets its mark only later, or is injected
  swaplet check -f pod.yaml --sidecar istio-proxy

  # Running pods, Jobs and CronJobs of a namespace, or of the whole cluster
  swaplet check --live -n batch
  swaplet check --live -A

  # A gate in CI: exit code 1 if a sidecar would not end, 2 if a manifest cannot be read
  swaplet check -f manifests/ -o json > sidecars.json

  # A step of pre-commit (.pre-commit-config.yaml)
  - repo: local
    hooks:
      - id: swaplet
        name: sidecars end
        language: system
        files: '\\.ya?ml$'
        entry: swaplet check -f

Verdicts:
  Runnable        the exit image has what would be executed: the sidecar ends
  NeedsImage      it ends with an exit image that has one more path:
                  swaplet exit-image push REF --for FILE
  NotSwappable    no exit image ends it
  MarkInvalid     the variable that should mark the sidecar has no effect as it is written
  OnlySidecars    all containers of the pod are sidecars, so nothing would ever end it
  Native          a native sidecar: the kubelet ends it
  NotAJob         the pod restarts its containers always, so it has no end";

/// Say for each sidecar whether the exit image would end it
///
/// A container is a sidecar if its env has KRUISE_TERMINATE_SIDECAR_WHEN_JOB_EXIT=true, or
/// KRUISE_TERMINATE_SIDECAR_WHEN_JOB_EXIT_WITH_IMAGE. Every kind with a pod template is read, and
/// lists.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct CheckArgs {
    /// A manifest, a folder of manifests, or - for standard input (repeatable, and each may take
    /// several)
    #[arg(short, long = "file", value_name = "FILE", num_args = 1.., required_unless_present = "live")]
    file: Vec<PathBuf>,
    /// Look at a cluster: at pods that have not ended, at Jobs and CronJobs
    #[arg(long)]
    live: bool,
    /// The namespace to look at [default: that of the kubeconfig context]
    #[arg(short, long, requires = "live")]
    namespace: Option<String>,
    /// Look at all namespaces
    #[arg(short = 'A', long, requires = "live", conflicts_with = "namespace")]
    all_namespaces: bool,
    /// Take containers of this name for sidecars, marked or not (repeatable)
    #[arg(long, value_name = "NAME")]
    sidecar: Vec<String>,
    /// Do not fail on NeedsImage: the exit image will be pushed with --for, or the controller
    /// derives it (--derived-repository)
    #[arg(long)]
    allow_derived: bool,
    /// How to print: a table, a table with notes, or for programs
    #[arg(short, long, value_enum, default_value_t = Output::Table)]
    output: Output,
    #[command(flatten)]
    cluster: ClusterArgs,
}

impl CheckArgs {
    pub(super) async fn run(self) -> anyhow::Result<ExitCode> {
        let mut report = from_files(&self.file, &self.sidecar);
        if self.live {
            let scope = live::Scope::new(self.namespace, self.all_namespaces);
            match live::templates(self.cluster, scope).await {
                Ok(templates) => report.add_live(&templates, &self.sidecar),
                Err(problem) => report.problems.push(problem),
            }
        }
        for problem in &report.problems {
            eprintln!("error: {problem:#}");
        }
        print(&table::render(&report, self.output)?)?;
        if self.output.is_table() {
            report
                .remarks()
                .iter()
                .for_each(|remark| eprintln!("{remark}"));
        }
        Ok(report.exit_code(self.allow_derived))
    }
}

/// What was found, in the order in which it was read.
#[derive(Default)]
struct Report {
    rows: Vec<Row>,
    templates: usize,
    problems: Vec<anyhow::Error>,
}

fn from_files(files: &[PathBuf], sidecars: &[String]) -> Report {
    let manifests = Manifests::read(files);
    let mut report = Report {
        problems: manifests.problems,
        ..Report::default()
    };
    for document in &manifests.documents {
        for template in PodTemplate::all(&document.object) {
            report.templates += 1;
            report.rows.extend(
                rows::of(&template, sidecars, &StandardPaths)
                    .into_iter()
                    .map(|row| row.from(&document.file)),
            );
        }
    }
    report
}

impl Report {
    /// A pod is shown beside its Job, and a Job beside its CronJob, only where they differ.
    fn add_live(&mut self, templates: &[PodTemplate], sidecars: &[String]) {
        let mut shown = BTreeSet::new();
        for template in templates {
            self.templates += 1;
            for row in rows::of(template, sidecars, &StandardPaths) {
                let owned = template
                    .owner
                    .as_ref()
                    .is_some_and(|(kind, name)| shown.contains(&row.identity(kind, name)));
                shown.insert(row.identity(&template.kind, &template.name));
                if !owned {
                    self.rows.push(row);
                }
            }
        }
    }

    fn exit_code(&self, allow_derived: bool) -> ExitCode {
        let derived = |row: &Row| {
            allow_derived && matches!(row.answer, Answer::Verdict(Verdict::NeedsImage { .. }))
        };
        if !self.problems.is_empty() {
            ExitCode::from(UNREADABLE)
        } else if self.rows.iter().any(|row| !row.is_fine() && !derived(row)) {
            ExitCode::from(NOT_RUNNABLE)
        } else {
            ExitCode::SUCCESS
        }
    }

    fn remarks(&self) -> Vec<String> {
        let mut remarks = Vec::new();
        let native = self.rows.iter().filter(|row| row.could_be_native()).count();
        if self.templates == 0 && self.problems.is_empty() {
            remarks.push("No pod and no pod template found.".to_owned());
        } else if self.rows.is_empty() && self.problems.is_empty() {
            remarks.push(format!("No sidecar in {} pod templates; --sidecar NAME takes unmarked containers for sidecars.", self.templates));
        }
        if native > 0 {
            remarks.push(format!(
                "On ordinary nodes of Kubernetes 1.29 or later, {native} of them could be native sidecars (initContainers with restartPolicy: Always), which need no swap."
            ));
        }
        remarks
    }
}
