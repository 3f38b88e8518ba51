//! What is remembered of a pod whose phase is to be written: how long it has been quiet, and what
//! became of the writes.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

use crate::objects::pod::Pod;

/// How long a kubelet's pod must not have changed: the worker looks at nothing new before the
/// runtime was listed once more after its last work, which takes a second on an idle node and
/// several while many pods start.
pub const QUIET: Duration = Duration::from_secs(10);
/// After so long without such a time, changes that a kubelet has no part in do not count any more.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);
/// What is waited then since the last change of the status: shorter than the shortest back-off of a
/// container that crashes (10 s).
pub(crate) const QUIET_STATUS: Duration = Duration::from_secs(3);
/// The pause between two writes on a virtual node, where nobody is known to take the phase back.
const VIRTUAL_PAUSE: Duration = Duration::from_secs(5);
/// How long a phase that is written may stay unseen, where another state of the pod came before the
/// answer: nobody knows which is newer.
const UNSEEN: Duration = Duration::from_secs(2);

/// What is remembered of a pod for this method, from when its main containers are done. All times
/// are since the start of the process.
#[derive(Clone, Debug)]
pub struct FinishRecord {
    /// Since when the pod has not been quiet, until it was last seen to change.
    pub(crate) unrest_since: Duration,
    version: Box<str>,
    pub(crate) changed_at: Duration,
    /// A digest of what a kubelet's status shows.
    status: u64,
    status_changed_at: Duration,
    /// How often the phase was written, and when last.
    pub(crate) writes: u32,
    pub(crate) written_at: Option<Duration>,
    /// A write that has begun and whose answer has not come, or never will.
    under_way: Option<Duration>,
    /// The last write is applied, and the watch has shown no terminal phase since it has begun.
    is_unseen: bool,
}

impl FinishRecord {
    /// A pod that is looked at for the first time counts as changed just now.
    pub(crate) fn new(pod: &Pod, now: Duration) -> Self {
        Self {
            unrest_since: now,
            version: pod.version.clone(),
            changed_at: now,
            status: digest(pod),
            status_changed_at: now,
            writes: 0,
            written_at: None,
            under_way: None,
            is_unseen: false,
        }
    }

    pub(crate) fn observe(&mut self, pod: &Pod, now: Duration) {
        let status = digest(pod);
        if self.status != status {
            self.status = status;
            self.status_changed_at = now;
        } else if self.version == pod.version {
            return self.confirm(pod);
        }
        self.version.clone_from(&pod.version);
        if now >= self.changed_at + QUIET {
            self.unrest_since = now;
        }
        self.changed_at = now;
        self.confirm(pod);
    }

    /// The watch may show a write before its answer comes, or instead of it. A pod whose containers
    /// have ended gets a terminal phase from its node too; the condition comes with a write only.
    fn confirm(&mut self, pod: &Pod) {
        if !pod.phase.is_terminal() {
            return;
        }
        self.is_unseen = false;
        if let Some(at) = self.under_way.filter(|_| pod.phase_was_written) {
            self.written(at);
        }
    }

    /// A write of the phase has begun: a terminal phase that is seen from now on is ours.
    pub const fn begun(&mut self, now: Duration) {
        self.under_way = Some(now);
    }

    /// The write that has begun is applied. Once per write, however often it is learned.
    pub fn written(&mut self, now: Duration) {
        if self.under_way.take().is_some() {
            self.writes += 1;
            self.written_at = Some(now);
            self.is_unseen = false;
        }
    }

    /// The same, where the watch has shown another state of the pod since the write has begun.
    pub fn written_unseen(&mut self, now: Duration) {
        if self.under_way.is_some() {
            self.written(now);
            self.is_unseen = true;
        }
    }

    /// The write that has begun is known not to be applied.
    pub const fn not_written(&mut self) {
        self.under_way = None;
    }

    /// When the phase was written last, if it was.
    #[must_use]
    pub const fn written_at(&self) -> Option<Duration> {
        self.written_at
    }

    /// Whether the phase was written, or is being written.
    pub(crate) const fn has_begun(&self) -> bool {
        self.written_at.is_some() || self.under_way.is_some()
    }

    /// Whether the pod has kept changing for too long to wait for quiet.
    pub(crate) fn is_restless(&self, now: Duration) -> bool {
        now < self.changed_at + QUIET && now >= self.unrest_since + PATIENCE
    }

    /// When the phase may be written.
    pub(crate) fn due(&self, kubelet: bool) -> Duration {
        match (kubelet, self.written_at) {
            (true, None) => {
                let without_others = self.status_changed_at + QUIET_STATUS;
                (self.changed_at + QUIET).min(without_others.max(self.unrest_since + PATIENCE))
            }
            // What the worker has begun with the phase taken back ends in a wrong phase, so every
            // moment counts.
            (true, Some(at)) if self.is_unseen => at + UNSEEN,
            (true, Some(at)) => at,
            (false, None) => Duration::ZERO,
            (false, Some(at)) => at + VIRTUAL_PAUSE,
        }
    }
}

/// What decisions read of the status: a kubelet changes it with every change of a container.
fn digest(pod: &Pod) -> u64 {
    let mut hasher = DefaultHasher::new();
    pod.phase.hash(&mut hasher);
    pod.containers
        .iter()
        .for_each(|container| container.status.hash(&mut hasher));
    hasher.finish()
}
