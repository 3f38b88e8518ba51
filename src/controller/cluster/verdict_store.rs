//! A store of node verdicts for the next run of the process: a ConfigMap of our own with one entry
//! per node. Losing it costs one probe per node.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use crate::frame::kept_map::{Entries, KeptMap, fitting};
use crate::frame::list::list;
use crate::frame::serve::Health;
use crate::frame::serve::rights::Right;
use crate::frame::writer::Writer;
use crate::frame::writer::precedence::Precedence;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{Api, Client};
use serde::{Deserialize, Serialize};
use swaplet_core::cluster::node_class::NodeClass;
use swaplet_core::cluster::node_verdicts::{
    MOST_VERDICTS, NodeVerdict, NodeVerdicts, Proved, VERDICT_LASTS,
};
use swaplet_core::objects::moment::Moment;
use swaplet_core::report::write_error::WriteError;
use tokio::sync::{Notify, mpsc, watch};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout};

/// The name of the ConfigMap.
pub const CONFIG_MAP: &str = "swaplet-node-verdicts";
/// The pause between two writes: everything proved meanwhile goes into one.
const WRITE_EVERY: Duration = Duration::from_secs(30);
/// The further pause before a read or a write that has failed is repeated.
const AGAIN: Duration = Duration::from_secs(60);
/// The prefix of the key of a verdict about pods under `Never`; no node name has the character at
/// its end.
const UNDER_NEVER: &str = "under-never_";
/// The longest key that the API server accepts.
const KEY: usize = 253;
/// The deadline of one write.
const DEADLINE: Duration = Duration::from_secs(10);
/// The most tries of a write that conflicts with others.
const TRIES: u32 = 3;

/// Returns the node that an entry is about.
pub fn node_of(key: &str) -> &str {
    key.strip_prefix(UNDER_NEVER).unwrap_or(key)
}

/// Returns what is known about pods under `Never` on this node.
pub fn under_never<'a>(kept: &'a AllKept, node: &str) -> Option<&'a Kept> {
    kept.get(&format!("{UNDER_NEVER}{node}"))
}

/// Returns the key of a verdict on a node; `None` if the node's name leaves no room for the prefix.
fn key(node: &str, proved: Proved) -> Option<String> {
    let key = if proved.is_under_never() {
        format!("{UNDER_NEVER}{node}")
    } else {
        node.to_owned()
    };
    (key.len() <= KEY).then_some(key)
}

/// Returns all verdicts in the form in which they are stored.
pub fn all_kept(verdicts: &NodeVerdicts, now: Moment, today: Timestamp) -> AllKept {
    verdicts
        .all()
        .filter_map(|(node, verdict)| {
            Some((key(node, verdict.proved)?, Kept::of(verdict, now, today)))
        })
        .collect()
}

/// Reads the entries of the ConfigMap. One that cannot be read is skipped: the node will prove it
/// again.
pub fn read(entries: BTreeMap<String, String>) -> AllKept {
    entries
        .into_iter()
        .filter_map(|(node, text)| Some((node, serde_json::from_str(&text).ok()?)))
        .collect()
}

/// Returns what any controller has stored: in this namespace, or in all if it is `None`.
///
/// # Errors
/// Fails if the ConfigMap cannot be read, or ConfigMaps cannot be listed.
pub async fn all_in(client: &Client, namespace: Option<&str>) -> kube::Result<AllKept> {
    let Some(namespace) = namespace else {
        let kept = list(
            &Api::all(client.clone()),
            &format!("metadata.name={CONFIG_MAP}"),
            |map: ConfigMap| map.data.map(read),
        )
        .await?;
        return Ok(kept.into_iter().flatten().collect());
    };
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), namespace);
    let map = maps.get_opt(CONFIG_MAP).await?;
    Ok(map.and_then(|map| map.data).map(read).unwrap_or_default())
}

/// A task in the background that stores verdicts.
pub struct VerdictStore {
    latest: watch::Sender<AllKept>,
    stop: Arc<Notify>,
    task: JoinHandle<()>,
}

/// What others have stored, to be restored.
pub type Found = mpsc::UnboundedReceiver<AllKept>;

impl VerdictStore {
    /// Starts to store verdicts in this namespace, yielding to the swaps of `precedence`. What
    /// others have stored is there at once; later, if it cannot be read yet.
    pub async fn start(
        client: Client,
        namespace: &str,
        health: Health,
        precedence: Precedence,
    ) -> (Self, Found) {
        // What was proved is true whoever leads.
        let writer = Writer::new(client, DEADLINE);
        let (finds, found) = mpsc::unbounded_channel();
        let mut keeper = Keeper {
            map: KeptMap::new(writer, namespace, CONFIG_MAP),
            health,
            precedence,
            others: None,
            written: AllKept::new(),
            is_done: true,
            found: finds,
        };
        keeper.store(AllKept::new()).await;
        // The loop has these before it has any of its own.
        let found_first = keeper.others.iter_mut().map(std::mem::take);
        keeper.written = found_first.last().unwrap_or_default();
        let (latest, changes) = watch::channel(AllKept::new());
        let stop = Arc::new(Notify::new());
        let task = tokio::spawn(keeper.keep(changes, Arc::clone(&stop)));
        (Self { latest, stop, task }, found)
    }

    /// Replaces the verdicts to store.
    pub fn keep(&self, verdicts: AllKept) {
        self.latest.send_replace(verdicts);
    }

    /// Writes what has not been written yet, and waits for that no longer than one request may
    /// take.
    pub async fn drain(self) {
        drop(self.latest);
        self.stop.notify_one();
        let _ = timeout(DEADLINE, self.task).await;
    }
}

struct Keeper {
    map: KeptMap,
    health: Health,
    precedence: Precedence,
    /// What was found in the ConfigMap since the start: kept beside those of the loop, which may
    /// not have them yet. `None` until it was read.
    others: Option<AllKept>,
    /// What is in the ConfigMap as far as it is from here, or was passed on to the loop at the start:
    /// what the loop has removed of that is not brought back.
    written: AllKept,
    /// False if it could not be read, or the latest verdicts could not be written.
    is_done: bool,
    found: mpsc::UnboundedSender<AllKept>,
}

impl Keeper {
    async fn keep(mut self, mut changes: watch::Receiver<AllKept>, stop: Arc<Notify>) {
        loop {
            let is_last = tokio::select! {
                changed = changes.changed() => changed.is_err(),
                () = sleep(AGAIN), if !self.is_done => false,
            };
            if !(is_last && self.is_done) {
                self.precedence.yield_to_swaps(Instant::now()).await;
                let latest = changes.borrow_and_update().clone();
                self.store(latest).await;
            }
            if is_last {
                return;
            }
            // Once the loop has ended, what it said last is written without a pause.
            if changes.has_changed().is_ok() {
                tokio::select! {
                    () = sleep(WRITE_EVERY) => {}
                    () = stop.notified() => {}
                }
            }
        }
    }

    async fn store(&mut self, latest: AllKept) {
        let stored = self.write(latest).await;
        self.is_done = stored.is_ok();
        match stored {
            Ok(()) => self.health.has(Right::KeepVerdicts),
            Err(error) => self.warn(&error),
        }
    }

    /// Writes the verdicts, if there are any, and those of others: the newer one counts per node.
    async fn write(&mut self, ours: AllKept) -> Result<(), String> {
        if self.others.is_none() {
            let theirs = self.map.read().await?;
            self.find(theirs);
        }
        for _ in 0..TRIES {
            let mut latest = ours.clone();
            if latest.is_empty() && self.written.is_empty() {
                return Ok(());
            }
            // What the loop has shown once is the loop's to remove.
            let others = self.others.get_or_insert_default();
            others.retain(|node, theirs| {
                let ours = latest.get(node);
                ours.is_none_or(|ours| ours.proved_at < theirs.proved_at)
            });
            merge(&mut latest, others.clone());
            let mut theirs = None;
            let written = self
                .map
                .replace(data(&latest), |found| theirs = Some(found));
            let written = written.await;
            theirs.into_iter().for_each(|theirs| self.find(theirs));
            match written {
                Ok(()) => {
                    self.written = latest;
                    return Ok(());
                }
                Err(WriteError::Conflict | WriteError::Gone) => {}
                Err(WriteError::Denied(error) | WriteError::Failed { error, .. }) => {
                    return Err(error);
                }
            }
        }
        Err("others write it at the same time".to_owned())
    }

    /// Keeps what others have stored, and passes it on to the loop, which may have ended.
    fn find(&mut self, theirs: Entries) {
        let mut theirs = read(theirs);
        theirs.retain(|node, kept| self.written.get(node) != Some(kept));
        self.others = Some(theirs.clone());
        drop(self.found.send(theirs));
    }

    /// Logs an error once, until it works again.
    fn warn(&self, error: &str) {
        if self.health.lacks(Right::KeepVerdicts, error) {
            tracing::warn!(
                namespace = self.map.namespace,
                name = CONFIG_MAP,
                error,
                "{}: after a restart each unknown node is probed again",
                Right::KeepVerdicts.without()
            );
        }
    }
}

/// Adds the verdicts of others; of two of one node the newer one counts.
pub(super) fn merge(ours: &mut AllKept, theirs: AllKept) {
    for (node, theirs) in theirs {
        match ours.get(&node) {
            Some(ours) if ours.proved_at >= theirs.proved_at => {}
            _ => {
                ours.insert(node, theirs);
            }
        }
    }
}

/// Returns the entries to write: the newest that fit, after those that a pod has failed for.
fn data(kept: &AllKept) -> Entries {
    let mut entries: Vec<_> = kept.iter().collect();
    entries.sort_by_key(|(_, kept)| {
        (
            *kept.proved != *Proved::FailsUnderNever.as_str(),
            std::cmp::Reverse(kept.proved_at),
        )
    });
    entries.truncate(MOST_VERDICTS);
    let texts = entries.into_iter();
    fitting(
        texts.filter_map(|(node, kept)| Some((node.clone(), serde_json::to_string(kept).ok()?))),
    )
}

// A verdict as it is stored in the ConfigMap.

/// A stored verdict: one value of the ConfigMap, under the name of the node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Kept {
    /// The uid of the node.
    pub uid: Box<str>,
    /// The behaviour that was proved, in the words of [`Proved::as_str`].
    pub proved: Box<str>,
    /// The time at which it was proved.
    pub proved_at: Timestamp,
    /// The time until which it counts.
    pub until: Timestamp,
    /// See [`NodeVerdict::times`].
    #[serde(default)]
    pub times: u32,
    /// The pod that proved it, as `namespace/name`.
    #[serde(default)]
    pub pod: Box<str>,
    /// See [`NodeVerdict::provider`].
    #[serde(default)]
    pub provider: Box<str>,
    /// See [`NodeVerdict::taken_for`]; empty if it is unknown.
    #[serde(default)]
    pub taken_for: Box<str>,
}

/// All stored verdicts, by their key: the name of the node, see [`node_of`].
pub type AllKept = BTreeMap<String, Kept>;

impl Kept {
    /// Converts a verdict. `now` and `today` are the same moment, by the process's own clock and
    /// by the wall clock.
    pub fn of(verdict: &NodeVerdict, now: Moment, today: Timestamp) -> Self {
        let until = shift(today, verdict.until.since_start(), now.since_start());
        Self {
            uid: verdict.uid.clone(),
            proved: verdict.proved.as_str().into(),
            proved_at: shift(until, Duration::ZERO, verdict.lasts),
            until,
            times: verdict.times,
            pod: verdict.pod.clone(),
            provider: verdict.provider.clone(),
            taken_for: verdict.taken_for.map_or("", NodeClass::as_str).into(),
        }
    }

    /// Returns true if it was proved while the node was taken for this class.
    pub fn is_for(&self, class: NodeClass) -> bool {
        let taken_for: Option<NodeClass> = self.taken_for.parse().ok();
        taken_for.is_none_or(|taken_for| taken_for == class)
    }

    /// Returns the verdict in the time of this process; `None` if it expired long ago or makes no
    /// sense. It never counts longer than a verdict can, whatever clocks or users have made of it.
    pub fn restore(&self, now: Moment, today: Timestamp) -> Option<NodeVerdict> {
        let seconds = |from: Timestamp, to: Timestamp| {
            Duration::from_secs(
                u64::try_from(from.duration_until(to).as_secs()).unwrap_or_default(),
            )
        };
        if seconds(self.until, today) >= VERDICT_LASTS {
            return None;
        }
        let proved: Proved = self.proved.parse().ok()?;
        Some(NodeVerdict {
            uid: self.uid.clone(),
            proved,
            until: now + seconds(today, self.until).min(proved.lasts()),
            lasts: seconds(self.proved_at, self.until).min(proved.lasts()),
            times: self.times,
            pod: self.pod.clone(),
            provider: self.provider.clone(),
            taken_for: self.taken_for.parse().ok(),
        })
    }
}

/// Returns `time + plus - minus`, to the second; `time` itself if no calendar has the result.
fn shift(time: Timestamp, plus: Duration, minus: Duration) -> Timestamp {
    let seconds = |time: Duration| i64::try_from(time.as_secs()).unwrap_or(i64::MAX);
    let shifted = time
        .as_second()
        .saturating_add(seconds(plus))
        .saturating_sub(seconds(minus));
    Timestamp::from_second(shifted).unwrap_or(time)
}

#[cfg(test)]
mod tests;
