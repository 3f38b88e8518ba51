//! The turns of protected objects: each is decided when it is due, and its write is made beside the
//! loop, so that one that hangs delays no other.

use swaplet_core::objects::moment::Moment;
use swaplet_core::protect::decide::{Step, decide, lets_go};
use swaplet_core::protect::object::{Guarded, GuardedKind};
use swaplet_core::report::write_error::WriteError;
use tokio::task::{JoinError, JoinSet};

use super::{Entry, Key, Protect};
use crate::frame::isolated::TaskDied;
use crate::frame::serve::rights::Right;
use crate::frame::writer::RETRY;

/// The most writes in flight. An object has one at a time.
const AT_ONCE: usize = 8;

/// Returns the right to write counts to the kind.
const fn right_to_count(kind: GuardedKind) -> Right {
    match kind {
        GuardedKind::Namespace => Right::CountInNamespaces,
        GuardedKind::CustomResourceDefinition => Right::CountInCrds,
    }
}

/// A write that has finished.
pub(super) struct Written {
    /// The object, as it was when this was decided.
    object: Guarded,
    text: Option<String>,
    outcome: Result<(), WriteError>,
}

pub(super) fn died(error: &JoinError) -> TaskDied {
    TaskDied(format!("a write to a protected object: {error}"))
}

fn key_of(object: &Guarded) -> Key {
    (object.kind, object.name.clone())
}

impl Protect {
    /// Reconciles the objects that are due, those that have been due for the longest time first.
    /// Objects whose last write has failed have a share of the writes, like namespaces elsewhere.
    pub(super) fn reconcile(&mut self, now: Moment) {
        let is_due = |entry: &Entry| !entry.is_writing && entry.due.is_some_and(|due| due <= now);
        while self.writes.len() < AT_ONCE {
            let next = self.shares.next(AT_ONCE, now, |may_begin| {
                let objects = self.objects.iter();
                let due = objects.filter(|(key, entry)| is_due(entry) && may_begin(&key.1));
                let first = due.min_by_key(|(_, entry)| entry.due);
                first.map(|(key, _)| key.clone())
            });
            let Some(key) = next else { return };
            self.reconcile_object(&key, now);
        }
    }

    fn reconcile_object(&mut self, key: &Key, now: Moment) {
        let Some(entry) = self.objects.get_mut(key) else {
            return;
        };
        let counts = entry.counts();
        match decide(&entry.object, counts, &mut entry.memory, now) {
            Step::Rest if entry.has_left => drop(self.objects.remove(key)),
            Step::Rest => entry.due = None,
            Step::Wait(until) => entry.due = Some(until),
            Step::Write(text) => {
                // What happens meanwhile makes it due again.
                (entry.due, entry.is_writing) = (None, true);
                let (writer, object) = (self.writer.clone(), entry.object.clone());
                self.shares.began(&key.1);
                self.writes.spawn(async move {
                    let outcome = writer.hold(&object, text.as_deref()).await;
                    Written {
                        object,
                        text,
                        outcome,
                    }
                });
            }
        }
    }

    pub(super) fn written(&mut self, written: Written) {
        let Written {
            object,
            text,
            outcome,
        } = written;
        let now = self.clock.now();
        let right = right_to_count(object.kind);
        self.health.note_write(right, "", &outcome);
        self.shares.finished(&object.name, &outcome, now);
        let Some(entry) = self.objects.get_mut(&key_of(&object)) else {
            return;
        };
        entry.is_writing = false;
        // What was observed meanwhile is newer, or is followed by what this write has changed.
        let is_same = entry.object.version == object.version;
        match outcome {
            Ok(()) => {
                entry.failures = 0;
                if is_same {
                    entry.object.holds = text.map(Into::into);
                }
                entry.due = Some(now);
            }
            // A denied object may have another uid.
            Err(WriteError::Gone | WriteError::Conflict | WriteError::Denied(_))
                if entry.has_left =>
            {
                entry.object.holds = None;
                entry.due = Some(now);
            }
            // The watch shows what has changed, or has shown it.
            Err(WriteError::Gone | WriteError::Conflict) => {}
            Err(WriteError::Denied(error) | WriteError::Failed { error, .. }) => {
                let (kind, name) = (object.kind.as_str(), &object.name);
                tracing::warn!(kind, %name, error, "the count of a protected object is not written; trying again");
                entry.due = Some(now + RETRY.after(entry.failures));
                entry.failures = entry.failures.saturating_add(1);
            }
        }
    }

    /// Withdraws the counts that allow a deletion, by one write each; the caller bounds the wait. A
    /// write in flight may be such a count, so it is followed by another.
    pub(super) async fn withdraw(&mut self) {
        let mut writes = JoinSet::new();
        for entry in self.objects.values() {
            if lets_go(&entry.object) && !entry.is_writing {
                let (writer, object) = (self.writer.clone(), entry.object.clone());
                writes.spawn(async move { drop(writer.hold(&object, None).await) });
            }
        }
        while let Some(done) = self.writes.join_next().await {
            if let Ok(Written { object, .. }) = done {
                let writer = self.writer.clone();
                writes.spawn(async move { drop(writer.hold(&object, None).await) });
            }
        }
        while writes.join_next().await.is_some() {}
    }
}
