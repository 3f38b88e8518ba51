//! `swaplet warm --wait=false`: creates an `ImageListPullJob`, whichever controller handles it.

use std::time::Duration;

use anyhow::Context;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::api::{DynamicObject, PostParams};
use kube::{Api, Client};
use serde_json::{Value, json};
use swaplet_controller::frame::connection::discovery::Discovery;
use swaplet_controller::frame::list::words;
use swaplet_core::objects::values::label_selector;
use swaplet_core::warm::pull_job::object::JobKind;
use tokio::time::timeout;

use super::WarmArgs;
use crate::cli::program::table::{Output, json as as_json, yaml as as_yaml};

const KIND: JobKind = JobKind::ImageListPullJob;
/// The deadline of one request to the API server.
const ANSWER: Duration = Duration::from_secs(30);
/// A completed job is kept for a day, for inspection.
const TTL_SECONDS: u32 = 86_400;

/// Creates a job of this name for these images, and reports it.
///
/// # Errors
/// The selector cannot be parsed, the kind is not served, or the API server has refused the job.
pub(super) async fn create(
    client: Client,
    namespace: &str,
    name: &str,
    images: &[Box<str>],
    args: &WarmArgs,
) -> anyhow::Result<String> {
    let resource = KIND.resource();
    let body: DynamicObject = serde_json::from_value(json!({
        "apiVersion": resource.api_version, "kind": resource.kind, "metadata": {"name": name}, "spec": spec(images, args)?,
    }))?;
    if !Discovery::new(client.clone())
        .resources()
        .await
        .and_then(|resources| resources.serve_if_known(KIND.plural()))
        .map_err(anyhow::Error::msg)?
    {
        anyhow::bail!(
            "the API server has no ImageListPullJobs: apply deploy/crds/imagelistpulljobs.yaml and let `swaplet run --warm` run, or leave \
             --wait=false away"
        );
    }
    let jobs: Api<DynamicObject> = Api::namespaced_with(client, namespace, &resource);
    let created = timeout(ANSWER, jobs.create(&PostParams::default(), &body)).await;
    let created = created
        .context("no answer in time; see whether it is there: kubectl get imagelistpulljobs")?
        .map_err(|error| {
            anyhow::anyhow!(
                "cannot create an ImageListPullJob in {namespace}: {}",
                words(&error)
            )
        })?;
    Ok(match args.output {
        Output::Json => as_json(&json!(created)),
        Output::Yaml => as_yaml(&json!(created))?,
        Output::Name => format!("imagelistpulljob.apps.kruise.io/{name}\n"),
        Output::Table | Output::Wide => format!(
            "imagelistpulljob.apps.kruise.io/{name} created\n\
             `swaplet run --warm` or OpenKruise carries it out. To see its progress: kubectl get imagelistpulljob {name} -n {namespace}\n"
        ),
    })
}

fn spec(images: &[Box<str>], args: &WarmArgs) -> anyhow::Result<Value> {
    let mut spec = json!({
        "images": images,
        "parallelism": args.parallelism,
        "pullPolicy": {"timeoutSeconds": args.timeout, "backoffLimit": args.backoff_limit},
        "completionPolicy": {"type": "Always", "ttlSecondsAfterFinished": TTL_SECONDS},
    });
    if !args.pull_secrets.is_empty() {
        spec["pullSecrets"] = json!(args.pull_secrets);
    }
    match (args.on.nodes.is_empty(), args.on.selector.is_empty()) {
        (false, false) => anyhow::bail!(
            "a job takes either -l or --node: give one of them, or leave --wait=false away"
        ),
        (false, true) => spec["selector"] = json!({"names": args.on.nodes}),
        (true, false) => {
            let selector = label_selector::parse(&args.on.selector)
                .map_err(|problem| anyhow::anyhow!("-l {:?}: {problem}", args.on.selector))?;
            spec["selector"] = json!(LabelSelector::from(selector));
        }
        (true, true) => {}
    }
    Ok(spec)
}
