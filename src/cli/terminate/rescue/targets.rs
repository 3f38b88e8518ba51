//! Selects the stuck pods that the command line names.

use std::collections::BTreeSet;

use anyhow::{anyhow, bail};
use k8s_openapi::api::core::v1::Pod as WholePod;
use kube::api::ListParams;
use kube::core::PartialObjectMeta;
use kube::{Api, Client};
use swaplet_controller::frame::list::{list_with, words};
use swaplet_core::objects::values::whole_object::WholeObject;

use super::rows::Stuck;

/// A pod or the pods of a Job, as named on the command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Target {
    Pod(String),
    Job(String),
}

impl Target {
    /// Parses a target; an error says in words what is wrong.
    pub(super) fn read(written: &str) -> Result<Self, String> {
        let (kind, name) = written.split_once('/').unwrap_or(("pod", written));
        match (kind, name) {
            (_, "") => Err(format!("the name of a {kind} is missing")),
            ("pod" | "pods" | "po", name) if !name.contains('/') => Ok(Self::Pod(name.to_owned())),
            ("job" | "jobs" | "job.batch" | "jobs.batch", name) if !name.contains('/') => {
                Ok(Self::Job(name.to_owned()))
            }
            _ => Err("pass NAME, pod/NAME or job/NAME".to_owned()),
        }
    }

    fn is(&self, stuck: &Stuck) -> bool {
        match self {
            Self::Pod(name) => *stuck.pod.name == **name,
            Self::Job(name) => {
                let job = stuck.pod.job.as_ref();
                job.is_some_and(|job| *job.name == **name)
            }
        }
    }

    fn words(&self) -> String {
        match self {
            Self::Pod(name) => format!("pod {name}"),
            Self::Job(name) => format!("Job {name}"),
        }
    }
}

/// Returns the named pods, or all if none is named; a remark reports each that is not stuck.
///
/// # Errors
/// None of the named pods is stuck.
pub(super) fn named(
    stuck: Vec<Stuck>,
    targets: &[Target],
    remark: impl Fn(&str),
) -> anyhow::Result<Vec<Stuck>> {
    if targets.is_empty() {
        return Ok(stuck);
    }
    let missing: Vec<_> = targets
        .iter()
        .filter(|target| !stuck.iter().any(|stuck| target.is(stuck)))
        .map(|target| format!("{} is not stuck: swaplet explain says why", target.words()))
        .collect();
    if missing.len() == targets.len() {
        bail!("{}", missing.join("; "));
    }
    missing.iter().for_each(|words| remark(words));
    let is_meant = |stuck: &Stuck| targets.iter().any(|target| target.is(stuck));
    Ok(stuck.into_iter().filter(is_meant).collect())
}

/// Returns the pods that a label selector matches.
///
/// # Errors
/// The API server refuses the selector, or the pods cannot be listed.
pub(super) async fn selected(
    client: &Client,
    namespace: Option<&str>,
    selector: &str,
    stuck: Vec<Stuck>,
) -> anyhow::Result<Vec<Stuck>> {
    let api: Api<WholeObject<PartialObjectMeta<WholePod>>> = match namespace {
        Some(namespace) => Api::namespaced(client.clone(), namespace),
        None => Api::all(client.clone()),
    };
    let uid = |pod: WholeObject<PartialObjectMeta<WholePod>>| pod.read()?.metadata.uid;
    let matched: BTreeSet<String> = list_with(&api, ListParams::default().labels(selector), uid)
        .await
        .map_err(|error| anyhow!("-l {selector}: {}", words(&error)))?
        .into_iter()
        .collect();
    let is_meant = |stuck: &Stuck| matched.contains(&*stuck.pod.uid);
    Ok(stuck.into_iter().filter(is_meant).collect())
}
