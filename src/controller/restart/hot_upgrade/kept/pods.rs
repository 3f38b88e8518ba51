//! The pods of a set that are kept: anyone may create pods that a set selects, so each namespace has
//! a share.

use std::collections::BTreeMap;

use swaplet_core::restart::hot_upgrade::pod::UpgradePod;

use super::Uid;
use super::pod::KeptPod;

/// The maximum number of pods kept per set.
pub(super) const MOST_PODS: usize = 20_000;

/// The kept pods of a set.
#[derive(Default)]
pub(super) struct Pods {
    pub(super) by_uid: BTreeMap<Uid, KeptPod>,
    /// The number of them in each namespace.
    taken: BTreeMap<Box<str>, usize>,
    /// True if pods were left out of the list, or have been since.
    pub(super) are_left_out: bool,
    /// True if there may be room for pods that were left out.
    pub(super) have_room: bool,
}

impl Pods {
    /// Keeps a pod as it is now, unless there is no room for a new one. A namespace takes a place
    /// only while more are free than it has. So one alone has half of them, and there is a place for
    /// the pods of others.
    pub(super) fn keep(&mut self, pod: UpgradePod, is_new: bool) {
        if let Some(kept) = self.by_uid.get_mut(&pod.uid) {
            kept.pod = pod;
            return;
        }
        let taken = self.taken.get(&pod.namespace).copied().unwrap_or_default();
        if taken >= MOST_PODS.saturating_sub(self.by_uid.len()) {
            self.are_left_out = true;
            return;
        }
        self.taken.insert(pod.namespace.clone(), taken + 1);
        self.by_uid
            .insert(pod.uid.clone(), KeptPod::new(pod, is_new));
    }

    /// Drops a pod that is gone.
    pub(super) fn forget(&mut self, uid: &str) {
        let Some(gone) = self.by_uid.remove(uid) else {
            return;
        };
        if let Some(taken) = self.taken.get_mut(&gone.pod.namespace) {
            *taken -= 1;
            if *taken == 0 {
                self.taken.remove(&gone.pod.namespace);
            }
        }
        self.have_room = self.are_left_out;
    }

    /// Begins a new list, which shows what is still left out.
    pub(super) const fn begin_list(&mut self) {
        (self.are_left_out, self.have_room) = (false, false);
    }
}

#[cfg(test)]
mod tests {
    use std::ops::RangeInclusive;
    use std::sync::LazyLock;
    use std::time::Duration;

    use kube::core::Selector;
    use serde_json::{Value, json};
    use swaplet_core::objects::moment::Moment;
    use swaplet_core::restart::hot_upgrade::pod::UpgradePodWire;
    use swaplet_core::restart::hot_upgrade::sidecar_set::{
        HotContainer, SidecarSet, UpdateStrategy,
    };

    use super::super::{Kept, Selected};
    use super::*;
    use crate::frame::watch::Event;

    const HALF: usize = MOST_PODS / 2;

    static SOME: LazyLock<UpgradePod> = LazyLock::new(|| {
        let containers = [json!({"name": "mesh-1", "image": "mesh:1"})];
        let pod = json!({"metadata": {"name": "p", "namespace": "n", "uid": "p"}, "spec": {"containers": containers}});
        let wire: UpgradePodWire = serde_json::from_value(pod).unwrap();
        wire.read().unwrap().for_update(&Selector::default())
    });

    fn of(namespace: &str, number: usize) -> UpgradePod {
        UpgradePod {
            namespace: namespace.into(),
            uid: format!("{namespace}-{number}").into(),
            ..SOME.clone()
        }
    }

    #[test]
    fn one_namespace_leaves_places_to_others_and_what_is_left_out_is_known_until_a_new_list() {
        let mut pods = Pods::default();
        (0..MOST_PODS).for_each(|number| pods.keep(of("greedy", number), false));
        assert_eq!(pods.by_uid.len(), HALF);
        assert!(pods.are_left_out && !pods.have_room);
        for number in 0..3 {
            pods.keep(of("modest", number), false);
            pods.keep(of("modest", number), false);
        }
        assert_eq!(pods.by_uid.len(), HALF + 3);
        pods.forget("unknown");
        assert!(!pods.have_room);
        (0..9).for_each(|number| pods.forget(&format!("greedy-{number}")));
        assert!(pods.are_left_out && pods.have_room);
        pods.begin_list();
        assert!(!pods.are_left_out && !pods.have_room);
        pods.keep(of("greedy", MOST_PODS), false);
        assert!(!pods.are_left_out && pods.by_uid.contains_key("greedy-20000"));
        (0..3).for_each(|number| pods.forget(&format!("modest-{number}")));
        assert!(!pods.taken.contains_key("modest") && !pods.have_room);
    }

    fn set() -> SidecarSet {
        let container = HotContainer {
            name: "mesh".into(),
            image: "mesh:2".into(),
            empty: "park:1".into(),
        };
        SidecarSet {
            name: "set".into(),
            uid: "set".into(),
            version: "1".into(),
            generation: 1,
            pods: Some(Selector::default()),
            namespaces: Selector::default(),
            containers: vec![container],
            update: UpdateStrategy::default(),
            problems: Vec::new(),
            status: Value::Null,
        }
    }

    /// Lists these pods of one namespace.
    fn lists(kept: &mut Kept, selected: &Selected, numbers: RangeInclusive<usize>) {
        kept.observe(selected, Event::ListStart);
        for number in numbers {
            kept.observe(selected, Event::Listed(Some(of("greedy", number))));
        }
        kept.observe(selected, Event::ListEnd);
    }

    fn selected(kept: &Kept) -> Selected {
        kept.selected().next().unwrap().clone()
    }

    #[test]
    fn pods_that_were_left_out_are_listed_again_after_others_are_gone() {
        let everywhere: [Box<str>; 1] = [Box::default()];
        let after = |seconds| Moment::after_start(Duration::from_secs(seconds));
        let hour = after(3600);
        let mut kept = Kept::new(set(), &everywhere, Moment::START);
        let first = selected(&kept);
        lists(&mut kept, &first, 0..=HALF);
        assert!(kept.pods.are_left_out && !kept.lists_again(hour));
        kept.observe(&first, Event::Deleted(Some(of("greedy", 0))));
        assert!(!kept.lists_again(after(9)), "not so soon");
        assert!(kept.lists_again(hour));
        let second = selected(&kept);
        assert_ne!(first, second, "another watch");
        assert!(!kept.observe(&first, Event::Listed(Some(of("modest", 0)))));
        lists(&mut kept, &second, 1..=HALF);
        assert_eq!(kept.pods.by_uid.len(), HALF);
        assert!(!kept.pods.are_left_out && !kept.lists_again(after(7200)));
        // A change that leaves the selectors as they are begins no other one.
        kept.apply(set(), &everywhere, hour);
        assert_eq!(selected(&kept), second);
    }
}
