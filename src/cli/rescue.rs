//! `swaplet rescue`: ends the stuck Job pods of a cluster once, without anything installed.

mod progress;
mod rows;

use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, anyhow};
use clap::Args;
use kube::Client;
use prometheus_client::registry::Registry;
use swaplet_controller::cluster::rules::Rules;
use swaplet_controller::frame::lease::Leadership;
use swaplet_controller::frame::list::words;
use swaplet_controller::frame::metrics::Metrics;
use swaplet_controller::frame::serve::Health;
use swaplet_controller::run::{CONCURRENCY, Settings, TimeOfDay, WRITE_SECONDS, run};
use swaplet_controller::terminate::selection::Selection;
use swaplet_controller::terminate::snapshot::{Scope, Snapshot};
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, sleep};

use super::client::ClusterArgs;
use super::image::registry_args::RegistryArgs;
use super::rules::{ASSUMED_EXIT_IMAGE, RulesArgs};
use super::run::{LogFormat, instance, start_log, stopped};
use super::table::Output;
use super::{print, slowly};
use crate::image::reference::ImageReference;
use progress::Rescue;
use rows::Stuck;

/// A pod is left, or has ended otherwise than its main containers.
const SOME_LEFT: u8 = 1;
/// Nothing could be done: wrong usage, or the pods cannot be read.
const CANNOT: u8 = 2;

const EXAMPLES: &str = "\
Examples:
  # What is stuck in the whole cluster, since when, and what would be done; nothing is written
  swaplet rescue --dry-run -A

  # End the stuck pods of a namespace
  swaplet exit-image push registry.example/swaplet/exit:v1
  swaplet rescue -n batch --exit-image registry.example/swaplet/exit:v1

  # Without any exit image: by writing the phase of the pods
  swaplet rescue -n batch --prefer=finish

A pod is stuck if its main containers are done and a container with KRUISE_TERMINATE_SIDECAR_WHEN_JOB_EXIT=true has not ended. Those that
are stuck now are listed first; then the controller of `swaplet run` runs here, restricted to exactly these, until all have ended, until
only those are left that somebody has to mend, or until the timeout. Pods that become stuck meanwhile are left alone: call it again, or
run the controller.

Your own rights are enough: list, watch and patch pods, patch pods/status (not with --finish=never), list and watch jobs.batch (for pods
of Jobs under OnFailure). Without list and watch of nodes each counts as unknown, and without create of events.events.k8s.io no Event is
left on the pods. Ctrl-C stops after the writes that are under way; nothing is left behind, and the next call goes on.

Where a swaplet controller runs, it ends these pods by itself, and `swaplet explain` says what it waits for. Both together never hit the
wrong pod, for every write is guarded; but neither knows what the other one is about to swap, so for Jobs under OnFailure let only one of
them work at a time.

Exit codes: 0 all have ended, or --dry-run has listed; 1 some are left, each with its reason, or have ended Failed although their main
containers succeeded; 2 wrong usage, or the pods cannot be read.";

/// End the Job pods that are stuck now, once, without installing anything
///
/// Lists the pods whose main containers are done and whose sidecars still run, and ends them by the
/// same decisions as `swaplet run`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct RescueArgs {
    /// Only list the stuck pods and what would be done
    #[arg(long)]
    dry_run: bool,
    /// Only pods of this namespace [default: that of the context]
    #[arg(short, long)]
    namespace: Option<String>,
    /// Pods of all namespaces
    #[arg(short = 'A', long, conflicts_with = "namespace")]
    all_namespaces: bool,
    /// Seconds after which those are given up that have not ended
    #[arg(long, value_name = "SECONDS", default_value_t = 300, value_parser = clap::value_parser!(u32).range(1..))]
    timeout: u32,
    #[command(flatten)]
    rules: RulesArgs,
    /// The namespace of the ConfigMap swaplet-node-verdicts, which is only read [default: it is
    /// looked for in all]
    #[arg(long, value_name = "NAMESPACE", env = "SWAPLET_STATE_NAMESPACE")]
    state_namespace: Option<String>,
    /// How to print the pods
    #[arg(short, long, value_enum, default_value_t = Output::Table)]
    output: Output,
    #[command(flatten)]
    registry: RegistryArgs,
    #[command(flatten)]
    cluster: ClusterArgs,
}

impl RescueArgs {
    pub(super) async fn run(self) -> anyhow::Result<ExitCode> {
        if std::env::var_os("RUST_LOG").is_some() {
            start_log(LogFormat::Text);
        }
        self.rescue().await.or_else(|error| {
            eprintln!("error: {error:#}");
            Ok(ExitCode::from(CANNOT))
        })
    }

    async fn rescue(self) -> anyhow::Result<ExitCode> {
        let Self {
            dry_run,
            namespace,
            all_namespaces,
            timeout,
            mut rules,
            state_namespace,
            output,
            registry,
            cluster,
        } = self;
        if dry_run && rules.needs_exit_image() {
            rules.assume_exit_image(ImageReference::parse(ASSUMED_EXIT_IMAGE)?);
            remark(&format!(
                "no --exit-image is given: one with the standard paths is assumed, and called {ASSUMED_EXIT_IMAGE} here"
            ));
        }
        let rules = rules.rules()?;
        let client = cluster.client().await?;
        let namespace = (!all_namespaces)
            .then(|| namespace.unwrap_or_else(|| client.default_namespace().to_owned()));
        let scope = Scope {
            namespace,
            state_namespace,
        };
        let (snapshot, stuck) = look(&client, &rules, &scope).await?;
        if dry_run || stuck.is_empty() {
            print(&rows::listed(&stuck, output, snapshot.taken_at())?)?;
            return Ok(ExitCode::SUCCESS);
        }
        let (progress, news) = mpsc::unbounded_channel();
        let selection = Selection {
            pods: stuck.iter().map(|stuck| stuck.pod.uid.clone()).collect(),
            kept: snapshot.kept().clone(),
            progress,
        };
        let settings = Settings {
            push: registry.push(&rules),
            ..settings(scope.namespace, rules, selection)
        };
        let rescue = work(
            client,
            settings,
            Rescue::new(stuck, news),
            Duration::from_secs(timeout.into()),
        )
        .await?;
        print(&rescue.table(output, snapshot.taken_at())?)?;
        Ok(if rescue.all_well() {
            ExitCode::SUCCESS
        } else {
            ExitCode::from(SOME_LEFT)
        })
    }
}

/// A controller that ends the sidecars of these pods, and does nothing else.
fn settings(namespace: Option<String>, rules: Rules, selection: Selection) -> Settings {
    Settings {
        namespaces: namespace.into_iter().collect(),
        push: None,
        rules,
        concurrency: CONCURRENCY.into(),
        write_deadline: Duration::from_secs(WRITE_SECONDS.into()),
        instance: instance(),
        restart: None,
        warm: None,
        state_namespace: None,
        predownload: false,
        sidecar_policies: false,
        time_of_day: TimeOfDay::default(),
        leadership: Leadership::undisputed(),
        selection: Some(selection),
    }
}

async fn look(
    client: &Client,
    rules: &Rules,
    scope: &Scope,
) -> anyhow::Result<(Snapshot, Vec<Stuck>)> {
    let place = scope.namespace.as_ref().map_or_else(
        || "all namespaces".to_owned(),
        |namespace| format!("namespace {namespace}"),
    );
    let taken = slowly(
        &format!("reading the pods of {place}"),
        Snapshot::take(client, rules.clone(), scope),
    )
    .await;
    let hint = if scope.namespace.is_none() {
        "; -n NAMESPACE needs the right for one namespace only"
    } else {
        ""
    };
    let snapshot = taken
        .map_err(|error| anyhow!("cannot list the pods of {place}: {}{hint}", words(&error)))?;
    let stuck = Stuck::all(&snapshot);
    snapshot.remarks().iter().for_each(|words| remark(words));
    if stuck.is_empty() {
        eprintln!("No pod of {place} waits for its sidecars.");
    }
    if stuck.iter().any(|stuck| stuck.said) {
        remark(
            "swaplet has written Events about some of these pods: where a controller still runs, swaplet explain says what it waits for",
        );
    }
    Ok((snapshot, stuck))
}

fn remark(words: &str) {
    eprintln!("note: {words}");
}

/// Runs the controller until there is nothing more to hope for.
async fn work(
    client: Client,
    settings: Settings,
    mut rescue: Rescue,
    patience: Duration,
) -> anyhow::Result<Rescue> {
    let (stop, ended) = oneshot::channel::<()>();
    let metrics = Metrics::register(&mut Registry::default());
    let mut controller = tokio::spawn(run(client, settings, metrics, Health::default(), async {
        // Dropped or sent, it says the same.
        let _ = ended.await;
    }));
    let (start, interrupted) = (Instant::now(), stopped()?);
    tokio::pin!(interrupted);
    let timeout = sleep(patience);
    tokio::pin!(timeout);
    while rescue.hopes() {
        tokio::select! {
            () = rescue.next() => {}
            () = &mut timeout => {
                eprintln!("giving up after {} s", patience.as_secs());
                break;
            }
            () = &mut interrupted => {
                eprintln!("stopping: what is being written is waited for, {WRITE_SECONDS} s at most");
                break;
            }
            died = &mut controller => return Err(died?.err().map_or_else(|| anyhow!("the controller has stopped"), Into::into)),
        }
    }
    drop(stop);
    controller.await?.context("while stopping")?;
    rescue.rest();
    eprintln!(
        "{} of {} pods have ended, in {} s",
        rescue.ended(),
        rescue.len(),
        start.elapsed().as_secs()
    );
    Ok(rescue)
}
