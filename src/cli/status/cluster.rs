//! The cluster from the view of an installation: the stuck pods, and the reasons.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::batch::v1::Job;
use kube::{Api, Client};
use swaplet_controller::cluster::rules::Rules;
use swaplet_controller::frame::clock::time_of_day;
use swaplet_controller::frame::list::{api_in, list, words};
use swaplet_controller::frame::remarks::is_forbidden;
use swaplet_controller::terminate::snapshot::policies::PodPolicies;
use swaplet_controller::terminate::snapshot::said::{self, Told};
use swaplet_controller::terminate::snapshot::{Scope, Snapshot, pods};
use swaplet_core::cluster::exit_images::ExitImages;
use swaplet_core::cluster::node_class::Recognised;
use swaplet_core::cluster::node_table::NodeTable;
use swaplet_core::objects::node::NodeWire;
use swaplet_core::objects::pod::{ContainerState, Pod, roles};
use swaplet_core::objects::values::whole_object::WholeObject;
use swaplet_core::report::denial::{By, Denial};
use swaplet_core::report::reason::Reason;

use super::installation::{Flags, Installation};
use crate::cli::terminate::unmarked::{Unmarked, namespace_flag};

/// The shortest wait of a stuck pod: a grace period and a pull take their time.
pub(super) const STUCK_SECONDS: i64 = 120;

/// The observed state; an error is the reason why it could not be read.
pub(super) struct Facts {
    pub(super) now: Timestamp,
    /// The number of nodes of each class.
    pub(super) nodes: Result<BTreeMap<&'static str, usize>, String>,
    pub(super) node_problems: Vec<String>,
    pub(super) pods: Result<Pods, String>,
    /// Jobs with pods on virtual nodes that are never deleted, as NAMESPACE/NAME.
    pub(super) kept_jobs: Result<BTreeSet<String>, String>,
    /// The Warnings of swaplet, newest first.
    pub(super) warnings: Result<Vec<Told>, String>,
}

#[derive(Default)]
pub(super) struct Pods {
    /// The pods whose main containers are done and whose sidecars are not, longest wait first.
    pub(super) stuck: Vec<Stuck>,
    /// True if the exit image is known: that of an installation.
    pub(super) knows_exit_image: bool,
    /// True if the installation ends no sidecars (`--terminate=false`).
    pub(super) is_idle: bool,
    /// True if there may be policies that name sidecars and could not be read.
    pub(super) policies_are_unread: bool,
    /// The nodes that have pulled the exit image, and those that cannot, with their messages.
    pub(super) pulled: BTreeSet<String>,
    pub(super) not_pulled: BTreeMap<String, String>,
    /// What is said of those that wait for containers that nothing marks; `None` if none does.
    pub(super) unmarked: Option<String>,
    /// What could not be read around the pods.
    pub(super) remarks: Vec<String>,
}

/// A pod that waits for its sidecars.
pub(super) struct Stuck {
    pub(super) namespace: String,
    pub(super) name: String,
    pub(super) since: Option<Timestamp>,
    /// The current decision of swaplet.
    pub(super) reason: Reason,
    /// True if `swaplet rescue` cannot end it either, until somebody changes something.
    pub(super) needs_a_hand: bool,
}

pub(super) async fn read(
    client: &Client,
    installation: Option<&Installation>,
    rules: anyhow::Result<Rules>,
) -> Facts {
    let flags = installation.and_then(|installation| installation.flags.as_ref().ok());
    let namespaces = flags.map(Flags::namespaces);
    let own = || client.default_namespace().to_owned();
    let scope = Scope {
        namespace: match namespaces {
            Some([one]) => Some(one.clone()),
            _ => installation.is_none().then(own),
        },
        state_namespace: flags.and_then(|flags| flags.one("state-namespace").map(str::to_owned)),
    };
    let reads_policies = flags.map(Flags::reads_policies);
    let mut policies = match &rules {
        Ok(rules) => {
            let namespace = scope.namespace.as_deref();
            PodPolicies::read(client, namespace, &rules.exit_images, reads_policies).await
        }
        Err(_) => PodPolicies::none(),
    };
    let mut listed = pods(client, &scope, &mut policies).await;
    if let (Ok(listed), Some(several @ [_, ..])) = (&mut listed, namespaces) {
        listed.retain(|pod| {
            several
                .iter()
                .any(|namespace| **namespace == *pod.namespace)
        });
    }
    let listed = listed.map_err(|error| why(&error));
    let built_in = NodeTable::built_in();
    let table = rules.as_ref().map_or(&built_in, |rules| &rules.node_table);
    let (nodes, node_problems, is_virtual) = nodes(client, table).await;
    let kept_jobs = match (&listed, &nodes) {
        (Ok(listed), Ok(_)) => kept_jobs(client, &scope, listed, &is_virtual).await,
        (Err(words), _) | (_, Err(words)) => Err(words.clone()),
    };
    let pods = match (listed, rules) {
        (Ok(listed), Ok(rules)) => Ok(Pods {
            knows_exit_image: flags.is_some(),
            is_idle: flags.is_some_and(|flags| !flags.is_on("terminate")),
            ..seen(client, rules, &scope, listed, &policies).await
        }),
        (Err(words), _) => Err(words),
        (_, Err(error)) => Err(format!("its flags: {error:#}")),
    };
    Facts {
        nodes,
        node_problems,
        pods,
        kept_jobs,
        warnings: warnings(client, &scope, namespaces.unwrap_or_default()).await,
        now: time_of_day(),
    }
}

type Nodes = (
    Result<BTreeMap<&'static str, usize>, String>,
    Vec<String>,
    BTreeSet<Box<str>>,
);

/// Returns the number of nodes per class, their problems, and the names of virtual nodes.
async fn nodes(client: &Client, table: &NodeTable) -> Nodes {
    let api: Api<NodeWire> = Api::all(client.clone());
    let nodes = match list(&api, "", NodeWire::read).await {
        Ok(nodes) => nodes,
        Err(error) => return (Err(why(&error)), Vec::new(), BTreeSet::new()),
    };
    let (mut classes, mut problems, mut are_virtual) =
        (BTreeMap::new(), Vec::new(), BTreeSet::new());
    for node in nodes {
        let recognised = Recognised::of(&node, table);
        *classes.entry(recognised.class.as_str()).or_default() += 1;
        let problem = recognised.problem.as_ref();
        problems.extend(problem.map(|problem| format!("node {}: {problem}", node.name)));
        if !recognised.class.is_kubelet() {
            are_virtual.insert(node.name);
        }
    }
    (Ok(classes), problems, are_virtual)
}

async fn seen(
    client: &Client,
    rules: Rules,
    scope: &Scope,
    listed: Vec<Pod>,
    policies: &PodPolicies,
) -> Pods {
    let mut seen = Pods {
        policies_are_unread: policies.are_unread(),
        ..Pods::default()
    };
    for pod in &listed {
        seen.note_exit_image(pod, &rules.exit_images);
    }
    let least = SignedDuration::from_secs(STUCK_SECONDS);
    let flag = namespace_flag(scope.namespace.as_deref());
    let unmarked = Unmarked::among(&listed, time_of_day(), least, policies.are_unread());
    seen.unmarked = unmarked.words(&flag);
    let snapshot = Snapshot::of_pods(client, rules, scope, listed).await;
    let stuck = snapshot
        .pods()
        .filter(|pod| roles::waits_for_sidecars(pod))
        .map(|pod| {
            let decision = snapshot.explain(pod).decision;
            let denied = snapshot.write_denied(pod, &decision);
            let reason = denied.map_or(decision.reason, |_| Reason::WriteDenied);
            let needs_a_hand = match denied.map(|note| Denial::of(note).by) {
                Some(by) => matches!(by, By::Other(_)),
                None => reason.needs_a_hand(),
            };
            Stuck {
                namespace: pod.namespace.to_string(),
                name: pod.name.to_string(),
                since: roles::mains_ended_at(pod),
                reason,
                needs_a_hand,
            }
        });
    seen.stuck = stuck.collect();
    seen.stuck
        .sort_by(|a, b| (a.since, &a.namespace, &a.name).cmp(&(b.since, &b.namespace, &b.name)));
    let mut remarks = policies.remarks().clone();
    remarks.extend(snapshot.remarks());
    seen.remarks = remarks.lines();
    seen
}

impl Pods {
    fn note_exit_image(&mut self, pod: &Pod, exit_images: &ExitImages) {
        for sidecar in roles::sidecars(pod).filter(|each| exit_images.contains(&each.image)) {
            let state = sidecar.status.as_ref().map(|status| &status.state);
            match state {
                Some(ContainerState::Waiting { reason, message }) if cannot_pull(reason) => {
                    let words = format!("{reason}: {message}");
                    self.not_pulled.insert(pod.node.to_string(), words);
                }
                Some(ContainerState::Terminated(_)) => {
                    self.pulled.insert(pod.node.to_string());
                }
                _ => {}
            }
        }
    }
}

fn cannot_pull(reason: &str) -> bool {
    matches!(
        reason,
        "ErrImagePull" | "ImagePullBackOff" | "InvalidImageName" | "ErrImageNeverPull"
    )
}

/// Returns the Jobs that incur costs until somebody deletes them.
async fn kept_jobs(
    client: &Client,
    scope: &Scope,
    pods: &[Pod],
    is_virtual: &BTreeSet<Box<str>>,
) -> Result<BTreeSet<String>, String> {
    let on_virtual = pods.iter().filter(|pod| is_virtual.contains(&pod.node));
    let jobs: BTreeSet<_> = on_virtual
        .filter_map(|pod| Some(format!("{}/{}", pod.namespace, pod.job.as_ref()?.name)))
        .collect();
    if jobs.is_empty() {
        return Ok(jobs);
    }
    let api: Api<WholeObject<Job>> = api_in(client, scope.namespace.as_deref());
    let kept = |job: WholeObject<Job>| {
        let job = job.read()?;
        let ttl = job.spec.and_then(|spec| spec.ttl_seconds_after_finished);
        let name = format!("{}/{}", job.metadata.namespace?, job.metadata.name?);
        (ttl.is_none() && jobs.contains(&name)).then_some(name)
    };
    let found = list(&api, "", kept).await.map_err(|error| why(&error))?;
    Ok(found.into_iter().collect())
}

/// Returns the Warnings about pods of these namespaces, or of all if there are none.
async fn warnings(
    client: &Client,
    scope: &Scope,
    namespaces: &[String],
) -> Result<Vec<Told>, String> {
    let found = said::read(client, scope.namespace.as_deref()).await;
    let mut found = found.map_err(|error| why(&error))?;
    let is_of = |told: &Told| {
        let (namespace, _) = told.about.split_once('/').unwrap_or_default();
        namespaces.is_empty() || namespaces.iter().any(|own| own == namespace)
    };
    found.retain(|told| told.said.warning && is_of(told));
    found.sort_by_key(|told| std::cmp::Reverse(told.said.at));
    Ok(found)
}

/// Returns why something cannot be read, in one clause.
fn why(error: &kube::Error) -> String {
    if is_forbidden(error) {
        "your rights do not allow it".to_owned()
    } else {
        words(error)
    }
}
