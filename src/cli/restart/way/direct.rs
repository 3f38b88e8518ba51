//! Restarts without requests, where the API server does not serve them. The decision of `swaplet
//! run --restart` about a request is taken here, by the same function, about one that exists in
//! this process only. Only the images of the pods are written, with the user's own rights.

use std::collections::BTreeMap;
use std::time::Duration;

use super::Heard;
use super::StrategyArgs;
use super::asked::body;
use crate::cli::program::rights::may_patch;
use crate::cli::program::table::report;
use crate::cli::restart::member::{Member, Outcome};
use crate::cli::restart::{get, plain};
use anyhow::{Context, bail, ensure};
use kube::{Api, Client};
use swaplet_controller::frame::clock::{Clock, time_of_day};
use swaplet_controller::frame::list::{list, words};
use swaplet_controller::frame::writer::{Target, Writer};
use swaplet_controller::restart::write::{RestartWrite, Stored};
use swaplet_core::cluster::exit_images::ExitImages;
use swaplet_core::cluster::headroom::{Headroom, Ledger, Need, Swapped};
use swaplet_core::cluster::node_class::{NodeClass, Recognised};
use swaplet_core::cluster::node_table::NodeTable;
use swaplet_core::objects::job::JobWire;
use swaplet_core::objects::node::{KubeletVersion, NodeWire};
use swaplet_core::objects::pod::wire::PodWire;
use swaplet_core::objects::pod::{Pod, RestartPolicy};
use swaplet_core::objects::recreate_request::RequestPhase;
use swaplet_core::objects::runs_on::RunsOn;
use swaplet_core::report::denial::is_no_verdict;
use swaplet_core::report::shell_word::shell_word;
use swaplet_core::report::write_error::WriteError;
use swaplet_core::restart::pod::{RestartPod, RestartPodWire};
use swaplet_core::restart::reconcile::{Action, Around, Memory, Sight, decide, restarts_coming};
use swaplet_core::restart::request::{RestartRequest, RestartRequestWire};

/// The deadline of one write.
const WRITE: Duration = Duration::from_secs(30);
/// The pause after a write that was not applied.
const AGAIN: Duration = Duration::from_secs(5);
/// The pause after a write to a pod that had changed meanwhile, in which other pods have their turn.
const LOOK_AGAIN: Duration = Duration::from_secs(1);
/// The maximum number of steps in a row: accepting a request, and for each container recording,
/// changing and reporting.
const STEPS: usize = 64;

/// The restarts in progress.
pub struct Direct {
    client: Client,
    namespace: String,
    strategy: StrategyArgs,
    writer: Writer,
    clock: Clock,
    table: NodeTable,
    nodes: BTreeMap<String, (NodeClass, Option<KubeletVersion>)>,
    under_way: BTreeMap<String, UnderWay>,
}

#[derive(Default)]
pub struct UnderWay {
    request: RestartRequest,
    memory: Memory,
    /// The pod as last observed.
    pub pod: Option<Pod>,
    /// The containers whose image was, or may have been, changed, each with the image before.
    changed: BTreeMap<String, String>,
    /// The steps that have not been told yet.
    news: Vec<String>,
    /// The last write that was not applied, in words.
    trouble: String,
    /// How many restarts the pod, as last observed, has still to show.
    coming: u32,
}

impl UnderWay {
    /// Returns how many of its restarts may still appear, which count against a Job: also those of a
    /// restart that was given up.
    pub fn coming(&self) -> u32 {
        if self.request.is_completed() {
            self.coming
        } else {
            u32::try_from(self.changed.len()).unwrap_or(u32::MAX)
        }
    }

    fn observe(&mut self, pod: Option<&RestartPod>) {
        self.pod = pod.map(|pod| pod.pod.clone());
        self.coming = pod.map_or(0, |pod| restarts_coming(&self.request, pod));
    }

    fn note_changes(&mut self, action: &Action, are_made: bool) {
        let Action::Swap(change) = action else { return };
        for swap in &change.swaps {
            let (container, from) = (swap.container.to_string(), swap.from.to_string());
            let made = are_made.then(|| format!("image of {container}: {from} -> {}", swap.to));
            self.news.extend(made);
            self.changed.entry(container).or_insert(from);
        }
    }

    /// Applies what would be written into a request.
    fn apply(&mut self, action: &Action) {
        let request = &mut self.request;
        match action {
            Action::Accept(acceptance) => {
                request.pod_uid = Some(acceptance.pod_uid.clone());
                request.journal = Some(acceptance.journal.clone());
                let grace_seconds = &mut request.strategy.grace_seconds;
                *grace_seconds = grace_seconds.or(acceptance.grace_seconds);
            }
            Action::WriteDown(journal) => request.journal = Some(journal.clone()),
            Action::Report(status) => {
                request.phase = status.phase;
                request.message = status.message.clone();
                request.states = status.states.clone();
                let is_completed = status.phase == RequestPhase::Completed;
                request.completed_at = is_completed.then(time_of_day);
            }
            Action::Finalize(finalizers) => request.finalizers.clone_from(finalizers),
            // Without a request nothing could repair the readiness of the pod, so it is not
            // requested.
            Action::Swap(..)
            | Action::Release
            | Action::Delete
            | Action::NoteUnready
            | Action::SetReadiness(_) => {}
        }
    }
}

impl Direct {
    pub fn new(client: Client, namespace: &str, strategy: StrategyArgs) -> Self {
        Self {
            writer: Writer::new(client.clone(), WRITE),
            client,
            namespace: namespace.to_owned(),
            strategy,
            clock: Clock::start(),
            table: NodeTable::built_in(),
            nodes: BTreeMap::new(),
            under_way: BTreeMap::new(),
        }
    }

    /// Decides about a pod as for a restart, and changes nothing.
    pub async fn try_out(&mut self, member: &Member) -> anyhow::Result<()> {
        let mut restart = self.begin(member)?;
        self.advance(member, &mut restart, true).await?;
        if restart.request.is_completed() {
            let states = restart.request.states.iter();
            let words = states.map(|state| format!("{}: {}", state.name, state.message));
            bail!("{}", words.collect::<Vec<_>>().join("; "));
        }
        let namespace = &self.namespace;
        ensure!(
            may_patch(&self.client, namespace, "pods").await != Some(false),
            "your rights do not allow to patch pods in namespace {namespace}"
        );
        Ok(())
    }

    /// Continues the restart of a pod as far as possible now.
    pub async fn follow(&mut self, member: &Member) -> anyhow::Result<Heard> {
        let mut restart = match self.under_way.remove(&member.uid) {
            Some(restart) => restart,
            None => self.begin(member)?,
        };
        let advanced = self.advance(member, &mut restart, false).await;
        let news = std::mem::take(&mut restart.news);
        let request = Box::new(restart.request.clone());
        self.under_way.insert(member.uid.clone(), restart);
        Ok(match advanced? {
            Some(denied) => Heard::Over(Outcome::Failed(denied)),
            None => Heard::Says(request, news),
        })
    }

    /// Ends without waiting for a pod.
    pub fn stop(&self, member: &Member, why: &str) -> Outcome {
        let restart = self.under_way.get(&member.uid);
        let changed = restart.into_iter().flat_map(|restart| &restart.changed);
        let backs: Vec<_> = changed
            .map(|(name, from)| shell_word(&format!("{name}={from}")))
            .collect();
        if backs.is_empty() {
            return Outcome::NotStarted(format!("{why}; nothing was changed"));
        }
        let (namespace, pod) = (&self.namespace, &member.name);
        Outcome::Left(format!(
            "{why}; the images are changed, and the node restarts the containers by itself; if it cannot, undo it: kubectl set image -n {namespace} pod/{pod} {}",
            backs.join(" ")
        ))
    }

    fn begin(&self, member: &Member) -> anyhow::Result<UnderWay> {
        let mut body = body(
            &format!("restart of {}", member.name),
            &self.namespace,
            member,
            &self.strategy,
        );
        body["metadata"]["uid"] = member.uid.as_str().into();
        let wire: RestartRequestWire = serde_json::from_value(body)?;
        let request = wire
            .read()
            .with_context(|| format!("pod {} has no uid", member.name))?;
        let request = RestartRequest {
            created_at: Some(time_of_day()),
            pod_uid: Some(member.uid.as_str().into()),
            ..request
        };
        Ok(UnderWay {
            request,
            ..UnderWay::default()
        })
    }

    /// Makes steps until the next one has to wait. Returns the message of an API server that
    /// forbids a step.
    async fn advance(
        &mut self,
        member: &Member,
        restart: &mut UnderWay,
        dry_run: bool,
    ) -> anyhow::Result<Option<String>> {
        for _ in 0..STEPS {
            let pod = self.pod(&member.name).await?;
            restart.observe(pod.as_ref());
            let Some(action) = self.decide(restart, pod.as_ref()).await? else {
                return Ok(None);
            };
            match (&action, &pod) {
                (Action::Swap(..), _) if dry_run => return Ok(None),
                (Action::Swap(..), Some(pod)) => {
                    if let Some(denied) = self.swap(restart, pod, action).await? {
                        return Ok(Some(denied));
                    }
                }
                (Action::Release | Action::Delete | Action::Swap(..), _) => return Ok(None),
                _ => restart.apply(&action),
            }
        }
        Ok(None)
    }

    async fn pod(&self, name: &str) -> anyhow::Result<Option<RestartPod>> {
        let api: Api<RestartPodWire> = Api::namespaced(self.client.clone(), &self.namespace);
        Ok(get(&api, "pod", name).await?.and_then(RestartPodWire::read))
    }

    async fn decide(
        &mut self,
        restart: &mut UnderWay,
        pod: Option<&RestartPod>,
    ) -> anyhow::Result<Option<Action>> {
        let now = self.clock.now();
        let (mut node, mut kubelet, mut ledger) = (None, None, Ledger::default());
        if let Some(pod) = pod {
            let (class, version) = self.node(&pod.pod.node).await;
            (node, kubelet) = (Some(class), version);
            ledger = restarts_of_job(&self.client, &pod.pod, self.under_way.values()).await?;
            restart.memory.observe(&restart.request, pod, now);
        }
        let sight = pod.map_or(Sight::Absent, Sight::There);
        let answer = |restarts| match pod {
            Some(pod) => ledger.answer_restarts(&pod.pod, restarts),
            None => Headroom::TooEarly,
        };
        // There is no installation, so there are no exit images. And no park image: if this process
        // were killed, nobody would put the image back.
        let exit_images = ExitImages::new(None, Vec::new());
        let around = Around {
            exit_images: &exit_images,
            park: None,
            node,
            kubelet,
            runs_on: RunsOn::default(),
            room: &answer,
            is_first: true,
            left_to_vendor: Some(true),
            now,
            today: time_of_day(),
        };
        let decision = decide(&restart.request, sight, &restart.memory, &around);
        restart.memory.note(&decision, now);
        Ok(decision.action)
    }

    /// Returns the class of a node and the version of its kubelet; by its name alone if the user
    /// may not read it.
    async fn node(&mut self, name: &str) -> (NodeClass, Option<KubeletVersion>) {
        if let Some(known) = self.nodes.get(name) {
            return *known;
        }
        let nodes = Api::<NodeWire>::all(self.client.clone());
        let found = match list(&nodes, &format!("metadata.name={name}"), NodeWire::read).await {
            Ok(found) => found
                .first()
                .map(|node| (Recognised::of(node, &self.table).class, node.kubelet)),
            Err(error) => {
                let error = words(&error);
                report(&format!(
                    "node {name} cannot be read, so it is not known what it does with a changed image: {error}"
                ));
                None
            }
        };
        let known = found.unwrap_or_else(|| (Recognised::by_name(name, &self.table).class, None));
        self.nodes.insert(name.to_owned(), known);
        known
    }

    async fn swap(
        &self,
        restart: &mut UnderWay,
        pod: &RestartPod,
        action: Action,
    ) -> anyhow::Result<Option<String>> {
        let (request, today) = (restart.request.clone(), time_of_day());
        let (target, seen) = (Some(Target::of(&pod.pod)), pod.pod.version.clone());
        let write = RestartWrite {
            request,
            pod: target,
            seen,
            action,
            done: Vec::new(),
            today,
            is_for_orphan: false,
        };
        let outcome = self.writer.restart(&write).await;
        if matches!(outcome, Ok(_) | Err(WriteError::Failed { .. })) {
            restart.note_changes(&write.action, outcome.is_ok());
        }
        if let (Action::Swap(change), Ok(Stored::Pod(pod))) = (&write.action, &outcome) {
            restart.memory.note_stored(change, pod);
        }
        match outcome {
            Ok(_) => {
                restart.memory.note_applied("pods");
                restart.trouble.clear();
            }
            Err(WriteError::Gone) => {}
            Err(WriteError::Conflict) => {
                let now = self.clock.now();
                restart.memory.note_conflict("pods", now);
                restart.memory.not_before = Some(now + LOOK_AGAIN);
            }
            Err(WriteError::Denied(words))
                if restart.changed.is_empty() && !is_no_verdict(&words) =>
            {
                return Ok(Some(words));
            }
            // What has begun goes on for as long as in a request, and holds up no other pod.
            Err(WriteError::Denied(words) | WriteError::Failed { error: words, .. }) => {
                let now = self.clock.now();
                restart.memory.note_in_vain("pods", &words, now);
                restart.memory.not_before = Some(now + AGAIN);
                let news = format!("not changed, trying again: {words}");
                if std::mem::replace(&mut restart.trouble, news.clone()) != news {
                    restart.news.push(news);
                }
            }
        }
        Ok(None)
    }
}

// The restarts that the Job of a pod allows, counted from its current pods.

/// The number of the only list of pods.
const LIST: u64 = 1;

/// Counts the restarts of the pod's Job, those in progress included; nothing if they do not count.
async fn restarts_of_job<'a>(
    client: &Client,
    pod: &Pod,
    under_way: impl Iterator<Item = &'a UnderWay>,
) -> anyhow::Result<Ledger> {
    let mut ledger = Ledger::default();
    // Under other policies restarts do not count (`pkg/controller/job/job_controller.go`).
    let Some(job) = pod
        .job
        .as_ref()
        .filter(|_| pod.restart_policy == RestartPolicy::OnFailure)
    else {
        return Ok(ledger);
    };
    let jobs: Api<JobWire> = Api::namespaced(client.clone(), &pod.namespace);
    let what = "Job, which counts restarts,";
    let found = get(&jobs, what, &job.name).await?;
    ledger.job_list_starts();
    found
        .and_then(|found| found.read())
        .iter()
        .for_each(|found| ledger.job(found));
    ledger.job_list_ends();
    ledger.pod_list_starts();
    let pods: Api<PodWire> = Api::namespaced(client.clone(), &pod.namespace);
    let of_job = |other: &Pod| other.job.as_ref().is_some_and(|other| other.uid == job.uid);
    let found = list(&pods, "spec.restartPolicy=OnFailure", |other| {
        other.read().filter(of_job)
    })
    .await;
    let found = found
        .map_err(plain)
        .context("cannot list the pods of a Job")?;
    found
        .iter()
        .for_each(|other| ledger.observe(other, Swapped::default(), LIST));
    ledger.pod_list_ends(LIST);
    for other in under_way {
        if let Some(pod) = other.pod.as_ref().filter(|_| other.coming() > 0) {
            ledger.need(pod, Need::Begun(other.coming()));
        }
    }
    Ok(ledger)
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use swaplet_core::objects::recreate_request::RequestPhase;
    use swaplet_core::restart::pod::{RestartPod, RestartPodWire};
    use swaplet_core::restart::reconcile::Memory;
    use swaplet_core::restart::request::{Journal, RestartRequest};

    use super::*;

    /// A pod whose container has the alias, with this containerID.
    fn pod(id: &str) -> RestartPod {
        let pod = json!({"metadata": {"name": "p", "namespace": "ns", "uid": "u"},
            "spec": {"containers": [{"name": "app", "image": "b:1"}]},
            "status": {"containerStatuses": [{"name": "app", "containerID": id}]}});
        let wire: RestartPodWire = serde_json::from_value(pod).unwrap();
        wire.read().unwrap()
    }

    /// The node may be slow, and the next pod of the Job must not take the same room.
    #[test]
    fn a_restart_that_was_given_up_counts_until_the_pod_shows_it() {
        let journal = r#"{"app": {"containerID": "c", "intent": {"from": "a:1", "to": "b:1"}}}"#;
        let mut restart = UnderWay {
            request: RestartRequest {
                journal: Journal::read(journal),
                phase: RequestPhase::Completed,
                ..RestartRequest::default()
            },
            memory: Memory::default(),
            pod: None,
            changed: [("app".to_owned(), "a:1".to_owned())].into(),
            news: Vec::new(),
            trouble: String::new(),
            coming: 0,
        };
        for (id, coming) in [("c", 1), ("d", 0)] {
            restart.observe(Some(&pod(id)));
            assert_eq!(restart.coming(), coming, "{id}");
        }
    }
}
