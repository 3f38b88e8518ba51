//! `swaplet check`: predicts what a swap would do to each sidecar.

mod hints;
mod judge;
mod live;
pub(super) mod policies;
mod read;
mod report;
mod rows;
pub(super) mod words;

use std::path::PathBuf;
use std::process::ExitCode;

use super::client::{ClusterArgs, plain};
use super::image::HostArgs;
use super::print;
use super::program::table::{counted, json, note, printable, yaml};
use super::rules::{FinishArg, NodeTableArgs, PublicArg, learn_public};
use crate::image::pattern::ImagePattern;
use crate::image::reference::ImageReference;
use clap::builder::PossibleValuesParser;
use clap::{ArgGroup, Args, ValueEnum};
use hints::Hint;
pub(super) use judge::verdict;
use policies::CheckedPolicies;
use report::{Report, github, is_ok, table};
use swaplet_controller::terminate::public::AskPublic;
use swaplet_core::check::scripts::ConfigMaps;
use swaplet_core::cluster::exit_images::ExitImages;
use swaplet_core::cluster::node_table::NodeTable;
use swaplet_core::policies::presets;

/// The exit code if a sidecar would not end, or there are fewer than required.
const NOT_RUNNABLE: u8 = 1;

/// The exit code if something could not be read.
const UNREADABLE: u8 = 2;

/// The variable that CI systems set: notes are not printed there.
const CI: &str = "CI";

const EXAMPLES: &str = "\
Examples:
  # The sidecars of a manifest, of a folder of manifests, of a chart
  swaplet check job.yaml
  swaplet check manifests/
  helm template my-release ./chart | swaplet check -f -
  swaplet check -k overlays/prod

  # A container that gets its mark only later, or is injected
  swaplet check pod.yaml --sidecar istio-proxy

  # What a policy names, and what is injected and known
  swaplet check job.yaml --policy policies/
  swaplet check pod.yaml --preset istio

  # Running pods, Jobs and CronJobs of a namespace, or of the whole cluster
  swaplet check --live -n batch
  swaplet check --live -A

  # A gate in CI: exit code 1 if a sidecar would not end, 2 if a manifest cannot be read
  swaplet check manifests/ -o json > sidecars.json

  # A stricter one: what is only noted fails too, and so do manifests without 3 sidecars
  swaplet check manifests/ --strict --require 3

  # In a workflow of GitHub: shown beside the lines of a pull request
  swaplet check manifests/ -o github

  # A step of pre-commit (.pre-commit-config.yaml)
  - repo: local
    hooks:
      - id: swaplet-check
        name: swaplet check (sidecars of Jobs end)
        language: system
        files: '\\.ya?ml$'
        entry: swaplet check --allow-empty

Verdicts:
  Runnable        the exit image has what would be executed: the sidecar ends
  NeedsImage      it ends with an exit image that has one more path:
                  swaplet exit-image push REF --for FILE
  NotSwappable    no exit image ends it, or its nodes swap none and nothing else may end it
  MarkInvalid     the variable that should mark the sidecar has no effect as it is written
  NoHeadroom      with --finish=never or method Swap: its end would fail the Job by its
                  backoffLimit, or may fail another owner that counts restarts
  NotPublic       with --finish=never or method Swap, under restartPolicy Never: the exit image
                  may need credentials, and its node may refuse it to the pod
  Doubtful        with --finish=never or method Swap: it is not certain that its exit image
                  starts and ends well, so it is not tried on ordinary nodes
  OnlySidecars    all containers of the pod are sidecars, so nothing would ever end it; or they
                  would be by a policy, which does not count there
  ByPhase         its policy says Finish, or the exit image that it names is no image: the
                  phase of the pod is written for it
  LeftAlone       its policy says Leave: it is neither ended nor waited for
  Native          a native sidecar: the kubelet ends it
  NotAJob         the pod restarts its containers always, so it has no end

Exit codes:
  0   each sidecar ends
  1   one does not; with --require or --strict, also if there is less or more than required
  2   something cannot be read, or there is nothing to check, nothing that a --preset or any
      --policy is about (--allow-empty)";

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Output {
    /// For people: what to do stands below each sidecar
    Table,
    /// For people: one line for each sidecar, with all notes
    Wide,
    /// For programs
    Json,
    /// For programs
    Yaml,
    /// Workflow commands of GitHub Actions
    Github,
    /// For code scanning
    Sarif,
}

/// Say for each sidecar whether the exit image would end it
///
/// A container is a sidecar if its env has KRUISE_TERMINATE_SIDECAR_WHEN_JOB_EXIT=true, or
/// KRUISE_TERMINATE_SIDECAR_WHEN_JOB_EXIT_WITH_IMAGE, if the annotation swaplet.io/sidecars of its
/// pod names it, or a SidecarPolicy: of --policy, or with --live of the cluster. Every kind with a pod template is read, and
/// lists. ConfigMaps are read for the scripts in them, if they are there too.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, group = ArgGroup::new("input").required(true).multiple(true))]
pub(super) struct CheckArgs {
    /// A manifest, a folder of manifests with those below it, or - for standard input
    #[arg(value_name = "FILE", group = "input")]
    files: Vec<PathBuf>,
    /// The same, as kubectl takes it (repeatable, and each may take several)
    #[arg(short = 'f', long = "filename", visible_alias = "file", value_name = "FILE", num_args = 1.., group = "input")]
    filename: Vec<PathBuf>,
    /// Accepted for kubectl's habit: folders are always read with those below them
    #[arg(short = 'R', long)]
    recursive: bool,
    /// A folder with a kustomization: what kubectl or kustomize makes of it (repeatable)
    #[arg(short = 'k', long, value_name = "FOLDER", group = "input")]
    kustomize: Vec<PathBuf>,
    /// Check a cluster: pods that have not ended, Jobs and CronJobs, and nodes
    #[arg(long, group = "input")]
    live: bool,
    /// The namespace to check [default: that of the kubeconfig context], and that of manifests
    /// without one
    #[arg(short, long)]
    namespace: Option<String>,
    /// Check all namespaces
    #[arg(short = 'A', long, requires = "live", conflicts_with = "namespace")]
    all_namespaces: bool,
    /// Count containers of this name as sidecars, marked or not (repeatable); one that no container
    /// has is an error
    #[arg(long, value_name = "NAME")]
    sidecar: Vec<String>,
    /// Count containers as sidecars that the SidecarPolicies and NamespacedSidecarPolicies of a
    /// file, or of a folder, name (repeatable); one that matches nothing is noted, and if none
    /// matches anything, that is an error. Manifests of namespaces give their labels
    #[arg(long, value_name = "FILE")]
    policy: Vec<PathBuf>,
    /// Count containers of a well-known sidecar as sidecars, as a policy with this preset would
    /// (repeatable)
    #[arg(long, value_name = "NAME", value_parser = preset_names())]
    preset: Vec<String>,
    /// The exit images that policies may name, as the controller will be started [default: they
    /// are not checked]
    #[arg(long, value_name = "IMAGE,...", env = "SWAPLET_EXIT_IMAGES", value_delimiter = ',', value_parser = ImagePattern::parse)]
    exit_images: Vec<ImagePattern>,
    /// The exit image that the controller will write: its registry is asked once, without
    /// credentials, whether nodes can pull it for every pod [default: none is asked]
    #[arg(long, value_name = "IMAGE", env = "SWAPLET_EXIT_IMAGE", value_parser = ImageReference::parse)]
    exit_image: Option<ImageReference>,
    /// As the controller will be started: whether nodes can pull the exit images without
    /// credentials
    #[arg(hide_short_help = true, long, value_enum, default_value_t = PublicArg::Auto, env = "SWAPLET_EXIT_IMAGE_IS_PUBLIC")]
    exit_image_is_public: PublicArg,
    #[command(flatten)]
    hosts: HostArgs,
    /// Do not fail on NeedsImage: the exit image will be pushed with --for, or the controller
    /// derives it (--derived-repository)
    #[arg(long)]
    allow_derived: bool,
    /// Do not fail where there is nothing to check: no manifest, or no container of a --sidecar
    #[arg(long)]
    allow_empty: bool,
    /// Fail if fewer sidecars than this end
    #[arg(long, value_name = "N")]
    require: Option<usize>,
    /// Fail on notes too, and if there is no sidecar at all
    #[arg(long)]
    strict: bool,
    /// As the controller will be started: whether it may write the phase of a pod where a swap does
    /// not fit into the backoffLimit of its Job
    #[arg(long, value_enum, default_value_t = FinishArg::Allowed, env = "SWAPLET_FINISH")]
    finish: FinishArg,
    /// Treat all pods as pods of virtual nodes, and note Jobs whose finished pods cost there
    #[arg(long)]
    virtual_nodes: bool,
    #[command(flatten)]
    nodes: NodeTableArgs,
    /// How to print
    #[arg(short, long, value_enum, default_value_t = Output::Table)]
    output: Output,
    #[command(flatten)]
    cluster: ClusterArgs,
}

impl CheckArgs {
    pub(super) async fn run(mut self) -> anyhow::Result<ExitCode> {
        self.files.append(&mut self.filename);
        let exit_image = self.exit_image.clone();
        let listed = self.exit_images.clone();
        let ask = self.hosts.ask_public();
        let (pulled, unclear) =
            ask_pulled(exit_image.clone(), self.exit_image_is_public, &ask).await;
        let mut settings = Settings {
            pulled,
            sidecars: self.sidecar.clone(),
            allow_derived: self.allow_derived,
            finish: self.finish == FinishArg::Allowed,
            namespace: self.namespace.as_deref().map(Into::into),
            virtual_nodes: self.virtual_nodes,
            exit_images: (!listed.is_empty()).then(|| ExitImages::new(exit_image.clone(), listed)),
            exit_image,
            node_table: self.nodes.table()?,
        };
        let (policies, problems) =
            CheckedPolicies::read(&self.policy, &self.preset, settings.namespace.as_deref());
        let mut report = self.read_files(policies, &settings);
        report.problems.extend(problems);
        report
            .hints
            .extend(unclear.into_iter().map(Hint::of_cluster));
        if self.live {
            let read = live::read(&self, &mut report, &mut settings).await;
            report.problems.extend(read.err());
        }
        if !self.allow_empty && report.problems.is_empty() {
            report.look_for(&settings.sidecars);
        }
        report.look_at_policies(&settings, self.allow_empty);
        self.print(&report, &settings)?;
        Ok(self.exit_code(&report, &settings))
    }

    fn read_files(&self, mut policies: CheckedPolicies, settings: &Settings) -> Report {
        let mut manifests = read::manifests(&self.files, self.allow_empty);
        for folder in &self.kustomize {
            let made = read::kustomized(folder, self.allow_empty);
            manifests.documents.extend(made.documents);
            manifests.problems.extend(made.problems);
            manifests.notes.extend(made.notes);
        }
        let namespace = settings.namespace.as_deref().unwrap_or_default();
        let mut maps = ConfigMaps::default();
        for document in &manifests.documents {
            policies.add_namespace(&document.object);
            maps.add(&document.object, namespace);
        }
        let mut report = Report::new(manifests.problems, policies);
        let notes = manifests.notes.into_iter();
        report.hints.extend(notes.map(Hint::of_cluster));
        for document in &manifests.documents {
            report.add_file(document, &maps, settings);
        }
        report
    }

    /// Prints the report on standard output, and messages on standard error.
    fn print(&self, report: &Report, settings: &Settings) -> anyhow::Result<()> {
        for problem in &report.problems {
            say!("error: {}", printable(&format!("{problem:#}")));
        }
        let is_table = matches!(self.output, Output::Table | Output::Wide);
        let text = match self.output {
            Output::Table => table::table(report, &self.files, false),
            Output::Wide => table::table(report, &self.files, true),
            Output::Github => github::render(report, settings),
            Output::Sarif => github::sarif(report, settings),
            Output::Json => json(&table::value(report, settings)),
            Output::Yaml => yaml(&table::value(report, settings))?,
        };
        print(&text)?;
        if is_table {
            for hint in &report.hints {
                let file = hint.file().map(|file| format!("{file}: "));
                note(&(file.unwrap_or_default() + &hint.words()));
            }
        }
        let summary = report.summary(settings);
        if is_table && !report.rows.is_empty() {
            print(&format!("{summary}\n"))?;
        } else if report.templates > 0 || report.problems.is_empty() {
            say!("{summary}");
        }
        if is_table
            && std::env::var_os(CI).is_none()
            && let Some(native) = report.native()
        {
            say!("{native}");
        }
        Ok(())
    }

    /// Returns the exit code; prints what is missing if that alone is the fault.
    fn exit_code(&self, report: &Report, settings: &Settings) -> ExitCode {
        if !report.problems.is_empty() {
            return ExitCode::from(UNREADABLE);
        }
        if report.rows.iter().any(|row| !is_ok(row, settings)) {
            return ExitCode::from(NOT_RUNNABLE);
        }
        let (ends, ..) = report.ends(settings);
        let require = self.require.or(self.strict.then_some(1));
        if let Some(least) = require.filter(|least| ends < *least) {
            let flag = self.require.map_or("--strict", |_| "--require");
            say!(
                "error: {flag} requires {least} or more, and {} would end",
                counted(ends, "sidecar")
            );
            return ExitCode::from(NOT_RUNNABLE);
        }
        let noted =
            !report.hints.is_empty() || report.rows.iter().any(|row| !row.warnings.is_empty());
        if self.strict && noted {
            say!("error: --strict allows no notes: correct what is noted above");
            return ExitCode::from(NOT_RUNNABLE);
        }
        ExitCode::SUCCESS
    }
}

/// Returns what is known of whether exit images can be pulled without credentials, and a hint if the
/// registry of this one gives no clear answer; `None` if no image is named and nothing is said.
async fn ask_pulled(
    image: Option<ImageReference>,
    said: PublicArg,
    ask: &AskPublic,
) -> (Option<ExitImages>, Vec<String>) {
    let is_asked = image.is_some() && said == PublicArg::Auto;
    let mut exit_images = ExitImages::new(image, Vec::new());
    if let Some(public) = said.said() {
        return (Some(exit_images.said_public(public)), Vec::new());
    }
    let unclear = learn_public(&mut exit_images, ask).await;
    (is_asked.then_some(exit_images), unclear)
}

/// Parses the name of a preset.
pub(super) fn preset_names() -> PossibleValuesParser {
    PossibleValuesParser::new(presets::all().iter().map(|preset| &*preset.name))
}

// The settings of the check, apart from its input.

struct Settings {
    /// The names of containers that count as sidecars, marked or not.
    pub sidecars: Vec<String>,
    /// True if NeedsImage is not a fault.
    pub allow_derived: bool,
    /// True if the controller may write the phase of a pod where swaps do not fit.
    pub finish: bool,
    /// The namespace of objects that have none.
    pub namespace: Option<Box<str>>,
    /// True if all pods are declared to run on virtual nodes.
    pub virtual_nodes: bool,
    /// The exit images that policies may name, if they are given.
    pub exit_images: Option<ExitImages>,
    pub exit_image: Option<ImageReference>,
    /// The exit images that may need credentials to be pulled; `None` if nobody names one.
    pub pulled: Option<ExitImages>,
    pub node_table: NodeTable,
}
