//! `swaplet status`: shows the state of the installation, from the cluster alone.

pub mod ask;
mod cluster;
pub mod installation;
mod judge;
mod policies;
mod rights;
mod show;

use std::process::ExitCode;

use clap::Args;
use swaplet_controller::frame::clock::time_of_day;

use self::ask::{Asked, asked};
use self::installation::seen;
use self::judge::exit_code;
use super::client::ClusterArgs;
use super::image::RegistryArgs;
use super::print;
use super::program::process::slowly;
use super::program::table::Output;
use super::rules::RulesArgs;

const EXAMPLES: &str = "\
Examples:
  # Is all well?
  swaplet status

  # All flags in force as well; for programs
  swaplet status -o wide
  swaplet status -o json | jq -r '.checks[] | select(.state != \"ok\") | .words'

  # For scripts
  swaplet status -n swaplet > /dev/null || echo 'check swaplet'

It checks the Deployments with the label app.kubernetes.io/name=swaplet: their version, flags, \
Lease, rights (by SubjectAccessReviews), admission policies and CRDs; and the cluster as they \
observe it: nodes, pods whose sidecars have not ended, the exit image, Jobs on virtual nodes \
without ttlSecondsAfterFinished, and the Warnings of swaplet in the last hour. Nothing is written, \
and no registry is queried without --registry.

States:
  ok     it is as it should be
  note   it is so by choice, or worth knowing
  TODO   it needs attention; the words say what to do
  ?      it could not be read, mostly for lack of rights; without the right to look for an
         installation, the pods are those of your namespace

Exit codes: 0 all well; 1 something needs attention, or swaplet is not installed; 2 nothing that \
can be read does, and something could not be read; or wrong usage.";

/// Show the state of the installation, and what needs attention
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct StatusArgs {
    /// The namespace of the installation [default: it is looked for in all]
    #[arg(short, long)]
    namespace: Option<String>,
    /// Also ask the registry whether it has the exit image, from here and with your credentials
    #[arg(long)]
    registry: bool,
    /// How to print: a table, a table with all flags in force, or for programs
    #[arg(short, long, value_enum, default_value_t = Output::Table)]
    output: Output,
    #[command(flatten)]
    registry_args: RegistryArgs,
    #[command(flatten)]
    cluster: ClusterArgs,
}

impl StatusArgs {
    pub(super) async fn run(self) -> anyhow::Result<ExitCode> {
        let client = self.cluster.client_that_answers().await?;
        let found = seen(&client, self.namespace.as_deref()).await?.ok();
        let is_unknown = found.is_none();
        let mut all = Vec::new();
        for installation in found.into_iter().flatten() {
            let registry = self.registry.then_some(&self.registry_args);
            all.push(slowly("asking", asked(&client, installation, registry)).await);
        }
        let mut checks = if is_unknown {
            let named = self.namespace.as_deref();
            vec![judge::unknown(named, client.default_namespace())]
        } else {
            judge::installations(&all, self.namespace.as_deref(), time_of_day())
        };
        let is_real = |asked: &&Asked| asked.has_some_right();
        let first = all.iter().find(is_real).or(all.first());
        let first = first.map(|asked| &asked.installation);
        let cluster = if first.is_some() || is_unknown {
            let reading = cluster::read(&client, first, RulesArgs::of_installation(first));
            Some(slowly("reading pods, nodes and Jobs", reading).await)
        } else {
            None
        };
        if let Some(first) = first.filter(|_| all.iter().filter(is_real).count() > 1) {
            checks.push(judge::of_one(&first.place()));
        }
        checks.extend(cluster.iter().flat_map(judge::cluster));
        print(&show::show(&checks, &all, cluster.as_ref(), self.output)?)?;
        Ok(ExitCode::from(exit_code(&checks)))
    }
}
