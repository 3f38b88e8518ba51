//! The controller's SidecarPolicies: those in effect, their status, and their problems.
//!
//! Pods without a rule are not kept, so a change of policies requires a new list of pods. The
//! pauses between these lists grow, because otherwise anybody who may write policies could have
//! pods listed all the time.

pub mod observe;

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::time::Duration;

use crate::cluster::status_owner::{StatusOwner, Unread};
use crate::frame::clock::seconds;
use crate::frame::store::Store;
use crate::frame::watch::Event;
use crate::frame::writer::{Writer, params, requests_for};
use jiff::Timestamp;
use kube::api::Patch;
use serde_json::{Value, json};
use swaplet_core::cluster::exit_images::ExitImages;
use swaplet_core::objects::moment::Moment;
use swaplet_core::objects::namespace::NamespaceWire;
use swaplet_core::objects::sidecar_policy::{PolicyKind, SidecarPolicy};
use swaplet_core::objects::values::bounded_object::BoundedObject;
use swaplet_core::objects::values::problems::MOST_PROBLEMS;
use swaplet_core::policies::set::{Policies, PolicyKey, key};
use swaplet_core::report::write_error::WriteError;

/// The maximum number of policies of one namespace, and of the cluster.
const MOST_IN_NAMESPACE: usize = 64;
const MOST_OF_CLUSTER: usize = 1024;
/// The first pause between two lists of all pods for changed policies; it doubles.
const FIRST_PAUSE: Duration = Duration::from_secs(5);
const LONGEST_PAUSE: Duration = Duration::from_secs(160);
/// After this time without a change the pause starts again at its minimum.
const QUIET: Duration = Duration::from_secs(600);
/// How long after the start no sidecar is ended in pods that were read before the policies were
/// known: a policy may set a delay for a sidecar that is marked by its environment. After that,
/// pods are ended as if there were no policies, for installations that may not read them.
pub const PATIENCE: Duration = Duration::from_secs(60);
/// The minimum interval between two writes of statuses.
const STATUS_EVERY: Duration = Duration::from_secs(10);
/// The minimum interval between two writes of the same status of a policy.
const SAME_STATUS_EVERY: Duration = Duration::from_secs(60);

/// The policies, and the work that is pending for them.
#[derive(Default)]
pub struct PolicyStore {
    /// The policies in effect.
    pub set: Policies,
    /// The policies of each kind; what is known of one is set as soon as it is there.
    known: BTreeMap<PolicyKind, Store<(), Option<Known>>>,
    /// The namespaces; their labels are in `set`.
    namespaces: Store<()>,
    /// Set once it was reported that policies are unknown.
    is_told: bool,
    relist: Relist,
    /// True while all pods are being listed.
    are_pods_listed: bool,
    status_due: Option<Moment>,
    /// True if policies are watched at all.
    is_on: bool,
    owner: StatusOwner,
}

/// A known policy.
#[derive(Debug)]
pub struct Known {
    /// The policy as it was read.
    pub policy: SidecarPolicy,
    /// The parts without effect, each with the fix.
    pub problems: Vec<String>,
    /// `status` as the API server has it, or as it was written last.
    pub status: Value,
    /// The last status that was written, and until when it is not written again: another
    /// installation counts its own pods, and may write another one each time. Null if it was not
    /// applied: then none is written until then.
    written: Option<(Value, Moment)>,
    unread: Unread,
    /// False if there were too many others: its rules are ignored.
    counts: bool,
    /// `status.ended` when it was first observed, plus the pods that ended since.
    ended: u64,
}

/// The time of the next relist of all pods.
#[derive(Debug, Default)]
struct Relist {
    wanted: bool,
    last: Option<Moment>,
    pause: Duration,
}

impl PolicyStore {
    /// Returns a store whose policies are watched.
    pub fn watched() -> Self {
        Self {
            is_on: true,
            ..Self::default()
        }
    }

    /// Returns a store of the installation with this state namespace.
    #[must_use]
    pub fn of_installation(mut self, state_namespace: Option<&str>) -> Self {
        self.owner = StatusOwner::new("SidecarPolicy", state_namespace);
        self
    }

    /// Returns true if policies are watched.
    pub const fn is_on(&self) -> bool {
        self.is_on
    }

    /// Returns all known policies, by descending precedence.
    pub fn all(&self) -> impl Iterator<Item = &Known> {
        let all = self.known.values().flat_map(Store::iter);
        all.filter_map(|(.., known)| known.as_ref())
    }

    fn get_mut(&mut self, (kind, namespace, name): &PolicyKey) -> Option<&mut Known> {
        let key = (namespace.clone(), name.clone());
        self.known.get_mut(kind)?.get_mut(&key)?.1.as_mut()
    }

    /// Returns true once both kinds have been listed.
    pub fn are_listed(&self) -> bool {
        PolicyKind::ALL.iter().all(|kind| self.has_listed(*kind))
    }

    fn has_listed(&self, kind: PolicyKind) -> bool {
        self.known.get(&kind).is_some_and(Store::is_complete)
    }

    /// Returns true while it is unknown which policies match a pod: they, or the namespace labels
    /// that they select by, have not been listed.
    pub fn are_unknown(&self) -> bool {
        let lack_namespaces = !self.namespaces.is_complete() && self.set.ask_for_namespaces();
        self.is_on && (!self.are_listed() || lack_namespaces)
    }

    /// Returns until when nothing is ended of pods that were read without policies; `None` after
    /// that.
    pub fn unseen_until(&self, now: Moment) -> Option<Moment> {
        let until = Moment::START + PATIENCE;
        (self.is_on && now < until).then_some(until)
    }

    /// Returns true, once, when it must be reported that pods are ended without policies.
    pub fn take_unknown(&mut self, now: Moment) -> bool {
        let is_late = now.since_start() >= PATIENCE && self.are_unknown();
        is_late && !std::mem::replace(&mut self.is_told, true)
    }

    /// Handles an event of the watch of namespaces, by whose labels policies may select.
    pub fn observe_namespace(&mut self, event: Event<NamespaceWire>) {
        let were_unknown = self.are_unknown();
        let read = NamespaceWire::read;
        // No answers are stored, so the time counts for nothing.
        let (gone, seen) = self.namespaces.observe_names(event, Moment::START, read);
        for ((_, name), ()) in gone {
            self.namespace(&name, None);
        }
        if let Some((_, (name, labels))) = seen {
            self.namespace(&name, Some(labels));
        }
        self.relist.wanted |= were_unknown && !self.are_unknown();
    }

    /// Handles an event of the watch of a kind. Returns true if it changes anything for pods.
    pub fn handle(
        &mut self,
        kind: PolicyKind,
        event: Event<BoundedObject>,
        exit_images: &ExitImages,
    ) -> bool {
        let were_unknown = self.are_unknown();
        let read = |object: BoundedObject| {
            let status = object.data["status"].clone();
            Some((SidecarPolicy::read(kind, object)?, status))
        };
        let known = self.known.entry(kind).or_default();
        // No answers are stored, so the time counts for nothing.
        let (gone, seen) = known.observe_names(event, Moment::START, read);
        let gone = gone.into_iter();
        let keys = gone.map(|((namespace, name), _)| (kind, namespace, name));
        let removed = keys.filter(|key| self.set.remove(key)).count();
        let is_applied =
            seen.is_some_and(|(_, (policy, status))| self.apply(policy, status, exit_images));
        let has_changed = is_applied || removed > 0;
        // Pods that were read without policies are listed again.
        self.relist.wanted |= has_changed || (were_unknown && !self.are_unknown());
        has_changed
    }

    /// Handles new labels of a namespace; `None` if the namespace is gone.
    pub fn namespace(&mut self, name: &str, labels: Option<BTreeMap<String, String>>) {
        self.relist.wanted |= self.set.namespace(name, labels);
    }

    fn apply(&mut self, mut policy: SidecarPolicy, status: Value, images: &ExitImages) -> bool {
        let key = key(&policy);
        let place = (key.1.clone(), key.2.clone());
        let all = self.known.entry(policy.kind).or_default();
        let beside = all.of(&key.1);
        let beside = beside.filter_map(|(_, known)| Some(known.as_ref()?.counts));
        let (counting, others): (Vec<_>, Vec<_>) = beside.partition(|counts| *counts);
        let most = most(policy.kind);
        let Some((_, kept)) = all.get_mut(&place) else {
            return false;
        };
        let before = kept.take();
        // Not by its first event alone: the write of its status causes a second one.
        let counts = before.as_ref().is_some_and(|known| known.counts) || counting.len() < most;
        // So many that do not count are kept, to say so in their status, and no further one: each
        // costs memory, and time with each round of statuses.
        if before.is_none() && !counts && others.len() >= most {
            all.forget(&place);
            return false;
        }
        let has_changed = if counts {
            self.set.apply(&policy)
        } else {
            policy.rules.clear();
            policy.problems = vec![format!(
                "there are too many policies: at most {MOST_IN_NAMESPACE} of a namespace and {MOST_OF_CLUSTER} of the cluster count; delete others, then change this one"
            )];
            self.set.remove(&key)
        };
        let mut problems = policy.problems.clone();
        problems.extend(self.set.preset_problems(&key).iter().cloned());
        problems.extend(unlisted_images(&policy, images));
        problems.truncate(MOST_PROBLEMS);
        let is_own = self.owner.is_own(&status);
        let ended = if is_own { policy.ended } else { 0 };
        let new = (None, Unread::default(), ended);
        let (written, unread, ended) =
            before.map_or(new, |known| (known.written, known.unread, known.ended));
        *kept = Some(Known {
            policy,
            problems,
            status,
            written,
            unread,
            counts,
            ended,
        });
        has_changed
    }

    /// Takes a kind that was never listed for one without policies.
    pub(crate) fn give_up(&mut self, kind: PolicyKind) {
        if !self.has_listed(kind) {
            self.handle(kind, Event::ListEnd, &ExitImages::default());
        }
    }

    /// Records that a list of all pods has started, or that it is complete.
    pub const fn pods_are_listed(&mut self, are_listed: bool) {
        self.are_pods_listed = are_listed;
    }

    /// Returns true if all pods must be listed again now, and records that they are.
    pub fn take_relist(&mut self, now: Moment) -> bool {
        let is_due = self.relist_due(now).is_some_and(|at| at <= now);
        if is_due {
            let quiet = self.relist.last.is_none_or(|last| now >= last + QUIET);
            self.relist = Relist {
                wanted: false,
                last: Some(now),
                pause: if quiet {
                    FIRST_PAUSE
                } else {
                    (self.relist.pause * 2).min(LONGEST_PAUSE)
                },
            };
        }
        is_due
    }

    /// Records that pods are being listed with all policies known so far.
    pub const fn listed_anew(&mut self) {
        self.relist.wanted = false;
    }

    /// Returns when pods are listed again. A list in progress is not dropped for that: whoever
    /// keeps changing policies could keep every list from being complete, and no swap that counts
    /// for a Job is granted before. Only at the start are pods ended as if there were no policies
    /// unless they are read again in time.
    fn relist_due(&self, now: Moment) -> Option<Moment> {
        let waits = self.are_pods_listed && now.since_start() >= PATIENCE;
        (self.relist.wanted && !waits).then(|| {
            self.relist
                .last
                .map_or(Moment::START, |last| last + self.relist.pause)
        })
    }

    /// Postpones the next statuses, because some are still being written.
    pub fn put_off(&mut self, now: Moment) {
        self.status_due = Some(now + STATUS_EVERY);
    }

    /// Returns the next time at which there is work without an event: a relist or a status.
    pub fn next_due(&self, now: Moment) -> Option<Moment> {
        let has_some = self.all().next().is_some();
        let status = has_some.then(|| self.status_due.unwrap_or(now));
        self.relist_due(now).into_iter().chain(status).min()
    }

    /// Counts a pod whose sidecars were ended by this policy.
    pub fn ended(&mut self, key: &PolicyKey) {
        if let Some(known) = self.get_mut(key) {
            known.ended = known.ended.saturating_add(1);
        }
    }
}

/// Returns the number of policies of a kind that count in one place.
const fn most(kind: PolicyKind) -> usize {
    match kind {
        PolicyKind::Namespaced => MOST_IN_NAMESPACE,
        PolicyKind::Cluster => MOST_OF_CLUSTER,
    }
}

/// Reports exit images that the administrator has not listed: the default is used instead.
fn unlisted_images(policy: &SidecarPolicy, images: &ExitImages) -> Vec<String> {
    let unlisted = policy.rules.iter().filter_map(|rule| {
        let asked = rule.ending.exit_image.as_deref()?;
        let listed = images.lists(asked);
        (!listed).then(|| {
            format!(
                "spec.sidecars[{}].exitImage: {asked} is not on the list of --exit-images, so the default exit image is used",
                rule.nth
            )
        })
    });
    unlisted.collect()
}

// The status of policies, and its write.

/// The maximum number of reasons that are counted.
const MOST_REASONS: usize = 16;

/// The pods that a policy matches, among those that are kept.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// The number of pods that it matches.
    pub matched: u64,
    /// The number of pods whose sidecars are not ended, by reason.
    pub refused: BTreeMap<&'static str, u64>,
}

/// A pending write of a status.
#[derive(Clone, Debug)]
pub struct StatusWrite {
    key: PolicyKey,
    uid: Box<str>,
    status: Value,
}

impl PolicyStore {
    /// Returns the statuses to write now; `counts` is called only if a write is due.
    pub fn statuses(
        &mut self,
        now: Moment,
        today: Timestamp,
        counts: impl FnOnce() -> BTreeMap<PolicyKey, Counts>,
    ) -> Vec<StatusWrite> {
        if self.all().next().is_none() || self.status_due.is_some_and(|at| at > now) {
            return Vec::new();
        }
        self.status_due = Some(now + STATUS_EVERY);
        let counts = counts();
        let nothing = Counts::default();
        let owner = &mut self.owner;
        let all = self.known.values_mut().flat_map(Store::iter_mut);
        let all = all.filter_map(|(.., known)| known.as_mut());
        let changed = all.filter_map(|known| {
            if known.is_of_another(owner, now) {
                return None;
            }
            let counts = counts.get(&key(&known.policy)).unwrap_or(&nothing);
            known.next_status(counts, owner, now, today)
        });
        changed.collect()
    }

    /// Forgets a status that could not be written, because what the API server has is unknown, and
    /// waits before the next one, whatever that says.
    pub fn not_written(&mut self, write: &StatusWrite, now: Moment) {
        if let Some(known) = self.get_mut(&write.key) {
            known.status = Value::Null;
            known.written = Some((Value::Null, now + SAME_STATUS_EVERY));
        }
    }
}

impl Known {
    /// Returns true if the status is for another installation to write.
    fn is_of_another(&mut self, owner: &mut StatusOwner, now: Moment) -> bool {
        let shown = (&self.status, self.policy.generation);
        let mut leaves = || owner.leaves(shown, &mut self.unread, Ordering::Equal, now);
        self.policy.kind == PolicyKind::Cluster && leaves().is_some()
    }

    fn next_status(
        &mut self,
        counts: &Counts,
        owner: &StatusOwner,
        now: Moment,
        today: Timestamp,
    ) -> Option<StatusWrite> {
        let policy = &self.policy;
        let refused: Vec<_> = counts
            .refused
            .iter()
            .take(MOST_REASONS)
            .map(|(reason, count)| json!({"reason": reason, "count": count}))
            .collect();
        let mut status = json!({
            "observedGeneration": policy.generation,
            "conditions": [self.accepted(today)],
            "matched": counts.matched,
            "ended": self.ended,
            "refused": refused,
            "problems": self.problems,
        });
        if policy.kind == PolicyKind::Cluster {
            owner.sign(&mut status, &self.status);
        }
        let is_last = |(last, _): &&(Value, Moment)| last.is_null() || *last == status;
        let again = self.written.as_ref().filter(is_last);
        if status == self.status || again.is_some_and(|(_, until)| *until > now) {
            return None;
        }
        self.written = Some((status.clone(), now + SAME_STATUS_EVERY));
        self.status = status.clone();
        Some(StatusWrite {
            key: key(policy),
            uid: policy.uid.clone(),
            status,
        })
    }

    /// Returns the condition `Accepted`; its transition time changes only with its status.
    fn accepted(&self, today: Timestamp) -> Value {
        let SidecarPolicy {
            rules, generation, ..
        } = &self.policy;
        let (status, reason) = match (rules.is_empty(), self.problems.is_empty()) {
            (true, _) => ("False", "Invalid"),
            (false, true) => ("True", "Accepted"),
            (false, false) => ("True", "PartlyAccepted"),
        };
        let message = self.problems.first().cloned().unwrap_or_default();
        let before = &self.status["conditions"][0];
        let since = before["lastTransitionTime"]
            .as_str()
            .filter(|_| before["status"] == status)
            .map_or_else(|| seconds(today), str::to_owned);
        json!({
            "type": "Accepted", "status": status, "reason": reason, "message": message,
            "observedGeneration": generation, "lastTransitionTime": since,
        })
    }
}

impl Writer {
    /// Writes the status of a policy, if its uid is still the same.
    ///
    /// # Errors
    /// Returns why the write was not applied.
    pub async fn report_policy(&self, write: &StatusWrite) -> Result<(), WriteError> {
        let body = json!({"metadata": {"uid": write.uid}, "status": write.status});
        let (kind, namespace, name) = &write.key;
        let namespace = (*kind == PolicyKind::Namespaced).then_some(&**namespace);
        let policies = requests_for::<BoundedObject>(&kind.resource(), namespace);
        let patch = Patch::Merge(body);
        let built = policies.patch_subresource("status", name, &params(), &patch);
        self.sent(kind.plural(), built).await.map(drop)
    }
}

#[cfg(test)]
mod tests;
