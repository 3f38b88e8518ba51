//! What the command line makes sidecars, beside marks and policies of the cluster.

use std::collections::BTreeSet;
use std::path::PathBuf;

use anyhow::{bail, ensure};
use clap::Args;
use kube::Client;
use serde_json::json;
use swaplet_controller::frame::remarks::Remarks;
use swaplet_controller::terminate::snapshot::Snapshot;
use swaplet_controller::terminate::snapshot::policies::{Given, Listed, PodPolicies};
use swaplet_core::cluster::exit_images::ExitImages;
use swaplet_core::objects::pod::Pod;
use swaplet_core::policies::set::{key, key_of};

use crate::cli::check::policies::{CheckedPolicies, of_flag};
use crate::cli::check::preset_names;
use crate::cli::check::words::OF_PRESET;

/// The name prefix of a `--sidecar`'s policy: like that of a `--preset`.
const OF_SIDECAR: &str = "~sidecar/";

/// What the command line names.
#[derive(Debug, Args)]
pub(super) struct GivenArgs {
    /// Count containers of this name as sidecars (repeatable)
    #[arg(long, value_name = "NAME")]
    sidecar: Vec<String>,
    /// Count containers of a well-known sidecar as sidecars (repeatable)
    #[arg(long, value_name = "NAME", value_parser = preset_names(), hide_possible_values = true)]
    preset: Vec<String>,
    /// Count what the SidecarPolicies of a file or folder name as sidecars (repeatable)
    #[arg(hide_short_help = true, long, value_name = "FILE")]
    policy: Vec<PathBuf>,
}

impl GivenArgs {
    /// Fails where a container that `--sidecar` names has ended by itself in all pods that have it:
    /// then it is the work, and makes the pods look as if they waited for nothing.
    pub(super) fn are_left(&self, pods: &[Pod], exit_images: &ExitImages) -> anyhow::Result<()> {
        for name in &self.sidecar {
            let pods = pods.iter().filter(|pod| !pod.phase.is_terminal());
            let named = pods
                .flat_map(|pod| &pod.containers)
                .filter(|each| *each.name == **name && !each.mark.is_sidecar());
            let mut own = named
                .filter(|each| !exit_images.contains(&each.image))
                .peekable();
            ensure!(
                own.peek().is_none() || own.any(|each| each.end().is_none()),
                "--sidecar {name}: it has ended by itself in all of these pods, as main containers do: leave it out, and see what they wait for"
            );
        }
        Ok(())
    }

    /// Returns all of it as policies, for pods of one namespace or of all, and what could not be
    /// read.
    ///
    /// # Errors
    /// A file cannot be read, or a policy in it is not valid.
    pub(super) async fn read(
        &self,
        client: &Client,
        namespace: Option<&str>,
    ) -> anyhow::Result<(Given, Remarks)> {
        let (read, problems) = CheckedPolicies::read(&self.policy, &self.preset, namespace);
        if let Some(problem) = problems.into_iter().next() {
            return Err(problem);
        }
        let named = |name: &String| of_flag(&format!("{OF_SIDECAR}{name}"), &json!({"name": name}));
        let named = self.sidecar.iter().filter_map(named);
        let policies: Vec<_> = read.into_policies().chain(named).collect();
        let mut listed = Listed::default();
        if policies.iter().any(|policy| policy.namespaces.is_some()) {
            listed.read_namespaces(client, namespace).await;
        }
        let namespaces = listed.namespaces;
        Ok((
            Given {
                policies,
                namespaces,
            },
            listed.remarks,
        ))
    }
}

/// Fails if a policy of the command line has the name of one of the cluster: only one would count.
pub(super) fn is_new(given: &Given, policies: &PodPolicies) -> anyhow::Result<()> {
    let mut given = given.policies.iter();
    match given.find(|given| policies.has(given.kind, &given.namespace, &given.name)) {
        Some(given) => bail!(
            "--policy: {} is in the cluster too: give that of the file another name, or leave --policy out",
            given.place()
        ),
        None => Ok(()),
    }
}

/// Returns a note for each of these policies by which no container of the pods is a sidecar.
pub(super) fn without_effect(given: &Given, snapshot: &Snapshot) -> impl Iterator<Item = String> {
    let rules = snapshot.pods().flat_map(|pod| {
        let containers = pod.containers.iter().map(|container| &container.rule);
        containers.chain([&pod.refused_policy]).flatten()
    });
    let in_effect: BTreeSet<_> = rules.filter_map(|rule| rule.policy().map(key_of)).collect();
    let policies = given.policies.iter();
    let without = policies.filter(move |policy| !in_effect.contains(&key(policy)));
    without.map(|policy| {
        let of = |prefix| policy.name.strip_prefix(prefix);
        let flag = match (of(OF_SIDECAR), of(OF_PRESET)) {
            (Some(name), _) => format!("--sidecar {name}"),
            (None, Some(name)) => format!("--preset {name}"),
            (None, None) => format!("--policy: {}", policy.place()),
        };
        format!("{flag}: no container of these pods is a sidecar by it")
    })
}
