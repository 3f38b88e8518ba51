//! The pods that request restarts, with an index by owner, so that nothing scans all pods for one
//! owner: a tenant may have thousands of both.

use std::collections::{BTreeMap, BTreeSet};

use swaplet_core::restart::on_config::pod::ConfiguredPod;

use super::{Group, Uid, group};

/// The pods, by uid.
#[derive(Default)]
pub(super) struct Pods {
    all: BTreeMap<Uid, ConfiguredPod>,
    /// The pods of each owner.
    groups: BTreeMap<Group, BTreeSet<Uid>>,
}

impl Pods {
    pub(super) fn get(&self, uid: &str) -> Option<&ConfiguredPod> {
        self.all.get(uid)
    }

    pub(super) fn uids(&self) -> impl Iterator<Item = &Uid> {
        self.all.keys()
    }

    pub(super) fn all(&self) -> impl Iterator<Item = &ConfiguredPod> {
        self.all.values()
    }

    /// Returns the pods of an owner, by uid.
    pub(super) fn of<'a>(&'a self, owner: &Group) -> impl Iterator<Item = &'a ConfiguredPod> {
        let uids = self.groups.get(owner);
        uids.into_iter()
            .flatten()
            .filter_map(move |uid| self.all.get(uid))
    }

    pub(super) fn insert(&mut self, pod: ConfiguredPod) {
        self.remove(&pod.uid);
        let uids = self.groups.entry(group(&pod)).or_default();
        uids.insert(pod.uid.clone());
        self.all.insert(pod.uid.clone(), pod);
    }

    pub(super) fn remove(&mut self, uid: &str) -> Option<ConfiguredPod> {
        let pod = self.all.remove(uid)?;
        let owner = group(&pod);
        if let Some(uids) = self.groups.get_mut(&owner) {
            uids.remove(uid);
            if uids.is_empty() {
                self.groups.remove(&owner);
            }
        }
        Some(pod)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use swaplet_core::restart::on_config::pod::ConfiguredPodWire;

    use super::*;

    fn pod(uid: &str, owner: &str) -> ConfiguredPod {
        let owners = json!([{"kind": "Other", "name": "o", "uid": owner, "controller": true}]);
        let pod = json!({"metadata": {"namespace": "team", "name": uid, "uid": uid, "ownerReferences": owners,
            "annotations": {"swaplet.io/restart-on": "x"}}});
        let wire: ConfiguredPodWire = serde_json::from_value(pod).unwrap();
        wire.read().unwrap()
    }

    #[test]
    fn pods_are_found_by_their_owner_and_nothing_is_kept_of_those_that_are_gone() {
        let mut pods = Pods::default();
        let of = |pods: &Pods, owner: &str| {
            let owner: Group = ("team".into(), owner.into());
            let found = pods.of(&owner).map(|pod| pod.uid.to_string());
            found.collect::<Vec<_>>()
        };
        for (uid, owner) in [("2", "a"), ("1", "a"), ("3", "b")] {
            pods.insert(pod(uid, owner));
        }
        assert_eq!(
            (of(&pods, "a"), of(&pods, "b")),
            (vec!["1".into(), "2".into()], vec!["3".into()])
        );
        pods.insert(pod("2", "b"));
        assert_eq!(
            (of(&pods, "a"), of(&pods, "b")),
            (vec!["1".into()], vec!["2".into(), "3".into()])
        );
        for uid in ["1", "2", "3", "none"] {
            pods.remove(uid);
        }
        assert!(pods.all.is_empty() && pods.groups.is_empty());
    }
}
