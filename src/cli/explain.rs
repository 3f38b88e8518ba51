//! `swaplet explain`: why the sidecars of a pod were stopped, or were not.

mod text;

use std::process::ExitCode;

use anyhow::{Context, anyhow};
use clap::{Args, ValueEnum};
use jiff::Timestamp;
use kube::{Api, Client};
use serde_json::{Value, json};
use swaplet_controller::frame::list::{list, words};
use swaplet_controller::terminate::snapshot::{Said, Scope, Snapshot, about};
use swaplet_core::objects::pod::wire::PodWire;
use swaplet_core::objects::pod::{Pod, roles};
use swaplet_core::report::decision::Report;
use swaplet_core::terminate::explain::{Explanation, Finding, describe};

use super::client::ClusterArgs;
use super::rules::{ASSUMED_EXIT_IMAGE, RulesArgs};
use super::table::{json as as_json, yaml as as_yaml};
use super::{print, slowly};
use crate::image::reference::ImageReference;

/// Of a decision to write.
const WHO_WRITES: &str = "Nothing was written now: a controller that runs does this by itself, and swaplet rescue does it once.";

const EXAMPLES: &str = "\
Examples:
  # Why does this pod not end? With the flags that the controller has
  swaplet explain report-x7k2p -n batch --exit-image registry.example/swaplet/exit:v1

  # The same flags from the environment, as the controller's Deployment sets them
  export SWAPLET_EXIT_IMAGE=registry.example/swaplet/exit:v1 SWAPLET_FINISH=never
  swaplet explain pod/report-x7k2p

  # For programs
  swaplet explain report-x7k2p -o json | jq -r .decision.reason

Nothing is written, and no controller is needed: the pod, its node, its Job and whatever else \
counts are read with your own rights, and the controller's own functions decide. What you may \
not read is said, and what is assumed instead. So pass the flags (or variables) that `swaplet \
run` has in your cluster: with other rules the decision may be another. Without --exit-image an \
image with the standard paths is assumed. What takes time counts from the end of the main \
containers on, or from what swaplet has written since.

Exit codes: 0 the decision is explained; 2 wrong usage, or the pod cannot be read.";

/// Say why the sidecars of a pod were stopped, or were not
///
/// Prints what a controller looks at, what it sees there and where the rule comes from; then what
/// it decides, what happens next, and what it has said about the pod before.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct ExplainArgs {
    /// The pod, as NAME, pod/NAME or pod NAME
    #[arg(value_name = "POD", required = true, num_args = 1..=2)]
    pod: Vec<String>,
    /// The namespace of the pod [default: that of the context]
    #[arg(short, long)]
    namespace: Option<String>,
    #[command(flatten)]
    rules: RulesArgs,
    /// The namespace of the ConfigMap swaplet-node-verdicts [default: it is looked for in all]
    #[arg(long, value_name = "NAMESPACE", env = "SWAPLET_STATE_NAMESPACE")]
    state_namespace: Option<String>,
    /// How to print
    #[arg(short, long, value_enum, default_value_t = Form::Text)]
    output: Form,
    #[command(flatten)]
    cluster: ClusterArgs,
}

/// How to print.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Form {
    /// For people, as kubectl describe
    Text,
    Json,
    Yaml,
}

fn pod_name(words: &[String]) -> anyhow::Result<String> {
    let written = words.join("/");
    let name = ["pod/", "pods/", "po/"]
        .iter()
        .find_map(|kind| written.strip_prefix(kind))
        .unwrap_or(&written);
    match name {
        "" => Err(anyhow!("the name of a pod is missing")),
        name if name.contains('/') => Err(anyhow!(
            "only pods can be explained, one at a time: pass NAME or pod/NAME"
        )),
        name => Ok(name.to_owned()),
    }
}

impl ExplainArgs {
    pub(super) async fn run(self) -> anyhow::Result<ExitCode> {
        let Self {
            pod,
            namespace,
            mut rules,
            state_namespace,
            output,
            cluster,
        } = self;
        let pod = pod_name(&pod)?;
        let client = cluster.client().await?;
        let namespace = namespace.unwrap_or_else(|| client.default_namespace().to_owned());
        let pod = read(&client, &namespace, &pod).await?;
        let assumed = if rules.needs_exit_image() {
            Some(assume(&client, &pod, &mut rules).await?)
        } else {
            None
        };
        let scope = Scope {
            namespace: None,
            state_namespace,
        };
        let reading = format!("reading what counts for the pods of namespace {namespace}");
        let snapshot = slowly(
            &reading,
            Snapshot::of_pod(&client, rules.rules()?, &scope, &pod),
        )
        .await;
        let mut explanation = snapshot.explain(&pod);
        if explanation.decision.action.is_some() {
            explanation.next.push(WHO_WRITES.to_owned());
        }
        let answer = Answer {
            explanation,
            remarks: assumed
                .into_iter()
                .chain(snapshot.remarks().iter().cloned())
                .collect(),
            said: snapshot.said(&pod),
            now: snapshot.taken_at(),
            pod: &pod,
        };
        print(&match output {
            Form::Text => answer.text(),
            Form::Json => as_json(&answer.value()),
            Form::Yaml => as_yaml(&answer.value())?,
        })?;
        Ok(ExitCode::SUCCESS)
    }
}

async fn read(client: &Client, namespace: &str, name: &str) -> anyhow::Result<Pod> {
    let pods: Api<PodWire> = Api::namespaced(client.clone(), namespace);
    let found = match pods.get(name).await {
        // Who may list pods, as the controller does, need not be allowed to get one.
        Err(kube::Error::Api(status)) if status.code == 403 => {
            list(&pods, &format!("metadata.name={name}"), Some)
                .await
                .map(|mut listed| listed.pop())
        }
        other => other.map(Some),
    };
    let cannot = || format!("cannot read pod {namespace}/{name}");
    let pod = found
        .map_err(|error| anyhow!(words(&error)))
        .with_context(cannot)?;
    let pod = pod
        .ok_or_else(|| anyhow!("there is none"))
        .with_context(cannot)?;
    pod.read()
        .context("it has no name or no uid")
        .with_context(cannot)
}

/// The image that swaplet has written to the pod, as its Event says; or any with the standard
/// paths. Says what was assumed.
async fn assume(client: &Client, pod: &Pod, rules: &mut RulesArgs) -> anyhow::Result<String> {
    // Where Events cannot be read, that is among the remarks of the snapshot.
    let said = about(client, pod).await.unwrap_or_default();
    let written = roles::sidecars(pod)
        .map(|sidecar| &*sidecar.image)
        .find(|image| {
            let words = format!("-> {image})");
            said.iter().any(|said| said.note.contains(&words))
        });
    rules.assume_exit_image(ImageReference::parse(
        written.unwrap_or(ASSUMED_EXIT_IMAGE),
    )?);
    Ok(match written {
        Some(image) => {
            format!(
                "no --exit-image is given: {image} is taken for one with the standard paths, because an Event of swaplet names it"
            )
        }
        None => format!(
            "no --exit-image is given: one with the standard paths is assumed, and called {ASSUMED_EXIT_IMAGE} here; pass the flags that swaplet run has"
        ),
    })
}

/// All that is printed.
struct Answer<'a> {
    pod: &'a Pod,
    explanation: Explanation,
    remarks: Vec<String>,
    said: Option<Vec<&'a Said>>,
    now: Timestamp,
}

impl Answer<'_> {
    fn value(&self) -> Value {
        let Self {
            pod,
            explanation,
            remarks,
            said,
            ..
        } = self;
        let Explanation {
            findings,
            decision,
            sentence,
            next,
        } = explanation;
        let report =
            |report: &Report| json!({"reason": report.reason.as_str(), "note": report.note});
        json!({
            "name": pod.name,
            "namespace": pod.namespace,
            "uid": pod.uid,
            "node": pod.node,
            "job": pod.job.as_ref().map(|job| &job.name),
            "findings": findings.iter().map(finding).collect::<Vec<_>>(),
            "decision": {
                "reason": decision.reason.as_str(),
                "sentence": sentence,
                "action": decision.action.as_ref().map(describe),
                "reports": decision.reports.iter().map(report).collect::<Vec<_>>(),
            },
            "next": next,
            "remarks": remarks,
            "events": said.as_ref().map(|said| said.iter().map(|said| event(said)).collect::<Vec<_>>()),
        })
    }
}

fn finding(finding: &Finding) -> Value {
    json!({"subject": finding.subject, "seen": finding.seen, "source": finding.rule})
}

fn event(said: &Said) -> Value {
    let kind = if said.warning { "Warning" } else { "Normal" };
    json!({"time": said.at, "type": kind, "reason": said.reason, "note": said.note})
}
