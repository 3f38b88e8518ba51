//! The pods of a group, and the restarts that they request.

use std::collections::BTreeSet;
use std::time::Duration;

use swaplet_core::objects::moment::Moment;
use swaplet_core::restart::on_config::annotation::{Reference, Source};
use swaplet_core::restart::on_config::pod::ConfiguredPod;
use swaplet_core::restart::on_config::round::Member;
use swaplet_core::restart::on_config::{Around, Asked, Contents, Progress, stand};
use swaplet_core::restart::request::{RestartRequest, StatePhase};

use super::{Group, State};
use crate::restart::on_config::records::Records;

impl State {
    /// Returns true if an event has come since the last reconcile of this group.
    #[must_use]
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
    #[must_use]
    pub fn members<'a>(
        &'a self,
        of: &Group,
        records: &Records,
        mount_delay: Duration,
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
        pods.map(|pod| {
            let requests = self.requests_of(pod);
            let around = Around {
                find: &find,
                mount_delay,
                edited_at: self.edited_at.get(&pod.uid).copied().unwrap_or_default(),
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
            .map(|(_, request)| &request.asked)
            .collect();
        requests.sort_by_key(|request| (request.created_at, &request.name));
        requests
    }

    /// Returns the uids of the pods of a namespace that are being restarted.
    #[must_use]
    pub fn restarting(&self, namespace: &str) -> BTreeSet<String> {
        let open = self.requests.iter().filter(|((of, _, _), request)| {
            **of == *namespace && request.asked.progress == Progress::Open
        });
        open.map(|((_, uid, _), _)| uid.to_string()).collect()
    }
}

/// Returns the objects that a pod names.
pub(super) fn names(pod: &ConfiguredPod) -> impl Iterator<Item = &Reference> {
    let sources = pod.wish.iter().flat_map(|wish| wish.values().flatten());
    sources.filter_map(|source| match source {
        Source::Object(reference) => Some(reference),
        Source::PodMetadata => None,
    })
}

pub(super) fn progress(request: &RestartRequest, target: &Contents) -> Progress {
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
