//! `swaplet warm`: pulls images to nodes before pods need them.

mod job;
mod results;
mod status;

use std::collections::{BTreeMap, BTreeSet};
use std::process::ExitCode;
use std::time::Duration;

use self::results::{Progress, Results};
use self::status::StatusArgs;
use super::client::{ClusterArgs, named_or_own};
use super::duration::seconds;
use super::exit::{FAILED, INTERRUPTED};
use super::print;
use super::program::process::stopped;
use super::program::table::Output;
use super::rules::NodeTableArgs;
use super::status::installation::{Found, Naming};
use crate::image::ImageReference;
use clap::{ArgAction, Args, Subcommand};
use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};
use jiff::Timestamp;
use kube::Client;
use swaplet_controller::frame::clock::time_of_day;
use swaplet_controller::warm::direct::{Job, warm};
use swaplet_controller::warm::write::Warmers;
use swaplet_core::objects::values::short_digest::short_digest;
use swaplet_core::warm::pull_job::object::PodWishes;
use swaplet_core::warm::warming::Limits;

/// The longest lifetime of a pod in seconds, so that pods of a killed run end after a day.
const LONGEST_LIFE: u64 = 86_400;

const EXAMPLES: &str = "\
Examples:
  # Once: push the park image, whose program the warmer pods run
  swaplet park-image push registry.example/swaplet/park:v1
  export SWAPLET_PARK_IMAGE=registry.example/swaplet/park:v1

  # Two images to every node; five nodes pull at a time
  swaplet warm registry.example/app:v7 registry.example/proxy:1.2

  # Only to some nodes
  swaplet warm registry.example/app:v7 -l node-pool=batch
  swaplet warm registry.example/app:v7 --node worker-1 --node worker-2

  # In a namespace of its own, with a pull secret of that namespace
  kubectl apply -f deploy/warm.yaml
  swaplet warm registry.example/private:v1 -n swaplet-warm --pull-secret registry-login

  # Leave it to `swaplet run --warm`, or to OpenKruise, and do not wait
  swaplet warm registry.example/app:v7 --wait=false

  # What is known to be on which node, and how it was proved
  swaplet warm status --help

  # One row for each image and node; everything, for programs
  swaplet warm registry.example/app:v7 -o wide
  swaplet warm registry.example/app:v7 -o json | jq '.results[] | select(.result == \"Failed\")'

Each node gets one small pod (1m CPU, 4Mi), whose container runs only swaplet's park program: \
nothing of the pulled images is ever run, so images without a shell, or with any user and \
entrypoint, work as well. Their containers need the pod security level `restricted` only. An image \
counts as warm when the status of the pod proves it. Virtual nodes keep no images for later pods: \
they are skipped, with the reason.

A failed try is repeated after 12 s, 24 s and so on while the other images continue, until \
--backoff-limit is reached. When the command ends, or is interrupted by Ctrl-C, the pods are \
deleted; those of a run that was killed stay for a day at most, or until `kubectl delete pods -l \
swaplet.io/warm`. The kubelet's garbage collection may remove an image that no pod uses when the \
disk of a node is nearly full.

You need to list and watch nodes, and in the namespace to create, list, watch, patch and delete \
pods; the right to list and watch events there is only for pull times and sizes. deploy/warm.yaml \
has a role with these rights. With --wait=false you only need to create ImageListPullJobs: \
deploy/pull-jobs.yaml has a role for that.

Exit codes: 0 every image is on every node that can be warmed; 1 an image is missing on a node, or \
no node can be warmed; 2 wrong usage, no such node, or the cluster cannot be used; 130 interrupted.";

#[derive(Debug, Args)]
struct NodeArgs {
    /// Only nodes with these labels
    #[arg(
        short = 'l',
        long,
        value_name = "SELECTOR",
        default_value = "",
        hide_default_value = true
    )]
    selector: String,
    /// Only this node; may be given several times [default: all nodes]
    #[arg(long = "node", value_name = "NODE")]
    nodes: Vec<String>,
}

/// Pull images to nodes before pods need them
///
/// Works with your own rights, without a daemon on the nodes and without anything installed in the
/// cluster.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub(super) struct WarmArgs {
    #[command(subcommand)]
    command: Option<WarmCommand>,
    /// The images, in the order in which they are pulled
    #[arg(value_name = "IMAGE", required = true, value_parser = ImageReference::parse)]
    images: Vec<ImageReference>,
    /// The park image, as `swaplet park-image push` has pushed it; nodes must be able to pull it
    /// [default: that of the installation]
    #[arg(long, value_name = "IMAGE", env = "SWAPLET_PARK_IMAGE", value_parser = ImageReference::parse)]
    park_image: Option<ImageReference>,
    #[command(flatten)]
    on: NodeArgs,
    /// The namespace of the warmer pods [default: that of the context]
    #[arg(short, long)]
    namespace: Option<String>,
    /// How many nodes pull at a time
    #[arg(long, value_name = "NODES", default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..=1000))]
    parallelism: u16,
    /// How long one try of an image may take on a node
    #[arg(long, value_name = "DURATION", default_value = "10m", value_parser = seconds(1..=86_400))]
    timeout: u32,
    /// How many further tries an image gets on a node; the same for pods of a node that get lost
    #[arg(long, value_name = "TRIES", default_value_t = 3, value_parser = clap::value_parser!(u32).range(0..=100))]
    backoff_limit: u32,
    /// A Secret of the namespace that the kubelet pulls with; may be given several times. It is
    /// named to the kubelet, and never read
    #[arg(long = "pull-secret", value_name = "SECRET")]
    pull_secrets: Vec<String>,
    /// Whether to pull from here and wait; false creates an ImageListPullJob, which `swaplet run
    /// --warm` or OpenKruise carries out [default: true]
    #[arg(long, value_name = "true|false", num_args = 0..=1, require_equals = true, default_missing_value = "true", action = ArgAction::Set)]
    wait: Option<bool>,
    #[command(flatten)]
    table: NodeTableArgs,
    /// How to print the results: one row for each image, one for each image and node, or for
    /// programs
    #[arg(short, long, value_enum, default_value_t = Output::Table)]
    output: Output,
    #[command(flatten)]
    cluster: ClusterArgs,
}

/// What else can be done about warm images.
#[derive(Debug, Subcommand)]
enum WarmCommand {
    Status(StatusArgs),
}

impl WarmArgs {
    pub(super) async fn run(self) -> anyhow::Result<ExitCode> {
        if let Some(WarmCommand::Status(args)) = self.command {
            return args.run().await;
        }
        let images = each_once(&self.images);
        let run = run_id(time_of_day(), std::process::id());
        if self.wait == Some(false) {
            let client = self.cluster.client().await?;
            let namespace = named_or_own(&client, self.namespace.as_deref());
            print(&job::create(client, &namespace, &format!("warm-{run}"), &images, &self).await?)?;
            return Ok(ExitCode::SUCCESS);
        }
        self.warm(images, run).await
    }

    /// Pulls the images, with progress, until all have a result or Ctrl-C.
    async fn warm(self, images: Vec<Box<str>>, run: Box<str>) -> anyhow::Result<ExitCode> {
        let output = self.output;
        let mut progress = Progress::new(images.len());
        let (client, job) = self.job(images, run).await?;
        let stopped = stopped()?;
        let interrupted = async {
            stopped.await;
            say!("stopping: the warmer pods are being deleted ...");
        };
        let finished = warm(client, job, |news| progress.show(&news), interrupted).await;
        drop(progress);
        let finished = finished?;
        let results = Results::of(&finished.warming);
        print(&results.show(output)?)?;
        Ok(reported(&results, finished.interrupted, finished.is_clean))
    }

    /// Returns the job: the images to pull, where and how.
    async fn job(self, images: Vec<Box<str>>, run: Box<str>) -> anyhow::Result<(Client, Job)> {
        self.table.table()?;
        let limits = Limits {
            parallelism: self.parallelism.into(),
            timeout: Duration::from_secs(self.timeout.into()),
            backoff_limit: self.backoff_limit,
            ask_again: None,
        };
        // The watches below would retry a silent server forever.
        let client = self.cluster.client_that_answers().await?;
        let namespace = named_or_own(&client, self.namespace.as_deref());
        let park_image = self.park_image.as_ref();
        let are_given = park_image.is_some();
        let naming = Naming::Flags("--park-image and --node-classes");
        let found = Found::for_images(&client, naming, &namespace, are_given, &self.table).await?;
        let park_image = found.image(park_image, "park-image")?;
        let table = self.table.table_or(&found)?;
        let pull_secrets = self.pull_secrets.iter().map(|name| name.as_str().into());
        let warmers = Warmers {
            namespace: namespace.into(),
            run,
            park_image: park_image.as_str().into(),
            job: None,
            owner: None,
            wishes: PodWishes {
                pull_secrets: pull_secrets.collect(),
                ..PodWishes::default()
            },
            life_seconds: life_seconds(&limits, images.len()),
        };
        let job = Job {
            images,
            selector: self.on.selector,
            names: self.on.nodes.into_iter().collect(),
            limits,
            warmers,
            table,
        };
        Ok((client, job))
    }
}

/// Prints on standard error what the table lacks; returns the exit code.
fn reported(results: &Results, interrupted: bool, is_clean: bool) -> ExitCode {
    if let Some(rate) = results.rate() {
        say!("{rate}");
    }
    if interrupted {
        let pods = if is_clean {
            "the warmer pods are deleted"
        } else {
            "some warmer pods are left"
        };
        say!(
            "interrupted: {pods}; no result for {} of {} images on nodes",
            results.open(),
            results.len()
        );
        return ExitCode::from(INTERRUPTED);
    }
    results.complaint().map_or(ExitCode::SUCCESS, |complaint| {
        say!("error: {complaint}");
        ExitCode::from(FAILED)
    })
}

/// Returns the images as they were written, but each only once.
fn each_once(images: &[ImageReference]) -> Vec<Box<str>> {
    let mut seen = BTreeSet::new();
    images
        .iter()
        .filter(|image| seen.insert(image.normalized()))
        .map(|image| image.as_str().into())
        .collect()
}

/// Returns the longest time that the pod may be needed: every image may take every try and backoff.
fn life_seconds(limits: &Limits, images: usize) -> u64 {
    const LONGEST_WAIT: u64 = 330;
    let tries = u64::from(limits.backoff_limit) + 1;
    let each = tries.saturating_mul(limits.timeout.as_secs() + LONGEST_WAIT);
    each.saturating_mul(images.try_into().unwrap_or(u64::MAX))
        .min(LONGEST_LIFE)
}

/// Returns a unique id: two runs at a time must not take each other's pods for their own.
fn run_id(now: Timestamp, process: u32) -> Box<str> {
    short_digest(format!("{now} {process}"), 4).into()
}

// The progress of `swaplet warm` on a terminal: a bar for each node in progress, and one for all.

/// The interval at which the bar for all is redrawn, with the elapsed time.
const TICK: Duration = Duration::from_millis(200);

pub struct Bars {
    lines: MultiProgress,
    all: ProgressBar,
    nodes: BTreeMap<Box<str>, ProgressBar>,
    images: u64,
}

impl Bars {
    /// Returns bars for this many images on each node.
    pub fn new(images: usize, target: ProgressDrawTarget) -> Self {
        let lines = MultiProgress::with_draw_target(target);
        let all = lines
            .add(ProgressBar::no_length().with_style(style("{elapsed} [{bar:30}] {pos}/{len}")));
        all.enable_steady_tick(TICK);
        Self {
            lines,
            all,
            nodes: BTreeMap::new(),
            images: images.try_into().unwrap_or(u64::MAX),
        }
    }

    /// Sets the number of nodes.
    pub fn observe_nodes(&self, nodes: usize) {
        self.all.set_length(
            self.images
                .saturating_mul(nodes.try_into().unwrap_or(u64::MAX)),
        );
    }

    /// Shows that a node starts to pull an image.
    pub fn begun(&mut self, node: &str, image: &str) {
        let new = || {
            let bar = ProgressBar::new(self.images)
                .with_style(style("{prefix} [{bar:20}] {pos}/{len} {msg}"))
                .with_prefix(node.to_owned());
            self.lines.insert_before(&self.all, bar)
        };
        self.nodes
            .entry(node.into())
            .or_insert_with(new)
            .set_message(image.to_owned());
    }

    /// Counts an image of a node that has reached its final state.
    pub fn ended(&mut self, node: &str) {
        self.all.inc(1);
        let Some(bar) = self.nodes.get(node) else {
            return;
        };
        bar.inc(1);
        if bar.position() == self.images {
            bar.finish_and_clear();
            self.lines.remove(bar);
        }
    }

    /// Prints a line that stays, above the bars.
    pub fn line(&self, line: &str) {
        // A terminal that is gone reads nothing any more, and the work continues.
        let _ = self.lines.println(line);
    }
}

impl Drop for Bars {
    fn drop(&mut self) {
        self.nodes.values().for_each(ProgressBar::finish_and_clear);
        self.all.finish_and_clear();
    }
}

/// Returns the style of a template; an invalid template gets the default style of the library.
fn style(template: &str) -> ProgressStyle {
    let style =
        ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
    style.progress_chars("=> ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_that_is_written_twice_is_pulled_once() {
        let images = ["busybox", "docker.io/library/busybox:latest", "busybox:1"]
            .map(|image| ImageReference::parse(image).unwrap());
        assert_eq!(each_once(&images), ["busybox".into(), "busybox:1".into()]);
    }

    #[test]
    fn pods_of_a_killed_run_end_within_a_day() {
        let limits = Limits {
            parallelism: 1,
            timeout: Duration::from_secs(60),
            backoff_limit: 1,
            ask_again: None,
        };
        assert_eq!(
            (life_seconds(&limits, 2), life_seconds(&limits, usize::MAX)),
            (2 * 2 * 390, LONGEST_LIFE)
        );
    }

    #[test]
    fn two_runs_have_two_ids() {
        assert_ne!(
            run_id(Timestamp::UNIX_EPOCH, 1),
            run_id(Timestamp::UNIX_EPOCH, 2)
        );
        assert!(run_id(Timestamp::UNIX_EPOCH, 1).len() == 8);
    }
}

#[cfg(test)]
mod bars_tests {
    use std::thread::sleep;

    use indicatif::InMemoryTerm;

    use super::*;

    #[test]
    fn each_node_that_is_under_way_has_a_bar_and_nothing_stays_of_it() {
        let terminal = InMemoryTerm::new(10, 80);
        let mut bars = Bars::new(
            2,
            ProgressDrawTarget::term_like_with_hz(Box::new(terminal.clone()), 255),
        );
        bars.observe_nodes(3);
        bars.begun("node-1", "app:1");
        bars.begun("node-2", "app:1");
        bars.ended("node-1");
        bars.begun("node-1", "proxy:1");
        bars.line("[1/6] node-1: app:1 pulled in 1.0 s");
        let shown = terminal.contents();
        let lines: Vec<_> = shown.lines().collect();
        assert_eq!(lines[0], "[1/6] node-1: app:1 pulled in 1.0 s", "{shown}");
        assert_eq!(
            lines[1..3],
            [
                "node-1 [==========>         ] 1/2 proxy:1",
                "node-2 [                    ] 0/2 app:1"
            ],
            "{shown}"
        );
        assert_eq!(lines.len(), 4, "{shown}");
        let is_shown = |_| {
            sleep(TICK);
            terminal.contents().contains("] 1/6")
        };
        assert!((0..300).any(is_shown), "{}", terminal.contents());
        bars.ended("node-1");
        bars.line("[2/6] node-1: proxy:1 was there");
        assert!(
            !terminal.contents().contains("node-1 ["),
            "{}",
            terminal.contents()
        );
        drop(bars);
        assert_eq!(
            terminal.contents(),
            "[1/6] node-1: app:1 pulled in 1.0 s\n[2/6] node-1: proxy:1 was there"
        );
    }
}
