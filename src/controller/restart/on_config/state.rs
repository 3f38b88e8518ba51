//! The state of the loop, without any I/O and without a clock: pods that request restarts, the
//! objects that they name, and the requests made for them. An event only enqueues the pods of an
//! owner.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::frame::isolated::read;
use crate::frame::store::{Key, Store};
use crate::frame::watch::{Event, shared};
use crate::restart::on_config::RestartOnSettings;
use crate::restart::on_config::records::Records;
use swaplet_core::objects::moment::Moment;
use swaplet_core::restart::on_config::annotation::{Reference, Source};
use swaplet_core::restart::on_config::pod::{ConfiguredPod, ConfiguredPodWire};
use swaplet_core::restart::on_config::round::Member;
use swaplet_core::restart::on_config::{
    Around, Asked, Content, Contents, Progress, Sight, from_text, stand,
};
use swaplet_core::restart::request::{RestartRequest, RestartRequestWire, StatePhase};

/// The maximum number of watched objects, with a share for each namespace. Each has a watch of its
/// own.
pub const MOST_OBJECTS: usize = 256;

/// How long the record of a deleted pod is kept: by then it is known whether its namespace is
/// merely hidden.
const TIDY: Duration = Duration::from_secs(60);

/// The uid of a pod.
pub type Uid = Box<str>;
/// An object with its namespace.
pub type Object = (Box<str>, Reference);
/// The pods of an owner: their namespace, and the uid of the owner, or of the pod if it has none.
pub type Group = (Box<str>, Box<str>);

type RequestKey = (Box<str>, Uid, Box<str>);

/// The state of the loop.
#[derive(Default)]
pub struct State {
    pods: Pods,
    /// The requests, by namespace, the uid of the pod and their name. The uid is what the request
    /// says: a request counts only for pods of its own namespace.
    requests: BTreeMap<RequestKey, Asked>,
    /// The uid that each of them says, by namespace and name.
    named: Store<(), Option<Uid>>,
    objects: BTreeMap<Object, Known>,
    /// The groups to reconcile now.
    fresh: BTreeSet<Group>,
    /// The groups to reconcile later without an event.
    due: BTreeMap<Group, Moment>,
    /// When the records of deleted pods are dropped.
    tidy_at: Option<Moment>,
    named_have_changed: bool,
}

#[derive(Default)]
struct Known {
    sight: Sight,
    listed: bool,
}

impl State {
    /// Returns true once all pods and requests have been listed.
    pub const fn is_ready(&self) -> bool {
        self.pods.all.is_complete() && self.named.is_complete()
    }

    /// Returns true if the pod exists.
    pub fn has(&self, uid: &str) -> bool {
        self.pods.get(uid).is_some()
    }

    /// Returns true if the records of deleted pods must be dropped now; never while the pods of
    /// some namespace cannot be read, or may not have been listed again.
    pub fn may_prune(&mut self, now: Moment) -> bool {
        let is_known = !self.pods.are_hidden() && !self.pods.all.is_listing();
        is_known && self.tidy_at.take_if(|at| *at <= now).is_some()
    }

    /// Handles an event of the watch of pods.
    pub fn observe_pod(&mut self, event: Event<ConfiguredPodWire>, now: Moment) {
        if matches!(event, Event::ListEnd) {
            self.tidy_at = Some(now + TIDY);
        }
        let read = |pod: ConfiguredPodWire| read("pod", || pod.read()).filter(|pod| !pod.ending);
        let changes = self.pods.all.observe(event, now, read);
        for (_, pod, _) in changes.gone {
            self.pods.leaves(&pod);
            self.tidy_at.get_or_insert(now + TIDY);
            self.named_have_changed = true;
            self.fresh.insert(group(&pod));
        }
        let Some((key, before)) = changes.put else {
            return;
        };
        before.iter().for_each(|before| self.pods.leaves(before));
        if let Some((pod, edited_at)) = self.pods.enters(key) {
            self.fresh.insert(group(pod));
            let before = before.as_ref();
            self.named_have_changed |= before.is_none_or(|before| before.wish != pod.wish);
            if before.is_none_or(|before| before.metadata != pod.metadata) {
                *edited_at = now;
            }
        }
    }

    /// Handles an event of the watch of requests.
    pub fn handle(&mut self, event: Event<RestartRequestWire>, now: Moment) {
        let read = |request: RestartRequestWire| read("request", || request.read());
        let (gone, seen) = self.named.observe_names(event, now, read);
        for ((namespace, name), pod) in gone {
            pod.iter()
                .for_each(|pod| self.leaves(&namespace, pod, &name));
        }
        if let Some((_, request)) = seen {
            self.show(&request);
        }
    }

    /// Adds a request by an answer, which may come after the watch has shown more of it.
    pub fn know(&mut self, request: &RestartRequest) {
        let state = (request.uid.clone(), request.version.clone());
        if self.named.created(key_of(request), state, ()) {
            self.show(request);
        }
    }

    /// Updates a request; one that was not made here is ignored.
    fn show(&mut self, request: &RestartRequest) {
        let key = key_of(request);
        let target = request.restart_on.as_deref().and_then(from_text);
        let Some((pod, target)) = request.pod_uid.clone().zip(target) else {
            if !self.is_assumed(request)
                && let Some(((), Some(pod))) = self.named.forget(&key)
            {
                self.leaves(&key.0, &pod, &key.1);
            }
            return;
        };
        self.name_pod(&key, &pod);
        let asked = Asked {
            name: request.name.clone(),
            uid: request.uid.clone(),
            progress: progress(request, &target),
            target,
            created_at: request.created_at,
        };
        self.enqueue(&request.namespace, &pod);
        self.requests.insert((key.0, pod, key.1), asked);
    }

    /// Removes what a request has said before of another pod: others may change it at any time.
    fn name_pod(&mut self, key: &Key, pod: &Uid) {
        let named = self.named.get_mut(key);
        let before = named.and_then(|(_, named)| named.replace(pod.clone()));
        if let Some(before) = before.filter(|before| before != pod) {
            self.leaves(&key.0, &before, &key.1);
        }
    }

    /// Returns true if a request is known by its uid alone.
    fn is_assumed(&self, request: &RestartRequest) -> bool {
        let key = key_of(request);
        let named = self.named.get(&key).and_then(|(_, named)| named.clone());
        let known = named.and_then(|pod| self.requests.get(&(key.0, pod, key.1)));
        known.is_some_and(|known| {
            known.created_at.is_none() && !known.uid.is_empty() && known.uid == request.uid
        })
    }

    /// Adds a request whose creation has an unknown outcome: it counts as made until that is known.
    /// One with this uid, which does not say what it is for, counts until it is gone.
    pub fn assume(&mut self, pod: &ConfiguredPod, name: &str, uid: &str, target: Contents) {
        let asked = Asked {
            name: name.into(),
            uid: uid.into(),
            target,
            progress: Progress::Open,
            created_at: None,
        };
        let key: Key = (pod.namespace.clone(), name.into());
        let state = (uid.into(), Box::default());
        self.named.created(key.clone(), state, ());
        self.name_pod(&key, &pod.uid);
        let key = (key.0, pod.uid.clone(), key.1);
        let known = self.requests.entry(key).or_insert(asked);
        if known.uid.is_empty() {
            known.uid = uid.into();
        }
    }

    /// Removes a request.
    pub fn forget(&mut self, namespace: &str, pod: &Uid, name: &str) {
        let key: Key = (namespace.into(), name.into());
        let named = self.named.get(&key);
        if named.is_some_and(|(_, named)| named.as_ref() == Some(pod)) {
            self.named.forget(&key);
        }
        self.leaves(namespace, pod, name);
    }

    /// Removes what a request has said of a pod.
    fn leaves(&mut self, namespace: &str, pod: &Uid, name: &str) {
        self.requests
            .remove(&(namespace.into(), pod.clone(), name.into()));
        self.enqueue(namespace, pod);
    }

    fn enqueue(&mut self, namespace: &str, pod: &Uid) {
        let pod = self.pods.get(pod);
        self.fresh
            .extend(pod.filter(|pod| &*pod.namespace == namespace).map(group));
    }

    /// Handles an event of the watch of an object; one that cannot be read is [`Content::Unclear`].
    pub fn observe_object(&mut self, object: &Object, event: Event<Content>, now: Moment) {
        let Some(known) = self.objects.get_mut(object) else {
            return;
        };
        let content = match event {
            Event::ListStart => {
                known.listed = false;
                return;
            }
            Event::Listed(content) | Event::Applied(content) => {
                known.listed = true;
                content
            }
            Event::Deleted(_) => Content::Absent,
            Event::ListEnd if !known.listed => Content::Absent,
            Event::ListEnd
            | Event::Current(_)
            | Event::Relists(_)
            | Event::Trouble(_)
            | Event::Hidden(_) => return,
            Event::Forbidden(_) if known.sight == Sight::Forbidden => return,
            Event::Forbidden(_) => {
                known.sight = Sight::Forbidden;
                return self.enqueue_users_of(object);
            }
        };
        let same = matches!(&known.sight, Sight::Seen { content: old, .. } if *old == content);
        if !same && content != Content::Unclear {
            let since = now;
            known.sight = Sight::Seen { content, since };
            self.enqueue_users_of(object);
        }
    }

    fn enqueue_users_of(&mut self, object: &Object) {
        let users = self
            .pods
            .all()
            .filter(|pod| pod.namespace == object.0 && names(pod).any(|name| *name == object.1));
        let groups: Vec<_> = users.map(group).collect();
        self.fresh.extend(groups);
    }

    /// Returns the objects to watch; `None` if they have not changed, or the pods have not been
    /// listed: each pod of the first list would mean a look at all before it.
    pub fn objects(&mut self) -> Option<impl Iterator<Item = &Object>> {
        if !self.pods.all.is_complete() || !std::mem::take(&mut self.named_have_changed) {
            return None;
        }
        let named: BTreeSet<Object> = self
            .pods
            .all()
            .flat_map(|pod| names(pod).map(|name| (pod.namespace.clone(), name.clone())))
            .collect();
        let bounds = (MOST_OBJECTS, MOST_OBJECTS);
        let watched = shared(
            named.clone(),
            bounds,
            |object| &object.0,
            |object| self.objects.contains_key(object),
        );
        let made_room: Vec<_> = self
            .objects
            .keys()
            .filter(|object| named.contains(*object) && !watched.contains(*object))
            .cloned()
            .collect();
        self.objects.retain(|object, _| watched.contains(object));
        for object in watched {
            self.objects.entry(object).or_default();
        }
        made_room
            .iter()
            .for_each(|object| self.enqueue_users_of(object));
        Some(self.objects.keys())
    }

    /// Returns the objects that an owner's pods name and that are not watched, each with the first
    /// of these pods.
    pub fn unwatched(&self, of: &Group) -> Vec<(ConfiguredPod, Reference)> {
        let mut seen = BTreeSet::new();
        let named = self
            .pods
            .of(of)
            .flat_map(|(pod, _)| names(pod).map(move |name| (pod, name)));
        let unwatched =
            named.filter(|(_, name)| !self.objects.contains_key(&(of.0.clone(), (*name).clone())));
        unwatched
            .filter(|(_, name)| seen.insert(*name))
            .map(|(pod, name)| (pod.clone(), name.clone()))
            .collect()
    }

    /// Schedules a reconcile of the group of this pod.
    pub fn requeue(&mut self, pod: &Uid, now: Moment) {
        self.due
            .extend(self.pods.get(pod).map(|pod| (group(pod), now)));
    }

    /// Returns the groups to reconcile now.
    pub fn fresh(&mut self, now: Moment) -> Vec<Group> {
        let due = self.due.extract_if(.., |_, at| *at <= now);
        self.fresh.extend(due.map(|(group, _)| group));
        self.fresh.iter().cloned().collect()
    }

    /// Records that a group was reconciled; it is due again at `again`.
    pub fn reconciled(&mut self, group: &Group, again: Option<Moment>) {
        self.fresh.remove(group);
        self.due.remove(group);
        self.due.extend(again.map(|at| (group.clone(), at)));
    }

    /// Schedules another reconcile of a group, at this time at the latest.
    pub fn again(&mut self, group: &Group, at: Moment) {
        let due = self.due.entry(group.clone()).or_insert(at);
        *due = at.min(*due);
    }

    /// Returns the next time at which there is work without an event; `None` until all is listed.
    pub fn next_due(&self) -> Option<Moment> {
        if !self.is_ready() {
            return None;
        }
        let tidy = self.tidy_at.filter(|_| !self.pods.are_hidden());
        self.due.values().copied().chain(tidy).min()
    }

    /// Returns one of the pods of an owner.
    pub fn first(&self, of: &Group) -> Option<&ConfiguredPod> {
        self.pods.of(of).next().map(|(pod, _)| pod)
    }
}

fn key_of(request: &RestartRequest) -> Key {
    (request.namespace.clone(), request.name.clone())
}

fn group(pod: &ConfiguredPod) -> Group {
    (
        pod.namespace.clone(),
        pod.owner.clone().unwrap_or_else(|| pod.uid.clone()),
    )
}

// The pods that request restarts, with an index by owner, so that nothing scans all pods for one
// owner: a tenant may have thousands of both.

/// The pods, each with the time when its metadata last changed for which containers are restarted.
#[derive(Default)]
struct Pods {
    all: Store<ConfiguredPod, Moment>,
    /// The key of each, by its uid.
    keys: BTreeMap<Uid, Key>,
    /// The pods of each owner.
    groups: BTreeMap<Group, BTreeSet<Uid>>,
}

impl Pods {
    /// Returns true while those of some namespace cannot be read.
    fn are_hidden(&self) -> bool {
        self.all.hidden().is_some()
    }

    fn get(&self, uid: &str) -> Option<&ConfiguredPod> {
        let (pod, _) = self.all.get(self.keys.get(uid)?)?;
        Some(pod)
    }

    fn all(&self) -> impl Iterator<Item = &ConfiguredPod> {
        self.all.iter().map(|(_, pod, _)| pod)
    }

    /// Returns the pods of an owner, by uid.
    fn of<'a>(&'a self, owner: &Group) -> impl Iterator<Item = (&'a ConfiguredPod, &'a Moment)> {
        let uids = self.groups.get(owner);
        uids.into_iter()
            .flatten()
            .filter_map(move |uid| self.all.get(self.keys.get(uid)?))
    }

    /// Finds the pod by its owner and uid from now on.
    fn enters(&mut self, key: Key) -> Option<(&ConfiguredPod, &mut Moment)> {
        let (pod, edited_at) = self.all.get_mut(&key)?;
        let uids = self.groups.entry(group(pod)).or_default();
        uids.insert(pod.uid.clone());
        self.keys.insert(pod.uid.clone(), key);
        Some((pod, edited_at))
    }

    fn leaves(&mut self, pod: &ConfiguredPod) {
        self.keys.remove(&pod.uid);
        let owner = group(pod);
        if let Some(uids) = self.groups.get_mut(&owner) {
            uids.remove(&pod.uid);
            if uids.is_empty() {
                self.groups.remove(&owner);
            }
        }
    }
}

#[cfg(test)]
mod pods_tests {
    use serde_json::json;

    use super::*;

    fn pod(uid: &str, owner: &str) -> ConfiguredPodWire {
        let owners = json!([{"kind": "Other", "name": "o", "uid": owner, "controller": true}]);
        let pod = json!({"metadata": {"namespace": "team", "name": uid, "uid": uid, "ownerReferences": owners,
            "annotations": {"swaplet.io/restart-on": "x"}}});
        serde_json::from_value(pod).unwrap()
    }

    #[test]
    fn pods_are_found_by_their_owner_and_nothing_is_kept_of_those_that_are_gone() {
        let mut state = State::default();
        let of = |state: &State, owner: &str| {
            let owner: Group = ("team".into(), owner.into());
            let found = state.pods.of(&owner).map(|(pod, _)| pod.uid.to_string());
            found.collect::<Vec<_>>()
        };
        for (uid, owner) in [("2", "a"), ("1", "a"), ("3", "b")] {
            state.observe_pod(Event::Applied(pod(uid, owner)), Moment::START);
        }
        assert_eq!(
            (of(&state, "a"), of(&state, "b")),
            (vec!["1".into(), "2".into()], vec!["3".into()])
        );
        state.observe_pod(Event::Applied(pod("2", "b")), Moment::START);
        assert_eq!(
            (of(&state, "a"), of(&state, "b")),
            (vec!["1".into()], vec!["2".into(), "3".into()])
        );
        for uid in ["1", "2", "3", "none"] {
            state.observe_pod(Event::Deleted(pod(uid, "b")), Moment::START);
        }
        let Pods { all, keys, groups } = &state.pods;
        assert!(all.is_empty() && keys.is_empty() && groups.is_empty());
    }
}

// The pods of a group, and the restarts that they request.

impl State {
    /// Returns true if an event has come since the last reconcile of this group.
    pub fn is_fresh(&self, group: &Group) -> bool {
        self.fresh.contains(group)
    }

    /// Records that writes for a group have had their outcomes: what these changed here is no event
    /// to reconcile it for, or denied ones would be made again at once.
    pub fn written(&mut self, group: &Group, was_fresh: bool) {
        if !was_fresh {
            self.fresh.remove(group);
        }
    }

    /// Returns the current state of an owner's pods, sorted by name.
    pub fn members<'a>(
        &'a self,
        of: &Group,
        records: &Records,
        settings: &RestartOnSettings,
        now: Moment,
    ) -> Vec<Member<'a>> {
        let find = |reference: &Reference| {
            self.objects
                .get(&(of.0.clone(), reference.clone()))
                .map(|known| known.sight.clone())
                .unwrap_or_default()
        };
        let none = Contents::new();
        let pods = self.pods.of(of);
        pods.map(|(pod, edited_at)| {
            let requests = self.requests_of(pod);
            let around = Around {
                find: &find,
                mount_delay: settings.mount_delay,
                park: settings.park.as_ref(),
                edited_at: *edited_at,
                now,
            };
            let standing = stand(
                pod,
                records.of(&pod.uid).unwrap_or(&none),
                &requests,
                &around,
            );
            Member {
                pod,
                standing,
                requests,
                budgets: Vec::new(),
            }
        })
        .collect()
    }

    /// Returns the requests for a pod, oldest first.
    fn requests_of(&self, pod: &ConfiguredPod) -> Vec<&Asked> {
        let from = (pod.namespace.clone(), pod.uid.clone(), Box::from(""));
        let mut requests: Vec<_> = self
            .requests
            .range(from..)
            .take_while(|((namespace, uid, _), _)| *namespace == pod.namespace && *uid == pod.uid)
            .map(|(_, asked)| asked)
            .collect();
        requests.sort_by_key(|request| (request.created_at, &request.name));
        requests
    }

    /// Returns the uids of the pods of a namespace that are being restarted.
    pub fn restarting(&self, namespace: &str) -> BTreeSet<String> {
        let open = self.requests.iter().filter(|((of, _, _), request)| {
            **of == *namespace && request.progress == Progress::Open
        });
        open.map(|((_, uid, _), _)| uid.to_string()).collect()
    }
}

/// Returns the objects that a pod names.
fn names(pod: &ConfiguredPod) -> impl Iterator<Item = &Reference> {
    let sources = pod.wish.iter().flat_map(|wish| wish.values().flatten());
    sources.filter_map(|source| match source {
        Source::Object(reference) => Some(reference),
        Source::PodMetadata => None,
    })
}

fn progress(request: &RestartRequest, target: &Contents) -> Progress {
    if !request.is_completed() {
        return Progress::Open;
    }
    let states: Vec<_> = target
        .keys()
        .map(|container| request.state(container))
        .collect();
    match states
        .iter()
        .find(|state| state.phase != StatePhase::Succeeded)
    {
        None => Progress::Succeeded,
        Some(state) if state.message.is_empty() => Progress::Failed(request.message.clone()),
        Some(state) => Progress::Failed(state.message.clone()),
    }
}

#[cfg(test)]
mod tests;
