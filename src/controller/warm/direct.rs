//! A single run of warming, for `swaplet warm`: watches nodes, warmer pods and the kubelet's
//! Events, and writes pods. The decisions are made in [`warming`](swaplet_core::warm::warming).

use std::collections::BTreeSet;
use std::time::Duration;

use super::write::Warmers;
use crate::frame::clock::Clock;
use crate::frame::list::{list_with, words};
use crate::frame::watch::age::WatchAges;
use crate::frame::watch::mirror::{Change, Mirror};
use crate::frame::watch::{Event, watch};
use crate::frame::writer::Writer;
use k8s_openapi::api::core::v1::Event as KubeEvent;
use kube::api::ListParams;
use kube::{Api, Client};
use swaplet_core::cluster::node_class::Recognised;
use swaplet_core::cluster::node_table::NodeTable;
use swaplet_core::objects::node::{Node, NodeWire};
use swaplet_core::objects::values::whole_object::WholeObject;
use swaplet_core::report::write_error::WriteError;
use swaplet_core::warm::pod::WarmerPodWire;
use swaplet_core::warm::warming::{
    Action, Answer, Elsewhere, Ended, Limits, Pulled, Warming, shape,
};
use tokio::sync::mpsc::Receiver;
use tokio::task::{JoinError, JoinSet};
use tokio::time::{sleep, timeout};

/// The interval of steps without an event, because time alone changes what is to be done.
const LOOK: Duration = Duration::from_secs(1);
/// The deadline of one write.
const WRITE: Duration = Duration::from_secs(10);
/// How long Events are waited for when all else is final; they arrive a little after the status.
pub(crate) const LATE_EVENTS: Duration = Duration::from_secs(2);
/// The deadline for deleting the pods that a run leaves.
const CLEAN_UP: Duration = Duration::from_secs(30);
/// The field selector of the Events that report pulls.
pub(crate) const PULLED: &str = "involvedObject.kind=Pod,reason=Pulled";

/// Such an Event.
pub(crate) type PullEvent = WholeObject<KubeEvent>;

/// The images to warm, the nodes, and how to do it.
#[derive(Clone, Debug)]
pub struct Job {
    /// The images, each once.
    pub images: Vec<Box<str>>,
    /// The label selector of the nodes; empty selects all.
    pub selector: String,
    /// The names of the only nodes to warm; empty selects all.
    pub names: BTreeSet<String>,
    /// The limits of the work.
    pub limits: Limits,
    /// The settings that all its pods share.
    pub warmers: Warmers,
    /// The table by which nodes are classified.
    pub table: NodeTable,
}

/// The progress of a run, as it is reported to the caller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum News {
    /// The nodes are known: how many can be warmed, and which cannot, with the reason.
    Nodes {
        /// The number of nodes that can be warmed.
        warmable: usize,
        /// The nodes that cannot be warmed, with the reason.
        skipped: Vec<(Box<str>, String)>,
    },
    /// A node begins to pull images.
    Begun {
        /// The name of the node.
        node: Box<str>,
        /// The images that it pulls.
        images: Vec<Box<str>>,
    },
    /// An image on a node has become final.
    Ended(Ended),
    /// A watch or the deletion of pods fails; it is retried, unless the text names a remedy.
    Trouble(String),
}

/// The reasons why a run fails.
#[derive(Debug, thiserror::Error)]
pub enum WarmError {
    /// The API server forbids a watch.
    #[error("cannot watch {0}: {1}")]
    Forbidden(&'static str, String),
    /// No node is selected, or a named node is missing.
    #[error("{0}")]
    NoNodes(String),
    /// A background task died.
    #[error("a background task has died: {0}")]
    TaskDied(String),
}

/// The result of a run.
#[derive(Debug)]
pub struct Finished {
    /// The progress of every node.
    pub warming: Warming,
    /// True if `stop` completed before everything was final.
    pub interrupted: bool,
    /// True if all warmer pods are deleted.
    pub is_clean: bool,
}

/// Warms images until everything is final or `stop` completes, and deletes all warmer pods at the
/// end. The client must not retry by itself.
///
/// # Errors
/// A [`WarmError`]; warmer pods are deleted all the same.
pub async fn warm(
    client: Client,
    job: Job,
    mut report: impl FnMut(News),
    stop: impl Future<Output = ()>,
) -> Result<Finished, WarmError> {
    let mut run = Run::new(client, job);
    let ended = {
        tokio::pin!(stop);
        tokio::select! {
            ended = run.go(&mut report) => ended.map(|()| false),
            () = stop => Ok(true),
        }
    };
    let is_clean = !run.has_written || run.clean_up(&mut report).await;
    ended.map(|interrupted| Finished {
        warming: run.warming,
        interrupted,
        is_clean,
    })
}

struct Run {
    client: Client,
    job: Job,
    clock: Clock,
    writer: Writer,
    writes: JoinSet<(Box<str>, Action, Answer)>,
    warming: Warming,
    /// Pods may be created once it is complete, because the watch would show them.
    pods: Mirror<Box<str>>,
    nodes: Mirror<Box<str>>,
    has_written: bool,
    /// The write that was last reported as not taken: the node, and the reason.
    untaken: Option<(Box<str>, Box<str>)>,
}

impl Run {
    fn new(client: Client, job: Job) -> Self {
        let warming = Warming::new(job.images.clone(), job.limits.clone());
        let writer = Writer::new(client.clone(), WRITE);
        Self {
            client,
            job,
            clock: Clock::start(),
            writer,
            writes: JoinSet::new(),
            warming,
            pods: Mirror::new(),
            nodes: Mirror::new(),
            has_written: false,
            untaken: None,
        }
    }

    async fn go(&mut self, report: &mut impl FnMut(News)) -> Result<(), WarmError> {
        let ages = WatchAges::default();
        let of_the_job = ListParams::default().labels(&self.job.selector);
        let mut nodes = watch::<NodeWire>(Api::all(self.client.clone()), of_the_job, &ages);
        self.know_nodes(&mut nodes, report).await?;
        let namespace = &self.job.warmers.namespace;
        let selector = ListParams::default().labels(&self.job.warmers.selector());
        let pods = Api::<WarmerPodWire>::namespaced(self.client.clone(), namespace);
        let mut pods = watch(pods, selector, &ages);
        let pulls = Api::<PullEvent>::namespaced(self.client.clone(), namespace);
        let mut pulls = watch(pulls, ListParams::default().fields(PULLED), &ages);
        while !self.warming.is_over() {
            if self.pods.is_complete() {
                self.start_writes(report);
            }
            tokio::select! {
                event = pods.recv() => self.observe_pod(event, report)?,
                event = nodes.recv() => self.observe_node(event, report)?,
                event = pulls.recv() => self.observe_pull(event),
                Some(done) = self.writes.join_next() => self.finish(done)?,
                () = sleep(LOOK) => (),
            }
            self.report(report);
        }
        self.hear_late_events(&mut pulls).await;
        Ok(())
    }

    /// Reads the first list of nodes: only nodes that exist at the start are warmed.
    async fn know_nodes(
        &mut self,
        nodes: &mut Receiver<Event<NodeWire>>,
        report: &mut impl FnMut(News),
    ) -> Result<(), WarmError> {
        let mut found = BTreeSet::new();
        loop {
            match nodes.recv().await {
                Some(Event::ListStart) => found.clear(),
                Some(Event::Listed(node)) => {
                    found.extend(node.read().and_then(|node| self.know_node(node)))
                }
                Some(Event::ListEnd) => break,
                Some(Event::Forbidden(why)) => return Err(WarmError::Forbidden("nodes", why)),
                Some(Event::Trouble(trouble) | Event::Hidden(trouble)) => {
                    report(News::Trouble(trouble))
                }
                Some(
                    Event::Applied(_) | Event::Deleted(_) | Event::Current(_) | Event::Relists(_),
                ) => (),
                None => return Err(WarmError::TaskDied("the watch of nodes".to_owned())),
            }
        }
        let missing: Vec<_> = self
            .job
            .names
            .iter()
            .filter(|name| !found.contains(&***name))
            .map(String::as_str)
            .collect();
        if !missing.is_empty() {
            return Err(WarmError::NoNodes(format!(
                "there is no node {} among those selected",
                missing.join(", ")
            )));
        }
        if found.is_empty() {
            return Err(WarmError::NoNodes(format!(
                "no node matches the selector {:?}",
                self.job.selector
            )));
        }
        let skipped: Vec<_> = self.warming.skipped().clone().into_iter().collect();
        report(News::Nodes {
            warmable: found.len() - skipped.len(),
            skipped,
        });
        Ok(())
    }

    fn know_node(&mut self, node: Node) -> Option<Box<str>> {
        if !self.job.names.is_empty() && !self.job.names.contains(&*node.name) {
            return None;
        }
        match shape(&node, &Recognised::of(&node, &self.job.table)) {
            Err(why) => self.warming.skip(&node.name, why),
            Ok(shape) => self
                .warming
                .add(&node.name, shape, node.ready, self.clock.now()),
        }
        Some(node.name)
    }

    fn observe_node(
        &mut self,
        event: Option<Event<NodeWire>>,
        report: &mut impl FnMut(News),
    ) -> Result<(), WarmError> {
        let now = self.clock.now();
        let event = event.ok_or_else(|| WarmError::TaskDied("the watch of nodes".to_owned()))?;
        if let Some(trouble) = event.trouble() {
            report(News::Trouble(trouble.to_owned()));
        }
        let known = self.warming.progress().map(|(name, _)| name.into());
        let read = |node: NodeWire| node.read().map(|node| (node.name.clone(), node));
        match self.nodes.change(event, known, read) {
            Some(Change::Put(node)) => self.warming.observe_node(&node.name, node.ready, now),
            Some(Change::Gone(names)) => names
                .iter()
                .for_each(|name| self.warming.node_is_gone(name)),
            None => {}
        }
        Ok(())
    }

    fn observe_pod(
        &mut self,
        event: Option<Event<WarmerPodWire>>,
        report: &mut impl FnMut(News),
    ) -> Result<(), WarmError> {
        let now = self.clock.now();
        let event = event.ok_or_else(|| WarmError::TaskDied("the watch of pods".to_owned()))?;
        match &event {
            Event::Forbidden(why) if !self.pods.is_complete() => {
                return Err(WarmError::Forbidden("pods", why.clone()));
            }
            other => other
                .trouble()
                .into_iter()
                .for_each(|trouble| report(News::Trouble(trouble.to_owned()))),
        }
        let read = |pod: WarmerPodWire| pod.read().map(|pod| (pod.uid.clone(), pod));
        match self.pods.change(event, self.warming.pods(), read) {
            Some(Change::Put(pod)) => self.warming.observe_pod(pod, now),
            Some(Change::Gone(uids)) => uids
                .iter()
                .for_each(|uid| self.warming.pod_is_gone(uid, now)),
            None => {}
        }
        Ok(())
    }

    /// Records a pull. Without the right to watch Events only times and sizes are missing.
    fn observe_pull(&mut self, event: Option<Event<PullEvent>>) {
        let Some(Event::Listed(event) | Event::Applied(event)) = event else {
            return;
        };
        let Some(event) = event.read() else {
            return;
        };
        let pulled = event.message.as_deref().and_then(Pulled::read);
        if let (Some(uid), Some(pulled)) = (event.involved_object.uid, pulled) {
            self.warming.handle(&uid, &pulled);
        }
    }

    fn start_writes(&mut self, report: &mut impl FnMut(News)) {
        for (node, action) in self
            .warming
            .step(self.clock.now(), |_| Elsewhere::default())
        {
            self.has_written = true;
            match &action {
                Action::Create { images, .. } => report(News::Begun {
                    node: node.clone(),
                    images: images.clone(),
                }),
                Action::Swap { to, .. } => report(News::Begun {
                    node: node.clone(),
                    images: vec![to.clone()],
                }),
                Action::Delete { .. } => (),
            }
            let (writer, warmers) = (self.writer.clone(), self.job.warmers.clone());
            self.writes.spawn(async move {
                let answer = writer.warm(&warmers, &node, &action).await;
                (node, action, answer)
            });
        }
    }

    fn finish(
        &mut self,
        done: Result<(Box<str>, Action, Answer), JoinError>,
    ) -> Result<(), WarmError> {
        let (node, action, answer) =
            done.map_err(|error| WarmError::TaskDied(error.to_string()))?;
        self.warming
            .written(&node, &action, answer, self.clock.now());
        Ok(())
    }

    fn report(&mut self, report: &mut impl FnMut(News)) {
        let untaken = self.warming.waits().first_untaken.clone();
        if let Some((node, why)) = untaken.as_ref().filter(|_| untaken != self.untaken) {
            report(News::Trouble(format!(
                "{node}: the API server does not take a write for its pod: {why}"
            )));
        }
        self.untaken = untaken;
        self.warming
            .news()
            .into_iter()
            .for_each(|ended| report(News::Ended(ended)));
    }
}

// The end of a run: late Events, and the deletion of its pods.

impl Run {
    async fn hear_late_events(&mut self, pulls: &mut Receiver<Event<PullEvent>>) {
        let _ = timeout(LATE_EVENTS, async {
            while self.warming.is_told_nothing_of_a_pull() {
                self.observe_pull(pulls.recv().await);
            }
        })
        .await;
    }

    /// Deletes all remaining pods of the run, even one whose creation was sent but never answered.
    /// Returns true if none is left.
    async fn clean_up(&mut self, report: &mut impl FnMut(News)) -> bool {
        let cleaned = timeout(CLEAN_UP, async {
            while self.writes.join_next().await.is_some() {}
            let pods: Api<WarmerPodWire> =
                Api::namespaced(self.client.clone(), &self.job.warmers.namespace);
            let ours = ListParams::default().labels(&self.job.warmers.selector());
            while let Err(error) = self.delete_all(&pods, &ours).await {
                report(News::Trouble(format!(
                    "warmer pods are not deleted yet: {error}"
                )));
                sleep(LOOK).await;
            }
        });
        let is_clean = cleaned.await.is_ok();
        if !is_clean {
            let Warmers { namespace, .. } = &self.job.warmers;
            let selector = self.job.warmers.selector();
            report(News::Trouble(format!(
                "delete what is left with: kubectl delete pods -n {namespace} -l {selector}"
            )));
        }
        is_clean
    }

    async fn delete_all(&self, pods: &Api<WarmerPodWire>, ours: &ListParams) -> Result<(), String> {
        for pod in list_with(pods, ours.clone(), WarmerPodWire::read)
            .await
            .map_err(|error| words(&error))?
        {
            if pod.deleting {
                continue;
            }
            let delete = Action::Delete {
                name: pod.name,
                uid: pod.uid,
            };
            match self
                .writer
                .warm(&self.job.warmers, &pod.node, &delete)
                .await
            {
                Ok(_) | Err(WriteError::Gone | WriteError::Conflict) => (),
                Err(WriteError::Denied(why)) => return Err(why),
                Err(WriteError::Failed { .. }) => return Err("no answer".to_owned()),
            }
        }
        Ok(())
    }
}
