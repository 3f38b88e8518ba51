//! A snapshot of the cluster: the knowledge of a controller that has watched since the main
//! containers ended. Nothing is written, and what cannot be read is reported.

pub mod policies;
pub mod said;

use std::time::Duration;

use jiff::Timestamp;
use kube::{Api, Client};
use swaplet_core::image::reference::ImageReference;
use swaplet_core::objects::job::JobWire;
use swaplet_core::objects::moment::Moment;
use swaplet_core::objects::node::NodeWire;
use swaplet_core::objects::pod::wire::PodWire;
use swaplet_core::objects::pod::{Pod, roles};
use swaplet_core::report::decision::Decision;
use swaplet_core::report::reason::Reason;
use swaplet_core::terminate::explain::Explanation;
use tokio::time::timeout;

use self::policies::PodPolicies;
use self::said::{AllSaid, Said};
use super::JOB_PODS;
use super::index::Index;
use super::job_events::take_notice;
use crate::cluster::openkruise::{News, Scope as OpenKruiseScope, observe};
use crate::cluster::rules::Rules;
use crate::cluster::verdict_store::{AllKept, all_in};
use crate::frame::clock::time_of_day;
use crate::frame::connection::discovery::Discovery;
use crate::frame::list::{api_in, list, words};
use crate::frame::remarks::Remarks;
use crate::frame::watch::Event;

/// The time of the snapshot on the clock of the index: anything older counts as this old.
const NOW: Moment = Moment::after_start(Duration::from_secs(400 * 24 * 3600));
/// The deadline for reading all about OpenKruise.
const OPENKRUISE: Duration = Duration::from_secs(30);

/// The part of the cluster to read.
#[derive(Clone, Debug, Default)]
pub struct Scope {
    /// The namespace of pods and Jobs; `None` for all.
    pub namespace: Option<String>,
    /// The namespace in which the controller keeps node verdicts; `None` if it is not known.
    pub state_namespace: Option<String>,
}

/// The cluster, or one namespace of it.
pub struct Snapshot {
    index: Index,
    /// `None` where Events cannot be read.
    said: Option<AllSaid>,
    kept: AllKept,
    today: Timestamp,
    remarks: Remarks,
}

impl Snapshot {
    /// Reads everything that decisions about these pods of the scope depend on, as [`pods`] has
    /// listed them. [`Snapshot::remarks`] reports what cannot be read.
    pub async fn of_pods(client: &Client, rules: Rules, scope: &Scope, pods: Vec<Pod>) -> Self {
        let mut snapshot = Self::around(client, rules, scope, None).await;
        snapshot.fill(pods);
        snapshot
    }

    /// Reads everything that the decision about one pod depends on, including the other pods of its
    /// namespace, because their restarts count together.
    pub async fn of_pod(
        client: &Client,
        rules: Rules,
        scope: &Scope,
        policies: &mut PodPolicies,
        pod: &Pod,
    ) -> Self {
        let scope = Scope {
            namespace: Some(pod.namespace.to_string()),
            ..scope.clone()
        };
        let mut snapshot = Self::around(client, rules, &scope, Some(pod)).await;
        let listed = pods(client, &scope, policies).await;
        let mut pods = listed.unwrap_or_else(|error| {
            snapshot.remarks.unread(
                "the other pods of the namespace",
                &error,
                "restarts of other pods of its Job are not counted",
            );
            Vec::new()
        });
        // The pod as it was read by its name, because the question is about that one.
        pods.retain(|other| other.uid != pod.uid);
        pods.push(pod.clone());
        snapshot.fill(pods);
        snapshot
    }

    /// Returns what could not be read or is wrong with a node, and the consequence.
    pub const fn remarks(&self) -> &Remarks {
        &self.remarks
    }

    /// Explains the decision about a pod now, step by step. An image that swaplet has written to
    /// the pod before counts as an exit image for this pod, whatever the rules say.
    pub fn explain(&self, pod: &Pod) -> Explanation {
        match self.unknown_exit_image(pod) {
            Some(image) => self
                .index
                .explain_with(&image, pod, self.seen_since(pod), NOW),
            None => self.index.explain(pod, NOW),
        }
    }

    /// Returns the image of a sidecar that swaplet has written according to its Event, and that
    /// these rules do not list as an exit image: another installation wrote it. It counts for this
    /// pod alone, because anybody who may write Events of a namespace can claim it.
    pub fn unknown_exit_image(&self, pod: &Pod) -> Option<ImageReference> {
        let said = self.said.as_ref()?;
        roles::sidecars(pod)
            .filter(|sidecar| !self.index.rules().exit_images.contains(&sidecar.image))
            .find(|sidecar| said.names(pod, &sidecar.image))
            .and_then(|sidecar| ImageReference::parse(&sidecar.image).ok())
    }

    /// Returns the pods with work pending, now or later, in no order.
    pub fn pods(&self) -> impl Iterator<Item = &Pod> {
        self.index.pods()
    }

    /// Returns the Events about the pod and its Job, oldest first; `None` if Events cannot be read.
    pub fn said(&self, pod: &Pod) -> Option<Vec<&Said>> {
        Some(self.said.as_ref()?.about(pod))
    }

    /// Returns the note of the Event that says that a write like the one that is decided is not
    /// applied. What was denied before another write was reported is past; what only says that
    /// nothing was written, or is about the Job, changes nothing.
    pub fn write_denied(&self, pod: &Pod, decision: &Decision) -> Option<&str> {
        let verb = decision.action.as_ref()?.verb();
        let said = self.said(pod)?.into_iter().rev();
        let still = |said: &&Said| {
            let reason = said.reason();
            reason.is_some_and(|reason| match reason {
                Reason::FinishNotQuiet => true,
                Reason::SwapUndone => false,
                _ => reason.needs_a_hand() || reason.regards_job() || reason.regards_restart(),
            })
        };
        let is_denial = |said: &&Said| said.reason() == Some(Reason::WriteDenied);
        let mut denied = said.take_while(still).filter(is_denial);
        Some(&denied.find(|said| said.note.contains(verb))?.note)
    }

    /// Returns what was proved about nodes.
    pub const fn kept(&self) -> &AllKept {
        &self.kept
    }

    /// Returns the time of the snapshot.
    pub const fn taken_at(&self) -> Timestamp {
        self.today
    }

    /// Reads what there is around pods; of nodes and Jobs those of the `only` pod, if there is one.
    async fn around(client: &Client, rules: Rules, scope: &Scope, only: Option<&Pod>) -> Self {
        let openkruise =
            OpenKruiseScope::of(scope.namespace.iter().cloned().collect(), &rules, false);
        let mut snapshot = Self {
            index: Index::new(rules),
            said: None,
            kept: AllKept::new(),
            today: time_of_day(),
            remarks: Remarks::default(),
        };
        snapshot.index.set_time(NOW, snapshot.today);
        snapshot.read_nodes(client, only).await;
        snapshot.read_verdicts(client, scope).await;
        snapshot.read_openkruise(client, openkruise).await;
        snapshot.read_jobs(client, scope, only).await;
        snapshot.read_events(client, scope).await;
        snapshot
    }

    async fn read_nodes(&mut self, client: &Client, only: Option<&Pod>) {
        match list(
            &Api::<NodeWire>::all(client.clone()),
            &by_name(only.map(|pod| &*pod.node)),
            Some,
        )
        .await
        {
            Ok(nodes) => {
                for event in Event::list_of(nodes) {
                    let problem = self.index.nodes.observe(event).problem;
                    if let Some((node, problem)) = problem {
                        self.remarks.push(format!("node {node}: {problem}"));
                    }
                }
            }
            Err(error) => {
                self.index.nodes.hide();
                let so =
                    "each counts as Unknown; a controller that may read them can decide otherwise";
                self.remarks.unread("nodes", &error, so);
            }
        }
    }

    async fn read_verdicts(&mut self, client: &Client, scope: &Scope) {
        match all_in(client, scope.state_namespace.as_deref()).await {
            // Anybody may write one of this name somewhere, and so choose how the pods of others end.
            Ok(kept) if scope.state_namespace.is_none() => {
                if !kept.is_empty() {
                    self.remarks.push("what was proved on nodes does not count, because it is not known which ConfigMap swaplet-node-verdicts is that of a controller: name its namespace with --state-namespace");
                }
            }
            Ok(kept) => {
                self.index.nodes.restore_kept(kept.clone(), NOW, self.today);
                self.kept = kept;
            }
            Err(error) => {
                let so = "proofs on nodes are not known here";
                let place = scope.state_namespace.as_deref();
                let place = place.map_or("all namespaces".to_owned(), |name| {
                    format!("namespace {name}")
                });
                self.remarks
                    .unread(&format!("ConfigMaps of {place}"), &error, so);
            }
        }
    }

    /// Reads OpenKruise like the controller, until everything has been read once.
    async fn read_openkruise(&mut self, client: &Client, scope: OpenKruiseScope) {
        if !scope.wanted {
            return;
        }
        let mut news = observe(Discovery::new(client.clone()), scope);
        let all = async {
            while let Some(news) = news.recv().await {
                let is_all = news == News::Seen;
                if let News::Trouble(trouble) | News::Lacks(_, trouble) = &news {
                    self.remarks.push(format!(
                        "OpenKruise cannot be read completely ({trouble}): the rest of it counts"
                    ));
                }
                self.index.handle(news, NOW);
                if is_all {
                    break;
                }
            }
        };
        if timeout(OPENKRUISE, all).await.is_err() {
            self.remarks.push("the API server does not answer whether OpenKruise is installed: until that is known, swaplet does nothing");
        }
    }

    async fn read_jobs(&mut self, client: &Client, scope: &Scope, only: Option<&Pod>) {
        let job = only.and_then(|pod| pod.job.as_ref());
        if only.is_some() && job.is_none() {
            return;
        }
        let api: Api<JobWire> = api_in(client, scope.namespace.as_deref());
        let events = match list(&api, &by_name(job.map(|job| &*job.name)), Some).await {
            Ok(jobs) => Event::list_of(jobs).collect(),
            Err(error) => {
                let so = "how many restarts a Job allows is not known, and under OnFailure no image is changed without that";
                self.remarks.unread("Jobs", &error, so);
                vec![Event::Trouble(words(&error))]
            }
        };
        for event in events {
            self.index
                .jobs(|headroom| take_notice(headroom, event), NOW);
        }
    }

    async fn read_events(&mut self, client: &Client, scope: &Scope) {
        match said::read(client, scope.namespace.as_deref()).await {
            Ok(told) => self.said = Some(AllSaid::of(told)),
            Err(error) => {
                let so = "earlier actions are not known here";
                self.remarks.unread("Events", &error, so);
            }
        }
    }

    /// Adds the pods, each as if observed since its last change, and reconciles all of them now.
    fn fill(&mut self, pods: Vec<Pod>) {
        let mut pods: Vec<_> = pods
            .into_iter()
            .map(|pod| (self.seen_since(&pod), pod))
            .collect();
        pods.sort_by_key(|(since, _)| *since);
        self.index.list_starts();
        for (since, pod) in pods {
            self.index.apply(pod, since);
        }
        self.index.list_ends(NOW);
        self.index.enqueue_where(|_| true);
        self.index.wake(NOW);
        self.index.take_effects();
    }

    /// Returns when a controller that was always watching would have observed the last step of the
    /// work on the pod: the end of its main containers, or a write to it. Where a write has begun
    /// and no Event gives its time, that is now.
    fn seen_since(&self, pod: &Pod) -> Moment {
        let wrote = self.said.as_ref().and_then(|said| said.wrote(pod));
        let begun = self.index.is_begun(pod) || self.unknown_exit_image(pod).is_some();
        let last = if begun {
            wrote
        } else {
            roles::mains_ended_at(pod).max(wrote)
        };
        let age = last.map_or(0, |last| last.duration_until(self.today).as_secs());
        NOW - Duration::from_secs(u64::try_from(age).unwrap_or_default())
    }
}

fn by_name(name: Option<&str>) -> String {
    name.map(|name| format!("metadata.name={name}"))
        .unwrap_or_default()
}

/// Lists every pod of the scope that can be one of a Job, with the rules of the policies.
///
/// # Errors
/// The pods cannot be listed.
pub async fn pods(
    client: &Client,
    scope: &Scope,
    policies: &mut PodPolicies,
) -> kube::Result<Vec<Pod>> {
    let api: Api<PodWire> = api_in(client, scope.namespace.as_deref());
    let listed = list(&api, JOB_PODS, Some).await?;
    let read = |pod| policies.read_pod(pod);
    Ok(listed.into_iter().filter_map(read).collect())
}
