//! `swaplet probe`: tests on throw-away pods what a node does with each way to end a sidecar.

use std::process::ExitCode;
use std::time::Duration;

use super::shown;
use crate::cli::client::{ClusterArgs, named_or_own, plain};
use crate::cli::duration::seconds;
use crate::cli::exit::{CANNOT, FAILED, INTERRUPTED, code};
use crate::cli::print;
use crate::cli::program::process::stopped;
use crate::cli::program::table::{Line, Output, printable, render};
use crate::cli::rules::NodeTableArgs;
use crate::cli::status::installation::{Found, Naming};
use crate::cli::terminate::nodes::Shown;
use crate::image::reference::ImageReference;
use anyhow::{Context, bail, ensure};
use clap::Args;
use k8s_openapi::api::core::v1::Node as WholeNode;
use kube::{Api, Client};
use serde_json::{Value, json};
use swaplet_controller::frame::clock::time_of_day;
use swaplet_controller::terminate::probe::{
    Answer, Images, Interrupt, LABEL, Probe, Probed, Stopped, Tried,
};
use swaplet_core::cluster::node_class::{NodeClass, OVERRIDE, Recognised};
use swaplet_core::cluster::node_verdicts::Proved;
use swaplet_core::objects::node::{Node, NodeWire};
use tokio::sync::watch;

const EXAMPLES: &str = "\
Examples:
  # Which ways to end a sidecar work on this node?
  swaplet exit-image push registry.example/swaplet/exit:v1
  swaplet park-image push registry.example/swaplet/park:v1
  swaplet probe virtual-node-aci-linux \\
    --exit-image registry.example/swaplet/exit:v1 --park-image registry.example/swaplet/park:v1

  # Where swaplet is installed with both images: those
  swaplet probe virtual-node-aci-linux

  # A provider that takes minutes to start a pod, and a namespace that has the pull secret
  swaplet probe virtual-kubelet-cn-1 -n batch --timeout 600 --exit-image ... --park-image ...

  # For programs
  swaplet probe my-node -o json --exit-image ... --park-image ... | jq -r .verdict

Each way has its own pod, bound to the node without the scheduler and despite its taints: a main \
container that ends at once (the exit image) and a sidecar that stays (the park image). No other \
pod is touched, and none of these is marked, so that a running swaplet or OpenKruise leaves them \
alone.

  swap under OnFailure   the image of the sidecar is changed to the exit image
  swap under Never       the same; a provider that fails on it fails the pod, and this one has
                         nothing to lose. The park image exits with 143, as most programs do
                         that SIGTERM ends
  finish                 the phase of the pod is written, and watched: the node may take it back

The pods are always deleted, also on Ctrl-C. What a killed probe leaves behind is found by its \
label:
  kubectl delete pods -A -l swaplet.io/probe --grace-period=0 --force

Only these pods are written: to record the verdict, label the node as the last line says. You need \
the rights to get nodes, to create, get, patch and delete pods, to patch pods/status, and to list \
configmaps (for what was proved before).

Exit codes: 0 at least one way works, 1 none does, 2 the probe could not be run or left something \
behind, 130 interrupted.";

/// Try each way to end a sidecar on a node, with throw-away pods
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct ProbeArgs {
    /// The node
    #[arg(value_parser = super::node_name)]
    node: String,
    /// What the sidecar is swapped to; the main container runs it too (see `swaplet exit-image
    /// push`)
    #[arg(long, value_name = "IMAGE", env = "SWAPLET_EXIT_IMAGE", value_parser = ImageReference::parse)]
    exit_image: Option<ImageReference>,
    /// What the sidecar runs (see `swaplet park-image push`)
    #[arg(long, value_name = "IMAGE", env = "SWAPLET_PARK_IMAGE", value_parser = ImageReference::parse)]
    park_image: Option<ImageReference>,
    /// The namespace for the pods [default: the one of the context]
    #[arg(short, long)]
    namespace: Option<String>,
    /// How long a pod may take to start, and a way to show that it works. That a node ignores an
    /// image is certain after a minute
    #[arg(long, value_name = "DURATION", default_value = "2m", value_parser = seconds(5..=3600))]
    timeout: u32,
    #[command(flatten)]
    table: NodeTableArgs,
    /// The namespace of the ConfigMap swaplet-node-verdicts [default: it is looked for in all]
    #[arg(long, value_name = "NAMESPACE", env = "SWAPLET_STATE_NAMESPACE")]
    state_namespace: Option<String>,
    /// How to print: a table, a table with all that is known, or for programs
    #[arg(short, long, value_enum, default_value_t = Output::Table)]
    output: Output,
    #[command(flatten)]
    cluster: ClusterArgs,
}

impl ProbeArgs {
    pub async fn run(self) -> anyhow::Result<ExitCode> {
        if let (Some(exit), Some(park)) = (&self.exit_image, &self.park_image) {
            are_two(exit, park)?;
        }
        let client = self.cluster.client().await?;
        let (images, found) = self.images(&client).await?;
        let table = self.table.table_or(&found)?;
        let node = ready_node(&client, &self.node).await?;
        let state_namespace = found.state_namespace(self.state_namespace.as_deref());
        let shown = shown(&client, &node, &table, state_namespace.as_deref()).await;
        shown
            .problems
            .iter()
            .for_each(|problem| say!("warning: {problem}"));
        let probe = Probe {
            namespace: named_or_own(&client, self.namespace.as_deref()),
            client,
            recognised: Recognised::of(&node, &table),
            node,
            images,
            timeout: Duration::from_secs(self.timeout.into()),
            id: id(),
        };
        let probed = probe
            .run(interrupt()?, &|line| say!("{}", printable(&line)))
            .await;
        let findings = Findings::of(&probe, &probed, &shown);
        print(&findings.show(self.output)?)?;
        for left in &probed.left {
            let delete = format!(
                "kubectl delete pods -n {} -l {LABEL}={} --grace-period=0 --force",
                probe.namespace, probe.id
            );
            say!("error: {}; delete it: {delete}", printable(left));
        }
        Ok(exit_code(&probed))
    }

    /// Returns the images that are set explicitly, else those of the installation.
    async fn images(&self, client: &Client) -> anyhow::Result<(Images, Found)> {
        let named = self.state_namespace.as_deref();
        let are_given = self.exit_image.is_some() && self.park_image.is_some();
        let own = client.default_namespace();
        let namespace = self.namespace.as_deref().unwrap_or(own);
        let naming = Naming::Namespace(named);
        let found = Found::for_images(client, naming, namespace, are_given, &self.table).await?;
        let exit = found.image(self.exit_image.as_ref(), "exit-image")?;
        let park = found.image(self.park_image.as_ref(), "park-image")?;
        are_two(&exit, &park)?;
        Ok((Images { exit, park }, found))
    }
}

fn are_two(exit: &ImageReference, park: &ImageReference) -> anyhow::Result<()> {
    ensure!(
        !exit.is_alias_of(park),
        "--exit-image and --park-image name the same image: the one ends at once, the other stays"
    );
    Ok(())
}

/// Returns the exit code; prints why the probe ended early, if it did.
fn exit_code(probed: &Probed) -> ExitCode {
    match &probed.stopped {
        Some(Stopped::Interrupted) if probed.left.is_empty() => {
            say!("interrupted; the pods of the probe are deleted");
            return ExitCode::from(INTERRUPTED);
        }
        Some(stopped) => say!("error: {}", printable(&stopped.to_string())),
        None => {}
    }
    if probed.stopped.is_some() || !probed.left.is_empty() {
        ExitCode::from(CANNOT)
    } else {
        let works = |tried: &Tried| tried.answer == Answer::Works;
        code(probed.tried.iter().any(works), FAILED)
    }
}

/// Returns the node, if pods start on it.
async fn ready_node(client: &Client, name: &str) -> anyhow::Result<Node> {
    let found = Api::<WholeNode>::all(client.clone())
        .get_opt(name)
        .await
        .map_err(plain)
        .with_context(|| format!("cannot get node {name}"))?;
    let Some(whole) = found else {
        bail!("there is no node {name}; kubectl get nodes lists them")
    };
    let conditions = whole
        .status
        .iter()
        .flat_map(|status| status.conditions.iter().flatten());
    if let Some(ready) = conditions
        .into_iter()
        .find(|condition| condition.type_ == "Ready" && condition.status != "True")
    {
        let why = [&ready.reason, &ready.message].into_iter().flatten();
        let why = why.map(String::as_str).collect::<Vec<_>>().join(": ");
        bail!(
            "node {name} is not ready ({why}): no pod starts there; probe it when kubectl get nodes says Ready"
        );
    }
    let wire: NodeWire = serde_json::from_value(serde_json::to_value(whole)?)?;
    wire.read()
        .with_context(|| format!("node {name} has no name"))
}

/// Returns a unique id: no two probes start in the same nanosecond with the same process id.
fn id() -> String {
    let nanoseconds = time_of_day().as_nanosecond().rem_euclid(1 << 48);
    format!("{nanoseconds:x}-{:x}", std::process::id())
}

fn interrupt() -> anyhow::Result<Interrupt> {
    let (sender, interrupt) = watch::channel(false);
    let stopped = stopped()?;
    tokio::spawn(async move {
        stopped.await;
        sender.send_replace(true);
    });
    Ok(interrupt)
}

// The output of a probe.

/// The findings of a probe, ready to be printed.
struct Findings<'a> {
    probed: &'a Probed,
    node: &'a str,
    /// The class of the node by the probe; `None` if nothing was proved.
    verdict: Option<NodeClass>,
    shown: &'a Shown,
    /// The command that records the verdict.
    command: Option<String>,
}

impl<'a> Findings<'a> {
    fn of(probe: &'a Probe, probed: &'a Probed, shown: &'a Shown) -> Self {
        let verdict = verdict(probed, probe.class(probed));
        let command = verdict
            .filter(|class| *class != shown.class)
            .map(|class| command(&probe.node, class));
        Self {
            probed,
            node: &probe.node.name,
            verdict,
            shown,
            command,
        }
    }

    fn show(&self, output: Output) -> anyhow::Result<String> {
        let lines: Vec<_> = self.probed.tried.iter().map(line).collect();
        let mut text = render(output, &lines, &self.value())?;
        if output.is_table() && !lines.is_empty() {
            text.push_str(&self.words(output == Output::Wide));
        }
        Ok(text)
    }

    fn words(&self, wide: bool) -> String {
        let mut text = String::from("\n");
        for tried in self
            .probed
            .tried
            .iter()
            .filter(|tried| wide || tried.answer != Answer::Works)
        {
            text.push_str(&format!("{}: {}\n", tried.way, printable(&tried.note)));
        }
        let (node, Shown { class, why, .. }) = (self.node, self.shown);
        let says = format!("swaplet nodes says {class} ({})", printable(why));
        text.push_str(&match (self.verdict, &self.command) {
            (None, _) if self.is_doubtful() => format!(
                "Not judged: {says}, and on such a node one swap without effect may be a busy kubelet. Probe it again; if it is not a kubelet, \
                 say so:\n  kubectl label node {node} {OVERRIDE}={}\n",
                NodeClass::VirtualInert
            ),
            (None, _) => format!("Nothing was proved about node {node}, because no pod has shown that its container was replaced; {says}.\n"),
            (Some(verdict), None) => format!("Verdict: node {node} is {verdict}; {says}, so there is nothing to do.\n"),
            (Some(verdict), Some(command)) => format!("Verdict: node {node} is {verdict}; {says}. Make it known:\n  {command}\n"),
        });
        text
    }

    /// Returns true if a pod has shown something that one pod alone does not prove.
    fn is_doubtful(&self) -> bool {
        self.probed
            .tried
            .iter()
            .any(|tried| tried.proved == Some(Proved::Inert))
    }

    fn value(&self) -> Value {
        let ways: Vec<_> = self.probed.tried.iter().map(entry).collect();
        json!({
            "node": self.node, "ways": ways, "verdict": self.verdict.map(NodeClass::as_str),
            "nodes": {"class": self.shown.class.as_str(), "why": self.shown.why},
            "command": self.command, "stopped": self.probed.stopped.as_ref().map(ToString::to_string), "left": self.probed.left,
        })
    }
}

/// Returns the class, if the pods have shown it.
fn verdict(probed: &Probed, class: NodeClass) -> Option<NodeClass> {
    // On a kubelet, a swap that works is expected, so it proves nothing.
    let works =
        |tried: &Tried| tried.way.swaps() && tried.answer == Answer::Works && class.is_kubelet();
    let shows = |tried: &Tried| {
        works(tried)
            || tried
                .proved
                .is_some_and(|proved| proved.class(class) == class)
    };
    probed.tried.iter().any(shows).then_some(class)
}

fn command(node: &Node, class: NodeClass) -> String {
    let overwrite = if node.labels.contains_key(OVERRIDE) {
        " --overwrite"
    } else {
        ""
    };
    format!(
        "kubectl label node {} {OVERRIDE}={class}{overwrite}",
        node.name
    )
}

fn line(tried: &Tried) -> Line {
    let seconds = tried.took.map(|took| format!("{:.1}", took.as_secs_f32()));
    vec![
        ("WAY", tried.way.to_string()),
        ("RESULT", tried.answer.to_string()),
        ("SECONDS", seconds.unwrap_or_default()),
        ("EVIDENCE", tried.evidence.join(", ")),
    ]
}

fn entry(tried: &Tried) -> Value {
    json!({
        "way": tried.way.to_string(), "restartPolicy": tried.way.restart_policy(), "result": tried.answer.to_string(),
        "works": tried.answer == Answer::Works, "seconds": tried.took.map(|took| took.as_secs_f64()), "evidence": tried.evidence,
        "note": tried.note, "proved": tried.proved.map(|proved| proved.as_str()),
    })
}

#[cfg(test)]
mod tests;
