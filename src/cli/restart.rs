//! `swaplet restart`: restarts containers of running pods.

mod answer;
mod group;
mod member;
pub(super) mod parked;
mod plan;
mod results;
mod roll;
mod target;
mod way;

use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, bail};
use clap::{ArgAction, Args};
use kube::Client;
use swaplet_controller::frame::clock::time_of_day;
use swaplet_controller::frame::connection::discovery::Discovery;
use swaplet_controller::restart::on_config::disruption_budgets::DisruptionBudgets;
use swaplet_core::objects::recreate_request::PLURAL;
use swaplet_core::restart::rollout::Limit;

use super::client::ClusterArgs;
use super::exit::{FAILED, INTERRUPTED};
use super::print;
use super::program::process::stopped;
use super::program::table::Output;
use group::Group;
use member::{Member, Outcome, State};
use plan::Plan;
use roll::{Roll, Settings};
use target::Target;
use way::Way;
use way::asked::Asked;
use way::direct::Direct;
use way::requests::Requests;
use way::strategy::StrategyArgs;

const EXAMPLES: &str = "\
Examples:
  # One container of a pod; the pod stays, with its node, address, volumes and other containers
  swaplet restart web-0 -c app

  # Two containers, one after the other, each followed until it is ready for 10 seconds
  swaplet restart pod/web-0 -c app,proxy --ordered --min-started-seconds 10

  # The same container of all pods of a workload, a quarter of them at a time
  swaplet restart deploy/web -c app --max-unavailable 25%
  swaplet restart -l app=web -n shop -c app

  # What would be done, and what prevents it
  swaplet restart sts/db -c exporter --dry-run

  # Create the request and return; check later
  swaplet restart web-0 -c app --wait=false
  kubectl get crr

How: each pod gets a ContainerRecreateRequest (apps.kruise.io/v1alpha1), which `swaplet run \
--restart` carries out, or, on nodes with its daemon, OpenKruise. It is deleted an hour after it \
was completed, and goes with its pod. Where the cluster has no such requests, or with --direct, \
this program does what `swaplet run --restart` does, with your own rights: it gives the container \
another spelling of the same image, with the digest that its node reports. That needs the right to \
get, list and patch pods; without the right to list nodes, nothing risky is done under \
restartPolicy Never.

Order: pods that are not ready first, then by name; those of a StatefulSet from the highest \
ordinal down. No ready pod is touched while --max-unavailable pods are unavailable, or while a \
PodDisruptionBudget allows no disruption. A percentage is rounded as Kubernetes does: up for a \
StatefulSet or DaemonSet, otherwise down, and never to 0.

Ctrl-C: requests that no controller has begun are deleted; those in progress continue, and are \
named. Without requests, nothing more is changed, and what has been changed is named with the \
command to undo it.

Exit codes:
  0    all pods were restarted (with --wait=false: requested)
  1    some were not
  2    nothing was done: bad usage, no such pod or container, no access
  130  interrupted";

/// Restart single containers of running pods
///
/// TARGET is a pod (NAME or pod/NAME; several are one after another), or the workload whose pods it
/// is: deploy/NAME, sts/NAME, ds/NAME.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct RestartArgs {
    /// What to restart
    #[arg(value_name = "TARGET")]
    targets: Vec<String>,
    /// Restart the pods that this label selector matches
    #[arg(short = 'l', long, value_name = "SELECTOR")]
    selector: Option<String>,
    /// The namespace [default: that of the kubeconfig context]
    #[arg(short, long)]
    namespace: Option<String>,
    /// The containers, in the order in which they are restarted [default: the only one]
    #[arg(short, long = "container", value_name = "NAME", value_delimiter = ',')]
    containers: Vec<String>,
    /// How many of the pods may be unavailable at once: a number, or a percentage of them
    #[arg(long, value_name = "N|N%", default_value = "1")]
    max_unavailable: Limit,
    /// Ignore PodDisruptionBudgets
    #[arg(long)]
    ignore_disruption_budgets: bool,
    #[command(flatten)]
    strategy: StrategyArgs,
    /// Create no requests, even where the cluster has them: change the images of the pods from here
    #[arg(long)]
    direct: bool,
    /// Check everything, change nothing, and show what would be done
    #[arg(long)]
    dry_run: bool,
    /// Whether to wait until all pods are restarted
    #[arg(long, value_name = "true|false", default_value_t = true, num_args = 0..=1, require_equals = true,
          default_missing_value = "true", action = ArgAction::Set)]
    wait: bool,
    /// How to print the results: a table, a table with all that is known, or for programs
    #[arg(short, long, value_enum, default_value_t = Output::Table)]
    output: Output,
    #[command(flatten)]
    cluster: ClusterArgs,
}

impl RestartArgs {
    pub(super) async fn run(self) -> anyhow::Result<ExitCode> {
        let target =
            Target::read(&self.targets, self.selector.as_deref()).map_err(anyhow::Error::msg)?;
        let containers = distinct(&self.containers)?;
        let client = self.cluster.client().await?;
        let namespace = self
            .namespace
            .clone()
            .unwrap_or_else(|| client.default_namespace().to_owned());
        let group = Group {
            client: client.clone(),
            namespace: namespace.clone(),
            target,
        };
        let plan = Plan::of(&group.target, &containers, group.list_pods().await?)
            .map_err(|problems| anyhow::Error::msg(problems.join("\nerror: ")))?;
        plan.left_out
            .iter()
            .for_each(|pod| eprintln!("left out: {pod}"));
        let way = self.way(&client, &namespace).await?;
        let budgets =
            (!self.ignore_disruption_budgets).then_some(DisruptionBudgets { client, namespace });
        let ignores_failures = self.strategy.ignores_failures();
        let mut roll = Roll::new(
            Settings {
                group,
                budgets,
                way,
                limit: self.max_unavailable,
                ignores_failures,
            },
            plan.members,
        );
        if self.dry_run {
            print(&roll.dry_run(self.output).await?)?;
            return Ok(ExitCode::SUCCESS);
        }
        let interrupted = if self.wait {
            roll.run(stopped()?).await?
        } else {
            roll.ask_for_all().await?;
            false
        };
        print(&results::show(&roll.members, self.output)?)?;
        eprintln!("{}", results::summary(&roll.members));
        Ok(ExitCode::from(code(&roll.members, interrupted)))
    }

    /// Chooses requests where the API server serves them, else direct restarts.
    async fn way(&self, client: &Client, namespace: &str) -> anyhow::Result<Way> {
        let strategy = self.strategy.clone();
        let resources = Discovery::new(client.clone())
            .resources()
            .await
            .map_err(anyhow::Error::msg);
        let known = resources.map(|resources| resources.serve(PLURAL));
        if !self.direct
            && known.context("cannot check whether the cluster has ContainerRecreateRequests")?
        {
            let deadline = Duration::from_secs(strategy.timeout.into());
            return Ok(Way::Asked(Box::new(Asked::new(
                Requests::new(client.clone(), namespace, strategy, time_of_day()),
                deadline,
            ))));
        }
        if !self.direct {
            eprintln!(
                "the cluster has no ContainerRecreateRequests: the images of the pods are changed directly"
            );
        }
        if strategy.unready_grace_period.is_some() {
            bail!(
                "--unready-grace-period needs ContainerRecreateRequests: without one, the pod would stay not ready if this program were killed; leave it out, or install them (deploy/crds) and `swaplet run --restart`"
            );
        }
        if !self.wait {
            bail!(
                "without requests this program restarts the containers itself, so it has to wait"
            );
        }
        Ok(Way::Direct(Box::new(Direct::new(
            client.clone(),
            namespace,
            strategy,
        ))))
    }
}

fn code(members: &[Member], interrupted: bool) -> u8 {
    let fine = |member: &Member| {
        !matches!(
            member.state,
            State::Over(Outcome::Failed(_) | Outcome::NotStarted(_) | Outcome::Left(_))
        )
    };
    match interrupted {
        true => INTERRUPTED,
        false if members.iter().all(fine) => 0,
        false => FAILED,
    }
}

/// Checks that no container is named twice: the API server would refuse all of them.
fn distinct(containers: &[String]) -> anyhow::Result<Vec<String>> {
    let twice = containers
        .iter()
        .enumerate()
        .find(|(index, name)| containers[..*index].contains(name));
    match twice {
        Some((_, name)) => bail!("-c names {name} twice"),
        None if containers.iter().any(String::is_empty) => bail!("-c has an empty name"),
        None => Ok(containers.to_vec()),
    }
}
