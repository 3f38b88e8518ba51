//! `swaplet warm status`: lists which images are known to be on which nodes.

use std::process::ExitCode;

use anyhow::Context;
use clap::Args;
use jiff::Timestamp;
use serde_json::{Value, json};
use swaplet_controller::frame::clock::time_of_day;
use swaplet_controller::frame::list::words;
use swaplet_controller::warm::status::ask;
use swaplet_core::warm::known::{Knowledge, Known, Shown};

use super::NodeArgs;
use crate::cli::client::{ClusterArgs, named_or_own};
use crate::cli::exit::{CANNOT, code};
use crate::cli::print;
use crate::cli::program::process::slowly;
use crate::cli::program::table::{Line, Output, age, render};
use crate::cli::rules::NodeTableArgs;
use crate::cli::status::installation::{Found, Naming, Purpose};
use crate::image::ImageReference;

const EXAMPLES: &str = "\
Examples:
  # Every image that warmer pods have now, on each node
  swaplet warm status -n swaplet-warm

  # Whether these images are known to be on the nodes of a pool, by the pods of all namespaces
  swaplet warm status registry.example/app:v7 registry.example/proxy:1.2 -l pool=batch -A

  # For programs
  swaplet warm status registry.example/app:v7 -A -o json |
    jq '.images[] | select(.known == \"NotKnown\")'

KNOWN says how:
  Proved      a container of a warmer pod has the image; while it is there, the kubelet keeps it
  Claimed     no proof: the node lists the image in its status
  Failed      a warmer pod waits for the image, and the node cannot pull it
  Pulling     a warmer pod waits for the image
  Skipped     the node keeps no images for later pods
  NotKnown    nothing. A node lists 50 images by default, so one that it does not list may be
              there

You need to list nodes, and pods in the namespace.

With -A, HOW names the namespace of each pod: who may create pods there can imitate warmer pods.

Exit codes: 0 what is known was printed; 2 wrong usage, or nodes or pods cannot be read.";

/// Say what is known to be on which node, and how it is known
///
/// Reads nodes and warmer pods, and writes nothing.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct StatusArgs {
    /// Only these images, also where nothing is known of them [default: all that warmer pods have]
    #[arg(value_name = "IMAGE", value_parser = ImageReference::parse)]
    images: Vec<ImageReference>,
    #[command(flatten)]
    on: NodeArgs,
    /// The namespace of the pods [default: that of the context]
    #[arg(short, long)]
    namespace: Option<String>,
    /// Pods of all namespaces
    #[arg(short = 'A', long, conflicts_with = "namespace")]
    all_namespaces: bool,
    #[command(flatten)]
    table: NodeTableArgs,
    /// How to print: a table (wide is the same), or for programs
    #[arg(short, long, value_enum, default_value_t = Output::Table)]
    output: Output,
    #[command(flatten)]
    cluster: ClusterArgs,
}

impl StatusArgs {
    pub(super) async fn run(self) -> anyhow::Result<ExitCode> {
        self.table.table()?;
        let client = self.cluster.client().await?;
        let namespace = named_or_own(&client, self.namespace.as_deref());
        let namespace = (!self.all_namespaces).then_some(&*namespace);
        let naming = Naming::Flags("--node-classes");
        let found = Found::find(&client, naming, namespace, Purpose::Tell).await?;
        let table = self.table.table_or(&found)?;
        if self.table.lacks_rows(&found) {
            found.tell();
        }
        let images = super::each_once(&self.images);
        let nodes = (&*self.on.selector, &*self.on.nodes);
        let asking = ask(&client, &images, namespace, nodes, &table);
        let (known, remarks) = slowly("reading nodes and warmer pods", asking)
            .await
            .map_err(|error| anyhow::anyhow!(words(&error)))
            .context("cannot list nodes")?;
        print(&show(
            &known,
            self.all_namespaces,
            self.output,
            time_of_day(),
        )?)?;
        remarks.iter().for_each(|remark| say!("error: {remark}"));
        Ok(code(remarks.is_empty(), CANNOT))
    }
}

/// Returns what is printed; pods are named with their namespaces if those of all were read.
fn show(known: &[Known], of_all: bool, output: Output, now: Timestamp) -> anyhow::Result<String> {
    let rows = known.iter().map(|known| row(known, of_all, now));
    let (lines, values): (Vec<_>, Vec<_>) = rows.unzip();
    render(output, &lines, &json!({ "images": values }))
}

fn row(known: &Known, of_all: bool, now: Timestamp) -> (Line, Value) {
    let (word, how) = told(&known.knowledge, of_all);
    let since = at(&known.knowledge);
    let (namespace, pod) = pod(&known.knowledge).unzip();
    let value = json!({
        "node": known.node, "image": known.image, "known": word, "how": how,
        "namespace": namespace, "pod": pod, "since": since.map(|at| at.to_string()),
    });
    let image = known.image.as_deref().unwrap_or_default();
    let line = vec![
        ("NODE", known.node.to_string()),
        ("IMAGE", image.to_owned()),
        ("KNOWN", word.to_owned()),
        ("AGE", since.map(|at| age(at, now)).unwrap_or_default()),
        ("HOW", how),
    ];
    (line, value)
}

/// Returns what is known in a word, and how it is known.
fn told(knowledge: &Knowledge, of_all: bool) -> (&'static str, String) {
    match knowledge {
        Knowledge::OfPod {
            namespace,
            pod,
            shown,
        } => {
            let pod = if of_all {
                format!("{namespace}/{pod}")
            } else {
                pod.to_string()
            };
            match shown {
                Shown::Proved { .. } => ("Proved", format!("a container of pod {pod} has it")),
                Shown::Failed(why) => ("Failed", format!("pod {pod} waits for it: {why}")),
                Shown::Pulling => ("Pulling", format!("pod {pod} waits for it")),
            }
        }
        Knowledge::Claimed { listed } => (
            "Claimed",
            format!("no proof; it is among the {listed} images that the node lists"),
        ),
        Knowledge::Skipped(why) => ("Skipped", why.clone()),
        Knowledge::Nothing { listed } => (
            "NotKnown",
            format!("no proof; the node lists {listed} images"),
        ),
    }
}

const fn at(knowledge: &Knowledge) -> Option<Timestamp> {
    match knowledge {
        Knowledge::OfPod {
            shown: Shown::Proved { since },
            ..
        } => *since,
        _ => None,
    }
}

/// Returns the namespace and the name of the pod.
fn pod(knowledge: &Knowledge) -> Option<(&str, &str)> {
    match knowledge {
        Knowledge::OfPod { namespace, pod, .. } => Some((namespace, pod)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Option<Timestamp> {
        Timestamp::from_second(second).ok()
    }

    fn known() -> Vec<Known> {
        let row = |node: &str, image: Option<&str>, knowledge| Known {
            node: node.into(),
            image: image.map(Into::into),
            knowledge,
        };
        let of_pod = |shown| Knowledge::OfPod {
            namespace: "warm".into(),
            pod: "p-1".into(),
            shown,
        };
        let why = "ErrImagePull: not found".into();
        vec![
            row(
                "n",
                Some("r.example/a:1"),
                of_pod(Shown::Proved { since: at(240) }),
            ),
            row("n", Some("r.example/b:1"), of_pod(Shown::Pulling)),
            row("n", Some("r.example/c:1"), of_pod(Shown::Failed(why))),
            row(
                "n",
                Some("r.example/d:1"),
                Knowledge::Claimed { listed: 50 },
            ),
            row(
                "n",
                Some("r.example/e:1"),
                Knowledge::Nothing { listed: 50 },
            ),
            row("v", None, Knowledge::Skipped("keeps no images".to_owned())),
        ]
    }

    #[test]
    fn the_table_says_what_is_known_and_how() {
        let text = show(
            &known(),
            false,
            Output::Table,
            Timestamp::from_second(300).unwrap(),
        )
        .unwrap();
        let expected = [
            "NODE   IMAGE           KNOWN      AGE   HOW",
            "n      r.example/a:1   Proved     60s   a container of pod p-1 has it",
            "n      r.example/b:1   Pulling    -     pod p-1 waits for it",
            "n      r.example/c:1   Failed     -     pod p-1 waits for it: ErrImagePull: not found",
            "n      r.example/d:1   Claimed    -     no proof; it is among the 50 images that the node lists",
            "n      r.example/e:1   NotKnown   -     no proof; the node lists 50 images",
            "v      -               Skipped    -     keeps no images",
        ];
        assert_eq!(text.lines().collect::<Vec<_>>(), expected, "{text}");
    }

    #[test]
    fn programs_get_names_and_times() {
        let json: Value = serde_json::from_str(
            &show(&known(), true, Output::Json, Timestamp::UNIX_EPOCH).unwrap(),
        )
        .unwrap();
        let of_pod = ["namespace", "pod"].map(|key| &json["images"][0][key]);
        assert_eq!(of_pod, [&json!("warm"), &json!("p-1")]);
        assert_eq!(
            (&json["images"][0]["since"], &json["images"][5]["image"]),
            (&json!("1970-01-01T00:04:00Z"), &Value::Null)
        );
    }

    /// Who may create pods in a namespace can imitate warmer pods there.
    #[test]
    fn of_all_namespaces_each_pod_is_named_with_its_own() {
        let text = show(&known(), true, Output::Table, Timestamp::UNIX_EPOCH).unwrap();
        for named in ["pod warm/p-1 has it", "pod warm/p-1 waits"] {
            assert!(text.contains(named), "{text}");
        }
    }
}
