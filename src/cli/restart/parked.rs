//! `swaplet parked`: lists containers that wait in the park image, and brings them back where no
//! controller does.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::anyhow;
use clap::Args;
use clap::builder::NonEmptyStringValueParser;
use kube::Client;
use serde_json::{Value, json};
use swaplet_controller::frame::list::words;
use swaplet_controller::frame::writer::{Writer, leash};
use swaplet_controller::restart::parked::{ParkedPod, bring_back, parked};
use swaplet_core::report::write_error::WriteError;
use tokio::time::{Instant, sleep};

use crate::cli::client::{ClusterArgs, place_of};
use crate::cli::duration::seconds;
use crate::cli::exit::{FAILED, code};
use crate::cli::print;
use crate::cli::program::process::slowly;
use crate::cli::program::table::{Output, counted, render, report};

/// The deadline of one write.
const WRITE: Duration = Duration::from_secs(30);
/// How long bringing a container back is retried, after the wait for a controller.
const TRYING: Duration = Duration::from_secs(30);
const BETWEEN_LOOKS: Duration = Duration::from_secs(1);

const EXAMPLES: &str = "\
Examples:
  # What is parked anywhere, and for which request
  swaplet parked -A

  # Before swaplet is removed, or when it no longer works: bring back all that does not
  # come back by itself
  swaplet parked -A --restore

A container whose image has no other spelling is restarted by putting it into the park image and \
back (swaplet run --park-image). That takes seconds, and a restarted controller continues it. \
Without a controller the container would wait forever: the annotation swaplet.io/parked of its pod \
records which image it had, and --restore puts that back, as a controller does for requests that \
were deleted. The restart is then done: the container starts again.

That annotation is trusted only if the API server prevents others from writing it: --restore \
checks the admission policies first (--leash), and if they are missing, it prints which containers \
are parked. Compare the images with those of the owners of the pods before you pass \
--without-leash.

Your own rights are enough: list pods; for --restore also patch them, and get the two \
ValidatingAdmissionPolicyBindings. The chart runs this before it is uninstalled.

Exit codes: 0 what is parked was printed, or with --restore nothing is still parked; 1 some \
containers are still parked, or may be, each with the reason; 2 wrong usage, or the pods cannot be read.";

/// List the containers that are parked, and bring them back
///
/// Finds them by what their pods say, whether or not a controller or a request is left.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct ParkedArgs {
    /// Only pods of this namespace; may be given several times [default: that of the context]
    #[arg(short, long = "namespace", value_name = "NAMESPACE")]
    namespaces: Vec<String>,
    /// Pods of all namespaces
    #[arg(short = 'A', long, conflicts_with = "namespaces")]
    all_namespaces: bool,
    /// Give the containers their previous images back
    #[arg(long)]
    restore: bool,
    /// How long a controller may bring them back before --restore does
    #[arg(long, value_name = "DURATION", default_value = "20s", value_parser = seconds(0..=u32::MAX), requires = "restore")]
    wait: u32,
    /// The leash that --restore looks for: the ValidatingAdmissionPolicyBindings NAME-pods and
    /// NAME-parked, which prevent everybody but swaplet from writing what pods record of their
    /// images
    #[arg(long, value_name = "NAME", default_value = "swaplet-leash", env = "SWAPLET_LEASH", value_parser = NonEmptyStringValueParser::new())]
    leash: String,
    /// Restore even without the leash. Then anyone who may write metadata of pods, even by their
    /// status alone, chooses the images that the containers get
    #[arg(long, requires = "restore")]
    without_leash: bool,
    /// How to print what is parked
    #[arg(short, long, value_enum, default_value_t = Output::Table)]
    output: Output,
    #[command(flatten)]
    cluster: ClusterArgs,
}

impl ParkedArgs {
    pub async fn run(self) -> anyhow::Result<ExitCode> {
        let client = self.cluster.client().await?;
        let namespaces = match self.namespaces {
            _ if self.all_namespaces => vec![None],
            given if given.is_empty() => vec![Some(client.default_namespace().to_owned())],
            given => given.into_iter().map(Some).collect(),
        };
        let list = || list_parked(&client, &namespaces);
        if !self.restore {
            let found = list().await?;
            print(&show(&found, self.output)?)?;
            found.iter().flat_map(told).for_each(|line| report(&line));
            if found.is_empty() {
                say!("No container is parked{}.", place(&namespaces));
            }
            return Ok(ExitCode::SUCCESS);
        }
        let trusted = match self.without_leash {
            true => Ok(()),
            false => leash::verify(&client, &self.leash, "--without-leash").await,
        };
        if let Err(words) = trusted {
            let found = list().await?;
            print(&show(&found, self.output)?)?;
            found.iter().flat_map(told).for_each(|line| report(&line));
            if found.is_empty() {
                say!("No container is parked.");
                return Ok(ExitCode::SUCCESS);
            }
            report(&format!("error: nothing was restored: {words}"));
            return Ok(ExitCode::from(FAILED));
        }
        let left = restore(&client, list, Duration::from_secs(self.wait.into())).await?;
        print(&show(&left, self.output)?)?;
        Ok(code(left.is_empty(), FAILED))
    }
}

/// Formats the namespaces like kubectl's messages about missing objects.
fn place(namespaces: &[Option<String>]) -> String {
    let names: Vec<&str> = namespaces.iter().flatten().map(String::as_str).collect();
    match names[..] {
        [] => String::new(),
        [name] => format!(" in namespace {name}"),
        _ => format!(" in namespaces {}", names.join(", ")),
    }
}

async fn list_parked(
    client: &Client,
    namespaces: &[Option<String>],
) -> anyhow::Result<Vec<ParkedPod>> {
    let mut found = Vec::new();
    for namespace in namespaces {
        let place = place_of(namespace.as_deref());
        let listed = slowly(
            &format!("reading the pods of {place}"),
            parked(client, namespace.as_deref()),
        )
        .await;
        found.extend(
            listed
                .map_err(|error| anyhow!("cannot list the pods of {place}: {}", words(&error)))?,
        );
    }
    Ok(found)
}

/// Brings the pods back after `wait`; returns those that are still parked.
async fn restore<L>(
    client: &Client,
    list: impl Fn() -> L,
    wait: Duration,
) -> anyhow::Result<Vec<ParkedPod>>
where
    L: Future<Output = anyhow::Result<Vec<ParkedPod>>>,
{
    let writer = Writer::new(client.clone(), WRITE);
    let start = Instant::now();
    let mut reasons = Vec::new();
    let mut is_first = true;
    loop {
        let found = list().await?;
        let waited = start.elapsed();
        if found.is_empty() {
            say!("No container is parked.");
            return Ok(found);
        }
        let may_come_back = found.iter().any(|pod| !pod.swaps().is_empty());
        if waited >= wait && (!may_come_back || waited >= wait + TRYING) {
            reasons.extend(found.iter().flat_map(told));
            reasons
                .iter()
                .for_each(|reason| report(&format!("error: {reason}")));
            return Ok(found);
        }
        if waited >= wait {
            reasons = bring_all_back(&writer, found).await;
        } else if is_first {
            say!(
                "{} with parked containers; a controller may bring them back for {} s",
                counted(found.len(), "pod"),
                wait.as_secs()
            );
        }
        is_first = false;
        sleep(BETWEEN_LOOKS).await;
    }
}

/// Says of each container of a pod that cannot come back why, and what to do.
fn told(pod: &ParkedPod) -> Vec<String> {
    let (namespace, name) = pod.key();
    let words = pod.stays().iter();
    words
        .map(|words| format!("{namespace}/{name}: {words}"))
        .collect()
}

/// Brings all pods back; returns the reasons of those that were not.
async fn bring_all_back(writer: &Writer, pods: Vec<ParkedPod>) -> Vec<String> {
    let mut reasons = Vec::new();
    for pod in pods {
        if pod.swaps().is_empty() {
            continue;
        }
        let (namespace, name) = pod.key();
        let place = format!("{namespace}/{name}");
        let images: Vec<_> = pod
            .swaps()
            .iter()
            .map(|swap| format!("{} has {} again", swap.container, swap.to))
            .collect();
        match bring_back(writer, pod).await {
            Ok(()) => report(&format!("{place}: {}", images.join(", "))),
            Err(WriteError::Denied(words) | WriteError::Failed { error: words, .. }) => {
                reasons.push(format!("{place}: {words}"))
            }
            Err(WriteError::Conflict) => reasons.push(format!("{place}: it keeps changing; retry")),
            Err(WriteError::Gone) => {}
        }
    }
    reasons
}

fn show(pods: &[ParkedPod], output: Output) -> anyhow::Result<String> {
    let (mut lines, mut values) = (Vec::new(), Vec::new());
    for pod in pods {
        let ((namespace, name), request) = (pod.key(), pod.request());
        let mut add = |container: &str, image: &str, more: (&str, &str)| {
            lines.push(vec![
                ("NAMESPACE", namespace.to_owned()),
                ("POD", name.to_owned()),
                ("CONTAINER", container.to_owned()),
                ("IMAGE", image.to_owned()),
                ("REQUEST", request.to_owned()),
            ]);
            let mut value = json!({"namespace": namespace, "pod": name, "container": container, "image": image, "request": request});
            value[more.0] = Value::from(more.1);
            values.push(value);
        };
        for swap in pod.swaps() {
            add(&swap.container, &swap.to, ("parkImage", &*swap.from));
        }
        for words in pod.stays() {
            let container = words.split(' ').next().unwrap_or_default();
            add(container, "", ("stays", words.as_str()));
        }
    }
    render(output, &lines, &json!({ "parked": values }))
}
