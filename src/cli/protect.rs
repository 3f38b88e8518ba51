//! `swaplet protect`: lists what is protected from deletion, and by what.

use std::collections::BTreeSet;
use std::process::ExitCode;

use anyhow::{anyhow, ensure};
use clap::Args;
use kube::api::{ApiResource, ListParams};
use kube::core::GroupVersionKind;
use kube::{Api, Client};
use serde_json::json;
use swaplet_controller::frame::list::{is_page, list_with, words};
use swaplet_core::objects::values::bounded_object::BoundedObject;
use swaplet_core::protect::kinds::{Cascading, KINDS, ProtectedKind};
use swaplet_core::protect::object::{GuardedKind, LABEL, Mode};

use crate::cli::client::ClusterArgs;
use crate::cli::exit::{FAILED, code};
use crate::cli::print;
use crate::cli::program::process::slowly;
use crate::cli::program::table::{Output, render};
use crate::cli::status::ask::bound_policies;

/// The suffixes of the policy names in `deploy/protection.yaml`.
const POLICIES: [&str; 3] = [
    "protection-workloads",
    "protection-network",
    "protection-contents",
];

const EXAMPLES: &str = "\
Examples:
  # What of the namespace cannot be deleted, the namespace itself among it
  swaplet protect --list -n shop

  # All of the cluster, CRDs too
  swaplet protect --list -A

  # What can be deleted although it has the label
  swaplet protect --list -A -o json | jq '.protected[] | select(.heldBy == null)'

An object is protected by the label policy.kruise.io/delete-protection, Always or Cascading, where \
the admission policies of deploy/protection.yaml are installed; standard error says whether they \
are. HELD BY is the text of a denial: the label, replicas, or what swaplet run --protect has \
counted in a Namespace or CRD.

Your own rights are enough: list the kinds. Kinds that you may not list are reported, and the \
others are printed.

Exit codes: 0 what is protected was printed; 1 something may not be listed; 2 wrong usage, or the \
cluster cannot be read.";

/// List what is protected from deletion, and what holds it
///
/// Finds it by its label, whether or not a controller runs.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct ProtectArgs {
    /// List what has the label
    #[arg(long)]
    list: bool,
    /// Only this namespace and what is in it; may be given several times [default: that of the
    /// context]
    #[arg(short, long = "namespace", value_name = "NAMESPACE")]
    namespaces: Vec<String>,
    /// All namespaces, and CRDs
    #[arg(short = 'A', long, conflicts_with = "namespaces")]
    all_namespaces: bool,
    /// How to print what is protected
    #[arg(short, long, value_enum, default_value_t = Output::Table)]
    output: Output,
    #[command(flatten)]
    cluster: ClusterArgs,
}

/// An object with the label.
struct Labelled {
    kind: &'static str,
    namespace: String,
    name: String,
    /// The value of the label.
    label: String,
    /// True if the label protects.
    is_valid: bool,
    held_by: Option<String>,
}

impl ProtectArgs {
    pub(super) async fn run(self) -> anyhow::Result<ExitCode> {
        ensure!(self.list, "nothing to do: pass --list");
        let client = self.cluster.client_that_answers().await?;
        let mut namespaces: BTreeSet<String> = self.namespaces.into_iter().collect();
        if namespaces.is_empty() && !self.all_namespaces {
            namespaces.insert(client.default_namespace().to_owned());
        }
        let (found, failed) = slowly(
            "reading what has the label",
            list_labelled(&client, &namespaces),
        )
        .await?;
        print(&show(&found, self.output)?)?;
        if found.is_empty() && failed.is_empty() {
            let names: Vec<_> = namespaces.iter().map(String::as_str).collect();
            let place = match names.is_empty() {
                true => String::new(),
                false => format!(" in {}", names.join(", ")),
            };
            say!("Nothing{place} has the label {LABEL}.");
        }
        failed.iter().for_each(|words| say!("error: {words}"));
        if let Some(words) = missing_policies(&client).await {
            say!("{words}");
        }
        Ok(code(failed.is_empty(), FAILED))
    }
}

/// Lists the labelled objects, and the kinds that may not be listed; no `namespaces` means all.
async fn list_labelled(
    client: &Client,
    namespaces: &BTreeSet<String>,
) -> anyhow::Result<(Vec<Labelled>, Vec<String>)> {
    let (mut found, mut failed) = (Vec::new(), Vec::new());
    let mut forbidden = Vec::new();
    for kind in &KINDS {
        let is_of_cluster =
            kind.cascading == Cascading::Contents(GuardedKind::CustomResourceDefinition);
        if is_of_cluster && !namespaces.is_empty() {
            continue;
        }
        // Two kinds of two groups have one name.
        let name = [kind.plural, kind.group].join(".");
        let name = name.trim_end_matches('.');
        let failure = |error| format!("cannot list {name}: {}", words(&error));
        match labelled(client, kind, namespaces).await {
            Ok(objects) => found.extend(objects),
            Err(kube::Error::Api(status)) if status.is_forbidden() => {
                forbidden.push(name.to_owned())
            }
            Err(kube::Error::Api(status)) if !is_page(&status) => {
                failed.push(failure(kube::Error::Api(status)));
            }
            // The other requests would not be answered either.
            Err(error) => return Err(anyhow!(failure(error))),
        }
    }
    if !forbidden.is_empty() {
        failed.push(format!(
            "your rights do not allow to list {}: which of them have the label is not known",
            forbidden.join(", ")
        ));
    }
    Ok((found, failed))
}

/// Lists the labelled objects of a kind; empty if the kind is not served.
async fn labelled(
    client: &Client,
    kind: &'static ProtectedKind,
    namespaces: &BTreeSet<String>,
) -> kube::Result<Vec<Labelled>> {
    for version in kind.versions {
        match labelled_as(client, kind, version, namespaces).await {
            Err(kube::Error::Api(status)) if status.code == 404 && !is_page(&status) => {}
            answer => return answer,
        }
    }
    Ok(Vec::new())
}

async fn labelled_as(
    client: &Client,
    kind: &'static ProtectedKind,
    version: &str,
    namespaces: &BTreeSet<String>,
) -> kube::Result<Vec<Labelled>> {
    let gvk = GroupVersionKind::gvk(kind.group, version, kind.kind);
    let resource = ApiResource::from_gvk_with_plural(&gvk, kind.plural);
    let apis: Vec<Api<BoundedObject>> = if namespaces.is_empty() || !kind.is_namespaced() {
        vec![Api::all_with(client.clone(), &resource)]
    } else {
        let of = |namespace: &String| Api::namespaced_with(client.clone(), namespace, &resource);
        namespaces.iter().map(of).collect()
    };
    let mut found = Vec::new();
    for api in apis {
        let all = list_with(&api, ListParams::default().labels(LABEL), |object| {
            read(kind, object)
        });
        found.extend(all.await?);
    }
    found.retain(|object| {
        kind.is_namespaced() || namespaces.is_empty() || namespaces.contains(&object.name)
    });
    Ok(found)
}

fn read(kind: &'static ProtectedKind, object: BoundedObject) -> Option<Labelled> {
    let label = object.metadata.labels.as_ref()?.get(LABEL)?.clone();
    let mode: Option<Mode> = label.parse().ok();
    let held_by = mode.and_then(|mode| kind.held_by(&object, mode));
    Some(Labelled {
        kind: kind.kind,
        namespace: object.metadata.namespace.unwrap_or_default(),
        name: object.metadata.name?,
        is_valid: mode.is_some(),
        label,
        held_by,
    })
}

/// Returns which policies are missing, if any; `None` also if the caller may not list them.
async fn missing_policies(client: &Client) -> Option<String> {
    let bound = match bound_policies(client).await {
        Ok(bound) => bound,
        // Before Kubernetes 1.30 there are none.
        Err(kube::Error::Api(status)) if status.code == 404 && !is_page(&status) => Vec::new(),
        Err(error) => {
            return Some(format!(
                "Whether the admission policies of deploy/protection.yaml are there, without which the label protects nothing, is not known: {}",
                words(&error)
            ));
        }
    };
    let is_missing = |name: &&&str| {
        let suffix = format!("-{name}");
        !bound.iter().any(|policy| policy.ends_with(&suffix))
    };
    let missing: Vec<&str> = POLICIES.iter().filter(is_missing).copied().collect();
    (!missing.is_empty()).then(|| {
        format!(
            "The label protects nothing where the admission policies are not installed, and no binding denies by {}: apply \
             deploy/protection.yaml, or set protection.enabled in the chart.",
            missing.join(", ")
        )
    })
}

fn show(objects: &[Labelled], output: Output) -> anyhow::Result<String> {
    let row = |object: &Labelled| {
        let held_by = object.held_by.as_deref();
        let held_by = held_by.unwrap_or(if object.is_valid {
            "nothing: it can be deleted"
        } else {
            "nothing: write Always or Cascading"
        });
        let line = vec![
            ("KIND", object.kind.to_owned()),
            ("NAMESPACE", object.namespace.clone()),
            ("NAME", object.name.clone()),
            ("MODE", object.label.clone()),
            ("HELD BY", held_by.to_owned()),
        ];
        let namespace = Some(&object.namespace).filter(|namespace| !namespace.is_empty());
        let value = json!({"kind": object.kind, "namespace": namespace, "name": object.name, "mode": object.label, "heldBy": object.held_by});
        (line, value)
    };
    let (lines, values): (Vec<_>, Vec<_>) = objects.iter().map(row).unzip();
    render(output, &lines, &json!({ "protected": values }))
}
