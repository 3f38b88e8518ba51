//! `swaplet nodes`: lists how each node is recognised, why, and what has been proved there.

pub mod probe;

use std::collections::BTreeSet;
use std::process::ExitCode;

use anyhow::Context;
use clap::Args;
use jiff::{SignedDuration, Timestamp};
use kube::{Api, Client};
use serde_json::{Value, json};
use swaplet_controller::cluster::verdict_store::{AllKept, Kept, all_in, under_never};
use swaplet_controller::frame::clock::time_of_day;
use swaplet_controller::frame::list::{list, words};
use swaplet_controller::frame::remarks::is_forbidden;
use swaplet_core::cluster::budget::Rate;
use swaplet_core::cluster::node_class::{NodeClass, Recognised};
use swaplet_core::cluster::node_table::{BUILT_IN, NodeTable};
use swaplet_core::cluster::node_verdicts::Proved;
use swaplet_core::objects::node::{Node, NodeWire};

use crate::cli::program::table::{Line, Output, age, render};
use crate::cli::rules::NodeTableArgs;
use crate::cli::status::installation::{Found, Naming, Purpose};
use swaplet_edge::client::{ClusterArgs, plain};
use swaplet_edge::exit::{CANNOT, code};
use swaplet_edge::print;

const EXAMPLES: &str = "\
Examples:
  # Every node of the cluster; two of them
  swaplet nodes
  swaplet nodes virtual-node-aci-linux ip-10-0-0-1.ec2.internal

  # All that is known, for people and for programs
  swaplet nodes -o wide
  swaplet nodes -o json | jq '.nodes[] | select(.class == \"Unknown\")'

  # The table by which nodes are recognised; rows of your own in the same form come before it
  swaplet nodes --print-rows
  swaplet nodes --node-classes my-nodes.yaml
  swaplet run --node-classes my-nodes.yaml ...

  # Find out what a node does, on throw-away pods
  swaplet probe my-node --exit-image ... --park-image ...

  # For a single node, set the class directly
  kubectl label node my-node swaplet.io/node-class=VirtualInert

Classes, and how sidecars are ended there:
  Kubelet          restarts exactly the container whose image changes: their images are swapped
  Daemon           the same, and OpenKruise's daemon runs beside it
  VirtualUpdates   a virtual node whose provider replaces the container: swapped; under
                   restartPolicy Never only if that is allowed, because the provider may
                   judge the pod while no container runs
  VirtualInert     a virtual node whose provider ignores the change: the pod is finished instead
  VirtualRejects   a virtual node whose provider fails on the change, which would fail the
                   pod: finished instead
  Unknown          an unknown virtual node: the first pod with restartPolicy OnFailure
                   finds out, one at a time; pods with restartPolicy Never are finished

A proof by a pod on a node outranks everything else until it expires: after a day, or, where it \
contradicts the known class of the node, after ten minutes (doubled each time). A provider that \
has failed a pod gets no swap until then. Inert and Rejects count for pods of the same namespace, \
and for all once pods of three namespaces agree. `swaplet run` keeps the proofs in the ConfigMap \
swaplet-node-verdicts of its --state-namespace; they do not count while the node is taken for \
another class.

Exit codes: 0 the nodes were printed; 2 wrong usage, no such node, or something cannot be read.";

/// Show how each node treats a changed image, and why
///
/// A node's class decides how sidecars are ended there. It is set by the label or annotation
/// swaplet.io/node-class of the node, or by the first row of a table that matches its labels,
/// taints, annotations and name; a node that no row matches has a kubelet.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct NodesArgs {
    /// Only these nodes [default: all]
    #[arg(value_name = "NODE", value_parser = node_name)]
    names: Vec<String>,
    /// Print only the built-in rows
    #[arg(long)]
    print_rows: bool,
    #[command(flatten)]
    table: NodeTableArgs,
    /// A namespace of pods: the installation that is for them counts [default: one that is for all]
    #[arg(short, long)]
    namespace: Option<String>,
    /// The namespace of the ConfigMap swaplet-node-verdicts [default: it is looked for in all]
    #[arg(long, value_name = "NAMESPACE", env = "SWAPLET_STATE_NAMESPACE")]
    state_namespace: Option<String>,
    /// How to print: a table, a table with all that is known, or for programs
    #[arg(short, long, value_enum, default_value_t = Output::Table)]
    output: Output,
    #[command(flatten)]
    cluster: ClusterArgs,
}

impl NodesArgs {
    pub async fn run(self) -> anyhow::Result<ExitCode> {
        if self.print_rows {
            print(BUILT_IN)?;
            return Ok(ExitCode::SUCCESS);
        }
        self.table.table()?;
        let client = self.cluster.client().await?;
        let nodes = list(&Api::<NodeWire>::all(client.clone()), "", NodeWire::read)
            .await
            .map_err(plain)
            .context("cannot list nodes")?;
        let mut problems = missing(&self.names, &nodes);
        let named = self.state_namespace.as_deref();
        let pods_of = self.namespace.as_deref();
        let naming = Naming::Namespace(named);
        let found = Found::find(&client, naming, pods_of, Purpose::Tell).await?;
        let table = self.table.table_or(&found)?;
        let state_namespace = found.state_namespace(named);
        found.tell();
        let (kept, problem) = kept_or_problem(&client, state_namespace.as_deref()).await;
        problems.extend(problem);
        let wanted = |node: &Node| {
            self.names.is_empty() || self.names.iter().any(|name| **name == *node.name)
        };
        let now = time_of_day();
        let mut rows: Vec<Row> = nodes
            .iter()
            .filter(|node| wanted(node))
            .map(|node| Row::of(node, &table, &kept, now))
            .collect();
        rows.sort_by(|a, b| a.name.cmp(&b.name));
        problems.extend(rows.iter().filter_map(Row::problem));
        for problem in &problems {
            say!("error: {problem}");
        }
        print(&show(&rows, self.output, now)?)?;
        Ok(code(problems.is_empty(), CANNOT))
    }
}

/// Parses the name of a node, also as node/NAME: so `-o name` prints it. An error says what to pass.
pub(super) fn node_name(written: &str) -> Result<String, &'static str> {
    match written.split_once('/') {
        None => Ok(written.to_owned()),
        Some(("node" | "nodes" | "no", name)) => Ok(name.to_owned()),
        Some(_) => Err("it is no node: pass NODE or node/NODE"),
    }
}

fn missing(names: &[String], nodes: &[Node]) -> Vec<String> {
    let known: BTreeSet<&str> = nodes.iter().map(|node| &*node.name).collect();
    names
        .iter()
        .filter(|name| !known.contains(name.as_str()))
        .map(|name| format!("there is no node {name}"))
        .collect()
}

/// The class of a node as shown, and its problems.
pub struct Shown {
    pub class: NodeClass,
    pub why: String,
    pub problems: Vec<String>,
}

/// Returns what `swaplet nodes` shows of this node.
pub async fn shown(
    client: &Client,
    node: &Node,
    table: &NodeTable,
    state_namespace: Option<&str>,
) -> Shown {
    let (kept, problem) = kept_or_problem(client, state_namespace).await;
    let row = Row::of(node, table, &kept, time_of_day());
    Shown {
        class: row.class,
        why: row.why(),
        problems: problem.into_iter().chain(row.problem()).collect(),
    }
}

async fn kept_or_problem(client: &Client, namespace: Option<&str>) -> (AllKept, Option<String>) {
    match all_in(client, namespace).await {
        Ok(kept) => (kept, None),
        Err(error) => {
            let hint = if namespace.is_none() && is_forbidden(&error) {
                ": name the namespace of the controller with --state-namespace"
            } else {
                ""
            };
            let problem = format!(
                "proofs on nodes are not shown, because ConfigMaps cannot be read ({}){hint}",
                words(&error)
            );
            (AllKept::new(), Some(problem))
        }
    }
}

struct Row {
    name: Box<str>,
    class: NodeClass,
    recognised: Recognised,
    proved: Option<Kept>,
    under_never: Option<Kept>,
}

impl Row {
    fn of(node: &Node, table: &NodeTable, kept: &AllKept, now: Timestamp) -> Self {
        let recognised = Recognised::of(node, table);
        // As the controller restores it: anybody may write into a ConfigMap somewhere.
        let counted = |kept: &Kept| {
            let longest =
                SignedDuration::try_from(kept.proved.parse::<Proved>().ok()?.lasts()).ok()?;
            let until = kept.until.min(now.checked_add(longest).ok()?);
            let counts = kept.uid == node.uid && until > now && kept.is_for(recognised.class);
            counts.then(|| Kept {
                until,
                ..kept.clone()
            })
        };
        let proved = kept.get(&*node.name).and_then(counted);
        let under_never = under_never(kept, &node.name).and_then(counted);
        let outranks = proved
            .as_ref()
            .and_then(|kept| kept.proved.parse::<Proved>().ok());
        let class = outranks.map_or(recognised.class, |proved| proved.class(recognised.class));
        Self {
            name: node.name.clone(),
            class,
            recognised,
            proved,
            under_never,
        }
    }

    fn problem(&self) -> Option<String> {
        self.recognised
            .problem
            .as_ref()
            .map(|problem| format!("node {}: {problem}", self.name))
    }

    fn updates_per_second(&self) -> Option<f64> {
        self.recognised
            .row
            .as_ref()
            .and_then(|row| row.budget)
            .map(Rate::per_second)
    }

    /// Returns why the node has its class; proofs come first, because they outrank its recognition.
    fn why(&self) -> String {
        let proved: Vec<_> = self
            .proved
            .iter()
            .chain(&self.under_never)
            .map(|kept| &*kept.proved)
            .collect();
        let because = if proved.is_empty() {
            String::new()
        } else {
            format!("proved: {}; ", proved.join(", "))
        };
        format!("{because}{}", self.recognised.why)
    }

    fn line(&self, wide: bool, now: Timestamp) -> Line {
        let (provider, kept) = (self.recognised.provider(), self.proved.as_ref());
        let proved = kept.map(|kept| format!("{} {} ago", kept.proved, age(kept.proved_at, now)));
        let mut line = vec![
            ("NAME", self.name.to_string()),
            ("CLASS", self.class.to_string()),
            ("PROVIDER", provider.unwrap_or_default().to_owned()),
            ("PROVED", proved.unwrap_or_default()),
            ("WHY", self.why()),
        ];
        if wide {
            let row = self.recognised.row.as_ref();
            let rate = self.updates_per_second();
            let wide = [
                ("BY POD", kept.map(|kept| kept.pod.to_string())),
                ("FOR", kept.map(|kept| age(now, kept.until))),
                ("UPDATES/S", rate.map(|rate| rate.to_string())),
                ("CONFIDENCE", row.map(|row| row.confidence.to_string())),
                ("SOURCE", row.map(|row| row.source.to_string())),
            ];
            line.extend(wide.map(|(name, cell)| (name, cell.unwrap_or_default())));
        }
        line
    }

    fn entry(&self) -> Value {
        let row = self.recognised.row.as_ref();
        json!({
            "name": self.name,
            "class": self.class.to_string(),
            "takenFor": self.recognised.class.to_string(),
            "why": self.recognised.why.to_string(),
            "problem": self.recognised.problem,
            "row": row.map(|row| &row.name),
            "provider": row.map(|row| &row.provider),
            "confidence": row.map(|row| &row.confidence),
            "source": row.map(|row| &row.source),
            "updatesPerSecond": self.updates_per_second(),
            "endsEciSidecars": self.recognised.ends_eci_sidecars(),
            "proved": self.proved,
            "provedUnderNever": self.under_never,
            "swapUnderNever": row.and_then(|row| row.swap_under_never),
        })
    }
}

fn show(rows: &[Row], output: Output, now: Timestamp) -> anyhow::Result<String> {
    let wide = output == Output::Wide;
    let lines = rows.iter().map(|row| row.line(wide, now));
    render(
        output,
        &lines.collect::<Vec<_>>(),
        &json!({"nodes": rows.iter().map(Row::entry).collect::<Vec<_>>()}),
    )
}

#[cfg(test)]
mod tests;
