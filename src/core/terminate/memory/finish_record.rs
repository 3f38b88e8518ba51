//! The memory of a pod whose main containers are done and whose phase may be written: how long it
//! was quiet, the writes, and the sidecars that its node starts again.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

use crate::objects::moment::Moment;
use crate::objects::pod::{Container, Pod, roles};

/// How long a kubelet's pod must not have changed: the pod worker handles nothing new before the
/// runtime was listed once more after its last work, which takes a second on an idle node and
/// several while many pods start.
pub const QUIET: Duration = Duration::from_secs(10);
/// After this long without such a time, changes in which a kubelet has no part are ignored.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);
/// How many writes have to meet another state than was seen, in that time or longer.
const LATE_TIMES: u8 = 3;
/// How long the status must not have changed then: shorter than the shortest back-off of a
/// container that crashes (10 s).
pub(crate) const QUIET_STATUS: Duration = Duration::from_secs(3);
/// The pause between two writes on a virtual node, where nothing is known to revert the phase.
const VIRTUAL_PAUSE: Duration = Duration::from_secs(5);
/// How long a written phase may stay unobserved if another state of the pod came before the
/// response: it is unknown which is newer.
const UNSEEN: Duration = Duration::from_secs(2);

/// The memory of this method, from when the main containers are done.
#[derive(Clone, Debug)]
pub struct FinishRecord {
    /// The start of the present unrest: reset by a change after a quiet time.
    pub(crate) unrest_since: Moment,
    version: Box<str>,
    pub(crate) changed_at: Moment,
    /// A digest of the status fields that a kubelet changes.
    status: u64,
    status_changed_at: Moment,
    /// The sidecars that are shown ended and that the node starts again, and since when: one that
    /// has been shown otherwise in between counts anew.
    returning: Vec<(Box<str>, Moment)>,
    /// The number of writes of the phase, and the time of the last.
    pub(crate) writes: u32,
    pub(crate) written_at: Option<Moment>,
    /// When a write began whose response has not come, or never will.
    under_way: Option<Moment>,
    /// True if the last write was applied and the watch has shown no terminal phase since it began.
    is_unseen: bool,
    /// Since when each write has met another state of the pod than was seen.
    late_since: Option<Moment>,
    /// How many have.
    late_times: u8,
    /// True once that has gone on for long.
    is_late: bool,
}

impl FinishRecord {
    /// Creates the record; a pod observed for the first time counts as changed just now. Where an
    /// earlier run of the process has written the phase, what it began goes on: a kubelet that has
    /// taken the phase back is about to judge the pod by its sidecars.
    pub(crate) fn new(pod: &Pod, now: Moment) -> Self {
        let is_found = pod.phase_was_ours;
        let mut record = Self {
            unrest_since: now,
            version: pod.version.clone(),
            changed_at: now,
            status: digest(pod),
            status_changed_at: now,
            returning: Vec::new(),
            writes: is_found.into(),
            written_at: is_found.then_some(now),
            under_way: None,
            is_unseen: false,
            late_since: None,
            late_times: 0,
            is_late: false,
        };
        record.observe_returning(pod, now);
        record
    }

    pub(crate) fn observe(&mut self, pod: &Pod, now: Moment) {
        self.observe_returning(pod, now);
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

    fn observe_returning(&mut self, pod: &Pod, now: Moment) {
        let returning = roles::returning(pod).map(|sidecar| {
            let since = self.returns_since(sidecar).unwrap_or(now);
            (sidecar.name.clone(), since)
        });
        self.returning = returning.collect();
    }

    /// Returns since when a sidecar is shown ended that the node starts again, if it is.
    pub(crate) fn returns_since(&self, sidecar: &Container) -> Option<Moment> {
        let (_, since) = self
            .returning
            .iter()
            .find(|(name, _)| *name == sidecar.name)?;
        Some(*since)
    }

    /// Confirms a write that the watch shows, before its response or instead of it. A node too
    /// writes a terminal phase once all containers have ended; the condition comes with a write
    /// only.
    fn confirm(&mut self, pod: &Pod) {
        if !pod.phase.is_terminal() {
            return;
        }
        self.is_unseen = false;
        if let Some(at) = self.under_way.filter(|_| pod.phase_was_written) {
            self.written(at);
        }
    }

    /// Records that a write of the phase begins: a terminal phase observed from now on is ours.
    pub const fn begun(&mut self, now: Moment) {
        self.under_way = Some(now);
    }

    /// Records that the write that has begun was applied. Counts once per write, however often
    /// called.
    pub fn written(&mut self, now: Moment) {
        if self.under_way.take().is_some() {
            self.writes += 1;
            self.written_at = Some(now);
            self.is_unseen = false;
        }
    }

    /// Like [`Self::written`], if the watch has shown another state since the write began.
    pub fn written_unseen(&mut self, now: Moment) {
        if self.under_way.is_some() {
            self.written(now);
            self.is_unseen = true;
        }
    }

    /// Records that the write that has begun was not applied.
    pub const fn not_written(&mut self) {
        self.under_way = None;
    }

    /// Records that a write has met another state of the pod than was seen. Returns since when, if that
    /// has gone on for long: pods may be listed, and change between two lists.
    pub fn came_late(&mut self, now: Moment) -> Option<Moment> {
        let since = *self.late_since.get_or_insert(now);
        self.late_times = self.late_times.saturating_add(1);
        self.is_late |= self.late_times >= LATE_TIMES && now >= since + PATIENCE;
        self.is_late.then_some(since)
    }

    /// Records that a write was in time. Where others were late for long, the next ones may be, too.
    pub const fn came_in_time(&mut self) {
        if !self.is_late {
            (self.late_since, self.late_times) = (None, 0);
        }
    }

    /// Returns true if the phase was written, or is being written.
    pub(crate) const fn has_begun(&self) -> bool {
        self.written_at.is_some() || self.under_way.is_some()
    }

    /// Returns true if the pod has kept changing for too long to wait for quiet, or for its version to
    /// be the one that is seen.
    pub(crate) fn is_restless(&self, now: Moment) -> bool {
        let keeps_changing = now < self.changed_at + QUIET && now >= self.unrest_since + PATIENCE;
        keeps_changing || self.is_late
    }

    /// Returns when the phase may be written if only the status of the pod has to be unchanged, for
    /// this long.
    pub(crate) fn due_in_pause(&self, kubelet: bool, pause: Duration) -> Moment {
        if kubelet && self.written_at.is_none() {
            self.status_changed_at + pause
        } else {
            self.due(kubelet)
        }
    }

    /// Returns when the phase may be written.
    pub(crate) fn due(&self, kubelet: bool) -> Moment {
        match (kubelet, self.written_at) {
            (true, None) => {
                let without_others = self.status_changed_at + QUIET_STATUS;
                (self.changed_at + QUIET).min(without_others.max(self.unrest_since + PATIENCE))
            }
            // What the pod worker begins after a revert ends in a wrong phase, so every moment
            // counts.
            (true, Some(at)) if self.is_unseen => at + UNSEEN,
            (true, Some(at)) => at,
            (false, None) => Moment::START,
            (false, Some(at)) => at + VIRTUAL_PAUSE,
        }
    }
}

/// Digests the status fields that decisions read: every change of a container changes them.
fn digest(pod: &Pod) -> u64 {
    let mut hasher = DefaultHasher::new();
    pod.phase.hash(&mut hasher);
    pod.other_restarts.hash(&mut hasher);
    pod.native_end.hash(&mut hasher);
    pod.containers
        .iter()
        .for_each(|container| container.status.hash(&mut hasher));
    hasher.finish()
}
