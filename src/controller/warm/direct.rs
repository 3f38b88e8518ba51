//! A single run of warming, for `swaplet warm`: watches nodes, warmer pods and the kubelet's
//! Events, and writes pods. The decisions are made in [`warming`](swaplet_core::warm::warming).

use std::collections::BTreeSet;
use std::time::Duration;

use super::jobs::driver::watches_of_pulls;
use super::write::Warmers;
use crate::frame::clock::Clock;
use crate::frame::in_flight::InFlight;
use crate::frame::list::{list_with, words};
use crate::frame::store::Store;
use crate::frame::watch::age::WatchAges;
use crate::frame::watch::{Event, watch};
use crate::frame::writer::Writer;
use kube::api::ListParams;
use kube::{Api, Client};
use swaplet_core::cluster::node_class::Recognised;
use swaplet_core::cluster::node_table::NodeTable;
use swaplet_core::objects::moment::Moment;
use swaplet_core::objects::node::{Node, NodeWire};
use swaplet_core::report::write_error::WriteError;
use swaplet_core::warm::pod::{WarmerPod, WarmerPodWire};
use swaplet_core::warm::warming::{Action, Answer, Elsewhere, Ended, Limits, Warming, shape};
use tokio::time::{sleep, timeout};

/// The interval of steps without an event, because time alone changes what is to be done.
const LOOK: Duration = Duration::from_secs(1);
/// The deadline of one write.
const WRITE: Duration = Duration::from_secs(10);
/// The deadline for deleting the pods that a run leaves.
const CLEAN_UP: Duration = Duration::from_secs(30);

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
    /// The limits of the job are those of its writes, which all are of one namespace.
    writes: InFlight<(Box<str>, Action), Answer>,
    warming: Warming,
    /// Pods may be created once it is complete, because the watch would show them.
    pods: Store<WarmerPod>,
    nodes: Store<()>,
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
            writes: InFlight::new(usize::MAX, |_| ""),
            warming,
            pods: Store::default(),
            nodes: Store::default(),
            has_written: false,
            untaken: None,
        }
    }

    async fn go(&mut self, report: &mut impl FnMut(News)) -> Result<(), WarmError> {
        let ages = WatchAges::default();
        let of_the_job = ListParams::default().labels(&self.job.selector);
        let mut nodes = watch::<NodeWire>(Api::all(self.client.clone()), of_the_job, &ages);
        while !self.nodes.is_complete() {
            self.observe_node(nodes.recv().await, report)?;
        }
        self.report_nodes(report)?;
        let namespace = &self.job.warmers.namespace;
        let selector = ListParams::default().labels(&self.job.warmers.selector());
        let pods = Api::<WarmerPodWire>::namespaced(self.client.clone(), namespace);
        let mut pods = watch(pods, selector, &ages);
        // Without the right to watch Events only times and sizes are missing.
        let mut pulls = watches_of_pulls(self.client.clone());
        pulls.follow([namespace.to_string()].iter());
        while !self
            .warming
            .has_ended(self.warming.is_over(), self.clock.now())
        {
            if self.pods.is_complete() {
                self.start_writes(report);
            }
            tokio::select! {
                event = pods.recv() => self.observe_pod(event, report)?,
                event = nodes.recv() => self.observe_node(event, report)?,
                Some((_, event)) = pulls.next() => {
                    if let Event::Listed(Some((uid, pulled))) | Event::Applied(Some((uid, pulled))) = event {
                        self.warming.handle(&uid, &pulled);
                    }
                }
                Some(((node, action), answer, _)) = self.writes.next() => self.warming.written(&node, &action, answer, self.clock.now()),
                () = sleep(LOOK) => (),
            }
            self.report(report);
        }
        Ok(())
    }

    /// Reports the nodes of the first list: only nodes that exist at the start are warmed.
    fn report_nodes(&self, report: &mut impl FnMut(News)) -> Result<(), WarmError> {
        let (warming, skipped) = (&self.warming, self.warming.skipped());
        let is_missing = |name: &&str| !warming.has(name) && !skipped.contains_key(*name);
        let names = self.job.names.iter().map(String::as_str);
        let missing: Vec<_> = names.filter(is_missing).collect();
        if !missing.is_empty() {
            return Err(WarmError::NoNodes(format!(
                "there is no node {} among those selected",
                missing.join(", ")
            )));
        }
        let warmable = warming.progress().count();
        if warmable + skipped.len() == 0 {
            return Err(WarmError::NoNodes(format!(
                "no node matches the selector {:?}",
                self.job.selector
            )));
        }
        let skipped = skipped.clone().into_iter().collect();
        report(News::Nodes { warmable, skipped });
        Ok(())
    }

    fn know_node(&mut self, node: &Node, now: Moment) {
        if !self.job.names.is_empty() && !self.job.names.contains(&*node.name) {
            return;
        }
        match shape(node, &Recognised::of(node, &self.job.table)) {
            Err(why) => self.warming.skip(&node.name, why),
            Ok(shape) => self.warming.add(&node.name, shape, node.ready, now),
        }
    }

    fn observe_node(
        &mut self,
        event: Option<Event<NodeWire>>,
        report: &mut impl FnMut(News),
    ) -> Result<(), WarmError> {
        let (now, is_first) = (self.clock.now(), !self.nodes.is_complete());
        let event = heard("nodes", event, is_first, report)?;
        let (gone, seen) = self.nodes.observe_names(event, now, NodeWire::read);
        for ((_, name), ()) in gone {
            self.warming.node_is_gone(&name);
        }
        match seen {
            Some((_, node)) if is_first => self.know_node(&node, now),
            Some((_, node)) => self.warming.observe_node(&node.name, node.ready, now),
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
        let event = heard("pods", event, !self.pods.is_complete(), report)?;
        let changes = self.pods.observe(event, now, WarmerPodWire::read);
        for (_, pod, ()) in changes.gone {
            self.warming.pod_is_gone(&pod.uid, now);
        }
        if let Some((pod, ())) = changes.put.and_then(|(key, _)| self.pods.get(&key)) {
            self.warming.observe_pod(pod.clone(), now);
        }
        Ok(())
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
            let with = (self.writer.clone(), self.job.warmers.clone());
            self.writes.begin(with, (node, action), |with, write| {
                let ((writer, warmers), (node, action)) = (with, write);
                Box::pin(writer.warm(warmers, node, action))
            });
        }
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

/// Returns an event of a watch, after a report of its trouble. `is_first`: nothing was listed yet.
fn heard<K>(
    what: &'static str,
    event: Option<Event<K>>,
    is_first: bool,
    report: &mut impl FnMut(News),
) -> Result<Event<K>, WarmError> {
    let event = event.ok_or_else(|| WarmError::TaskDied(format!("the watch of {what}")))?;
    match (&event, event.trouble()) {
        (Event::Forbidden(why), _) if is_first => {
            return Err(WarmError::Forbidden(what, why.clone()));
        }
        (_, Some(trouble)) => report(News::Trouble(trouble.to_owned())),
        _ => {}
    }
    Ok(event)
}

// The end of a run: the deletion of its pods.

impl Run {
    /// Deletes all remaining pods of the run, even one whose creation was sent but never answered.
    /// Returns true if none is left.
    async fn clean_up(&mut self, report: &mut impl FnMut(News)) -> bool {
        let cleaned = timeout(CLEAN_UP, async {
            while self.writes.next().await.is_some() {}
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
            match self.writer.delete_warmer_pod(&pod).await {
                Ok(()) | Err(WriteError::Gone | WriteError::Conflict) => (),
                Err(WriteError::Denied(why)) => return Err(why),
                Err(WriteError::Failed { .. }) => return Err("no answer".to_owned()),
            }
        }
        Ok(())
    }
}
